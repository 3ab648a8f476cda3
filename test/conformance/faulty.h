/* faulty.h: a driver around another one that loses requests and replies where a test says so. */
#ifndef CONFORMANCE_FAULTY_H
#define CONFORMANCE_FAULTY_H

#include "driver.h"
#include "suite.h"

typedef enum fault_kind {
    FAULT_NONE,
    FAULT_NOT_SENT,         /* DISCONNECTED; nothing happens */
    FAULT_BEFORE,           /* UNCERTAIN; nothing happens */
    FAULT_AFTER,            /* UNCERTAIN; it happened, and the rows came before the link broke */
    FAULT_AFTER_SILENT,     /* UNCERTAIN; it happened, and nothing came back */
    FAULT_LATER,            /* UNCERTAIN; it happens just before a later run: see later_by */
    FAULT_STOPPED,          /* UNCERTAIN; the server was told to stop and has: nothing happens, and the link stands */
    FAULT_STOPPED_AFTER,    /* ... it happened before */
    FAULT_ANSWER,           /* answers `status`; nothing happens, and the link stands */
    FAULT_LAST_ANSWER,      /* ... and the link breaks behind it */
    FAULT_ANSWER_AFTER      /* answers `status`; it happened, its rows came, and the link stands */
} fault_kind;

typedef struct fault {
    fault_kind kind;
    renderq_status status;              /* of the three last */
    unsigned later_by;                  /* FAULT_LATER: 1 is the next run, 2 the one after; 0 as 1 */
    void (*then)(void *arg);            /* called when the fault has happened: what others do meanwhile; of FAULT_NONE
                                           when the request comes, and so once the call has begun */
    void *arg;
    unsigned refuse_opens;              /* so many of the next opens fail ... */
    renderq_status refuse_with;         /* ... with this; 0: DISCONNECTED */
} fault;

#define FAULTS_MAX 16

/* Opens a handle on the suite's queue over the faulty driver; no fault yet. One such handle at a time. */
renderq *faulty_open(const suite *s, int retry_s);

/* The same with options of the test's own. */
renderq *faulty_open_with(const suite *s, const renderq_options *options);

/* One on the caller's connection. */
renderq *faulty_attach(const suite *s, void *native);

/* Opens another one under the plan that is there, and says what came of it. */
renderq_status faulty_open_again(const suite *s, renderq **out);

/* From now on run i (create counts as one) has fault i; later ones have none. Counts the runs from 0. */
void faulty_arm(const fault *faults, size_t n);

/* A single fault at run `at`. */
void faulty_arm_one(size_t at, fault one);

/* No more faults; ghosts that have not happened yet stay. */
void faulty_disarm(void);

/* Runs since it was armed. */
size_t faulty_runs(void);

/* The opens that come now fail. */
void faulty_refuse(unsigned opens, renderq_status with);

/* What was to happen later happens now; how much that was. */
size_t faulty_flush(void);

/* Forgets it. */
void faulty_forget(void);

#endif
