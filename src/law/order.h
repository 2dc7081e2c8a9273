/*
 * Order (law, section 2): integer keys in the order of the values.
 */
#ifndef TB_LAW_ORDER_H
#define TB_LAW_ORDER_H

#include "base.h"

/* Order-preserving u32 of a value that is not NaN; -0 and +0 share a key. */
LAW_FN uint32_t law_key(float x)
{
    uint32_t bits = law_bits(x + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

LAW_FN float law_key_value(uint32_t key)
{
    return law_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

#define LAW_INDEX_BITS 22 /* vocab_size <= 2^22 */

/* (value, then the lower index first) as one integer: greater tokens have greater keys. */
LAW_FN uint64_t law_index_key(float x, uint32_t index)
{
    uint32_t last = (1u << LAW_INDEX_BITS) - 1;
    return (uint64_t)law_key(x) << LAW_INDEX_BITS | (last - index);
}

#endif
