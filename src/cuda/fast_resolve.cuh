/*
 * The streaming kernel's finish (fast_stream.cuh): what the leader's TB_FINISHERS threads do with the weighed
 * candidates, all in shared memory. Up to TB_PAIRS of them are ranked by comparing all pairs; among more, the
 * cut, what it keeps, the draw and the kept ids are found by digits.
 */
#ifndef TB_CUDA_FAST_RESOLVE_CUH
#define TB_CUDA_FAST_RESOLVE_CUH

#include "fast_candidates.cuh"

/* Where a token stands, from the greatest down: 0 for the greatest. Under TIES_ALL equals share a place. */
TB_DEV uint64_t tb_depth(uint32_t greatest, uint32_t key, uint32_t index, bool by_index)
{
    return (uint64_t)(greatest - key) << LAW_INDEX_BITS | (by_index ? index : 0u);
}

/*
 * All pairs of up to TB_PAIRS tokens, by the block's finishers: each warp compares its share of the list with
 * all of it, ROUNDS tokens a lane, so that a token read from shared memory, which costs four cycles, serves
 * them all. Of the tokens that are greater by (key, `ties` of the index, the lower one first) the masses are
 * added, and `count` in the bits above 2^48 for each.
 */
#define TB_PAIR_COUNT 48

template <int ROUNDS>
TB_DEV void tb_pair_share(const tb_fast_token *list, int n, uint32_t ties, uint32_t count, uint64_t *pairs)
{
    const int lane = (int)tb_lane(), warp = (int)tb_warp();
    uint64_t mine[ROUNDS], sum[ROUNDS];
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
        mine[i] = (uint64_t)list[lane + i * 32].key << 32 | (~list[lane + i * 32].index & ties);
        sum[i] = 0;
    }
#pragma unroll 1
    for (int j = warp; j < n; j += TB_PAIR_STEP) {
#pragma unroll
        for (int e = 0; e < TB_PAIR_STEP; e += TB_FINISHERS / 32) {
            const tb_fast_token token = list[j + e];
            const uint64_t other = (uint64_t)token.key << 32 | (~token.index & ties);
            const uint64_t weight = token.weight + ((uint64_t)count << TB_PAIR_COUNT);
#pragma unroll
            for (int i = 0; i < ROUNDS; i++) sum[i] += other > mine[i] ? weight : 0;
        }
    }
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) pairs[warp * TB_PAIRS + lane + i * 32] = sum[i];
}

/* The list is filled up to a multiple of TB_PAIR_STEP. A barrier must follow. */
static __device__ __noinline__ void tb_pair_all(const tb_fast_token *list, int n, uint32_t ties,
                                                uint32_t count, uint64_t *pairs)
{
    if (n <= 32)
        tb_pair_share<1>(list, n, ties, count, pairs);
    else if (n <= 64)
        tb_pair_share<2>(list, n, ties, count, pairs);
    else if (n <= 96)
        tb_pair_share<3>(list, n, ties, count, pairs);
    else
        tb_pair_share<4>(list, n, ties, count, pairs);
}

/* What all warps found of token `at`: *mass and the count. */
TB_DEV uint32_t tb_pair_sum(const uint64_t *pairs, int at, uint64_t *mass)
{
    uint64_t sum = 0;
#pragma unroll
    for (int i = 0; i < TB_FINISHERS / 32; i++) sum += pairs[i * TB_PAIRS + at];
    *mass = sum & (((uint64_t)1 << TB_PAIR_COUNT) - 1);
    return (uint32_t)(sum >> TB_PAIR_COUNT);
}

/* What a thread knows of the token of its number when all pairs have met. */
typedef struct tb_fast_rank {
    tb_fast_token token;
    bool has; /* there is one */
    uint32_t greater;
    uint64_t above; /* count and mass of the greater ones */
} tb_fast_rank;

TB_DEV tb_fast_rank tb_rank_of(const tb_fast_token *list, int n, const uint64_t *pairs)
{
    tb_fast_rank r = {tb_no_token(), (int)threadIdx.x < n, 0, 0};
    if (!r.has) return r;
    r.token = list[threadIdx.x];
    r.greater = tb_pair_sum(pairs, threadIdx.x, &r.above);
    return r;
}

