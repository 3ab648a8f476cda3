/* drain.c: takes messages from a queue and delivers each: to a web service, or into a folder.
 *
 *     drain [OPTION]... URL TARGET
 *
 * TARGET is http://... or https://..., and gets a POST with the message as its body and the job's id as its
 * Idempotency-Key; or a folder, and gets a file ID.json that appears when it is whole. Who dies between the delivery
 * and the queue hearing of it lets the message come round again: by the id, the same key or the same name, delivering
 * it twice is no more than once.
 *
 * Any number may run on a queue, all with the same target. SIGTERM and SIGINT stop it cleanly: the message in hand is
 * finished first. The password may be in the variable RENDERQ_PASSWORD.
 * Exit: 0 stopped, 1 the queue or the target cannot be used, 2 wrong usage. */
#include <renderq.h>

#include <curl/curl.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEMPORARY ".part"

static const char usage[] =
    "usage: drain [OPTION]... URL TARGET\n"
    "  -q, --queue QUEUE     the messages (the URL's)\n"
    "  -l, --lease SECONDS   how long a message stays ours when we fall silent (60)\n"
    "  -e, --until-empty     end when no message is ready, instead of waiting for the next\n";

static volatile sig_atomic_t stopping;
static renderq *volatile open_handle;       /* for the signal handler alone; NULL when there is none */

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
    renderq_interrupt(open_handle);         /* a claim that waits ends at once */
}

typedef struct target {
    CURL *curl;                             /* NULL: a folder */
    const char *url;
    char folder[PATH_MAX];
    int lease_s;
} target;

typedef enum verdict { DONE, BAD, FAILED } verdict;

/* ---- a web service ---------------------------------------------------------------------------------- */

static size_t ignore(char *bytes, size_t size, size_t n, void *arg)
{
    (void)bytes;
    (void)arg;
    return size * n;
}

/* Too many requests, and what is the service's own trouble, may pass; any other refusal will be the same next time. */
static verdict judge(long code, char *text, size_t size)
{
    snprintf(text, size, "the service answered %ld", code);
    if (code >= 200 && code < 300)
        return DONE;
    return code >= 500 || code == 408 || code == 425 || code == 429 ? FAILED : BAD;
}

static verdict post(const target *to, const renderq_job *job, char *text, size_t size)
{
    char key[64], error[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json"), *more;
    CURLcode rc = CURLE_OUT_OF_MEMORY;
    long code = 0;

    snprintf(key, sizeof key, "Idempotency-Key: \"%s\"", job->id.text);
    more = headers != NULL ? curl_slist_append(headers, key) : NULL;
    if (more != NULL) {
        curl_easy_setopt(to->curl, CURLOPT_HTTPHEADER, more);
        curl_easy_setopt(to->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)job->payload_len);
        curl_easy_setopt(to->curl, CURLOPT_POSTFIELDS, job->payload_json);
        curl_easy_setopt(to->curl, CURLOPT_ERRORBUFFER, error);
        rc = curl_easy_perform(to->curl);
        curl_easy_getinfo(to->curl, CURLINFO_RESPONSE_CODE, &code);
        curl_easy_setopt(to->curl, CURLOPT_HTTPHEADER, NULL);
        curl_easy_setopt(to->curl, CURLOPT_ERRORBUFFER, NULL);
    }
    curl_slist_free_all(headers);
    if (rc == CURLE_OK)
        return judge(code, text, size);
    snprintf(text, size, "%s", error[0] != '\0' ? error : curl_easy_strerror(rc));
    return FAILED;
}

