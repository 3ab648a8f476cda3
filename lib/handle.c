/* handle.c: open and close, the checks that begin every call, and how a broken link is tried again. No queue here. */
#include "handle.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "backoff.h"
#include "check.h"
#include "clock.h"

/* ---- errors and the log ---- */

/* What is quoted (a path, a key, a server's words) may have line ends. */
static void one_line(char *text)
{
    for (; *text; text++)
        if (*text == '\n' || *text == '\r')
            *text = ' ';
}

void rq_error_text(rq_error *error, int native, const char *format, ...)
{
    /* The text may quote the one that is there. */
    char text[sizeof error->text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    one_line(text);
    memcpy(error->text, text, sizeof text);
    error->native = native;
}

void rq_log(renderq *h, renderq_log_level level, const char *format, ...)
{
    if (!h->log)
        return;
    char line[sizeof h->error.text + 256];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    one_line(line);
    h->log(level, line, h->log_arg);
}

const char *renderq_errmsg(const renderq *h)
{
    return h ? h->error.text : "out of memory";
}

int renderq_native_error(const renderq *h)
{
    return h ? h->error.native : 0;
}

/* ---- structs of another age ---- */

/* An options struct is never this large; a size beyond it was not set by RENDERQ_INIT. */
#define STRUCT_MAX 4096

static size_t size_of(const void *theirs)
{
    size_t size;
    memcpy(&size, theirs, sizeof size);
    return size;
}

static renderq_status take_item(rq_error *error, const char *what, const void *array, size_t i, void *into, size_t size)
{
    size_t given = size_of(array);
    if (given < sizeof given || given > STRUCT_MAX)
        return rq_error_set(error, RENDERQ_INVALID, 0, "%s: its size is not set; begin with RENDERQ_INIT(%s)", what,
                            what);
    const char *theirs = (const char *)array + i * given;
    for (size_t at = size; at < given; at++)
        if (theirs[at])
            return rq_error_set(error, RENDERQ_INVALID, 0,
                                "%s has a field set at byte %zu that this library (" RENDERQ_VERSION ") does not "
                                "know; link a newer one", what, at);
    memset(into, 0, size);
    memcpy(into, theirs, given < size ? given : size);
    memcpy(into, &size, sizeof size);
    return RENDERQ_OK;
}

renderq_status rq_take_item(renderq *h, const char *what, const void *array, size_t i, void *into, size_t size)
{
    return take_item(&h->error, what, array, i, into, size);
}

renderq_status rq_take_options(rq_error *error, const char *what, const void *theirs, void *into, size_t size)
{
    if (theirs)
        return take_item(error, what, theirs, 0, into, size);
    memset(into, 0, size);
    memcpy(into, &size, sizeof size);
    return RENDERQ_OK;
}

renderq_status rq_take_struct(renderq *h, const char *what, const void *theirs, void *into, size_t size)
{
    return rq_take_options(&h->error, what, theirs, into, size);
}

void rq_give_item(void *array, size_t i, const void *ours, size_t size)
{
    size_t given = size_of(array), head = sizeof given;
    memcpy((char *)array + i * given + head, (const char *)ours + head, (given < size ? given : size) - head);
}

/* ---- entering a call ---- */

renderq_status rq_enter(renderq *h, int call)
{
    if (!h)
        return RENDERQ_INVALID;
    if (h->pid != getpid())
        return rq_fault(h, RENDERQ_INVALID,
                        "this handle was opened before fork(), and belongs to the parent: open one in the child");
    if (!h->ready)
        return rq_fault(h, RENDERQ_INVALID, "this handle was never opened: renderq_open() failed");
    rq_stop_begin(&h->stop, (call & RQ_WAITS) != 0);
    return rq_tx_enter(h, call);
}

void renderq_interrupt(renderq *h)
{
    if (h && h->pid == getpid())
        rq_stop_raise(&h->stop);
}

static renderq_status parse_queue(renderq *h, const char *text, rq_queue *out)
{
    out->text = text;
    const char *wrong = rq_name_parse(text, &out->name);
    return wrong ? rq_fault(h, RENDERQ_INVALID, "queue \"%.200s\" %s", text, wrong) : RENDERQ_OK;
}

renderq_status rq_which_queue(renderq *h, const char *name, rq_queue *room, const rq_queue **out)
{
    bool usual = !name || strcmp(name, h->queue.text) == 0;
    *out = usual ? &h->queue : room;
    return usual ? RENDERQ_OK : parse_queue(h, name, room);
}

/* ---- running and repeating ---- */

static void drop(renderq *h)
{
    if (h->conn)
        h->driver->close(h->conn);
    h->conn = NULL;
}

void rq_drop_broken(renderq *h, renderq_status status)
{
    /* A refusal can break it too: the server did not say that what was begun has ended. */
    if (status == RENDERQ_OK || !h->conn || h->driver->alive(h->conn))
        return;
    rq_log(h, RENDERQ_LOG_WARNING, "the connection broke: %s", h->error.text);
    drop(h);
}

/* A server that cannot be reached just now may refuse in many ways (a failover refuses logins), so whatever stops a
 * reconnection counts as no connection, and is tried again. */
static renderq_status reconnect(renderq *h)
{
    if (h->attached)
        return rq_fault(h, RENDERQ_DISCONNECTED,
                        "the connection that was attached broke: open another, and attach that");
    renderq_status status = h->driver->open(&h->session, &h->conn);
    if (status == RENDERQ_OK)
        rq_log(h, RENDERQ_LOG_INFO, "connected again");
    else if (status != RENDERQ_NOMEM && status != RENDERQ_INTERRUPTED)
        status = RENDERQ_DISCONNECTED;
    return status;
}

renderq_status rq_connect(renderq *h)
{
    return h->conn ? RENDERQ_OK : reconnect(h);
}

renderq_status rq_run(renderq *h, const rq_queue *queue, rq_statement_id id, const rq_value *values, size_t n,
                      rq_row_fn row, void *arg)
{
    renderq_status status = rq_connect(h);
    if (status == RENDERQ_OK)
        status = h->driver->run(h->conn, queue, id, values, n, row, arg);
    rq_drop_broken(h, status);
    return rq_tx_fault(h, status);
}

renderq_status rq_take_matched(void *arg, size_t item, const rq_value *columns)
{
    (void)item;
    (void)columns;
    *(bool *)arg = true;
    return RENDERQ_OK;
}

rq_try rq_first_try(const renderq *h)
{
    return (rq_try){ .until_ms = rq_clock_ms() + (int64_t)h->retry_s * 1000 };
}

uint32_t rq_jitter(void)
{
    uint32_t bits = 0;
    /* Without random bits there is no jitter, and nothing worse. */
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != (ssize_t)sizeof bits)
        bits = 0;
    return bits;
}

