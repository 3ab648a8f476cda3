/* suite.c: the fixtures and helpers of suite.h. */
#include "suite.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "guid.h"
#include "interop/engine_dapper.h"

const char *suite_url;
bool suite_their_tsql;

/* ---- URLs and handles ---- */

void suite_url_for(char *out, size_t size, const char *queue, const char *extra)
{
    size_t len = (size_t)snprintf(out, size, "%s%cqueue=", suite_url, strchr(suite_url, '?') ? '&' : '?');
    for (const char *c = queue; *c; c++)
        len += (size_t)snprintf(out + len, size - len, "%%%02X", (unsigned)(unsigned char)*c);
    if (extra)
        len += (size_t)snprintf(out + len, size - len, "&%s", extra);
    assert_true(len < size);
}

renderq *suite_open(const suite *s, const char *worker, const char *extra)
{
    char url[1024];
    renderq *h = NULL;
    renderq_options options = RENDERQ_INIT(renderq_options);
    options.worker = worker;
    options.connect_s = SUITE_CONNECT_S;
    options.command_s = SUITE_COMMAND_S;
    options.retry_s = SUITE_RETRY_S;
    suite_url_for(url, sizeof url, s->queue, extra);
    expect_ok(h, renderq_open(url, &options, &h));
    return h;
}

/* ---- fixtures ---- */

static const engine_ops *find_engine(const char *scheme)
{
    static engine_ops dapper;
    const engine_ops *raw = engine_for(scheme);
    if (!suite_their_tsql && raw != &engine_sqlserver)
        return raw;
    dapper = engine_dapper(raw);
    return &dapper;
}

int suite_begin_bare(void **state)
{
    static unsigned number;
    char why[512];
    rq_url url;
    suite *s = calloc(1, sizeof *s);
    if (!s)
        return -1;
    *state = s;
    snprintf(s->queue, sizeof s->queue, "conformance_%ld_%u", (long)getpid(), ++number);
    suite_url_for(s->url, sizeof s->url, s->queue, NULL);
    if (rq_url_parse(suite_url, &url, why, sizeof why) != RENDERQ_OK) {
        print_error("%s\n", why);
        return -1;
    }
    s->ops = find_engine(url.scheme);
    s->native = native_for(url.scheme);
    s->e = s->ops->open(&url, s->queue);
    rq_url_free(&url);
    s->ops->drop(s->e);                     /* an earlier run, ended halfway, may have left one of that name */
    return 0;
}

int suite_begin(void **state)
{
    if (suite_begin_bare(state) != 0)
        return -1;
    suite *s = *state;
    s->h = suite_open(s, "node-1", NULL);
    expect_ok(s->h, renderq_create(s->h, NULL));
    return 0;
}

int suite_end(void **state)
{
    suite *s = *state;
    renderq_close(s->h);
    s->ops->drop(s->e);
    s->ops->close(s->e);
    free(s);
    return 0;
}

/* ---- a program's own SQL ---- */

void own_table(suite *s, char *name, size_t size)
{
    char sql[300];
    snprintf(name, size, "%s_own", s->queue);
    snprintf(sql, sizeof sql, "CREATE TABLE %s (k varchar(60) NOT NULL PRIMARY KEY, v int)", name);
    void *native = renderq_native(s->h);
    assert_non_null(native);
    assert_true(s->native->run(native, sql));
    own_put(s, native, name, "there");
}

void own_put(const suite *s, void *native, const char *table, const char *key)
{
    char sql[300];
    snprintf(sql, sizeof sql, "INSERT INTO %s (k, v) VALUES ('%s', 1)", table, key);
    assert_true(s->native->run(native, sql));
}

int64_t own_rows(suite *s, const char *table)
{
    char sql[200];
    snprintf(sql, sizeof sql, "SELECT COUNT(*) FROM %s", table);
    return s->native->ask(renderq_native(s->h), sql);
}

