/* answer.c: answers made: JSON, errors, and what the library's statuses mean over HTTP. See exchange.h. */
#include "exchange.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "log.h"

void answer_text(exchange *x, unsigned code, const char *type, char *text, size_t len)
{
    free(x->answer);
    x->code = code;
    x->type = type;
    x->answer = text;
    x->answer_len = len;
    x->ready = true;
}

void answer_json(exchange *x, unsigned code, json_t *value)
{
    size_t len;
    char *text = json_line(value, &len);
    answer_text(x, code, NULL, text, len);
}

void answer_empty(exchange *x, unsigned code)
{
    answer_text(x, code, NULL, NULL, 0);
}

void answer_error(exchange *x, unsigned code, const char *error, const char *format, ...)
{
    char message[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    answer_json(x, code, json_error_object(error, message));
}

void answer_outcome(exchange *x, unsigned code, const renderq_id *id, renderq_status status)
{
    json_t *made = json_object();
    json_object_set_new(made, "id", json_text(id->text));
    json_object_set_new(made, "status", json_text(renderq_strstatus(status)));
    answer_json(x, code, made);
}

typedef struct meaning {
    renderq_status status;
    unsigned code;
    const char *error;
    int retry_after_s;
    bool away;
} meaning;

static const meaning meanings[] = {
    { RENDERQ_EMPTY, 404, "no_such_job", 0, false },
    { RENDERQ_LOST, 409, "lost", 0, false },
    { RENDERQ_DUPLICATE, 409, "duplicate", 0, false },
    { RENDERQ_INVALID, 400, "bad_request", 0, false },
    { RENDERQ_BUSY, 503, "busy", 1, true },
    { RENDERQ_UNCERTAIN, 503, "uncertain", 1, true },
    { RENDERQ_DISCONNECTED, 503, "unavailable", 2, true },
    { RENDERQ_DENIED, 503, "unavailable", 10, true },
    { RENDERQ_SCHEMA, 503, "unavailable", 10, false },
    { RENDERQ_FAILED, 503, "failed", 5, false },
    { RENDERQ_NOMEM, 503, "unavailable", 1, false },
    { RENDERQ_INTERRUPTED, 503, "stopping", 5, false },
};

static const meaning *find(renderq_status status)
{
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (meanings[i].status == status)
            return &meanings[i];
    static const meaning other = { RENDERQ_FAILED, 503, "failed", 5, false };
    return &other;
}

void answer_status(exchange *x, renderq_status status, const char *message)
{
    const meaning *m = find(status);
    answer_error(x, m->code, m->error, "%s", message);
    x->retry_after_s = m->retry_after_s;
}

bool is_away(renderq_status status)
{
    return status != RENDERQ_OK && find(status)->away;
}
