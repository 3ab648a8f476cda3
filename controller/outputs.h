/* outputs.h: the folder that results are expected in, and paths that must stay in it. Links below the folder are not
 * followed, wherever they lead. */
#ifndef CONTROLLER_OUTPUTS_H
#define CONTROLLER_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct outputs {
    int fd;                             /* of the folder; -1: there is none, and nothing is looked at */
    char *given, *real;                 /* its path as it was given, and without links */
} outputs;

/* False: `why` says what is wrong with the folder. NULL is no folder. */
bool outputs_open(outputs *o, const char *folder, char *why, size_t size);
void outputs_close(outputs *o);

typedef enum output_kind {
    OUTPUT_FILE,                        /* a path under the folder */
    OUTPUT_ELSEWHERE,                   /* no path: another kind of URL, or there is no folder */
    OUTPUT_REFUSED                      /* a path that leaves the folder, or no file's */
} output_kind;

/* What an output URL means. The file need not be there. `why` is for OUTPUT_REFUSED. */
output_kind outputs_check(const outputs *o, const char *url, char *why, size_t size);

typedef struct output_look {
    int64_t size, mtime_s, mtime_ns;
    uint64_t inode;
} output_look;

typedef enum output_found {
    LOOK_NOTHING,                       /* no file of ours is there, or an empty one */
    LOOK_FILE,                          /* a regular file is */
    LOOK_BROKEN                         /* that cannot be found out: the file server is away, say */
} output_found;

output_found outputs_look(const outputs *o, const char *url, output_look *look);

#endif
