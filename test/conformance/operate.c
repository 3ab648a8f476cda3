/* operate.c: the operator's calls: get, cancel, retry, settle in every state and said twice; purge and stats. */
#include "faulty.h"

#include <stdlib.h>
#include <string.h>

/* ---- one job: in which states, and into which ---- */

static renderq_status cancel(renderq *h, const renderq_id *id)
{
    return renderq_cancel(h, NULL, id);
}

static renderq_status retry(renderq *h, const renderq_id *id)
{
    return renderq_retry(h, NULL, id, NULL);
}

static renderq_status settle(renderq *h, const renderq_id *id)
{
    return renderq_settle(h, NULL, id, "settled", 0);
}

static renderq_status settle_sparing(renderq *h, const renderq_id *id)
{
    return renderq_settle(h, NULL, id, "settled", RENDERQ_SPARE_RENEWED);
}

#define NO RENDERQ_LOST
#define OK RENDERQ_OK

static const struct call {
    renderq_status (*call)(renderq *h, const renderq_id *id);
    const char *name, *status;                  /* what it makes of a job */
    enum { NEITHER, ENDED, COMPLETED } ended;   /* which time that sets; the other is NULL then */
    renderq_status in[RENDERQ_OTHER + 1];       /* by state, from RENDERQ_SCHEDULED */
} calls[] = {
    /*                                                     -  Sch Que Pro Com Dea Can Oth */
    { cancel, "cancel", "Cancelled", ENDED,               { 0, OK, OK, OK, NO, NO, OK, NO } },
    { retry, "retry", "Queued", NEITHER,                  { 0, NO, OK, NO, OK, OK, OK, NO } },
    { settle, "settle", "Completed", COMPLETED,           { 0, OK, OK, OK, OK, OK, OK, OK } },
    { settle_sparing, "sparing", "Completed", COMPLETED,  { 0, OK, OK, OK, OK, OK, OK, OK } },
};

static void every_call_in_every_state(void **state)
{
    suite *s = *state;
    for (size_t i = 0; i < count_of(calls); i++)
        for (int from = RENDERQ_SCHEDULED; from <= RENDERQ_OTHER; from++) {
            const struct call *c = &calls[i];
            renderq_id id = put_in_state(s, (renderq_state)from);
            bool there_already = strcmp(renderq_strstate((renderq_state)from), c->status) == 0;
            char *before = snapshot(s, &id);
            renderq_status got = c->call(s->h, &id);
            if (got != c->in[from])
                print_error("%s from %s\n", c->name, renderq_strstate((renderq_state)from));
            expect(s->h, c->in[from], got);
            if (got == RENDERQ_LOST)
                expect_said(s->h, renderq_strstate((renderq_state)from));
            if (got == RENDERQ_LOST || there_already) {
                expect_unchanged(s, &id, before);
            } else {
                free(before);
                expect_status(s, &id, c->status);
                expect_nulls(s, &id, "LeaseToken", "LeasedAtUtc", "LockedAtUtc", "StartedAtUtc", "LeaseSeconds",
                             "WorkerNodeId", "DueAtUtc");
                expect_null_at(s, &id, "EndedAtUtc", c->ended != ENDED, __FILE__, __LINE__);
                expect_null_at(s, &id, "CompletedAtUtc", c->ended != COMPLETED, __FILE__, __LINE__);
            }
            if (got == RENDERQ_OK) {                /* said twice */
                before = snapshot(s, &id);
                expect_ok(s->h, c->call(s->h, &id));
                expect_unchanged(s, &id, before);
            }
            s->ops->clear(s->e);
        }
}

static void an_unknown_id(void **state)
{
    suite *s = *state;
    renderq_id nobody = { NOBODY }, holder = { "-" };
    renderq_job *job = (renderq_job *)(void *)s;
    put(s, "intro");
    char *before = snapshot_all(s);
    for (size_t i = 0; i < count_of(calls); i++) {
        expect(s->h, RENDERQ_EMPTY, calls[i].call(s->h, &nobody));
        expect_said(s->h, NOBODY);
    }
    expect(s->h, RENDERQ_EMPTY, renderq_retry(s->h, NULL, &nobody, &holder));
    assert_string_equal(holder.text, "-");
    expect(s->h, RENDERQ_EMPTY, renderq_get(s->h, NULL, &nobody, &job));
    assert_null(job);
    expect_all_unchanged(s, before);
}

static void ids_may_be_in_lower_case(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "intro"), lower = id;
    for (char *c = lower.text; *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'F' ? *c + 32 : *c);
    renderq_job *job = get(s, &lower);
    same_id(&job->id, &id);
    renderq_job_free(job);
    expect_ok(s->h, renderq_cancel(s->h, NULL, &lower));
    expect_status(s, &id, "Cancelled");
}

