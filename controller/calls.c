/* calls.c: the quick calls on jobs of one queue. Requests that came together are sent together where the library can:
 * new jobs, and completes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/record.h"
#include "clerk.h"
#include "http.h"
#include "json.h"
#include "log.h"
#include "service.h"

#define MANY 256                        /* exchanges in one request to the database */

/* Whether a request may have been refused for one of the items in it, so that the others are asked for alone. */
static bool is_refused(renderq_status status)
{
    return status == RENDERQ_INVALID || status == RENDERQ_FAILED || status == RENDERQ_SCHEMA;
}

/* ---- leases that were ended here ---- */

static void answer_of_call(clerk *c, exchange *x, renderq_status status)
{
    clerk_heard(c, status);
    answer_status(x, status, renderq_errmsg(c->h));
}

static void remember_ended(clerk *c, const exchange *x, const renderq_id *lease, int retry_count, bool maybe)
{
    c->ended[c->n_ended++ % ENDED_MAX] = (ended){ .id = x->id, .lease = *lease, .route = x->route, .maybe = maybe,
                                                  .retry_count = retry_count };
}

/* What is known last of the same call under this lease; NULL: nothing. */
static const ended *find_ended(const clerk *c, const exchange *x, const renderq_id *lease)
{
    size_t n = c->n_ended < ENDED_MAX ? c->n_ended : ENDED_MAX;
    for (size_t i = 1; i <= n; i++) {
        const ended *e = &c->ended[(c->n_ended - i) % ENDED_MAX];
        if (e->route == x->route && strcmp(e->id.text, x->id.text) == 0 && strcmp(e->lease.text, lease->text) == 0)
            return e;
    }
    return NULL;
}

static void ended_well(clerk *c, exchange *x, const renderq_id *lease, int retry_count)
{
    tally_kind kind = x->route == ROUTE_COMPLETE ? TALLY_COMPLETED
                      : x->route == ROUTE_FAIL   ? TALLY_FAILED
                                                 : TALLY_RELEASED;
    remember_ended(c, x, lease, retry_count, false);
    tally_add(&c->tally, kind, 1);
    answer_outcome(x, 200, &x->id, RENDERQ_OK);
    if (x->route != ROUTE_COMPLETE)
        store_hint(c);
}

static void ended_badly(clerk *c, exchange *x, const renderq_id *lease, int retry_count, renderq_status status)
{
    if (status == RENDERQ_UNCERTAIN)
        remember_ended(c, x, lease, retry_count, true);
    answer_of_call(c, x, status);
}

/* Whether a call that was UNCERTAIN counted, when the lease is not there any more. A count that has grown is that of
 * this lease's failure, and one that has not was ended without one. */
static bool has_counted(const ended *e, const exchange *x, const renderq_job *job)
{
    const char *output_url = field_text(x, "output_url");
    if (e->route == ROUTE_FAIL)
        return job->retry_count > e->retry_count;
    if (e->route == ROUTE_COMPLETE)
        return job->state == RENDERQ_COMPLETED
               && (!output_url || (job->output_url && strcmp(job->output_url, output_url) == 0));
    bool goes_on = job->state == RENDERQ_QUEUED || job->state == RENDERQ_SCHEDULED || job->state == RENDERQ_PROCESSING;
    return goes_on && job->retry_count == e->retry_count;
}

/* The lease is lost: a repeat of what ended it is answered as the first one was, or should have been. */
static void answer_lost(clerk *c, exchange *x, const renderq_id *lease)
{
    const ended *e = find_ended(c, x, lease);
    renderq_job *job = NULL;
    renderq_status status = e && e->maybe ? renderq_get(c->h, c->queue, &x->id, &job) : RENDERQ_OK;
    if (is_away(status))
        answer_of_call(c, x, status);
    else if (job && has_counted(e, x, job))
        ended_well(c, x, lease, e->retry_count);
    else if (e && !e->maybe)
        answer_outcome(x, 200, &x->id, RENDERQ_OK);
    else
        answer_status(x, RENDERQ_LOST, "the lease is not yours any more: it ran out, or the job was ended");
    renderq_job_free(job);
}

