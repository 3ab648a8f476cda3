/* away.c: the database is gone for a while: for SQLite another writer holds its lock, for a server the link is cut, or
 * hangs. Jobs in hand go on, and what comes of them is kept. RENDERQ_WORKER_AWAY_S says for how long. */
#include "kit.h"

#include "proxy.h"
#include "url.h"

typedef struct outage {
    sqlite3 *db;                                    /* who holds the lock */
    proxy link;
    bool by_link, hangs;
    renderq_options patience;                       /* little of it with what hangs, so that it is seen */
} outage;

static int away_s(void)
{
    const char *given = getenv("RENDERQ_WORKER_AWAY_S");
    return given ? atoi(given) : 3;
}

static void prepare(outage *o, kit *k, bool hangs)
{
    rq_url url;
    char why[512], gone[sizeof k->url + 40];
    *o = (outage){ .hangs = hangs, .patience = RENDERQ_INIT(renderq_options) };
    o->patience.retry_s = 1;
    o->patience.command_s = o->patience.connect_s = hangs ? 3 : 30;
    k->options.connection = &o->patience;
    assert_int_equal(rq_url_parse(kit_url, &url, why, sizeof why), RENDERQ_OK);
    if (strcmp(url.scheme, "sqlite") == 0) {
        o->db = db_open(url.path);
        sqlite3_busy_timeout(o->db, PATIENCE_MS);
        snprintf(gone, sizeof gone, "%s&busy_timeout_ms=20", k->url);
    } else {
        o->by_link = true;
        assert_true(proxy_start(&o->link, url.port));
        char *at = strchr(k->url, '@'), *colon = strchr(at, ':'), *slash = strchr(at, '/');
        assert_true(colon && slash);
        snprintf(gone, sizeof gone, "%.*s:%d%s", (int)(colon - k->url), k->url, o->link.port, slash);
    }
    rq_url_free(&url);
    assert_true(strlen(gone) < sizeof k->url);
    memcpy(k->url, gone, strlen(gone) + 1);
}

static void go(outage *o)
{
    if (o->by_link)
        proxy_set(&o->link, o->hangs ? PROXY_HANGS : PROXY_CUT);
    else
        db_exec(o->db, "BEGIN IMMEDIATE");
}

static void come_back(outage *o)
{
    if (o->by_link)
        proxy_set(&o->link, PROXY_PASSES);
    else
        db_exec(o->db, "ROLLBACK");
}

static void end(outage *o, kit *k)
{
    renderq_worker_free(k->w);                      /* its links go through what ends here */
    k->w = NULL;
    if (o->by_link)
        proxy_end(&o->link);
    else
        sqlite3_close(o->db);
}

/* As the worker has noticed. */
static bool is_away(kit *k)
{
    size_t back = events(k, RENDERQ_EVENT_BACK);
    return events(k, RENDERQ_EVENT_AWAY) > back;
}

/* Five jobs run while it is gone; they finish, and none is lost, and none twice. A server that is short of time may
 * seem to hang before that, too. */
static void jobs_go_on(kit *k, bool hangs)
{
    outage o;
    prepare(&o, k, hangs);
    put_some(k, "h", 5);
    put_some(k, "d", 5);
    k->options.threads = 5;
    k->options.lease_s = away_s() * 4 + PATIENCE_MS / 1000;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 5);
    go(&o);
    let_go(k);
    wait_until(handlers_now(k) == 0);               /* they have finished, and wait to tell */
    wait_until(is_away(k));
    sleep_ms(away_s() * 1000);
    assert_int_equal(events(k, RENDERQ_EVENT_DONE), 0);
    come_back(&o);
    wait_event(k, RENDERQ_EVENT_DONE, 10);
    wait_until(events(k, RENDERQ_EVENT_BACK) == events(k, RENDERQ_EVENT_AWAY));
    stop(k);
    expect(k, wait_end(k), RENDERQ_OK);
    assert_int_equal(k->calls, 10);
    assert_int_equal(events(k, RENDERQ_EVENT_LOST), 0);
    if (k->warnings != events(k, RENDERQ_EVENT_AWAY) || k->infos != events(k, RENDERQ_EVENT_BACK))
        print_error("%s", k->lines);
    assert_int_equal(k->warnings, events(k, RENDERQ_EVENT_AWAY));       /* a line a change, not a line a try */
    assert_int_equal(k->infos, events(k, RENDERQ_EVENT_BACK));
    expect_queue(k, 0, 0, 10, 0, 0);
    end(&o, k);
}

static void jobs_go_on_when_it_is_gone(void **state)
{
    jobs_go_on(*state, false);
}

static void jobs_go_on_when_it_hangs(void **state)
{
    jobs_go_on(*state, true);
}

