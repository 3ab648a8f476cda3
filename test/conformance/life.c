/* life.c: the states of a job and the ways between them, as DESIGN's picture has them, and what a job carries. */
#include "suite.h"

#include <string.h>

static void enqueue_claim_complete(void **state)
{
    suite *s = *state;
    int64_t before = s->ops->now_ms(s->e);
    renderq_id id = put(s, "intro");
    expect_status(s, &id, "Queued");
    expect_text(s, &id, "CompositionId", "intro");
    expect_text(s, &id, "PayloadJson", "{}");
    expect_number(s, &id, "Priority", 0);
    expect_number(s, &id, "RetryCount", 0);
    assert_in_range(number_of(s, &id, "CreatedAtUtc"), before, s->ops->now_ms(s->e));
    expect_nulls(s, &id, "WorkerNodeId", "LockedAtUtc", "CompletedAtUtc", "OutputUrl", "LastErrorMessage",
                 "StartedAtUtc", "DueAtUtc", "EndedAtUtc", "LeasedAtUtc", "MaxRetries", "LeaseToken",
                 "LeaseSeconds", "DedupKey", "Progress");

    renderq_job *job = take_this(s->h, &id);
    expect_status(s, &id, "Processing");
    expect_text(s, &id, "WorkerNodeId", "node-1");
    expect_nulls(s, &id, "CompletedAtUtc", "EndedAtUtc", "DueAtUtc");

    before = s->ops->now_ms(s->e);
    expect_ok(s->h, renderq_complete(s->h, job, "file:///out.mp4"));
    expect_status(s, &id, "Completed");
    expect_text(s, &id, "OutputUrl", "file:///out.mp4");
    assert_in_range(number_of(s, &id, "CompletedAtUtc"), before, s->ops->now_ms(s->e));
    expect_number(s, &id, "RetryCount", 0);
    renderq_job_free(job);
    take_none(s->h);
}

static void a_job_carries_its_row(void **state)
{
    suite *s = *state;
    renderq_new_job new_job = RENDERQ_INIT(renderq_new_job);
    new_job.composition_id = "intro " UMLAUT;
    new_job.payload_json = "{\"title\":\"" EMOJI "\"}";
    new_job.output_url = "file:///expected.mp4";
    new_job.dedup_key = "order-7";
    new_job.priority = -3;
    new_job.max_retries = 9;
    renderq_id id = put_job(s, &new_job);

    renderq_job *job = get(s, &id);
    assert_int_equal(job->state, RENDERQ_QUEUED);
    assert_null(job->worker);
    assert_null(job->last_error);
    assert_null(job->progress);
    assert_int_equal(job->locked_at_ms, 0);
    assert_int_equal(job->started_at_ms, 0);
    assert_int_equal(job->due_at_ms, 0);
    assert_int_equal(job->ended_at_ms, 0);
    assert_int_equal(job->lease_left_ms, 0);
    renderq_job_free(job);

    job = take(s->h);
    same_id(&job->id, &id);
    assert_int_equal(strlen(job->lease.text), 36);
    assert_string_equal(job->queue, s->queue);
    assert_string_equal(job->composition_id, new_job.composition_id);
    assert_string_equal(job->payload_json, new_job.payload_json);
    assert_int_equal(job->payload_len, strlen(new_job.payload_json));
    assert_string_equal(job->output_url, new_job.output_url);
    assert_string_equal(job->dedup_key, "order-7");
    assert_string_equal(job->worker, "node-1");
    assert_null(job->last_error);
    assert_null(job->progress);
    assert_int_equal(job->state, RENDERQ_PROCESSING);
    assert_int_equal(job->priority, -3);
    assert_int_equal(job->retry_count, 0);
    assert_int_equal(job->max_retries, 9);
    assert_int_equal(job->created_at_ms, number_of(s, &id, "CreatedAtUtc"));
    assert_int_equal(job->locked_at_ms, number_of(s, &id, "LockedAtUtc"));
    assert_int_equal(job->started_at_ms, number_of(s, &id, "StartedAtUtc"));
    assert_int_equal(job->due_at_ms, 0);
    assert_int_equal(job->ended_at_ms, 0);

    expect_ok(s->h, renderq_renew(s->h, job, "half"));
    expect_ok(s->h, renderq_fail(s->h, job, "broke", 0));
    renderq_job_free(job);
    job = take(s->h);
    assert_int_equal(job->retry_count, 1);
    assert_string_equal(job->last_error, "broke");
    expect_ok(s->h, renderq_complete(s->h, job, NULL));
    renderq_job_free(job);
    job = get(s, &id);
    assert_int_equal(job->state, RENDERQ_COMPLETED);
    assert_int_equal(job->ended_at_ms, number_of(s, &id, "CompletedAtUtc"));
    assert_string_equal(job->output_url, "file:///expected.mp4");
    renderq_job_free(job);
}

static void delayed_until_due(void **state)
{
    suite *s = *state;
    renderq_new_job new_job = RENDERQ_INIT(renderq_new_job);
    new_job.composition_id = "later";
    new_job.payload_json = "{}";
    new_job.delay_ms = 60000;
    renderq_id id = put_job(s, &new_job);
    expect_status(s, &id, "Scheduled");
    expect_number(s, &id, "DueAtUtc", number_of(s, &id, "CreatedAtUtc") + 60000);
    take_none(s->h);
    expect_status(s, &id, "Scheduled");

    set_number(s, &id, "DueAtUtc", s->ops->now_ms(s->e) + 40000);
    take_none(s->h);
    make_due(s, &id);
    renderq_job *job = take_this(s->h, &id);
    expect_null(s, &id, "DueAtUtc");
    assert_int_equal(job->due_at_ms, 0);
    assert_int_equal(job->retry_count, 0);
    renderq_job_free(job);
}

