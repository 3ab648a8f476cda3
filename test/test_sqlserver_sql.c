/* test_sqlserver_sql.c: lib/sqlserver_sql.c: the texts that are sent to SQL Server and the bytes of their values; and how
 * lib/sqlserver.c cuts a script at GO. No connection. What the T-SQL itself does is not known here. */
#include "support.h"

#include "sqlserver.h"
#include "utf.h"

#define EMOJI  "\xF0\x9F\x98\x80"       /* two UTF-16 units */
#define UMLAUT "\xC3\xA4"

static ss_conn conn;

static int forget(void **state)
{
    (void)state;
    conn.babelfish = false;
    rq_ss_forget(&conn);
    assert_null(conn.texts);
    assert_int_equal(conn.n_texts, 0);
    return 0;
}

static rq_queue queue_of(const char *text)
{
    rq_queue queue = { .text = text };
    assert_null(rq_name_parse(text, &queue.name));
    return queue;
}

/* `from` repeated n times, in one of four places that take turns. */
static const char *repeat(const char *from, size_t n)
{
    static char texts[4][2000];
    static size_t turn;
    char *text = texts[turn++ % 4];
    text[0] = 0;
    for (size_t i = 0; i < n; i++)
        strcat(text, from);
    return text;
}

/* ---- prologues ---- */

static void add(char *out, size_t size, const char *text)
{
    size_t len = strlen(out);
    assert_true(len + strlen(text) < size);
    strcpy(out + len, text);
}

static void add_type(char *out, size_t size, const rq_param *param)
{
    char type[40];
    snprintf(type, sizeof type, "nvarchar(%d)", param->units + 1);
    add(out, size,
        param->type == RQ_GUID ? "uniqueidentifier" : param->type == RQ_INT ? "int" : param->type == RQ_BIGINT ? "bigint"
        : param->type == RQ_BIT ? "bit" : param->units == 0 ? "nvarchar(max)" : type);
}

static void prologue_of(const rq_statement *statement, char *out, size_t size)
{
    out[0] = 0;
    for (size_t i = 0; i < statement->n_params; i++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", i + 1);
        add(out, size, i == 0 ? "DECLARE @" : ", @");
        add(out, size, statement->params[i].name);
        add(out, size, " ");
        add_type(out, size, &statement->params[i]);
        bool utf8 = conn.babelfish && statement->params[i].type == RQ_TEXT;
        add(out, size, utf8 ? " = CAST(convert_from(CAST(@P" : " = CAST(@P");
        add(out, size, number);
        add(out, size, utf8 ? " AS bytea), 'UTF8') AS " : " AS ");
        add_type(out, size, &statement->params[i]);
        add(out, size, ")");
    }
    if (statement->n_params)
        add(out, size, ";\n");
}

/* The file that is meant for the server: on Babelfish its own where there is one. */
static const char *file_of(const char *name)
{
    const char *own = conn.babelfish ? rq_sql_find(rq_sql_babelfish, name) : NULL;
    return own ? own : rq_sql_find(rq_sql_sqlserver, name);
}

/* "-- renderq: NAME", the prologue, the file: nothing else. */
static void expect_text_of(const rq_queue *queue, rq_statement_id id, bool many)
{
    char name[64], head[2000] = "-- renderq: ", prologue[1500];
    const rq_statement *statement = &rq_statements[id];
    snprintf(name, sizeof name, "%s%s", statement->name, many ? "_many" : "");
    const char *file = file_of(name), *sql = rq_ss_sql(&conn, queue, id, many);
    prologue_of(statement, prologue, sizeof prologue);
    add(head, sizeof head, name);
    add(head, sizeof head, "\n");
    static const char items[] = "DECLARE @items nvarchar(max) = CAST(@P1 AS nvarchar(max));\n";
    static const char utf8_items[] =
        "DECLARE @items nvarchar(max) = CAST(convert_from(CAST(@P1 AS bytea), 'UTF8') AS nvarchar(max));\n";
    add(head, sizeof head, !many ? prologue : conn.babelfish ? utf8_items : items);
    assert_non_null(file);
    assert_non_null(sql);
    assert_memory_equal(sql, head, strlen(head));
    assert_string_equal(sql + strlen(head), file);
}

