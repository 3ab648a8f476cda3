/* fence.h: statements that are fenced by a job's id and token, for one job or many of one queue. */
#ifndef RQ_FENCE_H
#define RQ_FENCE_H

#include "check.h"
#include "handle.h"

/* A statement for n items of one queue. Where it matches no row although an earlier try may have counted, the look-up
 * decides: a row it finds is our own success. `look` is RQ_STATEMENTS where a repeat matches again by itself. */
typedef struct rq_fenced {
    const rq_queue *queue;
    rq_statement_id ask, look;
    const rq_value *ask_values, *look_values;
    const rq_value *others;     /* n tokens that the rows may carry instead, absent where none; or NULL. See rq_other() */
    size_t n;
    bool *matched;              /* out: n of them */
    bool maybe;                 /* an earlier call's request for the same may have counted */
    rq_row_fn row;              /* what else to do with a row, or NULL */
    void *arg;
    bool others_turn;           /* the rows that come now have the other token */
} rq_fenced;

/* OK whatever matched; `matched` has that. */
renderq_status rq_run_fenced(renderq *h, rq_fenced *fenced);

/* The token that the job's row carries if its last hand-out took effect, of which the reply was lost; absent where there
 * was none. */
rq_value rq_other(const renderq_job *job);

/* LOST, with its text. */
renderq_status rq_lost(renderq *h, const char *id);

/* -- many jobs; one is a batch of one -- */

#define RQ_ASK_MAX 5            /* values of an item, at most */

typedef struct rq_batch_item {
    const renderq_job *job;
    rq_lease lease;
    rq_guid fresh;              /* start: the token of a hand-out */
    bool by_other;              /* the row has the other token */
    int64_t lease_ms, started_at_ms, locked_at_ms;      /* what the row says */
} rq_batch_item;

typedef struct rq_batch {
    size_t n;
    rq_batch_item *items;
    rq_value *ask, *look;       /* n * params of the statement, n * 2 */
    bool *matched;
    bool maybe;                 /* see rq_fenced */
    rq_statement_id statement, look_statement;
    rq_queue room;
    const rq_queue *queue;      /* the first job's, and so all of theirs */
    const rq_fenced *fenced;    /* while it runs */
    int64_t asked_ms;
} rq_batch;

renderq_status rq_batch_new(renderq *h, rq_batch *b, rq_statement_id statement, rq_statement_id look, size_t n);
void rq_batch_free(rq_batch *b);

/* Refuses an array that is NULL, and one with more jobs than a call takes. */
renderq_status rq_batch_check(renderq *h, const void *array, size_t n);

/* Takes job i: its lease, and the queue, which must be the first one's. */
renderq_status rq_batch_take(renderq *h, rq_batch *b, size_t i, const char *where, const renderq_job *job);

/* The values of item i. */
rq_value *rq_batch_ask(const rq_batch *b, size_t i);

/* Texts name the item of a batch, but not the one of a call for one job. */
void rq_batch_name(char *where, size_t size, size_t i, size_t n);

/* OK, or LOST when at least one job is not the caller's any more. */
renderq_status rq_batch_run(renderq *h, rq_batch *b, rq_row_fn row);

/* A row function: the lease that the row says. */
renderq_status rq_batch_read_lease(void *arg, size_t i, const rq_value *columns);

/* What each item is told: its own answer where there is one, else the call's. */
renderq_status rq_batch_status(const rq_batch *b, size_t i, renderq_status status);
void rq_batch_give_statuses(renderq_status *each, const rq_batch *b, renderq_status status);

/* The job learns its new lease, and which token it has. */
void rq_batch_give_lease(renderq_job *job, const rq_batch *b, size_t i);

#endif
