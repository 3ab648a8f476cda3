/* kit.c: the fixtures of kit.h, and the handler that all tests use. */
#include "kit.h"

#include <poll.h>
#include <signal.h>

const char *kit_url;

/* ---- the handler ---- */

static void note_begin(kit *k)
{
    pthread_mutex_lock(&k->lock);
    k->calls++;
    k->at_once++;
    if (k->at_once > k->most_at_once)
        k->most_at_once = k->at_once;
    k->started_ms = now_ms();
    pthread_mutex_unlock(&k->lock);
    if (k->child_says[1])
        assert_int_equal(write(k->child_says[1], "", 1), 1);
}

static void note_end(kit *k, renderq_stop_reason reason)
{
    pthread_mutex_lock(&k->lock);
    k->at_once--;
    k->reasons[reason]++;
    pthread_mutex_unlock(&k->lock);
}

static bool may_go(kit *k)
{
    struct pollfd one = { .fd = k->child_hears[0], .events = POLLIN };
    pthread_mutex_lock(&k->lock);
    bool may = k->let_go;
    pthread_mutex_unlock(&k->lock);
    return may || (one.fd && poll(&one, 1, 0) == 1);        /* the byte stays, for all handlers */
}

static renderq_outcome wait_to_go(kit *k)
{
    while (!may_go(k))
        sleep_ms(2);
    return RENDERQ_TASK_DONE;
}

static renderq_outcome say_until_let_go(kit *k, renderq_task *task)
{
    while (!may_go(k)) {
        renderq_task_fail(task, "not yet", 0);
        sleep_ms(2);
    }
    return RENDERQ_TASK_DONE;
}

static size_t calls(kit *k)
{
    pthread_mutex_lock(&k->lock);
    size_t n = k->calls;
    pthread_mutex_unlock(&k->lock);
    return n;
}

/* The first of them to see all the others lets them go, too: they may look when it has left. */
static renderq_outcome meet(kit *k)
{
    pthread_mutex_lock(&k->lock);
    k->met = k->met || k->at_once == (size_t)k->options.threads;
    bool met = k->met;
    pthread_mutex_unlock(&k->lock);
    while (!met) {
        sleep_ms(2);
        pthread_mutex_lock(&k->lock);
        met = k->met;
        pthread_mutex_unlock(&k->lock);
    }
    return RENDERQ_TASK_DONE;
}

static renderq_outcome act(kit *k, renderq_task *task, const renderq_job *job)
{
    switch (job->composition_id[0]) {
    case 'd': return RENDERQ_TASK_DONE;
    case 'e': return renderq_task_done(task, job->payload_json);
    case 'f': return renderq_task_fail(task, job->payload_json, 0);
    case 'n': return renderq_task_fail(task, NULL, RENDERQ_NEVER);
    case 'r': return calls(k) == 1 ? renderq_task_retry(task, 100) : RENDERQ_TASK_DONE;
    case 's':
        assert_int_equal(renderq_task_progress(task, "half of it"), RENDERQ_OK);
        return wait_to_go(k);
    case 'l': sleep_ms(k->slow_ms); return renderq_task_done(task, "slowly");
    case 'w':
        while (renderq_task_should_stop(task) == RENDERQ_GO_ON)
            sleep_ms(2);
        return RENDERQ_TASK_RETRY;
    case 'h': return wait_to_go(k);
    case 'u': return say_until_let_go(k, task);
    case 'b': return meet(k);
    case 'x': kill(getpid(), SIGKILL); return RENDERQ_TASK_DONE;
    default: return (renderq_outcome)77;
    }
}

static renderq_outcome handle(void *arg, renderq_task *task, const renderq_job *job)
{
    kit *k = arg;
    note_begin(k);
    renderq_outcome outcome = act(k, task, job);
    note_end(k, renderq_task_should_stop(task));
    return outcome;
}

/* ---- what is heard ---- */

/* Callbacks come one at a time. */
static void enter(kit *k)
{
    if (__atomic_fetch_add(&k->in_callback, 1, __ATOMIC_SEQ_CST) != 0)
        __atomic_fetch_add(&k->overlaps, 1, __ATOMIC_SEQ_CST);
}

static void leave(kit *k)
{
    __atomic_fetch_sub(&k->in_callback, 1, __ATOMIC_SEQ_CST);
}

