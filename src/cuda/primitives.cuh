/*
 * The lowest layer of the kernels: warps, blocks, exact sums, and rows of any dtype, alignment and length
 * read 16 bytes at a time. Nothing here knows what is computed.
 */
#ifndef TB_CUDA_PRIMITIVES_CUH
#define TB_CUDA_PRIMITIVES_CUH

#include <stdint.h>

#include <tombola.h>

#include "../law/base.h"
#include "../law/convert.h"
#include "../law/order.h"

#define TB_DEV static __device__ __forceinline__
#define TB_MEMBER __device__ __forceinline__
/* For what is called once or a few times per row: one copy of it, which keeps kernels small and quick to
 * compile. */
#define TB_CALL static __device__ __noinline__
#define TB_WHOLE_WARP 0xffffffffu

TB_DEV unsigned tb_lane(void)
{
    return threadIdx.x & 31u;
}

TB_DEV unsigned tb_warp(void)
{
    return threadIdx.x >> 5;
}

/* ---- one warp; every lane calls, every lane gets the result ---- */

TB_DEV uint32_t tb_warp_sum(uint32_t x)
{
    return __reduce_add_sync(TB_WHOLE_WARP, x);
}

TB_DEV uint32_t tb_warp_max(uint32_t x)
{
    return __reduce_max_sync(TB_WHOLE_WARP, x);
}

TB_DEV uint32_t tb_warp_min(uint32_t x)
{
    return __reduce_min_sync(TB_WHOLE_WARP, x);
}

TB_DEV uint32_t tb_warp_or(uint32_t x)
{
    return __reduce_or_sync(TB_WHOLE_WARP, x);
}

/* Sum of 64-bit numbers below 2^54: two 27-bit digits, whose sums over 32 lanes fit 32 bits. */
TB_DEV uint64_t tb_warp_sum54(uint64_t x)
{
    uint32_t low = (uint32_t)x & 0x7ffffffu, high = (uint32_t)(x >> 27);
    return ((uint64_t)tb_warp_sum(high) << 27) + tb_warp_sum(low);
}

/* Sum of any 64-bit numbers, modulo 2^64. */
TB_DEV uint64_t tb_warp_sum64(uint64_t x)
{
    uint32_t top = (uint32_t)(x >> 54);
    return ((uint64_t)tb_warp_sum(top) << 54) + tb_warp_sum54(x & 0x3fffffffffffffu);
}

TB_DEV uint64_t tb_warp_max64(uint64_t x)
{
    uint32_t high = tb_warp_max((uint32_t)(x >> 32));
    uint32_t low = tb_warp_max((uint32_t)(x >> 32) == high ? (uint32_t)x : 0u);
    return (uint64_t)high << 32 | low;
}

/* Sum over this lane and the lanes below it. */
TB_DEV uint32_t tb_warp_scan(uint32_t x)
{
#pragma unroll
    for (unsigned d = 1; d < 32; d *= 2) {
        uint32_t below = __shfl_up_sync(TB_WHOLE_WARP, x, d);
        if (tb_lane() >= d) x += below;
    }
    return x;
}

TB_DEV uint64_t tb_warp_scan64(uint64_t x)
{
#pragma unroll
    for (unsigned d = 1; d < 32; d *= 2) {
        uint64_t below = __shfl_up_sync(TB_WHOLE_WARP, x, d);
        if (tb_lane() >= d) x += below;
    }
    return x;
}

/* ---- one block; every thread calls, every thread gets the result. `scratch` is shared memory that may be
 * used again as soon as a call returns (each call has a barrier before it writes) ---- */

typedef struct tb_scratch {
    uint64_t word[32];
} tb_scratch;

TB_DEV uint32_t tb_block_sum(tb_scratch *scratch, uint32_t x)
{
    x = tb_warp_sum(x);
    __syncthreads();
    if (tb_lane() == 0) scratch->word[tb_warp()] = x;
    __syncthreads();
    return tb_warp_sum(tb_lane() < blockDim.x / 32 ? (uint32_t)scratch->word[tb_lane()] : 0u);
}

TB_DEV uint32_t tb_block_max(tb_scratch *scratch, uint32_t x)
{
    x = tb_warp_max(x);
    __syncthreads();
    if (tb_lane() == 0) scratch->word[tb_warp()] = x;
    __syncthreads();
    return tb_warp_max(tb_lane() < blockDim.x / 32 ? (uint32_t)scratch->word[tb_lane()] : 0u);
}

