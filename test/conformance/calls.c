/* calls.c: the scenes of calls.h. */
#include "calls.h"

#include <string.h>

static const renderq_new_job plain = { .size = sizeof plain, .composition_id = "intro", .payload_json = "{}" };
static const renderq_new_job keyed = { .size = sizeof keyed, .composition_id = "intro", .payload_json = "{}",
                                       .dedup_key = "order-7" };

void scene_free(scene *c)
{
    for (size_t i = 0; i < count_of(c->jobs); i++)
        renderq_job_free(c->jobs[i]);
}

/* ---- what is there before ---- */

static void nothing(scene *c)
{
    (void)c;
}

static void n_queued(scene *c, size_t n)
{
    for (c->n = 0; c->n < n; c->n++)
        c->ids[c->n] = put(c->s, "intro");
}

static void one_queued(scene *c)
{
    n_queued(c, 1);
}

static void three_queued(scene *c)
{
    n_queued(c, 3);
}

static void two_taken(scene *c, bool unstarted)
{
    n_queued(c, 2);
    for (size_t i = 0; i < 2; i++) {
        c->jobs[i] = take_for(c->s->h, NULL, 1000, unstarted);
        same_id(&c->jobs[i]->id, &c->ids[i]);
        shift(c->s, &c->ids[i], "LockedAtUtc", -500000);
        shift(c->s, &c->ids[i], "LeasedAtUtc", -500000);
    }
}

static void two_started(scene *c)
{
    two_taken(c, false);
}

static void two_unstarted(scene *c)
{
    two_taken(c, true);
}

static void one_at_its_last_try(scene *c)
{
    one_queued(c);
    set_number(c->s, &c->ids[0], "RetryCount", 3);
    c->jobs[0] = take(c->s->h);
}

static void one_dead(scene *c)
{
    c->ids[0] = put_in_state(c->s, RENDERQ_DEAD_LETTER);
}

/* The last two have one key, so only one of them can live again. */
static void three_dead(scene *c)
{
    renderq_new_job job = plain;
    for (c->n = 0; c->n < 3; c->n++) {
        job.dedup_key = c->n > 0 ? "order-7" : NULL;
        c->ids[c->n] = put_job(c->s, &job);
        renderq_job *taken = take_this(c->s->h, &c->ids[c->n]);
        expect_ok(c->s->h, renderq_fail(c->s->h, taken, "dead", RENDERQ_NEVER));
        renderq_job_free(taken);
    }
}

static void two_run_out(scene *c)
{
    two_started(c);
    set_number(c->s, &c->ids[1], "RetryCount", 3);
    for (size_t i = 0; i < 2; i++)
        run_out(c->s, &c->ids[i], 0);
}

static void two_old(scene *c)
{
    c->ids[0] = put_in_state(c->s, RENDERQ_COMPLETED);
    c->ids[1] = put_in_state(c->s, RENDERQ_CANCELLED);
    c->ids[2] = put_in_state(c->s, RENDERQ_COMPLETED);
    shift(c->s, &c->ids[0], "CompletedAtUtc", -100000);
    shift(c->s, &c->ids[1], "EndedAtUtc", -100000);
}

/* ---- enqueue ---- */

static renderq_status enqueue_one(scene *c, const renderq_new_job *job)
{
    c->ids[0] = (renderq_id){ "" };
    renderq_status status = renderq_enqueue(c->f, job, &c->ids[0]);
    assert_int_equal(strlen(c->ids[0].text), status == RENDERQ_OK || status == RENDERQ_UNCERTAIN ? 36 : 0);
    return status;
}

static renderq_status enqueue(scene *c)
{
    return enqueue_one(c, &plain);
}

static renderq_status enqueue_keyed(scene *c)
{
    return enqueue_one(c, &keyed);
}

/* The id that came back, after UNCERTAIN too, is the row's. */
static void one_row(scene *c)
{
    assert_int_equal(count_rows(c->s), 1);
    expect_status(c->s, &c->ids[0], "Queued");
    expect_number(c->s, &c->ids[0], "RetryCount", 0);
}

static renderq_status enqueue_many(scene *c)
{
    const renderq_new_job jobs[] = { plain, keyed, keyed };
    for (size_t i = 0; i < 3; i++)
        c->made[i] = (renderq_enqueued){ .size = sizeof c->made[i], .status = RENDERQ_FAILED };
    renderq_status status = renderq_enqueue_many(c->f, jobs, 3, c->made);
    for (size_t i = 0; i < 3 && status != RENDERQ_OK; i++)
        assert_int_equal(c->made[i].status, status);
    return status;
}

