/*
 * What the fast kernels share: a chain reduced to its few numbers, and tiles of a row in registers with their
 * certified f32 sums.
 */
#ifndef TB_CUDA_FAST_PARTS_CUH
#define TB_CUDA_FAST_PARTS_CUH

#include "../../law/logprob.h"
#include "../../law/mass.h"
#include "../../law/order.h"
#include "../../law/philox.h"
#include "../../law/weight.h"
#include "fast_cluster.cuh"
#include "../params.h"
#include "primitives.cuh"
#include "row.cuh"

#define TB_OFF 0x7fffffff           /* a top_k that is off */
#define TB_LEAST (-3.402823466e38f) /* the least finite f32: a bound that lets all of K0 pass */

/* ---- small arithmetic ---- */

/* NaN if either is. */
TB_DEV float tb_max_nan(float a, float b)
{
    float x;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
    return x;
}

/* 2^x, relative error at most 2^-22 (PTX; measured over all |x| in [2^-30, 64]: 2^-22.7). */
TB_DEV float tb_ex2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#define TB_MAGIC 12582912.0f /* 1.5 * 2^23: adding it rounds to an integer, ties to even */

/* 2^d of an integer d <= 0, exactly; 0 for d < -126. */
TB_DEV float tb_power(float d)
{
    float low_bits = fmaxf(d, -127.0f) + (TB_MAGIC + 127.0f);
    return law_float(law_bits(low_bits) << 23);
}

/* The integer exponent that a tile's sum refers to: rint(m * c), kept in [-2^21, 2^22]. Where |m * c| is
 * less than 2^21 it is within 1/2 (and a little) of m * c. */
TB_DEV float tb_reference_exponent(float m, float c)
{
    return fmaxf(__fmaf_rn(m, c, TB_MAGIC) - TB_MAGIC, -2097152.0f);
}

/* Weights as two 20-bit digits (the upper one has 21 bits), so that 32-bit sums of 4095 of them are exact. */
TB_DEV uint64_t tb_join(uint32_t high, uint32_t low)
{
    return ((uint64_t)high << 20) + low;
}

/* W(t) as two 20-bit digits with these biases, which leave sums as they are modulo 2^32:
 * e + 8, rounded towards zero, has e's bits down to 2^-20 in its significand; what is left of e, plus 2^-17,
 * those down to 2^-40. The same operations as law_exp2's, but for steps that change no result:
 * - n = rint(t) is in the low bits of t + 1.5 * 2^23, and the power of two is an addition to the exponent
 * - fl(t + 2) - (n + 2) is the law's fl(f + 1.5) - 1.5, f = t - n: t is a multiple of 2^-23 already where
 *   |t| >= 1, and nearer to 0 both sums have the same last bit, 2^-23, and the same parity of it
 * - (upper - 8) and 2^-17 are multiples of 2^-20, so 8 + 2^-17 - upper is exact. */
#define TB_HIGH_BIAS 0x41000000u
#define TB_LOW_BIAS 0x37000000u

/* E(t), not rounded to 2^-40, of t = step * u, an exact product. */
TB_DEV float tb_power_of_two(float u, float step)
{
    const float m = __fmaf_rn(u, step, TB_MAGIC), f = __fmaf_rn(u, step, 2.0f) - (m - (TB_MAGIC - 2.0f));
    float q = LAW_C5;
    q = __fmaf_rn(q, f, LAW_C4);
    q = __fmaf_rn(q, f, LAW_C3);
    q = __fmaf_rn(q, f, LAW_C2);
    q = __fmaf_rn(q, f, LAW_C1);
    q = __fmaf_rn(q, f, 1.0f);
    return law_float((law_bits(m) << 23) + law_bits(q));
}

TB_DEV void tb_split_power(float e, uint32_t *high, uint32_t *low)
{
    const float upper = __fadd_rz(e, 8.0f);
    *high = law_bits(upper);
    *low = law_bits(__fadd_rz(e, (8.0f + 0x1p-17f) - upper));
}

TB_DEV void tb_weigh_scaled(float u, float step, uint32_t *high, uint32_t *low)
{
    tb_split_power(tb_power_of_two(u, step), high, low);
}

/* For -64 <= t <= 0. */
TB_DEV void tb_weigh(float t, uint32_t *high, uint32_t *low)
{
    tb_weigh_scaled(t, 1.0f, high, low);
}

/* The sum of a thread's weights, fewer than 4096 of them: two of them at a time, as E(t), or as u and u2 of
 * tb_weigh_scaled with the step -64. */
