/* http.c: the HTTP thread: requests in, answers out. What a request means is in routes.c and dispatch.c. See http.h.
 *
 * A connection is suspended while its exchange lies with another thread, so nobody waits here. A client has a fixed
 * time to send a request, counted from the connection or from the answer before, and as long to take the answer:
 * what dribbles a byte now and then is cut off like what sends nothing. */
#include "http.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dispatch.h"
#include "guard.h"
#include "log.h"
#include "routes.h"
#include "service.h"

typedef enum phase { RECEIVING, WORKING, SENDING } phase;

/* An open connection, from accept to close. */
typedef struct connection {
    struct connection *next, **at;
    int fd;
    phase phase;
    int64_t since_ms;
    char address[64];
} connection;

struct http {
    service *service;
    struct MHD_Daemon *daemon;
    int listener;
    char url[300];
    pthread_mutex_t lock;               /* of the list */
    connection *connections;
    size_t pending, bodies;             /* atomic */
    int64_t said_ms;
    char wrong[256];                    /* what the library said while it started */
};

static int64_t answers[600];            /* atomic; by code */

int64_t http_answers(unsigned code)
{
    return code < 600 ? __atomic_load_n(&answers[code], __ATOMIC_RELAXED) : 0;
}

/* ---- connections ---- */

static void set_phase(http *h, connection *link, phase p)
{
    pthread_mutex_lock(&h->lock);
    link->phase = p;
    link->since_ms = clock_ms();
    pthread_mutex_unlock(&h->lock);
}

static void connection_opened(http *h, struct MHD_Connection *c, void **socket_context)
{
    connection *link = must_alloc(NULL, sizeof *link);
    const union MHD_ConnectionInfo *fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *peer = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    *link = (connection){ .fd = fd ? fd->connect_fd : -1, .since_ms = clock_ms(), .address = "-" };
    if (peer && peer->client_addr) {
        bool six = peer->client_addr->sa_family == AF_INET6;
        socklen_t len = six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
        getnameinfo(peer->client_addr, len, link->address, sizeof link->address, NULL, 0, NI_NUMERICHOST);
    }
    pthread_mutex_lock(&h->lock);
    link->next = h->connections;
    link->at = &h->connections;
    if (link->next)
        link->next->at = &link->next;
    h->connections = link;
    pthread_mutex_unlock(&h->lock);
    *socket_context = link;
}

/* Comes before the socket is closed, so that http_sweep() never touches another one of the same number. */
static void connection_closed(http *h, connection *link)
{
    pthread_mutex_lock(&h->lock);
    *link->at = link->next;
    if (link->next)
        link->next->at = link->at;
    pthread_mutex_unlock(&h->lock);
    free(link);
}

static void on_connection(void *arg, struct MHD_Connection *c, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        connection_opened(arg, c, socket_context);
    else if (*socket_context)
        connection_closed(arg, *socket_context);
}

void http_sweep(http *h)
{
    int64_t limit_ms = (int64_t)h->service->o.timeout_s * 1000, now = clock_ms();
    pthread_mutex_lock(&h->lock);
    for (connection *link = h->connections; link; link = link->next)
        if (link->phase != WORKING && now - link->since_ms > limit_ms && link->fd >= 0)
            shutdown(link->fd, SHUT_RDWR);
    pthread_mutex_unlock(&h->lock);
}

/* ---- answers ---- */

static const char policy[] = "default-src 'none'; connect-src 'self'; img-src data:; style-src 'unsafe-inline'; "
                             "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; script-src 'nonce-";

/* The page gets a nonce for its script, so that nothing else in it ever runs as one. */
static void add_policy(struct MHD_Response *response, const exchange *x)
{
    static const char mark[] = "nonce=\"";
    char text[sizeof policy + 64];
    const char *at = x->answer ? strstr(x->answer, mark) : NULL;
    const char *nonce = at ? at + sizeof mark - 1 : "none";
    snprintf(text, sizeof text, "%s%.*s'", policy, (int)strcspn(nonce, "\""), nonce);
    MHD_add_response_header(response, "Content-Security-Policy", text);
    MHD_add_response_header(response, "X-Frame-Options", "DENY");
    MHD_add_response_header(response, "Referrer-Policy", "same-origin");
}

