/*
 * What a call returns for a row (law, sections 5 to 7), written by one block from the set that its chain
 * keeps.
 */
#ifndef TB_CUDA_OUTPUTS_CUH
#define TB_CUDA_OUTPUTS_CUH

#include "blank.cuh"

/* What the outputs share, once the chain has run. */
typedef struct tb_outcome {
    tb_set set;         /* the final one */
    tb_weigher weigher; /* of the final temperature */
    tb_weigher raw;     /* temperature 1 */
    tb_cut cut, all;    /* the set's and K0's */
    uint64_t mass, raw_mass, total_mass;
    bool ordered; /* room->other holds the set in index order */
} tb_outcome;

/* ---- the kept tokens ---- */

/* The kept tokens of a listed set in index order, in room->other. */
TB_CALL void tb_order_by_index(tb_room *room, uint32_t n)
{
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
        uint64_t place = room->list[i];
        room->other[i] = (uint64_t)tb_place_index(place) << 32 | tb_place_key(place);
    }
    tb_sort(room->other, n, false);
}

TB_CALL void tb_write_ordered_ids(const tombola_call &call, int64_t index, const tb_room *room, uint32_t n)
{
    int32_t *ids = call.kept_ids + index * call.kept_capacity;
    for (int64_t i = threadIdx.x; i < call.kept_capacity; i += blockDim.x)
        ids[i] = i < n ? (int32_t)(room->other[i] >> 32) : -1;
}

/* The same from the row: kept tokens per chunk, their prefix sums, then each chunk at its place. */
TB_CALL void tb_write_ids(const tombola_call &call, int64_t index, tb_room *room, const tb_source &source,
                          const tb_cut &cut, uint64_t floor)
{
    int32_t *ids = call.kept_ids + index * call.kept_capacity;
    uint32_t n = 0;
    __syncthreads();
    tb_each_chunk<4>(
        room, source, tb_place_key(floor),
        [&](const float(&x)[4], uint32_t first) {
#pragma unroll
            for (int j = 0; j < 4; j++) n += tb_in_cut(cut, x[j], first + j);
        },
        [&](uint32_t chunk) {
            n = tb_warp_sum(n);
            if (tb_lane() == 0) room->chunk_mass[chunk] = n;
            n = 0;
        });
    tb_scan_chunks(room, source.chunks);
    /* a chunk begins where the one before it ends */
    int64_t at = tb_warp() && tb_warp() <= source.chunks ? (int64_t)room->chunk_mass[tb_warp() - 1] : 0;
    tb_each_chunk<4>(
        room, source, tb_place_key(floor),
        [&](const float(&x)[4], uint32_t first) {
            uint32_t members = 0;
#pragma unroll
            for (int j = 0; j < 4; j++) members |= (uint32_t)tb_in_cut(cut, x[j], first + j) << j;
            if (at >= call.kept_capacity || !__any_sync(TB_WHOLE_WARP, members)) return;
            uint32_t inclusive = tb_warp_scan(__popc(members));
            int64_t to = at + inclusive - __popc(members);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                if (!(members >> j & 1)) continue;
                if (to < call.kept_capacity) ids[to] = (int32_t)(first + j);
                to++;
            }
            at += __shfl_sync(TB_WHOLE_WARP, inclusive, 31);
        },
        [&](uint32_t chunk) {
            uint32_t next = chunk + blockDim.x / 32;
            if (next < source.chunks) at = (int64_t)room->chunk_mass[next - 1];
        });
    for (int64_t i = (int64_t)room->chunk_mass[source.chunks - 1] + threadIdx.x; i < call.kept_capacity;
         i += blockDim.x)
        ids[i] = -1;
    __syncthreads();
}

