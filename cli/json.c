/* json.c: what --json prints. See json.h. */
#include "json.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli.h"

static void print(json_t *value)
{
    if (!value) {
        fputs("renderq: out of memory\n", stderr);
        exit(CODE_SYSTEM);
    }
    json_dumpf(value, stdout, JSON_COMPACT);        /* main() looks at stdout's error in the end */
    json_decref(value);
}

void json_print(json_t *value)
{
    print(value);
    putchar('\n');
}

void json_list_add(json_list *list, json_t *item)
{
    fputs(list->n++ == 0 ? "[\n" : ",\n", stdout);
    print(item);
}

void json_list_end(const json_list *list)
{
    fputs(list->n == 0 ? "[]\n" : "\n]\n", stdout);
}

json_t *json_outcome(const char *id, renderq_status status, const char *error)
{
    json_t *made = json_object();
    json_object_set_new(made, "id", json_text(id));
    json_object_set_new(made, "status", json_text(renderq_strstatus(status)));
    if (status != RENDERQ_OK)
        json_object_set_new(made, "error", json_text(error));
    return made;
}
