/* aborted.c: transactions that are lost: ended by the server, by SQL of the program's own, by a link that broke; and
 * commits whose reply was lost. A transaction that is gone is never mistaken for one, and no commit is told wrongly. */
#include "faulty.h"

#include <stdio.h>
#include <stdlib.h>

static renderq_status enqueue(renderq *h, renderq_id *id)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.composition_id = "inside";
    job.payload_json = "{}";
    return renderq_enqueue(h, &job, id);
}

/* Every kind of call answers ABORTED and does nothing. */
static void expect_gone(suite *s, renderq *h, renderq_job *held)
{
    renderq_new_job jobs[] = { RENDERQ_INIT(renderq_new_job), RENDERQ_INIT(renderq_new_job) };
    renderq_job *job = NULL;
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    jobs[0].composition_id = jobs[1].composition_id = "inside";
    jobs[0].payload_json = jobs[1].payload_json = "{}";
    char *before = snapshot_all(s);
    expect(h, RENDERQ_ABORTED, enqueue(h, NULL));
    expect(h, RENDERQ_ABORTED, renderq_enqueue_many(h, jobs, 2, NULL));
    expect(h, RENDERQ_ABORTED, renderq_complete(h, held, "out"));
    expect(h, RENDERQ_ABORTED, renderq_fail(h, held, "why", 0));
    expect(h, RENDERQ_ABORTED, renderq_cancel(h, NULL, &held->id));
    expect(h, RENDERQ_ABORTED, renderq_get(h, NULL, &held->id, &job));
    expect(h, RENDERQ_ABORTED, renderq_stats(h, NULL, &counts));
    expect(h, RENDERQ_ABORTED, renderq_claim(h, NULL, &job));
    expect(h, RENDERQ_ABORTED, renderq_receive(h, NULL, &job));
    expect(h, RENDERQ_ABORTED, renderq_begin(h));
    assert_null(job);
    expect_all_unchanged(s, before);
}

/* The end of it: a commit or a rollback, after which the handle works. */
static void expect_end(suite *s, renderq *h, bool commit)
{
    if (commit)
        expect(h, RENDERQ_ABORTED, renderq_commit(h));
    else
        expect_ok(h, renderq_rollback(h));
    expect_invalid(h, "renderq_begin", renderq_commit(h));
    renderq_id id;
    expect_ok(h, renderq_begin(h));
    expect_ok(h, enqueue(h, &id));
    expect_ok(h, renderq_commit(h));
    expect_status(s, &id, "Queued");
    expect_ok(h, renderq_cancel(h, NULL, &id));
}

/* The program's own statement fails, which ends the transaction, and the program takes no notice. */
static void an_ignored_failure(void **state)
{
    suite *s = *state;
    char own[100], deadly[300];
    own_table(s, own, sizeof own);
    snprintf(deadly, sizeof deadly, s->native->deadly, own);
    for (int commit = 0; commit < 2; commit++) {
        renderq_job *held = put_and_take(s, "held");
        size_t rows = count_rows(s);
        expect_ok(s->h, renderq_begin(s->h));
        expect_ok(s->h, enqueue(s->h, NULL));
        own_put(s, renderq_native(s->h), own, "lost");
        assert_false(s->native->run(renderq_native(s->h), deadly));
        expect_gone(s, s->h, held);
        assert_int_equal(count_rows(s), rows);
        expect_end(s, s->h, commit);
        assert_int_equal(own_rows(s, own), 1);
        expect_ok(s->h, renderq_complete(s->h, held, NULL));
        renderq_job_free(held);
    }
    own_drop(s, own);
}

/* Straight to the commit: it must not pass for one. */
static void an_ignored_failure_and_a_commit(void **state)
{
    suite *s = *state;
    char own[100], deadly[300];
    own_table(s, own, sizeof own);
    snprintf(deadly, sizeof deadly, s->native->deadly, own);
    renderq_id id = put(s, "message");
    renderq_job *job = NULL;
    expect_ok(s->h, renderq_receive(s->h, NULL, &job));
    assert_false(s->native->run(renderq_native(s->h), deadly));
    expect(s->h, RENDERQ_ABORTED, renderq_commit(s->h));
    expect_status(s, &id, "Processing");
    expect_ok(s->h, renderq_fail(s->h, job, "why", 0));             /* its lease stands */
    expect_number(s, &id, "RetryCount", 1);
    renderq_job_free(job);
    own_drop(s, own);
}

