/* child.c: one run of the program. See child.h. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "signals.h"

#define DRAIN_MS 2000           /* for what still flows from a pipe when the program itself has ended */

/* ---- start ---- */

/* "NAME=value", at the end of an environment. */
static void add(char **to, const char *name, const char *value)
{
    size_t size = strlen(name) + strlen(value) + 2;
    while (*to)
        to++;
    *to = must_alloc(NULL, size);
    snprintf(*to, size, "%s=%s", name, value);
    to[1] = NULL;
}

static bool is_ours(const char *variable)
{
    /* A program that prints its environment when it fails would put the password into the job's error. */
    static const char *const names[] = { "RENDERQ_JOB_ID=", "RENDERQ_COMPOSITION_ID=", "RENDERQ_ATTEMPT=",
                                         "RENDERQ_OUTPUT_URL=", "RENDERQ_PASSWORD=" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* What the program finds in its environment. It is made before fork(): in a process with threads, the child may not. */
static char **make_environment(const renderq_job *job)
{
    size_t n = 0, kept = 0;
    char attempt[16];
    while (environ[n])
        n++;
    char **made = must_alloc(NULL, (n + 5) * sizeof *made);
    for (size_t i = 0; i < n; i++)
        if (!is_ours(environ[i]))
            made[kept++] = must_copy(environ[i]);
    made[kept] = NULL;
    snprintf(attempt, sizeof attempt, "%d", job->retry_count + 1);
    add(made, "RENDERQ_JOB_ID", job->id.text);
    add(made, "RENDERQ_COMPOSITION_ID", job->composition_id);
    add(made, "RENDERQ_ATTEMPT", attempt);
    if (job->output_url)
        add(made, "RENDERQ_OUTPUT_URL", job->output_url);
    return made;
}

static void free_environment(char **made)
{
    for (char **variable = made; *variable; variable++)
        free(*variable);
    free(made);
}

/* The last pipe tells why exec() failed, and closes when it worked. */
enum { IN_READ, IN_WRITE, OUT_READ, OUT_WRITE, ERR_READ, ERR_WRITE, FAIL_READ, FAIL_WRITE, ENDS };

static void shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static bool open_all(int ends[ENDS])
{
    for (int i = 0; i < ENDS; i++)
        ends[i] = -1;
    for (int i = 0; i < ENDS; i += 2)
        if (pipe2(ends + i, O_CLOEXEC) != 0)
            return false;
    return true;
}

#define DESCRIPTORS 4096

static bool inherited[DESCRIPTORS];

void child_inherits(void)
{
    for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS; fd++)
        inherited[fd] = fcntl(fd, F_GETFD) >= 0;
}

static void keep_the_rest(void)
{
    for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS; fd++)
        if (!inherited[fd])
            fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* In the child. */
static void become(const child *c, const int ends[ENDS], char **argv, char **environment, const sigset_t *before,
                   pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)                    /* it died before that line; no signal will come any more */
        _exit(127);
    guard_watch(c->guard, getpid(), true);
    dup2(ends[IN_READ], STDIN_FILENO);
    dup2(ends[OUT_WRITE], STDOUT_FILENO);
    dup2(ends[ERR_WRITE], STDERR_FILENO);
    reset_signals(before);
    keep_the_rest();
    execvpe(argv[0], argv, environment);
    int number = errno;
    if (write(ends[FAIL_WRITE], &number, sizeof number) < 0)
        _exit(126);
    _exit(127);
}

/* 0: exec() worked. */
static int exec_error(int from)
{
    int number = 0;
    ssize_t len;
    while ((len = read(from, &number, sizeof number)) < 0 && errno == EINTR)
        continue;
    return len == (ssize_t)sizeof number ? number : 0;
}

static void reap(pid_t pid, int *status)
{
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        continue;
}

/* Forks; in the parent, waits for exec(). 0, or why it did not work. No signal may come between fork() and exec(): it
 * would stop this program from the other one. */
static int launch(child *c, int ends[ENDS], char **argv, char **environment)
{
    sigset_t before;
    pid_t parent = getpid();
    hold_signals(&before);
    c->pid = fork();
    if (c->pid == 0)
        become(c, ends, argv, environment, &before, parent);
    int number = c->pid < 0 ? errno : 0;
    let_signals(&before);
    if (number != 0)
        return number;
    setpgid(c->pid, c->pid);                    /* both do it: neither can tell who is first */
    shut(&ends[FAIL_WRITE]);
    number = exec_error(ends[FAIL_READ]);
    if (number != 0) {
        guard_watch(c->guard, c->pid, false);
        reap(c->pid, NULL);
        c->pid = 0;                             /* it never was */
    }
    return number;
}

/* Our end of a pipe becomes the child's to keep. */
static int keep(int *end)
{
    int fd = *end;
    *end = -1;
    fcntl(fd, F_SETFL, O_NONBLOCK);             /* ours alone: the program's end is a description of its own */
    return fd;
}

