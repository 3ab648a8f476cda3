/* guard.c: the guard. See guard.h. PR_SET_PDEATHSIG reaches only renderq's own child; a script's children would go
 * on rendering, and so write into the output of whoever gets the job next. */
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define GROUPS_MAX 1024

typedef struct message {
    pid_t group;
    bool watch;
} message;

/* Adds or takes away a group. */
static void note(pid_t *groups, size_t *n, const message *said)
{
    size_t i = 0;
    while (i < *n && groups[i] != said->group)
        i++;
    if (i < *n && !said->watch)
        groups[i] = groups[--*n];
    else if (i == *n && said->watch && i < GROUPS_MAX && said->group > 1)
        groups[(*n)++] = said->group;
}

/* Until the other end is closed, which the kernel does however renderq ends. */
static void stand_guard(int from)
{
    pid_t groups[GROUPS_MAX] = { 0 };
    message said;
    size_t n = 0;
    ssize_t len;
    prctl(PR_SET_NAME, "renderq-guard");
    /* A group of its own, and deaf: what stops renderq must not stop the guard first. */
    setsid();
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd <= 2; fd++)
        dup2(null, fd);
    while ((len = read(from, &said, sizeof said)) != 0)
        if (len == (ssize_t)sizeof said)
            note(groups, &n, &said);
        else if (len < 0 && errno != EINTR)
            break;
    while (n > 0)
        kill(-groups[--n], SIGKILL);
    _exit(0);
}

bool guard_start(guard *g)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    g->pid = fork();
    if (g->pid == 0) {
        close(ends[1]);
        stand_guard(ends[0]);
    }
    close(ends[0]);
    g->to = ends[1];
    if (g->pid < 0)
        close(ends[1]);
    return g->pid > 0;
}

void guard_watch(const guard *g, pid_t group, bool watch)
{
    message said = { .group = group, .watch = watch };
    /* If somebody killed the guard there is none; SIGPIPE is ignored. */
    while (write(g->to, &said, sizeof said) < 0 && errno == EINTR)
        continue;
}

void guard_stop(guard *g)
{
    close(g->to);
    while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}
