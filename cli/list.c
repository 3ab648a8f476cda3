/* list.c: renderq list and renderq show: jobs read, none changed. */
#include "cli.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json.h"
#include "table.h"
#include "text.h"

/* ---- list ---- */

const char help_list[] =
    "usage: renderq list [OPTION]...\n"
    "\n"
    "Lists jobs in the order of their IDs, without their payloads.\n"
    "\n"
    "  --state STATE         only Scheduled, Queued, Processing, Completed,\n"
    "                        DeadLetter, Cancelled, or Other\n"
    "  --composition ID      only those of this composition\n"
    "  --worker NAME         only those that this worker has, or had last\n"
    "  --limit N             at most so many (all)\n"
    "\n"
    "FAIL are the failures so far and the retries allowed. DETAIL is what matters in\n"
    "the state: the worker and its progress, the output URL, when a delayed job is\n"
    "due, the last line of the error. On a narrow terminal it stands below.\n"
    "\n"
    "Examples:\n"
    "  renderq list --state DeadLetter\n"
    "  renderq list --json | jq -r '.[] | select(.retry_count > 1) | .id'\n";

enum { STATE = 256, COMPOSITION, WORKER, LIMIT };

static const struct option list_longs[] = {
    { "state", required_argument, NULL, STATE },
    { "composition", required_argument, NULL, COMPOSITION },
    { "worker", required_argument, NULL, WORKER },
    { "limit", required_argument, NULL, LIMIT },
    { NULL, 0, NULL, 0 }
};

/* Upper and lower case are one, and dead-letter is DeadLetter. */
static bool same_state(const char *given, const char *name)
{
    for (; *given; given++) {
        if (*given == '-' || *given == '_')
            continue;
        if (tolower((unsigned char)*given) != tolower((unsigned char)*name))
            return false;
        name++;
    }
    return *name == 0;
}

static bool take_state(const cli *c, const char *text, renderq_state *out)
{
    for (int state = RENDERQ_SCHEDULED; state <= RENDERQ_OTHER; state++)
        if (same_state(text, renderq_strstate((renderq_state)state))) {
            *out = (renderq_state)state;
            return true;
        }
    wrong_usage(c, "--state is \"%s\": it is Scheduled, Queued, Processing, Completed, DeadLetter, Cancelled or "
                "Other", text);
    return false;
}

static const table_column columns[] = {
    { "ID", 0, false },      { "STATE", 0, false },     { "COMPOSITION", 11, false },
    { "PRIO", 0, true },     { "FAIL", 0, true },       { "DETAIL", 24, false },
};

#define COLUMNS (sizeof columns / sizeof columns[0])

/* The caller frees it. */
static char *detail_of(const renderq_job *job)
{
    char text[512], left[DURATION_SIZE], at[TIME_SIZE];
    const char *progress = job->progress ? job->progress : "";
    switch (job->state) {
    case RENDERQ_PROCESSING:
        snprintf(text, sizeof text, "%s%s%s%s", job->worker ? job->worker : "", *progress ? ": " : "", progress,
                 job->lease_left_ms > 0 ? "" : " (its lease has run out)");
        return must_copy(text);
    case RENDERQ_SCHEDULED:
        snprintf(text, sizeof text, "due %.19sZ", time_text(job->due_at_ms, at));
        return must_copy(text);
    case RENDERQ_COMPLETED:
        if (job->output_url)
            return must_copy(job->output_url);
        snprintf(text, sizeof text, "in %s", duration_text(job->ended_at_ms - job->started_at_ms, left));
        return must_copy(job->ended_at_ms && job->started_at_ms ? text : "");
    default:
        return text_last_line(job->last_error ? job->last_error : "");
    }
}

typedef struct listing {
    table *table;                           /* NULL: JSON */
    json_list list;
} listing;

static int list_job(void *arg, const renderq_job *job)
{
    listing *l = arg;
    if (!l->table) {
        json_list_add(&l->list, json_job(job));
        return ferror(stdout);
    }
    char priority[16], failures[32], *detail = detail_of(job);
    snprintf(priority, sizeof priority, "%d", job->priority);
    snprintf(failures, sizeof failures, "%d/%d", job->retry_count, job->max_retries > 0 ? job->max_retries : 0);
    const char *cells[COLUMNS] = { job->id.text, renderq_strstate(job->state), job->composition_id, priority,
                                   failures, detail };
    table_row(l->table, cells);
    free(detail);
    return ferror(stdout);
}

