/* fuzz_items.c: values on their way to SQL Server. Many items go as one JSON text, which jansson reads; what it reads
 * is what was given. One item's go as parameters, whose texts iconv(3) turns back. */
#include <iconv.h>
#include <jansson.h>

#include "fuzz.h"
#include "sqlserver.h"

#define ITEMS_MAX 4

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return 0;
}

/* ---- values ---- */

typedef struct cells {
    const rq_statement *statement;
    size_t n;                               /* items */
    bool utf8;                              /* as they go to Babelfish */
    rq_value values[ITEMS_MAX * RQ_PARAMS_MAX];
    rq_guid guids[ITEMS_MAX * RQ_PARAMS_MAX];
    char *texts[ITEMS_MAX * RQ_PARAMS_MAX];
} cells;

static int64_t number_of(input *in, rq_type type)
{
    static const int64_t edges[] = { 0, 1, -1, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN };
    uint8_t how = take_byte(in);
    size_t fitting = type == RQ_INT ? 5 : sizeof edges / sizeof edges[0];
    if (type == RQ_BIT)
        return how & 1;
    if (how < 0x80)
        return edges[how % fitting];
    return type == RQ_INT ? (int32_t)take_number(in, 4) : (int64_t)take_number(in, 8);
}

static void read_value(input *in, cells *c, size_t i)
{
    rq_type type = c->statement->params[i % c->statement->n_params].type;
    uint8_t head = take_byte(in);
    if (head % 8 == 7)
        return;                             /* NULL */
    if (type == RQ_TEXT) {
        c->texts[i] = take_text(in, head);
        c->values[i] = rq_text(c->texts[i]);
    } else if (type == RQ_GUID) {
        for (size_t k = 0; k < sizeof c->guids[i].sort; k++)
            c->guids[i].sort[k] = take_byte(in);
        c->values[i] = rq_guid_value(&c->guids[i]);
    } else {
        c->values[i] = rq_number(number_of(in, type));
    }
}

static void read_cells(input *in, cells *c)
{
    memset(c, 0, sizeof *c);
    uint8_t head = take_byte(in);
    c->statement = &rq_statements[(head & 0x7F) % RQ_STATEMENTS];
    c->utf8 = head & 0x80;
    c->n = c->statement->many ? 1 + take_byte(in) % ITEMS_MAX : 1;
    for (size_t i = 0; i < c->n * c->statement->n_params; i++)
        read_value(in, c, i);
}

static void free_cells(cells *c)
{
    for (size_t i = 0; i < sizeof c->texts / sizeof c->texts[0]; i++)
        free(c->texts[i]);
}

/* UTF-16LE as UTF-8, to be freed. */
static char *from_utf16(const void *bytes, CS_INT len, size_t *out_len)
{
    HOLDS(len >= 0 && len % 2 == 0);
    size_t left = (size_t)len, size = 2 * left + 1, room = size - 1;
    char *in = (char *)(uintptr_t)bytes, *text = fuzz_malloc(size), *end = text;
    iconv_t how = iconv_open("UTF-8", "UTF-16LE");
    HOLDS(how != (iconv_t)-1);
    HOLDS(iconv(how, &in, &left, &end, &room) == 0 && left == 0);
    iconv_close(how);
    *out_len = (size_t)(end - text);
    *end = 0;
    return text;
}

static void check_guid(const rq_value *value, const char *text, size_t len)
{
    rq_guid guid;
    char copy[37];
    HOLDS(len == 36);
    memcpy(copy, text, 36);
    copy[36] = 0;
    HOLDS(rq_guid_parse(copy, &guid) && memcmp(guid.sort, value->bytes, sizeof guid.sort) == 0);
}

/* A text as it came out, as UTF-8, to be freed. */
static char *text_of(const cells *c, const ss_param *param, size_t *len)
{
    HOLDS(param->type == CS_IMAGE_TYPE && param->len >= 0);
    if (!c->utf8)
        return from_utf16(param->bytes, param->len, len);
    char *text = fuzz_malloc((size_t)param->len + 1);
    memcpy(text, param->bytes, *len = (size_t)param->len);
    text[*len] = 0;
    return text;
}

/* ---- one item ---- */

static void check_param(const cells *c, const rq_value *value, rq_type type, const ss_param *param)
{
    HOLDS((param->bytes != NULL) == value->present);
    if (!value->present)
        return;
    if (type == RQ_TEXT) {
        size_t len;
        char *text = text_of(c, param, &len);
        HOLDS(len == value->len && memcmp(text, value->bytes, len) == 0);
        free(text);
    } else if (type == RQ_GUID) {
        HOLDS(param->type == CS_LONGCHAR_TYPE);
        check_guid(value, param->bytes, (size_t)param->len);
    } else if (type == RQ_BIT) {
        HOLDS(param->type == CS_BIT_TYPE && *(const char *)param->bytes == value->number);
    } else if (type == RQ_INT) {
        HOLDS(param->type == CS_INT_TYPE && *(const CS_INT *)param->bytes == value->number);
    } else {
        HOLDS(param->type == CS_BIGINT_TYPE && *(const CS_BIGINT *)param->bytes == value->number);
    }
}

static void check_params(const cells *c)
{
    ss_param params[RQ_PARAMS_MAX];
    char *room;
    HOLDS(rq_ss_params(c->statement, c->values, c->utf8, params, &room));
    for (size_t i = 0; i < c->statement->n_params; i++)
        check_param(c, &c->values[i], c->statement->params[i].type, &params[i]);
    free(room);
}

/* ---- many: JSON ---- */

static void check_json_value(const rq_value *value, rq_type type, const json_t *json)
{
    HOLDS(json);
    if (!value->present) {
        HOLDS(json_is_null(json));
    } else if (type == RQ_TEXT) {
        HOLDS(json_is_string(json) && json_string_length(json) == value->len);
        HOLDS(memcmp(json_string_value(json), value->bytes, value->len) == 0);
    } else if (type == RQ_GUID) {
        HOLDS(json_is_string(json));
        check_guid(value, json_string_value(json), json_string_length(json));
    } else {
        HOLDS(json_is_integer(json) && json_integer_value(json) == value->number);
    }
}

static void check_items(const cells *c)
{
    ss_param param;
    char *room;
    bool fits;
    size_t len, n = c->statement->n_params;
    HOLDS(rq_ss_items(c->statement, c->values, c->n, c->utf8, &param, &room, &fits) && fits);
    char *text = text_of(c, &param, &len);
    json_error_t error;
    json_t *items = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    HOLDS(json_is_array(items) && json_array_size(items) == c->n);
    for (size_t i = 0; i < c->n; i++) {
        const json_t *item = json_array_get(items, i);
        HOLDS(json_object_size(item) == n + 1);
        HOLDS(json_integer_value(json_object_get(item, "i")) == (json_int_t)i);
        for (size_t k = 0; k < n; k++)
            check_json_value(&c->values[i * n + k], c->statement->params[k].type,
                             json_object_get(item, c->statement->params[k].name));
    }
    json_decref(items);
    free(text);
    free(room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = { data, size };
    static cells c;
    read_cells(&in, &c);
    check_params(&c);
    if (c.statement->many)
        check_items(&c);
    free_cells(&c);
    return 0;
}
