/* worker_send.c: the poller's way of telling the queue how jobs went: those that are done many at a time, and what
 * cannot be told now again later, as long as it may be heard. */
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "lease.h"
#include "worker.h"

/* ---- what the queue has heard, or will not hear ---- */

static void say_lost(renderq_worker *w, const renderq_task *task)
{
    rq_worker_event(w, RENDERQ_EVENT_LOST, task);
    rq_worker_log(w, RENDERQ_LOG_WARNING, "the lease of job %s was lost, so what comes of it does not count",
                  task->job->id.text);
}

void rq_worker_say_late(renderq_worker *w, renderq_task *task)
{
    pthread_mutex_lock(&w->lock);
    bool told = task->told;
    task->told = true;
    pthread_mutex_unlock(&w->lock);
    if (told)
        return;
    rq_worker_event(w, RENDERQ_EVENT_TIMEOUT, task);
    rq_worker_log(w, RENDERQ_LOG_WARNING, "job %s takes longer than %d s", task->job->id.text,
                  w->options.job_timeout_s);
}

void rq_worker_lose(renderq_worker *w, renderq_task *task)
{
    pthread_mutex_lock(&w->lock);
    bool new = !task->gone;
    task->gone = true;
    __atomic_store_n(&task->lost, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&w->lock);
    if (new)
        say_lost(w, task);
}

void rq_worker_say_refused(renderq_worker *w, const renderq_task *task, const rq_link *link, renderq_status status)
{
    rq_worker_log(w, RENDERQ_LOG_ERROR, "what came of job %s is refused, so it comes round when its lease runs out: "
                  "%s: %s", task->job->id.text, renderq_strstatus(status), renderq_errmsg(link->h));
    pthread_mutex_lock(&w->lock);
    rq_error_text(&w->untold, 0, "%s", renderq_errmsg(link->h));
    pthread_mutex_unlock(&w->lock);
}

/* Each task has been told of, as its status says, and leaves. */
static void settle(renderq_worker *w, renderq_task **tasks, const renderq_status *each, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (each[i] == RENDERQ_OK)
            rq_worker_event(w, tasks[i]->verdict.event, tasks[i]);
        else
            rq_worker_lose(w, tasks[i]);
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < n; i++)
        rq_task_drop(tasks[i]);
    pthread_mutex_unlock(&w->lock);
}

/* ---- what to say ---- */

static rq_verdict say_failed(const char *text, int64_t delay_ms)
{
    return (rq_verdict){ .word = RQ_SAY_FAIL, .event = RENDERQ_EVENT_FAILED, .text = text, .delay_ms = delay_ms };
}

/* A handler that was told to stop because it took too long may still have finished; then its result counts. One that
 * was given up may still be saying it. */
rq_verdict rq_worker_judge(const renderq_worker *w, const renderq_task *task)
{
    if (task->late)
        return say_failed(w->too_long, RENDERQ_BACKOFF);
    if (task->given_up || task->unbegun)
        return (rq_verdict){ .word = RQ_SAY_RELEASE, .event = RENDERQ_EVENT_RELEASED };
    if (task->outcome == RENDERQ_TASK_DONE)
        return (rq_verdict){ .word = RQ_SAY_COMPLETE, .event = RENDERQ_EVENT_DONE, .text = task->output_url };
    if (task->outcome == RENDERQ_TASK_RETRY && task->ended_ms >= task->deadline_ms)
        return say_failed(w->too_long, RENDERQ_BACKOFF);
    if (task->outcome == RENDERQ_TASK_RETRY)
        return (rq_verdict){ .word = RQ_SAY_RELEASE, .event = RENDERQ_EVENT_RETRIED, .delay_ms = task->retry_ms };
    if (task->outcome != RENDERQ_TASK_FAILED)
        return say_failed("the handler returned what is no renderq_outcome", RENDERQ_BACKOFF);
    return say_failed(task->message ? task->message : task->no_message, task->fail_ms);
}

