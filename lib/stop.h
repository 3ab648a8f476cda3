/* stop.h: how a call is ended from another thread or a signal handler, and how the library sleeps meanwhile. */
#ifndef RQ_STOP_H
#define RQ_STOP_H

#include <stdbool.h>
#include <stdint.h>

/* The owner of a handle begins each call, asks rq_stop_raised() now and then and sleeps in rq_stop_sleep();
 * anybody may call rq_stop_raise(), which is async-signal-safe. One raise ends one call. */
typedef struct rq_stop {
    unsigned raised;        /* counts raises; written by anybody, atomically */
    unsigned floor;         /* raises up to here do not concern the call that runs */
    unsigned seen;          /* raises up to here have been answered */
    int pipe[2];            /* wakes a sleeper; -1 before rq_stop_open() */
} rq_stop;

/* Returns 0, or errno. */
int rq_stop_open(rq_stop *stop);
void rq_stop_close(rq_stop *stop);

void rq_stop_raise(rq_stop *stop);

/* A call that waits also hears a raise that came before it, when nothing ran; others only what comes now. */
void rq_stop_begin(rq_stop *stop, bool waits);
bool rq_stop_raised(const rq_stop *stop);

/* The call is going to answer INTERRUPTED: every raise so far is answered. */
void rq_stop_answer(rq_stop *stop);

/* A call that calls back sets its own hearing aside meanwhile. Afterwards it hears what the calls made there did not
 * answer. */
typedef struct rq_stop_mark {
    unsigned floor, seen;
} rq_stop_mark;

rq_stop_mark rq_stop_set_aside(const rq_stop *stop);
void rq_stop_take_up(rq_stop *stop, rq_stop_mark mark);

/* Sleeps for that long, or until a raise: then it returns true. */
bool rq_stop_sleep(rq_stop *stop, int64_t ms);

#endif
