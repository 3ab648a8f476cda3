/* worker_claim.c: the poller's way of getting jobs: how many, when, and started or ahead of their turn. */
#include <string.h>

#include "backoff.h"
#include "clock.h"
#include "reap.h"
#include "worker.h"

#define REAP_IDLE_MS 10000          /* how often an idle one does, at most; both are spread to twice as long */
#define REAP_BATCH   100
#define BURST_MS     10              /* how long before its turn a job may be started, that this does not hurt */
#define AHEAD_SHARE  6              /* jobs claimed ahead should have their turn within this part of the lease */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Under the lock. */
static int64_t free_threads(const renderq_worker *w)
{
    return w->options.threads - (int64_t)w->n_running - (int64_t)w->ready.n;
}

/* A thread that is free, or becomes it, wakes the next one while there is work for it. Under the lock. */
static void make_ready(renderq_worker *w, renderq_task *task)
{
    task->state = RQ_TASK_READY;
    rq_task_push(&w->ready, task);
    if (w->ready.n == 1)
        pthread_cond_signal(&w->work);
}

/* ---- jobs claimed ahead ---- */

/* How many jobs may wait here: no more than have their turn soon, or others could have them meanwhile. Under the
 * lock. */
static int64_t ahead_limit(const renderq_worker *w)
{
    int64_t now_ms = rq_clock_ms(), sum_ms = 0, n = 0;
    for (const renderq_task *task = w->in_hand; task; task = task->after)
        if (task->state == RQ_TASK_RUNNING) {
            sum_ms += now_ms - task->began_ms;
            n++;
        }
    bool known = w->average_us >= 0;    /* a handler has returned */
    int64_t running_us = n ? sum_ms * 1000 / n : 0;
    int64_t average_us = w->average_us > running_us ? w->average_us : running_us;
    int64_t limit = known ? w->options.prefetch : least(w->options.prefetch, w->options.threads);
    int64_t horizon_us = (int64_t)w->options.lease_s * 1000000 / AHEAD_SHARE;
    return average_us > 0 ? least(limit, w->options.threads * horizon_us / average_us) : limit;
}

/* Marks jobs as started, for the threads that are free. */
static bool start_ahead(renderq_worker *w)
{
    renderq_task *tasks[RENDERQ_THREADS_MAX];
    renderq_job *jobs[RENDERQ_THREADS_MAX];
    renderq_status each[RENDERQ_THREADS_MAX];
    size_t n = 0;
    pthread_mutex_lock(&w->lock);
    for (int64_t room = free_threads(w); room > 0 && w->ahead.n > 0; room--, n++) {
        tasks[n] = rq_task_pop(&w->ahead);
        jobs[n] = tasks[n]->job;
    }
    pthread_mutex_unlock(&w->lock);
    if (n == 0)
        return true;
    renderq_status status = renderq_start_many(w->poll.h, jobs, n, NULL, 0, each);
    bool answered = rq_link_note(w, &w->poll, status);
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < n && answered; i++) {
        if (each[i] != RENDERQ_OK)
            continue;
        rq_task_set_lease(tasks[i], jobs[i]);
        make_ready(w, tasks[i]);
    }
    for (size_t i = n; i > 0 && !answered; i--)
        rq_task_push_first(&w->ahead, tasks[i - 1]);
    pthread_mutex_unlock(&w->lock);
    for (size_t i = 0; i < n && answered; i++)
        if (each[i] != RENDERQ_OK) {
            rq_worker_lose(w, tasks[i]);
            pthread_mutex_lock(&w->lock);
            rq_task_drop(tasks[i]);
            w->taken--;
            pthread_mutex_unlock(&w->lock);
        }
    return answered;
}

/* Under the lock. */
static renderq_task *next_to_give_back(renderq_worker *w, bool all)
{
    int64_t too_old_ms = rq_clock_ms() - rq_worker_third_ms(w);
    if (all && w->ready.n > 0)
        return rq_task_pop(&w->ready);
    if (w->ahead.n > 0 && (all || w->ahead.first->renewed_at_ms <= too_old_ms))
        return rq_task_pop(&w->ahead);
    return NULL;
}

