/* producer.c: a producer of the race. It enqueues its share of the jobs, single and in batches, some of them delayed,
 * with priorities, or with keys that others hold; then it reaps until the end. */
#include "race.h"

#include <stdio.h>
#include <string.h>

#define KEYS 40

typedef struct item {
    char name[RACE_NAME], key[RACE_NAME], payload[128], text[2 * RACE_NAME + 1];
} item;

typedef struct producer {
    const race *race;
    const char *name;
    renderq *h;
    dice dice;
    audit audit;
    int made;
} producer;

static renderq_new_job new_job(producer *p, item *it, bool poison)
{
    static const int retries[] = { 0, 0, 1, 2, 3, 5, RENDERQ_NO_RETRY };
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    char name[RACE_NAME] = RACE_POISON;
    int key = dice_within(&p->dice, 1, KEYS);
    if (!poison)
        snprintf(name, sizeof name, "%.15s-job-%d", p->name, ++p->made);
    memcpy(it->name, name, sizeof name);
    snprintf(it->key, sizeof it->key, "key-%d", key);
    snprintf(it->payload, sizeof it->payload, "{\"composition\": \"%s\"}", name);
    job.composition_id = it->name;
    job.payload_json = it->payload;
    job.priority = dice_within(&p->dice, -3, 3);
    job.max_retries = retries[dice_within(&p->dice, 0, (int)(sizeof retries / sizeof retries[0]) - 1)];
    if (dice_chance(&p->dice, 15))
        job.dedup_key = it->key;
    if (dice_chance(&p->dice, 10))
        job.delay_ms = dice_within(&p->dice, 1, 800);
    if (poison) {
        job.dedup_key = NULL;
        job.delay_ms = 0;
        job.priority = 4;
        job.max_retries = 1 + (p->race->jobs >= 1000);      /* each one more doubles the time it takes to die */
    }
    if (job.dedup_key)
        snprintf(it->text, sizeof it->text, "%s,key-%d", name, key);
    else
        snprintf(it->text, sizeof it->text, "%s,-", name);
    return job;
}

/* Enqueues n jobs, and returns how many of them are in. */
static int enqueue(producer *p, int n, bool poison)
{
    item items[RACE_BATCH];
    renderq_new_job jobs[RACE_BATCH];
    renderq_enqueued each[RACE_BATCH];
    audit_begin(&p->audit);
    for (int i = 0; i < n; i++) {
        jobs[i] = new_job(p, &items[i], poison);
        each[i] = (renderq_enqueued)RENDERQ_INIT(renderq_enqueued);
        audit_ask(&p->audit, i, STEP_ENQUEUE, NULL, NULL, jobs[i].delay_ms, jobs[i].max_retries, items[i].text);
    }
    audit_write(&p->audit);
    if (n == 1)
        each[0].status = renderq_enqueue(p->h, &jobs[0], &each[0].id);
    else
        renderq_enqueue_many(p->h, jobs, (size_t)n, each);
    audit_end(&p->audit);
    int in = 0;
    for (int i = 0; i < n; i++) {
        in += each[i].status == RENDERQ_OK;
        bool answered = each[i].status == RENDERQ_OK || each[i].status == RENDERQ_DUPLICATE;
        audit_got(&p->audit, i, STEP_ENQUEUE, each[i].id.text, NULL, each[i].status, n, 0, jobs[i].max_retries,
                  answered ? items[i].text : renderq_errmsg(p->h));
    }
    audit_write(&p->audit);
    return in;
}

int producer_main(const race *r, const char *name, int jobs, bool poison)
{
    producer p = { .race = r, .name = name, .dice = dice_for(r, name) };
    audit_open(&p.audit, r, name);
    p.h = race_connect(r, name, &p.audit);
    if (poison)
        enqueue(&p, 1, true);
    while (jobs > 0 && race_phase(r) == RACE_PLAY) {
        int n = dice_chance(&p.dice, 60) ? 1 : dice_within(&p.dice, 2, RACE_BATCH);
        jobs -= enqueue(&p, n < jobs ? n : jobs, false);
        race_pause(dice_within(&p.dice, 0, 30));
        race_reap(p.h, &p.audit);
    }
    __atomic_sub_fetch(&r->board->producing, 1, __ATOMIC_ACQ_REL);
    while (race_phase(r) != RACE_OVER) {
        race_pause(dice_within(&p.dice, 50, 150));
        race_reap(p.h, &p.audit);
    }
    renderq_close(p.h);
    return 0;
}
