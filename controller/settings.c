/* settings.c: the command line, and the files that it names. See settings.h. */
#include "settings.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <renderq.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "log.h"
#include "routes.h"

#define QUEUE_DEFAULT "VideoRenderJobs"
#define FILE_MAX      ((size_t)256 * 1024)
#define TOKEN_MIN     16

static const char help[] =
    "usage: renderq-controller --db URL [OPTION]...\n"
    "\n"
    "Hands jobs of a queue out over HTTP, to workers that must not touch the database.\n"
    "\n"
    "  -d, --db URL            the database (RENDERQ_URL)\n"
    "  -q, --queue NAME        a queue that is served besides the URL's; may be repeated\n"
    "      --create            make the queues that are missing\n"
    "      --password-file FILE  the database's password is its first line\n"
    "                          (RENDERQ_PASSWORD)\n"
    "  -l, --listen ADDRESS:PORT  127.0.0.1:8080; port 0: any that is free\n"
    "  -o, --outputs FOLDER    where the results are expected\n"
    "      --lease DURATION    how long a job that was handed out stays its worker's (10m)\n"
    "      --scan DURATION     how often the outputs are looked at, and leases that have\n"
    "                          run out are ended (4m)\n"
    "      --second-look DURATION  how long a file of a job whose lease has run out is\n"
    "                          watched before it counts (5s)\n"
    "      --cache N           jobs kept in memory, ready to be handed out (100)\n"
    "\n"
    "Who may ask:\n"
    "      --token-file FILE   a bearer token a line; needed unless --listen is a\n"
    "                          loopback address\n"
    "      --tls-cert FILE, --tls-key FILE  serve HTTPS; PEM\n"
    "      --host NAME         a name that clients call the service by; may be repeated\n"
    "\n"
    "Bounds:\n"
    "      --timeout DURATION  for a client to send a request or take an answer (30s)\n"
    "      --connections N     at a time (1000)\n"
    "      --max-body BYTES    of new jobs in one request (8388608)\n"
    "\n"
    "      --no-access-log     no line a request on standard output\n"
    "      --routes            print the paths that are served\n"
    "      --version, --help\n"
    "\n"
    "Durations: 30s, 10m, 2h, 500ms, or a bare number of seconds.\n"
    "SIGTERM and SIGINT stop it: what is in flight is answered, the cache is given back.\n"
    "Exit: 0 stopped, 1 something failed, 2 wrong usage.\n";

static bool wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

static bool wrong(const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    say("%s (see renderq-controller --help)", text);
    return false;
}

/* ---- values ---- */

static bool take_number(const char *option, const char *text, int64_t min, int64_t max, int64_t *out)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno || end == text || *end || number < min || number > max)
        return wrong("--%s %.50s: a number from %lld to %lld is expected", option, text, (long long)min,
                     (long long)max);
    *out = number;
    return true;
}

static bool take_duration(const char *option, const char *text, int64_t min_ms, int64_t max_ms, int64_t *ms)
{
    static const struct { const char *unit; int64_t ms; } units[] = {
        { "", 1000 }, { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 },
    };
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    int64_t unit = 0;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(end, units[i].unit) == 0)
            unit = units[i].ms;
    if (errno || end == text || !unit || number < 0 || number > max_ms / unit || number * unit < min_ms)
        return wrong("--%s %.50s: a duration from %lld ms to %lld s is expected, as 30s, 10m, 2h, 500ms", option, text,
                     (long long)min_ms, (long long)(max_ms / 1000));
    *ms = number * unit;
    return true;
}

static bool take_seconds(const char *option, const char *text, int64_t min, int64_t max, int *seconds)
{
    int64_t ms = 0;
    if (!take_duration(option, text, min * 1000, max * 1000, &ms))
        return false;
    *seconds = (int)(ms / 1000);
    return true;
}

/* A whole file as text; NULL: it has been said what is wrong. */
static char *read_file(const char *option, const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file) {
        wrong("--%s: %s cannot be read: %s", option, path, strerror(errno));
        return NULL;
    }
    setvbuf(file, NULL, _IONBF, 0);     /* no copy of a secret stays in a buffer */
    char *text = must_alloc(NULL, FILE_MAX + 1);
    size_t len = fread(text, 1, FILE_MAX, file);
    bool good = !ferror(file) && len > 0 && len < FILE_MAX && !memchr(text, 0, len);
    fclose(file);
    text[len] = 0;
    if (!good) {
        wrong("--%s: %s is empty, too long, or no text", option, path);
        explicit_bzero(text, len);
        free(text);
        return NULL;
    }
    return text;
}

static void warn_readable(const char *option, const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && (st.st_mode & (S_IROTH | S_IWOTH)))
        say("warning: --%s: %s can be read or written by everybody on this machine (chmod o-rw)", option, path);
}

