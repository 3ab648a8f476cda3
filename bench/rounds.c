/* rounds.c: a million jobs go through a table that holds ten, each enqueued, claimed, completed and purged; what
 * wears out would show at the end. renderq_purge() spares what ended in the last minute, so plain SQL moves the
 * rows' times back before each purge; that is not counted. synchronous=normal, as in scale.c. */
#include "bench.h"

#include <stdlib.h>

#define LIVE 10
#define STEP 1000           /* rounds between purges */
#define WINDOW_S 60.0

static void purge(renderq *h, size_t expected)
{
    int64_t deleted;
    ours_check(h, renderq_purge(h, NULL, 60, &deleted), "purge");
    if ((size_t)deleted != expected)
        die("%lld jobs were purged, not %zu", (long long)deleted, expected);
}

/* Seconds a round in steps [from, to). */
static double pace(const double *took_s, size_t from, size_t to)
{
    double sum = 0;
    for (size_t i = from; i < to; i++)
        sum += took_s[i];
    return sum / ((double)(to - from) * STEP);
}

/* The number of steps that fill a minute, from the front or from the back; in a short run, half of it. */
static size_t minute(const double *took_s, size_t n, bool from_back)
{
    double sum = 0;
    size_t count = 0;
    while (count < n / 2 && sum < WINDOW_S) {
        sum += took_s[from_back ? n - 1 - count : count];
        count++;
    }
    return count;
}

void bench_rounds(const bench_run *run)
{
    size_t n = scaled(run, 1000000) / STEP;
    double *took_s = allocate(n * sizeof *took_s), *size_mb = allocate(n * sizeof *size_mb);
    char *path = path_in(run, "rounds.db");
    report_group("A million jobs through a table of ten", "last minute", "first minute");
    ours_create(path);
    renderq *h = ours_open(path, "normal");
    sqlite3 *db = sql_open(path, "off");
    sqlite3_stmt *age = sql_prepare(db, "UPDATE VideoRenderJobs SET CompletedAtUtc = CompletedAtUtc - 61000 "
                                        "WHERE Status = 'Completed'");
    ours_enqueue(h, LIVE, LIVE);
    for (size_t i = 0; i < n; i++) {
        double began = now_s();
        for (int k = 0; k < STEP; k++) {
            ours_enqueue(h, 1, 1);
            ours_work(h, 1, 1);
        }
        took_s[i] = now_s() - began;
        sql_run(age);
        began = now_s();
        purge(h, STEP);
        took_s[i] += now_s() - began;
        size_mb[i] = file_mb(path);
    }
    size_t first = minute(took_s, n, false), last = minute(took_s, n, true);
    double ours = pace(took_s, n - last, n), base = pace(took_s, 0, first);
    report(&(figure){ .name = "enqueue, claim, complete and purge one", .unit = "us", .ours = ours * 1e6,
                      .base = base * 1e6, .ratio = ours / base, .rule = AT_MOST, .target = 1.3 });
    report(&(figure){ .name = "the file and its log at the end of it", .unit = "MB", .ours = size_mb[n - 1],
                      .base = size_mb[first - 1], .ratio = size_mb[n - 1] / size_mb[first - 1], .rule = NO_TARGET });
    sqlite3_finalize(age);
    sqlite3_close(db);
    renderq_close(h);
    free(path);
    free(size_mb);
    free(took_s);
}
