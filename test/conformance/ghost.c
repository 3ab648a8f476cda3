/* ghost.c: rule 2 for claims. A claim whose reply was lost may have taken a job, or may take one later: the
 * library finds it by its token and gives it back uncounted, and never hands a job out twice. The same for what was
 * leased and cannot be handed out. */
#include <stdlib.h>
#include <string.h>

#include "faulty.h"

static void free_jobs(renderq_job **jobs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        renderq_job_free(jobs[i]);
}

static renderq_status claim_options_of(renderq *h, const renderq_claim_options *options, renderq_job **out)
{
    *out = (renderq_job *)(void *)out;
    renderq_status status = renderq_claim(h, options, out);
    assert_true((*out != NULL) == (status == RENDERQ_OK));
    return status;
}

static renderq_status claim(renderq *h, renderq_job **out)
{
    return claim_options_of(h, NULL, out);
}

/* It took effect: the same job, under the token of the first request. */
static void found_by_its_token(void **state)
{
    suite *s = *state;
    static const fault_kind kinds[] = { FAULT_AFTER, FAULT_AFTER_SILENT, FAULT_LATER };
    for (size_t i = 0; i < count_of(kinds); i++) {
        renderq_id first = put(s, "first"), second = put(s, "second");
        renderq *f = faulty_open(s, SUITE_RETRY_S);
        renderq_job *job;
        faulty_arm_one(0, (fault){ .kind = kinds[i] });
        expect_ok(f, claim(f, &job));
        same_id(&job->id, &first);
        expect_text(s, &first, "LeaseToken", job->lease.text);
        assert_in_range(job->lease_left_ms, 500000, 601000);
        assert_int_not_equal(job->started_at_ms, 0);
        expect_status(s, &second, "Queued");
        expect_ok(f, renderq_complete(f, job, NULL));
        expect_number(s, &first, "RetryCount", 0);
        renderq_job_free(job);
        renderq_close(f);
        s->ops->clear(s->e);
    }
}

static void many_are_found_in_order(void **state)
{
    suite *s = *state;
    renderq_id ids[5];
    renderq_job *jobs[4];
    size_t n = 0;
    renderq_new_job new_job = RENDERQ_INIT(renderq_new_job);
    new_job.composition_id = "intro";
    new_job.payload_json = "{}";
    for (int i = 0; i < 5; i++) {
        new_job.priority = i;
        ids[i] = put_job(s, &new_job);
    }
    renderq *f = faulty_open(s, SUITE_RETRY_S);
    faulty_arm_one(0, (fault){ .kind = FAULT_AFTER_SILENT });
    expect_ok(f, renderq_claim_many(f, NULL, jobs, 4, &n));
    assert_int_equal(n, 4);
    for (int i = 0; i < 4; i++)
        same_id(&jobs[i]->id, &ids[4 - i]);
    expect_status(s, &ids[0], "Queued");
    free_jobs(jobs, n);
    renderq_close(f);
}

/* It has not happened yet, so another is asked for; when it does happen, the next claim gives that job back. */
static void a_late_ghost_is_released(void **state)
{
    suite *s = *state;
    renderq_id ids[3] = { put(s, "a"), put(s, "b"), put(s, "c") };
    renderq *f = faulty_open(s, SUITE_RETRY_S);
    renderq_job *jobs[3];
    faulty_arm_one(0, (fault){ .kind = FAULT_LATER, .later_by = 100 });
    expect_ok(f, claim(f, &jobs[0]));
    same_id(&jobs[0]->id, &ids[0]);
    assert_int_equal(faulty_flush(), 1);
    expect_status(s, &ids[1], "Processing");            /* the ghost's */
    renderq *other = suite_open(s, "node-2", NULL);
    renderq_job *theirs = take_this(other, &ids[2]);    /* nobody else gets what the ghost holds */

    expect_ok(f, claim(f, &jobs[1]));
    same_id(&jobs[1]->id, &ids[1]);
    assert_int_equal(jobs[1]->retry_count, 0);
    expect_number(s, &ids[1], "RetryCount", 0);
    expect_null(s, &ids[1], "LastErrorMessage");
    expect_text(s, &ids[1], "LeaseToken", jobs[1]->lease.text);
    expect_ok(f, renderq_complete(f, jobs[0], NULL));
    expect_ok(f, renderq_complete(f, jobs[1], NULL));
    expect_ok(other, renderq_complete(other, theirs, NULL));
    free_jobs(jobs, 2);
    renderq_job_free(theirs);
    renderq_close(other);
    renderq_close(f);
}

