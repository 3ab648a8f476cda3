/* wire_bare.c: the program that the library is measured against over the wire: CT-Library, and what a careful program
 * does with it. It sends the library's own texts with the same parameters, ids and tokens from the kernel's random bits
 * and texts through iconv, reads every column, long ones to their end, looks at each return code and at what the
 * server says, and copies what a worker needs. No checks of arguments, no clock, no deadline, no repetition. */
#include <ctpublic.h>
#include <iconv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sqlserver.h"
#include "wire.h"

#define COLUMNS     20
#define SMALL       1024
#define PARAMS_MAX  8

typedef struct column {
    bool is_text;
    CS_BIGINT number;
    CS_INT copied;
    CS_SMALLINT indicator;
    char text[SMALL];
} column;

struct wire_bare {
    CS_CONTEXT *context;
    CS_CONNECTION *link;
    iconv_t utf16;
    char *enqueue, *claim;              /* the texts */
    char worker[64];
    CS_INT worker_len;
    column columns[COLUMNS];
};

/* What a worker has in hand after a claim. */
typedef struct taken {
    char *texts[COLUMNS];
    int64_t numbers[COLUMNS];
} taken;

/* ---- the connection ---- */

static CS_RETCODE on_server_message(CS_CONTEXT *context, CS_CONNECTION *link, CS_SERVERMSG *message)
{
    (void)context;
    (void)link;
    if (message->severity > 10)
        die("the bare program: error %d: %s", (int)message->msgnumber, message->text);
    return CS_SUCCEED;
}

static CS_RETCODE on_client_message(CS_CONTEXT *context, CS_CONNECTION *link, CS_CLIENTMSG *message)
{
    (void)context;
    (void)link;
    die("the bare program: CT-Library: %s", message->msgstring);
}

static void must(CS_RETCODE rc, const char *doing)
{
    if (rc != CS_SUCCEED)
        die("the bare program: %s failed", doing);
}

static void set_callback(wire_bare *b, CS_INT type, void (*function)(void))
{
    CS_VOID *pointer;
    memcpy(&pointer, &function, sizeof pointer);
    must(ct_callback(b->context, NULL, CS_SET, type, pointer), "ct_callback");
}

static void set_text(wire_bare *b, CS_INT property, const char *text)
{
    must(ct_con_props(b->link, CS_SET, property, (void *)(uintptr_t)text, CS_NULLTERM, NULL), "ct_con_props");
}

static void set_number(wire_bare *b, CS_INT property, CS_INT number)
{
    must(ct_con_props(b->link, CS_SET, property, &number, CS_UNUSED, NULL), "ct_con_props");
}

static void connect_to(wire_bare *b, const rq_url *url)
{
    char server[600];
    must(cs_ctx_alloc(CS_VERSION_100, &b->context), "cs_ctx_alloc");
    must(ct_init(b->context, CS_VERSION_100), "ct_init");
    set_callback(b, CS_CLIENTMSG_CB, (void (*)(void))on_client_message);
    set_callback(b, CS_SERVERMSG_CB, (void (*)(void))on_server_message);
    must(ct_con_alloc(b->context, &b->link), "ct_con_alloc");
    set_number(b, CS_TDS_VERSION, CS_TDS_74);
    set_text(b, CS_CLIENTCHARSET, "UTF-8");
    set_text(b, CS_USERNAME, url->user);
    set_text(b, CS_PASSWORD, url->password);
    set_text(b, CS_DATABASE, url->path);
    snprintf(server, sizeof server, "%.500s:%d", url->host, url->port ? url->port : 1433);
    must(ct_connect(b->link, server, CS_NULLTERM), "ct_connect");
}

/* The library's own text. */
static char *text_of(const rq_queue *queue, rq_statement_id id)
{
    ss_conn none;
    memset(&none, 0, sizeof none);
    const char *made = rq_ss_sql(&none, queue, id, false);
    if (!made)
        die("out of memory");
    char *copy = strcpy(allocate(strlen(made) + 1), made);
    rq_ss_forget(&none);
    return copy;
}

static CS_INT to_utf16(wire_bare *b, const char *text, char *out, size_t room)
{
    char *in = (char *)(uintptr_t)text, *end = out;
    size_t left = strlen(text);
    if (iconv(b->utf16, &in, &left, &end, &room) == (size_t)-1)
        die("the bare program: a text is not UTF-8, or too long");
    return (CS_INT)(end - out);
}

/* As it is on a connection of the library's. */
static const char session[] =
    "-- renderq: session\n"
    "SET QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL ON;\n"
    "SET NUMERIC_ROUNDABORT OFF;\n"
    "SET XACT_ABORT ON;\n"
    "SET NOCOUNT ON;\n"
    "SET TEXTSIZE 2147483647;\n"
    "SELECT 1;\n";

