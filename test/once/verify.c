/* verify.c: the rows of the queues and of the test's own tables, and the logs of the consumers, laid beside each other.
 * The rows prove that every effect is there once; the logs, that no attempt was counted without a reason. */
#include "once.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_FAULTS 20

typedef struct message {
    int sent, incoming, effects, outgoing;      /* rows; each should be one, or none */
    renderq_state state;
    int retries;                                /* that its row counts */
    bool bad_url;
    int failed;                                 /* attempts that failed and were told so */
    int excused;                                /* attempts that may count: their consumer died with it, or was late */
    int committed, committed_retries;           /* commits that answered OK; what their attempt knew of failures */
} message;

typedef struct proof {
    const once_play *play;
    message *messages;
    int groups[ONCE_GROUPS];
    int faults, strangers;
    int budget;                 /* receives that nobody heard of, or that were late: each may have cost one attempt */
    int in_hand, attempts, released, lost, odd;
} proof;

__attribute__((format(printf, 2, 3))) static void fault(proof *p, const char *format, ...)
{
    va_list args;
    if (++p->faults > SHOWN_FAULTS)
        return;
    printf("WRONG: ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
}

static message *find(proof *p, const char *name)
{
    int number = once_number(name);
    if (number >= 0 && number < p->play->messages)
        return &p->messages[number];
    p->strangers++;
    return NULL;
}

/* ---- rows ---- */

static void see_sent(void *arg, const char *const *columns)
{
    message *m = find(arg, columns[0]);
    if (m)
        m->sent++;
}

static void see_effect(void *arg, const char *const *columns)
{
    message *m = find(arg, columns[0]);
    if (m)
        m->effects++;
}

static int see_incoming(void *arg, const renderq_job *job)
{
    char url[ONCE_NAME + 16];
    message *m = find(arg, job->composition_id);
    if (!m)
        return 0;
    snprintf(url, sizeof url, "done:%s", job->composition_id);
    m->incoming++;
    m->state = job->state;
    m->retries = job->retry_count;
    m->bad_url = job->output_url && (strcmp(job->output_url, url) != 0 || job->state != RENDERQ_COMPLETED);
    return 0;
}

static int see_outgoing(void *arg, const renderq_job *job)
{
    proof *p = arg;
    int group;
    char name[ONCE_NAME];
    if (sscanf(job->composition_id, "group-%d", &group) == 1 && group >= 0 && group < ONCE_GROUPS
        && job->state == RENDERQ_SCHEDULED) {
        p->groups[group]++;
        return 0;
    }
    bool after = sscanf(job->composition_id, "after-%63s", name) == 1 && job->state == RENDERQ_QUEUED;
    message *m = find(p, after ? name : "");
    if (m)
        m->outgoing++;
    return 0;
}

static bool read_rows(proof *p, renderq *h, own_engine engine)
{
    renderq_filter in = RENDERQ_INIT(renderq_filter), out = RENDERQ_INIT(renderq_filter);
    in.queue = ONCE_IN;
    out.queue = ONCE_OUT;
    return renderq_list(h, &in, see_incoming, p) == RENDERQ_OK && renderq_list(h, &out, see_outgoing, p) == RENDERQ_OK
           && once_select(engine, renderq_native(h), "Sent", see_sent, p)
           && once_select(engine, renderq_native(h), "Effects", see_effect, p);
}

/* ---- logs ---- */

static bool was_paused(const once_play *play, int64_t from_ms, int64_t to_ms)
{
    for (int i = 0; i < play->n_pauses; i++)
        if (play->pauses[i].from_ms <= to_ms && from_ms <= play->pauses[i].to_ms)
            return true;
    return false;
}

/* What a life is in the middle of. */
typedef struct life {
    int64_t since_ms;
    message *job;               /* received and not ended */
    bool asking;
    int retries;
} life;

/* An attempt that took longer than its lease, or was paused in it, may have lost it, and that counts. The lease began
 * within the receive, so a late one is part of it. So may a job that a receive took and found gone when it came back:
 * nobody hears of that one. */
static bool was_late(const proof *p, const life *l, int64_t now_ms)
{
    return now_ms - l->since_ms >= ONCE_LEASE_S * 1000 - 50 || was_paused(p->play, l->since_ms, now_ms);
}

static void read_end(proof *p, life *l, int64_t now_ms, const char *verdict, const char *status)
{
    message *m = l->job;
    bool ok = strcmp(status, "OK") == 0;
    if (strcmp(verdict, "odd") == 0) {
        p->odd++;
        return;                 /* what comes of it follows */
    }
    m->committed += strcmp(verdict, "committed") == 0;
    if (strcmp(verdict, "committed") == 0)
        m->committed_retries = l->retries;
    m->failed += ok && (strcmp(verdict, "failed") == 0 || strcmp(verdict, "dead") == 0);
    p->released += ok && strcmp(verdict, "released") == 0;
    p->lost += !ok;
    m->excused += !ok;
    if (!ok && !was_late(p, l, now_ms))
        fault(p, "an attempt of %d ms was told LOST", (int)(now_ms - l->since_ms));
    l->job = NULL;
}

static void read_line(proof *p, life *l, const char *line)
{
    long long now_ms;
    char step[16], name[ONCE_NAME] = "", verdict[32] = "", status[32] = "";
    if (sscanf(line, "%lld %15s %63s %31s %31s", &now_ms, step, name, verdict, status) < 2) {
        fault(p, "a line of a log cannot be read: %s", line);
        return;
    }
    bool late = l->asking && was_late(p, l, now_ms);
    p->budget += late;
    l->asking = strcmp(step, "ask") == 0;
    if (strcmp(step, "got") == 0) {
        p->attempts++;
        l->job = find(p, name);
        l->retries = atoi(verdict);
    } else if (strcmp(step, "end") == 0 && l->job) {
        read_end(p, l, now_ms, verdict, status);
        return;
    } else if (strcmp(step, "odd") == 0) {
        p->odd++;
        fault(p, "receive answered %s", name);
    }
    if (!late || !l->job)
        l->since_ms = now_ms;
}

static void read_log(proof *p, const char *path)
{
    char line[256];
    life l = { .job = NULL };
    FILE *from = fopen(path, "r");
    while (from && fgets(line, sizeof line, from))
        read_line(p, &l, line);
    p->budget += l.asking;
    p->in_hand += l.job != NULL;
    if (l.job)
        l.job->excused++;
    if (from)
        fclose(from);
}

static void read_logs(proof *p)
{
    for (int consumer = 1; consumer <= ONCE_CONSUMERS; consumer++)
        for (int n = 1; n <= p->play->lives; n++) {
            char path[512];
            snprintf(path, sizeof path, "%s/consumer-%d.%d", p->play->folder, consumer, n);
            read_log(p, path);
        }
}

/* ---- what must hold ---- */

static void check_rows(proof *p, int number, const char *name)
{
    const message *m = &p->messages[number];
    once_kind kind = once_kind_of(number);
    bool dead = kind == ONCE_BAD || kind == ONCE_POISON;
    renderq_state state = dead ? RENDERQ_DEAD_LETTER : RENDERQ_COMPLETED;
    if (m->sent != 1 || m->incoming != 1)
        fault(p, "%s has %d rows in Sent and %d in the queue", name, m->sent, m->incoming);
    if (m->state != state)
        fault(p, "%s is %s", name, renderq_strstate(m->state));
    if (m->effects != !dead || m->outgoing != !dead)
        fault(p, "%s has %d effects and %d follow-ups", name, m->effects, m->outgoing);
    if (m->bad_url)
        fault(p, "%s has an output URL of something else", name);
    if (kind == ONCE_POISON && m->retries != ONCE_POISON_RETRIES + 1)
        fault(p, "%s died after %d attempts instead of %d", name, m->retries, ONCE_POISON_RETRIES + 1);
    if (kind == ONCE_FAILING && m->retries < 1)
        fault(p, "%s counts no failure", name);
}

static void check_counts(proof *p, int number, const char *name)
{
    const message *m = &p->messages[number];
    if (m->committed > 1 || (m->committed == 1 && (m->effects != 1 || m->retries != m->committed_retries)))
        fault(p, "%s was committed %d times, last with %d failures; its row counts %d", name, m->committed,
              m->committed_retries, m->retries);
    if (m->retries < m->failed)
        fault(p, "%s failed %d times, and its row counts %d", name, m->failed, m->retries);
    int unexplained = m->retries - m->failed - m->excused;
    if (unexplained > 0)
        p->budget -= unexplained;
}

static void print_summary(const proof *p)
{
    int completed = 0, dead = 0, again = 0;
    for (int i = 0; i < p->play->messages; i++) {
        completed += p->messages[i].state == RENDERQ_COMPLETED;
        dead += p->messages[i].state == RENDERQ_DEAD_LETTER;
        again += p->messages[i].retries > 0;
    }
    printf("    %d messages: %d Completed, %d DeadLetter; %d came round again\n", p->play->messages, completed, dead,
           again);
    printf("    %d attempts, %d given back, %d answers LOST; %d consumers died with a message in hand\n", p->attempts,
           p->released, p->lost, p->in_hand);
}

bool verify(const once_play *play, renderq *h, own_engine engine)
{
    proof p = { .play = play, .messages = calloc((size_t)play->messages, sizeof(message)) };
    if (!p.messages || !read_rows(&p, h, engine)) {
        printf("WRONG: the rows cannot be read: %s\n", renderq_errmsg(h));
        free(p.messages);
        return false;
    }
    read_logs(&p);
    for (int i = 0; i < play->messages; i++) {
        char name[ONCE_NAME];
        once_name(i, name);
        check_rows(&p, i, name);
        check_counts(&p, i, name);
    }
    for (int i = 0; i < ONCE_GROUPS; i++)
        if (p.groups[i] != 1)
            fault(&p, "group %d has %d follow-ups", i, p.groups[i]);
    if (p.budget < 0)
        fault(&p, "%d attempts were counted, and nobody died or was late in them", -p.budget);
    if (p.strangers)
        fault(&p, "%d rows are nobody's", p.strangers);
    if (p.odd)
        fault(&p, "%d answers that nobody expects", p.odd);
    if (p.in_hand == 0)
        fault(&p, "nobody died with a message in hand, so nothing is proven");
    print_summary(&p);
    if (p.faults > SHOWN_FAULTS)
        printf("    and %d more that are wrong\n", p.faults - SHOWN_FAULTS);
    free(p.messages);
    return p.faults == 0;
}