/* The row decides what these are after a lost reply; the others leave it open. */
static bool is_answer(renderq_status status)
{
    return status == RENDERQ_OK || status == RENDERQ_EMPTY || status == RENDERQ_LOST || status == RENDERQ_DUPLICATE;
}

#define RETRY_CAP_MS 2000

bool rq_again(renderq *h, rq_try *tries, renderq_status *status)
{
    if (is_answer(*status))
        return false;
    if (*status == RENDERQ_UNCERTAIN) {
        tries->maybe = true;
        tries->loose |= !h->conn;       /* a link that stands was read to the end of the reply */
    }
    bool passing = *status == RENDERQ_DISCONNECTED || *status == RENDERQ_UNCERTAIN
                   || (*status == RENDERQ_BUSY && (tries->maybe || tries->busy++ < h->driver->busy_tries));
    /* In a transaction only the caller can do all of it again. */
    if (passing && h->tx.state == RQ_TX_NONE && rq_clock_ms() < tries->until_ms) {
        int64_t left = tries->until_ms - rq_clock_ms(), wait = rq_poll_ms(++tries->count, RETRY_CAP_MS, rq_jitter());
        if (!rq_stop_sleep(&h->stop, wait < left ? wait : left))
            return true;
        rq_error_text(&h->error, 0, "interrupted while the connection was tried again (%s)", h->error.text);
        *status = RENDERQ_INTERRUPTED;
        tries->interrupted = true;
    }
    if (tries->maybe && *status != RENDERQ_UNCERTAIN) {
        int native = h->error.native;
        *status = rq_error_set(&h->error, RENDERQ_UNCERTAIN, native,
                               "it may have happened: the reply was lost, and asking again failed: %s", h->error.text);
    }
    if (*status == RENDERQ_INTERRUPTED || rq_stop_raised(&h->stop))
        rq_stop_answer(&h->stop);
    return false;
}

bool rq_can_look(const renderq *h, const rq_try *tries, renderq_status status)
{
    return status == RENDERQ_UNCERTAIN && tries->interrupted && h->conn;
}

/* ---- open and close ---- */

static const rq_driver *const drivers[] = { &rq_sqlite_driver, &rq_sqlserver_driver };

const rq_driver *rq_driver_find(const char *scheme)
{
    for (size_t i = 0; i < sizeof drivers / sizeof drivers[0]; i++)
        if (strcmp(drivers[i]->scheme, scheme) == 0)
            return drivers[i];
    return NULL;
}

