/* The pipelined kernels for softmax of f32 logits, for devices with clusters and much shared memory. */
#define TB_KERNEL_DTYPE TOMBOLA_F32
#define TB_KERNEL_SUFFIX f32

#include "../kernels/whole_pipe_kernels.cuh"
