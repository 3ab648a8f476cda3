/* busy.c: what stands in the way of a call: somebody else's lock, a table that is missing or is no queue. */
#include "suite.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faulty.h"

/* ---- locks ---- */

typedef struct held {
    suite *s;
    renderq *h;             /* does not wait long for a lock */
    renderq_job *job;       /* whose row is locked */
    renderq_id dead;
} held;

static renderq_status do_complete(held *x)
{
    return renderq_complete(x->h, x->job, "out");
}

static renderq_status do_complete_many(held *x)
{
    renderq_result result = RENDERQ_INIT(renderq_result);
    result.job = x->job;
    renderq_status status = renderq_complete_many(x->h, &result, 1);
    assert_int_equal(result.status, status);
    return status;
}

static renderq_status do_renew(held *x)
{
    return renderq_renew(x->h, x->job, "half");
}

static renderq_status do_renew_many(held *x)
{
    renderq_status each = RENDERQ_OK, status = renderq_renew_many(x->h, &x->job, 1, &each);
    assert_int_equal(each, status);
    return status;
}

static renderq_status do_start(held *x)
{
    renderq_status each = RENDERQ_OK, status = renderq_start_many(x->h, &x->job, 1, "node-2", 0, &each);
    assert_int_equal(each, status);
    return status;
}

static renderq_status do_fail(held *x)
{
    return renderq_fail(x->h, x->job, "broke", RENDERQ_BACKOFF);
}

static renderq_status do_release(held *x)
{
    return renderq_release(x->h, x->job, 0);
}

static renderq_status do_cancel(held *x)
{
    return renderq_cancel(x->h, NULL, &x->job->id);
}

static renderq_status do_settle(held *x)
{
    return renderq_settle(x->h, NULL, &x->job->id, "out", 0);
}

static renderq_status (*const blocked[])(held *x) = {
    do_complete, do_complete_many, do_renew, do_renew_many, do_start, do_fail, do_release, do_cancel, do_settle,
};

/* BUSY: nothing is done, the connection still works, and the same call does it later. */
static void a_locked_row_is_busy(void **state)
{
    suite *s = *state;
    held x = { .s = s, .h = suite_open(s, "node-1", s->ops->impatient) };
    for (size_t i = 0; i < count_of(blocked); i++) {
        x.job = put_and_take(s, "intro");
        char *before = snapshot_all(s);
        s->ops->lock(s->e, &x.job->id);
        renderq_status status = blocked[i](&x);
        s->ops->unlock(s->e);
        expect(x.h, RENDERQ_BUSY, status);
        expect_said(x.h, "lock");
        assert_int_not_equal(renderq_native_error(x.h), 0);
        expect_all_unchanged(s, before);
        expect_ok(x.h, blocked[i](&x));
        renderq_job_free(x.job);
        s->ops->clear(s->e);
    }
    renderq_close(x.h);
}

/* Those who only look are not held up. */
static void reading_goes_on(void **state)
{
    suite *s = *state;
    renderq *h = suite_open(s, "node-1", s->ops->impatient);
    renderq_job *job = put_and_take(s, "intro"), *read = NULL;
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    s->ops->lock(s->e, &job->id);
    renderq_status of_get = renderq_get(h, NULL, &job->id, &read), of_stats = renderq_stats(h, NULL, &counts);
    s->ops->unlock(s->e);
    expect_ok(h, of_get);
    expect_ok(h, of_stats);
    assert_int_equal(counts.processing, 1);
    renderq_job_free(read);
    renderq_job_free(job);
    renderq_close(h);
}

typedef struct interrupter {
    renderq *h;
    sem_t begun;            /* a call does not hear what came before it */
    int after_ms;
} interrupter;

static void it_has_begun(void *arg)
{
    sem_post(arg);
}

static void *interrupt_later(void *arg)
{
    interrupter *i = arg;
    sem_wait(&i->begun);
    sleep_ms(i->after_ms);
    renderq_interrupt(i->h);
    return NULL;
}

