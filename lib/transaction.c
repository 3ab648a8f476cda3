/* transaction.c: begin, commit and rollback, and what a handle knows of its connection's transaction. What is said in
 * one is in the other files; the job that is received with one is in receive.c. */
#include <stdlib.h>
#include <string.h>

#include "handle.h"

static void forget(renderq *h)
{
    free(h->tx.queue);
    h->tx = (rq_tx){ .state = RQ_TX_NONE };
    if (h->conn)
        h->conn->guarded = false;
}

static bool is_callers(const renderq *h)
{
    return h->tx.state == RQ_TX_CALLERS || (h->tx.state == RQ_TX_GONE && h->tx.callers);
}

static renderq_status gone(renderq *h)
{
    return rq_fault(h, RENDERQ_ABORTED,
                    is_callers(h) ? "the caller's transaction is gone: nothing was done; renderq_rollback() makes the "
                                    "handle ready for another one"
                                  : "the transaction is gone, and all that was done in it: renderq_rollback() ends it");
}

/* ---- the caller's own, on an attached connection ---- */

/* A received job's row that is not completed was rolled back, and the transaction it was received in is another one. */
static renderq_status forget_if_rolled_back(renderq *h)
{
    rq_queue room;
    const rq_queue *queue;
    bool completed = false;
    rq_value values[] = { rq_guid_value(&h->tx.job), rq_guid_value(&h->tx.token) };
    renderq_status status = rq_which_queue(h, h->tx.queue, &room, &queue);
    if (status == RENDERQ_OK)
        status = rq_run(h, queue, RQ_COMPLETED, values, 1, rq_take_matched, &completed);
    if (status == RENDERQ_OK && !completed) {
        free(h->tx.queue);
        h->tx.queue = NULL;
    }
    return status;
}

/* Looks for the caller's transaction. That does nothing, so a lost reply to it leaves nothing open; nor has one been
 * rolled back where there was none. */
static renderq_status look_for_callers(renderq *h, int64_t *id)
{
    *id = 0;
    renderq_status status = rq_connect(h);
    if (status == RENDERQ_OK)
        status = h->driver->find(h->conn, id);
    rq_drop_broken(h, status);
    bool vain = status == RENDERQ_UNCERTAIN || (status == RENDERQ_ABORTED && h->tx.state == RQ_TX_NONE);
    return vain ? RENDERQ_DISCONNECTED : status;
}

/* The caller may have begun one since, or ended it; so it is looked for each time, unless it must be the first one. */
static renderq_status find_callers(renderq *h)
{
    int64_t id;
    renderq_status status = look_for_callers(h, &id);
    if (status != RENDERQ_OK)
        return status;
    if (id == 0 || id != h->tx.id)
        forget(h);
    h->tx.state = id == 0 ? RQ_TX_NONE : RQ_TX_CALLERS;
    h->tx.id = id;
    h->conn->guarded = id != 0;
    return h->tx.queue && h->driver->find_is_vague ? forget_if_rolled_back(h) : RENDERQ_OK;
}

static renderq_status enter_attached(renderq *h)
{
    if (h->tx.state == RQ_TX_OURS || (h->tx.state == RQ_TX_GONE && (!h->tx.callers || !h->conn)))
        return RENDERQ_OK;
    if (h->in_transaction && h->tx.state != RQ_TX_NONE)
        return RENDERQ_OK;
    renderq_status status = find_callers(h);
    if (status == RENDERQ_OK && h->in_transaction && h->tx.state == RQ_TX_NONE)
        status = rq_fault(h, RENDERQ_ABORTED, "no transaction is open on the connection, and this handle was attached "
                          "to work in one: nothing was done");
    return status;
}

renderq_status rq_tx_enter(renderq *h, int call)
{
    renderq_status status = RENDERQ_OK;
    if (call & RQ_ENDS)
        return RENDERQ_OK;
    if (h->attached)
        status = enter_attached(h);
    if (status != RENDERQ_OK)
        return status;
    if (h->tx.state == RQ_TX_GONE)
        return gone(h);
    bool allowed = h->tx.state == RQ_TX_NONE || !(call & (RQ_ALONE | RQ_RECEIVES))
                   || (h->tx.state == RQ_TX_CALLERS && (call & RQ_RECEIVES));
    return allowed ? RENDERQ_OK
                   : rq_fault(h, RENDERQ_INVALID, "a transaction is open, and this call has one of its own: commit or "
                              "roll back first, or use another handle");
}

