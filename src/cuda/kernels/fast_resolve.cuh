/*
 * The streaming kernel's finish (fast_stream.cuh): what the leader's TB_FINISHERS threads do with the weighed
 * candidates, all in shared memory. Up to TB_FEW of them are ranked by comparing all pairs. For more: bins of
 * equal width, first in value and then in index, with exact counts and masses: their running sums say in
 * which bin the cut lies, and in which the drawn token; only the few tokens of that bin meet in pairs.
 */
#ifndef TB_CUDA_FAST_RESOLVE_CUH
#define TB_CUDA_FAST_RESOLVE_CUH

#include "fast_candidates.cuh"
#include "fast_entropy.cuh"

/* Weighs a block's candidates, `raw`, which come to the list from `base` on, every step-th of them from
 * `first` on, and adds them to the bins of values where these are needed. A barrier must follow. */
template <class S>
TB_DEV void tb_weigh_segment(S &s, const uint2 *raw, int base, int first, int step, int count, float maximum,
                             float scale, bool flat, float bins, bool needs_bins)
{
#pragma unroll 1
    for (int at = first; at < count; at += step) {
        const uint2 bits = S::ALONE ? *(const uint2 *)&s.token[at] : raw[at];
        const float x = law_float(bits.x);
        const tb_fast_token token = tb_weigh_token(x, bits.y, maximum, scale, flat);
        s.token[base + at] = token;
        if (needs_bins && token.weight >= s.rule.counted)
            tb_add_to_bin(s.bins[0], tb_value_bin(x, maximum, bins), token.weight);
    }
}

/* The same of a block that is alone, whose candidates are in their places already. */
template <class S>
static __device__ __noinline__ void tb_weigh_apart(int n, float maximum, float scale, bool flat, float bins,
                                                   bool needs_bins)
{
    tb_weigh_segment(*(S *)tb_fast_bytes, nullptr, 0, (int)threadIdx.x, TB_FINISHERS, n, maximum, scale, flat,
                     bins, needs_bins);
}

/* A token of a list in shared memory, whether it is needed or not: the compiler would wait for what decides
 * that first. */
TB_DEV tb_fast_token tb_load_token(const tb_fast_token *at)
{
    uint32_t low, high;
    tb_fast_token token;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(token.key), "=r"(token.index), "=r"(low), "=r"(high)
                 : "r"(tb_shared_address(at)));
    token.weight = (uint64_t)high << 32 | low;
    return token;
}

/*
 * All pairs of up to TB_FEW tokens, by the block's finishers: each warp compares its share of the list with
 * all of it, ROUNDS tokens a lane, so that a token read from shared memory, which costs four cycles, serves
 * them all. What is found of a token is one number: the mass of the tokens that are greater by (key, `ties`
 * of the index, the lower one first), less than 2^48; from bit 48 their count; from bit 56 the count of the
 * tokens of lower index. The list is read up to its length rounded up to TB_PAIR_STEP.
 */
#define TB_PAIR_GREATER 48
#define TB_PAIR_LOWER 56
#define TB_PAIR_STEP 16

template <int ROUNDS>
TB_DEV void tb_pair_share(const tb_fast_token *list, int n, uint32_t ties, uint64_t *pairs)
{
    static_assert(TB_FEW < 1 << (TB_PAIR_LOWER - TB_PAIR_GREATER), "counts of a byte");
    const int lane = (int)tb_lane(), warp = (int)tb_warp();
    uint64_t mine[ROUNDS], sum[ROUNDS];
    uint32_t index[ROUNDS];
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
        index[i] = list[lane + i * 32].index;
        mine[i] = (uint64_t)list[lane + i * 32].key << 32 | (~index[i] & ties);
        sum[i] = 0;
    }
