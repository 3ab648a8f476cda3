/* states.c: a job in every state that a queue has, each statement of the C# programs on it, and then each call of ours:
 * what becomes of the row, and what the call answers. The statements are those of this folder. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- states ---- */

typedef enum place {
    SCHEDULED,      /* enqueued with a delay */
    WAITING,        /* failed once, and waits for its retry */
    QUEUED,
    RETURNED,       /* released by us: queued again, and still carries our token */
    RUNNING,        /* under our lease */
    LONG,           /* under our lease of an hour, renewed last more than ten minutes ago */
    RUN_OUT,        /* our lease of half a minute has run out, and nobody has ended it */
    UNSTARTED,      /* claimed ahead of its turn */
    THEIRS,         /* Processing by their claim */
    THEIRS_OLD,     /* ... which was more than ten minutes ago */
    COMPLETED,
    DEAD,           /* at its first failure, by RENDERQ_NEVER */
    USED_UP,        /* dead after its fourth */
    CANCELLED,
    STATES
} place;

static const char *const names[STATES] = {
    "scheduled", "waiting", "queued", "returned", "running", "long", "run out", "unstarted", "theirs", "theirs, old",
    "completed", "dead", "used up", "cancelled"
};

static const renderq_state states[STATES] = {
    [SCHEDULED] = RENDERQ_SCHEDULED, [WAITING] = RENDERQ_SCHEDULED, [QUEUED] = RENDERQ_QUEUED,
    [RETURNED] = RENDERQ_QUEUED, [RUNNING] = RENDERQ_PROCESSING, [LONG] = RENDERQ_PROCESSING,
    [RUN_OUT] = RENDERQ_PROCESSING, [UNSTARTED] = RENDERQ_PROCESSING, [THEIRS] = RENDERQ_PROCESSING,
    [THEIRS_OLD] = RENDERQ_PROCESSING, [COMPLETED] = RENDERQ_COMPLETED, [DEAD] = RENDERQ_DEAD_LETTER,
    [USED_UP] = RENDERQ_DEAD_LETTER, [CANCELLED] = RENDERQ_CANCELLED
};

static renderq_job *enqueue_later(suite *s)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.composition_id = "intro";
    job.payload_json = "{}";
    job.delay_ms = 3600000;
    renderq_id id = put_job(s, &job);
    renderq_job *there = get(s, &id);
    strcpy(there->lease.text, NOBODY);      /* no worker ever had it */
    return there;
}

static void take_theirs(suite *s, const renderq_id *id)
{
    renderq_id got;
    assert_true(s->ops->claim(s->e, "csharp", &got));
    same_id(&got, id);
}

/* A job in that state; its lease is the last one of ours that it had. */
static renderq_job *bring_to(suite *s, place to)
{
    if (to == SCHEDULED)
        return enqueue_later(s);
    put(s, "intro");
    renderq_job *job = take_for(s->h, "node-1", to == RUN_OUT ? 30 : 3600, to == UNSTARTED);
    switch (to) {
    case WAITING:
        expect_ok(s->h, renderq_fail(s->h, job, "ours", 3600000));
        break;
    case QUEUED:
    case RETURNED:
    case THEIRS:
    case THEIRS_OLD:
        expect_ok(s->h, renderq_release(s->h, job, 0));
        if (to == QUEUED)
            set_null(s, &job->id, "LeaseToken");
        if (to == THEIRS || to == THEIRS_OLD)
            take_theirs(s, &job->id);
        if (to == THEIRS_OLD)
            shift(s, &job->id, "LockedAtUtc", -601000);
        break;
    case LONG:
        shift(s, &job->id, "LockedAtUtc", -700000);
        shift(s, &job->id, "LeasedAtUtc", -700000);
        break;
    case RUN_OUT:
        run_out(s, &job->id, 1000);
        break;
    case COMPLETED:
        expect_ok(s->h, renderq_complete(s->h, job, "ours"));
        break;
    case USED_UP:
        set_number(s, &job->id, "RetryCount", 3);
        expect_ok(s->h, renderq_fail(s->h, job, "ours", 0));
        break;
    case DEAD:
        expect_ok(s->h, renderq_fail(s->h, job, "ours", RENDERQ_NEVER));
        break;
    case CANCELLED:
        expect_ok(s->h, renderq_cancel(s->h, NULL, &job->id));
        break;
    case SCHEDULED:
    case RUNNING:
    case UNSTARTED:
    case STATES:
        break;
    }
    return job;
}

