/* worker.c: a worker made, run, stopped and freed. Jobs are claimed in worker_claim.c, told of in worker_send.c, kept
 * in worker_keep.c and worked on in worker_thread.c; what a handler may ask and say is in worker_task.c.
 *
 * Threads and connections. The thread that calls renderq_worker_run() is the poller: it alone uses the first
 * connection, by which jobs are claimed, started, told of and given back, many at a time. The keeper's thread alone
 * uses the second one, for renewals. Handlers have a thread each and no connection. They meet in the worker's lists,
 * under one lock, which nobody holds during a call to the database, a handler or a callback; callbacks have a lock of
 * their own, so that there is one at a time. Before a callback that lock is not held either: a handler's own calls may
 * take both. A transactional worker is another thing, in worker_tx.c.
 *
 * A job is a task while it is in hand: claimed by the poller, perhaps ahead of its turn; ready; running; finished; and
 * gone once the queue has heard of it, or would not. The keeper may have it too, so it is counted who does.
 *
 * The poller sleeps on a pipe, as a stop may come from a signal handler; threads without work on a condition.
 *
 * A handler that does not return in time cannot be ended. Its job is given up: told of as if it had returned. What its
 * thread still uses, the worker among it, is freed by that thread when it ends, which is mostly never. */
#include "worker.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "clock.h"

#define LEASE_S     120
#define POLL_MIN_MS 100
#define POLL_MAX_MS 2000
#define GRACE_S     5
#define LINGER_S    5
#define LONGEST_S   86400           /* of periods that make sense for days at most */
#define CONNECT_S   10
#define COMMAND_S   30
#define RETRY_S     5               /* the runtime tries again by itself, and keeps what it has to say meanwhile */

/* ---- options ---- */

static renderq_status take_number(renderq_worker *w, const char *name, int *number, int otherwise, int min, int max)
{
    int given = *number;
    *number = given ? given : otherwise;
    if (*number >= min && *number <= max)
        return RENDERQ_OK;
    return rq_worker_fault(w, RENDERQ_INVALID, "%s is %d: it is %d to %d, or 0 for %d", name, given, min, max,
                           otherwise);
}

static renderq_status check_options(renderq_worker *w)
{
    renderq_worker_options *o = &w->options;
    if (!o->handler)
        return rq_worker_fault(w, RENDERQ_INVALID, "the handler is NULL: it is required");
    renderq_status status = take_number(w, "threads", &o->threads, 1, 1, RENDERQ_THREADS_MAX);
    if (status == RENDERQ_OK)
        status = take_number(w, "lease_s", &o->lease_s, LEASE_S, 1, RENDERQ_LEASE_MAX_S);
    if (status == RENDERQ_OK)
        status = take_number(w, "poll_min_ms", &o->poll_min_ms, POLL_MIN_MS, 1, 3600000);
    if (status == RENDERQ_OK)
        status = take_number(w, "poll_max_ms", &o->poll_max_ms,
                             o->poll_min_ms > POLL_MAX_MS ? o->poll_min_ms : POLL_MAX_MS, o->poll_min_ms, 3600000);
    if (status == RENDERQ_OK)
        status = take_number(w, "prefetch", &o->prefetch, 0, 0, RENDERQ_MANY_MAX);
    if (status == RENDERQ_OK)
        status = take_number(w, "job_timeout_s", &o->job_timeout_s, 0, 0, RENDERQ_LEASE_MAX_S);
    if (status == RENDERQ_OK && o->grace_s != RENDERQ_FOREVER && o->grace_s != RENDERQ_AT_ONCE)
        status = take_number(w, "grace_s", &o->grace_s, GRACE_S, 1, LONGEST_S);
    if (status == RENDERQ_OK)
        status = take_number(w, "linger_s", &o->linger_s, LINGER_S, 1, LONGEST_S);
    if (status == RENDERQ_OK && o->transactional && o->prefetch > 0)
        status = rq_worker_fault(w, RENDERQ_INVALID, "prefetch is %d: a transactional worker claims nothing ahead",
                                 o->prefetch);
    if (status == RENDERQ_OK && (o->max_jobs < 0 || o->empty_ms < 0))
        status = rq_worker_fault(w, RENDERQ_INVALID, "max_jobs is %lld and empty_ms is %lld: they cannot be negative",
                                 (long long)o->max_jobs, (long long)o->empty_ms);
    return status;
}

