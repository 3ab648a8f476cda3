/* demo.c: the queue at work, with everything that goes wrong in a render farm: run it by `make demo`.
 *
 *     demo [--clean] [FILE]
 *
 * It enqueues the compositions of a file by the enqueue example, lets three of the worker example render them,
 * kills one in the middle of a video, starts those again that crash over a poisonous job, and then checks that
 * everything is as it should be (demo_check.c). --clean removes the videos at the end. The programs are found in
 * the folder that the variable BIN names. Exit: 0 all is well, 1 something is not. */
#include "demo.h"

#include <dirent.h>
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

#define LEASE       "2"                     /* seconds; a real farm has minutes */
#define DEADLINE_MS 30000
#define LOOK_MS     100
#define REAP_MS     500
#define STOP_MS     5000

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

static int64_t now_ms(void)
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

static void pause_ms(int ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    nanosleep(&t, NULL);
}

/* A line of the story, with the time since its beginning. */
__attribute__((format(printf, 1, 2)))
static void say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    printf("%5.1f s  ", (double)now_ms() / 1000);
    vprintf(format, args);
    printf("\n");
    va_end(args);
    fflush(stdout);
}

/* ---- folders and processes -------------------------------------------------------------------------- */

static int make_folders(demo_folders *f)
{
    const char *temporary = getenv("TMPDIR");
    char given[400], real[PATH_MAX], *to = f->url;

    snprintf(given, sizeof given, "%s/renderq-demo.XXXXXX", temporary != NULL ? temporary : "/tmp");
    if (mkdtemp(given) == NULL || realpath(given, real) == NULL || strlen(real) >= sizeof f->home)
        return -1;
    memcpy(f->home, real, strlen(real) + 1);
    snprintf(f->videos, sizeof f->videos, "%s/videos", f->home);
    snprintf(f->logs, sizeof f->logs, "%s/logs", f->home);

    to += sprintf(to, "sqlite:");
    for (const char *p = f->home; *p != '\0'; p++)      /* a path may hold what a URL gives a meaning to */
        to += sprintf(to, strchr("?#%", *p) != NULL ? "%%%02X" : "%c", (unsigned char)*p);
    sprintf(to, "/jobs.db?queue=VideoRenderJobs");
    return mkdir(f->videos, 0777) != 0 || mkdir(f->logs, 0777) != 0 ? -1 : 0;
}

