/* fence.c: statements that are fenced by a job's id and token, for one job or many: asked, repeated, and what each job
 * is told. What they are for is in lease.c and start.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "clock.h"
#include "fence.h"
#include "job.h"

/* ---- fenced statements ---- */

static renderq_status mark(void *arg, size_t item, const rq_value *columns)
{
    rq_fenced *fenced = arg;
    fenced->matched[item] = true;
    return fenced->row ? fenced->row(fenced->arg, item, columns) : RENDERQ_OK;
}

static size_t count_matched(const rq_fenced *fenced)
{
    size_t matched = 0;
    for (size_t i = 0; i < fenced->n; i++)
        matched += fenced->matched[i];
    return matched;
}

/* Whether the first item is as it was: leased to the caller. A batch happens wholly or not at all, so one tells. */
static bool still_held(renderq *h, const rq_fenced *fenced)
{
    bool held = false;
    return rq_run(h, fenced->queue, RQ_RESUME, fenced->ask_values, 1, rq_take_matched, &held) == RENDERQ_OK && held;
}

/* What became of a call that was interrupted. Where the rows do not tell, because somebody had the job since or the
 * server is still at an earlier try, it is as uncertain as before. */
static renderq_status look_once(renderq *h, rq_fenced *fenced, const rq_try *tries)
{
    rq_error said = h->error;
    memset(fenced->matched, 0, fenced->n * sizeof fenced->matched[0]);
    renderq_status status = rq_run(h, fenced->queue, fenced->look, fenced->look_values, fenced->n, mark, fenced);
    if (status == RENDERQ_OK && count_matched(fenced) > 0)
        return RENDERQ_OK;
    if (status == RENDERQ_OK && !tries->loose && still_held(h, fenced))
        return rq_fault(h, RENDERQ_INTERRUPTED, "interrupted; nothing was done");
    h->error = said;
    return RENDERQ_UNCERTAIN;
}

rq_value rq_other(const renderq_job *job)
{
    const rq_job *made = (const rq_job *)job;
    return made->maybe_handed ? rq_guid_value(&made->fresh) : (rq_value){ .present = false };
}

/* The same with the other tokens. */
static renderq_status ask_others(renderq *h, rq_fenced *fenced, rq_statement_id id, const rq_value *values)
{
    const size_t step = rq_statements[id].n_params;
    rq_value *copy = malloc(fenced->n * step * sizeof *copy);
    if (!copy)
        return rq_fault(h, RENDERQ_NOMEM, "out of memory for %zu jobs; nothing was done", fenced->n);
    memcpy(copy, values, fenced->n * step * sizeof *copy);
    for (size_t i = 0; i < fenced->n; i++)
        if (fenced->others[i].present)
            copy[i * step + 1] = fenced->others[i];
    fenced->others_turn = true;
    renderq_status status = rq_run(h, fenced->queue, id, copy, fenced->n, mark, fenced);
    fenced->others_turn = false;
    free(copy);
    return status;
}

/* A hand-out that is still under way needs the old token, so that one is asked with first: once its row does not have
 * it, the other one is there or will never be. */
static renderq_status ask(renderq *h, rq_fenced *fenced, rq_statement_id id, const rq_value *values, bool *counted)
{
    renderq_status status = rq_run(h, fenced->queue, id, values, fenced->n, mark, fenced);
    size_t matched = count_matched(fenced);
    if (status != RENDERQ_OK || !fenced->others || matched == fenced->n)
        return status;
    *counted = *counted || matched > 0;
    return ask_others(h, fenced, id, values);
}

renderq_status rq_run_fenced(renderq *h, rq_fenced *fenced)
{
    renderq_status status;
    rq_try tries = rq_first_try(h);
    tries.maybe = tries.loose = fenced->maybe;
    do {
        memset(fenced->matched, 0, fenced->n * sizeof fenced->matched[0]);
        status = ask(h, fenced, fenced->ask, fenced->ask_values, &tries.maybe);
        /* The repeat waits for the first request if the server is still at it, so the look-up sees its outcome. */
        if (status == RENDERQ_OK && tries.maybe && fenced->look != RQ_STATEMENTS && count_matched(fenced) < fenced->n)
            status = ask(h, fenced, fenced->look, fenced->look_values, &tries.maybe);
    } while (rq_again(h, &tries, &status));
    /* With other tokens about, what is found may be an earlier call's doing. */
    if (rq_can_look(h, &tries, status) && fenced->look != RQ_STATEMENTS && !fenced->others)
        status = look_once(h, fenced, &tries);
    if (status != RENDERQ_OK)
        memset(fenced->matched, 0, fenced->n * sizeof fenced->matched[0]);
    return status;
}

renderq_status rq_lost(renderq *h, const char *id)
{
    return rq_fault(h, RENDERQ_LOST,
                    "the lease of job %s is not yours any more: it ran out, or the job was ended; stop working on it",
                    id);
}

/* ---- many jobs of one queue: complete, start, renew. One job is a batch of one. ---- */

renderq_status rq_batch_new(renderq *h, rq_batch *b, rq_statement_id statement, rq_statement_id look, size_t n)
{
    *b = (rq_batch){ .n = n, .statement = statement, .look_statement = look, .items = calloc(n, sizeof *b->items),
                     .ask = calloc(n * RQ_ASK_MAX, sizeof *b->ask), .look = calloc(n * 2, sizeof *b->look),
                     .matched = calloc(n, sizeof *b->matched) };
    return b->items && b->ask && b->look && b->matched
               ? RENDERQ_OK
               : rq_fault(h, RENDERQ_NOMEM, "out of memory for %zu jobs; nothing was done", n);
}