static void every_statement_has_its_prologue(void **state)
{
    conn.babelfish = *state != NULL;
    rq_queue queue = queue_of("dbo.VideoRenderJobs");       /* the name that the files have */
    for (int id = 0; id < RQ_STATEMENTS; id++) {
        expect_text_of(&queue, (rq_statement_id)id, false);
        if (rq_statements[id].many)
            expect_text_of(&queue, (rq_statement_id)id, true);
    }
}

static void a_prologue_to_the_letter(void **state)
{
    (void)state;
    static const char claim[] =
        "-- renderq: claim\n"
        "DECLARE @worker nvarchar(129) = CAST(@P1 AS nvarchar(129)), "
        "@token uniqueidentifier = CAST(@P2 AS uniqueidentifier), @lease_s int = CAST(@P3 AS int), "
        "@unstarted int = CAST(@P4 AS int), @batch int = CAST(@P5 AS int);\n";
    rq_queue queue = queue_of("jobs");
    assert_memory_equal(rq_ss_sql(&conn, &queue, RQ_CLAIM, false), claim, sizeof claim - 1);
}

/* What Babelfish has a file of its own for is taken from there, everything else from SQL Server's. */
static void babelfish_has_its_own_files(void **state)
{
    (void)state;
    size_t own = 0;
    for (const rq_sql *file = rq_sql_sqlserver; file->name; file++) {
        const char *there = rq_sql_find(rq_sql_babelfish, file->name);
        assert_ptr_equal(rq_ss_find(file->name, false), file->text);
        assert_ptr_equal(rq_ss_find(file->name, true), there ? there : file->text);
        if (there)
            assert_string_not_equal(there, file->text);
        own += there != NULL;
    }
    assert_non_null(rq_sql_find(rq_sql_babelfish, "claim"));
    assert_non_null(rq_sql_find(rq_sql_babelfish, "schema"));
    assert_null(rq_sql_find(rq_sql_babelfish, "complete"));
    assert_null(rq_ss_find("missing", false));
    assert_null(rq_ss_find("nothing", true));
    for (const rq_sql *file = rq_sql_babelfish; file->name; file++)
        own -= strcmp(file->name, "missing") != 0;
    assert_int_equal(own, 0);                       /* and no other */
}

static void babelfish_prologues_to_the_letter(void **state)
{
    (void)state;
    static const char claim[] =
        "-- renderq: claim\n"
        "DECLARE @worker nvarchar(129) = CAST(convert_from(CAST(@P1 AS bytea), 'UTF8') AS nvarchar(129)), "
        "@token uniqueidentifier = CAST(@P2 AS uniqueidentifier), @lease_s int = CAST(@P3 AS int), "
        "@unstarted int = CAST(@P4 AS int), @batch int = CAST(@P5 AS int);\n";
    rq_queue queue = queue_of("jobs");
    conn.babelfish = true;
    const char *sql = rq_ss_sql(&conn, &queue, RQ_CLAIM, false);
    assert_memory_equal(sql, claim, sizeof claim - 1);
    assert_null(strstr(sql, "VideoRenderJobs"));
    assert_non_null(strstr(sql, "FROM [jobs]"));
}

/* A text made of nothing but the files' own characters: no parameter mark, and none that another code page lacks. */
static void texts_are_ascii_without_question_marks(void **state)
{
    conn.babelfish = *state != NULL;
    rq_queue queue = queue_of("jobs");
    for (int id = 0; id < RQ_STATEMENTS; id++)
        for (int many = 0; many <= (int)rq_statements[id].many; many++)
            for (const char *c = rq_ss_sql(&conn, &queue, (rq_statement_id)id, many); *c; c++) {
                assert_true(*c == '\n' || (*c >= ' ' && *c <= '~'));
                assert_int_not_equal(*c, '?');
            }
}

static void a_text_is_made_once(void **state)
{
    (void)state;
    rq_queue queue = queue_of("jobs"), other = queue_of("other");
    const char *sql = rq_ss_sql(&conn, &queue, RQ_GET, false);
    assert_ptr_equal(rq_ss_sql(&conn, &queue, RQ_GET, false), sql);
    assert_ptr_not_equal(rq_ss_sql(&conn, &other, RQ_GET, false), sql);
    assert_ptr_not_equal(rq_ss_sql(&conn, &queue, RQ_RESUME, false), sql);
    assert_ptr_not_equal(rq_ss_sql(&conn, &queue, RQ_ENQUEUE, true), rq_ss_sql(&conn, &queue, RQ_ENQUEUE, false));
    assert_ptr_equal(rq_ss_sql(&conn, &queue, RQ_GET, false), sql);
}

