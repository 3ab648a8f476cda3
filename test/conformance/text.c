/* text.c: rule 8, nothing is cut: every text comes back as it went in, up to the last UTF-16 unit that fits; what
 * cannot be stored is refused before anything is sent; error messages alone are made to fit. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utf.h"

#define MARK "\xE2\x80\xA6"         /* the sign at the end of a shortened error message */
#define UNKNOWN "\xEF\xBF\xBD"      /* what stands for bytes that are no UTF-8 */

/* ---- every field of a new job, and those of other calls, set by name ---- */

typedef struct field {
    const char *name;
    size_t max;                     /* UTF-16 units; 0: any size */
    const char *column;
    bool empty, blank;              /* "" is a value; a blank may stand at the end */
    renderq_status (*set)(suite *s, const char *text, renderq_id *id);
} field;

static renderq_new_job new_job(void)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.composition_id = "intro";
    job.payload_json = "{}";
    return job;
}

static renderq_status set_composition(suite *s, const char *text, renderq_id *id)
{
    renderq_new_job job = new_job();
    job.composition_id = text;
    return renderq_enqueue(s->h, &job, id);
}

static renderq_status set_payload(suite *s, const char *text, renderq_id *id)
{
    renderq_new_job job = new_job();
    job.payload_json = text;
    return renderq_enqueue(s->h, &job, id);
}

static renderq_status set_output_url(suite *s, const char *text, renderq_id *id)
{
    renderq_new_job job = new_job();
    job.output_url = text;
    return renderq_enqueue(s->h, &job, id);
}

static renderq_status set_dedup_key(suite *s, const char *text, renderq_id *id)
{
    renderq_new_job job = new_job();
    job.dedup_key = text;
    return renderq_enqueue(s->h, &job, id);
}

static renderq_status set_worker(suite *s, const char *text, renderq_id *id)
{
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_job *job;
    options.worker = text;
    put(s, "intro");
    renderq_status status = renderq_claim(s->h, &options, &job);
    if (job)
        *id = job->id;
    renderq_job_free(job);
    return status;
}

static renderq_status set_taker(suite *s, const char *text, renderq_id *id)
{
    renderq_job *job = put_and_take(s, "intro");
    *id = job->id;
    renderq_status status = renderq_start_many(s->h, &job, 1, text, 0, NULL);
    if (status == RENDERQ_OK)
        assert_string_equal(job->worker, text);
    renderq_job_free(job);
    return status;
}

static renderq_status set_progress(suite *s, const char *text, renderq_id *id)
{
    renderq_job *job = put_and_take(s, "intro");
    *id = job->id;
    renderq_status status = renderq_renew(s->h, job, text);
    renderq_job_free(job);
    return status;
}

static renderq_status complete_with(suite *s, const char *text, renderq_id *id)
{
    renderq_job *job = put_and_take(s, "intro");
    *id = job->id;
    renderq_status status = renderq_complete(s->h, job, text);
    renderq_job_free(job);
    return status;
}

static renderq_status complete_many_with(suite *s, const char *text, renderq_id *id)
{
    renderq_job *job = put_and_take(s, "intro");
    renderq_result result = RENDERQ_INIT(renderq_result);
    *id = job->id;
    result.job = job;
    result.output_url = text;
    renderq_status status = renderq_complete_many(s->h, &result, 1);
    renderq_job_free(job);
    return status;
}

static renderq_status settle_with(suite *s, const char *text, renderq_id *id)
{
    *id = put(s, "intro");
    return renderq_settle(s->h, NULL, id, text, 0);
}

static const field fields[] = {
    { "composition_id", RENDERQ_COMPOSITION_MAX, "CompositionId", false, true, set_composition },
    { "payload_json", 0, "PayloadJson", false, true, set_payload },
    { "output_url", RENDERQ_OUTPUT_URL_MAX, "OutputUrl", true, true, set_output_url },
    { "dedup_key", RENDERQ_DEDUP_KEY_MAX, "DedupKey", false, false, set_dedup_key },
    { "worker", RENDERQ_WORKER_MAX, "WorkerNodeId", false, false, set_worker },
    { "worker", RENDERQ_WORKER_MAX, "WorkerNodeId", false, false, set_taker },
    { "progress", RENDERQ_PROGRESS_MAX, "Progress", true, true, set_progress },
    { "output_url", RENDERQ_OUTPUT_URL_MAX, "OutputUrl", true, true, complete_with },
    { "output_url", RENDERQ_OUTPUT_URL_MAX, "OutputUrl", true, true, complete_many_with },
    { "output_url", RENDERQ_OUTPUT_URL_MAX, "OutputUrl", true, true, settle_with },
};

