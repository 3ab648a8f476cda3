/* outcome.c: what a handler says, what the queue then knows, and what the events tell. */
#include "kit.h"

#include "worker.h"

/* Works on what is there, and ends. */
static void work_off(kit *k)
{
    k->options.stop_when_empty = 1;
    expect(k, run_here(k), RENDERQ_OK);
}

static void done_is_completed(void **state)
{
    kit *k = *state;
    renderq_id id = put_some(k, "e", 1);
    work_off(k);
    renderq_job *job = look(k, &id);
    assert_int_equal(job->state, RENDERQ_COMPLETED);
    assert_string_equal(job->output_url, "{\"n\":1}");
    renderq_job_free(job);
    assert_int_equal(events(k, RENDERQ_EVENT_STARTED), 1);
    assert_int_equal(events(k, RENDERQ_EVENT_DONE), 1);
    assert_string_equal(k->last_text[RENDERQ_EVENT_DONE], "{\"n\":1}");
}

static void done_without_an_output_keeps_the_one_there(void **state)
{
    kit *k = *state;
    renderq_id id;
    renderq_new_job new = RENDERQ_INIT(renderq_new_job);
    new.composition_id = "d";
    new.payload_json = "{}";
    new.output_url = "expected";
    assert_status(k->h, renderq_enqueue(k->h, &new, &id), RENDERQ_OK);
    work_off(k);
    renderq_job *job = look(k, &id);
    assert_int_equal(job->state, RENDERQ_COMPLETED);
    assert_string_equal(job->output_url, "expected");
    renderq_job_free(job);
}

static void a_failure_counts(void **state)
{
    kit *k = *state;
    renderq_id id = put_some(k, "f", 1);
    k->options.max_jobs = 1;
    expect(k, run_here(k), RENDERQ_OK);
    renderq_job *job = look(k, &id);
    assert_int_equal(job->state, RENDERQ_QUEUED);
    assert_int_equal(job->retry_count, 1);
    assert_string_equal(job->last_error, "{\"n\":1}");
    renderq_job_free(job);
    assert_int_equal(events(k, RENDERQ_EVENT_FAILED), 1);
    assert_int_equal(k->last_dead, 0);
}

static void the_last_failure_is_a_dead_letter(void **state)
{
    kit *k = *state;
    put_some(k, "f", 1);
    work_off(k);
    assert_int_equal(events(k, RENDERQ_EVENT_FAILED), 4);
    assert_int_equal(k->last_dead, 1);
    expect_queue(k, 0, 0, 0, 1, 0);
}

static void never_is_a_dead_letter_at_once(void **state)
{
    kit *k = *state;
    renderq_id id = put_some(k, "n", 1);
    work_off(k);
    renderq_job *job = look(k, &id);
    assert_int_equal(job->state, RENDERQ_DEAD_LETTER);
    assert_null(job->last_error);
    renderq_job_free(job);
    assert_int_equal(k->last_dead, 1);
}

static void retry_counts_nothing(void **state)
{
    kit *k = *state;
    renderq_id id = put_some(k, "r", 1);
    k->options.max_jobs = 2;
    expect(k, run_here(k), RENDERQ_OK);
    renderq_job *job = look(k, &id);
    assert_int_equal(job->state, RENDERQ_COMPLETED);
    assert_int_equal(job->retry_count, 0);
    renderq_job_free(job);
    assert_int_equal(events(k, RENDERQ_EVENT_RETRIED), 1);
    assert_int_equal(events(k, RENDERQ_EVENT_STARTED), 2);
}

static void nonsense_is_a_failure(void **state)
{
    kit *k = *state;
    put_some(k, "?", 1);
    k->options.max_jobs = 1;
    expect(k, run_here(k), RENDERQ_OK);
    assert_int_equal(events(k, RENDERQ_EVENT_FAILED), 1);
    expect_text(k->last_text[RENDERQ_EVENT_FAILED], "renderq_outcome", __FILE__, __LINE__);
    expect_queue(k, 0, 0, 0, 0, 1);
}

/* ---- texts ---- */

static char *said;

