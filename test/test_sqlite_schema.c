/* test_sqlite_schema.c: what renderq_create() makes of nothing, of older tables and of other people's, for names
 * of every kind; and how the prepared statements follow. */
#include "support.h"

#include "handle.h"
#include "sqlite.h"

/* The render queue's table as programs made it before this library: in SQLite's types. */
#define OLD_TABLE(name)                                                                                         \
    "CREATE TABLE " name " (JobId BLOB NOT NULL PRIMARY KEY, CompositionId TEXT NOT NULL,"                       \
    " PayloadJson TEXT NOT NULL, Priority INTEGER NOT NULL DEFAULT 0, Status TEXT NOT NULL DEFAULT 'Queued',"    \
    " WorkerNodeId TEXT, LockedAtUtc INTEGER, CreatedAtUtc INTEGER NOT NULL, CompletedAtUtc INTEGER,"            \
    " OutputUrl TEXT, RetryCount INTEGER NOT NULL DEFAULT 0, LastErrorMessage TEXT);"
#define OLD_ROW(name, id, rest)                                                                                 \
    "INSERT INTO " name " (JobId, CompositionId, PayloadJson, Priority, CreatedAtUtc, Status, RetryCount)"       \
    " VALUES (x'0000000000000000000000000000000" id "', 'old-" id "', '{\"old\":1}', " rest ");"

#define NOW "CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)"

/* Everything that the file holds, in one number: the schema, and the rows of the tables that are given. */
static int64_t digest(const char *path, const char *const *tables)
{
    sqlite3 *db = db_open(path);
    static const char all_schema[] = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name";
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i == 0 || (tables && tables[i - 1]); i++) {
        char sql[200];
        sqlite3_stmt *stmt = NULL;
        snprintf(sql, sizeof sql, "SELECT * FROM \"%s\"", i ? tables[i - 1] : "");
        assert_int_equal(sqlite3_prepare_v2(db, i ? sql : all_schema, -1, &stmt, NULL), SQLITE_OK);
        while (sqlite3_step(stmt) == SQLITE_ROW)
            for (int c = 0; c < sqlite3_column_count(stmt); c++) {
                const unsigned char *text = sqlite3_column_text(stmt, c);
                for (int b = 0; b <= sqlite3_column_bytes(stmt, c); b++)
                    hash = (hash ^ (text ? text[b] : 0xFFu)) * 1099511628211u;
            }
        sqlite3_finalize(stmt);
    }
    sqlite3_close(db);
    return (int64_t)(hash >> 1);
}

/* A job's whole life, to see that a table works. */
static void live(renderq *h, const char *queue)
{
    renderq_id id;
    renderq_job *job = NULL;
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    assert_status(h, put_job(h, queue, "life", &id), RENDERQ_OK);
    assert_status(h, take_job(h, queue, &job), RENDERQ_OK);
    assert_string_equal(job->id.text, id.text);
    assert_string_equal(job->queue, queue ? queue : RQ_NAME_DEFAULT);
    assert_status(h, renderq_renew(h, job, "half"), RENDERQ_OK);
    assert_status(h, renderq_fail(h, job, "no", 0), RENDERQ_OK);
    renderq_job_free(job);
    assert_status(h, take_job(h, queue, &job), RENDERQ_OK);
    assert_status(h, renderq_complete(h, job, "out"), RENDERQ_OK);
    renderq_job_free(job);
    assert_status(h, renderq_retry(h, queue, &id, NULL), RENDERQ_OK);
    assert_status(h, renderq_cancel(h, queue, &id), RENDERQ_OK);
    assert_status(h, renderq_reap(h, queue, NULL), RENDERQ_OK);
    assert_status(h, renderq_purge(h, queue, 60, NULL), RENDERQ_OK);
    assert_status(h, renderq_stats(h, queue, &counts), RENDERQ_OK);
    assert_int_equal(counts.queued, 0);
    assert_true(counts.cancelled >= 1);
}

/* ---- new ---- */

