/* text.c: texts on their way there and back: every length around the buffer they are read into, large ones, other
 * scripts, NULL, and what is not Unicode at all. */
#include "wire.h"

#define EMOJI  "\xF0\x9F\x98\x80"
#define UMLAUT "\xC3\xA4"

static renderq *h;

static int open_queue_of(void **state)
{
    (void)state;
    h = queue_at(&common, "texts", NULL);
    return 0;
}

static int close_it(void **state)
{
    (void)state;
    renderq_close(h);
    return 0;
}

/* `len` bytes of `part` over and over, with x in front where it does not come out even; to be freed. */
static char *filled(const char *part, size_t len)
{
    char *text = malloc(len + 1);
    assert_non_null(text);
    size_t step = strlen(part), at = len % step;
    memset(text, 'x', at);
    for (; at < len; at += step)
        memcpy(text + at, part, step);
    text[len] = 0;
    return text;
}

static renderq_job *there_and_back(const char *payload, const char *output_url)
{
    renderq_new_job new = RENDERQ_INIT(renderq_new_job);
    renderq_job *job = NULL;
    new.composition_id = "intro";
    new.payload_json = payload;
    new.output_url = output_url;
    expect_ok(h, renderq_enqueue(h, &new, NULL));
    expect_ok(h, take_job(h, NULL, &job));
    assert_int_equal(job->payload_len, strlen(payload));
    assert_string_equal(job->payload_json, payload);
    return job;
}

static void every_length_around_the_buffer(void **state)
{
    static const size_t lengths[] = { 1, 2, 1022, 1023, 1024, 1025, 1026, 2047, 2048, 2049, 3071, 3072, 3073, 4000, 4095,
                                      4096, 4097, 7999, 8000, 8001, 65535, 65536, 65537 };
    static const char *const parts[] = { "a", UMLAUT, "\xE2\x82\xAC", EMOJI };
    (void)state;
    for (size_t i = 0; i < count_of(lengths); i++)
        for (size_t p = 0; p < count_of(parts); p++) {
            char *payload = filled(parts[p], lengths[i]);
            renderq_job *job = there_and_back(payload, NULL);
            assert_null(job->output_url);
            expect_ok(h, renderq_complete(h, job, NULL));
            renderq_job_free(job);
            free(payload);
        }
}

/* Several columns that do not fit, side by side with some that do, and one of just the buffer's length. */
static void several_long_columns(void **state)
{
    static const size_t lengths[][3] = { { 1024, 1025, 2000 }, { 5000, 1024, 1024 }, { 1025, 1023, 7000 },
                                         { 10, 2048, 0 }, { 100000, 2048, 20000 }, { 1, 1024, 1025 } };
    (void)state;
    for (size_t i = 0; i < count_of(lengths); i++) {
        char *payload = filled(UMLAUT, lengths[i][0]), *url = filled("u", lengths[i][1]), *wrong = filled("w", lengths[i][2]);
        renderq_job *job = there_and_back(payload, url), *again = NULL;
        renderq_id id = job->id;
        assert_string_equal(job->output_url, url);
        assert_null(job->last_error);
        expect_ok(h, renderq_fail(h, job, wrong, 0));
        renderq_job_free(job);
        expect_ok(h, take_job(h, NULL, &again));
        assert_string_equal(again->id.text, id.text);
        assert_string_equal(again->payload_json, payload);
        assert_string_equal(again->output_url, url);
        if (strlen(wrong) <= RENDERQ_ERROR_MAX)
            assert_string_equal(again->last_error, wrong);
        else
            assert_int_equal(strlen(again->last_error), RENDERQ_ERROR_MAX - 1 + 3);     /* its end marked */
        expect_ok(h, renderq_complete(h, again, NULL));
        renderq_job_free(again);
        free(payload);
        free(url);
        free(wrong);
    }
}

/* Many rows of one reply, long and short in turn: what one leaves in its buffers is not in the next. */
static void long_and_short_rows_in_turn(void **state)
{
    enum { N = 12 };
    renderq_job *jobs[N];
    size_t n = 0;
    char *payloads[N];
    (void)state;
    for (size_t i = 0; i < N; i++) {
        renderq_new_job new = RENDERQ_INIT(renderq_new_job);
        payloads[i] = filled(i % 2 ? "s" : "l", i % 3 == 0 ? 1 : i % 2 ? 10 * i : 3000 * i);
        new.composition_id = "intro";
        new.payload_json = payloads[i];
        new.output_url = i % 4 == 1 ? "somewhere" : NULL;
        expect_ok(h, renderq_enqueue(h, &new, NULL));
    }
    expect_ok(h, renderq_claim_many(h, NULL, jobs, N, &n));
    assert_int_equal(n, N);
    for (size_t i = 0; i < N; i++) {
        assert_string_equal(jobs[i]->payload_json, payloads[i]);
        if (i % 4 == 1)
            assert_string_equal(jobs[i]->output_url, "somewhere");
        else
            assert_null(jobs[i]->output_url);
        expect_ok(h, renderq_complete(h, jobs[i], NULL));
        renderq_job_free(jobs[i]);
        free(payloads[i]);
    }
}