/* ---- calls under a lease ---- */

/* The job that the exchange is about, from its id and lease. NULL: it is answered. */
static renderq_job *resume(clerk *c, exchange *x, renderq_id *lease)
{
    renderq_job *job = NULL;
    guid_read(field_text(x, "lease"), lease);
    if (!clerk_ready(c)) {
        clerk_answer_away(c, x);
        return NULL;
    }
    renderq_status status = renderq_job_resume(c->h, c->queue, &x->id, lease, &job);
    if (status == RENDERQ_LOST)
        answer_lost(c, x, lease);
    else if (status != RENDERQ_OK)
        answer_of_call(c, x, status);
    return job;
}

static void renew(clerk *c, exchange *x)
{
    renderq_id lease;
    renderq_job *job = resume(c, x, &lease);
    if (!job)
        return;
    renderq_status status = renderq_renew(c->h, job, field_text(x, "progress"));
    if (status == RENDERQ_OK) {
        json_t *made = json_object();
        json_object_set_new(made, "id", json_text(job->id.text));
        json_object_set_new(made, "status", json_text("OK"));
        json_object_set_new(made, "lease_left_ms", json_integer(renderq_lease_left_ms(job)));
        answer_json(x, 200, made);
    } else {
        answer_of_call(c, x, status);
    }
    renderq_job_free(job);
}

static int64_t retry_ms(const exchange *x)
{
    const char *word = field_text(x, "retry_ms");
    if (word)
        return strcmp(word, "never") == 0 ? RENDERQ_NEVER : RENDERQ_BACKOFF;
    return field_integer(x, "retry_ms", RENDERQ_BACKOFF);
}

static void fail(clerk *c, exchange *x)
{
    renderq_id lease;
    renderq_job *job = resume(c, x, &lease);
    if (!job)
        return;
    renderq_status status = renderq_fail(c->h, job, field_text(x, "error"), retry_ms(x));
    if (status == RENDERQ_OK)
        ended_well(c, x, &lease, job->retry_count);
    else
        ended_badly(c, x, &lease, job->retry_count, status);
    renderq_job_free(job);
}

static void release(clerk *c, exchange *x)
{
    renderq_id lease;
    renderq_job *job = resume(c, x, &lease);
    if (!job)
        return;
    renderq_status status = renderq_release(c->h, job, field_integer(x, "delay_ms", 0));
    if (status == RENDERQ_OK)
        ended_well(c, x, &lease, job->retry_count);
    else
        ended_badly(c, x, &lease, job->retry_count, status);
    renderq_job_free(job);
}

static void complete_some(clerk *c, exchange **some, size_t n)
{
    renderq_result results[MANY];
    renderq_job *jobs[MANY];
    renderq_id leases[MANY];
    exchange *asked[MANY];
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        exchange *x = some[i];
        char why[256];
        const char *output_url = field_text(x, "output_url");
        if (output_url && !service_output_fits(c->service, output_url, why, sizeof why)) {
            answer_error(x, 400, "bad_request", "%s", why);
            continue;
        }
        jobs[k] = resume(c, x, &leases[k]);
        if (!jobs[k])
            continue;
        results[k] = (renderq_result)RENDERQ_INIT(renderq_result);
        results[k].job = jobs[k];
        results[k].output_url = output_url;
        asked[k++] = x;
    }
    renderq_status status = k ? renderq_complete_many(c->h, results, k) : RENDERQ_OK;
    /* One that can never work must not keep the others out. */
    bool alone = is_refused(status);
    for (size_t i = 0; i < k; i++) {
        bool ask = alone && clerk_ready(c);
        renderq_status own = ask ? renderq_complete(c->h, jobs[i], results[i].output_url) : results[i].status;
        if (alone && !ask)
            clerk_answer_away(c, asked[i]);
        else if (own == RENDERQ_OK)
            ended_well(c, asked[i], &leases[i], jobs[i]->retry_count);
        else if (own == RENDERQ_LOST)
            answer_lost(c, asked[i], &leases[i]);
        else
            ended_badly(c, asked[i], &leases[i], jobs[i]->retry_count, own);
        renderq_job_free(jobs[i]);
    }
}

