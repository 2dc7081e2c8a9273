/*
 * The flat kernel for few rows: each is the work of a cluster of C blocks, which have all of it in their
 * shared memory. No row follows another, so each step is all warps', which have a part of the row each: they
 * take the greatest value, which goes to all blocks; weigh, exactly; tell all blocks the masses; and the warp
 * in whose mass the draw falls finds the token.
 *
 * Rows of all kinds are served, as by the pipe (fast_flat_pipe.cuh).
 */
#ifndef TB_CUDA_FAST_FLAT_ONCE_CUH
#define TB_CUDA_FAST_FLAT_ONCE_CUH

#include "fast_flat_pipe.cuh"
#include "once_parts.cuh"

template <int C> struct tb_flat_once_shared {
    static constexpr int THREADS = TB_FLAT_ONCE_THREADS, WARPS = THREADS / 32;
    tb_once_maximum<C, WARPS> maximum;
    uint64_t mail_mass; /* mbarrier */
    tb_flat_mass warp_mass[WARPS], block_mass[C];
    tb_pipe_row row; /* its chain, and its random word */
};

template <int dtype, int C> TB_DEV void tb_run_flat_once(const tb_cuda_params &params)
{
    typedef tb_flat_once_shared<C> S;
    typedef tb_pipe<dtype, C> P;
    constexpr int THREADS = S::THREADS, WARPS = S::WARPS, width = tb_fast_vector<dtype>::width;
    S &s = *(S *)tb_flat_bytes;
    const tombola_call &call = params.call;
    const int64_t index = blockIdx.x / C;
    const int rank = (int)(blockIdx.x % C), warp = (int)tb_warp(), lane = (int)tb_lane();
    if (threadIdx.x == 0) {
        s.maximum.open();
        tb_mail_init(&s.mail_mass, 1);
        tb_mail_init_done();
        s.maximum.expect();
        tb_mail_expect(&s.mail_mass, C * 16);
    }
    __syncwarp();
    tb_cluster_arrive_relaxed<C>();
    tb_wait_for_inputs(params.part);

    /* ---- the row ---- */
    int64_t start, count;
    const bool located = tb_fast_locate(call, index, &start, &count);
    const tb_fast_slice slice =
        tb_make_slice<dtype>((const char *)call.data + (size_t)start * tb_fast_vector<dtype>::bytes,
                             located ? (uint32_t)count : 0, rank, C);
    const uint32_t span = (slice.end - slice.first + THREADS - 1) / THREADS;
    const tb_fast_slice part = tb_once_part<dtype>(slice, span);
    uint4 *const stage = (uint4 *)(tb_flat_bytes + (sizeof(S) + 127) / 128 * 128) + span * 32 * warp;
    tb_stage_span<dtype>(part, span, stage);
    if (warp == WARPS - 1) {
        const int64_t slot = tb_gpu_slot(call, index);
        tb_row_chain(params, located, slot, &s.row);
        if (lane == 0) {
            s.row.random = tb_fast_random(call, index, slot);
            if (rank == 0) tb_fast_advance(params, index, slot);
        }
    }
    tb_stage_wait(false);
    __syncwarp();
    const tb_once_span<dtype> mine(stage, span);
    uint32_t status;
    const float top = mine.greatest(&status);
    const uint2 told = s.maximum.agree(rank, top, status);
    const uint32_t greatest = told.x;
    status = told.y;
    if (greatest == TB_KEY_POS_INF) status |= TOMBOLA_ROW_POS_INF;
    const tb_pipe_kind kind = tb_pipe_kind_of(s.row, greatest);
    const float maximum = law_key_value(greatest), scale = s.row.scale, least_t = s.row.least_t;
    const bool writes = rank == 0 && warp == 0;
    if (kind == TB_PIPE_VOID) {
        if (writes && params.part == TB_CUDA_RAW_LOGPROBS) {
            tb_write_raw_logprobs<dtype>(call, index, slice, maximum, scale, 0);
        } else if (writes && lane == 0) {
            const tb_fast_result none = {
                -1, 0, 0, s.row.bad ? TOMBOLA_ROW_BAD_PARAM : status | TOMBOLA_ROW_EMPTY, 0.0f, 0};
            tb_fast_write(call, index, none);
            if (call.total_mass) call.total_mass[index] = 0;
        }
        return;
    }

    /* ---- the masses ---- */
    const bool usual = kind == TB_PIPE_USUAL && scale >= TB_LEAST_SCALE, equal = kind == TB_PIPE_EQUAL;
    const float factor = scale * -0x1p-6f, most = least_t * -0x1p-6f;
    uint64_t own = 0; /* the lane's mass */
    if (usual) {
        auto filtered = [&](float x) {
            const float u = tb_scaled_exponent(x, maximum, factor);
            return u <= most ? u : 1.0f;
        };
        /* of most rows a min_p keeps few tokens: most vectors have none */
        auto some = [&](const auto &v) {
            const float greatest = tb_tile_max<dtype, sizeof v / sizeof v[0]>(v);
            const bool kept = tb_scaled_exponent(greatest, maximum, factor) <= most;
            return (bool)__any_sync(TB_WHOLE_WARP, kept);
        };
        auto exponent = [&](float x) { return tb_scaled_exponent(x, maximum, factor); };
        auto every = [](const auto &) { return true; };
        if (params.slow_doubles)
            own = P::template sum_vectors<tb_digit_sum>(mine, span, filtered, some);
        else if (most == 1.0f)
            own = P::template sum_vectors<tb_double_sum>(mine, span, exponent, every);
        else
            own = P::template sum_vectors<tb_double_sum>(mine, span, filtered, some);
    }
    tb_flat_mass mass = {0, 0, 0xffffffffu}; /* the warp's */
    if (!usual || call.kept_count) {
        const uint4 seen = P::look_slowly({mine.at, span, 1, part.first + span * lane}, slice.shift, scale,
                                          least_t, kind, maximum);
        own += (uint64_t)seen.y << 32 | seen.x;
        mass.count = tb_warp_sum(seen.z);
        mass.lowest = tb_warp_min(seen.w);
    }
    mass.mass = tb_warp_sum54(own);
    if (lane == 0) s.warp_mass[warp] = mass;
    __syncthreads();
    const tb_flat_mass nothing = {0, 0, 0xffffffffu}, said = lane < WARPS ? s.warp_mass[lane] : nothing;
    if (warp == 0) {
        const uint64_t all = tb_warp_sum64(said.mass);
        const uint32_t kept = tb_warp_sum(said.count), lowest = tb_warp_min(said.lowest);
        if (lane < C)
            tb_mail_16(&s.block_mass[rank], lane,
                       make_uint4((uint32_t)all, (uint32_t)(all >> 32), kept, lowest), &s.mail_mass);
    }
    /* while that is under way: the mass of the block's warps before this one, of its lanes up to this one */
    const uint64_t up_to_lane = tb_warp_scan64(own),
                   before = __shfl_sync(TB_WHOLE_WARP, tb_warp_scan64(said.mass) - said.mass, warp);
    tb_mail_await(&s.mail_mass); /* and after that no message is on its way to the block, which may end */
    const tb_flat_mass of_block = lane < C ? s.block_mass[lane] : nothing;
    tb_fast_result result = {0, 1, 0, status, 0.0f, LAW_ONE};
    if (kind == TB_PIPE_GREEDY) {
        result.token = (int32_t)tb_warp_min(of_block.lowest);
        if (writes && lane == 0) {
            tb_fast_write(call, index, result);
            if (call.total_mass) call.total_mass[index] = LAW_ONE;
        }
        return;
    }
    const uint64_t up_to_block = tb_warp_scan64(of_block.mass);
    result.mass = __shfl_sync(TB_WHOLE_WARP, up_to_block, 31);
    if (params.part == TB_CUDA_RAW_LOGPROBS) {
        if (writes) tb_write_raw_logprobs<dtype>(call, index, slice, maximum, scale, result.mass);
        return;
    }

    /* ---- the draw: the warp, the lane, the element ---- */
    uint64_t position = law_draw_position(s.row.random, result.mass) -
                        __shfl_sync(TB_WHOLE_WARP, up_to_block - of_block.mass, rank) - before;
    if (position >= mass.mass) return; /* what lies before the warp's mass has wrapped around */
    if (call.kept_count) result.kept = (int32_t)tb_warp_sum(of_block.count);
    const int who = __ffs(__ballot_sync(TB_WHOLE_WARP, up_to_lane > position)) - 1;
    position -= __shfl_sync(TB_WHOLE_WARP, up_to_lane - own, who);
    const char *const its = (const char *)(stage + span * who);
    const uint32_t first = (part.first + span * who) * width - slice.shift, elements = span * width;
    const float least = maximum == LAW_INF ? LAW_INF : TB_LEAST;
#pragma unroll 1
    for (uint32_t i0 = 0; i0 < elements; i0 += 32) {
        const uint32_t i = i0 + lane;
        uint32_t bits = tb_minus_infinity<dtype>(), high, low;
        if (i < elements)
            bits = dtype == TOMBOLA_F32 ? ((const uint32_t *)its)[i] : ((const uint16_t *)its)[i];
        const float x = tb_element<dtype>(make_uint4(bits, 0, 0, 0), 0);
        tb_weigh_element(x, maximum, scale, least_t, equal, least, &high, &low);
        const uint64_t weight = tb_join(high - TB_HIGH_BIAS, low - TB_LOW_BIAS),
                       up_to = tb_warp_scan64(weight), all = __shfl_sync(TB_WHOLE_WARP, up_to, 31);
        if (position < up_to && position >= up_to - weight) {
            result.token = (int32_t)(first + i);
            if (!equal) result.t = law_exponent(x, maximum, scale);
            tb_fast_write(call, index, result);
            if (call.total_mass) call.total_mass[index] = result.mass;
        }
        if (position < all) return;
        position -= all;
    }
}

#endif
