/* work.c: renderq work: takes jobs, runs the program for each, and tells the queue what came of it. How a process
 * is run is child.c's. */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/stat.h>
#include <unistd.h>

#include "child.h"
#include "json.h"
#include "signals.h"
#include "text.h"

const char help_work[] =
    "usage: renderq work [OPTION]... -- PROGRAM [ARGUMENT]...\n"
    "\n"
    "Takes jobs, one after the other, and runs PROGRAM once for each.\n"
    "\n"
    "  --once                take one job and exit: 0 it is done, 1 it is not,\n"
    "                        2 there was none\n"
    "  --until-empty         exit when no job is ready\n"
    "  --wait DURATION       exit when no job came for so long (for ever; --once: 0)\n"
    "  --max-jobs N          exit after N jobs\n"
    "  --lease DURATION      how long a job stays ours when we fall silent (600s).\n"
    "                        It is renewed every third of that\n"
    "  --retry-after DURATION\n"
    "                        how long a job waits whose PROGRAM exited 75 (30s)\n"
    "  --worker NAME         this worker's name (HOST:PID)\n"
    "\n"
    "PROGRAM gets the payload on standard input, and in its environment\n"
    "RENDERQ_JOB_ID, RENDERQ_COMPOSITION_ID, RENDERQ_ATTEMPT (1 the first time) and,\n"
    "if the job has one, RENDERQ_OUTPUT_URL. RENDERQ_PASSWORD is taken out of it.\n"
    "\n"
    "What it exits with decides:\n"
    "  0      the job is done. The last line of standard output is the output URL\n"
    "  75     it asks for a retry: the job goes back and no failure is counted\n"
    "  else   the attempt failed, as after a crash. The tail of standard error is\n"
    "         the message; the job is tried again later, or becomes a dead letter\n"
    "\n"
    "Standard error is passed on. When the lease is lost, PROGRAM is stopped and its\n"
    "result not used. What PROGRAM leaves behind in its process group ends with it,\n"
    "and all of it ends when renderq itself is killed.\n"
    "\n"
    "SIGTERM, SIGINT or SIGHUP stops after the job in hand. A second one ends\n"
    "PROGRAM (SIGTERM to its process group, SIGKILL after 5 s) and releases the job;\n"
    "a third one does not wait these 5 s.\n"
    "\n"
    "Examples:\n"
    "  renderq work -- ./render.sh\n"
    "  while renderq work --once --wait 1h -- ./render.sh; do :; done\n";

#define GRACE_MS    5000            /* from SIGTERM to SIGKILL */
#define PAUSE_MS    1000            /* before the database is asked again */
#define STOPS_HEARD 3               /* signals that mean something; who sends more wants out, come what may */
#define ASK_RETRY   75              /* EX_TEMPFAIL */

typedef struct worker {
    cli *c;
    char **program;
    guard guard;
    renderq_options options;
    renderq_claim_options claim;
    int64_t retry_after_ms, max_jobs, taken;
    bool once;
} worker;

/* ---- one job: the program runs ---- */

typedef enum verdict { DONE, FAILED, RETRY, RELEASED, LOST, NOT_RUN } verdict;

typedef struct attempt {
    worker *w;
    renderq_job *job;
    child child;
    sigset_t before;
    verdict ending;                 /* RELEASED or LOST: why the program is being stopped; DONE: it is not */
    int64_t renew_at, kill_at, began;
    char text[TAIL_BYTES + 200];    /* what went wrong */
    const char *output_url;
} attempt;

static int64_t third_ms(const worker *w)
{
    return (int64_t)w->claim.lease_s * 1000 / 3;
}

/* The library's text, which names the job in some of its cases and not in others. */
static void complain_job(const attempt *a, const char *more)
{
    const char *text = renderq_errmsg(a->w->c->h);
    bool named = strstr(text, a->job->id.text) != NULL;
    if (named)
        complain(a->w->c, "%s%s", text, more);
    else
        complain(a->w->c, "job %s: %s%s", a->job->id.text, text, more);
}

static void stop_child(attempt *a, verdict why)
{
    a->ending = why;
    a->kill_at = clock_ms() + GRACE_MS;
    child_signal(&a->child, SIGTERM);
    child_signal(&a->child, SIGCONT);       /* a stopped one would not hear it */
}

static void lose(attempt *a, const char *why)
{
    complain(a->w->c, "%s; the program is stopped", why);
    stop_child(a, LOST);
}

