/* stats.c: renderq stats: how the queue stands, once or again and again. */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "json.h"
#include "signals.h"
#include "text.h"

const char help_stats[] =
    "usage: renderq stats [--watch [--interval DURATION]]\n"
    "\n"
    "Counts the jobs in each state, and says how long the oldest one waits, how many\n"
    "leases have run out without being sent back yet, and how many jobs were done in\n"
    "the last 1, 5 and 15 minutes. It delays nobody.\n"
    "\n"
    "  --watch               go on until it is interrupted: on a terminal the table\n"
    "                        is drawn anew, elsewhere a line is added (with --json\n"
    "                        an object)\n"
    "  --interval DURATION   how often (2s)\n";

enum { WATCH = 256, INTERVAL };

#define INTERVAL_MS 2000

/* ---- forms ---- */

typedef struct count {
    const char *title, *key;
    int64_t value;
} count;

#define COUNTS 12

static void counts_of(const renderq_counts *from, count to[COUNTS])
{
    const count all[COUNTS] = {
        { "scheduled", "scheduled", from->scheduled },
        { "queued", "queued", from->queued },
        { "processing", "processing", from->processing },
        { "completed", "completed", from->completed },
        { "dead letters", "dead_letter", from->dead_letter },
        { "cancelled", "cancelled", from->cancelled },
        { "other states", "other", from->other },
        { "oldest queued", "oldest_queued_ms", from->oldest_queued_ms },
        { "leases run out", "run_out", from->run_out },
        { "done in 1 min", "completed_1m", from->completed_1m },
        { "done in 5 min", "completed_5m", from->completed_5m },
        { "done in 15 min", "completed_15m", from->completed_15m },
    };
    memcpy(to, all, sizeof all);
}

static json_t *json_counts(const char *name, const renderq_counts *counts, int64_t at_ms)
{
    count all[COUNTS];
    counts_of(counts, all);
    json_t *object = json_object();
    if (at_ms)
        json_object_set_new(object, "at", json_time(at_ms));
    json_object_set_new(object, "queue", json_text(name));
    for (size_t i = 0; i < COUNTS; i++)
        json_object_set_new(object, all[i].key, json_integer(all[i].value));
    return object;
}

static void print_line(const renderq_counts *counts, int64_t at_ms)
{
    count all[COUNTS];
    char at[TIME_SIZE];
    counts_of(counts, all);
    fputs(time_text(at_ms, at), stdout);
    for (size_t i = 0; i < COUNTS; i++)
        printf(" %s=%" PRId64, all[i].key, all[i].value);
    putchar('\n');
}

static void print_table(const char *name, const renderq_counts *counts, const char *clear, size_t rows)
{
    count all[COUNTS];
    char *clean = text_clean(name), oldest[DURATION_SIZE];
    size_t columns = text_columns();
    counts_of(counts, all);
    text_print(clean, columns ? columns : SIZE_MAX / 2);
    fputs(clear, stdout);
    free(clean);
    for (size_t i = 0, shown = 1; i < COUNTS && (rows == 0 || shown + 1 < rows); i++) {
        bool is_age = strcmp(all[i].key, "oldest_queued_ms") == 0;
        if (strcmp(all[i].key, "other") == 0 && all[i].value == 0)
            continue;
        putchar('\n');
        if (is_age)
            printf("%-14s  %10s", all[i].title, all[i].value ? duration_text(all[i].value, oldest) : "-");
        else
            printf("%-14s  %10" PRId64, all[i].title, all[i].value);
        fputs(clear, stdout);
        shown++;
    }
    putchar('\n');
}

/* ---- once and again ---- */

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void show(const cli *c, const char *name, const renderq_counts *counts, bool again, bool first)
{
    bool draws = again && !c->json && isatty(STDOUT_FILENO);
    if (c->json)
        json_print(json_counts(name, counts, again ? now_ms() : 0));
    else if (again && !draws)
        print_line(counts, now_ms());
    else if (draws)
        fputs(first ? "\033[H\033[2J" : "\033[H", stdout);
    if (!c->json && (draws || !again))
        print_table(name, counts, draws ? "\033[K" : "", draws ? terminal_rows(STDOUT_FILENO) : 0);
    if (draws)
        fputs("\033[J", stdout);
    fflush(stdout);
}

/* A database that is away for a while does not end a watch. */
static bool passes(renderq_status status)
{
    return status == RENDERQ_BUSY || status == RENDERQ_DISCONNECTED || status == RENDERQ_UNCERTAIN
           || status == RENDERQ_INTERRUPTED;
}

static exit_code watch(cli *c, const char *name, int64_t interval_ms)
{
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    struct timespec pause = timespec_of(interval_ms);
    catch_signals(c->h);
    for (bool first = true; stops_asked() == 0 && !ferror(stdout); first = false) {
        renderq_status status = renderq_stats(c->h, c->queue, &counts);
        if (status == RENDERQ_OK)
            show(c, name, &counts, true, first);
        else if (stops_asked() == 0)
            complain_status(c, status);
        if (status != RENDERQ_OK && !passes(status)) {
            interrupt_handle(NULL);
            return exit_of(status);
        }
        if (stops_asked() == 0)
            nanosleep(&pause, NULL);
    }
    interrupt_handle(NULL);
    if (!c->json && isatty(STDOUT_FILENO))
        putchar('\n');                      /* behind the terminal's ^C */
    return CODE_DONE;
}

exit_code run_stats(cli *c, int argc, char **argv)
{
    static const struct option longs[] = {
        { "watch", no_argument, NULL, WATCH },
        { "interval", required_argument, NULL, INTERVAL },
        { NULL, 0, NULL, 0 }
    };
    bool again = false;
    int64_t interval_ms = INTERVAL_MS;
    int option;
    while ((option = next_option(c, argc, argv, ":", longs)) >= 0) {
        again = again || option == WATCH;
        if (option == INTERVAL && !take_duration(c, "--interval", optarg, &interval_ms))
            return CODE_USAGE;
    }
    if (option == OPTION_STOP)
        return option_stopped(c);
    if (!check_arguments(c, argc - optind, 0, 0, NULL))
        return CODE_USAGE;
    if (interval_ms < 100)
        return wrong_usage(c, "--interval is less than 100ms");
    exit_code code = open_queue(c, NULL);
    if (code != CODE_DONE)
        return code;
    char *name = queue_name(c);
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    renderq_status status = again ? RENDERQ_OK : renderq_stats(c->h, c->queue, &counts);
    if (again)
        code = watch(c, name, interval_ms);
    else if (status == RENDERQ_OK)
        show(c, name, &counts, false, true);
    else
        code = complain_status(c, status);
    free(name);
    return code;
}
