/* own_sql.c: a program's own SQL on the connection of a queue's handle; see own_sql.h.
 *
 * The library knows nothing of what is run here, and has two wishes: transactions are begun and ended by its own calls
 * alone, and a statement is finished when the next call on the handle comes. */
#include "own_sql.h"

#include <ctpublic.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

own_engine own_engine_of(const char *url)
{
    if (strncmp(url, "sqlite:", 7) == 0)
        return OWN_SQLITE;
    return strncmp(url, "sqlserver:", 10) == 0 ? OWN_SQLSERVER : OWN_UNKNOWN;
}

/* ---- SQLite ----------------------------------------------------------------------------------------- */

static int bind_values(sqlite3_stmt *statement, const own_value *values, int n)
{
    int rc = SQLITE_OK;

    for (int i = 0; i < n && rc == SQLITE_OK; i++) {
        int at = sqlite3_bind_parameter_index(statement, values[i].name);

        rc = values[i].text != NULL ? sqlite3_bind_text(statement, at, values[i].text, -1, SQLITE_STATIC)
                                    : sqlite3_bind_int64(statement, at, values[i].number);
    }
    return rc;
}

static int run_sqlite(sqlite3 *db, const char *sql, const own_value *values, int n, own_row_fn row, void *arg,
                      own_error *error)
{
    const char *columns[OWN_COLUMNS_MAX];
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_column_count(statement) <= OWN_COLUMNS_MAX ? bind_values(statement, values, n) : SQLITE_TOOBIG;
    if (rc == SQLITE_OK)
        while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
            for (int i = 0; i < sqlite3_column_count(statement); i++)
                columns[i] = (const char *)sqlite3_column_text(statement, i);
            if (row != NULL)
                row(arg, columns);
        }
    if (rc != SQLITE_DONE)
        snprintf(error->text, sizeof error->text, "SQLite: %s", sqlite3_errmsg(db));
    sqlite3_finalize(statement);            /* not left open: the next call is the library's */
    return rc == SQLITE_DONE ? 0 : -1;
}

/* ---- SQL Server ------------------------------------------------------------------------------------- */

static __thread own_error *listening;       /* CT-Library tells errors by a callback, in the thread that asked */

static CS_RETCODE on_message(CS_CONTEXT *context, CS_CONNECTION *link, CS_SERVERMSG *message)
{
    (void)context;
    (void)link;
    if (listening != NULL && message->severity > 10 && listening->text[0] == '\0')
        snprintf(listening->text, sizeof listening->text, "SQL Server %d: %.*s", (int)message->msgnumber,
                 (int)message->textlen, message->text);
    return CS_SUCCEED;
}

/* The connection's own callback is put back afterwards. The one for the client's messages stays as it is: it lets a
 * statement take its time, and what does not go through shows in the results. */
static void listen_to(CS_CONNECTION *link, own_error *error, CS_VOID **before)
{
    CS_RETCODE (*callback)(CS_CONTEXT *, CS_CONNECTION *, CS_SERVERMSG *) = on_message;
    CS_VOID *pointer;

    memcpy(&pointer, &callback, sizeof pointer);
    ct_callback(NULL, link, CS_GET, CS_SERVERMSG_CB, before);
    ct_callback(NULL, link, CS_SET, CS_SERVERMSG_CB, pointer);
    listening = error;
}

/* A text goes as varchar, in the server's code page: good for ASCII. Any other goes as UTF-16LE in CS_IMAGE_TYPE, with
 * maxlength 0x7fffffff, and CAST(@text AS nvarchar(200)) in the statement, since CT-Library has no nvarchar. */
static int add_value(CS_COMMAND *command, const own_value *value)
{
    CS_DATAFMT format;
    CS_BIGINT number = value->number;
    void *bytes = value->text != NULL ? (void *)(uintptr_t)value->text : (void *)&number;

    memset(&format, 0, sizeof format);
    snprintf(format.name, sizeof format.name, "%s", value->name);
    format.namelen = CS_NULLTERM;
    format.status = CS_INPUTVALUE;
    format.datatype = value->text != NULL ? CS_LONGCHAR_TYPE : CS_BIGINT_TYPE;
    format.maxlength = value->text != NULL ? 64 : CS_UNUSED;    /* always the same: each other one is another plan */
    return ct_param(command, &format, bytes, value->text != NULL ? (CS_INT)strlen(value->text) : CS_UNUSED, 0)
           == CS_SUCCEED;
}

