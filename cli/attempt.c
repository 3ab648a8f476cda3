/* attempt.c: the program runs for a job. See attempt.h. */
#include "attempt.h"

#include <errno.h>
#include <string.h>

#include "cli.h"
#include "signals.h"

#define GRACE_MS    5000            /* from SIGTERM to SIGKILL */
#define LOOK_MS     100             /* how soon a signal, or a lease that is lost, is seen */
#define STOPS_HEARD 3               /* the signal that ends the program for good */
#define ASK_RETRY   75              /* EX_TEMPFAIL */

static void stop_child(const attempt *a)
{
    child_signal(&a->child, SIGTERM);
    child_signal(&a->child, SIGCONT);       /* a stopped one would not hear it */
}

/* Until the program has ended, by itself or because it must. DONE: by itself. */
static verdict attend(attempt *a, const renderq_task *task)
{
    verdict ending = DONE;
    int64_t kill_at = INT64_MAX;
    while (!child_serve(&a->child, LOOK_MS)) {
        renderq_stop_reason why = ending == DONE ? renderq_task_should_stop(task) : RENDERQ_GO_ON;
        if (why != RENDERQ_GO_ON) {
            ending = why == RENDERQ_STOP_LOST ? LOST : RELEASED;
            kill_at = clock_ms() + GRACE_MS;
            stop_child(a);
        }
        if (ending != DONE && (stops_asked() >= STOPS_HEARD || clock_ms() >= kill_at)) {
            child_signal(&a->child, SIGKILL);
            kill_at = INT64_MAX;
        }
    }
    return ending;
}

static bool ended_with_us(const child *c)
{
    return stops_asked() > 0 && (c->signal == SIGTERM || c->signal == SIGINT || c->signal == SIGHUP);
}

/* Some supervisors signal every process of a service, so that the program ends before it was asked to by us; that
 * is no failure of the job. */
static verdict judge(attempt *a, verdict ending)
{
    child *c = &a->child;
    const char *said = tail_end(&c->err_tail);
    if (ending != DONE)
        return ending;
    if (c->code == 0) {
        const char *wrong = last_line_end(&c->out_line, &a->output_url);
        if (wrong)
            snprintf(a->text, sizeof a->text,
                     "exit code 0, but the last line of standard output, the output URL, %s", wrong);
        return wrong ? FAILED : DONE;
    }
    if (ended_with_us(c))
        return RELEASED;
    if (c->code < 0)
        snprintf(a->text, sizeof a->text, "%s%s(killed by signal %d, %s)", said, *said ? " " : "", c->signal,
                 strsignal(c->signal));
    else if (*said)
        snprintf(a->text, sizeof a->text, "%s (exit code %d)", said, c->code);
    else
        snprintf(a->text, sizeof a->text, "exit code %d, and nothing on standard error", c->code);
    return c->code == ASK_RETRY ? RETRY : FAILED;
}

verdict attempt_run(attempt *a, renderq_task *task, const renderq_job *job, char **program, const guard *g, live *l)
{
    a->text[0] = 0;
    a->output_url = NULL;
    if (!child_start(&a->child, program, job, g, l)) {
        snprintf(a->text, sizeof a->text, "%s cannot be run: %s", program[0], strerror(errno));
        return NOT_RUN;
    }
    verdict ending = attend(a, task);
    child_end(&a->child);
    return judge(a, ending);
}