/* A token in the list of the kept ones, which are compared by index: ~index, key, and in its weight a count.
 */
TB_DEV tb_fast_token tb_kept_token(const tb_fast_token &token)
{
    tb_fast_token kept = {~token.index, token.key, token.weight | (uint64_t)1 << TB_PAIR_COUNT};
    return kept;
}

/* The draw among up to TB_PAIRS tokens, in s.kept those that are kept, of mass result.mass, and the outputs;
 * `scale` is 0 where all weigh the same. */
template <class S>
TB_DEV void tb_draw_few(const tombola_call &call, int64_t row, tb_fast_result result, int n, float scale,
                        float maximum)
{
    S &s = *(S *)tb_fast_bytes;
    const int tid = threadIdx.x, kept = result.kept;
    tb_pair_all(s.kept, kept, 0, 0, tb_pair_room(s));
    const uint64_t position = law_draw_position(s.random, result.mass);
    tb_finish_barrier();
    if (tid < kept) {
        const tb_fast_token token = s.kept[tid];
        uint64_t before;
        const uint32_t place = tb_pair_sum(tb_pair_room(s), tid, &before), index = ~token.key,
                       key = token.index;
        const uint64_t weight = token.weight & (((uint64_t)1 << TB_PAIR_COUNT) - 1);
        if (before <= position && position - before < weight) {
            result.token = (int32_t)index;
            if (scale) result.t = law_exponent(law_key_value(key), maximum, scale);
            if (call.ranks)
                for (int j = 0; j < n; j++) result.rank += s.token[j].key >= key;
            tb_fast_write(call, row, result);
        }
        if (call.kept_ids && place < call.kept_capacity)
            call.kept_ids[row * call.kept_capacity + place] = (int32_t)index;
    }
    if (call.kept_ids)
        for (int64_t j = kept + tid; j < call.kept_capacity; j += TB_FINISHERS)
            call.kept_ids[row * call.kept_capacity + j] = -1;
}

/*
 * The cut among many candidates: a token is kept if its depth is at most the cut and its weight at least
 * `least`. Digit by digit from the top: histograms of counts and masses, until the bin in which the cut lies
 * has few tokens, or is one class of equals.
 */
