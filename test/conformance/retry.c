/* retry.c: rule 6, retries wait: how often a job is tried, how long it waits in between, and how it dies. */
#include "suite.h"

#include <stdlib.h>
#include <string.h>

/* Fails the job at once and takes it again, until it is dead; how many failures that took. */
static int failures_until_dead(suite *s, const renderq_id *id)
{
    for (int failures = 1;; failures++) {
        renderq_job *job = take_this(s->h, id);
        assert_int_equal(job->retry_count, failures - 1);
        expect_ok(s->h, renderq_fail(s->h, job, "broke", 0));
        expect_number(s, id, "RetryCount", failures);
        renderq_job_free(job);
        renderq_job *read = get(s, id);
        renderq_state now = read->state;
        renderq_job_free(read);
        if (now == RENDERQ_DEAD_LETTER)
            return failures;
        assert_int_equal(now, RENDERQ_QUEUED);
    }
}

static void dead_after_its_retries(void **state)
{
    suite *s = *state;
    static const struct { int given, reads, failures; } retries[] = {
        { 0, 3, 4 }, { 3, 3, 4 }, { 1, 1, 2 }, { 5, 5, 6 }, { RENDERQ_NO_RETRY, RENDERQ_NO_RETRY, 1 },
    };
    for (size_t i = 0; i < count_of(retries); i++) {
        renderq_new_job new_job = RENDERQ_INIT(renderq_new_job);
        new_job.composition_id = "intro";
        new_job.payload_json = "{}";
        new_job.max_retries = retries[i].given;
        renderq_id id = put_job(s, &new_job);
        renderq_job *job = get(s, &id);
        assert_int_equal(job->max_retries, retries[i].reads);
        renderq_job_free(job);

        int64_t before = s->ops->now_ms(s->e);
        assert_int_equal(failures_until_dead(s, &id), retries[i].failures);
        assert_in_range(number_of(s, &id, "EndedAtUtc"), before, s->ops->now_ms(s->e));
        expect_nulls(s, &id, "DueAtUtc", "CompletedAtUtc");
        job = get(s, &id);
        assert_int_equal(job->ended_at_ms, number_of(s, &id, "EndedAtUtc"));
        assert_string_equal(job->last_error, "broke");
        renderq_job_free(job);
        take_none(s->h);
    }
}

/* Dead jobs do not wait, whatever delay was asked for. */
static void the_last_failure_takes_no_delay(void **state)
{
    suite *s = *state;
    static const int64_t delays[] = { 60000, RENDERQ_BACKOFF, 0, RENDERQ_NEVER };
    for (size_t i = 0; i < count_of(delays); i++) {
        renderq_id id = put(s, "intro");
        set_number(s, &id, "RetryCount", 3);
        renderq_job *job = take_this(s->h, &id);
        expect_ok(s->h, renderq_fail(s->h, job, NULL, delays[i]));
        expect_status(s, &id, "DeadLetter");
        expect_number(s, &id, "RetryCount", 4);
        expect_null(s, &id, "DueAtUtc");
        renderq_job_free(job);
    }
}

static void never_is_straight_to_the_dead_letters(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro");
    expect_ok(s->h, renderq_fail(s->h, job, "hopeless", RENDERQ_NEVER));
    expect_status(s, &job->id, "DeadLetter");
    expect_number(s, &job->id, "RetryCount", 1);
    expect_set(s, &job->id, "EndedAtUtc");
    renderq_job_free(job);
}

/* 2^failures seconds, at most an hour, plus up to a quarter. */
static int64_t backoff_base_ms(int failures)
{
    int64_t wait = 1000;
    while (failures-- > 0 && wait < 3600000)
        wait *= 2;
    return wait < 3600000 ? wait : 3600000;
}

static void backoff_of_fail(void **state)
{
    suite *s = *state;
    int64_t lowest = INT64_MAX, highest = 0;
    for (int failures = 1; failures <= 14; failures++)
        for (int times = 0; times < 4; times++) {
            renderq_new_job new_job = RENDERQ_INIT(renderq_new_job);
            new_job.composition_id = "intro";
            new_job.payload_json = "{}";
            new_job.max_retries = 100;
            renderq_id id = put_job(s, &new_job);
            set_number(s, &id, "RetryCount", failures - 1);
            renderq_job *job = take_this(s->h, &id);
            int64_t base = backoff_base_ms(failures), before = s->ops->now_ms(s->e);
            expect_ok(s->h, renderq_fail(s->h, job, NULL, RENDERQ_BACKOFF));
            expect_status(s, &id, "Scheduled");
            expect_number(s, &id, "RetryCount", failures);
            int64_t wait = number_of(s, &id, "DueAtUtc") - before;
            assert_in_range(wait, base, base + base / 4 + (s->ops->now_ms(s->e) - before));
            if (base == 3600000) {
                lowest = wait < lowest ? wait : lowest;
                highest = wait > highest ? wait : highest;
            }
            renderq_job_free(job);
            s->ops->clear(s->e);
        }
    assert_true(highest - lowest > 1000);           /* spread, so that neighbours part */
}

