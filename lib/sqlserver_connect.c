/* sqlserver_connect.c: the way to a connection to SQL Server, and what its session must have. Requests on it are in
 * sqlserver_link.c. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sqlserver.h"

#define DEFAULT_PORT 1433

/* FreeTDS sets up its tables of character sets at the first connection of a process, and not under a lock. Later ones
 * do not wait for each other: each may take as long as its server lets it. */
static pthread_mutex_t connecting = PTHREAD_MUTEX_INITIALIZER;
static bool connected_before;

static bool set_text(ss_conn *conn, CS_INT property, const char *text)
{
    return ct_con_props(conn->link, CS_SET, property, (void *)(uintptr_t)text, CS_NULLTERM, NULL) == CS_SUCCEED;
}

static bool make_context(ss_conn *conn)
{
    return cs_ctx_alloc(CS_VERSION_100, &conn->context) == CS_SUCCEED
           && ct_init(conn->context, CS_VERSION_100) == CS_SUCCEED && rq_ss_listen(conn)
           && ct_con_alloc(conn->context, &conn->link) == CS_SUCCEED;
}

static int option_number(const rq_url *url, const char *name, int otherwise)
{
    const char *text = rq_url_option(url, name);
    return text ? atoi(text) : otherwise;       /* it was checked at open */
}

static bool set_properties(ss_conn *conn)
{
    const rq_session *session = conn->base.session;
    const rq_url *url = session->url;
    const char *name = rq_url_option(url, "app");
    char host[64] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = 0;
    return rq_ss_set_number(conn, CS_TDS_VERSION, CS_TDS_74)      /* "auto" may fall back to a password in clear text */
           && set_text(conn, CS_CLIENTCHARSET, "UTF-8")
           && set_text(conn, CS_USERNAME, url->user ? url->user : "")
           && set_text(conn, CS_PASSWORD, session->password ? session->password : "")
           && set_text(conn, CS_APPNAME, name ? name : "librenderq")
           && set_text(conn, CS_HOSTNAME, host)
           && (!*url->path || set_text(conn, CS_DATABASE, url->path))
           && rq_ss_set_number(conn, CS_LOGIN_TIMEOUT, session->connect_s)
           && rq_ss_set_number(conn, CS_TIMEOUT, 1)               /* the tick; see rq_ss_check_time() */
           && rq_ss_set_number(conn, CS_PACKETSIZE, option_number(url, "packet_size", 4096));
}

/* "host:port", "[v6]:port", or the name of a section of freetds.conf when the URL gives no port. A bare v6 address
 * would be taken for a host and a port. */
static void server_name(const rq_url *url, char *out, size_t size)
{
    bool v6 = strchr(url->host, ':') != NULL;
    if (!url->port && !v6)
        snprintf(out, size, "%s", url->host);
    else
        snprintf(out, size, v6 ? "[%s]:%d" : "%s:%d", url->host, url->port ? url->port : DEFAULT_PORT);
}

static renderq_status check_encryption(ss_conn *conn, const char *server)
{
    char where[4096];
    if (!rq_url_option(conn->base.session->url, "encrypt")
        || rq_freetds_demands_encryption(server, where, sizeof where))
        return RENDERQ_OK;
    return rq_error_set(conn->base.session->error, RENDERQ_DENIED, 0,
                        "encrypt=require, but %.300s does not demand it: add the lines \"[%.200s]\", \"host = ...\", "
                        "\"port = ...\", \"encryption = require\", \"ca file = system\" to it", where,
                        *server == '[' ? conn->base.session->url->host : server);   /* a section has no ] in its name */
}

/* The settings that filtered indexes and the statements rely on; what it answers tells the engines apart. */
static const char session_sql[] =
    "-- renderq: session\n"
    "SET QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL ON;\n"
    "SET NUMERIC_ROUNDABORT OFF;\n"
    "SET XACT_ABORT ON;\n"
    "SET NOCOUNT ON;\n"
    "SET TEXTSIZE 2147483647;\n"
    "SET LOCK_TIMEOUT %d;\n"
    "SET DEADLOCK_PRIORITY %d;\n"
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;\n"
    "SELECT CASE WHEN SERVERPROPERTY('Babelfish') IS NULL THEN 0 ELSE 1 END,\n"
    "       (SELECT CAST(compatibility_level AS int) FROM sys.databases WHERE database_id = DB_ID());\n";

static renderq_status check_level(const ss_conn *conn, int64_t level)
{
    if (level >= 130 || conn->babelfish)
        return RENDERQ_OK;
    return rq_error_set(conn->base.session->error, RENDERQ_SCHEMA, 0,
                        "the database's compatibility level is %d, which has no OPENJSON: ALTER DATABASE ... SET "
                        "COMPATIBILITY_LEVEL = 130 or more", (int)level);
}

typedef struct session_answer {
    int64_t babelfish, level;
} session_answer;

static renderq_status take_session(void *arg, size_t item, const rq_value *columns)
{
    (void)item;
    *(session_answer *)arg = (session_answer){ columns[0].number, columns[1].number };
    return RENDERQ_OK;
}

static renderq_status set_up_session(ss_conn *conn)
{
    static const rq_type columns[] = { RQ_INT, RQ_INT };
    session_answer answer = { 0, 0 };
    ss_rows rows = { .columns = columns, .n_columns = 2, .n_items = 1, .row = take_session,
                     .arg = &answer };
    const rq_url *url = conn->base.session->url;
    char sql[sizeof session_sql + 32];
    snprintf(sql, sizeof sql, session_sql, option_number(url, "lock_timeout_ms", 10000),
             option_number(url, "deadlock_priority", 0));
    renderq_status status = rq_ss_request(conn, sql, NULL, 0, &rows, "setting up the session");
    conn->babelfish = answer.babelfish != 0;
    return status == RENDERQ_OK ? check_level(conn, answer.level) : status;
}

