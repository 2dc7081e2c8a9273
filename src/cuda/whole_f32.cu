/* The kernel for whole-row outputs of f32 rows. */
#include "whole_write.cuh"

extern __shared__ uint4 tb_whole_bytes[];

extern "C" __global__ void __launch_bounds__(TB_WHOLE_THREADS, 3)
    tombola_whole_f32(const __grid_constant__ tb_cuda_params params)
{
    tb_whole_kernel<TOMBOLA_F32>(params, (char *)tb_whole_bytes);
}
