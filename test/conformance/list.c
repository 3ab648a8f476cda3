/* list.c: lists: filters, pages, and callbacks that end the list or use the handle. */
#include "suite.h"

#include <stdlib.h>
#include <string.h>

#include "guid.h"

typedef struct seen {
    suite *s;
    size_t n, stop_at;          /* stop_at 0: go on */
    renderq_id ids[600];
    bool in_order, bad;
    size_t nested;
} seen;

static int see(void *arg, const renderq_job *job)
{
    seen *to = arg;
    if (to->n > 0) {
        rq_guid last, now;
        rq_guid_parse(to->ids[to->n - 1].text, &last);
        rq_guid_parse(job->id.text, &now);
        to->in_order &= memcmp(last.sort, now.sort, sizeof now.sort) < 0;
    }
    to->bad |= job->payload_json || job->payload_len || job->lease.text[0] || !job->composition_id;
    to->ids[to->n++] = job->id;
    return to->n == to->stop_at ? 17 : 0;
}

static seen list(suite *s, const renderq_filter *filter, size_t stop_at)
{
    seen to = { .s = s, .stop_at = stop_at, .in_order = true };
    expect_ok(s->h, renderq_list(s->h, filter, see, &to));
    assert_true(to.in_order);
    assert_false(to.bad);
    return to;
}

static void filters(void **state)
{
    suite *s = *state;
    renderq_id ids[RENDERQ_OTHER + 1];
    renderq_filter filter = RENDERQ_INIT(renderq_filter);
    seen all = list(s, NULL, 0);
    assert_int_equal(all.n, 0);
    for (int i = RENDERQ_SCHEDULED; i <= RENDERQ_OTHER; i++)
        ids[i] = put_in_state(s, (renderq_state)i);
    all = list(s, NULL, 0);
    assert_int_equal(all.n, RENDERQ_OTHER);
    for (int i = RENDERQ_SCHEDULED; i <= RENDERQ_OTHER; i++) {
        filter.state = (renderq_state)i;
        all = list(s, &filter, 0);
        assert_int_equal(all.n, 1);
        same_id(&all.ids[0], &ids[i]);
    }
    filter.state = (renderq_state)0;
    filter.composition_id = "Processing";
    all = list(s, &filter, 0);
    assert_int_equal(all.n, 1);
    same_id(&all.ids[0], &ids[RENDERQ_PROCESSING]);
    filter.state = RENDERQ_QUEUED;
    assert_int_equal(list(s, &filter, 0).n, 0);
    filter = (renderq_filter)RENDERQ_INIT(renderq_filter);
    filter.worker = "node-1";
    assert_int_equal(list(s, &filter, 0).n, 2);         /* Processing, and Completed, which keeps its worker */
    filter.worker = "node-2";
    assert_int_equal(list(s, &filter, 0).n, 0);
    filter.worker = NULL;
    filter.queue = s->queue;
    assert_int_equal(list(s, &filter, 0).n, RENDERQ_OTHER);
}

static void put_many(suite *s, size_t n)
{
    renderq_new_job *jobs = calloc(n, sizeof *jobs);
    for (size_t i = 0; i < n; i++) {
        jobs[i] = (renderq_new_job)RENDERQ_INIT(renderq_new_job);
        jobs[i].composition_id = i % 5 ? "odd" : "fifth";
        jobs[i].payload_json = "{}";
    }
    expect_ok(s->h, renderq_enqueue_many(s->h, jobs, n, NULL));
    free(jobs);
}

static void pages(void **state)
{
    suite *s = *state;
    static const size_t sizes[] = { 99, 100, 101, 200, 250, 500 };
    for (size_t i = 0; i < count_of(sizes); i++) {
        put_many(s, sizes[i]);
        seen all = list(s, NULL, 0);
        assert_int_equal(all.n, sizes[i]);
        renderq_filter filter = RENDERQ_INIT(renderq_filter);
        filter.composition_id = "fifth";
        assert_int_equal(list(s, &filter, 0).n, (sizes[i] + 4) / 5);
        s->ops->clear(s->e);
    }
}

static void at_most(void **state)
{
    suite *s = *state;
    put_many(s, 250);
    seen all = list(s, NULL, 0);
    static const size_t maxima[] = { 1, 99, 100, 101, 200, 249, 250, 251, 100000, SIZE_MAX };
    for (size_t i = 0; i < count_of(maxima); i++) {
        renderq_filter filter = RENDERQ_INIT(renderq_filter);
        filter.max = maxima[i];
        seen some = list(s, &filter, 0);
        assert_int_equal(some.n, maxima[i] < 250 ? maxima[i] : 250);
        for (size_t k = 0; k < some.n; k++)
            same_id(&some.ids[k], &all.ids[k]);
    }
}

static void the_callback_ends_it(void **state)
{
    suite *s = *state;
    put_many(s, 250);
    static const size_t stops[] = { 1, 100, 101, 250 };
    for (size_t i = 0; i < count_of(stops); i++)
        assert_int_equal(list(s, NULL, stops[i]).n, stops[i]);
}

/* ---- the callback uses the handle ---- */

static int count(void *arg, const renderq_job *job)
{
    (void)job;
    ++*(size_t *)arg;
    return 0;
}

