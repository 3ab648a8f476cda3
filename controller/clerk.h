/* clerk.h: the thread of one queue: it hands jobs out of a cache that it tops up, and does the quick calls on single
 * jobs. What has come in while it was at work is done together: one statement for all hand-outs that wait, one
 * transaction for all completes. */
#ifndef CONTROLLER_CLERK_H
#define CONTROLLER_CLERK_H

#include <pthread.h>
#include <renderq.h>

#include "exchange.h"
#include "tray.h"
#include "settings.h"
#include "tally.h"

struct service;

#define ENDED_MAX 4096

/* A lease that was ended here, so that a repeat after a lost answer hears the same. */
typedef struct ended {
    renderq_id id, lease;
    route_id route;
    bool maybe;                         /* that was UNCERTAIN: the row tells */
    int retry_count;                    /* of the job under this lease */
} ended;

/* Jobs claimed ahead: leased, unstarted. */
typedef struct store {
    renderq_job *jobs[CACHE_MAX];       /* in the order they are handed out */
    size_t n;
    bool used;                          /* since the leases were renewed last */
    int64_t keep_at_ms;                 /* when to renew or release them */
    int64_t ask_at_ms;                  /* the queue was empty: not before then */
    unsigned empty_reads;
} store;

typedef struct clerk {
    struct service *service;
    const char *queue;
    pthread_t thread;
    tray tray;
    renderq *h;                         /* NULL: not opened yet */
    pthread_mutex_t handle_lock;        /* of h for clerk_interrupt() */
    tally tally;

    exchange *waiting, **waiting_end;   /* for a job, the first come first */
    bool fresh;                         /* some of them have not seen an answer of the queue yet */
    store store;
    int64_t away_until_ms;              /* the database is away: not asked before then */
    renderq_status away_status;
    char away_text[512];
    int64_t said_ms;
    ended ended[ENDED_MAX];
    size_t n_ended;                     /* all that ever were */

    size_t cached, waits;               /* atomic: for others to read */
} clerk;

void clerk_init(clerk *c, struct service *s, const char *queue);
bool clerk_start(clerk *c);

/* Stops it: those who wait hear that there is no job, what is in the line is done, the cache is given back. */
void clerk_stop(clerk *c);
void clerk_join(clerk *c);
void clerk_interrupt(clerk *c);         /* ends the library's call that is running, from any thread */

/* ---- between clerk.c, store.c and calls.c ---- */

/* Whether the database may be asked, with the handle open. False: c->away_status and away_text are the answer. */
bool clerk_ready(clerk *c);

/* What a call of the library said; remembers that the database is away. Returns `status`. */
renderq_status clerk_heard(clerk *c, renderq_status status);

/* The same for a status that only means this where it came from. */
renderq_status clerk_away(clerk *c, renderq_status status);

void clerk_answer_away(const clerk *c, exchange *x);

/* store.c: hands out what can be; the others wait on. Returns when to come again. */
int64_t store_serve(clerk *c, exchange *fresh);
void store_answer_waiting(clerk *c);    /* there is no job for any of them */
void store_release(clerk *c);           /* gives all of the cache back */
void store_hint(clerk *c);              /* there may be jobs again */
void store_give_back(clerk *c, renderq_job *job);   /* one that was handed out and that nobody got; takes it over */

/* calls.c: does everything but hand-outs; takes the list over. */
void calls_serve(clerk *c, exchange *first);

#endif
