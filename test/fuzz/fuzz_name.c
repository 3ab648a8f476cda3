/* fuzz_name.c: queue names. One that is accepted has two sound parts, which quoted make the same name; and in every
 * file of sql/ it stands where the default table's name did, as one name, with everything around it as it was. */
#include "fuzz.h"
#include "sqlite.h"
#include "sqlserver.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return 0;
}

/* ---- SQL as words ---- */

typedef struct word {
    const char *start;
    size_t len;
    char quote;                 /* [ " or ', whose inside is quoted; 0: none */
} word;

static const char *comment_end(const char *sql)
{
    const char *end = strncmp(sql, "--", 2) == 0 ? strchr(sql, '\n') : strstr(sql, "*/");
    HOLDS(end || *sql == '-');      /* none of the files leaves one open */
    return end ? end + (*end == '*' ? 2 : 1) : sql + strlen(sql);
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '@'
           || c == ':' || c == '$' || c == '#' || (c & 0x80);
}

/* The next word, and *sql behind it. False at the end. */
static bool next_word(const char **sql, word *out)
{
    const char *at = *sql;
    while (*at && (strchr(" \t\r\n", *at) || strncmp(at, "--", 2) == 0 || strncmp(at, "/*", 2) == 0))
        at = strchr(" \t\r\n", *at) ? at + 1 : comment_end(at);
    *out = (word){ .start = at };
    if (!*at)
        return false;
    if (strchr("['\"", *at)) {
        char closing = *at == '[' ? ']' : *at;
        out->quote = *at++;
        while (*at != closing || at[1] == closing) {
            HOLDS(*at);                             /* what was opened is closed */
            at += *at == closing ? 2 : 1;
        }
        at++;
    } else {
        at++;
        while (is_name(at[-1]) && is_name(*at))
            at++;
    }
    out->len = (size_t)(at - out->start);
    *sql = at;
    return true;
}

/* What the quotes of a word stand for, to be freed. */
static char *inside(const word *w)
{
    char closing = w->quote == '[' ? ']' : w->quote, *text = fuzz_malloc(w->len + 1), *to = text;
    for (const char *at = w->start + 1; at < w->start + w->len - 1; at++) {
        at += *at == closing;
        *to++ = *at;
    }
    *to = 0;
    return text;
}

/* ---- names ---- */

static char *quoted(const rq_name *name)
{
    char *text = fuzz_malloc(2 * sizeof *name + 8), *to = text;
    const char *const parts[] = { name->schema, name->table };
    for (size_t i = 0; i < 2; i++) {
        if (!*parts[i])
            continue;
        *to++ = '[';
        for (const char *c = parts[i]; *c; c++) {
            if (*c == ']')
                *to++ = ']';
            *to++ = *c;
        }
        *to++ = ']';
        if (i == 0)
            *to++ = '.';
    }
    *to = 0;
    return text;
}

static void check_part(const char *part)
{
    HOLDS(is_utf8(part) && rq_utf_check(part, strlen(part)).units <= RENDERQ_QUEUE_PART_MAX);
    HOLDS(!*part || part[strlen(part) - 1] != ' ');
}

static void check_name(const rq_name *name)
{
    rq_name again;
    char *text = quoted(name);
    check_part(name->schema);
    check_part(name->table);
    HOLDS(*name->table);
    HOLDS(!rq_name_parse(text, &again));
    HOLDS(same(again.schema, name->schema) && same(again.table, name->table));
    free(text);
}

/* ---- files ---- */

static const char usual[] = RQ_NAME_DEFAULT;

/* A name that begins with the default table's has the queue's in its place, on SQL Server cut to fit. */
static void check_made_name(const char *was, const char *is, const char *table, bool limited)
{
    const char *suffix = was + sizeof usual - 1;
    size_t len = strlen(is), suffix_len = strlen(suffix);
    HOLDS(is_utf8(is) && len >= suffix_len && strcmp(is + len - suffix_len, suffix) == 0);
    size_t kept = len - suffix_len, table_len = strlen(table);
    HOLDS(kept <= table_len && memcmp(is, table, kept) == 0);
    size_t units = rq_utf_check(is, len).units;
    HOLDS(limited ? units <= RENDERQ_QUEUE_PART_MAX && (kept == table_len || units + 2 > RENDERQ_QUEUE_PART_MAX)
                  : kept == table_len);
}

static void compare(const char *was, const char *is, const rq_name *name);

static void compare_inside(const word *was, const word *is, const rq_name *name)
{
    char *before = inside(was), *after = inside(is);
    if (was->quote == '\'' && *before == '[')
        compare(before, after, name);
    else if (was->quote != '\'' && strncmp(before, usual, sizeof usual - 1) == 0)
        check_made_name(before, after, name->table, was->quote == '[');
    else if (was->quote == '[' && strcmp(before, "dbo") == 0)
        HOLDS(same(after, name->schema));
    else
        HOLDS(same(before, after));
    free(before);
    free(after);
}

/* Whether the word is [dbo]. in front of the queue's name; then the dot is skipped too. */
static bool skip_schema(const word *w, const char **sql)
{
    word dot;
    if (w->quote != '[' || strncmp(w->start, "[dbo].[VideoRenderJobs", 22) != 0)
        return false;
    HOLDS(next_word(sql, &dot) && *dot.start == '.');
    return true;
}

/* Word by word: the file's own text, and the one for the queue. */
static void compare(const char *was, const char *is, const rq_name *name)
{
    word before, after;
    while (next_word(&was, &before)) {
        if (!*name->schema && skip_schema(&before, &was))
            continue;
        HOLDS(next_word(&is, &after) && before.quote == after.quote);
        if (before.quote)
            compare_inside(&before, &after, name);
        else
            HOLDS(before.len == after.len && memcmp(before.start, after.start, before.len) == 0);
    }
    HOLDS(!next_word(&is, &after));
}

static const rq_sql *pick(const rq_sql *files, size_t n)
{
    size_t count = 0;
    while (files[count].name)
        count++;
    return &files[n % count];
}

static void check_sqlserver(const rq_queue *queue, const rq_sql *files, size_t which)
{
    const rq_sql *file = pick(files, which);
    char *sql = rq_ss_script(file->text, queue);
    HOLDS(sql);
    compare(file->text, sql, &queue->name);
    free(sql);
}

/* SQLite knows one part, and no brackets stand in its files. */
static void check_sqlite(const rq_queue *queue, size_t which)
{
    const rq_sql *file = pick(rq_sql_sqlite, which);
    char *sql = rq_sqlite_for_queue(file->text, queue->name.table);
    HOLDS(sql && !strchr(file->text, '['));
    compare(file->text, sql, &queue->name);
    free(sql);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = { data, size };
    size_t which = take_byte(&in);
    char *text = take_string(&in, in.left);
    rq_queue queue = { .text = text };
    rq_name untouched;
    memset(&untouched, 0xA5, sizeof untouched);
    queue.name = untouched;
    const char *wrong = rq_name_parse(text, &queue.name);
    if (wrong) {
        HOLDS(*wrong && memcmp(&untouched, &queue.name, sizeof untouched) == 0);
    } else {
        check_name(&queue.name);
        check_sqlserver(&queue, rq_sql_sqlserver, which);
        check_sqlserver(&queue, rq_sql_babelfish, which);
        check_sqlite(&queue, which);
    }
    free(text);
    return 0;
}
