/*
 * Intervals of values of a row that lies in the shared memory of its team: bounds of where a cut can be, and
 * histograms with exact counts and masses, summed over the team.
 */
#ifndef TB_CUDA_WHOLE_BINS_CUH
#define TB_CUDA_WHOLE_BINS_CUH

#include "bins.cuh"
#include "whole_read.cuh"

/* An interval of keys, its tokens' bins: equal intervals of values, or of keys; bin 0 is the greatest. */
typedef struct tb_whole_bins {
    uint32_t low, high, shift;
    float least, top, inverse;
    bool linear;
} tb_whole_bins;

template <uint32_t BINS = TB_WHOLE_BINS>
TB_DEV tb_whole_bins tb_whole_make_bins(uint32_t low, uint32_t high, bool linear)
{
    tb_whole_bins bins;
    /* no value has the key below that of 0, whose value is -0 */
    if (low == 0x7fffffffu) low++;
    if (high == 0x7fffffffu) high--;
    bins.low = low;
    bins.high = high;
    bins.least = law_key_value(low);
    bins.top = law_key_value(high);
    const uint32_t width = high > low ? high - low : 1, most = BINS - 1;
    bins.shift =
        (uint32_t)__clz((int)most) > (uint32_t)__clz((int)width) ? __clz((int)most) - __clz((int)width) : 0;
    if (width >> bins.shift >= BINS) bins.shift++;
    bins.inverse = (float)(BINS - 1) / (bins.top - bins.least);
    bins.linear = linear && bins.inverse > 0.0f && bins.inverse < LAW_INF;
    return bins;
}

/* The bin of a value in the interval. Monotone: each operation is. */
template <uint32_t BINS = TB_WHOLE_BINS> TB_DEV uint32_t tb_whole_bin(const tb_whole_bins &bins, float x)
{
    if (!bins.linear) return (bins.high - law_key(x)) >> bins.shift;
    float at = fminf((bins.top - x) * bins.inverse, (float)(BINS - 1));
    return law_bits(at + 0x1p23f) - law_bits(0x1p23f);
}

/* The interval of keys of one of its bins. */
template <uint32_t BINS = TB_WHOLE_BINS>
TB_DEV void tb_whole_narrow(const tb_whole_bins &bins, uint32_t bin, uint32_t *low, uint32_t *high)
{
    if (!bins.linear) {
        uint64_t down = ((uint64_t)(bin + 1) << bins.shift) - 1;
        *low = down < bins.high - bins.low ? bins.high - (uint32_t)down : bins.low;
        *high = bins.high - (bin << bins.shift);
        return;
    }
    auto within = [&](uint32_t key, uint32_t b) { return tb_whole_bin<BINS>(bins, law_key_value(key)) <= b; };
    *low = tb_least_key(bins.low, bins.high, [&](uint32_t key) { return within(key, bin); });
    *high = bins.high;
    if (bin) *high = tb_least_key(*low, bins.high, [&](uint32_t key) { return within(key, bin - 1); }) - 1;
}

/* ---- bounds from the groups' greatest ---- */

/* A key that at least `wanted` of the groups reach, if so many reach `least`, else 0. About the greatest such
 * one: within a 128th of the distance from the least group to the greatest. By each warp on its own. */
TB_CALL uint32_t tb_whole_group_bound(const uint4 *group, uint32_t quarters, uint32_t wanted, uint32_t least,
                                      uint32_t greatest, bool logarithmic)
{
    uint4 g[TB_WHOLE_WARPS * 16 / 32]; /* of the greatest team */
    uint32_t low = greatest, high = greatest, n = 0;
#pragma unroll
    for (int i = 0; i < TB_WHOLE_WARPS * 16 / 32; i++) {
        uint32_t at = i * 32 + tb_lane();
        g[i] = at < quarters ? group[at] : make_uint4(0, 0, 0, 0);
        const uint32_t key[4] = {g[i].x, g[i].y, g[i].z, g[i].w};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            bool counts = key[j] >= least;
            n += counts;
            low = counts && key[j] < low ? key[j] : low;
        }
    }
    if (tb_warp_sum(n) < wanted) return 0;
    low = tb_warp_min(low);
    /* halving: of values, since logits are near to one another, or of keys, as if of logarithms */
#pragma unroll 1
    for (int step = 0; step < 7 && low < high; step++) {
        float bottom = law_key_value(low), top = law_key_value(high);
        uint32_t key = low + (high - low + 1) / 2;
        if (!logarithmic && top - bottom < LAW_INF) key = law_key(bottom + (top - bottom) * 0.5f);
        if (key <= low) break;
        n = 0;
#pragma unroll
        for (int i = 0; i < TB_WHOLE_WARPS * 16 / 32; i++)
            n += (g[i].x >= key) + (g[i].y >= key) + (g[i].z >= key) + (g[i].w >= key);
        if (tb_warp_sum(n) >= wanted)
            low = key;
        else
            high = key;
    }
    return low;
}

