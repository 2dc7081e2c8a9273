/*
 * Every field of a call wrong, one at a time: the result and the argument's name, and nothing written. What
 * looks odd but is allowed is allowed.
 */
#include "isa_test.h"

#include <stdlib.h>
#include <string.h>

#include "outputs.h"

#define ROWS 2
#define VOCAB_SIZE 8

static tombola_context *context;
static float data[ROWS * VOCAB_SIZE + 8];
static tombola_step steps[3];
static uint64_t numbers[16];
static int32_t ids[16];
static tombola_call good; /* without outputs */

static int set_up(void **state)
{
    (void)state;
    context = open_context(TOMBOLA_ISA_PORTABLE, 2);
    for (int i = 0; i < ROWS * VOCAB_SIZE; i++) data[i] = (float)(i * 5 % 7);
    steps[0] = (tombola_step){.kind = TOMBOLA_TEMPERATURE, .value = 0.8f};
    steps[1] = (tombola_step){.kind = TOMBOLA_TOP_K, .k = 3};
    steps[2] = (tombola_step){.kind = TOMBOLA_TOP_P, .value = 0.9f};
    good = (tombola_call)TOMBOLA_CALL_INIT;
    good.data = data;
    good.rows = ROWS;
    good.vocab_size = VOCAB_SIZE;
    good.steps = steps;
    good.step_count = 3;
    good.kept_capacity = 4;
    good.top_count = 2;
    good.given_ids = ids;
    good.given_count = 2;
    good.backend = TOMBOLA_BACKEND_CPU;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tombola_context_destroy(context);
    return 0;
}

/* All three functions that take a call agree, and nothing is written. */
static void expect_full(const tombola_call *bad, tombola_result result, const char *argument)
{
    outputs out, untouched;
    char workspace[4096], text[256];
    tombola_error error = {0};
    size_t size = 12345;
    outputs_make(&out, &good, OUT_ALL);
    outputs_make(&untouched, &good, OUT_ALL);
    tombola_call call = *bad;
    if (!bad->masked_logits) outputs_bind(&out, &call);
    call.workspace = workspace;
    call.workspace_size = sizeof workspace;
    assert_int_equal(tombola_workspace_size(context, &call, &size, &error), result);
    assert_int_equal(size, 12345);
    assert_int_equal(error.result, result);
    assert_string_equal(error.argument, argument);
    assert_true(strlen(error.message) > 10);
    memset(&error, 0, sizeof error);
    assert_int_equal(tombola_run(context, &call, &error), result);
    assert_int_equal(error.result, result);
    assert_string_equal(error.argument, argument);
    assert_int_equal(tombola_plan(context, &call, text, sizeof text, NULL), result);
    assert_int_equal(tombola_run(context, &call, NULL), result);
    assert_memory_equal(out.memory, untouched.memory, out.bytes);
    outputs_free(&out);
    outputs_free(&untouched);
}