#pragma unroll 1
    for (int j = warp; j < n; j += TB_PAIR_STEP) {
#pragma unroll
        for (int e = 0; e < TB_PAIR_STEP; e += TB_FINISHERS / 32) {
            const tb_fast_token token = tb_load_token(&list[j + e]);
            const uint64_t other = (uint64_t)token.key << 32 | (~token.index & ties);
            const bool there = j + e < n;
            const uint64_t weight = token.weight + ((uint64_t)1 << TB_PAIR_GREATER);
#pragma unroll
            for (int i = 0; i < ROUNDS; i++) {
                sum[i] += there && other > mine[i] ? weight : 0;
                sum[i] += there && token.index < index[i] ? (uint64_t)1 << TB_PAIR_LOWER : 0;
            }
        }
    }
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) pairs[warp * TB_FEW + lane + i * 32] = sum[i];
}

/* A barrier must follow. */
static __device__ __noinline__ void tb_pair_all(const tb_fast_token *list, int n, uint32_t ties,
                                                uint64_t *pairs)
{
    if (n <= 32)
        tb_pair_share<1>(list, n, ties, pairs);
    else if (n <= 64)
        tb_pair_share<2>(list, n, ties, pairs);
    else
        tb_pair_share<3>(list, n, ties, pairs);
}

/* What a thread knows of the token of its number when all pairs have met. */
typedef struct tb_fast_rank {
    tb_fast_token token;
    bool has;                /* there is one */
    uint32_t greater, lower; /* tokens that are greater; that are of lower index */
    uint64_t above;          /* mass of the greater ones */
} tb_fast_rank;

TB_DEV tb_fast_rank tb_rank_of(const tb_fast_token *list, int n, const uint64_t *pairs)
{
    tb_fast_rank r = {{0, 0, 0}, (int)threadIdx.x < n, 0, 0, 0};
    if (!r.has) return r;
    r.token = list[threadIdx.x];
    uint64_t sum = 0;
#pragma unroll
    for (int i = 0; i < TB_FINISHERS / 32; i++) sum += pairs[i * TB_FEW + threadIdx.x];
    r.above = sum & (((uint64_t)1 << TB_PAIR_GREATER) - 1);
    r.greater = (uint32_t)(sum >> TB_PAIR_GREATER) & ((1u << (TB_PAIR_LOWER - TB_PAIR_GREATER)) - 1);
    r.lower = (uint32_t)(sum >> TB_PAIR_LOWER);
    return r;
}

/* A token in the list in order of the index, where what is not kept weighs nothing and a kept one counts one
 * from bit 48. */
TB_DEV tb_fast_token tb_ordered_token(const tb_fast_token &token, bool kept)
{
    tb_fast_token ordered = {token.key, token.index,
                             kept ? token.weight | (uint64_t)1 << TB_PAIR_GREATER : 0};
    return ordered;
}

/* Ids of the kept ones of the n tokens in s.pair. By one warp. */
template <class S>
static __device__ __noinline__ void tb_write_few_ids(const tombola_call &call, int64_t row, int n, int kept)
{
    const S &s = *(const S *)tb_fast_bytes;
    const int lane = (int)tb_lane();
    int32_t *ids = call.kept_ids + row * call.kept_capacity;
    int before = 0;
    for (int i = lane; i - lane < n; i += 32) {
        const bool kept_here = i < n && s.pair[i].weight;
        const uint32_t votes = __ballot_sync(TB_WHOLE_WARP, kept_here);
        const int place = before + __popc(votes & ((1u << lane) - 1));
        if (kept_here && place < call.kept_capacity) ids[place] = (int32_t)s.pair[i].index;
        before += __popc(votes);
    }
#pragma unroll 1
    for (int64_t i = kept + lane; i < call.kept_capacity; i += 32) ids[i] = -1;
}

/* By one warp, of what is drawn from: the marked ones of many tokens, or of few those that weigh something.
 */
