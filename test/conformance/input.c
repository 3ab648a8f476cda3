/* input.c: bad input through the public calls: INVALID, a text that says what is wrong, and nothing sent. Texts are
 * in text.c, structs of another age in structs.c. */
#include "suite.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static renderq_new_job good_job(void)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.composition_id = "intro";
    job.payload_json = "{}";
    return job;
}

static void names_of_things(void **state)
{
    (void)state;
    static const char *const statuses[] = { "OK", "EMPTY", "LOST", "DUPLICATE", "BUSY", "ABORTED", "UNCERTAIN",
                                            "DISCONNECTED", "DENIED", "SCHEMA", "INVALID", "NOMEM", "INTERRUPTED",
                                            "FAILED" };
    static const char *const states[] = { NULL, "Scheduled", "Queued", "Processing", "Completed", "DeadLetter",
                                          "Cancelled", "Other" };
    for (size_t i = 0; i < count_of(statuses); i++)
        assert_string_equal(renderq_strstatus((renderq_status)i), statuses[i]);
    assert_non_null(renderq_strstatus((renderq_status)999));
    for (size_t i = 1; i < count_of(states); i++)
        assert_string_equal(renderq_strstate((renderq_state)i), states[i]);
    assert_string_equal(renderq_strstate((renderq_state)0), "Other");
    assert_string_equal(renderq_strstate((renderq_state)-5), "Other");
    assert_string_equal(renderq_version(), RENDERQ_VERSION);
}

static void a_handle_that_is_null(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro"), *out = job;
    renderq_new_job new_job = good_job();
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    size_t n = 7;
    assert_int_equal(renderq_create(NULL, NULL), RENDERQ_INVALID);
    assert_int_equal(renderq_enqueue(NULL, &new_job, NULL), RENDERQ_INVALID);
    assert_int_equal(renderq_enqueue_many(NULL, &new_job, 1, NULL), RENDERQ_INVALID);
    assert_int_equal(renderq_claim(NULL, NULL, &out), RENDERQ_INVALID);
    assert_null(out);
    assert_int_equal(renderq_claim_many(NULL, NULL, &out, 1, &n), RENDERQ_INVALID);
    assert_int_equal(n, 0);
    assert_int_equal(renderq_start_many(NULL, &job, 1, NULL, 0, NULL), RENDERQ_INVALID);
    assert_int_equal(renderq_renew(NULL, job, NULL), RENDERQ_INVALID);
    assert_int_equal(renderq_renew_many(NULL, &job, 1, NULL), RENDERQ_INVALID);
    assert_int_equal(renderq_complete(NULL, job, NULL), RENDERQ_INVALID);
    assert_int_equal(renderq_complete_many(NULL, NULL, 1), RENDERQ_INVALID);
    assert_int_equal(renderq_fail(NULL, job, NULL, 0), RENDERQ_INVALID);
    assert_int_equal(renderq_release(NULL, job, 0), RENDERQ_INVALID);
    assert_int_equal(renderq_job_resume(NULL, NULL, &job->id, &job->lease, &out), RENDERQ_INVALID);
    assert_int_equal(renderq_get(NULL, NULL, &job->id, &out), RENDERQ_INVALID);
    assert_int_equal(renderq_list(NULL, NULL, NULL, NULL), RENDERQ_INVALID);
    assert_int_equal(renderq_cancel(NULL, NULL, &job->id), RENDERQ_INVALID);
    assert_int_equal(renderq_retry(NULL, NULL, &job->id, NULL), RENDERQ_INVALID);
    assert_int_equal(renderq_retry_dead(NULL, NULL, NULL), RENDERQ_INVALID);
    assert_int_equal(renderq_settle(NULL, NULL, &job->id, NULL, 0), RENDERQ_INVALID);
    assert_int_equal(renderq_reap(NULL, NULL, NULL), RENDERQ_INVALID);
    assert_int_equal(renderq_purge(NULL, NULL, 60, NULL), RENDERQ_INVALID);
    assert_int_equal(renderq_stats(NULL, NULL, &counts), RENDERQ_INVALID);
    assert_string_equal(renderq_errmsg(NULL), "out of memory");
    assert_int_equal(renderq_native_error(NULL), 0);
    renderq_interrupt(NULL);
    renderq_close(NULL);
    renderq_job_free(job);
}