static void on_event(void *arg, const renderq_event *event)
{
    kit *k = arg;
    enter(k);
    pthread_mutex_lock(&k->lock);
    k->events[event->type]++;
    snprintf(k->last_text[event->type], TEXT_MAX_BYTES, "%s", event->text ? event->text : "(none)");
    if (event->type == RENDERQ_EVENT_FAILED)
        k->last_dead = event->dead;
    k->last_delay_ms = event->delay_ms;
    k->last_duration_ms = event->duration_ms;
    pthread_mutex_unlock(&k->lock);
    leave(k);
}

static void on_line(renderq_log_level level, const char *line, void *arg)
{
    kit *k = arg;
    enter(k);
    pthread_mutex_lock(&k->lock);
    if (level <= RENDERQ_LOG_INFO) {
        size_t len = strlen(k->lines);
        snprintf(k->lines + len, sizeof k->lines - len, "%s\n", line);
    }
    k->warnings += level <= RENDERQ_LOG_WARNING;
    k->infos += level == RENDERQ_LOG_INFO;
    pthread_mutex_unlock(&k->lock);
    leave(k);
}

/* ---- fixtures ---- */

int kit_begin(void **state)
{
    static unsigned number;
    kit *k = calloc(1, sizeof *k);
    if (!k || pthread_mutex_init(&k->lock, NULL) != 0)
        return -1;
    *state = k;
    snprintf(k->queue, sizeof k->queue, "worker_%ld_%u", (long)getpid(), ++number);
    snprintf(k->url, sizeof k->url, "%s%cqueue=%s", kit_url, strchr(kit_url, '?') ? '&' : '?', k->queue);
    k->h = make_queue(k->url);
    k->options = (renderq_worker_options)RENDERQ_INIT(renderq_worker_options);
    k->options.handler = handle;
    k->options.handler_arg = k->options.event_arg = k->options.log_arg = k;
    k->options.on_event = on_event;
    k->options.log = on_line;
    k->options.poll_min_ms = 10;
    k->options.poll_max_ms = 50;
    k->options.grace_s = k->options.linger_s = PATIENCE_MS / 1000;
    return 0;
}

int kit_end(void **state)
{
    kit *k = *state;
    if (k->runs) {
        let_go(k);
        renderq_worker_stop(k->w);
        renderq_worker_stop(k->w);
        pthread_join(k->thread, NULL);
    }
    renderq_worker_free(k->w);
    renderq_close(k->h);
    for (size_t i = 0; k->child_says[0] && i < 2; i++) {
        close(k->child_says[i]);
        close(k->child_hears[i]);
    }
    assert_int_equal(k->overlaps, 0);
    pthread_mutex_destroy(&k->lock);
    free(k);
    return 0;
}

renderq_id put_some(kit *k, const char *composition, size_t n)
{
    renderq_enqueued each[1000];
    renderq_new_job jobs[1000];
    renderq_id first = { "" };
    assert_true(n > 0);
    for (size_t done = 0; done < n;) {
        size_t batch = n - done < count_of(jobs) ? n - done : count_of(jobs);
        for (size_t i = 0; i < batch; i++) {
            jobs[i] = (renderq_new_job)RENDERQ_INIT(renderq_new_job);
            jobs[i].composition_id = composition;
            jobs[i].payload_json = "{\"n\":1}";
            each[i] = (renderq_enqueued)RENDERQ_INIT(renderq_enqueued);
        }
        assert_status(k->h, renderq_enqueue_many(k->h, jobs, batch, each), RENDERQ_OK);
        first = done ? first : each[0].id;
        done += batch;
    }
    return first;
}

renderq_id put_without_retries(kit *k, const char *composition)
{
    renderq_new_job new = RENDERQ_INIT(renderq_new_job);
    renderq_id id = { "" };
    new.composition_id = composition;
    new.payload_json = "{\"n\":1}";
    new.max_retries = RENDERQ_NO_RETRY;
    assert_status(k->h, renderq_enqueue(k->h, &new, &id), RENDERQ_OK);
    return id;
}

/* ---- the worker ---- */

/* A worker of short leases is short of patience, too: a server that is slow to let it in is asked again. */
void make(kit *k)
{
    int64_t until = now_ms() + PATIENCE_MS;
    renderq_status status = renderq_worker_new(k->url, &k->options, &k->w);
    while (status == RENDERQ_DISCONNECTED && now_ms() < until) {
        renderq_worker_free(k->w);
        status = renderq_worker_new(k->url, &k->options, &k->w);
    }
    expect(k, status, RENDERQ_OK);
}

