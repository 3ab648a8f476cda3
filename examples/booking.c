/* booking.c: the relay's own table; see booking.h. The statements are the same for both engines where they can be. */
#include "booking.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

int booking_parse(const char *json, size_t len, booking *out, own_error *error)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-";
    const char *account = "";
    json_int_t cents = 0;
    json_error_t wrong;
    json_t *message = json_loadb(json, len, JSON_REJECT_DUPLICATES, &wrong);
    int bad;

    memset(out, 0, sizeof *out);
    bad = message == NULL
          || json_unpack_ex(message, &wrong, 0, "{s:s, s:I, s?i, s?b !}", "account", &account, "cents", &cents,
                            "work_ms", &out->work_ms, "crash", &out->crash) != 0;

    if (!bad && (account[0] == '\0' || strlen(account) > BOOKING_ACCOUNT_MAX || account[strspn(account, allowed)] != '\0')) {
        snprintf(wrong.text, sizeof wrong.text, "an account has 1 to %d letters, digits and dashes",
                 BOOKING_ACCOUNT_MAX);
        bad = 1;
    }
    if (bad)
        snprintf(error->text, sizeof error->text, "%s", wrong.text);
    else
        memcpy(out->account, account, strlen(account) + 1);
    out->cents = cents;
    json_decref(message);
    return bad ? -1 : 0;
}

/* No key forbids to book a message twice, as the demo wants to see that it does not happen. */
#define COLUMNS "(Message varchar(36) NOT NULL, Account varchar(32) NOT NULL, Cents bigint NOT NULL)"

int booking_create(own_engine engine, void *native, own_error *error)
{
    const char *sql = engine == OWN_SQLITE ? "CREATE TABLE IF NOT EXISTS Bookings " COLUMNS
                                           : "IF OBJECT_ID(N'Bookings', N'U') IS NULL CREATE TABLE Bookings " COLUMNS;

    return own_run(engine, native, sql, NULL, 0, NULL, NULL, error);
}

int booking_add(own_engine engine, void *native, const char *message, const booking *b, own_error *error)
{
    const own_value values[] = {
        { .name = "@message", .text = message },
        { .name = "@account", .text = b->account },
        { .name = "@cents", .number = b->cents },
    };

    return own_run(engine, native,
                   "INSERT INTO Bookings (Message, Account, Cents) VALUES (@message, @account, @cents)", values, 3,
                   NULL, NULL, error);
}

int booking_each(own_engine engine, void *native, own_row_fn row, void *arg, own_error *error)
{
    return own_run(engine, native, "SELECT Message, Account, Cents FROM Bookings ORDER BY Message", NULL, 0, row, arg,
                   error);
}
