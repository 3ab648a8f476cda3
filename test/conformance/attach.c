/* attach.c: handles on a connection that the program opened itself, in a transaction of its own or in none. */
#include "faulty.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rig {
    suite *s;
    void *native;
    renderq *h;
} rig;

static renderq *attach(const suite *s, void *native, int in_transaction)
{
    renderq_options options = RENDERQ_INIT(renderq_options);
    renderq *h = NULL;
    options.queue = s->queue;
    options.worker = "node-9";
    options.command_s = 30;
    options.in_transaction = in_transaction;
    expect_ok(h, renderq_attach(s->native->scheme, native, &options, &h));
    return h;
}

static rig set_up(void **state, int in_transaction)
{
    suite *s = *state;
    rig r = { .s = s, .native = own_connection(s) };
    r.h = attach(s, r.native, in_transaction);
    return r;
}

static void tear_down(rig *r)
{
    renderq_close(r->h);
    assert_true(r->s->native->untouched(r->native));
    r->s->native->disconnect(r->native);
}

static void say(const rig *r, const char *sql)
{
    assert_true(r->s->native->run(r->native, sql));
}

static renderq_status enqueue(renderq *h, renderq_id *id)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.composition_id = "by the attached";
    job.payload_json = "{}";
    return renderq_enqueue(h, &job, id);
}

static void without_a_transaction_calls_have_their_own(void **state)
{
    rig r = set_up(state, 0);
    renderq_id id;
    renderq_job *job = NULL;
    renderq_new_job jobs[] = { RENDERQ_INIT(renderq_new_job), RENDERQ_INIT(renderq_new_job) };
    jobs[0].composition_id = jobs[1].composition_id = "x";
    jobs[0].payload_json = jobs[1].payload_json = "{}";
    assert_ptr_equal(renderq_native(r.h), r.native);
    expect_ok(r.h, enqueue(r.h, &id));
    expect_ok(r.h, renderq_claim(r.h, NULL, &job));
    same_id(&job->id, &id);
    assert_string_equal(job->worker, "node-9");
    expect_ok(r.h, renderq_complete(r.h, job, "out"));
    expect_status(r.s, &id, "Completed");
    renderq_job_free(job);
    expect_ok(r.h, renderq_enqueue_many(r.h, jobs, 2, NULL));
    assert_int_equal(count_rows(r.s), 3);
    expect_ok(r.h, renderq_reap(r.h, NULL, NULL));
    expect(r.h, RENDERQ_LOST, renderq_cancel(r.h, NULL, &id));
    tear_down(&r);
}

static void begin_and_receive_work_on_it(void **state)
{
    rig r = set_up(state, 0);
    char own[100];
    own_table(r.s, own, sizeof own);
    renderq_id id = put(r.s, "message");
    renderq_job *job = NULL;
    for (int commit = 0; commit < 2; commit++) {
        expect_ok(r.h, renderq_receive(r.h, NULL, &job));
        own_put(r.s, r.native, own, "effect");
        expect_ok(r.h, commit ? renderq_commit(r.h) : renderq_rollback(r.h));
        if (!commit)
            expect_ok(r.h, renderq_release(r.h, job, 0));
        renderq_job_free(job);
        expect_status(r.s, &id, commit ? "Completed" : "Queued");
        assert_int_equal(own_rows(r.s, own), 1 + commit);
    }
    expect_ok(r.h, renderq_begin(r.h));
    expect_ok(r.h, enqueue(r.h, &id));
    renderq_close(r.h);                                             /* rolls back what it began */
    r.h = attach(r.s, r.native, 0);
    assert_false(row_there(r.s, &id));
    own_drop(r.s, own);
    tear_down(&r);
}

