/* signals.c: the wish to stop. See signals.h. */
#include "signals.h"

#include <stddef.h>

static const int stopping[] = { SIGTERM, SIGINT, SIGHUP };

#define STOPPING (sizeof stopping / sizeof stopping[0])

static int asked;                   /* atomic: two threads may hear a signal each at the same time */
static renderq *volatile handle;
static renderq_worker *volatile worker;

static void on_stop(int number)
{
    (void)number;
    int times = __atomic_add_fetch(&asked, 1, __ATOMIC_SEQ_CST);
    renderq_interrupt(handle);
    if (times != 3)
        renderq_worker_stop(worker);
}

void catch_signals(renderq *h)
{
    struct sigaction stop = { .sa_handler = on_stop }, child = { .sa_handler = SIG_DFL }, before;
    handle = h;
    for (size_t i = 0; i < STOPPING; i++)
        if (sigaction(stopping[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(stopping[i], &stop, NULL);    /* no SA_RESTART: reads and sleeps end, too */
    sigaction(SIGCHLD, &child, NULL);               /* ignored, it would take the programs' exit codes away */
}

int stops_asked(void)
{
    return __atomic_load_n(&asked, __ATOMIC_SEQ_CST);
}

void stop_worker(renderq_worker *w)
{
    worker = w;
}

void interrupt_handle(renderq *h)
{
    handle = h;
}

void hold_signals(sigset_t *before)
{
    sigset_t all;
    sigemptyset(&all);
    for (size_t i = 0; i < STOPPING; i++)
        sigaddset(&all, stopping[i]);
    pthread_sigmask(SIG_BLOCK, &all, before);
}

void let_signals(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

void reset_signals(const sigset_t *before)
{
    struct sigaction now, fresh = { .sa_handler = SIG_DFL };
    for (size_t i = 0; i < STOPPING; i++)
        if (sigaction(stopping[i], NULL, &now) == 0 && now.sa_handler == on_stop)
            sigaction(stopping[i], &fresh, NULL);
    sigaction(SIGPIPE, &fresh, NULL);               /* we ignore it, and exec would pass that on */
    pthread_sigmask(SIG_SETMASK, before, NULL);
}
