/* routes.c: the table of paths. See routes.h. */
#include "routes.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "log.h"
#include "service.h"

#define SEGMENT_MAX 1024

static const route table[] = {
    { "GET", "/", ROUTE_PAGE, .open = true },
    { "GET", "/healthz", ROUTE_HEALTH, .open = true },
    { "GET", "/readyz", ROUTE_READY, .open = true },
    { "GET", "/metrics", ROUTE_METRICS, .open = false },
    { "GET", "/v1/form-token", ROUTE_FORM_TOKEN, .open = false },
    { "GET", "/v1/queues", ROUTE_QUEUES, .open = false },
    { "POST", "/next", ROUTE_NEXT, .queued = true },
    { "POST", "/jobs", ROUTE_ENQUEUE, .queued = true },
    { "GET", "/jobs/{id}", ROUTE_JOB, .queued = true },
    { "POST", "/jobs/{id}/renew", ROUTE_RENEW, .queued = true },
    { "POST", "/jobs/{id}/complete", ROUTE_COMPLETE, .queued = true },
    { "POST", "/jobs/{id}/fail", ROUTE_FAIL, .queued = true },
    { "POST", "/jobs/{id}/release", ROUTE_RELEASE, .queued = true },
    { "POST", "/jobs/{id}/retry", ROUTE_RETRY, .queued = true },
    { "GET", "/stats", ROUTE_STATS, .queued = true },
    { "GET", "/dead", ROUTE_DEAD, .queued = true },
};

#define ROUTES (sizeof table / sizeof table[0])

void routes_print(void)
{
    for (size_t i = 0; i < ROUTES; i++) {
        printf("%s %s%s\n", table[i].method, table[i].queued ? "/v1" : "", table[i].path);
        if (table[i].queued)
            printf("%s /v1/queues/{queue}%s\n", table[i].method, table[i].path);
    }
}

/* One segment, percent-decoded. False: it is too long, or not well encoded. */
static bool decode(const char *from, size_t len, char *out)
{
    size_t n = 0;
    if (len >= SEGMENT_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = from[i];
        if (c == '%') {
            char pair[3] = "";
            if (i + 2 < len)
                memcpy(pair, from + i + 1, 2);
            if (!isxdigit((unsigned char)pair[0]) || !isxdigit((unsigned char)pair[1]))
                return false;
            c = (char)strtoul(pair, NULL, 16);
            i += 2;
        }
        if (!c)
            return false;
        out[n++] = c;
    }
    out[n] = 0;
    return true;
}

/* Whether a path is of this form; *id is the text that stands for {id}. */
static bool fits(const char *form, const char *path, const char **id, size_t *id_len)
{
    const char *hole = strstr(form, "{id}");
    if (!hole)
        return strcmp(form, path) == 0;
    size_t head = (size_t)(hole - form);
    if (strncmp(form, path, head) != 0)
        return false;
    *id = path + head;
    *id_len = strcspn(*id, "/");
    return *id_len > 0 && strcmp(*id + *id_len, hole + strlen("{id}")) == 0;
}

static bool is_method(const exchange *x, const route *r)
{
    return strcmp(x->method, r->method) == 0 || (strcmp(x->method, "HEAD") == 0 && strcmp(r->method, "GET") == 0);
}

/* The queue that the path names, and what is behind it in the path. NULL: it is answered. */
static const char *take_queue(service *s, exchange *x)
{
    static const char named[] = "/v1/queues/";
    char name[SEGMENT_MAX];
    x->clerk = &s->clerks[0];
    if (strncmp(x->path, named, sizeof named - 1) != 0)
        return strncmp(x->path, "/v1/", 4) == 0 ? x->path + 3 : x->path;
    const char *from = x->path + sizeof named - 1;
    size_t len = strcspn(from, "/");
    x->clerk = NULL;
    for (size_t i = 0; i < s->o.n_queues && decode(from, len, name); i++)
        if (strcmp(name, s->o.queues[i]) == 0)
            x->clerk = &s->clerks[i];
    if (x->clerk)
        return from + len;
    answer_error(x, 404, "no_such_queue", "this service has no such queue; GET /v1/queues lists them");
    return NULL;
}

static const route *wrong_method(exchange *x, const route *r)
{
    answer_error(x, 405, "method", "this path takes %s", r->method);
    x->allow = strcmp(r->method, "GET") == 0 ? "GET, HEAD" : r->method;
    return NULL;
}

const route *route_find(service *s, exchange *x)
{
    const char *id = NULL;
    size_t id_len = 0;
    const route *other = NULL;
    const char *rest = take_queue(s, x);
    for (size_t i = 0; i < ROUTES && rest; i++) {
        const route *r = &table[i];
        const char *path = r->queued ? rest : x->path;
        if ((r->queued && rest == x->path) || !fits(r->path, path, &id, &id_len))
            continue;
        if (!is_method(x, r)) {
            other = r;
            continue;
        }
        char text[SEGMENT_MAX];
        x->route = r->id;
        if (id && (!decode(id, id_len, text) || !guid_read(text, &x->id))) {
            answer_error(x, 400, "bad_request", "the id in the path is no GUID: 8-4-4-4-12 hexadecimal digits");
            return NULL;
        }
        return r;
    }
    if (other)
        return wrong_method(x, other);
    if (rest)
        answer_error(x, 404, "not_found", "there is no such path");
    return NULL;
}
