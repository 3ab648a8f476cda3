/* foreign.c: other programs on the same table, which settle by JobId alone and know none of our columns: what we make
 * of the rows that they leave. What our calls answer after each of their statements is in interop/states.c. */
#include "suite.h"

#include <stdlib.h>
#include <string.h>

/* ---- what we make of their rows ---- */

static renderq_id foreign_put(suite *s, int priority)
{
    renderq_id id;
    s->ops->enqueue(s->e, "theirs", "{\"from\":\"csharp\"}", priority, &id);
    return id;
}

static void their_jobs_are_ours_to_do(void **state)
{
    suite *s = *state;
    renderq_id id = foreign_put(s, 7);
    renderq_job *job = take_this(s->h, &id);
    assert_string_equal(job->composition_id, "theirs");
    assert_string_equal(job->payload_json, "{\"from\":\"csharp\"}");
    assert_int_equal(job->priority, 7);
    assert_int_equal(job->retry_count, 0);
    assert_int_equal(job->max_retries, RENDERQ_RETRIES_DEFAULT);
    assert_null(job->dedup_key);
    expect_ok(s->h, renderq_renew(s->h, job, "half"));
    expect_ok(s->h, renderq_complete(s->h, job, "out"));
    expect_status(s, &id, "Completed");
    renderq_job_free(job);
}

static void our_jobs_are_theirs_to_do(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "ours"), got;
    assert_true(s->ops->claim(s->e, "csharp", &got));
    same_id(&got, &id);
    take_none(s->h);
    assert_true(s->ops->complete(s->e, &id, "theirs"));
    renderq_job *job = get(s, &id);
    assert_int_equal(job->state, RENDERQ_COMPLETED);
    assert_string_equal(job->output_url, "theirs");
    assert_int_not_equal(job->ended_at_ms, 0);
    renderq_job_free(job);
    expect(s->h, RENDERQ_LOST, renderq_cancel(s->h, NULL, &id));
    expect_ok(s->h, renderq_settle(s->h, NULL, &id, NULL, 0));
}

/* Their lease is 600 s, whatever LeaseSeconds says of an earlier lease of ours. */
static void their_lease_lasts_ten_minutes(void **state)
{
    suite *s = *state;
    renderq_id got, id = put(s, "intro");
    renderq_job *job = take_for(s->h, NULL, 30, false);
    expect_ok(s->h, renderq_fail(s->h, job, NULL, 0));
    renderq_job_free(job);
    assert_true(s->ops->claim(s->e, "csharp", &got));
    /* Its own columns are of an earlier lease; a foreign fail leaves them even more so. */
    set_number(s, &id, "LeaseSeconds", 30);
    set_number(s, &id, "LeasedAtUtc", number_of(s, &id, "LockedAtUtc") - 1);

    job = get(s, &id);
    assert_int_equal(job->state, RENDERQ_PROCESSING);
    assert_string_equal(job->worker, "csharp");
    assert_in_range(job->lease_left_ms, 500000, 600000);
    assert_int_equal(renderq_lease_left_ms(job), 0);
    renderq_job_free(job);

    renderq_reaped counts = RENDERQ_INIT(renderq_reaped);
    set_number(s, &id, "LockedAtUtc", s->ops->now_ms(s->e) - 560000);
    expect_ok(s->h, renderq_reap(s->h, NULL, &counts));
    assert_int_equal(counts.returned + counts.dead, 0);
    expect_status(s, &id, "Processing");

    renderq_counts stats = RENDERQ_INIT(renderq_counts);
    expect_ok(s->h, renderq_stats(s->h, NULL, &stats));
    assert_int_equal(stats.run_out, 0);
    set_number(s, &id, "LockedAtUtc", s->ops->now_ms(s->e) - 600000);
    expect_ok(s->h, renderq_stats(s->h, NULL, &stats));
    assert_int_equal(stats.run_out, 1);
    expect_ok(s->h, renderq_reap(s->h, NULL, &counts));
    assert_int_equal(counts.returned, 1);
    expect_status(s, &id, "Scheduled");
    expect_number(s, &id, "RetryCount", 2);             /* a foreign claim counts as started */
    expect_nulls(s, &id, "LeasedAtUtc", "LockedAtUtc", "LeaseToken", "LeaseSeconds", "WorkerNodeId",
                 "StartedAtUtc");
}

