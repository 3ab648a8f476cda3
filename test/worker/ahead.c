/* ahead.c: jobs claimed ahead of their turn: leased unstarted, started just before their handlers run, given back when
 * nobody starts them, and not counted when the process dies. */
#include "kit.h"

#include <signal.h>

typedef struct seen {
    size_t started, unstarted, failures;
} seen;

static int count(void *arg, const renderq_job *job)
{
    seen *s = arg;
    s->failures += (size_t)job->retry_count;
    if (job->state == RENDERQ_PROCESSING && job->started_at_ms)
        s->started++;
    else if (job->state == RENDERQ_PROCESSING)
        s->unstarted++;
    return 0;
}

static seen look_at_all(kit *k)
{
    seen s = { 0, 0, 0 };
    assert_status(k->h, renderq_list(k->h, NULL, count, &s), RENDERQ_OK);
    return s;
}

static void wait_unstarted(kit *k, size_t n)
{
    wait_until(look_at_all(k).unstarted == n);
}

static void they_are_started_when_it_is_their_turn(void **state)
{
    kit *k = *state;
    put_some(k, "h", 2);
    put_some(k, "d", 5);
    k->options.threads = 2;
    k->options.prefetch = 2;
    start(k);
    wait_unstarted(k, 2);
    assert_int_equal(look_at_all(k).started, 2);
    let_go(k);
    wait_event(k, RENDERQ_EVENT_DONE, 7);
    stop(k);
    expect(k, wait_end(k), RENDERQ_OK);
    expect_queue(k, 0, 0, 7, 0, 0);
}

static void a_stop_gives_them_back(void **state)
{
    kit *k = *state;
    put_some(k, "w", 10);
    k->options.threads = 2;
    k->options.prefetch = 2;
    k->options.grace_s = RENDERQ_AT_ONCE;
    start(k);
    wait_unstarted(k, 2);
    wait_event(k, RENDERQ_EVENT_STARTED, 2);
    stop(k);
    expect(k, wait_end(k), RENDERQ_OK);
    expect_queue(k, 10, 0, 0, 0, 0);
    assert_int_equal(events(k, RENDERQ_EVENT_RELEASED), 2);
    assert_int_equal(events(k, RENDERQ_EVENT_RETRIED), 2);
    assert_int_equal(look_at_all(k).failures, 0);
}

/* The thread is busy for long, so others may have them: after a third of the lease. A sixth of it is how long a handler
 * may have run when one is claimed ahead of its turn. */
static void they_go_back_when_their_turn_would_come_too_late(void **state)
{
    kit *k = *state;
    put_some(k, "h", 1);
    put_some(k, "d", 1);
    k->options.prefetch = 5;
    k->options.lease_s = 30;
    start(k);
    wait_event(k, RENDERQ_EVENT_RELEASED, 1);
    for (int i = 0; i < 30; i++, sleep_ms(10))      /* it does not take it again meanwhile */
        assert_int_equal(look_at_all(k).unstarted, 0);
    assert_int_equal(events(k, RENDERQ_EVENT_RELEASED), 1);
    let_go(k);
    wait_event(k, RENDERQ_EVENT_DONE, 2);
    stop(k);
    expect(k, wait_end(k), RENDERQ_OK);
}

/* It is ended by somebody else while it waits; so another one is worked on. */
static void one_that_is_lost_is_not_counted(void **state)
{
    kit *k = *state;
    put_some(k, "h", 1);
    renderq_id id = put_some(k, "d", 1);
    put_some(k, "d", 3);
    k->options.prefetch = 2;
    k->options.max_jobs = 3;
    start(k);
    wait_unstarted(k, 1);
    wait_event(k, RENDERQ_EVENT_STARTED, 1);
    assert_status(k->h, renderq_cancel(k->h, NULL, &id), RENDERQ_OK);
    let_go(k);
    expect(k, wait_end(k), RENDERQ_OK);
    assert_int_equal(k->calls, 3);
    assert_int_equal(events(k, RENDERQ_EVENT_LOST), 1);
    expect_queue(k, 1, 0, 3, 0, 0);
}

static int dies(void *arg)
{
    kit *k = arg;
    CHECK(renderq_worker_new(k->url, &k->options, &k->w) == RENDERQ_OK);
    renderq_worker_run(k->w);
    return 0;
}

static void a_crash_counts_those_that_were_started(void **state)
{
    kit *k = *state;
    int how;
    put_some(k, "h", 8);
    k->options.threads = 3;
    k->options.prefetch = 3;
    pid_t child = start_child(dies, k, false);
    wait_unstarted(k, 3);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &how, 0), child);
    run_out(k);
    reap(k);
    assert_int_equal(look_at_all(k).failures, 3);
    expect_queue(k, 5, 0, 0, 0, 3);
}

int run_ahead(void)
{
    const struct CMUnitTest tests[] = {
        TEST(they_are_started_when_it_is_their_turn), TEST(a_stop_gives_them_back),
        TEST(they_go_back_when_their_turn_would_come_too_late), TEST(one_that_is_lost_is_not_counted),
        TEST(a_crash_counts_those_that_were_started),
    };
    return cmocka_run_group_tests_name("ahead", tests, NULL, NULL);
}
