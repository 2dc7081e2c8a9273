/* The flat kernels, and the one behind them, for f32 logits. */
#define TB_KERNEL_DTYPE TOMBOLA_F32
#define TB_KERNEL_SUFFIX f32
#define TB_KERNEL_LEFT

#include "fast_flat_kernels.cuh"