static void calls_join_the_callers_transaction(void **state)
{
    rig r = set_up(state, 0);
    char own[100];
    own_table(r.s, own, sizeof own);
    for (int commit = 0; commit < 2; commit++) {
        renderq_job *held = put_and_take(r.s, "held");
        renderq_id id;
        say(&r, r.s->native->begin);
        own_put(r.s, r.native, own, "effect");
        expect_ok(r.h, enqueue(r.h, &id));
        expect_ok(r.h, renderq_complete(r.h, held, NULL));
        say(&r, commit ? r.s->native->commit : r.s->native->rollback);
        assert_int_equal(row_there(r.s, &id), commit);
        expect_status(r.s, &held->id, commit ? "Completed" : "Processing");
        assert_int_equal(own_rows(r.s, own), 1 + commit);
        renderq_job_free(held);
    }
    own_drop(r.s, own);
    tear_down(&r);
}

static void the_callers_transaction_is_the_callers(void **state)
{
    rig r = set_up(state, 0);
    renderq_job *job = NULL;
    renderq_id id;
    put(r.s, "waiting");
    say(&r, r.s->native->begin);
    expect_ok(r.h, enqueue(r.h, &id));
    expect_invalid(r.h, "transaction", renderq_claim(r.h, NULL, &job));
    expect_invalid(r.h, "transaction", renderq_begin(r.h));
    expect_invalid(r.h, "transaction", renderq_reap(r.h, NULL, NULL));
    expect_invalid(r.h, "caller's", renderq_commit(r.h));
    expect_invalid(r.h, "caller's", renderq_rollback(r.h));
    renderq_close(r.h);                                             /* and stays open */
    r.h = attach(r.s, r.native, 0);
    expect_invalid(r.h, "caller's", renderq_commit(r.h));
    say(&r, r.s->native->commit);
    expect_status(r.s, &id, "Queued");
    expect_invalid(r.h, "renderq_begin", renderq_commit(r.h));
    expect_ok(r.h, renderq_rollback(r.h));
    tear_down(&r);
}

static void receive_joins_it(void **state)
{
    rig r = set_up(state, 0);
    renderq_id id = put(r.s, "message");
    renderq_job *job = NULL, *other = NULL;
    say(&r, r.s->native->begin);
    expect_ok(r.h, renderq_receive(r.h, NULL, &job));
    same_id(&job->id, &id);
    assert_int_equal(job->state, RENDERQ_PROCESSING);
    expect_invalid(r.h, "received", renderq_receive(r.h, NULL, &other));
    expect_invalid(r.h, "received", renderq_fail(r.h, job, "why", 0));
    expect_ok(r.h, renderq_complete(r.h, job, "out"));
    say(&r, r.s->native->rollback);
    expect_status(r.s, &id, "Queued");                              /* nothing of it survives */
    expect_number(r.s, &id, "RetryCount", 0);
    expect_nulls(r.s, &id, "LeaseToken", "LockedAtUtc", "WorkerNodeId", "OutputUrl");
    expect(r.h, RENDERQ_LOST, renderq_fail(r.h, job, "why", 0));
    renderq_job_free(job);

    say(&r, r.s->native->begin);
    expect_ok(r.h, renderq_receive(r.h, NULL, &job));
    expect_ok(r.h, renderq_complete(r.h, job, "out"));
    say(&r, r.s->native->commit);
    expect_status(r.s, &id, "Completed");
    expect_text(r.s, &id, "OutputUrl", "out");
    expect_null(r.s, &id, "LeasedAtUtc");
    renderq_job_free(job);

    say(&r, r.s->native->begin);
    expect(r.h, RENDERQ_EMPTY, renderq_receive(r.h, NULL, &job));
    say(&r, r.s->native->rollback);
    tear_down(&r);
}

