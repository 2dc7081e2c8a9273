/*
 * Masked logits and renormalised probabilities under a top_k of few tokens, for many rows: rows follow each
 * other through a cluster as in the flat pipe (fast_flat_pipe.cuh), whose copies these are.
 *
 * The warps that look take the maxima of TB_FEW_PIPE_PARTS disjoint parts of a row. One that decides finds a
 * value that k of them reach, so k tokens do; TB_PIPE_WARPS list their chunks' tokens from there on; one
 * mails the block's list to all blocks, and one cuts what came, in each block for itself. Meanwhile the row
 * of output is filled with what tokens that are not kept get; the one that cuts writes the kept tokens of its
 * block's share.
 *
 * Where the lists have no room for all tokens that reach the bound (rows with many equal values, sorted rows)
 * the warps that list search the cut before they go on: by histograms of their chunks, from bins of all keys
 * that it may be to bins of one.
 *
 * A message of row i reuses the memory of row i - TB_PIPE_SLOTS, or of an earlier one. Who sends it has all
 * maxima of row i, from places that all warps had done with; so these had done with row i - TB_PIPE_SLOTS.
 */
#ifndef TB_CUDA_FEW_PIPE_CUH
#define TB_CUDA_FEW_PIPE_CUH

#include "few_pipe_parts.cuh"

