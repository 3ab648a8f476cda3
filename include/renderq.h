/* renderq.h: job queues in a database table, for C programs.
 *
 * A queue is a table. A job is a row of it, and its life is
 *
 *               enqueue                    claim                 complete
 *   (delay) Scheduled --due--> Queued ----------> Processing ------------> Completed
 *               ^               ^  ^                |  |  |
 *               |   fail with   |  '---- release ---'  |  '-- fail / lease run out,
 *               '---- delay ----+--- fail / lease -----'      retries used up --> DeadLetter
 *                               |        run out                                     |
 *                               '-------- retry (also Cancelled; Completed by id) ---'
 *   cancel: Scheduled | Queued | Processing -> Cancelled
 *
 * A claim gives the job to one worker under a lease: a token that only this claim knows, and a time that
 * the worker prolongs with renderq_renew(). Every later call on the job checks the token, so a worker that
 * slept past its lease is told RENDERQ_LOST and can never finish, fail or renew what is somebody else's by
 * now. A lease that runs out gives the job to the next worker, and counts as a failure of the job.
 *
 * Conventions
 *   Threads    A handle (renderq *) is used by one thread at a time; handles share nothing, so a thread each
 *              is the way. Only renderq_interrupt() may come from another thread or a signal handler. After
 *              fork() the child opens its own: on the parent's handle every call there is RENDERQ_INVALID.
 *   Errors     Every call that can fail returns a renderq_status; renderq_errmsg() then has one line for a
 *              person. A call that did not return RENDERQ_OK changed nothing, unless its own text says
 *              otherwise. Any call may return, besides what its comment lists, the statuses marked [any].
 *   Repeats    A link that breaks is opened again, and a call whose reply was lost finds out what became of
 *              it, for up to renderq_options.retry_s; then it answers RENDERQ_UNCERTAIN, or
 *              RENDERQ_DISCONNECTED when nothing can have happened. Calling again is always safe where the
 *              comment does not say otherwise.
 *   Strings    UTF-8, ended by a NUL, never changed, never cut. Lengths are counted in UTF-16 units, as
 *              nvarchar(n) counts them: an emoji is two. NULL and "" are two things.
 *   Time       Durations go in, in the unit that the name ends in; times come out as milliseconds of UTC
 *              since 1970 by the database's clock, 0 for none.
 *   Ownership  What the caller passes stays the caller's, and is not needed after the call. What the library
 *              hands out through a pointer to a pointer is the caller's to free with the call named there.
 *   Structs    A struct that begins with `size` is made by the caller: start from RENDERQ_INIT(type). It is
 *              all zero by default and only grows with new versions, so program and library may be of
 *              different age. Arrays of such structs step by the size of their first item.
 *   Globals    None: no initialisation, no threads but those of renderq_worker_run(), no signal handlers, nothing
 *              printed, no exit().
 */
#ifndef RENDERQ_H
#define RENDERQ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RENDERQ_VERSION "0.1.0"

/* ---- status and state ------------------------------------------------------------------------------- */

typedef enum renderq_status {
    RENDERQ_OK = 0,            /* done */
    RENDERQ_EMPTY = 1,         /* nothing there: no job is ready, or no job has this id */
    RENDERQ_LOST = 2,          /* the job is not yours (any more), or in a state that forbids the call; this ask
                                  changed nothing. After a lost reply an earlier one of the same call may have. */
    RENDERQ_DUPLICATE = 3,     /* a live job holds this dedup key; its id is handed back */
    RENDERQ_BUSY = 4,          /* [any] another connection held a lock for too long; nothing done, try again */
    RENDERQ_ABORTED = 5,       /* [any, in a transaction] the transaction is gone, and all of it with it: roll back */
    RENDERQ_UNCERTAIN = 6,     /* [any] the reply was lost and the server could not be asked: may have happened */
    RENDERQ_DISCONNECTED = 7,  /* [any] no connection; nothing was sent */
    RENDERQ_DENIED = 8,        /* [any] login refused, permission missing, file or folder read-only */
    RENDERQ_SCHEMA = 9,        /* [any] the queue's table is missing or too old: renderq_create() */
    RENDERQ_INVALID = 10,      /* [any] an argument or the order of calls is wrong; nothing was sent */
    RENDERQ_NOMEM = 11,        /* [any] out of memory; nothing done */
    RENDERQ_INTERRUPTED = 12,  /* [any] renderq_interrupt() ended the call; nothing done */
    RENDERQ_FAILED = 13        /* [any] the engine refused or broke (disk full, file corrupt, ...): see the text */
} renderq_status;

/* The value of a row's Status column. RENDERQ_OTHER is one that only some other program knows. */
typedef enum renderq_state {
    RENDERQ_SCHEDULED = 1,
    RENDERQ_QUEUED = 2,
    RENDERQ_PROCESSING = 3,
    RENDERQ_COMPLETED = 4,
    RENDERQ_DEAD_LETTER = 5,
    RENDERQ_CANCELLED = 6,
    RENDERQ_OTHER = 7
} renderq_state;

/* The library's version, as "MAJOR.MINOR.PATCH"; compare with RENDERQ_VERSION, the header's. */
const char *renderq_version(void);

/* "OK", "LOST", ...: a status as one word. Never NULL. */
const char *renderq_strstatus(renderq_status status);

/* "Queued", "DeadLetter", ...: a state as the Status column spells it; "Other" for the rest. Never NULL. */
const char *renderq_strstate(renderq_state state);

