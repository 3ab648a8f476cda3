/* faults.h: what the fault tests share: test servers that misbehave on request (test/tdsd/faults.py), and lanes:
 * children that play the conformance suite's scenes against them. Run by test/check-tds.sh. */
#ifndef TEST_FAULTS_H
#define TEST_FAULTS_H

#include <sys/types.h>

#include "conformance/calls.h"

#define PASSWORD "s3cret"

/* It is slow, so there it is a selection. */
bool under_valgrind(void);

/* ---- servers ---- */

typedef struct server {
    pid_t pid;
    int port;
    char db[64], control[64];       /* in the current folder */
} server;

/* Its files are called `name`; port 0: any. It ends at the latest with the process that started it. */
void server_start(server *s, const char *name, int port);
void server_stop(server *s);
/* No goodbye. */
void server_kill(server *s);

/* What it answers on its control socket to a line. */
void server_ask(const server *s, char *answer, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* ... which must be ok. */
void server_tell(const server *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- lanes ---- */

/* One client of a server, with a database of its own: what it asks for meets nobody else, and no lock does. */
typedef struct lane {
    const server *server;
    char app[16];                   /* its name, and its database's */
    char spare[32];                 /* another queue */
    suite *s;
} lane;

void lane_open(lane *l, const server *s, int number);
void lane_close(lane *l);

/* A handle that meets the lane's faults; the suite's own handle does not. */
renderq *lane_handle(const lane *l, const renderq_options *options);

/* How long the handle's connections and requests may last from now on; 0: longer than any busy machine takes. What is
 * to end by its time is in a hurry alone. */
void set_limits(renderq *h, int connect_s, int command_s);

/* do=... and the rest of a fault's words. */
void lane_fault(const lane *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lane_clear(const lane *l);
size_t lane_fired(const lane *l);

/* Puts a job into a queue of the lane's own, takes it and completes it: the handle is good. */
void lane_use(const lane *l, renderq *h);

/* ---- the parts: how many tests failed ---- */

int run_connect(void);
int run_request(void);
int run_attached(void);
int run_failover(void);
int run_matrix(void);

#endif
