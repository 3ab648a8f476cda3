/* engine_sqlite.c: engine.h over SQLite, on a connection of its own. */
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "engine.h"
#include "guid.h"
#include "interop/statements.h"
#include "sqlite.h"
#include "suite.h"

#define NOW "CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)"

struct engine {
    sqlite3 *db;
    char table[RENDERQ_QUEUE_PART_MAX * 3 + 1];
    char sql[4096];
};

/* ---- running ---- */

static void broken(const engine *e, const char *sql)
{
    fail_msg("%s: %s", sql, sqlite3_errmsg(e->db));
}

/* %w is the table. */
static sqlite3_stmt *prepare(engine *e, const char *format)
{
    sqlite3_stmt *stmt = NULL;
    sqlite3_snprintf((int)sizeof e->sql, e->sql, format, e->table);
    if (sqlite3_prepare_v2(e->db, e->sql, -1, &stmt, NULL) != SQLITE_OK)
        broken(e, e->sql);
    return stmt;
}

static void bind_id(sqlite3_stmt *stmt, int index, const renderq_id *id)
{
    rq_guid guid;
    assert_true(rq_guid_parse(id->text, &guid));
    sqlite3_bind_blob(stmt, index, guid.sort, (int)sizeof guid.sort, SQLITE_TRANSIENT);
}

static void read_id(sqlite3_stmt *stmt, int column, renderq_id *id)
{
    rq_guid guid;
    assert_int_equal(sqlite3_column_bytes(stmt, column), sizeof guid.sort);
    memcpy(guid.sort, sqlite3_column_blob(stmt, column), sizeof guid.sort);
    rq_guid_print(&guid, id);
}

/* Runs to the end and finalizes; how many rows changed, or -1 where a constraint refused it. */
static int finish(engine *e, sqlite3_stmt *stmt)
{
    int rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        continue;
    int changed = sqlite3_changes(e->db);
    if (rc != SQLITE_DONE && (rc & 0xff) != SQLITE_CONSTRAINT)
        broken(e, sqlite3_sql(stmt));
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? changed : -1;
}

static void run(engine *e, const char *format)
{
    sqlite3_snprintf((int)sizeof e->sql, e->sql, format, e->table, e->table, e->table);
    if (sqlite3_exec(e->db, e->sql, NULL, NULL, NULL) != SQLITE_OK)
        broken(e, e->sql);
}

/* ---- connecting ---- */

