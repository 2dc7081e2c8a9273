/*
 * The flat kernel for many rows: rows follow each other through a cluster of C blocks, so that memory is read
 * all the time, whatever the rows in the cluster wait for.
 *
 * A row is cut into a contiguous chunk for each of the cluster's C * TB_PIPE_WARPS warps that weigh. A block
 * has room for its share of `slots` rows in shared memory. Warps of their own keep each of these things
 * going:
 * - one asks for a row's share, by bulk copies, as soon as the one before in its place was weighed
 * - TB_PIPE_LOOKERS look: when a share is there they take its maximum and tell it to all blocks (a message
 *   from each to each block), some rows ahead of those that are weighed
 * - TB_PIPE_WARPS weigh: when all maxima of a row have come each weighs its chunk, and tells the mass to the
 *   block whose turn the row is
 * - one finds rows and reduces their chains, some rows ahead
 * - others draw, every C-th row, while the rest works on rows behind it: they find the chunk and weigh it
 *   again (from L2); the last one with the help of the warps that weighed.
 * No barrier stands between the warps of a block: each takes what is ready.
 *
 * Rows of all kinds are served: see tb_pipe_kind.
 */
#ifndef TB_CUDA_FAST_FLAT_PIPE_CUH
#define TB_CUDA_FAST_FLAT_PIPE_CUH

#include "fast_flat_pipe_parts.cuh"

/* A message of row i reuses the place of row i - TB_PIPE_RING. A warp that sends a maximum of row i has seen
 * its part of the share, so the warps with chunks there had weighed row i - slots, for which they had read
 * all maxima of it; whoever sent one of these had seen the chunks of row i - slots, whose warps had weighed
 * row i - 2 slots: with slots <= TB_PIPE_RING / 2 all have read the maxima of row i - TB_PIPE_RING. And row i
 * is known to a block only when its drawing warps and all that weigh are done with row i - TB_PIPE_KNOWN, so
 * masses cannot come before the block has drawn that row. */
