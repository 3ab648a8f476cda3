/* history.c: what happened, read from the audit files and from the rows: for each job all calls about it, in order.
 * It judges nothing. */
#include "race.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IN_HAND_US 6000000      /* how long a server may still have what a process sent that is dead */

static void *must(void *memory)
{
    if (!memory) {
        fprintf(stderr, "out of memory\n");
        exit(3);
    }
    return memory;
}

/* Room for one more in an array that doubles. */
static void *grow(void *array, size_t n, size_t size)
{
    return (n & (n + 1)) == 0 ? must(realloc(array, (2 * n + 2) * size)) : array;
}

/* ---- texts as numbers ---- */

typedef struct text_table {
    char **texts;
    size_t n, room;
    int *slots;                         /* a power of two of them; -1: free */
    size_t n_slots;
} text_table;

static size_t find_slot(const text_table *t, const char *text)
{
    uint64_t hash = 14695981039346656037u;
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    size_t slot = hash & (t->n_slots - 1);
    while (t->slots[slot] >= 0 && strcmp(t->texts[t->slots[slot]], text) != 0)
        slot = (slot + 1) & (t->n_slots - 1);
    return slot;
}

static void make_slots(text_table *t, size_t n)
{
    free(t->slots);
    t->slots = must(malloc(n * sizeof *t->slots));
    t->n_slots = n;
    memset(t->slots, 0xff, n * sizeof *t->slots);
    for (size_t i = 0; i < t->n; i++)
        t->slots[find_slot(t, t->texts[i])] = (int)i;
}

static int number_of(history *t, const char *text)
{
    text_table *table = t->texts;
    if (!text || strcmp(text, "-") == 0)
        return -1;
    if (table->n * 2 >= table->n_slots)
        make_slots(table, table->n_slots * 2);
    size_t slot = find_slot(table, text);
    if (table->slots[slot] < 0) {
        if (table->n == table->room) {
            table->room = table->room ? table->room * 2 : 1024;
            table->texts = must(realloc(table->texts, table->room * sizeof *table->texts));
        }
        table->texts[table->n] = must(strdup(text));
        table->slots[slot] = (int)table->n++;
    }
    return table->slots[slot];
}

const char *history_text(const history *t, int text)
{
    return text < 0 ? "-" : t->texts->texts[text];
}

/* ---- one audit file ---- */

typedef struct line {
    long long at_us, number;
    unsigned call;
    int item, more, of, retries, max_retries;
    char kind[8], step[16], job[48], lease[48], status[20], text[400];
} line;

typedef struct reading {
    history *to;
    race_op *ghosts;
    size_t n_ghosts;
    const char *name;
    size_t call_at, call_len;           /* the ops of the call that is under way */
    unsigned call;
    int answers, of;
    bool broke;                         /* in that call */
    bool wrong;
} reading;

static race_step step_named(const char *name)
{
    int step = 0;
    while (step < STEPS && strcmp(race_steps[step], name) != 0)
        step++;
    return (race_step)step;
}

static int status_named(const char *name)
{
    int status = RENDERQ_OK;
    while (status <= RENDERQ_FAILED && strcmp(renderq_strstatus((renderq_status)status), name) != 0)
        status++;
    return status;
}

static bool parse(const char *text, line *l)
{
    int at = 0;
    memset(l, 0, sizeof *l);
    if (sscanf(text, "%lld %u.%d %7s %15s %n", &l->at_us, &l->call, &l->item, l->kind, l->step, &at) != 5
        || step_named(l->step) == STEPS)
        return false;
    if (strcmp(l->kind, "note") == 0)
        return sscanf(text + at, "%399s", l->text) == 1;
    if (strcmp(l->kind, "ask") == 0)
        return sscanf(text + at, "%47s %47s %lld %d %399s", l->job, l->lease, &l->number, &l->more, l->text) == 5;
    return strcmp(l->kind, "got") == 0
           && sscanf(text + at, "%47s %47s %19s %d %d %d %399[^\n]", l->job, l->lease, l->status, &l->of, &l->retries,
                     &l->max_retries, l->text) == 7
           && status_named(l->status) <= RENDERQ_FAILED;
}

