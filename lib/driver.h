/* driver.h: what an engine has to do for the core. The core knows no SQL; a driver knows no queue. */
#ifndef RQ_DRIVER_H
#define RQ_DRIVER_H

#include "name.h"
#include "renderq.h"
#include "statement.h"
#include "stop.h"
#include "url.h"

/* The text and number of the last failure. It has its own memory, so that "out of memory" can be said. */
typedef struct rq_error {
    int native;
    char text[1024];
} rq_error;

void rq_error_text(rq_error *error, int native, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Writes the text; its value is the status, so that a failure is one line (and an analyzer sees which). */
#define rq_error_set(error, status, native, ...) \
    (rq_error_text((error), (native), __VA_ARGS__), (renderq_status)(status))

/* What a driver may use of the handle. It outlives every connection of that handle. */
typedef struct rq_session {
    const rq_url *url;
    const char *password;
    int connect_s, command_s;
    rq_stop *stop;          /* a long wait asks it; sleeps go through it */
    rq_error *error;        /* a driver that returns anything but OK has filled this */
} rq_session;

typedef struct rq_queue {
    const char *text;       /* as the user wrote it */
    rq_name name;
} rq_queue;

typedef struct rq_driver rq_driver;

/* A driver's connection begins with this. */
typedef struct rq_conn {
    const rq_driver *driver;
    const rq_session *session;
    bool guarded;           /* run() first makes sure that the transaction of the last begin() or find() still stands,
                               in the same request; if not, it does nothing and answers ABORTED. begin() sets it,
                               commit() and rollback() clear it unless it stands as it did; with a transaction that
                               was found, the core does */
    renderq_status ended_by;    /* after a run() that answered ABORTED: the failure that ended the transaction; OK: it
                                   had ended before */
} rq_conn;

/* Takes one row of one item. Anything but OK ends the statement and is what run() returns, with nothing done where
 * the engine can still take it back. The rows count only once run() has returned OK. */
typedef renderq_status (*rq_row_fn)(void *arg, size_t item, const rq_value *columns);

struct rq_driver {
    const char *scheme;
    const char *const *options;     /* the URL's options that it knows, NULL at the end; "queue" is the core's */

    int busy_tries;                 /* how often a BUSY is asked again: where the engine ends one of two that wait for
                                       each other at once; 0 where it has waited long enough by then */

    /* Opens a connection. On failure *out is NULL. */
    renderq_status (*open)(const rq_session *session, rq_conn **out);

    /* Adopts a connection that the caller made, and will never close or change it for good. */
    renderq_status (*attach)(const rq_session *session, void *native, rq_conn **out);

    /* The caller's transaction on an attached connection: *id is what tells it from others, 0 when none is open. */
    renderq_status (*find)(rq_conn *conn, int64_t *id);
    bool reads_snapshots;           /* a transaction sees the queue as it was at its first read: waiting in it is vain */
    bool find_is_vague;             /* *id holds from the first write on alone, and a rollback does not change it */

    void (*close)(rq_conn *conn);

    /* In a child after fork(): frees memory, touches neither the file nor the socket. */
    void (*abandon)(rq_conn *conn);

    /* One transaction at a time. A commit that returns anything but OK has ended it too (ABORTED where it was gone
     * before, UNCERTAIN where the reply was lost), or was not sent and leaves the connection guarded. A rollback that
     * fails leaves it as it was, or the connection broken. It hears no interrupt. */
    renderq_status (*begin)(rq_conn *conn);
    renderq_status (*commit)(rq_conn *conn);
    renderq_status (*rollback)(rq_conn *conn);

    /* Makes the queue's table or adds what it lacks. */
    renderq_status (*create)(rq_conn *conn, const rq_queue *queue);

    /* Runs a statement for n items (1 unless it is `many`), n_params values each in a row, in one transaction of its
     * own or in the one that is open: all of it happens, or nothing. Row by row it hands back what came, in any
     * order. Besides its own failures it answers
     *   ABORTED       guarded: the transaction does not stand, or does not any more
     *   DISCONNECTED  the link is gone and nothing was sent
     *   UNCERTAIN     the link is gone or the reply was not understood: it may have happened
     * after which, as after all of its failures, the core opens another connection, unless this one is alive. */
    renderq_status (*run)(rq_conn *conn, const rq_queue *queue, rq_statement_id id, const rq_value *values, size_t n,
                          rq_row_fn row, void *arg);

    /* Whether the connection can still be used, after a run() that did not answer OK. */
    bool (*alive)(rq_conn *conn);

    /* Whether a FAILED of this number is the engine's own trouble, whatever it was asked for: it is full, short of
     * memory, its disk fails. */
    bool (*ails)(int native);

    /* The engine's own handle: sqlite3 * or CS_CONNECTION *. */
    void *(*native)(rq_conn *conn);
};

extern const rq_driver rq_sqlite_driver, rq_sqlserver_driver;

/* The engine of a URL's scheme, or NULL. */
const rq_driver *rq_driver_find(const char *scheme);

/* The SQL of a file, embedded by the build, from the marker line on. */
typedef struct rq_sql {
    const char *name;       /* "claim", without .sql */
    const char *text;
} rq_sql;

extern const rq_sql rq_sql_sqlite[], rq_sql_sqlserver[], rq_sql_babelfish[];     /* each ends with a NULL name */

/* NULL when there is no such file. */
const char *rq_sql_find(const rq_sql *files, const char *name);

#endif