/* The queue has one job, and the ghost takes it before the second request does. */
static void a_ghost_that_wins(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "intro");
    renderq *f = faulty_open(s, SUITE_RETRY_S);
    renderq_job *job;
    faulty_arm_one(0, (fault){ .kind = FAULT_LATER, .later_by = 2 });
    expect(f, RENDERQ_EMPTY, claim(f, &job));
    expect_status(s, &id, "Processing");
    expect_ok(f, claim(f, &job));
    same_id(&job->id, &id);
    assert_int_equal(job->retry_count, 0);
    expect_number(s, &id, "RetryCount", 0);
    renderq_job_free(job);
    renderq_close(f);
}

static void a_whole_batch_is_released(void **state)
{
    suite *s = *state;
    renderq_job *jobs[3];
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    size_t n = 0;
    for (int i = 0; i < 3; i++)
        put(s, "intro");
    options.unstarted = 1;
    options.lease_s = 100;
    renderq *f = faulty_open(s, -1);
    faulty_arm_one(0, (fault){ .kind = FAULT_AFTER });
    expect(f, RENDERQ_UNCERTAIN, renderq_claim_many(f, &options, jobs, 3, &n));
    assert_int_equal(n, 0);
    expect_ok(f, renderq_claim_many(f, &options, jobs, 3, &n));
    assert_int_equal(n, 3);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(jobs[i]->retry_count, 0);
        expect_text(s, &jobs[i]->id, "LeaseToken", jobs[i]->lease.text);
    }
    free_jobs(jobs, n);
    renderq_close(f);
}

/* Nothing could be asked: UNCERTAIN, and the next claim on the handle sorts it out. */
static void uncertain_then_found(void **state)
{
    suite *s = *state;
    static const fault_kind kinds[] = { FAULT_AFTER, FAULT_LATER, FAULT_BEFORE };
    for (size_t i = 0; i < count_of(kinds); i++) {
        renderq_id id = put(s, "intro");
        renderq *f = faulty_open(s, -1);
        renderq_job *job;
        faulty_arm_one(0, (fault){ .kind = kinds[i] });
        expect(f, RENDERQ_UNCERTAIN, claim(f, &job));
        faulty_flush();
        expect_status(s, &id, kinds[i] == FAULT_BEFORE ? "Queued" : "Processing");
        expect_ok(f, claim(f, &job));
        same_id(&job->id, &id);
        assert_int_equal(job->retry_count, 0);
        expect_text(s, &id, "LeaseToken", job->lease.text);
        expect_ok(f, renderq_complete(f, job, NULL));
        renderq_job_free(job);
        renderq_close(f);
        s->ops->clear(s->e);
    }
}

/* The release of what a ghost took is itself lost: it is looked for again. */
static void faults_while_it_is_released(void **state)
{
    suite *s = *state;
    for (size_t at = 0; at < 2; at++) {             /* the look, the release */
        renderq_id id = put(s, "intro");
        renderq *f = faulty_open(s, -1);
        renderq_job *job;
        faulty_arm_one(0, (fault){ .kind = FAULT_AFTER });
        expect(f, RENDERQ_UNCERTAIN, claim(f, &job));
        faulty_arm_one(at, (fault){ .kind = FAULT_NOT_SENT });
        expect(f, RENDERQ_EMPTY, claim(f, &job));
        expect_status(s, &id, "Processing");
        expect_ok(f, claim(f, &job));
        same_id(&job->id, &id);
        assert_int_equal(job->retry_count, 0);
        renderq_job_free(job);
        renderq_close(f);
        s->ops->clear(s->e);
    }
}

