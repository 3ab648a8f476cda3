/* kit.h: what the tests of the worker runtime share: a queue of its own for each test, on whatever engine the program's
 * URL names, and a worker in a thread whose handler and events are looked at. */
#ifndef TEST_WORKER_KIT_H
#define TEST_WORKER_KIT_H

#include <pthread.h>

#include "support.h"

#define TEXT_MAX_BYTES 256
#define PATIENCE_MS 60000       /* for what is bound to happen: a starved machine stands still for seconds */

/* What a test's handler does with a job, by the first letter of its composition:
 *   d  done                                                         e  done, with an output URL of its payload
 *   f  fails                                                        n  fails for ever
 *   r  goes back at the first call, then done                       l  done after `slow_ms`, asking nothing
 *   w  waits until it is told to stop, then goes back               h  does not return until `let_go`, then done
 *   s  like h, but gives a progress first                           x  kills its process
 *   u  like h, and says all the time that it fails
 *   b  done once all threads are in such a handler
 * Handlers run while the test looks elsewhere, perhaps for long, so what happens during one needs h and not l. */
typedef struct kit {
    char queue[64], url[1024];
    renderq *h;

    renderq_worker_options options;
    renderq_worker *w;
    pthread_t thread;
    bool runs;
    renderq_status answer;                  /* of renderq_worker_run() */
    int64_t ended_ms;
    int ended;                              /* run() has returned; atomic */
    int slow_ms;
    int child_says[2];                      /* a pipe, a byte for each handler that began; 0 is none */
    int child_hears[2];                     /* a pipe with a byte in it once the child's handlers may go */

    pthread_mutex_t lock;                   /* of all below */
    int let_go, met;
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
/* One that becomes a dead letter when it fails. */
renderq_id put_without_retries(kit *k, const char *composition);

/* Moves rows' times, as some other program: all leases have run out, all delays are over. For when no worker is at work
 * on them. */
void run_out(kit *k);
void make_due(kit *k);

/* Ends the leases that have run out. */
void reap(kit *k);

/* Makes the worker from k->options, and runs it in a thread, or here. Handlers have a minute to end and another one to
 * hear that they should, unless the test says otherwise. */
void make(kit *k);
void start(kit *k);
void stop(kit *k);
/* Waits for run()'s end, and returns what it answered; fails after three minutes. */
renderq_status wait_end(kit *k);
renderq_status run_here(kit *k);

/* Waits until something is true that is bound to be, and fails after PATIENCE_MS. */
#define wait_until(condition)                                                                       \
    do {                                                                                            \
        bool met_ = false;                                                                          \
        for (int64_t end_ = now_ms() + PATIENCE_MS; !(met_ = (condition)) && now_ms() < end_;)      \
            sleep_ms(5);                                                                            \
        if (!met_)                                                                                  \
            print_error("this did not happen: %s\n", #condition);                                   \
        assert_true(met_);                                                                          \
    } while (0)

/* Waits until an event has come n times. */
void wait_event(kit *k, renderq_event_type type, size_t n);
size_t events(kit *k, renderq_event_type type);
size_t handlers_now(kit *k);
void let_go(kit *k);

/* For a worker in a child process, whose counters are its own: call the first before the fork; the second waits until
 * the child's handlers have begun n times. The rows tell too early: they are the child's from the claim on, whose reply
 * may still be on its way. The third is let_go() for the child. */
void begins_in_child(kit *k);
void wait_begun_in_child(kit *k, size_t n);
void let_go_in_child(kit *k);

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
int run_refused(void);
int run_transact(void);
int run_soak(void);

#endif
