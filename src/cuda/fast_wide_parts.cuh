/*
 * What the wide code (fast_wide.cuh) is made of: what its blocks hold in shared memory, words and
 * histograms brought together from all blocks of a row, and the looks over the row.
 */
#ifndef TB_CUDA_FAST_WIDE_PARTS_CUH
#define TB_CUDA_FAST_WIDE_PARTS_CUH

#include "fast_parts.cuh"

extern __shared__ __align__(128) unsigned char tb_wide_bytes[];

#define TB_WIDE_BINS 256
#define TB_WIDE_PIECES 256  /* of a warp's chunk, for the draw */
#define TB_WIDE_SAMPLE 8    /* one load of a chunk in so many is in the sample; a power of two */
#define TB_WIDE_DEPTH 41.0f /* t below it: no weight */
#define TB_NO_LIMIT 0xffffffffu
#define TB_NO_MASS (~(uint64_t)0)
#define TB_LAST_INDEX ((1u << LAW_INDEX_BITS) - 1)

/* A floor of a kept set: the tokens of greater key, and of this key those of index up to `last`. */
TB_DEV uint64_t tb_wide_floor(uint32_t key, uint32_t last)
{
    /* no value has the key between those of zero and of the greatest negative number, which floats would
     * call equal to zero */
    if (key == 0x7fffffffu) key++, last = TB_LAST_INDEX;
    return tb_place(key, last);
}

/* The greatest value below x. */
TB_DEV float tb_wide_below(float x)
{
    uint32_t key = law_key(x) - 1;
    return law_key_value(key == 0x7fffffffu ? key - 1 : key);
}

TB_DEV float tb_wide_above(float x)
{
    uint32_t key = law_key(x) + 1;
    return law_key_value(key == 0x7fffffffu ? key + 1 : key);
}

TB_DEV float tb_warp_scan_float(float x)
{
#pragma unroll
    for (unsigned d = 1; d < 32; d *= 2) {
        float below = __shfl_up_sync(TB_WHOLE_WARP, x, d);
        if (tb_lane() >= d) x += below;
    }
    return x;
}

