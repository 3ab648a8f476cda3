/* demo.h: what the parts of the demo share. demo.c runs it, demo_plan.c knows the jobs, demo_check.c checks. */
#ifndef DEMO_H
#define DEMO_H

#include <renderq.h>

#include "y4m.h"

#include <jansson.h>
#include <sys/types.h>

#define DEMO_ITEMS_MAX 200
#define DEMO_WORKERS   3

/* A job: what the file orders, and what the queue's row said when it was last looked at. */
typedef struct demo_item {
    const char *id, *dedup_key;
    const json_t *payload;
    char video[Y4M_NAME_MAX + 1];
    int priority, max_retries, deliveries;  /* deliveries: lines of the file that are this job */
    int64_t delay_ms;
    y4m_composition composition;

    int rows, retry_count;
    renderq_id row;
    renderq_state state;
    int64_t created_at_ms, started_at_ms;
    char worker[129], progress[201], last_error[256], output_url[2100];
} demo_item;

typedef struct demo_plan {
    json_t *lines;                          /* owns every text of the items */
    demo_item items[DEMO_ITEMS_MAX];
    size_t n, deliveries;
    int strangers;                          /* rows that no line ordered */
    demo_item *slow;                        /* takes the longest: its worker is to be killed */
    demo_item *poison;                      /* crashes its worker */
    demo_item *urgent;                      /* has the highest priority */
    demo_item *delayed;
} demo_plan;

typedef struct demo_worker {
    char name[16];
    pid_t pid;                              /* 0: not running */
    int crashes, killed, errors;            /* errors: ended by itself, or not cleanly */
} demo_worker;

typedef struct demo_folders {
    char home[512], videos[520], logs[520], url[1700];
} demo_folders;

/* Reads the file that examples/enqueue reads. Returns 0, or -1 after saying why on the standard error. */
int plan_load(demo_plan *plan, const char *path);

/* Looks at the queue and updates every item. Returns what renderq_list() did. */
renderq_status plan_observe(demo_plan *plan, renderq *h);

/* Nothing is left to be done: every job has ended, one way or the other. */
int plan_ended(const demo_plan *plan);

void plan_free(demo_plan *plan);

/* Checks everything that the demo claims, a line each on the standard output. Returns how many were wrong. */
int check_demo(demo_plan *plan, renderq *h, const demo_worker *workers, const demo_folders *folders);

#endif
