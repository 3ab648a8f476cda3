/* test_sqlite_files.c: what the SQLite driver makes of files that are missing, forbidden, full, broken, locked or
 * far away, and of every bad URL: a status and a text each, and no effect. statfs() is replaced by one of ours. */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#include "handle.h"
#include "sqlite.h"

#define ROWS "SELECT count(*) FROM VideoRenderJobs"

/* ---- statfs ---- */

int __real_statfs(const char *path, struct statfs *out);
int __wrap_statfs(const char *path, struct statfs *out);

static struct {
    long type;              /* 0: the true one */
    const char *under;      /* only for what lies in this folder of the scratch folder; NULL: for all */
    int interruptions;      /* how many calls fail with EINTR first */
} pretend;

int __wrap_statfs(const char *path, struct statfs *out)
{
    if (pretend.interruptions > 0) {
        pretend.interruptions--;
        errno = EINTR;
        return -1;
    }
    int result = __real_statfs(path, out);
    char *real = pretend.under ? realpath(path, NULL) : NULL;
    char prefix[sizeof scratch + 32];
    snprintf(prefix, sizeof prefix, "%s/%s", scratch, pretend.under ? pretend.under : "");
    if (result == 0 && pretend.type && (!pretend.under || (real && strncmp(real, prefix, strlen(prefix)) == 0)))
        out->f_type = (__typeof__(out->f_type))pretend.type;
    free(real);
    return result;
}

/* ---- every call ---- */

/* Makes every call that takes a queue, with a job from elsewhere; each must answer `wanted`, say `part`, and hand
 * nothing out. */
static int every_call(renderq *h, renderq_job *job, renderq_status wanted, const char *part)
{
    renderq_new_job fresh = RENDERQ_INIT(renderq_new_job);
    renderq_enqueued each = RENDERQ_INIT(renderq_enqueued);
    renderq_result result = RENDERQ_INIT(renderq_result);
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    renderq_claim_options claim = RENDERQ_INIT(renderq_claim_options);
    renderq_job *out = job;
    renderq_status status;
    size_t n = 1;
    fresh.composition_id = "intro";
    fresh.payload_json = "{}";
    result.job = job;
    const renderq_id id = job->id, lease = job->lease;

    CHECK_STATUS(h, renderq_enqueue(h, &fresh, NULL), wanted);
    CHECK_SAYS(h, part);
    CHECK_STATUS(h, renderq_enqueue_many(h, &fresh, 1, &each), wanted);
    CHECK(each.status == wanted);
    CHECK_STATUS(h, renderq_claim(h, &claim, &out), wanted);
    CHECK(out == NULL);
    CHECK_SAYS(h, part);
    out = job;
    CHECK_STATUS(h, renderq_claim_many(h, &claim, &out, 1, &n), wanted);
    CHECK(out == NULL && n == 0);
    CHECK_STATUS(h, renderq_start_many(h, &job, 1, "node-2", 0, &status), wanted);
    CHECK(status == wanted && strcmp(job->lease.text, lease.text) == 0);
    CHECK_STATUS(h, renderq_renew(h, job, "half"), wanted);
    CHECK_STATUS(h, renderq_renew_many(h, &job, 1, &status), wanted);
    CHECK(status == wanted);
    CHECK_STATUS(h, renderq_complete(h, job, NULL), wanted);
    CHECK_STATUS(h, renderq_complete_many(h, &result, 1), wanted);
    CHECK(result.status == wanted);
    CHECK_STATUS(h, renderq_fail(h, job, "no", 0), wanted);
    CHECK_STATUS(h, renderq_release(h, job, 0), wanted);
    out = job;
    CHECK_STATUS(h, renderq_job_resume(h, NULL, &id, &lease, &out), wanted);
    CHECK(out == NULL);
    out = job;
    CHECK_STATUS(h, renderq_get(h, NULL, &id, &out), wanted);
    CHECK(out == NULL);
    CHECK_SAYS(h, part);
    CHECK_STATUS(h, renderq_cancel(h, NULL, &id), wanted);
    CHECK_STATUS(h, renderq_retry(h, NULL, &id, NULL), wanted);
    CHECK_STATUS(h, renderq_retry_dead(h, NULL, NULL), wanted);
    CHECK_STATUS(h, renderq_settle(h, NULL, &id, NULL, 0), wanted);
    CHECK_STATUS(h, renderq_reap(h, NULL, NULL), wanted);
    CHECK_STATUS(h, renderq_purge(h, NULL, 60, NULL), wanted);
    CHECK_STATUS(h, renderq_stats(h, NULL, &counts), wanted);
    CHECK_SAYS(h, part);
    return 0;
}

/* A claimed job of another file's queue of the same name. */
static renderq_job *foreign_job(void)
{
    renderq *h = make_queue("sqlite:foreign.db");
    renderq_job *job = NULL;
    assert_status(h, put_job(h, NULL, "foreign", NULL), RENDERQ_OK);
    assert_status(h, take_job(h, NULL, &job), RENDERQ_OK);
    renderq_close(h);
    return job;
}

/* ---- opening ---- */

static void expect_open(const char *url, renderq_status wanted, const char *part)
{
    renderq *h = NULL;
    renderq_status status = renderq_open(url, NULL, &h);
    assert_non_null(h);
    expect_status(h, status, wanted, url ? url : "NULL", __FILE__, __LINE__);
    if (wanted != RENDERQ_OK) {
        assert_says(h, part);
        assert_null(strchr(renderq_errmsg(h), '\n'));
        assert_status(h, put_job(h, NULL, "intro", NULL), RENDERQ_INVALID);
        assert_says(h, "never opened");
        assert_status(h, renderq_create(h, NULL), RENDERQ_INVALID);
        renderq_interrupt(h);
    }
    renderq_close(h);
}