static void five_megabytes(void **state)
{
    (void)state;
    size_t len = 5 << 20;
    char *payload = filled("{\"a\":\"" EMOJI UMLAUT "\\u0041\"},", len);
    renderq_job *job = there_and_back(payload, NULL), *read = NULL;
    expect_ok(h, renderq_get(h, NULL, &job->id, &read));
    assert_string_equal(read->payload_json, payload);
    renderq_job_free(read);
    expect_ok(h, renderq_complete(h, job, NULL));
    renderq_job_free(job);
    free(payload);
}

/* Everything that can be NULL is, and the empty string is not. */
static void null_and_empty(void **state)
{
    (void)state;
    renderq_job *job = there_and_back("0", NULL), *read = NULL;
    expect_ok(h, renderq_release(h, job, 0));
    expect_ok(h, renderq_get(h, NULL, &job->id, &read));
    assert_null(read->output_url);
    assert_null(read->dedup_key);
    assert_null(read->worker);
    assert_null(read->last_error);
    assert_null(read->progress);
    assert_int_equal(read->locked_at_ms, 0);
    assert_int_equal(read->started_at_ms, 0);
    assert_int_equal(read->due_at_ms, 0);
    assert_int_equal(read->ended_at_ms, 0);
    renderq_job_free(read);
    renderq_job_free(job);
    expect_ok(h, take_job(h, NULL, &job));
    expect_ok(h, renderq_renew(h, job, ""));
    expect_ok(h, renderq_complete(h, job, ""));
    expect_ok(h, renderq_get(h, NULL, &job->id, &read));
    assert_string_equal(read->progress, "");
    assert_string_equal(read->output_url, "");
    renderq_job_free(read);
    renderq_job_free(job);
}

static void other_scripts_everywhere(void **state)
{
    static const char text[] = "\xE4\xB8\xAD\xE6\x96\x87 " EMOJI UMLAUT " '\"\\];-- \xF4\x8F\xBF\xBF";
    (void)state;
    renderq_new_job new = RENDERQ_INIT(renderq_new_job);
    renderq_job *job = NULL, *read = NULL;
    renderq_claim_options by = RENDERQ_INIT(renderq_claim_options);
    by.worker = new.composition_id = new.payload_json = new.output_url = new.dedup_key = text;
    expect_ok(h, renderq_enqueue(h, &new, NULL));
    expect(h, renderq_enqueue(h, &new, NULL), RENDERQ_DUPLICATE);
    expect_ok(h, renderq_claim(h, &by, &job));
    expect_ok(h, renderq_renew(h, job, text));
    expect_ok(h, renderq_fail(h, job, text, 0));
    expect_ok(h, renderq_get(h, NULL, &job->id, &read));
    assert_string_equal(read->composition_id, text);
    assert_string_equal(read->payload_json, text);
    assert_string_equal(read->output_url, text);
    assert_string_equal(read->dedup_key, text);
    assert_string_equal(read->last_error, text);
    renderq_job_free(read);
    renderq_job_free(job);
    expect_ok(h, renderq_claim(h, &by, &job));
    assert_string_equal(job->worker, text);
    expect_ok(h, renderq_complete(h, job, text));
    renderq_job_free(job);
}

/* The same through the array of items. */
static void other_scripts_in_items(void **state)
{
    static const char text[] = "\xE4\xB8\xAD " EMOJI UMLAUT " '\"\\/];--\x01\x1f\t\r\n\x7f\xE2\x80\xA8 \xF4\x8F\xBF\xBF";
    enum { N = 3 };
    (void)state;
    renderq_new_job new[N] = { RENDERQ_INIT(renderq_new_job), RENDERQ_INIT(renderq_new_job),
                               RENDERQ_INIT(renderq_new_job) };
    renderq_job *jobs[N];
    size_t n = 0;
    for (size_t i = 0; i < N; i++)
        new[i].composition_id = new[i].payload_json = new[i].output_url = text;
    new[1].output_url = NULL;
    expect_ok(h, renderq_enqueue_many(h, new, N, NULL));
    expect_ok(h, renderq_claim_many(h, NULL, jobs, N, &n));
    assert_int_equal(n, N);
    for (size_t i = 0; i < N; i++) {
        assert_string_equal(jobs[i]->composition_id, new[i].composition_id);
        assert_string_equal(jobs[i]->payload_json, new[i].payload_json);
        if (new[i].output_url)
            assert_string_equal(jobs[i]->output_url, new[i].output_url);
        else
            assert_null(jobs[i]->output_url);
        expect_ok(h, renderq_complete(h, jobs[i], NULL));
        renderq_job_free(jobs[i]);
    }
}

