/* fuzz_rows.c: a server that speaks TDS to the letter, and lies. An input is a call and a script of what it is
 * answered: columns of other types than the statement's, values that no such column holds, rows for items that nobody
 * sent, one result too many or none, errors in between. What the driver makes of that is decided by the values alone,
 * so this gets deeper into it than bytes by chance (fuzz_replies.c). */
#include "calls.h"
#include "fuzz.h"
#include "tds.h"

#define COLUMNS_MAX (RQ_COLUMNS_MAX + 2)
#define TOKENS_MAX  64
#define RETRY       0x80u       /* of an input's first byte: the call is tried again */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return 0;
}

/* ---- types ---- */

typedef enum form {
    FIXED,              /* as many bytes as the type has */
    SHORT,              /* a byte of length in front; 0: NULL */
    LONG,               /* two; 0xFFFF: NULL */
    CHUNKED,            /* of a (max) type */
    POINTED             /* text, ntext, image: a pointer and a timestamp, then four bytes of length */
} form;

typedef struct kind {
    uint8_t code;
    uint8_t size;       /* FIXED, SHORT: of a value */
    form form;
    bool collated, wide;
    uint8_t scale;      /* times: written behind the type; 0xFF: there is none */
} kind;

enum { NVARCHAR, NVARCHAR_MAX, CHAR36, INT4, INT8, BIT, INTN4, INTN8, BITN, KINDS_USUAL };

static const kind kinds[] = {
    [NVARCHAR] = { 0xE7, 0, LONG, true, true, 0xFF },
    [NVARCHAR_MAX] = { 0xE7, 0, CHUNKED, true, true, 0xFF },
    [CHAR36] = { 0xAF, 36, LONG, true, false, 0xFF },
    [INT4] = { 0x38, 4, FIXED, false, false, 0xFF },
    [INT8] = { 0x7F, 8, FIXED, false, false, 0xFF },
    [BIT] = { 0x32, 1, FIXED, false, false, 0xFF },
    [INTN4] = { 0x26, 4, SHORT, false, false, 0xFF },
    [INTN8] = { 0x26, 8, SHORT, false, false, 0xFF },
    [BITN] = { 0x68, 1, SHORT, false, false, 0xFF },
    { 0x30, 1, FIXED, false, false, 0xFF },      /* tinyint */
    { 0x34, 2, FIXED, false, false, 0xFF },      /* smallint */
    { 0x3B, 4, FIXED, false, false, 0xFF },      /* real */
    { 0x3E, 8, FIXED, false, false, 0xFF },      /* float */
    { 0x3C, 8, FIXED, false, false, 0xFF },      /* money */
    { 0x3D, 8, FIXED, false, false, 0xFF },      /* datetime */
    { 0x26, 1, SHORT, false, false, 0xFF },
    { 0x26, 2, SHORT, false, false, 0xFF },
    { 0x6D, 8, SHORT, false, false, 0xFF },      /* float null */
    { 0x6F, 8, SHORT, false, false, 0xFF },      /* datetime null */
    { 0x24, 16, SHORT, false, false, 0xFF },     /* uniqueidentifier */
    { 0x28, 3, SHORT, false, false, 0 },         /* date: no scale, but a code of its own */
    { 0x2A, 8, SHORT, false, false, 7 },         /* datetime2(7) */
    { 0xA7, 0, LONG, true, false, 0xFF },        /* varchar */
    { 0xA7, 0, CHUNKED, true, false, 0xFF },     /* varchar(max) */
    { 0xA5, 0, LONG, false, false, 0xFF },       /* varbinary */
    { 0xA5, 0, CHUNKED, false, false, 0xFF },    /* varbinary(max) */
    { 0x22, 0, POINTED, false, false, 0xFF },    /* image */
    { 0x23, 0, POINTED, true, false, 0xFF },     /* text */
    { 0x63, 0, POINTED, true, true, 0xFF },      /* ntext */
};

enum { DATE = 0x28, WIDEST = 8000 };

static void put_kind(reply *r, const kind *k)
{
    static const uint8_t collation[] = { 0x09, 0x04, 0xD0, 0x00, 0x34 };
    put_number(r, k->code, 1);
    if (k->form == SHORT && k->code != DATE)
        put_number(r, k->scale == 0xFF ? k->size : k->scale, 1);
    if (k->form == LONG)
        put_number(r, k->size ? k->size : WIDEST, 2);
    if (k->form == CHUNKED)
        put_number(r, 0xFFFF, 2);
    if (k->form == POINTED)
        put_number(r, 0x7FFFFFFF, 4);
    if (k->collated)
        put_bytes(r, collation, sizeof collation);
    if (k->form == POINTED) {
        put_number(r, 1, 1);        /* of a table with a name of one part: t */
        put_number(r, 1, 2);
        put_utf16(r, "t");
    }
}