/* ---- limits, sentinels, structs --------------------------------------------------------------------- */

/* Longest texts, in UTF-16 units. A table made by another program may hold less; its engine then refuses. */
#define RENDERQ_COMPOSITION_MAX 200
#define RENDERQ_WORKER_MAX      128
#define RENDERQ_OUTPUT_URL_MAX  2048
#define RENDERQ_DEDUP_KEY_MAX   200
#define RENDERQ_PROGRESS_MAX    200
#define RENDERQ_ERROR_MAX       8000        /* longer error messages are shortened, with a mark at the end */
#define RENDERQ_QUEUE_PART_MAX  128

#define RENDERQ_CLAIM_MAX       100         /* jobs in one claim */
#define RENDERQ_MANY_MAX        1000        /* jobs in one start_many, renew_many, complete_many */
#define RENDERQ_ENQUEUE_MAX     10000       /* jobs in one enqueue_many */

#define RENDERQ_LEASE_DEFAULT_S 600
#define RENDERQ_LEASE_MAX_S     2592000     /* 30 days */
#define RENDERQ_DELAY_MAX_MS    INT64_C(315360000000)   /* 3,650 days */

#define RENDERQ_BACKOFF         (-1)        /* fail: wait 2^failures seconds, at most an hour, plus up to a quarter */
#define RENDERQ_NEVER           (-2)        /* fail: no retry, straight to DeadLetter */
#define RENDERQ_FOREVER         (-1)        /* claim: wait until there is a job */
#define RENDERQ_CAUTIOUS        2           /* claim: see unstarted */
#define RENDERQ_RETRIES_DEFAULT 3
#define RENDERQ_NO_RETRY        (-1)        /* max_retries: the first failure is the last */

/* renderq_new_job job = RENDERQ_INIT(renderq_new_job);  -- size set, everything else zero */
#ifndef __cplusplus
#define RENDERQ_INIT(type) { .size = sizeof(type) }
#else
#define RENDERQ_INIT(type) renderq_init<type>()
#endif

typedef struct renderq renderq;             /* a handle: one connection */

/* A GUID as SQL Server prints it: 8-4-4-4-12 hexadecimal digits, upper case. Input may be lower case. */
typedef struct renderq_id {
    char text[37];
} renderq_id;

typedef enum renderq_log_level {
    RENDERQ_LOG_ERROR = 1,
    RENDERQ_LOG_WARNING = 2,
    RENDERQ_LOG_INFO = 3,
    RENDERQ_LOG_DEBUG = 4
} renderq_log_level;

typedef struct renderq_options {            /* NULL or zero: the defaults */
    size_t size;
    const char *worker;                     /* WorkerNodeId of claims; NULL: "host:pid" */
    const char *password;                   /* instead of one in the URL; never logged, never in an error text */
    int connect_s;                          /* 10: longest wait for a connection; SQLite has none */
    int command_s;                          /* 30: longest wait for one statement, its locks included; then SQL Server
                                               is told to stop. SQLite: for another writer's lock */
    int retry_s;                            /* 30, at most 45, for each request of a call: how long a lost link, on SQL
                                               Server a deadlock or a lock too, is tried again; -1: not at all */
    void (*log)(renderq_log_level level, const char *line, void *arg);  /* called by the thread in the call;
                                               `line` lives for the call and has no newline */
    void *log_arg;
    const char *queue;                      /* the default queue instead of the URL's */
    int in_transaction;                     /* renderq_attach() alone. 1: every call must find the caller's transaction
                                               open, and always the same one; else it does nothing: ABORTED */
} renderq_options;

typedef struct renderq_new_job {
    size_t size;
    const char *queue;                      /* NULL: the URL's */
    const char *composition_id;             /* required, not empty: what is to be done */
    const char *payload_json;               /* required, not empty: handed to the worker as it is; not parsed */
    size_t payload_len;                     /* bytes; 0: strlen(payload_json) */
    const char *output_url;                 /* where the result is expected, or NULL */
    const char *dedup_key;                  /* or NULL; at most one Scheduled, Queued or Processing job holds a key.
                                               Not empty and with no blank at its end, as workers' names are */
    int priority;                           /* higher first */
    int max_retries;                        /* 0: 3. With 3 the fourth failure is the last. RENDERQ_NO_RETRY: none */
    int64_t delay_ms;                       /* not before that long from now; 0: at once */
} renderq_new_job;

typedef struct renderq_enqueued {           /* what became of one item of renderq_enqueue_many() */
    size_t size;
    renderq_status status;
    renderq_id id;                          /* of the new job, or with RENDERQ_DUPLICATE of the one that is there */
} renderq_enqueued;

/* A job as the library hands it out. Read-only; renderq_job_free() frees it with all its strings.
 * It outlives the handle it came from. */
typedef struct renderq_job {
    renderq_id id;
    renderq_id lease;                       /* the claim's token; with id it brings the job back after a restart
                                               (renderq_job_resume). "" unless it was claimed or resumed here. */
    const char *queue;                      /* as the caller named it */
    const char *composition_id;
    const char *payload_json;               /* NULL in renderq_list() */
    size_t payload_len;                     /* bytes */
    const char *output_url, *dedup_key, *worker, *last_error, *progress;   /* each may be NULL */
    renderq_state state;
    int priority;
    int retry_count;                        /* failures so far: 0 at the first attempt */
    int max_retries;                        /* RENDERQ_NO_RETRY: none */
    int64_t created_at_ms, locked_at_ms, started_at_ms, due_at_ms, ended_at_ms;
    int64_t lease_left_ms;                  /* when the call returned; see renderq_lease_left_ms() */
} renderq_job;