static void bad_urls(void **state)
{
    static const struct {
        const char *url, *says;
    } bad[] = {
        { NULL, "the URL is NULL" },
        { "", "scheme" },
        { "jobs.db", "scheme" },
        { "/tmp/jobs.db", "scheme" },
        { "mysql:jobs.db", "\"mysql\" is unknown" },
        { "sqlite3:jobs.db", "\"sqlite3\" is unknown" },
        { "sqlite:", "needs a file" },
        { "sqlite:?queue=q", "needs a file" },
        { "sqlite://", "needs a file" },
        { "sqlite::memory:", "needs a file" },
        { "sqlite:%3Amemory%3A", "needs a file" },
        { "sqlite://host/jobs.db", "not a host" },
        { "sqlite://host:1433/jobs.db", "not a host" },
        { "sqlite://me@/jobs.db", "not a host" },
        { "sqlite://me:secret@host/jobs.db", "not a host" },
        { "sqlite://jobs.db", "not a host" },
        { "sqlite:a.db?mode=ro", "\"mode\" is not one of sqlite's" },
        { "sqlite:a.db?Synchronous=full", "\"Synchronous\" is not one of sqlite's" },
        { "sqlite:a.db?synchronous", "has no =" },
        { "sqlite:a.db?synchronous=maybe", "synchronous=maybe: it is full or normal" },
        { "sqlite:a.db?synchronous=", "synchronous=: it is full or normal" },
        { "sqlite:a.db?synchronous=off", "it is full or normal" },
        { "sqlite:a.db?synchronous=FULL", "it is full or normal" },
        { "sqlite:a.db?synchronous=full&synchronous=full", "was given before" },
        { "sqlite:a.db?busy_timeout_ms=x", "busy_timeout_ms=x: it is a number of milliseconds" },
        { "sqlite:a.db?busy_timeout_ms=", "it is a number of milliseconds" },
        { "sqlite:a.db?busy_timeout_ms=-1", "it is a number of milliseconds" },
        { "sqlite:a.db?busy_timeout_ms=+1", "it is a number of milliseconds" },
        { "sqlite:a.db?busy_timeout_ms=%201", "it is a number of milliseconds" },
        { "sqlite:a.db?busy_timeout_ms=1s", "it is a number of milliseconds" },
        { "sqlite:a.db?busy_timeout_ms=1.5", "it is a number of milliseconds" },
        { "sqlite:a.db?busy_timeout_ms=0x10", "it is a number of milliseconds" },
        { "sqlite:a.db?busy_timeout_ms=3600001", "0 to 3600000" },
        { "sqlite:a.db?busy_timeout_ms=99999999999999999999", "0 to 3600000" },
        { "sqlite:a.db?network_fs=x", "network_fs=x: it is allow, or left out" },
        { "sqlite:a.db?network_fs=", "it is allow, or left out" },
        { "sqlite:a.db?network_fs=ALLOW", "it is allow, or left out" },
        { "sqlite:a.db?queue=", "is empty" },
        { "sqlite:a.db?queue=a.b.c", "more than two parts" },
        { "sqlite:a.db?queue=[a", "unclosed bracket" },
        { "sqlite:a.db?queue=a%20", "ends in a blank" },
        { "sqlite:a.db?queue=%FF", "not UTF-8" },
        { "sqlite:a%00b", "" },
        { "sqlite:a#b", "%23" },
        { "sqlite:a%zz", "" },
    };
    (void)state;
    for (size_t i = 0; i < count_of(bad); i++)
        expect_open(bad[i].url, RENDERQ_INVALID, bad[i].says);
    assert_int_equal(access("a.db", F_OK), -1);
    assert_int_equal(access("jobs.db", F_OK), -1);
    assert_int_equal(renderq_open("sqlite:a.db", NULL, NULL), RENDERQ_INVALID);
}

static void good_urls(void **state)
{
    static const char *const good[] = {
        "sqlite:no.db", "SQLITE:no.db", "sqlite:./no.db", "sqlite:no.db?", "sqlite:no.db?synchronous=full",
        "sqlite:no.db?synchronous=normal", "sqlite:no.db?busy_timeout_ms=0",
        "sqlite:no.db?busy_timeout_ms=3600000", "sqlite:no.db?network_fs=allow", "sqlite:no%3F%23%25.db",
        "sqlite:%E2%9C%93.db",
        "sqlite:no.db?queue=[a.b]&synchronous=full&busy_timeout_ms=1&network_fs=allow"
    };
    (void)state;
    char url[sizeof scratch + 32];
    for (size_t i = 0; i < count_of(good); i++)
        expect_open(good[i], RENDERQ_OK, "");
    assert_int_equal(access("no.db", F_OK), -1);
    snprintf(url, sizeof url, "sqlite://%s/triple.db", scratch);
    renderq_close(make_queue(url));
    assert_int_equal(access("triple.db", F_OK), 0);
    renderq_close(make_queue("sqlite:a%20%3F%23%25%2B+.db"));
    assert_int_equal(access("a ?#%++.db", F_OK), 0);
}

static void a_name_of_two_parts(void **state)
{
    (void)state;
    renderq_job *job = NULL;
    renderq *h = open_queue("sqlite:two.db?queue=dbo.Jobs");
    assert_status(h, renderq_create(h, NULL), RENDERQ_INVALID);
    assert_says(h, "has two parts, and SQLite has no schemas: write Jobs, or [dbo.Jobs]");
    assert_status(h, put_job(h, NULL, "intro", NULL), RENDERQ_INVALID);
    assert_says(h, "has two parts");
    assert_int_equal(access("two.db", F_OK), -1);
    assert_status(h, renderq_create(h, "Jobs"), RENDERQ_OK);
    assert_status(h, put_job(h, "Jobs", "intro", NULL), RENDERQ_OK);
    assert_status(h, take_job(h, "dbo.Jobs", &job), RENDERQ_INVALID);
    assert_null(job);
    renderq_close(h);
    assert_int_equal(file_int("two.db", "SELECT count(*) FROM Jobs WHERE Status = 'Queued'"), 1);
}

static void a_missing_file(void **state)
{
    (void)state;
    renderq_job *job = foreign_job();
    renderq *h = open_queue("sqlite:missing.db"), *maker = open_queue("sqlite:missing.db");
    assert_int_equal(every_call(h, job, RENDERQ_SCHEMA, "missing.db\" does not exist: renderq_create()"), 0);
    assert_int_equal(access("missing.db", F_OK), -1);
    assert_status(maker, renderq_create(maker, NULL), RENDERQ_OK);
    assert_status(h, put_job(h, NULL, "intro", NULL), RENDERQ_OK);      /* the old handle finds the new file */
    assert_status(h, renderq_complete(h, job, NULL), RENDERQ_LOST);
    renderq_close(maker);
    renderq_close(h);
    renderq_job_free(job);
}

static void a_file_without_the_table(void **state)
{
    (void)state;
    renderq_job *job = foreign_job();
    fclose(fopen("empty.db", "w"));         /* an empty file is an empty database */
    file_exec("other.db", "CREATE TABLE something (a)");
    static const char *const urls[] = { "sqlite:empty.db", "sqlite:other.db" };
    for (size_t i = 0; i < count_of(urls); i++) {
        renderq *h = open_queue(urls[i]);
        static const char says[] = "has no queue table \"VideoRenderJobs\": renderq_create()";
        assert_int_equal(every_call(h, job, RENDERQ_SCHEMA, says), 0);
        assert_int_equal(renderq_native_error(h), SQLITE_ERROR);
        assert_status(h, renderq_create(h, NULL), RENDERQ_OK);
        assert_status(h, put_job(h, NULL, "intro", NULL), RENDERQ_OK);
        renderq_close(h);
    }
    renderq_job_free(job);
}

