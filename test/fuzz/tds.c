/* tds.c: see tds.h. */
#include "tds.h"

#include <string.h>

void put_bytes(reply *r, const void *bytes, size_t len)
{
    if (len > sizeof r->bytes - r->len)
        return;
    memcpy(r->bytes + r->len, bytes, len);
    r->len += len;
}

void put_number(reply *r, uint64_t number, size_t len)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(number >> 8 * i);
    put_bytes(r, bytes, len);
}

void put_utf16(reply *r, const char *ascii)
{
    for (; *ascii; ascii++)
        put_number(r, (uint8_t)*ascii, 2);
}

/* ---- tokens ---- */

void put_done(reply *r, uint8_t token, unsigned status, uint64_t count)
{
    put_number(r, token, 1);
    put_number(r, status, 2);
    put_number(r, 0xC1, 2);         /* a SELECT */
    put_number(r, count, 8);
}

static void put_text1(reply *r, const char *ascii)
{
    put_number(r, strlen(ascii), 1);
    put_utf16(r, ascii);
}

void put_message(reply *r, bool error, int number, unsigned state, unsigned severity, const char *text)
{
    static const char server[] = "fuzz";
    size_t len = strlen(text);
    put_number(r, error ? 0xAA : 0xAB, 1);
    put_number(r, 4 + 1 + 1 + 2 + 2 * len + 1 + 2 * (sizeof server - 1) + 1 + 4, 2);
    put_number(r, (uint32_t)number, 4);
    put_number(r, state, 1);
    put_number(r, severity, 1);
    put_number(r, len, 2);
    put_utf16(r, text);
    put_text1(r, server);
    put_text1(r, "");               /* no procedure */
    put_number(r, 1, 4);
}

static void put_change(reply *r, uint8_t what, const char *text)
{
    put_number(r, 0xE3, 1);
    put_number(r, 1 + 1 + 2 * strlen(text) + 1, 2);
    put_number(r, what, 1);
    put_text1(r, text);
    put_text1(r, "");
}

/* ---- messages ---- */

void spare_freetds(uint8_t *bytes, size_t len, bool *seen)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] == 0xAE || (bytes[i] == 0xAC && *seen))
            bytes[i] = 0xAD;
        *seen = *seen || bytes[i] == 0xAC;
    }
}

enum { HEADER = 8, REPLY = 4, LAST = 1 };

void put_packets(reply *r, const uint8_t *tokens, size_t len, size_t size)
{
    size_t at = 0, number = 1;
    do {
        size_t body = len - at < size - HEADER ? len - at : size - HEADER;
        const uint8_t header[HEADER] = { REPLY, at + body == len ? LAST : 0, (uint8_t)((body + HEADER) >> 8),
                                         (uint8_t)(body + HEADER), 0, 0, (uint8_t)number++, 0 };
        put_bytes(r, header, sizeof header);
        put_bytes(r, tokens + at, body);
        at += body;
    } while (at < len);
}

static void put_whole(reply *r, reply *tokens)
{
    put_packets(r, tokens->bytes, tokens->len, 4096);
    tokens->len = 0;
}

void put_login(reply *r, bool babelfish)
{
    /* VERSION, ENCRYPTION: there is none, INSTOPT, THREADID, MARS: each with where it is and how long */
    static const uint8_t prelogin[] = {
        0, 0, 26, 0, 6, 1, 0, 32, 0, 1, 2, 0, 33, 0, 1, 3, 0, 34, 0, 0, 4, 0, 34, 0, 1, 0xFF,
        15, 0, 7, 0xD0, 0, 0, 2, 0, 0
    };
    static const uint8_t collation[] = { 0xE3, 8, 0, 7, 5, 0x09, 0x04, 0xD0, 0x00, 0x34, 0 };
    static const uint8_t version[] = { 0xAD, 30, 0, 1, 0x74, 0, 0, 4, 10 }, server_version[] = { 15, 0, 7, 0xD0 };
    static const uint8_t columns[] = { 0x81, 2, 0, 0, 0, 0, 0, 8, 0, 0x38, 0, 0, 0, 0, 0, 8, 0, 0x38, 0 };
    static reply tokens;
    tokens.len = 0;
    put_bytes(&tokens, prelogin, sizeof prelogin);
    put_whole(r, &tokens);
    put_change(&tokens, 1, "renderq");
    put_bytes(&tokens, collation, sizeof collation);
    put_bytes(&tokens, version, sizeof version);
    put_utf16(&tokens, "SQL Server");
    put_bytes(&tokens, server_version, sizeof server_version);
    put_change(&tokens, 4, "4096");
    put_done(&tokens, TDS_DONE, 0, 0);
    put_whole(r, &tokens);
    put_bytes(&tokens, columns, sizeof columns);
    put_number(&tokens, 0xD1, 1);
    put_number(&tokens, babelfish, 4);
    put_number(&tokens, 150, 4);    /* its compatibility level */
    put_done(&tokens, TDS_DONE, TDS_COUNT, 1);
    put_whole(r, &tokens);
}
