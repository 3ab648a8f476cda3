/* live.c: the line at the bottom. See live.h. */
#include "live.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "text.h"

#define REFRESH_MS 1000
#define DEPTH_PART 20               /* counting the queue takes at most this part of the time */

/* ---- the line; all of it under the lock ---- */

static void note_second(live *l)
{
    int64_t now = clock_ms() / 1000;
    for (; l->second < now; l->second++)
        l->ended[(l->second + 1) % LIVE_SECONDS] = 0;
}

static double rate(const live *l)
{
    int64_t sum = 0, seconds = (clock_ms() - l->began_ms) / 1000 + 1;
    for (int i = 0; i < LIVE_SECONDS; i++)
        sum += l->ended[i];
    return (double)sum / (double)(seconds < LIVE_SECONDS ? seconds : LIVE_SECONDS);
}

static void erase(live *l)
{
    if (l->shown)
        fputs("\r\033[K", stdout);
    l->shown = false;
    fflush(stdout);
}

static void draw(live *l)
{
    char line[300], queued[40] = "";
    size_t columns = terminal_columns(STDOUT_FILENO), width;
    if (!l->on || l->mid_line || l->over || columns < 2)
        return;
    note_second(l);
    if (l->queued >= 0)
        snprintf(queued, sizeof queued, ", %" PRId64 " queued", l->queued);
    int len = snprintf(line, sizeof line, "%" PRId64 " running, %" PRId64 " done, %" PRId64 " failed", l->running,
                       l->done, l->failed);
    if (l->given_back > 0)
        len += snprintf(line + len, sizeof line - (size_t)len, ", %" PRId64 " given back", l->given_back);
    if (l->lost > 0)
        len += snprintf(line + len, sizeof line - (size_t)len, ", %" PRId64 " lost", l->lost);
    snprintf(line + len, sizeof line - (size_t)len, ", %.1f/s%s", rate(l), queued);
    printf("\r%.*s\033[K", (int)text_fit(line, columns - 1, &width), line);
    l->shown = true;
    fflush(stdout);
}

void live_open(live *l)
{
    pthread_mutex_lock(&l->lock);
    erase(l);
    if (l->mid_line && l->on)
        fputc('\n', stderr);
    l->mid_line = false;
}

void live_close(live *l)
{
    draw(l);
    pthread_mutex_unlock(&l->lock);
}

ssize_t live_write(live *l, const char *bytes, size_t len)
{
    if (!l->on)                     /* nobody waits for another's pipe here */
        return write(STDERR_FILENO, bytes, len);
    pthread_mutex_lock(&l->lock);
    erase(l);
    ssize_t written = write(STDERR_FILENO, bytes, len);
    if (written > 0)
        l->mid_line = bytes[written - 1] != '\n';
    live_close(l);
    return written;
}

/* ---- what it counts ---- */

void live_count(live *l, const renderq_event *event)
{
    pthread_mutex_lock(&l->lock);
    note_second(l);
    bool ended = event->type == RENDERQ_EVENT_DONE || event->type == RENDERQ_EVENT_FAILED;
    l->done += event->type == RENDERQ_EVENT_DONE;
    l->failed += event->type == RENDERQ_EVENT_FAILED;
    l->given_back += event->type == RENDERQ_EVENT_RETRIED || event->type == RENDERQ_EVENT_RELEASED;
    l->lost += event->type == RENDERQ_EVENT_LOST;
    l->ended[l->second % LIVE_SECONDS] += ended;
    pthread_mutex_unlock(&l->lock);
}

void live_running(live *l, int running)
{
    pthread_mutex_lock(&l->lock);
    l->running += running;
    pthread_mutex_unlock(&l->lock);
}

/* The queue is counted by a connection of its own, and not under the lock. */
static int64_t count_queue(live *l)
{
    renderq_counts counts = RENDERQ_INIT(renderq_counts);
    return renderq_stats(l->c->h, l->c->queue, &counts) == RENDERQ_OK ? counts.queued : -1;
}

static void *show(void *arg)
{
    live *l = arg;
    int64_t count_at = 0;
    pthread_mutex_lock(&l->lock);
    while (!l->over) {
        int64_t now = clock_ms();
        if (l->c->h && now >= count_at) {
            pthread_mutex_unlock(&l->lock);
            int64_t queued = count_queue(l), took = clock_ms() - now;
            count_at = clock_ms() + (took * DEPTH_PART > REFRESH_MS ? took * DEPTH_PART : REFRESH_MS);
            pthread_mutex_lock(&l->lock);
            l->queued = queued;
        }
        if (l->over)
            break;
        draw(l);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&l->wake, &l->lock, &until);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

void live_begin(live *l, cli *c)
{
    *l = (live){ .c = c, .began_ms = clock_ms(), .second = clock_ms() / 1000, .queued = -1 };
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->wake, NULL);
}

void live_show(live *l)
{
    if (isatty(STDOUT_FILENO) && open_queue(l->c, NULL) == CODE_DONE)
        l->on = pthread_create(&l->thread, NULL, show, l) == 0;
}

void live_end(live *l)
{
    if (l->on) {
        pthread_mutex_lock(&l->lock);
        l->over = true;
        pthread_cond_signal(&l->wake);
        renderq_interrupt(l->c->h);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
        erase(l);
    }
    pthread_cond_destroy(&l->wake);
    pthread_mutex_destroy(&l->lock);
}