static void a_program_with_many_queues_does_not_grow(void **state)
{
    (void)state;
    for (int i = 0; i < SS_TEXTS_MAX + 10; i++) {
        char name[20];
        snprintf(name, sizeof name, "q%d", i);
        rq_queue queue = queue_of(name);
        assert_non_null(rq_ss_sql(&conn, &queue, RQ_GET, false));
        assert_true(conn.n_texts <= SS_TEXTS_MAX);
    }
    assert_int_equal(conn.n_texts, 10);
}

/* ---- names ---- */

static void expect_script(const char *queue_text, const char *script, const char *wanted)
{
    rq_queue queue = queue_of(queue_text);
    char *made = rq_ss_script(script, &queue);
    assert_non_null(made);
    assert_string_equal(made, wanted);
    free(made);
}

static void names_are_quoted(void **state)
{
    static const struct { const char *queue, *script, *wanted; } cases[] = {
        { "jobs", "FROM [dbo].[VideoRenderJobs] AS j", "FROM [jobs] AS j" },
        { "a.b", "FROM [dbo].[VideoRenderJobs]", "FROM [a].[b]" },
        { "[a.b].[c]", "FROM [dbo].[VideoRenderJobs]", "FROM [a.b].[c]" },
        { "[a.b.c]", "FROM [dbo].[VideoRenderJobs]", "FROM [a.b.c]" },
        { "[a]]b]", "FROM [dbo].[VideoRenderJobs];", "FROM [a]]b];" },
        { "[]]]].[]]]", "FROM [dbo].[VideoRenderJobs];", "FROM []]]].[]]];" },
        { "[x[y]", "[dbo].[VideoRenderJobs]", "[x[y]" },
        { "[x; DROP TABLE y --]", "DELETE [dbo].[VideoRenderJobs]", "DELETE [x; DROP TABLE y --]" },
        { UMLAUT EMOJI, "[dbo].[VideoRenderJobs]", "[" UMLAUT EMOJI "]" },
        /* what is made of the name */
        { "a.b", "INDEX [VideoRenderJobs_Queued] ON [dbo].[VideoRenderJobs] (c)", "INDEX [b_Queued] ON [a].[b] (c)" },
        { "[a].[b]]]", "[dbo].[VideoRenderJobs_Watchdog]", "[a].[b]]_Watchdog]" },
        { "b", "[dbo].[VideoRenderJobs_Watchdog]", "[b_Watchdog]" },
        /* in a literal its quotes are doubled, elsewhere they are not */
        { "[it's]", "N'[dbo].[VideoRenderJobs]', [dbo].[VideoRenderJobs]", "N'[it''s]', [it's]" },
        { "[o'a].[b'']", "N'[dbo].[VideoRenderJobs_X]'", "N'[o''a].[b''''_X]'" },
        { "[q']", "N'[VideoRenderJobs_Queued]'", "N'[q''_Queued]'" },
        { "[x'); DROP TABLE y; --]", "N'[dbo].[VideoRenderJobs]'", "N'[x''); DROP TABLE y; --]'" },
        /* what is not the name stays */
        { "b", "[VideoRenderJobs] [VideoRenderJobs2_x] [dbo].[VideoRenderJobs2] [dbo].[Other] VideoRenderJobs",
          "[VideoRenderJobs] [VideoRenderJobs2_x] [dbo].[VideoRenderJobs2] [dbo].[Other] VideoRenderJobs" },
        { "b", "", "" }, { "b", "[", "[" }, { "b", "[dbo].[VideoRenderJobs", "[dbo].[VideoRenderJobs" },
        /* a name that looks like the files' own is put in once */
        { "[[dbo].[VideoRenderJobs]]]", "[dbo].[VideoRenderJobs]", "[[dbo].[VideoRenderJobs]]]" },
    };
    (void)state;
    for (size_t i = 0; i < count_of(cases); i++)
        expect_script(cases[i].queue, cases[i].script, cases[i].wanted);
}

/* A name of n times `part` between `before` and `after`. */
static const char *name_of(const char *before, const char *part, size_t n, const char *after)
{
    static char names[2][2000];
    static size_t turn;
    char *name = names[turn++ % 2];
    snprintf(name, sizeof names[0], "%s%s%s", before, repeat(part, n), after);
    return name;
}

