/* model.c: a queue on one page, and the search for an order of all calls on a job that explains every answer.
 *
 * A call takes effect at one moment between its two audit lines. So the answers are true if the calls can be put in an
 * order in which each has a moment of its own, the rules of the queue lead to each answer, and the job ends as its row
 * shows it. What no process says is put between where it is needed: a lease that is reaped, a delay that is over, and
 * a claim by a worker that was killed before it could write down what it got. Every moment is the earliest possible,
 * which is right because the rules only ever say "not before": a lease is not reaped before its end. */
#include "race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW      64                  /* calls of which the order is open at a time */
#define SEEN_SLOTS  (1u << 20)          /* of situations that lead nowhere */
#define TRIES_MAX   2000000             /* calls that take long overlap with many */
#define HIDDEN_MAX  3                   /* unheard claims of one job */
#define ANONYMOUS   (-2)                /* the lease of an unheard claim, or start; then -3, ... */

typedef struct situation {              /* compared by its bytes: there is no gap in it */
    int64_t now_us, due_us, lease_us;   /* the moment; when a delay is over; when the lease may be reaped */
    int64_t untold_us;                  /* by then the row no longer tells what was done under `untold` */
    uint64_t done;                      /* of the window, from `first` on */
    size_t first;
    int state;                          /* a renderq_state; 0: not enqueued yet */
    int retries, lease, worker, url, started, hidden;
    int ghost;                          /* the lease is one that nobody has in hand */
    int ended;                          /* the lease under which it was failed or released last, until it is cleared */
    int untold;                         /* a lease under which something was done and told LOST; -1: none */
} situation;

typedef struct search {
    history *t;
    const race_job *job;
    int hidden_max, hidden, tries;      /* hidden: those in the order that was found */
    situation best;                     /* the farthest that came out */
    size_t best_count;
} search;

static uint64_t seen[SEEN_SLOTS];
static size_t n_seen;

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- the rules ---- */

static bool ended(const situation *s)
{
    return s->state == RENDERQ_COMPLETED || s->state == RENDERQ_DEAD_LETTER || s->state == RENDERQ_CANCELLED;
}

static void wait_or_queue(situation *s, int64_t delay_ms)
{
    s->state = delay_ms > 0 ? RENDERQ_SCHEDULED : RENDERQ_QUEUED;
    s->due_us = s->now_us + delay_ms * 1000 - RACE_SLACK_US;
}

static void begin_lease(situation *s)
{
    s->lease_us = s->now_us + RACE_LEASE_US - RACE_SLACK_US;
}

static void end_lease(situation *s)
{
    s->lease = s->worker = s->ended = -1;
    s->started = s->ghost = 0;
}

static void count_failure(const race_job *job, situation *s, int64_t delay_ms)
{
    bool dead = delay_ms == RENDERQ_NEVER || s->retries >= job->max_retries;
    s->retries++;
    if (delay_ms == RENDERQ_BACKOFF)
        delay_ms = INT64_C(1000) << s->retries;
    if (dead)
        s->state = RENDERQ_DEAD_LETTER;
    else
        wait_or_queue(s, delay_ms);
    end_lease(s);
}

static bool take(situation *s, int lease, int worker, bool unstarted)
{
    if (s->state == RENDERQ_SCHEDULED)
        s->now_us = later(s->now_us, s->due_us);
    else if (s->state != RENDERQ_QUEUED)
        return false;
    s->state = RENDERQ_PROCESSING;
    s->ended = -1;
    s->lease = lease;
    s->worker = worker;
    s->started = !unstarted;
    begin_lease(s);
    return true;
}

static bool claim(const race_job *job, const race_op *op, situation *s)
{
    return op->status == RENDERQ_OK && op->retries == s->retries && op->max_retries == job->max_retries
           && op->text == job->name && take(s, op->lease, op->actor, op->number != 0);
}

/* Whether the row still says that this was done under this lease. */
static bool was_done(const race_op *op, const situation *s)
{
    bool waits = s->state == RENDERQ_SCHEDULED || s->state == RENDERQ_QUEUED || s->state == RENDERQ_DEAD_LETTER;
    if (op->step == STEP_COMPLETE)
        return s->state == RENDERQ_COMPLETED && s->url == op->lease;
    return waits && s->ended == op->lease && s->retries == op->retries + (op->step == STEP_FAIL);
}

static bool by_owner(const race_job *job, const race_op *op, situation *s)
{
    bool mine = s->state == RENDERQ_PROCESSING && s->lease == op->lease;
    if (op->again && op->status == RENDERQ_OK)
        return was_done(op, s);
    if (mine != (op->status == RENDERQ_OK) || !mine)
        return !mine && op->status == RENDERQ_LOST;
    if (op->step == STEP_START || op->step == STEP_RENEW)
        begin_lease(s);
    if (op->step == STEP_START) {
        s->started = 1;
        if (op->text >= 0) {
            s->worker = op->text;
            s->lease = op->maybe ? ANONYMOUS - HIDDEN_MAX : op->fresh;
        }
    } else if (op->step == STEP_COMPLETE) {
        s->state = RENDERQ_COMPLETED;
        s->url = op->lease;
        s->lease = -1;
    } else if (op->step == STEP_FAIL) {
        count_failure(job, s, op->number);
        s->ended = op->lease;
    } else if (op->step == STEP_RELEASE) {
        wait_or_queue(s, op->number);
        end_lease(s);
        s->ended = op->lease;
    }
    return true;
}