/* What is due is queued in one go, and then taken by priority, not by the time it was due. */
static void due_jobs_are_promoted_together(void **state)
{
    suite *s = *state;
    renderq_new_job new_job = RENDERQ_INIT(renderq_new_job);
    renderq_id ids[3];
    new_job.composition_id = "later";
    new_job.payload_json = "{}";
    new_job.delay_ms = 60000;
    for (int i = 0; i < 3; i++) {
        new_job.priority = i;
        ids[i] = put_job(s, &new_job);
    }
    make_due(s, &ids[0]);
    make_due(s, &ids[1]);
    renderq_job *job = take_this(s->h, &ids[1]);
    renderq_job_free(job);
    expect_status(s, &ids[0], "Queued");
    expect_null(s, &ids[0], "DueAtUtc");
    expect_status(s, &ids[2], "Scheduled");
    expect_set(s, &ids[2], "DueAtUtc");
}

/* A repeat after a lost reply may find the job promoted already, so the token stays. */
static void promotion_leaves_the_token(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro");
    renderq_id first = job->id;
    expect_ok(s->h, renderq_fail(s->h, job, NULL, 60000));
    expect_status(s, &first, "Scheduled");
    make_due(s, &first);
    renderq_new_job urgent = RENDERQ_INIT(renderq_new_job);
    urgent.composition_id = "urgent";
    urgent.payload_json = "{}";
    urgent.priority = 1;
    renderq_id other = put_job(s, &urgent);
    renderq_job_free(take_this(s->h, &other));
    expect_status(s, &first, "Queued");
    expect_text(s, &first, "LeaseToken", job->lease.text);
    renderq_job_free(job);
}

static void back_to_the_queue(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro");
    renderq_id id = job->id;
    expect_ok(s->h, renderq_fail(s->h, job, "once", 0));
    expect_status(s, &id, "Queued");
    renderq_job_free(job);

    job = take_this(s->h, &id);
    expect_ok(s->h, renderq_release(s->h, job, 0));
    expect_status(s, &id, "Queued");
    renderq_job_free(job);

    job = take_this(s->h, &id);
    int64_t before = s->ops->now_ms(s->e);
    expect_ok(s->h, renderq_release(s->h, job, 60000));
    expect_status(s, &id, "Scheduled");
    assert_in_range(number_of(s, &id, "DueAtUtc"), before + 60000, s->ops->now_ms(s->e) + 60000);
    renderq_job_free(job);
    make_due(s, &id);

    job = take_this(s->h, &id);
    assert_int_equal(job->retry_count, 1);
    before = s->ops->now_ms(s->e);
    expect_ok(s->h, renderq_fail(s->h, job, "twice", 60000));
    expect_status(s, &id, "Scheduled");
    assert_in_range(number_of(s, &id, "DueAtUtc"), before + 60000, s->ops->now_ms(s->e) + 60000);
    renderq_job_free(job);
}

static void dead_and_back(void **state)
{
    suite *s = *state;
    static const renderq_state ended[] = { RENDERQ_DEAD_LETTER, RENDERQ_CANCELLED, RENDERQ_COMPLETED };
    for (size_t i = 0; i < count_of(ended); i++) {
        renderq_id id = put_in_state(s, ended[i]);
        take_none(s->h);
        expect_set(s, &id, ended[i] == RENDERQ_COMPLETED ? "CompletedAtUtc" : "EndedAtUtc");
        expect_ok(s->h, renderq_retry(s->h, NULL, &id, NULL));
        renderq_job *job = take_this(s->h, &id);
        assert_int_equal(job->retry_count, 0);
        expect_ok(s->h, renderq_complete(s->h, job, NULL));
        expect_status(s, &id, "Completed");
        expect_set(s, &id, "CompletedAtUtc");
        expect_null(s, &id, "EndedAtUtc");
        renderq_job_free(job);
    }
}

/* A Status that we do not know is left alone by everything that hands out or ends jobs. */
static void an_unknown_status_is_other(void **state)
{
    suite *s = *state;
    renderq_id id = put_in_state(s, RENDERQ_OTHER);
    char *before = snapshot(s, &id);
    take_none(s->h);
    expect_ok(s->h, renderq_reap(s->h, NULL, NULL));
    expect_ok(s->h, renderq_retry_dead(s->h, NULL, NULL));
    expect_ok(s->h, renderq_purge(s->h, NULL, 60, NULL));
    expect(s->h, RENDERQ_LOST, renderq_cancel(s->h, NULL, &id));
    expect(s->h, RENDERQ_LOST, renderq_retry(s->h, NULL, &id, NULL));
    renderq_job *job = get(s, &id);
    assert_int_equal(job->state, RENDERQ_OTHER);
    renderq_job_free(job);
    expect_unchanged(s, &id, before);
    assert_string_equal(renderq_strstate(RENDERQ_OTHER), "Other");
}

int run_life(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(enqueue_claim_complete),
        TEST(a_job_carries_its_row),
        TEST(delayed_until_due),
        TEST(due_jobs_are_promoted_together),
        TEST(promotion_leaves_the_token),
        TEST(back_to_the_queue),
        TEST(dead_and_back),
        TEST(an_unknown_status_is_other),
    };
    return cmocka_run_group_tests_name("life", tests, NULL, NULL);
}
