/* calls.h: every public call that speaks to the database, as a small scene: what is there before, the call, and
 * what the rows must be when it took effect exactly once. faults.c plays each scene with each fault. */
#ifndef CONFORMANCE_CALLS_H
#define CONFORMANCE_CALLS_H

#include "suite.h"

typedef struct scene {
    suite *s;
    renderq *f;                     /* the handle that makes the call */
    renderq_id ids[4];              /* the jobs that it is about */
    size_t n;
    renderq_job *jobs[4];           /* claimed before, through another handle; or claimed by the call */
    renderq_enqueued made[4];
    int64_t counts[2];              /* of a bulk call */
    int seen;                       /* jobs that a list handed out */
} scene;

typedef struct scene_call {
    const char *name;
    void (*prepare)(scene *c);
    renderq_status (*act)(scene *c);    /* a failure must hand nothing out: it looks to that */
    void (*rows)(scene *c);             /* NULL: the call changes nothing */
    void (*out)(scene *c, bool exact);  /* what an OK handed out; not exact: bulk counts are "at least" */
    size_t writes_at;                   /* the run that changes the rows */
    bool claims;                        /* a request that takes effect very late takes another job: see ghost.c */
    bool looks;                     /* its repeat finds out in a way of its own: worth a fault too */
} scene_call;

extern const scene_call scene_calls[];
extern const size_t n_scene_calls;

/* Ends a scene: frees its jobs. */
void scene_free(scene *c);

#endif