bool child_start(child *c, char **argv, const renderq_job *job, const guard *g, live *l)
{
    int ends[ENDS];
    memset(c, 0, sizeof *c);
    c->guard = g;
    c->live = l;
    c->in = c->out = c->err = c->exit_fd = -1;
    c->payload = job->payload_json;
    c->payload_left = job->payload_len;
    char **environment = make_environment(job);
    int number = open_all(ends) ? launch(c, ends, argv, environment) : errno;
    free_environment(environment);
    if (number == 0) {
        c->exit_fd = (int)syscall(SYS_pidfd_open, c->pid, 0);
        c->in = keep(&ends[IN_WRITE]);
        c->out = keep(&ends[OUT_READ]);
        c->err = keep(&ends[ERR_READ]);
    }
    for (int i = 0; i < ENDS; i++)
        shut(&ends[i]);
    errno = number;
    return number == 0;
}

/* ---- pipes ---- */

static bool passing(int number)
{
    return number == EAGAIN || number == EINTR;
}

static void feed(child *c)
{
    while (c->payload_left > 0) {
        ssize_t len = write(c->in, c->payload, c->payload_left);
        if (len < 0 && passing(errno))
            return;
        if (len < 0)
            break;                              /* EPIPE: it does not want the rest */
        c->payload += len;
        c->payload_left -= (size_t)len;
    }
    shut(&c->in);
}

static void read_out(child *c)
{
    char bytes[65536];
    ssize_t len = read(c->out, bytes, sizeof bytes);
    if (len > 0)
        last_line_add(&c->out_line, bytes, (size_t)len);
    else if (len == 0 || !passing(errno))
        shut(&c->out);
}

static void read_err(child *c)
{
    ssize_t len = read(c->err, c->pass, sizeof c->pass);
    if (len > 0) {
        tail_add(&c->err_tail, c->pass, (size_t)len);
        c->pass_len = (size_t)len;
    } else if (len == 0 || !passing(errno)) {
        shut(&c->err);
    }
}

/* At most 4096 bytes (PIPE_BUF), which a pipe takes at once when poll() says that it takes any: renderq must not
 * wait here while a lease runs out. */
static void pass_on(child *c, short events)
{
    if (events & POLLOUT) {
        ssize_t len = live_write(c->live, c->pass, c->pass_len);
        if (len < 0 && passing(errno))
            return;
        if (len > 0 && (size_t)len < c->pass_len) {
            c->pass_len -= (size_t)len;
            memmove(c->pass, c->pass + len, c->pass_len);
            return;
        }
    }
    c->pass_len = 0;                            /* written, or nobody reads it */
}

static void look_at_exit(child *c)
{
    siginfo_t info = { .si_pid = 0 };
    /* It stays a zombie, so that nobody else gets the number of its group while that is still needed. */
    if (c->exited || waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
        return;
    c->exited = true;
    c->drain_until_ms = clock_ms() + DRAIN_MS;
    c->payload_left = 0;
    shut(&c->in);
}

#define LOOK_MS 50              /* how often it is looked at where its exit does not wake anybody */

bool child_serve(child *c, int64_t timeout_ms)
{
    look_at_exit(c);
    if (c->exited) {
        int64_t left = c->drain_until_ms - clock_ms();
        if ((c->out < 0 && c->err < 0 && c->pass_len == 0) || left <= 0)
            return true;
        timeout_ms = timeout_ms < left ? timeout_ms : left;
    }
    if (c->payload_left == 0)
        shut(&c->in);
    struct pollfd fds[] = {
        { .fd = c->in, .events = POLLOUT },
        { .fd = c->out, .events = POLLIN },
        { .fd = c->pass_len == 0 ? c->err : -1, .events = POLLIN },
        { .fd = c->pass_len > 0 ? STDERR_FILENO : -1, .events = POLLOUT },
        { .fd = c->exited ? -1 : c->exit_fd, .events = POLLIN },
    };
    if (c->exit_fd < 0 && timeout_ms > LOOK_MS)
        timeout_ms = LOOK_MS;
    if (poll(fds, sizeof fds / sizeof fds[0], (int)timeout_ms) <= 0)
        return false;
    if (fds[0].revents)
        feed(c);
    if (fds[1].revents)
        read_out(c);
    if (fds[2].revents)
        read_err(c);
    if (fds[3].revents)
        pass_on(c, fds[3].revents);
    return false;
}

void child_signal(const child *c, int number)
{
    kill(-c->pid, number);
}

void child_end(child *c)
{
    int status = 0;
    child_signal(c, SIGKILL);
    guard_watch(c->guard, c->pid, false);
    reap(c->pid, &status);
    c->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    c->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    shut(&c->in);
    shut(&c->out);
    shut(&c->err);
    shut(&c->exit_fd);
}
