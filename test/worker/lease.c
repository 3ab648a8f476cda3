/* lease.c: leases are kept alive, and when one is lost its handler hears of it, and what comes of it does not count. */
#include "kit.h"

#include <signal.h>

static int failures_of(kit *k, const renderq_id *id)
{
    renderq_job *job = look(k, id);
    int n = job->retry_count;
    renderq_job_free(job);
    return n;
}

static int64_t lease_began(kit *k, const renderq_id *id)
{
    renderq_job *job = look(k, id);
    assert_int_equal(job->state, RENDERQ_PROCESSING);
    int64_t at_ms = job->locked_at_ms;
    renderq_job_free(job);
    return at_ms;
}

/* Again and again, and nobody else gets the jobs meanwhile. */
static void it_is_renewed(void **state)
{
    kit *k = *state;
    renderq_id id = put_some(k, "h", 3);
    k->options.threads = 3;
    k->options.lease_s = 9;                         /* a renewal after three, and the machine may stand still for six */
    k->options.stop_when_empty = 1;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 3);
    int failures = failures_of(k, &id);
    for (int i = 0; i < 2; i++) {
        int64_t before_ms = lease_began(k, &id);
        wait_until((reap(k), lease_began(k, &id)) > before_ms);
    }
    let_go(k);
    expect(k, wait_end(k), RENDERQ_OK);
    expect_queue(k, 0, 0, 3, 0, 0);
    assert_int_equal(k->calls, 3);
    assert_int_equal(events(k, RENDERQ_EVENT_LOST), 0);
    assert_int_equal(failures_of(k, &id), failures);
}

static bool is_half_done(kit *k, const renderq_id *id)
{
    renderq_job *job = look(k, id);
    bool is = job->state == RENDERQ_PROCESSING && job->progress && strcmp(job->progress, "half of it") == 0;
    renderq_job_free(job);
    return is;
}

static void progress_is_kept_with_the_job(void **state)
{
    kit *k = *state;
    renderq_id id = put_some(k, "s", 1);
    k->options.lease_s = 1;                         /* renewed three times a second */
    k->options.max_jobs = 1;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 1);
    wait_until(is_half_done(k, &id));
    let_go(k);
    expect(k, wait_end(k), RENDERQ_OK);
}

/* An operator cancels it: the handler is told, and what it returns is not sent. It asks only then, as it could be late
 * with a lease as short as this one, and would go back. */
static void a_cancelled_job_is_lost(void **state)
{
    kit *k = *state;
    renderq_id id = put_some(k, "h", 1);
    k->options.lease_s = 1;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 1);
    assert_status(k->h, renderq_cancel(k->h, NULL, &id), RENDERQ_OK);
    wait_event(k, RENDERQ_EVENT_LOST, 1);
    let_go(k);
    stop(k);
    expect(k, wait_end(k), RENDERQ_OK);
    assert_int_equal(k->reasons[RENDERQ_STOP_LOST], 1);
    assert_int_equal(events(k, RENDERQ_EVENT_LOST), 1);
    assert_int_equal(events(k, RENDERQ_EVENT_DONE), 0);
    renderq_job *job = look(k, &id);
    assert_int_equal(job->state, RENDERQ_CANCELLED);
    renderq_job_free(job);
}

/* It was ended behind our back, and the handler had finished before anybody noticed: the answer to its result. */
static void a_result_that_comes_too_late(void **state)
{
    kit *k = *state;
    renderq_id id = put_some(k, "h", 1);
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 1);
    assert_status(k->h, renderq_settle(k->h, NULL, &id, "by hand", 0), RENDERQ_OK);
    let_go(k);
    wait_event(k, RENDERQ_EVENT_LOST, 1);
    stop(k);
    expect(k, wait_end(k), RENDERQ_OK);
    assert_int_equal(events(k, RENDERQ_EVENT_DONE), 0);
    renderq_job *job = look(k, &id);
    assert_string_equal(job->output_url, "by hand");
    renderq_job_free(job);
}

/* ---- too long ---- */

