/* fuzz_guid.c: GUIDs. A text is read as its form allows and printed as it was, the bytes sort as SQL Server's do, and
 * ids that are made in order are in order. */
#include "fuzz.h"
#include "guid.h"

#define IDS_MAX 20

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return 0;
}

/* ---- read and printed ---- */

/* 8-4-4-4-12, told by another way than the library's: group by group. */
static bool is_guid(const char *text)
{
    static const size_t groups[] = { 8, 4, 4, 4, 12 };
    for (size_t i = 0; i < 5; i++) {
        if (strspn(text, "0123456789abcdefABCDEF") != groups[i])
            return false;
        text += groups[i];
        if (*text++ != (i < 4 ? '-' : 0))
            return false;
    }
    return true;
}

/* The order in which SQL Server compares the 16 bytes that it stores, of which the first three groups lie backwards. */
static void sql_server_order(const char *text, unsigned char sort[16])
{
    static const int stored[16] = { 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15 };
    static const int compared[16] = { 10, 11, 12, 13, 14, 15, 8, 9, 6, 7, 4, 5, 0, 1, 2, 3 };
    unsigned char written[16];
    for (size_t i = 0; i < 16; i++) {
        text += *text == '-';
        char pair[] = { text[0], text[1], 0 };
        written[i] = (unsigned char)strtoul(pair, NULL, 16);
        text += 2;
    }
    for (size_t i = 0; i < 16; i++)
        sort[i] = written[stored[compared[i]]];
}

static void check_text(const char *text)
{
    rq_guid guid, untouched;
    memset(&guid, 0xA5, sizeof guid);
    untouched = guid;
    HOLDS(rq_guid_parse(text, &guid) == is_guid(text));
    if (!is_guid(text)) {
        HOLDS(memcmp(&guid, &untouched, sizeof guid) == 0);
        return;
    }
    unsigned char sort[16];
    renderq_id printed;
    sql_server_order(text, sort);
    HOLDS(memcmp(guid.sort, sort, sizeof sort) == 0);
    rq_guid_print(&guid, &printed);
    for (size_t i = 0; i < sizeof printed.text; i++) {
        bool lower = text[i] >= 'a' && text[i] <= 'f';
        HOLDS(printed.text[i] == (lower ? text[i] - 0x20 : text[i]));
    }
}

static void check_bytes(const rq_guid *guid)
{
    renderq_id printed;
    rq_guid again;
    memset(&printed, 0xA5, sizeof printed);
    rq_guid_print(guid, &printed);
    HOLDS(memchr(printed.text, 0, sizeof printed.text) && is_guid(printed.text));
    HOLDS(rq_guid_parse(printed.text, &again) && memcmp(&again, guid, sizeof again) == 0);
}

/* ---- made in order ---- */

static uint64_t time_of(const rq_guid *guid)
{
    uint64_t ms = 0;
    for (size_t i = 0; i < 6; i++)
        ms = ms << 8 | guid->sort[i];
    return ms;
}

static void check_ordered(input *in)
{
    rq_guid_order order = { .ms = take_number(in, 6), .seq = (unsigned)take_number(in, 2) & 0x3FFF }, before = order;
    uint64_t now = take_number(in, 8);
    size_t n = take_byte(in) % (IDS_MAX + 1);
    rq_guid *ids = fuzz_malloc((n ? n : 1) * sizeof *ids);
    bool made = rq_guid_ordered(&order, now, ids, n);
    HOLDS(made || order.ms == before.ms);
    HOLDS(made || before.ms + 1 >= UINT64_C(1) << 48 || now >= UINT64_C(1) << 48);     /* only at the end of time */
    for (size_t i = 0; made && i < n; i++) {
        renderq_id text;
        check_bytes(&ids[i]);
        rq_guid_print(&ids[i], &text);
        HOLDS(text.text[14] == '8' && strchr("89AB", text.text[19]));
        HOLDS(i == 0 || memcmp(&ids[i - 1], &ids[i], 8) < 0);
        HOLDS(time_of(&ids[i]) >= before.ms);
        HOLDS(now >= UINT64_C(1) << 48 || time_of(&ids[i]) >= now);
    }
    HOLDS(!made || n == 0 || time_of(&ids[n - 1]) == order.ms);
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = { data, size }, again = in;
    rq_guid guid;
    char *text = take_string(&in, size);
    check_text(text);
    free(text);
    in = again;
    for (size_t i = 0; i < sizeof guid.sort; i++)
        guid.sort[i] = take_byte(&in);
    check_bytes(&guid);
    check_ordered(&again);
    return 0;
}
