/* claim.c: jobs taken from a queue under a lease: the claim itself, the wait for work, the claims whose reply was
 * lost, and the reaping that claims do on the way. */
#include <stdlib.h>
#include <string.h>

#include "backoff.h"
#include "check.h"
#include "claim.h"
#include "clock.h"
#include "reap.h"

#define POLL_CAP_MS      2000
#define REAP_IDLE_MS     10000      /* how often a handle that finds nothing reaps */
#define REAP_BUSY_MS     60000      /* ... and one that finds work */
#define REAP_BATCH       100

/* ---- ghosts: claims that may still take effect ---- */

static rq_ghost *ghost_place(renderq *h)
{
    rq_ghost *oldest = &h->ghosts[0];
    for (size_t i = 0; i < RQ_GHOSTS_MAX; i++) {
        if (!h->ghosts[i].queue)
            return &h->ghosts[i];
        if (h->ghosts[i].until_ms < oldest->until_ms)
            oldest = &h->ghosts[i];
    }
    return oldest;
}

static void bury(rq_ghost *ghost)
{
    free(ghost->queue);
    ghost->queue = NULL;
}

/* Without memory for it the ghost's lease runs out by itself, which counts a failure of the job: no worse. */
static void remember_ghost(const rq_claim *c, const rq_guid *token)
{
    rq_ghost *ghost = ghost_place(c->h);
    bury(ghost);
    *ghost = (rq_ghost){ .token = *token, .queue = strdup(c->queue->text),
                         .until_ms = rq_clock_ms() + (int64_t)c->lease_s * 1000 };
    rq_log(c->h, RENDERQ_LOG_WARNING, "the reply to a claim on %s was lost; the next claims look for it",
           c->queue->text);
}

static renderq_status look_up(renderq *h, const rq_queue *queue, const rq_guid *token, rq_jobs *found)
{
    rq_value value = rq_guid_value(token);
    found->asked_ms = rq_clock_ms();
    renderq_status status = rq_run(h, queue, RQ_CLAIMED, &value, 1, rq_jobs_add, found);
    if (status != RENDERQ_OK)
        rq_jobs_clear(found);
    return status;
}

/* The jobs of a claim that nobody has in hand: their ids are enough to give them back. */
typedef struct taken {
    size_t n;
    rq_guid ids[RENDERQ_CLAIM_MAX];
} taken;

static renderq_status take_id(void *arg, size_t item, const rq_value *columns)
{
    (void)item;
    taken *t = arg;
    if (t->n < RENDERQ_CLAIM_MAX && columns[RQ_JOB_ID].present)
        memcpy(t->ids[t->n++].sort, columns[RQ_JOB_ID].bytes, sizeof t->ids[0].sort);
    return RENDERQ_OK;
}

static renderq_status ignore_row(void *arg, size_t item, const rq_value *columns)
{
    (void)arg;
    (void)item;
    (void)columns;
    return RENDERQ_OK;
}

/* FAILED with ids: a text of theirs cannot be read, so there may be more of them. */
static renderq_status look_for_ids(renderq *h, const rq_queue *queue, const rq_guid *token, taken *t)
{
    rq_value value = rq_guid_value(token);
    t->n = 0;
    return rq_run(h, queue, RQ_CLAIMED, &value, 1, take_id, t);
}

/* RELEASE or START. */
static bool on_each(renderq *h, const rq_queue *queue, const rq_guid *token, rq_statement_id id, const taken *t)
{
    bool done = true;
    rq_value none = { .present = false }, delay_ms = rq_number(0);
    for (size_t i = 0; i < t->n && done; i++) {
        rq_value ask[] = { rq_guid_value(&t->ids[i]), rq_guid_value(token), id == RQ_RELEASE ? delay_ms : none, none,
                           none };
        done = rq_run(h, queue, id, ask, 1, ignore_row, NULL) == RENDERQ_OK;
    }
    return done;
}

/* Releases, uncounted, what the look found. False: it is not known, ask again later. */
static bool release_found(renderq *h, const rq_queue *queue, const rq_guid *token, renderq_status looked,
                          const taken *t)
{
    taken rest;
    if (looked != RENDERQ_OK && (looked != RENDERQ_FAILED || t->n == 0))
        return false;
    if (!on_each(h, queue, token, RQ_RELEASE, t))
        return false;
    return looked == RENDERQ_OK || (look_for_ids(h, queue, token, &rest) == RENDERQ_OK && rest.n == 0);
}