TB_DEV uint64_t tb_block_sum64(tb_scratch *scratch, uint64_t x)
{
    x = tb_warp_sum64(x);
    __syncthreads();
    if (tb_lane() == 0) scratch->word[tb_warp()] = x;
    __syncthreads();
    return tb_warp_sum64(tb_lane() < blockDim.x / 32 ? scratch->word[tb_lane()] : 0u);
}

/* Sum over the threads before this one; *total is the sum over all. */
TB_DEV uint32_t tb_block_scan(tb_scratch *scratch, uint32_t x, uint32_t *total)
{
    uint32_t inclusive = tb_warp_scan(x);
    __syncthreads();
    if (tb_lane() == 31) scratch->word[tb_warp()] = inclusive;
    __syncthreads();
    uint32_t warps = tb_lane() < blockDim.x / 32 ? (uint32_t)scratch->word[tb_lane()] : 0u;
    *total = tb_warp_sum(warps);
    return tb_warp_sum(tb_lane() < tb_warp() ? warps : 0u) + inclusive - x;
}

TB_DEV uint64_t tb_block_scan64(tb_scratch *scratch, uint64_t x, uint64_t *total)
{
    uint64_t inclusive = tb_warp_scan64(x);
    __syncthreads();
    if (tb_lane() == 31) scratch->word[tb_warp()] = inclusive;
    __syncthreads();
    uint64_t warps = tb_lane() < blockDim.x / 32 ? scratch->word[tb_lane()] : 0u;
    *total = tb_warp_sum64(warps);
    return tb_warp_sum64(tb_lane() < tb_warp() ? warps : 0u) + inclusive - x;
}

/* ---- memory ---- */

/* With programmatic dependent launch: waits until the kernels before have finished and their writes are
 * visible. Nothing otherwise. */
TB_DEV void tb_wait_for_dependencies(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

TB_DEV uint4 tb_load16(const void *aligned)
{
    return *(const uint4 *)aligned;
}

/* A store that is not read again soon. */
TB_DEV void tb_store16(void *aligned, uint4 x)
{
    __stcs((uint4 *)aligned, x);
}

TB_DEV void tb_store8(void *aligned, uint2 x)
{
    __stcs((uint2 *)aligned, x);
}

/* An f16, widened: exact, and NaN stays NaN. */
TB_DEV float tb_f16_value(uint32_t bits)
{
#ifdef __CUDA_ARCH__
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((uint16_t)bits));
    return x;
#else
    return law_f16_value((uint16_t)bits);
#endif
}

/* ---- rows of any dtype, known at run time ----
 *
 * A row is read in groups of four elements, 16 bytes or 8, a group per lane: 128 neighbouring elements for a
 * warp. Four such loads, all in flight at once, are a piece: 512 elements, 16 for a lane. Groups begin where
 * the address suits the load: the first one begins `shift` elements before the row. A chunk is a number of
 * pieces such that a row has at most TB_MAX_CHUNKS chunks.
 */

#define TB_PIECE 512
#define TB_MAX_CHUNKS 1025

typedef struct tb_span {
    const char *base; /* aligned, `shift` elements before element 0 */
    uint32_t shift, length;
    uint32_t chunk_pieces; /* 2, or 8 for rows of more than 2^20 elements */
    int32_t dtype;
} tb_span;

TB_DEV uint32_t tb_bytes(int32_t dtype)
{
    return dtype == TOMBOLA_F32 ? 4 : 2;
}

TB_DEV tb_span tb_make_span(const void *row, int32_t dtype, uint32_t length)
{
    uint32_t bytes = tb_bytes(dtype), shift = (uint32_t)((uintptr_t)row / bytes) % 4;
    tb_span span = {(const char *)row - shift * bytes, shift, length, length <= (1u << 20) ? 2u : 8u, dtype};
    return span;
}

TB_DEV uint32_t tb_span_pieces(const tb_span &span)
{
    return (span.shift + span.length + TB_PIECE - 1) / TB_PIECE;
}

TB_DEV uint32_t tb_span_chunks(const tb_span &span)
{
    uint32_t chunk = span.chunk_pieces * TB_PIECE;
    return (span.shift + span.length + chunk - 1) / chunk;
}

/* Index of a lane's first value of a piece, and of value j from there. Before the row they wrap around, so
 * `< span.length` says whether there is such an element. */
TB_DEV uint32_t tb_piece_first(const tb_span &span, uint32_t piece)
{
    return piece * TB_PIECE + tb_lane() * 4 - span.shift;
}

TB_DEV uint32_t tb_piece_at(uint32_t first, int j)
{
    return first + (j / 4) * 128 + j % 4;
}

TB_DEV bool tb_piece_inside(const tb_span &span, uint32_t piece)
{
    return (piece > 0 || span.shift == 0) && (piece + 1) * TB_PIECE <= span.shift + span.length;
}