template <int dtype, int C> struct tb_few_pipe : tb_pipe<dtype, C, tb_few_pipe_shared<dtype, C>> {
    typedef tb_few_pipe_shared<dtype, C> S;
    typedef tb_pipe<dtype, C, S> P;
    static constexpr uint32_t width = P::width, bytes = 16 / width;
    using P::lane, P::params, P::rank, P::rows, P::s, P::warp;

    TB_MEMBER bool probabilities() const
    {
        return params.call.kind == TOMBOLA_PROBABILITIES;
    }
    TB_MEMBER uint32_t least_key() const
    {
        return probabilities() ? TB_KEY_LEAST_PROBABILITY : TB_KEY_LEAST_LOGIT;
    }
    TB_MEMBER const tb_few_row &row_at(uint32_t i) const
    {
        return s.row[i % TB_PIPE_KNOWN];
    }
    TB_MEMBER tb_weigher weigher_of(const tb_few_row &row, uint32_t greatest) const
    {
        tb_weigher w = tb_make_weigher(probabilities(), law_key_value(greatest));
        if (row.temperature != 1.0f) tb_set_temperature(&w, row.temperature);
        return w;
    }
    /* By all lanes: what of row i the warp shares is given back. */
    TB_MEMBER void done_with(const tb_pipe_turn &turn)
    {
        __syncwarp();
        if (lane != 0) return;
        tb_mail_arrive(&s.empty[0][turn.place]);
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

    /* ---- a warp that looks: the maxima of its parts, told to all blocks ---- */
    TB_MEMBER void look(uint32_t looker)
    {
        for (tb_pipe_turn turn = {0, 0, 0}; turn.row < rows; P::go_on(turn)) {
            const uint32_t at = turn.row % TB_PIPE_RING;
            const tb_pipe_row &row = P::row_at(&s.placed, turn.row);
            tb_wait_here(&s.filled[looker][turn.place], turn.filling & 1);
            const uint32_t groups = P::groups_of(looker * P::CHUNKS, row.share, row.slice.end, P::CHUNKS);
            uint4 *const piece = P::room_of(turn) + row.share * P::CHUNKS * looker + lane;
            uint32_t status = 0;
            if (probabilities() && any_negative(piece, groups, row, looker)) status = TOMBOLA_ROW_NEGATIVE;
            float top = tb_max_nan(-LAW_INF, P::greatest_of(piece, groups));
            if (__any_sync(TB_WHOLE_WARP, law_isnan(top))) {
                status |= TOMBOLA_ROW_NAN;
#pragma unroll 1
                for (uint32_t j = 0; j < groups; j++) {
                    uint4 v[1] = {piece[j * 32]};
                    tb_drop_nan<dtype, 1>(v);
                    piece[j * 32] = v[0];
                }
                tb_writes_before_copies();
                top = P::greatest_of(piece, groups);
            }
            uint32_t key = law_key(top);
#pragma unroll
            for (int d = 1; d < 32 / S::GROUPS; d *= 2)
                key = max(key, __shfl_xor_sync(TB_WHOLE_WARP, key, d));
            const uint32_t all = rank * TB_PIPE_LOOKERS + looker, part = lane / C; /* C * GROUPS is 32 */
            key = __shfl_sync(TB_WHOLE_WARP, key, part * (32 / S::GROUPS));
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
            const uint4 v = piece[j * 32];
            signs |= v.x | v.y | v.z | v.w;
        }
        if (!__any_sync(TB_WHOLE_WARP, signs & (bytes == 4 ? 0x80000000u : 0x80008000u))) return false;
        const uint32_t first = row.share * (rank * TB_PIPE_WARPS + looker * P::CHUNKS) + lane;
        bool negative = false;
#pragma unroll 1
        for (uint32_t j = 0; j < groups; j++) {
            const uint4 v = piece[j * 32];
#pragma unroll
            for (uint32_t e = 0; e < width; e++)
                negative |= tb_element<dtype>(v, (int)e) < 0.0f &&
                            (first + j * 32) * width + e - row.slice.shift < row.slice.length;
        }
        return __any_sync(TB_WHOLE_WARP, negative);
    }

    /* ---- the warp that decides from which value on tokens are listed ---- */
    TB_MEMBER void decide()
    {
        for (uint32_t i = 0; i < rows; i++) {
            const uint32_t at = i % TB_PIPE_RING;
            tb_wait_row(&s.known, i);
            const tb_few_row &row = row_at(i);
            tb_wait_here(&s.mail_maximum[at], i / TB_PIPE_RING & 1);
            const uint4 said = *(const uint4 *)&s.maximum[at][lane * 4];
            const uint32_t keys[4] = {said.x, said.y, said.z, said.w};
            uint32_t status = 0;
#pragma unroll
            for (int k = 0; k < (S::LOOKS + 31) / 32; k++) status |= s.looked[at][(k * 32 + lane) % S::LOOKS];
            status = tb_warp_or(status);
            const uint32_t greatest = tb_warp_max(max(max(said.x, said.y), max(said.z, said.w))),
                           least = greatest == TB_KEY_POS_INF ? greatest : least_key(), k = row.k;
            tb_few_kind kind = k <= TB_FEW_PIPE_PARTS / 2 ? TB_FEW_LISTED : TB_FEW_SEARCHED;
            uint32_t bound = least;
            if (row.bad || greatest < least)
                kind = TB_FEW_VOID, status = row.bad ? TOMBOLA_ROW_BAD_PARAM : status | TOMBOLA_ROW_EMPTY;
            else if (greatest == TB_KEY_POS_INF)
                status |= TOMBOLA_ROW_POS_INF;
            if (kind == TB_FEW_LISTED) {
                const uint32_t smallest = tb_warp_min(min(min(said.x, said.y), min(said.z, said.w)));
                bound = max(bound, reached_by(keys, greatest, smallest, k, 10));
            }
            if (lane == 0) {
                s.verdict[at] = {
                    bound, greatest,      k,         status,
                    kind,  row.slice.end, row.share, row.greedy || params.call.ties == TOMBOLA_TIES_INDEX};
                tb_mail_arrive(&s.decided[at]);
            }
        }
    }

    /* The greatest key that k of the lanes' keys reach, or what it begins with: its `digits` first digits of
     * two bits, from the first one on in which `greatest` and `smallest` differ. */
    template <int N>
    static TB_MEMBER uint32_t reached_by(const uint32_t (&key)[N], uint32_t greatest, uint32_t smallest,
                                         uint32_t k, int digits)
    {
        int bit = (33 - __clz((int)(greatest ^ smallest))) / 2 * 2;
        uint32_t found = bit == 32 ? 0 : greatest >> bit << bit;
#pragma unroll 1
        for (; digits && bit; digits--) {
            bit -= 2;
            const uint32_t a = found | 1u << bit, b = found | 2u << bit, c = found | 3u << bit;
            uint32_t n = 0; /* three numbers of ten bits */
#pragma unroll
            for (int i = 0; i < N; i++)
                n += (key[i] >= a ? 1u : 0u) + (key[i] >= b ? 1u << 10 : 0u) + (key[i] >= c ? 1u << 20 : 0u);
            n = tb_warp_sum(n);
            found |= (n >> 20 >= k ? 3u : (n >> 10 & 1023u) >= k ? 2u : (n & 1023u) >= k ? 1u : 0u) << bit;
        }
        return found;
    }

    /* ---- a warp that lists its chunk's tokens ---- */
    TB_MEMBER void weigh()
    {
        uint32_t rounds = 0, searches = 0;
        for (tb_pipe_turn turn = {0, 0, 0}; turn.row < rows; P::go_on(turn)) {
            const uint32_t at = turn.row % TB_PIPE_RING, place = turn.row % TB_PIPE_SLOTS,
                           parity = turn.row / TB_PIPE_SLOTS & 1;
            tb_wait_here(&s.filled[warp / P::CHUNKS][turn.place], turn.filling & 1);
            tb_wait_here(&s.decided[at], turn.row / TB_PIPE_RING & 1);
            const tb_few_verdict row = s.verdict[at];
            const uint4 *chunk = P::room_of(turn) + row.share * warp + lane;
            if (row.kind == TB_FEW_LISTED)
                list_chunk(chunk, P::groups_of(warp, row.share, row.end), row.share * P::mine() + lane,
                           row_at(turn.row).slice.shift, law_key_value(row.bound), place);
            __syncwarp();
            if (lane == 0) tb_mail_arrive(&s.listed[place]);
            tb_wait_here(&s.outcome[place], parity);
            if (s.searched[place]) rounds = search(*this, turn, rounds, searches++);
            done_with(turn);
        }
    }

    TB_MEMBER void list_chunk(const uint4 *chunk, uint32_t groups, uint32_t first, uint32_t shift,
                              float bound, uint32_t place)
    {
        constexpr int U = 4;
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
#pragma unroll 1
                for (uint32_t e = 0; e < width; e++) {
                    const float x = tb_element<dtype>(v, (int)e);
                    if (!(x >= bound)) continue;
                    const uint32_t to = atomicAdd(&s.cursor[place], 1u);
                    if (to >= S::SENT) return; /* they do not do */
                    s.own[place][to] = tb_place(law_key(x), (first + vector) * width + e - shift);
                }
            }
        }
    }

    TB_MEMBER void finish(uint32_t which)
    {
        if (which == 0) mail();
        if (which > 0 && which <= S::CUTTERS) cut(which - 1);
        if (which > S::CUTTERS) fill_output(which - 1 - S::CUTTERS);
    }

    /* ---- the warp that mails the block's list to all blocks, and says whether the lists do ---- */
    TB_MEMBER void mail()
    {
        for (tb_pipe_turn turn = {0, 0, 0}; turn.row < rows; P::go_on(turn)) {
            const uint32_t at = turn.row % TB_PIPE_RING, place = turn.row % TB_PIPE_SLOTS,
                           parity = turn.row / TB_PIPE_SLOTS & 1;
            tb_wait_here(&s.decided[at], turn.row / TB_PIPE_RING & 1);
            tb_wait_here(&s.listed[place], parity);
            const uint32_t n = s.verdict[at].kind == TB_FEW_SEARCHED ? S::SENT + 1 : s.cursor[place],
                           sent = n <= S::SENT ? n : 0;
            if (lane < C) {
                tb_mail_expect_at(&s.mail_lists[place], lane, sent * 8 + 4);
                tb_mail_4(&s.count[place][rank], lane, n, &s.mail_lists[place]);
            }
            for (uint32_t i = lane; i < sent * C; i += 32) {
                const uint64_t token = s.own[place][i / C];
                tb_mail_8(&s.sent[place][rank][i / C], i % C, (uint32_t)token, (uint32_t)(token >> 32),
                          &s.mail_lists[place]);
            }
            tb_wait_here(&s.mail_lists[place], parity);
            const bool searched = __any_sync(TB_WHOLE_WARP, lane < C && s.count[place][lane] > S::SENT);
            if (lane == 0) {
                s.cursor[place] = 0;
                s.searched[place] = searched;
                tb_mail_arrive(&s.outcome[place]);
                tb_mail_arrive(&s.empty[0][turn.place]);
            }
        }
    }

    /* ---- a warp that cuts the lists, of every other row, and writes what is kept of the block's own ---- */
    TB_MEMBER void cut(uint32_t cutter)
    {
        for (tb_pipe_turn turn = {0, 0, 0}; turn.row < rows; P::go_on(turn)) {
            if (turn.row % S::CUTTERS != cutter) continue;
            const uint32_t at = turn.row % TB_PIPE_RING, place = turn.row % TB_PIPE_SLOTS,
                           parity = turn.row / TB_PIPE_SLOTS & 1;
            tb_wait_here(&s.decided[at], turn.row / TB_PIPE_RING & 1);
            tb_wait_here(&s.mail_lists[place], parity);
            const tb_few_verdict verdict = s.verdict[at];
            const uint32_t count = lane < C ? s.count[place][lane] : 0;
            if (verdict.kind == TB_FEW_VOID)
                write_words(P::row_of(turn.row), verdict.status, 0, 0);
            else if (!__any_sync(TB_WHOLE_WARP, count > S::SENT))
                cut_row(turn, verdict, place, count);
            tb_wait_here(&s.blank[place], parity);
            __syncwarp();
            if (lane == 0) {
                tb_mail_arrive(&s.empty[0][turn.place]);
                if (turn.row % TB_PIPE_GROUP == TB_PIPE_GROUP - S::CUTTERS + cutter) P::give_back(turn.row);
            }
        }
    }

    TB_MEMBER void cut_row(const tb_pipe_turn &turn, const tb_few_verdict &verdict, uint32_t place,
                           uint32_t count)
    {
        constexpr int EACH = S::SENT / 32; /* of a lane and a block */
        const uint64_t *const sent = s.sent[place][0];
        auto there = [&](int i) {
            return i % EACH * 32 + lane < (int)__shfl_sync(TB_WHOLE_WARP, count, i / EACH);
        };
        const uint32_t n = tb_warp_sum(count);
        uint64_t floor = 0;
        if (n > verdict.k) {
            uint32_t key[C * EACH];
#pragma unroll
            for (int i = 0; i < C * EACH; i++) {
                const bool is = there(i);
                key[i] = is ? tb_place_key(sent[i * 32 + lane]) : 0;
            }
            const uint32_t last = reached_by(key, verdict.greatest, verdict.bound, verdict.k, 16);
            floor = tb_floor_of_key(last);
            if (verdict.by_index) {
                uint32_t numbers = 0; /* of greater and of equal tokens */
#pragma unroll
                for (int i = 0; i < C * EACH; i++) numbers += (key[i] > last) + ((key[i] == last) << 16);
                numbers = tb_warp_sum(numbers);
                const uint32_t stay = verdict.k - (numbers & 0xffffu);
                if (stay < numbers >> 16) { /* of the equal ones the first */
#pragma unroll
                    for (int i = 0; i < C * EACH; i++)
                        key[i] = key[i] == last ? (uint32_t)(sent[i * 32 + lane] - floor) + 1 : 0;
                    floor += reached_by(key, 0xffffffffu, 0, stay, 16) - 1;
                }
            }
        }
        const tombola_call &call = params.call;
        const tb_few_row &row = row_at(turn.row);
        const tb_weigher w = weigher_of(row, verdict.greatest);
        const bool weighed = call.probabilities || call.kept_mass;
        uint64_t mass = 0;
        uint32_t kept = 0;
        if (weighed || call.kept_count) {
#pragma unroll 1
            for (int i = 0; i < C * EACH; i++) {
                const bool is = there(i);
                const uint64_t its = sent[i * 32 + lane];
                if (!is || its < floor) continue;
                kept++;
                if (weighed) mass += tb_weight(w, law_key_value(tb_place_key(its)));
            }
            kept = tb_warp_sum(kept);
            mass = tb_warp_sum64(mass);
        }
        const int64_t index = P::row_of(turn.row);
        write_words(index, verdict.status, kept, mass);
        const float scale = call.probabilities ? tb_renorm_scale(w, mass) : 0.0f;
        const uint32_t mine = __shfl_sync(TB_WHOLE_WARP, count, rank),
                       first = row.share * (rank * TB_PIPE_WARPS) * width - row.slice.shift;
        const char *values = (const char *)P::room_of(turn);
        tb_wait_here(&s.blank[place], turn.row / TB_PIPE_SLOTS & 1);
        for (uint32_t i = lane; i < mine; i += 32) {
            const uint64_t its = s.sent[place][rank][i];
            const uint32_t token = tb_place_index(its);
            if (its >= floor)
                write_token(w, scale, index, token, law_key_value(tb_place_key(its)), values, token - first);
        }
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

    /* ---- a warp that fills the output ---- */
    TB_MEMBER void fill_output(uint32_t filler)
    {
        const tombola_call &call = params.call;
        for (uint32_t i = 0; i < rows; i++) {
            const uint32_t at = i % TB_PIPE_RING;
            tb_wait_here(&s.decided[at], i / TB_PIPE_RING & 1);
            const tb_few_row &row = row_at(i);
            const int64_t index = P::row_of(i);
            const uint32_t share = row.share * TB_PIPE_WARPS, shift = row.slice.shift,
                           first = min(row.slice.end, share * rank), end = min(row.slice.end, first + share);
            uint32_t begin = first < end && first ? first * width - shift : 0,
                     stop = first < end ? min(row.slice.length, end * width - shift) : 0;
            if (row.bad) {
                int64_t start, count; /* elements are written of rows that are nowhere, too */
                tb_gpu_locate(call, index, &start, &count);
                begin = (uint32_t)(count * rank / C), stop = (uint32_t)(count * (rank + 1) / C);
            }
            if (call.probabilities)
                fill_span<4>((char *)(call.probabilities + index * call.probabilities_stride), begin, stop, 0,
                             filler);
            if (call.masked_logits)
                fill_span<bytes>((char *)call.masked_logits + index * call.masked_stride * bytes, begin, stop,
                                 tb_minus_infinity<dtype>(), filler);
            __syncwarp();
            if (lane == 0) tb_mail_arrive(&s.blank[i % TB_PIPE_SLOTS]);
        }
    }

    /* Elements [begin, stop) of SIZE bytes of a row of output become a word, by the warps that fill. */
    template <uint32_t SIZE>
    TB_MEMBER void fill_span(char *out, uint32_t begin, uint32_t stop, uint32_t word, uint32_t filler)
    {
        constexpr uint32_t per = 16 / SIZE;
        const uint32_t shift = (uint32_t)(uintptr_t)out / SIZE % per, first = (begin + shift + per - 1) / per,
                       end = (stop + shift) / per;
        auto put = [&](uint32_t i) {
            if (SIZE == 4)
                ((uint32_t *)out)[i] = word;
            else
                ((uint16_t *)out)[i] = (uint16_t)word;
        };
        if (filler == 0) { /* what is in no whole vector of its */
            const uint32_t head = begin + lane, head_end = min(stop, first * per - shift),
                           tail = max(head_end, end * per - shift) + lane;
            if (head < head_end) put(head);
            if (first <= end && tail < stop) put(tail);
        }
        char *const vectors = out - shift * SIZE;
#pragma unroll 4
        for (uint32_t v = first + filler * 32 + lane; v < end; v += S::FILLERS * 32)
            tb_store16(vectors + (size_t)v * 16, make_uint4(word, word, word, word));
    }

    /* ---- the warps that list: rows with more tokens than lists have room for ---- */

    static TB_MEMBER void barrier() /* of the first TB_PIPE_WARPS warps */
    {
        asm volatile("bar.sync 1, %0;" ::"n"(TB_PIPE_WARPS * 32) : "memory");
    }

    /* The cut of one row, and its outputs. `rounds` of histograms so far; returns their number. */
    static __device__ __noinline__ uint32_t search(tb_few_pipe p, tb_pipe_turn turn, uint32_t rounds,
                                                   uint32_t searches)
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
        for (; low < high && !all; rounds++) {
            const uint32_t shift = (uint32_t)max(25 - __clz((int)(high - low)), 0);
            count_bins(s, chunk, groups, low, high, shift);
            const uint32_t odd = rounds & 1;
            uint64_t *box = &s.mail_mass[odd];
            for (uint32_t i = threadIdx.x; i < C * TB_FEW_PIPE_BINS / 4; i += TB_PIPE_WARPS * 32) {
                const uint32_t part = i % (TB_FEW_PIPE_BINS / 4) * 4;
                tb_mail_16(&s.bins[odd][p.rank][part], (int)(i / (TB_FEW_PIPE_BINS / 4)),
                           *(const uint4 *)&s.bin[part], box);
            }
            tb_wait_here(box, rounds >> 1 & 1);
            uint32_t n[4] = {0, 0, 0, 0}; /* of the bins 127 - 4 * lane and down */
#pragma unroll
            for (int b = 0; b < C; b++) {
                const uint4 its = *(const uint4 *)&s.bins[odd][b][124 - lane * 4];
                n[0] += its.w, n[1] += its.z, n[2] += its.y, n[3] += its.x;
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
        write_found(p, turn, chunk, groups, low, all, searches);
        return rounds;
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

    /* Writes the row: what is greater than the value of a key stays, and those of it that may; `all`: all. */
    static TB_MEMBER void write_found(const tb_few_pipe &p, const tb_pipe_turn &turn, const uint4 *chunk,
                                      uint32_t groups, uint32_t key, bool all, uint32_t searches)
    {
        S &s = p.s;
        const int lane = p.lane;
        const tombola_call &call = p.params.call;
        const tb_few_verdict &verdict = s.verdict[turn.row % TB_PIPE_RING];
        const tb_few_row &row = p.row_at(turn.row);
        const tb_weigher w = p.weigher_of(row, verdict.greatest);
        const float value = law_key_value(key);
        const bool weighed = call.probabilities || call.kept_mass;
        /* the warp's tokens: greater ones and their mass, equal ones */
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
        tb_wait_here(&s.mail_tail, searches & 1);
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
        const uint32_t stay = verdict.by_index && !all ? min(equals, verdict.k - greater) : equals;
        if (weighed) mass += stay * tb_weight(w, value);
        const int64_t index = p.row_of(turn.row);
        if (p.warp == 0) p.write_words(index, verdict.status, greater + stay, mass);
        tb_wait_here(&s.blank[turn.row % TB_PIPE_SLOTS], turn.row / TB_PIPE_SLOTS & 1);
        const float scale = call.probabilities ? tb_renorm_scale(w, mass) : 0.0f;
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
            if (stay < equals) { /* of the equal ones the first */
                const uint32_t upto = tb_warp_scan(__popc(own));
                uint32_t number = before + upto - __popc(own);
                before += __shfl_sync(TB_WHOLE_WARP, upto, 31);
#pragma unroll 1
                for (; own; own &= own - 1, number++)
                    if (number >= stay) kept &= ~(own & (0u - own));
            }
            if (kept) p.write_vector(w, scale, index, v[0], kept, first + j * 32 * width, row.slice.length);
        }
    }

    /* An element whose number is not known to the compiler. */
    static TB_MEMBER float element_of(const uint4 &v, int e)
    {
        float x = tb_element<dtype>(v, 0);
#pragma unroll
        for (int i = 1; i < (int)width; i++) x = i == e ? tb_element<dtype>(v, i) : x;
        return x;
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
