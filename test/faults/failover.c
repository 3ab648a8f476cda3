/* failover.c: the server goes away in the middle of a call, is refused for a while, and another one comes in its place
 * with the same data. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults.h"

static server s;
static lane l;

static int start(void **state)
{
    (void)state;
    server_start(&s, "failover", 0);
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

/* ---- the same server, which refuses logins for a while ---- */

typedef struct refusal {
    const char *name, *words;
} refusal;

static const refusal refusals[] = {
    { "not available", "do=error when=before number=40613 severity=14 text=La base de données n'est pas disponible." },
    { "login failed", "do=error when=before number=18456 severity=14 state=102" },
    { "no database", "do=error when=before number=4060 severity=11" },
    { "in recovery", "do=error when=before number=18401 severity=14" },
    { "cut", "do=drop when=before" },
    { "cut in the answer", "do=cut at_byte=packet" },
    { "noise", "do=noise" },
};

static renderq *open_for(int retry_s)
{
    renderq_options options = RENDERQ_INIT(renderq_options);
    options.worker = "node-1";
    options.retry_s = retry_s;
    lane_clear(&l);
    return lane_handle(&l, &options);
}

/* The call takes effect, its reply is lost, and then so many logins fail. */
static void refuse(const refusal *r, const char *request, int times)
{
    lane_fault(&l, "at=%s do=drop", request);
    lane_fault(&l, "at=login times=%d %s", times, r->words);
}

static void logins_refused_for_a_while(void **state)
{
    (void)state;
    for (size_t i = 0; i < count_of(refusals); i++) {
        renderq *h = open_for(45);
        renderq_job *job = NULL;
        l.s->ops->clear(l.s->e);
        renderq_id id = put(l.s, "intro");
        refuse(&refusals[i], "claim", 4);
        expect_ok(h, renderq_claim(h, NULL, &job));
        same_id(&job->id, &id);
        expect_text(l.s, &id, "LeaseToken", job->lease.text);
        lane_clear(&l);
        refuse(&refusals[i], "complete", 4);
        expect_ok(h, renderq_complete(h, job, "out"));
        assert_int_equal(lane_fired(&l), 5);
        expect_status(l.s, &id, "Completed");
        lane_use(&l, h);
        renderq_job_free(job);
        renderq_close(h);
    }
}

/* It never ends (which takes a second a call, so of the refusals a few): the call says what it cannot know, the next
 * one what it can, and the handle comes back. */
static void logins_refused_for_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < count_of(refusals); i += 3) {
        renderq *h = open_for(1);
        l.s->ops->clear(l.s->e);
        renderq_id id = put(l.s, "intro");
        renderq_job *job = take_this(l.s->h, &id);
        refuse(&refusals[i], "complete", 0);
        expect(h, RENDERQ_UNCERTAIN, renderq_complete(h, job, "out"));
        expect_status(l.s, &id, "Completed");
        expect(h, RENDERQ_DISCONNECTED, renderq_cancel(h, NULL, &id));
        expect(h, RENDERQ_DISCONNECTED, renderq_begin(h));
        expect_status(l.s, &id, "Completed");
        lane_clear(&l);
        expect(h, RENDERQ_LOST, renderq_cancel(h, NULL, &id));
        lane_use(&l, h);
        renderq_job_free(job);
        renderq_close(h);
    }
}

/* ---- another server ---- */

#define AWAY_MS 700

typedef struct change {
    bool hard;                      /* no goodbye */
    bool there;                     /* the new server is */
    bool over;                      /* the new server, which ends with the thread, is not needed any more */
} change;

/* The port is closed for a while; then another process serves the same files on it. */
static void *change_servers(void *arg)
{
    change *c = arg;
    int port = s.port;
    for (int i = 0; i < 6000 && lane_fired(&l) == 0; i++)
        usleep(10000);              /* until the request has come */
    usleep(300000);
    if (c->hard)
        server_kill(&s);
    else
        server_stop(&s);
    usleep(AWAY_MS * 1000);
    server_start(&s, "failover", port);
    __atomic_store_n(&c->there, true, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&c->over, __ATOMIC_ACQUIRE))
        usleep(10000);
    return NULL;
}

