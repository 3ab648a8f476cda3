/* json.c: JSON out and in. See json.h. */
#include "json.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

/* ---- out ---- */

json_t *json_handed_out(const renderq_job *job)
{
    json_t *made = json_work(job);
    json_object_set_new(made, "lease", json_text(job->lease.text));
    json_object_set_new(made, "lease_left_ms", json_integer(renderq_lease_left_ms(job)));
    return made;
}

json_t *json_error_object(const char *error, const char *message)
{
    json_t *inner = json_object(), *made = json_object();
    json_object_set_new(inner, "code", json_text(error));
    json_object_set_new(inner, "message", json_text(message));
    json_object_set_new(made, "error", inner);
    return made;
}

char *json_line(json_t *value, size_t *len)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    if (!text)
        text = must_copy("{\"error\":{\"code\":\"unavailable\",\"message\":\"out of memory\"}}");
    *len = strlen(text);
    text = must_alloc(text, *len + 2);
    memcpy(text + *len, "\n", 2);
    (*len)++;
    return text;
}

/* ---- in ---- */

bool json_check(const char *text, size_t len, bad_place *where)
{
    json_error_t wrong;
    size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_t *read = json_loadb(text, len, flags, &wrong);
    if (!read && json_error_code(&wrong) == json_error_numeric_overflow)
        read = json_loadb(text, len, flags | JSON_DECODE_INT_AS_REAL, &wrong);
    if (read) {
        json_decref(read);
        return true;
    }
    where->line = wrong.line > 0 ? wrong.line : 1;
    where->column = wrong.column > 0 ? wrong.column : 1;
    snprintf(where->text, sizeof where->text, "%s", len ? wrong.text : "it is empty");
    return false;
}

void answer_bad_json(exchange *x, const bad_place *where)
{
    char message[512];
    snprintf(message, sizeof message, "the body is not JSON: line %d, column %d: %s", where->line, where->column,
             where->text);
    json_t *made = json_error_object("bad_json", message), *inner = json_object_get(made, "error");
    json_object_set_new(inner, "line", json_integer(where->line));
    json_object_set_new(inner, "column", json_integer(where->column));
    answer_json(x, 400, made);
}

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "a whole number";
    case JSON_REAL: return "a number with a fraction";
    case JSON_NULL: return "null";
    default: return "true or false";
    }
}

bool guid_read(const char *text, renderq_id *out)
{
    static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    if (strlen(text) != sizeof form - 1)
        return false;
    for (size_t i = 0; i < sizeof form - 1; i++)
        if (form[i] == '-' ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
            return false;
    memcpy(out->text, text, sizeof form);
    for (char *at = out->text; *at; at++)
        *at = (char)toupper((unsigned char)*at);
    return true;
}

static bool number_fits(const field *f, const json_t *value)
{
    double number = json_number_value(value);
    return number >= f->min && number <= f->max;
}

static bool value_fits(const field *f, const json_t *value)
{
    renderq_id id;
    const char *text = json_string_value(value);
    switch (f->type) {
    case FIELD_STRING: return text != NULL;
    case FIELD_NUMBER: return json_is_number(value) && number_fits(f, value);
    case FIELD_INTEGER: return json_is_integer(value) && number_fits(f, value);
    case FIELD_GUID: return text && guid_read(text, &id);
    case FIELD_RETRY:
        return text ? strcmp(text, "backoff") == 0 || strcmp(text, "never") == 0
                    : json_is_integer(value) && number_fits(f, value);
    }
    return false;
}

static void answer_unfit(exchange *x, const field *f, const json_t *value)
{
    const char *name = f->name, *is = type_name(value);
    switch (f->type) {
    case FIELD_STRING:
        answer_error(x, 400, "bad_request", "%s is %s: a string is expected", name, is);
        return;
    case FIELD_GUID:
        answer_error(x, 400, "bad_request", "%s is no GUID: 8-4-4-4-12 hexadecimal digits", name);
        return;
    case FIELD_RETRY:
        answer_error(x, 400, "bad_request", "%s is a whole number from %.0f to %.0f, \"backoff\" or \"never\"", name,
                     f->min, f->max);
        return;
    default:
        answer_error(x, 400, "bad_request", "%s is %s: a %snumber from %.0f to %.0f is expected", name, is,
                     f->type == FIELD_INTEGER ? "whole " : "", f->min, f->max);
    }
}

static void answer_unknown(exchange *x, const char *name, const field *fields, size_t n)
{
    char known[256] = "";
    for (size_t i = 0, len = 0; i < n && len < sizeof known; i++)
        len += (size_t)snprintf(known + len, sizeof known - len, "%s%s", i ? ", " : "", fields[i].name);
    answer_error(x, 400, "bad_request", "unknown field \"%.100s\"; %s%s", name, n ? "there are " : "there are none",
                 known);
}

static const field *find_field(const field *fields, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

static bool check_fields(exchange *x, const field *fields, size_t n)
{
    const char *name;
    json_t *value;
    json_object_foreach(x->input, name, value) {
        const field *f = find_field(fields, n, name);
        if (!f) {
            answer_unknown(x, name, fields, n);
            return false;
        }
        if (!value_fits(f, value)) {
            answer_unfit(x, f, value);
            return false;
        }
    }
    for (size_t i = 0; i < n; i++)
        if (fields[i].required && !json_object_get(x->input, fields[i].name)) {
            answer_error(x, 400, "bad_request", "%s is missing", fields[i].name);
            return false;
        }
    return true;
}

bool body_read(exchange *x, const field *fields, size_t n)
{
    json_error_t wrong;
    bool needed = false;
    for (size_t i = 0; i < n; i++)
        needed = needed || fields[i].required;
    if (x->body_len == 0 && !needed) {
        x->input = json_object();
        return true;
    }
    x->input = json_loadb(x->body ? x->body : "", x->body_len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &wrong);
    if (!x->input) {
        bad_place where = { .line = wrong.line > 0 ? wrong.line : 1, .column = wrong.column > 0 ? wrong.column : 1 };
        snprintf(where.text, sizeof where.text, "%s", x->body_len ? wrong.text : "it is empty");
        answer_bad_json(x, &where);
        return false;
    }
    if (!json_is_object(x->input)) {
        answer_error(x, 400, "bad_request", "the body is %s: an object is expected", type_name(x->input));
        return false;
    }
    return check_fields(x, fields, n);
}

const char *field_text(const exchange *x, const char *name)
{
    return json_string_value(json_object_get(x->input, name));
}

int64_t field_integer(const exchange *x, const char *name, int64_t otherwise)
{
    const json_t *value = json_object_get(x->input, name);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}
