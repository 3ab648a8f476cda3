/* structs.c: programs of another age: structs smaller or larger than the library's, and arrays of them. */
#include "suite.h"

#include <string.h>

/* A struct as a newer header would have it: one more field behind ours. */
#define NEWER(type) struct { type ours; int64_t field; }

static void size_that_is_not_set(void **state)
{
    suite *s = *state;
    renderq *h = NULL;
    renderq_job *job = put_and_take(s, "intro"), *out;
    renderq_options options = { .size = 0 };
    renderq_new_job new_job = { .size = 0, .composition_id = "x", .payload_json = "{}" };
    renderq_enqueued each = { .size = 0 };
    renderq_claim_options claim = { .size = 0 };
    renderq_result result = { .size = 0, .job = job };
    renderq_filter filter = { .size = 0 };
    renderq_retried retried = { .size = 0 };
    renderq_reaped reaped = { .size = 0 };
    renderq_counts counts = { .size = 0 };
    char *before = snapshot_all(s);
    renderq_status status = renderq_open(s->url, &options, &h);
    expect_invalid(h, "renderq_options", status);
    renderq_close(h);
    expect_invalid(s->h, "renderq_new_job", renderq_enqueue(s->h, &new_job, NULL));
    expect_invalid(s->h, "renderq_new_job", renderq_enqueue_many(s->h, &new_job, 1, NULL));
    new_job.size = sizeof new_job;
    expect_invalid(s->h, "renderq_enqueued", renderq_enqueue_many(s->h, &new_job, 1, &each));
    expect_invalid(s->h, "renderq_claim_options", renderq_claim(s->h, &claim, &out));
    expect_invalid(s->h, "renderq_result", renderq_complete_many(s->h, &result, 1));
    expect_invalid(s->h, "renderq_filter", renderq_list(s->h, &filter, NULL, NULL));
    expect_invalid(s->h, "renderq_retried", renderq_retry_dead(s->h, NULL, &retried));
    expect_invalid(s->h, "renderq_reaped", renderq_reap(s->h, NULL, &reaped));
    expect_invalid(s->h, "renderq_counts", renderq_stats(s->h, NULL, &counts));
    /* Not set at all, but whatever was on the stack. */
    claim.size = (size_t)-1;
    expect_invalid(s->h, "renderq_claim_options", renderq_claim(s->h, &claim, &out));
    claim.size = 3;
    expect_invalid(s->h, "renderq_claim_options", renderq_claim(s->h, &claim, &out));
    expect_all_unchanged(s, before);
    renderq_job_free(job);
}

static int count(void *arg, const renderq_job *job)
{
    (void)job;
    ++*(int *)arg;
    return 0;
}

/* Larger with a zero tail: accepted, and the tail stays as it is. */
static void larger_structs(void **state)
{
    suite *s = *state;
    NEWER(renderq_new_job) new_job = { .ours = { .composition_id = "x", .payload_json = "{}" } };
    NEWER(renderq_claim_options) claim = { .ours = { .worker = "newer" } };
    NEWER(renderq_filter) filter = { .ours = { .worker = "newer" } };
    NEWER(renderq_reaped) reaped = { .ours = { .returned = 7 } };
    NEWER(renderq_retried) retried = { .ours = { .retried = 7 } };
    NEWER(renderq_counts) counts = { .ours = { .queued = 7 } };
    NEWER(renderq_options) options = { .ours = { .worker = "newer" } };
    NEWER(renderq_result) result = { .field = 0 };
    renderq *h = NULL;
    renderq_job *job = NULL;
    int listed = 0;
    options.ours.size = sizeof options;
    new_job.ours.size = sizeof new_job;
    claim.ours.size = sizeof claim;
    filter.ours.size = sizeof filter;
    reaped.ours.size = sizeof reaped;
    retried.ours.size = sizeof retried;
    counts.ours.size = sizeof counts;
    result.ours.size = sizeof result;
    expect_ok(h, renderq_open(s->url, &options.ours, &h));
    renderq_close(h);
    expect_ok(s->h, renderq_enqueue(s->h, &new_job.ours, NULL));
    expect_ok(s->h, renderq_claim(s->h, &claim.ours, &job));
    expect_text(s, &job->id, "WorkerNodeId", "newer");
    expect_ok(s->h, renderq_list(s->h, &filter.ours, count, &listed));
    assert_int_equal(listed, 1);
    expect_ok(s->h, renderq_reap(s->h, NULL, &reaped.ours));
    assert_int_equal(reaped.ours.returned, 0);
    expect_ok(s->h, renderq_retry_dead(s->h, NULL, &retried.ours));
    assert_int_equal(retried.ours.retried, 0);
    expect_ok(s->h, renderq_stats(s->h, NULL, &counts.ours));
    assert_int_equal(counts.ours.queued, 0);
    assert_int_equal(counts.ours.processing, 1);
    assert_int_equal(counts.ours.size, sizeof counts);
    assert_int_equal(counts.field, 0);
    result.ours.job = job;
    result.ours.status = RENDERQ_LOST;
    expect_ok(s->h, renderq_complete_many(s->h, &result.ours, 1));
    assert_int_equal(result.ours.status, RENDERQ_OK);
    expect_status(s, &job->id, "Completed");
    renderq_job_free(job);
}

