/* lease.c: what the owner of a lease may do with it: renew, complete, fail, release, resume. Each statement is fenced
 * by the job's id and token; no row matched means LOST. How that is asked is in fence.c; start is in start.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backoff.h"
#include "check.h"
#include "clock.h"
#include "fence.h"
#include "job.h"
#include "lease.h"
#include "utf.h"

/* ---- one job ---- */

static renderq_status run_release(renderq *h, const rq_queue *queue, const rq_lease *lease, const renderq_job *job,
                                  int64_t delay_ms, bool maybe, bool *matched)
{
    rq_value other = rq_other(job);
    rq_value ask[] = { rq_guid_value(&lease->id), rq_guid_value(&lease->token), rq_number(delay_ms) };
    rq_value look[] = { rq_guid_value(&lease->id), rq_guid_value(&lease->token), rq_number(job->retry_count) };
    rq_fenced fenced = { .queue = queue, .ask = RQ_RELEASE, .look = RQ_RETURNED, .ask_values = ask,
                         .look_values = look, .others = other.present ? &other : NULL, .n = 1, .matched = matched,
                         .maybe = maybe };
    return rq_run_fenced(h, &fenced);
}

static renderq_status enter_with_job(renderq *h, const renderq_job *job, rq_lease *lease, rq_queue *room,
                                     const rq_queue **queue)
{
    renderq_status status = rq_enter(h, RQ_JOINS);
    if (status == RENDERQ_OK)
        status = rq_check_lease(h, NULL, job, lease);
    if (status == RENDERQ_OK)
        status = rq_tx_refuse_received(h, &lease->id, job->id.text);
    return status == RENDERQ_OK ? rq_which_queue(h, job->queue, room, queue) : status;
}

renderq_status rq_release(renderq *h, const renderq_job *job, int64_t delay_ms, bool maybe)
{
    rq_queue room;
    const rq_queue *queue;
    rq_lease lease;
    bool matched = false;
    renderq_status status = enter_with_job(h, job, &lease, &room, &queue);
    if (status == RENDERQ_OK)
        status = rq_check_delay(h, NULL, "delay_ms", delay_ms);
    if (status == RENDERQ_OK)
        status = run_release(h, queue, &lease, job, delay_ms, maybe, &matched);
    return status != RENDERQ_OK || matched ? status : rq_lost(h, job->id.text);
}

renderq_status renderq_release(renderq *h, const renderq_job *job, int64_t delay_ms)
{
    return rq_release(h, job, delay_ms, false);
}

/* A job claimed ahead of its turn does not count until it is started, so nobody may finish it before. */
static renderq_status check_started(renderq *h, const char *where, const renderq_job *job)
{
    if (job->started_at_ms)
        return RENDERQ_OK;
    return rq_fault(h, RENDERQ_INVALID, "%sjob %s was claimed unstarted: renderq_start_many() first", where,
                    job->id.text);
}

/* The delay that a failure asks for, in the statement's terms. */
static renderq_status take_retry(renderq *h, const renderq_job *job, int64_t retry_ms, bool *never, int64_t *delay_ms)
{
    *never = retry_ms == RENDERQ_NEVER;
    *delay_ms = retry_ms == RENDERQ_BACKOFF ? rq_backoff_ms(job->retry_count + 1, rq_jitter()) : *never ? 0 : retry_ms;
    if (*delay_ms < 0)
        return rq_fault(h, RENDERQ_INVALID,
                        "retry_ms is %lld: it is a delay of 0 or more, RENDERQ_BACKOFF or RENDERQ_NEVER",
                        (long long)retry_ms);
    return rq_check_delay(h, NULL, "retry_ms", *delay_ms);
}

static renderq_status run_fail(renderq *h, const rq_queue *queue, const rq_lease *lease, const renderq_job *job,
                               const char *error, bool never, int64_t delay_ms, bool maybe, bool *matched)
{
    rq_value other = rq_other(job);
    rq_value ask[] = { rq_guid_value(&lease->id), rq_guid_value(&lease->token), rq_text(error), rq_number(never),
                       rq_number(delay_ms) };
    rq_value look[] = { ask[0], ask[1], rq_number(job->retry_count + 1) };
    rq_fenced fenced = { .queue = queue, .ask = RQ_FAIL, .look = RQ_RETURNED, .ask_values = ask,
                         .look_values = look, .others = other.present ? &other : NULL, .n = 1, .matched = matched,
                         .maybe = maybe };
    return rq_run_fenced(h, &fenced);
}

