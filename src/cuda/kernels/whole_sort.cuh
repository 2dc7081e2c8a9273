/*
 * Ids of a row's greatest tokens, by a team of 16 blocks: each lists its tokens from a guessed value on,
 * sorts them, and sends their values to all others. A token's number in the order of the row then is the sum
 * of its numbers in the blocks' lists, by a binary search in each; no block ever has the list of the row.
 *
 * The blocks' shares of a row follow each other, so of equal tokens those of an earlier block come first, and
 * values without indices are all that is sent. Values are compared as floats, by instructions whose result is
 * a number: the compiler would put all conditions into one predicate, each waiting for the one before.
 */
#ifndef TB_CUDA_WHOLE_SORT_CUH
#define TB_CUDA_WHOLE_SORT_CUH

#include "whole.cuh"

/* Vectors of a block's share of the row. */
template <class R> TB_DEV uint32_t tb_whole_share_vectors(const R &r)
{
    return tb_whole_block_share(r.team, (r.part.shift + r.part.length + R::width - 1) / R::width);
}

/* What is known before a row has come. A value that the wanted tokens and some more reach is likely to be
 * near to number `number` (from 0) of a warp's lanes' maxima in their order, and about what `middles` of the
 * team's warps' reach; 0 of them: all values are. */
typedef struct tb_whole_sorter {
    bool sorts; /* whether the call is for this */
    uint32_t number, middles;
} tb_whole_sorter;

/* [16][TB_WHOLE_SORT_ROOM] The blocks' sorted values, -inf behind them; beyond the row. */
template <class R> TB_DEV float *tb_whole_sort_lists(const R &r)
{
    const uint32_t of_warp = (tb_whole_share_vectors(r) + TB_WHOLE_WARPS - 1) / TB_WHOLE_WARPS;
    return (float *)(r.keep + (of_warp + 31) / 32 * TB_WHOLE_THREADS);
}

/* For a call that sorts: empties the lists, which nobody sends before all have done so. */
template <class R> TB_DEV tb_whole_sorter tb_whole_prepare_sort(const R &r, const tb_cuda_params &params)
{
    tb_whole_sorter sorter = {false, 0, 0};
    if (tb_whole_share_vectors(r) * R::width > TB_WHOLE_SORT_WORDS * 32) return sorter;
    sorter.sorts = true;
    uint4 *lists = (uint4 *)tb_whole_sort_lists(r);
    const uint32_t word = law_bits(-LAW_INF);
    const uint4 none = make_uint4(word, word, word, word);
    static_assert(TB_WHOLE_SORT_ROOM == TB_WHOLE_THREADS && TB_WHOLE_SORT_WORDS == 3 * TB_WHOLE_THREADS, "");
#pragma unroll
    for (uint32_t i = 0; i < TB_WHOLE_SORT_BYTES / 16 / TB_WHOLE_THREADS; i++)
        lists[i * TB_WHOLE_THREADS + threadIdx.x] = none;
    r.s->sort_value[threadIdx.x] = -LAW_INF;
#pragma unroll
    for (uint32_t i = 0; i < 3; i++) r.s->sort_kept[i * TB_WHOLE_THREADS + threadIdx.x] = 0;
    /* x: the fraction of the row's tokens that are to reach the bound: of 2048, 2350, of which the guess
     * makes 2350 +- 50 */
    constexpr float LANES = TB_WHOLE_SORT_BLOCKS * TB_WHOLE_THREADS, WARPS = LANES / 32.0f;
    const float number = (float)params.sorted, length = (float)r.part.length,
                x = __fdividef((number + 4.0f * number * rsqrtf(number) + 8.0f) * 1.03f, length);
    /* the fraction of the lanes whose maximum reaches it; that of the warps of which more lanes do */
    const float lanes = x < 1.0f ? 1.0f - exp2f(length / LANES * __log2f(1.0f - x)) : 1.0f;
    if (!(lanes < 0.95f)) return sorter;
    float warps = 0.5f;
    sorter.number = (uint32_t)(32.0f * lanes);
    if (sorter.number < 2) {
        sorter.number = 0;
        warps = 1.0f - exp2f(32.0f * __log2f(1.0f - lanes));
    } else { /* nearly a normal distribution */
        warps +=
            0.3989f * (32.0f * lanes - (float)sorter.number - 0.5f) * rsqrtf(32.0f * lanes * (1.0f - lanes));
    }
    sorter.middles = (uint32_t)(WARPS * warps) + 1;
    return sorter;
}

