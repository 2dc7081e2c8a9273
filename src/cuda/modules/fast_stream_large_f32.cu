/* The streaming kernels for f32 logits that are for devices with much shared memory. */
#define TB_KERNEL_LARGE
#define TB_KERNEL_DTYPE TOMBOLA_F32
#define TB_KERNEL_SUFFIX f32

#include "../kernels/fast_stream_kernels.cuh"
