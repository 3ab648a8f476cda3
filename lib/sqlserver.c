/* sqlserver.c: the driver over SQL Server: what lib/driver.h asks, done with one request each. The connection is in
 * sqlserver_link.c, the texts in sqlserver_sql.c, the meaning of errors in sqlserver_error.c. */
#include "sqlserver.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

/* ---- options ---- */

typedef struct number_option {
    const char *name;
    int min, max;
} number_option;

static const number_option number_options[] = {
    { "lock_timeout_ms", 0, 3600000 },
    { "packet_size", 4096, 32767 },     /* CT-Library takes 4096 where it is told less */
    { "deadlock_priority", -10, 10 },
};

static bool in_range(const char *text, int min, int max)
{
    char *end;
    long number = strtol(text, &end, 10);
    return (isdigit((unsigned char)*text) || *text == '-') && !*end && number >= min && number <= max;
}

static renderq_status check_options(const rq_session *session)
{
    const rq_url *url = session->url;
    for (size_t i = 0; i < sizeof number_options / sizeof number_options[0]; i++) {
        const number_option *option = &number_options[i];
        const char *text = rq_url_option(url, option->name);
        if (text && !in_range(text, option->min, option->max))
            return rq_error_set(session->error, RENDERQ_INVALID, 0, "%s=%.100s: it is a number from %d to %d",
                                option->name, text, option->min, option->max);
    }
    const char *encrypt = rq_url_option(url, "encrypt");
    if (encrypt && strcmp(encrypt, "require") != 0)
        return rq_error_set(session->error, RENDERQ_INVALID, 0, "encrypt=%.100s: it is require, or left out", encrypt);
    if (!url->has_authority || !url->host)
        return rq_error_set(session->error, RENDERQ_INVALID, 0,
                            "an SQL Server URL names a server: sqlserver://user:password@host:1433/database");
    if (!url->user || !*url->user)      /* without a name CT-Library would try Kerberos */
        return rq_error_set(session->error, RENDERQ_INVALID, 0,
                            "an SQL Server URL names a user: sqlserver://user:password@host:1433/database");
    return RENDERQ_OK;
}

/* ---- connections ---- */

static void ss_abandon(rq_conn *base)
{
    ss_conn *conn = (ss_conn *)base;
    if (!conn)
        return;
    rq_ss_forget(conn);
    free(conn);
}

static void ss_close(rq_conn *base)
{
    if (!base)
        return;
    rq_ss_disconnect((ss_conn *)base);
    ss_abandon(base);
}

static renderq_status ss_open(const rq_session *session, rq_conn **out)
{
    *out = NULL;
    renderq_status status = check_options(session);
    if (status != RENDERQ_OK)
        return status;
    ss_conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        return rq_error_set(session->error, RENDERQ_NOMEM, 0, "out of memory");
    conn->base = (rq_conn){ .driver = &rq_sqlserver_driver, .session = session };
    status = rq_ss_connect(conn);
    if (status == RENDERQ_OK)
        *out = &conn->base;
    else
        ss_close(&conn->base);
    return status;
}

/* The caller's connection: its callbacks and settings are borrowed for each request alone. */
static renderq_status ss_attach(const rq_session *session, void *native, rq_conn **out)
{
    *out = NULL;
    ss_conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        return rq_error_set(session->error, RENDERQ_NOMEM, 0, "out of memory");
    conn->base = (rq_conn){ .driver = &rq_sqlserver_driver, .session = session };
    conn->link = native;
    conn->attached = true;
    renderq_status status = rq_ss_adopt(conn);
    if (status == RENDERQ_OK)
        *out = &conn->base;
    else
        ss_close(&conn->base);
    return status;
}

static bool ss_alive(rq_conn *base)
{
    return !((ss_conn *)base)->broken;
}

static void *ss_native(rq_conn *base)
{
    return ((ss_conn *)base)->link;
}

/* ---- statements ---- */

static renderq_status no_memory(const ss_conn *conn)
{
    return rq_error_set(conn->base.session->error, RENDERQ_NOMEM, 0, "out of memory; nothing was done");
}

