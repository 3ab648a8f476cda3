/* suite.h: what every file of the suite works with: a fresh queue for each test, short ways to make and take jobs,
 * and checks of statuses and of raw columns. */
#ifndef CONFORMANCE_SUITE_H
#define CONFORMANCE_SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine.h"
#include "native.h"
#include "renderq.h"

#define count_of(a) (sizeof (a) / sizeof (a)[0])

#define EMOJI "\xF0\x9F\x98\x80"            /* two UTF-16 units in four bytes */
#define UMLAUT "\xC3\xA4"
#define SUITE_RETRY_S 40                    /* many connections of a slow server fit in it; no test waits for its end */
#define SUITE_CONNECT_S 60                  /* nor for the end of these, however busy the machine is */
#define SUITE_COMMAND_S 120
#define SUITE_LONG_MS 40000                 /* a call that lasts so long waits for what it should not wait for */
#define NOBODY "00000000-0000-8000-8000-00000000ABCD"

typedef struct suite {
    char queue[64];         /* a table of its own for each test, made and dropped around it */
    char url[1024];         /* names that queue */
    renderq *h;             /* worker "node-1" */
    const engine_ops *ops;
    engine *e;              /* some other program, on the same table */
    const native_ops *native;
} suite;

/* The URL that the program was given. */
extern const char *suite_url;

/* The other program says its statements in T-SQL, over the wire, whatever is behind it. */
extern bool suite_their_tsql;

/* Setup and teardown of every test; the first makes no table yet. */
int suite_begin_bare(void **state);
int suite_begin(void **state);
int suite_end(void **state);

#define TEST(function) cmocka_unit_test_setup_teardown(function, suite_begin, suite_end)
#define TEST_BARE(function) cmocka_unit_test_setup_teardown(function, suite_begin_bare, suite_end)

/* The groups, one a file: how many tests failed. */
int run_life(void);
int run_lease(void);
int run_start(void);
int run_foreign(void);
int run_faults(void);
int run_repeat(void);
int run_interrupted(void);
int run_ghost(void);
int run_retry(void);
int run_dedup(void);
int run_text(void);
int run_heal(void);
int run_operate(void);
int run_list(void);
int run_input(void);
int run_structs(void);
int run_many(void);
int run_busy(void);
int run_concurrency(void);
int run_transaction(void);
int run_receive(void);
int run_aborted(void);
int run_attach(void);
int run_states(void);
int run_beside(void);

/* ---- more connections ---- */

/* Another handle on the queue; extra is more of the URL ("name=value"), or NULL. Closed by the caller. */
renderq *suite_open(const suite *s, const char *worker, const char *extra);

/* Claims from an empty queue, so that what a server does at a connection's first statements is over before a test looks
 * at the clock. */
void suite_warm(renderq *h);

/* suite_url with a queue's name put in, percent-encoded where it must be. */
void suite_url_for(char *out, size_t size, const char *queue, const char *extra);

/* Ends a test that needs what the engine cannot do: it is skipped, and says why. */
void suite_needs(suite *s, engine_ability ability);

/* ---- a program's own SQL ---- */

/* A table of the program's own, (k, v) with the key 'there' in it; made on a connection of ours or of its own. */
void own_table(suite *s, char *name, size_t size);
void own_put(const suite *s, void *native, const char *table, const char *key);
int64_t own_rows(suite *s, const char *table);
void own_drop(suite *s, const char *table);

/* A connection of the program's own on the suite's database. */
void *own_connection(const suite *s);

/* ---- statuses ---- */

/* Fails the test unless `got` is `want`. Whatever is not OK must have a text of one line. */
void expect_at(const renderq *h, renderq_status want, renderq_status got, const char *file, int line);
/* The call comes first, as it may make the handle. */
#define expect(h, want, got)                                            \
    do {                                                                \
        renderq_status got_ = (got);                                    \
        expect_at((h), (want), got_, __FILE__, __LINE__);               \
    } while (0)
#define expect_ok(h, got) expect((h), RENDERQ_OK, (got))

