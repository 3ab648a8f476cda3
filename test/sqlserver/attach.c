/* attach.c: a connection of the program's own beside CT-Library's traps: settings of its session, a command left open
 * on it, texts longer than it reads itself, a server that ends it. What attached handles do is in
 * test/conformance/attach.c. */
#include "wire.h"

#include <ctpublic.h>

static CS_CONTEXT *context;
static CS_CONNECTION *link_;

static void number(CS_INT property, CS_INT value)
{
    assert_int_equal(ct_con_props(link_, CS_SET, property, &value, CS_UNUSED, NULL), CS_SUCCEED);
}

static void text(CS_INT property, const char *value)
{
    assert_int_equal(ct_con_props(link_, CS_SET, property, (void *)(uintptr_t)value, CS_NULLTERM, NULL), CS_SUCCEED);
}

static CS_COMMAND *begin(const char *sql)
{
    CS_COMMAND *command = NULL;
    assert_int_equal(ct_cmd_alloc(link_, &command), CS_SUCCEED);
    assert_int_equal(ct_command(command, CS_LANG_CMD, sql, CS_NULLTERM, CS_UNUSED), CS_SUCCEED);
    assert_int_equal(ct_send(command), CS_SUCCEED);
    return command;
}

static void say(const char *sql)
{
    char whole[300];
    CS_INT type;
    snprintf(whole, sizeof whole, "-- renderq: caller\n%s", sql);
    CS_COMMAND *command = begin(whole);
    while (ct_results(command, &type) == CS_SUCCEED)
        assert_int_not_equal(type, CS_CMD_FAIL);
    ct_cmd_drop(command);
}

static void connect_to(const server *s, const char *charset)
{
    char name[100];
    number(CS_TDS_VERSION, CS_TDS_74);
    text(CS_CLIENTCHARSET, charset);
    text(CS_USERNAME, "sa");
    text(CS_PASSWORD, PASSWORD);
    text(CS_DATABASE, "renderq");
    number(CS_TIMEOUT, 60);
    snprintf(name, sizeof name, "127.0.0.1:%d", s->port);
    assert_int_equal(ct_connect(link_, name, CS_NULLTERM), CS_SUCCEED);
}

static int set_up(void **state)
{
    (void)state;
    if (cs_ctx_alloc(CS_VERSION_100, &context) != CS_SUCCEED || ct_init(context, CS_VERSION_100) != CS_SUCCEED
        || ct_con_alloc(context, &link_) != CS_SUCCEED)
        return -1;
    connect_to(&common, "UTF-8");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (ct_close(link_, CS_UNUSED) != CS_SUCCEED)
        ct_close(link_, CS_FORCE_CLOSE);
    ct_con_drop(link_);
    ct_exit(context, CS_FORCE_EXIT);
    cs_ctx_drop(context);
    return 0;
}

static renderq_status attach(const char *queue, renderq **out)
{
    renderq_options options = quiet_options();
    options.queue = queue;
    return renderq_attach("sqlserver", link_, &options, out);
}

static void what_a_session_must_have(void **state)
{
    static const struct { const char *spoil, *mend, *name; } wrongs[] = {
        { "SET ANSI_NULLS OFF", "SET ANSI_NULLS ON", "ANSI_NULLS OFF" },
        { "SET ANSI_PADDING OFF", "SET ANSI_PADDING ON", "ANSI_PADDING OFF" },
        { "SET ANSI_WARNINGS OFF", "SET ANSI_WARNINGS ON", "ANSI_WARNINGS OFF" },
        { "SET QUOTED_IDENTIFIER OFF", "SET QUOTED_IDENTIFIER ON", "QUOTED_IDENTIFIER OFF" },
        { "SET CONCAT_NULL_YIELDS_NULL OFF", "SET CONCAT_NULL_YIELDS_NULL ON", "CONCAT_NULL_YIELDS_NULL OFF" },
        { "SET NUMERIC_ROUNDABORT ON", "SET NUMERIC_ROUNDABORT OFF", "NUMERIC_ROUNDABORT ON" },
        { "SET IMPLICIT_TRANSACTIONS ON", "SET IMPLICIT_TRANSACTIONS OFF", "IMPLICIT_TRANSACTIONS ON" },
    };
    (void)state;
    for (size_t i = 0; i < count_of(wrongs); i++) {
        renderq *h = NULL;
        say(wrongs[i].spoil);
        expect(h, attach(NULL, &h), RENDERQ_INVALID);
        assert_non_null(strstr(renderq_errmsg(h), wrongs[i].name));
        renderq_close(h);
        say(wrongs[i].mend);
        expect_ok(h, attach(NULL, &h));
        renderq_close(h);
    }
}

