/* job.c: jobs made from rows, their leases counted down, and freed. No SQL, no connection. */
#include "job.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"

static const char *const state_names[] = {
    [RENDERQ_SCHEDULED] = "Scheduled",   [RENDERQ_QUEUED] = "Queued",          [RENDERQ_PROCESSING] = "Processing",
    [RENDERQ_COMPLETED] = "Completed",   [RENDERQ_DEAD_LETTER] = "DeadLetter", [RENDERQ_CANCELLED] = "Cancelled",
    [RENDERQ_OTHER] = "Other"
};

const char *renderq_strstate(renderq_state state)
{
    return state >= RENDERQ_SCHEDULED && state <= RENDERQ_OTHER ? state_names[state] : state_names[RENDERQ_OTHER];
}

renderq_state rq_state_parse(const rq_value *status)
{
    for (int state = RENDERQ_SCHEDULED; status->present && state < RENDERQ_OTHER; state++)
        if (strlen(state_names[state]) == status->len && memcmp(state_names[state], status->bytes, status->len) == 0)
            return (renderq_state)state;
    return RENDERQ_OTHER;
}

/* ---- from a row ---- */

static size_t room(const rq_value *text)
{
    return text->present ? text->len + 1 : 0;
}

/* Puts a text behind the others; NULL stays NULL. */
static const char *put(char **end, const rq_value *text)
{
    if (!text->present)
        return NULL;
    char *start = *end;
    memcpy(start, text->bytes, text->len);
    start[text->len] = 0;
    *end += text->len + 1;
    return start;
}

/* Another program's table may have a NULL there. */
static const char *put_required(char **end, const rq_value *text)
{
    return text->present ? put(end, text) : "";
}

static rq_guid guid_of(const rq_value *value)
{
    rq_guid guid = { { 0 } };
    if (value->present)
        memcpy(guid.sort, value->bytes, sizeof guid.sort);
    return guid;
}

static const int text_columns[] = {
    RQ_JOB_COMPOSITION, RQ_JOB_PAYLOAD, RQ_JOB_OUTPUT_URL, RQ_JOB_DEDUP_KEY, RQ_JOB_WORKER, RQ_JOB_LAST_ERROR,
    RQ_JOB_PROGRESS
};

/* The times that belong to the state. Programs that do not know of the others leave them in the row. */
static void set_times(renderq_job *job, const rq_value *row)
{
    int64_t completed = row[RQ_JOB_COMPLETED_AT].number, ended = row[RQ_JOB_ENDED_AT].number;
    int64_t started = row[RQ_JOB_STARTED_AT].number, due = row[RQ_JOB_DUE_AT].number;
    job->created_at_ms = row[RQ_JOB_CREATED_AT].number;
    job->locked_at_ms = row[RQ_JOB_LOCKED_AT].number;
    switch (job->state) {
    case RENDERQ_SCHEDULED:
        job->due_at_ms = due;
        break;
    case RENDERQ_QUEUED:
        break;
    case RENDERQ_PROCESSING:
        job->started_at_ms = started;
        break;
    case RENDERQ_COMPLETED:
        job->started_at_ms = started;
        job->ended_at_ms = completed;
        break;
    case RENDERQ_DEAD_LETTER:
    case RENDERQ_CANCELLED:
        job->ended_at_ms = ended;
        break;
    case RENDERQ_OTHER:
        job->started_at_ms = started;
        job->due_at_ms = due;
        job->ended_at_ms = row[RQ_JOB_COMPLETED_AT].present ? completed : ended;
        break;
    }
}