/* ---- their statements ---- */

typedef enum statement {
    NOTHING, CLAIM, COMPLETE, MARK_FAILED, WATCHDOG,
    FAIL_AND_CLAIM, WATCHDOG_AND_CLAIM,     /* two of them */
    STATEMENTS
} statement;

static const char *const statement_names[STATEMENTS] = {
    "nothing", "claim", "complete", "mark failed", "watchdog", "mark failed and claim", "watchdog and claim"
};

/* What state a job is in after a statement of theirs. */
static const place after[STATES][STATEMENTS] = {
    /*               nothing     claim       complete   fail      watchdog    fail, claim  watchdog, claim */
    [SCHEDULED]  = { SCHEDULED,  SCHEDULED,  COMPLETED, RETURNED, SCHEDULED,  THEIRS,      SCHEDULED },
    [WAITING]    = { WAITING,    WAITING,    COMPLETED, RETURNED, WAITING,    THEIRS,      WAITING },
    [QUEUED]     = { QUEUED,     THEIRS,     COMPLETED, RETURNED, QUEUED,     THEIRS,      THEIRS },
    [RETURNED]   = { RETURNED,   THEIRS,     COMPLETED, RETURNED, RETURNED,   THEIRS,      THEIRS },
    [RUNNING]    = { RUNNING,    RUNNING,    COMPLETED, RETURNED, RUNNING,    THEIRS,      RUNNING },
    [LONG]       = { LONG,       LONG,       COMPLETED, RETURNED, RETURNED,   THEIRS,      THEIRS },
    [RUN_OUT]    = { RUN_OUT,    RUN_OUT,    COMPLETED, RETURNED, RUN_OUT,    THEIRS,      RUN_OUT },
    [UNSTARTED]  = { UNSTARTED,  UNSTARTED,  COMPLETED, RETURNED, UNSTARTED,  THEIRS,      UNSTARTED },
    [THEIRS]     = { THEIRS,     THEIRS,     COMPLETED, RETURNED, THEIRS,     THEIRS,      THEIRS },
    [THEIRS_OLD] = { THEIRS_OLD, THEIRS_OLD, COMPLETED, RETURNED, RETURNED,   THEIRS,      THEIRS },
    [COMPLETED]  = { COMPLETED,  COMPLETED,  COMPLETED, RETURNED, COMPLETED,  THEIRS,      COMPLETED },
    [DEAD]       = { DEAD,       DEAD,       COMPLETED, RETURNED, DEAD,       THEIRS,      DEAD },
    [USED_UP]    = { USED_UP,    USED_UP,    COMPLETED, USED_UP,  USED_UP,    USED_UP,     USED_UP },
    [CANCELLED]  = { CANCELLED,  CANCELLED,  COMPLETED, RETURNED, CANCELLED,  THEIRS,      CANCELLED },
};

static bool ours_now(place now)
{
    return now == RUNNING || now == LONG || now == RUN_OUT || now == UNSTARTED;
}

/* ---- a row as text: "Column=value " for each; see snapshot() ---- */

/* Where a column's value is, and how long. */
static char *find(char *row, const char *column, size_t *len)
{
    char name[40];
    snprintf(name, sizeof name, "%s=", column);
    char *value = strstr(row, name);
    assert_non_null(value);
    value += strlen(name);
    *len = *value == '"' ? strcspn(value + 1, "\"") + 2 : strcspn(value, " ");
    return value;
}

static char *value_of(char *row, const char *column)
{
    size_t len;
    char *value = find(row, column, &len);
    return strndup(value, len);
}

static void set(char **row, const char *column, const char *value)
{
    size_t len, size = strlen(*row) + strlen(value) + 1;
    char *old = find(*row, column, &len), *made = malloc(size);
    assert_non_null(made);
    snprintf(made, size, "%.*s%s%s", (int)(old - *row), *row, value, old + len);
    free(*row);
    *row = made;
}

