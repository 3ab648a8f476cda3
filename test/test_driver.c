/* test_driver.c: the SQLite driver by itself, through lib/driver.h: a caller's connection adopted, transactions,
 * and what a child does with its parent's connection after fork(). */
#include "support.h"

#include <dirent.h>

#include "handle.h"
#include "sqlite.h"

/* What a handle would give a driver, and a caller's own connection beside it. */
typedef struct rig {
    rq_url url;
    rq_stop stop;
    rq_error error;
    rq_session session;
    rq_queue queue;
    rq_conn *conn;
    sqlite3 *host;              /* a caller's own, for attach */
} rig;

#define DRIVER (&rq_sqlite_driver)
#define ROWS   "SELECT count(*) FROM VideoRenderJobs"

static int set_up(void **state)
{
    char why[200];
    rig *r = *state = calloc(1, sizeof *r);
    if (!r || rq_stop_open(&r->stop) != 0)
        return -1;
    r->session = (rq_session){ .url = &r->url, .connect_s = 10, .command_s = 30, .stop = &r->stop,
                               .error = &r->error };
    r->queue.text = RQ_NAME_DEFAULT;
    unlink("queue.db");
    unlink("queue.db-wal");
    unlink("queue.db-shm");
    return !rq_name_parse(r->queue.text, &r->queue.name)
           && rq_url_parse("sqlite:queue.db?busy_timeout_ms=100", &r->url, why, sizeof why) == RENDERQ_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    rig *r = *state;
    DRIVER->close(r->conn);
    sqlite3_close(r->host);
    rq_url_free(&r->url);
    rq_stop_close(&r->stop);
    free(r);
    return 0;
}

static void expect(const rig *r, renderq_status status, renderq_status wanted, const char *what, int line)
{
    if (status == wanted)
        return;
    print_error("%s: %s, not %s: %s\n", what, renderq_strstatus(status), renderq_strstatus(wanted), r->error.text);
    _fail(__FILE__, line);
}

#define EXPECT(r, call, wanted) expect(r, call, wanted, #call, __LINE__)

static void open_own(rig *r)
{
    EXPECT(r, DRIVER->open(&r->session, &r->conn), RENDERQ_OK);
    EXPECT(r, DRIVER->create(r->conn, &r->queue), RENDERQ_OK);
}

static void attach(rig *r, const char *path)
{
    r->host = db_open(path);
    sqlite3_busy_timeout(r->host, 0);
    EXPECT(r, DRIVER->attach(&r->session, r->host, &r->conn), RENDERQ_OK);
}

static void attach_with_table(rig *r)
{
    attach(r, "queue.db");
    db_exec(r->host, "PRAGMA journal_mode = WAL");
    EXPECT(r, DRIVER->create(r->conn, &r->queue), RENDERQ_OK);
}

/* ---- rows ---- */

typedef struct rows {
    rig *r;
    size_t n, refuse_after;     /* 0: never */
} rows;

static renderq_status take_row(void *arg, size_t item, const rq_value *columns)
{
    rows *got = arg;
    (void)item;
    assert_true(columns[0].present);
    got->n++;
    return got->refuse_after && got->n > got->refuse_after
               ? rq_error_set(&got->r->error, RENDERQ_NOMEM, 0, "the row was refused") : RENDERQ_OK;
}

enum { ITEMS_MAX = 10, VALUES = 8 };

/* Enqueues n jobs in one statement. */
static renderq_status put(rig *r, size_t n, size_t refuse_after)
{
    rq_value values[ITEMS_MAX * VALUES];
    rq_guid ids[ITEMS_MAX];
    rows got = { .r = r, .refuse_after = refuse_after };
    for (size_t i = 0; i < n; i++) {
        assert_true(rq_guid_random(&ids[i]));
        const rq_value job[VALUES] = { rq_guid_value(&ids[i]), rq_text("intro"), rq_text("{}"), rq_text(NULL),
                                       rq_text(NULL), rq_number(0), rq_text(NULL), rq_number(0) };
        memcpy(values + i * VALUES, job, sizeof job);
    }
    renderq_status status = DRIVER->run(r->conn, &r->queue, RQ_ENQUEUE, values, n, take_row, &got);
    if (status == RENDERQ_OK)
        assert_int_equal(got.n, n);
    return status;
}

