/* dedup.c: rule 7, dedup keys: how long one is held, what a second enqueue and a retry hear, how keys compare. */
#include "suite.h"

#include <string.h>

static renderq_new_job keyed(const char *key)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.composition_id = "second";
    job.payload_json = "{}";
    job.dedup_key = key;
    return job;
}

static void expect_held(suite *s, const char *key, const renderq_id *holder)
{
    renderq_new_job job = keyed(key);
    renderq_id id = { "" };
    size_t rows = count_rows(s);
    expect(s->h, RENDERQ_DUPLICATE, renderq_enqueue(s->h, &job, &id));
    same_id(&id, holder);
    expect_said(s->h, holder->text);
    expect(s->h, RENDERQ_DUPLICATE, renderq_enqueue(s->h, &job, NULL));
    assert_int_equal(count_rows(s), rows);
}

static void held_while_the_job_is_live(void **state)
{
    suite *s = *state;
    renderq_new_job first = keyed("order-7");
    first.delay_ms = 60000;
    renderq_id id = put_job(s, &first);
    expect_text(s, &id, "DedupKey", "order-7");
    char *row = snapshot(s, &id);
    expect_held(s, "order-7", &id);                 /* Scheduled */
    expect_unchanged(s, &id, row);
    make_due(s, &id);
    renderq_job *job = take_this(s->h, &id);
    assert_string_equal(job->dedup_key, "order-7");
    expect_held(s, "order-7", &id);                 /* Processing */
    expect_ok(s->h, renderq_fail(s->h, job, NULL, 0));
    expect_held(s, "order-7", &id);                 /* Queued */
    renderq_job_free(job);
    expect_ok(s->h, renderq_cancel(s->h, NULL, &id));
    renderq_new_job second = keyed("order-7");
    renderq_id next = put_job(s, &second);
    assert_string_not_equal(next.text, id.text);
    expect_held(s, "order-7", &next);
}

static void not_held_by_an_ended_job(void **state)
{
    suite *s = *state;
    static const char *const ended[] = { "Completed", "DeadLetter", "Cancelled", "Paused" };
    for (size_t i = 0; i < count_of(ended); i++) {
        renderq_id first = put_key(s, "order-7");
        set_text(s, &first, "Status", ended[i]);
        renderq_id second = put_key(s, "order-7");
        assert_string_not_equal(second.text, first.text);
        assert_int_equal(count_rows(s), 2);
        s->ops->clear(s->e);
    }
}

/* By bytes, on every engine: neither case nor accents nor width nor composed forms are folded. */
static void keys_compare_by_bytes(void **state)
{
    suite *s = *state;
    static const char *const different[] = {
        "order", "Order", "ORDER", "ord\xC3\xA9r", "orde\xCC\x81r", "ord\xC3\x89r", "orde\xEF\xBD\x92", " order",
        "order\t", "or-der", "order0", "stra\303\237e", "strasse", EMOJI, EMOJI EMOJI, "\xC2\xA0order",
    };
    for (size_t i = 0; i < count_of(different); i++)
        put_key(s, different[i]);
    assert_int_equal(count_rows(s), count_of(different));
    for (size_t i = 0; i < count_of(different); i++) {
        renderq_new_job job = keyed(different[i]);
        expect(s->h, RENDERQ_DUPLICATE, renderq_enqueue(s->h, &job, NULL));
    }
}

static void jobs_without_a_key_never_meet(void **state)
{
    suite *s = *state;
    put(s, "intro");
    put(s, "intro");
    renderq_id foreign;
    s->ops->enqueue(s->e, "intro", "{}", 0, &foreign);
    expect_null(s, &foreign, "DedupKey");
    assert_int_equal(count_rows(s), 3);
}

static renderq_id dead_with_key(suite *s, const char *key)
{
    renderq_id id = put_key(s, key);
    renderq_job *job = take_this(s->h, &id);
    expect_ok(s->h, renderq_fail(s->h, job, "dead", RENDERQ_NEVER));
    renderq_job_free(job);
    return id;
}

