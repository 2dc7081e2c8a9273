/*
 * The interval of the law's mass Z around the f32 estimate of it in the streaming kernel: the bounds that
 * make sums of floats proofs (docs/gpu.md).
 */
#ifndef TB_CUDA_FAST_INTERVAL_CUH
#define TB_CUDA_FAST_INTERVAL_CUH

#include "fast_shared.cuh"

/* Let tau_i = (x_i - m) * s exactly, y = sum of 2^tau_i, Z the law's mass, S = 2^40 * (the f32 estimate of
 * y). All relative errors below are of one token's term, and all terms are positive.
 * - the law's t_i differs from tau_i by two roundings: 2^-23 * |tau_i|, so ln2 * 2^-23 * |tau_i| in the term
 * - its polynomial: 2^-22; its floor: at most 1 unit of 2^-40, downwards
 * - the stream's argument a_i = fl(x_i * c - r), r an integer, |a_i| <= |tau_i| + 1: at most
 *   ln2 * 2^-24 * (|tau_i| + 1)
 * - ex2.approx: 2^-22; the tree: 5 * 2^-24; powers of two: exact
 * - sums in binary64, and the last factor 2^(r - m * c), tb_reference_factor: below 2^-30
 * Together (3.43 + 0.52 * E|tau|) * 2^-22, with E the mean under the weights 2^tau, and -n units. 1.02 covers
 * the second order; terms that a flush to zero drops are below 2^-100. */
TB_DEV double tb_interval(float mean)
{
    return (double)(1.02f * 0x1p-22f * (3.43f + 0.52f * mean));
}

/* E|tau| of n tokens, whose sum is `estimate`, is at most log2(n / y), by Gibbs' inequality: log2(y) + E|tau|
 * is the entropy of their distribution. */
TB_DEV float tb_mean_exponent(float n, double estimate)
{
    return fmaxf(0.0f, __log2f(n) + 40.0f - __log2f(fmaxf((float)estimate, 1.0f))) + 0.01f;
}

/* 2^(r - m * c), r the reference exponent of m, to 2^-31: y^9 / 9! is less for |y| <= 0.51 ln2. */
TB_DEV double tb_reference_factor(float m, float c, float r)
{
    const double y = ((double)r - (double)m * (double)c) * 0.69314718055994531;
    double q = 1.0 / 40320.0;
    q = fma(q, y, 1.0 / 5040.0);
    q = fma(q, y, 1.0 / 720.0);
    q = fma(q, y, 1.0 / 120.0);
    q = fma(q, y, 1.0 / 24.0);
    q = fma(q, y, 1.0 / 6.0);
    q = fma(q, y, 0.5);
    q = fma(q, y, 1.0);
    return fma(q, y, 1.0);
}

/* A bound for E|tau| (tb_interval) where few tokens have most of the mass y, in weights of the maximum: the
 * folds' maxima count with what they weigh, and Gibbs' inequality is for the rest, of mass M: M log2(n / M),
 * for what weighs w has an exponent of at most -log2(w). Their weights may be some less, and their exponents
 * greater, than those of the tokens that they are rounded down from. By one warp. */
template <class S> TB_DEV float tb_mean_by_folds(S &s, float maximum, float c, float n, float y)
{
    const float4 v = ((const float4 *)s.fold)[tb_lane()];
    const float x[4] = {v.x, v.y, v.z, v.w};
    float mass = 0.0f, sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float least =
                        law_key_value(law_key(x[i]) & ~(S::FOLDS - 1u)), /* its number is in its last bits */
            tau = fminf((maximum - least) * c, 126.0f), w = 0.9999f * tb_ex2(-tau);
        mass += w;
        sum += w * tau;
    }
#pragma unroll
    for (int d = 16; d; d /= 2) {
        mass += __shfl_xor_sync(TB_WHOLE_WARP, mass, d);
        sum += __shfl_xor_sync(TB_WHOLE_WARP, sum, d);
    }
    const float rest = fmaxf(1.0001f * y - 0.9999f * mass, 0x1p-10f * y);
    return 1.001f * __fdividef(sum + rest * fmaxf(0.0f, __log2f(n) - __log2f(rest)), y) + 0.01f;
}

#endif
