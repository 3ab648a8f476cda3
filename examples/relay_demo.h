/* relay_demo.h: what the parts of the relay's demo share. relay_demo.c runs it, relay_receiver.c is the web service
 * that receipts go to, relay_check.c checks. */
#ifndef RELAY_DEMO_H
#define RELAY_DEMO_H

#include <renderq.h>

#include "own_sql.h"
#include "play.h"

#define ORDERS      240
#define ACCOUNTS    40                      /* each has ORDERS / ACCOUNTS orders, and gets one statement */
#define PROGRAMS    5                       /* three relays and two drains */
#define INCOMING    "Incoming"
#define RECEIPTS    "Receipts"
#define STATEMENTS  "Statements"
#define POISON_RETRIES 1

/* The message of order n (0 ...): its composition, and where its account and its sum come from. */
#define ORDER_NAME   "order-%03d"
#define ORDER_CENTS(n)   (1000 + (n))
#define ORDER_ACCOUNT(n) ((n) % ACCOUNTS)
#define ACCOUNT_NAME "A-%02d"

typedef struct program {
    const char *name;
    char *argv[9];
    pid_t pid;                              /* 0: not running */
    int lives;                              /* of those before this one: lines of its log that say that it was ready */
    int killed, crashed, errors;            /* errors: ended by itself, or not cleanly */
} program;

/* What the web service has been sent. */
typedef struct receipt {
    char key[64];                           /* the Idempotency-Key, without its quotes */
    char body[300];
    int times, answered;                    /* answered: with 200 */
} receipt;

typedef struct receiver receiver;

/* Starts the service on a free port of 127.0.0.1. Of some new keys it loses the reply, once: the client cannot know
 * that it was heard. Returns NULL if it cannot. */
receiver *receiver_start(void);
int receiver_port(const receiver *r);

/* Ends it; what it got stays to be looked at. */
void receiver_stop(receiver *r);
int receiver_receipts(const receiver *r, const receipt **out);     /* how many */
int receiver_faults(const receiver *r);     /* requests that no drain should send */
int receiver_lost(const receiver *r);       /* replies that it has lost */
void receiver_free(receiver *r);

/* Checks everything that the demo claims, a line each on the standard output. */
void check_relay(renderq *h, own_engine engine, const program *programs, const receiver *r, const char *files);

#endif
