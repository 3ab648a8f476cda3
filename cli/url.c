/* url.c: where the database's URL and its password come from, and the handle that is opened with them. Neither is
 * ever printed. */
#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PASSWORD_MAX  1024          /* bytes; SQL Server's have at most 128 characters */
#define QUEUE_DEFAULT "VideoRenderJobs"

static const char *url_of(const cli *c)
{
    const char *url = c->url ? c->url : getenv("RENDERQ_URL");
    return url && *url ? url : NULL;
}

const char *url_scheme(const cli *c, char *room, size_t size)
{
    const char *url = url_of(c);
    size_t len = url ? strcspn(url, ":") : 0;
    if (len >= size || (url && !url[len]))
        len = 0;
    for (size_t i = 0; i < len; i++)
        room[i] = (char)tolower((unsigned char)url[i]);
    room[len] = 0;
    return room;
}

/* ---- the queue's name ---- */

static char *decode(const char *from, size_t len)
{
    char *made = must_alloc(NULL, len + 1), *out = made;
    for (size_t i = 0; i < len; i++) {
        char pair[3] = "";
        if (i + 2 < len)
            memcpy(pair, from + i + 1, 2);
        if (from[i] == '%' && isxdigit((unsigned char)pair[0]) && isxdigit((unsigned char)pair[1])) {
            *out++ = (char)strtoul(pair, NULL, 16);
            i += 2;
        } else {
            *out++ = from[i];
        }
    }
    *out = 0;
    return made;
}

char *queue_name(const cli *c)
{
    if (c->queue)
        return must_copy(c->queue);
    const char *url = url_of(c), *at = url ? strchr(url, '?') : NULL;
    while (at) {
        at++;
        size_t len = strcspn(at, "&");
        if (len > 6 && strncmp(at, "queue=", 6) == 0)
            return decode(at + 6, len - 6);
        at = at[len] ? at + len : NULL;
    }
    return must_copy(QUEUE_DEFAULT);
}

/* ---- the password ---- */

/* The first line of a file; NULL: it has been said what is wrong. */
static char *read_password(const cli *c, const char *path)
{
    char text[PASSWORD_MAX + 2] = "";
    char *made = NULL;
    FILE *file = fopen(path, "r");
    if (!file) {
        complain(c, "the password file %s cannot be read: %s", path, strerror(errno));
        return NULL;
    }
    setvbuf(file, NULL, _IONBF, 0);         /* no copy of it stays in a buffer */
    if (!fgets(text, sizeof text, file) && ferror(file))
        complain(c, "the password file %s cannot be read: %s", path, strerror(errno));
    else if (strlen(text) > PASSWORD_MAX)
        complain(c, "the first line of the password file %s is longer than any password", path);
    else if (text[strcspn(text, "\r\n")] = 0, !*text)
        complain(c, "the first line of the password file %s is empty: it is the password", path);
    else
        made = must_copy(text);
    explicit_bzero(text, sizeof text);
    fclose(file);
    return made;
}

/* ---- opening ---- */

/* The URL, and the password in the options; *secret is to be wiped afterwards. */
static exit_code take_url(const cli *c, const char **url, renderq_options *options, char **secret)
{
    *secret = NULL;
    *url = url_of(c);
    if (!*url)
        return wrong_usage(c, "which database? Give --db URL or set RENDERQ_URL, for instance to sqlite:jobs.db");
    if (c->password_file) {
        *secret = read_password(c, c->password_file);
        if (!*secret)
            return CODE_NO_INPUT;
    }
    options->password = *secret ? *secret : getenv("RENDERQ_PASSWORD");
    return CODE_DONE;
}

static void wipe(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

exit_code open_queue(cli *c, renderq_options *given)
{
    renderq_options plain = RENDERQ_INIT(renderq_options), *options = given ? given : &plain;
    const char *url;
    char *secret;
    exit_code code = take_url(c, &url, options, &secret);
    if (code != CODE_DONE)
        return code;
    renderq_status status = renderq_open(url, options, &c->h);
    options->password = NULL;               /* the handle has its own copy */
    wipe(secret);
    return status == RENDERQ_OK ? CODE_DONE : complain_status(c, status);
}

exit_code make_worker(cli *c, const renderq_worker_options *options, renderq_options *connection, renderq_worker **out)
{
    const char *url;
    char *secret;
    exit_code code = take_url(c, &url, connection, &secret);
    if (code != CODE_DONE)
        return code;
    renderq_status status = renderq_worker_new(url, options, out);
    connection->password = NULL;
    wipe(secret);
    return status == RENDERQ_OK ? CODE_DONE : complain_text(c, status, renderq_worker_errmsg(*out));
}
