/* faulty.c: see faulty.h. What happens later is run on a connection of its own, as a server would that had the
 * request before the link broke. */
#include "faulty.h"

#include <stdlib.h>
#include <string.h>

#include "handle.h"

#define GHOSTS_MAX 8

/* A request that is still on its way, with its own copy of everything. */
typedef struct ghost {
    unsigned runs_left;
    const rq_session *session;
    rq_queue queue;
    rq_statement_id id;
    rq_value *values;
    size_t n, n_values;
} ghost;

typedef struct faulty_conn {
    rq_conn base;
    rq_conn *inner;
} faulty_conn;

static struct plan {
    const rq_driver *inner;
    fault faults[FAULTS_MAX];
    size_t n_faults, runs;
    bool broke;                     /* the link, in the last run */
    unsigned refuse_opens;
    renderq_status refuse_with;
    ghost ghosts[GHOSTS_MAX];
    size_t n_ghosts;
} plan;

static rq_driver driver;

/* ---- ghosts ---- */

static void free_ghost(ghost *g)
{
    for (size_t i = 0; i < g->n_values; i++)
        free((void *)(uintptr_t)g->values[i].bytes);
    free(g->values);
    free((void *)(uintptr_t)g->queue.text);
}

static void keep_ghost(const rq_session *session, const rq_queue *queue, rq_statement_id id,
                       const rq_value *values, size_t n, unsigned later_by)
{
    assert_true(plan.n_ghosts < GHOSTS_MAX);
    ghost *g = &plan.ghosts[plan.n_ghosts++];
    *g = (ghost){ .runs_left = later_by ? later_by : 1, .session = session, .queue = *queue, .id = id, .n = n,
                  .n_values = n * rq_statements[id].n_params };
    g->queue.text = strdup(queue->text);
    g->values = calloc(g->n_values + 1, sizeof *g->values);
    for (size_t i = 0; i < g->n_values; i++) {
        g->values[i] = values[i];
        if (!values[i].bytes)
            continue;
        char *copy = malloc(values[i].len + 1);
        memcpy(copy, values[i].bytes, values[i].len);
        g->values[i].bytes = copy;
    }
}

static renderq_status swallow(void *arg, size_t item, const rq_value *columns)
{
    (void)arg;
    (void)item;
    (void)columns;
    return RENDERQ_OK;
}

static void happen(ghost *g)
{
    rq_conn *conn = NULL;
    assert_int_equal(plan.inner->open(g->session, &conn), RENDERQ_OK);
    assert_int_equal(plan.inner->run(conn, &g->queue, g->id, g->values, g->n, swallow, NULL), RENDERQ_OK);
    plan.inner->close(conn);
    free_ghost(g);
}

/* Those whose time has come, in the order in which they were sent. */
static size_t happen_due(bool all)
{
    size_t kept = 0, happened = 0;
    for (size_t i = 0; i < plan.n_ghosts; i++) {
        ghost g = plan.ghosts[i];
        if (all || --g.runs_left == 0) {
            happen(&g);
            happened++;
        } else {
            plan.ghosts[kept++] = g;
        }
    }
    plan.n_ghosts = kept;
    return happened;
}

/* ---- the driver ---- */

static renderq_status broke(const rq_conn *conn, renderq_status status)
{
    return rq_error_set(conn->session->error, status, 4711, "a fault that the test asked for");
}

/* `native`: the caller's connection to attach to; NULL: opens one. */
static renderq_status wrap(const rq_session *session, void *native, rq_conn **out)
{
    *out = NULL;
    faulty_conn *conn = calloc(1, sizeof *conn);
    conn->base = (rq_conn){ .driver = &driver, .session = session };
    renderq_status status = native ? plan.inner->attach(session, native, &conn->inner)
                                   : plan.inner->open(session, &conn->inner);
    if (status == RENDERQ_OK)
        *out = &conn->base;
    else
        free(conn);
    return status;
}

static renderq_status faulty_conn_open(const rq_session *session, rq_conn **out)
{
    *out = NULL;
    if (plan.refuse_opens > 0) {
        plan.refuse_opens--;
        return rq_error_set(session->error, plan.refuse_with ? plan.refuse_with : RENDERQ_DISCONNECTED, 4712,
                            "an open that the test refused");
    }
    return wrap(session, NULL, out);
}

