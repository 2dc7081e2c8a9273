/*
 * The flat kernel for many rows: rows follow each other through a cluster of C blocks, so that memory is read
 * all the time, whatever the rows in the cluster wait for.
 *
 * A row is cut into a contiguous chunk for each of the cluster's C * TB_PIPE_WARPS warps that weigh. A block
 * has room for its share of `slots` rows in shared memory. Warps of their own keep each of these things
 * going:
 * - one asks for a row's share, by bulk copies, as soon as the one before in its place was weighed
 * - TB_PIPE_LOOKERS look: when a share is there they take its maximum and tell it to all blocks (a message
 *   from each to each block), some rows ahead of those that are weighed
 * - TB_PIPE_WARPS weigh: when all maxima of a row have come each weighs its chunk, and tells the mass to the
 *   block whose turn the row is
 * - one finds rows and reduces their chains, some rows ahead
 * - others draw, every C-th row, while the rest works on rows behind it: they find the chunk and weigh it
 *   again (from L2); the last one with the help of the warps that weighed.
 * No barrier stands between the warps of a block: each takes what is ready.
 *
 * Rows of all kinds are served: see tb_pipe_kind.
 */
#ifndef TB_CUDA_FAST_FLAT_PIPE_CUH
#define TB_CUDA_FAST_FLAT_PIPE_CUH

#include "fast_entropy.cuh"
#include "fast_flat_pipe_rows.cuh"

/* A message of row i reuses the place of row i - TB_PIPE_RING. A warp that sends a maximum of row i has seen
 * its part of the share, so the warps with chunks there had weighed row i - slots, for which they had read
 * all maxima of it; whoever sent one of these had seen the chunks of row i - slots, whose warps had weighed
 * row i - 2 slots: with slots <= TB_PIPE_RING / 2 all have read the maxima of row i - TB_PIPE_RING. And row i
 * is known to a block only when its drawing warps and all that weigh are done with row i - TB_PIPE_KNOWN, so
 * masses cannot come before the block has drawn that row. */
