/* test_nomem.c: memory that runs out. For each public call, its first, second, ... allocation fails, ours by the
 * linker's --wrap and SQLite's by its own hook, until the call gets through; then the same with every allocation
 * from the n-th on. After each failure the call must have said NOMEM, changed nothing, kept nothing, and work when
 * it is made again. Every one of ours fails in turn; of SQLite's, which are thousands, as many as there is time
 * for, or every one with RENDERQ_TEST_NOMEM=all. */
#include "support.h"

#include "handle.h"

/* ---- allocations that fail ---- */

enum { OURS, ENGINES, KINDS };

static struct {
    long left[KINDS];       /* allocations until the one that fails; 0: none does */
    bool keep;              /* ... and all after it, of either kind */
    bool paused;            /* the test itself looks at something */
    bool failed;            /* one did, since it was armed */
    long made[KINDS];       /* allocations, since it was armed */
    long counted[KINDS];    /* ... until it was disarmed */
    long hits[KINDS];       /* failures so far */
    long held[KINDS];       /* blocks in use */
} fault;

static bool fails(int kind)
{
    if (fault.paused)
        return false;
    fault.made[kind]++;
    if (!(fault.keep && fault.failed) && (fault.left[kind] == 0 || --fault.left[kind] > 0))
        return false;
    fault.failed = true;
    fault.hits[kind]++;
    return true;
}

static void arm(int kind, long n, bool keep)
{
    for (int i = 0; i < KINDS; i++)
        fault.left[i] = fault.made[i] = 0;
    fault.left[kind] = n;
    fault.keep = keep;
    fault.failed = false;
}

/* Whether one has failed meanwhile. */
static bool disarm(void)
{
    bool failed = fault.failed;
    memcpy(fault.counted, fault.made, sizeof fault.made);
    fault.failed = fault.keep = false;
    fault.left[OURS] = fault.left[ENGINES] = 0;
    return failed;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *block);

static void *held(void *block)
{
    fault.held[OURS] += block != NULL;
    return block;
}

void *__wrap_malloc(size_t size)
{
    return fails(OURS) ? NULL : held(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails(OURS) ? NULL : held(__real_calloc(n, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    if (fails(OURS))
        return NULL;
    void *block = __real_realloc(old, size);
    fault.held[OURS] += !old && block;
    return block;
}

char *__wrap_strdup(const char *text)
{
    return fails(OURS) ? NULL : held(__real_strdup(text));
}

void __wrap_free(void *block)
{
    fault.held[OURS] -= block != NULL;
    __real_free(block);
}

static sqlite3_mem_methods engine;

static void *engine_malloc(int size)
{
    void *block = fails(ENGINES) ? NULL : engine.xMalloc(size);
    fault.held[ENGINES] += block != NULL;
    return block;
}

static void engine_free(void *block)
{
    fault.held[ENGINES] -= block != NULL;
    engine.xFree(block);
}

static void *engine_realloc(void *old, int size)
{
    return fails(ENGINES) ? NULL : engine.xRealloc(old, size);
}

/* Small allocations would come from a pool of each connection's and never fail. */
static int hook_the_engine(void)
{
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &engine) != SQLITE_OK)
        return -1;
    sqlite3_mem_methods ours = engine;
    ours.xMalloc = engine_malloc;
    ours.xFree = engine_free;
    ours.xRealloc = engine_realloc;
    return sqlite3_config(SQLITE_CONFIG_MALLOC, &ours) == SQLITE_OK
           && sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) == SQLITE_OK ? 0 : -1;
}

/* ---- the table that each try begins with ---- */

#define URL       "sqlite:nomem.db?synchronous=normal&busy_timeout_ms=1000"
#define PENDING   2     /* jobs that tries may claim */

#define ID(last)  "x'000000000000000000000000000000" last "'"
#define NO_KEY    "NULL, NULL, NULL, NULL, NULL, NULL, NULL"
#define MINE      "NULL, 'me', " ID("00") ", 600, 5000000000000, 5000000000000, "

/* The last bytes of the ids tell the rows apart; in a GUID's text they come first. */
#define COLUMNS                                                                                                  \
    "JobId, CompositionId, PayloadJson, Priority, Status, RetryCount, CreatedAtUtc, DueAtUtc, CompletedAtUtc,"    \
    " EndedAtUtc, DedupKey, WorkerNodeId, LeaseToken, LeaseSeconds, LockedAtUtc, LeasedAtUtc, StartedAtUtc"
