/*
 * Rows that are bad on their own (header: "One bad row never changes another"): what is written for them, and
 * that their neighbours are as if they were not there.
 */
#include "isa_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "outputs.h"

#define ROWS 4
#define VOCAB_SIZE 6
#define BAD 2 /* the row that is made bad */

static tombola_isa isa;
static tombola_context *context;
static float data[ROWS * VOCAB_SIZE];
static int32_t index_[ROWS] = {0, 1, 2, 3}, slots[ROWS] = {0, 1, 2, 3}, lengths[ROWS], given[ROWS * 2];
static int64_t starts[ROWS];
static float values[ROWS];
static tombola_step step;
static tombola_call good;

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < ROWS * VOCAB_SIZE; i++) data[i] = (float)(i * 11 % 13) * 0.3f;
    for (int i = 0; i < ROWS; i++) {
        lengths[i] = VOCAB_SIZE;
        starts[i] = (int64_t)i * VOCAB_SIZE;
        values[i] = 0.9f;
        index_[i] = slots[i] = i;
    }
    for (int i = 0; i < ROWS * 2; i++) given[i] = i % VOCAB_SIZE;
    step = (tombola_step){.kind = TOMBOLA_TOP_P, .value_per_slot = values};
    good = (tombola_call)TOMBOLA_CALL_INIT;
    good.data = data;
    good.rows = ROWS;
    good.vocab_size = VOCAB_SIZE;
    good.steps = &step;
    good.step_count = 1;
    good.draws = 2;
    good.kept_capacity = 3;
    good.top_count = 2;
    good.given_ids = given;
    good.given_count = 2;
    good.seed = 4;
    return 0;
}

/* Every value that the header and the law give for a row without a token. `written`: elements of it in
 * probabilities and masked_logits. */
static void check_void(const outputs *out, const tombola_call *call, uint32_t status, int64_t written)
{
    for (int i = 0; i < OUT_COUNT; i++) {
        size_t element = output_element(i, call);
        int64_t stride = output_stride(i, call), width = output_width(i, call);
        for (int64_t j = 0; j < width; j++) {
            uint64_t got = 0, expected = 0;
            memcpy(&got, out->memory + out->place[i] + element * (size_t)(BAD * stride + j), element);
            switch (i) {
            case OUT_STATUS: expected = status; break;
            case OUT_TOKENS:
            case OUT_KEPT_IDS:
            case OUT_TOP_IDS: expected = 0xffffffff; break;
            case OUT_LOGPROBS:
            case OUT_RAW_LOGPROBS:
            case OUT_TOP_LOGPROBS:
            case OUT_GIVEN_LOGPROBS:
            case OUT_GIVEN_RAW_LOGPROBS:
            case OUT_ENTROPY: expected = 0x7fc00000; break;
            case OUT_MASKED: expected = j < written ? 0xff800000 : 0xa5a5a5a5; break;
            case OUT_PROBABILITIES: expected = j < written ? 0 : 0xa5a5a5a5; break;
            default: expected = 0;
            }
            if (got != expected)
                fail_msg("%s[%d]: %llx, expected %llx", output_name(i), (int)j, (unsigned long long)got,
                         (unsigned long long)expected);
        }
    }
}

/* Runs the good call and the bad one on every backend. */
static void check_bad(const tombola_call *bad, uint32_t status, int64_t written)
{
    SKIP_WITHOUT(context, isa);
    for (int backend = TOMBOLA_BACKEND_CPU; backend <= TOMBOLA_BACKEND_REFERENCE; backend += 2) {
        outputs expected, got;
        char text[512];
        tombola_error error;
        tombola_call call = good;
        call.backend = backend;
        outputs_make(&expected, &call, OUT_ALL);
        outputs_bind(&expected, &call);
        if (run_call(context, &call, &error)) fail_msg("%s", error.message);
        call = *bad;
        call.backend = backend;
        outputs_make(&got, &call, OUT_ALL);
        outputs_bind(&got, &call);
        if (run_call(context, &call, &error)) fail_msg("%s", error.message);
        for (int64_t i = 0; i < ROWS; i++)
            if (i != BAD && !outputs_row_same(&expected, i, &got, i, &call, text, sizeof text))
                fail_msg("row %d, beside the bad one: %s", (int)i, text);
        check_void(&got, &call, status, written);
        outputs_free(&expected);
        outputs_free(&got);
    }
}

static void row_index(void **state)
{
    set_up(state);
    static const int32_t WRONG[] = {-1, ROWS, INT32_MIN, INT32_MAX};
    tombola_call call = good;
    call.row_index = index_;
    for (int i = 0; i < 4; i++) {
        index_[BAD] = WRONG[i];
        check_bad(&call, TOMBOLA_ROW_BAD_PARAM, VOCAB_SIZE);
    }
}

