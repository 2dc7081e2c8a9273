/*
 * What a call returns for a row (law, sections 5 to 7), written by a block or a cluster of them from the set
 * that its chain keeps.
 */
#ifndef TB_CUDA_OUTPUTS_CUH
#define TB_CUDA_OUTPUTS_CUH

#include "blank.cuh"
#include "draws.cuh"

/* ---- the kept tokens ---- */

/* The kept tokens of a listed set in index order, in room->other. */
TB_CALL void tb_order_by_index(tb_room *room, uint32_t n)
{
    __syncthreads();
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
        uint64_t place = room->list[i];
        room->other[i] = (uint64_t)tb_place_index(place) << 32 | tb_place_key(place);
    }
    tb_sort_shared(room->other, n, false);
}

TB_DEV void tb_write_ordered_ids(const tb_room *room, int64_t index, uint32_t n)
{
    const tombola_call &call = room->call;
    int32_t *ids = call.kept_ids + index * call.kept_capacity;
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < call.kept_capacity; i += blockDim.x)
        ids[i] = i < n ? (int32_t)(room->other[i] >> 32) : -1;
}

/* The same from the row: kept tokens per chunk, their prefix sums, then each chunk at its place. */
TB_CALL void tb_write_ids(tb_room *room, int64_t index)
{
    const tb_source &source = room->source;
    const int64_t capacity = room->call.kept_capacity;
    const uint64_t floor = room->outcome.set.floor;
    const tb_cut cut = room->outcome.cut;
    const tb_team team = source.team;
    int32_t *ids = room->call.kept_ids + index * capacity;
    uint32_t n = 0;
    tb_claim_masses(room);
    tb_each_chunk<4>(
        room, tb_place_key(floor),
        [&](const float(&x)[4], uint32_t first) {
#pragma unroll
            for (int j = 0; j < 4; j++) n += tb_in_cut(cut, x[j], first + j);
        },
        [&](uint32_t chunk) {
            n = tb_warp_sum(n);
            if (tb_lane() < team.size) *tb_team_at(team, &room->chunk_mass[chunk], tb_lane()) = n;
            n = 0;
        });
    tb_team_barrier(team);
    tb_scan_chunks(room, source.chunks);
    /* a chunk begins where the one before it ends */
    uint32_t begin = source.first_chunk + tb_warp();
    int64_t at = begin && begin <= source.chunks ? (int64_t)room->chunk_mass[begin - 1] : 0;
    tb_each_chunk<4>(
        room, tb_place_key(floor),
        [&](const float(&x)[4], uint32_t first) {
            uint32_t members = 0;
#pragma unroll
            for (int j = 0; j < 4; j++) members |= (uint32_t)tb_in_cut(cut, x[j], first + j) << j;
            if (at >= capacity || !__any_sync(TB_WHOLE_WARP, members)) return;
            uint32_t inclusive = tb_warp_scan(__popc(members));
            int64_t to = at + inclusive - __popc(members);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                if (!(members >> j & 1)) continue;
                if (to < capacity) ids[to] = (int32_t)(first + j);
                to++;
            }
            at += __shfl_sync(TB_WHOLE_WARP, inclusive, 31);
        },
        [&](uint32_t chunk) {
            uint32_t next = chunk + blockDim.x / 32;
            if (next < source.end_chunk) at = (int64_t)room->chunk_mass[next - 1];
        });
    int64_t all = (int64_t)room->chunk_mass[source.chunks - 1];
    if (team.rank == 0)
#pragma unroll 1
        for (int64_t i = all + threadIdx.x; i < capacity; i += blockDim.x) ids[i] = -1;
    __syncthreads();
}

/* From one of a warp's pieces to the next: those of its chunks in turn. */
TB_DEV void tb_next_piece(const tb_span &span, uint32_t *chunk, uint32_t *piece, uint32_t *left)
{
    ++*piece;
    if (--*left) return;
    *left = span.chunk_pieces;
    *chunk += blockDim.x / 32;
    *piece = *chunk * span.chunk_pieces;
}

