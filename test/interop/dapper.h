/* dapper.h: the C# programs' statements, as they are, on a connection of CT-Library's: no part of the library is in
 * between. Their real client is in dotnet/. */
#ifndef INTEROP_DAPPER_H
#define INTEROP_DAPPER_H

#include <stdbool.h>

#include "url.h"

typedef struct dapper dapper;

/* What a statement did. */
typedef struct dapper_result {
    bool refused;           /* by a unique index: nothing was changed */
    int changed;            /* rows */
    bool row;               /* one was put out, and this was its first column */
    char first[64];
} dapper_result;

/* Prints what is wrong and answers NULL. */
dapper *dapper_open(const rq_url *url, const char *table);
void dapper_close(dapper *d);

/* Runs a file of this folder; values are those of its parameters, in their order. False: it failed, and that was
 * printed. */
bool dapper_run(dapper *d, const char *name, const char *const *values, dapper_result *out);

#endif