template <class Sum> TB_DEV void tb_add_weights(Sum &sum, float u, float u2)
{
    sum.add_powers(tb_power_of_two(u, -64.0f), tb_power_of_two(u2, -64.0f));
}

/* In doubles, where these are half as fast as floats: between 4096 and 8192 the last bit of one is 2^-40, so
 * adding e, rounded towards zero, adds floor(e * 2^40). */
struct tb_double_sum {
    double even, odd;
    TB_MEMBER void clear()
    {
        even = odd = 4096.0;
    }
    TB_MEMBER void add_powers(float e, float e2)
    {
        even = __dadd_rz(even, (double)e);
        odd = __dadd_rz(odd, (double)e2);
    }
    TB_MEMBER uint64_t total() const
    {
        return (uint64_t)(__double_as_longlong(even) - __double_as_longlong(4096.0)) +
               (uint64_t)(__double_as_longlong(odd) - __double_as_longlong(4096.0));
    }
};

/* In two digits. */
struct tb_digit_sum {
    uint32_t high, low, count;
    TB_MEMBER void clear()
    {
        high = low = count = 0;
    }
    TB_MEMBER void add_powers(float e, float e2)
    {
        uint32_t h, l, h2, l2;
        tb_split_power(e, &h, &l);
        tb_split_power(e2, &h2, &l2);
        high += h + h2;
        low += l + l2;
        count += 2;
    }
    TB_MEMBER uint64_t total() const
    {
        return tb_join(high - TB_HIGH_BIAS * count, low - TB_LOW_BIAS * count);
    }
};

/* u, with t = -64 * u, at most 1: W(-64) is 0 as that of all below. `scale` is -1/64 of the exponents', which
 * is exact from TB_LEAST_SCALE up. NaN would give 0, the maximum's weight. Where u is subnormal it is not
 * exact, but W(t) is W(0). */
#define TB_LEAST_SCALE 0x1p-100f

TB_DEV float tb_scaled_exponent(float x, float maximum, float scale)
{
    float u, difference = x - maximum;
    asm("mul.rn.sat.f32 %0, %1, %2;" : "=f"(u) : "f"(difference), "f"(scale));
    return u;
}

/* ---- a chain, reduced ----
 *
 * With at most one top_p, K is { fewer than k greater tokens, weight at least w, mass of the greater ones
 * less than p * Z }: top_k and min_p steps commute, and only the Z of top_p depends on what stands before
 * it. A top_k_top_p counts its k among those after p.
 */
typedef struct tb_fast_chain {
    int32_t k_before, k_after;  /* TB_OFF: none */
    uint64_t w_before, w_after; /* 0: none */
    float p;
    float scale; /* of the exponents, 1 where the weights do not need it */
    uint8_t p_on, flat, greedy, bad;
} tb_fast_chain;

/* By one warp. Inlined, it reads the parameters as constants; not inlined, from memory. */
TB_DEV void tb_fast_parse_here(const tb_cuda_params &params, bool located, int64_t slot, tb_fast_chain *out)
{
    const tombola_call &call = params.call;
    int lane = (int)tb_lane(), kind = 0, k = 0;
    float value = 0.0f;
    bool bad = !located || slot < 0;
    if (!bad && lane < params.checked_steps) {
        const tombola_step &step = params.steps[lane];
        kind = step.kind;
        k = step.k_per_slot ? step.k_per_slot[slot] : step.k;
        value = step.value_per_slot ? step.value_per_slot[slot] : step.value;
        if (kind != TOMBOLA_TOP_K && law_isnan(value)) bad = true;
        if (kind == TOMBOLA_TEMPERATURE && value < 0.0f) bad = true;
    }
    bad = __any_sync(TB_WHOLE_WARP, bad);
    tb_fast_chain c = {TB_OFF, TB_OFF, 0, 0, 1.0f, LAW_LOG2E, 0, 0, 0, (uint8_t)bad};
    bool seen_p = false;
    for (int i = 0; i < call.step_count && !bad; i++) {
        int step_kind = __shfl_sync(TB_WHOLE_WARP, kind, i), step_k = __shfl_sync(TB_WHOLE_WARP, k, i);
        float step_value = __shfl_sync(TB_WHOLE_WARP, value, i);
        if (step_kind == TOMBOLA_TEMPERATURE) {
            law_temper temper = law_temperature(step_value);
            c.flat = temper.mode == LAW_FLAT;
            c.greedy = temper.mode == LAW_GREEDY;
            c.scale = temper.mode == LAW_SCALED ? temper.scale : 1.0f;
        }
        if (step_kind == TOMBOLA_TOP_P || step_kind == TOMBOLA_TOP_K_TOP_P) {
            seen_p = true;
            c.p = step_value;
            c.p_on = step_value < 1.0f;
        }
        if ((step_kind == TOMBOLA_TOP_K || step_kind == TOMBOLA_TOP_K_TOP_P) && step_k > 0) {
            if (seen_p)
                c.k_after = min(c.k_after, step_k);
            else
                c.k_before = min(c.k_before, step_k);
        }
        if (step_kind == TOMBOLA_MIN_P && step_value > 0.0f) {
            uint64_t w = law_min_p_weight(step_value, LAW_ONE);
            if (seen_p)
                c.w_after = w > c.w_after ? w : c.w_after;
            else
                c.w_before = w > c.w_before ? w : c.w_before;
        }
    }
    if (lane == 0) *out = c;
}