wire_bare *wire_bare_open(const char *text)
{
    rq_url url;
    rq_queue queue;
    char why[512];
    wire_bare *b = allocate(sizeof *b);
    memset(b, 0, sizeof *b);
    if (rq_url_parse(text, &url, why, sizeof why) != RENDERQ_OK || !url.host || !url.user || !url.password)
        die("the URL has no server, user or password");
    const char *name = rq_url_option(&url, "queue");
    queue.text = name ? name : RQ_NAME_DEFAULT;
    if (rq_name_parse(queue.text, &queue.name) != NULL)
        die("the URL's queue has a name that cannot be");
    b->enqueue = text_of(&queue, RQ_ENQUEUE);
    b->claim = text_of(&queue, RQ_CLAIM);
    for (size_t i = 0; i < COLUMNS; i++)
        b->columns[i].is_text = rq_statements[RQ_CLAIM].columns[i] == RQ_TEXT
                                || rq_statements[RQ_CLAIM].columns[i] == RQ_GUID;
    b->utf16 = iconv_open("UTF-16LE", "UTF-8");
    b->worker_len = to_utf16(b, WORKER, b->worker, sizeof b->worker);
    connect_to(b, &url);
    rq_url_free(&url);
    wire_bare_run(b, session);
    return b;
}

void wire_bare_close(wire_bare *b)
{
    must(ct_close(b->link, CS_UNUSED), "ct_close");
    ct_con_drop(b->link);
    ct_exit(b->context, CS_UNUSED);
    cs_ctx_drop(b->context);
    iconv_close(b->utf16);
    free(b->enqueue);
    free(b->claim);
    free(b);
}

/* ---- a request ---- */

typedef struct param {
    CS_INT type, len;
    const void *bytes;                  /* NULL: NULL */
} param;

static CS_COMMAND *send_request(wire_bare *b, const char *sql, const param *params, size_t n)
{
    CS_COMMAND *command;
    must(ct_cmd_alloc(b->link, &command), "ct_cmd_alloc");
    must(ct_command(command, CS_LANG_CMD, sql, CS_NULLTERM, CS_UNUSED), "ct_command");
    for (size_t i = 0; i < n; i++) {
        static const char *const names[PARAMS_MAX] = { "@P1", "@P2", "@P3", "@P4", "@P5", "@P6", "@P7", "@P8" };
        CS_DATAFMT format;
        memset(&format, 0, sizeof format);
        strcpy(format.name, names[i]);
        format.namelen = CS_NULLTERM;
        format.datatype = params[i].type;
        format.status = CS_INPUTVALUE;
        format.maxlength = params[i].type == CS_IMAGE_TYPE ? 0x7fffffff
                           : params[i].type == CS_LONGCHAR_TYPE ? 64 : CS_UNUSED;
        must(ct_param(command, &format, (void *)(uintptr_t)params[i].bytes, params[i].len,
                      params[i].bytes ? 0 : -1), "ct_param");
    }
    must(ct_send(command), "ct_send");
    return command;
}

static void bind_columns(wire_bare *b, CS_COMMAND *command, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        column *c = &b->columns[i];
        CS_DATAFMT format;
        memset(&format, 0, sizeof format);
        format.datatype = c->is_text ? CS_CHAR_TYPE : CS_BIGINT_TYPE;
        format.format = CS_FMT_UNUSED;
        format.count = 1;
        format.maxlength = c->is_text ? SMALL : (CS_INT)sizeof c->number;
        must(ct_bind(command, (CS_INT)i + 1, &format, c->is_text ? (void *)c->text : (void *)&c->number, &c->copied,
                     &c->indicator), "ct_bind");
    }
}

/* A text that did not fit. */
static char *read_long(CS_COMMAND *command, size_t i)
{
    size_t room = 4 * SMALL, len = 0;
    char *text = allocate(room);
    for (;;) {
        CS_INT got = 0;
        CS_RETCODE rc = ct_get_data(command, (CS_INT)i + 1, text + len, (CS_INT)(room - len - 1), &got);
        len += (size_t)got;
        text[len] = 0;
        if (rc == CS_END_ITEM || rc == CS_END_DATA)
            return text;
        must(rc, "ct_get_data");
        text = realloc(text, room *= 2);
        if (!text)
            die("out of memory");
    }
}

