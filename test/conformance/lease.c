/* lease.c: rule 1, one owner: what a claim writes, the fence around every later call, what each end of a lease
 * clears; and rule 3, how a lease is counted down. Jobs claimed ahead of their turn are in start.c. */
#include "suite.h"

#include <stdlib.h>
#include <string.h>

/* ---- what is written ---- */

static void expect_lease_written(suite *s, const renderq_id *id, int64_t before, int64_t after)
{
    int64_t at = number_of(s, id, "LockedAtUtc");
    expect_number(s, id, "LeasedAtUtc", at);
    assert_int_equal(at % 1000, 0);
    assert_in_range(at, before, after + 999);
}

static void a_claim_writes_its_lease(void **state)
{
    suite *s = *state;
    static const struct { int given, seconds; } leases[] = { { 0, 600 }, { 1, 1 }, { 90, 90 },
                                                            { RENDERQ_LEASE_MAX_S, RENDERQ_LEASE_MAX_S } };
    for (size_t i = 0; i < count_of(leases); i++) {
        renderq_id id = put(s, "intro");
        int64_t before = s->ops->now_ms(s->e), began = clock_ms();
        renderq_job *job = take_for(s->h, "node-9", leases[i].given, false);
        int64_t after = s->ops->now_ms(s->e), took = clock_ms() - began;
        same_id(&job->id, &id);
        expect_lease_written(s, &id, before, after);
        expect_text(s, &id, "LeaseToken", job->lease.text);
        expect_number(s, &id, "LeaseSeconds", leases[i].seconds);
        expect_text(s, &id, "WorkerNodeId", "node-9");
        assert_in_range(number_of(s, &id, "StartedAtUtc"), before, after);
        assert_true(job->lease_left_ms <= (int64_t)leases[i].seconds * 1000);
        assert_true(job->lease_left_ms >= (int64_t)leases[i].seconds * 1000 - took - 1);
        renderq_job_free(job);
        s->ops->clear(s->e);
    }
}

static void tokens_are_fresh(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro");
    renderq_id first = job->lease;
    expect_ok(s->h, renderq_release(s->h, job, 0));
    renderq_job_free(job);
    job = take(s->h);
    assert_string_not_equal(job->lease.text, first.text);
    renderq_job_free(job);
}

static void a_claim_forgets_the_progress(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro");
    expect_ok(s->h, renderq_renew(s->h, job, "half"));
    expect_ok(s->h, renderq_release(s->h, job, 0));
    renderq_job_free(job);
    job = take(s->h);
    assert_null(job->progress);
    expect_null(s, &job->id, "Progress");
    renderq_job_free(job);
}

static void renew_moves_both_times(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "intro");
    renderq_job *job = take_for(s->h, NULL, 100, false);
    int64_t started = number_of(s, &id, "StartedAtUtc");
    shift(s, &id, "LockedAtUtc", -50000);
    shift(s, &id, "LeasedAtUtc", -50000);
    job->lease_left_ms = 0;
    int64_t before = s->ops->now_ms(s->e);
    expect_ok(s->h, renderq_renew(s->h, job, "frame 7 " EMOJI));
    expect_lease_written(s, &id, before, s->ops->now_ms(s->e));
    expect_text(s, &id, "Progress", "frame 7 " EMOJI);
    expect_number(s, &id, "LeaseSeconds", 100);
    expect_number(s, &id, "StartedAtUtc", started);
    expect_text(s, &id, "LeaseToken", job->lease.text);
    assert_int_equal(job->locked_at_ms, number_of(s, &id, "LockedAtUtc"));
    assert_in_range(job->lease_left_ms, 50000, 100000);

    expect_ok(s->h, renderq_renew(s->h, job, NULL));
    expect_text(s, &id, "Progress", "frame 7 " EMOJI);
    expect_ok(s->h, renderq_renew(s->h, job, ""));
    expect_text(s, &id, "Progress", "");
    renderq_job_free(job);
}

/* ---- what each end clears ---- */

#define LEASE_COLUMNS "StartedAtUtc", "LeaseSeconds", "WorkerNodeId", "LockedAtUtc"

static void complete_keeps_who_did_it(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro");
    expect_ok(s->h, renderq_complete(s->h, job, NULL));
    expect_null(s, &job->id, "LeasedAtUtc");
    expect_text(s, &job->id, "LeaseToken", job->lease.text);
    expect_text(s, &job->id, "WorkerNodeId", "node-1");
    expect_number(s, &job->id, "LeaseSeconds", 600);
    expect_set(s, &job->id, "StartedAtUtc");
    expect_set(s, &job->id, "LockedAtUtc");
    renderq_job_free(job);
}

