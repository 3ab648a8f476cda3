/* native.h: a program's own connection beside the library, as renderq_native() hands it out or renderq_attach() takes it:
 * own SQL on it, and what the library must leave as it was. One file an engine implements it. */
#ifndef CONFORMANCE_NATIVE_H
#define CONFORMANCE_NATIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "url.h"

typedef struct native_ops {
    const char *scheme;
    bool one_writer;            /* while a transaction writes, others wait */
    bool tells_apart;           /* one transaction of an attached connection from the next */

    const char *begin, *commit, *rollback;

    /* A connection of the program's own, with settings and callbacks that are not the usual ones. */
    void *(*connect)(const rq_url *url);
    void (*disconnect)(void *native);
    /* Whether those are as they were, and no callback has been called since. */
    bool (*untouched)(void *native);

    /* Runs a statement; false: it failed. */
    bool (*run)(void *native, const char *sql);
    /* The number that a SELECT answers. */
    int64_t (*ask)(void *native, const char *sql);
    /* An INSERT that fails on a row which is there, and ends the transaction; %s is the table, with the columns (k, v). */
    const char *deadly;
} native_ops;

extern const native_ops native_sqlite, native_sqlserver;

const native_ops *native_for(const char *scheme);

#endif
