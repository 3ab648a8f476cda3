/* test_sql_contract.c: sql/sqlite against lib/statement.c: each file prepared on a created table, its parameters,
 * columns and plan held against the contract. What the statements do is the conformance suite's. */
#include "support.h"

#include <ctype.h>

#include "driver.h"

static sqlite3 *db;

static int set_up(void **state)
{
    (void)state;
    db = db_open(":memory:");
    db_exec(db, rq_sql_find(rq_sql_sqlite, "schema"));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return sqlite3_close(db) == SQLITE_OK ? 0 : -1;
}

static void wrong(const char *file, const char *what, const char *sql)
{
    print_error("sql/sqlite/%s.sql: %s:\n%s\n", file, what, sql ? sql : "");
    fail();
}

/* ---- the parts of a file ---- */

enum { PARTS_MAX = 10 };

typedef struct parts {
    sqlite3_stmt *stmt[PARTS_MAX];
    int n;
} parts;

static void prepare(const rq_statement *statement, parts *out)
{
    const char *sql = rq_sql_find(rq_sql_sqlite, statement->name);
    *out = (parts){ .n = 0 };
    if (!sql)
        wrong(statement->name, "is missing", NULL);
    while (*sql) {
        sqlite3_stmt *stmt = NULL;
        if (sqlite3_prepare_v2(db, sql, -1, &stmt, &sql) != SQLITE_OK)
            wrong(statement->name, sqlite3_errmsg(db), sql);
        if (!stmt)
            break;
        assert_true(out->n < PARTS_MAX);
        out->stmt[out->n++] = stmt;
    }
    if (out->n == 0)
        wrong(statement->name, "has no statement", NULL);
}

static void finalize(parts *all)
{
    for (int i = 0; i < all->n; i++)
        sqlite3_finalize(all->stmt[i]);
}

static bool writes(const parts *all)
{
    for (int i = 0; i < all->n; i++)
        if (!sqlite3_stmt_readonly(all->stmt[i]))
            return true;
    return false;
}

/* A first part that only reads, before others that write: it takes no lock, and its rows are not handed out. */
static bool looks(const parts *all)
{
    return sqlite3_stmt_readonly(all->stmt[0]) && writes(all);
}

/* ---- tests ---- */

static void every_statement_has_its_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < RQ_STATEMENTS; i++) {
        parts all;
        assert_non_null(rq_statements[i].name);
        prepare(&rq_statements[i], &all);
        finalize(&all);
    }
    assert_non_null(rq_sql_find(rq_sql_sqlite, "schema"));
    assert_null(rq_sql_find(rq_sql_sqlite, "no such file"));
}

static void every_file_has_its_statement(void **state)
{
    (void)state;
    size_t files = 0;
    for (const rq_sql *file = rq_sql_sqlite; file->name; file++, files++) {
        size_t i = 0;
        while (i < RQ_STATEMENTS && strcmp(rq_statements[i].name, file->name) != 0)
            i++;
        if (i == RQ_STATEMENTS && strcmp(file->name, "schema") != 0)
            wrong(file->name, "is no statement of the contract", NULL);
        if (strncmp(file->text, "-- ", 3) == 0)
            wrong(file->name, "is embedded from above its marker line", file->text);
    }
    assert_int_equal(files, RQ_STATEMENTS + 1);
}

static void the_contract_is_sound(void **state)
{
    (void)state;
    for (size_t i = 0; i < RQ_STATEMENTS; i++) {
        const rq_statement *statement = &rq_statements[i];
        assert_true(statement->n_params <= RQ_PARAMS_MAX);
        assert_true(statement->n_columns > 0 && statement->n_columns <= RQ_COLUMNS_MAX);
        for (size_t p = 0; p < statement->n_params; p++)
            for (size_t q = 0; q < p; q++)
                assert_string_not_equal(statement->params[p].name, statement->params[q].name);
    }
    assert_true(RQ_JOB_COLUMNS <= RQ_COLUMNS_MAX);
}

static void every_parameter_is_known_and_used(void **state)
{
    (void)state;
    for (size_t i = 0; i < RQ_STATEMENTS; i++) {
        const rq_statement *statement = &rq_statements[i];
        bool used[RQ_PARAMS_MAX] = { false };
        parts all;
        prepare(statement, &all);
        for (int part = 0; part < all.n; part++)
            for (int p = 1; p <= sqlite3_bind_parameter_count(all.stmt[part]); p++) {
                const char *name = sqlite3_bind_parameter_name(all.stmt[part], p);
                if (!name || name[0] != ':')
                    wrong(statement->name, "a parameter is not a :name", sqlite3_sql(all.stmt[part]));
                size_t at = 0;
                while (at < statement->n_params && strcmp(statement->params[at].name, name + 1) != 0)
                    at++;
                if (at == statement->n_params)
                    wrong(statement->name, "a parameter is not in the contract", name);
                else
                    used[at] = true;
            }
        for (size_t p = 0; p < statement->n_params; p++)
            if (!used[p])
                wrong(statement->name, "a parameter of the contract is not used", statement->params[p].name);
        finalize(&all);
    }
}

