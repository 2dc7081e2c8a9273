/*
 * The instances of the pipelined kernel for few kept tokens for one dtype, TB_KERNEL_DTYPE with the suffix
 * TB_KERNEL_SUFFIX: tombola_few_pipe_c<blocks of a cluster>_<suffix>. plan_few.c knows these names.
 */
#include "../fast_shapes.h"
#include "few_pipe.cuh"

#define TB_JOIN2(a, b) a##b
#define TB_JOIN(a, b) TB_JOIN2(a, b)
#define TB_FEW_PIPE_KERNEL(name, blocks, bytes)                                                              \
    extern "C" __global__ void __launch_bounds__(tb_few_pipe_shared<TB_KERNEL_DTYPE, blocks>::THREADS, 1)    \
        TB_JOIN(tombola_few_pipe_##name##_, TB_KERNEL_SUFFIX)(const __grid_constant__ tb_cuda_params params) \
    {                                                                                                        \
        tb_run_pipe<tb_few_pipe<TB_KERNEL_DTYPE, blocks>>(params);                                           \
    }                                                                                                        \
    static_assert((sizeof(tb_few_pipe_shared<TB_KERNEL_DTYPE, blocks>) + 127) / 128 * 128 <= bytes,          \
                  "plan_few.c");

TB_FEW_PIPE_KERNEL(c2, 2, TB_FEW_PIPE_C2_BYTES)
TB_FEW_PIPE_KERNEL(c4, 4, TB_FEW_PIPE_C4_BYTES)
TB_FEW_PIPE_KERNEL(c8, 8, TB_FEW_PIPE_C8_BYTES)
