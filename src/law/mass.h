/*
 * Exact comparisons of masses with fractions (law, section 4).
 */
#ifndef TB_LAW_MASS_H
#define TB_LAW_MASS_H

#include "base.h"

/* ceil(p * mass), p the rational number that the f32 is, 0 < p < 1, mass < 2^63. */
LAW_FN uint64_t law_ceil_fraction(float p, uint64_t mass)
{
    /* p = significand * 2^-shift, significand < 2^24, 24 <= shift <= 149 */
    uint32_t bits = law_bits(p), field = bits >> 23;
    uint64_t significand = field ? (bits & 0x7fffffu) | 0x800000u : bits;
    uint32_t shift = field ? 150 - field : 149;
    uint64_t low = significand * mass, high = law_mulhi64(significand, mass);
    uint64_t quotient, rest;
    if (shift >= 128) {
        quotient = 0, rest = low | high;
    } else if (shift > 64) {
        quotient = high >> (shift - 64), rest = low | (high << (128 - shift));
    } else if (shift == 64) {
        quotient = high, rest = low;
    } else {
        quotient = high << (64 - shift) | low >> shift, rest = low << (64 - shift);
    }
    return quotient + (rest != 0);
}

/* top_p: a token stays if the mass of the greater ones is less than this. Not called for p >= 1. */
LAW_FN uint64_t law_top_p_target(float p, uint64_t mass)
{
    return p > 0.0f ? law_ceil_fraction(p, mass) : (uint64_t)1;
}

/* min_p: a token stays if its weight is at least this. Not called for q <= 0. */
LAW_FN uint64_t law_min_p_weight(float q, uint64_t greatest)
{
    return q >= 1.0f ? greatest : law_ceil_fraction(q, greatest);
}

#endif
