/* bench.h: what the files of the benchmark share: the run, the report, the two sides that are compared, the filled
 * table, and small helpers. Each section is a file and one function here. */
#ifndef BENCH_H
#define BENCH_H

#include <renderq.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BATCH_MAX 100
#define PAYLOAD_LEN 300

typedef struct bench_run {
    const char *folder;         /* for files; removed at the end */
    const char *source;         /* the source tree */
    bool quick;                 /* everything that counts is a twentieth */
} bench_run;

/* n, or in a quick run a twentieth of it. */
size_t scaled(const bench_run *run, size_t n);
double scaled_s(const bench_run *run, double seconds);

/* ---- sections ---- */

void bench_loop(const bench_run *run);      /* one by one and in batches, against a bare loop */
void bench_scale(const bench_run *run);     /* claims with a million rows in the table */
void bench_rounds(const bench_run *run);    /* a million jobs through a table of ten */
void bench_idle(const bench_run *run);      /* claims that find nothing */
void bench_beside(const bench_run *run);    /* claims while another process counts and lists */
void bench_worker(const bench_run *run);    /* the runtime, against the bare loop at its best */
void bench_memory(const bench_run *run);    /* the claim of a large payload */
void bench_http(const bench_run *run);      /* hand-outs over HTTP */

/* Over the wire. The first three speak to test/tdsd, the last to the server that RENDERQ_TEST_URL names. */
void bench_trips(const bench_run *run);     /* how often each call asks the server */
void bench_cost(const bench_run *run);      /* instructions of a claim and an enqueue, against bare CT-Library */
void bench_handles(const bench_run *run);   /* memory of an idle handle, against a bare connection */
void bench_peers(const bench_run *run);     /* calls a second, beside Dapper and tedious */

/* ---- the report (report.c) ---- */

typedef enum rule { AT_LEAST, AT_MOST, NO_TARGET } rule;

typedef struct figure {
    const char *name, *unit;
    double ours, base, ratio;
    rule rule;
    double target;              /* of the ratio */
} figure;

/* Begins a group of figures; the heads stand over the two columns of numbers. */
void report_group(const char *title, const char *ours, const char *base);
void report(const figure *f);
void report_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes everything reported as JSON. */
void report_json(const char *path, const bench_run *run, double seconds);
void report_summary(double seconds);

/* ---- the two sides ---- */

/* A loop of prepared statements over sqlite3, as a program without a library has it (bare.c). */
typedef struct bare bare;
bare *bare_open(const char *path, const char *synchronous);
void bare_enqueue(bare *b, size_t n, size_t batch);
void bare_work(bare *b, size_t n, size_t batch);        /* claims and completes */
void bare_close(bare *b);

/* The same by the library (ours.c). */
renderq *ours_open(const char *path, const char *synchronous);
renderq *ours_open_url(const char *url);
void ours_create(const char *path);                     /* the file and its table, for either side */
void ours_enqueue(renderq *h, size_t n, size_t batch);
void ours_claim(renderq *h, size_t n, double *took_s);  /* claims, under WORKER; took_s: NULL, or n times */
void ours_work(renderq *h, size_t n, size_t batch);
void ours_check(renderq *h, renderq_status status, const char *doing);

#define WORKER "bench"

/* What every job carries: PAYLOAD_LEN bytes of JSON. */
const char *payload(void);

/* ---- tables (table.c) ---- */

/* The path of a queue with about a million ended and delayed rows, made by the first that asks. */
const char *filled_table(const bench_run *run);
void fill_leased(const char *path, size_t n);           /* adds jobs under leases that do not run out */
void forget_claimed(const char *path);                  /* deletes what ours_claim() claimed */

/* ---- helpers (util.c) ---- */

void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
double now_s(void);
int64_t unix_ms(void);
void *allocate(size_t size);
void random_fill(void *out, size_t len);
char *path_in(const bench_run *run, const char *name);  /* to be freed */
double file_mb(const char *path);                       /* with its log */

/* Ids as the library makes them: the time first, then a sequence, then random bits. */
void new_ids(unsigned char (*ids)[16], size_t n);

sqlite3 *sql_open(const char *path, const char *synchronous);
sqlite3_stmt *sql_prepare(sqlite3 *db, const char *sql);
void sql_exec(sqlite3 *db, const char *sql);
void sql_run(sqlite3_stmt *stmt);                       /* to its end; rows are dropped */

/* Sorts `values`; p from 0 to 1. */
double percentile(double *values, size_t n, double p);
double median(double *values, size_t n);

/* Times both sides in rounds, turn about, now one first, now the other, until there are enough or it has taken long
 * enough (the disk may be slow, the machine busy), though never in fewer than ROUNDS_MIN. A round has one stage or two;
 * what is given for a stage is the median time of each side, and the median of the rounds' ratios. */
#define STAGES_MAX 2
#define ROUNDS_MIN 6

typedef struct contest {
    void (*ours)(void *arg, int stage), (*base)(void *arg, int stage);
    void (*before)(void *arg), (*after)(void *arg);     /* each round, not timed; or NULL */
    void *arg;
    size_t rounds;
    double seconds;
    int stages;
} contest;

typedef struct contest_result {
    double ours_s, base_s, ratio;       /* ratio: time of ours by time of base */
} contest_result;

void compete(const contest *c, contest_result *results);

/* This program again, in another role (see bench.c); `out` receives the reading end of its standard output. */
pid_t start_role(const char *role, const char *path, int *out);
void role_count(const char *path);      /* "count": statistics until it is killed */
void role_list(const char *path);       /* "list": lists until it is killed */
void role_claim(const char *path);      /* "claim": one claim; prints its peak of memory in kB */
void role_wire(const char *task);       /* "wire": see wire_roles.c */

/* Statements begun by this program's connections, the library's included. */
uint64_t statements_begun(void);

#endif