void rq_batch_free(rq_batch *b)
{
    free(b->items);
    free(b->ask);
    free(b->look);
    free(b->matched);
}

rq_value *rq_batch_ask(const rq_batch *b, size_t i)
{
    return b->ask + i * rq_statements[b->statement].n_params;
}

renderq_status rq_batch_take(renderq *h, rq_batch *b, size_t i, const char *where, const renderq_job *job)
{
    rq_batch_item *it = &b->items[i];
    it->job = job;
    renderq_status status = rq_check_lease(h, where, job, &it->lease);
    if (status == RENDERQ_OK && b->statement != RQ_OUTPUT)
        status = rq_tx_refuse_received(h, &it->lease.id, job->id.text);
    if (status == RENDERQ_OK && i == 0)
        status = rq_which_queue(h, job->queue, &b->room, &b->queue);
    else if (status == RENDERQ_OK && strcmp(job->queue, b->queue->text) != 0)
        status = rq_fault(h, RENDERQ_INVALID, "%sits queue is %.200s, and the first job's is %.200s", where,
                          job->queue, b->queue->text);
    rq_batch_ask(b, i)[0] = b->look[2 * i] = rq_guid_value(&it->lease.id);
    rq_batch_ask(b, i)[1] = b->look[2 * i + 1] = rq_guid_value(&it->lease.token);
    return status;
}

renderq_status rq_batch_read_lease(void *arg, size_t i, const rq_value *columns)
{
    const rq_batch *b = arg;
    rq_batch_item *it = &b->items[i];
    it->by_other = b->fenced->others_turn && rq_other(it->job).present;     /* the others are only asked again */
    it->lease_ms = columns[0].number * 1000;
    it->started_at_ms = columns[1].number;
    it->locked_at_ms = columns[2].number;
    return RENDERQ_OK;
}

/* *others is to be freed; NULL: no job has another token. */
static renderq_status take_others(renderq *h, const rq_batch *b, rq_value **others)
{
    bool any = false;
    *others = NULL;
    for (size_t i = 0; i < b->n; i++)
        any = any || rq_other(b->items[i].job).present;
    if (!any)
        return RENDERQ_OK;
    *others = calloc(b->n, sizeof **others);
    if (!*others)
        return rq_fault(h, RENDERQ_NOMEM, "out of memory for %zu jobs; nothing was done", b->n);
    for (size_t i = 0; i < b->n; i++)
        (*others)[i] = rq_other(b->items[i].job);
    return RENDERQ_OK;
}

renderq_status rq_batch_run(renderq *h, rq_batch *b, rq_row_fn row)
{
    rq_value *others;
    renderq_status status = take_others(h, b, &others);
    if (status != RENDERQ_OK)
        return status;
    rq_fenced fenced = { .queue = b->queue, .ask = b->statement, .look = b->look_statement,
                         .ask_values = b->ask, .look_values = b->look, .others = others, .n = b->n,
                         .matched = b->matched, .maybe = b->maybe, .row = row, .arg = b };
    b->asked_ms = rq_clock_ms();
    b->fenced = &fenced;
    status = rq_run_fenced(h, &fenced);
    b->fenced = NULL;
    free(others);
    for (size_t i = 0; i < b->n && status == RENDERQ_OK; i++)
        if (!b->matched[i])
            status = rq_lost(h, b->items[i].job->id.text);
    return status;
}

renderq_status rq_batch_status(const rq_batch *b, size_t i, renderq_status status)
{
    if (status != RENDERQ_OK && status != RENDERQ_LOST)
        return status;
    return b->matched[i] ? RENDERQ_OK : RENDERQ_LOST;
}

renderq_status rq_batch_check(renderq *h, const void *array, size_t n)
{
    if (!array)
        return rq_fault(h, RENDERQ_INVALID, "the array of jobs is NULL");
    if (n > RENDERQ_MANY_MAX)
        return rq_fault(h, RENDERQ_INVALID, "%zu jobs are too many for one call: at most %d", n, RENDERQ_MANY_MAX);
    return RENDERQ_OK;
}

void rq_batch_name(char *where, size_t size, size_t i, size_t n)
{
    where[0] = 0;
    if (n > 1)
        snprintf(where, size, "item %zu: ", i);
}

/* -- what comes back -- */

void rq_batch_give_lease(renderq_job *job, const rq_batch *b, size_t i)
{
    if (!b->matched[i])
        return;
    rq_job *made = (rq_job *)job;
    if (b->items[i].by_other) {
        rq_guid_print(&made->fresh, &job->lease);
        made->maybe_handed = false;
    }
    job->locked_at_ms = b->items[i].locked_at_ms;
    job->started_at_ms = b->items[i].started_at_ms;
    rq_job_lease(job, b->items[i].lease_ms, b->asked_ms);
}

void rq_batch_give_statuses(renderq_status *each, const rq_batch *b, renderq_status status)
{
    for (size_t i = 0; each && i < b->n; i++)
        each[i] = b->matched ? rq_batch_status(b, i, status) : status;
}
