/* statement.h: what the library says to a database: each statement's name, parameters and columns. The SQL is in
 * sql/<engine>/<name>.sql, one text an engine; this contract is the same for all of them. */
#ifndef RQ_STATEMENT_H
#define RQ_STATEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guid.h"

typedef enum rq_type {
    RQ_TEXT,            /* UTF-8 here, nvarchar there; `units` is n, 0 for max */
    RQ_GUID,
    RQ_INT,             /* 32 bits */
    RQ_BIGINT,
    RQ_BIT
} rq_type;

/* A value on its way in or out. All zero is NULL. Text and GUID bytes are borrowed: for the length of the call on
 * the way in, of the row callback on the way out. */
typedef struct rq_value {
    bool present;
    int64_t number;     /* RQ_INT, RQ_BIGINT, RQ_BIT */
    const char *bytes;  /* RQ_TEXT; RQ_GUID: 16 in sort order */
    size_t len;
} rq_value;

typedef struct rq_param {
    const char *name;   /* :name or @name in the SQL; a statement need not use all of them */
    rq_type type;
    int units;
} rq_param;

typedef enum rq_statement_id {
    RQ_ENQUEUE,
    RQ_CLAIM,
    RQ_TAKE,            /* claims a job in the caller's transaction */
    RQ_CLAIMED,         /* the look-up after a claim whose reply was lost */
    RQ_START,
    RQ_STARTED,         /* ... after a hand-out */
    RQ_RENEW,
    RQ_COMPLETE,
    RQ_COMPLETED,       /* ... after a complete */
    RQ_OUTPUT,          /* the output URL of a job that the transaction has completed */
    RQ_FAIL,
    RQ_RELEASE,
    RQ_RETURNED,        /* ... after a fail or a release */
    RQ_RESUME,
    RQ_GET,
    RQ_LIST,
    RQ_CANCEL,
    RQ_RETRY,
    RQ_SETTLE,
    RQ_REAP,
    RQ_PURGE,
    RQ_STATS,
    RQ_STATEMENTS       /* how many there are */
} rq_statement_id;

typedef struct rq_statement {
    const char *name;
    const rq_param *params;
    size_t n_params;
    const rq_type *columns;
    size_t n_columns;
    bool many;          /* may be run for many items at once: n_params values each, one transaction for all */
} rq_statement;

extern const rq_statement rq_statements[RQ_STATEMENTS];

/* UTF-16 units that nvarchar(max) holds: 2 GB less one. */
#define RQ_NVARCHAR_MAX ((size_t)0x3fffffff)

#define RQ_PARAMS_MAX  10
#define RQ_COLUMNS_MAX 20

/* The columns of every statement that hands out jobs: claim, claimed, resume, get, list. */
enum {
    RQ_JOB_ID, RQ_JOB_TOKEN, RQ_JOB_STATUS, RQ_JOB_COMPOSITION, RQ_JOB_PAYLOAD, RQ_JOB_OUTPUT_URL, RQ_JOB_DEDUP_KEY,
    RQ_JOB_WORKER, RQ_JOB_LAST_ERROR, RQ_JOB_PROGRESS, RQ_JOB_PRIORITY, RQ_JOB_RETRY_COUNT, RQ_JOB_MAX_RETRIES,
    RQ_JOB_CREATED_AT, RQ_JOB_LOCKED_AT, RQ_JOB_STARTED_AT, RQ_JOB_DUE_AT, RQ_JOB_COMPLETED_AT, RQ_JOB_ENDED_AT,
    RQ_JOB_LEASE_LEFT,  /* milliseconds; NULL when the lease has only just begun */
    RQ_JOB_COLUMNS
};

/* What an enqueue or a retry says of its item, in its first column. */
enum { RQ_DONE = 0, RQ_HELD = 1, RQ_THERE = 2 };

rq_value rq_text(const char *text);                     /* NULL: NULL */
rq_value rq_bytes(const char *text, size_t len);
rq_value rq_number(int64_t number);
rq_value rq_guid_value(const rq_guid *guid);            /* borrowed; NULL: NULL */

#endif
