/* engine_sqlserver.c: raw access to SQL Server, or what speaks as it does: T-SQL on a connection of its own, by
 * CT-Library. Values are literals here, and every answer is one column of text. What the other program says is in
 * interop/engine_dapper.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ctpublic.h>

#include "engine.h"
#include "guid.h"
#include "suite.h"

#define NOW_MS "DATEDIFF_BIG(MILLISECOND, '1970-01-01', SYSUTCDATETIME())"

struct engine {
    CS_CONTEXT *context;
    CS_CONNECTION *link;
    bool babelfish;
    int error;              /* of the batch that is running, the first; 0: none */
    char why[600];
    char table[RENDERQ_QUEUE_PART_MAX * 6 + 3];     /* in brackets */
    char literal[RENDERQ_QUEUE_PART_MAX * 6 + 6];   /* that as a literal */
};

/* ---- errors ---- */

static CS_RETCODE on_server_message(CS_CONTEXT *context, CS_CONNECTION *link, CS_SERVERMSG *message)
{
    engine *e = NULL;
    (void)context;
    if (message->severity > 10 && ct_con_props(link, CS_GET, CS_USERDATA, &e, sizeof e, NULL) == CS_SUCCEED && e
        && !e->error) {
        e->error = (int)message->msgnumber;
        snprintf(e->why, sizeof e->why, "%d: %.500s", e->error, message->text);
    }
    return CS_SUCCEED;
}

static CS_RETCODE on_client_message(CS_CONTEXT *context, CS_CONNECTION *link, CS_CLIENTMSG *message)
{
    (void)context;
    (void)link;
    print_error("CT-Library: %s\n", message->msgstring);
    return CS_SUCCEED;
}

/* A value that a constraint or the column refuses. */
static bool refused(int error)
{
    static const int numbers[] = { 547, 515, 2601, 2627, 2628, 8152 };
    for (size_t i = 0; i < count_of(numbers); i++)
        if (numbers[i] == error)
            return true;
    return false;
}

/* ---- running ---- */

/* What a batch answered: a text a row, NULL for NULL. */
typedef struct answer {
    char **rows;
    size_t n;
} answer;

static void free_answer(answer *a)
{
    for (size_t i = 0; i < a->n; i++)
        free(a->rows[i]);
    free(a->rows);
    *a = (answer){ NULL, 0 };
}

/* The text of the current row's column, whatever its length; NULL for NULL. */
static char *read_text(CS_COMMAND *command)
{
    char *text = NULL;
    size_t len = 0, room = 512;
    CS_RETCODE rc;
    do {
        CS_INT got = 0;
        text = realloc(text, room *= 2);
        assert_non_null(text);
        rc = ct_get_data(command, 1, text + len, (CS_INT)(room - len - 1), &got);
        assert_true(rc == CS_SUCCEED || rc == CS_END_ITEM || rc == CS_END_DATA);
        len += (size_t)got;
        text[len] = 0;
    } while (rc == CS_SUCCEED);
    return text;
}

/* Binds the column only to learn whether it is NULL; the text is read by read_text(). */
static void fetch(CS_COMMAND *command, answer *to)
{
    char small[4];
    CS_INT rows = 0, copied = 0;
    CS_SMALLINT indicator = 0;
    CS_DATAFMT format = { .datatype = CS_CHAR_TYPE, .format = CS_FMT_UNUSED, .maxlength = sizeof small, .count = 1 };
    CS_RETCODE rc;
    assert_int_equal(ct_bind(command, 1, &format, small, &copied, &indicator), CS_SUCCEED);
    while ((rc = ct_fetch(command, CS_UNUSED, CS_UNUSED, CS_UNUSED, &rows)) == CS_SUCCEED || rc == CS_ROW_FAIL) {
        if (to->n % 64 == 0) {
            to->rows = realloc(to->rows, (to->n + 64) * sizeof *to->rows);
            assert_non_null(to->rows);
        }
        to->rows[to->n++] = indicator == -1 ? NULL : read_text(command);
    }
    assert_int_equal(rc, CS_END_DATA);
}

/* Sends a batch and frees its text. After a failure e->error has the number. */
static answer ask(engine *e, char *sql)
{
    answer all = { NULL, 0 };
    CS_COMMAND *command = NULL;
    CS_INT type;
    assert_non_null(sql);
    e->error = 0;
    assert_int_equal(ct_cmd_alloc(e->link, &command), CS_SUCCEED);
    assert_int_equal(ct_command(command, CS_LANG_CMD, sql, CS_NULLTERM, CS_UNUSED), CS_SUCCEED);
    assert_int_equal(ct_send(command), CS_SUCCEED);
    CS_RETCODE rc;
    while ((rc = ct_results(command, &type)) == CS_SUCCEED)
        if (type == CS_ROW_RESULT)
            fetch(command, &all);
    assert_int_equal(rc, CS_END_RESULTS);
    ct_cmd_drop(command);
    if (e->error && !refused(e->error))
        fail_msg("%s: %s", sql, e->why);
    free(sql);
    return all;
}

