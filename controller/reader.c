/* reader.c: counts, lists and figures. See reader.h. */
#include "reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http.h"
#include "json.h"
#include "log.h"
#include "service.h"

#define COMMAND_S     30
#define GOOD_MS       1000              /* counts are at most so old, or ten times as old as they took */
#define WORKERS_MAX   100
#define HOLDS_MAX     20

void reader_init(reader *r, struct service *s)
{
    memset(r, 0, sizeof *r);
    r->service = s;
    tray_init(&r->tray);
    pthread_mutex_init(&r->handle_lock, NULL);
}

/* ---- the connection ---- */

static void set_handle(reader *r, renderq *h)
{
    pthread_mutex_lock(&r->handle_lock);
    renderq *old = r->h;
    r->h = h;
    pthread_mutex_unlock(&r->handle_lock);
    renderq_close(old);
}

static renderq_status failed(reader *r, renderq_status status)
{
    if (status != RENDERQ_OK)
        snprintf(r->why, sizeof r->why, "%s", renderq_errmsg(r->h));
    return status;
}

static renderq_status open_handle(reader *r)
{
    if (r->h)
        return RENDERQ_OK;
    renderq *h = NULL;
    renderq_status status = service_open(r->service, COMMAND_S, &h);
    set_handle(r, h);
    failed(r, status);
    if (status != RENDERQ_OK)
        set_handle(r, NULL);
    return status;
}

void reader_interrupt(reader *r)
{
    pthread_mutex_lock(&r->handle_lock);
    renderq_interrupt(r->h);
    pthread_mutex_unlock(&r->handle_lock);
}

/* ---- counting ---- */

static json_t *find_worker(json_t *workers, const char *name)
{
    size_t i;
    json_t *worker;
    json_array_foreach(workers, i, worker)
        if (strcmp(json_string_value(json_object_get(worker, "worker")), name) == 0)
            return worker;
    return NULL;
}

typedef struct gathering {
    json_t *workers, *names;            /* the array that is shown; and an object with a member a worker */
} gathering;

static json_t *held(const renderq_job *job)
{
    json_t *made = json_object();
    json_object_set_new(made, "id", json_text(job->id.text));
    json_object_set_new(made, "composition_id", json_text(job->composition_id));
    json_object_set_new(made, "started_at", json_time(job->started_at_ms));
    json_object_set_new(made, "lease_left_ms", json_integer(job->lease_left_ms));
    json_object_set_new(made, "progress", json_text(job->progress));
    return made;
}

/* The worker's entry; NULL: there are too many, and it is only counted. */
static json_t *enter_worker(gathering *g, const char *name)
{
    json_t *text = json_text(name);     /* valid, whatever another program has put there */
    const char *shown = json_string_value(text);
    json_t *worker = find_worker(g->workers, shown);
    if (!worker) {
        json_object_set_new(g->names, shown, json_true());
        if (json_array_size(g->workers) < WORKERS_MAX) {
            worker = json_object();
            json_object_set(worker, "worker", text);
            json_object_set_new(worker, "jobs", json_integer(0));
            json_object_set_new(worker, "holds", json_array());
            json_array_append_new(g->workers, worker);
        }
    }
    json_decref(text);
    return worker;
}

/* What lies in a cache like ours is leased and not started: nobody works on it. */
static int gather(void *arg, const renderq_job *job)
{
    gathering *g = arg;
    const char *name = job->worker ? job->worker : "";
    if (!job->started_at_ms && strncmp(name, SERVICE_WORKER, sizeof SERVICE_WORKER - 1) == 0)
        return 0;
    json_t *worker = enter_worker(g, name);
    if (!worker)
        return 0;
    json_object_set_new(worker, "jobs", json_integer(json_integer_value(json_object_get(worker, "jobs")) + 1));
    json_t *holds = json_object_get(worker, "holds");
    if (json_array_size(holds) < HOLDS_MAX)
        json_array_append_new(holds, held(job));
    return 0;
}

