/* exchange.h: one request and its answer, from the first line that arrives to the last byte that is sent. The HTTP
 * thread makes it and frees it; in between it lies with one of the threads that talk to the database, while its
 * connection is suspended. Nobody else looks at it then. */
#ifndef CONTROLLER_EXCHANGE_H
#define CONTROLLER_EXCHANGE_H

#include <jansson.h>
#include <renderq.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum route_id {
    ROUTE_PAGE, ROUTE_HEALTH, ROUTE_READY, ROUTE_METRICS, ROUTE_FORM_TOKEN, ROUTE_QUEUES, ROUTE_NEXT, ROUTE_ENQUEUE,
    ROUTE_JOB, ROUTE_RENEW, ROUTE_COMPLETE, ROUTE_FAIL, ROUTE_RELEASE, ROUTE_RETRY, ROUTE_STATS, ROUTE_DEAD,
    ROUTE_GIVE_BACK                     /* not HTTP: a job whose answer could not be sent */
} route_id;

struct MHD_Connection;
struct clerk;
struct connection;

typedef struct exchange {
    struct exchange *next;              /* in the list of the thread it lies with */
    struct MHD_Connection *http;
    struct connection *link;
    int64_t began_us;
    char *path;                         /* without its query */
    char *host;                         /* of a request line with a whole URL; NULL: the header has it */
    const char *method;

    route_id route;
    struct clerk *clerk;                /* of its queue */
    renderq_id id;                      /* of the path */
    size_t body_max, body_len, body_room;
    char *body;
    bool lines;                         /* the body is JSON lines */
    json_t *input;                      /* the body, read; NULL where there is none */
    int64_t query[2];                   /* stats: minutes; dead: offset, limit */

    int64_t until_ms;                   /* next: how long to wait, on clock_ms() */
    const char *worker;                 /* next: in `input` */
    renderq_job *job;                   /* next: what is being handed out */

    bool ready;                         /* the answer is below */
    unsigned code;
    char *answer;                       /* NULL: empty */
    size_t answer_len;
    const char *type;                   /* NULL: JSON */
    const char *allow;                  /* 405 */
    int retry_after_s;                  /* 0: none */
    bool answered;                      /* it has been queued for sending */
} exchange;

/* ---- answers: each makes the exchange ready ---- */

/* Takes `value` over. */
void answer_json(exchange *x, unsigned code, json_t *value);
void answer_text(exchange *x, unsigned code, const char *type, char *text, size_t len);     /* takes `text` over */
void answer_empty(exchange *x, unsigned code);
void answer_error(exchange *x, unsigned code, const char *error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* What a call of the library that was not OK means over HTTP. */
void answer_status(exchange *x, renderq_status status, const char *message);

/* Whether the status says that the database is not to be had just now. */
bool is_away(renderq_status status);

/* {"id": ..., "status": "OK"} */
void answer_outcome(exchange *x, unsigned code, const renderq_id *id, renderq_status status);

#endif
