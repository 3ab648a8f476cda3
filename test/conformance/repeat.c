/* repeat.c: rule 2 where others act between a request and its repeat, and where the link does not come back: whose
 * success a row is, and what the call says when it cannot find out. Claims are in ghost.c. */
#include <stdlib.h>
#include <string.h>

#include "faulty.h"

/* What happens between the fault and the repeat. */
typedef struct between {
    suite *s;
    renderq_id id;
    renderq_job *taken;
    int done;
} between;

/* A handle that loses its first reply, or request, and a job under its lease. */
static renderq *lose(suite *s, fault_kind kind, void (*then)(void *arg), void *arg)
{
    renderq *f = faulty_open(s, SUITE_RETRY_S);
    faulty_arm_one(0, (fault){ .kind = kind, .then = then, .arg = arg });
    return f;
}

static void expect_lost_and_unchanged(between *b, renderq *f, renderq_status got, char *before)
{
    expect(f, RENDERQ_LOST, got);
    assert_int_equal(b->done, 1);
    expect_unchanged(b->s, &b->id, before);
}

/* ---- somebody else has the job by now ---- */

static void foreign_takes_it_back(void *arg)
{
    between *b = arg;
    renderq_id got;
    assert_true(b->s->ops->mark_failed(b->s->e, &b->id, "theirs"));
    assert_true(b->s->ops->claim(b->s->e, "csharp", &got));
    same_id(&got, &b->id);
    b->done++;
}

static void reaped_and_taken(void *arg)
{
    between *b = arg;
    run_out(b->s, &b->id, 0);
    expect_ok(b->s->h, renderq_reap(b->s->h, NULL, NULL));
    make_due(b->s, &b->id);
    b->taken = take_this(b->s->h, &b->id);
    b->done++;
}

static void taken_again(void *arg)
{
    between *b = arg;
    b->taken = take_this(b->s->h, &b->id);
    b->done++;
}

static void retried_by_an_operator(void *arg)
{
    between *b = arg;
    expect_ok(b->s->h, renderq_retry(b->s->h, NULL, &b->id, NULL));
    b->done++;
}

static void settled_by_an_operator(void *arg)
{
    between *b = arg;
    expect_ok(b->s->h, renderq_settle(b->s->h, NULL, &b->id, "operator", 0));
    b->done++;
}

static void cancelled_by_an_operator(void *arg)
{
    between *b = arg;
    expect_ok(b->s->h, renderq_cancel(b->s->h, NULL, &b->id));
    b->done++;
}

static void foreign_fails_it(void *arg)
{
    between *b = arg;
    assert_true(b->s->ops->mark_failed(b->s->e, &b->id, "theirs"));
    b->done++;
}

static void foreign_completes_it(void *arg)
{
    between *b = arg;
    assert_true(b->s->ops->complete(b->s->e, &b->id, "theirs"));
    b->done++;
}

static renderq_status call_complete(renderq *f, renderq_job *job)
{
    return renderq_complete(f, job, "ours");
}

static renderq_status call_fail(renderq *f, renderq_job *job)
{
    return renderq_fail(f, job, "ours", 0);
}

static renderq_status call_dead(renderq *f, renderq_job *job)
{
    return renderq_fail(f, job, "ours", RENDERQ_NEVER);
}

static renderq_status call_release(renderq *f, renderq_job *job)
{
    return renderq_release(f, job, 0);
}

static renderq_status call_renew(renderq *f, renderq_job *job)
{
    return renderq_renew(f, job, "ours");
}

static renderq_status call_start(renderq *f, renderq_job *job)
{
    return renderq_start_many(f, &job, 1, NULL, 0, NULL);
}

static renderq_status call_hand_out(renderq *f, renderq_job *job)
{
    return renderq_start_many(f, &job, 1, "machine-7", 0, NULL);
}

static renderq_status call_hand_out_each(renderq *f, renderq_job *job)
{
    renderq_handout handout = RENDERQ_INIT(renderq_handout);
    handout.job = job;
    handout.worker = "machine-7";
    return renderq_hand_out(f, &handout, 1, 0);
}

