/* worker.c: takes jobs from the queue, renders each into a video file, and says how it went.
 *
 *     worker [OPTION]... URL
 *
 * Any number may run, on as many machines as reach the database. SIGTERM and SIGINT stop it cleanly: the jobs
 * in hand are given back and count no failure. What is rendered, and how, is in y4m.c.
 * Exit: 0 stopped, 1 the queue cannot be used, 2 wrong usage. */
#include <renderq.h>

#include "y4m.h"

#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: worker [OPTION]... URL\n"
    "  -o, --output FOLDER   where the videos go (.)\n"
    "  -l, --lease SECONDS   how long a job stays ours when we fall silent (60)\n"
    "  -n, --name NAME       this worker's name (HOST:PID)\n"
    "  -t, --threads N       render so many videos side by side (1)\n"
    "  -e, --until-empty     end when no job is ready, instead of waiting for the next\n";

static renderq_worker *volatile running;    /* for the signal handler alone; NULL when there is none */

static void on_signal(int number)
{
    (void)number;
    renderq_worker_stop(running);
}

/* Between two frames: whether to stop, and how far it is. The runtime keeps the lease alive. */
static int after_frame(void *arg, int done, int total)
{
    renderq_task *task = arg;
    char progress[64];

    /* After the last frame the video gets its name, and only if the job is still ours. */
    if (done == total)
        return renderq_job_lost(task);
    snprintf(progress, sizeof progress, "frame %d of %d", done, total);
    renderq_task_progress(task, progress);
    return renderq_task_should_stop(task) != RENDERQ_GO_ON;
}

/* A job that was completed before and is queued again has the whole path as its output. */
static const char *output_name(const renderq_job *job, char *buffer, size_t size)
{
    if (job->output_url == NULL) {
        snprintf(buffer, size, "%s.y4m", job->composition_id);
        return buffer;
    }
    return job->output_url[0] == '/' ? strrchr(job->output_url, '/') + 1 : job->output_url;
}

/* The handler: several threads may be in it at once. */
static renderq_outcome render(void *arg, renderq_task *task, const renderq_job *job)
{
    const char *folder = arg;
    char buffer[(size_t)4 * RENDERQ_COMPOSITION_MAX + sizeof ".y4m"];
    char path[PATH_MAX + RENDERQ_OUTPUT_URL_MAX];
    const char *name = output_name(job, buffer, sizeof buffer);
    y4m_composition composition;
    y4m_error error = {""};
    y4m_result result = y4m_parse(job->payload_json, job->payload_len, &composition, &error);

    if (job->retry_count > 0)
        y4m_sweep(folder);                  /* the attempt before may have died and left its file */
    if (result == Y4M_OK)                   /* the lease's token is different at every attempt, on every machine */
        result = y4m_render(&composition, folder, name, job->lease.text, after_frame, task, &error);
    switch (result) {
    case Y4M_OK:
        snprintf(path, sizeof path, "%s/%s", folder, name);
        return renderq_task_done(task, path);
    case Y4M_BAD:                           /* no attempt can help: the dead letters are for a person to look at */
        return renderq_task_fail(task, error.text, RENDERQ_NEVER);
    case Y4M_STOPPED:
        return RENDERQ_TASK_RETRY;
    default:
        return renderq_task_fail(task, error.text, RENDERQ_BACKOFF);
    }
}

static void on_event(void *arg, const renderq_event *event)
{
    static const char *const words[] = {
        [RENDERQ_EVENT_STARTED] = "started", [RENDERQ_EVENT_DONE] = "done", [RENDERQ_EVENT_FAILED] = "failed",
        [RENDERQ_EVENT_RETRIED] = "released", [RENDERQ_EVENT_RELEASED] = "released", [RENDERQ_EVENT_LOST] = "lost",
    };
    (void)arg;
    if (event->job == NULL || event->type > RENDERQ_EVENT_LOST)
        return;                             /* the log tells of the rest */
    if (event->type == RENDERQ_EVENT_STARTED)
        printf("%s: attempt %d\n", event->job->composition_id, event->job->retry_count + 1);
    else
        printf("%s: %s: %s\n", event->job->composition_id, words[event->type], event->text ? event->text : "");
}

static void on_line(renderq_log_level level, const char *line, void *arg)
{
    (void)arg;
    if (level <= RENDERQ_LOG_WARNING)
        fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"output", required_argument, NULL, 'o'},
        {"lease", required_argument, NULL, 'l'},
        {"name", required_argument, NULL, 'n'},
        {"threads", required_argument, NULL, 't'},
        {"until-empty", no_argument, NULL, 'e'},
        {NULL, 0, NULL, 0},
    };
    struct sigaction action = {.sa_handler = on_signal};
    renderq_worker_options options = RENDERQ_INIT(renderq_worker_options);
    const char *output = ".";
    char folder[PATH_MAX];
    int option;
    renderq_worker *worker = NULL;
    renderq_status status;

    options.lease_s = 60;
    options.grace_s = RENDERQ_AT_ONCE;      /* a video can be given back after any frame */
    while ((option = getopt_long(argc, argv, "o:l:n:t:e", long_options, NULL)) != -1) {
        switch (option) {
        case 'o': output = optarg; break;
        case 'l': options.lease_s = atoi(optarg); break;
        case 'n': options.name = optarg; break;
        case 't': options.threads = atoi(optarg); break;
        case 'e': options.stop_when_empty = 1; break;
        default: fputs(usage, stderr); return 2;
        }
    }
    if (argc != optind + 1 || options.lease_s < 1 || options.lease_s > RENDERQ_LEASE_MAX_S) {
        fputs(usage, stderr);
        return 2;
    }
    if (realpath(output, folder) == NULL) {
        perror(output);
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);       /* a log should be complete up to a crash */
    y4m_sweep(folder);

    options.handler = render;
    options.handler_arg = folder;
    options.on_event = on_event;
    options.log = on_line;
    status = renderq_worker_new(argv[optind], &options, &worker);
    if (status == RENDERQ_OK) {
        running = worker;
        sigaction(SIGTERM, &action, NULL);
        sigaction(SIGINT, &action, NULL);
        status = renderq_worker_run(worker);
        running = NULL;                     /* a signal from here on finds none that is being freed */
    }
    if (status != RENDERQ_OK)
        fprintf(stderr, "%s: %s\n", renderq_strstatus(status), renderq_worker_errmsg(worker));
    renderq_worker_free(worker);
    return status != RENDERQ_OK;
}
