/* utf.h: UTF-8 checked and measured as SQL Server measures it. No database here. */
#ifndef RQ_UTF_H
#define RQ_UTF_H

#include <stdbool.h>
#include <stddef.h>

/* The result of looking at a text once: whether it can be stored, and how long it is. */
typedef struct rq_utf_scan {
    size_t bad_at;      /* byte offset of the first byte that is not UTF-8, or is NUL; len when there is none */
    size_t units;       /* UTF-16 code units up to bad_at */
} rq_utf_scan;

/* Overlong forms, surrogates and code points above U+10FFFF are not UTF-8. */
rq_utf_scan rq_utf_check(const char *text, size_t len);

/* Copies text into out (out_size bytes, at least 4) so that it is valid, has at most max_units UTF-16 units
 * (at least 1) and ends in NUL: each bad byte becomes a U+FFFD, and what does not fit is cut at a character and
 * marked with U+2026 at the end, which counts too. Returns the bytes written without the NUL. */
size_t rq_utf_repair(const char *text, size_t max_units, char *out, size_t out_size);

/* Writes valid UTF-8 as UTF-16LE, without a NUL, into out (2 * len bytes always do). Returns the bytes written. */
size_t rq_utf16le(const char *text, size_t len, unsigned char *out);

#endif