/* ---- connect ---------------------------------------------------------------------------------------- */

/* Opens a connection to the database that holds the queue.
 *
 *   sqlite:PATH?queue=NAME              a file on a local disk; sqlite:jobs.db, sqlite:/var/lib/app/jobs.db
 *   sqlserver://USER:PASSWORD@HOST:PORT/DATABASE?queue=SCHEMA.NAME
 *                                       SQL Server 2016 or newer, or Azure SQL, through FreeTDS's CT-Library
 *
 * Percent-encoding holds throughout: write ? # and % inside a path as %3F %23 %25, and in a user or password
 * / : ? # @ % as %2F %3A %3F %23 %40 %25. Options:
 *   queue=NAME                          the default queue: VideoRenderJobs. [my name] in brackets may hold
 *                                       any character; two parts (schema.table) where the engine has schemas
 * Those of SQLite:
 *   synchronous=full|normal             full: a call that answered is there after a power loss; normal: after a
 *                                       crash of the program only, and faster
 *   busy_timeout_ms=N                   how long to wait for another writer; renderq_options.command_s else
 *   network_fs=allow                    open a file on NFS, SMB, 9p or FUSE, which is refused otherwise, since
 *                                       locks there are known to fail and the file to be lost
 * Those of SQL Server:
 *   lock_timeout_ms=N                   10000: how long a statement waits for a lock before it is BUSY; 0: not at
 *                                       all; at most 3600000
 *   packet_size=N                       4096: bytes of a TDS packet, up to 32767; the server may choose less
 *   deadlock_priority=N                 0: from -10 to 10; of two in a deadlock the lower one is ended
 *   app=NAME                            librenderq: the program's name in the server's lists
 *   encrypt=require                     refuse to connect (DENIED) unless the freetds.conf that FreeTDS is going
 *                                       to read has "encryption = require" for this server. FreeTDS then refuses
 *                                       what is not encrypted; it checks the certificate if "ca file" is there too
 *
 * SQLite: a file that is not there yet is made by renderq_create(), not by this. One that is deleted or replaced while
 * it is open is left by the next call: what has its path by then is opened, or there is none (SCHEMA). In a transaction
 * and on an attached connection calls are FAILED.
 *
 * SQL Server: the user is required, and is an SQL login. Without a database it is the login's own. Without :PORT, HOST
 * may be a section of freetds.conf, which has the host and port; otherwise the port is 1433. A queue without a schema
 * is looked for in the user's default schema, then in dbo. The database's compatibility level must be 130 or more
 * (SCHEMA). This call tries once, for connect_s. A statement that takes longer than command_s is stopped by the server,
 * which has 5 s for it; then the connection is dropped. A reply that keeps coming, be it a byte a second, is first read
 * to the end of its row. Later calls connect again and ask again, for retry_s from their beginning and one try more; a
 * statement that lasted for command_s has used up as much of it. A deadlock or a lock timeout is asked again at most
 * four times. FreeTDS obeys the environment (FREETDSCONF, TDSHOST, TDSDUMP, ...): see renderq(3).
 *
 * *out is set in any case but RENDERQ_NOMEM without a handle (then it is NULL): after a failure it serves
 * renderq_errmsg() and must still be closed.
 * Returns OK, or one marked [any]. */
renderq_status renderq_open(const char *url, const renderq_options *options, renderq **out);

/* Makes a handle on a connection that the caller opened, so that calls join the caller's own transaction, or run in one
 * of theirs where none is open. scheme is "sqlite" (connection: a sqlite3 *) or "sqlserver" (a CS_CONNECTION *, logged
 * in, with no command open on it). options: connect_s, password and retry_s mean nothing here; the queue is
 * options->queue, or VideoRenderJobs.
 *
 * The connection stays the caller's: it outlives the handle, is used by the handle alone while a call runs, and keeps
 * its callbacks, settings and busy handler. So waits for a lock are as long as the caller set them, on SQLite an
 * interrupt is heard in a wait for work alone, and nothing is repeated: a lost link is the caller's to open anew, with
 * another handle on it. SQL Server: the session must have QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS
 * and CONCAT_NULL_YIELDS_NULL on, NUMERIC_ROUNDABORT and IMPLICIT_TRANSACTIONS off (INVALID else), and the connection
 * CS_CLIENTCHARSET UTF-8; each call asks first whether a transaction is open, but for a handle with in_transaction,
 * which knows. Its transaction must be READ COMMITTED or weaker to receive in: READPAST is refused in others (INVALID).
 *
 * With in_transaction one handle serves one transaction: once the caller has ended it, renderq_rollback() makes the
 * handle ready for the next. SQLite knows transactions by nothing but their being open: of two in a row the second
 * is not told apart.
 * *out as renderq_open() has it. Returns OK, or one marked [any]. */
renderq_status renderq_attach(const char *scheme, void *connection, const renderq_options *options, renderq **out);

/* Closes the handle and frees it. Leased jobs keep their leases: complete, fail or release them first. An open
 * transaction of renderq_begin() or renderq_receive() is rolled back. NULL is fine. In a child after fork() it frees
 * memory alone and leaves the parent's connection untouched. */
