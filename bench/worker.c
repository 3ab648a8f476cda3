/* worker.c: the worker runtime: empty handlers in 1 to 16 threads against the bare loop in batches, its best; and how
 * long a job waits from its enqueue until its handler begins, when there is nothing else to do and when there is. */
#include "bench.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS  40
#define SECONDS 15

/* ---- throughput ---- */

typedef struct shop {
    char url[4200];
    renderq *h;
    bare *base;
    int threads, prefetch;
    size_t n;
    size_t handled;
} shop;

static renderq_outcome nothing(void *arg, renderq_task *task, const renderq_job *job)
{
    (void)job;
    __atomic_fetch_add(&((shop *)arg)->handled, 1, __ATOMIC_RELAXED);
    return renderq_task_done(task, "file:///videos/output.mp4");
}

static renderq_worker *make(const shop *s, renderq_handler handler, void *arg)
{
    renderq_worker *w;
    renderq_worker_options options = RENDERQ_INIT(renderq_worker_options);
    options.handler = handler;
    options.handler_arg = arg;
    options.threads = s->threads;
    options.prefetch = s->prefetch;
    options.name = WORKER;
    options.stop_when_empty = 1;
    if (renderq_worker_new(s->url, &options, &w) != RENDERQ_OK)
        die("a worker: %s", renderq_worker_errmsg(w));
    return w;
}

static void run(renderq_worker *w)
{
    if (renderq_worker_run(w) != RENDERQ_OK)
        die("a worker: %s", renderq_worker_errmsg(w));
}

static void ours_stage(void *arg, int stage)
{
    shop *s = arg;
    (void)stage;
    renderq_worker *w = make(s, nothing, s);
    s->handled = 0;
    run(w);
    renderq_worker_free(w);
    if (s->handled != s->n)
        die("the worker had %zu jobs, not %zu", s->handled, s->n);
}

static void base_stage(void *arg, int stage)
{
    shop *s = arg;
    (void)stage;
    bare_work(s->base, s->n, BATCH_MAX);
}

static void refill(void *arg)
{
    shop *s = arg;
    ours_enqueue(s->h, s->n, BATCH_MAX);
    bare_enqueue(s->base, s->n, BATCH_MAX);
}

static void measure(const bench_run *run_, int threads, int prefetch, size_t jobs, size_t number)
{
    static char names[16][60];
    char file[40];
    size_t n = (scaled(run_, jobs) + BATCH_MAX - 1) / BATCH_MAX * BATCH_MAX;
    shop s = { .threads = threads, .prefetch = prefetch, .n = n };
    snprintf(file, sizeof file, "worker-%zu.db", number);
    char *path = path_in(run_, file);
    snprintf(file, sizeof file, "worker-%zu-bare.db", number);
    char *bare_path = path_in(run_, file);
    ours_create(path);
    ours_create(bare_path);
    snprintf(s.url, sizeof s.url, "sqlite:%s", path);
    s.h = ours_open(path, "full");
    s.base = bare_open(bare_path, "full");
    contest_result result;
    compete(&(contest){ .ours = ours_stage, .base = base_stage, .before = refill, .arg = &s, .rounds = ROUNDS,
                        .seconds = scaled_s(run_, SECONDS), .stages = 1 }, &result);
    snprintf(names[number], sizeof names[number], "%d thread%s, %d ahead", threads, threads > 1 ? "s" : "", prefetch);
    report(&(figure){ .name = names[number], .unit = "jobs/s", .ours = (double)s.n / result.ours_s,
                      .base = (double)s.n / result.base_s, .ratio = 1 / result.ratio,
                      .rule = prefetch > 0 && threads == 4 ? AT_LEAST : NO_TARGET, .target = 0.7 });
    renderq_close(s.h);
    bare_close(s.base);
    free(path);
    free(bare_path);
}

/* ---- from enqueue to the handler ---- */

#define SAMPLES 200

typedef struct clock_shop {
    pthread_mutex_t lock;
    double waits[SAMPLES];
    size_t n;
    int work_us;
} clock_shop;

