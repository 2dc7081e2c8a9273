/*
 * Candidates of the streaming kernel (fast_stream.cuh) and the groups of tiles that hold them: how a row
 * falls into tiles and groups, a candidate's way to the leader, and the groups' masses where the interval of
 * Z must be narrowed.
 */
#ifndef TB_CUDA_FAST_CANDIDATES_CUH
#define TB_CUDA_FAST_CANDIDATES_CUH

#include "fast_shared.cuh"

/* The row's vectors go round the blocks: vector j of a thread's tile t is number (t * U + j) * C * NT + rank
 * * NT + thread. So tokens that lie together, as frequent ones do, spread over blocks and folds. */
template <int C, int NT, int U> TB_DEV uint32_t tb_slice_tiles(const tb_fast_slice &slice, int *group_shift)
{
    uint32_t tiles = (slice.end + C * NT * U - 1) / (C * NT * U);
    *group_shift = 0;
    while (((tiles + (1u << *group_shift) - 1) >> *group_shift) > TB_MAX_GROUPS) ++*group_shift;
    return tiles;
}

/* Element e of a vector in memory. */
template <int dtype> TB_DEV float tb_stored(const void *vector, uint32_t e)
{
    if (dtype == TOMBOLA_F32) return ((const float *)vector)[e];
    uint32_t bits = ((const uint16_t *)vector)[e];
    return dtype == TOMBOLA_BF16 ? law_float(bits << 16) : tb_f16_value(bits);
}

/* A candidate with its weight. */
TB_DEV tb_fast_token tb_weigh_token(float x, uint32_t index, float maximum, float scale, bool flat)
{
    tb_fast_token token = {law_key(x), index, LAW_ONE};
    if (flat) return token;
    uint32_t high, low;
    tb_weigh(fmaxf(law_exponent(x, maximum, scale), -64.0f), &high, &low);
    token.weight = tb_join(high - TB_HIGH_BIAS, low - TB_LOW_BIAS);
    return token;
}

TB_DEV uint32_t tb_high_digit(uint64_t weight)
{
    return (uint32_t)(weight >> 20);
}

TB_DEV uint32_t tb_low_digit(uint64_t weight)
{
    return (uint32_t)weight & 0xfffffu;
}

/* Adds over the block into two shared words; a barrier must follow. Digits as of tb_join. */
TB_DEV void tb_add_digits(uint32_t *to_high, uint32_t *to_low, uint32_t high, uint32_t low)
{
    high = tb_warp_sum(high);
    low = tb_warp_sum(low);
    if (tb_lane() == 0 && (high | low)) {
        tb_shared_add(to_high, high);
        tb_shared_add(to_low, low);
    }
}

/* Bins of equal width from the maximum down to the bound, or to where tokens hardly weigh anything: how many
 * there are in a unit. Any number serves, if only a greater value is in no later bin. */
TB_DEV float tb_value_bins(float maximum, float bound, float scale)
{
    const float span = fminf(fminf(maximum - bound, __fdividef(42.0f, scale)), 0x1p125f);
    return __fdividef((float)TB_BINS, fmaxf(span, 0x1p-60f));
}

TB_DEV uint32_t tb_value_bin(float x, float maximum, float bins)
{
    return (uint32_t)min(TB_BINS - 1, (int)((maximum - x) * bins));
}

TB_DEV void tb_add_to_bin(tb_stream_bins &to, uint32_t bin, uint64_t weight)
{
    tb_shared_red(&to.high[bin], tb_high_digit(weight));
    tb_shared_red(&to.low[bin], tb_low_digit(weight));
    tb_shared_red(&to.count[bin], 1);
}

/* The r-th of the warp's different values, from the greatest down; TB_LEAST where there are fewer. */
TB_DEV float tb_warp_rank(float x, int r)
{
    uint32_t key = law_key(x), cut = 0;
#pragma unroll 1
    for (int i = 0; i < r; i++) {
        cut = tb_warp_max(key);
        if (key == cut) key = 0;
    }
    return cut >= TB_KEY_LEAST_LOGIT ? law_key_value(cut) : TB_LEAST;
}

/*
 * Most candidates need not be read again: while a row is read, each warp keeps the vectors that hold
 * something greater than what it took to be great after its first tile, and after its fourth: the
 * CATCH_FIRST-th and CATCH_LATER-th of its threads' maxima. A row's 64 greatest tokens are 4 for a warp of
 * 16, half of one in a tile, so that few bounds are below that; a warp for which it is so reads its groups
 * again.
 */
#define TB_CATCH_FIRST 5
#define TB_CATCH_LATER 8

