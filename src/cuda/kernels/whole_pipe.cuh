/*
 * Softmax of many rows: rows follow each other through a cluster as in the flat pipe (fast_flat_pipe.cuh),
 * whose copies, looks and decisions these are, so that memory is read and written all the time.
 *
 * The warps that weigh put each token's E(t) where its value was, and tell the mass of their chunk to all
 * blocks. Others write: when all masses of a row have come they multiply what lies there, and give the place
 * to the copies of a later row.
 *
 * Rows of all kinds are served: those whose weights the usual arithmetic does not give are weighed slowly,
 * and what is written of greedy rows, and of rows without a token, is known without looking at them.
 */
#ifndef TB_CUDA_WHOLE_PIPE_CUH
#define TB_CUDA_WHOLE_PIPE_CUH

#include "fast_flat_pipe_rows.cuh"

#include <type_traits>

template <int dtype, int C> struct tb_whole_pipe_shared {
    static constexpr bool DRAWS = false, ROUND = false;
    static constexpr int SLOTS = TB_PIPE_SLOTS;
    static constexpr int ROOM = dtype == TOMBOLA_F32 ? 1 : 2; /* E(t) is an f32 */
    static constexpr int WARPS = C * TB_PIPE_WARPS, LOOKS = C * TB_PIPE_LOOKERS;
    static constexpr int WRITERS = TB_WHOLE_PIPE_WRITERS, THREADS = 32 * (TB_PIPE_OTHERS + WRITERS);
    static constexpr int DONE_WITH_ROW = WRITERS, DONE_WITH_PLACE = WRITERS, MASSES = TB_PIPE_SLOTS;
    static constexpr uint32_t MASS_BYTES = WARPS * 8;
    alignas(16) uint2 mass[TB_PIPE_SLOTS][WARPS]; /* of greedy rows: lowest index, 0 */
    uint2 maximum[TB_PIPE_RING][LOOKS];           /* key, status */
    tb_pipe_row row[TB_PIPE_KNOWN];
    tb_pipe_verdict verdict[TB_PIPE_RING];
    uint2 found[TB_PIPE_RING]; /* key of the maximum, status */
    uint32_t placed, known;    /* numbers of rows */
    /* mbarriers */
    uint64_t mail_maximum[TB_PIPE_RING], decided[TB_PIPE_RING], free[TB_PIPE_KNOWN / TB_PIPE_GROUP];
    uint64_t filled[TB_PIPE_LOOKERS][TB_PIPE_SLOTS], empty[TB_PIPE_SLOTS];
    uint64_t weighed[TB_PIPE_SLOTS], mail_mass[TB_PIPE_SLOTS]; /* by the block's warps; by the cluster's */

    TB_MEMBER void set_up(int lane)
    {
        if (lane < TB_PIPE_SLOTS) tb_mail_init(&weighed[lane], TB_PIPE_WARPS);
    }
};

/* A message of a row reuses the memory of an earlier row: of masses, that of the last row in the same place.
 * Who tells a mass of row i has all maxima of it, from warps that saw their parts of it, in places that the
 * warps that write had done with, and so with the masses of the row there before. For the maxima of row
 * i - TB_PIPE_RING this holds all the more. */
