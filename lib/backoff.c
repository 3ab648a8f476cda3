/* backoff.c: the arithmetic of waiting. Who waits, on what clock and with what random bits, is the caller's. */
#include "backoff.h"

#define HOUR_MS INT64_C(3600000)                /* no wait is longer, its spread aside */
#define POLL_MS INT64_C(100)

/* random / 2^32 of `whole`. Fits, as nothing here is longer than an hour. */
static int64_t fraction(int64_t whole, uint32_t random)
{
    return (whole * (int64_t)random) >> 32;
}

/* `start` doubled so many times, but at most `cap`, which is no more than an hour. */
static int64_t doubled(int64_t start, unsigned times, int64_t cap)
{
    int64_t wait = start;

    while (times-- > 0 && wait < cap)
        wait *= 2;
    return wait < cap ? wait : cap;
}

int64_t rq_backoff_ms(int failures, uint32_t random)
{
    int64_t wait = doubled(1000, failures > 1 ? (unsigned)failures : 1, HOUR_MS);

    return wait + fraction(wait / 4, random);
}

int64_t rq_poll_ms(unsigned empty_reads, int64_t cap_ms, uint32_t random)
{
    if (empty_reads < 2 || cap_ms <= 0)
        return 0;

    return rq_spread_ms(POLL_MS, empty_reads - 2, cap_ms < HOUR_MS ? cap_ms : HOUR_MS, random);
}

int64_t rq_spread_ms(int64_t start_ms, unsigned times, int64_t cap_ms, uint32_t random)
{
    int64_t wait = doubled(start_ms, times, cap_ms);

    return wait - wait / 4 + fraction(wait / 2, random);
}
