/* interrupted.c: what an interrupted call says of what it may have done. It looks once; what a row says is an answer,
 * and what nothing says stays UNCERTAIN. How an interrupt ends a wait is in concurrency.c and busy.c. */
#include <string.h>

#include "faulty.h"
#include "lease.h"

static void interrupt_it(void *arg)
{
    renderq_interrupt(arg);
}

/* The server comes to stop at an interrupt, having done it or not. */
static fault stopped(renderq *f, bool done)
{
    return (fault){ .kind = done ? FAULT_STOPPED_AFTER : FAULT_STOPPED, .then = interrupt_it, .arg = f };
}

static const fault late = { .kind = FAULT_LATER, .later_by = 1000 };      /* when it is flushed */

/* ---- fenced calls ---- */

static renderq_status call_complete(renderq *f, renderq_job *job)
{
    return renderq_complete(f, job, "out");
}

static renderq_status call_complete_many(renderq *f, renderq_job *job)
{
    renderq_result result = RENDERQ_INIT(renderq_result);
    result.job = job;
    return renderq_complete_many(f, &result, 1);
}

static renderq_status call_fail(renderq *f, renderq_job *job)
{
    return renderq_fail(f, job, "why", 0);
}

static renderq_status call_release(renderq *f, renderq_job *job)
{
    return renderq_release(f, job, 0);
}

static renderq_status call_hand_out(renderq *f, renderq_job *job)
{
    return renderq_start_many(f, &job, 1, "machine-7", 0, NULL);
}

static const struct fenced_call {
    renderq_status (*call)(renderq *f, renderq_job *job);
    const char *row;            /* the Status that it leaves */
} calls[] = {
    { call_complete, "Completed" }, { call_complete_many, "Completed" }, { call_fail, "Queued" },
    { call_release, "Queued" },     { call_hand_out, "Processing" },
};

/* A call with these faults; what it answers, and what the row is then. */
static void expect_call(suite *s, const struct fenced_call *c, const fault *faults, size_t n, renderq_status want,
                        const char *row)
{
    renderq *f = faulty_open(s, SUITE_RETRY_S);
    renderq_job *job = put_and_take(s, "intro");
    fault armed[FAULTS_MAX];
    memcpy(armed, faults, n * sizeof armed[0]);
    for (size_t i = 0; i < n; i++)
        armed[i].arg = armed[i].then == interrupt_it ? f : armed[i].arg;
    faulty_arm(armed, n);
    expect(f, want, c->call(f, job));
    if (want == RENDERQ_UNCERTAIN)
        expect_said(f, "it may have happened");
    expect_status(s, &job->id, row);
    if (faulty_flush() > 0)
        expect_status(s, &job->id, c->row);
    renderq_job_free(job);
    renderq_close(f);
    s->ops->clear(s->e);
}

static void the_row_tells(void **state)
{
    const fault done = stopped(NULL, true), undone = stopped(NULL, false);
    for (size_t i = 0; i < count_of(calls); i++) {
        expect_call(*state, &calls[i], &done, 1, RENDERQ_OK, calls[i].row);
        expect_call(*state, &calls[i], &undone, 1, RENDERQ_INTERRUPTED, "Processing");
    }
}

/* What the look is answered is about the look. */
static void a_look_that_fails_tells_nothing(void **state)
{
    static const fault looks[] = {
        { .kind = FAULT_ANSWER, .status = RENDERQ_BUSY },   { .kind = FAULT_ANSWER, .status = RENDERQ_DENIED },
        { .kind = FAULT_ANSWER, .status = RENDERQ_FAILED }, { .kind = FAULT_ANSWER, .status = RENDERQ_NOMEM },
        { .kind = FAULT_ANSWER, .status = RENDERQ_INTERRUPTED }, { .kind = FAULT_NOT_SENT }, { .kind = FAULT_BEFORE },
    };
    for (size_t i = 0; i < count_of(calls); i++)
        for (size_t k = 0; k < count_of(looks); k++) {
            const fault faults[] = { stopped(NULL, true), looks[k] };
            expect_call(*state, &calls[i], faults, 2, RENDERQ_UNCERTAIN, calls[i].row);
        }
}

/* The server is still at the first try when the look finds nothing of it. */
static void an_earlier_try_may_still_count(void **state)
{
    const fault busy = { .kind = FAULT_ANSWER, .status = RENDERQ_BUSY, .then = interrupt_it };
    const fault stops[] = { late, stopped(NULL, false) }, waits[] = { late, busy };
    for (size_t i = 0; i < count_of(calls); i++) {
        expect_call(*state, &calls[i], stops, 2, RENDERQ_UNCERTAIN, "Processing");
        expect_call(*state, &calls[i], waits, 2, RENDERQ_UNCERTAIN, "Processing");
    }
}

