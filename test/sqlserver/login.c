/* login.c: connections that do not come about, and what a URL may say. */
#include "wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

/* ---- refused ---- */

static void a_login_is_refused(void **state)
{
    (void)state;
    char url[200];
    long from = log_end(&common);
    snprintf(url, sizeof url, "sqlserver://sa:wrong@127.0.0.1:%d/renderq", common.port);
    assert_int_equal(expect_no_open(url, NULL, RENDERQ_DENIED, "wrong user or password"), 18456);
    snprintf(url, sizeof url, "sqlserver://nobody:" PASSWORD "@127.0.0.1:%d/renderq", common.port);
    assert_int_equal(expect_no_open(url, NULL, RENDERQ_DENIED, "'nobody'"), 18456);
    snprintf(url, sizeof url, "sqlserver://sa@127.0.0.1:%d/renderq", common.port);
    assert_int_equal(expect_no_open(url, NULL, RENDERQ_DENIED, "wrong user or password"), 18456);
    log_wait(&common, from, "login refused", 3);            /* each asked once */
    assert_int_equal(log_count(&common, from, "protocol error"), 0);
}

static void a_password_of_the_options(void **state)
{
    (void)state;
    char url[200];
    renderq *h = NULL;
    renderq_options options = quiet_options();
    options.password = PASSWORD;
    snprintf(url, sizeof url, "sqlserver://sa:wrong@127.0.0.1:%d/renderq", common.port);
    expect_ok(h, renderq_open(url, &options, &h));
    renderq_close(h);
}

static void an_unknown_database(void **state)
{
    (void)state;
    assert_int_equal(expect_no_open(url_of(&common, "/other"), NULL, RENDERQ_DENIED, "database does not exist"), 4060);
}

static void the_default_database(void **state)
{
    (void)state;
    renderq_close(open_at(&common, "", NULL));
    renderq_close(open_at(&common, "?app=x", NULL));
}

/* ---- not reached ---- */

static void an_unknown_host(void **state)
{
    (void)state;
    expect_no_open("sqlserver://sa:" PASSWORD "@no-such-host.invalid:1433/renderq", NULL, RENDERQ_DISCONNECTED,
                   "no-such-host.invalid");
    expect_no_open("sqlserver://sa:" PASSWORD "@no-such-section/renderq", NULL, RENDERQ_DISCONNECTED, "no-such-section");
}

/* A socket on a free port of 127.0.0.1. */
static int bind_any(int *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static void nobody_listens(void **state)
{
    (void)state;
    char url[200];
    int port, fd = bind_any(&port);         /* held, so that nobody else can listen there */
    int64_t start = now_ms();
    snprintf(url, sizeof url, "sqlserver://sa:" PASSWORD "@127.0.0.1:%d/renderq", port);
    expect_no_open(url, NULL, RENDERQ_DISCONNECTED, "no connection to 127.0.0.1");
    assert_true(now_ms() - start < LONG_MS);            /* and not all of connect_s */
    close(fd);
}

/* It takes the connection, and then says nothing. */
static void nobody_answers(void **state)
{
    (void)state;
    char url[200];
    int port, fd = bind_any(&port);
    assert_int_equal(listen(fd, 5), 0);
    renderq_options options = quiet_options();
    options.connect_s = 1;
    int64_t start = now_ms();
    snprintf(url, sizeof url, "sqlserver://sa:" PASSWORD "@127.0.0.1:%d/renderq", port);
    expect_no_open(url, &options, RENDERQ_DISCONNECTED, "127.0.0.1 did not answer within 1 s");
    assert_in_range(now_ms() - start, 900, LONG_MS);
    close(fd);
}

/* ---- a server that breaks off ---- */

typedef struct listener {
    int fd;
    bool answer;            /* a byte, so that it is no broken link but nonsense */
    int connections;
    unsigned char bytes[1 << 16];
    size_t len;
} listener;

/* Takes what comes first on each connection, and closes it. */
static void *break_off(void *arg)
{
    listener *l = arg;
    int fd;
    while ((fd = accept(l->fd, NULL, NULL)) >= 0) {
        ssize_t got = recv(fd, l->bytes + l->len, sizeof l->bytes - l->len, 0);
        l->len += got > 0 ? (size_t)got : 0;
        l->connections++;
        if (l->answer)
            send(fd, "\4\1\0\x0b\0\0\1\0junk", 12, MSG_NOSIGNAL);
        close(fd);
    }
    return NULL;
}

static bool holds(const listener *l, const char *text)
{
    char wide[64];
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++) {
        wide[2 * i] = text[i];
        wide[2 * i + 1] = 0;
    }
    return memmem(l->bytes, l->len, text, n) || memmem(l->bytes, l->len, wide, 2 * n);
}

