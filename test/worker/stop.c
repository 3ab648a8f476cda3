/* stop.c: a stop, from a thread, a handler or a signal: nothing new, and those in hand are finished or given back. What
 * a stop does not wait for would take longer than wait_end() waits. */
#include "kit.h"

#include <signal.h>

static void idle_it_stops_at_once(void **state)
{
    kit *k = *state;
    k->options.threads = 4;
    k->options.poll_min_ms = k->options.poll_max_ms = 3600000;      /* it is the stop that wakes it */
    start(k);
    sleep_ms(100);
    stop(k);
    expect(k, wait_end(k), RENDERQ_OK);
    put_some(k, "d", 1);
    expect(k, run_here(k), RENDERQ_OK);             /* it stays stopped */
    expect_queue(k, 1, 0, 0, 0, 0);
}

static void before_it_runs(void **state)
{
    kit *k = *state;
    put_some(k, "d", 1);
    make(k);
    stop(k);
    expect(k, run_here(k), RENDERQ_OK);
    expect_queue(k, 1, 0, 0, 0, 0);
}

static void what_is_in_hand_may_be_finished(void **state)
{
    kit *k = *state;
    put_some(k, "h", 5);
    k->options.threads = 3;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 3);
    stop(k);
    sleep_ms(100);
    let_go(k);
    expect(k, wait_end(k), RENDERQ_OK);
    expect_queue(k, 2, 0, 3, 0, 0);
    assert_int_equal(k->reasons[RENDERQ_GO_ON], 3); /* nobody told them */
}

static void after_the_grace_they_are_told(void **state)
{
    kit *k = *state;
    put_some(k, "w", 4);
    k->options.threads = 3;
    k->options.grace_s = 1;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 3);
    int64_t asked_ms = now_ms();
    stop(k);
    expect(k, wait_end(k), RENDERQ_OK);
    assert_true(k->ended_ms - asked_ms >= 990);
    assert_int_equal(k->reasons[RENDERQ_STOP_ASKED], 3);
    expect_queue(k, 4, 0, 0, 0, 0);                 /* given back, and nothing counted */
    assert_int_equal(events(k, RENDERQ_EVENT_RETRIED), 3);
}

static void a_second_stop_ends_the_grace(void **state)
{
    kit *k = *state;
    put_some(k, "w", 2);
    k->options.threads = 2;
    k->options.grace_s = RENDERQ_FOREVER;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 2);
    stop(k);
    sleep_ms(100);
    assert_int_equal(handlers_now(k), 2);
    stop(k);
    expect(k, wait_end(k), RENDERQ_OK);
    expect_queue(k, 2, 0, 0, 0, 0);
}

/* Who asks after the stop is told. */
static void there_may_be_no_grace(void **state)
{
    kit *k = *state;
    put_some(k, "w", 1);
    put_some(k, "h", 1);
    k->options.threads = 2;
    k->options.grace_s = RENDERQ_AT_ONCE;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 2);
    stop(k);
    let_go(k);
    expect(k, wait_end(k), RENDERQ_OK);
    assert_int_equal(k->reasons[RENDERQ_STOP_ASKED], 2);
    expect_queue(k, 1, 0, 1, 0, 0);
}

/* The last request of all has a second. Where it asks a server that may be too little, and then that is said. */
static bool was_given_back(kit *k)
{
    bool told = events(k, RENDERQ_EVENT_RELEASED) == 1;
    if (!told && strncmp(kit_url, "sqlite:", 7) != 0)
        expect_text(k->lines, "could not be told", __FILE__, __LINE__);
    else
        assert_true(told);
    return told;
}

static void expect_one_done(kit *k, bool given_back)
{
    if (given_back)
        expect_queue(k, 1, 0, 1, 0, 0);
    else
        assert_int_equal(counts(k).completed, 1);
}

/* Its job is given back, and its thread keeps what it uses: the worker is freed while it still runs. */
static void a_handler_that_does_not_return(void **state)
{
    kit *k = *state;
    put_some(k, "h", 1);
    put_some(k, "d", 1);
    k->options.threads = 2;
    k->options.grace_s = RENDERQ_AT_ONCE;
    k->options.linger_s = 1;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 2);
    wait_event(k, RENDERQ_EVENT_DONE, 1);
    int64_t asked_ms = now_ms();
    stop(k);
    expect(k, wait_end(k), RENDERQ_BUSY);
    expect_text(renderq_worker_errmsg(k->w), "did not return", __FILE__, __LINE__);
    assert_true(k->ended_ms - asked_ms >= 990);
    bool given_back = was_given_back(k);
    expect_one_done(k, given_back);
    expect(k, run_here(k), RENDERQ_INVALID);
    renderq_worker_free(k->w);
    k->w = NULL;
    let_go(k);
    wait_until(handlers_now(k) == 0);
    sleep_ms(50);                                   /* the thread frees the worker */
    expect_one_done(k, given_back);                 /* what it returned does not count */
}

static renderq_worker *volatile signalled;

static void on_signal(int number)
{
    (void)number;
    renderq_worker_stop(signalled);
}

static void from_a_signal_handler(void **state)
{
    kit *k = *state;
    struct sigaction action = { .sa_handler = on_signal }, before;
    put_some(k, "w", 2);
    k->options.threads = 2;
    k->options.grace_s = RENDERQ_FOREVER;
    make(k);
    signalled = k->w;
    sigaction(SIGUSR1, &action, &before);
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 2);
    kill(getpid(), SIGUSR1);
    sleep_ms(50);
    kill(getpid(), SIGUSR1);
    expect(k, wait_end(k), RENDERQ_OK);
    sigaction(SIGUSR1, &before, NULL);
    expect_queue(k, 2, 0, 0, 0, 0);
}

static void stop_in_event(void *arg, const renderq_event *event)
{
    kit *k = arg;
    if (event->type == RENDERQ_EVENT_DONE)
        renderq_worker_stop(k->w);
}

static void from_an_event(void **state)
{
    kit *k = *state;
    put_some(k, "d", 3);
    k->options.on_event = stop_in_event;
    expect(k, run_here(k), RENDERQ_OK);
    renderq_counts now = counts(k);
    assert_true(now.completed >= 1 && now.completed < 3 && now.processing == 0);
}

int run_stop(void)
{
    const struct CMUnitTest tests[] = {
        TEST(idle_it_stops_at_once), TEST(before_it_runs), TEST(what_is_in_hand_may_be_finished),
        TEST(after_the_grace_they_are_told), TEST(a_second_stop_ends_the_grace), TEST(there_may_be_no_grace),
        TEST(a_handler_that_does_not_return), TEST(from_a_signal_handler), TEST(from_an_event),
    };
    return cmocka_run_group_tests_name("stop", tests, NULL, NULL);
}
