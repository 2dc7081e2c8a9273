/* The pipelined kernels that draw from few tokens of f16 rows, for devices with clusters and much shared
 * memory. */
#define TB_KERNEL_DTYPE TOMBOLA_F16
#define TB_KERNEL_SUFFIX f16
#define TB_KERNEL_WIDE 0

#include "../kernels/few_draw_kernels.cuh"
