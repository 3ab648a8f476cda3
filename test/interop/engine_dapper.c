/* engine_dapper.c: an engine.h whose other program says its statements in T-SQL, over the wire; raw access is that of
 * another one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"
#include "interop/dapper.h"
#include "interop/engine_dapper.h"
#include "suite.h"

struct engine {
    engine *raw;
    dapper *program;
};

static const engine_ops *raw_ops;       /* the same for all of a run */

/* ---- the other program ---- */

/* A failed assertion leads back into the main thread's test, so another thread ends everything. */
static dapper_result run(engine *e, const char *name, const char *const *values)
{
    dapper_result result;
    if (!dapper_run(e->program, name, values, &result)) {
        if (getpid() != gettid())
            abort();
        fail_msg("their %s failed", name);
    }
    return result;
}

static void read_id(const dapper_result *result, renderq_id *id)
{
    assert_true(result->row);
    assert_int_equal(strlen(result->first), sizeof id->text - 1);
    strcpy(id->text, result->first);
}

static void wire_enqueue(engine *e, const char *composition_id, const char *payload, int priority, renderq_id *id)
{
    char number[16];
    snprintf(number, sizeof number, "%d", priority);
    dapper_result result = run(e, "enqueue", (const char *const[]){ composition_id, payload, number });
    read_id(&result, id);
}

static bool wire_claim(engine *e, const char *worker, renderq_id *id)
{
    dapper_result result = run(e, "claim", (const char *const[]){ worker });
    if (result.row)
        read_id(&result, id);
    return result.row;
}

static bool wire_complete(engine *e, const renderq_id *id, const char *output_url)
{
    return run(e, "complete", (const char *const[]){ id->text, output_url }).changed == 1;
}

static bool wire_mark_failed(engine *e, const renderq_id *id, const char *message)
{
    dapper_result result = run(e, "mark_failed", (const char *const[]){ id->text, message });
    return !result.refused && result.changed == 1;
}

static int wire_watchdog(engine *e)
{
    return run(e, "watchdog", NULL).changed;
}

static void wire_make_theirs(engine *e)
{
    run(e, "table", NULL);
}

/* ---- raw access ---- */

static engine *wire_open(const rq_url *url, const char *table)
{
    engine *e = calloc(1, sizeof *e);
    assert_non_null(e);
    e->raw = raw_ops->open(url, table);
    e->program = dapper_open(url, table);
    assert_non_null(e->program);
    return e;
}

static void wire_close(engine *e)
{
    raw_ops->close(e->raw);
    dapper_close(e->program);
    free(e);
}

static const char *raw_unable(engine *e, engine_ability ability)
{
    return raw_ops->unable(e->raw, ability);
}

static bool raw_read(engine *e, const renderq_id *id, const char *column, cell *out)
{
    return raw_ops->read(e->raw, id, column, out);
}

static bool raw_read_row(engine *e, const renderq_id *id, const char *const *columns, cell *out, size_t n)
{
    return raw_ops->read_row(e->raw, id, columns, out, n);
}

static bool raw_write(engine *e, const renderq_id *id, const char *column, const cell *value)
{
    return raw_ops->write(e->raw, id, column, value);
}

static void raw_write_all(engine *e, const char *column, int64_t number)
{
    raw_ops->write_all(e->raw, column, number);
}

static size_t raw_ids(engine *e, renderq_id *out, size_t max)
{
    return raw_ops->ids(e->raw, out, max);
}

static int64_t raw_now_ms(engine *e)
{
    return raw_ops->now_ms(e->raw);
}

static void raw_clear(engine *e)
{
    raw_ops->clear(e->raw);
}

static void raw_drop(engine *e)
{
    raw_ops->drop(e->raw);
}

static void raw_make_foreign(engine *e)
{
    raw_ops->make_foreign(e->raw);
}

static void raw_make_other(engine *e)
{
    raw_ops->make_other(e->raw);
}

static void raw_lock(engine *e, const renderq_id *id)
{
    raw_ops->lock(e->raw, id);
}

static void raw_unlock(engine *e)
{
    raw_ops->unlock(e->raw);
}

engine_ops engine_dapper(const engine_ops *raw)
{
    raw_ops = raw;
    return (engine_ops){
        .scheme = raw->scheme,
        .impatient = raw->impatient,
        .open = wire_open,
        .close = wire_close,
        .unable = raw_unable,
        .enqueue = wire_enqueue,
        .claim = wire_claim,
        .complete = wire_complete,
        .mark_failed = wire_mark_failed,
        .watchdog = wire_watchdog,
        .make_theirs = wire_make_theirs,
        .read = raw_read,
        .read_row = raw_read_row,
        .write = raw_write,
        .write_all = raw_write_all,
        .ids = raw_ids,
        .now_ms = raw_now_ms,
        .clear = raw_clear,
        .drop = raw_drop,
        .make_foreign = raw_make_foreign,
        .make_other = raw_make_other,
        .lock = raw_lock,
        .unlock = raw_unlock,
    };
}
