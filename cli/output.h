/* output.h: what is kept of a program's output, however much there is: the last line of one stream, the tail of
 * the other. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <renderq.h>
#include <stdbool.h>
#include <stddef.h>

#define LINE_MAX_BYTES (3 * RENDERQ_OUTPUT_URL_MAX + 2)     /* an output URL is never longer */
#define TAIL_BYTES     4000

/* The last line with anything in it. */
typedef struct last_line {
    char now[LINE_MAX_BYTES], last[LINE_MAX_BYTES];
    size_t now_len, last_len;
    bool now_long, last_long;       /* it was longer than what is kept */
} last_line;

void last_line_add(last_line *l, const char *bytes, size_t len);

/* At the end: sets *text to the line, NULL if there is none. Returns what is wrong with it as an output URL, or
 * NULL. */
const char *last_line_end(last_line *l, const char **text);

typedef struct tail {
    char bytes[2 * TAIL_BYTES];
    size_t len;
    bool cut;
} tail;

void tail_add(tail *t, const char *bytes, size_t len);

/* At the end: the text, with "…" in front where it was cut, without white space at its end. It lives in `t`. */
const char *tail_end(tail *t);

#endif