/* A tile's vectors that reach `least`; infinity when there is no more room. `first` is the number of the
 * thread's first one, the others follow `stride` apart. */
template <int dtype, int stride, int U, class S>
TB_DEV float tb_catch(S &s, const uint4 (&v)[U], float least, uint32_t first)
{
    const int warp = (int)tb_warp();
    uint32_t passes = 0;
#pragma unroll
    for (int j = 0; j < U; j++) passes |= tb_vector_max<dtype>(v[j]) >= least ? 1u << j : 0u;
    uint32_t to = tb_shared_add(&s.caught_count[warp], (uint32_t)__popc(passes));
#pragma unroll
    for (int j = 0; j < U; j++) {
        if ((passes >> j & 1u) && (int)to < S::CATCH) {
            s.caught[warp][to] = v[j];
            s.caught_vector[warp][to] = first + j * stride;
        }
        to += passes >> j & 1u;
    }
    return (int)to > S::CATCH ? LAW_INF : least;
}

/* One candidate, to the leader; greedy rows want the first. The finishing warps weigh it: lanes with several
 * would do so one after the other here. */
template <int C, class S>
TB_DEV void tb_push_one(S &s, int rank, float x, uint32_t index, uint32_t place, bool greedy)
{
    if (greedy) { /* most are not before one that is there already */
        if (index < *(volatile uint32_t *)&s.own_first) atomicMin(&s.own_first, index);
    } else if (C == 1) {
        if (place < (uint32_t)S::CAPACITY) *(uint2 *)&s.token[place] = make_uint2(law_bits(x), index);
    } else if (place < (uint32_t)S::SEGMENT) {
        tb_mail_8(&s.raw[rank * S::SEGMENT + place], 0, law_bits(x), index, &s.mail_second);
    }
}

/* The candidates among what a warp caught, and in its share of what the interval warp caught, where these
 * hold. By all that seek. */
template <int dtype, int C, class S>
TB_DEV void tb_push_caught(S &s, int rank, float bound, bool own, bool shared, bool greedy)
{
    constexpr int width = tb_fast_vector<dtype>::width, SEEKING = S::WARPS - 1;
    const int my = tb_seeker() >> 5, mine = own ? (int)s.caught_count[tb_warp()] : 0,
              others = shared ? (int)s.caught_count[S::INTERVAL_WARP] : 0,
              n = mine + (others - my + SEEKING - 1) / SEEKING;
#pragma unroll 1
    for (int i = (int)tb_lane(); i < n; i += 32) {
        const int warp = i < mine ? (int)tb_warp() : S::INTERVAL_WARP,
                  at = i < mine ? i : my + (i - mine) * SEEKING;
        const uint4 v = s.caught[warp][at];
        uint32_t passes = 0;
#pragma unroll
        for (int e = 0; e < width; e++) passes |= tb_element<dtype>(v, e) >= bound ? 1u << e : 0u;
        if (!passes) continue;
        uint32_t to = tb_shared_add(&s.own_pushed, (uint32_t)__popc(passes)),
                 first = s.caught_vector[warp][at] * width - s.slice.shift;
        for (; passes; passes &= passes - 1, to++) {
            uint32_t e = __ffs(passes) - 1;
            tb_push_one<C>(s, rank, tb_stored<dtype>(&s.caught[warp][at], e), first + e, to, greedy);
        }
    }
}

/* A vector of the block's slice again, from the copy in shared memory where there is one. */
template <int dtype, int C, int NT, int U, bool STAGED>
TB_DEV uint4 tb_reload(const tb_fast_slice &slice, const uint4 *stage, uint32_t tile, int j, uint32_t column)
{
    constexpr uint32_t none = tb_minus_infinity<dtype>();
    if (STAGED) return stage[(tile * U + j) * NT + column];
    uint32_t vector = (tile * U + j) * (C * NT) + (C == 1 ? 0 : blockIdx.x % C * NT) + column;
    if (vector >= slice.end) return make_uint4(none, none, none, none);
    if (vector >= slice.whole_first && vector < slice.whole_end)
        return tb_load_stream(slice.base + (size_t)vector * 16);
    return tb_load_edge<dtype>(slice.base + (size_t)vector * 16,
                               vector * tb_fast_vector<dtype>::width - slice.shift, slice.length);
}

#define TB_MANY_GROUPS 96 /* of a block, that reach a bound */

/* Where many of a block's groups reach the bound the row's great tokens lie together, and the leader has no
 * room for all of its candidates. Of a top_k it need send only those from its own k-th greatest on, for
 * whatever is less has k greater ones in the block alone: about k of the groups' maxima reach what this
 * returns. By all that seek, of so many maxima. */