static race_op *add_op(history *t, const race_op *op)
{
    t->ops = grow(t->ops, t->n_ops, sizeof *t->ops);
    t->ops[t->n_ops] = *op;
    return &t->ops[t->n_ops++];
}

static void take_ask(reading *in, const line *l, const char *text)
{
    history *t = in->to;
    if (l->call != in->call) {
        in->call = l->call;
        in->call_at = t->n_ops;
        in->answers = in->of = 0;
        in->broke = false;
    }
    race_op op = { .step = step_named(l->step), .status = RENDERQ_OK, .maybe = true, .before_us = l->at_us,
                   .after_us = RACE_NEVER_US, .actor = number_of(t, in->name), .job = number_of(t, l->job),
                   .lease = number_of(t, l->lease), .fresh = -1, .text = number_of(t, l->text), .number = l->number,
                   .more = l->more, .asked = text };
    add_op(t, &op);
    in->call_len = t->n_ops - in->call_at;
}

/* A claim asks once and is answered with several jobs. */
static race_op *op_of(reading *in, const line *l)
{
    history *t = in->to;
    if (l->call != in->call || l->item < 0 || l->item > (int)in->call_len)
        return NULL;
    if (l->item < (int)in->call_len)
        return &t->ops[in->call_at + (size_t)l->item];
    race_op op = t->ops[in->call_at];
    if (op.step != STEP_CLAIM)
        return NULL;
    in->call_len++;
    return add_op(t, &op);
}

static void take_got(reading *in, const line *l, const char *text)
{
    race_op *op = op_of(in, l);
    if (!op || op->step != step_named(l->step)) {
        in->wrong = true;
        return;
    }
    op->status = (renderq_status)status_named(l->status);
    op->maybe = op->status == RENDERQ_UNCERTAIN;
    op->after_us = op->maybe ? RACE_NEVER_US : l->at_us;
    op->doubtful = op->status == RENDERQ_LOST
                   && (in->broke || l->at_us - op->before_us > in->to->deadline_us - RACE_SLACK_US);
    op->retries = l->retries;
    op->max_retries = l->max_retries > 0 ? l->max_retries : 0;
    op->got = text;
    if (op->step == STEP_ENQUEUE || op->step == STEP_CLAIM)
        op->job = number_of(in->to, l->job);
    if (op->step == STEP_CLAIM) {
        op->lease = number_of(in->to, l->lease);
        op->text = number_of(in->to, l->text);
    } else if (op->step == STEP_START && op->text >= 0) {
        op->fresh = number_of(in->to, l->lease);
    }
    in->answers++;
    in->of = l->of;
}

/* The claim that is under way asked before, and may be answered by what it asked now; that request is still about. */
static void take_ghost(reading *in)
{
    race_op op = in->to->ops[in->call_at];
    op.ghost = op.maybe = true;
    in->ghosts = grow(in->ghosts, in->n_ghosts, sizeof *in->ghosts);
    in->ghosts[in->n_ghosts++] = op;
}

static void take_note(reading *in, const line *l)
{
    history *t = in->to;
    race_step step = step_named(l->step);
    if (step == STEP_BROKE) {
        in->broke = true;
        return;
    }
    if (step == STEP_GHOST) {
        in->wrong = in->call_len == 0 || t->ops[in->call_at].step != STEP_CLAIM;
        if (!in->wrong)
            take_ghost(in);
        return;
    }
    int process = number_of(t, l->text);
    t->kills += step == STEP_KILL;
    t->poisoned += step == STEP_POISONED;
    if (step == STEP_DEAD) {
        t->deaths = grow(t->deaths, t->n_deaths, sizeof *t->deaths);
        t->deaths[t->n_deaths++] = (race_note){ .process = process, .from_us = l->at_us };
    }
    if (step == STEP_PAUSE) {
        t->pauses = grow(t->pauses, t->n_pauses, sizeof *t->pauses);
        t->pauses[t->n_pauses++] = (race_note){ .process = process, .from_us = l->at_us, .to_us = RACE_NEVER_US };
    }
    for (size_t i = t->n_pauses; step == STEP_CONTINUE && i-- > 0;)
        if (t->pauses[i].process == process) {
            t->pauses[i].to_us = l->at_us;
            break;
        }
}

