/* name.h: the name of a queue's table, taken apart. Quoting it is each engine's own. */
#ifndef RQ_NAME_H
#define RQ_NAME_H

#include <stddef.h>

#include "renderq.h"

#define RQ_NAME_DEFAULT "VideoRenderJobs"

/* One or two parts; schema is "" where there is one. 128 UTF-16 units are at most 384 bytes of UTF-8. */
typedef struct rq_name {
    char schema[RENDERQ_QUEUE_PART_MAX * 3 + 1];
    char table[RENDERQ_QUEUE_PART_MAX * 3 + 1];
} rq_name;

/* Reads `table`, `schema.table`, `[any text]` with ] doubled, or a mix: [a.b].[c] has two parts. Returns NULL, or
 * with *out untouched a constant text to be put behind `queue "..." `:
 *   is empty                           also for NULL
 *   is not UTF-8
 *   has more than two parts
 *   has an empty part
 *   has a part over 128 characters     UTF-16 units, a doubled ] counted once
 *   ends in a blank                    either part does; SQL Server would not see the blank, SQLite would
 *   has an unclosed bracket
 *   has a bracket inside a part        one that does not begin with [
 *   has text behind a closing bracket */
const char *rq_name_parse(const char *text, rq_name *out);

#endif
