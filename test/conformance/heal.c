/* heal.c: rules 4 and 9. Leases that run out: what counts, what comes back and when, and that claims see to it by
 * themselves. How long the jobs then wait is in retry.c; foreign leases are in foreign.c. */
#include "suite.h"

#include <stdlib.h>
#include <string.h>

#include "handle.h"

static renderq_reaped reap(suite *s)
{
    renderq_reaped counts = RENDERQ_INIT(renderq_reaped);
    counts.returned = counts.dead = 99;
    expect_ok(s->h, renderq_reap(s->h, NULL, &counts));
    assert_int_equal(counts.size, sizeof counts);
    return counts;
}

/* A job of many failures waits for so long, once its lease is reaped, that no claim of the test finds it due. */
#define FAILURES 10

static void make_patient(suite *s, const renderq_id *id)
{
    set_number(s, id, "MaxRetries", 100);
    set_number(s, id, "RetryCount", FAILURES);
}

static void a_started_job_counts(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro");
    run_out(s, &job->id, 0);
    renderq_reaped counts = reap(s);
    assert_int_equal(counts.returned, 1);
    assert_int_equal(counts.dead, 0);
    expect_status(s, &job->id, "Scheduled");
    expect_number(s, &job->id, "RetryCount", 1);
    expect_set(s, &job->id, "LastErrorMessage");
    renderq_job *read = get(s, &job->id);
    assert_non_null(strstr(read->last_error, "node-1"));    /* whose lease it was */
    renderq_job_free(read);
    counts = reap(s);
    assert_int_equal(counts.returned + counts.dead, 0);
    renderq_job_free(job);
}

static void an_unstarted_job_does_not_count(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "intro");
    set_number(s, &id, "RetryCount", 3);
    set_text(s, &id, "LastErrorMessage", "earlier");
    for (int i = 0; i < 5; i++) {
        renderq_job *job = take_for(s->h, NULL, 100, true);
        run_out(s, &id, 0);
        renderq_reaped counts = reap(s);
        assert_int_equal(counts.returned, 1);
        assert_int_equal(counts.dead, 0);
        expect_status(s, &id, "Queued");
        expect_number(s, &id, "RetryCount", 3);
        expect_text(s, &id, "LastErrorMessage", "earlier");
        expect_null(s, &id, "DueAtUtc");
        renderq_job_free(job);
    }
}

static void started_later_counts(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "intro");
    renderq_job *job = take_for(s->h, NULL, 100, true);
    expect_ok(s->h, renderq_start_many(s->h, &job, 1, "machine-7", 0, NULL));
    run_out(s, &id, 0);
    assert_int_equal(reap(s).returned, 1);
    expect_status(s, &id, "Scheduled");
    expect_number(s, &id, "RetryCount", 1);
    renderq_job_free(job);
}

/* A job that kills its worker ends in the dead letters. */
static void a_job_that_kills_its_worker(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "intro");
    for (int i = 1; i <= 4; i++) {
        renderq_job *job = take_this(s->h, &id);
        assert_int_equal(job->retry_count, i - 1);
        run_out(s, &id, 0);
        renderq_reaped counts = reap(s);
        assert_int_equal(counts.returned, i < 4);
        assert_int_equal(counts.dead, i == 4);
        expect_number(s, &id, "RetryCount", i);
        renderq_job_free(job);
        if (i < 4)
            make_due(s, &id);
    }
    expect_status(s, &id, "DeadLetter");
    expect_set(s, &id, "EndedAtUtc");
    expect_null(s, &id, "DueAtUtc");
}

static void a_lease_that_stands_is_left_alone(void **state)
{
    suite *s = *state;
    static const int leases[] = { 1, 60, 3600 };
    for (size_t i = 0; i < count_of(leases); i++) {
        renderq_id id = put(s, "intro");
        renderq_job *job = take_for(s->h, NULL, leases[i], false);
        same_id(&job->id, &id);
        if (leases[i] > 1)
            run_out(s, &id, -40000);                /* in forty seconds */
        int64_t ends = number_of(s, &id, "LeasedAtUtc") + (int64_t)leases[i] * 1000;
        char *before = snapshot(s, &id);
        renderq_reaped counts = reap(s);
        if (s->ops->now_ms(s->e) < ends) {          /* a second may be over by now */
            assert_int_equal(counts.returned + counts.dead, 0);
            expect_unchanged(s, &id, before);
        } else {
            assert_int_equal(leases[i], 1);
            free(before);
        }
        renderq_job_free(job);
        s->ops->clear(s->e);
    }
}

