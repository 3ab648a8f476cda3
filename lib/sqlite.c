/* sqlite.c: the driver over SQLite. It runs the statements of sql/sqlite in order and hands their rows back.
 *
 * A file may hold several statements. If its first one only reads and a later one writes, the first is a look: it
 * runs before the write lock is taken, its rows stay here, and when it finds none the others are not run. Everything
 * else that writes runs in one BEGIN IMMEDIATE. The first statement that hands rows back is the answer: those behind
 * it are not run, so what asks why nothing was changed costs nothing where something was. Transactions are in
 * sqlite_tx.c, opening and error texts in sqlite_open.c, the schema in sqlite_schema.c. */
#include "sqlite.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"

/* ---- preparing ---- */

/* `engine` false: not what the engine holds, in a child that may not touch it. */
static void free_file(sqlite_file *file, bool engine)
{
    for (int i = 0; i < file->n_parts; i++) {
        if (engine)
            sqlite3_finalize(file->parts[i].stmt);
        free(file->parts[i].binds);
    }
    free(file->parts);
    *file = (sqlite_file){ .parts = NULL };
}

static void free_queue(sqlite_queue *queue, bool engine)
{
    for (size_t i = 0; i < RQ_STATEMENTS; i++)
        free_file(&queue->files[i], engine);
    free(queue->name);
    free(queue);
}

void rq_sqlite_forget(sqlite_conn *conn, bool engine)
{
    while (conn->queues) {
        sqlite_queue *queue = conn->queues;
        conn->queues = queue->next;
        free_queue(queue, engine);
    }
    conn->n_queues = 0;
}

/* The queue's statements, moved to the front; NULL: out of memory. */
static sqlite_queue *find_queue(sqlite_conn *conn, const char *name)
{
    sqlite_queue **link = &conn->queues;
    while (*link && strcmp((*link)->name, name) != 0) {
        if (!(*link)->next && conn->n_queues == SQLITE_QUEUES_MAX) {
            free_queue(*link, true);
            *link = NULL;
            conn->n_queues--;
            break;
        }
        link = &(*link)->next;
    }
    sqlite_queue *queue = *link;
    if (queue) {
        *link = queue->next;
    } else {
        queue = calloc(1, sizeof *queue);
        if (!queue || !(queue->name = strdup(name))) {
            free(queue);
            return NULL;
        }
        conn->n_queues++;
    }
    queue->next = conn->queues;
    conn->queues = queue;
    return queue;
}

char *rq_sqlite_for_queue(const char *sql, const char *table)
{
    size_t len = strlen(sql), quotes = 0, uses = 0, default_len = strlen(RQ_NAME_DEFAULT);
    for (const char *p = table; *p; p++)
        quotes += *p == '"';
    for (const char *p = sql; (p = strstr(p, RQ_NAME_DEFAULT)); p += default_len)
        uses++;
    char *text = malloc(len + uses * (strlen(table) + quotes) + 1);
    if (!text)
        return NULL;
    char *out = text;
    const char *p;
    while ((p = strstr(sql, RQ_NAME_DEFAULT))) {
        memcpy(out, sql, (size_t)(p - sql));
        out += p - sql;
        /* The files write every name of the queue in double quotes. */
        for (const char *c = table; *c; c++) {
            if (*c == '"')
                *out++ = '"';
            *out++ = *c;
        }
        sql = p + default_len;
    }
    memcpy(out, sql, strlen(sql) + 1);
    return text;
}

static int find_param(const rq_statement *statement, const char *name)
{
    for (size_t i = 0; i < statement->n_params; i++)
        if (strcmp(statement->params[i].name, name) == 0)
            return (int)i;
    return -1;
}

