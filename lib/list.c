/* list.c: jobs read a page at a time. Nothing is held open while the caller looks at them. */
#include <string.h>

#include "check.h"
#include "clock.h"
#include "job.h"

#define PAGE 100

typedef struct listing {
    renderq_filter filter;
    const rq_queue *queue;
    rq_queue room;
    rq_guid after;
    bool later;                 /* not the first page: `after` counts */
    size_t seen;
    renderq_job *jobs[PAGE];
    rq_jobs page;
} listing;

static renderq_status check_filter(renderq *h, const renderq_filter *given, listing *l)
{
    renderq_filter *filter = &l->filter;
    renderq_status status = rq_take_struct(h, "renderq_filter", given, filter, sizeof *filter);
    if (status == RENDERQ_OK)
        status = rq_which_queue(h, filter->queue, &l->room, &l->queue);
    if (status == RENDERQ_OK && ((int)filter->state < 0 || filter->state > RENDERQ_OTHER))
        status = rq_fault(h, RENDERQ_INVALID, "the filter's state is %d, which is none", (int)filter->state);
    if (status == RENDERQ_OK && filter->composition_id)
        status = rq_check_text(h, "filter: ", &rq_composition_field, filter->composition_id);
    if (status == RENDERQ_OK)
        status = rq_check_text(h, "filter: ", &rq_worker_field, filter->worker);
    return status;
}

static size_t page_size(const listing *l)
{
    size_t left = l->filter.max - l->seen;
    return l->filter.max && left < PAGE ? left : PAGE;
}

static renderq_status read_page(renderq *h, listing *l)
{
    rq_value values[] = {
        rq_guid_value(l->later ? &l->after : NULL), rq_text(l->filter.state ? renderq_strstate(l->filter.state) : NULL),
        rq_text(l->filter.composition_id), rq_text(l->filter.worker), rq_number((int64_t)page_size(l))
    };
    renderq_status status;
    rq_try tries = rq_first_try(h);
    l->page.max = page_size(l);
    do {
        rq_jobs_clear(&l->page);
        l->page.asked_ms = rq_clock_ms();
        status = rq_run(h, l->queue, RQ_LIST, values, 1, rq_jobs_add, &l->page);
    } while (rq_again(h, &tries, &status));
    if (status != RENDERQ_OK)
        rq_jobs_clear(&l->page);
    return status;
}

renderq_status renderq_list(renderq *h, const renderq_filter *filter, renderq_job_fn each, void *arg)
{
    listing l = { .later = false };
    renderq_status status = rq_enter(h, RQ_JOINS);
    if (status == RENDERQ_OK)
        status = check_filter(h, filter, &l);
    if (status == RENDERQ_OK && !each)
        status = rq_fault(h, RENDERQ_INVALID, "the function to call with each job is NULL");
    if (status != RENDERQ_OK)
        return status;
    l.page = (rq_jobs){ .h = h, .queue = l.queue, .jobs = l.jobs, .listed = true };
    int ended = 0;
    bool more = true;
    while (more && !ended) {
        size_t asked = page_size(&l);
        status = read_page(h, &l);
        if (status != RENDERQ_OK)
            break;
        rq_jobs_sort(&l.page, false);
        if (l.page.n > 0)
            l.after = ((const rq_job *)l.jobs[l.page.n - 1])->key;
        l.later = true;
        rq_stop_mark mark = rq_stop_set_aside(&h->stop);
        for (size_t i = 0; i < l.page.n && !ended; i++)
            ended = each(arg, l.jobs[i]);
        rq_stop_take_up(&h->stop, mark);
        l.seen += l.page.n;
        more = l.page.n == asked && (!l.filter.max || l.seen < l.filter.max);
        rq_jobs_clear(&l.page);
        if (more && !ended && rq_stop_raised(&h->stop)) {
            rq_stop_answer(&h->stop);
            return rq_fault(h, RENDERQ_INTERRUPTED, "interrupted after %zu jobs of the list", l.seen);
        }
    }
    return status;
}
