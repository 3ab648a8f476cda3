/* consumer.c: the consumers and the producer of the test. Whatever they do, they may be killed or paused in it. */
#include "once.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH 10

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

/* The director has it blocked until then, so that it ends nobody who cannot hear it yet. */
static void hear_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal };
    sigset_t term;
    sigaction(SIGTERM, &action, NULL);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &term, NULL);
}

/* ---- the producer ---- */

static void mark(void *arg, const char *const *columns)
{
    int number = once_number(columns[0]);
    if (number >= 0)
        ((bool *)arg)[number] = true;
}

static renderq_status send_one(renderq *h, own_engine engine, int number)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    char name[ONCE_NAME], payload[ONCE_NAME + 16];
    once_kind kind = once_kind_of(number);
    once_name(number, name);
    snprintf(payload, sizeof payload, "{\"name\": \"%s\"}", name);
    job.queue = ONCE_IN;
    job.composition_id = name;
    job.payload_json = payload;
    job.max_retries = kind == ONCE_POISON ? ONCE_POISON_RETRIES : ONCE_RETRIES;
    job.priority = kind == ONCE_POISON;
    return once_insert(engine, renderq_native(h), "Sent", name) ? renderq_enqueue(h, &job, NULL) : RENDERQ_ABORTED;
}

/* The row of the test's own and the message that it stands for, all or none. What earlier lives sent is in Sent. */
static renderq_status send_batch(renderq *h, own_engine engine, bool *sent, int messages)
{
    int numbers[BATCH], n = 0;
    for (int i = 0; i < messages && n < BATCH; i++)
        if (!sent[i])
            numbers[n++] = i;
    if (n == 0)
        return RENDERQ_EMPTY;
    renderq_status status = renderq_begin(h);
    for (int i = 0; i < n && status == RENDERQ_OK; i++)
        status = send_one(h, engine, numbers[i]);
    if (status == RENDERQ_OK)
        status = renderq_commit(h);
    else
        renderq_rollback(h);
    for (int i = 0; i < n && status == RENDERQ_OK; i++)
        sent[numbers[i]] = true;
    return status;
}

int producer_main(const char *url, int messages)
{
    own_engine engine = own_engine_of(url);
    renderq *h = once_connect(url, "producer");
    bool *sent = calloc((size_t)messages, sizeof *sent);
    hear_signals();
    if (!sent || !once_select(engine, renderq_native(h), "Sent", mark, sent))
        return 5;
    renderq_status status = RENDERQ_OK;
    while (!stopping && (status == RENDERQ_OK || status == RENDERQ_BUSY)) {
        status = send_batch(h, engine, sent, messages);
        once_pause_ms(20);
    }
    if (status != RENDERQ_EMPTY)
        fprintf(stderr, "producer: %s: %s\n", renderq_strstatus(status), renderq_errmsg(h));
    renderq_close(h);
    free(sent);
    return status == RENDERQ_EMPTY ? 0 : 5;
}

/* ---- a consumer ---- */

typedef struct consumer {
    renderq *h;
    own_engine engine;
    uint64_t dice;
    int log;
} consumer;

/* A line and its write: what was begun before a kill is in the file. */
__attribute__((format(printf, 2, 3))) static void note(const consumer *c, const char *format, ...)
{
    char line[200];
    int len = snprintf(line, sizeof line, "%lld ", (long long)once_now_ms());
    va_list args;
    va_start(args, format);
    len += vsnprintf(line + len, sizeof line - (size_t)len - 1, format, args);
    va_end(args);
    line[len++] = '\n';
    if (write(c->log, line, (size_t)len) != len)
        abort();
}

/* Two follow-ups, sometimes in one call: one of the message's own, and one that its whole group has in common, whose
 * key is held to the end. */
static renderq_status follow_up(consumer *c, const char *name)
{
    renderq_new_job jobs[2] = { RENDERQ_INIT(renderq_new_job), RENDERQ_INIT(renderq_new_job) };
    char after[ONCE_NAME + 8], group[ONCE_NAME];
    snprintf(after, sizeof after, "after-%s", name);
    snprintf(group, sizeof group, "group-%d", once_number(name) % ONCE_GROUPS);
    jobs[0].queue = jobs[1].queue = ONCE_OUT;
    jobs[0].payload_json = jobs[1].payload_json = "{}";
    jobs[0].composition_id = after;
    jobs[1].composition_id = jobs[1].dedup_key = group;
    jobs[1].delay_ms = 3600000;
    if (once_dice(&c->dice, 1, 3) == 1)
        return renderq_enqueue_many(c->h, jobs, 2, NULL);
    renderq_status status = renderq_enqueue(c->h, &jobs[0], NULL);
    if (status == RENDERQ_OK)
        status = renderq_enqueue(c->h, &jobs[1], NULL);
    return status == RENDERQ_DUPLICATE ? RENDERQ_OK : status;
}

