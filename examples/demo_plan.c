/* demo_plan.c: the demo's jobs: as the file orders them, and as the queue has them. */
#include "demo.h"

#include <stdio.h>
#include <string.h>

static demo_item *find(demo_plan *plan, const char *id)
{
    for (size_t i = 0; i < plan->n; i++)
        if (strcmp(plan->items[i].id, id) == 0)
            return &plan->items[i];
    return NULL;
}

static int add(demo_plan *plan, json_t *line)
{
    demo_item item = {.max_retries = RENDERQ_RETRIES_DEFAULT, .deliveries = 1}, *same;
    const char *output = NULL;
    json_t *payload;
    json_int_t delay_ms = 0;
    json_error_t wrong;
    y4m_error error = {""};
    char *json;
    y4m_result result;

    if (plan->n == DEMO_ITEMS_MAX
        || json_unpack_ex(line, &wrong, 0, "{s:s, s:o, s?i, s?I, s?i, s?s, s?s}", "id", &item.id,
                          "payload", &payload, "priority", &item.priority, "delay_ms", &delay_ms,
                          "max_retries", &item.max_retries, "dedup_key", &item.dedup_key, "output", &output) != 0)
        return -1;
    plan->deliveries++;
    same = find(plan, item.id);
    if (same != NULL && item.dedup_key != NULL && same->dedup_key != NULL
        && strcmp(same->dedup_key, item.dedup_key) == 0) {
        same->deliveries++;
        return 0;
    }
    if (same != NULL)
        return -1;                          /* the demo tells its jobs apart by their compositions */

    json = json_dumps(payload, 0);
    result = json != NULL ? y4m_parse(json, strlen(json), &item.composition, &error) : Y4M_FAILED;
    free(json);
    item.payload = payload;
    item.delay_ms = delay_ms;
    if (output != NULL)
        snprintf(item.video, sizeof item.video, "%s", output);
    else
        snprintf(item.video, sizeof item.video, "%s.y4m", item.id);
    plan->items[plan->n++] = item;
    return result == Y4M_OK ? 0 : -1;
}

static int64_t duration_ms(const demo_item *item)
{
    return (int64_t)item->composition.frames * item->composition.frame_delay_ms;
}

static void name_roles(demo_plan *plan)
{
    for (size_t i = 0; i < plan->n; i++) {
        demo_item *item = &plan->items[i];

        if (item->composition.crash)
            plan->poison = item;
        else if (plan->slow == NULL || duration_ms(item) > duration_ms(plan->slow))
            plan->slow = item;
        if (item->delay_ms > 0)
            plan->delayed = item;
        if (item->priority > (plan->urgent != NULL ? plan->urgent->priority : 0))
            plan->urgent = item;
    }
}

int plan_load(demo_plan *plan, const char *path)
{
    FILE *from = fopen(path, "r");
    json_error_t wrong;
    json_t *line;
    int number = 0, bad = 0;

    memset(plan, 0, sizeof *plan);
    plan->lines = json_array();
    if (from == NULL || plan->lines == NULL) {
        perror(path);
        bad = 1;
    }
    while (bad == 0 && (line = json_loadf(from, JSON_DISABLE_EOF_CHECK, &wrong)) != NULL) {
        number++;
        if (json_array_append_new(plan->lines, line) != 0 || add(plan, line) != 0) {
            fprintf(stderr, "%s: the demo cannot use job %d\n", path, number);
            bad = 1;
        }
    }
    if (from != NULL)
        fclose(from);
    name_roles(plan);
    if (bad == 0 && (plan->slow == NULL || plan->poison == NULL || plan->urgent == NULL || plan->delayed == NULL
                     || plan->deliveries == plan->n)) {
        fprintf(stderr, "%s: the demo needs a slow, a crashing, an urgent, a delayed and a doubled job\n", path);
        bad = 1;
    }
    return bad != 0 ? -1 : 0;
}

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from != NULL ? from : "");
}

static int see(void *arg, const renderq_job *job)
{
    demo_plan *plan = arg;
    demo_item *item = find(plan, job->composition_id);

    if (item == NULL) {
        plan->strangers++;
        return 0;
    }
    item->rows++;
    item->row = job->id;
    item->state = job->state;
    item->retry_count = job->retry_count;
    item->created_at_ms = job->created_at_ms;
    item->started_at_ms = job->started_at_ms;
    copy(item->worker, sizeof item->worker, job->worker);
    copy(item->progress, sizeof item->progress, job->progress);
    copy(item->last_error, sizeof item->last_error, job->last_error);
    copy(item->output_url, sizeof item->output_url, job->output_url);
    return 0;
}

renderq_status plan_observe(demo_plan *plan, renderq *h)
{
    plan->strangers = 0;
    for (size_t i = 0; i < plan->n; i++)
        plan->items[i].rows = 0;
    return renderq_list(h, NULL, see, plan);
}

int plan_ended(const demo_plan *plan)
{
    for (size_t i = 0; i < plan->n; i++)
        if (plan->items[i].state != RENDERQ_COMPLETED && plan->items[i].state != RENDERQ_DEAD_LETTER
            && plan->items[i].state != RENDERQ_CANCELLED)
            return 0;
    return 1;
}

void plan_free(demo_plan *plan)
{
    json_decref(plan->lines);
    plan->lines = NULL;
    plan->n = 0;
}
