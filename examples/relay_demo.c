/* relay_demo.c: messages through two queues and a table, with programs that are killed all the time: run it by
 * `make demo-relay`.
 *
 *     relay_demo [--clean] [URL]
 *
 * It enqueues orders; three of the relay example, with three threads each, book them and send receipts and statements;
 * one of the drain example delivers the receipts to a web service of the demo's own, another one the statements into a
 * folder. All of them are killed at random moments by SIGKILL and started again, one order crashes whoever handles it,
 * and the web service loses replies. At the end relay_check.c counts: every effect exactly once.
 *
 * Without a URL it uses SQLite, in a temporary folder, which --clean removes at the end. A database that is named has
 * no queues and no table of the demo yet, or empty ones. The programs are found in the folder that the variable BIN names.
 * Exit: 0 all is well, 1 something is not. */
#include "relay_demo.h"

#include "booking.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define LEASE       "2"                     /* seconds; real programs have minutes */
#define DELAY       "3600"                  /* of statements: longer than all bookings take on any machine */
#define KILL_MIN_MS 200                     /* from one kill to the next */
#define KILL_MAX_MS 400
#define READY_MS    60000
#define LOOK_MS     200
#define REAP_MS     500
#define STOP_MS     90000       /* a request may wait for the lock for half a minute */
#define DEADLINE_MS 300000

static const char *const queues[] = { INCOMING, RECEIPTS, STATEMENTS };

typedef struct demo {
    char home[PLAY_PATH], logs[PLAY_PATH + 8], files[PLAY_PATH + 8], url[3 * PLAY_PATH + 32], service[64];
    program programs[PROGRAMS];
    renderq *h;
    own_engine engine;
    receiver *receiver;
    int hurried;
    int64_t left;                           /* messages that have not ended, at the last look */
    int idle_kills;                         /* since that changed last */
} demo;

static int queue_failed(const demo *d, const char *what)
{
    printf("%s: %s\n", what, renderq_errmsg(d->h));
    return -1;
}

/* ---- before ----------------------------------------------------------------------------------------- */

static int make_folders(demo *d, const char *url)
{
    if (play_make_folder("renderq-relay", d->home) != 0)
        return -1;
    snprintf(d->logs, sizeof d->logs, "%s/logs", d->home);
    snprintf(d->files, sizeof d->files, "%s/files", d->home);
    if (url == NULL)
        play_sqlite_url(d->home, "relay.db", d->url);
    else
        snprintf(d->url, sizeof d->url, "%s", url);
    d->engine = own_engine_of(d->url);
    return mkdir(d->logs, 0777) != 0 || mkdir(d->files, 0777) != 0 ? -1 : 0;
}

static void count_row(void *arg, const char *const *columns)
{
    (void)columns;
    ++*(int *)arg;
}

static int is_empty(const demo *d)
{
    int rows = 0;
    own_error why;

    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++) {
        renderq_counts c = RENDERQ_INIT(renderq_counts);

        if (renderq_stats(d->h, queues[i], &c) != RENDERQ_OK)
            return queue_failed(d, queues[i]) == 0;
        if (c.scheduled + c.queued + c.processing + c.completed + c.dead_letter + c.cancelled + c.other != 0)
            rows++;
    }
    if (booking_each(d->engine, renderq_native(d->h), count_row, &rows, &why) != 0) {
        printf("%s\n", why.text);
        return 0;
    }
    if (rows > 0)
        printf("the queues %s, %s and %s, or the table Bookings, are not empty: the demo needs a database where they "
               "are\n", INCOMING, RECEIPTS, STATEMENTS);
    return rows == 0;
}

static int make_tables(demo *d)
{
    renderq_options options = RENDERQ_INIT(renderq_options);
    own_error why;

    options.password = getenv("RENDERQ_PASSWORD");
    options.command_s = 1;                  /* what is BUSY for longer is done at the next look */
    if (renderq_open(d->url, &options, &d->h) != RENDERQ_OK)
        return queue_failed(d, "the database");
    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++)
        if (renderq_create(d->h, queues[i]) != RENDERQ_OK)
            return queue_failed(d, queues[i]);
    if (booking_create(d->engine, renderq_native(d->h), &why) != 0) {
        printf("%s\n", why.text);
        return -1;
    }
    return is_empty(d) ? 0 : -1;
}

