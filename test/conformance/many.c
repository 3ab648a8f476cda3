/* many.c: batches: the order in which jobs are taken, all or none, one status an item, and the limits. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fill(renderq_new_job *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        jobs[i] = (renderq_new_job)RENDERQ_INIT(renderq_new_job);
        jobs[i].composition_id = "intro";
        jobs[i].payload_json = "{}";
    }
}

static void fill_each(renderq_enqueued *each, size_t n)
{
    for (size_t i = 0; i < n; i++)
        each[i] = (renderq_enqueued){ .size = sizeof each[i], .status = RENDERQ_FAILED };
}

/* n jobs, claimed in one go. */
static void put_and_take_many(suite *s, renderq_job **taken, size_t n, bool unstarted)
{
    renderq_new_job *jobs = calloc(n, sizeof *jobs);
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    size_t got = 0;
    fill(jobs, n);
    expect_ok(s->h, renderq_enqueue_many(s->h, jobs, n, NULL));
    options.unstarted = unstarted;
    expect_ok(s->h, renderq_claim_many(s->h, &options, taken, n, &got));
    assert_int_equal(got, n);
    free(jobs);
}

static void free_many(renderq_job **taken, size_t n)
{
    for (size_t i = 0; i < n; i++)
        renderq_job_free(taken[i]);
}

/* ---- order ---- */

static void highest_priority_then_oldest(void **state)
{
    suite *s = *state;
    static const int priorities[] = { 0, 5, -1, 5, 0, 100, -1, 100 };
    static const size_t order[] = { 5, 7, 1, 3, 0, 4, 2, 6 };
    renderq_id ids[count_of(priorities)];
    for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
        for (size_t i = 0; i < count_of(priorities); i++) {
            renderq_new_job job = RENDERQ_INIT(renderq_new_job);
            job.composition_id = "intro";
            job.payload_json = "{}";
            job.priority = priorities[i];
            ids[i] = put_job(s, &job);
        }
        renderq_job *taken[20];
        size_t n = 0;
        if (one_by_one)
            for (; n < count_of(ids); n++)
                taken[n] = take(s->h);
        else
            expect_ok(s->h, renderq_claim_many(s->h, NULL, taken, count_of(taken), &n));
        assert_int_equal(n, count_of(ids));
        for (size_t i = 0; i < n; i++)
            same_id(&taken[i]->id, &ids[order[i]]);
        free_many(taken, n);
        s->ops->clear(s->e);
    }
}

/* Within one instant the order of the batch holds. */
static void first_in_first_out_within_an_instant(void **state)
{
    suite *s = *state;
    enum { N = 60 };
    renderq_new_job jobs[N];
    renderq_enqueued each[N];
    suite_needs(s, ENGINE_SORTS_IDS);
    fill(jobs, N);
    fill_each(each, N);
    expect_ok(s->h, renderq_enqueue_many(s->h, jobs, N, each));
    s->ops->write_all(s->e, "CreatedAtUtc", s->ops->now_ms(s->e));
    renderq_job *taken[N];
    size_t n;
    expect_ok(s->h, renderq_claim_many(s->h, NULL, taken, N / 2, &n));
    assert_int_equal(n, N / 2);
    for (size_t i = 0; i < n; i++)
        same_id(&taken[i]->id, &each[i].id);
    free_many(taken, n);
    for (size_t i = N / 2; i < N; i++)
        renderq_job_free(take_this(s->h, &each[i].id));
}

static void the_time_decides_before_the_id(void **state)
{
    suite *s = *state;
    renderq_id first = put(s, "a"), second = put(s, "b");
    shift(s, &second, "CreatedAtUtc", -60000);
    renderq_job_free(take_this(s->h, &second));
    renderq_job_free(take_this(s->h, &first));
}

/* What comes back keeps its place: it is older than what came later. */
static void a_returned_job_goes_first(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "a");
    put(s, "b");
    expect_ok(s->h, renderq_release(s->h, job, 0));
    renderq_job_free(take_this(s->h, &job->id));
    renderq_job_free(job);
}

