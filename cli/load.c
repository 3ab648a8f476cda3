/* load.c: JSON lines from a file or a pipe into the queue, in batches. What one line means is record.c's. */
#include "load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "json.h"
#include "record.h"
#include "signals.h"
#include "text.h"

#define BATCH         500
#define BATCH_BYTES   16777216              /* a batch of large payloads is sent sooner */
#define REDRAW_MS     100

typedef struct entry {
    int64_t line;
    record record;
    char *why;                              /* not NULL: it is bad, and `record` is empty */
} entry;

typedef struct load {
    cli *c;
    FILE *in;
    const char *name;                       /* of the file, for messages */
    int64_t size;                           /* of it in bytes; 0: not known */
    int64_t line, read;                     /* lines and bytes so far */
    entry entries[BATCH];                   /* the batch in hand */
    size_t n, bytes;
    int64_t queued, duplicates, bad;
    int64_t settled;                        /* every line up to here has been dealt with */
    json_list list;
    int64_t drawn_at;                       /* progress: 0: nothing stands there */
    bool draws;
} load;

/* ---- progress ---- */

static void bar_hide(load *l)
{
    if (l->drawn_at)
        fputs("\r\033[K", stderr);
    l->drawn_at = 0;
}

static void bar_fill(const load *l, size_t width)
{
    int64_t filled = l->read >= l->size ? (int64_t)width : (int64_t)width * l->read / l->size;
    fputc('[', stderr);
    for (int64_t i = 0; i < (int64_t)width; i++)
        fputc(i < filled ? '#' : ' ', stderr);
    fprintf(stderr, "] %3d%% ", (int)(l->read >= l->size ? 100 : 100 * l->read / l->size));
}

static void bar_draw(load *l)
{
    if (!l->draws || (l->drawn_at && clock_ms() - l->drawn_at < REDRAW_MS))
        return;
    char text[100];
    int len = snprintf(text, sizeof text, "%" PRId64 " jobs", l->queued + l->duplicates);
    if (l->bad > 0)
        len += snprintf(text + len, sizeof text - (size_t)len, ", %" PRId64 " bad", l->bad);
    size_t columns = terminal_columns(STDERR_FILENO), used = (size_t)len + sizeof "[]  100% ";
    fputc('\r', stderr);
    if (l->size > 0 && columns > used + 5)
        bar_fill(l, columns - used > 50 ? 50 : columns - used);
    /* In the last column a terminal may go to the next line. */
    fprintf(stderr, "%.*s\033[K", columns > 1 ? (int)columns - 1 : len, text);
    fflush(stderr);
    l->drawn_at = clock_ms();
}

/* ---- what became of a record ---- */

static void tell(load *l, int64_t line, const renderq_enqueued *result, const char *error)
{
    if (result->status == RENDERQ_OK)
        l->queued++;
    else if (result->status == RENDERQ_DUPLICATE)
        l->duplicates++;
    else
        l->bad++;
    if (error) {
        char *clean = text_clean(error);
        bar_hide(l);
        fprintf(stderr, "%s:%" PRId64 ": %s\n", l->name, line, clean);
        free(clean);
    }
    if (!l->c->json)
        return;
    json_t *object = json_object();
    json_object_set_new(object, "line", json_integer(line));
    json_object_set_new(object, "id", json_text(error ? NULL : result->id.text));
    json_object_set_new(object, "status", json_text(renderq_strstatus(result->status)));
    if (error)
        json_object_set_new(object, "error", json_text(error));
    json_list_add(&l->list, object);
}

/* ---- a batch ---- */

static void drop_batch(load *l)
{
    for (size_t i = 0; i < l->n; i++) {
        record_free(&l->entries[i].record);
        free(l->entries[i].why);
    }
    l->n = l->bytes = 0;
}

/* Whether a failure can be one record's fault, and not the whole queue's. */
static bool may_be_one(const load *l, renderq_status status)
{
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    return status == RENDERQ_INVALID
           || (status == RENDERQ_SCHEMA && renderq_stats(l->c->h, l->c->queue, &counts) == RENDERQ_OK);
}

/* One by one: each bad record gets its own text, and the good ones go in. */
static renderq_status send_singly(load *l)
{
    for (size_t i = 0; i < l->n; i++) {
        const entry *e = &l->entries[i];
        renderq_enqueued result = RENDERQ_INIT(renderq_enqueued);
        result.status = e->why ? RENDERQ_INVALID : renderq_enqueue(l->c->h, &e->record.job, &result.id);
        bool taken = result.status == RENDERQ_OK || result.status == RENDERQ_DUPLICATE;
        char *why = taken ? NULL : must_copy(e->why ? e->why : renderq_errmsg(l->c->h));
        bool goes_on = taken || may_be_one(l, result.status);
        if (goes_on) {
            tell(l, e->line, &result, why);
            l->settled = e->line;
        }
        free(why);
        if (!goes_on)
            return result.status;
    }
    return RENDERQ_OK;
}

