/* The kernel by which 16 blocks sort ids of f32 rows, for devices with such clusters. */
#include "../kernels/whole_write.cuh"

extern __shared__ uint4 tb_whole_bytes[];

extern "C" __global__ void __launch_bounds__(TB_WHOLE_THREADS, 2)
    tombola_whole_sort_f32(const __grid_constant__ tb_cuda_params params)
{
    tb_whole_kernel<TOMBOLA_F32, true, true>(params, (char *)tb_whole_bytes);
}
