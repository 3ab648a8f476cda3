/* handle.h: what is behind a renderq *, and how a statement gets to the database and is repeated. Core only. */
#ifndef RQ_HANDLE_H
#define RQ_HANDLE_H

#include <sys/types.h>

#include "driver.h"

/* A claim whose reply was lost and that was not found: it may still take effect. The next claims look for it until
 * its lease would have ended. */
typedef struct rq_ghost {
    rq_guid token;
    char *queue;            /* NULL: this place is free */
    int64_t until_ms;
} rq_ghost;

#define RQ_GHOSTS_MAX 8

/* When this handle last sent run-out leases of a queue back. */
typedef struct rq_reap_time {
    char *queue;
    int64_t at_ms;
} rq_reap_time;

#define RQ_REAP_TIMES_MAX 16

typedef enum rq_tx_state {
    RQ_TX_NONE,
    RQ_TX_OURS,                     /* of renderq_begin() or renderq_receive() */
    RQ_TX_CALLERS,                  /* the caller's own, on an attached connection */
    RQ_TX_GONE                      /* there was one, and the server has ended it */
} rq_tx_state;

/* What is known of the connection's transaction. See transaction.c. */
typedef struct rq_tx {
    rq_tx_state state;
    bool callers;                   /* GONE: it was the caller's */
    renderq_status ended_by;        /* GONE: the failure that ended it, as in rq_conn */
    int64_t id;                     /* of the caller's, as the driver tells them apart */
    char *queue;                    /* of the job that was received in it; NULL: none was */
    rq_guid job, token;
} rq_tx;

struct renderq {
    const rq_driver *driver;
    rq_conn *conn;                  /* NULL: not connected; the next statement connects */
    bool attached;                  /* to a connection of the caller's: never connected anew */
    bool in_transaction;            /* ... of which every call must find the transaction that the first one saw */
    rq_tx tx;
    rq_session session;
    rq_url url;
    rq_error error;
    rq_stop stop;
    rq_queue queue;                 /* where a call names none */
    char *worker, *password, *queue_text;
    int retry_s;
    pid_t pid;                      /* of the process that opened it */
    bool ready;                     /* open succeeded */
    void (*log)(renderq_log_level level, const char *line, void *arg);
    void *log_arg;
    rq_guid_order order;
    int64_t opened_at_ms;
    rq_ghost ghosts[RQ_GHOSTS_MAX];
    rq_reap_time reap_times[RQ_REAP_TIMES_MAX];
};

/* renderq_open() with the driver given: what the tests wrap. */
renderq_status rq_open_with(const rq_driver *driver, const char *url, const renderq_options *options, renderq **out);
renderq_status rq_attach_with(const rq_driver *driver, const char *scheme, void *connection,
                              const renderq_options *options, renderq **out);

/* renderq_open() in two steps. The first one makes a handle that its statements connect, as after a link that broke; the
 * second connects it, and tells why that cannot be. */
renderq_status rq_open_later(const char *url, const renderq_options *options, renderq **out);
renderq_status rq_open_now(renderq *h);

/* What a call is. */
enum {
    RQ_JOINS = 0,                   /* in a transaction it is part of that */
    RQ_ALONE = 1,                   /* it has transactions of its own: INVALID in one */
    RQ_RECEIVES = 2,                /* ... unless it is the caller's own */
    RQ_ENDS = 4,                    /* it ends the transaction, so that one that is gone is its own affair */
    RQ_WAITS = 8                    /* it waits, and so also hears an interrupt that came before it */
};

/* The first thing that every public call does: a handle that can be used, in the process that opened it, and a
 * transaction that allows the call. */
renderq_status rq_enter(renderq *h, int call);

/* -- transaction.c -- */

/* Finds out how the call stands to the connection's transaction. */
renderq_status rq_tx_enter(renderq *h, int call);

/* What a failed statement means for the transaction it ran in: a link that broke, or an outcome that nobody knows, is
 * the end of it, and the answer ABORTED. */
renderq_status rq_tx_fault(renderq *h, renderq_status status);

/* Begins one, asking once. */
renderq_status rq_tx_begin(renderq *h);

