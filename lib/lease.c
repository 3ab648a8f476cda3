/* lease.c: what the owner of a lease may do with it: start, renew, complete, fail, release, resume. Each statement is
 * fenced by the job's id and token; no row matched means LOST. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backoff.h"
#include "check.h"
#include "clock.h"
#include "job.h"
#include "lease.h"
#include "utf.h"

/* ---- fenced statements ---- */

/* A statement for n items of one queue. Where it matches no row although an earlier try may have counted, the look-up
 * decides: a row it finds is our own success. `look` is RQ_STATEMENTS where a repeat matches again by itself. */
typedef struct fenced_statement {
    const rq_queue *queue;
    rq_statement_id ask, look;
    const rq_value *ask_values, *look_values;
    size_t n;
    bool *matched;              /* out: n of them */
    bool maybe;                 /* an earlier call's request for the same may have counted */
    rq_row_fn row;              /* what else to do with a row, or NULL */
    void *arg;
} fenced_statement;

static renderq_status mark(void *arg, size_t item, const rq_value *columns)
{
    fenced_statement *fenced = arg;
    fenced->matched[item] = true;
    return fenced->row ? fenced->row(fenced->arg, item, columns) : RENDERQ_OK;
}

static size_t count_matched(const fenced_statement *fenced)
{
    size_t matched = 0;
    for (size_t i = 0; i < fenced->n; i++)
        matched += fenced->matched[i];
    return matched;
}

/* OK whatever matched; `matched` has that. */
static renderq_status run_fenced(renderq *h, fenced_statement *fenced)
{
    renderq_status status;
    rq_try tries = rq_first_try(h);
    tries.maybe = fenced->maybe;
    do {
        memset(fenced->matched, 0, fenced->n * sizeof fenced->matched[0]);
        status = rq_run(h, fenced->queue, fenced->ask, fenced->ask_values, fenced->n, mark, fenced);
        /* The repeat waits for the first request if the server is still at it, so the look-up sees its outcome. */
        if (status == RENDERQ_OK && tries.maybe && fenced->look != RQ_STATEMENTS && count_matched(fenced) < fenced->n)
            status = rq_run(h, fenced->queue, fenced->look, fenced->look_values, fenced->n, mark, fenced);
    } while (rq_again(h, &tries, &status));
    if (rq_can_look(h, &tries, status) && fenced->look != RQ_STATEMENTS) {
        memset(fenced->matched, 0, fenced->n * sizeof fenced->matched[0]);
        status = rq_run(h, fenced->queue, fenced->look, fenced->look_values, fenced->n, mark, fenced);
        /* A batch happens wholly or not at all, so one of its items tells; but it may have lost them all. */
        if (status == RENDERQ_OK && count_matched(fenced) == 0)
            status = rq_fault(h, RENDERQ_INTERRUPTED, "interrupted; nothing was done");
    }
    if (status != RENDERQ_OK)
        memset(fenced->matched, 0, fenced->n * sizeof fenced->matched[0]);
    return status;
}

static renderq_status lost(renderq *h, const char *id)
{
    return rq_fault(h, RENDERQ_LOST,
                    "the lease of job %s is not yours any more: it ran out, or the job was ended; stop working on it",
                    id);
}

/* ---- one job ---- */