static void spaced_enqueues_are_in_order_across_handles(void **state)
{
    suite *s = *state;
    renderq *other = suite_open(s, "node-2", NULL);
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    renderq_id ids[6];
    job.composition_id = "intro";
    job.payload_json = "{}";
    for (int i = 0; i < 6; i++) {
        expect_ok(other, renderq_enqueue(i % 2 ? other : s->h, &job, &ids[i]));
        int64_t until = s->ops->now_ms(s->e);
        while (s->ops->now_ms(s->e) == until)
            continue;
    }
    for (int i = 0; i < 6; i++)
        renderq_job_free(take_this(s->h, &ids[i]));
    renderq_close(other);
}

/* ---- enqueue_many ---- */

static void all_or_none(void **state)
{
    suite *s = *state;
    enum { N = 6 };
    renderq_new_job jobs[N];
    renderq_enqueued each[N];
    fill(jobs, N);
    fill_each(each, N);
    jobs[2].payload_json = "\xFF";
    jobs[4].composition_id = NULL;
    expect_invalid(s->h, "item 2", renderq_enqueue_many(s->h, jobs, N, each));
    expect_said(s->h, "payload_json");
    for (int i = 0; i < N; i++)
        assert_int_equal(each[i].status, i == 2 || i == 4 ? RENDERQ_INVALID : RENDERQ_EMPTY);
    assert_int_equal(count_rows(s), 0);
    expect_invalid(s->h, "item 2", renderq_enqueue_many(s->h, jobs, N, NULL));
    assert_int_equal(count_rows(s), 0);

    fill(jobs, N);
    jobs[5].delay_ms = -1;
    expect_invalid(s->h, "item 5", renderq_enqueue_many(s->h, jobs, N, each));
    expect_said(s->h, "delay_ms");
    assert_int_equal(each[0].status, RENDERQ_EMPTY);
    assert_int_equal(each[5].status, RENDERQ_INVALID);
    assert_int_equal(count_rows(s), 0);
}

/* The first item is looked at before the others; what is wrong with it is said in the same way. */
static void the_first_item_is_invalid(void **state)
{
    suite *s = *state;
    enum { N = 3 };
    struct newer { renderq_new_job ours; int64_t field; } newer[N];
    renderq_new_job jobs[N];
    renderq_enqueued each[N];
    for (int kind = 0; kind < 3; kind++) {
        const renderq_new_job *given = jobs;
        fill(jobs, N);
        fill_each(each, N);
        if (kind == 0)
            jobs[0].composition_id = "";
        if (kind == 1)
            for (int i = 0; i < N; i++)
                jobs[i].queue = "a.b.c";
        if (kind == 2) {
            memset(newer, 0, sizeof newer);
            for (int i = 0; i < N; i++)
                newer[i].ours = jobs[i];
            newer[0].ours.size = sizeof newer[0];
            newer[0].field = 1;
            given = &newer[0].ours;
        }
        expect_invalid(s->h, "", renderq_enqueue_many(s->h, given, N, each));
        assert_int_equal(each[0].status, RENDERQ_INVALID);
        assert_int_not_equal(each[1].status, RENDERQ_OK);
        assert_int_not_equal(each[1].status, RENDERQ_FAILED);       /* it was written */
        assert_int_equal(count_rows(s), 0);
    }
}

static void one_queue_a_batch(void **state)
{
    suite *s = *state;
    renderq_new_job jobs[3];
    renderq_enqueued each[3];
    fill(jobs, 3);
    fill_each(each, 3);
    jobs[0].queue = jobs[1].queue = s->queue;
    jobs[2].queue = "another";
    expect_invalid(s->h, "item 2", renderq_enqueue_many(s->h, jobs, 3, each));
    expect_said(s->h, "queue");
    assert_int_equal(each[0].status, RENDERQ_EMPTY);
    assert_int_equal(each[2].status, RENDERQ_INVALID);
    assert_int_equal(count_rows(s), 0);
    char copy[96];
    strcpy(copy, s->queue);                         /* the same name in other memory */
    jobs[2].queue = copy;
    expect_ok(s->h, renderq_enqueue_many(s->h, jobs, 3, each));
    assert_int_equal(count_rows(s), 3);
}

