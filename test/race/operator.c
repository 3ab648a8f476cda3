/* operator.c: the operator of the race. It cancels and retries at random, counts the jobs that are not done for the
 * others to see, and at the end hurries those that wait for long. */
#include "race.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_US     200000
#define PATIENCE_MS 1000
#define CLAIMS_EACH 4               /* the workers' claims for each time it meddles: or they would get nothing done */

typedef struct seen {
    renderq_id id;
    renderq_state state;
    int64_t due_at_ms;
} seen;

typedef struct operator {
    const race *race;
    renderq *h;
    dice dice;
    audit audit;
    seen *jobs;
    size_t n, room;
} operator;

static int see(void *arg, const renderq_job *job)
{
    operator *o = arg;
    if (strcmp(job->composition_id, RACE_POISON) == 0)
        return 0;
    if (o->n == o->room) {
        o->room = o->room ? 2 * o->room : 1024;
        o->jobs = realloc(o->jobs, o->room * sizeof *o->jobs);
        if (!o->jobs)
            abort();
    }
    o->jobs[o->n++] = (seen){ .id = job->id, .state = job->state, .due_at_ms = job->due_at_ms };
    return 0;
}

static void look(operator *o, bool play)
{
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    race_board *board = o->race->board;
    o->n = 0;
    if (renderq_list(o->h, NULL, see, o) != RENDERQ_OK || renderq_stats(o->h, NULL, &counts) != RENDERQ_OK)
        return;
    int64_t live = counts.scheduled + counts.queued + counts.processing;
    __atomic_store_n(&board->live, live, __ATOMIC_RELEASE);
    if (!play && live == 0)
        __atomic_store_n(&board->drained, 1, __ATOMIC_RELEASE);
}

static renderq_status ask(operator *o, race_step step, const renderq_id *id)
{
    audit_begin(&o->audit);
    audit_ask(&o->audit, 0, step, id->text, NULL, 0, 0, NULL);
    audit_write(&o->audit);
    renderq_status status = step == STEP_CANCEL ? renderq_cancel(o->h, NULL, id) : renderq_retry(o->h, NULL, id, NULL);
    audit_end(&o->audit);
    audit_got(&o->audit, 0, step, id->text, NULL, status, 1, 0, 0,
              status == RENDERQ_OK ? NULL : renderq_errmsg(o->h));
    audit_write(&o->audit);
    return status;
}

static bool ended(renderq_state state)
{
    return state == RENDERQ_DEAD_LETTER || state == RENDERQ_CANCELLED || state == RENDERQ_COMPLETED;
}

/* Mostly what fits the job as it was seen last, and sometimes what does not. */
static void meddle(operator *o)
{
    if (o->n == 0)
        return;
    const seen *job = &o->jobs[dice_within(&o->dice, 0, (int)o->n - 1)];
    bool retry = ended(job->state) != dice_chance(&o->dice, 10);
    if (retry && job->state == RENDERQ_COMPLETED && dice_chance(&o->dice, 70))
        return;
    ask(o, retry ? STEP_RETRY : STEP_CANCEL, &job->id);
    if (dice_chance(&o->dice, 20))
        ask(o, retry ? STEP_CANCEL : STEP_RETRY, &job->id);
}

static int64_t unix_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A back-off may be long; a job that is cancelled and retried begins anew. */
static void hurry(operator *o)
{
    for (size_t i = 0; i < o->n; i++)
        if (o->jobs[i].state == RENDERQ_SCHEDULED && o->jobs[i].due_at_ms > unix_ms() + PATIENCE_MS
            && ask(o, STEP_CANCEL, &o->jobs[i].id) == RENDERQ_OK)
            ask(o, STEP_RETRY, &o->jobs[i].id);
}

int operator_main(const race *r)
{
    operator o = { .race = r, .dice = dice_for(r, "operator") };
    audit_open(&o.audit, r, "operator");
    o.h = race_connect(r, "operator", &o.audit);
    int64_t look_at_us = 0;
    int meddled = 0;
    while (race_phase(r) != RACE_OVER) {
        bool play = race_phase(r) == RACE_PLAY;
        if (race_now_us(r) >= look_at_us) {
            look(&o, play);
            if (!play)
                hurry(&o);
            look_at_us = race_now_us(r) + LOOK_US;
        }
        if (play && meddled * CLAIMS_EACH <= __atomic_load_n(&r->board->claims, __ATOMIC_ACQUIRE)) {
            meddle(&o);
            meddled++;
        }
        race_pause(dice_within(&o.dice, 10, 50));
    }
    renderq_close(o.h);
    free(o.jobs);
    return 0;
}
