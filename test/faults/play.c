/* play.c: one trial: what is there before, the fault asked for, the call, and everything that is looked at
 * afterwards. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trial.h"
#include "utf.h"

const char *const prior_words[PRIORS] = { "", "do=drop", "when=before do=error number=1222" };

void trial_describe(const trial *k, char *out, size_t size)
{
    static const char *const plans[PLANS] = { "", "begin, ", "begin, rollback, ", "" };
    static const char *const priors[PRIORS] = { "", ", after a lost reply", ", after a lock timeout" };
    static const char *const modes[MODES] = { "tried again", "not tried again", "again and again" };
    snprintf(out, size, "%s%s: %s at %s %d%s, %s", plans[k->plan], k->call ? k->call->name : "receive", k->fault->name,
             k->request, k->nth, priors[k->prior], modes[k->mode]);
}

renderq *trial_open(const lane *l, const trial *k)
{
    renderq_options options = RENDERQ_INIT(renderq_options);
    options.worker = "node-1";
    options.retry_s = k->mode == REPEATED ? RETRY_S : k->mode == ONCE ? -1 : 1;
    return lane_handle(l, &options);
}

void trial_hurry(renderq *h, const trial *k)
{
    if (k->fault->waits)
        set_limits(h, COMMAND_S, COMMAND_S);
}

static void arm(const lane *l, const trial *k)
{
    lane_clear(l);
    if (k->prior)
        lane_fault(l, "at=%s nth=%d %s", k->first, k->first_nth, prior_words[k->prior]);
    if (k->mode == STAYS && k->fault->answer == UNCERTAIN)
        lane_fault(l, "nth=%zu times=0 %s", k->at + 1, k->fault->words);     /* the look-ups too */
    else if (k->fault->words)
        lane_fault(l, "at=%s nth=%d times=%d %s", k->request, k->nth, k->mode != STAYS, k->fault->words);
    else
        server_tell(l->server, "hang_up app=%s", l->app);
}

/* ---- what is looked at ---- */

/* The text of a failure is one line of good UTF-8, and has no password in it. */
static void check_text(const trial *k, const renderq *h, renderq_status got)
{
    const char *text = renderq_errmsg(h);
    assert_null(strstr(text, PASSWORD));
    assert_int_equal(rq_utf_check(text, strlen(text)).bad_at, strlen(text));
    if (got == k->fault->answer && k->fault->number && k->mode != STAYS && k->prior == NO_PRIOR)
        assert_int_equal(renderq_native_error(h), k->fault->number);
}

static bool has_struck(const lane *l, const trial *k)
{
    return !k->fault->words || lane_fired(l) >= 1u + (k->prior != NO_PRIOR);
}

static void check_rows(const lane *l, scene *c, const trial *k, renderq_status got, char *before)
{
    if (k->fault->late)
        server_tell(l->server, "idle app=%s", l->app);
    if (k->fault->lies) {
        free(before);
    } else if (k->call->rows && trial_happened(k, got)) {
        free(before);
        k->call->rows(c);
    } else {
        expect_all_unchanged(c->s, before);
    }
}

/* A job that was leased for nobody comes back to the next claim, uncounted. */
static void claim_again(scene *c)
{
    renderq_job *job = NULL;
    expect_ok(c->f, renderq_claim(c->f, NULL, &job));
    same_id(&job->id, &c->ids[0]);
    assert_int_equal(job->retry_count, 0);
    expect_ok(c->f, renderq_complete(c->f, job, NULL));
    renderq_job_free(job);
}

/* What was left of a lie is taken for the answer to what is asked next; two of different shape, and it shows. */
static void find_back(renderq *h)
{
    static const renderq_id nobody = { NOBODY };
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    renderq_job *job = NULL;
    for (int i = 0; i < 3; i++) {
        renderq_get(h, NULL, &nobody, &job);
        renderq_job_free(job);
        renderq_stats(h, NULL, &counts);
    }
}

/* ---- plays ---- */

/* False: a request took too long before the fault could strike. */
static bool play_alone(const lane *l, const trial *k, scene *c)
{
    char *before = snapshot_all(l->s);
    arm(l, k);
    trial_hurry(c->f, k);
    renderq_status got = k->call->act(c);
    set_limits(c->f, 0, 0);
    if (!has_struck(l, k)) {
        free(before);
        return false;
    }
    if (!trial_may_be(k, got))
        expect(c->f, trial_wanted(k), got);
    check_text(k, c->f, got);
    check_rows(l, c, k, got, before);
    if (got == OK && !k->fault->lies && k->call->out)
        k->call->out(c, trial_is_exact(k));
    lane_clear(l);
    if (k->fault->lies)
        find_back(c->f);
    else if (k->call->claims && got == UNCERTAIN)
        claim_again(c);
    return true;
}

/* Which of the three in a transaction meets the fault; the others have time. */
typedef enum part { AT_BEGIN, AT_CALL, AT_END } part;

