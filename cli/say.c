/* say.c: what the command says to people besides its data: errors, questions, durations in words. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text.h"

/* ---- errors ---- */

/* Error texts quote keys, names and files, which may hold anything. */
static void say(const cli *c, const char *format, va_list args, const char *hint)
{
    char text[4096];
    vsnprintf(text, sizeof text, format, args);
    char *clean = text_clean(text);
    fprintf(stderr, "renderq: %s%s%s%s\n", c->command ? c->command : "", c->command ? ": " : "", clean, hint);
    free(clean);
}

void complain(const cli *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(c, format, args, "");
    va_end(args);
}

exit_code wrong_usage(const cli *c, const char *format, ...)
{
    char hint[64];
    snprintf(hint, sizeof hint, " (see renderq%s%s --help)", c->command ? " " : "", c->command ? c->command : "");
    va_list args;
    va_start(args, format);
    say(c, format, args, hint);
    va_end(args);
    return CODE_USAGE;
}

typedef struct meaning {
    renderq_status status;
    exit_code code;
    const char *hint;               /* what the library, which knows no commands, cannot say */
} meaning;

static const meaning meanings[] = {
    { RENDERQ_OK, CODE_DONE, "" },
    { RENDERQ_EMPTY, CODE_NOTHING, "" },
    { RENDERQ_LOST, CODE_NOT_DONE, "" },
    { RENDERQ_DUPLICATE, CODE_NOT_DONE, "" },
    { RENDERQ_BUSY, CODE_UNAVAILABLE, "" },
    { RENDERQ_ABORTED, CODE_NOT_DONE, "" },
    { RENDERQ_UNCERTAIN, CODE_UNAVAILABLE, " (look with renderq list before you try again)" },
    { RENDERQ_DISCONNECTED, CODE_UNAVAILABLE, " (try again later)" },
    { RENDERQ_DENIED, CODE_DENIED, "" },
    { RENDERQ_SCHEMA, CODE_SCHEMA, "" },
    { RENDERQ_INVALID, CODE_USAGE, "" },
    { RENDERQ_NOMEM, CODE_SYSTEM, "" },
    { RENDERQ_INTERRUPTED, CODE_NOT_DONE, "" },
    { RENDERQ_FAILED, CODE_BROKEN, "" },
};

static const meaning *meaning_of(renderq_status status)
{
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (meanings[i].status == status)
            return &meanings[i];
    return &meanings[sizeof meanings / sizeof meanings[0] - 1];
}

exit_code exit_of(renderq_status status)
{
    return meaning_of(status)->code;
}

exit_code complain_text(const cli *c, renderq_status status, const char *text)
{
    complain(c, "%s%s", text, meaning_of(status)->hint);
    return exit_of(status);
}

exit_code complain_status(const cli *c, renderq_status status)
{
    return complain_text(c, status, renderq_errmsg(c->h));
}

/* ---- questions ---- */

exit_code confirm(const cli *c, bool yes, const char *format, ...)
{
    if (yes)
        return CODE_DONE;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        complain(c, "this is about many jobs, and there is no terminal to ask on: say --yes if you mean it");
        return CODE_USAGE;
    }
    char text[512], answer[16] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char *clean = text_clean(text);
    fprintf(stderr, "%s [y/N] ", clean);
    free(clean);
    if (fgets(answer, sizeof answer, stdin) && (*answer == 'y' || *answer == 'Y'))
        return CODE_DONE;
    complain(c, "nothing was done");
    return CODE_NOT_DONE;
}

/* ---- words ---- */

const char *duration_text(int64_t ms, char *buffer)
{
    static const struct { int64_t ms; const char *unit; } units[] = {
        { 86400000, "d" }, { 3600000, "h" }, { 60000, "m" }, { 1000, "s" }
    };
    if (ms < 10000) {
        snprintf(buffer, DURATION_SIZE, "%.1f s", (double)(ms > 0 ? ms : 0) / 1000);
        return buffer;
    }
    size_t i = 0;
    while (ms < units[i].ms)
        i++;
    int64_t rest = i < 3 ? ms % units[i].ms / units[i + 1].ms : 0;
    int len = snprintf(buffer, DURATION_SIZE, "%lld %s", (long long)(ms / units[i].ms), units[i].unit);
    if (rest > 0)
        snprintf(buffer + len, DURATION_SIZE - (size_t)len, " %lld %s", (long long)rest, units[i + 1].unit);
    return buffer;
}

int64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct timespec timespec_of(int64_t ms)
{
    return (struct timespec){ .tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000 };
}

void *must_alloc(void *memory, size_t size)
{
    void *larger = realloc(memory, size);
    if (!larger) {
        fputs("renderq: out of memory\n", stderr);
        exit(CODE_SYSTEM);
    }
    return larger;
}

char *must_copy(const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(must_alloc(NULL, size), text, size);
}
