/* lane.c: the servers, and the clients of them. See faults.h. */
#include "faults.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "handle.h"

bool under_valgrind(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return preload && strstr(preload, "vgpreload");
}

/* ---- servers ---- */

static void exec_server(const server *s, int out)
{
    char script[600], sql[600], port[16];
    snprintf(script, sizeof script, "%s/test/tdsd/tdsd.py", getenv("SOURCE"));
    snprintf(sql, sizeof sql, "%s/sql", getenv("SOURCE"));
    snprintf(port, sizeof port, "%d", s->port);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    unsetenv("LD_PRELOAD");
    dup2(out, 1);
    execlp("python3", "python3", script, "--sql", sql, "--contract", getenv("RENDERQ_TDSD_CONTRACT"), "--db", s->db,
           "--control", s->control, "--user", "sa", "--password", PASSWORD, "--database", "renderq", "--databases",
           "--port", port, (char *)NULL);
    _exit(127);
}

/* tdsd: listening on 127.0.0.1:PORT; 0: it does not say so. */
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

void server_start(server *s, const char *name, int port)
{
    int out[2];
    *s = (server){ .port = port };
    snprintf(s->db, sizeof s->db, "%s.db", name);
    snprintf(s->control, sizeof s->control, "%s.ask", name);
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
        fail_msg("the test server \"%s\" did not start", name);
}

static void end_with(server *s, int signal)
{
    int how;
    if (s->pid <= 0)
        return;
    kill(s->pid, signal);
    assert_int_equal(waitpid(s->pid, &how, 0), s->pid);
    s->pid = 0;
}

void server_stop(server *s)
{
    end_with(s, SIGTERM);
}

void server_kill(server *s)
{
    end_with(s, SIGKILL);
}

/* The connection to a server's control socket is kept; a child makes its own. */
static struct {
    const server *of;
    pid_t server, process;
    int fd;
} kept = { .fd = -1 };

static int control_of(const server *s)
{
    if (kept.of == s && kept.server == s->pid && kept.process == getpid())
        return kept.fd;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (kept.fd >= 0)
        close(kept.fd);
    kept.of = s;
    kept.server = s->pid;
    kept.process = getpid();
    kept.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", s->control);
    assert_int_equal(connect(kept.fd, (const struct sockaddr *)&address, sizeof address), 0);
    return kept.fd;
}

static void ask(const server *s, char *answer, size_t size, const char *line)
{
    size_t len = 0;
    ssize_t got;
    int fd = control_of(s);
    assert_int_equal(write(fd, line, strlen(line)), strlen(line));
    do {
        got = read(fd, answer + len, size - 1 - len);
        assert_true(got > 0);
        len += (size_t)got;
    } while (answer[len - 1] != '\n');
    answer[len - 1] = 0;
}

static void make_line(char *line, size_t size, const char *format, va_list args)
{
    int len = vsnprintf(line, size - 1, format, args);
    assert_true(len > 0 && (size_t)len < size - 1);
    strcpy(line + len, "\n");
}

void server_ask(const server *s, char *answer, size_t size, const char *format, ...)
{
    char line[4096];
    va_list args;
    va_start(args, format);
    make_line(line, sizeof line, format, args);
    va_end(args);
    ask(s, answer, size, line);
}

void server_tell(const server *s, const char *format, ...)
{
    char line[4096], answer[400];
    va_list args;
    va_start(args, format);
    make_line(line, sizeof line, format, args);
    va_end(args);
    ask(s, answer, sizeof answer, line);
    if (strcmp(answer, "ok") != 0)
        fail_msg("the server answers \"%s\" to %s", answer, line);
}

/* ---- lanes ---- */

void lane_open(lane *l, const server *s, int number)
{
    static char url[200];
    char db[300];
    *l = (lane){ .server = s };
    snprintf(l->app, sizeof l->app, "lane%d", number);
    snprintf(url, sizeof url, "sqlserver://sa:" PASSWORD "@127.0.0.1:%d/%s", s->port, l->app);
    suite_url = url;
    assert_non_null(getcwd(db, sizeof db - sizeof l->app - 5));
    snprintf(db + strlen(db), sizeof l->app + 5, "/%s.db", l->app);
    setenv("RENDERQ_TDSD_FILE", db, 1);
    void *state = NULL;
    assert_int_equal(suite_begin(&state), 0);
    l->s = state;
    snprintf(l->spare, sizeof l->spare, "spare_%ld", (long)getpid());
    expect_ok(l->s->h, renderq_create(l->s->h, l->spare));
    lane_clear(l);
}

void lane_close(lane *l)
{
    void *state = l->s;
    lane_clear(l);
    if (l->s)
        suite_end(&state);
}

renderq *lane_handle(const lane *l, const renderq_options *options)
{
    char url[1024], app[32];
    renderq *h = NULL;
    snprintf(app, sizeof app, "app=%s", l->app);
    suite_url_for(url, sizeof url, l->s->queue, app);
    renderq_options patient = *options;
    patient.connect_s = SUITE_CONNECT_S;
    patient.command_s = SUITE_COMMAND_S;
    expect_ok(h, renderq_open(url, &patient, &h));
    return h;
}

void set_limits(renderq *h, int connect_s, int command_s)
{
    h->session.connect_s = connect_s ? connect_s : SUITE_CONNECT_S;
    h->session.command_s = command_s ? command_s : SUITE_COMMAND_S;
}

void lane_fault(const lane *l, const char *format, ...)
{
    char words[3000];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    server_tell(l->server, "fault app=%s %s", l->app, words);
}

void lane_clear(const lane *l)
{
    server_tell(l->server, "clear app=%s", l->app);
}

size_t lane_fired(const lane *l)
{
    char answer[100];
    server_ask(l->server, answer, sizeof answer, "fired app=%s", l->app);
    return strtoul(answer, NULL, 10);
}

void lane_use(const lane *l, renderq *h)
{
    static int number;
    char composition[40];
    renderq_id id;
    renderq_job *job = NULL;
    renderq_new_job new = RENDERQ_INIT(renderq_new_job);
    renderq_claim_options options = RENDERQ_INIT(renderq_claim_options);
    snprintf(composition, sizeof composition, "use %d", ++number);
    new.queue = options.queue = l->spare;
    new.composition_id = composition;
    new.payload_json = "{}";
    expect_ok(h, renderq_enqueue(h, &new, &id));
    expect_ok(h, renderq_claim(h, &options, &job));
    same_id(&job->id, &id);
    assert_string_equal(job->composition_id, composition);
    expect_ok(h, renderq_complete(h, job, NULL));
    renderq_job_free(job);
}
