/*
 * run_call of the test support (tests/support/run.h) for the cuda backend: host pointers are replaced by
 * device copies, and what the device holds afterwards is copied back, so vector_check and sweep_run serve
 * the GPU unchanged.
 */
#ifndef TEST_GPU_RUN_H
#define TEST_GPU_RUN_H

#include "device.h"
#include "run.h"

/* How run_call runs calls of the cuda backend. Set before threads start. */
typedef struct gpu_options {
    bool exact_memory; /* each block in an allocation of its own, nothing initialised that a call need not
                          have initialised: for compute-sanitizer */
    bool apart;        /* launches of a call do not run side by side */
} gpu_options;

extern gpu_options gpu;

/* Makes the device current on this thread and gives the thread a stream and device memory. */
void lane_open(size_t bytes);
void lane_close(void);
tb_cu_stream lane_stream(void);

/* A context whose cuda backend is forced to one variant; NULL leaves the choice to the plan. Ends the program
 * when it cannot be made. */
tombola_context *open_gpu_context(const char *variant, int threads);

/* The names of the variants to force, ending with NULL. */
extern const char *const *gpu_variants;

#endif
