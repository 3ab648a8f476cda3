/* refused.c: what the table refuses of one job (a rule of somebody else's, a column with less room) is that job's own
 * trouble: the others are told of and kept. */
#include "kit.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "url.h"

#define REFUSED "\"refused\""       /* what the rules of these tests do not let in */

/* ---- rules ---- */

/* The file that the tables are in, which takes triggers; NULL: a server of somebody's. */
static char *file_of_tables(void)
{
    rq_url url;
    char why[512];
    assert_int_equal(rq_url_parse(kit_url, &url, why, sizeof why), RENDERQ_OK);
    const char *path = strcmp(url.scheme, "sqlite") == 0 ? url.path : getenv("RENDERQ_TDSD_FILE");
    char *file = path ? strdup(path) : NULL;
    rq_url_free(&url);
    return file;
}

/* No row may be changed so that this is true of it. False: the test cannot be done here. */
static bool forbid(kit *k, const char *columns, const char *condition)
{
    char sql[1000], *file = file_of_tables();
    if (!file) {
        print_message("skipped: it wants a trigger on the table, and knows SQLite's alone\n");
        return false;
    }
    snprintf(sql, sizeof sql,
             "CREATE TRIGGER \"%s_rule\" BEFORE UPDATE OF %s ON \"%s\" WHEN %s "
             "BEGIN SELECT RAISE(ABORT, 'not in this table'); END", k->queue, columns, k->queue, condition);
    sqlite3 *db = db_open(file);
    sqlite3_busy_timeout(db, PATIENCE_MS);
    db_exec(db, sql);
    sqlite3_close(db);
    free(file);
    return true;
}

/* ---- jobs ---- */

static renderq_id put(kit *k, const char *composition, const char *payload)
{
    renderq_new_job new = RENDERQ_INIT(renderq_new_job);
    renderq_id id = { "" };
    new.composition_id = composition;
    new.payload_json = payload;
    assert_status(k->h, renderq_enqueue(k->h, &new, &id), RENDERQ_OK);
    return id;
}

/* A bad one in front of good ones and behind them. */
static void put_around(kit *k, const char *composition, renderq_id bad[2])
{
    bad[0] = put(k, composition, REFUSED);
    put(k, composition, "1");
    put(k, composition, "2");
    bad[1] = put(k, composition, REFUSED);
}

/* All of them end at once, so that they are told of together. */
static renderq_outcome end_together(void *arg, renderq_task *task, const renderq_job *job)
{
    kit *k = arg;
    if (job->composition_id[0] == 'p')
        assert_int_equal(renderq_task_progress(task, job->payload_json), RENDERQ_OK);
    pthread_mutex_lock(&k->lock);
    k->calls++;
    pthread_mutex_unlock(&k->lock);
    for (bool go = false; !go;) {
        pthread_mutex_lock(&k->lock);
        go = k->let_go;
        pthread_mutex_unlock(&k->lock);
        sleep_ms(2);
    }
    switch (job->composition_id[0]) {
    case 'f': return renderq_task_fail(task, job->payload_json, 3600000);
    case 'r': return renderq_task_retry(task, 3600000);
    default: return renderq_task_done(task, job->payload_json);
    }
}

/* Runs the four jobs that are there. */
static renderq_status work(kit *k)
{
    k->options.handler = end_together;
    k->options.threads = 4;
    k->options.max_jobs = k->options.stop_when_empty ? 0 : 4;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 4);
    let_go(k);
    return wait_end(k);
}

/* ---- results ---- */

static void an_output_url(void **state)
{
    kit *k = *state;
    renderq_id bad[2];
    if (!forbid(k, "OutputUrl", "new.OutputUrl = '" REFUSED "'"))
        return;
    put_around(k, "done", bad);
    expect(k, work(k), RENDERQ_OK);
    expect_queue(k, 0, 0, 2, 0, 2);
    assert_int_equal(events(k, RENDERQ_EVENT_DONE), 2);
    assert_int_equal(events(k, RENDERQ_EVENT_FAILED), 2);
    expect_text(k->last_text[RENDERQ_EVENT_FAILED], "not in this table", __FILE__, __LINE__);
    for (int i = 0; i < 2; i++) {
        renderq_job *job = look(k, &bad[i]);
        assert_int_equal(job->retry_count, 1);
        expect_text(job->last_error, "could not be stored", __FILE__, __LINE__);
        renderq_job_free(job);
    }
    assert_int_equal(k->warnings, events(k, RENDERQ_EVENT_AWAY));
}

