/* The pipelined kernels that draw from few tokens of bf16 rows, for devices with clusters and much shared
 * memory. */
#define TB_KERNEL_DTYPE TOMBOLA_BF16
#define TB_KERNEL_SUFFIX bf16
#define TB_KERNEL_WIDE 0

#include "../kernels/few_draw_kernels.cuh"
