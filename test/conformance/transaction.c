/* transaction.c: begin, commit and rollback: what joins a transaction, what may not be called in one, and a program's
 * own SQL in it. Transactions that are lost are in aborted.c, those of a received job in receive.c. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static renderq_new_job new_job(const char *composition_id)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.composition_id = composition_id;
    job.payload_json = "{}";
    return job;
}

static renderq_id enqueue(renderq *h, const char *composition_id)
{
    renderq_new_job job = new_job(composition_id);
    renderq_id id;
    expect_ok(h, renderq_enqueue(h, &job, &id));
    return id;
}

static void end(renderq *h, bool commit)
{
    expect_ok(h, commit ? renderq_commit(h) : renderq_rollback(h));
}

static void what_is_enqueued_inside_counts_with_the_commit(void **state)
{
    suite *s = *state;
    for (int commit = 0; commit < 2; commit++) {
        renderq_new_job jobs[] = { new_job("b"), new_job("c") };
        expect_ok(s->h, renderq_begin(s->h));
        renderq_id a = enqueue(s->h, "a");
        expect_ok(s->h, renderq_enqueue_many(s->h, jobs, 2, NULL));
        renderq_job *seen = NULL;
        expect_ok(s->h, renderq_get(s->h, NULL, &a, &seen));        /* inside, it is there */
        renderq_job_free(seen);
        end(s->h, commit);
        assert_int_equal(count_rows(s), commit ? 3 : 0);
    }
}

/* Every call of a lease's owner and of an operator that can join. */
static void other_jobs_calls_join(void **state)
{
    suite *s = *state;
    for (int commit = 0; commit < 2; commit++) {
        renderq_job *done = put_and_take(s, "done"), *failed = put_and_take(s, "failed"),
                    *released = put_and_take(s, "released"), *renewed = put_and_take(s, "renewed");
        renderq_id cancelled = put(s, "cancelled"), settled = put_in_state(s, RENDERQ_DEAD_LETTER),
                   retried = put_in_state(s, RENDERQ_CANCELLED);
        char *before = snapshot_all(s);
        expect_ok(s->h, renderq_begin(s->h));
        expect_ok(s->h, renderq_complete(s->h, done, "out"));
        expect_ok(s->h, renderq_fail(s->h, failed, "why", 0));
        expect_ok(s->h, renderq_release(s->h, released, 0));
        expect_ok(s->h, renderq_renew(s->h, renewed, "half"));
        expect_ok(s->h, renderq_cancel(s->h, NULL, &cancelled));
        expect_ok(s->h, renderq_settle(s->h, NULL, &settled, "there", 0));
        expect_ok(s->h, renderq_retry(s->h, NULL, &retried, NULL));
        end(s->h, commit);
        if (commit) {
            free(before);
            expect_status(s, &done->id, "Completed");
            expect_text(s, &done->id, "OutputUrl", "out");
            expect_status(s, &failed->id, "Queued");
            expect_number(s, &failed->id, "RetryCount", 1);
            expect_status(s, &released->id, "Queued");
            expect_text(s, &renewed->id, "Progress", "half");
            expect_status(s, &cancelled, "Cancelled");
            expect_status(s, &settled, "Completed");
            expect_status(s, &retried, "Queued");
        } else {
            expect_all_unchanged(s, before);
            expect_ok(s->h, renderq_complete(s->h, done, NULL));    /* its lease stands */
        }
        renderq_job_free(done);
        renderq_job_free(failed);
        renderq_job_free(released);
        renderq_job_free(renewed);
        s->ops->clear(s->e);
    }
}

