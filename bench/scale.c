/* scale.c: what a claim costs when the table holds a million rows that are not ready, against a table that holds none.
 * synchronous=normal, so that the disk's flush at each commit, which costs both the same, does not hide a growth. */
#include "bench.h"

#include <stdlib.h>

#define CLAIMS 500
#define ROUNDS 60
#define SECONDS 20

typedef struct tables {
    const char *full_path, *empty_path;
    renderq *full, *empty;
} tables;

static void enqueue(void *arg)
{
    tables *t = arg;
    ours_enqueue(t->full, CLAIMS, BATCH_MAX);
    ours_enqueue(t->empty, CLAIMS, BATCH_MAX);
}

static void claim_full(void *arg, int stage)
{
    (void)stage;
    ours_claim(((tables *)arg)->full, CLAIMS, NULL);
}

static void claim_empty(void *arg, int stage)
{
    (void)stage;
    ours_claim(((tables *)arg)->empty, CLAIMS, NULL);
}

static void forget(void *arg)
{
    tables *t = arg;
    forget_claimed(t->full_path);
    forget_claimed(t->empty_path);
}

static void measure(const bench_run *run, tables *t, const char *name)
{
    contest c = { .ours = claim_full, .base = claim_empty, .before = enqueue, .after = forget, .arg = t, .stages = 1,
                  .rounds = 2 };      /* warms up */
    contest_result result;
    t->full = ours_open(t->full_path, "normal");
    t->empty = ours_open(t->empty_path, "normal");
    compete(&c, &result);
    c.rounds = ROUNDS;
    c.seconds = scaled_s(run, SECONDS);
    compete(&c, &result);
    report(&(figure){ .name = name, .unit = "us", .ours = result.ours_s / CLAIMS * 1e6,
                      .base = result.base_s / CLAIMS * 1e6, .ratio = result.ratio, .rule = AT_MOST, .target = 1.3 });
    renderq_close(t->full);
    renderq_close(t->empty);
}

void bench_scale(const bench_run *run)
{
    char *empty_path = path_in(run, "near-empty.db");
    report_group("A claim beside a million rows", "million rows", "near-empty");
    tables t = { .full_path = filled_table(run), .empty_path = empty_path };
    ours_create(empty_path);
    measure(run, &t, "with finished, dead and delayed rows");
    fill_leased(t.full_path, scaled(run, 5000));
    measure(run, &t, "and 5,000 leased ones");
    free(empty_path);
}
