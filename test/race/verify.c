/* verify.c: the proof. Reads the rows and the audit files, asks one plain question after the other of each job, and
 * then whether all of it fits together (model.c). What does not is printed with every line about that job. */
#include "race.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAULTS_MAX  8                   /* then it is enough */
#define OPS_SHOWN   200
#define LOST_LEASES_WANTED 1000         /* from so many jobs on, some worker must have come back too late */

typedef struct proof {
    history *t;
    const race *race;
    renderq *h;
    int faults;
    const race_job *shown;              /* the last job whose lines were printed */
    int claims, lost, cancels, retries;
    int late_lost, late_kept;           /* leases whose worker was paused past their end: refused; not yet reaped */
} proof;

/* ---- faults ---- */

static void print_op(const history *t, const race_op *op)
{
    const char *what = op->step == STEP_HELD ? " (its key is held)"
                       : op->step == STEP_NOT_HELD ? " (its key is free)" : "";
    printf("    %-10s %s%s\n", history_text(t, op->actor), op->asked, what);
    printf("    %-10s %s\n", "", op->got ? op->got : "(the answer was never written down)");
}

__attribute__((format(printf, 3, 4)))
static void fault(proof *p, const race_job *job, const char *format, ...)
{
    const history *t = p->t;
    va_list args;
    if (++p->faults > FAULTS_MAX)
        return;
    va_start(args, format);
    printf("WRONG: %s%s", job ? history_text(t, job->id) : "", job ? ": " : "");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    if (!job || job == p->shown)
        return;
    p->shown = job;
    const race_row *row = &job->row;
    if (row->rows)
        printf("    the row: %s, %s, %d of %d retries, worker %s, completed by lease %s\n",
               history_text(t, row->name), renderq_strstate(row->state), row->retries, row->max_retries,
               history_text(t, row->worker), history_text(t, row->lease));
    for (size_t i = 0; i < job->n && i < OPS_SHOWN; i++)
        print_op(t, job->ops[i]);
    if (job->n > OPS_SHOWN)
        printf("    ... and %zu calls more, in the audit files\n", job->n - OPS_SHOWN);
}

static bool enough(const proof *p)
{
    return p->faults > FAULTS_MAX;
}

/* ---- the row ---- */

static void check_payload(proof *p, const race_job *job)
{
    renderq_id id;
    char wanted[128];
    renderq_job *got = NULL;
    snprintf(id.text, sizeof id.text, "%s", history_text(p->t, job->id));
    snprintf(wanted, sizeof wanted, "{\"composition\": \"%s\"}", history_text(p->t, job->name));
    renderq_status status = renderq_get(p->h, NULL, &id, &got);
    if (status != RENDERQ_OK)
        fault(p, job, "get: %s: %s", renderq_strstatus(status), renderq_errmsg(p->h));
    else if (strcmp(got->payload_json, wanted) != 0 || got->state != job->row.state)
        fault(p, job, "get gives %s, and the payload %s", renderq_strstate(got->state), got->payload_json);
    renderq_job_free(got);
}

static void check_row(proof *p, const race_job *job)
{
    const race_row *row = &job->row;
    bool ended = row->state == RENDERQ_COMPLETED || row->state == RENDERQ_DEAD_LETTER
                 || row->state == RENDERQ_CANCELLED;
    if (!job->enqueued)
        fault(p, job, "nobody enqueued it");
    else if (row->rows != 1)
        fault(p, job, row->rows ? "it is there more than once" : "it was enqueued and is lost");
    else if (!ended)
        fault(p, job, "it is in no final state");
    else if (row->name != job->name || row->key != job->key || row->max_retries != job->max_retries)
        fault(p, job, "it is not what was enqueued");
    else if (row->retries > row->max_retries + 1)
        fault(p, job, "it was tried more often than it may be");
    else
        check_payload(p, job);
}

/* ---- leases ---- */

/* Whether it may have taken effect. */
static bool counts(const race_op *op)
{
    return op->maybe || op->doubtful || op->status == RENDERQ_OK;
}

static bool heard(const race_op *op, renderq_status status)
{
    return !op->maybe && op->status == status;
}

static bool begins_lease(const race_op *op)
{
    return heard(op, RENDERQ_OK) && (op->step == STEP_CLAIM || (op->step == STEP_START && op->fresh >= 0));
}

static bool ends_lease(const race_op *op)
{
    return op->step == STEP_COMPLETE || op->step == STEP_FAIL || op->step == STEP_RELEASE
           || (op->step == STEP_START && op->text >= 0);
}

static bool asks_with(const race_op *op, int lease)
{
    return op->lease == lease && op->step >= STEP_START && op->step <= STEP_RELEASE;
}

