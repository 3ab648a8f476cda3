/* wire_cost.c: what the library costs above CT-Library: instructions of a claim and of an enqueue, and the memory of an
 * idle handle. Both sides send the same requests to the same server.
 *
 * Instructions are counted by valgrind's callgrind in a process of their own, for n calls and for twice as many; the
 * difference is what n calls take, without start and end. The count does not depend on what else the machine does. */
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS 200
#define HANDLES 100

/* ---- instructions ---- */

static bool have_valgrind(void)
{
    return system("command -v valgrind > /dev/null 2>&1") == 0;
}

static void exec_callgrind(const char *out, const char *task)
{
    char option[4200], self[4200];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len < 0)
        _exit(2);
    self[len] = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(option, sizeof option, "--callgrind-out-file=%s", out);
    int log = open("/dev/null", O_WRONLY);
    dup2(log, STDERR_FILENO);
    execlp("valgrind", "valgrind", "--tool=callgrind", option, self, "--role", "wire", task, (char *)NULL);
    _exit(127);
}

/* The line "totals: N", or in older files "summary: N". */
static double total_of(const char *path)
{
    char line[4200];
    double total = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "totals: ", 8) == 0 || strncmp(line, "summary: ", 9) == 0)
            total = strtod(strchr(line, ' '), NULL);
    if (file)
        fclose(file);
    return total;
}

static double instructions(const bench_run *run, const char *work, size_t n, const char *url)
{
    char task[700], *out = path_in(run, "callgrind.out");
    int status;
    snprintf(task, sizeof task, "%s %zu %s", work, n, url);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        exec_callgrind(out, task);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        die("%s under callgrind failed", work);
    double total = total_of(out);
    if (total <= 0)
        die("%s: callgrind counted nothing", out);
    free(out);
    return total;
}

/* Thousands a call. */
static double cost_of(const bench_run *run, const char *work, const char *url, bool claims)
{
    size_t n = run->quick ? CALLS / 5 : CALLS;
    renderq *h = ours_open_url(url);
    if (claims)
        ours_enqueue(h, 3 * n, BATCH_MAX < n ? BATCH_MAX : n);
    renderq_close(h);
    double once = instructions(run, work, n, url), twice = instructions(run, work, 2 * n, url);
    wire_forget();
    return (twice - once) / (double)n / 1000;
}

static void report_cost(const bench_run *run, const char *name, const char *url, const char *our_work,
                        const char *bare_work, bool claims)
{
    double our_cost = cost_of(run, our_work, url, claims), bare_cost = cost_of(run, bare_work, url, claims);
    report(&(figure){ .name = name, .unit = "thousand", .ours = our_cost, .base = bare_cost,
                      .ratio = our_cost / bare_cost, .rule = AT_MOST, .target = 1.5 });
}

void bench_cost(const bench_run *run)
{
    report_group("Instructions of a call over the wire", "librenderq", "CT-Library");
    const char *url = wire_server(run);
    if (!url)
        return;
    if (!have_valgrind()) {
        report_note("(valgrind is not there, so they were not counted)");
        return;
    }
    report_cost(run, "an enqueue", url, "enqueue-ours", "enqueue-bare", false);
    report_cost(run, "a claim", url, "claim-ours", "claim-bare", true);
}

/* ---- memory ---- */

static double held_mb(const char *work, size_t n, const char *url)
{
    char task[700], text[32] = "";
    int out, status;
    snprintf(task, sizeof task, "%s %zu %s", work, n, url);
    pid_t child = start_role("wire", task, &out);
    FILE *file = fdopen(out, "r");
    if (!file || !fgets(text, sizeof text, file) || waitpid(child, &status, 0) != child || status != 0)
        die("%s failed", work);
    fclose(file);
    return (double)strtol(text, NULL, 10) / 1024;
}

void bench_handles(const bench_run *run)
{
    report_group("Memory of an idle handle", "librenderq", "CT-Library");
    const char *url = wire_server(run);
    if (!url)
        return;
    size_t n = run->quick ? HANDLES / 5 : HANDLES;
    renderq *h = ours_open_url(url);
    ours_enqueue(h, 2 * n, n);
    renderq_close(h);
    double ours = held_mb("hold-ours", n, url) / (double)n, base = held_mb("hold-bare", n, url) / (double)n;
    wire_forget();
    report(&(figure){ .name = "one of many that have claimed once", .unit = "MiB", .ours = ours, .base = base,
                      .ratio = ours / base, .rule = NO_TARGET });
    report_group("The same", "more", "allowed");
    report(&(figure){ .name = "a handle above a bare connection", .unit = "MiB", .ours = ours - base, .base = 2,
                      .ratio = (ours - base) / 2, .rule = AT_MOST, .target = 1 });
}
