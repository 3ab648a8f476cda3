/* beside.c: the C# programs and ours on one table: whose jobs come when, how failures add up, what each finds in the
 * other's rows, and all of them at work at once. What each statement does to a row is in states.c. */
#include "suite.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static renderq_id put_theirs(suite *s, const char *composition, int priority)
{
    renderq_id id;
    s->ops->enqueue(s->e, composition, "{\"from\": \"csharp\"}", priority, &id);
    return id;
}

static renderq_id put_ours(suite *s, const char *composition, int priority)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.composition_id = composition;
    job.payload_json = "{\"from\": \"c\"}";
    job.priority = priority;
    return put_job(s, &job);
}

static renderq_id take_theirs(suite *s)
{
    renderq_id id;
    assert_true(s->ops->claim(s->e, "csharp", &id));
    return id;
}

static void theirs_finds_none(suite *s)
{
    renderq_id id;
    assert_false(s->ops->claim(s->e, "csharp", &id));
}

static void make_old(suite *s, const renderq_id *id)
{
    set_number(s, id, "LockedAtUtc", s->ops->now_ms(s->e) - 600001);
}

/* ---- one queue ---- */

/* By priority, then by age, whoever made the job and whoever takes it. */
static void one_order_for_all(void **state)
{
    suite *s = *state;
    static const int priorities[] = { 0, 5, 0, 9, 5, 0, 9, 0 }, order[] = { 3, 6, 1, 4, 0, 2, 5, 7 };
    for (int way = 0; way < 4; way++) {
        renderq_id ids[count_of(priorities)];
        for (size_t i = 0; i < count_of(ids); i++) {
            ids[i] = i % 2 == (size_t)(way & 1) ? put_ours(s, "mixed", priorities[i])
                                                : put_theirs(s, "mixed", priorities[i]);
            sleep_ms(3);                /* two times that differ */
        }
        for (size_t i = 0; i < count_of(ids); i++) {
            if (i % 2 == (size_t)(way >> 1)) {
                renderq_id got = take_theirs(s);
                same_id(&got, &ids[order[i]]);
            } else {
                renderq_job_free(take_this(s->h, &ids[order[i]]));
            }
        }
        theirs_finds_none(s);
        take_none(s->h);
        s->ops->clear(s->e);
    }
}

/* An id is the same text on both sides, and ours is found however it is spelled. */
static void ids_are_the_same_text(void **state)
{
    suite *s = *state;
    renderq_id ours = put_ours(s, "ours", 0), theirs = put_theirs(s, "theirs", -1), got = take_theirs(s);
    same_id(&got, &ours);
    renderq_job *job = take_this(s->h, &theirs);
    renderq_job_free(job);
    const renderq_id *both[] = { &ours, &theirs };
    for (size_t i = 0; i < count_of(both); i++) {
        renderq_id lower = *both[i];
        for (char *c = lower.text; *c; c++)
            if (*c >= 'A' && *c <= 'F')
                *c = (char)(*c + 'a' - 'A');
        job = get(s, &lower);
        same_id(&job->id, both[i]);
        renderq_job_free(job);
        assert_true(s->ops->complete(s->e, &lower, "lower"));
        expect_text(s, both[i], "OutputUrl", "lower");
    }
}

