/*
 * The instances of the wide kernel for one dtype, TB_KERNEL_DTYPE with the suffix TB_KERNEL_SUFFIX:
 * tombola_wide_c<blocks a row>_<threads>_<suffix>, for the rows that the kernel before left. plan.c knows
 * these names and the shared memory.
 */
#include "fast_shapes.h"
#include "fast_wide.cuh"

#define TB_JOIN2(a, b) a##b
#define TB_JOIN(a, b) TB_JOIN2(a, b)
#define TB_KERNEL(name, blocks, threads, per_sm, capacity, bytes)                                            \
    extern "C" __global__ void __launch_bounds__(threads, per_sm)                                            \
        TB_JOIN(tombola_wide_##name##_, TB_KERNEL_SUFFIX)(const __grid_constant__ tb_cuda_params params)     \
    {                                                                                                        \
        tb_wide_row<TB_KERNEL_DTYPE, blocks, threads, TB_TILE, capacity>::run_left(params);                  \
    }                                                                                                        \
    static_assert(tb_wide<TB_KERNEL_DTYPE, blocks, threads, TB_TILE, capacity>::BYTES <= bytes, "plan.c");

#define TB_TILE (TB_KERNEL_DTYPE == TOMBOLA_F32 ? 4 : 2)

TB_KERNEL(c1_512, 1, 512, 2, 2048, TB_WIDE_C1_512_BYTES)
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
TB_KERNEL(c2_512, 2, 512, 2, 2048, TB_WIDE_C2_512_BYTES)
TB_KERNEL(c8_256, 8, 256, 3, 1024, TB_WIDE_C8_256_BYTES)
TB_KERNEL(c16_256, 16, 256, 2, 512, TB_WIDE_C16_256_BYTES)
#endif

#ifdef TB_KERNEL_LEAVE /* once for all dtypes */
/* Leaves all rows to the kernel behind: tests force that one so. */
extern "C" __global__ void tombola_wide_leave(const __grid_constant__ tb_cuda_params params)
{
    int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    tb_wait_for_inputs();
    if (row >= params.call.rows) return;
    tb_fast_advance(params, row, tb_gpu_slot(params.call, row));
    ((uint32_t *)params.workspace)[row] = TB_ROW_LEFT;
}
#endif