static void renew(attempt *a)
{
    renderq *h = a->w->c->h;
    let_signals(&a->before);                /* an interrupt ends a request that hangs */
    renderq_status status = renderq_renew(h, a->job, NULL);
    sigset_t unused;
    hold_signals(&unused);
    if (status == RENDERQ_OK) {
        a->renew_at = clock_ms() + third_ms(a->w);
    } else if (status == RENDERQ_LOST) {
        lose(a, renderq_errmsg(h));
    } else if (renderq_lease_left_ms(a->job) == 0) {
        complain_job(a, "");
        lose(a, "its lease ran out, and somebody else may have the job");
    } else if (status != RENDERQ_INTERRUPTED) {
        int64_t wait = third_ms(a->w) < PAUSE_MS ? third_ms(a->w) : PAUSE_MS;
        complain_job(a, "");
        a->renew_at = clock_ms() + wait;
    }
}

/* Until the program has ended, by itself or because it must. Signals are held, but for the moments in which
 * child_serve() and renew() wait, so that none comes unseen between a look and a wait. */
static void attend(attempt *a)
{
    for (;;) {
        int stops = stops_asked();
        if (stops >= 2 && a->ending == DONE)
            stop_child(a, RELEASED);
        if (a->ending != DONE && (stops >= STOPS_HEARD || clock_ms() >= a->kill_at)) {
            child_signal(&a->child, SIGKILL);
            a->kill_at = INT64_MAX;
        }
        if (a->ending != LOST && clock_ms() >= a->renew_at) {
            renew(a);
            continue;
        }
        int64_t until = a->ending == LOST || a->kill_at < a->renew_at ? a->kill_at : a->renew_at;
        int64_t left = until == INT64_MAX ? PAUSE_MS : until - clock_ms();
        if (child_serve(&a->child, left > 0 ? left : 0, &a->before))
            return;
    }
}

static bool ended_with_us(const child *c)
{
    return stops_asked() > 0 && (c->signal == SIGTERM || c->signal == SIGINT || c->signal == SIGHUP);
}

/* Some supervisors signal every process of a service, so that the program ends before it was asked to by us; that
 * is no failure of the job. */