static void create_on_nothing_and_again(void **state)
{
    (void)state;
    static const char *const tables[] = { "VideoRenderJobs", NULL };
    renderq *h = make_queue("sqlite:new.db");
    assert_string_equal(renderq_errmsg(h), "");
    live(h, NULL);
    int64_t before = digest("new.db", tables);
    for (int i = 0; i < 3; i++)
        assert_status(h, renderq_create(h, NULL), RENDERQ_OK);
    renderq *other = open_queue("sqlite:new.db");
    assert_status(other, renderq_create(other, "VideoRenderJobs"), RENDERQ_OK);
    assert_status(other, renderq_create(other, "[VideoRenderJobs]"), RENDERQ_OK);
    renderq_close(other);
    assert_int_equal(digest("new.db", tables), before);
    live(h, NULL);
    renderq_close(h);
    assert_int_equal(file_int("new.db", "SELECT count(*) FROM sqlite_master WHERE type = 'table'"), 1);
    assert_int_equal(file_int("new.db", "SELECT count(*) FROM sqlite_master WHERE type = 'view'"), 1);
    assert_int_equal(file_int("new.db", "SELECT count(*) FROM sqlite_master WHERE type = 'index'"
                                        " AND name LIKE 'VideoRenderJobs\\_%' ESCAPE '\\'"), 7);
}

static void the_view_shows_ids_as_text(void **state)
{
    (void)state;
    renderq *h = make_queue("sqlite:view.db");
    for (int i = 0; i < 20; i++) {
        renderq_id id;
        char composition[20], sql[100], shown[100];
        snprintf(composition, sizeof composition, "c%d", i);
        assert_status(h, put_job(h, NULL, composition, &id), RENDERQ_OK);
        snprintf(sql, sizeof sql, "SELECT JobId FROM VideoRenderJobs_View WHERE CompositionId = '%s'",
                 composition);
        db_text(h->driver->native(h->conn), sql, shown, sizeof shown);
        assert_string_equal(shown, id.text);
    }
    renderq_close(h);
    /* times as text, and a foreign row too */
    file_exec("view.db", "INSERT INTO VideoRenderJobs (JobId, CompositionId, PayloadJson, CreatedAtUtc) VALUES"
                         " (x'00112233445566778899AABBCCDDEEFF', 'foreign', '{}', 86400123)");
    sqlite3 *db = db_open("view.db");
    char shown[100];
    db_text(db, "SELECT JobId || ' ' || CreatedAtUtc FROM VideoRenderJobs_View WHERE CompositionId = 'foreign'",
            shown, sizeof shown);
    assert_string_equal(shown, "FFEEDDCC-BBAA-9988-6677-001122334455 1970-01-02 00:00:00.123");
    sqlite3_close(db);
    h = open_queue("sqlite:view.db");
    const renderq_id foreign = { "ffeeddcc-bbaa-9988-6677-001122334455" };
    renderq_job *job = NULL;
    assert_status(h, renderq_get(h, NULL, &foreign, &job), RENDERQ_OK);
    assert_string_equal(job->composition_id, "foreign");
    renderq_job_free(job);
    renderq_close(h);
}

/* ---- older tables ---- */

static void an_older_table_is_upgraded(void **state)
{
    (void)state;
    file_exec("old.db", OLD_TABLE("VideoRenderJobs") OLD_ROW("VideoRenderJobs", "1", "5, " NOW ", 'Queued', 0")
              OLD_ROW("VideoRenderJobs", "2", "9, " NOW ", 'Queued', 3")
              OLD_ROW("VideoRenderJobs", "3", "0, " NOW ", 'Completed', 0")
              OLD_ROW("VideoRenderJobs", "4", "0, " NOW ", 'Processing', 1")
              "UPDATE VideoRenderJobs SET WorkerNodeId = 'theirs', LockedAtUtc = " NOW
              " WHERE Status = 'Processing';");
    renderq *h = open_queue("sqlite:old.db");
    renderq_job *first = NULL, *second = NULL, *none = NULL;
    assert_status(h, take_job(h, NULL, &first), RENDERQ_SCHEMA);
    assert_status(h, renderq_create(h, NULL), RENDERQ_OK);
    assert_status(h, renderq_create(h, NULL), RENDERQ_OK);
    assert_status(h, take_job(h, NULL, &first), RENDERQ_OK);
    assert_string_equal(first->composition_id, "old-2");
    assert_string_equal(first->payload_json, "{\"old\":1}");
    assert_int_equal(first->retry_count, 3);
    assert_int_equal(first->max_retries, RENDERQ_RETRIES_DEFAULT);
    assert_status(h, take_job(h, NULL, &second), RENDERQ_OK);
    assert_string_equal(second->composition_id, "old-1");
    assert_status(h, take_job(h, NULL, &none), RENDERQ_EMPTY);          /* theirs is theirs for ten minutes */
    assert_status(h, renderq_fail(h, first, "no", RENDERQ_BACKOFF), RENDERQ_OK);
    assert_status(h, renderq_complete(h, second, NULL), RENDERQ_OK);
    renderq_job_free(first);
    renderq_job_free(second);
    live(h, NULL);
    renderq_close(h);
    assert_int_equal(file_int("old.db", "SELECT count(*) FROM VideoRenderJobs WHERE Status = 'DeadLetter'"), 1);
    assert_int_equal(file_int("old.db", "SELECT count(*) FROM VideoRenderJobs WHERE Status = 'Processing'"
                                        " AND WorkerNodeId = 'theirs'"), 1);
    assert_int_equal(file_int("old.db", "SELECT count(*) FROM VideoRenderJobs"
                                        " WHERE CompositionId LIKE 'old-%'"), 4);

    /* the statements that the other programs go on to use */
    file_exec("old.db", OLD_ROW("VideoRenderJobs", "5", "1, " NOW ", 'Queued', 0")
              "UPDATE VideoRenderJobs SET Status = 'Processing', WorkerNodeId = 'w', LockedAtUtc = " NOW
              " WHERE CompositionId = 'old-5'; UPDATE VideoRenderJobs SET Status = 'Completed' WHERE"
              " CompositionId = 'old-5'");
    assert_int_equal(file_int("old.db", "SELECT count(*) FROM sqlite_master WHERE type = 'index'"
                                        " AND name LIKE 'VideoRenderJobs\\_%' ESCAPE '\\'"), 7);
}