template <int NT, class S>
static __device__ __noinline__ float tb_own_bound(float bound, float maximum, int maxima, uint32_t k)
{
    S &s = *(S *)tb_fast_bytes;
    constexpr int SEEKERS = NT - 32;
    const int tid = tb_seeker(), lane = tid & 31;
    const float bins = 255.0f / fmaxf(fminf(maximum - bound, 0x1p125f), 1e-20f);
    for (int i = tid; i < 256; i += SEEKERS) s.group_count[i] = 0; /* the folds' counts may be there */
    tb_seek_barrier<NT>();
    for (int i = tid; i < maxima; i += SEEKERS)
        if (s.group[i] >= bound)
            tb_shared_red(&s.group_count[min(255, (int)((maximum - s.group[i]) * bins))], 1);
    tb_seek_barrier<NT>();
    uint32_t one[8], sum = 0, hit = 256;
#pragma unroll
    for (int i = 0; i < 8; i++) sum += one[i] = s.group_count[lane * 8 + i];
    uint32_t reach = tb_warp_scan(sum) - sum;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        reach += one[i];
        if (hit == 256 && reach >= k) hit = lane * 8 + i;
    }
    hit = tb_warp_min(hit);
    return hit >= 255 ? bound : fmaxf(bound, maximum - __fdividef((float)hit + 1.01f, bins));
}

/*
 * The candidates, from the groups whose maximum reaches the bound, to the leader. Greedy: how many elements
 * reach the bound, unless only the first of them is wanted, and that one. The groups go to a list of the
 * block, so that all warps have as many, and wait once, and then are looked at a vector a lane. `warps`: of
 * these, a bit each, the others' candidates are there already. `k`: of a top_k that the bound is for, or 0.
 * By all that seek; the groups of the warp that works out the interval are shared out.
 */
template <int dtype, int C, int NT, int U, class S>
TB_DEV void tb_push_groups(S &s, int rank, float bound, uint32_t tiles, int group_shift, uint32_t warps,
                           bool greedy, bool first_only, float maximum, uint32_t k)
{
    constexpr int SEEKING = S::WARPS - 1, BATCH = 2, AT_ONCE = 32 / U, width = tb_fast_vector<dtype>::width;
    constexpr uint32_t ROOM = C == 1 ? S::CAPACITY : S::SEGMENT, none = tb_minus_infinity<dtype>();
    static_assert(TB_MAX_GROUPS + (TB_MAX_GROUPS + SEEKING - 1) / SEEKING <= 32, "");
    constexpr int LIST = S::LIST;
    const int lane = (int)tb_lane(), my = tb_seeker() >> 5;
    const int groups = (int)((tiles + (1u << group_shift) - 1) >> group_shift);
    uint32_t bits = 0;
    if (warps >> tb_warp() & 1)
#pragma unroll 4
        for (int g = 0; g < groups; g++) bits |= s.group[g * NT + threadIdx.x] >= bound ? 1u << g : 0u;
    if (warps >> S::INTERVAL_WARP & 1)
#pragma unroll 1
        for (int g = my, b = TB_MAX_GROUPS; g < groups; g += SEEKING, b++)
            bits |= s.group[g * NT + S::INTERVAL_WARP * 32 + lane] >= bound ? 1u << b : 0u;
    if (first_only) { /* which is in a thread's first group that has one */
        const uint32_t own = bits & ((1u << TB_MAX_GROUPS) - 1), shared = bits - own;
        bits = (own & (0u - own)) | (shared & (0u - shared));
    }
#pragma unroll 1
    for (;;) {
        if (bits) {
            uint32_t to = tb_shared_add(&s.list_length, (uint32_t)__popc(bits));
            for (; bits && to < (uint32_t)LIST; bits &= bits - 1, to++) {
                const int b = __ffs(bits) - 1;
                s.list[to] = (uint16_t)(b < TB_MAX_GROUPS ? b * NT + threadIdx.x
                                                          : (my + (b - TB_MAX_GROUPS) * SEEKING) * NT +
                                                                S::INTERVAL_WARP * 32 + lane);
            }
        }
        tb_seek_barrier<NT>();
        const int listed = (int)*(volatile uint32_t *)&s.list_length, count = min(listed, LIST)
                                                                              << group_shift;
        /* So many groups, of one candidate at least each, that to leave the row is faster than to read them
         * again. */
        if (C == 1 && !greedy && listed > 1024) {
            if (lane == 0) tb_shared_add(&s.own_pushed, ROOM + 1);
            break;
        }
        const bool many = C >= 4 && k && listed > TB_MANY_GROUPS;
        if (many) bound = tb_own_bound<NT, S>(bound, maximum, groups * NT, k);
#pragma unroll 1
        for (int i = my + lane / U * SEEKING; i - lane / U * SEEKING < count;
             i += BATCH * AT_ONCE * SEEKING) {
            uint4 v[BATCH];
            uint32_t first[BATCH];
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                const int at = i + b * AT_ONCE * SEEKING;
                const uint32_t id = s.list[min(at >> group_shift, LIST - 1)], column = id % NT,
                               t = ((id / NT) << group_shift) + ((uint32_t)at & ((1u << group_shift) - 1));
                v[b] = make_uint4(none, none, none, none);
                if (at < count && t < tiles && (!many || s.group[id] >= bound))
                    v[b] = tb_reload<dtype, C, NT, U, false>(s.slice, nullptr, t, lane % U, column);
                first[b] = ((t * U + lane % U) * (C * NT) + rank * NT + column) * width - s.slice.shift;
            }
            uint32_t place = 0;
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                uint32_t passes = 0;
#pragma unroll
                for (int e = 0; e < width; e++) passes |= tb_element<dtype>(v[b], e) >= bound ? 1u << e : 0u;
                if (passes) place = tb_shared_add(&s.own_pushed, (uint32_t)__popc(passes));
#pragma unroll 1
                for (; passes; passes &= passes - 1, place++) {
                    const int e = __ffs((int)passes) - 1;
                    tb_push_one<C>(s, rank, tb_element<dtype>(v[b], e), first[b] + e, place, greedy);
                }
            }
            if (__any_sync(TB_WHOLE_WARP, place > ROOM) && !greedy) break; /* the row is left */
        }
        if (listed <= LIST) break;
        tb_seek_barrier<NT>();
        if (__any_sync(TB_WHOLE_WARP, *(volatile uint32_t *)&s.own_pushed > ROOM) && !greedy) break;
        tb_seek_barrier<NT>();
        if (tb_seeker() == 0) s.list_length = 0;
        tb_seek_barrier<NT>();
    }
}

