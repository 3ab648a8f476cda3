/* sqlserver_link.c: one request on a connection to SQL Server: sent, timed, its reply read to the end. The connection
 * is made in sqlserver_connect.c; what the request says is in sqlserver_sql.c, what its failure means in
 * sqlserver_error.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "sqlserver.h"
#include "utf.h"

#define ATTENTION_MS 5000       /* how long the server may take to stop */
#define TICK_MS      1000
#define TEXT_BUFFER  1024       /* longer texts are read in a second step */

/* CT-Library hands its callbacks no pointer of ours that works for the errors of the library itself and for a
 * connection of the caller's alike; they find the request by the thread that is in it. */
static __thread ss_conn *current;

const char rq_ss_rollback[] = "-- renderq: rollback\nIF @@TRANCOUNT > 0 ROLLBACK TRANSACTION";

/* ---- messages ---- */

static void note(ss_conn *conn, bool server, int number, int state, int severity, int line, const char *text,
                 size_t len)
{
    ss_fault *fault = &conn->fault;
    if (fault->seen)
        return;
    *fault = (ss_fault){ .seen = true, .server = server, .number = number, .state = state, .severity = severity,
                         .line = line };
    char whole[1025];
    len = len < sizeof whole ? len : sizeof whole - 1;
    memcpy(whole, text, len);
    whole[len] = 0;
    rq_utf_repair(whole, sizeof fault->text / 3 - 1, fault->text, sizeof fault->text);
    for (char *c = fault->text; *c; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
}

static CS_RETCODE on_server_message(CS_CONTEXT *context, CS_CONNECTION *link, CS_SERVERMSG *message)
{
    (void)context;
    (void)link;
    if (current && message->severity > 10)
        note(current, true, (int)message->msgnumber, (int)message->state, (int)message->severity, (int)message->line,
             message->text, (size_t)message->textlen);
    return CS_SUCCEED;
}

static CS_RETCODE on_client_message(CS_CONTEXT *context, CS_CONNECTION *link, CS_CLIENTMSG *message)
{
    (void)context;
    (void)link;
    ss_conn *conn = current;
    if (!conn)
        return CS_SUCCEED;
    if (message->msgnumber == SS_TIMEOUT_MESSAGE) {
        if (conn->connecting) {
            conn->timed_out = true;
            return CS_FAIL;
        }
        return rq_ss_check_time(conn) ? CS_SUCCEED : CS_FAIL;
    }
    note(conn, false, (int)message->msgnumber, 0, (int)message->severity, 0, message->msgstring,
         (size_t)message->msgstringlen);
    return CS_SUCCEED;
}

bool rq_ss_check_time(ss_conn *conn)
{
    int64_t now = rq_clock_ms();
    if (conn->attention) {
        /* It goes nowhere before the first ct_results(), and once it has gone it is not sent again. */
        if (conn->command)
            ct_cancel(NULL, conn->command, CS_CANCEL_ATTN);
        return now - conn->attention_ms < ATTENTION_MS;
    }
    if (!conn->interrupted && !conn->tidying)
        conn->interrupted = rq_stop_raised(conn->base.session->stop);
    if (!conn->interrupted)
        conn->timed_out = now >= conn->deadline_ms;
    if ((conn->interrupted || conn->timed_out) && conn->command) {
        conn->attention = true;
        conn->attention_ms = now;
        ct_cancel(NULL, conn->command, CS_CANCEL_ATTN);
    }
    return true;
}

void rq_ss_begin(ss_conn *conn)
{
    conn->sent = conn->attention = conn->timed_out = conn->interrupted = false;
    conn->fault.seen = false;
    conn->deadline_ms = rq_clock_ms() + (int64_t)conn->base.session->command_s * 1000;
}

/* ---- whose messages ---- */

bool rq_ss_set_number(ss_conn *conn, CS_INT property, CS_INT number)
{
    return ct_con_props(conn->link, CS_SET, property, &number, CS_UNUSED, NULL) == CS_SUCCEED;
}

/* The interface takes functions as CS_VOID *, which C has no cast for. */
static CS_VOID *callback(void (*function)(void))
{
    CS_VOID *pointer;
    memcpy(&pointer, &function, sizeof pointer);
    return pointer;
}

static bool set_callback(ss_conn *conn, CS_INT type, void (*function)(void))
{
    return ct_callback(conn->context, NULL, CS_SET, type, callback(function)) == CS_SUCCEED;
}

bool rq_ss_listen(ss_conn *conn)
{
    return set_callback(conn, CS_CLIENTMSG_CB, (void (*)(void))on_client_message)
           && set_callback(conn, CS_SERVERMSG_CB, (void (*)(void))on_server_message);
}

void rq_ss_hear(ss_conn *conn)
{
    current = conn;
}

/* A connection of the caller's has callbacks and a timeout of its own, and so may one of ours get by renderq_native().
 * For a request they are ours, so that its messages reach us, and the caller hears none of them. */
static void borrow(ss_conn *conn)
{
    conn->client_callback = conn->server_callback = NULL;
    ct_callback(NULL, conn->link, CS_GET, CS_CLIENTMSG_CB, &conn->client_callback);
    ct_callback(NULL, conn->link, CS_GET, CS_SERVERMSG_CB, &conn->server_callback);
    ct_con_props(conn->link, CS_GET, CS_TIMEOUT, &conn->timeout, CS_UNUSED, NULL);
    ct_callback(NULL, conn->link, CS_SET, CS_CLIENTMSG_CB, callback((void (*)(void))on_client_message));
    ct_callback(NULL, conn->link, CS_SET, CS_SERVERMSG_CB, callback((void (*)(void))on_server_message));
    rq_ss_set_number(conn, CS_TIMEOUT, 1);        /* the tick; see rq_ss_check_time() */
}

static void give_back(ss_conn *conn)
{
    ct_callback(NULL, conn->link, CS_SET, CS_CLIENTMSG_CB, conn->client_callback);
    ct_callback(NULL, conn->link, CS_SET, CS_SERVERMSG_CB, conn->server_callback);
    rq_ss_set_number(conn, CS_TIMEOUT, conn->timeout);
}

/* ---- one request ---- */

static bool add_param(CS_COMMAND *command, size_t i, const ss_param *param)
{
    CS_DATAFMT format;
    memset(&format, 0, sizeof format);
    snprintf(format.name, sizeof format.name, "@P%zu", i + 1);
    format.namelen = CS_NULLTERM;
    format.datatype = param->type;
    format.status = CS_INPUTVALUE;
    /* One length for all values: each other one would be another plan. */
    format.maxlength = param->type == CS_IMAGE_TYPE ? 0x7fffffff : param->type == CS_LONGCHAR_TYPE ? 64 : CS_UNUSED;
    bool fixed = param->type != CS_IMAGE_TYPE && param->type != CS_LONGCHAR_TYPE;
    return ct_param(command, &format, (void *)(uintptr_t)param->bytes, fixed ? CS_UNUSED : param->len,
                    param->bytes ? 0 : -1) == CS_SUCCEED;
}

static bool send_request(ss_conn *conn, const char *sql, const ss_param *params, size_t n)
{
    if (ct_command(conn->command, CS_LANG_CMD, sql, CS_NULLTERM, CS_UNUSED) != CS_SUCCEED)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!add_param(conn->command, i, &params[i]))
            return false;           /* sent now, it would go out without any */
    CS_RETCODE rc = ct_send(conn->command);
    if (rc == CS_CANCELED)          /* a cancel that came late was waiting for it; nothing was sent */
        rc = ct_send(conn->command);
    if (rc != CS_SUCCEED && conn->fault.seen && conn->fault.number == SS_PENDING_MESSAGE && !conn->fault.server)
        return false;               /* nothing was sent either */
    conn->sent = true;
    if (rc != CS_SUCCEED)
        conn->broken = true;        /* bytes that were left over would begin the next request */
    return rc == CS_SUCCEED;
}

