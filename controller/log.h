/* log.h: what the service tells people: lines about itself on standard error, a line a request on standard output;
 * and times as text. */
#ifndef CONTROLLER_LOG_H
#define CONTROLLER_LOG_H

#include <stddef.h>
#include <stdint.h>

/* One line on standard error, in one piece: "renderq-controller: ...". */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says the same only when it is new: at most once in ten seconds for each `last`, which begins as 0. */
void say_seldom(int64_t *last, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line of the access log. The path comes from the client and is made harmless; it is without its query. */
typedef struct access_line {
    const char *address, *method, *path, *note;
    unsigned code;
    size_t bytes;
    int64_t took_us;
} access_line;

void log_access(const access_line *line);

int64_t clock_us(void);                 /* a clock that only goes forward */
int64_t clock_ms(void);
int64_t wall_ms(void);                  /* of UTC since 1970 */

/* Memory, or the end of the process: a service that is started again does better than one that limps on. */
void *must_alloc(void *memory, size_t size);
char *must_copy(const char *text);

#endif