/* Another process makes the file between SQLite's try to write it and its try to read it. */
static int open_too_early(const char *path, int flags, ...)
{
    const char *name = strrchr(path, '/');
    if (strcmp(name ? name : path, "/early.db") == 0 && access(path, F_OK) != 0 && (flags & O_ACCMODE) == O_RDWR) {
        close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
        errno = ENOENT;
        return -1;
    }
    return open(path, flags, 0644);
}

static void a_file_made_while_it_is_opened(void **state)
{
    (void)state;
    renderq *h = NULL;
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    assert_int_equal(vfs->xSetSystemCall(vfs, "open", (sqlite3_syscall_ptr)open_too_early), SQLITE_OK);
    assert_status(h, renderq_open("sqlite:early.db", NULL, &h), RENDERQ_OK);
    assert_int_equal(vfs->xSetSystemCall(vfs, "open", NULL), SQLITE_OK);
    assert_status(h, renderq_create(h, NULL), RENDERQ_OK);
    renderq_close(h);
}

/* What SQLite wrote to it would be lost. */
static void a_file_deleted_under_the_handle(void **state)
{
    (void)state;
    renderq_job *job = foreign_job();
    renderq *h = make_queue("sqlite:gone.db");
    assert_status(h, put_job(h, NULL, "lost", NULL), RENDERQ_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(unlink("gone.db"), 0);
        assert_int_equal(unlink("gone.db-wal"), 0);
        assert_int_equal(unlink("gone.db-shm"), 0);
        if (i == 0)
            assert_int_equal(every_call(h, job, RENDERQ_SCHEMA, "gone.db\" does not exist"), 0);
        assert_status(h, renderq_create(h, NULL), RENDERQ_OK);
        assert_status(h, put_job(h, NULL, "kept", NULL), RENDERQ_OK);
        assert_int_equal(file_int("gone.db", ROWS), 1);
    }
    renderq_close(h);
    renderq_job_free(job);
}

static void a_file_replaced_under_the_handle(void **state)
{
    (void)state;
    renderq *h = make_queue("sqlite:replaced.db");
    renderq_job *job = NULL;
    renderq_close(make_queue("sqlite:better.db"));
    assert_status(h, put_job(h, NULL, "lost", NULL), RENDERQ_OK);
    assert_int_equal(unlink("replaced.db-wal"), 0);
    assert_int_equal(unlink("replaced.db-shm"), 0);
    assert_int_equal(rename("better.db", "replaced.db"), 0);
    assert_status(h, take_job(h, NULL, &job), RENDERQ_EMPTY);
    assert_status(h, put_job(h, NULL, "kept", NULL), RENDERQ_OK);
    assert_int_equal(file_int("replaced.db", ROWS), 1);
    renderq_close(h);
}

static void a_file_deleted_in_a_transaction(void **state)
{
    (void)state;
    static const char says[] = "was deleted or replaced while it was open";
    renderq *h = make_queue("sqlite:gone-tx.db"), *attached = NULL;
    sqlite3 *own = db_open("gone-tx.db");
    assert_status(attached, renderq_attach("sqlite", own, NULL, &attached), RENDERQ_OK);
    assert_status(attached, put_job(attached, NULL, "intro", NULL), RENDERQ_OK);
    assert_status(h, renderq_begin(h), RENDERQ_OK);
    assert_status(h, put_job(h, NULL, "intro", NULL), RENDERQ_OK);
    assert_int_equal(unlink("gone-tx.db"), 0);
    assert_status(h, put_job(h, NULL, "intro", NULL), RENDERQ_FAILED);
    assert_says(h, says);
    assert_status(h, renderq_commit(h), RENDERQ_FAILED);
    assert_says(h, says);
    assert_status(h, renderq_begin(h), RENDERQ_SCHEMA);
    for (int i = 0; i < 2; i++) {
        assert_status(attached, put_job(attached, NULL, "intro", NULL), RENDERQ_FAILED);
        assert_says(attached, says);
        db_exec(own, i == 0 ? "BEGIN" : "ROLLBACK");
    }
    renderq_close(attached);
    sqlite3_close(own);
    renderq_close(h);
}

