/* server.c: test servers started, stopped and listened to, and handles on them. See wire.h. */
#include "wire.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "handle.h"

#define CONNECT_S 60
#define COMMAND_S 120

server common;

/* ---- servers ---- */

#define OPTIONS_MAX 40

static void exec_server(const server *s, int out)
{
    const char *source = getenv("SOURCE"), *contract = getenv("RENDERQ_TDSD_CONTRACT"), *argv[OPTIONS_MAX];
    char script[600], sql[600], port[16];
    snprintf(script, sizeof script, "%s/test/tdsd/tdsd.py", source);
    snprintf(sql, sizeof sql, "%s/sql", source);
    snprintf(port, sizeof port, "%d", s->port);
    const char *const fixed[] = { "python3", script, "--sql", sql, "--contract", contract, "--db", s->db, "--log", s->log,
                                  "--user", "sa", "--password", PASSWORD, "--database", "renderq", "--port", port };
    size_t n = 0;
    for (; n < count_of(fixed); n++)
        argv[n] = fixed[n];
    for (const char *const *option = s->options; option && *option && n < OPTIONS_MAX - 1; option++)
        argv[n++] = *option;
    argv[n] = NULL;
    prctl(PR_SET_PDEATHSIG, SIGTERM);           /* it goes when the thread that started it does, however that ends */
    unsetenv("LD_PRELOAD");
    dup2(out, 1);
    execvp("python3", (char *const *)(uintptr_t)argv);
    _exit(127);
}

/* tdsd: listening on HOST:PORT; 0: it does not say so. */
static int read_port(int in)
{
    char line[200];
    size_t len = 0;
    while (len < sizeof line - 1 && read(in, line + len, 1) == 1 && line[len] != '\n')
        len++;
    line[len] = 0;
    const char *colon = strrchr(line, ':');
    return strstr(line, "listening") && colon ? (int)strtol(colon + 1, NULL, 10) : 0;
}

static void launch(server *s)
{
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    fflush(NULL);
    s->pid = fork();
    if (s->pid == 0)
        exec_server(s, out[1]);
    close(out[1]);
    assert_true(s->pid > 0);
    s->port = read_port(out[0]);
    close(out[0]);
    if (!s->port)
        print_error("a test server did not start\n");
    assert_int_not_equal(s->port, 0);
}

void server_start(server *s, const char *name, const char *const *options)
{
    *s = (server){ .host = "127.0.0.1", .options = options };
    for (; options && *options; options++)
        if (strcmp(*options, "--ipv6") == 0)
            s->host = "[::1]";
    snprintf(s->db, sizeof s->db, "%s.db", name);
    snprintf(s->log, sizeof s->log, "%s.log", name);
    launch(s);
}

void server_stop(server *s)
{
    int how;
    if (s->pid <= 0)
        return;
    kill(s->pid, SIGTERM);
    assert_int_equal(waitpid(s->pid, &how, 0), s->pid);
    s->pid = 0;
}

void server_restart(server *s)
{
    server_stop(s);
    launch(s);
}

/* ---- its log ---- */

/* From byte `from` on, to be freed. */
static char *read_log(const server *s, long from)
{
    FILE *file = fopen(s->log, "r");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long end = ftell(file);
    size_t size = end > from ? (size_t)(end - from) : 0;
    char *text = malloc(size + 1);
    assert_non_null(text);
    assert_int_equal(fseek(file, from, SEEK_SET), 0);
    size = fread(text, 1, size, file);
    text[size] = 0;
    fclose(file);
    return text;
}

size_t log_count(const server *s, long from, const char *part)
{
    char *text = read_log(s, from);
    size_t n = 0;
    for (char *line = text, *end; *line; line = end) {
        end = strchr(line, '\n');
        end = end ? end : line + strlen(line);
        if (*end)
            *end++ = 0;
        n += strstr(line, part) != NULL;
    }
    free(text);
    return n;
}

void log_wait(const server *s, long from, const char *part, size_t n)
{
    for (int i = 0; i < 6000 && log_count(s, from, part) < n; i++)
        sleep_ms(10);
    if (log_count(s, from, part) == n)
        return;
    print_error("the server's log does not say \"%s\" %zu times\n", part, n);
    log_show(s, from);
    fail();
}

