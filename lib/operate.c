/* operate.c: the operator's calls on one job: get, cancel, retry, settle; and those on all of them: retry_dead, reap,
 * purge, stats. They need no lease. Lists are in list.c. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "clock.h"
#include "job.h"
#include "reap.h"

#define BATCH 1000              /* rows in one statement: below where SQL Server locks the whole table */

/* Runs a statement until there is an answer. It must be one that may be asked again. */
static renderq_status ask(renderq *h, const rq_queue *queue, rq_statement_id id, const rq_value *values, size_t n,
                          rq_row_fn row, void *arg)
{
    renderq_status status;
    rq_try tries = rq_first_try(h);
    do
        status = rq_run(h, queue, id, values, n, row, arg);
    while (rq_again(h, &tries, &status));
    return status;
}

/* Between two batches, each of which is done when an interrupt comes: it ends the call there. */
static renderq_status hear(renderq *h)
{
    if (!rq_stop_raised(&h->stop))
        return RENDERQ_OK;
    rq_stop_answer(&h->stop);
    return rq_fault(h, RENDERQ_INTERRUPTED, "interrupted between two batches; the ones before are done");
}

static renderq_status enter(renderq *h, int call, const char *name, rq_queue *room, const rq_queue **queue)
{
    renderq_status status = rq_enter(h, call);
    return status == RENDERQ_OK ? rq_which_queue(h, name, room, queue) : status;
}

static renderq_status enter_with_id(renderq *h, const char *name, rq_queue *room, const rq_queue **queue,
                                    const renderq_id *id, rq_guid *guid)
{
    renderq_status status = enter(h, RQ_JOINS, name, room, queue);
    return status == RENDERQ_OK ? rq_check_id(h, "id", id, guid) : status;
}

/* For a call that changes the job. */
static renderq_status enter_to_change(renderq *h, const char *name, rq_queue *room, const rq_queue **queue,
                                      const renderq_id *id, rq_guid *guid)
{
    renderq_status status = enter_with_id(h, name, room, queue, id, guid);
    return status == RENDERQ_OK ? rq_tx_refuse_received(h, guid, id->text) : status;
}

static renderq_status no_such_job(renderq *h, const rq_queue *queue, const renderq_id *id)
{
    return rq_fault(h, RENDERQ_EMPTY, "there is no job %s in %.200s", id->text, queue->text);
}

/* ---- one job ---- */

renderq_status renderq_get(renderq *h, const char *name, const renderq_id *id, renderq_job **out)
{
    rq_queue room;
    const rq_queue *queue;
    rq_guid guid;
    if (out)
        *out = NULL;
    renderq_status status = enter_with_id(h, name, &room, &queue, id, &guid);
    if (status == RENDERQ_OK && !out)
        status = rq_fault(h, RENDERQ_INVALID, "the pointer for the job is NULL");
    if (status != RENDERQ_OK)
        return status;
    rq_value value = rq_guid_value(&guid);
    rq_jobs found = { .h = h, .queue = queue, .jobs = out, .max = 1 };
    rq_try tries = rq_first_try(h);
    do {
        rq_jobs_clear(&found);
        found.asked_ms = rq_clock_ms();
        status = rq_run(h, queue, RQ_GET, &value, 1, rq_jobs_add, &found);
    } while (rq_again(h, &tries, &status));
    if (status != RENDERQ_OK)
        rq_jobs_clear(&found);
    return status != RENDERQ_OK || found.n ? status : no_such_job(h, queue, id);
}

/* What a statement said of the one job it was about. */
typedef struct outcome {
    bool seen;
    int64_t said;               /* changed or not; a retry: RQ_DONE, RQ_HELD, RQ_THERE */
    renderq_state state;
    rq_guid holder;
} outcome;

static renderq_status take_changed(void *arg, size_t item, const rq_value *columns)
{
    (void)item;
    *(outcome *)arg = (outcome){ .seen = true, .said = columns[0].number, .state = rq_state_parse(&columns[1]) };
    return RENDERQ_OK;
}

/* A job that is already where it was asked to go counts as done: the call may be a repeat. */
static renderq_status judge(renderq *h, const rq_queue *queue, const renderq_id *id, const outcome *o,
                            renderq_state wanted, const char *verb)
{
    if (!o->seen)
        return no_such_job(h, queue, id);
    if (o->said || o->state == wanted)
        return RENDERQ_OK;
    return rq_fault(h, RENDERQ_LOST, "job %s is %s and cannot be %s", id->text, renderq_strstate(o->state), verb);
}

