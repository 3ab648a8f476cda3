/* claim.h: one claim, for the calls that make them. */
#ifndef RQ_CLAIM_H
#define RQ_CLAIM_H

#include "job.h"

typedef struct rq_claim {
    renderq *h;
    const rq_queue *queue;
    rq_queue room;
    const char *worker;
    int lease_s;
    int64_t wait_ms;
    int unstarted;              /* 0, 1 or RENDERQ_CAUTIOUS */
    bool no_reap;
    rq_jobs found;
    size_t unread;              /* jobs that the last request leased and whose rows cannot be read */
} rq_claim;

/* Checks the options and fills in the defaults. */
renderq_status rq_claim_take(renderq *h, const renderq_claim_options *options, rq_claim *c);

/* Where the jobs go: at most max of them into `out`. */
void rq_claim_into(rq_claim *c, renderq_job **out, size_t max);

/* Claims what is there, and reaps on the way. EMPTY when nothing is. */
renderq_status rq_claim_once(rq_claim *c);

/* Does that until there is something, for as long as the claim waits, or until an interrupt. */
renderq_status rq_claim_wait(rq_claim *c, renderq_status (*once)(rq_claim *c));

/* The answer to an interrupt that was heard with nothing claimed. */
renderq_status rq_claim_interrupted(renderq *h);

/* Gives a claimed job back, uncounted, by its token; where that fails the handle's next claims do it. Leaves the
 * handle's text as it is. */
void rq_claim_return(const rq_claim *c, const rq_guid *token);

#endif
