/* test_freetds_conf.c: lib/freetds_conf.c against configuration files as FreeTDS reads them. The home folder and
 * the system's file are the test's own: getpwuid_r() and fopen() are replaced. */
#include "support.h"

#include <limits.h>
#include <pwd.h>

#include "sqlserver.h"

/* ---- the files ---- */

enum { GIVEN, ROOT, HOME, SYSTEM, FILES };      /* in the order in which they are read */

static const char *const paths[FILES] = { "given.conf", "root/etc/freetds.conf", "home/.freetds.conf", "system.conf" };
#define SYSTEM_FILE "/etc/freetds/freetds.conf"

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    return __real_fopen(strcmp(path, SYSTEM_FILE) == 0 ? paths[SYSTEM] : path, mode);
}

static bool nobody_home;

int __wrap_getpwuid_r(uid_t uid, struct passwd *entry, char *buffer, size_t size, struct passwd **found);
int __wrap_getpwuid_r(uid_t uid, struct passwd *entry, char *buffer, size_t size, struct passwd **found)
{
    assert_int_equal(uid, getuid());
    snprintf(buffer, size, "home");
    entry->pw_dir = buffer;
    *found = nobody_home ? NULL : entry;
    return 0;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = __real_fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    (void)state;
    nobody_home = false;
    for (int i = 0; i < FILES; i++)
        remove(paths[i]);
    mkdir("root", 0755);
    mkdir("root/etc", 0755);
    mkdir("home", 0755);
    setenv("HOME", "/nowhere", 1);              /* nobody asks it */
    return setenv("FREETDSCONF", paths[GIVEN], 1) == 0 && setenv("FREETDS", "root", 1) == 0 ? 0 : -1;
}

/* `file` is one of the four, or -1: not looked at. */
static void expect_at(const char *server, bool demanded, int file, const char *source, int line)
{
    char where[PATH_MAX] = "x";
    bool said = rq_freetds_demands_encryption(server, where, sizeof where);
    const char *wanted = file < 0 ? where : file == SYSTEM ? SYSTEM_FILE : paths[file];
    if (said != demanded || strcmp(where, wanted) != 0) {
        print_error("%s: %s, by %s instead of %s\n", server, said ? "demanded" : "not demanded", where, wanted);
        _fail(source, line);
    }
}

#define expect(server, demanded, file) expect_at((server), (demanded), (file), __FILE__, __LINE__)

/* ---- what is in a file ---- */

