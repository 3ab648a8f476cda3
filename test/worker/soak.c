/* soak.c: a worker for minutes, with everything going on at once: jobs that are done, fail, come back, take long or are
 * too long, an operator who cancels; and its memory is flat. RENDERQ_SOAK_S says how long; without it there is none. */
#include "kit.h"

#include <malloc.h>

#define MAX_QUEUED 2000

static renderq_outcome mixed(void *arg, renderq_task *task, const renderq_job *job)
{
    unsigned dice = (unsigned)job->id.text[0] * 31 + (unsigned)job->id.text[5];
    (void)arg;
    if (dice % 50 == 0)
        renderq_task_progress(task, "half of it");
    if (dice % 97 == 0)
        sleep_ms(2500);                             /* over its time, and its lease is renewed twice */
    else if (dice % 7 == 0)
        sleep_ms(3);
    if (dice % 11 == 0)
        return renderq_task_fail(task, "a failure with some text", 100);
    if (dice % 13 == 0 && job->created_at_ms + 1000 > job->started_at_ms)
        return renderq_task_retry(task, 200);
    return renderq_task_done(task, job->payload_json);
}

/* What is allocated, but for SQLite's: its caches grow with the file, up to their limit. */
static long memory_kb(void)
{
    struct mallinfo2 now = mallinfo2();
    return ((long)(now.uordblks + now.hblkhd) - (long)sqlite3_memory_used()) / 1024;
}

static int64_t ended(const renderq_counts *now)
{
    return now->completed + now->dead_letter + now->cancelled;
}

static int64_t rest(const renderq_counts *now)
{
    return now->queued + now->scheduled + now->processing;
}

static void memory_is_flat_and_nothing_is_lost(void **state)
{
    kit *k = *state;
    const char *given = getenv("RENDERQ_SOAK_S");
    int seconds = given ? atoi(given) : 0;
    int64_t put = 0, until = now_ms() + seconds * INT64_C(1000);
    long early_kb = 0;
    k->options.handler = mixed;
    k->options.threads = 8;
    k->options.prefetch = 32;
    k->options.lease_s = 2;
    k->options.job_timeout_s = 2;
    k->options.log = NULL;
    start(k);
    for (int round = 0; now_ms() < until; round++) {
        renderq_counts now = counts(k);
        if (rest(&now) < MAX_QUEUED) {
            renderq_id id = put_some(k, "mixed", 1000);
            put += 1000;
            if (round % 10 == 0)
                renderq_cancel(k->h, NULL, &id);
        }
        if (!early_kb && now_ms() > until - seconds * INT64_C(800))
            early_kb = memory_kb();                 /* a fifth of the time is over */
        sleep_ms(20);
    }
    long late_kb = memory_kb();
    for (int64_t end = now_ms() + 60000; now_ms() < end;) {
        renderq_counts now = counts(k);
        if (rest(&now) == 0)
            break;
        sleep_ms(100);
    }
    stop(k);
    expect(k, wait_end(k), RENDERQ_OK);
    renderq_counts now = counts(k);
    print_message("%lld jobs in %d s, %lld dead; memory %ld kB early, %ld kB late\n", (long long)put, seconds,
                  (long long)now.dead_letter, early_kb, late_kb);
    assert_int_equal(rest(&now), 0);
    assert_int_equal(ended(&now), put);
    assert_true(late_kb < early_kb + 512);            /* more or fewer jobs are in hand */
}

int run_soak(void)
{
    if (!getenv("RENDERQ_SOAK_S"))
        return 0;
    const struct CMUnitTest tests[] = { TEST(memory_is_flat_and_nothing_is_lost) };
    return cmocka_run_group_tests_name("soak", tests, NULL, NULL);
}