/* Left to itself CT-Library would try again with an older protocol, and the password in clear text. */
static void no_older_protocol_is_tried(void **state)
{
    (void)state;
    static listener l;
    for (int answer = 0; answer <= 1; answer++) {
        char url[200];
        int port;
        pthread_t thread;
        l = (listener){ .answer = answer };
        l.fd = bind_any(&port);
        assert_int_equal(listen(l.fd, 5), 0);
        assert_int_equal(pthread_create(&thread, NULL, break_off, &l), 0);
        snprintf(url, sizeof url, "sqlserver://theuser:" PASSWORD "@127.0.0.1:%d/renderq", port);
        expect_no_open(url, NULL, RENDERQ_DISCONNECTED, "no connection");
        shutdown(l.fd, SHUT_RDWR);
        pthread_join(thread, NULL);
        close(l.fd);
        assert_int_equal(l.connections, 1);
        assert_true(l.len > 0);
        assert_int_equal(l.bytes[0], 0x12);         /* PRELOGIN, and nothing behind it */
        assert_false(holds(&l, PASSWORD));
        assert_false(holds(&l, "theuser"));
    }
}

/* ---- names of servers ---- */

static void an_address_of_ipv6(void **state)
{
    (void)state;
    static const char *const options[] = { "--ipv6", NULL };
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 address = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    bool there = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    if (!there)
        skip_but_in_ci("there is no ::1 on this machine");
    server s;
    server_start(&s, "ipv6", options);
    renderq *h = queue_at(&s, "jobs", NULL);
    use(h);
    renderq_close(h);
    server_stop(&s);
    /* without a port it is 1433, and not port 1 of a host called : */
    expect_no_open("sqlserver://sa:" PASSWORD "@[::1]/renderq?encrypt=require", NULL, RENDERQ_DENIED, "\"[::1]\", \"host");
}

