/* dispatch.c: bodies and parameters checked, route by route. See dispatch.h. */
#include "dispatch.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guard.h"
#include "json.h"
#include "log.h"
#include "page.h"
#include "service.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const field next_fields[] = {
    { "worker", FIELD_STRING, true, 0, 0 },
    { "wait_s", FIELD_NUMBER, false, 0, WAIT_MAX_S },
};
static const field renew_fields[] = {
    { "lease", FIELD_GUID, true, 0, 0 },
    { "progress", FIELD_STRING, false, 0, 0 },
};
static const field complete_fields[] = {
    { "lease", FIELD_GUID, true, 0, 0 },
    { "output_url", FIELD_STRING, false, 0, 0 },
};
static const field fail_fields[] = {
    { "lease", FIELD_GUID, true, 0, 0 },
    { "error", FIELD_STRING, false, 0, 0 },
    { "retry_ms", FIELD_RETRY, false, 0, (double)RENDERQ_DELAY_MAX_MS },
};
static const field release_fields[] = {
    { "lease", FIELD_GUID, true, 0, 0 },
    { "delay_ms", FIELD_INTEGER, false, 0, (double)RENDERQ_DELAY_MAX_MS },
};

/* ---- answered at once ---- */

static void answer_ok(exchange *x)
{
    json_t *made = json_object();
    json_object_set_new(made, "status", json_text("ok"));
    answer_json(x, 200, made);
}

/* Its script runs under a nonce that is new each time. */
static void answer_page(exchange *x)
{
    static const char mark[] = "@NONCE@";
    char nonce[33];
    guard_random(nonce);
    char *text = must_alloc(NULL, page_html_len * 5 + 1), *out = text;
    const char *at = page_html, *found;
    while ((found = strstr(at, mark)) != NULL) {
        memcpy(out, at, (size_t)(found - at));
        out += found - at;
        memcpy(out, nonce, sizeof nonce - 1);
        out += sizeof nonce - 1;
        at = found + sizeof mark - 1;
    }
    size_t rest = strlen(at);
    memcpy(out, at, rest + 1);
    answer_text(x, 200, "text/html; charset=utf-8", text, (size_t)(out - text) + rest);
}

static void answer_queues(const service *s, exchange *x)
{
    json_t *made = json_object(), *queues = json_array();
    for (size_t i = 0; i < s->o.n_queues; i++)
        json_array_append_new(queues, json_text(s->o.queues[i]));
    json_object_set_new(made, "queues", queues);
    json_object_set_new(made, "version", json_text(RENDERQ_VERSION));
    answer_json(x, 200, made);
}

static void answer_form_token(const service *s, exchange *x)
{
    json_t *made = json_object();
    json_object_set_new(made, "form_token", json_text(s->form_token));
    answer_json(x, 200, made);
}

/* ---- parameters ---- */

typedef struct number {
    const char *name;
    int64_t min, max, otherwise;
} number;

static bool take_number(exchange *x, const number *n, int64_t *out)
{
    const char *text = MHD_lookup_connection_value(x->http, MHD_GET_ARGUMENT_KIND, n->name);
    char *end;
    *out = n->otherwise;
    if (!text)
        return true;
    long long given = strtoll(text, &end, 10);
    if (end != text && !*end && given >= n->min && given <= n->max) {
        *out = given;
        return true;
    }
    answer_error(x, 400, "bad_request", "%s is a whole number from %lld to %lld", n->name, (long long)n->min,
                 (long long)n->max);
    return false;
}

static tray *to_reader(service *s, const exchange *x)
{
    return x->ready ? NULL : &s->reader.tray;
}

static tray *stats(service *s, exchange *x)
{
    static const number minutes = { "minutes", 1, TALLY_MINUTES, 60 };
    take_number(x, &minutes, &x->query[0]);
    return to_reader(s, x);
}

static tray *dead(service *s, exchange *x)
{
    static const number offset = { "offset", 0, 1000000000, 0 }, limit = { "limit", 1, 200, 50 };
    if (take_number(x, &offset, &x->query[0]))
        take_number(x, &limit, &x->query[1]);
    return to_reader(s, x);
}

/* ---- bodies ---- */

/* A worker's name that the library would refuse is refused here, or it would spoil a whole hand-out. */
static bool is_worker(exchange *x, const char *name)
{
    size_t units = 0, len = strlen(name);
    for (const unsigned char *at = (const unsigned char *)name; *at; at++)
        units += (*at & 0xc0) != 0x80 ? 1 : 0;
    for (const unsigned char *at = (const unsigned char *)name; *at; at++)
        units += *at >= 0xf0;
    if (len > 0 && units <= RENDERQ_WORKER_MAX && name[len - 1] != ' ')
        return true;
    answer_error(x, 400, "bad_request", "worker is %s: a name of 1 to %d characters with no blank at its end",
                 len == 0 ? "empty" : units > RENDERQ_WORKER_MAX ? "too long" : "no name", RENDERQ_WORKER_MAX);
    return false;
}

static tray *to_clerk(const exchange *x)
{
    return x->ready ? NULL : &x->clerk->tray;
}

static tray *next(exchange *x)
{
    if (!body_read(x, next_fields, COUNT(next_fields)))
        return NULL;
    x->worker = field_text(x, "worker");
    x->until_ms = clock_ms() + (int64_t)(json_number_value(json_object_get(x->input, "wait_s")) * 1000);
    return is_worker(x, x->worker) ? to_clerk(x) : NULL;
}

static tray *with_body(exchange *x, const field *fields, size_t n)
{
    body_read(x, fields, n);
    return to_clerk(x);
}

tray *dispatch(service *s, exchange *x)
{
    switch (x->route) {
    case ROUTE_PAGE: answer_page(x); return NULL;
    case ROUTE_HEALTH: answer_ok(x); return NULL;
    case ROUTE_FORM_TOKEN: answer_form_token(s, x); return NULL;
    case ROUTE_QUEUES: answer_queues(s, x); return NULL;
    case ROUTE_READY: x->clerk = &s->clerks[0]; return to_clerk(x);
    case ROUTE_METRICS: return to_reader(s, x);
    case ROUTE_STATS: return stats(s, x);
    case ROUTE_DEAD: return dead(s, x);
    case ROUTE_NEXT: return next(x);
    case ROUTE_RENEW: return with_body(x, renew_fields, COUNT(renew_fields));
    case ROUTE_COMPLETE: return with_body(x, complete_fields, COUNT(complete_fields));
    case ROUTE_FAIL: return with_body(x, fail_fields, COUNT(fail_fields));
    case ROUTE_RELEASE: return with_body(x, release_fields, COUNT(release_fields));
    case ROUTE_RETRY: return with_body(x, NULL, 0);
    default: return to_clerk(x);        /* the clerk reads new jobs */
    }
}
