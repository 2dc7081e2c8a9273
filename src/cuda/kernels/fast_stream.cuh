/*
 * The streaming kernel: rows whose kept tokens are few, in one pass over memory.
 *
 * C blocks of NT threads (a cluster, or one block) read a row once, in tiles of U 16-byte vectors a thread.
 * (STAGED: and keep a copy in shared memory.)
 * Of a tile they keep its maximum and a certified f32 sum (fast_parts.cuh). Then
 * - bound: from maxima alone: a value that at least k tokens reach (the k-th of FOLDS maxima over disjoint
 *   parts of the row), or above which a histogram of maxima promises enough mass (fast_bound.cuh)
 * - candidates (fast_candidates.cuh): every token >= bound, re-read from the groups whose maximum reaches it;
 *   the row's first block, the leader, gets them
 * - resolve (fast_resolve.cuh): exact integer weights of the candidates; count and mass of the greater ones;
 *   the chain; the draw
 * What the bound promised is not trusted: the candidates hold all of the kept set if one of these holds, and
 * otherwise the row is left to the code for any kept set (fast_stream_kernels.cuh):
 * - (k) at least k of them, k a top_k: a token below the bound has k greater ones
 * - (w) the bound is at or under the least value of a min_p
 * - (p) their exact mass is at least the upper end of p * Z: a token below the bound has that much above it
 * - (z) a top_p, and the bound is at or under the least value of weight 1: all mass is among them
 * - (a) the bound lets all of K0 pass
 * If a min_p or top_k stands before top_p, its Z is a sum over candidates, exact. Otherwise it is the whole
 * row's, known as an interval [low, high]; the kept set is the law's wherever both ends give the same one.
 * Where they do not (one row in some hundred), the groups of the candidates are summed exactly and only the
 * rest is left to floats: the interval narrows by another factor of ten or more. If that does not settle it,
 * the row is left too.
 */
#ifndef TB_CUDA_FAST_STREAM_CUH
#define TB_CUDA_FAST_STREAM_CUH

#include "fast_candidates.cuh"
#include "fast_help.cuh"
#include "fast_resolve.cuh"

