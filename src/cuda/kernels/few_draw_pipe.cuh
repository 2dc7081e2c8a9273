/*
 * Draws under a top_k of few tokens: rows follow each other through a cluster as in the pipe for few kept
 * tokens (few_pipe.cuh), whose copies, looks and lists are the same (few_pipe_rows.cuh).
 *
 * When the maxima of all parts of a row are known, each block lists the tokens of its share from the value on
 * that k of them reach, and sends them to the block whose turn the row is; there one warp cuts them and draws
 * (few_draw_finish.cuh), while the rest works on rows behind it.
 *
 * k of a block's own tokens bound what is kept as well as k of the row's. So a block whose list has no room
 * for what reaches the row's bound (sorted rows, many equal values) raises that for itself, until the rest
 * has room, or those that have none are equal: of these it sends the number in each warp's chunk.
 *
 * A list of row i reuses the room of row i - TB_PIPE_KNOWN, which its block had drawn when it knew of row i,
 * of which the sender has seen the maxima.
 */
#ifndef TB_CUDA_FEW_DRAW_PIPE_CUH
#define TB_CUDA_FEW_DRAW_PIPE_CUH

#include "few_draw_finish.cuh"

template <int dtype, int C> struct tb_few_draw : tb_few_draw_finish<dtype, C> {
    typedef tb_few_draw_shared<dtype, C> S;
    typedef tb_few_rows<dtype, C, S> P;
    static constexpr uint32_t width = P::width;
    using P::barrier, P::known_row, P::list_chunk, P::mine;
    using P::lane, P::params, P::rank, P::rows, P::s, P::warp;

    /* ---- the warp that looks ahead: a row a lane ---- */
    TB_MEMBER void prepare()
    {
        const tombola_call &call = params.call;
        for (uint32_t i0 = 0; i0 < rows; i0 += 32) {
            const uint32_t own = i0 + lane;
            const int64_t row = P::row_of(min(own, rows - 1));
            int64_t start, count;
            const bool located = tb_gpu_locate(call, row, &start, &count);
            const int64_t slot = tb_gpu_slot(call, row);
            bool bad = !located || slot < 0, seen_p = false;
            law_temper temper = {LAW_SCALED, LAW_LOG2E};
            uint32_t k_before = TB_FEW_PIPE_NO_COUNT, k_last = TB_FEW_PIPE_NO_COUNT;
            uint64_t w_before = 0, w_last = 0;
            float p = 1.0f;
            for (int j = 0; j < call.step_count; j++) {
                const tombola_step &step = params.steps[j];
                const int32_t k = !step.k_per_slot ? step.k : bad ? 0 : step.k_per_slot[slot];
                const float value = !step.value_per_slot ? step.value
                                    : bad                ? 1.0f
                                                         : step.value_per_slot[slot];
                const bool joint = step.kind == TOMBOLA_TOP_K_TOP_P;
                if (step.kind != TOMBOLA_TOP_K) bad |= law_isnan(value);
                if (step.kind == TOMBOLA_TEMPERATURE) {
                    bad |= value < 0.0f;
                    if (!bad) temper = law_temperature(value);
                }
                if (step.kind == TOMBOLA_TOP_P || joint) seen_p = true, p = fminf(value, 1.0f);
                if ((step.kind == TOMBOLA_TOP_K || joint) && k > 0) {
                    k_last = min(k_last, (uint32_t)k);
                    if (!seen_p) k_before = k_last;
                }
                if (step.kind == TOMBOLA_MIN_P && value > 0.0f) {
                    const uint64_t w = law_min_p_weight(value, LAW_ONE);
                    w_last = w > w_last ? w : w_last;
                    if (!seen_p) w_before = w_last;
                }
            }
            const bool greedy = temper.mode == LAW_GREEDY;
            if (greedy) k_last = 1, w_last = 0, p = 1.0f;
            const uint64_t random = tb_fast_random(call, row, slot);
            if (i0 == 0) tb_wait_row(&s.placed, 0);
            for (uint32_t i = i0; i < min(rows, i0 + 32); i++) {
                if (i >= TB_PIPE_KNOWN && i % TB_PIPE_GROUP == 0)
                    tb_wait_here(&s.free[i % TB_PIPE_KNOWN / TB_PIPE_GROUP], i / TB_PIPE_KNOWN - 1 & 1);
                __syncwarp(); /* counts grow in order */
                if (own != i) continue;
                if (i >= TB_PIPE_KNOWN) P::place(i, start, located ? count : 0);
                tb_few_draw_row &to = s.row[i % TB_PIPE_KNOWN];
                to.greedy = greedy;
                to.flat = temper.mode != LAW_SCALED;
                to.scale = temper.mode == LAW_SCALED ? temper.scale : 1.0f;
                to.bad = bad;
                to.random = random;
                to.p = p;
                to.k = p < 1.0f ? k_before : k_last;
                to.k_last = k_last;
                to.w_before = w_before;
                to.w_last = w_last;
                if (i >= TB_PIPE_KNOWN) tb_publish(&s.placed, i + 1);
                tb_publish(&s.known, i + 1);
            }
            if (rank == 0 && own < rows) tb_fast_advance(params, row, slot);
            __syncwarp();
        }
    }

    /* ---- a warp that lists its chunk's tokens ---- */
    TB_MEMBER void weigh()
    {
        for (tb_pipe_turn turn = {0, 0, 0}; turn.row < rows; P::go_on(turn)) {
            const uint32_t i = turn.row, at = i % TB_PIPE_RING, box = i / C % S::DRAWN;
            const int to = (int)(i % C);
            uint64_t *const own = s.own[i % 2];
            tb_wait_here(&s.filled[warp / P::CHUNKS][turn.place], turn.filling & 1);
            tb_wait_here(&s.decided[at], i / TB_PIPE_RING & 1);
            const tb_few_verdict row = s.verdict[at];
            if (row.kind != TB_FEW_VOID) list(turn, row.bound);
            barrier();
            uint32_t n = s.cursor[i % 4], least = 0;
            if (n > S::SENT) {
                const uint2 found = raise(*this, turn);
                n = found.x, least = found.y;
            }
            /* of the next row but one; all have seen what was there */
            if (threadIdx.x == 0) s.cursor[(i + 2) % 4] = 0;
            const uint32_t sent = n & ~TB_FEW_DRAW_CLASS;
            if (threadIdx.x == 0) {
                tb_mail_expect_at(&s.mail_lists[box], to,
                                  sent * 8 + 16 + (n & TB_FEW_DRAW_CLASS ? TB_PIPE_WARPS * 4 : 0));
                tb_mail_16(&s.said[box][rank], to, make_uint4(n, least, row.status, row.greatest),
                           &s.mail_lists[box]);
            }
            if (threadIdx.x < sent) {
                const uint64_t token = own[threadIdx.x];
                tb_mail_8(&s.sent[box][rank][threadIdx.x], to, (uint32_t)token, (uint32_t)(token >> 32),
                          &s.mail_lists[box]);
            }
            if (lane != 0) continue;
            tb_mail_arrive(&s.empty[turn.place]);
            if ((i + 1) % TB_PIPE_GROUP == 0 || i + 1 == rows) P::give_back(i);
        }
    }

    /* The chunk's tokens from a value on go to the block's list. */
    TB_MEMBER void list(const tb_pipe_turn &turn, uint32_t bound)
    {
        const tb_few_verdict &row = s.verdict[turn.row % TB_PIPE_RING];
        list_chunk(P::room_of(turn) + row.share * warp + lane, P::groups_of(warp, row.share, row.end),
                   row.share * mine() + lane, known_row(turn.row).slice.shift, law_key_value(bound),
                   s.own[turn.row % 2], &s.cursor[turn.row % 4]);
    }

    /* By all warps that list: lists what fewer of the block's tokens reach, k at least. The list's length and
     * the least key; with TB_FEW_DRAW_CLASS the tokens of that key are not on the list, and their numbers are
     * sent. */
    static __device__ __noinline__ uint2 raise(tb_few_draw p, tb_pipe_turn turn)
    {
        S &s = p.s;
        const tb_few_verdict verdict = s.verdict[turn.row % TB_PIPE_RING];
        const uint32_t groups = p.groups_of(p.warp, verdict.share, verdict.end);
        const uint4 *chunk = p.room_of(turn) + verdict.share * p.warp + p.lane;
        uint32_t low = verdict.bound;
        if (low < verdict.greatest) {
            low = p.raise_by_group(turn, verdict, chunk, groups);
            const uint32_t n = s.cursor[turn.row % 4];
            if (n <= S::SENT) return make_uint2(n, low);
        }
        return p.raise_by_bins(turn, verdict, chunk, groups, low);
    }

    /* To what k tokens of a group of 32 vectors reach, the one with the greatest token: the block's greatest
     * tokens lie together in sorted rows. The new bound, from which on the block's tokens are listed again.
     */
    TB_MEMBER uint32_t raise_by_group(const tb_pipe_turn &turn, const tb_few_verdict &verdict,
                                      const uint4 *chunk, uint32_t groups)
    {
        float top = -LAW_INF;
        uint32_t at = 0;
#pragma unroll 4
        for (uint32_t j = 0; j < groups; j++) {
            const uint4 v[1] = {chunk[j * 32]};
            const float most = tb_tile_max<dtype, 1>(v);
            if (most > top) top = most, at = j;
        }
        const uint32_t key = law_key(top), most = tb_warp_max(key),
                       mine = (most & ~(TB_PIPE_WARPS - 1u)) | warp; /* one warp's */
        if (lane == 0) atomicMax(&s.greatest, mine);
        barrier(); /* all have seen that the list is too short, too */
        if (mine == s.greatest) {
            const int who = __ffs((int)__ballot_sync(TB_WHOLE_WARP, key == most)) - 1;
            const uint4 v = groups ? chunk[__shfl_sync(TB_WHOLE_WARP, at, who) * 32] : make_uint4(0, 0, 0, 0);
            uint32_t keys[4];
#pragma unroll
            for (int e = 0; e < 4; e++)
                keys[e] = law_key(width == 4 ? tb_element<dtype>(v, e)
                                             : fmaxf(tb_element<dtype>(v, e * 2 % (int)width),
                                                     tb_element<dtype>(v, (e * 2 + 1) % (int)width)));
            const uint32_t bound =
                P::reached_by(s.bin, keys, verdict.bound, verdict.greatest, verdict.k, S::SENT);
            if (lane == 0) s.raised = bound, s.cursor[turn.row % 4] = 0;
        }
        barrier();
        if (threadIdx.x == 0) s.greatest = 0;
        const uint32_t bound = s.raised;
        if (most >= bound) list(turn, bound);
        barrier();
        return bound;
    }

    /* By histograms of all tokens, from bins of all keys that the least one may be to bins of one. */
    TB_MEMBER uint2 raise_by_bins(const tb_pipe_turn &turn, const tb_few_verdict &verdict, const uint4 *chunk,
                                  uint32_t groups, uint32_t low)
    {
        uint32_t high = verdict.greatest, above = 0, reach = S::SENT + 1;
        barrier(); /* all have seen that the list is too short */
#pragma unroll 1
        while (low < high && reach > S::SENT) {
            const uint32_t shift = P::bin_shift(low, high);
            P::count_bins(s, chunk, groups, low, high, shift);
            const tb_few_bin found = P::crossing(s.bin, above, verdict.k);
            barrier();
            low += found.bin << shift;
            high = low + min(high - low, (1u << shift) - 1);
            above = found.before;
            reach = found.upto;
        }
        const bool equal = reach > S::SENT;
        if (threadIdx.x == 0) s.cursor[turn.row % 4] = 0;
        barrier();
        if (!equal || low < TB_KEY_POS_INF) list(turn, equal ? low + 1 : low);
        if (equal) {
            const float value = law_key_value(low);
            uint32_t own = 0;
#pragma unroll 4
            for (uint32_t j = 0; j < groups; j++)
#pragma unroll
                for (int e = 0; e < (int)width; e++) own += tb_element<dtype>(chunk[j * 32], e) == value;
            own = tb_warp_sum(own);
            const uint32_t box = turn.row / C % S::DRAWN;
            if (lane == 0) tb_mail_4(&s.equal[box][mine()], (int)(turn.row % C), own, &s.mail_lists[box]);
        }
        barrier();
        return make_uint2(s.cursor[turn.row % 4] | (equal ? TB_FEW_DRAW_CLASS : 0u), low);
    }
};

#endif
