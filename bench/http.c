/* http.c: POST /v1/next of renderq-controller beside the same library called directly: requests a second and their
 * slowest hundredth, with one client and with 64. The service, the client (test/controller/client.c) and this program
 * share the machine's processors; every hand-out is on the disk before its answer, as every claim is. */
#include "bench.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS       2000         /* in a round */
#define ROUNDS     9            /* at most; ROUNDS_MIN at least, and none begins after SECONDS */
#define SECONDS    25

/* A program of this build, by its path below the build's folder. */
static void program(const char *name, char path[PATH_MAX])
{
    char own[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", own, sizeof own - 1);
    if (len < 0)
        die("/proc/self/exe: %s", strerror(errno));
    own[len] = 0;
    for (int i = 0; i < 2 && strrchr(own, '/'); i++)
        *strrchr(own, '/') = 0;
    if (snprintf(path, PATH_MAX, "%s/%s", own, name) >= PATH_MAX)
        die("the path of %s is too long", name);
}

/* Starts it; *out reads what it writes to `fd`. It dies with us. */
static pid_t start(char *const argv[], int fd, FILE **out)
{
    int ends[2];
    pid_t parent = getpid(), child;
    if (pipe(ends) != 0 || (child = fork()) < 0)
        die("%s: %s", argv[0], strerror(errno));
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(2);
        dup2(ends[1], fd);
        close(ends[0]);
        close(ends[1]);
        execv(argv[0], argv);
        _exit(127);
    }
    close(ends[1]);
    *out = fdopen(ends[0], "r");
    if (!*out)
        die("fdopen: %s", strerror(errno));
    return child;
}

static pid_t start_service(const char *file, char port[16], FILE **log)
{
    char path[PATH_MAX], db[PATH_MAX + 32], line[512];
    program("renderq-controller", path);
    snprintf(db, sizeof db, "sqlite:%s", file);
    char listen[] = "127.0.0.1:0", *argv[] = { path, "--db", db, "--listen", listen, "--no-access-log", NULL };
    pid_t child = start(argv, STDERR_FILENO, log);
    while (fgets(line, sizeof line, *log)) {
        const char *colon = strrchr(line, ':');
        if (!strstr(line, "listening on") || !colon)
            continue;
        snprintf(port, 16, "%.*s", (int)strcspn(colon + 1, "\n"), colon + 1);
        return child;
    }
    die("renderq-controller did not start; has it been built?");
}

typedef struct load {
    double per_second, p99_us;
} load;

/* One run of the client, which must have no error and find a job each time. */
static load run_client(const char *port, size_t n, int at_a_time)
{
    char path[PATH_MAX], requests[24], many[12], line[1024] = "", port_room[16];
    FILE *out;
    int status, ok = 0;
    load l = { 0, 0 };
    program("test/controller/client", path);
    snprintf(requests, sizeof requests, "%zu", n);
    snprintf(many, sizeof many, "%d", at_a_time);
    snprintf(port_room, sizeof port_room, "%s", port);
    char *argv[] = { path, "--port", port_room, "--requests", requests, "--at-a-time", many, "next", NULL };
    pid_t child = start(argv, STDOUT_FILENO, &out);
    const char *read = fgets(line, sizeof line, out);
    fclose(out);
    waitpid(child, &status, 0);
    const char *counts = strstr(line, "\"ok\":"), *rate = strstr(line, "\"per_second\":");
    const char *p99 = strstr(line, "\"p99_us\":");
    if (!read || status != 0 || !counts || !rate || !p99)
        die("the client failed; has it been built (make tests)? It said: %s", line);
    ok = atoi(counts + strlen("\"ok\":"));
    if (ok != (int)n)
        die("the client got %d jobs, not %zu", ok, n);
    l.per_second = strtod(rate + strlen("\"per_second\":"), NULL);
    l.p99_us = strtod(p99 + strlen("\"p99_us\":"), NULL);
    return l;
}

static load run_direct(renderq *h, size_t n)
{
    double *took_s = allocate(n * sizeof *took_s), began = now_s();
    ours_claim(h, n, took_s);
    load l = { (double)n / (now_s() - began), 0 };
    l.p99_us = percentile(took_s, n, 0.99) * 1e6;
    free(took_s);
    return l;
}

static void report_pair(const char *name, const char *slowest, double (*sides)[4], size_t rounds)
{
    double rates[ROUNDS], bases[ROUNDS], ratios[ROUNDS], p99[ROUNDS], base_p99[ROUNDS], p99_ratios[ROUNDS];
    for (size_t i = 0; i < rounds; i++) {
        rates[i] = sides[i][0];
        bases[i] = sides[i][1];
        ratios[i] = sides[i][0] / sides[i][1];
        p99[i] = sides[i][2] / 1e3;
        base_p99[i] = sides[i][3] / 1e3;
        p99_ratios[i] = sides[i][2] / sides[i][3];
    }
    report(&(figure){ .name = name, .unit = "1/s", .ours = median(rates, rounds), .base = median(bases, rounds),
                      .ratio = median(ratios, rounds), .rule = NO_TARGET });
    report(&(figure){ .name = slowest, .unit = "ms", .ours = median(p99, rounds), .base = median(base_p99, rounds),
                      .ratio = median(p99_ratios, rounds), .rule = NO_TARGET });
}

void bench_http(const bench_run *run)
{
    size_t n = scaled(run, JOBS);
    char *served = path_in(run, "http.db"), *direct = path_in(run, "direct.db"), port[16] = "";
    double one[ROUNDS][4], many[ROUNDS][4];
    FILE *log;
    report_group("POST /v1/next of renderq-controller", "over HTTP", "direct claim");
    ours_create(served);
    ours_create(direct);
    renderq *filler = ours_open(served, "normal"), *h = ours_open(direct, "full");
    ours_enqueue(filler, n * 2 * (ROUNDS + 1), 100);
    ours_enqueue(h, n * 2 * (ROUNDS + 1), 100);
    renderq_close(filler);
    pid_t service = start_service(served, port, &log);
    run_client(port, n, 64);                        /* not counted: caches fill */
    run_direct(h, n);
    size_t rounds = 0;
    for (double began = now_s(); rounds < ROUNDS && (rounds < ROUNDS_MIN || now_s() - began < SECONDS); rounds++) {
        load ours = run_client(port, n, 64), base = run_direct(h, n);
        memcpy(many[rounds], (double[]){ ours.per_second, base.per_second, ours.p99_us, base.p99_us }, sizeof many[0]);
        ours = run_client(port, n / 4, 1);
        base = run_direct(h, n / 4);
        memcpy(one[rounds], (double[]){ ours.per_second, base.per_second, ours.p99_us, base.p99_us }, sizeof one[0]);
    }
    report_pair("64 clients", "64 clients, 99 of 100 within", many, rounds);
    report_pair("one client", "one client, 99 of 100 within", one, rounds);
    kill(service, SIGTERM);
    waitpid(service, NULL, 0);
    fclose(log);
    renderq_close(h);
    free(served);
    free(direct);
}
