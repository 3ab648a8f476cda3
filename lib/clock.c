/* clock.c: this machine's clocks. See clock.h. */
#include "clock.h"

#include <time.h>

#ifdef CLOCK_BOOTTIME
#define FORWARD CLOCK_BOOTTIME      /* CLOCK_MONOTONIC stands still in a suspended machine; leases do not */
#else
#define FORWARD CLOCK_MONOTONIC
#endif

static int64_t read_ms(clockid_t id)
{
    struct timespec now = { 0, 0 };
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t rq_clock_ms(void)
{
    return read_ms(FORWARD);
}

uint64_t rq_clock_unix_ms(void)
{
    int64_t ms = read_ms(CLOCK_REALTIME);
    return ms > 0 ? (uint64_t)ms : 0;
}