static int open_service(target *to)
{
    to->curl = curl_easy_init();
    if (to->curl == NULL) {
        fprintf(stderr, "libcurl could not be set up\n");
        return -1;
    }
    curl_easy_setopt(to->curl, CURLOPT_URL, to->url);
    curl_easy_setopt(to->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(to->curl, CURLOPT_WRITEFUNCTION, ignore);
    /* While the service thinks nobody renews the lease, so it is given half of it. */
    curl_easy_setopt(to->curl, CURLOPT_TIMEOUT_MS, to->lease_s * 500L);
    return 0;
}

/* ---- a folder --------------------------------------------------------------------------------------- */

static verdict file_failed(const char *what, char *text, size_t size)
{
    snprintf(text, size, "%s: %s", what, strerror(errno));
    return FAILED;
}

/* Removes what attempts before this one left when they died: .ID.LEASE.part */
static void sweep(const target *to, const renderq_job *job)
{
    DIR *dir = opendir(to->folder);
    const struct dirent *entry;
    size_t len = strlen(job->id.text);

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        const char *end = strrchr(entry->d_name, '.');

        if (entry->d_name[0] == '.' && strncmp(entry->d_name + 1, job->id.text, len) == 0
            && strcmp(end, TEMPORARY) == 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir != NULL)
        closedir(dir);
}

static int write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);

        if (n < 0 && errno != EINTR)
            return -1;
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* On the disk before it gets its name, and the name before the queue hears of it. */
static verdict write_file(const target *to, const renderq_job *job, char *text, size_t size)
{
    char temporary[128], name[64];
    int folder = open(to->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1, ok;

    if (folder < 0)
        return file_failed(to->folder, text, size);
    if (job->retry_count > 0)
        sweep(to, job);
    snprintf(temporary, sizeof temporary, ".%s.%s" TEMPORARY, job->id.text, job->lease.text);
    snprintf(name, sizeof name, "%s.json", job->id.text);
    fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    ok = fd >= 0 && write_all(fd, job->payload_json, job->payload_len) == 0 && fsync(fd) == 0;
    if (fd >= 0 && close(fd) != 0)
        ok = 0;
    ok = ok && renameat(folder, temporary, folder, name) == 0 && fsync(folder) == 0;
    if (!ok) {
        file_failed(name, text, size);
        unlinkat(folder, temporary, 0);
    }
    close(folder);
    if (ok)
        snprintf(text, size, "%s/%s", to->folder, name);
    return ok ? DONE : FAILED;
}

/* ---- the queue -------------------------------------------------------------------------------------- */

static renderq_status tell(renderq *h, const renderq_job *job, verdict v, const char *text)
{
    if (v == DONE)
        return renderq_complete(h, job, NULL);
    return renderq_fail(h, job, text, v == BAD ? RENDERQ_NEVER : RENDERQ_BACKOFF);
}

static void deliver(renderq *h, const renderq_job *job, const target *to)
{
    static const char *const words[] = { "delivered", "refused", "failed" };
    char text[PATH_MAX + 64] = "";
    verdict v = to->curl != NULL ? post(to, job, text, sizeof text) : write_file(to, job, text, sizeof text);
    renderq_status status;

    do {                                    /* both say that nothing happened yet */
        status = tell(h, job, v, text);
    } while (status == RENDERQ_INTERRUPTED || (status == RENDERQ_BUSY && renderq_lease_left_ms(job) > 0));
    printf("%s: %s: %s\n", job->id.text, words[v], text);
    if (status != RENDERQ_OK)               /* the lease runs out, and it is delivered once more */
        fprintf(stderr, "%s: %s: %s\n", job->id.text, renderq_strstatus(status), renderq_errmsg(h));
}

/* Until it is told to stop. Returns the exit code. */
static int work(renderq *h, const target *to, const char *queue, int until_empty)
{
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);

    options.queue = queue;
    options.lease_s = to->lease_s;
    options.wait_ms = until_empty ? 0 : RENDERQ_FOREVER;
    while (!stopping) {
        renderq_job *job = NULL;
        renderq_status status = renderq_claim(h, &options, &job);

        switch (status) {
        case RENDERQ_OK:
            deliver(h, job, to);
            renderq_job_free(job);
            break;
        case RENDERQ_EMPTY:
            return 0;
        case RENDERQ_INTERRUPTED:
            break;
        case RENDERQ_BUSY:
        case RENDERQ_UNCERTAIN:
        case RENDERQ_DISCONNECTED:          /* the database will be back */
            fprintf(stderr, "claim: %s: %s\n", renderq_strstatus(status), renderq_errmsg(h));
            sleep(1);
            break;
        default:
            fprintf(stderr, "claim: %s: %s\n", renderq_strstatus(status), renderq_errmsg(h));
            return 1;
        }
    }
    return 0;
}

static int open_target(target *to)
{
    if (strncmp(to->url, "http://", 7) == 0 || strncmp(to->url, "https://", 8) == 0)
        return open_service(to);
    if (realpath(to->url, to->folder) != NULL)
        return 0;
    perror(to->url);
    return -1;
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
        { "queue", required_argument, NULL, 'q' },
        { "lease", required_argument, NULL, 'l' },
        { "until-empty", no_argument, NULL, 'e' },
        { NULL, 0, NULL, 0 },
    };
    struct sigaction action = { .sa_handler = on_signal };      /* no SA_RESTART: a sleep ends, too */
    renderq_options options = RENDERQ_INIT(renderq_options);
    target to = { .lease_s = 60 };
    const char *queue = NULL;
    int option, until_empty = 0, code = 1;
    renderq *h = NULL;
    renderq_status status;

    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    while ((option = getopt_long(argc, argv, "q:l:e", long_options, NULL)) != -1) {
        switch (option) {
        case 'q': queue = optarg; break;
        case 'l': to.lease_s = atoi(optarg); break;
        case 'e': until_empty = 1; break;
        default: fputs(usage, stderr); return 2;
        }
    }
    if (argc != optind + 2 || to.lease_s < 1 || to.lease_s > RENDERQ_LEASE_MAX_S) {
        fputs(usage, stderr);
        return 2;
    }
    to.url = argv[optind + 1];
    setvbuf(stdout, NULL, _IOLBF, 0);       /* a log should be complete up to a crash */
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0 || open_target(&to) != 0)
        return 1;

    options.password = getenv("RENDERQ_PASSWORD");
    status = renderq_open(argv[optind], &options, &h);
    if (status == RENDERQ_OK) {
        open_handle = h;
        printf("ready\n");
        code = work(h, &to, queue, until_empty);
        open_handle = NULL;                 /* a signal from here on finds no handle that is being closed */
    } else {
        fprintf(stderr, "%s: %s\n", renderq_strstatus(status), renderq_errmsg(h));
    }
    renderq_close(h);
    curl_easy_cleanup(to.curl);
    curl_global_cleanup();
    return code;
}
