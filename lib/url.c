/* url.c: a connection URL taken apart and percent-decoded. What a scheme, a path or an option means is the
 * drivers' to say. No text made here holds a piece of the URL: any piece may be part of a password that somebody
 * forgot to encode. */
#include "url.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utf.h"

#define LETTERS      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define SCHEME_CHARS LETTERS "0123456789+-."

/* Strings besides the options': scheme, user, password, host, port, path. */
#define STRINGS_MAX (6 + 2 * RQ_URL_OPTIONS_MAX)

typedef struct parser {
    rq_url *url;
    char *room;             /* in the block: where the next string goes */
    const char *wrong;      /* what the first error is */
    size_t option;          /* the one it is in, from 1; 0: none */
} parser;

static bool fail(parser *p, const char *wrong)
{
    p->wrong = wrong;
    return false;
}

/* Copies [from, end) decoded into the block, as a string of its own. */
static bool decode(parser *p, const char *from, const char *end, const char **out)
{
    char *to = p->room;

    while (from < end) {
        if (*from != '%') {
            *to++ = *from++;
            continue;
        }
        if (end - from < 3 || !isxdigit((unsigned char)from[1]) || !isxdigit((unsigned char)from[2]))
            return fail(p, "has a % without two hexadecimal digits behind it (write % itself as %25)");
        const char pair[] = { from[1], from[2], '\0' };
        *to = (char)strtoul(pair, NULL, 16);
        if (*to++ == '\0')
            return fail(p, "has a %00, which no string can hold");
        from += 3;
    }
    *to = '\0';

    size_t len = (size_t)(to - p->room);
    if (rq_utf_check(p->room, len).bad_at < len)
        return fail(p, "is not UTF-8");
    *out = p->room;
    p->room = to + 1;
    return true;
}

/* The end of [from, end), or the first `stop` in it. */
static const char *up_to(const char *from, const char *end, char stop)
{
    const char *at = memchr(from, stop, (size_t)(end - from));

    return at != NULL ? at : end;
}

static bool read_scheme(parser *p, const char **at)
{
    const char *end = *at + strspn(*at, SCHEME_CHARS);
    char *c = p->room;

    if (strspn(*at, LETTERS) == 0 || *end != ':')
        return fail(p, "has no scheme (it begins with a name and a colon)");
    if (!decode(p, *at, end, &p->url->scheme))
        return false;
    for (; *c != '\0'; c++)
        *c = (char)(*c | 0x20);                 /* tolower() asks the locale; digits, + - . have the bit */
    *at = end + 1;
    return true;
}

static bool read_port(parser *p, const char *from, const char *end)
{
    const char *digit;
    int port = 0;

    if (!decode(p, from, end, &digit))
        return false;
    for (; isdigit((unsigned char)*digit) && port <= 65535; digit++)
        port = port * 10 + (*digit - '0');
    if (*digit != '\0' || port < 1 || port > 65535)
        return fail(p, "has a port that is no number from 1 to 65535 (an IPv6 host stands in [ ])");
    p->url->port = port;
    return true;
}

static bool read_host(parser *p, const char *from, const char *end)
{
    const char *host_end = up_to(from, end, ':');
    const char *port_at = host_end;

    if (from < end && *from == '[') {
        host_end = up_to(++from, end, ']');
        if (host_end == end)
            return fail(p, "has an unclosed [");
        port_at = host_end + 1;
        if (port_at < end && *port_at != ':')
            return fail(p, "has text behind the ] of its host");
    }
    if (host_end > from && !decode(p, from, host_end, &p->url->host))
        return false;
    return port_at == end || read_port(p, port_at + 1, end);
}

static bool read_user(parser *p, const char *from, const char *end)
{
    const char *user_end = up_to(from, end, ':');

    return decode(p, from, user_end, &p->url->user)
        && (user_end == end || decode(p, user_end + 1, end, &p->url->password));
}

/* user:password@host:port. The last @ counts, so that a password with a plain @ in it never becomes a host. */
static bool read_authority(parser *p, const char *from, const char *end)
{
    const char *at = memrchr(from, '@', (size_t)(end - from));

    if (at != NULL && !read_user(p, from, at))
        return false;
    return read_host(p, at != NULL ? at + 1 : from, end);
}

static bool read_option(parser *p, const char *from, const char *end)
{
    const char *equals = up_to(from, end, '=');
    const char *name, *value;

    if (p->url->n_options == RQ_URL_OPTIONS_MAX)
        return fail(p, "is one too many");
    if (equals == end)
        return fail(p, "has no =");
    if (equals == from)
        return fail(p, "has no name");
    if (!decode(p, from, equals, &name) || !decode(p, equals + 1, end, &value))
        return false;
    if (rq_url_option(p->url, name) != NULL)
        return fail(p, "was given before");
    p->url->options[p->url->n_options].name = name;
    p->url->options[p->url->n_options++].value = value;
    return true;
}

static bool read_options(parser *p, const char *from, const char *end)
{
    while (from <= end) {
        const char *option_end = up_to(from, end, '&');
        p->option++;
        if (!read_option(p, from, option_end))
            return false;
        from = option_end + 1;
    }
    p->option = 0;
    return true;
}

static bool read_url(parser *p, const char *at)
{
    if (!read_scheme(p, &at))
        return false;
    if (strchr(at, '#') != NULL)
        return fail(p, "has a # (write %23)");
    if (strncmp(at, "//", 2) == 0) {
        const char *authority = at + 2;
        at = authority + strcspn(authority, "/?");
        p->url->has_authority = true;
        /* A password with a plain / or ? would be read as a host, a database and options, and then be shown. */
        if (at > authority && strchr(at, '@') != NULL)
            return fail(p, "has an @ behind its host (write / ? @ as %2F %3F %40, in a password too)");
        if (!read_authority(p, authority, at))
            return false;
        if (p->url->host != NULL && *at == '/')
            at++;
    }

    const char *path_end = at + strcspn(at, "?");
    if (!decode(p, at, path_end, &p->url->path))
        return false;
    return *path_end == '\0' || path_end[1] == '\0' || read_options(p, path_end + 1, path_end + strlen(path_end));
}

renderq_status rq_url_parse(const char *text, rq_url *out, char *why, size_t why_size)
{
    rq_url url = { .scheme = NULL };
    parser p = { .url = &url };

    *out = url;
    if (text == NULL)
        text = "";
    url.block = p.room = malloc(strlen(text) + STRINGS_MAX);    /* decoded is never longer; a NUL a string */
    if (url.block == NULL)
        return RENDERQ_NOMEM;
    if (read_url(&p, text)) {
        *out = url;
        return RENDERQ_OK;
    }
    if (p.option > 0)
        snprintf(why, why_size, "option %zu of the URL %s", p.option, p.wrong);
    else
        snprintf(why, why_size, "the URL %s", p.wrong);
    rq_url_free(&url);
    return RENDERQ_INVALID;
}

const char *rq_url_option(const rq_url *url, const char *name)
{
    for (size_t i = 0; i < url->n_options; i++)
        if (strcmp(url->options[i].name, name) == 0)
            return url->options[i].value;
    return NULL;
}

void rq_url_free(rq_url *url)
{
    free(url->block);
    *url = (rq_url){ .scheme = NULL };
}