static void reap_ends_only_leases(void **state)
{
    suite *s = *state;
    renderq_id ids[RENDERQ_OTHER + 1];
    char *before[RENDERQ_OTHER + 1];
    for (int i = RENDERQ_SCHEDULED; i <= RENDERQ_OTHER; i++) {
        ids[i] = put_in_state(s, (renderq_state)i);
        if (i != RENDERQ_PROCESSING)
            set_number(s, &ids[i], "LockedAtUtc", 1000);
        before[i] = snapshot(s, &ids[i]);
    }
    renderq_reaped counts = reap(s);
    assert_int_equal(counts.returned + counts.dead, 0);
    for (int i = RENDERQ_SCHEDULED; i <= RENDERQ_OTHER; i++)
        expect_unchanged(s, &ids[i], before[i]);
}

/* ---- claims see to it ---- */

static void claim_with(renderq *h, bool no_reap, renderq_job **out)
{
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    options.no_reap = no_reap;
    renderq_status status = renderq_claim(h, &options, out);
    expect(h, *out ? RENDERQ_OK : RENDERQ_EMPTY, status);
}

/* The claim that finds nothing reaps, and asks once more: no watchdog is needed. */
static void an_empty_claim_reaps(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "intro");
    renderq *other = suite_open(s, "node-2", NULL);
    renderq_job *job = take_for(other, NULL, 100, true), *got;
    run_out(s, &id, 0);
    claim_with(s->h, true, &got);
    assert_null(got);
    expect_status(s, &id, "Processing");
    claim_with(s->h, false, &got);
    assert_non_null(got);
    same_id(&got->id, &id);
    assert_int_equal(got->retry_count, 0);
    expect(other, RENDERQ_LOST, renderq_release(other, job, 0));
    renderq_job_free(got);
    renderq_job_free(job);
    renderq_close(other);
}

static void an_empty_claim_schedules_crashed_jobs(void **state)
{
    suite *s = *state;
    renderq_job *got, *job = put_and_take(s, "intro");
    make_patient(s, &job->id);
    run_out(s, &job->id, 0);
    claim_with(s->h, false, &got);
    assert_null(got);
    expect_status(s, &job->id, "Scheduled");
    expect_number(s, &job->id, "RetryCount", FAILURES + 1);
    make_due(s, &job->id);
    claim_with(s->h, false, &got);
    same_id(&got->id, &job->id);
    renderq_job_free(got);
    renderq_job_free(job);
}

static void reaped_later(renderq *h, int64_t ms)
{
    for (size_t i = 0; i < count_of(h->reap_times); i++)
        if (h->reap_times[i].queue)
            h->reap_times[i].at_ms += ms;
}

/* At most once a handle in ten seconds; another handle has its own. */
static void not_more_often_than_every_ten_seconds(void **state)
{
    suite *s = *state;
    renderq_job *got;
    renderq_id id = put(s, "intro");
    renderq_job *job = take_for(s->h, NULL, 100, true);
    claim_with(s->h, false, &got);                  /* this one looks for leases, and finds none */
    assert_null(got);
    reaped_later(s->h, 40000);                      /* so that ten seconds are not over in what follows */
    run_out(s, &id, 0);
    claim_with(s->h, false, &got);
    assert_null(got);
    expect_status(s, &id, "Processing");

    renderq *other = suite_open(s, "node-2", NULL);
    claim_with(other, false, &got);
    assert_non_null(got);
    expect_ok(other, renderq_release(other, got, 60000));
    renderq_job_free(got);
    renderq_close(other);

    renderq_job_free(job);
    make_due(s, &id);
    job = take_for(s->h, NULL, 100, true);
    run_out(s, &id, 0);
    reaped_later(s->h, -40000 - 10000);             /* ten seconds later */
    claim_with(s->h, false, &got);
    assert_non_null(got);
    renderq_job_free(got);
    renderq_job_free(job);
}