static bool add_token(settings *o, const char *path, char *line)
{
    line += strspn(line, " \t");
    size_t len = strcspn(line, "\r");
    while (len > 0 && (line[len - 1] == ' ' || line[len - 1] == '\t'))
        len--;
    line[len] = 0;
    if (len == 0)
        return true;
    if (len < TOKEN_MIN)
        return wrong("--token-file: %s: a token has at least %d characters; openssl rand -hex 32 makes one", path,
                     TOKEN_MIN);
    for (const char *at = line; *at; at++)
        if (!isgraph((unsigned char)*at))
            return wrong("--token-file: %s: a token has no blanks and none but ASCII characters", path);
    if (o->n_tokens == TOKENS_MAX)
        return wrong("--token-file: %s: at most %d tokens, a line each", path, TOKENS_MAX);
    o->tokens[o->n_tokens++] = must_copy(line);
    return true;
}

static bool read_tokens(settings *o, const char *path)
{
    char *text = read_file("token-file", path), *at = text, *line;
    bool good = text != NULL;
    while (good && (line = strsep(&at, "\n")) != NULL)
        good = add_token(o, path, line);
    if (good && o->n_tokens == 0)
        good = wrong("--token-file: %s has no token in it", path);
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
    if (good)
        warn_readable("token-file", path);
    return good;
}

static bool read_password(settings *o, const char *path)
{
    char *text = read_file("password-file", path);
    if (!text)
        return false;
    text[strcspn(text, "\r\n")] = 0;
    free(o->password);
    o->password = text;
    warn_readable("password-file", path);
    return true;
}

/* ---- the address ---- */

static bool take_listen(settings *o, const char *text)
{
    const char *colon = strrchr(text, ':');
    int64_t port;
    size_t len = colon ? (size_t)(colon - text) : 0;
    bool bracket = *text == '[';
    if (!colon || len == 0 || (bracket && text[len - 1] != ']') || (!bracket && memchr(text, ':', len)))
        return wrong("--listen %.100s: ADDRESS:PORT is expected; an IPv6 address stands in [ ]", text);
    if (!take_number("listen: port", colon + 1, 0, 65535, &port))
        return false;
    free(o->address);
    free(o->port);
    o->address = must_copy(text + bracket);
    o->address[len - (bracket ? 2 : 0)] = 0;
    o->port = must_copy(colon + 1);
    return true;
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const void *)address;
        return ntohl(four->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *six = (const void *)address;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

static bool look_up_address(settings *o)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV }, *found = NULL;
    int code = getaddrinfo(o->address, o->port, &hints, &found);
    if (code != 0)
        return wrong("--listen: the address %s cannot be found: %s", o->address, gai_strerror(code));
    o->loopback = true;
    for (const struct addrinfo *at = found; at; at = at->ai_next)
        o->loopback = o->loopback && is_loopback(at->ai_addr);
    freeaddrinfo(found);
    if (o->loopback || o->n_tokens > 0)
        return true;
    return wrong("--listen %s: an address that others reach needs --token-file", o->address);
}

/* ---- the queues ---- */

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

static char *queue_of_url(const char *url)
{
    const char *at = strchr(url, '?');
    while (at) {
        at++;
        size_t len = strcspn(at, "&");
        if (len > 6 && strncmp(at, "queue=", 6) == 0)
            return decode(at + 6, len - 6);
        at = at[len] ? at + len : NULL;
    }
    return must_copy(QUEUE_DEFAULT);
}

static bool add_queue(settings *o, const char *name)
{
    for (size_t i = 1; i < o->n_queues; i++)
        if (strcmp(o->queues[i], name) == 0)
            return true;
    if (o->n_queues == QUEUES_MAX)
        return wrong("--queue: at most %d queues", QUEUES_MAX - 1);
    o->queues[o->n_queues++] = must_copy(name);
    return true;
}

/* The URL's queue is the first; it may have been named by --queue, too. */
static void add_default_queue(settings *o)
{
    o->queues[0] = queue_of_url(o->url);
    for (size_t i = 1; i < o->n_queues; i++) {
        if (strcmp(o->queues[i], o->queues[0]) != 0)
            continue;
        free(o->queues[i]);
        memmove(&o->queues[i], &o->queues[i + 1], (--o->n_queues - i) * sizeof o->queues[0]);
    }
}

/* ---- all of it ---- */

enum { CREATE = 256, PASSWORD_FILE, LEASE, SCAN, SECOND_LOOK, CACHE, TOKEN_FILE, TLS_CERT, TLS_KEY, HOST, TIMEOUT,
       CONNECTIONS, MAX_BODY, NO_ACCESS_LOG, PRINT_ROUTES, VERSION };