static void two_rows(scene *c)
{
    renderq_id ids[4];
    assert_int_equal(c->s->ops->ids(c->s->e, ids, 4), 2);
    for (size_t i = 0; i < 2; i++) {
        expect_status(c->s, &ids[i], "Queued");
        same_id(&ids[i], &c->made[i].id);
    }
}

static void two_made(scene *c, bool exact)
{
    (void)exact;
    assert_int_equal(c->made[0].status, RENDERQ_OK);
    assert_int_equal(c->made[1].status, RENDERQ_OK);
    assert_int_equal(c->made[2].status, RENDERQ_DUPLICATE);
    same_id(&c->made[2].id, &c->made[1].id);
}

/* ---- claim ---- */

static renderq_status claim(scene *c)
{
    renderq_status status = renderq_claim(c->f, NULL, &c->jobs[0]);
    assert_true((c->jobs[0] != NULL) == (status == RENDERQ_OK));
    return status;
}

static renderq_status claim_many(scene *c)
{
    size_t n = 77;
    c->jobs[0] = c->jobs[1] = (renderq_job *)(void *)c;
    renderq_status status = renderq_claim_many(c->f, NULL, c->jobs, 2, &n);
    assert_int_equal(n, status == RENDERQ_OK ? 2 : 0);
    for (size_t i = n; i < 2; i++)
        assert_null(c->jobs[i]);
    return status;
}

static void leased(scene *c, size_t n)
{
    for (size_t i = 0; i < c->n; i++) {
        expect_status(c->s, &c->ids[i], i < n ? "Processing" : "Queued");
        expect_number(c->s, &c->ids[i], "RetryCount", 0);
        expect_null_at(c->s, &c->ids[i], "StartedAtUtc", i >= n, __FILE__, __LINE__);
    }
}

static void one_leased(scene *c)
{
    leased(c, 1);
}

static void two_leased(scene *c)
{
    leased(c, 2);
}

static void leases_are_the_rows(scene *c, bool exact)
{
    (void)exact;
    for (size_t i = 0; i < count_of(c->jobs) && c->jobs[i]; i++) {
        same_id(&c->jobs[i]->id, &c->ids[i]);
        expect_text(c->s, &c->ids[i], "LeaseToken", c->jobs[i]->lease.text);
        assert_string_equal(c->jobs[i]->payload_json, "{}");
        assert_in_range(renderq_lease_left_ms(c->jobs[i]), 300000, 1001000);
    }
}

/* ---- start and renew ---- */

static renderq_status start(scene *c, const char *worker)
{
    renderq_status each[2] = { RENDERQ_LOST, RENDERQ_LOST };
    renderq_id before = c->jobs[0]->lease;
    renderq_status status = renderq_start_many(c->f, c->jobs, 2, worker, 0, each);
    assert_int_equal(each[0], status);
    assert_int_equal(each[1], status);
    if (status != RENDERQ_OK) {
        same_id(&c->jobs[0]->lease, &before);
        assert_int_equal(c->jobs[0]->started_at_ms, 0);
    }
    return status;
}

static renderq_status start_many(scene *c)
{
    return start(c, NULL);
}

static renderq_status hand_out(scene *c)
{
    return start(c, "machine-7");
}

static void expect_renewed(scene *c, size_t n)
{
    int64_t now = c->s->ops->now_ms(c->s->e);
    for (size_t i = 0; i < n; i++) {
        assert_in_range(number_of(c->s, &c->ids[i], "LockedAtUtc"), now - 400000, now + 1000);
        expect_number(c->s, &c->ids[i], "LeasedAtUtc", number_of(c->s, &c->ids[i], "LockedAtUtc"));
        expect_status(c->s, &c->ids[i], "Processing");
    }
}

static void two_rows_started(scene *c)
{
    expect_renewed(c, 2);
    expect_set(c->s, &c->ids[0], "StartedAtUtc");
    expect_set(c->s, &c->ids[1], "StartedAtUtc");
}

static void two_rows_handed_out(scene *c)
{
    two_rows_started(c);
    expect_text(c->s, &c->ids[0], "WorkerNodeId", "machine-7");
    expect_text(c->s, &c->ids[1], "WorkerNodeId", "machine-7");
}

static renderq_status renew(scene *c)
{
    return renderq_renew(c->f, c->jobs[0], "half");
}