/* The same, but of 128 larger parts, by the block, for the tokens of at least 4 blocks: a key that somewhat
 * more tokens reach, sooner. Each of them is compared with all. */
#define TB_WHOLE_FOLDS 128
template <class R> TB_DEV uint32_t tb_whole_fold_bound(const R &r, uint32_t wanted, uint32_t least)
{
    static_assert(TB_WHOLE_THREADS == 2 * TB_WHOLE_FOLDS, "two threads for each");
    uint32_t *fold = (uint32_t *)r.s->few_own; /* 128 words are 4, 2 or 1 of each warp of the team */
    const uint32_t of_warp = 16 / r.team.size, i = threadIdx.x;
    if (i < TB_WHOLE_FOLDS) {
        const uint4 g = r.group[i / of_warp];
        const uint32_t a = g.x > g.y ? g.x : g.y, b = g.z > g.w ? g.z : g.w, part = i % of_warp;
        uint32_t key = of_warp == 1 ? (a > b ? a : b) : of_warp == 2 ? (part ? b : a) : part & 1 ? g.y : g.x;
        if (of_warp == 4 && part > 1) key = part & 1 ? g.w : g.z;
        fold[i] = (key | (TB_WHOLE_FOLDS - 1)) - i; /* all different; rounded in value, no matter which way */
    }
    __syncthreads();
    const uint32_t mine = fold[i / 2];
    uint32_t before = 0;
#pragma unroll
    for (uint32_t j = 0; j < TB_WHOLE_FOLDS / 8; j++) {
        const uint4 g = *(const uint4 *)&fold[j * 8 + i % 2 * 4];
        before += (g.x > mine) + (g.y > mine) + (g.z > mine) + (g.w > mine);
    }
    before += __shfl_xor_sync(TB_WHOLE_WARP, before, 1);
    if (before == wanted - 1) r.s->scratch.word[0] = mine & ~(uint32_t)(TB_WHOLE_FOLDS - 1);
    __syncthreads();
    const uint32_t bound = (uint32_t)r.s->scratch.word[0];
    return bound < least ? 0 : bound;
}

template <class R> TB_DEV uint32_t tb_whole_group_bound(const R &r, uint32_t wanted, uint32_t least)
{
    return tb_whole_group_bound(r.group, r.team.size * TB_WHOLE_WARPS, wanted, least, r.greatest,
                                r.weigher.probabilities);
}

/* Whether the groups' greatest, to go by a sample of them, hold a quarter of a mass. A guess. */
template <class R> TB_DEV bool tb_whole_peaked(const R &r, uint32_t least, uint64_t mass)
{
    const uint32_t quarters = r.team.size * TB_WHOLE_WARPS;
    float sum = 0.0f;
    if (tb_lane() < quarters) {
        uint4 g = r.group[tb_lane()];
        const uint32_t key[4] = {g.x, g.y, g.z, g.w};
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (key[j] >= least) sum += tb_ratio(r.weigher, law_key_value(key[j]));
    }
    uint32_t high, low; /* summed as integers: the same in every warp of the team */
    tb_split_ratio(sum * 0.25f, &high, &low);
    high = tb_warp_sum(high - TB_HIGH_BIAS); /* units of 2^-18 */
    uint32_t sampled = quarters < 32 ? quarters : 32;
    return (uint64_t)high * quarters / sampled >= mass >> 24;
}

/* The least key in [low, greatest] whose weight reaches `least`; the greatest's does. */
template <class R> TB_DEV uint32_t tb_whole_key_of_weight(const R &r, uint32_t low, uint64_t least)
{
    const tb_weigher w = r.weigher;
    return tb_least_key(low, r.greatest,
                        [&](uint32_t key) { return tb_weight(w, law_key_value(key)) >= least; });
}

/* ---- histograms ---- */

/* Counts above each bin over the team. */
typedef struct tb_whole_found {
    uint32_t bin,
        inside;        /* the last one with tokens, before which k and target are not reached; its tokens */
    uint32_t before;   /* tokens of the bins before it */
    uint64_t mass;     /* and theirs, if weighed */
    uint32_t all;      /* tokens of the interval, */
    uint64_t all_mass; /* their mass, */
    bool reached;      /* and whether the cut is in it */
} tb_whole_found;

#define TB_DIGIT_BITS                                                                                        \
    15 /* three digits hold a weight (2^41), 2^17 tokens of a block (of 2 bytes each) a sum */