/* Renormalised probabilities. Chunks without a kept token are not read. */
TB_CALL void tb_write_probabilities(const tombola_call &call, int64_t index, tb_room *room,
                                    const tb_source &source, const tb_outcome &outcome)
{
    float *out = call.probabilities + index * call.probabilities_stride;
    const tb_weigher weigher = outcome.weigher;
    const tb_cut cut = outcome.cut;
    const tb_span span = source.span;
    float scale = tb_renorm_scale(weigher, outcome.mass);
    if (outcome.ordered) {
        tb_flood((char *)out, 4, span.length, 0);
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < outcome.set.count; i += blockDim.x) {
            float x = law_key_value((uint32_t)room->other[i]);
            out[room->other[i] >> 32] = tb_renormalised(weigher.probabilities, tb_ratio(weigher, x), scale);
        }
        return;
    }
    uint32_t least = tb_place_key(outcome.set.floor);
    bool aligned = (((uint32_t)((uintptr_t)out >> 2) - span.shift) & 3u) == 0;
#pragma unroll 1
    for (uint32_t piece = tb_warp(); piece < source.pieces; piece += blockDim.x / 32) {
        uint32_t first = tb_piece_first(span, piece);
        float x[16];
        bool read = room->chunk_key[piece / span.chunk_pieces] >= least;
        if (read) tb_load_piece(span, piece, 0, source.fill, x);
        uint32_t kept = 0;
#pragma unroll
        for (int j = 0; j < 16; j++)
            kept |= (uint32_t)(read && tb_in_cut(cut, x[j], tb_piece_at(first, j))) << j;
        if (weigher.plain) {
#pragma unroll
            for (int j = 0; j < 16; j++) {
                float p = tb_renormalised(false, tb_ratio_plain(weigher, x[j]), scale);
                x[j] = kept >> j & 1 ? p : 0.0f;
            }
        } else {
#pragma unroll
            for (int j = 0; j < 16; j++) {
                float p = tb_renormalised(weigher.probabilities, tb_ratio(weigher, x[j]), scale);
                x[j] = kept >> j & 1 ? p : 0.0f;
            }
        }
#pragma unroll
        for (int l = 0; l < 4; l++) {
            uint32_t at = first + l * 128;
            if (aligned && tb_group_inside(span, at)) {
                tb_store16(out + at, make_uint4(law_bits(x[4 * l]), law_bits(x[4 * l + 1]),
                                                law_bits(x[4 * l + 2]), law_bits(x[4 * l + 3])));
                continue;
            }
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (at + j < span.length) out[at + j] = x[4 * l + j];
        }
    }
}

/* The source's own bits where kept, -inf elsewhere. In place every element is read and written by the same
 * thread. */
TB_CALL void tb_write_masked(const tombola_call &call, int64_t index, tb_room *room, const tb_source &source,
                             const tb_outcome &outcome)
{
    char *out = tb_masked_row(call, index, room->row.source_offset);
    const tb_span span = source.span;
    const tb_cut cut = outcome.cut;
    uint32_t none = tb_masked_word(span.dtype), bytes = tb_bytes(span.dtype);
    bool wide = bytes == 4;
    if (outcome.ordered && call.masked_logits != call.data) {
        tb_flood(out, bytes, span.length, none);
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < outcome.set.count; i += blockDim.x) {
            size_t at = (size_t)(room->other[i] >> 32);
            tb_copy_element(out, at, span.base, span.shift + at, bytes);
        }
        return;
    }
    uint32_t least = tb_place_key(outcome.set.floor);
    bool aligned = (((uint32_t)((uintptr_t)out / bytes) - span.shift) & 3u) == 0;
