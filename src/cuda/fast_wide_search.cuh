/*
 * How the wide code (fast_wide.cuh) finds the boundary of a kept set: brackets from histograms, equal
 * tokens, least weights.
 */
#ifndef TB_CUDA_FAST_WIDE_SEARCH_CUH
#define TB_CUDA_FAST_WIDE_SEARCH_CUH

#include "fast_wide_parts.cuh"

template <int dtype, int C, int NT, int U, int CAP> struct tb_wide_search : tb_wide<dtype, C, NT, U, CAP> {
    typedef tb_wide<dtype, C, NT, U, CAP> W;
    typedef typename W::shared shared;
    typedef typename W::chunk chunk;
    static constexpr int WARPS = W::WARPS, ROW_WARPS = W::ROW_WARPS, width = W::width;

    /* ---- the bracket ---- */

    /* The least value of the sample. */
    static __device__ __noinline__ void find_least(uint32_t turn)
    {
        shared &s = W::all();
        const int lane = (int)tb_lane(), warp = (int)tb_warp();
        const chunk c = W::chunk_of(s.slice, warp);
        float least = LAW_INF;
#pragma unroll 2
        for (int j = 0; j < c.loads; j += TB_WIDE_SAMPLE) {
            uint4 v = W::fetch(c, j);
#pragma unroll
            for (int e = 0; e < width; e++) {
                float x = tb_element<dtype>(v, e);
                least = x >= TB_LEAST ? fminf(least, x) : least;
            }
        }
        uint32_t key = tb_warp_min(law_key(least));
        W::send(turn, make_uint4(key, 0, 0, 0), make_uint4(0, 0, 0, 0));
        const uint4(*word)[2] = W::receive(turn);
        if (warp == 0) {
            for (int i = lane; i < ROW_WARPS; i += 32) key = min(key, word[i][0].x);
            key = tb_warp_min(key);
            if (lane == 0) s.least = law_key_value(key);
        }
        __syncthreads();
    }

    /* From a merged histogram of the sample, bin by thread: around the k-th token, and around the value below
     * which `tail` lies, the upper one of the two. `tail` is of the weights relative to the greatest;
     * negative: of their sum. `each` tokens stand behind one of the sample, `unit` behind one of its mass.
     *
     * A sample of one in S: of the sum of the weights below a value it errs by about sqrt((S - 1) * w *
     * tail), w the weight at the value, since none of them is greater; of the number above by sqrt((S - 1) *
     * k). Four times that is allowed, as far as the lists reach. */
    static __device__ __noinline__ tb_wide_bracket guess(uint4 bin, float each, float unit, float bottom,
                                                         uint32_t k, bool has_mass, float tail)
    {
        shared &s = W::all();
        constexpr float MOST = 0.375f * W::ROW_CAPACITY;
        const float top = s.greatest, high = law_key_value(bin.z), low = law_key_value(~bin.y);
        unit *= each;
        uint32_t n, m, tokens, total;
        W::template scan<uint32_t>(bin.x, bin.w, &n, &m, &tokens, &total);
        auto inside = [](float wanted, uint32_t limit) { return wanted >= 1.0f && wanted <= (float)limit; };
        /* tells all where the token, or the unit of mass, of some number is */
        auto mark = [&](float wanted, uint32_t before, uint32_t own, uint32_t limit, int which) {
            if (!inside(wanted, limit)) return;
            uint32_t number = min((uint32_t)wanted, limit) - 1;
            if (number < before || number - before >= own) return;
            float x = high - (high - low) * ((float)(number - before) / (float)own);
            tb_wide_edge edge = {fminf(high, fmaxf(low, x)), n + bin.x};
            s.edge[which] = edge;
        };
        auto marked = [&](float wanted, uint32_t limit, int which) {
            tb_wide_edge beyond = {wanted < 1.0f ? top : bottom, wanted < 1.0f ? 0u : tokens};
            return inside(wanted, limit) ? s.edge[which] : beyond;
        };
        const float under = tail < 0.0f ? -tail * (float)total : tail / unit, over = (float)total - under;
        float margin = 0.0f;
        if (has_mass) {
            mark(over, m, bin.w, total, 0);
            __syncthreads();
            float w = tb_ex2((marked(over, total, 0).x - s.maximum) * s.scale);
            margin = fminf(4.0f * sqrtf((each - 1.0f) * w * (under * unit)) + 2.0f * w, MOST * w) / unit;
            mark(over + margin, m, bin.w, total, 1);
            mark(over - margin, m, bin.w, total, 2);
        }
        const float number = (float)k / each,
                    spread = fminf(4.0f * sqrtf((each - 1.0f) * (float)k) + 4.0f * each, MOST) / each;
        if (k != TB_NO_LIMIT) {
            mark(number + spread, n, bin.x, tokens, 3);
            mark(number - spread, n, bin.x, tokens, 4);
        }
        __syncthreads();
        tb_wide_bracket out = {bottom, bottom};
        uint32_t above = tokens; /* down to the lower end, about */
        if (has_mass) {
            tb_wide_edge edge = marked(over + margin, total, 1);
            out.low = fmaxf(bottom, edge.x);
            above = edge.count;
            out.high = marked(over - margin, total, 2).x;
        }
        if (k != TB_NO_LIMIT) {
            tb_wide_edge edge = marked(number + spread, tokens, 3);
            if (edge.x > out.low) out.low = edge.x;
            above = min(above, edge.count);
            out.high = fmaxf(out.high, marked(number - spread, tokens, 4).x);
        }
        if ((float)above * each <= 0.6f * W::ROW_CAPACITY) out.high = top; /* all of them fit the lists */
        out.high = fmaxf(out.high, out.low);
        return out;
    }

    /* From histograms of all tokens in [low, high]: one bin, or less, in which the boundary seems to be. With
     * `from_top`, count and mass are of the tokens above `high`, else of those from `low` up. */
    static __device__ __noinline__ tb_wide_bracket narrow(float low, float high, bool from_top,
                                                          uint32_t count, uint64_t mass, uint32_t k,
                                                          uint64_t target, uint32_t *turn)
    {
        shared &s = W::all();
        uint32_t start = count;
        float start_mass = (float)mass * 0x1p-40f;
        const float wanted = target == TB_NO_MASS ? LAW_INF : (float)target * 0x1p-40f;
#pragma unroll 1
        for (int round = 0;; round++) {
            const float unit = W::fill_range(low, high, 1, round & 1);
            uint4 bin = W::template merge<false>((*turn)++ & 1);
            uint32_t n, m, tokens, total;
            W::template scan<uint32_t>(bin.x, bin.w, &n, &m, &tokens, &total);
            if (!tokens) return {low, low};
            if (round == 0 && !from_top) {
                start -= tokens;
                start_mass -= (float)total * unit;
            }
            /* the number of the token, and of the unit of mass, at the boundary; past the end: the last */
            float rest = (wanted - start_mass) / unit;
            uint32_t by_count = k == TB_NO_LIMIT ? TB_NO_LIMIT
                                : k > start      ? k - start - 1
                                                 : 0,
                     by_mass = rest >= (float)total ? TB_NO_LIMIT
                               : rest > 1.0f        ? (uint32_t)rest - 1
                                                    : 0;
            if (by_count >= tokens && by_mass >= total) by_count = tokens - 1;
            bool here =
                bin.x && n <= by_count && m <= by_mass && (by_count - n < bin.x || by_mass - m < bin.w);
            if (here) {
                tb_wide_found found = {bin.x,           n, m, law_key_value(~bin.y), law_key_value(bin.z),
                                       (int)threadIdx.x};
                s.found = found;
            }
            __syncthreads();
            const tb_wide_found found = s.found;
            low = found.low;
            high = found.high;
            if (found.held <= (uint32_t)CAP || low == high) return {low, high};
            start += found.count;
            start_mass += (float)found.mass * unit;
        }
    }

    /* ---- equal tokens, counted ---- */

    /* Of the tokens equal to x in this warp's chunk: index of the number-th (from 0), 0xffffffff if there are
     * not so many; and how many have an index above `last`. */
    static __device__ __noinline__ uint2 count_ties(float x, uint32_t number, uint32_t last)
    {
        const shared &s = W::all();
        const int warp = (int)tb_warp();
        const chunk c = W::chunk_of(s.slice, warp);
        uint32_t before = 0, beyond = 0, index = 0xffffffffu;
#pragma unroll 1
        for (int j = 0; j < c.loads; j++) {
            uint4 v = W::fetch(c, j);
            uint32_t first = (c.first + (uint32_t)j * 32 + tb_lane()) * width - s.slice.shift, equal = 0;
#pragma unroll
            for (int e = 0; e < width; e++) {
                if (tb_element<dtype>(v, e) != x) continue;
                equal |= 1u << e;
                beyond += first + e > last;
            }
            uint32_t n = (uint32_t)__popc(equal), sum = tb_warp_sum(n);
            if (index == 0xffffffffu && number - before < sum) {
                uint32_t from = before + tb_warp_scan(n) - n, found = 0xffffffffu;
                if (number >= from && number - from < n) {
                    for (uint32_t i = from; i < number; i++) equal &= equal - 1;
                    found = first + (uint32_t)__ffs((int)equal) - 1;
                }
                index = tb_warp_min(found);
            }
            before += sum;
        }
        return make_uint2(index, tb_warp_sum(beyond));
    }

    /* Index of the number-th, from 0, of the row's tokens equal to x; the words' last numbers are theirs. */
    static __device__ __noinline__ uint32_t find_tie(const uint4 (*word)[2], float x, uint32_t number,
                                                     uint32_t &words)
    {
        const int lane = (int)tb_lane(), me = W::block() * WARPS + (int)tb_warp();
        uint32_t before = 0;
        for (int i = lane; i < me; i += 32) before += word[i][0].w;
        before = tb_warp_sum(before);
        uint32_t own = word[me][0].w, index = 0xffffffffu;
        if (number >= before && number - before < own)
            index = count_ties(x, number - before, TB_LAST_INDEX).x;
        /* the words of the look stay as they are: these go with them */
        uint4 a = word[me][0];
        W::send(words++, a, make_uint4(index, 0, 0, 0));
        const uint4(*all)[2] = W::receive(words - 1);
        __syncthreads();
        uint32_t last = 0xffffffffu;
        for (int i = lane; i < ROW_WARPS; i += 32) last = min(last, all[i][1].x);
        return tb_warp_min(last);
    }

    /* ---- a least weight ---- */

    /* The least value of weight at least w, from `low` up: by one warp, 32 probes a round, t being monotone.
     */
    static __device__ __noinline__ uint32_t least_key(uint64_t w)
    {
        const shared &s = W::all();
        uint32_t bad = TB_KEY_LEAST_LOGIT - 1, good = law_key(s.maximum);
        const float maximum = s.maximum, scale = s.scale;
        while (good - bad > 1) {
            uint32_t step = (good - bad + 32) / 33, probe = bad + step * (tb_lane() + 1);
            bool enough =
                probe >= good || law_weight(law_exponent(law_key_value(probe), maximum, scale)) >= w;
            uint32_t failed = 32u - (uint32_t)__popc(__ballot_sync(TB_WHOLE_WARP, enough));
            bad = min(good - 1, bad + step * failed);
            good = min(good, bad + step);
        }
        return good;
    }
};

#endif