/* What a thread has counted of one bin. */
typedef struct tb_whole_tally {
    uint32_t bin, count, digit[3];
} tb_whole_tally;

TB_DEV void tb_whole_add(tb_whole_shared *s, const tb_whole_tally &t, bool weigh)
{
    if (!t.count) return;
    atomicAdd(&s->count[t.bin], t.count);
    if (!weigh) return;
#pragma unroll
    for (int d = 0; d < 3; d++) atomicAdd(&s->digit[d][t.bin], t.digit[d]);
}

/* Whether a value of a vector is at least `least`. */
template <class R> TB_DEV bool tb_whole_reaches(const uint4 &v, float least)
{
    bool any = false;
#pragma unroll
    for (int e = 0; e < R::width; e++) any |= tb_whole_element<R>(v, e) >= least;
    return any;
}

/* Fills the bins with the tokens of the interval that lie above the floor. */
template <class R> TB_DEV void tb_whole_fill(R &r, const tb_whole_bins &bins, const tb_cut &cut, bool weigh)
{
    tb_whole_shared *s = r.s;
    const tb_weigher w = r.weigher;
    tb_whole_reclaim(r);
    if (threadIdx.x == 0) s->few = 0;
    for (uint32_t b = threadIdx.x; b < TB_WHOLE_BINS; b += TB_WHOLE_THREADS) {
        s->count[b] = 0;
        if (weigh) s->digit[0][b] = s->digit[1][b] = s->digit[2][b] = 0;
    }
    __syncthreads();
    /* The last two bins of a thread wait in registers: in rows of few values all threads would queue at few
     * words else. */
    tb_whole_tally last = {0, 0, {0, 0, 0}}, other = last;
#pragma unroll 1
    for (uint32_t j = 0, loads = tb_whole_loads(r.part); j < loads; j++) {
        uint32_t vector = r.part.first + j * 32 + tb_lane(), inside = 0;
        if (vector >= r.part.end) break;
        const uint4 v = r.keep[j * TB_WHOLE_THREADS + threadIdx.x];
        if (!tb_whole_reaches<R>(v, bins.least)) continue;
#pragma unroll
        for (int e = 0; e < R::width; e++) {
            float x = tb_whole_element<R>(v, e);
            bool in = x >= bins.least && x <= bins.top;
            if (cut.partial) in = in && tb_in_cut(cut, x, tb_whole_index(r, vector) + e);
            inside |= (uint32_t)in << e;
        }
#pragma unroll 1
        for (; inside; inside &= inside - 1) {
            float x = 0.0f;
#pragma unroll
            for (int e = R::width - 1; e >= 0; e--)
                if (inside >> e & 1) x = tb_whole_element<R>(v, e);
            constexpr uint32_t mask = (1u << TB_DIGIT_BITS) - 1;
            uint64_t mass = weigh ? tb_weight(w, x) : 0;
            tb_whole_tally one = {tb_whole_bin(bins, x),
                                  1,
                                  {(uint32_t)mass & mask, (uint32_t)(mass >> TB_DIGIT_BITS) & mask,
                                   (uint32_t)(mass >> 2 * TB_DIGIT_BITS)}};
            if (one.bin != last.bin) {
                tb_whole_tally before = other;
                other = last;
                last = before;
            }
            if (one.bin != last.bin) {
                tb_whole_add(s, last, weigh);
                last.bin = one.bin;
                last.count = last.digit[0] = last.digit[1] = last.digit[2] = 0;
            }
            last.count++;
#pragma unroll
            for (int d = 0; d < 3; d++) last.digit[d] += one.digit[d];
        }
    }
    tb_whole_add(s, last, weigh);
    tb_whole_add(s, other, weigh);
    tb_team_barrier(r.team);
}

/* Sums the bins over the team, each block a share of them, and finds the bin of the cut. */
template <class R> TB_DEV tb_whole_found tb_whole_find(R &r, uint32_t k, uint64_t target, bool weigh)
{
    constexpr int MOST = (TB_WHOLE_BINS + TB_WHOLE_THREADS - 1) / TB_WHOLE_THREADS; /* bins of a thread */
    tb_whole_shared *s = r.s;
    const tb_team team = r.team;
    const uint32_t share = TB_WHOLE_BINS / team.size;
    uint32_t n[MOST], sum_n = 0, total_n;
    uint64_t m[MOST], sum_m = 0, total_m = 0;
    /* the blocks' parts of a bin, by neighbouring lanes, of which the first one gets their sum */
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        uint32_t pair = i * TB_WHOLE_THREADS + threadIdx.x, b = team.rank * share + pair / team.size;
        n[i] = 0;
        m[i] = 0;
        if (pair < TB_WHOLE_BINS) {
            uint32_t from = pair % team.size;
            n[i] = *tb_team_at(team, &s->count[b], from);
            if (weigh) {
                uint32_t low = *tb_team_at(team, &s->digit[0][b], from);
                uint32_t middle = *tb_team_at(team, &s->digit[1][b], from);
                uint32_t high = *tb_team_at(team, &s->digit[2][b], from);
                m[i] = ((uint64_t)high << 2 * TB_DIGIT_BITS) + ((uint64_t)middle << TB_DIGIT_BITS) + low;
            }
        }
    }