template <class S>
static __device__ __noinline__ void tb_entropy_of_list(const tombola_call &call, int64_t row, bool many,
                                                       int n, float scale, float maximum, uint64_t mass)
{
    const S &s = *(const S *)tb_fast_bytes;
    tb_write_entropy(call, row, n, maximum, scale, mass, [&](int i, uint64_t *weight) {
        const tb_fast_token token = many ? s.token[i] : s.pair[i];
        *weight = many ? token.index & TB_KEPT ? token.weight : 0
                       : token.weight & (((uint64_t)1 << TB_PAIR_GREATER) - 1);
        return law_key_value(token.key);
    });
}

/* The draw among the n tokens, up to TB_FEW, in s.pair, and the outputs; `scale` is 0 where all weigh the
 * same. By one warp. */
template <class S>
TB_DEV void tb_draw_few(const tombola_call &call, int64_t row, uint32_t status, int n, float scale,
                        float maximum)
{
    S &s = *(S *)tb_fast_bytes;
    constexpr int EACH = (TB_FEW + 31) / 32;
    constexpr uint64_t MASS = ((uint64_t)1 << TB_PAIR_GREATER) - 1;
    const int first = (int)tb_lane() * EACH;
    tb_fast_token token[EACH];
    uint64_t sum = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        token[i] = tb_load_token(&s.pair[first + i]);
        if (first + i >= n) token[i].weight = 0;
        sum += token[i].weight;
    }
    const uint64_t end = tb_warp_scan64(sum), all = __shfl_sync(TB_WHOLE_WARP, end, 31);
    tb_fast_result result = {0, (int32_t)(all >> TB_PAIR_GREATER), 0, status, 0.0f, all & MASS};
    const uint64_t position = law_draw_position(s.random, result.mass);
    uint64_t before = end - sum;
    bool drawn = false;
    uint32_t key = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const uint64_t from = before & MASS;
        if (from <= position && position - from < (token[i].weight & MASS)) {
            drawn = true;
            result.token = (int32_t)token[i].index;
            key = token[i].key;
        }
        before += token[i].weight;
    }
    if (drawn) {
        if (scale) result.t = law_exponent(law_key_value(key), maximum, scale);
        if (call.ranks)
            for (int j = 0; j < n; j++) result.rank += s.token[j].key >= key;
        tb_fast_write(call, row, result);
    }
    if (call.kept_ids) tb_write_few_ids<S>(call, row, n, result.kept);
    if (call.entropy) tb_entropy_of_list<S>(call, row, false, n, scale, maximum, result.mass);
}

/* ---- many candidates ---- */

TB_DEV uint64_t tb_mass_of(uint64_t counted)
{
    return counted & (((uint64_t)1 << TB_COUNT_AT) - 1);
}

TB_DEV uint32_t tb_count_of(uint64_t counted)
{
    return (uint32_t)(counted >> TB_COUNT_AT);
}

/* Running sums of bins, four a lane, counts and masses in one number each. By each warp alone. */
typedef struct tb_bin_sums {
    uint64_t before, own[4], total;
} tb_bin_sums;

TB_DEV tb_bin_sums tb_sum_bins(const tb_stream_bins &bins)
{
    const int lane = (int)tb_lane();
    const uint4 high = ((const uint4 *)bins.high)[lane], low = ((const uint4 *)bins.low)[lane],
                count = ((const uint4 *)bins.count)[lane];
    tb_bin_sums s;
    s.own[0] = tb_join(high.x, low.x) + ((uint64_t)count.x << TB_COUNT_AT);
    s.own[1] = tb_join(high.y, low.y) + ((uint64_t)count.y << TB_COUNT_AT);
    s.own[2] = tb_join(high.z, low.z) + ((uint64_t)count.z << TB_COUNT_AT);
    s.own[3] = tb_join(high.w, low.w) + ((uint64_t)count.w << TB_COUNT_AT);
    const uint64_t sum = (s.own[0] + s.own[1]) + (s.own[2] + s.own[3]), end = tb_warp_scan64(sum);
    s.before = end - sum;
    s.total = __shfl_sync(TB_WHOLE_WARP, end, 31);
    return s;
}