static renderq_status ss_run(rq_conn *base, const rq_queue *queue, rq_statement_id id, const rq_value *values, size_t n,
                             rq_row_fn row, void *arg)
{
    ss_conn *conn = (ss_conn *)base;
    const rq_statement *statement = &rq_statements[id];
    bool many = n > 1;
    ss_param params[RQ_PARAMS_MAX + 1];
    size_t n_params = many ? 1 : statement->n_params;
    char *room = NULL;
    if (conn->babelfish && rq_ss_babelfish_name(conn, queue) != RENDERQ_OK)
        return RENDERQ_INVALID;
    const char *sql = rq_ss_sql(conn, queue, id, many);
    if (!sql)
        return no_memory(conn);
    bool fits = true;
    if (!(many ? rq_ss_items(statement, values, n, conn->babelfish, params, &room, &fits)
               : rq_ss_params(statement, values, conn->babelfish, params, &room)))
        return fits ? no_memory(conn)
                    : rq_error_set(base->session->error, RENDERQ_INVALID, 0,
                                   "%zu items are too large for one request: send fewer", n);
    ss_rows rows = { .columns = statement->columns, .n_columns = statement->n_columns, .indexed = many, .n_items = n,
                     .row = row, .arg = arg };
    char doing[300];
    snprintf(doing, sizeof doing, "%s in %.200s", statement->name, queue->text);
    CS_BIGINT transaction = conn->transaction;
    if (base->guarded)
        params[n_params++] = (ss_param){ .type = CS_BIGINT_TYPE, .bytes = &transaction };
    int64_t asked_ms = rq_clock_ms();
    renderq_status status = rq_ss_request(conn, sql, params, n_params, &rows, doing);
    free(room);
    if (status == RENDERQ_FAILED && rq_ss_babelfish_unclear(conn))
        status = rq_ss_babelfish_reason(conn, queue, asked_ms, doing);
    return status;
}

/* ---- transactions: in plain batches, since a procedure must leave as many open as it found ---- */

static renderq_status plain(rq_conn *base, const char *sql, const char *doing)
{
    return rq_ss_request((ss_conn *)base, sql, NULL, 0, NULL, doing);
}

static renderq_status take_transaction(void *arg, size_t item, const rq_value *columns)
{
    (void)item;
    *(int64_t *)arg = columns[0].number;
    return RENDERQ_OK;
}

static renderq_status ask_number(ss_conn *conn, const char *sql, int64_t *number, const char *doing)
{
    static const rq_type columns[] = { RQ_BIGINT };
    ss_rows rows = { .columns = columns, .n_columns = 1, .row = take_transaction, .arg = number };
    *number = 0;
    return rq_ss_request(conn, sql, NULL, 0, &rows, doing);
}

static renderq_status ss_begin(rq_conn *base)
{
    ss_conn *conn = (ss_conn *)base;
    char sql[200];
    /* On Babelfish a statement's SET outlives it where a lock timeout ends it, and an error would not end this. */
    const char *setting = conn->babelfish && !conn->attached ? "SET XACT_ABORT ON;\n" : "";
    snprintf(sql, sizeof sql, "-- renderq: begin\n%sBEGIN TRANSACTION;\nSELECT CAST(%s AS bigint);\n", setting,
             rq_ss_transaction_number(conn));
    renderq_status status = ask_number(conn, sql, &conn->transaction, "begin");
    base->guarded = status == RENDERQ_OK;
    return status;
}

/* An interrupt is for the call that looks for it: it is heard there afterwards. */
static renderq_status ss_find(rq_conn *base, int64_t *id)
{
    ss_conn *conn = (ss_conn *)base;
    char sql[160];
    snprintf(sql, sizeof sql,
             "-- renderq: find\nSELECT CASE WHEN @@TRANCOUNT > 0 THEN CAST(%s AS bigint) ELSE 0 END;\n",
             rq_ss_transaction_number(conn));
    bool guarded = base->guarded;
    base->guarded = conn->tidying = true;       /* a failure leaves alone what is open */
    renderq_status status = ask_number(conn, sql, id, "looking for the transaction");
    base->guarded = guarded;
    conn->tidying = false;
    if (status == RENDERQ_OK)
        conn->transaction = *id;
    return status;
}

