/*
 * All weights, in an order and a hash that do not depend on how the work is shared out: t runs over every
 * f32 from -0 down to -64 and past it, in blocks; a block's hash is of its weights, the total's of the
 * blocks'.
 */
#ifndef TEST_LAW_WEIGHTS_H
#define TEST_LAW_WEIGHTS_H

#include "law/weight.h"

#define FIRST_BITS 0x80000000u /* -0 */
#define LAST_BITS 0xc2800000u  /* -64, the last t whose weight may not be 0 */
#define BLOCK (1u << 20)
#define BLOCKS ((LAST_BITS - FIRST_BITS) / BLOCK + 1)

static inline uint64_t hash_add(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/* Every `stride`-th t of a block. */
static inline uint64_t hash_block(uint32_t block, uint32_t stride)
{
    uint32_t start = FIRST_BITS + block * BLOCK;
    uint64_t hash = block;
    for (uint32_t i = 0; i < BLOCK; i += stride) hash = hash_add(hash, law_weight(law_float(start + i)));
    return hash;
}

#endif