static const char rows[] =
    "INSERT INTO VideoRenderJobs (" COLUMNS ") VALUES"
    " (" ID("01") ", 'a', '{\"a\":1}', 5, 'Queued', 0, 1, NULL, NULL, NULL, " NO_KEY "),"
    " (" ID("02") ", 'b', '{}', 1, 'Queued', 1, 1, NULL, NULL, NULL, 'key-b', NULL, NULL, NULL, NULL, NULL, NULL),"
    " (" ID("03") ", 'c', '{}', 0, 'Scheduled', 0, 1, 9000000000000, NULL, NULL, " NO_KEY "),"
    " (" ID("04") ", 'd', '{}', 0, 'DeadLetter', 4, 1, NULL, NULL, 8000000000000, 'key-d', NULL, NULL, NULL, NULL,"
    "  NULL, NULL),"
    " (" ID("05") ", 'e', '{}', 0, 'Cancelled', 0, 1, NULL, NULL, 1000, " NO_KEY "),"
    " (" ID("06") ", 'f', '{}', 0, 'Completed', 0, 1, NULL, 1000, NULL, " NO_KEY "),"
    /* two leased to us, two more unstarted, one that has run out */
    " (" ID("07") ", 'g', '{\"g\":1}', 0, 'Processing', 0, 1, NULL, NULL, NULL, " MINE "1),"
    " (" ID("08") ", 'h', '{}', 0, 'Processing', 0, 1, NULL, NULL, NULL, " MINE "1),"
    " (" ID("09") ", 'i', '{}', 0, 'Processing', 0, 1, NULL, NULL, NULL, " MINE "NULL),"
    " (" ID("0A") ", 'j', '{}', 0, 'Processing', 0, 1, NULL, NULL, NULL, " MINE "NULL),"
    " (" ID("0B") ", 'k', '{}', 0, 'Processing', 0, 1, NULL, NULL, NULL, NULL, 'gone', " ID("FF") ", 1, 1000,"
    "  1000, NULL)";

static renderq_id id_of(int row)
{
    renderq_id id;
    snprintf(id.text, sizeof id.text, "%02X000000-0000-0000-0000-000000000000", row);
    return id;
}

enum { QUEUED_HIGH = 1, QUEUED = 2, DEAD = 4, COMPLETED = 6, STARTED = 7, UNSTARTED = 9, RUN_OUT = 11 };

typedef struct world {
    sqlite3 *db;                /* watches, and keeps the file's log from being folded at every close */
    renderq *h;
    renderq_job *jobs[2];       /* leased, for the calls that need it */
    renderq_job *out[3];        /* what a call hands out */
    renderq_id id;
    size_t n;
    int seen;
    int64_t number;
    renderq_enqueued each[2];
    renderq_status statuses[2];
    renderq_result results[2];
    renderq_counts counts;
} world;

static int64_t look(const world *w, const char *sql)
{
    fault.paused = true;
    int64_t number = db_int(w->db, sql);
    fault.paused = false;
    return number;
}

static uint64_t digest(sqlite3 *db)
{
    static const char *const all[] = { "SELECT * FROM VideoRenderJobs ORDER BY JobId",
                                       "SELECT name, sql FROM sqlite_master ORDER BY name" };
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < count_of(all); i++) {
        sqlite3_stmt *stmt = NULL;
        sqlite3_prepare_v2(db, all[i], -1, &stmt, NULL);
        while (stmt && sqlite3_step(stmt) == SQLITE_ROW)
            for (int c = 0; c < sqlite3_column_count(stmt); c++) {
                const unsigned char *bytes = sqlite3_column_blob(stmt, c);
                hash = (hash ^ (unsigned)sqlite3_column_type(stmt, c)) * 1099511628211u;
                for (int b = 0; b < sqlite3_column_bytes(stmt, c); b++)
                    hash = (hash ^ bytes[b]) * 1099511628211u;
            }
        sqlite3_finalize(stmt);
    }
    return hash;
}

/* ---- the calls ---- */

typedef struct act {
    const char *name;
    renderq_status (*call)(world *w);
    int leased;                 /* the first of two rows that w->jobs are, 0: none */
    const char *after;          /* what is true of the table once the call got through */
    const char *also;           /* ... before it: SQL that makes the table what the call needs, or NULL */
    bool may_be_half;           /* the call has several steps, each of which is whole: what a failure leaves is
                                   said by `between` */
    const char *between;
    renderq_status else_ok;     /* another answer that is right when memory for what it can do without was short */
    bool opens;                 /* it makes its own handle */
} act;