/* A bin: its number (TB_BINS: none), its tokens, and the sum of the bins before it. */
typedef struct tb_bin_found {
    uint32_t bin, count;
    uint64_t base;
} tb_bin_found;

/* The first bin whose running sum, itself included, passes `test`, which sums that are greater pass too and
 * nothing does not. */
template <class TEST> TB_DEV tb_bin_found tb_find_bin(const tb_bin_sums &sums, const TEST &test)
{
    const uint64_t first = sums.before + sums.own[0], second = first + sums.own[1],
                   third = second + sums.own[2];
    const bool a = !test(first), b = !test(second), c = !test(third), d = !test(third + sums.own[3]);
    tb_bin_found found;
    found.bin = tb_warp_sum((uint32_t)a + b + c + d);
    const int from = (int)(found.bin / 4 % 32);
    const uint64_t base = c ? third : b ? second : a ? first : sums.before;
    const uint32_t high = (uint32_t)((c   ? sums.own[3]
                                      : b ? sums.own[2]
                                      : a ? sums.own[1]
                                          : sums.own[0]) >>
                                     32);
    found.count = __shfl_sync(TB_WHOLE_WARP, high, from) >> (TB_COUNT_AT - 32);
    found.base = __shfl_sync(TB_WHOLE_WARP, base, from);
    if (found.bin == TB_BINS) found.count = 0, found.base = sums.total;
    return found;
}

/* Where a token stands, from the greatest down: 0 for the greatest. Under TIES_ALL equals share a place. */
TB_DEV uint64_t tb_depth(uint32_t greatest, uint32_t key, uint32_t index, bool by_index)
{
    return (uint64_t)(greatest - key) << LAW_INDEX_BITS | (by_index ? index & ~TB_KEPT : 0u);
}

/* Tokens among which a cut lies: those of depth first to last; none if `first` is greater. The tokens of less
 * depth have `base`. */
typedef struct tb_depths {
    uint64_t first, last, base;
} tb_depths;

/* The same as tb_find_bin of the values' bins, for a bin of too many tokens for pairs: bins of equal width in
 * depth, between the bin's least and greatest one, until few are left, or one class of equals. */
template <class S>
static __device__ __noinline__ tb_depths tb_refine_cut(int n, uint32_t greatest, float maximum, float bins,
                                                       bool by_index, uint32_t k, uint64_t least,
                                                       uint64_t target, uint32_t bin, uint64_t base)
{
    S &s = *(S *)tb_fast_bytes;
    const int tid = threadIdx.x;
    tb_depths d = {0, ~(uint64_t)0, base};
    bool by_value = true;
    for (;;) {
        tb_finish_barrier();
        if (tid == 0) s.depth_first = ~0ull, s.depth_last = 0;
        s.bins[0].high[tid % TB_BINS] = s.bins[0].low[tid % TB_BINS] = s.bins[0].count[tid % TB_BINS] = 0;
        tb_finish_barrier();
        auto inside = [&](const tb_fast_token &a, uint64_t depth) {
            return a.weight >= least && (by_value ? tb_value_bin(law_key_value(a.key), maximum, bins) == bin
                                                  : depth >= d.first && depth <= d.last);
        };
#pragma unroll 1
        for (int i = tid; i < n; i += TB_FINISHERS) {
            const tb_fast_token a = s.token[i];
            const uint64_t depth = tb_depth(greatest, a.key, a.index, by_index);
            if (!inside(a, depth)) continue;
            atomicMin(&s.depth_first, (unsigned long long)depth);
            atomicMax(&s.depth_last, (unsigned long long)depth);
        }
        tb_finish_barrier();
        const uint64_t first = s.depth_first, last = s.depth_last;
        const int shift = max(0, 57 - __clzll((long long)(last - first)));
#pragma unroll 1
        for (int i = tid; i < n; i += TB_FINISHERS) {
            const tb_fast_token a = s.token[i];
            const uint64_t depth = tb_depth(greatest, a.key, a.index, by_index);
            if (inside(a, depth)) tb_add_to_bin(s.bins[0], (uint32_t)((depth - first) >> shift), a.weight);
        }
        tb_finish_barrier();
        tb_bin_sums sums = tb_sum_bins(s.bins[0]);
        if (first == last) { /* equals, which stay or go together */
            const bool stay = tb_count_of(d.base) < k && tb_mass_of(d.base) < target;
            if (stay) d.base += sums.total;
            d.first = stay ? first + 1 : first;
            d.last = d.first - 1;
            return d;
        }
        sums.before += d.base;
        const tb_bin_found found = tb_find_bin(
            sums, [&](uint64_t after) { return tb_count_of(after) > k || tb_mass_of(after) >= target; });
        by_value = false;
        d.first = first + ((uint64_t)found.bin << shift); /* there is one, as in the bin all in all */
        d.last = min(d.first + (((uint64_t)1 << shift) - 1), (uint64_t)last); /* not the next value bin's */
        d.base = found.base;
        if (found.count <= TB_PAIRS) return d;
    }
}

