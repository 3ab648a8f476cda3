/* util.c: helpers of the benchmark: time, files, ids, plain SQLite, percentiles, contests and roles. */
#include "bench.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- the process ---- */

void die(const char *format, ...)
{
    va_list args;
    fflush(stdout);
    fputs("bench: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(2);
}

size_t scaled(const bench_run *run, size_t n)
{
    return run->quick && n > 20 ? n / 20 : n;
}

double scaled_s(const bench_run *run, double seconds)
{
    return run->quick ? seconds / 20 : seconds;
}

double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int64_t unix_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void *allocate(size_t size)
{
    void *memory = malloc(size ? size : 1);
    if (!memory)
        die("out of memory");
    return memory;
}

pid_t start_role(const char *role, const char *path, int *out)
{
    int ends[2];
    if (pipe(ends) != 0)
        die("pipe: %s", strerror(errno));
    fflush(NULL);
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        die("fork: %s", strerror(errno));
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(2);
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", "bench", "--role", role, path, (char *)NULL);
        _exit(2);
    }
    close(ends[1]);
    *out = ends[0];
    return child;
}

/* ---- files ---- */

char *path_in(const bench_run *run, const char *name)
{
    size_t size = strlen(run->folder) + strlen(name) + 2;
    char *path = allocate(size);
    snprintf(path, size, "%s/%s", run->folder, name);
    return path;
}

double file_mb(const char *path)
{
    char log[4200];
    struct stat st;
    double bytes = stat(path, &st) == 0 ? (double)st.st_size : 0;
    snprintf(log, sizeof log, "%s-wal", path);
    if (stat(log, &st) == 0)
        bytes += (double)st.st_size;
    return bytes / 1e6;
}

/* ---- ids ---- */

void random_fill(void *out, size_t len)
{
    unsigned char *at = out;
    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);
        if (got < 0 && errno != EINTR)
            die("getrandom: %s", strerror(errno));
        if (got > 0) {
            at += got;
            len -= (size_t)got;
        }
    }
}

void new_ids(unsigned char (*ids)[16], size_t n)
{
    static int64_t last_ms;
    static unsigned seq;
    int64_t ms = unix_ms();
    random_fill(ids, n * sizeof ids[0]);
    for (size_t k = 0; k < n; k++) {
        if (ms > last_ms) {
            last_ms = ms;
            seq = 0;
        } else if (++seq > 0xFFFF) {
            last_ms++;
            seq = 0;
        }
        for (int i = 0; i < 6; i++)
            ids[k][i] = (unsigned char)(last_ms >> (40 - 8 * i));
        ids[k][6] = (unsigned char)(seq >> 8);
        ids[k][7] = (unsigned char)seq;
    }
}

/* ---- SQLite ---- */

sqlite3 *sql_open(const char *path, const char *synchronous)
{
    sqlite3 *db = NULL;
    char pragma[64];
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        die("opening %s: %s", path, db ? sqlite3_errmsg(db) : "out of memory");
    sqlite3_busy_timeout(db, 30000);
    snprintf(pragma, sizeof pragma, "PRAGMA synchronous = %s", synchronous);
    sql_exec(db, "PRAGMA journal_mode = WAL");
    sql_exec(db, pragma);
    return db;
}

sqlite3_stmt *sql_prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL) != SQLITE_OK)
        die("%s: %s", sqlite3_errmsg(db), sql);
    return stmt;
}

void sql_exec(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        die("%s: %s", sqlite3_errmsg(db), sql);
}

void sql_run(sqlite3_stmt *stmt)
{
    int rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        ;
    if (rc != SQLITE_DONE)
        die("%s: %s", sqlite3_errmsg(sqlite3_db_handle(stmt)), sqlite3_sql(stmt));
    sqlite3_reset(stmt);
}

/* ---- numbers ---- */

static int compare(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

double percentile(double *values, size_t n, double p)
{
    qsort(values, n, sizeof values[0], compare);
    size_t at = (size_t)(p * (double)n);
    return values[at < n ? at : n - 1];
}

double median(double *values, size_t n)
{
    double upper = percentile(values, n, 0.5);
    return n % 2 ? upper : (values[n / 2 - 1] + upper) / 2;
}

static double time_of(void (*side)(void *arg, int stage), void *arg, int stage)
{
    double began = now_s();
    side(arg, stage);
    return now_s() - began;
}

void compete(const contest *c, contest_result *results)
{
    double *ours[STAGES_MAX], *base[STAGES_MAX], *ratio = allocate(c->rounds * sizeof *ratio);
    for (int stage = 0; stage < c->stages; stage++) {
        ours[stage] = allocate(c->rounds * sizeof *ours[0]);
        base[stage] = allocate(c->rounds * sizeof *base[0]);
    }
    double began = now_s();
    size_t n = 0;
    for (; n < c->rounds && (n < ROUNDS_MIN || now_s() - began < c->seconds); n++) {
        if (c->before)
            c->before(c->arg);
        for (int stage = 0; stage < c->stages; stage++) {
            if (n % 2)
                ours[stage][n] = time_of(c->ours, c->arg, stage);
            base[stage][n] = time_of(c->base, c->arg, stage);
            if (n % 2 == 0)
                ours[stage][n] = time_of(c->ours, c->arg, stage);
        }
        if (c->after)
            c->after(c->arg);
    }
    for (int stage = 0; stage < c->stages; stage++) {
        for (size_t i = 0; i < n; i++)
            ratio[i] = ours[stage][i] / base[stage][i];
        results[stage] = (contest_result){ median(ours[stage], n), median(base[stage], n), median(ratio, n) };
        free(ours[stage]);
        free(base[stage]);
    }
    free(ratio);
}