#pragma unroll 1
    for (uint32_t piece = tb_warp(); piece < source.pieces; piece += blockDim.x / 32) {
        uint32_t first = tb_piece_first(span, piece);
        bool read = room->chunk_key[piece / span.chunk_pieces] >= least;
        uint4 v[4];
#pragma unroll
        for (int l = 0; l < 4; l++) {
            uint32_t at = first + l * 128;
            v[l] = make_uint4(none, none, none, none);
            if (read && tb_group_inside(span, at))
                v[l] = tb_load_group(span.base + (size_t)(at + span.shift) * bytes, wide);
        }
#pragma unroll
        for (int l = 0; l < 4; l++) {
            uint32_t at = first + l * 128;
            if (aligned && tb_group_inside(span, at)) {
                float4 x = tb_widen(v[l], span.dtype);
                bool a = read && tb_in_cut(cut, x.x, at), b = read && tb_in_cut(cut, x.y, at + 1);
                bool c = read && tb_in_cut(cut, x.z, at + 2), d = read && tb_in_cut(cut, x.w, at + 3);
                if (wide) {
                    tb_store16(out + (size_t)at * 4, make_uint4(a ? v[l].x : none, b ? v[l].y : none,
                                                                c ? v[l].z : none, d ? v[l].w : none));
                } else {
                    uint32_t ab = (a ? 0xffffu : 0u) | (b ? 0xffff0000u : 0u);
                    uint32_t cd = (c ? 0xffffu : 0u) | (d ? 0xffff0000u : 0u);
                    uint2 w = {(v[l].x & ab) | (none & ~ab), (v[l].y & cd) | (none & ~cd)};
                    tb_store8(out + (size_t)at * 2, w);
                }
                continue;
            }
#pragma unroll 1
            for (uint32_t i = at; i != at + 4; i++) {
                if (i >= span.length) continue;
                if (read && tb_in_cut(cut, tb_load(span, i), i))
                    tb_copy_element(out, i, span.base, (size_t)span.shift + i, bytes);
                else
                    tb_set_element(out, i, none, bytes);
            }
        }
    }
}

/* ---- draws ---- */

/* Draws from a kept set by inverse transform: prefix sums in index order, of the tokens of a listed set, else
 * of the chunks. */
struct tb_draw_exactly {
    __device__ __noinline__ void prepare(const tombola_call &, int64_t, tb_room *room, tb_source &source,
                                         tb_outcome &outcome)
    {
        if (!outcome.ordered) {
            if (!outcome.set.chunked) {
                uint64_t mass;
                uint32_t count;
                tb_measure(room, source, outcome.set.floor, room->chunk_mass, &mass, &count);
            }
            tb_scan_chunks(room, source.chunks);
            return;
        }
        uint32_t n = outcome.set.count, per = (n + blockDim.x - 1) / blockDim.x, first = threadIdx.x * per;
        uint32_t end = first + per < n ? first + per : n;
        uint64_t sum = 0, total;
        for (uint32_t i = first; i < end; i++)
            sum += tb_weight(outcome.weigher, law_key_value((uint32_t)room->other[i]));
        sum = tb_block_scan64(&room->scratch, sum, &total);
        for (uint32_t i = first; i < end; i++)
            room->list[i] = sum += tb_weight(outcome.weigher, law_key_value((uint32_t)room->other[i]));
        __syncthreads();
    }

    /* Draws [first, first + n): their tokens into room->drawn. */
    __device__ __noinline__ void draw(const tombola_call &call, int64_t index, tb_room *room,
                                      const tb_source &source, const tb_outcome &outcome, uint32_t first,
                                      uint32_t n)
    {
        if (outcome.ordered) {
            for (uint32_t d = threadIdx.x; d < n; d += blockDim.x) {
                uint64_t u =
                    law_draw_position(tb_gpu_random(call, &room->row, index, first + d), outcome.mass);
                room->drawn[d] =
                    (uint32_t)(room->other[tb_first_above(room->list, outcome.set.count, u)] >> 32);
            }
        } else {
            for (uint32_t d = tb_warp(); d < n; d += blockDim.x / 32) {
                uint64_t u =
                    law_draw_position(tb_gpu_random(call, &room->row, index, first + d), outcome.mass);
                uint32_t chunk = tb_first_above(room->chunk_mass, source.chunks, u);
                uint32_t token = tb_find_in_chunk(
                    source, chunk, u - (chunk ? room->chunk_mass[chunk - 1] : 0),
                    [&](float x, uint32_t i) -> uint64_t {
                        return tb_in_cut(outcome.cut, x, i) ? tb_weight(outcome.weigher, x) : 0;
                    });
                if (tb_lane() == 0) room->drawn[d] = token;
            }
        }
        if (call.rounds)
            for (uint32_t d = threadIdx.x; d < n; d += blockDim.x)
                call.rounds[index * call.draws + first + d] = 0;
    }
};

/* Ranks of room->drawn[0, n): one pass over the row for all of them. Value d's rank goes to rank[d] (global).
 */
