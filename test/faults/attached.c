/* attached.c: a connection of the caller's that breaks. Nothing is connected anew, nothing counts that was in its
 * transaction, and rollback makes an end of it. What attached handles do else is in test/conformance/attach.c. */
#include "faults.h"

static server s;
static lane l;

typedef struct rig {
    void *native;
    renderq *h;
} rig;

static int start(void **state)
{
    (void)state;
    server_start(&s, "attached", 0);
    lane_open(&l, &s, 0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    lane_close(&l);
    server_stop(&s);
    return 0;
}

static void say(const rig *r, const char *sql)
{
    assert_true(l.s->native->run(r->native, sql));
}

static rig set_up(int in_transaction)
{
    rig r = { .native = own_connection(l.s) };
    renderq_options options = RENDERQ_INIT(renderq_options);
    options.queue = l.s->queue;
    options.in_transaction = in_transaction;
    options.command_s = SUITE_COMMAND_S;
    l.s->ops->clear(l.s->e);
    expect_ok(r.h, renderq_attach(l.s->native->scheme, r.native, &options, &r.h));
    return r;
}

static void tear_down(rig *r)
{
    server_tell(&s, "clear");
    renderq_close(r->h);
    l.s->native->disconnect(r->native);
}

static renderq_status enqueue(renderq *h)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.composition_id = "intro";
    job.payload_json = "{}";
    return renderq_enqueue(h, &job, NULL);
}

/* The handle has no connection any more, and says what to do. */
static void expect_dead(rig *r)
{
    expect(r->h, RENDERQ_DISCONNECTED, enqueue(r->h));
    expect_said(r->h, "attach");
    expect(r->h, RENDERQ_DISCONNECTED, renderq_begin(r->h));
    expect(r->h, RENDERQ_DISCONNECTED, renderq_commit(r->h));
    expect_ok(r->h, renderq_rollback(r->h));
    assert_null(renderq_native(r->h));
    assert_int_equal(count_rows(l.s), 0);
}

static const char *const breaks[] = {
    "when=before do=drop", "do=drop", "when=before do=error number=208 cut=1", "do=error number=596 severity=21",
};

static void a_link_that_breaks_in_the_callers_transaction(void **state)
{
    (void)state;
    for (int must = 0; must < 2; must++)
        for (size_t i = 0; i < count_of(breaks); i++) {
            rig r = set_up(must);
            say(&r, l.s->native->begin);
            expect_ok(r.h, enqueue(r.h));
            server_tell(&s, "fault at=enqueue %s", breaks[i]);
            expect(r.h, RENDERQ_ABORTED, enqueue(r.h));
            expect_said(r.h, "transaction is gone");
            expect(r.h, RENDERQ_ABORTED, enqueue(r.h));
            expect(r.h, RENDERQ_ABORTED, renderq_commit(r.h));
            expect_ok(r.h, renderq_rollback(r.h));
            expect_dead(&r);
            tear_down(&r);
        }
}

/* Looking for the transaction does nothing: a lost answer to that leaves nothing open. */
static void a_link_that_breaks_while_it_is_looked_for(void **state)
{
    (void)state;
    for (int open = 0; open < 2; open++)
        for (size_t i = 0; i < count_of(breaks); i++) {
            rig r = set_up(0);
            if (open) {
                say(&r, l.s->native->begin);
                expect_ok(r.h, enqueue(r.h));
            }
            server_tell(&s, "fault at=find %s", breaks[i]);
            renderq_status status = enqueue(r.h);
            assert_true(status == RENDERQ_DISCONNECTED || status == RENDERQ_SCHEMA);
            expect_dead(&r);
            tear_down(&r);
        }
}

/* Nothing of the transaction is left, and none of it is committed with what comes next. */
static void expect_rolled_back(rig *r)
{
    expect_invalid(r->h, "renderq_begin", renderq_commit(r->h));
    expect_ok(r->h, enqueue(r->h));
    assert_int_equal(count_rows(l.s), 1);
}

static void a_rollback_that_is_refused(void **state)
{
    (void)state;
    rig r = set_up(0);
    expect_ok(r.h, renderq_begin(r.h));
    expect_ok(r.h, enqueue(r.h));
    server_tell(&s, "fault at=rollback when=before do=error number=1222");
    expect_ok(r.h, renderq_rollback(r.h));          /* the library tidies up */
    expect_rolled_back(&r);
    tear_down(&r);
}