static void the_worker_of_a_cancelled_job_hears_it(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro");
    expect_ok(s->h, renderq_cancel(s->h, NULL, &job->id));
    expect(s->h, RENDERQ_LOST, renderq_renew(s->h, job, NULL));
    expect(s->h, RENDERQ_LOST, renderq_complete(s->h, job, NULL));
    expect_status(s, &job->id, "Cancelled");
    take_none(s->h);
    renderq_job_free(job);
}

static void settle_keeps_or_sets_the_url(void **state)
{
    suite *s = *state;
    renderq_id id = put_in_state(s, RENDERQ_COMPLETED);
    expect_ok(s->h, renderq_settle(s->h, NULL, &id, "other", 0));
    expect_text(s, &id, "OutputUrl", "out");        /* it was there already: nothing changes */
    id = put(s, "intro");
    expect_ok(s->h, renderq_settle(s->h, NULL, &id, "found.mp4", 0));
    expect_text(s, &id, "OutputUrl", "found.mp4");
}

/* Spared: ours, renewed since it began, not run out. */
static void settle_spares_a_renewed_lease(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro");
    renderq_id id = job->id;
    shift(s, &id, "StartedAtUtc", -5000);           /* the lease began later than the job: it was renewed */
    char *before = snapshot(s, &id);
    expect(s->h, RENDERQ_LOST, settle_sparing(s->h, &id));
    expect_said(s->h, "renew");
    expect_unchanged(s, &id, before);
    expect_ok(s->h, renderq_renew(s->h, job, NULL));
    expect(s->h, RENDERQ_LOST, settle_sparing(s->h, &id));

    run_out(s, &id, 0);                             /* run out, and not reaped yet */
    shift(s, &id, "StartedAtUtc", -3600000);
    expect_ok(s->h, settle_sparing(s->h, &id));
    expect_status(s, &id, "Completed");
    expect(s->h, RENDERQ_LOST, renderq_complete(s->h, job, NULL));
    renderq_job_free(job);
}

static void settle_does_not_spare_others(void **state)
{
    suite *s = *state;
    renderq_id got, id = put(s, "intro");
    renderq_job *job = take_for(s->h, NULL, 0, true);       /* unstarted */
    expect_ok(s->h, renderq_renew(s->h, job, NULL));
    expect_ok(s->h, settle_sparing(s->h, &id));
    renderq_job_free(job);

    id = put(s, "intro");                                   /* a foreign one */
    assert_true(s->ops->claim(s->e, "csharp", &got));
    expect_ok(s->h, settle_sparing(s->h, &id));

    job = put_and_take(s, "intro");                         /* a foreign one after one of ours */
    id = job->id;
    assert_true(s->ops->mark_failed(s->e, &id, "theirs"));
    assert_true(s->ops->claim(s->e, "csharp", &got));
    same_id(&got, &id);
    shift(s, &id, "StartedAtUtc", -5000);
    expect_ok(s->h, settle_sparing(s->h, &id));
    renderq_job_free(job);

    job = put_and_take(s, "intro");                         /* renewed, and spared only if asked for */
    shift(s, &job->id, "StartedAtUtc", -5000);
    expect_ok(s->h, settle(s->h, &job->id));
    renderq_job_free(job);
}

static void get_has_the_payload(void **state)
{
    suite *s = *state;
    renderq_id id = put_in_state(s, RENDERQ_CANCELLED);
    renderq_job *job = get(s, &id);
    assert_string_equal(job->payload_json, "{}");
    assert_int_equal(job->payload_len, 2);
    assert_int_equal(job->state, RENDERQ_CANCELLED);
    assert_int_equal(job->ended_at_ms, number_of(s, &id, "EndedAtUtc"));
    assert_string_equal(job->queue, s->queue);
    renderq_job_free(job);
}

/* ---- purge ---- */

