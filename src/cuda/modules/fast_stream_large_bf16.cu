/* The streaming kernels for bf16 logits that are for devices with much shared memory. */
#define TB_KERNEL_LARGE
#define TB_KERNEL_DTYPE TOMBOLA_BF16
#define TB_KERNEL_SUFFIX bf16

#include "../kernels/fast_stream_kernels.cuh"