/* ---- new jobs ---- */

/* Reads one object of the body. False: `why` is what is wrong. */
static bool read_new_job(const clerk *c, const char *text, size_t len, record *out, char *why, size_t size)
{
    if (!record_read(text, len, out, why, size))
        return false;
    out->job.queue = c->queue;
    if (!out->job.output_url || service_output_fits(c->service, out->job.output_url, why, size))
        return true;
    record_free(out);
    return false;
}

static void answer_enqueued(clerk *c, exchange *x, const renderq_id *id, renderq_status status)
{
    if (status != RENDERQ_OK && status != RENDERQ_DUPLICATE) {
        answer_of_call(c, x, status);
        return;
    }
    if (status == RENDERQ_OK)
        tally_add(&c->tally, TALLY_ENQUEUED, 1);
    answer_outcome(x, status == RENDERQ_OK ? 201 : 200, id, status);
    store_hint(c);
}

static void enqueue_some(clerk *c, exchange **some, size_t n)
{
    record records[MANY];
    renderq_new_job jobs[MANY];
    renderq_enqueued each[MANY];
    exchange *asked[MANY];
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        exchange *x = some[i];
        char why[512];
        bad_place where;
        if (!json_check(x->body ? x->body : "", x->body_len, &where)) {
            answer_bad_json(x, &where);
        } else if (!read_new_job(c, x->body, x->body_len, &records[k], why, sizeof why)) {
            answer_error(x, 400, "bad_request", "%s", why);
        } else if (!clerk_ready(c)) {
            record_free(&records[k]);
            clerk_answer_away(c, x);
        } else {
            jobs[k] = records[k].job;
            each[k] = (renderq_enqueued)RENDERQ_INIT(renderq_enqueued);
            asked[k++] = x;
        }
    }
    renderq_status status = k ? renderq_enqueue_many(c->h, jobs, k, each) : RENDERQ_OK;
    /* One that is refused must not keep the others out. */
    bool alone = is_refused(status);
    for (size_t i = 0; i < k; i++) {
        if (alone && !clerk_ready(c))
            clerk_answer_away(c, asked[i]);
        else
            answer_enqueued(c, asked[i], &each[i].id,
                            alone ? renderq_enqueue(c->h, &jobs[i], &each[i].id) : each[i].status);
        record_free(&records[i]);
    }
}

/* -- as lines -- */

typedef struct bulk {
    clerk *c;
    json_t *answers;                    /* an array, in the lines' order */
    size_t n, room;
    record *records;
    renderq_new_job *jobs;
    renderq_enqueued *each;
    struct { int line; size_t at; } *places;    /* of each: in the body, and in the answers */
    renderq_status given_up;            /* what the rest is told, which is not tried; OK: go on */
    bool sent;                          /* something is in */
    renderq_status failed;              /* ... or the last reason that is not a line's own, and its text */
    char why[512];
} bulk;

static void set_answer(const bulk *b, size_t at, int line, const renderq_id *id, const char *status, const char *error)
{
    json_t *made = json_object();
    json_object_set_new(made, "line", json_integer(line));
    if (id)
        json_object_set_new(made, "id", json_text(id->text));
    json_object_set_new(made, "status", json_text(status));
    if (error)
        json_object_set_new(made, "error", json_text(error));
    json_array_set_new(b->answers, at, made);
}

static void add_outcome(bulk *b, size_t i, renderq_status status, const char *why)
{
    bool in = status == RENDERQ_OK || status == RENDERQ_DUPLICATE;
    bool known = in || status == RENDERQ_UNCERTAIN;
    set_answer(b, b->places[i].at, b->places[i].line, known ? &b->each[i].id : NULL, renderq_strstatus(status),
               in ? NULL : why);
    if (!in && status != RENDERQ_INVALID) {
        b->failed = status;
        if (why != b->why)
            snprintf(b->why, sizeof b->why, "%s", why);
    }
    if (status == RENDERQ_OK)
        tally_add(&b->c->tally, TALLY_ENQUEUED, 1);
    b->sent = b->sent || in;
}

