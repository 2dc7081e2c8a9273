/*
 * The instances of the streaming kernel for one dtype, TB_KERNEL_DTYPE with the suffix TB_KERNEL_SUFFIX:
 * tombola_stream_c<blocks a row>_<threads>_<suffix>. plan_fast.c knows these names and the shared memory.
 * With TB_KERNEL_LARGE those that need more of it than TB_LARGE_BYTES, which devices that have no more do not
 * get.
 *
 * With a row that is left its blocks go on to the code for any kept set (fast_wide.cuh), in the same shared
 * memory.
 */
#include "../fast_shapes.h"
#include "fast_stream.cuh"
#include "fast_wide.cuh"

/* Not inlined, so that the code for most rows stays together and has the registers to itself. */
template <class S, class WIDE>
static __device__ __noinline__ void tb_stream_go_on(const tb_cuda_params &params, int64_t row)
{
    S &s = *(S *)tb_fast_bytes;
    const tb_fast_warp *said = S::ALONE ? s.warp : s.word;
    tb_wide_known known = {0, 0, 0.0f, 0.0f, false, false, 0.0f, false};
    uint32_t lowest = TB_KEY_POS_INF;
#pragma unroll 1
    for (int i = (int)tb_lane(); i < S::WORDS; i += 32) {
        known.greatest = max(known.greatest, said[i].key);
        known.status |= said[i].status;
    }
    known.greatest = tb_warp_max(known.greatest);
    known.status = tb_warp_or(known.status);
#pragma unroll 1
    for (int i = (int)tb_lane(); i < S::FOLDS; i += 32) {
        const uint32_t key = law_key(s.fold[i]);
        if (key >= TB_KEY_LEAST_LOGIT + S::FOLDS) lowest = min(lowest, key);
    }
    lowest = tb_warp_min(lowest);
    const tb_fast_slice slice = s.slice;
    const tb_fast_chain chain = s.chain;
    const uint64_t random = s.random;
    const float maximum = law_key_value(known.greatest);
    known.estimated = chain.p_on; /* by all blocks alike */
    double unit = 0.0, relative = 0.0;
    if (known.estimated) relative = tb_estimate(s, maximum, chain.scale, &unit);
    known.relative = (float)(relative * unit * 0x1p-40);
    /* Where the boundary cannot be: tokens of less weight than (1 - p) * Z / n are less than (1 - p) * Z
     * together. That says little if weights fall slowly with the values, as the folds' maxima, each the
     * greatest of about a hundredth of the row, then show; and of a top_k nothing. */
    const float spread = lowest < TB_KEY_POS_INF ? law_key_value(known.greatest & ~(S::FOLDS - 1u)) -
                                                       law_key_value(lowest & ~(S::FOLDS - 1u))
                                                 : 0.0f;
    known.spread = spread;
    known.least = maximum;
    if (known.estimated)
        known.least = tb_least_value(
            maximum, chain.scale,
            fmaxf(1.0f, (1.0f - fmaxf(chain.p, 0.0f)) * (float)(relative * unit) / (float)slice.length));
    known.seek_least = spread > 0.0f && !(known.estimated && maximum - known.least < 8.0f * spread);
    /* all folds have the greatest value, so probably many tokens do; or only +inf counts */
    known.at_top = known.greatest == TB_KEY_POS_INF ||
                   (spread <= 0.0f && (min(chain.k_before, chain.k_after) <= TB_EQUAL_K ||
                                       known.relative > 0.99f * (float)slice.length));
    if (S::HELPED) tb_told_wait(&s.told_bound);
    __syncwarp();    /* its lanes waited one by one */
    WIDE::barrier(); /* the block is done with what it held */
    WIDE::go_on(params, row, slice, chain, random, known);
}

