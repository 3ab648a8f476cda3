/* fuzz_replies.c: a server that says anything. An input is a call, how the server speaks, and its replies, whatever
 * they are; recorded ones (record.py) are where the fuzzer begins. */
#include "calls.h"
#include "fuzz.h"
#include "tds.h"

/* Between two messages of an input. */
static const uint8_t next_message[] = { 0xF5, 'R', 'Q', 0xF5 };

enum { OWN_LOGIN = 1, OWN_PACKETS = 2, SIZE_SHIFT = 2, SIZES = 4, BABELFISH = 0x40, RETRY = 0x80 };

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return 0;
}

static void put_messages(reply *r, input in, uint8_t how)
{
    static const size_t sizes[SIZES] = { 4096, 512, 64, 9 };
    while (in.left > 0) {
        const uint8_t *end = memmem(in.at, in.left, next_message, sizeof next_message);
        size_t len = end ? (size_t)(end - in.at) : in.left;
        if (how & OWN_PACKETS)
            put_bytes(r, in.at, len);
        else
            put_packets(r, in.at, len, sizes[(how >> SIZE_SHIFT) % SIZES]);
        take(&in, len + (end ? sizeof next_message : 0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static reply first, later;
    static uint8_t said[WIRE_MAX];
    bool returned = false;
    size = size < sizeof said ? size : sizeof said;
    memcpy(said, data, size);
    spare_freetds(said, size, &returned);
    input in = { said, size };
    size_t which = take_byte(&in) % n_calls;
    uint8_t how = take_byte(&in);
    first.len = later.len = 0;
    put_login(&later, how & BABELFISH);
    put_messages(&later, in, how);
    if (!(how & OWN_LOGIN))
        put_login(&first, how & BABELFISH);
    put_messages(&first, in, how);
    const wire_text texts[] = { { first.bytes, first.len }, { later.bytes, later.len }, { later.bytes, later.len } };
    wire_begin(texts, sizeof texts / sizeof texts[0]);
    renderq *h = calls_open(how & RETRY);
    if (h) {
        calls_run(h, which);
        calls_run(h, which);        /* on what is left of the connection, or on another one */
        renderq_close(h);
    }
    wire_end();
    return 0;
}