static renderq_new_job new_job(const char *composition, const char *key)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.composition_id = composition;
    job.payload_json = "{\"new\":1}";
    job.dedup_key = key;
    job.priority = 9;
    return job;
}

static renderq_status do_open(world *w)
{
    renderq_options options = RENDERQ_INIT(renderq_options);
    options.worker = "me";
    options.password = "secret";
    return renderq_open(URL, &options, &w->h);
}

static renderq_status do_create(world *w)
{
    return renderq_create(w->h, NULL);
}

static renderq_status do_create_quoted(world *w)
{
    return renderq_create(w->h, "[another \"queue\"]");
}

static renderq_status do_enqueue(world *w)
{
    renderq_new_job job = new_job("new", "key-new");
    return renderq_enqueue(w->h, &job, &w->id);
}

static renderq_status do_enqueue_duplicate(world *w)
{
    renderq_new_job job = new_job("new", "key-b");
    renderq_status status = renderq_enqueue(w->h, &job, &w->id);
    return status == RENDERQ_DUPLICATE ? RENDERQ_OK : status;
}

static renderq_status do_enqueue_many(world *w)
{
    renderq_new_job jobs[2] = { new_job("new", NULL), new_job("new", "key-b") };
    renderq_status status = renderq_enqueue_many(w->h, jobs, 2, w->each);
    for (size_t i = 0; i < 2 && status == RENDERQ_NOMEM; i++)
        assert_int_equal(w->each[i].status, RENDERQ_NOMEM);
    return status;
}

/* All of it or none: what fails inside is rolled back. */
static renderq_status do_transaction(world *w)
{
    renderq_new_job job = new_job("new", "key-new");
    renderq_status status = renderq_begin(w->h);
    if (status == RENDERQ_OK)
        status = renderq_enqueue(w->h, &job, &w->id);
    if (status == RENDERQ_OK)
        return renderq_commit(w->h);
    renderq_rollback(w->h);
    return status == RENDERQ_ABORTED ? RENDERQ_NOMEM : status;      /* the engine rolled back by itself */
}

static renderq_status do_attached(world *w)
{
    renderq_new_job job = new_job("new", "key-new");
    renderq_status status = renderq_attach("sqlite", w->db, NULL, &w->h);
    return status == RENDERQ_OK ? renderq_enqueue(w->h, &job, &w->id) : status;
}

static renderq_status do_attached_transaction(world *w)
{
    renderq_status status = renderq_attach("sqlite", w->db, NULL, &w->h);
    return status == RENDERQ_OK ? do_transaction(w) : status;
}

static renderq_status do_receive(world *w)
{
    renderq_status status = renderq_receive(w->h, NULL, &w->out[0]);
    if (status != RENDERQ_OK)
        return status;
    status = renderq_complete(w->h, w->out[0], "out");
    if (status == RENDERQ_OK)
        return renderq_commit(w->h);
    renderq_rollback(w->h);
    renderq_release(w->h, w->out[0], 0);
    renderq_job_free(w->out[0]);
    w->out[0] = NULL;
    return status == RENDERQ_ABORTED ? RENDERQ_NOMEM : status;
}

static void say(const world *w, const char *sql)
{
    fault.paused = true;
    db_exec(w->db, sql);
    fault.paused = false;
}

/* The caller commits, whatever became of the call: what was not handed out must not be done. */
static renderq_status do_receive_attached(world *w)
{
    say(w, "BEGIN IMMEDIATE");
    renderq_status status = renderq_attach("sqlite", w->db, NULL, &w->h);
    if (status == RENDERQ_OK)
        status = renderq_receive(w->h, NULL, &w->out[0]);
    if (!sqlite3_get_autocommit(w->db))
        say(w, "COMMIT");
    return status == RENDERQ_ABORTED ? RENDERQ_NOMEM : status;
}

static renderq_status do_claim(world *w)
{
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    options.worker = "claimer";
    return renderq_claim(w->h, &options, &w->out[0]);
}

static renderq_status do_claim_many(world *w)
{
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    options.worker = "claimer";
    options.unstarted = 1;
    renderq_status status = renderq_claim_many(w->h, &options, w->out, count_of(w->out), &w->n);
    assert_int_equal(w->n, status == RENDERQ_OK ? PENDING : 0);
    return status;
}

static renderq_status expect_each(const world *w, renderq_status status)
{
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(w->statuses[i], status);
    return status;
}

static renderq_status do_start(world *w)
{
    return expect_each(w, renderq_start_many(w->h, w->jobs, 2, NULL, 60, w->statuses));
}

