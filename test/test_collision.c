/* test_collision.c: random bits that repeat or do not come. getrandom() is this program's own, so two jobs can be
 * made to get one id: the second must be stored under another, never be taken for the first. */
#include "support.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include "handle.h"

/* ---- the random bits ---- */

static enum { REAL, SAME, NONE, SHORT, INTERRUPTED_ONCE } random_bits;

ssize_t getrandom(void *buffer, size_t length, unsigned int flags)
{
    switch (random_bits) {
    case SAME:
        memset(buffer, 0x5A, length);
        return (ssize_t)length;
    case NONE:
        errno = ENOSYS;
        return -1;
    case SHORT:
        memset(buffer, 0, length);
        return (ssize_t)length - 1;
    case INTERRUPTED_ONCE:
        random_bits = REAL;
        errno = EINTR;
        return -1;
    case REAL:
        break;
    }
    return (ssize_t)syscall(SYS_getrandom, buffer, length, flags);
}

/* Ids also hold a time and a sequence. From here on the handle makes those that it made after the last such call:
 * its clock stands in the year 2255. */
static void back_to_the_same_moment(renderq *h)
{
    h->order = (rq_guid_order){ .ms = UINT64_C(9000000000000), .seq = 100 };
}

/* ---- a queue for each test ---- */

static renderq *h;

static int begin(void **state)
{
    if (scratch_enter(state) != 0)
        return -1;
    random_bits = REAL;
    assert_status(h, renderq_open("sqlite:collision.db?synchronous=normal", NULL, &h), RENDERQ_OK);
    assert_status(h, renderq_create(h, NULL), RENDERQ_OK);
    random_bits = SAME;
    back_to_the_same_moment(h);
    return 0;
}

static int end(void **state)
{
    random_bits = REAL;
    renderq_close(h);
    h = NULL;
    return scratch_leave(state);
}

static renderq_new_job job_of(const char *payload, const char *key)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.composition_id = "intro";
    job.payload_json = payload;
    job.dedup_key = key;
    return job;
}

static renderq_id put(const char *payload, const char *key)
{
    renderq_new_job job = job_of(payload, key);
    renderq_id id = { "" };
    assert_status(h, renderq_enqueue(h, &job, &id), RENDERQ_OK);
    return id;
}

static void expect_payload(const renderq_id *id, const char *payload)
{
    renderq_job *job = NULL;
    assert_status(h, renderq_get(h, NULL, id, &job), RENDERQ_OK);
    assert_string_equal(job->payload_json, payload);
    renderq_job_free(job);
}

static int64_t count_jobs(void)
{
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    assert_status(h, renderq_stats(h, NULL, &counts), RENDERQ_OK);
    return counts.queued + counts.processing + counts.scheduled;
}

/* ---- ids that repeat ---- */

static void two_jobs_that_get_one_id(void **state)
{
    (void)state;
    renderq_id first = put("1", NULL);
    back_to_the_same_moment(h);
    renderq_id second = put("2", NULL);
    assert_int_equal(h->order.seq, 102);                /* it did make the first one's, and then another */
    assert_string_not_equal(first.text, second.text);
    expect_payload(&first, "1");
    expect_payload(&second, "2");
    assert_int_equal(count_jobs(), 2);
}

static void another_handle_makes_the_same_id(void **state)
{
    (void)state;
    renderq *mine = h, *other = NULL;
    renderq_id first = put("1", NULL);
    assert_status(other, renderq_open("sqlite:collision.db", NULL, &other), RENDERQ_OK);
    h = other;
    back_to_the_same_moment(h);
    renderq_id second = put("2", NULL);
    h = mine;
    renderq_close(other);
    assert_string_not_equal(first.text, second.text);
    expect_payload(&first, "1");
    expect_payload(&second, "2");
}

/* An id that an ended job has is taken as well. */
static void the_id_of_an_ended_job(void **state)
{
    (void)state;
    renderq_id first = put("1", NULL);
    assert_status(h, renderq_cancel(h, NULL, &first), RENDERQ_OK);
    back_to_the_same_moment(h);
    renderq_id second = put("2", NULL);
    assert_string_not_equal(first.text, second.text);
    expect_payload(&first, "1");
    assert_int_equal(count_jobs(), 1);
}

static void with_dedup_keys(void **state)
{
    (void)state;
    renderq_id first = put("1", "a"), got = { "" };
    back_to_the_same_moment(h);
    renderq_id second = put("2", "b");                  /* another key: a job of its own */
    assert_string_not_equal(first.text, second.text);
    expect_payload(&second, "2");

    back_to_the_same_moment(h);
    renderq_new_job job = job_of("3", "a");             /* the key of the very job whose id was made again */
    assert_status(h, renderq_enqueue(h, &job, &got), RENDERQ_DUPLICATE);
    assert_string_equal(got.text, first.text);
    back_to_the_same_moment(h);
    job = job_of("4", "b");                             /* the key of a third */
    assert_status(h, renderq_enqueue(h, &job, &got), RENDERQ_DUPLICATE);
    assert_string_equal(got.text, second.text);
    assert_int_equal(count_jobs(), 2);
    expect_payload(&first, "1");
    expect_payload(&second, "2");
}