/* A service opens the file, gives up its rights, and goes on. */
static int goes_on_without_rights(void *arg)
{
    renderq *h = NULL;
    (void)arg;
    CHECK_STATUS(h, renderq_open("sqlite:closed/jobs.db", NULL, &h), RENDERQ_OK);
    CHECK_STATUS(h, put_job(h, NULL, "intro", NULL), RENDERQ_OK);
    if (geteuid() == 0)
        CHECK(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
    else
        CHECK(chmod("closed", 0) == 0);
    CHECK(access("closed/jobs.db", F_OK) != 0);
    CHECK_STATUS(h, put_job(h, NULL, "intro", NULL), RENDERQ_OK);
    renderq_close(h);
    return 0;
}

static void a_folder_that_may_not_be_entered_any_more(void **state)
{
    (void)state;
    assert_int_equal(mkdir("closed", 0700), 0);
    renderq_close(make_queue("sqlite:closed/jobs.db"));
    in_child(goes_on_without_rights, NULL, false);
    assert_int_equal(chmod("closed", 0700), 0);
    assert_int_equal(file_int("closed/jobs.db", ROWS), 2);
}

static void a_missing_folder(void **state)
{
    (void)state;
    expect_open("sqlite:nowhere/jobs.db", RENDERQ_FAILED, "the folder of \"nowhere/jobs.db\" does not exist");
    expect_open("sqlite:/nowhere/at/all/jobs.db", RENDERQ_FAILED, "does not exist");
    assert_int_equal(access("nowhere", F_OK), -1);
    assert_int_equal(symlink("nowhere/jobs.db", "to-nowhere.db"), 0);
    renderq *h = NULL;
    renderq_status status = renderq_open("sqlite:to-nowhere.db", NULL, &h);
    if (status == RENDERQ_OK)               /* a missing file as far as anyone can tell; it cannot be made */
        assert_status(h, renderq_create(h, NULL), RENDERQ_FAILED);
    else
        assert_status(h, status, RENDERQ_FAILED);
    renderq_close(h);
}

static void a_folder_instead_of_a_file(void **state)
{
    (void)state;
    assert_int_equal(mkdir("folder.db", 0755), 0);
    assert_int_equal(symlink("folder.db", "to-folder.db"), 0);
    expect_open("sqlite:folder.db", RENDERQ_INVALID, "\"folder.db\" is a folder; name a file in it");
    expect_open("sqlite:folder.db/", RENDERQ_INVALID, "is a folder");
    expect_open("sqlite:to-folder.db", RENDERQ_INVALID, "is a folder");
    expect_open("sqlite:.", RENDERQ_INVALID, "is a folder");
    expect_open("sqlite:/", RENDERQ_INVALID, "is a folder");
    assert_int_equal(rmdir("folder.db"), 0);        /* nothing was put in it */
}

static void a_path_through_a_file(void **state)
{
    (void)state;
    fclose(fopen("plain", "w"));
    expect_open("sqlite:plain/jobs.db", RENDERQ_FAILED, "plain/jobs.db");
}

static void a_path_that_is_too_long(void **state)
{
    (void)state;
    char url[6000] = "sqlite:";
    memset(url + strlen(url), 'a', 5000);
    expect_open(url, RENDERQ_FAILED, "");
}

static void symlinks(void **state)
{
    (void)state;
    assert_int_equal(mkdir("real", 0755), 0);
    assert_int_equal(symlink("real/jobs.db", "link.db"), 0);
    renderq *link = make_queue("sqlite:link.db");               /* makes what it points to */
    assert_int_equal(access("real/jobs.db", F_OK), 0);
    renderq *real = open_queue("sqlite:real/jobs.db");
    renderq_job *job = NULL;
    assert_status(link, put_job(link, NULL, "intro", NULL), RENDERQ_OK);
    assert_int_equal(access("real/jobs.db-wal", F_OK), 0);      /* both use the one log, or they would lose rows */
    assert_int_equal(access("link.db-wal", F_OK), -1);
    assert_status(real, take_job(real, NULL, &job), RENDERQ_OK);
    assert_status(link, renderq_complete(link, job, NULL), RENDERQ_OK);
    renderq_job_free(job);
    renderq_close(real);
    renderq_close(link);

    assert_int_equal(symlink("loop-b.db", "loop-a.db"), 0);
    assert_int_equal(symlink("loop-a.db", "loop-b.db"), 0);
    expect_open("sqlite:loop-a.db", RENDERQ_FAILED, "loop-a.db");
}

/* ---- permissions: in children that are not root ---- */

static void give_to_nobody(const char *path, mode_t mode)
{
    if (geteuid() == 0)
        assert_int_equal(chown(path, NOBODY, NOBODY), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* A folder with a queue of one job in it. */
static void make_folder(const char *folder, bool wal)
{
    char path[64], url[80];
    assert_int_equal(mkdir(folder, 0755), 0);
    snprintf(path, sizeof path, "%s/jobs.db", folder);
    snprintf(url, sizeof url, "sqlite:%s", path);
    renderq *h = make_queue(url);
    assert_status(h, put_job(h, NULL, "intro", NULL), RENDERQ_OK);
    renderq_close(h);
    if (!wal)
        file_exec(path, "PRAGMA journal_mode = DELETE");
}

static int denied(void *arg)
{
    renderq *h = NULL;
    CHECK_STATUS(h, renderq_open(arg, NULL, &h), RENDERQ_DENIED);
    CHECK_SAYS(h, "jobs.db");
    CHECK_SAYS(h, "folder");
    CHECK(renderq_native_error(h) != 0);
    CHECK_STATUS(h, put_job(h, NULL, "intro", NULL), RENDERQ_INVALID);
    renderq_close(h);
    return 0;
}

static int create_denied(void *arg)
{
    renderq *h = NULL;
    CHECK_STATUS(h, renderq_open(arg, NULL, &h), RENDERQ_OK);       /* a missing file, so far */
    CHECK_STATUS(h, renderq_create(h, NULL), RENDERQ_DENIED);
    CHECK_SAYS(h, "folder");
    CHECK_STATUS(h, put_job(h, NULL, "intro", NULL), RENDERQ_SCHEMA);
    renderq_close(h);
    return 0;
}

static int allowed(void *arg)
{
    renderq *h = NULL;
    renderq_job *job = NULL;
    CHECK_STATUS(h, renderq_open(arg, NULL, &h), RENDERQ_OK);
    CHECK_STATUS(h, renderq_create(h, NULL), RENDERQ_OK);
    CHECK_STATUS(h, put_job(h, NULL, "intro", NULL), RENDERQ_OK);
    CHECK_STATUS(h, take_job(h, NULL, &job), RENDERQ_OK);
    CHECK_STATUS(h, renderq_complete(h, job, NULL), RENDERQ_OK);
    renderq_job_free(job);
    renderq_close(h);
    return 0;
}

static void a_read_only_file(void **state)
{
    (void)state;
    char url[] = "sqlite:ro-file/jobs.db";
    make_folder("ro-file", true);
    give_to_nobody("ro-file", 0755);
    give_to_nobody("ro-file/jobs.db", 0444);
    in_child(denied, url, true);
    assert_int_equal(file_int("ro-file/jobs.db", ROWS), 1);
    give_to_nobody("ro-file/jobs.db", 0000);        /* not even readable */
    in_child(denied, url, true);
    give_to_nobody("ro-file/jobs.db", 0644);
    in_child(allowed, url, true);
}

static void a_read_only_folder(void **state)
{
    (void)state;
    for (int wal = 0; wal < 2; wal++) {
        char url[48], path[32];
        const char *folder = wal ? "ro-folder-wal" : "ro-folder";
        snprintf(path, sizeof path, "%s/jobs.db", folder);
        snprintf(url, sizeof url, "sqlite:%s", path);
        make_folder(folder, wal);
        give_to_nobody(path, 0644);
        give_to_nobody(folder, 0555);
        in_child(denied, url, true);
        give_to_nobody(folder, 0755);
        assert_int_equal(file_int(path, ROWS), 1);
        in_child(allowed, url, true);
    }
}

static void a_folder_where_nothing_can_be_made(void **state)
{
    (void)state;
    char url[] = "sqlite:no-make/jobs.db";
    assert_int_equal(mkdir("no-make", 0755), 0);
    give_to_nobody("no-make", 0555);
    in_child(create_denied, url, true);
    give_to_nobody("no-make", 0755);
    assert_int_equal(access("no-make/jobs.db", F_OK), -1);
    in_child(allowed, url, true);
}

static void a_folder_that_may_not_be_entered(void **state)
{
    (void)state;
    char url[] = "sqlite:no-enter/jobs.db";
    make_folder("no-enter", true);
    give_to_nobody("no-enter/jobs.db", 0644);
    give_to_nobody("no-enter", 0600);
    in_child(denied, url, true);
    give_to_nobody("no-enter", 0755);
    in_child(allowed, url, true);
}

/* ---- a full disk ---- */

static int enqueue_until_full(renderq *h, int *stored)
{
    static char payload[20000];
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    renderq_status status;
    memset(payload, 'x', sizeof payload - 1);
    job.composition_id = "big";
    job.payload_json = payload;
    while ((status = renderq_enqueue(h, &job, NULL)) == RENDERQ_OK && *stored < 10000)
        ++*stored;
    CHECK_STATUS(h, status, RENDERQ_FAILED);
    CHECK_SAYS(h, "no room left for");
    CHECK_SAYS(h, "jobs.db");
    int native = renderq_native_error(h) & 0xff;
    CHECK(native == SQLITE_FULL || native == SQLITE_IOERR);
    CHECK(*stored > 0);
    return 0;
}

static int count_jobs(renderq *h, int64_t *queued)
{
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    CHECK_STATUS(h, renderq_stats(h, NULL, &counts), RENDERQ_OK);
    *queued = counts.queued;
    return 0;
}

/* Everything that was stored before the disk was full is there, the file is whole, and the same handle and a new
 * one go on. */
static int works_again(renderq *h, const char *url, int stored)
{
    char text[64] = "";
    int64_t queued = 0;
    sqlite3_stmt *stmt = NULL;
    sqlite3 *db = h->driver->native(h->conn);
    CHECK(sqlite3_get_autocommit(db));
    CHECK(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &stmt, NULL) == SQLITE_OK);
    CHECK(sqlite3_step(stmt) == SQLITE_ROW);
    snprintf(text, sizeof text, "%s", (const char *)sqlite3_column_text(stmt, 0));
    sqlite3_finalize(stmt);
    CHECK(strcmp(text, "ok") == 0);
    CHECK(count_jobs(h, &queued) == 0 && queued == stored);
    CHECK_STATUS(h, put_job(h, NULL, "intro", NULL), RENDERQ_OK);
    renderq *other = NULL;
    CHECK_STATUS(other, renderq_open(url, NULL, &other), RENDERQ_OK);
    for (int i = 0; i < stored + 1; i++) {
        renderq_job *job = NULL;
        CHECK_STATUS(other, take_job(other, NULL, &job), RENDERQ_OK);
        CHECK_STATUS(other, renderq_complete(other, job, NULL), RENDERQ_OK);
        renderq_job_free(job);
    }
    renderq_close(other);
    return 0;
}

/* A full disk forbids every write, and none of them is done half. */
static int writes_fail(renderq *h, int stored)
{
    static char payload[200000];
    renderq_new_job jobs[3] = { RENDERQ_INIT(renderq_new_job), RENDERQ_INIT(renderq_new_job),
                                RENDERQ_INIT(renderq_new_job) };
    int64_t queued = 0;
    memset(payload, 'y', sizeof payload - 1);
    for (size_t i = 0; i < count_of(jobs); i++) {
        jobs[i].composition_id = "many";
        jobs[i].payload_json = payload;
    }
    CHECK_STATUS(h, renderq_enqueue_many(h, jobs, count_of(jobs), NULL), RENDERQ_FAILED);
    CHECK_SAYS(h, "no room left for");
    CHECK(count_jobs(h, &queued) == 0 && queued == stored);
    return 0;
}

static int over_the_size_limit(void *arg)
{
    renderq *h = NULL;
    struct rlimit limit, small;
    int stored = 0;
    CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    CHECK_STATUS(h, renderq_open(arg, NULL, &h), RENDERQ_OK);
    CHECK_STATUS(h, renderq_create(h, NULL), RENDERQ_OK);
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    small = limit;
    small.rlim_cur = 600000;
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHECK(enqueue_until_full(h, &stored) == 0);
    CHECK(writes_fail(h, stored) == 0);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(works_again(h, arg, stored) == 0);
    renderq_close(h);
    return 0;
}

static void a_file_size_limit(void **state)
{
    (void)state;
    char url[] = "sqlite:limit-jobs.db?synchronous=normal";
    in_child(over_the_size_limit, url, false);
}

enum { NO_MOUNT = 77 };

static int on_a_full_disk(void *arg)
{
    renderq *h = NULL;
    int stored = 0;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0
        || mount("none", "small", "tmpfs", 0, "size=512k") != 0)
        return NO_MOUNT;
    CHECK_STATUS(h, renderq_open(arg, NULL, &h), RENDERQ_OK);
    CHECK_STATUS(h, renderq_create(h, NULL), RENDERQ_OK);
    CHECK(enqueue_until_full(h, &stored) == 0);
    CHECK(writes_fail(h, stored) == 0);
    CHECK(mount("none", "small", "tmpfs", MS_REMOUNT, "size=8m") == 0);
    CHECK(works_again(h, arg, stored) == 0);
    renderq_close(h);
    return 0;
}

/* No room even for the table: create says so and leaves nothing that looks like a queue. */
static int no_room_to_create(void *arg)
{
    renderq *h = NULL;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0
        || mount("none", "small", "tmpfs", 0, "size=16k") != 0)
        return NO_MOUNT;
    CHECK_STATUS(h, renderq_open(arg, NULL, &h), RENDERQ_OK);
    CHECK_STATUS(h, renderq_create(h, NULL), RENDERQ_FAILED);
    CHECK_SAYS(h, "no room left for");
    renderq_status status = put_job(h, NULL, "intro", NULL);
    CHECK(status == RENDERQ_SCHEMA || status == RENDERQ_FAILED);
    CHECK(mount("none", "small", "tmpfs", MS_REMOUNT, "size=8m") == 0);
    CHECK_STATUS(h, renderq_create(h, NULL), RENDERQ_OK);
    CHECK_STATUS(h, put_job(h, NULL, "intro", NULL), RENDERQ_OK);
    renderq_close(h);
    return 0;
}