static void calls_with_transactions_of_their_own_are_refused(void **state)
{
    suite *s = *state;
    put(s, "waiting");
    renderq_job *job = NULL, *jobs[2];
    size_t n = 7;
    expect_ok(s->h, renderq_begin(s->h));
    renderq_id id = enqueue(s->h, "inside");
    expect_invalid(s->h, "transaction", renderq_claim(s->h, NULL, &job));
    assert_null(job);
    expect_invalid(s->h, "transaction", renderq_claim_many(s->h, NULL, jobs, 2, &n));
    assert_int_equal(n, 0);
    expect_invalid(s->h, "transaction", renderq_begin(s->h));
    expect_invalid(s->h, "transaction", renderq_receive(s->h, NULL, &job));
    assert_null(job);
    expect_invalid(s->h, "transaction", renderq_create(s->h, NULL));
    expect_invalid(s->h, "transaction", renderq_reap(s->h, NULL, NULL));
    expect_invalid(s->h, "transaction", renderq_purge(s->h, NULL, 60, NULL));
    expect_invalid(s->h, "transaction", renderq_retry_dead(s->h, NULL, NULL));
    expect_ok(s->h, renderq_commit(s->h));                          /* it was left as it was */
    expect_status(s, &id, "Queued");
    assert_int_equal(count_rows(s), 2);
}

static void ends_without_a_beginning(void **state)
{
    suite *s = *state;
    expect_invalid(s->h, "renderq_begin", renderq_commit(s->h));
    expect_ok(s->h, renderq_rollback(s->h));
    expect_ok(s->h, renderq_begin(s->h));
    expect_ok(s->h, renderq_commit(s->h));
    expect_invalid(s->h, "renderq_begin", renderq_commit(s->h));
    assert_int_equal(renderq_begin(NULL), RENDERQ_INVALID);
    assert_int_equal(renderq_commit(NULL), RENDERQ_INVALID);
    assert_int_equal(renderq_rollback(NULL), RENDERQ_INVALID);
    assert_null(renderq_native(NULL));
}

static void a_duplicate_leaves_it_usable(void **state)
{
    suite *s = *state;
    renderq_id holder = put_key(s, "order-7"), told;
    renderq_new_job twice = new_job("again");
    twice.dedup_key = "order-7";
    expect_ok(s->h, renderq_begin(s->h));
    renderq_id first = enqueue(s->h, "first");
    expect(s->h, RENDERQ_DUPLICATE, renderq_enqueue(s->h, &twice, &told));
    same_id(&told, &holder);
    renderq_new_job both[] = { twice, new_job("second") };
    renderq_enqueued each[] = { RENDERQ_INIT(renderq_enqueued), RENDERQ_INIT(renderq_enqueued) };
    expect_ok(s->h, renderq_enqueue_many(s->h, both, 2, each));
    assert_int_equal(each[0].status, RENDERQ_DUPLICATE);
    assert_int_equal(each[1].status, RENDERQ_OK);
    expect_ok(s->h, renderq_commit(s->h));
    expect_status(s, &first, "Queued");
    expect_status(s, &each[1].id, "Queued");
    assert_int_equal(count_rows(s), 3);
}

/* What was refused before it was sent, or lost its lease, is no end of a transaction. */
static void refusals_leave_it_usable(void **state)
{
    suite *s = *state;
    renderq_job *gone = put_and_take(s, "gone"), *none = NULL;
    renderq_new_job bad = new_job("");
    renderq_id nobody = { NOBODY };
    expect_ok(s->h, renderq_cancel(s->h, NULL, &gone->id));
    expect_ok(s->h, renderq_begin(s->h));
    renderq_id id = enqueue(s->h, "kept");
    expect_invalid(s->h, "composition_id", renderq_enqueue(s->h, &bad, NULL));
    expect(s->h, RENDERQ_LOST, renderq_complete(s->h, gone, NULL));
    expect(s->h, RENDERQ_EMPTY, renderq_get(s->h, NULL, &nobody, &none));
    expect(s->h, RENDERQ_EMPTY, renderq_cancel(s->h, NULL, &nobody));
    expect_ok(s->h, renderq_commit(s->h));
    expect_status(s, &id, "Queued");
    renderq_job_free(gone);
}

