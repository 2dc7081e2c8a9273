/*
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011)
 * and the draw (law, section 5).
 */
#ifndef TB_LAW_PHILOX_H
#define TB_LAW_PHILOX_H

#include "base.h"

typedef struct law_philox_block {
    uint32_t word[4];
} law_philox_block;

LAW_FN law_philox_block law_philox(uint32_t key0, uint32_t key1, law_philox_block counter)
{
    uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xd2511f53u * c0, b = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ key0;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ key1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    law_philox_block block = {{c0, c1, c2, c3}};
    return block;
}

typedef enum law_purpose {
    LAW_PURPOSE_DRAW = 0,
    LAW_PURPOSE_REJECTION = 1,
    LAW_PURPOSE_ACCEPTANCE = 2,
    LAW_PURPOSE_RESIDUAL = 3,
    LAW_PURPOSE_BONUS = 4
} law_purpose;

/* 64 uniform bits: key = seed, counter = (offset, stream, purpose | draw | round). */
LAW_FN uint64_t law_random(uint64_t seed, uint64_t offset, uint32_t stream, uint32_t purpose, uint32_t draw,
                           uint32_t round)
{
    law_philox_block counter = {
        {(uint32_t)offset, (uint32_t)(offset >> 32), stream, purpose << 28 | draw << 16 | (round & 0xffffu)}};
    law_philox_block out = law_philox((uint32_t)seed, (uint32_t)(seed >> 32), counter);
    return (uint64_t)out.word[1] << 32 | out.word[0];
}

/* u = floor(r * mass / 2^64): the drawn token is the first whose inclusive prefix mass exceeds u. */
LAW_FN uint64_t law_draw_position(uint64_t random, uint64_t mass)
{
    return law_mulhi64(random, mass);
}

#endif