/* WRONG(field, value): `good` with one field changed is refused, and the field is named. */
#define WRONG_AS(field, value, result, argument)                                                             \
    do {                                                                                                     \
        tombola_call call = good;                                                                            \
        call.field = (value);                                                                                \
        print_message("  %s = %s\n", #field, #value);                                                        \
        expect_full(&call, result, argument);                                                                \
    } while (0)
#define WRONG(field, value) WRONG_AS(field, value, TOMBOLA_ERROR_INVALID_ARGUMENT, #field)

static void run_good(tombola_call call)
{
    outputs out;
    tombola_error error;
    outputs_make(&out, &call, OUT_ALL);
    outputs_bind(&out, &call);
    if (run_call(context, &call, &error)) fail_msg("%s: %s", error.argument, error.message);
    assert_int_equal(error.result, TOMBOLA_OK);
    assert_string_equal(error.argument, "");
    assert_string_equal(error.message, "");
    outputs_free(&out);
}

#define RIGHT(field, value)                                                                                  \
    do {                                                                                                     \
        tombola_call call = good;                                                                            \
        call.field = (value);                                                                                \
        run_good(call);                                                                                      \
    } while (0)

static void source(void **state)
{
    (void)state;
    WRONG(kind, -1);
    WRONG(kind, 2);
    WRONG(dtype, -1);
    WRONG(dtype, 3);
    WRONG(rows, -1);
    WRONG(rows, (int64_t)INT32_MAX + 1);
    WRONG(vocab_size, 0);
    WRONG(vocab_size, -5);
    WRONG(vocab_size, TOMBOLA_MAX_VOCAB_SIZE + 1);
    WRONG(row_stride, -1);
    WRONG(row_stride, VOCAB_SIZE - 1);
    WRONG(source_rows, -1);
    WRONG(source_rows, 1);
    WRONG(source_rows, (int64_t)INT32_MAX + 1);
    WRONG(data_size, -1);
    WRONG(data_size, ROWS * VOCAB_SIZE - 1);
    WRONG(slot_count, -1);
    WRONG(slot_count, INT64_MIN);
    WRONG(adjust, (const struct tombola_adjust *)data);
    WRONG(data, NULL);
    WRONG(data, (const char *)data + 2);
    RIGHT(row_stride, VOCAB_SIZE);
    RIGHT(source_rows, ROWS);
    RIGHT(data_size, ROWS * VOCAB_SIZE);
    RIGHT(slot_count, 1);
    RIGHT(slot_count, 100);
    tombola_call call = good;
    call.rows = 3;
    call.slot_count = 2; /* fewer slots than rows, and no slot_index */
    expect_full(&call, TOMBOLA_ERROR_INVALID_ARGUMENT, "slot_count");
    call = good;
    call.dtype = TOMBOLA_BF16;
    call.data = (const char *)data + 1;
    expect_full(&call, TOMBOLA_ERROR_INVALID_ARGUMENT, "data");
    call.data = (const char *)data + 2; /* aligned to its elements */
    run_good(call);
    call = good;
    call.row_index = ids;
    call.source_rows = 1; /* fewer source rows than rows, all named */
    run_good(call);
}

/* Sizes whose product or sum leaves 64 bits are refused, not wrapped. */
static void huge(void **state)
{
    (void)state;
    tombola_call call = good;
    call.row_stride = INT64_MAX;
    call.data_size = 100;
    tombola_result result = tombola_run(context, &call, NULL);
    assert_int_equal(result, TOMBOLA_ERROR_INVALID_ARGUMENT);
    call.row_stride = INT64_MAX / 2 + 2;
    call.rows = call.source_rows = 3;
    result = tombola_run(context, &call, NULL);
    assert_int_equal(result, TOMBOLA_ERROR_INVALID_ARGUMENT);
}

static void chain(void **state)
{
    (void)state;
    WRONG(step_count, -1);
    WRONG(step_count, TOMBOLA_MAX_STEPS + 1);
    WRONG(steps, NULL);
    WRONG(ties, -1);
    WRONG(ties, 2);
    static const tombola_step NONE[3] = {{0}};
    static const tombola_step UNKNOWN[3] = {{.kind = TOMBOLA_TOP_K}, {.kind = 6}, {.kind = TOMBOLA_TOP_K}};
    static const tombola_step NEGATIVE[3] = {{.kind = -1}, {.kind = TOMBOLA_TOP_K}, {.kind = TOMBOLA_TOP_K}};
    WRONG(steps, NONE);
    WRONG(steps, UNKNOWN);
    WRONG(steps, NEGATIVE);
    WRONG_AS(kind, TOMBOLA_PROBABILITIES, TOMBOLA_ERROR_REFUSED, "steps"); /* a temperature */
    RIGHT(step_count, 0);
    tombola_call call = good;
    call.steps = NULL;
    call.step_count = 0;
    run_good(call);
}

static void draw(void **state)
{
    (void)state;
    WRONG(method, -1);
    WRONG(method, 3);
    WRONG(draws, -1);
    WRONG(draws, TOMBOLA_MAX_DRAWS + 1);
    WRONG(advance_offsets, 1); /* there are none */
    RIGHT(random, numbers);
    RIGHT(draws, TOMBOLA_MAX_DRAWS);
    for (int32_t method = TOMBOLA_REJECTION; method <= TOMBOLA_DUAL_PIVOT; method++) {
        tombola_call call = good;
        call.method = method;
        run_good(call);
        call.random = numbers;
        expect_full(&call, TOMBOLA_ERROR_REFUSED, "random");
        tombola_step last[3] = {steps[1], steps[2], steps[0]};
        call.random = NULL;
        call.steps = last;
        expect_full(&call, TOMBOLA_ERROR_REFUSED, "steps");
        tombola_step off[3] = {{.kind = TOMBOLA_TOP_K}, steps[0], steps[0]}; /* off filters count */
        call.steps = off;
        expect_full(&call, TOMBOLA_ERROR_REFUSED, "steps");
        call.steps = steps; /* temperatures alone, and before the last filter */
        call.step_count = 1;
        run_good(call);
    }
}

static void output_fields(void **state)
{
    (void)state;
    WRONG(kept_capacity, -1);
    WRONG(top_count, -1);
    WRONG(given_count, -1);
    WRONG(given_ids, NULL);
    WRONG(probabilities_stride, VOCAB_SIZE - 1);
    WRONG(probabilities_stride, -1);
    WRONG(masked_stride, VOCAB_SIZE - 1);
    WRONG(masked_stride, -1);
    WRONG(masked_logits, (char *)data + 1);
    RIGHT(kept_capacity, 0);
    RIGHT(top_count, 0);
    RIGHT(given_count, 0);
    RIGHT(top_count, 100);
    tombola_call call = good;
    call.masked_logits = data;
    call.row_index = ids; /* in place, through an index */
    expect_full(&call, TOMBOLA_ERROR_INVALID_ARGUMENT, "masked_logits");
    /* strides of outputs that are not asked for do not matter */
    int32_t tokens[ROWS];
    tombola_error error;
    call = good;
    call.tokens = tokens;
    call.masked_stride = call.probabilities_stride = 1;
    call.given_ids = NULL;
    assert_int_equal(run_call(context, &call, &error), TOMBOLA_OK);
}

static void execution(void **state)
{
    (void)state;
    WRONG(backend, -1);
    WRONG(backend, 4);
    WRONG(threads, -1);
    WRONG_AS(struct_size, 0, TOMBOLA_ERROR_STRUCT_SIZE, "struct_size");
    WRONG_AS(struct_size, sizeof good - 1, TOMBOLA_ERROR_STRUCT_SIZE, "struct_size");
    WRONG_AS(struct_size, sizeof good + 8, TOMBOLA_ERROR_STRUCT_SIZE, "struct_size");
    RIGHT(threads, 1);
    RIGHT(threads, 1000000);
    RIGHT(backend, TOMBOLA_BACKEND_AUTO);
    RIGHT(backend, TOMBOLA_BACKEND_REFERENCE);
    tombola_call call = good;
    call.backend = TOMBOLA_BACKEND_CUDA; /* the context was made without */
    tombola_error error;
    size_t size;
    assert_int_equal(tombola_workspace_size(context, &call, &size, &error), TOMBOLA_ERROR_NO_BACKEND);
    assert_int_equal(tombola_run(context, &call, &error), TOMBOLA_ERROR_NO_BACKEND);
    assert_int_equal(error.result, TOMBOLA_ERROR_NO_BACKEND);
    assert_true(error.message[0] != 0);
}

static void workspace(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        for (int backend = TOMBOLA_BACKEND_CPU; backend <= TOMBOLA_BACKEND_REFERENCE; backend += 2) {
            int32_t tokens[ROWS] = {-7, -7};
            tombola_error error;
            size_t size = 0, again = 0;
            tombola_call call = good;
            call.tokens = tokens;
            call.threads = threads;
            call.backend = backend;
            assert_int_equal(tombola_workspace_size(context, &call, &size, &error), TOMBOLA_OK);
            assert_true(size > 0);
            assert_int_equal(tombola_run(context, &call, &error), TOMBOLA_ERROR_WORKSPACE);
            assert_string_equal(error.argument, "workspace");
            void *block = malloc(size);
            call.workspace = block;
            call.workspace_size = size - 1;
            assert_int_equal(tombola_run(context, &call, &error), TOMBOLA_ERROR_WORKSPACE);
            assert_string_equal(error.argument, "workspace_size");
            assert_int_equal(tokens[0], -7);
            call.workspace_size = size;
            assert_int_equal(tombola_run(context, &call, &error), TOMBOLA_OK);
            assert_true(tokens[0] >= 0 && tokens[1] >= 0);
            /* the same shape with other values, seeds and a workspace already given asks for the same */
            call.seed = 99;
            assert_int_equal(tombola_workspace_size(context, &call, &again, NULL), TOMBOLA_OK);
            assert_int_equal(size, again);
            free(block);
        }
    }
}

