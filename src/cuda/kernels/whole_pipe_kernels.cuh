/*
 * The instances of the pipelined kernel for softmax for one dtype, TB_KERNEL_DTYPE with the suffix
 * TB_KERNEL_SUFFIX: tombola_whole_pipe_c<blocks of a cluster>_<suffix>. plan_whole.c knows these names.
 */
#include "../fast_shapes.h"
#include "whole_once.cuh"
#include "whole_pipe.cuh"

#define TB_JOIN2(a, b) a##b
#define TB_JOIN(a, b) TB_JOIN2(a, b)
#define TB_WHOLE_PIPE_KERNEL(name, blocks, bytes)                                                            \
    extern "C" __global__ void __launch_bounds__(tb_whole_pipe_shared<TB_KERNEL_DTYPE, blocks>::THREADS, 1)  \
        TB_JOIN(tombola_whole_pipe_##name##_,                                                                \
                TB_KERNEL_SUFFIX)(const __grid_constant__ tb_cuda_params params)                             \
    {                                                                                                        \
        tb_run_pipe<tb_whole_pipe<TB_KERNEL_DTYPE, blocks>>(params);                                         \
    }                                                                                                        \
    static_assert((sizeof(tb_whole_pipe_shared<TB_KERNEL_DTYPE, blocks>) + 127) / 128 * 128 <= bytes,        \
                  "plan_whole.c");

TB_WHOLE_PIPE_KERNEL(c2, 2, TB_WHOLE_PIPE_C2_BYTES)
TB_WHOLE_PIPE_KERNEL(c4, 4, TB_WHOLE_PIPE_C4_BYTES)
TB_WHOLE_PIPE_KERNEL(c8, 8, TB_WHOLE_PIPE_C8_BYTES)
TB_WHOLE_PIPE_KERNEL(c16, 16, TB_WHOLE_PIPE_C16_BYTES)

extern "C" __global__ void __launch_bounds__(TB_WHOLE_ONCE_THREADS, 2)
    TB_JOIN(tombola_whole_once_, TB_KERNEL_SUFFIX)(const __grid_constant__ tb_cuda_params params)
{
    tb_run_once<TB_KERNEL_DTYPE>(params);
}