static renderq_status count(reader *r, size_t q)
{
    counted *c = &r->counted[q];
    if (c->known && clock_ms() < c->until_ms)
        return RENDERQ_OK;
    const char *queue = r->service->o.queues[q];
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    renderq_filter filter = RENDERQ_INIT(renderq_filter);
    filter.queue = queue;
    filter.state = RENDERQ_PROCESSING;
    int64_t began = clock_ms();
    renderq_status status = open_handle(r);
    if (status == RENDERQ_OK)
        status = failed(r, renderq_stats(r->h, queue, &counts));
    if (status != RENDERQ_OK)
        return status;
    gathering g = { .workers = json_array(), .names = json_object() };
    status = failed(r, renderq_list(r->h, &filter, gather, &g));
    if (status == RENDERQ_OK) {
        int64_t now = clock_ms(), good = (now - began) * 10;
        json_decref(c->workers);
        *c = (counted){ .known = true, .at_ms = wall_ms(), .until_ms = now + (good > GOOD_MS ? good : GOOD_MS),
                        .counts = counts, .workers = json_incref(g.workers),
                        .workers_total = (int64_t)json_object_size(g.names) };
    }
    json_decref(g.workers);
    json_decref(g.names);
    return status;
}

/* ---- stats ---- */

static size_t queue_of(const reader *r, const exchange *x)
{
    return (size_t)(x->clerk - r->service->clerks);
}

static json_t *counts_object(const renderq_counts *counts)
{
    json_t *made = json_object();
    json_object_set_new(made, "Scheduled", json_integer(counts->scheduled));
    json_object_set_new(made, "Queued", json_integer(counts->queued));
    json_object_set_new(made, "Processing", json_integer(counts->processing));
    json_object_set_new(made, "Completed", json_integer(counts->completed));
    json_object_set_new(made, "DeadLetter", json_integer(counts->dead_letter));
    json_object_set_new(made, "Cancelled", json_integer(counts->cancelled));
    json_object_set_new(made, "Other", json_integer(counts->other));
    return made;
}

static json_t *scan_object(service *s)
{
    scan_state state = scan_read(&s->scan);
    json_t *made = json_object();
    json_object_set_new(made, "every_s", json_integer(s->o.scan_s));
    json_object_set_new(made, "last_at", json_time(state.last_at_ms));
    json_object_set_new(made, "took_ms", json_integer(state.took_ms));
    json_object_set_new(made, "scans", json_integer(state.scans));
    return made;
}

static void stats(reader *r, exchange *x)
{
    size_t q = queue_of(r, x);
    renderq_status status = count(r, q);
    if (status != RENDERQ_OK) {
        answer_status(x, status, r->why);
        return;
    }
    const counted *c = &r->counted[q];
    json_t *made = json_object();
    json_object_set_new(made, "queue", json_text(x->clerk->queue));
    json_object_set_new(made, "at", json_time(c->at_ms));
    json_object_set_new(made, "counts", counts_object(&c->counts));
    json_object_set_new(made, "oldest_queued_ms", json_integer(c->counts.oldest_queued_ms));
    json_object_set_new(made, "run_out", json_integer(c->counts.run_out));
    json_object_set_new(made, "completed_1m", json_integer(c->counts.completed_1m));
    json_object_set_new(made, "completed_5m", json_integer(c->counts.completed_5m));
    json_object_set_new(made, "completed_15m", json_integer(c->counts.completed_15m));
    json_object_set_new(made, "cached", json_integer((json_int_t)__atomic_load_n(&x->clerk->cached, __ATOMIC_RELAXED)));
    json_object_set_new(made, "waiting", json_integer((json_int_t)__atomic_load_n(&x->clerk->waits, __ATOMIC_RELAXED)));
    json_object_set_new(made, "totals", tally_totals(&x->clerk->tally));
    json_object_set_new(made, "throughput", tally_throughput(&x->clerk->tally, (int)x->query[0]));
    json_object_set(made, "workers", c->workers);
    json_object_set_new(made, "workers_total", json_integer(c->workers_total));
    json_object_set_new(made, "scan", scan_object(r->service));
    answer_json(x, 200, made);
}

