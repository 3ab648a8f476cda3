/* sqlite.h: what the parts of the SQLite driver share. */
#ifndef RQ_SQLITE_H
#define RQ_SQLITE_H

#include <sqlite3.h>

#include "driver.h"

/* One statement of a file, prepared. */
typedef struct sqlite_part {
    sqlite3_stmt *stmt;
    unsigned char *binds;       /* parameter i + 1 of stmt takes the contract's parameter binds[i] */
    int n_binds;
    bool reads;                 /* changes nothing */
} sqlite_part;

typedef struct sqlite_file {
    sqlite_part *parts;         /* NULL: not prepared yet */
    int n_parts;
    bool looks;                 /* its first part only reads, and others write: a look */
    bool writes;
} sqlite_file;

/* The prepared statements of one queue. */
typedef struct sqlite_queue {
    struct sqlite_queue *next;  /* the one used before this */
    char *name;
    sqlite_file files[RQ_STATEMENTS];
} sqlite_queue;

#define SQLITE_QUEUES_MAX 8     /* kept prepared; the one longest unused makes room */

/* The statements that begin and end transactions and savepoints. */
enum {
    RQ_SQLITE_BEGIN, RQ_SQLITE_COMMIT, RQ_SQLITE_ROLLBACK, RQ_SQLITE_SAVEPOINT, RQ_SQLITE_RELEASE, RQ_SQLITE_BACK_TO,
    RQ_SQLITE_WORDS
};

typedef struct sqlite_conn {
    rq_conn base;
    sqlite3 *db;                /* NULL while the file is not there yet */
    char *path;
    bool attached;
    int busy_ms;                /* how long to wait for somebody else's lock */
    int64_t busy_until;
    int checkpointed;           /* frames in the log when this connection last moved them into the file */
    sqlite3_stmt *words[RQ_SQLITE_WORDS];   /* prepared with the first transaction */
    unsigned ended;             /* transactions that have ended on a connection of ours, by whoever's doing */
    unsigned began_at;          /* ... when ours began */
    bool joined;                /* the work that is being done is a savepoint of a transaction that was open */
    bool left_open;             /* a rollback on an attached connection failed: nothing may join what is open there */
    sqlite_queue *queues;
    int n_queues;
} sqlite_conn;

/* Opens conn->path into conn->db and sets it up. `create`: makes the file where there is none; else db stays NULL. */
renderq_status rq_sqlite_open_file(sqlite_conn *conn, bool create);

/* Lets go of a file that was deleted or replaced while it was open, where no transaction is: SQLite would go on to write
 * what nobody will read. FAILED in one, and on a connection that is not ours. */
renderq_status rq_sqlite_leave_gone_file(sqlite_conn *conn);

/* Turns an engine's result code into a status, with a text. `doing`: "claim", "opening", ... */
renderq_status rq_sqlite_error(sqlite_conn *conn, int rc, const char *doing);
bool rq_sqlite_ails(int native);         /* driver.h tells what that is */

/* Work that is done wholly or not at all: a transaction of its own, or a savepoint of the one that is open, which
 * stays. What was started must be kept, or undone, also when keeping it failed. Result codes. */
int rq_sqlite_start_work(sqlite_conn *conn);
int rq_sqlite_keep_work(sqlite_conn *conn);
void rq_sqlite_undo_work(sqlite_conn *conn);

/* Opens the file where that is still to do. */
renderq_status rq_sqlite_ready(sqlite_conn *conn);

/* Lets go of the file; the next statement opens it again. */
void rq_sqlite_drop(sqlite_conn *conn);

/* Forgets all prepared statements. `engine` false: not what the engine holds, in a child that may not touch it. */
void rq_sqlite_forget(sqlite_conn *conn, bool engine);

/* Whether the transaction stands that was begun, or found; and what is answered when it does not. */
bool rq_sqlite_stands(const sqlite_conn *conn);
renderq_status rq_sqlite_gone(const sqlite_conn *conn, const char *doing);

/* The driver's own: see driver.h. */
renderq_status rq_sqlite_begin(rq_conn *base);
renderq_status rq_sqlite_commit(rq_conn *base);
renderq_status rq_sqlite_rollback(rq_conn *base);
renderq_status rq_sqlite_find(rq_conn *base, int64_t *id);

/* Text with the queue's table put in for the default one; to be freed. NULL: out of memory. */
char *rq_sqlite_for_queue(const char *sql, const char *table);

/* SQLite has no schemas, so a queue's name has one part. */
renderq_status rq_sqlite_check_name(const sqlite_conn *conn, const rq_queue *queue);

renderq_status rq_sqlite_create(rq_conn *base, const rq_queue *queue);

/* The name of the file system that a file, or its folder while there is none, lies on, if it is one of those where
 * SQLite's locks are known to fail; NULL if not. */
const char *rq_sqlite_network_fs(const char *path);

#endif
