/* The flat kernels for bf16 logits. */
#define TB_KERNEL_DTYPE TOMBOLA_BF16
#define TB_KERNEL_SUFFIX bf16

#include "../kernels/fast_flat_kernels.cuh"
