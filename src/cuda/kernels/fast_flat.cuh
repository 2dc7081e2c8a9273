/*
 * The flat kernel: rows that keep many tokens: no filter, or a min_p. Every element gets its exact weight,
 * which needs the row's maximum first, so the row is looked at twice: from memory, and then from shared
 * memory as far as that reaches and from L2 beyond.
 *
 * A cluster of C blocks serves a row. Each warp has one contiguous chunk of it. First look: the maximum,
 * exchanged through the cluster. Second look: the exact mass of each chunk, exchanged too. The chunk in which
 * the draw falls is then summed in pieces by the block that has it, and the piece searched by one warp.
 */
#ifndef TB_CUDA_FAST_FLAT_CUH
#define TB_CUDA_FAST_FLAT_CUH

#include "fast_raw.cuh"

#define TB_MAX_PIECES 1024 /* of 32 vectors, of one warp's chunk */

typedef struct __align__(16) tb_flat_warp
{
    uint32_t key, status;
    uint64_t unused;
}
tb_flat_warp;

typedef struct __align__(16) tb_flat_mass
{
    uint64_t mass;
    uint32_t count, lowest; /* kept tokens; greedy: lowest index of the maximum */
}
tb_flat_mass;

template <int C, int NT> struct tb_flat_shared {
    static constexpr int WARPS = NT / 32;
    tb_flat_warp warp[WARPS], block_word[C]; /* what each warp, and each block of the row says */
    tb_flat_mass sum[WARPS], block_sum[C];
    uint64_t mail_maximum, mail_mass; /* mbarriers */
    tb_fast_chain chain;
    uint64_t random;
    float least_t;
    uint64_t piece[TB_MAX_PIECES];
};

extern __shared__ __align__(128) unsigned char tb_flat_bytes[];

TB_DEV uint32_t tb_dynamic_shared_bytes(void)
{
    uint32_t bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return bytes;
}

/* The least t whose weight is at least w, by one warp: a search with 32 probes a round over the bits of -t,
 * in whose order weights fall. It begins near log2(w) - 40, if that proves right. */
TB_DEV float tb_least_exponent(uint64_t w)
{
    uint32_t good = 0, bad = 0x42800001u; /* 0 and just above 64 */
    float about = __log2f((float)w) - 40.0f, above = fminf(about + 0x1p-17f, 0.0f), below = about - 0x1p-17f;
    if (law_weight(above) >= w && law_weight(below) < w)
        good = law_bits(fabsf(above)), bad = law_bits(-below);
    while (bad - good > 1) {
        uint32_t step = (bad - good + 32) / 33, probe = good + step * (tb_lane() + 1);
        bool enough = probe < bad && law_weight(-law_float(probe)) >= w;
        uint32_t passed = __popc(__ballot_sync(TB_WHOLE_WARP, enough));
        good += step * passed;
        bad = min(bad, good + step);
    }
    return -law_float(good);
}

/* The weight of a kept element, 0 for others, with biases. Where all tokens weigh the same they are those
 * from `least` up, which is +inf or TB_LEAST. NaN weighs 0. */
TB_DEV void tb_weigh_element(float x, float maximum, float scale, float least_t, bool equal, float least,
                             uint32_t *high, uint32_t *low)
{
    float t = equal ? (x >= least ? 0.0f : -64.0f) : law_exponent(x, maximum, scale);
    tb_weigh(equal || t >= least_t ? t : -64.0f, high, low);
}

/* Vector `vector` of the row, wherever it lies. */
template <int dtype> TB_DEV uint4 tb_load_any(const tb_fast_slice &s, uint32_t vector)
{
    const char *at = s.base + (size_t)vector * 16;
    if (vector >= s.whole_first && vector < s.whole_end) return tb_load16(at);
    return tb_load_edge<dtype>(at, vector * tb_fast_vector<dtype>::width - s.shift, s.length);
}

