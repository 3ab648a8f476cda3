/* calls.c: see calls.h. */
#include "calls.h"

#include "fuzz.h"
#include "job.h"
#include "wire.h"

#define SECRET "s3cret"
#define QUEUE  "dbo.jobs"
#define SOME   3

static const renderq_id an_id = { "6F9619FF-8B86-D011-B42D-00C04FC964FF" },
                        a_lease = { "0B5D1A9E-7C3F-4E21-9A55-0123456789AB" };

/* FreeTDS asks for as much memory as a server says that it is going to send; like a machine, this has an end. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=32";
}

/* FreeTDS 1.3 does not free every reply that it gives up in the middle (a bad RETURNVALUE). That the driver closes
 * what it opens is seen by wire_end(). */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libct.so\n";
}

/* ---- time ---- */

/* The library's clock and its waiting are these (-Wl,--wrap): time passes where somebody waits for it, and no input takes
 * longer than it computes. */
static int64_t now_ms = 1000;

int64_t __wrap_rq_clock_ms(void);
int64_t __wrap_rq_clock_ms(void)
{
    return now_ms;
}

bool __wrap_rq_stop_sleep(rq_stop *stop, int64_t ms);
bool __wrap_rq_stop_sleep(rq_stop *stop, int64_t ms)
{
    now_ms += ms;
    return rq_stop_raised(stop);
}

/* ---- what holds ---- */

static void check_id(const renderq_id *id)
{
    rq_guid guid;
    HOLDS(memchr(id->text, 0, sizeof id->text) && rq_guid_parse(id->text, &guid));
}

/* A text of the server's is valid, and NULL only where the manual says so. */
static void check_text(const char *text, bool may_be_null)
{
    HOLDS(text || may_be_null);
    HOLDS(!text || is_utf8(text));
}

static void check_job(const renderq_job *job, bool leased, bool listed)
{
    check_id(&job->id);
    HOLDS(!leased || !same(job->lease.text, ""));
    if (*job->lease.text)
        check_id(&job->lease);
    HOLDS(leased || !*job->lease.text);
    HOLDS(same(job->queue, QUEUE));
    check_text(job->composition_id, false);
    check_text(job->payload_json, listed);
    HOLDS(!job->payload_json ? job->payload_len == 0 : strlen(job->payload_json) <= job->payload_len);
    HOLDS(!job->payload_json || !job->payload_json[job->payload_len]);
    check_text(job->output_url, true);
    check_text(job->dedup_key, true);
    check_text(job->worker, true);
    check_text(job->last_error, true);
    check_text(job->progress, true);
    HOLDS(job->state >= RENDERQ_SCHEDULED && job->state <= RENDERQ_OTHER);
    HOLDS(job->lease_left_ms >= 0 && job->lease_left_ms <= INT64_C(1000) * RENDERQ_LEASE_MAX_S);
    HOLDS(renderq_lease_left_ms(job) >= 0);
    HOLDS(job->max_retries == RENDERQ_NO_RETRY || job->max_retries > 0);
}

/* A job of an earlier claim; its lease is what the calls need of it. */
static renderq_job *leased_job(void)
{
    rq_job *made = calloc(1, sizeof *made);
    HOLDS(made);
    made->job = (renderq_job){ .id = an_id, .lease = a_lease, .queue = QUEUE, .composition_id = "intro",
                               .payload_json = "{}", .payload_len = 2, .state = RENDERQ_PROCESSING,
                               .max_retries = 3, .started_at_ms = 1, .locked_at_ms = 1 };
    return &made->job;
}

/* ---- consume ---- */

static renderq_status claim_with(renderq *h, bool reap)
{
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_job *job = (renderq_job *)(uintptr_t)1;
    options.no_reap = !reap;
    renderq_status status = renderq_claim(h, &options, &job);
    HOLDS((job != NULL) == (status == RENDERQ_OK));
    if (job)
        check_job(job, true, false);
    renderq_job_free(job);
    return status;
}

static renderq_status claim(renderq *h)
{
    return claim_with(h, false);
}

static renderq_status claim_reaping(renderq *h)
{
    return claim_with(h, true);
}

static renderq_status claim_many(renderq *h)
{
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_job *jobs[SOME];
    size_t n = 99;
    options.no_reap = 1;
    renderq_status status = renderq_claim_many(h, &options, jobs, SOME, &n);
    HOLDS(n <= SOME && (n > 0) == (status == RENDERQ_OK));
    for (size_t i = 0; i < SOME; i++) {
        HOLDS((jobs[i] != NULL) == (i < n));
        if (jobs[i])
            check_job(jobs[i], true, false);
        renderq_job_free(jobs[i]);
    }
    return status;
}

