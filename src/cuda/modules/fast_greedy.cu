/* The greedy kernels: tombola_greedy_c<blocks a row>_<dtype>. plan_fast.c knows these names. */
#include "../fast_shapes.h"
#include "../kernels/fast_greedy.cuh"

#define TB_GREEDY(name, dtype, blocks, threads, per_sm)                                                      \
    extern "C" __global__ void __launch_bounds__(threads, per_sm)                                            \
        tombola_greedy_c##blocks##_##name(const __grid_constant__ tb_cuda_params params)                     \
    {                                                                                                        \
        tb_run_greedy<dtype, blocks, threads>(params);                                                       \
    }

#define TB_GREEDY_KERNELS(blocks, threads, per_sm)                                                           \
    TB_GREEDY(f32, TOMBOLA_F32, blocks, threads, per_sm)                                                     \
    TB_GREEDY(f16, TOMBOLA_F16, blocks, threads, per_sm)                                                     \
    TB_GREEDY(bf16, TOMBOLA_BF16, blocks, threads, per_sm)

TB_GREEDY_KERNELS(1, TB_GREEDY_ALONE, 4)
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
TB_GREEDY_KERNELS(2, TB_GREEDY_THREADS, 2)
TB_GREEDY_KERNELS(4, TB_GREEDY_THREADS, 2)
TB_GREEDY_KERNELS(8, TB_GREEDY_THREADS, 2)
TB_GREEDY_KERNELS(16, TB_GREEDY_THREADS, 2)
#endif
