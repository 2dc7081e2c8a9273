/*
 * What bounds the candidates of the streaming kernel (fast_stream.cuh), from what its pass kept: the row's
 * f32 mass from the warps' sums, and a bound from a histogram of the groups' maxima.
 */
#ifndef TB_CUDA_FAST_BOUND_CUH
#define TB_CUDA_FAST_BOUND_CUH

#include "fast_interval.cuh"

#define TB_FOLD_K 80     /* the greatest k that the folds' maxima serve */
#define TB_EMPTY_FOLDS 4 /* of 128 without a token: of 440 tokens at random places so many have none */
#define TB_EQUAL_K 512   /* so many equals there probably are where all folds have the greatest value */
#define TB_FEWEST 24     /* groups that a bound for a mass lets pass */

/* The f32 mass of the row: *relative in units of 2^-40 * 2^r, r the maximum's reference exponent, and *unit,
 * what turns these into units of 2^-40 of the maximum. By one warp or more, each alone. */
template <class S> TB_DEV double tb_estimate(S &s, float maximum, float c, double *unit)
{
    if (!S::ALONE) tb_mail_await(&s.mail_sums);
    const tb_fast_warp *said = S::ALONE ? s.warp : s.word;
    float r = tb_reference_exponent(maximum, c);
    uint64_t fixed = 0;
#pragma unroll 1
    for (int i = (int)tb_lane(); i < S::WORDS; i += 32)
        fixed += (uint64_t)((double)said[i].fixed *
                            (double)tb_power(tb_reference_exponent(law_key_value(said[i].key), c) - r));
    *unit = (double)tb_ex2(__fmaf_rn(-maximum, c, r));
    return (double)tb_warp_sum64(fixed);
}

/* Does a row most probably keep more tokens than the lists hold, so that it had better be left at once?
 * `wanted`: about p * Z, in weights of the maximum; infinite for a k of more than that. The lists hold
 * so many times the folds' maxima, which are among the row's greatest tokens. Of recorded rows that keep 1 to
 * 700 tokens the lists could have held 7 times what was wanted, or more; of N(0,1) 1/4 to 4/5 of it, of 6400
 * such tokens 2.3 times (docs/gpu.md). A row of which some fold has nothing may be of few tokens. By one warp
 * or more, each alone.
 * *deep: whether too little mass may be above the least of the folds' maxima, as they have less than TB_DEEP
 * of what is wanted. Of 24 rows (14 recorded ones, Zipf, normal ones; an emulator's figures, for 1 to 16
 * blocks) those for which it was too little had 0.12 to 0.65, but for one with 0.74, and of the others three
 * had less than TB_DEEP. */
#define TB_DEEP 0.66f
template <class S> TB_DEV bool tb_hopeless(S &s, float maximum, float c, float wanted, bool *deep)
{
    const float4 v = ((const float4 *)s.fold)[tb_lane()];
    if (wanted == LAW_INF)
        return __all_sync(TB_WHOLE_WARP, fminf(fminf(v.x, v.y), fminf(v.z, v.w)) > 0.999f * TB_LEAST);
    float mass = tb_ex2((v.x - maximum) * c) + tb_ex2((v.y - maximum) * c) + tb_ex2((v.z - maximum) * c) +
                 tb_ex2((v.w - maximum) * c);
#pragma unroll
    for (int d = 1; d < 32; d *= 2) mass += __shfl_xor_sync(TB_WHOLE_WARP, mass, d);
    *deep = mass < TB_DEEP * wanted;
    return mass * ((float)S::CAPACITY / S::FOLDS) < 4.0f * wanted;
}

/* The chain's rule, by one thread. */
TB_DEV tb_stream_rule tb_make_rule(const tb_fast_chain &chain, uint32_t length)
{
    int32_t n_all = (int32_t)length;
    int32_t k_before = chain.k_before < n_all ? chain.k_before : TB_OFF;
    int32_t k_after = chain.k_after < n_all ? chain.k_after : TB_OFF;
    tb_stream_rule rule;
    rule.p_whole = chain.p_on && k_before == TB_OFF && chain.w_before == 0;
    rule.before_only = chain.p_on && !rule.p_whole;
    rule.k = rule.before_only ? k_before : min(k_before, k_after);
    rule.w = rule.before_only                 ? chain.w_before
             : chain.w_before > chain.w_after ? chain.w_before
                                              : chain.w_after;
    if (chain.flat) rule.w = 0; /* all weigh the same */
    rule.counted = rule.before_only ? rule.w : 0;
    return rule;
}

