/* text.c: texts made fit for a terminal. See text.h. What is written is UTF-8, as everything in the queue is. */
#include "text.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "cli.h"

#define REPLACEMENT "\xef\xbf\xbd"      /* U+FFFD */
#define ELLIPSIS    "\xe2\x80\xa6"      /* U+2026 */

/* ---- code points ---- */

/* Reads one code point; 0 bytes at the end, and *point -1 for a byte that is not UTF-8. */
static size_t read_point(const char *text, int32_t *point)
{
    static const struct { unsigned char mask, lead; int32_t least; } forms[] = {
        { 0x80, 0x00, 0 }, { 0xe0, 0xc0, 0x80 }, { 0xf0, 0xe0, 0x800 }, { 0xf8, 0xf0, 0x10000 }
    };
    const unsigned char *bytes = (const unsigned char *)text;
    size_t more = 0;
    *point = -1;
    if (!*bytes)
        return 0;
    while (more < 4 && (*bytes & forms[more].mask) != forms[more].lead)
        more++;
    if (more == 4)
        return 1;
    int32_t value = *bytes & ~forms[more].mask & 0xff;
    for (size_t i = 1; i <= more; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 1;
        value = value << 6 | (bytes[i] & 0x3f);
    }
    if (value < forms[more].least || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return 1;
    *point = value;
    return more + 1;
}

static bool is_blank(int32_t point)
{
    return (point >= 0x09 && point <= 0x0d) || point == 0x85 || point == 0x2028 || point == 0x2029;
}

static bool is_harmful(int32_t point)
{
    return point < 0x20 || (point >= 0x7f && point < 0xa0)
           || point == 0x200e || point == 0x200f || point == 0x061c     /* marks that turn the direction ... */
           || (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

static size_t point_width(int32_t point)
{
    static bool ready;
    /* wcwidth() asks the locale; this one is there everywhere, and what we write is UTF-8 in any case. */
    if (!ready && !setlocale(LC_CTYPE, "C.UTF-8"))
        setlocale(LC_CTYPE, "");
    ready = true;
    int width = wcwidth((wchar_t)point);
    return width < 0 ? 1 : (size_t)width;
}

static char *clean(const char *text, bool keep_lines)
{
    /* A bad byte becomes three. */
    char *made = must_alloc(NULL, strlen(text) * (sizeof REPLACEMENT - 1) + 1), *out = made;
    int32_t point;
    for (size_t len; (len = read_point(text, &point)) > 0; text += len) {
        if (keep_lines && point == '\n') {
            *out++ = '\n';
        } else if (is_blank(point)) {
            *out++ = ' ';
        } else if (is_harmful(point)) {
            memcpy(out, REPLACEMENT, sizeof REPLACEMENT - 1);
            out += sizeof REPLACEMENT - 1;
        } else {
            memcpy(out, text, len);
            out += len;
        }
    }
    *out = 0;
    return made;
}

char *text_clean(const char *text)
{
    return clean(text, false);
}

char *text_clean_lines(const char *text)
{
    return clean(text, true);
}

bool text_is_utf8(const char *text)
{
    int32_t point = 0;
    size_t len;
    while ((len = read_point(text, &point)) > 0 && point >= 0)
        text += len;
    return len == 0;
}

size_t text_units(const char *text)
{
    size_t units = 0;
    int32_t point;
    for (size_t len; (len = read_point(text, &point)) > 0; text += len)
        units += point > 0xffff ? 2 : 1;
    return units;
}

/* ---- columns ---- */

size_t text_fit(const char *text, size_t columns, size_t *width)
{
    size_t bytes = 0;
    int32_t point;
    *width = 0;
    for (size_t len; (len = read_point(text + bytes, &point)) > 0; bytes += len) {
        size_t wide = point_width(point);
        if (*width + wide > columns)
            break;
        *width += wide;
    }
    return bytes;
}

size_t text_width(const char *text)
{
    size_t width;
    text_fit(text, SIZE_MAX / 2, &width);
    return width;
}

size_t text_print(const char *text, size_t columns)
{
    size_t width, bytes = text_fit(text, columns, &width);
    bool cut = text[bytes] != 0 && columns > 0;
    if (cut)
        bytes = text_fit(text, columns - 1, &width);
    fwrite(text, 1, bytes, stdout);
    if (cut)
        fputs(ELLIPSIS, stdout);
    return width + cut;
}

size_t terminal_columns(int fd)
{
    struct winsize size = { .ws_col = 0 };
    if (!isatty(fd) || ioctl(fd, TIOCGWINSZ, &size) != 0)
        return 0;
    return size.ws_col ? size.ws_col : 80;      /* a serial line does not know */
}

size_t terminal_rows(int fd)
{
    struct winsize size = { .ws_row = 0 };
    return isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

size_t text_columns(void)
{
    const char *given = getenv("COLUMNS");
    long columns = given ? strtol(given, NULL, 10) : 0;
    return columns > 0 && columns < 10000 ? (size_t)columns : terminal_columns(STDOUT_FILENO);
}

char *text_last_line(const char *text)
{
    size_t end = strlen(text);
    while (end > 0 && strchr(" \t\r\n", text[end - 1]))
        end--;
    size_t start = end;
    while (start > 0 && text[start - 1] != '\n')
        start--;
    char *line = must_alloc(NULL, end - start + 1);
    memcpy(line, text + start, end - start);
    line[end - start] = 0;
    char *made = text_clean(line);
    free(line);
    return made;
}

/* ---- times ---- */

const char *time_text(int64_t ms, char *buffer)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts;
    char day[32];
    *buffer = 0;
    if (ms != 0 && gmtime_r(&seconds, &parts) && strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts) > 0)
        snprintf(buffer, TIME_SIZE, "%s.%03dZ", day, abs((int)(ms % 1000)));
    return buffer;
}