/* The program's own SQL ends the transaction, and begins another one in its place. */
static void another_in_its_place(void **state)
{
    suite *s = *state;
    renderq_job *held = put_and_take(s, "held");
    for (int commit = 0; commit < 2; commit++) {
        expect_ok(s->h, renderq_begin(s->h));
        expect_ok(s->h, enqueue(s->h, NULL));
        void *native = renderq_native(s->h);
        assert_true(s->native->run(native, s->native->rollback));
        assert_true(s->native->run(native, s->native->begin));
        expect_gone(s, s->h, held);
        expect_end(s, s->h, commit);
    }
    renderq_job_free(held);
}

static void another_in_its_place_at_the_commit(void **state)
{
    suite *s = *state;
    expect_ok(s->h, renderq_begin(s->h));
    expect_ok(s->h, enqueue(s->h, NULL));
    void *native = renderq_native(s->h);
    assert_true(s->native->run(native, s->native->rollback));
    assert_true(s->native->run(native, s->native->begin));
    expect(s->h, RENDERQ_ABORTED, renderq_commit(s->h));
    assert_int_equal(count_rows(s), 0);
    expect_ok(s->h, renderq_begin(s->h));
    expect_ok(s->h, renderq_commit(s->h));
}

/* ---- the link ---- */

static const fault lost[] = {
    { .kind = FAULT_NOT_SENT }, { .kind = FAULT_BEFORE }, { .kind = FAULT_AFTER }, { .kind = FAULT_AFTER_SILENT },
};

/* The transaction is over with its link, nothing of it is there, and the handle works afterwards. */
static void breaks_inside(suite *s, renderq *h, renderq_job *held, fault f, bool commit)
{
    size_t rows = count_rows(s);
    expect_ok(h, renderq_begin(h));
    expect_ok(h, enqueue(h, NULL));
    faulty_arm_one(0, f);
    expect(h, RENDERQ_ABORTED, enqueue(h, NULL));
    expect_said(h, "transaction");
    expect_said(h, "a fault that the test asked for");
    assert_int_equal(renderq_native_error(h), 4711);
    assert_int_equal(faulty_runs(), 1);                             /* nothing is repeated inside */
    expect_gone(s, h, held);
    assert_int_equal(count_rows(s), rows);
    expect_end(s, h, commit);
}

static void a_link_that_breaks_inside(void **state)
{
    suite *s = *state;
    renderq *h = faulty_open(s, 30);
    renderq_job *held = put_and_take(s, "held");
    for (size_t i = 0; i < count_of(lost); i++)
        breaks_inside(s, h, held, lost[i], i % 2);
    renderq_job_free(held);
    renderq_close(h);
}

static const renderq_status refusals[] = { RENDERQ_BUSY, RENDERQ_DENIED, RENDERQ_SCHEMA, RENDERQ_INVALID,
                                           RENDERQ_NOMEM, RENDERQ_INTERRUPTED, RENDERQ_FAILED };

/* The answer came and no more: the next statement would be sent on another connection, and stand alone there. */
static void a_refusal_and_then_the_end(void **state)
{
    suite *s = *state;
    renderq *h = faulty_open(s, 30);
    renderq_job *held = put_and_take(s, "held");
    for (size_t i = 0; i < count_of(refusals); i++)
        breaks_inside(s, h, held, (fault){ .kind = FAULT_LAST_ANSWER, .status = refusals[i] }, i % 2);
    renderq_job_free(held);
    renderq_close(h);
}

/* The same where the job's own transaction begins, of which nobody knows yet: it is told as what it is. */
static void a_receive_that_is_refused(void **state)
{
    suite *s = *state;
    static const fault_kind how[] = { FAULT_ANSWER, FAULT_LAST_ANSWER };
    for (size_t k = 0; k < count_of(how); k++)
        for (size_t at = 0; at < 3; at++)
            for (size_t i = 0; i < count_of(refusals); i++) {
                renderq *h = faulty_open(s, -1);
                renderq_id id = put(s, "message");
                renderq_job *job = NULL;
                faulty_arm_one(at, (fault){ .kind = how[k], .status = refusals[i] });
                expect(h, refusals[i], renderq_receive(h, NULL, &job));
                assert_null(job);
                expect_invalid(h, "renderq_begin", renderq_commit(h));
                expect_ok(h, renderq_receive(h, NULL, &job));
                same_id(&job->id, &id);
                assert_int_equal(job->retry_count, 0);
                expect_ok(h, renderq_commit(h));
                expect_status(s, &id, "Completed");
                renderq_job_free(job);
                renderq_close(h);
                s->ops->clear(s->e);
            }
}