static renderq_status send_batch(load *l)
{
    static renderq_new_job jobs[BATCH];
    static renderq_enqueued results[BATCH];
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        if (!l->entries[i].why) {
            results[n] = (renderq_enqueued)RENDERQ_INIT(renderq_enqueued);
            jobs[n++] = l->entries[i].record.job;
        }
    renderq_status status = renderq_enqueue_many(l->c->h, jobs, n, results);
    if (status != RENDERQ_OK)
        return may_be_one(l, status) ? send_singly(l) : status;
    n = 0;
    for (size_t i = 0; i < l->n; i++) {
        const entry *e = &l->entries[i];
        renderq_enqueued bad = { .size = sizeof bad, .status = RENDERQ_INVALID };
        tell(l, e->line, e->why ? &bad : &results[n], e->why);
        n += !e->why;
    }
    return RENDERQ_OK;
}

static renderq_status flush_batch(load *l)
{
    renderq_status status = l->n > 0 ? send_batch(l) : RENDERQ_OK;
    if (status == RENDERQ_OK)
        l->settled = l->line;
    drop_batch(l);
    bar_draw(l);
    return status;
}

/* ---- lines ---- */

static renderq_status take_line(load *l, const char *text, size_t len)
{
    char why[512];
    if (l->line == 1 && len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;                          /* some editors begin a file like this */
        len -= 3;
    }
    if (strspn(text, " \t\r\n") == len)
        return RENDERQ_OK;
    entry *e = &l->entries[l->n++];
    *e = (entry){ .line = l->line };
    if (record_read(text, len, &e->record, why, sizeof why))
        e->record.job.queue = l->c->queue;
    else
        e->why = must_copy(why);
    l->bytes += len;
    return l->n == BATCH || l->bytes >= BATCH_BYTES ? flush_batch(l) : RENDERQ_OK;
}

static renderq_status read_lines(load *l)
{
    char *text = NULL;
    size_t room = 0;
    ssize_t len;
    renderq_status status = RENDERQ_OK;
    while (status == RENDERQ_OK && stops_asked() == 0 && (len = getline(&text, &room, l->in)) >= 0) {
        l->line++;
        l->read += len;
        status = take_line(l, text, (size_t)len);
        bar_draw(l);
    }
    free(text);
    return status;
}

/* ---- the end ---- */

static void print_summary(const load *l)
{
    if (l->c->json) {
        json_list_end(&l->list);
        return;
    }
    printf("%" PRId64 " queued", l->queued);
    if (l->duplicates > 0)
        printf(", %" PRId64 " there already", l->duplicates);
    if (l->bad > 0)
        printf(", %" PRId64 " bad", l->bad);
    putchar('\n');
}

static exit_code stopped(const load *l, renderq_status status, exit_code code)
{
    if (status == RENDERQ_UNCERTAIN)
        complain(l->c, "%s: lines %" PRId64 " to %" PRId64 " may be in the queue, the later ones are not", l->name,
                 l->settled + 1, l->line);
    else if (l->in == stdin)
        complain(l->c, "%s: nothing behind line %" PRId64 " is in the queue", l->name, l->settled);
    else
        complain(l->c, "%s: nothing behind line %" PRId64 " is in the queue; to go on: tail -n +%" PRId64
                 " %s | renderq enqueue", l->name, l->settled, l->settled + 1, l->name);
    return code;
}

static exit_code load_all(load *l)
{
    renderq_status status = read_lines(l);
    int number = ferror(l->in) ? errno : 0;
    if (status == RENDERQ_OK)
        status = flush_batch(l);
    bar_hide(l);
    exit_code code = l->bad > 0 ? CODE_NOT_DONE : CODE_DONE;
    bool ended = status == RENDERQ_OK && number == 0 && stops_asked() == 0;
    if (status != RENDERQ_OK)
        code = complain_status(l->c, status);
    else if (stops_asked() > 0)
        code = CODE_NOT_DONE;
    else if (number) {
        complain(l->c, "%s cannot be read: %s", l->name, strerror(number));
        code = CODE_NO_INPUT;
    }
    print_summary(l);
    return ended ? code : stopped(l, status, code);
}

exit_code load_file(cli *c, const char *path)
{
    bool is_stdin = strcmp(path, "-") == 0;
    struct stat file;
    load *l = must_alloc(NULL, sizeof *l);
    memset(l, 0, sizeof *l);
    l->c = c;
    l->name = is_stdin ? "stdin" : path;
    l->in = is_stdin ? stdin : fopen(path, "r");
    l->draws = isatty(STDERR_FILENO);
    exit_code code = CODE_NO_INPUT;
    if (!l->in || fstat(fileno(l->in), &file) != 0) {
        complain(c, "%s cannot be read: %s", path, strerror(errno));
    } else if (S_ISDIR(file.st_mode)) {
        complain(c, "%s is a folder", path);
    } else {
        l->size = S_ISREG(file.st_mode) ? (int64_t)file.st_size : 0;
        code = open_queue(c, NULL);
        if (code == CODE_DONE) {
            catch_signals(c->h);
            code = load_all(l);
            interrupt_handle(NULL);
        }
    }
    if (l->in && !is_stdin)
        fclose(l->in);
    free(l);
    return code;
}