/* It is gone while leases are due to be renewed: what failed did no harm. */
static void a_renewal_that_fails_harms_nothing(void **state)
{
    kit *k = *state;
    outage o;
    prepare(&o, k, false);
    put_some(k, "h", 2);
    k->options.threads = 2;
    k->options.lease_s = 3;
    k->options.max_jobs = 2;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 2);
    go(&o);
    wait_until(is_away(k));
    come_back(&o);
    wait_until(events(k, RENDERQ_EVENT_BACK) == events(k, RENDERQ_EVENT_AWAY));
    let_go(k);
    expect(k, wait_end(k), RENDERQ_OK);
    assert_int_equal(events(k, RENDERQ_EVENT_LOST), 0);
    expect_queue(k, 0, 0, 2, 0, 0);
    end(&o, k);
}

/* Leases have run out for everybody, and nobody has told the queue of the jobs. */
static void expect_untold(kit *k, size_t n)
{
    assert_int_equal(events(k, RENDERQ_EVENT_LOST), n);
    assert_int_equal(events(k, RENDERQ_EVENT_DONE) + events(k, RENDERQ_EVENT_FAILED), 0);
    run_out(k);
    reap(k);
    expect_queue(k, 0, 0, 0, 0, (int64_t)n);        /* one failure, which is the lease's */
}

/* It is gone for longer than a lease, which is at most a second more than it says: the handlers hear that their jobs
 * are lost, as far as we know, so what they return does not count. */
static void leases_run_out_meanwhile(void **state)
{
    kit *k = *state;
    outage o;
    prepare(&o, k, false);
    put_some(k, "h", 2);
    k->options.threads = 2;
    k->options.lease_s = 1;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 2);
    go(&o);
    sleep_ms(2100);
    let_go(k);
    wait_until(handlers_now(k) == 0);
    assert_int_equal(k->reasons[RENDERQ_STOP_LOST], 2);
    stop(k);
    come_back(&o);
    expect(k, wait_end(k), RENDERQ_OK);
    expect_untold(k, 2);
    end(&o, k);
}

/* Fails for ever if its job was lost at any time, and waits until it is let go. */
static renderq_outcome fail_if_lost(void *arg, renderq_task *task, const renderq_job *job)
{
    kit *k = arg;
    (void)job;
    while (!renderq_job_lost(task))
        sleep_ms(2);
    pthread_mutex_lock(&k->lock);
    k->calls++;
    bool go = k->let_go;
    pthread_mutex_unlock(&k->lock);
    while (!go) {
        sleep_ms(2);
        pthread_mutex_lock(&k->lock);
        go = k->let_go;
        pthread_mutex_unlock(&k->lock);
    }
    pthread_mutex_lock(&k->lock);
    k->reasons[renderq_task_should_stop(task)]++;
    pthread_mutex_unlock(&k->lock);
    return renderq_task_fail(task, "it was lost", RENDERQ_NEVER);
}

static bool has_called(kit *k)
{
    pthread_mutex_lock(&k->lock);
    bool has = k->calls > 0;
    pthread_mutex_unlock(&k->lock);
    return has;
}

/* It is back before the handler returns, and the lease could be renewed; but the handler was told. */
static void what_is_lost_stays_lost(void **state)
{
    kit *k = *state;
    outage o;
    prepare(&o, k, false);
    put_some(k, "lost", 1);
    k->options.handler = fail_if_lost;
    k->options.lease_s = 1;
    k->options.max_jobs = 1;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 1);
    go(&o);
    wait_until(has_called(k));
    come_back(&o);
    wait_until(events(k, RENDERQ_EVENT_BACK) == events(k, RENDERQ_EVENT_AWAY));
    let_go(k);
    expect(k, wait_end(k), RENDERQ_OK);
    assert_int_equal(k->reasons[RENDERQ_STOP_LOST], 1);
    expect_untold(k, 1);
    end(&o, k);
}

/* A stop while it is gone does not wait for ever, and does not lie. */
static void a_stop_meanwhile(void **state)
{
    kit *k = *state;
    outage o;
    prepare(&o, k, false);
    put_some(k, "h", 2);
    k->options.threads = 2;
    k->options.lease_s = 3600;                      /* longer than wait_end() waits */
    k->options.grace_s = 1;
    k->options.linger_s = 1;
    start(k);
    wait_event(k, RENDERQ_EVENT_STARTED, 2);
    go(&o);
    let_go(k);
    wait_until(handlers_now(k) == 0);
    int64_t asked_ms = now_ms();
    stop(k);
    expect(k, wait_end(k), RENDERQ_DISCONNECTED);
    assert_true(k->ended_ms - asked_ms >= 1000);
    expect_text(renderq_worker_errmsg(k->w), "2 jobs", __FILE__, __LINE__);
    come_back(&o);
    expect_queue(k, 0, 2, 0, 0, 0);
    end(&o, k);
}

