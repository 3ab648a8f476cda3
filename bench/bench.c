/* bench.c: the figures of the README, in one run: `make bench`.
 *
 *     bench [--quick] [--only SECTION] [--source FOLDER] [--json FILE]
 *
 * --quick does a twentieth of the work; --only does one section; --source says where the source tree is,
 * if not here: the sections over the wire start its test server. Files are kept in a new folder under TMPDIR, which
 * says which disk is measured, and removed at the end, also when the run is interrupted. Exit: 0 whatever the figures
 * are, 1 for wrong arguments, 2 when something failed. */
#include "bench.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    const char *name;
    void (*run)(const bench_run *run);
} sections[] = {
    { "loop", bench_loop },     { "scale", bench_scale },   { "rounds", bench_rounds },
    { "idle", bench_idle },     { "beside", bench_beside }, { "memory", bench_memory },
    { "trips", bench_trips },   { "cost", bench_cost },     { "handles", bench_handles },
    { "peers", bench_peers },
    { "http", bench_http },
    { "worker", bench_worker },
};

/* What the program is when it starts itself as another process. */
static const struct {
    const char *name;
    void (*run)(const char *path);
} roles[] = {
    { "count", role_count }, { "list", role_list }, { "claim", role_claim }, { "wire", role_wire },
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static int usage(void)
{
    fputs("usage: bench [--quick] [--only SECTION] [--source FOLDER] [--json FILE]\nsections:", stderr);
    for (size_t i = 0; i < COUNT(sections); i++)
        fprintf(stderr, " %s", sections[i].name);
    fputc('\n', stderr);
    return 1;
}

static int play(const char *role, const char *path)
{
    for (size_t i = 0; i < COUNT(roles); i++)
        if (strcmp(roles[i].name, role) == 0) {
            roles[i].run(path);
            return 0;
        }
    return usage();
}

static void measure(const bench_run *run, const char *only, const char *json)
{
    double began = now_s();
    printf("librenderq %s, SQLite %s, %ld processors, files in %s%s\n", renderq_version(), sqlite3_libversion(),
           sysconf(_SC_NPROCESSORS_ONLN), run->folder, run->quick ? "; a quick run: a twentieth of everything" : "");
    for (size_t i = 0; i < COUNT(sections); i++)
        if (!only || strcmp(only, sections[i].name) == 0)
            sections[i].run(run);
    report_summary(now_s() - began);
    if (json)
        report_json(json, run, now_s() - began);
}

/* ---- the folder, and the process that sees to its end ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    remove(path);
    return 0;
}

/* More than once: a process that is just being killed may still make a file. */
static void remove_folder(const char *folder)
{
    for (int i = 0; i < 10 && access(folder, F_OK) == 0; i++) {
        nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        if (access(folder, F_OK) == 0)
            usleep(100000);
    }
}

/* The work is done in a child, so that its folder goes however it ends. */
static int supervise(const bench_run *run, const char *only, const char *json, const sigset_t *signals)
{
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        die("fork: %s", strerror(errno));
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(2);
        sigprocmask(SIG_UNBLOCK, signals, NULL);
        measure(run, only, json);
        exit(0);
    }
    int status = 0, interrupted = 0;
    while (waitpid(child, &status, WNOHANG) != child) {
        int number = sigwaitinfo(signals, NULL);
        if (number > 0 && number != SIGCHLD) {
            interrupted = number;
            kill(child, SIGKILL);
        }
    }
    return interrupted ? 128 + interrupted : WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

int main(int argc, char **argv)
{
    char folder[4000];
    bench_run run = { .folder = folder, .source = "." };
    const char *only = NULL, *json = NULL, *temporary = getenv("TMPDIR");
    if (argc == 4 && strcmp(argv[1], "--role") == 0)
        return play(argv[2], argv[3]);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            run.quick = true;
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = argv[++i];
        else if (strcmp(argv[i], "--source") == 0 && i + 1 < argc)
            run.source = argv[++i];
        else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
            json = argv[++i];
        else
            return usage();
    }
    size_t known = 0;
    for (size_t i = 0; i < COUNT(sections); i++)
        known += !only || strcmp(only, sections[i].name) == 0;
    if (known == 0)
        return usage();

    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    if ((size_t)snprintf(folder, sizeof folder, "%s/renderq-bench-XXXXXX", temporary && *temporary ? temporary : "/tmp")
        >= sizeof folder)
        die("TMPDIR is too long");
    if (!mkdtemp(folder))
        die("a folder under %s: %s", temporary ? temporary : "/tmp", strerror(errno));
    int result = supervise(&run, only, json, &signals);
    remove_folder(folder);
    return result;
}
