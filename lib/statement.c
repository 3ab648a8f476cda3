/* statement.c: the contract of every statement, and how values are made. No SQL. See statement.h. */
#include "statement.h"

#include <string.h>

#define JOB_TYPES RQ_GUID, RQ_GUID, RQ_TEXT, RQ_TEXT, RQ_TEXT, RQ_TEXT, RQ_TEXT, RQ_TEXT, RQ_TEXT, RQ_TEXT, \
                  RQ_INT, RQ_INT, RQ_INT, RQ_BIGINT, RQ_BIGINT, RQ_BIGINT, RQ_BIGINT, RQ_BIGINT, RQ_BIGINT, RQ_BIGINT

static const rq_type job_columns[RQ_JOB_COLUMNS] = { JOB_TYPES };

/* A lease is named by the pair; every fenced statement begins with it. */
#define LEASE { "id", RQ_GUID, 0 }, { "token", RQ_GUID, 0 }

static const rq_param enqueue_params[] = {
    { "id", RQ_GUID, 0 }, { "composition_id", RQ_TEXT, RENDERQ_COMPOSITION_MAX }, { "payload", RQ_TEXT, 0 },
    { "output_url", RQ_TEXT, RENDERQ_OUTPUT_URL_MAX }, { "dedup_key", RQ_TEXT, RENDERQ_DEDUP_KEY_MAX },
    { "priority", RQ_INT, 0 }, { "max_retries", RQ_INT, 0 },    /* NULL: the default */
    { "delay_ms", RQ_BIGINT, 0 }
};
/* RQ_DONE and its id; RQ_HELD and the id of the job that holds the key; RQ_THERE: a row has this id already,
 * which is looked at before the key. */
static const rq_type enqueue_columns[] = { RQ_INT, RQ_GUID };

static const rq_param claim_params[] = {
    { "worker", RQ_TEXT, RENDERQ_WORKER_MAX }, { "token", RQ_GUID, 0 }, { "lease_s", RQ_INT, 0 },
    { "unstarted", RQ_INT, 0 },             /* 0: none, 1: all, 2: those that failed before or may not fail */
    { "batch", RQ_INT, 0 }
};
static const rq_param take_params[] = {
    { "worker", RQ_TEXT, RENDERQ_WORKER_MAX }, { "token", RQ_GUID, 0 }, { "lease_s", RQ_INT, 0 }
};
static const rq_param claimed_params[] = { { "token", RQ_GUID, 0 } };

static const rq_param start_params[] = {
    LEASE, { "lease_s", RQ_INT, 0 },                            /* NULL: as claimed */
    { "taker", RQ_TEXT, RENDERQ_WORKER_MAX }, { "fresh", RQ_GUID, 0 }    /* both, or both NULL */
};
/* LeaseSeconds, StartedAtUtc, LockedAtUtc. */
static const rq_type lease_columns[] = { RQ_INT, RQ_BIGINT, RQ_BIGINT };

static const rq_param lease_params[] = { LEASE };
static const rq_param renew_params[] = { LEASE, { "progress", RQ_TEXT, RENDERQ_PROGRESS_MAX } };
static const rq_param complete_params[] = { LEASE, { "output_url", RQ_TEXT, RENDERQ_OUTPUT_URL_MAX } };
static const rq_param fail_params[] = {
    LEASE, { "error", RQ_TEXT, 0 }, { "never", RQ_BIT, 0 }, { "delay_ms", RQ_BIGINT, 0 }
};
static const rq_param release_params[] = { LEASE, { "delay_ms", RQ_BIGINT, 0 } };
static const rq_param returned_params[] = { LEASE, { "retry_count", RQ_INT, 0 } };
/* One row where the fence matched, none where it did not. */
static const rq_type matched_columns[] = { RQ_INT };

static const rq_param id_params[] = { { "id", RQ_GUID, 0 } };
static const rq_param list_params[] = {
    { "after", RQ_GUID, 0 }, { "state", RQ_TEXT, 20 },          /* a Status, "Other", or NULL: any */
    { "composition_id", RQ_TEXT, RENDERQ_COMPOSITION_MAX }, { "worker", RQ_TEXT, RENDERQ_WORKER_MAX },
    { "page", RQ_INT, 0 }
};
static const rq_param settle_params[] = {
    { "id", RQ_GUID, 0 }, { "output_url", RQ_TEXT, RENDERQ_OUTPUT_URL_MAX }, { "spare_renewed", RQ_BIT, 0 }
};
/* Whether this ask changed the row, and its Status now; no row: no such job. */
static const rq_type changed_columns[] = { RQ_BIT, RQ_TEXT };

