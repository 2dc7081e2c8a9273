/*
 * How the wide code (fast_wide.cuh) finds the boundary of a kept set: brackets from histograms, equal
 * tokens, least weights.
 */
#ifndef TB_CUDA_FAST_WIDE_SEARCH_CUH
#define TB_CUDA_FAST_WIDE_SEARCH_CUH

#include "fast_wide_counted.cuh"

template <int dtype, int C, int NT, int U, int CAP, size_t STAGE>
struct tb_wide_search : tb_wide_counted<dtype, C, NT, U, CAP, STAGE> {
    typedef tb_wide_counted<dtype, C, NT, U, CAP, STAGE> W;
    typedef typename W::shared shared;
    typedef typename W::chunk chunk;
    static constexpr int WARPS = W::WARPS, ROW_WARPS = W::ROW_WARPS, width = W::width;

    /* ---- the bracket ---- */

    /* The square root of x >= 0, about. */
    static TB_MEMBER float root(float x)
    {
        return tb_ex2(0.5f * __log2f(x));
    }

    /* A bracket by a sample of the row, the same in all of its blocks, which so need not talk: between which
     * values of [bottom, top] the boundary probably is. It is where k tokens, or `mass` in weights of the
     * greatest token, lie above it, of those from `top` down; or, with `below`, where `mass` lies under it,
     * of the tokens from `bottom` up, and a negative mass is a share of theirs.
     *
     * With each token in a sample of one in S the sum of the weights of a set errs by about the root of (S -
     * 1) * (sum of w^2), and, as the sample has one in S of the row whatever it has of the set, of less than
     * that: see docs/gpu.md. 4.4 times that is allowed, or down to 3.3 where the lists are too short. */
    static __device__ __noinline__ tb_wide_bracket guess(float bottom, float top, uint32_t k, bool by_mass,
                                                         bool below, float mass)
    {
        shared &s = W::all();
        constexpr int BINS = 4 * TB_WIDE_BINS, VECTORS = W::SAMPLE, EACH = VECTORS / NT;
        const int tid = (int)threadIdx.x, lane = tid & 31, warp = tid >> 5;
        uint32_t *const bins = s.bin[0];
        uint4 *const sample = C == 1 ? s.sample_alone : s.sample;
        const uint32_t vectors = s.slice.end, whole_first = s.slice.whole_first,
                       whole = s.slice.whole_end - whole_first;
        const bool all = vectors <= (uint32_t)VECTORS;
        const float each = all ? 1.0f : (float)vectors * (1.0f / VECTORS);
        /* Rolled up where nothing is lost by it: the code comes slower than it runs, once. */
#pragma unroll 1
        for (int j = 0; j < EACH; j++) { /* two neighbours, a sector of memory, of so many */
            constexpr uint32_t none = tb_minus_infinity<dtype>();
            uint32_t at = (uint32_t)(tid + j * NT);
            if (!all) at = (at >> 1) * (vectors >> 1) / (VECTORS / 2) * 2 + (at & 1);
            if (at - whole_first < whole)
                tb_copy_vector(&sample[tid + j * NT], s.slice.base + (size_t)at * 16);
            else
                sample[tid + j * NT] = make_uint4(none, none, none, none);
        }
        if (tid < 8)
            s.mark[tid] = tid == TB_MARK_LOW || tid == TB_MARK_FIRST || tid == TB_MARK_LEAST ? ~0u : 0u;
        tb_copies_wait();
        W::barrier();
        auto each_value = [&](auto f) {
#pragma unroll 1
            for (int j = 0; j < EACH; j++) {
                uint4 v = sample[tid + j * NT];
                if (s.infinite) v = tb_only_infinite<dtype>(v);
#pragma unroll
                for (int e = 0; e < width; e++) f(tb_element<dtype>(v, e));
            }
        };
        float least = s.least;
        if (s.seek_least) {
            uint32_t key = ~0u;
            each_value([&](float x) { key = x >= bottom ? min(key, law_key(x)) : key; });
            key = tb_warp_min(key);
            if (lane == 0) atomicMin(&s.mark[TB_MARK_LEAST], key);
            W::barrier();
            least = law_key_value(min(s.mark[TB_MARK_LEAST], law_key(top)));
        }
        const float maximum = s.maximum, scale = s.scale;
        float range = fminf(top - bottom, 0x1p125f);
        if (least < top) range = fminf(range, top - least);
        if (scale > 0.0f) range = fminf(range, TB_WIDE_DEPTH / scale);
        const float inverse = __fdividef(BINS - 0.1f, range), step = range * (1.0f / (BINS - 0.1f));
        float rest = 0.0f; /* of the mass: what is under the range */
        const uint32_t bins_at = tb_shared_address(bins), other = tb_shared_address(&s.mark[TB_MARK_UNUSED]);
        const float lowest = fmaxf(bottom, top - range);
        each_value([&](float x) {
            const float at = (top - x) * inverse, weight = tb_ex2(fminf((x - maximum) * scale, 0.0f));
            const bool under = (x < lowest) & (x >= bottom);
            tb_wide_count(x, lowest, top, bins_at + (uint32_t)min((int)at, BINS - 1) * 4, other);
            rest += under ? weight : 0.0f;
        });
        __syncwarp();
#pragma unroll
        for (int d = 1; d < 32; d *= 2) rest += __shfl_xor_sync(TB_WHOLE_WARP, rest, d);
        if (lane == 0) s.rest[warp] = rest;
        W::barrier();
        auto edge = [&](uint32_t i) { return i ? fmaxf(bottom, top - (float)i * step) + 0.0f : top; };
        auto weight = [&](int bin) {
            return tb_ex2(fminf((top - ((float)bin + 0.5f) * step - maximum) * scale, 0.0f));
        };
        uint32_t n = 0;
        float m = 0.0f, q = 0.0f; /* sums of weights, and of their squares */
        if (tid < TB_WIDE_BINS) {
#pragma unroll 1
            for (int i = tid * 4; i < tid * 4 + 4; i++) {
                const float number = (float)bins[i], w = weight(i);
                n += bins[i];
                m += number * w;
                q += number * w * w;
            }
            uint32_t n_upto = n;
            float m_upto = m, q_upto = q;
#pragma unroll 1
            for (int d = 1; d < 32; d *= 2) {
                const uint32_t a = __shfl_up_sync(TB_WHOLE_WARP, n_upto, d);
                const float b = __shfl_up_sync(TB_WHOLE_WARP, m_upto, d),
                            c = __shfl_up_sync(TB_WHOLE_WARP, q_upto, d);
                if (lane >= d) n_upto += a, m_upto += b, q_upto += c;
            }
            if (lane == 31) s.part[warp] = make_uint4(n_upto, 0, law_bits(m_upto), law_bits(q_upto));
            n = n_upto - n, m = m_upto - m, q = q_upto - q;
        }
        W::barrier();
        uint32_t tokens = 0;
        float m_all = 0.0f, q_all = 0.0f;
#pragma unroll 1
        for (int i = 0; i < TB_WIDE_BINS / 32; i++) {
            const uint4 x = s.part[i];
            if (i == warp) n += tokens, m += m_all, q += q_all;
            tokens += x.x;
            m_all += law_float(x.z);
            q_all += law_float(x.w);
        }
        rest = lane < W::WARPS ? s.rest[lane] : 0.0f;
#pragma unroll
        for (int d = 1; d < W::WARPS; d *= 2) rest += __shfl_xor_sync(TB_WHOLE_WARP, rest, d);
        rest = __shfl_sync(TB_WHOLE_WARP, rest, 0);
        if (tid < TB_WIDE_BINS) { /* from now on the bins hold what is in them and above */
            uint32_t upto = n;
#pragma unroll
            for (int i = 0; i < 4; i++) bins[tid * 4 + i] = upto += bins[tid * 4 + i];
        }
        const float total = (m_all + rest) * each, wanted = below && mass < 0.0f ? -mass * total : mass,
                    spread = each - 0.9f, share = __fdividef(1.0f, (float)s.slice.length),
                    blur = 0.35f * step * scale, /* of a weight, as that of its bin: ln2 / 2 */
            room = (float)(C * s.limit);
        uint32_t from, to;
        bool close;
#pragma unroll 1
        for (float z = 4.4f;; z -= 0.55f) {
            if (tid < TB_WIDE_BINS) {
                uint32_t low = ~0u, high = 0, n_upto = n;
                float m_upto = m, q_upto = q;
#pragma unroll 1
                for (int i = 0; i < 4; i++) {
                    const float w = weight(tid * 4 + i), number = (float)(bins[tid * 4 + i] - n_upto);
                    n_upto = bins[tid * 4 + i];
                    m_upto += number * w;
                    q_upto += number * w * w;
                    const uint32_t at = tid * 4 + i + 1;
                    /* is there enough above the bin's lower end, or too little, for sure */
                    bool enough = false, little = true;
                    if (k != TB_NO_LIMIT) {
                        const float count = (float)n_upto * each,
                                    off = z *
                                          root(spread * (fmaxf(count - count * count * share, 0.0f) + each));
                        const float over = count - (float)k;
                        enough = over >= off;
                        little = over <= -off;
                    }
                    if (by_mass) {
                        const float sum = below ? total - m_upto * each : m_upto * each,
                                    squares = (below ? q_all - q_upto + rest * w : q_upto) * each,
                                    off = blur * sum +
                                          z * root(spread * (fmaxf(squares - sum * sum * share, 0.0f) +
                                                             2.0f * each * w * w));
                        const float over = below ? wanted - sum : sum - wanted;
                        enough |= over >= off;
                        little &= over <= -off;
                    }
                    if (enough) low = min(low, at);
                    if (little) high = max(high, at);
                }
                low = tb_warp_min(low);
                high = tb_warp_max(high);
                if (lane == 0) atomicMin(&s.mark[TB_MARK_LOW], low), atomicMax(&s.mark[TB_MARK_HIGH], high);
            }
            W::barrier();
            from = min(s.mark[TB_MARK_LOW], BINS + 1u);
            to = min(s.mark[TB_MARK_HIGH], BINS - 1u);
            if (from <= to) from = to + 1;
            const uint32_t upto = from > BINS ? tokens : bins[from - 1];
            if ((float)upto * each <= 0.6f * room) to = 0; /* all of them fit the lists */
            close = (float)(upto - (to ? bins[to - 1] : 0u)) * each <= 0.9f * room;
            if (close || z < 3.5f) break;
            W::barrier();
            if (tid == 0) s.mark[TB_MARK_LOW] = ~0u, s.mark[TB_MARK_HIGH] = 0;
            W::barrier();
        }
        tb_wide_bracket out = {from <= BINS       ? edge(from)
                               : k != TB_NO_LIMIT ? bottom
                                                  : fmaxf(bottom, top - range) + 0.0f,
                               edge(to)};
        if (!close) { /* one value only? */
            uint32_t first = ~0u, last = 0;
            each_value([&](float x) {
                const bool inside = x >= out.low && x <= out.high;
                if (inside) first = min(first, law_key(x)), last = max(last, law_key(x));
            });
            first = tb_warp_min(first);
            last = tb_warp_max(last);
            if (lane == 0) atomicMin(&s.mark[TB_MARK_FIRST], first), atomicMax(&s.mark[TB_MARK_LAST], last);
            W::barrier();
            if (s.mark[TB_MARK_FIRST] == s.mark[TB_MARK_LAST])
                out.low = out.high = law_key_value(s.mark[TB_MARK_LAST]);
        }
        W::barrier();
        if (tid < TB_WIDE_BINS)
#pragma unroll
            for (int i = 0; i < 4; i++) bins[tid * 4 + i] = 0;
        return out;
    }