static void purge_deletes_what_ended_long_ago(void **state)
{
    suite *s = *state;
    renderq_id old[3], young[3], live[4];
    static const renderq_state ended[] = { RENDERQ_COMPLETED, RENDERQ_DEAD_LETTER, RENDERQ_CANCELLED };
    static const renderq_state not_ended[] = { RENDERQ_SCHEDULED, RENDERQ_QUEUED, RENDERQ_PROCESSING,
                                               RENDERQ_OTHER };
    for (int i = 0; i < 3; i++) {
        const char *column = i == 0 ? "CompletedAtUtc" : "EndedAtUtc";
        old[i] = put_in_state(s, ended[i]);
        young[i] = put_in_state(s, ended[i]);
        shift(s, &old[i], column, -101000);
        shift(s, &young[i], column, -61000);
    }
    for (int i = 0; i < 4; i++) {
        live[i] = put_in_state(s, not_ended[i]);
        shift(s, &live[i], "CreatedAtUtc", -1000000);
        set_number(s, &live[i], "CompletedAtUtc", 1000);
        set_number(s, &live[i], "EndedAtUtc", 1000);
    }
    int64_t deleted = -1;
    expect_ok(s->h, renderq_purge(s->h, NULL, 100, &deleted));
    assert_int_equal(deleted, 3);
    for (int i = 0; i < 3; i++) {
        assert_false(row_there(s, &old[i]));
        assert_true(row_there(s, &young[i]));
    }
    for (int i = 0; i < 4; i++)
        assert_true(row_there(s, &live[i]));
    expect_ok(s->h, renderq_purge(s->h, NULL, 100, &deleted));
    assert_int_equal(deleted, 0);
    expect_ok(s->h, renderq_purge(s->h, NULL, 60, NULL));
    assert_int_equal(count_rows(s), 4);
}

/* A call that is being repeated must still find its job. */
static void purge_refuses_what_is_too_young(void **state)
{
    suite *s = *state;
    renderq_id id = put_in_state(s, RENDERQ_COMPLETED);
    static const int64_t young[] = { 59, 0, -1, INT64_MIN };
    int64_t deleted = 7;
    shift(s, &id, "CompletedAtUtc", -1000000);
    for (size_t i = 0; i < count_of(young); i++)
        expect_invalid(s->h, "older_than_s", renderq_purge(s->h, NULL, young[i], &deleted));
    expect_invalid(s->h, "older_than_s", renderq_purge(s->h, NULL, INT64_MAX, &deleted));
    assert_true(row_there(s, &id));
    expect_ok(s->h, renderq_purge(s->h, NULL, 60, &deleted));
    assert_int_equal(deleted, 1);
}

/* Jobs for which the first failure is the last. */
static void put_many(suite *s, size_t n)
{
    renderq_new_job *jobs = calloc(n, sizeof *jobs);
    for (size_t i = 0; i < n; i++) {
        jobs[i] = (renderq_new_job)RENDERQ_INIT(renderq_new_job);
        jobs[i].composition_id = "intro";
        jobs[i].payload_json = "{}";
        jobs[i].max_retries = RENDERQ_NO_RETRY;
    }
    expect_ok(s->h, renderq_enqueue_many(s->h, jobs, n, NULL));
    free(jobs);
}

static void interrupt_it(void *arg)
{
    renderq_interrupt(arg);
}

/* The handle is interrupted when a request is answered. */
static void interrupt_behind(renderq *f, size_t at)
{
    faulty_arm_one(at, (fault){ .kind = FAULT_ANSWER_AFTER, .status = RENDERQ_OK, .then = interrupt_it, .arg = f });
}

static void purge_goes_on_until_all_are_gone(void **state)
{
    suite *s = *state;
    enum { MANY = 2100 };
    renderq_job *taken[RENDERQ_CLAIM_MAX];
    int64_t deleted = 0;
    size_t n;
    put_many(s, MANY);
    while (renderq_claim_many(s->h, NULL, taken, count_of(taken), &n) == RENDERQ_OK) {
        renderq_result results[RENDERQ_CLAIM_MAX];
        for (size_t i = 0; i < n; i++) {
            results[i] = (renderq_result)RENDERQ_INIT(renderq_result);
            results[i].job = taken[i];
        }
        expect_ok(s->h, renderq_complete_many(s->h, results, n));
        for (size_t i = 0; i < n; i++)
            renderq_job_free(taken[i]);
    }
    s->ops->write_all(s->e, "CompletedAtUtc", 1000);
    renderq *f = faulty_open(s, SUITE_RETRY_S);
    interrupt_behind(f, 0);
    expect(f, RENDERQ_INTERRUPTED, renderq_purge(f, NULL, 60, &deleted));
    assert_int_equal(count_rows(s), MANY - deleted);
    assert_in_range(deleted, 1, MANY - 1);
    n = (size_t)deleted;
    expect_ok(f, renderq_purge(f, NULL, 60, &deleted));
    assert_int_equal(n + (size_t)deleted, MANY);
    assert_int_equal(count_rows(s), 0);
    renderq_close(f);
}