static const rq_param retry_params[] = { { "id", RQ_GUID, 0 }, { "dead_only", RQ_BIT, 0 } };
/* RQ_DONE; RQ_HELD and the holder's id; RQ_THERE: its Status forbids it. No row: no such job. */
static const rq_type retry_columns[] = { RQ_INT, RQ_GUID, RQ_TEXT };

static const rq_param batch_params[] = { { "batch", RQ_INT, 0 } };
static const rq_type reap_columns[] = { RQ_GUID, RQ_TEXT };     /* a row a job: its id, its Status now */

static const rq_param purge_params[] = { { "age_s", RQ_BIGINT, 0 }, { "batch", RQ_INT, 0 } };
static const rq_type count_columns[] = { RQ_BIGINT };           /* rows deleted; several rows are added up */

/* Jobs by state as renderq_counts has them, the age of the oldest, run-out leases, completed in 1, 5, 15 minutes. */
static const rq_type stats_columns[] = {
    RQ_BIGINT, RQ_BIGINT, RQ_BIGINT, RQ_BIGINT, RQ_BIGINT, RQ_BIGINT, RQ_BIGINT, RQ_BIGINT, RQ_BIGINT, RQ_BIGINT,
    RQ_BIGINT, RQ_BIGINT
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define TAKES(array) .params = (array), .n_params = COUNT(array)
#define GIVES(array) .columns = (array), .n_columns = COUNT(array)

const rq_statement rq_statements[RQ_STATEMENTS] = {
    [RQ_ENQUEUE]   = { "enqueue", TAKES(enqueue_params), GIVES(enqueue_columns), .many = true },
    [RQ_CLAIM]     = { "claim", TAKES(claim_params), GIVES(job_columns), .many = false },
    [RQ_TAKE]      = { "take", TAKES(take_params), GIVES(job_columns), .many = false },
    [RQ_CLAIMED]   = { "claimed", TAKES(claimed_params), GIVES(job_columns), .many = false },
    [RQ_START]     = { "start", TAKES(start_params), GIVES(lease_columns), .many = true },
    [RQ_STARTED]   = { "started", TAKES(lease_params), GIVES(lease_columns), .many = true },
    [RQ_RENEW]     = { "renew", TAKES(renew_params), GIVES(lease_columns), .many = true },
    [RQ_COMPLETE]  = { "complete", TAKES(complete_params), GIVES(matched_columns), .many = true },
    [RQ_COMPLETED] = { "completed", TAKES(lease_params), GIVES(matched_columns), .many = true },
    [RQ_OUTPUT]    = { "output", TAKES(complete_params), GIVES(matched_columns), .many = false },
    [RQ_FAIL]      = { "fail", TAKES(fail_params), GIVES(matched_columns), .many = false },
    [RQ_RELEASE]   = { "release", TAKES(release_params), GIVES(matched_columns), .many = false },
    [RQ_RETURNED]  = { "returned", TAKES(returned_params), GIVES(matched_columns), .many = false },
    [RQ_RESUME]    = { "resume", TAKES(lease_params), GIVES(job_columns), .many = false },
    [RQ_GET]       = { "get", TAKES(id_params), GIVES(job_columns), .many = false },
    [RQ_LIST]      = { "list", TAKES(list_params), GIVES(job_columns), .many = false },
    [RQ_CANCEL]    = { "cancel", TAKES(id_params), GIVES(changed_columns), .many = false },
    [RQ_RETRY]     = { "retry", TAKES(retry_params), GIVES(retry_columns), .many = true },
    [RQ_SETTLE]    = { "settle", TAKES(settle_params), GIVES(changed_columns), .many = false },
    [RQ_REAP]      = { "reap", TAKES(batch_params), GIVES(reap_columns), .many = false },
    [RQ_PURGE]     = { "purge", TAKES(purge_params), GIVES(count_columns), .many = false },
    [RQ_STATS]     = { "stats", .params = NULL, .n_params = 0, GIVES(stats_columns), .many = false },
};

rq_value rq_text(const char *text)
{
    return text ? rq_bytes(text, strlen(text)) : (rq_value){ .present = false };
}

rq_value rq_bytes(const char *text, size_t len)
{
    return (rq_value){ .present = true, .bytes = text, .len = len };
}

rq_value rq_number(int64_t number)
{
    return (rq_value){ .present = true, .number = number };
}

rq_value rq_guid_value(const rq_guid *guid)
{
    return guid ? rq_bytes((const char *)guid->sort, sizeof guid->sort) : (rq_value){ .present = false };
}
