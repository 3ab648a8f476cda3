/* table.h: rows of texts as a table that fits the terminal, or one below the other where no table would. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct table_column {
    const char *title;
    size_t min;                 /* it may be cut down to so many columns; 0: never cut */
    bool right;                 /* a number */
} table_column;

typedef struct table table;

/* Writes to standard output. `columns` stays the caller's, as long as the table is there. The last column should
 * be the one that matters least: where there is no room for it, it gets a line of its own below the others. */
table *table_new(const table_column *columns, size_t n);

/* Adds a row of n cells, which may hold anything; NULL is empty. The first rows wait until there are enough of
 * them to know how wide the columns should be. */
void table_row(table *t, const char *const *cells);

/* Writes what waits, and frees the table. A table without rows writes nothing. */
void table_end(table *t);

/* One line "title  value" of a list of them, all titles `wide` columns wide. A value that does not fit goes on
 * below; its own line ends stay. NULL or "": no line. */
void print_pair(const char *title, size_t wide, const char *value);

#endif
