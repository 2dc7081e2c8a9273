/*
 * Lists of a row that lies in the shared memory of its team: each block's tokens from a bound on, then all of
 * them in each block, where the row was.
 */
#ifndef TB_CUDA_WHOLE_PICK_CUH
#define TB_CUDA_WHOLE_PICK_CUH

#include "pick_list.cuh"
#include "whole_select.cuh"

#define TB_WHOLE_OWN (TB_WHOLE_OWN_BYTES / 8)
#define TB_WHOLE_SEGMENT (TB_WHOLE_OWN / TB_WHOLE_WARPS)
#define TB_WHOLE_TRIES 3

static_assert(TB_WHOLE_OWN >= TB_PICK_MOST, "the tokens of top_ids, if one block has them all");

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

/* Copies all blocks' lists to `all`, one after the other. A block has in s->least_place for each warp where
 * in its `own` the warp's tokens begin << 32 | their number; `at` is what it was for lane + 32 * i of the
 * team's warps. Their places in the shared list are sums of `n`. */
template <class R> TB_DEV void tb_whole_collect(const R &r, uint64_t *all, const uint64_t (&at)[4])
{
    uint32_t base = 0;
#pragma unroll
    for (int q = 0; q < 4; q++) {
        if (q * 32 >= (int)(r.team.size * TB_WHOLE_WARPS)) break;
        const uint32_t count = (uint32_t)at[q], begin = (uint32_t)(at[q] >> 32),
                       end = base + tb_warp_scan(count);
#pragma unroll
        for (uint32_t i = 0; i < 32 / TB_WHOLE_WARPS; i++) { /* by this warp: the segments of four others */
            const int from = (int)(i * TB_WHOLE_WARPS + tb_warp());
            const uint32_t n = __shfl_sync(TB_WHOLE_WARP, count, from),
                           to = __shfl_sync(TB_WHOLE_WARP, end, from) - n,
                           first = __shfl_sync(TB_WHOLE_WARP, begin, from);
            if (!n) continue;
            const uint64_t *theirs =
                tb_team_at(r.team, r.own, (uint32_t)(q * 32 + from) / TB_WHOLE_WARPS) + first;
            for (uint32_t j = tb_lane(); j < n; j += 32) all[to + j] = theirs[j];
        }
        base = __shfl_sync(TB_WHOLE_WARP, end, 31);
    }
}

/* What each warp of the team has listed, once every block has: lane + 32 * i of them. Returns the sum; the
 * greatest number of a warp in *most. */
template <class R> TB_DEV uint32_t tb_whole_listed(const R &r, uint64_t (&at)[4], uint32_t *most)
{
    uint32_t sum = 0, greatest = 0;
    tb_team_barrier(r.team);
#pragma unroll
    for (int q = 0; q < 4; q++) {
        uint32_t i = q * 32 + tb_lane();
        at[q] = 0;
        if (i < r.team.size * TB_WHOLE_WARPS)
            at[q] = tb_team_at(r.team, r.s->least_place, i / TB_WHOLE_WARPS)[i % TB_WHOLE_WARPS];
        sum += (uint32_t)at[q];
        greatest = (uint32_t)at[q] > greatest ? (uint32_t)at[q] : greatest;
    }
    *most = tb_warp_max(greatest);
    return tb_warp_sum(sum);
}

/* The list in this block, its n tokens from key `bound` on. Nobody looks at the row any more. */
template <class R>
TB_DEV tb_pick_row tb_whole_take(const R &r, const uint64_t (&at)[4], uint32_t n, uint32_t bound,
                                 uint32_t least)
{
    tb_pick_row p;
    p.s = (tb_pick_shared *)r.keep;
    tb_whole_collect(r, p.s->place, at);
    p.team = r.team;
    p.bound = bound;
    p.least = least;
    p.greatest = r.greatest;
    p.listed = n;
    const uint32_t each = (n + TB_WHOLE_WARPS - 1) / TB_WHOLE_WARPS;
    p.first = each * tb_warp() < n ? each * tb_warp() : n;
    p.mine = n - p.first < each ? n - p.first : each;
    if (tb_lane() == 0) p.s->count[tb_warp()] = p.mine;
    __syncthreads();
    return p;
}

/* A row of which few tokens are wanted, from the list of a guess. False, with nothing changed, where the list
 * is too short or too long. */
