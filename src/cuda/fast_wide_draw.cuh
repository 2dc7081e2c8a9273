/*
 * The wide code (fast_wide.cuh) once a row's kept set is known: the draw, ranks, ids.
 */
#ifndef TB_CUDA_FAST_WIDE_DRAW_CUH
#define TB_CUDA_FAST_WIDE_DRAW_CUH

#include "fast_wide_search.cuh"

template <int dtype, int C, int NT, int U, int CAP>
struct tb_wide_draw : tb_wide_search<dtype, C, NT, U, CAP> {
    typedef tb_wide_search<dtype, C, NT, U, CAP> W;
    typedef typename W::shared shared;
    typedef typename W::chunk chunk;
    static constexpr int WARPS = W::WARPS, ROW_WARPS = W::ROW_WARPS, width = W::width;
    static constexpr int EACH = (ROW_WARPS + 31) / 32; /* words of a lane */

    /* Is a token of K0 kept? */
    static TB_MEMBER bool keeps(float floor_x, uint32_t floor_last, float x, uint32_t index)
    {
        return x > floor_x || (x == floor_x && index <= floor_last);
    }

    /* The warp in whose chunk the draw falls, and the position there; by the first warp. The words are {
     * mass, count } of every warp's chunk. */
    static TB_MEMBER void locate(const uint4 (*word)[2], uint64_t total)
    {
        shared &s = W::all();
        const int lane = (int)tb_lane();
        uint64_t mass[EACH], part = 0, position = law_draw_position(s.random, total);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int at = lane * EACH + i;
            mass[i] = at < ROW_WARPS ? (uint64_t)word[at][0].y << 32 | word[at][0].x : 0;
            part += mass[i];
        }
        uint64_t before = tb_warp_scan64(part) - part;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (before <= position && position - before < mass[i]) {
                s.owner = lane * EACH + i;
                s.position = position - before;
            }
            before += mass[i];
        }
    }

    /* The mass of a vector's kept tokens; `first` is the index of its first one. */
    static __device__ __noinline__ uint64_t kept_mass(uint4 v, uint32_t first, float floor_x,
                                                      uint32_t floor_last)
    {
        const shared &s = W::all();
        const float maximum = s.maximum, scale = s.scale;
        uint32_t h = 0, l = 0;
#pragma unroll
        for (int e = 0; e < width; e++) {
            float x = tb_element<dtype>(v, e);
            uint32_t a, b;
            W::weigh(x, maximum, scale, &a, &b);
            if (keeps(floor_x, floor_last, x, first + (uint32_t)e)) h += a, l += b;
        }
        return tb_join(h, l);
    }

    /* The drawn token, where this block has it. */
    static __device__ __noinline__ tb_wide_drawn draw(uint64_t floor)
    {
        shared &s = W::all();
        const int lane = (int)tb_lane(), warp = (int)tb_warp(), who = s.owner % WARPS;
        const float floor_x = law_key_value(tb_place_key(floor));
        const uint32_t floor_last = tb_place_index(floor);
        tb_wide_drawn drawn = {false, 0, 0.0f};
        uint64_t position = s.position;
        if (s.owner / WARPS != W::block()) return drawn;
        const chunk c = W::chunk_of(s.slice, who);
        auto first_of = [&](int j) {
            return (c.first + (uint32_t)j * 32 + (uint32_t)lane) * width - s.slice.shift;
        };
        uint64_t *piece = (uint64_t *)s.all; /* the histograms are done with */
        const int piece_loads = (c.loads + TB_WIDE_PIECES - 1) / TB_WIDE_PIECES,
                  pieces = (c.loads + piece_loads - 1) / piece_loads;
        constexpr int N = 4; /* loads in flight */
#pragma unroll 1
        for (int i = warp; i < pieces; i += N * WARPS) {
            uint64_t mass[N] = {};
#pragma unroll 1
            for (int t = 0; t < piece_loads; t++) {
                constexpr uint32_t none = tb_minus_infinity<dtype>();
                uint4 v[N];
#pragma unroll
                for (int n = 0; n < N; n++) {
                    int j = (i + n * WARPS) * piece_loads + t;
                    v[n] = j < c.loads ? W::fetch(c, j) : make_uint4(none, none, none, none);
                }
#pragma unroll
                for (int n = 0; n < N; n++)
                    mass[n] +=
                        kept_mass(v[n], first_of((i + n * WARPS) * piece_loads + t), floor_x, floor_last);
            }
#pragma unroll
            for (int n = 0; n < N; n++) {
                uint64_t sum = tb_warp_sum64(mass[n]);
                if (lane == 0 && i + n * WARPS < pieces) piece[i + n * WARPS] = sum;
            }
        }
        __syncthreads();
        if (warp) return drawn;
#pragma unroll 1
        for (int i0 = 0; i0 < pieces; i0 += 32) {
            uint64_t mine = i0 + lane < pieces ? piece[i0 + lane] : 0, upto = tb_warp_scan64(mine);
            uint32_t beyond = __ballot_sync(TB_WHOLE_WARP, upto > position);
            if (!beyond) {
                position -= __shfl_sync(TB_WHOLE_WARP, upto, 31);
                continue;
            }
            int i = __ffs((int)beyond) - 1;
            position -= __shfl_sync(TB_WHOLE_WARP, upto - mine, i);
#pragma unroll 1
            for (int j = (i0 + i) * piece_loads;; j++) {
                const uint4 v = W::fetch(c, j);
                uint64_t all = kept_mass(v, first_of(j), floor_x, floor_last), end = tb_warp_scan64(all),
                         sum = __shfl_sync(TB_WHOLE_WARP, end, 31);
                if (position >= sum) {
                    position -= sum;
                    continue;
                }
                uint64_t from = end - all;
#pragma unroll
                for (int e = 0; e < width; e++) {
                    const float x = tb_element<dtype>(v, e), maximum = s.maximum, scale = s.scale;
                    const uint32_t index = first_of(j) + (uint32_t)e;
                    uint32_t a, b;
                    W::weigh(x, maximum, scale, &a, &b);
                    uint64_t mass = keeps(floor_x, floor_last, x, index) ? tb_join(a, b) : 0;
                    if (from <= position && position - from < mass) drawn = {true, (int32_t)index, x};
                    from += mass;
                }
                return drawn;
            }
        }
        return drawn;
    }

    /* Tokens >= x in this warp's chunk. */
    static __device__ __noinline__ uint32_t count_from(float x)
    {
        const int warp = (int)tb_warp();
        const chunk c = W::chunk_of(W::all().slice, warp);
        uint32_t n = 0;
#pragma unroll 2
        for (int j = 0; j < c.loads; j++) {
            uint4 v = W::fetch(c, j);
#pragma unroll
            for (int e = 0; e < width; e++) n += tb_element<dtype>(v, e) >= x;
        }
        return tb_warp_sum(n);
    }

    /* This warp's kept tokens, of which `at` stand before its chunk. */
    static __device__ __noinline__ void write_ids(int32_t *ids, int64_t capacity, uint64_t floor, int64_t at)
    {
        const shared &s = W::all();
        const int warp = (int)tb_warp();
        const chunk c = W::chunk_of(s.slice, warp);
        const float floor_x = law_key_value(tb_place_key(floor));
        const uint32_t floor_last = tb_place_index(floor);
#pragma unroll 1
        for (int j = 0; j < c.loads && at < capacity; j++) {
            uint4 v = W::fetch(c, j);
            uint32_t first = (c.first + (uint32_t)j * 32 + tb_lane()) * width - s.slice.shift, kept = 0;
#pragma unroll
            for (int e = 0; e < width; e++)
                if (keeps(floor_x, floor_last, tb_element<dtype>(v, e), first + (uint32_t)e)) kept |= 1u << e;
            uint32_t n = (uint32_t)__popc(kept), upto = tb_warp_scan(n);
            int64_t to = at + upto - n;
            for (; kept; kept &= kept - 1, to++)
                if (to < capacity) ids[to] = (int32_t)(first + (uint32_t)__ffs((int)kept) - 1);
            at += __shfl_sync(TB_WHOLE_WARP, upto, 31);
        }
    }
};

#endif