/* The rest waits for no database that is away, nor does the stop wait for the rest. What was not sent is not
 * UNCERTAIN. */
static void give_up(bulk *b, renderq_status status, const char *why)
{
    b->given_up = status == RENDERQ_UNCERTAIN ? RENDERQ_DISCONNECTED : status;
    snprintf(b->why, sizeof b->why, "%s", why);
}

/* Line i by itself. */
static void send_alone(bulk *b, size_t i)
{
    clerk *c = b->c;
    renderq_status status = clerk_heard(c, renderq_enqueue(c->h, &b->jobs[i], &b->each[i].id));
    add_outcome(b, i, status, renderq_errmsg(c->h));
    if (is_away(status) || status == RENDERQ_INTERRUPTED)
        give_up(b, status, renderq_errmsg(c->h));
}

/* Sends what has been collected. Lines that are refused for what they are get their own text. */
static void send_lines(bulk *b)
{
    clerk *c = b->c;
    if (b->n > 0 && b->given_up == RENDERQ_OK && !clerk_ready(c))
        give_up(b, c->away_status, c->away_text);
    bool sends = b->n > 0 && b->given_up == RENDERQ_OK;
    for (size_t i = 0; i < b->n; i++)
        b->each[i] = (renderq_enqueued)RENDERQ_INIT(renderq_enqueued);
    renderq_status status = sends ? clerk_heard(c, renderq_enqueue_many(c->h, b->jobs, b->n, b->each)) : RENDERQ_OK;
    for (size_t i = 0; i < b->n; i++) {
        if (b->given_up != RENDERQ_OK)
            add_outcome(b, i, b->given_up, b->why);
        else if (is_refused(status))
            send_alone(b, i);
        else
            add_outcome(b, i, status == RENDERQ_OK ? b->each[i].status : status, renderq_errmsg(c->h));
        record_free(&b->records[i]);
    }
    if (status != RENDERQ_OK && !is_refused(status))
        give_up(b, status, renderq_errmsg(c->h));
    b->n = 0;
    store_hint(c);
}

static void take_line(bulk *b, int line, const char *text, size_t len)
{
    char why[512];
    size_t at = json_array_size(b->answers);
    json_array_append_new(b->answers, json_null());
    if (!read_new_job(b->c, text, len, &b->records[b->n], why, sizeof why)) {
        set_answer(b, at, line, NULL, "INVALID", why);
        return;
    }
    b->jobs[b->n] = b->records[b->n].job;
    b->places[b->n].line = line;
    b->places[b->n++].at = at;
    if (b->n == b->room)
        send_lines(b);
}

static char *lines_of(json_t *answers, size_t *len)
{
    size_t i;
    json_t *answer;
    char *all = must_copy("");
    *len = 0;
    json_array_foreach(answers, i, answer) {
        size_t n;
        char *line = json_line(json_incref(answer), &n);
        all = must_alloc(all, *len + n + 1);
        memcpy(all + *len, line, n + 1);
        *len += n;
        free(line);
    }
    return all;
}

static void enqueue_lines(clerk *c, exchange *x)
{
    enum { ROOM = 1000 };
    bulk b = { .c = c, .answers = json_array(), .room = ROOM };
    b.records = must_alloc(NULL, ROOM * sizeof *b.records);
    b.jobs = must_alloc(NULL, ROOM * sizeof *b.jobs);
    b.each = must_alloc(NULL, ROOM * sizeof *b.each);
    b.places = must_alloc(NULL, ROOM * sizeof *b.places);
    const char *at = x->body ? x->body : "", *end = at + x->body_len;
    for (int line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        size_t len = (size_t)(stop - at);
        size_t blank = 0;
        while (blank < len && strchr(" \t\r", at[blank]) && at[blank])
            blank++;
        if (blank < len)
            take_line(&b, line, at, len);
        at = stop + 1;
    }
    send_lines(&b);
    if (b.failed != RENDERQ_OK && !b.sent) {
        answer_status(x, b.failed, b.why);
    } else {
        size_t len;
        char *text = lines_of(b.answers, &len);
        answer_text(x, 200, "application/x-ndjson", text, len);
    }
    json_decref(b.answers);
    free(b.records);
    free(b.jobs);
    free(b.each);
    free(b.places);
}

