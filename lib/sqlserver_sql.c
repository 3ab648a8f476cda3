/* sqlserver_sql.c: the texts that are sent to SQL Server, and how values travel. No connection here.
 *
 * Values never enter the text. CT-Library has no nvarchar parameter, so Unicode goes as UTF-16LE in varbinary(max), and
 * the parameters are named @P1, @P2, ...; a prologue turns them into the variables that the file's DECLARE shows.
 *
 * Babelfish casts no varbinary to nvarchar. It has PostgreSQL's convert_from() instead, which reads UTF-8. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sqlserver.h"
#include "utf.h"

/* ---- growing text ---- */

typedef struct text {
    char *bytes;
    size_t len, room;
    bool failed;
} text;

static void add_bytes(text *t, const char *bytes, size_t len)
{
    if (t->failed)
        return;
    if (!t->bytes || t->len + len + 1 > t->room) {
        size_t room = 2 * (t->len + len + 1);
        char *more = realloc(t->bytes, room);
        if (!more) {
            t->failed = true;
            return;
        }
        t->bytes = more;
        t->room = room;
    }
    memcpy(t->bytes + t->len, bytes, len);
    t->len += len;
    t->bytes[t->len] = 0;
}

static void add(text *t, const char *bytes)
{
    add_bytes(t, bytes, strlen(bytes));
}

/* The text, or NULL after freeing it when memory ran out. */
static char *finish(text *t)
{
    if (!t->failed && t->bytes)
        return t->bytes;
    free(t->bytes);
    return NULL;
}

/* ---- names ---- */

/* `len` bytes of a name in brackets, each ] doubled; in a literal each quote as well. The bracket stays open. */
static void add_part(text *t, const char *name, size_t len, bool literal)
{
    add(t, "[");
    for (const char *c = name; c < name + len; c++) {
        if (*c == ']' || (literal && *c == '\''))
            add_bytes(t, c, 1);
        add_bytes(t, c, 1);
    }
}

/* How much of a name fits `units` UTF-16 units. */
static size_t fitting(const char *name, size_t units)
{
    size_t len = strlen(name);
    while (rq_utf_check(name, len).units > units)
        while (len > 0 && ((unsigned char)name[--len] & 0xC0) == 0x80)
            continue;
    return len;
}

/* A file names the queue in three ways: [dbo].[VideoRenderJobs] is the table, [dbo].[VideoRenderJobs_ and
 * [VideoRenderJobs_ begin a name that is made of it. In a literal such a name is all there is. */
static const char schema_form[] = "[dbo].", table_form[] = "[" RQ_NAME_DEFAULT;

static bool begins(const char *sql, const char *with)
{
    return strncmp(sql, with, strlen(with)) == 0;
}

/* Puts the queue's name in for the one that sql begins with; how much of sql that was: 0 when it begins with none. */
static size_t add_name(text *t, const char *sql, const rq_name *name, bool literal)
{
    size_t schema_len = begins(sql, schema_form) ? sizeof schema_form - 1 : 0;
    const char *after = sql + schema_len + sizeof table_form - 1;
    if (!begins(sql + schema_len, table_form) || (*after != '_' && (*after != ']' || !schema_len)))
        return 0;
    size_t suffix = strcspn(after, "]");
    if (schema_len && name->schema[0]) {
        add_part(t, name->schema, strlen(name->schema), literal);
        add(t, "].");
    }
    add_part(t, name->table, fitting(name->table, RENDERQ_QUEUE_PART_MAX - suffix), literal);
    return (size_t)(after - sql);
}

static void add_for_queue(text *t, const char *sql, const rq_name *name)
{
    const char *from = sql;
    while ((sql = strchr(sql, '['))) {
        add_bytes(t, from, (size_t)(sql - from));
        size_t used = add_name(t, sql, name, sql > from && sql[-1] == '\'');
        from = sql;
        sql += used ? used : 1;
        if (used)
            from = sql;
    }
    add(t, from);
}

char *rq_ss_script(const char *sql, const rq_queue *queue)
{
    text t = { .bytes = NULL };
    add_for_queue(&t, sql, &queue->name);
    return finish(&t);
}

/* ---- statements ---- */

/* What the variable is, and what the parameter is cast to. One more than the column holds: CAST cuts without a word,
 * and so the column gets to refuse what is too long. */
static void type_name(const rq_param *param, char *out, size_t size)
{
    static const char *const names[] = {
        [RQ_TEXT] = "nvarchar(max)", [RQ_GUID] = "uniqueidentifier", [RQ_INT] = "int", [RQ_BIGINT] = "bigint",
        [RQ_BIT] = "bit"
    };
    if (param->type == RQ_TEXT && param->units)
        snprintf(out, size, "nvarchar(%d)", param->units + 1);
    else
        snprintf(out, size, "%s", names[param->type]);
}

