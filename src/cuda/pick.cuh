/*
 * A few thousand kept tokens at most: masked logits, renormalised probabilities and ids under a top_k of at
 * most TB_PICK_MOST, and the greatest tokens in order. One block a row, which it reads once and does not
 * keep: what reaches a bound that a sample of the row suggests is listed, and all that follows is done with
 * the list. The list tells whether it holds the kept set; if it does not, the row is read again with another
 * bound, and at last left to the generic code.
 */
#ifndef TB_CUDA_PICK_CUH
#define TB_CUDA_PICK_CUH

#include "outputs.cuh"
#include "pick_list.cuh"

#define TB_PICK_LOADS 8 /* of a lane, for the sample */
#define TB_PICK_TRIES 4

static_assert(sizeof(tb_room) <= TB_PICK_BYTES, "plan.c");

template <int dtype> struct tb_pick_block {
    tb_pick_row row;
    tb_whole_row<dtype> r; /* a team of one, and this warp's part */
};

/* ---- the bound ---- */

/* This warp's part of a row; of 8 to 32 warps. */
template <class R> TB_DEV tb_whole_part tb_pick_part(const char *data, uint32_t length)
{
    tb_whole_part p;
    p.shift = ((uint32_t)(uintptr_t)data & 15u) / R::bytes;
    p.length = length;
    p.base = data - p.shift * R::bytes;
    const uint32_t vectors = (p.shift + length + R::width - 1) / R::width, warps = blockDim.x / 32,
                   each = (vectors + warps - 1) / warps, begin = each * tb_warp();
    p.first = begin < vectors ? begin : vectors;
    p.end = p.first + each < vectors ? p.first + each : vectors;
    uint32_t end = (p.shift + length) / R::width;
    if (end > p.end) end = p.end;
    p.inner = (p.shift == 0 || p.first > 0) && end > p.first ? (end - p.first) / 32 : 0;
    return p;
}

/* The greatest of each sampler's part of a sample: `loads` times 32 vectors a warp, spread evenly. */
template <int dtype> TB_DEV void tb_pick_sample(tb_pick_block<dtype> &p, uint32_t vectors, int loads)
{
    typedef tb_whole_row<dtype> R;
    const uint32_t none = dtype == TOMBOLA_F32 ? 0xff800000u : tb_masked_word(dtype);
    const uint32_t warps = TB_PICK_SAMPLERS / 32, pieces = warps * (uint32_t)loads;
    if (threadIdx.x >= TB_PICK_SAMPLERS) return;
    uint4 v[TB_PICK_LOADS];
#pragma unroll
    for (int j = 0; j < TB_PICK_LOADS; j++) {
        /* pieces of one thread lie far from one another, neighbouring warps' next to one another */
        uint32_t piece = (uint32_t)j * warps + tb_warp(), first = piece * 32;
        if (vectors > pieces * 32)
            first = (uint32_t)((uint64_t)piece * (vectors - 32) / (pieces > 1 ? pieces - 1 : 1));
        uint32_t vector = first + tb_lane();
        v[j] = make_uint4(none, none, none, none);
        if (j < loads && vector < vectors && tb_whole_inside<R>(p.r.part, vector))
            v[j] = tb_load16(p.r.part.base + (size_t)vector * 16);
    }
    bool nan = false;
    float top = tb_whole_greatest<R>(v, &nan);
    p.row.s->sample[threadIdx.x] = law_key(top);
}

/* A key that about `wanted` tokens of the row reach, or somewhat more; the least of K0 where the sample holds
 * too few. The fraction f of the threads whose part of g tokens reaches a value says that a fraction x of
 * the tokens does: f = 1 - (1 - x)^g. */
template <int dtype> TB_DEV uint32_t tb_pick_bound(const tb_pick_block<dtype> &p, float fraction, int loads)
{
    const uint4 *sample = (const uint4 *)p.row.s->sample;
    if (fraction > 0.9f) return p.row.least;
    const float g = (float)(loads * tb_whole_row<dtype>::width);
    float f = 1.0f - exp2f(g * log2f(1.0f - fraction));
    uint32_t wanted = (uint32_t)((float)TB_PICK_SAMPLERS * f) + 1, top = 0;
    if (wanted > TB_PICK_SAMPLERS) wanted = TB_PICK_SAMPLERS;
    for (uint32_t i = tb_lane(); i < TB_PICK_SAMPLERS / 4; i += 32) {
        uint4 k = sample[i];
        uint32_t a = k.x > k.y ? k.x : k.y, b = k.z > k.w ? k.z : k.w;
        a = a > b ? a : b;
        top = a > top ? a : top;
    }
    top = tb_warp_max(top);
    uint32_t bound = tb_whole_group_bound(sample, TB_PICK_SAMPLERS / 4, wanted, p.row.least, top,
                                          p.row.least == TB_KEY_LEAST_PROBABILITY);
    return bound > p.row.least ? bound : p.row.least;
}

