/* main.c: the worker runtime against the queue of a URL, whatever engine it is of.
 *
 *     worker URL [GROUP]...
 */
#include "kit.h"

static const struct {
    const char *name;
    int (*run)(void);
} groups[] = {
    { "outcome", run_outcome }, { "ends", run_ends }, { "stop", run_stop }, { "lease", run_lease },
    { "ahead", run_ahead },     { "many", run_many }, { "away", run_away },
    { "refused", run_refused }, { "transact", run_transact }, { "soak", run_soak },
};

static bool is_wanted(const char *name, char **wanted)
{
    bool all = !*wanted;
    for (; *wanted; wanted++)
        all = all || strcmp(*wanted, name) == 0;
    return all;
}

int main(int argc, char **argv)
{
    int failed = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: worker URL [GROUP]...\n");
        return 2;
    }
    kit_url = argv[1];
    for (size_t i = 0; i < count_of(groups); i++)
        if (is_wanted(groups[i].name, argv + 2))
            failed += groups[i].run();
    return failed > 0;
}