    /* A histogram, by values or by keys, of the tokens in [low, high]: count, greatest complement of a key,
     * greatest key, mass. The bins go down from `high`; what is of little weight meets in the last one, which
     * the threads fill in registers. The masses are rounded to a unit of which all tokens of the row have
     * less than 2^32 together; returns it, of 2^40. */
    static __device__ __noinline__ float fill_range(float low, float high, bool by_key)
    {
        shared &s = W::all();
        constexpr uint32_t last = TB_WIDE_BINS - 1;
        float range = high - low;
        if (s.least < high) range = fminf(range, high - s.least);
        if (s.scale > 0.0f) range = fminf(range, TB_WIDE_DEPTH / s.scale);
        const float most = 4294967040.0f / (float)(s.slice.length + 1);
        const float inverse = range > 0.0f ? ((float)TB_WIDE_BINS - 0.1f) / range : 0.0f;
        const uint32_t key_high = law_key(high), span = key_high - law_key(low);
        const int shift = span >> 8 ? 24 - __clz(span) : 0;
        constexpr int N = 16 / width; /* loads in flight */
        uint32_t rest[4] = {};
#pragma unroll 1
        for (int i = W::PIECES - 1; i >= 0; i--) {
            const chunk c = W::piece_of(s.slice, W::number(i));
#pragma unroll 1
            for (int j0 = 0; j0 < c.loads; j0 += N) {
                uint4 v[N];
                W::template load<N>(s.slice, c, j0, v);
#pragma unroll 1
                for (int j = 0; j < N; j++) { /* the next vector moves to v[0]: little code */
                    const uint4 one = s.infinite ? tb_only_infinite<dtype>(v[0]) : v[0];
#pragma unroll
                    for (int i = 1; i < N; i++) v[i - 1] = v[i];
#pragma unroll
                    for (int e = 0; e < width; e++) {
                        const float x = tb_element<dtype>(one, e);
                        if (!(x >= low && x <= high)) continue;
                        const uint32_t key = law_key(x),
                                       bin = by_key ? (key_high - key) >> shift
                                                    : (uint32_t)fminf((high - x) * inverse, (float)last),
                                       /* where they all weigh the same the exponent may be no number: then it
                                        * is 0 */
                            mass = (uint32_t)(tb_ex2(fminf((x - high) * s.scale, 0.0f)) * most);
                        if (bin == last) {
                            rest[0]++;
                            rest[1] = max(rest[1], ~key);
                            rest[2] = max(rest[2], key);
                            rest[3] += mass;
                            continue;
                        }
                        atomicAdd(&s.bin[0][bin], 1u);
                        atomicMax(&s.bin[1][bin], ~key);
                        atomicMax(&s.bin[2][bin], key);
                        atomicAdd(&s.bin[3][bin], mass);
                    }
                }
            }
        }
        __syncwarp();
        rest[0] = tb_warp_sum(rest[0]);
        rest[1] = tb_warp_max(rest[1]);
        rest[2] = tb_warp_max(rest[2]);
        rest[3] = tb_warp_sum(rest[3]);
        if (tb_lane() == 0 && rest[0]) {
            atomicAdd(&s.bin[0][last], rest[0]);
            atomicMax(&s.bin[1][last], rest[1]);
            atomicMax(&s.bin[2][last], rest[2]);
            atomicAdd(&s.bin[3][last], rest[3]);
        }
        return tb_ex2((high - s.maximum) * s.scale) / most;
    }