static void a_full_disk(void **state)
{
    (void)state;
    static const child_fn runs[] = { on_a_full_disk, no_room_to_create };
    char url[] = "sqlite:small/jobs.db";
    assert_int_equal(mkdir("small", 0755), 0);
    for (size_t i = 0; i < count_of(runs); i++) {
        int how = 0;
        assert_true(waitpid(start_child(runs[i], url, false), &how, 0) > 0);
        if (WIFEXITED(how) && WEXITSTATUS(how) == NO_MOUNT) {
            skip_but_in_ci("no file system can be mounted here: the size limit stands for the full disk");
        }
        assert_int_equal(how, 0);
    }
}

/* ---- broken files ---- */

static size_t read_file(const char *path, char *bytes, size_t size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(bytes, 1, size, file);
    fclose(file);
    assert_true(n < size);
    return n;
}

static void write_file(const char *path, const char *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

enum { FILE_MAX_BYTES = 2000000, JOBS = 500, PAGE = 4096 };

/* Every call that has to touch a broken page says so. */
static void expect_corrupt(renderq *h, renderq_status status)
{
    assert_status(h, status, RENDERQ_FAILED);
    assert_says(h, "is corrupt");
    assert_int_equal(renderq_native_error(h) & 0xff, SQLITE_CORRUPT);
}

static void a_corrupt_file(void **state)
{
    (void)state;
    char *before = malloc(FILE_MAX_BYTES), *after = malloc(FILE_MAX_BYTES);
    renderq *h = make_queue("sqlite:corrupt.db");
    renderq_new_job jobs[JOBS];
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (renderq_new_job)RENDERQ_INIT(renderq_new_job);
        jobs[i].composition_id = "intro";
        jobs[i].payload_json = "{\"some\":\"text\"}";
    }
    assert_status(h, renderq_enqueue_many(h, jobs, JOBS, NULL), RENDERQ_OK);
    renderq_close(h);

    size_t n = read_file("corrupt.db", before, FILE_MAX_BYTES);
    assert_true(n > 10 * PAGE);
    memset(before + PAGE, 0xA5, n - PAGE);              /* the first page has the schema */
    write_file("corrupt.db", before, n);
    h = open_queue("sqlite:corrupt.db");
    renderq_job *job = NULL;
    renderq_id id = { "019AD000-0000-8000-0000-0000000000AB" };
    int64_t deleted = 7;
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    expect_corrupt(h, take_job(h, NULL, &job));
    assert_null(job);
    expect_corrupt(h, put_job(h, NULL, "intro", NULL));
    expect_corrupt(h, renderq_get(h, NULL, &id, &job));
    expect_corrupt(h, renderq_cancel(h, NULL, &id));
    expect_corrupt(h, renderq_retry(h, NULL, &id, NULL));
    expect_corrupt(h, renderq_settle(h, NULL, &id, NULL, 0));
    expect_corrupt(h, renderq_purge(h, NULL, 60, &deleted));
    expect_corrupt(h, renderq_reap(h, NULL, NULL));
    expect_corrupt(h, renderq_stats(h, NULL, &counts));
    assert_true(sqlite3_get_autocommit(h->driver->native(h->conn)));
    renderq_close(h);
    assert_int_equal(read_file("corrupt.db", after, FILE_MAX_BYTES), n);
    assert_memory_equal(before, after, n);

    memset(before + 100, 0xA5, PAGE - 100);             /* now the schema too */
    write_file("corrupt.db", before, n);
    renderq_status status = renderq_open("sqlite:corrupt.db", NULL, &h);
    if (status == RENDERQ_OK)
        status = put_job(h, NULL, "intro", NULL);
    expect_corrupt(h, status);
    renderq_close(h);
    free(before);
    free(after);
}