/* What SQLite remembers of the schema is older than the table. */
static void an_older_table_made_after_the_handle_looked(void **state)
{
    (void)state;
    file_exec("late.db", "CREATE TABLE own (a)");
    renderq *h = open_queue("sqlite:late.db");
    renderq_job *job = NULL;
    assert_status(h, take_job(h, NULL, &job), RENDERQ_SCHEMA);
    assert_says(h, "has no queue table");
    file_exec("late.db", OLD_TABLE("VideoRenderJobs") OLD_ROW("VideoRenderJobs", "1", "5, " NOW ", 'Queued', 0"));
    assert_status(h, take_job(h, NULL, &job), RENDERQ_SCHEMA);
    assert_says(h, "too old");
    renderq_close(h);

    unlink("late.db");
    file_exec("late.db", "CREATE TABLE own (a)");
    h = open_queue("sqlite:late.db");
    assert_status(h, take_job(h, NULL, &job), RENDERQ_SCHEMA);
    file_exec("late.db", OLD_TABLE("VideoRenderJobs") OLD_ROW("VideoRenderJobs", "1", "5, " NOW ", 'Queued', 0"));
    assert_status(h, renderq_create(h, NULL), RENDERQ_OK);
    assert_status(h, take_job(h, NULL, &job), RENDERQ_OK);
    assert_string_equal(job->composition_id, "old-1");
    renderq_job_free(job);
    renderq_close(h);
}

/* The columns that a new table has and an upgraded one has not would break whatever comes later. */
static void an_upgraded_table_has_every_column(void **state)
{
    (void)state;
    char added[500], made[500];
    file_exec("columns.db", OLD_TABLE("Jobs"));
    renderq *h = open_queue("sqlite:columns.db?queue=Jobs");
    assert_status(h, renderq_create(h, NULL), RENDERQ_OK);
    assert_status(h, renderq_create(h, "Fresh"), RENDERQ_OK);
    sqlite3 *db = h->driver->native(h->conn);
    static const char list[] = "SELECT group_concat(name || ' ' || type, ', ') FROM"
                               " (SELECT name, type FROM pragma_table_info('%s') ORDER BY name)";
    char sql[200];
    snprintf(sql, sizeof sql, list, "Jobs");
    db_text(db, sql, added, sizeof added);
    snprintf(sql, sizeof sql, list, "Fresh");
    db_text(db, sql, made, sizeof made);
    assert_string_equal(added, made);
    /* what was added may be NULL and has no default, so that the other programs' INSERTs go on */
    assert_int_equal(db_int(db, "SELECT count(*) FROM pragma_table_info('Jobs') WHERE cid > 11"
                                " AND (\"notnull\" OR dflt_value IS NOT NULL)"), 0);
    renderq_close(h);
}

/* A table of an older version of this library: only some of the columns and indexes are missing. */
static void a_table_between_two_versions(void **state)
{
    (void)state;
    renderq *h = make_queue("sqlite:between.db");
    assert_status(h, put_job(h, NULL, "kept", NULL), RENDERQ_OK);
    renderq_close(h);
    file_exec("between.db", "DROP VIEW VideoRenderJobs_View; DROP INDEX VideoRenderJobs_DedupKey;"
                            "DROP INDEX VideoRenderJobs_Queued; ALTER TABLE VideoRenderJobs DROP COLUMN DedupKey;"
                            "ALTER TABLE VideoRenderJobs DROP COLUMN Progress");
    h = open_queue("sqlite:between.db");
    renderq_job *job = NULL;
    assert_status(h, take_job(h, NULL, &job), RENDERQ_SCHEMA);
    assert_status(h, renderq_create(h, NULL), RENDERQ_OK);
    assert_status(h, take_job(h, NULL, &job), RENDERQ_OK);
    assert_string_equal(job->composition_id, "kept");
    renderq_job_free(job);
    live(h, NULL);
    renderq_close(h);
}

