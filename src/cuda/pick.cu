/*
 * The kernel for small kept sets over whole rows of all dtypes: one kernel, since a function is compiled anew
 * for every kernel that calls it, and the generic code behind this one is most of its code.
 */
#include "pick.cuh"

extern __shared__ uint4 tb_pick_bytes[];

extern "C" __global__ void __launch_bounds__(TB_PICK_THREADS, 1)
    tombola_pick(const __grid_constant__ tb_cuda_params params)
{
    tb_wait_for_inputs();
    tb_pick_serve(params, (char *)tb_pick_bytes, blockIdx.x);
}