/* A ghost is looked for in its own queue. */
static void each_queue_has_its_ghosts(void **state)
{
    suite *s = *state;
    char name[96];
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_job *job;
    renderq_id id = put(s, "intro");
    renderq *f = faulty_open(s, -1);
    rq_url url;
    char why[512];
    strcpy(name, s->queue);
    strcat(name, "_other");
    options.queue = name;
    expect_ok(f, renderq_create(f, name));
    faulty_arm_one(0, (fault){ .kind = FAULT_AFTER });
    expect(f, RENDERQ_UNCERTAIN, claim(f, &job));

    faulty_arm(NULL, 0);
    expect(f, RENDERQ_EMPTY, claim_options_of(f, &options, &job));
    expect_status(s, &id, "Processing");
    expect_ok(f, claim(f, &job));
    same_id(&job->id, &id);
    renderq_job_free(job);
    renderq_close(f);

    assert_int_equal(rq_url_parse(suite_url, &url, why, sizeof why), RENDERQ_OK);
    engine *e = s->ops->open(&url, name);
    s->ops->drop(e);
    s->ops->close(e);
    rq_url_free(&url);
}

/* Once released it is forgotten: a job that comes by the same way later is left to its worker. */
static void a_ghost_is_released_once(void **state)
{
    suite *s = *state;
    renderq_job *job, *second;
    renderq *f = faulty_open(s, -1);
    put(s, "intro");
    faulty_arm_one(0, (fault){ .kind = FAULT_AFTER });
    expect(f, RENDERQ_UNCERTAIN, claim(f, &job));
    expect_ok(f, claim(f, &job));
    faulty_arm(NULL, 0);
    expect(f, RENDERQ_EMPTY, claim(f, &second));
    expect_text(s, &job->id, "LeaseToken", job->lease.text);
    expect_ok(f, renderq_complete(f, job, NULL));
    renderq_job_free(job);
    renderq_close(f);
}

/* What it took was taken back by others meanwhile: nothing of theirs is touched. */
static void a_ghost_that_was_taken_back(void **state)
{
    suite *s = *state;
    renderq_id got, id = put(s, "intro");
    renderq_job *job;
    renderq *f = faulty_open(s, -1);
    faulty_arm_one(0, (fault){ .kind = FAULT_AFTER });
    expect(f, RENDERQ_UNCERTAIN, claim(f, &job));
    assert_true(s->ops->mark_failed(s->e, &id, "theirs"));
    assert_true(s->ops->claim(s->e, "csharp", &got));
    char *before = snapshot(s, &id);
    expect(f, RENDERQ_EMPTY, claim(f, &job));
    expect_unchanged(s, &id, before);
    renderq_close(f);
}

static void foreign_takes_all(void *arg)
{
    suite *s = arg;
    renderq_id ids[4], got;
    size_t n = s->ops->ids(s->e, ids, count_of(ids));
    for (size_t i = 0; i < n; i++)
        s->ops->mark_failed(s->e, &ids[i], "theirs");
    while (s->ops->claim(s->e, "csharp", &got))
        continue;
}

/* ... or before the library could look: then it is not ours to hand out, though the row still has our token. */
static void a_claim_that_was_taken_back(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "intro");
    renderq_job *job;
    renderq *f = faulty_open(s, SUITE_RETRY_S);
    faulty_arm_one(0, (fault){ .kind = FAULT_AFTER, .then = foreign_takes_all, .arg = s });
    expect(f, RENDERQ_EMPTY, claim(f, &job));
    expect_text(s, &id, "WorkerNodeId", "csharp");
    expect_status(s, &id, "Processing");
    expect_number(s, &id, "RetryCount", 1);
    renderq_close(f);
}