static renderq_status do_hand_out(world *w)
{
    const renderq_id before = w->jobs[1]->lease;
    renderq_status status = renderq_start_many(w->h, w->jobs, 2, "taker", 60, w->statuses);
    assert_string_equal(w->jobs[1]->worker, status == RENDERQ_OK ? "taker" : "me");
    assert_int_equal(strcmp(before.text, w->jobs[1]->lease.text) == 0, status != RENDERQ_OK);
    assert_int_equal(w->jobs[1]->started_at_ms != 0, status == RENDERQ_OK);
    return expect_each(w, status);
}

static renderq_status do_hand_out_each(world *w)
{
    renderq_handout handouts[] = { RENDERQ_INIT(renderq_handout), RENDERQ_INIT(renderq_handout) };
    for (size_t i = 0; i < 2; i++) {
        handouts[i].job = w->jobs[i];
        handouts[i].worker = "taker";
    }
    renderq_status status = renderq_hand_out(w->h, handouts, 2, 60);
    assert_string_equal(w->jobs[1]->worker, status == RENDERQ_OK ? "taker" : "me");
    assert_int_equal(handouts[1].status, status);
    return status;
}

static renderq_status do_renew(world *w)
{
    return renderq_renew(w->h, w->jobs[0], "half");
}

static renderq_status do_renew_many(world *w)
{
    return expect_each(w, renderq_renew_many(w->h, w->jobs, 2, w->statuses));
}

static renderq_status do_complete(world *w)
{
    return renderq_complete(w->h, w->jobs[0], "out");
}

static renderq_status do_complete_many(world *w)
{
    for (size_t i = 0; i < 2; i++) {
        w->results[i] = (renderq_result)RENDERQ_INIT(renderq_result);
        w->results[i].job = w->jobs[i];
    }
    renderq_status status = renderq_complete_many(w->h, w->results, 2);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(w->results[i].status, status);
    return status;
}

static renderq_status do_fail(world *w)
{
    return renderq_fail(w->h, w->jobs[0], "out of luck", RENDERQ_BACKOFF);
}

static renderq_status do_release(world *w)
{
    return renderq_release(w->h, w->jobs[0], 1000);
}

static renderq_status do_resume(world *w)
{
    const renderq_id id = id_of(STARTED), lease = id_of(0);
    return renderq_job_resume(w->h, NULL, &id, &lease, &w->out[0]);
}

static renderq_status do_get(world *w)
{
    const renderq_id id = id_of(QUEUED_HIGH);
    return renderq_get(w->h, NULL, &id, &w->out[0]);
}

static int count_job(void *arg, const renderq_job *job)
{
    assert_non_null(job->composition_id);
    ++*(int *)arg;
    return 0;
}

static renderq_status do_list(world *w)
{
    w->seen = 0;
    renderq_status status = renderq_list(w->h, NULL, count_job, &w->seen);
    assert_int_equal(w->seen, status == RENDERQ_OK ? 11 : 0);
    return status;
}

static renderq_status do_cancel(world *w)
{
    const renderq_id id = id_of(QUEUED);
    return renderq_cancel(w->h, NULL, &id);
}

static renderq_status do_retry(world *w)
{
    const renderq_id id = id_of(DEAD);
    return renderq_retry(w->h, NULL, &id, &w->id);
}

static renderq_status do_retry_dead(world *w)
{
    static const char dead[] = "SELECT count(*) FROM VideoRenderJobs WHERE Status = 'DeadLetter'";
    renderq_retried counts = RENDERQ_INIT(renderq_retried);
    int64_t before = look(w, dead);
    renderq_status status = renderq_retry_dead(w->h, NULL, &counts);
    assert_int_equal(counts.retried, before - look(w, dead));   /* pages are whole: what was counted is done */
    return status;
}

static renderq_status do_settle(world *w)
{
    const renderq_id id = id_of(STARTED);
    return renderq_settle(w->h, NULL, &id, "out", 0);
}

static renderq_status do_reap(world *w)
{
    renderq_reaped counts = RENDERQ_INIT(renderq_reaped);
    renderq_status status = renderq_reap(w->h, NULL, &counts);
    assert_int_equal(counts.returned, status == RENDERQ_OK);
    return status;
}

static renderq_status do_purge(world *w)
{
    int64_t before = look(w, "SELECT count(*) FROM VideoRenderJobs");
    w->number = -1;
    renderq_status status = renderq_purge(w->h, NULL, 60, &w->number);
    /* batches are whole: what was counted is gone */
    assert_int_equal(w->number, before - look(w, "SELECT count(*) FROM VideoRenderJobs"));
    return status;
}

