/* engine_dapper.h: the suite's other program with its statements in T-SQL. */
#ifndef INTEROP_ENGINE_DAPPER_H
#define INTEROP_ENGINE_DAPPER_H

#include "engine.h"

/* `raw` has to stay where it is. */
engine_ops engine_dapper(const engine_ops *raw);

#endif