static int map_params(sqlite_part *part, const rq_statement *statement)
{
    part->n_binds = sqlite3_bind_parameter_count(part->stmt);
    part->binds = malloc((size_t)part->n_binds + 1);
    if (!part->binds)
        return SQLITE_NOMEM;
    for (int i = 0; i < part->n_binds; i++) {
        const char *name = sqlite3_bind_parameter_name(part->stmt, i + 1);
        int param = name ? find_param(statement, name + 1) : -1;
        if (param < 0)
            return SQLITE_MISUSE;       /* the file and the contract differ; the tests see to it that they don't */
        part->binds[i] = (unsigned char)param;
    }
    return SQLITE_OK;
}

static int prepare_parts(sqlite_conn *conn, sqlite_file *file, const rq_statement *statement, const char *sql)
{
    bool begins_reading = false;
    while (*sql) {
        sqlite3_stmt *stmt = NULL;
        int rc = sqlite3_prepare_v3(conn->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, &sql);
        if (rc != SQLITE_OK)
            return rc;
        if (!stmt)
            break;                      /* only blanks were left */
        sqlite_part *parts = realloc(file->parts, (size_t)(file->n_parts + 1) * sizeof *parts);
        if (!parts) {
            sqlite3_finalize(stmt);
            return SQLITE_NOMEM;
        }
        file->parts = parts;
        sqlite_part *part = &parts[file->n_parts++];
        *part = (sqlite_part){ .stmt = stmt, .reads = sqlite3_stmt_readonly(stmt) != 0 };
        rc = map_params(part, statement);
        if (rc != SQLITE_OK)
            return rc;
        file->writes |= !part->reads;
        begins_reading |= file->n_parts == 1 && part->reads;
    }
    file->looks = file->writes && begins_reading;
    return SQLITE_OK;
}

/* The statements are fixed and tested, so one that the engine rejects means another table than ours. */
static renderq_status schema_error(sqlite_conn *conn, const rq_queue *queue)
{
    rq_error *error = conn->base.session->error;
    char why[256];
    int native = sqlite3_extended_errcode(conn->db);
    sqlite3_snprintf((int)sizeof why, why, "%s", sqlite3_errmsg(conn->db));
    if (sqlite3_table_column_metadata(conn->db, "main", queue->name.table, NULL, NULL, NULL, NULL, NULL, NULL)
        != SQLITE_OK)
        return rq_error_set(error, RENDERQ_SCHEMA, native,
                            "\"%s\" has no queue table \"%s\": renderq_create() or renderq init makes it", conn->path,
                            queue->name.table);
    return rq_error_set(error, RENDERQ_SCHEMA, native,
                        "the table \"%s\" is too old or no queue (%s): renderq_create() or renderq init upgrades it",
                        queue->name.table, why);
}

static renderq_status fault(sqlite_conn *conn, const rq_queue *queue, rq_statement_id id, int rc)
{
    if ((rc & 0xff) == SQLITE_ERROR)
        return schema_error(conn, queue);
    return rq_sqlite_error(conn, rc, rq_statements[id].name);
}

static renderq_status prepare(sqlite_conn *conn, const rq_queue *queue, rq_statement_id id, sqlite_file **out)
{
    sqlite_queue *cache = find_queue(conn, queue->name.table);
    if (!cache)
        return rq_error_set(conn->base.session->error, RENDERQ_NOMEM, 0, "out of memory; nothing was done");
    *out = &cache->files[id];
    if ((*out)->parts)
        return RENDERQ_OK;
    char *sql = rq_sqlite_for_queue(rq_sql_find(rq_sql_sqlite, rq_statements[id].name), queue->name.table);
    int rc = sql ? prepare_parts(conn, *out, &rq_statements[id], sql) : SQLITE_NOMEM;
    free(sql);
    if (rc == SQLITE_OK)
        return RENDERQ_OK;
    renderq_status status = fault(conn, queue, id, rc);     /* before finalizing clears the engine's text */
    free_file(*out, true);
    return status;
}

/* ---- running ---- */

