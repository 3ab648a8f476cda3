/* fuzz_utf.c: UTF-8 checked, measured, repaired and turned into UTF-16, held against iconv(3). */
#include <iconv.h>

#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return 0;
}

/* ---- what iconv says ---- */

/* Turns as much as is valid; how much of the input that was. */
static size_t convert(const char *to, const char *from, const char *bytes, size_t len, char *out, size_t *out_len)
{
    char *in = (char *)(uintptr_t)bytes, *end = out;
    size_t left = len, room = *out_len;
    iconv_t how = iconv_open(to, from);
    HOLDS(how != (iconv_t)-1);
    iconv(how, &in, &left, &end, &room);
    iconv_close(how);
    *out_len = (size_t)(end - out);
    return len - left;
}

static void check_scan(const char *bytes, size_t len)
{
    size_t upto = strnlen(bytes, len), utf16_len = 2 * len, back_len = len;
    char *utf16 = fuzz_malloc(2 * len + 1), *back = fuzz_malloc(len + 1);
    unsigned char *ours = fuzz_malloc(2 * len + 1);
    rq_utf_scan scan = rq_utf_check(bytes, len);
    HOLDS(convert("UTF-16LE", "UTF-8", bytes, upto, utf16, &utf16_len) == scan.bad_at);
    HOLDS(scan.units == utf16_len / 2);
    HOLDS(rq_utf16le(bytes, scan.bad_at, ours) == utf16_len && memcmp(ours, utf16, utf16_len) == 0);
    HOLDS(convert("UTF-8", "UTF-16LE", utf16, utf16_len, back, &back_len) == utf16_len);
    HOLDS(back_len == scan.bad_at && memcmp(back, bytes, back_len) == 0);
    free(ours);
    free(back);
    free(utf16);
}

/* ---- repaired ---- */

static const char mark[] = "\xE2\x80\xA6";

static size_t repair(const char *text, size_t max_units, size_t size, char **out)
{
    *out = fuzz_malloc(size);
    memset(*out, 0xA5, size);
    size_t len = rq_utf_repair(text, max_units, *out, size);
    HOLDS(len < size && strlen(*out) == len);
    rq_utf_scan scan = rq_utf_check(*out, len);
    HOLDS(scan.bad_at == len && scan.units <= max_units);
    return len;
}

static void check_repair(const char *text, size_t max_units, size_t size)
{
    char *whole, *cut;
    size_t whole_len = repair(text, SIZE_MAX, 3 * strlen(text) + 4, &whole);
    size_t cut_len = repair(text, max_units, size, &cut);
    rq_utf_scan scan = rq_utf_check(whole, whole_len);
    bool fits = whole_len < size && scan.units <= max_units;
    size_t kept = cut_len - (sizeof mark - 1);
    HOLDS(!is_utf8(text) || strcmp(whole, text) == 0);
    if (fits)
        HOLDS(strcmp(cut, whole) == 0);
    else
        HOLDS(cut_len >= sizeof mark - 1 && strcmp(cut + kept, mark) == 0 && memcmp(cut, whole, kept) == 0);
    /* It was not cut further than it had to be: another character, of up to four bytes and two units, did not fit. */
    if (!fits)
        HOLDS(cut_len + 4 >= size || rq_utf_check(cut, cut_len).units + 2 > max_units);
    free(cut);
    free(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = { data, size };
    size_t max_units = 1 + take_number(&in, 1), out_size = 4 + take_number(&in, 1);
    char *bytes = fuzz_malloc(in.left ? in.left : 1);
    memcpy(bytes, in.at, in.left);
    check_scan(bytes, in.left);
    free(bytes);
    char *text = take_string(&in, in.left);
    check_repair(text, max_units, out_size);
    check_repair(text, SIZE_MAX, out_size);
    check_repair(text, max_units, 3 * strlen(text) + 4);
    free(text);
    return 0;
}
