/*
 * The instances of the flat kernel for one dtype, TB_KERNEL_DTYPE with the suffix TB_KERNEL_SUFFIX:
 * tombola_flat_c<blocks a row>_<threads>_<suffix>. plan_fast.c knows these names.
 */
#include "fast_flat.cuh"
#include "fast_flat_once.cuh"
#include "fast_flat_pipe.cuh"
#include "../fast_shapes.h"

#define TB_JOIN2(a, b) a##b
#define TB_JOIN(a, b) TB_JOIN2(a, b)
#define TB_KERNEL(name, blocks, threads, per_sm, vectors)                                                    \
    extern "C" __global__ void __launch_bounds__(threads, per_sm)                                            \
        TB_JOIN(tombola_flat_##name##_, TB_KERNEL_SUFFIX)(const __grid_constant__ tb_cuda_params params)     \
    {                                                                                                        \
        tb_flat_rows<TB_KERNEL_DTYPE, blocks, threads, vectors>(params);                                     \
    }

#define TB_TILE (TB_KERNEL_DTYPE == TOMBOLA_F32 ? 4 : 2)

static_assert((sizeof(tb_flat_shared<1, 512>) + 127) / 128 * 128 <= TB_FLAT_C1_512_BYTES, "plan_fast.c");
static_assert((sizeof(tb_flat_shared<8, 256>) + 127) / 128 * 128 <= TB_FLAT_C8_256_BYTES, "plan_fast.c");

TB_KERNEL(c1_512, 1, 512, 2, TB_TILE)
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
TB_KERNEL(c8_256, 8, 256, 3, TB_TILE)

#define TB_PIPE_KERNEL(name, blocks, bytes)                                                                  \
    extern "C" __global__ void __launch_bounds__(tb_pipe_shared<blocks>::THREADS, 1) TB_JOIN(                \
        tombola_flat_pipe_##name##_, TB_KERNEL_SUFFIX)(const __grid_constant__ tb_cuda_params params)        \
    {                                                                                                        \
        tb_run_pipe<tb_pipe<TB_KERNEL_DTYPE, blocks>>(params);                                               \
    }                                                                                                        \
    static_assert((sizeof(tb_pipe_shared<blocks>) + 127) / 128 * 128 <= bytes, "plan_fast.c");

TB_PIPE_KERNEL(c2, 2, TB_PIPE_C2_BYTES)
TB_PIPE_KERNEL(c4, 4, TB_PIPE_C4_BYTES)
TB_PIPE_KERNEL(c8, 8, TB_PIPE_C8_BYTES)
TB_PIPE_KERNEL(c16, 16, TB_PIPE_C16_BYTES)

#define TB_ONCE_KERNEL(name, blocks)                                                                         \
    extern "C" __global__ void __launch_bounds__(TB_FLAT_ONCE_THREADS, 2) TB_JOIN(                           \
        tombola_flat_once_##name##_, TB_KERNEL_SUFFIX)(const __grid_constant__ tb_cuda_params params)        \
    {                                                                                                        \
        tb_run_flat_once<TB_KERNEL_DTYPE, blocks>(params);                                                   \
    }                                                                                                        \
    static_assert((sizeof(tb_flat_once_shared<blocks>) + 127) / 128 * 128 <= TB_FLAT_ONCE_BYTES,             \
                  "plan_fast.c");

TB_ONCE_KERNEL(c3, 3)
TB_ONCE_KERNEL(c4, 4)
TB_ONCE_KERNEL(c8, 8)
TB_ONCE_KERNEL(c16, 16)
#endif