void renderq_close(renderq *h);

/* One line about the last call on this handle that did not return RENDERQ_OK: what was wrong and what to do.
 * "" after none. Lives until the next call on the handle. With NULL: "out of memory". */
const char *renderq_errmsg(const renderq *h);

/* The engine's own number for that error (SQLite: the extended result code), 0 where the engine had no part. */
int renderq_native_error(const renderq *h);

/* The engine's own connection, for the caller's SQL in a transaction of renderq_begin() or renderq_receive(): a
 * sqlite3 * or a CS_CONNECTION *. Good until the next call on the handle, which it must meet with no command and no
 * statement open. Begin and end transactions by the calls below, never on it, and leave its settings as they are.
 * NULL when there is no connection just now (not in an open transaction), in a child after fork(), and of NULL. */
void *renderq_native(renderq *h);

/* Ends the call that is running on the handle, or if none is, the next claim, claim_many or receive on it:
 * it returns RENDERQ_INTERRUPTED and has changed nothing. One interrupt ends one call. A call whose answer has come
 * already gives that, and leaves the interrupt to the next. May be called from any thread and from a signal handler,
 * as long as the handle is open. NULL is fine. */
void renderq_interrupt(renderq *h);

/* Makes the queue's table, or adds what an older one lacks; rows and other tables are left alone. Running it
 * again is harmless. `queue` NULL: the URL's. A database administrator can run sql/<engine>/schema.sql instead.
 * Returns OK, SCHEMA (there is a table of this name that cannot become a queue), or one marked [any]. */
renderq_status renderq_create(renderq *h, const char *queue);

/* ---- produce ---------------------------------------------------------------------------------------- */

/* Puts a job into the queue. *id (may be NULL) receives its id, or with DUPLICATE the id of the job that holds
 * the dedup key. Returns OK, DUPLICATE, or one marked [any]; after UNCERTAIN, *id tells with renderq_get()
 * whether the job is there. */
renderq_status renderq_enqueue(renderq *h, const renderq_new_job *job, renderq_id *id);

/* Puts n jobs of one queue in, all or none, in one transaction; they are claimed in this order. `each` (may be
 * NULL) receives a status and an id an item; its first item's size must be set. When an item is INVALID
 * nothing is stored: it says INVALID, the others EMPTY, and the text names the first bad one by its index.
 * Returns OK (each item OK or DUPLICATE), or one marked [any]. n is at most RENDERQ_ENQUEUE_MAX. */
renderq_status renderq_enqueue_many(renderq *h, const renderq_new_job *jobs, size_t n, renderq_enqueued *each);

/* ---- consume under a lease -------------------------------------------------------------------------- */

typedef struct renderq_claim_options {      /* NULL or zero: the defaults */
    size_t size;
    const char *queue;                      /* NULL: the URL's */
    const char *worker;                     /* NULL: the handle's */
    int lease_s;                            /* 600 */
    int64_t wait_ms;                        /* how long to wait for a job; 0: answer EMPTY at once; RENDERQ_FOREVER */
    int unstarted;                          /* 1: claimed ahead of its turn. Until renderq_start_many() marks it, a
                                               lease that runs out does not count as a failure of the job.
                                               RENDERQ_CAUTIOUS: so only jobs that failed before, or may not fail;
                                               the others are started (started_at_ms tells) */
    int no_reap;                            /* 1: leave leases that have run out to somebody else */
} renderq_claim_options;

/* Takes the next job: highest priority first, then the oldest. *out is the job, to be freed with
 * renderq_job_free(), or NULL. While it waits it reads about every 100 ms, growing to 2 s. A claim
 * that finds nothing, and now and then one that does, also sends jobs back whose lease has run out.
 * Returns OK, EMPTY, or one marked [any]. A job claimed although the answer is UNCERTAIN comes back by
 * itself: the handle's next claims look for it, and otherwise its lease runs out. */
renderq_status renderq_claim(renderq *h, const renderq_claim_options *options, renderq_job **out);

/* The same for up to max (1 to RENDERQ_CLAIM_MAX) jobs, in the order they should be worked on, as soon as there
 * is one. out[0] to out[*n - 1] are to be freed one by one; the rest of `out` is set to NULL. */
renderq_status renderq_claim_many(renderq *h, const renderq_claim_options *options, renderq_job **out, size_t max,
                                  size_t *n);

/* Marks jobs that were claimed unstarted as started, just before their work begins; their leases begin anew,
 * with lease_s seconds (0: as claimed). With `worker`, hands them out to somebody else: the row gets this
 * worker's name and a fresh lease token a job, which the jobs then carry; the old token is void.
 * All jobs are of one queue. each (may be NULL) receives OK or LOST a job.
 * Returns OK (all), LOST (at least one; the others are started), or one marked [any]. After UNCERTAIN the jobs know the
 * tokens that their rows may have by now: start them again, for the same worker or another, or release them. */
renderq_status renderq_start_many(renderq *h, renderq_job **jobs, size_t n, const char *worker, int lease_s,
                                  renderq_status *each);

typedef struct renderq_handout {            /* one item of renderq_hand_out() */
    size_t size;
    renderq_job *job;
    const char *worker;                     /* who gets it; required */
    renderq_status status;                  /* out: OK or LOST */
} renderq_handout;

