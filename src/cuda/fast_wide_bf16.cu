/* The wide kernels for bf16 logits. */
#define TB_KERNEL_DTYPE TOMBOLA_BF16
#define TB_KERNEL_SUFFIX bf16

#include "fast_wide_kernels.cuh"
