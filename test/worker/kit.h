/* kit.h: what the tests of the worker runtime share: a queue of its own for each test, on whatever engine the program's
 * URL names, and a worker in a thread whose handler and events are looked at. */
#ifndef TEST_WORKER_KIT_H
#define TEST_WORKER_KIT_H

#include <pthread.h>

#include "support.h"

#define TEXT_MAX_BYTES 256

/* What a test's handler does with a job, by the first letter of its composition:
 *   d  done          f  fails          r  goes back once, then done     l  done after `slow_ms`, asking nothing
 *   w  waits until it is told to stop, then goes back               s  like l, but gives a progress first
 *   h  does not return until `let_go`  x  kills its process         e  done, with an output URL of its payload */
typedef struct kit {
    char queue[64], url[1024];
    renderq *h;

    renderq_worker_options options;
    renderq_worker *w;
    pthread_t thread;
    bool runs;
    renderq_status answer;                  /* of renderq_worker_run() */
    int64_t ended_ms;
    int slow_ms;
    int child_says[2];                      /* a pipe, a byte for each handler that began; 0 is none */

    pthread_mutex_t lock;                   /* of all below */
    int let_go;
    size_t calls, at_once, most_at_once;    /* of the handler */
    size_t events[RENDERQ_EVENT_BACK + 1];
    int64_t started_ms;                     /* when the last handler began */
    renderq_stop_reason reasons[RENDERQ_STOP_LOST + 1];     /* how often handlers were told what */
    char last_text[RENDERQ_EVENT_BACK + 1][TEXT_MAX_BYTES];
    int last_dead;
    int64_t last_delay_ms, last_duration_ms;
    int in_callback;                        /* one is running; atomic */
    int overlaps;
    size_t warnings, infos;                 /* lines of the log */
    char lines[2000];
} kit;

extern const char *kit_url;

int kit_begin(void **state);
int kit_end(void **state);

#define TEST(function) cmocka_unit_test_setup_teardown(function, kit_begin, kit_end)

/* Jobs with that composition; the first one's id. */
renderq_id put_some(kit *k, const char *composition, size_t n);

/* Makes the worker from k->options, and runs it in a thread, or here. */
void make(kit *k);
void start(kit *k);
void stop(kit *k);
/* Waits for run()'s end, and returns what it answered. */
renderq_status wait_end(kit *k);
renderq_status run_here(kit *k);

/* Waits until an event has come n times, or a counter of the kit has; fails after twenty seconds. */
void wait_event(kit *k, renderq_event_type type, size_t n);
size_t events(kit *k, renderq_event_type type);
size_t handlers_now(kit *k);
void let_go(kit *k);

/* For a worker in a child process, whose counters are its own: call the first before the fork; the second waits until the
 * child's handlers have begun n times, and fails after twenty seconds. The rows tell too early: they are the child's from
 * the claim on, whose reply may still be on its way. */
void begins_in_child(kit *k);
void wait_begun_in_child(kit *k, size_t n);

/* The queue as it is now. */
renderq_counts counts(kit *k);
renderq_job *look(kit *k, const renderq_id *id);

#define expect(kit, got, wanted) expect_run((kit), (got), (wanted), __FILE__, __LINE__)
void expect_run(kit *k, renderq_status got, renderq_status wanted, const char *file, int line);
void expect_states(kit *k, int64_t queued, int64_t processing, int64_t completed, int64_t dead, int64_t scheduled,
                   const char *file, int line);
#define expect_queue(kit, queued, processing, completed, dead, scheduled) \
    expect_states((kit), (queued), (processing), (completed), (dead), (scheduled), __FILE__, __LINE__)

int run_outcome(void);
int run_ends(void);
int run_stop(void);
int run_lease(void);
int run_ahead(void);
int run_many(void);
int run_away(void);
int run_transact(void);
int run_soak(void);

#endif