static renderq_status list_nothing(renderq *h)
{
    return renderq_list(h, NULL, (renderq_job_fn)NULL, NULL);
}

static int count_job(void *arg, const renderq_job *job)
{
    (void)job;
    ++*(int *)arg;
    return 0;
}

static void expect_too_old(renderq *h, renderq_status status)
{
    assert_status(h, status, RENDERQ_SCHEMA);
    assert_says(h, "the table \"VideoRenderJobs\" is too old or no queue");
    assert_says(h, "renderq_create() or renderq init upgrades it");
}

static void a_too_old_table_is_refused_by_every_call(void **state)
{
    (void)state;
    static const char *const tables[] = { "VideoRenderJobs", NULL };
    file_exec("too-old.db", "PRAGMA journal_mode = WAL;" OLD_TABLE("VideoRenderJobs")
              OLD_ROW("VideoRenderJobs", "1", "5, " NOW ", 'Queued', 0"));
    renderq *good = make_queue("sqlite:good.db"), *h = open_queue("sqlite:too-old.db");
    renderq_job *job = NULL, *out = NULL;
    assert_status(good, put_job(good, NULL, "good", NULL), RENDERQ_OK);
    assert_status(good, take_job(good, NULL, &job), RENDERQ_OK);
    renderq_close(good);
    const renderq_id id = job->id, lease = job->lease;
    renderq_new_job fresh = RENDERQ_INIT(renderq_new_job);
    renderq_result result = RENDERQ_INIT(renderq_result);
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    int seen = 0;
    size_t n = 0;
    fresh.composition_id = "intro";
    fresh.payload_json = "{}";
    result.job = job;

    int64_t before = digest("too-old.db", tables);
    expect_too_old(h, renderq_enqueue(h, &fresh, NULL));
    expect_too_old(h, renderq_enqueue_many(h, &fresh, 1, NULL));
    expect_too_old(h, take_job(h, NULL, &out));
    expect_too_old(h, renderq_claim_many(h, NULL, &out, 1, &n));
    expect_too_old(h, renderq_start_many(h, &job, 1, NULL, 0, NULL));
    expect_too_old(h, renderq_renew(h, job, NULL));
    expect_too_old(h, renderq_renew_many(h, &job, 1, NULL));
    expect_too_old(h, renderq_complete(h, job, NULL));
    expect_too_old(h, renderq_complete_many(h, &result, 1));
    expect_too_old(h, renderq_fail(h, job, NULL, 0));
    expect_too_old(h, renderq_release(h, job, 0));
    expect_too_old(h, renderq_job_resume(h, NULL, &id, &lease, &out));
    expect_too_old(h, renderq_get(h, NULL, &id, &out));
    expect_too_old(h, renderq_list(h, NULL, count_job, &seen));
    expect_too_old(h, renderq_cancel(h, NULL, &id));
    expect_too_old(h, renderq_retry(h, NULL, &id, NULL));
    expect_too_old(h, renderq_retry_dead(h, NULL, NULL));
    expect_too_old(h, renderq_settle(h, NULL, &id, NULL, 0));
    expect_too_old(h, renderq_reap(h, NULL, NULL));
    expect_too_old(h, renderq_purge(h, NULL, 60, NULL));
    expect_too_old(h, renderq_stats(h, NULL, &counts));
    assert_status(h, list_nothing(h), RENDERQ_INVALID);
    assert_int_equal(seen, 0);
    assert_null(out);
    assert_int_equal(digest("too-old.db", tables), before);

    renderq *maker = make_queue("sqlite:too-old.db");       /* the way out, from another connection */
    renderq_close(maker);
    assert_status(h, renderq_list(h, NULL, count_job, &seen), RENDERQ_OK);
    assert_int_equal(seen, 1);
    assert_status(h, renderq_complete(h, job, NULL), RENDERQ_LOST);
    renderq_job_free(job);
    renderq_close(h);
}

/* ---- other people's tables ---- */