void own_drop(suite *s, const char *table)
{
    char sql[200];
    snprintf(sql, sizeof sql, "DROP TABLE %s", table);
    assert_true(s->native->run(renderq_native(s->h), sql));
}

void *own_connection(const suite *s)
{
    char why[512];
    rq_url url;
    assert_int_equal(rq_url_parse(s->url, &url, why, sizeof why), RENDERQ_OK);
    void *native = s->native->connect(&url);
    rq_url_free(&url);
    return native;
}

/* ---- what the engine cannot do ---- */

void suite_warm(renderq *h)
{
    renderq_job *job = NULL;
    expect(h, RENDERQ_EMPTY, renderq_claim(h, NULL, &job));
}

void suite_needs(suite *s, engine_ability ability)
{
    const char *why = s->ops->unable(s->e, ability);
    if (!why)
        return;
    print_message("skipped: %s\n", why);
    skip();
}

/* ---- statuses ---- */

static const char *text_of(const renderq *h)
{
    return h ? renderq_errmsg(h) : "";
}

void expect_at(const renderq *h, renderq_status want, renderq_status got, const char *file, int line)
{
    if (got != want) {
        print_error("expected %s, got %s: %s\n", renderq_strstatus(want), renderq_strstatus(got), text_of(h));
        _fail(file, line);
    }
    if (!h || got == RENDERQ_OK)
        return;
    if (!*renderq_errmsg(h) || strpbrk(renderq_errmsg(h), "\r\n")) {
        print_error("the text of %s is not one line: \"%s\"\n", renderq_strstatus(got), renderq_errmsg(h));
        _fail(file, line);
    }
}

void expect_said_at(const renderq *h, const char *word, const char *file, int line)
{
    if (strstr(renderq_errmsg(h), word))
        return;
    print_error("no \"%s\" in the text \"%s\"\n", word, renderq_errmsg(h));
    _fail(file, line);
}

/* ---- jobs ---- */

renderq_id put_job(suite *s, const renderq_new_job *job)
{
    renderq_id id = { "" };
    expect_ok(s->h, renderq_enqueue(s->h, job, &id));
    return id;
}

renderq_id put(suite *s, const char *composition_id)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.composition_id = composition_id;
    job.payload_json = "{}";
    return put_job(s, &job);
}

renderq_id put_key(suite *s, const char *dedup_key)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    job.composition_id = "keyed";
    job.payload_json = "{}";
    job.dedup_key = dedup_key;
    return put_job(s, &job);
}

renderq_job *take_for(renderq *h, const char *worker, int lease_s, bool unstarted)
{
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_job *job = NULL;
    options.worker = worker;
    options.lease_s = lease_s;
    options.unstarted = unstarted;
    expect_ok(h, renderq_claim(h, &options, &job));
    assert_non_null(job);
    return job;
}

renderq_job *take(renderq *h)
{
    return take_for(h, NULL, 0, false);
}

renderq_job *take_this(renderq *h, const renderq_id *id)
{
    renderq_job *job = take(h);
    assert_string_equal(job->id.text, id->text);
    return job;
}

void take_none(renderq *h)
{
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    renderq_job *job = (renderq_job *)(void *)&options;
    options.no_reap = 1;
    expect(h, RENDERQ_EMPTY, renderq_claim(h, &options, &job));
    assert_null(job);
}

renderq_job *put_and_take(suite *s, const char *composition_id)
{
    renderq_id id = put(s, composition_id);
    return take_this(s->h, &id);
}

renderq_job *resume(renderq *h, const renderq_job *job)
{
    renderq_job *copy = NULL;
    expect_ok(h, renderq_job_resume(h, job->queue, &job->id, &job->lease, &copy));
    return copy;
}

renderq_job *get(suite *s, const renderq_id *id)
{
    renderq_job *job = NULL;
    expect_ok(s->h, renderq_get(s->h, NULL, id, &job));
    return job;
}

void same_id(const renderq_id *a, const renderq_id *b)
{
    assert_string_equal(a->text, b->text);
}

