/* worker.c: takes jobs from the queue, renders each into a video file, and says how it went.
 *
 *     worker [OPTION]... URL
 *
 * Any number may run, on as many machines as reach the database. SIGTERM and SIGINT stop it cleanly: the job
 * in hand is given back and counts no failure. What is rendered, and how, is in y4m.c.
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
    "  -e, --until-empty     end when no job is ready, instead of waiting for the next\n";

static volatile sig_atomic_t stopping;
static renderq *volatile open_handle;       /* for the signal handler alone; NULL when there is none */

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
    renderq_interrupt(open_handle);         /* a claim that waits ends at once */
}

typedef struct attempt {
    renderq *h;
    renderq_job *job;
    int64_t renew_below_ms;                 /* renew when the lease has less left: a third of it has gone */
    int lost;
} attempt;

/* Between two frames: the moment to stop, and to tell the queue that we live. A single frame has to take less
 * than the lease; a program that cannot promise this renews from a second thread with a handle of its own. */
static int after_frame(void *arg, int done, int total)
{
    attempt *a = arg;
    char progress[64];
    renderq_status status;

    if (stopping && done < total)
        return 1;
    if (done < total && renderq_lease_left_ms(a->job) > a->renew_below_ms)
        return 0;

    /* After the last frame it is always asked: the video gets its name only if the job is still ours. */
    snprintf(progress, sizeof progress, "frame %d of %d", done, total);
    status = renderq_renew(a->h, a->job, progress);
    if (status == RENDERQ_OK)
        return 0;
    fprintf(stderr, "%s: renew: %s: %s\n", a->job->composition_id, renderq_strstatus(status),
            renderq_errmsg(a->h));
    a->lost = status == RENDERQ_LOST || renderq_lease_left_ms(a->job) == 0;
    return a->lost;                         /* otherwise the lease still stands, and the next frame asks again */
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

typedef enum verdict { DONE, BAD, FAILED, STOPPED, LOST } verdict;

/* Renders, and returns what to tell the queue. `text` is then the video's path or what went wrong. */
static verdict render(attempt *a, const char *folder, char *text, size_t size)
{
    const renderq_job *job = a->job;
    char buffer[(size_t)4 * RENDERQ_COMPOSITION_MAX + sizeof ".y4m"];
    const char *name = output_name(job, buffer, sizeof buffer);
    y4m_composition composition;
    y4m_error error = {""};
    y4m_result result = y4m_parse(job->payload_json, job->payload_len, &composition, &error);

    if (job->retry_count > 0)
        y4m_sweep(folder);                  /* the attempt before may have died and left its file */
    if (result == Y4M_OK)                   /* the lease's token is different at every attempt, on every machine */
        result = y4m_render(&composition, folder, name, job->lease.text, after_frame, a, &error);
    snprintf(text, size, "%s", error.text);
    switch (result) {
    case Y4M_OK:
        snprintf(text, size, "%s/%s", folder, name);
        return DONE;
    case Y4M_BAD:
        return BAD;
    case Y4M_STOPPED:
        return a->lost ? LOST : STOPPED;
    default:
        return FAILED;
    }
}

static renderq_status tell(renderq *h, const renderq_job *job, verdict v, const char *text)
{
    switch (v) {
    case DONE:
        return renderq_complete(h, job, text);
    case BAD:                               /* no attempt can help: the dead letters are for a person to look at */
        return renderq_fail(h, job, text, RENDERQ_NEVER);
    case FAILED:
        return renderq_fail(h, job, text, RENDERQ_BACKOFF);
    case STOPPED:
        return renderq_release(h, job, 0);
    default:
        return RENDERQ_LOST;                /* it is somebody else's job: there is nothing to say */
    }
}

static void work_on(renderq *h, renderq_job *job, const char *folder, int lease_s)
{
    static const char *const words[] = {"done", "bad", "failed", "released", "lost"};
    attempt a = {.h = h, .job = job, .renew_below_ms = lease_s * INT64_C(1000) * 2 / 3};
    char text[PATH_MAX + RENDERQ_OUTPUT_URL_MAX];
    verdict v;
    renderq_status status;

    printf("%s: attempt %d\n", job->composition_id, job->retry_count + 1);
    v = render(&a, folder, text, sizeof text);
    do {                                    /* both say that nothing happened yet */
        status = tell(h, job, v, text);
    } while (status == RENDERQ_INTERRUPTED || (status == RENDERQ_BUSY && renderq_lease_left_ms(job) > 0));

    if (status == RENDERQ_OK || v == LOST)
        printf("%s: %s: %s\n", job->composition_id, words[v], text);
    else                                    /* the lease runs out, and the job comes round again */
        fprintf(stderr, "%s: %s, but: %s: %s\n", job->composition_id, words[v], renderq_strstatus(status),
                renderq_errmsg(h));
}

/* Until it is told to stop. Returns the exit code. */
static int work(renderq *h, const char *folder, int lease_s, int until_empty)
{
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);

    options.lease_s = lease_s;
    options.wait_ms = until_empty ? 0 : RENDERQ_FOREVER;
    while (!stopping) {
        renderq_job *job = NULL;
        renderq_status status = renderq_claim(h, &options, &job);

        switch (status) {
        case RENDERQ_OK:
            work_on(h, job, folder, lease_s);
            renderq_job_free(job);
            break;
        case RENDERQ_EMPTY:
            return 0;
        case RENDERQ_INTERRUPTED:
            break;
        case RENDERQ_BUSY:
        case RENDERQ_UNCERTAIN:
        case RENDERQ_DISCONNECTED:          /* the database will be back */
            fprintf(stderr, "claim: %s: %s\n", renderq_strstatus(status), renderq_errmsg(h));
            sleep(1);
            break;
        default:
            fprintf(stderr, "claim: %s: %s\n", renderq_strstatus(status), renderq_errmsg(h));
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"output", required_argument, NULL, 'o'},
        {"lease", required_argument, NULL, 'l'},
        {"name", required_argument, NULL, 'n'},
        {"until-empty", no_argument, NULL, 'e'},
        {NULL, 0, NULL, 0},
    };
    struct sigaction action = {.sa_handler = on_signal};    /* no SA_RESTART: a sleep ends, too */
    renderq_options options = RENDERQ_INIT(renderq_options);
    const char *output = ".";
    char folder[PATH_MAX];
    int option, lease_s = 60, until_empty = 0, code = 1;
    renderq *h = NULL;
    renderq_status status;

    while ((option = getopt_long(argc, argv, "o:l:n:e", long_options, NULL)) != -1) {
        switch (option) {
        case 'o': output = optarg; break;
        case 'l': lease_s = atoi(optarg); break;
        case 'n': options.worker = optarg; break;
        case 'e': until_empty = 1; break;
        default: fputs(usage, stderr); return 2;
        }
    }
    if (argc != optind + 1 || lease_s < 1 || lease_s > RENDERQ_LEASE_MAX_S) {
        fputs(usage, stderr);
        return 2;
    }
    if (realpath(output, folder) == NULL) {
        perror(output);
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);       /* a log should be complete up to a crash */
    y4m_sweep(folder);

    status = renderq_open(argv[optind], &options, &h);
    if (status == RENDERQ_OK) {
        open_handle = h;
        sigaction(SIGTERM, &action, NULL);
        sigaction(SIGINT, &action, NULL);
        code = work(h, folder, lease_s, until_empty);
        open_handle = NULL;                 /* a signal from here on finds no handle that is being closed */
    } else {
        fprintf(stderr, "%s: %s\n", renderq_strstatus(status), renderq_errmsg(h));
    }
    renderq_close(h);
    return code;
}