/* The handle's text has this in it. */
void expect_said_at(const renderq *h, const char *word, const char *file, int line);
#define expect_said(h, word) expect_said_at((h), (word), __FILE__, __LINE__)

/* INVALID, with a text that names the field. */
#define expect_invalid(h, word, got)                                    \
    do {                                                                \
        expect((h), RENDERQ_INVALID, (got));                            \
        expect_said((h), (word));                                       \
    } while (0)

/* ---- jobs ---- */

renderq_id put(suite *s, const char *composition_id);
renderq_id put_job(suite *s, const renderq_new_job *job);
renderq_id put_key(suite *s, const char *dedup_key);

/* Claims one job, which must be there. */
renderq_job *take(renderq *h);
renderq_job *take_for(renderq *h, const char *worker, int lease_s, bool unstarted);
/* ... and it must be this one. */
renderq_job *take_this(renderq *h, const renderq_id *id);
void take_none(renderq *h);

/* A new job that a worker holds. */
renderq_job *put_and_take(suite *s, const char *composition_id);

/* A copy of the job as another process would resume it. */
renderq_job *resume(renderq *h, const renderq_job *job);
renderq_job *get(suite *s, const renderq_id *id);

/* A new job in that state, with the lease void; OTHER is Status 'Paused'. */
renderq_id put_in_state(suite *s, renderq_state state);

void same_id(const renderq_id *a, const renderq_id *b);

/* ---- raw columns ---- */

void expect_text_at(suite *s, const renderq_id *id, const char *column, const char *want, const char *file,
                    int line);
void expect_number_at(suite *s, const renderq_id *id, const char *column, int64_t want, const char *file,
                      int line);
void expect_null_at(suite *s, const renderq_id *id, const char *column, bool null, const char *file, int line);
#define expect_text(s, id, column, want) expect_text_at((s), (id), (column), (want), __FILE__, __LINE__)
#define expect_number(s, id, column, want) expect_number_at((s), (id), (column), (want), __FILE__, __LINE__)
#define expect_null(s, id, column) expect_null_at((s), (id), (column), true, __FILE__, __LINE__)
#define expect_set(s, id, column) expect_null_at((s), (id), (column), false, __FILE__, __LINE__)
#define expect_status(s, id, want) expect_text_at((s), (id), "Status", (want), __FILE__, __LINE__)

/* All of these are NULL; the list ends with NULL. */
void expect_nulls_at(suite *s, const renderq_id *id, const char *const *columns, const char *file, int line);
#define expect_nulls(s, id, ...) \
    expect_nulls_at((s), (id), (const char *const[]){ __VA_ARGS__, NULL }, __FILE__, __LINE__)

int64_t number_of(suite *s, const renderq_id *id, const char *column);      /* must not be NULL */
void set_number(suite *s, const renderq_id *id, const char *column, int64_t number);
void set_text(suite *s, const renderq_id *id, const char *column, const char *text);
bool set_null(suite *s, const renderq_id *id, const char *column);
void shift(suite *s, const renderq_id *id, const char *column, int64_t ms); /* a time that is set */

/* Moves the lease (both times) back, so that it ran out just so many milliseconds ago. */
void run_out(suite *s, const renderq_id *id, int64_t ago_ms);

/* Moves DueAtUtc back to now. */
void make_due(suite *s, const renderq_id *id);

size_t count_rows(suite *s);
bool row_there(suite *s, const renderq_id *id);

/* Every column of the row, or of all rows, as one text to be freed. */
char *snapshot(suite *s, const renderq_id *id);
char *snapshot_all(suite *s);

/* The row, or all rows, are as they were; frees the text. */
void expect_unchanged(suite *s, const renderq_id *id, char *before);
void expect_all_unchanged(suite *s, char *before);

/* ---- the rest ---- */

/* n characters 'x', to be freed; units(n, tail) ends in the tail, which counts as tail_units of the n. */
char *xs(size_t n);
char *units(size_t n, const char *tail, size_t tail_units);

int64_t clock_ms(void);
void sleep_ms(int ms);

#endif
