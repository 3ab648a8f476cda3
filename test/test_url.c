/* test_url.c: lib/url.c. What the schemes make of a URL is tested with renderq_open(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "url.h"

#define WHY_SIZE    200
#define count_of(a) (sizeof (a) / sizeof (a)[0])

static void assert_same(const char *found, const char *expected)
{
    if (expected == NULL)
        assert_null(found);
    else {
        assert_non_null(found);
        assert_string_equal(found, expected);
    }
}

static void assert_all_zero(const rq_url *url)
{
    static const rq_url zero;
    const char *const strings[] = { url->scheme, url->user, url->password, url->host, url->path, url->block };

    for (size_t i = 0; i < count_of(strings); i++)
        assert_null(strings[i]);
    for (size_t i = 0; i < RQ_URL_OPTIONS_MAX; i++) {
        assert_null(url->options[i].name);
        assert_null(url->options[i].value);
    }
    assert_false(url->has_authority);
    assert_int_equal(url->port, zero.port);
    assert_int_equal(url->n_options, zero.n_options);
}

static void good_urls(void **state)
{
    static const struct {
        const char *text, *scheme, *user, *password, *host;
        int port;
        const char *path;
        bool has_authority;
        const char *options;                    /* as name=value; in their order */
    } good[] = {
        { "sqlite:jobs.db", "sqlite", NULL, NULL, NULL, 0, "jobs.db", false, "" },
        { "sqlite:/a/b", "sqlite", NULL, NULL, NULL, 0, "/a/b", false, "" },
        { "sqlite:///a/b", "sqlite", NULL, NULL, NULL, 0, "/a/b", true, "" },
        { "sqlite://", "sqlite", NULL, NULL, NULL, 0, "", true, "" },
        { "sqlite:", "sqlite", NULL, NULL, NULL, 0, "", false, "" },
        { "sqlite:?queue=q", "sqlite", NULL, NULL, NULL, 0, "", false, "queue=q;" },
        { "sqlite:a?", "sqlite", NULL, NULL, NULL, 0, "a", false, "" },
        { "sqlite:C:\\a b\\c", "sqlite", NULL, NULL, NULL, 0, "C:\\a b\\c", false, "" },
        { "sqlite:a@b", "sqlite", NULL, NULL, NULL, 0, "a@b", false, "" },
        { "sqlite:///u@1/b?x=a@b", "sqlite", NULL, NULL, NULL, 0, "/u@1/b", true, "x=a@b;" },
        { "sqlite:a%3Fb%23c%25d%2fe", "sqlite", NULL, NULL, NULL, 0, "a?b#c%d/e", false, "" },
        { "sqlite:%2525", "sqlite", NULL, NULL, NULL, 0, "%25", false, "" },            /* decoded once */
        { "sqlite:a+b?x=c+d", "sqlite", NULL, NULL, NULL, 0, "a+b", false, "x=c+d;" },  /* a plus is a plus */
        { "sqlite:\xC3\xA9%C3%A9\xC3%A9", "sqlite", NULL, NULL, NULL, 0, "\xC3\xA9\xC3\xA9\xC3\xA9", false, "" },
        { "sqlite:a?b?c=d?e", "sqlite", NULL, NULL, NULL, 0, "a", false, "b?c=d?e;" },
        { "sqlite:a?x=1&y=&z=p=q", "sqlite", NULL, NULL, NULL, 0, "a", false, "x=1;y=;z=p=q;" },
        { "sqlite:a?%78=%3D%26&X=2", "sqlite", NULL, NULL, NULL, 0, "a", false, "x==&;X=2;" },
        { "sqlserver://h/db", "sqlserver", NULL, NULL, "h", 0, "db", true, "" },
        { "sqlserver://h", "sqlserver", NULL, NULL, "h", 0, "", true, "" },
        { "sqlserver://h/", "sqlserver", NULL, NULL, "h", 0, "", true, "" },
        { "sqlserver://h//db/x", "sqlserver", NULL, NULL, "h", 0, "/db/x", true, "" },
        { "sqlserver://h?x=1", "sqlserver", NULL, NULL, "h", 0, "", true, "x=1;" },
        { "sqlserver://h:1433?x=1", "sqlserver", NULL, NULL, "h", 1433, "", true, "x=1;" },
        { "SqlServer://Host/Db", "sqlserver", NULL, NULL, "Host", 0, "Db", true, "" },
        { "AZ+-.09az:x", "az+-.09az", NULL, NULL, NULL, 0, "x", false, "" },
        { "x://u:p@h:1/d?o=v", "x", "u", "p", "h", 1, "d", true, "o=v;" },
        { "x://u@h:65535/d", "x", "u", NULL, "h", 65535, "d", true, "" },
        { "x://u:@h/d", "x", "u", "", "h", 0, "d", true, "" },
        { "x://@h/d", "x", "", NULL, "h", 0, "d", true, "" },
        { "x://:p@h/d", "x", "", "p", "h", 0, "d", true, "" },
        { "x://u:p@/d", "x", "u", "p", NULL, 0, "/d", true, "" },
        { "x://:1433/d", "x", NULL, NULL, NULL, 1433, "/d", true, "" },
        { "x://u:p:q@h/d", "x", "u", "p:q", "h", 0, "d", true, "" },
        { "x://u:p@q@h/d", "x", "u", "p@q", "h", 0, "d", true, "" },
        { "x://u%3A1:%40%2F%3F%23%25%3a@h%2e/%2Fd", "x", "u:1", "@/?#%:", "h.", 0, "/d", true, "" },
        { "x://h:%31433/d", "x", NULL, NULL, "h", 1433, "d", true, "" },
        { "x://h:0001433/d", "x", NULL, NULL, "h", 1433, "d", true, "" },
        { "x://[::1]/d", "x", NULL, NULL, "::1", 0, "d", true, "" },
        { "x://u:p@[fe80::1%25eth0]:1433/d", "x", "u", "p", "fe80::1%eth0", 1433, "d", true, "" },
        { "x://h\\inst/d", "x", NULL, NULL, "h\\inst", 0, "d", true, "" },
        { "x:/", "x", NULL, NULL, NULL, 0, "/", false, "" }
    };

    (void)state;
    for (size_t i = 0; i < count_of(good); i++) {
        char why[WHY_SIZE] = "", options[100] = "";
        rq_url url;

        memset(&url, 0x5A, sizeof url);
        assert_int_equal(rq_url_parse(good[i].text, &url, why, sizeof why), RENDERQ_OK);
        assert_same(url.scheme, good[i].scheme);
        assert_same(url.user, good[i].user);
        assert_same(url.password, good[i].password);
        assert_same(url.host, good[i].host);
        assert_int_equal(url.port, good[i].port);
        assert_same(url.path, good[i].path);
        assert_int_equal(url.has_authority, good[i].has_authority);
        for (size_t o = 0; o < url.n_options; o++) {
            size_t len = strlen(options);
            snprintf(options + len, sizeof options - len, "%s=%s;", url.options[o].name, url.options[o].value);
            assert_ptr_equal(rq_url_option(&url, url.options[o].name), url.options[o].value);
        }
        assert_string_equal(options, good[i].options);
        rq_url_free(&url);
        assert_all_zero(&url);
    }
}