static void a_begin_that_is_lost_is_begun_again(void **state)
{
    suite *s = *state;
    renderq *h = faulty_open(s, 30);
    for (size_t i = 0; i < count_of(lost); i++) {
        renderq_id id;
        faulty_arm_one(0, lost[i]);
        expect_ok(h, renderq_begin(h));
        expect_ok(h, enqueue(h, &id));
        expect_ok(h, renderq_commit(h));
        expect_status(s, &id, "Queued");
    }
    renderq_close(h);
    h = faulty_open(s, -1);
    for (size_t i = 0; i < count_of(lost); i++) {
        faulty_arm_one(0, lost[i]);
        expect(h, RENDERQ_DISCONNECTED, renderq_begin(h));
        expect_ok(h, renderq_begin(h));
        expect_ok(h, renderq_rollback(h));
    }
    renderq_close(h);
}

/* Nothing of the job's row tells, since there is none: what may have happened is said to. */
static void a_commit_that_is_lost(void **state)
{
    suite *s = *state;
    renderq *h = faulty_open(s, 30);
    for (size_t i = 0; i < count_of(lost); i++) {
        renderq_id id;
        bool sent = lost[i].kind != FAULT_NOT_SENT, happened = sent && lost[i].kind != FAULT_BEFORE;
        expect_ok(h, renderq_begin(h));
        expect_ok(h, enqueue(h, &id));
        faulty_arm_one(0, lost[i]);
        expect(h, sent ? RENDERQ_UNCERTAIN : RENDERQ_ABORTED, renderq_commit(h));
        assert_int_equal(row_there(s, &id), happened);
        renderq_job *found = NULL;                                  /* which is how the caller finds out */
        expect(h, happened ? RENDERQ_OK : RENDERQ_EMPTY, renderq_get(h, NULL, &id, &found));
        renderq_job_free(found);
        expect_invalid(h, "renderq_begin", renderq_commit(h));
    }
    renderq_close(h);
}

/* It was refused before anything was sent, so the transaction still stood: what comes next is not to be part of it. */
static void a_commit_that_is_not_sent(void **state)
{
    suite *s = *state;
    static const renderq_status how[] = { RENDERQ_NOMEM, RENDERQ_INVALID, RENDERQ_BUSY };
    renderq *h = faulty_open(s, 30);
    for (size_t i = 0; i < count_of(how); i++) {
        renderq_id undone, id, message = put(s, "message");
        renderq_job *job = NULL;
        expect_ok(h, renderq_receive(h, NULL, &job));
        expect_ok(h, enqueue(h, &undone));
        faulty_arm_one(0, (fault){ .kind = FAULT_ANSWER, .status = how[i] });
        expect(h, how[i], renderq_commit(h));
        expect_said(h, "a fault that the test asked for");
        expect_invalid(h, "renderq_begin", renderq_commit(h));
        expect_ok(h, enqueue(h, &id));
        expect_ok(h, renderq_rollback(h));
        expect_status(s, &id, "Queued");
        assert_false(row_there(s, &undone));
        expect_status(s, &message, "Processing");
        expect_ok(h, renderq_fail(h, job, "again", RENDERQ_NEVER));
        expect_ok(h, renderq_cancel(h, NULL, &id));
        renderq_job_free(job);
    }
    renderq_close(h);
}

/* A received job's row tells. */
static void a_received_jobs_commit_that_is_lost(void **state)
{
    suite *s = *state;
    renderq *h = faulty_open(s, 30);
    for (size_t i = 0; i < count_of(lost); i++) {
        renderq_id id = put(s, "message"), follow_up;
        renderq_job *job = NULL;
        bool happened = lost[i].kind == FAULT_AFTER || lost[i].kind == FAULT_AFTER_SILENT;
        faulty_disarm();
        expect_ok(h, renderq_receive(h, NULL, &job));
        same_id(&job->id, &id);
        expect_ok(h, enqueue(h, &follow_up));
        faulty_arm_one(0, lost[i]);
        expect(h, happened ? RENDERQ_OK : RENDERQ_ABORTED, renderq_commit(h));
        expect_status(s, &id, happened ? "Completed" : "Processing");
        assert_int_equal(row_there(s, &follow_up), happened);
        if (happened)
            expect_ok(h, renderq_cancel(h, NULL, &follow_up));
        else
            expect_ok(h, renderq_fail(h, job, "again", RENDERQ_NEVER));
        renderq_job_free(job);
    }
    renderq_close(h);
}

