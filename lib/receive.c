/* receive.c: a job taken together with the transaction that it is done in. The claim is committed first, so that its
 * lease and its count outlive a rollback; in the caller's own transaction there is only that. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "claim.h"
#include "clock.h"

/* Completes the claimed job in the transaction that is open. *matched false: the lease is not ours any more. */
static renderq_status complete_inside(rq_claim *c, const rq_lease *lease, bool *matched)
{
    rq_value values[] = { rq_guid_value(&lease->id), rq_guid_value(&lease->token), { .present = false } };
    *matched = false;
    char *queue = strdup(c->queue->text);
    if (!queue)
        return rq_fault(c->h, RENDERQ_NOMEM, "out of memory; nothing was done");
    renderq_status status = rq_run(c->h, c->queue, RQ_COMPLETE, values, 1, rq_take_matched, matched);
    if (status == RENDERQ_OK && *matched)
        return rq_tx_remember(c->h, queue, &lease->id, &lease->token);
    free(queue);
    return status;
}

/* ---- a transaction of ours ---- */

/* Nobody knows of the transaction yet, so its end is told, or tried again, as what ended it. */
static renderq_status ended_by(const renderq *h)
{
    renderq_status status = h->tx.ended_by;
    return status == RENDERQ_OK || status == RENDERQ_UNCERTAIN ? RENDERQ_DISCONNECTED : status;
}

static renderq_status begin_and_complete(rq_claim *c, const rq_lease *lease, bool *matched)
{
    renderq *h = c->h;
    renderq_status status = rq_tx_begin(h);
    if (status == RENDERQ_OK)
        status = complete_inside(c, lease, matched);
    if (status == RENDERQ_OK && *matched)
        return RENDERQ_OK;
    if (status == RENDERQ_ABORTED)
        status = ended_by(h);
    rq_error said = h->error;
    renderq_status undone = rq_tx_undo(h);
    if (status == RENDERQ_OK)
        return undone;
    h->error = said;
    return status;
}

/* The job is claimed; what stops the rest gives it back. */
static renderq_status open_around(rq_claim *c, bool *matched)
{
    renderq *h = c->h;
    rq_lease lease;
    renderq_status status = rq_check_lease(h, NULL, c->found.jobs[0], &lease);
    if (status != RENDERQ_OK)
        return status;
    rq_try tries = rq_first_try(h);
    do
        status = begin_and_complete(c, &lease, matched);
    while (rq_again(h, &tries, &status));
    if (status != RENDERQ_OK)
        rq_claim_return(c, &lease.token);
    if (status != RENDERQ_OK || !*matched)
        rq_jobs_clear(&c->found);
    return status;
}

static renderq_status receive_once(rq_claim *c)
{
    bool matched = false;
    renderq_status status;
    do {
        status = rq_claim_once(c);
        if (status == RENDERQ_OK)
            status = open_around(c, &matched);
    } while (status == RENDERQ_OK && !matched);     /* somebody ended that job meanwhile: the next one */
    return status;
}

/* ---- the caller's transaction ---- */

static renderq_status take_once(rq_claim *c)
{
    renderq *h = c->h;
    rq_lease lease;
    rq_guid token;
    bool matched = false;
    if (!rq_guid_random(&token))
        return rq_fault(h, RENDERQ_FAILED, "the kernel gives no random bytes for a lease token");
    rq_value values[] = { rq_text(c->worker), rq_guid_value(&token), rq_number(c->lease_s) };
    c->found.asked_ms = rq_clock_ms();
    renderq_status status = rq_run(h, c->queue, RQ_TAKE, values, 1, rq_jobs_add, &c->found);
    if (status == RENDERQ_OK && c->found.n == 0)
        return rq_fault(h, RENDERQ_EMPTY, "no job is ready in %.200s", c->queue->text);
    if (status == RENDERQ_OK)
        status = rq_check_lease(h, NULL, c->found.jobs[0], &lease);
    if (status == RENDERQ_OK)
        status = complete_inside(c, &lease, &matched);
    if (status == RENDERQ_OK && !matched)
        status = rq_fault(h, RENDERQ_FAILED, "the job that was taken could not be completed in the same transaction");
    if (status == RENDERQ_OK)
        return status;
    if (h->tx.state == RQ_TX_CALLERS)   /* it stands, and its commit would leave the job leased to nobody */
        rq_claim_return(c, &token);
    rq_jobs_clear(&c->found);
    return status;
}

renderq_status renderq_receive(renderq *h, const renderq_claim_options *options, renderq_job **out)
{
    rq_claim c;
    if (out)
        *out = NULL;
    renderq_status status = rq_enter(h, RQ_WAITS | RQ_RECEIVES);
    if (status != RENDERQ_OK)
        return status;
    if (!out)
        return rq_fault(h, RENDERQ_INVALID, "the pointer for the job is NULL");
    status = rq_claim_take(h, options, &c);
    if (status == RENDERQ_OK && c.unstarted)
        status = rq_fault(h, RENDERQ_INVALID, "a job is received to be worked on at once: unstarted is for claims");
    if (status == RENDERQ_OK && h->tx.queue)
        status = rq_fault(h, RENDERQ_INVALID, "a job was received in this transaction already: commit or roll back "
                          "first");
    if (status != RENDERQ_OK)
        return status;
    rq_claim_into(&c, out, 1);
    if (h->tx.state == RQ_TX_CALLERS && h->driver->reads_snapshots)
        c.wait_ms = 0;
    rq_error before = h->error;
    status = rq_claim_wait(&c, h->tx.state == RQ_TX_CALLERS ? take_once : receive_once);
    if (status == RENDERQ_OK)
        h->error = before;          /* what failed on the way is not this call's */
    return status;
}
