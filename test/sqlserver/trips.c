/* trips.c: how often a call asks the server. Each public call is one round trip, however many jobs it is for. */
#include "wire.h"

#include <pthread.h>

#include "clock.h"
#include "handle.h"

static renderq *h;

static int open_queue_of(void **state)
{
    (void)state;
    h = queue_at(&common, "trips", NULL);
    return 0;
}

static int close_it(void **state)
{
    (void)state;
    renderq_close(h);
    return 0;
}

static long mark;

/* A claim also reaps once a minute; that is not to be in what is counted. */
static void begin(void)
{
    h->opened_at_ms = rq_clock_ms();
    mark = log_end(&common);
}

/* Since begin() the server was asked just this, once. */
static void end_at(const char *request, int line)
{
    size_t trips = log_count(&common, mark, " rpc ") + log_count(&common, mark, " batch ");
    if (trips == 1 && log_count(&common, mark, request) == 1)
        return;
    print_error("instead of \"%s\" alone the server was asked:\n", request);
    log_show(&common, mark);
    _fail(__FILE__, line);
}

#define end(request) end_at((request), __LINE__)

static void fill(renderq_new_job *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        jobs[i] = (renderq_new_job)RENDERQ_INIT(renderq_new_job);
        jobs[i].composition_id = "intro";
        jobs[i].payload_json = "{}";
    }
}

static void a_call_is_one_trip(void **state)
{
    (void)state;
    renderq_job *job = NULL, *again = NULL;
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    renderq_id id;
    begin();
    expect_ok(h, put_job(h, NULL, "intro", &id));
    end(" rpc enqueue trips 1");
    begin();
    expect_ok(h, take_job(h, NULL, &job));
    end(" rpc claim trips 1");
    begin();
    expect_ok(h, renderq_renew(h, job, "half"));
    end(" rpc renew trips 1");
    begin();
    expect_ok(h, renderq_job_resume(h, NULL, &job->id, &job->lease, &again));
    end(" rpc resume trips 1");
    renderq_job_free(again);
    begin();
    expect_ok(h, renderq_release(h, job, 0));
    end(" rpc release trips 1");
    renderq_job_free(job);
    expect_ok(h, take_job(h, NULL, &job));
    begin();
    expect_ok(h, renderq_fail(h, job, "broke", 0));
    end(" rpc fail trips 1");
    begin();
    expect(h, renderq_complete(h, job, NULL), RENDERQ_LOST);
    end(" rpc complete trips 1");
    renderq_job_free(job);
    expect_ok(h, take_job(h, NULL, &job));
    begin();
    expect_ok(h, renderq_complete(h, job, "done"));
    end(" rpc complete trips 1");
    renderq_job_free(job);
    begin();
    expect_ok(h, renderq_get(h, NULL, &id, &job));
    end(" rpc get trips 1");
    renderq_job_free(job);
    begin();
    expect_ok(h, renderq_stats(h, NULL, &counts));
    end(" batch stats");
    begin();
    expect(h, renderq_cancel(h, NULL, &id), RENDERQ_LOST);
    end(" rpc cancel trips 1");
    begin();
    expect_ok(h, renderq_retry(h, NULL, &id, NULL));
    end(" rpc retry trips 1");
    begin();
    expect_ok(h, renderq_settle(h, NULL, &id, "done", 0));
    end(" rpc settle trips 1");
}

