/*
 * The exact look of the wide code (fast_wide.cuh): mass and count of a row's tokens from a value up, the mass
 * of all, and a list of those between two values.
 */
#ifndef TB_CUDA_FAST_WIDE_LOOK_CUH
#define TB_CUDA_FAST_WIDE_LOOK_CUH

#include "fast_wide_parts.cuh"

/* Adds a token's digits where it is at least `low`, and its bit where it also is at most `high`. As assembly:
 * the compiler selects numbers and then adds them. */
TB_DEV void tb_wide_add(float x, float low, float high, uint32_t digit_high, uint32_t digit_low, uint32_t bit,
                        uint32_t *sum_high, uint32_t *sum_low, uint32_t *bits)
{
    asm("{\n.reg .pred reaches, passes;\n"
        "setp.ge.f32 reaches, %3, %4;\n"
        "@reaches add.u32 %0, %0, %6;\n"
        "@reaches add.u32 %1, %1, %7;\n"
        "setp.le.and.f32 passes, %3, %5, reaches;\n"
        "@passes or.b32 %2, %2, %8;\n}"
        : "+r"(*sum_high), "+r"(*sum_low), "+r"(*bits)
        : "f"(x), "f"(low), "f"(high), "r"(digit_high), "r"(digit_low), "r"(bit));
}

/* Stores a token where its bit is set. As assembly: the compiler branches. */
TB_DEV void tb_wide_store(float x, uint32_t index, uint32_t bit, uint32_t *to)
{
    asm volatile("{\n.reg .pred passes;\n"
                 "setp.ne.u32 passes, %3, 0;\n"
                 "@passes st.shared.v2.b32 [%0], {%1, %2};\n"
                 "@passes add.u32 %0, %0, 8;\n}"
                 : "+r"(*to)
                 : "f"(x), "r"(index), "r"(bit)
                 : "memory");
}

template <int dtype, int C, int NT, int U, int CAP, size_t STAGE>
struct tb_wide_look : tb_wide<dtype, C, NT, U, CAP, STAGE> {
    typedef tb_wide<dtype, C, NT, U, CAP, STAGE> W;
    typedef typename W::shared shared;
    typedef typename W::chunk chunk;
    static constexpr int WARPS = W::WARPS, PIECES = W::PIECES, width = W::width;
    /* Whether marked tokens of several loads are listed together, and read again for it: from shared memory,
     * or from L2, where a row's blocks have all of it to themselves. With few blocks a row they would come
     * from memory, in sectors of which a token or two are of use. */
    static constexpr bool SEVERAL = C >= 4;

    /* Places in the block's list for a lane's marked tokens; false where there is no room, and the list is of
     * no use. One addition for a warp: one word takes but one of them in some twenty clocks. */
    static TB_MEMBER bool claim(uint32_t marks, uint32_t *at)
    {
        shared &s = W::all();
        const uint32_t n = (uint32_t)__popc(marks), upto = tb_warp_scan(n);
        uint32_t from = 0;
        if (tb_lane() == 31 && upto) from = tb_shared_add(&s.pushed, upto);
        *at = __shfl_sync(TB_WHOLE_WARP, from, 31) + upto - n;
        return *at + n <= s.limit;
    }

    /* Lists a thread's tokens of a load, which begins with the vector `first`; `who`: its piece of the block.
     */
    template <int N>
    static TB_MEMBER void list_at_hand(const uint4 (&v)[N], uint32_t marks, uint32_t first, uint32_t who)
    {
        const shared &s = W::all();
        const uint32_t index = first * width - s.slice.shift + who;
        uint32_t at;
        if (!claim(marks, &at)) marks = 0;
        uint32_t to = tb_shared_address(s.list[W::block()] + at);
#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int e = 0; e < width; e++)
                tb_wide_store(tb_element<dtype>(v[j], e), index + (uint32_t)(j * 32 * width + e),
                              marks & 1u << (j * width + e), &to);
    }

    /* The same of loads that follow each other, the last one, in whose marks are the lowest bits, from
     * `first` on; `from`: where they are. Few warps have any. */
    static TB_MEMBER void list_again(uint32_t marks, uint32_t first, uint32_t who, const char *from,
                                     bool infinite)
    {
        shared &s = W::all();
        if (!__any_sync(TB_WHOLE_WARP, marks != 0)) return;
        const uint32_t index = first * width - s.slice.shift + who;
        uint2 *const list = s.list[W::block()];
        uint32_t at;
        if (!claim(marks, &at)) return;
#pragma unroll 1
        for (; marks; marks &= marks - 1) {
            const uint32_t bit = (uint32_t)__ffs((int)marks) - 1, j = bit / width, e = bit % width;
            const float x = infinite ? 0.0f : tb_stored<dtype>(from + j * 512, e);
            list[at++] = make_uint2(law_bits(x), index + j * (32 * width) + e);
        }
    }

