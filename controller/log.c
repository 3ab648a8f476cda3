/* log.c: lines for people, and times. See log.h. */
#include "log.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../cli/text.h"

#define SELDOM_MS 10000

/* ---- lines that nobody waits for ---- */

/* One at a time, or two threads would share the room that there is for one. */
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static size_t left_out[STDERR_FILENO + 1];

/* A pipe that is not full takes PIPE_BUF bytes at once; its flags are not ours alone, so they stay as they are. */
static bool write_now(int fd, const char *text, size_t len)
{
    struct pollfd room = { .fd = fd, .events = POLLOUT };
    return poll(&room, 1, 0) > 0 && write(fd, text, len) == (ssize_t)len;
}

static bool tell_left_out(int fd)
{
    char line[128];
    if (!left_out[fd])
        return true;
    int len = snprintf(line, sizeof line, "renderq-controller: %zu lines were left out here: they could not be written\n",
                       left_out[fd]);
    if (!write_now(fd, line, (size_t)len))
        return false;
    left_out[fd] = 0;
    return true;
}

/* In one write, so that lines stay apart. A log that cannot be written is no reason to wait, nor to stop. */
static void write_line(int fd, char *line, size_t room, int len)
{
    size_t n = len < 0 ? 0 : (size_t)len < room - 1 ? (size_t)len : room - 2;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    line[n++] = '\n';
    pthread_mutex_lock(&writing);
    if (!tell_left_out(fd) || !write_now(fd, line, n))
        left_out[fd]++;
    pthread_mutex_unlock(&writing);
}

/* ---- what is said ---- */

static void say_args(const char *format, va_list args)
{
    char line[PIPE_BUF];
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

/* What a client sent, in ASCII that no terminal obeys. */
static const char *harmless(const char *text, char *out, size_t size)
{
    size_t n = 0;
    for (; *text && n + sizeof "\\xff" <= size; text++) {
        unsigned char c = (unsigned char)*text;
        if (c > ' ' && c < 0x7f)
            out[n++] = *text;
        else
            n += (size_t)snprintf(out + n, size - n, "\\x%02x", c);
    }
    out[n] = 0;
    return out;
}

void log_access(const access_line *line)
{
    char text[1024], at[TIME_SIZE], method[64], path[600];
    int len = snprintf(text, sizeof text, "%s %s %s %s %u %zu %.1fms%s%s", time_text(wall_ms(), at), line->address,
                       harmless(line->method, method, sizeof method), harmless(line->path, path, sizeof path),
                       line->code, line->bytes, (double)line->took_us / 1000,
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
