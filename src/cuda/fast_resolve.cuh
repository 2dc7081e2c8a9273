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

/* One token against every LANES-th of a list, filled up to TB_PAIR_STEP, from the thread's own place. */
template <int LANES>
TB_DEV void tb_rank_one(const tb_fast_token *list, int n, bool by_index, const tb_fast_token &mine,
                        uint32_t *count, uint32_t *high, uint32_t *low)
{
    const tb_fast_token *at = list + threadIdx.x % LANES, *end = list + n;
    uint32_t key = mine.key, tie = by_index ? mine.index : 0u, c = 0, h = 0, l = 0;
#pragma unroll 1
    for (; at < end; at += TB_PAIR_STEP) {
#pragma unroll
        for (int j = 0; j < TB_PAIR_STEP / LANES; j++) {
            tb_fast_token other = at[j * LANES];
            bool greater = other.key > key || (other.key == key && other.index < tie);
            c += greater ? 1u : 0u;
            h += greater ? other.high : 0u;
            l += greater ? other.low : 0u;
        }
    }
#pragma unroll
    for (int d = 1; d < LANES; d *= 2) {
        c += __shfl_xor_sync(TB_WHOLE_WARP, c, d);
        h += __shfl_xor_sync(TB_WHOLE_WARP, h, d);
        l += __shfl_xor_sync(TB_WHOLE_WARP, l, d);
    }
    *count = c;
    *high = h;
    *low = l;
}

/* What a thread knows of a token when all pairs have met. */
typedef struct tb_fast_rank {
    tb_fast_token token;
    bool has;     /* there is one */
    int at, part; /* its place in the list; the thread's among those that share it */
    int spread;   /* which are 1 << spread */
    uint32_t greater;
    uint64_t above; /* count and mass of the greater ones */
} tb_fast_rank;

/* All pairs of up to TB_PAIRS tokens by the block. */
TB_DEV tb_fast_rank tb_rank_pairs(const tb_fast_token *list, int n, bool by_index)
{
    tb_fast_rank r;
    r.spread = n <= TB_FINISHERS / 8 ? 3 : n <= TB_FINISHERS / 4 ? 2 : 1;
    r.at = (int)threadIdx.x >> r.spread;
    r.part = (int)threadIdx.x & ((1 << r.spread) - 1);
    r.has = r.at < n;
    r.token = list[min(r.at, n - 1)];
    r.greater = 0;
    r.above = 0;
    if ((int)(threadIdx.x & ~31u) >> r.spread >= n) return r;
    uint32_t high, low;
    if (r.spread == 3)
        tb_rank_one<8>(list, n, by_index, r.token, &r.greater, &high, &low);
    else if (r.spread == 2)
        tb_rank_one<4>(list, n, by_index, r.token, &r.greater, &high, &low);
    else
        tb_rank_one<2>(list, n, by_index, r.token, &r.greater, &high, &low);
    r.above = tb_join(high, low);
    return r;
}

/* Mass and number of a list's tokens of lower index, and all mass, as tb_rank_one. */
template <int LANES>
TB_DEV void tb_place_one(const tb_fast_token *list, int n, uint32_t index, uint64_t *before, uint64_t *all,
                         uint32_t *place)
{
    const tb_fast_token *at = list + threadIdx.x % LANES, *end = list + n;
    uint32_t high = 0, low = 0, all_high = 0, all_low = 0, p = 0;
#pragma unroll 1
    for (; at < end; at += TB_PAIR_STEP) {
#pragma unroll
        for (int j = 0; j < TB_PAIR_STEP / LANES; j++) {
            tb_fast_token other = at[j * LANES];
            bool lower = other.index < index;
            all_high += other.high;
            all_low += other.low;
            p += lower ? 1u : 0u;
            high += lower ? other.high : 0u;
            low += lower ? other.low : 0u;
        }
    }
#pragma unroll
    for (int d = 1; d < LANES; d *= 2) {
        high += __shfl_xor_sync(TB_WHOLE_WARP, high, d);
        low += __shfl_xor_sync(TB_WHOLE_WARP, low, d);
        all_high += __shfl_xor_sync(TB_WHOLE_WARP, all_high, d);
        all_low += __shfl_xor_sync(TB_WHOLE_WARP, all_low, d);
        p += __shfl_xor_sync(TB_WHOLE_WARP, p, d);
    }
    *before = tb_join(high, low);
    *all = tb_join(all_high, all_low);
    *place = p;
}

/* The draw among up to TB_PAIRS tokens, in s.kept those that are kept at their places, and the outputs;
 * `scale` is 0 where all weigh the same. */