static struct MHD_Response *make_response(const http *h, exchange *x)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(x->answer_len, x->answer, MHD_RESPMEM_MUST_FREE);
    if (!response)
        return NULL;
    const char *type = x->type ? x->type : "application/json";
    if (x->answer)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (x->allow)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, x->allow);
    if (x->code == 401)
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"renderq-controller\"");
    if (x->retry_after_s) {
        char seconds[16];
        snprintf(seconds, sizeof seconds, "%d", x->retry_after_s);
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    }
    if (__atomic_load_n(&h->service->stopping, __ATOMIC_RELAXED))
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (strncmp(type, "text/html", 9) == 0)
        add_policy(response, x);
    return response;
}

static enum MHD_Result send_answer(http *h, exchange *x)
{
    struct MHD_Response *response = make_response(h, x);
    if (!response)
        return MHD_NO;
    x->answer = NULL;                   /* the response's now */
    set_phase(h, x->link, SENDING);
    enum MHD_Result queued = MHD_queue_response(x->http, x->code, response);
    MHD_destroy_response(response);
    x->answered = queued == MHD_YES;
    if (x->code < 600)
        __atomic_add_fetch(&answers[x->code], 1, __ATOMIC_RELAXED);
    return queued;
}

/* ---- requests ---- */

static bool has_body(const exchange *x)
{
    return strcmp(x->method, "POST") == 0 || strcmp(x->method, "PUT") == 0 || strcmp(x->method, "PATCH") == 0;
}

static bool is_ndjson(const char *type)
{
    return type
           && (strncasecmp(type, "application/x-ndjson", 20) == 0 || strncasecmp(type, "application/jsonl", 17) == 0);
}

static void answer_too_large(exchange *x)
{
    answer_error(x, 413, "too_large", "the body is longer than %zu bytes", x->body_max);
}

/* What can be said before the body is there. */
static void look_at_head(http *h, exchange *x)
{
    service *s = h->service;
    if (!guard_host(s, x))
        return;
    const route *r = route_find(s, x);
    if (!guard_token(s, x, r) || !r || !guard_route(s, x, r))
        return;
    x->body_max = r->id == ROUTE_ENQUEUE ? s->o.body_max : SMALL_BODY_MAX;
    x->lines = r->id == ROUTE_ENQUEUE
               && is_ndjson(MHD_lookup_connection_value(x->http, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE));
    if (__atomic_load_n(&s->stopping, __ATOMIC_RELAXED) && r->id != ROUTE_HEALTH)
        answer_status(x, RENDERQ_INTERRUPTED, "the service is stopping");
}

/* A long body is refused before it is sent; a short one is read, so that the client, which sends first and reads then,
 * gets the answer. */
