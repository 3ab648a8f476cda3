/* name.c: the name of a queue's table taken apart. How to quote it, and whether there are schemas, is the engine's
 * own. */
#include "name.h"

#include <stdbool.h>
#include <string.h>

#include "utf.h"

static const char too_long[] = "has a part over 128 characters";

/* Reads the part at *at into out, which has the size of either of rq_name's, and moves *at behind it. */
static const char *read_part(const char **at, char out[RENDERQ_QUEUE_PART_MAX * 3 + 1])
{
    const char *p = *at;
    const bool bracketed = *p == '[';
    size_t len = 0;

    if (bracketed)
        p++;
    for (; bracketed || (*p != '\0' && *p != '.'); p++) {
        if (*p == '\0')
            return "has an unclosed bracket";
        if (!bracketed && (*p == '[' || *p == ']'))
            return "has a bracket inside a part";
        if (*p == ']' && *++p != ']')
            break;                              /* the closing one; of a doubled one the second is copied */
        if (len == (size_t)RENDERQ_QUEUE_PART_MAX * 3)
            return too_long;
        out[len++] = *p;
    }
    out[len] = '\0';
    *at = p;

    if (*p != '\0' && *p != '.')
        return "has text behind a closing bracket";
    if (len == 0)
        return "has an empty part";
    if (out[len - 1] == ' ')                    /* SQL Server compares as if it were not there; SQLite does not */
        return "ends in a blank";
    if (rq_utf_check(out, len).units > RENDERQ_QUEUE_PART_MAX)
        return too_long;
    return NULL;
}

const char *rq_name_parse(const char *text, rq_name *out)
{
    if (text == NULL || *text == '\0')
        return "is empty";

    size_t len = strlen(text);
    if (rq_utf_check(text, len).bad_at < len)
        return "is not UTF-8";

    rq_name name = { "", "" };
    const char *wrong = read_part(&text, name.table);
    if (wrong == NULL && *text == '.') {
        text++;
        memcpy(name.schema, name.table, sizeof name.schema);
        wrong = read_part(&text, name.table);
    }
    if (wrong == NULL && *text != '\0')
        wrong = "has more than two parts";
    if (wrong == NULL)
        *out = name;
    return wrong;
}