static const struct meeting {
    const char *name;
    renderq_status (*call)(renderq *f, renderq_job *job);
    fault_kind kind;
    void (*then)(void *arg);
} meetings[] = {
    { "complete, taken back", call_complete, FAULT_AFTER, foreign_takes_it_back },
    { "complete not sent on, reaped", call_complete, FAULT_BEFORE, reaped_and_taken },
    { "complete, retried", call_complete, FAULT_AFTER, retried_by_an_operator },
    { "complete not sent on, settled", call_complete, FAULT_BEFORE, settled_by_an_operator },
    { "complete not sent on, cancelled", call_complete, FAULT_BEFORE, cancelled_by_an_operator },
    { "complete not sent on, theirs", call_complete, FAULT_BEFORE, foreign_completes_it },
    { "complete, failed by them", call_complete, FAULT_AFTER, foreign_fails_it },
    { "complete late, reaped", call_complete, FAULT_LATER, reaped_and_taken },
    { "fail, taken again", call_fail, FAULT_AFTER, taken_again },
    { "fail, failed by them", call_fail, FAULT_AFTER, foreign_fails_it },
    { "fail not sent on, failed by them", call_fail, FAULT_BEFORE, foreign_fails_it },
    { "fail not sent on, reaped", call_fail, FAULT_BEFORE, reaped_and_taken },
    { "fail not sent on, settled", call_fail, FAULT_BEFORE, settled_by_an_operator },
    { "fail late, reaped", call_fail, FAULT_LATER, reaped_and_taken },
    { "fail for good, retried", call_dead, FAULT_AFTER, retried_by_an_operator },
    { "fail, cancelled", call_fail, FAULT_AFTER, cancelled_by_an_operator },
    { "release, taken again", call_release, FAULT_AFTER, taken_again },
    { "release, failed by them", call_release, FAULT_AFTER, foreign_fails_it },
    { "release not sent on, failed by them", call_release, FAULT_BEFORE, foreign_fails_it },
    { "release not sent on, reaped", call_release, FAULT_BEFORE, reaped_and_taken },
    { "release late, reaped", call_release, FAULT_LATER, reaped_and_taken },
    { "renew, reaped", call_renew, FAULT_AFTER, reaped_and_taken },
    { "renew, taken back", call_renew, FAULT_AFTER, foreign_takes_it_back },
    { "renew late, cancelled", call_renew, FAULT_LATER, cancelled_by_an_operator },
    { "start, reaped", call_start, FAULT_AFTER, reaped_and_taken },
    { "hand-out, reaped", call_hand_out, FAULT_AFTER, reaped_and_taken },
    { "hand-out, taken back", call_hand_out, FAULT_AFTER, foreign_takes_it_back },
    { "hand-out, completed by them", call_hand_out, FAULT_AFTER, foreign_completes_it },
    { "hand-out, failed by them", call_hand_out, FAULT_AFTER, foreign_fails_it },
    { "hand-out, settled", call_hand_out, FAULT_AFTER, settled_by_an_operator },
    { "hand-out each, reaped", call_hand_out_each, FAULT_AFTER, reaped_and_taken },
    { "hand-out each, completed by them", call_hand_out_each, FAULT_AFTER, foreign_completes_it },
    { "hand-out late, cancelled", call_hand_out, FAULT_LATER, cancelled_by_an_operator },
};

static char *row_after_then;

static void then_and_look(void *arg)
{
    between *b = ((void **)arg)[0];
    const struct meeting *m = ((void **)arg)[1];
    m->then(b);
    row_after_then = snapshot(b->s, &b->id);
}

/* The repeat finds the job in other hands: LOST, and their row stays as they left it. */
static void somebody_claimed_since(void **state)
{
    suite *s = *state;
    for (size_t i = 0; i < count_of(meetings); i++) {
        renderq_job *job = put_and_take(s, "intro");
        between b = { .s = s, .id = job->id };
        void *args[] = { &b, (void *)(uintptr_t)&meetings[i] };
        renderq *f = lose(s, meetings[i].kind, then_and_look, args);
        renderq_status got = meetings[i].call(f, job);
        if (got != RENDERQ_LOST)
            print_error("%s\n", meetings[i].name);
        expect_lost_and_unchanged(&b, f, got, row_after_then);
        faulty_flush();
        renderq_close(f);
        renderq_job_free(b.taken);
        renderq_job_free(job);
        s->ops->clear(s->e);
    }
}

