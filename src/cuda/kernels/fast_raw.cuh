/*
 * What launches for raw log-probabilities write, in place of a draw: a flat kernel has found the mass of all
 * tokens.
 */
#ifndef TB_CUDA_FAST_RAW_CUH
#define TB_CUDA_FAST_RAW_CUH

#include "fast_parts.cuh"

/* By one warp: few greatest tokens, which another launch has found, are put in order. */
template <int dtype> TB_DEV void tb_order_top(int32_t *ids, int32_t count, const tb_fast_slice &slice)
{
    const int lane = (int)tb_lane();
    const int32_t id = lane < count ? ids[lane] : -1;
    uint64_t order = 31 - lane; /* of lanes without a token, which come last */
    int place = 0;
    if (id >= 0)
        order = (uint64_t)law_key(tb_fast_value<dtype>(slice, (uint32_t)id) + 0.0f) << 32 | (uint32_t)~id;
#pragma unroll
    for (int i = 0; i < 32; i++) place += __shfl_sync(TB_WHOLE_WARP, order, i) > order;
    if (lane < count) ids[place] = id;
    __syncwarp();
}

/* By one warp, in launches for raw log-probabilities: those of the token that another launch has drawn (none,
 * and then there are none at all, where the row is bad or empty), of the greatest tokens and of given ones.
 * All tokens together weigh `total`. */
template <int dtype>
static __device__ __noinline__ void tb_write_raw_logprobs(const tombola_call &call, int64_t index,
                                                          const tb_fast_slice &slice, float maximum,
                                                          float scale, uint64_t total)
{
    tb_wait_for_dependencies();
    const int32_t token = call.tokens[index];
    const bool infinite = maximum == LAW_INF;
    auto logprob = [&](int32_t id) {
        const float x = tb_fast_value<dtype>(slice, (uint32_t)id);
        if (!(x >= (infinite ? LAW_INF : TB_LEAST))) return -LAW_INF;
        return law_logprob(infinite ? 0.0f : law_exponent(x, maximum, scale), total);
    };
    const float none = law_float(LAW_NAN_BITS);
    if (call.raw_logprobs && tb_lane() == 0) call.raw_logprobs[index] = token < 0 ? none : logprob(token);
    if (call.top_logprobs && call.top_count <= TB_TOP_SET_MOST)
        tb_order_top<dtype>(call.top_ids + index * call.top_count, call.top_count, slice);
    if (call.top_logprobs)
        for (int64_t i = tb_lane(); i < call.top_count; i += 32) {
            const int32_t id = call.top_ids[index * call.top_count + i];
            call.top_logprobs[index * call.top_count + i] = token < 0 ? none
                                                            : id < 0  ? -LAW_INF
                                                                      : logprob(id);
        }
    if (call.given_raw_logprobs)
        for (int64_t i = tb_lane(); i < call.given_count; i += 32) {
            const int32_t id = call.given_ids[index * call.given_count + i];
            const bool inside = token >= 0 && id >= 0 && (uint32_t)id < slice.length;
            call.given_raw_logprobs[index * call.given_count + i] = inside ? logprob(id) : none;
        }
}

#endif
