/* worker.c: a worker of the race. It claims one job or a few, works for a moment, renews or forgets to, and completes,
 * fails or releases. It never looks at the clock of its lease: if it was paused, it goes on as if nothing had been. */
#include "race.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define BATCH   4
#define MEET_US 15000

typedef struct worker {
    const race *race;
    const char *name;
    int *order, *calls;
    renderq *h;
    dice dice;
    audit audit;
    int64_t reap_at_us;
    int call_us;                        /* what the last call took */
} worker;

/* ---- orders: to be killed or paused in the middle of a call, where a shot from outside hardly ever hits ---- */

#define CALL_US     150                 /* what a call takes at least, about */
#define CALL_MAX_US 20000

static volatile sig_atomic_t order;

static void on_alarm(int number)
{
    (void)number;
    kill(getpid(), order);
}

static void take_order(worker *w)
{
    int next = __atomic_exchange_n(w->order, 0, __ATOMIC_ACQ_REL);
    if (!next)
        return;                         /* the alarm of the last order may still be on its way */
    order = next;
    struct itimerval soon = { .it_value = { .tv_usec = dice_within(&w->dice, 1, w->call_us) } };
    audit_note(&w->audit, order == SIGKILL ? STEP_KILL : STEP_PAUSE, w->name);
    setitimer(ITIMER_REAL, &soon, NULL);
}

/* ---- calls, and their lines ---- */

static renderq_status complete_many(worker *w, renderq_job **jobs, size_t n, const char *const *urls,
                                    renderq_status *each)
{
    renderq_result results[BATCH];
    for (size_t i = 0; i < n; i++)
        results[i] = (renderq_result){ .size = sizeof results[i], .job = jobs[i], .output_url = urls[i] };
    renderq_status status = renderq_complete_many(w->h, results, n);
    for (size_t i = 0; i < n; i++)
        each[i] = results[i].status;
    return status;
}

/* In another process this would be after a restart. */
static renderq_status resume(worker *w, renderq_job **job)
{
    renderq_job *again = NULL;
    renderq_status status = renderq_job_resume(w->h, NULL, &(*job)->id, &(*job)->lease, &again);
    if (status == RENDERQ_OK) {
        renderq_job_free(*job);
        *job = again;
    }
    return status;
}

static renderq_status call(worker *w, race_step step, renderq_job **jobs, size_t n, int64_t number, const char *text,
                           renderq_status *each)
{
    char room[BATCH][64];
    const char *urls[BATCH] = { NULL };
    bool many = n > 1 || dice_chance(&w->dice, 20);
    each[0] = RENDERQ_FAILED;
    switch (step) {
    case STEP_START:
        return renderq_start_many(w->h, jobs, n, text, RACE_LEASE_S, each);
    case STEP_RENEW:
        return many ? renderq_renew_many(w->h, jobs, n, each) : (each[0] = renderq_renew(w->h, jobs[0], text));
    case STEP_RESUME:
        return each[0] = resume(w, &jobs[0]);
    case STEP_COMPLETE:
        for (size_t i = 0; i < n; i++) {
            snprintf(room[i], sizeof room[i], "lease:%s", jobs[i]->lease.text);
            urls[i] = room[i];
        }
        return many ? complete_many(w, jobs, n, urls, each) : (each[0] = renderq_complete(w->h, jobs[0], urls[0]));
    case STEP_FAIL:
        return each[0] = renderq_fail(w->h, jobs[0], w->name, number);
    case STEP_RELEASE:
        return each[0] = renderq_release(w->h, jobs[0], number);
    default:
        return RENDERQ_INVALID;
    }
}

/* The end of a call: how long the next order waits at most. */
static void end_call(worker *w)
{
    int64_t began_us = w->audit.at_us;
    audit_end(&w->audit);
    int64_t took_us = w->audit.at_us - began_us;
    __atomic_add_fetch(w->calls, 1, __ATOMIC_ACQ_REL);
    w->call_us = took_us < CALL_US ? CALL_US : took_us > CALL_MAX_US ? CALL_MAX_US : (int)took_us;
}

/* Asks, and asks again while others keep the database from it. */
static renderq_status ask(worker *w, race_step step, renderq_job **jobs, size_t n, int64_t number, const char *text,
                          renderq_status *each)
{
    renderq_status status;
    do {
        take_order(w);
        audit_begin(&w->audit);
        for (size_t i = 0; i < n; i++)
            audit_ask(&w->audit, (int)i, step, jobs[i]->id.text, jobs[i]->lease.text, number, 0, text);
        audit_write(&w->audit);
        status = call(w, step, jobs, n, number, text, each);
        end_call(w);
        for (size_t i = 0; i < n; i++)
            audit_got(&w->audit, (int)i, step, jobs[i]->id.text, jobs[i]->lease.text, each[i], (int)n,
                      jobs[i]->retry_count, jobs[i]->max_retries, each[i] == RENDERQ_OK ? NULL : renderq_errmsg(w->h));
        audit_write(&w->audit);
    } while (status == RENDERQ_BUSY);
    return status;
}

