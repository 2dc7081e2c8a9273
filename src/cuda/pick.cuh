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
#include "whole_bins.cuh"

#define TB_PICK_WARPS (TB_PICK_THREADS / 32)
#define TB_PICK_SEGMENT 512 /* listed tokens of a warp, which has one contiguous part of the row */
#define TB_PICK_LIST (TB_PICK_WARPS * TB_PICK_SEGMENT)
#define TB_PICK_BINS 1024
#define TB_PICK_CROWD 128 /* tokens of a bin that are ranked by comparing each with each */
#define TB_PICK_LOADS 8   /* of a lane, for the sample */
#define TB_PICK_TRIES 3

typedef struct tb_pick_shared {
    uint64_t place[TB_PICK_LIST]; /* each warp's listed tokens, in index order */
    uint16_t ref[TB_PICK_LIST];   /* of listed tokens, bin by bin */
    union {
        uint32_t bin[TB_PICK_BINS];
        uint32_t sample[TB_PICK_THREADS]; /* keys of the greatest of each thread's part of the sample */
    };
    uint32_t count[TB_PICK_WARPS], flags[TB_PICK_WARPS], greatest[TB_PICK_WARPS];
    uint64_t word[4]; /* one thread to all */
    tb_whole_chain chain;
    tb_scratch scratch;
} tb_pick_shared;

static_assert(sizeof(tb_pick_shared) <= TB_PICK_BYTES && sizeof(tb_room) <= TB_PICK_BYTES, "plan.c");

/* What each thread knows of its row and list. */
template <int dtype> struct tb_pick_row {
    typedef tb_whole_row<dtype> R;
    tb_pick_shared *s;
    R r; /* team of one, this warp's part */
    uint32_t bound, least, greatest; /* keys: all tokens from `bound` on are listed; of K0 */
    uint32_t listed, mine;           /* tokens, those in this warp's segment */
    bool by_index;
    tb_weigher weigher;
};

/* ---- the bound ---- */

/* Each thread's greatest of its part of a sample: `loads` times 32 vectors a warp, spread evenly. */
template <int dtype> TB_DEV void tb_pick_sample(tb_pick_row<dtype> &p, uint32_t vectors, int loads)
{
    typedef tb_whole_row<dtype> R;
    const uint32_t none = dtype == TOMBOLA_F32 ? 0xff800000u : tb_masked_word(dtype);
    const uint32_t pieces = TB_PICK_WARPS * (uint32_t)loads;
    uint4 v[TB_PICK_LOADS];
#pragma unroll
    for (int j = 0; j < TB_PICK_LOADS; j++) {
        /* pieces of one thread lie far from one another, neighbouring warps' next to one another */
        uint32_t piece = (uint32_t)j * TB_PICK_WARPS + tb_warp(), first = piece * 32;
        if (vectors > pieces * 32)
            first = (uint32_t)((uint64_t)piece * (vectors - 32) / (pieces > 1 ? pieces - 1 : 1));
        uint32_t vector = first + tb_lane();
        v[j] = make_uint4(none, none, none, none);
        if (j < loads && vector < vectors && tb_whole_inside<R>(p.r.part, vector))
            v[j] = tb_load16(p.r.part.base + (size_t)vector * 16);
    }
    bool nan = false;
    float top = tb_whole_greatest<R>(v, &nan);
    p.s->sample[threadIdx.x] = law_key(top);
}

/* A key that about `wanted` tokens of the row reach, or somewhat more; the least of K0 where the sample holds
 * too few. The fraction f of the threads whose part of g tokens reaches a value says that a fraction x of
 * the tokens does: f = 1 - (1 - x)^g. */