static char *copy(const char *text, bool *failed)
{
    char *made = text ? strdup(text) : NULL;
    *failed = *failed || (text && !made);
    return made;
}

static void forward(renderq_log_level level, const char *line, void *arg)
{
    renderq_worker *w = arg;
    (void)level;
    rq_worker_log(w, RENDERQ_LOG_DEBUG, "%s", line);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* A request that hangs must not take so long that leases run out meanwhile. */
static void set_patience(renderq_worker *w)
{
    renderq_options *c = &w->connection;
    int patience_s = w->options.lease_s / 4 > 1 ? w->options.lease_s / 4 : 1;
    c->connect_s = least(c->connect_s > 0 ? c->connect_s : CONNECT_S, patience_s);
    c->command_s = least(c->command_s > 0 ? c->command_s : COMMAND_S, patience_s);
    if (c->retry_s >= 0)
        c->retry_s = least(c->retry_s > 0 ? c->retry_s : RETRY_S, patience_s);
}

static renderq_status copy_options(renderq_worker *w, const char *url)
{
    bool failed = false;
    w->url = copy(url, &failed);
    w->queue = copy(w->options.queue, &failed);
    w->name = copy(w->options.name ? w->options.name : w->connection.worker, &failed);
    w->password = copy(w->connection.password, &failed);
    if (failed)
        return rq_worker_fault(w, RENDERQ_NOMEM, "out of memory");
    if (!w->options.log) {
        w->options.log = w->connection.log;
        w->options.log_arg = w->connection.log_arg;
    }
    w->options.queue = w->queue;
    w->options.name = w->connection.worker = w->name;
    w->options.connection = NULL;
    w->connection.password = w->password;
    w->connection.log = forward;
    w->connection.log_arg = w;
    set_patience(w);
    snprintf(w->too_long, sizeof w->too_long, "it took longer than %d s", w->options.job_timeout_s);
    return RENDERQ_OK;
}

static renderq_status take_options(renderq_worker *w, const char *url, const renderq_worker_options *given)
{
    renderq_status status = rq_take_options(&w->error, "renderq_worker_options", given, &w->options,
                                            sizeof w->options);
    if (status == RENDERQ_OK)
        status = rq_take_options(&w->error, "renderq_options", w->options.connection, &w->connection,
                                 sizeof w->connection);
    if (status == RENDERQ_OK)
        status = check_options(w);
    if (status == RENDERQ_OK)
        status = copy_options(w, url);
    return status;
}

/* ---- new and free ---- */

static renderq_status connect_link(renderq_worker *w, rq_link *link)
{
    renderq_status status = renderq_open(w->url, &w->connection, &link->h);
    return status == RENDERQ_OK ? status : rq_worker_fault(w, status, "%s", renderq_errmsg(link->h));
}

static renderq_status open_worker(renderq_worker *w)
{
    int number = rq_stop_open(&w->wake);
    if (number == 0)
        number = rq_stop_open(&w->wake_keeper);
    if (number != 0)
        return rq_worker_fault(w, RENDERQ_FAILED, "opening a pipe failed: %s", strerror(number));
    renderq_status status = connect_link(w, &w->poll);
    if (status == RENDERQ_OK)
        status = rq_which_queue(w->poll.h, w->queue, &w->room, &w->where);
    return status == RENDERQ_OK ? status : rq_worker_fault(w, status, "%s", renderq_errmsg(w->poll.h));
}

static bool make_locks(renderq_worker *w)
{
    pthread_condattr_t forward;
    bool made = pthread_mutex_init(&w->lock, NULL) == 0 && pthread_mutex_init(&w->callbacks, NULL) == 0
                && pthread_condattr_init(&forward) == 0;
    if (!made)
        return false;
    made = pthread_condattr_setclock(&forward, CLOCK_MONOTONIC) == 0 && pthread_cond_init(&w->work, &forward) == 0;
    pthread_condattr_destroy(&forward);
    return made;
}

renderq_status renderq_worker_new(const char *url, const renderq_worker_options *options, renderq_worker **out)
{
    if (!out)
        return RENDERQ_INVALID;
    renderq_worker *w = *out = calloc(1, sizeof *w);
    if (!w)
        return RENDERQ_NOMEM;
    w->refs = 1;
    w->pid = getpid();
    w->poll.name = "jobs";
    w->keep.name = "leases";
    w->wake.pipe[0] = w->wake.pipe[1] = w->wake_keeper.pipe[0] = w->wake_keeper.pipe[1] = -1;
    w->average_us = -1;
    w->tell_at_ms = INT64_MAX;
    if (!make_locks(w))
        return rq_worker_fault(w, RENDERQ_NOMEM, "out of memory for a lock");
    renderq_status status = take_options(w, url, options);
    if (status == RENDERQ_OK)
        status = open_worker(w);
    w->ready_to_run = status == RENDERQ_OK;
    return status;
}

static void free_worker(renderq_worker *w)
{
    renderq_task *task;
    while ((task = rq_task_pop(&w->spare)))
        free(task);
    pthread_mutex_destroy(&w->lock);
    pthread_mutex_destroy(&w->callbacks);
    pthread_cond_destroy(&w->work);
    rq_stop_close(&w->wake);
    rq_stop_close(&w->wake_keeper);
    free(w->url);
    free(w->queue);
    free(w->name);
    free(w);
}

void rq_worker_unref(renderq_worker *w)
{
    int left = --w->refs;
    pthread_mutex_unlock(&w->lock);
    if (left == 0)
        free_worker(w);
}

void renderq_worker_free(renderq_worker *w)
{
    if (!w)
        return;
    for (int i = 1; i < RENDERQ_THREADS_MAX; i++)
        if (!w->threads[i].left)
            renderq_close(w->threads[i].link.h);
    if (!w->options.transactional || !w->threads[0].left)
        renderq_close(w->poll.h);       /* the first thread's, too */
    renderq_close(w->keep.h);
    w->poll.h = w->keep.h = NULL;
    if (w->password)
        explicit_bzero(w->password, strlen(w->password));
    free(w->password);
    w->password = NULL;
    if (w->url)
        explicit_bzero(w->url, strlen(w->url));
    pthread_mutex_lock(&w->lock);
    rq_worker_unref(w);
}

const char *renderq_worker_errmsg(const renderq_worker *w)
{
    return w ? w->error.text : "out of memory";
}

/* ---- stop ---- */

static int stops(const renderq_worker *w)
{
    return __atomic_load_n(&w->stops, __ATOMIC_SEQ_CST);
}

static int64_t tell_at(const renderq_worker *w)
{
    return __atomic_load_n(&w->tell_at_ms, __ATOMIC_SEQ_CST);
}

/* When handlers are told; the earliest moment that was ever named counts. */
static void tell_from(renderq_worker *w, int64_t at_ms)
{
    int64_t named = tell_at(w);
    while (at_ms < named
           && !__atomic_compare_exchange_n(&w->tell_at_ms, &named, at_ms, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        continue;
}

static void begin_end(renderq_worker *w)
{
    int grace_s = w->options.grace_s;
    if (grace_s != RENDERQ_FOREVER)
        tell_from(w, rq_clock_ms() + (grace_s == RENDERQ_AT_ONCE ? 0 : (int64_t)grace_s * 1000));
}

/* Only what a signal handler may do: atomic words, a byte into a pipe, the clock. */
void renderq_worker_stop(renderq_worker *w)
{
    if (!w || !w->ready_to_run || w->pid != getpid())
        return;
    int before = __atomic_fetch_add(&w->stops, 1, __ATOMIC_SEQ_CST);
    if (before == 0)
        begin_end(w);
    else
        tell_from(w, rq_clock_ms() - (before > 1 ? (int64_t)w->options.linger_s * 1000 : 0));
    if (!w->options.transactional)      /* there it could be a handler's */
        renderq_interrupt(w->poll.h);   /* a request that hangs */
    rq_stop_raise(&w->wake);
}

bool rq_worker_overdue(const renderq_worker *w)
{
    int64_t told_ms = tell_at(w);
    return told_ms < INT64_MAX && rq_clock_ms() >= told_ms + (int64_t)w->options.linger_s * 1000;
}

bool rq_worker_stopping(const renderq_worker *w)
{
    return stops(w) > 0 || w->fatal != RENDERQ_OK;
}

void rq_worker_give_up(renderq_worker *w, renderq_status why, const char *text)
{
    pthread_mutex_lock(&w->lock);
    bool first = w->fatal == RENDERQ_OK;
    if (first)
        w->fatal = rq_worker_fault(w, why, "%s", text);
    pthread_mutex_unlock(&w->lock);
    if (!first)
        return;
    rq_worker_log(w, RENDERQ_LOG_ERROR, "no more jobs are claimed: %s: %s", renderq_strstatus(why), text);
    begin_end(w);
}

/* ---- run: threads ---- */

static renderq_status start_thread(renderq_worker *w, pthread_t *thread, void *(*run)(void *), void *arg, bool deaf)
{
    pthread_attr_t attributes;
    sigset_t all;
    int number = pthread_attr_init(&attributes);
    if (number == 0) {
        sigfillset(&all);
        if (deaf)                       /* the program's signals are for the program's threads */
            number = pthread_attr_setsigmask_np(&attributes, &all);
        if (number == 0)
            number = pthread_create(thread, &attributes, run, arg);
        pthread_attr_destroy(&attributes);
    }
    return number == 0 ? RENDERQ_OK
                       : rq_worker_fault(w, RENDERQ_FAILED, "no thread can be started: %s", strerror(number));
}

static renderq_status start_handlers(renderq_worker *w)
{
    renderq_status status = RENDERQ_OK;
    for (int i = 0; i < w->options.threads && status == RENDERQ_OK; i++) {
        rq_thread *t = &w->threads[i];
        t->worker = w;
        t->in_handler = t->left = false;
        pthread_mutex_lock(&w->lock);
        w->refs++;
        pthread_mutex_unlock(&w->lock);
        status = start_thread(w, &t->id, w->options.transactional ? rq_worker_transact : rq_worker_handle, t, false);
        if (status == RENDERQ_OK) {
            w->n_threads++;
            continue;
        }
        pthread_mutex_lock(&w->lock);
        w->refs--;
        pthread_mutex_unlock(&w->lock);
    }
    return status;
}

static bool has_ended(renderq_worker *w, const bool *ended)
{
    pthread_mutex_lock(&w->lock);
    bool is = *ended;
    pthread_mutex_unlock(&w->lock);
    return is;
}

/* No thread is in a handler any more, but for those that were given up: they end when they do. */
static void end_handlers(renderq_worker *w)
{
    pthread_mutex_lock(&w->lock);
    w->over = true;
    pthread_cond_broadcast(&w->work);
    for (size_t i = 0; i < w->n_threads; i++)
        if ((w->threads[i].left = w->threads[i].in_handler) && w->options.transactional)
            w->n_given_up++;
    pthread_mutex_unlock(&w->lock);
    for (size_t i = 0; i < w->n_threads; i++) {
        if (w->threads[i].left)
            pthread_detach(w->threads[i].id);
        else
            pthread_join(w->threads[i].id, NULL);
    }
    w->n_threads = 0;
}

static void end_keeper(renderq_worker *w, pthread_t keeper)
{
    while (!has_ended(w, &w->keeper_gone)) {
        renderq_interrupt(w->keep.h);   /* again: a request that begins just now does not hear it */
        rq_stop_raise(&w->wake_keeper);
        rq_stop_begin(&w->wake, false);
        rq_stop_sleep(&w->wake, 20);
    }
    pthread_join(keeper, NULL);
}

/* ---- run: the poller ---- */

/* A handler that was told to stop and has not, linger_s later. Under the lock. */
static void give_up_task(renderq_worker *w, renderq_task *task, bool late)
{
    task->given_up = true;
    task->late = late;
    task->ended_ms = rq_clock_ms();
    task->state = RQ_TASK_FINISHED;
    rq_task_push(&w->finished, task);
    w->n_given_up++;
}

/* A task of which something is to be said, with one more reference; NULL: none. Sets when the next thing is due. */
static renderq_task *find_late(renderq_worker *w, int64_t now_ms, int64_t *due_ms)
{
    int64_t linger_ms = (int64_t)w->options.linger_s * 1000, told_ms = tell_at(w);
    int64_t stop_ms = told_ms < INT64_MAX - linger_ms ? told_ms + linger_ms : INT64_MAX;
    for (renderq_task *task = w->in_hand; task; task = task->after) {
        if (task->state != RQ_TASK_RUNNING)
            continue;
        int64_t late_ms = task->deadline_ms < INT64_MAX ? task->deadline_ms + linger_ms : INT64_MAX;
        int64_t end_ms = late_ms < stop_ms ? late_ms : stop_ms;
        if (now_ms >= task->deadline_ms && !task->told) {
            task->refs++;
            return task;
        }
        if (w->options.transactional)
            end_ms = task->told ? INT64_MAX : task->deadline_ms;    /* its thread alone can end the transaction */
        else if (now_ms >= end_ms)
            give_up_task(w, task, late_ms <= stop_ms);
        else if (!task->told && task->deadline_ms < end_ms)
            end_ms = task->deadline_ms;
        *due_ms = end_ms < *due_ms ? end_ms : *due_ms;
    }
    return NULL;
}

/* Looks after handlers that take too long. Returns when to look again. */
int64_t rq_worker_watch(renderq_worker *w)
{
    int64_t due_ms = INT64_MAX;
    renderq_task *task;
    pthread_mutex_lock(&w->lock);
    while ((task = find_late(w, rq_clock_ms(), &due_ms))) {
        pthread_mutex_unlock(&w->lock);
        rq_worker_say_late(w, task);
        pthread_mutex_lock(&w->lock);
        rq_task_release(task);
        due_ms = INT64_MAX;
    }
    pthread_mutex_unlock(&w->lock);
    return due_ms;
}

static size_t count_in_hand(renderq_worker *w)
{
    pthread_mutex_lock(&w->lock);
    size_t n = w->n_in_hand;
    pthread_mutex_unlock(&w->lock);
    return n;
}

/* When a worker that is to stop ends, whatever is left. Where handlers may take for ever, the database is waited for as
 * long as the leases of those that have returned last. */
static int64_t end_at(renderq_worker *w)
{
    int64_t told_ms = tell_at(w), end_ms = 0;
    bool running = false;
    pthread_mutex_lock(&w->lock);
    for (const renderq_task *task = w->in_hand; task; task = task->after) {
        int64_t lease_ms = __atomic_load_n(&task->lease_ends_ms, __ATOMIC_RELAXED);
        running = running || task->state == RQ_TASK_RUNNING;
        end_ms = lease_ms > end_ms ? lease_ms : end_ms;
    }
    pthread_mutex_unlock(&w->lock);
    if (told_ms < INT64_MAX)
        return told_ms + (int64_t)w->options.linger_s * 1000;
    return running ? INT64_MAX : end_ms;
}

/* Whether there is nothing left to do. */
static bool is_done(renderq_worker *w)
{
    const renderq_worker_options *o = &w->options;
    bool idle = count_in_hand(w) == 0;
    if (!idle) {
        w->idle_since_ms = -1;
    } else if (w->idle_since_ms < 0) {
        w->idle_since_ms = rq_clock_ms();
        w->empty_at_ms = -1;            /* an empty read before that, in the same millisecond, does not count */
    }
    return idle
           && (rq_worker_stopping(w) || (o->max_jobs > 0 && w->taken >= o->max_jobs)
               || (o->stop_when_empty && w->empty_at_ms >= w->idle_since_ms + o->empty_ms));
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#define SLEEP_MAX_MS  INT64_C(3600000)
#define BURST_LOOK_MS 2             /* in a burst, handlers do not wake the poller for each job */

/* Sleeps until something is due or happens. */
static void sleep_until(renderq_worker *w, int64_t at_ms)
{
    int64_t now_ms = rq_clock_ms(), ms = at_ms - now_ms < SLEEP_MAX_MS ? at_ms - now_ms : SLEEP_MAX_MS;
    if (ms <= 0)
        return;
    pthread_mutex_lock(&w->lock);
    bool idle = w->finished.n == 0 || (w->bursting && w->ready.n > 0);
    if (w->bursting && w->n_in_hand > 0 && ms > BURST_LOOK_MS)
        ms = BURST_LOOK_MS;
    w->poller_asleep = idle;
    pthread_mutex_unlock(&w->lock);
    if (!idle)
        return;
    rq_stop_sleep(&w->wake, ms);
    pthread_mutex_lock(&w->lock);
    w->poller_asleep = false;
    pthread_mutex_unlock(&w->lock);
}

/* From a stop on no call may take longer than there is time: the handle is the poller's own. */
static void hurry(renderq_worker *w, int64_t end_ms)
{
    int64_t left_s = (end_ms - rq_clock_ms()) / 1000;
    renderq *h = w->poll.h;
    if (left_s < h->retry_s)
        h->retry_s = left_s > 0 ? (int)left_s : 0;
    if (left_s < h->session.command_s)
        h->session.command_s = left_s > 1 ? (int)left_s : 1;
    if (left_s < h->session.connect_s)
        h->session.connect_s = left_s > 1 ? (int)left_s : 1;
}

static void poll_queue(renderq_worker *w)
{
    for (;;) {
        rq_stop_begin(&w->wake, false);
        bool stopping = rq_worker_stopping(w);
        int64_t end_ms = stopping ? end_at(w) : INT64_MAX;
        bool last = rq_clock_ms() >= end_ms;
        if (stopping)
            hurry(w, end_ms);
        rq_worker_give_back(w, stopping);
        int64_t at_ms = rq_worker_watch(w);
        if (!stopping)
            rq_worker_feed(w);
        if (last)
            w->poll.try_at_ms = 0;
        rq_worker_send(w);
        if (last || is_done(w))
            return;
        if (w->unsent.n > 0)
            at_ms = earlier(at_ms, w->poll.try_at_ms);
        if (!stopping)
            at_ms = rq_worker_stopping(w) ? 0 : earlier(at_ms, rq_worker_feed_at(w));
        else
            at_ms = earlier(at_ms, end_at(w));
        sleep_until(w, at_ms);
    }
}

/* ---- run ---- */

static void begin(renderq_worker *w)
{
    int64_t now_ms = rq_clock_ms();
    w->over = w->keeper_gone = false;
    w->fatal = RENDERQ_OK;
    w->error.text[0] = 0;
    w->taken = 0;
    w->n_untold = 0;
    w->polling = false;
    w->empty_reads = 0;
    w->claim_at_ms = w->reap_idle_at_ms = 0;
    w->reap_busy_at_ms = now_ms + RQ_REAP_BUSY_MS;
    w->idle_since_ms = now_ms;
    w->empty_at_ms = -1;
}

static size_t forget_unsent(renderq_worker *w)
{
    size_t n = w->unsent.n;
    renderq_task *task;
    pthread_mutex_lock(&w->lock);
    while ((task = rq_task_pop(&w->unsent)))
        rq_task_drop(task);
    pthread_mutex_unlock(&w->lock);
    return n;
}

/* What run() can truthfully say. */
static renderq_status conclude(renderq_worker *w)
{
    size_t unsent = forget_unsent(w);
    pthread_mutex_lock(&w->lock);
    size_t given_up = w->n_given_up;
    unsent += w->n_untold;
    pthread_mutex_unlock(&w->lock);
    if (unsent > 0)
        rq_worker_log(w, RENDERQ_LOG_ERROR, "what came of %zu jobs could not be told: %s", unsent,
                      renderq_errmsg(w->poll.h));
    if (given_up > 0)
        return rq_worker_fault(w, RENDERQ_BUSY,
                               "%zu handlers did not return in time: their jobs were given back, and their threads "
                               "end with the program", given_up);
    if (w->fatal == RENDERQ_OK && unsent > 0)
        return rq_worker_fault(w, RENDERQ_DISCONNECTED, "what came of %zu jobs could not be told, so they come round "
                               "again: %s", unsent, renderq_errmsg(w->poll.h));
    return w->fatal;
}

static renderq_status check_run(renderq_worker *w)
{
    if (!w->ready_to_run)
        return rq_worker_fault(w, RENDERQ_INVALID, "this worker was never made: renderq_worker_new() failed");
    pthread_mutex_lock(&w->lock);
    size_t given_up = w->n_given_up;
    pthread_mutex_unlock(&w->lock);
    if (given_up > 0)
        return rq_worker_fault(w, RENDERQ_INVALID, "a handler of the run before has not returned");
    renderq_status status = rq_enter(w->poll.h, RQ_JOINS);
    return status == RENDERQ_OK ? status : rq_worker_fault(w, status, "%s", renderq_errmsg(w->poll.h));
}

/* With the keeper, and the poller in this thread. */
static renderq_status run_leased(renderq_worker *w)
{
    pthread_t keeper;
    renderq_status status = w->keep.h ? RENDERQ_OK : connect_link(w, &w->keep);
    if (status == RENDERQ_OK)
        status = start_thread(w, &keeper, rq_worker_keep, w, true);
    if (status != RENDERQ_OK) {
        renderq_close(w->keep.h);
        w->keep.h = NULL;
        return status;
    }
    status = start_handlers(w);
    if (status == RENDERQ_OK)
        poll_queue(w);
    end_handlers(w);
    end_keeper(w, keeper);
    return status;
}

/* A connection a thread; the first one has the worker's. */
static renderq_status connect_threads(renderq_worker *w)
{
    renderq_status status = RENDERQ_OK;
    w->threads[0].link.h = w->poll.h;
    for (int i = 0; i < w->options.threads && status == RENDERQ_OK; i++) {
        rq_link *link = &w->threads[i].link;
        link->name = "transactions";
        if (!link->h)
            status = connect_link(w, link);
    }
    return status;
}

static renderq_status run_transactions(renderq_worker *w)
{
    renderq_status status = connect_threads(w);
    if (status == RENDERQ_OK)
        status = start_handlers(w);
    if (status == RENDERQ_OK)
        rq_worker_watch_transactions(w);
    end_handlers(w);
    return status;
}

renderq_status renderq_worker_run(renderq_worker *w)
{
    if (!w)
        return RENDERQ_INVALID;
    renderq_status status = check_run(w);
    if (status != RENDERQ_OK || stops(w) > 0)
        return status;
    begin(w);
    status = w->options.transactional ? run_transactions(w) : run_leased(w);
    return status == RENDERQ_OK ? conclude(w) : status;
}