/* ---- dead letters ---- */

typedef struct dead_page {
    int64_t skip, left;
    json_t *jobs;
    bool more;
} dead_page;

static int take_dead(void *arg, const renderq_job *job)
{
    dead_page *page = arg;
    if (page->skip-- > 0)
        return 0;
    if (page->left-- == 0) {
        page->more = true;
        return 1;
    }
    json_array_append_new(page->jobs, json_job(job));
    return 0;
}

static void dead(reader *r, exchange *x)
{
    renderq_filter filter = RENDERQ_INIT(renderq_filter);
    filter.queue = x->clerk->queue;
    filter.state = RENDERQ_DEAD_LETTER;
    dead_page page = { .skip = x->query[0], .left = x->query[1], .jobs = json_array() };
    renderq_status status = open_handle(r);
    if (status == RENDERQ_OK)
        status = failed(r, renderq_list(r->h, &filter, take_dead, &page));
    if (status != RENDERQ_OK) {
        json_decref(page.jobs);
        answer_status(x, status, r->why);
        return;
    }
    json_t *made = json_object();
    json_object_set_new(made, "queue", json_text(x->clerk->queue));
    json_object_set_new(made, "jobs", page.jobs);
    json_object_set_new(made, "next", page.more ? json_integer(x->query[0] + x->query[1]) : json_null());
    answer_json(x, 200, made);
}

/* ---- metrics ---- */

typedef struct text {
    char *at;
    size_t len, room;
} text;

