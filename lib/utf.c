/* utf.c: UTF-8 checked, measured in UTF-16 units and made storable. What is too long is the caller's to say. */
#include "utf.h"

#include <stdint.h>
#include <string.h>

/* The well-formed sequences, by their first byte: how long, and what the second byte may be. The limits on the
 * second keep out overlong forms, surrogates and what is above U+10FFFF (Unicode, table 3-7). */
static const struct sequence {
    unsigned char first, last, len, second_min, second_max;
} sequences[] = {
    { 0xC2, 0xDF, 2, 0x80, 0xBF },
    { 0xE0, 0xE0, 3, 0xA0, 0xBF },
    { 0xE1, 0xEC, 3, 0x80, 0xBF },
    { 0xED, 0xED, 3, 0x80, 0x9F },
    { 0xEE, 0xEF, 3, 0x80, 0xBF },
    { 0xF0, 0xF0, 4, 0x90, 0xBF },
    { 0xF1, 0xF3, 4, 0x80, 0xBF },
    { 0xF4, 0xF4, 4, 0x80, 0x8F },
};

static const struct sequence *sequence_of(unsigned char first)
{
    for (size_t i = 0; i < sizeof sequences / sizeof sequences[0]; i++)
        if (first >= sequences[i].first && first <= sequences[i].last)
            return &sequences[i];
    return NULL;
}

/* The length in bytes of the character that text begins with; 0 when it begins with none, or with a NUL. */
static size_t character(const char *text, size_t len)
{
    const unsigned char *byte = (const unsigned char *)text;

    if (byte[0] < 0x80)                         /* most of a payload: no look into the table */
        return byte[0] != 0;

    const struct sequence *s = sequence_of(byte[0]);
    if (s == NULL || len < s->len || byte[1] < s->second_min || byte[1] > s->second_max)
        return 0;
    for (size_t i = 2; i < s->len; i++)
        if ((byte[i] & 0xC0) != 0x80)
            return 0;
    return s->len;
}

/* Four bytes hold what is above U+FFFF: a surrogate pair in UTF-16. */
static size_t units_of(size_t character_len)
{
    return character_len == 4 ? 2 : 1;
}

/* How many bytes at the start are surely ASCII without a NUL, eight at a time: most of a payload is. */
static size_t ascii_run(const char *text, size_t len)
{
    size_t n = 0;

    for (; n + 8 <= len; n += 8) {
        uint64_t word;
        memcpy(&word, text + n, sizeof word);
        /* A byte with its high bit set, or a zero byte, which borrows one. */
        if ((word | (word - UINT64_C(0x0101010101010101))) & UINT64_C(0x8080808080808080))
            break;
    }
    return n;
}

rq_utf_scan rq_utf_check(const char *text, size_t len)
{
    rq_utf_scan scan = { 0, 0 };

    while (scan.bad_at < len) {
        size_t run = ascii_run(text + scan.bad_at, len - scan.bad_at);
        scan.bad_at += run;
        scan.units += run;
        if (scan.bad_at == len)
            break;
        size_t n = character(text + scan.bad_at, len - scan.bad_at);
        if (n == 0)
            break;
        scan.bad_at += n;
        scan.units += units_of(n);
    }
    return scan;
}

size_t rq_utf_repair(const char *text, size_t max_units, char *out, size_t out_size)
{
    static const char unknown[] = "\xEF\xBF\xBD";   /* U+FFFD */
    static const char mark[] = "\xE2\x80\xA6";      /* U+2026 */
    const size_t mark_len = sizeof mark - 1;
    const size_t room = out_size - 1;
    size_t left = strlen(text);
    size_t written = 0, units = 0;
    size_t mark_at = 0;                         /* where the mark still fits, should the next piece not */

    while (left > 0) {
        size_t taken = character(text, left);
        const char *piece = taken > 0 ? text : unknown;
        size_t piece_len = taken > 0 ? taken : sizeof unknown - 1;

        if (written + mark_len <= room && units + 1 <= max_units)
            mark_at = written;
        units += units_of(piece_len);
        if (written + piece_len > room || units > max_units) {
            memcpy(out + mark_at, mark, mark_len);
            written = mark_at + mark_len;
            break;
        }
        memcpy(out + written, piece, piece_len);
        written += piece_len;
        if (taken == 0)
            taken = 1;
        text += taken;
        left -= taken;
    }
    out[written] = '\0';
    return written;
}

static unsigned char *put_unit(unsigned char *out, unsigned unit)
{
    *out++ = (unsigned char)unit;
    *out++ = (unsigned char)(unit >> 8);
    return out;
}

size_t rq_utf16le(const char *text, size_t len, unsigned char *out)
{
    static const unsigned char first_bits[] = { 0, 0x7F, 0x1F, 0x0F, 0x07 };
    unsigned char *end = out;

    for (size_t at = 0, n; at < len; at += n) {
        n = ascii_run(text + at, len - at);
        for (size_t i = 0; i < n; i++)
            end = put_unit(end, (unsigned char)text[at + i]);
        if (n > 0)
            continue;
        n = character(text + at, len - at);
        if (n == 0 || n >= sizeof first_bits)
            break;
        unsigned code = (unsigned char)text[at] & first_bits[n];
        for (size_t i = 1; i < n; i++)
            code = code << 6 | ((unsigned char)text[at + i] & 0x3F);
        if (code >= 0x10000) {
            end = put_unit(end, 0xD800 + ((code - 0x10000) >> 10));
            code = 0xDC00 + ((code - 0x10000) & 0x3FF);
        }
        end = put_unit(end, code);
    }
    return (size_t)(end - out);
}