static renderq_status end_fail(renderq *h, const renderq_job *job)
{
    return renderq_fail(h, job, "broke", 0);
}

static renderq_status end_fail_later(renderq *h, const renderq_job *job)
{
    return renderq_fail(h, job, "broke", 60000);
}

static renderq_status end_dead(renderq *h, const renderq_job *job)
{
    return renderq_fail(h, job, "broke", RENDERQ_NEVER);
}

static renderq_status end_release(renderq *h, const renderq_job *job)
{
    return renderq_release(h, job, 0);
}

static renderq_status end_release_later(renderq *h, const renderq_job *job)
{
    return renderq_release(h, job, 60000);
}

static renderq_status end_reap(renderq *h, const renderq_job *job)
{
    (void)job;
    return renderq_reap(h, NULL, NULL);
}

static renderq_status end_cancel(renderq *h, const renderq_job *job)
{
    return renderq_cancel(h, NULL, &job->id);
}

static renderq_status end_settle(renderq *h, const renderq_job *job)
{
    return renderq_settle(h, NULL, &job->id, NULL, 0);
}

static renderq_status end_retry(renderq *h, const renderq_job *job)
{
    renderq_status status = renderq_complete(h, job, NULL);
    return status == RENDERQ_OK ? renderq_retry(h, NULL, &job->id, NULL) : status;
}

static const struct {
    renderq_status (*end)(renderq *h, const renderq_job *job);
    const char *status;
    bool keeps_token;
} ends[] = {
    { end_fail, "Queued", true },
    { end_fail_later, "Scheduled", true },
    { end_dead, "DeadLetter", true },
    { end_release, "Queued", true },
    { end_release_later, "Scheduled", true },
    { end_reap, "Scheduled", false },
    { end_cancel, "Cancelled", false },
    { end_settle, "Completed", false },
    { end_retry, "Queued", false },
};

static void each_end_clears_the_lease(void **state)
{
    suite *s = *state;
    for (size_t i = 0; i < count_of(ends); i++) {
        renderq_job *job = put_and_take(s, "intro");
        if (ends[i].end == end_reap)
            run_out(s, &job->id, 0);
        expect_ok(s->h, ends[i].end(s->h, job));
        expect_status(s, &job->id, ends[i].status);
        expect_nulls(s, &job->id, "LeasedAtUtc", LEASE_COLUMNS);
        if (ends[i].keeps_token)
            expect_text(s, &job->id, "LeaseToken", job->lease.text);
        else
            expect_null(s, &job->id, "LeaseToken");
        renderq_job_free(job);
        s->ops->clear(s->e);
    }
}

/* ---- the fence ---- */

/* Whatever the owner of a lease can ask, asked with one that is void: LOST, and the row stays as it is. */
static void expect_fenced(suite *s, renderq_job *job)
{
    renderq_job *copy = (renderq_job *)(void *)s;
    renderq_result result = RENDERQ_INIT(renderq_result);
    renderq_status each;
    renderq_id id = job->id, lease = job->lease;
    char *before = snapshot(s, &id);
    result.job = job;
    result.output_url = "mine";

    expect(s->h, RENDERQ_LOST, renderq_renew(s->h, job, "mine"));
    expect(s->h, RENDERQ_LOST, renderq_complete(s->h, job, "mine"));
    expect_said(s->h, job->id.text);
    expect(s->h, RENDERQ_LOST, renderq_fail(s->h, job, "mine", 0));
    expect(s->h, RENDERQ_LOST, renderq_fail(s->h, job, "mine", RENDERQ_NEVER));
    expect(s->h, RENDERQ_LOST, renderq_release(s->h, job, 0));
    each = RENDERQ_OK;
    expect(s->h, RENDERQ_LOST, renderq_renew_many(s->h, &job, 1, &each));
    assert_int_equal(each, RENDERQ_LOST);
    each = RENDERQ_OK;
    expect(s->h, RENDERQ_LOST, renderq_start_many(s->h, &job, 1, NULL, 0, &each));
    assert_int_equal(each, RENDERQ_LOST);
    expect(s->h, RENDERQ_LOST, renderq_start_many(s->h, &job, 1, "mine", 0, &each));
    expect(s->h, RENDERQ_LOST, renderq_complete_many(s->h, &result, 1));
    assert_int_equal(result.status, RENDERQ_LOST);
    expect(s->h, RENDERQ_LOST, renderq_job_resume(s->h, NULL, &job->id, &job->lease, &copy));
    assert_null(copy);
    same_id(&job->id, &id);
    same_id(&job->lease, &lease);
    expect_unchanged(s, &id, before);
}