#define NO_SCHEME  "the URL has no scheme (it begins with a name and a colon)"
#define BAD_ESCAPE "has a % without two hexadecimal digits behind it (write % itself as %25)"
#define BAD_PORT   "the URL has a port that is no number from 1 to 65535 (an IPv6 host stands in [ ])"
#define BAD_AT     "the URL has an @ behind its host (write / ? @ as %2F %3F %40, in a password too)"

static void expect_invalid(const char *text, const char *expected)
{
    char why[WHY_SIZE] = "";
    rq_url url;

    memset(&url, 0x5A, sizeof url);
    assert_int_equal(rq_url_parse(text, &url, why, sizeof why), RENDERQ_INVALID);
    assert_string_equal(why, expected);
    assert_all_zero(&url);
    rq_url_free(&url);
}

static void bad_urls(void **state)
{
    static const struct { const char *text, *why; } bad[] = {
        { NULL, NO_SCHEME },
        { "", NO_SCHEME },
        { ":", NO_SCHEME },
        { "jobs.db", NO_SCHEME },
        { "/a/b:c", NO_SCHEME },
        { "//h/db", NO_SCHEME },
        { "1x:a", NO_SCHEME },
        { "+x:a", NO_SCHEME },
        { " x:a", NO_SCHEME },
        { "x y:a", NO_SCHEME },
        { "x%41:a", NO_SCHEME },
        { "sq\xC3\xA9:a", NO_SCHEME },
        { "x:%", "the URL " BAD_ESCAPE },
        { "x:a%4", "the URL " BAD_ESCAPE },
        { "x:a%4g", "the URL " BAD_ESCAPE },
        { "x:a%g4", "the URL " BAD_ESCAPE },
        { "x:a% 4", "the URL " BAD_ESCAPE },
        { "x:a%-1", "the URL " BAD_ESCAPE },
        { "x:a%0x41", "the URL " BAD_ESCAPE },
        { "x:a%%41", "the URL " BAD_ESCAPE },
        { "x:a%4?1=2", "the URL " BAD_ESCAPE },         /* an escape does not reach over a delimiter */
        { "x://u%4:1@h/", "the URL " BAD_ESCAPE },
        { "x://u:%zz@h/", "the URL " BAD_ESCAPE },
        { "x://h%/", "the URL " BAD_ESCAPE },
        { "x://h:%/", "the URL " BAD_ESCAPE },
        { "x:a?%=1", "option 1 of the URL " BAD_ESCAPE },
        { "x:a?b=1&c=%", "option 2 of the URL " BAD_ESCAPE },
        { "x:a?b=%4&1=2", "option 1 of the URL " BAD_ESCAPE },
        { "x:a%00", "the URL has a %00, which no string can hold" },
        { "x://u:p%00@h/", "the URL has a %00, which no string can hold" },
        { "x:a?b=%00c", "option 1 of the URL has a %00, which no string can hold" },
        { "x:a#b", "the URL has a # (write %23)" },
        { "x:a?b=#", "the URL has a # (write %23)" },
        { "x://u:p#w@h/", "the URL has a # (write %23)" },
        { "x:\xFF", "the URL is not UTF-8" },
        { "x:%FF", "the URL is not UTF-8" },
        { "x:%C0%AF", "the URL is not UTF-8" },
        { "x:%ED%A0%80", "the URL is not UTF-8" },
        { "x:\xE2\x82", "the URL is not UTF-8" },
        { "x:%E2?%82=%AC", "the URL is not UTF-8" },
        { "x://%FF@h/", "the URL is not UTF-8" },
        { "x://u:%FF@h/", "the URL is not UTF-8" },
        { "x://%FF/", "the URL is not UTF-8" },
        { "x://h:%FF/", "the URL is not UTF-8" },
        { "x:a?%FF=1", "option 1 of the URL is not UTF-8" },
        { "x:a?b=%FF", "option 1 of the URL is not UTF-8" },
        { "x://h:/", BAD_PORT },
        { "x://h:0/", BAD_PORT },
        { "x://h:65536/", BAD_PORT },
        { "x://h:4294967297/", BAD_PORT },
        { "x://h:99999999999999999999999/", BAD_PORT },
        { "x://h:-1/", BAD_PORT },
        { "x://h:+1/", BAD_PORT },
        { "x://h: 1/", BAD_PORT },
        { "x://h:1 /", BAD_PORT },
        { "x://h:0x1/", BAD_PORT },
        { "x://h:1:2/", BAD_PORT },
        { "x://::1/", BAD_PORT },
        { "x://[::1]:/", BAD_PORT },
        { "x://[::1/d", "the URL has an unclosed [" },
        { "x://[", "the URL has an unclosed [" },
        { "x://u:p@[::1?x=]", "the URL has an unclosed [" },
        { "x://[::1]1433/", "the URL has text behind the ] of its host" },
        { "x://[::1]]/", "the URL has text behind the ] of its host" },
        { "x:a?b", "option 1 of the URL has no =" },
        { "x:a?&", "option 1 of the URL has no =" },
        { "x:a?b=1&", "option 2 of the URL has no =" },
        { "x:a?b=1&&c=2", "option 2 of the URL has no =" },
        { "x:a?b%3D1", "option 1 of the URL has no =" },
        { "x:a?=1", "option 1 of the URL has no name" },
        { "x:a?b=1&b=1", "option 2 of the URL was given before" },
        { "x:a?b=1&c=1&%62=2", "option 3 of the URL was given before" },
        { "x://h/d@e", BAD_AT },
        { "x://h?a=b@c", BAD_AT }
    };

    (void)state;
    for (size_t i = 0; i < count_of(bad); i++)
        expect_invalid(bad[i].text, bad[i].why);
}