static void our_columns_are_null_on_their_rows(void **state)
{
    suite *s = *state;
    renderq_id id = put_theirs(s, "theirs", 3);
    for (int claimed = 0; claimed < 2; claimed++) {
        expect_nulls(s, &id, "StartedAtUtc", "DueAtUtc", "EndedAtUtc", "LeasedAtUtc", "MaxRetries", "LeaseToken",
                     "LeaseSeconds", "DedupKey", "Progress");
        renderq_job *job = get(s, &id);
        assert_string_equal(job->composition_id, "theirs");
        assert_string_equal(job->payload_json, "{\"from\": \"csharp\"}");
        assert_int_equal(job->priority, 3);
        assert_int_equal(job->max_retries, RENDERQ_RETRIES_DEFAULT);
        assert_int_equal(job->started_at_ms, 0);
        assert_int_equal(job->due_at_ms, 0);
        assert_null(job->dedup_key);
        assert_null(job->progress);
        assert_string_equal(job->lease.text, "");
        assert_in_range(job->created_at_ms, s->ops->now_ms(s->e) - 60000, s->ops->now_ms(s->e) + 1);
        assert_int_equal(job->state, claimed ? RENDERQ_PROCESSING : RENDERQ_QUEUED);
        if (claimed)
            assert_in_range(job->lease_left_ms, 500000, 600000);
        renderq_job_free(job);
        if (!claimed)
            take_theirs(s);
    }
}

static void expect_times(suite *s, const renderq_id *id, const char *started, const char *due, const char *ended)
{
    renderq_job *job = get(s, id);
    assert_int_equal(job->started_at_ms, started ? number_of(s, id, started) : 0);
    assert_int_equal(job->due_at_ms, due ? number_of(s, id, due) : 0);
    assert_int_equal(job->ended_at_ms, ended ? number_of(s, id, ended) : 0);
    renderq_job_free(job);
}

/* They leave times in the row that are not those of its state; a job has only those that are. */
static void times_are_those_of_the_state(void **state)
{
    suite *s = *state;
    renderq_job *job = NULL;
    renderq_id id = put_ours(s, "ours", 0);
    renderq_job_free(take_this(s->h, &id));
    expect_times(s, &id, "StartedAtUtc", NULL, NULL);
    assert_true(s->ops->complete(s->e, &id, "theirs"));
    expect_times(s, &id, "StartedAtUtc", NULL, "CompletedAtUtc");
    assert_true(s->ops->mark_failed(s->e, &id, "theirs"));
    expect_set(s, &id, "StartedAtUtc");
    expect_set(s, &id, "CompletedAtUtc");
    expect_times(s, &id, NULL, NULL, NULL);

    shift(s, &id, "CompletedAtUtc", -1000);
    job = take_this(s->h, &id);
    assert_int_equal(job->ended_at_ms, 0);
    expect_ok(s->h, renderq_fail(s->h, job, "ours", RENDERQ_NEVER));
    renderq_job_free(job);
    expect_times(s, &id, NULL, NULL, "EndedAtUtc");
    shift(s, &id, "EndedAtUtc", -1000);
    assert_true(s->ops->mark_failed(s->e, &id, "theirs"));
    expect_times(s, &id, NULL, NULL, NULL);

    set_number(s, &id, "RetryCount", 0);
    job = take_this(s->h, &id);
    expect_ok(s->h, renderq_fail(s->h, job, "ours", 3600000));
    renderq_job_free(job);
    expect_times(s, &id, NULL, "DueAtUtc", NULL);
    assert_true(s->ops->mark_failed(s->e, &id, "theirs"));
    expect_set(s, &id, "DueAtUtc");
    expect_times(s, &id, NULL, NULL, NULL);
    assert_true(s->ops->complete(s->e, &id, "theirs"));
    expect_times(s, &id, NULL, NULL, "CompletedAtUtc");
}

/* A delayed job is nothing to them until a claim of ours finds it due. That claim takes one, and they the other. */
static void due_jobs_become_theirs_through_us(void **state)
{
    suite *s = *state;
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    renderq_id ids[2];
    job.composition_id = "later";
    job.payload_json = "{}";
    job.delay_ms = 3600000;
    for (size_t i = 0; i < count_of(ids); i++) {
        ids[i] = put_job(s, &job);
        make_due(s, &ids[i]);
        sleep_ms(3);
    }
    theirs_finds_none(s);
    renderq_job_free(take_this(s->h, &ids[0]));
    renderq_id got = take_theirs(s);
    same_id(&got, &ids[1]);
}

/* ---- failures ---- */

