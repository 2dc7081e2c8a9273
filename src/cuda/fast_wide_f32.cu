/* The wide kernels for f32 logits. */
#define TB_KERNEL_DTYPE TOMBOLA_F32
#define TB_KERNEL_SUFFIX f32
#define TB_KERNEL_LEAVE

#include "fast_wide_kernels.cuh"