/* From begin->after_us to sure_us a lease was certainly in force. */
typedef struct tenure {
    const race_op *begin, *end;         /* end: the answered call that ended it, or NULL */
    int lease;
    int64_t run_out_us, sure_us;
} tenure;

static tenure tenure_of(const race_job *job, const race_op *begin)
{
    tenure own = { .begin = begin, .lease = begin->step == STEP_CLAIM ? begin->lease : begin->fresh,
                   .run_out_us = begin->before_us + RACE_LEASE_US };
    int64_t cut_us = RACE_NEVER_US;
    for (size_t i = 0; i < job->n; i++) {
        const race_op *op = job->ops[i];
        bool own_call = asks_with(op, own.lease) && op != begin;
        if (own_call && heard(op, RENDERQ_OK) && (op->step == STEP_RENEW || op->step == STEP_START))
            own.run_out_us = op->before_us + RACE_LEASE_US;
        bool may_end = (own_call && ends_lease(op)) || (op->step == STEP_CANCEL && op->after_us > begin->before_us);
        if (may_end && counts(op) && op->before_us < cut_us)
            cut_us = op->before_us;
        if (own_call && ends_lease(op) && heard(op, RENDERQ_OK))
            own.end = op;
    }
    own.sure_us = (own.run_out_us < cut_us ? own.run_out_us : cut_us) - RACE_SLACK_US;
    return own;
}

/* Two workers under two leases at the same moment; or an old owner that was let through. */
static void check_pair(proof *p, const race_job *job, const tenure *a, const tenure *b)
{
    if (b->begin->before_us > a->begin->after_us && b->begin->after_us < a->sure_us)
        fault(p, job, "two owners at once: lease %s was given at %lld us, while %s held until %lld us at least",
              history_text(p->t, b->lease), (long long)b->begin->after_us, history_text(p->t, a->lease),
              (long long)a->sure_us);
    for (size_t i = 0; i < job->n && b->begin->before_us > a->begin->after_us; i++)
        if (asks_with(job->ops[i], a->lease) && heard(job->ops[i], RENDERQ_OK)
            && job->ops[i]->before_us > b->begin->after_us)
            fault(p, job, "%s at %lld us was let through under lease %s, when %s had the job",
                  race_steps[job->ops[i]->step], (long long)job->ops[i]->before_us, history_text(p->t, a->lease),
                  history_text(p->t, b->lease));
}

/* What a lease's own calls were told. */
static void check_answers(proof *p, const race_job *job, const tenure *own)
{
    int64_t over_us = own->end ? own->end->after_us : RACE_NEVER_US;
    for (size_t i = 0; i < job->n; i++) {
        const race_op *op = job->ops[i];
        if (!asks_with(op, own->lease) || op == own->begin)
            continue;
        if (heard(op, RENDERQ_OK) && !op->again && op->before_us > over_us)
            fault(p, job, "%s at %lld us was let through under lease %s, which was over", race_steps[op->step],
                  (long long)op->before_us, history_text(p->t, own->lease));
        if (heard(op, RENDERQ_LOST) && !op->doubtful && op->after_us < own->sure_us)
            fault(p, job, "%s at %lld us was told LOST, and its lease %s stood until %lld us", race_steps[op->step],
                  (long long)op->before_us, history_text(p->t, own->lease), (long long)own->sure_us);
        if (heard(op, RENDERQ_LOST) && op->after_us < over_us)
            over_us = op->after_us;
    }
}

/* Workers that were paused while their lease ran out, and asked for something afterwards. */
static void count_late(proof *p, const race_job *job, const tenure *own)
{
    for (size_t k = 0; k < p->t->n_pauses; k++) {
        const race_note *pause = &p->t->pauses[k];
        if (pause->process != own->begin->actor || pause->from_us > own->run_out_us
            || pause->from_us < own->begin->after_us || pause->to_us < own->run_out_us)
            continue;
        int lost = 0, kept = 0;
        for (size_t i = 0; i < job->n; i++) {
            const race_op *op = job->ops[i];
            if (asks_with(op, own->lease) && op != own->begin && op->before_us > pause->to_us) {
                lost += heard(op, RENDERQ_LOST);
                kept += heard(op, RENDERQ_OK);
            }
        }
        p->late_lost += lost > 0 && kept == 0;
        p->late_kept += kept > 0;
    }
}