/* Each of four failures is of theirs or of ours, in every combination: the count and the end are the same. */
static void failures_count_alike(void **state)
{
    suite *s = *state;
    for (unsigned who = 0; who < 16; who++) {
        renderq_id id = who & 1 ? put_ours(s, "poison", 0) : put_theirs(s, "poison", 0);
        for (int failure = 1; failure <= 4; failure++) {
            if (who >> (failure - 1) & 1) {
                renderq_job *job = take_this(s->h, &id);
                assert_int_equal(job->retry_count, failure - 1);
                expect_ok(s->h, renderq_fail(s->h, job, "ours", 0));
                renderq_job_free(job);
            } else {
                renderq_id got = take_theirs(s);
                same_id(&got, &id);
                assert_true(s->ops->mark_failed(s->e, &id, "theirs"));
            }
            expect_number(s, &id, "RetryCount", failure);
            expect_text(s, &id, "LastErrorMessage", who >> (failure - 1) & 1 ? "ours" : "theirs");
            expect_status(s, &id, failure < 4 ? "Queued" : "DeadLetter");
        }
        theirs_finds_none(s);
        take_none(s->h);
        expect_ok(s->h, renderq_retry(s->h, NULL, &id, NULL));
        expect_number(s, &id, "RetryCount", 0);
        renderq_id got = take_theirs(s);
        same_id(&got, &id);
        s->ops->clear(s->e);
    }
}

/* Their fail knows nothing of how many retries a job of ours allows. */
static void their_fail_allows_three_retries(void **state)
{
    suite *s = *state;
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.composition_id = "once";
    job.payload_json = "{}";
    job.max_retries = RENDERQ_NO_RETRY;
    renderq_id id = put_job(s, &job);
    take_theirs(s);
    assert_true(s->ops->mark_failed(s->e, &id, "theirs"));
    expect_status(s, &id, "Queued");
    renderq_job *taken = take_this(s->h, &id);
    expect_ok(s->h, renderq_fail(s->h, taken, "ours", 0));
    expect_status(s, &id, "DeadLetter");
    renderq_job_free(taken);
}

/* Our claims find that their worker is gone. It then finishes after all: that counts, and ours hears of it. */
static void their_late_worker_takes_it_from_ours(void **state)
{
    suite *s = *state;
    renderq_id id = put_theirs(s, "slow", 0);
    take_theirs(s);
    set_number(s, &id, "MaxRetries", 100);
    set_number(s, &id, "RetryCount", 10);           /* its back-off is long: the claim does not find it due */
    make_old(s, &id);
    renderq_job *job = NULL;
    expect(s->h, RENDERQ_EMPTY, renderq_claim(s->h, NULL, &job)); /* reaps: once in ten seconds */
    expect_status(s, &id, "Scheduled");
    expect_number(s, &id, "RetryCount", 11);
    expect_text(s, &id, "LastErrorMessage", "the lease of csharp ran out");
    make_due(s, &id);
    job = take_this(s->h, &id);
    assert_true(s->ops->complete(s->e, &id, "theirs"));
    expect(s->h, RENDERQ_LOST, renderq_renew(s->h, job, NULL));
    expect(s->h, RENDERQ_LOST, renderq_complete(s->h, job, "ours"));
    expect_text(s, &id, "OutputUrl", "theirs");
    renderq_job_free(job);
}

/* A job that kills its workers ends as a dead letter by our reap. Their watchdog, where it comes first, counts nothing:
 * with it the job goes round for ever. */