static void rows_have_the_contracts_columns(void **state)
{
    (void)state;
    for (size_t i = 0; i < RQ_STATEMENTS; i++) {
        const rq_statement *statement = &rq_statements[i];
        bool hands_out = false;
        parts all;
        prepare(statement, &all);
        for (int part = looks(&all) ? 1 : 0; part < all.n; part++) {
            int columns = sqlite3_column_count(all.stmt[part]);
            if (columns == 0)
                continue;
            hands_out = true;
            if ((size_t)columns != statement->n_columns)
                wrong(statement->name, "the number of columns is not the contract's", sqlite3_sql(all.stmt[part]));
        }
        if (!hands_out)
            wrong(statement->name, "hands out no rows", NULL);
        finalize(&all);
    }
}

/* The first rows are the answer, and what stands behind them is not run: it may not change anything. */
static void nothing_is_changed_behind_the_answer(void **state)
{
    (void)state;
    for (size_t i = 0; i < RQ_STATEMENTS; i++) {
        bool answered = false;
        parts all;
        prepare(&rq_statements[i], &all);
        for (int part = looks(&all) ? 1 : 0; part < all.n; part++) {
            if (answered && !sqlite3_stmt_readonly(all.stmt[part]))
                wrong(rq_statements[i].name, "writes behind a part that hands out rows",
                      sqlite3_sql(all.stmt[part]));
            answered = answered || sqlite3_column_count(all.stmt[part]) > 0;
        }
        finalize(&all);
    }
}

/* What polls the database, or may find nothing to do, looks before it takes the write lock. */
static void what_may_find_nothing_looks_first(void **state)
{
    static const rq_statement_id pollers[] = { RQ_CLAIM, RQ_TAKE, RQ_REAP, RQ_PURGE };
    (void)state;
    for (size_t i = 0; i < RQ_STATEMENTS; i++) {
        bool polls = false;
        parts all;
        for (size_t p = 0; p < count_of(pollers); p++)
            polls = polls || pollers[p] == i;
        prepare(&rq_statements[i], &all);
        if (looks(&all) != polls)
            wrong(rq_statements[i].name,
                  polls ? "does not look first" : "looks first: its first rows are not handed out",
                  sqlite3_sql(all.stmt[0]));
        if (polls)
            assert_false(rq_statements[i].many);        /* a look decides for one item alone */
        finalize(&all);
    }
}

/* ---- text ---- */

/* Finds a word outside of parentheses, quotes and comments, from `at` on. */
static const char *find_word(const char *at, const char *word)
{
    int depth = 0;
    size_t len = strlen(word);
    for (const char *start = at; *at; at++) {
        if (*at == '-' && at[1] == '-') {
            at += strcspn(at, "\n");
        } else if (*at == '\'' || *at == '"') {
            const char *end = strchr(at + 1, *at);
            at = end ? end : at + strlen(at);
        } else if (*at == '(') {
            depth++;
        } else if (*at == ')') {
            depth--;
        } else if (depth == 0 && strncmp(at, word, len) == 0 && (at == start || !isalnum((unsigned char)at[-1]))
                   && !isalnum((unsigned char)at[len])) {
            return at;
        }
        if (!*at)
            break;
    }
    return NULL;
}

static void every_change_says_which_rows(void **state)
{
    (void)state;
    size_t changes = 0;
    assert_null(find_word("UPDATE t SET a = (SELECT 1 WHERE 1)", "WHERE"));
    assert_null(find_word("UPDATE t SET a = 'x WHERE' -- WHERE\n", "WHERE"));
    assert_non_null(find_word("UPDATE t SET a = 'x' WHERE a", "WHERE"));
    for (size_t i = 0; i < RQ_STATEMENTS; i++) {
        parts all;
        prepare(&rq_statements[i], &all);
        for (int part = 0; part < all.n; part++) {
            const char *sql = sqlite3_sql(all.stmt[part]), *at = find_word(sql, "UPDATE");
            at = at ? at : find_word(sql, "DELETE");
            if (!at && !sqlite3_stmt_readonly(all.stmt[part]) && !find_word(sql, "INSERT"))
                wrong(rq_statements[i].name, "changes something in an unknown way", sql);
            if (at && !find_word(at, "WHERE"))
                wrong(rq_statements[i].name, "changes every row", sql);
            changes += at != NULL;
        }
        finalize(&all);
    }
    assert_true(changes >= 12);
}

static void squeeze(const char *sql, char *out, size_t size)
{
    size_t n = 0;
    for (; *sql && n + 1 < size; sql++) {
        bool blank = isspace((unsigned char)*sql) != 0;
        if (!blank || (n > 0 && out[n - 1] != ' '))
            out[n++] = blank ? ' ' : *sql;
    }
    out[n] = 0;
}