/* Renormalised probabilities. Chunks without a kept token are not read. */
TB_CALL void tb_write_probabilities(const tb_room *room, int64_t index)
{
    const tombola_call &call = room->call;
    const tb_source &source = room->source;
    const tb_outcome &outcome = room->outcome;
    float *out = call.probabilities + index * call.probabilities_stride;
    const tb_weigher weigher = outcome.weigher;
    const tb_cut cut = outcome.cut;
    const tb_span span = source.span;
    const float fill = source.fill;
    float scale = tb_renorm_scale(weigher, outcome.mass);
    if (outcome.ordered) {
        uint32_t begin, end;
        tb_own_elements(room, &begin, &end);
        tb_flood((char *)out, 4, begin, end, 0);
        __syncthreads();
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < outcome.set.count; i += blockDim.x) {
            uint32_t at = (uint32_t)(room->other[i] >> 32);
            float x = law_key_value((uint32_t)room->other[i]);
            if (at >= begin && at < end)
                out[at] = tb_renormalised(weigher.probabilities, tb_ratio(weigher, x), scale);
        }
        return;
    }
    uint32_t least = tb_place_key(outcome.set.floor), last = source.end_chunk * span.chunk_pieces;
    if (last > source.pieces) last = source.pieces;
    bool aligned = (((uint32_t)((uintptr_t)out >> 2) - span.shift) & 3u) == 0;
    /* pieces in the order of chunks and warps, as everywhere: a lane meets its own copies in shared memory */
    uint32_t chunk = source.first_chunk + tb_warp(), piece = chunk * span.chunk_pieces,
             left = span.chunk_pieces;
#pragma unroll 1
    while (piece < last) {
        uint32_t first = tb_piece_first(span, piece);
        float x[16];
        if (room->chunk_key[chunk] >= least) {
            tb_load_piece(span, piece, 0, fill, x);
            tb_trim(cut, x, first);
            if (weigher.plain) {
#pragma unroll
                for (int j = 0; j < 16; j++) {
                    float p = tb_renormalised(false, tb_ratio_plain(weigher, x[j]), scale);
                    x[j] = x[j] >= cut.value ? p : 0.0f;
                }
            } else {
#pragma unroll
                for (int j = 0; j < 16; j++) {
                    float r = weigher.flat ? 1.0f : x[j] * weigher.scale * weigher.scale2;
                    float p = tb_renormalised(weigher.probabilities, r, scale);
                    x[j] = x[j] >= cut.value ? p : 0.0f;
                }
            }
        } else {
#pragma unroll
            for (int j = 0; j < 16; j++) x[j] = 0.0f;
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
        tb_next_piece(span, &chunk, &piece, &left);
    }
}

/* The source's own bits where kept, -inf elsewhere. In place every element is read and written by the same
 * thread. */
TB_CALL void tb_write_masked(const tb_room *room, int64_t index)
{
    const tombola_call &call = room->call;
    const tb_source &source = room->source;
    const tb_outcome &outcome = room->outcome;
    char *out = tb_masked_row(call, index, room->row.source_offset);
    const tb_span span = source.span;
    const tb_cut cut = outcome.cut;
    uint32_t none = tb_masked_word(span.dtype), bytes = tb_bytes(span.dtype);
    bool wide = bytes == 4;
    if (outcome.ordered && call.masked_logits != call.data) {
        uint32_t begin, end;
        tb_own_elements(room, &begin, &end);
        tb_flood(out, bytes, begin, end, none);
        __syncthreads();
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < outcome.set.count; i += blockDim.x) {
            uint32_t at = (uint32_t)(room->other[i] >> 32);
            if (at >= begin && at < end) tb_copy_element(out, at, span.row, (size_t)span.shift + at, bytes);
        }
        return;
    }
    uint32_t least = tb_place_key(outcome.set.floor), last = source.end_chunk * span.chunk_pieces;
    if (last > source.pieces) last = source.pieces;
    bool aligned = (((uint32_t)((uintptr_t)out / bytes) - span.shift) & 3u) == 0;
    uint32_t chunk = source.first_chunk + tb_warp(), piece = chunk * span.chunk_pieces,
             left = span.chunk_pieces;