static renderq_outcome say_done(void *arg, renderq_task *task, const renderq_job *job)
{
    (void)arg;
    (void)job;
    renderq_outcome outcome = renderq_task_done(task, said);
    memset(said, '!', strlen(said));            /* it was copied */
    return outcome;
}

static void outputs_are_copied_and_looked_at(void **state)
{
    kit *k = *state;
    char longest[RENDERQ_OUTPUT_URL_MAX + 2];
    k->options.handler = say_done;
    k->options.max_jobs = 1;
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    char bad[] = "\xff", good[] = "good";
    struct { char *text; renderq_event_type event; const char *text_of_event; } given[] = {
        { good, RENDERQ_EVENT_DONE, "good" }, { bad, RENDERQ_EVENT_FAILED, "not UTF-8" },
        { longest, RENDERQ_EVENT_FAILED, "too long" }, { longest + 1, RENDERQ_EVENT_DONE, "xxx" },
    };
    for (size_t i = 0; i < count_of(given); i++) {
        size_t before = events(k, given[i].event);
        put_some(k, "e", 1);
        memset(longest, 'x', sizeof longest - 1);
        said = given[i].text;
        expect(k, run_here(k), RENDERQ_OK);
        assert_int_equal(events(k, given[i].event), before + 1);
        expect_text(k->last_text[given[i].event], given[i].text_of_event, __FILE__, __LINE__);
        assert_status(k->h, renderq_purge(k->h, NULL, 60, NULL), RENDERQ_OK);
    }
}

static renderq_outcome say_failed(void *arg, renderq_task *task, const renderq_job *job)
{
    (void)arg;
    (void)job;
    return renderq_task_fail(task, said, 5000);
}

static void messages_are_made_fit(void **state)
{
    kit *k = *state;
    char bad[] = "broken \xff";
    renderq_id id = put_some(k, "f", 1);
    k->options.handler = say_failed;
    k->options.max_jobs = 1;
    said = bad;
    expect(k, run_here(k), RENDERQ_OK);
    renderq_job *job = look(k, &id);
    assert_int_equal(job->state, RENDERQ_SCHEDULED);
    assert_string_equal(job->last_error, "broken \xef\xbf\xbd");
    assert_in_range(job->due_at_ms - job->created_at_ms, 4900, 60000);
    renderq_job_free(job);
}

/* Says one thing and returns another, by the first letter of the composition. */
static renderq_outcome change_its_mind(void *arg, renderq_task *task, const renderq_job *job)
{
    (void)arg;
    switch (job->composition_id[0]) {
    case 'f': renderq_task_retry(task, 3600000); return RENDERQ_TASK_FAILED;
    case 'r': renderq_task_fail(task, "not so", 3600000); return RENDERQ_TASK_RETRY;
    default: renderq_task_fail(task, "so", 3600000); renderq_task_retry(task, 0); return RENDERQ_TASK_FAILED;
    }
}

/* Each outcome has its own call's delay, or none. */
static void delays_are_apart(void **state)
{
    static const struct { const char *composition; renderq_state state; int64_t least_ms, most_ms; } given[] = {
        { "f", RENDERQ_SCHEDULED, 1000, 1800000 }, { "r", RENDERQ_QUEUED, 0, 0 },
        { "m", RENDERQ_SCHEDULED, 3500000, INT64_MAX },
    };
    kit *k = *state;
    k->options.handler = change_its_mind;
    k->options.max_jobs = 1;
    for (size_t i = 0; i < count_of(given); i++) {
        renderq_id id = put_some(k, given[i].composition, 1);
        expect(k, run_here(k), RENDERQ_OK);
        renderq_job *job = look(k, &id);
        int64_t delay_ms = job->due_at_ms ? job->due_at_ms - job->created_at_ms : 0;
        assert_int_equal(job->state, given[i].state);
        assert_true(delay_ms >= given[i].least_ms && delay_ms <= given[i].most_ms);
        renderq_job_free(job);
        assert_status(k->h, renderq_cancel(k->h, NULL, &id), RENDERQ_OK);
    }
}