/* A lease that runs out waits in the same way. */
static void backoff_of_reap(void **state)
{
    suite *s = *state;
    renderq_id ids[14];
    int64_t lowest = INT64_MAX, highest = 0;
    for (int i = 0; i < 14; i++) {
        renderq_new_job new_job = RENDERQ_INIT(renderq_new_job);
        new_job.composition_id = "intro";
        new_job.payload_json = "{}";
        new_job.max_retries = 100;
        ids[i] = put_job(s, &new_job);
        set_number(s, &ids[i], "RetryCount", i);
        renderq_job_free(take_this(s->h, &ids[i]));
        run_out(s, &ids[i], 0);
    }
    int64_t before = s->ops->now_ms(s->e);
    renderq_reaped counts = RENDERQ_INIT(renderq_reaped);
    expect_ok(s->h, renderq_reap(s->h, NULL, &counts));
    assert_int_equal(counts.returned, 14);
    assert_int_equal(counts.dead, 0);
    int64_t took = s->ops->now_ms(s->e) - before;
    for (int i = 0; i < 14; i++) {
        int64_t base = backoff_base_ms(i + 1), wait = number_of(s, &ids[i], "DueAtUtc") - before;
        expect_status(s, &ids[i], "Scheduled");
        expect_number(s, &ids[i], "RetryCount", i + 1);
        assert_in_range(wait, base, base + base / 4 + took);
        if (base == 3600000) {
            lowest = wait < lowest ? wait : lowest;
            highest = wait > highest ? wait : highest;
        }
    }
    assert_true(highest > lowest);
}

static void a_delay_of_the_callers(void **state)
{
    suite *s = *state;
    static const int64_t delays[] = { 1, 1500, RENDERQ_DELAY_MAX_MS };
    for (size_t i = 0; i < count_of(delays); i++) {
        renderq_job *job = put_and_take(s, "intro");
        int64_t before = s->ops->now_ms(s->e);
        expect_ok(s->h, renderq_fail(s->h, job, NULL, delays[i]));
        assert_in_range(number_of(s, &job->id, "DueAtUtc"), before + delays[i], s->ops->now_ms(s->e) + delays[i]);
        expect_status(s, &job->id, "Scheduled");
        expect_null(s, &job->id, "LastErrorMessage");
        renderq_job_free(job);
        s->ops->clear(s->e);
    }
}

static void a_failure_without_a_text_forgets_the_last_one(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro");
    expect_ok(s->h, renderq_fail(s->h, job, "first", 0));
    renderq_job_free(job);
    job = take(s->h);
    expect_ok(s->h, renderq_fail(s->h, job, NULL, 0));
    expect_null(s, &job->id, "LastErrorMessage");
    renderq_job_free(job);
}

/* A clean stop is no failure, however often. */
static void release_does_not_count(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "intro");
    set_number(s, &id, "RetryCount", 3);
    set_text(s, &id, "LastErrorMessage", "earlier");
    for (int i = 0; i < 6; i++) {
        renderq_job *job = take_this(s->h, &id);
        expect_ok(s->h, renderq_release(s->h, job, 0));
        expect_status(s, &id, "Queued");
        expect_number(s, &id, "RetryCount", 3);
        expect_text(s, &id, "LastErrorMessage", "earlier");
        renderq_job_free(job);
    }
}

static void retry_forgets_the_failures(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "intro");
    assert_int_equal(failures_until_dead(s, &id), 4);
    expect_ok(s->h, renderq_retry(s->h, NULL, &id, NULL));
    expect_number(s, &id, "RetryCount", 0);
    assert_int_equal(failures_until_dead(s, &id), 4);
}

int run_retry(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(dead_after_its_retries),
        TEST(the_last_failure_takes_no_delay),
        TEST(never_is_straight_to_the_dead_letters),
        TEST(backoff_of_fail),
        TEST(backoff_of_reap),
        TEST(a_delay_of_the_callers),
        TEST(a_failure_without_a_text_forgets_the_last_one),
        TEST(release_does_not_count),
        TEST(retry_forgets_the_failures),
    };
    return cmocka_run_group_tests_name("retry", tests, NULL, NULL);
}