static engine *sqlite_open(const rq_url *url, const char *table)
{
    engine *e = calloc(1, sizeof *e);
    assert_non_null(e);
    assert_true(strlen(table) < sizeof e->table);
    strcpy(e->table, table);
    if (sqlite3_open_v2(url->path, &e->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
        broken(e, url->path);
    sqlite3_busy_timeout(e->db, 60000);
    run(e, "PRAGMA journal_mode = WAL");
    run(e, "PRAGMA synchronous = NORMAL");
    return e;
}

static void sqlite_close(engine *e)
{
    sqlite3_close(e->db);
    free(e);
}

static const char *sqlite_unable(engine *e, engine_ability ability)
{
    (void)e;
    (void)ability;
    return NULL;
}

/* ---- the other program ---- */

/* The rendering of one of its statements; a script of several is left in e->sql. */
static sqlite3_stmt *theirs(engine *e, const char *name)
{
    sqlite3_stmt *stmt = NULL;
    char *sql = rq_sqlite_for_queue(rq_sql_find(interop_sqlite, name), e->table);
    assert_non_null(sql);
    assert_true(strlen(sql) < sizeof e->sql);
    strcpy(e->sql, sql);
    free(sql);
    if (sqlite3_prepare_v2(e->db, e->sql, -1, &stmt, NULL) != SQLITE_OK)
        broken(e, e->sql);
    return stmt;
}

static int param(sqlite3_stmt *stmt, const char *name)
{
    int index = sqlite3_bind_parameter_index(stmt, name);
    assert_true(index > 0);
    return index;
}

static void bind_text(sqlite3_stmt *stmt, const char *name, const char *text)
{
    sqlite3_bind_text(stmt, param(stmt, name), text, -1, SQLITE_STATIC);
}

static void sqlite_enqueue(engine *e, const char *composition_id, const char *payload, int priority,
                           renderq_id *id)
{
    sqlite3_stmt *stmt = theirs(e, "enqueue");
    bind_text(stmt, ":compositionId", composition_id);
    bind_text(stmt, ":payloadJson", payload);
    sqlite3_bind_int(stmt, param(stmt, ":priority"), priority);
    if (sqlite3_step(stmt) != SQLITE_ROW)
        broken(e, e->sql);
    read_id(stmt, 0, id);
    finish(e, stmt);
}

static bool sqlite_claim(engine *e, const char *worker, renderq_id *id)
{
    sqlite3_stmt *stmt = theirs(e, "claim");
    bind_text(stmt, ":workerNodeId", worker);
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW) {
        read_id(stmt, 0, id);
        finish(e, stmt);
        return true;
    }
    if (rc != SQLITE_DONE)              /* a step behind that would claim once more */
        broken(e, e->sql);
    sqlite3_finalize(stmt);
    return false;
}

static bool sqlite_complete(engine *e, const renderq_id *id, const char *output_url)
{
    sqlite3_stmt *stmt = theirs(e, "complete");
    bind_id(stmt, param(stmt, ":jobId"), id);
    bind_text(stmt, ":outputUrl", output_url);
    return finish(e, stmt) > 0;
}

static bool sqlite_mark_failed(engine *e, const renderq_id *id, const char *message)
{
    sqlite3_stmt *stmt = theirs(e, "mark_failed");
    bind_id(stmt, param(stmt, ":jobId"), id);
    bind_text(stmt, ":errorMessage", message);
    return finish(e, stmt) > 0;
}

static int sqlite_watchdog(engine *e)
{
    return finish(e, theirs(e, "watchdog"));
}

static void sqlite_make_theirs(engine *e)
{
    sqlite3_finalize(theirs(e, "table"));
    if (sqlite3_exec(e->db, e->sql, NULL, NULL, NULL) != SQLITE_OK)
        broken(e, e->sql);
}

/* ---- raw access ---- */

static bool is_guid(const char *column)
{
    return strcmp(column, "JobId") == 0 || strcmp(column, "LeaseToken") == 0;
}

static sqlite3_stmt *prepare_column(engine *e, const char *format, const char *column)
{
    sqlite3_stmt *stmt = NULL;
    sqlite3_snprintf((int)sizeof e->sql, e->sql, format, column, e->table);
    if (sqlite3_prepare_v2(e->db, e->sql, -1, &stmt, NULL) != SQLITE_OK)
        broken(e, e->sql);
    return stmt;
}

static void read_cell(sqlite3_stmt *stmt, bool guid, cell *out)
{
    *out = (cell){ .present = sqlite3_column_type(stmt, 0) != SQLITE_NULL };
    if (!out->present)
        return;
    if (guid) {
        renderq_id id;
        read_id(stmt, 0, &id);
        out->text = strdup(id.text);
    } else if (sqlite3_column_type(stmt, 0) == SQLITE_INTEGER) {
        out->number = sqlite3_column_int64(stmt, 0);
    } else {
        out->text = strdup((const char *)sqlite3_column_text(stmt, 0));
    }
}

static bool sqlite_read(engine *e, const renderq_id *id, const char *column, cell *out)
{
    sqlite3_stmt *stmt = prepare_column(e, "SELECT \"%w\" FROM \"%w\" WHERE JobId = ?", column);
    bind_id(stmt, 1, id);
    bool there = sqlite3_step(stmt) == SQLITE_ROW;
    *out = (cell){ .present = false };
    if (there)
        read_cell(stmt, is_guid(column), out);
    finish(e, stmt);
    return there;
}

static bool sqlite_read_row(engine *e, const renderq_id *id, const char *const *columns, cell *out, size_t n)
{
    bool there = true;
    for (size_t i = 0; i < n; i++)
        there = sqlite_read(e, id, columns[i], &out[i]) && there;
    return there;
}

static bool sqlite_write(engine *e, const renderq_id *id, const char *column, const cell *value)
{
    sqlite3_snprintf((int)sizeof e->sql, e->sql, "UPDATE \"%w\" SET \"%w\" = ?2 WHERE JobId = ?1", e->table,
                     column);
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(e->db, e->sql, -1, &stmt, NULL) != SQLITE_OK)
        broken(e, e->sql);
    bind_id(stmt, 1, id);
    if (!value->present)
        sqlite3_bind_null(stmt, 2);
    else if (!value->text)
        sqlite3_bind_int64(stmt, 2, value->number);
    else if (is_guid(column))
        bind_id(stmt, 2, (const renderq_id *)(const void *)value->text);
    else
        sqlite3_bind_text(stmt, 2, value->text, -1, SQLITE_TRANSIENT);
    int changed = finish(e, stmt);
    assert_int_not_equal(changed, 0);
    return changed > 0;
}