static void add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(text *t, const char *format, ...)
{
    char piece[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof piece ? (size_t)n : sizeof piece - 1;
    if (t->len + len + 1 > t->room) {
        t->room = (t->len + len + 1) * 2;
        t->at = must_alloc(t->at, t->room);
    }
    memcpy(t->at + t->len, piece, len + 1);
    t->len += len;
}

/* A queue's name as a label's value. */
static const char *label(const char *name, char *room, size_t size)
{
    size_t n = 0;
    for (; *name && n + 3 < size; name++) {
        if (*name == '"' || *name == '\\')
            room[n++] = '\\';
        room[n++] = *name;
    }
    room[n] = 0;
    return room;
}

static void add_jobs(text *t, const char *queue, const renderq_counts *c)
{
    const struct { const char *state; int64_t n; } states[] = {
        { "Scheduled", c->scheduled }, { "Queued", c->queued }, { "Processing", c->processing },
        { "Completed", c->completed }, { "DeadLetter", c->dead_letter }, { "Cancelled", c->cancelled },
        { "Other", c->other },
    };
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        add(t, "renderq_jobs{queue=\"%s\",state=\"%s\"} %lld\n", queue, states[i].state, (long long)states[i].n);
}

static void add_totals(text *t, service *s)
{
    char room[512];
    for (int kind = 0; kind < TALLY_KINDS; kind++) {
        const char *name = tally_name((tally_kind)kind);
        add(t, "# TYPE renderq_%s_total counter\n", name);
        for (size_t q = 0; q < s->o.n_queues; q++)
            add(t, "renderq_%s_total{queue=\"%s\"} %lld\n", name, label(s->o.queues[q], room, sizeof room),
                (long long)tally_total(&s->clerks[q].tally, (tally_kind)kind));
    }
}

static void add_gauges(text *t, service *s)
{
    char room[512];
    add(t, "# HELP renderq_cached Jobs in memory, to be handed out.\n# TYPE renderq_cached gauge\n");
    for (size_t q = 0; q < s->o.n_queues; q++)
        add(t, "renderq_cached{queue=\"%s\"} %zu\n", label(s->o.queues[q], room, sizeof room),
            __atomic_load_n(&s->clerks[q].cached, __ATOMIC_RELAXED));
    add(t, "# HELP renderq_waiting Requests that wait for a job.\n# TYPE renderq_waiting gauge\n");
    for (size_t q = 0; q < s->o.n_queues; q++)
        add(t, "renderq_waiting{queue=\"%s\"} %zu\n", label(s->o.queues[q], room, sizeof room),
            __atomic_load_n(&s->clerks[q].waits, __ATOMIC_RELAXED));
}

static void add_counted(text *t, const reader *r)
{
    char room[512];
    const service *s = r->service;
    add(t, "# HELP renderq_jobs Jobs in each state.\n# TYPE renderq_jobs gauge\n");
    for (size_t q = 0; q < s->o.n_queues; q++)
        add_jobs(t, label(s->o.queues[q], room, sizeof room), &r->counted[q].counts);
    add(t, "# HELP renderq_oldest_queued_seconds Age of the oldest queued job.\n"
           "# TYPE renderq_oldest_queued_seconds gauge\n");
    for (size_t q = 0; q < s->o.n_queues; q++)
        add(t, "renderq_oldest_queued_seconds{queue=\"%s\"} %.3f\n", label(s->o.queues[q], room, sizeof room),
            (double)r->counted[q].counts.oldest_queued_ms / 1000);
    add(t, "# HELP renderq_run_out Leases that have run out and wait for the scan.\n# TYPE renderq_run_out gauge\n");
    for (size_t q = 0; q < s->o.n_queues; q++)
        add(t, "renderq_run_out{queue=\"%s\"} %lld\n", label(s->o.queues[q], room, sizeof room),
            (long long)r->counted[q].counts.run_out);
}

static void metrics(reader *r, exchange *x)
{
    service *s = r->service;
    text t = { .len = 0 };
    renderq_status status = RENDERQ_OK;
    for (size_t q = 0; q < s->o.n_queues && status == RENDERQ_OK; q++)
        status = count(r, q);
    scan_state state = scan_read(&s->scan);
    add(&t, "# HELP renderq_up Whether the database answers.\n# TYPE renderq_up gauge\nrenderq_up %d\n",
        status == RENDERQ_OK);
    if (status == RENDERQ_OK)
        add_counted(&t, r);
    add_gauges(&t, s);
    add_totals(&t, s);
    add(&t, "# TYPE renderq_scans_total counter\nrenderq_scans_total %lld\n", (long long)state.scans);
    add(&t, "# TYPE renderq_scan_seconds gauge\nrenderq_scan_seconds %.3f\n", (double)state.took_ms / 1000);
    add(&t, "# HELP renderq_http_answers_total Answers by code.\n# TYPE renderq_http_answers_total counter\n");
    for (unsigned code = 100; code < 600; code++)
        if (http_answers(code))
            add(&t, "renderq_http_answers_total{code=\"%u\"} %lld\n", code, (long long)http_answers(code));
    answer_text(x, 200, "text/plain; version=0.0.4; charset=utf-8", t.at, t.len);
}

/* ---- the thread ---- */

static void serve(reader *r, exchange *x)
{
    switch (x->route) {
    case ROUTE_STATS: stats(r, x); break;
    case ROUTE_DEAD: dead(r, x); break;
    default: metrics(r, x); break;
    }
}

static void *run(void *arg)
{
    reader *r = arg;
    bool stop = false;
    while (!stop) {
        exchange *x = tray_take(&r->tray, INT64_MAX, &stop);
        while (x) {
            exchange *next = x->next;
            serve(r, x);
            http_resume(x);
            x = next;
        }
    }
    set_handle(r, NULL);
    for (size_t q = 0; q < QUEUES_MAX; q++)
        json_decref(r->counted[q].workers);
    return NULL;
}

bool reader_start(reader *r)
{
    return pthread_create(&r->thread, NULL, run, r) == 0;
}

void reader_stop(reader *r)
{
    tray_stop(&r->tray);
}

void reader_join(reader *r)
{
    pthread_join(r->thread, NULL);
}
