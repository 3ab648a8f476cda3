/* sqlserver_babelfish.c: what the driver does otherwise where the server is Babelfish for PostgreSQL: names that cannot
 * be parsed there, and the one number that many errors share. Its statements are in sql/babelfish, how its texts travel
 * in sqlserver_sql.c. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "sqlserver.h"

renderq_status rq_ss_babelfish_name(const ss_conn *conn, const rq_queue *queue)
{
    if (!strchr(queue->name.schema, ']') && !strchr(queue->name.table, ']'))
        return RENDERQ_OK;
    return rq_error_set(conn->base.session->error, RENDERQ_INVALID, 0,
                        "the queue's name %.200s has a ], which Babelfish cannot read: name the table otherwise",
                        queue->text);
}

/* ---- the error without a number ---- */

bool rq_ss_babelfish_unclear(const ss_conn *conn)
{
    return conn->babelfish && !conn->broken && conn->fault.seen && conn->fault.server
           && conn->fault.number == SS_UNMAPPED;
}

typedef struct findings {
    int64_t columns, rights, lock_timeout_ms;
} findings;

static renderq_status take_findings(void *arg, size_t item, const rq_value *columns)
{
    (void)item;
    *(findings *)arg = (findings){ columns[0].number, columns[1].number, columns[2].number };
    return RENDERQ_OK;
}

static renderq_status look(ss_conn *conn, const rq_queue *queue, findings *out)
{
    static const rq_type columns[] = { RQ_INT, RQ_INT, RQ_INT };
    ss_rows rows = { .columns = columns, .n_columns = 3, .row = take_findings, .arg = out };
    char *sql = rq_ss_script(rq_ss_find("missing", true), queue);
    if (!sql)
        return RENDERQ_NOMEM;
    renderq_status status = rq_ss_request(conn, sql, NULL, 0, &rows, "looking for the reason");
    free(sql);
    return status;
}

/* A missing table, a missing right and a lock that did not come are told by the same number, and its text is not read:
 * it may be translated. So the table is looked at; and where nothing is missing, a request that took as long as a lock
 * is waited for has waited for one. */
renderq_status rq_ss_babelfish_reason(ss_conn *conn, const rq_queue *queue, int64_t asked_ms, const char *doing)
{
    rq_error *error = conn->base.session->error, before = *error;
    const ss_fault fault = conn->fault;
    int64_t took_ms = rq_clock_ms() - asked_ms;
    findings found = { 0, 0, -1 };
    renderq_status status = RENDERQ_FAILED;
    const char *advice = NULL;
    if (look(conn, queue, &found) != RENDERQ_OK) {
        *error = before;
        return RENDERQ_FAILED;
    }
    if (found.columns) {
        status = RENDERQ_SCHEMA;
        advice = "the queue's table is missing or too old: renderq_create() or sql/babelfish/schema.sql makes it; "
                 "or this login may not use it";
    } else if (found.lock_timeout_ms >= 0 && took_ms >= found.lock_timeout_ms) {
        status = RENDERQ_BUSY;
        advice = "another session kept a lock for too long; nothing was done";
    } else if (found.rights) {
        status = RENDERQ_DENIED;
        advice = "a permission is missing: see sql/sqlserver/grants.sql";
    }
    if (!advice) {
        *error = before;
        return status;
    }
    return rq_error_set(error, status, fault.number, "%s: %s (SQL Server error %d, state %d: %s)", doing, advice,
                        fault.number, fault.state, fault.text);
}