/* Bits of @@OPTIONS: what a session must have for filtered indexes (ANSI_WARNINGS stands for ARITHABORT as well), and
 * may not have: a claim would not be committed before it is handed out. */
static const struct { int bit; bool on; const char *name; } session_options[] = {
    { 8, true, "ANSI_WARNINGS" },    { 16, true, "ANSI_PADDING" },  { 32, true, "ANSI_NULLS" },
    { 256, true, "QUOTED_IDENTIFIER" },         { 4096, true, "CONCAT_NULL_YIELDS_NULL" },
    { 8192, false, "NUMERIC_ROUNDABORT" },      { 2, false, "IMPLICIT_TRANSACTIONS" },
};

static renderq_status check_session(ss_conn *conn, int64_t options)
{
    for (size_t i = 0; i < sizeof session_options / sizeof session_options[0]; i++)
        if (((options & session_options[i].bit) != 0) != session_options[i].on)
            return rq_error_set(conn->base.session->error, RENDERQ_INVALID, 0,
                                "the connection's session has %s %s: SET %s %s first", session_options[i].name,
                                session_options[i].on ? "OFF" : "ON", session_options[i].name,
                                session_options[i].on ? "ON" : "OFF");
    return RENDERQ_OK;
}

typedef struct adopted {
    int64_t babelfish, level, options;
    bool utf8;                      /* a euro sign comes as its three bytes */
} adopted;

static renderq_status take_adopted(void *arg, size_t item, const rq_value *columns)
{
    (void)item;
    *(adopted *)arg = (adopted){ columns[0].number, columns[1].number, columns[2].number,
                                 columns[3].len == 3 && memcmp(columns[3].bytes, "\xE2\x82\xAC", 3) == 0 };
    return RENDERQ_OK;
}

renderq_status rq_ss_adopt(ss_conn *conn)
{
    static const char sql[] =
        "-- renderq: attach\n"
        "SELECT CASE WHEN SERVERPROPERTY('Babelfish') IS NULL THEN 0 ELSE 1 END,\n"
        "       (SELECT CAST(compatibility_level AS int) FROM sys.databases WHERE database_id = DB_ID()),\n"
        "       CAST(@@OPTIONS AS int), NCHAR(8364);\n";
    static const rq_type columns[] = { RQ_INT, RQ_INT, RQ_INT, RQ_TEXT };
    adopted answer = { .babelfish = 0 };
    ss_rows rows = { .columns = columns, .n_columns = 4, .row = take_adopted, .arg = &answer };
    conn->base.guarded = true;      /* only so that a failure leaves the caller's transaction alone */
    renderq_status status = rq_ss_request(conn, sql, NULL, 0, &rows, "attaching");
    conn->base.guarded = false;
    conn->babelfish = answer.babelfish != 0;
    if (status == RENDERQ_OK)
        status = check_level(conn, answer.level);
    if (status == RENDERQ_OK && !answer.utf8)
        status = rq_error_set(conn->base.session->error, RENDERQ_INVALID, 0,
                              "the connection's texts are not UTF-8: set its CS_CLIENTCHARSET to UTF-8 before "
                              "ct_connect()");
    return status == RENDERQ_OK ? check_session(conn, answer.options) : status;
}

/* Waits no longer than for a server: in a child of fork() the lock may be held by a thread that is not there. */
static CS_RETCODE connect_to(ss_conn *conn, char *server)
{
    bool locked = false;
    if (!__atomic_load_n(&connected_before, __ATOMIC_ACQUIRE)) {
        struct timespec until = { 0, 0 };
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += conn->base.session->connect_s;
        locked = pthread_mutex_timedlock(&connecting, &until) == 0;
    }
    CS_RETCODE rc = ct_connect(conn->link, server, CS_NULLTERM);
    __atomic_store_n(&connected_before, true, __ATOMIC_RELEASE);
    if (locked)
        pthread_mutex_unlock(&connecting);
    return rc;
}

renderq_status rq_ss_connect(ss_conn *conn)
{
    char server[1100];
    server_name(conn->base.session->url, server, sizeof server);
    renderq_status status = check_encryption(conn, server);
    if (status != RENDERQ_OK)
        return status;
    if (!make_context(conn) || !set_properties(conn))
        return rq_error_set(conn->base.session->error, RENDERQ_NOMEM, 0, "CT-Library could not be set up");
    rq_ss_begin(conn);
    rq_ss_hear(conn);
    conn->connecting = true;
    CS_RETCODE rc = connect_to(conn, server);
    conn->connecting = false;
    rq_ss_hear(NULL);
    if (rc != CS_SUCCEED) {
        conn->broken = true;
        return rq_ss_error(conn, "connecting");
    }
    return set_up_session(conn);
}

void rq_ss_disconnect(ss_conn *conn)
{
    if (conn->link && !conn->attached) {
        if (conn->broken || ct_close(conn->link, CS_UNUSED) != CS_SUCCEED)
            ct_close(conn->link, CS_FORCE_CLOSE);
        ct_con_drop(conn->link);
    }
    if (conn->context && !conn->attached) {
        if (ct_exit(conn->context, CS_UNUSED) != CS_SUCCEED)
            ct_exit(conn->context, CS_FORCE_EXIT);
        cs_ctx_drop(conn->context);
    }
    conn->link = NULL;
    conn->context = NULL;
}