TB_CALL void tb_write_ranks(tb_room *room, const tb_source &source, const tb_cut &all, uint32_t n,
                            int32_t *rank)
{
    for (uint32_t d = threadIdx.x; d < n; d += blockDim.x) {
        room->rank_key[d] = (uint64_t)law_key(tb_load(source.span, room->drawn[d])) << 32 | d;
        room->rank_count[d] = 0;
    }
    tb_sort(room->rank_key, n, false); /* n <= TB_BATCH, a power of two */
    uint32_t least = (uint32_t)(room->rank_key[0] >> 32);
    uint32_t single = 0;
    tb_each_chunk<4>(
        room, source, least,
        [&](const float(&x)[4], uint32_t) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                if (!(x[j] >= all.value)) continue;
                uint32_t key = law_key(x[j]);
                if (n == 1) {
                    single += key >= least;
                    continue;
                }
                if (key < least) continue;
                uint32_t low = 0, high = n - 1; /* the last drawn key that this one reaches */
                while (low < high) {
                    uint32_t middle = (low + high + 1) / 2;
                    if ((uint32_t)(room->rank_key[middle] >> 32) <= key)
                        low = middle;
                    else
                        high = middle - 1;
                }
                atomicAdd(&room->rank_count[low], 1u);
            }
        },
        [](uint32_t) {});
    if (n == 1) {
        single = tb_block_sum(&room->scratch, single);
        if (threadIdx.x == 0) rank[0] = (int32_t)single;
        return;
    }
    __syncthreads();
    for (uint32_t d = threadIdx.x; d < n; d += blockDim.x) {
        uint32_t sum = 0;
        for (uint32_t i = d; i < n; i++) sum += room->rank_count[i];
        rank[(uint32_t)room->rank_key[d]] = (int32_t)sum;
    }
    __syncthreads();
}

template <class Draws>
TB_DEV void tb_write_draws(const tombola_call &call, int64_t index, tb_room *room, tb_source &source,
                           tb_outcome &outcome, Draws draws)
{
    draws.prepare(call, index, room, source, outcome);
    for (uint32_t first = 0; first < (uint32_t)call.draws; first += TB_BATCH) {
        uint32_t n = (uint32_t)call.draws - first < TB_BATCH ? (uint32_t)call.draws - first : TB_BATCH;
        draws.draw(call, index, room, source, outcome, first, n);
        __syncthreads();
        for (uint32_t d = threadIdx.x; d < n; d += blockDim.x) {
            int64_t at = index * call.draws + first + d;
            uint32_t token = room->drawn[d];
            float x = tb_load(source.span, token);
            if (call.tokens) call.tokens[at] = (int32_t)token;
            if (call.logprobs) call.logprobs[at] = tb_logprob(outcome.weigher, x, outcome.mass);
            if (call.raw_logprobs) call.raw_logprobs[at] = tb_logprob(outcome.raw, x, outcome.raw_mass);
        }
        if (call.ranks) tb_write_ranks(room, source, outcome.all, n, call.ranks + index * call.draws + first);
        __syncthreads();
    }
}

/* ---- the rest ---- */

TB_CALL float tb_entropy(tb_room *room, const tb_source &source, const tb_outcome &outcome)
{
    if (outcome.weigher.probabilities) return law_float(LAW_NAN_BITS);
    law_entropy_sum sum = {0, 0};
    auto add = [&](float x) {
        uint64_t w = tb_weight(outcome.weigher, x);
        if (w) law_entropy_add(&sum, w, law_entropy_factor(tb_exponent(outcome.weigher, x)));
    };
    if (outcome.set.listed) {
        for (uint32_t i = threadIdx.x; i < outcome.set.count; i += blockDim.x)
            add(law_key_value(tb_place_key(room->list[i])));
    } else {
        tb_each_chunk<4>(
            room, source, tb_place_key(outcome.set.floor),
            [&](const float(&x)[4], uint32_t first) {
#pragma unroll
                for (int j = 0; j < 4; j++)
                    if (tb_in_cut(outcome.cut, x[j], first + j)) add(x[j]);
            },
            [](uint32_t) {});
    }
    sum.low = tb_block_sum64(&room->scratch, sum.low);
    sum.high = tb_block_sum64(&room->scratch, sum.high) + (sum.low >> 32);
    sum.low &= 0xffffffffu;
    return law_entropy(sum, outcome.mass);
}