void log_await(const server *s, long from, const char *part)
{
    for (int i = 0; i < 6000 && log_count(s, from, part) == 0; i++)
        sleep_ms(10);
}

long log_end(const server *s)
{
    struct stat info;
    return stat(s->log, &info) == 0 ? (long)info.st_size : 0;
}

void log_show(const server *s, long from)
{
    char *text = read_log(s, from);
    print_error("%s", text);
    free(text);
}

/* ---- handles ---- */

const char *url_of(const server *s, const char *more)
{
    static __thread char url[600];
    snprintf(url, sizeof url, "sqlserver://sa:" PASSWORD "@%s:%d%s", s->host, s->port, more);
    return url;
}

/* The library's log, of all handles and threads. A line with the password in it is a fault wherever it comes from. */
static struct {
    pthread_mutex_t lock;
    char text[1 << 16];
    size_t len;
    bool leaked;
} lines = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void keep_line(renderq_log_level level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    pthread_mutex_lock(&lines.lock);
    size_t room = sizeof lines.text - lines.len;
    int len = snprintf(lines.text + lines.len, room, "%s\n", line);
    lines.len += len > 0 && (size_t)len < room ? (size_t)len : 0;
    lines.leaked = lines.leaked || strstr(line, PASSWORD);
    pthread_mutex_unlock(&lines.lock);
}

size_t lines_count(const char *part)
{
    size_t n = 0;
    pthread_mutex_lock(&lines.lock);
    for (const char *at = lines.text; (at = strstr(at, part)); at++)
        n++;
    pthread_mutex_unlock(&lines.lock);
    return n;
}

void lines_clear(void)
{
    pthread_mutex_lock(&lines.lock);
    lines.text[lines.len = 0] = 0;
    pthread_mutex_unlock(&lines.lock);
}

renderq_options quiet_options(void)
{
    renderq_options options = RENDERQ_INIT(renderq_options);
    options.log = keep_line;
    options.worker = "node-1";
    options.connect_s = CONNECT_S;
    options.command_s = COMMAND_S;
    options.retry_s = 45;
    return options;
}

void set_limits(renderq *h, int connect_s, int command_s)
{
    h->session.connect_s = connect_s ? connect_s : CONNECT_S;
    h->session.command_s = command_s ? command_s : COMMAND_S;
}

void expect_at(renderq *h, renderq_status got, renderq_status wanted, const char *what, const char *file, int line)
{
    if (strstr(renderq_errmsg(h), PASSWORD) || lines.leaked) {
        print_error("%s: the password is told: %s\n", what, renderq_errmsg(h));
        _fail(file, line);
    }
    expect_status(h, got, wanted, what, file, line);
}

renderq *open_at(const server *s, const char *more, const renderq_options *options)
{
    renderq *h = NULL;
    renderq_options quiet = quiet_options();
    expect_ok(h, renderq_open(url_of(s, more), options ? options : &quiet, &h));
    return h;
}

renderq *queue_at(const server *s, const char *name, const renderq_options *options)
{
    char more[300];
    snprintf(more, sizeof more, "/renderq?queue=%s", name);
    renderq *h = open_at(s, more, options);
    expect_ok(h, renderq_create(h, NULL));
    return h;
}

int expect_no_open(const char *url, const renderq_options *options, renderq_status status, const char *says)
{
    renderq *h = NULL;
    renderq_options quiet = quiet_options();
    expect(h, renderq_open(url, options ? options : &quiet, &h), status);
    assert_says(h, says);
    int native = renderq_native_error(h);
    renderq_close(h);
    return native;
}

void use(renderq *h)
{
    renderq_id id;
    renderq_job *job = NULL;
    expect_ok(h, put_job(h, NULL, "intro", &id));
    expect_ok(h, take_job(h, NULL, &job));
    assert_string_equal(job->id.text, id.text);
    expect_ok(h, renderq_complete(h, job, "done.mp4"));
    renderq_job_free(job);
}