/* More lost claims than a handle remembers: the rest come back when their lease runs out; nothing breaks. */
static void many_ghosts(void **state)
{
    suite *s = *state;
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_job *job;
    renderq *f = faulty_open(s, -1);
    options.no_reap = 1;                    /* it would come in between once a minute */
    for (int i = 0; i < 12; i++) {
        put(s, "intro");
        /* A claim first looks for the ghosts, until a look fails; so that they pile up, the first is not sent. */
        fault faults[FAULTS_MAX] = { { .kind = FAULT_NONE } };
        size_t looks = i > 0;
        for (size_t k = 0; k < looks; k++)
            faults[k].kind = FAULT_NOT_SENT;
        faults[looks].kind = FAULT_AFTER;
        faulty_arm(faults, looks + 1);
        expect(f, RENDERQ_UNCERTAIN, claim_options_of(f, &options, &job));
    }
    faulty_disarm();
    int found = 0;
    for (; claim_options_of(f, &options, &job) == RENDERQ_OK; found++) {
        assert_int_equal(job->retry_count, 0);
        renderq_job_free(job);
    }
    assert_int_equal(found, 8);
    assert_int_equal(count_rows(s), 12);
    renderq_close(f);
}

static void put_one(void *arg)
{
    put(arg, "late");
}

/* A claim that waits survives a fault between its reads. */
static void a_fault_while_it_waits(void **state)
{
    suite *s = *state;
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_job *job;
    renderq *f = faulty_open(s, SUITE_RETRY_S);
    fault faults[FAULTS_MAX] = { { .kind = FAULT_NONE } };
    options.wait_ms = RENDERQ_FOREVER;
    options.no_reap = 1;
    faults[1].kind = FAULT_NOT_SENT;
    faults[2] = (fault){ .kind = FAULT_AFTER, .then = put_one, .arg = s };
    faulty_arm(faults, 3);
    expect_ok(f, claim_options_of(f, &options, &job));
    assert_string_equal(job->composition_id, "late");
    assert_true(faulty_runs() > 3);
    renderq_job_free(job);
    renderq_close(f);
}

/* A fault while a claim reaps on the way is not the claim's. */
static void a_fault_while_it_reaps(void **state)
{
    suite *s = *state;
    renderq_id id = put(s, "intro");
    renderq_job *job = take_for(s->h, NULL, 0, true);
    run_out(s, &id, 0);
    renderq *f = faulty_open(s, SUITE_RETRY_S);
    renderq_job *got;
    faulty_arm_one(1, (fault){ .kind = FAULT_ANSWER, .status = RENDERQ_BUSY });
    expect(f, RENDERQ_EMPTY, claim(f, &got));
    assert_int_equal(faulty_runs(), 2);
    expect_status(s, &id, "Processing");
    renderq_close(f);

    f = faulty_open(s, SUITE_RETRY_S);
    faulty_arm_one(1, (fault){ .kind = FAULT_AFTER });
    expect(f, RENDERQ_EMPTY, claim(f, &got));
    expect_status(s, &id, "Queued");
    expect_ok(f, claim(f, &got));
    same_id(&got->id, &id);
    renderq_job_free(got);
    renderq_job_free(job);
    renderq_close(f);
}

/* ---- what was leased and cannot be handed out ---- */

/* The request counted, and its rows cannot be taken. */
static fault unseen(renderq_status status)
{
    return (fault){ .kind = FAULT_ANSWER_AFTER, .status = status };
}

