/* start.c: rule 4, jobs claimed ahead of their turn: unstarted they do not count, and start_many starts them or
 * hands them to somebody else. What a lease that runs out does to them is in heal.c. */
#include <string.h>

#include "faulty.h"

static renderq_job *take_unstarted(suite *s, const char *composition_id)
{
    renderq_id id = put(s, composition_id);
    renderq_job *job = take_for(s->h, NULL, 100, true);
    same_id(&job->id, &id);
    return job;
}

static void unstarted_is_leased_but_not_started(void **state)
{
    suite *s = *state;
    renderq_job *job = take_unstarted(s, "intro");
    assert_int_equal(job->started_at_ms, 0);
    assert_int_equal(job->state, RENDERQ_PROCESSING);
    expect_null(s, &job->id, "StartedAtUtc");
    expect_text(s, &job->id, "LeaseToken", job->lease.text);
    expect_number(s, &job->id, "LeasedAtUtc", number_of(s, &job->id, "LockedAtUtc"));
    renderq_job_free(job);
}

/* Only those wait for their start that a failure would hurt. */
static void a_cautious_claim_starts_the_rest(void **state)
{
    suite *s = *state;
    renderq_new_job once = RENDERQ_INIT(renderq_new_job);
    renderq_job *jobs[3];
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    size_t n = 0;
    once.composition_id = "once";
    once.payload_json = "{}";
    once.max_retries = RENDERQ_NO_RETRY;
    renderq_id fresh = put(s, "fresh"), failed = put(s, "failed"), last = put_job(s, &once);
    set_number(s, &failed, "RetryCount", 1);
    options.unstarted = RENDERQ_CAUTIOUS;
    for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
        if (one_by_one)
            for (size_t i = 0; i < 3; i++)
                expect_ok(s->h, renderq_claim(s->h, &options, &jobs[i]));
        else
            expect_ok(s->h, renderq_claim_many(s->h, &options, jobs, 3, &n));
        same_id(&jobs[0]->id, &fresh);
        same_id(&jobs[1]->id, &failed);
        same_id(&jobs[2]->id, &last);
        assert_true(jobs[0]->started_at_ms > 0);
        assert_int_equal(jobs[1]->started_at_ms, 0);
        assert_int_equal(jobs[2]->started_at_ms, 0);
        expect_set(s, &fresh, "StartedAtUtc");
        expect_null(s, &failed, "StartedAtUtc");
        expect_null(s, &last, "StartedAtUtc");
        for (size_t i = 0; i < 3; i++) {
            expect_ok(s->h, renderq_release(s->h, jobs[i], 0));
            renderq_job_free(jobs[i]);
        }
    }
}

/* Finishing what was never started would hide a crash before the start. */
static void unstarted_cannot_be_finished(void **state)
{
    suite *s = *state;
    renderq_job *job = take_unstarted(s, "intro");
    renderq_result result = RENDERQ_INIT(renderq_result);
    result.job = job;
    char *before = snapshot(s, &job->id);
    expect_invalid(s->h, "start", renderq_complete(s->h, job, NULL));
    expect_invalid(s->h, "start", renderq_complete_many(s->h, &result, 1));
    expect_invalid(s->h, "start", renderq_fail(s->h, job, NULL, 0));
    expect_unchanged(s, &job->id, before);

    renderq_job *copy = resume(s->h, job);
    assert_int_equal(copy->started_at_ms, 0);
    expect_invalid(s->h, "start", renderq_complete(s->h, copy, NULL));
    renderq_job_free(copy);

    expect_ok(s->h, renderq_renew(s->h, job, NULL));
    expect_null(s, &job->id, "StartedAtUtc");
    assert_int_equal(job->started_at_ms, 0);
    expect_ok(s->h, renderq_release(s->h, job, 0));
    expect_status(s, &job->id, "Queued");
    expect_number(s, &job->id, "RetryCount", 0);
    renderq_job_free(job);
}

