/* ends.c: what ends a worker by itself: so many jobs, an empty queue. And what it finds while it goes on. */
#include "kit.h"

static void put_delayed(kit *k, int64_t delay_ms)
{
    renderq_new_job new = RENDERQ_INIT(renderq_new_job);
    new.composition_id = "d";
    new.payload_json = "{}";
    new.delay_ms = delay_ms;
    assert_status(k->h, renderq_enqueue(k->h, &new, NULL), RENDERQ_OK);
}

static void it_ends_after_so_many_jobs(void **state)
{
    kit *k = *state;
    put_some(k, "d", 15);
    k->options.max_jobs = 7;
    k->options.threads = 4;
    expect(k, run_here(k), RENDERQ_OK);
    assert_int_equal(k->calls, 7);
    expect_queue(k, 8, 0, 7, 0, 0);
    expect(k, run_here(k), RENDERQ_OK);             /* the same once more */
    expect_queue(k, 1, 0, 14, 0, 0);
}

static void it_ends_when_the_queue_is_empty(void **state)
{
    kit *k = *state;
    k->options.stop_when_empty = 1;
    k->options.threads = 3;
    expect(k, run_here(k), RENDERQ_OK);
    assert_int_equal(k->calls, 0);
    put_some(k, "d", 50);
    expect(k, run_here(k), RENDERQ_OK);
    expect_queue(k, 0, 0, 50, 0, 0);
}

/* A job in hand may put others in, or come back at once. */
static void it_is_not_empty_while_a_job_is_in_hand(void **state)
{
    kit *k = *state;
    put_some(k, "h", 1);
    k->options.stop_when_empty = 1;
    k->options.threads = 2;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 1);
    sleep_ms(150);                                  /* several empty reads */
    put_some(k, "f", 1);
    wait_event(k, RENDERQ_EVENT_FAILED, 4);
    let_go(k);
    expect(k, wait_end(k), RENDERQ_OK);
    expect_queue(k, 0, 0, 1, 1, 0);
}

/* It finds nothing at first; then the job is there, and after it the time begins anew. */
static void it_may_wait_before_it_is_empty(void **state)
{
    kit *k = *state;
    k->options.stop_when_empty = 1;
    k->options.empty_ms = 400;
    k->options.poll_max_ms = 100;
    int64_t put_ms = now_ms();
    put_delayed(k, 200);
    start(k);
    expect(k, wait_end(k), RENDERQ_OK);
    expect_queue(k, 0, 0, 1, 0, 0);
    assert_true(k->ended_ms - put_ms >= 590);
}

static void it_may_wait_for_ever(kit *k, bool transactional)
{
    k->options.stop_when_empty = 1;
    k->options.empty_ms = INT64_MAX;
    k->options.transactional = transactional;
    start(k);
    sleep_ms(100);                                  /* time to find nothing */
    put_some(k, "d", 1);
    wait_event(k, RENDERQ_EVENT_DONE, 1);
    stop(k);
    expect(k, wait_end(k), RENDERQ_OK);
}

static void it_may_wait_for_ever_before_it_is_empty(void **state)
{
    it_may_wait_for_ever(*state, false);
}

static void in_transactions_it_may_too(void **state)
{
    it_may_wait_for_ever(*state, true);
}

static void several_at_once_and_no_more(void **state)
{
    kit *k = *state;
    put_some(k, "h", 24);
    k->options.threads = 6;
    k->options.stop_when_empty = 1;
    start(k);
    wait_until(handlers_now(k) == 6);
    sleep_ms(100);                                  /* time for a seventh */
    let_go(k);
    expect(k, wait_end(k), RENDERQ_OK);
    expect_queue(k, 0, 0, 24, 0, 0);
    assert_int_equal(k->most_at_once, 6);
}

/* One that found nothing for long is back when there is work. */
static void it_polls(void **state)
{
    kit *k = *state;
    k->options.threads = 2;
    start(k);
    for (size_t i = 1; i <= 5; i++) {
        sleep_ms((int)i * 30);
        put_some(k, "d", 3);
        wait_event(k, RENDERQ_EVENT_DONE, 3 * i);
    }
    stop(k);
    expect(k, wait_end(k), RENDERQ_OK);
}

/* Nobody else looks after the queue here: what a dead worker held comes back. */
static void it_heals_the_queue(void **state)
{
    kit *k = *state;
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_job *job = NULL;
    renderq_id id = put_some(k, "d", 1);
    options.unstarted = 1;                          /* so that it needs no back-off */
    assert_status(k->h, renderq_claim(k->h, &options, &job), RENDERQ_OK);
    renderq_job_free(job);
    run_out(k);
    k->options.stop_when_empty = 1;
    expect(k, run_here(k), RENDERQ_OK);
    job = look(k, &id);
    assert_int_equal(job->state, RENDERQ_COMPLETED);
    renderq_job_free(job);
}

/* What is delayed becomes ready by the claims themselves. */
static void it_promotes_what_is_due(void **state)
{
    kit *k = *state;
    put_delayed(k, 200);
    k->options.max_jobs = 1;
    expect(k, run_here(k), RENDERQ_OK);
    expect_queue(k, 0, 0, 1, 0, 0);
}

int run_ends(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_ends_after_so_many_jobs), TEST(it_ends_when_the_queue_is_empty),
        TEST(it_is_not_empty_while_a_job_is_in_hand), TEST(it_may_wait_before_it_is_empty),
        TEST(it_may_wait_for_ever_before_it_is_empty), TEST(in_transactions_it_may_too),
        TEST(several_at_once_and_no_more), TEST(it_polls), TEST(it_heals_the_queue), TEST(it_promotes_what_is_due),
    };
    return cmocka_run_group_tests_name("ends", tests, NULL, NULL);
}
