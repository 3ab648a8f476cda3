/* matrix.c: every request of every call meets every fault, on the wire, alone and in a transaction. What a call may
 * answer then, and what the rows must be, follows from a few rules (rules.c) over three tables: the suite's calls, the
 * faults (table.c), and how the handle was opened. Which requests a call makes is asked of the server.
 *
 * A trial is played by a child with a queue of its own; many children wait at the same time. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trial.h"

#define TRIALS_MAX 8000
#define LANES_MAX  96
#define FAILED_MAX 20

/* What the children and their parent share. */
typedef struct board {
    sight seen;
    int taken;                              /* how many trials are */
    int first, last;                        /* from the front, where they wait; from the back, where they do not */
    int playing[LANES_MAX];                 /* what each lane plays; -1: nothing */
} board;

static board *shared;
static trial trials[TRIALS_MAX];
static int n_trials;

/* ---- lanes ---- */

#define WATCHDOG_S 400            /* a trial may be played several times */
#define BUSY_LANE  10               /* every tenth takes what does not wait */

static struct {
    const server *server;
    int number;
} own;

/* Most lanes wait, and some have always something to do meanwhile. -1: no trial is left. */
static int take_trial(void)
{
    if (__atomic_fetch_add(&shared->taken, 1, __ATOMIC_SEQ_CST) >= n_trials)
        return -1;
    return own.number % BUSY_LANE == 0 ? __atomic_sub_fetch(&shared->last, 1, __ATOMIC_SEQ_CST)
                                       : __atomic_fetch_add(&shared->first, 1, __ATOMIC_SEQ_CST);
}

static void play_trials(void **state)
{
    lane l;
    (void)state;
    lane_open(&l, own.server, own.number);
    for (int n; (n = take_trial()) >= 0;) {
        char name[300];
        shared->playing[own.number] = n;
        trial_describe(&trials[n], name, sizeof name);
        print_message("%s\n", name);
        alarm(WATCHDOG_S * (under_valgrind() ? 5 : 1));
        trial_play(&l, &trials[n]);
        alarm(0);
        shared->playing[own.number] = -1;
    }
    lane_close(&l);
}

static void look(void **state)
{
    lane l;
    (void)state;
    lane_open(&l, own.server, own.number);
    choose_look(&l, &shared->seen);
    lane_close(&l);
}

static void output_name(char *out, size_t size, int lane_number)
{
    snprintf(out, size, "lane%d.out", lane_number);
}

static pid_t start_lane(CMUnitTestFunction test, const server *s, int number)
{
    char output[40];
    output_name(output, sizeof output, number);
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    if (!freopen(output, "w", stdout) || dup2(fileno(stdout), 2) != 2)
        _exit(120);
    setvbuf(stdout, NULL, _IOLBF, 0);
    own.server = s;
    own.number = number;
    const struct CMUnitTest tests[] = { { "lane", test, NULL, NULL, NULL } };
    if (cmocka_run_group_tests_name("lane", tests, NULL, NULL) == 0)
        exit(0);                            /* with a look for leaks; a test that failed has some */
    fflush(NULL);
    _exit(1);
}

/* The end of what it said: the trial's name, and what is wrong. */
static void show_lane(int number)
{
    char output[40], line[1200], kept[12][1200];
    size_t n = 0;
    output_name(output, sizeof output, number);
    FILE *file = fopen(output, "r");
    while (file && fgets(line, sizeof line, file))
        memcpy(kept[n++ % count_of(kept)], line, sizeof line);
    for (size_t i = n > count_of(kept) ? n - count_of(kept) : 0; i < n; i++)
        fprintf(stderr, "  %s", kept[i % count_of(kept)]);
    if (file)
        fclose(file);
}

static bool ended_well(int number, int how)
{
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0)
        return true;
    int n = shared->playing[number];
    char name[300] = "between two trials";
    if (n >= 0)
        trial_describe(&trials[n], name, sizeof name);
    if (WIFSIGNALED(how) && WTERMSIG(how) == SIGALRM)
        fprintf(stderr, "FAILED: %s: it hangs\n", name);
    else
        fprintf(stderr, "FAILED: %s (%s %d)\n", name, WIFSIGNALED(how) ? "signal" : "exit",
                WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how));
    show_lane(number);
    return false;
}

/* Lanes until no trial is left. One that ended in a failure is begun again, behind the trial that failed. */
static int run_lanes(const server *servers, int n_servers, int n_lanes)
{
    pid_t pids[LANES_MAX];
    int failed = 0, running = 0;
    for (int i = 0; i < n_lanes; i++, running++) {
        shared->playing[i] = -1;
        pids[i] = start_lane(play_trials, &servers[i % n_servers], i);
    }
    while (running > 0) {
        int how, i = 0;
        pid_t pid = wait(&how);
        while (i < n_lanes && pids[i] != pid)
            i++;
        if (i == n_lanes)
            fail_msg("a server ended");
        running--;
        if (ended_well(i, how))
            continue;
        if (++failed == FAILED_MAX)
            __atomic_store_n(&shared->taken, TRIALS_MAX, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&shared->taken, __ATOMIC_SEQ_CST) < n_trials) {
            shared->playing[i] = -1;
            pids[i] = start_lane(play_trials, &servers[i % n_servers], i);
            running++;
        }
    }
    return failed;
}

/* Drops the trials whose names do not have this in them. */
static void keep_only(const char *part)
{
    int kept = 0;
    for (int i = 0; i < n_trials; i++) {
        char name[300];
        trial_describe(&trials[i], name, sizeof name);
        if (strstr(name, part))
            trials[kept++] = trials[i];
    }
    n_trials = kept;
}

static int number_from(const char *name, int otherwise, int max)
{
    const char *text = getenv(name);
    int number = text ? atoi(text) : otherwise;
    return number < 1 ? 1 : number > max ? max : number;
}

static void every_request_with_every_fault(void **state)
{
    enum { SERVERS_MAX = 8 };
    static server servers[SERVERS_MAX];
    int how, n_servers = number_from("RENDERQ_FAULT_SERVERS", 4, SERVERS_MAX);
    int n_lanes = number_from("RENDERQ_FAULT_LANES", under_valgrind() ? 8 : 80, LANES_MAX);
    (void)state;
    bool quick = under_valgrind() || getenv("RENDERQ_FAULTS_QUICK");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    for (int i = 0; i < n_servers; i++) {
        char name[20];
        snprintf(name, sizeof name, "matrix%d", i);
        server_start(&servers[i], name, 0);
    }
    shared->playing[0] = -1;
    pid_t pid = start_lane(look, &servers[0], 0);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(ended_well(0, how));
    n_trials = (int)choose(&shared->seen, quick, trials, TRIALS_MAX);
    if (getenv("RENDERQ_FAULTS_ONLY"))
        keep_only(getenv("RENDERQ_FAULTS_ONLY"));
    shared->last = n_trials;
    int64_t start_ms = clock_ms();
    int failed = run_lanes(servers, n_servers, n_lanes);
    print_message("%d trials (%s calls, %zu faults) in %lld s\n", n_trials, quick ? "a few" : "all", n_faults,
                  (long long)(clock_ms() - start_ms) / 1000);
    for (int i = 0; i < n_servers; i++)
        server_stop(&servers[i]);
    munmap(shared, sizeof *shared);
    assert_int_equal(failed, 0);
}

int run_matrix(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_request_with_every_fault) };
    return cmocka_run_group_tests_name("matrix", tests, NULL, NULL);
}