static void pointers_that_are_null(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro"), *none = NULL, *out = NULL;
    renderq_result result = RENDERQ_INIT(renderq_result);
    renderq_new_job new_job = good_job();
    size_t n = 7;
    char *before = snapshot_all(s);
    expect_invalid(s->h, "job", renderq_enqueue(s->h, NULL, NULL));
    new_job.composition_id = NULL;
    expect_invalid(s->h, "composition_id", renderq_enqueue(s->h, &new_job, NULL));
    new_job = good_job();
    new_job.payload_json = NULL;
    expect_invalid(s->h, "payload_json", renderq_enqueue(s->h, &new_job, NULL));
    new_job.payload_len = 5;
    expect_invalid(s->h, "payload_json", renderq_enqueue(s->h, &new_job, NULL));
    expect_invalid(s->h, "NULL", renderq_enqueue_many(s->h, NULL, 1, NULL));
    expect_invalid(s->h, "NULL", renderq_claim(s->h, NULL, NULL));
    expect_invalid(s->h, "NULL", renderq_claim_many(s->h, NULL, NULL, 1, &n));
    assert_int_equal(n, 0);
    expect_invalid(s->h, "NULL", renderq_claim_many(s->h, NULL, &out, 1, NULL));
    expect_invalid(s->h, "NULL", renderq_start_many(s->h, NULL, 1, NULL, 0, NULL));
    expect_invalid(s->h, "NULL", renderq_start_many(s->h, &none, 1, NULL, 0, NULL));
    expect_invalid(s->h, "NULL", renderq_renew(s->h, NULL, NULL));
    expect_invalid(s->h, "NULL", renderq_renew_many(s->h, NULL, 1, NULL));
    expect_invalid(s->h, "NULL", renderq_renew_many(s->h, &none, 1, NULL));
    expect_invalid(s->h, "NULL", renderq_complete(s->h, NULL, NULL));
    expect_invalid(s->h, "NULL", renderq_complete_many(s->h, NULL, 1));
    expect_invalid(s->h, "NULL", renderq_complete_many(s->h, &result, 1));
    expect_invalid(s->h, "NULL", renderq_fail(s->h, NULL, NULL, 0));
    expect_invalid(s->h, "NULL", renderq_release(s->h, NULL, 0));
    expect_invalid(s->h, "NULL", renderq_job_resume(s->h, NULL, NULL, &job->lease, &out));
    expect_invalid(s->h, "NULL", renderq_job_resume(s->h, NULL, &job->id, NULL, &out));
    expect_invalid(s->h, "NULL", renderq_job_resume(s->h, NULL, &job->id, &job->lease, NULL));
    expect_invalid(s->h, "NULL", renderq_get(s->h, NULL, NULL, &out));
    expect_invalid(s->h, "NULL", renderq_get(s->h, NULL, &job->id, NULL));
    expect_invalid(s->h, "NULL", renderq_cancel(s->h, NULL, NULL));
    expect_invalid(s->h, "NULL", renderq_retry(s->h, NULL, NULL, NULL));
    expect_invalid(s->h, "NULL", renderq_settle(s->h, NULL, NULL, NULL, 0));
    expect_invalid(s->h, "NULL", renderq_stats(s->h, NULL, NULL));
    expect_invalid(s->h, "flags", renderq_settle(s->h, NULL, &job->id, NULL, 2u));
    expect_all_unchanged(s, before);
    renderq_job_free(job);
}

static void ids_that_are_none(void **state)
{
    suite *s = *state;
    static const char *const bad[] = {
        "", "x", "019AD000-0000-8000-8000-00000000ABC", "019AD00000008000800000000000ABCD",
        "019AD000-0000-8000-8000-00000000ABCG", "{19AD000-0000-8000-8000-00000000ABCD"
    };
    renderq_job *job = put_and_take(s, "intro"), *out = NULL;
    for (size_t i = 0; i <= count_of(bad); i++) {
        renderq_id id;
        memset(&id, 'A', sizeof id);                /* the last one has no end */
        if (i < count_of(bad))
            strcpy(id.text, bad[i]);
        expect_invalid(s->h, "id", renderq_get(s->h, NULL, &id, &out));
        expect_invalid(s->h, "id", renderq_cancel(s->h, NULL, &id));
        expect_invalid(s->h, "id", renderq_retry(s->h, NULL, &id, NULL));
        expect_invalid(s->h, "id", renderq_settle(s->h, NULL, &id, NULL, 0));
        expect_invalid(s->h, "id", renderq_job_resume(s->h, NULL, &id, &job->lease, &out));
        expect_invalid(s->h, "lease", renderq_job_resume(s->h, NULL, &job->id, &id, &out));
        assert_null(out);
    }
    renderq_job_free(job);
}