template <int dtype_, int C_, class S = tb_pipe_shared<C_>> struct tb_pipe {
    typedef S shared;
    static constexpr int dtype = dtype_, C = C_;
    static constexpr uint32_t width = tb_fast_vector<dtype>::width;
    static constexpr int PER_LANE = S::WARPS / 32, CHUNKS = TB_PIPE_WARPS / TB_PIPE_LOOKERS,
                         COPIES = S::ROOM > 1 ? CHUNKS : 1; /* of a looker's part */

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
        tb_wait_for_inputs();
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
        if (first < slice.whole_first || end > slice.whole_end || end % 32) {
            const uint32_t beyond = end + lane;
            wrote = first < end;
            if (wrote && end == slice.end && beyond < (end + 31) / 32 * 32)
                to[spot(beyond - first, row.share)] = make_uint4(none, none, none, none);
            if (wrote && lane == 0 && first < slice.whole_first)
                to[spot(0, row.share)] = tb_load_edge<dtype>(slice.base, 0u - slice.shift, slice.length);
            if (wrote && lane == 0 && end > slice.whole_end && slice.whole_end >= slice.whole_first)
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

    /* A lane's part of the block's share, which begins at `first`: what lies wholly in the row. */
    TB_MEMBER void copy_part(const tb_fast_slice &slice, uint32_t share, uint32_t first, uint4 *to,
                             uint32_t place, bool arrives)
    {
        const uint32_t size = share * CHUNKS / COPIES, part = first + size * lane,
                       from = max(part, slice.whole_first),
                       end = min(min(first + share * TB_PIPE_WARPS, part + size), slice.whole_end);
        tb_copy_in(to + (from - first) + (S::ROOM - 1) * share * (lane + 1), slice.base + (size_t)from * 16,
                   from < end ? (end - from) * 16 : 0, &s.filled[lane / COPIES][place], arrives);
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
                each_piece([&](uint4 *piece, uint32_t groups) {
#pragma unroll 1
                    for (uint32_t j = 0; j < groups; j++) {
                        uint4 v[1] = {piece[j * 32]};
                        tb_drop_nan<dtype, 1>(v);
                        piece[j * 32] = v[0];
                    }
                });
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

    TB_MEMBER float greatest_of(const uint4 *part, uint32_t groups)
    {
        constexpr int U = COPIES == 1 ? 8 : 4;
        float top = -LAW_INF;
        uint32_t j = 0;
#pragma unroll 1
        for (; j + U <= groups; j += U) {
            uint4 v[U];
#pragma unroll
            for (int k = 0; k < U; k++) v[k] = part[(j + k) * 32];
            top = tb_max_nan(top, tb_tile_max<dtype, U>(v));
        }
#pragma unroll 1
        for (; j < groups; j++) {
            const uint4 v[1] = {part[j * 32]};
            top = tb_max_nan(top, tb_tile_max<dtype, 1>(v));
        }
        return top;
    }

    /* Groups of 32 vectors of one or some of the block's chunks. */
    TB_MEMBER uint32_t groups_of(uint32_t chunk, uint32_t share, uint32_t end, uint32_t chunks = 1) const
    {
        const uint32_t first = share * (rank * TB_PIPE_WARPS + chunk);
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

    /* ---- a warp with a chunk: exact weights, told to the block that draws ---- */
    TB_MEMBER uint32_t mine() const /* this warp's number among the row's */
    {
        return (uint32_t)(rank * TB_PIPE_WARPS + warp);
    }

    TB_MEMBER void weigh()
    {
        uint64_t mass = 0;
        uint32_t kept = 0, lowest = 0;
        for (tb_pipe_turn turn = {0, 0, 0}; turn.row < rows; go_on(turn)) {
            const uint32_t i = turn.row, at = i % TB_PIPE_RING;
            tb_wait_here(&s.filled[warp / CHUNKS][turn.place], turn.filling & 1);
            tb_wait_here(&s.decided[at], i / TB_PIPE_RING & 1);
            const tb_pipe_verdict row = s.verdict[at];
            if (i) tell(i - 1, mass, kept, lowest); /* while that is read */
            const uint32_t groups = groups_of(warp, row.share, row.end);
            const uint4 *chunk = room_of(turn) + row.share * warp + lane;
            const float maximum = row.maximum, factor = row.factor, most = row.most;
            mass = 0, kept = 0, lowest = 0xffffffffu;
            if (row.usual) {
                if (most == 1.0f)
                    mass = sum_chunk(chunk, groups,
                                     [&](float x) { return tb_scaled_exponent(x, maximum, factor); });
                else
                    mass = sum_chunk(chunk, groups, [&](float x) {
                        float u = tb_scaled_exponent(x, maximum, factor);
                        return u <= most ? u : 1.0f;
                    });
            }
            if (row.counted) {
                const tb_pipe_row &all = s.row[i % TB_PIPE_KNOWN];
                const uint4 seen = look_slowly(chunk, groups, row.share * mine(), all.slice.shift, all.scale,
                                               all.least_t, row.kind, maximum);
                mass += (uint64_t)seen.y << 32 | seen.x;
                kept = tb_warp_sum(seen.z);
                lowest = tb_warp_min(seen.w);
            }
            __syncwarp();
            if (lane == 0) tb_mail_arrive(&s.empty[turn.place]);
        }
        tell(rows - 1, mass, kept, lowest);
    }

    /* The warp's part of row i's mass, of the lanes together below 2^54. */
    TB_MEMBER void tell(uint32_t i, uint64_t mass, uint32_t kept, uint32_t lowest)
    {
        mass = tb_warp_sum54(mass);
        if (lane != 0) return;
        const uint32_t place = i / C % S::DRAWN;
        tb_mail_16(&s.mass[place][mine()], (int)(i % C),
                   make_uint4((uint32_t)mass, (uint32_t)(mass >> 32), kept, lowest), &s.mail_mass[place]);
        if ((i + 1) % TB_PIPE_GROUP == 0 || i + 1 == rows) give_back(i);
    }

    template <class F> TB_MEMBER uint64_t sum_chunk(const uint4 *chunk, uint32_t groups, F exponent)
    {
        constexpr int U = dtype == TOMBOLA_F32 ? 4 : 2;
        tb_weight_sum sum;
        sum.clear();
        auto sum_vector = [&](const uint4 &v) {
#pragma unroll
            for (int e = 0; e < (int)width; e += 2)
                sum.add(exponent(tb_element<dtype>(v, e)), exponent(tb_element<dtype>(v, e + 1)));
        };
        uint32_t j = 0;
#pragma unroll 1
        for (; j + U <= groups; j += U) {
            uint4 v[U];
#pragma unroll
            for (int k = 0; k < U; k++) v[k] = chunk[(j + k) * 32];
#pragma unroll
            for (int k = 0; k < U; k++) sum_vector(v[k]);
        }
#pragma unroll 1
        for (; j < groups; j++) sum_vector(chunk[j * 32]);
        return sum.total();
    }

    /* Rows that are not the usual ones, and the number of kept tokens: mass (low, high; 0 where it was found
     * already), kept tokens, lowest index of the maximum. */
    static __device__ __noinline__ uint4 look_slowly(const uint4 *chunk, uint32_t groups, uint32_t first,
                                                     uint32_t shift, float scale, float least_t,
                                                     tb_pipe_kind kind, float maximum)
    {
        const bool infinite = maximum == LAW_INF, weighs = kind == TB_PIPE_USUAL && scale < TB_LEAST_SCALE;
        uint32_t n = 0, lowest = 0xffffffffu;
        uint64_t sum = 0;
#pragma unroll 1
        for (uint32_t j = 0; j < groups; j++) {
            const uint4 v = chunk[j * 32];
#pragma unroll
            for (uint32_t e = 0; e < width; e++) {
                const float x = tb_element<dtype>(v, (int)e);
                if (x == maximum)
                    lowest = min(lowest, (first + j * 32 + (threadIdx.x & 31)) * width + e - shift);
                if (kind == TB_PIPE_EQUAL) {
                    n += infinite ? x == maximum : x >= TB_LEAST;
                } else {
                    const float t = law_exponent(x, maximum, scale);
                    const bool kept = x >= TB_LEAST && (least_t == -64.0f || t >= least_t);
                    n += kept;
                    if (weighs && kept) sum += law_weight(t);
                }
            }
        }
        if (kind == TB_PIPE_EQUAL) sum = (uint64_t)n << 40;
        return make_uint4((uint32_t)sum, (uint32_t)(sum >> 32), n, lowest);
    }

    /* ---- the warp that draws; `helps`: one that weighed, which takes part in the block's last draw, with
     * which nothing overlaps ---- */
    TB_MEMBER void finish(uint32_t drawer, bool helps)
    {
        const uint32_t turns = rows > (uint32_t)rank ? (rows - 1 - rank) / C + 1 : 0;
        uint32_t given = 0;
        for (uint32_t turn = helps && turns ? turns - 1 : drawer; turn < turns; turn += S::DRAWERS) {
            const uint32_t i = turn * C + rank, place = turn % S::DRAWN;
            const tb_pipe_row &row = s.row[i % TB_PIPE_KNOWN];
            tb_pipe_draw drawn;
            if (helps) {
                tb_wait_here(&s.handed, 0);
                drawn = s.last;
            } else {
                for (; given + TB_PIPE_GROUP <= i; given += TB_PIPE_GROUP) give_group(given);
                tb_wait_row(&s.known, i);
                tb_wait_here(&s.mail_mass[place], turn / S::DRAWN & 1);
                if (lane == 0) tb_mail_expect(&s.mail_mass[place], S::MASS_BYTES);
                drawn = find_chunk(row, i, s.mass[place], s.drawn[place].x, s.drawn[place].y);
                if (turn + 1 == turns) {
                    const bool alone = row.share <= 32 * TB_PIPE_ALONE || drawn.chunk == TB_PIPE_WRITTEN;
                    if (lane == 0) {
                        s.last = drawn;
                        if (alone) s.last.chunk = TB_PIPE_WRITTEN;
                        tb_mail_arrive(&s.handed);
                    }
                    if (!alone) break;
                }
            }
            if (drawn.chunk != TB_PIPE_WRITTEN) draw_chunk(row, drawn, helps);
            __syncwarp();
        }
        if (helps) return;
        for (; given < rows; given += TB_PIPE_GROUP) give_group(given);
    }
    /* Once it is known, the last rows in their place were given back by all. */
    TB_MEMBER void give_group(uint32_t group)
    {
        tb_wait_row(&s.known, group);
        if (lane == 0) give_back(group);
    }

    /* The chunk whose mass in order reaches beyond the position; rows without one are written. */
    TB_MEMBER tb_pipe_draw find_chunk(const tb_pipe_row &row, uint32_t i, const uint4 *masses,
                                      uint32_t greatest, uint32_t status)
    {
        const tombola_call &call = params.call;
        const int64_t index = row_of(i);
        const tb_pipe_kind kind = tb_pipe_kind_of(row, greatest);
        if (greatest == TB_KEY_POS_INF) status |= TOMBOLA_ROW_POS_INF;
        tb_pipe_draw drawn = {0, 0,      TB_PIPE_WRITTEN,         i,
                              0, status, law_key_value(greatest), kind == TB_PIPE_EQUAL};
        if (kind == TB_PIPE_VOID && params.part == TB_CUDA_RAW_LOGPROBS) {
            tb_write_raw_logprobs<dtype>(call, index, row.slice, drawn.maximum, row.scale, 0);
            return drawn;
        }
        if (kind == TB_PIPE_VOID) {
            tb_fast_result none = {-1,   0, 0, row.bad ? TOMBOLA_ROW_BAD_PARAM : status | TOMBOLA_ROW_EMPTY,
                                   0.0f, 0};
            if (lane == 0) tb_fast_write(call, index, none);
            if (lane == 0 && call.total_mass) call.total_mass[index] = 0;
            return drawn;
        }
        uint64_t own = 0;
        uint32_t kept = 0, lowest = 0xffffffffu;
#pragma unroll
        for (int k = 0; k < PER_LANE; k++) { /* so that eight lanes read all banks at a time */
            const uint4 said = masses[lane * PER_LANE + (k + lane * PER_LANE / 8) % PER_LANE];
            own += (uint64_t)said.y << 32 | said.x;
            kept += said.z;
            lowest = min(lowest, said.w);
        }
        if (kind == TB_PIPE_GREEDY) {
            lowest = tb_warp_min(lowest);
            tb_fast_result result = {(int32_t)lowest, 1, 0, status, 0.0f, LAW_ONE};
            if (lane == 0) {
                tb_fast_write(call, index, result);
                if (call.total_mass) call.total_mass[index] = LAW_ONE;
            }
            return drawn;
        }
        drawn.kept = (int32_t)tb_warp_sum(kept);
        uint64_t upto = tb_warp_scan64(own);
        drawn.total = __shfl_sync(TB_WHOLE_WARP, upto, 31);
        if (params.part == TB_CUDA_RAW_LOGPROBS) {
            tb_write_raw_logprobs<dtype>(call, index, row.slice, drawn.maximum, row.scale, drawn.total);
            return drawn;
        }
        drawn.position = law_draw_position(row.random, drawn.total);
        drawn.chunk = 0;
        in_order(own, upto, drawn, PER_LANE);
        if (PER_LANE > 1) {
            const uint4 said = masses[drawn.chunk + lane % PER_LANE];
            own = lane < PER_LANE ? (uint64_t)said.y << 32 | said.x : 0;
            upto = tb_warp_scan64(own);
            in_order(own, upto, drawn, 1);
        }
        return drawn;
    }

    /* Goes on to the lane whose mass reaches beyond the position, `chunks` for each lane before it. */
    TB_MEMBER void in_order(uint64_t own, uint64_t upto, tb_pipe_draw &drawn, uint32_t chunks)
    {
        const int who = __ffs(__ballot_sync(TB_WHOLE_WARP, upto > drawn.position)) - 1;
        drawn.position -= __shfl_sync(TB_WHOLE_WARP, upto - own, who);
        drawn.chunk += who * chunks;
    }

    /* The token at a position of a chunk's mass: its group of 32 vectors, the lane, the element. A warp alone
     * looks at one group after the other; all that weighed at one each (room for a chunk is room for less
     * than 32 groups), and who has the position, if it was not the last one, once more. */
    TB_MEMBER void draw_chunk(const tb_pipe_row &row, const tb_pipe_draw &drawn, bool together)
    {
        const tb_fast_slice &slice = row.slice;
        const uint32_t first = row.share * drawn.chunk, end = min(slice.end, first + row.share),
                       groups = (end - first + 31) / 32, step = together ? TB_PIPE_WARPS : 1;
        const float maximum = drawn.maximum, least = maximum == LAW_INF ? LAW_INF : TB_LEAST;
        uint64_t position = drawn.position;
        auto load = [&](uint32_t group) {
            constexpr uint32_t none = tb_minus_infinity<dtype>();
            const uint32_t at = first + group * 32 + lane;
            return at < end ? tb_load_any<dtype>(slice, at) : make_uint4(none, none, none, none);
        };
        uint32_t j = together ? warp : 0, h[width], l[width];
        uint64_t own;
        uint4 v, next = load(j), after = load(j + step);
#pragma unroll 1
        for (;;) {
            v = next, next = after, after = load(j + 2 * step);
            uint32_t high = 0, low = 0;
#pragma unroll
            for (int e = 0; e < (int)width; e++) {
                tb_weigh_element(tb_element<dtype>(v, e), maximum, row.scale, row.least_t, drawn.equal, least,
                                 &h[e], &l[e]);
                high += h[e] -= TB_HIGH_BIAS;
                low += l[e] -= TB_LOW_BIAS;
            }
            own = tb_join(high, low);
            const uint64_t all = tb_warp_sum54(own);
            if (!together) {
                if (position < all) break;
                position -= all, j++;
                continue;
            }
            if (lane == 0 && j < groups) s.group_mass[j] = all;
            if (j + step < groups) {
                j += step;
                continue;
            }
            __syncwarp();
            if (lane == 0) tb_mail_arrive(&s.groups_weighed);
            tb_wait_here(&s.groups_weighed, 0);
            const uint64_t mass = (uint32_t)lane < groups ? s.group_mass[lane] : 0,
                           upto = tb_warp_scan64(mass);
            const uint32_t who = __ffs(__ballot_sync(TB_WHOLE_WARP, upto > position)) - 1;
            if (who % TB_PIPE_WARPS != (uint32_t)warp) return;
            position -= __shfl_sync(TB_WHOLE_WARP, upto - mass, who);
            if (who == j) break;
            j = who, next = load(j), together = false;
        }
        uint64_t from = tb_warp_scan64(own) - own;
        if (from > position || position - from >= own) return;
        float x = tb_element<dtype>(v, 0);
        int e = 0;
#pragma unroll
        for (int i = 1; i < (int)width; i++) {
            from += tb_join(h[i - 1], l[i - 1]); /* up to element i */
            if (from <= position) e = i, x = tb_element<dtype>(v, i);
        }
        const tb_fast_result result = {
            (int32_t)((first + j * 32 + lane) * width + e - slice.shift), drawn.kept, 0, drawn.status,
            drawn.equal ? 0.0f : law_exponent(x, maximum, row.scale),     drawn.total};
        const int64_t index = row_of(drawn.row);
        tb_fast_write(params.call, index, result);
        if (params.call.total_mass) params.call.total_mass[index] = result.mass;
    }
};

/* By the cluster's threads: P is tb_pipe, or what extends it. */
template <class P> TB_DEV void tb_run_pipe(const tb_cuda_params &params)
{
    typedef typename P::shared S;
    constexpr int C = P::C;
    constexpr uint32_t bytes = (sizeof(S) + 127) / 128 * 128;
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
    pipe.slots = min((tb_dynamic_shared_bytes() - bytes) / (slot * 16), (uint32_t)TB_PIPE_SLOTS);
    pipe.rows = ((uint32_t)params.call.rows - cluster + clusters - 1) / clusters;
    if (warp < TB_PIPE_LOOKERS) {
        if (lane > 0 && lane < TB_PIPE_SLOTS) tb_mail_init(&s.filled[warp][lane], P::COPIES);
    } else if (warp == TB_PIPE_LOOKERS) {
        if (lane < TB_PIPE_RING) tb_mail_init(&s.mail_maximum[lane], 1);
    } else if (warp == TB_PIPE_LOOKERS + 1) {
        if (lane < TB_PIPE_KNOWN / TB_PIPE_GROUP) tb_mail_init(&s.free[lane], S::DONE_WITH_ROW);
        if (lane < TB_PIPE_SLOTS) tb_mail_init(&s.empty[lane], S::DONE_WITH_PLACE);
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
    if (warp == FINISHES && lane < S::MASSES) tb_mail_expect(&s.mail_mass[lane], S::MASS_BYTES);
    __syncthreads();
    tb_cluster_arrive_relaxed<C>();
    tb_wait_for_inputs();
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
