/*
 * The launch plan: which kernels run for a call, with which shape. A pure function of the call's shape and
 * the device's properties, so it can be printed and tested without a GPU.
 */
#ifndef TB_CUDA_PLAN_H
#define TB_CUDA_PLAN_H

#include <tombola.h>

#include <stdbool.h>

#include "params.h"

typedef struct tb_cuda_device {
    int major, minor; /* compute capability */
    int multiprocessors;
    int shared_bytes; /* opt-in shared memory of one block */
    int double_ratio; /* how many times as fast as doubles floats are */
    int64_t l2_bytes;
} tb_cuda_device;

typedef struct tb_cuda_launch {
    const char *kernel; /* its name in the module */
    tb_cuda_part part;
    unsigned grid, threads, cluster;
    unsigned shared_bytes; /* dynamic */
} tb_cuda_launch;

#define TB_CUDA_MAX_LAUNCHES TB_CUDA_PARTS /* the parts, and the offsets */

typedef struct tb_cuda_plan {
    int launch_count;
    tb_cuda_launch launch[TB_CUDA_MAX_LAUNCHES];
    size_t workspace_bytes;
    bool lists;        /* the draw lists what it keeps for TB_CUDA_ROWS, in the workspace */
    size_t lists_at;   /* there: masses (u64 [rows]), counts (i32 [rows]), ids (i32 [rows, TB_LISTED_MOST]) */
    bool slow_doubles; /* of the device: the flat kernels sum weights as two integer digits */
} tb_cuda_plan;

/* The part as a call: without the other parts' outputs, and without a chain where all tokens are meant. */
tombola_call tb_cuda_part_of(const tombola_call *call, tb_cuda_part part);

/* The chain of TB_CUDA_TOP_SET. */
tombola_step tb_cuda_top_step(const tombola_call *call);

/* The variants that can be forced, NULL at the end. */
extern const char *const tb_cuda_variants[];

/* The blocks of a row that a forced "<prefix>1" to "<prefix>16" names; 0 for other names, and for clusters
 * that the device does not have. */
unsigned tb_forced_blocks(const tb_cuda_device *device, const char *forced, const char *prefix);

/* `forced` is the name of a kernel variant that tests force (environment TOMBOLA_CUDA_VARIANT), or NULL. */
tb_cuda_plan tb_cuda_choose(const tb_cuda_device *device, const tombola_call *call, const char *forced);

#endif
