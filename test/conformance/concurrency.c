/* concurrency.c: several handles, threads and processes at once; waiting for work, and being interrupted. Threads
 * do not assert: they hand their findings to the test. */
#include "suite.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faulty.h"

/* A handle of a thread or a child. */
static renderq_status open_at(const char *url, renderq **h)
{
    renderq_options options = RENDERQ_INIT(renderq_options);
    options.connect_s = SUITE_CONNECT_S;
    options.command_s = SUITE_COMMAND_S;
    options.retry_s = SUITE_RETRY_S;
    return renderq_open(url, &options, h);
}

/* ---- many workers ---- */

#define JOBS 2000

typedef struct worker {
    char url[1024];
    size_t batch;
    renderq_id *ids;        /* of the jobs that it completed */
    size_t n;
    renderq_status last;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    renderq *h = NULL;
    renderq_job *jobs[RENDERQ_CLAIM_MAX];
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    options.no_reap = 1;
    w->last = open_at(w->url, &h);
    while (w->last == RENDERQ_OK) {
        size_t n = 0;
        renderq_result results[RENDERQ_CLAIM_MAX];
        w->last = renderq_claim_many(h, &options, jobs, w->batch, &n);
        for (size_t i = 0; i < n; i++) {
            results[i] = (renderq_result)RENDERQ_INIT(renderq_result);
            results[i].job = jobs[i];
        }
        if (w->last == RENDERQ_OK)
            w->last = renderq_complete_many(h, results, n);
        for (size_t i = 0; i < n; i++) {
            if (w->last == RENDERQ_OK)
                w->ids[w->n++] = jobs[i]->id;
            renderq_job_free(jobs[i]);
        }
    }
    renderq_close(h);
    return NULL;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(((const renderq_id *)a)->text, ((const renderq_id *)b)->text);
}

