/* share.c: handles beside each other: in threads, in a child after fork(), and hundreds one after another. */
#include "wire.h"

#include <dirent.h>
#include <pthread.h>

/* ---- fork() ---- */

static int close_the_parents(void *arg)
{
    renderq *h = arg;
    CHECK_STATUS(h, put_job(h, NULL, "child", NULL), RENDERQ_INVALID);
    CHECK_SAYS(h, "fork()");
    renderq_interrupt(h);
    renderq_close(h);
    return 0;
}

static int open_an_own(void *arg)
{
    (void)arg;
    renderq *h = NULL;
    renderq_options options = quiet_options();
    CHECK_STATUS(h, renderq_open(url_of(&common, "/renderq?queue=forked"), &options, &h), RENDERQ_OK);
    CHECK_STATUS(h, put_job(h, NULL, "child", NULL), RENDERQ_OK);
    renderq_close(h);
    return 0;
}

/* The child's close says nothing to the server and leaves the socket open: the parent goes on in the same session. */
static void a_child_leaves_the_connection_alone(void **state)
{
    (void)state;
    renderq *h = queue_at(&common, "forked", NULL);
    renderq_job *job = NULL;
    long from = log_end(&common);
    for (int i = 0; i < 3; i++) {
        in_child(close_the_parents, h, false);
        use(h);
    }
    assert_int_equal(log_count(&common, from, "login"), 0);
    in_child(open_an_own, NULL, false);
    assert_int_equal(log_count(&common, from, "login"), 1);
    expect_ok(h, take_job(h, NULL, &job));
    assert_string_equal(job->composition_id, "child");
    renderq_job_free(job);
    renderq_close(h);
}

/* ---- threads ---- */

typedef struct seat {
    char queue[32];
    bool whole;
} seat;

enum { ROUNDS = 25, SEATS = 4 };

static bool work(renderq *h)
{
    for (int i = 0; i < ROUNDS; i++) {
        renderq_id id;
        renderq_job *job = NULL;
        if (put_job(h, NULL, "intro", &id) != RENDERQ_OK || take_job(h, NULL, &job) != RENDERQ_OK)
            return false;
        bool same = strcmp(job->id.text, id.text) == 0 && renderq_complete(h, job, NULL) == RENDERQ_OK;
        renderq_job_free(job);
        if (!same || put_job(h, "no_such_table", "intro", NULL) != RENDERQ_SCHEMA
            || !strstr(renderq_errmsg(h), "no_such_table"))
            return false;
    }
    return true;
}

static void *take_seat(void *arg)
{
    seat *t = arg;
    char more[100];
    renderq *h = NULL;
    renderq_options options = quiet_options();
    snprintf(more, sizeof more, "/renderq?queue=%s", t->queue);
    t->whole = renderq_open(url_of(&common, more), &options, &h) == RENDERQ_OK
               && renderq_create(h, NULL) == RENDERQ_OK && work(h);
    if (!t->whole)
        fprintf(stderr, "%s: %s\n", t->queue, renderq_errmsg(h));
    renderq_close(h);
    return NULL;
}

/* Each with its own errors and rows, the connecting included. */
static void handles_in_threads(void **state)
{
    (void)state;
    seat seats[SEATS];
    pthread_t threads[SEATS];
    for (int i = 0; i < SEATS; i++) {
        seats[i] = (seat){ .whole = false };
        snprintf(seats[i].queue, sizeof seats[i].queue, "seat%d", i);
        assert_int_equal(pthread_create(&threads[i], NULL, take_seat, &seats[i]), 0);
    }
    for (int i = 0; i < SEATS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SEATS; i++)
        assert_true(seats[i].whole);
}

/* A handle may wander: used by one thread, then by another. */
static void *use_it(void *arg)
{
    return work(arg) ? arg : NULL;
}

static void a_handle_in_another_thread(void **state)
{
    (void)state;
    renderq *h = queue_at(&common, "wander", NULL);
    void *whole = NULL;
    pthread_t thread;
    use(h);
    assert_int_equal(pthread_create(&thread, NULL, use_it, h), 0);
    pthread_join(thread, &whole);
    assert_non_null(whole);
    use(h);
    renderq_close(h);
}

/* ---- what is left open ---- */

static int open_descriptors(void)
{
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static void no_descriptor_stays_open(void **state)
{
    (void)state;
    renderq_options options = quiet_options();
    char wrong[200];
    snprintf(wrong, sizeof wrong, "sqlserver://sa:wrong@127.0.0.1:%d/renderq", common.port);
    renderq_close(open_at(&common, "/renderq", NULL));
    int before = open_descriptors();
    for (int i = 0; i < 200; i++) {
        renderq *h = NULL;
        renderq_status status = renderq_open(i % 4 ? url_of(&common, "/renderq") : wrong, &options, &h);
        expect(h, status, i % 4 ? RENDERQ_OK : RENDERQ_DENIED);
        renderq_close(h);
    }
    for (int i = 0; i < 20; i++)
        expect_no_open("sqlserver://sa:" PASSWORD "@127.0.0.1:1/renderq", NULL, RENDERQ_DISCONNECTED, "127.0.0.1");
    assert_int_equal(open_descriptors(), before);
}

int run_share(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_leaves_the_connection_alone),
        cmocka_unit_test(handles_in_threads),
        cmocka_unit_test(a_handle_in_another_thread),
        cmocka_unit_test(no_descriptor_stays_open),
    };
    return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
