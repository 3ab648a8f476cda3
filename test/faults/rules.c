/* rules.c: what may be answered by whoever met a fault, and what the rows are then. No trial has an answer of its
 * own. */
#include <string.h>

#include "driver.h"
#include "trial.h"

#define STOP_S    5                 /* what the library gives a server to obey */
#define TICK_S    1
#define SLACK_S   50                /* machines are busy; less than a command may take that nothing ends earlier */
#define STAYS_S   3
#define TRICKLE_S 10

static bool at(const trial *k, const char *request)
{
    return strcmp(k->request, request) == 0;
}

bool trial_while_connecting(const trial *k)
{
    return at(k, "login") || at(k, "session");
}

/* No error undoes what was tidied up after, and its own is not told. */
bool trial_while_tidying(const trial *k)
{
    return at(k, "rollback");
}

static bool is_refusal(renderq_status status)
{
    return status != OK && status != BUSY && status != UNCERTAIN && status != DISCONNECTED;
}

/* ---- alone ---- */

static renderq_status wanted_alone(const trial *k)
{
    renderq_status answer = k->fault->answer;
    if (k->mode != REPEATED)
        return k->prior == REFUSED ? BUSY : answer;
    if (!is_refusal(answer) || trial_while_connecting(k) || trial_while_tidying(k))
        return OK;
    return k->prior == REPLY_LOST ? UNCERTAIN : answer;
}

/* ---- in a transaction ---- */

/* Whether the error leaves the transaction as it was: a text that turns XACT_ABORT off for itself says so. */
static bool leaves_it(const trial *k)
{
    const char *sql = rq_sql_find(rq_sql_sqlserver, k->request);
    return k->fault->number != 1205 && !k->fault->cut && sql && strstr(sql, "SET XACT_ABORT OFF");
}

static bool is_inside(const trial *k)
{
    return !at(k, "begin") && !at(k, "commit") && !at(k, "rollback");
}

static renderq_status wanted_inside(const trial *k)
{
    renderq_status answer = k->fault->answer;
    if (answer == OK || !is_inside(k))
        return OK;
    return answer != UNCERTAIN && leaves_it(k) ? answer : ABORTED;
}

/* A transaction whose beginning got lost has ended with its connection. */
renderq_status trial_begin_wanted(const trial *k)
{
    renderq_status answer = k->fault->answer;
    if (!at(k, "begin") || answer == OK || (k->mode == REPEATED && !is_refusal(answer)))
        return OK;
    return answer == UNCERTAIN ? DISCONNECTED : answer;
}

/* Nobody knows of a received job's transaction before there is an answer: what ends it is tried again. */
static renderq_status wanted_of_receive(const trial *k)
{
    renderq_status answer = k->fault->answer;
    if (at(k, "commit") || (k->mode == REPEATED && !is_refusal(answer)))
        return OK;
    return answer == UNCERTAIN && !at(k, "claim") ? DISCONNECTED : answer;
}

renderq_status trial_commit_wanted(const trial *k, renderq_status call)
{
    renderq_status answer = k->fault->answer;
    if (call == ABORTED)
        return ABORTED;
    if (!at(k, "commit"))
        return OK;
    if (answer != UNCERTAIN || k->plan != RECEIVED || k->mode == STAYS)
        return answer;
    return k->fault->happens ? OK : ABORTED;        /* the row tells */
}

/* ---- both ---- */

renderq_status trial_wanted(const trial *k)
{
    return k->plan == ALONE ? wanted_alone(k) : k->plan == RECEIVED ? wanted_of_receive(k) : wanted_inside(k);
}

bool trial_may_be(const trial *k, renderq_status got)
{
    if (!k->fault->words && (k->mode == ONCE || k->plan == RECEIVED))
        return got == DISCONNECTED || got == UNCERTAIN;     /* that it was cut may show before anything is sent */
    return k->fault->lies || (k->fault->or_ok && got == OK);
}

bool trial_happened(const trial *k, renderq_status got)
{
    if (got == OK || k->prior == REPLY_LOST)
        return true;
    if (k->prior == REFUSED)
        return false;
    if (k->plan != ALONE)
        return got == UNCERTAIN && k->fault->happens;       /* only a commit's */
    if (k->at > k->call->writes_at)
        return true;
    return k->at == k->call->writes_at && k->fault->happens;
}

/* Bulk counts say less where a reply with some of them was lost. */
bool trial_is_exact(const trial *k)
{
    return k->prior != REPLY_LOST && (k->plan != ALONE || k->fault->answer == OK || !k->fault->happens);
}

int64_t trial_longest_ms(const trial *k)
{
    int64_t s = SLACK_S + (k->mode == STAYS ? STAYS_S : 0);
    if (k->fault->waits)
        s += COMMAND_S + TICK_S + STOP_S + TICK_S;
    if (k->fault->or_ok)
        s += TRICKLE_S;             /* a reply that keeps coming is read to the end of its row */
    return s * 1000 * (under_valgrind() ? 5 : 1);
}