static void a_void_lease_does_nothing(void **state)
{
    suite *s = *state;
    for (size_t i = 0; i < count_of(ends); i++) {
        renderq_job *job = put_and_take(s, "intro");
        if (ends[i].end == end_reap)
            run_out(s, &job->id, 0);
        expect_ok(s->h, ends[i].end(s->h, job));
        expect_fenced(s, job);
        renderq_job_free(job);
        s->ops->clear(s->e);
    }
}

static void a_second_call_is_lost(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro");
    expect_ok(s->h, renderq_complete(s->h, job, "out"));
    expect(s->h, RENDERQ_LOST, renderq_complete(s->h, job, "again"));
    expect_text(s, &job->id, "OutputUrl", "out");
    renderq_job_free(job);

    job = put_and_take(s, "intro");
    expect_ok(s->h, renderq_fail(s->h, job, "once", 60000));
    expect(s->h, RENDERQ_LOST, renderq_fail(s->h, job, "again", 60000));
    expect_number(s, &job->id, "RetryCount", 1);
    expect_text(s, &job->id, "LastErrorMessage", "once");
    renderq_job_free(job);

    job = put_and_take(s, "intro");
    expect_ok(s->h, renderq_release(s->h, job, 0));
    expect(s->h, RENDERQ_LOST, renderq_release(s->h, job, 0));
    renderq_job_free(job);
}

/* It slept; the lease ran out, was reaped, and somebody else has the job. */
static void a_late_worker_cannot_touch_the_next_ones(void **state)
{
    suite *s = *state;
    renderq *other = suite_open(s, "node-2", NULL);
    renderq_job *job = put_and_take(s, "intro");
    run_out(s, &job->id, 0);
    expect_ok(other, renderq_reap(other, NULL, NULL));
    make_due(s, &job->id);
    renderq_job *theirs = take_this(other, &job->id);
    expect_fenced(s, job);
    expect_text(s, &job->id, "WorkerNodeId", "node-2");
    expect_text(s, &job->id, "LeaseToken", theirs->lease.text);
    expect_ok(other, renderq_complete(other, theirs, "theirs"));
    expect_fenced(s, job);
    expect_text(s, &job->id, "OutputUrl", "theirs");
    renderq_job_free(job);
    renderq_job_free(theirs);
    renderq_close(other);
}

/* A lease that has run out, but which nobody has ended, is still the worker's. */
static void late_but_not_ended_is_still_the_owner(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro");
    run_out(s, &job->id, 3600000);
    expect_ok(s->h, renderq_renew(s->h, job, NULL));
    run_out(s, &job->id, 3600000);
    expect_ok(s->h, renderq_complete(s->h, job, "late"));
    expect_status(s, &job->id, "Completed");
    renderq_job_free(job);
}

static void a_leased_job_is_not_handed_out_again(void **state)
{
    suite *s = *state;
    renderq *other = suite_open(s, "node-2", NULL);
    renderq_job *job = put_and_take(s, "intro");
    take_none(other);
    take_none(s->h);
    expect_text(s, &job->id, "LeaseToken", job->lease.text);
    renderq_job_free(job);
    renderq_close(other);
}

static void a_job_from_get_or_list_holds_no_lease(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro");
    renderq_job *read = get(s, &job->id);
    assert_string_equal(read->lease.text, "");
    assert_int_equal(read->state, RENDERQ_PROCESSING);
    assert_string_equal(read->worker, "node-1");
    assert_int_equal(renderq_lease_left_ms(read), 0);
    assert_in_range(read->lease_left_ms, 500000, 601000);
    char *before = snapshot(s, &job->id);
    renderq_result result = RENDERQ_INIT(renderq_result);
    result.job = read;
    expect_invalid(s->h, "lease", renderq_complete(s->h, read, NULL));
    expect_invalid(s->h, "lease", renderq_renew(s->h, read, NULL));
    expect_invalid(s->h, "lease", renderq_fail(s->h, read, NULL, 0));
    expect_invalid(s->h, "lease", renderq_release(s->h, read, 0));
    expect_invalid(s->h, "lease", renderq_renew_many(s->h, &read, 1, NULL));
    expect_invalid(s->h, "lease", renderq_start_many(s->h, &read, 1, NULL, 0, NULL));
    expect_invalid(s->h, "lease", renderq_complete_many(s->h, &result, 1));
    expect_unchanged(s, &job->id, before);
    renderq_job_free(read);
    renderq_job_free(job);
}

