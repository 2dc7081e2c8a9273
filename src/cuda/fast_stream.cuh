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
 * otherwise the row is left to the next kernel:
 * - (k) at least k of them, k a top_k: a token below the bound has k greater ones
 * - (w) the bound is at or under the least value of a min_p
 * - (p) their exact mass is at least the upper end of p * Z: a token below the bound has that much above it
 * - (z) a top_p, and the bound is at or under the least value of weight 1: all mass is among them
 * - (a) the bound lets all of K0 pass
 * If a min_p or top_k stands before top_p, its Z is a sum over candidates, exact. Otherwise it is the whole
 * row's, known as an interval [low, high]; the kept set is the law's wherever both ends give the same one.
 * Where they do not (about one row in 400), the groups of the candidates are summed exactly and only the rest
 * is left to floats: the interval narrows by another factor of ten or more. If that does not settle it, the
 * row is left to the next kernel too.
 */
#ifndef TB_CUDA_FAST_STREAM_CUH
#define TB_CUDA_FAST_STREAM_CUH

#include "fast_bound.cuh"
#include "fast_candidates.cuh"
#include "fast_resolve.cuh"

template <int dtype, int C, int NT, int U, bool STAGED, int CAP, int SEG>
TB_DEV void tb_stream_row(const tb_cuda_params &params)
{
    typedef tb_stream_shared<C, NT, CAP, SEG> S;
    constexpr int WARPS = S::WARPS, FOLDS = S::FOLDS, FOLD_LANES = C * NT / FOLDS,
                  width = tb_fast_vector<dtype>::width;
    constexpr int WARP_FOLDS = FOLD_LANES < 32 ? 32 / FOLD_LANES : 1;
    constexpr int FOLD_K = 80; /* the greatest k that the folds' maxima serve */
    static_assert(FOLD_LANES <= 32, "a fold is at most a warp");
    S &s = *(S *)tb_fast_bytes;
    uint4 *stage = (uint4 *)(tb_fast_bytes + (sizeof(S) + 127) / 128 * 128);
    const tombola_call &call = params.call;
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, rank = C == 1 ? 0 : blockIdx.x % C;
    const int64_t row = blockIdx.x / C;
    if (C > 1) {
        if (tid == 0) {
            tb_mail_init(&s.mail_first, WARPS);
            tb_mail_init(&s.mail_second, C);
            tb_mail_init(&s.mail_verdict, 1);
            tb_mail_init(&s.mail_histogram, 1);
            tb_mail_init(&s.mail_narrow, 1);
            tb_mail_init_done();
            tb_mail_expect(&s.mail_verdict, 4);
            tb_mail_expect(&s.mail_histogram, C * 512);
            tb_mail_expect(&s.mail_narrow, C * 16);
        }
        __syncwarp();
        tb_cluster_arrive_relaxed<C>(); /* that the other blocks run is known once this barrier is passed */
    }
    tb_wait_for_inputs();

    /* ---- the pass ---- */
    {
        int64_t start, count;
        const bool located = tb_gpu_locate(call, row, &start, &count);
        const int64_t slot = tb_gpu_slot(call, row);
        const tb_fast_slice slice = tb_make_slice<dtype>(
            (const char *)call.data + (size_t)start * tb_fast_vector<dtype>::bytes, (uint32_t)count, 0, 1);
        if (rank == 0 && tid == 32) tb_fast_advance(params, row, slot);
        if (warp == 0 && lane == 0) {
            s.slice = slice;
            s.own_pushed = s.verdict = s.list_length = 0;
            s.own_first = 0xffffffffu;
            s.bound = TB_LEAST;
            s.sum_high = s.sum_low = s.kept_count = s.ambiguous = 0;
            s.before_high = s.before_low = s.kept_high = s.kept_low = 0;
            s.own_taken = s.base_mass = 0;
        }
        if (tid < 256) s.group_count[tid] = 0;
        if (!STAGED) __syncthreads(); /* the slice, for the tiles at the ends */
        float c;
        const bool sums = tb_fast_needs_sums(params, slot, &c);
        int group_shift;
        const uint32_t tiles = tb_slice_tiles<C, NT, U>(slice, &group_shift);
        const uint32_t mine = rank * NT + tid, beyond = rank * NT + (U - 1) * (C * NT) + NT; /* of a tile */
        const uint32_t inner_tiles = slice.shift == 0 && slice.whole_end >= beyond
                                         ? (slice.whole_end - beyond) / (C * NT * U) + 1
                                         : 0u;
        const char *at = slice.base + (size_t)mine * 16;
        uint4 v[U];
        float top = -LAW_INF, group = -LAW_INF, reference = -2097152.0f;
        double sum = 0.0;
        uint32_t status = 0;
        if (!STAGED && warp >= WARPS - 2) {
            /* no registers to hold a tile meanwhile: let it come as far as L2 */
            if (inner_tiles)
#pragma unroll 1
                for (int j = 0; j < U; j++)
                    asm volatile("prefetch.global.L2 [%0];" ::"l"(at + j * (C * NT * 16)));
            if (warp == WARPS - 1)
                tb_fast_parse(params, row, located, slot, &s.chain);
            else if (lane == 0)
                s.random = tb_fast_random(call, row, slot);
        }
#pragma unroll 1
        for (uint32_t t = 0; t < tiles || (STAGED && t == 0); t++, at += C * NT * U * 16) {
            if (t < inner_tiles)
                tb_load_inner_tile<C * NT, U>(at, v);
            else
                tb_load_tile<dtype, C * NT, U>(STAGED ? slice : s.slice, rank * NT + t * (C * NT * U), v);
            if (STAGED && t == 0) { /* while the loads fly */
                if (warp == WARPS - 1) tb_fast_parse(params, row, located, slot, &s.chain);
                if (warp == WARPS - 2 && lane == 0) s.random = tb_fast_random(call, row, slot);
            }
            float m = tb_tile_max<dtype, U>(v);
            if (law_isnan(m)) {
                tb_drop_nan<dtype, U>(v);
                status |= TOMBOLA_ROW_NAN;
                m = tb_tile_max<dtype, U>(v);
            }
            group = fmaxf(group, m);
            if (((t + 1) & ((1u << group_shift) - 1)) == 0 || t + 1 >= tiles) {
                s.group[(t >> group_shift) * NT + tid] = group;
                top = fmaxf(top, group);
                group = -LAW_INF;
            }
            if (STAGED)
#pragma unroll
                for (int j = 0; j < U; j++) stage[(t * U + j) * NT + tid] = v[j];
            if (sums) {
                float r = tb_reference_exponent(m, c), both = fmaxf(reference, r),
                      tile = tb_tile_sum<dtype, U>(v, c, r);
                sum = sum * (double)tb_power(reference - both) + (double)(tile * tb_power(r - both));
                reference = both;
            }
        }

        /* ---- what every block learns of every warp ---- */
        uint32_t key = tb_warp_max(law_key(top));
        status = tb_warp_or(status);
        uint64_t fixed = 0;
        if (sums) {
            float most = tb_reference_exponent(law_key_value(key), c);
            fixed = tb_warp_sum64((uint64_t)(sum * (double)tb_power(reference - most) * 0x1p40));
        }
        float fold = top;
#pragma unroll
        for (int d = 1; d < FOLD_LANES; d *= 2) fold = fmaxf(fold, __shfl_xor_sync(TB_WHOLE_WARP, fold, d));
        int target = lane / WARP_FOLDS, which = lane % WARP_FOLDS;
        float value = __shfl_sync(TB_WHOLE_WARP, fold, which * FOLD_LANES);
        uint32_t id = (rank * WARPS + warp) * WARP_FOLDS + which,
                 said = (law_key(value) & ~(uint32_t)(FOLDS - 1)) | id;
        uint4 word = make_uint4(key, status, (uint32_t)fixed, (uint32_t)(fixed >> 32));
        if (C == 1) {
            if (target == 0) s.fold[id] = said;
            if (lane == 0) *(uint4 *)&s.warp[warp] = word;
            __syncthreads();
        } else {
            tb_cluster_wait<C>();
            if (target < C) tb_mail_4(&s.fold[id], target, said, &s.mail_first);
            if (lane < C) tb_mail_16(&s.warp[rank * WARPS + warp], lane, word, &s.mail_first);
            __syncwarp();
            if (tid == 0)
                tb_mail_expect(&s.mail_first, S::ROW_WARPS * 16 + FOLDS * 4);
            else if (lane == 0)
                tb_mail_arrive(&s.mail_first);
        }
        if (tid >= TB_FINISHERS) return;
        if (C > 1) tb_mail_wait(&s.mail_first);
    }

    const tb_fast_slice &slice = s.slice; /* read where it is used: registers are few */
    const tb_fast_chain &chain = s.chain;
    const uint32_t length = slice.length;
    uint32_t *left = (uint32_t *)params.workspace + row;
    uint32_t greatest = 0, status = 0;
#pragma unroll 1
    for (int i = lane; i < S::ROW_WARPS; i += 32) {
        greatest = max(greatest, s.warp[i].key);
        status |= s.warp[i].status;
    }
    greatest = tb_warp_max(greatest);
    status = tb_warp_or(status);
    const float maximum = law_key_value(greatest);
    const float c = chain.scale;
    const bool leader = rank == 0;
    if (chain.bad || greatest < TB_KEY_LEAST_LOGIT) {
        if (leader)
            tb_fast_write_void(call, row, chain.bad ? TOMBOLA_ROW_BAD_PARAM : status | TOMBOLA_ROW_EMPTY,
                               TB_FINISHERS);
        if (leader && tid == 0) *left = TB_ROW_DONE;
        return;
    }
    const bool by_index = call.ties == TOMBOLA_TIES_INDEX, greedy = chain.greedy, flat = chain.flat;
    const int32_t n_all = (int32_t)length;
    const int32_t k_before = chain.k_before < n_all ? chain.k_before : TB_OFF;
    const int32_t k_after = chain.k_after < n_all ? chain.k_after : TB_OFF;
    const bool p_whole = chain.p_on && k_before == TB_OFF && chain.w_before == 0;
    /* the k and the least weight that may bound the candidates */
    const bool before_only = chain.p_on && !p_whole;
    const int32_t k = before_only ? k_before : min(k_before, k_after);
    const uint64_t w = before_only                      ? chain.w_before
                       : chain.w_before > chain.w_after ? chain.w_before
                                                        : chain.w_after;
    int group_shift;
    const uint32_t tiles = tb_slice_tiles<C, NT, U>(slice, &group_shift);
    /* do all of the row's elements fit the lists */
    const bool all =
        tiles * (uint32_t)(NT * U * width) <= (uint32_t)S::SEGMENT || length + width <= (C == 1 ? CAP : 0);
    const bool can = greedy || all ||
                     ((k != TB_OFF || w || p_whole) && !(flat && (k == TB_OFF || p_whole)) &&
                      !(p_whole && !(fabsf(maximum * c) < 0x1p20f)));
    if (greatest == TB_KEY_POS_INF || !can) {
        if (leader && tid == 0) *left = TB_ROW_LEFT;
        return;
    }
    const bool needs_estimate = p_whole && !all && !greedy;
    const int maxima = (int)((tiles + (1u << group_shift) - 1) >> group_shift) * NT;

    float bound = TB_LEAST, bound_w = TB_LEAST;
    if (warp == TB_SEEKERS / 32) {
        if (!leader) return;
        if (needs_estimate) {
            double unit, relative = tb_estimate(s, maximum, c, &unit);
            double estimate = relative * unit, error = tb_interval((float)length, estimate);
            double least = estimate * (1.0 - error) - (double)length - 1024.0;
            uint64_t low = least > 1.0 ? (uint64_t)least : 1,
                     high = (uint64_t)(estimate * (1.0 + error)) + 1024;
            uint64_t target = law_top_p_target(chain.p, lane & 1 ? high : low); /* both ends at once */
            if (lane == 0) s.target_low = target, s.relative = relative, s.unit = unit;
            if (lane == 1) s.target_high = target;
        }
    } else {
        /* ---- the bound ---- */
        if (greedy) {
            bound = maximum;
        } else if (!all) {
            if (w && !flat) bound_w = tb_least_value(maximum, c, (float)w);
            bound = bound_w;
            if (k <= FOLD_K) {
                uint32_t mine = s.fold[tid % FOLDS], greater = 0, greater2 = 0, greater3 = 0, greater4 = 0;
                const uint4 *fold = (const uint4 *)s.fold;
#pragma unroll 8
                for (int i = 0; i < FOLDS / 4; i++) {
                    uint4 other = fold[i];
                    greater += other.x > mine;
                    greater2 += other.y > mine;
                    greater3 += other.z > mine;
                    greater4 += other.w > mine;
                }
                greater += greater2 + greater3 + greater4;
                mine &= ~(uint32_t)(FOLDS - 1);
                if ((int32_t)greater == k - 1 && mine >= TB_KEY_LEAST_LOGIT) s.bound = law_key_value(mine);
                tb_seek_barrier();
                bound = fmaxf(s.bound, bound_w);
            } else if (k != TB_OFF || p_whole) {
                float least, wanted = LAW_INF;
                if (p_whole) {
                    double unit, relative = tb_estimate(s, maximum, c, &unit);
                    float estimate = (float)(relative * unit);
                    /* all tokens of less weight than (1 - p) * Z / n weigh less than (1 - p) * Z together */
                    float share = (1.0f - fmaxf(chain.p, 0.0f)) * estimate / (float)length;
                    least = tb_least_value(maximum, c, fmaxf(share, 1.0f));
                    wanted = estimate * 0x1p-40f * chain.p * 1.01f;
                } else {
                    uint32_t lowest = TB_KEY_POS_INF;
                    for (int i = lane; i < FOLDS; i += 32)
                        if (s.fold[i] >= TB_KEY_LEAST_LOGIT + FOLDS) lowest = min(lowest, s.fold[i]);
                    lowest = tb_warp_min(lowest) & ~(uint32_t)(FOLDS - 1);
                    least = lowest >= TB_KEY_LEAST_LOGIT && lowest < TB_KEY_POS_INF ? law_key_value(lowest)
                                                                                    : maximum;
                    if (k > 300) least -= (maximum - least) * 0.6f;
                }
                least = fmaxf(fmaxf(least, TB_LEAST), bound_w);
                bound = tb_bound_by_histogram<C, NT, S>(maximum, least, c, maxima, k, wanted);
                if (bound == -LAW_INF) bound = bound_w > TB_LEAST ? bound_w : least;
            }
        }

        /* ---- the groups that hold candidates, and the candidates, to the leader ---- */
#pragma unroll 2
        for (int i = tid; i < maxima / 4; i += TB_SEEKERS) {
            float4 m = ((const float4 *)s.group)[i];
            uint32_t passes = (m.x >= bound ? 1u : 0u) | (m.y >= bound ? 2u : 0u) | (m.z >= bound ? 4u : 0u) |
                              (m.w >= bound ? 8u : 0u);
            if (!passes) continue;
            uint32_t to = atomicAdd(&s.list_length, (uint32_t)__popc(passes));
            for (; passes; passes &= passes - 1, to++)
                if (to < S::LIST) s.list[to] = i * 4 + __ffs(passes) - 1;
        }
        tb_seek_barrier();
        const bool long_list = s.list_length > (uint32_t)S::LIST;
        const int listed_groups = long_list ? greedy ? maxima : 0 : (int)s.list_length;
        {
            constexpr int BATCH = 8 / width;
            constexpr uint32_t none = tb_minus_infinity<dtype>();
            const int items = (listed_groups << group_shift) * U;
#pragma unroll 1
            for (int i0 = tid; i0 < items; i0 += TB_SEEKERS * BATCH) {
                uint4 v[BATCH];
                uint32_t first[BATCH], passes = 0; /* index of a vector's first element */
#pragma unroll
                for (int b = 0; b < BATCH; b++) {
                    int i = i0 + b * TB_SEEKERS, at = i / U >> group_shift;
                    uint32_t id = long_list ? (uint32_t)at : s.list[min(at, S::LIST - 1)], column = id % NT;
                    uint32_t t = ((id / NT) << group_shift) + ((uint32_t)(i / U) & ((1u << group_shift) - 1));
                    uint32_t vector = (t * U + (uint32_t)(i % U)) * (C * NT) + rank * NT + column;
                    bool valid = i < items && t < tiles && vector < slice.end;
                    v[b] = make_uint4(none, none, none, none);
                    first[b] = vector * width - slice.shift;
                    if (STAGED) {
                        if (valid) v[b] = stage[(t * U + i % U) * NT + column];
                    } else if (valid && vector >= slice.whole_first && vector < slice.whole_end) {
                        v[b] = tb_load_stream(slice.base + (size_t)vector * 16);
                    } else if (valid) {
                        v[b] = tb_load_edge<dtype>(slice.base + (size_t)vector * 16, first[b], length);
                    }
                }
#pragma unroll
                for (int b = 0; b < BATCH; b++)
#pragma unroll
                    for (int e = 0; e < width; e++)
                        passes |= tb_element<dtype>(v[b], e) >= bound ? 1u << (b * width + e) : 0u;
                if (!passes) continue;
                uint32_t to = atomicAdd(&s.own_pushed, (uint32_t)__popc(passes));
                if (greedy) {
#pragma unroll
                    for (int b = 0; b < BATCH; b++)
                        if (passes >> (b * width) & ((1u << width) - 1))
                            atomicMin(&s.own_first,
                                      first[b] + __ffs(passes >> (b * width) & ((1u << width) - 1)) - 1);
                    continue;
                }
#pragma unroll
                for (int b = 0; b < BATCH; b++)
#pragma unroll
                    for (int e = 0; e < width; e++) {
                        uint32_t here = passes >> (b * width + e) & 1u,
                                 bits = law_bits(tb_element<dtype>(v[b], e));
                        tb_push<C>(&s.raw[rank * S::SEGMENT + to], here && to < (uint32_t)S::SEGMENT, bits,
                                   first[b] + e, &s.mail_second);
                        to += here;
                    }
            }
        }
        tb_seek_barrier();
        if (C > 1 && tid == 0) {
            uint32_t sent = greedy ? 0u : min(s.own_pushed, (uint32_t)S::SEGMENT);
            tb_mail_expect_at(&s.mail_second, 0, sent * 8 + 8);
            tb_mail_8(&s.pushed[rank], 0, long_list && !greedy ? 0xffffu : s.own_pushed, s.own_first,
                      &s.mail_second);
        }
        if (!leader) {
            tb_mail_wait(&s.mail_verdict);
            if (s.verdict) tb_narrow<dtype, C, NT, U, STAGED, S>(stage, maximum);
            return;
        }
        if (tid == 0) s.bound_final = bound, s.bound_w = bound_w, s.long_list = long_list;
    }

    /* ---- the leader resolves ---- */
    tb_finish_barrier();
    if (C > 1) tb_mail_wait(&s.mail_second);
    bound = s.bound_final;
    bound_w = s.bound_w;
    /* the other blocks need not wait unless the interval must be narrowed */
    auto tell = [&](uint32_t verdict) {
        if (C > 1 && tid > 0 && tid < C) tb_mail_4(&s.verdict, tid, verdict, &s.mail_verdict);
    };
    uint32_t pushed = lane < C ? C == 1 ? s.own_pushed : s.pushed[lane].x : 0u;
    uint32_t first = lane < C ? C == 1 ? s.own_first : s.pushed[lane].y : 0xffffffffu;
    bool overflow =
        __any_sync(TB_WHOLE_WARP, pushed > (uint32_t)S::SEGMENT) || (C == 1 && s.long_list && !greedy);
    const uint32_t pushed_end = C == 1 ? pushed : tb_warp_scan(min(pushed, CAP + 1u));
    const int n = (int)__shfl_sync(TB_WHOLE_WARP, pushed_end, C - 1);
    overflow |= n > CAP;
    if (greedy || overflow) {
        tell(0);
        if (greedy) {
            first = tb_warp_min(first);
            tb_fast_result result = {(int32_t)first, 1,    C == 1 ? n : (int)tb_warp_sum(pushed),
                                     status,         0.0f, LAW_ONE};
            if (tid == 0) tb_fast_write(call, row, result);
            if (call.kept_ids)
                for (int64_t i = tid; i < call.kept_capacity; i += TB_FINISHERS)
                    call.kept_ids[row * call.kept_capacity + i] = i ? -1 : (int32_t)first;
        }
        if (tid == 0) *left = greedy ? TB_ROW_DONE : TB_ROW_LEFT;
        return;
    }
    {
        uint32_t high = 0, low = 0, ends[C];
#pragma unroll
        for (int q = 0; q < C; q++) ends[q] = __shfl_sync(TB_WHOLE_WARP, pushed_end, q);
#pragma unroll 1
        for (int i = tid; i < n; i += TB_FINISHERS) {
            int r = 0, at = i;
#pragma unroll
            for (int q = 0; q + 1 < C; q++) {
                int end = (int)ends[q];
                if (i >= end) r = q + 1, at = i - end;
            }
            uint2 raw = s.raw[r * S::SEGMENT + at];
            float x = law_float(raw.x);
            uint64_t weight = flat ? LAW_ONE : law_weight(law_exponent(x, maximum, c));
            tb_fast_token token = {law_key(x), raw.y, (uint32_t)(weight >> 20), (uint32_t)weight & 0xfffffu};
            s.token[i] = token;
            high += token.high;
            low += token.low;
        }
        __syncwarp();
        tb_add_digits(&s.sum_high, &s.sum_low, high, low);
    }
    tb_finish_barrier();
    const uint64_t listed = tb_join(s.sum_high, s.sum_low); /* mass of the candidates */
    bool sufficient = bound == TB_LEAST || (k != TB_OFF && n >= k) || (w && bound <= bound_w && !flat);
    uint64_t target_low = ~(uint64_t)0, target_high = ~(uint64_t)0;
    if (p_whole) {
        if (bound == TB_LEAST ||
            (!flat && bound <= tb_least_value(maximum, c, 1.0f))) { /* all mass is listed */
            sufficient = true;
            target_low = target_high = law_top_p_target(chain.p, listed);
        } else {
            target_low = s.target_low;
            target_high = s.target_high;
        }
        sufficient |= listed >= target_high;
    }
    const uint32_t k_b = k_before == TB_OFF ? 0xffffffffu : (uint32_t)k_before;
    const uint32_t k_a = k_after == TB_OFF ? 0xffffffffu : (uint32_t)k_after;
    const bool many = n > TB_PAIRS;
    bool narrowed = false, undecided = !sufficient;
    uint64_t cut = 0, mass = 0;
    int kept = 0;
#pragma unroll 1
    while (!undecided) {
        if (!many) {
            tb_fast_token mine;
            int which;
            uint32_t greater;
            uint64_t above;
            bool has = tb_rank_pairs(s.token, n, by_index, &mine, &which, &greater, &above);
            uint64_t weight = tb_join(mine.high, mine.low);
            bool in_before = has && greater < k_b && weight >= chain.w_before;
            if (before_only) {
                bool counts = in_before && which == 0;
                tb_add_digits(&s.before_high, &s.before_low, counts ? mine.high : 0u, counts ? mine.low : 0u);
                tb_finish_barrier();
                target_low = target_high = law_top_p_target(chain.p, tb_join(s.before_high, s.before_low));
            }
            bool stays = in_before && greater < k_a && weight >= chain.w_after;
            if (stays && above >= target_low && above < target_high) s.ambiguous = 1;
            if (stays && above < target_low && which == 0) s.kept[atomicAdd(&s.kept_count, 1u)] = mine;
            tb_finish_barrier();
            kept = (int)s.kept_count;
            undecided = s.ambiguous;
        } else {
            uint32_t span = greatest - law_key(bound), k_both = min(k_b, k_a);
            uint64_t w_both = chain.w_before > chain.w_after ? chain.w_before : chain.w_after;
            if (before_only) {
                cut = tb_select_many<S>(n, greatest, span, by_index, k_b, chain.w_before, ~(uint64_t)0);
                tb_sum_many<S>(n, greatest, by_index, cut, chain.w_before);
                target_low = target_high = law_top_p_target(chain.p, tb_join(s.kept_high, s.kept_low));
            }
            cut = tb_select_many<S>(n, greatest, span, by_index, k_both, w_both, target_low);
            tb_sum_many<S>(n, greatest, by_index, cut, w_both);
            mass = tb_join(s.kept_high, s.kept_low);
            kept = (int)s.kept_count;
            undecided = target_low < target_high && mass >= target_low && mass < target_high &&
                        (uint32_t)kept < k_both;
        }
        if (!undecided || narrowed) break;
        /* the interval of p * Z holds the mass above some candidate: narrow it, once */
        narrowed = true;
        undecided = false;
        tb_finish_barrier();
        tell(1);
        if (tid == 0) s.kept_count = s.ambiguous = 0, s.base_mass = 0;
        tb_finish_barrier();
        if (warp < TB_SEEKERS / 32) tb_narrow<dtype, C, NT, U, STAGED, S>(stage, maximum);
        tb_finish_barrier();
        if (C > 1) tb_mail_wait(&s.mail_narrow);
        double taken = 0.0;
        uint64_t exact = 0;
#pragma unroll 1
        for (int r = 0; r < C; r++) {
            uint4 word = s.narrow[r];
            exact += (uint64_t)word.y << 32 | word.x;
            taken += __longlong_as_double((long long)((uint64_t)word.w << 32 | word.z));
        }
        double rest = fmax(0.0, s.relative - taken) * s.unit;
        double error = rest * tb_interval((float)length, rest) + s.relative * s.unit * 0x1p-50 + 2048.0;
        double least = rest - error - (double)length;
        uint64_t low = exact + (least > 0.0 ? (uint64_t)least : 0),
                 high = exact + (uint64_t)(rest + error) + 1;
        target_low = law_top_p_target(chain.p, low > listed ? low : listed);
        target_high = law_top_p_target(chain.p, high);
    }
    if (!narrowed) tell(0);
    if (tid == 0) *left = undecided ? TB_ROW_LEFT : TB_ROW_DONE;
    if (undecided) return;

    /* ---- the draw ---- */
    tb_fast_result result = {0, kept, 0, status, 0.0f, mass};
    if (!many) {
        int spread = kept <= TB_FINISHERS / 8   ? 3
                     : kept <= TB_FINISHERS / 4 ? 2
                     : kept <= TB_FINISHERS / 2 ? 1
                                                : 0;
        int i = tid >> spread, part = tid & ((1 << spread) - 1);
        if (((tid & ~31) >> spread) < kept) {
            tb_fast_token mine = s.kept[min(i, kept - 1)];
            uint32_t high = 0, low = 0, all_high = 0, all_low = 0, place = 0;
#pragma unroll 4
            for (int j = part; j < kept; j += 1 << spread) {
                tb_fast_token other = s.kept[j];
                bool before = other.index < mine.index;
                all_high += other.high;
                all_low += other.low;
                place += before ? 1u : 0u;
                high += before ? other.high : 0u;
                low += before ? other.low : 0u;
            }
            for (int d = 1; d < 1 << spread; d *= 2) {
                high += __shfl_xor_sync(TB_WHOLE_WARP, high, d);
                low += __shfl_xor_sync(TB_WHOLE_WARP, low, d);
                all_high += __shfl_xor_sync(TB_WHOLE_WARP, all_high, d);
                all_low += __shfl_xor_sync(TB_WHOLE_WARP, all_low, d);
                place += __shfl_xor_sync(TB_WHOLE_WARP, place, d);
            }
            if (i < kept && part == 0) {
                result.mass = tb_join(all_high, all_low);
                uint64_t before = tb_join(high, low), position = law_draw_position(s.random, result.mass);
                if (before <= position && position - before < tb_join(mine.high, mine.low)) {
                    result.token = (int32_t)mine.index;
                    if (!flat) result.t = law_exponent(law_key_value(mine.key), maximum, c);
                    if (call.ranks)
                        for (int j = 0; j < n; j++) result.rank += s.token[j].key >= mine.key;
                    tb_fast_write(call, row, result);
                }
                if (call.kept_ids && place < call.kept_capacity)
                    call.kept_ids[row * call.kept_capacity + place] = (int32_t)mine.index;
            }
        }
        if (call.kept_ids)
            for (int64_t j = kept + tid; j < call.kept_capacity; j += TB_FINISHERS)
                call.kept_ids[row * call.kept_capacity + j] = -1;
    } else {
        uint64_t w_both = chain.w_before > chain.w_after ? chain.w_before : chain.w_after;
        tb_fast_drawn drawn =
            tb_draw_many<S>(n, greatest, by_index, cut, w_both, law_draw_position(s.random, mass), length);
        result.token = drawn.index;
        if (call.ranks) {
            if (drawn.mine) s.bin = drawn.key, s.base_count = 0;
            tb_finish_barrier();
            uint32_t key = s.bin, found = 0;
            for (int i = tid; i < n; i += TB_FINISHERS) found += s.token[i].key >= key;
            __syncwarp();
            found = tb_warp_sum(found);
            if (lane == 0) atomicAdd(&s.base_count, found);
            tb_finish_barrier();
            result.rank = (int32_t)s.base_count;
        }
        if (drawn.mine) {
            if (!flat) result.t = law_exponent(law_key_value(drawn.key), maximum, c);
            tb_fast_write(call, row, result);
        }
        if (call.kept_ids) tb_write_ids_many<S>(call, row, n, greatest, by_index, cut, w_both, kept);
    }
}

#endif
