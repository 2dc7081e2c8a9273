/*
 * A few thousand kept tokens at most: masked logits, renormalised probabilities and ids under a top_k of at
 * most TB_PICK_MOST or a top_p, and the greatest tokens in order. One block a row, which it reads once (for
 * top_p twice: weights refer to the greatest token) and does not keep: what reaches a bound that a sample of
 * the row suggests is listed, and all that follows is done with the list. The list tells whether it holds the
 * kept set; if it does not, the row is read again with another bound, and at last left to the generic code.
 */
#ifndef TB_CUDA_PICK_CUH
#define TB_CUDA_PICK_CUH

#include "pick_bound.cuh"

#define TB_PICK_TRIES 4

/* ---- the list ---- */

#define TB_PICK_UNROLL 4

/* The sum of what is greater than 0, none of which is NaN: a tree. */
template <class R> TB_DEV float tb_pick_add(const uint4 (&v)[TB_PICK_UNROLL])
{
    float part[R::width];
#pragma unroll
    for (int e = 0; e < R::width; e++) {
        float x[TB_PICK_UNROLL];
#pragma unroll
        for (int j = 0; j < TB_PICK_UNROLL; j++) x[j] = fmaxf(tb_whole_element<R>(v[j], e), 0.0f);
        part[e] = (x[0] + x[1]) + (x[2] + x[3]);
    }
#pragma unroll
    for (int d = 1; d < R::width; d *= 2)
#pragma unroll
        for (int e = 0; e + d < R::width; e += 2 * d) part[e] += part[e + d];
    return part[0];
}

/* What a warp sees of its part of the row: tokens that reach the bound; this thread's greatest value; status
 * bits; this thread's share of the mass, or of the sum, of all tokens. */
typedef struct tb_pick_seen {
    uint64_t mass;
    double sum;
    float top;
    uint32_t n, flags;
} tb_pick_seen;

/* Lists the warp's tokens that reach the bound, in index order, while there is room. TB_PICK_WEIGHS: and
 * sums the masses of all, the weigher being known; TB_PICK_ADDS: and the probabilities, with an error that
 * tb_pick_interval knows. Not inlined: so the loops have registers enough. */
enum { TB_PICK_LISTS, TB_PICK_WEIGHS, TB_PICK_ADDS };