static void *run_thread(void *arg)
{
    kit *k = arg;
    k->answer = renderq_worker_run(k->w);
    k->ended_ms = now_ms();
    __atomic_store_n(&k->ended, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

void start(kit *k)
{
    if (!k->w)
        make(k);
    k->ended = 0;
    assert_int_equal(pthread_create(&k->thread, NULL, run_thread, k), 0);
    k->runs = true;
}

void stop(kit *k)
{
    renderq_worker_stop(k->w);
}

renderq_status wait_end(kit *k)
{
    int64_t until = now_ms() + 3 * PATIENCE_MS;
    while (!__atomic_load_n(&k->ended, __ATOMIC_SEQ_CST) && now_ms() < until)
        sleep_ms(2);
    if (!__atomic_load_n(&k->ended, __ATOMIC_SEQ_CST))
        fail_msg("the worker does not end:\n%s", k->lines);
    assert_int_equal(pthread_join(k->thread, NULL), 0);
    k->runs = false;
    return k->answer;
}

renderq_status run_here(kit *k)
{
    if (!k->w)
        make(k);
    return renderq_worker_run(k->w);
}

size_t events(kit *k, renderq_event_type type)
{
    pthread_mutex_lock(&k->lock);
    size_t n = k->events[type];
    pthread_mutex_unlock(&k->lock);
    return n;
}

size_t handlers_now(kit *k)
{
    pthread_mutex_lock(&k->lock);
    size_t n = k->at_once;
    pthread_mutex_unlock(&k->lock);
    return n;
}

void wait_event(kit *k, renderq_event_type type, size_t n)
{
    int64_t until = now_ms() + PATIENCE_MS;
    while (events(k, type) < n && now_ms() < until)
        sleep_ms(2);
    if (events(k, type) < n)
        print_error("event %d came %zu times, not %zu\n", (int)type, events(k, type), n);
    assert_true(events(k, type) >= n);
}

void begins_in_child(kit *k)
{
    assert_int_equal(pipe(k->child_says), 0);
    assert_int_equal(pipe(k->child_hears), 0);
}

void wait_begun_in_child(kit *k, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char byte;
        struct pollfd one = { .fd = k->child_says[0], .events = POLLIN };
        assert_int_equal(poll(&one, 1, PATIENCE_MS), 1);
        assert_int_equal(read(one.fd, &byte, 1), 1);
    }
}

void let_go_in_child(kit *k)
{
    assert_int_equal(write(k->child_hears[1], "", 1), 1);
}

void let_go(kit *k)
{
    pthread_mutex_lock(&k->lock);
    k->let_go = 1;
    pthread_mutex_unlock(&k->lock);
}

/* ---- the queue ---- */

renderq_counts counts(kit *k)
{
    renderq_counts now = RENDERQ_INIT(renderq_counts);
    assert_status(k->h, renderq_stats(k->h, NULL, &now), RENDERQ_OK);
    return now;
}

renderq_job *look(kit *k, const renderq_id *id)
{
    renderq_job *job = NULL;
    assert_status(k->h, renderq_get(k->h, NULL, id, &job), RENDERQ_OK);
    return job;
}

void reap(kit *k)
{
    assert_status(k->h, renderq_reap(k->h, NULL, NULL), RENDERQ_OK);
}

void expect_run(kit *k, renderq_status got, renderq_status wanted, const char *file, int line)
{
    if (got == wanted)
        return;
    print_error("%s, not %s: %s\n%s", renderq_strstatus(got), renderq_strstatus(wanted), renderq_worker_errmsg(k->w),
                k->lines);
    _fail(file, line);
}

void expect_states(kit *k, int64_t queued, int64_t processing, int64_t completed, int64_t dead, int64_t scheduled,
                   const char *file, int line)
{
    renderq_counts now = counts(k);
    if (now.queued == queued && now.processing == processing && now.completed == completed && now.dead_letter == dead
        && now.scheduled == scheduled)
        return;
    print_error("queued %lld, processing %lld, completed %lld, dead %lld, scheduled %lld\n%s", (long long)now.queued,
                (long long)now.processing, (long long)now.completed, (long long)now.dead_letter,
                (long long)now.scheduled, k->lines);
    _fail(file, line);
}
