/* encryption.c: encrypt=require: refused unless FreeTDS is going to demand it, and what comes of it when it does. */
#include "wire.h"

static server tls;                          /* takes encrypted connections alone */
static const char *options[] = { "--encrypt", "required", "--cert", NULL, "--key", NULL, NULL };

static int start(void **state)
{
    (void)state;
    options[3] = getenv("RENDERQ_TDSD_CERT");
    options[5] = getenv("RENDERQ_TDSD_KEY");
    server_start(&tls, "tls", options);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    server_stop(&tls);
    return 0;
}

static int no_conf(void **state)
{
    (void)state;
    return setenv("FREETDSCONF", "none.conf", 1);
}

/* [section] and what is in it, in the file that FreeTDS reads. */
static void write_conf(const char *section, int port, const char *lines)
{
    FILE *file = fopen("tls.conf", "w");
    assert_non_null(file);
    fprintf(file, "[%s]\nhost = 127.0.0.1\nport = %d\n%s", section, port, lines);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(setenv("FREETDSCONF", "tls.conf", 1), 0);
}

static const char *ca_file(void)
{
    static char line[600];
    snprintf(line, sizeof line, "encryption = require\nca file = %s\n", getenv("RENDERQ_TDSD_CERT"));
    return line;
}

#define MORE "/renderq?encrypt=require&queue=tls"

/* Nothing is sent to a server that could be spoken to in clear text. */
static void not_demanded_is_refused(void **state)
{
    static const char *const lines[] = { "", "encryption = request\n", "encryption = off\n" };
    char says[200];
    (void)state;
    for (size_t i = 0; i < count_of(lines); i++) {
        long from = log_end(&tls);
        write_conf("127.0.0.1", tls.port, lines[i]);
        expect_no_open(url_of(&tls, MORE), NULL, RENDERQ_DENIED, "tls.conf does not demand it: add the lines");
        snprintf(says, sizeof says, "\"[127.0.0.1:%d]\", \"host = ", tls.port);
        expect_no_open(url_of(&tls, MORE), NULL, RENDERQ_DENIED, says);
        expect_no_open(url_of(&tls, MORE), NULL, RENDERQ_DENIED, "\"encryption = require\", \"ca file = system\"");
        assert_int_equal(log_end(&tls), from);
    }
}

static void expect_encrypted(const char *url)
{
    renderq *h = NULL;
    renderq_options quiet = quiet_options();
    long from = log_end(&tls);
    expect_ok(h, renderq_open(url, &quiet, &h));
    expect_ok(h, renderq_create(h, NULL));
    use(h);
    log_wait(&tls, from, "encrypted", 1);
    assert_int_equal(log_count(&tls, from, "plain"), 0);
    renderq_close(h);
}

static void demanded_is_used(void **state)
{
    char section[64];
    (void)state;
    snprintf(section, sizeof section, "127.0.0.1:%d", tls.port);
    write_conf(section, tls.port, "encryption = require\n");
    expect_encrypted(url_of(&tls, MORE));
    write_conf("127.0.0.1", tls.port, "encryption = require\n");
    expect_encrypted(url_of(&tls, MORE));
    write_conf("global", tls.port, "encryption = require\n");
    expect_encrypted(url_of(&tls, MORE));
    write_conf("farm", tls.port, "encryption = require\n");
    expect_encrypted("sqlserver://sa:" PASSWORD "@farm" MORE);
}

static void a_certificate_is_checked(void **state)
{
    (void)state;
    write_conf("farm", tls.port, ca_file());
    expect_encrypted("sqlserver://sa:" PASSWORD "@farm" MORE);
    long from = log_end(&tls);
    write_conf("farm", tls.port, "encryption = require\nca file = system\n");      /* nobody there knows ours */
    expect_no_open("sqlserver://sa:" PASSWORD "@farm" MORE, NULL, RENDERQ_DISCONNECTED, "farm");
    assert_int_equal(log_count(&tls, from, "login"), 0);
}

/* The server cannot: FreeTDS does not log in. */
static void a_server_without_encryption(void **state)
{
    (void)state;
    long from = log_end(&common);
    write_conf("farm", common.port, "encryption = require\n");
    expect_no_open("sqlserver://sa:" PASSWORD "@farm" MORE, NULL, RENDERQ_DISCONNECTED, "farm");
    assert_int_equal(log_count(&common, from, "login"), 0);
}

/* Left out, it is as FreeTDS does it by itself: encrypted where the server wants it. */
static void left_out(void **state)
{
    (void)state;
    expect_encrypted(url_of(&tls, "/renderq?queue=tls"));
}

static void large_texts(void **state)
{
    (void)state;
    write_conf("127.0.0.1", tls.port, "encryption = require\n");
    renderq *h = open_at(&tls, MORE, NULL);
    expect_ok(h, renderq_create(h, NULL));
    size_t len = 1 << 20;
    char *payload = malloc(len + 1);
    assert_non_null(payload);
    for (size_t i = 0; i < len; i++)
        payload[i] = (char)('a' + i % 26);
    payload[len] = 0;
    renderq_new_job new = RENDERQ_INIT(renderq_new_job);
    renderq_job *job = NULL;
    new.composition_id = "large";
    new.payload_json = payload;
    expect_ok(h, renderq_enqueue(h, &new, NULL));
    expect_ok(h, take_job(h, NULL, &job));
    assert_string_equal(job->payload_json, payload);
    renderq_job_free(job);
    free(payload);
    renderq_close(h);
}

int run_encryption(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(not_demanded_is_refused, no_conf),
        cmocka_unit_test_teardown(demanded_is_used, no_conf),
        cmocka_unit_test_teardown(a_certificate_is_checked, no_conf),
        cmocka_unit_test_teardown(a_server_without_encryption, no_conf),
        cmocka_unit_test_teardown(left_out, no_conf),
        cmocka_unit_test_teardown(large_texts, no_conf),
    };
    return cmocka_run_group_tests_name("encryption", tests, start, stop);
}