/* x:a?o0=0&o1=1&... */
static const char *with_options(char *text, unsigned n)
{
    char *to = text + sprintf(text, "x:a");

    for (unsigned i = 0; i < n; i++)
        to += sprintf(to, "%co%u=%u", i == 0 ? '?' : '&', i, i);
    return text;
}

static void options_fill_their_array(void **state)
{
    char text[1000], why[WHY_SIZE];
    rq_url url;

    (void)state;
    assert_int_equal(rq_url_parse(with_options(text, RQ_URL_OPTIONS_MAX), &url, why, sizeof why), RENDERQ_OK);
    assert_int_equal(url.n_options, RQ_URL_OPTIONS_MAX);
    assert_string_equal(rq_url_option(&url, "o0"), "0");
    assert_string_equal(rq_url_option(&url, "o31"), "31");
    assert_null(rq_url_option(&url, "o32"));
    assert_null(rq_url_option(&url, "O0"));
    assert_null(rq_url_option(&url, ""));
    rq_url_free(&url);
    rq_url_free(&url);                          /* twice is harmless */
    assert_null(rq_url_option(&url, "o0"));

    expect_invalid(with_options(text, RQ_URL_OPTIONS_MAX + 1), "option 33 of the URL is one too many");
    expect_invalid(with_options(text, 60), "option 33 of the URL is one too many");
}

