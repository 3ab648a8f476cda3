/* store.c: hand-outs, and the cache that they come from. A job in it is leased and unstarted: if this process dies,
 * the lease runs out and nothing is counted. Handing it out marks it started, under its worker's name and a fresh
 * lease, before the answer is sent. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "clerk.h"
#include "http.h"
#include "json.h"
#include "log.h"
#include "service.h"

#define LEASE_MAX_S  60                 /* of what is in the cache, renewed every third of it; a crash returns it soon */
#define LEASE_MIN_S  3
#define BATCH        256                /* hand-outs in one statement */
#define POLL_MS      100                /* how soon an empty queue is asked again for those who wait ... */
#define POLL_MAX_MS  2000               /* ... growing to this */

/* ---- who waits ---- */

static void count_waiting(clerk *c)
{
    size_t n = 0;
    for (const exchange *x = c->waiting; x; x = x->next)
        n++;
    __atomic_store_n(&c->waits, n, __ATOMIC_RELAXED);
    __atomic_store_n(&c->cached, c->store.n, __ATOMIC_RELAXED);
}

static void add_waiting(clerk *c, exchange *list)
{
    if (!list)
        return;
    *c->waiting_end = list;
    while (*c->waiting_end)
        c->waiting_end = &(*c->waiting_end)->next;
    c->fresh = true;
}

static exchange *first_waiting(clerk *c)
{
    exchange *x = c->waiting;
    c->waiting = x->next;
    if (!c->waiting)
        c->waiting_end = &c->waiting;
    x->next = NULL;
    return x;
}

static void put_back(clerk *c, exchange *x)
{
    x->next = c->waiting;
    if (!c->waiting)
        c->waiting_end = &x->next;
    c->waiting = x;
}

/* Answers those whose time is over, or all. */
static void answer_some(clerk *c, bool all)
{
    bool away = c->away_status != RENDERQ_OK;
    int64_t now = clock_ms();
    exchange *list = c->waiting;
    c->waiting = NULL;
    c->waiting_end = &c->waiting;
    while (list) {
        exchange *x = list;
        list = x->next;
        x->next = NULL;
        if (!all && x->until_ms > now) {
            *c->waiting_end = x;
            c->waiting_end = &x->next;
            continue;
        }
        if (away)
            clerk_answer_away(c, x);
        else
            answer_empty(x, 204);
        http_resume(x);
    }
}

void store_answer_waiting(clerk *c)
{
    answer_some(c, true);
    count_waiting(c);
}

/* Which clients have hung up; false: none. One that only sends no more looks the same. */
static bool find_gone(exchange **some, size_t n, bool *gone)
{
    struct pollfd polls[BATCH];
    for (size_t i = 0; i < n; i++)
        polls[i] = (struct pollfd){ .fd = http_socket(some[i]), .events = POLLRDHUP };
    bool any = poll(polls, n, 0) > 0;
    for (size_t i = 0; i < n; i++)
        gone[i] = any && polls[i].revents & (POLLRDHUP | POLLHUP | POLLERR);
    return any;
}

/* Nothing is handed to a client that has hung up: its lease would run out, and the job would count a failure. */
static void drop_gone(clerk *c)
{
    exchange *looked[BATCH];
    bool gone[BATCH];
    size_t n = 0;
    for (exchange *x = c->waiting; x && n < BATCH; x = x->next)
        looked[n++] = x;
    if (!find_gone(looked, n, gone))
        return;
    for (size_t i = 0; i < n; i++) {
        if (!gone[i])
            continue;
        exchange **at = &c->waiting;
        while (*at != looked[i])
            at = &(*at)->next;
        *at = looked[i]->next;
        if (!*at)
            c->waiting_end = at;
        answer_empty(looked[i], 204);
        http_resume(looked[i]);
    }
}

/* ---- the cache ---- */

static int lease_s(const clerk *c)
{
    int own = c->service->o.lease_s;
    return own > LEASE_MAX_S ? LEASE_MAX_S : own < LEASE_MIN_S ? LEASE_MIN_S : own;
}

static int64_t next_keep_ms(const clerk *c)
{
    return clock_ms() + lease_s(c) * INT64_C(1000) / 3;
}

static void take_out(store *s, size_t n)
{
    s->n -= n;
    memmove(s->jobs, s->jobs + n, s->n * sizeof s->jobs[0]);
}