/* Nothing can be told of the bad ones: they come round when their leases have run out, which nobody renews. A line for
 * each, and one at the end. */
static void expect_two_untold(kit *k, renderq_event_type told)
{
    k->options.stop_when_empty = 1;                 /* a claim that finds nothing has its own text */
    expect(k, work(k), RENDERQ_DISCONNECTED);
    expect_text(renderq_worker_errmsg(k->w), "2 jobs", __FILE__, __LINE__);
    expect_text(renderq_worker_errmsg(k->w), "not in this table", __FILE__, __LINE__);
    assert_int_equal(events(k, told), 2);
    assert_int_equal(k->warnings, 3 + events(k, RENDERQ_EVENT_AWAY));
    expect_text(k->lines, "comes round when its lease runs out", __FILE__, __LINE__);
    expect_queue(k, 0, 2, 0, 0, 2);
}

static void a_message(void **state)
{
    kit *k = *state;
    renderq_id bad[2];
    if (!forbid(k, "LastErrorMessage", "new.LastErrorMessage = '" REFUSED "'"))
        return;
    put_around(k, "fail", bad);
    expect_two_untold(k, RENDERQ_EVENT_FAILED);
    run_out(k);
    reap(k);
    expect_queue(k, 0, 0, 0, 0, 4);
}

/* Nor does a thread of a transactional worker wait for the lease's end. */
static void a_message_of_a_transaction(void **state)
{
    kit *k = *state;
    if (!forbid(k, "LastErrorMessage", "new.LastErrorMessage = '" REFUSED "'"))
        return;
    put(k, "fail", REFUSED);
    put(k, "fail", "1");
    k->options.handler = end_together;
    k->options.transactional = 1;
    k->options.lease_s = 3600;                      /* longer than wait_end() waits */
    k->options.max_jobs = 2;
    let_go(k);
    start(k);
    expect(k, wait_end(k), RENDERQ_DISCONNECTED);
    expect_text(renderq_worker_errmsg(k->w), "1 jobs", __FILE__, __LINE__);
    expect_text(k->lines, "comes round when its lease runs out", __FILE__, __LINE__);
    assert_int_equal(events(k, RENDERQ_EVENT_FAILED), 1);
    assert_int_equal(k->warnings, 2 + events(k, RENDERQ_EVENT_AWAY));
    expect_queue(k, 0, 1, 0, 0, 1);
}

static void a_release(void **state)
{
    kit *k = *state;
    renderq_id bad[2];
    if (!forbid(k, "Status", "new.Status = 'Scheduled' AND new.PayloadJson = '" REFUSED "'"))
        return;
    put_around(k, "retry", bad);
    expect_two_untold(k, RENDERQ_EVENT_RETRIED);
}

/* ---- leases ---- */

static int64_t lease_began(kit *k, const renderq_id *id)
{
    renderq_job *job = look(k, id);
    int64_t at_ms = job->locked_at_ms;
    renderq_job_free(job);
    return at_ms;
}

static bool has_said(kit *k, const char *text)
{
    pthread_mutex_lock(&k->lock);
    bool has = strstr(k->lines, text) != NULL;
    pthread_mutex_unlock(&k->lock);
    return has;
}

static bool has_progress(kit *k, const renderq_id *id, const char *progress)
{
    renderq_job *job = look(k, id);
    bool has = job->progress && strcmp(job->progress, progress) == 0;
    renderq_job_free(job);
    return has;
}

/* What is said of one job does not cost the others their leases, nor its own. */
static void a_progress(void **state)
{
    kit *k = *state;
    if (!forbid(k, "Progress", "new.Progress = '" REFUSED "'"))
        return;
    renderq_id ids[] = { put(k, "progress", "1"), put(k, "progress", REFUSED), put(k, "progress", "3") };
    k->options.handler = end_together;
    k->options.threads = k->options.lease_s = 3;    /* nobody ends a lease here that has run out */
    k->options.max_jobs = 3;
    start(k);
    wait_until(has_said(k, "left out") && has_progress(k, &ids[0], "1") && has_progress(k, &ids[2], "3"));
    for (size_t i = 0; i < count_of(ids); i++) {
        int64_t before_ms = lease_began(k, &ids[i]);
        wait_until(lease_began(k, &ids[i]) > before_ms);
    }
    let_go(k);
    expect(k, wait_end(k), RENDERQ_OK);
    assert_int_equal(events(k, RENDERQ_EVENT_LOST), 0);
    assert_int_equal(k->warnings, 1 + events(k, RENDERQ_EVENT_AWAY));
    expect_queue(k, 0, 0, 3, 0, 0);
}