/* ---- programs --------------------------------------------------------------------------------------- */

/* Before this a program is not there to hear a SIGTERM. */
static int is_ready(const demo *d, const program *p)
{
    return play_count_lines(d->logs, p->name, "ready", "") > p->lives;
}

static void start(demo *d, program *p)
{
    p->lives = play_count_lines(d->logs, p->name, "ready", "");
    p->pid = play_start(d->logs, p->name, p->argv);
    if (p->pid < 0) {
        p->pid = 0;
        p->errors++;
    }
}

static void start_all(demo *d)
{
    static const char *const names[PROGRAMS] = { "relay-1", "relay-2", "relay-3", "drain-http", "drain-files" };

    for (int i = 0; i < PROGRAMS; i++) {
        program *p = &d->programs[i];
        char *relay[] = { "relay", "--lease", LEASE, "--delay", DELAY, d->url, NULL };
        char *drain[] = { "drain", "--lease", LEASE, "--queue", i == 3 ? RECEIPTS : STATEMENTS, d->url,
                          i == 3 ? d->service : d->files, NULL };

        p->name = names[i];
        memcpy(p->argv, i < 3 ? relay : drain, i < 3 ? sizeof relay : sizeof drain);
        start(d, p);
    }
    play_say("three relays with three threads each, and two drains, are at work");
}

/* Sees who has ended: nobody does but who was killed, or whose handler crashed. It is started again, as a service
 * manager would. `how`: WNOHANG, or 0 to wait for its end. */
static void look_after(demo *d, program *p, int how)
{
    int status;

    if (p->pid == 0 || waitpid(p->pid, &status, how) != p->pid)
        return;
    p->pid = 0;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) {
        p->crashed++;
        play_say("%s crashed over the poison", p->name);
    } else if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        play_say("%s ended by itself, with status %#x", p->name, (unsigned)status);
        play_show_log(d->logs, p->name);
        p->errors++;
        return;
    }
    start(d, p);
}

static int see_owner(void *arg, const renderq_job *job)
{
    const char *colon = job->worker != NULL ? strrchr(job->worker, ':') : NULL;

    *(pid_t *)arg = colon != NULL ? (pid_t)strtol(colon + 1, NULL, 10) : 0;
    return 1;
}

/* Any program, or one that has a message in hand just now: its worker's name is HOST:PID. */
static program *choose(demo *d)
{
    renderq_filter filter = RENDERQ_INIT(renderq_filter);
    pid_t owner = 0;

    filter.queue = queues[rand() % 3];
    filter.state = RENDERQ_PROCESSING;
    if (rand() % 2 == 0 && renderq_list(d->h, &filter, see_owner, &owner) == RENDERQ_OK)
        for (int i = 0; i < PROGRAMS; i++)
            if (owner > 0 && d->programs[i].pid == owner)
                return &d->programs[i];
    return &d->programs[rand() % PROGRAMS];
}

/* Not faster than they work: on a slow machine nobody would come to anything. */
static void kill_one(demo *d)
{
    program *p = choose(d);

    if (p->pid == 0 || d->idle_kills == PROGRAMS || kill(p->pid, SIGKILL) != 0)
        return;
    p->killed++;
    d->idle_kills++;
    look_after(d, p, 0);                    /* or it would be taken for one that did not stop when it was told to */
}

static void stop_all(demo *d)
{
    int64_t until = play_now_ms() + READY_MS;

    for (int i = 0; i < PROGRAMS; i++)
        while (d->programs[i].pid > 0 && !is_ready(d, &d->programs[i]) && play_now_ms() < until)
            play_pause_ms(20);
    until = play_now_ms() + STOP_MS;
    for (int i = 0; i < PROGRAMS; i++)
        if (d->programs[i].pid > 0)
            kill(d->programs[i].pid, SIGTERM);
    for (int i = 0; i < PROGRAMS; i++) {
        program *p = &d->programs[i];

        if (p->pid > 0 && !play_stops_cleanly(p->pid, until)) {
            printf("%s did not stop cleanly\n", p->name);
            play_show_log(d->logs, p->name);
            p->errors++;
        }
        p->pid = 0;
    }
}

/* ---- orders ----------------------------------------------------------------------------------------- */

