/* tally.h: what went through the service, in all and by the minute. Any thread may add and read. */
#ifndef CONTROLLER_TALLY_H
#define CONTROLLER_TALLY_H

#include <jansson.h>
#include <pthread.h>
#include <stdint.h>

#define TALLY_MINUTES 1440

typedef enum tally_kind {
    TALLY_ENQUEUED, TALLY_HANDED_OUT, TALLY_COMPLETED, TALLY_FAILED, TALLY_RELEASED, TALLY_SETTLED, TALLY_RETURNED,
    TALLY_DEAD,
    TALLY_KINDS
} tally_kind;

typedef struct tally_minute {
    int64_t minute;                     /* of UTC since 1970; another one: the place is old */
    int64_t counts[TALLY_KINDS];
} tally_minute;

typedef struct tally {
    pthread_mutex_t lock;
    int64_t totals[TALLY_KINDS];
    tally_minute ring[TALLY_MINUTES];
} tally;

void tally_init(tally *t);
void tally_add(tally *t, tally_kind kind, int64_t n);
int64_t tally_total(tally *t, tally_kind kind);

/* "enqueued", ... */
const char *tally_name(tally_kind kind);

json_t *tally_totals(tally *t);

/* The last minutes, the oldest first, up to the one that is running. */
json_t *tally_throughput(tally *t, int minutes);

#endif
