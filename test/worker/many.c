/* many.c: very many small jobs through many threads, none lost and none twice; and a job that kills its process beside
 * healthy ones. RENDERQ_WORKER_JOBS says how many. */
#include "kit.h"

#include <signal.h>

#define JOBS_MAX 200000

static unsigned char done[JOBS_MAX];                /* how often each was worked on; atomic */

static size_t how_many(void)
{
    const char *given = getenv("RENDERQ_WORKER_JOBS");
    size_t n = given ? strtoul(given, NULL, 10) : 0;
    if (n == 0)                                     /* a test server is slower than a file */
        n = strncmp(kit_url, "sqlite:", 7) == 0 ? 20000 : 1000;
    return n < JOBS_MAX ? n : JOBS_MAX;
}

static renderq_outcome tick(void *arg, renderq_task *task, const renderq_job *job)
{
    char output[64];
    (void)arg;
    size_t number = strtoul(job->payload_json, NULL, 10);
    __atomic_fetch_add(&done[number % JOBS_MAX], 1, __ATOMIC_RELAXED);
    snprintf(output, sizeof output, "out-%zu", number);
    return renderq_task_done(task, output);
}

static void put_numbers(kit *k, size_t n)
{
    renderq_new_job jobs[1000];
    char payloads[1000][24];
    for (size_t i = 0; i < n;) {
        size_t batch = n - i < count_of(jobs) ? n - i : count_of(jobs);
        for (size_t j = 0; j < batch; j++) {
            snprintf(payloads[j], sizeof payloads[j], "%zu", i + j);
            jobs[j] = (renderq_new_job)RENDERQ_INIT(renderq_new_job);
            jobs[j].composition_id = "tick";
            jobs[j].payload_json = payloads[j];
            jobs[j].max_retries = 20;               /* a neighbour of the poisonous one may crash with it often */
        }
        assert_status(k->h, renderq_enqueue_many(k->h, jobs, batch, NULL), RENDERQ_OK);
        i += batch;
    }
}

typedef struct outputs {
    size_t right, n;
} outputs;

static int check_output(void *arg, const renderq_job *job)
{
    outputs *o = arg;
    o->n++;
    o->right += job->output_url && strncmp(job->output_url, "out-", 4) == 0 && job->retry_count == 0;
    return 0;
}

static void work_off(kit *k, int threads, int prefetch)
{
    size_t n = how_many(), once = 0;
    outputs o = { 0, 0 };
    put_numbers(k, n);
    memset(done, 0, sizeof done);
    k->options.handler = tick;
    k->options.on_event = NULL;
    k->options.threads = threads;
    k->options.prefetch = prefetch;
    k->options.stop_when_empty = 1;
    expect(k, run_here(k), RENDERQ_OK);
    for (size_t i = 0; i < n; i++)
        once += done[i] == 1;
    assert_int_equal(once, n);
    expect_queue(k, 0, 0, (int64_t)n, 0, 0);
    assert_status(k->h, renderq_list(k->h, NULL, check_output, &o), RENDERQ_OK);
    assert_int_equal(o.n, n);
    assert_int_equal(o.right, n);
}

static void none_is_lost_and_none_twice(void **state)
{
    work_off(*state, 8, 0);
}

static void nor_when_they_are_claimed_ahead(void **state)
{
    work_off(*state, 8, 100);
}

/* ---- a job that kills its process ---- */

static int doomed(void *arg)
{
    kit *k = arg;
    CHECK(renderq_worker_new(k->url, &k->options, &k->w) == RENDERQ_OK);
    renderq_worker_run(k->w);
    return 0;
}

static int no_more_than_once(void *arg, const renderq_job *job)
{
    size_t *bad = arg;
    *bad += job->retry_count != 1;
    return 0;
}

static void a_crash_counts_once_for_each_in_hand(void **state)
{
    kit *k = *state;
    int how;
    size_t bad = 0;
    put_some(k, "h", 7);
    renderq_id poison = put_some(k, "x", 1);
    k->options.threads = 8;
    pid_t child = start_child(doomed, k, false);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    run_out(k);
    reap(k);
    expect_queue(k, 0, 0, 0, 0, 8);
    assert_status(k->h, renderq_list(k->h, NULL, no_more_than_once, &bad), RENDERQ_OK);
    assert_int_equal(bad, 0);
    assert_status(k->h, renderq_cancel(k->h, NULL, &poison), RENDERQ_OK);
    make_due(k);
    let_go(k);
    k->options.max_jobs = 7;
    expect(k, run_here(k), RENDERQ_OK);
    expect_queue(k, 0, 0, 7, 0, 0);
}

/* Small jobs are started some milliseconds ahead, but only those that a failure does not hurt, and never twice. */
static renderq_outcome tick_or_die(void *arg, renderq_task *task, const renderq_job *job)
{
    (void)arg;
    if (job->composition_id[0] == 'x')
        kill(getpid(), SIGKILL);
    return renderq_task_done(task, NULL);
}

static void small_jobs_survive_a_poisonous_one(void **state)
{
    kit *k = *state;
    put_numbers(k, 1000);
    renderq_id poison = put_some(k, "x", 1);
    put_numbers(k, 1000);
    k->options.handler = tick_or_die;
    k->options.on_event = NULL;
    k->options.threads = 4;
    k->options.prefetch = 200;
    k->options.stop_when_empty = 1;
    renderq_counts now = counts(k);
    for (int lives = 0; now.completed + now.dead_letter < 2001; lives++) {
        int how;
        pid_t child = start_child(doomed, k, false);
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(lives < 20);
        run_out(k);
        reap(k);
        make_due(k);
        now = counts(k);
    }
    renderq_job *job = look(k, &poison);
    assert_int_equal(job->state, RENDERQ_DEAD_LETTER);
    renderq_job_free(job);
    expect_queue(k, 0, 0, 2000, 1, 0);
}

int run_many(void)
{
    const struct CMUnitTest tests[] = {
        TEST(none_is_lost_and_none_twice), TEST(nor_when_they_are_claimed_ahead),
        TEST(a_crash_counts_once_for_each_in_hand), TEST(small_jobs_survive_a_poisonous_one),
    };
    return cmocka_run_group_tests_name("many", tests, NULL, NULL);
}
