/* worker.h: what is behind a renderq_worker * and a renderq_task *, for lib/worker*.c. How threads and connections
 * relate is told at the top of worker.c. */
#ifndef RQ_WORKER_H
#define RQ_WORKER_H

#include <pthread.h>

#include "job.h"

typedef enum rq_task_state {
    RQ_TASK_FREE,           /* no job; in the list of spare tasks, or nobody's */
    RQ_TASK_AHEAD,          /* claimed unstarted, waits for its turn */
    RQ_TASK_READY,          /* started, waits for a thread, which should be at once */
    RQ_TASK_RUNNING,
    RQ_TASK_FINISHED,       /* the queue is to be told */
    RQ_TASK_SENDING         /* the poller is telling it */
} rq_task_state;

#define RQ_REAP_BUSY_MS 60000       /* how often a busy worker reaps, at most; see worker_claim.c */

/* What the queue is told about a finished job. */
typedef enum rq_word { RQ_SAY_COMPLETE, RQ_SAY_FAIL, RQ_SAY_RELEASE } rq_word;

typedef struct rq_verdict {
    rq_word word;
    renderq_event_type event;       /* once the queue has heard it */
    const char *text;               /* the output URL, or the message; or NULL */
    int64_t delay_ms;
} rq_verdict;

struct renderq_task {
    renderq_worker *worker;
    renderq_job *job;
    renderq *handle;                /* in transactional mode, the handler's */
    rq_job lease;                   /* id, token and queue once more, for the keeper alone */

    /* Under the worker's lock. */
    rq_task_state state;
    int refs;                       /* of the list of jobs in hand, the handler, the keeper; the last one frees it */
    renderq_task *next;             /* in the queue of its state */
    renderq_task *before, *after;   /* among the jobs in hand */
    bool in_hand;
    bool gone;                      /* lost for certain: somebody else ended the lease */
    bool told;                      /* that it takes too long, as an event */
    bool given_up;                  /* its handler is not waited for any longer: what it returns does not count */
    bool late;                      /* ... because it took too long */
    bool unbegun;                   /* given back before a handler began */
    bool left_out;                  /* a progress of it was refused, as was said */
    char *progress;                 /* not sent yet */
    int64_t renewed_at_ms;          /* when its lease began last */
    int64_t began_ms, ended_ms;     /* its handler; 0: not yet */

    /* Read by anybody at any time, so atomic. */
    int64_t lease_ends_ms;
    int64_t deadline_ms;            /* INT64_MAX: none */
    int lost;

    /* The handler's until it has returned, then the poller's. */
    renderq_outcome outcome;
    char *output_url, *message;
    const char *no_message;         /* said instead of a message that there was no memory for */
    int64_t fail_ms, retry_ms;      /* delays, each of the call of that name */

    /* The poller's. */
    rq_verdict verdict;
    bool maybe;                     /* told before, and the reply was lost */
};

typedef struct rq_task_queue {
    renderq_task *first, **last;
    size_t n;
} rq_task_queue;

/* A connection, and whether it can be used just now. */
typedef struct rq_link {
    renderq *h;
    const char *name;               /* for the log */
    bool away;
    unsigned tries;                 /* that failed in a row */
    int64_t try_at_ms;              /* not before */
} rq_link;

/* A thread that handlers run in. */
typedef struct rq_thread {
    renderq_worker *worker;
    pthread_t id;
    rq_link link;                   /* in transactional mode, its own connection */
    bool connecting, in_handler, ended;     /* under the worker's lock */
    bool left;                      /* in a handler that does not return */
} rq_thread;

struct renderq_worker {
    renderq_worker_options options; /* with its own copies, and the defaults filled in */
    renderq_options connection;
    char *url, *queue, *usual_queue, *name, *password;   /* usual: the connection's */
    bool ready_to_run;
    pid_t pid;                      /* of the process that made it */
    char too_long[80];              /* the message of a job that took too long */
    rq_error error;

    pthread_mutex_t lock;           /* of all below down to the next word; held for moments, never in a call */
    pthread_cond_t work;            /* there is something ready, or it is over */
    rq_task_queue ahead, ready, finished, spare;
    renderq_task *in_hand;
    size_t n_in_hand;
    size_t n_running;               /* threads that are in a handler */
    size_t n_given_up;              /* ... which is not waited for */
    size_t n_asleep;                /* threads that wait for work */
    bool over;                      /* threads are to end */
    bool keeper_gone;
    bool poller_asleep;
    bool bursting;                  /* handlers take next to no time; see worker_claim.c */
    int refs;                       /* the program, and threads that are still in a handler */
    rq_thread *asking;              /* transactional: the thread that asks for a job, or NULL */
    bool hushed;                    /* ... which was interrupted */
    bool stale;                     /* ... and a job came to its end meanwhile, which may have put another one in */
    size_t n_untold;                /* jobs that the queue could not be told of, and that are not in hand any more ... */
    rq_error untold;                /* ... and why not the last one */
    int64_t average_us;             /* how long handlers took lately */

    pthread_mutex_t callbacks;      /* one log or event at a time */
    int64_t away_since_ms;          /* under `callbacks`; links that are away: */
    int n_away;
    bool mute;                      /* under `callbacks`: the worker was freed, and nobody is called any more */

    rq_stop wake;                   /* wakes the poller */
    rq_stop wake_keeper;
    int stops;                      /* how often a stop was asked for; atomic */
    int64_t tell_at_ms;             /* when handlers are told to stop because that was asked for; INT64_MAX: not yet;
                                       atomic */
    int64_t give_up_at_ms;          /* ... because the queue cannot be used in this run; atomic */

