/* output.c: what is kept of a program's output. See output.h. */
#include "output.h"

#include <string.h>

#include "text.h"

/* ---- the last line ---- */

static bool is_blank(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!strchr(" \t\r", bytes[i]))     /* a NUL is found, too */
            return false;
    return true;
}

static void end_line(last_line *l)
{
    if (l->now_long || !is_blank(l->now, l->now_len)) {
        memcpy(l->last, l->now, l->now_len);
        l->last_len = l->now_len;
        l->last_long = l->now_long;
    }
    l->now_len = 0;
    l->now_long = false;
}

void last_line_add(last_line *l, const char *bytes, size_t len)
{
    while (len > 0) {
        const char *end = memchr(bytes, '\n', len);
        size_t piece = end ? (size_t)(end - bytes) : len, room = sizeof l->now - 1 - l->now_len;
        memcpy(l->now + l->now_len, bytes, piece < room ? piece : room);
        l->now_long = l->now_long || piece > room;
        l->now_len += piece < room ? piece : room;
        if (end)
            end_line(l);
        piece += end != NULL;
        bytes += piece;
        len -= piece;
    }
}

const char *last_line_end(last_line *l, const char **text)
{
    end_line(l);
    size_t len = l->last_len;
    *text = NULL;
    if (l->last_long)
        return "is too long";
    if (memchr(l->last, 0, len))
        return "has a NUL in it";
    while (len > 0 && strchr(" \t\r", l->last[len - 1]))
        len--;
    l->last[len] = 0;
    if (!text_is_utf8(l->last))
        return "is not UTF-8";
    if (text_units(l->last) > RENDERQ_OUTPUT_URL_MAX)
        return "is too long";
    *text = len > 0 ? l->last : NULL;
    return NULL;
}

/* ---- the tail ---- */

void tail_add(tail *t, const char *bytes, size_t len)
{
    while (len > 0) {
        if (t->len == sizeof t->bytes) {
            memmove(t->bytes, t->bytes + sizeof t->bytes - TAIL_BYTES, TAIL_BYTES);
            t->len = TAIL_BYTES;
            t->cut = true;
        }
        size_t room = sizeof t->bytes - t->len, piece = len < room ? len : room;
        memcpy(t->bytes + t->len, bytes, piece);
        t->len += piece;
        bytes += piece;
        len -= piece;
    }
}

/* What a progress line wrote over is gone, as it would be on a terminal; NULs, which no string can hold, too. */
static size_t settle(char *bytes, size_t len)
{
    size_t to = 0, line = 0;
    for (size_t i = 0; i < len; i++) {
        bool overwritten = bytes[i] == '\r' && i + 1 < len && bytes[i + 1] != '\n' && bytes[i + 1] != '\r';
        if (overwritten)
            to = line;
        else if (bytes[i] && bytes[i] != '\r')
            bytes[to++] = bytes[i];
        if (bytes[i] == '\n')
            line = to;
    }
    return to;
}

const char *tail_end(tail *t)
{
    static const char mark[] = "\xe2\x80\xa6 ";
    if (t->len > TAIL_BYTES - sizeof mark) {
        size_t keep = TAIL_BYTES - sizeof mark;
        memmove(t->bytes, t->bytes + t->len - keep, keep);
        t->len = keep;
        t->cut = true;
    }
    if (t->cut) {
        /* It begins with a whole line, or at least with a whole character. */
        const char *end = memchr(t->bytes, '\n', t->len - (t->len > 0));
        size_t skip = end ? (size_t)(end - t->bytes) + 1 : 0;
        while (!end && skip < t->len && ((unsigned char)t->bytes[skip] & 0xc0) == 0x80)
            skip++;
        t->len -= skip;
        memmove(t->bytes + sizeof mark - 1, t->bytes + skip, t->len);
        memcpy(t->bytes, mark, sizeof mark - 1);
        t->len += sizeof mark - 1;
    }
    t->len = settle(t->bytes, t->len);
    while (t->len > 0 && strchr(" \t\n", t->bytes[t->len - 1]))
        t->len--;
    t->bytes[t->len] = 0;
    return t->bytes;
}
