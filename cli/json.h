/* json.h: what --json prints. Every command prints one document, in one line; those that go on for ever (work,
 * stats --watch) one object a line; those about many jobs an array with one object a line. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include "job_json.h"

/* Prints it on a line of its own and lets it go. */
void json_print(json_t *value);

/* An array that is printed while it grows, as [ item, item ]. */
typedef struct json_list {
    size_t n;
} json_list;

void json_list_add(json_list *list, json_t *item);
void json_list_end(const json_list *list);

/* {"id": ..., "status": "OK"}, with "error" where it is not OK. */
json_t *json_outcome(const char *id, renderq_status status, const char *error);

#endif
