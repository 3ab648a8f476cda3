/* fuzz.h: what the fuzz targets share. A target is a file fuzz_NAME.c with LLVMFuzzerTestOneInput(): it makes of any
 * bytes what it tests, and aborts where a property does not hold. With libFuzzer (make fuzz) the bytes are invented;
 * with main.c, and so with any compiler, they come from test/fuzz/corpus/NAME. */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define HOLDS(condition) ((condition) ? (void)0 : fuzz_fault(__FILE__, __LINE__, #condition))

static inline __attribute__((noreturn)) void fuzz_fault(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

/* What is left of an input. Past its end there are zeros. */
typedef struct input {
    const uint8_t *at;
    size_t left;
} input;

static inline const uint8_t *take(input *in, size_t n)
{
    const uint8_t *bytes = in->at;
    in->at += n;
    in->left -= n;
    return bytes;
}

static inline uint8_t take_byte(input *in)
{
    return in->left ? *take(in, 1) : 0;
}

static inline uint64_t take_number(input *in, size_t bytes)
{
    uint64_t number = 0;
    while (bytes-- > 0)
        number = number << 8 | take_byte(in);
    return number;
}

static inline void *fuzz_malloc(size_t size)
{
    void *memory = malloc(size);
    HOLDS(memory);
    return memory;
}

/* The next n bytes as a string, to be freed; it ends at a NUL, if not before. Exactly as large as it has to be. */
static inline char *take_string(input *in, size_t n)
{
    n = n < in->left ? n : in->left;
    const uint8_t *bytes = take(in, n);
    size_t len = strnlen((const char *)bytes, n);
    char *text = fuzz_malloc(len + 1);
    memcpy(text, bytes, len);
    text[len] = 0;
    return text;
}

/* The same, up to what is not UTF-8. */
static inline char *take_text(input *in, size_t n)
{
    char *text = take_string(in, n);
    text[rq_utf_check(text, strlen(text)).bad_at] = 0;
    return text;
}

static inline bool is_utf8(const char *text)
{
    return rq_utf_check(text, strlen(text)).bad_at == strlen(text);
}

static inline bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

#endif