/* ---- saying it ---- */

static renderq_status ask(renderq_worker *w, const renderq_task *task, bool maybe)
{
    const rq_verdict *verdict = &task->verdict;
    renderq_result result = { .size = sizeof result, .job = task->job, .output_url = verdict->text };
    switch (verdict->word) {
    case RQ_SAY_COMPLETE: return rq_complete_many(w->poll.h, &result, 1, maybe);
    case RQ_SAY_FAIL: return rq_fail(w->poll.h, task->job, verdict->text, verdict->delay_ms, maybe);
    default: return rq_release(w->poll.h, task->job, verdict->delay_ms, maybe);
    }
}

/* What may have been told before is asked as if it were new, until it is LOST: else a refusal would be UNCERTAIN. */
static renderq_status say(renderq_worker *w, renderq_task *task)
{
    renderq_status status = ask(w, task, false);
    if (status == RENDERQ_LOST && task->maybe)
        status = ask(w, task, true);
    task->maybe = task->maybe || status == RENDERQ_UNCERTAIN;
    return status;
}

static renderq_status renew(renderq_worker *w, renderq_task *task)
{
    const renderq_job *job = task->job;
    rq_job lease = { .job = { .id = job->id, .lease = job->lease, .queue = job->queue } };
    renderq_status status = renderq_renew(w->poll.h, &lease.job, NULL);
    pthread_mutex_lock(&w->lock);
    if (status == RENDERQ_OK)
        rq_task_set_lease(task, &lease.job);
    pthread_mutex_unlock(&w->lock);
    return status;
}

/* Whether it is what this job says that the table refuses, and would always. If its lease cannot be renewed either, it
 * is the table; and said once more, it is told if the fault has passed. */
static bool is_refused(renderq_worker *w, renderq_task *task, renderq_status *status)
{
    if (!rq_link_refused(&w->poll, *status))
        return false;
    *status = renew(w, task);
    if (*status != RENDERQ_OK)
        return false;
    *status = say(w, task);
    return rq_link_refused(&w->poll, *status);
}

/* A job that is done would come round for ever if its output URL is what is refused (a table of somebody else's may
 * have less room for it); so it is to be told as a failure, with the reason. If a failure or a release is refused,
 * nothing can be told: the lease runs out by itself. */
static void refuse(renderq_worker *w, renderq_task *task, renderq_status status)
{
    char text[sizeof w->error.text + 100];
    if (task->verdict.word == RQ_SAY_COMPLETE) {
        snprintf(text, sizeof text, "it is done, but that could not be stored: %s", renderq_errmsg(w->poll.h));
        renderq_task_fail(task, text, RENDERQ_BACKOFF);
        task->verdict = say_failed(task->message ? task->message : task->no_message, RENDERQ_BACKOFF);
        task->maybe = false;
        rq_task_push(&w->unsent, task);
        return;
    }
    rq_worker_say_refused(w, task, &w->poll, status);
    pthread_mutex_lock(&w->lock);
    w->n_untold++;
    rq_task_drop(task);
    pthread_mutex_unlock(&w->lock);
}

/* True: the database heard of it. */
static bool tell_one(renderq_worker *w, renderq_task *task)
{
    renderq_status status = say(w, task);
    if (is_refused(w, task, &status)) {
        refuse(w, task, status);
        return rq_link_note(w, &w->poll, RENDERQ_OK);
    }
    bool answered = rq_link_note(w, &w->poll, status);
    if (answered)
        settle(w, &task, &status, 1);
    return answered;
}