static void start_marks_and_begins_anew(void **state)
{
    suite *s = *state;
    renderq_job *job = take_unstarted(s, "intro");
    renderq_id lease = job->lease;
    renderq_status each = RENDERQ_FAILED;
    shift(s, &job->id, "LockedAtUtc", -60000);
    shift(s, &job->id, "LeasedAtUtc", -60000);
    int64_t before = s->ops->now_ms(s->e);
    expect_ok(s->h, renderq_start_many(s->h, &job, 1, NULL, 0, &each));
    int64_t after = s->ops->now_ms(s->e), locked = number_of(s, &job->id, "LockedAtUtc");
    assert_int_equal(each, RENDERQ_OK);
    assert_in_range(number_of(s, &job->id, "StartedAtUtc"), before, after);
    assert_in_range(locked, before, after + 999);
    assert_int_equal(locked % 1000, 0);
    expect_number(s, &job->id, "LeasedAtUtc", locked);
    expect_number(s, &job->id, "LeaseSeconds", 100);
    expect_text(s, &job->id, "WorkerNodeId", "node-1");
    expect_text(s, &job->id, "LeaseToken", lease.text);
    same_id(&job->lease, &lease);
    assert_int_equal(job->locked_at_ms, locked);
    assert_int_equal(job->started_at_ms, number_of(s, &job->id, "StartedAtUtc"));
    assert_in_range(job->lease_left_ms, 50000, 100000);
    expect_ok(s->h, renderq_complete(s->h, job, NULL));
    expect_status(s, &job->id, "Completed");
    renderq_job_free(job);
}

static void start_with_other_seconds(void **state)
{
    suite *s = *state;
    renderq_job *job = take_unstarted(s, "intro");
    expect_ok(s->h, renderq_start_many(s->h, &job, 1, NULL, 30, NULL));
    expect_number(s, &job->id, "LeaseSeconds", 30);
    assert_in_range(job->lease_left_ms, 5000, 30000);
    expect_ok(s->h, renderq_renew(s->h, job, NULL));
    assert_in_range(job->lease_left_ms, 5000, 30000);
    renderq_job_free(job);
}

static void started_once(void **state)
{
    suite *s = *state;
    renderq_job *job = take_unstarted(s, "intro");
    expect_ok(s->h, renderq_start_many(s->h, &job, 1, NULL, 0, NULL));
    shift(s, &job->id, "StartedAtUtc", -5000);
    int64_t started = number_of(s, &job->id, "StartedAtUtc");
    expect_ok(s->h, renderq_start_many(s->h, &job, 1, NULL, 0, NULL));
    expect_number(s, &job->id, "StartedAtUtc", started);
    assert_int_equal(job->started_at_ms, started);
    renderq_job_free(job);
}

static void a_hand_out_changes_the_owner(void **state)
{
    suite *s = *state;
    renderq_job *job = take_unstarted(s, "intro");
    renderq_job *old = resume(s->h, job);
    renderq_status each = RENDERQ_FAILED;
    int64_t before = s->ops->now_ms(s->e);
    expect_ok(s->h, renderq_start_many(s->h, &job, 1, "machine-7", 200, &each));
    assert_int_equal(each, RENDERQ_OK);
    assert_string_not_equal(job->lease.text, old->lease.text);
    assert_string_equal(job->worker, "machine-7");
    expect_text(s, &job->id, "WorkerNodeId", "machine-7");
    expect_text(s, &job->id, "LeaseToken", job->lease.text);
    expect_number(s, &job->id, "LeaseSeconds", 200);
    assert_in_range(number_of(s, &job->id, "StartedAtUtc"), before, s->ops->now_ms(s->e));
    expect_number(s, &job->id, "LeasedAtUtc", number_of(s, &job->id, "LockedAtUtc"));
    assert_in_range(job->lease_left_ms, 120000, 200000);

    old->started_at_ms = job->started_at_ms;
    char *row = snapshot(s, &job->id);
    expect(s->h, RENDERQ_LOST, renderq_complete(s->h, old, "old"));
    expect(s->h, RENDERQ_LOST, renderq_renew(s->h, old, "old"));
    expect(s->h, RENDERQ_LOST, renderq_fail(s->h, old, "old", 0));
    expect(s->h, RENDERQ_LOST, renderq_release(s->h, old, 0));
    expect(s->h, RENDERQ_LOST, renderq_start_many(s->h, &old, 1, NULL, 0, NULL));
    expect_unchanged(s, &job->id, row);

    /* Again, to a third one: the name that the job carries is replaced. */
    expect_ok(s->h, renderq_start_many(s->h, &job, 1, "machine-8", 0, NULL));
    assert_string_equal(job->worker, "machine-8");
    expect_number(s, &job->id, "LeaseSeconds", 200);
    expect_ok(s->h, renderq_complete(s->h, job, "new"));
    expect_text(s, &job->id, "OutputUrl", "new");
    renderq_job_free(old);
    renderq_job_free(job);
}

