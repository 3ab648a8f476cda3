/* operate.c: the commands with which an operator moves jobs: retry, cancel, settle, release, reap, purge. */
#include "cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

enum { ALL = 256, YES, SPARE_RENEWED, DELAY, OLDER_THAN };

/* The database does not answer, so there is no use in asking it about the next job. */
static bool ends_all(renderq_status status)
{
    return status != RENDERQ_OK && status != RENDERQ_EMPTY && status != RENDERQ_LOST
           && status != RENDERQ_DUPLICATE;
}

/* ---- calls on each of some jobs ---- */

typedef renderq_status (*job_call)(cli *c, const renderq_id *id);

static renderq_status retry(cli *c, const renderq_id *id)
{
    return renderq_retry(c->h, c->queue, id, NULL);
}

static renderq_status cancel(cli *c, const renderq_id *id)
{
    return renderq_cancel(c->h, c->queue, id);
}

/* Each job is told of; the exit code is that of the first that failed. */
static exit_code for_each(cli *c, int n, char **ids, job_call call, const char *done)
{
    exit_code all = CODE_DONE;
    json_list list = { 0 };
    for (int i = 0; i < n; i++) {
        renderq_id id;
        if (!take_id(c, "ID", ids[i], &id))
            abort();                        /* they have been looked at */
        renderq_status status = call(c, &id);
        if (c->json)
            json_list_add(&list, json_outcome(id.text, status, renderq_errmsg(c->h)));
        else if (status == RENDERQ_OK)
            printf("%s %s\n", id.text, done);
        exit_code code = status == RENDERQ_OK ? CODE_DONE : complain_status(c, status);
        all = all == CODE_DONE ? code : all;
        if (ends_all(status))
            break;
    }
    if (c->json)
        json_list_end(&list);
    return all;
}

static bool are_ids(const cli *c, int n, char **texts)
{
    renderq_id id;
    for (int i = 0; i < n; i++)
        if (!take_id(c, "ID", texts[i], &id))
            return false;
    return true;
}

/* ---- retry ---- */

const char help_retry[] =
    "usage: renderq retry ID...\n"
    "       renderq retry --all [--yes]\n"
    "\n"
    "Queues jobs again that are DeadLetter, Cancelled or Completed, with their\n"
    "failures forgotten.\n"
    "\n"
    "  --all                 every dead letter; of those with one dedup key only\n"
    "                        one. It asks on a terminal\n"
    "  --yes                 do not ask\n"
    "\n"
    "A job whose dedup key a waiting or running job holds by now stays as it is.\n";

static exit_code retry_all(cli *c, bool yes)
{
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    renderq_retried retried = RENDERQ_INIT(renderq_retried);
    renderq_status status = renderq_stats(c->h, c->queue, &counts);
    if (status != RENDERQ_OK)
        return complain_status(c, status);
    char *name = queue_name(c);
    exit_code code = confirm(c, yes, "Retry the %" PRId64 " dead letters of %s?", counts.dead_letter, name);
    free(name);
    if (code != CODE_DONE)
        return code;
    status = renderq_retry_dead(c->h, c->queue, &retried);
    if (c->json)
        json_print(json_pack("{s:I, s:I, s:s}", "retried", (json_int_t)retried.retried, "duplicates",
                             (json_int_t)retried.duplicates, "status", renderq_strstatus(status)));
    else if (retried.duplicates > 0)
        printf("%" PRId64 " queued again; %" PRId64 " stay, since a live job holds their dedup key\n",
               retried.retried, retried.duplicates);
    else
        printf("%" PRId64 " queued again\n", retried.retried);
    return status == RENDERQ_OK ? CODE_DONE : complain_status(c, status);
}

exit_code run_retry(cli *c, int argc, char **argv)
{
    static const struct option longs[] = {
        { "all", no_argument, NULL, ALL },
        { "yes", no_argument, NULL, YES },
        { NULL, 0, NULL, 0 }
    };
    bool all = false, yes = false;
    int option;
    while ((option = next_option(c, argc, argv, ":", longs)) >= 0) {
        all = all || option == ALL;
        yes = yes || option == YES;
    }
    if (option == OPTION_STOP)
        return option_stopped(c);
    int n = argc - optind;
    if (all && n > 0)
        return wrong_usage(c, "either IDs or --all");
    if (!all && !check_arguments(c, n, 1, -1, "an ID, or --all,"))
        return CODE_USAGE;
    if (!are_ids(c, n, argv + optind))
        return CODE_USAGE;
    exit_code code = open_queue(c, NULL);
    if (code != CODE_DONE)
        return code;
    return all ? retry_all(c, yes) : for_each(c, n, argv + optind, retry, "queued again");
}