/* Releases what a claim took, asking once; *n is how many. */
static bool give_back(renderq *h, const rq_queue *queue, const rq_guid *token, size_t *n)
{
    taken t;
    renderq_status looked = look_for_ids(h, queue, token, &t);
    *n = t.n;
    return release_found(h, queue, token, looked, &t);
}

void rq_claim_return(const rq_claim *c, const rq_guid *token)
{
    size_t n;
    rq_error said = c->h->error;
    if (!give_back(c->h, c->queue, token, &n))
        remember_ghost(c, token);
    c->h->error = said;
}

/* A fault leaves the ghosts for the next claim, which must not wait for each of them. */
static void release_ghosts(const rq_claim *c)
{
    bool answered = true;
    for (size_t i = 0; i < RQ_GHOSTS_MAX && answered; i++) {
        rq_ghost *ghost = &c->h->ghosts[i];
        size_t n = 0;
        if (ghost->queue && rq_clock_ms() > ghost->until_ms)
            bury(ghost);
        if (!ghost->queue || strcmp(ghost->queue, c->queue->text) != 0)
            continue;
        answered = give_back(c->h, c->queue, &ghost->token, &n);
        if (answered && n > 0) {
            rq_log(c->h, RENDERQ_LOG_INFO, "released what a claim on %s took whose reply was lost", c->queue->text);
            bury(ghost);
        }
    }
}

/* ---- reaping on the way ---- */

static int64_t *reaped_at(renderq *h, const rq_queue *queue)
{
    rq_reap_time *oldest = &h->reap_times[0];
    for (size_t i = 0; i < RQ_REAP_TIMES_MAX; i++) {
        rq_reap_time *time = &h->reap_times[i];
        if (time->queue && strcmp(time->queue, queue->text) == 0)
            return &time->at_ms;
        if (!time->queue || (oldest->queue && time->at_ms < oldest->at_ms))
            oldest = time;
    }
    free(oldest->queue);
    *oldest = (rq_reap_time){ .queue = strdup(queue->text), .at_ms = INT64_MIN };
    return &oldest->at_ms;
}

/* A fault here is not the claim's: it is logged, and the claim goes on. An interrupt ends the claim. */
static bool reap_now(const rq_claim *c, int64_t *at_ms)
{
    rq_reaped counts;
    rq_error said = c->h->error;
    *at_ms = rq_clock_ms();
    renderq_status status = rq_reap_batch(c->h, c->queue, REAP_BATCH, &counts);
    if (status != RENDERQ_OK)
        rq_log(c->h, RENDERQ_LOG_WARNING, "leases of %s were not reaped: %s", c->queue->text, c->h->error.text);
    c->h->error = said;
    return counts.returned > 0;
}

static void reap_if_busy(const rq_claim *c)
{
    int64_t *at_ms = reaped_at(c->h, c->queue);
    int64_t last = *at_ms == INT64_MIN ? c->h->opened_at_ms : *at_ms;
    if (!c->no_reap && rq_clock_ms() - last >= REAP_BUSY_MS)
        reap_now(c, at_ms);
}

/* Whether asking once more is worth it. */
static bool reap_if_idle(const rq_claim *c)
{
    int64_t *at_ms = reaped_at(c->h, c->queue);
    if (c->no_reap || (*at_ms != INT64_MIN && rq_clock_ms() - *at_ms < REAP_IDLE_MS))
        return false;
    return reap_now(c, at_ms);
}

/* ---- one claim ---- */

static renderq_status ask(rq_claim *c, const rq_guid *token)
{
    rq_value values[] = { rq_text(c->worker), rq_guid_value(token), rq_number(c->lease_s), rq_number(c->unstarted),
                          rq_number((int64_t)c->found.max) };
    c->found.asked_ms = rq_clock_ms();
    renderq_status status = rq_run(c->h, c->queue, RQ_CLAIM, values, 1, rq_jobs_add, &c->found);
    if (status != RENDERQ_OK)
        rq_jobs_clear(&c->found);
    return status;
}

static renderq_status fresh_token(renderq *h, rq_guid *token)
{
    return rq_guid_random(token) ? RENDERQ_OK
                                 : rq_fault(h, RENDERQ_FAILED, "the kernel gives no random bytes for a lease token");
}

/* Jobs whose rows could not be taken go back: an engine that cannot take them back itself has leased them all the same.
 * But one alone that cannot be read is left to its lease as if its worker had died, so that it does not come round for
 * ever. False: it is not known, ask again later. */