static renderq_status resume(renderq *h)
{
    renderq_job *job = (renderq_job *)(uintptr_t)1;
    renderq_status status = renderq_job_resume(h, NULL, &an_id, &a_lease, &job);
    HOLDS((job != NULL) == (status == RENDERQ_OK));
    if (job)
        check_job(job, true, false);
    renderq_job_free(job);
    return status;
}

/* Calls on one leased job. */
static renderq_status on_job(renderq *h, renderq_status (*run)(renderq *, renderq_job *))
{
    renderq_job *job = leased_job();
    renderq_status status = run(h, job);
    check_job(job, true, false);
    renderq_job_free(job);
    return status;
}

static renderq_status renew_job(renderq *h, renderq_job *job)
{
    return renderq_renew(h, job, "half");
}

static renderq_status complete_job(renderq *h, renderq_job *job)
{
    return renderq_complete(h, job, "file:///a.mp4");
}

static renderq_status fail_job(renderq *h, renderq_job *job)
{
    return renderq_fail(h, job, "why", RENDERQ_BACKOFF);
}

static renderq_status release_job(renderq *h, renderq_job *job)
{
    return renderq_release(h, job, 0);
}

static renderq_status renew(renderq *h)
{
    return on_job(h, renew_job);
}

static renderq_status complete(renderq *h)
{
    return on_job(h, complete_job);
}

static renderq_status fail(renderq *h)
{
    return on_job(h, fail_job);
}

static renderq_status release(renderq *h)
{
    return on_job(h, release_job);
}

/* The items' own answers fit the call's. */
static void check_each(renderq_status status, const renderq_status *each)
{
    size_t lost = 0;
    for (size_t i = 0; i < SOME; i++) {
        HOLDS(each[i] == RENDERQ_OK || each[i] == RENDERQ_LOST || each[i] == status);
        lost += each[i] == RENDERQ_LOST;
    }
    HOLDS((status == RENDERQ_LOST) == (lost > 0) && (status != RENDERQ_OK || lost == 0));
}

static renderq_status on_jobs(renderq *h, const char *worker, bool start)
{
    renderq_job *jobs[SOME];
    renderq_status each[SOME] = { RENDERQ_OK };
    for (size_t i = 0; i < SOME; i++)
        jobs[i] = leased_job();
    renderq_status status = start ? renderq_start_many(h, jobs, SOME, worker, 0, each)
                                  : renderq_renew_many(h, jobs, SOME, each);
    check_each(status, each);
    for (size_t i = 0; i < SOME; i++) {
        check_job(jobs[i], true, false);
        HOLDS(start && worker && each[i] == RENDERQ_OK ? same(jobs[i]->worker, worker) : !jobs[i]->worker);
        renderq_job_free(jobs[i]);
    }
    return status;
}

static renderq_status renew_many(renderq *h)
{
    return on_jobs(h, NULL, false);
}

static renderq_status start_many(renderq *h)
{
    return on_jobs(h, NULL, true);
}

static renderq_status hand_out(renderq *h)
{
    return on_jobs(h, "node-2", true);
}

static renderq_status complete_many(renderq *h)
{
    renderq_result results[SOME];
    renderq_status each[SOME];
    renderq_job *job = leased_job();
    for (size_t i = 0; i < SOME; i++)
        results[i] = (renderq_result){ .size = sizeof results[i], .job = job, .output_url = "file:///a.mp4" };
    renderq_status status = renderq_complete_many(h, results, SOME);
    for (size_t i = 0; i < SOME; i++)
        each[i] = results[i].status;
    check_each(status, each);
    renderq_job_free(job);
    return status;
}

/* ---- produce ---- */

static renderq_status enqueue_with(renderq *h, const char *key)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    renderq_id id = { "" };
    job.composition_id = "intro";
    job.payload_json = "{\"n\":1}";
    job.dedup_key = key;
    renderq_status status = renderq_enqueue(h, &job, &id);
    if (status == RENDERQ_OK || status == RENDERQ_DUPLICATE || status == RENDERQ_UNCERTAIN)
        check_id(&id);
    return status;
}

static renderq_status enqueue(renderq *h)
{
    return enqueue_with(h, NULL);
}

static renderq_status enqueue_key(renderq *h)
{
    return enqueue_with(h, "key");
}