renderq_status rq_fail(renderq *h, const renderq_job *job, const char *error, int64_t retry_ms, bool maybe)
{
    rq_queue room;
    const rq_queue *queue;
    rq_lease lease;
    bool never = false, matched = false;
    int64_t delay_ms = 0;
    char text[RENDERQ_ERROR_MAX * 3 + 1];
    renderq_status status = enter_with_job(h, job, &lease, &room, &queue);
    if (status == RENDERQ_OK)
        status = check_started(h, "", job);
    if (status == RENDERQ_OK)
        status = take_retry(h, job, retry_ms, &never, &delay_ms);
    if (status != RENDERQ_OK)
        return status;
    if (error)
        rq_utf_repair(error, RENDERQ_ERROR_MAX, text, sizeof text);
    status = run_fail(h, queue, &lease, job, error ? text : NULL, never, delay_ms, maybe, &matched);
    return status != RENDERQ_OK || matched ? status : rq_lost(h, job->id.text);
}

renderq_status renderq_fail(renderq *h, const renderq_job *job, const char *error, int64_t retry_ms)
{
    return rq_fail(h, job, error, retry_ms, false);
}

renderq_status renderq_job_resume(renderq *h, const char *name, const renderq_id *id, const renderq_id *token,
                                  renderq_job **out)
{
    rq_queue room;
    const rq_queue *queue;
    rq_guid job_id, lease;
    if (out)
        *out = NULL;
    renderq_status status = rq_enter(h, RQ_JOINS);
    if (status == RENDERQ_OK && !out)
        status = rq_fault(h, RENDERQ_INVALID, "the pointer for the job is NULL");
    if (status == RENDERQ_OK)
        status = rq_which_queue(h, name, &room, &queue);
    if (status == RENDERQ_OK)
        status = rq_check_id(h, "id", id, &job_id);
    if (status == RENDERQ_OK)
        status = rq_check_id(h, "lease", token, &lease);
    if (status != RENDERQ_OK)
        return status;
    rq_value values[] = { rq_guid_value(&job_id), rq_guid_value(&lease) };
    rq_jobs found = { .h = h, .queue = queue, .jobs = out, .max = 1, .leased = true };
    rq_try tries = rq_first_try(h);
    do {
        rq_jobs_clear(&found);
        found.asked_ms = rq_clock_ms();
        status = rq_run(h, queue, RQ_RESUME, values, 1, rq_jobs_add, &found);
    } while (rq_again(h, &tries, &status));
    if (status != RENDERQ_OK)
        rq_jobs_clear(&found);
    return status != RENDERQ_OK || found.n ? status : rq_lost(h, id->text);
}

/* -- complete -- */

static renderq_status take_result(renderq *h, rq_batch *b, size_t i, const renderq_job *job, const char *output_url)
{
    char where[40];
    rq_batch_name(where, sizeof where, i, b->n);
    renderq_status status = rq_batch_take(h, b, i, where, job);
    if (status == RENDERQ_OK)
        status = check_started(h, where, job);
    if (status == RENDERQ_OK)
        status = rq_check_text(h, where, &rq_output_url_field, output_url);
    rq_batch_ask(b, i)[2] = rq_text(output_url);
    return status;
}

static bool is_received(const renderq *h, const renderq_job *job)
{
    rq_guid id;
    return job && rq_guid_parse(job->id.text, &id) && rq_tx_received(h, &id);
}

renderq_status renderq_complete(renderq *h, const renderq_job *job, const char *output_url)
{
    rq_batch_item it;
    rq_value ask[RQ_ASK_MAX], look[2];
    bool matched = false;
    rq_batch b = { .n = 1, .items = &it, .ask = ask, .look = look, .matched = &matched, .statement = RQ_COMPLETE,
                .look_statement = RQ_COMPLETED };
    renderq_status status = rq_enter(h, RQ_JOINS);
    if (status == RENDERQ_OK && is_received(h, job)) {
        b.statement = RQ_OUTPUT;                /* the transaction has completed it already */
        b.look_statement = RQ_STATEMENTS;
    }
    if (status == RENDERQ_OK)
        status = take_result(h, &b, 0, job, output_url);
    if (status == RENDERQ_OK)
        status = rq_batch_run(h, &b, NULL);
    return status;
}

static renderq_status take_results(renderq *h, rq_batch *b, const renderq_result *results)
{
    renderq_status status = RENDERQ_OK;
    for (size_t i = 0; i < b->n && status == RENDERQ_OK; i++) {
        renderq_result result;
        status = rq_take_item(h, "renderq_result", results, i, &result, sizeof result);
        if (status == RENDERQ_OK)
            status = take_result(h, b, i, result.job, result.output_url);
    }
    return status;
}