static bool cancel(const race_op *op, situation *s)
{
    bool live = s->state && !ended(s);
    if (!live)
        return (op->status == RENDERQ_OK) == (s->state == RENDERQ_CANCELLED);
    s->state = RENDERQ_CANCELLED;
    end_lease(s);
    return op->status == RENDERQ_OK;
}

static bool retry(const race_job *job, const race_op *op, situation *s)
{
    if (op->status == RENDERQ_DUPLICATE)
        return ended(s) && job->key >= 0;
    if (!ended(s))
        return (op->status == RENDERQ_OK) == (s->state == RENDERQ_QUEUED);
    if (op->doubtful && op->status == RENDERQ_LOST && s->state == RENDERQ_COMPLETED)
        return true;                    /* it did not dare */
    wait_or_queue(s, 0);
    end_lease(s);
    s->retries = 0;
    return op->status == RENDERQ_OK;
}

/* Whether a call can have been answered so now, and what it leaves. */
static bool apply(const race_job *job, const race_op *op, situation *s)
{
    s->now_us = later(s->now_us, op->before_us);
    bool fits = false;
    switch (op->step) {
    case STEP_ENQUEUE:
        fits = s->state == 0;
        wait_or_queue(s, op->number);
        break;
    case STEP_CLAIM:
        fits = claim(job, op, s);
        break;
    case STEP_CANCEL:
        fits = s->state && cancel(op, s);
        break;
    case STEP_RETRY:
        fits = s->state && retry(job, op, s);
        break;
    case STEP_HELD:
        fits = s->state && !ended(s);
        break;
    case STEP_NOT_HELD:
        fits = !s->state || ended(s);
        break;
    default:
        fits = by_owner(job, op, s);
        break;
    }
    return fits && s->now_us <= op->after_us;
}

/* A lease that has run out, or a delay that is over: done by a call on some other job. */
static bool happens_by_itself(const race_job *job, situation *s)
{
    if (s->state == RENDERQ_SCHEDULED) {
        s->now_us = later(s->now_us, s->due_us);
        s->state = RENDERQ_QUEUED;
        return true;
    }
    if (s->state != RENDERQ_PROCESSING)
        return false;
    s->now_us = later(s->now_us, s->lease_us);
    if (s->started) {
        count_failure(job, s, RENDERQ_BACKOFF);
    } else {
        wait_or_queue(s, 0);
        end_lease(s);
    }
    return true;
}

/* What a ghost took is given back, and counts nothing, by the next claim of its handle. */
static bool is_given_back(situation *s)
{
    if (s->state != RENDERQ_PROCESSING || !s->ghost)
        return false;
    wait_or_queue(s, 0);
    end_lease(s);
    return true;
}

static bool is_row(const race_job *job, const situation *s)
{
    const race_row *row = &job->row;
    return (int)row->state == s->state && row->retries == s->retries && row->worker == s->worker
           && row->lease == s->url;
}

/* ---- the search ---- */