static char *read_file(const char *path)
{
    FILE *from = fopen(path, "r");
    long size = 0;
    if (!from || fseek(from, 0, SEEK_END) != 0 || (size = ftell(from)) < 0 || fseek(from, 0, SEEK_SET) != 0) {
        perror(path);
        exit(3);
    }
    char *text = must(malloc((size_t)size + 1));
    text[fread(text, 1, (size_t)size, from)] = 0;
    fclose(from);
    return text;
}

/* A last line without its end was torn when its writer was killed, and was not said. */
static bool read_audit(history *t, const char *folder, const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    t->files = grow(t->files, t->n_files, sizeof *t->files);
    char *at = t->files[t->n_files++] = read_file(path);
    reading in = { .to = t, .name = name };
    for (char *newline; (newline = strchr(at, '\n')); at = newline + 1) {
        line l;
        *newline = 0;
        if (!parse(at, &l))
            in.wrong = true;
        else if (strcmp(l.kind, "ask") == 0)
            take_ask(&in, &l, at);
        else if (strcmp(l.kind, "got") == 0)
            take_got(&in, &l, at);
        else
            take_note(&in, &l);
        if (in.wrong) {
            printf("the audit file %s has a line out of place: %s\n", path, at);
            return false;
        }
    }
    for (size_t i = 0; i < in.n_ghosts; i++)
        add_op(t, &in.ghosts[i]);
    t->n_ghosts += (int)in.n_ghosts;
    free(in.ghosts);
    if (in.answers < in.of && t->ops[in.call_at].step == STEP_CLAIM) {
        race_op rest = t->ops[in.call_at];
        rest.maybe = true;
        rest.after_us = RACE_NEVER_US;
        rest.job = rest.lease = rest.text = -1;
        rest.more = in.of - in.answers;
        add_op(t, &rest);
    }
    return true;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static bool read_audits(history *t, const char *folder)
{
    DIR *dir = opendir(folder);
    char **names = NULL;
    size_t n = 0;
    bool good = dir != NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        names = grow(names, n, sizeof *names);
        names[n++] = must(strdup(entry->d_name));
    }
    if (dir)
        closedir(dir);
    if (n > 1)
        qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        good = good && read_audit(t, folder, names[i]);
        free(names[i]);
    }
    free(names);
    return good;
}

/* ---- jobs ---- */

static int by_job(const void *left, const void *right)
{
    const race_job *a = left, *b = right;
    return a->id < b->id ? -1 : a->id > b->id;
}

static race_job *find_job(history *t, int id)
{
    race_job key = { .id = id };
    return t->n_jobs ? bsearch(&key, t->jobs, t->n_jobs, sizeof *t->jobs, by_job) : NULL;
}

static void add_job(history *t, const race_job *job)
{
    t->jobs = grow(t->jobs, t->n_jobs, sizeof *t->jobs);
    t->jobs[t->n_jobs++] = *job;
}

/* "composition,key" */
static void split_text(history *t, const race_op *op, int *name, int *key)
{
    char text[200];
    snprintf(text, sizeof text, "%s", history_text(t, op->text));
    char *comma = strchr(text, ',');
    *key = comma ? number_of(t, comma + 1) : -1;
    if (comma)
        *comma = 0;
    *name = number_of(t, text);
}

