/*
 * What rows have in common that follow each other through a cluster of C blocks (fast_flat_pipe.cuh,
 * whole_pipe.cuh, few_pipe.cuh): they are found, copied to shared memory and looked at, and it is decided
 * what their tokens weigh. S is what the blocks share; who extends tb_pipe_rows weighs and finishes rows.
 */
#ifndef TB_CUDA_FAST_FLAT_PIPE_ROWS_CUH
#define TB_CUDA_FAST_FLAT_PIPE_ROWS_CUH

#include "fast_flat_pipe_parts.cuh"

template <int dtype_, int C_, class S> struct tb_pipe_rows {
    typedef S shared;
    static constexpr int dtype = dtype_, C = C_;
    static constexpr uint32_t width = tb_fast_vector<dtype>::width;
    static constexpr int PER_LANE = S::WARPS / 32, CHUNKS = TB_PIPE_WARPS / TB_PIPE_LOOKERS,
                         COPIES = S::ROOM > 1 || S::ROUND ? CHUNKS : 1; /* of a quarter of the share */

    const tb_cuda_params &params;
    S &s;
    uint4 *room; /* for `slots` rows' shares of the block, of `slot` vectors each */
    uint32_t slot, slots;
    int rank, lane, warp;
    uint32_t rows; /* of this cluster */
    int64_t first_row, row_step;

    TB_MEMBER int64_t row_of(uint32_t i) const
    {
        return first_row + (int64_t)i * row_step;
    }

    TB_MEMBER tb_fast_slice slice_of(int64_t start, int64_t count) const
    {
        return tb_make_slice<dtype>((const char *)params.call.data +
                                        (size_t)start * tb_fast_vector<dtype>::bytes,
                                    (uint32_t)count, 0, 1);
    }
    TB_MEMBER uint32_t share_of(const tb_fast_slice &slice) const /* vectors of a chunk: whole groups of 32 */
    {
        return ((slice.end + S::WARPS - 1) / S::WARPS + 31) / 32 * 32;
    }

    /* The number among the row's chunks of one of the block's: they go round the blocks, or each block has
     * some that follow each other. */
    TB_MEMBER uint32_t number_of(uint32_t chunk) const
    {
        return S::ROUND ? chunk * C + rank : rank * TB_PIPE_WARPS + chunk;
    }

    /* ---- the warp that looks ahead: a row a lane ---- */

    TB_MEMBER void place(uint32_t i, int64_t start, int64_t count)
    {
        tb_pipe_row &to = s.row[i % TB_PIPE_KNOWN];
        to.slice = slice_of(start, count);
        to.share = share_of(to.slice);
    }

    TB_MEMBER void prepare()
    {
        const tombola_call &call = params.call;
        for (uint32_t i0 = 0; i0 < rows; i0 += 32) {
            const uint32_t own = i0 + lane;
            const int64_t row = row_of(min(own, rows - 1));
            int64_t start, count;
            const bool located = tb_gpu_locate(call, row, &start, &count);
            const int64_t slot = tb_gpu_slot(call, row);
            /* the chain: a temperature and min_p's */
            bool bad = !located || slot < 0;
            law_temper temper = {LAW_SCALED, LAW_LOG2E};
            uint64_t w = 0;
            for (int j = 0; j < call.step_count; j++) {
                const tombola_step &step = params.steps[j];
                const float value = !step.value_per_slot ? step.value
                                    : bad                ? 1.0f
                                                         : step.value_per_slot[slot];
                if (law_isnan(value) || (step.kind == TOMBOLA_TEMPERATURE && value < 0.0f)) {
                    bad = true;
                } else if (step.kind == TOMBOLA_TEMPERATURE) {
                    temper = law_temperature(value);
                } else if (value > 0.0f) {
                    uint64_t least = law_min_p_weight(value, LAW_ONE);
                    w = least > w ? least : w;
                }
            }
            const uint64_t random = S::DRAWS ? tb_fast_random(call, row, slot) : 0;
            float least_t = -64.0f;
            uint32_t ahead = __ballot_sync(TB_WHOLE_WARP, w != 0 && own < rows);
            while (ahead) { /* one search for all rows with the same least weight */
                const uint64_t some = __shfl_sync(TB_WHOLE_WARP, w, __ffs(ahead) - 1);
                const float found = tb_least_exponent(some);
                if (w == some) least_t = found;
                ahead &= ~__ballot_sync(TB_WHOLE_WARP, w == some);
            }
            if (i0 == 0) tb_wait_row(&s.placed, 0);
            for (uint32_t i = i0; i < min(rows, i0 + 32); i++) {
                if (i >= TB_PIPE_KNOWN && i % TB_PIPE_GROUP == 0)
                    tb_wait_here(&s.free[i % TB_PIPE_KNOWN / TB_PIPE_GROUP], i / TB_PIPE_KNOWN - 1 & 1);
                __syncwarp(); /* counts grow in order */
                if (own != i) continue;
                if (i >= TB_PIPE_KNOWN) place(i, start, located ? count : 0);
                tb_pipe_row &to = s.row[i % TB_PIPE_KNOWN];
                to.scale = temper.mode == LAW_SCALED ? temper.scale : 1.0f;
                to.least_t = least_t;
                to.greedy = temper.mode == LAW_GREEDY;
                to.flat = temper.mode == LAW_FLAT;
                to.bad = bad;
                to.random = random;
                if (i >= TB_PIPE_KNOWN) tb_publish(&s.placed, i + 1);
                tb_publish(&s.known, i + 1);
            }
            if (rank == 0 && own < rows) tb_fast_advance(params, row, slot);
            __syncwarp();
        }
    }

    TB_MEMBER const tb_pipe_row &row_at(uint32_t *count, uint32_t i)
    {
        tb_wait_row(count, i);
        return s.row[i % TB_PIPE_KNOWN];
    }
    /* By one lane: a group's rows are given back. */
    TB_MEMBER void give_back(uint32_t i)
    {
        tb_mail_arrive(&s.free[i % TB_PIPE_KNOWN / TB_PIPE_GROUP]);
    }
    TB_MEMBER uint4 *room_of(const tb_pipe_turn &turn) const
    {
        return room + turn.place * slot;
    }
    TB_MEMBER void go_on(tb_pipe_turn &turn) const
    {
        turn.row++;
        if (++turn.place == slots) turn.place = 0, turn.filling++;
    }

    /* ---- the warp that copies ---- */

    /* The block's share of the first row, where rows lie as they are numbered: before all else, the row's
     * ends included, which fill_row writes before it arrives at the barriers. */
    TB_MEMBER bool ask_first()
    {
        const tombola_call &call = params.call;
        if (lane < TB_PIPE_LOOKERS) tb_mail_init(&s.filled[lane][0], COPIES);
        tb_mail_init_done();
        tb_wait_for_inputs(params.part);
        __syncwarp();
        int64_t start, count;
        if ((uintptr_t)call.row_index | (uintptr_t)call.row_start | (uintptr_t)call.row_length) return false;
        if (!tb_fast_locate(call, first_row, &start, &count)) return false;
        const tb_fast_slice slice = slice_of(start, count);
        const uint32_t share = share_of(slice);
        if (lane < TB_PIPE_LOOKERS * COPIES)
            copy_part(slice, share, min(slice.end, share * TB_PIPE_WARPS * rank), room, 0, false);
        return true;
    }

    /* All rows. The first `slots` are asked for one after the other, or all would come at once, and late. */
    TB_MEMBER void fill(bool asked)
    {
        const int64_t row = row_of(min((uint32_t)lane, rows - 1));
        int64_t start, count;
        const bool located = tb_fast_locate(params.call, row, &start, &count);
        if ((uint32_t)lane < rows) place(lane, start, located ? count : 0);
        __syncwarp();
        if (lane == 0) tb_publish(&s.placed, min(rows, TB_PIPE_KNOWN));
        const uint32_t ahead = max(TB_PIPE_ASKED / (slot * 16), 1u);
        tb_pipe_turn arriving = {0, 0, 0};
        for (tb_pipe_turn turn = arriving; turn.row < rows; go_on(turn)) {
            tb_wait_row(&s.placed, turn.row);
            if (turn.filling) tb_wait_here(&s.empty[turn.place], turn.filling - 1 & 1);
            const bool wait = !turn.filling && turn.row >= ahead;
            fill_row(s.row[turn.row % TB_PIPE_KNOWN], turn, wait ? &arriving : nullptr, asked);
            asked = false;
            if (wait) go_on(arriving);
        }
    }

    /* Where vector `vector` of the block's share lies: where chunks have room for twice as much, each is in
     * the second half of its own. */
    static TB_MEMBER uint32_t spot(uint32_t vector, uint32_t share)
    {
        return S::ROOM > 1 ? vector + (vector / share + 1) * share : vector;
    }

    /* The block's share of a row, an end filled up with -inf, part by part, each when that of an earlier row
     * has come. */
    TB_MEMBER void fill_row(const tb_pipe_row &row, const tb_pipe_turn &turn, const tb_pipe_turn *arriving,
                            bool asked)
    {
        constexpr uint32_t none = tb_minus_infinity<dtype>();
        const tb_fast_slice &slice = row.slice;
        const uint32_t share = row.share * TB_PIPE_WARPS, first = min(slice.end, share * rank),
                       end = min(slice.end, first + share);
        uint4 *to = room_of(turn);
        bool wrote = false;
        if constexpr (S::ROUND) {
            wrote = fill_ends(row, to);
        } else if (first < slice.whole_first || end > slice.whole_end || end % 32) {
            const uint32_t beyond = end + lane;
            wrote = first < end;
            if (wrote && end == slice.end && beyond < (end + 31) / 32 * 32)
                to[spot(beyond - first, row.share)] = make_uint4(none, none, none, none);
            if (wrote && lane == 0 && first < slice.whole_first)
                to[spot(0, row.share)] = tb_load_edge<dtype>(slice.base, 0u - slice.shift, slice.length);
            if (wrote && lane == 0 && end > slice.whole_end)
                to[spot(slice.whole_end - first, row.share)] =
                    tb_load_edge<dtype>(slice.base + (size_t)slice.whole_end * 16,
                                        slice.whole_end * width - slice.shift, slice.length);
            __syncwarp();
        }
#pragma unroll 1
        for (int i = arriving ? 0 : TB_PIPE_LOOKERS - 1; i < TB_PIPE_LOOKERS; i++) {
            if (arriving) tb_wait_here(&s.filled[i][arriving->place], arriving->filling & 1);
            if (arriving ? lane / COPIES != i : lane / COPIES >= TB_PIPE_LOOKERS) continue;
            if (asked)
                tb_mail_arrive(&s.filled[lane / COPIES][turn.place]);
            else
                copy_part(slice, row.share, first, to, turn.place, true);
        }
        __syncwarp();
        if (wrote) tb_writes_before_copies();
    }

    /* Where chunks go round the blocks: the same ends, those of the row. */
    TB_MEMBER bool fill_ends(const tb_pipe_row &row, uint4 *to)
    {
        constexpr uint32_t none = tb_minus_infinity<dtype>();
        const tb_fast_slice &slice = row.slice;
        if (slice.end == 0) return false;
        if (slice.whole_first == 0 && slice.whole_end == slice.end && slice.end % 32 == 0) return false;
        const uint32_t chunk = (slice.end - 1) / row.share;
        const bool last = chunk % C == (uint32_t)rank;
        uint4 *const place = to + chunk / C * row.share - chunk * row.share; /* of the row's vectors there */
        if (last && slice.end + lane < (slice.end + 31) / 32 * 32)
            place[slice.end + lane] = make_uint4(none, none, none, none);
        if (lane == 0 && rank == 0 && slice.whole_first > 0)
            to[0] = tb_load_edge<dtype>(slice.base, 0u - slice.shift, slice.length);
        if (lane == 0 && last && slice.end > slice.whole_end)
            place[slice.whole_end] = tb_load_edge<dtype>(slice.base + (size_t)slice.whole_end * 16,
                                                         slice.whole_end * width - slice.shift, slice.length);
        __syncwarp();
        return last || rank == 0;
    }

    /* A lane's part of the block's share, which begins at `first`: what lies wholly in the row. */
    TB_MEMBER void copy_part(const tb_fast_slice &slice, uint32_t share, uint32_t first, uint4 *to,
                             uint32_t place, bool arrives)
    {
        const uint32_t size = share * CHUNKS / COPIES,
                       part = S::ROUND ? share * number_of(lane) : first + size * lane,
                       from = max(part, slice.whole_first),
                       end = S::ROUND ? min(part + size, slice.whole_end)
                                      : min(min(first + share * TB_PIPE_WARPS, part + size), slice.whole_end);
        tb_copy_in(to + (S::ROUND ? from - part + size * lane : from - first) +
                       (S::ROOM - 1) * share * (lane + 1),
                   slice.base + (size_t)from * 16, from < end ? (end - from) * 16 : 0,
                   &s.filled[lane / COPIES][place], arrives);
    }

    /* ---- a warp that looks: the maximum of a part, told to all blocks ---- */
    TB_MEMBER void look(uint32_t looker)
    {
        for (tb_pipe_turn turn = {0, 0, 0}; turn.row < rows; go_on(turn)) {
            const uint32_t at = turn.row % TB_PIPE_RING, share = row_at(&s.placed, turn.row).share,
                           end = s.row[turn.row % TB_PIPE_KNOWN].slice.end;
            tb_wait_here(&s.filled[looker][turn.place], turn.filling & 1);
            auto each_piece = [&](auto visit) {
                if constexpr (COPIES == 1)
                    visit(room_of(turn) + share * CHUNKS * looker + lane,
                          groups_of(looker * CHUNKS, share, end, CHUNKS));
                else
#pragma unroll 1
                    for (uint32_t c = looker * CHUNKS; c < (looker + 1) * CHUNKS; c++)
                        visit(room_of(turn) + spot(c * share, share) + lane, groups_of(c, share, end));
            };
            float top = -LAW_INF;
            auto take = [&](const uint4 *piece, uint32_t groups) {
                top = tb_max_nan(top, greatest_of(piece, groups));
            };
            uint32_t status = 0;
            each_piece(take);
            if (__any_sync(TB_WHOLE_WARP, law_isnan(top))) {
                status = TOMBOLA_ROW_NAN;
                each_piece([](uint4 *piece, uint32_t groups) { drop_nan(piece, groups); });
                tb_writes_before_copies();
                top = -LAW_INF;
                each_piece(take);
            }
            const uint32_t key = tb_warp_max(law_key(top));
            if (looker == 0 && lane == 0) tb_mail_expect(&s.mail_maximum[at], S::LOOKS * 8);
            if (lane < C)
                tb_mail_8(&s.maximum[at][rank * TB_PIPE_LOOKERS + looker], lane, key, status,
                          &s.mail_maximum[at]);
            __syncwarp();
            if (lane == 0) tb_mail_arrive(&s.decided[at]); /* the part is as it will be weighed */
        }
    }

    /* Every group of 32 vectors of a part, or one of several. */
    template <int EVERY = 1> static TB_MEMBER void drop_nan(uint4 *part, uint32_t groups)
    {
#pragma unroll 1
        for (uint32_t j = 0; j < groups; j++) {
            uint4 v[1] = {part[j * 32 * EVERY]};
            tb_drop_nan<dtype, 1>(v);
            part[j * 32 * EVERY] = v[0];
        }
    }

    template <int EVERY = 1> TB_MEMBER float greatest_of(const uint4 *part, uint32_t groups)
    {
        constexpr int U = S::ROOM == 1 ? 8 : 4;
        float top = -LAW_INF;
        uint32_t j = 0;
#pragma unroll 1
        for (; j + U <= groups; j += U) {
            uint4 v[U];
#pragma unroll
            for (int k = 0; k < U; k++) v[k] = part[(j + k) * 32 * EVERY];
            top = tb_max_nan(top, tb_tile_max<dtype, U>(v));
        }
#pragma unroll 1
        for (; j < groups; j++) {
            const uint4 v[1] = {part[j * 32 * EVERY]};
            top = tb_max_nan(top, tb_tile_max<dtype, 1>(v));
        }
        return top;
    }

    /* Groups of 32 vectors of one or some of the block's chunks. */
    TB_MEMBER uint32_t groups_of(uint32_t chunk, uint32_t share, uint32_t end, uint32_t chunks = 1) const
    {
        const uint32_t first = share * number_of(chunk);
        return first < end ? (min(share * chunks, end - first) + 31) / 32 : 0;
    }

    /* ---- the warp that decides what weights of a row are ---- */
    TB_MEMBER void decide()
    {
        for (uint32_t i = 0; i < rows; i++) {
            const uint32_t at = i % TB_PIPE_RING;
            const tb_pipe_row row = row_at(&s.known, i);
            tb_wait_here(&s.mail_maximum[at], i / TB_PIPE_RING & 1);
            uint32_t greatest = 0, status = 0;
#pragma unroll
            for (int k = 0; k < (S::LOOKS + 31) / 32; k++) {
                const uint2 said = s.maximum[at][(k * 32 + lane) % S::LOOKS];
                greatest = max(greatest, said.x);
                status |= said.y;
            }
            greatest = tb_warp_max(greatest);
            status = __any_sync(TB_WHOLE_WARP, status) ? TOMBOLA_ROW_NAN : 0u;
            const tb_pipe_kind kind = tb_pipe_kind_of(row, greatest);
            const bool usual = kind == TB_PIPE_USUAL && row.scale >= TB_LEAST_SCALE;
            if (lane == 0) {
                s.verdict[at] = {law_key_value(greatest),
                                 row.scale * -0x1p-6f,
                                 row.least_t * -0x1p-6f,
                                 usual,
                                 kind != TB_PIPE_VOID && (!usual || params.call.kept_count),
                                 kind,
                                 row.slice.end,
                                 row.share};
                if constexpr (!S::DRAWS) s.found[at] = make_uint2(greatest, status);
                tb_mail_arrive(&s.decided[at]);
            }
            if constexpr (S::DRAWS) {
                const uint32_t place = i / C % S::DRAWN;
                if (rank == 0 && lane == 0)
                    tb_mail_8(&s.drawn[place], (int)(i % C), greatest, status, &s.mail_mass[place]);
            }
        }
    }

    /* Bytes that a row's draw waits for; with the entropy, whose sums lie before `room`, as much again. */
    TB_MEMBER uint32_t mass_bytes() const
    {
        return S::MASS_BYTES + (S::DRAWS && params.call.entropy ? S::WARPS * 16 : 0);
    }

    TB_MEMBER uint32_t mine() const /* this warp's number among the row's */
    {
        return number_of((uint32_t)warp);
    }
};

