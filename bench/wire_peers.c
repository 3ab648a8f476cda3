/* wire_peers.c: calls a second on a real server, beside other clients that do the same statements by the same texts:
 * Dapper on Microsoft.Data.SqlClient, and tedious. Each has one connection, a table of its own, and takes its turn in
 * every round. The server is the one that RENDERQ_TEST_URL names; without one this section is skipped.
 *
 * The peers are programs of bench/peers, which `make bench` builds beside this one where it finds dotnet and npm. They
 * are told by lines what to do, and answer with one. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "handle.h"
#include "sqlserver.h"
#include "wire.h"

#define JOBS    50              /* a round, of either stage; fewer in a quick run */
#define ROUNDS  40
#define SECONDS 20

enum { ENQUEUE, WORK, PEER_STAGES };

static const struct peer_kind {
    const char *name, *command, *program;
    const char *figures[PEER_STAGES];
} kinds[] = {
    { "dapper", "dotnet", "peer.dll",
      { "enqueue one by one, beside Dapper", "claim + complete one by one, beside Dapper" } },
    { "tedious", "node", "peer.js",
      { "enqueue one by one, beside tedious", "claim + complete one by one, beside tedious" } },
};

typedef struct peer {
    pid_t pid;
    FILE *in, *out;
    renderq *ours;
    size_t jobs;
} peer;

/* ---- the server ---- */

/* The test URL with another queue. */
static char *url_with(const char *text, const char *queue)
{
    char *url = allocate(strlen(text) + strlen(queue) + 16), *end = url;
    size_t len = strcspn(text, "?");
    memcpy(end, text, len);
    end += len;
    end += sprintf(end, "?queue=%s", queue);
    for (const char *option = text[len] ? text + len + 1 : ""; *option; option += len + (option[len] != 0)) {
        len = strcspn(option, "&");
        if (strncmp(option, "queue=", 6) != 0)
            end += sprintf(end, "&%.*s", (int)len, option);
    }
    return url;
}

static void drop_table(const char *url, const char *name)
{
    char sql[200];
    wire_bare *b = wire_bare_open(url);
    snprintf(sql, sizeof sql, "IF OBJECT_ID(N'dbo.%s') IS NOT NULL DROP TABLE [dbo].[%s]", name, name);
    wire_bare_run(b, sql);
    wire_bare_close(b);
}

static renderq *open_queue(const char *test_url, const char *table)
{
    char queue[64];
    snprintf(queue, sizeof queue, "dbo.%s", table);
    char *url = url_with(test_url, queue);
    drop_table(url, table);
    renderq *h = ours_open_url(url);
    ours_check(h, renderq_create(h, NULL), "create");
    free(url);
    return h;
}

/* ---- the other program ---- */

static char *folder_of_self(void)
{
    static char path[4200];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    path[len > 0 ? len : 0] = 0;
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
    return path;
}

static void set(const char *name, const char *value)
{
    setenv(name, value ? value : "", 1);
}

static void exec_peer(const bench_run *run, const struct peer_kind *kind, const rq_url *url, const char *program,
                      bool babelfish)
{
    char port[16], folders[9000], table[80];
    snprintf(port, sizeof port, "%d", url->port ? url->port : 1433);
    snprintf(folders, sizeof folders, "%s/sql/%s:%s/sql/sqlserver", run->source, babelfish ? "babelfish" : "sqlserver",
             run->source);
    snprintf(table, sizeof table, "[dbo].[bench_%s]", kind->name);
    set("PEER_SERVER", url->host);
    set("PEER_PORT", port);
    set("PEER_DATABASE", url->path);
    set("PEER_USER", url->user);
    set("PEER_PASSWORD", getenv("RENDERQ_PASSWORD") && !url->password ? getenv("RENDERQ_PASSWORD") : url->password);
    set("PEER_SQL", folders);
    set("PEER_TABLE", table);
    set("PEER_PAYLOAD", payload());
    set("DOTNET_CLI_TELEMETRY_OPTOUT", "1");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execlp(kind->command, kind->command, program, (char *)NULL);
    _exit(127);
}