static int cancel_each(void *arg, const renderq_job *job)
{
    seen *to = arg;
    renderq_job *read = NULL;
    expect_ok(to->s->h, renderq_get(to->s->h, NULL, &job->id, &read));
    renderq_job_free(read);
    expect_ok(to->s->h, renderq_cancel(to->s->h, NULL, &job->id));
    expect_ok(to->s->h, renderq_settle(to->s->h, NULL, &job->id, NULL, 0));
    expect(to->s->h, RENDERQ_LOST, renderq_cancel(to->s->h, NULL, &job->id));
    if (to->n == 0)
        expect_ok(to->s->h, renderq_list(to->s->h, NULL, count, &to->nested));
    assert_true(strcmp(job->composition_id, "odd") == 0 || strcmp(job->composition_id, "fifth") == 0);
    return see(arg, job);
}

static int interrupt_and_count(void *arg, const renderq_job *job)
{
    seen *to = arg;
    (void)job;
    if (to->n++ == 0)
        renderq_interrupt(to->s->h);
    return 0;
}

static void an_interrupt_in_the_callback_ends_it(void **state)
{
    suite *s = *state;
    put_many(s, 250);
    seen to = { .s = s };
    expect(s->h, RENDERQ_INTERRUPTED, renderq_list(s->h, NULL, interrupt_and_count, &to));
    assert_true(to.n < 250);
    renderq_job *job = NULL;
    expect_ok(s->h, renderq_claim(s->h, NULL, &job));       /* it is answered, once */
    renderq_job_free(job);
}

static void the_callback_uses_the_handle(void **state)
{
    suite *s = *state;
    put_many(s, 120);
    seen to = { .s = s, .in_order = true };
    renderq_filter filter = RENDERQ_INIT(renderq_filter);
    filter.state = RENDERQ_QUEUED;
    expect_ok(s->h, renderq_list(s->h, &filter, cancel_each, &to));
    assert_int_equal(to.n, 120);
    assert_int_equal(to.nested, 120);
    assert_true(to.in_order);
    assert_int_equal(list(s, &filter, 0).n, 0);
    filter.state = RENDERQ_COMPLETED;
    assert_int_equal(list(s, &filter, 0).n, 120);
}

static int delete_all(void *arg, const renderq_job *job)
{
    seen *to = arg;
    if (to->n == 0)
        to->s->ops->clear(to->s->e);
    return see(arg, job);
}

/* Nothing is held open: rows that go meanwhile are not seen on the next page. */
static void rows_go_meanwhile(void **state)
{
    suite *s = *state;
    put_many(s, 250);
    seen to = { .s = s, .in_order = true };
    expect_ok(s->h, renderq_list(s->h, NULL, delete_all, &to));
    assert_in_range(to.n, 1, 249);
}

static int look(void *arg, const renderq_job *job)
{
    const renderq_job *want = arg;
    same_id(&job->id, &want->id);
    assert_string_equal(job->composition_id, "intro");
    assert_string_equal(job->queue, want->queue);
    assert_string_equal(job->worker, "node-1");
    assert_string_equal(job->progress, "half");
    assert_string_equal(job->dedup_key, "key");
    assert_string_equal(job->output_url, "out");
    assert_null(job->last_error);
    assert_null(job->payload_json);
    assert_string_equal(job->lease.text, "");
    assert_int_equal(job->state, RENDERQ_PROCESSING);
    assert_int_equal(job->priority, 4);
    assert_int_equal(job->max_retries, 2);
    assert_int_equal(job->created_at_ms, want->created_at_ms);
    assert_int_equal(job->started_at_ms, want->started_at_ms);
    assert_int_equal(job->locked_at_ms, want->locked_at_ms);
    assert_in_range(job->lease_left_ms, 500000, 601000);
    return 0;
}

static void a_listed_job_has_its_fields(void **state)
{
    suite *s = *state;
    renderq_new_job new_job = RENDERQ_INIT(renderq_new_job);
    new_job.composition_id = "intro";
    new_job.payload_json = "{}";
    new_job.dedup_key = "key";
    new_job.output_url = "out";
    new_job.priority = 4;
    new_job.max_retries = 2;
    put_job(s, &new_job);
    renderq_job *job = take(s->h);
    expect_ok(s->h, renderq_renew(s->h, job, "half"));
    expect_ok(s->h, renderq_list(s->h, NULL, look, job));
    renderq_job_free(job);
}

static void refusals(void **state)
{
    suite *s = *state;
    renderq_filter filter = RENDERQ_INIT(renderq_filter);
    expect_invalid(s->h, "function", renderq_list(s->h, NULL, NULL, NULL));
    filter.state = (renderq_state)8;
    expect_invalid(s->h, "state", renderq_list(s->h, &filter, see, NULL));
    filter.state = (renderq_state)-1;
    expect_invalid(s->h, "state", renderq_list(s->h, &filter, see, NULL));
    filter.state = (renderq_state)0;
    filter.composition_id = "\xFF";
    expect_invalid(s->h, "composition_id", renderq_list(s->h, &filter, see, NULL));
    filter.composition_id = NULL;
    filter.worker = "\xFF";
    expect_invalid(s->h, "worker", renderq_list(s->h, &filter, see, NULL));
    filter.worker = NULL;
    filter.queue = "a.b.c";
    expect_invalid(s->h, "queue", renderq_list(s->h, &filter, see, NULL));
}

int run_list(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(filters),
        TEST(pages),
        TEST(at_most),
        TEST(the_callback_ends_it),
        TEST(an_interrupt_in_the_callback_ends_it),
        TEST(the_callback_uses_the_handle),
        TEST(rows_go_meanwhile),
        TEST(a_listed_job_has_its_fields),
        TEST(refusals),
    };
    return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}
