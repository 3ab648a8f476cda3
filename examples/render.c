/* render.c: makes the video of one job, as POST /v1/next of renderq-controller gives it: JSON on the standard input.
 *
 *     render [--crash-percent N] FOLDER
 *
 * The video goes to the job's output_url in FOLDER; all of it or nothing. The program knows no queue: who runs it, and
 * what its exit code means, is one-shot.sh's. --crash-percent imitates a video library on a bad day: so many of a
 * hundred runs die in the middle of a video. Exit: 0 it is made, 1 it cannot be made, 2 wrong usage. */
#include "y4m.h"

#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char usage[] = "usage: render [--crash-percent N] FOLDER < JOB\n";

/* The frame at which this run dies; 0: it does not. */
static int after_frame(void *arg, int done, int total)
{
    const int *crash_at = arg;

    (void)total;
    if (done == *crash_at)
        abort();
    return 0;
}

static int choose_crash(int percent, int frames)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    srandom((unsigned)now.tv_nsec ^ (unsigned)getpid());
    return random() % 100 < percent ? 1 + (int)(random() % frames) : 0;
}

static int render(const json_t *job, const char *folder, int crash_percent)
{
    const char *payload = json_string_value(json_object_get(job, "payload_json"));
    const char *name = json_string_value(json_object_get(job, "output_url"));
    y4m_composition composition;
    y4m_error error = {""};
    char tag[32];
    int crash_at;

    if (payload == NULL || name == NULL) {
        fputs("render: the job has no payload_json or no output_url\n", stderr);
        return 1;
    }
    snprintf(tag, sizeof tag, "%ld", (long)getpid());
    y4m_sweep(folder);                      /* what crashed before left its file */
    if (y4m_parse(payload, strlen(payload), &composition, &error) != Y4M_OK) {
        fprintf(stderr, "render: %s\n", error.text);
        return 1;
    }
    crash_at = choose_crash(crash_percent, composition.frames);
    if (y4m_render(&composition, folder, name, tag, after_frame, &crash_at, &error) != Y4M_OK) {
        fprintf(stderr, "render: %s\n", error.text);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"crash-percent", required_argument, NULL, 'c'},
        {NULL, 0, NULL, 0},
    };
    char folder[PATH_MAX];
    json_error_t wrong;
    json_t *job;
    int option, percent = 0, code;

    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option != 'c') {
            fputs(usage, stderr);
            return 2;
        }
        percent = atoi(optarg);
    }
    if (argc != optind + 1) {
        fputs(usage, stderr);
        return 2;
    }
    if (realpath(argv[optind], folder) == NULL) {
        perror(argv[optind]);
        return 1;
    }
    job = json_loadf(stdin, 0, &wrong);
    if (job == NULL) {
        fprintf(stderr, "render: the job is not JSON: %s\n", wrong.text);
        return 1;
    }
    code = render(job, folder, percent);
    json_decref(job);
    return code;
}
