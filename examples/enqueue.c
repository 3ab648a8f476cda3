/* enqueue.c: puts one job into the queue for each line of a file, or of the standard input.
 *
 *     enqueue [--create] URL [FILE]
 *
 * A line is a JSON object. Only id and payload are required:
 *
 *     {"id": "intro-001", "payload": {"title": "HELLO"}, "priority": 5, "delay_ms": 1500, "max_retries": 3,
 *      "dedup_key": "webhook-4711", "output": "intro-001.y4m"}
 *
 * For each line the job's id is printed. A bad line is reported by its number, and the rest still goes in.
 * --create makes the queue first. Exit: 0 all lines are in, 1 some are not, 2 wrong usage. */
#include <renderq.h>

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static renderq_status bad_line(int number, const char *why)
{
    fprintf(stderr, "line %d: %s\n", number, why);
    return RENDERQ_INVALID;
}

static renderq_status enqueue_line(renderq *h, int number, const char *text, size_t len)
{
    renderq_new_job job = RENDERQ_INIT(renderq_new_job);
    renderq_id id;
    renderq_status status;
    json_t *payload = NULL;
    json_int_t priority = 0, delay_ms = 0, max_retries = RENDERQ_RETRIES_DEFAULT;
    json_error_t wrong;
    json_t *line = json_loadb(text, len, JSON_REJECT_DUPLICATES, &wrong);
    char *payload_json = NULL;

    /* The exclamation mark refuses keys that are not in the list: a typo would be a default in silence. */
    if (line == NULL
        || json_unpack_ex(line, &wrong, 0, "{s:s, s:o, s?I, s?I, s?I, s?s, s?s !}",
                          "id", &job.composition_id, "payload", &payload, "priority", &priority,
                          "delay_ms", &delay_ms, "max_retries", &max_retries,
                          "dedup_key", &job.dedup_key, "output", &job.output_url) != 0) {
        status = bad_line(number, wrong.text);
        goto done;
    }
    if (!json_is_object(payload)) {
        status = bad_line(number, "payload must be a JSON object");
        goto done;
    }
    if (priority < INT_MIN || priority > INT_MAX || max_retries < 0 || max_retries > INT_MAX) {
        status = bad_line(number, "priority or max_retries is out of range");
        goto done;
    }
    payload_json = json_dumps(payload, JSON_COMPACT);
    if (payload_json == NULL) {
        status = bad_line(number, "out of memory");
        goto done;
    }

    job.payload_json = payload_json;
    job.priority = (int)priority;
    job.delay_ms = delay_ms;
    job.max_retries = max_retries == 0 ? RENDERQ_NO_RETRY : (int)max_retries;   /* the struct's 0 is the default */
    status = renderq_enqueue(h, &job, &id);

    if (status == RENDERQ_OK)
        printf("%s %s\n", id.text, job.composition_id);
    else if (status == RENDERQ_DUPLICATE)
        printf("%s %s DUPLICATE: this job is there already, under the key \"%s\"\n", id.text, job.composition_id,
               job.dedup_key);
    else
        bad_line(number, renderq_errmsg(h));

done:
    free(payload_json);
    json_decref(line);
    return status;
}

/* Returns 0 if every line is in. */
static int enqueue_file(renderq *h, FILE *from)
{
    char *text = NULL;
    size_t size = 0;
    ssize_t len;
    int number = 0, bad = 0;

    while ((len = getline(&text, &size, from)) != -1) {
        renderq_status status;

        number++;
        if (strspn(text, " \t\r\n") == (size_t)len)
            continue;
        status = enqueue_line(h, number, text, (size_t)len);
        if (status == RENDERQ_INVALID)
            bad++;                          /* the line's own fault */
        else if (status != RENDERQ_OK && status != RENDERQ_DUPLICATE) {
            fprintf(stderr, "stopped at line %d: the database does not take jobs now\n", number);
            bad++;
            break;
        }
    }
    if (ferror(from)) {
        perror("reading");
        bad++;
    }
    free(text);
    return bad;
}

int main(int argc, char **argv)
{
    int create = argc > 1 && strcmp(argv[1], "--create") == 0;
    const char *url = argv[1 + create], *file = url != NULL ? argv[2 + create] : NULL;
    FILE *from = stdin;
    renderq *h = NULL;
    renderq_status status;
    int bad = 1;

    if (url == NULL || url[0] == '-' || argc > 3 + create) {
        fprintf(stderr, "usage: enqueue [--create] URL [FILE]\n");
        return 2;
    }
    if (file != NULL && strcmp(file, "-") != 0)
        from = fopen(file, "r");
    if (from == NULL) {
        perror(file);
        return 1;
    }

    status = renderq_open(url, NULL, &h);
    if (status == RENDERQ_OK && create)
        status = renderq_create(h, NULL);
    if (status == RENDERQ_OK)
        bad = enqueue_file(h, from);
    else
        fprintf(stderr, "%s: %s\n", renderq_strstatus(status), renderq_errmsg(h));
    renderq_close(h);

    if (fflush(stdout) != 0) {
        perror("writing");
        bad++;
    }
    if (from != stdin)
        fclose(from);
    return bad == 0 ? 0 : 1;
}