static renderq_status ask_one(worker *w, race_step step, renderq_job **job, int64_t number, const char *text)
{
    renderq_status status;
    return ask(w, step, job, 1, number, text, &status);
}

static size_t claim(worker *w, renderq_job **jobs, size_t max, bool unstarted)
{
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    options.lease_s = RACE_LEASE_S;
    options.wait_ms = 150;
    options.unstarted = unstarted;
    options.no_reap = dice_chance(&w->dice, 50);
    take_order(w);
    audit_begin(&w->audit);
    audit_ask(&w->audit, 0, STEP_CLAIM, NULL, NULL, unstarted, (int)max, NULL);
    audit_write(&w->audit);
    size_t n = 0;
    renderq_status status = max == 1 ? renderq_claim(w->h, &options, jobs)
                                     : renderq_claim_many(w->h, &options, jobs, max, &n);
    n = max == 1 && status == RENDERQ_OK ? 1 : n;
    end_call(w);
    __atomic_add_fetch(&w->race->board->claims, 1, __ATOMIC_ACQ_REL);
    for (size_t i = 0; i < n; i++)
        audit_got(&w->audit, (int)i, STEP_CLAIM, jobs[i]->id.text, jobs[i]->lease.text, status, (int)n,
                  jobs[i]->retry_count, jobs[i]->max_retries, jobs[i]->composition_id);
    if (n == 0)
        audit_got(&w->audit, 0, STEP_CLAIM, NULL, NULL, status, 0, 0, 0, renderq_errmsg(w->h));
    audit_write(&w->audit);
    return n;
}

/* ---- work ---- */

/* With a lease that is over, whatever is asked is to be refused. */
static void ask_everything(worker *w, renderq_job **job)
{
    static const race_step steps[] = { STEP_RENEW, STEP_COMPLETE, STEP_FAIL, STEP_RELEASE, STEP_START, STEP_RESUME };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        bool needs_start = steps[i] == STEP_COMPLETE || steps[i] == STEP_FAIL;
        if (needs_start && !(*job)->started_at_ms)
            continue;
        ask_one(w, steps[i], job, 0, NULL);
    }
}

static void die_of_poison(worker *w)
{
    audit_note(&w->audit, STEP_POISONED, w->name);
    kill(getpid(), SIGKILL);
}

static renderq_status work(worker *w, renderq_job **job)
{
    renderq_status status = RENDERQ_OK;
    if (strcmp((*job)->composition_id, RACE_POISON) == 0)
        die_of_poison(w);
    if (race_phase(w->race) != RACE_PLAY) {
        race_pause(dice_within(&w->dice, 0, 5));
        return status;
    }
    int kind = dice_within(&w->dice, 1, 1000);
    if (kind <= 8)                  /* too long for its lease, and it does not notice */
        race_pause(2300);
    else if (kind <= 25)            /* long, and it renews */
        for (int i = dice_within(&w->dice, 3, 6); i > 0 && status == RENDERQ_OK; i--) {
            race_pause(350);
            status = ask_one(w, STEP_RENEW, job, 0, "half way");
        }
    else if (kind <= 400)           /* the others take no time: that is when the workers meet */
        race_pause(dice_within(&w->dice, 10, 100));
    if (status == RENDERQ_OK && kind > 950)
        status = ask_one(w, STEP_RESUME, job, 0, NULL);
    else if (status == RENDERQ_OK && kind > 750)
        status = ask_one(w, STEP_RENEW, job, 0, "nearly done");
    return status;
}

/* How a job ends, by percent; the drain takes the first. */
static const struct ending { int up_to; race_step step; int64_t number; } endings[] = {
    { 70, STEP_COMPLETE, 0 },           /* NUMBER: 0 may also become a short delay */
    { 84, STEP_FAIL, 0 },
    { 87, STEP_FAIL, RENDERQ_NEVER },
    { 89, STEP_FAIL, RENDERQ_BACKOFF },
    { 100, STEP_RELEASE, 0 },
};