typedef struct cell {
    char text[OWN_TEXT_MAX + 1];
    CS_INT len;
    CS_SMALLINT indicator;
} cell;

/* Reads the rows of one result to their end. Returns whether all of them fitted. */
static int read_rows(CS_COMMAND *command, own_row_fn row, void *arg)
{
    cell cells[OWN_COLUMNS_MAX];
    const char *columns[OWN_COLUMNS_MAX];
    CS_DATAFMT format;
    CS_INT n = 0, read = 0;
    CS_RETCODE rc;
    int ok;

    memset(cells, 0, sizeof cells);
    memset(&format, 0, sizeof format);
    format.datatype = CS_CHAR_TYPE;
    format.format = CS_FMT_NULLTERM;
    format.maxlength = sizeof cells[0].text;
    format.count = 1;
    ok = ct_res_info(command, CS_NUMDATA, &n, CS_UNUSED, NULL) == CS_SUCCEED && n <= OWN_COLUMNS_MAX;
    for (int i = 0; i < n && ok; i++)
        ok = ct_bind(command, i + 1, &format, cells[i].text, &cells[i].len, &cells[i].indicator) == CS_SUCCEED;
    while ((rc = ct_fetch(command, CS_UNUSED, CS_UNUSED, CS_UNUSED, &read)) == CS_SUCCEED || rc == CS_ROW_FAIL) {
        ok = ok && rc == CS_SUCCEED;        /* CS_ROW_FAIL: a text is longer than its cell */
        for (int i = 0; i < n && ok; i++)
            columns[i] = cells[i].indicator == -1 ? NULL : cells[i].text;
        if (ok && row != NULL)
            row(arg, columns);
    }
    return ok && rc == CS_END_DATA;
}

/* All results have to be read, also of an INSERT: only then has it happened. */
static int read_results(CS_COMMAND *command, own_row_fn row, void *arg)
{
    CS_INT type;
    CS_RETCODE rc;
    int ok = 1;

    while ((rc = ct_results(command, &type)) == CS_SUCCEED) {
        if (type == CS_ROW_RESULT || type == CS_STATUS_RESULT)
            ok = read_rows(command, type == CS_ROW_RESULT ? row : NULL, arg) && ok;
        else if (type == CS_CMD_FAIL)
            ok = 0;
    }
    return ok && rc == CS_END_RESULTS;
}

static int run_sqlserver(CS_CONNECTION *link, const char *sql, const own_value *values, int n, own_row_fn row,
                         void *arg, own_error *error)
{
    CS_VOID *before = NULL;
    CS_COMMAND *command = NULL;
    int ok;

    listen_to(link, error, &before);
    ok = ct_cmd_alloc(link, &command) == CS_SUCCEED
         && ct_command(command, CS_LANG_CMD, sql, CS_NULLTERM, CS_UNUSED) == CS_SUCCEED;
    for (int i = 0; i < n && ok; i++)
        ok = add_value(command, &values[i]);
    ok = ok && ct_send(command) == CS_SUCCEED && read_results(command, row, arg);
    ct_cmd_drop(command);
    listening = NULL;
    ct_callback(NULL, link, CS_SET, CS_SERVERMSG_CB, before);
    if (ok && error->text[0] == '\0')       /* an error in the middle of a text can leave the results whole */
        return 0;
    if (error->text[0] == '\0')
        snprintf(error->text, sizeof error->text, "CT-Library could not run the statement, or lost the connection");
    return -1;
}

/* ---- both ------------------------------------------------------------------------------------------- */

int own_run(own_engine engine, void *native, const char *sql, const own_value *values, int n, own_row_fn row,
            void *arg, own_error *error)
{
    error->text[0] = '\0';
    if (native != NULL && engine == OWN_SQLITE)
        return run_sqlite(native, sql, values, n, row, arg, error);
    if (native != NULL && engine == OWN_SQLSERVER)
        return run_sqlserver(native, sql, values, n, row, arg, error);
    snprintf(error->text, sizeof error->text, "there is no connection for a statement");
    return -1;
}