static void one_row_renewed(scene *c)
{
    expect_renewed(c, 1);
    expect_text(c->s, &c->ids[0], "Progress", "half");
}

static renderq_status renew_many(scene *c)
{
    renderq_status each[2] = { RENDERQ_LOST, RENDERQ_LOST };
    renderq_status status = renderq_renew_many(c->f, c->jobs, 2, each);
    assert_int_equal(each[0], status);
    assert_int_equal(each[1], status);
    return status;
}

static void two_rows_renewed(scene *c)
{
    expect_renewed(c, 2);
}

/* ---- complete, fail, release ---- */

static renderq_status complete(scene *c)
{
    return renderq_complete(c->f, c->jobs[0], "out");
}

static void one_row_completed(scene *c)
{
    expect_status(c->s, &c->ids[0], "Completed");
    expect_text(c->s, &c->ids[0], "OutputUrl", "out");
}

static renderq_status complete_many(scene *c)
{
    renderq_result results[2] = { RENDERQ_INIT(renderq_result), RENDERQ_INIT(renderq_result) };
    for (size_t i = 0; i < 2; i++) {
        results[i].job = c->jobs[i];
        results[i].output_url = "out";
        results[i].status = RENDERQ_LOST;
    }
    renderq_status status = renderq_complete_many(c->f, results, 2);
    assert_int_equal(results[0].status, status);
    assert_int_equal(results[1].status, status);
    return status;
}

static void two_rows_completed(scene *c)
{
    one_row_completed(c);
    expect_status(c->s, &c->ids[1], "Completed");
}

static renderq_status fail_later(scene *c)
{
    return renderq_fail(c->f, c->jobs[0], "broke", 60000);
}

static void one_row_failed(scene *c)
{
    expect_status(c->s, &c->ids[0], "Scheduled");
    expect_number(c->s, &c->ids[0], "RetryCount", 1);
    expect_text(c->s, &c->ids[0], "LastErrorMessage", "broke");
}

static void one_row_dead(scene *c)
{
    expect_status(c->s, &c->ids[0], "DeadLetter");
    expect_number(c->s, &c->ids[0], "RetryCount", 4);
}

static renderq_status release(scene *c)
{
    return renderq_release(c->f, c->jobs[0], 0);
}

static void one_row_released(scene *c)
{
    expect_status(c->s, &c->ids[0], "Queued");
    expect_number(c->s, &c->ids[0], "RetryCount", 0);
    expect_null(c->s, &c->ids[0], "StartedAtUtc");
}

/* ---- reading ---- */

static renderq_status job_resume(scene *c)
{
    renderq_job *copy = c->jobs[0];
    renderq_status status = renderq_job_resume(c->f, NULL, &c->ids[0], &c->jobs[0]->lease, &copy);
    assert_true((copy != NULL) == (status == RENDERQ_OK));
    if (copy)
        same_id(&copy->lease, &c->jobs[0]->lease);
    renderq_job_free(copy);
    return status;
}

static renderq_status get_one(scene *c)
{
    renderq_job *job = (renderq_job *)(void *)c;
    renderq_status status = renderq_get(c->f, NULL, &c->ids[0], &job);
    assert_true((job != NULL) == (status == RENDERQ_OK));
    renderq_job_free(job);
    return status;
}

static int see(void *arg, const renderq_job *job)
{
    scene *c = arg;
    same_id(&job->id, &c->ids[c->seen]);
    c->seen++;
    return 0;
}

static renderq_status list(scene *c)
{
    c->seen = 0;
    return renderq_list(c->f, NULL, see, c);
}

static void three_seen_once(scene *c, bool exact)
{
    (void)exact;
    assert_int_equal(c->seen, 3);
}

static renderq_status stats(scene *c)
{
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    renderq_status status = renderq_stats(c->f, NULL, &counts);
    assert_int_equal(counts.queued, status == RENDERQ_OK ? 3 : 0);
    return status;
}

static renderq_status create(scene *c)
{
    return renderq_create(c->f, NULL);
}

/* ---- the operator's ---- */

static renderq_status cancel(scene *c)
{
    return renderq_cancel(c->f, NULL, &c->ids[0]);
}

static void one_row_cancelled(scene *c)
{
    expect_status(c->s, &c->ids[0], "Cancelled");
}

static renderq_status retry(scene *c)
{
    renderq_id holder = { "-" };
    renderq_status status = renderq_retry(c->f, NULL, &c->ids[0], &holder);
    assert_string_equal(holder.text, "-");
    return status;
}

