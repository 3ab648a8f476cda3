/* once.c: every effect exactly once.
 *
 *     once [--messages N] [--seconds N] [--seed N] URL
 *
 * A producer sends messages, each in a transaction with a row of its own. Four consumers receive them: in one
 * transaction a message they write a row of their own and send two follow-ups, one of which all messages of a group
 * have in common. All of them are killed at random by SIGKILL, and one is paused now and then by SIGSTOP until its
 * lease has run out; some messages fail, some kill who handles them. Then the rows are counted (verify.c). Each process is
 * this program again, so that no connection is carried over a fork.
 * Exit: 0 all of it is true, 1 something is not, 2 usage. */
#include "once.h"

#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAUSES_MAX  1000
#define LOOK_MS     100
#define STOP_MS     60000
#define IDLE_ACTS   (ONCE_CONSUMERS + 1)

typedef struct player {
    pid_t pid;                      /* 0: has ended */
    char name[32];
    int lives;
} player;

typedef struct stage {
    const char *url, *self;
    char folder[256];
    int messages, seconds;
    uint64_t dice;
    renderq *h;
    own_engine engine;
    player players[ONCE_CONSUMERS + 1];  /* the last is the producer */
    player *paused;
    once_span pauses[PAUSES_MAX];
    int acts, n_pauses, kills, surprises;
    int idle_acts;                  /* since there was progress */
    int64_t progress;               /* messages sent, and messages ended, at the last look */
    bool produced;
    int64_t act_at_ms;
} stage;

/* ---- what all processes share ---- */

once_kind once_kind_of(int number)
{
    if (number % 250 == 60)
        return ONCE_POISON;
    if (number % 50 == 13)
        return ONCE_BAD;
    return number % 12 == 5 ? ONCE_FAILING : ONCE_NORMAL;
}

static const char *const kinds[] = { "normal", "failing", "bad", "poison" };

void once_name(int number, char name[ONCE_NAME])
{
    snprintf(name, ONCE_NAME, "%s-%d", kinds[once_kind_of(number)], number);
}

int once_number(const char *name)
{
    char again[ONCE_NAME];
    const char *dash = strchr(name, '-');
    int number = dash ? atoi(dash + 1) : -1;
    if (number < 0)
        return -1;
    once_name(number, again);
    return strcmp(name, again) == 0 ? number : -1;
}

static bool say(bool ok, const own_error *error)
{
    if (!ok)
        fprintf(stderr, "%s\n", error->text);
    return ok;
}

bool once_make_tables(own_engine engine, void *native)
{
    static const char *const tables[] = { "Sent", "Effects" };
    own_error error;
    bool ok = true;
    for (int i = 0; i < 2 && ok; i++) {
        char sql[200];
        int len = engine == OWN_SQLITE ? 0 : snprintf(sql, sizeof sql, "IF OBJECT_ID(N'%s', N'U') IS NULL ", tables[i]);
        snprintf(sql + len, sizeof sql - (size_t)len, "CREATE TABLE %s (Message varchar(64) NOT NULL)", tables[i]);
        ok = say(own_run(engine, native, sql, NULL, 0, NULL, NULL, &error) == 0, &error);
    }
    return ok;
}

bool once_insert(own_engine engine, void *native, const char *table, const char *name)
{
    const own_value value = { .name = "@message", .text = name };
    own_error error;
    char sql[100];
    snprintf(sql, sizeof sql, "INSERT INTO %s (Message) VALUES (@message)", table);
    return own_run(engine, native, sql, &value, 1, NULL, NULL, &error) == 0;
}

bool once_select(own_engine engine, void *native, const char *table, own_row_fn row, void *arg)
{
    own_error error;
    char sql[100];
    snprintf(sql, sizeof sql, "SELECT Message FROM %s", table);
    return say(own_run(engine, native, sql, NULL, 0, row, arg, &error) == 0, &error);
}

renderq *once_connect(const char *url, const char *worker)
{
    renderq_options options = RENDERQ_INIT(renderq_options);
    renderq *h = NULL;
    options.worker = worker;
    if (renderq_open(url, &options, &h) == RENDERQ_OK)
        return h;
    fprintf(stderr, "%s: %s\n", worker, renderq_errmsg(h));
    exit(4);
}

int64_t once_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void once_pause_ms(int ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000L };
    nanosleep(&t, NULL);
}

int once_dice(uint64_t *state, int low, int high)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return low + (int)((*state >> 33) % (uint64_t)(high - low + 1));
}

/* ---- pauses ---- */

static void wake(stage *s)
{
    kill(s->paused->pid, SIGCONT);
    s->pauses[s->n_pauses++].to_ms = once_now_ms();
    s->paused = NULL;
}