static __device__ __noinline__ void tb_fast_parse(const tb_cuda_params &params, int64_t index, bool located,
                                                  int64_t slot, tb_fast_chain *out)
{
    tb_fast_parse_here(params, located, slot, out);
}

/* tb_gpu_locate, in a few instructions for rows that lie as they are numbered. */
TB_DEV bool tb_fast_locate(const tombola_call &call, int64_t index, int64_t *start, int64_t *length)
{
    if ((uintptr_t)call.row_index | (uintptr_t)call.row_start | (uintptr_t)call.row_length)
        return tb_gpu_locate(call, index, start, length);
    const int64_t first = index * call.row_stride, count = call.vocab_size;
    const bool there = index < call.source_rows &&
                       (call.data_size <= 0 || (first <= call.data_size && count <= call.data_size - first));
    *start = there ? first : 0;
    *length = count;
    return there;
}

/* The row's random bits, by any thread. */
TB_DEV uint64_t tb_fast_random(const tombola_call &call, int64_t index, int64_t slot)
{
    if (slot < 0) return 0;
    if (call.random) return call.random[index];
    uint64_t seed = call.seeds ? call.seeds[slot] : call.seed;
    uint64_t offset = call.offsets ? call.offsets[slot] : call.offset;
    uint32_t stream = call.streams ? call.streams[index] : call.seeds ? 0u : (uint32_t)index;
    return law_random(seed, offset, stream, LAW_PURPOSE_DRAW, 0, 0);
}

/* By one thread of a row: where the call advances offsets, the row's next one. */
TB_DEV void tb_fast_advance(const tb_cuda_params &params, int64_t index, int64_t slot)
{
    if (params.call.advance_offsets && slot >= 0)
        tb_next_offsets(params)[index] = params.call.offsets[slot] + 1;
}

/* What the pass over the row needs early, by any thread: whether there is a top_p at all, and then the scale.
 */
TB_DEV bool tb_fast_needs_sums(const tb_cuda_params &params, int64_t slot, float *scale)
{
    bool sums = false;
    *scale = LAW_LOG2E;
#pragma unroll 1
    for (int i = 0; i < params.call.step_count; i++) {
        const tombola_step &step = params.steps[i];
        sums |= step.kind == TOMBOLA_TOP_P || step.kind == TOMBOLA_TOP_K_TOP_P;
        if (step.kind != TOMBOLA_TEMPERATURE) continue;
        float temperature = step.value;
        if (step.value_per_slot) temperature = slot >= 0 ? step.value_per_slot[slot] : 1.0f;
        law_temper temper = law_temperature(temperature);
        *scale = temper.mode == LAW_SCALED ? temper.scale : 1.0f;
    }
    return sums;
}

/* A value that no token of weight >= w, w >= 1, is less than. W(t) >= w gives 2^40 * 2^t * (1 + 2^-22) >= w,
 * so t >= log2(w) - 40 - 2^-21; the two roundings of t move x - m by less than 2^-22 of itself. The margins
 * below, 0.001 on t and 2e-6 on the quotient, cover these and the errors of lg2.approx (2^-22 and more near
 * 1, where the margin on t serves) and div.approx (2^-22); the last addition rounds downwards. */
TB_DEV float tb_least_value(float maximum, float scale, float w)
{
    float t = __log2f(w) - 40.0f - 0.001f;
    return fmaxf(__fadd_rd(maximum, __fdividef(t * 1.000002f, fminf(scale, 0x1p125f))), TB_LEAST);
}

