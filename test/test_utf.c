/* test_utf.c: lib/utf.c. Expected lengths are counted by hand, not by another decoder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "utf.h"

#define EURO        "\xE2\x82\xAC"
#define EMOJI       "\xF0\x9F\x98\x80"
#define UNKNOWN     "\xEF\xBF\xBD"
#define MARK        "\xE2\x80\xA6"
#define count_of(a) (sizeof (a) / sizeof (a)[0])
#define bytes(text) text, sizeof (text) - 1

/* Checks a copy that ends where the text does, so that a sanitizer sees a read behind it. */
static rq_utf_scan check(const char *text, size_t len)
{
    char *copy = malloc(len > 0 ? len : 1);
    rq_utf_scan scan;

    assert_non_null(copy);
    memcpy(copy, text, len);
    scan = rq_utf_check(copy, len);
    free(copy);
    return scan;
}

static void good_text_is_measured(void **state)
{
    static const struct { const char *text; size_t len, units; } good[] = {
        { bytes(""), 0 },
        { bytes("a"), 1 },
        { bytes("\x01\x7F"), 2 },
        { bytes("\xC2\x80\xDF\xBF"), 2 },                           /* U+0080 U+07FF */
        { bytes("\xE0\xA0\x80\xE0\xBF\xBF"), 2 },                   /* U+0800 U+0FFF */
        { bytes("\xE1\x80\x80\xEC\xBF\xBF"), 2 },
        { bytes("\xED\x80\x80\xED\x9F\xBF"), 2 },                   /* U+D7FF, below the surrogates */
        { bytes("\xEE\x80\x80\xEF\xBF\xBF"), 2 },                   /* U+E000, above; U+FFFF */
        { bytes("\xF0\x90\x80\x80\xF0\xBF\xBF\xBF"), 4 },           /* U+10000 */
        { bytes("\xF1\x80\x80\x80\xF3\xBF\xBF\xBF"), 4 },
        { bytes("\xF4\x80\x80\x80\xF4\x8F\xBF\xBF"), 4 },           /* U+10FFFF */
        { bytes("\xEF\xBB\xBFx"), 2 },                              /* a byte order mark is a character */
        { bytes("e\xCC\x81"), 2 },                                  /* combining: units, not what is seen */
        { bytes("a" EURO EMOJI "\n"), 5 }
    };

    (void)state;
    for (size_t i = 0; i < count_of(good); i++) {
        rq_utf_scan scan = check(good[i].text, good[i].len);
        assert_int_equal(scan.bad_at, good[i].len);
        assert_int_equal(scan.units, good[i].units);
    }
    assert_int_equal(rq_utf_check(NULL, 0).bad_at, 0);
}

/* Each begins with a byte that is bad; the sequences are short of what would make them good. */
static const struct { const char *text; size_t len; } bad[] = {
    { bytes("\0") },
    { bytes("\x80") }, { bytes("\xBF") },                           /* a continuation alone */
    { bytes("\xC0\x80") }, { bytes("\xC0\xAF") }, { bytes("\xC1\xBF") },            /* overlong */
    { bytes("\xE0\x80\x80") }, { bytes("\xE0\x80\xAF") }, { bytes("\xE0\x9F\xBF") },
    { bytes("\xF0\x80\x80\x80") }, { bytes("\xF0\x80\x80\xAF") }, { bytes("\xF0\x8F\xBF\xBF") },
    { bytes("\xED\xA0\x80") }, { bytes("\xED\xAF\xBF") }, { bytes("\xED\xB0\x80") }, { bytes("\xED\xBF\xBF") },
    { bytes("\xED\xA0\xBD\xED\xB8\x80") },                          /* a surrogate pair: CESU-8 */
    { bytes("\xF4\x90\x80\x80") }, { bytes("\xF5\x80\x80\x80") }, { bytes("\xF7\xBF\xBF\xBF") },
    { bytes("\xF8\x88\x80\x80\x80") }, { bytes("\xFC\x84\x80\x80\x80\x80") }, { bytes("\xFE") }, { bytes("\xFF") },
    { bytes("\xC2") }, { bytes("\xE2") }, { bytes("\xE2\x82") },    /* truncated */
    { bytes("\xF0") }, { bytes("\xF0\x9F") }, { bytes("\xF0\x9F\x98") },
    { bytes("\xC2z") }, { bytes("\xE2zz") }, { bytes("\xE2\x82z") },                /* broken off */
    { bytes("\xF0zzz") }, { bytes("\xF0\x9Fzz") }, { bytes("\xF0\x9F\x98z") },
    { bytes("\xC2\xC2\x80") }, { bytes("\xE2\x82\xE2") }, { bytes("\xF0\x9F\x98\xC0") },
    { bytes("\xE2\x82\0") }, { bytes("\xF0\x9F\x98\0") }
};

