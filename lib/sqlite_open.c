/* sqlite_open.c: the SQLite driver's way to a connection, and what the engine's result codes mean. No statements. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "clock.h"
#include "sqlite.h"

/* ---- errors ---- */

static const char *errno_text(int number, char *buffer, size_t size)
{
    return strerror_r(number, buffer, size);
}

static renderq_status full(sqlite_conn *conn, int rc, const char *doing)
{
    return rq_error_set(conn->base.session->error, RENDERQ_FAILED, rc,
                        "%s: no room left for \"%s\" (disk, quota or file size limit); nothing of it was stored",
                        doing, conn->path);
}

/* SQLite does not record the system's number for what fails in a commit; the file that was written to has it. */
static int write_errno(sqlite_conn *conn)
{
    sqlite3_file *file = NULL;
    int number = 0;
    if (sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file) == SQLITE_OK && file
        && file->pMethods)
        file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &number);
    return number;
}

static renderq_status io_error(sqlite_conn *conn, int rc, const char *doing)
{
    int number = conn->db ? sqlite3_system_errno(conn->db) : 0;
    if (number == 0 && rc == SQLITE_IOERR_WRITE)
        number = write_errno(conn);
    if (number == EFBIG || number == ENOSPC || number == EDQUOT)
        return full(conn, rc, doing);
    char buffer[128];
    return rq_error_set(conn->base.session->error, RENDERQ_FAILED, rc, "%s: reading or writing \"%s\" failed: %s",
                        doing, conn->path,
                        number ? errno_text(number, buffer, sizeof buffer) : sqlite3_errstr(rc));
}

static renderq_status cannot_open(sqlite_conn *conn, int rc, const char *doing)
{
    rq_error *error = conn->base.session->error;
    int number = conn->db ? sqlite3_system_errno(conn->db) : 0;
    char buffer[128];
    if (number == EACCES || number == EPERM || number == EROFS)
        return rq_error_set(error, RENDERQ_DENIED, rc,
                            "%s: \"%s\" or its folder cannot be written by this user: %s; a queue needs both",
                            doing, conn->path, errno_text(number, buffer, sizeof buffer));
    return rq_error_set(error, RENDERQ_FAILED, rc, "%s: \"%s\" cannot be opened: %s", doing, conn->path,
                        number ? errno_text(number, buffer, sizeof buffer) : sqlite3_errstr(rc));
}

/* Whether a statement that writes has begun on the connection and not ended. Ours are all reset before a call ends. */
static bool writing(sqlite3 *db)
{
    for (sqlite3_stmt *stmt = sqlite3_next_stmt(db, NULL); stmt; stmt = sqlite3_next_stmt(db, stmt))
        if (sqlite3_stmt_busy(stmt) && !sqlite3_stmt_readonly(stmt))
            return true;
    return false;
}

static renderq_status locked(sqlite_conn *conn, int rc, const char *doing)
{
    rq_error *error = conn->base.session->error;
    if (rq_stop_raised(conn->base.session->stop))
        return rq_error_set(error, RENDERQ_INTERRUPTED, rc, "%s: interrupted while it waited for a lock", doing);
    if (rc == SQLITE_BUSY_SNAPSHOT && !sqlite3_get_autocommit(conn->db))
        return rq_error_set(error, RENDERQ_ABORTED, rc,
                            "%s: the transaction has read what another connection changed since, so it can never "
                            "write; nothing was done, roll back", doing);
    /* What is read without a transaction is held by the statement that reads it; and while one writes, nothing can be
     * committed. No waiting helps. */
    if (rc == SQLITE_BUSY_SNAPSHOT || (conn->db && writing(conn->db)))
        return rq_error_set(error, RENDERQ_INVALID, rc,
                            "%s: a statement of the program's on this connection is still open: reset or finalize it "
                            "first; nothing was done", doing);
    return rq_error_set(error, RENDERQ_BUSY, rc,
                        "%s: another connection kept \"%s\" locked for %d ms; nothing was done, try again", doing,
                        conn->path, conn->busy_ms);
}

