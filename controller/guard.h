/* guard.h: who may ask: the Host header, the bearer token, pages of other origins, the form token. */
#ifndef CONTROLLER_GUARD_H
#define CONTROLLER_GUARD_H

#include "exchange.h"
#include "routes.h"

struct service;

/* Whether the service is meant by the request's host. False: it is answered. */
bool guard_host(const struct service *s, exchange *x);

/* Whether the client has a token, or its route (NULL: none was found) needs none. False: it is answered, whatever was
 * answered before: who has none learns nothing of what there is. */
bool guard_token(const struct service *s, exchange *x, const route *r);

/* Whether a request with a token may go on to its route. False: it is answered. */
bool guard_route(const struct service *s, exchange *x, const route *r);

/* 32 random hexadecimal digits. */
void guard_random(char out[33]);

#endif