static renderq_status do_stats(world *w)
{
    w->counts = (renderq_counts)RENDERQ_INIT(renderq_counts);
    renderq_status status = renderq_stats(w->h, NULL, &w->counts);
    assert_int_equal(w->counts.processing, status == RENDERQ_OK ? 5 : 0);
    return status;
}

#define ROW(n, condition) \
    "SELECT count(*) = 1 FROM VideoRenderJobs WHERE JobId = " ID(n) " AND " condition
#define UNCHANGED "SELECT 1"

/* A table of the programs that were there before. */
#define OLD_TABLE                                                                                                \
    "DROP VIEW VideoRenderJobs_View; DROP TABLE VideoRenderJobs; CREATE TABLE VideoRenderJobs ("                  \
    " JobId BLOB NOT NULL PRIMARY KEY, CompositionId TEXT NOT NULL, PayloadJson TEXT NOT NULL,"                   \
    " Priority INTEGER NOT NULL DEFAULT 0, Status TEXT NOT NULL, WorkerNodeId TEXT, LockedAtUtc INTEGER,"         \
    " CreatedAtUtc INTEGER NOT NULL, CompletedAtUtc INTEGER, OutputUrl TEXT,"                                     \
    " RetryCount INTEGER NOT NULL DEFAULT 0, LastErrorMessage TEXT);"                                             \
    "INSERT INTO VideoRenderJobs (JobId, CompositionId, PayloadJson, Status, CreatedAtUtc) VALUES"                \
    " (" ID("01") ", 'old', '{}', 'Queued', 1)"

