/* job_json.c: a job as JSON. See job_json.h. */
#include "job_json.h"

#include <stdlib.h>

#include "text.h"

json_t *json_text(const char *text)
{
    if (!text)
        return json_null();
    json_t *made = json_string(text);
    if (!made) {
        char *clean = text_clean_lines(text);
        made = json_string(clean);
        free(clean);
    }
    return made;
}

json_t *json_time(int64_t ms)
{
    char text[TIME_SIZE];
    return ms ? json_string(time_text(ms, text)) : json_null();
}

json_t *json_work(const renderq_job *job)
{
    json_t *made = json_object();
    json_object_set_new(made, "id", json_text(job->id.text));
    json_object_set_new(made, "queue", json_text(job->queue));
    json_object_set_new(made, "composition_id", json_text(job->composition_id));
    json_object_set_new(made, "priority", json_integer(job->priority));
    json_object_set_new(made, "retry_count", json_integer(job->retry_count));
    json_object_set_new(made, "max_retries", json_integer(job->max_retries > 0 ? job->max_retries : 0));
    json_object_set_new(made, "worker", json_text(job->worker));
    json_object_set_new(made, "progress", json_text(job->progress));
    json_object_set_new(made, "output_url", json_text(job->output_url));
    json_object_set_new(made, "dedup_key", json_text(job->dedup_key));
    json_object_set_new(made, "last_error", json_text(job->last_error));
    json_object_set_new(made, "created_at", json_time(job->created_at_ms));
    if (job->payload_json)
        json_object_set_new(made, "payload_json", json_text(job->payload_json));
    return made;
}

json_t *json_job(const renderq_job *job)
{
    json_t *made = json_work(job);
    json_object_set_new(made, "state", json_text(renderq_strstate(job->state)));
    json_object_set_new(made, "due_at", json_time(job->due_at_ms));
    json_object_set_new(made, "locked_at", json_time(job->locked_at_ms));
    json_object_set_new(made, "started_at", json_time(job->started_at_ms));
    json_object_set_new(made, "ended_at", json_time(job->ended_at_ms));
    json_object_set_new(made, "lease_left_ms", job->state == RENDERQ_PROCESSING ? json_integer(job->lease_left_ms)
                                                                                : json_null());
    return made;
}