/* One at a time: on SQLite, all wait for the one that was paused in a transaction. A lease lasts two seconds at most,
 * one and what is rounded up. */
static bool note_pause(stage *s, player *who)
{
    if (s->paused || s->n_pauses == PAUSES_MAX)
        return false;
    s->paused = who;
    s->pauses[s->n_pauses] = (once_span){ once_now_ms(), once_now_ms() + once_dice(&s->dice, 2200, 2800) };
    return true;
}

/* ---- players ---- */

static bool is_producer(const stage *s, const player *who)
{
    return who == &s->players[ONCE_CONSUMERS];
}

static void start(stage *s, player *who)
{
    char log[512], number[16];
    pid_t director = getpid();
    who->lives++;
    snprintf(log, sizeof log, "%s/%s.%d", s->folder, who->name, who->lives);
    snprintf(number, sizeof number, "%d", s->messages);
    char *consumer[] = { (char *)s->self, "--consume", who->name, log, (char *)s->url, NULL };
    char *producer[] = { (char *)s->self, "--produce", number, (char *)s->url, NULL };
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    fflush(NULL);
    who->pid = fork();
    if (who->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);           /* nobody is left behind */
        sigprocmask(SIG_BLOCK, &term, NULL);
        if (getppid() == director)
            execv(s->self, is_producer(s, who) ? producer : consumer);
        _exit(127);
    }
    if (who->pid < 0) {
        perror("fork");
        who->pid = 0;
        s->surprises++;
    }
}

/* Nobody ends but who is killed, by us or by a message; and the producer, once it is done. */
static void look_after(stage *s)
{
    for (int i = 0; i <= ONCE_CONSUMERS; i++) {
        player *who = &s->players[i];
        int status;
        if (who->pid == 0 || waitpid(who->pid, &status, WNOHANG | WUNTRACED) != who->pid)
            continue;
        if (WIFSTOPPED(status)) {       /* by us, or by itself */
            if (s->paused != who && !note_pause(s, who))
                kill(who->pid, SIGCONT);
            continue;
        }
        who->pid = 0;
        if (s->paused == who)
            s->paused = NULL;
        if (is_producer(s, who) && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            s->produced = true;
            continue;
        }
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
            printf("WRONG: %s ended with status %#x\n", who->name, (unsigned)status);
            s->surprises++;
            return;
        }
        start(s, who);
    }
}