static void a_cut_file(void **state)
{
    (void)state;
    renderq *h = make_queue("sqlite:cut.db");
    assert_status(h, put_job(h, NULL, "intro", NULL), RENDERQ_OK);
    renderq_close(h);
    assert_int_equal(truncate("cut.db", PAGE + 100), 0);
    renderq_status status = renderq_open("sqlite:cut.db", NULL, &h);
    if (status == RENDERQ_OK)
        status = put_job(h, NULL, "intro", NULL);
    expect_corrupt(h, status);
    renderq_close(h);
}

static void a_file_that_is_no_database(void **state)
{
    (void)state;
    static const char *const urls[] = { "sqlite:text.db", "sqlite:text.db?synchronous=normal" };
    char text[6000], after[8000];
    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < count_of(urls); i++) {
        write_file("text.db", text, sizeof text);
        expect_open(urls[i], RENDERQ_FAILED, "\"text.db\" is no SQLite database; nothing was changed");
        assert_int_equal(read_file("text.db", after, sizeof after), sizeof text);
        assert_memory_equal(text, after, sizeof text);
        assert_int_equal(access("text.db-wal", F_OK), -1);
        assert_int_equal(access("text.db-journal", F_OK), -1);
    }
}

/* ---- network file systems ---- */

static void network_file_systems(void **state)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } far[] = {
        { 0x6969, "NFS" }, { 0x517b, "SMB" }, { 0xff534d42, "CIFS" }, { 0xfe534d42, "SMB" }, { 0x01021997, "9p" },
        { 0x65735546, "FUSE" }
    };
    (void)state;
    renderq_close(make_queue("sqlite:far.db"));
    for (size_t i = 0; i < count_of(far); i++) {
        char says[128];
        snprintf(says, sizeof says, "is on a network file system (%s)", far[i].name);
        /* f_type is signed and wider than the number: both ways of filling it up are seen */
        const long types[] = { (long)far[i].magic, (long)(int32_t)far[i].magic };
        for (size_t t = 0; t < count_of(types); t++) {
            pretend.type = types[t];
            expect_open("sqlite:far.db", RENDERQ_INVALID, says);
            expect_open("sqlite:far.db", RENDERQ_INVALID, "use SQL Server");
            expect_open("sqlite:far.db", RENDERQ_INVALID, "network_fs=allow");
            expect_open("sqlite:not-there.db", RENDERQ_INVALID, says);      /* by its folder */
            pretend.interruptions = 3;
            expect_open("sqlite:far.db", RENDERQ_INVALID, says);
            assert_int_equal(pretend.interruptions, 0);
            expect_open("sqlite:far.db?network_fs=allow", RENDERQ_OK, "");
        }
    }
    pretend.type = 0x6969;
    renderq *h = make_queue("sqlite:far-new.db?network_fs=allow");
    assert_status(h, put_job(h, NULL, "intro", NULL), RENDERQ_OK);
    renderq_close(h);
    static const long near[] = { 0xef53, 0x01021994, 0x58465342, 0x794c7630, 0x9123683e };  /* ext4, tmpfs, ... */
    for (size_t i = 0; i < count_of(near); i++) {
        pretend.type = near[i];
        expect_open("sqlite:far.db", RENDERQ_OK, "");
    }
    pretend.type = 0;
    assert_int_equal(access("not-there.db", F_OK), -1);
}

/* A link on a local disk does not hide where the file is. */
static void symlinks_to_a_network_file_system(void **state)
{
    (void)state;
    assert_int_equal(mkdir("share", 0755), 0);
    assert_int_equal(symlink("share/there.db", "to-there.db"), 0);
    assert_int_equal(symlink("share", "to-share"), 0);
    renderq_close(make_queue("sqlite:share/there.db"));
    pretend.type = 0x6969;
    pretend.under = "share";
    expect_open("sqlite:here.db", RENDERQ_OK, "");
    expect_open("sqlite:to-there.db", RENDERQ_INVALID, "(NFS)");
    expect_open("sqlite:to-share/new.db", RENDERQ_INVALID, "(NFS)");
    assert_int_equal(unlink("share/there.db"), 0);
    renderq *h = NULL;
    renderq_status status = renderq_open("sqlite:to-there.db", NULL, &h);       /* the link leads to nothing yet */
    if (status == RENDERQ_OK)
        status = renderq_create(h, NULL);
    assert_status(h, status, RENDERQ_INVALID);
    assert_says(h, "(NFS)");
    renderq_close(h);
    pretend.type = 0;
    pretend.under = NULL;
    assert_int_equal(access("share/there.db", F_OK), -1);
}

/* A file that was missing at open() may be made on a network mount meanwhile: create and run look again. */
static void a_network_file_system_mounted_later(void **state)
{
    (void)state;
    renderq *h = open_queue("sqlite:later.db");
    pretend.type = 0x6969;
    assert_status(h, renderq_create(h, NULL), RENDERQ_INVALID);
    assert_says(h, "(NFS)");
    pretend.type = 0;
    assert_int_equal(access("later.db", F_OK), -1);
    assert_status(h, renderq_create(h, NULL), RENDERQ_OK);
    renderq_close(h);
}