static void check_leases(proof *p, const race_job *job)
{
    tenure *own = calloc(job->n + 1, sizeof *own);
    size_t n = 0;
    if (!own)
        abort();
    for (size_t i = 0; i < job->n; i++)
        if (begins_lease(job->ops[i]))
            own[n++] = tenure_of(job, job->ops[i]);
    for (size_t i = 0; i < n && !enough(p); i++) {
        for (size_t k = 0; k < n && !enough(p); k++) {
            if (k != i && own[k].lease == own[i].lease)
                fault(p, job, "the lease %s was given twice", history_text(p->t, own[i].lease));
            else if (k != i)
                check_pair(p, job, &own[i], &own[k]);
        }
        check_answers(p, job, &own[i]);
        count_late(p, job, &own[i]);
    }
    free(own);
}

/* ---- counts: of completions and of failures, since the last retry ---- */

static int64_t last_retry_us(const race_job *job, int64_t before_us)
{
    int64_t last_us = 0;
    for (size_t i = 0; i < job->n; i++) {
        const race_op *op = job->ops[i];
        if (op->step == STEP_RETRY && counts(op) && op->before_us < before_us
            && op->after_us > last_us)
            last_us = op->after_us;
    }
    return last_us;
}

static int failures(const race_job *job, int64_t from_us, int64_t to_us)
{
    int n = 0;
    for (size_t i = 0; i < job->n; i++) {
        const race_op *op = job->ops[i];
        n += op->step == STEP_FAIL && heard(op, RENDERQ_OK) && !op->again && op->before_us > from_us && op->after_us < to_us;
    }
    return n;
}

static void check_counts(proof *p, const race_job *job)
{
    const race_op *completed = NULL;
    bool by_row = false;
    for (size_t i = 0; i < job->n; i++) {
        const race_op *op = job->ops[i];
        if (op->step == STEP_CLAIM && heard(op, RENDERQ_OK)) {
            if (op->retries > job->max_retries)
                fault(p, job, "an attempt too many at %lld us", (long long)op->before_us);
            if (op->retries < failures(job, last_retry_us(job, op->after_us), op->before_us))
                fault(p, job, "the claim at %lld us does not count all failures", (long long)op->before_us);
        }
        by_row = by_row || (op->step == STEP_COMPLETE && op->lease == job->row.lease && counts(op));
        if (op->step != STEP_COMPLETE || !heard(op, RENDERQ_OK) || op->again)
            continue;
        if (completed && last_retry_us(job, op->after_us) < completed->before_us)
            fault(p, job, "it was completed twice");
        completed = op;
    }
    if (job->row.state == RENDERQ_COMPLETED && !by_row)
        fault(p, job, "it is Completed, and not by the lease that its row shows");
    if (completed && job->row.lease < 0)
        fault(p, job, "a complete was answered OK, and the row knows nothing of it");
    if (job->row.retries < failures(job, last_retry_us(job, RACE_NEVER_US), RACE_NEVER_US))
        fault(p, job, "its row does not count all failures");
}

/* ---- answers that nobody expects, and what there was ---- */

static bool is_expected(const race_op *op)
{
    static const unsigned answers[] = {
        [STEP_ENQUEUE] = 1u << RENDERQ_DUPLICATE,
        [STEP_CLAIM] = 1u << RENDERQ_EMPTY,
        [STEP_START] = 1u << RENDERQ_LOST,
        [STEP_RENEW] = 1u << RENDERQ_LOST,
        [STEP_RESUME] = 1u << RENDERQ_LOST,
        [STEP_COMPLETE] = 1u << RENDERQ_LOST,
        [STEP_FAIL] = 1u << RENDERQ_LOST,
        [STEP_RELEASE] = 1u << RENDERQ_LOST,
        [STEP_CANCEL] = 1u << RENDERQ_LOST,
        [STEP_RETRY] = 1u << RENDERQ_LOST | 1u << RENDERQ_DUPLICATE,
        [STEP_REAP] = 0,
    };
    unsigned always = 1u << RENDERQ_OK | 1u << RENDERQ_BUSY;
    return (op->maybe && !op->got) || op->step >= sizeof answers / sizeof answers[0]
           || ((answers[op->step] | always) >> op->status & 1);
}

static void check_answer(proof *p, const race_op *op)
{
    bool ok = heard(op, RENDERQ_OK);
    p->claims += op->step == STEP_CLAIM && ok;
    p->cancels += op->step == STEP_CANCEL && ok;
    p->retries += op->step == STEP_RETRY && ok;
    p->lost += asks_with(op, op->lease) && heard(op, RENDERQ_LOST);
    if (is_expected(op))
        return;
    fault(p, NULL, "an answer that nobody expects");
    if (!enough(p))
        print_op(p->t, op);
}

/* ---- the poison ---- */

static const race_op *next_claim(const race_job *job, int64_t from_us)
{
    for (size_t i = 0; i < job->n; i++)
        if (job->ops[i]->step == STEP_CLAIM && job->ops[i]->before_us > from_us)
            return job->ops[i];
    return NULL;
}

