/* The choice of kernels: a pure function of shapes. */
#include "plan.h"

#include <string.h>

#include "params.h"
#include "plan_fast.h"
#include "whole_shapes.h"

#define ALIGNMENT 256 /* of each part of the workspace */

static size_t round_up(size_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Threads of a block that has a row to itself: no more than there is work for. */
static unsigned row_threads(int64_t vocab_size)
{
    return vocab_size <= 2048 ? 128 : vocab_size <= 16384 ? 256 : 512;
}

void tb_add_launch(tb_cuda_plan *plan, const char *kernel, unsigned grid, unsigned threads)
{
    plan->launch[plan->launch_count++] =
        (tb_cuda_launch){.kernel = kernel, .grid = grid, .threads = threads, .cluster = 1};
}

/* ---- the generic kernel: a block a row, or a cluster of blocks where rows are few ---- */

#define ROOM_BYTES (48 * 1024) /* no block has more static shared memory */
#define CHUNK 1024             /* elements of a row that a warp takes at a time; 4096 in very long rows */

/* `blocks` of a row; 0: as many as suit the batch. */
static void add_generic(tb_cuda_plan *plan, const tb_cuda_device *device, const tombola_call *call,
                        unsigned blocks)
{
    int64_t rows = call->rows, sms = device->multiprocessors;
    int64_t chunk = call->vocab_size > 1 << 20 ? 4 * CHUNK : CHUNK;
    int64_t chunks = (call->vocab_size + 3 + chunk - 1) / chunk;
    if (!blocks) {
        blocks = 1;
        if (device->major >= 9)
            blocks = rows <= sms / 16      ? 16
                     : rows <= sms / 4     ? 8
                     : rows <= sms / 2     ? 4
                     : rows <= sms * 3 / 4 ? 2
                                           : 1;
        if (blocks > 8 && device->major >= 12) blocks = 8;
        while (blocks > 1 && chunks < 4 * blocks) blocks /= 2;
    }
    tb_cuda_launch launch = {.kernel = "tombola_generic", .grid = (unsigned)rows * blocks, .cluster = blocks};
    launch.threads = blocks > 2 ? 256 : row_threads(call->vocab_size);
    if (blocks == 1 && rows <= sms && call->vocab_size > 16384) launch.threads = 1024;
    /* Sixteen blocks hold the row in their shared memory, so that only the first pass waits for it. */
    int64_t share = (chunks + 15) / 16 * chunk * (call->dtype == TOMBOLA_F32 ? 4 : 2);
    if (blocks == 16 && share <= device->shared_bytes - ROOM_BYTES) launch.shared_bytes = (unsigned)share;
    plan->launch[plan->launch_count++] = launch;
}

tb_cuda_plan tb_cuda_choose(const tb_cuda_device *device, const tombola_call *call, const char *forced)
{
    tb_cuda_plan plan = {.slow_doubles = device->double_ratio > 2};
    if (forced && !strcmp(forced, "digits")) { /* as on devices whose doubles are slow */
        plan = tb_cuda_choose(device, call, NULL);
        plan.slow_doubles = true;
        bool sums = false;
        for (int i = 0; i < plan.launch_count; i++)
            sums |= strstr(plan.launch[i].kernel, "_flat_") || strstr(plan.launch[i].kernel, "whole_pipe_") ||
                    strstr(plan.launch[i].kernel, "whole_once_");
        if (!sums) plan.launch_count = 0;
        return plan;
    }
    const bool exact = call->method == TOMBOLA_EXACT;
    bool usual = !forced || !strcmp(forced, "generic") || !strcmp(forced, exact ? "generic" : "rejection");
    unsigned blocks = tb_forced_blocks(device, forced, "generic_c");
    unsigned whole = tb_forced_blocks(device, forced, "whole_c");
    const unsigned threads = !forced                        ? 0
                             : !strcmp(forced, "pick_256")  ? 256
                             : !strcmp(forced, "pick_512")  ? 512
                             : !strcmp(forced, "pick_1024") ? 1024
                                                            : 0;
    if (tb_add_row_kernel(&plan, device, call, whole, threads, forced)) {
        /* one kernel for all of it */
    } else if ((!forced || !usual) && (tb_add_fast(&plan, device, call, false, forced) ||
                                       tb_add_parts(&plan, device, call, forced))) {
        /* the fast kernels' */
    } else if (exact && (usual || blocks)) {
        add_generic(&plan, device, call, blocks);
    } else if (usual) {
        tb_add_launch(&plan, "tombola_rejection", (unsigned)call->rows, row_threads(call->vocab_size));
    } else {
        return plan; /* does not do this call */
    }
    if (call->advance_offsets) { /* the workspace: each row's next offset (u64 [rows]) */
        plan.workspace_bytes = round_up((size_t)call->rows * 8);
        tb_add_launch(&plan, "tombola_advance", (unsigned)((call->rows + 127) / 128), 128);
    }
    if (tb_has_lists(call)) {
        plan.lists_at = plan.workspace_bytes;
        plan.workspace_bytes += round_up((size_t)call->rows * (8 + 4 + 4 * TB_LISTED_MOST));
    }
    return plan;
}