static const act acts[] = {
    { .name = "open", .call = do_open, .after = UNCHANGED, .opens = true },
    { .name = "create, again", .call = do_create, .after = UNCHANGED },
    { .name = "create, an older table", .call = do_create, .also = OLD_TABLE,
      .after = "SELECT count(*) = 21 FROM pragma_table_info('VideoRenderJobs')" },
    { .name = "create, a new table", .call = do_create_quoted,
      .also = "DROP VIEW IF EXISTS \"another \"\"queue\"\"_View\";"
              "DROP TABLE IF EXISTS \"another \"\"queue\"\"\"",
      .after = "SELECT count(*) = 0 FROM \"another \"\"queue\"\"\"" },
    { .name = "enqueue", .call = do_enqueue,
      .after = "SELECT count(*) = 1 FROM VideoRenderJobs WHERE CompositionId = 'new'" },
    { .name = "enqueue, a duplicate", .call = do_enqueue_duplicate, .after = UNCHANGED },
    { .name = "enqueue_many", .call = do_enqueue_many,
      .after = "SELECT count(*) = 1 FROM VideoRenderJobs WHERE CompositionId = 'new'" },
    { .name = "begin, enqueue, commit", .call = do_transaction,
      .after = "SELECT count(*) = 1 FROM VideoRenderJobs WHERE CompositionId = 'new'" },
    { .name = "attach, enqueue", .call = do_attached, .opens = true,
      .after = "SELECT count(*) = 1 FROM VideoRenderJobs WHERE CompositionId = 'new'" },
    { .name = "attach, begin, enqueue, commit", .call = do_attached_transaction, .opens = true,
      .after = "SELECT count(*) = 1 FROM VideoRenderJobs WHERE CompositionId = 'new'" },
    /* a job that there is no memory to give back keeps its lease */
    { .name = "receive, commit", .call = do_receive, .may_be_half = true,
      .between = ROW("01", "RetryCount = 0 AND Status IN ('Queued', 'Processing')"),
      .after = "SELECT count(*) = 1 FROM VideoRenderJobs WHERE Status = 'Completed' AND OutputUrl = 'out'" },
    { .name = "attach, receive", .call = do_receive_attached, .opens = true, .may_be_half = true,
      .between = ROW("01", "RetryCount = 0 AND Status IN ('Queued', 'Processing')"),
      .after = "SELECT count(*) = 2 FROM VideoRenderJobs WHERE Status = 'Completed'" },
    { .name = "claim", .call = do_claim,
      .after = ROW("01", "Status = 'Processing' AND WorkerNodeId = 'claimer'") },
    { .name = "claim_many", .call = do_claim_many,
      .after = "SELECT count(*) = 2 FROM VideoRenderJobs WHERE WorkerNodeId = 'claimer'"
               " AND StartedAtUtc IS NULL" },
    /* the run-out lease is sent back first; without memory for that there is nothing to claim */
    { .name = "claim, after reaping", .call = do_claim,
      .also = "DELETE FROM VideoRenderJobs WHERE Status = 'Queued'",
      .after = ROW("0B", "Status = 'Processing' AND WorkerNodeId = 'claimer'"), .may_be_half = true,
      .between = ROW("0B", "(Status = 'Queued' OR WorkerNodeId = 'gone')"), .else_ok = RENDERQ_EMPTY },
    { .name = "claim, nothing there", .call = do_claim,
      .also = "DELETE FROM VideoRenderJobs WHERE Status = 'Queued' OR WorkerNodeId = 'gone'",
      .after = UNCHANGED, .else_ok = RENDERQ_EMPTY },
    { .name = "start_many", .call = do_start, .leased = UNSTARTED, .after = ROW("0A", "StartedAtUtc > 0") },
    { .name = "start_many, handed out", .call = do_hand_out, .leased = UNSTARTED,
      .after = ROW("0A", "StartedAtUtc > 0 AND WorkerNodeId = 'taker' AND LeaseToken <> " ID("00") "") },
    { .name = "hand_out", .call = do_hand_out_each, .leased = UNSTARTED,
      .after = ROW("0A", "StartedAtUtc > 0 AND WorkerNodeId = 'taker' AND LeaseToken <> " ID("00") "") },
    { .name = "renew", .call = do_renew, .leased = STARTED, .after = ROW("07", "Progress = 'half'") },
    { .name = "renew_many", .call = do_renew_many, .leased = STARTED,
      .after = ROW("08", "LockedAtUtc < 5000000000000") },
    { .name = "complete", .call = do_complete, .leased = STARTED, .after = ROW("07", "Status = 'Completed'") },
    { .name = "complete_many", .call = do_complete_many, .leased = STARTED,
      .after = ROW("08", "Status = 'Completed'") },
    { .name = "fail", .call = do_fail, .leased = STARTED,
      .after = ROW("07", "Status = 'Scheduled' AND RetryCount = 1") },
    { .name = "release", .call = do_release, .leased = STARTED,
      .after = ROW("07", "Status = 'Scheduled' AND RetryCount = 0") },
    { .name = "job_resume", .call = do_resume, .after = UNCHANGED },
    { .name = "get", .call = do_get, .after = UNCHANGED },
    { .name = "list", .call = do_list, .after = UNCHANGED },
    { .name = "cancel", .call = do_cancel, .after = ROW("02", "Status = 'Cancelled'") },
    { .name = "retry", .call = do_retry, .after = ROW("04", "Status = 'Queued' AND RetryCount = 0") },
    { .name = "retry_dead", .call = do_retry_dead, .after = ROW("04", "Status = 'Queued'"), .may_be_half = true,
      .between = ROW("04", "Status IN ('DeadLetter', 'Queued')") },
    { .name = "settle", .call = do_settle, .after = ROW("07", "Status = 'Completed' AND OutputUrl = 'out'") },
    { .name = "reap", .call = do_reap, .after = ROW("0B", "Status = 'Queued'") },
    { .name = "purge", .call = do_purge, .may_be_half = true, .between = UNCHANGED,
      .after = "SELECT count(*) = 9 FROM VideoRenderJobs" },
    { .name = "stats", .call = do_stats, .after = UNCHANGED },
};

/* ---- one call, one failure ---- */

static void lease_jobs(world *w, int first)
{
    for (int i = 0; i < 2 && first; i++) {
        const renderq_id id = id_of(first + i), lease = id_of(0);
        assert_status(w->h, renderq_job_resume(w->h, NULL, &id, &lease, &w->jobs[i]), RENDERQ_OK);
    }
}

static void let_go(world *w)
{
    for (size_t i = 0; i < count_of(w->jobs); i++) {
        renderq_job_free(w->jobs[i]);
        w->jobs[i] = NULL;
    }
    for (size_t i = 0; i < count_of(w->out); i++) {
        renderq_job_free(w->out[i]);
        w->out[i] = NULL;
    }
    renderq_close(w->h);
    w->h = NULL;
}

static void arrange(world *w, const act *a)
{
    db_exec(w->db, "BEGIN IMMEDIATE");
    db_exec(w->db, "DELETE FROM VideoRenderJobs; INSERT INTO VideoRenderJobs (" COLUMNS ") SELECT * FROM rows");
    if (a->also)
        db_exec(w->db, a->also);
    db_exec(w->db, "COMMIT");
    *w = (world){ .db = w->db };
    for (size_t i = 0; i < 2; i++) {
        w->each[i] = (renderq_enqueued)RENDERQ_INIT(renderq_enqueued);
        w->each[i].status = w->statuses[i] = RENDERQ_FAILED;
    }
    w->n = 7;
    if (a->opens)
        return;
    assert_status(w->h, renderq_open(URL, NULL, &w->h), RENDERQ_OK);
    lease_jobs(w, a->leased);
}