/* ---- settings ---- */

static void settings(void **state)
{
    static const struct {
        const char *url;
        int synchronous, busy_ms;
    } cases[] = {
        { "sqlite:set.db", 2, 30000 },
        { "sqlite:set.db?synchronous=full", 2, 30000 },
        { "sqlite:set.db?synchronous=normal", 1, 30000 },
        { "sqlite:set.db?busy_timeout_ms=250", 2, 250 },
    };
    (void)state;
    renderq_close(make_queue("sqlite:set.db"));
    for (size_t i = 0; i < count_of(cases); i++) {
        char mode[20];
        renderq *h = open_queue(cases[i].url);
        sqlite_conn *conn = (sqlite_conn *)h->conn;
        assert_int_equal(db_int(conn->db, "PRAGMA synchronous"), cases[i].synchronous);
        db_text(conn->db, "PRAGMA journal_mode", mode, sizeof mode);
        assert_string_equal(mode, "wal");
        assert_int_equal(conn->busy_ms, cases[i].busy_ms);
        assert_false(conn->attached);
        renderq_close(h);
    }
    renderq_options options = RENDERQ_INIT(renderq_options);
    renderq *h = NULL;
    options.command_s = 7;
    assert_status(h, renderq_open("sqlite:set.db", &options, &h), RENDERQ_OK);
    assert_int_equal(((sqlite_conn *)h->conn)->busy_ms, 7000);
    renderq_close(h);
    h = open_queue("sqlite:set-new.db");                /* the same when create makes the file */
    assert_status(h, renderq_create(h, NULL), RENDERQ_OK);
    assert_int_equal(db_int(((sqlite_conn *)h->conn)->db, "PRAGMA synchronous"), 2);
    renderq_close(h);
}

/* ---- locks ---- */

/* What need not wait for a lock would wait for twice as long, and a wait that is cut short, too. */
#define PATIENT    "busy_timeout_ms=120000"
#define IN_TIME_MS 60000

/* As long as the URL says, and not for the half minute that is usual. */
static void expect_busy(renderq *h, renderq_status status, int64_t began, int ms)
{
    int64_t took = now_ms() - began;
    assert_status(h, status, RENDERQ_BUSY);
    assert_says(h, "try again");
    assert_int_equal(renderq_native_error(h) & 0xff, SQLITE_BUSY);
    assert_true(took >= ms - 1);
    assert_true(took < ms + 25000);
}

static void a_locked_file(void **state)
{
    (void)state;
    renderq_close(make_queue("sqlite:lock.db"));
    static const struct {
        const char *url;
        int ms;
    } cases[] = { { "sqlite:lock.db?busy_timeout_ms=120", 120 }, { "sqlite:lock.db?busy_timeout_ms=0", 0 } };
    for (size_t i = 0; i < count_of(cases); i++) {
        renderq *h = open_queue(cases[i].url);
        renderq_job *job = NULL, *seen = NULL;
        renderq_id id;
        renderq_counts counts = RENDERQ_INIT(renderq_counts);
        assert_status(h, put_job(h, NULL, "intro", &id), RENDERQ_OK);
        sqlite3 *other = db_open("lock.db");
        db_exec(other, "BEGIN IMMEDIATE");
        int64_t began = now_ms();
        expect_busy(h, put_job(h, NULL, "intro", NULL), began, cases[i].ms);
        began = now_ms();
        expect_busy(h, take_job(h, NULL, &job), began, cases[i].ms);
        assert_null(job);
        began = now_ms();
        expect_busy(h, renderq_create(h, NULL), began, cases[i].ms);
        assert_status(h, renderq_get(h, NULL, &id, &seen), RENDERQ_OK);     /* reading waits for nobody */
        assert_int_equal(seen->state, RENDERQ_QUEUED);
        renderq_job_free(seen);
        assert_status(h, renderq_stats(h, NULL, &counts), RENDERQ_OK);
        assert_int_equal(counts.queued, 1);
        assert_status(h, renderq_purge(h, NULL, 60, NULL), RENDERQ_OK);     /* nothing to do takes no lock */
        assert_status(h, renderq_reap(h, NULL, NULL), RENDERQ_OK);
        db_exec(other, "ROLLBACK");
        sqlite3_close(other);
        assert_status(h, take_job(h, NULL, &job), RENDERQ_OK);
        assert_status(h, renderq_complete(h, job, NULL), RENDERQ_OK);
        renderq_job_free(job);
        renderq_close(h);
    }
}

typedef struct unlock {
    sqlite3 *db;
    renderq *h;
    int over;                   /* the call has returned; atomic */
} unlock;

static void *unlock_soon(void *arg)
{
    sleep_ms(60);
    sqlite3_exec(((unlock *)arg)->db, "ROLLBACK", NULL, NULL, NULL);
    return NULL;
}

static bool is_over(unlock *u)
{
    return __atomic_load_n(&u->over, __ATOMIC_SEQ_CST);
}

/* Once, when the call waits; again, as that may not have begun. */
static void *interrupt_soon(void *arg)
{
    unlock *u = arg;
    do {
        sleep_ms(60);
        renderq_interrupt(u->h);
        for (int i = 0; i < 100 && !is_over(u); i++)
            sleep_ms(10);
    } while (!is_over(u));
    return NULL;
}

/* The status of a call that is interrupted. */
static renderq_status interrupted(unlock *u, renderq_status (*call)(renderq *))
{
    pthread_t thread;
    u->over = 0;
    assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, u), 0);
    int64_t began = now_ms();
    renderq_status status = call(u->h);
    assert_true(now_ms() - began < IN_TIME_MS);
    __atomic_store_n(&u->over, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
    return status;
}

static void a_lock_that_is_given_up_in_time(void **state)
{
    (void)state;
    renderq *h = make_queue("sqlite:given-up.db?" PATIENT);
    unlock arg = { .db = db_open("given-up.db"), .h = h };
    pthread_t thread;
    db_exec(arg.db, "BEGIN IMMEDIATE");
    assert_int_equal(pthread_create(&thread, NULL, unlock_soon, &arg), 0);
    int64_t began = now_ms();
    assert_status(h, put_job(h, NULL, "intro", NULL), RENDERQ_OK);
    assert_true(now_ms() - began < IN_TIME_MS);
    pthread_join(thread, NULL);
    sqlite3_close(arg.db);
    renderq_close(h);
}

static renderq_status waits_to_put(renderq *h)
{
    return put_job(h, NULL, "intro", NULL);
}