static void its_texts_must_be_utf8(void **state)
{
    (void)state;
    renderq *h = NULL;
    ct_close(link_, CS_UNUSED);
    ct_con_drop(link_);
    assert_int_equal(ct_con_alloc(context, &link_), CS_SUCCEED);
    connect_to(&common, "ISO-8859-15");
    expect(h, attach(NULL, &h), RENDERQ_INVALID);
    assert_non_null(strstr(renderq_errmsg(h), "CS_CLIENTCHARSET"));
    renderq_close(h);
}

/* A command that was left open is the program's to end. Nothing is sent, and nothing is lost of its results. */
static void an_open_command(void **state)
{
    (void)state;
    renderq *maker = queue_at(&common, "opencommand", NULL), *h = NULL;
    CS_INT type;
    expect_ok(h, attach("opencommand", &h));
    CS_COMMAND *command = begin("-- renderq: caller\nSELECT 7");
    assert_int_equal(ct_results(command, &type), CS_SUCCEED);
    expect(h, put_job(h, NULL, "a", NULL), RENDERQ_INVALID);
    assert_non_null(strstr(renderq_errmsg(h), "still open"));
    CS_INT rows = 0;
    assert_int_equal(type, CS_ROW_RESULT);
    assert_int_equal(ct_fetch(command, CS_UNUSED, CS_UNUSED, CS_UNUSED, &rows), CS_SUCCEED);
    assert_int_equal(rows, 1);
    while (ct_fetch(command, CS_UNUSED, CS_UNUSED, CS_UNUSED, &rows) == CS_SUCCEED)
        continue;
    while (ct_results(command, &type) == CS_SUCCEED)
        continue;
    ct_cmd_drop(command);
    use(h);
    renderq_close(h);
    renderq_close(maker);
}

/* Nothing can be sent behind it, the commit neither: the transaction is over all the same. */
static void an_open_command_at_the_commit(void **state)
{
    (void)state;
    renderq *h = queue_at(&common, "opencommand3", NULL);
    CS_COMMAND *command = NULL;
    expect_ok(h, renderq_begin(h));
    expect_ok(h, put_job(h, NULL, "undone", NULL));
    assert_int_equal(ct_cmd_alloc(renderq_native(h), &command), CS_SUCCEED);
    assert_int_equal(ct_command(command, CS_LANG_CMD, "-- renderq: caller\nSELECT 7", CS_NULLTERM, CS_UNUSED),
                     CS_SUCCEED);
    assert_int_equal(ct_send(command), CS_SUCCEED);
    expect(h, renderq_commit(h), RENDERQ_INVALID);
    assert_non_null(strstr(renderq_errmsg(h), "still open"));
    ct_cmd_drop(command);
    expect_ok(h, put_job(h, NULL, "done", NULL));
    renderq_close(h);
    assert_int_equal(file_int(common.db, "SELECT count(*) FROM opencommand3"), 1);
    assert_int_equal(file_int(common.db, "SELECT count(*) FROM opencommand3 WHERE CompositionId = 'done'"), 1);
}

/* The same on a connection of ours, where renderq_native() let the program leave one open. */
static void an_open_command_on_ours(void **state)
{
    (void)state;
    renderq *h = queue_at(&common, "opencommand2", NULL);
    CS_COMMAND *command = NULL;
    CS_INT type;
    expect_ok(h, renderq_begin(h));
    assert_int_equal(ct_cmd_alloc(renderq_native(h), &command), CS_SUCCEED);
    assert_int_equal(ct_command(command, CS_LANG_CMD, "-- renderq: caller\nSELECT 7", CS_NULLTERM, CS_UNUSED),
                     CS_SUCCEED);
    assert_int_equal(ct_send(command), CS_SUCCEED);
    expect(h, put_job(h, NULL, "a", NULL), RENDERQ_INVALID);
    while (ct_results(command, &type) == CS_SUCCEED) {
        CS_INT rows;
        while (type == CS_ROW_RESULT && ct_fetch(command, CS_UNUSED, CS_UNUSED, CS_UNUSED, &rows) == CS_SUCCEED)
            continue;
    }
    ct_cmd_drop(command);
    expect_ok(h, put_job(h, NULL, "a", NULL));
    expect_ok(h, renderq_rollback(h));
    use(h);
    renderq_close(h);
}

