/* worker_task.c: a job in a handler's hands: what the handler may ask and say, and how long the task lives. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "clock.h"
#include "utf.h"
#include "worker.h"

/* ---- queues ---- */

void rq_task_push(rq_task_queue *queue, renderq_task *task)
{
    if (queue->n++ == 0)
        queue->last = &queue->first;
    task->next = NULL;
    *queue->last = task;
    queue->last = &task->next;
}

void rq_task_push_first(rq_task_queue *queue, renderq_task *task)
{
    if (queue->n++ == 0) {
        queue->last = &task->next;
        queue->first = NULL;
    }
    task->next = queue->first;
    queue->first = task;
}

renderq_task *rq_task_pop(rq_task_queue *queue)
{
    renderq_task *task = queue->n ? queue->first : NULL;
    if (task) {
        queue->first = task->next;
        queue->n--;
        task->next = NULL;
    }
    return task;
}

/* ---- a task's life ---- */

bool rq_task_provide(renderq_worker *w, size_t n)
{
    while (w->spare.n < n) {
        renderq_task *task = calloc(1, sizeof *task);
        if (!task)
            return false;
        rq_task_push(&w->spare, task);
    }
    return true;
}

void rq_task_set_lease(renderq_task *task, const renderq_job *job)
{
    int64_t ends_ms = ((const rq_job *)job)->lease_ends_ms;
    task->renewed_at_ms = rq_clock_ms();
    /* Renewed and started at the same time, by two connections, the later of the two counts. */
    if (ends_ms > __atomic_load_n(&task->lease_ends_ms, __ATOMIC_RELAXED))
        __atomic_store_n(&task->lease_ends_ms, ends_ms, __ATOMIC_RELAXED);
}

renderq_task *rq_task_take(renderq_worker *w, renderq_job *job)
{
    renderq_task *task = rq_task_pop(&w->spare);
    *task = (renderq_task){ .worker = w, .job = job, .refs = 1, .deadline_ms = INT64_MAX, .fail_ms = RENDERQ_BACKOFF };
    task->lease.job.id = job->id;
    task->lease.job.lease = job->lease;
    task->lease.job.queue = job->queue;
    rq_task_set_lease(task, job);
    task->after = w->in_hand;
    if (w->in_hand)
        w->in_hand->before = task;
    w->in_hand = task;
    w->n_in_hand++;
    task->in_hand = true;
    return task;
}

void rq_task_release(renderq_task *task)
{
    renderq_worker *w = task->worker;
    if (--task->refs > 0)
        return;
    renderq_job_free(task->job);
    free(task->output_url);
    free(task->message);
    free(task->progress);
    task->job = NULL;
    task->output_url = task->message = task->progress = NULL;
    task->state = RQ_TASK_FREE;
    rq_task_push(&w->spare, task);
}

void rq_task_drop(renderq_task *task)
{
    renderq_worker *w = task->worker;
    if (task->before)
        task->before->after = task->after;
    else
        w->in_hand = task->after;
    if (task->after)
        task->after->before = task->before;
    w->n_in_hand--;
    task->in_hand = false;
    rq_task_release(task);
}

/* ---- what the handler asks ---- */

bool rq_task_is_lost(const renderq_task *task)
{
    return __atomic_load_n(&task->lost, __ATOMIC_RELAXED);
}

/* A lease that has run out could still be ours, and be renewed; but not once the handler has heard that it is lost. */
static bool is_lost(const renderq_task *task)
{
    renderq_task *own = (renderq_task *)(uintptr_t)task;    /* it is the handler that shall not change it */
    if (rq_clock_ms() >= __atomic_load_n(&task->lease_ends_ms, __ATOMIC_RELAXED))
        __atomic_store_n(&own->lost, 1, __ATOMIC_RELAXED);
    return rq_task_is_lost(task);
}

int renderq_job_lost(const renderq_task *task)
{
    return task && is_lost(task);
}

renderq *renderq_task_handle(renderq_task *task)
{
    return task ? task->handle : NULL;
}

renderq_stop_reason renderq_task_should_stop(const renderq_task *task)
{
    if (!task)
        return RENDERQ_GO_ON;
    if (is_lost(task))
        return RENDERQ_STOP_LOST;
    int64_t now_ms = rq_clock_ms();
    if (now_ms >= task->deadline_ms)
        return RENDERQ_STOP_TIMEOUT;
    return now_ms >= rq_worker_tell_at(task->worker) ? RENDERQ_STOP_ASKED : RENDERQ_GO_ON;
}

/* ---- what the handler says ---- */

static bool is_storable(const char *text, size_t max_units)
{
    rq_utf_scan scan = rq_utf_check(text, strlen(text));
    return !text[scan.bad_at] && scan.units <= max_units;
}

renderq_outcome renderq_task_fail(renderq_task *task, const char *error, int64_t retry_ms)
{
    free(task->message);
    task->message = NULL;
    task->no_message = NULL;
    task->fail_ms = retry_ms;
    if (retry_ms > RENDERQ_DELAY_MAX_MS)
        task->fail_ms = RENDERQ_DELAY_MAX_MS;
    else if (retry_ms < 0 && retry_ms != RENDERQ_NEVER)
        task->fail_ms = RENDERQ_BACKOFF;
    if (error) {
        size_t size = (size_t)RENDERQ_ERROR_MAX * 3 + 1, len = strlen(error);
        char *text = malloc(len < size / 3 ? len * 3 + 1 : size);
        if (text)
            rq_utf_repair(error, RENDERQ_ERROR_MAX, text, len < size / 3 ? len * 3 + 1 : size);
        else
            task->no_message = "it failed, and there was no memory for its message";
        task->message = text;
    }
    return RENDERQ_TASK_FAILED;
}

renderq_outcome renderq_task_retry(renderq_task *task, int64_t delay_ms)
{
    task->retry_ms = delay_ms < 0 ? 0 : delay_ms > RENDERQ_DELAY_MAX_MS ? RENDERQ_DELAY_MAX_MS : delay_ms;
    return RENDERQ_TASK_RETRY;
}

renderq_outcome renderq_task_done(renderq_task *task, const char *output_url)
{
    free(task->output_url);
    task->output_url = NULL;
    if (!output_url)
        return RENDERQ_TASK_DONE;
    if (!is_storable(output_url, RENDERQ_OUTPUT_URL_MAX))
        return renderq_task_fail(task, "it is done, but its output URL is too long or not UTF-8", RENDERQ_BACKOFF);
    task->output_url = strdup(output_url);
    if (!task->output_url) {
        renderq_task_fail(task, NULL, RENDERQ_BACKOFF);
        task->no_message = "it is done, but there was no memory for its output URL";
        return RENDERQ_TASK_FAILED;
    }
    return RENDERQ_TASK_DONE;
}

renderq_status renderq_task_progress(renderq_task *task, const char *text)
{
    if (!task || !text || !is_storable(text, RENDERQ_PROGRESS_MAX))
        return RENDERQ_INVALID;
    char *copy = strdup(text);
    if (!copy)
        return RENDERQ_NOMEM;
    pthread_mutex_lock(&task->worker->lock);
    char *old = task->progress;
    task->progress = copy;
    pthread_mutex_unlock(&task->worker->lock);
    free(old);
    return RENDERQ_OK;
}
