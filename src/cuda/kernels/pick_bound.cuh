/*
 * The bound of what pick.cuh lists of a row: a sample of it, by the first warps of the block, and the value
 * that enough of the samplers reach, by one warp.
 */
#ifndef TB_CUDA_PICK_BOUND_CUH
#define TB_CUDA_PICK_BOUND_CUH

#include "outputs.cuh"
#include "pick_list.cuh"

#define TB_PICK_LOADS 8 /* of a lane, for the sample */

static_assert(sizeof(tb_room) <= TB_PICK_BYTES, "plan_whole.c");

template <int dtype> struct tb_pick_block {
    tb_pick_row row;
    tb_whole_row<dtype> r; /* a team of one, and this warp's part */
    uint32_t least;        /* key of K0's */
    uint64_t low, high;    /* between which the mass of all tokens is, for a top_p of it */
};

/* ---- the bound ---- */

/* This warp's part of a row; of 8, 16 or 32 warps. */
template <class R> TB_DEV tb_whole_part tb_pick_part(const char *data, uint32_t length)
{
    tb_whole_part p;
    p.shift = ((uint32_t)(uintptr_t)data & 15u) / R::bytes;
    p.length = length;
    p.base = data - p.shift * R::bytes;
    const uint32_t vectors = (p.shift + length + R::width - 1) / R::width, warps = blockDim.x / 32,
                   each = (vectors + warps - 1) >> (31 - __clz((int)warps)), begin = each * tb_warp();
    p.first = begin < vectors ? begin : vectors;
    p.end = p.first + each < vectors ? p.first + each : vectors;
    uint32_t end = (p.shift + length) / R::width;
    if (end > p.end) end = p.end;
    p.inner = (p.shift == 0 || p.first > 0) && end > p.first ? (end - p.first) / 32 : 0;
    return p;
}

/* A sampler's part of the sample: vectors from all over those of the row that are whole, so that its first
 * ones alone would do as well. */
template <class R> TB_DEV void tb_pick_load_sample(const tb_whole_part &part, uint4 (&v)[TB_PICK_LOADS])
{
    constexpr uint32_t warps = TB_PICK_SAMPLERS / 32, pieces = warps * TB_PICK_LOADS;
    static_assert(warps == 8 && TB_PICK_LOADS == 8, "reversed");
    const uint32_t none = tb_masked_word(R::dtype), skipped = part.shift > 0,
                   vectors = (part.shift + part.length) / R::width - skipped,
                   step = vectors > pieces * 32 ? vectors / pieces : 32;
    const char *base = part.base + (skipped + tb_lane()) * 16;
#pragma unroll
    for (uint32_t j = 0; j < TB_PICK_LOADS; j++) {
        /* pieces of one thread lie far from one another; j with its three bits reversed */
        const uint32_t reversed = (j & 1) << 2 | (j & 2) | j >> 2,
                       piece = (reversed + tb_warp()) % 8 * warps + tb_warp();
        /* at no regular distances, in case that rows have such */
        uint32_t hash = (piece * pieces + j + tb_warp() * warps + 1) * 0x2545f491u;
        hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
        const uint32_t first = piece * step + ((hash >> 16) * (step - 32) >> 16);
        v[j] = make_uint4(none, none, none, none);
        if (first + tb_lane() < vectors) v[j] = tb_load16(base + (size_t)first * 16);
    }
}

/* Only the first `loads` of a sample. */
template <class R> TB_DEV void tb_pick_trim_sample(int loads, uint4 (&v)[TB_PICK_LOADS])
{
    const uint32_t none = tb_masked_word(R::dtype);
#pragma unroll
    for (int j = 1; j < TB_PICK_LOADS; j++)
        if (j >= loads) v[j] = make_uint4(none, none, none, none);
}

/* Whether tokens that reach a value hold, to go by the sample, a good part of a fraction q of the mass. The
 * sample misses most of the greatest tokens, so that it says less than there is. */
template <int dtype> TB_CALL bool tb_pick_promises(tb_pick_block<dtype> &p, float value, float q, int loads)
{
    typedef tb_whole_row<dtype> R;
    uint4 v[TB_PICK_LOADS]; /* of which the first ones were the sample */
    float over = 0.0f, under = 0.0f;
    if (threadIdx.x < TB_PICK_SAMPLERS) {
        tb_pick_load_sample<R>(p.r.part, v);
        const float least = law_key_value(p.least);
#pragma unroll 1
        for (int j = 0; j < loads; j++) {
            uint4 one = v[0];
#pragma unroll
            for (int i = 1; i < TB_PICK_LOADS; i++)
                if (i == j) one = v[i];
#pragma unroll
            for (int e = 0; e < R::width; e++) {
                float x = tb_whole_element<R>(one, e), w = x >= least ? tb_ratio(p.row.weigher, x) : 0.0f;
                over += x >= value ? w : 0.0f;
                under += x >= value ? 0.0f : w;
            }
        }
    }
    /* as integers, so that all warps sum alike: less than 2^7 each */
    uint64_t high = tb_block_sum64(&p.row.s->scratch, (uint64_t)(over * 0x1p24f));
    uint64_t low = tb_block_sum64(&p.row.s->scratch, (uint64_t)(under * 0x1p24f));
    return (float)high >= 0.5f * q * (float)(high + low);
}

/* Quotients of guesses. */
TB_DEV float tb_pick_quotient(float a, float b)
{
#ifdef __CUDA_ARCH__
    return __fdividef(a, b);
#else
    return a / b;
#endif
}