static void long_names_are_cut_to_make_room(void **state)
{
    (void)state;
    expect_script(repeat("x", 128), "[dbo].[VideoRenderJobs]", name_of("[", "x", 128, "]"));
    expect_script(repeat("x", 128), "[VideoRenderJobs_Queued]", name_of("[", "x", 121, "_Queued]"));
    expect_script(repeat("x", 121), "[VideoRenderJobs_Queued]", name_of("[", "x", 121, "_Queued]"));
    expect_script(name_of("s.", "x", 128, ""), "[dbo].[VideoRenderJobs_Watchdog]", name_of("[s].[", "x", 119, "_Watchdog]"));
    /* 64 emoji are 128 units; 121 are left, and there is no half of one */
    expect_script(repeat(EMOJI, 64), "[VideoRenderJobs_Queued]", name_of("[", EMOJI, 60, "_Queued]"));
    expect_script(name_of("x", EMOJI, 63, ""), "[VideoRenderJobs_Queued]", name_of("[x", EMOJI, 60, "_Queued]"));
    /* a doubled ] counts once */
    expect_script(name_of("[", "]]", 128, "]"), "[VideoRenderJobs_Queued]", name_of("[", "]]", 121, "_Queued]"));
}

/* ---- parameters ---- */

#define ID "00112233-4455-6677-8899-AABBCCDDEEFF"

static void params_of(rq_statement_id id, const rq_value *values, ss_param *params, char **room)
{
    memset(params, 0x5A, RQ_PARAMS_MAX * sizeof *params);
    assert_true(rq_ss_params(&rq_statements[id], values, conn.babelfish, params, room));
}

static void expect_bytes(const ss_param *param, const void *bytes, size_t len)
{
    assert_non_null(param->bytes);
    assert_int_equal(param->len, (CS_INT)len);
    assert_memory_equal(param->bytes, bytes, len);
}

static void the_bytes_of_values(void **state)
{
    static const unsigned char composition[] = { 'a', 0, 0xE4, 0, 0xAC, 0x20, 0x3D, 0xD8, 0x00, 0xDE };
    static const unsigned char last[] = { 0xFF, 0xDB, 0xFF, 0xDF, 0x01, 0x00 };
    (void)state;
    ss_param params[RQ_PARAMS_MAX];
    char *room;
    rq_guid id;
    assert_true(rq_guid_parse(ID, &id));
    rq_value values[] = {
        rq_guid_value(&id), rq_text("a" UMLAUT "\xE2\x82\xAC" EMOJI), rq_text(""), rq_text(NULL),
        rq_text("\xF4\x8F\xBF\xBF\x01"), rq_number(-2147483647 - 1), { .present = false }, rq_number(INT64_MIN)
    };
    assert_int_equal(count_of(values), rq_statements[RQ_ENQUEUE].n_params);
    params_of(RQ_ENQUEUE, values, params, &room);

    assert_int_equal(params[0].type, CS_LONGCHAR_TYPE);
    expect_bytes(&params[0], ID, 36);
    assert_int_equal(params[1].type, CS_IMAGE_TYPE);
    expect_bytes(&params[1], composition, sizeof composition);
    assert_int_equal(params[2].type, CS_IMAGE_TYPE);
    expect_bytes(&params[2], "", 0);                        /* empty is not NULL */
    assert_int_equal(params[3].type, CS_IMAGE_TYPE);
    assert_null(params[3].bytes);
    assert_int_equal(params[3].len, 0);
    expect_bytes(&params[4], last, sizeof last);            /* U+10FFFF */
    assert_int_equal(params[5].type, CS_INT_TYPE);
    CS_INT number;
    assert_non_null(params[5].bytes);
    memcpy(&number, params[5].bytes, sizeof number);
    assert_true(number == -2147483647 - 1);
    assert_int_equal(params[6].type, CS_INT_TYPE);
    assert_null(params[6].bytes);
    assert_int_equal(params[7].type, CS_BIGINT_TYPE);
    CS_BIGINT large;
    assert_non_null(params[7].bytes);
    memcpy(&large, params[7].bytes, sizeof large);
    assert_true(large == INT64_MIN);
    free(room);
}

