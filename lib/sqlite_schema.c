/* sqlite_schema.c: makes a queue's table in SQLite, or gives an older one the columns it lacks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "sqlite.h"

/* Adds the columns that a table of `sql` has and the queue's table has not. What the table should look like is read
 * from schema.sql itself, run in a scratch database, so that it is said once. */
static int add_missing(sqlite_conn *conn, sqlite3 *scratch, const char *table, char **refused)
{
    sqlite3_stmt *wanted = NULL;
    int rc = sqlite3_prepare_v2(scratch, "SELECT name, type, \"notnull\" FROM pragma_table_info(?)", -1, &wanted, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(wanted, 1, table, -1, SQLITE_STATIC);
    while (rc == SQLITE_OK && (rc = sqlite3_step(wanted)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(wanted, 0);
        const char *type = (const char *)sqlite3_column_text(wanted, 1);
        if (!name || !type) {
            rc = SQLITE_NOMEM;
            break;
        }
        rc = sqlite3_table_column_metadata(conn->db, "main", table, name, NULL, NULL, NULL, NULL, NULL);
        if (rc == SQLITE_OK)
            continue;
        if ((rc & 0xff) != SQLITE_ERROR)
            break;
        if (sqlite3_column_int(wanted, 2)) {
            *refused = sqlite3_mprintf("%s", name);
            rc = *refused ? SQLITE_ABORT : SQLITE_NOMEM;
            break;
        }
        char *sql = sqlite3_mprintf("ALTER TABLE \"%w\" ADD COLUMN \"%w\" %s", table, name, type);
        rc = sql ? sqlite3_exec(conn->db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
        sqlite3_free(sql);
    }
    sqlite3_finalize(wanted);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int upgrade(sqlite_conn *conn, const char *table, const char *sql, char **refused)
{
    sqlite3 *scratch = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY;
    int rc = sqlite3_open_v2(":memory:", &scratch, flags, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(scratch, sql, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = add_missing(conn, scratch, table, refused);
    sqlite3_close(scratch);
    return rc;
}

/* Whether the table is there. This reads the file, so that what SQLite remembers of its schema is up to date after. */
static int find_table(sqlite_conn *conn, const char *table, bool *found)
{
    sqlite3_stmt *stmt = NULL;
    static const char sql[] = "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE";
    int rc = sqlite3_prepare_v2(conn->db, sql, -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(stmt, 1, table, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    *found = rc == SQLITE_ROW;
    sqlite3_finalize(stmt);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Whether every statement can be said to the table: one made by others may have what rules that out (no rowid, an
 * index of our name on something else). */
static int try_statements(sqlite_conn *conn, const char *table)
{
    int rc = SQLITE_OK;
    for (size_t i = 0; i < RQ_STATEMENTS && rc == SQLITE_OK; i++) {
        char *sql = rq_sqlite_for_queue(rq_sql_find(rq_sql_sqlite, rq_statements[i].name), table);
        const char *at = sql;
        rc = sql ? SQLITE_OK : SQLITE_NOMEM;
        while (rc == SQLITE_OK && *at) {
            sqlite3_stmt *stmt = NULL;
            rc = sqlite3_prepare_v2(conn->db, at, -1, &stmt, &at);
            sqlite3_finalize(stmt);
        }
        free(sql);
    }
    return rc;
}

static int make(sqlite_conn *conn, const char *table, const char *sql, char **refused, bool *started)
{
    int rc = rq_sqlite_start_work(conn);
    *started = rc == SQLITE_OK;
    bool found = false;
    if (rc == SQLITE_OK)
        rc = find_table(conn, table, &found);
    if (rc == SQLITE_OK && found)
        rc = upgrade(conn, table, sql, refused);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(conn->db, sql, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = try_statements(conn, table);
    if (rc == SQLITE_OK)
        rc = rq_sqlite_keep_work(conn);
    return rc;
}

static renderq_status not_a_queue(sqlite_conn *conn, const char *table, const char *column)
{
    return rq_error_set(conn->base.session->error, RENDERQ_SCHEMA, 0,
                        "the table \"%s\" has no column %s and so is no queue; nothing was changed: give the queue "
                        "another name", table, column);
}

renderq_status rq_sqlite_create(rq_conn *base, const rq_queue *queue)
{
    sqlite_conn *conn = (sqlite_conn *)base;
    renderq_status status = rq_sqlite_check_name(conn, queue);
    if (status == RENDERQ_OK)
        status = rq_sqlite_leave_gone_file(conn);
    if (status == RENDERQ_OK && !conn->db)
        status = rq_sqlite_open_file(conn, true);
    if (status != RENDERQ_OK)
        return status;
    char *refused = NULL;
    bool started = false;
    char *sql = rq_sqlite_for_queue(rq_sql_find(rq_sql_sqlite, "schema"), queue->name.table);
    conn->busy_until = rq_clock_ms() + conn->busy_ms;
    int rc = sql ? make(conn, queue->name.table, sql, &refused, &started) : SQLITE_NOMEM;
    if (refused)
        status = not_a_queue(conn, queue->name.table, refused);
    else if ((rc & 0xff) == SQLITE_ERROR)
        status = rq_error_set(base->session->error, RENDERQ_SCHEMA, rc,
                              "making the queue \"%s\": %s; nothing was changed",
                              queue->name.table, sqlite3_errmsg(conn->db));
    else if (rc != SQLITE_OK)
        status = rq_sqlite_error(conn, rc, "making the queue");
    if (rc != SQLITE_OK && started)
        rq_sqlite_undo_work(conn);
    sqlite3_free(refused);
    free(sql);
    return status;
}
