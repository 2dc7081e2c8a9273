/* Calls for the tests of the launch plan, and the device that its choices were measured on. */
#ifndef TEST_GPU_PLAN_CALLS_H
#define TEST_GPU_PLAN_CALLS_H

#include <stdint.h>

#include "cuda/plan.h"

static const tb_cuda_device h200 = {9, 0, 132, 232448, 2, 60 << 20};

static int32_t int_output[1];
static float float_output[1];
static uint64_t long_output[1];

static tombola_call call_of(int64_t rows, int64_t vocab_size, int dtype, const tombola_step *steps, int count)
{
    tombola_call call = TOMBOLA_CALL_INIT;
    call.rows = call.source_rows = call.slot_count = rows;
    call.vocab_size = call.row_stride = vocab_size;
    call.dtype = dtype;
    call.steps = steps;
    call.step_count = count;
    call.draws = 1;
    call.tokens = int_output;
    return call;
}

static const char *picked(const tombola_call *call)
{
    return tb_cuda_choose(&h200, call, NULL).launch[0].kernel;
}

#endif
