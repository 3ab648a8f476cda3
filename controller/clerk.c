/* clerk.c: the thread of a queue, and its connection. See clerk.h. */
#include "clerk.h"

#include <stdio.h>
#include <string.h>

#include "http.h"
#include "log.h"
#include "service.h"

#define COMMAND_S  5                    /* a clerk that waits for the database keeps all others waiting */
#define PAUSE_MS   1000                 /* how long the database is left alone after it was away */

void clerk_init(clerk *c, struct service *s, const char *queue)
{
    memset(c, 0, sizeof *c);
    c->service = s;
    c->queue = queue;
    c->waiting_end = &c->waiting;
    tray_init(&c->tray);
    tally_init(&c->tally);
    pthread_mutex_init(&c->handle_lock, NULL);
}

/* ---- the connection ---- */

renderq_status clerk_heard(clerk *c, renderq_status status)
{
    return is_away(status) ? clerk_away(c, status) : status;
}

renderq_status clerk_away(clerk *c, renderq_status status)
{
    c->away_until_ms = clock_ms() + PAUSE_MS;
    c->away_status = status;
    snprintf(c->away_text, sizeof c->away_text, "%s", renderq_errmsg(c->h));
    say_seldom(&c->said_ms, "queue %s: %s: %s", c->queue, renderq_strstatus(status), c->away_text);
    return status;
}

bool clerk_ready(clerk *c)
{
    if (c->away_status != RENDERQ_OK && clock_ms() < c->away_until_ms)
        return false;
    if (c->away_status != RENDERQ_OK && c->h)
        c->away_status = RENDERQ_OK;    /* the next call finds out */
    if (c->h)
        return true;
    renderq *h = NULL;
    renderq_status status = service_open(c->service, COMMAND_S, &h);
    pthread_mutex_lock(&c->handle_lock);
    c->h = h;
    pthread_mutex_unlock(&c->handle_lock);
    if (status == RENDERQ_OK) {
        c->away_status = RENDERQ_OK;
        return true;
    }
    clerk_away(c, status);
    pthread_mutex_lock(&c->handle_lock);
    c->h = NULL;
    pthread_mutex_unlock(&c->handle_lock);
    renderq_close(h);
    return false;
}

void clerk_answer_away(const clerk *c, exchange *x)
{
    answer_status(x, c->away_status, c->away_text);
}

void clerk_interrupt(clerk *c)
{
    pthread_mutex_lock(&c->handle_lock);
    renderq_interrupt(c->h);
    pthread_mutex_unlock(&c->handle_lock);
}

/* ---- the thread ---- */

/* Splits what came in: hand-outs stay in *list, the rest is returned. Both keep their order. */
static exchange *take_calls(exchange **list)
{
    exchange *calls = NULL, **end = &calls;
    while (*list) {
        exchange *x = *list;
        if (x->route == ROUTE_NEXT) {
            list = &x->next;
            continue;
        }
        *list = x->next;
        *end = x;
        end = &x->next;
        x->next = NULL;
    }
    return calls;
}

static void *run(void *arg)
{
    clerk *c = arg;
    bool stop = false;
    int64_t again_ms = INT64_MAX;
    while (!stop) {
        exchange *came = tray_take(&c->tray, again_ms, &stop);
        exchange *calls = take_calls(&came);
        if (calls)
            calls_serve(c, calls);
        again_ms = store_serve(c, came);
        if (stop || __atomic_load_n(&c->service->stopping, __ATOMIC_RELAXED))
            store_answer_waiting(c);
    }
    store_release(c);
    pthread_mutex_lock(&c->handle_lock);
    renderq *h = c->h;
    c->h = NULL;
    pthread_mutex_unlock(&c->handle_lock);
    renderq_close(h);
    return NULL;
}

bool clerk_start(clerk *c)
{
    return pthread_create(&c->thread, NULL, run, c) == 0;
}

void clerk_stop(clerk *c)
{
    tray_stop(&c->tray);
}

void clerk_join(clerk *c)
{
    pthread_join(c->thread, NULL);
}