static renderq_status enqueue_many(renderq *h)
{
    renderq_new_job jobs[SOME];
    renderq_enqueued each[SOME] = { RENDERQ_INIT(renderq_enqueued) };
    for (size_t i = 0; i < SOME; i++)
        jobs[i] = (renderq_new_job){ .size = sizeof jobs[i], .composition_id = "intro", .payload_json = "{}",
                                     .dedup_key = i ? "key" : NULL };
    renderq_status status = renderq_enqueue_many(h, jobs, SOME, each);
    for (size_t i = 0; i < SOME; i++) {
        HOLDS(status == RENDERQ_OK ? each[i].status == RENDERQ_OK || each[i].status == RENDERQ_DUPLICATE
                                   : each[i].status == status);
        if (status == RENDERQ_OK || status == RENDERQ_UNCERTAIN)
            check_id(&each[i].id);
    }
    return status;
}

/* ---- operate ---- */

static renderq_status get(renderq *h)
{
    renderq_job *job = (renderq_job *)(uintptr_t)1;
    renderq_status status = renderq_get(h, NULL, &an_id, &job);
    HOLDS((job != NULL) == (status == RENDERQ_OK));
    if (job)
        check_job(job, false, false);
    renderq_job_free(job);
    return status;
}

static int take_listed(void *arg, const renderq_job *job)
{
    ++*(size_t *)arg;
    check_job(job, false, true);
    return 0;
}

static renderq_status list_upto(renderq *h, size_t max)
{
    renderq_filter filter = RENDERQ_INIT(renderq_filter);
    size_t seen = 0;
    filter.max = max;
    renderq_status status = renderq_list(h, &filter, take_listed, &seen);
    HOLDS(!max || seen <= max);
    return status;
}

static renderq_status list(renderq *h)
{
    return list_upto(h, 0);
}

static renderq_status list_some(renderq *h)
{
    return list_upto(h, SOME);
}

static renderq_status stats(renderq *h)
{
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    return renderq_stats(h, NULL, &counts);
}

static renderq_status cancel(renderq *h)
{
    return renderq_cancel(h, NULL, &an_id);
}

static renderq_status settle(renderq *h)
{
    return renderq_settle(h, NULL, &an_id, "file:///a.mp4", RENDERQ_SPARE_RENEWED);
}

static renderq_status retry(renderq *h)
{
    renderq_id holder = { "" };
    renderq_status status = renderq_retry(h, NULL, &an_id, &holder);
    if (status == RENDERQ_DUPLICATE)
        check_id(&holder);
    return status;
}

static renderq_status retry_dead(renderq *h)
{
    renderq_retried counts = RENDERQ_INIT(renderq_retried);
    renderq_status status = renderq_retry_dead(h, NULL, &counts);
    HOLDS(counts.retried >= 0 && counts.duplicates >= 0);
    return status;
}

static renderq_status reap(renderq *h)
{
    renderq_reaped counts = RENDERQ_INIT(renderq_reaped);
    renderq_status status = renderq_reap(h, NULL, &counts);
    HOLDS(counts.returned >= 0 && counts.dead >= 0);
    return status;
}

static renderq_status purge(renderq *h)
{
    int64_t deleted = -1;
    renderq_status status = renderq_purge(h, NULL, 60, &deleted);
    HOLDS(deleted >= 0);
    return status;
}

static renderq_status create(renderq *h)
{
    return renderq_create(h, NULL);
}

/* ---- transactions ---- */

/* What is said inside is said on the connection that the transaction is open on, or not at all. */
static void enqueue_inside(renderq *h, renderq_status (*how)(renderq *))
{
    size_t connections = wire_connections();
    bool gone = how(h) == RENDERQ_ABORTED;
    HOLDS(enqueue(h) == RENDERQ_ABORTED || !gone);
    HOLDS(wire_connections() == connections);
}

/* Whatever came of it, no transaction is left. */
static renderq_status ended(renderq *h, renderq_status status)
{
    HOLDS(status >= RENDERQ_OK && status <= RENDERQ_FAILED);
    HOLDS(renderq_commit(h) == RENDERQ_INVALID && renderq_rollback(h) == RENDERQ_OK);
    return status;
}

static renderq_status begin_enqueue_commit(renderq *h)
{
    renderq_status status = renderq_begin(h);
    if (status != RENDERQ_OK)
        return ended(h, status);
    enqueue_inside(h, enqueue);
    return ended(h, renderq_commit(h));
}

