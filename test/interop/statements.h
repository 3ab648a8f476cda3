/* statements.h: the files of this folder, as the build embeds them: the statements of the C# programs that work on the
 * table through Dapper, in T-SQL, and their renderings in SQLite's SQL. */
#ifndef INTEROP_STATEMENTS_H
#define INTEROP_STATEMENTS_H

#include "driver.h"

extern const rq_sql interop_tsql[], interop_sqlite[];       /* for rq_sql_find() */

#endif
