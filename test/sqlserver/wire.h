/* wire.h: what the tests of the SQL Server driver on the wire share: a test server of their own (test/tdsd), its log, and
 * handles whose texts and log lines are looked at for the password. Run by test/check-tds.sh. */
#ifndef TEST_WIRE_H
#define TEST_WIRE_H

#include "support.h"

#define PASSWORD "s3cret"

/* A server, on a file of its own in the current folder. */
typedef struct server {
    pid_t pid;
    int port;
    const char *host;       /* as it stands in a URL */
    const char *const *options;
    char db[64], log[64];
} server;

/* Starts one whose files are called `name`, with more options (NULL at the end; NULL: none), which live as long. It ends
 * at the latest with the thread that started it. */
void server_start(server *s, const char *name, const char *const *options);
void server_stop(server *s);
/* The same again, on the same port, file and log. */
void server_restart(server *s);

/* The server that most tests share. */
extern server common;

/* ---- its log ---- */

/* How many lines have that in them, from byte `from` of the log on. What a session was asked is there before its reply
 * comes. */
size_t log_count(const server *s, long from, const char *part);
/* Waits until there are n, for a minute: what is logged after a reply may come late. */
void log_wait(const server *s, long from, const char *part, size_t n);
/* The same for one, in a thread of a test, which does not assert: a request that has come to the server. */
void log_await(const server *s, long from, const char *part);
long log_end(const server *s);
void log_show(const server *s, long from);

/* ---- handles ---- */

/* The URL of a server; `more` is what stands behind the host: "/renderq?queue=x". */
const char *url_of(const server *s, const char *more);

/* Options whose log lines are looked at. Nothing that is to work ends by its time, however busy the machine is. */
renderq_options quiet_options(void);

/* How long a handle's connections and requests may last from now on; 0: as quiet_options() has it. What is to end by
 * its time is in a hurry alone. */
void set_limits(renderq *h, int connect_s, int command_s);
#define LONG_MS 40000           /* what lasts longer, waits for what it should not wait for */

/* How many lines of the library's log have that in them, since it was cleared. */
size_t lines_count(const char *part);
void lines_clear(void);

/* Opens, which must work; options NULL: quiet ones. */
renderq *open_at(const server *s, const char *more, const renderq_options *options);
/* With a table of its own. */
renderq *queue_at(const server *s, const char *name, const renderq_options *options);
/* Opens a URL, which must fail so, with these words in the text, and hands out the native number. */
int expect_no_open(const char *url, const renderq_options *options, renderq_status status, const char *says);

/* Fails unless it is that, and whenever the handle's text has the password in it. */
void expect_at(renderq *h, renderq_status got, renderq_status wanted, const char *what, const char *file, int line);
/* The call comes first, as it may make the handle. */
#define expect(h, call, wanted)                                         \
    do {                                                                \
        renderq_status got_ = (call);                                   \
        expect_at((h), got_, (wanted), #call, __FILE__, __LINE__);      \
    } while (0)
#define expect_ok(h, call) expect(h, call, RENDERQ_OK)

/* A job goes in, is claimed and completed. */
void use(renderq *h);

/* ---- the groups, a file each: how many tests failed ---- */

int run_login(void);
int run_encryption(void);
int run_session(void);
int run_text(void);
int run_time(void);
int run_lost(void);
int run_share(void);
int run_trips(void);
int run_attach(void);

#endif