static renderq_status faulty_conn_attach(const rq_session *session, void *native, rq_conn **out)
{
    return wrap(session, native, out);
}

/* Has no faults of its own. */
static renderq_status faulty_find(rq_conn *base, int64_t *id)
{
    return plan.inner->find(((faulty_conn *)base)->inner, id);
}

static void faulty_conn_close(rq_conn *base)
{
    faulty_conn *conn = (faulty_conn *)base;
    plan.inner->close(conn->inner);
    free(conn);
}

static void faulty_conn_abandon(rq_conn *base)
{
    faulty_conn *conn = (faulty_conn *)base;
    plan.inner->abandon(conn->inner);
    free(conn);
}

/* What the request of a fault is answered. */
static renderq_status answer_of(const fault *f)
{
    if (f->kind == FAULT_ANSWER || f->kind == FAULT_LAST_ANSWER || f->kind == FAULT_ANSWER_AFTER)
        return f->status;
    return f->kind == FAULT_NOT_SENT ? RENDERQ_DISCONNECTED : RENDERQ_UNCERTAIN;
}

static bool breaks(const fault *f)
{
    if (f->kind == FAULT_ANSWER)
        return f->status == RENDERQ_UNCERTAIN || f->status == RENDERQ_DISCONNECTED;
    return f->kind != FAULT_NONE && f->kind != FAULT_STOPPED && f->kind != FAULT_STOPPED_AFTER
           && f->kind != FAULT_ANSWER_AFTER;
}

static const fault *next_fault(void)
{
    static const fault none;
    size_t run = plan.runs++;
    const fault *f = run < plan.n_faults ? &plan.faults[run] : &none;
    plan.broke = breaks(f);
    if (f->refuse_opens)
        faulty_refuse(f->refuse_opens, f->refuse_with);
    return f;
}

static void what_then(const fault *f)
{
    if (f->then)
        f->then(f->arg);
}

static renderq_status faulty_run(rq_conn *base, const rq_queue *queue, rq_statement_id id, const rq_value *values,
                                 size_t n, rq_row_fn row, void *arg)
{
    rq_conn *inner = ((faulty_conn *)base)->inner;
    inner->guarded = base->guarded;
    base->ended_by = RENDERQ_OK;
    happen_due(false);
    fault f = *next_fault();
    renderq_status status;
    switch (f.kind) {
    case FAULT_NONE:
        what_then(&f);
        status = plan.inner->run(inner, queue, id, values, n, row, arg);
        base->ended_by = inner->ended_by;
        return status;
    case FAULT_AFTER:
    case FAULT_ANSWER_AFTER:
        assert_int_equal(plan.inner->run(inner, queue, id, values, n, row, arg), RENDERQ_OK);
        break;
    case FAULT_AFTER_SILENT:
    case FAULT_STOPPED_AFTER:
        assert_int_equal(plan.inner->run(inner, queue, id, values, n, swallow, NULL), RENDERQ_OK);
        break;
    case FAULT_LATER:
        keep_ghost(base->session, queue, id, values, n, f.later_by);
        break;
    case FAULT_NOT_SENT:
    case FAULT_BEFORE:
    case FAULT_STOPPED:
    case FAULT_ANSWER:
    case FAULT_LAST_ANSWER:
        break;
    }
    what_then(&f);
    return broke(base, answer_of(&f));
}

static renderq_status faulty_create(rq_conn *base, const rq_queue *queue)
{
    rq_conn *inner = ((faulty_conn *)base)->inner;
    fault f = *next_fault();
    if (f.kind == FAULT_NONE)
        return plan.inner->create(inner, queue);
    if (f.kind == FAULT_AFTER || f.kind == FAULT_AFTER_SILENT)
        assert_int_equal(plan.inner->create(inner, queue), RENDERQ_OK);
    what_then(&f);
    return broke(base, answer_of(&f));
}

