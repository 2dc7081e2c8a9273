/*
 * The lists of the wide code (fast_wide.cuh): each block sends the tokens that its look has listed to all
 * blocks of the row. So each of them finds the boundary alone, and what is dropped of every piece.
 */
#ifndef TB_CUDA_FAST_WIDE_LIST_CUH
#define TB_CUDA_FAST_WIDE_LIST_CUH

#include "fast_wide_look.cuh"

template <int dtype, int C, int NT, int U, int CAP, size_t STAGE>
struct tb_wide_list : tb_wide_look<dtype, C, NT, U, CAP, STAGE> {
    typedef tb_wide_look<dtype, C, NT, U, CAP, STAGE> W;
    typedef typename W::shared shared;
    static constexpr int WARPS = W::WARPS;

    /* A token's place among those that the ties tell apart. */
    static TB_MEMBER uint64_t place(uint32_t key, uint32_t index, bool by_index)
    {
        return tb_place(key, by_index ? index : TB_LAST_INDEX);
    }

    /* This block's list to all blocks, two tokens a message; a barrier must have come after the look. */
    static TB_MEMBER void send_list()
    {
        shared &s = W::all();
        const int lane = (int)tb_lane(), warp = (int)tb_warp();
        if (C == 1) {
            if (threadIdx.x == 0) s.listed[0] = s.pushed;
            return;
        }
        const uint32_t n = s.pushed, messages = n > s.limit ? 0 : (n + 1) / 2;
        if (warp == 0 && lane < C) {
            tb_mail_expect_at(&s.mail_list, lane, (lane == W::block() ? 0 : messages * 16) + 4);
            tb_mail_4(&s.listed[W::block()], lane, n, &s.mail_list);
        }
        constexpr int PARTS = WARPS > C ? WARPS / C : 1; /* warps for a block that gets it */
#pragma unroll 1
        for (int to = warp; to < C * PARTS; to += WARPS) {
            if (to % C == W::block()) continue;
#pragma unroll 1
            for (uint32_t i = (uint32_t)(to / C * 32 + lane); i < messages; i += PARTS * 32)
                tb_mail_16(&s.list[W::block()][i * 2], to % C, *(const uint4 *)&s.list[W::block()][i * 2],
                           &s.mail_list);
        }
    }

    /* All blocks' lists; false if one had no room. */
    static TB_MEMBER bool receive_list(uint32_t turn)
    {
        shared &s = W::all();
        if (C == 1)
            W::barrier();
        else
            tb_mail_await(&s.mail_list, turn & 1);
        bool good = true;
#pragma unroll
        for (int i = 0; i < C; i++) good &= s.listed[i] <= s.limit;
        return good;
    }

    /* f(value, index, piece of the row) for each listed token, by all threads. Each has a part of a block's
     * list: its neighbours, which hold tokens of one piece, are of one thread. */
    template <class F> static TB_MEMBER void each_listed(const F &f)
    {
        const shared &s = W::all();
        constexpr uint32_t THREADS = NT / C; /* for a block's list */
        const int from = (int)(threadIdx.x / THREADS);
        const uint32_t n = s.listed[from], share = (n + THREADS - 1) / THREADS | 1; /* odd: other banks */
        const uint32_t first = threadIdx.x % THREADS * share, end = min(n, first + share);
        constexpr uint32_t AT_ONCE = W::COUNTED ? 1 : 4;
#pragma unroll 1
        for (uint32_t i = first; i < end; i += AT_ONCE) {
            uint2 a[AT_ONCE];
#pragma unroll
            for (uint32_t j = 0; j < AT_ONCE; j++) a[j] = s.list[from][min(i + j, end - 1)];
#pragma unroll
            for (uint32_t j = 0; j < AT_ONCE; j++)
                if (i + j < end)
                    f(law_float(a[j].x), a[j].y & TB_LAST_INDEX,
                      W::number_of(from, (int)(a[j].y >> LAW_INDEX_BITS)));
        }
    }

