/* table.c: tables that fit. See table.h. */
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "text.h"

#define GAP        2            /* blanks between two columns */
#define COLUMNS_MAX 16
#define NARROW     40           /* a value that does not fit into less goes below its title */
#define WAIT_MAX   100          /* rows looked at before the widths are settled */

struct table {
    const table_column *columns;
    size_t n;
    size_t beside;              /* so many of them are beside each other: n, or all but the last */
    size_t total;               /* width of the terminal; 0: any */
    size_t *widths;
    bool settled;
    bool stacked;               /* the table does not fit: each row is a block of lines */
    char **waiting;             /* WAIT_MAX rows of n clean cells */
    size_t n_waiting;
};

static void spaces(size_t n)
{
    printf("%*s", (int)n, "");
}

table *table_new(const table_column *columns, size_t n)
{
    table *t = must_alloc(NULL, sizeof *t);
    *t = (table){ .columns = columns, .n = n, .beside = n, .total = text_columns() };
    t->widths = must_alloc(NULL, n * sizeof t->widths[0]);
    for (size_t i = 0; i < n; i++)
        t->widths[i] = text_width(columns[i].title);
    t->waiting = must_alloc(NULL, WAIT_MAX * n * sizeof t->waiting[0]);
    return t;
}

/* ---- one row ---- */

static void write_cell(const table *t, size_t i, const char *text)
{
    size_t columns = t->columns[i].min ? t->widths[i] : SIZE_MAX / 2;
    size_t width = text_width(text);
    size_t used = width < columns ? width : columns;
    size_t pad = used < t->widths[i] ? t->widths[i] - used : 0;
    if (i > 0)
        spaces(GAP);
    if (t->columns[i].right)
        spaces(pad);
    used = text_print(text, columns);
    if (!t->columns[i].right && i + 1 < t->beside && used < t->widths[i])
        spaces(t->widths[i] - used);
}

static void write_row(const table *t, const char *const *cells)
{
    for (size_t i = 0; i < t->beside; i++)
        write_cell(t, i, cells[i]);
    if (t->beside < t->n && *cells[t->n - 1]) {
        printf("\n%*s", GAP, "");
        text_print(cells[t->n - 1], t->total - GAP);
    }
    putchar('\n');
}

static void write_block(const table *t, const char *const *cells)
{
    size_t wide = 0, least = 8;
    for (size_t i = 1; i < t->n; i++) {
        size_t width = text_width(t->columns[i].title);
        wide = width > wide ? width : wide;
    }
    size_t taken = GAP + wide + GAP, room = t->total > taken + least ? t->total - taken : least;
    printf("%s\n", cells[0]);               /* an ID: cut, it would be of no use */
    for (size_t i = 1; i < t->n; i++) {
        size_t title = text_width(t->columns[i].title);
        if (!*cells[i])
            continue;
        printf("  %s", t->columns[i].title);
        spaces(wide - title + GAP);
        text_print(cells[i], room);
        putchar('\n');
    }
}

static void write_any(const table *t, char **cells)
{
    if (t->stacked)
        write_block(t, (const char *const *)cells);
    else
        write_row(t, (const char *const *)cells);
    for (size_t i = 0; i < t->n; i++)
        free(cells[i]);
}

/* ---- widths ---- */

static size_t all_widths(const table *t)
{
    size_t all = (t->beside - 1) * GAP;
    for (size_t i = 0; i < t->beside; i++)
        all += t->widths[i];
    return all;
}

/* The widest column that may still shrink; SIZE_MAX: none. */
static size_t widest(const table *t)
{
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < t->beside; i++)
        if (t->columns[i].min && t->widths[i] > t->columns[i].min
            && (found == SIZE_MAX || t->widths[i] > t->widths[found]))
            found = i;
    return found;
}

static void shrink(table *t)
{
    size_t at;
    while (all_widths(t) > t->total && (at = widest(t)) != SIZE_MAX)
        t->widths[at]--;
}

static void settle(table *t)
{
    t->settled = true;
    if (t->total > 0) {
        size_t natural[COLUMNS_MAX];
        memcpy(natural, t->widths, t->n * sizeof natural[0]);
        shrink(t);
        if (all_widths(t) > t->total) {
            memcpy(t->widths, natural, t->n * sizeof natural[0]);
            t->beside--;
            shrink(t);
        }
        t->stacked = all_widths(t) > t->total;
    }
    if (t->stacked)
        return;
    for (size_t i = 0; i < t->beside; i++)
        write_cell(t, i, t->columns[i].title);
    putchar('\n');
}

static void write_waiting(table *t)
{
    if (!t->settled && t->n_waiting > 0)
        settle(t);
    for (size_t row = 0; row < t->n_waiting; row++)
        write_any(t, t->waiting + row * t->n);
    t->n_waiting = 0;
}

void table_row(table *t, const char *const *cells)
{
    char **row = t->waiting + t->n_waiting++ * t->n;
    for (size_t i = 0; i < t->n; i++) {
        row[i] = text_clean(cells[i] ? cells[i] : "");
        size_t width = text_width(row[i]);
        if (!t->settled && width > t->widths[i])
            t->widths[i] = width;
    }
    if (t->settled || t->n_waiting == WAIT_MAX)
        write_waiting(t);
}

void table_end(table *t)
{
    write_waiting(t);
    free(t->widths);
    free(t->waiting);
    free(t);
}

/* ---- pairs ---- */

/* The lines of a clean text, each in pieces of at most `room` columns. */
static void write_wrapped(char *line, size_t room, size_t indent, bool indent_first)
{
    size_t width;
    for (char *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        do {
            size_t bytes = text_fit(line, room, &width);
            if (bytes == 0)
                bytes = strlen(line);           /* a character wider than the room, or nothing */
            if (indent_first)
                spaces(indent);
            indent_first = true;
            fwrite(line, 1, bytes, stdout);
            putchar('\n');
            line += bytes;
        } while (*line);
    }
}

void print_pair(const char *title, size_t wide, const char *value)
{
    if (!value || !*value)
        return;
    size_t total = text_columns(), indent = wide + GAP;
    size_t room = total == 0 ? SIZE_MAX / 2 : total > indent + 8 ? total - indent : 8;
    char *clean = text_clean_lines(value);
    fputs(title, stdout);
    if (room < NARROW && text_width(clean) > room) {
        putchar('\n');                          /* below, there is more room */
        write_wrapped(clean, total > 8 + GAP ? total - GAP : 8, GAP, true);
    } else {
        spaces(indent - text_width(title));
        write_wrapped(clean, room, indent, false);
    }
    free(clean);
}