static void add_enqueued(history *t)
{
    for (size_t i = 0; i < t->n_ops; i++) {
        const race_op *op = &t->ops[i];
        if (op->step != STEP_ENQUEUE || op->status != RENDERQ_OK || op->maybe)
            continue;
        race_job job = { .id = op->job, .enqueued = true, .enqueued_us = op->before_us,
                         .max_retries = op->more == 0 ? RENDERQ_RETRIES_DEFAULT : op->more > 0 ? op->more : 0 };
        split_text(t, op, &job.name, &job.key);
        add_job(t, &job);
    }
}

static int add_row(void *arg, const renderq_job *job)
{
    history *t = arg;
    const char *url = job->output_url && strncmp(job->output_url, "lease:", 6) == 0 ? job->output_url + 6 : NULL;
    int id = number_of(t, job->id.text);
    race_row row = { .rows = 1, .state = job->state, .retries = job->retry_count,
                     .max_retries = job->max_retries > 0 ? job->max_retries : 0, .worker = number_of(t, job->worker),
                     .lease = number_of(t, url), .name = number_of(t, job->composition_id),
                     .key = number_of(t, job->dedup_key) };
    race_job *known = find_job(t, id);
    if (known) {
        row.rows += known->row.rows;
        known->row = row;
        return 0;
    }
    race_job stranger = { .id = id, .name = row.name, .key = row.key, .max_retries = row.max_retries, .row = row };
    add_job(t, &stranger);
    qsort(t->jobs, t->n_jobs, sizeof *t->jobs, by_job);
    return 0;
}

static void give_op(race_job *job, race_op *op)
{
    job->ops = grow(job->ops, job->n, sizeof *job->ops);
    job->ops[job->n++] = op;
}

static int by_time(const void *left, const void *right)
{
    const race_op *a = *(race_op *const *)left, *b = *(race_op *const *)right;
    return a->before_us != b->before_us ? (a->before_us < b->before_us ? -1 : 1)
                                        : a->after_us < b->after_us ? -1 : a->after_us > b->after_us;
}

/* What a call on one job says of another: that one was live, or was not. */
static void add_witness(history *t, race_job *about, const race_op *op, race_step step)
{
    race_op witness = *op;
    if (witness.before_us < about->enqueued_us && step == STEP_NOT_HELD)
        return;
    witness.step = step;
    witness.job = about->id;
    add_op(t, &witness);
}

static void add_witnesses(history *t)
{
    size_t n = t->n_ops;
    for (size_t i = 0; i < n; i++) {
        race_op op = t->ops[i];
        race_job *job = find_job(t, op.job);
        if (!job || !job->enqueued || op.maybe)
            continue;
        if (op.step == STEP_ENQUEUE && op.status == RENDERQ_DUPLICATE)
            add_witness(t, job, &op, STEP_HELD);
        if (job->key < 0 || op.status != RENDERQ_OK || (op.step != STEP_ENQUEUE && op.step != STEP_RETRY))
            continue;
        for (size_t k = 0; k < t->n_jobs; k++)
            if (&t->jobs[k] != job && t->jobs[k].key == job->key && t->jobs[k].enqueued)
                add_witness(t, &t->jobs[k], &op, STEP_NOT_HELD);
    }
}

/* A call that nobody heard of was made before its process was dead, which may be long after it was told to be; a server
 * may still have had it in its hands. */
static void end_unheard(history *t, bool server)
{
    for (size_t i = 0; i < t->n_ops; i++)
        for (size_t k = 0; t->ops[i].maybe && k < t->n_deaths; k++)
            if (t->deaths[k].process == t->ops[i].actor)
                t->ops[i].after_us = t->deaths[k].from_us + (server ? IN_HAND_US : 0);
}

static void add_claims(history *t)
{
    for (size_t i = 0; i < t->n_ops; i++) {
        race_op *op = &t->ops[i];
        if (op->step != STEP_CLAIM || !op->maybe)
            continue;
        t->claims = grow(t->claims, t->n_claims, sizeof *t->claims);
        t->claims[t->n_claims++] = op;
        t->claims_room += op->more;
    }
}

