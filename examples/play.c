/* play.c: what the demos share; see play.h. */
#include "play.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SHOWN_LINES 20

static volatile sig_atomic_t interrupted;
static int faults;

/* ---- time and story --------------------------------------------------------------------------------- */

int64_t play_now_ms(void)
{
    static int64_t start;
    struct timespec t;
    int64_t ms;

    clock_gettime(CLOCK_MONOTONIC, &t);
    ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    if (start == 0)
        start = ms;
    return ms - start;
}

void play_pause_ms(int ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    nanosleep(&t, NULL);
}

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

void play_begin(void)
{
    const struct sigaction action = {.sa_handler = on_signal};
    const struct rlimit no_core = {0, 0};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    setrlimit(RLIMIT_CORE, &no_core);       /* the crashes are part of the play */
    play_now_ms();
}

int play_is_interrupted(void)
{
    return interrupted;
}

void play_say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    printf("%5.1f s  ", (double)play_now_ms() / 1000);
    vprintf(format, args);
    printf("\n");
    va_end(args);
    fflush(stdout);
}

void play_check(int ok, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    printf(ok ? "  ok    " : "  WRONG ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    faults += !ok;
}

int play_faults(void)
{
    return faults;
}

int play_wrong(const char *what, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    printf("        %s: ", what);
    vprintf(format, args);
    printf("\n");
    va_end(args);
    return 0;
}

/* ---- folders ---------------------------------------------------------------------------------------- */

int play_make_folder(const char *name, char path[PLAY_PATH])
{
    const char *temporary = getenv("TMPDIR");
    char given[400], real[PATH_MAX];

    snprintf(given, sizeof given, "%s/%s.XXXXXX", temporary != NULL ? temporary : "/tmp", name);
    if (mkdtemp(given) == NULL || realpath(given, real) == NULL || strlen(real) >= PLAY_PATH)
        return -1;
    memcpy(path, real, strlen(real) + 1);
    return 0;
}

static int remove_one(const char *path, const struct stat *at, int type, struct FTW *ftw)
{
    (void)at;
    (void)type;
    (void)ftw;
    return remove(path);
}

int play_remove_folder(const char *path)
{
    return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : -1;
}

void play_sqlite_url(const char *folder, const char *file, char *url)
{
    url += sprintf(url, "sqlite:");
    for (const char *p = folder; *p != '\0'; p++)   /* a path may hold what a URL gives a meaning to */
        url += sprintf(url, strchr("?#%", *p) != NULL ? "%%%02X" : "%c", (unsigned char)*p);
    sprintf(url, "/%s", file);
}

/* ---- programs --------------------------------------------------------------------------------------- */

pid_t play_start(const char *logs, const char *log, char *const *argv)
{
    const char *bin = getenv("BIN");
    pid_t demo = getpid(), pid;
    char path[PATH_MAX], to[PATH_MAX];
    int fd;

    snprintf(path, sizeof path, "%s/%s", bin != NULL ? bin : "build/examples", argv[0]);
    snprintf(to, sizeof to, "%s/%s.log", logs, log);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);   /* nobody is left behind, even if the demo itself is killed */
        fd = open(to, O_WRONLY | O_CREAT | O_APPEND, 0666);
        if (getppid() == demo && fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0)
            execv(path, argv);
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        _exit(127);
    }
    return pid;
}

int play_wait_for(pid_t pid)
{
    int status = -1;

    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR || (interrupted && kill(pid, SIGTERM) != 0))
            break;
    return status;
}

int play_stops_cleanly(pid_t pid, int64_t until_ms)
{
    int status = 0;
    pid_t ended;

    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && play_now_ms() < until_ms)
        play_pause_ms(20);
    if (ended == 0) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
    }
    return ended == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static FILE *open_log(const char *logs, const char *log, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s.log", logs, log);
    return fopen(path, "r");
}

int play_count_lines(const char *logs, const char *log, const char *begin, const char *then)
{
    char path[PATH_MAX], line[4096];
    int n = 0;
    FILE *from = open_log(logs, log, path);

    while (from != NULL && fgets(line, sizeof line, from) != NULL)
        n += strncmp(line, begin, strlen(begin)) == 0 && strstr(line, then) != NULL;
    if (from != NULL)
        fclose(from);
    return n;
}

void play_show_log(const char *logs, const char *log)
{
    char path[PATH_MAX], line[1024];
    int skip = play_count_lines(logs, log, "", "") - SHOWN_LINES;
    FILE *from = open_log(logs, log, path);

    printf("--- %s%s\n", path, skip > 0 ? ", its last lines" : "");
    while (from != NULL && fgets(line, sizeof line, from) != NULL)
        if (--skip < 0)
            fputs(line, stdout);
    if (from != NULL)
        fclose(from);
}