static void who_counts_a_crash(void **state)
{
    suite *s = *state;
    renderq_id id = put_ours(s, "poison", 0);
    for (int crash = 0; crash < 6; crash++) {
        if (crash % 2)
            take_theirs(s);
        else
            renderq_job_free(take_this(s->h, &id));
        make_old(s, &id);
        assert_int_equal(s->ops->watchdog(s->e), 1);
        expect_status(s, &id, "Queued");
        expect_number(s, &id, "RetryCount", 0);
    }
    for (int crash = 1; crash <= 4; crash++) {
        if (crash % 2)
            take_theirs(s);
        else
            renderq_job_free(take_this(s->h, &id));
        make_old(s, &id);
        expect_ok(s->h, renderq_reap(s->h, NULL, NULL));
        expect_number(s, &id, "RetryCount", crash);
        if (crash < 4)
            make_due(s, &id);
        expect_status(s, &id, crash < 4 ? "Scheduled" : "DeadLetter");
        if (crash < 4)
            set_text(s, &id, "Status", "Queued");
    }
    assert_int_equal(s->ops->watchdog(s->e), 0);
}

/* Renewed more often than every ten minutes, a lease of any length is safe from their watchdog. */
static void a_renewed_lease_is_left_alone(void **state)
{
    suite *s = *state;
    put_ours(s, "long", 0);
    renderq_job *job = take_for(s->h, NULL, 7200, false);
    for (int i = 0; i < 3; i++) {
        shift(s, &job->id, "LockedAtUtc", -560000);
        shift(s, &job->id, "LeasedAtUtc", -560000);
        assert_int_equal(s->ops->watchdog(s->e), 0);
        expect_ok(s->h, renderq_renew(s->h, job, NULL));
    }
    expect_ok(s->h, renderq_complete(s->h, job, NULL));
    renderq_job_free(job);
}

/* ---- dedup keys ---- */

/* Their fail and their watchdog queue by the id alone. Where that would make two live jobs with one key, the index
 * refuses it, and the row stays as it is. */
static void a_key_that_is_held_refuses_their_requeue(void **state)
{
    suite *s = *state;
    for (int ended = 0; ended < 3; ended++) {
        renderq_id first = put_key(s, "webhook-1");
        renderq_job *job = take_this(s->h, &first);
        if (ended == 0)
            expect_ok(s->h, renderq_complete(s->h, job, "ours"));
        else if (ended == 1)
            expect_ok(s->h, renderq_fail(s->h, job, "ours", RENDERQ_NEVER));
        else
            expect_ok(s->h, renderq_cancel(s->h, NULL, &first));
        renderq_id second = put_key(s, "webhook-1");
        char *before = snapshot(s, &first);
        assert_false(s->ops->mark_failed(s->e, &first, "theirs"));
        expect_unchanged(s, &first, before);
        assert_true(s->ops->complete(s->e, &second, "theirs")); /* lets the key go */
        assert_true(s->ops->mark_failed(s->e, &first, "theirs"));
        expect_status(s, &first, "Queued");
        renderq_new_job again = RENDERQ_INIT(renderq_new_job);
        renderq_id holder = { "" };
        again.composition_id = "again";
        again.payload_json = "{}";
        again.dedup_key = "webhook-1";
        expect(s->h, RENDERQ_DUPLICATE, renderq_enqueue(s->h, &again, &holder));
        same_id(&holder, &first);
        renderq_job_free(job);
        s->ops->clear(s->e);
    }
}

/* ---- the table as they create it ---- */