static verdict judge(attempt *a)
{
    child *c = &a->child;
    const char *said = tail_end(&c->err_tail);
    if (a->ending != DONE)
        return a->ending;
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

static verdict run_program(attempt *a)
{
    worker *w = a->w;
    hold_signals(&a->before);
    verdict v = NOT_RUN;
    if (child_start(&a->child, w->program, a->job, &w->guard, &a->before)) {
        attend(a);
        child_end(&a->child);
        v = judge(a);
    } else {
        snprintf(a->text, sizeof a->text, "%s cannot be run: %s", w->program[0], strerror(errno));
    }
    let_signals(&a->before);
    return v;
}

/* ---- one job: the queue is told ---- */

static bool passes(renderq_status status)
{
    return status == RENDERQ_BUSY || status == RENDERQ_DISCONNECTED || status == RENDERQ_UNCERTAIN;
}

static void rest(int64_t ms)
{
    struct timespec pause = timespec_of(ms);
    nanosleep(&pause, NULL);
}

static renderq_status tell_once(const attempt *a, verdict v)
{
    renderq *h = a->w->c->h;
    switch (v) {
    case DONE: return renderq_complete(h, a->job, a->output_url);
    case FAILED: return renderq_fail(h, a->job, a->text, RENDERQ_BACKOFF);
    case RETRY: return renderq_release(h, a->job, a->w->retry_after_ms);
    case LOST: return RENDERQ_LOST;         /* it is somebody else's: there is nothing to say */
    default: return renderq_release(h, a->job, 0);
    }
}

/* As long as the lease stands, the database is asked again; it may be back in time. */
static renderq_status tell(attempt *a, verdict *v)
{
    bool maybe = false;
    renderq_status status;
    while ((status = tell_once(a, *v)) != RENDERQ_OK) {
        if (status == RENDERQ_INTERRUPTED && stops_asked() <= STOPS_HEARD)
            continue;                       /* by a signal; nothing was done */
        maybe = maybe || status == RENDERQ_UNCERTAIN;
        if (!passes(status) || renderq_lease_left_ms(a->job) == 0 || stops_asked() >= STOPS_HEARD)
            break;
        complain_job(a, "");
        rest(PAUSE_MS);
    }
    if (status != RENDERQ_OK && *v != LOST)
        complain_job(a, maybe ? " (an earlier reply was lost, and may have been a yes)" : "");
    if (status == RENDERQ_LOST)
        *v = LOST;
    return status;
}

/* ---- reports ---- */

static void report_start(const attempt *a)
{
    const renderq_job *job = a->job;
    if (a->w->c->json) {
        json_print(json_pack("{s:s, s:s, s:o, s:i, s:s}", "event", "started", "id", job->id.text,
                             "composition_id", json_text(job->composition_id), "attempt", job->retry_count + 1,
                             "lease", job->lease.text));
        return;
    }
    char *clean = text_clean(job->composition_id);
    printf("%s started: %s, attempt %d, lease %s\n", job->id.text, clean, job->retry_count + 1, job->lease.text);
    free(clean);
}

static void report_json(const attempt *a, const char *event, int64_t ms, bool dead)
{
    const child *c = &a->child;
    json_t *object = json_object();
    json_object_set_new(object, "event", json_string(event));
    json_object_set_new(object, "id", json_text(a->job->id.text));
    json_object_set_new(object, "composition_id", json_text(a->job->composition_id));
    json_object_set_new(object, "attempt", json_integer(a->job->retry_count + 1));
    json_object_set_new(object, "duration_ms", json_integer(ms));
    json_object_set_new(object, "output_url", json_text(a->output_url));
    json_object_set_new(object, "error", json_text(*a->text ? a->text : NULL));
    json_object_set_new(object, "dead", json_boolean(dead));
    json_object_set_new(object, "exit_code", c->pid > 0 && c->code >= 0 ? json_integer(c->code) : json_null());
    json_object_set_new(object, "signal", c->signal ? json_integer(c->signal) : json_null());
    json_print(object);
}

static void report(const attempt *a, verdict v)
{
    static const char *const events[] = {
        [DONE] = "done", [FAILED] = "failed", [RETRY] = "retry", [RELEASED] = "released", [LOST] = "lost",
        [NOT_RUN] = "released"
    };
    int64_t ms = clock_ms() - a->began;
    bool dead = v == FAILED && a->job->retry_count >= a->job->max_retries;
    if (a->w->c->json) {
        report_json(a, events[v], ms, dead);
        return;
    }
    char took[DURATION_SIZE], wait[DURATION_SIZE] = "";
    if (v == RETRY)
        duration_text(a->w->retry_after_ms, wait);
    char *text = v == DONE ? text_clean(a->output_url ? a->output_url : "") : text_last_line(a->text);
    printf("%s %s after %s%s%s%s%s%s\n", a->job->id.text, events[v], duration_text(ms, took),
           v == RETRY ? ", in " : "", wait, dead ? " for the last time: it is a dead letter" : "",
           *text ? ": " : "", text);
    free(text);
}

/* ---- all jobs ---- */

/* CODE_DONE: on to the next one. */
static exit_code work_on(worker *w, renderq_job *job)
{
    int64_t now = clock_ms();
    attempt a = { .w = w, .job = job, .ending = DONE, .began = now, .renew_at = now + third_ms(w),
                  .kill_at = INT64_MAX };
    verdict v = RELEASED;
    if (stops_asked() == 0) {
        report_start(&a);
        v = run_program(&a);
    }
    verdict told = v;
    renderq_status status = tell(&a, &told);
    if (status == RENDERQ_OK || status == RENDERQ_LOST)
        report(&a, told);
    if (v == NOT_RUN) {
        complain(w->c, "%s", a.text);
        return CODE_SYSTEM;
    }
    if (w->once)
        return status != RENDERQ_OK ? exit_of(status) : told == DONE ? CODE_DONE : CODE_NOT_DONE;
    return status == RENDERQ_LOST || passes(status) ? CODE_DONE : exit_of(status);
}

static exit_code work_all(worker *w)
{
    cli *c = w->c;
    while (stops_asked() == 0 && (w->max_jobs == 0 || w->taken < w->max_jobs)) {
        renderq_job *job = NULL;
        renderq_status status = renderq_claim(c->h, &w->claim, &job);
        if (status == RENDERQ_EMPTY)
            return w->once ? CODE_NOTHING : CODE_DONE;
        if (status == RENDERQ_INTERRUPTED)
            continue;
        if (status != RENDERQ_OK) {
            exit_code code = complain_status(c, status);
            if (w->once || !passes(status))
                return code;
            rest(PAUSE_MS);                 /* the database will be back */
            continue;
        }
        w->taken++;
        exit_code code = work_on(w, job);
        renderq_job_free(job);
        if (w->once || code != CODE_DONE)
            return code;
    }
    return w->once ? CODE_NOTHING : CODE_DONE;
}

static bool is_program(const char *file)
{
    struct stat what;
    return access(file, X_OK) == 0 && stat(file, &what) == 0 && S_ISREG(what.st_mode);
}

/* A misspelt program should be noticed now, and not when a job comes. */
static bool can_run(const char *program)
{
    const char *path = getenv("PATH");
    char file[PATH_MAX];
    if (strchr(program, '/'))
        return is_program(program);
    for (; path && *path; path += path[0] == ':') {
        size_t len = strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s%s%s", (int)len, path, len > 0 ? "/" : "", program);
        if (is_program(file))
            return true;
        path += len;
    }
    return !path;                           /* exec() knows what to do without one */
}

static void log_line(renderq_log_level level, const char *line, void *arg)
{
    if (level <= RENDERQ_LOG_WARNING)
        complain(arg, "%s", line);
}

static exit_code work(worker *w)
{
    cli *c = w->c;
    if (!can_run(w->program[0])) {
        complain(c, "%s cannot be run: it is not there, or not executable", w->program[0]);
        return CODE_SYSTEM;
    }
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);       /* a log should be complete up to a crash */
    if (!guard_start(&w->guard)) {
        complain(c, "no process can be started: %s", strerror(errno));
        return CODE_SYSTEM;
    }
    child_inherits();                       /* of what is open now; not the database's connection */
    exit_code code = open_queue(c, &w->options);
    if (code == CODE_DONE) {
        catch_signals(c->h);
        code = work_all(w);
        interrupt_handle(NULL);
    }
    guard_stop(&w->guard);
    return code;
}

