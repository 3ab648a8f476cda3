/* enqueue.c: jobs put into a queue, one or many. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "clock.h"

/* The values of one item, in the order of the statement's parameters. */
enum { ID, COMPOSITION, PAYLOAD, OUTPUT_URL, DEDUP_KEY, PRIORITY, MAX_RETRIES, DELAY, VALUES };

/* A new id is tried when somebody's row has the one we made; more often than that is no accident. */
#define COLLISIONS_MAX 5

typedef struct batch {
    size_t n;
    rq_value *values;           /* n * VALUES */
    rq_guid *ids;
    renderq_enqueued *results;  /* status EMPTY: the engine has not spoken of it */
    bool repeat;                /* an earlier try may have counted: a row under our id is ours */
    bool collided;
} batch;

static renderq_status take_result(void *arg, size_t item, const rq_value *columns)
{
    batch *b = arg;
    renderq_enqueued *result = &b->results[item];
    int64_t said = columns[0].number;
    /* What says nothing that is known says nothing: the item stays without an answer. */
    bool known = columns[0].present && said >= RQ_DONE && said <= RQ_THERE && (said != RQ_HELD || columns[1].present);
    if (result->status != RENDERQ_EMPTY || !known)
        return RENDERQ_OK;
    if (said == RQ_THERE && !b->repeat) {
        b->collided = true;
        return RENDERQ_OK;
    }
    result->status = said == RQ_HELD ? RENDERQ_DUPLICATE : RENDERQ_OK;
    rq_guid id = b->ids[item];
    if (said == RQ_HELD)
        memcpy(id.sort, columns[1].bytes, sizeof id.sort);
    rq_guid_print(&id, &result->id);
    return RENDERQ_OK;
}

static renderq_status new_ids(renderq *h, batch *b)
{
    if (!rq_guid_ordered(&h->order, rq_clock_unix_ms(), b->ids, b->n))
        return rq_fault(h, RENDERQ_FAILED, "the kernel gives no random bytes for a new id");
    for (size_t i = 0; i < b->n; i++)
        b->values[i * VALUES + ID] = rq_guid_value(&b->ids[i]);
    return RENDERQ_OK;
}

/* Forgets what a failed try said. */
static void forget(batch *b)
{
    b->collided = false;
    for (size_t i = 0; i < b->n; i++)
        b->results[i].status = RENDERQ_EMPTY;
}

static renderq_status send(renderq *h, const rq_queue *queue, batch *b)
{
    renderq_status status;
    rq_try tries = rq_first_try(h);
    do {
        b->repeat = tries.maybe;
        forget(b);
        status = rq_run(h, queue, RQ_ENQUEUE, b->values, b->n, take_result, b);
    } while (rq_again(h, &tries, &status));
    if (status != RENDERQ_OK)
        forget(b);                  /* what the rows said was taken back */
    return status;
}

/* The items whose id somebody else's row has are sent again, each by itself, under new ids. */
static renderq_status send_collided(renderq *h, const rq_queue *queue, batch *all)
{
    renderq_status status = RENDERQ_OK;
    for (size_t i = 0; i < all->n && status == RENDERQ_OK; i++)
        for (int tries = 0; all->results[i].status == RENDERQ_EMPTY && status == RENDERQ_OK; tries++) {
            if (tries == COLLISIONS_MAX)
                return rq_fault(h, RENDERQ_FAILED, "no free id was found in %d tries", tries);
            batch one = { .n = 1, .values = all->values + i * VALUES, .ids = all->ids + i,
                          .results = all->results + i };
            status = new_ids(h, &one);
            if (status == RENDERQ_OK)
                status = send(h, queue, &one);
        }
    return status;
}

static renderq_status send_all(renderq *h, const rq_queue *queue, batch *b)
{
    renderq_status status = send(h, queue, b);
    if (status == RENDERQ_OK && b->collided)
        status = send_collided(h, queue, b);
    for (size_t i = 0; i < b->n && status == RENDERQ_OK; i++)
        if (b->results[i].status == RENDERQ_EMPTY)
            status = rq_fault(h, RENDERQ_UNCERTAIN, "the engine did not say what became of item %zu", i);
    return status;
}