static void add_prologue(text *t, const rq_param *params, size_t n, bool babelfish)
{
    for (size_t i = 0; i < n; i++) {
        char type[32], line[200];
        bool utf8 = babelfish && params[i].type == RQ_TEXT;
        type_name(&params[i], type, sizeof type);
        snprintf(line, sizeof line, utf8 ? "%s@%s %s = CAST(convert_from(CAST(@P%zu AS bytea), 'UTF8') AS %s)"
                                         : "%s@%s %s = CAST(@P%zu AS %s)",
                 i == 0 ? "DECLARE " : ", ", params[i].name, type, i + 1, type);
        add(t, line);
    }
    if (n > 0)
        add(t, ";\n");
}

/* After an error that ended the transaction the session is in autocommit, and what comes next would be committed alone.
 * XACT_STATE() tells that; the number, a transaction that was begun since. RAISERROR, because THROW would end that one
 * under XACT_ABORT. */
void rq_ss_guard(const ss_conn *conn, const char *transaction, char *out, size_t size)
{
    snprintf(out, size, "IF XACT_STATE() <> 1 OR %s <> %s\nBEGIN\n"
             "    RAISERROR(N'the transaction is gone', 16, %d);\n    RETURN;\nEND;\n",
             rq_ss_transaction_number(conn), transaction, SS_GONE_STATE);
}

const char *rq_ss_transaction_number(const ss_conn *conn)
{
    return conn->babelfish ? "txid_current()" : "CURRENT_TRANSACTION_ID()";
}

static void add_guard(text *t, const ss_conn *conn, size_t n_params)
{
    char parameter[32], guard[SS_GUARD_MAX];
    snprintf(parameter, sizeof parameter, "@P%zu", n_params + 1);
    rq_ss_guard(conn, parameter, guard, sizeof guard);
    add(t, guard);
}

static const rq_param items_param[] = { { "items", RQ_TEXT, 0 } };

const char *rq_ss_find(const char *name, bool babelfish)
{
    const char *sql = babelfish ? rq_sql_find(rq_sql_babelfish, name) : NULL;
    return sql ? sql : rq_sql_find(rq_sql_sqlserver, name);
}

static char *make_sql(const ss_conn *conn, const rq_queue *queue, rq_statement_id id, bool many)
{
    text t = { .bytes = NULL };
    const rq_statement *statement = &rq_statements[id];
    size_t n_params = many ? 1 : statement->n_params;
    char name[64];
    snprintf(name, sizeof name, "%s%s", statement->name, many ? "_many" : "");
    const char *sql = rq_ss_find(name, conn->babelfish);
    if (!sql)
        return NULL;
    add(&t, "-- renderq: ");
    add(&t, name);
    add(&t, "\n");
    if (conn->attached)             /* the session's own holds for others */
        add(&t, "SET TEXTSIZE 2147483647;\n");
    if (conn->base.guarded)
        add_guard(&t, conn, n_params);
    add_prologue(&t, many ? items_param : statement->params, n_params, conn->babelfish);
    add_for_queue(&t, sql, &queue->name);
    return finish(&t);
}

void rq_ss_forget(ss_conn *conn)
{
    while (conn->texts) {
        ss_text *made = conn->texts;
        conn->texts = made->next;
        free(made->queue);
        free(made->sql);
        free(made);
    }
    conn->n_texts = 0;
}

const char *rq_ss_sql(ss_conn *conn, const rq_queue *queue, rq_statement_id id, bool many)
{
    for (ss_text *made = conn->texts; made; made = made->next)
        if (made->id == id && made->many == many && made->guarded == conn->base.guarded
            && strcmp(made->queue, queue->text) == 0)
            return made->sql;
    if (conn->n_texts == SS_TEXTS_MAX)
        rq_ss_forget(conn);
    ss_text *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    *made = (ss_text){ .id = id, .many = many, .guarded = conn->base.guarded, .queue = strdup(queue->text),
                       .sql = make_sql(conn, queue, id, many) };
    if (!made->queue || !made->sql) {
        free(made->queue);
        free(made->sql);
        free(made);
        return NULL;
    }
    made->next = conn->texts;
    conn->texts = made;
    conn->n_texts++;
    return made->sql;
}

/* ---- values ---- */

static size_t room_of(rq_type type, const rq_value *value)
{
    if (!value->present)
        return 0;
    return type == RQ_TEXT ? 2 * value->len + 2 : sizeof(renderq_id) + sizeof(CS_BIGINT);
}

