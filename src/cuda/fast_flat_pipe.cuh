/*
 * The flat kernel for many rows: rows follow each other through a cluster of C blocks, so that memory is read
 * all the time, whatever the rows in the cluster wait for.
 *
 * A row is cut into a contiguous chunk for each of the cluster's C * TB_PIPE_WARPS warps. A warp has room for
 * `slots` chunks, of as many rows, in shared memory, which bulk copies fill: it asks for the chunk of the row
 * after next as soon as it is done with one. When a chunk is there the warp takes its maximum and tells it to
 * all warps (a message to each block). When all have said theirs, the warp weighs its chunk and tells the
 * mass to the block whose turn the row is. No barrier stands between the warps of a block: each takes what is
 * ready.
 * Two more warps of a block: one finds rows and reduces their chains, some rows ahead; one draws, every
 * C-th row, while the others work on rows behind it: it finds the chunk and weighs it again (from L2).
 *
 * Rows of all kinds are served: see tb_pipe_kind.
 */
#ifndef TB_CUDA_FAST_FLAT_PIPE_CUH
#define TB_CUDA_FAST_FLAT_PIPE_CUH

#include "fast_flat.cuh"
#include "fast_shapes.h"

#ifndef TB_PIPE_U
#define TB_PIPE_U 4
#endif
#define TB_PIPE_THREADS (32 * TB_PIPE_WARPS + 64)
#define TB_PIPE_RING 8 /* rows that are known ahead; the reasoning is at tb_pipe */

/* What is known of a row before its values. */
typedef struct __align__(16) tb_pipe_row
{
    tb_fast_slice slice; /* the whole row */
    uint32_t share;      /* vectors of a chunk */
    float scale, least_t;
    uint8_t greedy, flat, bad;
    uint64_t random;
}
tb_pipe_row;

/* What a row's tokens weigh. */
typedef enum tb_pipe_kind {
    TB_PIPE_VOID,   /* nothing is drawn */
    TB_PIPE_GREEDY, /* the maximum's lowest index is wanted */
    TB_PIPE_EQUAL,  /* 2^40 each: all of K0, or all +inf */
    TB_PIPE_USUAL
} tb_pipe_kind;

TB_DEV tb_pipe_kind tb_pipe_kind_of(const tb_pipe_row &row, uint32_t greatest)
{
    if (row.bad || greatest < TB_KEY_LEAST_LOGIT) return TB_PIPE_VOID;
    if (row.greedy) return TB_PIPE_GREEDY;
    return row.flat || greatest == TB_KEY_POS_INF ? TB_PIPE_EQUAL : TB_PIPE_USUAL;
}

template <int C> struct tb_pipe_shared {
    static constexpr int WARPS = C * TB_PIPE_WARPS; /* of a row */
    static constexpr int DRAWN =
        TB_PIPE_RING > C ? TB_PIPE_RING / C : 1; /* rows that a block may draw next */
    uint4 mass[DRAWN][WARPS];                    /* mass, kept tokens, greedy: lowest index */
    static constexpr uint32_t MASS_BYTES = WARPS * 16 + 8;
    uint2 maximum[TB_PIPE_RING][WARPS]; /* key, status */
    tb_pipe_row row[TB_PIPE_RING];
    uint2 drawn[DRAWN]; /* key of the maximum, status */
    /* mbarriers */
    uint64_t placed[TB_PIPE_RING], known[TB_PIPE_RING], free[TB_PIPE_RING], mail_maximum[TB_PIPE_RING],
        mail_mass[DRAWN];
    uint64_t filled[TB_PIPE_WARPS][TB_PIPE_SLOTS];
};

/* Waits for what the block's own threads, or its copies, have done. */
TB_DEV void tb_wait_here(uint64_t *box, uint32_t parity)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .pred done;\nagain: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(tb_shared_address(box)),
                 "r"(parity)
                 : "memory");
#endif
}

/* Whether it is done. */
TB_DEV bool tb_done_here(uint64_t *box, uint32_t parity)
{
    uint32_t there = 0;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .pred there;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 there, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, there;\n}"
                 : "=r"(there)
                 : "r"(tb_shared_address(box)), "r"(parity)
                 : "memory");
