/* main.c: renderq-controller: starts the threads, waits for a signal, stops them in order. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "guard.h"
#include "http.h"
#include "log.h"
#include "owner.h"
#include "service.h"

#define RETRY_S        5                /* how long a lost link is tried again within a call */
#define CONNECT_S      5
#define STOP_ANSWERS_MS 10000           /* what is in flight at a stop has so long */
#define STOP_CALLS_MS   15000           /* ... and the database's calls, before they are interrupted */

/* ---- the database ---- */

static void on_library_log(renderq_log_level level, const char *text, void *arg)
{
    (void)arg;
    if (level <= RENDERQ_LOG_WARNING)
        say("%s", text);
}

renderq_status service_open(const service *s, int command_s, renderq **h)
{
    char host[65] = "localhost", worker[RENDERQ_WORKER_MAX];
    renderq_options options = RENDERQ_INIT(renderq_options);
    gethostname(host, sizeof host - 1);
    snprintf(worker, sizeof worker, SERVICE_WORKER "%s:%ld", host, (long)getpid());
    options.worker = worker;
    options.password = s->o.password;
    options.connect_s = CONNECT_S;
    options.command_s = command_s;
    options.retry_s = RETRY_S;
    options.log = on_library_log;
    return renderq_open(s->o.url, &options, h);
}

bool service_output_fits(const service *s, const char *url, char *why, size_t size)
{
    return outputs_check(&s->outputs, url, why, size) != OUTPUT_REFUSED;
}

/* Whether a queue is there; makes it with --create. A database that is away now may be back later. */
static renderq_status check_queue(const service *s, renderq *h, const char *queue)
{
    static const renderq_id none = { "00000000-0000-0000-0000-000000000000" };
    renderq_job *job = NULL;
    renderq_status status = s->o.create ? renderq_create(h, queue) : RENDERQ_OK;
    if (status == RENDERQ_OK)
        status = renderq_get(h, queue, &none, &job);
    renderq_job_free(job);
    return status == RENDERQ_EMPTY ? RENDERQ_OK : status;
}

static bool may_come_back(renderq_status status)
{
    return status == RENDERQ_DISCONNECTED || status == RENDERQ_BUSY || status == RENDERQ_UNCERTAIN;
}

/* False: what is wrong will not go away by itself, and has been said. */
static bool check_database(const service *s)
{
    renderq *h = NULL;
    renderq_status status = service_open(s, CONNECT_S, &h);
    if (status == RENDERQ_SCHEMA && s->o.create)
        status = RENDERQ_OK;            /* a file that renderq_create() makes */
    for (size_t i = 0; i < s->o.n_queues && status == RENDERQ_OK; i++)
        status = check_queue(s, h, s->o.queues[i]);
    if (status != RENDERQ_OK)
        say("%s: %s%s", renderq_strstatus(status), renderq_errmsg(h),
            may_come_back(status)       ? "; the service starts, and tries again"
            : status == RENDERQ_SCHEMA ? " (or start with --create)"
                                       : "");
    renderq_close(h);
    return status == RENDERQ_OK || may_come_back(status);
}

/* ---- start ---- */

static void start_thread(bool started)
{
    if (started)
        return;
    say("a thread cannot be started");
    _exit(1);
}

static void start_threads(service *s)
{
    reader_init(&s->reader, s);
    scan_init(&s->scan, s);
    for (size_t i = 0; i < s->o.n_queues; i++)
        clerk_init(&s->clerks[i], s, s->o.queues[i]);
    for (size_t i = 0; i < s->o.n_queues; i++)
        start_thread(clerk_start(&s->clerks[i]));
    start_thread(reader_start(&s->reader));
    start_thread(scan_start(&s->scan));
}

static void warn(const service *s)
{
    if (!s->o.loopback && !s->o.tls_cert)
        say("warning: listening on %s without TLS (--tls-cert, --tls-key): tokens and jobs can be read on the way",
            s->o.address);
    if (s->o.outputs)
        return;
    say("no --outputs: no files are looked for, and jobs are only done when a worker says so");
}

/* ---- stop ---- */

static void sleep_ms(int64_t ms)
{
    struct timespec pause = { .tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000 };
    nanosleep(&pause, NULL);
}

/* A call that hangs on a database that is away must not keep the process. */
static void *interrupt_late(void *arg)
{
    service *s = arg;
    for (;;) {
        sleep_ms(STOP_CALLS_MS);
        for (size_t i = 0; i < s->o.n_queues; i++)
            clerk_interrupt(&s->clerks[i]);
        reader_interrupt(&s->reader);
    }
    return NULL;
}

static void stop_threads(service *s)
{
    scan_stop(&s->scan);
    for (size_t i = 0; i < s->o.n_queues; i++)
        clerk_stop(&s->clerks[i]);
    reader_stop(&s->reader);
    for (size_t i = 0; i < s->o.n_queues; i++)
        clerk_join(&s->clerks[i]);
    reader_join(&s->reader);
    scan_join(&s->scan);
}

static void stop(service *s, http *h)
{
    pthread_t late;
    __atomic_store_n(&s->stopping, true, __ATOMIC_RELAXED);
    say("stopping");
    http_quiesce(h);
    scan_stop(&s->scan);
    bool is_late = pthread_create(&late, NULL, interrupt_late, s) == 0;
    for (int64_t until = clock_ms() + STOP_ANSWERS_MS; http_pending(h) > 0 && clock_ms() < until; sleep_ms(10)) {
        for (size_t i = 0; i < s->o.n_queues; i++)
            tray_ring(&s->clerks[i].tray);      /* those who wait hear that there is no job */
        http_sweep(h);
    }
    stop_threads(s);
    http_stop(h);
    if (is_late) {
        pthread_cancel(late);
        pthread_join(late, NULL);
    }
    say("stopped");
}

static void wait_for_signal(const sigset_t *signals, http *h)
{
    static const struct timespec second = { .tv_sec = 1 };
    while (sigtimedwait(signals, NULL, &second) < 0)
        http_sweep(h);
}

static void block_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, signals, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static int serve(service *s)
{
    char why[1024];
    sigset_t signals;
    block_signals(&signals);
    if (!outputs_open(&s->outputs, s->o.outputs, why, sizeof why) || !owner_take(s->o.url, why, sizeof why)) {
        say("%s", why);
        return 1;
    }
    if (!check_database(s))
        return 1;
    guard_random(s->form_token);
    start_threads(s);
    http *h = http_start(s, why, sizeof why);
    if (!h) {
        say("%s", why);
        stop_threads(s);
        return 1;
    }
    warn(s);
    say("listening on %s", http_url(h));
    wait_for_signal(&signals, h);
    stop(s, h);
    return 0;
}

int main(int argc, char **argv)
{
    static service s;
    int code;
    if (settings_read(&s.o, argc, argv, &code)) {
        code = serve(&s);
        outputs_close(&s.outputs);
    }
    settings_free(&s.o);
    return code;
}