static void many_jobs_are_one_trip(void **state)
{
    enum { N = 20 };
    (void)state;
    renderq_new_job new[N];
    renderq_job *jobs[N];
    renderq_result results[N];
    renderq_claim_options unstarted = RENDERQ_INIT(renderq_claim_options);
    size_t n = 0;
    fill(new, N);
    begin();
    expect_ok(h, renderq_enqueue_many(h, new, N, NULL));
    end(" rpc enqueue_many trips 20");
    unstarted.unstarted = 1;
    begin();
    expect_ok(h, renderq_claim_many(h, &unstarted, jobs, N, &n));
    end(" rpc claim trips 1");
    assert_int_equal(n, N);
    begin();
    expect_ok(h, renderq_start_many(h, jobs, N, "node-2", 60, NULL));
    end(" rpc start_many trips 20");
    begin();
    expect_ok(h, renderq_renew_many(h, jobs, N, NULL));
    end(" rpc renew_many trips 20");
    for (size_t i = 0; i < N; i++) {
        results[i] = (renderq_result)RENDERQ_INIT(renderq_result);
        results[i].job = jobs[i];
    }
    begin();
    expect_ok(h, renderq_complete_many(h, results, N));
    end(" rpc complete_many trips 20");
    for (size_t i = 0; i < N; i++)
        renderq_job_free(jobs[i]);
}

static void thousands_of_jobs_are_one_trip(void **state)
{
    enum { N = 3000 };
    (void)state;
    renderq_new_job *new = calloc(N, sizeof *new);
    renderq_enqueued *each = calloc(N, sizeof *each);
    assert_true(new && each);
    fill(new, N);
    for (size_t i = 0; i < N; i++)
        each[i] = (renderq_enqueued)RENDERQ_INIT(renderq_enqueued);
    begin();
    expect_ok(h, renderq_enqueue_many(h, new, N, each));
    end(" rpc enqueue_many trips 3000");
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(each[i].status, RENDERQ_OK);
        assert_true(i == 0 || strcmp(each[i].id.text, each[i - 1].id.text) != 0);
    }
    assert_int_equal(file_int(common.db, "SELECT count(*) FROM trips WHERE Status = 'Queued'"), N);
    file_exec(common.db, "DELETE FROM trips");
    free(new);
    free(each);
}

/* What was done to less than a batch was done to all. */
static void an_operators_sweep(void **state)
{
    (void)state;
    renderq_retried retried = RENDERQ_INIT(renderq_retried);
    renderq_job *job = NULL;
    int64_t deleted;
    expect_ok(h, put_job(h, NULL, "intro", NULL));
    expect_ok(h, take_job(h, NULL, &job));
    expect_ok(h, renderq_fail(h, job, "broke", RENDERQ_NEVER));
    renderq_job_free(job);
    begin();
    expect_ok(h, renderq_reap(h, NULL, NULL));
    end(" rpc reap trips 1");
    begin();
    expect_ok(h, renderq_retry_dead(h, NULL, &retried));
    assert_int_equal(retried.retried, 1);
    assert_int_equal(log_count(&common, mark, " rpc "), 2);
    assert_int_equal(log_count(&common, mark, " rpc list trips 1"), 1);
    expect_ok(h, take_job(h, NULL, &job));
    expect_ok(h, renderq_complete(h, job, NULL));
    renderq_job_free(job);
    file_exec(common.db, "UPDATE trips SET CompletedAtUtc = CompletedAtUtc - 100000");
    begin();
    expect_ok(h, renderq_purge(h, NULL, 60, &deleted));
    assert_true(deleted > 0);
    end(" rpc purge trips 1");
}

/* One, and another when ten seconds are over. */
static void expect_reaps(int64_t took_ms)
{
    assert_in_range(log_count(&common, mark, " rpc reap trips 1"), 1, 1 + took_ms / 10000);
}

/* An empty queue costs one reap every ten seconds and no more. */
static void an_empty_queue(void **state)
{
    (void)state;
    renderq_job *job = NULL;
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    options.no_reap = 1;
    begin();
    expect(h, renderq_claim(h, &options, &job), RENDERQ_EMPTY);
    end(" rpc claim trips 1");
    begin();
    int64_t start = now_ms();
    for (int i = 0; i < 5; i++)
        expect(h, take_job(h, NULL, &job), RENDERQ_EMPTY);
    expect_reaps(now_ms() - start);
    assert_int_equal(log_count(&common, mark, " rpc claim trips 1"), 5);
}

