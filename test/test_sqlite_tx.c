/* test_sqlite_tx.c: the SQLite driver's transactions where SQLite makes them hard: interrupts at every instruction,
 * statements of the caller's that have not ended, and connections that are closed with them. */
#include "support.h"

#include "handle.h"
#include "sqlite.h"
#include "stop.h"

#define ROWS "SELECT count(*) FROM VideoRenderJobs"

/* ---- interrupts ---- */

bool __real_rq_stop_raised(const rq_stop *stop);
bool __wrap_rq_stop_raised(const rq_stop *stop);

static bool raised; /* whatever the handle has heard */

bool __wrap_rq_stop_raised(const rq_stop *stop)
{
    return raised || __real_rq_stop_raised(stop);
}

/* A progress handler that is asked at each instruction, and interrupts at one of them. */
static struct {
    int left; /* instructions; 0 when it has interrupted */
    bool paused; /* the test's own SQL */
} countdown;

static int at_zero(void *arg)
{
    (void)arg;
    return !countdown.paused && countdown.left > 0 && --countdown.left == 0;
}

/* Nothing is open on the handle, and nobody else is kept waiting. */
static void expect_nothing_open(renderq *h, sqlite3 *beside)
{
    assert_true(sqlite3_get_autocommit(renderq_native(h)));
    db_exec(beside, "BEGIN IMMEDIATE; ROLLBACK");
}

static renderq_status put_alone(renderq *h)
{
    return put_job(h, NULL, "intro", NULL);
}

static renderq_status put_in_ours(renderq *h)
{
    renderq_status status = renderq_begin(h);
    if (status != RENDERQ_OK)
        return status;
    status = put_job(h, NULL, "intro", NULL);
    if (status == RENDERQ_OK)
        return renderq_commit(h);
    assert_status(h, renderq_rollback(h), RENDERQ_OK);
    return status;
}

/* In a transaction that the caller has begun on the attached connection. */
static renderq_status put_in_callers(renderq *h)
{
    sqlite3 *db = renderq_native(h);
    countdown.paused = true;
    db_exec(db, "BEGIN");
    countdown.paused = false;
    renderq_status status = put_alone(h);
    countdown.paused = true;
    assert_int_equal(sqlite3_get_autocommit(db), status == RENDERQ_ABORTED);
    if (status != RENDERQ_ABORTED)
        db_exec(db, "COMMIT"); /* nothing of an INTERRUPTED call is in it */
    countdown.paused = false;
    assert_status(h, renderq_rollback(h), RENDERQ_OK);
    return status;
}

static void expect_answer(renderq *h, renderq_status status)
{
    if (status != RENDERQ_INTERRUPTED && status != RENDERQ_ABORTED)
        assert_status(h, status, RENDERQ_OK);
}

/* Interrupts the call at each of its instructions in turn. Whatever it answers is true, and the next one works. */
static void interrupt_everywhere(renderq *h, renderq_status (*put)(renderq *), sqlite3 *beside)
{
    int done = 0, undone = 0;
    countdown.left = 0;
    for (int at = 1; countdown.left == 0; at++) {
        int64_t before = db_int(beside, ROWS);
        sqlite3_progress_handler(renderq_native(h), 1, at_zero, NULL);
        countdown.left = at;
        renderq_status status = put(h);
        sqlite3_progress_handler(renderq_native(h), 0, NULL, NULL);
        expect_answer(h, status);
        assert_int_equal(db_int(beside, ROWS) - before, status == RENDERQ_OK);
        expect_nothing_open(h, beside);
        *(status == RENDERQ_OK ? &done : &undone) += 1;
        assert_status(h, put_alone(h), RENDERQ_OK);
    }
    assert_true(done >= 1 && undone > 20);
}

static void an_interrupt_at_any_instruction(void **state)
{
    (void)state;
    renderq *h = make_queue("sqlite:anywhere.db?synchronous=normal"), *attached = NULL;
    sqlite3 *beside = db_open("anywhere.db"), *own = db_open("anywhere.db");
    assert_status(h, put_alone(h), RENDERQ_OK);
    interrupt_everywhere(h, put_alone, beside);
    interrupt_everywhere(h, put_in_ours, beside);
    assert_status(attached, renderq_attach("sqlite", own, NULL, &attached), RENDERQ_OK);
    assert_status(attached, put_alone(attached), RENDERQ_OK);
    interrupt_everywhere(attached, put_alone, beside);
    interrupt_everywhere(attached, put_in_ours, beside);
    interrupt_everywhere(attached, put_in_callers, beside);
    renderq_close(attached);
    renderq_close(h);
    sqlite3_close(own);
    sqlite3_close(beside);
}