static void their_crashes_end_in_the_dead_letters(void **state)
{
    suite *s = *state;
    renderq_id got, id = foreign_put(s, 0);
    for (int failures = 1; failures <= 4; failures++) {
        assert_true(s->ops->claim(s->e, "csharp", &got));
        set_number(s, &id, "LockedAtUtc", s->ops->now_ms(s->e) - 600001);
        expect_ok(s->h, renderq_reap(s->h, NULL, NULL));
        expect_number(s, &id, "RetryCount", failures);
        expect_status(s, &id, failures < 4 ? "Scheduled" : "DeadLetter");
        if (failures < 4)
            set_text(s, &id, "Status", "Queued");
    }
    expect_set(s, &id, "EndedAtUtc");
}

/* They end a job in a state of ours that they do not know; the operator's calls still see it through. */
static void what_they_ended_can_be_retried_and_purged(void **state)
{
    suite *s = *state;
    static const renderq_state states[] = { RENDERQ_SCHEDULED, RENDERQ_QUEUED, RENDERQ_PROCESSING,
                                            RENDERQ_DEAD_LETTER, RENDERQ_CANCELLED, RENDERQ_OTHER };
    for (size_t i = 0; i < count_of(states); i++) {
        renderq_id id = put_in_state(s, states[i]);
        assert_true(s->ops->complete(s->e, &id, "theirs"));
        expect_status(s, &id, "Completed");
        expect_ok(s->h, renderq_retry(s->h, NULL, &id, NULL));
        expect_status(s, &id, "Queued");
        expect_nulls(s, &id, "CompletedAtUtc", "EndedAtUtc", "DueAtUtc", "LeaseToken", "LeasedAtUtc",
                     "LockedAtUtc", "StartedAtUtc", "LeaseSeconds", "WorkerNodeId");
        renderq_job_free(take_this(s->h, &id));
        assert_true(s->ops->complete(s->e, &id, "theirs"));
        shift(s, &id, "CompletedAtUtc", -100000);
        int64_t deleted = -1;
        expect_ok(s->h, renderq_purge(s->h, NULL, 60, &deleted));
        assert_int_equal(deleted, 1);
        assert_false(row_there(s, &id));
    }
}

static void their_dead_letters_have_no_time_of_their_end(void **state)
{
    suite *s = *state;
    renderq_id id = foreign_put(s, 0), got;
    set_number(s, &id, "RetryCount", 3);
    assert_true(s->ops->claim(s->e, "csharp", &got));
    assert_true(s->ops->mark_failed(s->e, &id, "theirs"));
    expect_status(s, &id, "DeadLetter");
    expect_null(s, &id, "EndedAtUtc");
    renderq_job *job = get(s, &id);
    assert_int_equal(job->state, RENDERQ_DEAD_LETTER);
    assert_int_equal(job->ended_at_ms, 0);
    assert_int_equal(job->retry_count, 4);
    renderq_job_free(job);

    int64_t deleted = -1, before = s->ops->now_ms(s->e);
    expect_ok(s->h, renderq_purge(s->h, NULL, 60, &deleted));
    assert_int_equal(deleted, 0);
    assert_in_range(number_of(s, &id, "EndedAtUtc"), before, s->ops->now_ms(s->e));     /* stamped */
    shift(s, &id, "EndedAtUtc", -100000);
    expect_ok(s->h, renderq_purge(s->h, NULL, 60, &deleted));
    assert_int_equal(deleted, 1);

    id = foreign_put(s, 0);
    set_number(s, &id, "RetryCount", 3);
    assert_true(s->ops->mark_failed(s->e, &id, "theirs"));
    renderq_retried counts = RENDERQ_INIT(renderq_retried);
    expect_ok(s->h, renderq_retry_dead(s->h, NULL, &counts));
    assert_int_equal(counts.retried, 1);
    job = take_this(s->h, &id);
    assert_int_equal(job->retry_count, 0);
    renderq_job_free(job);
}

