/* table.c: tables that have seen a million jobs, filled by plain SQL. ANALYZE is never run: no queue in use has it. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 50000

/* new_id(ms): an id that is ordered by that time, as if the job had been enqueued then. */
static void new_id(sqlite3_context *context, int n_args, sqlite3_value **args)
{
    static unsigned seq;
    unsigned char id[16];
    (void)n_args;
    sqlite3_int64 ms = sqlite3_value_int64(args[0]);
    random_fill(id, sizeof id);
    seq++;
    for (int i = 0; i < 6; i++)
        id[i] = (unsigned char)(ms >> (40 - 8 * i));
    id[6] = (unsigned char)(seq >> 8);
    id[7] = (unsigned char)seq;
    sqlite3_result_blob(context, id, sizeof id, SQLITE_TRANSIENT);
}

static sqlite3 *open_for_filling(const char *path)
{
    sqlite3 *db = sql_open(path, "off");
    sql_exec(db, "PRAGMA cache_size = -200000");
    if (sqlite3_create_function(db, "new_id", 1, SQLITE_UTF8, NULL, new_id, NULL, NULL) != SQLITE_OK)
        die("new_id: %s", sqlite3_errmsg(db));
    return db;
}

static void fill(sqlite3 *db, const char *sql, size_t n)
{
    sqlite3_stmt *stmt = sql_prepare(db, sql);
    for (size_t done = 0; done < n; done += CHUNK) {
        size_t end = done + CHUNK < n ? done + CHUNK : n;
        sqlite3_bind_int64(stmt, 1, (sqlite3_int64)done);
        sqlite3_bind_int64(stmt, 2, (sqlite3_int64)end);
        sqlite3_bind_int64(stmt, 3, (sqlite3_int64)n);
        sqlite3_bind_int64(stmt, 4, unix_ms());
        sqlite3_bind_text(stmt, 5, payload(), -1, SQLITE_STATIC);
        sql_run(stmt);
    }
    sqlite3_finalize(stmt);
    sql_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)");
}

/* Of twenty jobs of the last thirty days twelve are done, three dead, one cancelled, and four wait for next month. */
static const char ended[] =
    "INSERT INTO VideoRenderJobs (JobId, CompositionId, Priority, Status, WorkerNodeId, LockedAtUtc, CreatedAtUtc, "
    "                             CompletedAtUtc, OutputUrl, RetryCount, LastErrorMessage, StartedAtUtc, DueAtUtc, "
    "                             EndedAtUtc, LeaseToken, LeaseSeconds, PayloadJson) "
    "WITH RECURSIVE n(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2), "
    "     job(i, at, status) AS (SELECT i, ?4 - 2592000000 + i * (2591000000 / ?3), "
    "                                   CASE WHEN i % 20 < 12 THEN 'Completed' WHEN i % 20 < 15 THEN 'DeadLetter' "
    "                                        WHEN i % 20 = 15 THEN 'Cancelled' ELSE 'Scheduled' END FROM n) "
    "SELECT new_id(at), 'composition-' || i % 977, i % 3, status, "
    "       CASE status WHEN 'Completed' THEN 'node-' || i % 11 END, "
    "       CASE status WHEN 'Completed' THEN (at + 5000) / 1000 * 1000 END, at, "
    "       CASE status WHEN 'Completed' THEN at + 65000 END, "
    "       CASE status WHEN 'Completed' THEN 'https://videos.example/' || i || '.mp4' END, "
    "       CASE status WHEN 'DeadLetter' THEN 4 ELSE 0 END, "
    "       CASE status WHEN 'DeadLetter' THEN 'ffmpeg: exit 1: out of memory' END, "
    "       CASE status WHEN 'Completed' THEN at + 4500 END, "
    "       CASE status WHEN 'Scheduled' THEN ?4 + 2592000000 + i END, "
    "       CASE WHEN status IN ('DeadLetter', 'Cancelled') THEN at + 90000 END, "
    "       CASE WHEN status IN ('Completed', 'DeadLetter') THEN randomblob(16) END, "
    "       CASE status WHEN 'Completed' THEN 600 END, ?5 "
    "FROM job";

static const char leased[] =
    "INSERT INTO VideoRenderJobs (JobId, CompositionId, Status, WorkerNodeId, LockedAtUtc, LeasedAtUtc, CreatedAtUtc, "
    "                             StartedAtUtc, LeaseToken, LeaseSeconds, PayloadJson) "
    "WITH RECURSIVE n(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2) "
    "SELECT new_id(?4), 'composition-' || i % 977, 'Processing', 'node-' || i % 11, ?4 / 1000 * 1000, "
    "       ?4 / 1000 * 1000, ?4 - ?3 + i, ?4, randomblob(16), 86400, ?5 "
    "FROM n";

const char *filled_table(const bench_run *run)
{
    static char *path;
    if (path)
        return path;
    path = path_in(run, "filled.db");
    ours_create(path);
    double began = now_s();
    sqlite3 *db = open_for_filling(path);
    fill(db, ended, scaled(run, 1000000));
    sqlite3_close(db);
    report_note("(%zu ended and delayed rows were put into a table, %.0f MB, in %.0f s)", scaled(run, 1000000),
                file_mb(path), now_s() - began);
    return path;
}

void fill_leased(const char *path, size_t n)
{
    sqlite3 *db = open_for_filling(path);
    fill(db, leased, n);
    sqlite3_close(db);
}

void forget_claimed(const char *path)
{
    sqlite3 *db = sql_open(path, "off");
    sql_exec(db, "DELETE FROM VideoRenderJobs WHERE Status = 'Processing' AND WorkerNodeId = '" WORKER "'");
    sqlite3_close(db);
}
