/*
 * What every kernel receives: the validated call, by value, with its steps. Read by C and by CUDA C.
 */
#ifndef TB_CUDA_PARAMS_H
#define TB_CUDA_PARAMS_H

#include <tombola.h>

typedef struct tb_cuda_params {
    tombola_call call;                     /* pointers are device memory; call.steps means nothing here */
    tombola_step steps[TOMBOLA_MAX_STEPS]; /* [call.step_count]; their per-slot arrays are device memory */
    void *workspace;                       /* aligned to 256 bytes; what for, says plan.c */
} tb_cuda_params;

#endif