/* 1 if a is greater, else 0. */
TB_DEV float tb_whole_sort_one(float a, float b)
{
#ifdef __CUDA_ARCH__
    float one;
    asm("set.gt.f32.f32 %0, %1, %2;" : "=f"(one) : "f"(a), "f"(b));
    return one;
#else
    return a > b ? 1.0f : 0.0f;
#endif
}

/* All bits if a is greater, else none. */
TB_DEV uint32_t tb_whole_sort_bits(float a, float b)
{
#ifdef __CUDA_ARCH__
    uint32_t bits;
    asm("set.gt.u32.f32 %0, %1, %2;" : "=r"(bits) : "f"(a), "f"(b));
    return bits;
#else
    return a > b ? ~0u : 0u;
#endif
}

/* A value that so many of the warps' values in `middle` reach, about the greatest such one; or the least of
 * all, where not so many reach that. */
template <class R>
TB_DEV float tb_whole_sort_bound(const R &r, uint32_t middles, uint32_t least, bool logarithmic)
{
    const uint4 g = ((const uint4 *)tb_whole_middle(r))[tb_lane()];
    const uint32_t key[4] = {g.x, g.y, g.z, g.w};
    uint32_t low = TB_KEY_POS_INF, high = 0, number = 0;
    float value[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const bool counts = key[i] >= least;
        value[i] = law_key_value(key[i]);
        number += counts;
        low = counts && key[i] < low ? key[i] : low;
        high = key[i] > high ? key[i] : high;
    }
    number = tb_warp_sum(number);
    low = tb_warp_min(low);
    high = tb_warp_max(high);
    if (!middles || number < middles) return law_key_value(least);
#pragma unroll 1
    for (int round = 0; round < 3; round++) {
        /* quarters of an interval of values, since logits are near to one another, or of keys, as if of
         * logarithms; the counts of its three bounds, at most 128, are digits of one sum */
        const float bottom = law_key_value(low), quarter = (law_key_value(high) - bottom) * 0.25f;
        const bool linear = !logarithmic && quarter < LAW_INF;
        float bound[3], counts = 0.0f;
#pragma unroll
        for (int i = 0; i < 3; i++) {
            bound[i] = linear ? bottom + quarter * (float)(i + 1)
                              : law_key_value(low + (high - low) / 4 * (uint32_t)(i + 1));
#pragma unroll
            for (int j = 0; j < 4; j++)
                counts += (i == 0   ? 1.0f
                           : i == 1 ? 256.0f
                                    : 65536.0f) *
                          tb_whole_sort_one(value[j], bound[i]);
        }
        const uint32_t all = tb_warp_sum((uint32_t)counts);
        uint32_t reached = 0;
#pragma unroll
        for (int i = 0; i < 3; i++) reached += (all >> 8 * i & 255u) >= middles;
        const uint32_t top = high;
        low = reached == 0 ? low : law_key(reached == 1 ? bound[0] : reached == 2 ? bound[1] : bound[2]);
        high = reached == 3 ? top : law_key(reached == 0 ? bound[0] : reached == 1 ? bound[1] : bound[2]);
    }
    return law_key_value(low);
}

