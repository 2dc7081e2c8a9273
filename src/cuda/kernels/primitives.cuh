/*
 * The lowest layer of the kernels: warps, blocks, exact sums, and rows of any dtype, alignment and length
 * read 16 bytes at a time. Nothing here knows what is computed.
 */
#ifndef TB_CUDA_PRIMITIVES_CUH
#define TB_CUDA_PRIMITIVES_CUH

#include <stdint.h>

#include <tombola.h>

#include "../../law/base.h"
#include "../../law/convert.h"
#include "../../law/order.h"

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
    uint64_t word[32], word2[32];
    uint64_t team[2][4]; /* what this block tells its team, in turns */
    uint32_t turn;       /* set by tb_join_team */
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

/* Two sums at once. */
TB_DEV void tb_block_sums(tb_scratch *scratch, uint64_t *x, uint32_t *n)
{
    *x = tb_warp_sum64(*x);
    *n = tb_warp_sum(*n);
    __syncthreads();
    if (tb_lane() == 0) scratch->word[tb_warp()] = *x, scratch->word2[tb_warp()] = *n;
    __syncthreads();
    bool there = tb_lane() < blockDim.x / 32;
    *x = tb_warp_sum64(there ? scratch->word[tb_lane()] : 0u);
    *n = tb_warp_sum(there ? (uint32_t)scratch->word2[tb_lane()] : 0u);
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

/* ---- a team: the blocks of a cluster, which share one row. All of them make the same decisions from the
 * same numbers; a team of one block needs no cluster ---- */

typedef struct tb_team {
    uint32_t rank, size; /* size: a power of two, at most 16 */
} tb_team;

TB_DEV tb_team tb_cluster_team(void)
{
    tb_team team = {0, 1};
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(team.rank));
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(team.size));
#endif
    return team;
}

/* A barrier of all threads of the team, for shared memory of all its blocks. */
TB_DEV void tb_team_barrier(const tb_team &team)
{
    if (team.size == 1) {
        __syncthreads();
        return;
    }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
#endif
}

/* The same object in the shared memory of another block of the team. */
template <class T> TB_DEV T *tb_team_at(const tb_team &team, T *shared, uint32_t rank)
{
    if (team.size == 1) return shared;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    T *there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(shared), "r"(rank));
    return there;
#else
    return shared;
#endif
}

/* Tells every block of the team N numbers (the same ones in all threads of a block): lane r of every warp
 * gets those of rank r, the other lanes 0. Between two calls the block must have met at a barrier. */
template <int N>
TB_DEV void tb_team_tell(const tb_team &team, tb_scratch *scratch, const uint64_t (&mine)[N],
                         uint64_t (&theirs)[N])
{
    static_assert(N <= 4, "tb_scratch");
    if (team.size == 1) {
#pragma unroll
        for (int i = 0; i < N; i++) theirs[i] = tb_lane() ? 0 : mine[i];
        return;
    }
    /* Two places in turns: who writes one again has passed the barrier after which it was read. */
    uint32_t turn = scratch->turn;
    if (threadIdx.x == 0)
        for (int i = 0; i < N; i++) scratch->team[turn][i] = mine[i];
    tb_team_barrier(team);
    if (threadIdx.x == 0) scratch->turn = 1 - turn;
    uint64_t *there = tb_lane() < team.size ? tb_team_at(team, &scratch->team[turn][0], tb_lane()) : NULL;
#pragma unroll
    for (int i = 0; i < N; i++) theirs[i] = there ? there[i] : 0;
}

/* Sums over the whole team. */
TB_DEV uint64_t tb_team_sum64(const tb_team &team, tb_scratch *scratch, uint64_t x)
{
    uint64_t mine[1] = {tb_block_sum64(scratch, x)}, theirs[1];
    tb_team_tell(team, scratch, mine, theirs);
    return tb_warp_sum64(theirs[0]);
}

TB_DEV void tb_team_sums(const tb_team &team, tb_scratch *scratch, uint64_t *x, uint32_t *n)
{
    tb_block_sums(scratch, x, n);
    if (team.size == 1) return;
    uint64_t mine[2] = {*x, *n}, theirs[2];
    tb_team_tell(team, scratch, mine, theirs);
    *x = tb_warp_sum64(theirs[0]);
    *n = tb_warp_sum((uint32_t)theirs[1]);
}

/* ---- memory ---- */

/* Copies 16 or 8 bytes to shared memory, in the background until tb_wait_for_copies: then the thread that
 * asked may read them. */
TB_DEV void tb_copy_to_shared(void *shared, const void *global, bool wide)
{
#ifdef __CUDA_ARCH__
    uint32_t to = (uint32_t)__cvta_generic_to_shared(shared);
    if (wide)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(global) : "memory");
#else
    if (wide)
        *(uint4 *)shared = *(const uint4 *)global;
    else
        *(uint2 *)shared = *(const uint2 *)global;
#endif
}

TB_DEV void tb_wait_for_copies(void)
{
#ifdef __CUDA_ARCH__
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

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
    const char *row;  /* aligned, `shift` elements before element 0 */
    const char *base; /* the same, or where a copy of a part of the row would have it */
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
    const char *base = (const char *)row - shift * bytes;
    tb_span span = {base, base, shift, length, length <= (1u << 20) ? 2u : 8u, dtype};
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
    if (span.dtype == TOMBOLA_F32) return ((const float *)span.row)[at];
    uint32_t bits = ((const uint16_t *)span.row)[at];
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
