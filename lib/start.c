/* start.c: jobs that were claimed ahead of their turn are started, or handed out to somebody else. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "clock.h"
#include "fence.h"
#include "job.h"

/* What is started: jobs, with one worker for all of them or NULL; or hand-outs, each of which has its own. */
typedef struct starting {
    renderq_job **jobs;
    const char *worker;
    renderq_handout *handouts;
    int lease_s;
} starting;

static renderq_handout *handout_at(renderq_handout *handouts, size_t i)
{
    return (renderq_handout *)(void *)((char *)handouts + i * handouts->size);
}

static renderq_job *job_of(const starting *s, size_t i)
{
    return s->handouts ? handout_at(s->handouts, i)->job : s->jobs[i];
}

static const char *worker_of(const starting *s, size_t i)
{
    return s->handouts ? handout_at(s->handouts, i)->worker : s->worker;
}

static renderq_status take_start(renderq *h, rq_batch *b, size_t i, const starting *s)
{
    char where[40];
    rq_batch_name(where, sizeof where, i, b->n);
    renderq_status status = rq_batch_take(h, b, i, where, job_of(s, i));
    rq_value *ask = rq_batch_ask(b, i);
    if (s->lease_s)
        ask[2] = rq_number(s->lease_s);
    if (status != RENDERQ_OK || !worker_of(s, i))
        return status;
    const rq_job *job = (const rq_job *)job_of(s, i);
    if (job->maybe_handed)
        b->items[i].fresh = job->fresh;         /* so that there is never a third token that the row may have */
    else if (!rq_guid_random(&b->items[i].fresh))
        return rq_fault(h, RENDERQ_FAILED, "the kernel gives no random bytes for a lease token");
    ask[3] = rq_text(worker_of(s, i));
    ask[4] = b->look[2 * i + 1] = rq_guid_value(&b->items[i].fresh);
    return RENDERQ_OK;
}

/* Each job gets its taker's name before anything is sent, so that nothing can fail afterwards. */
static renderq_status name_takers(renderq *h, char **takers, size_t n, const starting *s)
{
    for (size_t i = 0; i < n; i++)
        if (worker_of(s, i) && !(takers[i] = strdup(worker_of(s, i))))
            return rq_fault(h, RENDERQ_NOMEM, "out of memory for %zu jobs; nothing was done", n);
    return RENDERQ_OK;
}

static void give_taker(renderq_job *handed, const rq_batch *b, size_t i, char **takers)
{
    if (!b->matched[i] || !takers[i])
        return;
    rq_job *job = (rq_job *)handed;
    free(job->taker);
    job->job.worker = job->taker = takers[i];
    takers[i] = NULL;
    job->maybe_handed = false;
    rq_guid_print(&b->items[i].fresh, &job->job.lease);
}

/* The next calls on the job ask with its fresh token, too. */
static void keep_fresh(const starting *s, const rq_batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        rq_job *job = (rq_job *)job_of(s, i);
        if (!worker_of(s, i))
            continue;
        job->fresh = b->items[i].fresh;
        job->maybe_handed = true;
    }
}

static renderq_status start(renderq *h, rq_batch *b, const starting *s)
{
    char **takers = calloc(b->n, sizeof *takers);
    if (!takers)
        return rq_fault(h, RENDERQ_NOMEM, "out of memory for %zu jobs; nothing was done", b->n);
    renderq_status status = RENDERQ_OK;
    for (size_t i = 0; i < b->n && status == RENDERQ_OK; i++)
        status = take_start(h, b, i, s);
    if (status == RENDERQ_OK)
        status = name_takers(h, takers, b->n, s);
    if (status == RENDERQ_OK) {
        status = rq_batch_run(h, b, rq_batch_read_lease);
        for (size_t i = 0; i < b->n && (status == RENDERQ_OK || status == RENDERQ_LOST); i++) {
            rq_batch_give_lease(job_of(s, i), b, i);
            give_taker(job_of(s, i), b, i, takers);
        }
        if (status == RENDERQ_UNCERTAIN)
            keep_fresh(s, b);
    }
    for (size_t i = 0; i < b->n; i++)
        free(takers[i]);
    free(takers);
    return status;
}

renderq_status renderq_start_many(renderq *h, renderq_job **jobs, size_t n, const char *worker, int lease_s,
                                  renderq_status *each)
{
    rq_batch b;
    const starting s = { .jobs = jobs, .worker = worker, .lease_s = lease_s };
    renderq_status status = rq_enter(h, RQ_JOINS);
    if (status != RENDERQ_OK || n == 0)
        return status;
    status = rq_batch_check(h, jobs, n);
    if (status == RENDERQ_OK)
        status = rq_check_text(h, NULL, &rq_worker_field, worker);
    if (status == RENDERQ_OK)
        status = rq_check_lease_s(h, lease_s);
    if (status != RENDERQ_OK)
        return status;
    status = rq_batch_new(h, &b, RQ_START, worker ? RQ_STARTED : RQ_STATEMENTS, n);
    if (status == RENDERQ_OK)
        status = start(h, &b, &s);
    rq_batch_give_statuses(each, &b, status);
    rq_batch_free(&b);
    return status;
}

/* -- hand out: start, with a taker a job -- */

static renderq_status check_handouts(renderq *h, const renderq_handout *handouts, size_t n)
{
    renderq_status status = RENDERQ_OK;
    for (size_t i = 0; i < n && status == RENDERQ_OK; i++) {
        renderq_handout handout;
        char where[40];
        rq_batch_name(where, sizeof where, i, n);
        status = rq_take_item(h, "renderq_handout", handouts, i, &handout, sizeof handout);
        if (status == RENDERQ_OK && !handout.worker)
            status = rq_fault(h, RENDERQ_INVALID, "%sworker is NULL: a hand-out names who gets the job", where);
        if (status == RENDERQ_OK)
            status = rq_check_text(h, where, &rq_worker_field, handout.worker);
    }
    return status;
}

static void give_handouts(renderq_handout *handouts, const rq_batch *b, renderq_status status)
{
    for (size_t i = 0; i < b->n; i++)
        handout_at(handouts, i)->status = b->matched ? rq_batch_status(b, i, status) : status;
}

renderq_status renderq_hand_out(renderq *h, renderq_handout *handouts, size_t n, int lease_s)
{
    rq_batch b;
    renderq_status status = rq_enter(h, RQ_JOINS);
    if (status != RENDERQ_OK || n == 0)
        return status;
    status = rq_batch_check(h, handouts, n);
    if (status == RENDERQ_OK && handouts->size < offsetof(renderq_handout, status) + sizeof handouts->status)
        status = rq_fault(h, RENDERQ_INVALID, "renderq_handout: its size is not set; begin with RENDERQ_INIT");
    if (status == RENDERQ_OK)
        status = rq_check_lease_s(h, lease_s);
    if (status != RENDERQ_OK)
        return status;
    const starting s = { .handouts = handouts, .lease_s = lease_s };
    status = rq_batch_new(h, &b, RQ_START, RQ_STARTED, n);
    if (status == RENDERQ_OK)
        status = check_handouts(h, handouts, n);
    if (status == RENDERQ_OK)
        status = start(h, &b, &s);
    give_handouts(handouts, &b, status);
    rq_batch_free(&b);
    return status;
}
