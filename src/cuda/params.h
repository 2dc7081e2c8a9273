/*
 * What every kernel receives: the validated call, by value, with its steps. Read by C and by CUDA C.
 */
#ifndef TB_CUDA_PARAMS_H
#define TB_CUDA_PARAMS_H

#include <stdint.h>

#include <tombola.h>

#include "../law/base.h"

/* What of a call a launch serves, in this order: masked logits may be written over the logits. */
typedef enum tb_cuda_part {
    TB_CUDA_WHOLE_CALL,
    TB_CUDA_DRAW,
    TB_CUDA_TOP_SET,      /* few greatest tokens, which the raw log-probabilities' launch puts in order */
    TB_CUDA_TOP,          /* the greatest tokens, in order */
    TB_CUDA_RAW_LOGPROBS, /* of what was drawn, of the greatest tokens, of given ones */
    TB_CUDA_ROWS,         /* probabilities, masked logits */
    TB_CUDA_PARTS
} tb_cuda_part;

#define TB_TOP_SET_MOST 32  /* tokens: one a lane */
#define TB_KEPT_THREADS 256 /* of a block that writes rows of output from a list of kept tokens */
#define TB_LISTED_MOST 64   /* kept tokens that a draw lists for the launch that writes rows of output */

typedef struct tb_cuda_params {
    tombola_call call;                     /* pointers are device memory; call.steps means nothing here */
    tombola_step steps[TOMBOLA_MAX_STEPS]; /* [checked_steps]; their per-slot arrays are device memory */
    int32_t part;                          /* tb_cuda_part, which `call` is */
    int32_t slow_doubles;                  /* the device's take more than two floats' time */
    int32_t checked_steps; /* of these the first call.step_count are applied; a row is bad if one of all is */
    uint32_t sorted;       /* tb_whole_sorted */
    void *workspace;       /* aligned to 256 bytes; what for, says plan.c */
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