/* ... and so it may be where an earlier call is what was lost. */
static void an_earlier_call_may_still_count(void **state)
{
    suite *s = *state;
    renderq *f = faulty_open(s, SUITE_RETRY_S);
    renderq_job *job = put_and_take(s, "intro");
    renderq_result result = RENDERQ_INIT(renderq_result);
    result.job = job;
    faulty_arm_one(0, stopped(f, false));
    expect(f, RENDERQ_UNCERTAIN, rq_release(f, job, 0, true));
    faulty_arm_one(0, stopped(f, false));
    expect(f, RENDERQ_UNCERTAIN, rq_fail(f, job, "why", 0, true));
    faulty_arm_one(0, stopped(f, false));
    expect(f, RENDERQ_UNCERTAIN, rq_complete_many(f, &result, 1, true));
    expect_status(s, &job->id, "Processing");
    renderq_job_free(job);
    renderq_close(f);
}

typedef struct taker {
    suite *s;
    renderq *f;
    renderq_id id;
} taker;

static void taken_by_another(void *arg)
{
    taker *t = arg;
    renderq_job_free(take_this(t->s->h, &t->id));
    renderq_interrupt(t->f);
}

/* It was done, and the row is somebody else's by now. */
static void a_row_that_was_taken_since_tells_nothing(void **state)
{
    suite *s = *state;
    static renderq_status (*const gives_back[])(renderq *f, renderq_job *job) = { call_fail, call_release };
    for (size_t i = 0; i < count_of(gives_back); i++) {
        renderq *f = faulty_open(s, SUITE_RETRY_S);
        renderq_job *job = put_and_take(s, "intro");
        taker t = { .s = s, .f = f, .id = job->id };
        faulty_arm_one(0, (fault){ .kind = FAULT_STOPPED_AFTER, .then = taken_by_another, .arg = &t });
        expect(f, RENDERQ_UNCERTAIN, gives_back[i](f, job));
        renderq_job_free(job);
        renderq_close(f);
        s->ops->clear(s->e);
    }
}

/* ---- claims ---- */

static renderq_status claim(renderq *f, renderq_job **out)
{
    *out = NULL;
    renderq_status status = renderq_claim(f, NULL, out);
    assert_true((*out != NULL) == (status == RENDERQ_OK));
    return status;
}

static void what_a_claim_took_is_found(void **state)
{
    suite *s = *state;
    renderq *f = faulty_open(s, SUITE_RETRY_S);
    renderq_id id = put(s, "intro");
    renderq_job *job;
    faulty_arm_one(0, stopped(f, false));
    expect(f, RENDERQ_INTERRUPTED, claim(f, &job));
    expect_status(s, &id, "Queued");
    faulty_arm_one(0, stopped(f, true));
    expect_ok(f, claim(f, &job));
    same_id(&job->id, &id);
    renderq_job_free(job);
    renderq_close(f);
}

/* The next claim on the handle gives back, uncounted, what this one took, whenever it took it. */
static void what_a_claim_took_comes_back(void **state)
{
    suite *s = *state;
    const fault refused = { .kind = FAULT_ANSWER, .status = RENDERQ_BUSY };
    for (int done = 0; done < 2; done++) {
        renderq *f = faulty_open(s, SUITE_RETRY_S);
        renderq_id id = put(s, "intro");
        const fault look_fails[] = { stopped(f, true), refused }, stays_late[] = { late, stopped(f, false) };
        renderq_job *job;
        faulty_arm(done ? look_fails : stays_late, 2);
        expect(f, RENDERQ_UNCERTAIN, claim(f, &job));
        expect_said(f, "it may have happened");
        assert_int_equal(faulty_flush(), 1 - done);
        expect_status(s, &id, "Processing");
        faulty_disarm();
        expect_ok(f, claim(f, &job));
        same_id(&job->id, &id);
        assert_int_equal(job->retry_count, 0);
        renderq_job_free(job);
        renderq_close(f);
        s->ops->clear(s->e);
    }
}

int run_interrupted(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(the_row_tells),
        TEST(a_look_that_fails_tells_nothing),
        TEST(an_earlier_try_may_still_count),
        TEST(an_earlier_call_may_still_count),
        TEST(a_row_that_was_taken_since_tells_nothing),
        TEST(what_a_claim_took_is_found),
        TEST(what_a_claim_took_comes_back),
    };
    return cmocka_run_group_tests_name("interrupted", tests, NULL, NULL);
}