renderq_id put_in_state(suite *s, renderq_state state)
{
    static int priority = 1000;             /* each above the last, so that it is the one that is claimed */
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    renderq_id id;
    renderq_job *taken;
    job.composition_id = renderq_strstate(state);
    job.payload_json = "{}";
    job.priority = priority++;
    job.delay_ms = state == RENDERQ_SCHEDULED ? 3600000 : 0;
    id = put_job(s, &job);
    switch (state) {
    case RENDERQ_SCHEDULED:
    case RENDERQ_QUEUED:
        break;
    case RENDERQ_PROCESSING:
    case RENDERQ_COMPLETED:
    case RENDERQ_DEAD_LETTER:
        taken = take_this(s->h, &id);
        if (state == RENDERQ_COMPLETED)
            expect_ok(s->h, renderq_complete(s->h, taken, "out"));
        if (state == RENDERQ_DEAD_LETTER)
            expect_ok(s->h, renderq_fail(s->h, taken, "dead", RENDERQ_NEVER));
        renderq_job_free(taken);
        break;
    case RENDERQ_CANCELLED:
        expect_ok(s->h, renderq_cancel(s->h, NULL, &id));
        break;
    case RENDERQ_OTHER:
        set_text(s, &id, "Status", "Paused");
        break;
    }
    expect_status(s, &id, state == RENDERQ_OTHER ? "Paused" : renderq_strstate(state));
    return id;
}

/* ---- raw columns ---- */

static cell read_cell(suite *s, const renderq_id *id, const char *column)
{
    cell value;
    if (!s->ops->read(s->e, id, column, &value))
        fail_msg("no row %s", id->text);
    return value;
}

static void print_cell(char *out, size_t size, const cell *value)
{
    if (!value->present)
        snprintf(out, size, "NULL");
    else if (value->text)
        snprintf(out, size, "\"%s\"", value->text);
    else
        snprintf(out, size, "%lld", (long long)value->number);
}

static void wrong(const renderq_id *id, const char *column, cell *value, const char *want, const char *file,
                  int line)
{
    char text[256];
    print_cell(text, sizeof text, value);
    free(value->text);
    print_error("job %s: %s is %s, expected %s\n", id->text, column, text, want);
    _fail(file, line);
}

void expect_text_at(suite *s, const renderq_id *id, const char *column, const char *want, const char *file,
                    int line)
{
    cell value = read_cell(s, id, column);
    if (!value.text || strcmp(value.text, want) != 0)
        wrong(id, column, &value, want, file, line);
    free(value.text);
}

void expect_number_at(suite *s, const renderq_id *id, const char *column, int64_t want, const char *file, int line)
{
    char text[32];
    cell value = read_cell(s, id, column);
    snprintf(text, sizeof text, "%lld", (long long)want);
    if (!value.present || value.text || value.number != want)
        wrong(id, column, &value, text, file, line);
}

void expect_null_at(suite *s, const renderq_id *id, const char *column, bool null, const char *file, int line)
{
    cell value = read_cell(s, id, column);
    if (value.present == null)
        wrong(id, column, &value, null ? "NULL" : "a value", file, line);
    free(value.text);
}

void expect_nulls_at(suite *s, const renderq_id *id, const char *const *columns, const char *file, int line)
{
    for (; *columns; columns++)
        expect_null_at(s, id, *columns, true, file, line);
}

int64_t number_of(suite *s, const renderq_id *id, const char *column)
{
    cell value = read_cell(s, id, column);
    if (!value.present || value.text)
        wrong(id, column, &value, "a number", __FILE__, __LINE__);
    return value.number;
}

void set_number(suite *s, const renderq_id *id, const char *column, int64_t number)
{
    cell value = { .present = true, .number = number };
    assert_true(s->ops->write(s->e, id, column, &value));
}