/* By the cluster's threads: P extends tb_pipe_rows. */
template <class P> TB_DEV void tb_run_pipe(const tb_cuda_params &params)
{
    typedef typename P::shared S;
    constexpr int C = P::C;
    const uint32_t bytes =
        (sizeof(S) + 127) / 128 * 128 + (S::DRAWS && params.call.entropy ? TB_PIPE_ENTROPY_BYTES : 0);
    constexpr int COPIES = TB_PIPE_WARPS + TB_PIPE_LOOKERS, AHEAD = COPIES + 1, DECIDES = AHEAD + 1,
                  FINISHES = DECIDES + 1;
    S &s = *(S *)tb_flat_bytes;
    const int warp = threadIdx.x >> 5;
    const int lane = threadIdx.x & 31;
    const uint32_t cluster = blockIdx.x / C, clusters = gridDim.x / C,
                   slot = ((tb_row_vectors(&params.call) + S::WARPS - 1) / S::WARPS + 31) / 32 *
                          (32 * TB_PIPE_WARPS) * S::ROOM;
    P pipe = {
        params,  s,       (uint4 *)(tb_flat_bytes + bytes), slot, 0, (int)(blockIdx.x % C), lane, warp, 0,
        cluster, clusters};
    const bool asked = warp == COPIES && pipe.ask_first();
    pipe.slots = min((tb_dynamic_shared_bytes() - bytes) / (slot * 16), (uint32_t)S::SLOTS);
    pipe.rows = ((uint32_t)params.call.rows - cluster + clusters - 1) / clusters;
    if (warp < TB_PIPE_LOOKERS) {
        if (lane > 0 && lane < S::SLOTS) tb_mail_init(&s.filled[warp][lane], P::COPIES);
    } else if (warp == TB_PIPE_LOOKERS) {
        if (lane < TB_PIPE_RING) tb_mail_init(&s.mail_maximum[lane], 1);
    } else if (warp == TB_PIPE_LOOKERS + 1) {
        if (lane < TB_PIPE_KNOWN / TB_PIPE_GROUP) tb_mail_init(&s.free[lane], S::DONE_WITH_ROW);
        if (lane < S::SLOTS) tb_mail_init(&s.empty[lane], S::DONE_WITH_PLACE);
    } else if (warp == TB_PIPE_LOOKERS + 2) {
        if (lane < TB_PIPE_RING) tb_mail_init(&s.decided[lane], 1 + TB_PIPE_LOOKERS);
    } else if (warp == FINISHES) {
        if (lane < S::MASSES) tb_mail_init(&s.mail_mass[lane], 1);
        if constexpr (S::DRAWS) {
            if (lane == S::MASSES) tb_mail_init(&s.handed, 1);
            if (lane == S::MASSES + 1) tb_mail_init(&s.groups_weighed, TB_PIPE_WARPS);
        } else {
            s.set_up(lane);
        }
        if (lane == 0) s.placed = s.known = 0;
    }
    __syncwarp();
    if (lane == 0) tb_mail_init_done();
    if (warp == FINISHES && lane < S::MASSES) tb_mail_expect(&s.mail_mass[lane], pipe.mass_bytes());
    __syncthreads();
    tb_cluster_arrive_relaxed<C>();
    tb_wait_for_inputs(params.part);
    if (warp == COPIES) pipe.fill(asked);
    if (warp == AHEAD) pipe.prepare();
    tb_cluster_wait<C>(); /* all blocks run */
    if (warp < TB_PIPE_WARPS) pipe.weigh();
    if (warp >= TB_PIPE_WARPS && warp < COPIES) pipe.look((uint32_t)(warp - TB_PIPE_WARPS));
    if (warp == DECIDES) pipe.decide();
    if constexpr (S::DRAWS) {
        if (warp < TB_PIPE_WARPS || warp >= FINISHES)
            pipe.finish((uint32_t)(warp - FINISHES), warp < TB_PIPE_WARPS);
    } else {
        if (warp >= FINISHES) pipe.finish((uint32_t)(warp - FINISHES));
    }
    /* A block has waited for all messages to it, so none is on its way to one that has ended. */
}

#endif
