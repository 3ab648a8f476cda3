/* relay.c: takes messages from one queue, books each in a table of its own, and puts what follows from it into two
 * other queues: all of it in one transaction a message, so that it happens once, or not at all.
 *
 *     relay [OPTION]... URL
 *
 * Several threads do this, each with a connection of its own, and any number of relays may run. SIGTERM and SIGINT stop
 * it cleanly: what a thread has in hand is finished first. What a message means is in booking.c, and what sends the
 * follow-ups on is drain.c. The password may be in the variable RENDERQ_PASSWORD.
 * Exit: 0 stopped, 1 the queue cannot be used, 2 wrong usage. */
#include <renderq.h>

#include "booking.h"

#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 64
#define IDLE_MS     100                     /* the pause after two empty reads in a row */
#define TROUBLE_MS  1000

static const char usage[] =
    "usage: relay [OPTION]... URL\n"
    "  -f, --from QUEUE        the messages (Incoming)\n"
    "  -r, --receipts QUEUE    a receipt for each of them (Receipts)\n"
    "  -s, --statements QUEUE  a statement for each account (Statements)\n"
    "  -t, --threads NUMBER    1 to 64 (3)\n"
    "  -d, --delay SECONDS     how long a statement waits for more bookings (60)\n"
    "  -l, --lease SECONDS     how long a message stays ours when we fall silent (60)\n"
    "  -c, --create            make the queues and the table Bookings first\n";

typedef struct settings {
    const char *from, *receipts, *statements;
    own_engine engine;
    int delay_s, lease_s;
} settings;

typedef struct relay {                      /* a thread and its connection */
    const settings *with;
    renderq *h;
    pthread_t thread;
    int code;
} relay;

static int stopping;                        /* read and written atomically */

static int is_stopping(void)
{
    return __atomic_load_n(&stopping, __ATOMIC_ACQUIRE);
}

static void pause_ms(int ms)
{
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

    nanosleep(&t, NULL);
}

/* ---- what follows from a message -------------------------------------------------------------------- */

/* One for each message. Its receiver may be away for a while, so it is tried for long. */
static renderq_status send_receipt(relay *r, const renderq_job *job, const booking *b)
{
    renderq_new_job receipt = RENDERQ_INIT(renderq_new_job);
    char json[200];

    snprintf(json, sizeof json, "{\"message\": \"%s\", \"account\": \"%s\", \"cents\": %lld}", job->id.text,
             b->account, (long long)b->cents);
    receipt.queue = r->with->receipts;
    receipt.composition_id = job->composition_id;
    receipt.payload_json = json;
    receipt.max_retries = 10;
    return renderq_enqueue(r->h, &receipt, NULL);
}

/* One for all the bookings of a while: the first of them asks for it, and the key tells the others that it has. */
static renderq_status ask_for_statement(relay *r, const booking *b)
{
    renderq_new_job statement = RENDERQ_INIT(renderq_new_job);
    char key[64], json[100];
    renderq_status status;

    snprintf(key, sizeof key, "statement-%s", b->account);
    snprintf(json, sizeof json, "{\"account\": \"%s\"}", b->account);
    statement.queue = r->with->statements;
    statement.composition_id = key;
    statement.dedup_key = key;
    statement.payload_json = json;
    statement.max_retries = 10;
    statement.delay_ms = r->with->delay_s * 1000LL;
    status = renderq_enqueue(r->h, &statement, NULL);
    return status == RENDERQ_DUPLICATE ? RENDERQ_OK : status;
}

/* ---- one message ------------------------------------------------------------------------------------ */

typedef enum verdict { DONE, BAD, FAILED } verdict;

/* All that is done here is part of the transaction, which holds locks: on SQLite no other connection can write
 * meanwhile. So what takes long, or asks somebody else, belongs in front of it, or into a follow-up. */
static verdict handle(relay *r, const renderq_job *job, own_error *why)
{
    booking b;
    renderq_status status;

    if (booking_parse(job->payload_json, job->payload_len, &b, why) != 0)
        return BAD;
    if (booking_add(r->with->engine, renderq_native(r->h), job->id.text, &b, why) != 0)
        return FAILED;
    pause_ms(b.work_ms);
    if (b.crash)
        abort();
    status = send_receipt(r, job, &b);
    if (status == RENDERQ_OK)
        status = ask_for_statement(r, &b);
    if (status == RENDERQ_OK)
        return DONE;
    snprintf(why->text, sizeof why->text, "%s: %s", renderq_strstatus(status), renderq_errmsg(r->h));
    return FAILED;
}

/* The transaction is over, and nothing of it has happened, but the lease still stands. Whatever the reason was, it
 * counts, so that no message can go round for ever. */
static void give_up(relay *r, const renderq_job *job, verdict v, const char *why)
{
    renderq_status status;

    do {                                    /* BUSY says that nothing happened yet */
        status = renderq_fail(r->h, job, why, v == BAD ? RENDERQ_NEVER : RENDERQ_BACKOFF);
    } while (status == RENDERQ_BUSY && renderq_lease_left_ms(job) > 0);
    fprintf(stderr, "%s: failed: %s\n", job->composition_id, why);
    if (status != RENDERQ_OK)               /* the lease runs out, and the message comes round again */
        fprintf(stderr, "%s: fail: %s: %s\n", job->composition_id, renderq_strstatus(status), renderq_errmsg(r->h));
}