void set_text(suite *s, const renderq_id *id, const char *column, const char *text)
{
    char *copy = strdup(text);
    cell value = { .present = true, .text = copy };
    assert_true(s->ops->write(s->e, id, column, &value));
    free(copy);
}

bool set_null(suite *s, const renderq_id *id, const char *column)
{
    cell value = { .present = false };
    return s->ops->write(s->e, id, column, &value);
}

void shift(suite *s, const renderq_id *id, const char *column, int64_t ms)
{
    set_number(s, id, column, number_of(s, id, column) + ms);
}

void run_out(suite *s, const renderq_id *id, int64_t ago_ms)
{
    int64_t at = s->ops->now_ms(s->e) - number_of(s, id, "LeaseSeconds") * 1000 - ago_ms;
    set_number(s, id, "LockedAtUtc", at);
    set_number(s, id, "LeasedAtUtc", at);
}

void make_due(suite *s, const renderq_id *id)
{
    expect_status(s, id, "Scheduled");
    set_number(s, id, "DueAtUtc", s->ops->now_ms(s->e));
}

/* ---- snapshots ---- */

#define ROWS_MAX 20000

size_t count_rows(suite *s)
{
    renderq_id *ids = calloc(ROWS_MAX, sizeof *ids);
    size_t n = s->ops->ids(s->e, ids, ROWS_MAX);
    free(ids);
    return n;
}

bool row_there(suite *s, const renderq_id *id)
{
    cell value;
    bool there = s->ops->read(s->e, id, "Status", &value);
    free(value.text);
    return there;
}

static const char *const columns[] = {
    "JobId", "CompositionId", "PayloadJson", "Priority", "Status", "WorkerNodeId", "LockedAtUtc", "CreatedAtUtc",
    "CompletedAtUtc", "OutputUrl", "RetryCount", "LastErrorMessage", "StartedAtUtc", "DueAtUtc", "EndedAtUtc",
    "LeasedAtUtc", "MaxRetries", "LeaseToken", "LeaseSeconds", "DedupKey", "Progress"
};

static void add_row(suite *s, const renderq_id *id, FILE *to)
{
    cell values[count_of(columns)];
    if (!s->ops->read_row(s->e, id, columns, values, count_of(columns)))
        fail_msg("no row %s", id->text);
    for (size_t i = 0; i < count_of(columns); i++) {
        char text[256];
        print_cell(text, sizeof text, &values[i]);
        free(values[i].text);
        fprintf(to, "%s=%s ", columns[i], text);
    }
    fputc('\n', to);
}

char *snapshot(suite *s, const renderq_id *id)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    add_row(s, id, to);
    fclose(to);
    return text;
}

char *snapshot_all(suite *s)
{
    renderq_id ids[64];
    char *text = NULL;
    size_t size, n = s->ops->ids(s->e, ids, count_of(ids));
    FILE *to = open_memstream(&text, &size);
    assert_true(n < count_of(ids));
    for (size_t i = 0; i < n; i++)
        add_row(s, &ids[i], to);
    fclose(to);
    return text;
}

static void compare(char *before, char *after)
{
    if (strcmp(before, after) != 0)
        print_error("the table was:\n%sand is:\n%s", before, after);
    bool same = strcmp(before, after) == 0;
    free(before);
    free(after);
    assert_true(same);
}

void expect_unchanged(suite *s, const renderq_id *id, char *before)
{
    compare(before, snapshot(s, id));
}

void expect_all_unchanged(suite *s, char *before)
{
    compare(before, snapshot_all(s));
}

/* ---- the rest ---- */

char *units(size_t n, const char *tail, size_t tail_units)
{
    size_t body = n - tail_units;
    char *text = malloc(body + strlen(tail) + 1);
    assert_non_null(text);
    memset(text, 'x', body);
    strcpy(text + body, tail);
    return text;
}

char *xs(size_t n)
{
    return units(n, "", 0);
}

int64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void sleep_ms(int ms)
{
    poll(NULL, 0, ms);
}