/* ---- options ---- */

enum { ONCE = 256, UNTIL_EMPTY, WAIT, MAX_JOBS, LEASE, RETRY_AFTER, WORKER };

static const struct option longs[] = {
    { "once", no_argument, NULL, ONCE },
    { "until-empty", no_argument, NULL, UNTIL_EMPTY },
    { "wait", required_argument, NULL, WAIT },
    { "max-jobs", required_argument, NULL, MAX_JOBS },
    { "lease", required_argument, NULL, LEASE },
    { "retry-after", required_argument, NULL, RETRY_AFTER },
    { "worker", required_argument, NULL, WORKER },
    { NULL, 0, NULL, 0 }
};

static bool take_lease(const cli *c, const char *text, int *lease_s)
{
    int64_t ms;
    if (!take_duration(c, "--lease", text, &ms))
        return false;
    if (ms < 1000 || ms % 1000 != 0 || ms / 1000 > RENDERQ_LEASE_MAX_S) {
        wrong_usage(c, "--lease is \"%s\": it is whole seconds, at least one and at most 30d", text);
        return false;
    }
    *lease_s = (int)(ms / 1000);
    return true;
}

static bool take_option(worker *w, int option, bool *waits)
{
    cli *c = w->c;
    switch (option) {
    case ONCE:
        w->once = true;
        return true;
    case UNTIL_EMPTY:
        w->claim.wait_ms = 0;
        return *waits = true;
    case WAIT:
        *waits = true;
        return take_duration(c, "--wait", optarg, &w->claim.wait_ms);
    case MAX_JOBS:
        return take_number(c, "--max-jobs", optarg, 1, INT64_MAX, &w->max_jobs);
    case LEASE:
        return take_lease(c, optarg, &w->claim.lease_s);
    case RETRY_AFTER:
        return take_duration(c, "--retry-after", optarg, &w->retry_after_ms);
    default:
        w->options.worker = optarg;
        return true;
    }
}

exit_code run_work(cli *c, int argc, char **argv)
{
    worker w = { .c = c, .options = RENDERQ_INIT(renderq_options), .claim = RENDERQ_INIT(renderq_claim_options),
                 .retry_after_ms = 30000 };
    bool waits = false;
    int option;
    w.claim.lease_s = RENDERQ_LEASE_DEFAULT_S;
    while ((option = next_option(c, argc, argv, "+:", longs)) >= 0)
        if (!take_option(&w, option, &waits))
            return CODE_USAGE;
    if (option == OPTION_STOP)
        return option_stopped(c);
    if (!check_arguments(c, argc - optind, 1, -1, "the PROGRAM to run"))
        return CODE_USAGE;
    w.program = argv + optind;
    w.claim.queue = c->queue;
    if (!waits)
        w.claim.wait_ms = w.once ? 0 : RENDERQ_FOREVER;
    /* With a short lease no request may hang so long that it runs out meanwhile. */
    int patience_s = w.claim.lease_s / 3 < 1 ? 1 : w.claim.lease_s / 3;
    w.options.command_s = w.options.retry_s = patience_s < 30 ? patience_s : 30;
    w.options.log = log_line;
    w.options.log_arg = c;
    return work(&w);
}