static void nobody_can_be_asked(void **state)
{
    suite *s = *state;
    renderq *h = faulty_open(s, -1);
    for (size_t i = 1; i < count_of(lost); i++) {
        put(s, "message");
        renderq_job *job = NULL;
        fault f = lost[i];
        expect_ok(h, renderq_receive(h, NULL, &job));
        f.refuse_opens = 1;
        faulty_arm_one(0, f);
        expect(h, RENDERQ_UNCERTAIN, renderq_commit(h));
        bool happened = f.kind != FAULT_BEFORE;
        expect_status(s, &job->id, happened ? "Completed" : "Processing");
        faulty_disarm();
        if (!happened)
            expect_ok(h, renderq_fail(h, job, "again", RENDERQ_NEVER));
        renderq_job_free(job);
    }
    renderq_close(h);
}

/* Somebody changed the row before it could be asked: then it does not tell. */
static void retry_it(void *arg)
{
    suite *s = arg;
    renderq_id id;
    assert_int_equal(s->ops->ids(s->e, &id, 1), 1);
    expect_ok(s->h, renderq_retry(s->h, NULL, &id, NULL));
}

static void the_row_has_changed_since(void **state)
{
    suite *s = *state;
    renderq *h = faulty_open(s, 30);
    renderq_job *job = NULL;
    put(s, "message");
    expect_ok(h, renderq_receive(h, NULL, &job));
    faulty_arm_one(0, (fault){ .kind = FAULT_AFTER, .then = retry_it, .arg = s });
    expect(h, RENDERQ_UNCERTAIN, renderq_commit(h));
    renderq_job_free(job);
    renderq_close(h);
}

/* Each request of a receive is lost in each way: the claim, the begin, the complete. It carries on, or gives the job
 * back. */
static void a_receive_that_is_lost(void **state)
{
    suite *s = *state;
    for (int patient = 0; patient < 2; patient++)
        for (size_t at = 0; at < 3; at++)
            for (size_t i = 0; i < count_of(lost); i++) {
                renderq *h = faulty_open(s, patient ? 30 : -1);
                renderq_id id = put(s, "message");
                renderq_job *job = NULL;
                faulty_arm_one(at, lost[i]);
                renderq_status status = renderq_receive(h, NULL, &job);
                if (patient)
                    expect_ok(h, status);
                if (status == RENDERQ_OK) {
                    expect_ok(h, renderq_commit(h));
                    expect_status(s, &id, "Completed");
                } else {
                    assert_null(job);
                    expect_invalid(h, "renderq_begin", renderq_commit(h));
                    expect_ok(h, renderq_receive(h, NULL, &job));   /* it is back, or is found and given back here */
                    same_id(&job->id, &id);
                    assert_int_equal(job->retry_count, 0);
                    expect_ok(h, renderq_commit(h));
                }
                expect_number(s, &id, "RetryCount", 0);
                renderq_job_free(job);
                renderq_close(h);
                s->ops->clear(s->e);
            }
}

/* The job is cancelled between its claim and its transaction: the next one is received. */
static void cancel_it(void *arg)
{
    suite *s = arg;
    renderq_id ids[2];
    size_t n = s->ops->ids(s->e, ids, 2);
    for (size_t i = 0; i < n; i++) {
        renderq_job *job = get(s, &ids[i]);
        if (job->state == RENDERQ_PROCESSING)
            expect_ok(s->h, renderq_cancel(s->h, NULL, &ids[i]));
        renderq_job_free(job);
    }
}

static void cancelled_before_its_transaction(void **state)
{
    suite *s = *state;
    renderq *h = faulty_open(s, 30);
    renderq_id first = put(s, "first"), second = put(s, "second");
    renderq_job *job = NULL;
    faulty_arm_one(1, (fault){ .kind = FAULT_BEFORE, .then = cancel_it, .arg = s });
    expect_ok(h, renderq_receive(h, NULL, &job));
    same_id(&job->id, &second);
    expect_ok(h, renderq_commit(h));
    expect_status(s, &first, "Cancelled");
    expect_status(s, &second, "Completed");
    renderq_job_free(job);
    renderq_close(h);
}

int run_aborted(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_ignored_failure), TEST(an_ignored_failure_and_a_commit), TEST(another_in_its_place),
        TEST(another_in_its_place_at_the_commit), TEST(a_link_that_breaks_inside),
        TEST(a_refusal_and_then_the_end), TEST(a_receive_that_is_refused),
        TEST(a_begin_that_is_lost_is_begun_again), TEST(a_commit_that_is_lost),
        TEST(a_commit_that_is_not_sent), TEST(a_received_jobs_commit_that_is_lost), TEST(nobody_can_be_asked),
        TEST(the_row_has_changed_since),
        TEST(a_receive_that_is_lost), TEST(cancelled_before_its_transaction),
    };
    return cmocka_run_group_tests_name("aborted", tests, NULL, NULL);
}