/* By a warp: the weights of a vector a lane, as digits without their biases; the lane's mass. */
template <int dtype, int width>
TB_DEV uint64_t tb_weigh_vector(const uint4 &v, float maximum, float scale, float least_t, bool equal,
                                float least, uint32_t (&high)[width], uint32_t (&low)[width])
{
    uint32_t h = 0, l = 0;
#pragma unroll
    for (int e = 0; e < width; e++) {
        tb_weigh_element(tb_element<dtype>(v, e), maximum, scale, least_t, equal, least, &high[e], &low[e]);
        h += high[e] -= TB_HIGH_BIAS;
        l += low[e] -= TB_LOW_BIAS;
    }
    return tb_join(h, l);
}

/* By a warp whose lanes' masses are `own`: the element at a position of the mass of all, and its value; -1 in
 * all lanes but its own. */
template <int dtype, int width>
TB_DEV int tb_element_at(uint64_t position, const uint4 &v, uint64_t own, const uint32_t (&high)[width],
                         const uint32_t (&low)[width], float *value)
{
    uint64_t from = tb_warp_scan64(own) - own;
    if (from > position || position - from >= own) return -1;
    int at = 0;
    *value = tb_element<dtype>(v, 0);
#pragma unroll
    for (int e = 1; e < width; e++) {
        from += tb_join(high[e - 1], low[e - 1]); /* up to element e */
        if (from <= position) at = e, *value = tb_element<dtype>(v, e);
    }
    return at;
}

/* The block's word to every block of the row, by its first warp; then all wait until all have come. */
template <int C> TB_DEV void tb_exchange(void *all, uint4 word, uint64_t *box, uint32_t parity)
{
    if (tb_warp() == 0) {
        if (tb_lane() < C) tb_mail_16((uint4 *)all + blockIdx.x % C, (int)tb_lane(), word, box);
        if (tb_lane() == 0) tb_mail_expect(box, C * 16);
    }
    tb_mail_wait(box, parity);
}

/* A look of another kind at a warp's chunk: counts the kept tokens, those from `least` up where all weigh the
 * same, and finds the first of the maximum. */
template <int dtype>
static __device__ __noinline__ void tb_flat_look(const tb_fast_slice &slice, uint32_t first, uint32_t end,
                                                 float maximum, float scale, float least_t, bool equal,
                                                 float least, uint32_t *kept, uint32_t *lowest)
{
    constexpr int width = tb_fast_vector<dtype>::width;
    uint32_t n = 0, low = 0xffffffffu;
#pragma unroll 1
    for (uint32_t vector = first + tb_lane(); vector < end; vector += 32) {
        uint4 v = tb_load_any<dtype>(slice, vector);
#pragma unroll
        for (int e = 0; e < width; e++) {
            float x = tb_element<dtype>(v, e);
            n += x >= least && (equal || least_t == -64.0f || law_exponent(x, maximum, scale) >= least_t);
            if (x == maximum) low = min(low, vector * width + e - slice.shift);
        }
    }
    *kept = n;
    *lowest = low;
}

template <bool x> struct tb_flag {
    static constexpr bool value = x;
};