static void a_table_that_is_no_queue(void **state)
{
    (void)state;
    static const char *const tables[] = { "VideoRenderJobs", NULL };
    static const struct {
        const char *sql, *says;
    } cases[] = {
        { "CREATE TABLE VideoRenderJobs (a); INSERT INTO VideoRenderJobs VALUES (1)", "has no column JobId" },
        /* columns that could be added stand before the one that cannot: nothing may be left of them */
        { "CREATE TABLE VideoRenderJobs (JobId BLOB, CompositionId TEXT, Priority INTEGER, Status TEXT,"
          " CreatedAtUtc INTEGER, RetryCount INTEGER)", "has no column PayloadJson" },
        { "CREATE VIEW VideoRenderJobs AS SELECT 1 AS JobId", "VideoRenderJobs" },
        { "CREATE TABLE own (a); CREATE INDEX VideoRenderJobs ON own (a)", "VideoRenderJobs" },
        /* nothing can find its rows by rowid */
        { "CREATE TABLE VideoRenderJobs (JobId BLOB PRIMARY KEY, CompositionId TEXT, Priority INTEGER,"
          " Status TEXT, CreatedAtUtc INTEGER, RetryCount INTEGER, PayloadJson TEXT) WITHOUT ROWID",
          "VideoRenderJobs" },
    };
    for (size_t i = 0; i < count_of(cases); i++) {
        char path[32], url[48];
        snprintf(path, sizeof path, "strange-%zu.db", i);
        snprintf(url, sizeof url, "sqlite:%s", path);
        file_exec(path, cases[i].sql);
        renderq *h = open_queue(url);
        const char *const *rows = i < 2 ? tables : NULL;
        int64_t before = digest(path, rows);
        assert_status(h, renderq_create(h, NULL), RENDERQ_SCHEMA);
        assert_says(h, cases[i].says);
        assert_says(h, "nothing was changed");
        assert_int_equal(digest(path, rows), before);
        assert_true(sqlite3_get_autocommit(h->driver->native(h->conn)));
        assert_status(h, put_job(h, NULL, "intro", NULL), RENDERQ_SCHEMA);
        assert_status(h, renderq_create(h, "Other"), RENDERQ_OK);       /* another name is the way out */
        live(h, "Other");
        renderq_close(h);
    }
}

/* An index's name belongs to the file: a queue may not be named like another queue's index or view. */
static void a_name_that_is_taken(void **state)
{
    (void)state;
    static const char *const names[] = { "Jobs_Queued", "Jobs_View", "sqlite_jobs" };
    renderq *h = make_queue("sqlite:taken.db?queue=Jobs");
    int64_t before = digest("taken.db", NULL);
    for (size_t i = 0; i < count_of(names); i++) {
        assert_status(h, renderq_create(h, names[i]), RENDERQ_SCHEMA);
        assert_says(h, names[i]);
        assert_int_equal(digest("taken.db", NULL), before);
    }
    live(h, "Jobs");
    renderq_close(h);
}

/* An index that only shares our name would leave the queue without one. */
static void an_index_of_somebody_elses(void **state)
{
    (void)state;
    file_exec("index.db", "CREATE TABLE own (a); CREATE INDEX VideoRenderJobs_Queued ON own (a)");
    renderq *h = open_queue("sqlite:index.db");
    int64_t before = digest("index.db", NULL);
    assert_status(h, renderq_create(h, NULL), RENDERQ_SCHEMA);
    assert_says(h, "VideoRenderJobs_Queued");
    assert_int_equal(digest("index.db", NULL), before);
    renderq_close(h);
}

/* A unique index that the table's owner made is not the queue's dedup key. */
static void a_unique_index_of_the_tables_own(void **state)
{
    (void)state;
    renderq *h = make_queue("sqlite:unique.db");
    renderq_id id;
    renderq_job *job = NULL;
    renderq_new_job jobs[2] = { RENDERQ_INIT(renderq_new_job), RENDERQ_INIT(renderq_new_job) };
    jobs[0].composition_id = "first";
    jobs[1].composition_id = "intro";
    jobs[0].payload_json = jobs[1].payload_json = "{}";
    file_exec("unique.db", "CREATE UNIQUE INDEX own ON VideoRenderJobs (CompositionId) WHERE Status = 'Queued'");
    assert_status(h, put_job(h, NULL, "intro", &id), RENDERQ_OK);
    assert_status(h, put_job(h, NULL, "intro", NULL), RENDERQ_SCHEMA);
    assert_says(h, "the table forbids it: UNIQUE constraint failed");
    assert_status(h, renderq_enqueue_many(h, jobs, 2, NULL), RENDERQ_SCHEMA);
    assert_int_equal(file_int("unique.db", "SELECT count(*) FROM VideoRenderJobs"), 1);

    assert_status(h, renderq_begin(h), RENDERQ_OK);
    assert_status(h, put_job(h, NULL, "other", NULL), RENDERQ_OK);
    assert_status(h, put_job(h, NULL, "intro", NULL), RENDERQ_SCHEMA);
    assert_status(h, renderq_commit(h), RENDERQ_OK);
    assert_int_equal(file_int("unique.db", "SELECT count(*) FROM VideoRenderJobs"), 2);

    assert_status(h, renderq_cancel(h, NULL, &id), RENDERQ_OK);
    jobs[1].dedup_key = "key";
    assert_status(h, renderq_enqueue(h, &jobs[1], NULL), RENDERQ_OK);
    assert_status(h, renderq_enqueue(h, &jobs[1], NULL), RENDERQ_DUPLICATE);
    assert_status(h, renderq_retry(h, NULL, &id, NULL), RENDERQ_SCHEMA);
    assert_says(h, "UNIQUE constraint failed");
    assert_status(h, renderq_get(h, NULL, &id, &job), RENDERQ_OK);
    assert_int_equal(job->state, RENDERQ_CANCELLED);
    renderq_job_free(job);
    renderq_close(h);
}

