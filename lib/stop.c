/* stop.c: interruption and sleep. See stop.h. */
#include "stop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "clock.h"

int rq_stop_open(rq_stop *stop)
{
    *stop = (rq_stop){ .pipe = { -1, -1 } };
    return pipe2(stop->pipe, O_CLOEXEC | O_NONBLOCK) == 0 ? 0 : errno;
}

void rq_stop_close(rq_stop *stop)
{
    for (int i = 0; i < 2; i++) {
        if (stop->pipe[i] >= 0)
            close(stop->pipe[i]);
        stop->pipe[i] = -1;
    }
}

void rq_stop_raise(rq_stop *stop)
{
    int saved = errno;
    __atomic_add_fetch(&stop->raised, 1, __ATOMIC_SEQ_CST);
    /* A full pipe wakes the sleeper as well as one more byte would. */
    if (write(stop->pipe[1], "", 1) < 0)
        errno = 0;
    errno = saved;
}

static unsigned raises(const rq_stop *stop)
{
    return __atomic_load_n(&stop->raised, __ATOMIC_SEQ_CST);
}

void rq_stop_begin(rq_stop *stop, bool waits)
{
    stop->floor = waits ? stop->seen : raises(stop);
}

bool rq_stop_raised(const rq_stop *stop)
{
    return raises(stop) != stop->floor;
}

void rq_stop_answer(rq_stop *stop)
{
    stop->seen = stop->floor = raises(stop);
}

rq_stop_mark rq_stop_set_aside(const rq_stop *stop)
{
    return (rq_stop_mark){ stop->floor, stop->seen };
}

void rq_stop_take_up(rq_stop *stop, rq_stop_mark mark)
{
    stop->floor = stop->seen == mark.seen ? mark.floor : stop->seen;
}

static void drain(int fd)
{
    char bytes[64];
    while (read(fd, bytes, sizeof bytes) > 0)
        continue;
}

bool rq_stop_sleep(rq_stop *stop, int64_t ms)
{
    int64_t until = rq_clock_ms() + ms;
    while (!rq_stop_raised(stop)) {
        int64_t left = until - rq_clock_ms();
        if (left <= 0)
            return false;
        struct pollfd wake = { .fd = stop->pipe[0], .events = POLLIN };
        /* Bytes of raises that this call need not hear are drained, or they would keep it awake. */
        if (poll(&wake, 1, left > 60000 ? 60000 : (int)left) > 0)
            drain(stop->pipe[0]);
    }
    return true;
}
