/*
 * A first guess of the wide code (fast_wide.cuh) for rows of which a block has little: between which two
 * values the boundary of the kept set is, from a count of all tokens.
 */
#ifndef TB_CUDA_FAST_WIDE_COUNTED_CUH
#define TB_CUDA_FAST_WIDE_COUNTED_CUH

#include "fast_wide_list.cuh"

/* What the threads of a block agree upon in a guess; and where counts go that nobody reads. */
enum { TB_MARK_LOW, TB_MARK_HIGH, TB_MARK_FIRST, TB_MARK_LAST, TB_MARK_LEAST, TB_MARK_UNUSED };

template <int dtype, int C, int NT, int U, int CAP, size_t STAGE>
struct tb_wide_counted : tb_wide_list<dtype, C, NT, U, CAP, STAGE> {
    typedef tb_wide_list<dtype, C, NT, U, CAP, STAGE> W;
    typedef typename W::shared shared;
    static constexpr int WARPS = W::WARPS, ROW_WARPS = W::ROW_WARPS, width = W::width;

    /* f(values of a vector) for the first of this thread, of a row whose blocks have every C-th run of NT
     * vectors. */
    template <class F> static TB_MEMBER void each_vector(int most, const F &f)
    {
        const shared &s = W::all();
        constexpr int N = STAGE ? 1 : 32 / width; /* in flight */
        constexpr uint32_t none = tb_minus_infinity<dtype>();
        const bool infinite = s.infinite;
        const tb_fast_slice slice = s.slice;
        const uint32_t whole = slice.whole_end - slice.whole_first;
        const int levels = min(most, (int)((slice.end + C * NT - 1) / (C * NT)));
#pragma unroll 1
        for (int i = 0; i < levels; i += N) {
            uint4 v[N];
#pragma unroll
            for (int j = 0; j < N; j++) {
                const uint32_t at = (uint32_t)(((i + j) * C + W::block()) * NT + (int)threadIdx.x);
                v[j] = make_uint4(none, none, none, none);
                if (STAGE)
                    v[j] = ((const uint4 *)(tb_wide_bytes + STAGE))[i * NT + (int)threadIdx.x];
                else if (at - slice.whole_first < whole)
                    v[j] = tb_load_stream(slice.base + (size_t)at * 16);
                if (infinite) v[j] = tb_only_infinite<dtype>(v[j]);
            }
#pragma unroll
            for (int j = 0; j < N; j++) {
                float x[width];
#pragma unroll
                for (int e = 0; e < width; e++) x[e] = tb_element<dtype>(v[j], e);
                f(x);
            }
        }
    }

