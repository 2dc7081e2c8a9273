/*
 * The CUDA backend as src/api sees it. Plain C; a build without nvcc has src/cuda/none.c behind it.
 */
#ifndef TB_CUDA_H
#define TB_CUDA_H

#include <tombola.h>

#include <stdbool.h>

typedef struct tb_cuda tb_cuda;

/* Loads the kernels on the current CUDA context's device (device 0's primary context, where none is
 * current). NULL on failure; *error then says why. */
tb_cuda *tb_cuda_create(tombola_error *error);
void tb_cuda_destroy(tb_cuda *cuda);

/* True when the pointer is memory of a device (or unknown to it: false). */
bool tb_cuda_is_device_memory(const tb_cuda *cuda, const void *pointer);

/* "NAME (sm_XY)". */
const char *tb_cuda_device_name(const tb_cuda *cuda);

/* The three take validated calls. */
tombola_result tb_cuda_workspace(const tb_cuda *cuda, const tombola_call *call, size_t *size,
                                 tombola_error *error);
tombola_result tb_cuda_run(const tb_cuda *cuda, const tombola_call *call, tombola_error *error);
void tb_cuda_plan_text(const tb_cuda *cuda, const tombola_call *call, char *text, size_t capacity);

#endif