    /* The poller's. */
    rq_thread threads[RENDERQ_THREADS_MAX];
    size_t n_threads;
    size_t n_left;                  /* threads that the last run left in a handler */
    rq_link poll, keep;             /* the second one is the keeper's */
    rq_queue room;                  /* the queue, parsed */
    const rq_queue *where;
    renderq_status fatal;           /* why no more jobs are claimed; atomic */
    int64_t taken;
    int64_t claim_at_ms, reap_idle_at_ms, reap_busy_at_ms;
    bool not_reaped;                /* the last reap was refused, as was said */
    int64_t idle_since_ms;          /* -1: there are jobs in hand */
    int64_t empty_at_ms;            /* when a claim found nothing last. (transactional: all of these under the lock) */
    unsigned empty_reads;
    rq_task_queue unsent;           /* could not be sent, and will be tried again */
};

#define rq_worker_fault(w, status, ...) rq_error_set(&(w)->error, (status), 0, __VA_ARGS__)

/* ---- worker_task.c: a job in a handler's hands ---- */

void rq_task_push(rq_task_queue *queue, renderq_task *task);
void rq_task_push_first(rq_task_queue *queue, renderq_task *task);
renderq_task *rq_task_pop(rq_task_queue *queue);            /* NULL: there is none */

/* So many spare tasks, so that a claim finds room; false: out of memory. Under the lock. */
bool rq_task_provide(renderq_worker *w, size_t n);

/* A spare task becomes that of a claimed job, and is in hand. Under the lock. */
renderq_task *rq_task_take(renderq_worker *w, renderq_job *job);

/* Out of the jobs in hand. Under the lock. */
void rq_task_drop(renderq_task *task);
void rq_task_release(renderq_task *task);                   /* one reference less; under the lock */

void rq_task_set_lease(renderq_task *task, const renderq_job *job);     /* it began anew; under the lock */

/* Lost for certain, or its handler was told so. */
bool rq_task_is_lost(const renderq_task *task);

/* ---- worker_say.c: log and events ---- */

void rq_worker_log(renderq_worker *w, renderq_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void rq_worker_event(renderq_worker *w, renderq_event_type type, const renderq_task *task);

/* After each call on a connection: notes whether the database can be used, and when it is tried again. True: the call
 * was answered; false: it may be tried again then. */
bool rq_link_note(renderq_worker *w, rq_link *link, renderq_status status);
bool rq_status_passes(renderq_status status);

/* Whether one of the jobs in the last call may be why it was refused, so that the others are asked for alone. */
bool rq_link_refused(const rq_link *link, renderq_status status);

/* ---- worker_claim.c: jobs for the threads ---- */

/* Starts and claims jobs for the threads that are free, and sees to leases that have run out. */
void rq_worker_feed(renderq_worker *w);
int64_t rq_worker_feed_at(renderq_worker *w);     /* when next, if nothing happens before */

/* Gives back what was claimed ahead: all, or what has waited too long; with all, what no thread has taken yet, too. */
void rq_worker_give_back(renderq_worker *w, bool all);

/* ---- worker_send.c: results for the queue ---- */

rq_verdict rq_worker_judge(const renderq_worker *w, const renderq_task *task);

/* Tells the queue what has become of the jobs that are finished. What cannot be sent now is kept. */
void rq_worker_send(renderq_worker *w);

/* An event: its handler takes too long, or took. Not under the lock. */
void rq_worker_say_late(renderq_worker *w, renderq_task *task);

/* A line: nothing can be told of the job. */
void rq_worker_say_refused(renderq_worker *w, const renderq_task *task, const rq_link *link, renderq_status status);

/* The job is somebody else's for certain: an event, the first time. The task stays in hand. Not under the lock. */
void rq_worker_lose(renderq_worker *w, renderq_task *task);

/* ---- worker_keep.c, worker_thread.c: the other threads ---- */

void *rq_worker_keep(void *worker);
int64_t rq_worker_third_ms(const renderq_worker *w);    /* of the lease */
void *rq_worker_handle(void *thread);
void rq_worker_call(renderq_worker *w, renderq_task *task);     /* the handler; under the lock, which it leaves */

/* ---- worker_tx.c: the transactional worker ---- */

void *rq_worker_transact(void *thread);
void rq_worker_watch_transactions(renderq_worker *w);   /* until they are all done */
void rq_worker_await_threads(renderq_worker *w);        /* until all have ended that are not left in a handler */

/* ---- worker_poll.c: the poller ---- */

void rq_worker_poll(renderq_worker *w);                 /* until all is done */
int64_t rq_worker_watch(renderq_worker *w);             /* handlers that take too long; when to look again */

/* ---- worker.c ---- */

bool rq_worker_stopped(const renderq_worker *w);        /* a stop was asked for; anybody's */
bool rq_worker_stopping(const renderq_worker *w);       /* no more work is to be begun; anybody's */
int64_t rq_worker_tell_at(const renderq_worker *w);     /* when handlers are told to stop; INT64_MAX: not yet */
bool rq_worker_overdue(const renderq_worker *w);        /* run() should have returned; anybody's */
void rq_worker_give_up(renderq_worker *w, renderq_status why, const char *text);    /* the queue cannot be used */
renderq_status rq_link_make(renderq_worker *w, rq_link *link);          /* its handle, not connected */
void rq_link_connect(renderq_worker *w, rq_link *link);     /* its thread's first word: what refuses it ends the run */
void rq_worker_unref(renderq_worker *w);                /* under the lock, which it leaves */

#endif
