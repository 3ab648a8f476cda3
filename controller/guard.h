/* guard.h: who may ask: the Host header, the bearer token, pages of other origins, the form token. */
#ifndef CONTROLLER_GUARD_H
#define CONTROLLER_GUARD_H

#include "exchange.h"
#include "routes.h"

struct service;

/* Whether the service is meant by the Host header. False: it is answered. */
bool guard_host(const struct service *s, exchange *x);

/* Whether the request may go on to its route. False: it is answered. */
bool guard_route(const struct service *s, exchange *x, const route *r);

/* 32 random hexadecimal digits. */
void guard_random(char out[33]);

#endif
