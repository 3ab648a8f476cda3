/* work.c: renderq work: takes jobs, runs the program for each, several side by side, and says what came of it. The
 * queue is the library's worker's to ask and tell; how the program runs for one job is attempt.c's. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attempt.h"
#include "json.h"
#include "signals.h"
#include "text.h"

const char help_work[] =
    "usage: renderq work [OPTION]... -- PROGRAM [ARGUMENT]...\n"
    "\n"
    "Takes jobs, and runs PROGRAM once for each.\n"
    "\n"
    "  -j, --jobs N          run so many side by side (1)\n"
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
    "SIGTERM, SIGINT or SIGHUP stops after the jobs in hand. A second one ends\n"
    "PROGRAM (SIGTERM to its process group, SIGKILL after 5 s) and releases the job;\n"
    "a third one does not wait these 5 s.\n"
    "\n"
    "Examples:\n"
    "  renderq work -- ./render.sh\n"
    "  while renderq work --once --wait 1h -- ./render.sh; do :; done\n";

#define LINGER_S 15                 /* a program that is stopped has 5 s, and then the queue is to hear of it */

/* What is left of an attempt when its program has ended, until the queue has heard of it. */
typedef struct record {
    struct record *next;
    renderq_id id, lease;           /* a lost job may be claimed again while its program is still being ended */
    verdict verdict;
    bool ended, lost;
    int64_t began_ms, ms;
    char *text;
    int code, signal;               /* code -1: none */
} record;

typedef struct work_run {
    cli *c;
    char **program;
    guard guard;
    live live;
    renderq_worker *worker;
    renderq_worker_options options;
    int64_t retry_after_ms;
    bool once;

    /* Under the live line's lock. */
    record *records;
    bool taken, done;               /* --once: its job */
    exit_code code;                 /* why it ends early; CODE_DONE: it does not */
} work_run;

/* ---- records ---- */

static record **find(work_run *w, const renderq_job *job)
{
    record **link = &w->records;
    while (*link && (strcmp((*link)->id.text, job->id.text) != 0 || strcmp((*link)->lease.text, job->lease.text) != 0))
        link = &(*link)->next;
    return link;
}

static void forget(record **link)
{
    record *gone = *link;
    *link = gone->next;
    free(gone->text);
    free(gone);
}

/* ---- reports; between live_open() and live_close() ---- */

static void report_start(const work_run *w, const renderq_job *job)
{
    if (w->c->json) {
        json_print(json_pack("{s:s, s:s, s:o, s:i, s:s}", "event", "started", "id", job->id.text,
                             "composition_id", json_text(job->composition_id), "attempt", job->retry_count + 1,
                             "lease", job->lease.text));
        return;
    }
    char *clean = text_clean(job->composition_id);
    printf("%s started: %s, attempt %d, lease %s\n", job->id.text, clean, job->retry_count + 1, job->lease.text);
    free(clean);
}

static const char *const words[] = {
    [DONE] = "done", [FAILED] = "failed", [RETRY] = "retry", [RELEASED] = "released", [LOST] = "lost",
    [NOT_RUN] = "released"
};

static void report_json(const renderq_job *job, const record *r, verdict v, const char *output_url, bool dead)
{
    json_t *object = json_object();
    json_object_set_new(object, "event", json_string(words[v]));
    json_object_set_new(object, "id", json_text(job->id.text));
    json_object_set_new(object, "composition_id", json_text(job->composition_id));
    json_object_set_new(object, "attempt", json_integer(job->retry_count + 1));
    json_object_set_new(object, "duration_ms", json_integer(r->ms));
    json_object_set_new(object, "output_url", json_text(output_url));
    json_object_set_new(object, "error", json_text(r->text && *r->text ? r->text : NULL));
    json_object_set_new(object, "dead", json_boolean(dead));
    json_object_set_new(object, "exit_code", r->code >= 0 ? json_integer(r->code) : json_null());
    json_object_set_new(object, "signal", r->signal ? json_integer(r->signal) : json_null());
    json_print(object);
}

