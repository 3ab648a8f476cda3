/* record.h: one line of JSON as a new job. */
#ifndef CLI_RECORD_H
#define CLI_RECORD_H

#include <jansson.h>
#include <renderq.h>
#include <stdbool.h>

typedef struct record {
    renderq_new_job job;        /* its texts are in the two below */
    json_t *json;
    char *payload;              /* NULL where the payload is a string of the JSON */
} record;

/* Reads {"composition_id": ..., "payload": {...}, ...}. False: `why` says what is wrong, and there is nothing to
 * free. */
bool record_read(const char *line, size_t len, record *out, char *why, size_t why_size);

void record_free(record *r);

/* The value of a member of the object in `line`, which is valid JSON, without the white space between its tokens
 * and otherwise as it was written: numbers keep their digits. NULL: no member is spelt like that. The caller frees
 * it. */
char *member_text(const char *line, size_t len, const char *name, size_t *text_len);

#endif
