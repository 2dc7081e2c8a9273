/*
 * The generic kernel: one block per row, every source, chain, tie rule, output and number of draws, on
 * every device. Always right; where a faster kernel gives up, this one serves.
 */
#include "outputs.cuh"

extern "C" __global__ void __launch_bounds__(512, 2)
    tombola_generic(const __grid_constant__ tb_cuda_params params)
{
    __shared__ tb_room room;
    tb_wait_for_dependencies();
    tb_run_row(params, blockIdx.x, &room, tb_draw_exactly());
}

/* Behind a kernel of a call with advance_offsets, which left each row's next offset in the workspace: two
 * rows that name one slot store the same number. Not to be launched before that kernel has finished. */
extern "C" __global__ void tombola_advance(const __grid_constant__ tb_cuda_params params)
{
    int64_t index = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= params.call.rows) return;
    int64_t slot = tb_gpu_slot(params.call, index);
    if (slot >= 0) params.call.offsets[slot] = tb_next_offsets(params)[index];
}