static renderq_outcome note_wait(void *arg, renderq_task *task, const renderq_job *job)
{
    clock_shop *c = arg;
    double at;
    (void)task;
    if (sscanf(job->payload_json, "%lf", &at) == 1 && at > 0) {
        double waited = now_s() - at;
        pthread_mutex_lock(&c->lock);
        if (c->n < SAMPLES)
            c->waits[c->n++] = waited;
        pthread_mutex_unlock(&c->lock);
    }
    return RENDERQ_TASK_DONE;
}

static void put(renderq *h, bool timed)
{
    char stamp[40];
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    snprintf(stamp, sizeof stamp, "%.6f", timed ? now_s() : 0.0);
    job.composition_id = "timed";
    job.payload_json = stamp;
    ours_check(h, renderq_enqueue(h, &job, NULL), "enqueue");
}

static void *run_thread(void *arg)
{
    run(arg);
    return NULL;
}

/* `every_ms` between jobs; under load others come between them. */
static void wait_times(const bench_run *run_, const char *name, const char *file, int poll_max_ms, int every_ms,
                       int load)
{
    static char names[8][80];
    static size_t used;
    clock_shop c = { .lock = PTHREAD_MUTEX_INITIALIZER };
    renderq_worker_options options = RENDERQ_INIT(renderq_worker_options);
    renderq_worker *w;
    pthread_t thread;
    char url[4200];
    char *path = path_in(run_, file);
    size_t samples = run_->quick ? SAMPLES / 10 : SAMPLES;
    ours_create(path);
    renderq *h = ours_open(path, "full");
    snprintf(url, sizeof url, "sqlite:%s", path);
    options.handler = note_wait;
    options.handler_arg = &c;
    options.threads = 4;
    options.poll_max_ms = poll_max_ms;
    if (renderq_worker_new(url, &options, &w) != RENDERQ_OK)
        die("a worker: %s", renderq_worker_errmsg(w));
    if (pthread_create(&thread, NULL, run_thread, w) != 0)
        die("no thread");
    for (size_t i = 0; i < samples; i++) {
        for (int j = 0; j < load; j++)
            put(h, false);
        put(h, true);
        struct timespec pause = { 0, every_ms * 1000000L };
        nanosleep(&pause, NULL);
    }
    for (size_t seen = 0; seen < samples;) {
        struct timespec pause = { 0, 10000000 };
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&c.lock);
        seen = c.n;
        pthread_mutex_unlock(&c.lock);
    }
    renderq_worker_stop(w);
    pthread_join(thread, NULL);
    renderq_worker_free(w);
    renderq_close(h);
    double p50 = percentile(c.waits, samples, 0.5) * 1e3, p99 = percentile(c.waits, samples, 0.99) * 1e3;
    snprintf(names[used], sizeof names[used], "%s", name);
    report(&(figure){ .name = names[used++], .unit = "ms", .ours = p50, .base = p99, .ratio = p99 / p50,
                      .rule = NO_TARGET });
    free(path);
}

void bench_worker(const bench_run *run_)
{
    static const struct { int threads, prefetch; size_t jobs; } settings[] = {
        { 1, 0, 200 }, { 4, 0, 800 }, { 16, 0, 2000 }, { 1, 200, 4000 }, { 4, 200, 4000 }, { 16, 200, 4000 },
        { 4, 1000, 20000 },
    };
    report_group("Workers with an empty handler", "librenderq", "bare loop");
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        measure(run_, settings[i].threads, settings[i].prefetch, settings[i].jobs, i);
    report_group("From enqueue to the handler", "p50", "p99");
    wait_times(run_, "idle, polling as it does (100 ms to 2 s)", "wait-1.db", 0, 100, 0);
    wait_times(run_, "idle, polling every 20 ms at the latest", "wait-2.db", 100, 30, 0);
    wait_times(run_, "under load: 500 other jobs a second", "wait-3.db", 0, 20, 10);
}