static void other_tables_are_left_alone(void **state)
{
    (void)state;
    static const char *const tables[] = { "own", "VideoRenderJobs2", NULL };
    static const char ours[] = "SELECT count(*) FROM sqlite_master WHERE name NOT LIKE 'own%'"
                               " AND name NOT LIKE 'VideoRenderJobs2%' AND tbl_name NOT LIKE 'VideoRenderJobs%'";
    file_exec("mixed.db", "CREATE TABLE own (a INTEGER PRIMARY KEY, Status TEXT, JobId BLOB);"
                          "CREATE INDEX own_index ON own (Status); CREATE VIEW own_view AS SELECT a FROM own;"
                          "CREATE TRIGGER own_trigger AFTER UPDATE ON own BEGIN DELETE FROM own; END;"
                          "INSERT INTO own VALUES (1, 'Queued', x'00');"
                          "CREATE TABLE VideoRenderJobs2 (Status TEXT);"
                          "INSERT INTO VideoRenderJobs2 VALUES ('Queued'); PRAGMA user_version = 7;"
                          "PRAGMA application_id = 8");
    char before[2000], after[2000];
    static const char theirs[] = "SELECT group_concat(sql, ';') FROM (SELECT sql FROM sqlite_master"
                                 " WHERE name LIKE 'own%' OR name LIKE 'VideoRenderJobs2%' ORDER BY name)";
    sqlite3 *db = db_open("mixed.db");
    db_text(db, theirs, before, sizeof before);
    renderq *h = make_queue("sqlite:mixed.db");
    live(h, NULL);
    live(h, NULL);
    renderq_close(h);
    db_text(db, theirs, after, sizeof after);
    assert_string_equal(before, after);
    for (size_t i = 0; tables[i]; i++) {
        char sql[100];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE Status = 'Queued'", tables[i]);
        assert_int_equal(db_int(db, sql), 1);
    }
    assert_int_equal(db_int(db, ours), 0);
    assert_int_equal(db_int(db, "PRAGMA user_version"), 7);
    assert_int_equal(db_int(db, "PRAGMA application_id"), 8);
    sqlite3_close(db);
}

/* ---- names ---- */

static void two_queues_in_one_file(void **state)
{
    (void)state;
    renderq *h = make_queue("sqlite:two.db?queue=First");
    renderq_job *job = NULL;
    assert_status(h, put_job(h, "Second", "intro", NULL), RENDERQ_SCHEMA);
    assert_says(h, "has no queue table \"Second\"");
    assert_status(h, renderq_create(h, "Second"), RENDERQ_OK);
    assert_status(h, put_job(h, NULL, "one", NULL), RENDERQ_OK);
    assert_status(h, put_job(h, "Second", "two", NULL), RENDERQ_OK);
    assert_status(h, take_job(h, "Second", &job), RENDERQ_OK);
    assert_string_equal(job->composition_id, "two");
    assert_status(h, renderq_complete(h, job, NULL), RENDERQ_OK);       /* the job knows its queue */
    renderq_job_free(job);
    assert_status(h, take_job(h, "Second", &job), RENDERQ_EMPTY);
    assert_status(h, take_job(h, NULL, &job), RENDERQ_OK);
    assert_string_equal(job->composition_id, "one");
    renderq_job_free(job);
    renderq_close(h);
    assert_int_equal(file_int("two.db", "SELECT count(*) FROM Second WHERE Status = 'Completed'"), 1);
    assert_int_equal(file_int("two.db", "SELECT count(*) FROM First WHERE Status = 'Processing'"), 1);
}