static void one_row_queued(scene *c)
{
    expect_status(c->s, &c->ids[0], "Queued");
    expect_number(c->s, &c->ids[0], "RetryCount", 0);
}

static renderq_status settle(scene *c)
{
    return renderq_settle(c->f, NULL, &c->ids[0], "out", 0);
}

static renderq_status retry_dead(scene *c)
{
    renderq_retried counts = RENDERQ_INIT(renderq_retried);
    renderq_status status = renderq_retry_dead(c->f, NULL, &counts);
    c->counts[0] = counts.retried;
    c->counts[1] = counts.duplicates;
    return status;
}

static void two_rows_queued(scene *c)
{
    expect_status(c->s, &c->ids[0], "Queued");
    expect_status(c->s, &c->ids[1], "Queued");
    expect_status(c->s, &c->ids[2], "DeadLetter");
}

static renderq_status reap(scene *c)
{
    renderq_reaped counts = RENDERQ_INIT(renderq_reaped);
    renderq_status status = renderq_reap(c->f, NULL, &counts);
    c->counts[0] = counts.returned;
    c->counts[1] = counts.dead;
    return status;
}

static void two_rows_reaped(scene *c)
{
    expect_status(c->s, &c->ids[0], "Scheduled");
    expect_number(c->s, &c->ids[0], "RetryCount", 1);
    expect_status(c->s, &c->ids[1], "DeadLetter");
    expect_number(c->s, &c->ids[1], "RetryCount", 4);
}

static void one_and_one(scene *c, bool exact)
{
    assert_true(c->counts[0] <= 1 && c->counts[1] <= 1);
    if (exact)
        assert_int_equal(c->counts[0] + c->counts[1], 2);
}

static renderq_status purge(scene *c)
{
    return renderq_purge(c->f, NULL, 60, &c->counts[0]);
}

static void one_row_left(scene *c)
{
    assert_int_equal(count_rows(c->s), 1);
    assert_true(row_there(c->s, &c->ids[2]));
}

static void two_deleted(scene *c, bool exact)
{
    assert_true(c->counts[0] <= 2);
    if (exact)
        assert_int_equal(c->counts[0], 2);
}

const scene_call scene_calls[] = {
    { "enqueue", nothing, enqueue, one_row, NULL, 0, false, true },
    { "enqueue with a key", nothing, enqueue_keyed, one_row, NULL, 0, false, true },
    { "enqueue_many", nothing, enqueue_many, two_rows, two_made, 0, false, false },
    { "claim", one_queued, claim, one_leased, leases_are_the_rows, 0, true, true },
    { "claim_many", three_queued, claim_many, two_leased, leases_are_the_rows, 0, true, false },
    { "start_many", two_unstarted, start_many, two_rows_started, leases_are_the_rows, 0, false, false },
    { "start_many to another", two_unstarted, hand_out, two_rows_handed_out, leases_are_the_rows, 0, false, true },
    { "renew", two_started, renew, one_row_renewed, NULL, 0, false, false },
    { "renew_many", two_started, renew_many, two_rows_renewed, leases_are_the_rows, 0, false, false },
    { "complete", two_started, complete, one_row_completed, NULL, 0, false, true },
    { "complete_many", two_started, complete_many, two_rows_completed, NULL, 0, false, true },
    { "fail", two_started, fail_later, one_row_failed, NULL, 0, false, true },
    { "fail at the last try", one_at_its_last_try, fail_later, one_row_dead, NULL, 0, false, true },
    { "release", two_started, release, one_row_released, NULL, 0, false, true },
    { "job_resume", two_started, job_resume, NULL, NULL, 0, false, false },
    { "get", one_queued, get_one, NULL, NULL, 0, false, false },
    { "list", three_queued, list, NULL, three_seen_once, 0, false, false },
    { "stats", three_queued, stats, NULL, NULL, 0, false, false },
    { "create", three_queued, create, NULL, NULL, 0, false, false },
    { "cancel", two_started, cancel, one_row_cancelled, NULL, 0, false, false },
    { "retry", one_dead, retry, one_row_queued, NULL, 0, false, true },
    { "settle", two_started, settle, one_row_completed, NULL, 0, false, false },
    { "retry_dead", three_dead, retry_dead, two_rows_queued, NULL, 1, false, false },
    { "reap", two_run_out, reap, two_rows_reaped, one_and_one, 0, false, false },
    { "purge", two_old, purge, one_row_left, two_deleted, 0, false, false },
};
const size_t n_scene_calls = count_of(scene_calls);
