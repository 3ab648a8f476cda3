/* main.c: renderq, the command: which commands there are, and what is around all of them. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct command {
    const char *name, *summary, *help;
    exit_code (*run)(cli *c, int argc, char **argv);
} command;

static const command commands[] = {
    { "init", "make the queue", help_init, run_init },
    { "schema", "print the SQL script that makes it", help_schema, run_schema },
    { "enqueue", "put jobs in, from arguments or JSON lines", help_enqueue, run_enqueue },
    { "work", "run a program for each job", help_work, run_work },
    { "stats", "count the jobs in each state", help_stats, run_stats },
    { "list", "list jobs", help_list, run_list },
    { "show", "show one job and its payload", help_show, run_show },
    { "retry", "queue ended jobs again", help_retry, run_retry },
    { "cancel", "end jobs that wait or run", help_cancel, run_cancel },
    { "settle", "mark a job as completed", help_settle, run_settle },
    { "release", "give a claimed job back", help_release, run_release },
    { "reap", "end the leases that have run out", help_reap, run_reap },
    { "purge", "delete jobs that ended long ago", help_purge, run_purge },
    { "version", "print the version", help_version, run_version },
};

static const char help_head[] =
    "usage: renderq [--db URL] COMMAND [OPTION]... [ARGUMENT]...\n"
    "\n"
    "Job queues in a table of a database.\n"
    "\n";

static const char help_common[] =
    "Options of every command:\n"
    "  -d, --db URL          the database (RENDERQ_URL)\n"
    "  -q, --queue NAME      the queue (the URL's, or VideoRenderJobs)\n"
    "  --password-file FILE  the password is the first line of this file\n"
    "  -j, --json            print data as JSON\n"
    "  -h, --help            help; renderq COMMAND --help: on one command\n";

static const char help_tail[] =
    "\n"
    "Environment:\n"
    "  RENDERQ_URL           where --db is not given, for instance sqlite:jobs.db\n"
    "  RENDERQ_PASSWORD      the password, where there is no --password-file. One on\n"
    "                        the command line is there for all to see who run ps\n"
    "  COLUMNS               how wide tables may be, where it is set\n"
    "\n"
    "To begin:\n"
    "  export RENDERQ_URL=sqlite:jobs.db\n"
    "  renderq init\n"
    "  renderq enqueue intro '{\"title\": \"HELLO\"}'\n"
    "  renderq work --until-empty -- sh -c 'cat >&2; echo >&2; echo file:///tmp/intro.mp4'\n"
    "  renderq list\n"
    "\n"
    "Exit codes:\n";

/* ---- help ---- */

/* A text behind a number, in lines of at most 79 columns. */
static void print_code(int number, const char *text)
{
    size_t column = (size_t)printf("  %-3d", number);
    while (*text) {
        size_t len = strcspn(text, " ");
        if (column + 1 + len > 79)
            column = (size_t)printf("\n%5s", "") - 1;
        column += (size_t)printf(" %.*s", (int)len, text);
        text += len + (text[len] != 0);
    }
    putchar('\n');
}

static void print_help(void)
{
    fputs(help_head, stdout);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        printf("  %-8s  %s\n", commands[i].name, commands[i].summary);
    printf("\n%s%s", help_common, help_tail);
#define PRINT_CODE(name, number, text) print_code(number, text);
    CLI_EXITS(PRINT_CODE)
#undef PRINT_CODE
}

static const command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static exit_code unknown_command(const cli *c, const char *name)
{
    const command *close = NULL;
    size_t best = 2;                        /* so many letters in common are a guess */
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        size_t same = 0;
        while (name[same] && name[same] == commands[i].name[same])
            same++;
        if (same > best) {
            best = same;
            close = &commands[i];
        }
    }
    return wrong_usage(c, "there is no command \"%s\"%s%s%s", name, close ? "; did you mean " : "",
                       close ? close->name : "", close ? "?" : "");
}

/* ---- one run ---- */

static exit_code run_command(cli *c, int argc, char **argv)
{
    if (strcmp(argv[0], "help") == 0) {
        c->help = true;
        if (argc < 2) {
            print_help();
            return CODE_DONE;
        }
        argv++;
        argc = 1;
    }
    const command *found = find_command(argv[0]);
    if (!found)
        return unknown_command(c, argv[0]);
    c->command = found->name;
    exit_code code = CODE_DONE;
    if (!c->help) {
        optind = 0;                         /* getopt() begins anew */
        code = found->run(c, argc, argv);
    }
    if (c->help)
        printf("%s\n%s", found->help, help_common);
    return code;
}

static exit_code run(cli *c, int argc, char **argv)
{
    static const struct option longs[] = { { "version", no_argument, NULL, 'V' }, { NULL, 0, NULL, 0 } };
    int option = next_option(c, argc, argv, "+:V", longs);
    if (option == 'V') {
        char name[] = "version", *version[] = { name, NULL };
        return run_command(c, 1, version);
    }
    if (option == OPTION_STOP && (!c->help || optind >= argc)) {
        if (c->help)
            print_help();
        return option_stopped(c);
    }
    if (optind >= argc)
        return wrong_usage(c, "which command?");
    return run_command(c, argc - optind, argv + optind);
}

/* A pipe that got the number of a missing standard stream would be taken for it. */
static void open_standard(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            exit(CODE_SYSTEM);
}

/* ---- standard output ---- */

static int write_error;                     /* of the first write that failed */

/* Whole, or errno says why not. */
static ssize_t write_output(void *arg, const char *bytes, size_t len)
{
    (void)arg;
    size_t done = 0;
    while (done < len) {
        ssize_t written = write(STDOUT_FILENO, bytes + done, len - done);
        if (written < 0) {
            write_error = write_error ? write_error : errno;
            break;
        }
        done += (size_t)written;
    }
    return (ssize_t)done;
}

/* The stream remembers that a write failed, and not why; that is asked for when much else has set errno since. */
static void watch_output(void)
{
    FILE *watched = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = write_output });
    if (!watched)
        return;
    setvbuf(watched, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
    stdout = watched;
}

int main(int argc, char **argv)
{
    open_standard();
    watch_output();
    cli c = { .command = NULL };
    exit_code code = run(&c, argc, argv);
    renderq_close(c.h);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        complain(&c, "standard output cannot be written: %s", strerror(write_error ? write_error : errno));
        code = CODE_BROKEN;
    }
    return (int)code;
}