static void two_workers_take_each_job_once(void **state)
{
    suite *s = *state;
    renderq_new_job *jobs = calloc(JOBS, sizeof *jobs);
    renderq_id *ids = calloc(2 * JOBS, sizeof *ids);
    worker workers[2];
    pthread_t threads[2];
    for (size_t i = 0; i < JOBS; i++) {
        jobs[i] = (renderq_new_job)RENDERQ_INIT(renderq_new_job);
        jobs[i].composition_id = "intro";
        jobs[i].payload_json = "{}";
        jobs[i].priority = (int)(i % 7);
    }
    expect_ok(s->h, renderq_enqueue_many(s->h, jobs, JOBS, NULL));
    for (int i = 0; i < 2; i++) {
        workers[i] = (worker){ .batch = i == 0 ? 3 : 4, .ids = ids + (size_t)i * JOBS, .last = RENDERQ_OK };
        strcpy(workers[i].url, s->url);
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(workers[0].last, RENDERQ_EMPTY);
    assert_int_equal(workers[1].last, RENDERQ_EMPTY);
    assert_int_equal(workers[0].n + workers[1].n, JOBS);
    memmove(ids + workers[0].n, workers[1].ids, workers[1].n * sizeof *ids);
    qsort(ids, JOBS, sizeof *ids, by_text);
    for (size_t i = 1; i < JOBS; i++)
        assert_string_not_equal(ids[i].text, ids[i - 1].text);
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    expect_ok(s->h, renderq_stats(s->h, NULL, &counts));
    assert_int_equal(counts.completed, JOBS);
    free(ids);
    free(jobs);
}

/* Webhooks are delivered twice, at once: one job a key, and both hear its id. */

typedef struct producer {
    char url[1024];
    renderq_id ids[50];
    int made, held;
    renderq_status bad;
} producer;

static void *produce(void *arg)
{
    producer *p = arg;
    renderq *h = NULL;
    p->bad = open_at(p->url, &h);
    for (size_t i = 0; i < count_of(p->ids) && p->bad == RENDERQ_OK; i++) {
        renderq_new_job job = RENDERQ_INIT(renderq_new_job);
        char key[20];
        snprintf(key, sizeof key, "key %zu", i);
        job.composition_id = "intro";
        job.payload_json = "{}";
        job.dedup_key = key;
        renderq_status status = renderq_enqueue(h, &job, &p->ids[i]);
        p->made += status == RENDERQ_OK;
        p->held += status == RENDERQ_DUPLICATE;
        if (status != RENDERQ_OK && status != RENDERQ_DUPLICATE)
            p->bad = status;
    }
    renderq_close(h);
    return NULL;
}

static void two_producers_make_one_job_a_key(void **state)
{
    suite *s = *state;
    static producer p[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        memset(&p[i], 0, sizeof p[i]);
        strcpy(p[i].url, s->url);
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &p[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(p[i].bad, RENDERQ_OK);
        assert_int_equal(p[i].made + p[i].held, count_of(p[i].ids));
    }
    assert_int_equal(p[0].made + p[1].made, count_of(p[0].ids));
    assert_int_equal(count_rows(s), count_of(p[0].ids));
    for (size_t i = 0; i < count_of(p[0].ids); i++)
        same_id(&p[0].ids[i], &p[1].ids[i]);
}

/* ---- waiting ---- */

typedef struct later {
    suite *s;
    renderq *h;
    sem_t *begun;           /* NULL, or what comes first */
    int after_ms;
    void (*act)(struct later *l);
    renderq_status status;
} later;

static void *run_later(void *arg)
{
    later *l = arg;
    if (l->begun)
        sem_wait(l->begun);
    sleep_ms(l->after_ms);
    l->act(l);
    return NULL;
}

static void it_has_begun(void *arg)
{
    sem_post(arg);
}

static void enqueue_one(later *l)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.composition_id = "late";
    job.payload_json = "{}";
    l->status = renderq_enqueue(l->h, &job, NULL);
}

static void interrupt_it(later *l)
{
    renderq_interrupt(l->h);
}

/* Claims while something happens meanwhile; how long that took. */
static int64_t claim_while(renderq *h, int64_t wait_ms, later *l, renderq_status *status, renderq_job **job)
{
    pthread_t thread;
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    options.wait_ms = wait_ms;
    int64_t began = clock_ms();
    assert_int_equal(pthread_create(&thread, NULL, run_later, l), 0);
    *status = renderq_claim(h, &options, job);
    int64_t took = clock_ms() - began;
    pthread_join(thread, NULL);
    return took;
}

static void a_waiting_claim_gets_what_comes(void **state)
{
    suite *s = *state;
    static const int64_t waits[] = { RENDERQ_FOREVER, 60000 };
    renderq *producer_handle = suite_open(s, "producer", NULL);
    suite_warm(s->h);
    suite_warm(producer_handle);
    for (size_t i = 0; i < count_of(waits); i++) {
        later l = { .s = s, .h = producer_handle, .after_ms = 50, .act = enqueue_one, .status = RENDERQ_FAILED };
        renderq_status status;
        renderq_job *job = NULL;
        int64_t took = claim_while(s->h, waits[i], &l, &status, &job);
        expect_ok(l.h, l.status);
        expect_ok(s->h, status);
        assert_string_equal(job->composition_id, "late");
        assert_in_range(job->lease_left_ms, 500000, 600000);
        assert_in_range(took, 45, SUITE_LONG_MS);
        renderq_job_free(job);
    }
    renderq_close(producer_handle);
}

static void a_waiting_claim_gives_up_in_time(void **state)
{
    suite *s = *state;
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_job *job = NULL;
    suite_warm(s->h);
    int64_t began = clock_ms();
    options.wait_ms = 150;
    expect(s->h, RENDERQ_EMPTY, renderq_claim(s->h, &options, &job));
    assert_in_range(clock_ms() - began, 150, SUITE_LONG_MS);
}

/* It asks once and answers. */
static void a_claim_that_does_not_wait(void **state)
{
    suite *s = *state;
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_job *job = NULL;
    renderq *f = faulty_open(s, -1);
    options.wait_ms = 0;
    options.no_reap = 1;
    faulty_arm(NULL, 0);
    expect(f, RENDERQ_EMPTY, renderq_claim(f, &options, &job));
    assert_int_equal(faulty_runs(), 1);
    renderq_close(f);
}

/* While it waits it reads seldom; once, where that took as long. */
static void a_waiting_claim_reads_seldom(void **state)
{
    suite *s = *state;
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_job *job = NULL;
    renderq *f = faulty_open(s, -1);
    options.wait_ms = 200;
    options.no_reap = 1;
    suite_warm(f);
    faulty_arm(NULL, 0);
    expect(f, RENDERQ_EMPTY, renderq_claim(f, &options, &job));
    assert_in_range(faulty_runs(), 1, 6);
    renderq_close(f);
}

static void what_becomes_due_ends_the_wait(void **state)
{
    suite *s = *state;
    renderq_new_job new_job = RENDERQ_INIT(renderq_new_job);
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_job *job = NULL;
    new_job.composition_id = "intro";
    new_job.payload_json = "{}";
    new_job.delay_ms = 60;
    put_job(s, &new_job);
    options.wait_ms = 60000;
    expect_ok(s->h, renderq_claim(s->h, &options, &job));
    renderq_job_free(job);
}

/* ---- interrupts ---- */

static void an_interrupt_ends_a_long_wait(void **state)
{
    suite *s = *state;
    later l = { .h = s->h, .after_ms = 50, .act = interrupt_it };
    renderq_status status;
    renderq_job *job = NULL;
    suite_warm(s->h);
    int64_t took = claim_while(s->h, RENDERQ_FOREVER, &l, &status, &job);
    expect(s->h, RENDERQ_INTERRUPTED, status);
    assert_null(job);
    assert_in_range(took, 45, SUITE_LONG_MS);
    take_none(s->h);                                /* one interrupt ends one call */
}

static void an_interrupt_before_waits_for_the_next_claim(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "intro");
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    renderq_job *job = NULL, *jobs[1];
    size_t n;
    renderq_interrupt(s->h);
    renderq_interrupt(s->h);                        /* twice is once */
    expect_ok(s->h, renderq_stats(s->h, NULL, &counts));    /* no claim: it does not hear it, and leaves it */
    expect_ok(s->h, renderq_cancel(s->h, NULL, &id));
    expect_ok(s->h, renderq_retry(s->h, NULL, &id, NULL));
    char *before = snapshot_all(s);
    expect(s->h, RENDERQ_INTERRUPTED, renderq_claim(s->h, NULL, &job));
    assert_null(job);
    expect_all_unchanged(s, before);
    renderq_job_free(take_this(s->h, &id));

    renderq_interrupt(s->h);
    expect(s->h, RENDERQ_INTERRUPTED, renderq_claim_many(s->h, NULL, jobs, 1, &n));
    assert_int_equal(n, 0);
    take_none(s->h);
}

