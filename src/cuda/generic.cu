/*
 * The generic kernel: every source, chain, method, tie rule, output and number of draws, on every device. A
 * row is the work of one block, or of a cluster of up to 16, which then may hold it in their shared memory:
 * launched with as much dynamic shared memory as a block's share takes, it reads the row from memory once.
 * Always right; where a faster kernel gives up, this code serves. All methods are in one kernel, since a
 * function is compiled anew for every kernel that calls it; the rejection methods are for one block a row.
 */
#include "rejection.cuh"

extern __shared__ uint4 tb_dynamic[];

struct tb_draw_by_method {
    static constexpr bool ANY = true;
    tb_draw_exactly exactly;
    tb_draw_by_rejection by_rejection;

    TB_MEMBER void prepare(tb_room *room)
    {
        if (room->call.method == TOMBOLA_EXACT)
            exactly.prepare(room);
        else
            by_rejection.prepare(room);
    }

    TB_MEMBER void draw(tb_room *room, int64_t index, uint32_t first, uint32_t n)
    {
        if (room->call.method == TOMBOLA_EXACT)
            exactly.draw(room, index, first, n);
        else
            by_rejection.draw(room, index, first, n);
    }
};

extern "C" __global__ void __launch_bounds__(1024, 1)
    tombola_generic(const __grid_constant__ tb_cuda_params params)
{
    __shared__ tb_room room;
    __shared__ tb_rejection rejection;
    uint32_t bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    tb_team team = tb_cluster_team();
    tb_wait_for_dependencies();
    tb_draw_by_method draws = {{}, {&rejection}};
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
