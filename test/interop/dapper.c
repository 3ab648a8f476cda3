/* dapper.c: dapper.h: one request at a time, its reply read to the end. */
#include "interop/dapper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ctpublic.h>

#include "interop/statements.h"

#define TABLE "dbo.VideoRenderJobs"
#define DUPLICATE_KEY 2627
#define DUPLICATE_IN_INDEX 2601
#define NO_SUCH_RELATION 33557097       /* Babelfish's, for the CTE of an UPDATE */
#define PARAMS_MAX 3

/* A parameter is declared under its own name, since CT-Library sends values without any. */
typedef struct parameter {
    const char *name, *type;
} parameter;

static const struct shape {
    const char *file;
    parameter params[PARAMS_MAX];
} shapes[] = {
    { "table", { { NULL, NULL } } },
    { "enqueue", { { "compositionId", "nvarchar(200)" }, { "payloadJson", "nvarchar(max)" }, { "priority", "int" } } },
    { "claim", { { "workerNodeId", "nvarchar(100)" } } },
    { "claim_babelfish", { { "workerNodeId", "nvarchar(100)" } } },
    { "complete", { { "jobId", "uniqueidentifier" }, { "outputUrl", "nvarchar(1000)" } } },
    { "mark_failed", { { "jobId", "uniqueidentifier" }, { "errorMessage", "nvarchar(max)" } } },
    { "watchdog", { { NULL, NULL } } },
};

struct dapper {
    CS_CONTEXT *context;
    CS_CONNECTION *link;
    char table[300];            /* quoted */
    bool babelfish;
    int error;                  /* of the running request */
    char said[512];
    char sql[4096];
};

/* ---- connecting ---- */

static dapper *owner_of(CS_CONNECTION *link)
{
    dapper *d = NULL;
    if (link)
        ct_con_props(link, CS_GET, CS_USERDATA, &d, (CS_INT)sizeof d, NULL);
    return d;
}

static void note(dapper *d, int number, const char *text)
{
    if (!d || d->error)
        return;
    d->error = number;
    snprintf(d->said, sizeof d->said, "%.500s", text);
}

static CS_RETCODE on_server_message(CS_CONTEXT *context, CS_CONNECTION *link, CS_SERVERMSG *message)
{
    (void)context;
    if (message->severity > 10)
        note(owner_of(link), (int)message->msgnumber, message->text);
    return CS_SUCCEED;
}

static CS_RETCODE on_client_message(CS_CONTEXT *context, CS_CONNECTION *link, CS_CLIENTMSG *message)
{
    (void)context;
    note(owner_of(link), (int)message->msgnumber, message->msgstring);
    return CS_FAIL;
}

static bool set_text(dapper *d, CS_INT property, const char *text)
{
    return ct_con_props(d->link, CS_SET, property, (void *)(uintptr_t)text, CS_NULLTERM, NULL) == CS_SUCCEED;
}

static bool set_number(dapper *d, CS_INT property, CS_INT number)
{
    return ct_con_props(d->link, CS_SET, property, &number, CS_UNUSED, NULL) == CS_SUCCEED;
}

/* The interface takes functions as CS_VOID *, which C has no cast for. */
static bool set_callback(dapper *d, CS_INT type, void (*function)(void))
{
    CS_VOID *pointer;
    memcpy(&pointer, &function, sizeof pointer);
    return ct_callback(d->context, NULL, CS_SET, type, pointer) == CS_SUCCEED;
}

static bool connect_to(dapper *d, const rq_url *url)
{
    char server[300];
    const char *password = url->password ? url->password : getenv("RENDERQ_PASSWORD");
    if (!url->port && !strchr(url->host, ':'))
        snprintf(server, sizeof server, "%s", url->host);
    else
        snprintf(server, sizeof server, strchr(url->host, ':') ? "[%s]:%d" : "%s:%d", url->host,
                 url->port ? url->port : 1433);
    return cs_ctx_alloc(CS_VERSION_100, &d->context) == CS_SUCCEED
           && ct_init(d->context, CS_VERSION_100) == CS_SUCCEED
           && set_callback(d, CS_CLIENTMSG_CB, (void (*)(void))on_client_message)
           && set_callback(d, CS_SERVERMSG_CB, (void (*)(void))on_server_message)
           && ct_con_alloc(d->context, &d->link) == CS_SUCCEED
           && ct_con_props(d->link, CS_SET, CS_USERDATA, &d, (CS_INT)sizeof d, NULL) == CS_SUCCEED
           && set_number(d, CS_TDS_VERSION, CS_TDS_74) && set_text(d, CS_CLIENTCHARSET, "UTF-8")
           && set_number(d, CS_LOGIN_TIMEOUT, 60) && set_number(d, CS_TIMEOUT, 120)
           && set_text(d, CS_USERNAME, url->user) && set_text(d, CS_PASSWORD, password ? password : "")
           && set_text(d, CS_APPNAME, "interop") && (!*url->path || set_text(d, CS_DATABASE, url->path))
           && ct_connect(d->link, server, CS_NULLTERM) == CS_SUCCEED;
}

static void quote(char *out, size_t size, const char *table)
{
    size_t n = 0;
    out[n++] = '[';
    for (const char *c = table; *c && n + 3 < size; c++) {
        out[n++] = *c;
        if (*c == ']')
            out[n++] = ']';
    }
    out[n++] = ']';
    out[n] = 0;
}

dapper *dapper_open(const rq_url *url, const char *table)
{
    dapper *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    quote(d->table, sizeof d->table, table);
    if (connect_to(d, url))
        return d;
    fprintf(stderr, "interop: no connection: %d %s\n", d->error, d->said);
    dapper_close(d);
    return NULL;
}