/* ---- cancel ---- */

const char help_cancel[] =
    "usage: renderq cancel [--yes] ID...\n"
    "\n"
    "Ends jobs that are Scheduled, Queued or Processing. Who works on one is told\n"
    "that its lease is lost. retry brings them back.\n"
    "\n"
    "  --yes                 several IDs: do not ask\n"
    "\n"
    "Example: cancel what waits\n"
    "  renderq list --state Queued --json | jq -r '.[].id' |\n"
    "    xargs renderq cancel --yes\n";

exit_code run_cancel(cli *c, int argc, char **argv)
{
    static const struct option longs[] = { { "yes", no_argument, NULL, YES }, { NULL, 0, NULL, 0 } };
    bool yes = false;
    int option;
    while ((option = next_option(c, argc, argv, ":", longs)) >= 0)
        yes = true;
    if (option == OPTION_STOP)
        return option_stopped(c);
    int n = argc - optind;
    if (!check_arguments(c, n, 1, -1, "an ID") || !are_ids(c, n, argv + optind))
        return CODE_USAGE;
    exit_code code = confirm(c, yes || n == 1, "Cancel %d jobs?", n);
    if (code == CODE_DONE)
        code = open_queue(c, NULL);
    return code == CODE_DONE ? for_each(c, n, argv + optind, cancel, "cancelled") : code;
}

/* ---- settle ---- */

const char help_settle[] =
    "usage: renderq settle [OPTION]... ID [OUTPUT_URL]\n"
    "\n"
    "Marks a job as Completed, in whatever state it is: the result is there, whoever\n"
    "made it. A worker that has it is told that its lease is lost.\n"
    "\n"
    "  OUTPUT_URL            where the result is (the one that the job has)\n"
    "  --spare-renewed       leave it alone if its worker renews its lease\n";

static exit_code told(cli *c, const renderq_id *id, renderq_status status, const char *done)
{
    if (c->json)
        json_print(json_outcome(id->text, status, renderq_errmsg(c->h)));
    else if (status == RENDERQ_OK)
        printf("%s %s\n", id->text, done);
    return status == RENDERQ_OK ? CODE_DONE : complain_status(c, status);
}

exit_code run_settle(cli *c, int argc, char **argv)
{
    static const struct option longs[] = { { "spare-renewed", no_argument, NULL, SPARE_RENEWED },
                                           { NULL, 0, NULL, 0 } };
    unsigned flags = 0;
    int option;
    while ((option = next_option(c, argc, argv, ":", longs)) >= 0)
        flags |= RENDERQ_SPARE_RENEWED;
    if (option == OPTION_STOP)
        return option_stopped(c);
    renderq_id id;
    int n = argc - optind;
    if (!check_arguments(c, n, 1, 2, "an ID") || !take_id(c, "ID", argv[optind], &id))
        return CODE_USAGE;
    exit_code code = open_queue(c, NULL);
    if (code != CODE_DONE)
        return code;
    return told(c, &id, renderq_settle(c->h, c->queue, &id, n == 2 ? argv[optind + 1] : NULL, flags), "completed");
}

/* ---- release ---- */

const char help_release[] =
    "usage: renderq release [--delay DURATION] ID LEASE\n"
    "\n"
    "Gives a job back that a worker claimed and did not finish, without counting a\n"
    "failure. LEASE is the token of the claim: renderq work prints it when a job\n"
    "starts, and programs find it in renderq_job.lease. With another lease, or\n"
    "after the job went on its way, nothing is done.\n"
    "\n"
    "  --delay DURATION      not before that long from now (0)\n";

exit_code run_release(cli *c, int argc, char **argv)
{
    static const struct option longs[] = { { "delay", required_argument, NULL, DELAY }, { NULL, 0, NULL, 0 } };
    int64_t delay_ms = 0;
    int option;
    while ((option = next_option(c, argc, argv, ":", longs)) >= 0)
        if (!take_duration(c, "--delay", optarg, &delay_ms))
            return CODE_USAGE;
    if (option == OPTION_STOP)
        return option_stopped(c);
    renderq_id id, lease;
    if (!check_arguments(c, argc - optind, 2, 2, "an ID and its LEASE")
        || !take_id(c, "ID", argv[optind], &id) || !take_id(c, "LEASE", argv[optind + 1], &lease))
        return CODE_USAGE;
    exit_code code = open_queue(c, NULL);
    if (code != CODE_DONE)
        return code;
    renderq_job *job = NULL;
    renderq_status status = renderq_job_resume(c->h, c->queue, &id, &lease, &job);
    if (status == RENDERQ_OK)
        status = renderq_release(c->h, job, delay_ms);
    code = told(c, &id, status, "released");
    renderq_job_free(job);
    return code;
}