/* The greatest tokens of a set. Overwrites the list, slice by slice where they are many. */
TB_CALL void tb_write_top(const tombola_call &call, int64_t index, tb_room *room, const tb_source &source,
                          tb_set set, uint64_t mass)
{
    const uint32_t slice = TB_LIST / 4 * 3;
    int64_t at = index * call.top_count;
    uint32_t wanted = (uint32_t)call.top_count, done = 0;
    while (done < wanted) {
        uint32_t want = wanted - done < slice ? wanted - done : slice;
        tb_set part = set;
        if (!part.listed && !(part.counted && part.count <= TB_LIST))
            tb_select(room, source, true, want, TB_NO_TARGET, &part);
        if (!part.listed) tb_list_set(room, source, &part, part.floor);
        uint32_t take = part.count < want ? part.count : want;
        for (uint32_t i = threadIdx.x; i < take; i += blockDim.x) {
            uint64_t place = room->list[i];
            if (call.top_ids) call.top_ids[at + done + i] = (int32_t)tb_place_index(place);
            if (call.top_logprobs)
                call.top_logprobs[at + done + i] =
                    tb_logprob(source.weigher, law_key_value(tb_place_key(place)), mass);
        }
        done += take;
        if (take < want) break;
        set.ceiling = room->list[take - 1]; /* the next slice lies below */
        set.count -= take;
        set.listed = set.chunked = false;
        __syncthreads();
    }
    for (uint32_t i = done + threadIdx.x; i < wanted; i += blockDim.x) {
        if (call.top_ids) call.top_ids[at + i] = -1;
        if (call.top_logprobs) call.top_logprobs[at + i] = -LAW_INF;
    }
    __syncthreads();
}

TB_CALL void tb_write_given(const tombola_call &call, int64_t index, const tb_source &source, float *out,
                            const tb_cut &cut, const tb_weigher &weigher, uint64_t mass)
{
    if (!out) return;
    for (int64_t i = threadIdx.x; i < call.given_count; i += blockDim.x) {
        int64_t at = index * call.given_count + i;
        int32_t id = call.given_ids[at];
        float result = law_float(LAW_NAN_BITS);
        if (id >= 0 && (uint32_t)id < source.span.length) {
            float x = tb_load(source.span, (uint32_t)id);
            result = tb_in_cut(cut, x, (uint32_t)id) ? tb_logprob(weigher, x, mass) : -LAW_INF;
        }
        out[at] = result;
    }
}

/* Everything that a row returns, from its final set. The masked logits come last: they may overwrite the
 * source. */
