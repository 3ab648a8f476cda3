/* exit.h: every exit code of the command, said once. The enum and `renderq --help` come from this table, and the
 * manual repeats it. From 64 on they are those of sysexits.h. */
#ifndef CLI_EXIT_H
#define CLI_EXIT_H

#include <renderq.h>

#define CLI_EXITS(X) \
    X(CODE_DONE, 0, \
      "done. A job whose dedup key is held already counts as enqueued, and a loop of work that was told to stop " \
      "has done what it should. work --once: the job is done") \
    X(CODE_NOT_DONE, 1, \
      "not done: the job's state forbids it, its lease is lost, its dedup key is held, a record was bad, or a " \
      "question was answered with no. work --once: the job was taken and is not done") \
    X(CODE_NOTHING, 2, "nothing there: no job has this ID. work --once: no job was ready") \
    X(CODE_USAGE, 64, "wrong usage: an option, an argument or a URL that is refused") \
    X(CODE_NO_INPUT, 66, "a file that was named cannot be read") \
    X(CODE_UNAVAILABLE, 69, "the database cannot be reached, is locked, or its answer was lost: try again") \
    X(CODE_SYSTEM, 71, "this machine refused: no memory, no process, or work's program cannot be run") \
    X(CODE_BROKEN, 74, "the database or an output broke: disk full, file corrupt") \
    X(CODE_DENIED, 77, "not permitted: login refused, permission missing, file read-only") \
    X(CODE_SCHEMA, 78, "the queue's table is missing or too old: renderq init")

typedef enum exit_code {
#define CLI_EXIT_NUMBER(name, number, text) name = number,
    CLI_EXITS(CLI_EXIT_NUMBER)
#undef CLI_EXIT_NUMBER
} exit_code;

exit_code exit_of(renderq_status status);

#endif
