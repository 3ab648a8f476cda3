/* sqlserver_error.c: what SQL Server's error numbers mean to a caller. Never read from their texts: those are
 * translated. */
#include <string.h>

#include "sqlserver.h"

/* A fault that goes away by itself: a failover, a server that restarts, Azure's throttling. */
#define PASSING RENDERQ_DISCONNECTED

static const struct meaning {
    int number;
    renderq_status status;
    const char *advice;
} meanings[] = {
    { 1205, RENDERQ_BUSY, "it was a deadlock's victim; nothing was done" },
    { 1222, RENDERQ_BUSY, "another session kept a lock for too long; nothing was done" },
    { 3960, RENDERQ_BUSY, "a snapshot conflict; nothing was done" },
    { 207, RENDERQ_SCHEMA, "the queue's table is too old: renderq_create() or sql/sqlserver/schema.sql upgrades it" },
    { 208, RENDERQ_SCHEMA, "the queue's table is missing: renderq_create() or sql/sqlserver/schema.sql makes it" },
    { 547, RENDERQ_SCHEMA, "a constraint of the table forbids it" },
    { 515, RENDERQ_SCHEMA, "the table has a column of its own that may not be NULL and has no default" },
    { 2601, RENDERQ_SCHEMA, "a unique index of the table's own forbids it" },
    { 2627, RENDERQ_SCHEMA, "a unique constraint of the table's own forbids it" },
    { 334, RENDERQ_SCHEMA, "the table has a trigger, and OUTPUT without INTO does not work there: drop it" },
    { 1934, RENDERQ_SCHEMA, "a SET option of this session is wrong for filtered indexes" },
    { SS_INSIDE_ERROR, RENDERQ_ABORTED, "SQL of the caller's began a transaction inside it and did not commit that" },
    { 51000, RENDERQ_SCHEMA, "this table cannot become a queue; nothing was changed" },
    { 2812, RENDERQ_SCHEMA, "a procedure is missing: run sql/sqlserver/watchdog.sql" },
    { 650, RENDERQ_INVALID, "READPAST does not work in a SNAPSHOT or SERIALIZABLE transaction: use READ COMMITTED" },
    { 2628, RENDERQ_INVALID, "a text is longer than its column in this table" },
    { 8152, RENDERQ_INVALID, "a text is longer than its column in this table" },
    { 229, RENDERQ_DENIED, "a permission is missing: see sql/sqlserver/grants.sql" },
    { 230, RENDERQ_DENIED, "a permission is missing: see sql/sqlserver/grants.sql" },
    { 262, RENDERQ_DENIED, "a permission is missing: a database administrator runs sql/sqlserver/schema.sql" },
    { 911, RENDERQ_DENIED, "the database does not exist" },
    { 916, RENDERQ_DENIED, "this login may not use the database" },
    { 4060, RENDERQ_DENIED, "the database does not exist, or this login may not use it" },
    { 18452, RENDERQ_DENIED, "the login failed" },
    { 18456, RENDERQ_DENIED, "the login failed: wrong user or password" },
    { 18470, RENDERQ_DENIED, "the login is disabled" },
    { 18486, RENDERQ_DENIED, "the login is locked" },
    { 18487, RENDERQ_DENIED, "the password has expired" },
    { 18488, RENDERQ_DENIED, "the password must be changed" },
    { 40532, RENDERQ_DENIED, "the login failed" },
    { 40615, RENDERQ_DENIED, "the server's firewall does not let this address in" },
    { 1101, RENDERQ_FAILED, "the database is full" },
    { 1105, RENDERQ_FAILED, "the database is full" },
    { 9002, RENDERQ_FAILED, "the transaction log is full" },
    { 701, RENDERQ_FAILED, "the server is short of memory" },
    { 802, RENDERQ_FAILED, "the server is short of memory" },
    { 8645, RENDERQ_FAILED, "the server is short of memory" },
    { 8651, RENDERQ_FAILED, "the server is short of memory" },
    { 1204, RENDERQ_FAILED, "the server has no more locks" },
    { 20, PASSING, "try again" },      { 64, PASSING, "try again" },      { 233, PASSING, "try again" },
    { 10053, PASSING, "try again" },   { 10054, PASSING, "try again" },   { 10060, PASSING, "try again" },
    { 10928, PASSING, "try again" },   { 10929, PASSING, "try again" },   { 40197, PASSING, "try again" },
    { 40501, PASSING, "try again" },   { 40613, PASSING, "try again" },   { 49918, PASSING, "try again" },
    { 49919, PASSING, "try again" },   { 49920, PASSING, "try again" },   { 983, PASSING, "try again" },
};

