/* scan.c: looks at the output files, settles what is done, reaps. See scan.h. */
#include "scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clerk.h"
#include "log.h"
#include "service.h"

#define COMMAND_S 30

/* In each of these states a job may have a result. What was cancelled stays so, and a person may have wanted it. */
static const renderq_state states[] = { RENDERQ_PROCESSING, RENDERQ_QUEUED, RENDERQ_SCHEDULED, RENDERQ_DEAD_LETTER };

/* ---- pauses ---- */

void scan_init(scan *s, struct service *of)
{
    pthread_condattr_t attributes;
    memset(s, 0, sizeof *s);
    s->service = of;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&s->rung, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* False: it is time to stop. */
static bool pause_until(scan *s, int64_t at_ms)
{
    struct timespec at = { .tv_sec = (time_t)(at_ms / 1000), .tv_nsec = (long)(at_ms % 1000) * 1000000 };
    int waited = 0;
    pthread_mutex_lock(&s->lock);
    while (!s->stop && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&s->rung, &s->lock, &at);
    bool go_on = !s->stop;
    pthread_mutex_unlock(&s->lock);
    return go_on;
}

static bool stopped(scan *s)
{
    pthread_mutex_lock(&s->lock);
    bool stop = s->stop;
    pthread_mutex_unlock(&s->lock);
    return stop;
}

void scan_stop(scan *s)
{
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->rung);
    renderq_interrupt(s->h);
    pthread_mutex_unlock(&s->lock);
}

scan_state scan_read(scan *s)
{
    pthread_mutex_lock(&s->lock);
    scan_state state = s->state;
    pthread_mutex_unlock(&s->lock);
    return state;
}

/* ---- files that were there ---- */

static int by_id(const void *left, const void *right)
{
    return strcmp(((const seen_file *)left)->id.text, ((const seen_file *)right)->id.text);
}

static void add_seen(seen_list *list, const seen_file *item)
{
    if (list->n == list->room) {
        list->room = list->room ? list->room * 2 : 64;
        list->items = must_alloc(list->items, list->room * sizeof *list->items);
    }
    list->items[list->n++] = *item;
}

static const seen_file *find_seen(const seen_list *list, const renderq_id *id)
{
    seen_file key = { .id = *id };
    return list->n ? bsearch(&key, list->items, list->n, sizeof *list->items, by_id) : NULL;
}

static bool same_look(const output_look *a, const output_look *b)
{
    return a->size == b->size && a->mtime_s == b->mtime_s && a->mtime_ns == b->mtime_ns && a->inode == b->inode;
}

/* ---- one look ---- */

typedef struct looking {
    scan *scan;
    seen_list *found;
    bool only_run_out;
} looking;

static int look_at(void *arg, const renderq_job *job)
{
    looking *l = arg;
    seen_file item = { .id = job->id, .run_out = job->state == RENDERQ_PROCESSING && job->lease_left_ms <= 0 };
    scan *s = l->scan;
    if (job->output_url && (!l->only_run_out || item.run_out)) {
        output_found found = outputs_look(&s->outputs, job->output_url, &item.look);
        if (found == LOOK_FILE)
            add_seen(l->found, &item);
        if (found == LOOK_BROKEN)
            snprintf(s->broken, sizeof s->broken, "%.300s in the outputs folder: %s", job->output_url, strerror(errno));
    }
    return s->broken[0] || stopped(s);
}

/* The jobs of a queue that are not completed, and whose file is there. */
static renderq_status look(scan *s, const char *queue, bool only_run_out, seen_list *found)
{
    looking l = { .scan = s, .found = found, .only_run_out = only_run_out };
    renderq_status status = RENDERQ_OK;
    size_t n = only_run_out ? 1 : sizeof states / sizeof states[0];
    for (size_t i = 0; i < n && status == RENDERQ_OK && !s->broken[0] && !stopped(s); i++) {
        renderq_filter filter = RENDERQ_INIT(renderq_filter);
        filter.queue = queue;
        filter.state = states[i];
        status = renderq_list(s->h, &filter, look_at, &l);
    }
    if (found->n > 1)
        qsort(found->items, found->n, sizeof *found->items, by_id);
    return s->broken[0] ? RENDERQ_FAILED : status;
}

/* Completes the jobs whose file has not changed between two looks. */
static renderq_status settle(scan *s, clerk *c, const seen_list *before, const seen_list *now)
{
    renderq_status status = RENDERQ_OK;
    for (size_t i = 0; i < now->n && !is_away(status) && !stopped(s); i++) {
        const seen_file *old = find_seen(before, &now->items[i].id);
        if (!old || !same_look(&old->look, &now->items[i].look))
            continue;
        status = renderq_settle(s->h, c->queue, &now->items[i].id, NULL, RENDERQ_SPARE_RENEWED);
        if (status == RENDERQ_OK)
            tally_add(&c->tally, TALLY_SETTLED, 1);
    }
    return is_away(status) ? status : RENDERQ_OK;
}