static void stored(suite *s, const field *f, const char *text)
{
    renderq_id id = { "" };
    expect_ok(s->h, f->set(s, text, &id));
    expect_text(s, &id, f->column, text);
    s->ops->clear(s->e);
}

static void refused(suite *s, const field *f, const char *text)
{
    renderq_id id = { "" };
    expect_invalid(s->h, f->name, f->set(s, text, &id));
    if (id.text[0]) {
        cell value;
        assert_true(s->ops->read(s->e, &id, f->column, &value));
        assert_true(!value.text || strcmp(value.text, text) != 0);
        free(value.text);
    }
    s->ops->clear(s->e);
}

static const char *const texts[] = {
    "x", UMLAUT, EMOJI, "\xE2\x82\xAC", "'; DROP TABLE x; --", "a\nb\tc\x01\x7F", "\"%s\\", "\xEF\xBF\xBF",
    "\xF4\x8F\xBF\xBF", "\xEF\xBB\xBF-bom", " x", "e\xCC\x81", "\\u0041\\n\\\\", "a?b @P1 :id $1 [x]] {y}", "''\"\"'\r\n"
};

static void texts_that_fit(void **state)
{
    suite *s = *state;
    for (size_t i = 0; i < count_of(fields); i++) {
        const field *f = &fields[i];
        for (size_t t = 0; t < count_of(texts); t++)
            stored(s, f, texts[t]);
        if (f->empty)
            stored(s, f, "");
        if (f->blank)
            stored(s, f, "x ");
        if (!f->max)
            continue;
        static const struct { const char *tail; size_t n; } tails[] = { { "", 0 }, { UMLAUT, 1 }, { EMOJI, 2 } };
        for (size_t t = 0; t < count_of(tails); t++) {
            char *text = units(f->max, tails[t].tail, tails[t].n);
            stored(s, f, text);
            free(text);
        }
    }
}

/* The same where many travel in one request, which has a form of its own. */
static void texts_in_batches(void **state)
{
    suite *s = *state;
    enum { N = count_of(texts) };
    renderq_new_job jobs[N];
    renderq_enqueued each[N];
    renderq_job *taken[N];
    renderq_result results[N];
    char keys[N][40];
    size_t n;
    for (size_t i = 0; i < N; i++) {
        jobs[i] = new_job();
        snprintf(keys[i], sizeof keys[i], "%s %zu", texts[i], i);
        jobs[i].composition_id = jobs[i].payload_json = jobs[i].output_url = texts[i];
        jobs[i].dedup_key = keys[i];
        each[i] = (renderq_enqueued)RENDERQ_INIT(renderq_enqueued);
    }
    expect_ok(s->h, renderq_enqueue_many(s->h, jobs, N, each));
    for (size_t i = 0; i < N; i++) {
        expect_text(s, &each[i].id, "CompositionId", texts[i]);
        expect_text(s, &each[i].id, "PayloadJson", texts[i]);
        expect_text(s, &each[i].id, "OutputUrl", texts[i]);
        expect_text(s, &each[i].id, "DedupKey", keys[i]);
    }
    expect_ok(s->h, renderq_claim_many(s->h, NULL, taken, N, &n));
    assert_int_equal(n, N);
    for (size_t i = 0; i < N; i++) {
        assert_string_equal(taken[i]->payload_json, texts[i]);
        expect_ok(s->h, renderq_start_many(s->h, taken, N, texts[i], 0, NULL));
        expect_text(s, &taken[N - 1]->id, "WorkerNodeId", texts[i]);
        results[i] = (renderq_result)RENDERQ_INIT(renderq_result);
        results[i].job = taken[i];
        results[i].output_url = texts[N - 1 - i];
    }
    expect_ok(s->h, renderq_complete_many(s->h, results, N));
    for (size_t i = 0; i < N; i++) {
        expect_text(s, &each[i].id, "OutputUrl", texts[N - 1 - i]);
        renderq_job_free(taken[i]);
    }
}