static void texts_of_one_file(void **state)
{
    static const struct { const char *text, *server; bool demanded; } cases[] = {
        { "", "db:1433", false },
        { "[db:1433]\nencryption = require\n", "db:1433", true },
        { "[db:1433]\nencryption = require", "db:1433", true },
        { "[db:1433]\r\nencryption = require\r\n", "db:1433", true },
        { "[db:1433]\nencryption=require\n", "db:1433", true },
        { "\t [db:1433] ; ours\n\n\t encryption \t=\t require \t; always\n", "db:1433", true },
        { "[db:1433]\nencryption = require # always\n", "db:1433", true },
        { "[db:1433]\nencryption = require#always\n", "db:1433", true },
        { "[DB:1433]\nEncryption = Require\n", "db:1433", true },
        { "[db:1433]\nENCRYPTION = REQUIRE\n", "Db:1433", true },
        { "[db:1433]\nencryption = request\n", "db:1433", false },
        { "[db:1433]\nencryption = off\n", "db:1433", false },
        { "[db:1433]\nencryption = required\n", "db:1433", false },     /* FreeTDS does not connect then */
        { "[db:1433]\nencryption = re quire\n", "db:1433", false },
        { "[db:1433]\nencryption =\n", "db:1433", false },
        { "[db:1433]\nencryption\n", "db:1433", false },
        { "[db:1433]\nencryptions = require\n", "db:1433", false },
        { "[db:1433]\nen cryption = require\n", "db:1433", false },
        { "[db:1433]\n;encryption = require\n", "db:1433", false },
        { "[db:1433]\n  # encryption = require\n", "db:1433", false },
        { "[db:1433]\n= require\nencryption = ; require\n", "db:1433", false },
        { "encryption = require\n[db:1433]\n", "db:1433", false },      /* before any section */
        { "[other]\nencryption = require\n[db:1433]\n", "db:1433", false },
        { "[db:1433]\n[other]\nencryption = require\n", "db:1433", false },
        { "[db:1434]\nencryption = require\n", "db:1433", false },
        { "[ db:1433 ]\nencryption = require\n", "db:1433", false },    /* blanks belong to the name */
        { "[db:1433\nencryption = require\n", "db:1433", true },
        /* the last word counts */
        { "[db:1433]\nencryption = off\nencryption = require\n", "db:1433", true },
        { "[db:1433]\nencryption = require\nencryption = request\n", "db:1433", false },
        { "[db:1433]\nencryption = require\n[x]\n[db:1433]\nencryption = off\n", "db:1433", false },
        { "[db:1433]\nencryption = off\n[x]\n[db:1433]\nencryption = require\n", "db:1433", true },
        /* [global] holds for all, wherever it stands, and the section has the last word */
        { "[global]\nencryption = require\n", "db:1433", true },
        { "[global]\nencryption = require\n", "db", true },
        { "[GLOBAL]\nencryption = require\n[db:1433]\nport = 1\n", "db:1433", true },
        { "[global]\nencryption = require\n[db:1433]\nencryption = off\n", "db:1433", false },
        { "[db:1433]\nencryption = off\n[global]\nencryption = require\n", "db:1433", false },
        { "[db:1433]\nencryption = require\n[global]\nencryption = off\n", "db:1433", true },
        { "[global]\nencryption = off\n[db]\nencryption = require\n", "db:1433", true },
        /* without a section of the whole name, the host's */
        { "[db]\nencryption = require\n", "db:1433", true },
        { "[db]\nencryption = require\n", "db:1434", true },
        { "[db]\nencryption = require\n[db:1433]\n", "db:1433", false },
        { "[db:1433]\nencryption = require\n[db]\nencryption = off\n", "db:1433", true },
        { "[db.example.org]\nencryption = require\n", "db:1433", false },
        { "[db]\nencryption = require\n", "db\\inst", true },
        { "[db\\inst]\nencryption = require\n", "db\\inst", true },
        { "[db\\inst]\nencryption = require\n", "db", false },
        /* an address of IPv6 stands in the file without its own brackets: the name ends at the first ] */
        { "[::1]\nencryption = require\n", "[::1]:1433", true },
        { "[FE80::1]\nencryption = require\n", "[fe80::1]:1433", true },
        { "[[::1]:1433]\nencryption = require\n", "[::1]:1433", false },
        { "[::2]\nencryption = require\n", "[::1]:1433", false },
        { "[farm]\nhost = db\nencryption = require\n", "farm", true },
        { "[farm]\nhost = db\nencryption = require\n", "db", false },
    };
    (void)state;
    for (size_t i = 0; i < count_of(cases); i++) {
        write_file(paths[GIVEN], cases[i].text);
        expect(cases[i].server, cases[i].demanded, -1);
    }
}

/* FreeTDS reads 255 bytes at a time: what is behind them is another line to it. */
static void long_lines(void **state)
{
    char text[600];
    (void)state;
    snprintf(text, sizeof text, "[db:1433]\nencryption = %*srequire\n", 200, "");
    write_file(paths[GIVEN], text);
    expect("db:1433", true, GIVEN);
    snprintf(text, sizeof text, "[db:1433]\nencryption = %*srequire\n", 300, "");
    write_file(paths[GIVEN], text);
    expect("db:1433", false, GIVEN);
    snprintf(text, sizeof text, "[db:1433]\n%*sencryption = require\n", 255, "#");
    write_file(paths[GIVEN], text);
    expect("db:1433", true, GIVEN);
}

static void a_long_name(void **state)
{
    char server[2000];
    (void)state;
    memset(server, 'x', sizeof server - 1);
    strcpy(server + sizeof server - 6, ":1433");
    write_file(paths[GIVEN], "[x]\nencryption = require\n");
    expect(server, false, GIVEN);
}

/* ---- which file ---- */

#define DEMANDS "[db]\nencryption = require\n"
#define ALLOWS  "[db]\nencryption = off\n"
#define OTHER   "[other]\nencryption = require\n"

/* The first file with the section decides, and is named; the others are not looked at. */
static void the_first_file_with_the_section_decides(void **state)
{
    (void)state;
    for (int i = FILES - 1; i >= 0; i--) {
        write_file(paths[i], DEMANDS);
        expect("db", true, i);
        expect("db:1433", true, i);
        write_file(paths[i], ALLOWS);
        expect("db", false, i);
        expect("db:1433", false, i);
    }
    for (int i = 0; i < FILES; i++) {
        for (int j = 0; j < FILES; j++)
            write_file(paths[j], j < i ? OTHER : j == i ? ALLOWS : DEMANDS);
        expect("db:1433", false, i);
        for (int j = 0; j < FILES; j++)
            write_file(paths[j], j < i ? OTHER : j == i ? DEMANDS : ALLOWS);
        expect("db:1433", true, i);
    }
}