static renderq_outcome say_progress(void *arg, renderq_task *task, const renderq_job *job)
{
    char longest[RENDERQ_PROGRESS_MAX + 2];
    kit *k = arg;
    (void)job;
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    bool right = renderq_task_progress(task, "\xff") == RENDERQ_INVALID
                 && renderq_task_progress(task, NULL) == RENDERQ_INVALID
                 && renderq_task_progress(NULL, "x") == RENDERQ_INVALID
                 && renderq_task_progress(task, longest) == RENDERQ_INVALID
                 && renderq_task_progress(task, longest + 1) == RENDERQ_OK
                 && renderq_task_should_stop(task) == RENDERQ_GO_ON && !renderq_job_lost(task);
    (void)k;
    return renderq_task_fail(task, right ? "right" : "wrong", RENDERQ_NEVER);
}

static void progress_is_looked_at(void **state)
{
    kit *k = *state;
    put_some(k, "f", 1);
    k->options.handler = say_progress;
    work_off(k);
    assert_string_equal(k->last_text[RENDERQ_EVENT_FAILED], "right");
}

/* ---- options ---- */

static void options_are_looked_at(void **state)
{
    kit *k = *state;
    renderq_worker_options good = k->options, all[12];
    renderq_options connection = RENDERQ_INIT(renderq_options);
    for (size_t i = 0; i < count_of(all); i++)
        all[i] = good;
    all[0].handler = NULL;
    all[1].threads = RENDERQ_THREADS_MAX + 1;
    all[2].threads = -1;
    all[3].lease_s = -1;
    all[4].poll_min_ms = -5;
    all[5].poll_max_ms = 3;                     /* below the minimum */
    all[6].prefetch = RENDERQ_MANY_MAX + 1;
    all[7].job_timeout_s = -1;
    all[8].grace_s = -3;
    all[9].max_jobs = -1;
    all[10].queue = "a.b.c.d";
    connection.retry_s = 1000;
    all[11].connection = &connection;
    static const char *const says[] = { "handler", "threads", "threads", "lease_s", "poll_min_ms", "poll_max_ms",
                                        "prefetch", "job_timeout_s", "grace_s", "max_jobs", "queue", "retry_s" };
    for (size_t i = 0; i < count_of(all); i++) {
        renderq_worker *w = NULL;
        renderq_status status = renderq_worker_new(k->url, &all[i], &w);
        if (i == 11) {                          /* it is shortened to what the lease bears */
            assert_int_equal(status, RENDERQ_OK);
        } else {
            if (status != RENDERQ_INVALID)
                print_error("%zu: %s\n", i, renderq_strstatus(status));
            assert_int_equal(status, RENDERQ_INVALID);
            expect_text(renderq_worker_errmsg(w), says[i], __FILE__, __LINE__);
            assert_int_equal(renderq_worker_run(w), RENDERQ_INVALID);
            renderq_worker_stop(w);
        }
        renderq_worker_free(w);
    }
    good.size = 0;
    assert_int_equal(renderq_worker_new(k->url, &good, &k->w), RENDERQ_INVALID);
    expect_text(renderq_worker_errmsg(k->w), "RENDERQ_INIT", __FILE__, __LINE__);
    assert_int_equal(renderq_worker_new(k->url, &good, NULL), RENDERQ_INVALID);
    assert_int_equal(renderq_worker_run(NULL), RENDERQ_INVALID);
    renderq_worker_stop(NULL);
    renderq_worker_free(NULL);
    assert_string_equal(renderq_worker_errmsg(NULL), "out of memory");
}

static void a_wrong_url_is_told(void **state)
{
    kit *k = *state;
    assert_int_equal(renderq_worker_new("nonsense:x", &k->options, &k->w), RENDERQ_INVALID);
    expect_text(renderq_worker_errmsg(k->w), "scheme", __FILE__, __LINE__);
}

static void the_worker_has_its_name(void **state)
{
    kit *k = *state;
    renderq_id id = put_some(k, "h", 1);
    char name[] = "node-7";
    k->options.name = name;
    start(k);
    memset(name, '!', strlen(name));            /* copied */
    wait_event(k, RENDERQ_EVENT_STARTED, 1);
    renderq_job *job = look(k, &id);
    assert_string_equal(job->worker, "node-7");
    renderq_job_free(job);
    let_go(k);
    stop(k);
    expect(k, wait_end(k), RENDERQ_OK);
}

