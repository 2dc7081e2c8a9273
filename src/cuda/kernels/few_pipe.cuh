/*
 * Masked logits and renormalised probabilities under a top_k of few tokens, for many rows: rows follow each
 * other through a cluster as in the flat pipe; their copies are its (fast_flat_pipe_rows.cuh).
 *
 * Great tokens may lie together, so a row's chunks go round the blocks, and groups of 32 vectors of a block's
 * share round the warps that look. These take the maxima of TB_FEW_PIPE_PARTS disjoint parts of a row. One
 * that decides finds a value that k of them reach, so k tokens do; TB_PIPE_WARPS list their chunks' tokens
 * from there on; one mails the block's list to all blocks, and two in turns cut what came, in each block for
 * itself. Meanwhile the row of output is filled with what tokens that are not kept get; who cuts writes the
 * kept tokens of its block's share.
 *
 * Where the lists have no room for all tokens that reach the bound (rows with many equal values, sorted rows)
 * the warps that list search the cut before they go on: by histograms of their chunks, from bins of all keys
 * that it may be to bins of one.
 *
 * A message of row i reuses the memory of an earlier row: maxima that of row i - TB_PIPE_RING, lists that of
 * row i - SLOTS - 1. Who sends it has all maxima of row i, from shares in places that the warps that
 * list, and the one that mails, had done with; the latter gives back the place of a row when the row before
 * is cut. So all rows up to i - SLOTS - 1 are cut by all blocks.
 */
#ifndef TB_CUDA_FEW_PIPE_CUH
#define TB_CUDA_FEW_PIPE_CUH

#include "few_pipe_search.cuh"

