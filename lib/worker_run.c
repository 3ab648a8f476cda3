/* worker_run.c: renderq_worker_run(): its threads, begun and ended, and what it answers. */
#include <signal.h>
#include <string.h>

#include "clock.h"
#include "worker.h"

/* ---- threads ---- */

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
        t->in_handler = t->left = t->ended = false;
        t->connecting = w->options.transactional;
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
    w->n_left = 0;
    for (size_t i = 0; i < w->n_threads; i++)
        w->n_left += w->threads[i].left = w->threads[i].in_handler;
    if (w->options.transactional)
        w->n_given_up += w->n_left;
    pthread_mutex_unlock(&w->lock);
    if (w->options.transactional)
        rq_worker_await_threads(w);
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

/* ---- run ---- */

/* The end of a run leaves the poller's handle with less of it. */
static void restore_patience(renderq_worker *w)
{
    const renderq_options *c = &w->connection;
    renderq *h = w->poll.h;
    h->retry_s = c->retry_s > 0 ? c->retry_s : 0;
    h->session.command_s = c->command_s;
    h->session.connect_s = c->connect_s;
}

static void begin(renderq_worker *w)
{
    int64_t now_ms = rq_clock_ms();
    restore_patience(w);
    __atomic_store_n(&w->give_up_at_ms, INT64_MAX, __ATOMIC_SEQ_CST);
    w->over = w->keeper_gone = false;
    w->fatal = RENDERQ_OK;
    w->error.text[0] = 0;
    w->taken = 0;
    w->n_untold = 0;
    w->untold.text[0] = 0;
    w->asking = NULL;
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

/* What run() can truthfully say. A thread that was left in a handler has its handle. */
static renderq_status conclude(renderq_worker *w)
{
    size_t unsent = forget_unsent(w);
    bool transactional = w->options.transactional;
    bool refused = unsent == 0 && w->n_untold > 0;
    const char *why = transactional || refused ? w->untold.text : renderq_errmsg(w->poll.h);
    unsent += w->n_untold;
    if (unsent > 0)
        rq_worker_log(w, RENDERQ_LOG_ERROR, "what came of %zu jobs could not be told: %s", unsent, why);
    if (w->n_left > 0)
        return rq_worker_fault(w, RENDERQ_BUSY, "%zu handlers did not return in time: their jobs %s, and their threads "
                               "end with the program", w->n_left,
                               transactional ? "go back when they do" : "were given back");
    if (w->fatal == RENDERQ_OK && unsent > 0)
        return rq_worker_fault(w, RENDERQ_DISCONNECTED, "what came of %zu jobs could not be told, so they come round "
                               "again: %s", unsent, why);
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
    renderq_status status = w->keep.h ? RENDERQ_OK : rq_link_make(w, &w->keep);
    if (status == RENDERQ_OK)
        status = start_thread(w, &keeper, rq_worker_keep, w, true);
    if (status != RENDERQ_OK)
        return status;
    status = start_handlers(w);
    if (status == RENDERQ_OK)
        rq_worker_poll(w);
    end_handlers(w);
    end_keeper(w, keeper);
    return status;
}

/* A connection a thread; the first one has the worker's. */
static renderq_status make_links(renderq_worker *w)
{
    renderq_status status = RENDERQ_OK;
    w->threads[0].link.h = w->poll.h;
    for (int i = 0; i < w->options.threads && status == RENDERQ_OK; i++) {
        rq_link *link = &w->threads[i].link;
        link->name = "transactions";
        if (!link->h)
            status = rq_link_make(w, link);
    }
    return status;
}

static renderq_status run_transactions(renderq_worker *w)
{
    renderq_status status = make_links(w);
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
    if (status != RENDERQ_OK || rq_worker_stopped(w))
        return status;
    begin(w);
    status = w->options.transactional ? run_transactions(w) : run_leased(w);
    return status == RENDERQ_OK ? conclude(w) : status;
}