/* The column has to have a value by now, whatever it is. */
static void set_from(char **row, const char *column, char *now)
{
    char *value = value_of(now, column);
    assert_string_not_equal(value, "NULL");
    set(row, column, value);
    free(value);
}

static int64_t number_in(char *row, const char *column)
{
    size_t len;
    return strtoll(find(row, column, &len), NULL, 10);
}

static bool is_in(char *row, renderq_state state)
{
    size_t len;
    const char *name = renderq_strstate(state);
    return strncmp(find(row, "Status", &len) + 1, name, strlen(name)) == 0;
}

/* ---- what theirs do ---- */

/* What the row has to be after a statement of theirs, which is said here. What they do not say stays as it is, and so
 * does all that only we know. Frees the row as it was. */
static char *said(suite *s, const renderq_id *id, statement what, char *row)
{
    char failures[24];
    bool takes = is_in(row, RENDERQ_QUEUED);
    bool requeues = is_in(row, RENDERQ_PROCESSING) && number_in(row, "LockedAtUtc") < s->ops->now_ms(s->e) - 600000;
    snprintf(failures, sizeof failures, "%lld", (long long)number_in(row, "RetryCount") + 1);
    renderq_id got;
    char *now = NULL;
    if (what == CLAIM) {
        assert_int_equal(s->ops->claim(s->e, "csharp", &got), takes);
        if (takes) {
            same_id(&got, id);
            now = snapshot(s, id);
            set(&row, "Status", "\"Processing\"");
            set(&row, "WorkerNodeId", "\"csharp\"");
            set_from(&row, "LockedAtUtc", now);
        }
    } else if (what == COMPLETE) {
        assert_true(s->ops->complete(s->e, id, "theirs"));
        now = snapshot(s, id);
        set(&row, "Status", "\"Completed\"");
        set(&row, "OutputUrl", "\"theirs\"");
        set_from(&row, "CompletedAtUtc", now);
    } else if (what == MARK_FAILED) {
        assert_true(s->ops->mark_failed(s->e, id, "theirs"));
        set(&row, "Status", number_in(row, "RetryCount") >= 3 ? "\"DeadLetter\"" : "\"Queued\"");
        set(&row, "RetryCount", failures);
        set(&row, "LastErrorMessage", "\"theirs\"");
    } else if (what == WATCHDOG) {
        assert_int_equal(s->ops->watchdog(s->e), requeues);
        if (requeues)
            set(&row, "Status", "\"Queued\"");        /* and counts nothing */
    }
    if (what == MARK_FAILED || (what == WATCHDOG && requeues)) {
        set(&row, "WorkerNodeId", "NULL");
        set(&row, "LockedAtUtc", "NULL");
    }
    free(now);
    return row;
}

/* Runs a statement of theirs, or two, on the only job; the row as it is then, to be freed. */
static char *act(suite *s, const renderq_id *id, statement what)
{
    bool two = what == FAIL_AND_CLAIM || what == WATCHDOG_AND_CLAIM;
    char *row = snapshot(s, id);
    row = said(s, id, what == FAIL_AND_CLAIM ? MARK_FAILED : what == WATCHDOG_AND_CLAIM ? WATCHDOG : what, row);
    if (two)
        row = said(s, id, CLAIM, row);
    if (what == NOTHING)
        return row;
    char *now = snapshot(s, id);
    if (strcmp(row, now) != 0)
        print_error("their %s: the row should be\n%sand is\n%s", statement_names[what], row, now);
    assert_string_equal(row, now);
    free(now);
    return row;
}

/* ---- our calls ---- */

/* What a call has to answer, and the state that the row is in when it is OK. RENDERQ_OTHER: as it was. */
typedef struct answer {
    renderq_status status;
    renderq_state state;
} answer;

static const answer lost = { RENDERQ_LOST, RENDERQ_OTHER }, kept = { RENDERQ_OK, RENDERQ_OTHER };

static answer of_lease(place now, renderq_state then)
{
    return ours_now(now) ? (answer){ RENDERQ_OK, then } : lost;
}