static char *format(const char *form, ...) __attribute__((format(printf, 1, 2)));

static char *format(const char *form, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, form);
    int len = vasprintf(&text, form, args);
    va_end(args);
    assert_true(len >= 0);
    return text;
}

static void run(engine *e, char *sql)
{
    answer none = ask(e, sql);
    if (e->error)
        fail_msg("%s", e->why);
    free_answer(&none);
}

/* How many rows an UPDATE changed; -1: it was refused. */
static int change(engine *e, char *update)
{
    char *sql = format("%s; SELECT CAST(@@ROWCOUNT AS varchar(12));", update);
    free(update);
    answer count = ask(e, sql);
    int changed = e->error ? -1 : atoi(count.rows[0]);
    free_answer(&count);
    return changed;
}

static int64_t ask_number(engine *e, char *sql)
{
    answer a = ask(e, sql);
    if (e->error || a.n != 1 || !a.rows[0])
        fail_msg("no number: %s", e->why);
    int64_t number = strtoll(a.rows[0], NULL, 10);
    free_answer(&a);
    return number;
}

static void add_doubled(FILE *to, const char *text, char what)
{
    for (; *text; text++) {
        if (*text == what)
            fputc(what, to);
        fputc(*text, to);
    }
}

/* N'...', or NULL. To be freed. */
static char *literal(const char *text)
{
    char *out = NULL;
    size_t size;
    if (!text)
        return format("NULL");
    FILE *to = open_memstream(&out, &size);
    assert_non_null(to);
    fputs("N'", to);
    add_doubled(to, text, '\'');
    fputs("'", to);
    fclose(to);
    return out;
}

/* ---- connecting ---- */

static void set_names(engine *e, const char *table)
{
    char *out = NULL;
    size_t size;
    FILE *to = open_memstream(&out, &size);
    assert_non_null(to);
    fputc('[', to);
    add_doubled(to, table, ']');
    fputc(']', to);
    fclose(to);
    char *quoted = literal(out);
    assert_true(strlen(out) < sizeof e->table && strlen(quoted) < sizeof e->literal);
    strcpy(e->table, out);
    strcpy(e->literal, quoted);
    free(quoted);
    free(out);
}

static void set_property(engine *e, CS_INT property, const char *text)
{
    assert_int_equal(ct_con_props(e->link, CS_SET, property, (void *)(uintptr_t)text, CS_NULLTERM, NULL), CS_SUCCEED);
}

static void set_callback(engine *e, CS_INT type, void (*function)(void))
{
    CS_VOID *pointer;       /* C has no cast for it */
    memcpy(&pointer, &function, sizeof pointer);
    assert_int_equal(ct_callback(e->context, NULL, CS_SET, type, pointer), CS_SUCCEED);
}

static void connect_to(engine *e, const rq_url *url)
{
    CS_INT version = CS_TDS_74;
    char server[1100];
    const char *password = url->password ? url->password : getenv("RENDERQ_PASSWORD");
    snprintf(server, sizeof server, !url->port ? "%s" : strchr(url->host, ':') ? "[%s]:%d" : "%s:%d", url->host,
             url->port);
    assert_int_equal(cs_ctx_alloc(CS_VERSION_100, &e->context), CS_SUCCEED);
    assert_int_equal(ct_init(e->context, CS_VERSION_100), CS_SUCCEED);
    set_callback(e, CS_SERVERMSG_CB, (void (*)(void))on_server_message);
    set_callback(e, CS_CLIENTMSG_CB, (void (*)(void))on_client_message);
    assert_int_equal(ct_con_alloc(e->context, &e->link), CS_SUCCEED);
    assert_int_equal(ct_con_props(e->link, CS_SET, CS_USERDATA, &e, sizeof e, NULL), CS_SUCCEED);
    assert_int_equal(ct_con_props(e->link, CS_SET, CS_TDS_VERSION, &version, CS_UNUSED, NULL), CS_SUCCEED);
    set_property(e, CS_CLIENTCHARSET, "UTF-8");
    set_property(e, CS_USERNAME, url->user ? url->user : "");
    set_property(e, CS_PASSWORD, password ? password : "");
    set_property(e, CS_APPNAME, "conformance");
    if (*url->path)
        set_property(e, CS_DATABASE, url->path);
    if (ct_connect(e->link, server, CS_NULLTERM) != CS_SUCCEED)
        fail_msg("the other program cannot connect to %s: %s", server, e->why);
}