/* A worker that slept past its lease must not reach the row: not by its id, not by an old token. */
static void what_a_worker_says_is_fenced(void **state)
{
    static const rq_statement_id fenced[] = { RQ_START, RQ_RENEW, RQ_COMPLETE, RQ_FAIL, RQ_RELEASE };
    static const char fence[] = "WHERE JobId = :id AND LeaseToken = :token AND LeasedAtUtc = LockedAtUtc"
                                " AND Status = 'Processing'";
    (void)state;
    for (size_t i = 0; i < count_of(fenced); i++) {
        const rq_statement *statement = &rq_statements[fenced[i]];
        size_t updates = 0;
        parts all;
        prepare(statement, &all);
        for (int part = 0; part < all.n; part++) {
            char sql[4000];
            squeeze(sqlite3_sql(all.stmt[part]), sql, sizeof sql);
            if (sqlite3_stmt_readonly(all.stmt[part]))
                continue;
            updates++;
            if (!strstr(sql, fence))
                wrong(statement->name, "an UPDATE is not fenced by the lease", sql);
        }
        assert_int_equal(updates, 1);
        finalize(&all);
    }
}

/* ---- plans ---- */

/* The lines of a part's plan, one behind another. */
static void explain(const char *part, char *out, size_t size)
{
    sqlite3_stmt *stmt = NULL;
    char *sql = sqlite3_mprintf("EXPLAIN QUERY PLAN %s", part);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    out[0] = 0;
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        size_t n = strlen(out);
        snprintf(out + n, size - n, "%s\n", (const char *)sqlite3_column_text(stmt, 3));
    }
    sqlite3_finalize(stmt);
    sqlite3_free(sql);
}

/* Without the leading comments, which EXPLAIN would end up in front of. */
static const char *bare(const char *sql)
{
    while (isspace((unsigned char)*sql) || (sql[0] == '-' && sql[1] == '-'))
        sql += isspace((unsigned char)*sql) ? 1 : strcspn(sql, "\n");
    return sql;
}

/* Many rows in every state, and statistics, so that the planner has a choice to make. */
static void fill(void)
{
    db_exec(db, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
                "INSERT INTO VideoRenderJobs (JobId, CompositionId, PayloadJson, Priority, Status, LockedAtUtc,"
                " CompletedAtUtc, EndedAtUtc, DueAtUtc, LeaseToken, LeaseSeconds, LeasedAtUtc, DedupKey)"
                "SELECT randomblob(16), 'c' || i, '{}', i % 10,"
                " CASE i % 6 WHEN 0 THEN 'Queued' WHEN 1 THEN 'Scheduled' WHEN 2 THEN 'Processing'"
                " WHEN 3 THEN 'Completed' WHEN 4 THEN 'DeadLetter' ELSE 'Cancelled' END,"
                " i, i, i, i, randomblob(16), 600, i, 'key-' || i FROM n");
}

static void the_claims_plan(void **state)
{
    (void)state;
    parts all;
    for (int round = 0; round < 3; round++) {
        char plan[2000];
        bool updated = false;
        if (round == 1)
            fill();
        if (round == 2)
            db_exec(db, "ANALYZE");
        prepare(&rq_statements[RQ_CLAIM], &all);
        for (int part = 0; part < all.n; part++) {
            const char *sql = sqlite3_sql(all.stmt[part]);
            explain(bare(sql), plan, sizeof plan);
            if (strstr(sql, "ORDER BY Priority DESC, CreatedAtUtc, JobId")) {
                updated = true;
                if (!strstr(plan, "VideoRenderJobs_Queued"))
                    wrong("claim", "does not use the index of queued jobs", plan);
            }
            if (strstr(plan, "TEMP B-TREE"))
                wrong("claim", "sorts", plan);
            /* walking an index of exactly these rows is fine, walking the table is not */
            if (strstr(plan, "SCAN VideoRenderJobs\n"))
                wrong("claim", "reads the whole table", plan);
        }
        assert_true(updated);
        finalize(&all);
    }
}

/* No statement that runs for one job, or every few seconds, may grow with the table. */
static void no_plan_reads_the_whole_table(void **state)
{
    (void)state;
    fill();
    for (size_t i = 0; i < RQ_STATEMENTS; i++) {
        parts all;
        prepare(&rq_statements[i], &all);
        for (int part = 0; part < all.n; part++) {
            char plan[4000];
            explain(bare(sqlite3_sql(all.stmt[part])), plan, sizeof plan);
            if (strstr(plan, "SCAN VideoRenderJobs\n") || strstr(plan, "SCAN job\n")
                || strstr(plan, "SCAN holder\n"))
                wrong(rq_statements[i].name, "reads the whole table", plan);
            if (strstr(plan, "AUTOMATIC"))
                wrong(rq_statements[i].name, "makes an index for itself", plan);
        }
        finalize(&all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_statement_has_its_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_file_has_its_statement, set_up, tear_down),
        cmocka_unit_test(the_contract_is_sound),
        cmocka_unit_test_setup_teardown(every_parameter_is_known_and_used, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_have_the_contracts_columns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_changed_behind_the_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_may_find_nothing_looks_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_change_says_which_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_worker_says_is_fenced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_claims_plan, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_plan_reads_the_whole_table, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
