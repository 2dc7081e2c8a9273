/* The kernel for whole-row outputs of f16 rows. */
#include "../kernels/whole_write.cuh"

extern __shared__ uint4 tb_whole_bytes[];

#define TB_WHOLE_KERNEL(name, top)                                                                           \
    extern "C" __global__ void __launch_bounds__(TB_WHOLE_THREADS, 3)                                        \
        tombola_##name##_f16(const __grid_constant__ tb_cuda_params params)                                  \
    {                                                                                                        \
        tb_whole_kernel<TOMBOLA_F16, top>(params, (char *)tb_whole_bytes);                                   \
    }

TB_WHOLE_KERNEL(whole, false)
TB_WHOLE_KERNEL(whole_top, true) /* the greatest tokens in order, too */
