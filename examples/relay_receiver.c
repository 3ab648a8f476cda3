/* relay_receiver.c: a web service for the demo. It takes a message once, by its Idempotency-Key: who sends it again
 * gets the same answer, and nothing more happens. */
#include "relay_demo.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define WORK_MS     5
#define LOSE_EVERY  12                      /* new keys, from one lost reply to the next */

/* All requests come on the service's one thread, and are looked at once that has ended. */
struct receiver {
    struct MHD_Daemon *daemon;
    int port, n, faults, lost;
    receipt receipts[2 * ORDERS];
};

typedef struct request {
    char body[sizeof ((receipt *)0)->body];
    size_t len;
} request;

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned code)
{
    static char text[] = "{}";
    struct MHD_Response *response = MHD_create_response_from_buffer(2, text, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result = response != NULL ? MHD_queue_response(connection, code, response) : MHD_NO;

    if (response != NULL)
        MHD_destroy_response(response);
    return result;
}

static receipt *find(receiver *r, const char *key)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->receipts[i].key, key) == 0)
            return &r->receipts[i];
    return NULL;
}

/* "8E03978E-40D5-43DD-BC93-6894A57F9324", with its quotes: a string of a structured header. */
static int read_key(struct MHD_Connection *connection, char *key, size_t size)
{
    const char *header = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Idempotency-Key");
    size_t len = header != NULL ? strlen(header) : 0;

    if (len < 3 || len - 2 >= size || header[0] != '"' || header[len - 1] != '"')
        return 0;
    memcpy(key, header + 1, len - 2);
    key[len - 2] = '\0';
    return 1;
}

static enum MHD_Result take(receiver *r, struct MHD_Connection *connection, const request *got)
{
    char key[sizeof r->receipts[0].key];
    receipt *known;

    if (!read_key(connection, key, sizeof key) || got->len == 0 || got->len >= sizeof got->body) {
        r->faults++;
        return answer(connection, MHD_HTTP_BAD_REQUEST);
    }
    play_pause_ms(WORK_MS);
    known = find(r, key);
    if (known != NULL) {
        known->times++;
        r->faults += strcmp(known->body, got->body) != 0;      /* the same key, and another message */
        known->answered = 1;
        return answer(connection, MHD_HTTP_OK);
    }
    if (r->n == (int)(sizeof r->receipts / sizeof r->receipts[0]))
        return answer(connection, MHD_HTTP_INSUFFICIENT_STORAGE);
    known = &r->receipts[r->n++];
    *known = (receipt){ .times = 1 };
    snprintf(known->key, sizeof known->key, "%s", key);
    snprintf(known->body, sizeof known->body, "%s", got->body);
    if (r->n % LOSE_EVERY == 0) {
        r->lost++;
        return MHD_NO;                      /* closes the connection */
    }
    known->answered = 1;
    return answer(connection, MHD_HTTP_OK);
}

/* Called for the head of a request, for each piece of its body, and at its end. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *bytes, size_t *len, void **state)
{
    request *got = *state;

    (void)url;
    (void)version;
    if (got == NULL) {
        *state = calloc(1, sizeof *got);
        return *state != NULL ? MHD_YES : MHD_NO;
    }
    if (*len > 0) {
        size_t room = sizeof got->body - 1 - got->len, n = *len < room ? *len : room;

        memcpy(got->body + got->len, bytes, n);
        got->len = n == *len ? got->len + n : sizeof got->body;    /* too long for a receipt */
        *len = 0;
        return MHD_YES;
    }
    if (strcmp(method, "POST") != 0)
        return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED);
    return take(arg, connection, got);
}

static void on_end(void *arg, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode how)
{
    (void)arg;
    (void)connection;
    (void)how;
    free(*state);
    *state = NULL;
}

receiver *receiver_start(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    const union MHD_DaemonInfo *info;
    receiver *r = calloc(1, sizeof *r);

    if (r == NULL)
        return NULL;
    r->daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, on_request, r, MHD_OPTION_SOCK_ADDR,
                                 (struct sockaddr *)&at, MHD_OPTION_NOTIFY_COMPLETED, on_end, NULL, MHD_OPTION_END);
    info = r->daemon != NULL ? MHD_get_daemon_info(r->daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    if (info == NULL || info->port == 0) {
        receiver_free(r);
        return NULL;
    }
    r->port = info->port;
    return r;
}

int receiver_port(const receiver *r)
{
    return r->port;
}

void receiver_stop(receiver *r)
{
    if (r->daemon != NULL)
        MHD_stop_daemon(r->daemon);
    r->daemon = NULL;
}

int receiver_receipts(const receiver *r, const receipt **out)
{
    *out = r->receipts;
    return r->n;
}

int receiver_faults(const receiver *r)
{
    return r->faults;
}

int receiver_lost(const receiver *r)
{
    return r->lost;
}

void receiver_free(receiver *r)
{
    if (r == NULL)
        return;
    receiver_stop(r);
    free(r);
}
