/* The pipelined kernels that draw from few tokens of f32 rows, for devices with clusters and much shared
 * memory. */
#define TB_KERNEL_DTYPE TOMBOLA_F32
#define TB_KERNEL_SUFFIX f32
#define TB_KERNEL_WIDE 1

#include "../kernels/few_draw_kernels.cuh"
