/* live.h: what renderq work shows on a terminal while it works: a line at the bottom that says how it goes. Whatever
 * else is written meanwhile goes through here, so that the two do not mix. Elsewhere it shows nothing. */
#ifndef CLI_LIVE_H
#define CLI_LIVE_H

#include <pthread.h>
#include <renderq.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli.h"

#define LIVE_SECONDS 10             /* the rate is that of so many */

typedef struct live {
    cli *c;                         /* its handle is for this alone */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool on;                        /* there is a terminal */
    bool shown, mid_line, over;
    int64_t began_ms, running, done, failed, given_back, lost;
    int64_t ended[LIVE_SECONDS];    /* jobs done in each of the last seconds */
    int64_t second;                 /* the one that is counted now */
    int64_t queued;                 /* -1: not known */
} live;

void live_begin(live *l, cli *c);
/* On a terminal a thread of its own begins, with a connection of its own. */
void live_show(live *l);
void live_end(live *l);

/* Counts an event, and (running: 1 or -1) the programs that run. */
void live_count(live *l, const renderq_event *event);
void live_running(live *l, int running);

/* Between these, anything may be written, whole lines at a time. Not nested. */
void live_open(live *l);
void live_close(live *l);

/* As write(), to standard error, with whatever it is in. */
ssize_t live_write(live *l, const char *bytes, size_t len);

#endif