static const struct option longs[] = {
    { "db", required_argument, NULL, 'd' },
    { "queue", required_argument, NULL, 'q' },
    { "create", no_argument, NULL, CREATE },
    { "password-file", required_argument, NULL, PASSWORD_FILE },
    { "listen", required_argument, NULL, 'l' },
    { "outputs", required_argument, NULL, 'o' },
    { "lease", required_argument, NULL, LEASE },
    { "scan", required_argument, NULL, SCAN },
    { "second-look", required_argument, NULL, SECOND_LOOK },
    { "cache", required_argument, NULL, CACHE },
    { "token-file", required_argument, NULL, TOKEN_FILE },
    { "tls-cert", required_argument, NULL, TLS_CERT },
    { "tls-key", required_argument, NULL, TLS_KEY },
    { "host", required_argument, NULL, HOST },
    { "timeout", required_argument, NULL, TIMEOUT },
    { "connections", required_argument, NULL, CONNECTIONS },
    { "max-body", required_argument, NULL, MAX_BODY },
    { "no-access-log", no_argument, NULL, NO_ACCESS_LOG },
    { "routes", no_argument, NULL, PRINT_ROUTES },
    { "version", no_argument, NULL, VERSION },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

static bool take_file(const char *option, const char *path, char **out)
{
    free(*out);
    *out = read_file(option, path);
    return *out != NULL;
}

static bool take_int(const char *option, const char *text, int64_t min, int64_t max, int *out)
{
    int64_t number = 0;
    if (!take_number(option, text, min, max, &number))
        return false;
    *out = (int)number;
    return true;
}

static bool add_host(settings *o, const char *name)
{
    if (o->n_hosts == HOSTS_MAX)
        return wrong("--host: at most %d names", HOSTS_MAX);
    o->hosts[o->n_hosts++] = name;
    return true;
}

static bool take_value(settings *o, int option, const char *text)
{
    int64_t number = 0;
    switch (option) {
    case 'd': o->url = text; return true;
    case 'q': return add_queue(o, text);
    case 'l': return take_listen(o, text);
    case 'o': o->outputs = text; return true;
    case CREATE: o->create = true; return true;
    case PASSWORD_FILE: return read_password(o, text);
    case LEASE: return take_seconds("lease", text, 1, RENDERQ_LEASE_MAX_S, &o->lease_s);
    case SCAN: return take_seconds("scan", text, 1, 86400, &o->scan_s);
    case CACHE: return take_int("cache", text, 0, CACHE_MAX, &o->cache);
    case TOKEN_FILE: return read_tokens(o, text);
    case TLS_CERT: return take_file("tls-cert", text, &o->tls_cert);
    case TLS_KEY: warn_readable("tls-key", text); return take_file("tls-key", text, &o->tls_key);
    case HOST: return add_host(o, text);
    case TIMEOUT: return take_seconds("timeout", text, 1, 3600, &o->timeout_s);
    case CONNECTIONS: return take_int("connections", text, 1, 100000, &o->connections);
    case NO_ACCESS_LOG: o->access_log = false; return true;
    case SECOND_LOOK:
        if (!take_duration("second-look", text, 1, 3600000, &number))
            return false;
        o->settle_ms = (int)number;
        return true;
    case MAX_BODY:
        if (!take_number("max-body", text, 1024, BODIES_MAX, &number))
            return false;
        o->body_max = (size_t)number;
        return true;
    default: return false;
    }
}

/* Options that print something and are done. */
static bool prints(int option)
{
    switch (option) {
    case 'h': fputs(help, stdout); return true;
    case VERSION: printf("renderq-controller %s\n", renderq_version()); return true;
    case PRINT_ROUTES: routes_print(); return true;
    default: return false;
    }
}

static bool check(settings *o)
{
    if (!o->url)
        o->url = getenv("RENDERQ_URL");
    if (!o->url || !*o->url)
        return wrong("which database? Give --db URL or set RENDERQ_URL, for instance to sqlite:jobs.db");
    if (!o->tls_cert != !o->tls_key)
        return wrong("--tls-cert and --tls-key go together");
    if (!o->password && getenv("RENDERQ_PASSWORD"))
        o->password = must_copy(getenv("RENDERQ_PASSWORD"));
    add_default_queue(o);
    return look_up_address(o);
}

bool settings_read(settings *o, int argc, char **argv, int *code)
{
    *o = (settings){ .n_queues = 1, .lease_s = RENDERQ_LEASE_DEFAULT_S, .scan_s = 240, .settle_ms = 5000, .cache = 100,
                    .timeout_s = 30, .connections = 1000, .body_max = (size_t)8 * 1024 * 1024, .access_log = true };
    o->address = must_copy("127.0.0.1");
    o->port = must_copy("8080");
    int option;
    *code = 2;
    while ((option = getopt_long(argc, argv, "d:q:l:o:h", longs, NULL)) != -1) {
        if (prints(option)) {
            *code = 0;
            return false;
        }
        if (option == '?' || !take_value(o, option, optarg))
            return false;
    }
    if (optind < argc)
        return wrong("what is \"%.100s\" meant to be?", argv[optind]);
    return check(o);
}

static void forget(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

void settings_free(settings *o)
{
    forget(o->password);
    forget(o->tls_key);
    free(o->tls_cert);
    for (size_t i = 0; i < o->n_tokens; i++)
        forget(o->tokens[i]);
    for (size_t i = 0; i < o->n_queues; i++)
        free(o->queues[i]);
    free(o->address);
    free(o->port);
}