/* The caller's SQL may have begun another one inside: committing that would leave ours open, and say it is done. */
static renderq_status ss_commit(rq_conn *base)
{
    ss_conn *conn = (ss_conn *)base;
    char number[32], guard[SS_GUARD_MAX], sql[SS_GUARD_MAX + 200];
    snprintf(number, sizeof number, "%lld", (long long)conn->transaction);
    rq_ss_guard(conn, number, guard, sizeof guard);
    snprintf(sql, sizeof sql, "-- renderq: commit\n%sIF @@TRANCOUNT <> 1\n"
             "    THROW %d, N'a transaction inside it is open', 1;\nCOMMIT TRANSACTION;\n", guard, SS_INSIDE_ERROR);
    base->guarded = false;          /* where it is refused, what is left open is rolled back */
    renderq_status status = plain(base, sql, "commit");
    base->guarded = status != RENDERQ_OK && !conn->sent;
    return status;
}

/* One that the server refuses or takes too long for is followed by another, which tidies up. */
static renderq_status ss_rollback(rq_conn *base)
{
    ss_conn *conn = (ss_conn *)base;
    base->guarded = false;
    conn->tidying = true;
    renderq_status status = plain(base, rq_ss_rollback, "rollback");
    conn->tidying = false;
    base->guarded = status != RENDERQ_OK && !conn->sent;
    return conn->sent && !conn->broken ? RENDERQ_OK : status;
}

/* ---- the schema ---- */

/* The end of the batch that begins at sql: the line GO, or the end. *next is what comes after it. */
static const char *batch_end(const char *sql, const char **next)
{
    for (const char *line = sql; *line;) {
        const char *end = strchr(line, '\n');
        size_t len = end ? (size_t)(end - line) : strlen(line);
        if (len == 2 && memcmp(line, "GO", 2) == 0) {
            *next = end ? end + 1 : line + len;
            return line;
        }
        line += len + (end != NULL);
        *next = line;
        if (!end)
            return line;
    }
    *next = sql + strlen(sql);
    return *next;
}

static renderq_status run_script(rq_conn *base, const char *script, const char *doing)
{
    static const char head[] = "-- renderq: schema\n";
    renderq_status status = RENDERQ_OK;
    for (const char *next, *end; *script && status == RENDERQ_OK; script = next) {
        end = batch_end(script, &next);
        size_t len = (size_t)(end - script);
        char *batch = malloc(sizeof head + len);
        if (!batch)
            return no_memory((ss_conn *)base);
        memcpy(batch, head, sizeof head - 1);
        memcpy(batch + sizeof head - 1, script, len);
        batch[sizeof head - 1 + len] = 0;
        if (strspn(script, " \t\r\n") < len)
            status = plain(base, batch, doing);
        free(batch);
    }
    return status;
}

static renderq_status ss_create(rq_conn *base, const rq_queue *queue)
{
    const ss_conn *conn = (ss_conn *)base;
    if (conn->babelfish && rq_ss_babelfish_name(conn, queue) != RENDERQ_OK)
        return RENDERQ_INVALID;
    char *script = rq_ss_script(rq_ss_find("schema", conn->babelfish), queue);
    renderq_status status = script ? run_script(base, script, "making the queue") : no_memory((ss_conn *)base);
    free(script);
    return status;
}

static const char *const option_names[] = {
    "lock_timeout_ms", "packet_size", "deadlock_priority", "app", "encrypt", NULL
};

const rq_driver rq_sqlserver_driver = {
    .scheme = "sqlserver",
    .options = option_names,
    .busy_tries = 4,
    .open = ss_open,
    .attach = ss_attach,
    .find = ss_find,
    .close = ss_close,
    .abandon = ss_abandon,
    .alive = ss_alive,
    .ails = rq_ss_ails,
    .begin = ss_begin,
    .commit = ss_commit,
    .rollback = ss_rollback,
    .create = ss_create,
    .run = ss_run,
    .native = ss_native,
};
