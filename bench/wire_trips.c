/* wire_trips.c: how often each public call asks the server, counted there. A network's round trip is what a call costs
 * mostly, so a call is one request, whatever the number of its jobs. That it stays so is for test/sqlserver/trips.c. */
#include "wire.h"

#include <stdlib.h>

#define MANY    RENDERQ_CLAIM_MAX
#define BULK    1000
#define LISTED  250
#define PAGE    100             /* rows that list reads at a time */

typedef struct trips {
    renderq *h;
    const char *url;
    renderq_job *jobs[MANY];
    renderq_result results[MANY];
    renderq_id id;
} trips;

/* What the calls since the last one of these asked. */
static void counted(const char *name, double allowed)
{
    double asked = (double)wire_asked().requests;
    report(&(figure){ .name = name, .unit = "requests", .ours = asked, .base = allowed, .ratio = asked / allowed,
                      .rule = AT_MOST, .target = 1 });
}

static void check(const trips *t, renderq_status status, renderq_status wanted, const char *doing)
{
    if (status != wanted)
        die("%s: %s instead of %s: %s", doing, renderq_strstatus(status), renderq_strstatus(wanted),
            renderq_errmsg(t->h));
}

static void ok(const trips *t, renderq_status status, const char *doing)
{
    check(t, status, RENDERQ_OK, doing);
}

static void opening(trips *t)
{
    t->h = ours_open_url(t->url);
    wire_requests asked = wire_asked();
    report(&(figure){ .name = "open", .unit = "logins", .ours = (double)asked.logins, .base = 1,
                      .ratio = (double)asked.logins, .rule = AT_MOST, .target = 1 });
    report(&(figure){ .name = "open, after its login", .unit = "requests", .ours = (double)asked.requests, .base = 1,
                      .ratio = (double)asked.requests, .rule = AT_MOST, .target = 1 });
}

static void enqueue(trips *t, size_t n)
{
    renderq_new_job *jobs = allocate(n * sizeof *jobs);
    for (size_t i = 0; i < n; i++) {
        jobs[i] = (renderq_new_job)RENDERQ_INIT(renderq_new_job);
        jobs[i].composition_id = "composition";
        jobs[i].payload_json = payload();
    }
    ok(t, n == 1 ? renderq_enqueue(t->h, jobs, &t->id) : renderq_enqueue_many(t->h, jobs, n, NULL), "enqueue");
    free(jobs);
}

static void claim(trips *t)
{
    ok(t, renderq_claim(t->h, NULL, &t->jobs[0]), "claim");
    t->id = t->jobs[0]->id;
}

static void claim_many(trips *t, bool unstarted)
{
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    size_t n;
    options.unstarted = unstarted;
    ok(t, renderq_claim_many(t->h, &options, t->jobs, MANY, &n), "claim_many");
    if (n != MANY)
        die("%zu jobs were claimed, not %d", n, MANY);
}

static void drop(trips *t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        renderq_job_free(t->jobs[i]);
}

static void one_by_one(trips *t)
{
    renderq_job *other = NULL;
    enqueue(t, 1);
    counted("enqueue", 1);
    claim(t);
    counted("claim", 1);
    ok(t, renderq_renew(t->h, t->jobs[0], "half"), "renew");
    counted("renew", 1);
    ok(t, renderq_job_resume(t->h, NULL, &t->jobs[0]->id, &t->jobs[0]->lease, &other), "job_resume");
    counted("job_resume", 1);
    renderq_job_free(other);
    ok(t, renderq_release(t->h, t->jobs[0], 0), "release");
    counted("release", 1);
    drop(t, 1);
    claim(t);
    wire_asked();
    ok(t, renderq_fail(t->h, t->jobs[0], "it broke", 0), "fail");
    counted("fail", 1);
    drop(t, 1);
    claim(t);
    wire_asked();
    ok(t, renderq_complete(t->h, t->jobs[0], "out.mp4"), "complete");
    counted("complete", 1);
    check(t, renderq_complete(t->h, t->jobs[0], "out.mp4"), RENDERQ_LOST, "complete");
    counted("complete, too late", 1);
    drop(t, 1);
}

