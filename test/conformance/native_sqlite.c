/* native_sqlite.c: native.h over SQLite. */
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "native.h"
#include "suite.h"

#define BUSY_MS 300

static void *own_connect(const rq_url *url)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(url->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_busy_timeout(db, BUSY_MS), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static void own_disconnect(void *native)
{
    assert_int_equal(sqlite3_close(native), SQLITE_OK);     /* BUSY: a statement was left open on it */
}

static int64_t own_ask(void *native, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(sqlite3_prepare_v2(native, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(stmt, 0);
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
    return number;
}

static bool own_untouched(void *native)
{
    return own_ask(native, "PRAGMA busy_timeout") == BUSY_MS && own_ask(native, "PRAGMA synchronous") == 1;
}

static bool own_run(void *native, const char *sql)
{
    return sqlite3_exec(native, sql, NULL, NULL, NULL) == SQLITE_OK;
}

const native_ops native_sqlite = {
    .scheme = "sqlite", .one_writer = true, .begin = "BEGIN", .commit = "COMMIT", .rollback = "ROLLBACK",
    .connect = own_connect, .disconnect = own_disconnect, .untouched = own_untouched, .run = own_run, .ask = own_ask,
    .deadly = "INSERT OR ROLLBACK INTO %s (k, v) VALUES ('there', 1)",
};

/* The test server speaks as SQL Server does, and has SQLite's one writer behind it. */
const native_ops *native_for(const char *scheme)
{
    static native_ops test_server;
    if (strcmp(scheme, native_sqlite.scheme) == 0)
        return &native_sqlite;
    if (!getenv("RENDERQ_TDSD_FILE"))
        return &native_sqlserver;
    test_server = native_sqlserver;
    test_server.one_writer = true;
    return &test_server;
}