    /* Those in [low, high] are counted and, where `collect` says so, listed. Tells { mass, count, of [low,
     * high] } of each piece, and then { mass of all } of each warp. */
    template <bool FAST> static TB_MEMBER void look_at(float low, float high, bool collect, uint32_t turn)
    {
        shared &s = W::all();
        constexpr int N = FAST ? U : 1, ELEMENTS = N * width;
        static_assert(ELEMENTS <= 16, "their low digits must not reach the biases");
        const int lane = (int)tb_lane();
        const tb_fast_slice slice = s.slice;
        const float maximum = s.maximum, scale = FAST ? s.scale * -0x1p-6f : s.scale;
        const bool infinite = s.infinite, nan = s.status & TOMBOLA_ROW_NAN;
        uint64_t total = 0;
        /* Backwards: what the pass has read last is still in L2. */
#pragma unroll 1
        for (int i = PIECES - 1; i >= 0; i--) {
            const chunk c = W::piece_of(slice, W::number(i));
            const uint32_t who = (uint32_t)(i * WARPS + (int)tb_warp()) << LAW_INDEX_BITS;
            uint32_t high_sum = 0, low_sum = 0, high_all = 0, low_all = 0, n = 0, between = 0;
            uint32_t marks = 0; /* a bit for each element of the last loads, the last one's lowest */
#pragma unroll 1
            for (int j0 = (c.loads + N - 1) / N * N - N; j0 >= 0; j0 -= N) {
                uint4 v[N];
                W::template load<N>(slice, c, j0, v);
                if (!FAST && infinite)
#pragma unroll
                    for (int j = 0; j < N; j++) v[j] = tb_only_infinite<dtype>(v[j]);
                if (FAST && nan) tb_drop_nan<dtype, N>(v);
                uint32_t passes = 0, part_high = 0, part_low = 0;
#pragma unroll
                for (int j = 0; j < N; j++)
#pragma unroll
                    for (int e = 0; e < width; e++) {
                        const float x = tb_element<dtype>(v[j], e);
                        uint32_t h, l;
                        if (FAST)
                            tb_weigh_scaled(tb_scaled_exponent(x, maximum, scale), -64.0f, &h, &l);
                        else
                            tb_weigh(fmaxf(law_exponent(x, maximum, scale), -64.0f), &h, &l);
                        high_all += h;
                        low_all += l;
                        tb_wide_add(x, low, high, h, l, 1u << (j * width + e), &part_high, &part_low,
                                    &passes);
                    }
                high_all -= TB_HIGH_BIAS * (uint32_t)ELEMENTS;
                low_all -= TB_LOW_BIAS * (uint32_t)ELEMENTS;
                /* The low digits are less than 2^24 together; above them is their number times 55, the bias,
                 * and 55 * 135 is 1 modulo 256. */
                static_assert(TB_LOW_BIAS == 55u << 24, "");
                n += (part_low >> 24) * 135u & 255u;
                high_sum += part_high;
                low_sum += part_low & 0xffffffu;
                between += (uint32_t)__popc(passes);
                if (!collect) continue;
                const uint32_t first = c.first + (uint32_t)(j0 * 32 + lane);
                if (!SEVERAL) {
                    list_at_hand<N>(v, passes, first, who);
                    continue;
                }
                marks = marks << ELEMENTS | passes;
                if (j0 / N % (32 / ELEMENTS)) continue;
                list_again(marks, first, who,
                           W::STAGED && s.share == NT ? (const char *)(W::stage_of(c) + j0 * 32 + lane)
                                                      : slice.base + (size_t)first * 16,
                           !FAST && infinite);
                marks = 0;
            }
            const uint64_t mass = tb_warp_sum64(tb_join(high_sum - n * TB_HIGH_BIAS, low_sum));
            total += tb_join(high_all, low_all);
            n = tb_warp_sum(n);
            between = tb_warp_sum(between);
            if (lane < C)
                W::tell(turn, i, lane, make_uint4((uint32_t)mass, (uint32_t)(mass >> 32), n, between));
        }
        total = tb_warp_sum64(total);
        W::send(turn, make_uint4((uint32_t)total, (uint32_t)(total >> 32), 0, 0), true);
    }

    static __device__ __noinline__ void look(float low, float high, bool collect, uint32_t turn)
    {
        const shared &s = W::all();
        if (!s.flat && s.scale >= TB_LEAST_SCALE)
            look_at<true>(low, high, collect, turn);
        else
            look_at<false>(low, high, collect, turn);
    }
};

#endif