/* ... and what it counted till then is true. */
static void an_interrupt_ends_a_call_between_batches(void **state)
{
    suite *s = *state;
    enum { MANY = 1001 };
    renderq_job *taken[RENDERQ_CLAIM_MAX];
    renderq_reaped reaped = RENDERQ_INIT(renderq_reaped);
    renderq_retried retried = RENDERQ_INIT(renderq_retried);
    size_t n;
    put_many(s, MANY);
    while (renderq_claim_many(s->h, NULL, taken, count_of(taken), &n) == RENDERQ_OK)
        for (size_t i = 0; i < n; i++)
            renderq_job_free(taken[i]);
    s->ops->write_all(s->e, "LockedAtUtc", 1000);
    s->ops->write_all(s->e, "LeasedAtUtc", 1000);
    renderq *f = faulty_open(s, SUITE_RETRY_S);
    interrupt_behind(f, 0);
    expect(f, RENDERQ_INTERRUPTED, renderq_reap(f, NULL, &reaped));
    assert_int_equal(reaped.dead, 1000);
    expect_ok(f, renderq_reap(f, NULL, &reaped));
    assert_int_equal(reaped.dead, 1);
    interrupt_behind(f, 1);
    expect(f, RENDERQ_INTERRUPTED, renderq_retry_dead(f, NULL, &retried));
    assert_int_equal(retried.retried, 1000);
    expect_ok(f, renderq_retry_dead(f, NULL, &retried));
    assert_int_equal(retried.retried, 1);
    renderq_close(f);
}

/* ---- stats ---- */

static void stats_count_each_state(void **state)
{
    suite *s = *state;
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    memset((char *)&counts + sizeof counts.size, 0x55, sizeof counts - sizeof counts.size);
    expect_ok(s->h, renderq_stats(s->h, NULL, &counts));
    static const renderq_counts none = RENDERQ_INIT(renderq_counts);
    assert_memory_equal(&counts, &none, sizeof counts);

    for (int state_of = RENDERQ_SCHEDULED; state_of <= RENDERQ_OTHER; state_of++)
        for (int i = 0; i < state_of; i++)
            put_in_state(s, (renderq_state)state_of);
    expect_ok(s->h, renderq_stats(s->h, NULL, &counts));
    assert_int_equal(counts.scheduled, RENDERQ_SCHEDULED);
    assert_int_equal(counts.queued, RENDERQ_QUEUED);
    assert_int_equal(counts.processing, RENDERQ_PROCESSING);
    assert_int_equal(counts.completed, RENDERQ_COMPLETED);
    assert_int_equal(counts.dead_letter, RENDERQ_DEAD_LETTER);
    assert_int_equal(counts.cancelled, RENDERQ_CANCELLED);
    assert_int_equal(counts.other, RENDERQ_OTHER);
    assert_int_equal(counts.run_out, 0);
}

static void stats_of_times(void **state)
{
    suite *s = *state;
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    static const int64_t ago_s[] = { 0, 50, 70, 250, 350, 850, 950 };
    for (size_t i = 0; i < count_of(ago_s); i++) {
        renderq_id id = put_in_state(s, RENDERQ_COMPLETED);
        shift(s, &id, "CompletedAtUtc", -1000 * ago_s[i]);
    }
    renderq_id oldest = put(s, "intro"), held = put_in_state(s, RENDERQ_PROCESSING);
    put(s, "younger");
    shift(s, &oldest, "CreatedAtUtc", -5000);
    shift(s, &held, "CreatedAtUtc", -90000);        /* older, but not waiting */
    run_out(s, &held, 0);
    put_in_state(s, RENDERQ_PROCESSING);
    expect_ok(s->h, renderq_stats(s->h, NULL, &counts));
    assert_int_equal(counts.completed_1m, 2);
    assert_int_equal(counts.completed_5m, 4);
    assert_int_equal(counts.completed_15m, 6);
    assert_int_equal(counts.completed, 7);
    assert_int_equal(counts.processing, 2);
    assert_int_equal(counts.run_out, 1);
    assert_in_range(counts.oldest_queued_ms, 5000, 30000);
    expect_status(s, &held, "Processing");
}

int run_operate(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(every_call_in_every_state),
        TEST(an_unknown_id),
        TEST(ids_may_be_in_lower_case),
        TEST(the_worker_of_a_cancelled_job_hears_it),
        TEST(settle_keeps_or_sets_the_url),
        TEST(settle_spares_a_renewed_lease),
        TEST(settle_does_not_spare_others),
        TEST(get_has_the_payload),
        TEST(purge_deletes_what_ended_long_ago),
        TEST(purge_refuses_what_is_too_young),
        TEST(purge_goes_on_until_all_are_gone),
        TEST(an_interrupt_ends_a_call_between_batches),
        TEST(stats_count_each_state),
        TEST(stats_of_times),
    };
    return cmocka_run_group_tests_name("operate", tests, NULL, NULL);
}
