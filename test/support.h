/* support.h: what the engine's tests share: a scratch folder, children, and plain SQL beside the library. The
 * conformance suite, which knows no engine, does not use it. */
#ifndef TEST_SUPPORT_H
#define TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ftw.h>
#include <grp.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "renderq.h"

#define count_of(a) (sizeof(a) / sizeof((a)[0]))

/* ---- the scratch folder ---- */

static char scratch[512];

static inline int remove_one(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
    (void)info, (void)type, (void)ftw;
    return remove(path);
}

/* A group's setup: a new folder that every user may look into, and the process in it. There are thousands of small
 * commits in these tests, so it is in memory where there is such a place. */
static inline int scratch_enter(void **state)
{
    (void)state;
    const char *where = getenv("TMPDIR");
    if (!where || !*where)
        where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(scratch, sizeof scratch, "%s/renderq-test-XXXXXX", where);
    return mkdtemp(scratch) && chmod(scratch, 0755) == 0 && chdir(scratch) == 0 ? 0 : -1;
}

static inline int scratch_leave(void **state)
{
    (void)state;
    return chdir("/") == 0 && nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : -1;
}

/* ---- statuses ---- */

static inline void expect_status(const renderq *h, renderq_status status, renderq_status wanted, const char *what,
                                 const char *file, int line)
{
    if (status == wanted)
        return;
    print_error("%s: %s, not %s: %s\n", what, renderq_strstatus(status), renderq_strstatus(wanted),
                renderq_errmsg(h));
    _fail(file, line);
}

/* The call comes first, as it may make the handle. */
#define assert_status(h, call, wanted)                                                      \
    do {                                                                                    \
        renderq_status got_ = (call);                                                       \
        expect_status(h, got_, wanted, #call, __FILE__, __LINE__);                          \
    } while (0)

static inline void expect_text(const char *text, const char *part, const char *file, int line)
{
    if (strstr(text, part))
        return;
    print_error("\"%s\" does not say \"%s\"\n", text, part);
    _fail(file, line);
}

#define assert_says(h, part) expect_text(renderq_errmsg(h), part, __FILE__, __LINE__)

static inline int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void sleep_ms(int ms)
{
    struct timespec pause = { ms / 1000, (long)(ms % 1000) * 1000000 };
    while (nanosleep(&pause, &pause) != 0)
        continue;
}

/* It is slow, and does not follow every system call to the letter. */
static inline bool under_valgrind(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return preload && strstr(preload, "vgpreload");
}

/* ---- children ---- */

/* cmocka's asserts would jump into the parent's tests, so a child returns 0, or says what failed and returns 1. */

typedef int (*child_fn)(void *arg);

#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            fprintf(stderr, "child: %s:%d: %s\n", __FILE__, __LINE__, #condition);          \
            return 1;                                                                       \
        }                                                                                   \
    } while (0)

#define CHECK_STATUS(h, call, wanted)                                                       \
    do {                                                                                    \
        renderq_status status_ = (call);                                                    \
        if (status_ != (wanted)) {                                                          \
            fprintf(stderr, "child: %s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call,        \
                    renderq_strstatus(status_), renderq_errmsg(h));                         \
            return 1;                                                                       \
        }                                                                                   \
    } while (0)

#define CHECK_SAYS(h, part)                                                                 \
    do {                                                                                    \
        if (!strstr(renderq_errmsg(h), part)) {                                             \
            fprintf(stderr, "child: %s:%d: \"%s\" does not say \"%s\"\n", __FILE__, __LINE__, \
                    renderq_errmsg(h), part);                                               \
            return 1;                                                                       \
        }                                                                                   \
    } while (0)

#define NOBODY 65534

static inline pid_t start_child(child_fn run, void *arg, bool as_nobody)
{
    fflush(NULL);
    pid_t child = fork();
    if (child != 0)
        return child;
    alarm(240);
    /* root may write everything, so permissions are only seen by somebody else */
    if (as_nobody && geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
        _exit(100);
    _exit(run(arg));
}

/* Ends the test as skipped, which is a failure where nothing may be skipped. */
static inline void skip_but_in_ci(const char *why)
{
    const char *ci = getenv("CI");
    print_message("%s\n", why);
    if (ci && strcmp(ci, "true") == 0)
        fail();
    skip();
}

static inline void end_child(pid_t child)
{
    int how = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &how, 0), child);
    if (WIFSIGNALED(how))
        print_error("the child was ended by signal %d\n", WTERMSIG(how));
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

static inline void in_child(child_fn run, void *arg, bool as_nobody)
{
    end_child(start_child(run, arg, as_nobody));
}

/* ---- SQL beside the library ---- */

static inline sqlite3 *db_open(const char *path)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    return db;
}

static inline void db_exec(sqlite3 *db, const char *sql)
{
    char *wrong = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &wrong) == SQLITE_OK)
        return;
    print_error("%s: %s\n", sql, wrong);
    sqlite3_free(wrong);
    fail();
}

/* The first column of the first row as text; "" where there is none. */
static inline void db_text(sqlite3 *db, const char *sql, char *out, size_t size)
{
    sqlite3_stmt *stmt = NULL;
    out[0] = 0;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        print_error("%s: %s\n", sql, sqlite3_errmsg(db));
    assert_non_null(stmt);
    if (sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_text(stmt, 0))
        snprintf(out, size, "%s", (const char *)sqlite3_column_text(stmt, 0));
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
}

static inline int64_t db_int(sqlite3 *db, const char *sql)
{
    char text[64];
    db_text(db, sql, text, sizeof text);
    return strtoll(text, NULL, 10);
}

static inline int64_t file_int(const char *path, const char *sql)
{
    sqlite3 *db = db_open(path);
    int64_t number = db_int(db, sql);
    sqlite3_close(db);
    return number;
}

static inline void file_exec(const char *path, const char *sql)
{
    sqlite3 *db = db_open(path);
    db_exec(db, sql);
    sqlite3_close(db);
}

/* ---- the library ---- */

static inline renderq *open_queue(const char *url)
{
    renderq *h = NULL;
    assert_status(h, renderq_open(url, NULL, &h), RENDERQ_OK);
    return h;
}

/* A new queue in a new file. */
static inline renderq *make_queue(const char *url)
{
    renderq *h = open_queue(url);
    assert_status(h, renderq_create(h, NULL), RENDERQ_OK);
    return h;
}

static inline renderq_status put_job(renderq *h, const char *queue, const char *composition, renderq_id *id)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.queue = queue;
    job.composition_id = composition;
    job.payload_json = "{\"n\":1}";
    return renderq_enqueue(h, &job, id);
}

static inline renderq_status take_job(renderq *h, const char *queue, renderq_job **job)
{
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    options.queue = queue;
    return renderq_claim(h, &options, job);
}

#endif