/* Completes a job whose row is locked, until it is interrupted. */
static renderq_status interrupted(suite *s, renderq *h, const renderq_job *job)
{
    interrupter i = { .h = h, .after_ms = 150 };
    pthread_t thread;
    assert_int_equal(sem_init(&i.begun, 0, 0), 0);
    faulty_arm_one(0, (fault){ .kind = FAULT_NONE, .then = it_has_begun, .arg = &i.begun });
    s->ops->lock(s->e, &job->id);
    int64_t began = clock_ms();
    assert_int_equal(pthread_create(&thread, NULL, interrupt_later, &i), 0);
    renderq_status status = renderq_complete(h, job, NULL);
    int64_t took = clock_ms() - began;
    pthread_join(thread, NULL);
    s->ops->unlock(s->e);
    sem_destroy(&i.begun);
    assert_in_range(took, 145, SUITE_LONG_MS);
    return status;
}

#define TRIES 5

static void an_interrupt_ends_the_wait_for_a_lock(void **state)
{
    suite *s = *state;
    suite_needs(s, ENGINE_STOPS);
    renderq_status status = RENDERQ_UNCERTAIN;
    for (int tries = 1; status == RENDERQ_UNCERTAIN; tries++) {
        renderq *h = faulty_open(s, SUITE_RETRY_S); /* without a fault: it tells when the call has begun */
        renderq_job *job = put_and_take(s, "intro");
        char *before = snapshot_all(s);
        status = interrupted(s, h, job);
        if (status == RENDERQ_UNCERTAIN && tries < TRIES) {
            free(before);                           /* a server that did not come to stop in time was given up */
        } else {
            expect(h, RENDERQ_INTERRUPTED, status);
            expect_all_unchanged(s, before);
            expect_ok(h, renderq_complete(h, job, NULL));
            take_none(h);                           /* that interrupt is used up */
        }
        renderq_job_free(job);
        renderq_close(h);
    }
}

typedef struct late_call {
    held x;
    renderq_status (*call)(held *x);
    renderq_status status;
} late_call;

static void *call_late(void *arg)
{
    late_call *late = arg;
    late->status = late->call(&late->x);
    return NULL;
}

/* What somebody else did to the row while a call waited for it is in what the call answers. */
static void what_was_waited_for_is_seen(void **state)
{
    static renderq_status (*const calls[])(held *x) = { do_renew, do_renew_many, do_start };
    suite *s = *state;
    void *native = own_connection(s);
    for (size_t i = 0; i < count_of(calls); i++) {
        char sql[300];
        pthread_t thread;
        renderq_job *job = put_and_take(s, "intro");
        late_call late = { .x = { .s = s, .h = s->h, .job = job }, .call = calls[i] };
        snprintf(sql, sizeof sql, "UPDATE %s SET LeaseSeconds = 7777 WHERE Status = 'Processing'", s->queue);
        assert_true(s->native->run(native, s->native->begin));
        assert_true(s->native->run(native, sql));
        assert_int_equal(pthread_create(&thread, NULL, call_late, &late), 0);
        sleep_ms(200);                              /* the call has begun by then, or has nothing to wait for */
        assert_true(s->native->run(native, s->native->commit));
        pthread_join(thread, NULL);
        expect_ok(s->h, late.status);
        assert_in_range(renderq_lease_left_ms(job), 7000000, 7778000);
        expect_ok(s->h, renderq_complete(s->h, job, NULL));
        renderq_job_free(job);
    }
    s->native->disconnect(native);
}

/* ---- tables ---- */