/* ---- still our own success ---- */

static void promoted(void *arg)
{
    between *b = arg;
    renderq_new_job urgent = RENDERQ_INIT(renderq_new_job);
    urgent.composition_id = "urgent";
    urgent.payload_json = "{}";
    urgent.priority = 1;
    renderq_id other = put_job(b->s, &urgent);
    make_due(b->s, &b->id);
    b->taken = take_this(b->s->h, &other);
    expect_status(b->s, &b->id, "Queued");
    b->done++;
}

static void a_promoted_job_is_still_our_failure(void **state)
{
    suite *s = *state;
    for (int releases = 0; releases < 2; releases++) {
        renderq_job *job = put_and_take(s, "intro");
        between b = { .s = s, .id = job->id };
        renderq *f = lose(s, FAULT_AFTER, promoted, &b);
        expect_ok(f, releases ? renderq_release(f, job, 60000) : renderq_fail(f, job, "ours", 60000));
        assert_int_equal(b.done, 1);
        expect_status(s, &b.id, "Queued");
        expect_number(s, &b.id, "RetryCount", 1 - releases);
        renderq_close(f);
        renderq_job_free(b.taken);
        renderq_job_free(job);
        s->ops->clear(s->e);
    }
}

/* ---- enqueue ---- */

static renderq_new_job keyed_job(const char *key)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.composition_id = "ours";
    job.payload_json = "{}";
    job.dedup_key = key;
    return job;
}

static void done_already(void *arg)
{
    between *b = arg;
    b->taken = take(b->s->h);
    b->id = b->taken->id;
    expect_ok(b->s->h, renderq_complete(b->s->h, b->taken, "quick"));
    b->done++;
}

static void done_and_its_key_taken(void *arg)
{
    done_already(arg);
    put_key(((between *)arg)->s, "order-7");
}

/* The id is looked up before the key: what is ours is ours, however far it has come. */
static void an_enqueue_that_was_done_meanwhile(void **state)
{
    suite *s = *state;
    static void (*const thens[])(void *arg) = { done_already, done_and_its_key_taken };
    for (size_t i = 0; i < count_of(thens); i++) {
        between b = { .s = s };
        renderq_new_job job = keyed_job("order-7");
        renderq_id id;
        renderq *f = lose(s, FAULT_AFTER, thens[i], &b);
        expect_ok(f, renderq_enqueue(f, &job, &id));
        same_id(&id, &b.id);
        expect_status(s, &id, "Completed");
        assert_int_equal(count_rows(s), i + 1);
        renderq_close(f);
        renderq_job_free(b.taken);
        s->ops->clear(s->e);
    }
}

static void key_taken(void *arg)
{
    between *b = arg;
    b->id = put_key(b->s, "order-7");
    b->done++;
}

static void an_enqueue_that_came_second(void **state)
{
    suite *s = *state;
    between b = { .s = s };
    renderq_new_job job = keyed_job("order-7");
    renderq_id id;
    renderq *f = lose(s, FAULT_BEFORE, key_taken, &b);
    expect(f, RENDERQ_DUPLICATE, renderq_enqueue(f, &job, &id));
    same_id(&id, &b.id);
    assert_int_equal(count_rows(s), 1);
    renderq_close(f);
}

/* ---- the operator's ---- */

static void a_retry_whose_job_was_taken_meanwhile(void **state)
{
    suite *s = *state;
    between b = { .s = s, .id = put_in_state(s, RENDERQ_DEAD_LETTER) };
    renderq *f = lose(s, FAULT_AFTER, taken_again, &b);
    expect(f, RENDERQ_LOST, renderq_retry(f, NULL, &b.id, NULL));       /* an earlier ask of this call counted */
    expect_status(s, &b.id, "Processing");
    expect_text(s, &b.id, "LeaseToken", b.taken->lease.text);
    renderq_job_free(b.taken);
    renderq_close(f);
}