TB_DEV bool tb_group_inside(const tb_span &span, uint32_t first)
{
    return first < span.length && first + 4 <= span.length;
}

TB_DEV float tb_load(const tb_span &span, uint32_t index)
{
    size_t at = (size_t)span.shift + index;
    if (span.dtype == TOMBOLA_F32) return ((const float *)span.base)[at];
    uint32_t bits = ((const uint16_t *)span.base)[at];
    return span.dtype == TOMBOLA_F16 ? tb_f16_value(bits) : law_float(bits << 16);
}

/* The bits of a group of four elements at its aligned address; y and w of z are used by f32 alone. */
TB_DEV uint4 tb_load_group(const char *at, bool wide)
{
    if (wide) return *(const uint4 *)at;
    uint2 v = *(const uint2 *)at;
    return make_uint4(v.x, v.y, 0, 0);
}

TB_DEV float4 tb_widen(uint4 v, int32_t dtype)
{
    if (dtype == TOMBOLA_F32)
        return make_float4(law_float(v.x), law_float(v.y), law_float(v.z), law_float(v.w));
    if (dtype == TOMBOLA_BF16)
        return make_float4(law_float(v.x << 16), law_float(v.x & 0xffff0000u), law_float(v.y << 16),
                           law_float(v.y & 0xffff0000u));
    return make_float4(tb_f16_value(v.x & 0xffffu), tb_f16_value(v.x >> 16), tb_f16_value(v.y & 0xffffu),
                       tb_f16_value(v.y >> 16));
}

/* A group of which only some elements are in the row; the others are `fill`. */
TB_CALL float4 tb_load_edge(tb_span span, uint32_t first, float fill)
{
    float4 x = make_float4(fill, fill, fill, fill);
    if (first < span.length) x.x = tb_load(span, first);
    if (first + 1 < span.length) x.y = tb_load(span, first + 1);
    if (first + 2 < span.length) x.z = tb_load(span, first + 2);
    if (first + 3 < span.length) x.w = tb_load(span, first + 3);
    return x;
}

TB_DEV void tb_put4(float *x, float4 v)
{
    x[0] = v.x;
    x[1] = v.y;
    x[2] = v.z;
    x[3] = v.w;
}

/* The values of a lane: 16 of a piece, or the 4 of its load number `load`. Values that are not in the row are
 * `fill`. Nothing outside the row is read. */
TB_DEV void tb_load_piece(const tb_span &span, uint32_t piece, int, float fill, float (&x)[16])
{
    bool wide = span.dtype == TOMBOLA_F32;
    uint32_t stride = wide ? 512 : 256; /* bytes of a warp's load */
    if (tb_piece_inside(span, piece)) {
        const char *at = span.base + (size_t)piece * (4 * stride) + tb_lane() * (stride / 32);
        if (wide) {
            uint4 v[4];
#pragma unroll
            for (int l = 0; l < 4; l++) v[l] = *(const uint4 *)(at + l * 512);
#pragma unroll
            for (int l = 0; l < 4; l++) tb_put4(x + 4 * l, tb_widen(v[l], TOMBOLA_F32));
        } else {
            uint2 v[4];
#pragma unroll
            for (int l = 0; l < 4; l++) v[l] = *(const uint2 *)(at + l * 256);
            if (span.dtype == TOMBOLA_BF16) {
#pragma unroll
                for (int l = 0; l < 4; l++)
                    tb_put4(x + 4 * l, tb_widen(make_uint4(v[l].x, v[l].y, 0, 0), TOMBOLA_BF16));
            } else {
#pragma unroll
                for (int l = 0; l < 4; l++)
                    tb_put4(x + 4 * l, tb_widen(make_uint4(v[l].x, v[l].y, 0, 0), TOMBOLA_F16));
            }
        }
        return;
    }
#pragma unroll
    for (int l = 0; l < 4; l++)
        tb_put4(x + 4 * l, tb_load_edge(span, tb_piece_first(span, piece) + l * 128, fill));
}

TB_DEV void tb_load_piece(const tb_span &span, uint32_t piece, int load, float fill, float (&x)[4])
{
    bool wide = span.dtype == TOMBOLA_F32;
    uint32_t first = tb_piece_first(span, piece) + load * 128;
    const char *at = span.base + (size_t)(first + span.shift) * (wide ? 4 : 2);
    if (tb_group_inside(span, first))
        tb_put4(x, tb_widen(tb_load_group(at, wide), span.dtype));
    else
        tb_put4(x, tb_load_edge(span, first, fill));
}

#endif
