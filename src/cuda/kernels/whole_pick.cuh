/*
 * Lists of a row that lies in the shared memory of its team: kept ids, and where few tokens are wanted all
 * that reach a bound, of which every block gets the list in place of the row.
 */
#ifndef TB_CUDA_WHOLE_PICK_CUH
#define TB_CUDA_WHOLE_PICK_CUH

#include "pick_list.cuh"
#include "whole_select.cuh"

#define TB_WHOLE_TRIES 3

/* A key that about the fraction x of the row's tokens reaches; 0 where nothing tells. That of the parts of g
 * elements which reach it is 1 - (1 - x)^g. */
template <class R> TB_DEV uint32_t tb_whole_guess(const R &r, float x, uint32_t least)
{
    const uint32_t quarters = r.team.size * TB_WHOLE_WARPS;
    if (x > 0.9f) return least;
    const float lane = (float)r.part.length / (float)(quarters * 32), bits = log2f(1.0f - x);
    const float by_lane = 1.0f - exp2f(lane * bits), by_group = 1.0f - exp2f(8.0f * lane * bits);
    if (by_lane > 0.95f) return 0;
    const bool groups = by_group < 0.75f;
    uint32_t number = (uint32_t)((groups ? by_group : by_lane) * (float)(4 * quarters)) + 1;
    uint32_t bound = tb_whole_group_bound(groups ? r.group : r.spread, quarters, number, least, r.greatest,
                                          r.weigher.probabilities);
    return bound > least ? bound : least;
}

/* Copies all blocks' lists to `all`, one after the other; count[q]: the tokens of warp lane + 32 * q of the
 * team's. Each warp copies the lists of the warps of its number, their first loads at once, of its own block
 * first: all blocks read, none is asked by all others at a time. */
template <class R> TB_DEV void tb_whole_collect(const R &r, uint64_t *all, const uint32_t (&count)[4])
{
    constexpr uint32_t BLOCKS = 32 / TB_WHOLE_WARPS; /* whose counts a lane's number q holds */
    uint32_t base = 0, length = 0, begin = 0;        /* of the list that this warp takes from block `lane` */
#pragma unroll
    for (uint32_t q = 0; q < 4; q++) {
        const uint32_t end = base + tb_warp_scan(count[q]),
                       lane = tb_lane() % BLOCKS * TB_WHOLE_WARPS + tb_warp();
        const uint32_t n = __shfl_sync(TB_WHOLE_WARP, count[q], (int)lane),
                       to = __shfl_sync(TB_WHOLE_WARP, end, (int)lane);
        if (tb_lane() / BLOCKS == q) length = n, begin = to - n;
        base = __shfl_sync(TB_WHOLE_WARP, end, 31);
    }
    constexpr uint32_t AT_ONCE = 8;
#pragma unroll 1
    for (uint32_t k0 = 0; k0 < r.team.size; k0 += AT_ONCE) {
        uint64_t place[AT_ONCE];
#pragma unroll
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            const uint32_t block = (k0 + k + r.team.rank) & (r.team.size - 1);
            const uint64_t *theirs = tb_team_at(r.team, r.s->listed, block) + tb_warp() * TB_WHOLE_SEGMENT;
            const uint32_t n = __shfl_sync(TB_WHOLE_WARP, length, (int)block);
            place[k] = k0 + k < r.team.size && tb_lane() < n ? theirs[tb_lane()] : 0;
        }
#pragma unroll
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            if (k0 + k >= r.team.size) break;
            const uint32_t block = (k0 + k + r.team.rank) & (r.team.size - 1),
                           n = __shfl_sync(TB_WHOLE_WARP, length, (int)block),
                           to = __shfl_sync(TB_WHOLE_WARP, begin, (int)block);
            if (tb_lane() < n) all[to + tb_lane()] = place[k];
            if (n <= 32) continue;
            const uint64_t *theirs = tb_team_at(r.team, r.s->listed, block) + tb_warp() * TB_WHOLE_SEGMENT;
#pragma unroll 1
            for (uint32_t j = 32 + tb_lane(); j < n; j += 32) all[to + j] = theirs[j];
        }
    }
}

/* What each warp of the team has listed, once every block has: count[q] of warp lane + 32 * q. Returns the
 * sum; the greatest number of a warp in *most; the masses' sum in *mass, if that is wanted. */