/* One column of the row that is being read. */
typedef struct cell {
    CS_BIGINT number;
    CS_INT copied;
    CS_SMALLINT indicator;
    char small[TEXT_BUFFER];
    char *large;                    /* the whole text where it did not fit */
    size_t large_len;
} cell;

static bool bind_column(CS_COMMAND *command, size_t i, rq_type type, cell *c)
{
    CS_DATAFMT format;
    memset(&format, 0, sizeof format);
    bool text = type == RQ_TEXT || type == RQ_GUID;
    c->large = NULL;
    format.datatype = text ? CS_CHAR_TYPE : CS_BIGINT_TYPE;
    format.format = CS_FMT_UNUSED;
    format.count = 1;
    format.maxlength = text ? TEXT_BUFFER : (CS_INT)sizeof c->number;
    return ct_bind(command, (CS_INT)i + 1, &format, text ? (void *)c->small : (void *)&c->number, &c->copied,
                   &c->indicator) == CS_SUCCEED;
}

/* Reads a text that did not fit its buffer. */
static bool read_whole(CS_COMMAND *command, size_t i, cell *c)
{
    size_t room = TEXT_BUFFER;
    c->large_len = 0;
    for (;;) {
        CS_INT got = 0;
        char *more = realloc(c->large, room *= 2);
        if (!more)
            return false;
        c->large = more;
        CS_INT step = room - c->large_len > 0x7ffffff0 ? 0x7ffffff0 : (CS_INT)(room - c->large_len);
        CS_RETCODE rc = ct_get_data(command, (CS_INT)i + 1, c->large + c->large_len, step, &got);
        c->large_len += (size_t)got;
        if (rc == CS_END_ITEM || rc == CS_END_DATA)
            return true;
        if (rc != CS_SUCCEED)
            return false;
    }
}