template <class R>
TB_DEV bool tb_whole_pick(R &r, const tombola_call &call, int64_t index, int64_t start, uint32_t status)
{
    const uint32_t least = r.weigher.probabilities ? TB_KEY_LEAST_PROBABILITY : TB_KEY_LEAST_LOGIT;
    const uint32_t k = r.s->chain.k_before, wanted = k == TB_NO_COUNT ? (uint32_t)call.top_count : k;
    const uint32_t share = (r.part.length + r.part.shift) / (r.team.size * TB_WHOLE_WARPS);
    if (r.greatest == TB_KEY_POS_INF) return false;
    const bool small = share + 3 * R::width <= TB_WHOLE_SEGMENT && r.part.length <= TB_PICK_LIST;
    /* four standard deviations of a count, and some for the parts' */
    const float target = (float)wanted;
    float x = (target + 4.0f * sqrtf(target) + 8.0f) * 1.05f / (float)r.part.length;
    const uint32_t begin = tb_warp() * TB_WHOLE_SEGMENT;
    uint32_t bound = small ? least : tb_whole_guess(r, x, least), all = 0;
    uint64_t at[4];
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
            tb_pick_append<R>(v, tb_whole_index(r, vector), there ? value : LAW_INF, r.own + begin,
                              TB_WHOLE_SEGMENT, &n);
        }
        if (attempt) tb_whole_reclaim(r); /* the last attempt's numbers have been read */
        if (tb_lane() == 0) r.s->least_place[tb_warp()] = (uint64_t)begin << 32 | n;
        all = tb_whole_listed(r, at, &most);
        r.pulled = r.team.size > 1;
        if (all >= wanted || bound == least) {
            listed = most <= TB_WHOLE_SEGMENT && all <= TB_PICK_LIST;
            break; /* too many are mostly equals, or lie in few warps */
        }
        if (most > TB_WHOLE_SEGMENT) break;
        x *= fminf(1.25f * target / (float)(all + 1), 4.0f);
        const uint32_t last = bound;
        bound = tb_whole_guess(r, x, least);
        if (bound == last) break;
    }
    if (!listed) return false;
    tb_pick_row p = tb_whole_take(r, at, all, bound, least);
    tb_whole_arrive(r);
    const uint32_t stay = tb_pick_begin(p, call, r.s->chain.temperature, k);
    /* the elements of this block's vectors */
    const uint32_t vectors = (r.part.shift + r.part.length + R::width - 1) / R::width,
                   of_block = (vectors + r.team.size - 1) / r.team.size;
    auto element = [&](uint32_t vector) {
        uint64_t e = (uint64_t)vector * R::width;
        return e <= r.part.shift                  ? 0
               : e - r.part.shift < r.part.length ? (uint32_t)e - r.part.shift
                                                  : r.part.length;
    };
    tb_pick_write<R::dtype>(p, call, index, start, stay, status, element(of_block * r.team.rank),
                            element(of_block * (r.team.rank + 1)));
    tb_whole_wait(r);
    return true;
}

/* The greatest tokens of a set, the last output of its row; up to `top_count` of them, which is at most
 * TB_PICK_MOST. */
template <class R>
TB_DEV void tb_whole_write_top(R &r, const tombola_call &call, int64_t index, const tb_whole_set &set)
{
    tb_whole_set top = set;
    tb_whole_select(r, true, (uint32_t)call.top_count, TB_NO_TARGET, &top);
    const uint4 *counts = tb_whole_measure(r, &top, TB_COUNT_ONLY);
    const uint32_t self = r.team.rank * TB_WHOLE_WARPS, mine = counts[self + tb_warp()].z;
    uint32_t begin = tb_warp_sum(tb_lane() < tb_warp() ? counts[self + tb_lane()].z : 0), n = begin;
    const tb_cut cut = tb_make_cut(top.floor);
    for (uint32_t j = 0, loads = tb_whole_loads(r.part); mine && j < loads; j++) {
        uint32_t vector = r.part.first + j * 32 + tb_lane(), first = tb_whole_index(r, vector), members = 0;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (vector < r.part.end) {
            v = r.keep[j * TB_WHOLE_THREADS + threadIdx.x];
#pragma unroll
            for (int e = 0; e < R::width; e++)
                members |= (uint32_t)tb_in_cut(cut, tb_whole_element<R>(v, e), first + e) << e;
        }
        if (!__any_sync(TB_WHOLE_WARP, members)) continue;
        uint32_t inclusive = tb_warp_scan(__popc(members)), to = n + inclusive - __popc(members);
#pragma unroll
        for (int e = 0; e < R::width; e++)
            if (members >> e & 1) r.own[to++] = tb_place(law_key(tb_whole_element<R>(v, e)), first + e);
        n += __shfl_sync(TB_WHOLE_WARP, inclusive, 31);
    }
    if (tb_lane() == 0) r.s->least_place[tb_warp()] = (uint64_t)begin << 32 | mine;
    uint64_t at[4];
    uint32_t most, all = tb_whole_listed(r, at, &most);
    tb_pick_row p = tb_whole_take(r, at, all, tb_place_key(top.floor), 0);
    tb_whole_arrive(r);
    p.weigher = r.weigher;
    tb_pick_write_top(p, call, index, all, set.mass);
}

#endif