template <class R> TB_DEV uint32_t tb_whole_listed(const R &r, uint32_t (&count)[4], uint32_t *most)
{
    uint32_t sum = 0, greatest = 0;
    tb_team_barrier(r.team);
#pragma unroll
    for (int q = 0; q < 4; q++) {
        uint32_t i = q * 32 + tb_lane();
        count[q] = 0;
        if (i >= r.team.size * TB_WHOLE_WARPS) continue;
        tb_whole_shared *s = tb_team_at(r.team, r.s, i / TB_WHOLE_WARPS);
        count[q] = (uint32_t)tb_whole_words(s)[i % TB_WHOLE_WARPS];
        sum += count[q];
        greatest = count[q] > greatest ? count[q] : greatest;
    }
    *most = tb_warp_max(greatest);
    return tb_warp_sum(sum);
}

/* The list of n tokens from key `bound` on, which this block has in the row's place. */
template <class R> TB_DEV tb_pick_row tb_whole_take(const R &r, uint32_t n, uint32_t bound)
{
    tb_pick_row p;
    p.s = (tb_pick_shared *)r.keep;
    p.team = r.team;
    p.bound = bound;
    p.greatest = r.greatest;
    p.listed = n;
    const uint32_t each = (n + TB_WHOLE_WARPS - 1) / TB_WHOLE_WARPS;
    p.first = p.before = each * tb_warp() < n ? each * tb_warp() : n;
    p.mine = n - p.first < each ? n - p.first : each;
    if (threadIdx.x == 0) p.s->fill = NULL;
    __syncthreads();
    return p;
}

/* A row of which few tokens are wanted, from the list of a guess. False, with nothing changed, where the list
 * is too short or too long. */
template <class R>
TB_DEV bool tb_whole_pick(R &r, const tombola_call &call, int64_t index, int64_t start, uint32_t status)
{
    const uint32_t least = r.weigher.probabilities ? TB_KEY_LEAST_PROBABILITY : TB_KEY_LEAST_LOGIT;
    const tb_whole_chain chain = r.s->chain;
    if (r.greatest == TB_KEY_POS_INF) return false;
    const uint32_t wanted = chain.k_before == TB_NO_COUNT ? (uint32_t)call.top_count : chain.k_before;
    const uint32_t share = (r.part.length + r.part.shift) / (r.team.size * TB_WHOLE_WARPS);
    const bool small = share + 3 * R::width <= TB_WHOLE_SEGMENT && r.part.length <= TB_PICK_LIST;
    /* four standard deviations of a count, and some for the parts' */
    const float number = (float)wanted;
    float x = (number + 4.0f * sqrtf(number) + 8.0f) * 1.25f / (float)r.part.length;
    uint64_t *own = r.s->listed + tb_warp() * TB_WHOLE_SEGMENT;
    uint32_t bound = small ? least : tb_whole_guess(r, x, least), all = 0;
    uint32_t count[4];
    bool listed = false;
#pragma unroll 1
    for (int attempt = 0; attempt < TB_WHOLE_TRIES && bound && !listed; attempt++) {
        const float value = law_key_value(bound);
        uint32_t n = 0, most;
#pragma unroll 2
        for (uint32_t j = 0, loads = tb_whole_loads(r.part); j < loads && n <= TB_WHOLE_SEGMENT; j++) {
            uint32_t vector = r.part.first + j * 32 + tb_lane();
            uint4 v = make_uint4(0, 0, 0, 0);
            bool there = vector < r.part.end;
            if (there) v = r.keep[j * TB_WHOLE_THREADS + threadIdx.x];
            tb_pick_append<R>(v, tb_whole_index(r, vector), there ? value : LAW_INF, own, TB_WHOLE_SEGMENT,
                              &n);
        }
        if (attempt) tb_whole_reclaim(r); /* the last attempt's numbers have been read */
        if (tb_lane() == 0) tb_whole_words(r.s)[tb_warp()] = n;
        all = tb_whole_listed(r, count, &most);
        r.pulled = r.team.size > 1;
        const bool enough = all >= wanted || bound == least;
        listed = enough && most <= TB_WHOLE_SEGMENT && all <= TB_PICK_LIST;
        if (listed) break;
        x *= enough ? 0.6f : fminf(1.25f * number / (float)(all + 1), 4.0f);
        const uint32_t last = bound;
        bound = tb_whole_guess(r, x, least);
        for (int i = 0; i < 3 && bound == last; i++)
            bound = tb_whole_guess(r, x *= enough ? 0.6f : 1.4f, least);
        if (bound == last) break;
    }
    if (!listed) return false;
    tb_whole_collect(r, ((tb_pick_shared *)r.keep)->place, count);
    tb_whole_arrive(r); /* nobody looks at another's shared memory any more */
    tb_pick_row p = tb_whole_take(r, all, bound);
    /* the elements of this block's vectors */
    const uint32_t vectors = (r.part.shift + r.part.length + R::width - 1) / R::width,
                   of_block = tb_whole_block_share(r.team, vectors);
    auto element = [&](uint32_t vector) {
        uint64_t e = (uint64_t)vector * R::width;
        return e <= r.part.shift                  ? 0
               : e - r.part.shift < r.part.length ? (uint32_t)e - r.part.shift
                                                  : r.part.length;
    };
    tb_pick_write(p, call, chain, 0, 0, index, start, status, element(of_block * r.team.rank),
                  element(of_block * (r.team.rank + 1)));
    tb_whole_wait(r);
    return true;
}