static void a_job_made_by_hand(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro");
    renderq_id good = job->lease;
    strcpy(job->lease.text, "not a lease");
    expect_invalid(s->h, "lease", renderq_complete(s->h, job, NULL));
    expect_invalid(s->h, "lease", renderq_renew(s->h, job, NULL));
    job->lease = good;
    good = job->id;
    strcpy(job->id.text, "no id");
    expect_invalid(s->h, "id", renderq_release(s->h, job, 0));
    job->id = good;
    expect_ok(s->h, renderq_release(s->h, job, 0));
    renderq_job_free(job);
}

static void numbers_out_of_range(void **state)
{
    suite *s = *state;
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_new_job new_job = good_job();
    renderq_job *job = put_and_take(s, "intro"), *out = NULL, *jobs[RENDERQ_CLAIM_MAX + 1];
    size_t n;
    char *before = snapshot_all(s);
    static const int64_t bad_delays[] = { -1, -2, INT64_MIN, RENDERQ_DELAY_MAX_MS + 1, INT64_MAX };
    static const int64_t bad_retries[] = { -3, INT64_MIN, RENDERQ_DELAY_MAX_MS + 1, INT64_MAX };
    static const int64_t bad_waits[] = { -2, INT64_MIN, RENDERQ_DELAY_MAX_MS + 1 };
    static const int bad_leases[] = { -1, INT_MIN, RENDERQ_LEASE_MAX_S + 1, INT_MAX };
    for (size_t i = 0; i < count_of(bad_delays); i++) {
        new_job.delay_ms = bad_delays[i];
        expect_invalid(s->h, "delay_ms", renderq_enqueue(s->h, &new_job, NULL));
        expect_invalid(s->h, "delay_ms", renderq_release(s->h, job, bad_delays[i]));
    }
    new_job = good_job();
    new_job.max_retries = -2;
    expect_invalid(s->h, "max_retries", renderq_enqueue(s->h, &new_job, NULL));
    for (size_t i = 0; i < count_of(bad_retries); i++)
        expect_invalid(s->h, "retry_ms", renderq_fail(s->h, job, NULL, bad_retries[i]));
    for (size_t i = 0; i < count_of(bad_leases); i++) {
        options.lease_s = bad_leases[i];
        expect_invalid(s->h, "lease_s", renderq_claim(s->h, &options, &out));
        expect_invalid(s->h, "lease_s", renderq_start_many(s->h, &job, 1, NULL, bad_leases[i], NULL));
    }
    options.lease_s = 0;
    for (size_t i = 0; i < count_of(bad_waits); i++) {
        options.wait_ms = bad_waits[i];
        expect_invalid(s->h, "wait_ms", renderq_claim(s->h, &options, &out));
        assert_null(out);
    }
    expect_invalid(s->h, "max", renderq_claim_many(s->h, NULL, jobs, 0, &n));
    expect_invalid(s->h, "max", renderq_claim_many(s->h, NULL, jobs, RENDERQ_CLAIM_MAX + 1, &n));
    expect_all_unchanged(s, before);
    renderq_job_free(job);
}

static void the_longest_delays(void **state)
{
    suite *s = *state;
    renderq_new_job new_job = good_job();
    new_job.delay_ms = RENDERQ_DELAY_MAX_MS;
    new_job.priority = INT_MAX;
    new_job.max_retries = INT_MAX;
    renderq_id id = put_job(s, &new_job);
    expect_number(s, &id, "DueAtUtc", number_of(s, &id, "CreatedAtUtc") + RENDERQ_DELAY_MAX_MS);
    expect_number(s, &id, "Priority", INT_MAX);
    expect_number(s, &id, "MaxRetries", INT_MAX);
    new_job.delay_ms = 0;
    new_job.priority = INT_MIN;
    id = put_job(s, &new_job);
    expect_number(s, &id, "Priority", INT_MIN);
}