static void a_hand_out_gives_each_its_own_token(void **state)
{
    suite *s = *state;
    renderq_job *jobs[5];
    renderq_status each[5];
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    size_t n = 0;
    for (int i = 0; i < 5; i++)
        put(s, "intro");
    options.unstarted = 1;
    expect_ok(s->h, renderq_claim_many(s->h, &options, jobs, 5, &n));
    assert_int_equal(n, 5);
    for (int i = 1; i < 5; i++)
        same_id(&jobs[i]->lease, &jobs[0]->lease);
    expect_ok(s->h, renderq_start_many(s->h, jobs, 5, "machine-7", 0, each));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(each[i], RENDERQ_OK);
        expect_text(s, &jobs[i]->id, "LeaseToken", jobs[i]->lease.text);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(jobs[i]->lease.text, jobs[j]->lease.text);
    }
    for (int i = 0; i < 5; i++)
        renderq_job_free(jobs[i]);
}

static void each_to_its_own_worker(void **state)
{
    suite *s = *state;
    static const char *const names[] = { "machine-1", "machine-2", "machine-3" };
    renderq_handout handouts[3];
    for (int i = 0; i < 3; i++) {
        handouts[i] = (renderq_handout)RENDERQ_INIT(renderq_handout);
        handouts[i].job = take_unstarted(s, "intro");
        handouts[i].worker = names[i];
        handouts[i].status = RENDERQ_FAILED;
    }
    expect_ok(s->h, renderq_cancel(s->h, NULL, &handouts[1].job->id));
    char *before = snapshot(s, &handouts[1].job->id);
    expect(s->h, RENDERQ_LOST, renderq_hand_out(s->h, handouts, 3, 200));
    expect_said(s->h, handouts[1].job->id.text);
    assert_int_equal(handouts[1].status, RENDERQ_LOST);
    assert_string_equal(handouts[1].job->worker, "node-1");
    expect_unchanged(s, &handouts[1].job->id, before);
    assert_string_not_equal(handouts[0].job->lease.text, handouts[2].job->lease.text);
    for (int i = 0; i < 3; i += 2) {
        assert_int_equal(handouts[i].status, RENDERQ_OK);
        assert_string_equal(handouts[i].job->worker, names[i]);
        expect_text(s, &handouts[i].job->id, "WorkerNodeId", names[i]);
        expect_text(s, &handouts[i].job->id, "LeaseToken", handouts[i].job->lease.text);
        expect_number(s, &handouts[i].job->id, "LeaseSeconds", 200);
        expect_ok(s->h, renderq_complete(s->h, handouts[i].job, NULL));
    }
    for (int i = 0; i < 3; i++)
        renderq_job_free(handouts[i].job);
}

