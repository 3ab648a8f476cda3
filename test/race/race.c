/* race.c: the race that nobody loses.
 *
 *     race [--jobs N] [--workers N] [--seed N] [--seconds N] [--poison] [--faults] [--deadline S] [--drop] URL
 *
 * Two producers enqueue jobs into an empty queue, workers claim them, an operator cancels and retries, and this process
 * kills workers at random by SIGKILL, and pauses them by SIGSTOP until their leases have run out. With --poison one of
 * the jobs kills whoever works on it. Each process writes down every call before and after it in a file of its own.
 * With --faults connections may break at any moment (test/proxy), and no call may show it; --deadline is how long a
 * request may take. --drop drops the table at the end, on SQL Server. When all jobs have ended, those files and the rows are laid beside each other (verify.c). Exit: 0 all of it is true,
 * 1 something is not, 2 usage. */
#include "race.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "handle.h"
#include "sqlserver.h"

#define PRODUCERS   2
#define LOOK_MS     10
#define CALLS_BEFORE 10

typedef struct player {
    enum { NOBODY, WORKER, PRODUCER, OPERATOR } part;
    pid_t pid;                          /* 0: has ended */
    char name[RACE_NAME];
    int lives;
    bool killed, paused;                /* told to be: it may take a moment */
    int64_t paused_until_us;            /* 0: it has not stopped */
} player;

typedef struct stage {
    race *race;
    player players[RACE_WORKERS_MAX + PRODUCERS + 1];
    int n;
    dice dice;
    audit audit;
    int paused, surprises, shot;
    int64_t act_at_us;
} stage;

/* ---- players ---- */

static int play(const race *r, const player *who, int index)
{
    if (who->part == WORKER)
        return worker_main(r, who->name, index - PRODUCERS);
    if (who->part == OPERATOR)
        return operator_main(r);
    int first = index == 0;
    return producer_main(r, who->name, r->jobs / PRODUCERS + (first ? r->jobs % PRODUCERS : 0), r->poison && first);
}

static void start(stage *s, int index)
{
    player *who = &s->players[index];
    pid_t parent = getpid();
    if (who->part == WORKER)
        snprintf(who->name, sizeof who->name, "worker-%d.%d", index - PRODUCERS, ++who->lives);
    who->killed = false;
    if (who->part == WORKER)
        s->race->board->orders[index - PRODUCERS] = s->race->board->calls[index - PRODUCERS] = 0;
    fflush(NULL);
    who->pid = fork();
    if (who->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);           /* nobody is left behind */
        close(s->audit.fd);
        exit(getppid() == parent ? play(s->race, who, index) : 3);
    }
    if (who->pid < 0) {
        perror("fork");
        who->pid = 0;
        s->surprises++;
    }
}

static void start_all(stage *s)
{
    s->n = s->race->workers + PRODUCERS + 1;
    for (int i = 0; i < s->n; i++) {
        player *who = &s->players[i];
        who->part = i < PRODUCERS ? PRODUCER : i < s->n - 1 ? WORKER : OPERATOR;
        snprintf(who->name, sizeof who->name, i < PRODUCERS ? "producer-%d" : "operator", i + 1);
        start(s, i);
    }
}

static void forget_pause(stage *s, player *who)
{
    s->paused -= who->paused;
    who->paused = false;
    who->paused_until_us = 0;
}

/* A lease lasts two seconds at most, one and what is rounded up; so it is over when a worker that has stopped goes on.
 * In the drain nobody is to wait for that. */
static void note_stop(stage *s, player *who)
{
    int64_t now_us = race_now_us(s->race);
    int ms = race_phase(s->race) == RACE_PLAY ? dice_within(&s->dice, 2200, 3000) : 0;
    who->paused_until_us = now_us + ms * INT64_C(1000);
}