static void a_queue_with_a_name_of_all_kinds(void **state)
{
    static const char *const names[] = { "[" EMOJI UMLAUT "]", "[a]]b'c]", "[s].[it's]", "[a.b]", "[x; DROP TABLE y --]" };
    (void)state;
    for (size_t i = 0; i < count_of(names); i++) {
        renderq_job *job = NULL;
        renderq_new_job both[2] = { RENDERQ_INIT(renderq_new_job), RENDERQ_INIT(renderq_new_job) };
        renderq_enqueued each[2] = { RENDERQ_INIT(renderq_enqueued), RENDERQ_INIT(renderq_enqueued) };
        both[0].queue = both[1].queue = names[i];
        both[0].composition_id = both[1].composition_id = both[0].payload_json = both[1].payload_json = "y";
        expect_ok(h, renderq_create(h, names[i]));
        expect_ok(h, renderq_create(h, names[i]));
        expect_ok(h, put_job(h, names[i], "x", NULL));
        expect_ok(h, renderq_enqueue_many(h, both, 2, each));
        expect_ok(h, take_job(h, names[i], &job));
        assert_string_equal(job->queue, names[i]);
        assert_string_equal(job->composition_id, "x");
        expect_ok(h, renderq_complete(h, job, NULL));
        renderq_job_free(job);
    }
}

/* A row of another program's with half of a character: '?' in its place would be a lie. */
static void half_a_surrogate_pair(void **state)
{
    (void)state;
    renderq_id id;
    renderq_job *job = NULL;
    expect_ok(h, put_job(h, NULL, "half", &id));
    file_exec(common.db, "UPDATE texts SET PayloadJson = CAST(X'61EDA0BD62' AS TEXT) WHERE CompositionId = 'half'");
    long from = log_end(&common);
    expect(h, renderq_get(h, NULL, &id, &job), RENDERQ_FAILED);
    assert_null(job);
    assert_says(h, "not valid Unicode");
    assert_int_equal(log_count(&common, from, " rpc get texts"), 1);    /* asking again would not help */
    expect_ok(h, renderq_cancel(h, NULL, &id));
    use(h);
}

/* Claimed with others, it holds none of them up, and ends as a dead letter by itself. */
static void half_a_surrogate_pair_among_others(void **state)
{
    static const char *const names[] = { "first", "half", "third", "fourth" };
    (void)state;
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    options.unstarted = 1;
    for (size_t i = 0; i < count_of(names); i++)
        expect_ok(h, put_job(h, NULL, names[i], NULL));
    file_exec(common.db, "UPDATE texts SET PayloadJson = CAST(X'61EDA0BD62' AS TEXT), MaxRetries = 0"
                         " WHERE CompositionId = 'half' AND Status = 'Queued'");
    for (size_t got = 0; got < 3;) {
        renderq_job *jobs[10];
        size_t n = 0;
        expect_ok(h, renderq_claim_many(h, &options, jobs, count_of(jobs), &n));
        for (size_t i = 0; i < n; i++, got++) {
            assert_string_equal(jobs[i]->composition_id, names[got + (got > 0)]);
            assert_int_equal(jobs[i]->retry_count, 0);
            expect_ok(h, renderq_release(h, jobs[i], 60000));
            renderq_job_free(jobs[i]);
        }
    }
    file_exec(common.db, "UPDATE texts SET LockedAtUtc = LockedAtUtc - 3600000, LeasedAtUtc = LeasedAtUtc - 3600000"
                         " WHERE Status = 'Processing'");
    expect_ok(h, renderq_reap(h, NULL, NULL));
    assert_int_equal(file_int(common.db, "SELECT count(*) FROM texts WHERE CompositionId = 'half'"
                                         " AND Status = 'DeadLetter'"), 1);
    file_exec(common.db, "DELETE FROM texts");
}

int run_text(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_around_the_buffer),
        cmocka_unit_test(several_long_columns),
        cmocka_unit_test(long_and_short_rows_in_turn),
        cmocka_unit_test(five_megabytes),
        cmocka_unit_test(null_and_empty),
        cmocka_unit_test(other_scripts_everywhere),
        cmocka_unit_test(other_scripts_in_items),
        cmocka_unit_test(a_queue_with_a_name_of_all_kinds),
        cmocka_unit_test(half_a_surrogate_pair),
        cmocka_unit_test(half_a_surrogate_pair_among_others),
    };
    return cmocka_run_group_tests_name("text", tests, open_queue_of, close_it);
}