static void taken_again_and_done(void *arg)
{
    between *b = arg;
    taken_again(b);
    expect_ok(b->s->h, renderq_complete(b->s->h, b->taken, "again"));
}

/* Asked again, it must not be the reason that the job is done a third time. */
static void a_retry_whose_job_was_done_meanwhile(void **state)
{
    suite *s = *state;
    static const renderq_state states[] = { RENDERQ_DEAD_LETTER, RENDERQ_CANCELLED, RENDERQ_COMPLETED };
    for (size_t i = 0; i < count_of(states); i++) {
        between b = { .s = s, .id = put_in_state(s, states[i]) };
        renderq *f = lose(s, FAULT_AFTER, taken_again_and_done, &b);
        expect(f, RENDERQ_LOST, renderq_retry(f, NULL, &b.id, NULL));
        assert_non_null(strstr(renderq_errmsg(f), "look at it"));
        assert_int_equal(b.done, 1);
        expect_status(s, &b.id, "Completed");
        expect_text(s, &b.id, "OutputUrl", "again");
        renderq_job_free(b.taken);
        renderq_close(f);
    }
}

/* What is not done cannot have been done by the first ask. */
static void a_retry_that_did_not_count(void **state)
{
    suite *s = *state;
    static const renderq_state states[] = { RENDERQ_DEAD_LETTER, RENDERQ_CANCELLED };
    for (size_t i = 0; i < count_of(states); i++) {
        between b = { .s = s, .id = put_in_state(s, states[i]) };
        renderq *f = lose(s, FAULT_BEFORE, NULL, NULL);
        expect_ok(f, renderq_retry(f, NULL, &b.id, NULL));
        expect_status(s, &b.id, "Queued");
        renderq_close(f);
    }
}

static void a_retry_whose_key_was_taken_meanwhile(void **state)
{
    suite *s = *state;
    renderq_id holder = { "" }, dead = put_key(s, "order-7");
    renderq_job *job = take_this(s->h, &dead);
    expect_ok(s->h, renderq_fail(s->h, job, NULL, RENDERQ_NEVER));
    renderq_job_free(job);
    between b = { .s = s };
    renderq *f = lose(s, FAULT_BEFORE, key_taken, &b);
    expect(f, RENDERQ_DUPLICATE, renderq_retry(f, NULL, &dead, &holder));
    same_id(&holder, &b.id);
    expect_status(s, &dead, "DeadLetter");
    renderq_close(f);
}

/* ---- how long ---- */

static renderq_status complete_with(renderq *f, renderq_job *job, const fault *faults, size_t n)
{
    faulty_arm(faults, n);
    return renderq_complete(f, job, "out");
}

static void a_refused_link_is_tried_again(void **state)
{
    suite *s = *state;
    renderq_job *job = put_and_take(s, "intro");
    renderq *f = faulty_open(s, SUITE_RETRY_S);
    /* A server that fails over refuses in many ways. */
    fault refused = { .kind = FAULT_AFTER, .refuse_opens = 2, .refuse_with = RENDERQ_DENIED };
    expect_ok(f, complete_with(f, job, &refused, 1));
    expect_status(s, &job->id, "Completed");
    renderq_close(f);
    renderq_job_free(job);
}

/* The link does not come back in retry_s: what the call knows decides between the two. */
static void retries_run_out(void **state)
{
    suite *s = *state;
    static const struct { fault_kind kind; renderq_status want; const char *row; } ends[] = {
        { FAULT_NOT_SENT, RENDERQ_DISCONNECTED, "Processing" },
        { FAULT_AFTER, RENDERQ_UNCERTAIN, "Completed" },
    };
    for (size_t i = 0; i < count_of(ends); i++) {
        renderq_job *job = put_and_take(s, "intro");
        renderq *f = faulty_open(s, 1);
        fault forever = { .kind = ends[i].kind, .refuse_opens = 1000000 };
        int64_t began = clock_ms();
        expect(f, ends[i].want, complete_with(f, job, &forever, 1));
        assert_in_range(clock_ms() - began, 950, SUITE_LONG_MS);
        expect_status(s, &job->id, ends[i].row);

        /* The handle is not broken by that: the next call connects. */
        faulty_disarm();
        renderq_job *read;
        expect_ok(f, renderq_get(f, NULL, &job->id, &read));
        renderq_job_free(read);
        renderq_close(f);
        renderq_job_free(job);
    }
}

