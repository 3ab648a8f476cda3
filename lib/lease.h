/* lease.h: the calls of a lease's owner, with what only a caller that asks again and again needs. */
#ifndef RQ_LEASE_H
#define RQ_LEASE_H

#include "handle.h"

/* As the public calls; maybe: an earlier call for the same ended UNCERTAIN, so that a row may already be our own
 * success. */
renderq_status rq_complete_many(renderq *h, renderq_result *results, size_t n, bool maybe);
renderq_status rq_fail(renderq *h, const renderq_job *job, const char *error, int64_t retry_ms, bool maybe);
renderq_status rq_release(renderq *h, const renderq_job *job, int64_t delay_ms, bool maybe);

/* progress: n of them, each may be NULL; NULL: none. */
renderq_status rq_renew_many(renderq *h, renderq_job **jobs, const char *const *progress, size_t n,
                             renderq_status *each);

#endif