const char *rq_sql_find(const rq_sql *files, const char *name)
{
    while (files->name && strcmp(files->name, name) != 0)
        files++;
    return files->text;
}

static renderq_status check_url_options(renderq *h)
{
    for (size_t i = 0; i < h->url.n_options; i++) {
        const char *name = h->url.options[i].name;
        const char *const *known = h->driver->options;
        while (*known && strcmp(*known, name) != 0)
            known++;
        if (!*known && strcmp(name, "queue") != 0)
            return rq_fault(h, RENDERQ_INVALID, "the URL's option \"%.100s\" is not one of %s's", name,
                            h->driver->scheme);
    }
    return RENDERQ_OK;
}

static renderq_status take_url(renderq *h, const rq_driver *driver, const char *text)
{
    char why[512] = "out of memory";
    if (!text)
        return rq_fault(h, RENDERQ_INVALID, "the URL is NULL: sqlite:jobs.db is one");
    renderq_status status = rq_url_parse(text, &h->url, why, sizeof why);
    if (status != RENDERQ_OK)
        return rq_fault(h, status, "%s", why);
    h->driver = driver ? driver : rq_driver_find(h->url.scheme);
    if (!h->driver)
        return rq_fault(h, RENDERQ_INVALID, "the URL's scheme \"%.50s\" is unknown: sqlite:PATH is one that works",
                        h->url.scheme);
    return check_url_options(h);
}

static renderq_status take_seconds(renderq *h, const char *name, int given, int otherwise, int min, int max, int *out)
{
    *out = given ? given : otherwise;
    if (*out < min || *out > max)
        return rq_fault(h, RENDERQ_INVALID, "%s is %d: it is %d to %d seconds, or 0 for %d", name, given, min, max,
                        otherwise);
    return RENDERQ_OK;
}

static char *default_worker(void)
{
    char host[RENDERQ_WORKER_MAX - 12] = "", name[RENDERQ_WORKER_MAX + 1];
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = 0;
    /* A host name is ASCII by its rules; one that is not could not be stored. */
    for (char *c = host; *c; c++)
        if (*c <= ' ' || *c > '~')
            *c = '?';
    snprintf(name, sizeof name, "%s:%ld", host[0] ? host : "localhost", (long)getpid());
    return strdup(name);
}

/* The options' queue, or the URL's, or the usual one. */
static renderq_status take_queue(renderq *h, const char *given)
{
    const char *name = given ? given : rq_url_option(&h->url, "queue");
    h->queue_text = strdup(name ? name : RQ_NAME_DEFAULT);
    return h->queue_text ? parse_queue(h, h->queue_text, &h->queue) : rq_fault(h, RENDERQ_NOMEM, "out of memory");
}

static renderq_status take_options(renderq *h, const renderq_options *given)
{
    renderq_options options;
    renderq_status status = rq_take_struct(h, "renderq_options", given, &options, sizeof options);
    if (status == RENDERQ_OK && options.in_transaction && !h->attached)
        status = rq_fault(h, RENDERQ_INVALID, "in_transaction is an option of renderq_attach(): this connection is not "
                          "the caller's, so renderq_begin() begins its transactions");
    if (status == RENDERQ_OK)
        status = take_queue(h, options.queue);
    if (status == RENDERQ_OK)
        status = take_seconds(h, "connect_s", options.connect_s, 10, 1, 3600, &h->session.connect_s);
    if (status == RENDERQ_OK)
        status = take_seconds(h, "command_s", options.command_s, 30, 1, 3600, &h->session.command_s);
    if (status == RENDERQ_OK)
        status = take_seconds(h, "retry_s", options.retry_s, 30, -1, 45, &h->retry_s);
    if (status == RENDERQ_OK && options.worker)
        status = rq_check_text(h, NULL, &rq_worker_field, options.worker);
    if (status != RENDERQ_OK)
        return status;
    h->retry_s = h->retry_s < 0 || h->attached ? 0 : h->retry_s;
    h->in_transaction = options.in_transaction != 0;
    h->log = options.log;
    h->log_arg = options.log_arg;
    h->worker = options.worker ? strdup(options.worker) : default_worker();
    h->password = options.password ? strdup(options.password) : NULL;
    if (!h->worker || (options.password && !h->password))
        return rq_fault(h, RENDERQ_NOMEM, "out of memory");
    h->session.password = h->password ? h->password : h->url.password;
    return RENDERQ_OK;
}