static void end(worker *w, renderq_job **job)
{
    int kind = race_phase(w->race) == RACE_PLAY ? dice_within(&w->dice, 1, 100) : 1;
    const struct ending *e = endings;
    while (kind > e->up_to)
        e++;
    bool may_wait = e->step != STEP_COMPLETE && e->number == 0, at_once = may_wait && dice_chance(&w->dice, 60);
    renderq_status status = ask_one(w, e->step, job, may_wait && !at_once ? dice_within(&w->dice, 1, 100) : e->number,
                                    NULL);
    /* What is given back is the next to be claimed: after a moment somebody else has it. */
    bool again = dice_chance(&w->dice, at_once ? 50 : 5);
    if (again && at_once)
        race_pause(dice_within(&w->dice, 2, 60));
    if (again || status == RENDERQ_LOST)
        ask_everything(w, job);
}

static void do_one(worker *w, renderq_job **job)
{
    if (work(w, job) == RENDERQ_OK)
        end(w, job);
    else
        ask_everything(w, job);
}

/* Claimed ahead of their turns: each is started just before its work; the others are kept by renewals, or not. */
static void do_in_turn(worker *w, renderq_job **jobs, size_t n)
{
    renderq_status each[BATCH] = { RENDERQ_OK };
    for (size_t i = 0; i < n; i++) {
        if (ask_one(w, STEP_START, &jobs[i], 0, NULL) == RENDERQ_OK)
            do_one(w, &jobs[i]);
        else
            ask_everything(w, &jobs[i]);
        if (i + 1 < n && dice_chance(&w->dice, 50))
            ask(w, STEP_RENEW, jobs + i + 1, n - i - 1, 0, NULL, each);
    }
}

/* Handed out all at once, to a worker with another name and under fresh leases. */
static void do_together(worker *w, renderq_job **jobs, size_t n)
{
    char taker[RACE_NAME + 2];
    renderq_status each[BATCH] = { RENDERQ_OK };
    snprintf(taker, sizeof taker, "%s+", w->name);
    ask(w, STEP_START, jobs, n, 0, taker, each);
    size_t started = 0;
    for (size_t i = 0; i < n; i++) {
        if (each[i] == RENDERQ_OK) {
            renderq_job *job = jobs[i];
            jobs[i] = jobs[started];
            jobs[started++] = job;
        }
    }
    renderq_status status = RENDERQ_OK;
    for (size_t i = 0; i < started && status == RENDERQ_OK; i++)
        status = work(w, &jobs[i]);
    if (started > 0 && dice_chance(&w->dice, 70))
        ask(w, STEP_COMPLETE, jobs, started, 0, NULL, each);
    else
        for (size_t i = 0; i < started; i++)
            end(w, &jobs[i]);
}

static void give_back(worker *w, renderq_job **jobs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ask_one(w, STEP_RELEASE, &jobs[i], 0, NULL);
}

/* Workers that come back at the same moment are the ones that get in each other's way. */
static void meet_the_others(const worker *w)
{
    race_pause_until_us(w->race, (race_now_us(w->race) / MEET_US + 1) * MEET_US);
}

static void turn(worker *w)
{
    renderq_job *jobs[BATCH] = { NULL };
    if (dice_chance(&w->dice, 80))
        meet_the_others(w);
    bool batch = dice_chance(&w->dice, 35);
    size_t n = claim(w, jobs, batch ? (size_t)dice_within(&w->dice, 2, BATCH) : 1, batch);
    int kind = dice_within(&w->dice, 1, 10);
    if (n > 0 && !batch)
        do_one(w, &jobs[0]);
    else if (n > 0 && kind <= 5)
        do_in_turn(w, jobs, n);
    else if (n > 0 && kind <= 9)
        do_together(w, jobs, n);
    else if (n > 0)
        give_back(w, jobs, n);
    for (size_t i = 0; i < n; i++)
        renderq_job_free(jobs[i]);
}

int worker_main(const race *r, const char *name, int index)
{
    struct sigaction action = { .sa_handler = on_alarm };
    worker w = { .race = r, .name = name, .call_us = CALL_US, .order = &r->board->orders[index],
                 .calls = &r->board->calls[index], .dice = dice_for(r, name) };
    sigaction(SIGALRM, &action, NULL);
    audit_open(&w.audit, r, name);
    w.h = race_connect(r, name, &w.audit);
    while (race_phase(r) != RACE_OVER) {
        if (race_now_us(r) >= w.reap_at_us) {
            race_reap(w.h, &w.audit);
            w.reap_at_us = race_now_us(r) + dice_within(&w.dice, 200, 600) * INT64_C(1000);
        }
        turn(&w);
    }
    renderq_close(w.h);
    return 0;
}