static renderq_status run_release(renderq *h, const rq_queue *queue, const rq_lease *lease, int retry_count,
                                  int64_t delay_ms, bool maybe, bool *matched)
{
    rq_value ask[] = { rq_guid_value(&lease->id), rq_guid_value(&lease->token), rq_number(delay_ms) };
    rq_value look[] = { rq_guid_value(&lease->id), rq_guid_value(&lease->token), rq_number(retry_count) };
    fenced_statement fenced = { .queue = queue, .ask = RQ_RELEASE, .look = RQ_RETURNED, .ask_values = ask,
                         .look_values = look, .n = 1, .matched = matched, .maybe = maybe };
    return run_fenced(h, &fenced);
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
        status = run_release(h, queue, &lease, job->retry_count, delay_ms, maybe, &matched);
    return status != RENDERQ_OK || matched ? status : lost(h, job->id.text);
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

static renderq_status run_fail(renderq *h, const rq_queue *queue, const rq_lease *lease, int retry_count,
                               const char *error, bool never, int64_t delay_ms, bool maybe, bool *matched)
{
    rq_value ask[] = { rq_guid_value(&lease->id), rq_guid_value(&lease->token), rq_text(error), rq_number(never),
                       rq_number(delay_ms) };
    rq_value look[] = { ask[0], ask[1], rq_number(retry_count + 1) };
    fenced_statement fenced = { .queue = queue, .ask = RQ_FAIL, .look = RQ_RETURNED, .ask_values = ask,
                         .look_values = look, .n = 1, .matched = matched, .maybe = maybe };
    return run_fenced(h, &fenced);
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
    status = run_fail(h, queue, &lease, job->retry_count, error ? text : NULL, never, delay_ms, maybe, &matched);
    return status != RENDERQ_OK || matched ? status : lost(h, job->id.text);
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
    return status != RENDERQ_OK || found.n ? status : lost(h, id->text);
}

/* ---- many jobs of one queue: complete, start, renew. One job is a batch of one. ---- */

#define ASK_MAX 5               /* values of an item, at most */

typedef struct item {
    const renderq_job *job;
    rq_lease lease;
    rq_guid fresh;              /* start: the token of a hand-out */
    int64_t lease_ms, started_at_ms, locked_at_ms;      /* what the row says */
} item;

typedef struct batch {
    size_t n;
    item *items;
    rq_value *ask, *look;       /* n * params of the statement, n * 2 */
    bool *matched;
    bool maybe;                 /* see fenced_statement */
    rq_statement_id statement, look_statement;
    rq_queue room;
    const rq_queue *queue;      /* the first job's, and so all of theirs */
    int64_t asked_ms;
} batch;

static renderq_status batch_new(renderq *h, batch *b, rq_statement_id statement, rq_statement_id look, size_t n)
{
    *b = (batch){ .n = n, .statement = statement, .look_statement = look, .items = calloc(n, sizeof *b->items),
                  .ask = calloc(n * ASK_MAX, sizeof *b->ask), .look = calloc(n * 2, sizeof *b->look),
                  .matched = calloc(n, sizeof *b->matched) };
    return b->items && b->ask && b->look && b->matched
               ? RENDERQ_OK
               : rq_fault(h, RENDERQ_NOMEM, "out of memory for %zu jobs; nothing was done", n);
}

static void batch_free(batch *b)
{
    free(b->items);
    free(b->ask);
    free(b->look);
    free(b->matched);
}

static rq_value *ask_of(const batch *b, size_t i)
{
    return b->ask + i * rq_statements[b->statement].n_params;
}

/* Takes job i: its lease, and the queue, which must be the first one's. */
static renderq_status batch_take(renderq *h, batch *b, size_t i, const char *where, const renderq_job *job)
{
    item *it = &b->items[i];
    it->job = job;
    renderq_status status = rq_check_lease(h, where, job, &it->lease);
    if (status == RENDERQ_OK && b->statement != RQ_OUTPUT)
        status = rq_tx_refuse_received(h, &it->lease.id, job->id.text);
    if (status == RENDERQ_OK && i == 0)
        status = rq_which_queue(h, job->queue, &b->room, &b->queue);
    else if (status == RENDERQ_OK && strcmp(job->queue, b->queue->text) != 0)
        status = rq_fault(h, RENDERQ_INVALID, "%sits queue is %.200s, and the first job's is %.200s", where,
                          job->queue, b->queue->text);
    ask_of(b, i)[0] = b->look[2 * i] = rq_guid_value(&it->lease.id);
    ask_of(b, i)[1] = b->look[2 * i + 1] = rq_guid_value(&it->lease.token);
    return status;
}

static renderq_status read_lease(void *arg, size_t i, const rq_value *columns)
{
    item *it = &((batch *)arg)->items[i];
    it->lease_ms = columns[0].number * 1000;
    it->started_at_ms = columns[1].number;
    it->locked_at_ms = columns[2].number;
    return RENDERQ_OK;
}

static renderq_status batch_run(renderq *h, batch *b, rq_row_fn row)
{
    fenced_statement fenced = { .queue = b->queue, .ask = b->statement, .look = b->look_statement,
                         .ask_values = b->ask, .look_values = b->look, .n = b->n, .matched = b->matched,
                         .maybe = b->maybe, .row = row, .arg = b };
    b->asked_ms = rq_clock_ms();
    renderq_status status = run_fenced(h, &fenced);
    for (size_t i = 0; i < b->n && status == RENDERQ_OK; i++)
        if (!b->matched[i])
            status = lost(h, b->items[i].job->id.text);
    return status;
}

/* What each item is told: its own answer where there is one, else the call's. */
static renderq_status item_status(const batch *b, size_t i, renderq_status status)
{
    if (status != RENDERQ_OK && status != RENDERQ_LOST)
        return status;
    return b->matched[i] ? RENDERQ_OK : RENDERQ_LOST;
}

static renderq_status check_count(renderq *h, const void *array, size_t n)
{
    if (!array)
        return rq_fault(h, RENDERQ_INVALID, "the array of jobs is NULL");
    if (n > RENDERQ_MANY_MAX)
        return rq_fault(h, RENDERQ_INVALID, "%zu jobs are too many for one call: at most %d", n, RENDERQ_MANY_MAX);
    return RENDERQ_OK;
}

/* Texts name the item of a batch, but not the one of a call for one job. */
static void name_item(char *where, size_t size, size_t i, size_t n)
{
    where[0] = 0;
    if (n > 1)
        snprintf(where, size, "item %zu: ", i);
}

/* -- complete -- */

static renderq_status take_result(renderq *h, batch *b, size_t i, const renderq_job *job, const char *output_url)
{
    char where[40];
    name_item(where, sizeof where, i, b->n);
    renderq_status status = batch_take(h, b, i, where, job);
    if (status == RENDERQ_OK)
        status = check_started(h, where, job);
    if (status == RENDERQ_OK)
        status = rq_check_text(h, where, &rq_output_url_field, output_url);
    ask_of(b, i)[2] = rq_text(output_url);
    return status;
}

static bool is_received(const renderq *h, const renderq_job *job)
{
    rq_guid id;
    return job && rq_guid_parse(job->id.text, &id) && rq_tx_received(h, &id);
}

renderq_status renderq_complete(renderq *h, const renderq_job *job, const char *output_url)
{
    item it;
    rq_value ask[ASK_MAX], look[2];
    bool matched = false;
    batch b = { .n = 1, .items = &it, .ask = ask, .look = look, .matched = &matched, .statement = RQ_COMPLETE,
                .look_statement = RQ_COMPLETED };
    renderq_status status = rq_enter(h, RQ_JOINS);
    if (status == RENDERQ_OK && is_received(h, job)) {
        b.statement = RQ_OUTPUT;                /* the transaction has completed it already */
        b.look_statement = RQ_STATEMENTS;
    }
    if (status == RENDERQ_OK)
        status = take_result(h, &b, 0, job, output_url);
    if (status == RENDERQ_OK)
        status = batch_run(h, &b, NULL);
    return status;
}

static renderq_status take_results(renderq *h, batch *b, const renderq_result *results)
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

static void give_results(renderq_result *results, const batch *b, renderq_status status)
{
    for (size_t i = 0; i < b->n; i++) {
        renderq_result *result = (renderq_result *)(void *)((char *)results + i * results->size);
        result->status = b->matched ? item_status(b, i, status) : status;
    }
}

renderq_status rq_complete_many(renderq *h, renderq_result *results, size_t n, bool maybe)
{
    batch b;
    renderq_status status = rq_enter(h, RQ_JOINS);
    if (status != RENDERQ_OK || n == 0)
        return status;
    status = check_count(h, results, n);
    if (status == RENDERQ_OK && results->size < offsetof(renderq_result, status) + sizeof results->status)
        status = rq_fault(h, RENDERQ_INVALID, "renderq_result: its size is not set; begin with RENDERQ_INIT");
    if (status != RENDERQ_OK)
        return status;
    status = batch_new(h, &b, RQ_COMPLETE, RQ_COMPLETED, n);
    b.maybe = maybe;
    if (status == RENDERQ_OK)
        status = take_results(h, &b, results);
    if (status == RENDERQ_OK)
        status = batch_run(h, &b, NULL);
    give_results(results, &b, status);
    batch_free(&b);
    return status;
}

renderq_status renderq_complete_many(renderq *h, renderq_result *results, size_t n)
{
    return rq_complete_many(h, results, n, false);
}

/* -- start and renew: the jobs learn their new lease -- */

static void give_leases(renderq_job **jobs, const batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        if (!b->matched[i])
            continue;
        jobs[i]->locked_at_ms = b->items[i].locked_at_ms;
        jobs[i]->started_at_ms = b->items[i].started_at_ms;
        rq_job_lease(jobs[i], b->items[i].lease_ms, b->asked_ms);
    }
}

