/*
 * What the plan's files share: the kernels whose blocks keep rows in shared memory, and how many fit.
 */
#ifndef TB_CUDA_PLAN_FAST_H
#define TB_CUDA_PLAN_FAST_H

#include "plan.h"

typedef struct tb_fast_kernel {
    const char *name;         /* as TOMBOLA_CUDA_VARIANT has it; the kernel is tombola_<name>_<dtype> */
    unsigned blocks, threads; /* blocks of a row */
    unsigned shared_bytes;
    bool staged; /* a block keeps its share of the row in shared memory: tiles of 2048 vectors */
    bool widens; /* and has room there for an f32 for each element */
} tb_fast_kernel;

#define TB_NAMES(name)                                                                                       \
    {                                                                                                        \
        "tombola_" name "_f32", "tombola_" name "_f16", "tombola_" name "_bf16"                              \
    }

/* What a chain asks of the fast kernels. */
typedef struct tb_chain_kind {
    bool served, filtered, only_min_p;
    bool greedy; /* a temperature of 0, for all rows */
} tb_chain_kind;

tb_chain_kind tb_read_chain(const tombola_call *call);

/* Vectors of 16 bytes in a row, which need not begin at one. */
int64_t tb_vectors_of(const tombola_call *call);

/* Clusters of a kernel that are resident, a block a multiprocessor. */
int64_t tb_pipe_clusters(const tb_cuda_device *device, const tb_fast_kernel *kernel);

/* Rows for whose shares a block of a pipelined kernel has room, as many as it can use; 0 where not even one
 * fits. */
int64_t tb_pipe_slots(const tb_cuda_device *device, const tb_fast_kernel *kernel, const tombola_call *call,
                      int64_t *slot_bytes);

/* Whether the device has such clusters, and shared memory for a row of the call. */
bool tb_fast_fits(const tb_cuda_device *device, const tb_fast_kernel *kernel, const tombola_call *call);

/* Of `count` pipelined kernels, those of fewer blocks first, the one whose clusters are done first; NULL
 * where none has room. */
const tb_fast_kernel *tb_choose_pipe(const tb_cuda_device *device, const tombola_call *call,
                                     const tb_fast_kernel *kernels, int count, int tail);

void tb_add_fast_launch(tb_cuda_plan *plan, const tb_cuda_device *device, const tombola_call *call,
                        const tb_fast_kernel *kernel, const char *const names[3]);

/* `threads` a block, without clusters and dynamic shared memory. */
void tb_add_launch(tb_cuda_plan *plan, const char *kernel, unsigned grid, unsigned threads);

/* Adds a streaming or a flat kernel, or only a flat one; false where none serves the call. */
bool tb_add_fast(tb_cuda_plan *plan, const tb_cuda_device *device, const tombola_call *call, bool only_flat,
                 const char *forced);

/* Adds a kernel for outputs over the whole row without a draw, likewise. */
bool tb_add_row_kernel(tb_cuda_plan *plan, const tb_cuda_device *device, const tombola_call *call,
                       unsigned whole_blocks, unsigned pick_threads, const char *forced);

/* Adds all parts of the call, if each has a fast kernel; else none. */
bool tb_add_parts(tb_cuda_plan *plan, const tb_cuda_device *device, const tombola_call *call,
                  const char *forced);

/* Whether the workspace has room for lists of what draws keep. It must not depend on values such as k. */
bool tb_has_lists(const tombola_call *call);

/* Adds the pipelined kernel for few kept tokens that is forced, or that suits the call, if any. */
bool tb_add_few(tb_cuda_plan *plan, const tb_cuda_device *device, const tombola_call *call,
                const char *forced);

#endif