/* Their rows in every state they know are there before ours is; their statements go on unchanged after it. */
static void their_table_with_their_rows(void **state)
{
    suite *s = *state;
    s->ops->make_theirs(s->e);
    renderq_id done = put_theirs(s, "done", 9), dead = put_theirs(s, "dead", 8), run = put_theirs(s, "run", 7);
    renderq_id old = put_theirs(s, "old", 6), waits = put_theirs(s, "waits", 5), got;
    const renderq_id *claimed[] = { &done, &dead, &run, &old };
    for (size_t i = 0; i < count_of(claimed); i++) {
        got = take_theirs(s);
        same_id(&got, claimed[i]);
    }
    assert_true(s->ops->complete(s->e, &done, "theirs"));
    set_number(s, &dead, "RetryCount", 3);
    assert_true(s->ops->mark_failed(s->e, &dead, "theirs"));
    make_old(s, &old);

    s->h = suite_open(s, "node-1", NULL);
    expect_ok(s->h, renderq_create(s->h, NULL));
    expect_ok(s->h, renderq_create(s->h, NULL));
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    expect_ok(s->h, renderq_stats(s->h, NULL, &counts));
    assert_int_equal(counts.queued, 1);
    assert_int_equal(counts.processing, 2);
    assert_int_equal(counts.completed, 1);
    assert_int_equal(counts.dead_letter, 1);
    assert_int_equal(counts.run_out, 1);

    renderq_job_free(take_this(s->h, &waits));
    expect_ok(s->h, renderq_reap(s->h, NULL, NULL));
    expect_status(s, &run, "Processing");
    expect_status(s, &old, "Scheduled");
    expect_number(s, &old, "RetryCount", 1);
    renderq_job *job = get(s, &done);
    assert_string_equal(job->output_url, "theirs");
    assert_int_not_equal(job->ended_at_ms, 0);
    renderq_job_free(job);

    /* and on it goes */
    assert_true(s->ops->complete(s->e, &run, "theirs"));
    renderq_id next = put_theirs(s, "next", 0), ours = put_ours(s, "ours", -1);
    got = take_theirs(s);
    same_id(&got, &next);
    assert_true(s->ops->mark_failed(s->e, &next, "theirs"));
    renderq_job_free(take_this(s->h, &next));
    got = take_theirs(s);
    same_id(&got, &ours);
    assert_int_equal(s->ops->watchdog(s->e), 0);
}

/* ---- all at once ---- */

#define EACH 150                /* jobs that a producer makes, and there are two */
#define SHARE 100               /* jobs that a worker does, and there are four: so both kinds have to work */

typedef struct party {
    suite *s;
    bool ours, half;
    int number;
    int made, done;             /* by this party */
    renderq_status bad;
    renderq_id did[SHARE];
} party;

/* Half of what each does fails at the first attempt, and is done by whoever gets it then. Where OUTPUT cannot be
 * trusted with a row that others queue again meanwhile, nothing fails. */
static bool fails(const party *p, int retry_count, const char *id)
{
    return p->half && retry_count == 0 && (id[0] & 1);
}

static void *produce(void *arg)
{
    party *p = arg;
    renderq *h = p->ours ? suite_open(p->s, "producer", NULL) : NULL;
    engine *e = NULL;
    rq_url url;
    char why[512];
    rq_url_parse(suite_url, &url, why, sizeof why);
    if (!p->ours)
        e = p->s->ops->open(&url, p->s->queue);
    for (; p->made < EACH && p->bad == RENDERQ_OK; p->made++) {
        renderq_new_job job = RENDERQ_INIT(renderq_new_job);
        renderq_id id;
        job.composition_id = "many";
        job.payload_json = "{}";
        job.priority = p->made % 3;
        if (p->ours)
            p->bad = renderq_enqueue(h, &job, NULL);
        else
            p->s->ops->enqueue(e, "many", "{}", job.priority, &id);
    }
    renderq_close(h);
    if (e)
        p->s->ops->close(e);
    rq_url_free(&url);
    return NULL;
}

/* How many are Completed: the end of everybody's work. */
static bool all_done(renderq *h, renderq_status *bad)
{
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    renderq_status status = renderq_stats(h, NULL, &counts);
    if (status != RENDERQ_OK)
        *bad = status;
    return status != RENDERQ_OK || counts.completed >= 2 * EACH;
}