static void give_statuses(renderq_status *each, const batch *b, renderq_status status)
{
    for (size_t i = 0; each && i < b->n; i++)
        each[i] = b->matched ? item_status(b, i, status) : status;
}

static renderq_status take_jobs(renderq *h, batch *b, renderq_job *const *jobs)
{
    renderq_status status = RENDERQ_OK;
    for (size_t i = 0; i < b->n && status == RENDERQ_OK; i++) {
        char where[40];
        name_item(where, sizeof where, i, b->n);
        status = batch_take(h, b, i, where, jobs[i]);
    }
    return status;
}

renderq_status renderq_renew(renderq *h, renderq_job *job, const char *progress)
{
    item it;
    rq_value ask[ASK_MAX], look[2];
    bool matched = false;
    batch b = { .n = 1, .items = &it, .ask = ask, .look = look, .matched = &matched, .statement = RQ_RENEW,
                .look_statement = RQ_STATEMENTS };
    renderq_status status = rq_enter(h, RQ_JOINS);
    if (status == RENDERQ_OK)
        status = rq_check_text(h, NULL, &rq_progress_field, progress);
    if (status == RENDERQ_OK)
        status = take_jobs(h, &b, &job);
    if (status != RENDERQ_OK)
        return status;
    ask[2] = rq_text(progress);
    status = batch_run(h, &b, read_lease);
    give_leases(&job, &b);
    return status;
}