static void expect(peer *p, const char *answer)
{
    char line[100] = "";
    if (!fgets(line, sizeof line, p->out) || strncmp(line, answer, strlen(answer)) != 0)
        die("a peer said \"%s\" instead of \"%s\"", line, answer);
}

static void start(const bench_run *run, const struct peer_kind *kind, const rq_url *url, const char *program, peer *p)
{
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0)
        die("pipe: %s", strerror(errno));
    fflush(NULL);
    p->pid = fork();
    if (p->pid < 0)
        die("fork: %s", strerror(errno));
    if (p->pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        close(in[1]);
        close(out[0]);
        exec_peer(run, kind, url, program, ((ss_conn *)p->ours->conn)->babelfish);
    }
    close(in[0]);
    close(out[1]);
    p->in = fdopen(in[1], "w");
    p->out = fdopen(out[0], "r");
    if (!p->in || !p->out)
        die("fdopen: %s", strerror(errno));
    expect(p, "ready");
}

static void stop(peer *p)
{
    fclose(p->in);              /* it ends at the end of its input */
    fclose(p->out);
    waitpid(p->pid, NULL, 0);
}

/* ---- the rounds ---- */

static void ours_stage(void *arg, int stage)
{
    peer *p = arg;
    if (stage == ENQUEUE)
        ours_enqueue(p->ours, p->jobs, 1);
    else
        ours_work(p->ours, p->jobs, 1);
}

static void peer_stage(void *arg, int stage)
{
    peer *p = arg;
    fprintf(p->in, "%s %zu\n", stage == ENQUEUE ? "enqueue" : "work", p->jobs);
    fflush(p->in);
    expect(p, "done");
}

static void measure(const bench_run *run, const struct peer_kind *kind, peer *p)
{
    /* Plans and compiled code are there before the first round. */
    for (int stage = 0; stage < PEER_STAGES; stage++) {
        ours_stage(p, stage);
        peer_stage(p, stage);
    }
    contest_result results[PEER_STAGES];
    compete(&(contest){ .ours = ours_stage, .base = peer_stage, .arg = p, .rounds = ROUNDS,
                        .seconds = scaled_s(run, SECONDS), .stages = PEER_STAGES }, results);
    for (int stage = 0; stage < PEER_STAGES; stage++)
        report(&(figure){ .name = kind->figures[stage], .unit = "jobs/s",
                          .ours = (double)p->jobs / results[stage].ours_s,
                          .base = (double)p->jobs / results[stage].base_s, .ratio = 1 / results[stage].ratio,
                          .rule = NO_TARGET });
}

static void beside(const bench_run *run, const struct peer_kind *kind, const char *test_url, const rq_url *url)
{
    char program[4600], table[40];
    peer p = { .jobs = run->quick ? JOBS / 5 : JOBS };
    snprintf(program, sizeof program, "%s/peers/%s/%s", folder_of_self(), kind->name, kind->program);
    if (access(program, R_OK) != 0) {
        report_note("(%s was not built, so there is nothing to compare with)", program);
        return;
    }
    snprintf(table, sizeof table, "bench_%s", kind->name);
    renderq_close(open_queue(test_url, table));
    p.ours = open_queue(test_url, "bench_ours");
    start(run, kind, url, program, &p);
    measure(run, kind, &p);
    stop(&p);
    renderq_close(p.ours);
    drop_table(test_url, table);
    drop_table(test_url, "bench_ours");
}

void bench_peers(const bench_run *run)
{
    const char *test_url = getenv("RENDERQ_TEST_URL");
    char why[512];
    rq_url url;
    report_group("On the server of RENDERQ_TEST_URL", "librenderq", "the other");
    if (!test_url || rq_url_parse(test_url, &url, why, sizeof why) != RENDERQ_OK) {
        report_note("(skipped: %s)", test_url ? why : "RENDERQ_TEST_URL names no server");
        return;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        beside(run, &kinds[i], test_url, &url);
    rq_url_free(&url);
}