static void *work(void *arg)
{
    party *p = arg;
    renderq *h = suite_open(p->s, p->ours ? "ours" : "theirs", NULL);
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    options.wait_ms = 100;
    while (p->bad == RENDERQ_OK && p->done < SHARE) {
        renderq_job *job = NULL;
        p->bad = renderq_claim(h, &options, &job);
        if (p->bad == RENDERQ_EMPTY) {
            p->bad = RENDERQ_OK;
            if (all_done(h, &p->bad))
                break;
            continue;
        }
        if (p->bad == RENDERQ_OK && fails(p, job->retry_count, job->id.text)) {
            p->bad = renderq_fail(h, job, "at first", 0);
        } else if (p->bad == RENDERQ_OK) {
            p->did[p->done++] = job->id;
            p->bad = renderq_complete(h, job, "ours");
        }
        renderq_job_free(job);
    }
    renderq_close(h);
    return NULL;
}

static void *work_theirs(void *arg)
{
    party *p = arg;
    const engine_ops *ops = p->s->ops;
    renderq *h = suite_open(p->s, "counter", NULL);
    rq_url url;
    char why[512], worker[20];
    rq_url_parse(suite_url, &url, why, sizeof why);
    snprintf(worker, sizeof worker, "csharp-%d", p->number);
    engine *e = ops->open(&url, p->s->queue);
    while (p->bad == RENDERQ_OK && p->done < SHARE) {
        renderq_id id;
        cell failures;
        if (!ops->claim(e, worker, &id)) {
            if (all_done(h, &p->bad))
                break;
            sleep_ms(5);
            continue;
        }
        ops->read(e, &id, "RetryCount", &failures);
        if (fails(p, (int)failures.number, id.text)) {
            ops->mark_failed(e, &id, "at first");
        } else {
            p->did[p->done++] = id;
            ops->complete(e, &id, "theirs");
        }
    }
    ops->close(e);
    rq_url_free(&url);
    renderq_close(h);
    return NULL;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const renderq_id *)a)->text, ((const renderq_id *)b)->text);
}

/* Two producers and two workers of each kind: every job is done once, by whoever. */
static void every_job_is_done_once(void **state)
{
    suite *s = *state;
    static party parties[6];
    void *(*const run[])(void *) = { produce, produce, work, work, work_theirs, work_theirs };
    static renderq_id did[4 * SHARE];
    pthread_t threads[count_of(run)];
    size_t n = 0;
    const char *unable = s->ops->unable(s->e, ENGINE_OUTPUTS);
    if (unable)
        print_message("no job fails in this: %s\n", unable);
    for (size_t i = 0; i < count_of(run); i++) {
        parties[i] = (party){ .s = s, .half = !unable, .ours = i % 2 == 0 || run[i] == work, .number = (int)i };
        if (run[i] == work_theirs)
            parties[i].ours = false;
        assert_int_equal(pthread_create(&threads[i], NULL, run[i], &parties[i]), 0);
    }
    for (size_t i = 0; i < count_of(run); i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < count_of(run); i++) {
        party *p = &parties[i];
        expect_ok(NULL, p->bad);
        for (int k = 0; k < p->done && n < count_of(did); k++)
            did[n++] = p->did[k];
    }
    assert_int_equal(n, 2 * EACH);
    qsort(did, n, sizeof did[0], by_id);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            assert_string_not_equal(did[i - 1].text, did[i].text);
        expect_status(s, &did[i], "Completed");
        expect_number(s, &did[i], "RetryCount", fails(&parties[0], 0, did[i].text));
    }
    assert_int_equal(count_rows(s), 2 * EACH);
}

int run_beside(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(one_order_for_all),
        TEST(ids_are_the_same_text),
        TEST(our_columns_are_null_on_their_rows),
        TEST(times_are_those_of_the_state),
        TEST(due_jobs_become_theirs_through_us),
        TEST(failures_count_alike),
        TEST(their_fail_allows_three_retries),
        TEST(their_late_worker_takes_it_from_ours),
        TEST(who_counts_a_crash),
        TEST(a_renewed_lease_is_left_alone),
        TEST(a_key_that_is_held_refuses_their_requeue),
        TEST_BARE(their_table_with_their_rows),
        TEST(every_job_is_done_once),
    };
    return cmocka_run_group_tests_name("beside", tests, NULL, NULL);
}
