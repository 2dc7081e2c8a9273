/* The streaming kernels for f16 logits that are for devices with much shared memory. */
#define TB_KERNEL_LARGE
#define TB_KERNEL_DTYPE TOMBOLA_F16
#define TB_KERNEL_SUFFIX f16

#include "../kernels/fast_stream_kernels.cuh"
