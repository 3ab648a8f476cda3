/* test_guid.c: lib/guid.c. No database: that SQL Server sorts so is the conformance suite's to show. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "guid.h"

#define MS_MAX      ((UINT64_C(1) << 48) - 1)
#define PER_MS      16384
#define count_of(a) (sizeof (a) / sizeof (a)[0])

/* What the next calls of getrandom() do instead of their work. */
static struct { unsigned interrupted, broken, truncated, calls; } kernel;

/* Stands in front of libc's. */
ssize_t getrandom(void *buffer, size_t length, unsigned flags)
{
    kernel.calls++;
    if (kernel.interrupted > 0) {
        kernel.interrupted--;
        errno = EINTR;
        return -1;
    }
    if (kernel.broken > 0) {
        kernel.broken--;
        errno = ENOSYS;
        return -1;
    }
    if (kernel.truncated > 0) {
        kernel.truncated--;
        return syscall(SYS_getrandom, buffer, length - 1, flags);
    }
    return syscall(SYS_getrandom, buffer, length, flags);
}

static int reset_kernel(void **state)
{
    (void)state;
    memset(&kernel, 0, sizeof kernel);
    return 0;
}

static rq_guid parsed(const char *text)
{
    rq_guid guid;

    assert_true(rq_guid_parse(text, &guid));
    return guid;
}

static int order_of(const rq_guid *a, const rq_guid *b)
{
    return memcmp(a->sort, b->sort, sizeof a->sort);
}

static uint64_t ms_of(const rq_guid *guid)
{
    uint64_t ms = 0;

    for (size_t i = 0; i < 6; i++)
        ms = ms << 8 | guid->sort[i];
    return ms;
}

static void assert_form(const rq_guid *guid, char version)
{
    renderq_id id;

    rq_guid_print(guid, &id);
    assert_int_equal(strlen(id.text), 36);
    assert_int_equal(id.text[14], version);
    assert_non_null(memchr("89AB", id.text[19], 4));
}

static void bytes_lie_in_sql_servers_order(void **state)
{
    static const unsigned char expected[16] = {
        0xA1, 0xB2, 0xC3, 0xD4, 0xE5, 0xF6, 0x89, 0x90, 0x78, 0x67, 0x56, 0x45, 0x34, 0x23, 0x12, 0x01
    };
    rq_guid guid = parsed("01122334-4556-6778-8990-A1B2C3D4E5F6");

    (void)state;
    assert_memory_equal(guid.sort, expected, sizeof expected);
}

static void memcmp_is_order_by(void **state)
{
    /* As SELECT ... ORDER BY lists them: one byte of the text each, from the least to the most significant. */
    static const char *const ascending[] = {
        "00000000-0000-0000-0000-000000000000",
        "01000000-0000-0000-0000-000000000000",
        "FF000000-0000-0000-0000-000000000000",
        "00010000-0000-0000-0000-000000000000",
        "00000100-0000-0000-0000-000000000000",
        "00000001-0000-0000-0000-000000000000",
        "00000000-0100-0000-0000-000000000000",
        "00000000-0001-0000-0000-000000000000",
        "00000000-0000-0100-0000-000000000000",
        "00000000-0000-0001-0000-000000000000",
        "00000000-0000-0000-0001-000000000000",
        "00000000-0000-0000-0100-000000000000",
        "00000000-0000-0000-0000-000000000001",
        "00000000-0000-0000-0000-000000000100",
        "00000000-0000-0000-0000-000000010000",
        "00000000-0000-0000-0000-000001000000",
        "00000000-0000-0000-0000-000100000000",
        "00000000-0000-0000-0000-010000000000",
        "FFFFFFFF-FFFF-FFFF-FFFF-010000000000",
        "00000000-0000-0000-0000-020000000000",
        "00000000-0000-0000-0000-800000000000",     /* bytes compare unsigned */
        "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"
    };

    (void)state;
    for (size_t i = 1; i < count_of(ascending); i++) {
        rq_guid lower = parsed(ascending[i - 1]), upper = parsed(ascending[i]);
        assert_true(order_of(&lower, &upper) < 0);
        assert_true(order_of(&upper, &lower) > 0);
        assert_true(order_of(&upper, &upper) == 0);
    }
}

static void either_case_is_read_and_upper_written(void **state)
{
    static const char *const texts[] = {
        "6F9619FF-8B86-D011-B42D-00C04FC964FF", "6f9619ff-8b86-d011-b42d-00c04fc964ff",
        "6f9619FF-8B86-d011-B42d-00c04Fc964fF"
    };

    (void)state;
    for (size_t i = 0; i < count_of(texts); i++) {
        rq_guid guid = parsed(texts[i]);
        renderq_id id;
        memset(&id, 'x', sizeof id);
        rq_guid_print(&guid, &id);
        assert_string_equal(id.text, "6F9619FF-8B86-D011-B42D-00C04FC964FF");
    }
}