/*
 * The bound by the folds' maxima: a value that at least k of them reach, and hardly more; TB_LEAST where
 * there are fewer that hold a token; infinity where the k-th is also the least of them: there are many
 * equals, which the lists would not hold. By one warp, four a lane, by a histogram; its range begins at a
 * value that only few folds reach, so that a single great token does not widen it.
 */
template <class S> TB_DEV float tb_bound_by_folds(S &s, uint32_t k)
{
    static_assert(S::FOLDS == 128, "four a lane");
    constexpr uint32_t IDS = S::FOLDS - 1; /* in a fold's last bits */
    const int lane = (int)tb_lane();
    const float4 v = ((const float4 *)s.fold)[lane];
    const float mine[4] = {v.x, v.y, v.z, v.w};
    const float second =
        fmaxf(fmaxf(fminf(v.x, v.y), fminf(v.z, v.w)), fminf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
    uint32_t least = TB_KEY_POS_INF, held = 0, equal = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t key = law_key(mine[i]) & ~IDS;
        if (key >= TB_KEY_LEAST_LOGIT + S::FOLDS) least = min(least, key), held++;
    }
    least = tb_warp_min(least);
#pragma unroll
    for (int i = 0; i < 4; i++) equal += (law_key(mine[i]) & ~IDS) == least;
    const uint32_t both = tb_warp_sum(held << 16 | equal);
    held = both >> 16;
    equal = both & 0xffffu;
    if (held < k) return TB_LEAST;
    const float high = law_key_value(tb_warp_max(law_key(second))), low = law_key_value(least);
    if (held - equal < k) return held == S::FOLDS ? LAW_INF : low;
    const float bins = __fdividef(128.0f, fmaxf(fminf(high - low, 0x1p125f), 0x1p-60f));
#pragma unroll
    for (int i = 0; i < 4; i++)
        tb_shared_red(&s.fold_count()[min(127, max(0, (int)((high - mine[i]) * bins)))], 1);
    __syncwarp();
    const uint4 count = ((const uint4 *)s.fold_count())[lane];
    const uint32_t one[4] = {count.x, count.y, count.z, count.w}, sum = count.x + count.y + count.z + count.w;
    uint32_t reach = tb_warp_scan(sum) - sum, hit = 128;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        reach += one[i];
        if (hit == 128 && reach >= k) hit = lane * 4 + i;
    }
    hit = tb_warp_min(hit);
    return hit >= 127 ? low : fmaxf(low, __fadd_rd(high, ((float)hit + 1.01f) * __fdividef(-1.0f, bins)));
}

/* The mass that a bound for a top_p must promise, in units of the maximum's weight: some of what is less than
 * the bound counts, as it is in the groups' sums. */
TB_DEV float tb_wanted_mass(float estimate, float p)
{
    return estimate * 0x1p-40f * (0.25f + 0.75f * fmaxf(p, 0.0f));
}

/* The bound by a histogram of the groups' maxima over [least, maximum]; -inf where too little reaches
 * `least`, inf where the row has more to keep than the lists hold. wanted: mass in units of the maximum's
 * weight, or infinity; k: tokens, or TB_OFF. A row has two attempts. By all that seek.
 *
 * What reaches a value is more than the maxima that do: groups hold several great tokens, above all where
 * frequent tokens lie together. So for a mass each group counts by its sum, in sixteenths of its maximum's
 * weight, which is a little more than what of it will reach the bound: `wanted` has a margin for that, and
 * the bound lets TB_FEWEST groups pass, since of very few such sums may be far more. */