/* Sees who has stopped, or ended: nobody does but who was killed, by an order or by the poison. */
static void look_after(stage *s)
{
    for (int i = 0; i < s->n; i++) {
        player *who = &s->players[i];
        int status;
        if (who->pid == 0 || waitpid(who->pid, &status, WNOHANG | WUNTRACED) != who->pid)
            continue;
        if (WIFSTOPPED(status)) {
            note_stop(s, who);
            continue;
        }
        who->pid = 0;
        forget_pause(s, who);
        bool over = race_phase(s->race) == RACE_OVER, shot = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        if (over && WIFEXITED(status) && WEXITSTATUS(status) == 0)
            continue;
        s->shot += shot;
        if (shot)
            audit_note(&s->audit, STEP_DEAD, who->name);
        if (who->part != WORKER || !shot || (!who->killed && !s->race->poison)) {
            printf("WRONG: %s ended by %s %d\n", who->name, WIFSIGNALED(status) ? "signal" : "itself, with",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
            s->surprises++;
        }
        if (who->part == WORKER && !over && s->surprises == 0)
            start(s, i);
    }
}

static bool anyone_left(const stage *s)
{
    for (int i = 0; i < s->n; i++)
        if (s->players[i].pid > 0)
            return true;
    return false;
}

static void end_all(stage *s)
{
    for (int i = 0; i < s->n; i++)
        if (s->players[i].pid > 0 && kill(s->players[i].pid, SIGKILL) == 0)
            waitpid(s->players[i].pid, NULL, 0);
}

/* ---- chaos ---- */

static void go_on_to(const race *r, int phase)
{
    __atomic_store_n(&r->board->phase, phase, __ATOMIC_RELEASE);
}

static void wake(stage *s, player *who)
{
    kill(who->pid, SIGCONT);
    audit_note(&s->audit, STEP_CONTINUE, who->name);
    forget_pause(s, who);
}

static void wake_all(stage *s, int64_t now_us)
{
    for (int i = 0; i < s->n; i++)
        if (s->players[i].paused_until_us && s->players[i].paused_until_us <= now_us)
            wake(s, &s->players[i]);
}

/* Kills a worker, mostly in its next call; or pauses one, mostly at any moment, since one that is paused in a call may
 * hold the lock that all others wait for. Who has hardly begun is spared: a slow server would see nothing but logins. */
static void act(stage *s)
{
    int worker = dice_within(&s->dice, 0, s->race->workers - 1);
    player *who = &s->players[PRODUCERS + worker];
    bool pause = dice_chance(&s->dice, 60), in_call = dice_chance(&s->dice, pause ? 20 : 75);
    bool spare = who->paused && !dice_chance(&s->dice, 25);
    spare = spare || __atomic_load_n(&s->race->board->calls[worker], __ATOMIC_ACQUIRE) < CALLS_BEFORE;
    if (who->pid == 0 || who->killed || spare || (pause && (who->paused || s->paused * 4 >= s->race->workers)))
        return;
    who->killed = !pause;
    who->paused = who->paused || pause;
    s->paused += pause;
    if (in_call && !who->paused_until_us) {
        __atomic_store_n(&s->race->board->orders[worker], pause ? SIGSTOP : SIGKILL, __ATOMIC_RELEASE);
        return;
    }
    audit_note(&s->audit, pause ? STEP_PAUSE : STEP_KILL, who->name);
    kill(who->pid, pause ? SIGSTOP : SIGKILL);
}

static void end_chaos(stage *s)
{
    go_on_to(s->race, RACE_DRAIN);
    for (int i = 0; i < s->race->workers; i++)
        __atomic_store_n(&s->race->board->orders[i], 0, __ATOMIC_RELEASE);
    wake_all(s, RACE_NEVER_US);
    printf("    %.1f s: the chaos is over\n", (double)race_now_us(s->race) / 1e6);
}

/* ---- the play ---- */

static void direct(stage *s)
{
    const race *r = s->race;
    const race_board *board = r->board;
    int64_t now_us = race_now_us(r), live = __atomic_load_n(&board->live, __ATOMIC_ACQUIRE);
    wake_all(s, now_us);
    if (race_phase(r) == RACE_PLAY && now_us >= s->act_at_us) {
        act(s);
        s->act_at_us = now_us + dice_within(&s->dice, 100, 250) * INT64_C(1000);
    }
    if (race_phase(r) == RACE_PLAY && __atomic_load_n(&board->producing, __ATOMIC_ACQUIRE) == 0 && live >= 0
        && live < (r->jobs < 1000 ? 20 : 50))
        end_chaos(s);
    if (race_phase(r) == RACE_DRAIN && __atomic_load_n(&board->drained, __ATOMIC_ACQUIRE))
        go_on_to(r, RACE_OVER);
}

static int print_stuck(void *arg, const renderq_job *job)
{
    int *left = arg;
    if (job->state < RENDERQ_COMPLETED && --*left >= 0)
        printf("    stuck: %s %s %s, %d failures, worker %s, due %lld, locked %lld\n", job->id.text,
               job->composition_id, renderq_strstate(job->state), job->retry_count, job->worker ? job->worker : "-",
               (long long)job->due_at_ms, (long long)job->locked_at_ms);
    return 0;
}

static bool run(stage *s)
{
    const race *r = s->race;
    int64_t limit_us = (int64_t)r->seconds * 1000000;
    start_all(s);
    while (anyone_left(s) && s->surprises == 0 && race_now_us(r) < limit_us) {
        look_after(s);
        direct(s);
        race_pause(LOOK_MS);
    }
    bool late = anyone_left(s) && s->surprises == 0;
    if (late) {
        printf("WRONG: not done after %d seconds, in phase %d; these are left:", r->seconds, race_phase(r));
        for (int i = 0; i < s->n; i++)
            if (s->players[i].pid > 0)
                printf(" %s%s", s->players[i].name, s->players[i].paused_until_us ? " (paused)" : "");
        printf("\n");
    }
    end_all(s);
    return s->surprises == 0 && !late;
}

static bool judge(stage *s, bool came_to_its_end)
{
    history t;
    int left = 20;
    renderq *h = race_connect(s->race, "verifier", NULL);
    if (!came_to_its_end)
        renderq_list(h, NULL, print_stuck, &left);
    bool good = history_read(&t, s->race, h) && verify(&t, s->race, h);
    if (good && s->shot > t.kills + t.poisoned) {
        printf("WRONG: %d workers were killed, and only %d were told to be\n", s->shot, t.kills + t.poisoned);
        good = false;
    }
    history_free(&t);
    renderq_close(h);
    return good && came_to_its_end;
}

/* ---- before and after ---- */

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
    (void)info, (void)type, (void)ftw;
    return remove(path);
}