static void many(trips *t)
{
    enqueue(t, BULK);
    counted("enqueue_many of 1,000", 1);
    claim_many(t, true);
    counted("claim_many of 100", 1);
    ok(t, renderq_start_many(t->h, t->jobs, MANY, "another", 0, NULL), "start_many");
    counted("start_many of 100", 1);
    ok(t, renderq_renew_many(t->h, t->jobs, MANY, NULL), "renew_many");
    counted("renew_many of 100", 1);
    for (size_t i = 0; i < MANY; i++) {
        t->results[i] = (renderq_result)RENDERQ_INIT(renderq_result);
        t->results[i].job = t->jobs[i];
    }
    ok(t, renderq_complete_many(t->h, t->results, MANY), "complete_many");
    counted("complete_many of 100", 1);
    drop(t, MANY);
}

static int look(void *arg, const renderq_job *job)
{
    (void)job;
    ++*(size_t *)arg;
    return 0;
}

static void operators(trips *t)
{
    renderq_job *job;
    renderq_filter filter = RENDERQ_INIT(renderq_filter);
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    size_t listed = 0;
    filter.max = LISTED;
    ok(t, renderq_get(t->h, NULL, &t->id, &job), "get");
    counted("get", 1);
    renderq_job_free(job);
    ok(t, renderq_list(t->h, &filter, look, &listed), "list");
    counted("list of 250, a hundred at a time", (LISTED + PAGE - 1) / PAGE);
    ok(t, renderq_stats(t->h, NULL, &counts), "stats");
    counted("stats", 1);
    ok(t, renderq_retry(t->h, NULL, &t->id, NULL), "retry");
    counted("retry", 1);
    ok(t, renderq_cancel(t->h, NULL, &t->id), "cancel");
    counted("cancel", 1);
    ok(t, renderq_settle(t->h, NULL, &t->id, "by.hand.mp4", 0), "settle");
    counted("settle", 1);
    check(t, renderq_cancel(t->h, NULL, &t->id), RENDERQ_LOST, "cancel");
    counted("cancel of what is done", 1);
}

static void bulk(trips *t)
{
    int64_t deleted;
    claim_many(t, false);
    for (size_t i = 0; i < MANY; i++)
        ok(t, renderq_fail(t->h, t->jobs[i], "it broke", RENDERQ_NEVER), "fail");
    drop(t, MANY);
    wire_asked();
    ok(t, renderq_retry_dead(t->h, NULL, NULL), "retry_dead");
    counted("retry_dead of 100: a look and a retry", 2);
    ok(t, renderq_reap(t->h, NULL, NULL), "reap");
    counted("reap", 1);
    wire_age(3600);
    ok(t, renderq_purge(t->h, NULL, 60, &deleted), "purge");
    counted("purge of 100", 1);
    if (deleted < MANY)
        die("%lld jobs were purged, not %d", (long long)deleted, MANY);
}

static void nothing_to_claim(trips *t)
{
    renderq_claim_options no_reap = RENDERQ_INIT(renderq_claim_options);
    wire_forget();
    wire_asked();
    check(t, renderq_claim(t->h, NULL, &t->jobs[0]), RENDERQ_EMPTY, "claim");
    counted("claim that finds nothing: each 10 s", 2);
    check(t, renderq_claim(t->h, NULL, &t->jobs[0]), RENDERQ_EMPTY, "claim");
    counted("claim that finds nothing: all others", 1);
    no_reap.no_reap = 1;
    check(t, renderq_claim(t->h, &no_reap, &t->jobs[0]), RENDERQ_EMPTY, "claim");
    counted("claim that finds nothing, no_reap", 1);
}

void bench_trips(const bench_run *run)
{
    report_group("Requests a call, counted at the server", "measured", "allowed");
    trips t = { .url = wire_server(run) };
    if (!t.url)
        return;
    opening(&t);
    one_by_one(&t);
    many(&t);
    operators(&t);
    bulk(&t);
    nothing_to_claim(&t);
    renderq_close(t.h);
}
