/*
 * What the kernels have in common that serve each row once, by a cluster of C blocks that keep all of it
 * (fast_flat_once.cuh, whole_once.cuh): they agree on its greatest value, and, where the row is in shared
 * memory, each lane has a span of it.
 */
#ifndef TB_CUDA_ONCE_PARTS_CUH
#define TB_CUDA_ONCE_PARTS_CUH

#include "fast_parts.cuh"

/* The greatest value of a row: what each warp and each block says of it. */
template <int C, int WARPS> struct tb_once_maximum {
    uint64_t mail;               /* mbarrier */
    uint2 warp[WARPS], block[C]; /* key, status */

    /* By the thread that sets up the block's mbarriers, before it says that they are. */
    TB_MEMBER void open()
    {
        tb_mail_init(&mail, 1);
    }
    TB_MEMBER void expect()
    {
        tb_mail_expect(&mail, C * 8);
    }

    /* Of what the lanes say the row's, by all threads. From then on all blocks run, and what the block's
     * warps wrote before can be read. */
    TB_MEMBER uint2 agree(int rank, float top, uint32_t status)
    {
        const int lane = (int)tb_lane();
        const uint32_t key = tb_warp_max(law_key(top));
        status = __any_sync(TB_WHOLE_WARP, status) ? TOMBOLA_ROW_NAN : 0u;
        if (lane == 0) warp[tb_warp()] = make_uint2(key, status);
        __syncwarp();
        tb_cluster_wait<C>();
        __syncthreads();
        if (tb_warp() == 0) {
            const uint2 said = warp[lane % WARPS];
            const uint32_t most = tb_warp_max(said.x), any = tb_warp_or(said.y);
            if (lane < C) tb_mail_8(&block[rank], lane, most, any, &mail);
        }
        tb_mail_await(&mail);
        const uint2 said = block[lane % C];
        return make_uint2(tb_warp_max(said.x), tb_warp_or(said.y));
    }
};

/* A lane's part of the row: `count` vectors that follow each other in it. It takes them in an order in which
 * eight lanes at a time read all banks: where the count is a multiple of a power of two, lanes that are an
 * eighth of that apart would meet. */
template <int dtype> struct tb_once_span {
    static constexpr int width = tb_fast_vector<dtype>::width,
                         U = dtype == TOMBOLA_F32 ? 4 : 2; /* vectors at a time */
    uint4 *at;
    uint32_t count, turn;

    TB_MEMBER tb_once_span(uint4 *of_warp, uint32_t count) : at(of_warp + count * tb_lane()), count(count)
    {
        const int even = min(3, __ffs((int)count) - 1); /* the power; -1 of none */
        turn = even > 0 ? tb_lane() >> (3 - even) & ((1u << even) - 1) : 0;
    }
    TB_MEMBER uint4 &operator()(uint32_t j) const
    {
        return at[j ^ turn];
    }

    /* visit(vectors), U at a time and then one by one. */
    template <class Visit> TB_MEMBER void each(const Visit &visit) const
    {
        uint32_t j = 0;
#pragma unroll 1
        for (; j + U <= count; j += U) {
            uint4 v[U];
#pragma unroll
            for (int k = 0; k < U; k++) v[k] = (*this)(j + k);
            visit(v);
        }
#pragma unroll 1
        for (; j < count; j++) {
            const uint4 v[1] = {(*this)(j)};
            visit(v);
        }
    }
    /* The greatest value. NaN becomes -inf; *status says whether the warp had any. */
    TB_MEMBER float greatest(uint32_t *status) const
    {
        float top = greatest_or_nan();
        *status = 0;
        if (__any_sync(TB_WHOLE_WARP, law_isnan(top))) {
            *status = TOMBOLA_ROW_NAN;
            drop_nan();
            top = greatest_or_nan();
        }
        return top;
    }

  private:
    TB_MEMBER float greatest_or_nan() const
    {
        float top = -LAW_INF;
        each([&](const auto &v) { top = tb_max_nan(top, tb_tile_max<dtype, sizeof v / sizeof v[0]>(v)); });
        return top;
    }
    TB_MEMBER void drop_nan() const
    {
#pragma unroll 1
        for (uint32_t j = 0; j < count; j++) {
            uint4 v[1] = {at[j]};
            tb_drop_nan<dtype, 1>(v);
            at[j] = v[0];
        }
    }
};

/* A warp's part of the row, `span` vectors for each lane, on its way to shared memory. */
template <int dtype> TB_DEV void tb_stage_span(const tb_fast_slice &part, uint32_t span, uint4 *to)
{
    constexpr int U = tb_once_span<dtype>::U;
    const uint32_t before = tb_warp() * 32, start = part.first - before; /* tb_stage_tile adds threadIdx.x */
    to -= before;
    uint32_t j = 0;
#pragma unroll 1
    for (; j + U <= span; j += U) tb_stage_tile<dtype, 32, 32, U>(part, start + j * 32, to + j * 32);
#pragma unroll 1
    for (; j < span; j++) tb_stage_tile<dtype, 32, 32, 1>(part, start + j * 32, to + j * 32);
}

/* The part of the row that this warp of block `rank` has, of `span` vectors a lane. */
template <int dtype> TB_DEV tb_fast_slice tb_once_part(const tb_fast_slice &slice, uint32_t span)
{
    tb_fast_slice part = slice;
    part.first = min(slice.end, slice.first + span * 32 * tb_warp());
    part.end = min(slice.end, part.first + span * 32);
    return part;
}

#endif
