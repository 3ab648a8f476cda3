/* backoff.h: how long things wait before they are tried again. Pure: random bits are handed in. */
#ifndef RQ_BACKOFF_H
#define RQ_BACKOFF_H

#include <stdint.h>

/* After `failures` failures (1 or more): 2^failures seconds, at most an hour, plus random / 2^32 of a quarter of
 * it. Milliseconds. Fewer than 1 counts as 1. The reap statements say the same in SQL. */
int64_t rq_backoff_ms(int failures, uint32_t random);

/* The wait before the next read of an empty queue: 0 after one empty read, then 100 ms, doubling to cap_ms, each
 * spread by a quarter up or down, the cap too. `empty_reads` counts those in a row, from 1. A cap_ms above an hour
 * counts as an hour, one below 0 as 0. */
int64_t rq_poll_ms(unsigned empty_reads, int64_t cap_ms, uint32_t random);

/* start_ms doubled so many times, at most cap_ms, which is no more than an hour; spread by a quarter up or down. */
int64_t rq_spread_ms(int64_t start_ms, unsigned times, int64_t cap_ms, uint32_t random);

#endif
