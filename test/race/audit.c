/* audit.c: what every process of the race has: its audit file, its clock, its dice, its connection. */
#include "race.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *const race_steps[STEPS] = {
    "enqueue", "claim",  "start", "renew", "resume", "complete", "fail",    "release",
    "cancel",  "retry",  "reap",  "kill",  "pause",  "continue", "poisoned", "ghost", "broke",
    "dead",
};

/* ---- clock, dice, connection ---- */

int64_t race_now_us(const race *r)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 - r->start_us;
}

int race_phase(const race *r)
{
    return __atomic_load_n(&r->board->phase, __ATOMIC_ACQUIRE);
}

void race_pause(int ms)
{
    struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
    while (nanosleep(&left, &left) != 0)
        continue;
}

void race_pause_until_us(const race *r, int64_t at_us)
{
    at_us += r->start_us;
    struct timespec at = { .tv_sec = at_us / 1000000, .tv_nsec = at_us % 1000000 * 1000 };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
        continue;
}


/* splitmix64 */
static uint64_t dice_roll(dice *d)
{
    uint64_t z = d->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

dice dice_for(const race *r, const char *name)
{
    dice d = { .state = r->seed };
    for (; *name; name++)
        d.state = dice_roll(&d) ^ (unsigned char)*name;
    return d;
}

int dice_within(dice *d, int low, int high)
{
    return low + (int)(dice_roll(d) % (uint64_t)(high - low + 1));
}

bool dice_chance(dice *d, int percent)
{
    return dice_within(d, 1, 100) <= percent;
}

/* ---- the file ---- */

void audit_open(audit *a, const race *r, const char *name)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", r->folder, name);
    a->race = r;
    a->name = name;
    a->call = 0;
    a->len = 0;
    a->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (a->fd < 0) {
        perror(path);
        exit(3);
    }
}

void audit_begin(audit *a)
{
    a->call++;
    a->at_us = race_now_us(a->race);
}

void audit_end(audit *a)
{
    a->at_us = race_now_us(a->race);
}

__attribute__((format(printf, 2, 3))) static void add(audit *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(a->text + a->len, sizeof a->text - a->len, format, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof a->text - a->len) {
        fprintf(stderr, "an audit line is too long\n");
        exit(3);
    }
    a->len += (size_t)len;
}

static const char *or_dash(const char *text)
{
    return text && *text ? text : "-";
}

void audit_ask(audit *a, int item, race_step step, const char *job, const char *lease, int64_t number, int more,
               const char *text)
{
    add(a, "%lld %u.%d ask %s %s %s %lld %d %s\n", (long long)a->at_us, a->call, item, race_steps[step], or_dash(job),
        or_dash(lease), (long long)number, more, or_dash(text));
}

void audit_got(audit *a, int item, race_step step, const char *job, const char *lease, renderq_status status, int of,
               int retries, int max_retries, const char *text)
{
    add(a, "%lld %u.%d got %s %s %s %s %d %d %d %.300s\n", (long long)a->at_us, a->call, item, race_steps[step],
        or_dash(job), or_dash(lease), renderq_strstatus(status), of, retries, max_retries, or_dash(text));
}

/* One write for all: a process that is killed leaves all of the lines or, torn at a page's end, the first of them. */
void audit_write(audit *a)
{
    size_t at = 0;
    while (at < a->len) {
        ssize_t n = write(a->fd, a->text + at, a->len - at);
        if (n < 0) {
            perror("audit file");
            exit(3);
        }
        at += (size_t)n;
    }
    a->len = 0;
}

void audit_aside(audit *a, race_step step, const char *process)
{
    add(a, "%lld %u.0 note %s %s\n", (long long)race_now_us(a->race), a->call, race_steps[step], process);
    audit_write(a);
}

void audit_note(audit *a, race_step step, const char *process)
{
    audit_begin(a);
    audit_aside(a, step, process);
}

/* ---- the calls that all of them make ---- */

#define OPEN_S 120      /* where connections are cut, the first may be */

static void note_line(renderq_log_level level, const char *line, void *arg)
{
    static const char ghost[] = "the reply to a claim ", broke[] = "the connection broke";
    audit *a = arg;
    (void)level;
    if (strncmp(line, ghost, sizeof ghost - 1) == 0)
        audit_aside(a, STEP_GHOST, a->name);
    if (strncmp(line, broke, sizeof broke - 1) == 0)
        audit_aside(a, STEP_BROKE, a->name);
}

renderq *race_connect(const race *r, const char *name, audit *a)
{
    renderq_options options = RENDERQ_INIT(renderq_options);
    options.worker = name;
    options.connect_s = r->faults ? 0 : OPEN_S;
    options.retry_s = 45;
    options.command_s = r->deadline_s;
    options.log = a ? note_line : NULL;
    options.log_arg = a;
    int64_t until_us = race_now_us(r) + OPEN_S * INT64_C(1000000);
    for (;;) {
        renderq *h;
        renderq_status status = renderq_open(r->url, &options, &h);
        if (status == RENDERQ_OK)
            return h;
        if (!r->faults || status == RENDERQ_INVALID || race_now_us(r) > until_us) {
            printf("%s: open: %s: %s\n", name, renderq_strstatus(status), renderq_errmsg(h));
            exit(3);
        }
        renderq_close(h);
    }
}

void race_reap(renderq *h, audit *a)
{
    renderq_reaped counts = RENDERQ_INIT(renderq_reaped);
    audit_begin(a);
    audit_ask(a, 0, STEP_REAP, NULL, NULL, 0, 0, NULL);
    audit_write(a);
    renderq_status status = renderq_reap(h, NULL, &counts);
    audit_end(a);
    audit_got(a, 0, STEP_REAP, NULL, NULL, status, 0, (int)counts.returned, (int)counts.dead,
              status == RENDERQ_OK ? NULL : renderq_errmsg(h));
    audit_write(a);
}