/* ---- tiles: U vectors of 16 bytes of one thread ---- */

template <int dtype> struct tb_fast_vector {
    static constexpr int bytes = dtype == TOMBOLA_F32 ? 4 : 2,
                         width = 16 / bytes; /* of an element; elements */
};

/* The vectors of a row, or the contiguous part of them, [first, end), that block `rank` of `blocks` has. */
typedef struct tb_fast_slice {
    const char *base; /* of vector 0, aligned; it begins `shift` elements before the row */
    uint32_t shift, length;
    uint32_t first, end;
    uint32_t whole_first, whole_end; /* vectors that lie wholly inside the row */
} tb_fast_slice;

template <int dtype>
TB_DEV tb_fast_slice tb_make_slice(const void *row, uint32_t length, int rank, int blocks)
{
    constexpr uint32_t width = tb_fast_vector<dtype>::width;
    tb_fast_slice s;
    s.shift = (uint32_t)((uintptr_t)row & 15u) / tb_fast_vector<dtype>::bytes;
    s.length = length;
    s.base = (const char *)row - s.shift * tb_fast_vector<dtype>::bytes;
    uint32_t vectors = (s.shift + length + width - 1) / width, share = (vectors + blocks - 1) / blocks;
    s.first = min(vectors, share * rank);
    s.end = min(vectors, s.first + share);
    s.whole_first = s.shift ? 1 : 0;
    s.whole_end = max((s.shift + length) / width, s.whole_first); /* of a row within a vector: none */
    return s;
}

template <int dtype> TB_DEV constexpr uint32_t tb_minus_infinity(void)
{
    return dtype == TOMBOLA_F32 ? 0xff800000u : dtype == TOMBOLA_F16 ? 0xfc00fc00u : 0xff80ff80u;
}

/* A vector that lies across an end of the row: -inf outside. `first` is the index of its first element. */
template <int dtype, int WHO = 0>
static __device__ __noinline__ uint4 tb_load_edge(const char *at, uint32_t first, uint32_t length)
{
    constexpr uint32_t none = tb_minus_infinity<dtype>(), width = tb_fast_vector<dtype>::width;
    uint32_t word[4] = {none, none, none, none};
#pragma unroll
    for (uint32_t e = 0; e < width; e++) {
        if (first + e >= length) continue; /* before the row it wraps around */
        if (dtype == TOMBOLA_F32) {
            word[e % 4] = ((const uint32_t *)at)[e];
        } else {
            uint32_t bits = ((const uint16_t *)at)[e], move = e % 2 * 16;
            word[e / 2 % 4] = (word[e / 2 % 4] & ~(0xffffu << move)) | bits << move;
        }
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

TB_DEV uint4 tb_load_stream(const void *at)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at));
    return v;
}

/* Any tile, of vectors `stride` apart: -inf where the block has nothing. */
template <int dtype, int stride, int U>
TB_DEV void tb_load_tile(const tb_fast_slice &s, uint32_t start, uint4 (&v)[U])
{
    constexpr uint32_t none = tb_minus_infinity<dtype>(), width = tb_fast_vector<dtype>::width;
    uint4 head = make_uint4(none, none, none, none), tail = head;
    uint32_t mine = start + threadIdx.x, tail_at = s.whole_end - mine, end = min(s.end, s.whole_end);
    uint32_t inner = end > s.whole_first ? end - s.whole_first : 0;
    bool has_head = s.whole_first && mine == 0; /* vector 0 is the first of its tile */
    bool has_tail = tail_at < stride * U && tail_at % stride == 0 && s.whole_end < s.end;
    if (has_head) head = tb_load_edge<dtype>(s.base, 0u - s.shift, s.length);
    if (has_tail)
        tail =
            tb_load_edge<dtype>(s.base + (size_t)s.whole_end * 16, s.whole_end * width - s.shift, s.length);
    const char *at = s.base + (size_t)mine * 16;
#pragma unroll
    for (int j = 0; j < U; j++) {
        v[j] = make_uint4(none, none, none, none);
        if (mine + j * stride - s.whole_first < inner) v[j] = tb_load_stream(at + j * (stride * 16));
        if (j == 0 && has_head) v[j] = head;
        if (has_tail && tail_at == (uint32_t)(j * stride)) v[j] = tail;
    }
}

