/* fuzz_url.c: any URL. What is accepted is taken apart into sound parts, which make a URL that says the same; what is
 * refused leaves nothing behind, and its text tells nothing of the URL. */
#include "fuzz.h"
#include "url.h"

#define WHY_SIZE 200

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return 0;
}

/* ---- parts ---- */

static void check_parts(const rq_url *url)
{
    const char *const texts[] = { url->scheme, url->user, url->password, url->host, url->path };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        HOLDS(!texts[i] || is_utf8(texts[i]));
    HOLDS(url->scheme && *url->scheme && url->path);
    HOLDS(strspn(url->scheme, "abcdefghijklmnopqrstuvwxyz0123456789+-.") == strlen(url->scheme));
    HOLDS(url->scheme[0] >= 'a' && url->scheme[0] <= 'z');
    HOLDS(url->port >= 0 && url->port <= 65535);
    HOLDS(url->has_authority || (!url->user && !url->password && !url->host && !url->port));
    HOLDS(!url->password || url->user);
    HOLDS(!url->host || *url->host);
    HOLDS(url->n_options <= RQ_URL_OPTIONS_MAX);
    for (size_t i = 0; i < url->n_options; i++) {
        HOLDS(*url->options[i].name && is_utf8(url->options[i].name) && is_utf8(url->options[i].value));
        HOLDS(rq_url_option(url, url->options[i].name) == url->options[i].value);    /* there are no two of a name */
    }
}

static void check_same(const rq_url *a, const rq_url *b)
{
    HOLDS(same(a->scheme, b->scheme) && same(a->user, b->user) && same(a->password, b->password));
    HOLDS(same(a->host, b->host) && a->port == b->port && same(a->path, b->path));
    HOLDS(a->has_authority == b->has_authority && a->n_options == b->n_options);
    for (size_t i = 0; i < a->n_options; i++)
        HOLDS(same(a->options[i].name, b->options[i].name) && same(a->options[i].value, b->options[i].value));
}

static void check_empty(const rq_url *url)
{
    static const rq_url zero;
    HOLDS(memcmp(url, &zero, sizeof zero) == 0);
}

/* ---- made again ---- */

/* Everything but letters and digits encoded: whatever had a meaning has none then. */
static char *put(char *to, const char *text)
{
    for (; text && *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        to += sprintf(to, plain ? "%c" : "%%%02x", c);
    }
    return to;
}

static size_t room(const rq_url *url, size_t len)
{
    return 3 * len + 64 + 2 * url->n_options;
}

static char *rebuild(const rq_url *url, size_t len)
{
    char *text = fuzz_malloc(room(url, len)), *to = text;
    const char *path = url->path;
    to += sprintf(to, "%s:%s", url->scheme, url->has_authority ? "//" : "");
    if (url->user)
        to = put(to, url->user);
    if (url->password)
        to = put(to + sprintf(to, ":"), url->password);
    if (url->user)
        to += sprintf(to, "@");
    to = put(to, url->host);
    if (url->port)
        to += sprintf(to, ":%d", url->port);
    if (url->host || (url->has_authority && *path == '/')) {
        to += sprintf(to, "/");
        path += !url->host;
    }
    to = put(to, path);
    for (size_t i = 0; i < url->n_options; i++) {
        to = put(to + sprintf(to, i ? "&" : "?"), url->options[i].name);
        to = put(to + sprintf(to, "="), url->options[i].value);
    }
    HOLDS((size_t)(to - text) < room(url, len));
    return text;
}

static void check_rebuilt(const rq_url *url, size_t len)
{
    rq_url again;
    char why[WHY_SIZE], *text = rebuild(url, len);
    HOLDS(rq_url_parse(text, &again, why, sizeof why) == RENDERQ_OK);
    check_same(url, &again);
    rq_url_free(&again);
    free(text);
}

/* ---- refused ---- */

/* A URL with another password in it is refused in the same words, wherever the password ended up. */
static void check_untold(const char *text, renderq_status status, const char *why)
{
    static const char secret[] = "s3cret", other[] = "q8vnzk";     /* a letter for a letter, a digit for a digit */
    char why_other[WHY_SIZE] = "", *changed;
    rq_url url;
    if (strstr(text, other))
        return;                     /* two names of options would become one */
    changed = strdup(text);
    HOLDS(changed);
    for (char *at = changed; (at = strstr(at, secret)); at += sizeof other - 1)
        memcpy(at, other, sizeof other - 1);
    HOLDS(rq_url_parse(changed, &url, why_other, sizeof why_other) == status);
    HOLDS(strcmp(why, why_other) == 0);
    rq_url_free(&url);
    free(changed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = { data, size };
    char why[WHY_SIZE] = "", *text = take_string(&in, size);
    rq_url url;
    renderq_status status = rq_url_parse(text, &url, why, sizeof why);
    HOLDS(status == RENDERQ_OK || status == RENDERQ_INVALID);
    check_untold(text, status, why);
    if (status == RENDERQ_OK) {
        check_parts(&url);
        check_rebuilt(&url, strlen(text));
        /* The last @ ends the password: none is left for the host. */
        HOLDS(strchr(text, '%') || !url.host || !strchr(url.host, '@'));
    } else {
        check_empty(&url);
        HOLDS(strncmp(why, "the URL ", 8) == 0 || strncmp(why, "option ", 7) == 0);
        HOLDS(strlen(why) < WHY_SIZE - 1 && !strchr(why, '\n'));
    }
    rq_url_free(&url);
    check_empty(&url);
    free(text);
    return 0;
}
