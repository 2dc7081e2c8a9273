/*
 * The entropy of a kept set in the fast kernels: an exact sum over its tokens (src/law/logprob.h).
 */
#ifndef TB_CUDA_FAST_ENTROPY_CUH
#define TB_CUDA_FAST_ENTROPY_CUH

#include "fast_parts.cuh"

/* A warp's sum in two words. A lane's low word is below 2^32, and all high words of a row together below
 * 2^50. */
TB_DEV law_entropy_sum tb_warp_entropy(const law_entropy_sum &mine)
{
    law_entropy_sum sum = {tb_warp_sum64(mine.low), tb_warp_sum64(mine.high)};
    sum.high += sum.low >> 32;
    sum.low &= 0xffffffffu;
    return sum;
}

/* By one warp: of the kept tokens among `count` in shared memory, of mass `mass`. read(i) gives token i's
 * value and weight, 0 where it is not kept. Where all weigh the same, of greatest exponent 0, `scale` is 0.
 */
template <class F>
TB_DEV void tb_write_entropy(const tombola_call &call, int64_t row, int count, float maximum, float scale,
                             uint64_t mass, F read)
{
    law_entropy_sum sum = {0, 0};
#pragma unroll 1
    for (int i = (int)tb_lane(); i < count && scale; i += 32) {
        uint64_t weight;
        const float x = read(i, &weight);
        if (weight) law_entropy_add(&sum, weight, law_entropy_factor(law_exponent(x, maximum, scale)));
    }
    __syncwarp();
    sum = tb_warp_entropy(sum);
    if (tb_lane() == 0) call.entropy[row] = law_entropy(sum, mass);
}

#endif