static void hand_outs_that_are_refused(void **state)
{
    suite *s = *state;
    renderq_handout handouts[2] = { RENDERQ_INIT(renderq_handout), RENDERQ_INIT(renderq_handout) };
    handouts[0].job = take_unstarted(s, "intro");
    handouts[0].worker = "machine-1";
    char *before = snapshot_all(s);
    expect_invalid(s->h, "NULL", renderq_hand_out(s->h, NULL, 1, 0));
    expect_ok(s->h, renderq_hand_out(s->h, NULL, 0, 0));
    expect_invalid(s->h, "item 1: worker is NULL", renderq_hand_out(s->h, handouts, 2, 0));
    handouts[1].worker = "machine-2";
    expect_invalid(s->h, "item 1", renderq_hand_out(s->h, handouts, 2, 0));
    assert_int_equal(handouts[0].status, RENDERQ_INVALID);
    handouts[0].worker = "";
    expect_invalid(s->h, "worker", renderq_hand_out(s->h, handouts, 1, 0));
    handouts[0].worker = "machine-1";
    expect_invalid(s->h, "lease_s", renderq_hand_out(s->h, handouts, 1, -1));
    expect_invalid(s->h, "1001", renderq_hand_out(s->h, handouts, 1001, 0));
    handouts[0].size = 0;
    expect_invalid(s->h, "renderq_handout", renderq_hand_out(s->h, handouts, 1, 0));
    assert_int_equal(renderq_hand_out(NULL, handouts, 1, 0), RENDERQ_INVALID);
    expect_all_unchanged(s, before);
    renderq_job_free(handouts[0].job);
}

/* One of them is gone: it alone is LOST and keeps what it carried; the others are started. */
static void some_are_lost(void **state)
{
    suite *s = *state;
    static const char *const takers[] = { NULL, "machine-7" };
    for (size_t t = 0; t < count_of(takers); t++) {
        renderq_job *jobs[3];
        renderq_status each[3] = { RENDERQ_FAILED, RENDERQ_FAILED, RENDERQ_FAILED };
        for (int i = 0; i < 3; i++)
            jobs[i] = take_unstarted(s, "intro");
        renderq_id lease = jobs[1]->lease;
        expect_ok(s->h, renderq_cancel(s->h, NULL, &jobs[1]->id));
        char *before = snapshot(s, &jobs[1]->id);
        expect(s->h, RENDERQ_LOST, renderq_start_many(s->h, jobs, 3, takers[t], 0, each));
        expect_said(s->h, jobs[1]->id.text);
        assert_int_equal(each[0], RENDERQ_OK);
        assert_int_equal(each[1], RENDERQ_LOST);
        assert_int_equal(each[2], RENDERQ_OK);
        same_id(&jobs[1]->lease, &lease);
        assert_string_equal(jobs[1]->worker, "node-1");
        assert_int_equal(jobs[1]->started_at_ms, 0);
        expect_unchanged(s, &jobs[1]->id, before);
        for (int i = 0; i < 3; i += 2) {
            expect_set(s, &jobs[i]->id, "StartedAtUtc");
            expect_text(s, &jobs[i]->id, "LeaseToken", jobs[i]->lease.text);
            expect_ok(s->h, renderq_complete(s->h, jobs[i], NULL));
        }
        for (int i = 0; i < 3; i++)
            renderq_job_free(jobs[i]);
    }
}

/* ---- a hand-out whose reply was lost, and that could not be looked up ---- */

/* Three jobs of which the first two were handed out so; *h has no time to find out by itself. */
static void hand_out_uncertain(suite *s, fault_kind kind, renderq **h, renderq_handout *handouts)
{
    static const char *const names[] = { "machine-1", "machine-2", "machine-3" };
    *h = faulty_open(s, -1);
    for (int i = 0; i < 3; i++) {
        handouts[i] = (renderq_handout)RENDERQ_INIT(renderq_handout);
        handouts[i].job = take_unstarted(s, "intro");
        handouts[i].worker = names[i];
    }
    renderq_id lease = handouts[0].job->lease;
    faulty_arm_one(0, (fault){ .kind = kind });
    expect(*h, RENDERQ_UNCERTAIN, renderq_hand_out(*h, handouts, 2, 200));
    assert_int_equal(handouts[0].status, RENDERQ_UNCERTAIN);
    assert_string_equal(handouts[0].job->worker, "node-1");
    same_id(&handouts[0].job->lease, &lease);
    faulty_flush();
}

