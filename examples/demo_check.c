/* demo_check.c: is it all true? Asks the queue through its API, and reads every byte of every video.
 *
 * It takes nothing from the renderer: what a .y4m has to look like is written down here once more. */
#include "demo.h"

#include "play.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the queue -------------------------------------------------------------------------------------- */

static int counts_are(renderq *h, int64_t completed, int64_t dead)
{
    renderq_counts c = RENDERQ_INIT(renderq_counts);

    if (renderq_stats(h, NULL, &c) != RENDERQ_OK)
        return play_wrong("stats", "%s", renderq_errmsg(h));
    if (c.completed != completed || c.dead_letter != dead
        || c.scheduled + c.queued + c.processing + c.cancelled + c.other + c.run_out != 0)
        return play_wrong("stats", "%d completed, %d dead letters, or something else", (int)c.completed,
                          (int)c.dead_letter);
    return 1;
}

static int payload_is_whole(renderq *h, const demo_item *item)
{
    renderq_job *job = NULL;
    json_t *payload = NULL;
    int ok = 0;

    if (renderq_get(h, NULL, &item->row, &job) == RENDERQ_OK)
        payload = json_loadb(job->payload_json, job->payload_len, 0, NULL);
    ok = payload != NULL && json_equal(payload, item->payload);
    json_decref(payload);
    renderq_job_free(job);
    return ok || play_wrong(item->id, "its payload is not what was enqueued");
}

static int is_done(const demo_plan *plan, const demo_item *item, const demo_folders *folders)
{
    char path[sizeof item->output_url];
    int failures = item == plan->slow ? 1 : 0;

    snprintf(path, sizeof path, "%s/%s", folders->videos, item->video);
    if (item->state != RENDERQ_COMPLETED)
        return play_wrong(item->id, "is %s", renderq_strstate(item->state));
    if (item->retry_count != failures)
        return play_wrong(item->id, "has %d failures: %s", item->retry_count, item->last_error);
    if (strcmp(item->output_url, path) != 0)
        return play_wrong(item->id, "its output is %s", item->output_url);
    return 1;
}

static int started_first(const demo_plan *plan)
{
    int ok = 1;

    for (size_t i = 0; i < plan->n; i++)
        if (plan->items[i].state == RENDERQ_COMPLETED
            && plan->items[i].started_at_ms < plan->urgent->started_at_ms)
            ok = play_wrong(plan->items[i].id, "started before it");
    return ok;
}

static void check_queue(demo_plan *plan, renderq *h, const demo_folders *folders)
{
    const demo_item *poison = plan->poison, *delayed = plan->delayed;
    int rows = plan->strangers == 0, payloads = 1, done = 1;

    for (size_t i = 0; i < plan->n; i++) {
        const demo_item *item = &plan->items[i];

        rows = rows && (item->rows == 1 || play_wrong(item->id, "has %d rows", item->rows));
        payloads = payload_is_whole(h, item) && payloads;
        if (item != poison)
            done = is_done(plan, item, folders) && done;
    }
    play_check(rows, "every job of the file is one row, and there are no others");
    play_check(payloads, "every payload is what was enqueued");
    play_check(done, "all but the poison are Completed, and nobody failed because of it");
    play_check(counts_are(h, (int64_t)plan->n - 1, 1), "the queue counts the same: nothing is left");
    play_check(poison->state == RENDERQ_DEAD_LETTER && poison->retry_count == poison->max_retries + 1,
               "%s, the poison, is a dead letter after %d crashes: \"%s\"", poison->id, poison->retry_count,
               poison->last_error);
    play_check(started_first(plan), "%s, of priority %d, started before all others", plan->urgent->id,
               plan->urgent->priority);
    play_check(delayed->started_at_ms - delayed->created_at_ms >= delayed->delay_ms,
               "%s, for %d ms later, started %d ms after it was enqueued", delayed->id, (int)delayed->delay_ms,
               (int)(delayed->started_at_ms - delayed->created_at_ms));
}

/* ---- the programs ----------------------------------------------------------------------------------- */