#pragma unroll
    for (int i = 0; i < MOST; i++)
        for (uint32_t d = 1; d < team.size; d *= 2) {
            n[i] += __shfl_xor_sync(TB_WHOLE_WARP, n[i], d);
            if (weigh) m[i] += __shfl_xor_sync(TB_WHOLE_WARP, m[i], d);
        }
    /* nobody else reads this block's copy of its own bins */
    __syncthreads();
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        uint32_t pair = i * TB_WHOLE_THREADS + threadIdx.x, b = team.rank * share + pair / team.size;
        if (pair >= TB_WHOLE_BINS || pair % team.size) continue;
        s->count[b] = n[i];
        if (weigh) s->digit[0][b] = (uint32_t)m[i], s->digit[1][b] = (uint32_t)(m[i] >> 32);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        uint32_t at = threadIdx.x * MOST + i, b = team.rank * share + at;
        n[i] = at < share ? s->count[b] : 0;
        m[i] = at < share && weigh ? (uint64_t)s->digit[1][b] << 32 | s->digit[0][b] : 0;
        sum_n += n[i];
        sum_m += m[i];
    }
    uint32_t before_n = tb_block_scan(&s->scratch, sum_n, &total_n);
    uint64_t before_m = weigh ? tb_block_scan64(&s->scratch, sum_m, &total_m) : 0;
    const uint4 *all =
        tb_whole_exchange(r, make_uint4((uint32_t)total_m, (uint32_t)(total_m >> 32), total_n, 0));
    uint32_t team_n = 0, lower_n = 0;
    uint64_t team_m = 0, lower_m = 0;
    if (tb_lane() < team.size) {
        uint4 word = all[tb_lane() * TB_WHOLE_WARPS];
        team_n = word.z;
        team_m = (uint64_t)word.y << 32 | word.x;
        if (tb_lane() < team.rank) lower_n = team_n, lower_m = team_m;
    }
    before_n += tb_warp_sum(lower_n);
    before_m += tb_warp_sum64(lower_m);
    tb_whole_found found;
    team_n = tb_warp_sum(team_n);
    team_m = tb_warp_sum64(team_m);
    found.all = team_n;
    found.all_mass = team_m;
    found.reached = team_n >= k || team_m >= target;
    /* this block's candidate: the last of its bins before which k and target are not reached */
    uint32_t best = 0, best_n = 0, best_inside = 0;
    uint64_t best_m = 0;
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        if (n[i] && before_n < k && before_m < target) {
            best = team.rank * share + threadIdx.x * MOST + i + 1;
            best_n = before_n;
            best_m = before_m;
            best_inside = n[i];
        }
        before_n += n[i];
        before_m += m[i];
    }
    uint32_t warp_best = tb_warp_max(best);
    int holder = __ffs((int)__ballot_sync(TB_WHOLE_WARP, best == warp_best)) - 1;
    best_n = __shfl_sync(TB_WHOLE_WARP, best_n, holder);
    best_inside = __shfl_sync(TB_WHOLE_WARP, best_inside, holder);
    best_m = __shfl_sync(TB_WHOLE_WARP, best_m, holder);
    /* counts above are below 2^22, bins below 2^10: each warp's candidate in 16 bytes with its place */
    all = tb_whole_exchange(r, make_uint4((uint32_t)best_m, (uint32_t)(best_m >> 32),
                                          warp_best << LAW_INDEX_BITS | best_n, best_inside));
    best = 0;
    uint32_t from = 0;
    for (uint32_t i = tb_lane(); i < team.size * TB_WHOLE_WARPS; i += 32) {
        uint32_t here = all[i].z >> LAW_INDEX_BITS;
        if (here > best) best = here, from = i;
    }
    warp_best = tb_warp_max(best);
    holder = __ffs((int)__ballot_sync(TB_WHOLE_WARP, best == warp_best)) - 1;
    uint4 word = all[__shfl_sync(TB_WHOLE_WARP, from, holder)];
    found.bin = warp_best - 1;
    found.before = word.z & TB_PLACE_LOW;
    found.mass = (uint64_t)word.y << 32 | word.x;
    found.inside = word.w;
    return found;
}

#endif