static renderq_status claim(rig *r, size_t *n)
{
    rq_guid token;
    rows got = { .r = r };
    assert_true(rq_guid_random(&token));
    rq_value values[] = { rq_text("node-1"), rq_guid_value(&token), rq_number(60), rq_number(0), rq_number(10) };
    renderq_status status = DRIVER->run(r->conn, &r->queue, RQ_CLAIM, values, 1, take_row, &got);
    *n = got.n;
    return status;
}

static int64_t rows_outside(void)
{
    return file_int("queue.db", ROWS);
}

/* ---- the driver's own connection ---- */

static void it_is_found_by_its_scheme(void **state)
{
    (void)state;
    assert_ptr_equal(rq_driver_find("sqlite"), DRIVER);
    assert_null(rq_driver_find("sqlite3"));
    assert_null(rq_driver_find(""));
    assert_string_equal(DRIVER->scheme, "sqlite");
}

static void a_connection_begins_with_its_base(void **state)
{
    rig *r = *state;
    open_own(r);
    assert_ptr_equal(r->conn->driver, DRIVER);
    assert_ptr_equal(r->conn->session, &r->session);
    assert_ptr_equal(DRIVER->native(r->conn), ((sqlite_conn *)r->conn)->db);
    assert_string_equal(sqlite3_db_filename(DRIVER->native(r->conn), "main") + strlen(scratch) + 1, "queue.db");
}

static void a_failed_open_hands_out_nothing(void **state)
{
    rig *r = *state;
    char why[200];
    rq_url_free(&r->url);
    assert_int_equal(rq_url_parse("sqlite:no/such/folder/queue.db", &r->url, why, sizeof why), RENDERQ_OK);
    r->conn = (rq_conn *)r;
    renderq_status status = DRIVER->open(&r->session, &r->conn);
    rq_conn *out = r->conn;
    r->conn = NULL;
    EXPECT(r, status, RENDERQ_FAILED);
    assert_null(out);
    DRIVER->close(NULL);
    DRIVER->abandon(NULL);
}

static void commit_and_rollback(void **state)
{
    rig *r = *state;
    open_own(r);
    EXPECT(r, DRIVER->begin(r->conn), RENDERQ_OK);
    EXPECT(r, put(r, 2, 0), RENDERQ_OK);
    EXPECT(r, put(r, 1, 0), RENDERQ_OK);
    assert_int_equal(rows_outside(), 0);
    assert_int_equal(db_int(DRIVER->native(r->conn), ROWS), 3);
    EXPECT(r, DRIVER->commit(r->conn), RENDERQ_OK);
    assert_int_equal(rows_outside(), 3);

    EXPECT(r, DRIVER->begin(r->conn), RENDERQ_OK);
    EXPECT(r, put(r, 2, 0), RENDERQ_OK);
    EXPECT(r, DRIVER->rollback(r->conn), RENDERQ_OK);
    assert_int_equal(rows_outside(), 3);
    assert_true(sqlite3_get_autocommit(DRIVER->native(r->conn)));
    EXPECT(r, DRIVER->rollback(r->conn), RENDERQ_OK);       /* nothing to undo is no failure */

    EXPECT(r, put(r, 1, 0), RENDERQ_OK);                    /* back to transactions of its own */
    assert_int_equal(rows_outside(), 4);
}

static void begin_takes_the_write_lock(void **state)
{
    rig *r = *state;
    open_own(r);
    sqlite3 *other = db_open("queue.db");
    sqlite3_busy_timeout(other, 0);
    EXPECT(r, DRIVER->begin(r->conn), RENDERQ_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_BUSY);
    EXPECT(r, DRIVER->commit(r->conn), RENDERQ_OK);
    db_exec(other, "BEGIN IMMEDIATE");
    int64_t began = now_ms();
    EXPECT(r, DRIVER->begin(r->conn), RENDERQ_BUSY);
    assert_true(now_ms() - began >= 99);
    assert_true(sqlite3_get_autocommit(DRIVER->native(r->conn)));
    db_exec(other, "ROLLBACK");
    EXPECT(r, DRIVER->begin(r->conn), RENDERQ_OK);
    EXPECT(r, DRIVER->rollback(r->conn), RENDERQ_OK);
    sqlite3_close(other);
}

static void a_second_begin_leaves_the_first_alone(void **state)
{
    rig *r = *state;
    open_own(r);
    EXPECT(r, DRIVER->begin(r->conn), RENDERQ_OK);
    EXPECT(r, put(r, 1, 0), RENDERQ_OK);
    assert_int_not_equal(DRIVER->begin(r->conn), RENDERQ_OK);
    assert_false(sqlite3_get_autocommit(DRIVER->native(r->conn)));
    EXPECT(r, DRIVER->commit(r->conn), RENDERQ_OK);
    assert_int_equal(rows_outside(), 1);
    assert_int_not_equal(DRIVER->commit(r->conn), RENDERQ_OK);
}

