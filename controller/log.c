/* log.c: lines for people, and times. See log.h. */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../cli/text.h"

#define SELDOM_MS 10000

/* In one write, so that the lines of several threads stay apart. */
static void write_line(int fd, char *line, size_t room, int len)
{
    size_t n = len < 0 ? 0 : (size_t)len < room - 1 ? (size_t)len : room - 2;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    line[n++] = '\n';
    ssize_t written = write(fd, line, n);
    (void)written;                      /* a log that cannot be written is no reason to stop */
}

static void say_args(const char *format, va_list args)
{
    char line[4096];
    int head = snprintf(line, sizeof line, "renderq-controller: ");
    int len = vsnprintf(line + head, sizeof line - (size_t)head, format, args);
    write_line(STDERR_FILENO, line, sizeof line, len < 0 ? head : head + len);
}

void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_args(format, args);
    va_end(args);
}

void say_seldom(int64_t *last, const char *format, ...)
{
    int64_t now = clock_ms();
    if (*last && now - *last < SELDOM_MS)
        return;
    *last = now;
    va_list args;
    va_start(args, format);
    say_args(format, args);
    va_end(args);
}

void log_access(const access_line *line)
{
    char text[1024], at[TIME_SIZE];
    int len = snprintf(text, sizeof text, "%s %s %s %.600s %u %zu %.1fms%s%s", time_text(wall_ms(), at), line->address,
                       line->method, line->path, line->code, line->bytes, (double)line->took_us / 1000,
                       line->note ? " " : "", line->note ? line->note : "");
    write_line(STDOUT_FILENO, text, sizeof text, len);
}

int64_t clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_ms(void)
{
    return clock_us() / 1000;
}

int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void *must_alloc(void *memory, size_t size)
{
    void *made = realloc(memory, size ? size : 1);
    if (!made) {
        say("out of memory");
        _exit(1);
    }
    return made;
}

char *must_copy(const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(must_alloc(NULL, size), text, size);
}