/* Babelfish's prologue reads UTF-8: the very bytes, of every kind. */
static void the_bytes_of_texts_for_babelfish(void **state)
{
    (void)state;
    ss_param params[RQ_PARAMS_MAX];
    char *room, odd[] = "'';--\n\\\"\x01\x7f?@P1[]" UMLAUT EMOJI "\xF4\x8F\xBF\xBF";
    char long_text[3001];
    memset(long_text, 'x', sizeof long_text);
    rq_value values[8] = { { .present = false }, rq_text(odd), rq_text(""), rq_text(NULL),
                           rq_bytes(long_text, sizeof long_text), rq_number(7), { .present = false }, rq_number(-8) };
    conn.babelfish = true;
    params_of(RQ_ENQUEUE, values, params, &room);
    for (size_t i = 1; i <= 4; i++)
        assert_int_equal(params[i].type, CS_IMAGE_TYPE);
    expect_bytes(&params[1], odd, strlen(odd));
    expect_bytes(&params[2], "", 0);                        /* empty is not NULL */
    assert_null(params[3].bytes);
    expect_bytes(&params[4], long_text, sizeof long_text);
    CS_INT number;
    memcpy(&number, params[5].bytes, sizeof number);
    assert_int_equal(number, 7);
    assert_int_equal((uintptr_t)params[7].bytes % sizeof(CS_BIGINT), 0);
    free(room);
}

static void bits_and_nulls(void **state)
{
    (void)state;
    ss_param params[RQ_PARAMS_MAX];
    char *room;
    for (int64_t bit = 0; bit <= 1; bit++) {
        rq_value values[5] = { { .present = false }, { .present = false }, rq_text("why"), rq_number(bit) };
        params_of(RQ_FAIL, values, params, &room);
        assert_int_equal(params[1].type, CS_LONGCHAR_TYPE);
        assert_null(params[1].bytes);
        assert_int_equal(params[3].type, CS_BIT_TYPE);
        assert_non_null(params[3].bytes);
        assert_int_equal(*(const unsigned char *)params[3].bytes, bit);
        assert_null(params[4].bytes);
        free(room);
    }
}

static void a_statement_without_parameters(void **state)
{
    (void)state;
    ss_param params[RQ_PARAMS_MAX];
    char *room;
    params_of(RQ_STATS, NULL, params, &room);
    free(room);
}

/* Every length, odd ones too, so that what lies behind it is aligned, and a sanitizer sees the room's end. */
static void texts_of_every_length(void **state)
{
    (void)state;
    char text[70];
    memset(text, 'x', sizeof text);
    for (size_t len = 0; len <= sizeof text; len++) {
        ss_param params[RQ_PARAMS_MAX];
        char *room;
        rq_value values[8] = { { .present = false }, rq_bytes(text, len), rq_bytes(text, len), rq_bytes(text, len),
                               rq_bytes(text, len), rq_number(1), rq_number(2), rq_number(3) };
        params_of(RQ_ENQUEUE, values, params, &room);
        for (size_t i = 1; i <= 4; i++)
            assert_int_equal(params[i].len, (CS_INT)(2 * len));
        assert_int_equal((uintptr_t)params[7].bytes % sizeof(CS_BIGINT), 0);
        free(room);
    }
}

/* ---- many items ---- */

static void expect_items(rq_statement_id id, const rq_value *values, size_t n, const char *json)
{
    ss_param param;
    char *room;
    bool fits = false;
    unsigned char *wanted = malloc(2 * strlen(json) + 1);
    assert_non_null(wanted);
    size_t len = conn.babelfish ? strlen(json) : rq_utf16le(json, strlen(json), wanted);
    if (conn.babelfish)
        memcpy(wanted, json, len);
    assert_true(rq_ss_items(&rq_statements[id], values, n, conn.babelfish, &param, &room, &fits));
    assert_int_equal(param.type, CS_IMAGE_TYPE);
    if (param.len != (CS_INT)len || memcmp(param.bytes, wanted, len) != 0)
        for (CS_INT i = 0; i < param.len; i += 2)
            print_error("%c", ((const char *)param.bytes)[i]);
    expect_bytes(&param, wanted, len);
    free(wanted);
    free(room);
}

