/* request.c: what CT-Library itself may fail at while a request is put together and sent: a parameter that is refused,
 * a send that fails, a cancel that was waiting; and an interrupt that comes when the reply is there. Its functions are
 * wrapped by the linker. */
#include <string.h>

#include <ctpublic.h>

#include "faults.h"

static struct {
    int param_at, send_at;          /* which call fails; 0: none */
    CS_RETCODE with;
    int params, sends, sent;        /* counted */
    renderq *interrupt;             /* whenever something was read for it; NULL: never */
} plan;

CS_RETCODE __real_ct_param(CS_COMMAND *, CS_DATAFMT *, CS_VOID *, CS_INT, CS_SMALLINT);
CS_RETCODE __wrap_ct_param(CS_COMMAND *, CS_DATAFMT *, CS_VOID *, CS_INT, CS_SMALLINT);
CS_RETCODE __real_ct_send(CS_COMMAND *);
CS_RETCODE __wrap_ct_send(CS_COMMAND *);

CS_RETCODE __wrap_ct_param(CS_COMMAND *command, CS_DATAFMT *format, CS_VOID *data, CS_INT len, CS_SMALLINT indicator)
{
    return ++plan.params == plan.param_at ? CS_FAIL : __real_ct_param(command, format, data, len, indicator);
}

CS_RETCODE __wrap_ct_send(CS_COMMAND *command)
{
    if (++plan.sends == plan.send_at)
        return plan.with;
    plan.sent++;
    return __real_ct_send(command);
}

CS_RETCODE __real_ct_results(CS_COMMAND *, CS_INT *);
CS_RETCODE __wrap_ct_results(CS_COMMAND *, CS_INT *);
CS_RETCODE __real_ct_fetch(CS_COMMAND *, CS_INT, CS_INT, CS_INT, CS_INT *);
CS_RETCODE __wrap_ct_fetch(CS_COMMAND *, CS_INT, CS_INT, CS_INT, CS_INT *);

CS_RETCODE __wrap_ct_results(CS_COMMAND *command, CS_INT *type)
{
    CS_RETCODE rc = __real_ct_results(command, type);
    renderq_interrupt(plan.interrupt);
    return rc;
}

CS_RETCODE __wrap_ct_fetch(CS_COMMAND *command, CS_INT type, CS_INT offset, CS_INT option, CS_INT *rows)
{
    CS_RETCODE rc = __real_ct_fetch(command, type, offset, option, rows);
    renderq_interrupt(plan.interrupt);
    return rc;
}

static server s;
static lane l;

static int start(void **state)
{
    (void)state;
    server_start(&s, "request", 0);
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

static renderq *open_handle(int retry_s)
{
    renderq_options options = RENDERQ_INIT(renderq_options);
    options.retry_s = retry_s;
    lane_clear(&l);
    return lane_handle(&l, &options);
}

static renderq_status enqueue(renderq *h)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.composition_id = "intro";
    job.payload_json = "{}";
    return renderq_enqueue(h, &job, NULL);
}

static void expect_seen(const char *requests)
{
    char seen[400];
    server_ask(&s, seen, sizeof seen, "seen app=%s", l.app);
    assert_string_equal(seen, requests);
}

/* Sent all the same it would go out without any parameter. */
static void a_parameter_that_is_refused(void **state)
{
    (void)state;
    renderq *h = open_handle(-1);
    lane_clear(&l);
    for (int at = 1; at <= 8; at++) {
        memset(&plan, 0, sizeof plan);
        plan.param_at = at;
        expect(h, RENDERQ_NOMEM, enqueue(h));
        assert_int_equal(plan.params, at);
        assert_int_equal(plan.sends, 0);
    }
    expect_seen("nothing");
    assert_int_equal(count_rows(l.s), 0);
    memset(&plan, 0, sizeof plan);
    lane_use(&l, h);                /* on the same connection */
    expect_seen("enqueue claim complete");
    renderq_close(h);
}

/* What is left of it in the buffer would begin the next request, so there is none on this connection. */
static void a_send_that_fails(void **state)
{
    (void)state;
    renderq *h = open_handle(-1);
    lane_clear(&l);
    memset(&plan, 0, sizeof plan);
    plan.send_at = 1;
    plan.with = CS_FAIL;
    expect(h, RENDERQ_UNCERTAIN, enqueue(h));
    assert_int_equal(plan.sends, 1);
    expect_seen("nothing");
    expect_ok(h, enqueue(h));
    expect_seen("login session enqueue");
    assert_int_equal(count_rows(l.s), 1);
    renderq_close(h);
}

static void a_send_that_fails_and_is_tried_again(void **state)
{
    (void)state;
    l.s->ops->clear(l.s->e);
    renderq *h = open_handle(10);
    lane_clear(&l);
    memset(&plan, 0, sizeof plan);
    plan.send_at = 1;
    plan.with = CS_FAIL;
    expect_ok(h, enqueue(h));
    expect_seen("login session enqueue");
    assert_int_equal(count_rows(l.s), 1);
    renderq_close(h);
}

/* A cancel that came too late for its request waits for the next one, which is not sent then. */
static void a_cancel_that_was_waiting(void **state)
{
    (void)state;
    l.s->ops->clear(l.s->e);
    renderq *h = open_handle(-1);
    lane_clear(&l);
    memset(&plan, 0, sizeof plan);
    plan.send_at = 1;
    plan.with = CS_CANCELED;
    expect_ok(h, enqueue(h));
    assert_int_equal(plan.sends, 2);
    expect_seen("enqueue");
    assert_int_equal(count_rows(l.s), 1);
    renderq_close(h);
}

/* The answer is there: the call gives it, and the next wait for work hears the interrupt. */
static void an_interrupt_behind_an_answer(void **state)
{
    (void)state;
    renderq_job *job = NULL;
    l.s->ops->clear(l.s->e);
    memset(&plan, 0, sizeof plan);
    renderq *h = open_handle(-1);
    lane_clear(&l);
    plan.interrupt = h;
    expect_ok(h, enqueue(h));
    expect_ok(h, renderq_begin(h));
    expect_ok(h, enqueue(h));
    expect_ok(h, renderq_commit(h));
    assert_int_equal(count_rows(l.s), 2);
    expect(h, RENDERQ_INTERRUPTED, renderq_claim(h, NULL, &job));
    expect_ok(h, renderq_claim(h, NULL, &job));
    expect_ok(h, renderq_complete(h, job, NULL));
    plan.interrupt = NULL;
    expect_seen("enqueue begin enqueue commit claim complete");     /* and nothing to tidy up */
    renderq_job_free(job);
    renderq_close(h);
}

int run_request(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parameter_that_is_refused),
        cmocka_unit_test(a_send_that_fails),
        cmocka_unit_test(a_send_that_fails_and_is_tried_again),
        cmocka_unit_test(a_cancel_that_was_waiting),
        cmocka_unit_test(an_interrupt_behind_an_answer),
    };
    return cmocka_run_group_tests_name("request", tests, start, stop);
}