static void put_off(store *s)
{
    unsigned shift = s->empty_reads < 5 ? s->empty_reads : 5;
    int64_t wait = (int64_t)POLL_MS << shift;
    s->empty_reads++;
    s->ask_at_ms = clock_ms() + (wait < POLL_MAX_MS ? wait : POLL_MAX_MS);
}

void store_hint(clerk *c)
{
    c->store.ask_at_ms = 0;
    c->store.empty_reads = 0;
}

/* Claims up to `want` more. */
static renderq_status top_up(clerk *c, size_t want)
{
    store *s = &c->store;
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    size_t n = 0, room = CACHE_MAX - s->n;
    options.queue = c->queue;
    options.lease_s = lease_s(c);
    options.unstarted = 1;
    options.no_reap = 1;
    want = want < room ? want : room;
    want = want < RENDERQ_CLAIM_MAX ? want : RENDERQ_CLAIM_MAX;
    if (want == 0)
        return RENDERQ_OK;
    renderq_status status = renderq_claim_many(c->h, &options, s->jobs + s->n, want, &n);
    if (status == RENDERQ_OK && s->n == 0) {
        s->keep_at_ms = next_keep_ms(c);
        s->used = true;
    }
    s->n += n;
    if (status == RENDERQ_EMPTY)
        put_off(s);
    else if (status == RENDERQ_OK)
        store_hint(c);
    else
        clerk_away(c, status);
    return status;
}

static void release_all(clerk *c)
{
    store *s = &c->store;
    size_t left = 0;
    for (size_t i = 0; i < s->n; i++) {
        renderq_status status = clerk_ready(c) ? clerk_heard(c, renderq_release(c->h, s->jobs[i], 0)) : c->away_status;
        left += status != RENDERQ_OK && status != RENDERQ_LOST;
        renderq_job_free(s->jobs[i]);
    }
    if (left)
        say("queue %s: %zu jobs of the cache could not be given back; their leases run out, uncounted", c->queue, left);
    s->n = 0;
}

/* One that cannot be given back now lies with those that are renewed until they can, and are handed out. */
void store_give_back(clerk *c, renderq_job *job)
{
    store *s = &c->store;
    renderq_status status = clerk_ready(c) ? clerk_heard(c, renderq_release(c->h, job, 0)) : c->away_status;
    if (status == RENDERQ_OK) {
        tally_add(&c->tally, TALLY_RELEASED, 1);
        store_hint(c);
    } else if (status != RENDERQ_LOST && s->n < CACHE_MAX) {
        if (s->n == 0)
            s->keep_at_ms = next_keep_ms(c);
        s->jobs[s->n++] = job;
        return;
    }
    renderq_job_free(job);
}

void store_release(clerk *c)
{
    c->away_until_ms = 0;               /* it is the last chance, so the database is asked */
    release_all(c);
    count_waiting(c);
}

static void renew_all(clerk *c)
{
    store *s = &c->store;
    renderq_status each[CACHE_MAX];
    size_t kept = 0;
    renderq_status status = clerk_heard(c, renderq_renew_many(c->h, s->jobs, s->n, each));
    if (status != RENDERQ_OK && status != RENDERQ_LOST)
        return;
    for (size_t i = 0; i < s->n; i++) {
        if (each[i] == RENDERQ_LOST)
            renderq_job_free(s->jobs[i]);
        else
            s->jobs[kept++] = s->jobs[i];
    }
    s->n = kept;
}

/* Jobs that nobody asks for go back to the queue, where others may take them. */
static void keep(clerk *c)
{
    store *s = &c->store;
    if (s->n == 0 || clock_ms() < s->keep_at_ms || !clerk_ready(c))
        return;
    if (s->used)
        renew_all(c);
    else
        release_all(c);
    s->used = false;
    s->keep_at_ms = is_away(c->away_status) ? clock_ms() + 1000 : next_keep_ms(c);
}

/* ---- handing out ---- */

/* What became of a hand-out: who got a job, and who waits on, in front. The jobs are taken out of the cache. Those of
 * clients that have hung up since go back; an answer to them would seem to be sent. */