/* Says whether the row is left, to all threads of its blocks. */
template <int dtype, int C, int NT, int U, bool STAGED, int CAP, int SEG, int CAUGHT>
TB_DEV bool tb_stream_row(const tb_cuda_params &params)
{
    typedef tb_stream_shared<C, NT, CAP, SEG, CAUGHT> S;
    constexpr int WARPS = S::WARPS, FOLDS = S::FOLDS, FOLD_LANES = C * NT / FOLDS,
                  width = tb_fast_vector<dtype>::width;
    constexpr double UNITS = C * NT + 1024.0; /* of 2^-40: one for every thread's and every warp's rounding */
    static_assert(FOLD_LANES <= 32, "a fold is at most a warp");
    S &s = *(S *)tb_fast_bytes;
    uint4 *stage = (uint4 *)(tb_fast_bytes + (sizeof(S) + 127) / 128 * 128);
    const tombola_call &call = params.call;
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, rank = C == 1 ? 0 : blockIdx.x % C;
    const int64_t row = blockIdx.x / C;
    if (S::TELLS && !S::HELPED && tid == 96) tb_told_init(&s.told);
    if (C > 1) {
        if (!S::HELPED && tid == 64) s.open();
        __syncwarp();
        tb_cluster_arrive_relaxed<C>(); /* that the other blocks run is known once this barrier is passed */
    }
    tb_wait_for_inputs(params.part);

    /* ---- the pass ---- */
    bool sums;
    const bool leader = rank == 0;
    {
        int64_t start, count;
        if (!tb_fast_locate(call, row, &start, &count)) count = 0; /* it has no data to be read */
        const tb_fast_slice slice = tb_make_slice<dtype>(
            (const char *)call.data + (size_t)start * tb_fast_vector<dtype>::bytes, (uint32_t)count, 0, 1);
        int group_shift;
        const uint32_t tiles = tb_slice_tiles<C, NT, U>(slice, &group_shift);
        const uint32_t mine = rank * NT + tid, beyond = rank * NT + (U - 1) * (C * NT) + NT; /* of a tile */
        const uint32_t inner_tiles = slice.shift == 0 && slice.whole_end >= beyond
                                         ? (slice.whole_end - beyond) / (C * NT * U) + 1
                                         : 0u;
        const char *at = slice.base + (size_t)mine * 16;
        /* the first loads, before all else that is to be done; without a copy in shared memory there are no
         * registers to hold a tile meanwhile: let it come as far as L2 */
        if (STAGED) {
            tb_stage_tile<dtype, C * NT, NT, U>(slice, rank * NT, stage);
        } else if (inner_tiles) {
#pragma unroll
            for (int j = 0; j < U; j++)
                asm volatile("prefetch.global.L2 [%0];" ::"l"(at + j * (C * NT * 16)));
        }
        const int64_t slot = tb_gpu_slot(call, row);
        if (rank == 0 && tid == 32) tb_fast_advance(params, row, slot);
        if (warp == 0 && lane == 0) {
            s.slice = slice;
            s.own_pushed = s.verdict = s.list_length = s.narrow_length = 0;
            s.own_first = 0xffffffffu;
            s.before_high = s.before_low = s.ambiguous = 0;
            s.listed[0] = s.listed[1] = s.listed[2] = s.rest_high = s.rest_low = 0;
            s.own_taken = s.base_mass = s.finished = 0;
        }
        if (tid < 256) {
            s.group_count[tid] = 0;
            constexpr int words = 2 * sizeof(tb_stream_bins) / 4 / 256;
#pragma unroll
            for (int i = 0; i < words; i++) ((uint32_t *)s.bins)[tid + i * 256] = 0;
        }
        if (lane == 0) s.caught_count[warp] = 0;
        if (S::TURNS && tid == 32) {
            tb_turns *turns = tb_takes_turns() ? tb_await_turn() : nullptr;
            if (turns && !tiles) tb_end_turn(turns);
            s.turns = turns;
        }
        if (!STAGED) __syncthreads(); /* the slice, for the tiles at the ends */
        float c = 1.0f;
        sums = (!STAGED || tiles > 1) && tb_fast_needs_sums(params, slot, &c);
        float top = -LAW_INF, group = -LAW_INF, reference = -2097152.0f, least = LAW_INF;
        double sum = 0.0;
        uint32_t status = 0;
        auto add = [&](const uint4(&v)[U], float m, uint32_t t) {
            float r = tb_reference_exponent(m, c), both = fmaxf(reference, r),
                  tile = tb_tile_sum<dtype, U>(v, c, r);
            /* of use where a group is a tile */
            s.group_parts()[min(t, TB_MAX_GROUPS - 1u) * NT + tid] =
                (uint16_t)(tile * tb_ex2(__fmaf_rn(-m, c, r)) * TB_PARTS);
            sum = sum * (double)tb_power(reference - both) + (double)(tile * tb_power(r - both));
            reference = both;
        };
        __syncwarp();
        tb_cluster_wait<C>();
        /* while the first loads are under way; what the block says of them orders it before all mail */
        if (C > 1 && tid == 96) tb_left_boxes<C, WARPS>(s.left_mail);
#pragma unroll 1
        for (uint32_t t = 0; t < tiles; t++, at += C * NT * U * 16) {
            uint4 v[U];
            if (STAGED) {
                if (t + 1 < tiles)
                    tb_stage_tile<dtype, C * NT, NT, U>(slice, rank * NT + (t + 1) * (C * NT * U),
                                                        stage + (t + 1) * (U * NT));
                tb_stage_wait(t + 1 < tiles);
#pragma unroll
                for (int j = 0; j < U; j++) v[j] = stage[(t * U + j) * NT + tid];
            } else if (t < inner_tiles) {
                tb_load_inner_tile<C * NT, U>(at, v);
            } else {
                tb_load_tile<dtype, C * NT, U>(s.slice, rank * NT + t * (C * NT * U), v);
            }
            float m = tb_tile_max<dtype, U>(v);
            if (law_isnan(m)) {
                tb_drop_nan<dtype, U>(v);
                status |= TOMBOLA_ROW_NAN;
                m = tb_tile_max<dtype, U>(v);
                if (STAGED)
#pragma unroll
                    for (int j = 0; j < U; j++) stage[(t * U + j) * NT + tid] = v[j];
            }
            if (CAUGHT) {
                if (t == 0) {
                    __syncwarp();
                    least = tb_warp_rank(m, TB_CATCH_FIRST);
                } else if (t == 3 && tiles > 5) {
                    least = fmaxf(least, tb_warp_rank(fmaxf(fmaxf(top, group), m), TB_CATCH_LATER));
                }
                if (m >= least) least = tb_catch<dtype, C * NT, U>(s, v, least, mine + t * (C * NT * U));
            }
            group = fmaxf(group, m);
            if (((t + 1) & ((1u << group_shift) - 1)) == 0 || t + 1 >= tiles) {
                s.group[(t >> group_shift) * NT + tid] = group;
                top = fmaxf(top, group);
                group = -LAW_INF;
            }
            /* the next block's first tile is on its way by then */
            if (S::TURNS && tid == 0 && t + 1 == tiles - (tiles > 1) && s.turns) tb_end_turn(s.turns);
            if (sums && (!STAGED || t + 1 < tiles)) add(v, m, t);
        }
        if (!STAGED) { /* the warps that are done first have time for this */
            uint32_t turn = 0;
            if (lane == 0) turn = tb_shared_add(&s.finished, 1);
            turn = __shfl_sync(TB_WHOLE_WARP, turn, 0);
            if (turn < 2) tb_describe(params, row, s, turn == 0, turn == 1);
        }

        /* ---- what every block learns of every warp ---- */
        uint32_t key = tb_warp_max(law_key(top));
        status = tb_warp_or(status);
        auto fix =
            [&]() { /* the warp's sum */
                    float most = tb_reference_exponent(law_key_value(key), c);
                    return tb_warp_sum64((uint64_t)(sum * (double)tb_power(reference - most) * 0x1p40));
            };
        uint32_t fold = law_key(top);
        if (FOLD_LANES == 32)
            fold = key;
        else
#pragma unroll
            for (int d = 1; d < FOLD_LANES; d *= 2) fold = max(fold, __shfl_xor_sync(TB_WHOLE_WARP, fold, d));
        const int first_fold = rank * (FOLDS / C);
        if (lane % FOLD_LANES == 0) {
            int id = first_fold + tid / FOLD_LANES;
            s.fold[id] = law_key_value(max(fold & ~(uint32_t)(FOLDS - 1), TB_KEY_LEAST_LOGIT) | (uint32_t)id);
        }
        uint64_t fixed = 0;
        if (C == 1 && sums) fixed = fix();
        if (lane == 0) {
            tb_fast_warp said = {key, status, fixed};
            s.warp[warp] = said;
            s.caught_least[warp] = least;
        }
        tb_reader_barrier<NT, S::HELPED>();
        if (S::HELPED) {
            if (tid == 64) tb_tell(&s.told_folds);
            tb_told_wait(&s.told);
        }
        if (C > 1) {
            if (warp == 0) {
                tb_fast_warp said = s.warp[lane % WARPS];
                uint32_t most = tb_warp_max(said.key), bits = tb_warp_or(said.status);
                if (lane < C) tb_mail_8(&s.word[rank], lane, most, bits, &s.mail_first);
            } else if (warp == 1) { /* a vector of the block's folds each: 32 / C of them to C blocks */
                float *from = &s.fold[first_fold + lane % (32 / C) * 4];
                tb_mail_16(from, lane / (32 / C), *(const uint4 *)from, &s.mail_first);
            }
            if (STAGED) sums = s.chain.p_on, c = s.chain.scale;
            if (sums) { /* while that is under way */
                if (STAGED) {
                    const uint32_t t = tiles - 1;
                    uint4 v[U];
#pragma unroll
                    for (int j = 0; j < U; j++) v[j] = stage[(t * U + j) * NT + tid];
                    if (tiles) add(v, s.group[t * NT + tid], t);
                }
                fixed = fix();
                if (lane == 0) s.warp[warp].fixed = fixed;
                if (warp == S::INTERVAL_WARP)
                    tb_sums_barrier<NT>();
                else
                    tb_sums_arrive<NT>();
                if (warp == S::INTERVAL_WARP) { /* the one that has time */
                    tb_fast_warp said = s.warp[lane % WARPS];
                    float r = tb_reference_exponent(law_key_value(tb_warp_max(said.key)), c);
                    float less = tb_reference_exponent(law_key_value(said.key), c) - r;
                    fixed = lane < WARPS ? (uint64_t)((double)said.fixed * (double)tb_power(less)) : 0;
                    fixed = tb_warp_sum64(fixed);
                    if (lane < C)
                        tb_mail_8(&s.word[rank].fixed, lane, (uint32_t)fixed, (uint32_t)(fixed >> 32),
                                  &s.mail_sums);
                }
            }
            tb_mail_await(&s.mail_first);
        }
    }

    const tb_fast_slice &slice = s.slice; /* read where it is used: registers are few */
    const tb_fast_chain &chain = s.chain;
    const uint32_t length = slice.length;
    uint32_t status;
    const uint32_t greatest = tb_greatest(s, &status);
    const float maximum = law_key_value(greatest);
    const float c = chain.scale;
    /* no block may end before all mail to it has come */
    auto sums_came = [&]() {
        if (C > 1 && sums) tb_mail_await(&s.mail_sums);
    };
    if (chain.bad || greatest < TB_KEY_LEAST_LOGIT) {
        if (leader)
            tb_fast_write_void(call, row, chain.bad ? TOMBOLA_ROW_BAD_PARAM : status | TOMBOLA_ROW_EMPTY, NT);
        sums_came();
        return false;
    }
    const bool by_index = call.ties == TOMBOLA_TIES_INDEX, greedy = chain.greedy, flat = chain.flat;
    const int32_t k = s.rule.k;
    const uint64_t w = s.rule.w;
    const bool p_whole = s.rule.p_whole, before_only = s.rule.before_only;
    int group_shift;
    const uint32_t tiles = tb_slice_tiles<C, NT, U>(slice, &group_shift);
    const int maxima = (int)((tiles + (1u << group_shift) - 1) >> group_shift) * NT;
    /* do all of the row's elements fit the lists */
    const bool all =
        tiles * (uint32_t)(NT * U * width) <= (uint32_t)S::SEGMENT || length + width <= (C == 1 ? CAP : 0);
    /* c: so that x - m, where it overflows, is of no weight in the sums either */
    const bool can = greedy || all ||
                     ((k != TB_OFF || w || p_whole) && !(flat && (k == TB_OFF || p_whole)) &&
                      !(p_whole && !(fabsf(maximum * c) < 0x1p20f && c > 0x1p-120f)));
    if (greatest == TB_KEY_POS_INF || !can) {
        sums_came();
        return true;
    }
    const bool needs_estimate = p_whole && !all && !greedy;
    if (warp == S::INTERVAL_WARP) {
        if (leader && needs_estimate) {
            double unit, relative = tb_estimate(s, maximum, c, &unit);
            unit = tb_reference_factor(maximum, c, tb_reference_exponent(maximum, c));
            const double estimate = relative * unit;
            const float n = (float)length,
                        mean = fminf(tb_mean_exponent(n, estimate),
                                     tb_mean_by_folds(s, maximum, c, n, (float)estimate * 0x1p-40f));
            double error = tb_interval(mean);
            double least = estimate * (1.0 - error) - (double)length - UNITS;
            uint64_t low = least > 1.0 ? (uint64_t)least : 1,
                     high = (uint64_t)(estimate * (1.0 + error) + UNITS);
            uint64_t target = law_top_p_target(chain.p, lane & 1 ? high : low); /* both ends at once */
            if (lane == 0) s.target_low = target, s.relative = relative, s.unit = unit;
            if (lane == 1) s.target_high = target;
        }
    } else {
        /* ---- the bound ---- */
        float bound = TB_LEAST, bound_w = tb_least_of(w, maximum, c);
        const bool by_folds = !greedy && !all && k <= TB_FOLD_K;
        const bool told = S::HELPED && by_folds; /* by the helping warp */
        if (told) {
            tb_told_wait(&s.told_bound);
        } else if (greedy) {
            bound = maximum;
        } else if (by_folds) {
            if (warp == 0) bound = fmaxf(bound_w, tb_bound_by_folds(s, (uint32_t)k));
        } else if (!all && (k != TB_OFF || p_whole)) {
            float wanted = LAW_INF, share = 1.0f;
            bool deep = false;
            if (p_whole) {
                double unit, relative = tb_estimate(s, maximum, c, &unit);
                float estimate = (float)(relative * unit);
                /* all tokens of less weight than (1 - p) * Z / n weigh less than (1 - p) * Z together */
                share = (1.0f - fmaxf(chain.p, 0.0f)) * estimate / (float)length;
                wanted = tb_wanted_mass(estimate, chain.p);
            }
            uint32_t lowest = TB_KEY_POS_INF, empty = 0;
            for (int i = lane; i < FOLDS; i += 32) {
                const uint32_t key = law_key(s.fold[i]);
                if (key >= TB_KEY_LEAST_LOGIT + FOLDS)
                    lowest = min(lowest, key);
                else
                    empty++;
            }
            lowest = tb_warp_min(lowest) & ~(uint32_t)(FOLDS - 1);
            float least =
                lowest >= TB_KEY_LEAST_LOGIT && lowest < TB_KEY_POS_INF ? law_key_value(lowest) : maximum;
            if (!p_whole && tb_warp_sum(empty) >= TB_EMPTY_FOLDS) {
                bound = bound_w; /* there are few tokens: all of them */
            } else if (!p_whole && k <= TB_EQUAL_K && lowest == (greatest & ~(uint32_t)(FOLDS - 1))) {
                bound = LAW_INF; /* many equals */
            } else if (k > S::CAPACITY && !w && tb_hopeless(s, maximum, c, wanted, &deep)) {
                bound = LAW_INF;
            } else if (p_whole) { /* first by what is greater than that, which most rows do with */
                if (deep) least = tb_least_value(maximum, c, fmaxf(share, 1.0f));
                least = fmaxf(least, bound_w);
                bound = tb_bound_by_histogram<C, NT, S>(0, maximum, least, c, maxima, k, wanted, group_shift);
                if (bound == -LAW_INF) least = fmaxf(tb_least_value(maximum, c, fmaxf(share, 1.0f)), bound_w);
            } else {
                if (k > 300) least -= (maximum - least) * 0.6f;
                least = fmaxf(fmaxf(least, TB_LEAST), bound_w);
                bound = -LAW_INF;
            }
            if (bound == -LAW_INF)
                bound = tb_bound_by_histogram<C, NT, S>(1, maximum, least, c, maxima, k, wanted, group_shift);
            if (bound == -LAW_INF) bound = bound_w > TB_LEAST ? bound_w : least;
        } else if (!all) {
            /* where all folds reach it there are mostly many more tokens than the lists hold */
            float lowest = LAW_INF;
#pragma unroll
            for (int i = lane; i < FOLDS; i += 32) lowest = fminf(lowest, s.fold[i]);
            bound = __all_sync(TB_WHOLE_WARP, lowest >= bound_w) && w ? LAW_INF : bound_w;
        }
        if (!told) {
            if (tid == 0) tb_tell_bound(s, bound, bound_w, maximum, c);
            tb_seek_barrier<NT>();
        }
        bound = s.bound;
        const uint32_t cut = by_folds && bound > TB_LEAST ? (uint32_t)k : 0; /* by the block's own k-th */

        /* ---- the candidates, to the leader ---- */
        auto caught = [&](int of) {
            return CAUGHT && s.caught_least[of] <= bound && s.caught_count[of] <= (uint32_t)S::CATCH;
        };
        const bool own = caught(warp), shared = caught(S::INTERVAL_WARP);
        if (CAUGHT) tb_push_caught<dtype, C>(s, rank, bound, own, shared, greedy);
        const uint32_t warps = __ballot_sync(TB_WHOLE_WARP, lane < WARPS && !caught(lane % WARPS));
        if (bound == LAW_INF)
            ; /* the row is left */
        else if (STAGED)
            tb_push_staged<dtype, C, NT, U>(s, stage, rank, bound, tiles, greedy, greedy && !call.ranks);
        else if (warps)
            tb_push_groups<dtype, C, NT, U>(s, rank, bound, tiles, group_shift, warps, greedy,
                                            greedy && !call.ranks, maximum, cut);
    }
    tb_reader_barrier<NT, S::HELPED>();
    const float bound = s.bound, bound_w = s.bound_w;
    if (bound == LAW_INF) { /* all blocks see that too */
        sums_came();
        return true;
    }
    /* the shuffle tells the compiler that a warp goes one way */
    if (NT > TB_FINISHERS && __shfl_sync(TB_WHOLE_WARP, warp, 0) >= TB_FINISHERS / 32)
        return tb_await_verdict<C>(s, leader);
    if (C > 1 && tid == 0) {
        uint32_t sent = greedy ? 0u : min(s.own_pushed, (uint32_t)S::SEGMENT);
        tb_mail_expect_at(&s.mail_second, 0, sent * 8 + 8);
        tb_mail_8(&s.pushed[rank], 0, s.own_pushed, s.own_first, &s.mail_second);
    }
    sums_came();
    if (!leader) {
        tb_mail_await(&s.mail_verdict);
        const uint32_t verdict = s.verdict;
        if (verdict != TB_ROW_NARROWED) return verdict == TB_ROW_LEFT;
        if (tid == 0) tb_mail_expect(&s.mail_first, 4);
        tb_narrow<dtype, C, NT, U, STAGED, S>(stage, maximum, bound);
        tb_mail_wait(&s.mail_first, 1);
        return s.last_verdict == TB_ROW_LEFT;
    }

    /* ---- the leader resolves ---- */
    if (C > 1) tb_mail_await(&s.mail_second);
    auto tell = [&](uint32_t verdict, bool again) {
        const int to = tid - 32; /* the first warp has the draw to do */
        if (C > 1 && to > 0 && to < C) {
            if (again) /* all of the block have seen the first filling of this box */
                tb_mail_4(&s.last_verdict, to, verdict, &s.mail_first);
            else
                tb_mail_4(&s.verdict, to, verdict, &s.mail_verdict);
        }
        if (NT > TB_FINISHERS && verdict != TB_ROW_NARROWED) tb_tell_block(s, verdict);
    };
    /* each block's candidates are the work of as many threads, and lie in the list one after the other */
    constexpr int EACH = TB_FINISHERS / C;
    const int r = tid / EACH;
    uint32_t pushed = lane < C ? C == 1 ? s.own_pushed : s.pushed[lane].x : 0u;
    uint32_t first = lane < C ? C == 1 ? s.own_first : s.pushed[lane].y : 0xffffffffu;
    bool overflow = __any_sync(TB_WHOLE_WARP, pushed > (uint32_t)S::SEGMENT);
    const int n = (int)tb_warp_sum(min(pushed, CAP + 1u));
    overflow |= n > CAP;
    int base = 0;
    if (C > 1) {
        const int before = EACH < 32 ? warp * (32 / EACH) : r; /* of the warp's first block */
        base = (int)tb_warp_sum(lane < before ? pushed : 0u);
        if (EACH < 32 && r > before) base += (int)s.pushed[before].x;
    }
    if (greedy || overflow) {
        tell(greedy ? TB_ROW_DONE : TB_ROW_LEFT, false);
        if (greedy) {
            first = tb_warp_min(first);
            tb_fast_result result = {(int32_t)first, 1, (int)tb_warp_sum(pushed), status, 0.0f, LAW_ONE};
            if (tid == 0) tb_fast_write(call, row, result);
            if (tid == 0 && call.entropy) call.entropy[row] = law_entropy({0, 0}, LAW_ONE);
            if (call.kept_ids)
#pragma unroll 1
                for (int64_t i = tid; i < call.kept_capacity; i += TB_FINISHERS)
                    call.kept_ids[row * call.kept_capacity + i] = i ? -1 : (int32_t)first;
        }
        return !greedy;
    }
    const bool many = n > TB_FEW;
    /* for a k nothing need be known of the candidates' mass, unless they have all of the row's */
    const bool all_mass =
        p_whole && (bound == TB_LEAST || (!flat && bound <= tb_least_value(maximum, c, 1.0f)));
    const bool needs_bins = many || (p_whole && (all_mass || k == TB_OFF || n < k));
    const float bins = s.value_bins;
    if (S::ALONE) /* a thread has 64 registers */
        tb_weigh_apart<S>(n, maximum, c, flat, bins, needs_bins);
    else
        tb_weigh_segment(s, s.raw + r * S::SEGMENT, base, tid % EACH, EACH, (int)s.pushed[r].x, maximum, c,
                         flat, bins, needs_bins);
    tb_finish_barrier();
    tb_bin_sums bin_sums = {0, {0, 0, 0, 0}, 0};
    if (needs_bins) bin_sums = tb_sum_bins(s.bins[0]);
    const uint64_t listed = tb_mass_of(bin_sums.total); /* of the candidates; 0 where it is not needed */
    bool sufficient = bound == TB_LEAST || (k != TB_OFF && n >= k) || (w && bound <= bound_w && !flat);
    uint64_t target_low = ~(uint64_t)0, target_high = ~(uint64_t)0;
    if (p_whole) {
        if (all_mass) {
            sufficient = true;
            target_low = target_high = law_top_p_target(chain.p, listed);
        } else {
            target_low = s.target_low;
            target_high = s.target_high;
        }
        sufficient |= listed >= target_high;
    }
    const uint32_t k_b = (uint32_t)chain.k_before,
                   k_a = (uint32_t)chain.k_after;      /* off: more than any row has */
    const int shift = max(0, 25 - __clz((int)length)); /* of an index to its bin */
    bool narrowed = false, undecided = !sufficient;
    uint64_t mass = 0;
    uint32_t kept = 0;
#pragma unroll 1
    while (!undecided) {
        if (!many) {
            tb_pair_all(s.token, n, by_index ? ~0u : 0u, tb_pair_room(s));
            tb_finish_barrier();
            const tb_fast_rank mine = tb_rank_of(s.token, n, tb_pair_room(s));
            const uint64_t weight = mine.token.weight;
            bool in_before = mine.has && mine.greater < k_b && weight >= chain.w_before;
            if (before_only) {
                tb_add_digits(&s.before_high, &s.before_low, in_before ? tb_high_digit(weight) : 0u,
                              in_before ? tb_low_digit(weight) : 0u);
                tb_finish_barrier();
                target_low = target_high = law_top_p_target(chain.p, tb_join(s.before_high, s.before_low));
            }
            const bool stays = in_before && mine.greater < k_a && weight >= chain.w_after;
            if (stays && mine.above >= target_low && mine.above < target_high) s.ambiguous = 1;
            if (mine.has) s.pair[mine.lower] = tb_ordered_token(mine.token, stays && mine.above < target_low);
            tb_finish_barrier();
            undecided = s.ambiguous;
        } else {
            if (S::ALONE) /* a thread has 64 registers */
                tb_mark_kept_apart<S>(n, bin_sums, greatest, maximum, bins, by_index, shift, target_low);
            else
                tb_mark_kept<S>(n, bin_sums, greatest, maximum, bins, by_index, shift, target_low);
            bin_sums = tb_sum_bins(s.bins[1]);
            mass = tb_mass_of(bin_sums.total);
            kept = tb_count_of(bin_sums.total);
            undecided =
                target_low < target_high && mass >= target_low && mass < target_high && kept < min(k_b, k_a);
        }
        if (!undecided || narrowed) break;
        /* the interval of p * Z holds the mass above some candidate: narrow it, once */
        narrowed = true;
        undecided = false;
        tb_finish_barrier();
        tell(TB_ROW_NARROWED, false);
        if (tid == 0) s.ambiguous = 0;
        if (many) {
            tb_unmark<S>(n, maximum, bins);
            bin_sums = tb_sum_bins(s.bins[0]);
        }
        tb_narrow<dtype, C, NT, U, STAGED, S>(stage, maximum, bound);
        tb_finish_barrier();
        if (C > 1) tb_mail_await(&s.mail_narrow);
        double taken = 0.0;
        uint64_t exact = 0;
#pragma unroll 1
        for (int r = 0; r < C; r++) {
            uint4 word = s.narrow[r];
            exact += (uint64_t)word.y << 32 | word.x;
            taken += __longlong_as_double((long long)((uint64_t)word.w << 32 | word.z));
        }
        double rest = fmax(0.0, s.relative - taken) * s.unit;
        double error = rest * tb_interval(tb_mean_exponent((float)length, rest)) +
                       s.relative * s.unit * 0x1p-50 + 2.0 * UNITS;
        double least = rest - error - (double)length;
        uint64_t low = exact + (least > 0.0 ? (uint64_t)least : 0),
                 high = exact + (uint64_t)(rest + error) + 1;
        target_low = law_top_p_target(chain.p, low > listed ? low : listed);
        target_high = law_top_p_target(chain.p, high);
    }
    tell(undecided ? TB_ROW_LEFT : TB_ROW_DONE, narrowed);
    if (undecided) return true;

    /* ---- the draw ---- */
    if (many) {
        const tb_fast_result result = {0, (int32_t)kept, 0, status, 0.0f, mass};
        tb_draw_kept<S>(call, row, result, n, bin_sums, shift, flat ? 0.0f : c, maximum);
        if (call.entropy && warp == 0)
            tb_entropy_of_list<S>(call, row, true, n, flat ? 0.0f : c, maximum, mass);
    } else if (warp == 0) {
        tb_draw_few<S>(call, row, status, n, flat ? 0.0f : c, maximum);
    }
    return false;
}

#endif
