/* guid.h: GUIDs, held as 16 bytes in the order that SQL Server sorts uniqueidentifier by. No database here. */
#ifndef RQ_GUID_H
#define RQ_GUID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "renderq.h"

/* memcmp() on `sort` is SQL Server's ORDER BY: the last group of the text comes first (bytes 10-15 of the
 * binary form), then 8-9, 6-7, 4-5, 0-3. SQLite keeps these 16 bytes as the key. */
typedef struct rq_guid {
    unsigned char sort[16];
} rq_guid;

/* Where a handle's ordered ids have come to: each is above the one before, a clock that steps back included.
 * Only order is kept here; the random bits of each GUID come fresh from the kernel. */
typedef struct rq_guid_order {
    uint64_t ms;
    unsigned seq;
} rq_guid_order;

/* Reads 8-4-4-4-12 hexadecimal digits of either case; false, and *out untouched, on anything else. */
bool rq_guid_parse(const char *text, rq_guid *out);

/* Writes upper case. */
void rq_guid_print(const rq_guid *guid, renderq_id *out);

/* A random GUID (version 4): lease tokens. Returns false, and *out untouched, when the kernel gives no random
 * bytes. */
bool rq_guid_random(rq_guid *out);

/* n ids whose first sort bytes are the time (48 bits of Unix milliseconds, then a 14-bit sequence): job ids, so that a
 * clustered primary key grows at its end. Version 8, RFC 9562. unix_ms is the caller's clock; while it does not move
 * on, the sequence does, and when that is full the next millisecond is borrowed. False, and *order untouched, when the
 * kernel gives no random bytes, or 48 bits are used up, in the year 10889. */
bool rq_guid_ordered(rq_guid_order *order, uint64_t unix_ms, rq_guid *out, size_t n);

#endif