template <int MODE, int dtype>
TB_CALL tb_pick_seen tb_pick_read_part(tb_whole_part part, uint32_t bound_key, bool probabilities,
                                       tb_weigher w, uint64_t *segment, uint32_t room)
{
    typedef tb_whole_row<dtype> R;
    constexpr bool WEIGH = MODE == TB_PICK_WEIGHS;
    R r;
    r.part = part;
    /* Another number than the caller's, which would be read again, from memory, before each load. */
    r.part.inner = part.inner / TB_PICK_UNROLL * TB_PICK_UNROLL;
    const uint32_t none = probabilities ? 0u : tb_masked_word(dtype), loads = tb_whole_loads(r.part);
    const float bound = law_key_value(bound_key),
                least = law_key_value(probabilities ? TB_KEY_LEAST_PROBABILITY : TB_KEY_LEAST_LOGIT);
    tb_pick_seen seen = {0, 0.0, 0.0f, 0, 0};
    const char *from = r.part.base + (size_t)(r.part.first + tb_lane()) * 16;
    uint32_t n = 0;
    float top = -LAW_INF;
    bool nan = false, negative = false;
#pragma unroll 1
    for (uint32_t j0 = 0; j0 < loads; j0 += TB_PICK_UNROLL) {
        uint4 v[TB_PICK_UNROLL];
        tb_whole_load_vectors(r, j0, from, none, v);
        from += TB_PICK_UNROLL * 512;
        if (probabilities) negative |= tb_whole_negative<R>(v);
        float most = tb_whole_greatest<R>(v, &nan);
        top = fmaxf(top, most);
        if (MODE == TB_PICK_ADDS) seen.sum += (double)tb_pick_add<R>(v);
        if (!WEIGH && !__any_sync(TB_WHOLE_WARP, most >= bound)) continue;
        if (!WEIGH) {
#pragma unroll
            for (int j = 0; j < TB_PICK_UNROLL; j++)
                tb_pick_append<R>(v[j], tb_whole_index(r, r.part.first + (j0 + j) * 32 + tb_lane()), bound,
                                  segment, room, &n);
        }
#pragma unroll 1
        for (int j = 0; WEIGH && j < TB_PICK_UNROLL; j++) { /* the next vector moves to v[0]: little code */
            uint32_t high = 0, low = 0;
#pragma unroll
            for (int e = 0; e < R::width; e++) {
                float x = tb_whole_element<R>(v[0], e);
                float ratio = w.plain ? tb_ratio_plain(w, x) : x * w.scale * w.scale2;
                uint32_t h, l;
                tb_split_ratio(x >= least ? ratio : 0.0f, &h, &l);
                high += h - TB_HIGH_BIAS;
                low += l - TB_LOW_BIAS;
            }
            seen.mass += tb_join_sums(high, low);
            tb_pick_append<R>(v[0], tb_whole_index(r, r.part.first + (j0 + j) * 32 + tb_lane()), bound,
                              segment, room, &n);
#pragma unroll
            for (int i = 1; i < TB_PICK_UNROLL; i++) v[i - 1] = v[i];
        }
    }
    seen.n = n;
    seen.top = top;
    seen.flags = (__any_sync(TB_WHOLE_WARP, nan) ? TOMBOLA_ROW_NAN : 0u) |
                 (__any_sync(TB_WHOLE_WARP, negative) ? TOMBOLA_ROW_NEGATIVE : 0u);
    return seen;
}

template <int dtype>
TB_DEV tb_pick_seen tb_pick_read(const tb_pick_block<dtype> &p, int mode, bool probabilities,
                                 uint64_t *segment, uint32_t room)
{
    const tb_weigher w = p.row.weigher;
    if (mode == TB_PICK_WEIGHS)
        return tb_pick_read_part<TB_PICK_WEIGHS, dtype>(p.r.part, p.row.bound, probabilities, w, segment,
                                                        room);
    if (mode == TB_PICK_ADDS)
        return tb_pick_read_part<TB_PICK_ADDS, dtype>(p.r.part, p.row.bound, probabilities, w, segment, room);
    return tb_pick_read_part<TB_PICK_LISTS, dtype>(p.r.part, p.row.bound, probabilities, w, segment, room);
}

/* Of a warp, beside its status bits: it had no room for all. */
#define TB_PICK_FULL 0x80000000u

/* The greatest of K0, the status and the number of the listed tokens, from each warp's; where they are few,
 * they are copied together. */
TB_DEV void tb_pick_tell(tb_pick_shared *s, const tb_pick_seen &seen, const uint64_t *segment, uint32_t room)
{
    const bool full = seen.n > room;
    const uint32_t key = tb_warp_max(law_key(seen.top)), flags = seen.flags | (full ? TB_PICK_FULL : 0);
    uint32_t at = 0;
    if (tb_lane() == 0) {
        s->count[tb_warp()] = seen.n;
        atomicMax(&s->greatest, key);
        if (flags) atomicOr(&s->status, flags);
        at = atomicAdd(&s->listed, seen.n);
    }
    at = __shfl_sync(TB_WHOLE_WARP, at, 0);
    __syncwarp(); /* what other lanes have put into the segment */
    if (!full && at + seen.n <= TB_PICK_FEW)
#pragma unroll 1
        for (uint32_t i = tb_lane(); i < seen.n; i += 32) s->few[at + i] = segment[i];
    __syncthreads();
}

