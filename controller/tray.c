/* tray.c: a queue of exchanges. See tray.h. */
#include "tray.h"

#include <errno.h>
#include <time.h>

#include "log.h"

void tray_init(tray *l)
{
    pthread_condattr_t attributes;
    *l = (tray){ .first = NULL };
    l->end = &l->first;
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&l->rung, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool tray_add(tray *l, exchange *x)
{
    pthread_mutex_lock(&l->lock);
    bool open = !l->stop;
    if (open) {
        x->next = NULL;
        *l->end = x;
        l->end = &x->next;
        pthread_cond_signal(&l->rung);
    }
    pthread_mutex_unlock(&l->lock);
    return open;
}

void tray_ring(tray *l)
{
    pthread_mutex_lock(&l->lock);
    l->bell = true;
    pthread_cond_signal(&l->rung);
    pthread_mutex_unlock(&l->lock);
}

void tray_stop(tray *l)
{
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_signal(&l->rung);
    pthread_mutex_unlock(&l->lock);
}

exchange *tray_take(tray *l, int64_t until_ms, bool *stop)
{
    struct timespec until = { .tv_sec = (time_t)(until_ms / 1000), .tv_nsec = (long)(until_ms % 1000) * 1000000 };
    int waited = 0;
    pthread_mutex_lock(&l->lock);
    while (!l->first && !l->bell && !l->stop && waited != ETIMEDOUT)
        waited = until_ms == INT64_MAX ? pthread_cond_wait(&l->rung, &l->lock)
                                       : pthread_cond_timedwait(&l->rung, &l->lock, &until);
    exchange *taken = l->first;
    l->first = NULL;
    l->end = &l->first;
    l->bell = false;
    *stop = l->stop;
    pthread_mutex_unlock(&l->lock);
    return taken;
}
