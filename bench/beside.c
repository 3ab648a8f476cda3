/* beside.c: claims on a table of a million rows, alone and while another process counts or lists them.
 * synchronous=normal, as in scale.c: a claim that sleeps while the disk flushes is woken sooner or later as the
 * machine's other work has it. Nearly one claim in a hundred then waits for SQLite's checkpoint, which comes every
 * thousand pages; a reader that makes it come more often shows in the 98th. */
#include "bench.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLAIMS 5000         /* a stretch: longer than it takes to count the rows; fewer in a quick run */
#define ROUNDS 20
#define SECONDS 40

/* ---- the other process ---- */

/* Says by a byte that a pass is over; the one that measures waits for the first. */
static void passed(void)
{
    if (write(STDOUT_FILENO, ".", 1) != 1)
        exit(0);
}

void role_count(const char *path)
{
    renderq *h = ours_open(path, "full");
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    for (;;) {
        ours_check(h, renderq_stats(h, NULL, &counts), "stats");
        passed();
    }
}

static int look(void *arg, const renderq_job *job)
{
    size_t *n = arg;
    (void)job;
    if (++*n % 10000 == 0)
        passed();
    return 0;
}

void role_list(const char *path)
{
    renderq *h = ours_open(path, "full");
    for (size_t n = 0;;)
        ours_check(h, renderq_list(h, NULL, look, &n), "list");
}

typedef struct reader {
    const char *role;
    pid_t pid;
    int out;
} reader;

static void start(reader *r, const char *path)
{
    char byte;
    r->pid = start_role(r->role, path, &r->out);
    if (read(r->out, &byte, 1) != 1)
        die("the process that reads (%s) ended", r->role);
}

/* How many passes it made meanwhile. */
static size_t stop(reader *r)
{
    char bytes[4096];
    size_t passes = 0;
    ssize_t got;
    kill(r->pid, SIGKILL);
    while ((got = read(r->out, bytes, sizeof bytes)) > 0 || (got < 0 && errno == EINTR))
        passes += got > 0 ? (size_t)got : 0;
    close(r->out);
    waitpid(r->pid, NULL, 0);
    return passes;
}

/* ---- the claims ---- */

enum { ALONE, COUNTING, LISTING, CASES };

typedef struct stretches {
    double *took_s[CASES];
    size_t rounds, claims;          /* claims: a round */
} stretches;

/* A percentile of each round's claims, and its ratio to that of the same round alone: the medians. */
static void report_case(const char *name, const stretches *s, int which, double p)
{
    double *ours = allocate(s->rounds * sizeof *ours), *base = allocate(s->rounds * sizeof *base);
    double *ratio = allocate(s->rounds * sizeof *ratio);
    for (size_t i = 0; i < s->rounds; i++) {
        ours[i] = percentile(s->took_s[which] + i * s->claims, s->claims, p);
        base[i] = percentile(s->took_s[ALONE] + i * s->claims, s->claims, p);
        ratio[i] = ours[i] / base[i];
    }
    report(&(figure){ .name = name, .unit = "us", .ours = median(ours, s->rounds) * 1e6,
                      .base = median(base, s->rounds) * 1e6, .ratio = median(ratio, s->rounds),
                      .rule = AT_MOST, .target = 1.3 });
    free(ours);
    free(base);
    free(ratio);
}

static double all_p99_us(const stretches *s, int which)
{
    return percentile(s->took_s[which], s->rounds * s->claims, 0.99) * 1e6;
}

static void report_all(const stretches *s)
{
    report_case("beside stats: median", s, COUNTING, 0.5);
    report_case("beside stats: 98 of 100 are faster", s, COUNTING, 0.98);
    report_case("beside list: median", s, LISTING, 0.5);
    report_case("beside list: 98 of 100 are faster", s, LISTING, 0.98);
}

void bench_beside(const bench_run *run)
{
    report_group("Claims while a process reads a million rows", "with reader", "alone");
    const char *path = filled_table(run);
    stretches s = { .claims = run->quick ? CLAIMS / 10 : CLAIMS };
    size_t passes[CASES] = { 0 };
    reader readers[CASES] = { [COUNTING] = { .role = "count" }, [LISTING] = { .role = "list" } };
    renderq *h = ours_open(path, "normal");
    double before_mb = file_mb(path), log_mb = 0;
    for (int i = 0; i < CASES; i++)
        s.took_s[i] = allocate(ROUNDS * s.claims * sizeof *s.took_s[i]);
    double began = now_s(), seconds = scaled_s(run, SECONDS);
    for (; s.rounds < ROUNDS && (s.rounds < ROUNDS_MIN || now_s() - began < seconds); s.rounds++)
        for (int k = 0; k < CASES; k++) {
            int which = (int)((s.rounds + (size_t)k) % CASES);
            ours_enqueue(h, s.claims, BATCH_MAX);
            if (which != ALONE)
                start(&readers[which], path);
            ours_claim(h, s.claims, s.took_s[which] + s.rounds * s.claims);
            if (which != ALONE)
                passes[which] += stop(&readers[which]);
            double mb = file_mb(path) - before_mb;
            log_mb = mb > log_mb ? mb : log_mb;
            forget_claimed(path);
        }
    report_all(&s);
    report_note("(99 of 100: %.0f us alone, %.0f beside stats, %.0f beside list; %zu stats were made, %zu0,000 rows "
                "listed;", all_p99_us(&s, ALONE), all_p99_us(&s, COUNTING), all_p99_us(&s, LISTING), passes[COUNTING],
                passes[LISTING]);
    report_note("the log was %.0f MB at most)", log_mb);
    renderq_close(h);
    for (int i = 0; i < CASES; i++)
        free(s.took_s[i]);
}
