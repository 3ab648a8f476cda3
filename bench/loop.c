/* loop.c: the library against the bare loop: enqueue, and claim with complete; one by one and in batches. Each side has
 * a file of its own, in the same state at every round. */
#include "bench.h"

#include <stdlib.h>

#define ROUNDS 300
#define SECONDS 20

enum { ENQUEUE, WORK, LOOP_STAGES };

typedef struct sides {
    renderq *ours;
    bare *base;
    size_t n, batch;
} sides;

static void ours_stage(void *arg, int stage)
{
    sides *s = arg;
    if (stage == ENQUEUE)
        ours_enqueue(s->ours, s->n, s->batch);
    else
        ours_work(s->ours, s->n, s->batch);
}

static void base_stage(void *arg, int stage)
{
    sides *s = arg;
    if (stage == ENQUEUE)
        bare_enqueue(s->base, s->n, s->batch);
    else
        bare_work(s->base, s->n, s->batch);
}

typedef struct setting {
    const char *names[LOOP_STAGES], *synchronous, *ours_file, *bare_file;
    size_t batch, n;       /* n: jobs a round */
    double target;
} setting;

static const setting settings[] = {
    { { "enqueue one by one", "claim + complete one by one" },
      "full", "full-1.db", "full-1-bare.db", 1, 100, 0.90 },
    { { "enqueue in batches of 100", "claim + complete in batches of 100" },
      "full", "full-100.db", "full-100-bare.db", 100, 2000, 0.85 },
    { { "enqueue one by one, synchronous=normal", "claim + complete one by one, synchronous=normal" },
      "normal", "normal-1.db", "normal-1-bare.db", 1, 300, 0.90 },
};

static void measure(const bench_run *run, const setting *s)
{
    char *ours_path = path_in(run, s->ours_file), *bare_path = path_in(run, s->bare_file);
    ours_create(ours_path);
    ours_create(bare_path);
    sides both = { .ours = ours_open(ours_path, s->synchronous), .base = bare_open(bare_path, s->synchronous),
                   .n = s->n, .batch = s->batch };
    /* Statements are prepared and pages are there before the first round. */
    for (int stage = 0; stage < LOOP_STAGES; stage++) {
        ours_stage(&both, stage);
        base_stage(&both, stage);
    }
    contest_result results[LOOP_STAGES];
    compete(&(contest){ .ours = ours_stage, .base = base_stage, .arg = &both, .rounds = ROUNDS,
                        .seconds = scaled_s(run, SECONDS), .stages = LOOP_STAGES }, results);
    for (int stage = 0; stage < LOOP_STAGES; stage++)
        report(&(figure){ .name = s->names[stage], .unit = "jobs/s", .ours = (double)s->n / results[stage].ours_s,
                          .base = (double)s->n / results[stage].base_s, .ratio = 1 / results[stage].ratio,
                          .rule = AT_LEAST, .target = s->target });
    renderq_close(both.ours);
    bare_close(both.base);
    free(ours_path);
    free(bare_path);
}

void bench_loop(const bench_run *run)
{
    report_group("Against a bare sqlite3 loop", "librenderq", "bare loop");
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        measure(run, &settings[i]);
}