/* After a lost reply an engine that is busy, or broken, leaves it open what happened. */
static void a_refusal_after_a_lost_reply(void **state)
{
    suite *s = *state;
    renderq *f = faulty_open(s, SUITE_RETRY_S);
    renderq_job *job = put_and_take(s, "intro");
    const fault busy[] = { { .kind = FAULT_AFTER }, { .kind = FAULT_ANSWER, .status = RENDERQ_BUSY } };
    expect_ok(f, complete_with(f, job, busy, 2));
    renderq_job_free(job);

    job = put_and_take(s, "intro");
    const fault broken[] = { { .kind = FAULT_AFTER }, { .kind = FAULT_ANSWER, .status = RENDERQ_FAILED } };
    expect(f, RENDERQ_UNCERTAIN, complete_with(f, job, broken, 2));
    expect_said(f, "a fault that the test asked for");
    expect_status(s, &job->id, "Completed");
    renderq_job_free(job);
    renderq_close(f);
}

static void an_open_that_fails_gives_a_handle_with_a_text(void **state)
{
    suite *s = *state;
    renderq *again = NULL;
    renderq_close(faulty_open(s, -1));
    faulty_refuse(1, RENDERQ_DENIED);
    renderq_status status = faulty_open_again(s, &again);
    expect(again, RENDERQ_DENIED, status);
    assert_non_null(again);
    assert_int_equal(renderq_native_error(again), 4712);
    expect_invalid(again, "open", renderq_create(again, NULL));
    expect_invalid(again, "open", renderq_reap(again, NULL, NULL));
    renderq_close(again);
}

/* ---- the log ---- */

typedef struct log_lines {
    int warnings, all;
    bool bad;
    const char *password;
} log_lines;

static void take_line(renderq_log_level level, const char *line, void *arg)
{
    log_lines *lines = arg;
    lines->all++;
    lines->warnings += level == RENDERQ_LOG_WARNING;
    lines->bad |= !*line || strpbrk(line, "\r\n") || strstr(line, lines->password);
}

static void the_log_tells(void **state)
{
    suite *s = *state;
    char why[512];
    rq_url url;
    assert_int_equal(rq_url_parse(s->url, &url, why, sizeof why), RENDERQ_OK);
    log_lines lines = { .password = url.password ? url.password : "s3cret" };
    renderq_options options = RENDERQ_INIT(renderq_options);
    options.retry_s = SUITE_RETRY_S;
    options.log = take_line;
    options.log_arg = &lines;
    options.password = lines.password;
    renderq *f = faulty_open_with(s, &options);
    renderq_job *job = put_and_take(s, "intro");
    assert_int_equal(lines.all, 0);
    fault after = { .kind = FAULT_AFTER };
    expect_ok(f, complete_with(f, job, &after, 1));
    assert_int_equal(lines.warnings, 1);
    assert_true(lines.all >= 2);        /* broken; connected again */
    assert_false(lines.bad);
    renderq_job_free(job);
    renderq_close(f);
    rq_url_free(&url);
}

int run_repeat(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(somebody_claimed_since),
        TEST(a_promoted_job_is_still_our_failure),
        TEST(an_enqueue_that_was_done_meanwhile),
        TEST(an_enqueue_that_came_second),
        TEST(a_retry_whose_job_was_taken_meanwhile),
        TEST(a_retry_whose_job_was_done_meanwhile),
        TEST(a_retry_that_did_not_count),
        TEST(a_retry_whose_key_was_taken_meanwhile),
        TEST(a_refused_link_is_tried_again),
        TEST(retries_run_out),
        TEST(a_refusal_after_a_lost_reply),
        TEST(an_open_that_fails_gives_a_handle_with_a_text),
        TEST(the_log_tells),
    };
    return cmocka_run_group_tests_name("repeat", tests, NULL, NULL);
}