    /* All of the row's tokens are counted, in bins of equal width, or, if nothing is known of where the
     * boundary may be, 32 of them an octave of the distance from the top. `mass` is what lies above the
     * boundary, of the tokens from `top` down, or `under` what lies under it, of those from `bottom` up: the
     * smaller one, or infinity, for that mass errs by a share of itself. The counts are exact; that all of a
     * bin's tokens weigh as much as one in its middle is wrong by about the square of the bin's width. */
    static __device__ __noinline__ tb_wide_bracket guess_counted(float bottom, float top, uint32_t k,
                                                                 float mass, float under, uint32_t turn,
                                                                 uint32_t &words)
    {
        shared &s = W::all();
        constexpr int BINS = W::COUNTS, EACH = BINS / TB_WIDE_BINS, OCTAVE = 18; /* bits below a bin's */
        const int tid = (int)threadIdx.x, lane = tid & 31, warp = tid >> 5;
        uint32_t *const bins = s.bin[0];
        const float maximum = s.maximum, scale = s.scale;
        float range = fminf(top - bottom, 0x1p125f);
        if (s.least < top) range = fminf(range, top - s.least);
        if (scale > 0.0f) range = fminf(range, TB_WIDE_DEPTH / scale);
        const bool octaves = s.seek_least && s.spread > 0.0f;
        const int first = min(max((int)(law_bits(s.spread) >> OCTAVE) - BINS / 2, 0),
                              (0x7f800000 >> OCTAVE) - BINS - 1); /* about `spread` in the middle */
        const float inverse = __fdividef((float)BINS - 0.1f, range), step = range * (1.0f / (BINS - 0.1f));
        if (tid < TB_MARK_UNUSED) s.mark[tid] = tid == TB_MARK_LOW || tid == TB_MARK_FIRST ? ~0u : 0u;
        const uint32_t bins_at = tb_shared_address(bins), other = tb_shared_address(&s.mark[TB_MARK_UNUSED]);
        float rest = 0.0f; /* of the mass: what is under the bins */
        if (octaves) {
            each_vector(TB_OFF, [&](const float(&x)[width]) {
#pragma unroll
                for (int e = 0; e < width; e++) {
                    const int at = min(max((int)(law_bits(top - x[e]) >> OCTAVE) - first, 0), BINS - 1);
                    tb_wide_count(x[e], bottom, top, bins_at + (uint32_t)at * 4, other);
                }
            });
        } else {
            const float lowest = fmaxf(bottom, top - range);
            auto count = [&](const float(&x)[width]) {
                uint32_t at[width];
#pragma unroll
                for (int e = 0; e < width; e++) /* 2^23: its last bits are whole numbers */
                    at[e] = law_bits(__fmaf_rz(fminf(top - x[e], range), inverse, 8388608.0f)) & (BINS - 1);
#pragma unroll
                for (int e = 0; e < width; e++) tb_wide_count(x[e], lowest, top, bins_at + at[e] * 4, other);
            };
            if (under < LAW_INF)
                each_vector(TB_OFF, [&](const float(&x)[width]) {
                    count(x);
#pragma unroll
                    for (int e = 0; e < width; e++) {
                        const float weight = tb_ex2(fminf((x[e] - maximum) * scale, 0.0f));
                        rest += (x[e] < lowest) & (x[e] >= bottom) ? weight : 0.0f;
                    }
                });
            else
                each_vector(TB_OFF, count);
        }
        if (under < LAW_INF) {
            __syncwarp();
#pragma unroll
            for (int d = 1; d < 32; d *= 2) rest += __shfl_xor_sync(TB_WHOLE_WARP, rest, d);
            if (lane == 0) s.rest[warp] = rest;
        }
        W::barrier();
        /* of 16 bits; what does not fit only makes the guess worse */
        uint32_t pair = 0;
        if (tid < TB_WIDE_BINS) {
            pair = min(bins[tid * 2], 0xffffu) | min(bins[tid * 2 + 1], 0xffffu) << 16;
            bins[tid * 2] = bins[tid * 2 + 1] = 0;
            bins[BINS + tid] = pair;
        }
        if (warp == WARPS - 1 && under < LAW_INF) {
            rest = lane < WARPS ? s.rest[lane] : 0.0f;
#pragma unroll
            for (int d = 1; d < WARPS; d *= 2) rest += __shfl_xor_sync(TB_WHOLE_WARP, rest, d);
            if (lane == 0) bins[BINS + TB_WIDE_BINS] = law_bits(rest);
        }
        W::barrier();
        constexpr int VECTORS = BINS / 8 + 1;
#pragma unroll 1
        for (int i = tid; i < C * VECTORS; i += NT)
            tb_mail_16(&s.counts[W::block()][i % VECTORS], i / VECTORS,
                       ((const uint4 *)&bins[BINS])[i % VECTORS], &s.mail_counts);
        if (tid == 0) tb_mail_expect(&s.mail_counts, C * VECTORS * 16);
        tb_mail_await(&s.mail_counts, turn & 1);
        __syncwarp();
        uint32_t number[EACH] = {}, n = 0;
        float weight[EACH] = {}, m = 0.0f;
        /* of the bins' lower ends, from the top */
        auto depth_of = [&](int i) {
            return octaves ? law_float((uint32_t)(first + i) << OCTAVE) : (float)i * step;
        };
        if (tid < TB_WIDE_BINS) {
#pragma unroll 8
            for (int i = 0; i < C; i++) {
                const uint32_t a = ((const uint32_t *)s.counts[i])[tid];
                number[0] += a & 0xffffu;
                number[1] += a >> 16;
            }
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                const float middle = 0.5f * (depth_of(tid * EACH + i) + depth_of(tid * EACH + i + 1));
                weight[i] = tb_ex2(fminf((top - middle - maximum) * scale, 0.0f));
                n += number[i];
                m += (float)number[i] * weight[i];
            }
            const uint32_t n_upto = tb_warp_scan(n);
            const float m_upto = tb_warp_scan_float(m);
            if (lane == 31) s.part[warp] = make_uint4(n_upto, 0, law_bits(m_upto), 0);
            n = n_upto - n, m = m_upto - m;
        }
        W::barrier();
        if (tid < TB_WIDE_BINS) {
#pragma unroll
            for (int i = 0; i < TB_WIDE_BINS / 32; i++) {
                const uint4 x = s.part[i];
                n += i < warp ? x.x : 0u;
                m += i < warp ? law_float(x.z) : 0.0f;
            }
            if (under < LAW_INF) { /* from here on m is what lies in these bins and under them */
                m = -m;
#pragma unroll 1
                for (int i = 0; i < TB_WIDE_BINS / 32; i++) m += law_float(s.part[i].z);
#pragma unroll 1
                for (int i = 0; i < C; i++) m += law_float(s.counts[i][BINS / 8].x);
            }
            uint32_t low = ~0u, high = 0;
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                const int at = tid * EACH + i + 1;
                const float thick = (depth_of(at) - depth_of(at - 1)) * scale, /* of t */
                    share = 0x1p-14f + 0.05f * thick * thick;
                n += number[i];
                bool enough = n >= k, little = n < k;
                if (under < LAW_INF) { /* which errs as the row's mass does, too */
                    const float off = under * share + s.relative * 0x1p-20f;
                    m -= (float)number[i] * weight[i];
                    enough |= m <= under - off;
                    little &= m > under + off;
                } else {
                    m += (float)number[i] * weight[i];
                    enough |= m >= mass + mass * share;
                    little &= mass == LAW_INF || m < mass - mass * share;
                }
                if (enough) low = min(low, (uint32_t)at);
                if (little) high = max(high, (uint32_t)at);
                bins[at - 1] = n;
            }
            low = tb_warp_min(low);
            high = tb_warp_max(high);
            if (lane == 0) atomicMin(&s.mark[TB_MARK_LOW], low), atomicMax(&s.mark[TB_MARK_HIGH], high);
        }
        W::barrier();
        const uint32_t from = min(s.mark[TB_MARK_LOW], (uint32_t)BINS),
                       to = min(s.mark[TB_MARK_HIGH], from - 1);
        auto edge = [&](uint32_t i) { return fmaxf(bottom, top - depth_of((int)i)) + 0.0f; };
        tb_wide_bracket out = {from < (uint32_t)BINS || k == TB_NO_LIMIT ? edge(from) : bottom,
                               to ? edge(to) : top};
        const uint32_t between = bins[from - 1] - (to ? bins[to - 1] : 0u);
        W::barrier();
        if (tid < TB_WIDE_BINS) bins[tid] = bins[tid + TB_WIDE_BINS] = bins[BINS + tid] = 0;
        if (tid == 0) bins[BINS + TB_WIDE_BINS] = 0;
        if (between <= s.limit || out.low >= out.high) return out;
        if (from - to <= 32) { /* the block that has most of them may have room */
            uint32_t most = 0;
#pragma unroll 1
            for (uint32_t i = to; i < from && lane < C; i++) most += ((const uint16_t *)s.counts[lane])[i];
            if (tb_warp_max(most) <= s.limit) return out;
        }
        /* too many for a list, if they lie together: one value only, as far as some of them tell? */
        uint32_t least = ~0u, greatest = 0;
        each_vector(8, [&](const float(&x)[width]) {
#pragma unroll
            for (int e = 0; e < width; e++) {
                const bool inside = x[e] >= out.low && x[e] <= out.high;
                if (inside) least = min(least, law_key(x[e])), greatest = max(greatest, law_key(x[e]));
            }
        });
        const typename W::words *word =
            W::say(words++, make_uint4(tb_warp_min(least), tb_warp_max(greatest), 0, 0));
#pragma unroll 1
        for (int i = lane; i < ROW_WARPS; i += 32) {
            least = min(least, word->warp[i].x);
            greatest = max(greatest, word->warp[i].y);
        }
        least = tb_warp_min(least);
        greatest = tb_warp_max(greatest);
        if (least == greatest) out.low = out.high = law_key_value(greatest);
        return out;
    }
};

#endif