static void a_missing_table_ends_it(void **state)
{
    kit *k = *state;
    k->options.queue = "no_such_queue";
    expect(k, run_here(k), RENDERQ_SCHEMA);
    expect_text(renderq_worker_errmsg(k->w), "no_such_queue", __FILE__, __LINE__);
}

/* What the options point to is the caller's again once the worker is made; it opens more connections after that. */
static void options_are_copied(kit *k, bool transactional)
{
    char name[] = "node-7", queue[sizeof k->queue];
    renderq_options connection = RENDERQ_INIT(renderq_options);
    renderq_id id = put_some(k, "d", 1);
    snprintf(k->url, sizeof k->url, "%s", kit_url);
    memcpy(queue, k->queue, sizeof queue);
    connection.worker = name;
    connection.queue = queue;
    k->options.connection = &connection;
    k->options.transactional = transactional;
    k->options.threads = 2;
    k->options.stop_when_empty = 1;
    make(k);
    memset(k->url, '[', strlen(k->url));
    memset(name, '[', strlen(name));
    memset(queue, '[', strlen(queue));              /* no queue's name */
    memset(&connection, 0, sizeof connection);
    expect(k, run_here(k), RENDERQ_OK);
    renderq_job *job = look(k, &id);
    assert_int_equal(job->state, RENDERQ_COMPLETED);
    assert_string_equal(job->worker, "node-7");
    renderq_job_free(job);
}

static void its_options_are_copied(void **state)
{
    options_are_copied(*state, false);
}

static void its_options_are_copied_for_transactions(void **state)
{
    options_are_copied(*state, true);
}

/* After an end that nobody asked for it may run again, and its handlers hear nothing of that end. */
static void once_the_table_is_there_it_runs(kit *k, bool transactional)
{
    char queue[100];
    snprintf(queue, sizeof queue, "%s_later", k->queue);
    k->options.queue = queue;
    k->options.grace_s = RENDERQ_AT_ONCE;
    k->options.max_jobs = 1;
    k->options.transactional = transactional;
    expect(k, run_here(k), RENDERQ_SCHEMA);
    assert_status(k->h, renderq_create(k->h, queue), RENDERQ_OK);
    assert_status(k->h, put_job(k->h, queue, "d", NULL), RENDERQ_OK);
    expect(k, run_here(k), RENDERQ_OK);
    assert_int_equal(k->reasons[RENDERQ_GO_ON], 1);
    assert_int_equal(events(k, RENDERQ_EVENT_DONE), 1);
    assert_int_equal(k->w->poll.h->retry_s, k->w->connection.retry_s);      /* its patience is back */
    assert_int_equal(k->w->poll.h->session.command_s, k->w->connection.command_s);
}

static void it_runs_again_after_a_fatal_end(void **state)
{
    once_the_table_is_there_it_runs(*state, false);
}

static void it_runs_again_in_transactions(void **state)
{
    once_the_table_is_there_it_runs(*state, true);
}

int run_outcome(void)
{
    const struct CMUnitTest tests[] = {
        TEST(done_is_completed), TEST(done_without_an_output_keeps_the_one_there), TEST(a_failure_counts),
        TEST(the_last_failure_is_a_dead_letter), TEST(never_is_a_dead_letter_at_once), TEST(retry_counts_nothing),
        TEST(nonsense_is_a_failure), TEST(outputs_are_copied_and_looked_at), TEST(messages_are_made_fit),
        TEST(delays_are_apart), TEST(progress_is_looked_at), TEST(options_are_looked_at), TEST(a_wrong_url_is_told),
        TEST(the_worker_has_its_name), TEST(its_options_are_copied), TEST(its_options_are_copied_for_transactions),
        TEST(a_missing_table_ends_it), TEST(it_runs_again_after_a_fatal_end), TEST(it_runs_again_in_transactions),
    };
    return cmocka_run_group_tests_name("outcome", tests, NULL, NULL);
}
