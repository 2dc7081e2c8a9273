/*
 * Weights (law, section 3): from a value of the row to the 64-bit integer mass of its token.
 */
#ifndef TB_LAW_WEIGHT_H
#define TB_LAW_WEIGHT_H

#include "base.h"

#define LAW_LOG2E 0x1.715476p+0f
#define LAW_ONE ((uint64_t)1 << 40) /* the weight of the row's maximum */
#define LAW_ONE_F 0x1p40f
#define LAW_T_MIN (-64.0f) /* below it the weight is 0: 2^40 * 2^-64 is far under 1 */

/* Least squares in the relative error of 2^f over [-1/2, 1/2] (relative error 2^-22.2), with the
 * constant term fixed at 1 so that W(0) = 2^40. Enumerated over every f32: docs/law.md. */
#define LAW_C1 0x1.62e42ap-1f
#define LAW_C2 0x1.ebf9bcp-3f
#define LAW_C3 0x1.c6b752p-5f
#define LAW_C4 0x1.3cea88p-7f
#define LAW_C5 0x1.5bba14p-10f

/* What a temperature does to a row. */
typedef enum law_temper_mode {
    LAW_SCALED, /* t = (x - m) * scale */
    LAW_FLAT,   /* T = +inf, or +inf entries: t = 0 for all of K0 */
    LAW_GREEDY, /* T = 0, or so small that the scale is infinite: the greatest token alone, t = 0 */
    LAW_REFUSED /* T < 0 or NaN */
} law_temper_mode;

typedef struct law_temper {
    law_temper_mode mode;
    float scale;
} law_temper;

LAW_FN law_temper law_temperature(float temperature)
{
    law_temper temper = {LAW_SCALED, 0.0f};
    if (!(temperature >= 0.0f)) {
        temper.mode = LAW_REFUSED;
        return temper;
    }
    if (temperature == LAW_INF) {
        temper.mode = LAW_FLAT;
        return temper;
    }
#ifdef __CUDA_ARCH__
    temper.scale = __fdiv_rn(LAW_LOG2E, temperature);
#else
    temper.scale = LAW_LOG2E / temperature;
#endif
    if (law_bits(temper.scale) << 1 == 0xff000000u) temper.mode = LAW_GREEDY;
    return temper;
}

/* t: the exponent of two of a token's weight. Two roundings, never fused. */
LAW_FN float law_exponent(float x, float maximum, float scale)
{
    float difference = x - maximum;
    return difference * scale;
}

/* q * 2^n = E(t) for -64 <= t <= 0. The rounding of f to multiples of 2^-23 makes W monotone:
 * without it 83588 neighbouring pairs of t are out of order. */
LAW_FN float law_exp2(float t)
{
    float n = rintf(t);
    float f = t - n;
    f = (f + 1.5f) - 1.5f;
    float q = LAW_C5;
    q = law_fmaf(q, f, LAW_C4);
    q = law_fmaf(q, f, LAW_C3);
    q = law_fmaf(q, f, LAW_C2);
    q = law_fmaf(q, f, LAW_C1);
    q = law_fmaf(q, f, 1.0f);
    return q * law_float((uint32_t)((int32_t)n + 127) << 23);
}

/* W(t). */
LAW_FN uint64_t law_weight(float t)
{
    if (!(t >= LAW_T_MIN)) return 0;
    return (uint64_t)(law_exp2(t) * LAW_ONE_F);
}

/* E(t), 0 wherever W(t) is 0. */
LAW_FN float law_relative(float t)
{
    if (!(t >= LAW_T_MIN)) return 0.0f;
    float e = law_exp2(t);
    return e * LAW_ONE_F >= 1.0f ? e : 0.0f;
}

/* floor(log2(maximum)) of a positive finite f32, subnormals included. */
LAW_FN int32_t law_floor_log2(float maximum)
{
    uint32_t bits = law_bits(maximum);
    if (bits >> 23) return (int32_t)(bits >> 23) - 127;
    int32_t e = -150; /* the value of a subnormal is its bits * 2^-149 */
    while (bits) bits >>= 1, e++;
    return e;
}

/* The weight of a probability x > 0: floor(x * 2^(40 - e)), e = floor(log2(maximum)). Exact: the
 * binary64 product neither rounds nor leaves the range of normal numbers. */
LAW_FN uint64_t law_probability_weight(float x, int32_t e)
{
    double power = law_double((uint64_t)(40 - e + 1023) << 52);
    return (uint64_t)((double)x * power);
}

#endif