static void report(const work_run *w, const renderq_job *job, const record *r, verdict v, const char *output_url,
                   bool dead)
{
    if (w->c->json) {
        report_json(job, r, v, output_url, dead);
        return;
    }
    char took[DURATION_SIZE], wait[DURATION_SIZE] = "";
    if (v == RETRY)
        duration_text(w->retry_after_ms, wait);
    char *text = v == DONE ? text_clean(output_url ? output_url : "") : text_last_line(r->text ? r->text : "");
    printf("%s %s after %s%s%s%s%s%s\n", job->id.text, words[v], duration_text(r->ms, took),
           v == RETRY ? ", in " : "", wait, dead ? " for the last time: it is a dead letter" : "",
           *text ? ": " : "", text);
    free(text);
}

/* ---- one job ---- */

/* It cannot go on: without the program no job can be worked on. */
static void give_up(work_run *w, exit_code code, const char *why)
{
    if (w->code == CODE_DONE)
        complain(w->c, "%s", why);
    w->code = w->code == CODE_DONE ? code : w->code;
    renderq_worker_stop(w->worker);
}

static void note_end(work_run *w, const renderq_job *job, const attempt *a, verdict v)
{
    record **link = find(w, job);
    record *r = *link;
    if (!r)
        return;
    r->ended = true;
    r->verdict = v;
    r->ms = clock_ms() - r->began_ms;
    r->text = must_copy(a->text);
    r->code = v == NOT_RUN ? -1 : a->child.code;
    r->signal = v == NOT_RUN ? 0 : a->child.signal;
    if (r->lost) {                          /* nobody will say more of it */
        report(w, job, r, LOST, NULL, false);
        forget(link);
    }
}

static renderq_outcome tell(const work_run *w, renderq_task *task, const attempt *a, verdict v)
{
    switch (v) {
    case DONE: return renderq_task_done(task, a->output_url);
    case FAILED: return renderq_task_fail(task, a->text, RENDERQ_BACKOFF);
    case RETRY: return renderq_task_retry(task, w->retry_after_ms);
    default: return renderq_task_retry(task, 0);
    }
}

static renderq_outcome handle(void *arg, renderq_task *task, const renderq_job *job)
{
    work_run *w = arg;
    attempt *a = must_alloc(NULL, sizeof *a);
    live_running(&w->live, 1);
    verdict v = attempt_run(a, task, job, w->program, &w->guard, &w->live);
    live_running(&w->live, -1);
    live_open(&w->live);
    if (v == NOT_RUN)
        give_up(w, CODE_SYSTEM, a->text);
    note_end(w, job, a, v);
    live_close(&w->live);
    renderq_outcome outcome = tell(w, task, a, v);
    free(a);
    return outcome;
}

/* ---- what the worker says ---- */

static void note_start(work_run *w, const renderq_job *job)
{
    record *r = must_alloc(NULL, sizeof *r);
    *r = (record){ .next = w->records, .id = job->id, .lease = job->lease, .began_ms = clock_ms(),
                    .code = -1 };
    w->records = r;
    w->taken = true;
    report_start(w, job);
}

/* The queue has heard how it went. */
static void note_told(work_run *w, const renderq_event *event)
{
    static const record none = { .code = -1 };
    record **link = find(w, event->job);
    verdict v = event->type == RENDERQ_EVENT_DONE ? DONE : event->type == RENDERQ_EVENT_FAILED ? FAILED
                : event->type == RENDERQ_EVENT_LOST ? LOST
                : *link && (*link)->verdict == RETRY ? RETRY : RELEASED;
    w->done = w->done || v == DONE;
    if (v == LOST && *link && !(*link)->ended) {
        (*link)->lost = true;               /* its program is being stopped */
        return;
    }
    report(w, event->job, *link ? *link : &none, v, v == DONE ? event->text : NULL, event->dead != 0);
    if (*link)
        forget(link);
}

static void on_event(void *arg, const renderq_event *event)
{
    work_run *w = arg;
    live_count(&w->live, event);
    live_open(&w->live);
    if (event->type == RENDERQ_EVENT_STARTED)
        note_start(w, event->job);
    else if (event->type == RENDERQ_EVENT_AWAY && w->once && !w->taken)
        give_up(w, exit_of(event->status), event->text);
    else if (event->job && event->type != RENDERQ_EVENT_TIMEOUT)
        note_told(w, event);
    live_close(&w->live);
}

static void on_line(renderq_log_level level, const char *line, void *arg)
{
    work_run *w = arg;
    if (level == RENDERQ_LOG_ERROR || (level == RENDERQ_LOG_WARNING && (!w->once || w->taken))) {
        live_open(&w->live);
        complain(w->c, "%s", line);
        live_close(&w->live);
    }
}