static bool refuses_at_once(exchange *x)
{
    const char *text = MHD_lookup_connection_value(x->http, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    unsigned long long len = text ? strtoull(text, NULL, 10) : 0;
    if (!x->ready && len > x->body_max)
        answer_too_large(x);
    return x->ready && has_body(x) && len > SMALL_BODY_MAX;
}

/* A request line may have a whole URL, as it is sent to proxies: the path is behind its host then. */
static void take_target(exchange *x, const char *target)
{
    size_t scheme = strncasecmp(target, "http://", 7) == 0 ? 7 : strncasecmp(target, "https://", 8) == 0 ? 8 : 0;
    const char *rest = target + scheme;
    if (scheme) {
        size_t len = strcspn(rest, "/");
        x->host = must_copy(rest);
        x->host[len] = 0;
        rest += len;
    }
    x->path = must_copy(*rest ? rest : "/");
}

static exchange *begin(http *h, struct MHD_Connection *c, const char *path, const char *method)
{
    exchange *x = must_alloc(NULL, sizeof *x);
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    *x = (exchange){ .http = c, .link = info->socket_context, .began_us = clock_us(), .method = method,
                     .body_max = SMALL_BODY_MAX };
    take_target(x, path);
    __atomic_add_fetch(&h->pending, 1, __ATOMIC_RELAXED);
    look_at_head(h, x);
    return x;
}

static void drop_body(http *h, exchange *x)
{
    __atomic_sub_fetch(&h->bodies, x->body_room, __ATOMIC_RELAXED);
    free(x->body);
    x->body = NULL;
    x->body_len = x->body_room = 0;
}

static bool make_room(http *h, exchange *x, size_t len)
{
    size_t room = x->body_room ? x->body_room : 1024;
    while (room < x->body_len + len + 1)
        room *= 2;
    size_t more = room - x->body_room;
    if (__atomic_add_fetch(&h->bodies, more, __ATOMIC_RELAXED) > BODIES_MAX) {
        __atomic_sub_fetch(&h->bodies, more, __ATOMIC_RELAXED);
        return false;
    }
    x->body = must_alloc(x->body, room);
    x->body_room = room;
    return true;
}

static void take_body(http *h, exchange *x, const char *data, size_t len)
{
    if (x->ready)
        return;                         /* refused: the rest is read and thrown away */
    if (x->body_len + len > x->body_max) {
        answer_too_large(x);
        drop_body(h, x);
    } else if (!make_room(h, x, len)) {
        answer_status(x, RENDERQ_BUSY, "too many long requests at a time");
        drop_body(h, x);
    } else {
        memcpy(x->body + x->body_len, data, len);
        x->body_len += len;
        x->body[x->body_len] = 0;
    }
}

/* Gives it to the thread that it is for, and then it may not be touched any more; or it is answered here. */
static enum MHD_Result pass_on(http *h, exchange *x)
{
    struct MHD_Connection *c = x->http;
    tray *to = dispatch(h->service, x);
    if (!to)
        return send_answer(h, x);
    set_phase(h, x->link, WORKING);
    MHD_suspend_connection(c);
    if (!tray_add(to, x)) {
        answer_status(x, RENDERQ_INTERRUPTED, "the service is stopping");
        MHD_resume_connection(c);
    }
    return MHD_YES;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url, const char *method,
                                  const char *version, const char *data, size_t *len, void **context)
{
    (void)version;
    http *h = arg;
    exchange *x = *context;
    if (!x) {
        *context = x = begin(h, c, url, method);
        return refuses_at_once(x) ? send_answer(h, x) : MHD_YES;
    }
    if (*len) {
        take_body(h, x, data, *len);
        *len = 0;
        return MHD_YES;
    }
    if (x->ready)
        return x->answered ? MHD_YES : send_answer(h, x);
    return pass_on(h, x);
}

void http_resume(exchange *x)
{
    MHD_resume_connection(x->http);
}

int http_socket(const exchange *x)
{
    return x->link->fd;
}

/* A job whose answer was not sent goes back to the queue. */
static void give_back(exchange *x)
{
    exchange *back = must_alloc(NULL, sizeof *back);
    *back = (exchange){ .route = ROUTE_GIVE_BACK, .clerk = x->clerk, .job = x->job };
    x->job = NULL;
    if (tray_add(&back->clerk->tray, back))
        return;
    renderq_job_free(back->job);        /* the clerk has gone; the lease runs out */
    free(back);
}

static void on_completed(void *arg, struct MHD_Connection *c, void **context, enum MHD_RequestTerminationCode code)
{
    (void)c;
    http *h = arg;
    exchange *x = *context;
    if (!x)
        return;
    bool sent = code == MHD_REQUEST_TERMINATED_COMPLETED_OK && x->answered;
    if (x->job && !sent)
        give_back(x);
    if (h->service->o.access_log) {
        access_line said = { .address = x->link->address, .method = x->method, .path = x->path, .code = x->code,
                             .bytes = x->answer_len, .took_us = clock_us() - x->began_us,
                             .note = sent ? NULL : "not sent" };
        log_access(&said);
    }
    set_phase(h, x->link, RECEIVING);
    drop_body(h, x);
    json_decref(x->input);
    renderq_job_free(x->job);
    free(x->answer);
    free(x->path);
    free(x->host);
    free(x);
    *context = NULL;
    __atomic_sub_fetch(&h->pending, 1, __ATOMIC_RELAXED);
}

/* Paths are matched as they were sent, and decoded piece by piece. */
static size_t leave_encoded(void *arg, struct MHD_Connection *c, char *text)
{
    (void)arg;
    (void)c;
    return strlen(text);
}

static void on_log(void *arg, const char *format, va_list args)
{
    http *h = arg;
    char text[240];
    vsnprintf(text, sizeof text, format, args);
    text[strcspn(text, "\n")] = 0;
    if (!h->daemon)
        snprintf(h->wrong, sizeof h->wrong, "%s", text);    /* it does not start; the caller says why */
    else
        say_seldom(&h->said_ms, "HTTP: %s", text);
}

/* ---- listening ---- */

static int listen_on(const struct addrinfo *info)
{
    int fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, info->ai_protocol), yes = 1;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, 512) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool open_listener(http *h, const settings *o, char *why, size_t size)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV }, *found = NULL;
    int code = getaddrinfo(o->address, o->port, &hints, &found);
    if (code != 0) {
        snprintf(why, size, "the address %s cannot be found: %s", o->address, gai_strerror(code));
        return false;
    }
    h->listener = listen_on(found);
    freeaddrinfo(found);
    if (h->listener < 0) {
        snprintf(why, size, "cannot listen on %s port %s: %s", o->address, o->port, strerror(errno));
        return false;
    }
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    char host[200], port[16];
    getsockname(h->listener, (struct sockaddr *)&at, &len);
    getnameinfo((struct sockaddr *)&at, len, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(h->url, sizeof h->url, strchr(host, ':') ? "%s://[%s]:%s" : "%s://%s:%s", o->tls_cert ? "https" : "http",
             host, port);
    return true;
}