static void a_receive_and_its_rollback_that_are_refused(void **state)
{
    (void)state;
    rig r = set_up(0);
    renderq_id id = put(l.s, "message");
    renderq_job *job = NULL;
    server_tell(&s, "fault at=complete when=before do=error number=229");
    server_tell(&s, "fault at=rollback when=before do=error number=1222");
    expect(r.h, RENDERQ_DENIED, renderq_receive(r.h, NULL, &job));
    assert_null(job);
    expect_ok(r.h, renderq_receive(r.h, NULL, &job));
    same_id(&job->id, &id);
    assert_int_equal(job->retry_count, 0);
    expect_ok(r.h, renderq_commit(r.h));
    expect_status(l.s, &id, "Completed");
    renderq_job_free(job);
    tear_down(&r);
}

/* The caller's transaction stands, and its commit must not leave a job leased to nobody. */
static void a_receive_that_is_refused_in_the_callers_transaction(void **state)
{
    (void)state;
    for (int must = 0; must < 2; must++) {
        rig r = set_up(must);
        renderq_id id = put(l.s, "message");
        renderq_job *job = NULL;
        say(&r, "SET XACT_ABORT OFF");
        say(&r, l.s->native->begin);
        expect_ok(r.h, enqueue(r.h));
        server_tell(&s, "fault at=complete when=before do=error number=1222");
        expect(r.h, RENDERQ_BUSY, renderq_receive(r.h, NULL, &job));
        assert_null(job);
        say(&r, l.s->native->commit);
        expect_status(l.s, &id, "Queued");
        expect_number(l.s, &id, "RetryCount", 0);
        assert_int_equal(count_rows(l.s), 2);
        tear_down(&r);
    }
}

/* The transaction is not forgotten because it could not be looked for. */
static void a_look_that_is_refused(void **state)
{
    (void)state;
    rig r = set_up(1);
    say(&r, "SET XACT_ABORT OFF");
    say(&r, l.s->native->begin);
    expect_ok(r.h, enqueue(r.h));
    server_tell(&s, "fault at=find when=before do=error number=1222");
    expect(r.h, RENDERQ_BUSY, renderq_rollback(r.h));
    expect_ok(r.h, enqueue(r.h));
    expect_invalid(r.h, "caller", renderq_rollback(r.h));
    say(&r, l.s->native->commit);
    assert_int_equal(count_rows(l.s), 2);
    tear_down(&r);
}

static void a_rollback_at_which_the_link_breaks(void **state)
{
    (void)state;
    for (size_t i = 0; i < count_of(breaks); i++) {
        rig r = set_up(0);
        expect_ok(r.h, renderq_begin(r.h));
        expect_ok(r.h, enqueue(r.h));
        server_tell(&s, "fault at=rollback %s", breaks[i]);
        expect_ok(r.h, renderq_rollback(r.h));      /* the end of the connection is the end of it */
        expect_dead(&r);
        tear_down(&r);
    }
}

/* The handle's own transaction on the caller's connection. */
static void a_link_that_breaks_in_its_own_transaction(void **state)
{
    (void)state;
    for (size_t i = 0; i < count_of(breaks); i++) {
        rig r = set_up(0);
        expect_ok(r.h, renderq_begin(r.h));
        expect_ok(r.h, enqueue(r.h));
        server_tell(&s, "fault at=enqueue %s", breaks[i]);
        expect(r.h, RENDERQ_ABORTED, enqueue(r.h));
        expect(r.h, RENDERQ_ABORTED, enqueue(r.h));
        expect(r.h, RENDERQ_ABORTED, i % 2 ? renderq_commit(r.h) : enqueue(r.h));
        expect_ok(r.h, renderq_rollback(r.h));
        expect_dead(&r);
        tear_down(&r);
    }
}

int run_attached(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_that_breaks_in_the_callers_transaction),
        cmocka_unit_test(a_link_that_breaks_while_it_is_looked_for),
        cmocka_unit_test(a_rollback_that_is_refused),
        cmocka_unit_test(a_receive_and_its_rollback_that_are_refused),
        cmocka_unit_test(a_receive_that_is_refused_in_the_callers_transaction),
        cmocka_unit_test(a_look_that_is_refused),
        cmocka_unit_test(a_rollback_at_which_the_link_breaks),
        cmocka_unit_test(a_link_that_breaks_in_its_own_transaction),
    };
    return cmocka_run_group_tests_name("attached", tests, start, stop);
}