/*
 * Between what the mass of all tokens is, from the threads' sums of the probabilities x. Let S be their exact
 * sum in units of the weights, x * 2^(40 - e). The law's weights are these, rounded down: their sum is in
 * (S - n, S]. A tree of depth 5 at most has a relative error of 5 * 2^-24 and its second order; sums in
 * binary64 add less than 2^-40. Of each thread's sum, rounded down to a unit, at most one is lost.
 */
template <int dtype> TB_DEV void tb_pick_interval(tb_pick_block<dtype> &p, double sum)
{
    const tb_weigher w = p.row.weigher;
    p.low = p.high = 0;
    if (w.maximum >= 0x1p100f) { /* a tree of these may overflow */
        p.high = ~(uint64_t)0 >> 2;
        return;
    }
    const uint64_t units = tb_block_sum64(
        &p.row.s->scratch, (uint64_t)(sum * (double)w.scale * (double)w.scale2 * (double)LAW_ONE_F));
    const uint64_t error = 6 * (units >> 24) + p.r.part.length + TB_PICK_THREADS + 8;
    p.low = units > error ? units - error : 0;
    p.high = units + error;
}

/* Lists what may be kept: `wanted` tokens or more, or all of K0. With a top_p of all tokens' mass, if that is
 * done (p.low and p.high bound the mass then) they hold its fraction q. The sample was taken with `loads`
 * loads; 0: there is room for the whole row. `first_equals`: of tokens equal to the last one wanted, those of
 * the least indices do. `first`: the row has been read, with what was seen. False where that failed. */