/* ---- faults inside ---- */

/* A link that broke is closed by now, and its transaction has ended with it: whatever the statement was answered, the
 * next one would connect anew and stand alone. */
static bool ends_it(const renderq *h, renderq_status status)
{
    if (status == RENDERQ_OK || (h->tx.state != RQ_TX_OURS && h->tx.state != RQ_TX_CALLERS))
        return false;
    if (!h->conn || status == RENDERQ_ABORTED || status == RENDERQ_DISCONNECTED)
        return true;
    /* The caller's still stands, with a statement in it that may have happened: only the caller can roll it back. */
    return status == RENDERQ_UNCERTAIN && h->tx.state == RQ_TX_OURS;
}

renderq_status rq_tx_fault(renderq *h, renderq_status status)
{
    if (!ends_it(h, status))
        return status;
    if (status != RENDERQ_ABORTED) {
        int native = h->error.native;
        rq_error_text(&h->error, native, "the transaction is gone, and all that was done in it: %s", h->error.text);
    }
    h->tx.callers = h->tx.state == RQ_TX_CALLERS;
    h->tx.state = RQ_TX_GONE;
    h->tx.ended_by = status != RENDERQ_ABORTED ? status : h->conn ? h->conn->ended_by : RENDERQ_OK;
    return RENDERQ_ABORTED;
}

renderq_status rq_tx_remember(renderq *h, char *queue, const rq_guid *job, const rq_guid *token)
{
    free(h->tx.queue);
    h->tx.queue = queue;
    h->tx.job = *job;
    h->tx.token = *token;
    bool vague = h->tx.state == RQ_TX_CALLERS && h->driver->find_is_vague;
    return vague ? h->driver->find(h->conn, &h->tx.id) : RENDERQ_OK;
}

bool rq_tx_received(const renderq *h, const rq_guid *job)
{
    return h->tx.queue && memcmp(job->sort, h->tx.job.sort, sizeof job->sort) == 0;
}

renderq_status rq_tx_refuse_received(renderq *h, const rq_guid *job, const char *id)
{
    if (!rq_tx_received(h, job))
        return RENDERQ_OK;
    return rq_fault(h, RENDERQ_INVALID, "job %s was received in this transaction, which completes it: commit, or roll "
                    "back first", id);
}

/* ---- begin and end ---- */

renderq_status rq_tx_begin(renderq *h)
{
    renderq_status status = rq_connect(h);
    if (status == RENDERQ_OK)
        status = h->driver->begin(h->conn);
    rq_drop_broken(h, status);
    if (status == RENDERQ_OK)
        h->tx.state = RQ_TX_OURS;
    /* A transaction whose beginning got lost has ended with its connection, and held nothing. */
    return status == RENDERQ_UNCERTAIN ? RENDERQ_DISCONNECTED : status;
}

renderq_status rq_tx_undo(renderq *h)
{
    renderq_status status = RENDERQ_OK;
    if (h->conn && !is_callers(h))
        status = h->driver->rollback(h->conn);
    rq_drop_broken(h, status);
    if (status != RENDERQ_OK && h->conn && h->attached) {
        h->tx.state = RQ_TX_GONE;       /* what is still open there is not to be committed any more */
        return status;
    }
    if (status != RENDERQ_OK && h->conn) {      /* the end of the connection is the end of the transaction */
        rq_log(h, RENDERQ_LOG_WARNING, "the connection is closed, since it could not roll back: %s", h->error.text);
        h->driver->close(h->conn);
        h->conn = NULL;
    }
    forget(h);
    return RENDERQ_OK;
}

renderq_status renderq_begin(renderq *h)
{
    renderq_status status = rq_enter(h, RQ_ALONE);
    if (status != RENDERQ_OK)
        return status;
    rq_try tries = rq_first_try(h);
    do
        status = rq_tx_begin(h);
    while (rq_again(h, &tries, &status));
    return status;
}