template <int dtype, int C, int NT, int U, bool STAGED, int CAP, int SEG, int CAUGHT, int LIST>
TB_DEV void tb_stream_kernel(const tb_cuda_params &params)
{
    typedef tb_stream_shared<C, NT, CAP, SEG, CAUGHT> S;
    constexpr size_t stage = STAGED ? (sizeof(S) + 127) / 128 * 128 : 0;
    typedef tb_wide_row<dtype, C, NT, U / 2, LIST, stage> WIDE;
    static_assert(STAGED == S::HELPED, "");
    /* Other blocks mail to a row that is left as soon as they know: where nothing is needed by then. */
    static_assert(C == 1 || (offsetof(typename WIDE::shared, mail) == offsetof(S, left_mail) &&
                             offsetof(typename WIDE::shared, sample) <= offsetof(S, caught)),
                  "");
    if (STAGED && threadIdx.x >= NT) return tb_stream_help<C, S>(params);
    if (tb_stream_row<dtype, C, NT, U, STAGED, CAP, SEG, CAUGHT>(params))
        tb_stream_go_on<S, WIDE>(params, blockIdx.x / C);
    if (params.part == TB_CUDA_TOP_SET && blockIdx.x == 0) tb_wait_for_dependencies();
}

#define TB_JOIN2(a, b) a##b
#define TB_JOIN(a, b) TB_JOIN2(a, b)
#define TB_KERNEL(name, blocks, threads, per_sm, vectors, staged, capacity, segment, caught, list, bytes)    \
    extern "C" __global__ void __launch_bounds__(threads + (staged ? 32 : 0), per_sm)                        \
        TB_JOIN(tombola_stream_##name##_, TB_KERNEL_SUFFIX)(const __grid_constant__ tb_cuda_params params)   \
    {                                                                                                        \
        tb_stream_kernel<TB_KERNEL_DTYPE, blocks, threads, vectors, staged, capacity, segment, caught,       \
                         list>(params);                                                                      \
    }                                                                                                        \
    static_assert(                                                                                           \
        (sizeof(tb_stream_shared<blocks, threads, capacity, segment, caught>) + 127) / 128 * 128 <= bytes,   \
        "plan_fast.c");                                                                                      \
    static_assert(sizeof(typename tb_wide<TB_KERNEL_DTYPE, blocks, threads, 1, list, staged>::shared) <=     \
                      bytes,                                                                                 \
                  "plan_fast.c");

/* Candidates are caught during the pass, in so much room, where reading groups again would cost more than
 * that does: where blocks have a multiprocessor to themselves and many tiles, or where four share one. */

/* Vectors a tile: 32 elements a thread, so that the sum of a tile has depth 5. */
#define TB_TILE (TB_KERNEL_DTYPE == TOMBOLA_F32 ? 8 : 4)

#ifndef TB_KERNEL_LARGE
TB_KERNEL(c1_512, 1, 512, 2, TB_TILE, false, 2048, 2048, 0, 8000, TB_STREAM_C1_512_BYTES)
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
TB_KERNEL(c4_256, 4, 256, 2, TB_TILE, false, 2048, 768, 0, 1280, TB_STREAM_C4_256_BYTES)
#endif
#else
TB_KERNEL(c1_256, 1, 256, 4, TB_TILE, false, 1024, 1024, 92, 5200, TB_STREAM_C1_256_BYTES)
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
TB_KERNEL(c2_512, 2, 512, 1, TB_TILE, false, 2048, 1536, 64, 4000, TB_STREAM_C2_512_BYTES)
TB_KERNEL(c4_512, 4, 512, 1, TB_TILE, false, 2048, 768, 0, 1280, TB_STREAM_C4_512_BYTES)
TB_KERNEL(c8_256, 8, 256, 1, TB_TILE, true, 2048, 512, 0, 640, TB_STREAM_C8_256_BYTES)
TB_KERNEL(c16_256, 16, 256, 1, TB_TILE, true, 2048, 512, 0, 512, TB_STREAM_C16_256_BYTES)
#endif
static_assert(TB_STREAM_C2_512_BYTES > TB_LARGE_BYTES && TB_STREAM_C4_512_BYTES > TB_LARGE_BYTES &&
                  TB_STREAM_C8_256_BYTES > TB_LARGE_BYTES && TB_STREAM_C16_256_BYTES > TB_LARGE_BYTES,
              "not for the large module");
#endif
