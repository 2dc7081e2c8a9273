/* The streaming kernels for f32 logits. */
#define TB_KERNEL_DTYPE TOMBOLA_F32
#define TB_KERNEL_SUFFIX f32

#include "../kernels/fast_stream_kernels.cuh"