/* Marks a situation; false: it was met before, and leads nowhere. */
static bool first_time(const situation *s, int salt)
{
    uint64_t hash = 14695981039346656037u ^ (uint64_t)salt;
    const unsigned char *bytes = (const unsigned char *)s;
    for (size_t i = 0; i < sizeof *s; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    hash += hash == 0;
    if (n_seen * 2 >= SEEN_SLOTS) {
        memset(seen, 0, sizeof seen);
        n_seen = 0;
    }
    size_t slot = hash & (SEEN_SLOTS - 1);
    while (seen[slot] && seen[slot] != hash)
        slot = (slot + 1) & (SEEN_SLOTS - 1);
    if (seen[slot])
        return false;
    seen[slot] = hash;
    n_seen++;
    return true;
}

static bool is_done(const situation *s, size_t i)
{
    return i < s->first || (i - s->first < WINDOW && (s->done >> (i - s->first) & 1));
}

static void set_done(situation *s, size_t i)
{
    s->done |= UINT64_C(1) << (i - s->first);
    while (s->done & 1) {
        s->done >>= 1;
        s->first++;
    }
}

/* The moment by which some call that is left has returned: no other that begins later can come before it. */
static int64_t until(const search *f, const situation *s, bool *all_done)
{
    int64_t min = RACE_NEVER_US;
    *all_done = true;
    for (size_t i = s->first; i < f->job->n; i++) {
        const race_op *op = f->job->ops[i];
        if (is_done(s, i) || op->maybe)
            continue;
        *all_done = false;
        if (op->before_us > min)
            break;
        min = op->after_us < min ? op->after_us : min;
    }
    return min;
}

static bool reaches_row(search *f, const situation *s);

/* Call i, answered so, comes next. *idle: it changed nothing, and not even the time. */
static bool after_this(search *f, const situation *s, size_t i, const race_op *op, int64_t until_us, bool *idle)
{
    situation next = *s, same = *s;
    *idle = false;
    if (!apply(f->job, op, &next) || next.now_us > until_us)
        return false;
    set_done(&next, i);
    same.done = next.done;
    same.first = next.first;
    *idle = memcmp(&same, &next, sizeof same) == 0;
    return reaches_row(f, &next);
}

/* It was done, and then told LOST when it was asked again: because something had come after it that hid it. */
static bool after_this_unheard(search *f, const situation *s, size_t i, int64_t until_us)
{
    race_op op = *f->job->ops[i];
    situation next = *s;
    op.status = RENDERQ_OK;
    op.maybe = true;
    if (!apply(f->job, &op, &next) || next.now_us > until_us)
        return false;
    set_done(&next, i);
    if (op.lease >= 0) {
        next.untold = next.state == RENDERQ_PROCESSING ? next.lease : op.lease;
        next.untold_us = op.after_us;
    }
    return reaches_row(f, &next);
}

/* False: the row went on telling, and the repeat should have seen it. */
static bool was_hidden(situation *s)
{
    bool told = s->state == RENDERQ_COMPLETED ? s->url == s->untold
                                              : s->lease == s->untold || s->ended == s->untold;
    if (s->untold == -1 || (told && s->now_us <= s->untold_us))
        return true;
    s->untold = -1;
    s->untold_us = 0;
    return !told;
}

static bool after_a_call(search *f, const situation *s, int64_t until_us)
{
    for (size_t i = s->first; i < f->job->n && i - s->first < WINDOW; i++) {
        const race_op *op = f->job->ops[i];
        bool idle;
        if (op->before_us > until_us)
            break;
        if (is_done(s, i))
            continue;
        if (after_this(f, s, i, op, until_us, &idle) || (op->doubtful && after_this_unheard(f, s, i, until_us)))
            return true;
        if (idle && !op->maybe && !op->doubtful)
            return false;       /* if there is an order, there is one that begins with it */
    }
    return false;
}

static bool after_an_unheard_claim(search *f, const situation *s, int64_t until_us)
{
    for (size_t i = 0; s->hidden < f->hidden_max && i < f->t->n_claims; i++) {
        const race_op *op = f->t->claims[i];
        situation next = *s;
        next.now_us = later(next.now_us, op->before_us);
        if (!take(&next, ANONYMOUS - s->hidden, op->actor, op->number != 0) || next.now_us > op->after_us
            || next.now_us > until_us)
            continue;
        next.hidden++;
        next.ghost = op->ghost;
        if (reaches_row(f, &next))
            return true;
    }
    return false;
}

static bool reaches_row(search *f, const situation *came_to)
{
    bool all_done;
    situation here = *came_to, *s = &here;
    int64_t until_us = until(f, s, &all_done);
    if (!was_hidden(s))
        return false;
    if (all_done && s->untold == -1 && is_row(f->job, s)) {
        f->hidden = s->hidden;
        return true;
    }
    if (++f->tries > TRIES_MAX || !first_time(s, f->job->id * (HIDDEN_MAX + 1) + f->hidden_max))
        return false;
    size_t count = s->first + (size_t)__builtin_popcountll(s->done);
    if (count >= f->best_count) {
        f->best_count = count;
        f->best = *s;
    }
    if (after_a_call(f, s, until_us))
        return true;
    situation next = *s;
    if (happens_by_itself(f->job, &next) && next.now_us <= until_us && reaches_row(f, &next))
        return true;
    next = *s;
    if (is_given_back(&next) && reaches_row(f, &next))
        return true;
    next = *s;
    if (s->first < f->job->n && f->job->ops[s->first]->maybe) {
        set_done(&next, s->first);      /* that one never happened */
        if (reaches_row(f, &next))
            return true;
    }
    return after_an_unheard_claim(f, s, until_us);
}

bool model_explains(history *t, const race_job *job, char *why, size_t size)
{
    search f = { .t = t, .job = job };
    for (f.hidden_max = 0; f.hidden_max <= HIDDEN_MAX; f.hidden_max++) {
        situation start = { .lease = -1, .worker = -1, .url = -1, .ended = -1, .untold = -1 };
        f.tries = 0;
        if (reaches_row(&f, &start)) {
            t->claims_used += f.hidden;
            return true;
        }
    }
    const situation *s = &f.best;
    snprintf(why, size,
             "no order of the calls explains all answers and the row; the longest comes to %zu of %zu calls, at %.6f "
             "s, with the job %s, %d failures, lease %s%s", f.best_count, job->n, (double)s->now_us / 1e6,
             s->state ? renderq_strstate((renderq_state)s->state) : "not there", s->retries,
             s->lease < -1 ? "of an unheard claim" : history_text(t, s->lease),
             f.tries > TRIES_MAX ? " (the search was given up)" : "");
    return false;
}