static void texts_that_do_not_fit(void **state)
{
    suite *s = *state;
    static const char *const bad[] = { "\xFF", "x\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82",
                                       "ok\x80ok", "\xF0\x9F\x98" };
    for (size_t i = 0; i < count_of(fields); i++) {
        const field *f = &fields[i];
        for (size_t t = 0; t < count_of(bad); t++)
            refused(s, f, bad[t]);
        if (!f->empty)
            refused(s, f, "");
        if (!f->blank) {
            refused(s, f, "x ");
            refused(s, f, " ");
        }
        if (!f->max)
            continue;
        static const struct { const char *tail; size_t n; } tails[] = { { "", 0 }, { UMLAUT, 1 }, { EMOJI, 2 } };
        for (size_t t = 0; t < count_of(tails); t++) {
            char *text = units(f->max + 1, tails[t].tail, tails[t].n);
            refused(s, f, text);
            free(text);
        }
    }
}

/* NULL leaves what is there; "" is a value. */
static void null_and_empty_stay_apart(void **state)
{
    suite *s = *state;
    renderq_id id;
    renderq_new_job job = new_job();
    id = put_job(s, &job);
    expect_null(s, &id, "OutputUrl");
    renderq_job *taken = take(s->h);
    assert_null(taken->output_url);
    expect_ok(s->h, renderq_complete(s->h, taken, ""));
    expect_text(s, &id, "OutputUrl", "");
    renderq_job_free(taken);
    taken = get(s, &id);
    assert_string_equal(taken->output_url, "");
    renderq_job_free(taken);

    job.output_url = "";
    id = put_job(s, &job);
    taken = take(s->h);
    assert_string_equal(taken->output_url, "");
    expect_ok(s->h, renderq_complete(s->h, taken, NULL));
    expect_text(s, &id, "OutputUrl", "");
    renderq_job_free(taken);

    job.output_url = "expected";
    id = put_job(s, &job);
    expect_ok(s->h, renderq_settle(s->h, NULL, &id, NULL, 0));
    expect_text(s, &id, "OutputUrl", "expected");

    id = put(s, "intro");
    taken = take(s->h);
    expect_ok(s->h, renderq_fail(s->h, taken, "", 60000));
    expect_text(s, &id, "LastErrorMessage", "");
    renderq_job_free(taken);
    taken = get(s, &id);
    assert_string_equal(taken->last_error, "");
    assert_null(taken->progress);
    assert_null(taken->dedup_key);
    renderq_job_free(taken);
}

/* ---- payloads ---- */

static void payloads_of_any_size(void **state)
{
    suite *s = *state;
    static const size_t sizes[] = { 1, 4000, 4001, 8001, 70000, 3000000 };
    for (size_t i = 0; i < count_of(sizes); i++) {
        char *text = xs(sizes[i]);
        memcpy(text + sizes[i] / 2, "y", 1);
        if (sizes[i] > 4)
            memcpy(text + sizes[i] - 4, EMOJI, 4);
        renderq_new_job job = new_job();
        job.payload_json = text;
        renderq_id id = put_job(s, &job);
        renderq_job *taken = take_this(s->h, &id);
        assert_int_equal(taken->payload_len, sizes[i]);
        assert_string_equal(taken->payload_json, text);
        renderq_job_free(taken);
        taken = get(s, &id);
        assert_string_equal(taken->payload_json, text);
        renderq_job_free(taken);
        free(text);
        s->ops->clear(s->e);
    }
}

static void payloads_with_a_length(void **state)
{
    suite *s = *state;
    renderq_new_job job = new_job();
    renderq_id id;
    job.payload_json = "{\"a\":1}garbage\xFF";
    job.payload_len = 7;
    id = put_job(s, &job);
    expect_text(s, &id, "PayloadJson", "{\"a\":1}");
    job.payload_json = "a\0b";
    job.payload_len = 3;
    expect_invalid(s->h, "payload_json", renderq_enqueue(s->h, &job, NULL));
    expect_said(s->h, "NUL");
    job.payload_json = EMOJI;
    job.payload_len = 3;                            /* in the middle of a character */
    expect_invalid(s->h, "payload_json", renderq_enqueue(s->h, &job, NULL));
    assert_int_equal(count_rows(s), 1);
}