template <int dtype, int C> struct tb_pipe : tb_pipe_rows<dtype, C, tb_pipe_shared<C>> {
    typedef tb_pipe_shared<C> S;
    typedef tb_pipe_rows<dtype, C, S> R;
    using R::give_back, R::go_on, R::groups_of, R::mine, R::room_of, R::row_of;
    using R::lane, R::params, R::rank, R::room, R::rows, R::s, R::slot, R::warp;
    static constexpr uint32_t width = R::width;
    static constexpr int CHUNKS = R::CHUNKS, PER_LANE = R::PER_LANE;

    /* ---- a warp with a chunk: exact weights, told to the block that draws ---- */
    TB_MEMBER void weigh()
    {
        uint64_t mass = 0;
        uint32_t kept = 0, lowest = 0, untested = 0;
        for (tb_pipe_turn turn = {0, 0, 0}; turn.row < rows; go_on(turn)) {
            const uint32_t i = turn.row, at = i % TB_PIPE_RING;
            tb_wait_here(&s.filled[warp / CHUNKS][turn.place], turn.filling & 1);
            tb_wait_here(&s.decided[at], i / TB_PIPE_RING & 1);
            const tb_pipe_verdict row = s.verdict[at];
            if (i) tell(i - 1, mass, kept, lowest); /* while that is read */
            const uint32_t groups = groups_of(warp, row.share, row.end);
            const uint4 *chunk = room_of(turn) + row.share * warp + lane;
            const float maximum = row.maximum, factor = row.factor, most = row.most;
            mass = 0, kept = 0, lowest = 0xffffffffu;
            if (params.call.entropy) {
                const uint32_t place = i / C % S::DRAWN;
                mass = sum_with_entropy(chunk, groups, s.verdict[at], s.row[i % TB_PIPE_KNOWN],
                                        entropies(place) + mine(), (int)(i % C), &s.mail_mass[place]);
            } else if (row.usual) {
                auto filtered = [&](float x) {
                    const float u = tb_scaled_exponent(x, maximum, factor);
                    return u <= most ? u : 1.0f;
                };
                /* Of most rows a min_p keeps few tokens: most vectors have none. */
                uint32_t tested = 0, weighed = 0;
                auto some = [&](const auto &v) {
                    if (untested) return true;
                    const float top = tb_tile_max<dtype, sizeof v / sizeof v[0]>(v);
                    const bool kept =
                        __any_sync(TB_WHOLE_WARP, tb_scaled_exponent(top, maximum, factor) <= most);
                    tested++, weighed += kept;
                    return kept;
                };
                auto every = [](const auto &) { return true; };
                auto vector = [&](uint32_t j) { return chunk[j * 32]; };
                if (params.slow_doubles)
                    mass = sum_vectors<tb_digit_sum>(vector, groups, filtered, some);
                else if (most == 1.0f)
                    mass = sum_vectors<tb_double_sum>(
                        vector, groups, [&](float x) { return tb_scaled_exponent(x, maximum, factor); },
                        every);
                else
                    mass = sum_vectors<tb_double_sum>(vector, groups, filtered, some);
                if (untested) untested--;
                /* Where all have, the next rows of the batch mostly are like that. */
                if (tested && weighed == tested) untested = TB_PIPE_UNTESTED;
            }
            if (row.counted) {
                const tb_pipe_row &all = s.row[i % TB_PIPE_KNOWN];
                const uint4 seen = look_slowly({chunk, groups, 32, row.share * mine() + lane},
                                               all.slice.shift, all.scale, all.least_t, row.kind, maximum);
                mass += (uint64_t)seen.y << 32 | seen.x;
                kept = tb_warp_sum(seen.z);
                lowest = tb_warp_min(seen.w);
            }
            __syncwarp();
            if (lane == 0) tb_mail_arrive(&s.empty[turn.place]);
        }
        tell(rows - 1, mass, kept, lowest);
    }

    /* The warp's part of row i's mass, of the lanes together below 2^54. */
    TB_MEMBER void tell(uint32_t i, uint64_t mass, uint32_t kept, uint32_t lowest)
    {
        mass = tb_warp_sum54(mass);
        if (lane != 0) return;
        const uint32_t place = i / C % S::DRAWN;
        tb_mail_16(&s.mass[place][mine()], (int)(i % C),
                   make_uint4((uint32_t)mass, (uint32_t)(mass >> 32), kept, lowest), &s.mail_mass[place]);
        if ((i + 1) % TB_PIPE_GROUP == 0 || i + 1 == rows) give_back(i);
    }

    /* Of `count` vectors, number j being vector(j); `wanted`: whether some are weighed. */
    template <class Sum, class V, class F, class G>
    static TB_MEMBER uint64_t sum_vectors(V vector, uint32_t count, F exponent, G wanted)
    {
        constexpr int U = dtype == TOMBOLA_F32 ? 4 : 2;
        Sum sum;
        sum.clear();
        auto sum_vector = [&](const uint4 &v) {
#pragma unroll
            for (int e = 0; e < (int)width; e += 2)
                tb_add_weights(sum, exponent(tb_element<dtype>(v, e)), exponent(tb_element<dtype>(v, e + 1)));
        };
        uint32_t j = 0;
#pragma unroll 1
        for (; j + U <= count; j += U) {
            uint4 v[U];
#pragma unroll
            for (int k = 0; k < U; k++) v[k] = vector(j + k);
            if (!wanted(v)) continue;
#pragma unroll
            for (int k = 0; k < U; k++) sum_vector(v[k]);
        }
#pragma unroll 1
        for (; j < count; j++) sum_vector(vector(j));
        return sum.total();
    }

    /* For calls that want the entropy, which takes half as long again: the lane's mass, and by mail the
     * warp's sum of the weights by law_entropy_factor(t). Digits and their products keep the biases of
     * tb_split_power until the end. */
    static __device__ __noinline__ uint64_t sum_with_entropy(const uint4 *chunk, uint32_t groups,
                                                             const tb_pipe_verdict &verdict,
                                                             const tb_pipe_row &row, uint4 *to, int block,
                                                             uint64_t *box)
    {
        const float maximum = verdict.maximum, factor = verdict.factor, most = verdict.most;
        uint32_t high = 0, low = 0, weighed = 0; /* vectors */
        uint64_t factors = 0, by_high = 0, by_low = 0;
        auto add = [&](uint32_t h, uint32_t l, uint32_t its_factor) {
            high += h, low += l;
            by_high += (uint64_t)h * its_factor;
            by_low += (uint64_t)l * its_factor;
        };
        auto sum_vectors = [&](auto filtered, const auto &v) {
            constexpr int U = sizeof v / sizeof v[0];
            if (decltype(filtered)::value) { /* of most rows a min_p keeps few tokens */
                const float top = tb_tile_max<dtype, U>(v);
                if (!__any_sync(TB_WHOLE_WARP, tb_scaled_exponent(top, maximum, factor) <= most)) return;
            }
            weighed += U;
            uint32_t sum = 0;
#pragma unroll
            for (int e = 0; e < U * (int)width; e++) {
                float u = tb_scaled_exponent(tb_element<dtype>(v[e / width], e % width), maximum, factor);
                if (decltype(filtered)::value) u = u <= most ? u : 1.0f;
                uint32_t h, l;
                tb_weigh_scaled(u, -64.0f, &h, &l);
                const uint32_t its_factor = __float2uint_rn(u * 0x1p26f);
                add(h, l, its_factor);
                sum += its_factor;
            }
            factors += sum;
        };
        auto sum_chunk = [&](auto filtered) {
            constexpr int U = dtype == TOMBOLA_F32 ? 2 : 1;
            uint32_t j = 0;
#pragma unroll 1
            for (; j + U <= groups; j += U) {
                uint4 v[U];
#pragma unroll
                for (int k = 0; k < U; k++) v[k] = chunk[(j + k) * 32];
                sum_vectors(filtered, v);
            }
            if (j < groups) { /* U is 2 */
                const uint4 v[1] = {chunk[j * 32]};
                sum_vectors(filtered, v);
            }
            high -= TB_HIGH_BIAS * weighed * width, low -= TB_LOW_BIAS * weighed * width;
            by_high -= TB_HIGH_BIAS * factors, by_low -= TB_LOW_BIAS * factors;
        };
        if (verdict.usual && most == 1.0f) {
            sum_chunk(tb_flag<false>());
        } else if (verdict.usual) {
            sum_chunk(tb_flag<true>());
        } else if (verdict.kind == TB_PIPE_USUAL) { /* of whose weights look_slowly has the sum */
#pragma unroll 1
            for (uint32_t j = 0; j < groups * width; j++) {
                const float x = element_of(chunk[j / width * 32], j % width),
                            t = law_exponent(x, maximum, row.scale);
                const uint64_t w = x >= TB_LEAST && t >= row.least_t ? law_weight(t) : 0;
                if (w) add((uint32_t)(w >> 20), (uint32_t)w & 0xfffffu, law_entropy_factor(t));
            }
            high = low = 0;
        }
        by_high += by_low >> 20; /* below 2^49 */
        const uint32_t ends = tb_warp_sum((uint32_t)by_low & 0xfffffu),
                       middles = tb_warp_sum((uint32_t)by_high & 0x7ffffffu),
                       tops = tb_warp_sum((uint32_t)(by_high >> 27));
        if (tb_lane() == 0) tb_mail_16(to, block, make_uint4(ends, middles, tops, 0), box);
        return tb_join(high, low);
    }
    static TB_MEMBER float element_of(const uint4 &v, uint32_t e)
    {
        float x = tb_element<dtype>(v, 0);
#pragma unroll
        for (uint32_t i = 1; i < width; i++) x = i == e ? tb_element<dtype>(v, (int)i) : x;
        return x;
    }
    /* What the warps of the chunks say of a row that the block draws. */
    TB_MEMBER uint4 *entropies(uint32_t place) const
    {
        return room - (S::DRAWN - place) * S::WARPS;
    }
    TB_MEMBER void write_entropy(const tb_pipe_draw &drawn, const uint4 *said)
    {
        uint64_t ends = 0, others = 0; /* in 2^20 */
#pragma unroll
        for (int k = 0; k < PER_LANE; k++) {
            const uint4 part = said[k * 32 + lane];
            ends += part.x;
            others += part.y + ((uint64_t)part.z << 27);
        }
        ends = tb_warp_sum64(ends);
        others = tb_warp_sum64(others);
        ends += (others & 0xfff) << 20;
        if (lane == 0)
            params.call.entropy[row_of(drawn.row)] =
                law_entropy({ends & 0xffffffffu, (others >> 12) + (ends >> 32)}, drawn.total);
    }

    /* Vectors of a lane, `step` apart; the row's numbers begin with `first`. */
    typedef struct lane_part {
        const uint4 *at;
        uint32_t count, step, first;
    } lane_part;

    /* Rows that are not the usual ones, and the number of kept tokens: mass (low, high; 0 where it was found
     * already), kept tokens, lowest index of the maximum. */
    static __device__ __noinline__ uint4 look_slowly(const lane_part &part, uint32_t shift, float scale,
                                                     float least_t, tb_pipe_kind kind, float maximum)
    {
        const bool infinite = maximum == LAW_INF, weighs = kind == TB_PIPE_USUAL && scale < TB_LEAST_SCALE;
        uint32_t n = 0, lowest = 0xffffffffu;
        uint64_t sum = 0;
#pragma unroll 1
        for (uint32_t j = 0; j < part.count; j++) {
            const uint32_t i = j * part.step;
            const uint4 v = part.at[i];
#pragma unroll
            for (uint32_t e = 0; e < width; e++) {
                const float x = tb_element<dtype>(v, (int)e);
                if (x == maximum) lowest = min(lowest, (part.first + i) * width + e - shift);
                if (kind == TB_PIPE_EQUAL) {
                    n += infinite ? x == maximum : x >= TB_LEAST;
                } else {
                    const float t = law_exponent(x, maximum, scale);
                    const bool kept = x >= TB_LEAST && (least_t == -64.0f || t >= least_t);
                    n += kept;
                    if (weighs && kept) sum += law_weight(t);
                }
            }
        }
        if (kind == TB_PIPE_EQUAL) sum = (uint64_t)n << 40;
        return make_uint4((uint32_t)sum, (uint32_t)(sum >> 32), n, lowest);
    }

    /* ---- the warp that draws; `helps`: one that weighed, which takes part in the block's last draw, with
     * which nothing overlaps ---- */
    TB_MEMBER void finish(uint32_t drawer, bool helps)
    {
        const uint32_t turns = rows > (uint32_t)rank ? (rows - 1 - rank) / C + 1 : 0;
        uint32_t given = 0;
        for (uint32_t turn = helps && turns ? turns - 1 : drawer; turn < turns; turn += S::DRAWERS) {
            const uint32_t i = turn * C + rank, place = turn % S::DRAWN;
            const tb_pipe_row &row = s.row[i % TB_PIPE_KNOWN];
            tb_pipe_draw drawn;
            if (helps) {
                tb_wait_here(&s.handed, 0);
                drawn = s.last;
            } else {
                for (; given + TB_PIPE_GROUP <= i; given += TB_PIPE_GROUP) give_group(given);
                tb_wait_row(&s.known, i);
                tb_wait_here(&s.mail_mass[place], turn / S::DRAWN & 1);
                if (lane == 0) tb_mail_expect(&s.mail_mass[place], R::mass_bytes());
                drawn = find_chunk(row, i, s.mass[place], s.drawn[place].x, s.drawn[place].y);
                if (turn + 1 == turns && lane == 0) {
                    s.last = drawn;
                    tb_mail_arrive(&s.handed);
                }
                if (params.call.entropy && drawn.chunk != TB_PIPE_WRITTEN)
                    write_entropy(drawn, entropies(place));
                if (turn + 1 == turns) break;
            }
            if (drawn.chunk != TB_PIPE_WRITTEN) draw_chunk(row, drawn, helps);
            __syncwarp();
        }
        if (helps) return;
        for (; given < rows; given += TB_PIPE_GROUP) give_group(given);
    }
    /* Once it is known, the last rows in their place were given back by all. */
    TB_MEMBER void give_group(uint32_t group)
    {
        tb_wait_row(&s.known, group);
        if (lane == 0) give_back(group);
    }

    /* The chunk whose mass in order reaches beyond the position; rows without one are written. */
    TB_MEMBER tb_pipe_draw find_chunk(const tb_pipe_row &row, uint32_t i, const uint4 *masses,
                                      uint32_t greatest, uint32_t status)
    {
        const tombola_call &call = params.call;
        const int64_t index = row_of(i);
        const tb_pipe_kind kind = tb_pipe_kind_of(row, greatest);
        if (greatest == TB_KEY_POS_INF) status |= TOMBOLA_ROW_POS_INF;
        tb_pipe_draw drawn = {0, 0,      TB_PIPE_WRITTEN,         i,
                              0, status, law_key_value(greatest), kind == TB_PIPE_EQUAL};
        if (kind == TB_PIPE_VOID && params.part == TB_CUDA_RAW_LOGPROBS) {
            tb_write_raw_logprobs<dtype>(call, index, row.slice, drawn.maximum, row.scale, 0);
            return drawn;
        }
        if (kind == TB_PIPE_VOID) {
            tb_fast_result none = {-1,   0, 0, row.bad ? TOMBOLA_ROW_BAD_PARAM : status | TOMBOLA_ROW_EMPTY,
                                   0.0f, 0};
            if (lane == 0) tb_fast_write(call, index, none);
            if (lane == 0 && call.total_mass) call.total_mass[index] = 0;
            return drawn;
        }
        uint64_t own = 0;
        uint32_t kept = 0, lowest = 0xffffffffu;
#pragma unroll
        for (int k = 0; k < PER_LANE; k++) { /* so that eight lanes read all banks at a time */
            const uint4 said = masses[lane * PER_LANE + (k + lane * PER_LANE / 8) % PER_LANE];
            own += (uint64_t)said.y << 32 | said.x;
            kept += said.z;
            lowest = min(lowest, said.w);
        }
        if (kind == TB_PIPE_GREEDY) {
            lowest = tb_warp_min(lowest);
            tb_fast_result result = {(int32_t)lowest, 1, 0, status, 0.0f, LAW_ONE};
            if (lane == 0) {
                tb_fast_write(call, index, result);
                if (call.total_mass) call.total_mass[index] = LAW_ONE;
                if (call.entropy) call.entropy[index] = 0.0f;
            }
            return drawn;
        }
        drawn.kept = (int32_t)tb_warp_sum(kept);
        uint64_t upto = tb_warp_scan64(own);
        drawn.total = __shfl_sync(TB_WHOLE_WARP, upto, 31);
        if (params.part == TB_CUDA_RAW_LOGPROBS) {
            tb_write_raw_logprobs<dtype>(call, index, row.slice, drawn.maximum, row.scale, drawn.total);
            return drawn;
        }
        drawn.position = law_draw_position(row.random, drawn.total);
        drawn.chunk = 0;
        in_order(own, upto, drawn, PER_LANE);
        if (PER_LANE > 1) {
            const uint4 said = masses[drawn.chunk + lane % PER_LANE];
            own = lane < PER_LANE ? (uint64_t)said.y << 32 | said.x : 0;
            upto = tb_warp_scan64(own);
            in_order(own, upto, drawn, 1);
        }
        return drawn;
    }

    /* Goes on to the lane whose mass reaches beyond the position, `chunks` for each lane before it. */
    TB_MEMBER void in_order(uint64_t own, uint64_t upto, tb_pipe_draw &drawn, uint32_t chunks)
    {
        const int who = __ffs(__ballot_sync(TB_WHOLE_WARP, upto > drawn.position)) - 1;
        drawn.position -= __shfl_sync(TB_WHOLE_WARP, upto - own, who);
        drawn.chunk += who * chunks;
    }

    /* The token at a position of a chunk's mass: its group of 32 vectors, the lane, the element. A warp alone
     * looks at one group after the other; all that weighed at one each (room for a chunk is room for less
     * than 32 groups), and who has the position, if it was not the last one, once more. */
    TB_MEMBER void draw_chunk(const tb_pipe_row &row, const tb_pipe_draw &drawn, bool together)
    {
        const tb_fast_slice &slice = row.slice;
        const uint32_t first = row.share * drawn.chunk, end = min(slice.end, first + row.share),
                       groups = (end - first + 31) / 32, step = together ? TB_PIPE_WARPS : 1;
        const float maximum = drawn.maximum, least = maximum == LAW_INF ? LAW_INF : TB_LEAST;
        uint64_t position = drawn.position;
        auto load = [&](uint32_t group) {
            constexpr uint32_t none = tb_minus_infinity<dtype>();
            const uint32_t at = first + group * 32 + lane;
            return at < end ? tb_load_any<dtype>(slice, at) : make_uint4(none, none, none, none);
        };
        uint32_t j = together ? warp : 0, h[width], l[width];
        uint64_t own;
        uint4 v, next = load(j), after = load(j + step);
#pragma unroll 1
        for (;;) {
            v = next, next = after, after = load(j + 2 * step);
            own = tb_weigh_vector<dtype>(v, maximum, row.scale, row.least_t, drawn.equal, least, h, l);
            const uint64_t all = tb_warp_sum54(own);
            if (!together) {
                if (position < all) break;
                position -= all, j++;
                continue;
            }
            if (lane == 0 && j < groups) s.group_mass[j] = all;
            if (j + step < groups) {
                j += step;
                continue;
            }
            __syncwarp();
            if (lane == 0) tb_mail_arrive(&s.groups_weighed);
            tb_wait_here(&s.groups_weighed, 0);
            const uint64_t mass = (uint32_t)lane < groups ? s.group_mass[lane] : 0,
                           upto = tb_warp_scan64(mass);
            const uint32_t who = __ffs(__ballot_sync(TB_WHOLE_WARP, upto > position)) - 1;
            if (who % TB_PIPE_WARPS != (uint32_t)warp) return;
            position -= __shfl_sync(TB_WHOLE_WARP, upto - mass, who);
            if (who == j) break;
            j = who, next = load(j), together = false;
        }
        float x;
        const int e = tb_element_at<dtype>(position, v, own, h, l, &x);
        if (e < 0) return;
        const tb_fast_result result = {
            (int32_t)((first + j * 32 + lane) * width + e - slice.shift), drawn.kept, 0, drawn.status,
            drawn.equal ? 0.0f : law_exponent(x, maximum, row.scale),     drawn.total};
        const int64_t index = row_of(drawn.row);
        tb_fast_write(params.call, index, result);
        if (params.call.total_mass) params.call.total_mass[index] = result.mass;
    }
};

#endif
