/* worker_keep.c: the keeper: a thread with a connection of its own, which renews the leases of all jobs in hand, many
 * at a time, and takes along what their handlers say of their progress. */
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "lease.h"
#include "worker.h"

#define LOOK_MS     1000            /* how often it looks what is due, at most */
#define PROGRESS_MS 5000            /* how long a handler's progress may wait */

int64_t rq_worker_third_ms(const renderq_worker *w)
{
    return (int64_t)w->options.lease_s * 1000 / 3;
}

/* What one request renews. */
typedef struct batch {
    size_t n;
    renderq_task *tasks[RENDERQ_MANY_MAX];
    renderq_job *jobs[RENDERQ_MANY_MAX];
    char *progress[RENDERQ_MANY_MAX];
    renderq_status each[RENDERQ_MANY_MAX];
} batch;

/* Jobs that wait ahead of their turn are not renewed: they have it soon, or go back. */
static bool is_kept(const renderq_task *task)
{
    return !rq_task_is_lost(task) && !task->given_up && !task->unbegun && task->state >= RQ_TASK_READY;
}

static int64_t age_ms(const renderq_task *task, int64_t now_ms)
{
    return now_ms - task->renewed_at_ms;
}

/* One whose turn it is takes along all that are half as old, so that they come together. Under the lock. */
static bool is_due(const renderq_worker *w, int64_t now_ms)
{
    for (const renderq_task *task = w->in_hand; task; task = task->after)
        if (is_kept(task)
            && (age_ms(task, now_ms) >= rq_worker_third_ms(w)
                || (task->progress && age_ms(task, now_ms) >= PROGRESS_MS)))
            return true;
    return false;
}

/* Returns how many jobs are in hand. */
static size_t collect(renderq_worker *w, batch *b)
{
    int64_t now_ms = rq_clock_ms();
    b->n = 0;
    pthread_mutex_lock(&w->lock);
    renderq_task *task = is_due(w, now_ms) ? w->in_hand : NULL;
    for (; task && b->n < RENDERQ_MANY_MAX; task = task->after) {
        if (!is_kept(task) || (age_ms(task, now_ms) < rq_worker_third_ms(w) / 2 && !task->progress))
            continue;
        task->refs++;
        b->tasks[b->n] = task;
        b->jobs[b->n] = &task->lease.job;
        b->progress[b->n++] = task->progress;
        task->progress = NULL;
    }
    size_t in_hand = w->n_in_hand;
    pthread_mutex_unlock(&w->lock);
    return in_hand;
}

/* A progress that was not sent waits for the next time, unless the handler has said more since. Under the lock. */
static void keep_progress(renderq_task *task, char *progress)
{
    if (task->progress)
        free(progress);
    else
        task->progress = progress;
}

/* A job that the poller is telling the queue of may be completed by now; then it is not lost. Under the lock. */
static bool is_loss(const renderq_task *task, renderq_status status)
{
    return status == RENDERQ_LOST && !task->gone && task->state != RQ_TASK_SENDING && task->in_hand;
}

static bool is_answer(renderq_status status)
{
    return status == RENDERQ_OK || status == RENDERQ_LOST;
}

static void take_answers(renderq_worker *w, batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        renderq_task *task = b->tasks[i];
        pthread_mutex_lock(&w->lock);
        bool lost = is_loss(task, b->each[i]);
        if (b->each[i] == RENDERQ_OK)
            rq_task_set_lease(task, b->jobs[i]);
        if (is_answer(b->each[i]))
            free(b->progress[i]);
        else
            keep_progress(task, b->progress[i]);
        pthread_mutex_unlock(&w->lock);
        if (lost)
            rq_worker_lose(w, task);
        pthread_mutex_lock(&w->lock);
        rq_task_release(task);
        pthread_mutex_unlock(&w->lock);
    }
}