static renderq_status call_complete(suite *s, renderq_job *job)
{
    return renderq_complete(s->h, job, "ours");
}

static answer want_complete(place now)
{
    return of_lease(now, RENDERQ_COMPLETED);
}

static renderq_status call_renew(suite *s, renderq_job *job)
{
    return renderq_renew(s->h, job, "half");
}

static answer want_lease(place now)
{
    return of_lease(now, RENDERQ_PROCESSING);
}

static renderq_status call_fail(suite *s, renderq_job *job)
{
    return renderq_fail(s->h, job, "ours", 0);
}

static answer want_queued(place now)
{
    return of_lease(now, RENDERQ_QUEUED);
}

static renderq_status call_release(suite *s, renderq_job *job)
{
    return renderq_release(s->h, job, 0);
}

static renderq_status call_start(suite *s, renderq_job *job)
{
    return renderq_start_many(s->h, &job, 1, "node-3", 0, NULL);
}

static renderq_status call_resume(suite *s, renderq_job *job)
{
    renderq_job *copy = NULL;
    renderq_status status = renderq_job_resume(s->h, NULL, &job->id, &job->lease, &copy);
    renderq_job_free(copy);
    return status;
}

static renderq_status call_cancel(suite *s, renderq_job *job)
{
    return renderq_cancel(s->h, NULL, &job->id);
}

static answer want_cancel(place now)
{
    bool ended = states[now] == RENDERQ_COMPLETED || states[now] == RENDERQ_DEAD_LETTER;
    return ended ? lost : (answer){ RENDERQ_OK, RENDERQ_CANCELLED };
}

static renderq_status call_retry(suite *s, renderq_job *job)
{
    return renderq_retry(s->h, NULL, &job->id, NULL);
}

static answer want_retry(place now)
{
    bool waits = states[now] == RENDERQ_SCHEDULED || states[now] == RENDERQ_PROCESSING;
    return waits ? lost : (answer){ RENDERQ_OK, RENDERQ_QUEUED };
}

static renderq_status call_settle(suite *s, renderq_job *job)
{
    return renderq_settle(s->h, NULL, &job->id, "settled", 0);
}

static answer want_settle(place now)
{
    (void)now;
    return (answer){ RENDERQ_OK, RENDERQ_COMPLETED };
}

static renderq_status call_claim(suite *s, renderq_job *job)
{
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_job *got = NULL;
    options.no_reap = 1;
    renderq_status status = renderq_claim(s->h, &options, &got);
    if (status == RENDERQ_OK) {
        same_id(&got->id, &job->id);
        assert_int_equal(got->retry_count, number_of(s, &job->id, "RetryCount"));
        expect_text(s, &job->id, "LeaseToken", got->lease.text);
        /* Whatever the row carries of an earlier lease, this one holds. */
        assert_in_range(got->lease_left_ms, 500000, 600000);
        expect_ok(s->h, renderq_renew(s->h, got, NULL));
    }
    renderq_job_free(got);
    return status;
}

static answer want_claim(place now)
{
    return states[now] == RENDERQ_QUEUED ? (answer){ RENDERQ_OK, RENDERQ_PROCESSING }
                                         : (answer){ RENDERQ_EMPTY, RENDERQ_OTHER };
}

static bool has_run_out(place now)
{
    return now == RUN_OUT || now == THEIRS_OLD;
}

/* A lease that ran out counts as a failure, theirs like ours. */
static renderq_status call_reap(suite *s, renderq_job *job)
{
    renderq_reaped counts = RENDERQ_INIT(renderq_reaped);
    int64_t failures = number_of(s, &job->id, "RetryCount");
    renderq_status status = renderq_reap(s->h, NULL, &counts);
    assert_int_equal(counts.dead, 0);
    assert_int_equal(number_of(s, &job->id, "RetryCount") - failures, counts.returned);
    return status;
}

static answer want_reap(place now)
{
    return has_run_out(now) ? (answer){ RENDERQ_OK, RENDERQ_SCHEDULED } : kept;
}

