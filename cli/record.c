/* record.c: one line of JSON as a new job. See record.h. */
#include "record.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* ---- a member as it was written ---- */

/* The end of the string that begins at `at`. */
static const char *string_end(const char *at)
{
    for (at++; *at != '"'; at++)
        if (*at == '\\')
            at++;
    return at + 1;
}

/* The end of the value that begins at `at`, in an object. */
static const char *value_end(const char *at)
{
    int depth = 0;
    for (;; at++) {
        if (*at == '"')
            at = string_end(at) - 1;
        else if (*at == '{' || *at == '[')
            depth++;
        else if (depth > 0 && (*at == '}' || *at == ']'))
            depth--;
        else if (depth == 0 && (*at == ',' || *at == '}'))
            return at;
    }
}

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

static char *compact(const char *from, const char *end, size_t *len)
{
    char *made = must_alloc(NULL, (size_t)(end - from) + 1), *out = made;
    while (from < end) {
        const char *next = *from == '"' ? string_end(from) : from + 1;
        if (*from == '"' || !strchr(" \t\r\n", *from)) {
            memcpy(out, from, (size_t)(next - from));
            out += next - from;
        }
        from = next;
    }
    *out = 0;
    *len = (size_t)(out - made);
    return made;
}

char *member_text(const char *line, size_t len, const char *name, size_t *text_len)
{
    size_t name_len = strlen(name);
    const char *at = memchr(line, '{', len);
    if (!at)
        return NULL;
    while (*at != '}') {
        const char *key = skip_blanks(at + 1);
        if (*key != '"')
            break;                                  /* {} */
        const char *key_end = string_end(key), *value = skip_blanks(skip_blanks(key_end) + 1);
        const char *end = value_end(value);
        if ((size_t)(key_end - key) == name_len + 2 && memcmp(key + 1, name, name_len) == 0)
            return compact(value, end, text_len);
        at = end;
    }
    return NULL;
}

/* ---- the fields ---- */

typedef struct field {
    const char *name;
    json_type type;             /* STRING, INTEGER, or OBJECT for the payload */
    size_t offset;              /* in renderq_new_job, for texts */
} field;

static const field fields[] = {
    { "composition_id", JSON_STRING, offsetof(renderq_new_job, composition_id) },
    { "payload", JSON_OBJECT, 0 },
    { "payload_json", JSON_STRING, offsetof(renderq_new_job, payload_json) },
    { "priority", JSON_INTEGER, 0 },
    { "delay_ms", JSON_INTEGER, 0 },
    { "max_retries", JSON_INTEGER, 0 },
    { "dedup_key", JSON_STRING, offsetof(renderq_new_job, dedup_key) },
    { "output_url", JSON_STRING, offsetof(renderq_new_job, output_url) },
};

#define FIELDS "composition_id, payload, payload_json, priority, delay_ms, max_retries, dedup_key, output_url"

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "a number";
    case JSON_REAL: return "a number with a fraction";
    case JSON_NULL: return "null";
    default: return "true or false";
    }
}

static const field *find_field(const char *name)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

static bool take_text(record *r, const field *f, const json_t *value, char *why, size_t why_size)
{
    const char *text = json_string_value(value);
    if (strlen(text) != json_string_length(value)) {
        snprintf(why, why_size, "%s has a NUL in it", f->name);
        return false;
    }
    memcpy((char *)&r->job + f->offset, &text, sizeof text);
    return true;
}

static bool take_integer(record *r, const field *f, const json_t *value, char *why, size_t why_size)
{
    json_int_t number = json_is_real(value) ? (json_int_t)json_real_value(value) : json_integer_value(value);
    json_int_t min = f->name[0] == 'p' ? INT_MIN : 0, max = f->name[0] == 'd' ? RENDERQ_DELAY_MAX_MS : INT_MAX;
    if (number < min || number > max) {
        snprintf(why, why_size, "%s is %lld: it is a number from %lld to %lld", f->name, (long long)number,
                 (long long)min, (long long)max);
        return false;
    }
    switch (f->name[0]) {
    case 'p': r->job.priority = (int)number; break;
    case 'd': r->job.delay_ms = number; break;
    default: r->job.max_retries = number == 0 ? RENDERQ_NO_RETRY : (int)number; break;
    }
    return true;
}

static bool is_whole(const json_t *value)
{
    double real = json_real_value(value);
    return json_is_integer(value)
           || (json_is_real(value) && real > -1e15 && real < 1e15 && real == (double)(json_int_t)real);
}

static bool take_field(record *r, const char *name, const json_t *value, char *why, size_t why_size)
{
    const field *f = find_field(name);
    if (!f) {
        snprintf(why, why_size, "unknown field \"%.100s\"; there are " FIELDS, name);
        return false;
    }
    if (f->type == JSON_OBJECT && (json_is_object(value) || json_is_array(value)))
        return true;                                /* taken from the line itself */
    if (f->type == JSON_STRING && json_is_string(value))
        return take_text(r, f, value, why, why_size);
    if (f->type == JSON_INTEGER && is_whole(value))
        return take_integer(r, f, value, why, why_size);
    snprintf(why, why_size, "%s is %s: %s", f->name, type_name(value),
             f->type == JSON_STRING ? "a string is expected"
             : f->type == JSON_INTEGER ? "a whole number is expected"
                                       : "an object is expected; any other text goes into payload_json");
    return false;
}

static bool take_payload(record *r, const char *line, size_t len, char *why, size_t why_size)
{
    const json_t *payload = json_object_get(r->json, "payload");
    if (!payload == !r->job.payload_json) {
        snprintf(why, why_size, payload ? "payload and payload_json are both there" : "payload is missing");
        return false;
    }
    if (!payload)
        return true;
    r->payload = member_text(line, len, "payload", &r->job.payload_len);
    if (!r->payload) {                              /* its name is spelt with escapes */
        r->payload = json_dumps(payload, JSON_COMPACT);
        r->job.payload_len = r->payload ? strlen(r->payload) : 0;
    }
    r->job.payload_json = r->payload;
    return r->payload != NULL;
}

bool record_read(const char *line, size_t len, record *out, char *why, size_t why_size)
{
    json_error_t wrong;
    record r = { .job = RENDERQ_INIT(renderq_new_job) };
    size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY;
    r.json = json_loadb(line, len, flags, &wrong);
    /* A whole number above 2^63 is fine inside a payload, which is passed on as it was written. */
    if (!r.json && json_error_code(&wrong) == json_error_numeric_overflow)
        r.json = json_loadb(line, len, flags | JSON_DECODE_INT_AS_REAL, &wrong);
    if (!r.json) {
        snprintf(why, why_size, "not JSON: %s (at byte %d)", wrong.text, wrong.position);
        return false;
    }
    const char *name;
    json_t *value;
    bool good = json_is_object(r.json);
    if (!good)
        snprintf(why, why_size, "it is %s: an object is expected", type_name(r.json));
    if (good)
        json_object_foreach(r.json, name, value)
            if (!(good = take_field(&r, name, value, why, why_size)))
                break;
    if (good && !r.job.composition_id) {
        snprintf(why, why_size, "composition_id is missing");
        good = false;
    }
    if (good)
        good = take_payload(&r, line, len, why, why_size);
    if (good)
        *out = r;
    else
        record_free(&r);
    return good;
}

void record_free(record *r)
{
    free(r->payload);
    json_decref(r->json);
    r->payload = NULL;
    r->json = NULL;
}