/* renderq_start_many() where each job goes to a worker of its own, in one request: what a service does that claims
 * ahead for others. On anything but OK and LOST the jobs carry what they carried; UNCERTAIN is as there.
 * Returns OK (all), LOST (at least one; the others are handed out), or one marked [any]. */
renderq_status renderq_hand_out(renderq *h, renderq_handout *handouts, size_t n, int lease_s);

/* Begins the lease anew from now; do it every third of the lease. progress (NULL: as before) is kept with the
 * row for people to see. Updates job->lease_left_ms and locked_at_ms.
 * Returns OK, LOST (stop working on it), or one marked [any]. */
renderq_status renderq_renew(renderq *h, renderq_job *job, const char *progress);

/* The same for n jobs of one queue in one request. each (may be NULL) receives OK or LOST a job.
 * Returns OK (all), LOST (at least one), or one marked [any]. */
renderq_status renderq_renew_many(renderq *h, renderq_job **jobs, size_t n, renderq_status *each);

/* Milliseconds until the lease runs out, counted on this machine's clock from before the request that began
 * it, so never too long; 0: it has run out, or the job came without one. Asks nobody, and needs no handle. */
int64_t renderq_lease_left_ms(const renderq_job *job);

/* The job is done. output_url NULL: the row keeps the one it has.
 * Returns OK, LOST, or one marked [any]; INVALID also for a job that was claimed unstarted and not started since. */
renderq_status renderq_complete(renderq *h, const renderq_job *job, const char *output_url);

typedef struct renderq_result {             /* one item of renderq_complete_many() */
    size_t size;
    const renderq_job *job;
    const char *output_url;                 /* or NULL */
    renderq_status status;                  /* out: OK or LOST */
} renderq_result;

/* The same for n jobs of one queue, in one transaction.
 * Returns OK (all), LOST (at least one; the others are completed), or one marked [any]. */
renderq_status renderq_complete_many(renderq *h, renderq_result *results, size_t n);

/* The attempt failed. The job waits for retry_ms (0: at once, RENDERQ_BACKOFF, or RENDERQ_NEVER) and is tried
 * again, unless its retries are used up: then it is a dead letter. error (may be NULL) is kept with the row;
 * it alone is made valid UTF-8 and shortened where it must be.
 * Returns OK, LOST, or one marked [any]; INVALID also for a job that was claimed unstarted and not started since. */
renderq_status renderq_fail(renderq *h, const renderq_job *job, const char *error, int64_t retry_ms);

/* Gives the job back, uncounted, as a clean stop does; it is ready again after delay_ms.
 * Returns OK, LOST, or one marked [any]. */
renderq_status renderq_release(renderq *h, const renderq_job *job, int64_t delay_ms);

/* Brings a claimed job back from its id and lease, in another process or after a restart. *out is to be freed
 * with renderq_job_free(). Returns OK, LOST (the lease is not that any more), or one marked [any]. */
renderq_status renderq_job_resume(renderq *h, const char *queue, const renderq_id *id, const renderq_id *lease,
                                  renderq_job **out);

/* Frees a job. The row and its lease stay as they are. NULL is fine. */
void renderq_job_free(renderq_job *job);

/* ---- transactions ----------------------------------------------------------------------------------- */
/* One transaction holds what must happen together: a message received, the caller's own tables changed on
 * renderq_native(), jobs put into the same database. All of it, or none; no distributed transaction is needed.
 *
 *     while (renderq_receive(h, &options, &job) == RENDERQ_OK) {
 *         if (handle(renderq_native(h), job) && renderq_enqueue(h, &follow_up, NULL) == RENDERQ_OK)
 *             status = renderq_commit(h);
 *         else if ((status = renderq_rollback(h)) == RENDERQ_OK)
 *             status = renderq_fail(h, job, "why", RENDERQ_BACKOFF);
 *         renderq_job_free(job);
 *     }
 *
 * In a transaction, enqueue, and start, renew, complete, fail, release, cancel, retry, settle of other jobs join it:
 * they count with its commit. A duplicate dedup key leaves it usable. claim, create, reap, purge and retry_dead have
 * transactions of their own, and are INVALID inside. Nothing is repeated inside, since only the caller can do all of it
 * again. A rollback leaves the caller's structs as the calls inside made them: a job that was started or renewed there
 * is taken up again by renderq_job_resume(), with the lease that it had before.
 *
 * Every call inside first makes sure that the transaction still stands. Where the server has rolled it back (a
 * statement of the caller's failed, a deadlock, a lost link), the call does nothing and answers ABORTED, until
 * renderq_rollback() or renderq_commit() has ended it: what comes after would otherwise be committed alone. */

/* Begins a transaction, for producers: several calls, all or none. Returns OK, INVALID (one is open), or one marked
 * [any]. SQLite takes the write lock here: other writers wait until it ends, so keep it short. */
renderq_status renderq_begin(renderq *h);

