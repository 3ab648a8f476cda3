/* worker_thread.c: the threads that handlers run in: one takes what is ready, works on it, and leaves the result to the
 * poller. No database here. */
#include "clock.h"
#include "worker.h"

/* Lately: the last eight or so. Under the lock. */
static void note_time(renderq_worker *w, int64_t ms)
{
    int64_t us = ms * 1000;
    w->average_us = w->average_us < 0 ? us : w->average_us + (us - w->average_us) / 8;
}

void rq_worker_call(renderq_worker *w, renderq_task *task)
{
    task->state = RQ_TASK_RUNNING;
    task->began_ms = rq_clock_ms();
    if (w->options.job_timeout_s > 0)
        task->deadline_ms = task->began_ms + (int64_t)w->options.job_timeout_s * 1000;
    w->n_running++;
    pthread_mutex_unlock(&w->lock);
    rq_worker_event(w, RENDERQ_EVENT_STARTED, task);
    task->outcome = w->options.handler(w->options.handler_arg, task, task->job);
    pthread_mutex_lock(&w->lock);
    w->n_running--;
    int64_t ended_ms = rq_clock_ms();
    note_time(w, ended_ms - task->began_ms);
    if (!task->given_up)
        task->ended_ms = ended_ms;
}

/* Under the lock, which it leaves for the handler's time. */
static void run(renderq_worker *w, renderq_task *task)
{
    task->refs++;
    if (w->ready.n > 0 && w->n_asleep > 0)
        pthread_cond_signal(&w->work);
    rq_worker_call(w, task);
    if (task->given_up) {
        w->n_given_up--;
    } else {
        task->state = RQ_TASK_FINISHED;
        rq_task_push(&w->finished, task);
    }
    rq_task_release(task);
}

/* The poller sleeps only when nothing is finished, so it is woken once. In a burst it is left alone while there is more
 * to come, as it would be woken for each job; it looks by itself then. Under the lock. */
static void wake_poller(renderq_worker *w)
{
    bool asleep = w->poller_asleep;
    if (w->bursting && w->ready.n > 0)
        return;
    w->poller_asleep = false;
    if (asleep)
        rq_stop_raise(&w->wake);
}

void *rq_worker_handle(void *thread)
{
    rq_thread *t = thread;
    renderq_worker *w = t->worker;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        renderq_task *task = rq_task_pop(&w->ready);
        if (task && task->gone) {
            task->state = RQ_TASK_FINISHED;
            rq_task_push(&w->finished, task);
        } else if (task) {
            t->in_handler = true;
            run(w, task);
            t->in_handler = false;
        } else if (w->over) {
            break;
        } else {
            w->n_asleep++;
            pthread_cond_wait(&w->work, &w->lock);
            w->n_asleep--;
            continue;
        }
        wake_poller(w);
    }
    rq_worker_unref(w);
    return NULL;
}