static void names_of_every_kind(void **state)
{
    (void)state;
    char longest[300] = "[", emojis[300] = "";
    memset(longest + 1, 'n', 128);
    strcat(longest, "]");
    for (int i = 0; i < 64; i++)
        strcat(emojis, "\xF0\x9F\x8E\xAC");         /* 64 of two units each */
    const struct {
        const char *queue, *table;
    } names[] = {
        { "Plain", "Plain" },
        { "[with blanks in it]", "with blanks in it" },
        { "say \"hello\"", "say \"hello\"" },
        { "\"", "\"" },
        { "\"\"", "\"\"" },
        { "it's", "it's" },
        { "'; DROP TABLE Plain; --", "'; DROP TABLE Plain; --" },
        { "\"; DROP TABLE Plain; --", "\"; DROP TABLE Plain; --" },
        { "[a]]b]", "a]b" },
        { "[[]", "[" },
        { "[a.b]", "a.b" },
        { "[a.b.c]", "a.b.c" },
        { "`tick`", "`tick`" },
        { "%s%n$1:name?1@x#", "%s%n$1:name?1@x#" },
        { "select", "select" },
        { "back\\slash", "back\\slash" },
        { "[two\nlines]", "two\nlines" },
        { "\xC3\x9C" "berma\xC3\x9F", "\xC3\x9C" "berma\xC3\x9F" },
        { "\xF0\x9F\x8E\xAC", "\xF0\x9F\x8E\xAC" },
        { emojis, emojis },
        { longest, NULL },
        { "-- VideoRenderJobs", "-- VideoRenderJobs" },         /* the name that the files are written with */
        { "VideoRenderJobsVideoRenderJobs", "VideoRenderJobsVideoRenderJobs" },
        { "VideoRenderJobs", "VideoRenderJobs" },
    };
    renderq *h = open_queue("sqlite:names.db");
    for (size_t i = 0; i < count_of(names); i++) {
        assert_status(h, renderq_create(h, names[i].queue), RENDERQ_OK);
        live(h, names[i].queue);
        assert_status(h, put_job(h, names[i].queue, "left", NULL), RENDERQ_OK);
        char *sql = sqlite3_mprintf("SELECT count(*) FROM \"%w_View\" WHERE CompositionId = 'left'",
                                    names[i].table ? names[i].table : "");
        if (names[i].table)
            assert_int_equal(file_int("names.db", sql), 1);
        sqlite3_free(sql);
    }
    renderq_close(h);
    assert_int_equal(file_int("names.db", "SELECT count(*) FROM sqlite_master WHERE type = 'table'"),
                     count_of(names));
}

/* SQLite compares the names of tables without regard to case, so these are one queue. */
static void names_in_another_case(void **state)
{
    (void)state;
    renderq *h = make_queue("sqlite:case.db?queue=Jobs");
    renderq_job *job = NULL;
    assert_status(h, renderq_create(h, "JOBS"), RENDERQ_OK);
    assert_status(h, put_job(h, "jobs", "intro", NULL), RENDERQ_OK);
    assert_status(h, take_job(h, "JOBS", &job), RENDERQ_OK);
    assert_status(h, renderq_complete(h, job, NULL), RENDERQ_OK);
    renderq_job_free(job);
    renderq_close(h);
}

/* ---- prepared statements ---- */

static void more_queues_than_are_kept_prepared(void **state)
{
    (void)state;
    enum { QUEUES = SQLITE_QUEUES_MAX * 2 + 3 };
    renderq *h = open_queue("sqlite:many.db");
    sqlite_conn *conn = NULL;
    char names[QUEUES][20];
    for (int i = 0; i < QUEUES; i++) {
        snprintf(names[i], sizeof names[i], "Queue%d", i);
        assert_status(h, renderq_create(h, names[i]), RENDERQ_OK);
    }
    conn = (sqlite_conn *)h->conn;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < QUEUES; i++) {
            live(h, names[round ? QUEUES - 1 - i : i]);
            live(h, names[0]);                      /* one that is used all the time stays */
            assert_string_equal(conn->queues->name, names[0]);
            assert_true(conn->n_queues <= SQLITE_QUEUES_MAX);
            int n = 0;
            for (const sqlite_queue *queue = conn->queues; queue; queue = queue->next)
                n++;
            assert_int_equal(n, conn->n_queues);
        }
    assert_int_equal(conn->n_queues, SQLITE_QUEUES_MAX);
    for (int i = 0; i < QUEUES; i++) {
        char sql[sizeof names[0] + 32];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %.19s", names[i]);
        assert_int_equal(file_int("many.db", sql), i == 0 ? 2 * QUEUES + 2 : 2);
    }
    renderq_close(h);
}