    /* From histograms of all tokens in [low, high]: one bin, or less, in which the boundary seems to be. With
     * `from_top`, count and mass are of the tokens above `high`, else of those from `low` up. */
    static __device__ __noinline__ tb_wide_bracket narrow(float low, float high, bool from_top,
                                                          uint32_t count, uint64_t mass, uint32_t k,
                                                          uint64_t target, uint32_t *turn)
    {
        shared &s = W::all();
        uint32_t start = count;
        /* as far as the boundary: of what may be much less than the masses above it */
        float lacking = target == TB_NO_MASS ? LAW_INF : (float)(int64_t)(target - mass) * 0x1p-40f;
#pragma unroll 1
        for (int round = 0;; round++) {
            const float unit = fill_range(low, high, round & 1);
            uint4 bin = W::merge((*turn)++ & 1);
            uint32_t n, m, tokens, total;
            W::template scan<uint32_t>(bin.x, bin.w, &n, &m, &tokens, &total);
            if (!tokens) return {low, low};
            if (round == 0 && !from_top) {
                start -= tokens;
                lacking += (float)total * unit;
            }
            /* the number of the token, and of the unit of mass, at the boundary; past the end: the last */
            const float rest = lacking / unit;
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
            W::barrier();
            const tb_wide_found found = s.found;
            low = found.low;
            high = found.high;
            if (found.held <= s.limit || low == high) return {low, high};
            start += found.count;
            lacking -= (float)found.mass * unit;
        }
    }

