/* relay_check.c: is it all true? Reads every row of the queues and of the table, what the web service was sent, and
 * every file, and counts. It takes nothing from the relay but the names of its columns. */
#include "relay_demo.h"

#include "booking.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An order, and all that came of it. */
typedef struct order {
    renderq_id message, receipt;
    renderq_state state;
    int messages, bookings, receipts, delivered;
} order;

typedef struct statement {
    renderq_id id;
    int rows, files;
} statement;

typedef struct findings {
    renderq *h;
    own_engine engine;
    order orders[ORDERS];
    statement statements[ACCOUNTS];
    int strangers;                          /* whatever should not be there */
    int poison_failures, nonsense_failures; /* 0: no dead letter of this name */
} findings;

/* The number in a name, or -1: it is none of ours. */
static int number_of(const char *name, const char *format, int n)
{
    char again[64];
    int number = -1;

    if (sscanf(name, format, &number) != 1 || number < 0 || number >= n)
        return -1;
    snprintf(again, sizeof again, format, number);
    return strcmp(name, again) == 0 ? number : -1;
}

static int payload_is(const findings *f, const char *queue, const renderq_id *id, const char *json)
{
    renderq_job *job = NULL;
    int ok = renderq_get(f->h, queue, id, &job) == RENDERQ_OK && strcmp(job->payload_json, json) == 0;

    renderq_job_free(job);
    return ok;
}

/* ---- rows ------------------------------------------------------------------------------------------- */

static int see_incoming(void *arg, const renderq_job *job)
{
    findings *f = arg;
    int n = number_of(job->composition_id, ORDER_NAME, ORDERS);

    if (n >= 0) {
        f->orders[n].messages++;
        f->orders[n].message = job->id;
        f->orders[n].state = job->state;
    } else if (strcmp(job->composition_id, "poison") == 0 && job->state == RENDERQ_DEAD_LETTER) {
        f->poison_failures = job->retry_count;
    } else if (strcmp(job->composition_id, "nonsense") == 0 && job->state == RENDERQ_DEAD_LETTER) {
        f->nonsense_failures = job->retry_count;
    } else {
        f->strangers++;
    }
    return 0;
}

static int see_receipt(void *arg, const renderq_job *job)
{
    findings *f = arg;
    int n = number_of(job->composition_id, ORDER_NAME, ORDERS);

    if (n < 0 || job->state != RENDERQ_COMPLETED) {
        f->strangers++;
        return 0;
    }
    f->orders[n].receipts++;
    f->orders[n].receipt = job->id;
    return 0;
}

static int see_statement(void *arg, const renderq_job *job)
{
    findings *f = arg;
    int n = number_of(job->composition_id, "statement-" ACCOUNT_NAME, ACCOUNTS);

    if (n < 0 || job->state != RENDERQ_COMPLETED) {
        f->strangers++;
        return 0;
    }
    f->statements[n].rows++;
    f->statements[n].id = job->id;
    return 0;
}

static void see_booking(void *arg, const char *const *columns)
{
    findings *f = arg;
    char account[16], cents[16];

    for (int n = 0; n < ORDERS; n++) {
        if (strcmp(f->orders[n].message.text, columns[0]) != 0)
            continue;
        snprintf(account, sizeof account, ACCOUNT_NAME, ORDER_ACCOUNT(n));
        snprintf(cents, sizeof cents, "%d", ORDER_CENTS(n));
        if (strcmp(account, columns[1]) == 0 && strcmp(cents, columns[2]) == 0) {
            f->orders[n].bookings++;
            return;
        }
    }
    f->strangers++;
}

static int each_order_once(const findings *f, size_t offset, const char *what)
{
    int ok = 1;

    for (int n = 0; n < ORDERS; n++) {
        int times = *(const int *)((const char *)&f->orders[n] + offset);

        if (times != 1) {
            char name[32];

            snprintf(name, sizeof name, ORDER_NAME, n);
            ok = play_wrong(name, "%d %s", times, what);
        }
    }
    return ok;
}