static void relay_one(relay *r, const renderq_job *job)
{
    own_error why = { "" };
    verdict v = handle(r, job, &why);
    renderq_status status = v == DONE ? renderq_commit(r->h) : renderq_rollback(r->h);

    if (v == DONE && status != RENDERQ_OK)
        snprintf(why.text, sizeof why.text, "commit: %s: %s", renderq_strstatus(status), renderq_errmsg(r->h));
    if (v == DONE && status == RENDERQ_OK)
        printf("%s: done, attempt %d\n", job->composition_id, job->retry_count + 1);
    else if (v == DONE && status == RENDERQ_UNCERTAIN)     /* it is done, or its lease runs out: either is right */
        fprintf(stderr, "%s: %s\n", job->composition_id, why.text);
    else
        give_up(r, job, v == DONE ? FAILED : v, why.text);
}

/* ---- the threads ------------------------------------------------------------------------------------ */

/* Until it is told to stop. Returns the exit code. */
static int work(relay *r)
{
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    int empty = 0;

    options.queue = r->with->from;
    options.lease_s = r->with->lease_s;
    while (!is_stopping()) {
        renderq_job *job = NULL;
        renderq_status status = renderq_receive(r->h, &options, &job);

        if (status == RENDERQ_OK)
            relay_one(r, job);
        renderq_job_free(job);
        empty = status == RENDERQ_EMPTY ? empty + 1 : 0;
        if (empty >= 2)
            pause_ms(IDLE_MS);
        if (status == RENDERQ_OK || status == RENDERQ_EMPTY)
            continue;
        fprintf(stderr, "receive: %s: %s\n", renderq_strstatus(status), renderq_errmsg(r->h));
        if (status != RENDERQ_BUSY && status != RENDERQ_UNCERTAIN && status != RENDERQ_DISCONNECTED)
            return 1;
        pause_ms(TROUBLE_MS);               /* the database will be back */
    }
    return 0;
}

static void *thread_main(void *arg)
{
    relay *r = arg;

    r->code = work(r);
    if (r->code != 0)
        kill(getpid(), SIGTERM);            /* the others are to stop, too */
    return NULL;
}

static int open_one(relay *r, const char *url)
{
    renderq_options options = RENDERQ_INIT(renderq_options);
    renderq_status status;

    options.password = getenv("RENDERQ_PASSWORD");
    status = renderq_open(url, &options, &r->h);
    if (status != RENDERQ_OK)
        fprintf(stderr, "%s: %s\n", renderq_strstatus(status), renderq_errmsg(r->h));
    return status == RENDERQ_OK ? 0 : -1;
}

static int create(relay *r)
{
    const char *queues[] = { r->with->from, r->with->receipts, r->with->statements };
    own_error why = { "" };

    for (int i = 0; i < 3; i++)
        if (renderq_create(r->h, queues[i]) != RENDERQ_OK) {
            fprintf(stderr, "%s: %s\n", queues[i], renderq_errmsg(r->h));
            return -1;
        }
    if (booking_create(r->with->engine, renderq_native(r->h), &why) == 0)
        return 0;
    fprintf(stderr, "the table of bookings: %s\n", why.text);
    return -1;
}

/* Works until a signal comes. All threads have the signals blocked, and this one waits for them. */
static int run(relay *relays, int threads, const sigset_t *signals)
{
    int number, started = 0, code = 0;

    printf("ready\n");
    while (started < threads && pthread_create(&relays[started].thread, NULL, thread_main, &relays[started]) == 0)
        started++;
    if (started == threads)
        sigwait(signals, &number);
    else
        code = 1;
    __atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < started; i++) {
        pthread_join(relays[i].thread, NULL);
        code |= relays[i].code;
    }
    return code;
}

static int number_within(const char *text, int high)
{
    char *end;
    long number = strtol(text, &end, 10);

    return *end == '\0' && number >= 1 && number <= high ? (int)number : 0;
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
        { "from", required_argument, NULL, 'f' },
        { "receipts", required_argument, NULL, 'r' },
        { "statements", required_argument, NULL, 's' },
        { "threads", required_argument, NULL, 't' },
        { "delay", required_argument, NULL, 'd' },
        { "lease", required_argument, NULL, 'l' },
        { "create", no_argument, NULL, 'c' },
        { NULL, 0, NULL, 0 },
    };
    settings with = { .from = "Incoming", .receipts = "Receipts", .statements = "Statements", .delay_s = 60,
                      .lease_s = 60 };
    relay relays[THREADS_MAX];
    sigset_t signals;
    int option, threads = 3, make = 0, bad = 0, opened = 0;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    while ((option = getopt_long(argc, argv, "f:r:s:t:d:l:c", long_options, NULL)) != -1) {
        switch (option) {
        case 'f': with.from = optarg; break;
        case 'r': with.receipts = optarg; break;
        case 's': with.statements = optarg; break;
        case 't': threads = number_within(optarg, THREADS_MAX); break;
        case 'd': with.delay_s = number_within(optarg, 86400); break;
        case 'l': with.lease_s = number_within(optarg, RENDERQ_LEASE_MAX_S); break;
        case 'c': make = 1; break;
        default: bad = 1; break;
        }
    }
    with.engine = argc == optind + 1 ? own_engine_of(argv[optind]) : OWN_UNKNOWN;
    if (bad || threads == 0 || with.delay_s == 0 || with.lease_s == 0 || with.engine == OWN_UNKNOWN) {
        fputs(usage, stderr);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);       /* a log should be complete up to a crash */

    while (opened < threads && !bad) {
        relays[opened] = (relay){ .with = &with };
        bad = open_one(&relays[opened++], argv[optind]) != 0;
    }
    if (!bad && make)
        bad = create(&relays[0]) != 0;
    if (!bad)
        bad = run(relays, threads, &signals) != 0;
    while (opened > 0)
        renderq_close(relays[--opened].h);
    return bad ? 1 : 0;
}
