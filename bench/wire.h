/* wire.h: what the benchmark's part over the wire shares: the test server, the bare CT-Library program, and requests
 * counted. Its sections are in bench.h, like all others. */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include "bench.h"

#define WIRE_PAYLOAD_MAX 8192

/* ---- the test server (wire_server.c): test/tdsd on a file of its own; it ends with this process ---- */

/* Its URL, with the queue's name; started by the first that asks. NULL: it cannot be had here, and a note says why. */
const char *wire_server(const bench_run *run);

/* Requests that it has been sent since it was asked last; logins are counted apart. */
typedef struct wire_requests {
    size_t requests, logins;
} wire_requests;

wire_requests wire_asked(void);

/* Behind the server's back: empties the queue; makes it so much longer ago that jobs ended. */
void wire_forget(void);
void wire_age(int seconds);

/* ---- CT-Library without the library (wire_bare.c) ---- */

typedef struct wire_bare wire_bare;
wire_bare *wire_bare_open(const char *url);
void wire_bare_enqueue(wire_bare *b, size_t n);
void wire_bare_claim(wire_bare *b, size_t n);
void wire_bare_run(wire_bare *b, const char *sql);      /* without parameters; rows are dropped */
void wire_bare_close(wire_bare *b);

#endif