typedef struct reader {
    ss_conn *conn;
    ss_rows *to;
    cell *cells;
    size_t n;                       /* columns, the index included */
    bool ended;                     /* the reply was read to its end: the next request may be sent */
} reader;

static rq_type column_type(const ss_rows *to, size_t i)
{
    if (!to->indexed)
        return to->columns[i];
    return i == 0 ? RQ_INT : to->columns[i - 1];
}

/* What a statement's file makes the server answer did not come: whether it was done cannot be told, and what else is on
 * the wire neither. */
static renderq_status not_understood(const reader *r, const char *what, size_t column)
{
    r->conn->broken = true;
    return rq_error_set(r->conn->base.session->error, RENDERQ_UNCERTAIN, 0,
                        "the server's answer was not understood: column %zu %s; is it an SQL Server?", column + 1,
                        what);
}

static bool read_guid(const cell *c, rq_guid *guid)
{
    char text[37];
    memcpy(text, c->small, 36);
    text[36] = 0;
    return c->copied == 36 && rq_guid_parse(text, guid);
}

/* CT-Library hands a row out also where it could not convert a column, whose number is then the row's before. */
static bool number_fits(const cell *c, rq_type type)
{
    int64_t min = type == RQ_BIT ? 0 : type == RQ_INT ? INT32_MIN : INT64_MIN;
    int64_t max = type == RQ_BIT ? 1 : type == RQ_INT ? INT32_MAX : INT64_MAX;
    return c->copied == (CS_INT)sizeof c->number && c->number >= min && c->number <= max;
}

static const char *what_is_wrong(const cell *c, rq_type type, rq_guid *guid)
{
    if (c->indicator == -1)
        return NULL;
    if (type == RQ_TEXT)
        return c->copied >= 0 ? NULL : "holds no text";
    if (type == RQ_GUID)
        return read_guid(c, guid) ? NULL : "holds no GUID";
    return number_fits(c, type) ? NULL : "holds no number that fits";
}

static rq_value value_of(const cell *c, rq_type type, const rq_guid *guid)
{
    if (c->indicator == -1)
        return (rq_value){ .present = false };
    if (type == RQ_INT || type == RQ_BIGINT || type == RQ_BIT)
        return rq_number(c->number);
    if (type == RQ_TEXT)
        return c->large ? rq_bytes(c->large, c->large_len) : rq_bytes(c->small, (size_t)c->copied);
    return rq_guid_value(guid);
}

/* Hands a row over. What does not fit its buffer is told by CS_ROW_FAIL, and the row stays current. */
static renderq_status hand_row(reader *r, bool cut)
{
    rq_value columns[RQ_COLUMNS_MAX + 1] = { { .present = false } };
    rq_guid guids[RQ_COLUMNS_MAX + 1];
    renderq_status status = RENDERQ_OK;
    for (size_t i = 0; i < r->n && status == RENDERQ_OK; i++) {
        rq_type type = column_type(r->to, i);
        cell *c = &r->cells[i];
        if (cut && type == RQ_TEXT && c->indicator != -1 && c->copied >= TEXT_BUFFER
            && !read_whole(r->conn->command, i, c))
            status = rq_error_set(r->conn->base.session->error, RENDERQ_NOMEM, 0, "out of memory for a row");
        const char *wrong = what_is_wrong(c, type, &guids[i]);
        if (status == RENDERQ_OK && wrong)
            status = not_understood(r, wrong, i);
        columns[i] = value_of(c, type, &guids[i]);
    }
    size_t first = r->to->indexed ? 1 : 0;
    if (status == RENDERQ_OK && first
        && (!columns[0].present || columns[0].number < 0 || (size_t)columns[0].number >= r->to->n_items))
        status = not_understood(r, "names an item that was not sent", 0);
    if (status == RENDERQ_OK)
        status = r->to->row(r->to->arg, first ? (size_t)columns[0].number : 0, columns + first);
    for (size_t i = 0; i < r->n; i++) {
        free(r->cells[i].large);
        r->cells[i].large = NULL;
    }
    return status;
}

