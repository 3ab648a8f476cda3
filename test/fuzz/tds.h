/* tds.h: replies of a TDS 7.4 server, made token by token, well or badly. What a token means is in MS-TDS. */
#ifndef TEST_FUZZ_TDS_H
#define TEST_FUZZ_TDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

/* Bytes that grow; what does not fit any more is left out. */
typedef struct reply {
    uint8_t bytes[WIRE_MAX];
    size_t len;
} reply;

void put_bytes(reply *r, const void *bytes, size_t len);
void put_number(reply *r, uint64_t number, size_t len);                     /* little-endian */
void put_utf16(reply *r, const char *ascii);

/* ---- tokens ---- */

enum { TDS_DONE = 0xFD, TDS_DONEPROC = 0xFE, TDS_DONEINPROC = 0xFF };
enum { TDS_MORE = 0x01, TDS_FAILED = 0x02, TDS_COUNT = 0x10, TDS_ATTN = 0x20, TDS_SERVER_ERROR = 0x100 };

void put_done(reply *r, uint8_t token, unsigned status, uint64_t count);
void put_message(reply *r, bool error, int number, unsigned state, unsigned severity, const char *text);

/* ---- messages ---- */

/* Changes the bytes so that FreeTDS 1.3 does not fall over faults of its own, which no driver can prevent or end:
 *   FEATUREEXTACK (0xAE)   one that the end of the connection cuts is read for ever: nobody looks whether it is there
 *   RETURNVALUE (0xAC)     a second one behind another token, in the reply to sp_executesql, is written where the first
 *                          one was freed
 * The first 0xAC of a connection stays; *seen remembers that there was one. */
void spare_freetds(uint8_t *bytes, size_t len, bool *seen);

/* Packets of a message with those tokens, of `size` bytes at most. */
void put_packets(reply *r, const uint8_t *tokens, size_t len, size_t size);

/* What a server says up to the end of the driver's login: PRELOGIN without encryption, the login's answer, and that of
 * the batch that sets the session up. */
void put_login(reply *r, bool babelfish);

#endif