/* Everything that belongs to the message. *aborted: a statement of ours failed and was ignored, and the server has
 * ended the transaction for it, as it may. */
static renderq_status handle(consumer *c, const renderq_job *job, bool *aborted)
{
    char url[ONCE_NAME + 16];
    if (!once_insert(c->engine, renderq_native(c->h), "Effects", job->composition_id))
        return RENDERQ_FAILED;
    once_pause_ms(once_dice(&c->dice, 0, 6));
    bool broken = once_dice(&c->dice, 1, 40) == 1
                  && !once_insert(c->engine, renderq_native(c->h), "NoSuchTable", job->composition_id);
    renderq_status status = follow_up(c, job->composition_id);
    *aborted = broken && status == RENDERQ_ABORTED;
    snprintf(url, sizeof url, "done:%s", job->composition_id);
    if (status == RENDERQ_OK && once_dice(&c->dice, 1, 5) == 1)
        status = renderq_complete(c->h, job, url);
    return status;
}

/* Gives up after a rollback, by fail or by release, and asks again while others keep the database from it. Sometimes it
 * stops in between, where a pause from outside hardly ever hits, and finds that somebody else has the message. */
static void give_up(consumer *c, const renderq_job *job, const char *verdict, int64_t retry_ms)
{
    renderq_status status = renderq_rollback(c->h);
    bool ok = status == RENDERQ_OK;
    if (once_dice(&c->dice, 1, 8) == 1)
        raise(SIGSTOP);
    while (ok) {
        status = strcmp(verdict, "released") == 0 ? renderq_release(c->h, job, 0)
                                                  : renderq_fail(c->h, job, verdict, retry_ms);
        if (status != RENDERQ_BUSY)
            break;
    }
    bool odd = !ok || (status != RENDERQ_OK && status != RENDERQ_LOST);
    note(c, "end %s %s %s", job->composition_id, odd ? "odd" : verdict, renderq_strstatus(status));
}

static void end_well(consumer *c, const renderq_job *job)
{
    renderq_status status = renderq_commit(c->h);
    note(c, "end %s %s %s", job->composition_id, status == RENDERQ_OK ? "committed" : "odd", renderq_strstatus(status));
}

static void consume(consumer *c, const renderq_job *job)
{
    bool aborted = false;
    note(c, "got %s %d", job->composition_id, job->retry_count);
    renderq_status status = handle(c, job, &aborted);
    once_kind kind = once_kind_of(once_number(job->composition_id));
    if (kind == ONCE_POISON)
        kill(getpid(), SIGKILL);
    if (status != RENDERQ_OK && !aborted)
        note(c, "end %s odd %s", job->composition_id, renderq_strstatus(status));
    if (kind == ONCE_BAD)
        give_up(c, job, "dead", RENDERQ_NEVER);
    else if (kind == ONCE_FAILING && job->retry_count == 0)
        give_up(c, job, "failed", 0);
    else if (status != RENDERQ_OK || once_dice(&c->dice, 1, 30) == 1)
        give_up(c, job, "released", 0);
    else
        end_well(c, job);
}

int consumer_main(const char *url, const char *name, const char *log)
{
    consumer c = { .engine = own_engine_of(url), .dice = (uint64_t)getpid() ^ (uint64_t)once_now_ms() << 20 };
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    int64_t reap_at_ms = 0;
    int empty = 0;
    hear_signals();
    c.log = open(log, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0666);
    c.h = once_connect(url, name);
    options.queue = ONCE_IN;
    options.lease_s = ONCE_LEASE_S;
    options.no_reap = 1;
    while (!stopping && c.log >= 0) {
        renderq_job *job = NULL;
        note(&c, "ask");
        renderq_status status = renderq_receive(c.h, &options, &job);
        if (status == RENDERQ_OK)
            consume(&c, job);
        else
            note(&c, "%s %s", status == RENDERQ_EMPTY || status == RENDERQ_BUSY ? "none" : "odd",
                 renderq_strstatus(status));
        renderq_job_free(job);
        empty = status == RENDERQ_OK ? 0 : empty + 1;
        if (empty >= 2)
            once_pause_ms(20);
        if (once_now_ms() >= reap_at_ms) {
            renderq_reap(c.h, ONCE_IN, NULL);
            reap_at_ms = once_now_ms() + once_dice(&c.dice, 200, 400);
        }
    }
    renderq_close(c.h);
    return c.log >= 0 ? 0 : 5;
}
