/*
 * The instances of the pipelined kernel that draws from few tokens for one dtype, TB_KERNEL_DTYPE with the
 * suffix TB_KERNEL_SUFFIX: tombola_few_draw_pipe_c<blocks of a cluster>_<suffix>. plan_few.c knows these
 * names. TB_KERNEL_WIDE: wide clusters, too.
 */
#include "../fast_shapes.h"
#include "few_draw_pipe.cuh"

#define TB_JOIN2(a, b) a##b
#define TB_JOIN(a, b) TB_JOIN2(a, b)
#define TB_FEW_DRAW_KERNEL(name, blocks, bytes)                                                              \
    extern "C" __global__ void __launch_bounds__(tb_few_draw_shared<TB_KERNEL_DTYPE, blocks>::THREADS, 1)    \
        TB_JOIN(tombola_few_draw_pipe_##name##_,                                                             \
                TB_KERNEL_SUFFIX)(const __grid_constant__ tb_cuda_params params)                             \
    {                                                                                                        \
        tb_run_pipe<tb_few_draw<TB_KERNEL_DTYPE, blocks>>(params);                                           \
    }                                                                                                        \
    static_assert((sizeof(tb_few_draw_shared<TB_KERNEL_DTYPE, blocks>) + 127) / 128 * 128 <= bytes,          \
                  "plan_few.c");

TB_FEW_DRAW_KERNEL(c2, 2, TB_FEW_DRAW_C2_BYTES)
#if TB_KERNEL_WIDE
TB_FEW_DRAW_KERNEL(c8, 8, TB_FEW_DRAW_C8_BYTES)
#endif
