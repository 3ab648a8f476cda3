/* tally.c: counts. See tally.h. */
#include "tally.h"

#include <string.h>

#include "json.h"
#include "log.h"

static const char *const names[TALLY_KINDS] = {
    "enqueued", "handed_out", "completed", "failed", "released", "settled", "returned", "dead",
};

const char *tally_name(tally_kind kind)
{
    return names[kind];
}

void tally_init(tally *t)
{
    memset(t, 0, sizeof *t);
    pthread_mutex_init(&t->lock, NULL);
}

void tally_add(tally *t, tally_kind kind, int64_t n)
{
    int64_t now = wall_ms() / 60000;
    tally_minute *minute = &t->ring[now % TALLY_MINUTES];
    pthread_mutex_lock(&t->lock);
    if (minute->minute != now)
        *minute = (tally_minute){ .minute = now };
    minute->counts[kind] += n;
    t->totals[kind] += n;
    pthread_mutex_unlock(&t->lock);
}

int64_t tally_total(tally *t, tally_kind kind)
{
    pthread_mutex_lock(&t->lock);
    int64_t total = t->totals[kind];
    pthread_mutex_unlock(&t->lock);
    return total;
}

json_t *tally_totals(tally *t)
{
    json_t *made = json_object();
    for (int kind = 0; kind < TALLY_KINDS; kind++)
        json_object_set_new(made, names[kind], json_integer(tally_total(t, (tally_kind)kind)));
    return made;
}

static json_t *minute_object(int64_t at, const int64_t *counts)
{
    json_t *made = json_object();
    json_object_set_new(made, "at", json_time(at * 60000));
    json_object_set_new(made, "enqueued", json_integer(counts[TALLY_ENQUEUED]));
    json_object_set_new(made, "handed_out", json_integer(counts[TALLY_HANDED_OUT]));
    json_object_set_new(made, "completed", json_integer(counts[TALLY_COMPLETED] + counts[TALLY_SETTLED]));
    json_object_set_new(made, "failed",
                        json_integer(counts[TALLY_FAILED] + counts[TALLY_RETURNED] + counts[TALLY_DEAD]));
    return made;
}

json_t *tally_throughput(tally *t, int minutes)
{
    static const int64_t none[TALLY_KINDS];
    json_t *made = json_array();
    int64_t now = wall_ms() / 60000;
    pthread_mutex_lock(&t->lock);
    for (int64_t at = now - minutes + 1; at <= now; at++) {
        const tally_minute *minute = &t->ring[at % TALLY_MINUTES];
        json_array_append_new(made, minute_object(at, minute->minute == at ? minute->counts : none));
    }
    pthread_mutex_unlock(&t->lock);
    return made;
}