template <int dtype>
TB_DEV bool tb_pick_list(tb_pick_block<dtype> &p, bool probabilities, uint32_t wanted, bool by_mass,
                         bool first_equals, int loads, const tb_whole_chain &chain, bool first,
                         tb_pick_seen seen, uint32_t *status)
{
    typedef tb_whole_row<dtype> R;
    tb_pick_shared *s = p.row.s;
    const uint32_t each = TB_PICK_LIST / (blockDim.x / 32);
    const bool all = loads == 0, exact = by_mass && !probabilities;
    const int mode = exact ? TB_PICK_WEIGHS : by_mass ? TB_PICK_ADDS : TB_PICK_LISTS;
    bool capped = false; /* the list has `wanted` tokens, there are more equal ones */
    float fraction = law_float((uint32_t)s->word[1]);
    p.low = p.high = 0;
    uint32_t begin = each * tb_warp(), room = each;
    /* where the row has been read, the bound is there, and a faster warp may be about to put down the next */
    if (!first) p.row.bound = all ? p.least : (uint32_t)s->word[3];
    if (exact) { /* the greatest first */
        const uint32_t bound = p.row.bound;
        p.row.bound = TB_KEY_POS_INF;
        tb_pick_tell(s, tb_pick_read(p, TB_PICK_LISTS, probabilities, s->place, 0), s->place, 0);
        p.row.greatest = s->greatest;
        __syncthreads(); /* all have read it: the next look writes there */
        p.row.bound = bound;
        if (p.row.greatest >= TB_KEY_POS_INF || p.row.greatest < p.least) return false;
        p.row.weigher = tb_make_weigher(probabilities, law_key_value(p.row.greatest));
        if (chain.temperature != 1.0f && !tb_set_temperature(&p.row.weigher, chain.temperature)) return false;
        if (p.row.weigher.flat) return false;
        if (!all && !tb_pick_promises(p, law_key_value(bound), chain.p, loads)) return false;
    }
#pragma unroll 1
    for (int attempt = 0; attempt < TB_PICK_TRIES; attempt++) {
        if (attempt) { /* the last attempt's words have been read */
            __syncthreads();
            if (threadIdx.x == 0) s->listed = s->status = 0;
            __syncthreads();
        }
        if (attempt || !first) {
            seen = tb_pick_read(p, mode, probabilities, s->place + begin, room);
            tb_pick_tell(s, seen, s->place + begin, room);
        }
        const uint32_t n = seen.n;
        p.row.greatest = s->greatest;
        const uint32_t count = tb_lane() < blockDim.x / 32 ? s->count[tb_lane()] : 0;
        p.row.listed = s->listed;
        const bool full = s->status & TB_PICK_FULL;
        *status = s->status & ~TB_PICK_FULL;
        const bool enough = p.row.listed >= wanted || p.row.bound == p.least;
        if (p.row.greatest >= TB_KEY_POS_INF || p.row.listed == 0) return false;
        if (enough && (!full || capped)) {
            p.row.first = begin;
            p.row.mine = n < room ? n : room;
            p.row.before = capped ? begin : tb_warp_sum(tb_lane() < tb_warp() ? count : 0);
            if (capped) p.row.listed = wanted;
            if (!by_mass) return true;
            if (exact) {
                p.low = p.high = tb_block_sum64(&s->scratch, seen.mass);
            } else {
                p.row.weigher = tb_make_weigher(true, law_key_value(p.row.greatest));
                tb_pick_interval(p, seen.sum);
            }
            uint64_t listed = 0;
            tb_pick_each(p.row, [&](uint64_t place, uint32_t) {
                listed += tb_weight(p.row.weigher, law_key_value(tb_place_key(place)));
            });
            return tb_block_sum64(&s->scratch, listed) >= law_top_p_target(chain.p, p.high);
        }
        if (enough && first_equals && p.row.bound == p.row.greatest) { /* of equal tokens the first ones do */
            begin = tb_warp_sum(tb_lane() < tb_warp() ? count : 0);
            if (begin > wanted) begin = wanted;
            room = n < wanted - begin ? n : wanted - begin;
            capped = true;
            continue;
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
        const uint32_t before = p.row.bound;
        p.row.bound = tb_pick_bound(s, p.least, tb_pick_number<R>(fraction, loads));
        for (int i = 0; i < 3 && p.row.bound == before; i++) {
            fraction *= enough ? 0.6f : 1.4f;
            __syncthreads(); /* all have the bound */
            p.row.bound = tb_pick_bound(s, p.least, tb_pick_number<R>(fraction, loads));
        }
        if (p.row.bound == before) return false;
    }
    return false;
}

/* A barrier of the samplers and of the warp that says which of their values is wanted: the first `threads`.
 */
TB_DEV void tb_pick_sampled(uint32_t threads)
{
    asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
}

/* The warps of a block that fill its output while others find what is kept. Few: all other warps' loads wait
 * behind their stores, and these are enough for as many bytes as a multiprocessor can store. */
TB_DEV uint32_t tb_pick_fillers(void)
{
    return blockDim.x / 256;
}

/* The end of a row of which few tokens are listed, under a top_k, with one output as long as the row: one
 * warp finds the floor, and some fill the row. All is in shared memory, for after the row was read whatever
 * lies in local memory comes from L2. False, with nothing written but the fill, where more is to be done. */
template <int dtype>
TB_DEV bool tb_pick_end_few(const tb_cuda_params &params, tb_pick_shared *s, uint32_t bound, int64_t index)
{
    typedef tb_whole_row<dtype> R;
    const tombola_call &call = params.call;
    const bool probabilities = call.kind == TOMBOLA_PROBABILITIES;
    const uint32_t n = s->listed, status = s->status, greatest = s->greatest,
                   least = probabilities ? TB_KEY_LEAST_PROBABILITY : TB_KEY_LEAST_LOGIT;
    if (n - 1 >= TB_PICK_FEW || (n < s->wanted && bound != least) || status >= TB_PICK_FULL ||
        greatest >= TB_KEY_POS_INF)
        return false;
    /* A token for each of the first threads, whose bits are fetched before much is stored. */
    const uint64_t own = threadIdx.x < n ? s->few[threadIdx.x] : 0;
    uint32_t bits = 0;
    if (own && call.masked_logits) bits = tb_element_bits(s->data, tb_place_index(own), R::bytes);
    if (tb_warp() == 0) {
        const tb_weigher weigher = tb_make_weigher(probabilities, law_key_value(greatest));
        const uint64_t floor =
            tb_pick_floor(s->few, n, s->k, call.ties == TOMBOLA_TIES_INDEX, bound, greatest);
        const bool weigh = call.probabilities || call.kept_mass;
        uint64_t mass = 0;
        uint32_t kept = 0;
#pragma unroll 1
        for (uint32_t i = tb_lane(); i < n && (weigh || call.kept_count); i += 32) {
            const uint64_t place = s->few[i];
            if (place < floor) continue;
            kept++;
            if (weigh) mass += tb_weight(weigher, law_key_value(tb_place_key(place)));
        }
        kept = tb_warp_sum(kept);
        mass = tb_warp_sum54(mass);
        if (tb_lane() == 0) {
            s->word[0] = floor;
            s->word[1] = mass;
            if (call.status) call.status[index] = status;
            if (call.kept_count) call.kept_count[index] = (int32_t)kept;
            if (call.kept_mass) call.kept_mass[index] = mass;
        }
    }
    if (tb_warp() <= tb_pick_fillers()) tb_pick_fill_pieces(s, false);
    __syncthreads();
    if (!own || own < s->word[0]) return true;
    if (call.masked_logits) {
        tb_set_element(s->fill, tb_place_index(own), bits, R::bytes);
    } else {
        const tb_weigher weigher = tb_make_weigher(probabilities, law_key_value(greatest));
        const float ratio = tb_ratio(weigher, law_key_value(tb_place_key(own)));
        ((float *)s->fill)[tb_place_index(own)] =
            tb_renormalised(probabilities, ratio, tb_renorm_scale(weigher, s->word[1]));
    }
    return true;
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
    p.least = probabilities ? TB_KEY_LEAST_PROBABILITY : TB_KEY_LEAST_LOGIT;
    /* The first warps sample the row, one finds what is wanted, and some fill the output meanwhile, for which
     * memory has time: no more instructions of the others. */
    const bool all = p.r.part.length <= TB_PICK_LIST - blockDim.x / 32 * 3 * R::width,
               sampler = threadIdx.x < TB_PICK_SAMPLERS;
    const uint32_t warps = blockDim.x / 32, samplers = TB_PICK_SAMPLERS / 32,
                   parser = warps > samplers ? samplers : warps - 1;
    auto count_wanted = [&](const tb_whole_chain &chain, bool by_mass) {
        return by_mass                         ? TB_PICK_LIKELY
               : chain.k_before == TB_NO_COUNT ? (uint32_t)call.top_count
                                               : chain.k_before;
    };
    uint4 v[TB_PICK_LOADS];
    int loads = 0;
    if (!all && sampler) tb_pick_load_sample<R>(p.r.part, v);
    if (threadIdx.x == blockDim.x - 1) {
        char *masked = call.masked_logits ? tb_masked_row(call, index, start) : NULL;
        float *out = call.probabilities ? call.probabilities + index * call.probabilities_stride : NULL;
        s->fill = all ? NULL : masked ? masked : (char *)out;
        s->fill_bytes = masked ? R::bytes : 4;
        s->fill_word = masked ? tb_masked_word(dtype) : 0;
        s->fill_length = (uint32_t)length;
        s->data = (const char *)call.data + (size_t)start * R::bytes;
        s->filled = s->listed = s->greatest = s->status = 0;
        tb_told_init(&s->told);
    }
    uint32_t number = 0;
    if (tb_warp() == parser) {
        const int kind = tb_pick_kind(&call, params.steps);
        if (!all) loads = tb_pick_loads<R>(params, p.r.part.length, kind == TB_PICK_BY_MASS);
        tb_whole_parse(params, located, slot, &s->chain);
        __syncwarp();
        const tb_whole_chain &chain = s->chain;
        const uint32_t wanted = count_wanted(chain, kind == TB_PICK_BY_MASS);
        float fraction = 0.0f;
        if (!all) {
            fraction = tb_pick_fraction<R>(wanted, p.r.part.length, loads);
            number = tb_pick_number<R>(fraction, loads);
        }
        if (tb_lane() == 0) {
            s->kind = (uint32_t)kind;
            s->wanted = wanted;
            const bool few = kind == TB_PICK_BY_COUNT && !chain.bad && chain.p >= 1.0f &&
                             chain.temperature == 1.0f && !tb_wants_top(&call) && !call.kept_ids &&
                             !(call.masked_logits && call.probabilities) && !call.advance_offsets;
            s->k = !few ? 0 : chain.k_before < chain.k_after ? chain.k_before : chain.k_after;
            s->word[1] = law_bits(fraction);
            s->word[2] = (uint32_t)loads;
        }
    }
    __syncthreads();
    loads = (int)s->word[2];
    if (!all && tb_warp() <= parser) {
        if (sampler) {
            bool nan = false;
            tb_pick_trim_sample<R>(loads, v);
            s->sample[threadIdx.x] = law_key(tb_whole_greatest<R>(v, &nan));
        }
        tb_pick_sampled((parser + 1) * 32);
        if (tb_warp() == parser) {
            tb_pick_find_bound(s, p.least, number);
            if (tb_lane() == 0) tb_tell(&s->told);
        }
    }
    /* the samplers, too, where there are no others */
    const uint32_t filler = warps > samplers ? tb_warp() - parser - 1 : tb_warp();
    if (s->fill && filler < tb_pick_fillers()) tb_pick_fill_pieces(s, true);
    __syncthreads();
    const bool by_mass = s->kind == TB_PICK_BY_MASS, first = s->k && s->fill;
    tb_pick_seen seen = {0, 0.0, 0.0f, 0, 0};
    if (first) {
        const uint32_t each = TB_PICK_LIST / warps;
        uint64_t *segment = s->place + each * tb_warp();
        p.row.bound = (uint32_t)s->word[3];
        seen = tb_pick_read(p, TB_PICK_LISTS, probabilities, segment, each);
        tb_pick_tell(s, seen, segment, each);
        if (tb_pick_end_few<dtype>(params, s, p.row.bound, index)) return true;
    }
    const tb_whole_chain chain = s->chain;
    if (chain.bad || length == 0) return false;
    if (by_mass && (chain.p >= 1.0f || chain.k_before != TB_NO_COUNT)) return false;
    const uint32_t wanted = count_wanted(chain, by_mass);
    const bool first_equals =
        !by_mass && chain.p >= 1.0f && (call.ties == TOMBOLA_TIES_INDEX || chain.k_before == TB_NO_COUNT);
    uint32_t status;
    if (!tb_pick_list(p, probabilities, wanted, by_mass, first_equals, loads, chain, first, seen, &status))
        return false;
    if (call.advance_offsets && threadIdx.x == 0) tb_next_offsets(params)[index] = call.offsets[slot] + 1;
    /* the mass of all tokens is known well enough, or summed again */
    while (!tb_pick_write(p.row, call, chain, p.low, p.high, index, start, status, 0, (uint32_t)length)) {
        __syncthreads();
        const tb_pick_seen seen =
            tb_pick_read(p, TB_PICK_WEIGHS, probabilities, s->place + p.row.first, p.row.mine);
        p.low = p.high = tb_block_sum64(&s->scratch, seen.mass);
    }
    return true;
}

template <int dtype> TB_DEV void tb_pick_serve(const tb_cuda_params &params, char *memory, int64_t index)
{
    if (tb_pick_run<dtype>(params, memory, index)) return;
    __syncthreads();
    if (threadIdx.x == 0) tb_told_close(&((tb_pick_shared *)memory)->told);
    __syncthreads();
    tb_run_row(params, index, (tb_room *)memory, tb_draw_nothing());
}

#endif
