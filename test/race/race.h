/* race.h: what the parts of the race share: its settings, the board that all its processes see, the audit file that
 * each of them writes, and the history that the verifier makes of those files. How it is played: race.c. */
#ifndef TEST_RACE_H
#define TEST_RACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "renderq.h"

#define RACE_LEASE_S    1
#define RACE_LEASE_US   (RACE_LEASE_S * INT64_C(1000000))
#define RACE_SLACK_US   10000           /* what the queue's clock, in milliseconds, and ours may differ over a lease */
#define RACE_POISON     "poison"        /* the composition of the job that kills its worker */
#define RACE_BATCH      20
#define RACE_NAME       32
#define RACE_WORKERS_MAX 64

/* ---- the play: race.c, worker.c, producer.c, operator.c ---- */

enum { RACE_PLAY, RACE_DRAIN, RACE_OVER };

typedef struct race_board {             /* in memory that all processes share */
    int phase;
    int producing;                      /* producers that are not done */
    int64_t live;                       /* jobs that have not ended, as the operator saw it last; -1: not yet */
    int drained;                        /* none were left in the drain */
    int orders[RACE_WORKERS_MAX];       /* a worker's next call is to be cut by this signal; 0: none */
    int calls[RACE_WORKERS_MAX];        /* that a worker has made in this life */
    int claims;                         /* that all workers have made: how fast the play goes */
} race_board;

typedef struct race {
    const char *url;
    uint64_t seed;
    int jobs, workers, seconds;
    int deadline_s;                     /* of a request; 0: the library's own */
    bool poison, faults, drop;
    char folder[256];                   /* of the audit files */
    int64_t start_us;
    race_board *board;
} race;

int worker_main(const race *r, const char *name, int index);
int producer_main(const race *r, const char *name, int jobs, bool poison);
int operator_main(const race *r);

int64_t race_now_us(const race *r);     /* of CLOCK_MONOTONIC, since the start: the same in every process */
int race_phase(const race *r);
void race_pause(int ms);
void race_pause_until_us(const race *r, int64_t at_us);

typedef struct dice {
    uint64_t state;
} dice;

dice dice_for(const race *r, const char *name);
int dice_within(dice *d, int low, int high);
bool dice_chance(dice *d, int percent);

/* ---- audit files: audit.c ----
 *
 * Two lines a step and a job, ask before the call and got after it:
 *     MICROSECONDS CALL.ITEM ask STEP JOB LEASE NUMBER MORE TEXT
 *     MICROSECONDS CALL.ITEM got STEP JOB LEASE STATUS OF RETRIES MAX_RETRIES TEXT
 * and one for what is no call:
 *     MICROSECONDS CALL.ITEM note STEP PROCESS
 * "-" stands for nothing. What NUMBER and MORE are is with the steps. */

typedef enum race_step {
    STEP_ENQUEUE,       /* NUMBER: delay in ms, MORE: retries, TEXT: composition,key */
    STEP_CLAIM,         /* NUMBER: unstarted, MORE: how many; got: OF so many, TEXT: composition */
    STEP_START,         /* TEXT: to whom; got: LEASE is the new one */
    STEP_RENEW,
    STEP_RESUME,
    STEP_COMPLETE,
    STEP_FAIL,          /* NUMBER: retry_ms */
    STEP_RELEASE,       /* NUMBER: delay in ms */
    STEP_CANCEL,
    STEP_RETRY,
    STEP_REAP,          /* got: RETRIES returned, MAX_RETRIES dead */
    STEP_KILL,          /* notes of what was done to a process */
    STEP_PAUSE,
    STEP_CONTINUE,
    STEP_POISONED,      /* a worker's note before it kills itself */
    STEP_GHOST,         /* of a process, in a claim: the reply to a request was lost, and it may still take effect */
    STEP_BROKE,         /* of a process, in a call: its connection broke, and it asks again */
    STEP_DEAD,          /* of a process that was killed: its parent has seen its end */
    STEPS,
    STEP_HELD,          /* of the verifier: this job's key kept another out, so it was live */
    STEP_NOT_HELD       /* another job became live with this one's key, so this one was not */
} race_step;

