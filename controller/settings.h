/* settings.h: what the service was told on its command line. */
#ifndef CONTROLLER_SETTINGS_H
#define CONTROLLER_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUEUES_MAX 32
#define HOSTS_MAX  16
#define TOKENS_MAX 8

#define WAIT_MAX_S      60
#define CACHE_MAX       1000
#define SMALL_BODY_MAX  ((size_t)64 * 1024)         /* of everything but new jobs */
#define BODIES_MAX      ((size_t)256 * 1024 * 1024) /* of all requests together */
#define HEADERS_MAX     ((size_t)32 * 1024)         /* of a request, with its request line */

typedef struct settings {
    const char *url;                    /* never printed: there may be a password in it */
    char *password;                     /* or NULL */
    char *queues[QUEUES_MAX];           /* the first is the URL's */
    size_t n_queues;
    char *address, *port;               /* of --listen */
    bool loopback;                      /* the address is one of this machine alone */
    const char *hosts[HOSTS_MAX];       /* --host */
    size_t n_hosts;
    char *tokens[TOKENS_MAX];           /* --token-file, a line each; none: no token is needed */
    size_t n_tokens;
    char *tls_cert, *tls_key;           /* the files' texts, or NULL */
    const char *outputs;                /* --outputs; NULL: no files are looked for */
    int lease_s, scan_s, settle_ms, cache;
    int timeout_s, connections;
    size_t body_max;
    bool access_log, create;
} settings;

/* Reads the command line. *code is the exit code if the answer is false: 0 after --help, --version and --routes. */
bool settings_read(settings *o, int argc, char **argv, int *code);

void settings_free(settings *o);

#endif