/* A tile on its way to its copy in shared memory, where it is -inf where the block has nothing. `start` is
 * the first of its vectors, which are `stride` apart; each thread brings those that it will look at. */
template <int dtype, int stride, int NT, int U>
TB_DEV void tb_stage_tile(const tb_fast_slice &s, uint32_t start, uint4 *to)
{
    constexpr uint32_t none = tb_minus_infinity<dtype>(), width = tb_fast_vector<dtype>::width;
    const uint32_t mine = start + threadIdx.x, end = min(s.end, s.whole_end),
                   inner = end > s.whole_first ? end - s.whole_first : 0, tail_at = s.whole_end - mine;
    const char *at = s.base + (size_t)mine * 16;
    to += threadIdx.x;
#pragma unroll
    for (int j = 0; j < U; j++) {
        if (mine + j * stride - s.whole_first < inner)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(tb_shared_address(to + j * NT)),
                         "l"(at + j * (stride * 16))
                         : "memory");
        else
            to[j * NT] = make_uint4(none, none, none, none);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    if (s.whole_first && mine == 0) to[0] = tb_load_edge<dtype>(s.base, 0u - s.shift, s.length);
    if (tail_at < stride * U && tail_at % stride == 0 && s.whole_end < s.end)
        to[tail_at / stride * NT] =
            tb_load_edge<dtype>(s.base + (size_t)s.whole_end * 16, s.whole_end * width - s.shift, s.length);
}

/* Waits for the thread's part of all tiles but the last one, or of all. */
TB_DEV void tb_stage_wait(bool but_last)
{
    if (but_last)
        asm volatile("cp.async.wait_group 1;" ::: "memory");
    else
        asm volatile("cp.async.wait_group 0;" ::: "memory");
}

/* A tile that lies wholly inside the row and the block's share; `at` is the thread's first vector. */
template <int stride, int U> TB_DEV void tb_load_inner_tile(const char *at, uint4 (&v)[U])
{
#pragma unroll
    for (int j = 0; j < U; j++) v[j] = tb_load_stream(at + j * (stride * 16));
}

/* Greatest value of a tile; NaN if there is one. */
template <int dtype, int U> TB_DEV float tb_tile_max(const uint4 (&v)[U])
{
    if (dtype == TOMBOLA_F32) {
        float m[4];
#pragma unroll
        for (int j = 0; j < U; j++) {
            float a = tb_max_nan(law_float(v[j].x), law_float(v[j].y)),
                  b = tb_max_nan(law_float(v[j].z), law_float(v[j].w));
            m[j % 4] = j < 4 ? tb_max_nan(a, b) : tb_max_nan(m[j % 4], tb_max_nan(a, b));
        }
        float top = m[0];
#pragma unroll
        for (int j = 1; j < (U < 4 ? U : 4); j++) top = tb_max_nan(top, m[j]);
        return top;
    }
    uint32_t top = 0;
#pragma unroll
    for (int j = 0; j < U; j++) {
        uint32_t word[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (j == 0 && i == 0)
                top = word[0];
            else if (dtype == TOMBOLA_F16)
                asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(top) : "r"(word[i]));
            else
                asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(top) : "r"(word[i]));
        }
    }
    if (dtype == TOMBOLA_F16) return tb_max_nan(tb_f16_value(top & 0xffffu), tb_f16_value(top >> 16));
    return tb_max_nan(law_float(top << 16), law_float(top & 0xffff0000u));
}

/* Greatest value of one vector that has no NaN. */
template <int dtype> TB_DEV float tb_vector_max(const uint4 &v)
{
    if (dtype == TOMBOLA_F32)
        return fmaxf(fmaxf(law_float(v.x), law_float(v.y)), fmaxf(law_float(v.z), law_float(v.w)));
    const uint4 one[1] = {v};
    return tb_tile_max<dtype, 1>(one);
}

/* NaN becomes -inf: it then is in no K0, as the law has it. */
template <int dtype, int U> TB_DEV void tb_drop_nan(uint4 (&v)[U])
{
#pragma unroll
    for (int j = 0; j < U; j++) {
        uint32_t word[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (dtype == TOMBOLA_F32) {
                if ((word[i] & 0x7fffffffu) > 0x7f800000u) word[i] = 0xff800000u;
            } else {
                constexpr uint32_t infinite = dtype == TOMBOLA_F16 ? 0x7c00u : 0x7f80u;
                if ((word[i] & 0x7fffu) > infinite) word[i] = (word[i] & 0xffff0000u) | infinite | 0x8000u;
                if ((word[i] >> 16 & 0x7fffu) > infinite)
                    word[i] = (word[i] & 0xffffu) | (infinite | 0x8000u) << 16;
            }
        }
        v[j] = make_uint4(word[0], word[1], word[2], word[3]);
    }
}