#endif
    return __any_sync(TB_WHOLE_WARP, there);
}

/* By one thread: a copy of whole vectors to shared memory, which `box` counts. What the warp wrote there by
 * other means must come before. */
TB_DEV void tb_copy_in(void *to, const void *from, uint32_t bytes, uint64_t *box)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    tb_mail_expect(box, bytes);
    if (!bytes) return;
    asm volatile(
        "fence.proxy.async.shared::cta;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            tb_shared_address(to)),
        "l"(from), "r"(bytes), "r"(tb_shared_address(box))
        : "memory");
#endif
}

/* Value `index` of the row. */
template <int dtype> TB_DEV float tb_row_value(const tb_fast_slice &s, uint32_t index)
{
    const char *row = s.base + (size_t)s.shift * tb_fast_vector<dtype>::bytes;
    if (dtype == TOMBOLA_F32) return ((const float *)row)[index];
    uint32_t bits = ((const uint16_t *)row)[index];
    return dtype == TOMBOLA_F16 ? tb_f16_value(bits) : law_float(bits << 16);
}

/* A row, and which of the warp's places for chunks it has; `filling` counts the fillings of that place. */
typedef struct tb_pipe_turn {
    uint32_t row, place, filling;
} tb_pipe_turn;

/* A message of row i reuses the place of row i - TB_PIPE_RING. A warp that sends row i's maximum has room for
 * it, so it has weighed row i - slots and knew all maxima of it; whoever sent one of these had weighed
 * i - 2 slots: with slots <= TB_PIPE_RING / 2 all have read the maxima of row i - TB_PIPE_RING. And
 * row i is known to a block only when its drawing warp and all others are done with row i - TB_PIPE_RING,
 * so masses cannot come before the block has drawn that row. */