/* Jobs that were claimed together with the poison, and not started when it killed their worker, are none the worse. */
static void check_neighbour(proof *p, const race_job *job, const race_op *poisoned)
{
    for (size_t i = 0; i < job->n; i++) {
        const race_op *op = job->ops[i], *next = next_claim(job, op->after_us);
        bool together = op->step == STEP_CLAIM && op->actor == poisoned->actor && op->before_us == poisoned->before_us;
        for (size_t k = 0; together && next && k < job->n; k++)
            together = !(job->ops[k]->step == STEP_START && job->ops[k]->lease == op->lease)
                       && !(job->ops[k]->step == STEP_RETRY && job->ops[k]->before_us < next->after_us);
        if (together && next && next->retries != op->retries)
            fault(p, job, "it was claimed beside the poison and not started, and counts a failure");
    }
}

static void check_poison(proof *p)
{
    const race_job *poison = NULL;
    for (size_t i = 0; i < p->t->n_jobs; i++)
        if (strcmp(history_text(p->t, p->t->jobs[i].name), RACE_POISON) == 0)
            poison = &p->t->jobs[i];
    if (!poison) {
        fault(p, NULL, "the poison is lost");
        return;
    }
    if (poison->row.state != RENDERQ_DEAD_LETTER || poison->row.retries != poison->max_retries + 1)
        fault(p, poison, "the poison is no dead letter after all of its attempts");
    if (p->t->poisoned < 1 || p->t->poisoned > poison->max_retries + 1)
        fault(p, poison, "the poison killed %d workers, and may kill %d", p->t->poisoned, poison->max_retries + 1);
    for (size_t i = 0; i < poison->n; i++)
        for (size_t k = 0; poison->ops[i]->step == STEP_CLAIM && k < p->t->n_jobs; k++)
            if (&p->t->jobs[k] != poison)
                check_neighbour(p, &p->t->jobs[k], poison->ops[i]);
}

/* ---- all of it ---- */

static void check_job(proof *p, const race_job *job)
{
    char why[400];
    int faults = p->faults;
    check_row(p, job);
    check_leases(p, job);
    check_counts(p, job);
    if (p->faults == faults && !model_explains(p->t, job, why, sizeof why))
        fault(p, job, "%s", why);
}

static void print_summary(const proof *p)
{
    const history *t = p->t;
    int states[RENDERQ_OTHER + 1] = { 0 };
    for (size_t i = 0; i < t->n_jobs; i++)
        states[t->jobs[i].row.state]++;
    printf("    %zu jobs: %d Completed, %d DeadLetter, %d Cancelled; %d duplicates kept out\n", t->n_jobs,
           states[RENDERQ_COMPLETED], states[RENDERQ_DEAD_LETTER], states[RENDERQ_CANCELLED], t->duplicates);
    printf("    %d claims, %d answers LOST, %d leases reaped by those whose task it is; %d cancels, %d retries\n",
           p->claims, p->lost, t->reaped_returned + t->reaped_dead, p->cancels, p->retries);
    printf("    %d workers killed, %d by the poison, %zu pauses; past their lease came back %d who had lost it, and %d "
           "whose job nobody had taken\n",
           t->kills + t->poisoned, t->poisoned, t->n_pauses, p->late_lost, p->late_kept);
    printf("    %zu calls, of which %d died with their workers; %zu of them were claims, and took %d jobs at least\n",
           t->n_ops, t->unheard, t->n_claims, t->claims_used);
    if (p->race->faults)
        printf("    %d claims left a ghost behind\n", t->n_ghosts);
}

bool verify(history *t, const race *r, renderq *h)
{
    proof p = { .t = t, .race = r, .h = h };
    size_t enqueued = 0;
    for (size_t i = 0; i < t->n_ops; i++)
        check_answer(&p, &t->ops[i]);
    for (size_t i = 0; i < t->n_jobs; i++) {
        enqueued += t->jobs[i].enqueued;
        if (!enough(&p))
            check_job(&p, &t->jobs[i]);
    }
    if (enqueued != (size_t)r->jobs + r->poison)
        fault(&p, NULL, "%zu jobs were enqueued, and %d should have been", enqueued, r->jobs + r->poison);
    if (t->claims_used > t->claims_room)
        fault(&p, NULL, "%d jobs were claimed by nobody: claims without an answer may have taken %d", t->claims_used,
              t->claims_room);
    if (r->poison && !enough(&p))
        check_poison(&p);
    if (r->jobs >= LOST_LEASES_WANTED && p.late_lost == 0)
        fault(&p, NULL, "no worker came back too late, so nothing is proven of them");
    print_summary(&p);
    if (enough(&p))
        printf("    and more that is wrong\n");
    return p.faults == 0;
}