static bool any_run_out(const seen_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i].run_out)
            return true;
    return false;
}

/* A file that was seen for the first time now, of a job whose lease has run out: a second look before the reaping, or
 * the job would come round again although it is done. */
static renderq_status look_again(scan *s, clerk *c, const seen_list *now)
{
    seen_list again = { .n = 0 };
    if (!any_run_out(now) || !pause_until(s, clock_ms() + s->service->o.settle_ms))
        return RENDERQ_OK;
    renderq_status status = look(s, c->queue, true, &again);
    if (status == RENDERQ_OK)
        status = settle(s, c, now, &again);
    free(again.items);
    return status;
}

static renderq_status reap(scan *s, clerk *c)
{
    renderq_reaped counts = RENDERQ_INIT(renderq_reaped);
    renderq_status status = renderq_reap(s->h, c->queue, &counts);
    tally_add(&c->tally, TALLY_RETURNED, counts.returned);
    tally_add(&c->tally, TALLY_DEAD, counts.dead);
    if (counts.returned + counts.dead > 0)
        say("queue %s: leases run out: %lld jobs come round again, %lld are dead letters", c->queue,
            (long long)counts.returned, (long long)counts.dead);
    return status;
}

static renderq_status scan_queue(scan *s, size_t q)
{
    clerk *c = &s->service->clerks[q];
    seen_list found = { .n = 0 };
    renderq_status status = RENDERQ_OK;
    if (s->outputs.fd >= 0) {
        status = look(s, c->queue, false, &found);
        if (status == RENDERQ_OK)
            status = settle(s, c, &s->seen[q], &found);
        if (status == RENDERQ_OK)
            status = look_again(s, c, &found);
    }
    if (status == RENDERQ_OK && !stopped(s))
        status = reap(s, c);
    if (status == RENDERQ_OK) {
        free(s->seen[q].items);
        s->seen[q] = found;
    } else {
        free(found.items);              /* half a look is none */
    }
    return status;
}

/* ---- the thread ---- */

static renderq_status open_handle(scan *s)
{
    if (s->h)
        return RENDERQ_OK;
    renderq *h = NULL;
    renderq_status status = service_open(s->service, COMMAND_S, &h);
    pthread_mutex_lock(&s->lock);
    s->h = h;
    pthread_mutex_unlock(&s->lock);
    return status;
}

static void close_handle(scan *s)
{
    pthread_mutex_lock(&s->lock);
    renderq *h = s->h;
    s->h = NULL;
    pthread_mutex_unlock(&s->lock);
    renderq_close(h);
}

/* Where files cannot be looked at, no lease is ended either: the jobs may be done. */
static renderq_status open_outputs(scan *s)
{
    s->broken[0] = 0;
    return outputs_open(&s->outputs, s->service->o.outputs, s->broken, sizeof s->broken) ? RENDERQ_OK : RENDERQ_FAILED;
}

static void scan_once(scan *s)
{
    int64_t began = clock_ms();
    renderq_status status = open_handle(s);
    bool opened = status == RENDERQ_OK;
    if (opened)
        status = open_outputs(s);
    for (size_t q = 0; q < s->service->o.n_queues && status == RENDERQ_OK; q++)
        status = scan_queue(s, q);
    if (status != RENDERQ_OK && !stopped(s))
        say_seldom(&s->said_ms, "the scan: %s: %s", renderq_strstatus(status),
                   s->broken[0] ? s->broken : renderq_errmsg(s->h));
    if (opened)
        outputs_close(&s->outputs);
    else
        close_handle(s);
    s->broken[0] = 0;
    pthread_mutex_lock(&s->lock);
    if (status == RENDERQ_OK) {
        s->state.scans++;
        s->state.last_at_ms = wall_ms();
        s->state.took_ms = clock_ms() - began;
    }
    pthread_mutex_unlock(&s->lock);
}

static void *run(void *arg)
{
    scan *s = arg;
    int64_t next = clock_ms();
    do {
        scan_once(s);
        next += (int64_t)s->service->o.scan_s * 1000;
        if (next < clock_ms())
            next = clock_ms();          /* it takes longer than the time between two */
    } while (pause_until(s, next));
    close_handle(s);
    for (size_t q = 0; q < QUEUES_MAX; q++)
        free(s->seen[q].items);
    return NULL;
}

bool scan_start(scan *s)
{
    return pthread_create(&s->thread, NULL, run, s) == 0;
}

void scan_join(scan *s)
{
    pthread_join(s->thread, NULL);
}