static void anything_else_is_refused(void **state)
{
    static const char *const bad[] = {
        NULL, "", "-", "0",
        "6F9619FF-8B86-D011-B42D-00C04FC964F",      /* short */
        "6F9619FF-8B86-D011-B42D-00C04FC964FF0",    /* long */
        "6F9619FF-8B86-D011-B42D-00C04FC964FF ",
        " 6F9619FF-8B86-D011-B42D-00C04FC964FF",
        "{6F9619FF-8B86-D011-B42D-00C04FC964FF}",
        "6F9619FF8B86D011B42D00C04FC964FF",
        "6F9619FF08B860D0110B42D000C04FC964FF",     /* digits for the dashes */
        "6F9619FF-8B86-D011-B42D-00C04FC964-F",
        "6F9619F-F8B86-D011-B42D-00C04FC964FF",
        "6F9619FF-8B86-D011-B42D-00C04FC964FG",
        "6F9619FF-8B86-D011-B42D-00C04FC964 F",
        "0x9619FF-8B86-D011-B42D-00C04FC964FF",
        "+F9619FF-8B86-D011-B42D-00C04FC964FF",
        "6F9619FF_8B86_D011_B42D_00C04FC964FF",
        "6F9619FF-8B86-D011-B42D-00C04FC964\xC3\xA9",
        "6F9619FF-8B86-D011-B42D-00C04FC964\xFF\xFF"
    };

    (void)state;
    for (size_t i = 0; i < count_of(bad); i++) {
        rq_guid guid, before;
        memset(&guid, 0x5A, sizeof guid);
        before = guid;
        assert_false(rq_guid_parse(bad[i], &guid));
        assert_memory_equal(&guid, &before, sizeof guid);
    }
}

static void what_is_printed_reads_back(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        rq_guid guid, back;
        renderq_id id;
        assert_true(rq_guid_random(&guid));
        rq_guid_print(&guid, &id);
        back = parsed(id.text);
        assert_memory_equal(&guid, &back, sizeof guid);
    }
}

static void random_is_version_4(void **state)
{
    rq_guid all_or = { { 0 } }, all_and, guid;

    (void)state;
    memset(&all_and, 0xFF, sizeof all_and);
    for (unsigned i = 0; i < 1000; i++) {
        assert_true(rq_guid_random(&guid));
        assert_form(&guid, '4');
        for (size_t b = 0; b < sizeof guid.sort; b++) {
            all_or.sort[b] |= guid.sort[b];
            all_and.sort[b] &= guid.sort[b];
        }
    }
    for (size_t b = 0; b < sizeof guid.sort; b++) {     /* every other bit is seen both set and clear */
        unsigned fixed = b == 6 ? 0xC0 : b == 9 ? 0xF0 : 0;
        assert_int_equal(all_or.sort[b] | fixed, 0xFF);
        assert_int_equal(all_and.sort[b] & ~fixed, 0);
    }
    assert_int_equal(kernel.calls, 1000);               /* fresh bits for each */
}

static void signals_are_waited_out(void **state)
{
    rq_guid_order order = { 0, 0 };
    rq_guid guid;

    (void)state;
    kernel.interrupted = 3;
    assert_true(rq_guid_random(&guid));
    assert_int_equal(kernel.calls, 4);
    kernel.interrupted = 1;
    assert_true(rq_guid_ordered(&order, 1, &guid, 1));
    assert_int_equal(kernel.calls, 6);
}

static void no_random_bytes_no_guid(void **state)
{
    rq_guid_order order = { 77, 5 };
    rq_guid guid, before;

    (void)state;
    memset(&guid, 0x5A, sizeof guid);
    before = guid;
    kernel.broken = 2;
    assert_false(rq_guid_random(&guid));
    assert_memory_equal(&guid, &before, sizeof guid);
    assert_false(rq_guid_ordered(&order, 78, &guid, 1));
    assert_int_equal(order.ms, 77);
    assert_int_equal(order.seq, 5);
}

static void random_bytes_may_come_in_pieces(void **state)
{
    rq_guid_order order = { 77, 5 };
    rq_guid guid;

    (void)state;
    kernel.truncated = 1;
    assert_true(rq_guid_random(&guid));
    assert_int_equal(kernel.calls, 2);
    kernel.truncated = 1;
    assert_true(rq_guid_ordered(&order, 78, &guid, 1));
    assert_int_equal(kernel.calls, 4);
}

static void many_ids_ascend_and_cost_one_call(void **state)
{
    enum { N = 16 };
    rq_guid_order order = { 0, 0 };
    rq_guid ids[N];

    (void)state;
    assert_true(rq_guid_ordered(&order, 1000, ids, N));
    assert_int_equal(kernel.calls, 1);
    for (size_t i = 1; i < N; i++)
        assert_true(memcmp(ids[i - 1].sort, ids[i].sort, sizeof ids[i].sort) < 0);
}