/* Takes the next job and begins the transaction that it is done in. The job is claimed as by renderq_claim(), with
 * its lease, and that is committed; then the transaction begins, and in it the job is completed. So
 *   renderq_commit()       the job is done, and the caller's SQL and enqueues with it
 *   renderq_rollback()     nothing of that; the lease still stands: renderq_fail() then counts and delays the job,
 *                          renderq_release() gives it back at once, uncounted
 *   the process dies       nothing of that; the lease runs out, which counts a failure. A message that kills its
 *                          handlers ends as a dead letter.
 * Others that claim or receive meanwhile skip the job and do not wait for it (on SQLite, which has one writer, they
 * wait until the transaction ends).
 * Inside, renderq_complete() of the job does no more than set its output URL; renew, fail, release, cancel, retry and
 * settle of it, and another receive, are INVALID. *out is the job, to be freed with renderq_job_free(), or NULL.
 *
 * On an attached handle with the caller's transaction open the job is taken and completed in that: nothing of it
 * survives a rollback, neither the lease nor a count of attempts. On SQLite such a transaction sees the queue as it was
 * at its first read, so that nothing is waited for in it (wait_ms).
 * Returns OK, EMPTY, INVALID (a transaction of this handle is open; options->unstarted), or one marked [any]; after all
 * but OK no transaction is open. A claim that could not be carried through is given back. */
renderq_status renderq_receive(renderq *h, const renderq_claim_options *options, renderq_job **out);

/* Ends the transaction of renderq_begin() or renderq_receive(), whatever it answers. Returns
 *   OK          all of it happened
 *   ABORTED     none of it: the transaction was gone. Of a received job the lease may still stand: fail or release it.
 *   UNCERTAIN   the reply was lost. After a receive the job's row has told what became of it wherever it could be
 *               asked; without one, look with renderq_get() for a job enqueued inside, or at the caller's own tables.
 *   INVALID     there was none; it is the caller's own (attached): commit that on the connection; or none of it, since
 *               a statement on renderq_native() was still open (SQLite).
 * or one marked [any]: none of it. */
renderq_status renderq_commit(renderq *h);

/* Undoes the transaction and ends it; without one it does nothing. Returns OK; INVALID when it is the caller's own
 * (attached) and still open: roll that back on the connection; or, attached, one marked [any]: it is still open, and
 * calls inside are ABORTED until this succeeds. */
renderq_status renderq_rollback(renderq *h);

/* ---- operate ---------------------------------------------------------------------------------------- */
/* queue is NULL for the URL's in all of these. */

/* Reads one job. Its lease is left out: it belongs to the worker. *out is to be freed with renderq_job_free().
 * Returns OK, EMPTY, or one marked [any]. */
renderq_status renderq_get(renderq *h, const char *queue, const renderq_id *id, renderq_job **out);

typedef struct renderq_filter {             /* NULL or zero: everything in the URL's queue */
    size_t size;
    const char *queue;
    renderq_state state;                    /* 0: any */
    const char *composition_id;             /* NULL: any */
    const char *worker;                     /* NULL: any */
    size_t max;                             /* at most so many jobs; 0: all */
} renderq_filter;

/* Called with each job; it lives for the call. Returns 0 to go on, anything else to end the list. */
typedef int (*renderq_job_fn)(void *arg, const renderq_job *job);

/* Reads jobs in the order of their ids, a page at a time, without their payloads; `each` may use the handle.
 * Rows that change meanwhile may be seen or not. Returns OK (also when `each` ended it), or one marked [any]. */
renderq_status renderq_list(renderq *h, const renderq_filter *filter, renderq_job_fn each, void *arg);

/* Ends a job that is Scheduled, Queued or Processing; its worker hears LOST.
 * Returns OK (also if it is Cancelled already), EMPTY (no such job), LOST (its state forbids it), or [any]. */
renderq_status renderq_cancel(renderq *h, const char *queue, const renderq_id *id);

/* Queues a job again that is DeadLetter, Cancelled or Completed, with its failures forgotten.
 * Returns OK (also if it is Queued already), EMPTY, LOST (after a lost reply also where it is Completed: perhaps
 * since this call queued it), DUPLICATE (a live job holds its dedup key; *holder, which may be NULL, receives its id),
 * or one marked [any]. */
renderq_status renderq_retry(renderq *h, const char *queue, const renderq_id *id, renderq_id *holder);

typedef struct renderq_retried {
    size_t size;
    int64_t retried;                        /* queued again */
    int64_t duplicates;                     /* left dead: a live job holds their dedup key */
} renderq_retried;

/* Retries every dead letter, one for each dedup key. counts may be NULL; on an error it tells how far it came,
 * after a lost reply at least that. Returns OK or one marked [any]. */
renderq_status renderq_retry_dead(renderq *h, const char *queue, renderq_retried *counts);

#define RENDERQ_SPARE_RENEWED 1u            /* settle: leave a job alone whose worker renews its lease */

/* An operator's complete, without a lease: the result is there, whoever made it. Takes any state but Completed.
 * Returns OK (also if it is Completed already), EMPTY, LOST (spared), or one marked [any]. */
renderq_status renderq_settle(renderq *h, const char *queue, const renderq_id *id, const char *output_url,
                              unsigned flags);

typedef struct renderq_reaped {
    size_t size;
    int64_t returned;                       /* back in the queue, at once or after a back-off */
    int64_t dead;                           /* retries used up: dead letters now */
} renderq_reaped;

/* Ends the leases that have run out: a started job counts a failure and waits as after RENDERQ_BACKOFF, an
 * unstarted one is queued again. Claims do this too, so no program needs it; a schedule may call it.
 * Goes in batches. counts may be NULL; on an error it tells how far it came, after a lost reply at least that.
 * Returns OK or one marked [any]. */
renderq_status renderq_reap(renderq *h, const char *queue, renderq_reaped *counts);

/* Deletes Completed, DeadLetter and Cancelled jobs that ended more than older_than_s seconds (at least 60) ago,
 * in batches, so that nobody waits for it. *deleted may be NULL; on an error it tells how far it came: whole batches.
 * Returns OK or one marked [any]. */
