/* The kernels for small kept sets over whole rows; one copy of the generic code behind them. */
#include "../kernels/pick.cuh"

extern __shared__ uint4 tb_pick_bytes[];

#define TB_PICK_KERNEL(name, dtype)                                                                          \
    extern "C" __global__ void __launch_bounds__(TB_PICK_THREADS, 1)                                         \
        tombola_pick_##name(const __grid_constant__ tb_cuda_params params)                                   \
    {                                                                                                        \
        tb_wait_for_inputs();                                                                                \
        tb_pick_serve<dtype>(params, (char *)tb_pick_bytes, blockIdx.x);                                     \
    }

TB_PICK_KERNEL(f32, TOMBOLA_F32)
TB_PICK_KERNEL(f16, TOMBOLA_F16)
TB_PICK_KERNEL(bf16, TOMBOLA_BF16)