static bool settle_unseen(rq_claim *c, const rq_guid *token)
{
    taken t;
    bool done;
    rq_error said = c->h->error;
    renderq_status looked = look_for_ids(c->h, c->queue, token, &t);
    c->unread = looked == RENDERQ_FAILED ? t.n : 0;
    if (c->unread > 0 && c->found.max == 1) {
        done = on_each(c->h, c->queue, token, RQ_START, &t);
        rq_log(c->h, RENDERQ_LOG_WARNING, "a job of %s cannot be handed out, and waits for its lease to run out: %s",
               c->queue->text, said.text);
    } else {
        done = release_found(c->h, c->queue, token, looked, &t);
    }
    c->h->error = said;
    return done;
}

/* One try. After a lost reply the token is looked for; if no row has it, the request may still be on its way, so its
 * token is remembered and another one is asked with. *lost: whether the token may have taken what nobody has in hand. */
static renderq_status claim_try(rq_claim *c, rq_guid *token, bool *lost)
{
    renderq_status status;
    if (*lost) {
        status = look_up(c->h, c->queue, token, &c->found);
        if (status != RENDERQ_OK || c->found.n > 0)
            return status;
        remember_ghost(c, token);
        *lost = false;
        status = fresh_token(c->h, token);
        if (status != RENDERQ_OK)
            return status;
    }
    status = ask(c, token);
    *lost = status == RENDERQ_UNCERTAIN;
    return status;
}

/* What became of a claim that was interrupted. */
static renderq_status look_once(rq_claim *c, const rq_guid *token, const rq_try *tries, bool *lost)
{
    rq_error said = c->h->error;
    renderq_status status = look_up(c->h, c->queue, token, &c->found);
    if (status == RENDERQ_OK && c->found.n > 0)
        return RENDERQ_OK;
    if (status == RENDERQ_OK && !tries->loose) {
        *lost = false;
        return rq_fault(c->h, RENDERQ_INTERRUPTED, "interrupted; nothing was claimed");
    }
    c->h->error = said;
    return RENDERQ_UNCERTAIN;
}

/* Asks until there is an answer. */
static renderq_status claim_once(rq_claim *c)
{
    rq_guid token;
    c->unread = 0;
    renderq_status status = fresh_token(c->h, &token);
    if (status != RENDERQ_OK)
        return status;
    bool lost = false;
    renderq_status said;
    rq_try tries = rq_first_try(c->h);
    do
        said = status = claim_try(c, &token, &lost);
    while (rq_again(c->h, &tries, &status));
    if (lost && rq_can_look(c->h, &tries, status))
        status = look_once(c, &token, &tries, &lost);
    else if (!lost && (said == RENDERQ_NOMEM || said == RENDERQ_FAILED))
        lost = !settle_unseen(c, &token);
    if (lost && status != RENDERQ_OK)
        remember_ghost(c, &token);
    if (status == RENDERQ_OK && c->found.n == 0)
        status = rq_fault(c->h, RENDERQ_EMPTY, "no job is ready in %.200s", c->queue->text);
    return status;
}

/* One text that cannot be read spoils the answer for all the jobs of a claim. One by one its neighbours get through.
 * Where there are none, the answer is about that text. */
static renderq_status claim_apart(rq_claim *c)
{
    rq_error said = c->h->error;
    renderq_status status = RENDERQ_FAILED;
    size_t max = c->found.max;
    c->found.max = 1;
    for (size_t i = 0; i <= RENDERQ_CLAIM_MAX && c->unread > 0 && !rq_stop_raised(&c->h->stop); i++)
        status = claim_once(c);
    c->found.max = max;
    if (status != RENDERQ_EMPTY)
        return status;
    c->h->error = said;
    return RENDERQ_FAILED;
}

renderq_status rq_claim_once(rq_claim *c)
{
    release_ghosts(c);
    reap_if_busy(c);
    renderq_status status = claim_once(c);
    if (status == RENDERQ_EMPTY && reap_if_idle(c))
        status = claim_once(c);
    return c->unread > 0 ? claim_apart(c) : status;
}

renderq_status rq_claim_interrupted(renderq *h)
{
    rq_stop_answer(&h->stop);
    return rq_fault(h, RENDERQ_INTERRUPTED, "interrupted while it waited for a job; nothing was claimed");
}