/* n of the batch, from that one on. */
static renderq_status renew_some(renderq_worker *w, batch *b, size_t first, size_t n)
{
    renderq_status status = rq_renew_many(w->keep.h, b->jobs + first, (const char *const *)b->progress + first, n,
                                          b->each + first);
    for (size_t i = first; i < first + n && !is_answer(status); i++)
        b->each[i] = status;
    return status;
}

/* Once a job, whatever else its handler says. */
static void say_left_out(renderq_worker *w, renderq_task *task, const char *why)
{
    pthread_mutex_lock(&w->lock);
    bool new = !task->left_out;
    task->left_out = true;
    pthread_mutex_unlock(&w->lock);
    if (new)
        rq_worker_log(w, RENDERQ_LOG_WARNING, "the progress of job %s is refused, and left out: %s",
                      task->job->id.text, why);
}

/* A progress that the table refuses must not cost the lease. */
static renderq_status renew_one(renderq_worker *w, batch *b, size_t i)
{
    char why[sizeof w->error.text], *progress = b->progress[i];
    renderq_status status = renew_some(w, b, i, 1);
    if (!progress || !rq_link_refused(&w->keep, status))
        return status;
    snprintf(why, sizeof why, "%s", renderq_errmsg(w->keep.h));
    b->progress[i] = NULL;
    status = renew_some(w, b, i, 1);
    b->progress[i] = progress;
    if (status == RENDERQ_OK)
        say_left_out(w, b->tasks[i], why);
    return status;
}

/* Each alone, since one of them is refused. It is the table that refuses, if it refuses all. */
static renderq_status renew_each(renderq_worker *w, batch *b)
{
    renderq_status status = RENDERQ_OK;
    bool answered = false;
    for (size_t i = 0; i < b->n; i++) {
        status = renew_one(w, b, i);
        answered = answered || is_answer(status);
        if (!is_answer(status) && !rq_link_refused(&w->keep, status))
            return status;
    }
    return answered ? RENDERQ_OK : status;
}

/* Jobs that are lost are not renewed. A renewal of none tells then whether the database is back. */
static renderq_status renew_none(renderq_worker *w)
{
    static const renderq_id none = { "00000000-0000-0000-0000-000000000000" };
    rq_job job = { .job = { .id = none, .lease = none, .queue = w->where->text } };
    return renderq_renew(w->keep.h, &job.job, NULL);
}

static void renew(renderq_worker *w, batch *b)
{
    if (rq_clock_ms() < w->keep.try_at_ms)
        return;
    do {
        size_t in_hand = collect(w, b);
        if (b->n == 0 && w->keep.away)  /* with nothing in hand, nothing waits for this connection any more */
            rq_link_note(w, &w->keep, in_hand > 0 ? renew_none(w) : RENDERQ_OK);
        if (b->n == 0)
            return;
        renderq_status status = renew_some(w, b, 0, b->n);
        if (rq_link_refused(&w->keep, status))
            status = renew_each(w, b);
        bool answered = rq_link_note(w, &w->keep, status);
        take_answers(w, b);
        if (!answered)
            return;
    } while (b->n == RENDERQ_MANY_MAX);
}

static bool is_over(renderq_worker *w)
{
    pthread_mutex_lock(&w->lock);
    bool over = w->over;
    pthread_mutex_unlock(&w->lock);
    return over;
}

void *rq_worker_keep(void *worker)
{
    renderq_worker *w = worker;
    int64_t look_ms = rq_worker_third_ms(w) / 4 < LOOK_MS ? rq_worker_third_ms(w) / 4 : LOOK_MS;
    batch b;
    rq_link_connect(w, &w->keep);
    for (;;) {
        rq_stop_begin(&w->wake_keeper, false);
        if (is_over(w))
            break;
        if (rq_worker_overdue(w))
            renderq_interrupt(w->poll.h);       /* a last request may hang */
        else
            renew(w, &b);
        rq_stop_sleep(&w->wake_keeper, look_ms);
    }
    pthread_mutex_lock(&w->lock);
    w->keeper_gone = true;
    pthread_mutex_unlock(&w->lock);
    rq_stop_raise(&w->wake);
    return NULL;
}
