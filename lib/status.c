/* status.c: statuses as words, and the library's version. */
#include "renderq.h"

static const char *const names[] = {
    [RENDERQ_OK] = "OK",
    [RENDERQ_EMPTY] = "EMPTY",
    [RENDERQ_LOST] = "LOST",
    [RENDERQ_DUPLICATE] = "DUPLICATE",
    [RENDERQ_BUSY] = "BUSY",
    [RENDERQ_ABORTED] = "ABORTED",
    [RENDERQ_UNCERTAIN] = "UNCERTAIN",
    [RENDERQ_DISCONNECTED] = "DISCONNECTED",
    [RENDERQ_DENIED] = "DENIED",
    [RENDERQ_SCHEMA] = "SCHEMA",
    [RENDERQ_INVALID] = "INVALID",
    [RENDERQ_NOMEM] = "NOMEM",
    [RENDERQ_INTERRUPTED] = "INTERRUPTED",
    [RENDERQ_FAILED] = "FAILED",
};

const char *renderq_strstatus(renderq_status status)
{
    return (unsigned)status < sizeof names / sizeof names[0] ? names[status] : "unknown status";
}

const char *renderq_version(void)
{
    return RENDERQ_VERSION;
}