/* ---- without a lease ---- */

static void get(clerk *c, exchange *x)
{
    renderq_job *job = NULL;
    renderq_status status = renderq_get(c->h, c->queue, &x->id, &job);
    if (status == RENDERQ_OK)
        answer_json(x, 200, json_job(job));
    else
        answer_of_call(c, x, status);
    renderq_job_free(job);
}

static void retry(clerk *c, exchange *x)
{
    renderq_id holder = { "" };
    renderq_status status = renderq_retry(c->h, c->queue, &x->id, &holder);
    if (status == RENDERQ_OK) {
        answer_outcome(x, 200, &x->id, RENDERQ_OK);
        store_hint(c);
    } else if (status == RENDERQ_LOST) {
        answer_error(x, 409, "wrong_state", "%s", renderq_errmsg(c->h));
    } else if (status == RENDERQ_DUPLICATE) {
        json_t *made = json_error_object("duplicate", renderq_errmsg(c->h));
        json_object_set_new(json_object_get(made, "error"), "holder", json_text(holder.text));
        answer_json(x, 409, made);
    } else {
        answer_of_call(c, x, status);
    }
}

/* Asks for a job that cannot be there: any answer will do. */
static void ready(clerk *c, exchange *x)
{
    static const renderq_id none = { "00000000-0000-0000-0000-000000000000" };
    renderq_job *job = NULL;
    renderq_status status = renderq_get(c->h, c->queue, &none, &job);
    renderq_job_free(job);
    if (status == RENDERQ_OK || status == RENDERQ_EMPTY) {
        json_t *made = json_object();
        json_object_set_new(made, "status", json_text("ok"));
        answer_json(x, 200, made);
    } else {
        answer_of_call(c, x, status);
    }
}

/* ---- all of them ---- */

static const struct {
    route_id route;
    void (*call)(clerk *c, exchange *x);
} single_calls[] = {
    { ROUTE_JOB, get }, { ROUTE_RETRY, retry }, { ROUTE_READY, ready }, { ROUTE_RENEW, renew }, { ROUTE_FAIL, fail },
    { ROUTE_RELEASE, release },
};

static void serve_one(clerk *c, exchange *x)
{
    if (x->route == ROUTE_ENQUEUE) {
        enqueue_lines(c, x);
        return;
    }
    if (x->route == ROUTE_GIVE_BACK) {
        store_give_back(c, x->job);
        return;
    }
    if (!clerk_ready(c)) {
        clerk_answer_away(c, x);
        return;
    }
    for (size_t i = 0; i < sizeof single_calls / sizeof single_calls[0]; i++)
        if (single_calls[i].route == x->route)
            single_calls[i].call(c, x);
}

static void finish(exchange *x)
{
    if (x->route != ROUTE_GIVE_BACK) {
        http_resume(x);
        return;
    }
    free(x->answer);                    /* this one was never the HTTP thread's */
    free(x);
}

/* Whether it can share a request with others of its kind. */
static bool can_share(const exchange *x)
{
    return x->route == ROUTE_COMPLETE || (x->route == ROUTE_ENQUEUE && !x->lines);
}

void calls_serve(clerk *c, exchange *first)
{
    while (first) {
        exchange *some[MANY];
        size_t n = 0;
        route_id route = first->route;
        bool share = can_share(first);
        while (first && n < MANY && (n == 0 || (share && can_share(first) && first->route == route))) {
            some[n++] = first;
            first = first->next;
        }
        if (share && route == ROUTE_COMPLETE)
            complete_some(c, some, n);
        else if (share)
            enqueue_some(c, some, n);
        else
            serve_one(c, some[0]);
        for (size_t i = 0; i < n; i++)
            finish(some[i]);
    }
}