template <class Draws>
TB_DEV void tb_write_outputs(const tombola_call &call, int64_t index, tb_room *room, tb_source &source,
                             tb_outcome &outcome, Draws draws)
{
    tb_set &set = outcome.set;
    bool drawing = tb_gpu_draws(call), top = call.top_count > 0 && (call.top_ids || call.top_logprobs);
    bool raw_top = top && call.top_raw;
    if (call.raw_logprobs || call.given_raw_logprobs || (raw_top && call.top_logprobs)) {
        source.weigher = outcome.raw;
        uint32_t count;
        tb_measure(room, source, tb_floor_of_all(source.facts, outcome.raw.probabilities), NULL,
                   &outcome.raw_mass, &count);
        source.weigher = outcome.weigher;
    }
    if (drawing || call.kept_mass || call.kept_count || call.probabilities || call.entropy ||
        call.given_logprobs || (top && !raw_top && call.top_logprobs))
        tb_weigh_set(room, source, &set);
    outcome.mass = set.mass;
    outcome.cut = tb_make_cut(set.floor);
    outcome.all = tb_make_cut(tb_floor_of_all(source.facts, outcome.raw.probabilities));

    float entropy = 0.0f;
    if (call.entropy) entropy = tb_entropy(room, source, outcome);
    if (threadIdx.x == 0) {
        if (call.status) call.status[index] = source.facts.status;
        if (call.kept_count) call.kept_count[index] = (int32_t)set.count;
        if (call.kept_mass) call.kept_mass[index] = set.mass;
        if (call.total_mass) call.total_mass[index] = outcome.total_mass;
        if (call.entropy) call.entropy[index] = entropy;
    }
    outcome.ordered = set.listed && (drawing || call.kept_ids || call.probabilities || call.masked_logits);
    if (outcome.ordered) tb_order_by_index(room, set.count);
    bool ids = call.kept_ids && call.kept_capacity > 0;
    if (ids && outcome.ordered) tb_write_ordered_ids(call, index, room, set.count);
    if (top && !raw_top && set.listed) {
        tb_write_top(call, index, room, source, set, outcome.mass);
        top = false;
    }
    bool in_place = call.masked_logits == call.data;
    if (call.probabilities) tb_write_probabilities(call, index, room, source, outcome);
    if (call.masked_logits && !in_place) tb_write_masked(call, index, room, source, outcome);
    if (drawing) tb_write_draws(call, index, room, source, outcome, draws);
    source.weigher = outcome.weigher;
    tb_write_given(call, index, source, call.given_logprobs, outcome.cut, outcome.weigher, outcome.mass);
    tb_write_given(call, index, source, call.given_raw_logprobs, outcome.all, outcome.raw, outcome.raw_mass);
    if (ids && !outcome.ordered) tb_write_ids(call, index, room, source, outcome.cut, set.floor);
    if (top && raw_top) {
        tb_set all;
        tb_begin_chain(&source, outcome.raw.probabilities, &all);
        tb_write_top(call, index, room, source, all, outcome.raw_mass);
    } else if (top) {
        set.listed = false;
        tb_write_top(call, index, room, source, set, outcome.mass);
    }
    __syncthreads();
    outcome.ordered = false;
    if (call.masked_logits && in_place) tb_write_masked(call, index, room, source, outcome);
}

TB_CALL tb_facts tb_survey_once(tb_room *room, const tb_span &span, bool probabilities)
{
    return tb_survey_row(&room->scratch, span, probabilities, room->chunk_key);
}

/* One row, start to end. */
template <class Draws>
TB_DEV void tb_run_row(const tb_cuda_params &params, int64_t index, tb_room *room, Draws draws)
{
    const tombola_call &call = params.call;
    bool probabilities = call.kind == TOMBOLA_PROBABILITIES;
    tb_gpu_resolve(params, index, &room->row);
    __syncthreads();
    /* each slot's offset is raised once, however many rows name it: kernel tombola_advance stores these */
    if (call.advance_offsets && room->row.slot >= 0 && threadIdx.x == 0)
        tb_next_offsets(params)[index] = room->row.offset + 1;
    if (!room->row.good) {
        tb_write_void(call, index, &room->row, TOMBOLA_ROW_BAD_PARAM);
        return;
    }
    tb_source source;
    source.span = tb_make_span(room->row.data, call.dtype, room->row.length);
    source.pieces = tb_span_pieces(source.span);
    source.chunks = tb_span_chunks(source.span);
    source.fill = tb_fill(probabilities);
    source.facts = tb_survey_once(room, source.span, probabilities);
    if (source.facts.status & TOMBOLA_ROW_EMPTY) {
        tb_write_void(call, index, &room->row, source.facts.status);
        return;
    }
    tb_outcome outcome;
    tb_begin_chain(&source, probabilities, &outcome.set);
    outcome.raw = source.weigher;
    outcome.raw_mass = outcome.total_mass = 0;
    tb_run_chain(room, &source, call.ties == TOMBOLA_TIES_INDEX, call.step_count, &outcome.set,
                 call.total_mass ? &outcome.total_mass : NULL);
    outcome.weigher = source.weigher;
    tb_write_outputs(call, index, room, source, outcome, draws);
}

/* The same where the dtype is known: it makes no difference. */
template <int dtype> using tb_exact_draws = tb_draw_exactly;

template <int dtype, class Draws>
TB_DEV void tb_run_row(const tb_cuda_params &params, int64_t index, tb_room *room, Draws draws)
{
    tb_run_row(params, index, room, draws);
}

#endif