/* Lists the block's tokens from a value on in s->sort_value; what finds no room is counted all the same. */
template <class R> TB_DEV void tb_whole_sort_list(const R &r, float bound)
{
    constexpr uint32_t AT_ONCE = 32 / R::width; /* vectors: a bit for each element */
    tb_whole_shared *s = r.s;
    const uint32_t mine = r.part.end - r.part.first; /* vectors of the warp */
    const uint4 *at = r.keep + threadIdx.x;
#pragma unroll 1
    for (uint32_t j0 = 0; j0 * 32 < mine; j0 += AT_ONCE, at += AT_ONCE * TB_WHOLE_THREADS) {
        uint32_t members = 0;
#pragma unroll
        for (uint32_t j = 0; j < AT_ONCE; j++) {
            if ((j0 + j) * 32 + tb_lane() >= mine) continue;
            const uint4 v = at[j * TB_WHOLE_THREADS];
#pragma unroll
            for (int e = 0; e < R::width; e++)
                members |= (uint32_t)(tb_whole_element<R>(v, e) >= bound) << (j * R::width + e);
        }
        const uint32_t number = (uint32_t)__popc(members), end = tb_warp_scan(number);
        uint32_t to = 0;
        if (tb_lane() == 31 && end) to = atomicAdd(&s->cursor, end);
        to = __shfl_sync(TB_WHOLE_WARP, to, 31) + end - number;
#pragma unroll 1
        for (; members; members &= members - 1, to++) {
            const uint32_t bit = (uint32_t)__ffs((int)members) - 1, j = bit / R::width, e = bit % R::width;
            const char *v = (const char *)&at[j * TB_WHOLE_THREADS];
            const uint32_t bits = R::bytes == 4 ? ((const uint32_t *)v)[e] : ((const uint16_t *)v)[e];
            const float value = R::dtype == TOMBOLA_F32   ? law_float(bits)
                                : R::dtype == TOMBOLA_F16 ? tb_f16_value(bits)
                                                          : law_float(bits << 16);
            const uint32_t vector = r.part.first + (j0 + j) * 32 + tb_lane();
            if (to >= TB_WHOLE_SORT_ROOM) continue;
            s->sort_value[to] = value + 0.0f; /* not -0 */
            s->sort_index[to] = tb_whole_index(r, vector) + e;
        }
    }
}