/*
 * The same where the block keeps its share of the row: each warp looks at its own threads' groups, and at its
 * share of those of the warp that works out the interval, an element a lane, two groups at a time.
 */
template <int dtype, int C, int NT, int U, class S>
TB_DEV void tb_push_staged(S &s, const uint4 *stage, int rank, float bound, uint32_t tiles, bool greedy,
                           bool first_only)
{
    constexpr int SEEKING = S::WARPS - 1, width = tb_fast_vector<dtype>::width, BATCH = 2;
    static_assert(U * width == 32, "an element a lane");
    const int lane = (int)tb_lane(), my = (int)tb_warp();
#pragma unroll 1
    for (uint32_t i = 0; i < 2 * tiles; i++) {
        const uint32_t t = i / 2, at = t * U + lane / width;
        const bool own = i % 2 == 0;
        const int from = (own ? my : S::INTERVAL_WARP) * 32;
        uint32_t hits = __ballot_sync(TB_WHOLE_WARP, s.group[t * NT + from + lane] >= bound &&
                                                         (own || lane % SEEKING == my)),
                 place = 0;
#pragma unroll 1
        while (hits) {
            float x[BATCH];
            uint32_t column[BATCH], passes = 0;
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                x[b] = -LAW_INF;
                column[b] = from + __ffs((int)hits) - 1;
                if (hits) x[b] = tb_stored<dtype>(&stage[at * NT + column[b]], lane % width);
                hits &= hits - 1;
            }
#pragma unroll
            for (int b = 0; b < BATCH; b++) passes |= x[b] >= bound ? 1u << b : 0u;
            if (passes && !first_only) place = tb_shared_add(&s.own_pushed, (uint32_t)__popc(passes));
#pragma unroll
            for (int b = 0; b < BATCH; b++)
                if (passes >> b & 1)
                    tb_push_one<C>(s, rank, x[b],
                                   (at * (C * NT) + rank * NT + column[b]) * width + lane % width -
                                       s.slice.shift,
                                   place++, greedy);
            __syncwarp();
            if (__any_sync(TB_WHOLE_WARP, place > (uint32_t)S::SEGMENT) && !greedy) return; /* it is left */
        }
    }
}