/* A trip less would be none: nothing is sent for what is INVALID. */
static void nothing_is_sent_for_what_is_invalid(void **state)
{
    (void)state;
    begin();
    expect(h, put_job(h, NULL, "", NULL), RENDERQ_INVALID);
    expect(h, put_job(h, NULL, "\xFF", NULL), RENDERQ_INVALID);
    expect(h, put_job(h, "a.b.c", "x", NULL), RENDERQ_INVALID);
    assert_int_equal(log_end(&common), mark);
}

/* ---- a worker ---- */

enum { THREADS = 8, JOBS = 64 };

/* All threads end their jobs together, so that there is something to tell of together. */
static renderq_outcome meet(void *arg, renderq_task *task, const renderq_job *job)
{
    (void)job;
    pthread_barrier_wait(arg);
    return renderq_task_done(task, "done");
}

/* How many requests that took. */
static size_t work_together(void)
{
    renderq_new_job new[JOBS];
    renderq_worker *w;
    pthread_barrier_t barrier;
    renderq_worker_options options = RENDERQ_INIT(renderq_worker_options);
    options.handler = meet;
    options.handler_arg = &barrier;
    options.threads = THREADS;
    options.max_jobs = JOBS;
    pthread_barrier_init(&barrier, NULL, THREADS);
    fill(new, JOBS);
    expect_ok(h, renderq_enqueue_many(h, new, JOBS, NULL));
    assert_int_equal(renderq_worker_new(url_of(&common, "/renderq?queue=trips"), &options, &w), RENDERQ_OK);
    begin();
    assert_int_equal(renderq_worker_run(w), RENDERQ_OK);
    size_t trips = log_count(&common, mark, " rpc ");
    print_message("%d jobs in %d threads: %zu round trips\n", JOBS, THREADS, trips);
    assert_int_equal(log_count(&common, mark, " rpc fail"), 0);
    assert_int_equal(log_count(&common, mark, " rpc renew"), 0);
    renderq_worker_free(w);
    pthread_barrier_destroy(&barrier);
    return trips;
}

/* Threads that are held up end their jobs one after the other after all; not each time. */
static void a_busy_worker(void **state)
{
    size_t trips = JOBS;
    (void)state;
    for (int i = 0; i < 5 && trips >= JOBS; i++)
        trips = work_together();
    assert_true(trips < JOBS);
}

/* One read a poll, fewer and fewer, however many threads there are; and one reap. */
static void an_idle_worker(void **state)
{
    (void)state;
    renderq_worker *w;
    pthread_barrier_t unused;
    renderq_worker_options options = RENDERQ_INIT(renderq_worker_options);
    options.handler = meet;
    options.handler_arg = &unused;
    options.threads = THREADS;
    options.stop_when_empty = 1;
    options.empty_ms = 2000;
    assert_int_equal(renderq_worker_new(url_of(&common, "/renderq?queue=trips"), &options, &w), RENDERQ_OK);
    begin();
    int64_t start = now_ms();
    assert_int_equal(renderq_worker_run(w), RENDERQ_OK);
    size_t trips = log_count(&common, mark, " rpc ");
    print_message("idle for 2 s: %zu round trips\n", trips);
    assert_in_range(trips, 2, 9);           /* at 0, 0.1, 0.3, 0.7, 1.5 and 2 s, spread by a quarter; or less */
    expect_reaps(now_ms() - start);
    renderq_worker_free(w);
}

int run_trips(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_one_trip),
        cmocka_unit_test(many_jobs_are_one_trip),
        cmocka_unit_test(thousands_of_jobs_are_one_trip),
        cmocka_unit_test(an_operators_sweep),
        cmocka_unit_test(an_empty_queue),
        cmocka_unit_test(nothing_is_sent_for_what_is_invalid),
        cmocka_unit_test(a_busy_worker),
        cmocka_unit_test(an_idle_worker),
    };
    return cmocka_run_group_tests_name("trips", tests, open_queue_of, close_it);
}