template <int dtype> TB_DEV uint32_t tb_pick_bound(const tb_pick_row<dtype> &p, float fraction, int loads)
{
    const uint4 *sample = (const uint4 *)p.s->sample;
    if (fraction > 0.9f) return p.least;
    const float g = (float)(loads * tb_whole_row<dtype>::width);
    float f = 1.0f - exp2f(g * log2f(1.0f - fraction));
    uint32_t wanted = (uint32_t)((float)TB_PICK_THREADS * f) + 1, top = 0;
    if (wanted > TB_PICK_THREADS) wanted = TB_PICK_THREADS;
    for (uint32_t i = tb_lane(); i < TB_PICK_THREADS / 4; i += 32) {
        uint4 k = sample[i];
        uint32_t a = k.x > k.y ? k.x : k.y, b = k.z > k.w ? k.z : k.w;
        a = a > b ? a : b;
        top = a > top ? a : top;
    }
    top = tb_warp_max(top);
    uint32_t bound = tb_whole_group_bound(sample, TB_PICK_THREADS / 4, wanted, p.least, top,
                                          p.least == TB_KEY_LEAST_PROBABILITY);
    return bound > p.least ? bound : p.least;
}

/* ---- the list ---- */

#define TB_PICK_UNROLL 4

/* Lists the warp's tokens that reach the bound, in index order. Returns their number, more than a segment if
 * there was no room. */
template <int dtype>
TB_DEV uint32_t tb_pick_read(tb_pick_row<dtype> &p, bool probabilities, float *greatest, uint32_t *flags)
{
    typedef tb_whole_row<dtype> R;
    const R &r = p.r;
    const uint32_t none = probabilities ? 0u : tb_masked_word(dtype), loads = tb_whole_loads(r.part);
    const float bound = law_key_value(p.bound);
    const char *from = r.part.base + (size_t)(r.part.first + tb_lane()) * 16;
    uint64_t *segment = p.s->place + tb_warp() * TB_PICK_SEGMENT;
    const uint32_t lower = (1u << tb_lane()) - 1;
    uint32_t n = 0;
    float top = -LAW_INF;
    bool nan = false, negative = false;
#pragma unroll 1
    for (uint32_t j0 = 0; j0 < loads && n <= TB_PICK_SEGMENT; j0 += TB_PICK_UNROLL) {
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
        for (int j = 0; j < TB_PICK_UNROLL; j++) {
            uint32_t members = 0, first = tb_whole_index(r, r.part.first + (j0 + j) * 32 + tb_lane());
#pragma unroll
            for (int e = 0; e < R::width; e++)
                members |= (uint32_t)(tb_whole_element<R>(v[j], e) >= bound) << e;
            if (!__any_sync(TB_WHOLE_WARP, members)) continue;
            /* members of the lanes below: their numbers, bit by bit */
            uint32_t number = (uint32_t)__popc(members), at = n;
#pragma unroll
            for (int b = 0; 1 << b <= R::width; b++) {
                uint32_t lanes = __ballot_sync(TB_WHOLE_WARP, number >> b & 1);
                at += (uint32_t)__popc(lanes & lower) << b;
                n += (uint32_t)__popc(lanes) << b;
            }
#pragma unroll
            for (int e = 0; e < R::width; e++) {
                if (!(members >> e & 1)) continue;
                if (at < TB_PICK_SEGMENT) segment[at] = tb_place(law_key(tb_whole_element<R>(v[j], e)), first + e);
                at++;
            }
        }
    }
    *greatest = top;
    *flags = (__any_sync(TB_WHOLE_WARP, nan) ? TOMBOLA_ROW_NAN : 0u) |
             (__any_sync(TB_WHOLE_WARP, negative) ? TOMBOLA_ROW_NEGATIVE : 0u);
    return n;
}