static void expect_schema(suite *s, const char *queue)
{
    renderq_new_job new_job = RENDERQ_INIT(renderq_new_job);
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_enqueued each = RENDERQ_INIT(renderq_enqueued);
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    renderq_id id = { NOBODY };
    renderq_job *job = NULL;
    int64_t deleted;
    new_job.composition_id = "x";
    new_job.payload_json = "{}";
    new_job.queue = options.queue = queue;
    options.wait_ms = 60000;                        /* waiting would not help */
    expect(s->h, RENDERQ_SCHEMA, renderq_enqueue(s->h, &new_job, NULL));
    expect_said(s->h, queue);
    expect_said(s->h, "renderq_create");
    expect(s->h, RENDERQ_SCHEMA, renderq_enqueue_many(s->h, &new_job, 1, &each));
    assert_int_equal(each.status, RENDERQ_SCHEMA);
    expect(s->h, RENDERQ_SCHEMA, renderq_claim(s->h, &options, &job));
    expect(s->h, RENDERQ_SCHEMA, renderq_get(s->h, queue, &id, &job));
    expect(s->h, RENDERQ_SCHEMA, renderq_job_resume(s->h, queue, &id, &id, &job));
    expect(s->h, RENDERQ_SCHEMA, renderq_cancel(s->h, queue, &id));
    expect(s->h, RENDERQ_SCHEMA, renderq_retry(s->h, queue, &id, NULL));
    expect(s->h, RENDERQ_SCHEMA, renderq_retry_dead(s->h, queue, NULL));
    expect(s->h, RENDERQ_SCHEMA, renderq_settle(s->h, queue, &id, NULL, 0));
    expect(s->h, RENDERQ_SCHEMA, renderq_reap(s->h, queue, NULL));
    expect(s->h, RENDERQ_SCHEMA, renderq_purge(s->h, queue, 60, &deleted));
    expect(s->h, RENDERQ_SCHEMA, renderq_stats(s->h, queue, &counts));
}

static void a_table_that_is_missing(void **state)
{
    suite *s = *state;
    expect_schema(s, "conformance_missing");
}

static void a_table_that_was_dropped(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro");
    s->ops->drop(s->e);
    expect(s->h, RENDERQ_SCHEMA, renderq_complete(s->h, job, NULL));
    expect(s->h, RENDERQ_SCHEMA, renderq_renew(s->h, job, NULL));
    expect(s->h, RENDERQ_SCHEMA, renderq_start_many(s->h, &job, 1, NULL, 0, NULL));
    expect(s->h, RENDERQ_SCHEMA, renderq_fail(s->h, job, NULL, 0));
    expect(s->h, RENDERQ_SCHEMA, renderq_release(s->h, job, 0));
    expect_schema(s, s->queue);
    expect_ok(s->h, renderq_create(s->h, NULL));
    expect(s->h, RENDERQ_LOST, renderq_complete(s->h, job, NULL));
    put(s, "intro");
    renderq_job_free(job);
}

static void create_leaves_what_is_there(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "intro");
    char *before = snapshot_all(s);
    expect_ok(s->h, renderq_create(s->h, NULL));
    expect_ok(s->h, renderq_create(s->h, s->queue));
    expect_all_unchanged(s, before);
    renderq_job_free(take_this(s->h, &id));
}

static void a_table_that_is_no_queue(void **state)
{
    suite *s = *state;
    s->h = suite_open(s, "node-1", NULL);
    s->ops->make_other(s->e);
    expect(s->h, RENDERQ_SCHEMA, renderq_create(s->h, NULL));
    expect_said(s->h, s->queue);
    expect_schema(s, s->queue);
}

int run_busy(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(a_locked_row_is_busy),
        TEST(reading_goes_on),
        TEST(an_interrupt_ends_the_wait_for_a_lock),
        TEST(what_was_waited_for_is_seen),
        TEST(a_table_that_is_missing),
        TEST(a_table_that_was_dropped),
        TEST(create_leaves_what_is_there),
        TEST_BARE(a_table_that_is_no_queue),
    };
    return cmocka_run_group_tests_name("busy", tests, NULL, NULL);
}
