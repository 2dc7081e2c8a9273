/*
 * Log-probabilities, probabilities and entropy (law, section 7), in binary64 with fixed operations.
 */
#ifndef TB_LAW_LOGPROB_H
#define TB_LAW_LOGPROB_H

#include "weight.h"

#define LAW_LN2 0x1.62e42fefa39efp-1

LAW_FN double law_fma(double a, double b, double c)
{
#ifdef __CUDA_ARCH__
    return __fma_rn(a, b, c);
#else
    return fma(a, b, c);
#endif
}

/*
 * log2(x), x = 0 or a positive normal number. With x = 2^e * m, m in [sqrt(1/2), sqrt 2), and
 * z = (m - 1) / (m + 1):  log2(m) = (2 / ln 2) * (z + z^3/3 + z^5/5 + ...), |z| <= 0.1716.
 * The coefficients are (2 / ln 2) / (2k + 1), rounded; the terms after k = 9 are below 2^-55 of the sum.
 */
LAW_FN double law_log2(double x)
{
    uint64_t bits = law_bits64(x);
    if (!bits) return -(double)LAW_INF;
    int32_t e = (int32_t)(bits >> 52) - 1023;
    double m = law_double((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
    if (m >= 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        e += 1;
    }
    double z = (m - 1.0) / (m + 1.0), y = z * z;
    double p = 0x1.3703c1f4d0ffep-3;
    p = law_fma(p, y, 0x1.5b9ac9b743f0dp-3);
    p = law_fma(p, y, 0x1.89f3b1694cffep-3);
    p = law_fma(p, y, 0x1.c68f568d31760p-3);
    p = law_fma(p, y, 0x1.0c9a84994022dp-2);
    p = law_fma(p, y, 0x1.484b13d7c02a9p-2);
    p = law_fma(p, y, 0x1.a61762a7aded9p-2);
    p = law_fma(p, y, 0x1.2776c50ef9bfep-1);
    p = law_fma(p, y, 0x1.ec709dc3a03fdp-1);
    p = law_fma(p, y, 0x1.71547652b82fep+1);
    return law_fma(z, p, (double)e);
}

/* Natural log-probability of a kept token with exponent t, the kept mass being `mass` > 0. */
LAW_FN float law_logprob(float t, uint64_t mass)
{
    double scaled = (double)mass * 0x1p-40;
    return (float)(((double)t - law_log2(scaled)) * LAW_LN2) + 0.0f;
}

/* The same for a probability source, from the weight. */
LAW_FN float law_probability_logprob(uint64_t weight, uint64_t mass)
{
    if (weight == 0) return -LAW_INF;
    return (float)(law_log2((double)weight / (double)mass) * LAW_LN2) + 0.0f;
}

/* Renormalised probability = E(t) * law_renorm_scale(mass), one rounding each. */
LAW_FN float law_renorm_scale(uint64_t mass)
{
    return (float)(0x1p40 / (double)mass);
}

/* For a probability source = (float)weight * law_probability_renorm_scale(mass). */
LAW_FN float law_probability_renorm_scale(uint64_t mass)
{
    return (float)(1.0 / (double)mass);
}

/*
 * Entropy. A token of weight w > 0 adds w * rint(-t * 2^20). Since 2^t * -t < 0.54, a term stays below
 * 2^60 and 2^22 of them below 2^82, so the sum is kept in two words.
 */
typedef struct law_entropy_sum {
    uint64_t low, high; /* the sum is high * 2^32 + low, low < 2^32 */
} law_entropy_sum;

LAW_FN uint32_t law_entropy_factor(float t)
{
    return (uint32_t)rintf(-t * 0x1p20f);
}

LAW_FN void law_entropy_add(law_entropy_sum *sum, uint64_t weight, uint32_t factor)
{
    sum->low += (weight & 0xffffffffu) * factor;
    sum->high += (weight >> 32) * factor + (sum->low >> 32);
    sum->low &= 0xffffffffu;
}

/* Correctly rounded (double)(high * 2^32 + low): bits that cannot reach the 53-bit significand are
 * folded into the lowest one (rounding to odd) before the one rounding. */
LAW_FN double law_entropy_double(law_entropy_sum sum)
{
    uint64_t high = sum.high;
    int32_t shift = 0;
    /* bring the 96-bit number below 2^64, remembering what falls off */
    uint64_t low = sum.low, lost = 0;
    while (high >> 32) {
        lost |= low & 1;
        low = low >> 1 | (high & 1) << 31;
        high >>= 1;
        shift++;
    }
    uint64_t value = high << 32 | low | (lost != 0);
    return (double)value * law_double((uint64_t)(1023 + shift) << 52);
}

LAW_FN float law_entropy(law_entropy_sum sum, uint64_t mass)
{
    double scaled = (double)mass;
    double mean = law_entropy_double(sum) / (scaled * 0x1p20);
    return (float)(LAW_LN2 * (law_log2(scaled * 0x1p-40) + mean));
}

#endif
