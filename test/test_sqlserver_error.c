/* test_sqlserver_error.c: lib/sqlserver_error.c: what each number that SQL Server or CT-Library tells means to a caller,
 * and that nothing else than the number decides. No connection. */
#include "support.h"

#include "sqlserver.h"

static rq_error error;
static rq_url url = { .host = "db.example.org" };
static const rq_session session = { .url = &url, .connect_s = 7, .command_s = 9, .error = &error };

/* Told by the server, of that severity, in words that mean nothing. */
static ss_conn told(int number, int severity, bool sent)
{
    ss_conn conn = { .base = { .session = &session }, .sent = sent };
    conn.fault = (ss_fault){ .seen = true, .server = true, .number = number, .state = 3, .severity = severity,
                             .text = "Es ging nicht." };
    memset(&error, 0, sizeof error);
    return conn;
}

static void expect_at(ss_conn *conn, renderq_status status, bool broken, const char *file, int line)
{
    renderq_status got = rq_ss_error(conn, "claim in jobs");
    if (got != status || conn->broken != broken || strncmp(error.text, "claim in jobs: ", 15) != 0) {
        print_error("%d: %s%s, not %s%s: %s\n", conn->fault.number, renderq_strstatus(got),
                    conn->broken ? ", broken" : "", renderq_strstatus(status), broken ? ", broken" : "", error.text);
        _fail(file, line);
    }
}

#define expect(conn, status, broken) expect_at((conn), (status), (broken), __FILE__, __LINE__)
#define expect_said(part) expect_text(error.text, (part), __FILE__, __LINE__)

/* ---- numbers ---- */

static const struct { int number; renderq_status status; const char *advice; } refusals[] = {
    { 1205, RENDERQ_BUSY, "deadlock" },
    { 1222, RENDERQ_BUSY, "lock" },
    { 3960, RENDERQ_BUSY, "snapshot" },
    { 547, RENDERQ_SCHEMA, "constraint" },
    { 515, RENDERQ_SCHEMA, "NULL" },
    { 2601, RENDERQ_SCHEMA, "unique" },
    { 2627, RENDERQ_SCHEMA, "unique" },
    { 208, RENDERQ_SCHEMA, "renderq_create()" },
    { 207, RENDERQ_SCHEMA, "renderq_create()" },
    { 334, RENDERQ_SCHEMA, "trigger" },
    { 1934, RENDERQ_SCHEMA, "SET option" },
    { 51000, RENDERQ_SCHEMA, "cannot become a queue" },
    { 2812, RENDERQ_SCHEMA, "watchdog.sql" },
    { 650, RENDERQ_INVALID, "READ COMMITTED" },
    { 8152, RENDERQ_INVALID, "longer than its column" },
    { 2628, RENDERQ_INVALID, "longer than its column" },
    { 18456, RENDERQ_DENIED, "user or password" },
    { 18452, RENDERQ_DENIED, "login" },
    { 18470, RENDERQ_DENIED, "disabled" },
    { 18486, RENDERQ_DENIED, "locked" },
    { 18487, RENDERQ_DENIED, "expired" },
    { 18488, RENDERQ_DENIED, "changed" },
    { 40532, RENDERQ_DENIED, "login" },
    { 40615, RENDERQ_DENIED, "firewall" },
    { 4060, RENDERQ_DENIED, "database" },
    { 911, RENDERQ_DENIED, "database" },
    { 916, RENDERQ_DENIED, "database" },
    { 229, RENDERQ_DENIED, "grants.sql" },
    { 230, RENDERQ_DENIED, "grants.sql" },
    { 262, RENDERQ_DENIED, "schema.sql" },
    { 1101, RENDERQ_FAILED, "full" },
    { 1105, RENDERQ_FAILED, "full" },
    { 9002, RENDERQ_FAILED, "full" },
    { 701, RENDERQ_FAILED, "memory" },
    { 802, RENDERQ_FAILED, "memory" },
    { 8645, RENDERQ_FAILED, "memory" },
    { 8651, RENDERQ_FAILED, "memory" },
    { 1204, RENDERQ_FAILED, "locks" },
};

static const int passing[] = { 40197, 40501, 40613, 49918, 49919, 49920, 10928, 10929, 10053, 10054, 10060, 233, 64, 20,
                               983 };

static void a_refusal_says_what_to_do(void **state)
{
    (void)state;
    for (size_t i = 0; i < count_of(refusals); i++)
        for (int sent = 0; sent <= 1; sent++) {
            char number[40];
            ss_conn conn = told(refusals[i].number, 16, sent);
            expect(&conn, refusals[i].status, false);
            expect_said(refusals[i].advice);
            snprintf(number, sizeof number, "SQL Server error %d, state 3", refusals[i].number);
            expect_said(number);
            expect_said("Es ging nicht.");
            assert_int_equal(error.native, refusals[i].number);
            assert_int_equal(rq_ss_ails(refusals[i].number), refusals[i].status == RENDERQ_FAILED);
        }
    assert_false(rq_ss_ails(99999));
}