/* The handle is in the middle of a request that the first server never answers: it was done, or it was not. */
static void another_server_on_the_same_port(void **state)
{
    (void)state;
    static const char *const whens[] = { "before", "after" };
    for (size_t i = 0; i < 2 * count_of(whens); i++) {
        change c = { .hard = i % 2 };
        pthread_t thread;
        renderq *h = open_for(45);
        renderq_new_job new = RENDERQ_INIT(renderq_new_job);
        renderq_id id;
        l.s->ops->clear(l.s->e);
        new.composition_id = "intro";
        new.payload_json = "{}";
        lane_fault(&l, "at=enqueue when=%s do=silent", whens[i / 2]);
        assert_int_equal(pthread_create(&thread, NULL, change_servers, &c), 0);
        renderq_status got = renderq_enqueue(h, &new, &id);
        while (!__atomic_load_n(&c.there, __ATOMIC_ACQUIRE))
            usleep(10000);
        if (got == RENDERQ_OK)
            lane_use(&l, h);
        server_stop(&s);
        server_start(&s, "failover", s.port);       /* this thread's own */
        __atomic_store_n(&c.over, true, __ATOMIC_RELEASE);
        pthread_join(thread, NULL);
        expect_ok(h, got);
        assert_int_equal(count_rows(l.s), 1);
        assert_true(row_there(l.s, &id));
        lane_use(&l, h);
        renderq_close(h);
    }
}

/* In a transaction the caller hears of it, and nothing of it is there. */
static void another_server_in_a_transaction(void **state)
{
    (void)state;
    renderq *h = open_for(30);
    renderq_new_job new = RENDERQ_INIT(renderq_new_job);
    renderq_job *job = NULL;
    l.s->ops->clear(l.s->e);
    new.composition_id = "intro";
    new.payload_json = "{}";
    renderq_id id = put(l.s, "message");
    expect_ok(h, renderq_receive(h, NULL, &job));
    same_id(&job->id, &id);
    expect_ok(h, renderq_enqueue(h, &new, NULL));
    server_kill(&s);
    server_start(&s, "failover", s.port);
    expect(h, RENDERQ_ABORTED, renderq_enqueue(h, &new, NULL));
    expect(h, RENDERQ_ABORTED, renderq_commit(h));
    assert_int_equal(count_rows(l.s), 1);
    expect_status(l.s, &id, "Processing");
    expect_ok(h, renderq_release(h, job, 0));
    expect_status(l.s, &id, "Queued");
    expect_number(l.s, &id, "RetryCount", 0);
    renderq_job_free(job);
    lane_use(&l, h);
    renderq_close(h);
}

/* The server is gone when the commit is sent: nothing of it happened, or the row tells. */
static void another_server_before_the_commit(void **state)
{
    (void)state;
    renderq *h = open_for(30);
    renderq_job *job = NULL;
    l.s->ops->clear(l.s->e);
    renderq_id id = put(l.s, "message");
    expect_ok(h, renderq_receive(h, NULL, &job));
    server_kill(&s);
    server_start(&s, "failover", s.port);
    expect(h, RENDERQ_ABORTED, renderq_commit(h));
    expect_status(l.s, &id, "Processing");
    expect_ok(h, renderq_complete(h, job, NULL));       /* the lease is still good */
    renderq_job_free(job);
    renderq_close(h);
}

int run_failover(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logins_refused_for_a_while),
        cmocka_unit_test(logins_refused_for_good),
        cmocka_unit_test(another_server_on_the_same_port),
        cmocka_unit_test(another_server_in_a_transaction),
        cmocka_unit_test(another_server_before_the_commit),
    };
    return cmocka_run_group_tests_name("failover", tests, start, stop);
}
