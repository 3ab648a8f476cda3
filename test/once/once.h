/* once.h: what the parts of the test share: the messages, and what its processes write down. How it is played:
 * once.c. */
#ifndef TEST_ONCE_H
#define TEST_ONCE_H

#include <stdbool.h>
#include <stdint.h>

#include "../../examples/own_sql.h"
#include "renderq.h"

#define ONCE_IN         "OnceIncoming"
#define ONCE_OUT        "OnceOutgoing"
#define ONCE_CONSUMERS  4
#define ONCE_LEASE_S    1
#define ONCE_NAME       64
#define ONCE_GROUPS     7           /* follow-ups with a key: one a group, however many messages ask for it */
#define ONCE_RETRIES    30          /* so many that chance cannot use them up */
#define ONCE_POISON_RETRIES 1

/* A message's kind is told by its number, its name by both: "failing-17". */
typedef enum once_kind {
    ONCE_NORMAL,
    ONCE_FAILING,                   /* its first attempt does everything, and then fails */
    ONCE_BAD,                       /* each attempt does everything, and then says that none will do */
    ONCE_POISON                     /* each attempt does everything, and then kills its process */
} once_kind;

once_kind once_kind_of(int number);
void once_name(int number, char name[ONCE_NAME]);
int once_number(const char *name);          /* -1: it is no message's */

/* The tables of the test's own: Sent has a row for each message, from the transaction that sent it; Effects one for
 * each message that was handled. No key keeps them from having two. */
bool once_make_tables(own_engine engine, void *native);
bool once_insert(own_engine engine, void *native, const char *table, const char *name);
bool once_select(own_engine engine, void *native, const char *table, own_row_fn row, void *arg);

/* A handle, or the end of the process. */
renderq *once_connect(const char *url, const char *worker);

int64_t once_now_ms(void);          /* of CLOCK_MONOTONIC: the same in all processes */
void once_pause_ms(int ms);
int once_dice(uint64_t *state, int low, int high);

/* The processes: they end at SIGTERM. */
int consumer_main(const char *url, const char *name, const char *log);
int producer_main(const char *url, int messages);

/* ---- the log of a consumer's life ----
 *
 *     MS ask                       before a receive
 *     MS none STATUS               it brought nothing
 *     MS got NAME RETRIES          or this
 *     MS end NAME VERDICT STATUS   VERDICT: committed, failed, dead, released, or odd: an answer that nobody expects
 */

typedef struct once_span {
    int64_t from_ms, to_ms;
} once_span;

typedef struct once_play {
    const char *url, *folder;
    int messages;
    const once_span *pauses;
    int n_pauses, kills, lives;
} once_play;

/* Lays the rows and the logs beside each other. Prints what there was, and what is wrong. */
bool verify(const once_play *play, renderq *h, own_engine engine);

#endif