static void write_conf(const char *text)
{
    FILE *file = fopen("test.conf", "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(setenv("FREETDSCONF", "test.conf", 1), 0);
}

static int no_conf(void **state)
{
    (void)state;
    return setenv("FREETDSCONF", "none.conf", 1);
}

static void a_section_of_freetds_conf(void **state)
{
    (void)state;
    char conf[300];
    snprintf(conf, sizeof conf, "[global]\ntext size = 64\ntds version = 5.0\nclient charset = ISO-8859-1\n"
             "[farm]\nhost = 127.0.0.1\nport = %d\n", common.port);
    write_conf(conf);
    renderq *h = NULL;
    renderq_options options = quiet_options();
    expect_ok(h, renderq_open("sqlserver://sa:" PASSWORD "@farm/renderq?queue=section", &options, &h));
    expect_ok(h, renderq_create(h, NULL));
    use(h);
    /* what the file says of text sizes, versions and characters does not count */
    char payload[3000];
    memset(payload, 'x', sizeof payload - 1);
    memcpy(payload, "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80", 9);
    payload[sizeof payload - 1] = 0;
    renderq_new_job new = RENDERQ_INIT(renderq_new_job);
    renderq_job *job = NULL;
    new.composition_id = "\xE2\x82\xAC";
    new.payload_json = payload;
    expect_ok(h, renderq_enqueue(h, &new, NULL));
    expect_ok(h, take_job(h, NULL, &job));
    assert_string_equal(job->payload_json, payload);
    assert_string_equal(job->composition_id, "\xE2\x82\xAC");
    renderq_job_free(job);
    renderq_close(h);
}

/* ---- the URL ---- */

static void bad_options(void **state)
{
    static const struct { const char *url, *says; } cases[] = {
        { "sqlserver://sa:" PASSWORD "@h:1/d?lock_timeout_ms=-1", "lock_timeout_ms=-1: it is a number from 0" },
        { "sqlserver://sa:" PASSWORD "@h:1/d?lock_timeout_ms=3600001", "lock_timeout_ms" },
        { "sqlserver://sa:" PASSWORD "@h:1/d?lock_timeout_ms=1s", "lock_timeout_ms" },
        { "sqlserver://sa:" PASSWORD "@h:1/d?lock_timeout_ms=", "lock_timeout_ms" },
        { "sqlserver://sa:" PASSWORD "@h:1/d?lock_timeout_ms=99999999999999999999", "lock_timeout_ms" },
        { "sqlserver://sa:" PASSWORD "@h:1/d?lock_timeout_ms=+5", "lock_timeout_ms" },
        { "sqlserver://sa:" PASSWORD "@h:1/d?lock_timeout_ms=%095", "lock_timeout_ms" },
        { "sqlserver://sa:" PASSWORD "@h:1/d?lock_timeout_ms=%205", "lock_timeout_ms" },
        { "sqlserver://sa:" PASSWORD "@h:1/d?packet_size=4095", "packet_size=4095: it is a number from 4096 to 32767" },
        { "sqlserver://sa:" PASSWORD "@h:1/d?packet_size=32768", "packet_size" },
        { "sqlserver://sa:" PASSWORD "@h:1/d?packet_size=4k", "packet_size" },
        { "sqlserver://sa:" PASSWORD "@h:1/d?deadlock_priority=11", "deadlock_priority=11: it is a number from -10 to 10" },
        { "sqlserver://sa:" PASSWORD "@h:1/d?deadlock_priority=-11", "deadlock_priority" },
        { "sqlserver://sa:" PASSWORD "@h:1/d?deadlock_priority=LOW", "deadlock_priority" },
        { "sqlserver://sa:" PASSWORD "@h:1/d?encrypt=yes", "encrypt=yes: it is require, or left out" },
        { "sqlserver://sa:" PASSWORD "@h:1/d?encrypt=", "encrypt" },
        { "sqlserver://sa:" PASSWORD "@h:1/d?encrypt=Require", "encrypt" },
        { "sqlserver://sa:" PASSWORD "@h:1/d?synchronous=full", "\"synchronous\" is not one of sqlserver's" },
        { "sqlserver://sa:" PASSWORD "@h:1/d?app", "option 1 of the URL has no =" },
        { "sqlserver://sa:" PASSWORD "@h:1/d?queue=a.b.c", "has more than two parts" },
        { "sqlserver://h:1/d", "names a user" },
        { "sqlserver://:" PASSWORD "@h:1/d", "names a user" },
        { "sqlserver://sa:" PASSWORD "@/d", "names a server" },
        { "sqlserver://sa:" PASSWORD "@:1433/d", "names a server" },
        { "sqlserver:d", "names a server" },
        { "sqlserver:", "names a server" },
    };
    (void)state;
    for (size_t i = 0; i < count_of(cases); i++)
        assert_int_equal(expect_no_open(cases[i].url, NULL, RENDERQ_INVALID, cases[i].says), 0);
}

static void good_options(void **state)
{
    (void)state;
    long from = log_end(&common);
    renderq *h = open_at(&common, "/renderq?lock_timeout_ms=0&packet_size=4096&deadlock_priority=-10&app=my%20farm", NULL);
    log_wait(&common, from, "batch session", 1);
    assert_int_equal(log_count(&common, from, "login 'sa' 'my farm' TDS 7.4 packets of 4096 plain"), 1);
    assert_int_equal(log_count(&common, from, "SET LOCK_TIMEOUT 0"), 1);
    assert_int_equal(log_count(&common, from, "SET DEADLOCK_PRIORITY -10"), 1);
    renderq_close(h);
    h = queue_at(&common, "packets&lock_timeout_ms=3600000&packet_size=32767&deadlock_priority=10", NULL);
    log_wait(&common, from, "packets of 32767 plain", 1);
    use(h);
    renderq_close(h);
}

int run_login(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_login_is_refused),
        cmocka_unit_test(a_password_of_the_options),
        cmocka_unit_test(an_unknown_database),
        cmocka_unit_test(the_default_database),
        cmocka_unit_test(an_unknown_host),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(nobody_answers),
        cmocka_unit_test(no_older_protocol_is_tried),
        cmocka_unit_test(an_address_of_ipv6),
        cmocka_unit_test_teardown(a_section_of_freetds_conf, no_conf),
        cmocka_unit_test(bad_options),
        cmocka_unit_test(good_options),
    };
    return cmocka_run_group_tests_name("login", tests, NULL, NULL);
}
