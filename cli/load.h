/* load.h: many jobs from JSON lines. */
#ifndef CLI_LOAD_H
#define CLI_LOAD_H

#include "cli.h"

/* Puts the records of a file ("-": standard input) into the queue. Bad ones are reported by their line, and the
 * rest goes in. */
exit_code load_file(cli *c, const char *path);

#endif
