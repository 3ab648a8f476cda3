/* choose.c: which trials there are: each call's requests, as the server has seen them, with each fault. */
#include <string.h>

#include "trial.h"

/* ---- what a call asks the server ---- */

static void see(const lane *l, char *out, size_t size)
{
    server_ask(l->server, out, size, "seen app=%s", l->app);
}

static scene begin_scene(const lane *l, const scene_call *call)
{
    static const fault none = { .name = "nothing" };
    const trial k = { .fault = &none, .mode = REPEATED };
    scene c = { .s = l->s };
    l->s->ops->clear(l->s->e);
    lane_clear(l);
    c.f = trial_open(l, &k);
    if (call)
        call->prepare(&c);
    lane_clear(l);
    return c;
}

static void end_scene(scene *c)
{
    renderq_close(c->f);
    scene_free(c);
}

static void look_alone(const lane *l, const scene_call *call, prior p, char *out, size_t size)
{
    scene c = begin_scene(l, call);
    if (p)
        lane_fault(l, "nth=%zu %s", call->writes_at + 1, prior_words[p]);
    expect_ok(c.f, call->act(&c));
    see(l, out, size);
    end_scene(&c);
}

static void look_inside(const lane *l, const scene_call *call, char *out, size_t size)
{
    scene c = begin_scene(l, call);
    expect_ok(c.f, renderq_begin(c.f));
    renderq_status status = call->act(&c);
    if (status != RENDERQ_INVALID)
        expect_ok(c.f, status);
    expect_ok(c.f, renderq_commit(c.f));
    if (status == OK)
        see(l, out, size);
    end_scene(&c);
}

static void look_at_receive(const lane *l, char *out, size_t size)
{
    scene c = begin_scene(l, NULL);
    put(c.s, "intro");
    lane_clear(l);
    expect_ok(c.f, renderq_receive(c.f, NULL, &c.jobs[0]));
    expect_ok(c.f, renderq_commit(c.f));
    see(l, out, size);
    end_scene(&c);
}

void choose_look(const lane *l, sight *seen)
{
    assert_true(n_scene_calls <= CALLS_MAX);
    for (size_t i = 0; i < n_scene_calls; i++) {
        for (prior p = NO_PRIOR; p < PRIORS; p++)
            look_alone(l, &scene_calls[i], p, seen->alone[i][p], sizeof seen->alone[i][p]);
        look_inside(l, &scene_calls[i], seen->inside[i], sizeof seen->inside[i]);
    }
    look_at_receive(l, seen->received, sizeof seen->received);
}

typedef struct requests {
    char names[16][32];
    int nth[16];
    size_t n;
} requests;

static requests take_apart(const char *seen)
{
    requests r = { .n = 0 };
    char text[512], *rest = text;
    strcpy(text, seen);
    for (char *name; (name = strsep(&rest, " ")); r.n++) {
        assert_true(r.n < count_of(r.names) && strlen(name) < sizeof r.names[0]);
        strcpy(r.names[r.n], name);
        for (size_t i = 0; i <= r.n; i++)
            r.nth[r.n] += strcmp(r.names[i], name) == 0;
    }
    return r;
}

/* ---- the choice ---- */

typedef struct choice {
    trial *out;
    size_t n, max;
} choice;

static void add(choice *to, trial k, const requests *r, size_t at)
{
    k.at = at;
    k.nth = r->nth[at];
    strcpy(k.request, r->names[at]);
    assert_true(to->n < to->max);
    to->out[to->n++] = k;
}

static void add_mode(choice *to, trial k, mode m, const requests *r, size_t at)
{
    k.mode = m;
    add(to, k, r, at);
}

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* Whether there is what the fault is about. */
static bool fits(const fault *f, const char *request)
{
    static const char *const without_rows[] = { "login", "schema", "rollback", "commit" };
    return !f->of_rows || !is_one_of(request, without_rows, count_of(without_rows));
}

/* Of alike requests in a row the first and the last are enough. */
static bool is_inner(const requests *r, size_t at)
{
    return at > 0 && at + 1 < r->n && strcmp(r->names[at - 1], r->names[at]) == 0
           && strcmp(r->names[at + 1], r->names[at]) == 0;
}

/* Where trying again can show something of its own. */
static bool is_repeated(const scene_call *call, const fault *f)
{
    if (f->answer != BUSY && f->answer != UNCERTAIN)
        return false;
    if (f->late && call->claims)
        return false;                   /* it would take another job than the repeat did */
    return call->looks || f->stays;
}

