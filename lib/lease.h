/* lease.h: statements that are fenced by a job's lease, and how a repeat of one finds out what became of it. */
#ifndef RQ_LEASE_H
#define RQ_LEASE_H

#include "handle.h"

/* A statement for n items of one queue. Where it matches no row although an earlier try may have counted, the look-up
 * decides: a row it finds is our own success. `look` is RQ_STATEMENTS where a repeat matches again by itself. */
typedef struct rq_fenced {
    const rq_queue *queue;
    rq_statement_id ask, look;
    const rq_value *ask_values, *look_values;
    size_t n;
    bool *matched;              /* out: n of them */
    rq_row_fn row;              /* what else to do with a row, or NULL */
    void *arg;
} rq_fenced;

/* OK whatever matched; `matched` has that. */
renderq_status rq_run_fenced(renderq *h, rq_fenced *fenced);

/* Gives a job back: release, for those who hold its id and token. *matched false: it is not ours any more. */
renderq_status rq_release(renderq *h, const rq_queue *queue, const rq_guid *id, const rq_guid *token, int retry_count,
                          int64_t delay_ms, bool *matched);

#endif
