/* guid.c: GUIDs read, printed and made, in the byte order of SQL Server's ORDER BY. The clock is the caller's, and
 * which GUID stands for what is decided elsewhere. */
#include "guid.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>

#define TEXT_LEN 36
#define MS_MAX   ((UINT64_C(1) << 48) - 1)
#define SEQ_MAX  0x3FFFu

/* The two bytes in `sort` that RFC 9562 takes bits of. */
#define VARIANT_AT 6
#define VERSION_AT 9

static const char form[] = "00000000-0000-0000-0000-000000000000";

/* Where in the text the two digits of each byte of `sort` stand. The first three groups are stored little-endian,
 * so SQL Server, which sorts the stored bytes, reads them from their right end. */
static const unsigned char digits_at[16] = {
    24, 26, 28, 30, 32, 34,
    19, 21,
    16, 14,
    11, 9,
    6, 4, 2, 0
};

/* -1: no hexadecimal digit, in any locale. */
static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool rq_guid_parse(const char *text, rq_guid *out)
{
    rq_guid guid;

    if (text == NULL)
        return false;
    for (size_t i = 0; i < TEXT_LEN; i++)       /* the NUL of a shorter text is neither, and ends this */
        if (form[i] == '-' ? text[i] != '-' : digit(text[i]) < 0)
            return false;
    if (text[TEXT_LEN] != '\0')
        return false;
    for (size_t i = 0; i < sizeof guid.sort; i++)
        guid.sort[i] = (unsigned char)(digit(text[digits_at[i]]) << 4 | digit(text[digits_at[i] + 1]));
    *out = guid;
    return true;
}

void rq_guid_print(const rq_guid *guid, renderq_id *out)
{
    static const char digits[] = "0123456789ABCDEF";

    memcpy(out->text, form, sizeof form);
    for (size_t i = 0; i < sizeof guid->sort; i++) {
        out->text[digits_at[i]] = digits[guid->sort[i] >> 4];
        out->text[digits_at[i] + 1] = digits[guid->sort[i] & 0x0F];
    }
}

/* Many bytes may come in pieces, and a signal may come between them. */
static bool random_bytes(void *out, size_t len)
{
    unsigned char *at = out;

    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        len -= (size_t)got;
    }
    return true;
}

static void put_bits(unsigned char *byte, unsigned mask, unsigned bits)
{
    *byte = (unsigned char)((*byte & ~mask) | bits);
}

static void set_version(rq_guid *guid, unsigned version)
{
    put_bits(&guid->sort[VARIANT_AT], 0xC0, 0x80);
    put_bits(&guid->sort[VERSION_AT], 0xF0, version << 4);
}

bool rq_guid_random(rq_guid *out)
{
    rq_guid guid;

    if (!random_bytes(guid.sort, sizeof guid.sort))
        return false;
    set_version(&guid, 4);
    *out = guid;
    return true;
}

/* A clock that stands or steps back counts the sequence up; a full sequence borrows the next millisecond. */
static bool advance(rq_guid_order *order, uint64_t unix_ms)
{
    if (unix_ms > MS_MAX)
        unix_ms = MS_MAX;
    if (unix_ms > order->ms)
        *order = (rq_guid_order){ .ms = unix_ms };
    else if (order->seq < SEQ_MAX)
        order->seq++;
    else if (order->ms < MS_MAX)
        *order = (rq_guid_order){ .ms = order->ms + 1 };
    else
        return false;
    return true;
}

bool rq_guid_ordered(rq_guid_order *order, uint64_t unix_ms, rq_guid *out, size_t n)
{
    rq_guid_order next = *order;

    if (!random_bytes(out, n * sizeof *out))
        return false;
    for (size_t k = 0; k < n; k++) {
        if (!advance(&next, unix_ms))
            return false;
        for (size_t i = 0; i < 6; i++)
            out[k].sort[i] = (unsigned char)(next.ms >> (40 - 8 * i));
        out[k].sort[VARIANT_AT] = (unsigned char)(next.seq >> 8);
        out[k].sort[VARIANT_AT + 1] = (unsigned char)next.seq;
        set_version(&out[k], 8);
    }
    *order = next;
    return true;
}
