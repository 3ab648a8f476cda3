/* native_sqlserver.c: native.h over CT-Library. The first line of a text is for the test server, which takes a
 * program's own SQL below it; elsewhere it is a comment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ctpublic.h>

#include "native.h"
#include "suite.h"

#define TIMEOUT_S 117

static unsigned heard;              /* calls of the program's own callbacks */

static CS_RETCODE on_server(CS_CONTEXT *context, CS_CONNECTION *link, CS_SERVERMSG *message)
{
    (void)context;
    (void)link;
    heard += message->severity > 10;
    return CS_SUCCEED;
}

static CS_RETCODE on_client(CS_CONTEXT *context, CS_CONNECTION *link, CS_CLIENTMSG *message)
{
    (void)context;
    (void)link;
    (void)message;
    heard++;
    return CS_SUCCEED;
}

static CS_VOID *pointer_to(void (*function)(void))
{
    CS_VOID *pointer;
    memcpy(&pointer, &function, sizeof pointer);
    return pointer;
}

static void give_text(CS_CONNECTION *link, CS_INT property, const char *text)
{
    assert_int_equal(ct_con_props(link, CS_SET, property, (void *)(uintptr_t)text, CS_NULLTERM, NULL), CS_SUCCEED);
}

static void give_number(CS_CONNECTION *link, CS_INT property, CS_INT number)
{
    assert_int_equal(ct_con_props(link, CS_SET, property, &number, CS_UNUSED, NULL), CS_SUCCEED);
}

static bool own_run(void *native, const char *sql);

static void *own_connect(const rq_url *url)
{
    CS_CONTEXT *context = NULL;
    CS_CONNECTION *link = NULL;
    char server[300];
    assert_int_equal(cs_ctx_alloc(CS_VERSION_100, &context), CS_SUCCEED);
    assert_int_equal(ct_init(context, CS_VERSION_100), CS_SUCCEED);
    assert_int_equal(ct_con_alloc(context, &link), CS_SUCCEED);
    ct_callback(NULL, link, CS_SET, CS_SERVERMSG_CB, pointer_to((void (*)(void))on_server));
    ct_callback(NULL, link, CS_SET, CS_CLIENTMSG_CB, pointer_to((void (*)(void))on_client));
    give_number(link, CS_TDS_VERSION, CS_TDS_74);
    give_text(link, CS_CLIENTCHARSET, "UTF-8");
    give_text(link, CS_USERNAME, url->user);
    give_text(link, CS_PASSWORD, url->password ? url->password : "");
    if (*url->path)
        give_text(link, CS_DATABASE, url->path);
    snprintf(server, sizeof server, "%s:%d", url->host, url->port ? url->port : 1433);
    assert_int_equal(ct_connect(link, server, CS_NULLTERM), CS_SUCCEED);
    assert_true(own_run(link, "SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, QUOTED_IDENTIFIER, "
                              "CONCAT_NULL_YIELDS_NULL, XACT_ABORT ON"));
    assert_true(own_run(link, "SET ARITHABORT ON"));
    give_number(link, CS_TIMEOUT, TIMEOUT_S);
    heard = 0;
    return link;
}

static void own_disconnect(void *native)
{
    CS_CONTEXT *context = NULL;
    assert_int_equal(ct_con_props(native, CS_GET, CS_PARENT_HANDLE, &context, CS_UNUSED, NULL), CS_SUCCEED);
    if (ct_close(native, CS_UNUSED) != CS_SUCCEED)
        ct_close(native, CS_FORCE_CLOSE);
    ct_con_drop(native);
    ct_exit(context, CS_FORCE_EXIT);
    cs_ctx_drop(context);
}

static bool own_untouched(void *native)
{
    CS_INT timeout = 0;
    CS_VOID *server = NULL, *client = NULL;
    ct_con_props(native, CS_GET, CS_TIMEOUT, &timeout, CS_UNUSED, NULL);
    ct_callback(NULL, native, CS_GET, CS_SERVERMSG_CB, &server);
    ct_callback(NULL, native, CS_GET, CS_CLIENTMSG_CB, &client);
    return timeout == TIMEOUT_S && heard == 0 && server == pointer_to((void (*)(void))on_server)
           && client == pointer_to((void (*)(void))on_client);
}

/* The first column of the last row as a number; *whole: everything ended well. */
static int64_t request(void *native, const char *sql, bool *whole)
{
    CS_COMMAND *command = NULL;
    CS_INT type, rows;
    CS_BIGINT number = 0;
    CS_RETCODE rc;
    size_t size = strlen(sql) + 64;
    char *text = malloc(size);
    assert_non_null(text);
    snprintf(text, size, "-- renderq: caller\n%s", sql);
    assert_int_equal(ct_cmd_alloc(native, &command), CS_SUCCEED);
    assert_int_equal(ct_command(command, CS_LANG_CMD, text, CS_NULLTERM, CS_UNUSED), CS_SUCCEED);
    *whole = ct_send(command) == CS_SUCCEED;
    while (*whole && (rc = ct_results(command, &type)) != CS_END_RESULTS) {
        if (rc != CS_SUCCEED || type == CS_CMD_FAIL) {
            *whole = false;
            if (rc == CS_SUCCEED) {
                while (ct_results(command, &type) == CS_SUCCEED)
                    continue;
            }
            break;
        }
        if (type != CS_ROW_RESULT)
            continue;
        CS_DATAFMT format = { .datatype = CS_BIGINT_TYPE, .format = CS_FMT_UNUSED, .maxlength = sizeof number,
                              .count = 1 };
        assert_int_equal(ct_bind(command, 1, &format, &number, NULL, NULL), CS_SUCCEED);
        while (ct_fetch(command, CS_UNUSED, CS_UNUSED, CS_UNUSED, &rows) == CS_SUCCEED)
            continue;
    }
    ct_cmd_drop(command);
    free(text);
    return number;
}

static bool own_run(void *native, const char *sql)
{
    bool whole;
    unsigned before = heard;
    request(native, sql, &whole);
    heard = before;                 /* what the program's own SQL says is its own */
    return whole;
}

static int64_t own_ask(void *native, const char *sql)
{
    bool whole;
    int64_t number = request(native, sql, &whole);
    assert_true(whole);
    return number;
}

const native_ops native_sqlserver = {
    .scheme = "sqlserver", .tells_apart = true, .begin = "BEGIN TRANSACTION", .commit = "COMMIT TRANSACTION",
    .rollback = "ROLLBACK TRANSACTION", .connect = own_connect, .disconnect = own_disconnect,
    .untouched = own_untouched, .run = own_run, .ask = own_ask,
    .deadly = "INSERT INTO %s (k, v) VALUES ('there', 1)",
};
