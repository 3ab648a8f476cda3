/* calls.h: the library's calls on a server that says anything at all. What comes out of them must hold in itself,
 * whatever went in. */
#ifndef TEST_FUZZ_CALLS_H
#define TEST_FUZZ_CALLS_H

#include "renderq.h"
#include "statement.h"

typedef struct call {
    const char *name;
    rq_statement_id statement;      /* the one that it begins with; RQ_STATEMENTS: another */
    bool many;                      /* for several items */
    renderq_status (*run)(renderq *h);
} call;

extern const call calls[];
extern const size_t n_calls;

/* Opens a handle on the wire (wire.h); NULL when the server would not let it in, or could not be understood. With
 * `retry` its calls try again, for a second by a clock that only their waiting moves on. */
renderq *calls_open(bool retry);

/* Makes the call, and looks at its answer. */
void calls_run(renderq *h, size_t which);

#endif