/* Nobody holds a lock any more, and the handle has no transaction open. */
static void nothing_is_held(const world *w)
{
    sqlite3 *db = w->h && w->h->conn ? w->h->driver->native(w->h->conn) : NULL;
    if (db) {
        assert_true(sqlite3_get_autocommit(db));
        for (sqlite3_stmt *stmt = sqlite3_next_stmt(db, NULL); stmt; stmt = sqlite3_next_stmt(db, stmt))
            assert_false(sqlite3_stmt_busy(stmt));
    }
    sqlite3_busy_timeout(w->db, 0);
    db_exec(w->db, "BEGIN IMMEDIATE; ROLLBACK");
    sqlite3_busy_timeout(w->db, 5000);
}

static void after_a_failure(world *w, const act *a, renderq_status status, uint64_t before)
{
    assert_status(w->h, status, RENDERQ_NOMEM);
    assert_says(w->h, "out of memory");
    for (size_t i = 0; i < count_of(w->out); i++)
        assert_null(w->out[i]);
    nothing_is_held(w);
    if (a->may_be_half)
        assert_int_equal(db_int(w->db, a->between), 1);
    else
        assert_true(digest(w->db) == before);
    if (a->opens) {
        renderq_close(w->h);
        w->h = NULL;
    }
}

/* Makes the call with its n-th allocation of a kind failing. False: it has fewer. */
static bool try_once(world *w, const act *a, int kind, long n, bool keep)
{
    arrange(w, a);
    uint64_t before = digest(w->db);
    arm(kind, n, keep);
    renderq_status status = a->call(w);
    bool failed = disarm();
    if (status == RENDERQ_NOMEM || a->else_ok == RENDERQ_OK || status != a->else_ok) {
        if (status != RENDERQ_OK) {
            after_a_failure(w, a, status, before);
            assert_true(failed);
            status = a->call(w);            /* with memory again */
        }
        if (status != a->else_ok)
            assert_status(w->h, status, RENDERQ_OK);
    }
    if (status == RENDERQ_OK)
        assert_int_equal(db_int(w->db, a->after), 1);
    nothing_is_held(w);
    let_go(w);
    return failed;
}

/* The asserts of a failing try jump out of it: these tell the teardown where it was. */
static struct {
    const act *a;
    int kind;
    long n;
    bool keep;
} at;

static int set_up(void **state)
{
    world *w = *state = __real_calloc(1, sizeof *w);
    renderq_close(make_queue(URL));
    w->db = db_open("nomem.db");
    db_exec(w->db, "PRAGMA synchronous = OFF");
    db_exec(w->db, rows);
    db_exec(w->db, "CREATE TEMP TABLE rows AS SELECT " COLUMNS " FROM VideoRenderJobs");
    return 0;
}

static int tear_down(void **state)
{
    world *w = *state;
    disarm();
    if (at.a)
        print_error("%s: allocation %ld of %s%s failed\n", at.a->name, at.n, at.kind == OURS ? "ours" : "SQLite's",
                    at.keep ? " and all after it" : "");
    at.a = NULL;
    let_go(w);
    sqlite3_close(w->db);
    __real_free(w);
    unlink("nomem.db");
    return 0;
}

static void expect_nothing_kept(const long *held)
{
    if (fault.held[OURS] != held[OURS] || fault.held[ENGINES] > held[ENGINES])
        print_error("%ld blocks of ours and %ld of SQLite's are kept\n", fault.held[OURS] - held[OURS],
                    fault.held[ENGINES] - held[ENGINES]);
    assert_int_equal(fault.held[OURS], held[OURS]);
    assert_true(fault.held[ENGINES] <= held[ENGINES]);      /* it may let go of what it had kept */
}

/* How many of a call's allocations fail in turn. Valgrind is slow, and few are enough for what it alone sees. */
static long tries_of(int kind, bool keep)
{
    const char *wanted = getenv("RENDERQ_TEST_NOMEM");
    if (wanted && strcmp(wanted, "all") == 0)
        return 1000000;
    if (under_valgrind())
        return 6;
    return kind == OURS ? 1000 : keep ? 10 : 25;
}

