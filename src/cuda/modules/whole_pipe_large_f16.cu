/* The pipelined kernels for softmax of f16 logits, for devices with clusters and much shared memory. */
#define TB_KERNEL_DTYPE TOMBOLA_F16
#define TB_KERNEL_SUFFIX f16

#include "../kernels/whole_pipe_kernels.cuh"