renderq_status renderq_cancel(renderq *h, const char *name, const renderq_id *id)
{
    rq_queue room;
    const rq_queue *queue;
    rq_guid guid;
    outcome o = { .seen = false };
    renderq_status status = enter_to_change(h, name, &room, &queue, id, &guid);
    if (status != RENDERQ_OK)
        return status;
    rq_value value = rq_guid_value(&guid);
    status = ask(h, queue, RQ_CANCEL, &value, 1, take_changed, &o);
    return status == RENDERQ_OK ? judge(h, queue, id, &o, RENDERQ_CANCELLED, "cancelled") : status;
}

renderq_status renderq_settle(renderq *h, const char *name, const renderq_id *id, const char *output_url,
                              unsigned flags)
{
    rq_queue room;
    const rq_queue *queue;
    rq_guid guid;
    outcome o = { .seen = false };
    renderq_status status = enter_to_change(h, name, &room, &queue, id, &guid);
    if (status == RENDERQ_OK)
        status = rq_check_text(h, NULL, &rq_output_url_field, output_url);
    if (status == RENDERQ_OK && (flags & ~RENDERQ_SPARE_RENEWED))
        status = rq_fault(h, RENDERQ_INVALID, "flags are %#x: only RENDERQ_SPARE_RENEWED is known", flags);
    if (status != RENDERQ_OK)
        return status;
    rq_value values[] = { rq_guid_value(&guid), rq_text(output_url), rq_number(flags & RENDERQ_SPARE_RENEWED) };
    status = ask(h, queue, RQ_SETTLE, values, 1, take_changed, &o);
    return status == RENDERQ_OK ? judge(h, queue, id, &o, RENDERQ_COMPLETED, "settled: its worker renews its lease")
                                : status;
}

static renderq_status take_retried(void *arg, size_t item, const rq_value *columns)
{
    outcome *o = &((outcome *)arg)[item];
    *o = (outcome){ .seen = true, .said = columns[0].number, .state = rq_state_parse(&columns[2]) };
    if (columns[1].present)
        memcpy(o->holder.sort, columns[1].bytes, sizeof o->holder.sort);
    else if (o->said == RQ_HELD)
        o->said = RQ_THERE;         /* by nobody */
    return RENDERQ_OK;
}

/* A job that is Completed when this is asked again may be so because the first ask counted; to queue it once more would
 * be to do it twice. So then only what is certainly not done is queued. *lost: whether a reply was lost. */
static renderq_status ask_retry(renderq *h, const rq_queue *queue, const rq_guid *id, outcome *o, bool *lost)
{
    renderq_status status;
    rq_try tries = rq_first_try(h);
    bool still_cancelled = false;
    do {
        rq_value values[] = { rq_guid_value(id), rq_number(tries.maybe && !still_cancelled) };
        *o = (outcome){ .seen = false };
        status = rq_run(h, queue, RQ_RETRY, values, 1, take_retried, o);
        still_cancelled = status == RENDERQ_OK && values[1].number && o->said == RQ_THERE
                          && o->state == RENDERQ_CANCELLED;
    } while (still_cancelled || rq_again(h, &tries, &status));
    *lost = tries.maybe;
    return status;
}

renderq_status renderq_retry(renderq *h, const char *name, const renderq_id *id, renderq_id *holder)
{
    rq_queue room;
    const rq_queue *queue;
    rq_guid guid;
    outcome o = { .seen = false };
    bool lost = false;
    renderq_status status = enter_to_change(h, name, &room, &queue, id, &guid);
    if (status == RENDERQ_OK)
        status = ask_retry(h, queue, &guid, &o, &lost);
    if (status != RENDERQ_OK)
        return status;
    if (o.seen && o.said == RQ_HELD) {
        renderq_id text;
        rq_guid_print(&o.holder, &text);
        if (holder)
            *holder = text;
        return rq_fault(h, RENDERQ_DUPLICATE, "job %s, which is live, holds the dedup key of job %s", text.text,
                        id->text);
    }
    o.said = o.said == RQ_DONE;
    if (lost && o.seen && !o.said && o.state == RENDERQ_COMPLETED)
        return rq_fault(h, RENDERQ_LOST,
                        "job %s is Completed, perhaps since this call queued it, for a reply was lost: look at it, and "
                        "retry it again if it still has to be", id->text);
    return judge(h, queue, id, &o, RENDERQ_QUEUED, "retried");
}