    /* ---- equal tokens, counted ---- */

    /* Of the tokens equal to x in a piece: index of the number-th (from 0), 0xffffffff if there are not so
     * many; and how many have an index above `last`. */
    static __device__ __noinline__ uint2 count_ties(int piece, float x, uint32_t number, uint32_t last)
    {
        const shared &s = W::all();
        const chunk c = W::piece_of(s.slice, piece);
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

    /* Index of the number-th, from 0, of the row's tokens equal to x, which are those that the look found
     * between the bracket's ends. */
    static __device__ __noinline__ uint32_t find_tie(const typename W::words *word, float x, uint32_t number,
                                                     uint32_t &words)
    {
        const int lane = (int)tb_lane();
        uint32_t index = 0xffffffffu;
#pragma unroll 1
        for (int i = 0; i < W::PIECES; i++) {
            const int me = W::number(i);
            uint32_t before = 0;
#pragma unroll 1
            for (int j = lane; j < me; j += 32) before += word->piece[j].w;
            before = tb_warp_sum(before);
            if (number >= before && number - before < word->piece[me].w)
                index = count_ties(me, x, number - before, TB_LAST_INDEX).x;
        }
        const typename W::words *all = W::say(words++, make_uint4(index, 0, 0, 0));
        uint32_t last = 0xffffffffu;
#pragma unroll 1
        for (int i = lane; i < ROW_WARPS; i += 32) last = min(last, all->warp[i].x);
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