static renderq_status take_progress(renderq *h, batch *b, const char *const *progress)
{
    renderq_status status = RENDERQ_OK;
    for (size_t i = 0; progress && i < b->n && status == RENDERQ_OK; i++) {
        char where[40];
        name_item(where, sizeof where, i, b->n);
        status = rq_check_text(h, where, &rq_progress_field, progress[i]);
        ask_of(b, i)[2] = rq_text(progress[i]);
    }
    return status;
}

renderq_status rq_renew_many(renderq *h, renderq_job **jobs, const char *const *progress, size_t n,
                             renderq_status *each)
{
    batch b;
    renderq_status status = rq_enter(h, RQ_JOINS);
    if (status != RENDERQ_OK || n == 0)
        return status;
    status = check_count(h, jobs, n);
    if (status != RENDERQ_OK)
        return status;
    status = batch_new(h, &b, RQ_RENEW, RQ_STATEMENTS, n);
    if (status == RENDERQ_OK)
        status = take_jobs(h, &b, jobs);
    if (status == RENDERQ_OK)
        status = take_progress(h, &b, progress);
    if (status == RENDERQ_OK) {
        status = batch_run(h, &b, read_lease);
        give_leases(jobs, &b);
    }
    give_statuses(each, &b, status);
    batch_free(&b);
    return status;
}

renderq_status renderq_renew_many(renderq *h, renderq_job **jobs, size_t n, renderq_status *each)
{
    return rq_renew_many(h, jobs, NULL, n, each);
}

/* Who gets the jobs: NULL, nobody else; a name each; or with step 0 one name for all. */
typedef struct takers {
    const char *const *workers;
    size_t step;
} takers;

static renderq_status take_start(renderq *h, batch *b, const takers *to, int lease_s)
{
    for (size_t i = 0; i < b->n; i++) {
        rq_value *ask = ask_of(b, i);
        if (lease_s)
            ask[2] = rq_number(lease_s);
        if (!to)
            continue;
        if (!rq_guid_random(&b->items[i].fresh))
            return rq_fault(h, RENDERQ_FAILED, "the kernel gives no random bytes for a lease token");
        ask[3] = rq_text(to->workers[i * to->step]);
        ask[4] = b->look[2 * i + 1] = rq_guid_value(&b->items[i].fresh);
    }
    return RENDERQ_OK;
}

/* Each job gets its taker's name before anything is sent, so that nothing can fail afterwards. */
static renderq_status name_takers(renderq *h, char **names, size_t n, const takers *to)
{
    for (size_t i = 0; i < n; i++)
        if (!(names[i] = strdup(to->workers[i * to->step])))
            return rq_fault(h, RENDERQ_NOMEM, "out of memory for %zu jobs; nothing was done", n);
    return RENDERQ_OK;
}

static void give_takers(renderq_job **jobs, const batch *b, char **names)
{
    for (size_t i = 0; i < b->n; i++) {
        if (!b->matched[i])
            continue;
        rq_job *job = (rq_job *)jobs[i];
        free(job->taker);
        job->job.worker = job->taker = names[i];
        names[i] = NULL;
        rq_guid_print(&b->items[i].fresh, &job->job.lease);
    }
}

