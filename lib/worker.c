/* worker.c: a worker made, stopped and freed. It runs in worker_run.c: jobs are claimed in worker_claim.c, told of in
 * worker_send.c, kept in worker_keep.c and worked on in worker_thread.c; worker_poll.c decides what of that is due. What
 * a handler may ask and say is in worker_task.c.
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

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    if (o->empty_ms > RENDERQ_DELAY_MAX_MS)
        o->empty_ms = RENDERQ_DELAY_MAX_MS;     /* as good as for ever, and no sum with it overflows */
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
    w->usual_queue = copy(w->connection.queue, &failed);
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
    w->connection.queue = w->usual_queue;
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

renderq_status rq_link_make(renderq_worker *w, rq_link *link)
{
    renderq_status status = rq_open_later(w->url, &w->connection, &link->h);
    if (status == RENDERQ_OK)
        return status;
    rq_worker_fault(w, status, "%s", renderq_errmsg(link->h));
    renderq_close(link->h);
    link->h = NULL;
    return status;
}

/* A database that is away just now is waited for, as later. */
void rq_link_connect(renderq_worker *w, rq_link *link)
{
    renderq_status status = rq_open_now(link->h);
    if (status == RENDERQ_OK || status == RENDERQ_INTERRUPTED || rq_status_passes(status))
        rq_link_note(w, link, status);
    else
        rq_worker_give_up(w, status, renderq_errmsg(link->h));
}

static renderq_status open_worker(renderq_worker *w)
{
    int number = rq_stop_open(&w->wake);
    if (number == 0)
        number = rq_stop_open(&w->wake_keeper);
    if (number != 0)
        return rq_worker_fault(w, RENDERQ_FAILED, "opening a pipe failed: %s", strerror(number));
    renderq_status status = rq_link_make(w, &w->poll);
    if (status != RENDERQ_OK)
        return status;
    status = rq_open_now(w->poll.h);
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
    w->tell_at_ms = w->give_up_at_ms = INT64_MAX;
    if (!make_locks(w))
        return rq_worker_fault(w, RENDERQ_NOMEM, "out of memory for a lock");
    renderq_status status = take_options(w, url, options);
    if (status == RENDERQ_OK)
        status = open_worker(w);
    w->ready_to_run = status == RENDERQ_OK;
    return status;
}

/* Those that no thread uses any more: one that was left in a handler has its handle until it ends. */
static void close_handles(renderq_worker *w)
{
    for (int i = 0; i < RENDERQ_THREADS_MAX; i++) {
        const rq_thread *t = &w->threads[i];
        rq_link *link = i == 0 ? &w->poll : &w->threads[i].link;    /* the first thread has the poller's */
        renderq *h = NULL;
        pthread_mutex_lock(&w->lock);
        if (!w->options.transactional || !t->left || t->ended) {
            h = link->h;
            link->h = NULL;
        }
        pthread_mutex_unlock(&w->lock);
        renderq_close(h);
    }
    renderq_close(w->keep.h);
    w->keep.h = NULL;
}

static void free_worker(renderq_worker *w)
{
    renderq_task *task;
    close_handles(w);
    while ((task = rq_task_pop(&w->spare)))
        free(task);
    pthread_mutex_destroy(&w->lock);
    pthread_mutex_destroy(&w->callbacks);
    pthread_cond_destroy(&w->work);
    rq_stop_close(&w->wake);
    rq_stop_close(&w->wake_keeper);
    free(w->url);
    free(w->queue);
    free(w->usual_queue);
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

/* A thread that was left in a handler calls nobody back from now on. (In a child there is none of them.) */
static void fall_silent(renderq_worker *w)
{
    if (w->pid != getpid())
        return;
    pthread_mutex_lock(&w->callbacks);
    w->mute = true;
    pthread_mutex_unlock(&w->callbacks);
}

void renderq_worker_free(renderq_worker *w)
{
    if (!w)
        return;
    fall_silent(w);
    close_handles(w);
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

bool rq_worker_stopped(const renderq_worker *w)
{
    return __atomic_load_n(&w->stops, __ATOMIC_SEQ_CST) > 0;
}

int64_t rq_worker_tell_at(const renderq_worker *w)
{
    int64_t asked_ms = __atomic_load_n(&w->tell_at_ms, __ATOMIC_SEQ_CST);
    int64_t give_up_ms = __atomic_load_n(&w->give_up_at_ms, __ATOMIC_SEQ_CST);
    return asked_ms < give_up_ms ? asked_ms : give_up_ms;
}

/* When handlers are told; the earliest moment that was ever named counts. */
static void tell_from(renderq_worker *w, int64_t at_ms)
{
    int64_t named = __atomic_load_n(&w->tell_at_ms, __ATOMIC_SEQ_CST);
    while (at_ms < named
           && !__atomic_compare_exchange_n(&w->tell_at_ms, &named, at_ms, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        continue;
}

/* When a grace that begins now is over. */
static int64_t grace_ends(const renderq_worker *w)
{
    int grace_s = w->options.grace_s;
    if (grace_s == RENDERQ_FOREVER)
        return INT64_MAX;
    return rq_clock_ms() + (grace_s == RENDERQ_AT_ONCE ? 0 : (int64_t)grace_s * 1000);
}

/* Only what a signal handler may do: atomic words, a byte into a pipe, the clock. */
void renderq_worker_stop(renderq_worker *w)
{
    if (!w || !w->ready_to_run || w->pid != getpid())
        return;
    int before = __atomic_fetch_add(&w->stops, 1, __ATOMIC_SEQ_CST);
    if (before == 0)
        tell_from(w, grace_ends(w));
    else
        tell_from(w, rq_clock_ms() - (before > 1 ? (int64_t)w->options.linger_s * 1000 : 0));
    if (!w->options.transactional)      /* there it could be a handler's */
        renderq_interrupt(w->poll.h);   /* a request that hangs */
    rq_stop_raise(&w->wake);
}

bool rq_worker_overdue(const renderq_worker *w)
{
    int64_t told_ms = rq_worker_tell_at(w);
    return told_ms < INT64_MAX && rq_clock_ms() >= told_ms + (int64_t)w->options.linger_s * 1000;
}

bool rq_worker_stopping(const renderq_worker *w)
{
    return rq_worker_stopped(w) || __atomic_load_n(&w->fatal, __ATOMIC_SEQ_CST) != RENDERQ_OK;
}

void rq_worker_give_up(renderq_worker *w, renderq_status why, const char *text)
{
    pthread_mutex_lock(&w->lock);
    bool first = w->fatal == RENDERQ_OK;
    if (first)
        __atomic_store_n(&w->fatal, rq_worker_fault(w, why, "%s", text), __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&w->lock);
    if (!first)
        return;
    rq_worker_log(w, RENDERQ_LOG_ERROR, "no more jobs are claimed: %s: %s", renderq_strstatus(why), text);
    __atomic_store_n(&w->give_up_at_ms, grace_ends(w), __ATOMIC_SEQ_CST);
    rq_stop_raise(&w->wake);
}