/* Nobody can end the lease of a job of a worker that died; it is said, and the others are worked on. */
static void the_end_of_a_lease(void **state)
{
    kit *k = *state;
    renderq_job *job = NULL;
    if (!forbid(k, "LastErrorMessage", "new.PayloadJson = '" REFUSED "'"))
        return;
    put(k, "dead", REFUSED);
    assert_status(k->h, renderq_claim(k->h, NULL, &job), RENDERQ_OK);
    renderq_job_free(job);
    run_out(k);
    start(k);
    wait_until(has_said(k, "cannot be ended"));
    put_some(k, "d", 1);
    wait_event(k, RENDERQ_EVENT_DONE, 1);
    stop(k);
    expect(k, wait_end(k), RENDERQ_OK);
    assert_int_equal(k->warnings, 1 + events(k, RENDERQ_EVENT_AWAY));
    expect_queue(k, 0, 1, 1, 0, 0);
}

/* The whole table is another matter: a worker whose jobs are in hand says so once, and ends. */
static void a_table_that_is_gone(void **state)
{
    kit *k = *state;
    char sql[200], *file = file_of_tables();
    if (!file)
        return;
    for (int i = 0; i < 4; i++)
        put(k, "done", "1");
    k->options.handler = end_together;
    k->options.threads = 4;
    k->options.grace_s = k->options.linger_s = 1;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 4);
    snprintf(sql, sizeof sql, "DROP TABLE \"%s\"", k->queue);
    sqlite3 *db = db_open(file);
    sqlite3_busy_timeout(db, PATIENCE_MS);
    db_exec(db, sql);
    sqlite3_close(db);
    free(file);
    let_go(k);
    expect(k, wait_end(k), RENDERQ_SCHEMA);
    assert_int_equal(events(k, RENDERQ_EVENT_FAILED) + events(k, RENDERQ_EVENT_DONE), 0);
    assert_null(strstr(k->lines, "comes round when"));
}

/* ---- a fault that passes ---- */

static bool ask_server(const char *line)
{
    const char *path = getenv("RENDERQ_TDSD_CONTROL");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    char answer[4] = "";
    if (!path)
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(write(fd, line, strlen(line)), strlen(line));
    assert_int_equal(read(fd, answer, 3), 3);
    close(fd);
    assert_string_equal(answer, "ok\n");
    return true;
}

static void work_through(kit *k, const char *fault)
{
    if (!ask_server(fault)) {
        print_message("skipped: it wants the test server's control\n");
        return;
    }
    put_without_retries(k, "done");
    k->options.handler = end_together;
    k->options.max_jobs = 1;
    let_go(k);
    expect(k, run_here(k), RENDERQ_OK);
    ask_server("clear\n");
    assert_int_equal(events(k, RENDERQ_EVENT_FAILED), 0);
    expect_queue(k, 0, 0, 1, 0, 0);
}

/* Full, or short of memory: that is kept until there is room again, however often it is tried. */
static void a_log_that_is_full(void **state)
{
    work_through(*state, "fault at=complete when=undone do=error number=9002 severity=17 times=4\n");
}

static void a_server_short_of_memory(void **state)
{
    work_through(*state, "fault at=complete when=undone do=error number=701 severity=17 times=4\n");
}

static void an_error_that_nobody_knows(void **state)
{
    work_through(*state, "fault at=complete when=undone do=error number=99999 times=1\n");
}

/* It comes in the claim's way: it is waited for like a database that is away. */
static void claims_that_fail(void **state)
{
    work_through(*state, "fault at=claim when=undone do=error number=9002 severity=17 times=4\n");
}

static void receives_that_fail(void **state)
{
    kit *k = *state;
    k->options.transactional = 1;
    work_through(k, "fault at=claim when=undone do=error number=9002 severity=17 times=4\n");
}

int run_refused(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_output_url), TEST(a_message), TEST(a_message_of_a_transaction), TEST(a_release),
        TEST(a_progress), TEST(the_end_of_a_lease), TEST(a_table_that_is_gone), TEST(a_log_that_is_full),
        TEST(a_server_short_of_memory), TEST(an_error_that_nobody_knows), TEST(claims_that_fail),
        TEST(receives_that_fail),
    };
    return cmocka_run_group_tests_name("refused", tests, NULL, NULL);
}