static renderq_job *job_new(const rq_jobs *to, const rq_value *row)
{
    rq_value queue = rq_text(to->queue->text);
    size_t size = sizeof(rq_job) + room(&queue);
    for (size_t i = 0; i < sizeof text_columns / sizeof text_columns[0]; i++)
        size += room(&row[text_columns[i]]);
    rq_job *made = calloc(1, size);
    if (!made)
        return NULL;
    char *end = (char *)(made + 1);
    renderq_job *job = &made->job;
    made->key = guid_of(&row[RQ_JOB_ID]);
    rq_guid_print(&made->key, &job->id);
    if (to->leased) {
        rq_guid token = guid_of(&row[RQ_JOB_TOKEN]);
        rq_guid_print(&token, &job->lease);
    }
    job->queue = put(&end, &queue);
    job->composition_id = put_required(&end, &row[RQ_JOB_COMPOSITION]);
    job->payload_json = to->listed ? put(&end, &row[RQ_JOB_PAYLOAD]) : put_required(&end, &row[RQ_JOB_PAYLOAD]);
    job->payload_len = row[RQ_JOB_PAYLOAD].len;
    job->output_url = put(&end, &row[RQ_JOB_OUTPUT_URL]);
    job->dedup_key = put(&end, &row[RQ_JOB_DEDUP_KEY]);
    job->worker = put(&end, &row[RQ_JOB_WORKER]);
    job->last_error = put(&end, &row[RQ_JOB_LAST_ERROR]);
    job->progress = put(&end, &row[RQ_JOB_PROGRESS]);
    job->state = rq_state_parse(&row[RQ_JOB_STATUS]);
    job->priority = (int)row[RQ_JOB_PRIORITY].number;
    job->retry_count = (int)row[RQ_JOB_RETRY_COUNT].number;
    int max_retries = (int)row[RQ_JOB_MAX_RETRIES].number;
    job->max_retries = max_retries > 0 ? max_retries : RENDERQ_NO_RETRY;
    set_times(job, row);
    return job;
}

renderq_status rq_jobs_add(void *arg, size_t item, const rq_value *columns)
{
    (void)item;
    rq_jobs *to = arg;
    bool processing = rq_state_parse(&columns[RQ_JOB_STATUS]) == RENDERQ_PROCESSING;
    if (!columns[RQ_JOB_ID].present || (to->leased && (!columns[RQ_JOB_TOKEN].present || !processing)))
        return rq_senseless(to->h, "a job without an id or a lease");
    if (to->n == to->max)
        return rq_senseless(to->h, "more jobs than were asked for");
    renderq_job *job = job_new(to, columns);
    if (!job)
        return rq_fault(to->h, RENDERQ_NOMEM, "out of memory for a job with a payload of %zu bytes; nothing was done",
                        columns[RQ_JOB_PAYLOAD].len);
    to->jobs[to->n++] = job;
    const rq_value *left = &columns[RQ_JOB_LEASE_LEFT];
    if (job->state == RENDERQ_PROCESSING)
        rq_job_lease(job, left->present ? left->number : (int64_t)to->lease_s * 1000, to->asked_ms);
    return RENDERQ_OK;
}

void rq_jobs_clear(rq_jobs *jobs)
{
    while (jobs->n > 0) {
        renderq_job_free(jobs->jobs[--jobs->n]);
        jobs->jobs[jobs->n] = NULL;
    }
}

static int by_turn(const void *left, const void *right)
{
    const rq_job *a = *(rq_job *const *)left, *b = *(rq_job *const *)right;
    if (a->job.priority != b->job.priority)
        return a->job.priority > b->job.priority ? -1 : 1;
    if (a->job.created_at_ms != b->job.created_at_ms)
        return a->job.created_at_ms < b->job.created_at_ms ? -1 : 1;
    return memcmp(a->key.sort, b->key.sort, sizeof a->key.sort);
}

static int by_id(const void *left, const void *right)
{
    const rq_job *a = *(rq_job *const *)left, *b = *(rq_job *const *)right;
    return memcmp(a->key.sort, b->key.sort, sizeof a->key.sort);
}

void rq_jobs_sort(rq_jobs *jobs, bool as_claimed)
{
    if (jobs->n > 1)
        qsort(jobs->jobs, jobs->n, sizeof jobs->jobs[0], as_claimed ? by_turn : by_id);
}

/* ---- the lease ---- */

void rq_job_lease(renderq_job *job, int64_t lease_ms, int64_t asked_ms)
{
    const int64_t longest_ms = (int64_t)RENDERQ_LEASE_MAX_S * 1000;
    rq_job *made = (rq_job *)job;
    /* Another program may have set it. */
    lease_ms = lease_ms < 0 ? 0 : lease_ms > longest_ms ? longest_ms : lease_ms;
    made->lease_ends_ms = asked_ms + lease_ms;
    job->lease_left_ms = 0;
    if (made->lease_ends_ms > rq_clock_ms())
        job->lease_left_ms = made->lease_ends_ms - rq_clock_ms();
}

int64_t renderq_lease_left_ms(const renderq_job *job)
{
    if (!job || !job->lease.text[0])
        return 0;
    int64_t left = ((const rq_job *)job)->lease_ends_ms - rq_clock_ms();
    return left > 0 ? left : 0;
}

void renderq_job_free(renderq_job *job)
{
    if (!job)
        return;
    free(((rq_job *)job)->taker);
    free(job);
}
