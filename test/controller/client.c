/* client.c: many requests to a renderq-controller, some at a time over connections that stay open, and what became of
 * them as one line of JSON. For the tests, and for the figures of `make bench`.
 *
 *     client --port PORT [--requests N] [--at-a-time N] [--until-closed] next|enqueue|cycle|health
 *
 * next asks for a job, enqueue puts one in, cycle takes one and completes it (two requests), health asks for
 * /healthz. A job that is handed out twice, an answer that is no HTTP, an unexpected status: an error. --until-closed:
 * the service may go away, and only half an answer is an error then. Exit: 0 no error, 1 some, 2 wrong usage. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ID_LEN      36
#define ANSWER_MAX  65536
#define SILENCE_MS  60000

typedef enum kind { NEXT, ENQUEUE, CYCLE, HEALTH } kind;

typedef struct channel {
    int fd;                             /* -1: closed */
    bool busy, completing;
    char request[1024], answer[ANSWER_MAX];
    size_t request_len, sent, answer_len;
    int64_t began_us;
    char id[ID_LEN + 1];
} channel;

typedef struct run {
    int port, requests, at_a_time;
    bool until_closed;
    kind kind;
    int begun, ok, empty, refused, errors, half_answers, closed;
    int64_t *took_us;
    char (*ids)[ID_LEN + 1];
} run;

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void error(run *r, const char *what, const char *detail)
{
    if (r->errors++ < 5)
        fprintf(stderr, "client: %s: %.200s\n", what, detail);
}

/* ---- requests ---- */

static void make_request(channel *l, const char *method, const char *path, const char *body)
{
    l->request_len = (size_t)snprintf(l->request, sizeof l->request,
                                      "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s", method,
                                      path, strlen(body), body);
    l->sent = l->answer_len = 0;
    l->busy = true;
    l->began_us = now_us();
}

static void begin(run *r, channel *l)
{
    char body[200];
    l->completing = false;
    switch (r->kind) {
    case HEALTH:
        make_request(l, "GET", "/healthz", "");
        break;
    case ENQUEUE:
        snprintf(body, sizeof body, "{\"composition_id\":\"c-%d\",\"payload\":{\"n\":%d}}", r->begun, r->begun);
        make_request(l, "POST", "/v1/jobs", body);
        break;
    default:
        snprintf(body, sizeof body, "{\"worker\":\"client-%d\"}", l->fd);
        make_request(l, "POST", "/v1/next", body);
        break;
    }
    r->begun++;
}

/* The text behind "name":" in the answer. */
static bool find_text(const char *answer, const char *name, char out[ID_LEN + 1])
{
    char key[40];
    snprintf(key, sizeof key, "\"%s\":\"", name);
    const char *at = strstr(answer, key);
    if (!at || strcspn(at + strlen(key), "\"") != ID_LEN)
        return false;
    snprintf(out, ID_LEN + 1, "%s", at + strlen(key));
    return true;
}

static void complete(channel *l, const char *lease)
{
    char path[100], body[100];
    int64_t began_us = l->began_us;
    snprintf(path, sizeof path, "/v1/jobs/%s/complete", l->id);
    snprintf(body, sizeof body, "{\"lease\":\"%s\"}", lease);
    make_request(l, "POST", path, body);
    l->completing = true;
    l->began_us = began_us;             /* a cycle is timed as one */
}

/* ---- answers ---- */

static void finish(run *r, channel *l)
{
    r->took_us[r->ok + r->empty] = now_us() - l->began_us;
    l->busy = false;
}

static void take_ok(run *r, channel *l)
{
    char lease[ID_LEN + 1];
    if (r->kind == HEALTH || l->completing) {
        finish(r, l);
        memcpy(r->ids[r->ok++], l->id, sizeof l->id);
    } else if (!find_text(l->answer, "id", l->id) || (r->kind != ENQUEUE && !find_text(l->answer, "lease", lease))) {
        error(r, "no id in an answer", l->answer);
        l->busy = false;
    } else if (r->kind == CYCLE) {
        complete(l, lease);
    } else {
        finish(r, l);
        memcpy(r->ids[r->ok++], l->id, sizeof l->id);
    }
}

static void take_answer(run *r, channel *l, int code)
{
    l->answer[l->answer_len] = 0;
    if (code == 200 || code == 201) {
        take_ok(r, l);
    } else if (code == 204) {
        finish(r, l);
        r->empty++;
    } else {
        l->busy = false;
        if (code == 503 && r->until_closed)
            r->refused++;
        else
            error(r, "an answer", l->answer);
    }
}

/* Whether the answer is all there; its code. */
static bool is_whole(run *r, channel *l, int *code)
{
    l->answer[l->answer_len] = 0;
    const char *end = strstr(l->answer, "\r\n\r\n");
    if (!end)
        return false;
    if (sscanf(l->answer, "HTTP/1.1 %d", code) != 1)
        error(r, "no HTTP", l->answer);
    const char *length = strcasestr(l->answer, "\r\nContent-Length:");
    size_t body = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
    return l->answer_len >= (size_t)(end - l->answer) + 4 + body;
}

/* ---- connections ---- */

static bool open_channel(const run *r, channel *l)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)r->port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    l->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l->fd < 0 || connect(l->fd, (struct sockaddr *)&at, sizeof at) != 0) {
        if (l->fd >= 0)
            close(l->fd);
        l->fd = -1;
        return false;
    }
    fcntl(l->fd, F_SETFL, O_NONBLOCK);
    return true;
}