static void names_of_queues(void **state)
{
    suite *s = *state;
    static const char *const bad[] = { "", "a.b.c", "[a", "a]", "a ", "[a ]", ".a", "a.", "[]", "\xFF", "[a]b" };
    renderq_new_job new_job = good_job();
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    renderq_id id = { NOBODY };
    renderq_job *out = NULL;
    for (size_t i = 0; i < count_of(bad); i++) {
        new_job.queue = options.queue = bad[i];
        expect_invalid(s->h, "queue", renderq_create(s->h, bad[i]));
        expect_invalid(s->h, "queue", renderq_enqueue(s->h, &new_job, NULL));
        expect_invalid(s->h, "queue", renderq_enqueue_many(s->h, &new_job, 1, NULL));
        expect_invalid(s->h, "queue", renderq_claim(s->h, &options, &out));
        expect_invalid(s->h, "queue", renderq_get(s->h, bad[i], &id, &out));
        expect_invalid(s->h, "queue", renderq_cancel(s->h, bad[i], &id));
        expect_invalid(s->h, "queue", renderq_retry(s->h, bad[i], &id, NULL));
        expect_invalid(s->h, "queue", renderq_retry_dead(s->h, bad[i], NULL));
        expect_invalid(s->h, "queue", renderq_settle(s->h, bad[i], &id, NULL, 0));
        expect_invalid(s->h, "queue", renderq_reap(s->h, bad[i], NULL));
        expect_invalid(s->h, "queue", renderq_purge(s->h, bad[i], 60, NULL));
        expect_invalid(s->h, "queue", renderq_stats(s->h, bad[i], &counts));
        expect_invalid(s->h, "queue", renderq_job_resume(s->h, bad[i], &id, &id, &out));
    }
    char *longest = units(RENDERQ_QUEUE_PART_MAX + 1, EMOJI, 2);
    expect_invalid(s->h, "queue", renderq_create(s->h, longest));
    free(longest);
}

/* Quotes, dots, brackets and the default's own name are parts of a name like any other. */
static void strange_names_of_queues(void **state)
{
    suite *s = *state;
    static const char *const names[][2] = {
        { "[conformance \"x\"; DROP TABLE]", "conformance \"x\"; DROP TABLE" },
        { "[conformance VideoRenderJobs.and VideoRenderJobs]", "conformance VideoRenderJobs.and VideoRenderJobs" },
        { "[conformance ]] 'it' %s " EMOJI "]", "conformance ] 'it' %s " EMOJI },
    };
    for (size_t i = 0; i < count_of(names); i++) {
        suite other = *s;
        rq_url url;
        char why[512];
        renderq_new_job new_job = good_job();
        renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
        renderq_job *job = NULL;
        renderq_id id;
        const char *unable = s->ops->unable(s->e, ENGINE_BRACKETS);
        if (unable && strchr(names[i][1], ']')) {
            print_message("skipped: the queue %s: %s\n", names[i][0], unable);
            expect_invalid(s->h, "]", renderq_create(s->h, names[i][0]));
            continue;
        }
        assert_int_equal(rq_url_parse(suite_url, &url, why, sizeof why), RENDERQ_OK);
        other.e = s->ops->open(&url, names[i][1]);
        rq_url_free(&url);
        s->ops->drop(other.e);
        expect_ok(s->h, renderq_create(s->h, names[i][0]));
        new_job.queue = options.queue = names[i][0];
        expect_ok(s->h, renderq_enqueue(s->h, &new_job, &id));
        expect_status(&other, &id, "Queued");
        take_none(s->h);
        expect_ok(s->h, renderq_claim(s->h, &options, &job));
        same_id(&job->id, &id);
        assert_string_equal(job->queue, names[i][0]);
        expect_ok(s->h, renderq_complete(s->h, job, NULL));     /* the job knows its queue */
        expect_status(&other, &id, "Completed");
        renderq_job_free(job);
        s->ops->drop(other.e);
        s->ops->close(other.e);
    }
}

