/* enqueue.c: renderq enqueue: one job from arguments. Many from JSON lines are load.c's. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json.h"
#include "load.h"

const char help_enqueue[] =
    "usage: renderq enqueue [OPTION]... COMPOSITION_ID PAYLOAD\n"
    "       renderq enqueue [OPTION]... COMPOSITION_ID --payload-file FILE\n"
    "       renderq enqueue [--file FILE]\n"
    "\n"
    "Puts one job into the queue and prints its ID; or many, from JSON lines.\n"
    "\n"
    "One job:\n"
    "  PAYLOAD               handed to the worker as it is, of any size\n"
    "  --payload-file FILE   read the payload from a file; -: standard input\n"
    "  --priority N          higher first (0)\n"
    "  --delay DURATION      not before that long from now: 30s, 10m, 2h, 7d (0)\n"
    "  --max-retries N       retries after the first failure (3)\n"
    "  --dedup-key KEY       at most one waiting or running job holds a key; if one\n"
    "                        does already, its ID is printed and nothing added\n"
    "  --output-url URL      where the result is expected\n"
    "\n"
    "Many jobs:\n"
    "  --file FILE           JSON lines; - or nothing: standard input\n"
    "\n"
    "A line is an object. It has composition_id and either payload (an object) or\n"
    "payload_json (a string, passed on as it is). It may have priority, delay_ms,\n"
    "max_retries, dedup_key and output_url. Empty lines are skipped. A bad record is\n"
    "reported as FILE:LINE: what is wrong. The others are loaded, and the exit code\n"
    "is then 1.\n"
    "\n"
    "  {\"composition_id\": \"intro\", \"payload\": {\"title\": \"HELLO\"}, \"priority\": 5}\n"
    "\n"
    "Examples:\n"
    "  renderq enqueue intro '{\"title\": \"HELLO\"}' --priority 5\n"
    "  renderq enqueue --file jobs.jsonl\n"
    "  generate-jobs | renderq enqueue --json | jq -r '.[] | .id'\n";

enum { PAYLOAD_FILE = 256, PRIORITY, DELAY, MAX_RETRIES, DEDUP_KEY, OUTPUT_URL };

static const struct option longs[] = {
    { "payload-file", required_argument, NULL, PAYLOAD_FILE },
    { "priority", required_argument, NULL, PRIORITY },
    { "delay", required_argument, NULL, DELAY },
    { "max-retries", required_argument, NULL, MAX_RETRIES },
    { "dedup-key", required_argument, NULL, DEDUP_KEY },
    { "output-url", required_argument, NULL, OUTPUT_URL },
    { "file", required_argument, NULL, 'f' },
    { NULL, 0, NULL, 0 }
};

/* A whole file or standard input; NULL: it has been said what is wrong. */
static char *read_file(const cli *c, const char *path, size_t *len)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "r");
    size_t room = 65536;
    char *text = must_alloc(NULL, room);
    *len = 0;
    while (file && !feof(file) && !ferror(file)) {
        if (room - *len < 2)
            text = must_alloc(text, room *= 2);
        *len += fread(text + *len, 1, room - *len - 1, file);
    }
    if (!file || ferror(file)) {
        complain(c, "%s cannot be read: %s", path, strerror(errno));
        free(text);
        text = NULL;
    } else {
        text[*len] = 0;
    }
    if (file && !is_stdin)
        fclose(file);
    return text;
}

static exit_code enqueue_one(cli *c, const renderq_new_job *job)
{
    renderq_id id = { "" };
    exit_code code = open_queue(c, NULL);
    if (code != CODE_DONE)
        return code;
    renderq_status status = renderq_enqueue(c->h, job, &id);
    /* The job is there, which is what was asked for. */
    if (status == RENDERQ_DUPLICATE)
        complain(c, "%s; nothing was added", renderq_errmsg(c->h));
    else if (status != RENDERQ_OK)
        return complain_status(c, status);
    if (c->json)
        json_print(json_outcome(id.text, status, renderq_errmsg(c->h)));
    else
        printf("%s\n", id.text);
    return CODE_DONE;
}

typedef struct given {
    const char *file, *payload_file;
    bool one;                               /* an option that only one job has */
    renderq_new_job job;
} given;

static bool take_option(const cli *c, int option, given *g)
{
    int64_t number = 0;
    bool good = true;
    g->one = g->one || option != 'f';
    switch (option) {
    case 'f':
        g->file = optarg;
        break;
    case PAYLOAD_FILE:
        g->payload_file = optarg;
        break;
    case PRIORITY:
        good = take_number(c, "--priority", optarg, INT_MIN, INT_MAX, &number);
        g->job.priority = (int)number;
        break;
    case DELAY:
        good = take_duration(c, "--delay", optarg, &g->job.delay_ms);
        break;
    case MAX_RETRIES:
        good = take_number(c, "--max-retries", optarg, 0, INT_MAX, &number);
        g->job.max_retries = number == 0 ? RENDERQ_NO_RETRY : (int)number;
        break;
    case DEDUP_KEY:
        g->job.dedup_key = optarg;
        break;
    default:
        g->job.output_url = optarg;
        break;
    }
    return good;
}

exit_code run_enqueue(cli *c, int argc, char **argv)
{
    given g = { .job = RENDERQ_INIT(renderq_new_job) };
    int option;
    while ((option = next_option(c, argc, argv, ":f:", longs)) >= 0)
        if (!take_option(c, option, &g))
            return CODE_USAGE;
    if (option == OPTION_STOP)
        return option_stopped(c);
    int n = argc - optind;
    if (n == 0 && !g.one && !g.file && isatty(STDIN_FILENO))
        return wrong_usage(c, "a COMPOSITION_ID with its PAYLOAD is missing, or a --file of JSON lines");
    if (n == 0 && !g.one)
        return load_file(c, g.file ? g.file : "-");
    if (g.file)
        return wrong_usage(c, "--file brings its jobs with it: no other option or argument goes with it");
    if (!check_arguments(c, n, g.payload_file ? 1 : 2, g.payload_file ? 1 : 2,
                         g.payload_file ? "a COMPOSITION_ID" : "a COMPOSITION_ID and a PAYLOAD"))
        return CODE_USAGE;
    char *payload = NULL;
    g.job.queue = c->queue;
    g.job.composition_id = argv[optind];
    g.job.payload_json = g.payload_file ? NULL : argv[optind + 1];
    if (g.payload_file) {
        g.job.payload_json = payload = read_file(c, g.payload_file, &g.job.payload_len);
        if (!payload)
            return CODE_NO_INPUT;
    }
    exit_code code = enqueue_one(c, &g.job);
    free(payload);
    return code;
}