/* ---- all of them ---- */

/* A page of dead letters, as the values of a retry. */
typedef struct page {
    size_t n;
    rq_guid ids[BATCH];
    rq_value values[BATCH * 2];
    outcome outcomes[BATCH];
} page;

static renderq_status take_dead(void *arg, size_t item, const rq_value *columns)
{
    (void)item;
    page *p = arg;
    if (p->n < BATCH && columns[RQ_JOB_ID].present) {
        memcpy(p->ids[p->n].sort, columns[RQ_JOB_ID].bytes, sizeof p->ids[0].sort);
        p->n++;
    }
    return RENDERQ_OK;
}

static renderq_status read_page(renderq *h, const rq_queue *queue, const rq_guid *after, page *p)
{
    rq_value values[] = { rq_guid_value(after), rq_text(renderq_strstate(RENDERQ_DEAD_LETTER)), rq_text(NULL),
                          rq_text(NULL), rq_number(BATCH) };
    renderq_status status;
    rq_try tries = rq_first_try(h);
    do {
        p->n = 0;
        status = rq_run(h, queue, RQ_LIST, values, 1, take_dead, p);
    } while (rq_again(h, &tries, &status));
    return status;
}

static renderq_status retry_page(renderq *h, const rq_queue *queue, page *p, renderq_retried *counts)
{
    for (size_t i = 0; i < p->n; i++) {
        p->values[2 * i] = rq_guid_value(&p->ids[i]);
        p->values[2 * i + 1] = rq_number(1);
    }
    memset(p->outcomes, 0, sizeof p->outcomes);
    renderq_status status = ask(h, queue, RQ_RETRY, p->values, p->n, take_retried, p->outcomes);
    for (size_t i = 0; i < p->n && status == RENDERQ_OK; i++) {
        counts->retried += p->outcomes[i].seen && p->outcomes[i].said == RQ_DONE;
        counts->duplicates += p->outcomes[i].seen && p->outcomes[i].said == RQ_HELD;
    }
    return status;
}

renderq_status renderq_retry_dead(renderq *h, const char *name, renderq_retried *given)
{
    rq_queue room;
    const rq_queue *queue;
    renderq_retried counts;
    renderq_status status = enter(h, RQ_ALONE, name, &room, &queue);
    if (status == RENDERQ_OK)
        status = rq_take_struct(h, "renderq_retried", given, &counts, sizeof counts);
    if (status != RENDERQ_OK)
        return status;
    page *p = calloc(1, sizeof *p);
    if (!p)
        return rq_fault(h, RENDERQ_NOMEM, "out of memory; nothing was done");
    counts.retried = counts.duplicates = 0;
    rq_guid last;
    bool later = false;
    do {
        status = read_page(h, queue, later ? &last : NULL, p);
        if (status == RENDERQ_OK && p->n > 0) {
            last = p->ids[p->n - 1];
            later = true;
            status = retry_page(h, queue, p, &counts);
        }
    } while (status == RENDERQ_OK && p->n == BATCH && (status = hear(h)) == RENDERQ_OK);
    free(p);
    if (given)
        rq_give_item(given, 0, &counts, sizeof counts);
    return status;
}

static renderq_status take_reaped(void *arg, size_t item, const rq_value *columns)
{
    (void)item;
    rq_reaped *counts = arg;
    if (rq_state_parse(&columns[1]) == RENDERQ_DEAD_LETTER)
        counts->dead++;
    else
        counts->returned++;
    return RENDERQ_OK;
}

renderq_status rq_reap_batch(renderq *h, const rq_queue *queue, int batch, rq_reaped *counts)
{
    rq_value value = rq_number(batch);
    *counts = (rq_reaped){ .returned = 0 };
    renderq_status status = rq_run(h, queue, RQ_REAP, &value, 1, take_reaped, counts);
    if (status != RENDERQ_OK)
        *counts = (rq_reaped){ .returned = 0 };
    if (counts->returned + counts->dead > 0)
        rq_log(h, RENDERQ_LOG_INFO, "leases run out in %s: %lld jobs go back, %lld are dead letters", queue->text,
               (long long)counts->returned, (long long)counts->dead);
    return status;
}

