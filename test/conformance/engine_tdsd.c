/* engine_tdsd.c: engine.h beside the TDS test server: the other program works on the SQLite file that the server keeps
 * its tables in. RENDERQ_TDSD_FILE names it. And the choice among the engines. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "suite.h"

static engine *open_file(const rq_url *url, const char *table)
{
    rq_url file = *url;
    file.path = getenv("RENDERQ_TDSD_FILE");
    if (!file.path)
        fail_msg("RENDERQ_TDSD_FILE does not name the test server's file");
    return engine_sqlite.open(&file, table);
}

static engine_ops engine_tdsd(void)
{
    engine_ops ops = engine_sqlite;
    ops.scheme = "sqlserver";
    ops.impatient = "lock_timeout_ms=100";
    ops.open = open_file;
    return ops;
}

const engine_ops *engine_for(const char *scheme)
{
    static engine_ops tdsd;
    tdsd = engine_tdsd();
    const engine_ops *const engines[] = { &engine_sqlite, getenv("RENDERQ_TDSD_FILE") ? &tdsd : &engine_sqlserver };
    for (size_t i = 0; i < count_of(engines); i++)
        if (strcmp(engines[i]->scheme, scheme) == 0)
            return engines[i];
    fail_msg("no engine.h for the URL's scheme \"%s\"", scheme);
    return NULL;
}