/* Puts the value behind the others, at *end, which stays aligned for the next number. */
static void set_param(ss_param *param, rq_type type, const rq_value *value, bool utf8, char **end)
{
    static const CS_INT types[] = {
        [RQ_TEXT] = CS_IMAGE_TYPE, [RQ_GUID] = CS_LONGCHAR_TYPE, [RQ_INT] = CS_INT_TYPE, [RQ_BIGINT] = CS_BIGINT_TYPE,
        [RQ_BIT] = CS_BIT_TYPE
    };
    *param = (ss_param){ .type = types[type] };
    if (!value->present)
        return;
    char *start = *end;
    size_t used = sizeof(CS_BIGINT);
    if (type == RQ_TEXT && utf8) {
        memcpy(start, value->bytes, used = value->len);
        param->len = (CS_INT)used;
    } else if (type == RQ_TEXT) {
        used = rq_utf16le(value->bytes, value->len, (unsigned char *)start);
        param->len = (CS_INT)used;
    } else if (type == RQ_GUID) {
        rq_guid guid;
        renderq_id id;
        memcpy(guid.sort, value->bytes, sizeof guid.sort);
        rq_guid_print(&guid, &id);
        memcpy(start, id.text, used = sizeof id.text);
        param->len = (CS_INT)sizeof id.text - 1;
    } else if (type == RQ_INT) {
        CS_INT number = (CS_INT)value->number;
        memcpy(start, &number, sizeof number);
    } else if (type == RQ_BIGINT) {
        CS_BIGINT number = value->number;
        memcpy(start, &number, sizeof number);
    } else {
        *start = (char)(value->number != 0);
    }
    param->bytes = start;
    *end = start + (used + sizeof(CS_BIGINT) - 1) / sizeof(CS_BIGINT) * sizeof(CS_BIGINT);
}

bool rq_ss_params(const rq_statement *statement, const rq_value *values, bool utf8, ss_param *params, char **room)
{
    size_t size = sizeof(CS_BIGINT);
    for (size_t i = 0; i < statement->n_params; i++)
        size += room_of(statement->params[i].type, &values[i]) + sizeof(CS_BIGINT);
    *room = malloc(size);
    if (!*room)
        return false;
    char *end = *room;
    for (size_t i = 0; i < statement->n_params; i++)
        set_param(&params[i], statement->params[i].type, &values[i], utf8, &end);
    return true;
}

/* ---- many items: JSON ---- */

static void add_json_text(text *t, const char *bytes, size_t len)
{
    add(t, "\"");
    size_t from = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        char escaped[8];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        add_bytes(t, bytes + from, i - from);
        snprintf(escaped, sizeof escaped, "\\u%04x", c);
        add(t, escaped);
        from = i + 1;
    }
    add_bytes(t, bytes + from, len - from);
    add(t, "\"");
}

static void add_json_value(text *t, rq_type type, const rq_value *value)
{
    char number[32];
    if (!value->present) {
        add(t, "null");
    } else if (type == RQ_TEXT) {
        add_json_text(t, value->bytes, value->len);
    } else if (type == RQ_GUID) {
        rq_guid guid;
        renderq_id id;
        memcpy(guid.sort, value->bytes, sizeof guid.sort);
        rq_guid_print(&guid, &id);
        add_json_text(t, id.text, strlen(id.text));
    } else {
        snprintf(number, sizeof number, "%lld", (long long)value->number);
        add(t, number);
    }
}

static char *make_items(const rq_statement *statement, const rq_value *values, size_t n)
{
    text t = { .bytes = NULL };
    for (size_t item = 0; item < n; item++) {
        char head[48];
        snprintf(head, sizeof head, "%s{\"i\":%zu", item == 0 ? "[" : ",", item);
        add(&t, head);
        for (size_t i = 0; i < statement->n_params; i++) {
            add(&t, ",\"");
            add(&t, statement->params[i].name);
            add(&t, "\":");
            add_json_value(&t, statement->params[i].type, &values[item * statement->n_params + i]);
        }
        add(&t, "}");
    }
    add(&t, "]");
    return finish(&t);
}

bool rq_ss_items(const rq_statement *statement, const rq_value *values, size_t n, bool utf8, ss_param *param,
                 char **room, bool *fits)
{
    char *json = make_items(statement, values, n);
    rq_value value = rq_text(json);
    *fits = !json || value.len <= RQ_NVARCHAR_MAX;      /* no text has more UTF-16 units than bytes */
    *room = json && *fits ? malloc(room_of(RQ_TEXT, &value) + sizeof(CS_BIGINT)) : NULL;
    char *end = *room;
    if (*room)
        set_param(param, RQ_TEXT, &value, utf8, &end);
    free(json);
    return *room != NULL;
}