static engine *server_open(const rq_url *url, const char *table)
{
    engine *e = calloc(1, sizeof *e);
    assert_non_null(e);
    assert_non_null(url->host);
    set_names(e, table);
    connect_to(e, url);
    run(e, format("SET QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS ON;"
                  " SET ARITHABORT, CONCAT_NULL_YIELDS_NULL ON; SET NUMERIC_ROUNDABORT OFF; SET TEXTSIZE 2147483647; SET LOCK_TIMEOUT 10000;"));
    e->babelfish = ask_number(e, format("SELECT CASE WHEN SERVERPROPERTY('Babelfish') IS NULL THEN '0' ELSE '1' END"));
    return e;
}

static void server_close(engine *e)
{
    if (ct_close(e->link, CS_UNUSED) != CS_SUCCEED)
        ct_close(e->link, CS_FORCE_CLOSE);
    ct_con_drop(e->link);
    ct_exit(e->context, CS_UNUSED);
    cs_ctx_drop(e->context);
    free(e);
}

static const char *server_unable(engine *e, engine_ability ability)
{
    static const char *const babelfish[] = {
        [ENGINE_SORTS_IDS] = "Babelfish sorts a uniqueidentifier from left to right",
        [ENGINE_STOPS] = "Babelfish reads an attention only when the request has ended",
        [ENGINE_BRACKETS] = "Babelfish cannot parse a doubled ] in a name",
        [ENGINE_OUTPUTS] = "Babelfish's OUTPUT has old values, or garbage, of a row that the statement had to wait for",
    };
    return e->babelfish ? babelfish[ability] : NULL;
}

static void parse_id(const char *text, renderq_id *id)
{
    rq_guid guid;
    assert_non_null(text);
    assert_true(rq_guid_parse(text, &guid));
    rq_guid_print(&guid, id);
}

/* ---- raw access ---- */

static bool is_guid(const char *column)
{
    return strcmp(column, "JobId") == 0 || strcmp(column, "LeaseToken") == 0;
}

static bool is_time(const char *column)
{
    return strstr(column, "AtUtc") != NULL;
}

static bool is_number(const char *column)
{
    static const char *const names[] = { "Priority", "RetryCount", "MaxRetries", "LeaseSeconds" };
    for (size_t i = 0; i < count_of(names); i++)
        if (strcmp(names[i], column) == 0)
            return true;
    return is_time(column);
}

static char *select_one(const engine *e, const renderq_id *id, const char *column)
{
    return format(is_guid(column)     ? "SELECT CONVERT(char(36), %s) FROM %s WHERE JobId = '%s';"
                  : is_time(column)   ? "SELECT CAST(DATEDIFF_BIG(MILLISECOND, '1970-01-01', %s)"
                                        " AS varchar(20)) FROM %s WHERE JobId = '%s';"
                  : is_number(column) ? "SELECT CAST(%s AS varchar(20)) FROM %s WHERE JobId = '%s';"
                                      : "SELECT CAST(%s AS nvarchar(max)) FROM %s WHERE JobId = '%s';",
                  column, e->table, id->text);
}

static void read_cell(const char *column, const char *text, cell *out)
{
    renderq_id parsed;
    *out = (cell){ .present = text != NULL };
    if (!text)
        return;
    if (is_number(column)) {
        out->number = strtoll(text, NULL, 10);
    } else if (is_guid(column)) {
        parse_id(text, &parsed);
        out->text = strdup(parsed.text);
    } else {
        out->text = strdup(text);
    }
}

/* A statement a column, in one request: each answers one row. */
static bool server_read_row(engine *e, const renderq_id *id, const char *const *columns, cell *out, size_t n)
{
    char *all = NULL;
    size_t size;
    FILE *to = open_memstream(&all, &size);
    assert_non_null(to);
    for (size_t i = 0; i < n; i++) {
        char *one = select_one(e, id, columns[i]);
        fputs(one, to);
        free(one);
    }
    fclose(to);
    answer a = ask(e, all);
    bool there = a.n == n;
    assert_true(there || a.n == 0);
    for (size_t i = 0; i < n; i++)
        read_cell(columns[i], there ? a.rows[i] : NULL, &out[i]);
    free_answer(&a);
    return there;
}

static bool server_read(engine *e, const renderq_id *id, const char *column, cell *out)
{
    return server_read_row(e, id, &column, out, 1);
}