/* What cannot be read is then seen not to be there. */
static void clear_cells(const reader *r)
{
    for (size_t i = 0; i < r->n; i++) {
        r->cells[i].copied = -1;
        r->cells[i].indicator = 0;
    }
}

static bool is_text(CS_INT type)
{
    static const CS_INT texts[] = { CS_CHAR_TYPE, CS_VARCHAR_TYPE, CS_LONGCHAR_TYPE, CS_TEXT_TYPE, CS_UNICHAR_TYPE,
                                    CS_UNITEXT_TYPE };
    bool found = false;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        found |= type == texts[i];
    return found;
}

/* Whether the rows that are going to come are those of the statement. CT-Library would turn one type into another where
 * it can, and leave the buffer as it is where it cannot. */
static renderq_status check_columns(reader *r, size_t described)
{
    if (described > r->n)
        return not_understood(r, "is one too many", r->n);
    for (size_t i = 0; i < r->n; i++) {
        CS_DATAFMT format;
        rq_type type = column_type(r->to, i);
        if (i >= described)
            return not_understood(r, "is missing", i);
        if (ct_describe(r->conn->command, (CS_INT)i + 1, &format) != CS_SUCCEED
            || is_text(format.datatype) != (type == RQ_TEXT || type == RQ_GUID))
            return not_understood(r, "is of another type", i);
    }
    return RENDERQ_OK;
}

/* A server that trickles gives no tick, so here is one, between rows. What comes within a second of the first row is read
 * to its end: the server may have said all of it, and an attention that comes too late would only spoil the answer. */
static bool tick(const reader *r, int64_t *next_ms)
{
    int64_t now = rq_clock_ms();
    bool first = *next_ms == 0, due = !first && now >= *next_ms;
    if (first || due)
        *next_ms = now + TICK_MS;
    return !due || rq_ss_check_time(r->conn);
}

/* Fetches the rows of one result. After a refusal the rest is read and thrown away. */
static CS_RETCODE fetch_rows(reader *r)
{
    CS_INT described = 0;
    CS_COMMAND *command = r->conn->command;
    if (ct_res_info(command, CS_NUMDATA, &described, CS_UNUSED, NULL) != CS_SUCCEED)
        return CS_FAIL;
    if (r->to && r->to->refused == RENDERQ_OK)
        r->to->refused = check_columns(r, (size_t)described);
    bool wanted = r->to && r->to->refused == RENDERQ_OK;
    for (size_t i = 0; wanted && i < r->n; i++)
        if (!bind_column(command, i, column_type(r->to, i), &r->cells[i]))
            return CS_FAIL;
    CS_INT rows = 0;
    CS_RETCODE rc;
    int64_t next_ms = 0;
    clear_cells(r);
    while ((rc = ct_fetch(command, CS_UNUSED, CS_UNUSED, CS_UNUSED, &rows)) == CS_SUCCEED || rc == CS_ROW_FAIL) {
        if (wanted && r->to->refused == RENDERQ_OK)
            r->to->refused = hand_row(r, rc == CS_ROW_FAIL);
        clear_cells(r);
        if (!tick(r, &next_ms))
            return CS_FAIL;
    }
    return rc;
}

/* True: the reply was read to its end and was whole. An interrupt or a deadline behind a result may come behind the last
 * one, so it does not end the reading: if more is to come and does not, there is a tick. */
static bool read_reply(reader *r)
{
    CS_INT type = CS_CMD_DONE;
    CS_RETCODE rc;
    bool whole = true;
    while ((rc = ct_results(r->conn->command, &type)) == CS_SUCCEED) {
        if (type == CS_ROW_RESULT || type == CS_STATUS_RESULT || type == CS_PARAM_RESULT) {
            reader skip = { .conn = r->conn };
            whole = fetch_rows(type == CS_ROW_RESULT ? r : &skip) == CS_END_DATA && whole;
        } else if (type == CS_CMD_FAIL) {
            whole = false;
        }
        if (r->conn->attention && !rq_ss_check_time(r->conn))
            return false;
    }
    r->ended = rc == CS_END_RESULTS || rc == CS_CANCELED;
    return rc == CS_END_RESULTS && whole;
}