/* A transactional worker that asks for a job, and would be told for longer than wait_end() waits, is interrupted. */
static void a_stop_ends_the_wait_for_a_job(void **state)
{
    kit *k = *state;
    outage o;
    prepare(&o, k, true);
    if (!o.by_link)
        *strstr(k->url, "&busy_timeout_ms") = 0;    /* it waits for the lock */
    o.patience.command_s = o.patience.connect_s = 300;
    k->options.lease_s = 1200;
    k->options.transactional = 1;
    put_some(k, "d", 1);
    make(k);
    go(&o);
    start(k);
    sleep_ms(200);                                  /* it asks meanwhile */
    stop(k);
    expect(k, wait_end(k), RENDERQ_OK);
    assert_int_equal(k->calls, 0);
    come_back(&o);
    end(&o, k);
}

static void stop_when_back(void *arg, const renderq_event *event)
{
    kit *k = arg;
    pthread_mutex_lock(&k->lock);
    k->events[event->type]++;
    pthread_mutex_unlock(&k->lock);
    if (event->type == RENDERQ_EVENT_BACK)
        renderq_worker_stop(k->w);
}

/* The answer by which the database is back has a job in it, and the stop comes before its handler. */
static void what_comes_after_a_stop_is_not_begun(void **state)
{
    kit *k = *state;
    outage o;
    prepare(&o, k, false);
    put_some(k, "d", 1);
    k->options.transactional = 1;
    k->options.on_event = stop_when_back;
    make(k);
    go(&o);
    start(k);
    wait_event(k, RENDERQ_EVENT_AWAY, 1);
    come_back(&o);
    expect(k, wait_end(k), RENDERQ_OK);
    assert_int_equal(events(k, RENDERQ_EVENT_STARTED), 0);
    assert_int_equal(k->calls, 0);
    assert_int_equal(events(k, RENDERQ_EVENT_RELEASED), 1);
    expect_queue(k, 1, 0, 0, 0, 0);
    end(&o, k);
}

/* Gone when run() begins is gone as later. For SQLite only the poller meets that. */
static void gone_at_the_start(kit *k, bool transactional)
{
    outage o;
    prepare(&o, k, false);
    put_some(k, "d", 1);
    k->options.transactional = transactional;
    k->options.threads = 3;
    k->options.max_jobs = 1;
    make(k);
    go(&o);
    start(k);
    wait_event(k, RENDERQ_EVENT_AWAY, 1);
    come_back(&o);
    expect(k, wait_end(k), RENDERQ_OK);
    assert_int_equal(events(k, RENDERQ_EVENT_DONE), 1);
    go(&o);
    start(k);                                       /* once more, for a stop */
    sleep_ms(100);
    stop(k);
    expect(k, wait_end(k), RENDERQ_OK);
    come_back(&o);
    expect_queue(k, 0, 0, 1, 0, 0);
    end(&o, k);
}

static void it_is_gone_at_the_start(void **state)
{
    gone_at_the_start(*state, false);
}

static void it_is_gone_at_the_start_of_transactions(void **state)
{
    gone_at_the_start(*state, true);
}

static renderq_outcome lose_the_reply(void *arg, renderq_task *task, const renderq_job *job)
{
    outage *o = arg;
    (void)task;
    (void)job;
    proxy_set(&o->link, PROXY_CUTS_REPLIES);
    return RENDERQ_TASK_DONE;
}

/* It was committed, and then the database was gone: that it is done is known once it can be asked. */
static void a_commit_whose_reply_was_lost(void **state)
{
    kit *k = *state;
    outage o;
    prepare(&o, k, false);
    if (!o.by_link) {
        sqlite3_close(o.db);
        print_message("not tried: SQLite's answer to a commit cannot be lost\n");
        return;
    }
    put_some(k, "d", 1);
    k->options.transactional = 1;
    k->options.max_jobs = 1;
    k->options.handler = lose_the_reply;
    k->options.handler_arg = &o;
    start(k);
    wait_until(counts(k).completed == 1);
    wait_event(k, RENDERQ_EVENT_AWAY, 1);
    come_back(&o);
    expect(k, wait_end(k), RENDERQ_OK);
    assert_int_equal(events(k, RENDERQ_EVENT_DONE), 1);
    assert_int_equal(events(k, RENDERQ_EVENT_LOST), 0);
    expect_queue(k, 0, 0, 1, 0, 0);
    end(&o, k);
}

int run_away(void)
{
    const struct CMUnitTest tests[] = {
        TEST(jobs_go_on_when_it_is_gone), TEST(jobs_go_on_when_it_hangs), TEST(a_renewal_that_fails_harms_nothing),
        TEST(leases_run_out_meanwhile), TEST(what_is_lost_stays_lost), TEST(a_stop_meanwhile),
        TEST(a_stop_ends_the_wait_for_a_job), TEST(what_comes_after_a_stop_is_not_begun),
        TEST(a_commit_whose_reply_was_lost), TEST(it_is_gone_at_the_start),
        TEST(it_is_gone_at_the_start_of_transactions),
    };
    return cmocka_run_group_tests_name("away", tests, NULL, NULL);
}
