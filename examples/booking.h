/* booking.h: what a message is to the relay: an order that is paid, to be booked in a table of the program's own. It
 * knows the table and SQL, and nothing of queues. */
#ifndef BOOKING_H
#define BOOKING_H

#include "own_sql.h"

#include <stddef.h>

#define BOOKING_ACCOUNT_MAX 32

/* {"account": "A-17", "cents": 1250}
 *
 * Two more imitate a handler on a bad day: "work_ms" makes it slow, and "crash": true makes it take its process down,
 * with the booking made and not committed. */
typedef struct booking {
    char account[BOOKING_ACCOUNT_MAX + 1];  /* letters, digits, dashes */
    int64_t cents;
    int work_ms, crash;
} booking;

/* Reads a message. Returns 0, or -1 with the reason in *error: it can never work. */
int booking_parse(const char *json, size_t len, booking *out, own_error *error);

/* Makes the table, where it is not there yet. This and the two below return what own_run() does. */
int booking_create(own_engine engine, void *native, own_error *error);

/* Books what a message ordered, in the transaction that is open on the connection. */
int booking_add(own_engine engine, void *native, const char *message, const booking *b, own_error *error);

/* Reads all bookings: message, account, cents. */
int booking_each(own_engine engine, void *native, own_row_fn row, void *arg, own_error *error);

#endif
