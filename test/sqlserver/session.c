/* session.c: what every session begins with, and that nothing a program does afterwards changes it. */
#include "wire.h"

/* The number of the session that has logged in since then; each line of the log begins with one. */
static int session_since(long from)
{
    char line[300];
    int number = 0;
    FILE *file = fopen(common.log, "r");
    assert_non_null(file);
    assert_int_equal(fseek(file, from, SEEK_SET), 0);
    while (fgets(line, sizeof line, file))
        if (strstr(line, " login '"))
            number = atoi(line);
    fclose(file);
    return number;
}

static void a_session_is_set_up_in_one_batch(void **state)
{
    static const char *const settings[] = {
        "SET QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL ON",
        "SET NUMERIC_ROUNDABORT OFF", "SET XACT_ABORT ON", "SET NOCOUNT ON", "SET TEXTSIZE 2147483647",
        "SET LOCK_TIMEOUT 10000", "SET DEADLOCK_PRIORITY 0", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
    };
    (void)state;
    long from = log_end(&common);
    renderq *h = open_at(&common, "/renderq", NULL);
    log_wait(&common, from, "TRANSACTION ISOLATION", 1);
    assert_int_equal(log_count(&common, from, "login 'sa' 'librenderq' TDS 7.4 packets of 4096 plain"), 1);
    assert_int_equal(log_count(&common, from, "batch"), 1);
    assert_int_equal(log_count(&common, from, "batch session"), 1);
    for (size_t i = 0; i < count_of(settings); i++)
        assert_int_equal(log_count(&common, from, settings[i]), 1);
    assert_int_equal(log_count(&common, from, "SET "), count_of(settings));
    renderq_close(h);
    char closed[40];
    snprintf(closed, sizeof closed, "%d closed", session_since(from));     /* one before it may be closed as late */
    log_wait(&common, from, closed, 1);
}

/* A refused request leaves the session as it was, with no transaction open, and the next is in it. */
static void a_session_outlives_refusals(void **state)
{
    (void)state;
    renderq *h = queue_at(&common, "outlives", NULL);
    long from = log_end(&common);
    renderq_job *job = NULL;
    for (int i = 0; i < 3; i++) {
        expect(h, put_job(h, "no_such_table", "intro", NULL), RENDERQ_SCHEMA);
        assert_int_equal(renderq_native_error(h), 208);
        assert_says(h, "renderq_create()");
        expect(h, take_job(h, "no_such_table", &job), RENDERQ_SCHEMA);
        use(h);
    }
    assert_int_equal(log_count(&common, from, "login"), 0);
    assert_int_equal(log_count(&common, from, "batch rollback"), 6);
    renderq_close(h);
}

static int texts_of_another_language(void *arg)
{
    (void)arg;
    setenv("LC_ALL", "tr_TR.ISO-8859-9", 1);
    setenv("LANG", "tr_TR.ISO-8859-9", 1);
    renderq *h = NULL;
    renderq_job *job = NULL;
    renderq_options options = quiet_options();
    CHECK_STATUS(h, renderq_open(url_of(&common, "/renderq?queue=language"), &options, &h), RENDERQ_OK);
    CHECK_STATUS(h, renderq_create(h, NULL), RENDERQ_OK);
    CHECK_STATUS(h, put_job(h, NULL, "\xC4\xB0\xE2\x82\xAC", NULL), RENDERQ_OK);
    CHECK_STATUS(h, take_job(h, NULL, &job), RENDERQ_OK);
    CHECK(strcmp(job->composition_id, "\xC4\xB0\xE2\x82\xAC") == 0);
    renderq_job_free(job);
    renderq_close(h);
    return 0;
}

static void the_locale_does_not_matter(void **state)
{
    (void)state;
    in_child(texts_of_another_language, NULL, false);
}

int run_session(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_is_set_up_in_one_batch),
        cmocka_unit_test(a_session_outlives_refusals),
        cmocka_unit_test(the_locale_does_not_matter),
    };
    return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