renderq_status rq_sqlite_error(sqlite_conn *conn, int rc, const char *doing)
{
    rq_error *error = conn->base.session->error;
    if (conn->db) {
        int extended = sqlite3_extended_errcode(conn->db);
        if ((extended & 0xff) == (rc & 0xff))
            rc = extended;
    }
    const char *path = conn->path;
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:       /* gave up on a race for the WAL's locks */
        return locked(conn, rc, doing);
    case SQLITE_INTERRUPT:
        return rq_error_set(error, RENDERQ_INTERRUPTED, rc, "%s: interrupted; nothing was done", doing);
    case SQLITE_NOMEM:
        return rq_error_set(error, RENDERQ_NOMEM, rc, "%s: out of memory; nothing was done", doing);
    case SQLITE_FULL:
        return full(conn, rc, doing);
    case SQLITE_IOERR:
        return io_error(conn, rc, doing);
    case SQLITE_CANTOPEN:
        return cannot_open(conn, rc, doing);
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return rq_error_set(error, RENDERQ_DENIED, rc,
                            "%s: \"%s\" or its folder is read-only for this user; a queue needs to write to both",
                            doing, path);
    case SQLITE_CORRUPT:
        return rq_error_set(error, RENDERQ_FAILED, rc,
                            "%s: \"%s\" is corrupt; stop its users and restore it (sqlite3 FILE .recover saves what "
                            "can be read)", doing, path);
    case SQLITE_NOTADB:
        return rq_error_set(error, RENDERQ_FAILED, rc, "%s: \"%s\" is no SQLite database; nothing was changed", doing,
                            path);
    case SQLITE_TOOBIG:
        return rq_error_set(error, RENDERQ_INVALID, rc, "%s: a text is longer than SQLite can hold", doing);
    case SQLITE_CONSTRAINT:
        return rq_error_set(error, RENDERQ_SCHEMA, rc, "%s: the table forbids it: %s", doing,
                            conn->db ? sqlite3_errmsg(conn->db) : sqlite3_errstr(rc));
    default:
        return rq_error_set(error, RENDERQ_FAILED, rc, "%s: %s", doing,
                            conn->db ? sqlite3_errmsg(conn->db) : sqlite3_errstr(rc));
    }
}

bool rq_sqlite_ails(int rc)
{
    int kind = rc & 0xff;
    return kind == SQLITE_FULL || kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN || kind == SQLITE_CORRUPT
           || kind == SQLITE_NOTADB;
}

/* ---- network file systems ---- */

/* Magic numbers from statfs(2) and linux/magic.h; not all of them are in every version of that header. */
static const struct { unsigned long magic; const char *name; } network_fs[] = {
    { 0x6969, "NFS" },
    { 0x517b, "SMB" },
    { 0xff534d42, "CIFS" },
    { 0xfe534d42, "SMB" },
    { 0x01021997, "9p" },
    { 0x65735546, "FUSE" },
};

