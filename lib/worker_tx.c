/* worker_tx.c: the transactional worker. Each thread has a connection of its own and does all by itself: it receives a
 * job, which begins the transaction, lends the connection to the handler, and commits; or rolls back, and tells the
 * queue how it went. One thread at a time asks for jobs, so that an idle worker costs one read a poll here, too. No
 * lease is renewed: the open transaction keeps others from the job. */
#include <stdio.h>
#include <time.h>

#include "backoff.h"
#include "check.h"
#include "clock.h"
#include "lease.h"
#include "worker.h"

#define REAP_MS 10000

/* ---- waiting ---- */

/* Until there may be something to do. Under the lock. */
static void wait_for(renderq_worker *w, int64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&w->work, &w->lock, &until);
}

/* ---- getting a job ---- */

/* Under the lock. */
static void plan(renderq_worker *w, renderq_status status, int64_t asked_ms)
{
    const renderq_worker_options *o = &w->options;
    int64_t now_ms = rq_clock_ms();
    bool empty = status == RENDERQ_EMPTY;
    w->empty_reads = empty ? w->empty_reads + 1 : 0;
    w->claim_at_ms = empty ? now_ms + rq_spread_ms(o->poll_min_ms, w->empty_reads - 1, o->poll_max_ms, rq_jitter()) : 0;
    if (empty && !w->stale)
        w->empty_at_ms = asked_ms;
    if (asked_ms >= w->reap_idle_at_ms)
        w->reap_idle_at_ms = now_ms + REAP_MS + ((REAP_MS * (int64_t)rq_jitter()) >> 32);
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* When the next one may ask. Under the lock. */
static int64_t ask_at(const renderq_worker *w, const rq_thread *t)
{
    const renderq_worker_options *o = &w->options;
    int64_t at_ms = w->claim_at_ms, end_ms = w->idle_since_ms + o->empty_ms;
    if (o->stop_when_empty && w->n_in_hand == 0 && end_ms < at_ms)
        at_ms = end_ms;
    return later(at_ms, t->link.try_at_ms);
}

/* Enough, by its own options. Under the lock. */
static bool has_enough(const renderq_worker *w)
{
    const renderq_worker_options *o = &w->options;
    return (o->max_jobs > 0 && w->taken >= o->max_jobs)
           || (o->stop_when_empty && w->n_in_hand == 0 && w->empty_at_ms >= w->idle_since_ms + o->empty_ms);
}

static bool may_ask(const renderq_worker *w)
{
    return !w->asking && !w->over && !rq_worker_stopping(w) && !has_enough(w);
}

/* Waits for this thread's turn to ask. False: it is over. Under the lock. */
static bool wait_turn(renderq_worker *w, const rq_thread *t)
{
    while (!w->over) {
        int64_t left_ms = may_ask(w) ? ask_at(w, t) - rq_clock_ms() : 3600000;
        if (left_ms <= 0)
            return true;
        wait_for(w, left_ms < 3600000 ? left_ms : 3600000);
    }
    return false;
}

/* NULL: none just now. One that comes after a stop is not begun. Under the lock, which it leaves meanwhile. */
static renderq_task *receive(renderq_worker *w, rq_thread *t)
{
    renderq_claim_options options = { .size = sizeof options, .queue = w->queue, .worker = w->name,
                                      .lease_s = w->options.lease_s };
    renderq_job *job = NULL;
    renderq_task *task = NULL;
    int64_t asked_ms = rq_clock_ms();
    options.no_reap = asked_ms < w->reap_idle_at_ms;
    renderq_status status = rq_task_provide(w, 1) ? RENDERQ_OK : RENDERQ_NOMEM;
    w->asking = t;
    w->hushed = false;
    w->stale = false;
    w->taken++;
    pthread_mutex_unlock(&w->lock);
    if (status == RENDERQ_OK)
        status = renderq_receive(t->link.h, &options, &job);
    bool usable = status == RENDERQ_OK || status == RENDERQ_EMPTY || status == RENDERQ_INTERRUPTED
                  || rq_status_passes(status);
    if (usable)
        rq_link_note(w, &t->link, status);
    else
        rq_worker_give_up(w, status, renderq_errmsg(t->link.h));
    pthread_mutex_lock(&w->lock);
    w->asking = NULL;
    plan(w, status, asked_ms);
    if (status == RENDERQ_OK) {
        task = rq_task_take(w, job);
        __atomic_store_n(&task->lease_ends_ms, INT64_MAX, __ATOMIC_RELAXED);
        task->handle = t->link.h;
        task->unbegun = w->over || rq_worker_stopping(w);
    }
    if (!task || task->unbegun)
        w->taken--;
    pthread_cond_signal(&w->work);
    rq_stop_raise(&w->wake);
    return task;
}

/* ---- ending it ---- */

/* Until the queue is asked again, or the end is over. */
static void wait_to_tell(rq_thread *t)
{
    int64_t left_ms = t->link.try_at_ms - rq_clock_ms();
    rq_stop_begin(&t->link.h->stop, false);
    rq_stop_sleep(&t->link.h->stop, left_ms > 0 ? left_ms : 1);
}

static renderq_status tell_once(rq_thread *t, renderq_task *task)
{
    renderq *h = t->link.h;
    const rq_verdict *v = &task->verdict;
    if (v->word == RQ_SAY_FAIL)
        return rq_fail(h, task->job, v->text, v->delay_ms, task->maybe);
    return rq_release(h, task->job, v->delay_ms, task->maybe);
}

/* Rolled back, the job is still leased; the queue is told of it, as long as it may be, or until it is refused twice. */
static renderq_status roll_back(renderq_worker *w, rq_thread *t, renderq_task *task)
{
    renderq_rollback(t->link.h);
    for (;;) {
        renderq_status status = tell_once(t, task);
        if (rq_link_refused(&t->link, status))
            status = tell_once(t, task);
        if (rq_link_refused(&t->link, status)) {
            rq_worker_say_refused(w, task, &t->link, status);
            return status;
        }
        if (rq_link_note(w, &t->link, status))
            return status;
        task->maybe = task->maybe || status == RENDERQ_UNCERTAIN;
        if (renderq_lease_left_ms(task->job) == 0 || rq_worker_overdue(w))
            return status;
        wait_to_tell(t);
    }
}

/* Nobody else ends the transaction that the job was received in. */
static renderq_status commit(rq_thread *t, const renderq_task *task, const rq_lease *lease)
{
    renderq *h = t->link.h;
    renderq_status status = RENDERQ_OK;
    if (!rq_tx_received(h, &lease->id))
        return rq_fault(h, RENDERQ_INVALID, "its handler has ended the transaction, which is the worker's to end");
    if (task->verdict.text)
        status = renderq_complete(h, task->job, task->verdict.text);
    return status == RENDERQ_OK ? renderq_commit(h) : status;
}

/* The row tells whether it was committed, as soon as it can be asked; but nobody stops for a lease that is over. */
static renderq_status find_out(renderq_worker *w, rq_thread *t, const renderq_task *task, const rq_lease *lease)
{
    for (;;) {
        renderq_status status = rq_tx_find_out(t->link.h, task->job->queue, &lease->id, &lease->token);
        if (rq_link_note(w, &t->link, status == RENDERQ_ABORTED ? RENDERQ_OK : status))
            return status;
        bool over = rq_worker_stopping(w) && renderq_lease_left_ms(task->job) == 0;
        if (over || rq_worker_overdue(w))
            return status;
        wait_to_tell(t);
    }
}

/* A job whose transaction was not committed is failed, with the reason. */
static renderq_status end(renderq_worker *w, rq_thread *t, renderq_task *task, char *why, size_t size)
{
    renderq *h = t->link.h;
    rq_lease lease;
    if (task->verdict.word != RQ_SAY_COMPLETE)
        return roll_back(w, t, task);
    renderq_status status = rq_check_lease(h, NULL, task->job, &lease);
    if (status == RENDERQ_OK)
        status = commit(t, task, &lease);
    if (status == RENDERQ_OK)
        return status;
    snprintf(why, size, "it is done, but the transaction could not be committed: %s: %s", renderq_strstatus(status),
             renderq_errmsg(h));
    if (status != RENDERQ_UNCERTAIN)
        task->verdict.text = NULL;      /* nor was that stored */
    renderq_rollback(h);                /* what its handler may have begun in its place, too */
    status = find_out(w, t, task, &lease);
    if (status != RENDERQ_ABORTED)
        return status;
    task->verdict = (rq_verdict){ .word = RQ_SAY_FAIL, .event = RENDERQ_EVENT_FAILED, .text = why,
                                  .delay_ms = RENDERQ_BACKOFF };
    return roll_back(w, t, task);
}

static void settle(renderq_worker *w, rq_thread *t, renderq_task *task)
{
    char why[sizeof w->error.text + 200];
    if (task->ended_ms >= task->deadline_ms)
        rq_worker_say_late(w, task);
    task->verdict = rq_worker_judge(w, task);
    renderq_status status = end(w, t, task, why, sizeof why);
    if (status == RENDERQ_OK)
        rq_worker_event(w, task->verdict.event, task);
    else if (status == RENDERQ_LOST)
        rq_worker_lose(w, task);
    pthread_mutex_lock(&w->lock);
    if (status != RENDERQ_OK && status != RENDERQ_LOST) {
        w->n_untold++;
        w->untold = t->link.h->error;
    }
    rq_task_drop(task);
    w->stale = true;
    w->empty_at_ms = -1;
    if (w->n_in_hand == 0)
        w->idle_since_ms = rq_clock_ms();
    pthread_cond_signal(&w->work);
    rq_stop_raise(&w->wake);
}

/* It returned after all, when run() was not waiting any more: nobody hears what it says. */
static void undo(renderq_worker *w, rq_thread *t, renderq_task *task)
{
    renderq_rollback(t->link.h);
    rq_release(t->link.h, task->job, 0, false);
    pthread_mutex_lock(&w->lock);
    rq_task_drop(task);
    w->n_given_up--;
}

/* ---- a thread, and the one that waits for all of them ---- */

/* Under the lock, which it leaves meanwhile. */
static void work(renderq_worker *w, rq_thread *t, renderq_task *task)
{
    if (!task->unbegun) {
        t->in_handler = true;
        rq_worker_call(w, task);
        t->in_handler = false;
    }
    pthread_mutex_unlock(&w->lock);
    if (t->left)
        undo(w, t, task);
    else
        settle(w, t, task);
}

void *rq_worker_transact(void *thread)
{
    rq_thread *t = thread;
    renderq_worker *w = t->worker;
    rq_link_connect(w, &t->link);
    pthread_mutex_lock(&w->lock);
    t->connecting = false;
    while (wait_turn(w, t)) {
        renderq_task *task = receive(w, t);
        if (task)
            work(w, t, task);
    }
    t->ended = true;
    rq_stop_raise(&w->wake);
    rq_worker_unref(w);
    return NULL;
}

static bool is_done(const renderq_worker *w)
{
    return w->n_in_hand == 0 && !w->asking && (rq_worker_stopping(w) || has_enough(w));
}

/* Nobody asks for more. */
static void end_asking(renderq_worker *w)
{
    w->over = true;
    pthread_cond_broadcast(&w->work);
}

/* Who asks for a job that would not be begun is interrupted once, so that it can give back what it may have by then; who
 * connects, as often as need be; from when run() should have returned on, everybody is who is not in a handler. Under
 * the lock. */
static void interrupt_threads(renderq_worker *w)
{
    bool overdue = rq_worker_overdue(w);
    for (size_t i = 0; i < w->n_threads; i++) {
        rq_thread *t = &w->threads[i];
        bool asks = t == w->asking && !w->hushed;
        if (asks || t->connecting || (overdue && !t->in_handler && !t->left && !t->ended))
            renderq_interrupt(t->link.h);
        w->hushed = w->hushed || asks;
    }
}

void rq_worker_watch_transactions(renderq_worker *w)
{
    for (bool done = false; !done;) {
        rq_stop_begin(&w->wake, false);
        int64_t at_ms = rq_worker_watch(w);
        pthread_mutex_lock(&w->lock);
        done = is_done(w);
        if (done || rq_worker_stopping(w)) {
            end_asking(w);
            interrupt_threads(w);
        }
        pthread_mutex_unlock(&w->lock);
        done = done || rq_worker_overdue(w);
        int64_t left_ms = at_ms - rq_clock_ms();
        if (!done && left_ms > 0)
            rq_stop_sleep(&w->wake, left_ms < 1000 ? left_ms : 1000);
    }
}

#define INTERRUPT_MS 250            /* how often; in between there is time for a look at what became of a request */

void rq_worker_await_threads(renderq_worker *w)
{
    for (bool all = false; !all;) {
        rq_stop_begin(&w->wake, false);
        pthread_mutex_lock(&w->lock);
        interrupt_threads(w);
        all = true;
        for (size_t i = 0; i < w->n_threads; i++)
            all = all && (w->threads[i].ended || w->threads[i].left);
        pthread_mutex_unlock(&w->lock);
        if (!all)
            rq_stop_sleep(&w->wake, INTERRUPT_MS);
    }
}