/* The handle's own progress handler is asked now and then: over so many calls, in every statement. */
static void an_interrupt_whenever_it_is_asked_for(void **state)
{
    (void)state;
    renderq *h = make_queue("sqlite:always.db?synchronous=normal");
    sqlite3 *beside = db_open("always.db");
    int64_t stored = 0, interrupted = 0;
    for (int i = 0; i < 6000; i++) {
        raised = true;
        renderq_status status = i % 2 ? put_alone(h) : put_in_ours(h);
        raised = false;
        expect_answer(h, status);
        stored += status == RENDERQ_OK;
        interrupted += status != RENDERQ_OK;
        if (status != RENDERQ_OK) {
            expect_nothing_open(h, beside);
            assert_int_equal(db_int(beside, ROWS), stored);
        }
    }
    assert_true(interrupted > 0);
    assert_int_equal(db_int(beside, ROWS), stored);
    sqlite3_close(beside);
    renderq_close(h);
}

/* ---- statements of the caller's ---- */

static sqlite3_stmt *prepared(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    return stmt;
}

/* The caller should have finalized it before; as it has not, only the statement outlives the handle. */
static void a_close_with_a_statement_of_the_callers(void **state)
{
    static const char *const begins[] = { NULL, "BEGIN IMMEDIATE" };    /* by the call, or by SQL */
    (void)state;
    sqlite3 *beside = db_open("close.db");
    for (int i = 0; i < 4; i++) {
        renderq *h = make_queue("sqlite:close.db");
        if (begins[i / 2])
            db_exec(renderq_native(h), begins[i / 2]);
        else
            assert_status(h, renderq_begin(h), RENDERQ_OK);
        db_exec(renderq_native(h), "INSERT INTO VideoRenderJobs (CompositionId, PayloadJson) VALUES ('x', '{}')");
        sqlite3_stmt *stmt = prepared(renderq_native(h), ROWS);
        assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
        if (i % 2)
            sqlite3_reset(stmt);
        renderq_close(h);
        db_exec(beside, "BEGIN IMMEDIATE; ROLLBACK");
        assert_int_equal(db_int(beside, ROWS), 0);
        sqlite3_reset(stmt);
        assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);       /* none of the handle's is called any more */
        sqlite3_finalize(stmt);
    }
    sqlite3_close(beside);
}

/* Both kinds of handle on one file: ours, and one that is attached to *own. */
static void open_both(const char *url, const char *path, renderq *h[2], sqlite3 **own)
{
    h[0] = make_queue(url);
    *own = db_open(path);
    assert_status(h[1], renderq_attach("sqlite", *own, NULL, &h[1]), RENDERQ_OK);
}

static void close_both(renderq *h[2], sqlite3 *own)
{
    renderq_close(h[0]);
    renderq_close(h[1]);
    sqlite3_close(own);
}

static void expect_open_statement(renderq *h, renderq_status status)
{
    assert_status(h, status, RENDERQ_INVALID);
    assert_says(h, "is still open: reset or finalize it");
}

/* What it has read, another connection has changed since, so that the connection cannot write; there is no transaction
 * that could be rolled back. */
static void a_statement_that_still_reads(void **state)
{
    (void)state;
    renderq *h[2];
    sqlite3 *own;
    open_both("sqlite:reads.db", "reads.db", h, &own);
    for (int i = 0; i < 2; i++) {
        renderq_job *job = NULL;
        assert_status(h[i], put_alone(h[i]), RENDERQ_OK);
        sqlite3_stmt *stmt = prepared(renderq_native(h[i]), "SELECT JobId FROM VideoRenderJobs");
        assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
        assert_status(h[i], put_alone(h[i]), RENDERQ_OK);
        assert_status(h[!i], put_alone(h[!i]), RENDERQ_OK);
        expect_open_statement(h[i], put_alone(h[i]));
        assert_int_equal(renderq_native_error(h[i]), SQLITE_BUSY_SNAPSHOT);
        expect_open_statement(h[i], take_job(h[i], NULL, &job));
        expect_open_statement(h[i], renderq_receive(h[i], NULL, &job));
        expect_open_statement(h[i], renderq_create(h[i], NULL));
        expect_open_statement(h[i], renderq_begin(h[i]));
        assert_status(h[i], renderq_commit(h[i]), RENDERQ_INVALID);
        assert_says(h[i], "no transaction is open");
        assert_null(job);
        sqlite3_finalize(stmt);
        assert_status(h[i], put_alone(h[i]), RENDERQ_OK);
    }
    /* In a transaction it is the transaction that has read. */
    db_exec(own, "BEGIN; " ROWS);
    assert_status(h[0], put_alone(h[0]), RENDERQ_OK);
    assert_status(h[1], put_alone(h[1]), RENDERQ_ABORTED);
    db_exec(own, "ROLLBACK");
    close_both(h, own);
}