static void each_item_keeps_its_own_fields(void **state)
{
    suite *s = *state;
    renderq_new_job jobs[3];
    renderq_enqueued each[3];
    fill(jobs, 3);
    fill_each(each, 3);
    jobs[0].priority = 9;
    jobs[1].delay_ms = 60000;
    jobs[1].output_url = "out";
    jobs[2].max_retries = RENDERQ_NO_RETRY;
    jobs[2].dedup_key = "key";
    expect_ok(s->h, renderq_enqueue_many(s->h, jobs, 3, each));
    expect_number(s, &each[0].id, "Priority", 9);
    expect_null(s, &each[0].id, "MaxRetries");
    expect_null(s, &each[0].id, "DedupKey");
    expect_status(s, &each[1].id, "Scheduled");
    expect_number(s, &each[1].id, "DueAtUtc", number_of(s, &each[1].id, "CreatedAtUtc") + 60000);
    expect_text(s, &each[1].id, "OutputUrl", "out");
    expect_null(s, &each[1].id, "MaxRetries");
    expect_status(s, &each[2].id, "Queued");
    expect_number(s, &each[2].id, "MaxRetries", 0);
    expect_text(s, &each[2].id, "DedupKey", "key");
    expect_nulls(s, &each[2].id, "OutputUrl", "DueAtUtc");
}

/* ---- limits ---- */

static void nothing_is_fine(void **state)
{
    suite *s = *state;
    expect_ok(s->h, renderq_enqueue_many(s->h, NULL, 0, NULL));
    expect_ok(s->h, renderq_start_many(s->h, NULL, 0, NULL, 0, NULL));
    expect_ok(s->h, renderq_renew_many(s->h, NULL, 0, NULL));
    expect_ok(s->h, renderq_complete_many(s->h, NULL, 0));
    assert_int_equal(count_rows(s), 0);
}

