// The read floor: the time that a plain kernel takes to read the logits and do nothing with them.
#include <cstdint>
#include <cuda_runtime.h>

template <int THREADS, int UNROLL>
__global__ void __launch_bounds__(THREADS)
    read_kernel(const uint4 *__restrict__ from, uint64_t count, unsigned *sink)
{
    unsigned sum = 0;
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += stride * UNROLL) {
        uint4 x[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const uint64_t at = i + u * stride;
            x[u] = at < count ? from[at] : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) sum ^= x[u].x ^ x[u].y ^ x[u].z ^ x[u].w;
    }
    if (sum == 0x9e3779b9) *sink = sum; // keeps the loads
}

template <int THREADS, int UNROLL>
static int launch(const void *from, uint64_t count, unsigned *sink, cudaStream_t stream)
{
    int device = 0, processors = 1, blocks = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, read_kernel<THREADS, UNROLL>, THREADS, 0);
    const uint64_t needed = (count + (uint64_t)THREADS * UNROLL - 1) / ((uint64_t)THREADS * UNROLL);
    const uint64_t most = (uint64_t)processors * blocks;
    read_kernel<THREADS, UNROLL>
        <<<(unsigned)(needed < most ? needed : most), THREADS, 0, stream>>>((const uint4 *)from, count, sink);
    return cudaGetLastError();
}

// Shape 0 .. 5; the floor is the fastest. -1 when there is no such shape.
extern "C" __attribute__((visibility("default"))) int read_floor(int shape, const void *from, uint64_t bytes,
                                                                 void *sink, cudaStream_t stream)
{
    const uint64_t count = bytes / sizeof(uint4);
    switch (shape) {
    case 0: return launch<256, 1>(from, count, (unsigned *)sink, stream);
    case 1: return launch<512, 1>(from, count, (unsigned *)sink, stream);
    case 2: return launch<256, 4>(from, count, (unsigned *)sink, stream);
    case 3: return launch<512, 4>(from, count, (unsigned *)sink, stream);
    case 4: return launch<256, 8>(from, count, (unsigned *)sink, stream);
    case 5: return launch<512, 8>(from, count, (unsigned *)sink, stream);
    }
    return -1;
}
