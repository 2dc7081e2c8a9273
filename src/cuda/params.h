/*
 * What every kernel receives: the validated call, by value, with its steps. Read by C and by CUDA C.
 */
#ifndef TB_CUDA_PARAMS_H
#define TB_CUDA_PARAMS_H

#include <tombola.h>

typedef struct tb_cuda_params {
    tombola_call call;                     /* pointers are device memory; call.steps means nothing here */
    tombola_step steps[TOMBOLA_MAX_STEPS]; /* [checked_steps]; their per-slot arrays are device memory */
    int32_t checked_steps; /* of these the first call.step_count are applied; a row is bad if one of all is */
    void *workspace;                       /* aligned to 256 bytes; what for, says plan.c */
} tb_cuda_params;

#endif