template <int dtype, int C> struct tb_pipe {
    typedef tb_pipe_shared<C> S;
    static constexpr uint32_t width = tb_fast_vector<dtype>::width;
    static constexpr int PER_LANE = (S::WARPS + 31) / 32;

    const tb_cuda_params &params;
    S &s;
    uint4 *room; /* of this warp: chunks of `stride` vectors */
    uint32_t stride, slots;
    int rank, lane, warp;
    uint32_t rows; /* of this cluster */
    int64_t first_row, row_step;

    TB_MEMBER int64_t row_of(uint32_t i) const
    {
        return first_row + (int64_t)i * row_step;
    }

    /* ---- the warp that looks ahead: a row a lane ---- */

    TB_MEMBER void place(uint32_t i, int64_t start, int64_t count)
    {
        tb_pipe_row &to = s.row[i % TB_PIPE_RING];
        to.slice = tb_make_slice<dtype>((const char *)params.call.data +
                                            (size_t)start * tb_fast_vector<dtype>::bytes,
                                        (uint32_t)count, 0, 1);
        to.share = (to.slice.end + S::WARPS - 1) / S::WARPS;
        tb_mail_arrive(&s.placed[i % TB_PIPE_RING]);
    }

    TB_MEMBER void prepare()
    {
        const tombola_call &call = params.call;
        for (uint32_t i0 = 0; i0 < rows; i0 += 32) {
            const uint32_t own = i0 + lane;
            const int64_t row = row_of(min(own, rows - 1));
            int64_t start, count;
            const bool located = tb_gpu_locate(call, row, &start, &count);
            const int64_t slot = tb_gpu_slot(call, row);
            if (own < min(rows, TB_PIPE_RING)) place(own, start, count);
            __syncwarp();
            /* the chain: a temperature and min_p's */
            bool bad = !located || slot < 0;
            law_temper temper = {LAW_SCALED, LAW_LOG2E};
            uint64_t w = 0;
            for (int j = 0; j < call.step_count; j++) {
                const tombola_step &step = params.steps[j];
                const float value = !step.value_per_slot ? step.value
                                    : bad                ? 1.0f
                                                         : step.value_per_slot[slot];
                if (law_isnan(value) || (step.kind == TOMBOLA_TEMPERATURE && value < 0.0f)) {
                    bad = true;
                } else if (step.kind == TOMBOLA_TEMPERATURE) {
                    temper = law_temperature(value);
                } else if (value > 0.0f) {
                    uint64_t least = law_min_p_weight(value, LAW_ONE);
                    w = least > w ? least : w;
                }
            }
            const uint64_t random = tb_fast_random(call, row, slot);
            float least_t = -64.0f;
            uint32_t ahead = __ballot_sync(TB_WHOLE_WARP, w != 0 && own < rows);
            while (ahead) { /* one search for all rows with the same least weight */
                const uint64_t some = __shfl_sync(TB_WHOLE_WARP, w, __ffs(ahead) - 1);
                const float found = tb_least_exponent(some);
                if (w == some) least_t = found;
                ahead &= ~__ballot_sync(TB_WHOLE_WARP, w == some);
            }
            for (uint32_t i = i0; i < min(rows, i0 + 32); i++) {
                if (i >= TB_PIPE_RING) tb_wait_here(&s.free[i % TB_PIPE_RING], i / TB_PIPE_RING - 1 & 1);
                if (own != i) continue;
                if (i >= TB_PIPE_RING) place(i, start, count);
                tb_pipe_row &to = s.row[i % TB_PIPE_RING];
                to.scale = temper.mode == LAW_SCALED ? temper.scale : 1.0f;
                to.least_t = least_t;
                to.greedy = temper.mode == LAW_GREEDY;
                to.flat = temper.mode == LAW_FLAT;
                to.bad = bad;
                to.random = random;
                tb_mail_arrive(&s.known[i % TB_PIPE_RING]);
            }
            if (rank == 0 && own < rows) tb_fast_advance(params, row, slot);
            __syncwarp();
        }
    }

    /* ---- a warp with chunks ---- */
    TB_MEMBER const tb_pipe_row &row_at(uint64_t *boxes, uint32_t i)
    {
        tb_wait_here(&boxes[i % TB_PIPE_RING], i / TB_PIPE_RING & 1);
        return s.row[i % TB_PIPE_RING];
    }
    TB_MEMBER uint32_t mine() const /* this warp's number among the row's */
    {
        return (uint32_t)(rank * TB_PIPE_WARPS + warp);
    }
    TB_MEMBER uint4 *room_of(const tb_pipe_turn &turn) const
    {
        return room + turn.place * stride;
    }
    TB_MEMBER void go_on(tb_pipe_turn &turn) const
    {
        turn.row++;
        if (++turn.place == slots) turn.place = 0, turn.filling++;
    }
    /* Groups of 32 vectors of row i's chunk, an end filled up with -inf. */
    TB_MEMBER uint32_t groups_of(const tb_pipe_row &row) const
    {
        uint32_t first = min(row.slice.end, row.share * mine()), end = min(row.slice.end, first + row.share);
        return (end - first + 31) / 32;
    }

    TB_MEMBER void ask(const tb_pipe_turn &turn)
    {
        constexpr uint32_t none = tb_minus_infinity<dtype>();
        const tb_pipe_row &row = row_at(s.placed, turn.row);
        const tb_fast_slice &slice = row.slice;
        uint4 *to = room_of(turn);
        const uint32_t first = min(slice.end, row.share * mine()), end = min(slice.end, first + row.share);
        const uint32_t inner = max(first, slice.whole_first), inner_end = min(end, slice.whole_end);
        const uint32_t beyond = end + lane;
        if (beyond < first + (end - first + 31) / 32 * 32)
            to[beyond - first] = make_uint4(none, none, none, none);
        if (lane == 0 && first < slice.whole_first && end > 0)
            to[0] = tb_load_edge<dtype>(slice.base, 0u - slice.shift, slice.length);
        if (lane == 0 && end > slice.whole_end && end > first && slice.whole_end >= slice.whole_first)
            to[slice.whole_end - first] =
                tb_load_edge<dtype>(slice.base + (size_t)slice.whole_end * 16,
                                    slice.whole_end * width - slice.shift, slice.length);
        __syncwarp();
        if (lane == 0)
            tb_copy_in(to + (inner - first), slice.base + (size_t)inner * 16,
                       inner < inner_end ? (inner_end - inner) * 16 : 0, &s.filled[warp][turn.place]);
    }

    TB_MEMBER bool filled(const tb_pipe_turn &turn)
    {
        return tb_done_here(&s.filled[warp][turn.place], turn.filling & 1);
    }

    /* First look: the chunk's maximum, told to all blocks. */
    TB_MEMBER void look(const tb_pipe_turn &turn)
    {
        tb_wait_here(&s.filled[warp][turn.place], turn.filling & 1);
        const uint32_t at = turn.row % TB_PIPE_RING, groups = groups_of(s.row[at]);
        uint4 *chunk = room_of(turn) + lane;
        float top = -LAW_INF;
        uint32_t j = 0;
#pragma unroll 1
        for (; j + 4 <= groups; j += 4) {
            uint4 v[4];
#pragma unroll
            for (int k = 0; k < 4; k++) v[k] = chunk[(j + k) * 32];
            top = tb_max_nan(top, tb_tile_max<dtype, 4>(v));
        }
#pragma unroll 1
        for (; j < groups; j++) {
            const uint4 v[1] = {chunk[j * 32]};
            top = tb_max_nan(top, tb_tile_max<dtype, 1>(v));
        }
        uint32_t status = 0;
        if (__any_sync(TB_WHOLE_WARP, law_isnan(top))) {
            status = TOMBOLA_ROW_NAN;
            top = -LAW_INF;
#pragma unroll 1
            for (j = 0; j < groups; j++) {
                uint4 v[1] = {chunk[j * 32]};
                tb_drop_nan<dtype, 1>(v);
                chunk[j * 32] = v[0];
                top = tb_max_nan(top, tb_tile_max<dtype, 1>(v));
            }
        }
        const uint32_t key = tb_warp_max(law_key(top));
        if (warp == 0 && lane == 0) tb_mail_expect(&s.mail_maximum[at], S::WARPS * 8);
        if (lane < C) tb_mail_8(&s.maximum[at][mine()], lane, key, status, &s.mail_maximum[at]);
    }

    /* Second look: exact weights, told to the block that draws. */
    TB_MEMBER void weigh(const tb_pipe_turn &turn)
    {
        const uint32_t i = turn.row, at = i % TB_PIPE_RING;
        tb_mail_wait(&s.mail_maximum[at], i / TB_PIPE_RING & 1);
        uint32_t greatest = 0, status = 0;
#pragma unroll
        for (int k = 0; k < PER_LANE; k++) {
            const uint2 said = s.maximum[at][(k * 32 + lane) % S::WARPS];
            greatest = max(greatest, said.x);
            status |= said.y;
        }
        greatest = tb_warp_max(greatest);
        status = tb_warp_or(status);
        const tb_pipe_row &row = row_at(s.known, i);
        const tb_pipe_kind kind = tb_pipe_kind_of(row, greatest);
        const float maximum = law_key_value(greatest), scale = row.scale, least_t = row.least_t;
        const uint32_t groups = groups_of(row);
        const uint4 *chunk = room_of(turn) + lane;
        uint64_t mass = 0;
        uint32_t kept = 0, lowest = 0xffffffffu;
        if (kind == TB_PIPE_USUAL && scale >= TB_LEAST_SCALE) {
            uint32_t high = 0, low = 0;
            const float factor = scale * -0x1p-6f;
            if (least_t == -64.0f) {
                sum_chunk(chunk, groups, maximum, &high, &low,
                          [&](float x) { return tb_scaled_exponent(x, maximum, factor); });
            } else {
                const float most = least_t * -0x1p-6f;
                sum_chunk(chunk, groups, maximum, &high, &low, [&](float x) {
                    float u = tb_scaled_exponent(x, maximum, factor);
                    return u <= most ? u : 1.0f;
                });
            }
            mass = tb_join(high - TB_HIGH_BIAS * (groups * width), low - TB_LOW_BIAS * (groups * width));
        }
        if (kind == TB_PIPE_GREEDY || kind == TB_PIPE_EQUAL ||
            (kind == TB_PIPE_USUAL && (params.call.kept_count || scale < TB_LEAST_SCALE))) {
            const uint4 seen = look_slowly(chunk, groups, min(row.slice.end, row.share * mine()),
                                           row.slice.shift, scale, least_t, kind, maximum);
            mass += (uint64_t)seen.y << 32 | seen.x;
            kept = seen.z;
            lowest = seen.w;
        }
        mass = tb_warp_sum64(mass);
        kept = tb_warp_sum(kept);
        if (kind == TB_PIPE_GREEDY) lowest = tb_warp_min(lowest);
        __syncwarp();
        if (lane == 0) {
            const int drawer = (int)(i % C);
            const uint32_t place = i / C % S::DRAWN;
            tb_mail_16(&s.mass[place][mine()], drawer,
                       make_uint4((uint32_t)mass, (uint32_t)(mass >> 32), kept, lowest), &s.mail_mass[place]);
            if (mine() == 0) tb_mail_8(&s.drawn[place], drawer, greatest, status, &s.mail_mass[place]);
            tb_mail_arrive(&s.free[at]);
        }
    }

    template <class F>
    TB_MEMBER void sum_chunk(const uint4 *chunk, uint32_t groups, float maximum, uint32_t *to_high,
                             uint32_t *to_low, F exponent)
    {
        constexpr int U = dtype == TOMBOLA_F32 ? TB_PIPE_U : TB_PIPE_U / 2;
        uint32_t high = 0, low = 0, j = 0;
        auto sum_vector = [&](const uint4 &v) {
#pragma unroll
            for (int e = 0; e < (int)width; e += 2) {
                uint32_t h, l, h2, l2;
                tb_weigh_scaled(exponent(tb_element<dtype>(v, e)), -64.0f, &h, &l);
                tb_weigh_scaled(exponent(tb_element<dtype>(v, e + 1)), -64.0f, &h2, &l2);
                high += h + h2;
                low += l + l2;
            }
        };
#pragma unroll 1
        for (; j + U <= groups; j += U) {
            uint4 v[U];
#pragma unroll
            for (int k = 0; k < U; k++) v[k] = chunk[(j + k) * 32];
#pragma unroll
            for (int k = 0; k < U; k++) sum_vector(v[k]);
        }
#pragma unroll 1
        for (; j < groups; j++) sum_vector(chunk[j * 32]);
        *to_high = high;
        *to_low = low;
    }

    /* Rows that are not the usual ones, and the number of kept tokens: mass (low, high; 0 where it was found
     * already), kept tokens, lowest index of the maximum. */
    static __device__ __noinline__ uint4 look_slowly(const uint4 *chunk, uint32_t groups, uint32_t first,
                                                     uint32_t shift, float scale, float least_t,
                                                     tb_pipe_kind kind, float maximum)
    {
        const bool infinite = maximum == LAW_INF, weighs = kind == TB_PIPE_USUAL && scale < TB_LEAST_SCALE;
        uint32_t n = 0, lowest = 0xffffffffu;
        uint64_t sum = 0;
#pragma unroll 1
        for (uint32_t j = 0; j < groups; j++) {
            const uint4 v = chunk[j * 32];
#pragma unroll
            for (uint32_t e = 0; e < width; e++) {
                const float x = tb_element<dtype>(v, (int)e);
                if (x == maximum)
                    lowest = min(lowest, (first + j * 32 + (threadIdx.x & 31)) * width + e - shift);
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

    TB_MEMBER void work()
    {
        tb_pipe_turn asked = {0, 0, 0}, looked = asked, weighed = asked;
        for (; asked.row < min(rows, slots); go_on(asked)) ask(asked);
        tb_cluster_wait<C>(); /* all blocks run */
        while (weighed.row < rows) {
            if (looked.row < asked.row && (looked.row == weighed.row || filled(looked))) {
                look(looked);
                go_on(looked);
            } else {
                weigh(weighed);
                go_on(weighed);
                if (asked.row < rows) {
                    ask(asked);
                    go_on(asked);
                }
            }
        }
    }

    /* ---- the warp that draws ---- */
    TB_MEMBER void draw()
    {
        for (uint32_t i = 0; i < rows; i++) {
            const tb_pipe_row &row = row_at(s.known, i); /* which says that its place was given back before */
            if ((int)(i % C) == rank) {
                const uint32_t turn = i / C, place = turn % S::DRAWN;
                tb_mail_wait(&s.mail_mass[place], turn / S::DRAWN & 1);
                if (lane == 0) tb_mail_expect(&s.mail_mass[place], S::MASS_BYTES);
                draw_row(row, row_of(i), s.mass[place], s.drawn[place].x, s.drawn[place].y);
                __syncwarp();
            }
            if (lane == 0) tb_mail_arrive(&s.free[i % TB_PIPE_RING]);
        }
    }

    TB_MEMBER void draw_row(const tb_pipe_row &row, int64_t index, const uint4 *masses, uint32_t greatest,
                            uint32_t status)
    {
        const tombola_call &call = params.call;
        const tb_pipe_kind kind = tb_pipe_kind_of(row, greatest);
        if (greatest == TB_KEY_POS_INF) status |= TOMBOLA_ROW_POS_INF;
        const tb_fast_slice &slice = row.slice;
        const float maximum = law_key_value(greatest);
        if (kind == TB_PIPE_VOID) {
            tb_fast_result none = {-1,   0, 0, row.bad ? TOMBOLA_ROW_BAD_PARAM : status | TOMBOLA_ROW_EMPTY,
                                   0.0f, 0};
            if (lane == 0) tb_fast_write(call, index, none);
            if (lane == 0 && call.total_mass) call.total_mass[index] = 0;
            return;
        }
        /* the chunk whose mass in order reaches beyond the position */
        uint64_t mass[PER_LANE], all = 0;
        uint32_t kept = 0, lowest = 0xffffffffu;
#pragma unroll
        for (int k = 0; k < PER_LANE; k++) {
            uint4 said = {0, 0, 0, 0xffffffffu};
            if (lane * PER_LANE + k < S::WARPS) said = masses[lane * PER_LANE + k];
            all += mass[k] = (uint64_t)said.y << 32 | said.x;
            kept += said.z;
            lowest = min(lowest, said.w);
        }
        if (kind == TB_PIPE_GREEDY) {
            lowest = tb_warp_min(lowest);
            tb_fast_result result = {(int32_t)lowest, 1, 0, status, 0.0f, LAW_ONE};
            if (lane == 0) {
                tb_fast_write(call, index, result);
                if (call.total_mass) call.total_mass[index] = LAW_ONE;
            }
            return;
        }
        kept = tb_warp_sum(kept);
        uint64_t upto = tb_warp_scan64(all);
        const uint64_t total = __shfl_sync(TB_WHOLE_WARP, upto, 31);
        uint64_t position = law_draw_position(row.random, total);
        int who = __ffs(__ballot_sync(TB_WHOLE_WARP, upto > position)) - 1;
        uint64_t from = upto - all;
        uint32_t chunk = 0;
#pragma unroll
        for (int k = 0; k < PER_LANE - 1; k++) { /* in lane `who` */
            if (chunk == (uint32_t)k && from + mass[k] <= position) from += mass[k], chunk++;
        }
        position -= __shfl_sync(TB_WHOLE_WARP, from, who);
        chunk = __shfl_sync(TB_WHOLE_WARP, chunk, who) + who * PER_LANE;
        /* the lane: each has some of its vectors, in order */
        const uint32_t first = min(slice.end, row.share * chunk), end = min(slice.end, first + row.share);
        const uint32_t each = (end - first + 31) / 32, own = first + each * lane;
        const bool equal = kind == TB_PIPE_EQUAL;
        const float scale = row.scale, least_t = row.least_t, least = maximum == LAW_INF ? LAW_INF : TB_LEAST;
        all = 0;
#pragma unroll 1
        for (uint32_t j = 0; j < each; j += 4) {
            uint32_t high = 0, low = 0;
            uint4 v[4];
#pragma unroll
            for (uint32_t k = 0; k < 4; k++) {
                constexpr uint32_t none = tb_minus_infinity<dtype>();
                v[k] = make_uint4(none, none, none, none);
                if (j + k < each && own + j + k < end) v[k] = tb_load_any<dtype>(slice, own + j + k);
            }
#pragma unroll
            for (uint32_t k = 0; k < 4; k++)
#pragma unroll
                for (uint32_t e = 0; e < width; e++) {
                    uint32_t h, l;
                    tb_weigh_element(tb_element<dtype>(v[k], (int)e), maximum, scale, least_t, equal, least,
                                     &h, &l);
                    high += h - TB_HIGH_BIAS;
                    low += l - TB_LOW_BIAS;
                }
            all += tb_join(high, low);
        }
        upto = tb_warp_scan64(all);
        who = __ffs(__ballot_sync(TB_WHOLE_WARP, upto > position)) - 1;
        position -= __shfl_sync(TB_WHOLE_WARP, upto - all, who);
        /* the element: of that lane's, one each */
        const uint32_t from_vector = first + each * who, elements = each * width;
        for (uint32_t j = 0; j < elements; j += 32) {
            const uint32_t element = from_vector * width + j + lane - slice.shift; /* wraps before the row */
            float x = -LAW_INF;
            if (j + lane < elements && element < slice.length) x = tb_row_value<dtype>(slice, element);
            uint32_t high, low;
            tb_weigh_element(x, maximum, scale, least_t, equal, least, &high, &low);
            const uint64_t w = tb_join(high - TB_HIGH_BIAS, low - TB_LOW_BIAS);
            upto = tb_warp_scan64(w);
            if (upto > position && upto - w <= position) {
                const float t = equal ? 0.0f : law_exponent(x, maximum, scale);
                tb_fast_result result = {(int32_t)element, (int32_t)kept, 0, status, t, total};
                tb_fast_write(call, index, result);
                if (call.total_mass) call.total_mass[index] = total;
            }
            if (__shfl_sync(TB_WHOLE_WARP, upto, 31) > position) break;
            position -= __shfl_sync(TB_WHOLE_WARP, upto, 31);
        }
    }
};

template <int dtype, int C> TB_DEV void tb_flat_pipe(const tb_cuda_params &params)
{
    typedef tb_pipe_shared<C> S;
    constexpr uint32_t width = tb_fast_vector<dtype>::width, bytes = (sizeof(S) + 127) / 128 * 128;
    S &s = *(S *)tb_flat_bytes;
    const int warp = threadIdx.x >> 5;
    const uint32_t tid = threadIdx.x;
    if (tid < TB_PIPE_RING) {
        tb_mail_init(&s.placed[tid], 1);
        tb_mail_init(&s.known[tid], 1);
        tb_mail_init(&s.free[tid], TB_PIPE_WARPS + 1);
        tb_mail_init(&s.mail_maximum[tid], 1);
    }
    if (tid < TB_PIPE_WARPS * TB_PIPE_SLOTS) tb_mail_init(&s.filled[0][tid], 1);
    if (tid < S::DRAWN) tb_mail_init(&s.mail_mass[tid], 1);
    tb_mail_init_done();
    if (tid < S::DRAWN) tb_mail_expect(&s.mail_mass[tid], S::MASS_BYTES);
    __syncthreads();
    tb_cluster_arrive_relaxed<C>();
    tb_wait_for_inputs();
    /* a row need not begin at a vector */
    const uint32_t vectors = (uint32_t)(params.call.vocab_size + width - 1) / width + 1,
                   stride = ((vectors + S::WARPS - 1) / S::WARPS + 31) / 32 * 32;
    const uint32_t cluster = blockIdx.x / C, clusters = gridDim.x / C;
    const uint32_t slots =
        min((tb_dynamic_shared_bytes() - bytes) / (TB_PIPE_WARPS * stride * 16), (uint32_t)TB_PIPE_SLOTS);
    tb_pipe<dtype, C> pipe = {params,
                              s,
                              (uint4 *)(tb_flat_bytes + bytes) +
                                  (size_t)(warp % TB_PIPE_WARPS) * slots * stride,
                              stride,
                              slots,
                              (int)(blockIdx.x % C),
                              (int)(threadIdx.x & 31),
                              warp,
                              ((uint32_t)params.call.rows - cluster + clusters - 1) / clusters,
                              cluster,
                              clusters};
    if (warp < TB_PIPE_WARPS) {
        pipe.work();
    } else {
        if (warp == TB_PIPE_WARPS) pipe.prepare();
        tb_cluster_wait<C>();
        if (warp != TB_PIPE_WARPS) pipe.draw();
    }
    /* A block has waited for all messages to it, so none is on its way to one that has ended. */
}

#endif