static void ordered_begins_with_the_time(void **state)
{
    rq_guid_order order = { 0, 0 };
    rq_guid guid;
    renderq_id id;

    (void)state;
    assert_true(rq_guid_ordered(&order, UINT64_C(0x0190ABCDEF12), &guid, 1));
    assert_form(&guid, '8');
    rq_guid_print(&guid, &id);
    assert_string_equal(id.text + 19, "8000-0190ABCDEF12");     /* the sequence starts at 0 */

    assert_true(rq_guid_ordered(&order, UINT64_C(0x0190ABCDEF12), &guid, 1));
    rq_guid_print(&guid, &id);
    assert_string_equal(id.text + 19, "8001-0190ABCDEF12");

    order.seq = 0x3FFE;
    assert_true(rq_guid_ordered(&order, UINT64_C(0x0190ABCDEF12), &guid, 1));
    rq_guid_print(&guid, &id);
    assert_string_equal(id.text + 19, "BFFF-0190ABCDEF12");
    assert_form(&guid, '8');

    assert_true(rq_guid_ordered(&order, UINT64_C(0x0190ABCDEF14), &guid, 1));
    rq_guid_print(&guid, &id);
    assert_string_equal(id.text + 19, "8000-0190ABCDEF14");
    assert_int_equal(kernel.calls, 4);
}

static void handles_in_one_millisecond_differ(void **state)
{
    rq_guid_order one = { 0, 0 }, other = { 0, 0 };
    rq_guid a, b;

    (void)state;
    assert_true(rq_guid_ordered(&one, 1000, &a, 1));
    assert_true(rq_guid_ordered(&other, 1000, &b, 1));
    assert_memory_equal(a.sort, b.sort, 8);
    assert_memory_not_equal(a.sort + 8, b.sort + 8, 8);
}

/* Takes n ids at each of the times, in turn; each must be above the one before. */
static uint64_t take_ascending(const uint64_t *clock, size_t n_times, unsigned n)
{
    rq_guid_order order = { 0, 0 };
    rq_guid last = { { 0 } }, guid;

    for (size_t t = 0; t < n_times; t++)
        for (unsigned i = 0; i < n; i++) {
            assert_true(rq_guid_ordered(&order, clock[t], &guid, 1));
            assert_true(order_of(&last, &guid) < 0);
            assert_form(&guid, '8');
            last = guid;
        }
    return ms_of(&last);
}

static void a_full_millisecond_borrows_the_next(void **state)
{
    const uint64_t still[] = { 5000 };
    const uint64_t then_on[] = { 5000, 5001, 5002, 5010 };

    (void)state;
    assert_int_equal(take_ascending(still, 1, PER_MS), 5000);
    assert_int_equal(take_ascending(still, 1, PER_MS + 1), 5001);
    assert_int_equal(take_ascending(still, 1, 2 * PER_MS + 1), 5002);
    assert_int_equal(take_ascending(then_on, 4, PER_MS + 100), 5011);
}

static void a_clock_that_steps_back_is_waited_for(void **state)
{
    const uint64_t steps[] = { 9000, 8000, 0, 8999, 9000, 9001, 3, 9002 };

    (void)state;
    assert_int_equal(take_ascending(steps, count_of(steps), 100), 9002);
    assert_int_equal(take_ascending(steps, count_of(steps), PER_MS), 9007);       /* 9000 to 9007, each full */
}

static void a_clock_at_zero_works(void **state)
{
    const uint64_t zero[] = { 0 };

    (void)state;
    assert_int_equal(take_ascending(zero, 1, 10), 0);
}

static void the_end_of_time_is_an_error(void **state)
{
    rq_guid_order order = { 0, 0 };
    rq_guid guid, last = { { 0 } };

    (void)state;
    for (unsigned i = 0; i < PER_MS; i++) {
        assert_true(rq_guid_ordered(&order, i % 2 ? UINT64_MAX : MS_MAX, &guid, 1));
        assert_int_equal(ms_of(&guid), MS_MAX);
        assert_true(order_of(&last, &guid) < 0);
        last = guid;
    }
    assert_false(rq_guid_ordered(&order, UINT64_MAX, &guid, 1));
    assert_false(rq_guid_ordered(&order, 1, &guid, 1));
    assert_int_equal(order.ms, MS_MAX);
    assert_int_equal(order.seq, PER_MS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_lie_in_sql_servers_order),
        cmocka_unit_test(memcmp_is_order_by),
        cmocka_unit_test(either_case_is_read_and_upper_written),
        cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(what_is_printed_reads_back),
        cmocka_unit_test_setup(random_is_version_4, reset_kernel),
        cmocka_unit_test_setup(signals_are_waited_out, reset_kernel),
        cmocka_unit_test_setup(no_random_bytes_no_guid, reset_kernel),
        cmocka_unit_test_setup(random_bytes_may_come_in_pieces, reset_kernel),
        cmocka_unit_test_setup(many_ids_ascend_and_cost_one_call, reset_kernel),
        cmocka_unit_test_setup(ordered_begins_with_the_time, reset_kernel),
        cmocka_unit_test_setup(handles_in_one_millisecond_differ, reset_kernel),
        cmocka_unit_test(a_full_millisecond_borrows_the_next),
        cmocka_unit_test(a_clock_that_steps_back_is_waited_for),
        cmocka_unit_test(a_clock_at_zero_works),
        cmocka_unit_test(the_end_of_time_is_an_error)
    };

    return cmocka_run_group_tests_name("guid", tests, NULL, NULL);
}
