/* worker_say.c: what a worker says: its log, its events, and whether the database can be used. A line or an event a
 * change, however often something was tried. */
#include <stdarg.h>
#include <stdio.h>

#include "backoff.h"
#include "clock.h"
#include "worker.h"

#define AGAIN_MS     100
#define AGAIN_CAP_MS 5000

/* Under `callbacks`. */
static void say(renderq_worker *w, renderq_log_level level, const char *line)
{
    if (w->options.log && !w->mute)
        w->options.log(level, line, w->options.log_arg);
}

void rq_worker_log(renderq_worker *w, renderq_log_level level, const char *format, ...)
{
    char line[sizeof w->error.text + 256];
    if (!w->options.log)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    pthread_mutex_lock(&w->callbacks);
    say(w, level, line);
    pthread_mutex_unlock(&w->callbacks);
}

/* Under `callbacks`. */
static void tell(renderq_worker *w, const renderq_event *event)
{
    if (w->options.on_event && !w->mute)
        w->options.on_event(w->options.event_arg, event);
}

static bool is_last(const renderq_job *job)
{
    return job->max_retries == RENDERQ_NO_RETRY || job->retry_count >= job->max_retries;
}

void rq_worker_event(renderq_worker *w, renderq_event_type type, const renderq_task *task)
{
    if (!w->options.on_event)
        return;
    const rq_verdict *verdict = &task->verdict;
    renderq_event event = { .type = type, .job = task->job };
    if (type == RENDERQ_EVENT_DONE || type == RENDERQ_EVENT_FAILED)
        event.text = verdict->text;
    if (type == RENDERQ_EVENT_RETRIED || type == RENDERQ_EVENT_RELEASED)
        event.delay_ms = verdict->delay_ms;
    event.dead = type == RENDERQ_EVENT_FAILED && (verdict->delay_ms == RENDERQ_NEVER || is_last(task->job));
    if (task->began_ms && type != RENDERQ_EVENT_STARTED)
        event.duration_ms = (task->ended_ms ? task->ended_ms : rq_clock_ms()) - task->began_ms;
    pthread_mutex_lock(&w->callbacks);
    tell(w, &event);
    pthread_mutex_unlock(&w->callbacks);
}

/* ---- the connections ---- */

/* FAILED: it is full, or short of memory, or a row cannot be read, which its lease makes somebody see. */
bool rq_status_passes(renderq_status status)
{
    return status == RENDERQ_BUSY || status == RENDERQ_DISCONNECTED || status == RENDERQ_UNCERTAIN
           || status == RENDERQ_FAILED;
}

bool rq_link_refused(const rq_link *link, renderq_status status)
{
    if (status == RENDERQ_FAILED)
        return !link->h->driver->ails(renderq_native_error(link->h));
    return status == RENDERQ_INVALID || status == RENDERQ_SCHEMA;
}

static void note_away(renderq_worker *w, const rq_link *link, renderq_status status)
{
    char line[sizeof w->error.text + 256];
    const char *why = renderq_errmsg(link->h);
    if (w->n_away++ > 0)
        return;
    w->away_since_ms = rq_clock_ms();
    snprintf(line, sizeof line, "the database cannot be used just now, jobs in hand go on: %s: %s: %s", link->name,
             renderq_strstatus(status), why);
    say(w, RENDERQ_LOG_WARNING, line);
    tell(w, &(renderq_event){ .type = RENDERQ_EVENT_AWAY, .text = why, .status = status });
}

static void note_back(renderq_worker *w)
{
    char line[100];
    if (--w->n_away > 0)
        return;
    int64_t ms = rq_clock_ms() - w->away_since_ms;
    snprintf(line, sizeof line, "the database can be used again, after %lld.%lld s", (long long)(ms / 1000),
             (long long)(ms % 1000 / 100));
    say(w, RENDERQ_LOG_INFO, line);
    tell(w, &(renderq_event){ .type = RENDERQ_EVENT_BACK, .duration_ms = ms });
}

bool rq_link_note(renderq_worker *w, rq_link *link, renderq_status status)
{
    bool answered = status == RENDERQ_OK || status == RENDERQ_EMPTY || status == RENDERQ_LOST;
    if (status == RENDERQ_INTERRUPTED)
        return false;                   /* by ourselves, and it says nothing of the database */
    link->try_at_ms = answered ? 0 : rq_clock_ms() + rq_spread_ms(AGAIN_MS, link->tries, AGAIN_CAP_MS, rq_jitter());
    link->tries = answered ? 0 : link->tries + 1;
    if (answered != link->away)
        return answered;
    link->away = !answered;
    pthread_mutex_lock(&w->callbacks);
    if (answered)
        note_back(w);
    else
        note_away(w, link, status);
    pthread_mutex_unlock(&w->callbacks);
    return answered;
}
