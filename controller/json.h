/* json.h: JSON as the service writes it, and request bodies read with a word about what is wrong in them. */
#ifndef CONTROLLER_JSON_H
#define CONTROLLER_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "../cli/job_json.h"
#include "exchange.h"

/* A job as POST next hands it out. */
json_t *json_handed_out(const renderq_job *job);

json_t *json_error_object(const char *error, const char *message);

/* One line with a newline, to be freed. Lets `value` go. */
char *json_line(json_t *value, size_t *len);

/* ---- bodies ---- */

typedef enum field_type { FIELD_STRING, FIELD_NUMBER, FIELD_INTEGER, FIELD_GUID, FIELD_RETRY } field_type;

typedef struct field {
    const char *name;
    field_type type;
    bool required;
    double min, max;                    /* of numbers */
} field;

/* Reads the body as an object of these fields into x->input. False: the answer says what is wrong, and where. */
bool body_read(exchange *x, const field *fields, size_t n);

/* A JSON text that could not be read: where, counted from 1. */
typedef struct bad_place {
    int line, column;
    char text[256];
} bad_place;

/* False: *where says why the text is not JSON. */
bool json_check(const char *text, size_t len, bad_place *where);

void answer_bad_json(exchange *x, const bad_place *where);

const char *field_text(const exchange *x, const char *name);                /* NULL: it is not there */
int64_t field_integer(const exchange *x, const char *name, int64_t otherwise);
bool guid_read(const char *text, renderq_id *out);

#endif