static void bad_text_is_found_where_it_begins(void **state)
{
    (void)state;
    for (size_t i = 0; i < count_of(bad); i++) {
        char text[32] = "x" EURO EMOJI;         /* 8 bytes, 4 units */
        memcpy(text + 8, bad[i].text, bad[i].len);

        rq_utf_scan scan = check(bad[i].text, bad[i].len);
        assert_int_equal(scan.bad_at, 0);
        assert_int_equal(scan.units, 0);
        scan = check(text, 8 + bad[i].len);
        assert_int_equal(scan.bad_at, 8);
        assert_int_equal(scan.units, 4);
    }
}

static void every_cut_of_a_good_text_is_bad_or_shorter(void **state)
{
    static const char text[] = "a\xC3\xA9" EURO EMOJI;      /* characters end at 1, 3, 6, 10 */
    static const size_t whole[] = { 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10 };
    static const size_t units[] = { 0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 5 };

    (void)state;
    for (size_t len = 0; len < count_of(whole); len++) {
        rq_utf_scan scan = check(text, len);
        assert_int_equal(scan.bad_at, whole[len]);
        assert_int_equal(scan.units, units[len]);
    }
}

/* Repairs into exactly out_size bytes, and expects what a caller may rely on besides the text itself. */
static void expect_repair(const char *text, size_t max_units, size_t out_size, const char *expected)
{
    char *out = malloc(out_size);
    size_t written;

    assert_non_null(out);
    memset(out, 'x', out_size);
    written = rq_utf_repair(text, max_units, out, out_size);
    assert_string_equal(out, expected);
    assert_int_equal(written, strlen(expected));
    assert_true(rq_utf_check(out, written).bad_at == written);
    assert_true(rq_utf_check(out, written).units <= max_units);
    free(out);
}

static void repair_leaves_good_text_alone(void **state)
{
    static const char text[] = "a\xC3\xA9" EURO EMOJI "\n";

    (void)state;
    expect_repair("", 1, 4, "");
    expect_repair("abc", 3, 4, "abc");                      /* both limits met exactly */
    expect_repair(text, 6, sizeof text, text);
    expect_repair(text, SIZE_MAX, 1000, text);
}

static void repair_replaces_each_bad_byte(void **state)
{
    (void)state;
    expect_repair("\xFF", 10, 100, UNKNOWN);
    expect_repair("a\xFF\xFE" "b", 10, 100, "a" UNKNOWN UNKNOWN "b");
    expect_repair("a\xE2\x82", 10, 100, "a" UNKNOWN UNKNOWN);
    expect_repair("\xE2\x82z", 10, 100, UNKNOWN UNKNOWN "z");
    expect_repair("\xED\xA0\x80", 10, 100, UNKNOWN UNKNOWN UNKNOWN);
    expect_repair("\xC0\xAF" EURO, 10, 100, UNKNOWN UNKNOWN EURO);
    expect_repair("\xF0\x9F\x98" EMOJI, 10, 100, UNKNOWN UNKNOWN UNKNOWN EMOJI);
    expect_repair("\xFF\xFF\xFF", 3, 10, UNKNOWN UNKNOWN UNKNOWN);
    expect_repair("\xFF\xFF\xFF", 2, 10, UNKNOWN MARK);
    expect_repair("\xFF\xFF\xFF", 3, 9, UNKNOWN MARK);
}