#pragma unroll 1
    while (piece < last) {
        uint32_t first = tb_piece_first(span, piece);
        bool read = room->chunk_key[chunk] >= least;
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
                    tb_copy_element(out, i, span.row, (size_t)span.shift + i, bytes);
                else
                    tb_set_element(out, i, none, bytes);
            }
        }
        tb_next_piece(span, &chunk, &piece, &left);
    }
}

/* ---- the rest ---- */

/* Of the kept tokens. */
TB_CALL float tb_entropy(tb_room *room)
{
    const tb_weigher weigher = room->outcome.weigher;
    if (weigher.probabilities) return law_float(LAW_NAN_BITS);
    const tb_cut cut = room->outcome.cut;
    tb_team team = room->source.team;
    law_entropy_sum sum = {0, 0};
    auto add = [&](float x) {
        uint64_t w = tb_weight(weigher, x);
        if (w) law_entropy_add(&sum, w, law_entropy_factor(tb_exponent(weigher, x)));
    };
    if (room->outcome.set.listed) {
        team.size = 1; /* every block has the whole list */
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < room->outcome.set.count; i += blockDim.x)
            add(law_key_value(tb_place_key(room->list[i])));
    } else {
        tb_each_chunk<4>(
            room, tb_place_key(room->outcome.set.floor),
            [&](const float(&x)[4], uint32_t first) {
#pragma unroll
                for (int j = 0; j < 4; j++)
                    if (tb_in_cut(cut, x[j], first + j)) add(x[j]);
            },
            [](uint32_t) {});
    }
    sum.low = tb_team_sum64(team, &room->scratch, sum.low);
    sum.high = tb_team_sum64(team, &room->scratch, sum.high) + (sum.low >> 32);
    sum.low &= 0xffffffffu;
    return law_entropy(sum, room->outcome.mass);
}

/* The greatest tokens of room->set, slice by slice where they are many, under a weigher. Overwrites set and
 * list. */
#define TB_SLICE (TB_LIST / 4 * 3)

TB_CALL void tb_write_top(tb_room *room, int64_t index, bool raw)
{
    const tombola_call &call = room->call;
    const tb_weigher &weigher = raw ? room->outcome.raw : room->outcome.weigher;
    const uint64_t mass = raw ? room->outcome.raw_mass : room->outcome.mass;
    bool writes = room->source.team.rank == 0;
    int64_t at = index * call.top_count;
    uint32_t wanted = (uint32_t)call.top_count, done = 0;
    tb_set set = room->set;
    while (done < wanted) {
        uint32_t want = wanted - done < TB_SLICE ? wanted - done : TB_SLICE;
        if (!set.listed && !(set.counted && set.count <= TB_LIST)) {
            tb_share(&room->set, set);
            tb_select(room, true, want, TB_NO_TARGET);
        }
        tb_set part = set;
        if (!set.listed) {
            if (!(set.counted && set.count <= TB_LIST)) part = room->set;
            if (!part.listed) tb_list_set(room, &part, part.floor);
        }
        uint32_t take = part.count < want ? part.count : want;
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < take && writes; i += blockDim.x) {
            uint64_t place = room->list[i];
            if (call.top_ids) call.top_ids[at + done + i] = (int32_t)tb_place_index(place);
            if (call.top_logprobs)
                call.top_logprobs[at + done + i] =
                    tb_logprob(weigher, law_key_value(tb_place_key(place)), mass);
        }
        done += take;
        if (take < want) break;
        set.ceiling = room->list[take - 1]; /* the next slice lies below */
        set.count -= take;
        set.listed = set.chunked = false;
        __syncthreads();
    }
#pragma unroll 1
    for (uint32_t i = done + threadIdx.x; i < wanted && writes; i += blockDim.x) {
        if (call.top_ids) call.top_ids[at + i] = -1;
        if (call.top_logprobs) call.top_logprobs[at + i] = -LAW_INF;
    }
    __syncthreads();
}