static int remove_one(const char *path, const struct stat *at, int type, struct FTW *ftw)
{
    (void)at;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* Starts a program of BIN with its output in a log. Returns its process id, or -1. */
static pid_t start(const demo_folders *f, const char *log, char *const *argv)
{
    const char *bin = getenv("BIN");
    pid_t demo = getpid(), pid;
    char path[PATH_MAX], to[600];
    int fd;

    snprintf(path, sizeof path, "%s/%s", bin != NULL ? bin : "build/examples", argv[0]);
    snprintf(to, sizeof to, "%s/%s.log", f->logs, log);
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

/* Waits for a process that we started, and ends it when we are to end. Returns its status of waitpid(). */
static int wait_for(pid_t pid)
{
    int status = -1;

    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR || (interrupted && kill(pid, SIGTERM) != 0))
            break;
    return status;
}

static void show_log(const demo_folders *f, const char *log)
{
    char path[600], line[1024];
    FILE *from;

    snprintf(path, sizeof path, "%s/%s.log", f->logs, log);
    from = fopen(path, "r");
    printf("--- %s\n", path);
    while (from != NULL && fgets(line, sizeof line, from) != NULL)
        fputs(line, stdout);
    if (from != NULL)
        fclose(from);
}

static int enqueue(const demo_folders *f, const char *file)
{
    char *argv[] = {"enqueue", "--create", (char *)f->url, (char *)file, NULL};
    int status = wait_for(start(f, "enqueue", argv));

    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    show_log(f, "enqueue");
    return -1;
}

static void start_worker(const demo_folders *f, demo_worker *w)
{
    char *argv[] = {"worker", "--name", w->name, "--lease", LEASE, "--output", (char *)f->videos, (char *)f->url,
                    NULL};

    w->pid = start(f, w->name, argv);
    if (w->pid < 0) {
        w->pid = 0;
        w->errors++;
    }
}

/* Sees who has ended. One that crashed is started again, as a shell loop around it would; the one that we
 * killed is not: its machine is gone, and the others have to do. */
static void look_after(const demo_folders *f, demo_worker *w)
{
    int status;

    if (w->pid == 0 || waitpid(w->pid, &status, WNOHANG) != w->pid)
        return;
    w->pid = 0;
    if (w->killed)
        return;
    if (!WIFSIGNALED(status)) {
        say("%s ended by itself, with exit code %d", w->name, WEXITSTATUS(status));
        show_log(f, w->name);
        w->errors++;
        return;
    }
    w->crashes++;
    start_worker(f, w);
    say("%s crashed (%s) and is started again", w->name, strsignal(WTERMSIG(status)));
}

static void stop_workers(demo_worker *workers)
{
    int64_t until = now_ms() + STOP_MS;

    for (int i = 0; i < DEMO_WORKERS; i++)
        if (workers[i].pid > 0)
            kill(workers[i].pid, SIGTERM);
    for (int i = 0; i < DEMO_WORKERS; i++) {
        demo_worker *w = &workers[i];
        int status = 0;
        pid_t ended = 0;

        while (w->pid > 0 && (ended = waitpid(w->pid, &status, WNOHANG)) == 0 && now_ms() < until)
            pause_ms(20);
        if (w->pid > 0 && ended == 0) {
            kill(w->pid, SIGKILL);
            ended = waitpid(w->pid, &status, 0);
        }
        if (w->pid > 0 && !w->killed && (ended != w->pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
            printf("%s did not stop cleanly\n", w->name);
            w->errors++;
        }
        w->pid = 0;
    }
}

/* ---- what happens ----------------------------------------------------------------------------------- */

static int has_temporary(const demo_folders *f, const demo_item *item)
{
    DIR *dir = opendir(f->videos);
    const struct dirent *entry;
    size_t len = strlen(item->video);
    int found = 0;

    while (dir != NULL && !found && (entry = readdir(dir)) != NULL)
        found = entry->d_name[0] == '.' && strncmp(entry->d_name + 1, item->video, len) == 0
                && strstr(entry->d_name, Y4M_TEMPORARY) != NULL;
    if (dir != NULL)
        closedir(dir);
    return found;
}

/* Tells what became of a job since the last look. */
static void tell(const demo_item *before, const demo_item *now)
{
    if (now->state == before->state && now->retry_count == before->retry_count
        && strcmp(now->worker, before->worker) == 0)
        return;
    if (now->state == RENDERQ_PROCESSING)
        say("%s: Processing by %s, attempt %d", now->id, now->worker, now->retry_count + 1);
    else if (now->retry_count > before->retry_count)
        say("%s: %s after failure %d: %s", now->id, renderq_strstate(now->state), now->retry_count,
            now->last_error);
    else
        say("%s: %s", now->id, renderq_strstate(now->state));
}

/* The worker of the slow job, as soon as it is well under way; NULL until then. */
static demo_worker *find_victim(const demo_folders *f, const demo_plan *plan, demo_worker *workers)
{
    const demo_item *slow = plan->slow;

    if (slow->state == RENDERQ_PROCESSING && slow->progress[0] != '\0' && has_temporary(f, slow))
        for (int i = 0; i < DEMO_WORKERS; i++)
            if (workers[i].pid > 0 && strcmp(workers[i].name, slow->worker) == 0)
                return &workers[i];
    return NULL;
}

/* From the first claim until every job has ended. Returns 0, or -1 when it does not come to its end. */
static int watch(demo_plan *plan, renderq *h, demo_worker *workers, const demo_folders *f)
{
    int64_t reap_at = 0;
    int killed = 0;

    for (;;) {
        const demo_item slow = *plan->slow, poison = *plan->poison;
        const demo_item urgent = *plan->urgent, delayed = *plan->delayed;
        demo_worker *victim;
        renderq_status status = plan_observe(plan, h);

        /* A claim sends jobs back whose lease has run out, but only now and then: with leases of minutes, that
         * is soon enough. The demo has no time, and asks for it as a schedule would. */
        if (status == RENDERQ_OK && now_ms() >= reap_at) {
            status = renderq_reap(h, NULL, NULL);
            reap_at = now_ms() + REAP_MS;
        }
        if (status != RENDERQ_OK && status != RENDERQ_BUSY) {
            printf("%s: %s\n", renderq_strstatus(status), renderq_errmsg(h));
            return -1;
        }
        tell(&slow, plan->slow);
        tell(&poison, plan->poison);
        tell(&urgent, plan->urgent);
        tell(&delayed, plan->delayed);

        victim = killed ? NULL : find_victim(f, plan, workers);
        if (victim != NULL && kill(victim->pid, SIGKILL) == 0) {
            killed = victim->killed = 1;
            say("%s is killed in the middle of %s, at %s", victim->name, plan->slow->id, plan->slow->progress);
        }
        for (int i = 0; i < DEMO_WORKERS; i++) {
            look_after(f, &workers[i]);
            if (workers[i].errors > 0)
                return -1;
        }
        if (plan_ended(plan))
            return 0;
        if (interrupted || now_ms() > DEADLINE_MS) {
            printf("%s, and there are jobs left\n", interrupted ? "interrupted" : "the time is over");
            return -1;
        }
        pause_ms(LOOK_MS);
    }
}

/* ---- what came of it -------------------------------------------------------------------------------- */

static void print_states(const demo_plan *plan)
{
    printf("\n  State        Jobs\n");
    for (int state = RENDERQ_SCHEDULED; state <= RENDERQ_OTHER; state++) {
        int n = 0;

        for (size_t i = 0; i < plan->n; i++)
            n += plan->items[i].state == (renderq_state)state;
        if (n > 0)
            printf("  %-12s %4d\n", renderq_strstate((renderq_state)state), n);
    }
}

static void print_workers(const demo_plan *plan, const demo_worker *workers)
{
    printf("\n  Worker     Crashes  Videos\n");
    for (int w = 0; w < DEMO_WORKERS; w++) {
        int n = 0, column = 0;

        for (size_t i = 0; i < plan->n; i++)
            n += plan->items[i].state == RENDERQ_COMPLETED && strcmp(plan->items[i].worker, workers[w].name) == 0;
        printf("  %-10s %7d  %6d ", workers[w].name, workers[w].crashes, n);
        for (size_t i = 0; i < plan->n; i++) {
            const demo_item *item = &plan->items[i];

            if (item->state != RENDERQ_COMPLETED || strcmp(item->worker, workers[w].name) != 0)
                continue;
            if (column > 60)
                printf("\n%29s", "");
            column = (column > 60 ? 0 : column) + printf(" %s", item->id);
        }
        printf("%s\n", workers[w].killed ? " (killed)" : "");
    }
    printf("\n");
}

static int run(demo_plan *plan, const demo_folders *f, const char *file)
{
    demo_worker workers[DEMO_WORKERS] = {{.name = "render-1"}, {.name = "render-2"}, {.name = "render-3"}};
    renderq *h = NULL;
    int ended, faults;

    if (enqueue(f, file) != 0)
        return -1;
    say("%d lines of %s are enqueued, %d of them told to be duplicates", (int)plan->deliveries, file,
        (int)(plan->deliveries - plan->n));
    if (renderq_open(f->url, NULL, &h) != RENDERQ_OK) {
        printf("%s\n", renderq_errmsg(h));
        renderq_close(h);
        return -1;
    }
    for (int i = 0; i < DEMO_WORKERS; i++) {
        start_worker(f, &workers[i]);
        say("%s starts, process %d", workers[i].name, (int)workers[i].pid);
    }
    ended = watch(plan, h, workers, f);
    stop_workers(workers);
    say("the workers have stopped");
    print_states(plan);
    print_workers(plan, workers);
    faults = ended == 0 ? check_demo(plan, h, workers, f) : 1;
    renderq_close(h);
    return faults == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    int clean = argc > 1 && strcmp(argv[1], "--clean") == 0;
    const char *file = argc > 1 + clean ? argv[1 + clean] : "examples/compositions.jsonl";
    const struct sigaction action = {.sa_handler = on_signal};
    const struct rlimit no_core = {0, 0};
    static demo_plan plan;
    demo_folders folders = { .url = "" };
    int bad;

    if (argc > 2 + clean || (argc > 1 + clean && argv[1 + clean][0] == '-')) {
        fprintf(stderr, "usage: demo [--clean] [FILE]\n");
        return 2;
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    setrlimit(RLIMIT_CORE, &no_core);       /* the crashes are part of the play */
    now_ms();

    bad = plan_load(&plan, file);
    if (bad == 0 && make_folders(&folders) != 0) {
        perror("temporary folder");
        bad = 1;
    }
    if (bad == 0) {
        bad = run(&plan, &folders, file);
        if (clean && nftw(folders.home, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
            perror(folders.home);
        else if (!clean)
            printf("\nThe videos are in %s\nThe logs are in   %s\n", folders.videos, folders.logs);
        printf("%s\n", bad == 0 ? "All is well." : "SOMETHING IS WRONG.");
    }
    plan_free(&plan);
    return bad == 0 ? 0 : 1;
}
