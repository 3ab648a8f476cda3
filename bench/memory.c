/* memory.c: how much memory the claim of a large payload takes: the peak of a fresh process that claims it, less the
 * peak of one that claims a small one. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LARGE (64u << 20)
#define SMALL 10u

/* VmHWM, and not getrusage(): that begins with what the parent had. */
static long peak_kb(void)
{
    char line[256];
    long kb = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kb = strtol(line + 6, NULL, 10);
    if (status)
        fclose(status);
    if (kb == 0)
        die("/proc/self/status does not tell the peak of memory");
    return kb;
}

void role_claim(const char *path)
{
    renderq *h = ours_open(path, "full");
    ours_claim(h, 1, NULL);
    renderq_close(h);
    printf("%ld\n", peak_kb());
}

static void enqueue(const char *path, size_t len)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    char *text = allocate(len + 1);
    memset(text, 'x', len);
    text[0] = text[len - 1] = '"';
    text[len] = 0;
    job.composition_id = "composition";
    job.payload_json = text;
    renderq *h = ours_open(path, "full");
    ours_check(h, renderq_enqueue(h, &job, NULL), "enqueue");
    renderq_close(h);
    free(text);
}

static double peak_of_claim_mb(const char *path, size_t len)
{
    char text[32] = "";
    int out, status;
    ours_create(path);
    enqueue(path, len);
    pid_t child = start_role("claim", path, &out);
    FILE *file = fdopen(out, "r");
    if (!file || !fgets(text, sizeof text, file) || waitpid(child, &status, 0) != child || status != 0)
        die("the process that claims failed");
    fclose(file);
    return (double)strtol(text, NULL, 10) / 1024;
}

void bench_memory(const bench_run *run)
{
    char *small = path_in(run, "small.db"), *large = path_in(run, "large.db");
    report_group("Memory for the claim of a large payload", "peak", "payload");
    double peak = peak_of_claim_mb(large, LARGE) - peak_of_claim_mb(small, SMALL), size = LARGE / 1048576.0;
    report(&(figure){ .name = "the process, less one that claims 10 bytes", .unit = "MiB", .ours = peak, .base = size,
                      .ratio = peak / size, .rule = AT_MOST, .target = 3 });
    free(small);
    free(large);
}