/* A call's own requests meet everything. */
static void add_requests(choice *to, const scene_call *call, const fault *f, const char *seen)
{
    requests r = take_apart(seen);
    trial k = { .call = call, .fault = f };
    for (size_t at = 0; at < r.n; at++) {
        if ((!f->words && at > 0) || is_inner(&r, at) || !fits(f, r.names[at]))
            continue;
        if (f->answer == RENDERQ_INVALID && strcmp(r.names[at], "enqueue_many") == 0)
            continue;                   /* INVALID is about an item there, and the server does not say which */
        add_mode(to, k, ONCE, &r, at);
        if (is_repeated(call, f))
            add_mode(to, k, REPEATED, &r, at);
        if (f->stays)
            add_mode(to, k, STAYS, &r, at);
    }
}

/* What follows a lost reply or a refusal: the look-ups and repeats of the calls that have their own. Connecting and
 * tidying up are the same for all calls. */
static void add_repeats(choice *to, const scene_call *call, const fault *f, prior p, const char *seen)
{
    requests r = take_apart(seen);
    trial k = { .call = call, .fault = f, .prior = p, .first_nth = r.nth[call->writes_at] };
    bool one = strcmp(call->name, "complete") == 0;
    strcpy(k.first, r.names[call->writes_at]);
    for (size_t at = call->writes_at + 1; at < r.n; at++) {
        trial there = k;
        strcpy(there.request, r.names[at]);
        bool tidying = trial_while_tidying(&there);
        bool wanted = tidying || trial_while_connecting(&there) ? one : p == REPLY_LOST;
        if (!wanted || !fits(f, r.names[at]))
            continue;
        add_mode(to, k, REPEATED, &r, at);
        if (tidying)
            add_mode(to, k, ONCE, &r, at);
    }
}

/* The call inside meets everything; begin, commit and rollback do, around an enqueue. */
static void add_joined(choice *to, const scene_call *call, const fault *f, const char *seen)
{
    requests r = take_apart(seen);
    trial k = { .plan = JOINED, .call = call, .fault = f, .mode = REPEATED };
    bool one = strcmp(call->name, "enqueue") == 0;
    for (size_t at = 0; at < r.n; at++) {
        bool inside = at > 0 && at + 1 < r.n;
        if (!fits(f, r.names[at]) || (inside ? f->waits && !call->looks : !one))
            continue;
        if (f->answer == RENDERQ_INVALID && strcmp(r.names[at], "enqueue_many") == 0)
            continue;
        add(to, k, &r, at);
        if (at == 0)
            add_mode(to, k, ONCE, &r, at);
    }
    k.plan = UNDONE;
    strcpy(r.names[r.n - 1], "rollback");
    if (one && fits(f, "rollback"))
        add(to, k, &r, r.n - 1);
}

static void add_received(choice *to, const fault *f, const char *seen)
{
    requests r = take_apart(seen);
    trial k = { .plan = RECEIVED, .fault = f };
    for (size_t at = 0; at < r.n; at++) {
        if (!fits(f, r.names[at]))
            continue;
        add_mode(to, k, ONCE, &r, at);
        if (!f->late || at > 0)
            add_mode(to, k, REPEATED, &r, at);
        if (f->stays && f->answer == UNCERTAIN && at + 1 == r.n)
            add_mode(to, k, STAYS, &r, at);
    }
}

/* Waiting takes long where everything is slow. */
static bool is_selected(const scene_call *call, const fault *f, bool quick)
{
    static const char *const names[] = { "complete", "enqueue", "claim", "retry_dead" };
    return !quick || is_one_of(call->name, names, f->waits ? 1 : count_of(names));
}

static void add_call(choice *to, const sight *seen, size_t i, const fault *f)
{
    const scene_call *call = &scene_calls[i];
    bool known = f->words && !f->lies;
    add_requests(to, call, f, seen->alone[i][NO_PRIOR]);
    for (prior p = REPLY_LOST; p < PRIORS && call->looks && known && !f->late; p++)
        add_repeats(to, call, f, p, seen->alone[i][p]);
    if (known && *seen->inside[i])
        add_joined(to, call, f, seen->inside[i]);
}

size_t choose(const sight *seen, bool quick, trial *out, size_t max)
{
    choice to = { .out = out, .max = max };
    for (int waits = 1; waits >= 0; waits--)
        for (size_t n = 0; n < n_faults; n++) {
            const fault *f = &faults[n];
            for (size_t i = 0; i < n_scene_calls && f->waits == (waits != 0); i++)
                if (is_selected(&scene_calls[i], f, quick))
                    add_call(&to, seen, i, f);
            if (f->waits == (waits != 0) && f->words && !f->lies && !(quick && f->waits))
                add_received(&to, f, seen->received);
        }
    return to.n;
}
