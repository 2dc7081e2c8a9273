/*
 * The rows of the pipe for few kept tokens (few_pipe.cuh) that its lists have no room for: with many equal
 * values, or sorted. The cut is found by histograms of the blocks' shares, from bins of
 * all keys that it may be to bins of one.
 */
#ifndef TB_CUDA_FEW_PIPE_SEARCH_CUH
#define TB_CUDA_FEW_PIPE_SEARCH_CUH

#include "few_pipe_rows.cuh"

template <int dtype, int C> struct tb_few_search : tb_few_rows<dtype, C, tb_few_pipe_shared<dtype, C>> {
    typedef tb_few_pipe_shared<dtype, C> S;
    typedef tb_few_rows<dtype, C, S> P;
    static constexpr uint32_t width = P::width, bytes = P::bytes;
    using P::barrier, P::count_bins, P::element_of, P::probabilities;
    using P::lane, P::params, P::rank, P::s;

    TB_MEMBER tb_weigher weigher_of(const tb_few_row &row, uint32_t greatest) const
    {
        tb_weigher w = tb_make_weigher(probabilities(), law_key_value(greatest));
        if (row.temperature != 1.0f) tb_set_temperature(&w, row.temperature);
        return w;
    }
    /* A kept token; as a logit it is element `from` of `values`, to the bit. */
    TB_MEMBER void write_token(const tb_weigher &w, float scale, int64_t index, uint32_t token, float x,
                               const char *values, uint32_t from) const
    {
        const tombola_call &call = params.call;
        if (call.probabilities)
            call.probabilities[index * call.probabilities_stride + token] =
                tb_renormalised(w.probabilities, tb_ratio(w, x), scale);
        if (!call.masked_logits) return;
        const int64_t to = index * call.masked_stride + token;
        if (bytes == 4)
            ((uint32_t *)call.masked_logits)[to] = ((const uint32_t *)values)[from];
        else
            ((uint16_t *)call.masked_logits)[to] = ((const uint16_t *)values)[from];
    }

    /* By one warp of each block. */
    TB_MEMBER void write_words(int64_t index, uint32_t status, uint32_t kept, uint64_t mass) const
    {
        const tombola_call &call = params.call;
        if (rank != 0 || lane != 0) return;
        if (call.status) call.status[index] = status;
        if (call.kept_count) call.kept_count[index] = (int32_t)kept;
        if (call.kept_mass) call.kept_mass[index] = mass;
    }

    /* ---- the warps that list: rows with more tokens than lists have room for ---- */

    /* The cut of one row, and its outputs. `counts` of what was exchanged so far: histograms, tallies. */
    static __device__ __noinline__ uint2 search(tb_few_search p, tb_pipe_turn turn, uint2 counts)
    {
        S &s = p.s;
        const int lane = p.lane;
        const tombola_call &call = p.params.call;
        const tb_few_verdict verdict = s.verdict[turn.row % TB_PIPE_RING];
        const uint32_t groups = p.groups_of(p.warp, verdict.share, verdict.end);
        const uint4 *chunk = p.room_of(turn) + verdict.share * p.warp + lane;
        uint32_t low = verdict.bound, high = verdict.greatest, above = 0;
        bool all = false; /* what reaches `low` is not more than k tokens */
#pragma unroll 1
        for (; low < high && !all; counts.x++) {
            const uint32_t shift = (uint32_t)max(25 - __clz((int)(high - low)), 0);
            count_bins(s, chunk, groups, low, high, shift);
            const uint32_t odd = counts.x & 1;
            uint64_t *box = &s.mail_mass[odd];
            for (uint32_t i = threadIdx.x; i < C * TB_FEW_PIPE_BINS / 8; i += TB_PIPE_WARPS * 32) {
                const uint32_t part = i % (TB_FEW_PIPE_BINS / 8) * 8;
                const uint4 a = *(const uint4 *)&s.bin[part], b = *(const uint4 *)&s.bin[part + 4];
                tb_mail_16(&s.bins[odd][p.rank][part], (int)(i / (TB_FEW_PIPE_BINS / 8)),
                           make_uint4(a.x | a.y << 16, a.z | a.w << 16, b.x | b.y << 16, b.z | b.w << 16),
                           box);
            }
            tb_wait_here(box, counts.x >> 1 & 1);
            uint32_t n[4] = {0, 0, 0, 0}; /* of the bins 127 - 4 * lane and down */
#pragma unroll
            for (int b = 0; b < C; b++) {
                const uint2 its = *(const uint2 *)&s.bins[odd][b][124 - lane * 4];
                n[0] += its.y >> 16, n[1] += its.y & 0xffffu, n[2] += its.x >> 16, n[3] += its.x & 0xffffu;
            }
            barrier(); /* all have seen this filling of the box */
            if (threadIdx.x == 0) tb_mail_expect(box, S::MASS_BYTES);
            const uint32_t inside = n[0] + n[1] + n[2] + n[3];
            uint32_t over = above + tb_warp_scan(inside) - inside, bin = 0, before = 0;
            bool here = false, whole = false;
#pragma unroll
            for (int k = 0; k < 4; k++) {
                if (!here && over < verdict.k && over + n[k] >= verdict.k)
                    here = true, bin = 127 - lane * 4 - k, before = over, whole = over + n[k] == verdict.k;
                over += n[k];
            }
            const uint32_t who = __ballot_sync(TB_WHOLE_WARP, here);
            all = !who || __any_sync(TB_WHOLE_WARP, whole);
            if (!who) continue;
            bin = __shfl_sync(TB_WHOLE_WARP, bin, __ffs((int)who) - 1);
            above = __shfl_sync(TB_WHOLE_WARP, before, __ffs((int)who) - 1);
            low += bin << shift;
            high = low + min(high - low, (1u << shift) - 1);
        }
        write_found(p, turn, chunk, groups, low, all, counts);
        return counts;
    }

    /* Of the row's tokens those greater than a value and their mass, those equal to it, and of these those of
     * warps before; the warps' numbers are mailed to all blocks. */
    static TB_MEMBER tb_few_tally tally_up(const tb_few_search &p, const uint4 *chunk, uint32_t groups,
                                           float value, const tb_weigher &w, bool weighed, uint32_t turn)
    {
        S &s = p.s;
        const int lane = p.lane;
        uint32_t greater = 0, equal = 0;
        uint64_t mass = 0;
#pragma unroll 1
        for (uint32_t j = 0; j < groups; j++) {
            const uint4 v[1] = {chunk[j * 32]};
            if (!(tb_tile_max<dtype, 1>(v) >= value)) continue;
            uint32_t over = 0;
#pragma unroll
            for (int e = 0; e < (int)width; e++) {
                equal += tb_element<dtype>(v[0], e) == value;
                over |= (uint32_t)(tb_element<dtype>(v[0], e) > value) << e;
            }
            greater += __popc(over);
#pragma unroll 1
            for (over = weighed ? over : 0; over; over &= over - 1)
                mass += tb_weight(w, element_of(v[0], __ffs((int)over) - 1));
        }
        equal = tb_warp_sum(equal), greater = tb_warp_sum(greater), mass = tb_warp_sum64(mass);
        if (threadIdx.x == 0) tb_mail_expect(&s.mail_tail, S::WARPS * 16);
        if (lane < C)
            tb_mail_16(&s.tail[p.mine()], lane,
                       make_uint4((uint32_t)mass, (uint32_t)(mass >> 32), equal, greater), &s.mail_tail);
        tb_wait_here(&s.mail_tail, turn & 1);
        uint32_t before = 0, equals = 0;
        greater = 0, mass = 0;
#pragma unroll
        for (uint32_t i = lane; i < S::WARPS; i += 32) {
            const uint4 its = s.tail[i];
            mass += (uint64_t)its.y << 32 | its.x;
            before += i < p.mine() ? its.z : 0;
            equals += its.z, greater += its.w;
        }
        before = tb_warp_sum(before), equals = tb_warp_sum(equals), greater = tb_warp_sum(greater);
        mass = tb_warp_sum64(mass);
        return {mass, greater, equals, before};
    }

    /* Writes the row: what is greater than the value of a key stays, and those of it that may; `all`: all. */
    static TB_MEMBER void write_found(const tb_few_search &p, const tb_pipe_turn &turn, const uint4 *chunk,
                                      uint32_t groups, uint32_t key, bool all, uint2 &counts)
    {
        S &s = p.s;
        const int lane = p.lane;
        const tombola_call &call = p.params.call;
        const tb_few_verdict &verdict = s.verdict[turn.row % TB_PIPE_RING];
        const tb_few_row &row = p.known_row(turn.row);
        const tb_weigher w = p.weigher_of(row, verdict.greatest);
        const float value = law_key_value(key);
        const bool weighed = call.probabilities || call.kept_mass;
        tb_few_tally tally = {0, 0, 0, 0};
        if (weighed || call.kept_count || (verdict.by_index && !all))
            tally = tally_up(p, chunk, groups, value, w, weighed, counts.y++);
        const uint32_t stay =
            verdict.by_index && !all ? min(tally.equal, verdict.k - tally.greater) : tally.equal;
        if (weighed) tally.mass += stay * tb_weight(w, value);
        const int64_t index = p.row_of(turn.row);
        if (p.warp == 0) p.write_words(index, verdict.status, tally.greater + stay, tally.mass);
        tb_wait_here(&s.blank[turn.row % S::BOXES], turn.row / S::BOXES & 1);
        const float scale = call.probabilities ? tb_renorm_scale(w, tally.mass) : 0.0f;
        const uint32_t first = (verdict.share * p.mine() + lane) * width - row.slice.shift;
#pragma unroll 1
        for (uint32_t j = 0; j < groups; j++) {
            const uint4 v[1] = {chunk[j * 32]};
            uint32_t kept = 0, own = 0;
            if (tb_tile_max<dtype, 1>(v) >= value)
#pragma unroll
                for (int e = 0; e < (int)width; e++) {
                    kept |= (uint32_t)(tb_element<dtype>(v[0], e) >= value) << e;
                    own |= (uint32_t)(tb_element<dtype>(v[0], e) == value) << e;
                }
            if (stay < tally.equal) { /* of the equal ones the first */
                const uint32_t upto = tb_warp_scan(__popc(own));
                uint32_t number = tally.before + upto - __popc(own);
                tally.before += __shfl_sync(TB_WHOLE_WARP, upto, 31);
#pragma unroll 1
                for (; own; own &= own - 1, number++)
                    if (number >= stay) kept &= ~(own & (0u - own));
            }
            if (kept) p.write_vector(w, scale, index, v[0], kept, first + j * 32 * width, row.slice.length);
        }
    }

    /* The kept elements of a vector, whose first one is element `first` of the row (or lies before it). */
    TB_MEMBER void write_vector(const tb_weigher &w, float scale, int64_t index, const uint4 &v,
                                uint32_t kept, uint32_t first, uint32_t length) const
    {
        const tombola_call &call = params.call;
        char *to = (char *)call.masked_logits + (index * call.masked_stride + first) * bytes;
        if (first < length && first + width <= length && !call.probabilities && ((uintptr_t)to & 15u) == 0) {
            constexpr uint32_t none = tb_minus_infinity<dtype>();
            uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t mask = bytes == 4 ? (kept >> i & 1 ? ~0u : 0u)
                                                 : (kept >> 2 * i & 1 ? 0xffffu : 0u) |
                                                       (kept >> (2 * i + 1) & 1 ? 0xffff0000u : 0u);
                word[i] = (word[i] & mask) | (none & ~mask);
            }
            tb_store16(to, make_uint4(word[0], word[1], word[2], word[3]));
            return;
        }
#pragma unroll 1
        for (; kept; kept &= kept - 1) {
            const int e = __ffs((int)kept) - 1;
            write_token(w, scale, index, first + e, element_of(v, e), (const char *)&v, e);
        }
    }
};

#endif