static void sqlite_write_all(engine *e, const char *column, int64_t number)
{
    sqlite3_snprintf((int)sizeof e->sql, e->sql, "UPDATE \"%w\" SET \"%w\" = %lld", e->table, column, number);
    if (sqlite3_exec(e->db, e->sql, NULL, NULL, NULL) != SQLITE_OK)
        broken(e, e->sql);
}

static size_t sqlite_ids(engine *e, renderq_id *out, size_t max)
{
    size_t n = 0;
    sqlite3_stmt *stmt = prepare(e, "SELECT JobId FROM \"%w\" ORDER BY JobId");
    while (n < max && sqlite3_step(stmt) == SQLITE_ROW)
        read_id(stmt, 0, &out[n++]);
    sqlite3_finalize(stmt);
    return n;
}

static int64_t sqlite_now_ms(engine *e)
{
    sqlite3_stmt *stmt = prepare(e, "SELECT " NOW);
    sqlite3_step(stmt);
    int64_t now = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return now;
}

static void sqlite_clear(engine *e)
{
    run(e, "DELETE FROM \"%w\"");
}

static void sqlite_drop(engine *e)
{
    run(e, "DROP VIEW IF EXISTS \"%w_View\"; DROP TABLE IF EXISTS \"%w\"");
}

static void sqlite_make_foreign(engine *e)
{
    run(e, "CREATE TABLE \"%w\" ("
           " JobId BLOB NOT NULL PRIMARY KEY DEFAULT (randomblob(16)), CompositionId TEXT NOT NULL,"
           " PayloadJson TEXT NOT NULL, Priority INTEGER NOT NULL DEFAULT 0,"
           " Status TEXT NOT NULL DEFAULT 'Queued', WorkerNodeId TEXT, LockedAtUtc INTEGER, CreatedAtUtc INTEGER NOT NULL DEFAULT (" NOW "),"
           " CompletedAtUtc INTEGER, OutputUrl TEXT, RetryCount INTEGER, LastErrorMessage TEXT)");
}

static void sqlite_make_other(engine *e)
{
    run(e, "CREATE TABLE \"%w\" (Name TEXT)");
}

/* A writer locks the whole file, whatever the row. */
static void sqlite_lock(engine *e, const renderq_id *id)
{
    (void)id;
    run(e, "BEGIN IMMEDIATE");
}

static void sqlite_unlock(engine *e)
{
    run(e, "ROLLBACK");
}

const engine_ops engine_sqlite = {
    .scheme = "sqlite",
    .impatient = "busy_timeout_ms=30",
    .open = sqlite_open,
    .close = sqlite_close,
    .unable = sqlite_unable,
    .enqueue = sqlite_enqueue,
    .claim = sqlite_claim,
    .complete = sqlite_complete,
    .mark_failed = sqlite_mark_failed,
    .watchdog = sqlite_watchdog,
    .make_theirs = sqlite_make_theirs,
    .read = sqlite_read,
    .read_row = sqlite_read_row,
    .write = sqlite_write,
    .write_all = sqlite_write_all,
    .ids = sqlite_ids,
    .now_ms = sqlite_now_ms,
    .clear = sqlite_clear,
    .drop = sqlite_drop,
    .make_foreign = sqlite_make_foreign,
    .make_other = sqlite_make_other,
    .lock = sqlite_lock,
    .unlock = sqlite_unlock,
};
