/* test_backoff.c: lib/backoff.c. That the reap statements wait as long is the conformance suite's to show. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backoff.h"

#define HALF        0x80000000u                 /* of 2^32 */
#define count_of(a) (sizeof (a) / sizeof (a)[0])

static void backoff_doubles_to_an_hour(void **state)
{
    static const struct { int failures; int64_t seconds; } waits[] = {
        { 1, 2 }, { 2, 4 }, { 3, 8 }, { 4, 16 }, { 5, 32 }, { 6, 64 }, { 7, 128 }, { 8, 256 }, { 9, 512 },
        { 10, 1024 }, { 11, 2048 }, { 12, 3600 }, { 13, 3600 }, { 31, 3600 }, { 32, 3600 }, { 63, 3600 },
        { 64, 3600 }, { 65, 3600 }, { INT_MAX, 3600 },
        { 0, 2 }, { -1, 2 }, { INT_MIN, 2 }     /* counts as 1 */
    };

    (void)state;
    for (size_t i = 0; i < count_of(waits); i++) {
        int64_t ms = waits[i].seconds * 1000;
        assert_int_equal(rq_backoff_ms(waits[i].failures, 0), ms);
        assert_int_equal(rq_backoff_ms(waits[i].failures, HALF), ms + ms / 8);
        assert_int_equal(rq_backoff_ms(waits[i].failures, UINT32_MAX), ms + ms / 4 - 1);
    }
}

static void backoff_grows_with_its_random_bits(void **state)
{
    int64_t last = 0;

    (void)state;
    for (uint64_t random = 0; random <= UINT32_MAX; random += 0x1000000) {
        int64_t ms = rq_backoff_ms(12, (uint32_t)random);
        assert_true(ms > last);
        last = ms;
    }
}

static void poll_doubles_to_its_cap(void **state)
{
    static const struct { unsigned empty_reads; int64_t cap_ms, base_ms; } waits[] = {
        { 0, 2000, 0 }, { 1, 2000, 0 }, { 2, 2000, 100 }, { 3, 2000, 200 }, { 4, 2000, 400 }, { 5, 2000, 800 },
        { 6, 2000, 1600 }, { 7, 2000, 2000 }, { 8, 2000, 2000 }, { 66, 2000, 2000 }, { UINT_MAX, 2000, 2000 },
        { 2, 100, 100 }, { 3, 100, 100 },
        { 1, 40, 0 }, { 2, 40, 40 }, { 3, 40, 40 },                     /* a cap under the first wait */
        { 2, 0, 0 }, { UINT_MAX, 0, 0 }, { 2, -1, 0 }, { 9, INT64_MIN, 0 },
        { 2, INT64_MAX, 100 }, { 100, INT64_MAX, 3600000 },             /* an hour at most */
        { UINT_MAX, INT64_MAX, 3600000 }, { 100, 3600001, 3600000 }, { 100, 3599996, 3599996 }
    };

    (void)state;
    for (size_t i = 0; i < count_of(waits); i++) {
        int64_t ms = waits[i].base_ms;
        assert_int_equal(rq_poll_ms(waits[i].empty_reads, waits[i].cap_ms, 0), ms - ms / 4);
        assert_int_equal(rq_poll_ms(waits[i].empty_reads, waits[i].cap_ms, HALF), ms);
        assert_int_equal(rq_poll_ms(waits[i].empty_reads, waits[i].cap_ms, UINT32_MAX),
                         ms > 0 ? ms + ms / 4 - 1 : 0);
    }
}

static void a_tiny_cap_waits_no_longer_than_it(void **state)
{
    (void)state;
    for (int64_t cap_ms = 1; cap_ms < 8; cap_ms++)
        for (unsigned empty_reads = 2; empty_reads < 5; empty_reads++) {
            int64_t least = rq_poll_ms(empty_reads, cap_ms, 0);
            int64_t most = rq_poll_ms(empty_reads, cap_ms, UINT32_MAX);
            assert_true(least >= cap_ms - cap_ms / 4 && least <= most && most <= cap_ms + cap_ms / 4);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backoff_doubles_to_an_hour),
        cmocka_unit_test(backoff_grows_with_its_random_bits),
        cmocka_unit_test(poll_doubles_to_its_cap),
        cmocka_unit_test(a_tiny_cap_waits_no_longer_than_it)
    };

    return cmocka_run_group_tests_name("backoff", tests, NULL, NULL);
}
