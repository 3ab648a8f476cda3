/* reap.h: one batch of leases that have run out. */
#ifndef RQ_REAP_H
#define RQ_REAP_H

#include "handle.h"

typedef struct rq_reaped {
    int64_t returned, dead;
} rq_reaped;

/* Ends at most `batch` of them, asked once; the counts are of that. */
renderq_status rq_reap_batch(renderq *h, const rq_queue *queue, int batch, rq_reaped *counts);

#endif