template <int C, int NT, class S>
static __device__ __noinline__ float tb_bound_by_histogram(int attempt, float maximum, float least, float c,
                                                           int maxima, int32_t k, float wanted,
                                                           int group_shift)
{
    S &s = *(S *)tb_fast_bytes;
    constexpr int SEEKERS = NT - 32;
    const int tid = tb_seeker(), lane = tid & 31;
    const float bins = 255.0f / fmaxf(maximum - least, 1e-20f);
    if (attempt) {
        for (int i = tid; i < 256; i += SEEKERS) s.group_count[i] = 0;
        tb_seek_barrier<NT>();
    }
    const bool by_sums = k == TB_OFF && !group_shift;
    for (int i = tid; i < maxima; i += SEEKERS) {
        const float m = s.group[i];
        if (m >= least)
            atomicAdd(&s.group_count[min(255, (int)((maximum - m) * bins))],
                      by_sums ? (uint32_t)s.group_parts()[i] : (uint32_t)TB_PARTS);
    }
    tb_seek_barrier<NT>();
    if (C > 1) {
        const uint4 left = ((const uint4 *)s.group_count)[lane * 2],
                    right = ((const uint4 *)s.group_count)[lane * 2 + 1];
        auto both = [](uint32_t low, uint32_t high) { return min(low, 0xffffu) | min(high, 0xffffu) << 16; };
        const uint4 word = make_uint4(both(left.x, left.y), both(left.z, left.w), both(right.x, right.y),
                                      both(right.z, right.w));
#pragma unroll 1
        for (int to = tid >> 5; to < C; to += SEEKERS / 32)
            tb_mail_16(&s.histogram[attempt][blockIdx.x % C][lane], to, word, &s.mail_histogram[attempt]);
        tb_mail_await(&s.mail_histogram[attempt]);
        const uint32_t *counts = (const uint32_t *)s.histogram[attempt];
        uint32_t even = 0, odd = 0;
        if (tid < 128) {
#pragma unroll
            for (int r = 0; r < C; r++) {
                even += counts[r * 128 + tid] & 0xffffu;
                odd += counts[r * 128 + tid] >> 16;
            }
            s.group_count_all[tid * 2] = even;
            s.group_count_all[tid * 2 + 1] = odd;
        }
        tb_seek_barrier<NT>();
    }
    if (tid < 32) {
        const uint32_t *all = C > 1 ? s.group_count_all : s.group_count;
        uint32_t have = 0;
        float mass = 0.0f, one[8], step = __fdividef(-c, bins);
        const uint4 left = ((const uint4 *)all)[lane * 2], right = ((const uint4 *)all)[lane * 2 + 1];
        const uint32_t here[8] = {left.x, left.y, left.z, left.w, right.x, right.y, right.z, right.w};
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const uint32_t bin = here[i];
            one[i] = (float)bin * (1.0f / TB_PARTS) * tb_ex2(((float)(lane * 8 + i) + 0.5f) * step);
            have += bin;
            mass += one[i];
        }
        uint32_t before = tb_warp_scan(have) - have, hit = 256, full = 256;
        float mass_end = mass;
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            float below = __shfl_up_sync(TB_WHOLE_WARP, mass_end, d);
            if (lane >= d) mass_end += below;
        }
        float mass_before = mass_end - mass;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            before += here[i];
            mass_before += one[i];
            if (hit == 256 && (before / TB_PARTS >= (uint32_t)k ||
                               (mass_before >= wanted && before >= TB_FEWEST * TB_PARTS)))
                hit = lane * 8 + i;
            if (full == 256 && before >= 384 * TB_PARTS) full = lane * 8 + i;
        }
        hit = tb_warp_min(hit);
        full = tb_warp_min(full);
        const float mass_all = __shfl_sync(TB_WHOLE_WARP, mass_end, 31);
        if (hit == 256 && mass_all >= wanted) hit = 255;
        /* too little is promised: take many, and see */
        if (attempt && hit == 256 && k == TB_OFF) hit = full;
        /* The greatest n tokens have at most n / m times the mass of the greatest m. Of the latter the
         * groups' maxima have about the mass, and the number, that they show here: may the lists hold enough?
         */
        const bool hopeless = hit == 256 && !attempt && k == TB_OFF &&
                              mass_all * (1.25f * TB_PARTS * S::CAPACITY) <
                                  wanted * (float)__shfl_sync(TB_WHOLE_WARP, before, 31);
        if (lane == 0)
            s.bound_try = hit == 256   ? hopeless ? LAW_INF : -LAW_INF
                          : hit == 255 ? least
                                       : fmaxf(maximum - ((float)hit + 1.01f) / bins, least);
    }
    tb_seek_barrier<NT>();
    return s.bound_try;
}

#endif