    /* Exact histogram of the listed tokens in [low, high], places: bins of 2^shift places from `high` down.
     * Of thread i's bin the count and the mass, and, by scan(), what the bins above it hold, and all. */
    static __device__ __noinline__ uint4 sum_list(uint64_t low, uint64_t high, int shift, bool by_index)
    {
        shared &s = W::all();
        const float maximum = s.maximum, scale = s.scale;
        each_listed([&](float x, uint32_t index, int) {
            const uint64_t at = place(law_key(x), index, by_index);
            if (at < low || at > high) return;
            uint32_t h, l, bin = (uint32_t)((high - at) >> shift);
            W::weigh(x, maximum, scale, &h, &l);
            atomicAdd(&s.bin[0][bin], 1u);
            atomicAdd(&s.bin[1][bin], h);
            atomicAdd(&s.bin[2][bin], l);
        });
        W::barrier();
        if (threadIdx.x >= TB_WIDE_BINS) return make_uint4(0, 0, 0, 0);
        uint32_t *const bin = &s.bin[0][threadIdx.x];
        const uint64_t mass = tb_join(bin[TB_WIDE_BINS], bin[2 * TB_WIDE_BINS]);
        const uint32_t count = bin[0];
        bin[0] = bin[TB_WIDE_BINS] = bin[2 * TB_WIDE_BINS] = 0;
        return make_uint4(count, (uint32_t)mass, (uint32_t)(mass >> 32), 0);
    }

    /* Of an exact histogram, bin by thread, with what lies above each bin: the bin below whose end nothing is
     * kept, by every thread. There must be one. */
    static TB_MEMBER tb_wide_found find_in_list(uint4 bin, uint32_t above, uint64_t mass_above, uint32_t k,
                                                uint64_t target)
    {
        shared &s = W::all();
        uint64_t own = (uint64_t)bin.z << 32 | bin.y;
        if (threadIdx.x < TB_WIDE_BINS && above < k && mass_above < target &&
            (above + bin.x >= k || mass_above + own >= target)) {
            tb_wide_found found = {bin.x, above, mass_above, 0.0f, 0.0f, (int)threadIdx.x};
            s.found = found;
        }
        if (threadIdx.x == 0) s.pushed = 0; /* for last_kept() */
        W::barrier();
        return s.found;
    }

    /* Of at most 32 listed tokens in [low, high], places, with what lies above them: the place of the last
     * one that is kept. There must be one. Each warp compares all pairs. */
    static __device__ __noinline__ uint64_t last_kept(uint64_t low, uint64_t high, uint32_t above,
                                                      uint64_t mass_above, uint32_t k, uint64_t target,
                                                      bool by_index)
    {
        shared &s = W::all();
        const float maximum = s.maximum, scale = s.scale;
        each_listed([&](float x, uint32_t index, int) {
            const uint64_t at = place(law_key(x), index, by_index);
            if (at < low || at > high) return;
            uint32_t h, l;
            W::weigh(x, maximum, scale, &h, &l);
            const uint64_t mass = tb_join(h, l);
            s.all[tb_shared_add(&s.pushed, 1)] =
                make_uint4((uint32_t)at, (uint32_t)(at >> 32), (uint32_t)mass, (uint32_t)(mass >> 32));
        });
        W::barrier();
        const uint32_t n = s.pushed, lane = tb_lane();
        const uint64_t mine = (uint64_t)s.all[lane].y << 32 | s.all[lane].x;
#pragma unroll 4
        for (uint32_t i = 0; i < n; i++) {
            const uint4 a = s.all[i];
            const bool greater = ((uint64_t)a.y << 32 | a.x) > mine;
            above += greater;
            mass_above += greater ? (uint64_t)a.w << 32 | a.z : 0;
        }
        const bool kept = lane < n && above < k && mass_above < target;
        const uint32_t top = tb_warp_min(kept ? (uint32_t)(mine >> 32) : ~0u),
                       rest = tb_warp_min(kept && (uint32_t)(mine >> 32) == top ? (uint32_t)mine : ~0u);
        return (uint64_t)top << 32 | rest;
    }
};

#endif
