/* The pipelined kernels for few kept tokens of f32 rows, for devices with clusters and much shared memory. */
#define TB_KERNEL_DTYPE TOMBOLA_F32
#define TB_KERNEL_SUFFIX f32

#include "../kernels/few_pipe_kernels.cuh"
