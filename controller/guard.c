/* guard.c: who may ask. See guard.h. */
#include "guard.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "log.h"
#include "service.h"

void guard_random(char out[33])
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        say("the kernel gives no random bytes");
        _exit(1);
    }
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static const char *header(const exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->http, MHD_HEADER_KIND, name);
}

/* What the request line says goes before what the header does. */
static const char *host_of(const exchange *x)
{
    return x->host ? x->host : header(x, MHD_HTTP_HEADER_HOST);
}

/* In a time that tells nothing about the secret but its length. */
static bool same_secret(const char *secret, const char *given)
{
    size_t n = strlen(secret), m = strlen(given);
    unsigned char differs = n != m;
    for (size_t i = 0; i < n; i++)
        differs |= (unsigned char)(secret[i] ^ given[m ? i % m : 0]);
    return differs == 0;
}

/* ---- Host ---- */

static bool is_host(const char *name, const char *host, size_t len)
{
    return strlen(name) == len && strncasecmp(name, host, len) == 0;
}

static bool is_ours(const settings *o, const char *host, size_t len)
{
    for (size_t i = 0; i < o->n_hosts; i++)
        if (is_host(o->hosts[i], host, len))
            return true;
    bool local = is_host("localhost", host, len) || is_host("127.0.0.1", host, len) || is_host("::1", host, len);
    return (local && o->loopback) || is_host(o->address, host, len);
}

bool guard_host(const service *s, exchange *x)
{
    const char *host = host_of(x);
    if (!host || (s->o.n_tokens > 0 && s->o.n_hosts == 0))
        return true;
    bool bracket = *host == '[';
    host += bracket;
    if (is_ours(&s->o, host, strcspn(host, bracket ? "]" : ":")))
        return true;
    answer_error(x, 421, "wrong_host", "the Host header names another service; --host gives this one a name");
    return false;
}

/* ---- the token ---- */

static bool has_token(const settings *o, const exchange *x)
{
    const char *given = header(x, MHD_HTTP_HEADER_AUTHORIZATION);
    bool good = o->n_tokens == 0;
    if (!given || strncasecmp(given, "Bearer ", 7) != 0)
        return good;
    given += 7 + strspn(given + 7, " ");
    for (size_t i = 0; i < o->n_tokens; i++)
        good |= same_secret(o->tokens[i], given);
    return good;
}

/* ---- browsers ---- */

/* Whether an Origin is this service's, as the client calls it: scheme://HOST. */
static bool is_own_origin(const exchange *x, const char *origin)
{
    const char *host = host_of(x);
    const char *authority = strstr(origin, "://");
    return host && authority && strcasecmp(authority + 3, host) == 0;
}

/* Whether a page of another origin asks. Browsers say so; what says nothing is no browser. */
static bool from_elsewhere(const exchange *x)
{
    const char *origin = header(x, "Origin"), *site = header(x, "Sec-Fetch-Site");
    return (origin && !is_own_origin(x, origin)) || (site && strcmp(site, "same-origin") != 0);
}

static bool from_browser(const exchange *x)
{
    return header(x, "Origin") || header(x, "Sec-Fetch-Site");
}

static bool guard_form(const service *s, exchange *x)
{
    const char *given = header(x, "X-Form-Token");
    if (given && same_secret(s->form_token, given))
        return true;
    answer_error(x, 403, "form_token", "the form token is %s: get one from /v1/form-token",
                 given ? "not valid" : "missing");
    return false;
}

bool guard_token(const service *s, exchange *x, const route *r)
{
    if ((r && r->open) || has_token(&s->o, x))
        return true;
    x->allow = NULL;
    answer_error(x, 401, "unauthorized", "the bearer token is missing or wrong");
    return false;
}

bool guard_route(const service *s, exchange *x, const route *r)
{
    bool post = strcmp(r->method, "POST") == 0;
    if ((post || r->id == ROUTE_FORM_TOKEN) && from_elsewhere(x)) {
        answer_error(x, 403, "other_origin", "pages of other origins may not ask this");
        return false;
    }
    return !post || !(from_browser(x) || r->id == ROUTE_RETRY) || guard_form(s, x);
}
