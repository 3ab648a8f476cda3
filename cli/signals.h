/* signals.h: SIGTERM, SIGINT and SIGHUP as a wish to stop, which the commands that take long look at. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <renderq.h>
#include <signal.h>

/* From here on these signals are counted, and end the call that waits on the handle. One that was ignored when the
 * program began (nohup) stays ignored. h may be NULL. */
void catch_signals(renderq *h);

/* How often a stop was asked for. */
int stops_asked(void);

/* The worker that these signals stop, too; NULL: none. The third one does not: it is the programs' end alone. */
void stop_worker(renderq_worker *w);

/* The handle goes away, or (h not NULL) another one is to be interrupted. */
void interrupt_handle(renderq *h);

/* Holds the signals back from this thread until they are let in again. */
void hold_signals(sigset_t *before);
void let_signals(const sigset_t *before);

/* In a child, before exec: as if nothing had been caught. */
void reset_signals(const sigset_t *before);

#endif