template <class S>
static __device__ __noinline__ uint64_t tb_select_many(int n, uint32_t greatest, uint32_t span, bool by_index,
                                                       uint32_t k, uint64_t least, uint64_t target)
{
    S &s = *(S *)tb_fast_bytes;
    int tid = threadIdx.x, floor = by_index ? 0 : LAW_INDEX_BITS,
        upper = LAW_INDEX_BITS + 32 - __clz(span | 1);
    uint64_t prefix = 0, base_mass = 0;
    uint32_t base_count = 0;
    for (;;) {
        int shift = max(floor, upper - 8);
        tb_finish_barrier();
        for (int i = tid; i < 256; i += TB_FINISHERS) s.count[i] = s.high[i] = s.low[i] = 0;
        if (tid == 0) s.list_count = 0;
        tb_finish_barrier();
        for (int i = tid; i < n; i += TB_FINISHERS) {
            tb_fast_token a = s.token[i];
            uint64_t depth = tb_depth(greatest, a.key, a.index, by_index);
            if (a.weight < least || depth >> upper != prefix) continue;
            uint32_t bin = (uint32_t)(depth >> shift) & ((1u << (upper - shift)) - 1);
            atomicAdd(&s.count[bin], 1u);
            atomicAdd(&s.high[bin], tb_high_digit(a.weight));
            atomicAdd(&s.low[bin], tb_low_digit(a.weight));
        }
        tb_finish_barrier();
        if (tb_warp() == 0) {
            int lane = (int)tb_lane();
            uint32_t count = 0;
            uint64_t mass = 0;
            for (int i = 0; i < 8; i++) {
                count += s.count[lane * 8 + i];
                mass += tb_join(s.high[lane * 8 + i], s.low[lane * 8 + i]);
            }
            uint32_t before = tb_warp_scan(count) - count + base_count, hit = 256, hit_count = 0;
            uint64_t mass_before = tb_warp_scan64(mass) - mass + base_mass, hit_mass = 0;
            for (int i = 0; i < 8; i++) {
                uint32_t c = s.count[lane * 8 + i];
                uint64_t m = tb_join(s.high[lane * 8 + i], s.low[lane * 8 + i]);
                /* the first bin of which not every token is surely kept; after it every token is dropped */
                if (hit == 256 && c && (before + c > k || mass_before + m >= target)) {
                    hit = lane * 8 + i;
                    hit_count = before;
                    hit_mass = mass_before;
                }
                before += c;
                mass_before += m;
            }
            uint32_t bin = tb_warp_min(hit);
            if (lane == 0) s.bin = bin;
            if (hit == bin && bin < 256) s.base_count = hit_count, s.base_mass = hit_mass;
        }
        tb_finish_barrier();
        uint32_t bin = s.bin;
        if (bin == 256) return ~(uint64_t)0; /* all are kept */
        base_count = s.base_count;
        base_mass = s.base_mass;
        prefix = prefix << (upper - shift) | bin;
        uint64_t start =
            prefix << shift; /* the first class of all is kept, so start > 0 where 1 is taken off */
        if (shift == floor) {
            bool stays = base_count < k && base_mass < target;
            return stays ? start | (((uint64_t)1 << shift) - 1) : start - 1;
        }
        upper = shift;
        if (s.count[bin] > TB_PAIRS) continue;
        for (int i = tid; i < n; i += TB_FINISHERS) {
            tb_fast_token a = s.token[i];
            if (a.weight >= least && tb_depth(greatest, a.key, a.index, by_index) >> shift == prefix)
                s.kept[atomicAdd(&s.list_count, 1u)] = a;
        }
        if (tid == 0) s.cut = start ? start - 1 : 0;
        tb_finish_barrier();
        if (tid >= (int)s.list_count && tid < TB_PAIRS) s.kept[tid] = tb_no_token();
        tb_finish_barrier();
        const int m = (int)s.list_count;
        tb_pair_all(s.kept, m, by_index ? ~0u : 0u, 1, tb_pair_room(s));
        tb_finish_barrier();
        tb_fast_rank mine = tb_rank_of(s.kept, m, tb_pair_room(s));
        if (mine.has && base_count + mine.greater < k && base_mass + mine.above < target)
            atomicMax((unsigned long long *)&s.cut,
                      tb_depth(greatest, mine.token.key, mine.token.index, by_index));
        tb_finish_barrier();
        uint64_t cut = s.cut;
        /* a class of equals reaches down to its last index */
        return by_index ? cut : cut | ((1u << LAW_INDEX_BITS) - 1);
    }
}

/* What of the kept tokens decides the draw: one thread finds itself to be the drawn one. */
typedef struct tb_fast_drawn {
    bool mine;
    uint32_t key;
    int32_t index;
} tb_fast_drawn;