/* Lists what may be kept: `wanted` tokens or more, or all of K0. False where that failed. */
template <int dtype>
TB_DEV bool tb_pick_list(tb_pick_row<dtype> &p, bool probabilities, uint32_t wanted, uint32_t *status)
{
    typedef tb_whole_row<dtype> R;
    tb_pick_shared *s = p.s;
    const uint32_t length = p.r.part.length,
                   vectors = (p.r.part.shift + length + R::width - 1) / R::width;
    const bool all = length <= TB_PICK_LIST - TB_PICK_WARPS * 2 * R::width; /* there is room for every token */
    int loads = 0;
    float fraction = 1.0f;
    if (!all) {
        /* So many loads that about half of the threads reach the bound; among the expected number in the
         * sample, four standard deviations of it. */
        float part = (float)wanted / (float)length;
        loads = (int)(0.7f / (part * R::width));
        loads = loads < 1 ? 1 : loads > TB_PICK_LOADS ? TB_PICK_LOADS : loads;
        float size = (float)(loads * R::width * TB_PICK_THREADS), expected = part * size;
        fraction = (expected + 4.0f * sqrtf(expected) + 8.0f) / size;
        tb_pick_sample(p, vectors, loads);
    }
    __syncthreads();
    uint32_t before = 0;
#pragma unroll 1
    for (int attempt = 0; attempt < TB_PICK_TRIES; attempt++) {
        p.bound = all ? p.least : tb_pick_bound(p, fraction, loads);
        if (p.bound == before) return false;
        before = p.bound;
        float top;
        uint32_t flags, n = tb_pick_read(p, probabilities, &top, &flags), key = tb_warp_max(law_key(top));
        __syncthreads(); /* the last attempt's words have been read */
        if (tb_lane() == 0) s->count[tb_warp()] = n, s->flags[tb_warp()] = flags, s->greatest[tb_warp()] = key;
        __syncthreads();
        bool there = tb_lane() < TB_PICK_WARPS;
        n = there ? s->count[tb_lane()] : 0;
        bool full = __any_sync(TB_WHOLE_WARP, n > TB_PICK_SEGMENT);
        p.listed = tb_warp_sum(n);
        p.greatest = tb_warp_max(there ? s->greatest[tb_lane()] : 0);
        *status = tb_warp_or(there ? s->flags[tb_lane()] : 0);
        if (!full && (p.listed >= wanted || p.bound == p.least)) {
            p.mine = s->count[tb_warp()];
            return p.listed > 0 && p.greatest < TB_KEY_POS_INF;
        }
        fraction *= full ? 0.5f : 2.0f;
    }
    return false;
}

/* ---- order ---- */

/* Calls visit(place, its number in the list) for the tokens of this warp's segment, a lane at a time. */
template <int dtype, class Visit> TB_DEV void tb_pick_each(const tb_pick_row<dtype> &p, Visit visit)
{
    const uint32_t first = tb_warp() * TB_PICK_SEGMENT;
    for (uint32_t i = first + tb_lane(); i < first + p.mine; i += 32) visit(p.s->place[i], i);
}

/* Bins of keys in [low, high]: bin 0 is the greatest. */
typedef struct tb_pick_bins {
    uint32_t low, high, shift;
} tb_pick_bins;

TB_DEV uint32_t tb_pick_bin(const tb_pick_bins &bins, uint64_t place)
{
    return (bins.high - tb_place_key(place)) >> bins.shift;
}

/* Counts the listed tokens of an interval of keys; s->bin then holds how many are in the bins before each. Of
 * the bin that holds token number `number` (from 0), if it is in the interval, its number, tokens and those
 * before it are in s->word[0] to [2]; the greatest bin's size up to there in *crowd. */
template <int dtype>
TB_DEV tb_pick_bins tb_pick_fill(tb_pick_row<dtype> &p, uint32_t low, uint32_t high, uint32_t number,
                                 uint32_t *crowd)
{
    constexpr int EACH = TB_PICK_BINS / TB_PICK_THREADS;
    tb_pick_shared *s = p.s;
    tb_pick_bins bins = {low, high, 0};
    while ((high - low) >> bins.shift >= TB_PICK_BINS) bins.shift++;
    __syncthreads();
    for (uint32_t b = threadIdx.x; b < TB_PICK_BINS; b += TB_PICK_THREADS) s->bin[b] = 0;
    __syncthreads();
    tb_pick_each(p, [&](uint64_t place, uint32_t) {
        uint32_t key = tb_place_key(place);
        if (key >= low && key <= high) atomicAdd(&s->bin[tb_pick_bin(bins, place)], 1u);
    });
    __syncthreads();
    uint4 *mine = (uint4 *)&s->bin[threadIdx.x * EACH];
    static_assert(EACH == 4, "one vector");
    uint4 n = *mine;
    uint32_t all, before = tb_block_scan(&s->scratch, n.x + n.y + n.z + n.w, &all), most = 0;
    uint32_t each[EACH] = {n.x, n.y, n.z, n.w};
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        uint32_t here = each[i];
        if (here && before <= number) most = here > most ? here : most;
        if (here && before <= number && number < before + here) {
            s->word[0] = threadIdx.x * EACH + i;
            s->word[1] = here;
            s->word[2] = before;
        }
        each[i] = before;
        before += here;
    }
    *mine = make_uint4(each[0], each[1], each[2], each[3]);
    *crowd = tb_block_max(&s->scratch, most); /* and a barrier */
    return bins;
}