static int any(void *arg, const renderq_job *job)
{
    (void)job;
    *(bool *)arg = true;
    return 1;
}

/* The handle is closed again before anybody forks: an SQLite connection must not be carried into a child. */
static bool make_queue(const race *r)
{
    bool used = false;
    renderq *h = race_connect(r, "race", NULL);
    bool made = renderq_create(h, NULL) == RENDERQ_OK && renderq_list(h, NULL, any, &used) == RENDERQ_OK;
    if (!made)
        printf("%s\n", renderq_errmsg(h));
    else if (used)
        printf("the queue is not empty; the race needs one of its own\n");
    renderq_close(h);
    return made && !used;
}

/* No call of the library's does that. */
static bool drop_table(const race *r)
{
    renderq *h = race_connect(r, "race", NULL);
    bool dropped = false;
    if (h->driver == &rq_sqlserver_driver) {
        char *sql = rq_ss_script("DROP TABLE [dbo].[VideoRenderJobs]", &h->queue);
        dropped = sql && rq_ss_request((ss_conn *)h->conn, sql, NULL, 0, NULL, "dropping the table") == RENDERQ_OK;
        free(sql);
    }
    if (!dropped)
        printf("the table was not dropped: %s\n", renderq_errmsg(h));
    renderq_close(h);
    return dropped;
}

static bool make_folder(race *r)
{
    const char *where = getenv("TMPDIR");
    snprintf(r->folder, sizeof r->folder, "%.200s/renderq-race-XXXXXX", where && *where ? where : "/tmp");
    if (mkdtemp(r->folder))
        return true;
    perror(r->folder);
    return false;
}

static bool take_arguments(race *r, int argc, char **argv)
{
    const struct { const char *name; bool *to; } flags[] = {
        { "--poison", &r->poison }, { "--faults", &r->faults }, { "--drop", &r->drop },
    };
    const struct { const char *name; int *to; int min, max; } numbers[] = {
        { "--jobs", &r->jobs, 10, 1000000 },
        { "--workers", &r->workers, 1, RACE_WORKERS_MAX },
        { "--seconds", &r->seconds, 1, 86400 },
        { "--deadline", &r->deadline_s, 1, 3600 },
    };
    for (int i = 1; i < argc; i++) {
        bool known = false, more = i + 1 < argc;
        for (size_t k = 0; k < sizeof flags / sizeof flags[0] && !known; k++)
            if (strcmp(argv[i], flags[k].name) == 0)
                known = *flags[k].to = true;
        if (known)
            continue;
        if (strcmp(argv[i], "--seed") == 0 && more) {
            r->seed = strtoull(argv[++i], NULL, 10);
            continue;
        }
        for (size_t k = 0; k < sizeof numbers / sizeof numbers[0] && !known && more; k++)
            if (strcmp(argv[i], numbers[k].name) == 0) {
                *numbers[k].to = atoi(argv[++i]);
                known = *numbers[k].to >= numbers[k].min && *numbers[k].to <= numbers[k].max;
            }
        if (!known && (argv[i][0] == '-' || r->url))
            return false;
        if (!known)
            r->url = argv[i];
    }
    return r->url != NULL;
}

int main(int argc, char **argv)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    race r = { .seed = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000, .jobs = 400, .workers = 8,
               .seconds = 900 };
    static stage s;
    if (!take_arguments(&r, argc, argv)) {
        fprintf(stderr, "usage: race [--jobs N] [--workers N] [--seed N] [--seconds N] [--poison] [--faults] [--deadline S] "
                        "[--drop] URL\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    r.start_us = race_now_us(&r);
    r.board = mmap(NULL, sizeof *r.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r.board == MAP_FAILED || !make_queue(&r) || !make_folder(&r))
        return 1;
    r.board->producing = PRODUCERS;
    r.board->live = -1;
    printf("    seed %llu: %d jobs%s, %d workers, %d producers\n", (unsigned long long)r.seed, r.jobs,
           r.poison ? " and the poison" : "", r.workers, PRODUCERS);
    s.race = &r;
    s.dice = dice_for(&r, "chaos");
    audit_open(&s.audit, &r, "chaos");
    bool good = run(&s);
    double played_s = (double)race_now_us(&r) / 1e6;
    good = judge(&s, good);
    close(s.audit.fd);
    printf("    %s, in %.1f s and %.1f s of looking into it; seed %llu\n", good ? "nobody lost" : "SOMETHING IS WRONG",
           played_s, (double)race_now_us(&r) / 1e6 - played_s, (unsigned long long)r.seed);
    if (good && r.drop)
        good = drop_table(&r);
    if (good)
        nftw(r.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    else
        printf("    the audit files are in %s\n", r.folder);
    return good ? 0 : 1;
}
