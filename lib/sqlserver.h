/* sqlserver.h: what the parts of the SQL Server driver share. It speaks TDS 7.4 through FreeTDS's CT-Library. */
#ifndef RQ_SQLSERVER_H
#define RQ_SQLSERVER_H

#include <ctpublic.h>

#include "driver.h"

/* The first thing that went wrong in a request, as the server or CT-Library told it. */
typedef struct ss_fault {
    bool seen;
    bool server;                /* told by the server; else by CT-Library, whose numbers mean something else */
    int number, state, severity, line;
    char text[512];
} ss_fault;

/* One statement of a queue as it is sent: the prologue, then the file's text with the queue's table. */
typedef struct ss_text {
    struct ss_text *next;
    rq_statement_id id;
    bool many, guarded;
    char *queue;
    char *sql;
} ss_text;

#define SS_TEXTS_MAX 256        /* kept; then all are forgotten and made again */

typedef struct ss_conn {
    rq_conn base;
    CS_CONTEXT *context;
    CS_CONNECTION *link;
    CS_COMMAND *command;        /* the one that is running, or NULL */
    bool attached;
    bool babelfish;
    bool broken;                /* what is on the wire is unknown: nothing may be sent on it any more */
    int64_t transaction;        /* the number of the last begin or find */

    /* The running request. Callbacks read and write these. */
    bool connecting;
    bool tidying;               /* no interrupt counts: it was heard already, or is for others */
    bool sent;                  /* something of it may have reached the server */
    bool attention;             /* the server was asked to stop */
    bool timed_out, interrupted;
    int64_t deadline_ms;        /* then it is asked to stop */
    int64_t attention_ms;       /* when it was; long after, the connection is given up */
    ss_fault fault;
    CS_VOID *client_callback, *server_callback;     /* the caller's own, while ours are set for a request */
    CS_INT timeout;

    ss_text *texts;
    int n_texts;
} ss_conn;

/* ---- sqlserver_connect.c ---- */

renderq_status rq_ss_connect(ss_conn *conn);
void rq_ss_disconnect(ss_conn *conn);

/* Looks at a connection of the caller's: which engine it leads to, and whether its session can run the statements. */
renderq_status rq_ss_adopt(ss_conn *conn);

/* ---- sqlserver_link.c ---- */

/* Makes our callbacks those of the connection's context, and this thread's request the one that they tell of. */
bool rq_ss_listen(ss_conn *conn);
void rq_ss_hear(ss_conn *conn);

bool rq_ss_set_number(ss_conn *conn, CS_INT property, CS_INT number);

/* Begins a request's time and forgets the one before. */
void rq_ss_begin(ss_conn *conn);

/* Sent plain, and behind a request that failed: a text that runs with XACT_ABORT OFF may leave its transaction open. */
extern const char rq_ss_rollback[];

/* Asks the running request to stop when its time is up or the call was interrupted. Called by the tick that CT-Library
 * gives each second in which nothing comes, and between rows once they take as long. False: the server does not answer
 * that either; give the connection up. */
bool rq_ss_check_time(ss_conn *conn);

/* One parameter of a request. Zero `bytes` is NULL. */
typedef struct ss_param {
    CS_INT type;                /* CS_IMAGE_TYPE: UTF-16LE; CS_LONGCHAR_TYPE: ASCII; CS_INT, CS_BIGINT, CS_BIT */
    const void *bytes;
    CS_INT len;
} ss_param;

/* Sends a text, as an sp_executesql if it has parameters, and hands its rows to `to`; NULL: there should be none, and
 * they are thrown away. Everything up to the end of the reply is read. */
typedef struct ss_rows {
    const rq_type *columns;
    size_t n_columns;
    bool indexed;               /* in front of them stands the item's index, which is below n_items */
    size_t n_items;
    rq_row_fn row;
    void *arg;
    renderq_status refused;     /* by the row function */
} ss_rows;

renderq_status rq_ss_request(ss_conn *conn, const char *sql, const ss_param *params, size_t n, ss_rows *to,
                             const char *doing);

/* ---- sqlserver_error.c ---- */

#define SS_PENDING_MESSAGE    20019     /* ... for "results pending": another command is open on the connection */
#define SS_RAISED_ERROR       50000     /* raised by a text; with this state it is the guard's: no transaction stands */
#define SS_GONE_STATE         251
#define SS_INSIDE_ERROR       51003     /* thrown by a commit: a transaction that the caller began inside is open */
#define SS_TIMEOUT_MESSAGE    20003     /* CT-Library's number for "the server did not answer within CS_TIMEOUT" */
#define SS_UNMAPPED           33557097  /* Babelfish's for PostgreSQL's errors that SQL Server has no number for */
#define SS_CONVERSION_MESSAGE 2403      /* ... a character of the reply could not be converted and became '?' */

/* What a request that did not end well comes to: a status and a text. */
renderq_status rq_ss_error(ss_conn *conn, const char *doing);
bool rq_ss_ails(int number);             /* driver.h tells what that is */

/* ---- sqlserver_sql.c ---- */

/* The text of a statement for a queue, with the guard in front if the connection is guarded; the guard's parameter, if
 * the engine has one for it, comes after all others. NULL: out of memory. Owned by the connection. */
const char *rq_ss_sql(ss_conn *conn, const rq_queue *queue, rq_statement_id id, bool many);
void rq_ss_forget(ss_conn *conn);

/* The file of that name: sql/babelfish has only those that differ there. NULL: there is none. */
const char *rq_ss_find(const char *name, bool babelfish);

/* The expression for the number that tells a transaction from others. */
const char *rq_ss_transaction_number(const ss_conn *conn);

/* Ends a batch with an error unless the transaction of that number stands. `transaction` is SQL. */
#define SS_GUARD_MAX 256
void rq_ss_guard(const ss_conn *conn, const char *transaction, char *out, size_t size);

/* A script's text for a queue, to be freed; NULL: out of memory. */
char *rq_ss_script(const char *sql, const rq_queue *queue);

/* The values of one item as parameters; *room is what their bytes lie in, to be freed. False: out of memory.
 * `utf8`: texts go so, as Babelfish's prologue wants them; else as UTF-16LE. */
bool rq_ss_params(const rq_statement *statement, const rq_value *values, bool utf8, ss_param *params, char **room);

/* The values of many items as one parameter: a JSON array, as a text. False: out of memory, or longer than
 * nvarchar(max) holds; then *fits is false too. */
bool rq_ss_items(const rq_statement *statement, const rq_value *values, size_t n, bool utf8, ss_param *param,
                 char **room, bool *fits);

/* ---- sqlserver_babelfish.c ---- */

/* INVALID for a name that Babelfish cannot read. */
renderq_status rq_ss_babelfish_name(const ss_conn *conn, const rq_queue *queue);

/* The request that has just failed did so with the number that Babelfish has for much. */
bool rq_ss_babelfish_unclear(const ss_conn *conn);

/* What such a failure comes to: the status and text that the server's own number would have given. The request was
 * begun at asked_ms. */
renderq_status rq_ss_babelfish_reason(ss_conn *conn, const rq_queue *queue, int64_t asked_ms, const char *doing);

/* ---- freetds_conf.c ---- */

/* Whether the freetds.conf that FreeTDS is going to read demands encryption for this server ("host:port" or the name
 * of a section). where (PATH_MAX bytes) receives the file's name, or where it looked for one. */
bool rq_freetds_demands_encryption(const char *server, char *where, size_t size);

#endif