static void run_out_in_each_call(world *w, bool keep)
{
    for (size_t i = 0; i < count_of(acts); i++) {
        at.a = &acts[i];
        at.keep = keep;
        /* once without a failure, to count, and for SQLite to keep what it keeps */
        assert_false(try_once(w, &acts[i], OURS, 1000000, keep));
        const long made[KINDS] = { fault.counted[OURS], fault.counted[ENGINES] };
        const long held[KINDS] = { fault.held[OURS], fault.held[ENGINES] };
        assert_true(made[OURS] > 0 && made[ENGINES] > 0);
        for (at.kind = OURS; at.kind < KINDS; at.kind++) {
            long step = 1 + made[at.kind] / tries_of(at.kind, keep);
            for (at.n = 1; at.n <= made[at.kind]; at.n += step) {
                try_once(w, &acts[i], at.kind, at.n, keep);
                expect_nothing_kept(held);
            }
            /* beyond its last allocation nothing fails; a free list of SQLite's may have spared it a few */
            assert_false(try_once(w, &acts[i], at.kind, made[at.kind] + 100, keep));
        }
        at.a = NULL;
    }
}

static void one_allocation_fails(void **state)
{
    const long hits[KINDS] = { fault.hits[OURS], fault.hits[ENGINES] };
    run_out_in_each_call(*state, false);
    long ours = fault.hits[OURS] - hits[OURS], engines = fault.hits[ENGINES] - hits[ENGINES];
    print_message("%ld allocations of ours failed, %ld of SQLite's\n", ours, engines);
    assert_true(ours >= (tries_of(OURS, false) < 1000 ? 100 : 200));
    assert_true(engines >= (tries_of(ENGINES, false) < 25 ? 100 : 600));
}

static void all_allocations_fail_from_one_on(void **state)
{
    run_out_in_each_call(*state, true);
}

/* ---- files that are not there yet ---- */

static bool create_first(int kind, long n, bool keep)
{
    renderq *h = NULL;
    unlink("first.db");
    assert_status(h, renderq_open("sqlite:first.db?synchronous=normal", NULL, &h), RENDERQ_OK);
    arm(kind, n, keep);
    renderq_status status = renderq_create(h, NULL);
    bool failed = disarm();
    if (status != RENDERQ_OK) {
        assert_status(h, status, RENDERQ_NOMEM);
        assert_says(h, "out of memory");
        assert_status(h, put_job(h, NULL, "intro", NULL), RENDERQ_SCHEMA);
        assert_status(h, renderq_create(h, NULL), RENDERQ_OK);
    }
    assert_status(h, put_job(h, NULL, "intro", NULL), RENDERQ_OK);
    renderq_close(h);
    assert_int_equal(file_int("first.db", "SELECT count(*) FROM VideoRenderJobs"), 1);
    return failed;
}

/* The first create makes the file: whatever is left of a failed one, the next makes it a queue. */
static void the_first_create(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        assert_false(create_first(OURS, 1000000, false));
        const long made[KINDS] = { fault.counted[OURS], fault.counted[ENGINES] };
        for (int kind = OURS; kind < KINDS; kind++)
            for (long n = 1; n <= made[kind]; n += 1 + made[kind] / tries_of(kind, keep != 0))
                create_first(kind, n, keep != 0);
    }
}

/* A handle without memory for itself is none; its text can be had all the same. */
static void no_memory_for_the_handle(void **state)
{
    (void)state;
    renderq *h = (renderq *)&fault;
    arm(OURS, 1, false);
    assert_int_equal(renderq_open(URL, NULL, &h), RENDERQ_NOMEM);
    disarm();
    assert_null(h);
    assert_string_equal(renderq_errmsg(h), "out of memory");
    assert_int_equal(renderq_native_error(h), 0);
    renderq_close(h);
}

/* Freeing needs no memory. */
static void closing_never_fails(void **state)
{
    world *w = *state;
    static const act claims = { .name = "close" };
    arrange(w, &claims);
    assert_status(w->h, do_claim_many(w), RENDERQ_OK);
    arm(OURS, 1, true);
    fault.failed = true;
    let_go(w);
    disarm();
    nothing_is_held(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_allocation_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_allocations_fail_from_one_on, set_up, tear_down),
        cmocka_unit_test(the_first_create),
        cmocka_unit_test(no_memory_for_the_handle),
        cmocka_unit_test_setup_teardown(closing_never_fails, set_up, tear_down),
    };
    return hook_the_engine() != 0 ? 1 : cmocka_run_group_tests(tests, scratch_enter, scratch_leave);
}