/* Refers to the tokens of bins [first, last], bin by bin; s->bin[b] then is where bin b ends. */
template <int dtype>
TB_DEV void tb_pick_refer(tb_pick_row<dtype> &p, const tb_pick_bins &bins, uint32_t first, uint32_t last)
{
    tb_pick_shared *s = p.s;
    tb_pick_each(p, [&](uint64_t place, uint32_t i) {
        uint32_t key = tb_place_key(place);
        if (key < bins.low || key > bins.high) return;
        uint32_t b = tb_pick_bin(bins, place);
        if (b >= first && b <= last) s->ref[atomicAdd(&s->bin[b], 1u)] = (uint16_t)i;
    });
    __syncthreads();
}

/* Of the tokens of a bin, which are referred to in [begin, end), how many are greater than one. */
TB_DEV uint32_t tb_pick_greater(const tb_pick_shared *s, uint64_t place, uint32_t begin, uint32_t end)
{
    uint32_t n = 0;
    for (uint32_t i = begin; i < end; i++) n += s->place[s->ref[i]] > place;
    return n;
}

/* The place of listed token number `number` of the order (from 0). */
template <int dtype> TB_DEV uint64_t tb_pick_find(tb_pick_row<dtype> &p, uint32_t number)
{
    tb_pick_shared *s = p.s;
    uint32_t low = p.bound, high = p.greatest, above = 0, crowd;
#pragma unroll 1
    for (;;) {
        const tb_pick_bins bins = tb_pick_fill(p, low, high, number - above, &crowd);
        const uint32_t b = (uint32_t)s->word[0], inside = (uint32_t)s->word[1], begin = (uint32_t)s->word[2];
        if (inside <= TB_PICK_CROWD) {
            tb_pick_refer(p, bins, b, b);
            if (threadIdx.x < inside) {
                uint64_t place = s->place[s->ref[begin + threadIdx.x]];
                if (above + begin + tb_pick_greater(s, place, begin, begin + inside) == number)
                    s->word[3] = place;
            }
            __syncthreads();
            return s->word[3];
        }
        above += begin;
        uint64_t down = ((uint64_t)(b + 1) << bins.shift) - 1;
        low = down < high - low ? high - (uint32_t)down : low;
        high -= b << bins.shift;
        if (low == high) break;
    }
    /* tokens of one value: in index order, as they are listed */
    uint32_t n = 0;
    tb_pick_each(p, [&](uint64_t place, uint32_t) { n += tb_place_key(place) == low; });
    n = tb_warp_sum(n);
    __syncthreads();
    if (tb_lane() == 0) s->flags[tb_warp()] = n;
    __syncthreads();
    uint32_t before = above + tb_warp_sum(tb_lane() < tb_warp() ? s->flags[tb_lane()] : 0);
    if (before <= number && number - before < n) {
        const uint32_t first = tb_warp() * TB_PICK_SEGMENT;
        for (uint32_t i = 0; i < p.mine; i += 32) { /* whole warps */
            uint64_t place = i + tb_lane() < p.mine ? s->place[first + i + tb_lane()] : 0;
            uint32_t equal = __ballot_sync(TB_WHOLE_WARP, tb_place_key(place) == low),
                     lower = equal & ((1u << tb_lane()) - 1);
            if ((equal >> tb_lane() & 1) && before + (uint32_t)__popc(lower) == number) s->word[3] = place;
            before += (uint32_t)__popc(equal);
        }
    }
    __syncthreads();
    return s->word[3];
}

/* ---- outputs ---- */