static renderq_status waits_to_claim(renderq *h)
{
    renderq_job *job = NULL;
    renderq_status status = take_job(h, NULL, &job);
    renderq_job_free(job);
    return status;
}

static renderq_status waits_to_create(renderq *h)
{
    return renderq_create(h, NULL);
}

static void an_interrupt_ends_the_wait_for_a_lock(void **state)
{
    (void)state;
    renderq_status (*const calls[])(renderq *) = { waits_to_put, waits_to_claim, waits_to_create };
    renderq *h = make_queue("sqlite:interrupt.db?" PATIENT);
    assert_status(h, put_job(h, NULL, "intro", NULL), RENDERQ_OK);
    unlock arg = { .db = db_open("interrupt.db"), .h = h };
    for (size_t i = 0; i < count_of(calls); i++) {
        db_exec(arg.db, "BEGIN IMMEDIATE");
        assert_status(h, interrupted(&arg, calls[i]), RENDERQ_INTERRUPTED);
        assert_says(h, "interrupted");
        db_exec(arg.db, "ROLLBACK");
        assert_int_equal(db_int(arg.db, ROWS), 1);
    }
    assert_status(h, waits_to_claim(h), RENDERQ_OK);        /* one interrupt ended one call */
    sqlite3_close(arg.db);
    renderq_close(h);
}

/* A claim that finds nothing reaps, which may have to wait for a lock. Its failure is not the claim's; an
 * interrupt is. */
static void an_empty_claim_that_cannot_reap(void **state)
{
    (void)state;
    renderq *h = make_queue("sqlite:reap.db?busy_timeout_ms=100");
    unlock arg = { .db = db_open("reap.db"), .h = h };
    db_exec(arg.db, "INSERT INTO VideoRenderJobs (CompositionId, PayloadJson, Status, LockedAtUtc) VALUES"
                    " ('x', '{}', 'Processing', 1000); BEGIN IMMEDIATE");
    assert_status(h, waits_to_claim(h), RENDERQ_EMPTY);
    assert_says(h, "no job is ready");
    assert_int_equal(renderq_native_error(h), 0);
    renderq_close(h);

    arg.h = h = open_queue("sqlite:reap.db?" PATIENT);
    assert_status(h, interrupted(&arg, waits_to_claim), RENDERQ_INTERRUPTED);
    assert_status(h, waits_to_claim(h), RENDERQ_EMPTY);     /* one interrupt ended one call */
    db_exec(arg.db, "ROLLBACK");
    assert_int_equal(db_int(arg.db, "SELECT count(*) FROM VideoRenderJobs WHERE Status = 'Processing'"), 1);
    sqlite3_close(arg.db);
    renderq_close(h);
}

/* Hundreds of idle workers look every two seconds: none of them may keep a writer waiting, or wait for one. */
static void an_idle_claim_takes_no_lock(void **state)
{
    (void)state;
    renderq *h = make_queue("sqlite:idle.db?" PATIENT);
    renderq_new_job later = RENDERQ_INIT(renderq_new_job);
    renderq_job *job = NULL;
    later.composition_id = "later";
    later.payload_json = "{}";
    later.delay_ms = 3600000;
    assert_status(h, renderq_enqueue(h, &later, NULL), RENDERQ_OK);
    sqlite3 *other = db_open("idle.db");
    db_exec(other, "BEGIN IMMEDIATE");
    for (int i = 0; i < 3; i++) {
        int64_t began = now_ms();
        assert_status(h, take_job(h, NULL, &job), RENDERQ_EMPTY);
        assert_true(now_ms() - began < IN_TIME_MS);
    }
    db_exec(other, "INSERT INTO VideoRenderJobs (CompositionId, PayloadJson) VALUES ('x', '{}'); COMMIT");
    assert_status(h, take_job(h, NULL, &job), RENDERQ_OK);
    assert_string_equal(job->composition_id, "x");
    renderq_job_free(job);
    sqlite3_close(other);
    renderq_close(h);
}

/* A file of another program's that is not in WAL mode and in use: opening waits as long, and no longer. */
static void a_file_locked_while_it_is_opened(void **state)
{
    (void)state;
    renderq *h = NULL;
    sqlite3 *other = db_open("exclusive.db");
    db_exec(other, "CREATE TABLE own (a); BEGIN EXCLUSIVE; INSERT INTO own VALUES (1)");
    int64_t began = now_ms();
    renderq_status status = renderq_open("sqlite:exclusive.db?busy_timeout_ms=120", NULL, &h);
    expect_busy(h, status, began, 120);
    renderq_close(h);
    pthread_t thread;
    unlock arg = { .db = other };
    assert_int_equal(pthread_create(&thread, NULL, unlock_soon, &arg), 0);
    h = make_queue("sqlite:exclusive.db?" PATIENT);
    pthread_join(thread, NULL);
    renderq_close(h);
    sqlite3_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_urls),
        cmocka_unit_test(good_urls),
        cmocka_unit_test(a_name_of_two_parts),
        cmocka_unit_test(a_missing_file),
        cmocka_unit_test(a_file_without_the_table),
        cmocka_unit_test(a_file_made_while_it_is_opened),
        cmocka_unit_test(a_file_deleted_under_the_handle),
        cmocka_unit_test(a_file_replaced_under_the_handle),
        cmocka_unit_test(a_file_deleted_in_a_transaction),
        cmocka_unit_test(a_folder_that_may_not_be_entered_any_more),
        cmocka_unit_test(a_missing_folder),
        cmocka_unit_test(a_folder_instead_of_a_file),
        cmocka_unit_test(a_path_through_a_file),
        cmocka_unit_test(a_path_that_is_too_long),
        cmocka_unit_test(symlinks),
        cmocka_unit_test(a_read_only_file),
        cmocka_unit_test(a_read_only_folder),
        cmocka_unit_test(a_folder_where_nothing_can_be_made),
        cmocka_unit_test(a_folder_that_may_not_be_entered),
        cmocka_unit_test(a_file_size_limit),
        cmocka_unit_test(a_full_disk),
        cmocka_unit_test(a_corrupt_file),
        cmocka_unit_test(a_cut_file),
        cmocka_unit_test(a_file_that_is_no_database),
        cmocka_unit_test(network_file_systems),
        cmocka_unit_test(symlinks_to_a_network_file_system),
        cmocka_unit_test(a_network_file_system_mounted_later),
        cmocka_unit_test(settings),
        cmocka_unit_test(a_locked_file),
        cmocka_unit_test(a_lock_that_is_given_up_in_time),
        cmocka_unit_test(an_interrupt_ends_the_wait_for_a_lock),
        cmocka_unit_test(an_empty_claim_that_cannot_reap),
        cmocka_unit_test(an_idle_claim_takes_no_lock),
        cmocka_unit_test(a_file_locked_while_it_is_opened),
    };
    return cmocka_run_group_tests(tests, scratch_enter, scratch_leave);
}