static void as_many_as_fit(void **state)
{
    suite *s = *state;
    size_t n = RENDERQ_ENQUEUE_MAX;
    renderq_new_job *jobs = calloc(n + 1, sizeof *jobs);
    renderq_enqueued *each = calloc(n + 1, sizeof *each);
    fill(jobs, n + 1);
    fill_each(each, n + 1);
    expect_invalid(s->h, "10001", renderq_enqueue_many(s->h, jobs, n + 1, each));
    assert_int_equal(count_rows(s), 0);
    expect_ok(s->h, renderq_enqueue_many(s->h, jobs, n, each));
    assert_int_equal(count_rows(s), n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(each[i].status, RENDERQ_OK);
    free(each);
    free(jobs);
}

static void a_thousand_leases_in_one_call(void **state)
{
    suite *s = *state;
    enum { N = RENDERQ_MANY_MAX + 1 };
    renderq_new_job *jobs = calloc(N, sizeof *jobs);
    renderq_job *taken[N];
    renderq_status each[N];
    renderq_result *results = calloc(N, sizeof *results);
    size_t all = 0, n;
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    options.unstarted = 1;
    options.no_reap = 1;
    fill(jobs, N);
    expect_ok(s->h, renderq_enqueue_many(s->h, jobs, N, NULL));
    while (renderq_claim_many(s->h, &options, taken + all, N - all < 100 ? N - all : 100, &n) == RENDERQ_OK)
        if ((all += n) == N)
            break;
    assert_int_equal(all, N);
    for (size_t i = 0; i < N; i++) {
        results[i] = (renderq_result)RENDERQ_INIT(renderq_result);
        results[i].job = taken[i];
    }
    expect_invalid(s->h, "1001", renderq_start_many(s->h, taken, N, NULL, 0, each));
    expect_invalid(s->h, "1001", renderq_renew_many(s->h, taken, N, each));
    expect_invalid(s->h, "1001", renderq_complete_many(s->h, results, N));
    expect_ok(s->h, renderq_start_many(s->h, taken, N - 1, NULL, 0, each));
    expect_ok(s->h, renderq_renew_many(s->h, taken, N - 1, each));
    expect_ok(s->h, renderq_complete_many(s->h, results, N - 1));
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    expect_ok(s->h, renderq_stats(s->h, NULL, &counts));
    assert_int_equal(counts.completed, N - 1);
    assert_int_equal(counts.processing, 1);
    free_many(taken, N);
    free(results);
    free(jobs);
}

static void claim_many_takes_what_there_is(void **state)
{
    suite *s = *state;
    renderq_job *taken[RENDERQ_CLAIM_MAX];
    size_t n = 7;
    for (size_t i = 0; i < count_of(taken); i++)
        taken[i] = (renderq_job *)(void *)s;
    expect(s->h, RENDERQ_EMPTY, renderq_claim_many(s->h, NULL, taken, count_of(taken), &n));
    assert_int_equal(n, 0);
    for (size_t i = 0; i < count_of(taken); i++)
        assert_null(taken[i]);
    for (int i = 0; i < 3; i++)
        put(s, "intro");
    taken[50] = (renderq_job *)(void *)s;
    expect_ok(s->h, renderq_claim_many(s->h, NULL, taken, count_of(taken), &n));
    assert_int_equal(n, 3);
    assert_null(taken[50]);
    for (size_t i = 0; i < n; i++)
        expect_text(s, &taken[i]->id, "LeaseToken", taken[i]->lease.text);
    free_many(taken, n);
}

/* ---- one status a job ---- */

static void complete_many_with_one_lost(void **state)
{
    suite *s = *state;
    enum { N = 4 };
    renderq_job *taken[N];
    renderq_result results[N];
    put_and_take_many(s, taken, N, false);
    expect_ok(s->h, renderq_cancel(s->h, NULL, &taken[2]->id));
    char *before = snapshot(s, &taken[2]->id);
    for (int i = 0; i < N; i++) {
        results[i] = (renderq_result)RENDERQ_INIT(renderq_result);
        results[i].job = taken[i];
        results[i].output_url = i == 0 ? "first" : NULL;
        results[i].status = RENDERQ_FAILED;
    }
    expect(s->h, RENDERQ_LOST, renderq_complete_many(s->h, results, N));
    expect_said(s->h, taken[2]->id.text);
    for (int i = 0; i < N; i++) {
        assert_int_equal(results[i].status, i == 2 ? RENDERQ_LOST : RENDERQ_OK);
        expect_status(s, &taken[i]->id, i == 2 ? "Cancelled" : "Completed");
        if (i != 2)
            expect_null(s, &taken[i]->id, "LeasedAtUtc");
    }
    expect_text(s, &taken[0]->id, "OutputUrl", "first");
    expect_null(s, &taken[1]->id, "OutputUrl");
    expect_unchanged(s, &taken[2]->id, before);
    free_many(taken, N);
}

static void complete_many_with_one_invalid(void **state)
{
    suite *s = *state;
    enum { N = 3 };
    renderq_job *taken[N];
    renderq_result results[N];
    put_and_take_many(s, taken, N, false);
    char *before = snapshot_all(s);
    for (int i = 0; i < N; i++) {
        results[i] = (renderq_result)RENDERQ_INIT(renderq_result);
        results[i].job = taken[i];
        results[i].output_url = i == 1 ? "\xFF" : NULL;
    }
    expect_invalid(s->h, "item 1", renderq_complete_many(s->h, results, N));
    expect_said(s->h, "output_url");
    expect_all_unchanged(s, before);
    free_many(taken, N);
}

static void renew_many_with_one_lost(void **state)
{
    suite *s = *state;
    enum { N = 3 };
    renderq_job *taken[N];
    renderq_status each[N];
    put_and_take_many(s, taken, N, false);
    expect_ok(s->h, renderq_renew(s->h, taken[0], "half"));
    for (int i = 0; i < N; i++) {
        shift(s, &taken[i]->id, "LockedAtUtc", -100000);
        shift(s, &taken[i]->id, "LeasedAtUtc", -100000);
        taken[i]->lease_left_ms = 1;
    }
    expect_ok(s->h, renderq_cancel(s->h, NULL, &taken[1]->id));
    int64_t now = s->ops->now_ms(s->e);
    expect(s->h, RENDERQ_LOST, renderq_renew_many(s->h, taken, N, each));
    for (int i = 0; i < N; i++) {
        assert_int_equal(each[i], i == 1 ? RENDERQ_LOST : RENDERQ_OK);
        if (i == 1)
            continue;
        assert_true(number_of(s, &taken[i]->id, "LockedAtUtc") >= now);
        expect_number(s, &taken[i]->id, "LeasedAtUtc", number_of(s, &taken[i]->id, "LockedAtUtc"));
        assert_int_equal(taken[i]->locked_at_ms, number_of(s, &taken[i]->id, "LockedAtUtc"));
        assert_in_range(taken[i]->lease_left_ms, 500000, 600000);
    }
    expect_text(s, &taken[0]->id, "Progress", "half");      /* as before */
    expect(s->h, RENDERQ_LOST, renderq_renew_many(s->h, taken, N, NULL));
    free_many(taken, N);
}

static void jobs_of_two_queues(void **state)
{
    suite *s = *state;
    renderq_job *taken[2];
    renderq_result results[2] = { RENDERQ_INIT(renderq_result), RENDERQ_INIT(renderq_result) };
    put_and_take_many(s, taken, 2, true);
    const char *queue = taken[1]->queue;
    taken[1]->queue = "another";
    results[0].job = taken[0];
    results[1].job = taken[1];
    char *before = snapshot_all(s);
    expect_invalid(s->h, "queue", renderq_start_many(s->h, taken, 2, NULL, 0, NULL));
    expect_said(s->h, "item 1");
    expect_invalid(s->h, "queue", renderq_renew_many(s->h, taken, 2, NULL));
    taken[0]->started_at_ms = taken[1]->started_at_ms = 1;
    expect_invalid(s->h, "queue", renderq_complete_many(s->h, results, 2));
    expect_all_unchanged(s, before);
    taken[1]->queue = queue;
    free_many(taken, 2);
}

/* ---- one handle, many queues ---- */

static void one_handle_serves_many_queues(void **state)
{
    suite *s = *state;
    enum { QUEUES = 12 };
    char names[QUEUES][96];
    engine *engines[QUEUES];
    rq_url url;
    char why[512];
    assert_int_equal(rq_url_parse(suite_url, &url, why, sizeof why), RENDERQ_OK);
    for (int i = 0; i < QUEUES; i++) {
        snprintf(names[i], sizeof names[i], "%s_%d", s->queue, i);
        engines[i] = s->ops->open(&url, names[i]);
        expect_ok(s->h, renderq_create(s->h, names[i]));
    }
    rq_url_free(&url);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < QUEUES; i++) {
            renderq_new_job job = RENDERQ_INIT(renderq_new_job);
            renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
            renderq_job *taken;
            job.queue = options.queue = names[i];
            job.composition_id = names[i];
            job.payload_json = "{}";
            expect_ok(s->h, renderq_enqueue(s->h, &job, NULL));
            expect_ok(s->h, renderq_claim(s->h, &options, &taken));
            assert_string_equal(taken->queue, names[i]);
            assert_string_equal(taken->composition_id, names[i]);
            expect_ok(s->h, renderq_renew(s->h, taken, NULL));
            expect_ok(s->h, renderq_complete(s->h, taken, NULL));
            renderq_job_free(taken);
        }
    assert_int_equal(count_rows(s), 0);
    for (int i = 0; i < QUEUES; i++) {
        renderq_counts counts = RENDERQ_INIT(renderq_counts);
        expect_ok(s->h, renderq_stats(s->h, names[i], &counts));
        assert_int_equal(counts.completed, 3);
        s->ops->drop(engines[i]);
        s->ops->close(engines[i]);
    }
}

int run_many(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(highest_priority_then_oldest),
        TEST(first_in_first_out_within_an_instant),
        TEST(the_time_decides_before_the_id),
        TEST(a_returned_job_goes_first),
        TEST(spaced_enqueues_are_in_order_across_handles),
        TEST(all_or_none),
        TEST(the_first_item_is_invalid),
        TEST(one_queue_a_batch),
        TEST(each_item_keeps_its_own_fields),
        TEST(nothing_is_fine),
        TEST(as_many_as_fit),
        TEST(a_thousand_leases_in_one_call),
        TEST(claim_many_takes_what_there_is),
        TEST(complete_many_with_one_lost),
        TEST(complete_many_with_one_invalid),
        TEST(renew_many_with_one_lost),
        TEST(jobs_of_two_queues),
        TEST(one_handle_serves_many_queues),
    };
    return cmocka_run_group_tests_name("many", tests, NULL, NULL);
}
