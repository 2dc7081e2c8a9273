/*
 * The generic kernel: every source, chain, tie rule, output and number of draws, on every device. A row is
 * the work of one block, or of a cluster of up to 16, which then may hold it in their shared memory: launched
 * with as much dynamic shared memory as a block's share takes, it reads the row from memory once. Always
 * right; where a faster kernel gives up, this code serves.
 */
#include "../kernels/kept_rows.cuh"
#include "../kernels/outputs.cuh"

extern __shared__ uint4 tb_dynamic[];

extern "C" __global__ void __launch_bounds__(1024, 1)
    tombola_generic(const __grid_constant__ tb_cuda_params params)
{
    __shared__ tb_room room;
    uint32_t bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    tb_team team = tb_cluster_team();
    tb_wait_for_dependencies();
    tb_draw_exactly draws;
    tb_run_team_row(params, blockIdx.x / team.size, &room, (char *)tb_dynamic, bytes, team, draws);
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