static void count_others(history *t)
{
    for (size_t i = 0; i < t->n_ops; i++) {
        const race_op *op = &t->ops[i];
        t->unheard += op->maybe && !op->ghost;
        t->duplicates += op->step == STEP_ENQUEUE && op->status == RENDERQ_DUPLICATE;
        if (op->step == STEP_REAP && op->status == RENDERQ_OK && !op->maybe) {
            t->reaped_returned += op->retries;
            t->reaped_dead += op->max_retries;
        }
    }
}

static void give_ops(history *t)
{
    for (size_t i = 0; i < t->n_ops; i++) {
        race_job *job = find_job(t, t->ops[i].job);
        if (job && t->ops[i].status != RENDERQ_BUSY && !(t->ops[i].step == STEP_ENQUEUE && t->ops[i].status))
            give_op(job, &t->ops[i]);
    }
    for (size_t i = 0; i < t->n_jobs; i++)
        if (t->jobs[i].n > 1)
            qsort(t->jobs[i].ops, t->jobs[i].n, sizeof *t->jobs[i].ops, by_time);
}

static bool ends_lease(const race_op *op)
{
    return op->step == STEP_COMPLETE || op->step == STEP_FAIL || op->step == STEP_RELEASE;
}

static void mark_again(const race_job *job)
{
    for (size_t i = 0; i < job->n; i++)
        for (size_t k = 0; ends_lease(job->ops[i]) && k < i && !job->ops[i]->again; k++)
            job->ops[i]->again = job->ops[k]->step == job->ops[i]->step && job->ops[k]->lease == job->ops[i]->lease
                                 && job->ops[k]->status == RENDERQ_OK && !job->ops[k]->maybe;
}

static bool take_jobs(history *t, renderq *h)
{
    add_enqueued(t);
    if (t->n_jobs > 1)
        qsort(t->jobs, t->n_jobs, sizeof *t->jobs, by_job);
    for (size_t i = 1; i < t->n_jobs; i++)
        if (t->jobs[i].id == t->jobs[i - 1].id) {
            printf("two enqueues were given the id %s\n", history_text(t, t->jobs[i].id));
            return false;
        }
    renderq_status status = renderq_list(h, NULL, add_row, t);
    if (status != RENDERQ_OK)
        printf("list: %s: %s\n", renderq_strstatus(status), renderq_errmsg(h));
    return status == RENDERQ_OK;
}

bool history_read(history *t, const race *r, renderq *h)
{
    memset(t, 0, sizeof *t);
    t->texts = must(calloc(1, sizeof *t->texts));
    make_slots(t->texts, 1024);
    t->deadline_us = r->deadline_s ? r->deadline_s * INT64_C(1000000) : RACE_NEVER_US;
    if (!read_audits(t, r->folder) || !take_jobs(t, h))
        return false;
    count_others(t);
    end_unheard(t, strncmp(r->url, "sqlite:", 7) != 0);
    add_witnesses(t);
    add_claims(t);          /* from here on the ops stay where they are */
    give_ops(t);
    for (size_t i = 0; r->faults && i < t->n_jobs; i++)
        mark_again(&t->jobs[i]);
    return true;
}

void history_free(history *t)
{
    for (size_t i = 0; i < t->n_jobs; i++)
        free(t->jobs[i].ops);
    for (size_t i = 0; i < t->n_files; i++)
        free(t->files[i]);
    for (size_t i = 0; t->texts && i < t->texts->n; i++)
        free(t->texts->texts[i]);
    if (t->texts) {
        free(t->texts->texts);
        free(t->texts->slots);
    }
    free(t->texts);
    free(t->files);
    free(t->jobs);
    free(t->ops);
    free(t->claims);
    free(t->pauses);
    free(t->deaths);
}
