/* sqlite_tx.c: the SQLite driver's transactions: its own, those that the core begins, savepoints in those that are
 * open, and whether one still stands. */
#include <stdlib.h>

#include "clock.h"
#include "sqlite.h"

static const char *const words[RQ_SQLITE_WORDS] = {
    [RQ_SQLITE_BEGIN] = "BEGIN IMMEDIATE",   [RQ_SQLITE_COMMIT] = "COMMIT",
    [RQ_SQLITE_ROLLBACK] = "ROLLBACK",       [RQ_SQLITE_SAVEPOINT] = "SAVEPOINT renderq",
    [RQ_SQLITE_RELEASE] = "RELEASE renderq", [RQ_SQLITE_BACK_TO] = "ROLLBACK TO renderq",
};

/* All of them before the first is used: one that undoes must not need memory when there is none. */
static int prepare_words(sqlite_conn *conn)
{
    int rc = SQLITE_OK;
    for (int i = 0; i < RQ_SQLITE_WORDS && rc == SQLITE_OK; i++)
        if (!conn->words[i])
            rc = sqlite3_prepare_v3(conn->db, words[i], -1, SQLITE_PREPARE_PERSISTENT, &conn->words[i], NULL);
    return rc;
}

/* The file's version changes with each commit, and before a first read. */
static unsigned version_of(sqlite3 *db)
{
    unsigned version = 0;
    sqlite3_file_control(db, "main", SQLITE_FCNTL_DATA_VERSION, &version);
    return version;
}

/* Whether a word that was interrupted had done what it says: SQLite asks its progress handler behind the last
 * instruction too. A commit that was interrupted on its way, in a virtual table, has rolled back instead. */
static bool was_done(sqlite3 *db, int word, unsigned version_before)
{
    bool open = !sqlite3_get_autocommit(db);
    switch (word) {
    case RQ_SQLITE_BEGIN:
        return open;
    case RQ_SQLITE_COMMIT:
        return !open && version_of(db) != version_before;
    case RQ_SQLITE_ROLLBACK:
        return !open;
    default:
        return false;
    }
}

static int say(sqlite_conn *conn, int word)
{
    int rc = prepare_words(conn);
    if (rc != SQLITE_OK)
        return rc;
    unsigned version = version_of(conn->db);
    rc = sqlite3_step(conn->words[word]);
    sqlite3_reset(conn->words[word]);
    return rc == SQLITE_DONE || (rc == SQLITE_INTERRUPT && was_done(conn->db, word, version)) ? SQLITE_OK : rc;
}

/* A statement of the caller's that is not finalized yet keeps the engine's connection, and what is open on it, until
 * it is: so the transaction ends first, and nothing of ours is called from there any more. */
static void let_go(sqlite3 *db)
{
    sqlite3_busy_handler(db, NULL, NULL);
    sqlite3_progress_handler(db, 0, NULL, NULL);
    sqlite3_wal_hook(db, NULL, NULL);
    sqlite3_commit_hook(db, NULL, NULL);
    sqlite3_rollback_hook(db, NULL, NULL);
    sqlite3_close_v2(db);
}

/* Lets go of the file; the next statement opens it again. */
void rq_sqlite_drop(sqlite_conn *conn)
{
    bool ours = conn->db && !conn->attached;
    for (sqlite3_stmt *stmt = NULL; ours && (stmt = sqlite3_next_stmt(conn->db, stmt));)
        sqlite3_reset(stmt);
    if (ours && !sqlite3_get_autocommit(conn->db))
        say(conn, RQ_SQLITE_ROLLBACK);
    rq_sqlite_forget(conn, true);
    for (int i = 0; i < RQ_SQLITE_WORDS; i++) {
        sqlite3_finalize(conn->words[i]);
        conn->words[i] = NULL;
    }
    if (ours)
        let_go(conn->db);
    conn->db = NULL;
}

/* Without the memory that even ROLLBACK can need (after the schema changed, it is prepared anew), closing rolls back:
 * a transaction left open would swallow all that comes after it. The caller's connection cannot be closed, so what is
 * left there is remembered. */
static int roll_back(sqlite_conn *conn)
{
    int rc = conn->db && !sqlite3_get_autocommit(conn->db) ? say(conn, RQ_SQLITE_ROLLBACK) : SQLITE_OK;
    bool failed = conn->db && !sqlite3_get_autocommit(conn->db);
    conn->left_open = failed && conn->attached;
    if (failed && !conn->attached)
        rq_sqlite_drop(conn);
    return conn->left_open ? rc : SQLITE_OK;
}

