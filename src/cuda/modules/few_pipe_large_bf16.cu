/* The pipelined kernels for few kept tokens of bf16 rows, for devices with clusters and much shared memory.
 */
#define TB_KERNEL_DTYPE TOMBOLA_BF16
#define TB_KERNEL_SUFFIX bf16

#include "../kernels/few_pipe_kernels.cuh"