static struct MHD_Daemon *start_daemon(http *h, const settings *o)
{
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {
        { MHD_OPTION_HTTPS_MEM_CERT, 0, o->tls_cert },
        { MHD_OPTION_HTTPS_MEM_KEY, 0, o->tls_key },
        { MHD_OPTION_HTTPS_PRIORITIES, 0, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2" },
        { MHD_OPTION_END, 0, NULL },
    };
    if (o->tls_cert)
        flags |= MHD_USE_TLS;
    else
        tls[0].option = MHD_OPTION_END;
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, h,
                            MHD_OPTION_EXTERNAL_LOGGER, on_log, h,
                            MHD_OPTION_LISTEN_SOCKET, h->listener,
                            MHD_OPTION_CONNECTION_LIMIT, (unsigned)o->connections,
                            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)o->timeout_s,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEADERS_MAX,
                            MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
                            MHD_OPTION_UNESCAPE_CALLBACK, leave_encoded, NULL,
                            MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
}

http *http_start(service *s, char *why, size_t size)
{
    http *h = must_alloc(NULL, sizeof *h);
    *h = (http){ .service = s, .listener = -1 };
    pthread_mutex_init(&h->lock, NULL);
    if (open_listener(h, &s->o, why, size)) {
        h->daemon = start_daemon(h, &s->o);
        if (h->daemon)
            return h;
        snprintf(why, size, "the HTTP server cannot be started%s: %s", s->o.tls_cert
                 ? " (are --tls-cert and --tls-key a certificate and its key in PEM?)" : "", h->wrong);
        close(h->listener);
    }
    free(h);
    return NULL;
}

const char *http_url(const http *h)
{
    return h->url;
}

size_t http_pending(const http *h)
{
    return __atomic_load_n(&h->pending, __ATOMIC_RELAXED);
}

void http_quiesce(http *h)
{
    MHD_socket fd = MHD_quiesce_daemon(h->daemon);
    if (fd != MHD_INVALID_SOCKET)
        close(fd);
}

void http_stop(http *h)
{
    MHD_stop_daemon(h->daemon);
    pthread_mutex_destroy(&h->lock);
    free(h);
}
