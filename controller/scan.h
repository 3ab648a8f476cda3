/* scan.h: the look at the output files, every few minutes. A job whose file is there, and had the same size and time
 * at two looks, is done, whoever made it and whatever became of its lease; unless a worker that renews its lease is
 * still at it. Then, and only then, leases that have run out are ended: those jobs come round again, counted. */
#ifndef CONTROLLER_SCAN_H
#define CONTROLLER_SCAN_H

#include <pthread.h>
#include <renderq.h>
#include <stdbool.h>
#include <stdint.h>

#include "settings.h"
#include "outputs.h"

struct service;

/* A file that was there at the last look, of a job that is not completed. */
typedef struct seen_file {
    renderq_id id;
    output_look look;
    bool run_out;                       /* its lease had */
} seen_file;

typedef struct seen_list {
    seen_file *items;                        /* sorted by id */
    size_t n, room;
} seen_list;

typedef struct scan_state {
    int64_t last_at_ms, took_ms, scans;
} scan_state;

typedef struct scan {
    struct service *service;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t rung;
    bool stop;
    renderq *h;
    outputs outputs;                    /* opened anew by each scan: something may have been mounted there */
    char broken[512];                   /* the outputs cannot be looked at: why */
    seen_list seen[QUEUES_MAX];
    scan_state state;
    int64_t said_ms;
} scan;

void scan_init(scan *s, struct service *of);
bool scan_start(scan *s);
void scan_stop(scan *s);                /* ends one that is under way, too */
void scan_join(scan *s);
scan_state scan_read(scan *s);

#endif
