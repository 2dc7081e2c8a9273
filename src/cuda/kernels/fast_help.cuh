/*
 * What one warp does for the others of its block (fast_stream.cuh): it reads the chain, and where a block has
 * a warp more than read the row, this one sets up the mail and finds the bound.
 */
#ifndef TB_CUDA_FAST_HELP_CUH
#define TB_CUDA_FAST_HELP_CUH

#include "fast_bound.cuh"

/* By one warp: the row's chain and its random bits. */
template <class S>
TB_DEV void tb_describe(const tb_cuda_params &params, int64_t row, S &s, bool chain, bool random)
{
    int64_t start, count;
    const bool located = tb_fast_locate(params.call, row, &start, &count);
    const int64_t slot = tb_gpu_slot(params.call, row);
    if (chain) {
        tb_fast_parse_here(params, located, slot, &s.chain);
        __syncwarp();
        if (tb_lane() == 0) s.rule = tb_make_rule(s.chain, (uint32_t)count);
    }
    if (random && tb_lane() == 0) s.random = tb_fast_random(params.call, row, slot);
}

/* The row's greatest key, and its status bits, from what the warps or the blocks said. By each warp. */
template <class S> TB_DEV uint32_t tb_greatest(const S &s, uint32_t *status)
{
    uint32_t greatest = 0, bits = 0;
#pragma unroll 1
    for (int i = (int)tb_lane(); i < S::WORDS; i += 32) {
        const tb_fast_warp &said = S::ALONE ? s.warp[i] : s.word[i];
        greatest = max(greatest, said.key);
        bits |= said.status;
    }
    *status = tb_warp_or(bits);
    return tb_warp_max(greatest);
}

/* By one warp: the bound by the folds, and what follows from it. */
template <class S> TB_DEV void tb_tell_bound(S &s, float bound, float bound_w, float maximum, float c)
{
    s.bound = bound;
    s.bound_w = bound_w;
    s.value_bins = tb_value_bins(maximum, bound, c);
}

/* The least value of a min_p, or what all of K0 reach. */
TB_DEV float tb_least_of(uint64_t w, float maximum, float c)
{
    return w ? tb_least_value(maximum, c, (float)w) : TB_LEAST;
}

/* The warp more that a block has that keeps its share of the row: its other warps have no time for the mail's
 * setup and the chain while their only loads are under way, and while it finds the bound by the folds they
 * complete the sums. */
template <int C, class S> TB_DEV void tb_stream_help(const tb_cuda_params &params)
{
    S &s = *(S *)tb_fast_bytes;
    const int lane = (int)tb_lane();
    if (lane == 0) s.open();
    __syncwarp();
    tb_cluster_arrive_relaxed<C>();
    for (int i = lane; i < S::FOLDS; i += 32) s.fold_count()[i] = 0;
    tb_wait_for_inputs(params.part);
    tb_describe(params, blockIdx.x / C, s, true, true);
    __syncwarp(); /* its lanes read the rule that one wrote */
    tb_cluster_wait<C>();
    if (lane == 0) tb_tell(&s.told);
    __syncwarp();
    const tb_stream_rule rule = s.rule;
    if (rule.k <= TB_FOLD_K && !s.chain.greedy) {
        tb_told_wait(&s.told_folds);
        tb_mail_await(&s.mail_first);
        uint32_t status;
        const float maximum = law_key_value(tb_greatest(s, &status)), c = s.chain.scale,
                    bound_w = tb_least_of(rule.w, maximum, c),
                    bound = fmaxf(bound_w, tb_bound_by_folds(s, (uint32_t)rule.k));
        if (lane == 0) tb_tell_bound(s, bound, bound_w, maximum, c);
    }
    __syncwarp();
    /* In any case: the warp is done with what the block holds, which a row that is left overwrites. Its other
     * warps do not wait for this one's end by a barrier of all, which racecheck takes for a deadlock. */
    if (lane == 0) tb_tell(&s.told_bound);
}

#endif
