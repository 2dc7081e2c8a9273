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

/* A tile on its way to its copy in shared memory, where it is -inf where the block has nothing. `start` is
 * the first of its vectors, which are `stride` apart; each thread brings those that it will look at. */
template <int dtype, int stride, int NT, int U>
TB_DEV void tb_stage_tile(const tb_fast_slice &s, uint32_t start, uint4 *to)
{
    constexpr uint32_t none = tb_minus_infinity<dtype>(), width = tb_fast_vector<dtype>::width;
    const uint32_t mine = start + threadIdx.x, end = min(s.end, s.whole_end),
                   inner = end > s.whole_first ? end - s.whole_first : 0, tail_at = s.whole_end - mine;
    const char *at = s.base + (size_t)mine * 16;
    to += threadIdx.x;
#pragma unroll
    for (int j = 0; j < U; j++) {
        if (mine + j * stride - s.whole_first < inner)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(tb_shared_address(to + j * NT)),
                         "l"(at + j * (stride * 16))
                         : "memory");
        else
            to[j * NT] = make_uint4(none, none, none, none);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    if (s.whole_first && mine == 0) to[0] = tb_load_edge<dtype>(s.base, 0u - s.shift, s.length);
    if (tail_at < stride * U && tail_at % stride == 0 && s.whole_end < s.end)
        to[tail_at / stride * NT] =
            tb_load_edge<dtype>(s.base + (size_t)s.whole_end * 16, s.whole_end * width - s.shift, s.length);
}

/* Waits for the thread's part of all tiles but the last one, or of all. */
TB_DEV void tb_stage_wait(bool but_last)
{
    if (but_last)
        asm volatile("cp.async.wait_group 1;" ::: "memory");
    else
        asm volatile("cp.async.wait_group 0;" ::: "memory");
}

/* A candidate to the leader's list. */
template <int C> TB_DEV void tb_push(uint2 *to, uint32_t bits, uint32_t index, uint64_t *box)
{
    if (C == 1)
        *to = make_uint2(bits, index);
    else
        tb_mail_8(to, 0, bits, index, box);
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

/* One candidate: weighed at once where the block is alone, else sent to the leader. Greedy rows want the
 * first.
 */
template <int C, class S>
TB_DEV void tb_push_one(S &s, int rank, float x, uint32_t index, uint32_t place, bool greedy, float maximum,
                        float scale, bool flat, uint32_t *high, uint32_t *low)
{
    if (greedy) {
        atomicMin(&s.own_first, index);
    } else if (C == 1) {
        if (place >= (uint32_t)S::CAPACITY) return;
        tb_fast_token token = tb_weigh_token(x, index, maximum, scale, flat);
        s.token[place] = token;
        *high += tb_high_digit(token.weight);
        *low += tb_low_digit(token.weight);
    } else if (place < (uint32_t)S::SEGMENT) {
        tb_push<C>(&s.raw[rank * S::SEGMENT + place], law_bits(x), index, &s.mail_second);
    }
}

/* The candidates among what a warp caught, and in its share of what the interval warp caught, where these
 * hold. By all that seek. */
template <int dtype, int C, class S>
TB_DEV void tb_push_caught(S &s, int rank, float bound, bool own, bool shared, bool greedy, float maximum,
                           float scale, bool flat, uint32_t *high, uint32_t *low)
{
    constexpr int width = tb_fast_vector<dtype>::width, SEEKING = S::WARPS - 1;
    const int my = tb_seeker() >> 5, mine = own ? (int)s.caught_count[tb_warp()] : 0,
              others = shared ? (int)s.caught_count[TB_INTERVAL_WARP] : 0,
              n = mine + (others - my + SEEKING - 1) / SEEKING;
#pragma unroll 1
    for (int i = (int)tb_lane(); i < n; i += 32) {
        const int warp = i < mine ? (int)tb_warp() : TB_INTERVAL_WARP,
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
            tb_push_one<C>(s, rank, tb_stored<dtype>(&s.caught[warp][at], e), first + e, to, greedy, maximum,
                           scale, flat, high, low);
        }
    }
}