/* ---- values ---- */

#define TEXT_MAX 5000

static const char *const words[] = {
    "6F9619FF-8B86-D011-B42D-00C04FC964FF", "0B5D1A9E-7C3F-4E21-9A55-0123456789AB", "Processing", "Queued",
    "DeadLetter", "Completed", "Cancelled", "Scheduled", "", "intro", "no GUID of 36 characters ..........", "0", "-1",
    "99999999999"
};

/* A text of the input's, or one that a column may well hold; out has room for TEXT_MAX. */
static size_t take_words(input *in, rq_type type, char *out)
{
    static const size_t lengths[] = { 1023, 1024, 1025, 2048, 4001, TEXT_MAX };
    uint8_t how = take_byte(in);
    if (how < 0xC0) {
        const char *word = words[type == RQ_GUID && how < 0x60 ? how % 2 : how % (sizeof words / sizeof words[0])];
        size_t len = strlen(word);
        memcpy(out, word, len);
        return len;
    }
    if (how < 0xD0) {
        size_t len = lengths[how % (sizeof lengths / sizeof lengths[0])];
        memset(out, 'a' + how % 26, len);
        return len;
    }
    size_t len = how % 32 < in->left ? how % 32 : in->left;
    memcpy(out, take(in, len), len);
    return len;
}

static uint64_t take_value(input *in)
{
    static const uint64_t values[] = { 0, 1, 2, 3, 100, 1000, UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN, INT32_MAX,
                                       UINT32_MAX, 0x80000000, UINT64_C(1) << 33 };
    uint8_t how = take_byte(in);
    return how < 0xE0 ? values[how % (sizeof values / sizeof values[0])] : take_number(in, 8);
}

static void put_length(reply *r, const kind *k, size_t len)
{
    static const uint8_t pointer[25] = { 16 };
    if (k->form == CHUNKED)
        put_number(r, len, 8);
    if (k->form == POINTED)
        put_bytes(r, pointer, sizeof pointer);
    if (k->form != CHUNKED || len > 0)
        put_number(r, len, k->form == LONG ? 2 : 4);
}

static void put_text_value(reply *r, input *in, const kind *k, rq_type type)
{
    char text[TEXT_MAX];
    size_t len = take_words(in, type, text), unit = k->wide ? 2 : 1;
    if (k->form == LONG && len * unit > (k->size ? k->size : WIDEST))
        len = (k->size ? k->size : WIDEST) / unit;
    put_length(r, k, len * unit);
    for (size_t i = 0; i < len; i++)
        put_number(r, (uint8_t)text[i] == 0xFF ? 0xD800 : (uint8_t)text[i], unit);
    if (k->form == CHUNKED)
        put_number(r, 0, 4);
}

static void put_null(reply *r, const kind *k)
{
    if (k->form == LONG)
        put_number(r, 0xFFFF, 2);
    else if (k->form == CHUNKED)
        put_number(r, UINT64_MAX, 8);
    else
        put_number(r, 0, 1);
}

static void put_value(reply *r, input *in, const kind *k, rq_type type)
{
    bool null = k->form != FIXED && take_byte(in) % 16 == 15;
    if (null) {
        put_null(r, k);
    } else if (k->form == FIXED || k->form == SHORT) {
        uint64_t value = take_value(in);
        if (k->form == SHORT)
            put_number(r, k->size, 1);
        put_number(r, value, k->size > 8 ? 8 : k->size);
        if (k->size > 8)
            put_number(r, ~value, k->size - 8u);
    } else {
        put_text_value(r, in, k, type);
    }
}

/* ---- tokens ---- */

typedef struct table {
    rq_type types[COLUMNS_MAX];         /* that the statement has */
    const kind *kinds[COLUMNS_MAX];     /* that the server says it has */
    size_t n;
} table;

static const kind *usual(rq_type type, uint8_t how)
{
    static const uint8_t of[][2] = {
        [RQ_TEXT] = { NVARCHAR, NVARCHAR_MAX }, [RQ_GUID] = { CHAR36, CHAR36 }, [RQ_INT] = { INT4, INTN4 },
        [RQ_BIGINT] = { INT8, INTN8 }, [RQ_BIT] = { BIT, BITN }
    };
    return &kinds[of[type][how & 1]];
}

