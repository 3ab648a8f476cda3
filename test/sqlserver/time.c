/* time.c: requests that take too long, or that somebody ends: how long the call lasts then, and that the connection can
 * be used afterwards. Bounds are wide: a tick is a second, and machines are slow. A server that does not come to stop
 * within its five seconds is given up, and rightly so; then it is tried again. */
#include "wire.h"

#include <pthread.h>
#include <signal.h>

static renderq *h;
static sqlite3 *locker;         /* holds the lock that the server's sessions wait for */
static long from;
static char queue[20];

#define TRIES 5

static renderq *open_another(const char *timeout, const renderq_options *options)
{
    char more[100];
    snprintf(more, sizeof more, "/renderq?queue=%s&lock_timeout_ms=%s", queue, timeout);
    return open_at(&common, more, options);
}

/* How many jobs are there of that. */
static int64_t count(const char *composition)
{
    char sql[200];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE CompositionId = '%s'", queue, composition);
    return file_int(common.db, sql);
}

static int set_up(void **state)
{
    static int n;
    (void)state;
    char more[100];
    renderq_options options = quiet_options();
    options.retry_s = -1;
    snprintf(queue, sizeof queue, "waits%d", n++);      /* its own: a late request may still come to the one before */
    snprintf(more, sizeof more, "%s&lock_timeout_ms=60000", queue);
    h = queue_at(&common, more, &options);
    use(h);
    locker = db_open(common.db);
    sqlite3_busy_timeout(locker, LONG_MS);
    lines_clear();
    from = log_end(&common);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    renderq_close(h);
    sqlite3_close(locker);
    return 0;
}

/* Whether the connection had to be given up since set_up(). */
static bool given_up(void)
{
    return lines_count("the connection broke") > 0;
}

static void set_up_again(void **state)
{
    tear_down(state);
    set_up(state);
}

static void lock(void)
{
    db_exec(locker, "BEGIN IMMEDIATE");
}

static void unlock(void)
{
    db_exec(locker, "ROLLBACK");
}

/* The server is asked to stop, and confirms it; what might be open is rolled back; the same session goes on. */
static void the_time_of_a_command(void **state)
{
    renderq_job *job = NULL;
    for (int tries = 1;; tries++) {
        lock();
        set_limits(h, 0, 2);
        int64_t start = now_ms();
        renderq_status of_put = put_job(h, NULL, "late", NULL);
        int64_t took = now_ms() - start;
        bool said = strstr(renderq_errmsg(h), "more than 2 s") != NULL;
        set_limits(h, 0, 0);
        unlock();
        expect(h, of_put, RENDERQ_UNCERTAIN);
        assert_true(said);
        assert_in_range(took, 1900, LONG_MS);
        if (!given_up() || tries == TRIES)
            break;
        set_up_again(state);
    }
    use(h);                                     /* the late job is not there, or this would not be its own */
    assert_int_equal(log_count(&common, from, "attention"), 1);
    assert_int_equal(log_count(&common, from, "batch rollback"), 1);
    assert_int_equal(log_count(&common, from, "login"), 0);
    expect(h, take_job(h, NULL, &job), RENDERQ_EMPTY);
}

static void the_lock_timeout_comes_first(void **state)
{
    (void)state;
    renderq_options options = quiet_options();
    options.retry_s = -1;
    renderq *impatient = open_another("300", &options);
    lock();
    int64_t start = now_ms();
    renderq_status of_put = put_job(impatient, NULL, "late", NULL);
    int64_t took = now_ms() - start;
    unlock();
    expect(impatient, of_put, RENDERQ_BUSY);
    assert_int_equal(renderq_native_error(impatient), 1222);
    assert_in_range(took, 250, LONG_MS);
    use(impatient);
    renderq_close(impatient);
}

/* A call does not hear what comes before it, so it is waited for until the server has its request. */
static void *interrupt_later(void *arg)
{
    log_await(&common, from, " rpc enqueue");
    sleep_ms(300);
    renderq_interrupt(arg);
    return NULL;
}

static void an_interrupt_from_another_thread(void **state)
{
    renderq_options options = quiet_options();
    renderq *patient = NULL;
    for (int tries = 1;; tries++) {
        pthread_t thread;
        patient = open_another("3600000", &options);
        from = log_end(&common);
        lock();
        int64_t start = now_ms();
        assert_int_equal(pthread_create(&thread, NULL, interrupt_later, patient), 0);
        renderq_status of_put = put_job(patient, NULL, "interrupted", NULL);
        int64_t took = now_ms() - start;
        pthread_join(thread, NULL);
        unlock();
        if (of_put != RENDERQ_UNCERTAIN)
            expect(patient, of_put, RENDERQ_INTERRUPTED);
        assert_in_range(took, 250, 2 * LONG_MS);
        if (!given_up() || tries == TRIES)
            break;
        renderq_close(patient);
        set_up_again(state);
    }
    use(patient);
    assert_int_equal(log_count(&common, from, "attention"), 1);
    assert_int_equal(log_count(&common, from, "login"), 0);
    assert_int_equal(count("interrupted"), 0);
    renderq_close(patient);
}

/* The server does nothing any more, but its sockets are there. */
static void freeze(void)
{
    int how;
    assert_int_equal(kill(common.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(common.pid, &how, WUNTRACED), common.pid);
    assert_true(WIFSTOPPED(how));
}

static void thaw(void)
{
    assert_int_equal(kill(common.pid, SIGCONT), 0);
}

/* A server that does not even answer that it was asked to stop: the connection is given up, and then the next one is. */
static void a_server_that_hangs(void **state)
{
    (void)state;
    freeze();
    set_limits(h, 1, 1);
    int64_t start = now_ms();
    renderq_status of_put = put_job(h, NULL, "hung", NULL);
    int64_t took = now_ms() - start;
    start = now_ms();
    renderq_status of_next = put_job(h, NULL, "hung", NULL);
    int64_t next_took = now_ms() - start;
    set_limits(h, 0, 0);
    thaw();
    expect(h, of_put, RENDERQ_UNCERTAIN);
    assert_in_range(took, 5000, LONG_MS);       /* a second, and five to stop */
    expect(h, of_next, RENDERQ_DISCONNECTED);
    assert_true(next_took < LONG_MS);
    expect_ok(h, put_job(h, NULL, "next", NULL));
    assert_int_equal(count("next"), 1);
}

/* The first write already waits: the other side takes nothing. More than a socket's buffers hold must be sent. */
static void a_server_that_does_not_read(void **state)
{
    (void)state;
    size_t len = 20 << 20;
    char *payload = malloc(len + 1);
    assert_non_null(payload);
    memset(payload, 'x', len);
    payload[len] = 0;
    renderq_new_job new = RENDERQ_INIT(renderq_new_job);
    new.composition_id = "stuck";
    new.payload_json = payload;
    freeze();
    set_limits(h, 1, 1);
    int64_t start = now_ms();
    renderq_status of_put = renderq_enqueue(h, &new, NULL);
    int64_t took = now_ms() - start;
    set_limits(h, 0, 0);
    thaw();
    expect(h, of_put, RENDERQ_UNCERTAIN);
    assert_in_range(took, 900, LONG_MS);
    free(payload);
    use(h);
    assert_int_equal(count("stuck"), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int run_time(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_time_of_a_command),
        TEST(the_lock_timeout_comes_first),
        TEST(an_interrupt_from_another_thread),
        TEST(a_server_that_hangs),
        TEST(a_server_that_does_not_read),
    };
    return cmocka_run_group_tests_name("time", tests, NULL, NULL);
}
