/* test_sqlserver_babelfish.c: lib/sqlserver_babelfish.c: names that Babelfish cannot read, and what its one number for
 * many errors comes to. No connection: what the server would answer to the question behind it is given here. */
#include "support.h"

#include "clock.h"
#include "sqlserver.h"

#define UMLAUT "\xC3\xA4"

static rq_error error;
static const rq_session session = { .error = &error };
static rq_queue queue;

/* ---- the question ---- */

static struct {
    renderq_status status;
    int64_t columns, rights, lock_timeout_ms;
    int asked;
} server;

renderq_status __wrap_rq_ss_request(ss_conn *to, const char *sql, const ss_param *params, size_t n, ss_rows *rows,
                                    const char *doing);
renderq_status __wrap_rq_ss_request(ss_conn *to, const char *sql, const ss_param *params, size_t n, ss_rows *rows,
                                    const char *doing)
{
    (void)doing;
    server.asked++;
    assert_null(params);
    assert_int_equal(n, 0);
    assert_non_null(strstr(sql, "OBJECT_ID(N'[render].[jobs]')"));
    assert_null(strstr(sql, "VideoRenderJobs"));
    to->fault = (ss_fault){ .seen = false };        /* as each request does */
    if (server.status != RENDERQ_OK)
        return rq_error_set(&error, server.status, 4711, "another text");
    assert_int_equal(rows->n_columns, 3);
    const rq_value columns[] = { rq_number(server.columns), rq_number(server.rights),
                                 rq_number(server.lock_timeout_ms) };
    return rows->row(rows->arg, 0, columns);
}

static ss_conn failed(void)
{
    ss_conn conn = { .base = { .session = &session }, .babelfish = true };
    conn.fault = (ss_fault){ .seen = true, .server = true, .number = SS_UNMAPPED, .state = 1, .severity = 16,
                             .text = "etwas fehlt" };
    rq_error_text(&error, SS_UNMAPPED, "the first text");
    return conn;
}

static int set_up(void **state)
{
    (void)state;
    queue.text = "render.jobs";
    server.status = RENDERQ_OK;
    server.columns = server.rights = 0;
    server.lock_timeout_ms = 10000;
    server.asked = 0;
    return rq_name_parse(queue.text, &queue.name) ? -1 : 0;
}

static void expect_reason(renderq_status want, int64_t took_ms, const char *said)
{
    ss_conn conn = failed();
    assert_true(rq_ss_babelfish_unclear(&conn));
    assert_int_equal(rq_ss_babelfish_reason(&conn, &queue, rq_clock_ms() - took_ms, "claim in render.jobs"), want);
    assert_int_equal(server.asked, 1);
    assert_int_equal(error.native, SS_UNMAPPED);
    if (!strstr(error.text, said))
        print_error("no \"%s\" in \"%s\"\n", said, error.text);
    assert_non_null(strstr(error.text, said));
    if (want != RENDERQ_FAILED) {
        assert_non_null(strstr(error.text, "claim in render.jobs: "));
        assert_non_null(strstr(error.text, "etwas fehlt"));
        assert_non_null(strstr(error.text, "33557097"));
    }
}

static void a_missing_table(void **state)
{
    (void)state;
    server.columns = server.rights = 1;
    expect_reason(RENDERQ_SCHEMA, 60000, "renderq_create()");
}

static void a_lock_that_did_not_come(void **state)
{
    (void)state;
    server.rights = 1;                      /* a producer's: it has only some */
    expect_reason(RENDERQ_BUSY, 10000, "lock");
}

static void a_missing_right(void **state)
{
    (void)state;
    server.rights = 1;
    expect_reason(RENDERQ_DENIED, 9000, "grants.sql");
}

static void nothing_is_missing(void **state)
{
    (void)state;
    expect_reason(RENDERQ_FAILED, 9000, "the first text");
}

static void locks_that_are_waited_for_without_end(void **state)
{
    (void)state;
    server.lock_timeout_ms = -1;
    expect_reason(RENDERQ_FAILED, 3600000, "the first text");
}

/* The first error counts, not that of the question. */
static void a_question_that_fails(void **state)
{
    (void)state;
    server.status = RENDERQ_UNCERTAIN;
    expect_reason(RENDERQ_FAILED, 60000, "the first text");
}

static void only_that_number_is_unclear(void **state)
{
    (void)state;
    ss_conn conn = failed();
    conn.fault.number = 208;
    assert_false(rq_ss_babelfish_unclear(&conn));
    conn = failed();
    conn.babelfish = false;
    assert_false(rq_ss_babelfish_unclear(&conn));
    conn = failed();
    conn.broken = true;                     /* nobody could be asked */
    assert_false(rq_ss_babelfish_unclear(&conn));
    conn = failed();
    conn.fault.server = false;
    assert_false(rq_ss_babelfish_unclear(&conn));
    conn = failed();
    conn.fault.seen = false;
    assert_false(rq_ss_babelfish_unclear(&conn));
}

/* ---- names ---- */

static void names_that_cannot_be_read(void **state)
{
    (void)state;
    static const char *const bad[] = { "[a]]b]", "[x]]].b", "x.[]]]" };
    static const char *const good[] = { "jobs", "[o'neil [x\"].[" UMLAUT " \\]" };
    const ss_conn conn = failed();
    for (size_t i = 0; i < count_of(bad); i++) {
        queue.text = bad[i];
        assert_null(rq_name_parse(bad[i], &queue.name));
        assert_int_equal(rq_ss_babelfish_name(&conn, &queue), RENDERQ_INVALID);
        assert_non_null(strstr(error.text, bad[i]));
    }
    for (size_t i = 0; i < count_of(good); i++) {
        queue.text = good[i];
        assert_null(rq_name_parse(good[i], &queue.name));
        assert_int_equal(rq_ss_babelfish_name(&conn, &queue), RENDERQ_OK);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_missing_table, set_up),
        cmocka_unit_test_setup(a_lock_that_did_not_come, set_up),
        cmocka_unit_test_setup(a_missing_right, set_up),
        cmocka_unit_test_setup(nothing_is_missing, set_up),
        cmocka_unit_test_setup(locks_that_are_waited_for_without_end, set_up),
        cmocka_unit_test_setup(a_question_that_fails, set_up),
        cmocka_unit_test_setup(only_that_number_is_unclear, set_up),
        cmocka_unit_test_setup(names_that_cannot_be_read, set_up),
    };
    return cmocka_run_group_tests_name("sqlserver_babelfish", tests, NULL, NULL);
}
