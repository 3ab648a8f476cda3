/* connect.c: the first connections of a process, from many threads at once, and what the environment can do to a
 * connection. Each test is a child that has not connected yet, as its parent never does. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctpublic.h>

#include "faults.h"

#define LIMIT_S 240

static server s;

static int start(void **state)
{
    (void)state;
    server_start(&s, "connect", 0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    server_stop(&s);
    return 0;
}

/* The child's own asserts would jump into the parent's tests: it returns whether all is well. */
static void in_child(bool (*run)(void))
{
    int how;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(LIMIT_S * (under_valgrind() ? 5 : 1));
        _exit(run() ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

static const char *url_of(const char *host, int port, const char *more)
{
    static __thread char url[300];
    snprintf(url, sizeof url, "sqlserver://sa:" PASSWORD "@%s:%d/renderq%s", host, port, more);
    return url;
}

static bool came_to(renderq *h, renderq_status got, renderq_status wanted)
{
    if (got != wanted)
        fprintf(stderr, "child: %s, not %s: %s\n", renderq_strstatus(got), renderq_strstatus(wanted),
                renderq_errmsg(h));
    return got == wanted;
}

/* Opens, asks something of its text conversions, closes. */
static bool can_connect(const char *url)
{
    renderq *h = NULL;
    renderq_job *job = NULL;
    renderq_id id;
    renderq_new_job new = RENDERQ_INIT(renderq_new_job);
    renderq_options options = RENDERQ_INIT(renderq_options);
    options.connect_s = SUITE_CONNECT_S;
    options.command_s = SUITE_COMMAND_S;
    new.composition_id = UMLAUT EMOJI;
    new.payload_json = "{}";
    renderq_status status = renderq_open(url, &options, &h);
    bool good = came_to(h, status, RENDERQ_OK)
                && came_to(h, renderq_create(h, NULL), RENDERQ_OK)
                && came_to(h, renderq_enqueue(h, &new, &id), RENDERQ_OK)
                && came_to(h, renderq_get(h, NULL, &id, &job), RENDERQ_OK)
                && strcmp(job->composition_id, new.composition_id) == 0;
    renderq_job_free(job);
    renderq_close(h);
    return good;
}

static bool fails_to_connect(const char *url, renderq_status wanted)
{
    renderq *h = NULL;
    renderq_options options = RENDERQ_INIT(renderq_options);
    options.connect_s = 2;
    renderq_status status = renderq_open(url, &options, &h);
    bool good = came_to(h, status, wanted) && !strstr(renderq_errmsg(h), PASSWORD);
    renderq_close(h);
    return good;
}

/* ---- the first connections ---- */

enum { THREADS = 8, RUNS = 4 };

static pthread_barrier_t together;

/* Two at once go wrong seldom, so it is looked at whether there are two. */
static struct {
    int inside, done;
    bool crowded;
} firsts;

CS_RETCODE __real_ct_connect(CS_CONNECTION *, CS_CHAR *, CS_INT);
CS_RETCODE __wrap_ct_connect(CS_CONNECTION *, CS_CHAR *, CS_INT);

CS_RETCODE __wrap_ct_connect(CS_CONNECTION *connection, CS_CHAR *name, CS_INT len)
{
    int inside = __atomic_add_fetch(&firsts.inside, 1, __ATOMIC_SEQ_CST);
    if (inside > 1 && __atomic_load_n(&firsts.done, __ATOMIC_SEQ_CST) == 0)
        __atomic_store_n(&firsts.crowded, true, __ATOMIC_SEQ_CST);
    usleep(20000);
    CS_RETCODE rc = __real_ct_connect(connection, name, len);
    __atomic_add_fetch(&firsts.done, 1, __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&firsts.inside, 1, __ATOMIC_SEQ_CST);
    return rc;
}

static void *connect_first(void *arg)
{
    char more[40];
    snprintf(more, sizeof more, "?queue=first%d", *(int *)arg);
    pthread_barrier_wait(&together);
    *(int *)arg = can_connect(url_of("127.0.0.1", s.port, more));
    return NULL;
}

static bool all_at_once(void)
{
    pthread_t threads[THREADS];
    int seats[THREADS];
    bool good = pthread_barrier_init(&together, NULL, THREADS) == 0;
    for (int i = 0; i < THREADS; i++) {
        seats[i] = i;
        good = pthread_create(&threads[i], NULL, connect_first, &seats[i]) == 0 && good;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        good = good && seats[i];
    }
    if (firsts.crowded)
        fprintf(stderr, "child: two threads made the first connection\n");
    return good && firsts.done == THREADS && !firsts.crowded;
}

/* FreeTDS sets up its tables then, and not under a lock of its own. */
static void the_first_connections_of_many_threads(void **state)
{
    (void)state;
    for (int i = 0; i < (under_valgrind() ? 2 : RUNS); i++)
        in_child(all_at_once);
}

/* ---- the environment ---- */

static bool redirected(void)
{
    bool good = fails_to_connect(url_of("127.0.0.1", 1, ""), RENDERQ_DISCONNECTED);
    setenv("TDSHOST", "127.0.0.1", 1);
    /* A name that there is none of: it is not even looked up. */
    good = can_connect(url_of("no-such-host.invalid", s.port, "?queue=redirected")) && good;
    unsetenv("TDSHOST");
    return fails_to_connect(url_of("no-such-host.invalid", s.port, ""), RENDERQ_DISCONNECTED) && good;
}

/* As the manual says. */
static void a_host_of_the_environment(void **state)
{
    (void)state;
    in_child(redirected);
}

static bool port_and_version_lose(void)
{
    setenv("TDSPORT", "1", 1);
    setenv("TDSVER", "4.2", 1);
    return can_connect(url_of("127.0.0.1", s.port, "?queue=steered"));
}

/* What the URL and the library say counts: another version would show the password. */
static void a_port_and_a_version_of_the_environment(void **state)
{
    (void)state;
    in_child(port_and_version_lose);
}

static bool dump_tells_no_password(void)
{
    char text[4096];
    setenv("TDSDUMP", "dump", 1);
    bool good = can_connect(url_of("127.0.0.1", s.port, "?queue=dumped")), there = false;
    FILE *dump = fopen("dump", "r");
    while (dump && fgets(text, sizeof text, dump)) {
        there = true;
        good = good && !strstr(text, PASSWORD);
    }
    if (dump)
        fclose(dump);
    return good && there;
}

static void a_dump_of_the_environment(void **state)
{
    (void)state;
    in_child(dump_tells_no_password);
}

int run_connect(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_connections_of_many_threads),
        cmocka_unit_test(a_host_of_the_environment),
        cmocka_unit_test(a_port_and_a_version_of_the_environment),
        cmocka_unit_test(a_dump_of_the_environment),
    };
    return cmocka_run_group_tests_name("connect", tests, start, stop);
}
