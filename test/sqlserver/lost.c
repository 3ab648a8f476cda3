/* lost.c: the server goes away: between two calls, in the middle of one, for a while, for good. */
#include "wire.h"

#include <pthread.h>
#include <signal.h>

static server s;

static int start(void **state)
{
    (void)state;
    server_start(&s, "lost", NULL);
    lines_clear();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    server_stop(&s);
    return 0;
}

static void a_restart_between_two_calls(void **state)
{
    (void)state;
    renderq *h = queue_at(&s, "jobs", NULL);
    renderq_job *job = NULL;
    renderq_id id;
    expect_ok(h, put_job(h, NULL, "before", &id));
    server_restart(&s);
    expect_ok(h, take_job(h, NULL, &job));
    assert_string_equal(job->id.text, id.text);
    assert_true(lines_count("the connection broke") > 0);
    assert_true(lines_count("connected again") > 0);
    server_restart(&s);
    expect_ok(h, renderq_complete(h, job, NULL));
    renderq_job_free(job);
    server_restart(&s);
    expect_ok(h, put_job(h, NULL, "after", &id));
    assert_int_equal(file_int(s.db, "SELECT count(*) FROM jobs WHERE Status = 'Completed'"), 1);
    assert_int_equal(file_int(s.db, "SELECT count(*) FROM jobs WHERE CompositionId = 'after'"), 1);
    expect_ok(h, renderq_cancel(h, NULL, &id));
    long from = log_end(&s);
    use(h);                                     /* and then it stays connected */
    assert_int_equal(log_count(&s, from, "login"), 0);
    renderq_close(h);
}

typedef struct absence {
    bool hard;              /* killed, not asked to end */
    long from;              /* the log's end before the call */
    bool over;              /* the server that the thread has started is not needed any more */
    sqlite3 *locker;
} absence;

static void *go_away(void *arg)
{
    absence *a = arg;
    log_await(&s, a->from, " rpc enqueue");
    sleep_ms(300);
    if (a->hard)
        kill(s.pid, SIGKILL);
    server_restart(&s);
    sqlite3_exec(a->locker, "ROLLBACK", NULL, NULL, NULL);
    while (!__atomic_load_n(&a->over, __ATOMIC_ACQUIRE))
        sleep_ms(10);
    return NULL;
}

/* The request waits for a lock when the server ends; the handle asks again where it is once more. */
static void a_restart_in_the_middle_of_a_call(void **state)
{
    (void)state;
    renderq *h = queue_at(&s, "middle&lock_timeout_ms=3600000", NULL);
    for (int hard = 0; hard <= 1; hard++) {
        absence a = { .hard = hard, .locker = db_open(s.db) };
        pthread_t thread;
        use(h);
        sqlite3_busy_timeout(a.locker, LONG_MS);
        db_exec(a.locker, "BEGIN IMMEDIATE");
        a.from = log_end(&s);
        assert_int_equal(pthread_create(&thread, NULL, go_away, &a), 0);
        renderq_status status = put_job(h, NULL, "middle", NULL);
        server_restart(&s);
        __atomic_store_n(&a.over, true, __ATOMIC_RELEASE);
        pthread_join(thread, NULL);
        assert_int_equal(sqlite3_close(a.locker), SQLITE_OK);
        expect_ok(h, status);
        assert_int_equal(file_int(s.db, "SELECT count(*) FROM middle WHERE Status = 'Queued'"), 1);
        file_exec(s.db, "DELETE FROM middle");
    }
    renderq_close(h);
}

/* Nobody listens any more. The first call may have been heard; the later ones were certainly not. */
static void gone_for_good(void **state)
{
    (void)state;
    renderq_options options = quiet_options();
    options.retry_s = 2;
    renderq *h = queue_at(&s, "gone", &options);
    renderq_job *job = NULL;
    expect_ok(h, put_job(h, NULL, "intro", NULL));
    server_stop(&s);
    int64_t start_ms = now_ms();
    renderq_status status = put_job(h, NULL, "gone", NULL);
    assert_in_range(now_ms() - start_ms, 1500, LONG_MS);
    if (status != RENDERQ_UNCERTAIN)
        expect(h, status, RENDERQ_DISCONNECTED);
    assert_says(h, "127.0.0.1");
    for (int i = 0; i < 2; i++) {
        start_ms = now_ms();
        expect(h, put_job(h, NULL, "gone", NULL), RENDERQ_DISCONNECTED);
        assert_says(h, "no connection to 127.0.0.1");
        assert_in_range(now_ms() - start_ms, 1500, LONG_MS);
    }
    expect(h, take_job(h, NULL, &job), RENDERQ_DISCONNECTED);
    assert_null(job);
    renderq_close(h);
}

/* retry_s -1: not at all. */
static void not_tried_again(void **state)
{
    (void)state;
    renderq_options options = quiet_options();
    options.retry_s = -1;
    renderq *h = queue_at(&s, "once", &options);
    server_restart(&s);
    renderq_status status = put_job(h, NULL, "first", NULL);
    if (status != RENDERQ_UNCERTAIN)
        expect(h, status, RENDERQ_DISCONNECTED);
    use(h);                                     /* the next call connects */
    renderq_close(h);
}

/* An interrupt ends the trying. It is waited for until the call has seen that the link is gone: what comes before a
 * call does not end it. */
static void *interrupt_soon(void *arg)
{
    for (int i = 0; i < 6000 && lines_count("the connection broke") == 0; i++)
        sleep_ms(10);
    sleep_ms(300);
    renderq_interrupt(arg);
    return NULL;
}

static void an_interrupt_ends_the_trying(void **state)
{
    (void)state;
    pthread_t thread;
    renderq *h = queue_at(&s, "trying", NULL);
    server_stop(&s);
    lines_clear();
    int64_t start_ms = now_ms();
    assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, h), 0);
    renderq_status status = put_job(h, NULL, "x", NULL);
    pthread_join(thread, NULL);
    if (status != RENDERQ_UNCERTAIN)
        expect(h, status, RENDERQ_INTERRUPTED);
    assert_true(now_ms() - start_ms < LONG_MS);         /* and not all of retry_s */
    renderq_close(h);
}

int run_lost(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_restart_between_two_calls, start, stop),
        cmocka_unit_test_setup_teardown(a_restart_in_the_middle_of_a_call, start, stop),
        cmocka_unit_test_setup_teardown(gone_for_good, start, stop),
        cmocka_unit_test_setup_teardown(not_tried_again, start, stop),
        cmocka_unit_test_setup_teardown(an_interrupt_ends_the_trying, start, stop),
    };
    return cmocka_run_group_tests_name("lost", tests, NULL, NULL);
}