renderq_status rq_claim_wait(rq_claim *c, renderq_status (*once)(rq_claim *c))
{
    int64_t began_ms = rq_clock_ms();
    for (unsigned empty_reads = 1;; empty_reads++) {
        if (rq_stop_raised(&c->h->stop))
            return rq_claim_interrupted(c->h);
        renderq_status status = once(c);
        if (status == RENDERQ_EMPTY && rq_stop_raised(&c->h->stop))
            return rq_claim_interrupted(c->h);      /* the reaping was */
        if (status != RENDERQ_EMPTY || c->wait_ms == 0)
            return status;
        int64_t wait = rq_poll_ms(empty_reads, POLL_CAP_MS, rq_jitter());
        if (c->wait_ms != RENDERQ_FOREVER) {
            int64_t left = began_ms + c->wait_ms - rq_clock_ms();
            if (left <= 0)
                return status;
            wait = wait < left ? wait : left;
        }
        if (rq_stop_sleep(&c->h->stop, wait))
            return rq_claim_interrupted(c->h);
    }
}

renderq_status rq_claim_take(renderq *h, const renderq_claim_options *given, rq_claim *c)
{
    *c = (rq_claim){ .h = h };
    renderq_claim_options options;
    renderq_status status = rq_take_struct(h, "renderq_claim_options", given, &options, sizeof options);
    if (status == RENDERQ_OK)
        status = rq_which_queue(h, options.queue, &c->room, &c->queue);
    if (status == RENDERQ_OK)
        status = rq_check_text(h, NULL, &rq_worker_field, options.worker);
    if (status == RENDERQ_OK)
        status = rq_check_lease_s(h, options.lease_s);
    if (status == RENDERQ_OK && options.wait_ms != RENDERQ_FOREVER)
        status = rq_check_delay(h, NULL, "wait_ms", options.wait_ms);
    if (status != RENDERQ_OK)
        return status;
    c->worker = options.worker ? options.worker : h->worker;
    c->lease_s = options.lease_s ? options.lease_s : RENDERQ_LEASE_DEFAULT_S;
    c->wait_ms = options.wait_ms;
    c->unstarted = options.unstarted == RENDERQ_CAUTIOUS ? RENDERQ_CAUTIOUS : options.unstarted != 0;
    c->no_reap = options.no_reap != 0;
    return RENDERQ_OK;
}

void rq_claim_into(rq_claim *c, renderq_job **out, size_t max)
{
    c->found = (rq_jobs){ .h = c->h, .queue = c->queue, .jobs = out, .max = max, .leased = true,
                          .lease_s = c->lease_s };
}

static renderq_status claim_into(renderq *h, const renderq_claim_options *options, renderq_job **out, size_t max,
                                 size_t *n)
{
    rq_claim c;
    renderq_status status = rq_claim_take(h, options, &c);
    if (status != RENDERQ_OK)
        return status;
    rq_claim_into(&c, out, max);
    rq_error before = h->error;
    status = rq_claim_wait(&c, rq_claim_once);
    if (status == RENDERQ_OK)
        h->error = before;          /* what failed on the way, a reap or an empty read, is not this call's */
    rq_jobs_sort(&c.found, true);
    *n = c.found.n;
    return status;
}

renderq_status renderq_claim(renderq *h, const renderq_claim_options *options, renderq_job **out)
{
    size_t n = 0;
    if (out)
        *out = NULL;
    renderq_status status = rq_enter(h, RQ_WAITS | RQ_ALONE);
    if (status != RENDERQ_OK)
        return status;
    if (!out)
        return rq_fault(h, RENDERQ_INVALID, "the pointer for the job is NULL");
    return claim_into(h, options, out, 1, &n);
}

renderq_status renderq_claim_many(renderq *h, const renderq_claim_options *options, renderq_job **out, size_t max,
                                  size_t *n)
{
    if (n)
        *n = 0;
    if (out && max <= RENDERQ_CLAIM_MAX)
        memset(out, 0, max * sizeof out[0]);
    renderq_status status = rq_enter(h, RQ_WAITS | RQ_ALONE);
    if (status != RENDERQ_OK)
        return status;
    if (!out || !n)
        return rq_fault(h, RENDERQ_INVALID, "the pointer for the jobs or for their number is NULL");
    if (max < 1 || max > RENDERQ_CLAIM_MAX)
        return rq_fault(h, RENDERQ_INVALID, "max is %zu: one claim takes 1 to %d jobs", max, RENDERQ_CLAIM_MAX);
    return claim_into(h, options, out, max, n);
}