TB_CALL void tb_write_given(const tb_room *room, int64_t index, bool raw)
{
    const tombola_call &call = room->call;
    const tb_cut cut = raw ? room->outcome.all : room->outcome.cut;
    const tb_weigher weigher = raw ? room->outcome.raw : room->outcome.weigher;
    const uint64_t mass = raw ? room->outcome.raw_mass : room->outcome.mass;
    float *out = raw ? call.given_raw_logprobs : call.given_logprobs;
    if (!out || room->source.team.rank) return;
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < call.given_count; i += blockDim.x) {
        int64_t at = index * call.given_count + i;
        int32_t id = call.given_ids[at];
        float result = law_float(LAW_NAN_BITS);
        if (id >= 0 && (uint32_t)id < room->source.span.length) {
            float x = tb_load(room->source.span, (uint32_t)id);
            result = tb_in_cut(cut, x, (uint32_t)id) ? tb_logprob(weigher, x, mass) : -LAW_INF;
        }
        out[at] = result;
    }
}

/* Everything that a row returns, from its final set. The masked logits come last: they may overwrite the
 * source. */
template <class Draws>
TB_DEV void tb_write_outputs(tb_room *room, int64_t index, uint64_t total_mass, Draws &draws)
{
    const tombola_call &call = room->call;
    const tb_weigher weigher = room->source.weigher;
    const tb_weigher raw = tb_make_weigher(weigher.probabilities, weigher.maximum);
    const uint64_t all = tb_floor_of_all(room->source.facts, weigher.probabilities);
    bool drawing = Draws::ANY && tb_gpu_draws(call),
         top = call.top_count > 0 && (call.top_ids || call.top_logprobs);
    bool raw_top = top && call.top_raw, writes = room->source.team.rank == 0;
    uint64_t raw_mass = 0;
    if ((Draws::ANY && (call.raw_logprobs || call.given_raw_logprobs)) || (raw_top && call.top_logprobs)) {
        tb_share(&room->source.weigher, raw);
        raw_mass = tb_measure(room, all, false).mass;
        tb_share(&room->source.weigher, weigher);
    }
    if (drawing || call.kept_mass || call.kept_count || call.probabilities || (Draws::ANY && call.entropy) ||
        (Draws::ANY && call.given_logprobs) || (top && !raw_top && call.top_logprobs))
        tb_weigh_set(room);
    const tb_set set = room->set;
    bool ordered = set.listed && (drawing || call.kept_ids || call.probabilities || call.masked_logits);
    __syncthreads();
    if (threadIdx.x == 0) {
        tb_outcome *outcome = &room->outcome;
        outcome->set = set;
        outcome->weigher = weigher;
        outcome->raw = raw;
        outcome->cut = tb_make_cut(set.floor);
        outcome->all = tb_make_cut(all);
        outcome->mass = set.mass;
        outcome->raw_mass = raw_mass;
        outcome->total_mass = total_mass;
        outcome->ordered = ordered;
        if (call.status && writes) call.status[index] = room->source.facts.status;
        if (call.kept_count && writes) call.kept_count[index] = (int32_t)set.count;
        if (call.kept_mass && writes) call.kept_mass[index] = set.mass;
        if (call.total_mass && writes) call.total_mass[index] = total_mass;
    }
    __syncthreads();

    if (Draws::ANY && call.entropy) {
        float entropy = tb_entropy(room);
        if (threadIdx.x == 0 && writes) call.entropy[index] = entropy;
    }
    if (ordered) tb_order_by_index(room, set.count);
    bool ids = call.kept_ids && call.kept_capacity > 0;
    if (ids && ordered && writes) tb_write_ordered_ids(room, index, set.count);
    if (top && !raw_top && set.listed &&
        call.top_count <= TB_SLICE) { /* else it would overwrite room->other */
        tb_write_top(room, index, false);
        top = false;
    }
    bool in_place = call.masked_logits == call.data;
    if (call.probabilities) tb_write_probabilities(room, index);
    if (call.masked_logits && !in_place) tb_write_masked(room, index);
    if (drawing) tb_write_draws(room, index, draws);
    if (Draws::ANY && call.given_logprobs) tb_write_given(room, index, false);
    if (Draws::ANY && call.given_raw_logprobs) tb_write_given(room, index, true);
    if (ids && !ordered) tb_write_ids(room, index);
    if (top) {
        tb_set from = set;
        from.listed = false;
        if (raw_top) from.floor = all, from.count = room->source.facts.all, from.counted = true;
        tb_share(&room->set, from);
        tb_write_top(room, index, raw_top);
    }
    if (!call.masked_logits || !in_place) return;
    if (ordered) tb_share(&room->outcome.ordered, false);
    tb_team_barrier(room->source.team); /* nobody reads the row any more */
    tb_write_masked(room, index);
}

