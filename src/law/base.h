/*
 * What the law's headers share: the function qualifier that lets the same text compile as C11 and as
 * CUDA C, and the few operations whose spelling differs.
 *
 * The law is a sequence of IEEE operations. C must be built with -ffp-contract=off and CUDA with
 * -fmad=false (and without fast math), so that nothing is fused except where law_fmaf stands.
 */
#ifndef TB_LAW_BASE_H
#define TB_LAW_BASE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define LAW_FN static __host__ __device__ __forceinline__
#else
#include <math.h>
#include <string.h>
#define LAW_FN static inline
#endif

#if defined(__FAST_MATH__)
#error "the law needs IEEE arithmetic: build without -ffast-math"
#endif

#define LAW_INF __builtin_inff()
#define LAW_NAN_BITS 0x7fc00000u /* every NaN that is returned has these bits */

LAW_FN uint32_t law_bits(float x)
{
#ifdef __CUDA_ARCH__
    return __float_as_uint(x);
#else
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
#endif
}

LAW_FN float law_float(uint32_t bits)
{
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
#endif
}

LAW_FN uint64_t law_bits64(double x)
{
#ifdef __CUDA_ARCH__
    return (uint64_t)__double_as_longlong(x);
#else
    uint64_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
#endif
}

LAW_FN double law_double(uint64_t bits)
{
#ifdef __CUDA_ARCH__
    return __longlong_as_double((long long)bits);
#else
    double x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
#endif
}

LAW_FN bool law_isnan(float x)
{
    return (law_bits(x) & 0x7fffffffu) > 0x7f800000u;
}

/* Correctly rounded a * b + c. Without an instruction for it: the product of two 24-bit significands
 * is exact in binary64, and the sum, rounded to odd there, rounds correctly to binary32 afterwards
 * (53 >= 24 + 2 bits: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums"). */
LAW_FN float law_fmaf(float a, float b, float c)
{
#if defined(__CUDA_ARCH__)
    return __fmaf_rn(a, b, c);
#elif defined(__FMA__) || defined(__aarch64__)
    return __builtin_fmaf(a, b, c);
#else
    double product = (double)a * b, sum = product + c;
    double back = sum - product, error = (product - (sum - back)) + (c - back);
    uint64_t bits = law_bits64(sum);
    bool even = !(bits & 1), away = (error > 0) == (sum > 0);
    if (error != 0 && even) bits += away ? 1 : -1;
    return (float)law_double(bits);
#endif
}

/* High 64 bits of the product. */
LAW_FN uint64_t law_mulhi64(uint64_t a, uint64_t b)
{
#ifdef __CUDA_ARCH__
    return __umul64hi(a, b);
#else
    return (uint64_t)(((unsigned __int128)a * b) >> 64);
#endif
}

#endif