/* The token at `position` of the mass of the tokens that the cut keeps, in index order. */
template <class S>
static __device__ __noinline__ tb_fast_drawn tb_draw_many(int n, uint32_t greatest, bool by_index,
                                                          uint64_t cut, uint64_t least, uint64_t position,
                                                          uint32_t length)
{
    S &s = *(S *)tb_fast_bytes;
    int tid = threadIdx.x, upper = 32 - __clz(length);
    uint32_t prefix = 0;
    for (;;) {
        int shift = max(0, upper - 8);
        tb_finish_barrier();
        for (int i = tid; i < 256; i += TB_FINISHERS) s.count[i] = s.high[i] = s.low[i] = 0;
        if (tid == 0) s.list_count = 0;
        tb_finish_barrier();
        for (int i = tid; i < n; i += TB_FINISHERS) {
            tb_fast_token a = s.token[i];
            if (a.weight < least || tb_depth(greatest, a.key, a.index, by_index) > cut ||
                a.index >> upper != prefix)
                continue;
            uint32_t bin = (a.index >> shift) & ((1u << (upper - shift)) - 1);
            atomicAdd(&s.count[bin], 1u);
            atomicAdd(&s.high[bin], tb_high_digit(a.weight));
            atomicAdd(&s.low[bin], tb_low_digit(a.weight));
        }
        tb_finish_barrier();
        if (tb_warp() == 0) {
            int lane = (int)tb_lane();
            uint64_t mass = 0;
            for (int i = 0; i < 8; i++) mass += tb_join(s.high[lane * 8 + i], s.low[lane * 8 + i]);
            uint64_t end = tb_warp_scan64(mass), before = end - mass;
            if (before <= position && position < end) {
                for (int i = 0; i < 8; i++) {
                    uint64_t m = tb_join(s.high[lane * 8 + i], s.low[lane * 8 + i]);
                    if (position - before < m) {
                        s.bin = lane * 8 + i;
                        s.position = position - before;
                        break;
                    }
                    before += m;
                }
            }
        }
        tb_finish_barrier();
        uint32_t bin = s.bin;
        position = s.position;
        prefix = prefix << (upper - shift) | bin;
        upper = shift;
        if (s.count[bin] > TB_PAIRS) continue;
        for (int i = tid; i < n; i += TB_FINISHERS) {
            tb_fast_token a = s.token[i];
            if (a.weight >= least && tb_depth(greatest, a.key, a.index, by_index) <= cut &&
                a.index >> shift == prefix)
                s.kept[atomicAdd(&s.list_count, 1u)] = a;
        }
        tb_finish_barrier();
        const int m = (int)s.list_count;
        tb_fast_token me = tb_no_token();
        if (tid < m) me = s.kept[tid];
        tb_finish_barrier();
        if (tid < TB_PAIRS) s.kept[tid] = tid < m ? tb_kept_token(me) : me;
        tb_finish_barrier();
        tb_pair_all(s.kept, m, 0, 0, tb_pair_room(s));
        tb_finish_barrier();
        tb_fast_drawn drawn = {false, 0, 0};
        if (tid < m) {
            uint64_t before;
            tb_pair_sum(tb_pair_room(s), tid, &before);
            if (before <= position && position - before < me.weight)
                drawn = {true, me.key, (int32_t)me.index};
        }
        return drawn;
    }
}

/* Mass and count of what a cut keeps of many candidates, into s.kept_high, kept_low and kept_count. */
template <class S>
static __device__ __noinline__ void tb_sum_many(int n, uint32_t greatest, bool by_index, uint64_t cut,
                                                uint64_t least)
{
    S &s = *(S *)tb_fast_bytes;
    uint32_t high = 0, low = 0, found = 0;
    for (int i = threadIdx.x; i < n; i += TB_FINISHERS) {
        tb_fast_token a = s.token[i];
        if (a.weight < least || tb_depth(greatest, a.key, a.index, by_index) > cut) continue;
        high += tb_high_digit(a.weight);
        low += tb_low_digit(a.weight);
        found++;
    }
    tb_finish_barrier();
    if (threadIdx.x == 0) s.kept_high = s.kept_low = s.kept_count = 0;
    tb_finish_barrier();
    tb_add_digits(&s.kept_high, &s.kept_low, high, low);
    found = tb_warp_sum(found);
    if (tb_lane() == 0) atomicAdd(&s.kept_count, found);
    tb_finish_barrier();
}

/* Ids of the kept tokens among many candidates, ascending: each counts the kept ones of lower index. */
template <class S>
static __device__ __noinline__ void tb_write_ids_many(const tombola_call &call, int64_t row, int n,
                                                      uint32_t greatest, bool by_index, uint64_t cut,
                                                      uint64_t least, int kept)
{
    S &s = *(S *)tb_fast_bytes;
    int32_t *ids = call.kept_ids + row * call.kept_capacity;
    for (int i = threadIdx.x; i < n; i += TB_FINISHERS) {
        tb_fast_token a = s.token[i];
        if (a.weight < least || tb_depth(greatest, a.key, a.index, by_index) > cut) continue;
        int place = 0;
        for (int j = 0; j < n; j++) {
            tb_fast_token b = s.token[j];
            place +=
                b.index < a.index && b.weight >= least && tb_depth(greatest, b.key, b.index, by_index) <= cut;
        }
        if (place < call.kept_capacity) ids[place] = (int32_t)a.index;
    }
    for (int64_t i = kept + threadIdx.x; i < call.kept_capacity; i += TB_FINISHERS) ids[i] = -1;
}

#endif
