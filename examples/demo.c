/* demo.c: the queue at work, with everything that goes wrong in a render farm: run it by `make demo`.
 *
 *     demo [--clean] [FILE]
 *
 * It enqueues the compositions of a file by the enqueue example, lets three of the worker example render them,
 * kills one in the middle of a video, starts those again that crash over a poisonous job, and then checks that
 * everything is as it should be (demo_check.c). --clean removes the videos at the end. The programs are found in
 * the folder that the variable BIN names. Exit: 0 all is well, 1 something is not. */
#include "demo.h"

#include "play.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define LEASE       "8"                     /* seconds: no busy machine is late by so much; a real farm has minutes */
#define DEADLINE_MS 180000
#define LOOK_MS     100
#define REAP_MS     500
#define STOP_MS     60000

/* ---- folders and processes -------------------------------------------------------------------------- */

static int make_folders(demo_folders *f)
{
    if (play_make_folder("renderq-demo", f->home) != 0)
        return -1;
    snprintf(f->videos, sizeof f->videos, "%s/videos", f->home);
    snprintf(f->logs, sizeof f->logs, "%s/logs", f->home);
    play_sqlite_url(f->home, "jobs.db?queue=VideoRenderJobs", f->url);
    return mkdir(f->videos, 0777) != 0 || mkdir(f->logs, 0777) != 0 ? -1 : 0;
}

static int enqueue(const demo_folders *f, const char *file)
{
    char *argv[] = {"enqueue", "--create", (char *)f->url, (char *)file, NULL};
    int status = play_wait_for(play_start(f->logs, "enqueue", argv));

    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    play_show_log(f->logs, "enqueue");
    return -1;
}

static void start_worker(const demo_folders *f, demo_worker *w)
{
    char *argv[] = {"worker", "--name", w->name, "--lease", LEASE, "--output", (char *)f->videos, (char *)f->url,
                    NULL};

    w->pid = play_start(f->logs, w->name, argv);
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
        play_say("%s ended by itself, with exit code %d", w->name, WEXITSTATUS(status));
        play_show_log(f->logs, w->name);
        w->errors++;
        return;
    }
    w->crashes++;
    start_worker(f, w);
    play_say("%s crashed (%s) and is started again", w->name, strsignal(WTERMSIG(status)));
}

static void stop_workers(demo_worker *workers)
{
    int64_t until = play_now_ms() + STOP_MS;

    for (int i = 0; i < DEMO_WORKERS; i++)
        if (workers[i].pid > 0)
            kill(workers[i].pid, SIGTERM);
    for (int i = 0; i < DEMO_WORKERS; i++) {
        demo_worker *w = &workers[i];

        if (w->pid > 0 && !play_stops_cleanly(w->pid, until) && !w->killed) {
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
        play_say("%s: Processing by %s, attempt %d", now->id, now->worker, now->retry_count + 1);
    else if (now->retry_count > before->retry_count)
        play_say("%s: %s after failure %d: %s", now->id, renderq_strstate(now->state), now->retry_count,
            now->last_error);
    else
        play_say("%s: %s", now->id, renderq_strstate(now->state));
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

/* Kills it, if it is still at the slow job: it is stopped first, as it could finish between a look and the kill. */
static int kill_victim(demo_worker *victim, demo_plan *plan, renderq *h)
{
    if (kill(victim->pid, SIGSTOP) != 0)
        return 0;
    if (plan_observe(plan, h) == RENDERQ_OK && plan->slow->state == RENDERQ_PROCESSING
        && strcmp(victim->name, plan->slow->worker) == 0)
        return kill(victim->pid, SIGKILL) == 0;
    kill(victim->pid, SIGCONT);
    return 0;
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
        if (status == RENDERQ_OK && play_now_ms() >= reap_at) {
            status = renderq_reap(h, NULL, NULL);
            reap_at = play_now_ms() + REAP_MS;
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
        if (victim != NULL && kill_victim(victim, plan, h)) {
            killed = victim->killed = 1;
            play_say("%s is killed in the middle of %s, at %s", victim->name, plan->slow->id, plan->slow->progress);
        }
        for (int i = 0; i < DEMO_WORKERS; i++) {
            look_after(f, &workers[i]);
            if (workers[i].errors > 0)
                return -1;
        }
        if (plan_ended(plan))
            return 0;
        if (play_is_interrupted() || play_now_ms() > DEADLINE_MS) {
            printf("%s, and there are jobs left\n", play_is_interrupted() ? "interrupted" : "the time is over");
            return -1;
        }
        play_pause_ms(LOOK_MS);
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
    play_say("%d lines of %s are enqueued, %d of them told to be duplicates", (int)plan->deliveries, file,
        (int)(plan->deliveries - plan->n));
    if (renderq_open(f->url, NULL, &h) != RENDERQ_OK) {
        printf("%s\n", renderq_errmsg(h));
        renderq_close(h);
        return -1;
    }
    for (int i = 0; i < DEMO_WORKERS; i++) {
        start_worker(f, &workers[i]);
        play_say("%s starts, process %d", workers[i].name, (int)workers[i].pid);
    }
    ended = watch(plan, h, workers, f);
    stop_workers(workers);
    play_say("the workers have stopped");
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
    static demo_plan plan;
    demo_folders folders = { .url = "" };
    int bad;

    if (argc > 2 + clean || (argc > 1 + clean && argv[1 + clean][0] == '-')) {
        fprintf(stderr, "usage: demo [--clean] [FILE]\n");
        return 2;
    }
    play_begin();

    bad = plan_load(&plan, file);
    if (bad == 0 && make_folders(&folders) != 0) {
        perror("temporary folder");
        bad = 1;
    }
    if (bad == 0) {
        bad = run(&plan, &folders, file);
        if (clean && play_remove_folder(folders.home) != 0)
            perror(folders.home);
        else if (!clean)
            printf("\nThe videos are in %s\nThe logs are in   %s\n", folders.videos, folders.logs);
        printf("%s\n", bad == 0 ? "All is well." : "SOMETHING IS WRONG.");
    }
    plan_free(&plan);
    return bad == 0 ? 0 : 1;
}