static int bind_value(sqlite3_stmt *stmt, int index, rq_type type, const rq_value *value)
{
    if (!value->present)
        return sqlite3_bind_null(stmt, index);
    if (type == RQ_TEXT)
        return sqlite3_bind_text64(stmt, index, value->bytes, value->len, SQLITE_STATIC, SQLITE_UTF8);
    if (type == RQ_GUID)
        return sqlite3_bind_blob64(stmt, index, value->bytes, value->len, SQLITE_STATIC);
    return sqlite3_bind_int64(stmt, index, value->number);
}

static int bind(const sqlite_part *part, const rq_statement *statement, const rq_value *values)
{
    for (int i = 0; i < part->n_binds; i++) {
        int param = part->binds[i];
        int rc = bind_value(part->stmt, i + 1, statement->params[param].type, &values[param]);
        if (rc != SQLITE_OK)
            return rc;
    }
    return SQLITE_OK;
}

static bool read_column(sqlite3_stmt *stmt, int i, rq_type type, rq_value *out)
{
    *out = (rq_value){ .present = false };
    if (sqlite3_column_type(stmt, i) == SQLITE_NULL)
        return true;
    if (type != RQ_TEXT && type != RQ_GUID) {
        *out = rq_number(sqlite3_column_int64(stmt, i));
        return true;
    }
    const void *bytes = type == RQ_TEXT ? (const void *)sqlite3_column_text(stmt, i) : sqlite3_column_blob(stmt, i);
    size_t len = (size_t)sqlite3_column_bytes(stmt, i);
    if (!bytes && len == 0 && sqlite3_errcode(sqlite3_db_handle(stmt)) != SQLITE_NOMEM)
        bytes = "";
    *out = rq_bytes(bytes, len);
    return bytes != NULL;
}

/* Where a running statement's rows go. A row function's own refusal is told apart from the engine's failures. */
typedef struct sink {
    const rq_statement *statement;
    rq_row_fn row;
    void *arg;
    renderq_status refused;
} sink;

static int hand_row(sqlite_conn *conn, sqlite3_stmt *stmt, size_t item, sink *to)
{
    rq_value columns[RQ_COLUMNS_MAX];
    for (size_t i = 0; i < to->statement->n_columns; i++) {
        if (!read_column(stmt, (int)i, to->statement->columns[i], &columns[i]))
            return SQLITE_NOMEM;
        if (to->statement->columns[i] == RQ_GUID && columns[i].present && columns[i].len != 16) {
            to->refused = rq_error_set(conn->base.session->error, RENDERQ_FAILED, 0,
                                       "%s: a row has an id or lease that is no 16-byte blob", to->statement->name);
            return SQLITE_ABORT;
        }
    }
    to->refused = to->row(to->arg, item, columns);
    return to->refused == RENDERQ_OK ? SQLITE_OK : SQLITE_ABORT;
}