static void the_text_of_the_caller_is_not_needed_afterwards(void **state)
{
    char text[] = "X://u:p@h:1/d?o=v", why[WHY_SIZE];
    rq_url url;

    (void)state;
    assert_int_equal(rq_url_parse(text, &url, why, sizeof why), RENDERQ_OK);
    assert_string_equal(text, "X://u:p@h:1/d?o=v");
    memset(text, 'z', sizeof text);
    assert_string_equal(url.password, "p");
    assert_string_equal(rq_url_option(&url, "o"), "v");
    rq_url_free(&url);
}

/* A password with characters that should have been encoded either stays one or makes the URL invalid; in no case
 * is a piece of it in the text, nor where other code shows it: in host, path or options. */
static void a_password_never_shows(void **state)
{
    static const char *const passwords[] = {
        "Xq1", "Xq1/Zw9", "1433/Zw9", "Xq1?Zw9", "1433?Zw9", "1433?Xq1=Zw9", "Xq1#Zw9", "Xq1%Zw9", "Xq1%00Zw9",
        "Xq1@Zw9", "Xq1@Zw9/Xq1", "@/Zw9", "@Zw9:1433/Xq1", "1433?Xq1=1&Xq1=2", "[Xq1", "Xq1]Zw9", "@[Zw9",
        "Xq1:Zw9", "Xq1\xFF", "1433/@Zw9", "//Xq1", "?Xq1", "/Xq1?Zw9=1", "1433?&Zw9"
    };
    static const char *const forms[] = {
        "x://user:%s@host:1433/db?o=v", "x://user:%s@host", "x://:%s@[::1]/db", "x://user:%s@host:0/db",
        "x://user:%s@host/db?o"
    };
    char text[200], why[WHY_SIZE];
    rq_url url;

    (void)state;
    for (size_t f = 0; f < count_of(forms); f++)
        for (size_t i = 0; i < count_of(passwords); i++) {
            const char *mark = strstr(forms[f], "%s");
            snprintf(text, sizeof text, "%.*s%s%s", (int)(mark - forms[f]), forms[f], passwords[i], mark + 2);
            strcpy(why, "");
            if (rq_url_parse(text, &url, why, sizeof why) == RENDERQ_OK) {
                assert_true(url.n_options <= 1);
                assert_true(url.n_options == 0 || strcmp(url.options[0].name, "o") == 0);
                assert_true(strcmp(url.host, "host") == 0 || strcmp(url.host, "::1") == 0);
                assert_true(strcmp(url.path, "db") == 0 || strcmp(url.path, "") == 0);
                assert_string_equal(why, "");
            } else
                assert_true(strlen(why) > 10);
            assert_null(strstr(why, "Xq1"));
            assert_null(strstr(why, "Zw9"));
            assert_null(strstr(why, "1433"));
            rq_url_free(&url);
        }
}

static void every_cut_and_every_byte_is_survived(void **state)
{
    static const char whole[] = "x://u%41:p%41@[::1]:1433/d%41?o=%41&p=v";
    char why[WHY_SIZE];
    rq_url url;

    (void)state;
    for (size_t len = 0; len < sizeof whole; len++)
        for (int byte = 0; byte < 256; byte++) {
            char *text = malloc(len + 2);       /* exactly, so that a sanitizer sees a read behind it */
            assert_non_null(text);
            memcpy(text, whole, len);
            text[len] = (char)byte;
            text[len + 1] = '\0';
            if (rq_url_parse(text, &url, why, sizeof why) != RENDERQ_OK)
                assert_all_zero(&url);
            rq_url_free(&url);
            free(text);
        }
}

static void many_empty_strings_have_room(void **state)
{
    char text[200] = "x://:@[]:1/?", why[WHY_SIZE];
    char *to = text + strlen(text);
    rq_url url;

    (void)state;
    for (int i = 0; i < RQ_URL_OPTIONS_MAX; i++)
        to += sprintf(to, "%s%c=", i == 0 ? "" : "&", '@' + 1 + i);
    assert_int_equal(rq_url_parse(text, &url, why, sizeof why), RENDERQ_OK);
    assert_int_equal(url.n_options, RQ_URL_OPTIONS_MAX);
    assert_string_equal(url.user, "");
    assert_string_equal(url.password, "");
    assert_null(url.host);
    assert_string_equal(url.path, "/");
    assert_string_equal(rq_url_option(&url, "`"), "");
    rq_url_free(&url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_urls),
        cmocka_unit_test(bad_urls),
        cmocka_unit_test(options_fill_their_array),
        cmocka_unit_test(the_text_of_the_caller_is_not_needed_afterwards),
        cmocka_unit_test(a_password_never_shows),
        cmocka_unit_test(every_cut_and_every_byte_is_survived),
        cmocka_unit_test(many_empty_strings_have_room)
    };

    return cmocka_run_group_tests_name("url", tests, NULL, NULL);
}
