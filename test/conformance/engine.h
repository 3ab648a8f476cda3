/* engine.h: the queue's table as some other program sees it: raw statements that know nothing of leases, and reads
 * of single columns. One file an engine implements it; all other tests know no engine. */
#ifndef CONFORMANCE_ENGINE_H
#define CONFORMANCE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "renderq.h"
#include "url.h"

/* A column's value. GUIDs are text, times milliseconds of UTC since 1970. */
typedef struct cell {
    bool present;
    int64_t number;
    char *text;             /* malloc'd; NULL for a number */
} cell;

/* A connection of the other program, on one queue's table. Each engine has its own kind. */
typedef struct engine engine;

/* What a test may need that not every engine can do. */
typedef enum engine_ability {
    ENGINE_SORTS_IDS,           /* as SQL Server does; jobs of one instant are claimed in the order of their ids */
    ENGINE_STOPS,               /* a request that waits for a lock, when it is interrupted or its time is up */
    ENGINE_BRACKETS,            /* ] in a table's name */
    ENGINE_OUTPUTS              /* what OUTPUT gives is true, also of a row that changed while the statement waited */
} engine_ability;

/* A failing statement fails the test, unless it says otherwise. */
typedef struct engine_ops {
    const char *scheme;
    const char *impatient;      /* the URL's option that makes a lock wait short, "name=value" */

    engine *(*open)(const rq_url *url, const char *table);
    void (*close)(engine *e);

    /* NULL: it can do that; else why not, in a sentence for whoever reads that a test was skipped. */
    const char *(*unable)(engine *e, engine_ability ability);

    /* -- what the C# programs beside ours say: the statements of test/interop; true: a row was there and changed -- */

    /* Names none of the columns that we added. */
    void (*enqueue)(engine *e, const char *composition_id, const char *payload, int priority, renderq_id *id);
    /* Sets Status, WorkerNodeId and LockedAtUtc alone. */
    bool (*claim)(engine *e, const char *worker, renderq_id *id);
    /* By JobId alone, in any state. */
    bool (*complete)(engine *e, const renderq_id *id, const char *output_url);
    /* By JobId alone, in any state. False also when the table's constraints refuse it. */
    bool (*mark_failed)(engine *e, const renderq_id *id, const char *message);
    /* Queues what is Processing and was locked over ten minutes ago; how many. */
    int (*watchdog)(engine *e);
    /* Makes the table as they do. */
    void (*make_theirs)(engine *e);

    /* -- raw access -- */

    /* False: no such row. */
    bool (*read)(engine *e, const renderq_id *id, const char *column, cell *out);
    /* Many columns, in one request where there are requests. */
    bool (*read_row)(engine *e, const renderq_id *id, const char *const *columns, cell *out, size_t n);
    /* False: the table refuses the value. */
    bool (*write)(engine *e, const renderq_id *id, const char *column, const cell *value);
    void (*write_all)(engine *e, const char *column, int64_t number);
    /* At most max ids, in the order of JobId (as SQL Server sorts them); how many. */
    size_t (*ids)(engine *e, renderq_id *out, size_t max);
    int64_t (*now_ms)(engine *e);
    void (*clear)(engine *e);                       /* deletes every row */
    void (*drop)(engine *e);                        /* drops the table, if it is there */

    /* Makes a table without our columns, as an older program has it: RetryCount may be NULL, and is. */
    void (*make_foreign)(engine *e);
    /* Makes a table of this name that can never be a queue. */
    void (*make_other)(engine *e);

    /* Locks a row (or more) against writers, until it is let go. */
    void (*lock)(engine *e, const renderq_id *id);
    void (*unlock)(engine *e);
} engine_ops;

extern const engine_ops engine_sqlite, engine_sqlserver;

/* The engine of a URL's scheme, or the test server in its place; fails where there is none. */
const engine_ops *engine_for(const char *scheme);

#endif