static renderq_status receive(renderq *h, renderq_job **job)
{
    *job = (renderq_job *)(uintptr_t)1;
    renderq_status status = renderq_receive(h, NULL, job);
    HOLDS((*job != NULL) == (status == RENDERQ_OK));
    if (*job)
        check_job(*job, true, false);
    return status;
}

static renderq_status receive_commit(renderq *h)
{
    renderq_job *job;
    renderq_status status = receive(h, &job);
    if (status == RENDERQ_OK) {
        enqueue_inside(h, enqueue_key);
        renderq_complete(h, job, "file:///a.mp4");
        status = renderq_commit(h);
    }
    renderq_job_free(job);
    return ended(h, status);
}

static renderq_status receive_rollback(renderq *h)
{
    renderq_job *job;
    renderq_status status = receive(h, &job);
    if (status == RENDERQ_OK) {
        enqueue_inside(h, enqueue_many);
        status = renderq_rollback(h);
        if (status == RENDERQ_OK)
            status = renderq_fail(h, job, "why", RENDERQ_BACKOFF);
    }
    renderq_job_free(job);
    return ended(h, status);
}

/* ---- all of them ---- */

/* Inputs name a call by its place: new ones go to the end. */
const call calls[] = {
    { "claim", RQ_CLAIM, false, claim },
    { "claim_reaping", RQ_CLAIM, false, claim_reaping },
    { "claim_many", RQ_CLAIM, false, claim_many },
    { "resume", RQ_RESUME, false, resume },
    { "renew", RQ_RENEW, false, renew },
    { "complete", RQ_COMPLETE, false, complete },
    { "fail", RQ_FAIL, false, fail },
    { "release", RQ_RELEASE, false, release },
    { "renew_many", RQ_RENEW, true, renew_many },
    { "start_many", RQ_START, true, start_many },
    { "hand_out", RQ_START, true, hand_out },
    { "complete_many", RQ_COMPLETE, true, complete_many },
    { "enqueue", RQ_ENQUEUE, false, enqueue },
    { "enqueue_key", RQ_ENQUEUE, false, enqueue_key },
    { "enqueue_many", RQ_ENQUEUE, true, enqueue_many },
    { "get", RQ_GET, false, get },
    { "list", RQ_LIST, false, list },
    { "list_some", RQ_LIST, false, list_some },
    { "stats", RQ_STATS, false, stats },
    { "cancel", RQ_CANCEL, false, cancel },
    { "settle", RQ_SETTLE, false, settle },
    { "retry", RQ_RETRY, false, retry },
    { "retry_dead", RQ_LIST, false, retry_dead },
    { "reap", RQ_REAP, false, reap },
    { "purge", RQ_PURGE, false, purge },
    { "create", RQ_STATEMENTS, false, create },
    { "begin_enqueue_commit", RQ_ENQUEUE, false, begin_enqueue_commit },
    { "receive_commit", RQ_CLAIM, false, receive_commit },
    { "receive_rollback", RQ_CLAIM, false, receive_rollback },
};
const size_t n_calls = sizeof calls / sizeof calls[0];

static void check_answer(const renderq *h, renderq_status status)
{
    const char *text = renderq_errmsg(h);
    HOLDS(status >= RENDERQ_OK && status <= RENDERQ_FAILED);
    HOLDS(status == RENDERQ_OK || *text);
    HOLDS(is_utf8(text) && !strchr(text, '\n') && !strstr(text, SECRET));
}

static void check_line(renderq_log_level level, const char *line, void *arg)
{
    (void)arg;
    HOLDS(level >= RENDERQ_LOG_ERROR && level <= RENDERQ_LOG_DEBUG);
    HOLDS(is_utf8(line) && !strchr(line, '\n') && !strstr(line, SECRET));
}

renderq *calls_open(bool retry)
{
    renderq *h;
    renderq_options options = RENDERQ_INIT(renderq_options);
    options.worker = "node-1";
    options.connect_s = options.command_s = 1;
    options.retry_s = retry ? 1 : -1;
    options.log = check_line;
    renderq_status status = renderq_open("sqlserver://sa:" SECRET "@127.0.0.1:1433/renderq?queue=" QUEUE, &options, &h);
    HOLDS(h);
    check_answer(h, status);
    if (status == RENDERQ_OK)
        return h;
    renderq_close(h);
    return NULL;
}

void calls_run(renderq *h, size_t which)
{
    renderq_status status = calls[which].run(h);
    check_answer(h, status);
    if (getenv("FUZZ_VERBOSE"))
        fprintf(stderr, "%s: %s: %s\n", calls[which].name, renderq_strstatus(status), renderq_errmsg(h));
}