/* Kept ids in order. */
template <int dtype>
TB_DEV void tb_pick_write_ids(const tb_pick_row<dtype> &p, int32_t *ids, int64_t capacity, uint64_t floor)
{
    tb_pick_shared *s = p.s;
    uint32_t n = 0;
    tb_pick_each(p, [&](uint64_t place, uint32_t) { n += place >= floor; });
    n = tb_warp_sum(n);
    __syncthreads();
    if (tb_lane() == 0) s->flags[tb_warp()] = n;
    __syncthreads();
    n = tb_lane() < TB_PICK_WARPS ? s->flags[tb_lane()] : 0;
    int64_t at = tb_warp_sum(tb_lane() < tb_warp() ? n : 0), all = tb_warp_sum(n);
    const uint64_t *segment = s->place + tb_warp() * TB_PICK_SEGMENT;
    for (uint32_t i = 0; i < p.mine; i += 32) { /* whole warps */
        uint64_t place = i + tb_lane() < p.mine ? segment[i + tb_lane()] : 0;
        uint32_t kept = __ballot_sync(TB_WHOLE_WARP, place >= floor && place);
        int64_t to = at + __popc(kept & ((1u << tb_lane()) - 1));
        if ((kept >> tb_lane() & 1) && to < capacity) ids[to] = (int32_t)tb_place_index(place);
        at += __popc(kept);
    }
    for (int64_t i = all + threadIdx.x; i < capacity; i += TB_PICK_THREADS) ids[i] = -1;
}

/* The greatest tokens, of `kept` that stay. The list is in another order afterwards. */
template <int dtype>
TB_DEV void tb_pick_write_top(tb_pick_row<dtype> &p, const tombola_call &call, int64_t index, uint32_t kept,
                              uint64_t mass)
{
    tb_pick_shared *s = p.s;
    int32_t *ids = call.top_ids ? call.top_ids + index * call.top_count : NULL;
    float *logprobs = call.top_logprobs ? call.top_logprobs + index * call.top_count : NULL;
    const uint32_t n = kept < (uint32_t)call.top_count ? kept : (uint32_t)call.top_count;
    auto put = [&](uint32_t at, uint64_t place) {
        if (ids) ids[at] = (int32_t)tb_place_index(place);
        if (logprobs) logprobs[at] = tb_logprob(p.weigher, law_key_value(tb_place_key(place)), mass);
    };
    uint32_t crowd;
    const tb_pick_bins bins = tb_pick_fill(p, p.bound, p.greatest, n - 1, &crowd);
    const uint32_t last = (uint32_t)s->word[0];
    if (crowd <= TB_PICK_CROWD) {
        tb_pick_refer(p, bins, 0, last);
        for (uint32_t i = threadIdx.x, end = s->bin[last]; i < end; i += TB_PICK_THREADS) {
            uint64_t place = s->place[s->ref[i]];
            uint32_t b = tb_pick_bin(bins, place), begin = b ? s->bin[b - 1] : 0;
            uint32_t at = begin + tb_pick_greater(s, place, begin, s->bin[b]);
            if (at < n) put(at, place);
        }
    } else {
        uint64_t place[TB_PICK_SEGMENT / 32];
        const uint32_t first = tb_warp() * TB_PICK_SEGMENT + tb_lane();
#pragma unroll
        for (int j = 0; j < TB_PICK_SEGMENT / 32; j++)
            place[j] = j * 32 + tb_lane() < p.mine ? s->place[first + j * 32] : 0;
        uint32_t begin = tb_warp_sum(tb_lane() < tb_warp() ? s->count[tb_lane()] : 0) + tb_lane();
        __syncthreads();
#pragma unroll
        for (int j = 0; j < TB_PICK_SEGMENT / 32; j++)
            if (j * 32 + tb_lane() < p.mine) s->place[begin + j * 32] = place[j];
        __syncthreads();
        tb_sort_shared(s->place, p.listed, true);
        for (uint32_t i = threadIdx.x; i < n; i += TB_PICK_THREADS) put(i, s->place[i]);
    }
    for (uint32_t i = n + threadIdx.x; i < (uint32_t)call.top_count; i += TB_PICK_THREADS) {
        if (ids) ids[i] = -1;
        if (logprobs) logprobs[i] = -LAW_INF;
    }
}