static renderq_status check_job(renderq *h, const char *where, const renderq_new_job *job, size_t *payload_len)
{
    *payload_len = job->payload_len || !job->payload_json ? job->payload_len : strlen(job->payload_json);
    renderq_status status = rq_check_text(h, where, &rq_composition_field, job->composition_id);
    if (status == RENDERQ_OK)
        status = rq_check_bytes(h, where, &rq_payload_field, job->payload_json, *payload_len);
    if (status == RENDERQ_OK)
        status = rq_check_text(h, where, &rq_output_url_field, job->output_url);
    if (status == RENDERQ_OK)
        status = rq_check_text(h, where, &rq_dedup_key_field, job->dedup_key);
    if (status == RENDERQ_OK && job->max_retries < RENDERQ_NO_RETRY)
        status = rq_fault(h, RENDERQ_INVALID, "%smax_retries is %d: it is a number, 0 for %d, or RENDERQ_NO_RETRY",
                          where, job->max_retries, RENDERQ_RETRIES_DEFAULT);
    if (status == RENDERQ_OK)
        status = rq_check_delay(h, where, "delay_ms", job->delay_ms);
    return status;
}

static renderq_status take_job(renderq *h, const char *where, const renderq_new_job *job, rq_value *values)
{
    size_t payload_len;
    renderq_status status = check_job(h, where, job, &payload_len);
    if (status != RENDERQ_OK)
        return status;
    values[COMPOSITION] = rq_text(job->composition_id);
    values[PAYLOAD] = rq_bytes(job->payload_json, payload_len);
    values[OUTPUT_URL] = rq_text(job->output_url);
    values[DEDUP_KEY] = rq_text(job->dedup_key);
    values[PRIORITY] = rq_number(job->priority);
    if (job->max_retries)
        values[MAX_RETRIES] = rq_number(job->max_retries == RENDERQ_NO_RETRY ? 0 : job->max_retries);
    values[DELAY] = rq_number(job->delay_ms);
    return RENDERQ_OK;
}

static renderq_status take_header(renderq *h, const renderq_new_job *given, renderq_new_job *job)
{
    return given ? rq_take_struct(h, "renderq_new_job", given, job, sizeof *job)
                 : rq_fault(h, RENDERQ_INVALID, "the new job is NULL");
}

renderq_status renderq_enqueue(renderq *h, const renderq_new_job *given, renderq_id *id)
{
    renderq_new_job job;
    rq_value values[VALUES] = { { .present = false } };
    rq_guid guid;
    renderq_enqueued result = RENDERQ_INIT(renderq_enqueued);
    batch b = { .n = 1, .values = values, .ids = &guid, .results = &result };
    rq_queue room;
    const rq_queue *queue;
    renderq_status status = rq_enter(h, RQ_JOINS);
    if (status == RENDERQ_OK)
        status = take_header(h, given, &job);
    if (status == RENDERQ_OK)
        status = rq_which_queue(h, job.queue, &room, &queue);
    if (status == RENDERQ_OK)
        status = take_job(h, "", &job, values);
    if (status == RENDERQ_OK)
        status = new_ids(h, &b);
    if (status != RENDERQ_OK)
        return status;
    status = send_all(h, queue, &b);
    if (status == RENDERQ_UNCERTAIN)
        rq_guid_print(&guid, &result.id);
    if (id && (status == RENDERQ_OK || status == RENDERQ_UNCERTAIN))
        *id = result.id;
    if (status == RENDERQ_OK && result.status == RENDERQ_DUPLICATE)
        return rq_fault(h, RENDERQ_DUPLICATE, "job %s holds the dedup key \"%.200s\" already", result.id.text,
                        job.dedup_key);
    return status;
}

/* ---- many ---- */

