/* receive.c: a job received with the transaction that it is done in. Lost replies are in aborted.c, the caller's own
 * transaction in attach.c. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>

static renderq_job *receive(renderq *h)
{
    renderq_job *job = NULL;
    expect_ok(h, renderq_receive(h, NULL, &job));
    assert_non_null(job);
    return job;
}

static void receive_nothing(renderq *h)
{
    renderq_job *job = (renderq_job *)(void *)h;
    expect(h, RENDERQ_EMPTY, renderq_receive(h, NULL, &job));
    assert_null(job);
    expect_invalid(h, "renderq_begin", renderq_commit(h));          /* no transaction is open */
}

static void committed_it_is_completed(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "message");
    renderq_job *job = receive(s->h);
    same_id(&job->id, &id);
    assert_string_equal(job->composition_id, "message");
    assert_string_equal(job->worker, "node-1");
    assert_int_equal(job->state, RENDERQ_PROCESSING);
    assert_true(job->lease_left_ms > 500000);
    expect_ok(s->h, renderq_commit(s->h));
    expect_status(s, &id, "Completed");
    expect_set(s, &id, "CompletedAtUtc");
    expect_number(s, &id, "RetryCount", 0);
    expect_null(s, &id, "LeasedAtUtc");
    receive_nothing(s->h);
    renderq_job_free(job);
}

static void rolled_back_its_lease_still_stands(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "message");
    renderq_job *job = receive(s->h);
    expect_ok(s->h, renderq_rollback(s->h));
    expect_status(s, &id, "Processing");
    receive_nothing(s->h);                                          /* it is not back yet */
    expect_ok(s->h, renderq_renew(s->h, job, NULL));
    expect_ok(s->h, renderq_fail(s->h, job, "why", 60000));
    expect_status(s, &id, "Scheduled");
    expect_number(s, &id, "RetryCount", 1);
    expect_text(s, &id, "LastErrorMessage", "why");
    renderq_job_free(job);

    make_due(s, &id);
    job = receive(s->h);
    assert_int_equal(job->retry_count, 1);
    expect_ok(s->h, renderq_rollback(s->h));
    expect_ok(s->h, renderq_release(s->h, job, 0));
    expect_status(s, &id, "Queued");
    expect_number(s, &id, "RetryCount", 1);                         /* uncounted */
    renderq_job_free(job);
}

static void attempts_end_in_a_dead_letter(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "poison"), neighbour = put(s, "neighbour");
    for (int i = 0; i < 4; i++) {
        renderq_job *job = receive(s->h);
        same_id(&job->id, &id);
        assert_int_equal(job->retry_count, i);
        expect_ok(s->h, renderq_rollback(s->h));
        expect_ok(s->h, renderq_fail(s->h, job, "again", 0));
        renderq_job_free(job);
    }
    expect_status(s, &id, "DeadLetter");
    expect_status(s, &neighbour, "Queued");
    expect_number(s, &neighbour, "RetryCount", 0);
}

/* A process that dies leaves a lease that runs out. */
static void a_death_in_the_handler_counts(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "deadly");
    for (int i = 1; i <= 4; i++) {
        renderq *h = suite_open(s, "node-2", NULL);
        renderq_job_free(receive(h));
        renderq_close(h);                                           /* to the server, the same */
        expect_status(s, &id, "Processing");
        run_out(s, &id, 5000);
        expect_ok(s->h, renderq_reap(s->h, NULL, NULL));
        expect_number(s, &id, "RetryCount", i);
        if (i < 4)
            make_due(s, &id);
    }
    expect_status(s, &id, "DeadLetter");
}

static void everything_happens_or_nothing(void **state)
{
    suite *s = *state;
    char own[100], out[100];
    snprintf(out, sizeof out, "%s_out", s->queue);
    expect_ok(s->h, renderq_create(s->h, out));
    own_table(s, own, sizeof own);
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    renderq_id id = put(s, "message");
    for (int commit = 0; commit < 2; commit++) {
        renderq_new_job next = RENDERQ_INIT(renderq_new_job);
        next.queue = out;
        next.composition_id = "follow-up";
        next.payload_json = "{}";
        renderq_job *job = receive(s->h);
        own_put(s, renderq_native(s->h), own, "effect");
        expect_ok(s->h, renderq_enqueue(s->h, &next, NULL));
        if (commit) {
            expect_ok(s->h, renderq_commit(s->h));
        } else {
            expect_ok(s->h, renderq_rollback(s->h));
            expect_ok(s->h, renderq_release(s->h, job, 0));
        }
        renderq_job_free(job);
        assert_int_equal(own_rows(s, own), 1 + commit);
        expect_ok(s->h, renderq_stats(s->h, out, &counts));
        assert_int_equal(counts.queued, commit);
        expect_status(s, &id, commit ? "Completed" : "Queued");
    }
    own_drop(s, own);
    own_drop(s, out);
}