typedef struct texts {
    char name[32], payload[96];
} texts;

static renderq_new_job message(const texts *t)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);

    job.queue = INCOMING;
    job.composition_id = t->name;
    job.payload_json = t->payload;
    job.max_retries = 10;                   /* so many that chance cannot use them up */
    return job;
}

/* Each order takes a while, so that many are in hand when a relay is killed. */
static int enqueue_orders(const demo *d)
{
    static texts orders[ORDERS];
    static const texts poison = { "poison", "{\"account\": \"A-00\", \"cents\": 1, \"crash\": true}" },
                       nonsense = { "nonsense", "{\"account\": \"nobody's\", \"cents\": 1}" };
    renderq_new_job jobs[ORDERS + 2];

    for (int n = 0; n < ORDERS; n++) {
        snprintf(orders[n].name, sizeof orders[n].name, ORDER_NAME, n);
        snprintf(orders[n].payload, sizeof orders[n].payload,
                 "{\"account\": \"" ACCOUNT_NAME "\", \"cents\": %d, \"work_ms\": %d}", ORDER_ACCOUNT(n),
                 ORDER_CENTS(n), 10 + rand() % 20);
        jobs[n] = message(&orders[n]);
    }
    jobs[ORDERS] = message(&nonsense);
    jobs[ORDERS + 1] = message(&poison);
    jobs[ORDERS + 1].max_retries = POISON_RETRIES;
    jobs[ORDERS + 1].priority = 1;
    if (renderq_enqueue_many(d->h, jobs, ORDERS + 2, NULL) != RENDERQ_OK)
        return queue_failed(d, "enqueue");
    play_say("%d orders are enqueued, one that cannot be read, and one that crashes whoever handles it", ORDERS);
    return 0;
}

/* ---- the play --------------------------------------------------------------------------------------- */

/* The statements wait for an hour, to cover what comes meanwhile. The demo has no time: once all is booked, it queues
 * them as an operator can, by a cancel and a retry. What is BUSY is done at the next look. */
static int see_statement(void *arg, const renderq_job *job)
{
    const demo *d = arg;
    int waits = job->state == RENDERQ_SCHEDULED && job->retry_count == 0;
    int cancelled = waits ? renderq_cancel(d->h, STATEMENTS, &job->id) == RENDERQ_OK
                          : job->state == RENDERQ_CANCELLED;

    if (cancelled)
        renderq_retry(d->h, STATEMENTS, &job->id, NULL);
    return 0;
}

static renderq_status hurry(demo *d)
{
    renderq_filter filter = RENDERQ_INIT(renderq_filter);

    if (!d->hurried)
        play_say("everything is booked; the statements are sent now instead of in an hour");
    d->hurried = 1;
    filter.queue = STATEMENTS;
    return renderq_list(d->h, &filter, see_statement, d);
}

/* How many jobs of a queue have not ended. */
static renderq_status count_live(const demo *d, const char *queue, int64_t *live)
{
    renderq_counts c = RENDERQ_INIT(renderq_counts);
    renderq_status status = renderq_stats(d->h, queue, &c);

    *live = c.scheduled + c.queued + c.processing + c.cancelled;    /* cancelled: by hurry(), which was interrupted */
    return status;
}

/* Claims send back what has lost its owner, but only now and then; the demo asks for it, as a schedule would. */
static renderq_status reap(const demo *d)
{
    renderq_status status = RENDERQ_OK;

    for (size_t i = 0; i < sizeof queues / sizeof queues[0] && status == RENDERQ_OK; i++)
        status = renderq_reap(d->h, queues[i], NULL);
    return status;
}

static renderq_status look(demo *d, int64_t *left)
{
    int64_t live[3] = { 0, 0, 0 };
    renderq_status status = RENDERQ_OK;

    for (int i = 0; i < 3 && status == RENDERQ_OK; i++)
        status = count_live(d, queues[i], &live[i]);
    if (status == RENDERQ_OK && live[0] == 0)
        status = hurry(d);
    if (status == RENDERQ_OK) {
        *left = live[0] + live[1] + live[2];
        d->idle_kills = *left == d->left ? d->idle_kills : 0;
        d->left = *left;
    }
    return status;
}