/* One row, start to end, by a team. `stage`: shared memory for the block's share of the row, of
 * `stage_bytes`. */
template <class Draws>
TB_DEV void tb_run_team_row(const tb_cuda_params &params, int64_t index, tb_room *room, char *stage,
                            uint32_t stage_bytes, const tb_team &team, Draws &draws)
{
    static_assert(sizeof(tombola_call) % 4 == 0, "copied in words");
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < sizeof(tombola_call) / 4; i += blockDim.x)
        ((uint32_t *)&room->call)[i] = ((const uint32_t *)&params.call)[i];
    if (threadIdx.x == 0) {
        room->scratch.turn = 0;
        room->masses_used = false;
        room->source.team = team;
    }
    tb_gpu_resolve(params, index, &room->row);
    __syncthreads();
    const tombola_call &call = room->call;
    bool probabilities = call.kind == TOMBOLA_PROBABILITIES;
    /* each slot's offset is raised once, however many rows name it: kernel tombola_advance stores these */
    if (call.advance_offsets && room->row.slot >= 0 && threadIdx.x == 0 && team.rank == 0)
        tb_next_offsets(params)[index] = room->row.offset + 1;
    if (!room->row.good) {
        tb_write_void(room, index, TOMBOLA_ROW_BAD_PARAM);
        return;
    }
    tb_source source;
    source.team = team;
    source.span = tb_make_span(room->row.data, call.dtype, room->row.length);
    source.pieces = tb_span_pieces(source.span);
    source.chunks = tb_span_chunks(source.span);
    source.fill = tb_fill(probabilities);
    source.probabilities = probabilities;
    source.by_index = call.ties == TOMBOLA_TIES_INDEX;
    uint32_t share = (source.chunks + team.size - 1) / team.size;
    uint32_t chunk_bytes = source.span.chunk_pieces * TB_PIECE * tb_bytes(call.dtype);
    source.first_chunk = share * team.rank < source.chunks ? share * team.rank : source.chunks;
    source.end_chunk =
        source.first_chunk + share < source.chunks ? source.first_chunk + share : source.chunks;
    bool staged = share * chunk_bytes <= stage_bytes;
    if (staged) source.span.base = stage - (size_t)source.first_chunk * chunk_bytes;
    tb_share(&room->source, source);
    if (staged) tb_stage(room, stage);
    if (team.size > 1) tb_team_barrier(team); /* the others' shared memory is there */
    tb_wait_for_copies();
    tb_survey(room);
    if (room->source.facts.status & TOMBOLA_ROW_EMPTY) {
        tb_write_void(room, index, room->source.facts.status);
    } else {
        tb_begin_chain(room);
        uint64_t total_mass = tb_run_chain(room, call.step_count, call.total_mass != NULL);
        tb_write_outputs(room, index, total_mass, draws);
    }
    if (team.size > 1) tb_team_barrier(team); /* nobody leaves whose shared memory is being read */
}

/* The same by one block, straight from memory. */
template <class Draws>
TB_DEV void tb_run_row(const tb_cuda_params &params, int64_t index, tb_room *room, Draws draws)
{
    tb_team alone = {0, 1};
    tb_run_team_row(params, index, room, NULL, 0, alone, draws);
}

#endif