/* A failover, a restart, throttling: the connection is given up, and whether it counted depends on what was sent. */
static void a_passing_fault_breaks_the_connection(void **state)
{
    (void)state;
    for (size_t i = 0; i < count_of(passing); i++) {
        ss_conn conn = told(passing[i], 16, false);
        expect(&conn, RENDERQ_DISCONNECTED, true);
        conn = told(passing[i], 16, true);
        expect(&conn, RENDERQ_UNCERTAIN, true);
        expect_said("try again");
        assert_int_equal(error.native, passing[i]);
    }
}

/* Babelfish has one number for much. At the login it is a server that starts or is full; later rq_ss_babelfish_reason()
 * looks further. */
static void an_error_without_a_number(void **state)
{
    (void)state;
    ss_conn conn = told(SS_UNMAPPED, 16, false);
    expect(&conn, RENDERQ_DISCONNECTED, true);
    expect_said("try again");
    conn = told(SS_UNMAPPED, 16, true);
    expect(&conn, RENDERQ_FAILED, false);
}

static void a_severity_of_20_breaks_the_connection(void **state)
{
    (void)state;
    for (int severity = 11; severity <= 25; severity++) {
        ss_conn conn = told(1205, severity, true);
        expect(&conn, RENDERQ_BUSY, severity >= 20);
        /* the server ends the session, and says no more about the request */
        conn = told(824, severity, true);
        expect(&conn, severity >= 20 ? RENDERQ_UNCERTAIN : RENDERQ_FAILED, severity >= 20);
        conn = told(824, severity, false);
        expect(&conn, severity >= 20 ? RENDERQ_DISCONNECTED : RENDERQ_FAILED, severity >= 20);
    }
}

/* Texts are translated: they say everything here, and decide nothing. */
static void the_text_never_decides(void **state)
{
    static const char *const texts[] = {
        "Transaction was deadlocked on lock resources", "Login failed for user 'sa'.", "Invalid object name 'jobs'.",
        "Lock request time out period exceeded.", "Violation of UNIQUE KEY constraint", "Connection is broken",
        "String or binary data would be truncated", "The SELECT permission was denied", ""
    };
    (void)state;
    for (size_t i = 0; i < count_of(texts); i++) {
        ss_conn conn = told(12345, 16, true);
        snprintf(conn.fault.text, sizeof conn.fault.text, "%s", texts[i]);
        expect(&conn, RENDERQ_FAILED, false);
        expect_said(texts[i]);
        conn.fault.number = 1222;
        expect(&conn, RENDERQ_BUSY, false);
    }
}

/* CT-Library's own numbers mean something else, though they look alike. */
static void the_librarys_numbers_are_not_the_servers(void **state)
{
    (void)state;
    for (size_t i = 0; i < count_of(refusals); i++) {
        ss_conn conn = told(refusals[i].number, 16, true);
        conn.fault.server = false;
        expect(&conn, RENDERQ_UNCERTAIN, false);
        conn.sent = false;
        expect(&conn, RENDERQ_DISCONNECTED, false);
        expect_said("no connection to db.example.org");
    }
    ss_conn conn = told(2403, 16, true);
    conn.fault.server = false;
    expect(&conn, RENDERQ_FAILED, false);
    expect_said("not valid Unicode");
    conn.fault.server = true;
    expect(&conn, RENDERQ_FAILED, false);
    expect_said("SQL Server error 2403");
}

/* ---- without a number ---- */

static void silence(void **state)
{
    (void)state;
    ss_conn conn = told(0, 0, true);
    conn.fault.seen = false;
    expect(&conn, RENDERQ_UNCERTAIN, false);
    expect_said("no connection to db.example.org");
    assert_int_equal(error.native, 0);
    conn.sent = false;
    expect(&conn, RENDERQ_DISCONNECTED, false);

    conn.timed_out = true;
    expect(&conn, RENDERQ_DISCONNECTED, false);
    expect_said("db.example.org did not answer within 7 s");
    conn.sent = true;
    expect(&conn, RENDERQ_UNCERTAIN, false);
    expect_said("more than 9 s");

    conn.interrupted = true;
    expect(&conn, RENDERQ_UNCERTAIN, false);
    expect_said("interrupted");
    conn.sent = false;
    expect(&conn, RENDERQ_INTERRUPTED, false);
}

/* What the server says counts for more than that time was up when it said it. */
static void an_error_after_the_time_was_up(void **state)
{
    (void)state;
    ss_conn conn = told(1222, 16, true);
    conn.timed_out = conn.interrupted = true;
    expect(&conn, RENDERQ_BUSY, false);
}

/* The text is one line that fits, whatever the server says. */
static void a_long_text_is_cut(void **state)
{
    (void)state;
    ss_conn conn = told(50000, 16, true);
    memset(conn.fault.text, 'x', sizeof conn.fault.text - 1);
    expect(&conn, RENDERQ_FAILED, false);
    expect_said("xxxx)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_says_what_to_do),
        cmocka_unit_test(a_passing_fault_breaks_the_connection),
        cmocka_unit_test(an_error_without_a_number),
        cmocka_unit_test(a_severity_of_20_breaks_the_connection),
        cmocka_unit_test(the_text_never_decides),
        cmocka_unit_test(the_librarys_numbers_are_not_the_servers),
        cmocka_unit_test(silence),
        cmocka_unit_test(an_error_after_the_time_was_up),
        cmocka_unit_test(a_long_text_is_cut),
    };
    return cmocka_run_group_tests_name("sqlserver_error", tests, NULL, NULL);
}
