/* cli.h: what the commands share: the options that all of them have, and what they say to people. Each command is
 * one function; the table of them is in main.c. */
#ifndef CLI_H
#define CLI_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "exit.h"

typedef struct cli {
    const char *command;            /* its name, for messages; NULL before it is known */
    const char *url;                /* --db; never printed: there may be a password in it */
    const char *queue;              /* --queue; NULL: the URL's */
    const char *password_file;
    bool json;
    bool help;                      /* --help was given */
    renderq *h;                     /* open_queue() */
} cli;

/* Both get the arguments from the command's own name on. */
exit_code run_init(cli *c, int argc, char **argv);
exit_code run_schema(cli *c, int argc, char **argv);
exit_code run_enqueue(cli *c, int argc, char **argv);
exit_code run_work(cli *c, int argc, char **argv);
exit_code run_stats(cli *c, int argc, char **argv);
exit_code run_list(cli *c, int argc, char **argv);
exit_code run_show(cli *c, int argc, char **argv);
exit_code run_retry(cli *c, int argc, char **argv);
exit_code run_cancel(cli *c, int argc, char **argv);
exit_code run_settle(cli *c, int argc, char **argv);
exit_code run_release(cli *c, int argc, char **argv);
exit_code run_reap(cli *c, int argc, char **argv);
exit_code run_purge(cli *c, int argc, char **argv);
exit_code run_version(cli *c, int argc, char **argv);

extern const char help_init[], help_schema[], help_enqueue[], help_work[], help_stats[], help_list[], help_show[],
                  help_retry[], help_cancel[], help_settle[], help_release[], help_reap[], help_purge[],
                  help_version[];

/* ---- options.c ---- */

#define OPTION_END  (-1)            /* there are no more */
#define OPTION_STOP (-2)            /* --help was given, or the usage was wrong, which has been said */
#define OPTIONS_MAX 12              /* a command's own */

/* The command's next option: its `val`. The options of all commands are dealt with here. `shorts` begins with ":",
 * or "+:" where the first argument ends the options. */
int next_option(cli *c, int argc, char **argv, const char *shorts, const struct option *longs);

/* What a command returns after OPTION_STOP. */
exit_code option_stopped(const cli *c);

/* Whether there are min to max arguments; says what is missing otherwise (`what`: "an ID"). max -1: any number. */
bool check_arguments(const cli *c, int given, int min, int max, const char *what);

/* 30s, 10m, 2h, 7d, 500ms, 1h30m, or a bare number of seconds. Complains under the option's name. */
bool take_duration(const cli *c, const char *option, const char *text, int64_t *ms);
bool take_number(const cli *c, const char *option, const char *text, int64_t min, int64_t max, int64_t *out);
bool take_id(const cli *c, const char *what, const char *text, renderq_id *id);

/* ---- url.c ---- */

/* Opens c->h. `options` may be NULL. Says what is wrong. */
exit_code open_queue(cli *c, renderq_options *options);

/* Makes a worker with these options, which have a `connection`; *out is to be freed in any case. */
exit_code make_worker(cli *c, const renderq_worker_options *options, renderq_options *connection, renderq_worker **out);

/* The name of the queue that is meant, for people; the caller frees it. */
char *queue_name(const cli *c);

/* The URL's scheme ("sqlite"), or "" when there is no URL. */
const char *url_scheme(const cli *c, char *room, size_t size);

/* ---- say.c ---- */

/* One line on standard error: "renderq: COMMAND: ...". */
void complain(const cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What the library's last call on the handle said, with what to do about it. Returns the exit code. */
exit_code complain_status(const cli *c, renderq_status status);
exit_code complain_text(const cli *c, renderq_status status, const char *text);

exit_code wrong_usage(const cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Asks on the terminal, unless `yes`. Only CODE_DONE means go on. */
exit_code confirm(const cli *c, bool yes, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* "3 s", "2 m 5 s", "4 d 1 h". The buffer needs DURATION_SIZE. */
#define DURATION_SIZE 48
const char *duration_text(int64_t ms, char *buffer);

/* Milliseconds of a clock that only goes forward. */
int64_t clock_ms(void);

struct timespec timespec_of(int64_t ms);

/* Memory or the end of the program: nothing here can go on without. */
void *must_alloc(void *memory, size_t size);
char *must_copy(const char *text);

#endif
