/*
 * libFuzzer over the API: any bytes become a call, valid or not. The functions must not crash, must agree
 * about whether it is valid, and every backend must return the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outputs.h"
#include "run.h"
#include "source.h"

typedef struct input {
    const uint8_t *at;
    size_t left;
} input;

/* The next n bytes as a little-endian number; zeros where there are none. */
static uint64_t take(input *in, int n)
{
    uint64_t value = 0;
    for (int i = 0; i < n && in->left; i++, in->at++, in->left--) value |= (uint64_t)*in->at << 8 * i;
    return value;
}

static int32_t take_i32(input *in)
{
    return (int32_t)take(in, 4);
}

static float take_float(input *in)
{
    uint32_t bits = (uint32_t)take(in, 4);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static tombola_context *contexts[4]; /* by instruction set; 0: for the reference */

/* Every number of a call as it comes, pointers harmless: nothing is run, and nothing may crash. */
static void check_wild(input *in)
{
    static float data[8];
    tombola_step steps[TOMBOLA_MAX_STEPS] = {{0}};
    tombola_error error;
    char text[64];
    size_t size;
    tombola_call call = TOMBOLA_CALL_INIT;
    for (int i = 0; i < 3; i++) steps[i] = (tombola_step){.kind = take_i32(in), .k = take_i32(in)};
    call.data = data;
    call.steps = steps;
    call.kind = take_i32(in), call.dtype = take_i32(in);
    call.rows = (int64_t)take(in, 8), call.vocab_size = (int64_t)take(in, 8);
    call.row_stride = (int64_t)take(in, 8), call.source_rows = (int64_t)take(in, 8);
    call.data_size = (int64_t)take(in, 8), call.slot_count = (int64_t)take(in, 8);
    call.step_count = take_i32(in), call.ties = take_i32(in), call.method = take_i32(in),
    call.draws = take_i32(in);
    call.kept_capacity = (int64_t)take(in, 8), call.top_count = take_i32(in), call.given_count = take_i32(in);
    call.probabilities_stride = (int64_t)take(in, 8), call.masked_stride = (int64_t)take(in, 8);
    call.backend = take_i32(in), call.threads = take_i32(in);
    tombola_result sized = tombola_workspace_size(contexts[1], &call, &size, &error);
    if (tombola_plan(contexts[1], &call, text, sizeof text, &error) != sized) abort();
    call.workspace_size = 0;
    if (call.rows && tombola_run(contexts[1], &call, &error) == TOMBOLA_OK)
        abort(); /* there is no workspace */
}

static void make_steps(tombola_call *call, tombola_step *steps, input *in)
{
    call->steps = steps;
    call->step_count = (int32_t)(take(in, 1) % 6);
    for (int i = 0; i < call->step_count; i++) {
        steps[i].kind = (int32_t)(take(in, 1) % 7);
        steps[i].k = take(in, 1) & 1 ? take_i32(in) : (int32_t)take(in, 1);
        steps[i].value = take(in, 1) & 1 ? take_float(in) : (float)take(in, 1) / 128.0f;
    }
}

/* One backend's results into `out`; false when it refuses the call. */
static bool run(tombola_call call, int isa, const outputs *out)
{
    tombola_error error;
    outputs_bind(out, &call);
    call.backend = isa ? TOMBOLA_BACKEND_CPU : TOMBOLA_BACKEND_REFERENCE;
    tombola_result result = run_call(contexts[isa], &call, &error);
    if (result == TOMBOLA_ERROR_WORKSPACE) abort();
    return result == TOMBOLA_OK;
}

static void compare(const tombola_call *call)
{
    outputs expected, got;
    char text[256];
    outputs_make(&expected, call, OUT_ALL);
    outputs_make(&got, call, OUT_ALL);
    bool valid = run(*call, 0, &expected);
    for (int isa = 1; isa < 4; isa++) {
        if (!contexts[isa]) continue;
        outputs_refill(&got);
        if (run(*call, isa, &got) == valid && outputs_same(&expected, &got, call, text, sizeof text))
            continue;
        fprintf(stderr, "%s: %s\n", tombola_isa_name((tombola_isa)isa), text);
        abort();
    }
    outputs_free(&expected);
    outputs_free(&got);
}

static void check_call(input *in)
{
    tombola_step steps[6] = {{0}};
    tombola_call call = TOMBOLA_CALL_INIT;
    int32_t given[3 * 2];
    uint64_t random[3 * 4];
    call.kind = (int32_t)take(in, 1) & 1, call.dtype = (int32_t)take(in, 1) % 3;
    call.rows = 1 + (int64_t)take(in, 1) % 3;
    call.vocab_size = 1 + (int64_t)take(in, 2) % 700;
    call.ties = (int32_t)take(in, 1) & 1, call.method = (int32_t)take(in, 1) % 3;
    call.draws = 1 + (int32_t)take(in, 1) % 4;
    make_steps(&call, steps, in);
    call.seed = take(in, 8), call.offset = take(in, 1);
    for (int i = 0; i < 6; i++) given[i] = (int32_t)take(in, 2) - 2;
    call.given_ids = given, call.given_count = 2;
    if (take(in, 1) & 1) {
        for (int i = 0; i < 12; i++) random[i] = take(in, 8);
        call.random = random;
    }
    call.kept_capacity = (int64_t)take(in, 1), call.top_count = (int32_t)take(in, 1),
    call.top_raw = (int32_t)take(in, 1) & 1;
    source rows;
    source_make(&rows, call.dtype, call.rows, call.vocab_size + 1, take(in, 1) % 8);
    call.data = rows.data;
    call.row_stride = call.vocab_size + 1;
    /* the rest of the input, over and over */
    size_t bytes = rows.element * (size_t)call.vocab_size;
    for (int64_t r = 0; r < call.rows; r++)
        for (size_t i = 0; i < bytes; i++)
            ((uint8_t *)rows.data)[(size_t)(r * call.row_stride) * rows.element + i] =
                in->left ? in->at[((size_t)r + i) % in->left] : 0;
    compare(&call);
    source_free(&rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    if (!contexts[0]) {
        contexts[0] = open_context(TOMBOLA_ISA_PORTABLE, 1);
        for (int isa = 1; isa < 4; isa++) contexts[isa] = open_context((tombola_isa)isa, 1);
    }
    if (take(&in, 1) % 8 == 0)
        check_wild(&in);
    else
        check_call(&in);
    return 0;
}
