/*
 * Rows whose kept set is large, or of any size, which the streaming kernel leaves: the wide code. The row's
 * blocks go on, its pieces shared out over their warps.
 *
 * - Bracket: a sample of the row, or how many of its tokens are where, says between which two values the last
 *   kept token probably is. Nothing rests on it.
 * - Exact look: integer mass and count of the tokens above the lower value, of every piece; the total; a list
 *   of the tokens between the two values. Whether the boundary is between them is now known exactly.
 *   If it is: found in the list, which all blocks get, by digits of the order's key with exact masses.
 *   If not, another guess, of the side where it is. If that fails, or if the list was too short: a histogram
 *   of all tokens there, a narrower bracket, and the exact look again. Each round leaves a smaller interval,
 *   by keys every other time. A bracket of one value needs no list: its tokens weigh the same, and their
 *   number says all.
 * - Draw: the kept mass of the pieces, in index order; the piece, the load, the token.
 *
 * The chain: fewer than k greater tokens, weight at least w, mass of the greater ones less than the target.
 * If a top_k or min_p stands before top_p, its kept set is found first, whose mass makes the target.
 */
#ifndef TB_CUDA_FAST_WIDE_CUH
#define TB_CUDA_FAST_WIDE_CUH

#include "fast_wide_draw.cuh"

/* What another kernel has found out about a row. */
typedef struct tb_wide_known {
    uint32_t greatest, status; /* key; status bits */
    float relative, least;     /* see describe() */
    bool estimated;            /* `relative` is known */
    bool seek_least;           /* `least` is not: look in a sample of the row */
    float spread;              /* between the folds' maxima */
    bool at_top;               /* the boundary seems to be among the equals of the greatest token */
} tb_wide_known;

template <int dtype, int C, int NT, int U, int CAP, size_t STAGE>
struct tb_wide_row : tb_wide_draw<dtype, C, NT, U, CAP, STAGE> {
    typedef tb_wide_draw<dtype, C, NT, U, CAP, STAGE> W;
    typedef typename W::shared shared;
    typedef typename W::chunk chunk;
    static constexpr int WARPS = W::WARPS, ROW_WARPS = W::ROW_WARPS, width = W::width;

    /* What is known of the row, by one thread. Nothing rests on `relative`, the row's
     * mass in weights of its greatest token, nor on `least`, below which the boundary hardly is. */
    static TB_MEMBER void describe(uint32_t greatest, uint32_t status, float relative, float least,
                                   float scale)
    {
        shared &s = W::all();
        const bool infinite = greatest == TB_KEY_POS_INF;
        if (infinite) {
            status |= TOMBOLA_ROW_POS_INF;
            greatest = law_key(0.0f);
            least = 0.0f;
        }
        /* flat: all weigh the same, with t = 0 */
        const bool flat = s.chain.flat || s.chain.greedy || infinite;
        const float best = law_key_value(greatest);
        s.greatest_key = greatest;
        s.status = status;
        s.infinite = infinite;
        s.flat = flat;
        s.relative = relative;
        s.greatest = best;
        s.maximum = flat ? 0.0f : best;
        s.scale = flat ? 0.0f : scale;
        s.least = least;
    }