/* Runs one part for one item. *found becomes true when there was a row; a look gets no sink for it. */
static int run_part(sqlite_conn *conn, const sqlite_part *part, const rq_statement *statement, const rq_value *values,
                    size_t item, sink *to, bool *found)
{
    int rc = bind(part, statement, values);
    while (rc == SQLITE_OK && (rc = sqlite3_step(part->stmt)) == SQLITE_ROW) {
        *found = true;
        rc = to ? hand_row(conn, part->stmt, item, to) : SQLITE_DONE;
    }
    sqlite3_reset(part->stmt);          /* a failed step's code again, which is known */
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int run_items(sqlite_conn *conn, const sqlite_file *file, const rq_value *values, size_t n, sink *to)
{
    int rc = SQLITE_OK;
    for (size_t item = 0; item < n && rc == SQLITE_OK; item++) {
        bool answered = false;
        for (int i = file->looks ? 1 : 0; i < file->n_parts && rc == SQLITE_OK && !answered; i++)
            rc = run_part(conn, &file->parts[i], to->statement, values + item * to->statement->n_params, item, to,
                          &answered);
    }
    return rc;
}

static int run_file(sqlite_conn *conn, const sqlite_file *file, const rq_value *values, size_t n, sink *to,
                    bool *started)
{
    bool found = false;
    int rc = SQLITE_OK;
    if (file->looks && n == 1) {
        rc = run_part(conn, &file->parts[0], to->statement, values, 0, NULL, &found);
        if (rc != SQLITE_OK || !found)
            return rc;
    }
    if (!file->writes)
        return run_items(conn, file, values, n, to);
    rc = rq_sqlite_start_work(conn);
    if (rc == SQLITE_OK) {
        *started = true;
        rc = run_items(conn, file, values, n, to);
    }
    return rc == SQLITE_OK ? rq_sqlite_keep_work(conn) : rc;
}

renderq_status rq_sqlite_check_name(const sqlite_conn *conn, const rq_queue *queue)
{
    if (!queue->name.schema[0])
        return RENDERQ_OK;
    return rq_error_set(conn->base.session->error, RENDERQ_INVALID, 0,
                        "queue \"%s\" has two parts, and SQLite has no schemas: write %s, or [%s.%s] for a table with "
                        "a dot in its name", queue->text, queue->name.table, queue->name.schema, queue->name.table);
}

static renderq_status sqlite_run(rq_conn *base, const rq_queue *queue, rq_statement_id id, const rq_value *values,
                                 size_t n, rq_row_fn row, void *arg)
{
    sqlite_conn *conn = (sqlite_conn *)base;
    base->ended_by = RENDERQ_OK;
    renderq_status status = rq_sqlite_check_name(conn, queue);
    if (status == RENDERQ_OK && base->guarded && !rq_sqlite_stands(conn))
        status = rq_sqlite_gone(conn, rq_statements[id].name);
    if (status == RENDERQ_OK)
        status = rq_sqlite_ready(conn);
    if (status != RENDERQ_OK)
        return status;
    conn->busy_until = rq_clock_ms() + conn->busy_ms;
    sqlite_file *file = NULL;
    status = prepare(conn, queue, id, &file);
    if (status != RENDERQ_OK)
        return status;
    sink to = { .statement = &rq_statements[id], .row = row, .arg = arg, .refused = RENDERQ_OK };
    bool in_transaction = !sqlite3_get_autocommit(conn->db), started = false;
    int rc = run_file(conn, file, values, n, &to, &started);
    if (rc == SQLITE_OK)
        return RENDERQ_OK;
    status = to.refused != RENDERQ_OK ? to.refused : fault(conn, queue, id, rc);
    if (started)
        rq_sqlite_undo_work(conn);
    if (in_transaction && (!conn->db || conn->left_open || sqlite3_get_autocommit(conn->db))) {
        rq_error *error = base->session->error;
        base->ended_by = status;
        status = rq_error_set(error, RENDERQ_ABORTED, error->native, "the transaction was rolled back: %s",
                              error->text);
    }
    return status;
}

/* ---- connecting ---- */

/* Takes over what open and attach have in common; NULL: out of memory. */
static sqlite_conn *new_conn(const rq_session *session, const char *path)
{
    sqlite_conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        return NULL;
    conn->base = (rq_conn){ .driver = &rq_sqlite_driver, .session = session };
    conn->path = strdup(path);
    if (!conn->path) {
        free(conn);
        return NULL;
    }
    return conn;
}

static void sqlite_abandon(rq_conn *base)
{
    sqlite_conn *conn = (sqlite_conn *)base;
    if (!conn)
        return;
    rq_sqlite_forget(conn, false);
    free(conn->path);
    free(conn);
}

static void sqlite_close(rq_conn *base)
{
    sqlite_conn *conn = (sqlite_conn *)base;
    if (!conn)
        return;
    rq_sqlite_drop(conn);
    sqlite_abandon(base);
}

/* Whole milliseconds of an option; false: it is none. */
static bool parse_ms(const char *text, int *out)
{
    char *end;
    long ms = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || ms > 3600000)
        return false;
    *out = (int)ms;
    return true;
}