static void completed_without_a_time_is_stamped_first(void **state)
{
    suite *s = *state;
    renderq_id id = foreign_put(s, 0);
    set_text(s, &id, "Status", "Completed");
    int64_t deleted = -1, before = s->ops->now_ms(s->e);
    expect_ok(s->h, renderq_purge(s->h, NULL, 60, &deleted));
    assert_int_equal(deleted, 0);
    assert_in_range(number_of(s, &id, "CompletedAtUtc"), before, s->ops->now_ms(s->e));
    shift(s, &id, "CompletedAtUtc", -61000);
    expect_ok(s->h, renderq_purge(s->h, NULL, 60, &deleted));
    assert_int_equal(deleted, 1);
    assert_int_equal(count_rows(s), 0);
}

/* ---- their table ---- */

static void their_table_becomes_a_queue(void **state)
{
    suite *s = *state;
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    s->ops->make_foreign(s->e);
    renderq_id id = foreign_put(s, 2), second = foreign_put(s, 1), third = foreign_put(s, 0), none;
    s->h = suite_open(s, "node-1", NULL);
    expect(s->h, RENDERQ_SCHEMA, renderq_stats(s->h, NULL, &counts));
    expect(s->h, RENDERQ_SCHEMA, renderq_reap(s->h, NULL, NULL));
    expect_ok(s->h, renderq_create(s->h, NULL));
    expect_ok(s->h, renderq_create(s->h, NULL));
    assert_int_equal(count_rows(s), 3);

    /* RetryCount may be NULL there, and is: it counts as 0. */
    expect_null(s, &id, "RetryCount");
    renderq_job *job = take_this(s->h, &id);
    assert_int_equal(job->retry_count, 0);
    assert_int_equal(job->max_retries, RENDERQ_RETRIES_DEFAULT);
    expect_ok(s->h, renderq_fail(s->h, job, "once", 60000));
    expect_number(s, &id, "RetryCount", 1);
    expect_status(s, &id, "Scheduled");
    renderq_job_free(job);

    assert_true(s->ops->claim(s->e, "csharp", &none));
    same_id(&none, &second);
    set_number(s, &second, "LockedAtUtc", s->ops->now_ms(s->e) - 600001);
    expect_ok(s->h, renderq_reap(s->h, NULL, NULL));
    expect_number(s, &second, "RetryCount", 1);
    expect_status(s, &second, "Scheduled");

    job = take_this(s->h, &third);
    expect_ok(s->h, renderq_release(s->h, job, 60000));
    expect_null(s, &third, "RetryCount");
    expect_ok(s->h, renderq_cancel(s->h, NULL, &third));
    expect_ok(s->h, renderq_retry(s->h, NULL, &third, NULL));
    expect_number(s, &third, "RetryCount", 0);
    renderq_job_free(job);
    put(s, "ours");
    foreign_put(s, 0);
    assert_int_equal(count_rows(s), 5);
}

static void retry_count_null_where_the_table_allows_it(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "intro");
    if (!set_null(s, &id, "RetryCount"))
        return;                         /* a table of ours has NOT NULL; theirs is tested above */
    renderq_job *job = take_this(s->h, &id);
    expect_ok(s->h, renderq_fail(s->h, job, NULL, 0));
    expect_number(s, &id, "RetryCount", 1);
    renderq_job_free(job);
}

int run_foreign(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(their_jobs_are_ours_to_do),
        TEST(our_jobs_are_theirs_to_do),
        TEST(their_lease_lasts_ten_minutes),
        TEST(their_crashes_end_in_the_dead_letters),
        TEST(what_they_ended_can_be_retried_and_purged),
        TEST(their_dead_letters_have_no_time_of_their_end),
        TEST(completed_without_a_time_is_stamped_first),
        TEST_BARE(their_table_becomes_a_queue),
        TEST(retry_count_null_where_the_table_allows_it),
    };
    return cmocka_run_group_tests_name("foreign", tests, NULL, NULL);
}
