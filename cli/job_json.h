/* job_json.h: a job as JSON, as the command prints it and the controller answers it. */
#ifndef CLI_JOB_JSON_H
#define CLI_JOB_JSON_H

#include <jansson.h>
#include <renderq.h>

/* A text; null for NULL. What is not UTF-8 is made so, since JSON cannot hold it. */
json_t *json_text(const char *text);

/* A time as ISO 8601 in UTC; null for 0. */
json_t *json_time(int64_t ms);

/* A job with the field names of an enqueued record; what renderq_list() leaves out (the payload) is left out. */
json_t *json_job(const renderq_job *job);

/* What whoever works on a job has to know: what it is, without its state and times. */
json_t *json_work(const renderq_job *job);

#endif
