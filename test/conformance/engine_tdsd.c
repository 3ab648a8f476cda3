/* engine_tdsd.c: engine.h beside the TDS test server: the other program works on the SQLite file that the server keeps
 * its tables in. RENDERQ_TDSD_FILE names it. */
#include <stdlib.h>

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

engine_ops engine_tdsd(void)
{
    engine_ops ops = engine_sqlite;
    ops.scheme = "sqlserver";
    ops.impatient = "lock_timeout_ms=100";
    ops.open = open_file;
    return ops;
}
