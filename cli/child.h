/* child.h: one run of the program: its process group, its payload fed, its output kept. No database, no job's
 * fate. Several threads may have one each. */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <renderq.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "guard.h"
#include "live.h"
#include "output.h"

typedef struct child {
    pid_t pid;                      /* and its process group's */
    const guard *guard;
    live *live;                     /* what is passed on goes through it */
    int exit_fd;                    /* becomes readable when it exits; -1: the kernel has no such thing */
    int in, out, err;               /* our ends of its pipes; -1: closed */
    const char *payload;            /* what is still to be fed */
    size_t payload_left;
    last_line out_line;
    tail err_tail;
    char pass[4096];                /* of its standard error, on its way to ours */
    size_t pass_len;
    bool exited;
    int64_t drain_until_ms;         /* after the exit: how long its pipes are waited for */
    int code;                       /* its exit code; -1: a signal ended it */
    int signal;
} child;

/* Programs get the descriptors that are open now (a lock, a jobserver), and none that is opened later: FreeTDS leaves
 * its sockets open over exec(), and with one goes a session that is logged in. */
void child_inherits(void);

/* Starts argv for the job. False: errno says why the program cannot be run. argv and the job's payload stay the
 * caller's until child_end(). */
bool child_start(child *c, char **argv, const renderq_job *job, const guard *g, live *l);

/* Serves its pipes until something happens, at most timeout_ms. True: it has ended. */
bool child_serve(child *c, int64_t timeout_ms);

/* Sends its process group a signal. */
void child_signal(const child *c, int number);

/* After child_serve() said true: ends what it left behind in its process group, and reaps it. */
void child_end(child *c);

#endif