/* Loads of a sampler, so many that about half of the samplers reach the bound, to go by the k for all
 * slots. */
template <class R> TB_DEV int tb_pick_loads(const tb_cuda_params &params, uint32_t length, bool by_mass)
{
    const tombola_call &call = params.call;
    uint32_t k = by_mass ? TB_PICK_LIKELY : (uint32_t)call.top_count;
#pragma unroll 1
    for (int32_t i = 0; i < call.step_count && !by_mass; i++)
        if (params.steps[i].kind == TOMBOLA_TOP_K && !params.steps[i].k_per_slot && params.steps[i].k > 0)
            k = (uint32_t)params.steps[i].k;
    const float loads = tb_pick_quotient(0.7f * (float)length, (float)(k * R::width));
    return loads < 2.0f ? 1 : loads > (float)TB_PICK_LOADS ? TB_PICK_LOADS : (int)loads;
}

/* The fraction of the row's tokens that should reach the bound: of the number wanted in the sample, four
 * standard deviations more. */
template <class R> TB_DEV float tb_pick_fraction(uint32_t wanted, uint32_t length, int loads)
{
    const float size = (float)(loads * R::width * TB_PICK_SAMPLERS),
                expected = tb_pick_quotient((float)wanted * size, (float)length);
    return tb_pick_quotient(expected + 4.0f * sqrtf(expected) + 2.0f, size);
}

/* The number of samplers that reach a value which a fraction x of the tokens does: of the samplers' parts of
 * g tokens 1 - (1 - x)^g. 0 where the sample holds too few. */
template <class R> TB_DEV uint32_t tb_pick_number(float fraction, int loads)
{
    if (fraction > 0.9f) return 0;
    const float f = 1.0f - exp2f((float)(loads * R::width) * log2f(1.0f - fraction));
    const uint32_t number = (uint32_t)((float)TB_PICK_SAMPLERS * f) + 1;
    return number < TB_PICK_SAMPLERS ? number : TB_PICK_SAMPLERS;
}

/* By a warp: the greatest number up to `high` that at least k of its lanes' words reach, or any that just k
 * do; `low`, if fewer reach that. Not a load but of instructions: those would wait behind the stores of the
 * warps that fill the row. */
template <int U>
TB_DEV uint32_t tb_pick_reached(const uint32_t (&x)[U], uint32_t low, uint32_t high, uint32_t k)
{
    uint32_t n = 0;
#pragma unroll 1
    while (low < high && n != k) {
        const uint32_t middle = low + ((high - low) >> 1) + 1;
        uint32_t reach = 0;
#pragma unroll
        for (int u = 0; u < U; u++) reach += x[u] >= middle;
        reach = tb_warp_sum(reach);
        if (reach >= k)
            low = middle, n = reach;
        else
            high = middle - 1;
    }
    return low;
}

/* The floor of the k greatest of n <= TB_PICK_FEW tokens, by one warp. */
TB_CALL uint64_t tb_pick_floor(const uint64_t *list, uint32_t n, uint32_t k, bool by_index, uint32_t bound,
                               uint32_t greatest)
{
    constexpr int U = TB_PICK_FEW / 32;
    if (n <= k) return 0;
    uint32_t x[U], more = 0;
#pragma unroll
    for (int u = 0; u < U; u++) x[u] = u * 32 + tb_lane() < n ? tb_place_key(list[u * 32 + tb_lane()]) : 0;
    const uint32_t key = tb_pick_reached(x, bound, greatest, k);
    if (!by_index) return tb_floor_of_key(key);
#pragma unroll
    for (int u = 0; u < U; u++) more += x[u] > key;
    more = tb_warp_sum(more);
    /* of the equal ones the first; if just k tokens reach the key, and others have it, all of them */
#pragma unroll
    for (int u = 0; u < U; u++)
        x[u] = x[u] == key ? ((uint32_t)list[u * 32 + tb_lane()] & TB_PLACE_LOW) + 1 : 0;
    const uint32_t low = tb_pick_reached(x, 0, TB_PLACE_LOW + 1, k - more);
    return tb_floor_of_key(key) + (low ? low - 1 : 0);
}

/* Puts down the key that `number` samplers reach; the least of K0 for 0. By a warp. */
TB_CALL void tb_pick_find_bound(tb_pick_shared *s, uint32_t least, uint32_t number)
{
    constexpr int U = TB_PICK_SAMPLERS / 32;
    uint32_t x[U], low = ~0u, high = 0;
#pragma unroll
    for (int u = 0; u < U; u++) {
        x[u] = s->sample[u * 32 + tb_lane()];
        low = x[u] < low ? x[u] : low;
        high = x[u] > high ? x[u] : high;
    }
    low = tb_warp_min(low);
    high = tb_warp_max(high);
    if (low < least) low = least;
    low = number ? tb_pick_reached(x, low, high, number) : least;
    if (low > least) { /* the least sample that reaches it */
        uint32_t up = high;
#pragma unroll
        for (int u = 0; u < U; u++) up = x[u] >= low && x[u] < up ? x[u] : up;
        low = tb_warp_min(up);
    }
    if (tb_lane() == 0) s->word[3] = low;
}

/* The same by the block; all have read the bound before. */
TB_DEV uint32_t tb_pick_bound(tb_pick_shared *s, uint32_t least, uint32_t number)
{
    if (tb_warp() == 0) tb_pick_find_bound(s, least, number);
    __syncthreads();
    return (uint32_t)s->word[3];
}

#endif