/* Lists the groups whose maximum reaches the bound. By the block's finishers; a barrier must follow. */
template <class S> TB_DEV void tb_list_groups(S &s, int maxima, float bound)
{
#pragma unroll 1
    for (int i = threadIdx.x; i < maxima; i += TB_FINISHERS) {
        if (s.group[i] < bound) continue;
        uint32_t to = atomicAdd(&s.narrow_length, 1u);
        if (to < (uint32_t)S::LIST) s.list[to] = (uint16_t)i;
    }
}

/* Exact masses and f32 sums of the candidates' groups, for the leader. By every block's finishers. */
template <int dtype, int C, int NT, int U, bool STAGED, class S>
static __device__ __noinline__ void tb_narrow(const uint4 *stage, float maximum, float bound)
{
    S &s = *(S *)tb_fast_bytes;
    const tb_fast_slice slice = s.slice;
    const float c = s.chain.scale, r_row = tb_reference_exponent(maximum, c);
    int group_shift;
    const uint32_t tiles = tb_slice_tiles<C, NT, U>(slice, &group_shift);
    tb_list_groups(s, (int)((tiles + (1u << group_shift) - 1) >> group_shift) * NT, bound);
    tb_finish_barrier();
    const uint32_t listed = min(s.narrow_length, (uint32_t)S::LIST); /* any of them serve */
    double taken = 0.0;
    uint64_t exact = 0;
    const int lane = (int)tb_lane();
    /* each vector by a lane, two at a time: U lanes add a tile up in the same order as one thread did before
     */
    constexpr int AT_ONCE = 32 / U, BATCH = 2, width = tb_fast_vector<dtype>::width;
    constexpr uint32_t none = tb_minus_infinity<dtype>();
    const uint32_t count = listed << group_shift;
#pragma unroll 1
    for (uint32_t first = tb_warp() * AT_ONCE; first < count; first += TB_FINISHERS / 32 * AT_ONCE * BATCH) {
        uint4 v[BATCH][1];
        bool valid[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            const uint32_t at = first + b * (TB_FINISHERS / 32 * AT_ONCE) + lane / U,
                           id = s.list[min(at, count - 1) >> group_shift],
                           t = ((id / NT) << group_shift) + (at & ((1u << group_shift) - 1));
            v[b][0] = make_uint4(none, none, none, none);
            valid[b] = at < count && t < tiles;
            if (valid[b]) v[b][0] = tb_reload<dtype, C, NT, U, STAGED>(slice, stage, t, lane % U, id % NT);
        }
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            tb_drop_nan<dtype, 1>(v[b]);
            float m = tb_vector_max<dtype>(v[b][0]);
#pragma unroll
            for (int d = 1; d < U; d *= 2) m = fmaxf(m, __shfl_xor_sync(TB_WHOLE_WARP, m, d));
            const float r = tb_reference_exponent(m, c);
            float part[width];
#pragma unroll
            for (int e = 0; e < width; e++) {
                const float x = tb_element<dtype>(v[b][0], e);
                part[e] = tb_ex2(__fmaf_rn(x, c, -r));
                exact += law_weight(law_exponent(x, maximum, c));
            }
#pragma unroll
            for (int d = 1; d < U; d *= 2)
#pragma unroll
                for (int e = 0; e < width; e++) part[e] += __shfl_xor_sync(TB_WHOLE_WARP, part[e], d);
#pragma unroll
            for (int d = 1; d < width; d *= 2)
#pragma unroll
                for (int e = 0; e + d < width; e += 2 * d) part[e] += part[e + d];
            if (valid[b] && lane % U == 0) taken += (double)part[0] * (double)tb_power(r - r_row) * 0x1p40;
        }
    }
    __syncwarp();
    exact = tb_warp_sum64(exact);
#pragma unroll
    for (int d = 16; d; d /= 2) taken += __shfl_xor_sync(TB_WHOLE_WARP, taken, d);
    if (tb_lane() == 0) {
        atomicAdd((unsigned long long *)&s.base_mass, (unsigned long long)exact);
        atomicAdd(&s.own_taken, taken);
    }
    tb_finish_barrier();
    if (threadIdx.x == 0) {
        int rank = C == 1 ? 0 : (int)(blockIdx.x % C);
        uint64_t bits = (uint64_t)__double_as_longlong(s.own_taken), mass = s.base_mass;
        uint4 word =
            make_uint4((uint32_t)mass, (uint32_t)(mass >> 32), (uint32_t)bits, (uint32_t)(bits >> 32));
        if (C == 1)
            s.narrow[0] = word;
        else
            tb_mail_16(&s.narrow[rank], 0, word, &s.mail_narrow);
    }
}

#endif