static void repair_cuts_at_a_character(void **state)
{
    static const struct { const char *text; size_t max_units, out_size; const char *expected; } cuts[] = {
        { "abcd", 3, 100, "ab" MARK },
        { "ab", 1, 100, MARK },
        { "abcdefgh", 100, 8, "abcd" MARK },
        { "abcd", 100, 4, MARK },
        { "abcd", 1, 4, MARK },
        { EMOJI, 1, 100, MARK },                            /* two units do not fit in one */
        { EMOJI, 100, 4, MARK },                            /* four bytes and a NUL do not fit in four */
        { "a" EMOJI, 2, 100, "a" MARK },
        { EMOJI EMOJI, 2, 100, MARK },                      /* the mark needs the room of what it replaces */
        { EMOJI EMOJI, 3, 100, EMOJI MARK },
        { EMOJI EMOJI, 4, 100, EMOJI EMOJI },
        { EMOJI EMOJI, 100, 8, EMOJI MARK },
        { EMOJI EMOJI, 100, 9, EMOJI EMOJI },
        { EURO EURO "ab", 100, 8, EURO MARK },
        { "ab" EURO "c", 100, 6, "ab" MARK },
        { "abc" EURO, 100, 6, "ab" MARK },
        { EURO EURO, 1, 100, MARK }
    };

    (void)state;
    for (size_t i = 0; i < count_of(cuts); i++)
        expect_repair(cuts[i].text, cuts[i].max_units, cuts[i].out_size, cuts[i].expected);
}

static void repair_keeps_its_word_at_every_size(void **state)
{
    static const char text[] = "a\xFF" EURO "bc" EMOJI "\xE2\x82" "d\xED\xA0\x80" EMOJI;
    char out[64], whole[64];
    size_t whole_len = rq_utf_repair(text, 100, whole, sizeof whole);

    (void)state;
    for (size_t max_units = 1; max_units < 30; max_units++)
        for (size_t out_size = 4; out_size < sizeof out; out_size++) {
            memset(out, 'x', sizeof out);
            size_t written = rq_utf_repair(text, max_units, out, out_size);
            rq_utf_scan scan = rq_utf_check(out, written);

            assert_true(written < out_size);
            assert_int_equal(out[written], '\0');
            assert_int_equal(scan.bad_at, written);
            assert_true(scan.units <= max_units);
            if (written == whole_len && memcmp(out, whole, whole_len) == 0)
                continue;
            /* Shortened: a beginning of the whole, then the mark, and less than a character's room left. */
            assert_true(written >= 3);
            assert_memory_equal(out + written - 3, MARK, 3);
            assert_memory_equal(out, whole, written - 3);
            assert_true(written + 4 >= out_size - 1 || scan.units + 2 > max_units);
        }
}

static void a_long_hostile_text_is_shortened(void **state)
{
    size_t len = 1000000;
    char *text = malloc(len + 1);
    char out[8000 * 3 + 1];

    (void)state;
    assert_non_null(text);
    memset(text, 0xF0, len);
    text[len] = '\0';
    assert_int_equal(rq_utf_repair(text, 8000, out, sizeof out), 24000);
    assert_int_equal(rq_utf_check(out, 24000).units, 8000);
    assert_string_equal(out + 24000 - 6, UNKNOWN MARK);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_text_is_measured),
        cmocka_unit_test(bad_text_is_found_where_it_begins),
        cmocka_unit_test(every_cut_of_a_good_text_is_bad_or_shorter),
        cmocka_unit_test(repair_leaves_good_text_alone),
        cmocka_unit_test(repair_replaces_each_bad_byte),
        cmocka_unit_test(repair_cuts_at_a_character),
        cmocka_unit_test(repair_keeps_its_word_at_every_size),
        cmocka_unit_test(a_long_hostile_text_is_shortened)
    };

    return cmocka_run_group_tests_name("utf", tests, NULL, NULL);
}
