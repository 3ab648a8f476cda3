/* test_name.c: lib/name.c. Quoting for an engine is tested with the engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "name.h"

#define EURO        "\xE2\x82\xAC"
#define EMOJI       "\xF0\x9F\x98\x80"
#define count_of(a) (sizeof (a) / sizeof (a)[0])

#define TOO_LONG    "has a part over 128 characters"

static void expect_name(const char *text, const char *schema, const char *table)
{
    rq_name name;

    memset(&name, 'x', sizeof name);
    assert_null(rq_name_parse(text, &name));
    assert_string_equal(name.schema, schema);
    assert_string_equal(name.table, table);
}

static void expect_wrong(const char *text, const char *wrong)
{
    rq_name name, before;

    memset(&name, 'x', sizeof name);
    before = name;
    assert_string_equal(rq_name_parse(text, &name), wrong);
    assert_memory_equal(&name, &before, sizeof name);
}

static void good_names(void **state)
{
    static const struct { const char *text, *schema, *table; } good[] = {
        { RQ_NAME_DEFAULT, "", "VideoRenderJobs" },
        { "x", "", "x" },
        { "dbo.VideoRenderJobs", "dbo", "VideoRenderJobs" },
        { "[VideoRenderJobs]", "", "VideoRenderJobs" },
        { "[dbo].[VideoRenderJobs]", "dbo", "VideoRenderJobs" },
        { "dbo.[my name]", "dbo", "my name" },
        { "[my schema].jobs", "my schema", "jobs" },
        { "[a.b].[c]", "a.b", "c" },
        { "[a.b.c.d]", "", "a.b.c.d" },
        { "[a]]b]", "", "a]b" },
        { "[]]]", "", "]" },
        { "[]]]]].x", "]]", "x" },
        { "[]].]]].[.]", "].]", "." },
        { "[[]", "", "[" },
        { "[a[b]", "", "a[b" },
        { "[ a]", "", " a" },                   /* in front a blank counts on every engine */
        { "my name", "", "my name" },
        { "\"x\"", "", "\"x\"" },               /* only brackets quote */
        { "x'; DROP TABLE y; --", "", "x'; DROP TABLE y; --" },
        { "[tab\t]", "", "tab\t" },
        { "Gr\xC3\xBC\xC3\x9F" "e." EMOJI, "Gr\xC3\xBC\xC3\x9F" "e", EMOJI }
    };

    (void)state;
    for (size_t i = 0; i < count_of(good); i++)
        expect_name(good[i].text, good[i].schema, good[i].table);
}

static void bad_names(void **state)
{
    static const struct { const char *text, *wrong; } bad[] = {
        { NULL, "is empty" },
        { "", "is empty" },
        { ".", "has an empty part" },
        { ".jobs", "has an empty part" },
        { "dbo.", "has an empty part" },
        { "db..jobs", "has an empty part" },
        { "[]", "has an empty part" },
        { "dbo.[]", "has an empty part" },
        { "[].jobs", "has an empty part" },
        { "db.dbo.jobs", "has more than two parts" },
        { "a.b.", "has more than two parts" },
        { "[a].[b].[c]", "has more than two parts" },
        { "jobs ", "ends in a blank" },
        { " ", "ends in a blank" },
        { "[jobs ]", "ends in a blank" },
        { "dbo .jobs", "ends in a blank" },
        { "[dbo ].jobs", "ends in a blank" },
        { "[", "has an unclosed bracket" },
        { "[jobs", "has an unclosed bracket" },
        { "[jobs]]", "has an unclosed bracket" },
        { "[]]", "has an unclosed bracket" },
        { "dbo.[jobs", "has an unclosed bracket" },
        { "[dbo.jobs", "has an unclosed bracket" },
        { "jo[bs]", "has a bracket inside a part" },
        { "jobs]", "has a bracket inside a part" },
        { "]", "has a bracket inside a part" },
        { "dbo.jo]bs", "has a bracket inside a part" },
        { " [jobs]", "has a bracket inside a part" },
        { "[jobs]x", "has text behind a closing bracket" },
        { "[dbo]x.jobs", "has text behind a closing bracket" },
        { "[a][b]", "has text behind a closing bracket" },
        { "[jobs] ", "has text behind a closing bracket" },
        { "jobs\xFF", "is not UTF-8" },
        { "jobs\xE2\x82", "is not UTF-8" },
        { "[\xC0\xAF]", "is not UTF-8" },
        { "dbo.\xED\xA0\x80", "is not UTF-8" },
        { "a.b.c\xFF", "is not UTF-8" }
    };

    (void)state;
    for (size_t i = 0; i < count_of(bad); i++)
        expect_wrong(bad[i].text, bad[i].wrong);
}

/* `piece` so many times, then `end`. */
static const char *repeated(char *text, const char *piece, size_t times, const char *end)
{
    size_t len = strlen(piece);

    for (size_t i = 0; i < times; i++)
        memcpy(text + i * len, piece, len);
    strcpy(text + times * len, end);
    return text;
}

static void lengths_are_utf16_units(void **state)
{
    static const struct { const char *piece; size_t most; } pieces[] = {
        { "x", 128 }, { "\xC3\xA9", 128 }, { EURO, 128 }, { EMOJI, 64 }
    };
    char text[1000], part[1000];

    (void)state;
    for (size_t i = 0; i < count_of(pieces); i++) {
        const char *piece = pieces[i].piece;
        size_t most = pieces[i].most;

        expect_name(repeated(text, piece, most, ""), "", text);
        repeated(part, piece, most, "");
        expect_name(repeated(text, piece, most, ".t"), part, "t");
        expect_wrong(repeated(text, piece, most + 1, ""), TOO_LONG);
        expect_wrong(repeated(text, piece, most + 1, ".t"), TOO_LONG);
        memcpy(text, "s.", 2);
        repeated(text + 2, piece, most + 1, "");
        expect_wrong(text, TOO_LONG);
    }
    expect_name(repeated(text, EMOJI, 63, "xx"), "", text);     /* 128 units */
    expect_wrong(repeated(text, EMOJI, 64, "x"), TOO_LONG);     /* 129, in 257 bytes */
    expect_wrong(repeated(text, EMOJI, 63, "xxx"), TOO_LONG);   /* 129 */
}

static void a_doubled_bracket_counts_once(void **state)
{
    char text[1000], table[1000];

    (void)state;
    text[0] = '[';
    repeated(text + 1, "]]", 128, "]");
    expect_name(text, "", repeated(table, "]", 128, ""));
    repeated(text + 1, "]]", 129, "]");
    expect_wrong(text, TOO_LONG);
}

static void a_huge_name_is_only_too_long(void **state)
{
    static char text[1000002];

    (void)state;
    expect_wrong(repeated(text, "x", 1000000, ""), TOO_LONG);
    text[0] = '[';
    expect_wrong(text, TOO_LONG);
    expect_wrong(repeated(text, "]", 1000000, ""), "has a bracket inside a part");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_names),
        cmocka_unit_test(bad_names),
        cmocka_unit_test(lengths_are_utf16_units),
        cmocka_unit_test(a_doubled_bracket_counts_once),
        cmocka_unit_test(a_huge_name_is_only_too_long)
    };

    return cmocka_run_group_tests_name("name", tests, NULL, NULL);
}
