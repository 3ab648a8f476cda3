/* idle.c: claims that find nothing, on a table of a million rows that are not ready: another connection's write lock
 * does not hold them up, and a poll is one read. Reads are counted where the library calls SQLite: the program is
 * linked with --wrap=sqlite3_step. */
#include "bench.h"

#include <stdlib.h>

#define POLLS 1000
#define WAIT_S 3

int __real_sqlite3_step(sqlite3_stmt *stmt);
int __wrap_sqlite3_step(sqlite3_stmt *stmt);

static uint64_t begun;

int __wrap_sqlite3_step(sqlite3_stmt *stmt)
{
    begun += !sqlite3_stmt_busy(stmt);
    return __real_sqlite3_step(stmt);
}

uint64_t statements_begun(void)
{
    return begun;
}

/* One claim, which must find nothing; how long it took. */
static double poll_empty(renderq *h, int64_t wait_ms)
{
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_job *job;
    options.wait_ms = wait_ms;
    double began = now_s();
    renderq_status status = renderq_claim(h, &options, &job);
    double took_s = now_s() - began;
    if (status != RENDERQ_EMPTY)
        die("a claim in an empty queue: %s: %s", renderq_strstatus(status), renderq_errmsg(h));
    return took_s;
}

/* While another connection is in the middle of a write. */
static void beside_a_writer(renderq *h, const char *path)
{
    sqlite3 *writer = sql_open(path, "normal");
    double slowest = 0;
    uint64_t most = 0;
    sql_exec(writer, "BEGIN IMMEDIATE");
    sql_exec(writer, "UPDATE VideoRenderJobs SET Progress = 'x' WHERE rowid = 1");
    uint64_t before = statements_begun();
    poll_empty(h, 0);
    uint64_t first = statements_begun() - before;
    for (int i = 0; i < POLLS; i++) {
        before = statements_begun();
        double took_s = poll_empty(h, 0);
        uint64_t reads = statements_begun() - before;
        most = reads > most ? reads : most;
        slowest = took_s > slowest ? took_s : slowest;
    }
    sql_exec(writer, "ROLLBACK");
    sqlite3_close(writer);
    report(&(figure){ .name = "1,001 polls beside another's write: slowest", .unit = "ms", .ours = slowest * 1e3,
                      .base = 100, .ratio = slowest * 10, .rule = AT_MOST, .target = 1 });
    report(&(figure){ .name = "statements in a poll: most", .unit = "reads", .ours = (double)most, .base = 1,
                      .ratio = (double)most, .rule = AT_MOST, .target = 1 });
    report(&(figure){ .name = "one each 10 s looks for run-out leases too", .unit = "reads",
                      .ours = (double)first, .base = 2, .ratio = (double)first / 2, .rule = AT_MOST, .target = 1 });
}

static void waiting(renderq *h)
{
    uint64_t before = statements_begun();
    poll_empty(h, WAIT_S * 1000);
    double reads = (double)(statements_begun() - before), allowed = WAIT_S * 10;
    report(&(figure){ .name = "a claim that waits 3 s", .unit = "reads", .ours = reads, .base = allowed,
                      .ratio = reads / allowed, .rule = AT_MOST, .target = 1 });
}

typedef struct pair {
    renderq *full, *empty;
} pair;

static void poll_full(void *arg, int stage)
{
    (void)stage;
    for (int i = 0; i < POLLS; i++)
        poll_empty(((pair *)arg)->full, 0);
}

static void poll_near_empty(void *arg, int stage)
{
    (void)stage;
    for (int i = 0; i < POLLS; i++)
        poll_empty(((pair *)arg)->empty, 0);
}

void bench_idle(const bench_run *run)
{
    char *empty_path = path_in(run, "idle.db");
    report_group("A claim that finds nothing", "measured", "allowed");
    const char *full_path = filled_table(run);
    ours_create(empty_path);
    pair p = { .full = ours_open(full_path, "full"), .empty = ours_open(empty_path, "full") };
    beside_a_writer(p.full, full_path);
    waiting(p.full);
    contest_result result;
    compete(&(contest){ .ours = poll_full, .base = poll_near_empty, .arg = &p, .rounds = 20, .seconds = 5,
                        .stages = 1 }, &result);
    report_group("The time of such a claim", "million rows", "near-empty");
    report(&(figure){ .name = "a poll on a table of a million rows", .unit = "us", .ours = result.ours_s / POLLS * 1e6,
                      .base = result.base_s / POLLS * 1e6, .ratio = result.ratio, .rule = AT_MOST, .target = 1.3 });
    renderq_close(p.full);
    renderq_close(p.empty);
    free(empty_path);
}