static renderq_status call_get(suite *s, renderq_job *job)
{
    cell status;
    renderq_job *copy = NULL;
    renderq_status answered = renderq_get(s->h, NULL, &job->id, &copy);
    assert_true(s->ops->read(s->e, &job->id, "Status", &status));
    assert_string_equal(renderq_strstate(copy->state), status.text);
    assert_int_equal(copy->retry_count, number_of(s, &job->id, "RetryCount"));
    free(status.text);
    renderq_job_free(copy);
    return answered;
}

static answer want_kept(place now)
{
    (void)now;
    return kept;
}

/* In the counts it is where the row says, and nowhere else. */
static renderq_status call_stats(suite *s, renderq_job *job)
{
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    renderq_status answered = renderq_stats(s->h, NULL, &counts);
    renderq_job *copy = get(s, &job->id);
    int64_t in[] = { 0, counts.scheduled, counts.queued, counts.processing, counts.completed, counts.dead_letter,
                     counts.cancelled, counts.other };
    for (size_t i = 0; i < count_of(in); i++)
        assert_int_equal(in[i], i == (size_t)copy->state);
    renderq_job_free(copy);
    return answered;
}

static const struct call {
    const char *name;
    renderq_status (*call)(suite *s, renderq_job *job);
    answer (*want)(place now);
} calls[] = {
    { "complete", call_complete, want_complete }, { "renew", call_renew, want_lease },
    { "fail", call_fail, want_queued },           { "release", call_release, want_queued },
    { "start", call_start, want_lease },          { "resume", call_resume, want_lease },
    { "cancel", call_cancel, want_cancel },       { "retry", call_retry, want_retry },
    { "settle", call_settle, want_settle },       { "claim", call_claim, want_claim },
    { "reap", call_reap, want_reap },             { "get", call_get, want_kept },
    { "stats", call_stats, want_kept },
};

static void one_case(suite *s, place before, statement theirs, const struct call *ours)
{
    renderq_job *job = bring_to(s, before);
    renderq_id id = job->id;
    char *row = act(s, &id, theirs);
    place now = after[before][theirs];
    assert_true(is_in(row, states[now]));
    job->started_at_ms = 1;         /* past the check of the argument: what does the row say? */
    answer want = ours->want(now);
    renderq_status got = ours->call(s, job);
    if (got != want.status)
        print_error("%s, their %s, our %s\n", names[before], statement_names[theirs], ours->name);
    expect(s->h, want.status, got);
    if (want.state == RENDERQ_OTHER) {
        expect_unchanged(s, &id, row);
    } else {
        expect_status(s, &id, renderq_strstate(want.state));
        free(row);
    }
    renderq_job_free(job);
    s->ops->clear(s->e);
}

static bool changes(place before, statement theirs)
{
    return theirs == COMPLETE || theirs == MARK_FAILED || theirs == FAIL_AND_CLAIM || after[before][theirs] != before;
}

/* Where a statement leaves the row as it was, which each time is looked at, one call is enough. */
static void each_statement_in_each_state(void **state)
{
    suite *s = *state;
    for (unsigned before = 0; before < STATES; before++)
        for (unsigned theirs = 0; theirs < STATEMENTS; theirs++)
            for (size_t i = 0; i < (theirs == NOTHING || changes(before, theirs) ? count_of(calls) : 1); i++)
                one_case(s, before, theirs, &calls[i]);
}

/* The other way round: after each call of ours that does something, each statement of theirs. */
static void each_statement_after_each_call(void **state)
{
    suite *s = *state;
    for (unsigned before = 0; before < STATES; before++)
        for (size_t i = 0; i < count_of(calls); i++)
            for (unsigned theirs = CLAIM; theirs < STATEMENTS && calls[i].want(before).state != RENDERQ_OTHER; theirs++) {
                renderq_job *job = bring_to(s, before);
                job->started_at_ms = 1;
                calls[i].call(s, job);
                free(act(s, &job->id, theirs));
                renderq_job_free(job);
                s->ops->clear(s->e);
            }
}

int run_states(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(each_statement_in_each_state),
        TEST(each_statement_after_each_call),
    };
    return cmocka_run_group_tests_name("states", tests, NULL, NULL);
}
