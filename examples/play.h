/* play.h: what the demos share: their clock, the lines of their story, their folder, the programs that they start. */
#ifndef PLAY_H
#define PLAY_H

#include <stdint.h>
#include <sys/types.h>

#define PLAY_PATH 512

/* Since the first call. */
int64_t play_now_ms(void);

void play_pause_ms(int ms);

/* SIGINT, SIGTERM and SIGHUP are noted from now on, and no program that crashes leaves a core behind. */
void play_begin(void);
int play_is_interrupted(void);

/* A line of the story, with the time. */
__attribute__((format(printf, 1, 2))) void play_say(const char *format, ...);

/* A line of what was checked; counts what was wrong. */
__attribute__((format(printf, 2, 3))) void play_check(int ok, const char *format, ...);
int play_faults(void);

/* Says more about what is wrong, before play_check() says that it is. Returns 0, for the check. */
__attribute__((format(printf, 2, 3))) int play_wrong(const char *what, const char *format, ...);

/* Makes a folder below $TMPDIR or /tmp, and writes its whole path. Returns 0, or -1. */
int play_make_folder(const char *name, char path[PLAY_PATH]);

/* Removes a folder with all that is in it. Returns 0, or -1. */
int play_remove_folder(const char *path);

/* The SQLite URL of a file in a folder. `url` has room for three times a path. */
void play_sqlite_url(const char *folder, const char *file, char *url);

/* Starts a program of the folder that $BIN names, with its output at the end of LOGS/LOG.log. It does not outlive us.
 * Returns its process id, or -1. */
pid_t play_start(const char *logs, const char *log, char *const *argv);

/* Waits for a process that we started, and ends it when we are to end. Returns its status of waitpid(). */
int play_wait_for(pid_t pid);

/* Waits until a time of play_now_ms() for a process that was told to stop; then it is killed. Returns whether it
 * stopped by itself, with exit code 0. */
int play_stops_cleanly(pid_t pid, int64_t until_ms);

/* The lines of a log that begin with `begin` and have `then` in them. */
int play_count_lines(const char *logs, const char *log, const char *begin, const char *then);

/* Prints the end of a log. */
void play_show_log(const char *logs, const char *log);

#endif