/* The next in turn; and what is due only when nothing is queued. Others that are due stay as they are, unlocked. */
static void receive_takes_what_is_next(void **state)
{
    rig r = set_up(state, 0);
    renderq_new_job delayed = RENDERQ_INIT(renderq_new_job), urgent = RENDERQ_INIT(renderq_new_job);
    delayed.composition_id = "due";
    delayed.payload_json = "{}";
    delayed.delay_ms = 3600000;
    renderq_id due = put_job(r.s, &delayed), later = put_job(r.s, &delayed), queued = put(r.s, "queued");
    urgent.composition_id = "urgent";
    urgent.payload_json = "{}";
    urgent.priority = 5;
    renderq_id first = put_job(r.s, &urgent);
    make_due(r.s, &due);
    const renderq_id *const order[] = { &first, &queued, &due };
    for (size_t i = 0; i < count_of(order); i++) {
        renderq_job *job = NULL;
        say(&r, r.s->native->begin);
        expect_ok(r.h, renderq_receive(r.h, NULL, &job));
        same_id(&job->id, order[i]);
        say(&r, r.s->native->commit);
        expect_status(r.s, order[i], "Completed");
        renderq_job_free(job);
    }
    renderq_job *none = NULL;
    say(&r, r.s->native->begin);
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    if (strcmp(r.s->native->scheme, "sqlite") == 0)
        options.wait_ms = RENDERQ_FOREVER;      /* nothing would be seen, however long it waited */
    expect(r.h, RENDERQ_EMPTY, renderq_receive(r.h, &options, &none));
    say(&r, r.s->native->commit);
    expect_status(r.s, &later, "Scheduled");
    tear_down(&r);
}

/* One that came while nothing ran ends the next call that waits, once, and leaves the transaction alone. */
static void an_interrupt_of_an_attached_handle(void **state)
{
    rig r = set_up(state, 0);
    renderq_job *job = NULL;
    renderq_id id = put(r.s, "message");
    renderq_interrupt(r.h);
    expect(r.h, RENDERQ_INTERRUPTED, renderq_claim(r.h, NULL, &job));
    expect_ok(r.h, renderq_claim(r.h, NULL, &job));
    expect_ok(r.h, renderq_release(r.h, job, 0));
    renderq_job_free(job);
    say(&r, r.s->native->begin);
    expect_ok(r.h, enqueue(r.h, NULL));
    renderq_interrupt(r.h);
    expect(r.h, RENDERQ_INTERRUPTED, renderq_receive(r.h, NULL, &job));
    expect_ok(r.h, renderq_receive(r.h, NULL, &job));
    same_id(&job->id, &id);
    say(&r, r.s->native->commit);
    expect_status(r.s, &id, "Completed");
    assert_int_equal(count_rows(r.s), 2);
    renderq_job_free(job);
    tear_down(&r);
}

/* ---- in_transaction ---- */

static void it_must_be_there(void **state)
{
    rig r = set_up(state, 1);
    renderq_id id;
    expect(r.h, RENDERQ_ABORTED, enqueue(r.h, NULL));
    assert_int_equal(count_rows(r.s), 0);
    say(&r, r.s->native->begin);
    expect_ok(r.h, enqueue(r.h, &id));
    say(&r, r.s->native->rollback);
    expect(r.h, RENDERQ_ABORTED, enqueue(r.h, NULL));               /* it would be committed alone */
    expect(r.h, RENDERQ_ABORTED, renderq_commit(r.h));
    expect(r.h, RENDERQ_ABORTED, enqueue(r.h, NULL));
    assert_int_equal(count_rows(r.s), 0);

    expect_ok(r.h, renderq_rollback(r.h));                          /* ready for the next one */
    expect(r.h, RENDERQ_ABORTED, enqueue(r.h, NULL));
    say(&r, r.s->native->begin);
    expect_ok(r.h, enqueue(r.h, &id));
    say(&r, r.s->native->commit);
    expect_status(r.s, &id, "Queued");
    tear_down(&r);
}

static void it_must_be_the_one_seen_first(void **state)
{
    rig r = set_up(state, 1);
    if (!r.s->native->tells_apart) {
        print_message("not tried: %s does not tell one transaction from the next\n", r.s->native->scheme);
        tear_down(&r);
        return;
    }
    renderq_id id;
    say(&r, r.s->native->begin);
    expect_ok(r.h, enqueue(r.h, &id));
    say(&r, r.s->native->rollback);
    say(&r, r.s->native->begin);
    expect(r.h, RENDERQ_ABORTED, enqueue(r.h, NULL));
    expect(r.h, RENDERQ_ABORTED, renderq_cancel(r.h, NULL, &id));
    expect_ok(r.h, renderq_rollback(r.h));                          /* from here on it is this one */
    expect_ok(r.h, enqueue(r.h, &id));
    say(&r, r.s->native->commit);
    expect_status(r.s, &id, "Queued");
    assert_int_equal(count_rows(r.s), 1);
    tear_down(&r);
}

