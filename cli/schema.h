/* schema.h: the schema scripts of sql/<engine>/schema.sql, put in by the build with lib/embed.awk. */
#ifndef CLI_SCHEMA_H
#define CLI_SCHEMA_H

#include <stddef.h>

typedef struct rq_sql {
    const char *name, *text;
} rq_sql;

extern const rq_sql rq_sql_cli_sqlite[];        /* one item and an end: see the Makefile */

#endif
