/* http.h: requests over libmicrohttpd: read within bounds, routed, answered. */
#ifndef CONTROLLER_HTTP_H
#define CONTROLLER_HTTP_H

#include <stdint.h>

#include "exchange.h"

struct service;
typedef struct http http;

/* Listens. NULL: `why` says what is wrong. */
http *http_start(struct service *s, char *why, size_t size);

/* The address it listens on, as a URL. */
const char *http_url(const http *h);

/* From any thread: the exchange is ready, and is the HTTP thread's again. */
void http_resume(exchange *x);

/* The client's socket, for a look at whether it is still there. */
int http_socket(const exchange *x);

/* Cuts off clients that take too long. To be called about once a second. */
void http_sweep(http *h);

/* Takes no new connections. */
void http_quiesce(http *h);

/* Requests that have been read and whose answers are not sent. */
size_t http_pending(const http *h);

/* No exchange may be suspended any more. */
void http_stop(http *h);

/* Answers so far by code, for the metrics: codes 100 to 599. */
int64_t http_answers(unsigned code);

#endif
