/* worker_poll.c: the poller's turns: when jobs are claimed, started, told of and given back, how long it sleeps between,
 * and when it has done all. And the handlers that take too long, which it looks after. */
#include "worker.h"

#include "clock.h"

/* ---- handlers that take too long ---- */

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
    int64_t linger_ms = (int64_t)w->options.linger_s * 1000, told_ms = rq_worker_tell_at(w);
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

/* ---- the end ---- */

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
    int64_t told_ms = rq_worker_tell_at(w), end_ms = 0;
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

/* ---- turns ---- */

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

void rq_worker_poll(renderq_worker *w)
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