/* ---- another process ---- */

static void resume_brings_the_job_back(void **state)
{
    suite *s = *state;
    renderq_new_job new_job = RENDERQ_INIT(renderq_new_job);
    new_job.composition_id = "intro";
    new_job.payload_json = "{\"a\":1}";
    new_job.dedup_key = "key";
    put_job(s, &new_job);
    renderq_job *job = take_for(s->h, NULL, 1000, false);
    shift(s, &job->id, "LockedAtUtc", -400000);
    shift(s, &job->id, "LeasedAtUtc", -400000);

    renderq *other = suite_open(s, "node-2", NULL);
    char *before = snapshot(s, &job->id);
    renderq_job *copy = resume(other, job);
    expect_unchanged(s, &job->id, before);
    same_id(&copy->id, &job->id);
    same_id(&copy->lease, &job->lease);
    assert_string_equal(copy->queue, s->queue);
    assert_string_equal(copy->payload_json, new_job.payload_json);
    assert_string_equal(copy->worker, "node-1");
    assert_int_equal(copy->started_at_ms, job->started_at_ms);
    assert_in_range(copy->lease_left_ms, 500000, 601000);
    assert_true(renderq_lease_left_ms(copy) <= copy->lease_left_ms);
    assert_true(renderq_lease_left_ms(copy) > 500000);
    expect_ok(other, renderq_renew(other, copy, "resumed"));
    expect_ok(other, renderq_complete(other, copy, "there"));
    expect_status(s, &job->id, "Completed");
    expect(s->h, RENDERQ_LOST, renderq_complete(s->h, job, "here"));
    renderq_job_free(copy);
    renderq_job_free(job);
    renderq_close(other);
}

static void resume_with_another_token_is_lost(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro"), *copy = job;
    renderq_id wrong = { NOBODY };
    expect(s->h, RENDERQ_LOST, renderq_job_resume(s->h, NULL, &job->id, &wrong, &copy));
    assert_null(copy);
    expect(s->h, RENDERQ_LOST, renderq_job_resume(s->h, NULL, &wrong, &job->lease, &copy));
    assert_null(copy);
    renderq_job_free(job);
}

static void a_job_outlives_its_handle(void **state)
{
    suite *s = *state;
    renderq *other = suite_open(s, "node-2", NULL);
    renderq_id id = put(s, "intro");
    renderq_job *job = take(other);
    renderq_close(other);
    same_id(&job->id, &id);
    assert_string_equal(job->composition_id, "intro");
    assert_string_equal(job->worker, "node-2");
    assert_true(renderq_lease_left_ms(job) > 500000);
    expect_status(s, &id, "Processing");            /* closing leaves the lease */
    expect_ok(s->h, renderq_complete(s->h, job, NULL));
    expect_status(s, &id, "Completed");
    renderq_job_free(job);
}

static void the_lease_counts_down(void **state)
{
    suite *s = *state;
    put(s, "intro");
    renderq_job *job = take_for(s->h, NULL, 1, false);
    int64_t left = renderq_lease_left_ms(job);
    assert_in_range(left, 0, 1000);
    sleep_ms(50);
    assert_true(renderq_lease_left_ms(job) <= (left > 50 ? left - 50 : 0));
    assert_int_equal(renderq_lease_left_ms(NULL), 0);
    renderq_job_free(job);
    renderq_job_free(NULL);
}

int run_lease(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(a_claim_writes_its_lease),
        TEST(tokens_are_fresh),
        TEST(a_claim_forgets_the_progress),
        TEST(renew_moves_both_times),
        TEST(complete_keeps_who_did_it),
        TEST(each_end_clears_the_lease),
        TEST(a_void_lease_does_nothing),
        TEST(a_second_call_is_lost),
        TEST(a_late_worker_cannot_touch_the_next_ones),
        TEST(late_but_not_ended_is_still_the_owner),
        TEST(a_leased_job_is_not_handed_out_again),
        TEST(a_job_from_get_or_list_holds_no_lease),
        TEST(resume_brings_the_job_back),
        TEST(resume_with_another_token_is_lost),
        TEST(a_job_outlives_its_handle),
        TEST(the_lease_counts_down),
    };
    return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
