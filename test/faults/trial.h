/* trial.h: one call that meets one fault: what the fault is (table.c), what may be answered then (rules.c), and how it
 * is played (play.c). matrix.c has all of them played. */
#ifndef TEST_FAULTS_TRIAL_H
#define TEST_FAULTS_TRIAL_H

#include "faults.h"

#define OK           RENDERQ_OK
#define BUSY         RENDERQ_BUSY
#define ABORTED      RENDERQ_ABORTED
#define UNCERTAIN    RENDERQ_UNCERTAIN
#define DISCONNECTED RENDERQ_DISCONNECTED

/* What the library can know of a request that met it, and whether it took effect. */
typedef struct fault {
    const char *name;
    const char *words;              /* NULL: the session is cut in front of the call */
    renderq_status answer;          /* OK: the call takes no notice; UNCERTAIN: the reply was lost */
    bool happens;
    int number;                     /* of the server's error */
    bool cut;                       /* ... behind which the connection ends */
    bool waits;                     /* the call ends by its deadline */
    bool late;                      /* it happens after the answer */
    bool stays;                     /* also played as one that does not go away */
    bool or_ok;                     /* it may as well be taken no notice of */
    bool lies;                      /* the reply is whole, and wrong: nobody can tell */
    bool of_rows;                   /* only where there are some */
} fault;

extern const fault faults[];
extern const size_t n_faults;

/* What is called. */
typedef enum plan {
    ALONE,                          /* the call */
    JOINED,                         /* begin, the call, commit */
    UNDONE,                         /* begin, the call, rollback */
    RECEIVED,                       /* receive, commit: the call is none of the suite's */
    PLANS
} plan;

/* How the handle was opened, and how long the fault stays. */
typedef enum mode {
    REPEATED,                       /* the fault passes, and the library tries again */
    ONCE,                           /* the library does not try again */
    STAYS,                          /* the fault stays, and the library gives up */
    MODES
} mode;

/* What went before the fault within the call: so the library's repeats and look-ups meet faults too. */
typedef enum prior { NO_PRIOR, REPLY_LOST, REFUSED, PRIORS } prior;

/* The words of a prior fault. */
extern const char *const prior_words[PRIORS];

typedef struct trial {
    plan plan;
    const scene_call *call;
    const fault *fault;
    mode mode;
    prior prior;
    size_t at;                      /* the request's place among all, counted from 0 */
    char request[32];               /* its name, and which one of this name it is */
    int nth;
    char first[32];                 /* the request that the prior fault is for */
    int first_nth;
} trial;

void trial_describe(const trial *k, char *out, size_t size);

/* ---- rules.c ---- */

/* What the call answers, and receive in its place. */
renderq_status trial_wanted(const trial *k);
/* What begin answers. */
renderq_status trial_begin_wanted(const trial *k);
/* What the commit answers that follows a call which answered so. */
renderq_status trial_commit_wanted(const trial *k, renderq_status call);
/* Other answers of the call that are as good. */
bool trial_may_be(const trial *k, renderq_status got);
/* Whether the rows are those of a call that was done; the last answer was this. */
bool trial_happened(const trial *k, renderq_status got);
/* Whether a call that is OK gives whole counts. */
bool trial_is_exact(const trial *k);
int64_t trial_longest_ms(const trial *k);

bool trial_while_connecting(const trial *k);
bool trial_while_tidying(const trial *k);

/* ---- play.c ---- */

#define COMMAND_S (under_valgrind() ? 5 : 2)    /* where the server is silent */
#define RETRY_S   45

/* A handle for it. It has much time; trial_hurry() gives it that of the trial. */
renderq *trial_open(const lane *l, const trial *k);
void trial_hurry(renderq *h, const trial *k);

/* Plays it; a failure is one of the test that runs. */
void trial_play(const lane *l, const trial *k);

/* ---- choose.c ---- */

#define CALLS_MAX 40

/* The requests that each call makes, as the server saw them. */
typedef struct sight {
    char alone[CALLS_MAX][PRIORS][512];
    char inside[CALLS_MAX][512];        /* with begin and commit; "": the call is none for a transaction */
    char received[512];                 /* receive and commit */
} sight;

void choose_look(const lane *l, sight *seen);

/* All trials that follow from it, those first that wait; `quick`: of a few calls. How many. */
size_t choose(const sight *seen, bool quick, trial *out, size_t max);

#endif