/* Until every message has ended. Returns 0, or -1 when it does not come to its end. */
static int watch(demo *d)
{
    int64_t look_at = 0, reap_at = 0, kill_at = 0, left = 1;

    while (left > 0) {
        renderq_status status = RENDERQ_OK;

        if (play_now_ms() >= reap_at) {
            status = reap(d);
            reap_at = play_now_ms() + REAP_MS;
        }
        if (status == RENDERQ_OK && play_now_ms() >= look_at) {
            status = look(d, &left);
            look_at = play_now_ms() + LOOK_MS;
        }
        if (status != RENDERQ_OK && status != RENDERQ_BUSY)
            return queue_failed(d, renderq_strstatus(status));
        if (play_now_ms() >= kill_at) {
            kill_one(d);
            kill_at = play_now_ms() + KILL_MIN_MS + rand() % (KILL_MAX_MS - KILL_MIN_MS);
        }
        for (int i = 0; i < PROGRAMS; i++) {
            look_after(d, &d->programs[i], WNOHANG);
            if (d->programs[i].errors > 0)
                return -1;
        }
        if (play_is_interrupted() || play_now_ms() > DEADLINE_MS) {
            printf("%s, and there are messages left\n", play_is_interrupted() ? "interrupted" : "the time is over");
            return -1;
        }
        play_pause_ms(10);
    }
    return 0;
}

/* ---- what came of it -------------------------------------------------------------------------------- */

static int count_again(void *arg, const renderq_job *job)
{
    *(int *)arg += job->retry_count > 0;
    return 0;
}

static void print_table(const demo *d)
{
    printf("\n  Queue        Completed  DeadLetter  Tried again\n");
    for (int i = 0; i < 3; i++) {
        renderq_filter filter = RENDERQ_INIT(renderq_filter);
        renderq_counts c = RENDERQ_INIT(renderq_counts);
        int again = 0;

        filter.queue = queues[i];
        renderq_stats(d->h, queues[i], &c);
        renderq_list(d->h, &filter, count_again, &again);
        printf("  %-12s %9d  %10d  %11d\n", queues[i], (int)c.completed, (int)c.dead_letter, again);
    }
    printf("\n  Program      Killed  Crashed\n");
    for (int i = 0; i < PROGRAMS; i++)
        printf("  %-12s %6d  %7d\n", d->programs[i].name, d->programs[i].killed, d->programs[i].crashed);
    printf("\n");
}

static int run(demo *d)
{
    int ended, bad;

    d->receiver = receiver_start();
    if (d->receiver == NULL) {
        printf("the web service cannot be started\n");
        return -1;
    }
    snprintf(d->service, sizeof d->service, "http://127.0.0.1:%d/receipts", receiver_port(d->receiver));
    if (make_tables(d) != 0 || enqueue_orders(d) != 0)
        return -1;
    start_all(d);
    ended = watch(d);
    stop_all(d);
    receiver_stop(d->receiver);
    play_say("all programs have stopped");
    print_table(d);
    if (ended != 0)
        return -1;
    check_relay(d->h, d->engine, d->programs, d->receiver, d->files);
    bad = play_faults();
    for (int i = 0; i < PROGRAMS; i++)
        bad += d->programs[i].errors;
    return bad == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    int clean = argc > 1 && strcmp(argv[1], "--clean") == 0, bad;
    const char *url = argc > 1 + clean ? argv[1 + clean] : NULL;
    static demo d;

    if (argc > 2 + clean || (url != NULL && (own_engine_of(url) == OWN_UNKNOWN || strlen(url) >= sizeof d.url))) {
        fprintf(stderr, "usage: relay_demo [--clean] [URL]\n");
        return 2;
    }
    play_begin();
    srand((unsigned)time(NULL));
    setenv("no_proxy", "127.0.0.1", 1);     /* the web service is on this machine */
    if (make_folders(&d, url) != 0) {
        perror("temporary folder");
        return 1;
    }
    bad = run(&d);
    renderq_close(d.h);
    receiver_free(d.receiver);
    if (clean && play_remove_folder(d.home) != 0)
        perror(d.home);
    else if (!clean)
        printf("\nThe statements are in %s\nThe logs are in       %s\n", d.files, d.logs);
    printf("%s\n", bad == 0 ? "All is well." : "SOMETHING IS WRONG.");
    return bad == 0 ? 0 : 1;
}