/* Kept ids in order; `counts` are the words of tb_whole_measure. */
template <class R>
TB_DEV void tb_whole_write_ids(const R &r, int32_t *ids, int64_t capacity, const tb_whole_set &set,
                               const uint4 *counts)
{
    const tb_cut cut = tb_make_cut(set.floor);
    const uint32_t self = r.team.rank * TB_WHOLE_WARPS + tb_warp();
    uint32_t before = 0;
#pragma unroll 1
    for (uint32_t i = tb_lane(); i < self; i += 32) before += counts[i].z;
    int64_t at = tb_warp_sum(before);
    bool any = counts[self].z > 0;
    for (uint32_t j = 0, loads = tb_whole_loads(r.part); any && j < loads && at < capacity; j++) {
        uint32_t vector = r.part.first + j * 32 + tb_lane(), members = 0, first = tb_whole_index(r, vector);
        if (vector < r.part.end) {
            uint4 v = r.keep[j * TB_WHOLE_THREADS + threadIdx.x];
#pragma unroll
            for (int e = 0; e < R::width; e++)
                members |= (uint32_t)tb_in_cut(cut, tb_whole_element<R>(v, e), first + e) << e;
        }
        if (!__any_sync(TB_WHOLE_WARP, members)) continue;
        uint32_t inclusive = tb_warp_scan(__popc(members));
        int64_t to = at + inclusive - __popc(members);
#pragma unroll 1
        for (; members; members &= members - 1, to++)
            if (to < capacity) ids[to] = (int32_t)(first + __ffs((int)members) - 1);
        at += __shfl_sync(TB_WHOLE_WARP, inclusive, 31);
    }
    /* the rest of the ids, by all blocks */
    uint32_t threads = r.team.size * TB_WHOLE_THREADS;
#pragma unroll 1
    for (int64_t i = set.count + (r.team.rank * TB_WHOLE_THREADS + threadIdx.x); i < capacity; i += threads)
        ids[i] = -1;
}

/* Where the ids of a row's greatest tokens are gathered: in the output. */
TB_DEV int32_t *tb_whole_top(const tombola_call &call, int64_t index)
{
    return (call.top_ids ? call.top_ids : (int32_t *)call.top_logprobs) + index * call.top_count;
}

/* The greatest tokens, the last output of their row; up to `top_count` of them, which is at most
 * TB_PICK_MOST, whose ids lie in the output. From there each block makes its list. */
template <class R>
TB_DEV void tb_whole_write_top(R &r, const tombola_call &call, int64_t index, int64_t start,
                               const tb_whole_set &top, uint64_t mass)
{
    const int32_t *ids = tb_whole_top(call, index);
    tb_team_barrier(r.team);
    uint64_t *list = ((tb_pick_shared *)r.keep)->place;
    const char *data = (const char *)call.data + (size_t)start * R::bytes;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < top.count; i += TB_WHOLE_THREADS) {
        const uint32_t id = (uint32_t)((const volatile int32_t *)ids)[i];
        const uint32_t bits =
            R::bytes == 4 ? ((const uint32_t *)data)[id] : (uint32_t)((const uint16_t *)data)[id];
        float x = R::dtype == TOMBOLA_F32   ? law_float(bits)
                  : R::dtype == TOMBOLA_F16 ? tb_f16_value(bits)
                                            : law_float(bits << 16);
        list[i] = tb_place(law_key(x), id);
    }
    tb_team_barrier(r.team); /* all have read them */
    tb_whole_arrive(r);
    tb_pick_row p = tb_whole_take(r, top.count, tb_place_key(top.floor));
    p.weigher = r.weigher;
    p.by_index = true;
    tb_pick_write_top(p, call, index, top.count, mass);
}

#endif
