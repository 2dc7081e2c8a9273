/*
 * The rows of the pipe for few kept tokens (few_pipe.cuh): the maxima of parts of a row, the value from which
 * on tokens are listed, and the lists.
 */
#ifndef TB_CUDA_FEW_PIPE_ROWS_CUH
#define TB_CUDA_FEW_PIPE_ROWS_CUH

#include "few_pipe_parts.cuh"

template <int dtype, int C, class S> struct tb_few_rows : tb_pipe_rows<dtype, C, S> {
    typedef tb_pipe_rows<dtype, C, S> P;
    static constexpr uint32_t width = P::width, bytes = 16 / width;
    using P::lane, P::params, P::rank, P::rows, P::s;

    TB_MEMBER bool probabilities() const
    {
        return params.call.kind == TOMBOLA_PROBABILITIES;
    }
    TB_MEMBER uint32_t least_key() const
    {
        return probabilities() ? TB_KEY_LEAST_PROBABILITY : TB_KEY_LEAST_LOGIT;
    }
    TB_MEMBER const tb_few_row &known_row(uint32_t i) const
    {
        return s.row[i % TB_PIPE_KNOWN];
    }
    TB_MEMBER void wait_filled(const tb_pipe_turn &turn)
    {
#pragma unroll
        for (int i = 0; i < TB_PIPE_LOOKERS; i++) tb_wait_here(&s.filled[i][turn.place], turn.filling & 1);
    }

    /* ---- a warp that looks: the maxima of its parts, told to all blocks. It has every fourth group of the
     * block's vectors, of which a part is every so many lanes' ---- */
    TB_MEMBER void look(uint32_t looker)
    {
        for (tb_pipe_turn turn = {0, 0, 0}; turn.row < rows; P::go_on(turn)) {
            const uint32_t at = turn.row % TB_PIPE_RING;
            const tb_pipe_row &row = P::row_at(&s.placed, turn.row);
            wait_filled(turn);
            const uint32_t whole = row.slice.end / max(row.share, 1u), /* chunks */
                left = whole % C == (uint32_t)rank ? row.slice.end - whole * row.share : 0,
                           own = (whole + C - 1 - rank) / C * (row.share / 32) + (left + 31) / 32,
                           groups = (own + TB_PIPE_LOOKERS - 1 - looker) / TB_PIPE_LOOKERS;
            uint4 *const piece = P::room_of(turn) + looker * 32 + lane;
            uint32_t status = 0;
            if (probabilities() && any_negative(piece, groups, row, looker)) status = TOMBOLA_ROW_NEGATIVE;
            float top = tb_max_nan(-LAW_INF, P::template greatest_of<TB_PIPE_LOOKERS>(piece, groups));
            if (__any_sync(TB_WHOLE_WARP, law_isnan(top))) {
                status |= TOMBOLA_ROW_NAN;
                P::template drop_nan<TB_PIPE_LOOKERS>(piece, groups);
                tb_writes_before_copies();
                top = P::template greatest_of<TB_PIPE_LOOKERS>(piece, groups);
            }
            uint32_t key = law_key(top);
#pragma unroll
            for (int d = S::GROUPS; d < 32; d *= 2) key = max(key, __shfl_xor_sync(TB_WHOLE_WARP, key, d));
            const uint32_t all = rank * TB_PIPE_LOOKERS + looker, part = lane / C; /* C * GROUPS is 32 */
            key = __shfl_sync(TB_WHOLE_WARP, key, part);
            if (looker == 0 && lane == 0)
                tb_mail_expect(&s.mail_maximum[at], (TB_FEW_PIPE_PARTS + S::LOOKS) * 4);
            tb_mail_4(&s.maximum[at][all * S::GROUPS + part], lane % C, key, &s.mail_maximum[at]);
            if (lane < C) tb_mail_4(&s.looked[at][all], lane, status, &s.mail_maximum[at]);
            __syncwarp();
            if (lane == 0) tb_mail_arrive(&s.decided[at]); /* the part is as it will be listed */
        }
    }

    /* Whether an element of the row is less than 0; few vectors have a sign bit at all. What lies around the
     * row is -inf. */
    TB_MEMBER bool any_negative(const uint4 *piece, uint32_t groups, const tb_pipe_row &row, uint32_t looker)
    {
        uint32_t signs = 0;
#pragma unroll 4
        for (uint32_t j = 0; j < groups; j++) {
            const uint4 v = piece[j * 32 * TB_PIPE_LOOKERS];
            signs |= v.x | v.y | v.z | v.w;
        }
        if (!__any_sync(TB_WHOLE_WARP, signs & (bytes == 4 ? 0x80000000u : 0x80008000u))) return false;
        bool negative = false;
#pragma unroll 1
        for (uint32_t j = 0; j < groups; j++) {
            const uint4 v = piece[j * 32 * TB_PIPE_LOOKERS];
            const uint32_t vector = (j * TB_PIPE_LOOKERS + looker) * 32 + lane, chunk = vector / row.share,
                           at = vector + (P::number_of(chunk) - chunk) * row.share;
#pragma unroll
            for (uint32_t e = 0; e < width; e++)
                negative |= tb_element<dtype>(v, (int)e) < 0.0f &&
                            at * width + e - row.slice.shift < row.slice.length;
        }
        return __any_sync(TB_WHOLE_WARP, negative);
    }

    /* ---- the warp that decides from which value on tokens are listed ---- */
    TB_MEMBER void decide()
    {
        for (uint32_t i = 0; i < rows; i++) {
            const uint32_t at = i % TB_PIPE_RING;
            tb_wait_row(&s.known, i);
            const tb_few_row &row = known_row(i);
            tb_wait_here(&s.mail_maximum[at], i / TB_PIPE_RING & 1);
            const uint4 said = *(const uint4 *)&s.maximum[at][lane * 4];
            const uint32_t keys[4] = {said.x, said.y, said.z, said.w};
            uint32_t status = 0;
#pragma unroll
            for (int k = 0; k < (S::LOOKS + 31) / 32; k++) status |= s.looked[at][(k * 32 + lane) % S::LOOKS];
            status = tb_warp_or(status);
            const uint32_t greatest = tb_warp_max(max(max(said.x, said.y), max(said.z, said.w))),
                           least = greatest == TB_KEY_POS_INF ? greatest : least_key(), k = row.k;
            tb_few_kind kind = TB_FEW_LISTED;
            uint32_t bound = least;
            if (row.bad || greatest < least)
                kind = TB_FEW_VOID, status = row.bad ? TOMBOLA_ROW_BAD_PARAM : status | TOMBOLA_ROW_EMPTY;
            else if (greatest == TB_KEY_POS_INF)
                status |= TOMBOLA_ROW_POS_INF;
            if (kind == TB_FEW_LISTED) {
                const uint32_t smallest = tb_warp_min(min(min(said.x, said.y), min(said.z, said.w)));
                bound = reached_by(s.part_bin, keys, max(smallest, least), greatest, k, k + k / 4);
            }
            if (lane == 0) {
                s.verdict[at] = {
                    bound, greatest,      k,         status,
                    kind,  row.slice.end, row.share, row.greedy || params.call.ties == TOMBOLA_TIES_INDEX};
                tb_mail_arrive(&s.decided[at]);
            }
        }
    }

    /* By one warp: the least of the lanes' k greatest keys, or of hardly more than `most` or equal ones;
     * `least` where fewer than k reach that. By bins of
     * equal width in value, whatever their rounding does, and where they do not tell enough apart of keys. */
    TB_MEMBER uint32_t reached_by(uint32_t *bins, const uint32_t (&key)[4], uint32_t least, uint32_t greatest,
                                  uint32_t k, uint32_t most) const
    {
        const float bottom = law_key_value(least),
                    scale = __fdividef((float)TB_FEW_PIPE_BINS, law_key_value(greatest) - bottom);
        uint32_t bin[4];
        clear_bins(bins);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            bin[j] = min(__float2uint_rz((law_key_value(key[j]) - bottom) * scale), TB_FEW_PIPE_BINS - 1u);
            if (key[j] >= least) atomicAdd(&bins[bin[j]], 1u);
        }
        __syncwarp();
        tb_few_bin found = crossing(bins, 0, k);
        if (!found.upto) return least;
        uint32_t low = greatest;
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (key[j] >= least && bin[j] >= found.bin) low = min(low, key[j]);
        low = tb_warp_min(low);
        uint32_t high = greatest, above = 0;
#pragma unroll 1
        while (low < high && found.upto > most) {
            const uint32_t shift = bin_shift(low, high);
            count_keys(bins, key, low, high, shift);
            found = crossing(bins, above, k);
            low += found.bin << shift;
            high = low + min(high - low, (1u << shift) - 1);
            above = found.before;
        }
        return low;
    }

    TB_MEMBER void clear_bins(uint32_t *bins) const /* by one warp */
    {
        __syncwarp();
        ((uint4 *)bins)[lane] = make_uint4(0, 0, 0, 0);
        __syncwarp();
    }
    /* Of TB_FEW_PIPE_BINS bins of 2^shift keys for those from low to high. */
    static TB_MEMBER uint32_t bin_shift(uint32_t low, uint32_t high)
    {
        return (uint32_t)max(25 - __clz((int)(high - low)), 0);
    }
    /* By one warp. */
    template <int EACH>
    TB_MEMBER void count_keys(uint32_t *bins, const uint32_t (&key)[EACH], uint32_t low, uint32_t high,
                              uint32_t shift) const
    {
        clear_bins(bins);
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (key[j] - low <= high - low) atomicAdd(&bins[(key[j] - low) >> shift], 1u);
        __syncwarp();
    }
    /* By one warp: from the greatest bin down the one with which there are k, `above` before all; upto: 0
     * where there are fewer. */
    TB_MEMBER tb_few_bin crossing(const uint32_t *bins, uint32_t above, uint32_t k) const
    {
        const uint4 its = ((const uint4 *)bins)[31 - lane];
        const uint32_t inside = its.x + its.y + its.z + its.w, over = above + tb_warp_scan(inside) - inside,
                       a = over + its.w, b = a + its.z, c = b + its.y, d = c + its.x,
                       who = __ballot_sync(TB_WHOLE_WARP, d >= k);
        if (!who) return {0, 0, 0};
        const int from = __ffs((int)who) - 1;
        const uint32_t o = (a < k) + (b < k) + (c < k);
        return {__shfl_sync(TB_WHOLE_WARP, 127 - lane * 4 - o, from),
                __shfl_sync(TB_WHOLE_WARP,
                            o == 0   ? over
                            : o == 1 ? a
                            : o == 2 ? b
                                     : c,
                            from),
                __shfl_sync(TB_WHOLE_WARP,
                            o == 0   ? a
                            : o == 1 ? b
                            : o == 2 ? c
                                     : d,
                            from)};
    }

    /* ---- a warp that lists its chunk's tokens ---- */
    TB_MEMBER void list_chunk(const uint4 *chunk, uint32_t groups, uint32_t first, uint32_t shift,
                              float bound, uint64_t *own, uint32_t *cursor)
    {
        constexpr int U = 8;
#pragma unroll 1
        for (uint32_t j0 = 0; j0 < groups; j0 += U) {
            uint32_t hits = 0;
#pragma unroll
            for (int k = 0; k < U; k++) {
                if (j0 + k >= groups) continue;
                const uint4 v[1] = {chunk[(j0 + k) * 32]};
                hits |= (uint32_t)(tb_tile_max<dtype, 1>(v) >= bound) << k;
            }
#pragma unroll 1
            for (; hits; hits &= hits - 1) {
                const uint32_t vector = (j0 + __ffs((int)hits) - 1) * 32;
                const uint4 v = chunk[vector];
                uint32_t members = 0;
#pragma unroll
                for (uint32_t e = 0; e < width; e++)
                    members |= (uint32_t)(tb_element<dtype>(v, (int)e) >= bound) << e;
                uint32_t to = atomicAdd(cursor, (uint32_t)__popc(members));
#pragma unroll 1
                for (; members; members &= members - 1, to++) {
                    const uint32_t e = __ffs((int)members) - 1;
                    if (to >= S::SENT) return; /* they do not do */
                    own[to] = tb_place(law_key(element_of(v, (int)e)), (first + vector) * width + e - shift);
                }
            }
        }
    }

    static TB_MEMBER void barrier() /* of the first TB_PIPE_WARPS warps */
    {
        __syncwarp();
        asm volatile("bar.sync 1, %0;" ::"n"(TB_PIPE_WARPS * 32) : "memory");
    }

    /* The chunk's tokens of keys from low to high, of the block: bins of 2^shift keys. */
    static TB_MEMBER void count_bins(S &s, const uint4 *chunk, uint32_t groups, uint32_t low, uint32_t high,
                                     uint32_t shift)
    {
        if (threadIdx.x < TB_FEW_PIPE_BINS) s.bin[threadIdx.x] = 0;
        barrier();
        const float least = law_key_value(low);
        uint32_t last = 0, run = 0; /* equal values would queue at a bin */
#pragma unroll 1
        for (uint32_t j = 0; j < groups; j++) {
            const uint4 v[1] = {chunk[j * 32]};
            if (!(tb_tile_max<dtype, 1>(v) >= least)) continue;
#pragma unroll
            for (int e = 0; e < (int)width; e++) {
                const uint32_t key = law_key(tb_element<dtype>(v[0], e)) - low, b = key >> shift;
                if (key > high - low) continue;
                if (b != last) {
                    if (run) atomicAdd(&s.bin[last], run);
                    last = b, run = 0;
                }
                run++;
            }
        }
        if (run) atomicAdd(&s.bin[last], run);
        barrier();
    }

    /* An element whose number is not known to the compiler. */
    static TB_MEMBER float element_of(const uint4 &v, int e)
    {
        float x = tb_element<dtype>(v, 0);
#pragma unroll
        for (int i = 1; i < (int)width; i++) x = i == e ? tb_element<dtype>(v, i) : x;
        return x;
    }
};

#endif
