/* check.c: the checks of arguments. See check.h. */
#include "check.h"

#include <string.h>

#include "utf.h"

const rq_field rq_composition_field = { "composition_id", RENDERQ_COMPOSITION_MAX, .required = true,
                                        .may_end_in_blank = true };
const rq_field rq_payload_field = { "payload_json", RQ_NVARCHAR_MAX, .required = true, .may_end_in_blank = true };
const rq_field rq_output_url_field = { "output_url", RENDERQ_OUTPUT_URL_MAX, .may_be_empty = true,
                                       .may_end_in_blank = true };
const rq_field rq_dedup_key_field = { "dedup_key", RENDERQ_DEDUP_KEY_MAX, .required = false };
const rq_field rq_worker_field = { "worker", RENDERQ_WORKER_MAX, .required = false };
const rq_field rq_progress_field = { "progress", RENDERQ_PROGRESS_MAX, .may_be_empty = true,
                                     .may_end_in_blank = true };

renderq_status rq_check_bytes(renderq *h, const char *where, const rq_field *field, const char *text, size_t len)
{
    where = where ? where : "";
    if (!text)
        return field->required ? rq_fault(h, RENDERQ_INVALID, "%s%s is NULL: it is required", where, field->name)
                               : RENDERQ_OK;
    if (len == 0)
        return field->may_be_empty ? RENDERQ_OK
                                   : rq_fault(h, RENDERQ_INVALID, "%s%s is empty", where, field->name);
    rq_utf_scan scan = rq_utf_check(text, len);
    if (scan.bad_at < len && !text[scan.bad_at])
        return rq_fault(h, RENDERQ_INVALID, "%s%s has a NUL at byte %zu", where, field->name, scan.bad_at);
    if (scan.bad_at < len)
        return rq_fault(h, RENDERQ_INVALID, "%s%s is not UTF-8 at byte %zu", where, field->name, scan.bad_at);
    if (field->max_units && scan.units > field->max_units)
        return rq_fault(h, RENDERQ_INVALID, "%s%s has %zu characters (UTF-16 units); %zu fit", where, field->name,
                        scan.units, field->max_units);
    if (!field->may_end_in_blank && text[len - 1] == ' ')
        return rq_fault(h, RENDERQ_INVALID, "%s%s ends in a blank, which SQL Server does not tell apart", where,
                        field->name);
    return RENDERQ_OK;
}

renderq_status rq_check_text(renderq *h, const char *where, const rq_field *field, const char *text)
{
    return rq_check_bytes(h, where, field, text, text ? strlen(text) : 0);
}

renderq_status rq_check_delay(renderq *h, const char *where, const char *name, int64_t ms)
{
    where = where ? where : "";
    if (ms < 0)
        return rq_fault(h, RENDERQ_INVALID, "%s%s is %lld: it cannot be negative", where, name, (long long)ms);
    if (ms > RENDERQ_DELAY_MAX_MS)
        return rq_fault(h, RENDERQ_INVALID, "%s%s is %lld: the longest delay is %lld ms (3,650 days)", where, name,
                        (long long)ms, (long long)RENDERQ_DELAY_MAX_MS);
    return RENDERQ_OK;
}

renderq_status rq_check_lease_s(renderq *h, int lease_s)
{
    if (lease_s < 0 || lease_s > RENDERQ_LEASE_MAX_S)
        return rq_fault(h, RENDERQ_INVALID, "lease_s is %d: it is 1 to %d seconds, or 0 for the default", lease_s,
                        RENDERQ_LEASE_MAX_S);
    return RENDERQ_OK;
}

renderq_status rq_check_id(renderq *h, const char *name, const renderq_id *id, rq_guid *out)
{
    if (!id)
        return rq_fault(h, RENDERQ_INVALID, "the %s is NULL", name);
    if (!memchr(id->text, 0, sizeof id->text) || !rq_guid_parse(id->text, out))
        return rq_fault(h, RENDERQ_INVALID,
                        "the %s \"%.36s\" is no GUID: 8-4-4-4-12 hexadecimal digits, as renderq_enqueue() gives it",
                        name, id->text);
    return RENDERQ_OK;
}

renderq_status rq_check_lease(renderq *h, const char *where, const renderq_job *job, rq_lease *out)
{
    where = where ? where : "";
    if (!job)
        return rq_fault(h, RENDERQ_INVALID, "%sthe job is NULL", where);
    if (!job->lease.text[0])
        return rq_fault(h, RENDERQ_INVALID,
                        "%sjob %.36s holds no lease here: only a job from a claim or renderq_job_resume() does", where,
                        job->id.text);
    renderq_status status = rq_check_id(h, "job's id", &job->id, &out->id);
    if (status == RENDERQ_OK)
        status = rq_check_id(h, "job's lease", &job->lease, &out->token);
    return status;
}