/* Memory runs out at a repeat: what that leased goes back all the same, at once or by the next claim. */
static void no_memory_for_a_repeat(void **state)
{
    suite *s = *state;
    for (int later = 0; later < 2; later++) {
        renderq_id id = put(s, "intro");
        renderq *f = faulty_open(s, SUITE_RETRY_S);
        renderq_job *job;
        const fault faults[] = { { .kind = FAULT_BEFORE }, { .kind = FAULT_NONE }, unseen(RENDERQ_NOMEM),
                                 { .kind = later ? FAULT_NOT_SENT : FAULT_NONE } };
        faulty_arm(faults, count_of(faults));
        expect(f, RENDERQ_UNCERTAIN, claim(f, &job));
        expect_status(s, &id, later ? "Processing" : "Queued");
        faulty_disarm();
        expect_ok(f, claim(f, &job));
        same_id(&job->id, &id);
        assert_int_equal(job->retry_count, 0);
        renderq_job_free(job);
        renderq_close(f);
        s->ops->clear(s->e);
    }
}

/* One row that cannot be read spoils a batch; the jobs beside it go back and are claimed one by one. */
static void a_batch_with_an_unreadable_row(void **state)
{
    suite *s = *state;
    renderq_id ids[3] = { put(s, "a"), put(s, "b"), put(s, "c") };
    renderq *f = faulty_open(s, SUITE_RETRY_S);
    renderq_job *jobs[3];
    size_t n = 0;
    const fault faults[] = { unseen(RENDERQ_FAILED), unseen(RENDERQ_FAILED) };      /* the claim, the look at it */
    faulty_arm(faults, count_of(faults));
    expect_ok(f, renderq_claim_many(f, NULL, jobs, 3, &n));
    assert_int_equal(n, 1);
    same_id(&jobs[0]->id, &ids[0]);
    for (int i = 1; i < 3; i++) {
        expect_status(s, &ids[i], "Queued");
        expect_number(s, &ids[i], "RetryCount", 0);
    }
    free_jobs(jobs, n);
    renderq_close(f);
}

/* Alone it is left to its lease, which counts however it was claimed, and the next job is handed out. */
static void an_unreadable_row_alone(void **state)
{
    suite *s = *state;
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    const fault faults[] = { unseen(RENDERQ_FAILED), unseen(RENDERQ_FAILED) };
    for (options.unstarted = 0; options.unstarted < 2; options.unstarted++)
        for (int beside = 0; beside < 2; beside++) {
            renderq_id id = put(s, "a"), other = put(s, "b");
            renderq *f = faulty_open(s, SUITE_RETRY_S);
            renderq_job *job;
            if (!beside)
                expect_ok(s->h, renderq_cancel(s->h, NULL, &other));
            faulty_arm(faults, count_of(faults));
            expect(f, beside ? RENDERQ_OK : RENDERQ_FAILED, claim_options_of(f, &options, &job));
            if (beside)
                same_id(&job->id, &other);
            else
                expect_said(f, "a fault that the test asked for");
            expect_status(s, &id, "Processing");
            run_out(s, &id, 0);
            expect_ok(s->h, renderq_reap(s->h, NULL, NULL));
            expect_number(s, &id, "RetryCount", 1);
            renderq_job_free(job);
            renderq_close(f);
            s->ops->clear(s->e);
        }
}

int run_ghost(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(found_by_its_token),
        TEST(many_are_found_in_order),
        TEST(a_late_ghost_is_released),
        TEST(a_ghost_that_wins),
        TEST(a_whole_batch_is_released),
        TEST(uncertain_then_found),
        TEST(faults_while_it_is_released),
        TEST(each_queue_has_its_ghosts),
        TEST(a_ghost_is_released_once),
        TEST(a_ghost_that_was_taken_back),
        TEST(a_claim_that_was_taken_back),
        TEST(many_ghosts),
        TEST(a_fault_while_it_waits),
        TEST(a_fault_while_it_reaps),
        TEST(no_memory_for_a_repeat),
        TEST(a_batch_with_an_unreadable_row),
        TEST(an_unreadable_row_alone),
    };
    return cmocka_run_group_tests_name("ghost", tests, NULL, NULL);
}