static void open_with(suite *s, const char *word, const renderq_options *options)
{
    renderq *h = NULL;
    renderq_status status = renderq_open(s->url, options, &h);
    assert_non_null(h);
    expect_invalid(h, word, status);
    expect_invalid(h, "open", renderq_create(h, NULL));
    renderq_close(h);
}

static void options_of_open(void **state)
{
    suite *s = *state;
    static const int bad_seconds[] = { -1, 3601, INT_MIN, INT_MAX };
    static const int bad_retries[] = { -2, 46, INT_MAX };
    for (size_t i = 0; i < count_of(bad_seconds); i++) {
        renderq_options options = RENDERQ_INIT(renderq_options);
        options.connect_s = bad_seconds[i];
        open_with(s, "connect_s", &options);
        options.connect_s = 0;
        options.command_s = bad_seconds[i];
        open_with(s, "command_s", &options);
    }
    for (size_t i = 0; i < count_of(bad_retries); i++) {
        renderq_options options = RENDERQ_INIT(renderq_options);
        options.retry_s = bad_retries[i];
        open_with(s, "retry_s", &options);
    }
    static const char *const bad_workers[] = { "", "x ", "\xFF" };
    for (size_t i = 0; i < count_of(bad_workers); i++) {
        renderq_options options = RENDERQ_INIT(renderq_options);
        options.worker = bad_workers[i];
        open_with(s, "worker", &options);
    }
    assert_int_equal(renderq_open(s->url, NULL, NULL), RENDERQ_INVALID);
}

static void urls_that_are_none(void **state)
{
    suite *s = *state;
    char url[1024];
    static const char *const bad[] = { NULL, "", "jobs.db", "nosuch:jobs.db", ":x" };
    for (size_t i = 0; i < count_of(bad); i++) {
        renderq *h = NULL;
        expect(h, RENDERQ_INVALID, renderq_open(bad[i], NULL, &h));
        assert_non_null(h);
        expect_said(h, "URL");
        renderq_close(h);
    }
    static const char *const bad_options[] = { "nosuch=1", "queue=twice", "nothing", "=x" };
    for (size_t i = 0; i < count_of(bad_options); i++) {
        renderq *h = NULL;
        suite_url_for(url, sizeof url, s->queue, bad_options[i]);
        renderq_status status = renderq_open(url, NULL, &h);
        expect_invalid(h, "URL", status);
        renderq_close(h);
    }
}

static void the_default_worker(void **state)
{
    suite *s = *state;
    renderq *other = suite_open(s, NULL, NULL);
    put(s, "intro");
    renderq_job *job = take(other);
    assert_non_null(strchr(job->worker, ':'));
    expect_text(s, &job->id, "WorkerNodeId", job->worker);
    renderq_job_free(job);
    renderq_close(other);
}

/* The text is about the last call that failed; a call that did not fail leaves it. */
static void the_text_of_the_last_failure(void **state)
{
    suite *s = *state;
    renderq *fresh = suite_open(s, NULL, NULL);
    assert_string_equal(renderq_errmsg(fresh), "");
    assert_int_equal(renderq_native_error(fresh), 0);
    renderq_id nobody = { NOBODY };
    expect(fresh, RENDERQ_EMPTY, renderq_cancel(fresh, NULL, &nobody));
    expect_ok(fresh, renderq_reap(fresh, NULL, NULL));
    expect_said(fresh, NOBODY);
    expect_invalid(fresh, "older_than_s", renderq_purge(fresh, NULL, 1, NULL));
    assert_null(strstr(renderq_errmsg(fresh), NOBODY));
    renderq_close(fresh);
}

int run_input(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_things),
        TEST(a_handle_that_is_null),
        TEST(pointers_that_are_null),
        TEST(ids_that_are_none),
        TEST(a_job_made_by_hand),
        TEST(numbers_out_of_range),
        TEST(the_longest_delays),
        TEST(names_of_queues),
        TEST(strange_names_of_queues),
        TEST(options_of_open),
        TEST(urls_that_are_none),
        TEST(the_default_worker),
        TEST(the_text_of_the_last_failure),
    };
    return cmocka_run_group_tests_name("input", tests, NULL, NULL);
}
