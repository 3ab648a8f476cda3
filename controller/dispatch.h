/* dispatch.h: a request that has been read becomes a task for one of the threads. */
#ifndef CONTROLLER_DISPATCH_H
#define CONTROLLER_DISPATCH_H

#include "exchange.h"
#include "tray.h"

struct service;

/* The line that the exchange belongs into. NULL: it is answered, since nothing has to be asked or since it is wrong. */
tray *dispatch(struct service *s, exchange *x);

#endif