/* Puts a token on the list of those that meet in pairs. */
template <class S> TB_DEV void tb_list_token(S &s, int list, const tb_fast_token &token, int at)
{
    const uint32_t to = tb_shared_add(&s.listed[list], 1);
    s.pair[to] = token;
    s.pair_at[to] = (uint16_t)at;
}

/* Token `at` stays: its mark, and its place among the bins of the indices. */
template <class S> TB_DEV void tb_keep(S &s, int at, const tb_fast_token &token, int shift)
{
    s.token[at].index = token.index | TB_KEPT;
    tb_add_to_bin(s.bins[1], token.index >> shift, token.weight);
}

/* What is kept of the candidates, whose bins of values s.bins[0] has, is marked and goes to the bins of the
 * indices, of 2^shift each. *target: of top_p, or more than any mass; where a top_k or min_p stands before
 * it, it is found here. */
template <class S>
TB_DEV void tb_mark_kept(int n, const tb_bin_sums &sums, uint32_t greatest, float maximum, float bins,
                         bool by_index, int shift, uint64_t target)
{
    S &s = *(S *)tb_fast_bytes;
    const int tid = threadIdx.x;
    const tb_fast_chain &chain = s.chain;
    const bool before_only = s.rule.before_only;
    const uint32_t k_both = (uint32_t)min(chain.k_before, chain.k_after);
    const uint64_t w_both = chain.w_before > chain.w_after ? chain.w_before : chain.w_after;
    int phase = 1;
    if (before_only) {
        if (tb_count_of(sums.total) > (uint32_t)chain.k_before)
            phase = 0;
        else
            target = law_top_p_target(chain.p, tb_mass_of(sums.total));
    }
#pragma unroll 1
    for (; phase < 2; phase++) {
        const uint32_t k = phase ? k_both : (uint32_t)chain.k_before;
        const uint64_t w = phase ? w_both : chain.w_before;
        tb_bin_found cut = tb_find_bin(
            sums, [&](uint64_t after) { return tb_count_of(after) > k || tb_mass_of(after) >= target; });
        const bool refined = cut.count > TB_PAIRS;
        tb_depths d = {0, 0, 0};
        if (refined) {
            d = tb_refine_cut<S>(n, greatest, maximum, bins, by_index, k, before_only ? chain.w_before : 0,
                                 target, cut.bin, cut.base);
            cut.base = d.base;
        }
        auto place = [&](const tb_fast_token &a, int i, bool above, bool at) {
            if (above && phase) tb_keep(s, i, a, shift);
            if (at) tb_list_token(s, phase, a, i);
        };
        if (refined) {
#pragma unroll 1
            for (int i = tid; i < n; i += TB_FINISHERS) {
                const tb_fast_token a = s.token[i];
                const uint64_t depth = tb_depth(greatest, a.key, a.index, by_index);
                if (a.weight >= w) place(a, i, depth < d.first, depth >= d.first && depth <= d.last);
            }
        } else {
#pragma unroll 1
            for (int i = tid; i < n; i += TB_FINISHERS) {
                const tb_fast_token a = tb_load_token(&s.token[i]);
                const uint32_t bin = tb_value_bin(law_key_value(a.key), maximum, bins);
                if (a.weight >= w) place(a, i, bin < cut.bin, bin == cut.bin);
            }
        }
        tb_finish_barrier();
        const int m = (int)s.listed[phase];
        if (tid < m) {
            const tb_fast_token mine = s.pair[tid];
            const uint32_t ties = by_index ? ~0u : 0u;
            const uint64_t own = (uint64_t)mine.key << 32 | (~mine.index & ties);
            uint64_t above = cut.base;
#pragma unroll 1
            for (int j = 0; j < m; j += 4)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const tb_fast_token a = tb_load_token(&s.pair[j + e]);
                    const bool greater = j + e < m && ((uint64_t)a.key << 32 | (~a.index & ties)) > own;
                    above += greater ? a.weight + ((uint64_t)1 << TB_COUNT_AT) : 0;
                }
            if (tb_count_of(above) < k && tb_mass_of(above) < target) {
                if (phase) {
                    tb_keep(s, s.pair_at[tid], mine, shift);
                } else {
                    tb_shared_add(&s.rest_high, tb_high_digit(mine.weight));
                    tb_shared_add(&s.rest_low, tb_low_digit(mine.weight));
                }
            }
        }
        tb_finish_barrier();
        if (!phase)
            target = law_top_p_target(chain.p, tb_mass_of(cut.base) + tb_join(s.rest_high, s.rest_low));
    }
}

