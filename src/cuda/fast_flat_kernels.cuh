/*
 * The instances of the kernels behind the streaming one for one dtype, TB_KERNEL_DTYPE with the suffix
 * TB_KERNEL_SUFFIX: tombola_flat_c<blocks a row>_<threads>_<suffix> for all rows, tombola_flat_left_... for
 * those that the kernel before left, and tombola_left, which serves any row that is still left by the generic
 * kernel's code: a block looks at every gridDim.x-th row, and where nothing was left it has nothing else to
 * do. plan.c knows these names.
 */
#include "fast_flat.cuh"
#include "fast_shapes.h"

#define TB_JOIN2(a, b) a##b
#define TB_JOIN(a, b) TB_JOIN2(a, b)
#define TB_KERNEL(name, blocks, threads, per_sm, vectors, depth, left)                                       \
    extern "C" __global__ void __launch_bounds__(threads, per_sm)                                            \
        TB_JOIN(tombola_flat_##name##_, TB_KERNEL_SUFFIX)(const __grid_constant__ tb_cuda_params params)     \
    {                                                                                                        \
        tb_flat_rows<TB_KERNEL_DTYPE, blocks, threads, vectors, depth, left>(params);                        \
    }

#define TB_TILE (TB_KERNEL_DTYPE == TOMBOLA_F32 ? 4 : 2)

static_assert((sizeof(tb_flat_shared<1, 512>) + 127) / 128 * 128 <= TB_FLAT_C1_512_BYTES, "plan.c");
static_assert((sizeof(tb_flat_shared<8, 256>) + 127) / 128 * 128 <= TB_FLAT_C8_256_BYTES, "plan.c");
static_assert((sizeof(tb_flat_shared<16, 256>) + 127) / 128 * 128 <= TB_FLAT_C16_256_BYTES, "plan.c");

TB_KERNEL(c1_512, 1, 512, 2, TB_TILE, TB_TILE, false)
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
TB_KERNEL(c8_256, 8, 256, 3, TB_TILE, TB_TILE, false)
TB_KERNEL(c16_256, 16, 256, 2, TB_TILE, 2 * TB_TILE, false)
TB_KERNEL(left_c8_256, 8, 256, 3, TB_TILE, TB_TILE, true)
#endif

#ifdef TB_KERNEL_LEFT /* once for all dtypes */
#include "outputs.cuh"

extern "C" __global__ void __launch_bounds__(512, 2)
    tombola_left(const __grid_constant__ tb_cuda_params params)
{
    __shared__ tb_room room;
    tb_wait_for_dependencies();
    for (int64_t row = blockIdx.x; row < params.call.rows; row += gridDim.x) {
        if (((const uint32_t *)params.workspace)[row] != TB_ROW_LEFT) continue;
        tb_run_row(params, row, &room, tb_draw_exactly());
        __syncthreads();
    }
}
#endif