static void items_are_json(void **state)
{
    (void)state;
    rq_guid id, token;
    assert_true(rq_guid_parse(ID, &id));
    assert_true(rq_guid_parse("FFEEDDCC-BBAA-9988-7766-554433221100", &token));
    rq_value values[] = {
        rq_guid_value(&id), rq_guid_value(&token), rq_text("a\"b\\c/d"),
        rq_guid_value(&token), rq_guid_value(&id), rq_text(NULL),
        rq_guid_value(&id), rq_guid_value(&id), rq_text("")
    };
    expect_items(RQ_COMPLETE, values, 3,
                 "[{\"i\":0,\"id\":\"" ID "\",\"token\":\"FFEEDDCC-BBAA-9988-7766-554433221100\","
                 "\"output_url\":\"a\\u0022b\\u005cc/d\"},"
                 "{\"i\":1,\"id\":\"FFEEDDCC-BBAA-9988-7766-554433221100\",\"token\":\"" ID "\",\"output_url\":null},"
                 "{\"i\":2,\"id\":\"" ID "\",\"token\":\"" ID "\",\"output_url\":\"\"}]");
}

static void items_of_every_type(void **state)
{
    conn.babelfish = *state != NULL;
    rq_guid id;
    assert_true(rq_guid_parse(ID, &id));
    rq_value values[] = {
        rq_guid_value(&id), rq_text("\x01\x1f\t\r\n\x7f"), rq_text(UMLAUT "\xE2\x80\xA8" EMOJI), { .present = false },
        rq_text("'];--"), rq_number(-5), rq_number(0), rq_number(INT64_MAX),
        rq_guid_value(&id), rq_text("{\"a\":1}"), rq_text("[]"), rq_text(""),
        { .present = false }, rq_number(2147483647), { .present = false }, rq_number(INT64_MIN)
    };
    expect_items(RQ_ENQUEUE, values, 2,
                 "[{\"i\":0,\"id\":\"" ID "\",\"composition_id\":\"\\u0001\\u001f\\u0009\\u000d\\u000a\x7f\","
                 "\"payload\":\"" UMLAUT "\xE2\x80\xA8" EMOJI "\",\"output_url\":null,\"dedup_key\":\"'];--\","
                 "\"priority\":-5,\"max_retries\":0,\"delay_ms\":9223372036854775807},"
                 "{\"i\":1,\"id\":\"" ID "\",\"composition_id\":\"{\\u0022a\\u0022:1}\",\"payload\":\"[]\","
                 "\"output_url\":\"\",\"dedup_key\":null,\"priority\":2147483647,\"max_retries\":null,"
                 "\"delay_ms\":-9223372036854775808}]");
}

/* The prologue's one parameter is of that type too. */
static void items_are_sent_as_one_text(void **state)
{
    (void)state;
    rq_value values[2000];
    rq_guid id;
    assert_true(rq_guid_parse(ID, &id));
    for (size_t i = 0; i < count_of(values); i++)
        values[i] = rq_guid_value(&id);
    ss_param param;
    char *room;
    bool fits = false;
    assert_true(rq_ss_items(&rq_statements[RQ_STARTED], values, 1000, false, &param, &room, &fits));
    assert_int_equal(param.type, CS_IMAGE_TYPE);
    static const unsigned char start[] = { '[', 0, '{', 0, '"', 0, 'i', 0, '"', 0, ':', 0, '0', 0, ',', 0 };
    assert_memory_equal(param.bytes, start, sizeof start);
    assert_memory_equal((const char *)param.bytes + param.len - 4, "}\0]", 4);
    free(room);
}

/* ---- scripts ---- */

enum { BATCHES_MAX = 40 };
static char *sent[BATCHES_MAX];
static size_t n_sent;
static size_t fail_at;

renderq_status __wrap_rq_ss_request(ss_conn *to, const char *sql, const ss_param *params, size_t n, ss_rows *rows,
                                    const char *doing);
renderq_status __wrap_rq_ss_request(ss_conn *to, const char *sql, const ss_param *params, size_t n, ss_rows *rows,
                                    const char *doing)
{
    assert_ptr_equal(to, &conn);
    assert_null(params);
    assert_null(rows);
    assert_int_equal(n, 0);
    assert_string_equal(doing, "making the queue");
    assert_true(n_sent < BATCHES_MAX);
    sent[n_sent] = strdup(sql);
    assert_non_null(sent[n_sent++]);
    return n_sent == fail_at ? RENDERQ_DENIED : RENDERQ_OK;
}

static void clear_sent(void)
{
    while (n_sent > 0)
        free(sent[--n_sent]);
}