static const struct meaning unknown = { 0, RENDERQ_FAILED, "nothing was done" };

static const struct meaning *meaning_of(int number)
{
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (meanings[i].number == number)
            return &meanings[i];
    return &unknown;
}

/* Those that are known are. */
bool rq_ss_ails(int number)
{
    const struct meaning *meaning = meaning_of(number);
    return meaning != &unknown && meaning->status == RENDERQ_FAILED;
}

static renderq_status told_by_server(ss_conn *conn, const char *doing)
{
    const ss_fault *fault = &conn->fault;
    static const struct meaning gone = {
        SS_RAISED_ERROR, RENDERQ_ABORTED, "an error or SQL of the caller's has ended it; nothing was done, roll back"
    };
    bool is_gone = fault->number == SS_RAISED_ERROR && fault->state == SS_GONE_STATE;
    const struct meaning *meaning = is_gone ? &gone : meaning_of(fault->number);
    renderq_status status = meaning->status;
    /* From 20 on the server ends the session (596: somebody killed it), whatever the number. */
    if (fault->severity >= 20 && meaning == &unknown)
        status = PASSING;
    if (fault->number == SS_UNMAPPED && !conn->sent)
        status = PASSING;           /* at the login: the server starts, or has no room for another connection */
    if (fault->severity >= 20 || status == PASSING)
        conn->broken = true;
    if (status == PASSING && conn->sent)
        status = RENDERQ_UNCERTAIN;
    return rq_error_set(conn->base.session->error, status, fault->number, "%s: %s (SQL Server error %d, state %d: %s)",
                        doing, status == PASSING || status == RENDERQ_UNCERTAIN ? "try again" : meaning->advice,
                        fault->number, fault->state, fault->text);
}

/* Whether the request counted cannot be known once the link broke with it under way. */
static renderq_status link_gone(ss_conn *conn, const char *doing)
{
    const rq_url *url = conn->base.session->url;
    renderq_status status = conn->sent ? RENDERQ_UNCERTAIN : RENDERQ_DISCONNECTED;
    return rq_error_set(conn->base.session->error, status, conn->fault.seen ? conn->fault.number : 0,
                        "%s: no connection to %.200s%s%s", doing, url->host ? url->host : "the server",
                        conn->fault.seen ? ": " : "", conn->fault.seen ? conn->fault.text : "");
}

renderq_status rq_ss_error(ss_conn *conn, const char *doing)
{
    const rq_session *session = conn->base.session;
    if (conn->fault.seen && conn->fault.server)
        return told_by_server(conn, doing);
    if (conn->fault.seen && conn->fault.number == SS_PENDING_MESSAGE)
        return rq_error_set(session->error, RENDERQ_INVALID, conn->fault.number,
                            "%s: a command is still open on the connection: read its results to the end first", doing);
    if (conn->fault.seen && conn->fault.number == SS_CONVERSION_MESSAGE)
        return rq_error_set(session->error, RENDERQ_FAILED, conn->fault.number,
                            "%s: it was done, but a text in the table is not valid Unicode (half of a surrogate pair) "
                            "and cannot be handed out: correct that row", doing);
    if (conn->interrupted)
        return rq_error_set(session->error, conn->sent ? RENDERQ_UNCERTAIN : RENDERQ_INTERRUPTED, 0, "%s: interrupted",
                            doing);
    if (conn->timed_out && !conn->sent)
        return rq_error_set(session->error, RENDERQ_DISCONNECTED, 0, "%s: %.200s did not answer within %d s", doing,
                            session->url->host ? session->url->host : "the server", session->connect_s);
    if (conn->timed_out)
        return rq_error_set(session->error, RENDERQ_UNCERTAIN, 0, "%s: the server took more than %d s", doing,
                            session->command_s);
    return link_gone(conn, doing);
}