/* A handle with nothing in it. NULL: out of memory. */
static renderq *new_handle(renderq_status *status)
{
    renderq *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->pid = getpid();
    h->opened_at_ms = rq_clock_ms();
    h->session = (rq_session){ .url = &h->url, .stop = &h->stop, .error = &h->error };
    int number = rq_stop_open(&h->stop);
    *status = number == 0 ? RENDERQ_OK
                          : rq_error_set(&h->error, RENDERQ_FAILED, number, "opening a pipe failed: %s",
                                         strerror(number));
    return h;
}

/* All but the connection. */
static renderq_status prepare(const rq_driver *driver, const char *url, const renderq_options *options, renderq **out)
{
    renderq_status status;
    renderq *h = *out = new_handle(&status);
    if (!h)
        return RENDERQ_NOMEM;
    if (status == RENDERQ_OK)
        status = take_url(h, driver, url);
    if (status == RENDERQ_OK)
        status = take_options(h, options);
    return status;
}

renderq_status rq_open_with(const rq_driver *driver, const char *url, const renderq_options *options, renderq **out)
{
    if (!out)
        return RENDERQ_INVALID;
    renderq_status status = prepare(driver, url, options, out);
    if (status == RENDERQ_OK)
        status = (*out)->driver->open(&(*out)->session, &(*out)->conn);
    if (*out)
        (*out)->ready = status == RENDERQ_OK;
    return status;
}

renderq_status rq_open_later(const char *url, const renderq_options *options, renderq **out)
{
    renderq_status status = prepare(NULL, url, options, out);
    if (*out)
        (*out)->ready = status == RENDERQ_OK;
    return status;
}

renderq_status rq_open_now(renderq *h)
{
    rq_stop_begin(&h->stop, false);
    return h->conn ? RENDERQ_OK : h->driver->open(&h->session, &h->conn);
}

renderq_status rq_attach_with(const rq_driver *driver, const char *scheme, void *connection,
                              const renderq_options *options, renderq **out)
{
    if (!out)
        return RENDERQ_INVALID;
    renderq_status status;
    renderq *h = *out = new_handle(&status);
    if (!h)
        return RENDERQ_NOMEM;
    h->attached = true;
    h->driver = driver ? driver : scheme ? rq_driver_find(scheme) : NULL;
    if (status == RENDERQ_OK && !h->driver)
        status = rq_fault(h, RENDERQ_INVALID, "the scheme \"%.50s\" is unknown: it is sqlite or sqlserver",
                          scheme ? scheme : "NULL");
    if (status == RENDERQ_OK && !connection)
        status = rq_fault(h, RENDERQ_INVALID, "the connection to attach to is NULL");
    if (status == RENDERQ_OK)
        status = take_options(h, options);
    if (status == RENDERQ_OK)
        status = h->driver->attach(&h->session, connection, &h->conn);
    h->ready = status == RENDERQ_OK;
    return status;
}

renderq_status renderq_attach(const char *scheme, void *connection, const renderq_options *options, renderq **out)
{
    return rq_attach_with(NULL, scheme, connection, options, out);
}

renderq_status renderq_open(const char *url, const renderq_options *options, renderq **out)
{
    return rq_open_with(NULL, url, options, out);
}

static void wipe(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

void renderq_close(renderq *h)
{
    if (!h)
        return;
    if (h->pid == getpid()) {
        if (h->attached && h->conn && h->tx.state != RQ_TX_NONE)
            rq_tx_undo(h);          /* what we began on the caller's connection */
        drop(h);
    } else if (h->conn) {
        h->driver->abandon(h->conn);
    }
    free(h->tx.queue);
    free(h->queue_text);
    rq_stop_close(&h->stop);
    rq_url_free(&h->url);
    wipe(h->password);
    free(h->worker);
    for (size_t i = 0; i < RQ_GHOSTS_MAX; i++)
        free(h->ghosts[i].queue);
    for (size_t i = 0; i < RQ_REAP_TIMES_MAX; i++)
        free(h->reap_times[i].queue);
    free(h);
}

renderq_status renderq_create(renderq *h, const char *name)
{
    rq_queue room;
    const rq_queue *queue;
    renderq_status status = rq_enter(h, RQ_ALONE);
    if (status == RENDERQ_OK)
        status = rq_which_queue(h, name, &room, &queue);
    if (status != RENDERQ_OK)
        return status;
    rq_try tries = rq_first_try(h);
    do {
        status = rq_connect(h);
        if (status == RENDERQ_OK)
            status = h->driver->create(h->conn, queue);
        rq_drop_broken(h, status);
    } while (rq_again(h, &tries, &status));
    return status;
}