static bool is_blank(const char *text, size_t len)
{
    return strspn(text, " \t\r\n") >= len;
}

/* The schema cut at its lines GO, by hand: what is sent is that, in order, with a line in front. */
static void a_script_is_split_at_go(void **state)
{
    static const char head[] = "-- renderq: schema\n";
    (void)state;
    rq_queue queue = queue_of("dbo.VideoRenderJobs");
    const char *script = rq_sql_find(rq_sql_sqlserver, "schema");
    fail_at = 0;
    assert_int_equal(rq_sqlserver_driver.create(&conn.base, &queue), RENDERQ_OK);
    assert_true(n_sent > 3);
    size_t i = 0;
    while (*script) {
        const char *go = strncmp(script, "GO\n", 3) == 0 ? script - 1 : strstr(script, "\nGO\n");
        size_t len = go ? (size_t)(go + 1 - script) : strlen(script);
        if (!is_blank(script, len)) {
            assert_true(i < n_sent);
            assert_memory_equal(sent[i], head, sizeof head - 1);
            assert_int_equal(strlen(sent[i]), sizeof head - 1 + len);
            assert_memory_equal(sent[i] + sizeof head - 1, script, len);
            i++;
        }
        script += len + (go ? 3 : 0);
    }
    assert_int_equal(i, n_sent);
    clear_sent();
}

/* sqlcmd takes `go`, ` GO` and `GO 5` for the end of a batch too; we do not, so the scripts have none of these. */
static void no_other_line_ends_a_batch_for_sqlcmd(void **state)
{
    size_t ends = 0;
    for (const rq_sql *file = *state ? rq_sql_babelfish : rq_sql_sqlserver; file->name; file++)
        for (const char *line = file->text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
            const char *word = line + strspn(line, " \t");
            if (strncasecmp(word, "GO", 2) != 0 || !strchr(" \t\r\n;0123456789", word[2]))
                continue;
            if (strncmp(line, "GO\n", 3) != 0)
                print_error("%s.sql: %.20s\n", file->name, line);
            assert_memory_equal(line, "GO\n", 3);
            ends++;
        }
    assert_true(ends > 3);
}

static void a_script_ends_where_it_fails(void **state)
{
    (void)state;
    rq_queue queue = queue_of("jobs");
    fail_at = 2;
    assert_int_equal(rq_sqlserver_driver.create(&conn.base, &queue), RENDERQ_DENIED);
    assert_int_equal(n_sent, 2);
    clear_sent();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_statement_has_its_prologue, forget),
        cmocka_unit_test_prestate_setup_teardown(every_statement_has_its_prologue, NULL, forget, &conn),
        cmocka_unit_test_prestate_setup_teardown(texts_are_ascii_without_question_marks, NULL, forget, &conn),
        cmocka_unit_test(babelfish_has_its_own_files),
        cmocka_unit_test_teardown(babelfish_prologues_to_the_letter, forget),
        cmocka_unit_test_teardown(a_prologue_to_the_letter, forget),
        cmocka_unit_test_teardown(texts_are_ascii_without_question_marks, forget),
        cmocka_unit_test_teardown(a_text_is_made_once, forget),
        cmocka_unit_test_teardown(a_program_with_many_queues_does_not_grow, forget),
        cmocka_unit_test(names_are_quoted),
        cmocka_unit_test(long_names_are_cut_to_make_room),
        cmocka_unit_test(the_bytes_of_values),
        cmocka_unit_test_teardown(the_bytes_of_texts_for_babelfish, forget),
        cmocka_unit_test(bits_and_nulls),
        cmocka_unit_test(a_statement_without_parameters),
        cmocka_unit_test(texts_of_every_length),
        cmocka_unit_test(items_are_json),
        cmocka_unit_test(items_of_every_type),
        cmocka_unit_test_prestate_setup_teardown(items_of_every_type, NULL, forget, &conn),
        cmocka_unit_test(items_are_sent_as_one_text),
        cmocka_unit_test(a_script_is_split_at_go),
        cmocka_unit_test(no_other_line_ends_a_batch_for_sqlcmd),
        cmocka_unit_test_prestate(no_other_line_ends_a_batch_for_sqlcmd, &conn),
        cmocka_unit_test(a_script_ends_where_it_fails),
    };
    return cmocka_run_group_tests_name("sqlserver_sql", tests, NULL, NULL);
}