/* ---- the list ---- */

#define TB_PICK_UNROLL 4

/* Lists the warp's tokens that reach the bound, in index order, while there is room. Returns their number,
 * which is not the whole one if it is more than TB_PICK_LIST. */
template <int dtype>
TB_DEV uint32_t tb_pick_read(const tb_pick_block<dtype> &p, bool probabilities, uint64_t *segment,
                             uint32_t room, float *greatest, uint32_t *flags)
{
    typedef tb_whole_row<dtype> R;
    const R &r = p.r;
    const uint32_t none = probabilities ? 0u : tb_masked_word(dtype), loads = tb_whole_loads(r.part);
    const float bound = law_key_value(p.row.bound);
    const char *from = r.part.base + (size_t)(r.part.first + tb_lane()) * 16;
    uint32_t n = 0;
    float top = -LAW_INF;
    bool nan = false, negative = false;
#pragma unroll 1
    for (uint32_t j0 = 0; j0 < loads && n <= TB_PICK_LIST; j0 += TB_PICK_UNROLL) {
        uint4 v[TB_PICK_UNROLL];
        if (j0 + TB_PICK_UNROLL <= r.part.inner) {
#pragma unroll
            for (int j = 0; j < TB_PICK_UNROLL; j++) v[j] = tb_whole_load(from + j * 512);
        } else {
#pragma unroll
            for (int j = 0; j < TB_PICK_UNROLL; j++) {
                uint32_t vector = r.part.first + (j0 + j) * 32 + tb_lane();
                v[j] = make_uint4(none, none, none, none);
                if (vector >= r.part.end) continue;
                v[j] = tb_whole_inside<R>(r.part, vector)
                           ? tb_whole_load(from + j * 512)
                           : tb_whole_load_edge<R>(from + j * 512, tb_whole_index(r, vector), r.part.length,
                                                   none);
            }
        }
        from += TB_PICK_UNROLL * 512;
        if (probabilities) negative |= tb_whole_negative<R>(v);
        float most = tb_whole_greatest<R>(v, &nan);
        top = fmaxf(top, most);
        if (!__any_sync(TB_WHOLE_WARP, most >= bound)) continue;
#pragma unroll
        for (int j = 0; j < TB_PICK_UNROLL; j++)
            tb_pick_append<R>(v[j], tb_whole_index(r, r.part.first + (j0 + j) * 32 + tb_lane()), bound,
                              segment, room, &n);
    }
    *greatest = top;
    *flags = (__any_sync(TB_WHOLE_WARP, nan) ? TOMBOLA_ROW_NAN : 0u) |
             (__any_sync(TB_WHOLE_WARP, negative) ? TOMBOLA_ROW_NEGATIVE : 0u);
    return n;
}