/* The same as a function of its own, for kernels of 64 registers, which otherwise keep many values in local
 * memory: that is far away, the multiprocessor's cache being shared memory. */
template <class S>
static __device__ __noinline__ void tb_mark_kept_apart(int n, const tb_bin_sums &sums, uint32_t greatest,
                                                       float maximum, float bins, bool by_index, int shift,
                                                       uint64_t target)
{
    tb_mark_kept<S>(n, sums, greatest, maximum, bins, by_index, shift, target);
}

/* Forgets what was marked, and counts the candidates' values again. */
template <class S> TB_DEV void tb_unmark(int n, float maximum, float bins)
{
    S &s = *(S *)tb_fast_bytes;
    const int tid = threadIdx.x;
    tb_finish_barrier();
    for (int i = tid; i < 2 * (int)(sizeof(tb_stream_bins) / 4); i += TB_FINISHERS)
        ((uint32_t *)s.bins)[i] = 0;
    if (tid < 3) s.listed[tid] = 0;
    tb_finish_barrier();
    for (int i = tid; i < n; i += TB_FINISHERS) {
        const tb_fast_token a = s.token[i];
        s.token[i].index = a.index & ~TB_KEPT;
        tb_add_to_bin(s.bins[0], tb_value_bin(law_key_value(a.key), maximum, bins), a.weight);
    }
    tb_finish_barrier();
}

