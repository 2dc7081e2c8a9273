/*
 * The wide code (fast_wide.cuh) once a row's kept set is known: the draw, ranks, ids.
 */
#ifndef TB_CUDA_FAST_WIDE_DRAW_CUH
#define TB_CUDA_FAST_WIDE_DRAW_CUH

#include "fast_wide_search.cuh"

/* The drawn token, in the one thread that has found it. */
typedef struct tb_wide_drawn {
    bool mine;
    int32_t index;
    float x;
} tb_wide_drawn;

template <int dtype, int C, int NT, int U, int CAP, size_t STAGE>
struct tb_wide_draw : tb_wide_search<dtype, C, NT, U, CAP, STAGE> {
    typedef tb_wide_search<dtype, C, NT, U, CAP, STAGE> W;
    typedef typename W::shared shared;
    typedef typename W::chunk chunk;
    static constexpr int WARPS = W::WARPS, ROW_WARPS = W::ROW_WARPS, width = W::width;
    /* Is a token of K0 kept? */
    static TB_MEMBER bool keeps(float floor_x, uint32_t floor_last, float x, uint32_t index)
    {
        return x > floor_x || (x == floor_x && index <= floor_last);
    }

    /* The piece in which the draw falls, and the position there; by the first warp. */
    static TB_MEMBER void locate(const typename W::words *word, uint64_t total)
    {
        shared &s = W::all();
        constexpr int EACH = W::ROW_PIECES / 32;
        const int lane = (int)tb_lane();
        uint64_t mass[EACH], part = 0, position = law_draw_position(s.random, total);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const uint4 a = word->piece[lane * EACH + i];
            mass[i] = (uint64_t)a.y << 32 | a.x;
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

    /* The drawn token, where this block has it: a load of the piece for each warp, whose masses then say
     * which one has it. */
    static __device__ __noinline__ tb_wide_drawn draw(uint64_t floor)
    {
        shared &s = W::all();
        const int lane = (int)tb_lane(), warp = (int)tb_warp();
        const float floor_x = law_key_value(tb_place_key(floor));
        const uint32_t floor_last = tb_place_index(floor);
        tb_wide_drawn drawn = {false, 0, 0.0f};
        uint64_t position = s.position;
        if (W::owner_of(s.owner) != W::block()) return drawn;
        const chunk c = W::piece_of(s.slice, s.owner);
        auto first_of = [&](int j) {
            return (c.first + (uint32_t)j * 32 + (uint32_t)lane) * width - s.slice.shift;
        };
        uint64_t *sums = (uint64_t *)s.all; /* the histograms are done with */
        static_assert(sizeof s.all / sizeof *sums > (1u << LAW_INDEX_BITS) / W::ROW_PIECES / 128 + 4, "");
        int have = -1; /* the load that is in registers */
        uint4 v = make_uint4(0, 0, 0, 0);
        uint64_t all = 0;
#pragma unroll 1
        for (int j = warp; j < c.loads; j += WARPS) {
            v = W::fetch(c, j);
            all = kept_mass(v, first_of(j), floor_x, floor_last);
            have = j;
            const uint64_t sum = tb_warp_sum64(all);
            if (lane == 0) sums[j] = sum;
        }
        W::barrier();
#pragma unroll 1
        for (int j0 = 0; j0 < c.loads; j0 += 32) {
            const uint64_t mine = j0 + lane < c.loads ? sums[j0 + lane] : 0, upto = tb_warp_scan64(mine);
            const uint32_t beyond = __ballot_sync(TB_WHOLE_WARP, upto > position);
            if (!beyond) {
                position -= __shfl_sync(TB_WHOLE_WARP, upto, 31);
                continue;
            }
            const int i = __ffs((int)beyond) - 1, j = j0 + i;
            position -= __shfl_sync(TB_WHOLE_WARP, upto - mine, i);
            if (j % WARPS != warp) break;
            if (j != have) {
                v = W::fetch(c, j);
                all = kept_mass(v, first_of(j), floor_x, floor_last);
            }
            uint64_t from = tb_warp_scan64(all) - all;
            const float maximum = s.maximum, scale = s.scale;
#pragma unroll
            for (int e = 0; e < width; e++) {
                const float x = tb_element<dtype>(v, e);
                const uint32_t index = first_of(j) + (uint32_t)e;
                uint32_t a, b;
                W::weigh(x, maximum, scale, &a, &b);
                uint64_t mass = keeps(floor_x, floor_last, x, index) ? tb_join(a, b) : 0;
                if (from <= position && position - from < mass) drawn = {true, (int32_t)index, x};
                from += mass;
            }
            break;
        }
        return drawn;
    }

    /* Tokens >= x in this warp's pieces. */
    static __device__ __noinline__ uint32_t count_from(float x)
    {
        uint32_t n = 0;
        W::each_fetched([&](const uint4 &v, uint32_t) {
#pragma unroll
            for (int e = 0; e < width; e++) n += tb_element<dtype>(v, e) >= x;
        });
        return tb_warp_sum(n);
    }

    /* The sum for the entropy over this warp's kept tokens. */
    static __device__ __noinline__ law_entropy_sum entropy_sum(uint64_t floor)
    {
        const shared &s = W::all();
        const float floor_x = law_key_value(tb_place_key(floor)), maximum = s.maximum, scale = s.scale;
        const uint32_t floor_last = tb_place_index(floor);
        /* of the weights' digits by the factors, which have 27 bits at most */
        uint64_t high = 0, low = 0;
        W::each_fetched([&](const uint4 &v, uint32_t first) {
#pragma unroll
            for (int e = 0; e < width; e++) {
                const float x = tb_element<dtype>(v, e);
                const bool kept = keeps(floor_x, floor_last, x, first + (uint32_t)e);
                const float t = kept ? fmaxf(law_exponent(x, maximum, scale), -64.0f) : -64.0f;
                uint32_t h, l;
                tb_weigh(t, &h, &l);
                const uint32_t factor = law_entropy_factor(t);
                high += (uint64_t)(h - TB_HIGH_BIAS) * factor;
                low += (uint64_t)(l - TB_LOW_BIAS) * factor;
            }
        });
        low += (high & 0xfff) << 20;
        return tb_warp_entropy({low & 0xffffffffu, (high >> 12) + (low >> 32)});
    }

    /* This warp's kept tokens, of which each of the words' pieces has so many. */
    static __device__ __noinline__ void write_ids(const typename W::words *word, int32_t *ids,
                                                  int64_t capacity, uint64_t floor)
    {
        const shared &s = W::all();
        const float floor_x = law_key_value(tb_place_key(floor));
        const uint32_t floor_last = tb_place_index(floor);
#pragma unroll 1
        for (int i = 0; i < W::PIECES; i++) {
            const int me = W::number(i);
            const chunk c = W::piece_of(s.slice, me);
            uint32_t before = 0;
#pragma unroll 1
            for (int j = (int)tb_lane(); j < me; j += 32) before += word->piece[j].z;
            int64_t at = tb_warp_sum(before);
#pragma unroll 1
            for (int j = 0; j < c.loads && at < capacity; j++) {
                uint4 v = W::fetch(c, j);
                uint32_t first = (c.first + (uint32_t)j * 32 + tb_lane()) * width - s.slice.shift, kept = 0;
#pragma unroll
                for (int e = 0; e < width; e++)
                    if (keeps(floor_x, floor_last, tb_element<dtype>(v, e), first + (uint32_t)e))
                        kept |= 1u << e;
                uint32_t n = (uint32_t)__popc(kept), upto = tb_warp_scan(n);
                int64_t to = at + upto - n;
                for (; kept; kept &= kept - 1, to++)
                    if (to < capacity) ids[to] = (int32_t)(first + (uint32_t)__ffs((int)kept) - 1);
                at += __shfl_sync(TB_WHOLE_WARP, upto, 31);
            }
        }
    }
};

#endif