/* One row by a block; false where the list did not do. */
template <int dtype>
TB_DEV bool tb_pick_run(const tb_cuda_params &params, char *memory, int64_t index)
{
    typedef tb_whole_row<dtype> R;
    const tombola_call &call = params.call;
    const bool probabilities = call.kind == TOMBOLA_PROBABILITIES,
               top = call.top_count > 0 && (call.top_ids || call.top_logprobs);
    tb_pick_row<dtype> p;
    tb_pick_shared *s = p.s = (tb_pick_shared *)memory;
    int64_t start, length;
    const bool located = tb_gpu_locate(call, index, &start, &length);
    const int64_t slot = tb_gpu_slot(call, index);
    p.r.team = {0, 1};
    p.r.part = tb_whole_share(p.r, (const char *)call.data + (size_t)start * R::bytes,
                              located ? (uint32_t)length : 0);
    p.least = probabilities ? TB_KEY_LEAST_PROBABILITY : TB_KEY_LEAST_LOGIT;
    if (tb_warp() == 0) tb_whole_parse(params, located, slot, &s->chain);
    __syncthreads();
    const tb_whole_chain chain = s->chain;
    if (chain.bad || length == 0) return false;
    uint32_t k = chain.k_before, status;
    const uint32_t wanted = k == TB_NO_COUNT ? (uint32_t)call.top_count : k;
    if (wanted > TB_PICK_MOST || wanted == 0) return false;
    if (!tb_pick_list(p, probabilities, wanted, &status)) return false;
    p.by_index = call.ties == TOMBOLA_TIES_INDEX;
    p.weigher = tb_make_weigher(probabilities, law_key_value(p.greatest));
    if (chain.temperature != 1.0f && !tb_set_temperature(&p.weigher, chain.temperature))
        k = 1, p.by_index = true;

    uint64_t floor = 0, mass = 0;
    if (k < p.listed) {
        floor = tb_pick_find(p, k - 1);
        if (!p.by_index) floor = tb_floor_of_key(tb_place_key(floor));
    }
    uint32_t kept = p.listed;
    if (k < p.listed || call.kept_mass || call.probabilities || call.top_logprobs) {
        kept = 0;
        tb_pick_each(p, [&](uint64_t place, uint32_t) {
            if (place < floor) return;
            kept++;
            mass += tb_weight(p.weigher, law_key_value(tb_place_key(place)));
        });
        tb_block_sums(&s->scratch, &mass, &kept);
    }
    if (threadIdx.x == 0) {
        if (call.advance_offsets) tb_next_offsets(params)[index] = call.offsets[slot] + 1;
        if (call.status) call.status[index] = status;
        if (call.kept_count) call.kept_count[index] = (int32_t)kept;
        if (call.kept_mass) call.kept_mass[index] = mass;
    }
    if (call.kept_ids && call.kept_capacity > 0)
        tb_pick_write_ids(p, call.kept_ids + index * call.kept_capacity, call.kept_capacity, floor);
    char *masked = call.masked_logits ? tb_masked_row(call, index, start) : NULL;
    float *out = call.probabilities ? call.probabilities + index * call.probabilities_stride : NULL;
    if (masked) tb_flood(masked, R::bytes, 0, (uint32_t)length, tb_masked_word(dtype));
    if (out) tb_flood((char *)out, 4, 0, (uint32_t)length, 0);
    if (masked || out) {
        const char *data = (const char *)call.data + (size_t)start * R::bytes;
        const float scale = tb_renorm_scale(p.weigher, mass);
        __syncthreads();
        tb_pick_each(p, [&](uint64_t place, uint32_t) {
            if (place < floor) return;
            uint32_t i = tb_place_index(place);
            if (masked) tb_copy_element(masked, i, data, i, R::bytes);
            if (out)
                out[i] = tb_renormalised(probabilities,
                                         tb_ratio(p.weigher, law_key_value(tb_place_key(place))), scale);
        });
    }
    if (top) tb_pick_write_top(p, call, index, kept, mass);
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