exit_code run_list(cli *c, int argc, char **argv)
{
    renderq_filter filter = RENDERQ_INIT(renderq_filter);
    int64_t limit = 0;
    int option;
    while ((option = next_option(c, argc, argv, ":", list_longs)) >= 0) {
        bool good = true;
        switch (option) {
        case STATE: good = take_state(c, optarg, &filter.state); break;
        case COMPOSITION: filter.composition_id = optarg; break;
        case WORKER: filter.worker = optarg; break;
        default: good = take_number(c, "--limit", optarg, 1, INT64_C(1000000000000), &limit); break;
        }
        if (!good)
            return CODE_USAGE;
    }
    if (option == OPTION_STOP)
        return option_stopped(c);
    if (!check_arguments(c, argc - optind, 0, 0, NULL))
        return CODE_USAGE;
    exit_code code = open_queue(c, NULL);
    if (code != CODE_DONE)
        return code;
    filter.queue = c->queue;
    filter.max = (size_t)limit;
    listing l = { .table = c->json ? NULL : table_new(columns, COLUMNS) };
    renderq_status status = renderq_list(c->h, &filter, list_job, &l);
    if (l.table)
        table_end(l.table);
    else
        json_list_end(&l.list);             /* what came so far is a document, even if it broke off */
    return status == RENDERQ_OK ? CODE_DONE : complain_status(c, status);
}

/* ---- show ---- */

const char help_show[] =
    "usage: renderq show [--payload] ID\n"
    "\n"
    "Shows one job: all that is known about it, and its payload.\n"
    "\n"
    "  --payload             print the payload alone, byte by byte\n"
    "\n"
    "On a terminal a long payload is cut.\n"
    "\n"
    "Example: try a job by hand\n"
    "  renderq show --payload ID | ./render\n";

#define PAYLOAD_SHOWN 2000                  /* bytes, on a terminal */
#define TITLE_WIDTH   11

static void show_time(const char *title, int64_t ms)
{
    char text[TIME_SIZE];
    print_pair(title, TITLE_WIDTH, time_text(ms, text));
}

static void show_payload(const renderq_job *job)
{
    if (job->payload_len <= PAYLOAD_SHOWN || !isatty(STDOUT_FILENO)) {
        print_pair("payload", TITLE_WIDTH, job->payload_json);
        return;
    }
    char text[PAYLOAD_SHOWN + 100];
    size_t len = PAYLOAD_SHOWN;
    while (len > 0 && ((unsigned char)job->payload_json[len] & 0xc0) == 0x80)
        len--;                              /* not inside a character */
    snprintf(text, sizeof text, "%.*s\n(the first of %zu bytes: show --payload prints all)", (int)len,
             job->payload_json, job->payload_len);
    print_pair("payload", TITLE_WIDTH, text);
}

static void show_job(const renderq_job *job)
{
    char text[100], left[DURATION_SIZE];
    print_pair("ID", TITLE_WIDTH, job->id.text);
    print_pair("state", TITLE_WIDTH, renderq_strstate(job->state));
    print_pair("composition", TITLE_WIDTH, job->composition_id);
    snprintf(text, sizeof text, "%d", job->priority);
    print_pair("priority", TITLE_WIDTH, text);
    snprintf(text, sizeof text, "%d (%d retries)", job->retry_count, job->max_retries > 0 ? job->max_retries : 0);
    print_pair("failures", TITLE_WIDTH, text);
    show_time("created", job->created_at_ms);
    show_time("due", job->due_at_ms);
    show_time("started", job->started_at_ms);
    show_time("leased", job->locked_at_ms);
    show_time("ended", job->ended_at_ms);
    if (job->state == RENDERQ_PROCESSING)
        print_pair("lease left", TITLE_WIDTH,
                   job->lease_left_ms > 0 ? duration_text(job->lease_left_ms, left) : "none: it has run out");
    print_pair("worker", TITLE_WIDTH, job->worker);
    print_pair("progress", TITLE_WIDTH, job->progress);
    print_pair("output URL", TITLE_WIDTH, job->output_url);
    print_pair("dedup key", TITLE_WIDTH, job->dedup_key);
    print_pair("last error", TITLE_WIDTH, job->last_error);
    show_payload(job);
}

exit_code run_show(cli *c, int argc, char **argv)
{
    static const struct option longs[] = { { "payload", no_argument, NULL, 'p' }, { NULL, 0, NULL, 0 } };
    bool payload = false;
    int option;
    while ((option = next_option(c, argc, argv, ":", longs)) >= 0)
        payload = true;
    if (option == OPTION_STOP)
        return option_stopped(c);
    renderq_id id;
    if (!check_arguments(c, argc - optind, 1, 1, "an ID") || !take_id(c, "ID", argv[optind], &id))
        return CODE_USAGE;
    exit_code code = open_queue(c, NULL);
    if (code != CODE_DONE)
        return code;
    renderq_job *job = NULL;
    renderq_status status = renderq_get(c->h, c->queue, &id, &job);
    if (status != RENDERQ_OK)
        return complain_status(c, status);
    if (payload)
        fwrite(job->payload_json, 1, job->payload_len, stdout);
    else if (c->json)
        json_print(json_job(job));
    else
        show_job(job);
    renderq_job_free(job);
    return CODE_DONE;
}