renderq_status renderq_purge(renderq *h, const char *queue, int64_t older_than_s, int64_t *deleted);

typedef struct renderq_counts {
    size_t size;
    int64_t scheduled, queued, processing, completed, dead_letter, cancelled, other;    /* jobs in each state */
    int64_t oldest_queued_ms;               /* age of the oldest Queued job; 0: none */
    int64_t run_out;                        /* Processing under a lease that has run out, not yet sent back */
    int64_t completed_1m, completed_5m, completed_15m;  /* completed in the last minutes */
} renderq_counts;

/* Counts the queue into *counts, whose size must be set. Delays nobody, but takes as long as there are rows: a second
 * for some millions. Returns OK or one marked [any]. */
renderq_status renderq_stats(renderq *h, const char *queue, renderq_counts *counts);

/* ---- a worker's program ------------------------------------------------------------------------------ */
/* renderq_worker_run() does what every worker program needs: several jobs at once, their leases kept alive, a clean
 * stop, and patience while the database is away. It is made of the calls above.
 *
 *     static renderq_outcome render(void *arg, renderq_task *task, const renderq_job *job)
 *     {
 *         ...
 *         return renderq_task_done(task, "file:///videos/intro-001.mp4");
 *     }
 *
 * Threads: the thread that calls renderq_worker_run() asks the database for jobs and tells it how they went, over one
 * connection however many handlers there are; a second thread and connection renew the leases; each handler runs in a
 * thread of its own. They exist from the beginning of renderq_worker_run() to its end. */

typedef struct renderq_worker renderq_worker;
typedef struct renderq_task renderq_task;   /* a job in a handler's hands, from the handler's call to its return */

/* What a handler returns. Anything else is a failure. */
typedef enum renderq_outcome {
    RENDERQ_TASK_DONE = 0,                  /* the job is completed */
    RENDERQ_TASK_RETRY = 1,                 /* it goes back uncounted: not now, or the worker stops */
    RENDERQ_TASK_FAILED = 2                 /* the attempt failed: renderq_fail() */
} renderq_outcome;

/* Works on one job; called by several threads at once. job and task live until it returns; job->lease_left_ms and
 * renderq_lease_left_ms() know nothing of the renewals. Returning one of these without the call of the same name means:
 * done, without an output URL; back in the queue at once; failed without a message, to be tried again after
 * RENDERQ_BACKOFF. */
typedef renderq_outcome (*renderq_handler)(void *arg, renderq_task *task, const renderq_job *job);

/* Each takes down how the job went, copies what it is given, and returns what the handler should. An output URL that
 * cannot be stored (too long, not UTF-8, refused by the table) makes it a failure that says so; an error text is
 * shortened and made valid. By the handler's thread alone. task must not be NULL. */
renderq_outcome renderq_task_done(renderq_task *task, const char *output_url);          /* NULL: keeps what it has */
renderq_outcome renderq_task_retry(renderq_task *task, int64_t delay_ms);               /* below 0: 0 */
renderq_outcome renderq_task_fail(renderq_task *task, const char *error, int64_t retry_ms);  /* as renderq_fail() */

typedef enum renderq_stop_reason {
    RENDERQ_GO_ON = 0,
    RENDERQ_STOP_ASKED = 1,                 /* the worker is to stop, and the grace period is over */
    RENDERQ_STOP_TIMEOUT = 2,               /* the job has taken longer than job_timeout_s */
    RENDERQ_STOP_LOST = 3                   /* the job is not ours any more: nothing that the handler returns counts */
} renderq_stop_reason;

/* Whether the handler should return soon, and why: RENDERQ_GO_ON, which is 0, or the gravest reason. Ask now and then;
 * then return RENDERQ_TASK_RETRY, or what there is. From any thread while the handler runs. Cheap. */
renderq_stop_reason renderq_task_should_stop(const renderq_task *task);

/* Whether the lease is lost: it was ended by somebody else, or ran out because it could not be renewed in time. Once
 * this or renderq_task_should_stop() has said so, it stays so. From any thread while the handler runs. */
int renderq_job_lost(const renderq_task *task);

/* Keeps a line with the job for people to see: renderq_job.progress. It is sent with the next renewal, at the latest
 * after 5 s; of several the last. What the table refuses is left out. From any thread while the handler runs.
 * Returns OK, INVALID (not UTF-8, or longer than RENDERQ_PROGRESS_MAX), or NOMEM. */
renderq_status renderq_task_progress(renderq_task *task, const char *text);

/* In transactional mode: the connection on which the job was received, with its transaction open, for enqueues and, by
 * renderq_native(), for SQL of the handler's own. It is committed when the handler returns RENDERQ_TASK_DONE, and
 * rolled back otherwise, before the job fails or goes back; the handler does neither. NULL in a worker that is not
 * transactional. By the handler's thread alone.
 *
 * Such a worker has a connection for each thread. Its leases are not renewed: as long as the transaction is open nobody
 * else gets the job, and progress is not shown. A handler that does not return keeps its job until the program ends and
 * the lease has run out. */
renderq *renderq_task_handle(renderq_task *task);