/* A call that is no claim does not hear an earlier interrupt even where it has to wait. */
static void an_earlier_interrupt_does_not_end_a_repeat(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro"), *next = NULL;
    renderq *f = faulty_open(s, SUITE_RETRY_S);
    const fault twice[] = { { .kind = FAULT_NOT_SENT }, { .kind = FAULT_AFTER } };
    renderq_interrupt(f);
    faulty_arm(twice, count_of(twice));
    expect_ok(f, renderq_complete(f, job, "out"));
    expect_status(s, &job->id, "Completed");
    expect(f, RENDERQ_INTERRUPTED, renderq_claim(f, NULL, &next));
    renderq_job_free(job);
    renderq_close(f);
}

static void an_interrupt_is_the_handles_own(void **state)
{
    suite *s = *state;
    renderq *other = suite_open(s, "node-2", NULL);
    renderq_id id = put(s, "intro");
    renderq_interrupt(other);
    renderq_job_free(take_this(s->h, &id));
    renderq_close(other);
}

static renderq *signalled;

static void on_signal(int number)
{
    (void)number;
    renderq_interrupt(signalled);
}

static void signal_it(later *l)
{
    (void)l;
    kill(getpid(), SIGUSR1);
}

static void an_interrupt_from_a_signal_handler(void **state)
{
    suite *s = *state;
    struct sigaction action = { .sa_handler = on_signal }, old;
    later l = { .h = s->h, .after_ms = 50, .act = signal_it };
    renderq_status status;
    renderq_job *job = NULL;
    signalled = s->h;
    sigaction(SIGUSR1, &action, &old);
    int64_t took = claim_while(s->h, RENDERQ_FOREVER, &l, &status, &job);
    sigaction(SIGUSR1, &old, NULL);
    expect(s->h, RENDERQ_INTERRUPTED, status);
    assert_in_range(took, 45, SUITE_LONG_MS);
}