static void tell(clerk *c, renderq_handout *items, exchange **to, size_t n)
{
    bool gone[BATCH];
    renderq_job *back[BATCH];
    size_t given = 0, n_back = 0;
    find_gone(to, n, gone);
    for (size_t i = n; i-- > 0;) {
        if (items[i].status == RENDERQ_OK && gone[i]) {
            back[n_back++] = items[i].job;
            answer_empty(to[i], 204);
            continue;
        }
        if (items[i].status == RENDERQ_OK) {
            to[i]->job = items[i].job;
            answer_json(to[i], 200, json_handed_out(items[i].job));
            given++;
            continue;
        }
        put_back(c, to[i]);             /* cancelled or settled meanwhile: another one for this client */
        renderq_job_free(items[i].job);
        to[i] = NULL;
    }
    take_out(&c->store, n);
    c->store.used = c->store.used || given;
    tally_add(&c->tally, TALLY_HANDED_OUT, (int64_t)given);
    for (size_t i = 0; i < n; i++)
        if (to[i])
            http_resume(to[i]);
    while (n_back > 0)
        store_give_back(c, back[--n_back]);
}

/* One statement for up to n that wait and can be had. */
static renderq_status hand_out(clerk *c, size_t n)
{
    const store *s = &c->store;
    renderq_handout items[BATCH];
    exchange *to[BATCH];
    size_t k = 0;
    while (k < n && k < s->n && c->waiting) {
        to[k] = first_waiting(c);
        items[k] = (renderq_handout)RENDERQ_INIT(renderq_handout);
        items[k].job = s->jobs[k];
        items[k].worker = to[k]->worker;
        k++;
    }
    renderq_status status = renderq_hand_out(c->h, items, k, c->service->o.lease_s);
    if (status == RENDERQ_OK || status == RENDERQ_LOST) {
        tell(c, items, to, k);
        return RENDERQ_OK;
    }
    bool refused = status == RENDERQ_INVALID || status == RENDERQ_FAILED || status == RENDERQ_SCHEMA;
    if (refused && k == 1) {
        answer_status(to[0], status, renderq_errmsg(c->h));
        http_resume(to[0]);
        return RENDERQ_OK;
    }
    for (size_t i = k; i-- > 0;)
        put_back(c, to[i]);
    if (!refused)
        return clerk_away(c, status);
    /* One whose name the table does not take must not keep the others out. */
    for (status = RENDERQ_OK; status == RENDERQ_OK && k > 0 && c->waiting && s->n > 0; k--)
        status = hand_out(c, 1);
    return status;
}

static size_t length(const exchange *x)
{
    size_t n = 0;
    for (; x; x = x->next)
        n++;
    return n;
}

static size_t wanted(const clerk *c)
{
    size_t waiting = length(c->waiting), cache = (size_t)c->service->o.cache;
    size_t target = waiting > cache ? waiting : cache;
    return target > c->store.n ? target - c->store.n : 0;
}

static void serve_waiting(clerk *c)
{
    store *s = &c->store;
    bool gave = false;
    while (c->waiting) {
        drop_gone(c);
        if (!c->waiting || !clerk_ready(c))
            break;
        if (s->n == 0) {
            if (!c->fresh && clock_ms() < s->ask_at_ms)
                break;
            c->fresh = false;
            if (top_up(c, wanted(c)) != RENDERQ_OK)
                break;
        }
        if (hand_out(c, BATCH) != RENDERQ_OK)
            break;
        gave = true;
    }
    c->fresh = false;
    /* Ahead of the next ones, before it runs dry. */
    if (gave && s->n <= (size_t)c->service->o.cache / 2 && clock_ms() >= s->ask_at_ms && clerk_ready(c))
        top_up(c, wanted(c));
}

static int64_t next_time(const clerk *c)
{
    int64_t at = INT64_MAX;
    if (c->store.n > 0)
        at = c->store.keep_at_ms;
    for (const exchange *x = c->waiting; x; x = x->next)
        at = x->until_ms < at ? x->until_ms : at;
    if (c->waiting) {
        int64_t ask = c->store.ask_at_ms;
        if (c->away_status != RENDERQ_OK && ask < c->away_until_ms)
            ask = c->away_until_ms;
        at = ask < at ? ask : at;
    }
    return at;
}

int64_t store_serve(clerk *c, exchange *fresh)
{
    add_waiting(c, fresh);
    serve_waiting(c);
    answer_some(c, false);
    keep(c);
    count_waiting(c);
    return next_time(c);
}
