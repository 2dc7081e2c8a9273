/*
 * What the kernels that weigh every element exactly share (fast_flat.cuh, fast_wide.cuh): the weight in the
 * fewest instructions, vectors of a row anywhere, and words from every warp of a row to every other.
 */
#ifndef TB_CUDA_FAST_EXACT_CUH
#define TB_CUDA_FAST_EXACT_CUH

#include "fast_parts.cuh"

TB_DEV uint32_t tb_dynamic_shared_bytes(void)
{
    uint32_t bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return bytes;
}

/* W(t) as two 20-bit digits with these biases, which leave sums as they are modulo 2^32:
 * e + 8, rounded towards zero, has e's bits down to 2^-20 in its significand; what is left of e, plus 2^-17,
 * those down to 2^-40. The same operations as law_exp2's, with the rounding to an integer and the scaling by
 * a power of two done on bits, which changes no result for -64 <= t <= 0. */
#define TB_HIGH_BIAS 0x41000000u
#define TB_LOW_BIAS 0x37000000u

TB_DEV void tb_weigh(float t, uint32_t *high, uint32_t *low)
{
    float m = t + TB_MAGIC, f = t - (m - TB_MAGIC);
    f = (f + 1.5f) - 1.5f;
    float q = LAW_C5;
    q = __fmaf_rn(q, f, LAW_C4);
    q = __fmaf_rn(q, f, LAW_C3);
    q = __fmaf_rn(q, f, LAW_C2);
    q = __fmaf_rn(q, f, LAW_C1);
    q = __fmaf_rn(q, f, 1.0f);
    float e = law_float(law_bits(q) + (law_bits(m) << 23));
    float upper = __fadd_rz(e, 8.0f);
    *high = law_bits(upper);
    *low = law_bits(__fadd_rz(e - (upper - 8.0f), 0x1p-17f));
}

/* The least t whose weight is at least w, by one warp: a search with 32 probes a round over the bits of -t,
 * in whose order weights fall. */
TB_DEV float tb_least_exponent(uint64_t w)
{
    uint32_t good = 0, bad = 0x42800001u; /* 0 and just above 64 */
    while (bad - good > 1) {
        uint32_t step = (bad - good + 32) / 33, probe = good + step * (tb_lane() + 1);
        bool enough = probe < bad && law_weight(-law_float(probe)) >= w;
        uint32_t passed = __popc(__ballot_sync(TB_WHOLE_WARP, enough));
        good += step * passed;
        bad = min(bad, good + step);
    }
    return -law_float(good);
}

/* Vector `vector` of the row, wherever it lies. */
template <int dtype> TB_DEV uint4 tb_load_any(const tb_fast_slice &s, uint32_t vector)
{
    const char *at = s.base + (size_t)vector * 16;
    if (vector >= s.whole_first && vector < s.whole_end) return tb_load16(at);
    return tb_load_edge<dtype>(at, vector * tb_fast_vector<dtype>::width - s.shift, s.length);
}

#endif
