/*
 * The instances of the streaming kernel for one dtype, TB_KERNEL_DTYPE with the suffix TB_KERNEL_SUFFIX:
 * tombola_stream_c<blocks a row>_<threads>_<suffix>. plan.c knows these names and the shared memory.
 */
#include "fast_shapes.h"
#include "fast_stream.cuh"

#define TB_JOIN2(a, b) a##b
#define TB_JOIN(a, b) TB_JOIN2(a, b)
#define TB_KERNEL(name, blocks, threads, per_sm, vectors, staged, capacity, segment, caught, bytes)          \
    extern "C" __global__ void __launch_bounds__(threads, per_sm)                                            \
        TB_JOIN(tombola_stream_##name##_, TB_KERNEL_SUFFIX)(const __grid_constant__ tb_cuda_params params)   \
    {                                                                                                        \
        tb_stream_row<TB_KERNEL_DTYPE, blocks, threads, vectors, staged, capacity, segment, caught>(params); \
    }                                                                                                        \
    static_assert(                                                                                           \
        (sizeof(tb_stream_shared<blocks, threads, capacity, segment, caught>) + 127) / 128 * 128 <= bytes,   \
        "plan.c");

/* Candidates are caught during the pass, in so much room, where reading groups again would cost more than
 * that does: where blocks have a multiprocessor to themselves and many tiles, or where four share one. */

/* Vectors a tile: 32 elements a thread, so that the sum of a tile has depth 5. */
#define TB_TILE (TB_KERNEL_DTYPE == TOMBOLA_F32 ? 8 : 4)

TB_KERNEL(c1_512r, 1, 512, 1, TB_TILE, false, 2048, 2048, 75, TB_STREAM_C1_512R_BYTES)
TB_KERNEL(c1_512, 1, 512, 2, TB_TILE, false, 2048, 2048, 0, TB_STREAM_C1_512_BYTES)
TB_KERNEL(c1_256, 1, 256, 4, TB_TILE, false, 1024, 1024, 92, TB_STREAM_C1_256_BYTES)
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
TB_KERNEL(c2_512, 2, 512, 1, TB_TILE, false, 2048, 1536, 64, TB_STREAM_C2_512_BYTES)
TB_KERNEL(c4_256, 4, 256, 2, TB_TILE, false, 2048, 768, 0, TB_STREAM_C4_256_BYTES)
TB_KERNEL(c8_256, 8, 256, 1, TB_TILE, true, 2048, 512, 0, TB_STREAM_C8_256_BYTES)
TB_KERNEL(c16_256, 16, 256, 1, TB_TILE, true, 2048, 512, 0, TB_STREAM_C16_256_BYTES)
#endif