static bool stat_fs(const char *path, struct statfs *fs)
{
    int result;
    do
        result = statfs(path, fs);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

/* "." or everything up to the last slash. */
static bool folder_of(const char *path, char *folder, size_t size)
{
    const char *slash = strrchr(path, '/');
    size_t len = !slash ? 1 : slash == path ? 1 : (size_t)(slash - path);
    if (len >= size)
        return false;
    memcpy(folder, slash ? path : ".", len);
    folder[len] = 0;
    return true;
}

/* Where a link leads, if `path` is one. */
static bool follow(char *path, size_t size)
{
    char target[2048], folder[2048] = "";
    ssize_t len = readlink(path, target, sizeof target - 1);
    if (len < 0 || (target[0] != '/' && !folder_of(path, folder, sizeof folder)))
        return false;
    target[len] = 0;
    return (size_t)snprintf(path, size, "%s%s%s", folder, folder[0] ? "/" : "", target) < size;
}

#define LINKS_MAX 40

/* The file system of the file, or of the folder that it would be made in: a link may lead to one that is not there. */
static bool find_fs(const char *path, struct statfs *fs)
{
    char at[4100], folder[4100];
    if ((size_t)snprintf(at, sizeof at, "%s", path) >= sizeof at)
        return false;
    for (int links = 0; links < LINKS_MAX; links++) {
        if (stat_fs(at, fs))
            return true;
        if (!follow(at, sizeof at))
            return folder_of(at, folder, sizeof folder) && stat_fs(folder, fs);
    }
    return false;
}

const char *rq_sqlite_network_fs(const char *path)
{
    struct statfs fs;
    if (!find_fs(path, &fs))
        return NULL;        /* opening it will say what is wrong */
    for (size_t i = 0; i < sizeof network_fs / sizeof network_fs[0]; i++)
        if (((unsigned long)fs.f_type & 0xffffffff) == network_fs[i].magic)
            return network_fs[i].name;
    return NULL;
}

/* ---- opening ---- */

/* Waits like SQLite's own handler, but can be interrupted, and lasts as long as the statement may. */
static int on_busy(void *arg, int tries)
{
    sqlite_conn *conn = arg;
    int64_t left = conn->busy_until - rq_clock_ms();
    if (left <= 0)
        return 0;
    static const unsigned char delays[] = { 1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100 };
    int last = (int)sizeof delays - 1;
    int64_t delay = delays[tries < last ? tries : last];
    return !rq_stop_sleep(conn->base.session->stop, delay < left ? delay : left);
}

/* Ends a long statement. sqlite3_interrupt() is not used: another thread would have to reach into a connection that
 * this thread may be replacing. */
static int on_progress(void *arg)
{
    sqlite_conn *conn = arg;
    return rq_stop_raised(conn->base.session->stop);
}

static int exec_until(sqlite_conn *conn, const char *sql)
{
    int rc;
    /* Changing the journal mode meets locks that SQLite does not call the busy handler for. */
    while ((rc = sqlite3_exec(conn->db, sql, NULL, NULL, NULL)) == SQLITE_BUSY && rq_clock_ms() < conn->busy_until)
        if (rq_stop_sleep(conn->base.session->stop, 10))
            break;
    return rc;
}

#define CHECKPOINT_FRAMES 1000      /* as SQLite's own automatic checkpoint */

/* Moves the log into the file each time it has grown enough. SQLite's own would try, and flush, at every commit once
 * the log is long, as it stays while others read all the time: a list would delay every claim. */
static int on_commit(void *arg, sqlite3 *db, const char *name, int frames)
{
    sqlite_conn *conn = arg;
    if (frames < conn->checkpointed)
        conn->checkpointed = 0;         /* the log began anew */
    if (frames - conn->checkpointed >= CHECKPOINT_FRAMES) {
        /* One that meets readers does what it can; the next goes on. */
        sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        conn->checkpointed = frames;
    }
    return SQLITE_OK;
}

/* The caller's SQL may end a transaction of ours; the hooks tell. */
static int on_end_by_commit(void *arg)
{
    ((sqlite_conn *)arg)->ended++;
    return 0;
}

static void on_end_by_rollback(void *arg)
{
    ((sqlite_conn *)arg)->ended++;
}

static int set_up(sqlite_conn *conn)
{
    const char *synchronous = rq_url_option(conn->base.session->url, "synchronous");
    sqlite3_extended_result_codes(conn->db, 1);
    sqlite3_busy_handler(conn->db, on_busy, conn);
    sqlite3_progress_handler(conn->db, 10000, on_progress, conn);
    sqlite3_wal_hook(conn->db, on_commit, conn);
    sqlite3_commit_hook(conn->db, on_end_by_commit, conn);
    sqlite3_rollback_hook(conn->db, on_end_by_rollback, conn);
    int rc = exec_until(conn, "PRAGMA journal_mode = WAL");
    if (rc == SQLITE_OK)
        rc = exec_until(conn, synchronous && strcmp(synchronous, "normal") == 0 ? "PRAGMA synchronous = NORMAL"
                                                                                 : "PRAGMA synchronous = FULL");
    return rc;
}

static renderq_status refuse(sqlite_conn *conn, const char *file_system)
{
    return rq_error_set(conn->base.session->error, RENDERQ_INVALID, 0,
                        "\"%s\" is on a network file system (%s), where SQLite's locks fail and files get lost: keep "
                        "it on a local disk behind one service that owns it, use SQL Server, or insist with "
                        "network_fs=allow",
                        conn->path, file_system);
}

/* SQLite falls back to reading what it may not write. So it does with a file that another process makes between its two
 * tries, and then the next one succeeds. */
static int open_to_write(sqlite_conn *conn, int flags)
{
    for (int tries = 0; tries < 3; tries++) {
        sqlite3_close(conn->db);
        conn->db = NULL;
        int rc = sqlite3_open_v2(conn->path, &conn->db, flags, NULL);
        if (rc != SQLITE_OK || sqlite3_db_readonly(conn->db, "main") != 1)
            return rc;
        if (faccessat(AT_FDCWD, conn->path, W_OK, AT_EACCESS) != 0)
            break;
    }
    return SQLITE_READONLY;
}

/* One that may not be looked at any more, by a process that has given up its rights, is not gone. */
static bool is_gone(sqlite3 *db)
{
    struct stat file;
    int moved = 0;
    if (sqlite3_file_control(db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) != SQLITE_OK || !moved)
        return false;
    const char *path = sqlite3_db_filename(db, "main");
    return path && *path && (stat(path, &file) == 0 || errno == ENOENT || errno == ENOTDIR);
}

renderq_status rq_sqlite_leave_gone_file(sqlite_conn *conn)
{
    if (!conn->db || !is_gone(conn->db))
        return RENDERQ_OK;
    if (conn->attached || conn->base.guarded)
        return rq_error_set(conn->base.session->error, RENDERQ_FAILED, SQLITE_READONLY_DBMOVED,
                            "\"%s\" was deleted or replaced while it was open: what is written now is lost; nothing "
                            "was done", conn->path);
    rq_sqlite_drop(conn);
    return RENDERQ_OK;
}

renderq_status rq_sqlite_open_file(sqlite_conn *conn, bool create)
{
    const rq_session *session = conn->base.session;
    if (!rq_url_option(session->url, "network_fs")) {
        const char *file_system = rq_sqlite_network_fs(conn->path);
        if (file_system)
            return refuse(conn, file_system);
    }
    struct stat file;
    if (stat(conn->path, &file) == 0 && S_ISDIR(file.st_mode))
        return rq_error_set(session->error, RENDERQ_INVALID, 0, "\"%s\" is a folder; name a file in it", conn->path);

    conn->busy_until = rq_clock_ms() + conn->busy_ms;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (create ? SQLITE_OPEN_CREATE : 0);
    int rc = open_to_write(conn, flags);
    if (rc == SQLITE_OK)
        rc = set_up(conn);
    if (rc == SQLITE_OK)
        return RENDERQ_OK;

    bool missing = (rc & 0xff) == SQLITE_CANTOPEN && conn->db && sqlite3_system_errno(conn->db) == ENOENT;
    renderq_status status = missing && !create ? RENDERQ_OK : rq_sqlite_error(conn, rc, "opening the database");
    sqlite3_close(conn->db);
    conn->db = NULL;
    char folder[4096];
    if (!missing || !folder_of(conn->path, folder, sizeof folder))
        return status;
    if (access(folder, F_OK) != 0)
        return rq_error_set(session->error, RENDERQ_FAILED, 0, "the folder of \"%s\" does not exist", conn->path);
    /* SQLite tries again for reading alone, so what it says of a file it may not make is that there is none. */
    if (create && faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) != 0)
        return rq_error_set(session->error, RENDERQ_DENIED, rc,
                            "\"%s\" cannot be made: its folder cannot be written by this user", conn->path);
    return status;
}
