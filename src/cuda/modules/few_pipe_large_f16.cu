/* The pipelined kernels for few kept tokens of f16 rows, for devices with clusters and much shared memory. */
#define TB_KERNEL_DTYPE TOMBOLA_F16
#define TB_KERNEL_SUFFIX f16

#include "../kernels/few_pipe_kernels.cuh"