static bool stops_cleanly(player *who, int64_t until_ms)
{
    int status = 0;
    pid_t ended;
    bool over;
    do {
        ended = waitpid(who->pid, &status, WNOHANG | WUNTRACED);
        if (ended > 0 && WIFSTOPPED(status))    /* by itself; sent to others, it can hang a leak checker */
            kill(who->pid, SIGCONT);
        else if (ended == 0)
            once_pause_ms(10);
        over = ended != 0 && !WIFSTOPPED(status);
    } while (!over && once_now_ms() < until_ms);
    if (!over) {
        kill(who->pid, SIGKILL);
        waitpid(who->pid, NULL, 0);
    }
    who->pid = 0;
    return over && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- chaos ---- */

/* Each may meet its fate once without any progress, and no more: on a slow machine nobody would come to anything. */
static void act(stage *s)
{
    player *who = &s->players[once_dice(&s->dice, 0, ONCE_CONSUMERS)];
    if (who->pid == 0 || who == s->paused || s->idle_acts == IDLE_ACTS)
        return;
    s->idle_acts++;
    if (++s->acts % 12 != 0)
        s->kills += kill(who->pid, SIGKILL) == 0;
    else if (note_pause(s, who))
        kill(who->pid, SIGSTOP);
}

static void chaos(stage *s, int64_t now_ms)
{
    if (s->paused && s->pauses[s->n_pauses].to_ms <= now_ms)
        wake(s);
    if (now_ms < s->act_at_ms)
        return;
    act(s);
    s->act_at_ms = now_ms + once_dice(&s->dice, 30, 100);
}

/* ---- the play ---- */

static int64_t count_live(stage *s)
{
    renderq_counts c = RENDERQ_INIT(renderq_counts);
    if (renderq_stats(s->h, ONCE_IN, &c) != RENDERQ_OK)
        return -1;
    int64_t live = c.scheduled + c.queued + c.processing, ended = c.completed + c.dead_letter;
    if (live + 2 * ended != s->progress)
        s->idle_acts = 0;
    s->progress = live + 2 * ended;     /* sent are those that live and those that have ended */
    return live;
}

static bool run(stage *s)
{
    int64_t start_ms = once_now_ms(), limit_ms = start_ms + (int64_t)s->seconds * 1000, look_at_ms = 0, live = -1;
    for (int i = 0; i <= ONCE_CONSUMERS; i++) {
        snprintf(s->players[i].name, sizeof s->players[i].name, i < ONCE_CONSUMERS ? "consumer-%d" : "producer", i + 1);
        start(s, &s->players[i]);
    }
    s->act_at_ms = start_ms + 300;
    while ((live != 0 || !s->produced) && s->surprises == 0 && once_now_ms() < limit_ms) {
        int64_t now_ms = once_now_ms();
        look_after(s);
        if (now_ms >= look_at_ms) {
            live = count_live(s);
            look_at_ms = now_ms + LOOK_MS;
        }
        if (!s->produced || live < 0 || live > s->messages / 50 + 4)
            chaos(s, now_ms);
        else if (s->paused)
            wake(s);
        once_pause_ms(5);
    }
    if (s->paused)
        wake(s);
    printf("    %.1f s: %d kills, %d pauses\n", (double)(once_now_ms() - start_ms) / 1000, s->kills, s->n_pauses);
    if (live != 0 && s->surprises == 0)
        printf("WRONG: not done after %d seconds; %lld messages are left\n", s->seconds, (long long)live);
    return live == 0 && s->surprises == 0;
}

static bool stop(stage *s)
{
    bool ok = true;
    int64_t until_ms = once_now_ms() + STOP_MS;
    for (int i = 0; i <= ONCE_CONSUMERS; i++)
        if (s->players[i].pid > 0)
            kill(s->players[i].pid, SIGTERM);
    for (int i = 0; i <= ONCE_CONSUMERS; i++)
        if (s->players[i].pid > 0 && !stops_cleanly(&s->players[i], until_ms)) {
            printf("WRONG: %s did not stop when it was told to\n", s->players[i].name);
            ok = false;
        }
    return ok;
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

static bool make(stage *s)
{
    static const char *const queues[] = { ONCE_IN, ONCE_OUT };
    bool used = false, ok = true;
    for (int i = 0; i < 2 && ok; i++) {
        renderq_filter filter = RENDERQ_INIT(renderq_filter);
        filter.queue = queues[i];
        ok = renderq_create(s->h, queues[i]) == RENDERQ_OK && renderq_list(s->h, &filter, any, &used) == RENDERQ_OK;
    }
    if (!ok)
        printf("%s\n", renderq_errmsg(s->h));
    if (used)
        printf("the queues are not empty; the test needs a database of its own\n");
    return ok && !used && once_make_tables(s->engine, renderq_native(s->h));
}

static bool make_folder(stage *s)
{
    const char *where = getenv("TMPDIR");
    snprintf(s->folder, sizeof s->folder, "%.200s/renderq-once-XXXXXX", where && *where ? where : "/tmp");
    if (mkdtemp(s->folder))
        return true;
    perror(s->folder);
    return false;
}

static bool take_arguments(stage *s, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--messages") == 0 && more)
            s->messages = atoi(argv[++i]);
        else if (strcmp(argv[i], "--seconds") == 0 && more)
            s->seconds = atoi(argv[++i]);
        else if (strcmp(argv[i], "--seed") == 0 && more)
            s->dice = strtoull(argv[++i], NULL, 10);
        else if (argv[i][0] == '-' || s->url)
            return false;
        else
            s->url = argv[i];
    }
    s->engine = s->url ? own_engine_of(s->url) : OWN_UNKNOWN;
    return s->engine != OWN_UNKNOWN && s->messages >= 100 && s->messages <= 1000000 && s->seconds >= 1;
}

static int direct(stage *s)
{
    s->h = once_connect(s->url, "director");
    if (!make(s) || !make_folder(s)) {
        renderq_close(s->h);
        return 1;
    }
    printf("    seed %llu, %d messages\n", (unsigned long long)s->dice, s->messages);
    bool good = run(s);
    good = stop(s) && good;
    int lives = 0;
    for (int i = 0; i < ONCE_CONSUMERS; i++)
        lives += s->players[i].lives;
    const once_play play = { s->url, s->folder, s->messages, s->pauses, s->n_pauses, s->kills, lives };
    good = verify(&play, s->h, s->engine) && good;
    renderq_close(s->h);
    if (good)
        nftw(s->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    else
        printf("    the logs are in %s\n", s->folder);
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    static stage s = { .messages = 600, .seconds = 300 };
    static char self[PATH_MAX];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 5 && strcmp(argv[1], "--consume") == 0)
        return consumer_main(argv[4], argv[2], argv[3]);
    if (argc == 4 && strcmp(argv[1], "--produce") == 0)
        return producer_main(argv[3], atoi(argv[2]));
    s.dice = (uint64_t)time(NULL);
    s.self = realpath("/proc/self/exe", self);
    if (s.self && take_arguments(&s, argc, argv))
        return direct(&s);
    fprintf(stderr, "usage: once [--messages N] [--seconds N] [--seed N] URL\n");
    return 2;
}
