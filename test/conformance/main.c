/* main.c: the conformance suite: every rule of the design and every answer of the header, against the URL that is
 * given, whatever engine is behind it. Each test makes a queue of its own there and drops it again.
 *
 *   conformance [--their-tsql] URL [GROUP...]
 *
 * With --their-tsql the other program of the suite sends the statements of test/interop to the test server, instead of
 * working on its file. Any other server gets them anyway.
 */
#include <stdio.h>
#include <string.h>

#include "suite.h"

static const struct group {
    const char *name;
    int (*run)(void);
} groups[] = {
    { "life", run_life },       { "lease", run_lease },     { "start", run_start },     { "foreign", run_foreign },
    { "faults", run_faults },   { "repeat", run_repeat },   { "ghost", run_ghost },     { "retry", run_retry },
    { "dedup", run_dedup },     { "text", run_text },       { "heal", run_heal },       { "operate", run_operate },
    { "list", run_list },       { "input", run_input },     { "structs", run_structs }, { "many", run_many },
    { "busy", run_busy },       { "concurrency", run_concurrency },     { "interrupted", run_interrupted },
    { "transaction", run_transaction },     { "receive", run_receive },     { "aborted", run_aborted },
    { "attach", run_attach },   { "states", run_states },   { "beside", run_beside },
};

static bool wanted(const char *name, int argc, char **argv)
{
    bool found = argc == 0;
    for (int i = 0; i < argc; i++)
        found |= strcmp(argv[i], name) == 0;
    return found;
}

int main(int argc, char **argv)
{
    int failed = 0, at = 1;
    suite_their_tsql = at < argc && strcmp(argv[at], "--their-tsql") == 0;
    at += suite_their_tsql;
    if (at >= argc) {
        fprintf(stderr, "usage: conformance [--their-tsql] URL [GROUP...]\n");
        return 2;
    }
    suite_url = argv[at++];
    for (size_t i = 0; i < count_of(groups); i++)
        if (wanted(groups[i].name, argc - at, argv + at))
            failed += groups[i].run();
    if (failed)
        fprintf(stderr, "%d tests failed\n", failed);
    return failed ? 1 : 0;
}
