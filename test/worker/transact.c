/* transact.c: the transactional worker: what a handler puts into the queue on its connection is there when the job is
 * done, and not otherwise. */
#include "kit.h"

#include "worker.h"

/* Puts a follow-up "after" in, delayed so that nobody takes it here, and goes on as the kit's handlers do: c commits, a
 * fails, b goes back, h does not return. Two do what they must not: m commits itself, o rolls back and begins anew. */
static renderq_outcome follow(void *arg, renderq_task *task, const renderq_job *job)
{
    kit *k = arg;
    renderq *h = renderq_task_handle(task);
    renderq_new_job after = RENDERQ_INIT(renderq_new_job);
    after.composition_id = "after";
    after.payload_json = "{}";
    after.delay_ms = 3600000;
    pthread_mutex_lock(&k->lock);
    k->calls++;
    k->at_once++;
    bool go = k->let_go;
    pthread_mutex_unlock(&k->lock);
    renderq_status status = renderq_enqueue(h, &after, NULL);
    bool native = renderq_native(h) != NULL;
    while (job->composition_id[0] == 'h' && !go) {
        sleep_ms(2);
        pthread_mutex_lock(&k->lock);
        go = k->let_go;
        pthread_mutex_unlock(&k->lock);
    }
    if (job->composition_id[0] == 'h')
        rq_log(h, RENDERQ_LOG_WARNING, "the handler returns");
    while (job->composition_id[0] == 'w' && renderq_task_should_stop(task) == RENDERQ_GO_ON)
        sleep_ms(2);
    pthread_mutex_lock(&k->lock);
    k->at_once--;
    pthread_mutex_unlock(&k->lock);
    if (status != RENDERQ_OK || !native || renderq_task_should_stop(task) == RENDERQ_STOP_LOST)
        return renderq_task_fail(task, renderq_errmsg(h), RENDERQ_NEVER);
    switch (job->composition_id[0]) {
    case 'a': return renderq_task_fail(task, "as it must", RENDERQ_NEVER);
    case 'b': return renderq_task_retry(task, 7200000);
    case 'w': return RENDERQ_TASK_RETRY;
    case 'm':
        assert_status(h, renderq_commit(h), RENDERQ_OK);
        return RENDERQ_TASK_DONE;
    case 'o':
        assert_status(h, renderq_rollback(h), RENDERQ_OK);
        assert_status(h, renderq_begin(h), RENDERQ_OK);
        assert_status(h, renderq_enqueue(h, &after, NULL), RENDERQ_OK);
        return RENDERQ_TASK_DONE;
    default: return renderq_task_done(task, "with it");
    }
}

static void prepare(kit *k, int threads)
{
    k->options.handler = follow;
    k->options.transactional = 1;
    k->options.threads = threads;
}

static void done_commits(void **state)
{
    kit *k = *state;
    renderq_id id = put_some(k, "c", 1);
    prepare(k, 1);
    k->options.max_jobs = 1;
    expect(k, run_here(k), RENDERQ_OK);
    expect_queue(k, 0, 0, 1, 0, 1);
    renderq_job *job = look(k, &id);
    assert_string_equal(job->output_url, "with it");
    renderq_job_free(job);
    assert_int_equal(events(k, RENDERQ_EVENT_DONE), 1);
}

static void failed_rolls_back(void **state)
{
    kit *k = *state;
    renderq_id id = put_some(k, "a", 1);
    prepare(k, 1);
    k->options.stop_when_empty = 1;
    expect(k, run_here(k), RENDERQ_OK);
    expect_queue(k, 0, 0, 0, 1, 0);
    renderq_job *job = look(k, &id);
    assert_string_equal(job->last_error, "as it must");
    assert_int_equal(job->retry_count, 1);
    renderq_job_free(job);
    assert_int_equal(events(k, RENDERQ_EVENT_FAILED), 1);
    assert_int_equal(k->last_dead, 1);
}

static void retry_rolls_back(void **state)
{
    kit *k = *state;
    renderq_id id = put_some(k, "b", 1);
    prepare(k, 1);
    k->options.max_jobs = 1;
    expect(k, run_here(k), RENDERQ_OK);
    expect_queue(k, 0, 0, 0, 0, 1);                 /* itself; there is no follow-up */
    renderq_job *job = look(k, &id);
    assert_int_equal(job->retry_count, 0);
    renderq_job_free(job);
    assert_int_equal(events(k, RENDERQ_EVENT_RETRIED), 1);
}

/* What is told is what the row says, whoever ended the transaction. */
static void a_handler_that_commits(void **state)
{
    kit *k = *state;
    put_some(k, "m", 1);
    prepare(k, 1);
    k->options.max_jobs = 1;
    expect(k, run_here(k), RENDERQ_OK);
    assert_int_equal(events(k, RENDERQ_EVENT_DONE), 1);
    expect_queue(k, 0, 0, 1, 0, 1);
}

static void a_handler_that_rolls_back(void **state)
{
    kit *k = *state;
    renderq_id id = put_without_retries(k, "o");
    prepare(k, 1);
    k->options.max_jobs = 1;
    expect(k, run_here(k), RENDERQ_OK);
    assert_int_equal(events(k, RENDERQ_EVENT_FAILED), 1);
    renderq_job *job = look(k, &id);
    expect_text(job->last_error, "handler has ended the transaction", __FILE__, __LINE__);
    renderq_job_free(job);
    expect_queue(k, 0, 0, 0, 1, 0);
}