static renderq_status check_options(const rq_session *session, int *busy_ms)
{
    const rq_url *url = session->url;
    const char *synchronous = rq_url_option(url, "synchronous"), *busy = rq_url_option(url, "busy_timeout_ms"),
               *network = rq_url_option(url, "network_fs");
    *busy_ms = session->command_s * 1000;
    if (synchronous && strcmp(synchronous, "full") != 0 && strcmp(synchronous, "normal") != 0)
        return rq_error_set(session->error, RENDERQ_INVALID, 0, "synchronous=%s: it is full or normal", synchronous);
    if (busy && !parse_ms(busy, busy_ms))
        return rq_error_set(session->error, RENDERQ_INVALID, 0,
                            "busy_timeout_ms=%s: it is a number of milliseconds, 0 to 3600000", busy);
    if (network && strcmp(network, "allow") != 0)
        return rq_error_set(session->error, RENDERQ_INVALID, 0, "network_fs=%s: it is allow, or left out", network);
    if (url->has_authority && (url->host || url->user || url->port))
        return rq_error_set(session->error, RENDERQ_INVALID, 0,
                            "an SQLite URL names a file, not a host: sqlite:jobs.db or sqlite:/var/lib/app/jobs.db");
    if (!*url->path || strcmp(url->path, ":memory:") == 0)
        return rq_error_set(session->error, RENDERQ_INVALID, 0,
                            "an SQLite queue needs a file, since each handle would have a memory of its own: "
                            "sqlite:jobs.db");
    return RENDERQ_OK;
}

static renderq_status sqlite_open(const rq_session *session, rq_conn **out)
{
    int busy_ms;
    *out = NULL;
    renderq_status status = check_options(session, &busy_ms);
    if (status != RENDERQ_OK)
        return status;
    sqlite_conn *conn = new_conn(session, session->url->path);
    if (!conn)
        return rq_error_set(session->error, RENDERQ_NOMEM, 0, "out of memory");
    conn->busy_ms = busy_ms;
    status = rq_sqlite_open_file(conn, false);
    if (status == RENDERQ_OK)
        *out = &conn->base;
    else
        sqlite_close(&conn->base);
    return status;
}

/* The caller's connection keeps its own busy handler, progress handler and settings. */
static renderq_status sqlite_attach(const rq_session *session, void *native, rq_conn **out)
{
    const char *path = sqlite3_db_filename(native, "main");
    sqlite_conn *conn = new_conn(session, path ? path : "");
    *out = NULL;
    if (!conn)
        return rq_error_set(session->error, RENDERQ_NOMEM, 0, "out of memory");
    conn->db = native;
    conn->attached = true;
    *out = &conn->base;
    return RENDERQ_OK;
}

/* There is no link that could break. */
static bool sqlite_alive(rq_conn *base)
{
    (void)base;
    return true;
}

static void *sqlite_native(rq_conn *base)
{
    return ((sqlite_conn *)base)->db;
}

static const char *const option_names[] = { "synchronous", "busy_timeout_ms", "network_fs", NULL };

const rq_driver rq_sqlite_driver = {
    .scheme = "sqlite",
    .options = option_names,
    .open = sqlite_open,
    .attach = sqlite_attach,
    .find = rq_sqlite_find,
    .reads_snapshots = true,
    .find_is_vague = true,
    .close = sqlite_close,
    .abandon = sqlite_abandon,
    .begin = rq_sqlite_begin,
    .commit = rq_sqlite_commit,
    .rollback = rq_sqlite_rollback,
    .create = rq_sqlite_create,
    .run = sqlite_run,
    .alive = sqlite_alive,
    .ails = rq_sqlite_ails,
    .native = sqlite_native,
};