/* Lists what may be kept: `wanted` tokens or more, or all of K0. False where that failed. */
template <int dtype>
TB_DEV bool tb_pick_list(tb_pick_block<dtype> &p, bool probabilities, uint32_t wanted, uint32_t *status)
{
    typedef tb_whole_row<dtype> R;
    tb_pick_shared *s = p.row.s;
    const uint32_t length = p.r.part.length, vectors = (p.r.part.shift + length + R::width - 1) / R::width;
    const uint32_t each = TB_PICK_LIST / (blockDim.x / 32);
    const bool all =
        length <= TB_PICK_LIST - blockDim.x / 32 * 3 * R::width; /* there is room for all of it */
    int loads = 0;
    float fraction = 1.0f;
    if (!all) {
        /* So many loads that about half of the threads reach the bound; among the expected number in the
         * sample, four standard deviations of it. */
        float part = (float)wanted / (float)length;
        loads = (int)(0.7f / (part * R::width));
        loads = loads < 1 ? 1 : loads > TB_PICK_LOADS ? TB_PICK_LOADS : loads;
        float size = (float)(loads * R::width * TB_PICK_SAMPLERS), expected = part * size;
        fraction = (expected + 4.0f * sqrtf(expected) + 8.0f) / size;
        tb_pick_sample(p, vectors, loads);
    }
    __syncthreads();
    uint32_t begin = each * tb_warp(), room = each, before = 0;
    p.row.bound = all ? p.row.least : tb_pick_bound(p, fraction, loads);
#pragma unroll 1
    for (int attempt = 0; attempt < TB_PICK_TRIES; attempt++) {
        float top;
        uint32_t flags, n = tb_pick_read(p, probabilities, s->place + begin, room, &top, &flags),
                        key = tb_warp_max(law_key(top));
        bool full = __syncthreads_or(n > room); /* and the last attempt's words have been read */
        if (tb_lane() == 0)
            s->count[tb_warp()] = n, s->flags[tb_warp()] = flags, s->greatest[tb_warp()] = key;
        __syncthreads();
        const bool there = tb_lane() < blockDim.x / 32;
        const uint32_t count = there ? s->count[tb_lane()] : 0;
        p.row.listed = tb_warp_sum(count);
        p.row.greatest = tb_warp_max(there ? s->greatest[tb_lane()] : 0);
        *status = tb_warp_or(there ? s->flags[tb_lane()] : 0);
        const bool enough = p.row.listed >= wanted || p.row.bound == p.row.least;
        if (p.row.greatest >= TB_KEY_POS_INF || p.row.listed == 0) return false;
        if (enough && !full) {
            p.row.first = begin;
            p.row.mine = n;
            return true;
        }
        if (enough &&
            p.row.listed <= TB_PICK_LIST) { /* the warps' parts are not alike: as many as each has */
            begin = tb_warp_sum(tb_lane() < tb_warp() ? count : 0);
            room = n;
            continue;
        }
        begin = each * tb_warp();
        room = each;
        float factor = 1.3f * (float)wanted / (float)p.row.listed;
        fraction *= enough ? fminf(factor, 0.7f) : fminf(fmaxf(factor, 1.3f), 4.0f);
        before = p.row.bound;
        p.row.bound = tb_pick_bound(p, fraction, loads);
        if (p.row.bound == before) return false;
    }
    return false;
}

/* One row by a block; false where the list did not do. */
template <int dtype> TB_DEV bool tb_pick_run(const tb_cuda_params &params, char *memory, int64_t index)
{
    typedef tb_whole_row<dtype> R;
    const tombola_call &call = params.call;
    const bool probabilities = call.kind == TOMBOLA_PROBABILITIES;
    tb_pick_block<dtype> p;
    tb_pick_shared *s = p.row.s = (tb_pick_shared *)memory;
    int64_t start, length;
    const bool located = tb_gpu_locate(call, index, &start, &length);
    const int64_t slot = tb_gpu_slot(call, index);
    p.row.team = p.r.team = {0, 1};
    p.r.part =
        tb_pick_part<R>((const char *)call.data + (size_t)start * R::bytes, located ? (uint32_t)length : 0);
    p.row.least = probabilities ? TB_KEY_LEAST_PROBABILITY : TB_KEY_LEAST_LOGIT;
    if (tb_warp() == 0) tb_whole_parse(params, located, slot, &s->chain);
    __syncthreads();
    const tb_whole_chain chain = s->chain;
    if (chain.bad || length == 0) return false;
    const uint32_t k = chain.k_before, wanted = k == TB_NO_COUNT ? (uint32_t)call.top_count : k;
    uint32_t status;
    if (!tb_pick_list(p, probabilities, wanted, &status)) return false;
    if (call.advance_offsets && threadIdx.x == 0) tb_next_offsets(params)[index] = call.offsets[slot] + 1;
    const uint32_t stay = tb_pick_begin(p.row, call, chain.temperature, k);
    tb_pick_write<dtype>(p.row, call, index, start, stay, status, 0, (uint32_t)length);
    return true;
}

template <int dtype> TB_DEV void tb_pick_serve(const tb_cuda_params &params, char *memory, int64_t index)
{
    if (tb_pick_run<dtype>(params, memory, index)) return;
    __syncthreads();
    tb_draw_exactly draws;
    tb_run_row(params, index, (tb_room *)memory, draws);
}

#endif