/* Renewing the lease waits for a commit that is still under way, and matches only if there was none. */
renderq_status rq_tx_find_out(renderq *h, const char *name, const rq_guid *job, const rq_guid *token)
{
    rq_queue room;
    const rq_queue *queue;
    bool held = false, completed = false;
    rq_value values[] = { rq_guid_value(job), rq_guid_value(token), { .present = false } };
    renderq_status status = rq_which_queue(h, name, &room, &queue);
    if (status != RENDERQ_OK)
        return RENDERQ_UNCERTAIN;
    rq_try tries = rq_first_try(h);
    tries.maybe = true;
    do {
        held = completed = false;
        status = rq_run(h, queue, RQ_RENEW, values, 1, rq_take_matched, &held);
        if (status == RENDERQ_OK && !held)
            status = rq_run(h, queue, RQ_COMPLETED, values, 1, rq_take_matched, &completed);
    } while (rq_again(h, &tries, &status));
    if (status != RENDERQ_OK || completed)
        return status;
    return held ? rq_fault(h, RENDERQ_ABORTED, "the commit was lost, and nothing of it happened; the lease of the "
                           "received job still stands")
                : rq_fault(h, RENDERQ_LOST, "it may have happened: the reply to the commit was lost, and the "
                           "received job's row has changed since");
}

/* The text is that of the failure before. */
static void undo_quietly(renderq *h)
{
    rq_error said = h->error;
    rq_tx_undo(h);
    h->error = said;
}

static renderq_status commit_ours(renderq *h)
{
    rq_tx tx = h->tx;
    h->tx.queue = NULL;                 /* tx owns it now */
    renderq_status status = h->driver->commit(h->conn);
    rq_drop_broken(h, status);
    if (h->conn && h->conn->guarded)    /* it was not sent */
        undo_quietly(h);
    else
        forget(h);
    if (status == RENDERQ_DISCONNECTED) /* nothing was sent */
        status = rq_fault(h, RENDERQ_ABORTED, "the transaction is gone, and all that was done in it: %s",
                          h->error.text);
    if (status == RENDERQ_UNCERTAIN && tx.queue) {
        rq_stop_answer(&h->stop);       /* what interrupted the commit has done so */
        status = rq_tx_find_out(h, tx.queue, &tx.job, &tx.token);
    }
    free(tx.queue);
    return status == RENDERQ_LOST ? RENDERQ_UNCERTAIN : status;
}

renderq_status renderq_commit(renderq *h)
{
    renderq_status status = rq_enter(h, RQ_ENDS);
    if (status != RENDERQ_OK)
        return status;
    if (h->tx.state == RQ_TX_OURS)
        return commit_ours(h);
    if (h->attached && h->tx.state != RQ_TX_GONE && !(h->in_transaction && h->tx.state == RQ_TX_CALLERS))
        status = find_callers(h);
    if (status != RENDERQ_OK)
        return status;
    if (h->tx.state == RQ_TX_NONE)
        return rq_fault(h, RENDERQ_INVALID, "no transaction is open: renderq_begin() or renderq_receive() begins one");
    if (h->tx.state == RQ_TX_CALLERS)
        return rq_fault(h, RENDERQ_INVALID, "the transaction is the caller's: commit it on the connection itself");
    if (!is_callers(h))
        rq_tx_undo(h);
    return rq_fault(h, RENDERQ_ABORTED, "the transaction was gone, and nothing of it happened");
}

renderq_status renderq_rollback(renderq *h)
{
    renderq_status status = rq_enter(h, RQ_ENDS);
    if (status != RENDERQ_OK || h->tx.state == RQ_TX_NONE)
        return status;
    if (!is_callers(h))
        return rq_tx_undo(h);
    int64_t id = 0;
    if (h->conn)
        status = look_for_callers(h, &id);
    if (h->conn && status != RENDERQ_OK)
        return status;
    if (h->conn && id != 0 && id == h->tx.id)
        return rq_fault(h, RENDERQ_INVALID, "the transaction is the caller's: roll it back on the connection itself");
    forget(h);                          /* of a connection that broke nothing is left */
    return RENDERQ_OK;
}

void *renderq_native(renderq *h)
{
    if (!h || rq_enter(h, RQ_ENDS) != RENDERQ_OK || !h->conn)
        return NULL;
    return h->driver->native(h->conn);
}
