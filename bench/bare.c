/* bare.c: the loop that the library is measured against: prepared statements over sqlite3, the same writes into the
 * same table and indexes under the same file settings, the same fences, ids and tokens from the kernel's random bits,
 * and a copy of what a worker needs. No checks of arguments, no dedup keys, no delays, no retries. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#define NOW "CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)"

#define LEASE \
    "UPDATE VideoRenderJobs " \
    "SET Status = 'Processing', WorkerNodeId = ?1, LeaseToken = ?2, LeaseSeconds = 600, LockedAtUtc = ?3, " \
    "LeasedAtUtc = ?3, StartedAtUtc = " NOW ", Progress = NULL "
#define NEXT \
    "(SELECT rowid FROM VideoRenderJobs WHERE Status = 'Queued' ORDER BY Priority DESC, CreatedAtUtc, JobId "
#define COLUMNS " RETURNING JobId, CompositionId, PayloadJson, RetryCount"

struct bare {
    sqlite3 *db;
    sqlite3_stmt *begin, *commit, *insert, *claim_one, *claim_many, *complete;
};

typedef struct taken {
    unsigned char id[16];
    char *composition_id, *payload;
    int retry_count;
} taken;

bare *bare_open(const char *path, const char *synchronous)
{
    bare *b = allocate(sizeof *b);
    b->db = sql_open(path, synchronous);
    b->begin = sql_prepare(b->db, "BEGIN IMMEDIATE");
    b->commit = sql_prepare(b->db, "COMMIT");
    b->insert = sql_prepare(b->db, "INSERT INTO VideoRenderJobs (JobId, CompositionId, PayloadJson, OutputUrl, "
                                   "DedupKey, Priority, MaxRetries, RetryCount, CreatedAtUtc, Status, DueAtUtc) "
                                   "VALUES (?1, ?2, ?3, NULL, NULL, 0, NULL, 0, " NOW ", 'Queued', NULL)");
    b->claim_one = sql_prepare(b->db, LEASE "WHERE rowid = " NEXT "LIMIT 1)" COLUMNS);
    b->claim_many = sql_prepare(b->db, LEASE "WHERE rowid IN " NEXT "LIMIT ?4)" COLUMNS);
    b->complete = sql_prepare(b->db, "UPDATE VideoRenderJobs SET Status = 'Completed', CompletedAtUtc = " NOW ", "
                                     "OutputUrl = ?3, LeasedAtUtc = NULL WHERE JobId = ?1 AND LeaseToken = ?2 "
                                     "AND LeasedAtUtc = LockedAtUtc AND Status = 'Processing'");
    return b;
}

void bare_close(bare *b)
{
    sqlite3_finalize(b->begin);
    sqlite3_finalize(b->commit);
    sqlite3_finalize(b->insert);
    sqlite3_finalize(b->claim_one);
    sqlite3_finalize(b->claim_many);
    sqlite3_finalize(b->complete);
    sqlite3_close(b->db);
    free(b);
}

void bare_enqueue(bare *b, size_t n, size_t batch)
{
    unsigned char ids[BATCH_MAX][16];
    for (size_t done = 0; done < n; done += batch) {
        new_ids(ids, batch);
        if (batch > 1)
            sql_run(b->begin);
        for (size_t i = 0; i < batch; i++) {
            sqlite3_bind_blob(b->insert, 1, ids[i], 16, SQLITE_STATIC);
            sqlite3_bind_text(b->insert, 2, "composition", -1, SQLITE_STATIC);
            sqlite3_bind_text(b->insert, 3, payload(), -1, SQLITE_STATIC);
            sql_run(b->insert);
        }
        if (batch > 1)
            sql_run(b->commit);
    }
}

static char *copy_column(sqlite3_stmt *stmt, int i)
{
    const char *text = (const char *)sqlite3_column_text(stmt, i);
    size_t size = (size_t)sqlite3_column_bytes(stmt, i) + 1;
    return memcpy(allocate(size), text, size);
}

static size_t claim(bare *b, size_t batch, const unsigned char *token, taken *jobs)
{
    sqlite3_stmt *stmt = batch > 1 ? b->claim_many : b->claim_one;
    size_t n = 0;
    sqlite3_bind_text(stmt, 1, WORKER, -1, SQLITE_STATIC);
    sqlite3_bind_blob(stmt, 2, token, 16, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 3, (unix_ms() + 999) / 1000 * 1000);
    if (batch > 1)
        sqlite3_bind_int64(stmt, 4, (sqlite3_int64)batch);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        taken *job = &jobs[n++];
        memcpy(job->id, sqlite3_column_blob(stmt, 0), sizeof job->id);
        job->composition_id = copy_column(stmt, 1);
        job->payload = copy_column(stmt, 2);
        job->retry_count = sqlite3_column_int(stmt, 3);
    }
    sqlite3_reset(stmt);
    return n;
}

void bare_work(bare *b, size_t n, size_t batch)
{
    taken jobs[BATCH_MAX];
    unsigned char token[16];
    for (size_t done = 0; done < n; done += batch) {
        random_fill(token, sizeof token);
        if (claim(b, batch, token, jobs) != batch)
            die("the bare loop claimed too little: %s", sqlite3_errmsg(b->db));
        if (batch > 1)
            sql_run(b->begin);
        for (size_t i = 0; i < batch; i++) {
            sqlite3_bind_blob(b->complete, 1, jobs[i].id, 16, SQLITE_STATIC);
            sqlite3_bind_blob(b->complete, 2, token, 16, SQLITE_STATIC);
            sqlite3_bind_text(b->complete, 3, "out.mp4", -1, SQLITE_STATIC);
            sql_run(b->complete);
            if (sqlite3_changes(b->db) != 1)
                die("the bare loop lost a job");
        }
        if (batch > 1)
            sql_run(b->commit);
        for (size_t i = 0; i < batch; i++) {
            free(jobs[i].composition_id);
            free(jobs[i].payload);
        }
    }
}