/* The session reads 4 KB of a text; ours asks for all of it, and leaves that as it was. */
static void long_texts(void **state)
{
    (void)state;
    char *payload = malloc(100001);
    renderq *h = queue_at(&common, "longtexts", NULL), *attached = NULL;
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    renderq_job *found = NULL;
    memset(payload, 'x', 100000);
    payload[100000] = 0;
    job.composition_id = "long";
    job.payload_json = payload;
    expect_ok(attached, attach("longtexts", &attached));
    expect_ok(attached, renderq_enqueue(attached, &job, NULL));
    expect_ok(attached, renderq_claim(attached, NULL, &found));
    assert_int_equal(found->payload_len, 100000);
    expect_ok(attached, renderq_complete(attached, found, NULL));
    renderq_job_free(found);
    renderq_close(attached);
    renderq_close(h);
    free(payload);
}

/* The server goes away: nothing is opened anew, nothing repeated, and the handle says what to do. */
static void the_server_ends_it(void **state)
{
    (void)state;
    static server own;
    renderq *maker = NULL, *h = NULL;
    server_start(&own, "ends", NULL);
    maker = queue_at(&own, "ends", NULL);
    CS_CONNECTION *before = link_;
    assert_int_equal(ct_con_alloc(context, &link_), CS_SUCCEED);
    connect_to(&own, "UTF-8");
    expect_ok(h, attach("ends", &h));
    expect_ok(h, put_job(h, NULL, "a", NULL));
    server_restart(&own);
    renderq_status status = put_job(h, NULL, "b", NULL);
    assert_true(status == RENDERQ_DISCONNECTED || status == RENDERQ_UNCERTAIN);
    expect(h, put_job(h, NULL, "c", NULL), RENDERQ_DISCONNECTED);
    assert_non_null(strstr(renderq_errmsg(h), "attach"));
    assert_null(renderq_native(h));
    renderq_close(h);
    ct_close(link_, CS_FORCE_CLOSE);
    ct_con_drop(link_);
    link_ = before;
    expect_ok(maker, put_job(maker, NULL, "d", NULL));
    renderq_close(maker);
    server_stop(&own);
}

/* A request that takes too long ends the transaction that it was in, and the caller is told so. */
static void too_long_inside(void **state)
{
    (void)state;
    renderq *h = queue_at(&common, "toolong", NULL), *slow = NULL;
    renderq_close(h);
    slow = open_at(&common, "/renderq?queue=toolong&lock_timeout_ms=3600000", NULL);
    sqlite3 *locker = db_open(common.db);
    sqlite3_busy_timeout(locker, LONG_MS);
    expect_ok(slow, renderq_begin(slow));
    db_exec(locker, "BEGIN IMMEDIATE");
    set_limits(slow, 0, 1);
    renderq_status status = put_job(slow, NULL, "late", NULL);
    set_limits(slow, 0, 0);
    db_exec(locker, "ROLLBACK");
    expect(slow, status, RENDERQ_ABORTED);
    expect(slow, put_job(slow, NULL, "later", NULL), RENDERQ_ABORTED);
    expect(slow, renderq_commit(slow), RENDERQ_ABORTED);
    assert_int_equal(file_int(common.db, "SELECT count(*) FROM toolong"), 0);
    use(slow);
    sqlite3_close(locker);
    renderq_close(slow);
}

int run_attach(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_a_session_must_have, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_texts_must_be_utf8, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_open_command, set_up, tear_down),
        cmocka_unit_test(an_open_command_on_ours),
        cmocka_unit_test(an_open_command_at_the_commit),
        cmocka_unit_test_setup_teardown(long_texts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_server_ends_it, set_up, tear_down),
        cmocka_unit_test(too_long_inside),
    };
    return cmocka_run_group_tests_name("attach", tests, NULL, NULL);
}