/* The statement's columns, now and then of another type, or one more or less. */
static void put_columns(reply *r, input *in, const call *c, table *t)
{
    const rq_statement *statement = c->statement < RQ_STATEMENTS ? &rq_statements[c->statement] : NULL;
    uint8_t how = take_byte(in);
    t->n = 0;
    if (c->many)
        t->types[t->n++] = RQ_INT;
    for (size_t i = 0; statement && i < statement->n_columns; i++)
        t->types[t->n++] = statement->columns[i];
    if (how >= 0xF8 && t->n > 1)
        t->n--;
    else if (how >= 0xF0)
        t->types[t->n++] = RQ_INT;
    put_number(r, 0x81, 1);
    put_number(r, t->n, 2);
    for (size_t i = 0; i < t->n; i++) {
        uint8_t column = how & 0x80 ? take_byte(in) : how;
        t->kinds[i] = column >= 0xE0 ? &kinds[take_byte(in) % (sizeof kinds / sizeof kinds[0])]
                                     : usual(t->types[i], column);
        put_number(r, 0, 4);
        put_number(r, t->kinds[i]->form == FIXED ? 8 : 9, 2);
        put_kind(r, t->kinds[i]);
        put_number(r, 0, 1);            /* it has no name */
    }
}

static void put_row(reply *r, input *in, const table *t)
{
    put_number(r, 0xD1, 1);
    for (size_t i = 0; i < t->n; i++)
        put_value(r, in, t->kinds[i], t->types[i]);
}

static void put_error(reply *r, input *in)
{
    static const int numbers[] = { 1205, 1222, 2601, 2627, 208, 18456, 50000, 40197, 3960, 0, -1, 5701 };
    int number = numbers[take_byte(in) % (sizeof numbers / sizeof numbers[0])];
    uint8_t severity = take_byte(in) % 26;
    put_message(r, severity > 10, number, 1, severity, "It did\nnot work.");
}

/* RETURNVALUE: an output parameter that nobody asked for. */
static void put_output(reply *r, input *in)
{
    const kind *k = &kinds[take_byte(in) % (sizeof kinds / sizeof kinds[0])];
    if (k->form == POINTED)
        return;
    put_number(r, 0xAC, 1);
    put_number(r, 0, 2);
    put_number(r, 0, 1);
    put_number(r, 1, 1);
    put_number(r, 0, 4);
    put_number(r, 0, 2);
    put_kind(r, k);
    put_value(r, in, k, RQ_TEXT);
}

static void put_status(reply *r, input *in)
{
    put_number(r, 0x79, 1);
    put_number(r, take_value(in), 4);
}

static void put_end(reply *r, input *in, uint8_t token)
{
    static const unsigned statuses[] = { TDS_MORE, TDS_MORE | TDS_COUNT, TDS_MORE | TDS_FAILED, 0, TDS_COUNT,
                                         TDS_FAILED, TDS_ATTN, TDS_SERVER_ERROR };
    put_done(r, token, statuses[take_byte(in) % (sizeof statuses / sizeof statuses[0])], take_value(in));
}

/* One message, up to the token that ends it. */
static void put_message_of(reply *out, input *in, const call *c, bool *returned)
{
    static reply tokens;
    table t = { .n = 0 };
    bool over = false;
    tokens.len = 0;
    for (int n = 0; !over && n < TOKENS_MAX; n++) {
        uint8_t what = in->left ? take_byte(in) : 0xFF;
        if (what < 0x40 && t.n == 0)
            put_columns(&tokens, in, c, &t);
        else if (what < 0x80)
            put_row(&tokens, in, &t);
        else if (what < 0x90)
            put_columns(&tokens, in, c, &t);
        else if (what < 0xB0)
            put_end(&tokens, in, what < 0xA0 ? TDS_DONEINPROC : TDS_DONEPROC);
        else if (what < 0xC0)
            put_error(&tokens, in);
        else if (what < 0xC8)
            put_status(&tokens, in);
        else if (what < 0xD0)
            put_output(&tokens, in);
        else if (what < 0xD4)
            over = true;                /* in the middle of everything */
        else {
            put_status(&tokens, in);
            put_done(&tokens, TDS_DONEPROC, 0, 0);
            over = true;
        }
    }
    spare_freetds(tokens.bytes, tokens.len, returned);
    put_packets(out, tokens.bytes, tokens.len, 4096);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static reply said;
    input in = { data, size };
    uint8_t head = take_byte(&in);
    size_t which = (head & ~RETRY) % n_calls;
    bool returned = false;
    said.len = 0;
    put_login(&said, false);
    while (in.left > 0)
        put_message_of(&said, &in, &calls[which], &returned);
    const wire_text texts[] = { { said.bytes, said.len }, { said.bytes, said.len }, { said.bytes, said.len } };
    wire_begin(texts, sizeof texts / sizeof texts[0]);
    renderq *h = calls_open(head & RETRY);
    HOLDS(h);
    calls_run(h, which);
    renderq_close(h);
    wire_end();
    return 0;
}
