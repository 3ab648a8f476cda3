/* check.h: the arguments of the public calls, looked at before anything is sent. One clear text each. */
#ifndef RQ_CHECK_H
#define RQ_CHECK_H

#include "handle.h"

typedef struct rq_field {
    const char *name;           /* as the caller knows it */
    size_t max_units;           /* 0: no limit of ours */
    bool required;              /* not NULL */
    bool may_be_empty;
    bool may_end_in_blank;      /* SQL Server compares without the blanks at the end, so keys and names have none */
} rq_field;

extern const rq_field rq_composition_field, rq_payload_field, rq_output_url_field, rq_dedup_key_field, rq_worker_field,
                      rq_progress_field;

/* `where` is put in front of the name: "item 3: "; NULL: nothing. */
renderq_status rq_check_text(renderq *h, const char *where, const rq_field *field, const char *text);
renderq_status rq_check_bytes(renderq *h, const char *where, const rq_field *field, const char *text, size_t len);

/* A delay: 0 to the longest one. */
renderq_status rq_check_delay(renderq *h, const char *where, const char *name, int64_t ms);

/* A lease: 0 for the default, or 1 second to the longest one. */
renderq_status rq_check_lease_s(renderq *h, int lease_s);

/* A GUID as text. */
renderq_status rq_check_id(renderq *h, const char *name, const renderq_id *id, rq_guid *out);

/* A job that holds a lease: its id and token. */
typedef struct rq_lease {
    rq_guid id, token;
} rq_lease;

renderq_status rq_check_lease(renderq *h, const char *where, const renderq_job *job, rq_lease *out);

#endif
