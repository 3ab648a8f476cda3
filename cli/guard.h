/* guard.h: a process that outlives renderq by a moment, to end what renderq leaves behind when it is killed. */
#ifndef CLI_GUARD_H
#define CLI_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct guard {
    pid_t pid;
    int to;                 /* a pipe; its end is what the guard waits for */
} guard;

/* Starts it. Before a database is opened: the guard must not hold one. False: errno says why. */
bool guard_start(guard *g);

/* A process group that is to die with renderq, or (false) need not any more. Told before the group's first process is
 * reaped, so that its number is not somebody else's yet. May be called between fork() and exec(). */
void guard_watch(const guard *g, pid_t group, bool watch);

void guard_stop(guard *g);

#endif