/*
 * The candidates, from the groups whose maximum reaches the bound: weighed at once where the block is alone,
 * else sent to the leader. Greedy: how many elements reach the bound, and the first of them. Each warp looks
 * at its own threads' groups, a tile at a time, an element a lane; those of the warp that works out the
 * interval are shared out. By all that seek.
 */
template <int dtype, int C, int NT, int U, class S>
TB_DEV void tb_push_groups(S &s, int rank, float bound, uint32_t tiles, int group_shift, bool own,
                           bool shared, bool greedy, float maximum, float scale, bool flat, uint32_t *high,
                           uint32_t *low)
{
    constexpr int SEEKING = S::WARPS - 1, BATCH = 4, width = tb_fast_vector<dtype>::width;
    constexpr uint32_t ROOM = C == 1 ? S::CAPACITY : S::SEGMENT;
    static_assert(U * width == 32 && TB_MAX_GROUPS + (TB_MAX_GROUPS + SEEKING - 1) / SEEKING <= 32, "");
    const int lane = (int)tb_lane(), my = tb_seeker() >> 5;
    const int groups = (int)((tiles + (1u << group_shift) - 1) >> group_shift);
    const uint32_t lower = (1u << lane) - 1, shift = s.slice.shift, length = s.slice.length;
    const char *base = s.slice.base;
    uint32_t *queue = s.queue[my];
    uint32_t bits = 0;
    if (own)
#pragma unroll 4
        for (int g = 0; g < groups; g++) bits |= s.group[g * NT + threadIdx.x] >= bound ? 1u << g : 0u;
    if (shared)
#pragma unroll 1
        for (int g = my, b = TB_MAX_GROUPS; g < groups; g += SEEKING, b++)
            bits |= s.group[g * NT + TB_INTERVAL_WARP * 32 + lane] >= bound ? 1u << b : 0u;
    /* So many groups, of one candidate at least each, that to leave the row is faster than to read them
     * again.
     */
    if (C == 1 && !greedy && tb_warp_sum((uint32_t)__popc(bits)) * SEEKING > 1024) {
        if (lane == 0) tb_shared_add(&s.own_pushed, ROOM + 1);
        bits = 0;
    }
    int count = 0;
    for (;;) {
        uint32_t mask = __ballot_sync(TB_WHOLE_WARP, bits != 0);
        if (mask && count <= S::QUEUE - 32) {
            if (bits) {
                int b = __ffs(bits) - 1;
                queue[count + __popc(mask & lower)] =
                    b < TB_MAX_GROUPS
                        ? b * NT + threadIdx.x
                        : (my + (b - TB_MAX_GROUPS) * SEEKING) * NT + TB_INTERVAL_WARP * 32 + lane;
                bits &= bits - 1;
            }
            count += __popc(mask);
            continue;
        }
        if (!count) break;
        __syncwarp();
#pragma unroll 1
        for (int i = 0; i < count << group_shift; i += BATCH) {
            float x[BATCH];
            uint32_t index[BATCH], passes[BATCH], total = 0;
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                uint32_t id = queue[min((i + b) >> group_shift, S::QUEUE - 1)], column = id % NT;
                uint32_t t = ((id / NT) << group_shift) + ((uint32_t)(i + b) & ((1u << group_shift) - 1));
                uint32_t j = t * U + lane / width, vector = j * (C * NT) + rank * NT + column;
                index[b] = vector * width + lane % width - shift;
                bool valid = i + b < count << group_shift && t < tiles && index[b] < length;
                x[b] = -LAW_INF;
                if (valid) x[b] = tb_stored<dtype>(base + (size_t)vector * 16, lane % width);
            }
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                passes[b] = __ballot_sync(TB_WHOLE_WARP, x[b] >= bound);
                total += __popc(passes[b]);
            }
            if (!total) continue;
            uint32_t to = 0;
            if (lane == 0) to = tb_shared_add(&s.own_pushed, total);
            to = __shfl_sync(TB_WHOLE_WARP, to, 0);
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                uint32_t place = to + __popc(passes[b] & lower);
                to += __popc(passes[b]);
                if (x[b] >= bound)
                    tb_push_one<C>(s, rank, x[b], index[b], place, greedy, maximum, scale, flat, high, low);
            }
            if (to > ROOM && !greedy) { /* too many: the row is left */
                bits = 0;
                break;
            }
        }
        __syncwarp();
        count = 0;
    }
}