    /* A row that has been described. */
    static TB_MEMBER void serve(const tb_cuda_params &params, int64_t row)
    {
        shared &s = W::all();
        uint32_t words = 0, bins = 0, lists = 0, counts = 0; /* exchanges of each kind so far */
        const tombola_call &call = params.call;
        const int tid = (int)threadIdx.x, lane = tid & 31, warp = tid >> 5;
        const uint32_t length = s.slice.length;
        const typename W::words *word = nullptr;
        const uint32_t status = s.status;
        const bool flat = s.flat, greedy = s.chain.greedy;
        const bool estimated = s.estimated && !flat && fabsf(s.greatest * s.scale) < 0x1p20f;

        /* ---- the chain ---- */
        const bool by_index = call.ties == TOMBOLA_TIES_INDEX || greedy;
        const bool p_on = s.chain.p_on && !greedy;
        const uint32_t k_before = greedy                               ? 1u
                                  : s.chain.k_before < (int32_t)length ? (uint32_t)s.chain.k_before
                                                                       : TB_NO_LIMIT,
                       k_after = !greedy && s.chain.k_after < (int32_t)length ? (uint32_t)s.chain.k_after
                                                                              : TB_NO_LIMIT;
        const uint64_t w_before = flat ? 0 : s.chain.w_before, w_after = flat ? 0 : s.chain.w_after;
        const bool before = p_on && (k_before != TB_NO_LIMIT || w_before);
        /* do all tokens fit the lists: those of the block that has most pieces */
        const uint32_t turn = s.share * WARPS, turns = ((s.slice.end + turn - 1) / turn + C - 1) / C;
        const bool few = min(s.slice.end, turns * turn) * width <= s.limit;
        uint64_t floor = tb_floor_of_key(TB_KEY_LEAST_LOGIT), kept_mass = 0;
#pragma unroll 1
        for (int phase = before ? 0 : 1; phase < 2; phase++) {
            uint32_t k = phase == 0 ? k_before : before ? k_after : min(k_before, k_after);
            const bool has_p = phase == 1 && p_on;
            bool whole = has_p && !before; /* the target is not known yet */
            uint64_t target = has_p && before ? law_top_p_target(s.chain.p, kept_mass) : TB_NO_MASS;
            uint64_t w = phase == 0 || w_before > w_after ? w_before : w_after;
            if (w) {
                uint64_t least_place = tb_floor_of_key(W::least_key(w));
                floor = floor > least_place ? floor : least_place;
            }
            const uint64_t base = floor;
            const float bottom = law_key_value(tb_place_key(base)), most = s.greatest;
            const bool limited = k != TB_NO_LIMIT || has_p;
            tb_wide_bracket bracket = {bottom, bottom};
            if (limited && few) {
                bracket.high = most;
            } else if (limited && s.at_top) {
                bracket = {most, most};
            } else if (limited) {
                const bool known = before || estimated;
                const float mass = before  ? (float)kept_mass * 0x1p-40f
                                   : known ? s.relative
                                           : -1.0f,
                            below = mass * (1.0f - fmaxf(s.chain.p, 0.0f));
                if (!W::COUNTED)
                    bracket = W::guess(bottom, most, k, has_p, true, below);
                else if (known || !has_p) {
                    /* By the mass under it, where that is much less than the mass above it, or where values
                     * are so few that those of a bin are not on average in its middle; it takes longer. */
                    const bool under = has_p && (dtype != TOMBOLA_F32 || below * 16.0f < mass);
                    bracket = W::guess_counted(bottom, most, k, has_p && !under ? mass - below : LAW_INF,
                                               under ? below : LAW_INF, counts++, words);
                }
            }
            float lowest = bottom; /* the boundary is at least here, and */
            float ceiling = most;  /* at most here; count and mass of the greater ones: */
            uint32_t ceiling_count = 0, count;
            uint64_t ceiling_mass = 0, mass;
            bool listed, guessed = false;
#pragma unroll 1
            for (;;) {
                const float low = bracket.low, high = bracket.high;
                const bool collect = limited && low < high;
                const uint64_t top_place = W::place(law_key(high), 0, by_index),
                               low_place = W::place(law_key(low), TB_LAST_INDEX, by_index);
                const int spread = 64 - __clzll((long long)(top_place - low_place) | 1),
                          least_shift = by_index ? 0 : LAW_INDEX_BITS;
                int shift = max(least_shift, spread - 8);
                if (tid == 0) s.pushed = 0;
                if (tid < W::ROW_PIECES) s.drop_high[tid] = s.drop_low[tid] = s.drop_count[tid] = 0;
                W::barrier();
                W::look(low, limited ? high : -LAW_INF, collect, words);
                uint4 bin = make_uint4(0, 0, 0, 0);
                uint32_t in_list = 0, before_bin = 0;
                uint64_t in_list_mass = 0, mass_before_bin = 0;
                bool good = false;
                if (C == 1 || collect) W::barrier();
                /* once all words have come the other blocks are done with the list before this one */
                if (lists && collect) W::await_all(words);
                if (collect) W::send_list();
                word = W::await(words++);
                if (warp == 0) { /* while the lists are under way */
                    tb_wide_sums sum = {0, 0, target, 0, 0};
#pragma unroll
                    for (int i = lane; i < W::ROW_PIECES; i += 32) {
                        const uint4 a = word->piece[i];
                        sum.mass += (uint64_t)a.y << 32 | a.x;
                        sum.count += a.z;
                        sum.between += a.w;
                    }
#pragma unroll
                    for (int i = lane; i < ROW_WARPS; i += 32)
                        sum.total += (uint64_t)word->warp[i].y << 32 | word->warp[i].x;
                    sum.mass = tb_warp_sum64(sum.mass);
                    sum.total = tb_warp_sum64(sum.total);
                    sum.count = tb_warp_sum(sum.count);
                    sum.between = tb_warp_sum(sum.between);
                    if (whole) sum.target = law_top_p_target(s.chain.p, sum.total);
                    if (lane == 0) s.sums = sum;
                }
                if (collect) {
                    good = W::receive_list(lists++);
                    if (good) bin = W::sum_list(low_place, top_place, shift, by_index);
                }
                if (good) {
                    /* a bin of more than 4095 tokens has no exact mass: then the list counts for nothing */
                    const typename W::scanned sums =
                        W::scan_exact(bin.x + (bin.x > 4095), (uint64_t)bin.z << 32 | bin.y);
                    before_bin = sums.before;
                    mass_before_bin = sums.mass_before;
                    in_list = sums.all;
                    in_list_mass = sums.mass_all;
                } else {
                    W::barrier();
                }
                mass = s.sums.mass;
                target = s.sums.target;
                count = s.sums.count;
                const uint32_t between = s.sums.between;
                listed = good && in_list == between;
                whole = false;
                if (!limited) break;
                float from, to;
                bool from_top = true;
                if (count < k && mass < target) { /* all of these are kept */
                    if (low <= bottom) break;
                    ceiling = tb_wide_below(low);
                    ceiling_count = count;
                    ceiling_mass = mass;
                    from = lowest;
                    to = ceiling;
                } else {
                    const bool single = low == high;
                    uint64_t weight = 0;
                    if (single) {
                        uint32_t h, l;
                        W::weigh(low, s.maximum, s.scale, &h, &l);
                        weight = tb_join(h, l);
                        in_list = between;
                        in_list_mass = weight * between;
                    }
                    uint32_t above = count - in_list;
                    uint64_t mass_above = mass - in_list_mass;
                    if (!single && !listed) {
                        from = low;
                        to = high;
                        from_top = false;
                    } else if (above < k && mass_above < target) { /* the boundary is here */
                        if (single) {
                            uint64_t number = k == TB_NO_LIMIT ? TB_NO_LIMIT : k - above;
                            if (target != TB_NO_MASS && weight) {
                                uint64_t by_mass = (target - mass_above + weight - 1) / weight;
                                number = number < by_mass ? number : by_mass;
                            }
                            uint32_t last = TB_LAST_INDEX;
                            if (by_index && number < between)
                                last = W::find_tie(word, low, (uint32_t)number - 1, words);
                            floor = tb_wide_floor(law_key(low), last);
                        } else {
                            uint64_t upper = top_place, lower = low_place;
#pragma unroll 1
                            for (;;) {
                                const tb_wide_found found = W::find_in_list(
                                    bin, above + before_bin, mass_above + mass_before_bin, k, target);
                                above = found.count;
                                mass_above = found.mass;
                                upper -= (uint64_t)found.bin << shift;
                                const uint64_t width = ((uint64_t)1 << shift) - 1; /* may reach below 0 */
                                if (upper - lower > width) lower = upper - width;
                                if (found.held <= 1 || shift == least_shift) break;
                                if (found.held <= 32) {
                                    lower =
                                        W::last_kept(lower, upper, above, mass_above, k, target, by_index);
                                    break;
                                }
                                shift = max(least_shift, shift - 8);
                                bin = W::sum_list(lower, upper, shift, by_index);
                                const typename W::scanned sums =
                                    W::scan_exact(bin.x, (uint64_t)bin.z << 32 | bin.y);
                                before_bin = sums.before;
                                mass_before_bin = sums.mass_before;
                            }
                            if (!by_index) lower = (lower + TB_LAST_INDEX) & ~(uint64_t)TB_LAST_INDEX;
                            floor = tb_wide_floor(tb_place_key(lower), tb_place_index(lower));
                        }
                        break;
                    } else {
                        from = lowest = tb_wide_above(high);
                        to = ceiling;
                    }
                }
                if (from > to) {
                    bracket = {bottom, bottom};
                } else if (from_top && !guessed) {
                    guessed = true;
                    const uint32_t number = k == TB_NO_LIMIT ? k : k - ceiling_count;
                    const float mass = (float)(target - ceiling_mass) * 0x1p-40f;
                    if (W::COUNTED)
                        bracket = W::guess_counted(from, to, number, target == TB_NO_MASS ? LAW_INF : mass,
                                                   LAW_INF, counts++, words);
                    else
                        bracket = W::guess(from, to, number, target != TB_NO_MASS, false, mass);
                } else {
                    bracket = W::narrow(from, to, from_top, from_top ? ceiling_count : count,
                                        from_top ? ceiling_mass : mass, k, target, &bins);
                }
            }
            floor = floor > base ? floor : base;

            /* ---- the kept mass of each piece ---- */
            const float floor_x = law_key_value(tb_place_key(floor));
            const uint32_t last = tb_place_index(floor);
            if (floor_x < bracket.low || (floor_x > bracket.low && (!listed || floor_x > bracket.high))) {
                bracket = {floor_x, floor_x};
                listed = false;
                W::look(floor_x, -LAW_INF, false, words);
                word = W::receive(words++);
                W::barrier();
            }
            if (floor_x > bracket.low || last != TB_LAST_INDEX) {
                if (listed) { /* every block knows what is dropped */
                    W::each_listed([&](float x, uint32_t index, int piece) {
                        if (W::keeps(floor_x, last, x, index)) return;
                        uint32_t h, l;
                        W::weigh(x, s.maximum, s.scale, &h, &l);
                        atomicAdd(&s.drop_high[piece], h);
                        atomicAdd(&s.drop_low[piece], l);
                        atomicAdd(&s.drop_count[piece], 1u);
                    });
                    W::barrier();
                    if (tid < W::ROW_PIECES) {
                        uint4 &piece = s.word[(words - 1) & 1].piece[tid];
                        const uint64_t left =
                            ((uint64_t)piece.y << 32 | piece.x) - tb_join(s.drop_high[tid], s.drop_low[tid]);
                        piece = make_uint4((uint32_t)left, (uint32_t)(left >> 32),
                                           piece.z - s.drop_count[tid], 0);
                    }
                    W::barrier();
                } else {
                    /* a lane for each of the warp's pieces and each block that hears of it */
                    const int i = lane / C, to = lane % C;
                    uint32_t dropped = 0, h, l;
                    W::weigh(floor_x, s.maximum, s.scale, &h, &l);
#pragma unroll 1
                    for (int t = 0; t < W::PIECES; t++) {
                        uint32_t beyond = W::count_ties(W::number(t), floor_x, 0xffffffffu, last).y;
                        if (t == i) dropped = beyond;
                    }
                    uint4 own = make_uint4(0, 0, 0, 0);
                    if (i < W::PIECES) own = word->piece[W::number(i)];
                    __syncwarp(); /* the words to come may take the place of these */
                    const uint64_t own_mass = ((uint64_t)own.y << 32 | own.x) - tb_join(h, l) * dropped;
                    if (i < W::PIECES)
                        W::tell(
                            words, i, to,
                            make_uint4((uint32_t)own_mass, (uint32_t)(own_mass >> 32), own.z - dropped, 0));
                    W::send(words, make_uint4(0, 0, 0, 0), true);
                    word = W::receive(words++);
                }
            }
            /* the equals of the greatest token stay together, whatever follows */
            const bool settled = phase == 1 || (!by_index && tb_place_key(floor) >= s.greatest_key);
            if (warp == 0) {
                uint32_t kept = 0;
                kept_mass = 0;
#pragma unroll
                for (int i = lane; i < W::ROW_PIECES; i += 32) {
                    const uint4 a = word->piece[i];
                    kept_mass += (uint64_t)a.y << 32 | a.x;
                    kept += a.z;
                }
                kept_mass = tb_warp_sum64(kept_mass);
                kept = tb_warp_sum(kept);
                if (settled) W::locate(word, kept_mass);
                if (lane == 0) s.kept_mass = kept_mass, s.kept = kept;
            }
            W::barrier();
            kept_mass = s.kept_mass;
            if (settled) break;
        }

        /* ---- the outputs ---- */
        const uint32_t kept = s.kept;
        if (call.kept_ids) {
            int32_t *ids = call.kept_ids + row * call.kept_capacity;
            W::write_ids(word, ids, call.kept_capacity, floor);
#pragma unroll 1
            for (int64_t i = (int64_t)kept + W::block() * NT + tid; i < call.kept_capacity; i += C * NT)
                ids[i] = -1;
        }
        tb_wide_drawn drawn = W::draw(floor);
        tb_fast_result result = {drawn.index, (int32_t)kept, 0, status, 0.0f, kept_mass};
        if (call.ranks) {
            uint32_t mine = __ballot_sync(TB_WHOLE_WARP, drawn.mine);
            float x = __shfl_sync(TB_WHOLE_WARP, drawn.x, mine ? __ffs((int)mine) - 1 : 0);
            word = W::say(words++, make_uint4(mine ? law_key(x) : 0u, 0, 0, 0));
            uint32_t key = 0, rank = 0;
#pragma unroll 1
            for (int i = lane; i < ROW_WARPS; i += 32) key = max(key, word->warp[i].x);
            word = W::say(words++, make_uint4(W::count_from(law_key_value(tb_warp_max(key))), 0, 0, 0));
#pragma unroll 1
            for (int i = lane; i < ROW_WARPS; i += 32) rank += word->warp[i].x;
            result.rank = (int32_t)tb_warp_sum(rank);
        }
        if (call.entropy) {
            law_entropy_sum sum = {0, 0};
            if (!flat) {
                const law_entropy_sum mine = W::entropy_sum(floor);
                word = W::say(words++, make_uint4((uint32_t)mine.low, 0, (uint32_t)mine.high,
                                                  (uint32_t)(mine.high >> 32)));
#pragma unroll 1
                for (int i = lane; i < ROW_WARPS; i += 32) {
                    const uint4 said = word->warp[i];
                    sum.low += said.x;
                    sum.high += (uint64_t)said.w << 32 | said.z;
                }
                sum = tb_warp_entropy(sum);
            }
            if (W::block() == 0 && tid == 0) call.entropy[row] = law_entropy(sum, kept_mass);
        }
        if (!drawn.mine) return;
        if (!flat) result.t = law_exponent(drawn.x, s.maximum, s.scale);
        tb_fast_write(call, row, result);
    }

    /* A row that the streaming kernel left, in its blocks, whose memory is free: by what that has found, the
     * first look is not needed. A block waits for all mail that it gets, so none ends while others write to
     * it. */
    static TB_MEMBER void go_on(const tb_cuda_params &params, int64_t row, const tb_fast_slice &slice,
                                const tb_fast_chain &chain, uint64_t random, const tb_wide_known &known)
    {
        shared &s = W::all();
        if (threadIdx.x < TB_WIDE_BINS)
            for (int i = 0; i < 4; i++) s.bin[i][threadIdx.x] = 0;
        if (threadIdx.x == 0) {
            s.slice = slice;
            s.share = W::share_of(s.slice.end);
            s.limit = s.share * width < 4096 ? CAP : min(CAP, 4000);
            s.pushed = 0;
            s.chain = chain;
            s.random = random;
            describe(known.greatest, known.status, known.relative, known.least, chain.scale);
            s.estimated = known.estimated;
            s.at_top = known.at_top;
            s.seek_least = known.seek_least;
            s.spread = known.spread;
        }
        W::barrier();
        serve(params, row);
    }
};

#endif