static void take_row(wire_bare *b, CS_COMMAND *command, size_t n, taken *row)
{
    for (size_t i = 0; i < n; i++) {
        const column *c = &b->columns[i];
        if (c->indicator == -1)
            continue;
        if (!c->is_text) {
            row->numbers[i] = c->number;
        } else if (c->copied >= SMALL) {
            row->texts[i] = read_long(command, i);
        } else {
            row->texts[i] = memcpy(allocate((size_t)c->copied + 1), c->text, (size_t)c->copied);
            row->texts[i][c->copied] = 0;
        }
    }
}

/* Reads the reply to its end; the number of rows, of which the last is in *row. */
static size_t read_reply(wire_bare *b, CS_COMMAND *command, size_t n, taken *row)
{
    CS_INT type, read;
    CS_RETCODE rc;
    size_t rows = 0;
    while ((rc = ct_results(command, &type)) == CS_SUCCEED) {
        if (type == CS_CMD_FAIL)
            die("the bare program: a request failed");
        if (type != CS_ROW_RESULT && type != CS_STATUS_RESULT && type != CS_PARAM_RESULT)
            continue;
        bool wanted = type == CS_ROW_RESULT && row;
        CS_INT described = 0;
        must(ct_res_info(command, CS_NUMDATA, &described, CS_UNUSED, NULL), "ct_res_info");
        if (wanted && described != (CS_INT)n)
            die("the bare program: %d columns, not %zu", (int)described, n);
        if (wanted)
            bind_columns(b, command, n);
        while ((rc = ct_fetch(command, CS_UNUSED, CS_UNUSED, CS_UNUSED, &read)) == CS_SUCCEED || rc == CS_ROW_FAIL) {
            if (wanted && rows++ == 0)
                take_row(b, command, n, row);
        }
        if (rc != CS_END_DATA)
            die("the bare program: a row could not be read");
    }
    if (rc != CS_END_RESULTS)
        die("the bare program: a reply was not whole");
    ct_cmd_drop(command);
    return rows;
}

void wire_bare_run(wire_bare *b, const char *sql)
{
    read_reply(b, send_request(b, sql, NULL, 0), 0, NULL);
}

/* ---- the two statements ---- */

static void print_guid(const unsigned char *bytes, char *out)
{
    static const char digits[] = "0123456789ABCDEF";
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = 0;
}

void wire_bare_enqueue(wire_bare *b, size_t n)
{
    b->columns[0].is_text = false;      /* the state, and the holder's id */
    b->columns[1].is_text = true;
    for (size_t done = 0; done < n; done++) {
        unsigned char bytes[1][16];
        char id[37], composition[64], text[WIRE_PAYLOAD_MAX];
        taken row = { .numbers = { -1 } };
        CS_INT priority = 0;
        CS_BIGINT delay_ms = 0;
        new_ids(bytes, 1);
        print_guid(bytes[0], id);
        const param params[] = {
            { CS_LONGCHAR_TYPE, 36, id },
            { CS_IMAGE_TYPE, to_utf16(b, "composition", composition, sizeof composition), composition },
            { CS_IMAGE_TYPE, to_utf16(b, payload(), text, sizeof text), text },
            { CS_IMAGE_TYPE, 0, NULL }, { CS_IMAGE_TYPE, 0, NULL },
            { CS_INT_TYPE, CS_UNUSED, &priority }, { CS_INT_TYPE, CS_UNUSED, NULL },
            { CS_BIGINT_TYPE, CS_UNUSED, &delay_ms },
        };
        if (read_reply(b, send_request(b, b->enqueue, params, sizeof params / sizeof params[0]), 2, &row) != 1
            || row.numbers[0] != 0 || !row.texts[1])
            die("the bare program: a job did not get in");
        free(row.texts[1]);
    }
}

void wire_bare_claim(wire_bare *b, size_t n)
{
    b->columns[0].is_text = b->columns[1].is_text = true;
    for (size_t done = 0; done < n; done++) {
        unsigned char bytes[16];
        char token[37];
        taken row = { .numbers = { 0 } };
        CS_INT lease_s = 600, batch = 1;
        CS_BIT unstarted = 0;
        random_fill(bytes, sizeof bytes);
        print_guid(bytes, token);
        const param params[] = {
            { CS_IMAGE_TYPE, b->worker_len, b->worker }, { CS_LONGCHAR_TYPE, 36, token },
            { CS_INT_TYPE, CS_UNUSED, &lease_s }, { CS_BIT_TYPE, CS_UNUSED, &unstarted },
            { CS_INT_TYPE, CS_UNUSED, &batch },
        };
        if (read_reply(b, send_request(b, b->claim, params, sizeof params / sizeof params[0]), COLUMNS, &row) != 1
            || !row.texts[0] || strcmp(row.texts[1], token) != 0)
            die("the bare program: a claim found no job");
        for (size_t i = 0; i < COLUMNS; i++)
            free(row.texts[i]);
    }
}