/* With it nothing can be committed, and nobody else is to blame. */
static void a_statement_that_still_writes(void **state)
{
    (void)state;
    renderq *h[2];
    sqlite3 *own;
    open_both("sqlite:writes.db", "writes.db", h, &own);
    for (int i = 0; i < 2; i++) {
        assert_status(h[i], put_alone(h[i]), RENDERQ_OK);
        int64_t before = file_int("writes.db", ROWS);
        for (int in_ours = 0; in_ours < 2; in_ours++) {
            if (in_ours) {
                assert_status(h[i], renderq_begin(h[i]), RENDERQ_OK);
                assert_status(h[i], put_alone(h[i]), RENDERQ_OK);
            }
            sqlite3_stmt *stmt = prepared(renderq_native(h[i]),
                                          "UPDATE VideoRenderJobs SET Priority = 1 RETURNING JobId");
            assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
            expect_open_statement(h[i], put_alone(h[i]));
            if (in_ours)
                expect_open_statement(h[i], renderq_commit(h[i]));      /* which ends it */
            sqlite3_finalize(stmt);
            assert_int_equal(file_int("writes.db", ROWS), before);
            assert_true(sqlite3_get_autocommit(renderq_native(h[i])));
        }
        assert_status(h[!i], put_alone(h[!i]), RENDERQ_OK);
        assert_status(h[i], put_alone(h[i]), RENDERQ_OK);
    }
    close_both(h, own);
}

/* ---- a rollback that fails ---- */

/* While a statement is open, sqlite3_interrupt() makes all others fail, ROLLBACK too. */
static sqlite3_stmt *jam(sqlite3 *db)
{
    sqlite3_stmt *stmt = prepared(db, "SELECT JobId FROM VideoRenderJobs");
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    sqlite3_interrupt(db);
    return stmt;
}

static void begin_and_put(renderq *h)
{
    assert_status(h, renderq_begin(h), RENDERQ_OK);
    assert_status(h, put_alone(h), RENDERQ_OK);
}

/* Nothing joins what should have been undone, until it is. */
static void a_rollback_that_fails_on_an_attached_connection(void **state)
{
    (void)state;
    renderq *h[2];
    sqlite3 *own, *beside = db_open("jam.db");
    open_both("sqlite:jam.db", "jam.db", h, &own);

    begin_and_put(h[1]);
    sqlite3_stmt *stmt = jam(own);
    assert_status(h[1], renderq_rollback(h[1]), RENDERQ_INTERRUPTED);
    sqlite3_finalize(stmt);
    assert_status(h[1], put_alone(h[1]), RENDERQ_ABORTED);
    assert_status(h[1], renderq_rollback(h[1]), RENDERQ_OK);
    expect_nothing_open(h[1], beside);

    begin_and_put(h[1]);
    stmt = jam(own);
    assert_status(h[1], renderq_commit(h[1]), RENDERQ_INTERRUPTED);
    sqlite3_finalize(stmt);
    for (int i = 0; i < 2; i++) {
        assert_status(h[1], put_alone(h[1]), RENDERQ_FAILED);
        assert_says(h[1], "say ROLLBACK there");
    }
    db_exec(own, "ROLLBACK");
    expect_nothing_open(h[1], beside);
    assert_int_equal(db_int(beside, ROWS), 0);
    assert_status(h[1], put_alone(h[1]), RENDERQ_OK);
    assert_int_equal(db_int(beside, ROWS), 1);
    close_both(h, own);
    sqlite3_close(beside);
}

/* Ours is closed, which undoes what is open on it. */
static void a_rollback_that_fails_on_a_connection_of_ours(void **state)
{
    (void)state;
    renderq *h = make_queue("sqlite:ours.db");
    sqlite3 *beside = db_open("ours.db");
    begin_and_put(h);
    sqlite3_stmt *stmt = jam(renderq_native(h));
    assert_status(h, renderq_rollback(h), RENDERQ_OK);
    db_exec(beside, "BEGIN IMMEDIATE; ROLLBACK");
    assert_status(h, put_alone(h), RENDERQ_OK);
    assert_int_equal(db_int(beside, ROWS), 1);
    sqlite3_finalize(stmt);
    renderq_close(h);
    sqlite3_close(beside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interrupt_at_any_instruction),
        cmocka_unit_test(an_interrupt_whenever_it_is_asked_for),
        cmocka_unit_test(a_close_with_a_statement_of_the_callers),
        cmocka_unit_test(a_statement_that_still_reads),
        cmocka_unit_test(a_statement_that_still_writes),
        cmocka_unit_test(a_rollback_that_fails_on_an_attached_connection),
        cmocka_unit_test(a_rollback_that_fails_on_a_connection_of_ours),
    };
    return cmocka_run_group_tests(tests, scratch_enter, scratch_leave);
}