/* No rows: nothing is needed and nothing happens. */
static void empty_batch(void **state)
{
    (void)state;
    tombola_error error = {.result = TOMBOLA_ERROR_DRIVER, .argument = "x", .message = "y"};
    tombola_call call = TOMBOLA_CALL_INIT;
    uint64_t offset = 5;
    call.vocab_size = 10;
    call.backend = TOMBOLA_BACKEND_CPU;
    call.offsets = &offset;
    call.advance_offsets = 1;
    assert_int_equal(tombola_run(context, &call, &error), TOMBOLA_OK);
    assert_int_equal(error.result, TOMBOLA_OK);
    assert_int_equal(offset, 5);
    call.rows = -0;
    call.vocab_size = 0; /* still refused */
    assert_int_equal(tombola_run(context, &call, &error), TOMBOLA_ERROR_INVALID_ARGUMENT);
}

static void null_parameters(void **state)
{
    (void)state;
    tombola_error error;
    tombola_call call = good;
    size_t size;
    char text[8];
    assert_int_equal(tombola_run(NULL, &call, &error), TOMBOLA_ERROR_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "context");
    assert_int_equal(tombola_run(context, NULL, &error), TOMBOLA_ERROR_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "call");
    assert_int_equal(tombola_workspace_size(context, &call, NULL, &error), TOMBOLA_ERROR_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "size");
    assert_int_equal(tombola_workspace_size(NULL, &call, &size, &error), TOMBOLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(tombola_plan(context, &call, NULL, 5, &error), TOMBOLA_ERROR_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "text");
    assert_int_equal(tombola_plan(context, &call, text, 0, &error), TOMBOLA_ERROR_INVALID_ARGUMENT);
}

static void nothing_asked(void **state)
{
    (void)state;
    tombola_error error;
    tombola_call call = good;
    assert_int_equal(run_call(context, &call, &error), TOMBOLA_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(source),        cmocka_unit_test(huge),          cmocka_unit_test(chain),
        cmocka_unit_test(draw),          cmocka_unit_test(output_fields), cmocka_unit_test(execution),
        cmocka_unit_test(workspace),     cmocka_unit_test(empty_batch),   cmocka_unit_test(null_parameters),
        cmocka_unit_test(nothing_asked),
    };
    return cmocka_run_group_tests_name("arguments", tests, set_up, tear_down);
}