static void check_rows(findings *f)
{
    renderq_filter in = RENDERQ_INIT(renderq_filter), receipts = in, statements = in;
    own_error why = { "" };
    int completed = 0, single = 0;

    in.queue = INCOMING;
    receipts.queue = RECEIPTS;
    statements.queue = STATEMENTS;
    play_check(renderq_list(f->h, &in, see_incoming, f) == RENDERQ_OK
               && renderq_list(f->h, &receipts, see_receipt, f) == RENDERQ_OK
               && renderq_list(f->h, &statements, see_statement, f) == RENDERQ_OK
               && booking_each(f->engine, renderq_native(f->h), see_booking, f, &why) == 0,
               "the queues and the table can be read%s%s", why.text[0] != '\0' ? ": " : "", why.text);
    for (int n = 0; n < ORDERS; n++)
        completed += f->orders[n].messages == 1 && f->orders[n].state == RENDERQ_COMPLETED;
    for (int n = 0; n < ACCOUNTS; n++)
        single += f->statements[n].rows == 1;
    play_check(completed == ORDERS, "%d of %d orders are Completed", completed, ORDERS);
    play_check(each_order_once(f, offsetof(order, bookings), "bookings"), "each is booked exactly once");
    play_check(each_order_once(f, offsetof(order, receipts), "receipts"), "each has exactly one receipt in the queue");
    play_check(single == ACCOUNTS, "%d of %d accounts have exactly one statement, though %d orders asked for each",
               single, ACCOUNTS, ORDERS / ACCOUNTS);
    play_check(f->poison_failures == POISON_RETRIES + 1,
               "the poison is a dead letter after %d attempts, and nothing of them is left", f->poison_failures);
    play_check(f->nonsense_failures >= 1, "the message that can never work is a dead letter");
}

/* ---- what was delivered ----------------------------------------------------------------------------- */

static void check_service(findings *f, const receiver *r)
{
    const receipt *got;
    int n = receiver_receipts(r, &got), again = 0, whole = 1;

    for (int i = 0; i < n; i++) {
        int k = 0;

        while (k < ORDERS && strcmp(f->orders[k].receipt.text, got[i].key) != 0)
            k++;
        if (k == ORDERS || !got[i].answered || !payload_is(f, RECEIPTS, &f->orders[k].receipt, got[i].body))
            whole = play_wrong(got[i].key, "is no receipt, or was changed on its way: %s", got[i].body);
        else
            f->orders[k].delivered++;
        again += got[i].times - 1;
    }
    play_check(each_order_once(f, offsetof(order, delivered), "deliveries") && whole && receiver_faults(r) == 0,
               "the web service has each receipt exactly once: it was sent %d again, and knew them by their keys",
               again);
    play_check(receiver_lost(r) > 0 && again >= receiver_lost(r), "it had lost %d replies", receiver_lost(r));
}

static int file_is(const findings *f, const char *folder, const char *name, const renderq_id *id)
{
    char path[PLAY_PATH + 128], text[300];
    FILE *from;
    size_t len = 0;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    from = fopen(path, "r");
    if (from != NULL) {
        len = fread(text, 1, sizeof text - 1, from);
        fclose(from);
    }
    text[len] = '\0';
    return payload_is(f, STATEMENTS, id, text);
}

static void check_files(findings *f, const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    int ok = dir != NULL, files = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        int n = 0;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        while (n < ACCOUNTS && (strncmp(entry->d_name, f->statements[n].id.text, 36) != 0
                                || strcmp(entry->d_name + 36, ".json") != 0))
            n++;
        if (n == ACCOUNTS || !file_is(f, folder, entry->d_name, &f->statements[n].id))
            ok = play_wrong(entry->d_name, "is no statement");
        files++;
    }
    if (dir != NULL)
        closedir(dir);
    play_check(ok && files == ACCOUNTS, "%d files, one for each statement, whole, and none besides", files);
}

/* ---- all of it -------------------------------------------------------------------------------------- */

static void check_programs(const program *programs)
{
    int killed = 0, crashed = 0, errors = 0;

    for (int i = 0; i < PROGRAMS; i++) {
        killed += programs[i].killed;
        crashed += programs[i].crashed;
        errors += programs[i].errors;
    }
    play_check(killed > 0 && crashed <= POISON_RETRIES + 1 && errors == 0,
               "%d programs were killed, %d crashed over the poison, and the last ones stopped when they were told to",
               killed, crashed);
}

void check_relay(renderq *h, own_engine engine, const program *programs, const receiver *r, const char *files)
{
    static findings f;

    f.h = h;
    f.engine = engine;
    check_rows(&f);
    check_service(&f, r);
    check_files(&f, files);
    check_programs(programs);
    play_check(f.strangers == 0, "there is nothing else in the queues and in the table");
}