/* The same from the row's copy in shared memory, where a group is one tile. */
template <int dtype, int C, int NT, int U, class S>
TB_DEV void tb_push_staged(S &s, const uint4 *stage, int rank, float bound, uint32_t tiles, bool greedy)
{
    constexpr int SEEKING = S::WARPS - 1, BATCH = 4, width = tb_fast_vector<dtype>::width;
    static_assert(U * width == 32, "an element a lane");
    const int lane = (int)tb_lane(), warp = (int)tb_warp(), my = tb_seeker() >> 5;
    const uint32_t lower = (1u << lane) - 1;
    /* its own, then its share of the interval warp's */
#pragma unroll 1
    for (uint32_t g = 0, own = 1; own || g < tiles;) {
        const int first = own ? warp * 32 : TB_INTERVAL_WARP * 32;
        uint32_t hits = __ballot_sync(TB_WHOLE_WARP, g < tiles && s.group[g * NT + first + lane] >= bound);
#pragma unroll 1
        while (hits) {
            float x[BATCH];
            uint32_t column[BATCH], passes[BATCH], total = 0;
            const uint32_t j = g * U + lane / width;
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                column[b] = first + __ffs(hits) - 1;
                x[b] = hits ? tb_stored<dtype>(stage + j * NT + column[b], lane % width) : -LAW_INF;
                hits &= hits - 1;
            }
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                passes[b] = __ballot_sync(TB_WHOLE_WARP, x[b] >= bound);
                total += __popc(passes[b]);
            }
            uint32_t to = 0;
            if (lane == 0) to = tb_shared_add(&s.own_pushed, total);
            to = __shfl_sync(TB_WHOLE_WARP, to, 0);
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                if (x[b] >= bound) {
                    const uint32_t vector = j * (C * NT) + rank * NT + column[b];
                    tb_push_one<C>(s, rank, x[b], vector * width + lane % width - s.slice.shift,
                                   to + __popc(passes[b] & lower), greedy, 0.0f, 0.0f, false, nullptr,
                                   nullptr);
                }
                to += __popc(passes[b]);
            }
            if (to > (uint32_t)S::SEGMENT && !greedy) return; /* too many: the row is left */
        }
        if (own && ++g >= tiles)
            own = 0, g = my;
        else if (!own)
            g += SEEKING;
    }
}

/* Lists the groups whose maximum reaches the bound. By the block's finishers; a barrier must follow. */
template <class S> TB_DEV void tb_list_groups(S &s, int maxima, float bound)
{
#pragma unroll 1
    for (int i = threadIdx.x; i < maxima; i += TB_FINISHERS) {
        if (s.group[i] < bound) continue;
        uint32_t to = atomicAdd(&s.list_length, 1u);
        if (to < (uint32_t)S::LIST) s.list[to] = i;
    }
}

/* Vectors of the block's slice again, from the copy in shared memory where there is one. */
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
    const uint32_t listed = min(s.list_length, (uint32_t)S::LIST); /* any of them serve */
    double taken = 0.0;
    uint64_t exact = 0;
    for (uint32_t i = threadIdx.x; i < listed; i += TB_FINISHERS) {
        uint32_t group = s.list[i] / NT, column = s.list[i] % NT,
                 end = min(tiles, (group + 1) << group_shift);
        for (uint32_t t = group << group_shift; t < end; t++) {
            uint4 v[U];
#pragma unroll
            for (int j = 0; j < U; j++) v[j] = tb_reload<dtype, C, NT, U, STAGED>(slice, stage, t, j, column);
            float m = tb_tile_max<dtype, U>(v);
            if (law_isnan(m)) {
                tb_drop_nan<dtype, U>(v);
                m = tb_tile_max<dtype, U>(v);
            }
            float r = tb_reference_exponent(m, c);
            taken += (double)tb_tile_sum<dtype, U>(v, c, r) * (double)tb_power(r - r_row) * 0x1p40;
            constexpr int width = tb_fast_vector<dtype>::width;
#pragma unroll
            for (int j = 0; j < U; j++)
#pragma unroll
                for (int e = 0; e < width; e++)
                    exact += law_weight(law_exponent(tb_element<dtype>(v[j], e), maximum, c));
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
