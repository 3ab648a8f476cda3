/* own_sql.h: a program's own SQL on the connection of a queue's handle, so that it joins the handle's transaction:
 * SQLite by sqlite3_*, SQL Server by CT-Library. Values are parameters, and the rows come back as text. */
#ifndef OWN_SQL_H
#define OWN_SQL_H

#include <stdint.h>

#define OWN_COLUMNS_MAX 8
#define OWN_TEXT_MAX    255                 /* bytes of a text that is read */

typedef enum own_engine {
    OWN_UNKNOWN,
    OWN_SQLITE,
    OWN_SQLSERVER
} own_engine;

typedef struct own_value {
    const char *name;                       /* as in the statement: "@account" */
    const char *text;                       /* in ASCII, up to 64 bytes; or NULL: it is the number */
    int64_t number;
} own_value;

typedef struct own_error {
    char text[400];
} own_error;

/* Called with each row; the texts live for the call, and NULL is NULL. */
typedef void (*own_row_fn)(void *arg, const char *const *columns);

/* The engine of a queue's URL. */
own_engine own_engine_of(const char *url);

/* Runs one statement. `native` is what renderq_native() gives just now. row may be NULL where no rows come.
 * Returns 0, or -1 with the reason in *error: then roll back. Some errors end the transaction on the server, and the
 * library's calls answer ABORTED until that has been done. */
int own_run(own_engine engine, void *native, const char *sql, const own_value *values, int n, own_row_fn row,
            void *arg, own_error *error);

#endif