static const fault_kind lost_kinds[] = { FAULT_AFTER, FAULT_AFTER_SILENT, FAULT_BEFORE, FAULT_LATER };

static void end_handouts(suite *s, renderq *h, renderq_handout *handouts)
{
    for (int i = 0; i < 3; i++)
        renderq_job_free(handouts[i].job);
    renderq_close(h);
    s->ops->clear(s->e);
}

static void expect_handed_out(suite *s, const renderq_handout *handout)
{
    assert_int_equal(handout->status, RENDERQ_OK);
    assert_string_equal(handout->job->worker, handout->worker);
    expect_text(s, &handout->job->id, "WorkerNodeId", handout->worker);
    expect_text(s, &handout->job->id, "LeaseToken", handout->job->lease.text);
    expect_number(s, &handout->job->id, "LeaseSeconds", 300);
    expect_set(s, &handout->job->id, "StartedAtUtc");
}

/* Asked again the same call tells the truth, also for another worker and beside jobs that it has not seen. */
static void a_lost_hand_out_is_asked_again(void **state)
{
    suite *s = *state;
    for (size_t i = 0; i < count_of(lost_kinds); i++) {
        renderq *h;
        renderq_handout handouts[3];
        hand_out_uncertain(s, lost_kinds[i], &h, handouts);
        handouts[1].worker = "machine-7";
        expect_ok(h, renderq_hand_out(h, handouts, 3, 300));
        for (int j = 0; j < 3; j++) {
            expect_handed_out(s, &handouts[j]);
            expect_ok(h, renderq_complete(h, handouts[j].job, NULL));
            expect_number(s, &handouts[j].job->id, "RetryCount", 0);
        }
        end_handouts(s, h, handouts);
    }
}

/* The repeat's own replies may be lost, too. */
static void a_lost_hand_out_is_lost_again(void **state)
{
    suite *s = *state;
    for (size_t i = 0; i < count_of(lost_kinds); i++)
        for (size_t at = 0; at < 2; at++) {
            renderq *h;
            renderq_handout handouts[3];
            hand_out_uncertain(s, lost_kinds[i], &h, handouts);
            faulty_arm_one(at, (fault){ .kind = FAULT_AFTER_SILENT });
            renderq_status status = renderq_hand_out(h, handouts, 3, 300);
            if (faulty_runs() > at)
                expect(h, RENDERQ_UNCERTAIN, status);
            faulty_disarm();
            expect_ok(h, renderq_hand_out(h, handouts, 3, 300));
            for (int j = 0; j < 3; j++)
                expect_handed_out(s, &handouts[j]);
            end_handouts(s, h, handouts);
        }
}

/* The rows may have been taken since: those that are gone are LOST, and the others are not. */
static void a_lost_hand_out_that_was_cancelled(void **state)
{
    suite *s = *state;
    for (size_t i = 0; i < count_of(lost_kinds); i++) {
        renderq *h;
        renderq_handout handouts[3];
        hand_out_uncertain(s, lost_kinds[i], &h, handouts);
        expect_ok(s->h, renderq_cancel(s->h, NULL, &handouts[0].job->id));
        expect(h, RENDERQ_LOST, renderq_hand_out(h, handouts, 3, 300));
        assert_int_equal(handouts[0].status, RENDERQ_LOST);
        expect_status(s, &handouts[0].job->id, "Cancelled");
        expect_handed_out(s, &handouts[1]);
        expect_handed_out(s, &handouts[2]);
        end_handouts(s, h, handouts);
    }
}

