# The CUDA backend. Until its kernels are there, and in builds without nvcc, none.c stands in.
list(APPEND sources src/cuda/none.c)
set(cuda_objects "")
