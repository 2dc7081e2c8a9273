/*
 * What every kernel receives: the validated call, by value, with its steps. Read by C and by CUDA C.
 */
#ifndef TB_CUDA_PARAMS_H
#define TB_CUDA_PARAMS_H

#include <stdint.h>

#include <tombola.h>

#include "../law/base.h"

typedef struct tb_cuda_params {
    tombola_call call;                     /* pointers are device memory; call.steps means nothing here */
    tombola_step steps[TOMBOLA_MAX_STEPS]; /* [call.step_count]; their per-slot arrays are device memory */
    void *workspace;                       /* aligned to 256 bytes; what for, says plan.c */
} tb_cuda_params;

/* Vectors of 16 bytes that the elements of a row lie in, at most: one more than they fill where rows need not
 * begin at a vector. */
LAW_FN uint32_t tb_row_vectors(const tombola_call *call)
{
    const uint32_t bytes = call->dtype == TOMBOLA_F32 ? 4 : 2, width = 16 / bytes;
    const bool aligned =
        (((uintptr_t)call->data | (uint64_t)call->row_stride * bytes) & 15) == 0 && !call->row_start;
    return ((uint32_t)call->vocab_size + width - 1) / width + (aligned ? 0u : 1u);
}

#endif