/* ---- reap ---- */

const char help_reap[] =
    "usage: renderq reap\n"
    "\n"
    "Ends the leases that have run out: their jobs go back to the queue, or become\n"
    "dead letters if their retries are used up. Workers do this on the way, so it is\n"
    "needed only where none runs.\n";

exit_code run_reap(cli *c, int argc, char **argv)
{
    if (next_option(c, argc, argv, ":", NULL) == OPTION_STOP)
        return option_stopped(c);
    if (!check_arguments(c, argc - optind, 0, 0, NULL))
        return CODE_USAGE;
    exit_code code = open_queue(c, NULL);
    if (code != CODE_DONE)
        return code;
    renderq_reaped counts = RENDERQ_INIT(renderq_reaped);
    renderq_status status = renderq_reap(c->h, c->queue, &counts);
    if (c->json)
        json_print(json_pack("{s:I, s:I, s:s}", "returned", (json_int_t)counts.returned, "dead",
                             (json_int_t)counts.dead, "status", renderq_strstatus(status)));
    else
        printf("%" PRId64 " back in the queue, %" PRId64 " dead letters\n", counts.returned, counts.dead);
    return status == RENDERQ_OK ? CODE_DONE : complain_status(c, status);
}

/* ---- purge ---- */

const char help_purge[] =
    "usage: renderq purge --older-than DURATION [--yes]\n"
    "\n"
    "Deletes jobs that are Completed, DeadLetter or Cancelled and ended longer ago\n"
    "than that. It cannot be taken back, and asks on a terminal.\n"
    "\n"
    "  --older-than DURATION 10m, 2h, 7d; at least 60s\n"
    "  --yes                 do not ask\n"
    "\n"
    "Example, once a night:\n"
    "  renderq purge --older-than 30d --yes\n";

static exit_code purge(cli *c, int64_t older_than_s, bool yes)
{
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    renderq_status status = renderq_stats(c->h, c->queue, &counts);
    if (status != RENDERQ_OK)
        return complain_status(c, status);
    char *name = queue_name(c), age[DURATION_SIZE];
    exit_code code = confirm(c, yes,
                             "Delete those of the %" PRId64 " ended jobs of %s that ended more than %s ago?",
                             counts.completed + counts.dead_letter + counts.cancelled, name,
                             duration_text(older_than_s * 1000, age));
    free(name);
    if (code != CODE_DONE)
        return code;
    int64_t deleted = 0;
    status = renderq_purge(c->h, c->queue, older_than_s, &deleted);
    if (c->json)
        json_print(json_pack("{s:I, s:s}", "deleted", (json_int_t)deleted, "status", renderq_strstatus(status)));
    else
        printf("%" PRId64 " deleted\n", deleted);
    return status == RENDERQ_OK ? CODE_DONE : complain_status(c, status);
}

exit_code run_purge(cli *c, int argc, char **argv)
{
    static const struct option longs[] = {
        { "older-than", required_argument, NULL, OLDER_THAN },
        { "yes", no_argument, NULL, YES },
        { NULL, 0, NULL, 0 }
    };
    int64_t older_ms = -1;
    bool yes = false;
    int option;
    while ((option = next_option(c, argc, argv, ":", longs)) >= 0) {
        yes = yes || option == YES;
        if (option == OLDER_THAN && !take_duration(c, "--older-than", optarg, &older_ms))
            return CODE_USAGE;
    }
    if (option == OPTION_STOP)
        return option_stopped(c);
    if (!check_arguments(c, argc - optind, 0, 0, NULL))
        return CODE_USAGE;
    if (older_ms < 0)
        return wrong_usage(c, "--older-than is missing: how long ago must a job have ended?");
    if (older_ms < 60000)
        return wrong_usage(c, "--older-than is less than 60s: a call that is repeated must still find its job");
    exit_code code = open_queue(c, NULL);
    return code == CODE_DONE ? purge(c, older_ms / 1000, yes) : code;
}
