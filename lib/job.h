/* job.h: a job as the library hands it out, made from a row. */
#ifndef RQ_JOB_H
#define RQ_JOB_H

#include "handle.h"

/* What is behind a renderq_job *. One block with all its strings, but for what a hand-out changes later. */
typedef struct rq_job {
    renderq_job job;
    rq_guid key;                /* job.id, to sort by */
    int64_t lease_ends_ms;      /* on rq_clock_ms(); 0: no lease */
    char *taker;                /* job.worker after a hand-out */
    bool maybe_handed;          /* a hand-out's reply was lost: the row may carry ... */
    rq_guid fresh;              /* ... this token by now instead of job.lease; nobody was told it */
} rq_job;

/* The rows of one statement, as jobs. */
typedef struct rq_jobs {
    renderq *h;
    const rq_queue *queue;
    renderq_job **jobs;
    size_t n, max;
    bool leased;                /* they carry their lease */
    bool listed;                /* they come without their payloads */
    int lease_s;                /* of the claim that made them, where the row does not say what is left */
    int64_t asked_ms;           /* before the request was sent */
} rq_jobs;

/* A row function; arg is an rq_jobs. */
renderq_status rq_jobs_add(void *arg, size_t item, const rq_value *columns);

/* Frees them all. */
void rq_jobs_clear(rq_jobs *jobs);

/* Rows come in any order. as_claimed: highest priority first, then the oldest; else by id, as lists are. */
void rq_jobs_sort(rq_jobs *jobs, bool as_claimed);

/* Begins the lease anew, as of asked_ms. */
void rq_job_lease(renderq_job *job, int64_t lease_ms, int64_t asked_ms);

renderq_state rq_state_parse(const rq_value *status);

#endif