/* Together. */
static renderq_status say_done(renderq_worker *w, renderq_task **tasks, renderq_result *results, size_t n)
{
    bool maybe = false;
    for (size_t i = 0; i < n; i++) {
        results[i] = (renderq_result){ .size = sizeof results[i], .job = tasks[i]->job,
                                       .output_url = tasks[i]->verdict.text };
        maybe = maybe || tasks[i]->maybe;
    }
    renderq_status status = rq_complete_many(w->poll.h, results, n, false);
    if (status == RENDERQ_LOST && maybe)
        status = rq_complete_many(w->poll.h, results, n, true);
    for (size_t i = 0; i < n; i++)
        tasks[i]->maybe = tasks[i]->maybe || status == RENDERQ_UNCERTAIN;
    return status;
}

/* True: they were told. */
static bool tell_done(renderq_worker *w, renderq_task **tasks, size_t n, bool *refused)
{
    renderq_result results[RENDERQ_MANY_MAX];
    renderq_status each[RENDERQ_MANY_MAX];
    renderq_status status = say_done(w, tasks, results, n);
    *refused = rq_link_refused(&w->poll, status);
    if (*refused || !rq_link_note(w, &w->poll, status))
        return false;
    for (size_t i = 0; i < n; i++)
        each[i] = results[i].status;
    settle(w, tasks, each, n);
    return true;
}

/* ---- all of them ---- */

/* Takes over what is finished. What is lost leaves at once. */
static void collect(renderq_worker *w)
{
    static const renderq_status is_lost = RENDERQ_LOST;
    rq_task_queue lost = { 0 };
    renderq_task *task;
    pthread_mutex_lock(&w->lock);
    while ((task = rq_task_pop(&w->finished))) {
        if (rq_task_is_lost(task)) {
            w->taken -= !task->began_ms && !task->unbegun;      /* no handler has had it */
            rq_task_push(&lost, task);
            continue;
        }
        task->state = RQ_TASK_SENDING;
        task->verdict = rq_worker_judge(w, task);
        rq_task_push(&w->unsent, task);
    }
    pthread_mutex_unlock(&w->lock);
    while ((task = rq_task_pop(&lost)))
        settle(w, &task, &is_lost, 1);
    /* A handler may have been quicker to see that its time is up than the poller. */
    for (task = w->unsent.n ? w->unsent.first : NULL; task; task = task->next)
        if (task->ended_ms >= task->deadline_ms)
            rq_worker_say_late(w, task);
}

/* Those that are done, which are told of together, apart from the rest. */
static size_t take_done(rq_task_queue *from, renderq_task **tasks)
{
    size_t n = 0;
    for (size_t left = from->n; left > 0; left--) {
        renderq_task *task = rq_task_pop(from);
        if (task->verdict.word == RQ_SAY_COMPLETE && n < RENDERQ_MANY_MAX)
            tasks[n++] = task;
        else
            rq_task_push(from, task);
    }
    return n;
}

/* False: some are still to be told. */
static bool send_done(renderq_worker *w)
{
    renderq_task *tasks[RENDERQ_MANY_MAX];
    size_t n = take_done(&w->unsent, tasks), told = 0;
    bool refused = n == 1;
    if (n > 1 && tell_done(w, tasks, n, &refused))
        return true;
    /* One of them is refused: each is told of alone. */
    while (refused && told < n && tell_one(w, tasks[told]))
        told++;
    for (size_t i = told; i < n; i++)
        rq_task_push(&w->unsent, tasks[i]);
    return told == n;
}

/* Those that are not done. */
static void send_rest(renderq_worker *w)
{
    bool told = true;
    for (size_t left = w->unsent.n; left > 0 && told; left--) {
        renderq_task *task = rq_task_pop(&w->unsent);
        bool done = task->verdict.word == RQ_SAY_COMPLETE;      /* more than fit into one batch */
        told = done || tell_one(w, task);
        if (done || !told)
            rq_task_push(&w->unsent, task);
    }
}

void rq_worker_send(renderq_worker *w)
{
    collect(w);
    if (w->unsent.n > 0 && rq_clock_ms() >= w->poll.try_at_ms && send_done(w))
        send_rest(w);
}