/* The link is gone and does not come back: the call does not sit out its retries. */
static void an_interrupt_ends_the_retries(void **state)
{
    suite *s = *state;
    static const struct { fault_kind kind; renderq_status want; } ends[] = {
        { FAULT_NOT_SENT, RENDERQ_INTERRUPTED }, { FAULT_BEFORE, RENDERQ_UNCERTAIN },
    };
    for (size_t i = 0; i < count_of(ends); i++) {
        renderq_job *job = put_and_take(s, "intro"), *next = NULL;
        renderq *f = faulty_open(s, 45);
        sem_t begun;
        later l = { .h = f, .begun = &begun, .after_ms = 50, .act = interrupt_it };
        pthread_t thread;
        assert_int_equal(sem_init(&begun, 0, 0), 0);
        faulty_arm_one(0, (fault){ .kind = ends[i].kind, .refuse_opens = 1000000, .then = it_has_begun,
                                   .arg = &begun });
        assert_int_equal(pthread_create(&thread, NULL, run_later, &l), 0);
        int64_t began = clock_ms();
        expect(f, ends[i].want, renderq_complete(f, job, NULL));
        assert_in_range(clock_ms() - began, 0, SUITE_LONG_MS);
        pthread_join(thread, NULL);
        sem_destroy(&begun);
        expect_status(s, &job->id, "Processing");
        faulty_disarm();
        expect(f, RENDERQ_EMPTY, renderq_claim(f, NULL, &next));    /* used up */
        renderq_job_free(job);
        renderq_close(f);
    }
}

/* ---- fork ---- */

/* In the child; false: a call did not answer as it should. */
static bool refused_in_the_child(renderq *h, renderq_job *job)
{
    renderq_new_job new_job = RENDERQ_INIT(renderq_new_job);
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    renderq_job *out = NULL;
    new_job.composition_id = "child";
    new_job.payload_json = "{}";
    bool good = renderq_enqueue(h, &new_job, NULL) == RENDERQ_INVALID && strstr(renderq_errmsg(h), "fork")
                && renderq_claim(h, NULL, &out) == RENDERQ_INVALID && !out
                && renderq_complete(h, job, NULL) == RENDERQ_INVALID
                && renderq_renew(h, job, NULL) == RENDERQ_INVALID
                && renderq_get(h, NULL, &job->id, &out) == RENDERQ_INVALID
                && renderq_stats(h, NULL, &counts) == RENDERQ_INVALID
                && renderq_reap(h, NULL, NULL) == RENDERQ_INVALID
                && renderq_create(h, NULL) == RENDERQ_INVALID;
    renderq_interrupt(h);
    renderq_close(h);
    return good;
}

/* The child opens its own, and leaves a job behind. */
static bool works_in_the_child(const char *url)
{
    renderq *h = NULL;
    renderq_new_job new_job = RENDERQ_INIT(renderq_new_job);
    new_job.composition_id = "child";
    new_job.payload_json = "{}";
    bool good = open_at(url, &h) == RENDERQ_OK && renderq_enqueue(h, &new_job, NULL) == RENDERQ_OK;
    renderq_close(h);
    return good;
}

static void a_handle_after_fork(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* It becomes another program: what the parent holds in memory is no leak of the child's. */
        if (refused_in_the_child(s->h, job) && works_in_the_child(s->url))
            execlp("true", "true", (char *)NULL);
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);

    expect_ok(s->h, renderq_renew(s->h, job, "unharmed"));      /* and nobody interrupted it */
    renderq_job *next = take(s->h);
    assert_string_equal(next->composition_id, "child");
    expect_ok(s->h, renderq_complete(s->h, job, NULL));
    expect_status(s, &job->id, "Completed");
    renderq_job_free(next);
    renderq_job_free(job);
}

int run_concurrency(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(two_workers_take_each_job_once),
        TEST(two_producers_make_one_job_a_key),
        TEST(a_waiting_claim_gets_what_comes),
        TEST(a_waiting_claim_gives_up_in_time),
        TEST(a_claim_that_does_not_wait),
        TEST(a_waiting_claim_reads_seldom),
        TEST(what_becomes_due_ends_the_wait),
        TEST(an_interrupt_ends_a_long_wait),
        TEST(an_interrupt_before_waits_for_the_next_claim),
        TEST(an_earlier_interrupt_does_not_end_a_repeat),
        TEST(an_interrupt_is_the_handles_own),
        TEST(an_interrupt_from_a_signal_handler),
        TEST(an_interrupt_ends_the_retries),
        TEST(a_handle_after_fork),
    };
    return cmocka_run_group_tests_name("concurrency", tests, NULL, NULL);
}