static void the_programs_own_sql_is_part_of_it(void **state)
{
    suite *s = *state;
    char own[100];
    own_table(s, own, sizeof own);
    for (int commit = 0; commit < 2; commit++) {
        expect_ok(s->h, renderq_begin(s->h));
        own_put(s, renderq_native(s->h), own, "k");
        enqueue(s->h, "follow-up");
        own_put(s, renderq_native(s->h), own, "l");
        end(s->h, commit);
        assert_int_equal(own_rows(s, own), commit ? 3 : 1);
        assert_int_equal(count_rows(s), commit);
    }
    own_drop(s, own);
}

static void two_queues_in_one_transaction(void **state)
{
    suite *s = *state;
    char other[100];
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    snprintf(other, sizeof other, "%s_out", s->queue);
    expect_ok(s->h, renderq_create(s->h, other));
    for (int commit = 0; commit < 2; commit++) {
        renderq_new_job job = new_job("follow-up");
        job.queue = other;
        expect_ok(s->h, renderq_begin(s->h));
        enqueue(s->h, "here");
        expect_ok(s->h, renderq_enqueue(s->h, &job, NULL));
        end(s->h, commit);
        expect_ok(s->h, renderq_stats(s->h, other, &counts));
        assert_int_equal(counts.queued, commit);
        assert_int_equal(count_rows(s), commit);
    }
    own_drop(s, other);
}

static void close_rolls_back(void **state)
{
    suite *s = *state;
    renderq *h = suite_open(s, "node-2", NULL);
    expect_ok(h, renderq_begin(h));
    enqueue(h, "never");
    renderq_close(h);
    assert_int_equal(count_rows(s), 0);
    put(s, "and nothing is locked");
}

static void a_child_cannot_touch_it(void **state)
{
    suite *s = *state;
    expect_ok(s->h, renderq_begin(s->h));
    renderq_id id = enqueue(s->h, "kept");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool refused = renderq_commit(s->h) == RENDERQ_INVALID && renderq_rollback(s->h) == RENDERQ_INVALID
                       && renderq_begin(s->h) == RENDERQ_INVALID && !renderq_native(s->h);
        _exit(refused ? 0 : 1);
    }
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    expect_ok(s->h, renderq_commit(s->h));
    expect_status(s, &id, "Queued");
}

static void in_transaction_is_for_attached_handles(void **state)
{
    suite *s = *state;
    renderq_options options = RENDERQ_INIT(renderq_options);
    renderq *h = NULL;
    options.in_transaction = 1;
    expect_invalid(h, "renderq_attach", renderq_open(s->url, &options, &h));
    renderq_close(h);
}

static void the_options_queue_goes_before_the_urls(void **state)
{
    suite *s = *state;
    renderq_options options = RENDERQ_INIT(renderq_options);
    renderq *h = NULL;
    renderq_id id = put(s, "a");
    renderq_job *job;
    char url[1024];
    suite_url_for(url, sizeof url, "elsewhere", NULL);
    options.queue = s->queue;
    expect_ok(h, renderq_open(url, &options, &h));
    job = take_this(h, &id);
    assert_string_equal(job->queue, s->queue);
    renderq_job_free(job);
    renderq_close(h);
}

int run_transaction(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_enqueued_inside_counts_with_the_commit), TEST(other_jobs_calls_join),
        TEST(calls_with_transactions_of_their_own_are_refused), TEST(ends_without_a_beginning),
        TEST(a_duplicate_leaves_it_usable), TEST(refusals_leave_it_usable), TEST(the_programs_own_sql_is_part_of_it),
        TEST(two_queues_in_one_transaction), TEST(close_rolls_back), TEST(a_child_cannot_touch_it),
        TEST(in_transaction_is_for_attached_handles), TEST(the_options_queue_goes_before_the_urls),
    };
    return cmocka_run_group_tests_name("transaction", tests, NULL, NULL);
}
