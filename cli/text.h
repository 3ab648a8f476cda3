/* text.h: texts from a database made fit for a terminal: harmless, measured in columns, and cut to them; and times as
 * text. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes a copy that no terminal obeys: white space of any kind becomes a blank; other control characters, those
 * that turn the writing direction, and bytes that are not UTF-8 become U+FFFD. The caller frees it. */
char *text_clean(const char *text);

/* The same, but line ends stay. */
char *text_clean_lines(const char *text);

bool text_is_utf8(const char *text);

/* The length of a text as the queue's columns count it: in UTF-16 units. */
size_t text_units(const char *text);

/* The columns that a clean text takes. */
size_t text_width(const char *text);

/* How many bytes of a clean text fit into so many columns; *width is what they take. */
size_t text_fit(const char *text, size_t columns, size_t *width);

/* Writes a clean text to standard output, cut to the columns, with "…" where it was cut. Returns its width. */
size_t text_print(const char *text, size_t columns);

/* How wide standard output is: COLUMNS, or its terminal's width; 0: as wide as you like. */
size_t text_columns(void);

/* The terminal of a descriptor: its width or height; 0: it is none. */
size_t terminal_columns(int fd);
size_t terminal_rows(int fd);

/* The line of a text that says most: its last one with anything in it. The caller frees it; it is clean. */
char *text_last_line(const char *text);

/* "2026-01-31T12:00:00.000Z"; "" for 0. The buffer needs TIME_SIZE. */
#define TIME_SIZE 40
const char *time_text(int64_t ms, char *buffer);

#endif