static void check_programs(const demo_plan *plan, const demo_worker *workers, const demo_folders *folders)
{
    int answers = 1, doubled = 0, once = 1, crashes = 0, errors = 0;
    const demo_worker *killed = NULL;

    for (size_t i = 0; i < plan->n; i++) {
        const demo_item *item = &plan->items[i];
        char end[256], begin[256];
        int n = 0, done = 0;

        snprintf(end, sizeof end, " %s", item->id);
        snprintf(begin, sizeof begin, "%s: done: ", item->id);
        n = play_count_lines(folders->logs, "enqueue", item->row.text, end);
        if (n != item->deliveries)
            answers = play_wrong(item->id, "enqueue answered with its id %d times", n);
        if (play_count_lines(folders->logs, "enqueue", item->row.text, "DUPLICATE") != item->deliveries - 1)
            answers = play_wrong(item->id, "enqueue did not tell its duplicate");
        doubled += item->deliveries - 1;
        for (int w = 0; w < DEMO_WORKERS; w++)
            done += play_count_lines(folders->logs, workers[w].name, begin, item->video);
        if (done != (item != plan->poison))
            once = play_wrong(item->id, "was rendered %d times", done);
    }
    for (int w = 0; w < DEMO_WORKERS; w++) {
        crashes += workers[w].crashes;
        errors += workers[w].errors;
        if (workers[w].killed)
            killed = &workers[w];
    }
    play_check(answers, "%d job was delivered twice, and enqueue answered DUPLICATE and the first id", doubled);
    play_check(once, "every video was rendered to its end once");
    play_check(killed != NULL && strcmp(plan->slow->worker, killed->name) != 0,
               "%s was killed in the middle of %s, and %s rendered it", killed != NULL ? killed->name : "nobody",
               plan->slow->id, plan->slow->worker);
    play_check(crashes == plan->poison->retry_count && errors == 0,
               "%d workers crashed, all over the poison; the rest stopped when they were told to", crashes);
}

/* ---- the videos ------------------------------------------------------------------------------------- */

static int header_is(const char *line, const y4m_composition *c)
{
    int width, height, num, den, end = 0;

    return sscanf(line, "YUV4MPEG2 W%d H%d F%d:%d Ip A1:1 C420jpeg%n", &width, &height, &num, &den, &end) == 4
           && end > 0 && (line[end] == ' ' || line[end] == '\n') && width == c->width && height == c->height
           && num == c->fps_num && den == c->fps_den;
}

/* Header, then each frame: its marker and exactly its bytes, and then nothing. The title has to move. */
static int video_is_whole(const demo_item *item, const demo_folders *folders)
{
    const y4m_composition *c = &item->composition;
    size_t size = (size_t)c->width * (size_t)c->height * 3 / 2;
    char path[800], line[256];
    unsigned char *first = malloc(size), *frame = malloc(size);
    int n = 0, moved = 0, ok = 0;
    FILE *from;

    snprintf(path, sizeof path, "%s/%s", folders->videos, item->video);
    from = fopen(path, "rb");
    if (from == NULL || first == NULL || frame == NULL)
        play_wrong(item->id, "there is no %s", path);
    else if (fgets(line, sizeof line, from) == NULL || !header_is(line, c))
        play_wrong(item->id, "the header is not the composition's");
    else {
        while (n < c->frames && fgets(line, sizeof line, from) != NULL && strcmp(line, "FRAME\n") == 0
               && fread(n == 0 ? first : frame, 1, size, from) == size) {
            moved = moved || (n > 0 && memcmp(first, frame, size) != 0);
            n++;
        }
        ok = n == c->frames && fgetc(from) == EOF && (moved || n == 1);
        if (!ok)
            play_wrong(item->id, "%d good frames instead of %d, bytes after the last, or nothing moves", n, c->frames);
    }
    if (from != NULL)
        fclose(from);
    free(first);
    free(frame);
    return ok;
}

/* Not a half video, not one of the poison, not a temporary file of those who died. */
static int nothing_else(const demo_plan *plan, const demo_folders *folders)
{
    DIR *dir = opendir(folders->videos);
    const struct dirent *entry;
    int ok = dir != NULL;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        int known = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;

        for (size_t i = 0; i < plan->n && !known; i++)
            known = &plan->items[i] != plan->poison && strcmp(plan->items[i].video, entry->d_name) == 0;
        if (!known)
            ok = play_wrong(entry->d_name, "should not be there");
    }
    if (dir != NULL)
        closedir(dir);
    return ok;
}

static void check_videos(const demo_plan *plan, const demo_folders *folders)
{
    int whole = 0, frames = 0;

    for (size_t i = 0; i < plan->n; i++) {
        if (&plan->items[i] == plan->poison || !video_is_whole(&plan->items[i], folders))
            continue;
        whole++;
        frames += plan->items[i].composition.frames;
    }
    play_check((size_t)whole == plan->n - 1, "%d videos are whole: the header is as ordered, and so are all %d frames",
               whole, frames);
    play_check(nothing_else(plan, folders), "there is no other file beside them");
}

int check_demo(demo_plan *plan, renderq *h, const demo_worker *workers, const demo_folders *folders)
{
    play_check(plan_observe(plan, h) == RENDERQ_OK, "the queue can be read");
    check_queue(plan, h, folders);
    check_programs(plan, workers, folders);
    check_videos(plan, folders);
    return play_faults();
}
