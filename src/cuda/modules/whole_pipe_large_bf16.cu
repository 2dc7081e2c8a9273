/* The pipelined kernels for softmax of bf16 logits, for devices with clusters and much shared memory. */
#define TB_KERNEL_DTYPE TOMBOLA_BF16
#define TB_KERNEL_SUFFIX bf16

#include "../kernels/whole_pipe_kernels.cuh"
