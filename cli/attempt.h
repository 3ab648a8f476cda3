/* attempt.h: one job of renderq work: the program runs for it, and what it ended with becomes a verdict. The queue is
 * told by the library; nothing is printed here. */
#ifndef CLI_ATTEMPT_H
#define CLI_ATTEMPT_H

#include "child.h"

typedef enum verdict {
    DONE,
    FAILED,
    RETRY,              /* the program asks for it */
    RELEASED,           /* it was stopped, or had better be */
    LOST,               /* it was stopped because the job is somebody else's */
    NOT_RUN             /* it cannot be run at all */
} verdict;

typedef struct attempt {
    child child;
    char text[TAIL_BYTES + 200];    /* what went wrong */
    const char *output_url;
} attempt;

verdict attempt_run(attempt *a, renderq_task *task, const renderq_job *job, char **program, const guard *g, live *l);

#endif