/* A handle that finds work all the time reaps once a minute. */
static void a_busy_handle_reaps_too(void **state)
{
    suite *s = *state;
    renderq_job *got, *job = put_and_take(s, "crashed");
    make_patient(s, &job->id);
    run_out(s, &job->id, 0);
    put(s, "a");
    put(s, "b");
    put(s, "c");
    s->h->opened_at_ms += 60000;                    /* so that the minute is not over yet */
    claim_with(s->h, false, &got);
    assert_non_null(got);
    expect_status(s, &job->id, "Processing");
    renderq_job_free(got);

    s->h->opened_at_ms -= 60000 + 60000;            /* a minute later */
    claim_with(s->h, true, &got);
    assert_non_null(got);
    expect_status(s, &job->id, "Processing");       /* no_reap */
    renderq_job_free(got);
    claim_with(s->h, false, &got);
    assert_non_null(got);
    expect_status(s, &job->id, "Scheduled");
    renderq_job_free(got);
    renderq_job_free(job);
}

/* One claim ends at most a hundred leases, the oldest first; reap ends them all. */
static void a_claim_reaps_at_most_a_hundred(void **state)
{
    suite *s = *state;
    renderq_new_job jobs[130];
    renderq_job *taken[100], *got;
    size_t n = 0, all = 0;
    for (size_t i = 0; i < count_of(jobs); i++) {
        jobs[i] = (renderq_new_job)RENDERQ_INIT(renderq_new_job);
        jobs[i].composition_id = "intro";
        jobs[i].payload_json = "{}";
    }
    for (size_t i = 0; i < count_of(jobs); i++)
        jobs[i].max_retries = 100;
    expect_ok(s->h, renderq_enqueue_many(s->h, jobs, count_of(jobs), NULL));
    s->ops->write_all(s->e, "RetryCount", FAILURES);
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    options.no_reap = 1;
    while (renderq_claim_many(s->h, &options, taken, 100, &n) == RENDERQ_OK)
        for (size_t i = 0; i < n; i++, all++) {
            run_out(s, &taken[i]->id, all < 30 ? 0 : 60000);
            renderq_job_free(taken[i]);
        }
    assert_int_equal(all, 130);

    claim_with(s->h, false, &got);
    assert_null(got);
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    expect_ok(s->h, renderq_stats(s->h, NULL, &counts));
    assert_int_equal(counts.scheduled, 100);
    assert_int_equal(counts.processing, 30);
    assert_int_equal(counts.run_out, 30);
    renderq_reaped reaped = reap(s);
    assert_int_equal(reaped.returned, 30);
}

static void a_renewed_lease_survives(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro");
    run_out(s, &job->id, 0);
    expect_ok(s->h, renderq_renew(s->h, job, NULL));
    renderq_reaped counts = reap(s);
    assert_int_equal(counts.returned + counts.dead, 0);
    expect_ok(s->h, renderq_complete(s->h, job, NULL));
    renderq_job_free(job);
}

/* Jobs that share a worker with one that crashes it are not dragged along. */
static void neighbours_do_not_count(void **state)
{
    suite *s = *state;
    renderq_job *jobs[3];
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    size_t n = 0;
    for (int i = 0; i < 3; i++)
        put(s, "intro");
    options.unstarted = 1;
    expect_ok(s->h, renderq_claim_many(s->h, &options, jobs, 3, &n));
    assert_int_equal(n, 3);
    expect_ok(s->h, renderq_start_many(s->h, &jobs[1], 1, NULL, 0, NULL));
    for (int i = 0; i < 3; i++)
        run_out(s, &jobs[i]->id, 0);
    assert_int_equal(reap(s).returned, 3);
    for (int i = 0; i < 3; i++) {
        expect_status(s, &jobs[i]->id, i == 1 ? "Scheduled" : "Queued");
        expect_number(s, &jobs[i]->id, "RetryCount", i == 1);
        renderq_job_free(jobs[i]);
    }
}

int run_heal(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(a_started_job_counts),
        TEST(an_unstarted_job_does_not_count),
        TEST(started_later_counts),
        TEST(a_job_that_kills_its_worker),
        TEST(a_lease_that_stands_is_left_alone),
        TEST(reap_ends_only_leases),
        TEST(an_empty_claim_reaps),
        TEST(an_empty_claim_schedules_crashed_jobs),
        TEST(not_more_often_than_every_ten_seconds),
        TEST(a_busy_handle_reaps_too),
        TEST(a_claim_reaps_at_most_a_hundred),
        TEST(a_renewed_lease_survives),
        TEST(neighbours_do_not_count),
    };
    return cmocka_run_group_tests_name("heal", tests, NULL, NULL);
}