/* Whatever else is done with such jobs finds its row. */
static void a_lost_hand_out_is_taken_back(void **state)
{
    suite *s = *state;
    for (size_t i = 0; i < count_of(lost_kinds); i++) {
        renderq *h;
        renderq_handout handouts[3];
        renderq_job *jobs[3];
        hand_out_uncertain(s, lost_kinds[i], &h, handouts);
        for (int j = 0; j < 3; j++)
            jobs[j] = handouts[j].job;
        expect_ok(h, renderq_renew_many(h, jobs, 3, NULL));
        for (int j = 0; j < 3; j++)
            expect_text(s, &jobs[j]->id, "LeaseToken", jobs[j]->lease.text);
        expect_ok(h, renderq_renew(h, jobs[0], NULL));
        expect_ok(h, renderq_start_many(h, &jobs[0], 1, NULL, 0, NULL));
        expect_text(s, &jobs[0]->id, "LeaseToken", jobs[0]->lease.text);
        expect_ok(h, renderq_fail(h, jobs[0], NULL, RENDERQ_NEVER));
        expect_status(s, &jobs[0]->id, "DeadLetter");
        expect_ok(h, renderq_release(h, jobs[1], 0));
        expect_status(s, &jobs[1]->id, "Queued");
        expect_number(s, &jobs[1]->id, "RetryCount", 0);
        end_handouts(s, h, handouts);

        hand_out_uncertain(s, lost_kinds[i], &h, handouts);
        expect_ok(h, renderq_release(h, handouts[0].job, 0));
        expect_status(s, &handouts[0].job->id, "Queued");
        jobs[1] = handouts[1].job;
        jobs[2] = handouts[2].job;
        expect_ok(h, renderq_start_many(h, &jobs[1], 2, NULL, 0, NULL));
        for (int j = 1; j < 3; j++) {
            expect_text(s, &jobs[j]->id, "LeaseToken", jobs[j]->lease.text);
            expect_ok(h, renderq_complete(h, jobs[j], NULL));
            expect_status(s, &jobs[j]->id, "Completed");
        }
        end_handouts(s, h, handouts);
    }
}

/* A release's own reply is lost: it is looked up by the token that it released. */
static void a_lost_hand_out_is_released_in_vain(void **state)
{
    suite *s = *state;
    for (size_t i = 0; i < count_of(lost_kinds); i++)
        for (size_t at = 0; at < 2; at++) {
            renderq *h;
            renderq_handout handouts[3];
            hand_out_uncertain(s, lost_kinds[i], &h, handouts);
            renderq_close(h);
            h = faulty_open(s, SUITE_RETRY_S);
            faulty_arm_one(at, (fault){ .kind = FAULT_AFTER_SILENT });
            expect_ok(h, renderq_release(h, handouts[0].job, 0));
            expect_status(s, &handouts[0].job->id, "Queued");
            end_handouts(s, h, handouts);
        }
}

int run_start(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(unstarted_is_leased_but_not_started),
        TEST(a_cautious_claim_starts_the_rest),
        TEST(unstarted_cannot_be_finished),
        TEST(start_marks_and_begins_anew),
        TEST(start_with_other_seconds),
        TEST(started_once),
        TEST(a_hand_out_changes_the_owner),
        TEST(a_hand_out_gives_each_its_own_token),
        TEST(some_are_lost),
        TEST(each_to_its_own_worker),
        TEST(hand_outs_that_are_refused),
        TEST(a_lost_hand_out_is_asked_again),
        TEST(a_lost_hand_out_is_lost_again),
        TEST(a_lost_hand_out_that_was_cancelled),
        TEST(a_lost_hand_out_is_taken_back),
        TEST(a_lost_hand_out_is_released_in_vain),
    };
    return cmocka_run_group_tests_name("start", tests, NULL, NULL);
}