void rq_worker_give_back(renderq_worker *w, bool all)
{
    pthread_mutex_lock(&w->lock);
    renderq_task *task;
    while ((task = next_to_give_back(w, all))) {
        task->state = RQ_TASK_FINISHED;
        task->verdict = (rq_verdict){ .word = RQ_SAY_RELEASE, .event = RENDERQ_EVENT_RELEASED };
        task->unbegun = true;
        rq_task_push(&w->finished, task);
        w->taken--;
    }
    pthread_mutex_unlock(&w->lock);
}

/* ---- claims ---- */

static int64_t spread(int64_t ms)
{
    return ms + ((ms * (int64_t)rq_jitter()) >> 32);
}

/* The table refuses it for a job that may be anybody's, and is of use all the same. Once, until it goes well. */
static bool say_not_reaped(renderq_worker *w, renderq_status status)
{
    if (!w->not_reaped)
        rq_worker_log(w, RENDERQ_LOG_WARNING, "leases that have run out cannot be ended: %s: %s",
                      renderq_strstatus(status), renderq_errmsg(w->poll.h));
    w->not_reaped = true;
    return false;
}

/* Sends jobs back whose worker died; so a queue heals that nobody else watches. True: some are ready again. */
static bool reap(renderq_worker *w)
{
    rq_reaped counts = { 0, 0 };
    renderq_status status = rq_reap_batch(w->poll.h, w->where, REAP_BATCH, &counts);
    w->reap_idle_at_ms = rq_clock_ms() + spread(REAP_IDLE_MS);
    w->reap_busy_at_ms = rq_clock_ms() + spread(RQ_REAP_BUSY_MS);
    if (rq_link_refused(&w->poll, status))
        return say_not_reaped(w, status);
    w->not_reaped = w->not_reaped && status != RENDERQ_OK;
    return rq_link_note(w, &w->poll, status) && counts.returned > 0;
}

/* How many to claim now, and how: `unstarted` of the claim. */
typedef struct wish {
    int64_t n;
    int unstarted;
} wish;

/* How many jobs may be started ahead of their turn, because handlers are so quick that all of them are done within
 * moments; 0: none. Starting each when a thread takes it would cost more than the work. A crash in these moments counts
 * a failure of jobs that can bear it: those that never failed. The others wait for their turn, and nothing more is
 * claimed meanwhile. Under the lock. */
static int64_t burst_limit(const renderq_worker *w)
{
    const renderq_worker_options *o = &w->options;
    if (o->prefetch == 0 || w->average_us < 0 || w->ahead.n > 0)
        return 0;
    int64_t most = w->average_us > 0 ? (int64_t)o->threads * BURST_MS * 1000 / w->average_us : o->prefetch;
    return most > o->threads ? least(most, o->prefetch) : 0;
}

/* Under the lock. */
static wish make_wish(renderq_worker *w)
{
    wish made = { .n = free_threads(w), .unstarted = 0 };
    int64_t burst = burst_limit(w);
    w->bursting = burst > 0;
    if (w->bursting) {
        int64_t have = (int64_t)w->ready.n, limit = burst;
        made = (wish){ .n = 2 * have <= limit ? limit + w->options.threads - have : 0, .unstarted = RENDERQ_CAUTIOUS };
    } else if (made.n <= 0 && w->options.prefetch > 0) {
        int64_t limit = ahead_limit(w), have = (int64_t)w->ahead.n;
        made = (wish){ .n = 2 * have <= limit ? limit - have : 0, .unstarted = 1 };
    }
    made.n = least(made.n, RENDERQ_CLAIM_MAX);
    if (w->options.max_jobs > 0)
        made.n = least(made.n, w->options.max_jobs - w->taken);
    return made;
}