/* ---- all jobs ---- */

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

static exit_code run_worker(work_run *w)
{
    renderq_options connection = RENDERQ_INIT(renderq_options);
    w->options.handler = handle;
    w->options.on_event = on_event;
    w->options.log = on_line;
    w->options.handler_arg = w->options.event_arg = w->options.log_arg = w;
    w->options.grace_s = RENDERQ_FOREVER;
    w->options.linger_s = LINGER_S;
    w->options.connection = &connection;
    exit_code code = make_worker(w->c, &w->options, &connection, &w->worker);
    if (code != CODE_DONE)
        return code;
    stop_worker(w->worker);                 /* before a signal can ask for it */
    catch_signals(NULL);
    if (!w->c->json && !w->once)
        live_show(&w->live);
    renderq_status status = renderq_worker_run(w->worker);
    stop_worker(NULL);
    if (w->code != CODE_DONE)
        return w->code;
    if (status != RENDERQ_OK)
        return complain_text(w->c, status, renderq_worker_errmsg(w->worker));
    return !w->once || w->done ? CODE_DONE : w->taken ? CODE_NOT_DONE : CODE_NOTHING;
}

static exit_code work(work_run *w)
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
    live_begin(&w->live, c);
    exit_code code = run_worker(w);
    live_end(&w->live);
    renderq_worker_free(w->worker);
    while (w->records)
        forget(&w->records);
    guard_stop(&w->guard);
    return code;
}

/* ---- options ---- */

enum { ONCE = 256, UNTIL_EMPTY, WAIT, MAX_JOBS, LEASE, RETRY_AFTER, WORKER, JOBS = 'j' };

static const struct option longs[] = {
    { "once", no_argument, NULL, ONCE },
    { "until-empty", no_argument, NULL, UNTIL_EMPTY },
    { "wait", required_argument, NULL, WAIT },
    { "max-jobs", required_argument, NULL, MAX_JOBS },
    { "lease", required_argument, NULL, LEASE },
    { "retry-after", required_argument, NULL, RETRY_AFTER },
    { "worker", required_argument, NULL, WORKER },
    { "jobs", required_argument, NULL, JOBS },
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

static bool take_jobs(work_run *w, const char *text)
{
    int64_t n;
    if (!take_number(w->c, "--jobs", text, 1, RENDERQ_THREADS_MAX, &n))
        return false;
    w->options.threads = (int)n;
    return true;
}

static bool take_option(work_run *w, int option)
{
    cli *c = w->c;
    switch (option) {
    case ONCE:
        w->once = true;
        return true;
    case UNTIL_EMPTY:
        w->options.stop_when_empty = 1;
        return true;
    case WAIT:
        w->options.stop_when_empty = 1;
        return take_duration(c, "--wait", optarg, &w->options.empty_ms);
    case MAX_JOBS: return take_number(c, "--max-jobs", optarg, 1, INT64_MAX, &w->options.max_jobs);
    case LEASE: return take_lease(c, optarg, &w->options.lease_s);
    case RETRY_AFTER: return take_duration(c, "--retry-after", optarg, &w->retry_after_ms);
    case JOBS: return take_jobs(w, optarg);
    default: w->options.name = optarg; return true;
    }
}

exit_code run_work(cli *c, int argc, char **argv)
{
    work_run w = { .c = c, .options = RENDERQ_INIT(renderq_worker_options), .retry_after_ms = 30000 };
    int option;
    w.options.lease_s = RENDERQ_LEASE_DEFAULT_S;
    while ((option = next_option(c, argc, argv, "+:j:", longs)) >= 0)
        if (!take_option(&w, option))
            return CODE_USAGE;
    if (option == OPTION_STOP)
        return option_stopped(c);
    if (!check_arguments(c, argc - optind, 1, -1, "the PROGRAM to run"))
        return CODE_USAGE;
    if (w.once && w.options.threads > 1)
        return wrong_usage(c, "--once takes one job: it does not go with --jobs %d", w.options.threads);
    w.program = argv + optind;
    w.options.queue = c->queue;
    if (w.once) {
        w.options.max_jobs = 1;
        w.options.stop_when_empty = 1;
    }
    return work(&w);
}