/* Ids of the marked tokens, ascending: each counts those of lower index. `list` has room for all. */
template <class S>
static __device__ __noinline__ void tb_write_ids(const tombola_call &call, int64_t row, int n, int kept)
{
    S &s = *(S *)tb_fast_bytes;
    const int tid = threadIdx.x;
    int32_t *ids = call.kept_ids + row * call.kept_capacity;
    uint32_t *list = (uint32_t *)s.group;
    if (tid == 0) s.rest_high = 0;
    if (tid < 4) list[kept + tid] = ~0u;
    tb_finish_barrier();
    for (int i = tid; i < n; i += TB_FINISHERS) {
        const uint32_t index = s.token[i].index;
        if (index & TB_KEPT) list[tb_shared_add(&s.rest_high, 1)] = index;
    }
    tb_finish_barrier();
    for (int i = tid; i < kept; i += TB_FINISHERS) {
        const uint32_t mine = list[i];
        int place = 0;
        for (int j = 0; j < kept; j += 4) {
            const uint4 a = *(const uint4 *)(list + j);
            place += (a.x < mine) + (a.y < mine) + (a.z < mine) + (a.w < mine);
        }
        if (place < call.kept_capacity) ids[place] = (int32_t)(mine & ~TB_KEPT);
    }
#pragma unroll 1
    for (int64_t i = kept + tid; i < call.kept_capacity; i += TB_FINISHERS) ids[i] = -1;
}

/* The draw among the marked tokens, whose bins of indices, of 2^shift each, have these sums, and the outputs;
 * `scale` is 0 where all weigh the same. */
template <class S>
TB_DEV void tb_draw_kept(const tombola_call &call, int64_t row, tb_fast_result result, int n,
                         tb_bin_sums sums, int shift, float scale, float maximum)
{
    S &s = *(S *)tb_fast_bytes;
    const int tid = threadIdx.x;
    const uint64_t position = law_draw_position(s.random, result.mass);
    uint32_t first = TB_KEPT;
    tb_bin_found found;
#pragma unroll 1
    for (;;) { /* a bin of too many tokens for pairs is divided again, down to an index each */
        found = tb_find_bin(sums, [&](uint64_t after) { return tb_mass_of(after) > position; });
        first += found.bin << shift;
        if (found.count <= TB_PAIRS) break;
        const uint32_t end = first + (1u << shift);
        shift = max(0, shift - 7);
        tb_finish_barrier();
        if (tid < TB_BINS) s.bins[1].high[tid] = s.bins[1].low[tid] = s.bins[1].count[tid] = 0;
        tb_finish_barrier();
#pragma unroll 1
        for (int i = tid; i < n; i += TB_FINISHERS) {
            const tb_fast_token a = s.token[i];
            if (a.index >= first && a.index < end)
                tb_add_to_bin(s.bins[1], (a.index - first) >> shift, a.weight);
        }
        tb_finish_barrier();
        sums = tb_sum_bins(s.bins[1]);
        sums.before += found.base;
    }
#pragma unroll 1
    for (int i = tid; i < n; i += TB_FINISHERS) {
        const tb_fast_token a = s.token[i];
        if (a.index - first < 1u << shift) tb_list_token(s, 2, a, i);
    }
    tb_finish_barrier();
    const int m = (int)s.listed[2];
    bool drawn = false;
    tb_fast_token mine;
    if (tid < m) {
        mine = s.pair[tid];
        uint64_t before = tb_mass_of(found.base);
#pragma unroll 1
        for (int j = 0; j < m; j += 4)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const tb_fast_token a = tb_load_token(&s.pair[j + e]);
                before += j + e < m && a.index < mine.index ? a.weight : 0;
            }
        drawn = before <= position && position - before < mine.weight;
    }
    if (call.ranks) {
        if (drawn) s.drawn_key = mine.key, s.rest_low = 0;
        tb_finish_barrier();
        uint32_t reach = 0;
        for (int i = tid; i < n; i += TB_FINISHERS) reach += s.token[i].key >= s.drawn_key;
        __syncwarp();
        reach = tb_warp_sum(reach);
        if (tb_lane() == 0) tb_shared_add(&s.rest_low, reach);
        tb_finish_barrier();
        result.rank = (int32_t)s.rest_low;
    }
    if (drawn) {
        result.token = (int32_t)(mine.index & ~TB_KEPT);
        if (scale) result.t = law_exponent(law_key_value(mine.key), maximum, scale);
        tb_fast_write(call, row, result);
    }
    if (call.kept_ids) tb_write_ids<S>(call, row, n, result.kept);
}

#endif
