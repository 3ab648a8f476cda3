/* rows.c: rows' times moved, as some other program, by the conformance suite's engines. See kit.h. */
#include "kit.h"

#include "../conformance/engine.h"

typedef struct mover {
    const engine_ops *ops;
    engine *e;
    const char *const *columns;
} mover;

static int move_one(void *arg, const renderq_job *job)
{
    const mover *m = arg;
    const cell long_ago = { .present = true, .number = 1000 };
    for (const char *const *column = m->columns; *column; column++)
        assert_true(m->ops->write(m->e, &job->id, *column, &long_ago));
    return 0;
}

static void move(kit *k, renderq_state state, const char *const *columns)
{
    char why[512];
    rq_url url;
    renderq_filter filter = RENDERQ_INIT(renderq_filter);
    assert_int_equal(rq_url_parse(kit_url, &url, why, sizeof why), RENDERQ_OK);
    mover m = { .ops = engine_for(url.scheme), .columns = columns };
    m.e = m.ops->open(&url, k->queue);
    filter.state = state;
    assert_status(k->h, renderq_list(k->h, &filter, move_one, &m), RENDERQ_OK);
    m.ops->close(m.e);
    rq_url_free(&url);
}

void run_out(kit *k)
{
    static const char *const columns[] = { "LockedAtUtc", "LeasedAtUtc", NULL };
    move(k, RENDERQ_PROCESSING, columns);
}

void make_due(kit *k)
{
    static const char *const columns[] = { "DueAtUtc", NULL };
    move(k, RENDERQ_SCHEDULED, columns);
}
