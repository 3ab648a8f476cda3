/* ours.c: the library's side of the comparison: a producer's and a worker's calls, one by one and in batches. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *payload(void)
{
    static char text[PAYLOAD_LEN + 1];
    if (!text[0])
        for (size_t at = 0; at < PAYLOAD_LEN;)
            at += (size_t)snprintf(text + at, sizeof text - at, at ? ",%zu" : "[%zu", at);
    text[PAYLOAD_LEN - 1] = ']';
    return text;
}

void ours_check(renderq *h, renderq_status status, const char *doing)
{
    if (status != RENDERQ_OK)
        die("%s: %s: %s", doing, renderq_strstatus(status), renderq_errmsg(h));
}

renderq *ours_open_url(const char *url)
{
    renderq_options options = RENDERQ_INIT(renderq_options);
    options.worker = WORKER;
    renderq *h;
    renderq_status status = renderq_open(url, &options, &h);
    ours_check(h, status, "open");
    return h;
}

renderq *ours_open(const char *path, const char *synchronous)
{
    char url[4200] = "sqlite:";
    size_t at = strlen(url);
    for (; *path && at < sizeof url - 40; path++)
        at += (size_t)sprintf(url + at, strchr("%?#", *path) ? "%%%02X" : "%c", (unsigned char)*path);
    sprintf(url + at, "?synchronous=%s", synchronous);
    return ours_open_url(url);
}

void ours_create(const char *path)
{
    renderq *h = ours_open(path, "normal");
    ours_check(h, renderq_create(h, NULL), "create");
    renderq_close(h);
}

void ours_enqueue(renderq *h, size_t n, size_t batch)
{
    renderq_new_job jobs[BATCH_MAX];
    renderq_enqueued results[BATCH_MAX];
    renderq_id id;
    for (size_t i = 0; i < batch; i++) {
        jobs[i] = (renderq_new_job)RENDERQ_INIT(renderq_new_job);
        jobs[i].composition_id = "composition";
        jobs[i].payload_json = payload();
        results[i] = (renderq_enqueued)RENDERQ_INIT(renderq_enqueued);
    }
    for (size_t done = 0; done < n; done += batch)
        ours_check(h, batch == 1 ? renderq_enqueue(h, jobs, &id) : renderq_enqueue_many(h, jobs, batch, results),
                   "enqueue");
}

void ours_claim(renderq *h, size_t n, double *took_s)
{
    for (size_t i = 0; i < n; i++) {
        renderq_job *job;
        double began = took_s ? now_s() : 0;
        ours_check(h, renderq_claim(h, NULL, &job), "claim");
        if (took_s)
            took_s[i] = now_s() - began;
        renderq_job_free(job);
    }
}

static void work_one(renderq *h)
{
    renderq_job *job;
    ours_check(h, renderq_claim(h, NULL, &job), "claim");
    ours_check(h, renderq_complete(h, job, "out.mp4"), "complete");
    renderq_job_free(job);
}

static void work_many(renderq *h, size_t batch)
{
    renderq_job *jobs[BATCH_MAX];
    renderq_result results[BATCH_MAX];
    size_t n;
    ours_check(h, renderq_claim_many(h, NULL, jobs, batch, &n), "claim");
    if (n != batch)
        die("%zu jobs were claimed, not %zu", n, batch);
    for (size_t i = 0; i < n; i++) {
        results[i] = (renderq_result)RENDERQ_INIT(renderq_result);
        results[i].job = jobs[i];
        results[i].output_url = "out.mp4";
    }
    ours_check(h, renderq_complete_many(h, results, n), "complete");
    for (size_t i = 0; i < n; i++)
        renderq_job_free(jobs[i]);
}

void ours_work(renderq *h, size_t n, size_t batch)
{
    for (size_t done = 0; done < n; done += batch) {
        if (batch == 1)
            work_one(h);
        else
            work_many(h, batch);
    }
}