static renderq_status batch_new(renderq *h, size_t n, batch *b)
{
    *b = (batch){ .n = n, .values = calloc(n * VALUES, sizeof *b->values), .ids = calloc(n, sizeof *b->ids),
                  .results = calloc(n, sizeof *b->results) };
    if (!b->values || !b->ids || !b->results)
        return rq_fault(h, RENDERQ_NOMEM, "out of memory for %zu jobs; nothing was done", n);
    return RENDERQ_OK;
}

static void batch_free(batch *b)
{
    free(b->values);
    free(b->ids);
    free(b->results);
}

static bool same_queue(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Every item is looked at, so that each bad one can be told; the text is the first one's. The first names the queue. */
static renderq_status take_items(renderq *h, const renderq_new_job *jobs, rq_queue *room, const rq_queue **queue,
                                 batch *b)
{
    renderq_status all = RENDERQ_OK;
    rq_error said = h->error;
    const char *name = NULL;
    bool named = false;
    for (size_t i = 0; i < b->n; i++) {
        renderq_new_job job;
        char where[40];
        snprintf(where, sizeof where, "item %zu: ", i);
        renderq_status status = rq_take_item(h, "renderq_new_job", jobs, i, &job, sizeof job);
        if (status == RENDERQ_OK && i == 0) {
            name = job.queue;
            named = true;
            status = rq_which_queue(h, name, room, queue);
        }
        if (status != RENDERQ_OK)
            status = rq_fault(h, status, "%s%s", where, h->error.text);
        else if (named && !same_queue(job.queue, name))
            status = rq_fault(h, RENDERQ_INVALID, "%sits queue is another than the first item's", where);
        if (status == RENDERQ_OK)
            status = take_job(h, where, &job, b->values + i * VALUES);
        b->results[i].status = status == RENDERQ_INVALID ? RENDERQ_INVALID : RENDERQ_EMPTY;
        if (all == RENDERQ_OK && status != RENDERQ_OK) {
            all = status;
            said = h->error;
        }
    }
    h->error = said;
    return all;
}

static void give_results(renderq_enqueued *each, const batch *b, renderq_status status)
{
    for (size_t i = 0; each && i < b->n; i++) {
        renderq_enqueued result = RENDERQ_INIT(renderq_enqueued);
        if (b->results)         /* without them, memory ran out */
            result = b->results[i];
        if (status == RENDERQ_UNCERTAIN) {
            result.status = RENDERQ_UNCERTAIN;
            rq_guid_print(&b->ids[i], &result.id);
        } else if (status != RENDERQ_OK && status != RENDERQ_INVALID) {
            result.status = status;
        }
        rq_give_item(each, i, &result, sizeof result);
    }
}

static renderq_status check_many(renderq *h, const renderq_new_job *jobs, size_t n, const renderq_enqueued *each)
{
    renderq_enqueued probe;
    if (n > RENDERQ_ENQUEUE_MAX)
        return rq_fault(h, RENDERQ_INVALID, "%zu jobs are too many for one call: at most %d", n, RENDERQ_ENQUEUE_MAX);
    if (!jobs)
        return rq_fault(h, RENDERQ_INVALID, "the array of new jobs is NULL");
    return rq_take_struct(h, "renderq_enqueued", each, &probe, sizeof probe);
}

renderq_status renderq_enqueue_many(renderq *h, const renderq_new_job *jobs, size_t n, renderq_enqueued *each)
{
    rq_queue room;
    const rq_queue *queue = NULL;
    renderq_status status = rq_enter(h, RQ_JOINS);
    if (status != RENDERQ_OK || n == 0)
        return status;
    status = check_many(h, jobs, n, each);
    if (status != RENDERQ_OK)
        return status;
    batch b;
    status = batch_new(h, n, &b);
    if (status == RENDERQ_OK)
        status = take_items(h, jobs, &room, &queue, &b);
    if (status == RENDERQ_OK)
        status = new_ids(h, &b);
    if (status == RENDERQ_OK)
        status = send_all(h, queue, &b);
    give_results(each, &b, status);
    batch_free(&b);
    return status;
}
