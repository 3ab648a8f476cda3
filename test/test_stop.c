/* test_stop.c: lib/stop.c: interruption from before, during and after a call, from threads and signal handlers. */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "stop.h"

static int set_up(void **state)
{
    rq_stop *stop = calloc(1, sizeof *stop);
    *state = stop;
    return stop && rq_stop_open(stop) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    rq_stop_close(*state);
    free(*state);
    return 0;
}

#define LONG_MS   120000            /* a sleep that is cut short */
#define IN_TIME_MS 60000            /* ... ends so long before, on any machine */

static int64_t sleeps_for(rq_stop *stop, int ms, bool interrupted)
{
    int64_t began = now_ms();
    assert_int_equal(rq_stop_sleep(stop, ms), interrupted);
    return now_ms() - began;
}

static void sleeps_when_nothing_is_raised(void **state)
{
    rq_stop *stop = *state;
    rq_stop_begin(stop, true);
    assert_false(rq_stop_raised(stop));
    assert_true(sleeps_for(stop, 40, false) >= 39);
    sleeps_for(stop, 0, false);
    sleeps_for(stop, -1000, false);                     /* not for ever */
}

static void a_raise_before_ends_only_a_call_that_waits(void **state)
{
    rq_stop *stop = *state;
    rq_stop_raise(stop);
    rq_stop_begin(stop, false);
    assert_false(rq_stop_raised(stop));
    assert_true(sleeps_for(stop, 40, false) >= 39);     /* its byte is drained and does not keep the call awake */
    rq_stop_begin(stop, true);
    assert_true(rq_stop_raised(stop));
    assert_true(sleeps_for(stop, LONG_MS, true) < IN_TIME_MS);
}

static void one_raise_ends_one_call(void **state)
{
    rq_stop *stop = *state;
    for (int i = 0; i < 3; i++)
        rq_stop_raise(stop);
    rq_stop_begin(stop, true);
    assert_true(rq_stop_raised(stop));
    rq_stop_answer(stop);
    assert_false(rq_stop_raised(stop));
    rq_stop_begin(stop, true);
    assert_false(rq_stop_raised(stop));
    assert_true(sleeps_for(stop, 40, false) >= 39);
}

static void a_raise_after_the_answer_is_a_new_one(void **state)
{
    rq_stop *stop = *state;
    rq_stop_begin(stop, false);
    rq_stop_raise(stop);
    assert_true(rq_stop_raised(stop));
    rq_stop_answer(stop);
    rq_stop_raise(stop);
    rq_stop_begin(stop, true);
    assert_true(rq_stop_raised(stop));
}

static void *raise_soon(void *arg)
{
    sleep_ms(50);
    rq_stop_raise(arg);
    return NULL;
}

static void a_raise_during_a_sleep_wakes_it(void **state)
{
    rq_stop *stop = *state;
    for (int waits = 0; waits < 2; waits++) {
        pthread_t thread;
        rq_stop_begin(stop, waits);
        assert_int_equal(pthread_create(&thread, NULL, raise_soon, stop), 0);
        int64_t slept = sleeps_for(stop, LONG_MS, true);
        pthread_join(thread, NULL);
        assert_true(slept < IN_TIME_MS);
        rq_stop_answer(stop);
    }
}

static void many_raises_never_block(void **state)
{
    rq_stop *stop = *state;
    rq_stop_begin(stop, false);
    for (int i = 0; i < 70000; i++) {                   /* more than a pipe holds */
        errno = E2BIG;
        rq_stop_raise(stop);
        assert_int_equal(errno, E2BIG);
    }
    assert_true(sleeps_for(stop, LONG_MS, true) < IN_TIME_MS);
    rq_stop_answer(stop);
    assert_true(sleeps_for(stop, 40, false) >= 39);
    rq_stop_begin(stop, false);
    rq_stop_raise(stop);                                /* the pipe has room again */
    assert_true(sleeps_for(stop, LONG_MS, true) < IN_TIME_MS);
}