static void all_of_it_or_nothing(void **state)
{
    rig *r = *state;
    open_own(r);
    EXPECT(r, put(r, 5, 2), RENDERQ_NOMEM);
    assert_string_equal(r->error.text, "the row was refused");
    assert_int_equal(rows_outside(), 0);
    assert_true(sqlite3_get_autocommit(DRIVER->native(r->conn)));
    EXPECT(r, put(r, 5, 0), RENDERQ_OK);
    assert_int_equal(rows_outside(), 5);
}

/* The same in a transaction: what came before the refused statement stands, and so does the transaction. */
static void all_of_it_or_nothing_in_a_transaction(void **state)
{
    rig *r = *state;
    open_own(r);
    EXPECT(r, DRIVER->begin(r->conn), RENDERQ_OK);
    EXPECT(r, put(r, 1, 0), RENDERQ_OK);
    EXPECT(r, put(r, 5, 2), RENDERQ_NOMEM);
    assert_false(sqlite3_get_autocommit(DRIVER->native(r->conn)));
    assert_int_equal(db_int(DRIVER->native(r->conn), ROWS), 1);
    EXPECT(r, put(r, 2, 0), RENDERQ_OK);
    EXPECT(r, DRIVER->commit(r->conn), RENDERQ_OK);
    assert_int_equal(rows_outside(), 3);
}

/* ---- a caller's connection ---- */

typedef struct calls {
    int busy, progress;
} calls;

static int on_busy(void *arg, int tries)
{
    ((calls *)arg)->busy++;
    return tries < 3;
}

static int on_progress(void *arg)
{
    ((calls *)arg)->progress++;
    return 0;
}

static void attach_leaves_settings_alone(void **state)
{
    rig *r = *state;
    calls seen = { 0, 0 };
    attach_with_table(r);
    DRIVER->close(r->conn);
    db_exec(r->host, "PRAGMA synchronous = OFF; PRAGMA foreign_keys = ON; CREATE TABLE own (a INTEGER UNIQUE);"
                     "INSERT INTO own VALUES (1)");
    sqlite3_busy_handler(r->host, on_busy, &seen);
    sqlite3_progress_handler(r->host, 1, on_progress, &seen);
    EXPECT(r, DRIVER->attach(&r->session, r->host, &r->conn), RENDERQ_OK);
    assert_ptr_equal(DRIVER->native(r->conn), r->host);
    EXPECT(r, DRIVER->create(r->conn, &r->queue), RENDERQ_OK);
    EXPECT(r, put(r, 3, 0), RENDERQ_OK);
    assert_true(seen.progress > 0);

    sqlite3 *other = db_open("queue.db");
    db_exec(other, "BEGIN IMMEDIATE");
    EXPECT(r, put(r, 1, 0), RENDERQ_BUSY);
    assert_int_equal(seen.busy, 4);
    db_exec(other, "ROLLBACK");
    sqlite3_close(other);
    EXPECT(r, put(r, 1, 0), RENDERQ_OK);

    for (int closed = 0; closed < 2; closed++) {
        assert_int_equal(db_int(r->host, "PRAGMA synchronous"), 0);
        assert_int_equal(db_int(r->host, "PRAGMA foreign_keys"), 1);
        /* extended codes would make this another number than the host knows */
        assert_int_equal(sqlite3_exec(r->host, "INSERT INTO own VALUES (1)", NULL, NULL, NULL), SQLITE_CONSTRAINT);
        DRIVER->close(r->conn);
        r->conn = NULL;
    }
    seen.progress = 0;
    assert_int_equal(db_int(r->host, ROWS), 4);             /* still open, still with its handlers */
    assert_true(seen.progress > 0);
    assert_null(sqlite3_next_stmt(r->host, NULL));          /* and nothing of ours left prepared */
}

static void attach_keeps_the_journal_mode(void **state)
{
    rig *r = *state;
    char mode[20];
    attach(r, "queue.db");
    EXPECT(r, DRIVER->create(r->conn, &r->queue), RENDERQ_OK);
    EXPECT(r, put(r, 1, 0), RENDERQ_OK);
    db_text(r->host, "PRAGMA journal_mode", mode, sizeof mode);
    assert_string_equal(mode, "delete");
}