/* What begins or ends a transaction. */
static renderq_status control(rq_conn *base, renderq_status (*what)(rq_conn *))
{
    rq_conn *inner = ((faulty_conn *)base)->inner;
    fault f = *next_fault();
    renderq_status status = RENDERQ_OK;
    if (f.kind == FAULT_NONE || f.kind == FAULT_AFTER || f.kind == FAULT_AFTER_SILENT) {
        status = what(inner);
        base->guarded = inner->guarded;
    }
    if (f.kind == FAULT_NONE)
        return status;
    assert_int_equal(status, RENDERQ_OK);
    what_then(&f);
    return broke(base, answer_of(&f));
}

static renderq_status faulty_begin(rq_conn *base)
{
    return control(base, plan.inner->begin);
}

static renderq_status faulty_commit(rq_conn *base)
{
    return control(base, plan.inner->commit);
}

/* Has no faults of its own: what cannot roll back is closed, which does the same. */
static renderq_status faulty_rollback(rq_conn *base)
{
    rq_conn *inner = ((faulty_conn *)base)->inner;
    base->guarded = false;
    return plan.inner->rollback(inner);
}

static bool faulty_alive(rq_conn *base)
{
    (void)base;
    return !plan.broke;
}

static void *faulty_native(rq_conn *base)
{
    return plan.inner->native(((faulty_conn *)base)->inner);
}

/* ---- the plan ---- */

static void begin_plan(const suite *s)
{
    faulty_disarm();
    faulty_forget();
    plan.inner = rq_driver_find(s->ops->scheme);
    assert_non_null(plan.inner);
    driver = (rq_driver){ .scheme = plan.inner->scheme, .options = plan.inner->options, .open = faulty_conn_open,
                          .attach = faulty_conn_attach, .find = faulty_find,
                          .find_is_vague = plan.inner->find_is_vague, .close = faulty_conn_close,
                          .abandon = faulty_conn_abandon, .begin = faulty_begin, .commit = faulty_commit,
                          .rollback = faulty_rollback, .create = faulty_create, .run = faulty_run,
                          .alive = faulty_alive, .native = faulty_native };
}

renderq *faulty_open_with(const suite *s, const renderq_options *options)
{
    renderq *h = NULL;
    begin_plan(s);
    expect_ok(h, rq_open_with(&driver, s->url, options, &h));
    return h;
}

renderq *faulty_attach(const suite *s, void *native)
{
    renderq_options options = RENDERQ_INIT(renderq_options);
    renderq *h = NULL;
    options.queue = s->queue;
    options.command_s = SUITE_COMMAND_S;
    begin_plan(s);
    expect_ok(h, rq_attach_with(&driver, NULL, native, &options, &h));
    return h;
}

renderq_status faulty_open_again(const suite *s, renderq **out)
{
    return rq_open_with(&driver, s->url, NULL, out);
}

renderq *faulty_open(const suite *s, int retry_s)
{
    renderq_options options = RENDERQ_INIT(renderq_options);
    options.worker = "node-1";
    options.connect_s = SUITE_CONNECT_S;
    options.command_s = SUITE_COMMAND_S;
    options.retry_s = retry_s;
    return faulty_open_with(s, &options);
}

void faulty_arm(const fault *faults, size_t n)
{
    assert_true(n <= FAULTS_MAX);
    faulty_disarm();
    for (size_t i = 0; i < n; i++)
        plan.faults[i] = faults[i];
    plan.n_faults = n;
}

void faulty_arm_one(size_t at, fault one)
{
    fault faults[FAULTS_MAX] = { { .kind = FAULT_NONE } };
    assert_true(at < FAULTS_MAX);
    faults[at] = one;
    faulty_arm(faults, at + 1);
}

void faulty_disarm(void)
{
    plan.n_faults = plan.runs = 0;
    plan.refuse_opens = 0;
}

size_t faulty_runs(void)
{
    return plan.runs;
}

void faulty_refuse(unsigned opens, renderq_status with)
{
    plan.refuse_opens = opens;
    plan.refuse_with = with;
}

size_t faulty_flush(void)
{
    return happen_due(true);
}

void faulty_forget(void)
{
    for (size_t i = 0; i < plan.n_ghosts; i++)
        free_ghost(&plan.ghosts[i]);
    plan.n_ghosts = 0;
}