template <class S>
TB_DEV void tb_draw_few(const tombola_call &call, int64_t row, tb_fast_result result, int n,
                        const tb_fast_rank &mine, bool stays, float scale, float maximum)
{
    S &s = *(S *)tb_fast_bytes;
    if ((int)(threadIdx.x & ~31u) >> mine.spread < n) {
        uint64_t before;
        uint32_t place;
        if (mine.spread == 3)
            tb_place_one<8>(s.kept, n, mine.token.index, &before, &result.mass, &place);
        else if (mine.spread == 2)
            tb_place_one<4>(s.kept, n, mine.token.index, &before, &result.mass, &place);
        else
            tb_place_one<2>(s.kept, n, mine.token.index, &before, &result.mass, &place);
        if (stays && mine.part == 0) {
            uint64_t position = law_draw_position(s.random, result.mass);
            if (before <= position && position - before < tb_join(mine.token.high, mine.token.low)) {
                result.token = (int32_t)mine.token.index;
                if (scale) result.t = law_exponent(law_key_value(mine.token.key), maximum, scale);
                if (call.ranks)
                    for (int j = 0; j < n; j++) result.rank += s.token[j].key >= mine.token.key;
                tb_fast_write(call, row, result);
            }
            if (call.kept_ids && place < call.kept_capacity)
                call.kept_ids[row * call.kept_capacity + place] = (int32_t)mine.token.index;
        }
    }
    if (call.kept_ids)
        for (int64_t j = result.kept + threadIdx.x; j < call.kept_capacity; j += TB_FINISHERS)
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
            if (tb_join(a.high, a.low) < least || depth >> upper != prefix) continue;
            uint32_t bin = (uint32_t)(depth >> shift) & ((1u << (upper - shift)) - 1);
            atomicAdd(&s.count[bin], 1u);
            atomicAdd(&s.high[bin], a.high);
            atomicAdd(&s.low[bin], a.low);
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
            if (tb_join(a.high, a.low) >= least &&
                tb_depth(greatest, a.key, a.index, by_index) >> shift == prefix)
                s.kept[atomicAdd(&s.list_count, 1u)] = a;
        }
        if (tid == 0) s.cut = start ? start - 1 : 0;
        tb_finish_barrier();
        if (tid >= (int)s.list_count && tid < TB_PAIRS) s.kept[tid] = tb_no_token();
        tb_finish_barrier();
        tb_fast_rank mine = tb_rank_pairs(s.kept, (int)s.list_count, by_index);
        if (mine.has && mine.part == 0 && base_count + mine.greater < k && base_mass + mine.above < target)
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
            if (tb_join(a.high, a.low) < least || tb_depth(greatest, a.key, a.index, by_index) > cut ||
                a.index >> upper != prefix)
                continue;
            uint32_t bin = (a.index >> shift) & ((1u << (upper - shift)) - 1);
            atomicAdd(&s.count[bin], 1u);
            atomicAdd(&s.high[bin], a.high);
            atomicAdd(&s.low[bin], a.low);
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
            if (tb_join(a.high, a.low) >= least && tb_depth(greatest, a.key, a.index, by_index) <= cut &&
                a.index >> shift == prefix)
                s.kept[atomicAdd(&s.list_count, 1u)] = a;
        }
        tb_finish_barrier();
        int m = (int)s.list_count;
        tb_fast_drawn drawn = {false, 0, 0};
        if (tid < m) {
            tb_fast_token me = s.kept[tid];
            uint32_t high = 0, low = 0;
            for (int j = 0; j < m; j++) {
                tb_fast_token other = s.kept[j];
                if (other.index <= me.index) high += other.high, low += other.low;
            }
            uint64_t end = tb_join(high, low);
            if (end > position && end - tb_join(me.high, me.low) <= position)
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
        if (tb_join(a.high, a.low) < least || tb_depth(greatest, a.key, a.index, by_index) > cut) continue;
        high += a.high;
        low += a.low;
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
        if (tb_join(a.high, a.low) < least || tb_depth(greatest, a.key, a.index, by_index) > cut) continue;
        int place = 0;
        for (int j = 0; j < n; j++) {
            tb_fast_token b = s.token[j];
            place += b.index < a.index && tb_join(b.high, b.low) >= least &&
                     tb_depth(greatest, b.key, b.index, by_index) <= cut;
        }
        if (place < call.kept_capacity) ids[place] = (int32_t)a.index;
    }
    for (int64_t i = kept + threadIdx.x; i < call.kept_capacity; i += TB_FINISHERS) ids[i] = -1;
}

#endif
