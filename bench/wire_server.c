/* wire_server.c: the test server that the wire's part of the benchmark speaks to, and what it was asked. It runs each
 * request on SQLite, in Python: how fast it is says nothing, how often it is asked does. */
#include "wire.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static struct {
    bool asked_for;
    char *db, *log;
    long read_up_to;                    /* of the log */
    char url[120];                      /* empty: it is not running */
} server;

static void exec_server(const char *script, int out)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(out, STDOUT_FILENO);
    execlp("python3", "python3", script, "--db", server.db, "--log", server.log, "--user", "bench", "--password",
           "bench", "--database", "bench", (char *)NULL);
    _exit(127);
}

/* tdsd: listening on 127.0.0.1:PORT */
static int start(const char *script)
{
    int ends[2];
    char line[200] = "";
    if (pipe(ends) != 0)
        die("pipe: %s", strerror(errno));
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        die("fork: %s", strerror(errno));
    if (child == 0)
        exec_server(script, ends[1]);
    close(ends[1]);
    FILE *out = fdopen(ends[0], "r");   /* stays open: it says nothing else, and would die of a write */
    const char *colon = out && fgets(line, sizeof line, out) ? strrchr(line, ':') : NULL;
    return strstr(line, "listening") && colon ? atoi(colon + 1) : 0;
}

const char *wire_server(const bench_run *run)
{
    char script[4200];
    if (server.asked_for)
        return server.url[0] ? server.url : NULL;
    server.asked_for = true;
    snprintf(script, sizeof script, "%s/test/tdsd/tdsd.py", run->source);
    if (access(script, R_OK) != 0) {
        report_note("(%s is not there: say by --source where the source tree is)", script);
        return NULL;
    }
    server.db = path_in(run, "wire.db");
    server.log = path_in(run, "wire.log");
    int port = start(script);
    if (!port) {
        report_note("(the test server did not start; it needs python3 and a C compiler)");
        return NULL;
    }
    snprintf(server.url, sizeof server.url, "sqlserver://bench:bench@127.0.0.1:%d/bench?queue=bench", port);
    renderq *h = ours_open_url(server.url);
    ours_check(h, renderq_create(h, NULL), "create");
    renderq_close(h);
    wire_asked();
    return server.url;
}

/* A line a request is in the log before its reply is sent. */
wire_requests wire_asked(void)
{
    wire_requests asked = { 0, 0 };
    char line[400];
    FILE *log = fopen(server.log, "r");
    if (!log || fseek(log, server.read_up_to, SEEK_SET) != 0)
        die("%s: %s", server.log, strerror(errno));
    while (fgets(line, sizeof line, log)) {
        const char *event = strchr(line, ' ');
        asked.requests += event && (strncmp(event, " rpc ", 5) == 0 || strncmp(event, " batch ", 7) == 0);
        asked.logins += event && strncmp(event, " login ", 7) == 0;
    }
    server.read_up_to = ftell(log);
    fclose(log);
    return asked;
}

static void behind_its_back(const char *sql)
{
    sqlite3 *db = sql_open(server.db, "normal");
    sql_exec(db, sql);
    sqlite3_close(db);
}

void wire_forget(void)
{
    behind_its_back("DELETE FROM bench");
}

void wire_age(int seconds)
{
    char sql[200];
    snprintf(sql, sizeof sql, "UPDATE bench SET CompletedAtUtc = CompletedAtUtc - %d000, "
                              "EndedAtUtc = EndedAtUtc - %d000", seconds, seconds);
    behind_its_back(sql);
}