static void give_results(renderq_result *results, const rq_batch *b, renderq_status status)
{
    for (size_t i = 0; i < b->n; i++) {
        renderq_result *result = (renderq_result *)(void *)((char *)results + i * results->size);
        result->status = b->matched ? rq_batch_status(b, i, status) : status;
    }
}

renderq_status rq_complete_many(renderq *h, renderq_result *results, size_t n, bool maybe)
{
    rq_batch b;
    renderq_status status = rq_enter(h, RQ_JOINS);
    if (status != RENDERQ_OK || n == 0)
        return status;
    status = rq_batch_check(h, results, n);
    if (status == RENDERQ_OK && results->size < offsetof(renderq_result, status) + sizeof results->status)
        status = rq_fault(h, RENDERQ_INVALID, "renderq_result: its size is not set; begin with RENDERQ_INIT");
    if (status != RENDERQ_OK)
        return status;
    status = rq_batch_new(h, &b, RQ_COMPLETE, RQ_COMPLETED, n);
    b.maybe = maybe;
    if (status == RENDERQ_OK)
        status = take_results(h, &b, results);
    if (status == RENDERQ_OK)
        status = rq_batch_run(h, &b, NULL);
    give_results(results, &b, status);
    rq_batch_free(&b);
    return status;
}

renderq_status renderq_complete_many(renderq *h, renderq_result *results, size_t n)
{
    return rq_complete_many(h, results, n, false);
}

/* -- renew -- */

static void give_leases(renderq_job **jobs, const rq_batch *b)
{
    for (size_t i = 0; i < b->n; i++)
        rq_batch_give_lease(jobs[i], b, i);
}

static renderq_status take_jobs(renderq *h, rq_batch *b, renderq_job *const *jobs)
{
    renderq_status status = RENDERQ_OK;
    for (size_t i = 0; i < b->n && status == RENDERQ_OK; i++) {
        char where[40];
        rq_batch_name(where, sizeof where, i, b->n);
        status = rq_batch_take(h, b, i, where, jobs[i]);
    }
    return status;
}

renderq_status renderq_renew(renderq *h, renderq_job *job, const char *progress)
{
    rq_batch_item it;
    rq_value ask[RQ_ASK_MAX], look[2];
    bool matched = false;
    rq_batch b = { .n = 1, .items = &it, .ask = ask, .look = look, .matched = &matched, .statement = RQ_RENEW,
                .look_statement = RQ_STATEMENTS };
    renderq_status status = rq_enter(h, RQ_JOINS);
    if (status == RENDERQ_OK)
        status = rq_check_text(h, NULL, &rq_progress_field, progress);
    if (status == RENDERQ_OK)
        status = take_jobs(h, &b, &job);
    if (status != RENDERQ_OK)
        return status;
    ask[2] = rq_text(progress);
    status = rq_batch_run(h, &b, rq_batch_read_lease);
    give_leases(&job, &b);
    return status;
}

static renderq_status take_progress(renderq *h, rq_batch *b, const char *const *progress)
{
    renderq_status status = RENDERQ_OK;
    for (size_t i = 0; progress && i < b->n && status == RENDERQ_OK; i++) {
        char where[40];
        rq_batch_name(where, sizeof where, i, b->n);
        status = rq_check_text(h, where, &rq_progress_field, progress[i]);
        rq_batch_ask(b, i)[2] = rq_text(progress[i]);
    }
    return status;
}

renderq_status rq_renew_many(renderq *h, renderq_job **jobs, const char *const *progress, size_t n,
                             renderq_status *each)
{
    rq_batch b;
    renderq_status status = rq_enter(h, RQ_JOINS);
    if (status != RENDERQ_OK || n == 0)
        return status;
    status = rq_batch_check(h, jobs, n);
    if (status != RENDERQ_OK)
        return status;
    status = rq_batch_new(h, &b, RQ_RENEW, RQ_STATEMENTS, n);
    if (status == RENDERQ_OK)
        status = take_jobs(h, &b, jobs);
    if (status == RENDERQ_OK)
        status = take_progress(h, &b, progress);
    if (status == RENDERQ_OK) {
        status = rq_batch_run(h, &b, rq_batch_read_lease);
        give_leases(jobs, &b);
    }
    rq_batch_give_statuses(each, &b, status);
    rq_batch_free(&b);
    return status;
}

renderq_status renderq_renew_many(renderq *h, renderq_job **jobs, size_t n, renderq_status *each)
{
    return rq_renew_many(h, jobs, NULL, n, each);
}
