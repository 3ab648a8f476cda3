/* wire.h: a server for the fuzz targets, without a thread or a port. CT-Library's connect() is the target's own: each
 * connection is one end of a socket pair, into which everything that the server will ever say was written before, and
 * behind it the end. TDS takes turns, so a client reads each reply when its turn comes, and nothing depends on time. */
#ifndef TEST_FUZZ_WIRE_H
#define TEST_FUZZ_WIRE_H

#include <stddef.h>
#include <stdint.h>

/* What the connections from now on are told: the first the first text, and so on; any more are closed at once. The
 * texts are borrowed. A text of more than WIRE_MAX bytes is cut. */
#define WIRE_MAX 65536
#define WIRE_CONNECTIONS 256

typedef struct wire_text {
    const uint8_t *bytes;
    size_t len;
} wire_text;

void wire_begin(const wire_text *texts, size_t n);

/* How many there were, and what the client said on one: at most `size` bytes of it. */
size_t wire_connections(void);
size_t wire_heard(size_t connection, uint8_t *out, size_t size);

/* Every connection must have been closed by the client. */
void wire_end(void);

#endif