static void the_count_may_wrap(void **state)
{
    rq_stop *stop = *state;
    stop->raised = stop->seen = UINT_MAX;
    rq_stop_begin(stop, true);
    assert_false(rq_stop_raised(stop));
    rq_stop_raise(stop);
    assert_int_equal(stop->raised, 0);
    assert_true(rq_stop_raised(stop));
    rq_stop_answer(stop);
    assert_false(rq_stop_raised(stop));
}

static rq_stop *signalled;

static void on_alarm(int number)
{
    (void)number;
    rq_stop_raise(signalled);
}

static void a_signal_handler_may_raise(void **state)
{
    signalled = *state;
    struct sigaction act = { .sa_handler = on_alarm }, before;
    struct itimerval soon = { .it_value = { 0, 40000 } };
    assert_int_equal(sigaction(SIGALRM, &act, &before), 0);
    rq_stop_begin(signalled, false);
    assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
    int64_t slept = sleeps_for(signalled, LONG_MS, true);
    sigaction(SIGALRM, &before, NULL);
    assert_true(slept < IN_TIME_MS);
}

static void on_other(int number)
{
    (void)number;
}

/* A signal that is not about us ends poll() early, and the sleep goes on. */
static void other_signals_do_not_cut_a_sleep(void **state)
{
    rq_stop *stop = *state;
    struct sigaction act = { .sa_handler = on_other }, before;
    struct itimerval often = { .it_interval = { 0, 5000 }, .it_value = { 0, 5000 } };
    struct itimerval never = { .it_value = { 0, 0 } };
    assert_int_equal(sigaction(SIGALRM, &act, &before), 0);
    rq_stop_begin(stop, false);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    int64_t slept = sleeps_for(stop, 60, false);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    assert_true(slept >= 59);
}

static void the_pipe_is_private(void **state)
{
    rq_stop *stop = *state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fcntl(stop->pipe[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        assert_int_equal(fcntl(stop->pipe[i], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    }
    int was[2] = { stop->pipe[0], stop->pipe[1] };
    rq_stop_close(stop);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stop->pipe[i], -1);
        assert_int_equal(fcntl(was[i], F_GETFD), -1);
    }
    rq_stop_raise(stop);        /* nothing to write to; counted all the same */
    rq_stop_close(stop);
    rq_stop_begin(stop, true);
    assert_true(rq_stop_raised(stop));
}

static int without_descriptors(void *arg)
{
    rq_stop *stop = arg;
    struct rlimit none;
    CHECK(getrlimit(RLIMIT_NOFILE, &none) == 0);
    none.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK(rq_stop_open(stop) == EMFILE);
    CHECK(stop->pipe[0] == -1 && stop->pipe[1] == -1);

    renderq *h = NULL;
    CHECK_STATUS(h, renderq_open("sqlite:any.db", NULL, &h), RENDERQ_FAILED);
    CHECK(h != NULL);
    CHECK_SAYS(h, strerror(EMFILE));
    CHECK(renderq_native_error(h) == EMFILE);
    renderq_interrupt(h);
    CHECK_STATUS(h, renderq_create(h, NULL), RENDERQ_INVALID);
    renderq_close(h);
    return 0;
}

static void no_descriptor_left(void **state)
{
    (void)state;
    rq_stop stop = { .raised = 0 };
    if (under_valgrind())
        skip();             /* its pipe2() fails, and hands out descriptors all the same */
    in_child(without_descriptors, &stop, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sleeps_when_nothing_is_raised, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_raise_before_ends_only_a_call_that_waits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_raise_ends_one_call, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_raise_after_the_answer_is_a_new_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_raise_during_a_sleep_wakes_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_raises_never_block, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_count_may_wrap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_signal_handler_may_raise, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_signals_do_not_cut_a_sleep, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_pipe_is_private, set_up, tear_down),
        cmocka_unit_test(no_descriptor_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