extern const char *const race_steps[STEPS];

typedef struct audit {
    const race *race;
    const char *name;                   /* of the process */
    int fd;
    unsigned call;
    int64_t at_us;
    size_t len;
    char text[32768];
} audit;

void audit_open(audit *a, const race *r, const char *name);
void audit_begin(audit *a);             /* a call begins: number and time of the lines to come */
void audit_end(audit *a);               /* it has returned: time of the lines to come */
void audit_ask(audit *a, int item, race_step step, const char *job, const char *lease, int64_t number, int more,
               const char *text);
void audit_got(audit *a, int item, race_step step, const char *job, const char *lease, renderq_status status, int of,
               int retries, int max_retries, const char *text);
void audit_note(audit *a, race_step step, const char *process);     /* a line and its write */
void audit_aside(audit *a, race_step step, const char *process);    /* the same, in the middle of a call */
void audit_write(audit *a);             /* all lines since the last, at once */

/* Ends the process if it cannot. Claims whose reply was lost are noted in the audit file; NULL: nowhere. */
renderq *race_connect(const race *r, const char *name, audit *a);

void race_reap(renderq *h, audit *a);

/* ---- the history: history.c ---- */

#define RACE_NEVER_US INT64_MAX

typedef struct race_op {                /* one call about one job */
    race_step step;
    renderq_status status;
    bool maybe;                         /* nobody heard the answer: it may have happened by after_us, or not */
    bool doubtful;                      /* a reply was lost: what is LOST now may have been done by this call before */
    bool again;                         /* said twice under one lease: the answer may be that of the first time */
    bool ghost;                         /* a claim's earlier request: what it took, its handle gives back */
    int64_t before_us, after_us;
    int actor;                          /* texts are numbers: history_text() */
    int job, lease, fresh, text;        /* fresh: START's new lease, or -1 */
    int64_t number;
    int more, retries, max_retries;
    const char *asked, *got;            /* the lines; got may be NULL */
} race_op;

typedef struct race_note {
    int process;
    int64_t from_us, to_us;
} race_note;

typedef struct race_row {
    int rows;                           /* 1, if all is well */
    renderq_state state;
    int retries, max_retries;
    int worker, lease, name, key;       /* lease: the one that completed it says so in the output URL; -1: none */
} race_row;

typedef struct race_job {
    int id, name, key, max_retries;     /* max_retries: 0 is none */
    bool enqueued;                      /* false: nobody did */
    int64_t enqueued_us;
    race_row row;
    race_op **ops;                      /* by before_us */
    size_t n;
} race_job;

typedef struct history {
    race_job *jobs;
    size_t n_jobs;
    race_op *ops;
    size_t n_ops, room_ops;
    race_op **claims;                   /* those whose answer nobody heard: each may have taken `more` jobs */
    size_t n_claims;
    int64_t deadline_us;                /* what took as long may have been asked twice */
    int n_ghosts;
    int claims_room, claims_used;       /* jobs that all of them may have taken; that the model needs them for */
    race_note *pauses;
    size_t n_pauses;
    race_note *deaths;                  /* from_us: when the process was certainly dead */
    size_t n_deaths;
    int kills, poisoned, unheard, reaped_returned, reaped_dead, duplicates;
    /* the texts, and the files that the lines point into */
    struct text_table *texts;
    char **files;
    size_t n_files;
} history;

bool history_read(history *t, const race *r, renderq *h);   /* false: it said why */
const char *history_text(const history *t, int text);       /* "-" for -1 */
void history_free(history *t);

/* ---- the proof: verify.c, model.c ---- */

bool verify(history *t, const race *r, renderq *h);         /* prints the summary, or the evidence */

/* Whether there is an order of all calls on a job that explains every answer and the row; why: what was wrong. */
bool model_explains(history *t, const race_job *job, char *why, size_t size);

#endif