static renderq_status start(renderq *h, batch *b, renderq_job **jobs, const takers *to, int lease_s)
{
    char **names = to ? calloc(b->n, sizeof *names) : NULL;
    if (to && !names)
        return rq_fault(h, RENDERQ_NOMEM, "out of memory for %zu jobs; nothing was done", b->n);
    renderq_status status = take_jobs(h, b, jobs);
    if (status == RENDERQ_OK)
        status = take_start(h, b, to, lease_s);
    if (status == RENDERQ_OK && names)
        status = name_takers(h, names, b->n, to);
    if (status == RENDERQ_OK) {
        status = batch_run(h, b, read_lease);
        give_leases(jobs, b);
        if (names && (status == RENDERQ_OK || status == RENDERQ_LOST))
            give_takers(jobs, b, names);
    }
    for (size_t i = 0; names && i < b->n; i++)
        free(names[i]);
    free(names);
    return status;
}

renderq_status renderq_start_many(renderq *h, renderq_job **jobs, size_t n, const char *worker, int lease_s,
                                  renderq_status *each)
{
    batch b;
    takers to = { .workers = &worker, .step = 0 };
    renderq_status status = rq_enter(h, RQ_JOINS);
    if (status != RENDERQ_OK || n == 0)
        return status;
    status = check_count(h, jobs, n);
    if (status == RENDERQ_OK)
        status = rq_check_text(h, NULL, &rq_worker_field, worker);
    if (status == RENDERQ_OK)
        status = rq_check_lease_s(h, lease_s);
    if (status != RENDERQ_OK)
        return status;
    status = batch_new(h, &b, RQ_START, worker ? RQ_STARTED : RQ_STATEMENTS, n);
    if (status == RENDERQ_OK)
        status = start(h, &b, jobs, worker ? &to : NULL, lease_s);
    give_statuses(each, &b, status);
    batch_free(&b);
    return status;
}

/* -- hand out: start, with a taker a job -- */

static renderq_status take_handouts(renderq *h, const renderq_handout *handouts, size_t n, renderq_job **jobs,
                                    const char **workers)
{
    renderq_status status = RENDERQ_OK;
    for (size_t i = 0; i < n && status == RENDERQ_OK; i++) {
        renderq_handout handout;
        char where[40];
        name_item(where, sizeof where, i, n);
        status = rq_take_item(h, "renderq_handout", handouts, i, &handout, sizeof handout);
        if (status == RENDERQ_OK && !handout.worker)
            status = rq_fault(h, RENDERQ_INVALID, "%sworker is NULL: a hand-out names who gets the job", where);
        if (status == RENDERQ_OK)
            status = rq_check_text(h, where, &rq_worker_field, handout.worker);
        jobs[i] = handout.job;
        workers[i] = handout.worker;
    }
    return status;
}

static void give_handouts(renderq_handout *handouts, const batch *b, renderq_status status)
{
    for (size_t i = 0; i < b->n; i++) {
        renderq_handout *handout = (renderq_handout *)(void *)((char *)handouts + i * handouts->size);
        handout->status = b->matched ? item_status(b, i, status) : status;
    }
}

renderq_status renderq_hand_out(renderq *h, renderq_handout *handouts, size_t n, int lease_s)
{
    batch b;
    renderq_status status = rq_enter(h, RQ_JOINS);
    if (status != RENDERQ_OK || n == 0)
        return status;
    status = check_count(h, handouts, n);
    if (status == RENDERQ_OK && handouts->size < offsetof(renderq_handout, status) + sizeof handouts->status)
        status = rq_fault(h, RENDERQ_INVALID, "renderq_handout: its size is not set; begin with RENDERQ_INIT");
    if (status == RENDERQ_OK)
        status = rq_check_lease_s(h, lease_s);
    if (status != RENDERQ_OK)
        return status;
    renderq_job **jobs = calloc(n, sizeof *jobs);
    const char **workers = calloc(n, sizeof *workers);
    takers to = { .workers = workers, .step = 1 };
    status = batch_new(h, &b, RQ_START, RQ_STARTED, n);
    if (status == RENDERQ_OK && (!jobs || !workers))
        status = rq_fault(h, RENDERQ_NOMEM, "out of memory for %zu jobs; nothing was done", n);
    if (status == RENDERQ_OK)
        status = take_handouts(h, handouts, n, jobs, workers);
    if (status == RENDERQ_OK)
        status = start(h, &b, jobs, &to, lease_s);
    give_handouts(handouts, &b, status);
    batch_free(&b);
    free(workers);
    free(jobs);
    return status;
}