static void attach_to_memory_and_to_a_missing_table(void **state)
{
    rig *r = *state;
    size_t n;
    attach(r, ":memory:");
    EXPECT(r, put(r, 1, 0), RENDERQ_SCHEMA);
    EXPECT(r, DRIVER->create(r->conn, &r->queue), RENDERQ_OK);
    EXPECT(r, put(r, 3, 0), RENDERQ_OK);
    EXPECT(r, claim(r, &n), RENDERQ_OK);
    assert_int_equal(n, 3);
}

static void run_joins_the_callers_transaction(void **state)
{
    rig *r = *state;
    size_t n;
    attach_with_table(r);
    db_exec(r->host, "CREATE TABLE own (a INTEGER)");
    for (int commit = 0; commit < 2; commit++) {
        db_exec(r->host, "BEGIN; INSERT INTO own VALUES (1)");
        EXPECT(r, put(r, 2, 0), RENDERQ_OK);
        EXPECT(r, claim(r, &n), RENDERQ_OK);
        assert_int_equal(n, 2);
        assert_false(sqlite3_get_autocommit(r->host));
        assert_int_equal(rows_outside(), 0);
        db_exec(r->host, commit ? "COMMIT" : "ROLLBACK");
        assert_int_equal(rows_outside(), commit ? 2 : 0);
        assert_int_equal(db_int(r->host, "SELECT count(*) FROM own"), commit);
    }
}

static void a_failure_leaves_the_callers_transaction_alone(void **state)
{
    rig *r = *state;
    attach_with_table(r);
    db_exec(r->host, "CREATE TABLE own (a INTEGER); BEGIN; INSERT INTO own VALUES (1)");
    EXPECT(r, put(r, 4, 1), RENDERQ_NOMEM);
    assert_false(sqlite3_get_autocommit(r->host));
    assert_int_equal(db_int(r->host, ROWS), 0);
    EXPECT(r, put(r, 1, 0), RENDERQ_OK);
    db_exec(r->host, "COMMIT");
    assert_int_equal(rows_outside(), 1);
    assert_int_equal(file_int("queue.db", "SELECT count(*) FROM own"), 1);
}

static void create_leaves_the_callers_transaction_alone(void **state)
{
    rig *r = *state;
    attach(r, "queue.db");
    db_exec(r->host, "PRAGMA journal_mode = WAL; CREATE TABLE own (a INTEGER); CREATE TABLE strange (b);"
                     "BEGIN; INSERT INTO own VALUES (1)");
    renderq_status status = DRIVER->create(r->conn, &r->queue);
    assert_false(sqlite3_get_autocommit(r->host));
    assert_int_equal(db_int(r->host, "SELECT count(*) FROM own"), 1);
    EXPECT(r, status, RENDERQ_OK);
    EXPECT(r, put(r, 1, 0), RENDERQ_OK);

    rq_queue strange = { .text = "strange", .name = { "", "strange" } };
    EXPECT(r, DRIVER->create(r->conn, &strange), RENDERQ_SCHEMA);
    assert_false(sqlite3_get_autocommit(r->host));
    db_exec(r->host, "COMMIT");
    assert_int_equal(rows_outside(), 1);
    assert_int_equal(file_int("queue.db", "SELECT count(*) FROM own"), 1);
    assert_int_equal(file_int("queue.db", "SELECT count(*) FROM pragma_table_info('strange')"), 1);
}

/* A transaction that began by reading what has changed since can never write: trying again is no use. */
static void a_stale_transaction_is_aborted(void **state)
{
    rig *r = *state;
    attach_with_table(r);
    db_exec(r->host, "BEGIN; SELECT * FROM VideoRenderJobs");
    file_exec("queue.db", "CREATE TABLE news (a)");
    EXPECT(r, put(r, 1, 0), RENDERQ_ABORTED);
    db_exec(r->host, "ROLLBACK");
    EXPECT(r, put(r, 1, 0), RENDERQ_OK);
}