static void retry_while_the_key_lives(void **state)
{
    suite *s = *state;
    renderq_id dead = dead_with_key(s, "order-7"), live = put_key(s, "order-7"), holder = { "" };
    char *row = snapshot(s, &dead);
    expect(s->h, RENDERQ_DUPLICATE, renderq_retry(s->h, NULL, &dead, &holder));
    same_id(&holder, &live);
    expect_said(s->h, live.text);
    expect(s->h, RENDERQ_DUPLICATE, renderq_retry(s->h, NULL, &dead, NULL));
    expect_unchanged(s, &dead, row);

    expect_ok(s->h, renderq_cancel(s->h, NULL, &live));
    expect_ok(s->h, renderq_retry(s->h, NULL, &dead, &holder));
    expect_status(s, &dead, "Queued");
    expect(s->h, RENDERQ_DUPLICATE, renderq_retry(s->h, NULL, &live, &holder));
    same_id(&holder, &dead);
}

static void bulk_retry_takes_one_a_key(void **state)
{
    suite *s = *state;
    renderq_id plain = put_in_state(s, RENDERQ_DEAD_LETTER), cancelled = put_in_state(s, RENDERQ_CANCELLED);
    renderq_id a[3], b[2];
    for (int i = 0; i < 3; i++)
        a[i] = dead_with_key(s, "a");
    for (int i = 0; i < 2; i++)
        b[i] = dead_with_key(s, "b");
    renderq_id live = put_key(s, "b");
    renderq_retried counts = RENDERQ_INIT(renderq_retried);
    counts.retried = counts.duplicates = 99;
    expect_ok(s->h, renderq_retry_dead(s->h, NULL, &counts));
    assert_int_equal(counts.retried, 2);            /* the plain one, and one of a */
    assert_int_equal(counts.duplicates, 4);
    assert_int_equal(counts.size, sizeof counts);
    expect_status(s, &plain, "Queued");
    expect_number(s, &plain, "RetryCount", 0);
    expect_status(s, &cancelled, "Cancelled");
    expect_status(s, &live, "Queued");
    int queued = 0;
    for (int i = 0; i < 3; i++) {
        renderq_job *job = get(s, &a[i]);
        queued += job->state == RENDERQ_QUEUED;
        renderq_job_free(job);
    }
    assert_int_equal(queued, 1);
    expect_status(s, &b[0], "DeadLetter");
    expect_status(s, &b[1], "DeadLetter");

    expect_ok(s->h, renderq_retry_dead(s->h, NULL, &counts));
    assert_int_equal(counts.retried, 0);
    assert_int_equal(counts.duplicates, 4);
    expect_ok(s->h, renderq_retry_dead(s->h, NULL, NULL));
}

static void duplicates_inside_a_batch(void **state)
{
    suite *s = *state;
    renderq_id there = put_key(s, "b");
    renderq_new_job jobs[] = { keyed("a"), keyed("b"), keyed("a"), keyed(NULL), keyed("c") };
    renderq_enqueued each[count_of(jobs)];
    for (size_t i = 0; i < count_of(jobs); i++)
        each[i] = (renderq_enqueued){ .size = sizeof each[i], .status = RENDERQ_FAILED };
    expect_ok(s->h, renderq_enqueue_many(s->h, jobs, count_of(jobs), each));
    static const renderq_status want[] = { RENDERQ_OK, RENDERQ_DUPLICATE, RENDERQ_DUPLICATE, RENDERQ_OK,
                                           RENDERQ_OK };
    for (size_t i = 0; i < count_of(jobs); i++)
        assert_int_equal(each[i].status, want[i]);
    same_id(&each[1].id, &there);
    same_id(&each[2].id, &each[0].id);
    expect_null(s, &each[3].id, "DedupKey");
    assert_int_equal(count_rows(s), 4);
}

/* expect() wants one line of every text. */
static void a_key_of_two_lines(void **state)
{
    suite *s = *state;
    put_key(s, "two\nlines");
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.composition_id = "intro";
    job.payload_json = "{}";
    job.dedup_key = "two\nlines";
    expect(s->h, RENDERQ_DUPLICATE, renderq_enqueue(s->h, &job, NULL));
    expect_said(s->h, "two lines");
}

int run_dedup(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(a_key_of_two_lines),
        TEST(held_while_the_job_is_live),
        TEST(not_held_by_an_ended_job),
        TEST(keys_compare_by_bytes),
        TEST(jobs_without_a_key_never_meet),
        TEST(retry_while_the_key_lives),
        TEST(bulk_retry_takes_one_a_key),
        TEST(duplicates_inside_a_batch),
    };
    return cmocka_run_group_tests_name("dedup", tests, NULL, NULL);
}