static void a_job_that_takes_too_long_fails(void **state)
{
    kit *k = *state;
    renderq_id id = put_some(k, "w", 1);
    k->options.job_timeout_s = 1;
    k->options.max_jobs = 1;
    expect(k, run_here(k), RENDERQ_OK);
    assert_int_equal(events(k, RENDERQ_EVENT_TIMEOUT), 1);
    assert_int_equal(events(k, RENDERQ_EVENT_FAILED), 1);
    assert_int_equal(k->reasons[RENDERQ_STOP_TIMEOUT], 1);
    renderq_job *job = look(k, &id);
    assert_int_equal(job->state, RENDERQ_SCHEDULED);
    assert_int_equal(job->retry_count, 1);
    expect_text(job->last_error, "longer than 1 s", __FILE__, __LINE__);
    renderq_job_free(job);
}

static void one_that_is_done_all_the_same_counts(void **state)
{
    kit *k = *state;
    put_some(k, "l", 1);
    k->slow_ms = 1300;
    k->options.job_timeout_s = 1;
    k->options.max_jobs = 1;
    expect(k, run_here(k), RENDERQ_OK);
    expect_queue(k, 0, 0, 1, 0, 0);
}

static void expect_late(kit *k, const renderq_id *id)
{
    renderq_job *job = look(k, id);
    assert_int_equal(job->state, RENDERQ_DEAD_LETTER);
    assert_int_equal(job->retry_count, 1);
    expect_text(job->last_error, "longer than 1 s", __FILE__, __LINE__);
    renderq_job_free(job);
}

/* It does not return: the job fails, its lease is not renewed for ever, and the other thread works on. */
static void one_that_does_not_return_fails(void **state)
{
    kit *k = *state;
    renderq_id id = put_without_retries(k, "u");
    k->options.job_timeout_s = 1;
    k->options.linger_s = 1;
    k->options.threads = 2;
    start(k);
    wait_event(k, RENDERQ_EVENT_FAILED, 1);
    expect_late(k, &id);
    put_some(k, "d", 3);
    wait_event(k, RENDERQ_EVENT_DONE, 3);
    let_go(k);                                      /* it returns DONE, which nobody hears */
    wait_until(handlers_now(k) == 0);
    put_some(k, "b", 2);                            /* its thread is at work again, too */
    wait_event(k, RENDERQ_EVENT_DONE, 5);
    stop(k);
    expect(k, wait_end(k), RENDERQ_OK);
    expect_late(k, &id);
}

/* ---- asleep ---- */

static int sleeper(void *arg)
{
    kit *k = arg;
    CHECK(renderq_worker_new(k->url, &k->options, &k->w) == RENDERQ_OK);
    renderq_status status = renderq_worker_run(k->w);
    if (status != RENDERQ_OK)
        fprintf(stderr, "%s\n", renderq_worker_errmsg(k->w));
    CHECK(status == RENDERQ_OK);
    CHECK(k->events[RENDERQ_EVENT_LOST] == 3);
    CHECK(k->events[RENDERQ_EVENT_DONE] == 0);
    renderq_worker_free(k->w);
    return 0;
}

/* A whole process sleeps past its leases; by then others have its jobs, which are done once, by them. */
static void a_process_that_sleeps(void **state)
{
    kit *k = *state;
    put_some(k, "h", 3);
    k->options.threads = 3;
    k->options.max_jobs = 3;
    k->options.name = "sleeper";
    begins_in_child(k);
    pid_t child = start_child(sleeper, k, false);
    wait_begun_in_child(k, 3);
    assert_int_equal(kill(child, SIGSTOP), 0);
    run_out(k);
    reap(k);
    expect_queue(k, 0, 0, 0, 0, 3);
    make_due(k);
    k->options.name = "other";
    let_go(k);
    expect(k, run_here(k), RENDERQ_OK);
    expect_queue(k, 0, 0, 3, 0, 0);
    assert_int_equal(kill(child, SIGCONT), 0);
    let_go_in_child(k);
    end_child(child);
    expect_queue(k, 0, 0, 3, 0, 0);
}

int run_lease(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_is_renewed), TEST(progress_is_kept_with_the_job), TEST(a_cancelled_job_is_lost),
        TEST(a_result_that_comes_too_late), TEST(a_job_that_takes_too_long_fails),
        TEST(one_that_is_done_all_the_same_counts), TEST(one_that_does_not_return_fails), TEST(a_process_that_sleeps),
    };
    return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
