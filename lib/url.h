/* url.h: a connection URL taken apart and percent-decoded. It knows the form, not the schemes. */
#ifndef RQ_URL_H
#define RQ_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "renderq.h"

#define RQ_URL_OPTIONS_MAX 32

/* scheme:path?options or scheme://user:password@host:port/path?options. All strings are decoded and lie in one
 * block that rq_url_free() frees. */
typedef struct rq_url {
    const char *scheme;                     /* lower case */
    bool has_authority;                     /* it had // */
    const char *user, *password, *host;     /* NULL: not there; an IPv6 host comes without its brackets */
    int port;                               /* 0: not there */
    const char *path;                       /* after // without the slash in front for host/path; see below */
    struct { const char *name, *value; } options[RQ_URL_OPTIONS_MAX];
    size_t n_options;
    char *block;
} rq_url;

/* sqlite:jobs.db has path "jobs.db"; sqlite:/a/b has "/a/b"; sqlite:///a/b (empty host: NULL) has "/a/b" and
 * has_authority; sqlserver://h/db has path "db". The last @ before the path ends the password; after user: it is
 * "", after user alone NULL. A + is a plus. Options keep their order; a ? without any is fine.
 *
 * Returns OK; NOMEM; or INVALID with why (at least 200 bytes) saying what is wrong: no scheme, a bad percent
 * escape, %00, a # (write %23), bytes that are not UTF-8, a port that is no number from 1 to 65535, an unclosed [,
 * text between its ] and the port, an option without = or without a name, an option given twice, too many options,
 * an @ behind a host (where a password with a plain / or ? in it would end up). Errors in an option give its
 * number. The text never repeats the password, nor any part of the URL that might be one. On error *out is all
 * zero. */
renderq_status rq_url_parse(const char *text, rq_url *out, char *why, size_t why_size);

/* The value of an option, or NULL. */
const char *rq_url_option(const rq_url *url, const char *name);

/* Frees the strings and makes *url all zero, so that a second time is harmless, as is one after an error. */
void rq_url_free(rq_url *url);

#endif
