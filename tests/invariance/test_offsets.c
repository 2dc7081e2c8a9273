/*
 * advance_offsets: after the draws, each slot that a row of the call names is raised by one, once.
 */
#include "isa_test.h"

#include <stdlib.h>
#include <string.h>

#include "outputs.h"

#define ROWS 6
#define SLOTS 5
#define VOCAB_SIZE 97

static tombola_isa isa;
static tombola_context *context;
static float data[ROWS * VOCAB_SIZE];
static const uint64_t START[SLOTS] = {0, 41, UINT64_MAX, UINT64_MAX >> 32, 7};

static tombola_call make_call(int32_t *tokens, uint64_t *offsets, const int32_t *slots)
{
    tombola_call call = TOMBOLA_CALL_INIT;
    for (int i = 0; i < ROWS * VOCAB_SIZE; i++) data[i] = (float)(i * 37 % 101) * 0.02f;
    call.data = data;
    call.rows = ROWS;
    call.vocab_size = VOCAB_SIZE;
    call.slot_count = SLOTS;
    call.slot_index = slots;
    call.seed = 3;
    call.offsets = offsets;
    call.draws = 2;
    call.tokens = tokens;
    call.backend = TOMBOLA_BACKEND_CPU;
    call.threads = 2;
    return call;
}

static void run(tombola_call *call)
{
    tombola_error error;
    if (run_call(context, call, &error)) fail_msg("%s", error.message);
}

static void check_advance(tombola_backend backend)
{
    SKIP_WITHOUT(context, isa);
    const int32_t slots[ROWS] = {1, 3, -1, 1, SLOTS, 4}; /* 1 twice; two that are out of range */
    uint64_t offsets[SLOTS], expected[SLOTS];
    int32_t tokens[2 * ROWS], again[2 * ROWS];
    memcpy(offsets, START, sizeof offsets);
    memcpy(expected, START, sizeof expected);
    tombola_call call = make_call(tokens, offsets, slots);
    call.backend = backend;
    run(&call);
    assert_memory_equal(offsets, START, sizeof offsets); /* not asked for */

    call.advance_offsets = 1;
    call.tokens = again;
    run(&call);
    assert_memory_equal(tokens, again, sizeof tokens); /* drawn with the offsets as they were */
    expected[1]++, expected[3]++, expected[4]++;
    assert_memory_equal(offsets, expected, sizeof offsets);

    /* the next call draws what scalar offsets would */
    run(&call);
    expected[1]++, expected[3]++, expected[4]++;
    assert_memory_equal(offsets, expected, sizeof offsets);
    call.offsets = NULL;
    call.advance_offsets = 0;
    call.offset = START[3] + 1;
    call.tokens = tokens;
    run(&call);
    assert_memory_equal(tokens + 2, again + 2, 2 * sizeof *tokens);
}

static void cpu(void **state)
{
    (void)state;
    check_advance(TOMBOLA_BACKEND_CPU);
}

static void reference(void **state)
{
    (void)state;
    check_advance(TOMBOLA_BACKEND_REFERENCE);
}

/* From 2^64 - 1 to 0; and without slot_index, row r has slot r, or slot 0 where there is only one. */
static void ends(void **state)
{
    (void)state;
    SKIP_WITHOUT(context, isa);
    uint64_t offsets[ROWS] = {UINT64_MAX, 1, 2, 3, 4, 5};
    const uint64_t expected[ROWS] = {0, 2, 3, 4, 5, 6};
    int32_t tokens[2 * ROWS];
    tombola_call call = make_call(tokens, offsets, NULL);
    call.slot_count = 0;
    call.advance_offsets = 1;
    run(&call);
    assert_memory_equal(offsets, expected, sizeof offsets);
    call.slot_count = 1;
    run(&call);
    assert_int_equal(offsets[0], 1);
    assert_memory_equal(offsets + 1, expected + 1, sizeof offsets - sizeof *offsets);
    /* a row with nothing to draw counts too: its slot is named */
    for (int i = 0; i < VOCAB_SIZE; i++) data[i] = -__builtin_inff();
    call.rows = 1;
    run(&call);
    assert_int_equal(offsets[0], 2);
    assert_int_equal(tokens[0], -1);
}

int main(int argc, char **argv)
{
    isa = ISA_ARGUMENT(argc, argv);
    context = open_context(isa, 2);
    const struct CMUnitTest tests[] = {cmocka_unit_test(cpu), cmocka_unit_test(reference),
                                       cmocka_unit_test(ends)};
    int failed = cmocka_run_group_tests_name("offsets", tests, NULL, NULL);
    tombola_context_destroy(context);
    return failed;
}