/* ---- error messages ---- */

/* What stands in LastErrorMessage after failing with this text; to be freed. */
static char *recorded(suite *s, const char *error)
{
    cell value;
    renderq_job *job = put_and_take(s, "intro");
    expect_ok(s->h, renderq_fail(s->h, job, error, 60000));
    assert_true(s->ops->read(s->e, &job->id, "LastErrorMessage", &value));
    assert_non_null(value.text);
    renderq_job *read = get(s, &job->id);
    assert_string_equal(read->last_error, value.text);
    renderq_job_free(read);
    renderq_job_free(job);
    return value.text;
}

static void expect_recorded(suite *s, const char *error, const char *want)
{
    char *text = recorded(s, error);
    assert_string_equal(text, want);
    free(text);
}

static void errors_are_made_valid(void **state)
{
    suite *s = *state;
    expect_recorded(s, "plain " EMOJI, "plain " EMOJI);
    expect_recorded(s, "a\nb", "a\nb");
    expect_recorded(s, "bad \xFF here", "bad " UNKNOWN " here");
    static const char *const bad[] = { "cut \xE2\x82", "cut \xED\xA0\x80", "cut \xC0\x80 x", "cut \xF0\x9F\x98" };
    for (size_t i = 0; i < count_of(bad); i++) {
        char *text = recorded(s, bad[i]);
        assert_int_equal(rq_utf_check(text, strlen(text)).bad_at, strlen(text));
        assert_memory_equal(text, "cut " UNKNOWN, strlen("cut " UNKNOWN));
        free(text);
    }
}

static void errors_are_shortened_with_a_mark(void **state)
{
    suite *s = *state;
    static const struct { size_t n; const char *tail; size_t tail_units; bool cut; } errors[] = {
        { RENDERQ_ERROR_MAX, "", 0, false },
        { RENDERQ_ERROR_MAX, EMOJI, 2, false },
        { RENDERQ_ERROR_MAX + 1, "", 0, true },
        { RENDERQ_ERROR_MAX + 1, EMOJI, 2, true },
        { RENDERQ_ERROR_MAX + 2, EMOJI EMOJI, 4, true },
        { 500000, "", 0, true },
    };
    for (size_t i = 0; i < count_of(errors); i++) {
        char *error = units(errors[i].n, errors[i].tail, errors[i].tail_units);
        char *text = recorded(s, error);
        size_t len = strlen(text);
        if (errors[i].cut) {
            /* As many as fit, none torn, and the mark in the last unit. */
            assert_in_range(len, RENDERQ_ERROR_MAX - 2 + strlen(MARK), RENDERQ_ERROR_MAX + 4);
            assert_string_equal(text + len - strlen(MARK), MARK);
            assert_memory_equal(text, error, len - strlen(MARK));
        } else {
            assert_string_equal(text, error);
        }
        free(text);
        free(error);
        s->ops->clear(s->e);
    }
}

static void errors_of_three_byte_characters(void **state)
{
    suite *s = *state;
    char *error = malloc(3 * (RENDERQ_ERROR_MAX + 1) + 1);
    for (size_t i = 0; i <= RENDERQ_ERROR_MAX; i++)
        memcpy(error + 3 * i, "\xE2\x82\xAC", 4);
    error[3 * RENDERQ_ERROR_MAX] = 0;
    expect_recorded(s, error, error);
    error[3 * RENDERQ_ERROR_MAX] = '\xE2';
    char *text = recorded(s, error);
    assert_int_equal(strlen(text), 3 * RENDERQ_ERROR_MAX);
    assert_string_equal(text + 3 * (RENDERQ_ERROR_MAX - 1), MARK);
    free(text);
    free(error);
}

int run_text(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(texts_that_fit),
        TEST(texts_in_batches),
        TEST(texts_that_do_not_fit),
        TEST(null_and_empty_stay_apart),
        TEST(payloads_of_any_size),
        TEST(payloads_with_a_length),
        TEST(errors_are_made_valid),
        TEST(errors_are_shortened_with_a_mark),
        TEST(errors_of_three_byte_characters),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