/* The values of vector j. */
template <int dtype> TB_DEV float tb_element(const uint4 &v, int e)
{
    if (dtype == TOMBOLA_F32) return law_float(e == 0 ? v.x : e == 1 ? v.y : e == 2 ? v.z : v.w);
    uint32_t word = e / 2 == 0 ? v.x : e / 2 == 1 ? v.y : e / 2 == 2 ? v.z : v.w;
    if (dtype == TOMBOLA_F16) return tb_f16_value(e % 2 ? word >> 16 : word & 0xffffu);
    return law_float(e % 2 ? word & 0xffff0000u : word << 16);
}

/* The row's element `index`. */
template <int dtype> TB_DEV float tb_fast_value(const tb_fast_slice &s, uint32_t index)
{
    const char *at = s.base + (size_t)(s.shift + index) * tb_fast_vector<dtype>::bytes;
    const uint32_t bits = dtype == TOMBOLA_F32 ? *(const uint32_t *)at : *(const uint16_t *)at;
    return tb_element<dtype>(make_uint4(bits, 0, 0, 0), 0);
}

/* Sum of 2^(x * c - r) over a tile: one rounding in each argument, ex2.approx, and a tree of depth
 * log2(elements), at most 5. Always the same bits for the same tile. */
template <int dtype, int U> TB_DEV float tb_tile_sum(const uint4 (&v)[U], float c, float r)
{
    constexpr int width = tb_fast_vector<dtype>::width;
    float part[width];
#pragma unroll
    for (int e = 0; e < width; e++) {
        float g[U];
#pragma unroll
        for (int j = 0; j < U; j++) g[j] = tb_ex2(__fmaf_rn(tb_element<dtype>(v[j], e), c, -r));
#pragma unroll
        for (int d = 1; d < U; d *= 2)
#pragma unroll
            for (int j = 0; j + d < U; j += 2 * d) g[j] += g[j + d];
        part[e] = g[0];
    }
#pragma unroll
    for (int d = 1; d < width; d *= 2)
#pragma unroll
        for (int e = 0; e + d < width; e += 2 * d) part[e] += part[e + d];
    return part[0];
}

/* ---- outputs ---- */

/* Verdicts on a row in the streaming kernel. The third: its interval of p * Z is narrowed, and another
 * verdict follows. */
enum { TB_ROW_DONE = 0, TB_ROW_LEFT = 1, TB_ROW_NARROWED = 2 };

typedef struct tb_fast_result {
    int32_t token;
    int32_t kept, rank;
    uint32_t status;
    float t;       /* exponent of the drawn token */
    uint64_t mass; /* of the kept tokens */
} tb_fast_result;

/* By one thread: the outputs of a row, kept ids excepted. */
TB_DEV void tb_fast_write(const tombola_call &call, int64_t index, const tb_fast_result &result)
{
    if (call.tokens) call.tokens[index] = result.token;
    if (call.status) call.status[index] = result.status;
    if (call.rounds) call.rounds[index] = 0;
    if (call.ranks) call.ranks[index] = result.rank;
    if (call.kept_count) call.kept_count[index] = result.kept;
    if (call.kept_mass) call.kept_mass[index] = result.mass;
    if (call.logprobs || call.raw_logprobs) { /* which are the same: there is no chain */
        const float logprob = result.token < 0 ? law_float(LAW_NAN_BITS) : law_logprob(result.t, result.mass);
        if (call.logprobs) call.logprobs[index] = logprob;
        if (call.raw_logprobs) call.raw_logprobs[index] = logprob;
    }
    if (call.entropy && result.token < 0) call.entropy[index] = law_float(LAW_NAN_BITS);
}

/* By the first `threads` threads of a block: an empty or bad row. */
TB_DEV void tb_fast_write_void(const tombola_call &call, int64_t index, uint32_t status, int threads)
{
    tb_fast_result none = {-1, 0, 0, status, 0.0f, 0};
    if (threadIdx.x == 0) tb_fast_write(call, index, none);
    if (call.kept_ids)
#pragma unroll 1
        for (int64_t i = threadIdx.x; i < call.kept_capacity; i += threads)
            call.kept_ids[index * call.kept_capacity + i] = -1;
}

#endif
