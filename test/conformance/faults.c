/* faults.c: rule 2. Every call, with every fault at each of its requests: what it answers, and that the rows are
 * those of one call, whatever was lost. What others may do meanwhile is in repeat.c and ghost.c. */
#include <stdlib.h>

#include "calls.h"
#include "faulty.h"

static const fault_kind kinds[] = { FAULT_NOT_SENT, FAULT_BEFORE, FAULT_AFTER, FAULT_AFTER_SILENT, FAULT_LATER };

static scene begin(suite *s, const scene_call *call, int retry_s)
{
    scene c = { .s = s };
    s->ops->clear(s->e);
    c.f = faulty_open(s, retry_s);
    call->prepare(&c);
    return c;
}

static void end(scene *c)
{
    faulty_disarm();
    faulty_forget();
    renderq_close(c->f);
    scene_free(c);
}

static void expect_answer(scene *c, const scene_call *call, renderq_status want, renderq_status got,
                          const char *what, int kind, size_t at)
{
    if (got != want)
        print_error("%s: %s, fault %d at request %zu\n", call->name, what, kind, at);
    expect(c->f, want, got);
}

/* How many requests the call makes when nothing is lost; checks the scene itself too. */
static size_t count_requests(suite *s, const scene_call *call)
{
    scene c = begin(s, call, -1);
    char *before = snapshot_all(s);
    faulty_arm(NULL, 0);
    expect_answer(&c, call, RENDERQ_OK, call->act(&c), "no fault", 0, 0);
    size_t n = faulty_runs();
    assert_in_range(n, 1, FAULTS_MAX);
    if (call->rows) {
        call->rows(&c);
        free(before);
    } else {
        expect_all_unchanged(s, before);
    }
    if (call->out)
        call->out(&c, true);
    end(&c);
    return n;
}

/* The library repeats: the call succeeds, and counted once. */
static void repeated(suite *s, const scene_call *call, const fault *faults, size_t n)
{
    scene c = begin(s, call, SUITE_RETRY_S);
    char *before = snapshot_all(s);
    const fault *last = &faults[n - 1];
    faulty_arm(faults, n);
    expect_answer(&c, call, RENDERQ_OK, call->act(&c), "repeated", (int)last->kind, n - 1);
    assert_true(faulty_runs() > n);
    faulty_flush();
    if (call->rows) {
        call->rows(&c);
        free(before);
    } else {
        expect_all_unchanged(s, before);
    }
    if (call->out)
        call->out(&c, last->kind == FAULT_NOT_SENT || last->kind == FAULT_BEFORE);
    end(&c);
}

/* Nothing is repeated: the call says what it knows. */
static void not_repeated(suite *s, const scene_call *call, fault_kind kind, size_t at)
{
    scene c = begin(s, call, -1);
    char *before = snapshot_all(s);
    renderq_status want = kind == FAULT_NOT_SENT ? RENDERQ_DISCONNECTED : RENDERQ_UNCERTAIN;
    bool happened = kind == FAULT_AFTER || kind == FAULT_AFTER_SILENT;
    faulty_arm_one(at, (fault){ .kind = kind });
    expect_answer(&c, call, want, call->act(&c), "not repeated", (int)kind, at);
    assert_int_equal(faulty_runs(), at + 1);
    assert_int_equal(renderq_native_error(c.f), 4711);
    if (!call->rows || at < call->writes_at || (at == call->writes_at && !happened))
        expect_all_unchanged(s, before);
    else
        free(before);
    if (kind == FAULT_LATER)
        faulty_flush();
    if (call->rows && (at > call->writes_at || (at == call->writes_at && (happened || kind == FAULT_LATER))))
        call->rows(&c);
    end(&c);
}

static void every_call_with_every_fault(void **state)
{
    suite *s = *state;
    for (size_t i = 0; i < n_scene_calls; i++) {
        const scene_call *call = &scene_calls[i];
        size_t n = count_requests(s, call);
        for (size_t at = 0; at < n; at++)
            for (size_t k = 0; k < count_of(kinds); k++) {
                fault faults[FAULTS_MAX] = { { .kind = FAULT_NONE } };
                faults[at].kind = kinds[k];
                repeated(s, call, faults, at + 1);
                not_repeated(s, call, kinds[k], at);
            }
    }
}

/* The first request is still on its way when its repeat has been answered. */
static void every_call_with_a_late_ghost(void **state)
{
    suite *s = *state;
    for (size_t i = 0; i < n_scene_calls; i++) {
        const scene_call *call = &scene_calls[i];
        fault faults[2] = { { .kind = FAULT_NONE } };
        faults[call->writes_at] = (fault){ .kind = FAULT_LATER, .later_by = 100 };
        if (call->rows && !call->claims)
            repeated(s, call, faults, call->writes_at + 1);
    }
}

/* The repeat takes a fault too. */
static void a_repeat_with_a_fault_of_its_own(void **state)
{
    suite *s = *state;
    for (size_t i = 0; i < n_scene_calls; i++) {
        const scene_call *call = &scene_calls[i];
        fault faults[3] = { { .kind = FAULT_NONE } };
        faults[call->writes_at].kind = FAULT_AFTER_SILENT;
        faults[call->writes_at + 1].kind = FAULT_AFTER;
        if (call->looks)
            repeated(s, call, faults, call->writes_at + 2);
    }
}

/* What the engine refuses is handed on at once, with its text and number, and nothing has happened; the link may break
 * behind it. */
static void every_call_with_every_refusal(void **state)
{
    suite *s = *state;
    static const renderq_status refusals[] = { RENDERQ_BUSY, RENDERQ_DENIED, RENDERQ_SCHEMA, RENDERQ_INVALID,
                                               RENDERQ_NOMEM, RENDERQ_INTERRUPTED, RENDERQ_FAILED };
    for (size_t i = 0; i < n_scene_calls; i++) {
        const scene_call *call = &scene_calls[i];
        scene c = begin(s, call, SUITE_RETRY_S);
        for (size_t k = 0; k < 2 * count_of(refusals); k++) {
            renderq_status refusal = refusals[k / 2];
            if (call->act == scene_calls[2].act && refusal == RENDERQ_INVALID)
                continue;               /* there INVALID is about an item, and is the caller's */
            char *before = snapshot_all(s);
            faulty_arm_one(0, (fault){ .kind = k % 2 ? FAULT_LAST_ANSWER : FAULT_ANSWER, .status = refusal });
            expect_answer(&c, call, refusal, call->act(&c), "refused", (int)refusal, 0);
            expect_said(c.f, "a fault that the test asked for");
            assert_int_equal(renderq_native_error(c.f), 4711);
            /* A claim whose rows may have come and could not be taken looks whether they were leased all the same. */
            bool unseen = call->claims && (refusal == RENDERQ_NOMEM || refusal == RENDERQ_FAILED);
            assert_int_equal(faulty_runs(), unseen ? 2 : 1);
            expect_all_unchanged(s, before);
        }
        faulty_disarm();
        expect_answer(&c, call, RENDERQ_OK, call->act(&c), "after refusals", 0, 0);
        if (call->rows)
            call->rows(&c);
        end(&c);
    }
}

int run_faults(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(every_call_with_every_fault),
        TEST(every_call_with_a_late_ghost),
        TEST(a_repeat_with_a_fault_of_its_own),
        TEST(every_call_with_every_refusal),
    };
    return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