/* Undoes it and forgets it, whatever is left of it. */
renderq_status rq_tx_undo(renderq *h);

/* The transaction knows this job from now on as the one that was received in it. The queue's name is the
 * transaction's to free. */
renderq_status rq_tx_remember(renderq *h, char *queue, const rq_guid *job, const rq_guid *token);

/* Whether this is the job that was received in the open transaction. */
bool rq_tx_received(const renderq *h, const rq_guid *job);

/* What became of a received job's transaction that is over, when nobody knows its end: OK: it was committed; ABORTED: it
 * was not, and the lease stands; LOST: the job is not ours any more; UNCERTAIN: its row could not be asked. */
renderq_status rq_tx_find_out(renderq *h, const char *name, const rq_guid *job, const rq_guid *token);

/* Refuses a call on the job that was received. */
renderq_status rq_tx_refuse_received(renderq *h, const rq_guid *job, const char *id);

/* The end of a call that runs a transaction's last statement: closes a link that broke. */
void rq_drop_broken(renderq *h, renderq_status status);

/* Sets the handle's text; its value is the status. */
#define rq_fault(h, status, ...) rq_error_set(&(h)->error, (status), 0, __VA_ARGS__)

/* The same for an answer of the engine's that makes no sense: it leaves open what was done. */
#define rq_senseless(h, what) \
    rq_fault((h), RENDERQ_UNCERTAIN, "the engine's answer makes no sense (%s); it may have happened", (what))

void rq_log(renderq *h, renderq_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Copies an options struct of any age into ours (size bytes at `into`, which begins with its size): what ours lacks
 * must be zero there, what theirs lacks is zero here. theirs NULL: all zero. `what` names it in the text. */
renderq_status rq_take_struct(renderq *h, const char *what, const void *theirs, void *into, size_t size);

/* The same where there is no handle yet. */
renderq_status rq_take_options(rq_error *error, const char *what, const void *theirs, void *into, size_t size);

/* Item i of an array of such structs, which steps by the size of its first. */
renderq_status rq_take_item(renderq *h, const char *what, const void *array, size_t i, void *into, size_t size);

/* The same the other way: fills as much of the caller's struct (or item i of an array) as it has, but for its size,
 * which was checked on the way in. */
void rq_give_item(void *array, size_t i, const void *ours, size_t size);

/* Finds out which queue is meant: NULL is the URL's; another name is parsed into *room. */
renderq_status rq_which_queue(renderq *h, const char *name, rq_queue *room, const rq_queue **out);

/* Connects, unless it is connected. */
renderq_status rq_connect(renderq *h);

/* Runs a statement, connecting first where that is needed; a link that broke is closed. In a transaction that is the
 * end of it. */
renderq_status rq_run(renderq *h, const rq_queue *queue, rq_statement_id id, const rq_value *values, size_t n,
                      rq_row_fn row, void *arg);

/* A row function for a statement of one item, whose row says that it matched: *(bool *)arg becomes true. */
renderq_status rq_take_matched(void *arg, size_t item, const rq_value *columns);

/* One call's tries. After each, rq_again() says whether to ask again: the link broke and there is time. */
typedef struct rq_try {
    int64_t until_ms;
    unsigned count;
    int busy;               /* tries that ended BUSY */
    bool maybe;             /* a request of this call was sent and its reply lost: look before you trust a row */
    bool loose;             /* ... and the server may be at it still: that no row tells of it proves nothing */
    bool interrupted;       /* why there was no other try */
} rq_try;

rq_try rq_first_try(const renderq *h);

/* Waits before a repeat. False: *status is what the call answers; UNCERTAIN where an earlier try may have counted. */
bool rq_again(renderq *h, rq_try *tries, renderq_status *status);

/* After the last try: an interrupt ended the call, and the link stands, so there may be one look at the row. A row that
 * is found is an answer. That none is, is one unless a try is loose; whatever else comes of the look leaves it open. */
bool rq_can_look(const renderq *h, const rq_try *tries, renderq_status status);

/* 32 fresh random bits, for jitter. */
uint32_t rq_jitter(void);

#endif