/* Days and the rest apart: DATEADD takes an int. */
static char *number_literal(const char *column, int64_t number)
{
    if (!is_time(column))
        return format("%lld", (long long)number);
    return format("DATEADD(MILLISECOND, %d, DATEADD(DAY, %d, CAST('1970-01-01' AS datetime2(7))))",
                  (int)(number % 86400000), (int)(number / 86400000));
}

static bool server_write(engine *e, const renderq_id *id, const char *column, const cell *value)
{
    char *new_value = !value->present || value->text ? literal(value->text) : number_literal(column, value->number);
    int changed = change(e, format("UPDATE %s SET %s = %s WHERE JobId = '%s'", e->table, column, new_value, id->text));
    free(new_value);
    assert_int_not_equal(changed, 0);
    return changed > 0;
}

static void server_write_all(engine *e, const char *column, int64_t number)
{
    char *new_value = number_literal(column, number);
    run(e, format("UPDATE %s SET %s = %s WHERE 1 = 1", e->table, column, new_value));
    free(new_value);
}

static int by_order(const void *a, const void *b)
{
    rq_guid left, right;
    rq_guid_parse(((const renderq_id *)a)->text, &left);
    rq_guid_parse(((const renderq_id *)b)->text, &right);
    return memcmp(left.sort, right.sort, sizeof left.sort);
}

/* Sorted here: not every server sorts so. */
static size_t server_ids(engine *e, renderq_id *out, size_t max)
{
    answer a = ask(e, format("SELECT CONVERT(char(36), JobId) FROM %s", e->table));
    renderq_id *ids = calloc(a.n + 1, sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < a.n; i++)
        parse_id(a.rows[i], &ids[i]);
    qsort(ids, a.n, sizeof *ids, by_order);
    size_t n = a.n < max ? a.n : max;
    memcpy(out, ids, n * sizeof *ids);
    free(ids);
    free_answer(&a);
    return n;
}

static int64_t server_now_ms(engine *e)
{
    return ask_number(e, format("SELECT CAST(" NOW_MS " AS varchar(20))"));
}

static void server_clear(engine *e)
{
    run(e, format("DELETE FROM %s WHERE 1 = 1", e->table));
}

static void server_drop(engine *e)
{
    run(e, format("IF OBJECT_ID(%s, N'U') IS NOT NULL DROP TABLE %s", e->literal, e->table));
}

static void server_make_foreign(engine *e)
{
    run(e, format("CREATE TABLE %s (JobId uniqueidentifier NOT NULL DEFAULT NEWSEQUENTIALID() PRIMARY KEY,"
                  " CompositionId nvarchar(200) NOT NULL, PayloadJson nvarchar(max) NOT NULL,"
                  " Priority int NOT NULL DEFAULT 0, Status varchar(20) NOT NULL DEFAULT 'Queued',"
                  " WorkerNodeId nvarchar(128) NULL, LockedAtUtc datetime2(7) NULL,"
                  " CreatedAtUtc datetime2(7) NOT NULL DEFAULT SYSUTCDATETIME(), CompletedAtUtc datetime2(7) NULL,"
                  " OutputUrl nvarchar(2048) NULL, RetryCount int NULL, LastErrorMessage nvarchar(max) NULL)",
                  e->table));
}

static void server_make_other(engine *e)
{
    run(e, format("CREATE TABLE %s (Name nvarchar(20) NULL)", e->table));
}

/* Where there are update locks, one of those: it stops writers and no reader. */
static void server_lock(engine *e, const renderq_id *id)
{
    run(e, format("BEGIN TRANSACTION"));
    run(e, e->babelfish
               ? format("UPDATE %s SET Priority = Priority WHERE JobId = '%s'", e->table, id->text)
               : format("DECLARE @id uniqueidentifier; SELECT @id = JobId FROM %s WITH (UPDLOCK, ROWLOCK)"
                        " WHERE JobId = '%s'", e->table, id->text));
}

static void server_unlock(engine *e)
{
    run(e, format("ROLLBACK TRANSACTION"));
}

const engine_ops engine_sqlserver = {
    .scheme = "sqlserver",
    .impatient = "lock_timeout_ms=100",
    .open = server_open,
    .close = server_close,
    .unable = server_unable,
    .read = server_read,
    .read_row = server_read_row,
    .write = server_write,
    .write_all = server_write_all,
    .ids = server_ids,
    .now_ms = server_now_ms,
    .clear = server_clear,
    .drop = server_drop,
    .make_foreign = server_make_foreign,
    .make_other = server_make_other,
    .lock = server_lock,
    .unlock = server_unlock,
};