/* A field that this library does not know is set: it cannot do what is asked. */
static void larger_structs_with_a_field_set(void **state)
{
    suite *s = *state;
    NEWER(renderq_new_job) new_job = { .ours = { .composition_id = "x", .payload_json = "{}" }, .field = 1 };
    NEWER(renderq_claim_options) claim = { .field = INT64_MIN };
    NEWER(renderq_filter) filter = { .field = 1 };
    NEWER(renderq_options) options = { .field = 1 };
    NEWER(renderq_result) result = { .field = 1 };
    renderq *h = NULL;
    renderq_job *job = put_and_take(s, "intro"), *out = NULL;
    char *before = snapshot_all(s);
    int listed = 0;
    options.ours.size = sizeof options;
    new_job.ours.size = sizeof new_job;
    claim.ours.size = sizeof claim;
    filter.ours.size = sizeof filter;
    result.ours.size = sizeof result;
    result.ours.job = job;
    renderq_status status = renderq_open(s->url, &options.ours, &h);
    expect_invalid(h, "renderq_options", status);
    renderq_close(h);
    expect_invalid(s->h, "renderq_new_job", renderq_enqueue(s->h, &new_job.ours, NULL));
    expect_invalid(s->h, "renderq_claim_options", renderq_claim(s->h, &claim.ours, &out));
    expect_invalid(s->h, "renderq_filter", renderq_list(s->h, &filter.ours, count, &listed));
    expect_invalid(s->h, "renderq_result", renderq_complete_many(s->h, &result.ours, 1));
    expect_all_unchanged(s, before);
    renderq_job_free(job);
}

/* Smaller: what an older header lacked is zero, and nothing behind it is read or written. */
static void smaller_structs(void **state)
{
    suite *s = *state;
    renderq_new_job new_job = { .size = offsetof(renderq_new_job, output_url), .composition_id = "x",
                                .payload_json = "{}", .output_url = (const char *)1, .dedup_key = (const char *)1,
                                .priority = 77, .max_retries = -99, .delay_ms = -5 };
    renderq_id id;
    expect_ok(s->h, renderq_enqueue(s->h, &new_job, &id));
    expect_number(s, &id, "Priority", 0);
    expect_nulls(s, &id, "OutputUrl", "DedupKey", "MaxRetries", "DueAtUtc");

    renderq_claim_options claim = { .size = offsetof(renderq_claim_options, lease_s), .worker = "older",
                                    .lease_s = -5, .wait_ms = -5, .unstarted = 1 };
    renderq_job *job = NULL;
    expect_ok(s->h, renderq_claim(s->h, &claim, &job));
    expect_number(s, &id, "LeaseSeconds", RENDERQ_LEASE_DEFAULT_S);
    expect_text(s, &id, "WorkerNodeId", "older");
    expect_set(s, &id, "StartedAtUtc");

    renderq_counts counts;
    memset(&counts, 0x55, sizeof counts);
    counts.size = offsetof(renderq_counts, completed);
    expect_ok(s->h, renderq_stats(s->h, NULL, &counts));
    assert_int_equal(counts.processing, 1);
    assert_int_equal(counts.size, offsetof(renderq_counts, completed));
    assert_int_equal(counts.completed, INT64_C(0x5555555555555555));

    renderq_reaped reaped = { .size = offsetof(renderq_reaped, dead), .dead = 55 };
    run_out(s, &id, 0);
    expect_ok(s->h, renderq_reap(s->h, NULL, &reaped));
    assert_int_equal(reaped.returned, 1);
    assert_int_equal(reaped.dead, 55);
    renderq_job_free(job);

    renderq_options options = { .size = offsetof(renderq_options, connect_s), .worker = "older", .connect_s = -77,
                                .retry_s = -77 };
    renderq *h = NULL;
    expect_ok(h, renderq_open(s->url, &options, &h));
    renderq_close(h);
}