static void inside_complete_sets_the_output_url(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "message");
    renderq_job *job = receive(s->h);
    expect_ok(s->h, renderq_complete(s->h, job, NULL));
    expect_ok(s->h, renderq_complete(s->h, job, "first"));
    expect_ok(s->h, renderq_complete(s->h, job, "second"));
    expect_ok(s->h, renderq_complete(s->h, job, NULL));
    expect_ok(s->h, renderq_commit(s->h));
    expect_status(s, &id, "Completed");
    expect_text(s, &id, "OutputUrl", "second");
    expect(s->h, RENDERQ_LOST, renderq_complete(s->h, job, "late"));
    expect_text(s, &id, "OutputUrl", "second");
    renderq_job_free(job);
}

static void other_calls_on_it_are_refused(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "message"), next = put(s, "next");
    renderq_job *job = receive(s->h), *other = NULL;
    renderq_result result = RENDERQ_INIT(renderq_result);
    renderq_status each;
    result.job = job;
    expect_invalid(s->h, "received", renderq_renew(s->h, job, "half"));
    expect_invalid(s->h, "received", renderq_renew_many(s->h, &job, 1, &each));
    expect_invalid(s->h, "received", renderq_start_many(s->h, &job, 1, "node-3", 0, &each));
    expect_invalid(s->h, "received", renderq_fail(s->h, job, "why", 0));
    expect_invalid(s->h, "received", renderq_release(s->h, job, 0));
    expect_invalid(s->h, "received", renderq_complete_many(s->h, &result, 1));
    expect_invalid(s->h, "received", renderq_cancel(s->h, NULL, &job->id));
    expect_invalid(s->h, "received", renderq_settle(s->h, NULL, &job->id, NULL, 0));
    expect_invalid(s->h, "received", renderq_retry(s->h, NULL, &job->id, NULL));
    expect_invalid(s->h, "transaction", renderq_receive(s->h, NULL, &other));
    expect_ok(s->h, renderq_cancel(s->h, NULL, &next));             /* another job's calls join */
    expect_ok(s->h, renderq_commit(s->h));
    expect_status(s, &id, "Completed");
    expect_status(s, &next, "Cancelled");
    renderq_job_free(job);
}

static void what_receive_refuses(void **state)
{
    suite *s = *state;
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_job *job = NULL;
    put(s, "message");
    options.unstarted = 1;
    expect_invalid(s->h, "unstarted", renderq_receive(s->h, &options, &job));
    expect_invalid(s->h, "NULL", renderq_receive(s->h, NULL, NULL));
    options.unstarted = 0;
    options.lease_s = -1;
    expect_invalid(s->h, "lease_s", renderq_receive(s->h, &options, &job));
    assert_int_equal(renderq_receive(NULL, NULL, &job), RENDERQ_INVALID);
    assert_int_equal(count_rows(s), 1);
    renderq_job_free(receive(s->h));
    expect_ok(s->h, renderq_rollback(s->h));
}

static void options_are_a_claims(void **state)
{
    suite *s = *state;
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_job *job = NULL;
    options.worker = "node-7";
    options.lease_s = 900;
    options.wait_ms = 50;
    expect(s->h, RENDERQ_EMPTY, renderq_receive(s->h, &options, &job));
    renderq_id id = put(s, "message");
    expect_ok(s->h, renderq_receive(s->h, &options, &job));
    assert_string_equal(job->worker, "node-7");
    assert_in_range(job->lease_left_ms, 800000, 901000);
    expect_ok(s->h, renderq_rollback(s->h));
    expect_text(s, &id, "WorkerNodeId", "node-7");
    renderq_job_free(job);
}

/* Others skip the message. Where there is one writer, they wait until its transaction ends. */
static void others_skip_it(void **state)
{
    suite *s = *state;
    renderq *other = suite_open(s, "node-2", s->ops->impatient);
    renderq_id first = put(s, "first"), second = put(s, "second");
    renderq_job *job = receive(s->h), *theirs = NULL;
    same_id(&job->id, &first);
    if (s->native->one_writer) {
        expect(other, RENDERQ_BUSY, renderq_claim(other, NULL, &theirs));
        expect(other, RENDERQ_BUSY, renderq_receive(other, NULL, &theirs));
    } else {
        theirs = receive(other);
        same_id(&theirs->id, &second);
        expect_ok(other, renderq_commit(other));
        expect_ok(other, renderq_begin(other));
        expect_ok(other, renderq_rollback(other));
    }
    expect_ok(s->h, renderq_commit(s->h));
    if (s->native->one_writer) {
        theirs = receive(other);
        same_id(&theirs->id, &second);
        expect_ok(other, renderq_commit(other));
    }
    expect_status(s, &first, "Completed");
    expect_status(s, &second, "Completed");
    expect_number(s, &second, "RetryCount", 0);
    renderq_job_free(job);
    renderq_job_free(theirs);
    renderq_close(other);
}

int run_receive(void)
{
    const struct CMUnitTest tests[] = {
        TEST(committed_it_is_completed), TEST(rolled_back_its_lease_still_stands), TEST(attempts_end_in_a_dead_letter),
        TEST(a_death_in_the_handler_counts), TEST(everything_happens_or_nothing),
        TEST(inside_complete_sets_the_output_url), TEST(other_calls_on_it_are_refused), TEST(what_receive_refuses),
        TEST(options_are_a_claims), TEST(others_skip_it),
    };
    return cmocka_run_group_tests_name("receive", tests, NULL, NULL);
}