template <int dtype, int C> struct tb_whole_pipe : tb_pipe_rows<dtype, C, tb_whole_pipe_shared<dtype, C>> {
    typedef tb_whole_pipe_shared<dtype, C> S;
    typedef tb_pipe_rows<dtype, C, S> P;
    static constexpr uint32_t width = P::width;
    using P::lane, P::params, P::rank, P::rows, P::s, P::warp;
    static constexpr int PER_LANE = S::WARPS / 32;
    static constexpr bool DOUBLES = dtype == TOMBOLA_F32; /* the others are as fast with digits */
    typedef std::conditional_t<DOUBLES, tb_double_sum, tb_digit_sum> usual_sum;

    /* ---- a warp with a chunk: E(t) of its tokens, and their mass, told to all blocks ---- */
    TB_MEMBER void weigh()
    {
        for (tb_pipe_turn turn = {0, 0, 0}; turn.row < rows; P::go_on(turn)) {
            const uint32_t at = turn.row % TB_PIPE_RING;
            tb_wait_here(&s.filled[warp / P::CHUNKS][turn.place], turn.filling & 1);
            tb_wait_here(&s.decided[at], turn.row / TB_PIPE_RING & 1);
            const tb_pipe_verdict row = s.verdict[at];
            const uint32_t groups = P::groups_of(warp, row.share, row.end);
            uint4 *to = P::room_of(turn) + row.share * S::ROOM * warp;
            const uint4 *chunk = to + (S::ROOM - 1) * row.share;
            uint64_t word = 0;
            if (row.usual) {
                const float maximum = row.maximum, factor = row.factor, most = row.most;
                if (most != 1.0f || (DOUBLES && params.slow_doubles))
                    word = weigh_chunk<tb_digit_sum>(chunk, to, groups, [&](float x) {
                        const float u = tb_scaled_exponent(x, maximum, factor);
                        return u <= most ? u : 1.0f;
                    });
                else
                    word = weigh_chunk<usual_sum>(
                        chunk, to, groups, [&](float x) { return tb_scaled_exponent(x, maximum, factor); });
                word = tb_warp_sum54(word);
            } else if (row.kind != TB_PIPE_VOID) {
                const tb_pipe_row &all = s.row[turn.row % TB_PIPE_KNOWN];
                if (row.kind == TB_PIPE_GREEDY)
                    word = find_lowest(chunk, groups, row.share * P::mine(), all.slice.shift, row.maximum);
                else
                    word = weigh_slowly(chunk, to, groups, all.scale, all.least_t, row.kind == TB_PIPE_EQUAL,
                                        row.maximum);
            }
            tb_writes_before_copies();
            __syncwarp();
            if (lane == 0) tb_mail_arrive(&s.weighed[turn.place]);
            if (lane < C)
                tb_mail_8(&s.mass[turn.place][P::mine()], lane, (uint32_t)word, (uint32_t)(word >> 32),
                          &s.mail_mass[turn.place]);
        }
    }

    /* Puts a vector's E(t) where they belong, when all lanes have read theirs. */
    static TB_MEMBER void put(uint4 *to, uint32_t vector, const float (&e)[width])
    {
#pragma unroll
        for (uint32_t k = 0; k < width; k += 4)
            to[vector * S::ROOM + k / 4] =
                make_uint4(law_bits(e[k]), law_bits(e[k + 1]), law_bits(e[k + 2]), law_bits(e[k + 3]));
    }

    /* 0 stands for E(t) of what weighs nothing, or is not kept. */
    template <class Sum, class F>
    TB_MEMBER uint64_t weigh_chunk(const uint4 *chunk, uint4 *to, uint32_t groups, F exponent) const
    {
        constexpr int U = dtype == TOMBOLA_F32 ? 4 : 2;
        Sum sum;
        sum.clear();
        auto weigh_vector = [&](const uint4 &v, uint32_t vector) {
            float e[width];
#pragma unroll
            for (int k = 0; k < (int)width; k++)
                e[k] = tb_power_of_two(exponent(tb_element<dtype>(v, k)), -64.0f);
#pragma unroll
            for (int k = 0; k < (int)width; k += 2) sum.add_powers(e[k], e[k + 1]);
#pragma unroll
            for (int k = 0; k < (int)width; k++) e[k] = e[k] >= 0x1p-40f ? e[k] : 0.0f;
            put(to, vector, e);
        };
        uint32_t j = 0;
#pragma unroll 1
        for (; j + U <= groups; j += U) {
            uint4 v[U];
#pragma unroll
            for (int k = 0; k < U; k++) v[k] = chunk[(j + k) * 32 + lane];
            if (S::ROOM > 1) __syncwarp();
#pragma unroll
            for (int k = 0; k < U; k++) weigh_vector(v[k], (j + k) * 32 + lane);
        }
#pragma unroll 1
        for (; j < groups; j++) {
            const uint4 v = chunk[j * 32 + lane];
            if (S::ROOM > 1) __syncwarp();
            weigh_vector(v, j * 32 + lane);
        }
        return sum.total();
    }

    /* Rows that are not the usual ones: the same, and the warp's mass. */
    static __device__ __noinline__ uint64_t weigh_slowly(const uint4 *chunk, uint4 *to, uint32_t groups,
                                                         float scale, float least_t, bool equal,
                                                         float maximum)
    {
        const float least = maximum == LAW_INF ? LAW_INF : TB_LEAST;
        uint64_t sum = 0;
#pragma unroll 1
        for (uint32_t j = 0; j < groups; j++) {
            const uint32_t vector = j * 32 + tb_lane();
            const uint4 v = chunk[vector];
            float e[width];
#pragma unroll
            for (int k = 0; k < (int)width; k++) {
                const float x = tb_element<dtype>(v, k), t = law_exponent(x, maximum, scale);
                const bool kept = x >= least && (equal || t >= least_t);
                e[k] = !kept ? 0.0f : equal ? 1.0f : tb_renormalised(false, tb_exp2(t), 1.0f);
                sum += !kept ? 0 : equal ? LAW_ONE : law_weight(t);
            }
            __syncwarp();
            put(to, vector, e);
        }
        return tb_warp_sum54(sum);
    }

    /* Lowest index of the maximum in a chunk whose first vector is number `first` of the row. */
    static TB_MEMBER uint32_t find_lowest(const uint4 *chunk, uint32_t groups, uint32_t first, uint32_t shift,
                                          float maximum)
    {
        uint32_t lowest = 0xffffffffu;
#pragma unroll 2
        for (uint32_t j = 0; j < groups; j++) {
            const uint32_t vector = j * 32 + tb_lane();
            const uint4 v = chunk[vector];
#pragma unroll
            for (int k = 0; k < (int)width; k++)
                if (tb_element<dtype>(v, k) == maximum)
                    lowest = min(lowest, (first + vector) * width + k - shift);
        }
        return tb_warp_min(lowest);
    }

    /* ---- a warp that writes ---- */
    TB_MEMBER void finish(uint32_t writer)
    {
        for (tb_pipe_turn turn = {0, 0, 0}; turn.row < rows; P::go_on(turn)) {
            const tb_pipe_row &row = P::row_at(&s.known, turn.row);
            tb_wait_here(&s.weighed[turn.place], turn.filling & 1);
            tb_wait_here(&s.mail_mass[turn.place], turn.filling & 1);
            if (writer == 0 && lane == 0) tb_mail_expect(&s.mail_mass[turn.place], S::MASS_BYTES);
            write_row(row, turn, writer);
            __syncwarp();
            if (lane == 0) {
                tb_mail_arrive(&s.empty[turn.place]);
                if ((turn.row + 1) % TB_PIPE_GROUP == 0) P::give_back(turn.row);
            }
        }
    }

    TB_MEMBER void write_row(const tb_pipe_row &row, const tb_pipe_turn &turn, uint32_t writer)
    {
        const tombola_call &call = params.call;
        const int64_t index = P::row_of(turn.row);
        const uint2 found = s.found[turn.row % TB_PIPE_RING];
        const tb_pipe_kind kind = s.verdict[turn.row % TB_PIPE_RING].kind;
        float *out = call.probabilities + index * call.probabilities_stride;
        const bool says = rank == 0 && writer == 0 && lane == 0;
        if (kind == TB_PIPE_VOID) {
            int64_t start, count; /* elements are written of rows that are nowhere, too */
            tb_gpu_locate(call, index, &start, &count);
            write_one(out, (uint32_t)(count * rank / C), (uint32_t)(count * (rank + 1) / C), 0xffffffffu,
                      writer);
            if (says) write_words(index, row.bad ? TOMBOLA_ROW_BAD_PARAM : found.y | TOMBOLA_ROW_EMPTY, 0);
            return;
        }
        const uint32_t share = row.share * TB_PIPE_WARPS, shift = row.slice.shift,
                       first = min(row.slice.end, share * rank), end = min(row.slice.end, first + share),
                       begin = first < end && first ? first * width - shift : 0,
                       stop = first < end ? min(row.slice.length, end * width - shift) : 0;
        uint64_t mass = 0;
        uint32_t lowest = 0xffffffffu;
#pragma unroll
        for (int k = 0; k < PER_LANE; k++) {
            const uint2 said = s.mass[turn.place][k * 32 + lane];
            mass += (uint64_t)said.y << 32 | said.x;
            lowest = min(lowest, said.x);
        }
        if (kind == TB_PIPE_GREEDY) {
            mass = LAW_ONE;
            write_one(out, begin, stop, tb_warp_min(lowest), writer);
        } else {
            mass = tb_warp_sum64(mass);
            write_share(out, begin, stop, (const float *)P::room_of(turn), shift - first * width,
                        law_renorm_scale(mass), writer);
        }
        if (says) write_words(index, found.y | (found.x == TB_KEY_POS_INF ? TOMBOLA_ROW_POS_INF : 0u), mass);
    }

    TB_MEMBER void write_words(int64_t index, uint32_t status, uint64_t mass)
    {
        const tombola_call &call = params.call;
        if (call.status) call.status[index] = status;
        if (call.kept_mass) call.kept_mass[index] = mass;
        if (call.total_mass) call.total_mass[index] = mass;
    }

    /* Elements [begin, stop) of a row of output: `four` gives the four from an index on, `one` a single one.
     * The warps take U times 32 vectors in turns. */
    template <int U, class Four, class One>
    TB_MEMBER void write_span(float *out, uint32_t begin, uint32_t stop, uint32_t writer, Four four, One one)
    {
        const uint32_t shift = (uint32_t)((uintptr_t)out >> 2) & 3u, first = (begin + shift + 3) / 4,
                       end = (stop + shift) / 4;
        if (writer == 0) { /* what is in no whole vector of its */
            const uint32_t head = begin + lane, head_end = min(stop, first * 4 - shift),
                           tail = max(head_end, end * 4 - shift) + lane;
            if (head < head_end) out[head] = one(head);
            if (first <= end && tail < stop) out[tail] = one(tail);
        }
        uint32_t v = first + writer * (U * 32) + lane;
#pragma unroll 1
        for (; v - lane + U * 32 <= end; v += S::WRITERS * U * 32) {
            uint4 some[U];
#pragma unroll
            for (int k = 0; k < U; k++) some[k] = four((v + k * 32) * 4 - shift);
#pragma unroll
            for (int k = 0; k < U; k++) tb_store16(out + (v + k * 32) * 4 - shift, some[k]);
        }
#pragma unroll 1
        for (int k = 0; k < U && v < end; k++, v += 32) tb_store16(out + v * 4 - shift, four(v * 4 - shift));
    }

    /* E(t), which of element i lies at from[i + offset], times the scale. */
    TB_MEMBER void write_share(float *out, uint32_t begin, uint32_t stop, const float *from, uint32_t offset,
                               float scale, uint32_t writer)
    {
        auto one = [&](uint32_t i) { return from[i + offset] * scale; };
        auto scaled = [&](float a, float b, float c, float d) {
            return make_uint4(law_bits(a * scale), law_bits(b * scale), law_bits(c * scale),
                              law_bits(d * scale));
        };
        if (((offset - ((uint32_t)((uintptr_t)out >> 2) & 3u)) & 3u) == 0)
            write_span<8>(
                out, begin, stop, writer,
                [&](uint32_t i) {
                    const float4 e = *(const float4 *)(from + (i + offset));
                    return scaled(e.x, e.y, e.z, e.w);
                },
                one);
        else
            write_span<2>(
                out, begin, stop, writer,
                [&](uint32_t i) {
                    const float *e = from + (i + offset);
                    return scaled(e[0], e[1], e[2], e[3]);
                },
                one);
    }

    /* 1 at index `at`, 0 elsewhere. */
    TB_MEMBER void write_one(float *out, uint32_t begin, uint32_t stop, uint32_t at, uint32_t writer)
    {
        auto one = [&](uint32_t i) { return i == at ? 1.0f : 0.0f; };
        write_span<4>(
            out, begin, stop, writer,
            [&](uint32_t i) {
                return make_uint4(law_bits(one(i)), law_bits(one(i + 1)), law_bits(one(i + 2)),
                                  law_bits(one(i + 3)));
            },
            one);
    }
};

#endif