/* ---- arrays step by the size of their first item ---- */

static void arrays_of_larger_structs(void **state)
{
    suite *s = *state;
    enum { N = 3 };
    NEWER(renderq_new_job) jobs[N];
    NEWER(renderq_enqueued) each[N];
    NEWER(renderq_result) results[N];
    renderq_job *taken[N];
    size_t n;
    memset(jobs, 0, sizeof jobs);
    memset(each, 0, sizeof each);
    memset(results, 0, sizeof results);
    for (int i = 0; i < N; i++) {
        jobs[i].ours.size = sizeof jobs[i];
        jobs[i].ours.composition_id = i == 0 ? "a" : i == 1 ? "b" : "c";
        jobs[i].ours.payload_json = "{}";
        each[i].ours.status = RENDERQ_FAILED;
    }
    each[0].ours.size = sizeof each[0];
    expect_ok(s->h, renderq_enqueue_many(s->h, &jobs[0].ours, N, &each[0].ours));
    for (int i = 0; i < N; i++) {
        assert_int_equal(each[i].ours.status, RENDERQ_OK);
        assert_int_equal(each[i].field, 0);
        expect_text(s, &each[i].ours.id, "CompositionId", jobs[i].ours.composition_id);
    }

    expect_ok(s->h, renderq_claim_many(s->h, NULL, taken, N, &n));
    assert_int_equal(n, N);
    expect_ok(s->h, renderq_cancel(s->h, NULL, &taken[1]->id));
    for (int i = 0; i < N; i++) {
        results[i].ours.job = taken[i];
        results[i].ours.status = RENDERQ_FAILED;
    }
    results[0].ours.size = sizeof results[0];
    expect(s->h, RENDERQ_LOST, renderq_complete_many(s->h, &results[0].ours, N));
    for (int i = 0; i < N; i++) {
        assert_int_equal(results[i].ours.status, i == 1 ? RENDERQ_LOST : RENDERQ_OK);
        expect_status(s, &taken[i]->id, i == 1 ? "Cancelled" : "Completed");
        renderq_job_free(taken[i]);
    }

    jobs[2].field = 1;
    expect_invalid(s->h, "renderq_new_job", renderq_enqueue_many(s->h, &jobs[0].ours, N, &each[0].ours));
    assert_int_equal(each[0].ours.status, RENDERQ_EMPTY);
    assert_int_equal(each[1].ours.status, RENDERQ_EMPTY);
    assert_int_equal(each[2].ours.status, RENDERQ_INVALID);
    assert_int_equal(count_rows(s), N);
}

static void arrays_of_smaller_structs(void **state)
{
    suite *s = *state;
    enum { N = 3 };
    /* As an older header would have them, without what comes behind payload_len. */
    struct older_job {
        size_t size;
        const char *queue, *composition_id, *payload_json;
        size_t payload_len;
    } jobs[N];
    struct older_enqueued {
        size_t size;
        renderq_status status;
    } each[N];
    for (int i = 0; i < N; i++) {
        jobs[i] = (struct older_job){ sizeof jobs[i], NULL, i == 2 ? "c" : "x", "{}", 0 };
        each[i] = (struct older_enqueued){ sizeof each[i], RENDERQ_FAILED };
    }
    assert_int_equal(sizeof jobs[0], offsetof(renderq_new_job, output_url));
    expect_ok(s->h, renderq_enqueue_many(s->h, (const renderq_new_job *)(const void *)jobs, N,
                                         (renderq_enqueued *)(void *)each));
    for (int i = 0; i < N; i++)
        assert_int_equal(each[i].status, RENDERQ_OK);
    renderq_id ids[N + 1];
    assert_int_equal(s->ops->ids(s->e, ids, N + 1), N);
    expect_text(s, &ids[2], "CompositionId", "c");
}

int run_structs(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(size_that_is_not_set),
        TEST(larger_structs),
        TEST(larger_structs_with_a_field_set),
        TEST(smaller_structs),
        TEST(arrays_of_larger_structs),
        TEST(arrays_of_smaller_structs),
    };
    return cmocka_run_group_tests_name("structs", tests, NULL, NULL);
}