static bool is_connected(ss_conn *conn)
{
    CS_INT state = 0;
    return ct_con_props(conn->link, CS_GET, CS_CON_STATUS, &state, CS_UNUSED, NULL) == CS_SUCCEED
           && (state & CS_CONSTAT_CONNECTED) && !(state & CS_CONSTAT_DEAD);
}

static renderq_status exchange(ss_conn *conn, const char *sql, const ss_param *params, size_t n, reader *r,
                               const char *doing)
{
    if (ct_cmd_alloc(conn->link, &conn->command) != CS_SUCCEED)
        return rq_error_set(conn->base.session->error, RENDERQ_NOMEM, 0, "%s: out of memory", doing);
    bool whole = send_request(conn, sql, params, n) && read_reply(r);
    if (conn->sent && (!r->ended || !is_connected(conn)))
        conn->broken = true;
    ct_cmd_drop(conn->command);     /* before its connection, which does not free it */
    conn->command = NULL;
    if (!whole && !conn->sent && !conn->fault.seen)
        return rq_error_set(conn->base.session->error, RENDERQ_NOMEM, 0, "%s: out of memory; nothing was done",
                                doing);
    if (!whole || conn->fault.seen || conn->timed_out || conn->interrupted)
        return rq_ss_error(conn, doing);
    return r->to ? r->to->refused : RENDERQ_OK;
}

/* A request that failed or was stopped on its way may have left its own transaction open; the next one would be part of
 * that, and never be committed. */
static void end_transaction(ss_conn *conn)
{
    rq_error *error = conn->base.session->error, before = *error;
    const ss_fault fault = conn->fault;
    reader none = { .conn = conn };
    rq_ss_begin(conn);
    conn->tidying = true;
    if (exchange(conn, rq_ss_rollback, NULL, 0, &none, "rollback") != RENDERQ_OK)
        conn->broken = true;
    conn->tidying = false;
    conn->fault = fault;
    *error = before;
}

static renderq_status take_number(void *arg, size_t item, const rq_value *columns)
{
    (void)item;
    *(int64_t *)arg = columns[0].number;
    return RENDERQ_OK;
}

/* A request in a transaction failed: most errors have ended it, some have not. */
static renderq_status judge_transaction(ss_conn *conn, renderq_status status)
{
    static const rq_type columns[] = { RQ_INT };
    int64_t state = 0;
    cell cells[1] = { { .number = 0 } };
    ss_rows rows = { .columns = columns, .n_columns = 1, .row = take_number, .arg = &state };
    reader r = { .conn = conn, .to = &rows, .cells = cells, .n = 1 };
    rq_error *error = conn->base.session->error, before = *error;
    rq_ss_begin(conn);
    conn->tidying = true;
    if (exchange(conn, "-- renderq: standing\nSELECT CAST(XACT_STATE() AS int)", NULL, 0, &r, "standing") != RENDERQ_OK)
        state = 0;
    conn->tidying = false;
    *error = before;
    if (state == 1 || status == RENDERQ_ABORTED)
        return status;
    conn->base.ended_by = status;
    return rq_error_set(error, RENDERQ_ABORTED, before.native, "the transaction was rolled back: %s", before.text);
}

renderq_status rq_ss_request(ss_conn *conn, const char *sql, const ss_param *params, size_t n, ss_rows *to,
                             const char *doing)
{
    reader r = { .conn = conn, .to = to, .n = to ? to->n_columns + to->indexed : 0 };
    if (conn->broken)
        return rq_error_set(conn->base.session->error, RENDERQ_DISCONNECTED, 0, "%s: the connection broke before",
                            doing);
    if (to) {
        to->refused = RENDERQ_OK;
        r.cells = malloc(r.n * sizeof *r.cells);        /* binding and fetching fill them */
        if (!r.cells)
            return rq_error_set(conn->base.session->error, RENDERQ_NOMEM, 0, "%s: out of memory; nothing was done",
                                doing);
    }
    rq_ss_begin(conn);
    conn->base.ended_by = RENDERQ_OK;
    current = conn;
    borrow(conn);
    renderq_status status = exchange(conn, sql, params, n, &r, doing);
    bool failed = !r.ended || conn->fault.seen || conn->timed_out || conn->interrupted;
    if (failed && conn->sent && !conn->broken)
        status = conn->base.guarded ? judge_transaction(conn, status) : (end_transaction(conn), status);
    give_back(conn);
    current = NULL;
    free(r.cells);
    return status;
}