int rq_sqlite_start_work(sqlite_conn *conn)
{
    conn->joined = !sqlite3_get_autocommit(conn->db);
    return say(conn, conn->joined ? RQ_SQLITE_SAVEPOINT : RQ_SQLITE_BEGIN);
}

int rq_sqlite_keep_work(sqlite_conn *conn)
{
    return say(conn, conn->joined ? RQ_SQLITE_RELEASE : RQ_SQLITE_COMMIT);
}

void rq_sqlite_undo_work(sqlite_conn *conn)
{
    bool undone = conn->joined && !sqlite3_get_autocommit(conn->db) && say(conn, RQ_SQLITE_BACK_TO) == SQLITE_OK;
    if (undone)
        say(conn, RQ_SQLITE_RELEASE);
    else
        roll_back(conn);
}

/* Opens the file where that is still to do. What the caller began by SQL on our connection would keep a claim from
 * being committed before it is handed out. */
renderq_status rq_sqlite_ready(sqlite_conn *conn)
{
    if (conn->db && !conn->attached && !conn->base.guarded && !sqlite3_get_autocommit(conn->db))
        return rq_error_set(conn->base.session->error, RENDERQ_INVALID, 0,
                            "a transaction was begun by SQL on renderq_native(): end it there, and use "
                            "renderq_begin()");
    renderq_status status = rq_sqlite_leave_gone_file(conn);
    if (status == RENDERQ_OK && !conn->db)
        status = rq_sqlite_open_file(conn, false);
    if (status == RENDERQ_OK && !conn->db)
        status = rq_error_set(conn->base.session->error, RENDERQ_SCHEMA, 0,
                              "\"%s\" does not exist: renderq_create() or renderq init makes it", conn->path);
    return status;
}

renderq_status rq_sqlite_begin(rq_conn *base)
{
    sqlite_conn *conn = (sqlite_conn *)base;
    conn->busy_until = rq_clock_ms() + conn->busy_ms;
    renderq_status status = rq_sqlite_ready(conn);
    if (status != RENDERQ_OK)
        return status;
    int rc = say(conn, RQ_SQLITE_BEGIN);
    if (rc != SQLITE_OK)
        return rq_sqlite_error(conn, rc, "begin");
    conn->began_at = conn->ended;
    base->guarded = true;
    return RENDERQ_OK;
}

/* Whether the transaction stands that was begun, or found. One that the caller's SQL has ended, and another begun in
 * its place, shows on a connection of ours alone: the hooks of an attached one are the caller's. */
bool rq_sqlite_stands(const sqlite_conn *conn)
{
    bool open = conn->db && !sqlite3_get_autocommit(conn->db) && !conn->left_open;
    return open && (conn->attached || conn->ended == conn->began_at);
}

renderq_status rq_sqlite_gone(const sqlite_conn *conn, const char *doing)
{
    return rq_error_set(conn->base.session->error, RENDERQ_ABORTED, 0,
                        "%s: the transaction has been ended by SQL of the caller's or by an error; nothing was done, "
                        "roll back",
                        doing);
}

/* Transactions have no number here, but there is the file's. */
renderq_status rq_sqlite_find(rq_conn *base, int64_t *id)
{
    sqlite_conn *conn = (sqlite_conn *)base;
    bool open = !sqlite3_get_autocommit(conn->db);
    *id = open ? 1 + (int64_t)version_of(conn->db) : 0;
    conn->left_open &= open;
    return !conn->left_open ? RENDERQ_OK
                            : rq_error_set(base->session->error, RENDERQ_FAILED, 0,
                                           "the transaction on this connection could not be rolled back when it had "
                                           "to be: say ROLLBACK there; nothing was done");
}

renderq_status rq_sqlite_commit(rq_conn *base)
{
    sqlite_conn *conn = (sqlite_conn *)base;
    conn->busy_until = rq_clock_ms() + conn->busy_ms;
    renderq_status status = rq_sqlite_stands(conn) ? rq_sqlite_leave_gone_file(conn) : rq_sqlite_gone(conn, "commit");
    int rc = status == RENDERQ_OK ? say(conn, RQ_SQLITE_COMMIT) : SQLITE_OK;
    if (rc != SQLITE_OK)
        status = rq_sqlite_error(conn, rc, "commit");
    base->guarded = false;
    if (status != RENDERQ_OK)
        roll_back(conn);
    return status;
}

renderq_status rq_sqlite_rollback(rq_conn *base)
{
    sqlite_conn *conn = (sqlite_conn *)base;
    base->guarded = false;
    int rc = roll_back(conn);
    if (rc == SQLITE_OK)
        return RENDERQ_OK;
    base->guarded = true;
    return rq_sqlite_error(conn, rc, "rollback");
}