/* How many of the block's n listed tokens are greater than a value, by a warp. */
TB_DEV uint32_t tb_whole_sort_greater(const tb_whole_shared *s, uint32_t n, float value)
{
    constexpr uint32_t AT_ONCE = 4;
    float greater[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 1
    for (uint32_t i = 0; i < n; i += AT_ONCE * 4) {
        float4 other[AT_ONCE];
#pragma unroll
        for (uint32_t j = 0; j < AT_ONCE; j++) other[j] = *(const float4 *)&s->sort_value[i + j * 4];
        __syncwarp(); /* or each load would wait until what came before it is counted */
#pragma unroll
        for (uint32_t j = 0; j < AT_ONCE; j++) {
            greater[0] += tb_whole_sort_one(other[j].x, value);
            greater[1] += tb_whole_sort_one(other[j].y, value);
            greater[2] += tb_whole_sort_one(other[j].z, value);
            greater[3] += tb_whole_sort_one(other[j].w, value);
        }
    }
    return (uint32_t)(greater[0] + greater[1] + (greater[2] + greater[3]));
}

/* Sorts the block's list of n tokens, into `own` and s->sort_order. */
TB_DEV void tb_whole_sort_own(tb_whole_shared *s, float *own, uint32_t n)
{
    const uint32_t self = threadIdx.x;
    const bool there = self < n;
    const float value = there ? s->sort_value[self] : 0.0f;
    const uint32_t index = there ? s->sort_index[self] : 0;
    uint32_t before = 0;
    bool equal = false;
    if (tb_warp() * 32 < n) {
        before = tb_whole_sort_greater(s, n, value);
        if (there) {
            equal = atomicExch((uint32_t *)&own[before], law_bits(value)) != law_bits(-LAW_INF);
            s->sort_order[before] = index;
        }
    }
    if (!__syncthreads_or(equal)) return;
    /* Some are equal: first any order of these, then that of their indices. The bitmap, which is not in use
     * yet, counts them. */
    uint32_t *count = s->sort_kept;
    if (there) {
        const uint32_t at = before + atomicAdd(&count[before], 1u);
        own[at] = value;
        s->sort_order[at] = index;
    }
    __syncthreads();
    uint32_t lower = 0;
    if (there)
        for (uint32_t i = 0, alike = count[before]; i < alike; i++)
            lower += s->sort_order[before + i] < index;
    __syncthreads();
    if (there) s->sort_order[before + lower] = index;
    count[self] = 0;
    __syncthreads();
}

/* Sends the sorted list of n tokens to all blocks, by_index to later ones the next greater values: then those
 * of this block which are equal to a token there are greater, too, as they come before it. Returns when all
 * lists have come. */
template <class R> TB_DEV void tb_whole_sort_mail(const R &r, float *lists, uint32_t n, bool by_index)
{
    tb_whole_shared *s = r.s;
    const uint32_t self = r.team.rank, to = threadIdx.x % TB_WHOLE_SORT_BLOCKS,
                   sent = n < TB_WHOLE_SORT_ROOM ? (n + 3) / 4 : 0;
    float *own = lists + self * TB_WHOLE_SORT_ROOM;
    if (threadIdx.x < TB_WHOLE_SORT_BLOCKS) {
        tb_mail_expect_at(&s->list_box, (int)to, (to == self ? 0 : sent * 16) + 4);
        tb_mail_4(&s->listed_by[self], (int)to, n, &s->list_box);
    }
    if (to != self) {
        const uint32_t more = by_index && to > self;
        /* the next one's bits: one more, or less if they have a sign */
        auto next = [&](uint32_t bits) {
            const uint32_t sign = bits & 0x80000000u ? ~0u : 0u;
            return bits + (more ^ sign) - sign;
        };
#pragma unroll 1
        for (uint32_t i = threadIdx.x / TB_WHOLE_SORT_BLOCKS; i < sent;
             i += TB_WHOLE_THREADS / TB_WHOLE_SORT_BLOCKS) {
            const uint4 x = *(const uint4 *)&own[i * 4];
            tb_mail_16(&own[i * 4], (int)to, make_uint4(next(x.x), next(x.y), next(x.z), next(x.w)),
                       &s->list_box);
        }
    }
    tb_mail_await(&s->list_box);
}

/* The number of tokens of the row before one of this block, of which `before` are in its own list;
 * !by_index: of those with greater values. */
template <class R>
TB_DEV uint32_t tb_whole_sort_number(const R &r, const float *lists, float value, uint32_t before,
                                     bool by_index)
{
    constexpr uint32_t EACH = TB_WHOLE_SORT_ROOM * 4; /* bytes */
    uint32_t at[TB_WHOLE_SORT_BLOCKS], number = 0;
#pragma unroll
    for (uint32_t b = 0; b < TB_WHOLE_SORT_BLOCKS; b++) at[b] = b * EACH;
#pragma unroll 1
    for (uint32_t step = EACH / 2; step >= 4; step /= 2) {
#pragma unroll
        for (uint32_t b = 0; b < TB_WHOLE_SORT_BLOCKS; b++)
            at[b] |=
                step & tb_whole_sort_bits(*(const float *)((const char *)lists + (at[b] + step) - 4), value);
    }
#pragma unroll
    for (uint32_t b = 0; b < TB_WHOLE_SORT_BLOCKS; b++)
        number += by_index && b == r.team.rank ? before : (at[b] - b * EACH) / 4;
    return number;
}

/* The ids that are kept, in order: those of the block's tokens for which `kept` is true. */
template <class R>
TB_DEV void tb_whole_sort_write(const R &r, const tombola_call &call, int64_t index, uint32_t status,
                                uint32_t id, bool kept)
{
    tb_whole_shared *s = r.s;
    const uint32_t share = tb_whole_share_vectors(r) * R::width, first = share * r.team.rank - r.part.shift,
                   words = (share + 31) / 32, each = (words + TB_WHOLE_THREADS - 1) / TB_WHOLE_THREADS;
    if (kept) atomicOr(&s->sort_kept[(id - first) / 32], 1u << (id - first) % 32);
    const uint32_t mine = (uint32_t)__syncthreads_count(kept);
    if (threadIdx.x < TB_WHOLE_SORT_BLOCKS)
        tb_mail_4(&s->kept_by[r.team.rank], (int)threadIdx.x, mine, &s->kept_box);
    if (threadIdx.x == 0) tb_mail_expect(&s->kept_box, TB_WHOLE_SORT_BLOCKS * 4);
    uint32_t number = 0, block;
    for (uint32_t i = 0; i < each; i++) number += (uint32_t)__popc(s->sort_kept[threadIdx.x * each + i]);
    uint32_t at = tb_block_scan(&s->scratch, number, &block);
    tb_mail_await(&s->kept_box);
    const uint32_t theirs = tb_lane() < TB_WHOLE_SORT_BLOCKS ? s->kept_by[tb_lane()] : 0,
                   all = tb_warp_sum(theirs);
    at += tb_warp_sum(tb_lane() < r.team.rank ? theirs : 0);
    int32_t *ids = call.kept_ids + index * call.kept_capacity;
    for (uint32_t i = 0; i < each; i++) {
        const uint32_t word = threadIdx.x * each + i;
#pragma unroll 1
        for (uint32_t bits = s->sort_kept[word]; bits; bits &= bits - 1, at++)
            if (at < call.kept_capacity)
                ids[at] = (int32_t)(first + word * 32 + (uint32_t)__ffs((int)bits) - 1);
    }
#pragma unroll 1
    for (int64_t i = all + (r.team.rank * TB_WHOLE_THREADS + threadIdx.x); i < call.kept_capacity;
         i += TB_WHOLE_SORT_BLOCKS * TB_WHOLE_THREADS)
        ids[i] = -1;
    if (threadIdx.x || r.team.rank) return;
    if (call.status) call.status[index] = status;
    if (call.kept_count) call.kept_count[index] = (int32_t)all;
}

/* All outputs of a row whose call is for this; or nothing, where the lists do not do. CROWDED: a warp of some
 * block has so many of the greatest tokens that other lists of about as many would not do either. */
typedef enum tb_whole_outcome { TB_SORT_DONE, TB_SORT_NOTHING, TB_SORT_CROWDED } tb_whole_outcome;

template <class R>
TB_DEV tb_whole_outcome tb_whole_sort(const R &r, const tb_whole_sorter &sorter, const tb_cuda_params &params,
                                      int64_t index, uint32_t status)
{
    if (r.greatest == TB_KEY_POS_INF) return TB_SORT_NOTHING;
    tb_whole_shared *s = r.s;
    const tombola_call &call = params.call;
    const float temperature = s->chain.temperature;
    if (temperature != 1.0f && law_temperature(temperature).mode == LAW_GREEDY) return TB_SORT_NOTHING;
    const bool probabilities = call.kind == TOMBOLA_PROBABILITIES;
    const uint32_t least = probabilities ? TB_KEY_LEAST_PROBABILITY : TB_KEY_LEAST_LOGIT;
    const float bound = tb_whole_sort_bound(r, sorter.middles, least, probabilities);
    __syncthreads(); /* the lists are empty: the first exchange says so too, but not to racecheck */
    tb_whole_sort_list(r, bound);
    __syncthreads();
    const bool top = !call.kept_ids, by_index = top || call.ties == TOMBOLA_TIES_INDEX;
    const uint32_t wanted = top ? params.sorted : s->chain.k_before, mine = s->cursor;
    float *lists = tb_whole_sort_lists(r), *own = lists + r.team.rank * TB_WHOLE_SORT_ROOM;
    if (mine < TB_WHOLE_SORT_ROOM) tb_whole_sort_own(s, own, mine);
    tb_whole_sort_mail(r, lists, mine, by_index);
    const uint32_t listed = tb_lane() < TB_WHOLE_SORT_BLOCKS ? s->listed_by[tb_lane()] : 0,
                   all = tb_warp_sum(listed), longest = tb_warp_max(listed);
    if (longest > TB_WHOLE_OWN) return TB_SORT_CROWDED;
    if (longest >= TB_WHOLE_SORT_ROOM || (all < wanted && bound > law_key_value(least)))
        return TB_SORT_NOTHING;
    uint32_t number = TB_NO_COUNT, id = 0;
    if (threadIdx.x < mine) { /* in their order, so that lanes look at neighbours */
        id = s->sort_order[threadIdx.x];
        number = tb_whole_sort_number(r, lists, own[threadIdx.x], threadIdx.x, by_index);
    }
    if (!top) {
        tb_whole_sort_write(r, call, index, status, id, number < wanted);
        return TB_SORT_DONE;
    }
    int32_t *ids = call.top_ids + index * call.top_count;
    if (number < wanted) ids[number] = (int32_t)id;
#pragma unroll 1
    for (uint32_t i = all + r.team.rank * TB_WHOLE_THREADS + threadIdx.x; i < wanted;
         i += TB_WHOLE_SORT_BLOCKS * TB_WHOLE_THREADS)
        ids[i] = -1;
    if (threadIdx.x == 0 && r.team.rank == 0 && call.status) call.status[index] = status;
    return TB_SORT_DONE;
}

#endif
