/*
 * Widening to f32 (law, section 1): exact for both 16-bit formats.
 */
#ifndef TB_LAW_CONVERT_H
#define TB_LAW_CONVERT_H

#include "base.h"

LAW_FN float law_bf16_value(uint16_t bits)
{
    return law_float((uint32_t)bits << 16);
}

LAW_FN float law_f16_value(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1fu, fraction = bits & 0x3ffu;
    if (exponent == 0) { /* zero or subnormal: fraction * 2^-24 */
        float magnitude = (float)fraction * 0x1p-24f;
        return law_float(sign | law_bits(magnitude));
    }
    if (exponent == 31) return law_float(sign | 0x7f800000u | fraction << 13);
    return law_float(sign | (exponent + 112) << 23 | fraction << 13);
}

#endif