/* +inf becomes 0, anything else -inf: of a row with +inf entries only they are in K0, all equal. */
template <int dtype> TB_DEV uint4 tb_only_infinite(uint4 v)
{
    uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (dtype == TOMBOLA_F32) {
            word[i] = word[i] == 0x7f800000u ? 0u : 0xff800000u;
        } else {
            constexpr uint32_t infinite = dtype == TOMBOLA_F16 ? 0x7c00u : 0x7f80u,
                               least = infinite | 0x8000u;
            word[i] = ((word[i] & 0xffffu) == infinite ? 0u : least) |
                      (word[i] >> 16 == infinite ? 0u : least << 16);
        }
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

/* Where in a histogram of a range some number, or mass, of tokens is reached from the top down. */
typedef struct tb_wide_edge {
    float x;        /* by interpolation in its bin */
    uint32_t count; /* down to the end of the bin */
} tb_wide_edge;

/* What the exact look has found. */
typedef struct tb_wide_sums {
    uint64_t mass, total; /* from the lower end of the bracket up; of the row */
    uint64_t target;      /* of top_p */
    uint32_t count;       /* from the lower end up */
    uint32_t between;     /* in the bracket */
} tb_wide_sums;

/* A bin of a histogram, with what lies above it. */
typedef struct tb_wide_found {
    uint32_t held, count;
    uint64_t mass;
    float low, high; /* its least and greatest value */
    int bin;
} tb_wide_found;

typedef struct tb_wide_bracket {
    float low, high;
} tb_wide_bracket;

template <int dtype, int C, int NT, int U, int CAP> struct tb_wide {
    static constexpr int WARPS = NT / 32, ROW_WARPS = C * WARPS, width = tb_fast_vector<dtype>::width;
    static constexpr int CAPACITY = CAP, ROW_CAPACITY = C * CAP;
    static_assert(NT >= TB_WIDE_BINS, "a thread for each bin");

    struct shared {
        uint4 word[2][ROW_WARPS][2]; /* of every warp of the row, of this exchange and of the one before */
        uint32_t bin[4]
                    [TB_WIDE_BINS]; /* of this block; clear when not in use; not uint4, which share banks */
        uint4 in[TB_WIDE_BINS / C][C]; /* of all blocks, this block's share */
        uint4 all[TB_WIDE_BINS];       /* of the row */
        uint4 part[TB_WIDE_BINS / 32]; /* of a scan */
        tb_wide_edge edge[5];
        tb_wide_found found;
        tb_wide_sums sums;
        uint2 list[CAP]; /* value bits, index | warp << 22 */
        uint32_t drop_high[WARPS], drop_low[WARPS], drop_count[WARPS];
        tb_fast_chain chain;
        tb_fast_slice slice;
        uint64_t random;
        uint64_t mail[2], mail_in, mail_bins; /* mbarriers */
        uint32_t pushed, infinite, flat, status, estimated, at_top;
        int owner;
        float relative; /* about the mass of the row, of 2^40 */
        uint64_t kept_mass, position;
        uint32_t kept;
        uint32_t greatest_key;
        float greatest, least; /* of the row; of a sample of it */
        float maximum, scale;  /* of the weights: as of the row, 0 and 0 where all weigh the same */
        float least_before, least_after;
    };
    static constexpr size_t BYTES = (sizeof(shared) + 127) / 128 * 128;

    static TB_MEMBER shared &all()
    {
        return *(shared *)tb_wide_bytes;
    }

    static TB_MEMBER int block()
    {
        return C == 1 ? 0 : (int)(blockIdx.x % C);
    }

    /* ---- between blocks ---- */

    /* Two vectors of this warp to every block of the row. A barrier of the block must follow the reading
     * before a warp sends again; so where all words of one exchange are there, those of the one before have
     * been read, and two buffers do. */
    static TB_MEMBER void send(uint32_t turn, uint4 a, uint4 b)
    {
        shared &s = all();
        int lane = (int)tb_lane(), warp = (int)tb_warp(), which = turn & 1;
        if (C == 1) {
            if (lane == 0) s.word[which][warp][0] = a, s.word[which][warp][1] = b;
            return;
        }
        uint4 *to = s.word[which][block() * WARPS + warp];
        if (lane < 2 * C) tb_mail_16(to + lane / C, lane % C, lane / C ? b : a, &s.mail[which]);
        __syncwarp();
        if (threadIdx.x == 0)
            tb_mail_expect(&s.mail[which], ROW_WARPS * 32);
        else if (lane == 0)
            tb_mail_arrive(&s.mail[which]);
    }

    /* The words of all warps, once they have come: for the first warp, which reads them for all. */
    static TB_MEMBER const uint4 (*receive(uint32_t turn))[2]
    {
        shared &s = all();
        if (C == 1)
            __syncthreads();
        else if (tb_warp() == 0)
            tb_mail_wait(&s.mail[turn & 1], turn >> 1 & 1);
        return s.word[turn & 1];
    }

    /* The blocks' bins, added up (MASSES: count and mass in two digits; else count, two greatest values,
     * mass): thread i gets bin i of the row. Each block gets its share of the bins from all, and sends the
     * sums to all. The blocks' own bins are cleared on the way. */
    template <bool MASSES> static __device__ __noinline__ uint4 merge(uint32_t parity)
    {
        shared &s = all();
        constexpr int SHARE = TB_WIDE_BINS / C;
        const int tid = (int)threadIdx.x;
        uint4 x = make_uint4(0, 0, 0, 0);
        __syncthreads();
        if (tid < TB_WIDE_BINS) {
            x = make_uint4(s.bin[0][tid], s.bin[1][tid], s.bin[2][tid], s.bin[3][tid]);
            s.bin[0][tid] = s.bin[1][tid] = s.bin[2][tid] = s.bin[3][tid] = 0;
        }
        if (C > 1) {
            if (tid < TB_WIDE_BINS) tb_mail_16(&s.in[tid % SHARE][block()], tid / SHARE, x, &s.mail_in);
            if (tid == 0) tb_mail_expect(&s.mail_in, TB_WIDE_BINS * 16);
            __syncwarp();
            tb_mail_wait(&s.mail_in, parity);
            if (tid < TB_WIDE_BINS) x = s.in[tid / C][tid % C];
        }
        if (MASSES) {
            uint64_t mass = tb_join(x.y, x.z);
#pragma unroll
            for (int d = 1; d < C; d *= 2) {
                x.x += __shfl_xor_sync(TB_WHOLE_WARP, x.x, d);
                mass += __shfl_xor_sync(TB_WHOLE_WARP, mass, d);
            }
            x.y = (uint32_t)mass;
            x.z = (uint32_t)(mass >> 32);
        } else {
#pragma unroll
            for (int d = 1; d < C; d *= 2) {
                x.x += __shfl_xor_sync(TB_WHOLE_WARP, x.x, d);
                x.y = max(x.y, __shfl_xor_sync(TB_WHOLE_WARP, x.y, d));
                x.z = max(x.z, __shfl_xor_sync(TB_WHOLE_WARP, x.z, d));
                x.w += __shfl_xor_sync(TB_WHOLE_WARP, x.w, d);
            }
        }
        if (C > 1) {
            if (tid < TB_WIDE_BINS) tb_mail_16(&s.all[block() * SHARE + tid / C], tid % C, x, &s.mail_bins);
            if (tid == 0) tb_mail_expect(&s.mail_bins, TB_WIDE_BINS * 16);
            __syncwarp();
            tb_mail_wait(&s.mail_bins, parity);
            if (tid < TB_WIDE_BINS) x = s.all[tid];
        }
        return x;
    }

    /* ---- the row ---- */

    /* The part of the row that a warp of the block has, in loads of 32 vectors. */
    struct chunk {
        uint32_t first, end;
        int loads;
    };

    static TB_MEMBER chunk chunk_of(const tb_fast_slice &slice, int warp)
    {
        uint32_t share = (slice.end - slice.first + WARPS - 1) / WARPS;
        chunk c;
        c.first = min(slice.end, slice.first + share * warp);
        c.end = min(slice.end, c.first + share);
        c.loads = (int)((c.end - c.first + 31) / 32);
        return c;
    }

    /* Tokens for each one of the sample. */
    static TB_MEMBER float sampled(const tb_fast_slice &slice)
    {
        uint32_t vectors = (slice.shift + slice.length + width - 1) / width,
                 block_share = (vectors + C - 1) / C, share = (block_share + WARPS - 1) / WARPS,
                 whole = share / (32 * TB_WIDE_SAMPLE), rest = share % (32 * TB_WIDE_SAMPLE);
        return (float)share / (float)(whole * 32 + min(rest, 32u));
    }

    /* Vectors j0 .. j0 + N of this thread's, from memory. */
    template <int N>
    static TB_MEMBER void load(const tb_fast_slice &slice, const chunk &c, int j0, uint4 (&v)[N])
    {
        constexpr uint32_t none = tb_minus_infinity<dtype>();
        uint32_t vector = c.first + (uint32_t)j0 * 32;
        if (vector >= slice.whole_first && vector + N * 32 <= min(c.end, slice.whole_end)) {
            const char *at = slice.base + (size_t)(vector + tb_lane()) * 16;
#pragma unroll
            for (int j = 0; j < N; j++) v[j] = tb_load_stream(at + j * 512);
            return;
        }
        /* the vectors across the row's ends: the first, and number whole_end */
        vector += tb_lane();
        const uint32_t end = min(c.end, slice.whole_end), tail_at = slice.whole_end - vector;
        const bool has_head = slice.whole_first && vector == 0,
                   has_tail = slice.whole_end < c.end && tail_at < N * 32 && tail_at % 32 == 0;
        uint4 head = make_uint4(none, none, none, none), tail = head;
        if (has_head) head = tb_load_edge<dtype, 1>(slice.base, 0u - slice.shift, slice.length);
        if (has_tail)
            tail = tb_load_edge<dtype, 1>(slice.base + (size_t)slice.whole_end * 16,
                                          slice.whole_end * width - slice.shift, slice.length);
#pragma unroll
        for (int j = 0; j < N; j++) {
            v[j] = make_uint4(none, none, none, none);
            if (vector + j * 32 >= slice.whole_first && vector + j * 32 < end)
                v[j] = tb_load_stream(slice.base + (size_t)(vector + j * 32) * 16);
            if (j == 0 && has_head) v[j] = head;
            if (has_tail && tail_at == (uint32_t)j * 32) v[j] = tail;
        }
    }

    /* Load j of the chunk of a warp of this block. */
    static TB_MEMBER uint4 fetch(const chunk &c, int j)
    {
        const shared &s = all();
        uint4 v[1];
        load<1>(s.slice, c, j, v);
        return s.infinite ? tb_only_infinite<dtype>(v[0]) : v[0];
    }

    /* The exact weight of a token, in two digits. */
    static TB_MEMBER void weigh(float x, float maximum, float scale, uint32_t *high, uint32_t *low)
    {
        tb_weigh(fmaxf(law_exponent(x, maximum, scale), -64.0f), high, low);
        *high -= TB_HIGH_BIAS;
        *low -= TB_LOW_BIAS;
    }

    /* The exact look: mass and count of the tokens >= low, mass of all; those in [low, high] are counted and,
     * where `collect` says so, listed. Sends { mass, count, of [low, high] }, { mass of all } of each warp.
     */
    static __device__ __noinline__ void look(float low, float high, bool collect, uint32_t turn)
    {
        shared &s = all();
        const int lane = (int)tb_lane(), warp = (int)tb_warp();
        const tb_fast_slice slice = s.slice;
        const chunk c = chunk_of(slice, warp);
        const float maximum = s.maximum, scale = s.scale;
        const bool infinite = s.infinite;
        uint64_t mass = 0, total = 0;
        uint32_t count = 0, between = 0;
        /* Backwards: what the pass has read last is still in L2. 32-bit sums of digits hold for 4095
         * elements of a thread. */
        constexpr int STRETCH = 2048 / width;
#pragma unroll 1
        for (int from = (c.loads - 1) / STRETCH * STRETCH; from >= 0; from -= STRETCH) {
            uint32_t high_sum = 0, low_sum = 0, high_all = 0, low_all = 0, n = 0;
            const int to = min(c.loads, from + STRETCH);
#pragma unroll 1
            for (int j0 = from + (to - from + U - 1) / U * U - U; j0 >= from; j0 -= U) {
                uint4 v[U];
                load<U>(slice, c, j0, v);
                if (infinite)
#pragma unroll
                    for (int j = 0; j < U; j++) v[j] = tb_only_infinite<dtype>(v[j]);
                uint32_t passes = 0;
#pragma unroll
                for (int j = 0; j < U; j++)
#pragma unroll
                    for (int e = 0; e < width; e++) {
                        float x = tb_element<dtype>(v[j], e);
                        uint32_t h, l;
                        tb_weigh(fmaxf(law_exponent(x, maximum, scale), -64.0f), &h, &l);
                        high_all += h;
                        low_all += l;
                        if (x >= low) {
                            high_sum += h;
                            low_sum += l;
                            n++;
                            if (x <= high) passes |= 1u << (j * width + e);
                        }
                    }
                high_all -= TB_HIGH_BIAS * (uint32_t)(U * width);
                low_all -= TB_LOW_BIAS * (uint32_t)(U * width);
                if (!passes) continue;
                between += (uint32_t)__popc(passes);
                if (!collect) continue;
                uint32_t at = atomicAdd(&s.pushed, (uint32_t)__popc(passes));
#pragma unroll
                for (int j = 0; j < U; j++)
#pragma unroll
                    for (int e = 0; e < width; e++) {
                        if (!(passes >> (j * width + e) & 1u)) continue;
                        uint32_t vector = c.first + (uint32_t)(j0 + j) * 32 + (uint32_t)lane,
                                 index = vector * width + (uint32_t)e - slice.shift;
                        if (at < (uint32_t)CAP)
                            s.list[at] = make_uint2(law_bits(tb_element<dtype>(v[j], e)),
                                                    index | (uint32_t)warp << LAW_INDEX_BITS);
                        at++;
                    }
            }
            mass += tb_join(high_sum - n * TB_HIGH_BIAS, low_sum - n * TB_LOW_BIAS);
            total += tb_join(high_all, low_all);
            count += n;
        }
        __syncwarp();
        mass = tb_warp_sum64(mass);
        total = tb_warp_sum64(total);
        count = tb_warp_sum(count);
        between = tb_warp_sum(between);
        send(turn, make_uint4((uint32_t)mass, (uint32_t)(mass >> 32), count, between),
             make_uint4((uint32_t)total, (uint32_t)(total >> 32), 0, 0));
    }

    /* A histogram, by values or by keys, of the tokens in [low, high], of every step-th load: count, greatest
     * complement of a key, greatest key, mass. The bins go down from `high`. The masses are rounded to a unit
     * of which all tokens of the row have less than 2^32 together; returns it, of 2^40. */
    static __device__ __noinline__ float fill_range(float low, float high, int step, bool by_key)
    {
        shared &s = all();
        const int warp = (int)tb_warp();
        const chunk c = chunk_of(s.slice, warp);
        float range = high - low;
        if (s.least < high) range = fminf(range, high - s.least);
        if (s.scale > 0.0f) range = fminf(range, TB_WIDE_DEPTH / s.scale);
        const float most = 4294967040.0f / (float)(s.slice.length + 1);
        const float inverse = range > 0.0f ? ((float)TB_WIDE_BINS - 0.1f) / range : 0.0f;
        const uint32_t key_high = law_key(high), span = key_high - law_key(low);
        const int shift = span >> 8 ? 24 - __clz(span) : 0;
        constexpr int N = 16 / width; /* loads in flight */
#pragma unroll 1
        for (int j0 = 0; j0 < c.loads; j0 += N * step) {
            constexpr uint32_t none = tb_minus_infinity<dtype>();
            uint4 v[N];
#pragma unroll
            for (int i = 0; i < N; i++)
                v[i] = j0 + i * step < c.loads ? fetch(c, j0 + i * step) : make_uint4(none, none, none, none);
#pragma unroll
            for (int i = 0; i < N; i++)
#pragma unroll
                for (int e = 0; e < width; e++) {
                    float x = tb_element<dtype>(v[i], e);
                    if (!(x >= low && x <= high)) continue;
                    uint32_t key = law_key(x),
                             bin = by_key ? (key_high - key) >> shift
                                          : (uint32_t)fminf((high - x) * inverse, (float)(TB_WIDE_BINS - 1));
                    atomicAdd(&s.bin[0][bin], 1u);
                    atomicMax(&s.bin[1][bin], ~key);
                    atomicMax(&s.bin[2][bin], key);
                    /* where they all weigh the same the exponent may be no number: then it is 0 */
                    atomicAdd(&s.bin[3][bin], (uint32_t)(tb_ex2(fminf((x - high) * s.scale, 0.0f)) * most));
                }
        }
        return tb_ex2((high - s.maximum) * s.scale) / most;
    }

    /* ---- scans over the bins, a thread each ---- */

    /* What the bins above this thread's hold, and all. Two barriers' worth of time; the second is the
     * caller's. */
    template <class T>
    static TB_MEMBER void scan(uint32_t n, T m, uint32_t *n_before, T *m_before, uint32_t *n_all, T *m_all)
    {
        shared &s = all();
        const int lane = (int)tb_lane(), warp = (int)tb_warp();
        uint32_t n_upto = n;
        T m_upto = m;
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            uint32_t a = __shfl_up_sync(TB_WHOLE_WARP, n_upto, d);
            T b = __shfl_up_sync(TB_WHOLE_WARP, m_upto, d);
            if (lane >= d) n_upto += a, m_upto += b;
        }
        if (lane == 31 && warp < TB_WIDE_BINS / 32)
            s.part[warp] = make_uint4(n_upto, 0, (uint32_t)m_upto, (uint32_t)((uint64_t)m_upto >> 32));
        __syncthreads();
        uint32_t n_sum = 0;
        T m_sum = 0;
        *n_before = n_upto - n;
        *m_before = m_upto - m;
#pragma unroll
        for (int i = 0; i < TB_WIDE_BINS / 32; i++) {
            uint4 x = s.part[i];
            if (i == warp) *n_before += n_sum, *m_before += m_sum;
            n_sum += x.x;
            m_sum += (T)((uint64_t)x.w << 32 | x.z);
        }
        *n_all = n_sum;
        *m_all = m_sum;
    }

    /* ---- the list ---- */

    /* A token's place among those that the ties tell apart. */
    static TB_MEMBER uint64_t place(uint32_t key, uint32_t index, bool by_index)
    {
        return tb_place(key, by_index ? index : TB_LAST_INDEX);
    }

    /* Exact histogram of the listed tokens in [low, high], places: bins of 2^shift places from `high` down.
     */
    static __device__ __noinline__ void fill_list(uint64_t low, uint64_t high, int shift, bool by_index)
    {
        shared &s = all();
        const float maximum = s.maximum, scale = s.scale;
        const uint32_t n = min(s.pushed, (uint32_t)CAP);
        for (uint32_t i = threadIdx.x; i < n; i += NT) {
            uint2 a = s.list[i];
            float x = law_float(a.x);
            uint64_t at = place(law_key(x), a.y & TB_LAST_INDEX, by_index);
            if (at < low || at > high) continue;
            uint32_t h, l, bin = (uint32_t)((high - at) >> shift);
            weigh(x, maximum, scale, &h, &l);
            atomicAdd(&s.bin[0][bin], 1u);
            atomicAdd(&s.bin[1][bin], h);
            atomicAdd(&s.bin[2][bin], l);
        }
    }

    /* Of a merged exact histogram, bin by thread, with what lies above each bin: the bin below whose end
     * nothing is kept, by every thread. There must be one. */
    static TB_MEMBER tb_wide_found find_in_list(uint4 bin, uint32_t above, uint64_t mass_above, uint32_t k,
                                                uint64_t target)
    {
        shared &s = all();
        uint64_t own = (uint64_t)bin.z << 32 | bin.y;
        if (threadIdx.x < TB_WIDE_BINS && above < k && mass_above < target &&
            (above + bin.x >= k || mass_above + own >= target)) {
            tb_wide_found found = {bin.x, above, mass_above, 0.0f, 0.0f, (int)threadIdx.x};
            s.found = found;
        }
        __syncthreads();
        return s.found;
    }
};

/* The drawn token, in the one thread that has found it. */
typedef struct tb_wide_drawn {
    bool mine;
    int32_t index;
    float x;
} tb_wide_drawn;

#endif