static void lose(run *r, channel *l)
{
    if (l->busy && l->answer_len > 0) {
        r->half_answers++;
        error(r, "half an answer", l->answer);
    } else if (l->busy && !r->until_closed) {
        error(r, "the connection was closed", "");
    }
    r->closed++;
    close(l->fd);
    l->fd = -1;
    l->busy = false;
}

static void serve_write(run *r, channel *l)
{
    ssize_t n = send(l->fd, l->request + l->sent, l->request_len - l->sent, MSG_NOSIGNAL);
    if (n > 0)
        l->sent += (size_t)n;
    else if (errno != EAGAIN && errno != EINTR)
        lose(r, l);
}

static void serve_read(run *r, channel *l)
{
    int code = 0;
    ssize_t n = recv(l->fd, l->answer + l->answer_len, ANSWER_MAX - 1 - l->answer_len, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        lose(r, l);
        return;
    }
    l->answer_len += (size_t)n;
    if (is_whole(r, l, &code))
        take_answer(r, l, code);
}

static bool step(run *r, channel *channels, struct pollfd *polls)
{
    bool any = false;
    for (int i = 0; i < r->at_a_time; i++) {
        channel *l = &channels[i];
        if (l->fd < 0 && !(r->until_closed && r->closed) && r->begun < r->requests && !open_channel(r, l)
            && !r->until_closed)
            error(r, "cannot connect", strerror(errno));
        if (l->fd >= 0 && !l->busy && r->begun < r->requests)
            begin(r, l);
        short wanted = l->sent < l->request_len ? POLLOUT : POLLIN;
        polls[i] = (struct pollfd){ .fd = l->busy ? l->fd : -1, .events = wanted };
        any = any || (l->busy && l->fd >= 0);
    }
    if (!any)
        return false;
    if (poll(polls, (nfds_t)r->at_a_time, SILENCE_MS) == 0) {
        error(r, "silence", "no answer within a minute");
        return false;
    }
    for (int i = 0; i < r->at_a_time; i++) {
        if (polls[i].revents & POLLOUT)
            serve_write(r, &channels[i]);
        else if (polls[i].revents)
            serve_read(r, &channels[i]);
    }
    return r->errors < 100;
}

/* ---- the end ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int by_number(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static void find_twins(run *r)
{
    if (r->kind == HEALTH || r->ok < 2)
        return;
    qsort(r->ids, (size_t)r->ok, sizeof r->ids[0], by_text);
    for (int i = 1; i < r->ok; i++)
        if (strcmp(r->ids[i - 1], r->ids[i]) == 0)
            error(r, "twice", r->ids[i]);
}

static void report(run *r, int64_t took_us)
{
    int n = r->ok + r->empty;
    qsort(r->took_us, (size_t)n, sizeof r->took_us[0], by_number);
    printf("{\"requests\":%d,\"ok\":%d,\"empty\":%d,\"refused\":%d,\"errors\":%d,\"half_answers\":%d,\"seconds\":%.3f,"
           "\"per_second\":%.0f,\"p50_us\":%lld,\"p99_us\":%lld}\n",
           r->begun, r->ok, r->empty, r->refused, r->errors, r->half_answers, (double)took_us / 1e6,
           n * 1e6 / (double)(took_us ? took_us : 1), n ? (long long)r->took_us[n / 2] : 0,
           n ? (long long)r->took_us[n * 99 / 100] : 0);
}

static int usage(void)
{
    fputs("usage: client --port PORT [--requests N] [--at-a-time N] [--until-closed] next|enqueue|cycle|health\n",
          stderr);
    return 2;
}

static bool read_options(run *r, int argc, char **argv)
{
    static const struct option longs[] = {
        { "port", required_argument, NULL, 'p' }, { "requests", required_argument, NULL, 'n' },
        { "at-a-time", required_argument, NULL, 'c' }, { "until-closed", no_argument, NULL, 'u' },
        { NULL, 0, NULL, 0 },
    };
    static const char *const kinds[] = { "next", "enqueue", "cycle", "health" };
    int option;
    *r = (run){ .requests = 1000, .at_a_time = 1 };
    while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (option) {
        case 'p': r->port = atoi(optarg); break;
        case 'n': r->requests = atoi(optarg); break;
        case 'c': r->at_a_time = atoi(optarg); break;
        case 'u': r->until_closed = true; break;
        default: return false;
        }
    }
    for (size_t i = 0; optind + 1 == argc && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(argv[optind], kinds[i]) == 0) {
            r->kind = (kind)i;
            return r->port > 0 && r->requests > 0 && r->at_a_time > 0;
        }
    return false;
}

int main(int argc, char **argv)
{
    run r;
    if (!read_options(&r, argc, argv))
        return usage();
    channel *channels = calloc((size_t)r.at_a_time, sizeof *channels);
    struct pollfd *polls = calloc((size_t)r.at_a_time, sizeof *polls);
    r.took_us = calloc((size_t)r.requests, sizeof *r.took_us);
    r.ids = calloc((size_t)r.requests, sizeof *r.ids);
    if (!channels || !polls || !r.took_us || !r.ids) {
        fputs("client: out of memory\n", stderr);
        return 1;
    }
    for (int i = 0; i < r.at_a_time; i++)
        channels[i].fd = -1;
    int64_t began_us = now_us();
    while (step(&r, channels, polls))
        continue;
    int64_t took_us = now_us() - began_us;
    for (int i = 0; i < r.at_a_time; i++)
        if (channels[i].fd >= 0)
            close(channels[i].fd);
    find_twins(&r);
    report(&r, took_us);
    free(channels);
    free(polls);
    free(r.took_us);
    free(r.ids);
    return r.errors > 0;
}
