/* main.c: the SQL Server driver against servers that misbehave: every request of every call with every fault
 * (matrix.c), connecting (connect.c), sending (request.c), connections of the caller's (attached.c), and a server that
 * another one replaces (failover.c).
 *
 *   faults [GROUP...]
 *
 * SOURCE: the source tree. RENDERQ_TDSD_CONTRACT: a file with what test/tsql/contract.c prints. RENDERQ_FAULTS_QUICK:
 * the matrix with a few calls alone. RENDERQ_FAULTS_ONLY: with trials of such a name alone, as they are told when they
 * fail. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults.h"

static const struct group {
    const char *name;
    int (*run)(void);
} groups[] = {                      /* the first two need a process that has not connected yet */
    { "connect", run_connect }, { "matrix", run_matrix }, { "request", run_request }, { "attached", run_attached },
    { "failover", run_failover },
};

static bool wanted(const char *name, int argc, char **argv)
{
    bool found = argc < 2;
    for (int i = 1; i < argc; i++)
        found |= strcmp(argv[i], name) == 0;
    return found;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
    (void)info, (void)type, (void)ftw;
    return remove(path);
}

/* The machine's own configuration of FreeTDS is not to matter. */
static bool prepare(char *scratch, size_t size)
{
    static const char *const needed[] = { "SOURCE", "RENDERQ_TDSD_CONTRACT" };
    static const char *const steering[] = { "TDSHOST", "TDSPORT", "TDSVER", "TDSDUMP", "TDSDUMPCONFIG", "FREETDS" };
    for (size_t i = 0; i < count_of(needed); i++)
        if (!getenv(needed[i]) || *getenv(needed[i]) != '/') {
            fprintf(stderr, "faults: %s is not set to an absolute path; test/check-tds.sh does that\n", needed[i]);
            return false;
        }
    for (size_t i = 0; i < count_of(steering); i++)
        unsetenv(steering[i]);
    const char *where = getenv("TMPDIR");
    snprintf(scratch, size, "%s/renderq-faults-XXXXXX",
             where && *where ? where : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    return setenv("FREETDSCONF", "none.conf", 1) == 0 && mkdtemp(scratch) && chdir(scratch) == 0;
}

int main(int argc, char **argv)
{
    char scratch[512];
    int failed = 0;
    if (!prepare(scratch, sizeof scratch))
        return 2;
    for (size_t i = 0; i < count_of(groups); i++)
        if (wanted(groups[i].name, argc, argv))
            failed += groups[i].run();
    if (chdir("/") != 0 || nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fprintf(stderr, "faults: %s could not be removed\n", scratch);
    if (failed)
        fprintf(stderr, "%d tests failed\n", failed);
    return failed ? 1 : 0;
}