/* What happened to a job, or to the connection. */
typedef enum renderq_event_type {
    RENDERQ_EVENT_STARTED = 1,              /* its handler is about to run */
    RENDERQ_EVENT_DONE = 2,                 /* the queue knows that it is completed; text: the output URL or NULL */
    RENDERQ_EVENT_FAILED = 3,               /* ... that it failed; text: the message or NULL. See dead */
    RENDERQ_EVENT_RETRIED = 4,              /* ... that its handler gave it back; see delay_ms */
    RENDERQ_EVENT_RELEASED = 5,             /* given back without its handler's word: nobody started it in time, or the
                                               worker stopped */
    RENDERQ_EVENT_LOST = 6,                 /* it is somebody else's, or ended by somebody else, or its handler was told
                                               that it is lost; once a job */
    RENDERQ_EVENT_TIMEOUT = 7,              /* it has taken too long, and its handler was told to stop */
    RENDERQ_EVENT_AWAY = 8,                 /* no job: the database cannot be used just now; text: why */
    RENDERQ_EVENT_BACK = 9                  /* no job: it can be used again */
} renderq_event_type;

/* Made by the library, and lives for the call. New fields may follow. */
typedef struct renderq_event {
    renderq_event_type type;
    const renderq_job *job;                 /* NULL: not about a job */
    const char *text;                       /* or NULL */
    int64_t duration_ms;                    /* how long the handler took; AWAY, BACK: for how long it was away */
    int64_t delay_ms;                       /* RETRIED, RELEASED: when it is ready again */
    int dead;                               /* FAILED: it is a dead letter */
    renderq_status status;                  /* AWAY: what a call on the database returned */
} renderq_event;

typedef struct renderq_worker_options {
    size_t size;
    renderq_handler handler;                /* required */
    void *handler_arg;
    const char *queue;                      /* NULL: the URL's */
    const char *name;                       /* WorkerNodeId; NULL: the connection's, "host:pid" */
    int threads;                            /* 1: how many jobs at once; at most RENDERQ_THREADS_MAX */
    int lease_s;                            /* 120, renewed every third of it: how long a job stays ours when we fall
                                               silent */
    int poll_min_ms, poll_max_ms;           /* 100, 2000: how often an empty queue is read, at first and at last */
    int prefetch;                           /* 0: jobs claimed ahead of free threads, for short jobs and slow links; at
                                               most RENDERQ_MANY_MAX. They count no failure before they are started.
                                               Where handlers take no longer than milliseconds, jobs that never failed
                                               are started some milliseconds ahead. */
    int job_timeout_s;                      /* 0, none: how long a handler may take before it is told to stop; then the
                                               job counts as failed */
    int grace_s;                            /* 5: how long handlers may go on after renderq_worker_stop() before they
                                               are told to stop; RENDERQ_FOREVER: until they are done;
                                               RENDERQ_AT_ONCE: not at all */
    int linger_s;                           /* 5: how long a handler that was told to stop is waited for */
    int64_t max_jobs;                       /* 0, no end: run() ends after so many */
    int stop_when_empty;                    /* 1: run() ends when no job is ready and none in hand ... */
    int64_t empty_ms;                       /* ... and it was so for that long */
    int transactional;                      /* 1: see renderq_task_handle() */
    const renderq_options *connection;      /* NULL: the defaults. Short leases shorten command_s and retry_s */
    void (*log)(renderq_log_level level, const char *line, void *arg);      /* NULL: the connection's */
    void *log_arg;
    void (*on_event)(void *arg, const renderq_event *event);
    void *event_arg;                        /* log and on_event are called by any thread of the worker, but one at a
                                               time; others wait meanwhile. They may stop the worker. */
} renderq_worker_options;

#define RENDERQ_THREADS_MAX 256
#define RENDERQ_AT_ONCE     (-2)            /* grace_s: handlers are told as soon as a stop is asked for */

/* Makes a worker and opens its connection, for the options are copied. *out is set in any case but RENDERQ_NOMEM
 * without a worker (then it is NULL): after a failure it serves renderq_worker_errmsg() and must still be freed.
 * Returns OK, or one marked [any]. */
renderq_status renderq_worker_new(const char *url, const renderq_worker_options *options, renderq_worker **out);

/* Works until renderq_worker_stop(), max_jobs or stop_when_empty ends it, or the queue cannot be used. Jobs in hand are
 * finished first, or given back, within grace_s and linger_s of a stop; what handlers report while the database is away
 * is kept and sent when it is back, as long as leases and that time allow. After a stop the worker stays stopped.
 * Returns OK; BUSY: a handler did not return in time: its job was given back, its thread goes on, and only the end of
 * the program ends it; DISCONNECTED: a result could not be sent, or was refused, and its job comes round again when its
 * lease has run out; or one marked [any]. */
renderq_status renderq_worker_run(renderq_worker *w);

/* Asks run() to end: no more jobs are claimed, those in hand may go on for grace_s. A second call ends that
 * period, a third one linger_s, too. From any thread, a handler, or a signal handler, also before run(). NULL is
 * fine. */
void renderq_worker_stop(renderq_worker *w);

/* Like renderq_errmsg(): one line about the last run() or new() that did not return OK. With NULL: "out of memory". */
const char *renderq_worker_errmsg(const renderq_worker *w);

/* Frees it, when run() has returned. A thread that is still in a handler keeps what it uses, but calls neither log nor
 * on_event after this has returned. NULL is fine. */
void renderq_worker_free(renderq_worker *w);

#ifdef __cplusplus
}
template <class T> inline T renderq_init() { T made = T(); made.size = sizeof made; return made; }
#endif

#endif