static void several_threads_do_each_once(void **state)
{
    kit *k = *state;
    put_some(k, "c", 60);
    prepare(k, 4);
    k->options.stop_when_empty = 1;
    expect(k, run_here(k), RENDERQ_OK);
    expect_queue(k, 0, 0, 60, 0, 60);
    assert_int_equal(k->calls, 60);
}

static void idle_it_stops_too(void **state)
{
    kit *k = *state;
    prepare(k, 3);
    k->options.poll_min_ms = k->options.poll_max_ms = 3600000;
    start(k);
    sleep_ms(200);
    stop(k);
    expect(k, wait_end(k), RENDERQ_OK);
}

static void a_stop_rolls_back(void **state)
{
    kit *k = *state;
    put_some(k, "w", 1);
    prepare(k, 2);
    k->options.grace_s = RENDERQ_AT_ONCE;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 1);
    stop(k);
    expect(k, wait_end(k), RENDERQ_OK);
    expect_queue(k, 1, 0, 0, 0, 0);
}

static void a_job_that_takes_too_long(void **state)
{
    kit *k = *state;
    renderq_id id = put_some(k, "w", 1);
    prepare(k, 1);
    k->options.job_timeout_s = 1;
    k->options.max_jobs = 1;
    expect(k, run_here(k), RENDERQ_OK);
    assert_int_equal(events(k, RENDERQ_EVENT_TIMEOUT), 1);
    renderq_job *job = look(k, &id);
    assert_int_equal(job->retry_count, 1);
    expect_text(job->last_error, "longer than 1 s", __FILE__, __LINE__);
    renderq_job_free(job);
    expect_queue(k, 0, 0, 0, 0, 1);
}

/* Only its thread can end the transaction, and does when it returns, though nobody waits for it. The other thread waits
 * for a job meanwhile, and takes none after the stop. */
static void one_that_does_not_return(void **state)
{
    kit *k = *state;
    renderq_options patient = RENDERQ_INIT(renderq_options);
    put_some(k, "h", 1);
    put_some(k, "c", 1);
    prepare(k, 2);
    patient.command_s = 300;
    k->options.connection = &patient;
    k->options.lease_s = 1200;
    k->options.grace_s = RENDERQ_AT_ONCE;
    k->options.linger_s = 1;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 1);
    stop(k);
    expect(k, wait_end(k), RENDERQ_BUSY);
    renderq_worker_free(k->w);
    k->w = NULL;
    let_go(k);
    wait_until(counts(k).queued == 2);
    assert_int_equal(k->calls, 1);
}

/* Its thread keeps the connection, which is the worker's first one; when it has returned, the next run has that. */
static void one_that_returned_after_all(void **state)
{
    kit *k = *state;
    put_some(k, "h", 1);
    prepare(k, 1);
    k->options.max_jobs = 1;
    k->options.grace_s = RENDERQ_AT_ONCE;
    k->options.linger_s = 1;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 1);
    rq_worker_give_up(k->w, RENDERQ_FAILED, "the test says so");
    expect(k, wait_end(k), RENDERQ_BUSY);
    expect(k, renderq_worker_run(k->w), RENDERQ_INVALID);
    let_go(k);
    wait_until(counts(k).queued == 1);
    renderq_status status = RENDERQ_INVALID;
    wait_until((status = renderq_worker_run(k->w)) != RENDERQ_INVALID);
    expect(k, status, RENDERQ_OK);
    assert_ptr_equal(k->w->threads[0].link.h, k->w->poll.h);
    expect_queue(k, 0, 0, 1, 0, 1);
}

static void count_line(renderq_log_level level, const char *line, void *arg)
{
    kit *k = arg;
    (void)level;
    (void)line;
    pthread_mutex_lock(&k->lock);
    k->warnings++;
    pthread_mutex_unlock(&k->lock);
}

static void once_freed_it_calls_nobody(void **state)
{
    kit *k = *state;
    put_some(k, "h", 1);
    prepare(k, 1);
    k->options.grace_s = RENDERQ_AT_ONCE;
    k->options.linger_s = 1;
    k->options.log = count_line;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 1);
    stop(k);
    expect(k, wait_end(k), RENDERQ_BUSY);
    renderq_worker_free(k->w);
    k->w = NULL;
    size_t before = k->warnings;
    let_go(k);
    wait_until(counts(k).queued == 1);              /* it has said something by then */
    assert_int_equal(k->warnings, before);
}

static void nothing_is_claimed_ahead(void **state)
{
    kit *k = *state;
    prepare(k, 1);
    k->options.prefetch = 1;
    assert_int_equal(renderq_worker_new(k->url, &k->options, &k->w), RENDERQ_INVALID);
    expect_text(renderq_worker_errmsg(k->w), "prefetch", __FILE__, __LINE__);
}

int run_transact(void)
{
    const struct CMUnitTest tests[] = {
        TEST(done_commits), TEST(failed_rolls_back), TEST(retry_rolls_back), TEST(a_handler_that_commits),
        TEST(a_handler_that_rolls_back), TEST(several_threads_do_each_once), TEST(idle_it_stops_too), TEST(a_stop_rolls_back),
        TEST(a_job_that_takes_too_long),
        TEST(one_that_does_not_return), TEST(one_that_returned_after_all), TEST(once_freed_it_calls_nobody),
        TEST(nothing_is_claimed_ahead),
    };
    return cmocka_run_group_tests_name("transact", tests, NULL, NULL);
}