static void hurry_at(const trial *k, scene *c, part now)
{
    bool ends = strcmp(k->request, "commit") == 0 || strcmp(k->request, "rollback") == 0;
    if (now == (k->at == 0 ? AT_BEGIN : ends ? AT_END : AT_CALL))
        trial_hurry(c->f, k);
    else
        set_limits(c->f, 0, 0);
}

/* The call in a transaction: what it answers, and what the end does. */
static renderq_status act_inside(const trial *k, scene *c)
{
    hurry_at(k, c, AT_CALL);
    renderq_status got = k->call->act(c);
    if (!trial_may_be(k, got))
        expect(c->f, trial_wanted(k), got);
    check_text(k, c->f, got);
    return got;
}

static bool play_in_transaction(const lane *l, const trial *k, scene *c)
{
    char *before = snapshot_all(l->s);
    arm(l, k);
    hurry_at(k, c, AT_BEGIN);
    renderq_status call = OK, end = renderq_begin(c->f);
    if (!trial_may_be(k, end))
        expect(c->f, trial_begin_wanted(k), end);
    if (end == OK) {
        call = act_inside(k, c);
        hurry_at(k, c, AT_END);
        end = k->plan == UNDONE ? renderq_rollback(c->f) : renderq_commit(c->f);
        if (!trial_may_be(k, end))
            expect(c->f, k->plan == UNDONE ? OK : trial_commit_wanted(k, call), end);
        check_text(k, c->f, end);
    }
    set_limits(c->f, 0, 0);
    if (!has_struck(l, k)) {
        free(before);
        return false;
    }
    if (k->plan == UNDONE || (call != OK && end == OK))
        expect_all_unchanged(c->s, before);
    else
        check_rows(l, c, k, end, before);
    lane_clear(l);
    return true;
}

/* The job is there for whoever receives next, and nobody failed it. */
static void receive_again(scene *c)
{
    renderq_job *job = NULL;
    expect_ok(c->f, renderq_receive(c->f, NULL, &job));
    same_id(&job->id, &c->ids[0]);
    assert_int_equal(job->retry_count, 0);
    expect_ok(c->f, renderq_commit(c->f));
    renderq_job_free(job);
}

static void check_received(const trial *k, scene *c, renderq_status end)
{
    bool done = end == OK || (end == UNCERTAIN && k->fault->happens);
    expect_number(c->s, &c->ids[0], "RetryCount", 0);
    expect_status(c->s, &c->ids[0], done ? "Completed" : "Processing");
    if (!done && end == UNCERTAIN)
        renderq_release(c->f, c->jobs[0], 0);
    else if (!done)
        expect_ok(c->f, renderq_release(c->f, c->jobs[0], 0));
    if (!done)
        receive_again(c);
}

static bool play_received(const lane *l, const trial *k, scene *c)
{
    c->ids[0] = put(l->s, "intro");
    arm(l, k);
    bool at_commit = strcmp(k->request, "commit") == 0;
    if (!at_commit)
        trial_hurry(c->f, k);
    renderq_status got = renderq_receive(c->f, NULL, &c->jobs[0]);
    set_limits(c->f, 0, 0);
    if (!at_commit && !has_struck(l, k))
        return false;
    if (!trial_may_be(k, got))
        expect(c->f, trial_wanted(k), got);
    assert_true((c->jobs[0] != NULL) == (got == OK));
    check_text(k, c->f, got);
    if (at_commit)
        trial_hurry(c->f, k);
    renderq_status end = got == OK ? renderq_commit(c->f) : got;
    set_limits(c->f, 0, 0);
    if (got == OK && !trial_may_be(k, end))
        expect(c->f, trial_commit_wanted(k, got), end);
    if (!has_struck(l, k))
        return false;
    lane_clear(l);
    if (k->fault->late)
        server_tell(l->server, "idle app=%s", l->app);
    if (got == OK)
        check_received(k, c, end);
    else
        receive_again(c);
    expect_status(l->s, &c->ids[0], "Completed");
    assert_int_equal(count_rows(l->s), 1);
    return true;
}

static bool play_once(const lane *l, const trial *k)
{
    static bool (*const plays[PLANS])(const lane *, const trial *, scene *) = {
        play_alone, play_in_transaction, play_in_transaction, play_received
    };
    scene c = { .s = l->s };
    lane_clear(l);
    l->s->ops->clear(l->s->e);
    c.f = trial_open(l, k);
    if (k->call)
        k->call->prepare(&c);
    int64_t start_ms = clock_ms();
    bool played = plays[k->plan](l, k, &c);
    if (played) {
        assert_in_range(clock_ms() - start_ms, 0, trial_longest_ms(k));
        lane_use(l, c.f);
    }
    renderq_close(c.f);
    scene_free(&c);
    return played;
}

void trial_play(const lane *l, const trial *k)
{
    /* Where the library is told to wait for two seconds alone, a busy machine may have used them before. */
    for (int tries = 0; !play_once(l, k); tries++)
        if (!k->fault->waits || tries == 20)
            fail_msg("the fault did not strike");
}