static void several_ids_in_a_row_are_taken(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        put("old", NULL);
    back_to_the_same_moment(h);
    renderq_id fifth = put("new", NULL);
    expect_payload(&fifth, "new");
    assert_int_equal(count_jobs(), 5);
}

/* That is no accident any more, but no reason to go on for ever. */
static void no_id_is_free(void **state)
{
    (void)state;
    renderq_new_job job = job_of("new", NULL);
    renderq_id id = { "-" };
    for (int i = 0; i < 50; i++)
        put("old", NULL);
    back_to_the_same_moment(h);
    assert_status(h, renderq_enqueue(h, &job, &id), RENDERQ_FAILED);
    assert_says(h, "id");
    assert_string_equal(id.text, "-");
    assert_int_equal(count_jobs(), 50);
}

static void a_batch_meets_taken_ids(void **state)
{
    (void)state;
    enum { N = 4 };
    static const char *const payloads[N] = { "a", "b", "c", "d" };
    for (int taken = 1; taken <= N; taken++) {
        renderq_new_job jobs[N];
        renderq_enqueued each[N];
        int64_t before = count_jobs();
        renderq_id old[N];
        h->order.seq += 100;                            /* a stretch of ids for this round */
        rq_guid_order from = h->order;
        for (int i = 0; i < taken; i++)
            old[i] = put("old", NULL);
        h->order = from;
        for (int i = 0; i < N; i++) {
            jobs[i] = job_of(payloads[i], NULL);
            each[i] = (renderq_enqueued)RENDERQ_INIT(renderq_enqueued);
            each[i].status = RENDERQ_FAILED;
        }
        assert_status(h, renderq_enqueue_many(h, jobs, N, each), RENDERQ_OK);
        assert_int_equal(count_jobs(), before + taken + N);
        for (int i = 0; i < N; i++) {
            assert_int_equal(each[i].status, RENDERQ_OK);
            expect_payload(&each[i].id, payloads[i]);
        }
        for (int i = 0; i < taken; i++)
            expect_payload(&old[i], "old");
    }
}

/* ---- no random bits ---- */

static void without_random_bits_nothing_is_made(void **state)
{
    (void)state;
    renderq_new_job job = job_of("1", NULL);
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_job *taken = NULL;
    renderq_id id = { "-" }, lease;
    options.unstarted = 1;
    random_bits = REAL;
    put("old", NULL);
    for (int kind = NONE; kind <= SHORT; kind++) {
        random_bits = kind == NONE ? NONE : SHORT;
        assert_status(h, renderq_enqueue(h, &job, &id), RENDERQ_FAILED);
        assert_says(h, "random");
        assert_string_equal(id.text, "-");
        assert_status(h, renderq_enqueue_many(h, &job, 1, NULL), RENDERQ_FAILED);
        assert_status(h, renderq_claim(h, &options, &taken), RENDERQ_FAILED);
        assert_says(h, "random");
        assert_null(taken);
        assert_int_equal(count_jobs(), 1);
    }

    /* A hand-out needs a fresh token; a start does not, nor does anything else. */
    random_bits = REAL;
    assert_status(h, renderq_claim(h, &options, &taken), RENDERQ_OK);
    lease = taken->lease;
    random_bits = NONE;
    assert_status(h, renderq_start_many(h, &taken, 1, "machine-7", 0, NULL), RENDERQ_FAILED);
    assert_string_equal(taken->lease.text, lease.text);
    assert_int_equal(taken->started_at_ms, 0);
    assert_status(h, renderq_start_many(h, &taken, 1, NULL, 0, NULL), RENDERQ_OK);
    assert_status(h, renderq_renew(h, taken, NULL), RENDERQ_OK);
    assert_status(h, renderq_fail(h, taken, "no jitter", RENDERQ_BACKOFF), RENDERQ_OK);
    renderq_job_free(taken);
    id = (renderq_id){ "" };
    random_bits = INTERRUPTED_ONCE;                     /* a signal came: asked again */
    assert_status(h, renderq_enqueue(h, &job, &id), RENDERQ_OK);
    expect_payload(&id, "1");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_jobs_that_get_one_id, begin, end),
        cmocka_unit_test_setup_teardown(another_handle_makes_the_same_id, begin, end),
        cmocka_unit_test_setup_teardown(the_id_of_an_ended_job, begin, end),
        cmocka_unit_test_setup_teardown(with_dedup_keys, begin, end),
        cmocka_unit_test_setup_teardown(several_ids_in_a_row_are_taken, begin, end),
        cmocka_unit_test_setup_teardown(no_id_is_free, begin, end),
        cmocka_unit_test_setup_teardown(a_batch_meets_taken_ids, begin, end),
        cmocka_unit_test_setup_teardown(without_random_bits_nothing_is_made, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