template <int dtype, int C> struct tb_few_pipe : tb_few_search<dtype, C> {
    typedef tb_few_pipe_shared<dtype, C> S;
    typedef tb_few_search<dtype, C> P;
    static constexpr uint32_t width = P::width, bytes = 16 / width;
    using P::known_row, P::list_chunk, P::search, P::weigher_of, P::write_token, P::write_words;
    using P::lane, P::params, P::rank, P::rows, P::s, P::warp;

    /* By all lanes: what of row i the warp shares is given back. */
    TB_MEMBER void done_with(const tb_pipe_turn &turn)
    {
        __syncwarp();
        if (lane != 0) return;
        tb_mail_arrive(&s.empty[turn.place]);
        if ((turn.row + 1) % TB_PIPE_GROUP == 0) P::give_back(turn.row);
    }

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
            bool bad = !located || slot < 0;
            float temperature = 1.0f;
            uint32_t k = TB_FEW_PIPE_NO_COUNT;
            for (int j = 0; j < call.step_count; j++) {
                const tombola_step &step = params.steps[j];
                if (step.kind == TOMBOLA_TOP_K) {
                    const int32_t its = !step.k_per_slot ? step.k : bad ? 0 : step.k_per_slot[slot];
                    if (its > 0) k = min(k, (uint32_t)its);
                } else {
                    temperature = !step.value_per_slot ? step.value : bad ? 1.0f : step.value_per_slot[slot];
                    bad |= law_isnan(temperature) || temperature < 0.0f;
                }
            }
            if (i0 == 0) tb_wait_row(&s.placed, 0);
            for (uint32_t i = i0; i < min(rows, i0 + 32); i++) {
                if (i >= TB_PIPE_KNOWN && i % TB_PIPE_GROUP == 0)
                    tb_wait_here(&s.free[i % TB_PIPE_KNOWN / TB_PIPE_GROUP], i / TB_PIPE_KNOWN - 1 & 1);
                __syncwarp(); /* counts grow in order */
                if (own != i) continue;
                if (i >= TB_PIPE_KNOWN) P::place(i, start, located ? count : 0);
                tb_few_row &to = s.row[i % TB_PIPE_KNOWN];
                to.greedy = law_temperature(temperature).mode == LAW_GREEDY;
                to.temperature = temperature;
                to.k = to.greedy ? 1 : k;
                to.bad = bad;
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
        uint2 counts = {0, 0};
        for (tb_pipe_turn turn = {0, 0, 0}; turn.row < rows; P::go_on(turn)) {
            const uint32_t at = turn.row % TB_PIPE_RING, place = turn.row % S::SLOTS,
                           parity = turn.row / S::SLOTS & 1;
            P::wait_filled(turn);
            tb_wait_here(&s.decided[at], turn.row / TB_PIPE_RING & 1);
            const tb_few_verdict row = s.verdict[at];
            const uint4 *chunk = P::room_of(turn) + row.share * warp + lane;
            if (row.kind == TB_FEW_LISTED)
                list_chunk(chunk, P::groups_of(warp, row.share, row.end), row.share * P::mine() + lane,
                           known_row(turn.row).slice.shift, law_key_value(row.bound), s.own[place],
                           &s.cursor[place]);
            __syncwarp();
            if (lane == 0) tb_mail_arrive(&s.listed[place]);
            tb_wait_here(&s.outcome[place], parity);
            if (s.searched[place]) counts = search(*this, turn, counts);
            done_with(turn);
        }
    }

    TB_MEMBER void finish(uint32_t which)
    {
        if (which == 0) mail();
        if (which > 0 && which <= S::CUTTERS) cut(which - 1);
        if (which > S::CUTTERS) fill_output(which - 1 - S::CUTTERS);
    }

    /* Whether lists have no room for their tokens, of a block a lane. */
    TB_MEMBER bool too_many(uint32_t count) const
    {
        return __any_sync(TB_WHOLE_WARP, count > S::SENT) ||
               (S::SENT * C > S::MOST && tb_warp_sum(count) > S::MOST);
    }

    /* ---- the warp that mails the block's list to all blocks, and says whether the lists do ---- */
    TB_MEMBER void mail()
    {
        for (tb_pipe_turn turn = {0, 0, 0}; turn.row < rows; P::go_on(turn)) {
            const uint32_t i = turn.row, at = i % TB_PIPE_RING, place = i % S::SLOTS, box = i % S::BOXES;
            tb_wait_here(&s.decided[at], i / TB_PIPE_RING & 1);
            tb_wait_here(&s.listed[place], i / S::SLOTS & 1);
            const uint32_t n = s.cursor[place], sent = n <= S::SENT ? n : 0;
            if (lane < C) {
                tb_mail_expect_at(&s.mail_lists[box], lane, sent * 8 + 4);
                tb_mail_4(&s.count[box][rank], lane, n, &s.mail_lists[box]);
            }
            for (uint32_t k = lane; k < sent * C; k += 32) {
                const uint64_t token = s.own[place][k / C];
                tb_mail_8(&s.sent[box][rank][k / C], k % C, (uint32_t)token, (uint32_t)(token >> 32),
                          &s.mail_lists[box]);
            }
            tb_wait_here(&s.mail_lists[box], i / S::BOXES & 1);
            const bool searched = too_many(lane < C ? s.count[box][lane] : 0);
            if (lane == 0) {
                s.cursor[place] = 0;
                s.searched[place] = searched;
                tb_mail_arrive(&s.outcome[place]);
            }
            if (i) tb_wait_here(&s.cut_done[(i - 1) % S::BOXES], (i - 1) / S::BOXES & 1);
            if (lane == 0) tb_mail_arrive(&s.empty[turn.place]);
        }
    }

    /* ---- a warp that cuts the lists, of every other row, and writes what is kept of the block's own ---- */
    TB_MEMBER void cut(uint32_t cutter)
    {
        for (uint32_t i = cutter; i < rows; i += S::CUTTERS) {
            const uint32_t at = i % TB_PIPE_RING, box = i % S::BOXES, parity = i / S::BOXES & 1;
            tb_wait_here(&s.decided[at], i / TB_PIPE_RING & 1);
            tb_wait_here(&s.mail_lists[box], parity);
            const tb_few_verdict verdict = s.verdict[at];
            const uint32_t count = lane < C ? s.count[box][lane] : 0;
            const bool searched = too_many(count);
            if (verdict.kind == TB_FEW_VOID)
                write_words(P::row_of(i), verdict.status, 0, 0);
            else if (!searched)
                cut_row(i, cutter, verdict, count);
            tb_wait_here(&s.blank[box], parity); /* of all rows, so that fillings are not mistaken */
            __syncwarp();
            if (lane == 0) {
                tb_mail_arrive(&s.cut_done[box]);
                if (i % TB_PIPE_GROUP == TB_PIPE_GROUP - S::CUTTERS + cutter) P::give_back(i);
            }
        }
    }

    TB_MEMBER void cut_row(uint32_t i, uint32_t cutter, const tb_few_verdict &verdict, uint32_t count)
    {
        const uint32_t box = i % S::BOXES, end = tb_warp_scan(count), n = __shfl_sync(TB_WHOLE_WARP, end, 31);
        uint32_t *const keys = s.key[cutter], *const lows = s.low[cutter]; /* of all tokens, without gaps */
        constexpr uint32_t USUAL = C > 2 ? 32 : S::SENT;                   /* tokens of a block */
        auto gather = [&](int b, uint32_t k) {
            const uint32_t its = __shfl_sync(TB_WHOLE_WARP, count, b),
                           start = __shfl_sync(TB_WHOLE_WARP, end, b) - its;
            if (k >= its) return;
            const uint64_t token = s.sent[box][b][k];
            keys[start + k] = tb_place_key(token);
            lows[start + k] = (uint32_t)token & TB_PLACE_LOW;
        };
#pragma unroll
        for (int b = 0; b < C; b++)
#pragma unroll
            for (uint32_t k = 0; k < USUAL; k += 32) gather(b, k + lane);
        if (S::SENT > USUAL && __any_sync(TB_WHOLE_WARP, count > USUAL))
#pragma unroll 1
            for (uint32_t k = USUAL + lane; k - lane < S::SENT; k += 32)
#pragma unroll 1
                for (int b = 0; b < C; b++) gather(b, k);
        if (lane < 3) keys[n + lane] = 0; /* up to a vector's end */
        __syncwarp();
        uint64_t floor = 0;
        if (n > verdict.k) floor = floor_of(keys, lows, n, verdict.k, verdict.by_index);
        const tombola_call &call = params.call;
        const tb_few_row &row = known_row(i);
        const tb_weigher w = weigher_of(row, verdict.greatest);
        const bool weighed = call.probabilities || call.kept_mass;
        uint64_t mass = 0;
        uint32_t kept = 0;
        if (weighed || call.kept_count) {
#pragma unroll 1
            for (uint32_t k = lane; k < n; k += 32) {
                if ((tb_floor_of_key(keys[k]) | lows[k]) < floor) continue;
                kept++;
                if (weighed) mass += tb_weight(w, law_key_value(keys[k]));
            }
            kept = tb_warp_sum(kept);
            mass = tb_warp_sum64(mass);
        }
        const int64_t index = P::row_of(i);
        write_words(index, verdict.status, kept, mass);
        const float scale = call.probabilities ? tb_renorm_scale(w, mass) : 0.0f;
        const uint32_t mine = __shfl_sync(TB_WHOLE_WARP, count, rank);
        tb_wait_here(&s.blank[box], i / S::BOXES & 1);
        for (uint32_t k = lane; k < mine; k += 32) {
            const uint64_t its = s.sent[box][rank][k];
            const uint32_t token = tb_place_index(its);
            /* its bits, from memory: another row may lie where this one did */
            if (its >= floor)
                write_token(w, scale, index, token, law_key_value(tb_place_key(its)), row.slice.base,
                            row.slice.shift + token);
        }
        __syncwarp();
    }

    /* The least place that is kept, of n > k tokens. */
    TB_MEMBER uint64_t floor_of(const uint32_t *keys, const uint32_t *lows, uint32_t n, uint32_t k,
                                bool by_index) const
    {
        /* the least key that has fewer than k greater ones: each is compared with all */
        uint32_t last = 0xffffffffu, greater = 0;
#pragma unroll 1
        for (uint32_t i = lane; i - lane < n; i += 64) {
            const uint32_t a = i < n ? keys[i] : 0, b = i + 32 < n ? keys[i + 32] : 0;
            uint32_t over_a = 0, over_b = 0;
#pragma unroll 4
            for (uint32_t j = 0; j < n; j += 4) {
                const uint4 all = *(const uint4 *)&keys[j];
                over_a += (all.x > a) + (all.y > a) + (all.z > a) + (all.w > a);
                over_b += (all.x > b) + (all.y > b) + (all.z > b) + (all.w > b);
            }
            if (a && over_a < k) last = min(last, a);
            if (b && over_b < k) last = min(last, b);
        }
        last = tb_warp_min(last);
        const uint64_t floor = tb_floor_of_key(last);
        if (!by_index) return floor;
        uint32_t equal = 0;
        for (uint32_t i = lane; i < n; i += 32) greater += keys[i] > last, equal += keys[i] == last;
        greater = tb_warp_sum(greater);
        if (greater + tb_warp_sum(equal) <= k) return floor;
        uint32_t low = 0xffffffffu; /* of the equal ones the first, which have greater numbers here */
#pragma unroll 1
        for (; greater < k; greater++) {
            uint32_t next = 0;
            for (uint32_t i = lane; i < n; i += 32)
                if (keys[i] == last && lows[i] < low) next = max(next, lows[i]);
            low = tb_warp_max(next);
        }
        return floor | low;
    }

    /* ---- a warp that fills the output ---- */
    TB_MEMBER void fill_output(uint32_t filler)
    {
        const tombola_call &call = params.call;
        for (uint32_t i = 0; i < rows; i++) {
            const uint32_t at = i % TB_PIPE_RING;
            tb_wait_here(&s.decided[at], i / TB_PIPE_RING & 1);
            const tb_few_row &row = known_row(i);
            const int64_t index = P::row_of(i);
            int64_t start, count; /* elements are written of rows that are nowhere, too */
            if (row.bad) tb_gpu_locate(call, index, &start, &count);
            const uint32_t length = row.bad ? (uint32_t)count : row.slice.length,
                           shift = row.bad ? 0 : row.slice.shift,
                           share = row.bad ? length / (S::WARPS * width) + 1 : row.share;
            if (call.probabilities)
                fill_chunks<4>((char *)(call.probabilities + index * call.probabilities_stride), share, shift,
                               length, 0, filler);
            if (call.masked_logits)
                fill_chunks<bytes>((char *)call.masked_logits + index * call.masked_stride * bytes, share,
                                   shift, length, tb_minus_infinity<dtype>(), filler);
            __syncwarp();
            if (lane == 0) tb_mail_arrive(&s.blank[i % S::BOXES]);
        }
    }

    /* Elements of SIZE bytes of a row of output become a word, those of the block's chunks; by the warps that
     * fill, every other chunk each. */
    template <uint32_t SIZE>
    TB_MEMBER void fill_chunks(char *out, uint32_t share, uint32_t shift, uint32_t length, uint32_t word,
                               uint32_t filler)
    {
        constexpr uint32_t per = 16 / SIZE;
        const uint32_t skip = (uint32_t)(uintptr_t)out / SIZE % per, first = skip ? 1 : 0,
                       end = (length + skip) / per; /* whole vectors of the output */
        char *const vectors = out - skip * SIZE;
        const uint4 words = make_uint4(word, word, word, word);
        if ((shift - skip) % per) { /* a vector of the output has elements of two chunks */
#pragma unroll 1
            for (uint32_t c = filler; c < TB_PIPE_WARPS; c += S::FILLERS) {
                const uint32_t from = P::number_of(c) * share * width, begin = from ? from - shift : 0,
                               stop = min(length, from + share * width - shift);
                if (from >= length + shift) break;
                const uint32_t low = min((begin + skip + per - 1) / per, (stop + skip) / per),
                               high = (stop + skip) / per;
                for (uint32_t v = low + lane; v < high; v += 32) tb_store16(vectors + (size_t)v * 16, words);
                fill_elements<SIZE>(out, begin, min(stop, low * per - skip), word);
                fill_elements<SIZE>(out, max(begin, high * per - skip), stop, word);
            }
            return;
        }
        const uint32_t size = share * (width / per), back = (shift - skip) / per;
#pragma unroll 1
        for (uint32_t c = filler; c < TB_PIPE_WARPS; c += S::FILLERS) {
            const uint32_t from = P::number_of(c) * size, low = max(from, first + back) - back,
                           high = min(from + size - back, end);
#pragma unroll 4
            for (uint32_t v = low + lane; v < high; v += 32) tb_store16(vectors + (size_t)v * 16, words);
        }
        const uint32_t head = min(length, first * per - (first ? skip : 0)),
                       tail = max(head, end * per - skip);
        if (filler == 0 && rank == 0 && first) fill_elements<SIZE>(out, 0, head, word);
        if (filler == 0 && tail < length && (tail + shift) / width / share % C == (uint32_t)rank)
            fill_elements<SIZE>(out, tail, length, word);
    }

    /* Less than 32. */
    template <uint32_t SIZE>
    TB_MEMBER void fill_elements(char *out, uint32_t begin, uint32_t stop, uint32_t word) const
    {
        const uint32_t i = begin + lane;
        if (i >= stop) return;
        if (SIZE == 4)
            ((uint32_t *)out)[i] = word;
        else
            ((uint16_t *)out)[i] = (uint16_t)word;
    }
};

#endif