void dapper_close(dapper *d)
{
    if (!d)
        return;
    if (d->link && ct_close(d->link, CS_UNUSED) != CS_SUCCEED)
        ct_close(d->link, CS_FORCE_CLOSE);
    if (d->link)
        ct_con_drop(d->link);
    if (d->context) {
        ct_exit(d->context, CS_FORCE_EXIT);
        cs_ctx_drop(d->context);
    }
    free(d);
}

/* ---- one request ---- */

static const struct shape *find_shape(const char *file)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (strcmp(shapes[i].file, file) == 0)
            return &shapes[i];
    fprintf(stderr, "interop: no statement %s\n", file);
    abort();
}

static void add(dapper *d, const char *text, size_t len)
{
    size_t used = strlen(d->sql);
    if (used + len >= sizeof d->sql)
        abort();
    memcpy(d->sql + used, text, len);
    d->sql[used + len] = 0;
}

static void write_sql(dapper *d, const struct shape *shape)
{
    const char *text = rq_sql_find(interop_tsql, shape->file), *at;
    d->sql[0] = 0;
    for (int i = 0; i < PARAMS_MAX && shape->params[i].name; i++) {
        char line[100];
        int len = snprintf(line, sizeof line, "%s@%s %s = @P%d", i ? ", " : "DECLARE ", shape->params[i].name,
                           shape->params[i].type, i + 1);
        add(d, line, (size_t)len);
    }
    if (shape->params[0].name)
        add(d, ";\n", 2);
    for (; (at = strstr(text, TABLE)); text = at + strlen(TABLE)) {
        add(d, text, (size_t)(at - text));
        add(d, d->table, strlen(d->table));
    }
    add(d, text, strlen(text));
}

static bool add_param(CS_COMMAND *command, int i, const char *value)
{
    CS_DATAFMT format;
    memset(&format, 0, sizeof format);
    snprintf(format.name, sizeof format.name, "@P%d", i + 1);
    format.namelen = CS_NULLTERM;
    format.datatype = CS_LONGCHAR_TYPE;
    format.status = CS_INPUTVALUE;
    format.maxlength = 8000;
    return ct_param(command, &format, (void *)(uintptr_t)value, (CS_INT)strlen(value), 0) == CS_SUCCEED;
}

static bool read_rows(CS_COMMAND *command, dapper_result *out)
{
    CS_DATAFMT format;
    char first[sizeof out->first];
    CS_INT rows, len = 0;
    CS_RETCODE rc;
    memset(&format, 0, sizeof format);
    format.datatype = CS_CHAR_TYPE;
    format.format = CS_FMT_NULLTERM;
    format.count = 1;
    format.maxlength = (CS_INT)sizeof first;
    if (ct_bind(command, 1, &format, first, &len, NULL) != CS_SUCCEED)
        return false;
    while ((rc = ct_fetch(command, CS_UNUSED, CS_UNUSED, CS_UNUSED, &rows)) == CS_SUCCEED) {
        out->row = true;
        strcpy(out->first, first);
    }
    return rc == CS_END_DATA;
}

static bool skip_rows(CS_COMMAND *command)
{
    CS_INT rows;
    CS_RETCODE rc;
    while ((rc = ct_fetch(command, CS_UNUSED, CS_UNUSED, CS_UNUSED, &rows)) == CS_SUCCEED)
        continue;
    return rc == CS_END_DATA;
}

static bool read_reply(CS_COMMAND *command, dapper_result *out)
{
    CS_INT type, count;
    CS_RETCODE rc;
    bool whole = true;
    while ((rc = ct_results(command, &type)) == CS_SUCCEED) {
        if (type == CS_ROW_RESULT)
            whole = read_rows(command, out) && whole;
        else if (type == CS_STATUS_RESULT)
            whole = skip_rows(command) && whole;
        else if (type == CS_CMD_FAIL)
            whole = false;
        else if (ct_res_info(command, CS_ROW_COUNT, &count, CS_UNUSED, NULL) == CS_SUCCEED && count > 0)
            out->changed = (int)count;
    }
    return rc == CS_END_RESULTS && whole;
}

static bool exchange(dapper *d, const struct shape *shape, const char *const *values, dapper_result *out)
{
    CS_COMMAND *command = NULL;
    memset(out, 0, sizeof *out);
    d->error = 0;
    d->said[0] = 0;
    write_sql(d, shape);
    bool done = ct_cmd_alloc(d->link, &command) == CS_SUCCEED
                && ct_command(command, CS_LANG_CMD, d->sql, CS_NULLTERM, CS_UNUSED) == CS_SUCCEED;
    for (int i = 0; done && i < PARAMS_MAX && shape->params[i].name; i++)
        done = add_param(command, i, values[i]);
    done = done && ct_send(command) == CS_SUCCEED && read_reply(command, out) && d->error == 0;
    ct_cmd_drop(command);
    return done;
}

bool dapper_run(dapper *d, const char *name, const char *const *values, dapper_result *out)
{
    bool claims = strcmp(name, "claim") == 0;
    bool done = exchange(d, find_shape(claims && d->babelfish ? "claim_babelfish" : name), values, out);
    if (!done && claims && d->error == NO_SUCH_RELATION && !d->babelfish) {
        d->babelfish = true;
        done = exchange(d, find_shape("claim_babelfish"), values, out);
    }
    out->refused = d->error == DUPLICATE_KEY || d->error == DUPLICATE_IN_INDEX;
    if (!done && !out->refused)
        fprintf(stderr, "interop: %s: %d %s\n", name, d->error, d->said);
    return done || out->refused;
}