/* Takes the jobs of a claim in hand. */
static void take(renderq_worker *w, renderq_job **jobs, size_t n)
{
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < n; i++) {
        renderq_task *task = rq_task_take(w, jobs[i]);
        if (!jobs[i]->started_at_ms) {
            task->state = RQ_TASK_AHEAD;
            rq_task_push(&w->ahead, task);
        } else {
            make_ready(w, task);
        }
    }
    pthread_mutex_unlock(&w->lock);
    w->taken += (int64_t)n;
    if (n > 0)
        w->idle_since_ms = -1;
}

/* An empty read is followed by another one later and later; one that found less than it asked for, by one soon. */
static void plan(renderq_worker *w, size_t asked, size_t n)
{
    const renderq_worker_options *o = &w->options;
    w->empty_reads = n > 0 ? 0 : w->empty_reads + 1;
    unsigned times = w->empty_reads > 0 ? w->empty_reads - 1 : 0;
    w->claim_at_ms = n == asked ? 0 : rq_clock_ms() + rq_spread_ms(o->poll_min_ms, times, o->poll_max_ms, rq_jitter());
}

static void claim(renderq_worker *w)
{
    renderq_job *jobs[RENDERQ_CLAIM_MAX];
    renderq_claim_options options = { .size = sizeof options, .queue = w->queue, .worker = w->name,
                                      .lease_s = w->options.lease_s, .no_reap = 1 };
    size_t n = 0;
    int64_t asked_ms = rq_clock_ms();
    pthread_mutex_lock(&w->lock);
    wish wanted = make_wish(w);
    bool room = wanted.n <= 0 || rq_task_provide(w, (size_t)wanted.n);
    pthread_mutex_unlock(&w->lock);
    if (wanted.n <= 0)
        return;
    options.unstarted = wanted.unstarted;
    renderq_status status = RENDERQ_NOMEM;
    if (room)
        status = renderq_claim_many(w->poll.h, &options, jobs, (size_t)wanted.n, &n);
    if (status != RENDERQ_OK && status != RENDERQ_EMPTY && status != RENDERQ_INTERRUPTED && !rq_status_passes(status)) {
        rq_worker_give_up(w, status, renderq_errmsg(w->poll.h));
        return;
    }
    if (!rq_link_note(w, &w->poll, status))
        return;
    take(w, jobs, n);
    plan(w, (size_t)wanted.n, n);
    if (n == 0)
        w->empty_at_ms = asked_ms;
    if (n == 0 && rq_clock_ms() >= w->reap_idle_at_ms && reap(w)) {
        w->claim_at_ms = 0;
        w->empty_at_ms = -1;
    }
}

/* A claim is also what ends a worker that is to end when the queue is empty, so that one comes in time. */
static int64_t claim_at(const renderq_worker *w)
{
    const renderq_worker_options *o = &w->options;
    bool may_end = o->stop_when_empty && w->idle_since_ms >= 0;
    return may_end ? least(w->claim_at_ms, w->idle_since_ms + o->empty_ms) : w->claim_at_ms;
}

static bool may_claim(const renderq_worker *w)
{
    return w->options.max_jobs == 0 || w->taken < w->options.max_jobs;
}

void rq_worker_feed(renderq_worker *w)
{
    if (rq_clock_ms() < w->poll.try_at_ms || !start_ahead(w))
        return;
    if (may_claim(w) && rq_clock_ms() >= claim_at(w))
        claim(w);
    if (rq_clock_ms() >= w->reap_busy_at_ms && reap(w))
        w->claim_at_ms = 0;
}

int64_t rq_worker_feed_at(renderq_worker *w)
{
    int64_t at = w->reap_busy_at_ms;
    pthread_mutex_lock(&w->lock);
    int64_t room = free_threads(w);
    if (room > 0 && w->ahead.n > 0)
        at = 0;
    else if (may_claim(w) && make_wish(w).n > 0)
        at = least(at, claim_at(w));
    if (w->ahead.n > 0)
        at = least(at, w->ahead.first->renewed_at_ms + rq_worker_third_ms(w));
    pthread_mutex_unlock(&w->lock);
    return at > w->poll.try_at_ms ? at : w->poll.try_at_ms;
}