static void an_ignored_failure_of_the_callers(void **state)
{
    rig r = set_up(state, 1);
    char own[100], deadly[300];
    own_table(r.s, own, sizeof own);
    snprintf(deadly, sizeof deadly, r.s->native->deadly, own);
    say(&r, r.s->native->begin);
    expect_ok(r.h, enqueue(r.h, NULL));
    assert_false(r.s->native->run(r.native, deadly));
    expect(r.h, RENDERQ_ABORTED, enqueue(r.h, NULL));
    assert_int_equal(count_rows(r.s), 0);
    own_drop(r.s, own);
    tear_down(&r);
}

/* ---- what cannot be attached ---- */

static void bad_arguments(void **state)
{
    suite *s = *state;
    renderq *h = NULL;
    void *native = own_connection(s);
    assert_int_equal(renderq_attach(s->native->scheme, native, NULL, NULL), RENDERQ_INVALID);
    expect_invalid(h, "scheme", renderq_attach("mysql", native, NULL, &h));
    assert_int_equal(renderq_commit(h), RENDERQ_INVALID);
    renderq_close(h);
    expect_invalid(h, "scheme", renderq_attach(NULL, native, NULL, &h));
    renderq_close(h);
    expect_invalid(h, "NULL", renderq_attach(s->native->scheme, NULL, NULL, &h));
    renderq_close(h);
    renderq_options options = RENDERQ_INIT(renderq_options);
    options.queue = "a.b.c";
    expect_invalid(h, "queue", renderq_attach(s->native->scheme, native, &options, &h));
    renderq_close(h);
    s->native->disconnect(native);
}

static void the_default_queue_is_the_usual_one(void **state)
{
    suite *s = *state;
    renderq *h = NULL;
    void *native = own_connection(s);
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    expect_ok(h, renderq_attach(s->native->scheme, native, NULL, &h));
    renderq_status status = renderq_stats(h, NULL, &counts);
    assert_true(status == RENDERQ_OK || status == RENDERQ_SCHEMA);
    if (status == RENDERQ_SCHEMA)
        expect_said(h, "VideoRenderJobs");
    expect_ok(h, renderq_stats(h, s->queue, &counts));
    renderq_close(h);
    s->native->disconnect(native);
}

/* The caller goes on without the job, so it is not to be leased to nobody when the caller commits. */
static void no_memory_for_what_was_received(void **state)
{
    suite *s = *state;
    void *native = own_connection(s);
    renderq *f = faulty_attach(s, native);
    renderq_job *job = NULL;
    renderq_id id = put(s, "intro");
    assert_true(s->native->run(native, s->native->begin));
    faulty_arm_one(0, (fault){ .kind = FAULT_ANSWER_AFTER, .status = RENDERQ_NOMEM });
    expect(f, RENDERQ_NOMEM, renderq_receive(f, NULL, &job));
    assert_null(job);
    assert_true(s->native->run(native, s->native->commit));
    expect_status(s, &id, "Queued");
    expect_number(s, &id, "RetryCount", 0);
    renderq_close(f);
    s->native->disconnect(native);
}

int run_attach(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_a_transaction_calls_have_their_own), TEST(begin_and_receive_work_on_it),
        TEST(calls_join_the_callers_transaction), TEST(the_callers_transaction_is_the_callers), TEST(receive_joins_it),
        TEST(receive_takes_what_is_next), TEST(an_interrupt_of_an_attached_handle), TEST(it_must_be_there),
        TEST(it_must_be_the_one_seen_first),
        TEST(an_ignored_failure_of_the_callers), TEST(bad_arguments), TEST(the_default_queue_is_the_usual_one),
        TEST(no_memory_for_what_was_received),
    };
    return cmocka_run_group_tests_name("attach", tests, NULL, NULL);
}