/* In rollback-journal mode a reader can make a commit wait for ever; then nothing of it is kept. */
static void a_busy_commit_is_rolled_back(void **state)
{
    rig *r = *state;
    attach(r, "queue.db");
    EXPECT(r, DRIVER->create(r->conn, &r->queue), RENDERQ_OK);
    sqlite3 *reader = db_open("queue.db");
    db_exec(reader, "BEGIN; SELECT * FROM VideoRenderJobs");
    EXPECT(r, DRIVER->begin(r->conn), RENDERQ_OK);
    EXPECT(r, put(r, 1, 0), RENDERQ_OK);
    EXPECT(r, DRIVER->commit(r->conn), RENDERQ_BUSY);
    assert_true(sqlite3_get_autocommit(r->host));
    EXPECT(r, put(r, 1, 0), RENDERQ_BUSY);                  /* the same for a transaction of its own */
    assert_true(sqlite3_get_autocommit(r->host));
    db_exec(reader, "COMMIT");
    sqlite3_close(reader);
    assert_int_equal(rows_outside(), 0);
    EXPECT(r, put(r, 1, 0), RENDERQ_OK);
    assert_int_equal(rows_outside(), 1);
}

/* ---- after fork() ---- */

static int open_descriptors(void)
{
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return -1;
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

/* What SQLite itself holds cannot be freed in a child, and stays; looked after, so that it is told from a leak. */
static void *volatile left;

static int abandon(void *arg)
{
    rig *r = arg;
    int before = open_descriptors();
    left = DRIVER->native(r->conn);
    CHECK(before > 0);
    DRIVER->abandon(r->conn);
    CHECK(open_descriptors() == before);        /* they are the parent's */
    return 0;
}

static int is_locked(void *arg)
{
    (void)arg;
    sqlite3 *db = NULL;
    CHECK(sqlite3_open("queue.db", &db) == SQLITE_OK);
    CHECK(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_BUSY);
    sqlite3_close(db);
    return 0;
}

static void abandon_leaves_the_parent_alone(void **state)
{
    rig *r = *state;
    open_own(r);
    EXPECT(r, DRIVER->begin(r->conn), RENDERQ_OK);
    EXPECT(r, put(r, 2, 0), RENDERQ_OK);
    in_child(abandon, r, false);
    in_child(is_locked, NULL, false);
    EXPECT(r, put(r, 1, 0), RENDERQ_OK);
    EXPECT(r, DRIVER->commit(r->conn), RENDERQ_OK);
    assert_int_equal(rows_outside(), 3);
    char integrity[100];
    db_text(DRIVER->native(r->conn), "PRAGMA integrity_check", integrity, sizeof integrity);
    assert_string_equal(integrity, "ok");
}

static int use_the_parents_handle(void *arg)
{
    renderq *h = arg;
    renderq_job *job = NULL;
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    CHECK_STATUS(h, put_job(h, NULL, "intro", NULL), RENDERQ_INVALID);
    CHECK_SAYS(h, "fork()");
    CHECK_STATUS(h, take_job(h, NULL, &job), RENDERQ_INVALID);
    CHECK_STATUS(h, renderq_stats(h, NULL, &counts), RENDERQ_INVALID);
    CHECK_STATUS(h, renderq_create(h, NULL), RENDERQ_INVALID);
    left = h->driver->native(h->conn);
    renderq_interrupt(h);                       /* shares a pipe with the parent, and must not wake it */
    renderq_close(h);
    return 0;
}

static void a_handle_is_refused_in_the_child(void **state)
{
    (void)state;
    renderq *h = make_queue("sqlite:queue.db");
    renderq_job *job = NULL;
    assert_status(h, put_job(h, NULL, "intro", NULL), RENDERQ_OK);
    in_child(use_the_parents_handle, h, false);
    assert_status(h, take_job(h, NULL, &job), RENDERQ_OK);
    assert_status(h, renderq_complete(h, job, NULL), RENDERQ_OK);
    renderq_job_free(job);
    renderq_close(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_found_by_its_scheme),
        cmocka_unit_test_setup_teardown(a_connection_begins_with_its_base, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failed_open_hands_out_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(commit_and_rollback, set_up, tear_down),
        cmocka_unit_test_setup_teardown(begin_takes_the_write_lock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_second_begin_leaves_the_first_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_of_it_or_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_of_it_or_nothing_in_a_transaction, set_up, tear_down),
        cmocka_unit_test_setup_teardown(attach_leaves_settings_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(attach_keeps_the_journal_mode, set_up, tear_down),
        cmocka_unit_test_setup_teardown(attach_to_memory_and_to_a_missing_table, set_up, tear_down),
        cmocka_unit_test_setup_teardown(run_joins_the_callers_transaction, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failure_leaves_the_callers_transaction_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(create_leaves_the_callers_transaction_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stale_transaction_is_aborted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_busy_commit_is_rolled_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(abandon_leaves_the_parent_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_handle_is_refused_in_the_child, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, scratch_enter, scratch_leave);
}