static void slot_index(void **state)
{
    set_up(state);
    static const int32_t WRONG[] = {-1, ROWS, INT32_MIN, INT32_MAX};
    tombola_call call = good;
    call.slot_index = slots;
    for (int i = 0; i < 4; i++) {
        slots[BAD] = WRONG[i];
        check_bad(&call, TOMBOLA_ROW_BAD_PARAM, VOCAB_SIZE);
    }
}

static void row_start(void **state)
{
    set_up(state);
    static const int64_t WRONG[] = {-1, ROWS * VOCAB_SIZE - VOCAB_SIZE + 1, ROWS * VOCAB_SIZE + 1, INT64_MIN,
                                    INT64_MAX};
    tombola_call call = good;
    call.row_start = starts;
    call.data_size = ROWS * VOCAB_SIZE;
    for (int i = 0; i < 5; i++) {
        starts[BAD] = WRONG[i];
        check_bad(&call, TOMBOLA_ROW_BAD_PARAM, VOCAB_SIZE);
    }
}

static void row_length(void **state)
{
    set_up(state);
    static const int32_t WRONG[] = {-1, VOCAB_SIZE + 1, INT32_MIN, INT32_MAX};
    tombola_call call = good;
    call.row_length = lengths;
    for (int i = 0; i < 4; i++) {
        lengths[BAD] = WRONG[i];
        check_bad(&call, TOMBOLA_ROW_BAD_PARAM, 0); /* its length is not known */
    }
    lengths[BAD] = 0;
    check_bad(&call, TOMBOLA_ROW_EMPTY, 0);
}

static void parameters(void **state)
{
    (void)state;
    static const struct {
        int32_t kind;
        float value;
    } WRONG[] = {
        {TOMBOLA_TOP_P, NAN},
        {TOMBOLA_MIN_P, NAN},
        {TOMBOLA_TOP_K_TOP_P, NAN},
        {TOMBOLA_TEMPERATURE, NAN},
        {TOMBOLA_TEMPERATURE, -1},
        {TOMBOLA_TEMPERATURE, -INFINITY},
        {TOMBOLA_TEMPERATURE, -0x1p-149f},
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        set_up(NULL);
        step.kind = WRONG[i].kind;
        float bad_values[ROWS] = {0.9f, 0.9f, 0.9f, 0.9f};
        tombola_step bad_step = step;
        tombola_call call = good;
        bad_values[BAD] = WRONG[i].value;
        bad_step.value_per_slot = bad_values;
        call.steps = &bad_step;
        check_bad(&call, TOMBOLA_ROW_BAD_PARAM, VOCAB_SIZE);
    }
}

static void empty_rows(void **state)
{
    (void)state;
    static const struct {
        float value;
        uint32_t status;
    } FILL[] = {{-INFINITY, TOMBOLA_ROW_EMPTY}, {NAN, TOMBOLA_ROW_EMPTY | TOMBOLA_ROW_NAN}};
    for (int i = 0; i < 2; i++) {
        float other[ROWS * VOCAB_SIZE];
        set_up(NULL);
        memcpy(other, data, sizeof other);
        for (int j = 0; j < VOCAB_SIZE; j++) other[BAD * VOCAB_SIZE + j] = FILL[i].value;
        tombola_call call = good;
        call.data = other;
        check_bad(&call, FILL[i].status, VOCAB_SIZE);
    }
}

/* A token of weight 0 counts and can be kept, but is never drawn, not even by the greatest random number. */
static void weightless(void **state)
{
    (void)state;
    SKIP_WITHOUT(context, isa);
    float row[5] = {-100.0f, 0.0f, -100.0f, 0.0f, -100.0f};
    uint64_t random[4] = {0, UINT64_MAX, (uint64_t)1 << 63, ((uint64_t)1 << 63) - 1};
    int32_t tokens[4], count, expected[4] = {1, 3, 3, 1};
    tombola_error error;
    tombola_call call = TOMBOLA_CALL_INIT;
    call.data = row;
    call.rows = 1;
    call.vocab_size = 5;
    call.random = random;
    call.draws = 4;
    call.tokens = tokens;
    call.kept_count = &count;
    call.backend = TOMBOLA_BACKEND_CPU;
    assert_int_equal(run_call(context, &call, &error), TOMBOLA_OK);
    assert_int_equal(count, 5);
    assert_memory_equal(tokens, expected, sizeof tokens);
}

int main(int argc, char **argv)
{
    isa = ISA_ARGUMENT(argc, argv);
    context = open_context(isa, 2);
    const struct CMUnitTest tests[] = {cmocka_unit_test(row_index),  cmocka_unit_test(slot_index),
                                       cmocka_unit_test(row_start),  cmocka_unit_test(row_length),
                                       cmocka_unit_test(parameters), cmocka_unit_test(empty_rows),
                                       cmocka_unit_test(weightless)};
    int failed = cmocka_run_group_tests_name("rows", tests, NULL, NULL);
    tombola_context_destroy(context);
    return failed;
}