renderq_status renderq_reap(renderq *h, const char *name, renderq_reaped *given)
{
    rq_queue room;
    const rq_queue *queue;
    renderq_reaped counts;
    rq_reaped batch = { .returned = 0 };
    renderq_status status = enter(h, RQ_ALONE, name, &room, &queue);
    if (status == RENDERQ_OK)
        status = rq_take_struct(h, "renderq_reaped", given, &counts, sizeof counts);
    if (status != RENDERQ_OK)
        return status;
    counts.returned = counts.dead = 0;
    do {
        rq_try tries = rq_first_try(h);
        do
            status = rq_reap_batch(h, queue, BATCH, &batch);
        while (rq_again(h, &tries, &status));
        counts.returned += batch.returned;
        counts.dead += batch.dead;
    } while (status == RENDERQ_OK && batch.returned + batch.dead == BATCH && (status = hear(h)) == RENDERQ_OK);
    if (given)
        rq_give_item(given, 0, &counts, sizeof counts);
    return status;
}

static renderq_status add_count(void *arg, size_t item, const rq_value *columns)
{
    (void)item;
    if (columns[0].number > 0 && columns[0].number <= INT32_MAX)
        *(int64_t *)arg += columns[0].number;
    return RENDERQ_OK;
}

renderq_status renderq_purge(renderq *h, const char *name, int64_t older_than_s, int64_t *deleted)
{
    rq_queue room;
    const rq_queue *queue;
    int64_t all = 0, batch;
    if (deleted)
        *deleted = 0;
    renderq_status status = enter(h, RQ_ALONE, name, &room, &queue);
    if (status == RENDERQ_OK && (older_than_s < 60 || older_than_s > RENDERQ_DELAY_MAX_MS / 1000))
        status = rq_fault(h, RENDERQ_INVALID,
                          "older_than_s is %lld: it is 60 or more, so that a call that is being repeated still finds "
                          "its job, and at most %lld", (long long)older_than_s,
                          (long long)(RENDERQ_DELAY_MAX_MS / 1000));
    if (status != RENDERQ_OK)
        return status;
    rq_value values[] = { rq_number(older_than_s), rq_number(BATCH) };
    do {
        rq_try tries = rq_first_try(h);
        do {
            batch = 0;
            status = rq_run(h, queue, RQ_PURGE, values, 1, add_count, &batch);
        } while (rq_again(h, &tries, &status));
        all += status == RENDERQ_OK ? batch : 0;
        /* It deletes as many of each kind. */
    } while (status == RENDERQ_OK && batch >= BATCH && (status = hear(h)) == RENDERQ_OK);
    if (deleted)
        *deleted = all;
    return status;
}

/* One row, always. */
typedef struct tally {
    bool seen;
    renderq_counts counts;
} tally;

static renderq_status take_counts(void *arg, size_t item, const rq_value *columns)
{
    (void)item;
    tally *t = arg;
    renderq_counts *counts = &t->counts;
    t->seen = true;
    int64_t *fields[] = {
        &counts->scheduled, &counts->queued, &counts->processing, &counts->completed, &counts->dead_letter,
        &counts->cancelled, &counts->other, &counts->oldest_queued_ms, &counts->run_out, &counts->completed_1m,
        &counts->completed_5m, &counts->completed_15m
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        *fields[i] = columns[i].number;
    return RENDERQ_OK;
}

renderq_status renderq_stats(renderq *h, const char *name, renderq_counts *given)
{
    rq_queue room;
    const rq_queue *queue;
    tally t = { .seen = false };
    renderq_status status = enter(h, RQ_JOINS, name, &room, &queue);
    if (status == RENDERQ_OK && !given)
        status = rq_fault(h, RENDERQ_INVALID, "the pointer for the counts is NULL");
    if (status == RENDERQ_OK)
        status = rq_take_struct(h, "renderq_counts", given, &t.counts, sizeof t.counts);
    if (status == RENDERQ_OK)
        status = ask(h, queue, RQ_STATS, NULL, 1, take_counts, &t);
    if (status == RENDERQ_OK && !t.seen)
        status = rq_senseless(h, "no counts");
    if (status == RENDERQ_OK)
        rq_give_item(given, 0, &t.counts, sizeof t.counts);
    return status;
}