/* The `turn`-th row of a cluster; `sums` of those before it got as far as the second look. */
template <int dtype, int C, int NT, int U>
TB_DEV void tb_flat_row(const tb_cuda_params &params, int64_t row, uint32_t turn, uint32_t &sums)
{
    typedef tb_flat_shared<C, NT> S;
    constexpr int WARPS = S::WARPS, width = tb_fast_vector<dtype>::width;
    constexpr uint32_t none = tb_minus_infinity<dtype>();
    S &s = *(S *)tb_flat_bytes;
    uint4 *keep = (uint4 *)(tb_flat_bytes + (sizeof(S) + 127) / 128 * 128);
    const int keep_loads =
        (int)((tb_dynamic_shared_bytes() - (sizeof(S) + 127) / 128 * 128) / (NT * 16)) / U * U;
    const tombola_call &call = params.call;
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, rank = blockIdx.x % C;

    int64_t start, count;
    const bool located = tb_gpu_locate(call, row, &start, &count);
    const int64_t slot = tb_gpu_slot(call, row);
    const tb_fast_slice slice =
        tb_make_slice<dtype>((const char *)call.data + (size_t)start * tb_fast_vector<dtype>::bytes,
                             located ? (uint32_t)count : 0, rank, C);
    if (rank == 0 && tid == 32) tb_fast_advance(params, row, slot);
    /* this warp's chunk */
    const uint32_t share = (slice.end - slice.first + WARPS - 1) / WARPS;
    const uint32_t first = min(slice.end, slice.first + share * warp), end = min(slice.end, first + share);
    const int loads = (int)((end - first + 31) / 32);
    const int inner_loads =
        first >= slice.whole_first && end <= slice.whole_end ? (int)((end - first) / 32) : 0;
    const char *at = slice.base + (size_t)(first + lane) * 16;
    auto load = [&](int j) {
        uint32_t vector = first + j * 32 + lane;
        if (vector >= end) return make_uint4(none, none, none, none);
        return tb_load_any<dtype>(slice, vector);
    };
    auto load_block = [&](int j0, auto &v) {
        constexpr int N = sizeof v / sizeof v[0];
        if (j0 + N <= inner_loads) {
#pragma unroll
            for (int j = 0; j < N; j++)
                v[j] = C == 1 ? tb_load_stream(at + (size_t)(j0 + j) * 512)
                              : tb_load16(at + (size_t)(j0 + j) * 512);
        } else {
#pragma unroll
            for (int j = 0; j < N; j++)
                v[j] = j0 + j < loads ? load(j0 + j) : make_uint4(none, none, none, none);
        }
    };
    /* ---- first look ---- */
    float top = -LAW_INF;
    bool nan = false;
    bool parsed = false; /* by the last warp, while its loads fly */
#pragma unroll 1
    for (int j0 = 0; j0 < loads || !parsed; j0 += U) {
        uint4 v[U];
        load_block(j0, v);
        if (!parsed && warp == WARPS - 1) {
            tb_fast_parse(params, row, located, slot, &s.chain);
            if (lane == 0) s.random = tb_fast_random(call, row, slot);
            __syncwarp();
            uint64_t w = s.chain.w_before > s.chain.w_after ? s.chain.w_before : s.chain.w_after;
            float least = w && !s.chain.bad ? tb_least_exponent(w) : -64.0f;
            if (lane == 0) s.least_t = least;
        }
        parsed = true;
        if (j0 < keep_loads)
#pragma unroll
            for (int j = 0; j < U; j++) keep[(j0 + j) * NT + tid] = v[j];
        float m = tb_tile_max<dtype, U>(v);
        if (law_isnan(m)) {
            nan = true;
            tb_drop_nan<dtype, U>(v);
            m = tb_tile_max<dtype, U>(v);
        }
        top = fmaxf(top, m);
    }
    {
        uint32_t key = tb_warp_max(law_key(top));
        uint32_t status = __any_sync(TB_WHOLE_WARP, nan) ? TOMBOLA_ROW_NAN : 0u;
        if (lane == 0) s.warp[warp] = {key, status, 0};
        if (turn == 0) tb_cluster_wait<C>(); /* all blocks run */
    }
    __syncthreads();
    uint32_t greatest = s.warp[lane % WARPS].key, status = s.warp[lane % WARPS].status;
    if (C > 1) {
        if (warp == 0) greatest = tb_warp_max(greatest), status = tb_warp_or(status);
        tb_exchange<C>(s.block_word, make_uint4(greatest, status, 0u, 0u), &s.mail_maximum, turn & 1);
        greatest = s.block_word[lane % C].key;
        status = s.block_word[lane % C].status;
    }
    greatest = tb_warp_max(greatest);
    status = tb_warp_or(status);
    const bool bad = s.chain.bad, greedy = s.chain.greedy;
    if (bad || greatest < TB_KEY_LEAST_LOGIT) {
        if (params.part == TB_CUDA_RAW_LOGPROBS) {
            if (rank == 0 && warp == 0) tb_write_raw_logprobs<dtype>(call, row, slice, 0.0f, 1.0f, 0);
            return;
        }
        if (rank == 0)
            tb_fast_write_void(call, row, bad ? TOMBOLA_ROW_BAD_PARAM : status | TOMBOLA_ROW_EMPTY, NT);
        if (rank == 0 && tid == 0 && call.total_mass) call.total_mass[row] = 0;
        return;
    }
    const bool infinite = greatest == TB_KEY_POS_INF, equal = !greedy && (s.chain.flat || infinite);
    const float least = infinite ? LAW_INF : TB_LEAST;
    if (infinite) status |= TOMBOLA_ROW_POS_INF;

    /* ---- second look ---- */
    const float maximum = law_key_value(greatest), c = s.chain.scale, least_t = s.least_t;
    uint32_t kept = 0, lowest = 0xffffffffu;
    const float factor = c * -0x1p-6f;
    auto weigh_chunk = [&](auto filtered, auto sum) {
        sum.clear();
        /* u of the element's t = -64 * u; 1, which weighs 0, where it is not kept, NaN or -inf */
        auto exponent = [&](float x) {
            if (!decltype(filtered)::value) return tb_scaled_exponent(x, maximum, factor);
            const float t = law_exponent(x, maximum, c);
            return t >= least_t ? t * -0x1p-6f : 1.0f;
        };
#pragma unroll 1
        for (int j0 = 0; j0 < loads; j0 += U) {
            uint4 v[U];
            if (j0 < keep_loads) {
#pragma unroll
                for (int j = 0; j < U; j++) v[j] = keep[(j0 + j) * NT + tid];
            } else {
                load_block(j0, v);
            }
#pragma unroll
            for (int j = 0; j < U; j++)
#pragma unroll
                for (int e = 0; e < width; e += 2)
                    tb_add_weights(sum, exponent(tb_element<dtype>(v[j], e)),
                                   exponent(tb_element<dtype>(v[j], e + 1)));
        }
        return sum.total();
    };
    if (greedy || equal || call.kept_count)
        tb_flat_look<dtype>(slice, first, end, maximum, c, least_t, equal, least, &kept, &lowest);
    uint64_t mass = 0;
    if (equal || greedy) {
        mass = (uint64_t)kept << 40;
    } else if (params.slow_doubles) {
        mass = weigh_chunk(tb_flag<true>(), tb_digit_sum());
    } else if (least_t == -64.0f && c >= TB_LEAST_SCALE && !(status & TOMBOLA_ROW_NAN)) {
        mass = weigh_chunk(tb_flag<false>(), tb_double_sum());
    } else {
        mass = weigh_chunk(tb_flag<true>(), tb_double_sum());
    }
    {
        tb_flat_mass mine = {tb_warp_sum64(mass), tb_warp_sum(kept), tb_warp_min(lowest)};
        if (lane == 0) s.sum[warp] = mine;
    }
    __syncthreads();
    if (C > 1) {
        tb_flat_mass said = s.sum[lane % WARPS];
        if (warp == 0) {
            bool mine = lane < WARPS;
            said.mass = tb_warp_sum64(mine ? said.mass : 0);
            said.count = tb_warp_sum(mine ? said.count : 0);
            said.lowest = tb_warp_min(said.lowest);
        }
        tb_exchange<C>(s.block_sum,
                       make_uint4((uint32_t)said.mass, (uint32_t)(said.mass >> 32), said.count, said.lowest),
                       &s.mail_mass, sums++ & 1);
    }

    /* ---- the draw ---- */
    tb_fast_result result = {0, 1, 0, status, 0.0f, LAW_ONE};
    const tb_flat_mass none_said = {0, 0, 0xffffffffu};
    tb_flat_mass part = lane < (C > 1 ? C : WARPS) ? (C > 1 ? s.block_sum[lane] : s.sum[lane]) : none_said;
    if (greedy) {
        result.token = (int32_t)tb_warp_min(part.lowest);
        if (rank == 0 && tid == 0) {
            tb_fast_write(call, row, result);
            if (call.total_mass) call.total_mass[row] = LAW_ONE;
        }
        return;
    }
    const uint32_t found = tb_warp_sum(part.count);
    uint64_t upto = tb_warp_scan64(part.mass);
    const uint64_t total = __shfl_sync(TB_WHOLE_WARP, upto, 31);
    if (params.part == TB_CUDA_RAW_LOGPROBS) {
        if (rank == 0 && warp == 0) tb_write_raw_logprobs<dtype>(call, row, slice, maximum, c, total);
        return;
    }
    uint64_t position = law_draw_position(s.random, total);
    /* the block, and in it the warp, whose mass in order reaches beyond the position */
    int who = __ffs(__ballot_sync(TB_WHOLE_WARP, upto > position)) - 1;
    if (C > 1) {
        if (who != rank) return;
        position -= __shfl_sync(TB_WHOLE_WARP, upto - part.mass, who);
        part.mass = lane < WARPS ? s.sum[lane].mass : 0;
        upto = tb_warp_scan64(part.mass);
        who = __ffs(__ballot_sync(TB_WHOLE_WARP, upto > position)) - 1;
    }
    position -= __shfl_sync(TB_WHOLE_WARP, upto - part.mass, who);
    const uint32_t chunk = min(slice.end, slice.first + share * who),
                   chunk_end = min(slice.end, chunk + share);
    const int pieces = (int)((chunk_end - chunk + 31) / 32);
    auto piece_vector = [&](int j) {
        if (j < keep_loads) return keep[j * NT + who * 32 + lane];
        uint32_t vector = chunk + j * 32 + lane;
        return vector < chunk_end ? tb_load_any<dtype>(slice, vector) : make_uint4(none, none, none, none);
    };
    uint32_t h[width], l[width];
    for (int j = warp; j < pieces; j += WARPS) {
        const uint64_t mass =
            tb_warp_sum64(tb_weigh_vector<dtype>(piece_vector(j), maximum, c, least_t, equal, least, h, l));
        if (lane == 0) s.piece[j] = mass;
    }
    __syncthreads();
    if (warp) return;
    for (int j0 = 0; j0 < pieces; j0 += 32) {
        uint64_t mine = j0 + lane < pieces ? s.piece[j0 + lane] : 0, upto = tb_warp_scan64(mine);
        uint32_t beyond = __ballot_sync(TB_WHOLE_WARP, upto > position);
        if (!beyond) {
            position -= __shfl_sync(TB_WHOLE_WARP, upto, 31);
            continue;
        }
        int j = __ffs(beyond) - 1;
        position -= __shfl_sync(TB_WHOLE_WARP, upto - mine, j);
        j += j0;
        const uint4 v = piece_vector(j);
        const uint64_t own = tb_weigh_vector<dtype>(v, maximum, c, least_t, equal, least, h, l);
        float x;
        const int e = tb_element_at<dtype>(position, v, own, h, l, &x);
        if (e < 0) return;
        result.token = (int32_t)((chunk + j * 32 + lane) * width + e - slice.shift);
        result.kept = (int32_t)found;
        if (!equal) result.t = law_exponent(x, maximum, c);
        result.mass = total;
        tb_fast_write(call, row, result);
        if (call.total_mass) call.total_mass[row] = total;
        return;
    }
}

/* All rows of the call. */
template <int dtype, int C, int NT, int U> TB_DEV void tb_flat_rows(const tb_cuda_params &params)
{
    typedef tb_flat_shared<C, NT> S;
    S &s = *(S *)tb_flat_bytes;
    if (C > 1) {
        if (threadIdx.x == 0) {
            tb_mail_init(&s.mail_maximum, 1);
            tb_mail_init(&s.mail_mass, 1);
            tb_mail_init_done();
        }
        __syncwarp();
        tb_cluster_arrive_relaxed<C>();
    }
    tb_wait_for_inputs(params.part);
    uint32_t turn = 0, sums = 0;
    for (int64_t row = blockIdx.x / C; row < params.call.rows; row += gridDim.x / C) {
        if (turn) tb_row_barrier<C>(); /* shared memory serves another row */
        tb_flat_row<dtype, C, NT, U>(params, row, turn, sums);
        turn++;
    }
    if (!turn) tb_cluster_wait<C>();
}

#endif