/* The whole name is looked for in all files before the host is. */
static void the_whole_name_comes_first(void **state)
{
    (void)state;
    write_file(paths[GIVEN], "[db]\nencryption = require\n");
    write_file(paths[SYSTEM], "[db:1433]\nencryption = off\n");
    expect("db:1433", false, SYSTEM);
    expect("db:1434", true, GIVEN);
}

/* Each file's [global] is read until one has the section: the later one has the last word. */
static void globals_of_several_files(void **state)
{
    (void)state;
    write_file(paths[GIVEN], "[global]\nencryption = require\n");
    expect("db:1433", true, -1);
    write_file(paths[SYSTEM], "[global]\nencryption = off\n");
    expect("db:1433", false, GIVEN);
    write_file(paths[HOME], "[db]\nport = 1433\n");
    expect("db", true, HOME);                   /* the system's file is not read */
    write_file(paths[ROOT], "[global]\nencryption = request\n");
    expect("db", false, HOME);
}

/* With no section anywhere the first file that is read is named: lines added there would do. */
static void the_first_file_is_named_where_none_has_the_section(void **state)
{
    (void)state;
    expect("db:1433", false, SYSTEM);           /* none is there at all */
    for (int i = FILES - 1; i >= 0; i--) {
        write_file(paths[i], OTHER);
        expect("db:1433", false, i);
    }
}

static void the_environment_says_where(void **state)
{
    (void)state;
    for (int i = 0; i < FILES; i++)
        write_file(paths[i], i == SYSTEM ? DEMANDS : ALLOWS);
    unsetenv("FREETDSCONF");
    expect("db", false, ROOT);
    unsetenv("FREETDS");
    expect("db", false, HOME);
    nobody_home = true;
    expect("db", true, SYSTEM);
    setenv("FREETDSCONF", "", 1);
    setenv("FREETDS", "", 1);
    expect("db", true, SYSTEM);
    setenv("FREETDSCONF", "not there", 1);
    setenv("FREETDS", "not/there", 1);
    expect("db", true, SYSTEM);
    char deep[5000];
    memset(deep, 'x', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    setenv("FREETDS", deep, 1);
    expect("db", true, SYSTEM);
}

static int read_nothing(void *arg)
{
    (void)arg;
    char where[PATH_MAX];
    CHECK(!rq_freetds_demands_encryption("db", where, sizeof where));
    CHECK(strcmp(where, paths[ROOT]) == 0);
    return 0;
}

/* A file that this user may not read is not there for him. */
static void an_unreadable_file_is_skipped(void **state)
{
    (void)state;
    write_file(paths[GIVEN], DEMANDS);
    write_file(paths[ROOT], ALLOWS);
    assert_int_equal(chmod(paths[GIVEN], 0), 0);
    in_child(read_nothing, NULL, true);
    assert_int_equal(chmod(paths[GIVEN], 0644), 0);
    setenv("FREETDSCONF", "home", 1);           /* a folder: opened, but nothing can be read of it */
    expect("db", false, ROOT);
}

/* Nothing stays open, whatever was found. */
static void no_file_stays_open(void **state)
{
    (void)state;
    write_file(paths[GIVEN], DEMANDS);
    write_file(paths[SYSTEM], OTHER);
    int before = dup(0);
    close(before);
    for (int i = 0; i < 50; i++)
        expect(i % 2 ? "db" : "other:1433", true, i % 2 ? GIVEN : SYSTEM);
    int after = dup(0);
    close(after);
    assert_int_equal(after, before);
}

#define TEST(function) cmocka_unit_test_setup(function, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(texts_of_one_file),
        TEST(long_lines),
        TEST(a_long_name),
        TEST(the_first_file_with_the_section_decides),
        TEST(the_whole_name_comes_first),
        TEST(globals_of_several_files),
        TEST(the_first_file_is_named_where_none_has_the_section),
        TEST(the_environment_says_where),
        TEST(an_unreadable_file_is_skipped),
        TEST(no_file_stays_open),
    };
    return cmocka_run_group_tests_name("freetds_conf", tests, scratch_enter, scratch_leave);
}
