/* reader.h: the thread for what may take a while: counts, dead letters, figures. */
#ifndef CONTROLLER_READER_H
#define CONTROLLER_READER_H

#include <pthread.h>
#include <renderq.h>

#include "tray.h"
#include "settings.h"

struct service;

/* What was counted last of a queue. */
typedef struct counted {
    bool known;
    int64_t at_ms;                      /* on the wall */
    int64_t until_ms;                   /* how long it is good for, on clock_ms() */
    renderq_counts counts;
    json_t *workers;                    /* an array */
    int64_t workers_total;
} counted;

typedef struct reader {
    struct service *service;
    pthread_t thread;
    tray tray;
    renderq *h;                         /* NULL: not open */
    pthread_mutex_t handle_lock;
    counted counted[QUEUES_MAX];
    char why[512];                      /* what was wrong last */
} reader;

void reader_init(reader *r, struct service *s);
bool reader_start(reader *r);
void reader_stop(reader *r);
void reader_join(reader *r);
void reader_interrupt(reader *r);

#endif
