/* routes.h: which paths there are, and what a path means. */
#ifndef CONTROLLER_ROUTES_H
#define CONTROLLER_ROUTES_H

#include "exchange.h"

struct service;

typedef struct route {
    const char *method, *path;          /* {id} stands for a job's */
    route_id id;
    bool queued;                        /* about one queue: the path is behind /v1, or /v1/queues/{queue} */
    bool open;                          /* it needs no token */
} route;

/* Finds the route of the exchange's path and method, and with it the queue and the job's id. NULL: it is answered. */
const route *route_find(struct service *s, exchange *x);

/* Prints them all, a line each: "POST /v1/next". */
void routes_print(void);

#endif