/* Somebody changes the table under prepared statements. */
static void a_table_changed_under_the_handle(void **state)
{
    (void)state;
    renderq *h = make_queue("sqlite:changed.db");
    live(h, NULL);
    file_exec("changed.db", "ALTER TABLE VideoRenderJobs ADD COLUMN Own TEXT DEFAULT 'x'");
    live(h, NULL);
    file_exec("changed.db", "DROP VIEW VideoRenderJobs_View; DROP TABLE VideoRenderJobs");
    assert_status(h, put_job(h, NULL, "intro", NULL), RENDERQ_SCHEMA);
    assert_says(h, "has no queue table \"VideoRenderJobs\"");
    assert_status(h, renderq_create(h, NULL), RENDERQ_OK);
    live(h, NULL);
    renderq_close(h);
}

/* A job's id that some other program wrote as text is told, not guessed at; and the job is left. */
static void a_row_with_a_bad_id(void **state)
{
    (void)state;
    file_exec("bad-id.db", OLD_TABLE("VideoRenderJobs")
              "INSERT INTO VideoRenderJobs (JobId, CompositionId, PayloadJson, CreatedAtUtc)"
              " VALUES ('not-a-blob', 'x', '{}', 1)");
    renderq *h = make_queue("sqlite:bad-id.db");
    renderq_job *job = NULL;
    assert_status(h, take_job(h, NULL, &job), RENDERQ_FAILED);
    assert_says(h, "no 16-byte blob");
    assert_null(job);
    assert_int_equal(file_int("bad-id.db", "SELECT count(*) FROM VideoRenderJobs WHERE Status = 'Queued'"), 1);
    renderq_close(h);
}

/* ---- many at once ---- */

static int create_in_a_race(void *arg)
{
    const int *gate = arg;
    renderq *h = NULL;
    char byte;
    close(gate[1]);
    CHECK(read(gate[0], &byte, 1) == 0);        /* until the parent closes its end */
    CHECK_STATUS(h, renderq_open("sqlite:race.db", NULL, &h), RENDERQ_OK);
    CHECK_STATUS(h, renderq_create(h, NULL), RENDERQ_OK);
    CHECK_STATUS(h, put_job(h, NULL, "intro", NULL), RENDERQ_OK);
    renderq_close(h);
    return 0;
}

static void twelve_processes_create_at_once(void **state)
{
    (void)state;
    enum { PROCESSES = 12, ROUNDS = 4 };
    for (int round = 0; round < ROUNDS; round++) {
        pid_t children[PROCESSES];
        int gate[2];
        unlink("race.db");
        if (round % 2)
            file_exec("race.db", OLD_TABLE("VideoRenderJobs"));         /* all of them upgrade */
        assert_int_equal(pipe(gate), 0);
        for (int i = 0; i < PROCESSES; i++)
            children[i] = start_child(create_in_a_race, gate, false);
        close(gate[0]);
        close(gate[1]);
        for (int i = 0; i < PROCESSES; i++)
            end_child(children[i]);
        assert_int_equal(file_int("race.db", "SELECT count(*) FROM VideoRenderJobs"), PROCESSES);
        assert_int_equal(file_int("race.db", "SELECT count(*) FROM pragma_table_info('VideoRenderJobs')"), 21);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_on_nothing_and_again),
        cmocka_unit_test(the_view_shows_ids_as_text),
        cmocka_unit_test(an_older_table_is_upgraded),
        cmocka_unit_test(an_older_table_made_after_the_handle_looked),
        cmocka_unit_test(an_upgraded_table_has_every_column),
        cmocka_unit_test(a_table_between_two_versions),
        cmocka_unit_test(a_too_old_table_is_refused_by_every_call),
        cmocka_unit_test(a_table_that_is_no_queue),
        cmocka_unit_test(a_name_that_is_taken),
        cmocka_unit_test(an_index_of_somebody_elses),
        cmocka_unit_test(a_unique_index_of_the_tables_own),
        cmocka_unit_test(other_tables_are_left_alone),
        cmocka_unit_test(two_queues_in_one_file),
        cmocka_unit_test(names_of_every_kind),
        cmocka_unit_test(names_in_another_case),
        cmocka_unit_test(more_queues_than_are_kept_prepared),
        cmocka_unit_test(a_table_changed_under_the_handle),
        cmocka_unit_test(a_row_with_a_bad_id),
        cmocka_unit_test(twelve_processes_create_at_once),
    };
    return cmocka_run_group_tests(tests, scratch_enter, scratch_leave);
}
