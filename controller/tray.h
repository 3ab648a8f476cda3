/* tray.h: exchanges that wait for a thread, in a queue that it sleeps on. */
#ifndef CONTROLLER_TRAY_H
#define CONTROLLER_TRAY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "exchange.h"

typedef struct tray {
    pthread_mutex_t lock;
    pthread_cond_t rung;
    exchange *first, **end;
    bool bell, stop;
} tray;

void tray_init(tray *l);

/* Puts an exchange at the end. False: the line is stopped, and the exchange stays the caller's. */
bool tray_add(tray *l, exchange *x);

/* Wakes the thread. */
void tray_ring(tray *l);

/* No exchange gets in any more; tray_take() says so once the line is empty. */
void tray_stop(tray *l);

/* All that wait, in their order; NULL if nobody came until then (on clock_ms(); INT64_MAX: for ever), or somebody
 * rang. *stop: the line is stopped, and this is the last of it. */
exchange *tray_take(tray *l, int64_t until_ms, bool *stop);

#endif
