/* The streaming kernels for f16 logits. */
#define TB_KERNEL_DTYPE TOMBOLA_F16
#define TB_KERNEL_SUFFIX f16

#include "../kernels/fast_stream_kernels.cuh"
