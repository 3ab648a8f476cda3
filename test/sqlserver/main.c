/* main.c: the SQL Server driver on the wire, through CT-Library, against the test server of test/tdsd: what only a
 * connection shows. What a queue does is the conformance suite's. test/check-tds.sh runs this.
 *
 *   wire [GROUP...]
 *
 * SOURCE: the source tree. RENDERQ_TDSD_CONTRACT: a file with what test/tsql/contract.c prints.
 * RENDERQ_TDSD_CERT, RENDERQ_TDSD_KEY: a certificate for 127.0.0.1 and its key. */
#include "wire.h"

static const struct tests {
    const char *name;
    int (*run)(void);
} groups[] = {
    { "login", run_login }, { "encryption", run_encryption }, { "session", run_session }, { "text", run_text },
    { "time", run_time },   { "lost", run_lost },             { "share", run_share },     { "trips", run_trips },
    { "attach", run_attach },
};

static bool wanted(const char *name, int argc, char **argv)
{
    bool found = argc < 2;
    for (int i = 1; i < argc; i++)
        found |= strcmp(argv[i], name) == 0;
    return found;
}

/* The machine's own configuration of FreeTDS is not to matter. */
static bool prepare(void)
{
    static const char *const needed[] = { "SOURCE", "RENDERQ_TDSD_CONTRACT", "RENDERQ_TDSD_CERT", "RENDERQ_TDSD_KEY" };
    static const char *const steering[] = { "TDSHOST", "TDSPORT", "TDSVER", "TDSDUMP", "TDSDUMPCONFIG", "FREETDS" };
    for (size_t i = 0; i < count_of(needed); i++)
        if (!getenv(needed[i]) || *getenv(needed[i]) != '/') {
            fprintf(stderr, "wire: %s is not set to an absolute path; test/check-tds.sh does that\n", needed[i]);
            return false;
        }
    for (size_t i = 0; i < count_of(steering); i++)
        unsetenv(steering[i]);
    return setenv("FREETDSCONF", "none.conf", 1) == 0;
}

int main(int argc, char **argv)
{
    int failed = 0;
    if (!prepare() || scratch_enter(NULL) != 0)
        return 2;
    server_start(&common, "common", NULL);
    for (size_t i = 0; i < count_of(groups); i++)
        if (wanted(groups[i].name, argc, argv))
            failed += groups[i].run();
    server_stop(&common);
    if (scratch_leave(NULL) != 0)
        fprintf(stderr, "wire: the scratch folder could not be removed\n");
    if (failed)
        fprintf(stderr, "%d tests failed\n", failed);
    return failed ? 1 : 0;
}
