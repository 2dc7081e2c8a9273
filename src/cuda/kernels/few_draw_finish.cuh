/*
 * The end of a row in the pipe that draws from few kept tokens (few_draw_pipe.cuh), by one warp of the block
 * whose turn it is: the cut among the listed tokens, a top_p with exact masses, the draw in order of the
 * indices. Instructions count: a warp alone takes four to five clocks for each.
 */
#ifndef TB_CUDA_FEW_DRAW_FINISH_CUH
#define TB_CUDA_FEW_DRAW_FINISH_CUH

#include "few_draw_slow.cuh"

template <int dtype, int C> struct tb_few_draw_finish : tb_few_draw_slow<dtype, C> {
    typedef tb_few_draw_slow<dtype, C> B;
    typedef typename B::S S;
    typedef typename B::P P;
    static constexpr uint32_t width = P::width;
    using B::cut_by_count, B::draw_slowly, B::flat, B::gather, B::write;
    using P::known_row;
    using P::lane, P::params, P::rank, P::rows, P::s;

    TB_MEMBER void finish(uint32_t drawer)
    {
        const uint32_t turns = rows > (uint32_t)rank ? (rows - 1 - rank) / C + 1 : 0;
        uint32_t given = 0;
        for (uint32_t turn = drawer; turn < turns; turn += S::DRAWERS) {
            const uint32_t i = turn * C + rank, box = turn % S::DRAWN;
            for (; given + TB_PIPE_GROUP <= i; given += TB_PIPE_GROUP) give_group(given);
            tb_wait_row(&s.known, i);
            tb_wait_here(&s.mail_lists[box], turn / S::DRAWN & 1);
            draw_row(i, box, drawer);
            __syncwarp();
        }
        for (; given < rows; given += TB_PIPE_GROUP) give_group(given);
    }
    /* Once it is known, the last rows in their place were given back by all. */
    TB_MEMBER void give_group(uint32_t group)
    {
        tb_wait_row(&s.known, group);
        if (lane == 0) P::give_back(group);
    }

    /* One row. */
    TB_MEMBER void draw_row(uint32_t i, uint32_t box, uint32_t drawer)
    {
        constexpr int LANES = 32 / C, EACH = TB_FEW_DRAW_LISTED / 32; /* of a block; tokens of a lane */
        const tb_few_draw_row &row = known_row(i);
        const uint4 said = s.said[box][lane / LANES];
        const uint32_t greatest = said.w, count = said.x & ~TB_FEW_DRAW_CLASS;
        if (said.z & (TOMBOLA_ROW_EMPTY | TOMBOLA_ROW_BAD_PARAM)) { /* of all blocks the same */
            const tb_fast_result none = {-1, 0, 0, said.z, 0.0f, 0};
            if (lane == 0) tb_fast_write(params.call, P::row_of(i), none);
            return;
        }
        const bool by_index = row.greedy || params.call.ties == TOMBOLA_TIES_INDEX;
        const uint32_t k = row.k;
        bool slow = __any_sync(TB_WHOLE_WARP, said.x & TB_FEW_DRAW_CLASS) || row.k_last < k;
        const bool even = __all_sync(TB_WHOLE_WARP, count <= EACH * LANES);
        if (!even && !slow) {
            const uint32_t upto = tb_warp_scan(lane % LANES == 0 ? count : 0);
            slow = gather(__shfl_sync(TB_WHOLE_WARP, upto, lane % C * LANES), box, drawer,
                          tb_warp_max(said.y)) > TB_FEW_DRAW_LISTED;
        }
        if (slow) {
            draw_slowly(*this, i, box, drawer);
            return;
        }
        /* block by block, all of a lane's tokens of one; or as they come */
        uint64_t place[EACH];
        uint32_t key[EACH], n = 0, floor = greatest;
        const uint32_t gathered = even ? 0 : s.gathered[drawer];
#pragma unroll
        for (uint32_t j = 0; j < EACH; j++) {
            const uint32_t at = even ? lane % LANES + j * LANES : lane * EACH + j;
            place[j] = 0;
            if (at < (even ? count : gathered))
                place[j] = even ? s.sent[box][lane / LANES][at] : s.place[drawer][at];
            key[j] = tb_place_key(place[j]);
            if (key[j]) n++, floor = min(floor, key[j]);
        }
        n = tb_warp_sum(n), floor = tb_warp_min(floor);
        if (n > k) floor = cut_by_count(drawer, key, floor, greatest, k, &n);
        slow = n > TB_FEW_DRAW_KEPT || (by_index && n > k);
        const bool equal = flat(row, greatest);
        const float maximum = law_key_value(greatest);
        uint64_t weight[EACH];
#pragma unroll
        for (int j = 0; j < EACH; j++)
            weight[j] = key[j] >= floor
                            ? tb_weigh_token(law_key_value(key[j]), 0, maximum, row.scale, equal).weight
                            : 0;
        if (row.p < 1.0f && !slow) {
            uint64_t mass = 0;
#pragma unroll
            for (int j = 0; j < EACH; j++)
                if (weight[j] >= row.w_before) mass += weight[j];
            const uint64_t target = law_top_p_target(row.p, tb_warp_sum54(mass));
            floor = cut_by_mass(drawer, key, weight, floor, greatest, row.w_before, target, by_index, &slow);
        }
        if (slow) {
            draw_slowly(*this, i, box, drawer);
            return;
        }
        uint64_t sum = 0;
        uint32_t number = 0;
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const bool stays = key[j] >= floor && weight[j] >= row.w_last;
            number += stays;
            if (!stays) weight[j] = 0;
            sum += weight[j];
        }
        const uint64_t end = tb_warp_scan64(sum);
        tb_few_draw_kept kept = {
            __shfl_sync(TB_WHOLE_WARP, end, 31), 0, tb_warp_sum(number), 0, said.z, greatest};
        kept.position = law_draw_position(row.random, kept.mass);

        /* the block that has the position, and among its tokens the one */
        const int who = __ffs((int)__ballot_sync(TB_WHOLE_WARP, end > kept.position)) - 1;
        uint32_t votes[EACH];
        uint64_t earlier;
        if (even) {
            const int first = who / LANES * LANES;
            earlier = __shfl_sync(TB_WHOLE_WARP, end - sum, first);
#pragma unroll
            for (int j = 0; j < EACH; j++)
                votes[j] =
                    __ballot_sync(TB_WHOLE_WARP, weight[j] != 0) & (((1u << (LANES - 1)) * 2 - 1) << first);
        } else {
            uint64_t reached = end - sum, some = place[0];
#pragma unroll
            for (int j = 1; j < EACH; j++) {
                reached += weight[j - 1];
                if (reached <= kept.position) some = place[j];
            }
            const uint32_t share = row.share * TB_PIPE_WARPS * width,
                           first = (__shfl_sync(TB_WHOLE_WARP, tb_place_index(some), who) + row.slice.shift) /
                                   share * share;
            earlier = 0;
#pragma unroll
            for (int j = 0; j < EACH; j++) {
                const uint32_t at = tb_place_index(place[j]) + row.slice.shift;
                if (at < first) earlier += weight[j];
                votes[j] = __ballot_sync(TB_WHOLE_WARP, weight[j] && at - first < share);
            }
            earlier = tb_warp_sum54(earlier);
        }
        uint32_t m = 0;
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            if (votes[j] >> lane & 1)
                s.token[drawer][m + __popc(votes[j] & ((1u << lane) - 1))] = {place[j], weight[j]};
            m += __popc(votes[j]);
        }
        __syncwarp();
        for (uint32_t t = lane; t < m; t += 32) {
            const tb_few_draw_token mine = s.token[drawer][t];
            uint64_t before = earlier;
#pragma unroll 2
            for (uint32_t u = 0; u < m; u++) { /* places of lower indices are greater */
                const tb_few_draw_token other = s.token[drawer][u];
                if (((uint32_t)other.place & TB_PLACE_LOW) > ((uint32_t)mine.place & TB_PLACE_LOW))
                    before += other.weight;
            }
            if (before <= kept.position && kept.position - before < mine.weight)
                write(row, i, kept, tb_place_index(mine.place), law_key_value(tb_place_key(mine.place)));
        }
    }

    /* The greatest key whose tokens and the greater ones have the target's mass, of those from `low` on that
     * weigh enough. Sets *slow where of several equal ones not all may stay. */
    template <int EACH>
    TB_MEMBER uint32_t cut_by_mass(uint32_t drawer, const uint32_t (&key)[EACH],
                                   const uint64_t (&weight)[EACH], uint32_t low, uint32_t high,
                                   uint64_t least, uint64_t target, bool by_index, bool *slow)
    {
        uint32_t *const bins = s.sums[drawer].count, *const highs = s.sums[drawer].high,
                        *const lows = s.sums[drawer].low;
        uint64_t above = 0;
        uint32_t number = 2;
#pragma unroll 1
        while (low < high && number > 1) {
            const uint32_t shift = P::bin_shift(low, high);
            __syncwarp();
            ((uint4 *)bins)[lane] = ((uint4 *)highs)[lane] = ((uint4 *)lows)[lane] = make_uint4(0, 0, 0, 0);
            __syncwarp();
#pragma unroll
            for (int j = 0; j < EACH; j++) {
                if (key[j] - low > high - low || weight[j] < least) continue;
                const uint32_t b = (key[j] - low) >> shift;
                atomicAdd(&bins[b], 1u);
                atomicAdd(&highs[b], (uint32_t)(weight[j] >> 20));
                atomicAdd(&lows[b], (uint32_t)weight[j] & 0xfffffu);
            }
            __syncwarp();
            const uint4 n = ((const uint4 *)bins)[31 - lane], h = ((const uint4 *)highs)[31 - lane],
                        l = ((const uint4 *)lows)[31 - lane];
            const uint64_t a = tb_join(h.w, l.w), b = a + tb_join(h.z, l.z), c = b + tb_join(h.y, l.y),
                           d = c + tb_join(h.x, l.x), upto = above + tb_warp_scan64(d), over = upto - d;
            const int from = __ffs((int)__ballot_sync(TB_WHOLE_WARP, upto >= target)) - 1;
            const uint32_t o = (over + a < target) + (over + b < target) + (over + c < target);
            const uint64_t before = o == 0 ? over : over + (o == 1 ? a : o == 2 ? b : c);
            low += __shfl_sync(TB_WHOLE_WARP, 127 - lane * 4 - o, from) << shift;
            high = low + min(high - low, (1u << shift) - 1);
            above = __shfl_sync(TB_WHOLE_WARP, before, from);
            number = __shfl_sync(TB_WHOLE_WARP, o == 0 ? n.w : o == 1 ? n.z : o == 2 ? n.y : n.x, from);
        }
        if (by_index && number > 1) *slow = true;
        return low;
    }
};

#endif
