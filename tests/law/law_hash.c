/*
 * Prints hashes of what the law's functions return, to compare compilers, optimisation levels and machines:
 *     law_hash STRIDE
 * One line per function. W is taken at every STRIDE-th f32 (1 = all of them); the others on fixed samples.
 * tests/law/hashes.txt holds the right lines.
 */
#include <stdio.h>
#include <stdlib.h>

#include "law/convert.h"
#include "law/logprob.h"
#include "law/mass.h"
#include "law/order.h"
#include "law/philox.h"
#include "weights.h"

#define SAMPLES 200000

static uint64_t seed;

static uint64_t next(void)
{
    uint64_t z = seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Arguments of a function from random words: a t in (-64, 0], a positive normal double, a mass. */
static float a_t(uint64_t word)
{
    return law_float(FIRST_BITS + (uint32_t)(word % (LAST_BITS - FIRST_BITS)));
}

static double a_double(uint64_t word)
{
    return law_double((word >> 2) % 0x7fe0000000000000u + ((uint64_t)1 << 52));
}

static uint64_t a_mass(uint64_t word)
{
    return LAW_ONE + (word >> 20);
}

/* The bits of a result; all NaN are one. */
static uint64_t bits_of(float x)
{
    return law_isnan(x) ? LAW_NAN_BITS : law_bits(x);
}

static void weights(uint32_t stride)
{
    uint64_t hash = 0;
    for (uint32_t block = 0; block < BLOCKS; block++) hash = hash_add(hash, hash_block(block, stride));
    printf("W/%u %016llx\n", stride, (unsigned long long)hash);
}

/* The hash of `word`, which may use the random words a, b, c and the counter i. */
#define HASH(name, word)                                                                                     \
    do {                                                                                                     \
        uint64_t hash = 0;                                                                                   \
        seed = 1;                                                                                            \
        for (uint32_t i = 0; i < SAMPLES; i++) {                                                             \
            uint64_t a = next(), b = next(), c = next();                                                     \
            (void)a, (void)b, (void)c;                                                                       \
            hash = hash_add(hash, (word));                                                                   \
        }                                                                                                    \
        printf("%s %016llx\n", name, (unsigned long long)hash);                                              \
    } while (0)

static uint64_t one_temperature(float temperature)
{
    law_temper temper = law_temperature(temperature);
    return (uint64_t)temper.mode << 32 | law_bits(temper.scale);
}

static uint64_t one_entropy(uint64_t a, uint64_t b, uint64_t mass)
{
    law_entropy_sum sum = {0, 0};
    for (int i = 0; i < 5; i++) {
        float t = a_t(a += b);
        law_entropy_add(&sum, law_weight(t), law_entropy_factor(t));
    }
    return bits_of(law_entropy(sum, mass)) ^ law_bits64(law_entropy_double(sum));
}

/* a * b + c with c close to -a * b, so that much cancels. */
static uint64_t one_fma(uint64_t word)
{
    float a = law_float((uint32_t)word & 0xbfffffffu), b = law_float((uint32_t)(word >> 32) & 0xbfffffffu);
    return bits_of(law_fmaf(a, b, (float)(-(double)a * b * (1.0 + (double)(word % 16) * 0x1p-24))));
}

int main(int argc, char **argv)
{
    uint32_t stride = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 64;
    if (stride == 0 || stride > BLOCK) return 2;
    weights(stride);
    HASH("E", law_bits(law_relative(a_t(a))));
    HASH("fma", one_fma(a));
    HASH("log2", law_bits64(law_log2(a_double(a))));
    HASH("log2_near_1", law_bits64(law_log2(1.0 + ((double)(a >> 40) - 0x1p23) * 0x1p-44)));
    HASH("logprob", bits_of(law_logprob(a_t(a), a_mass(b))));
    HASH("probability_logprob", bits_of(law_probability_logprob(a >> 22, a_mass(b))));
    HASH("renormalised", bits_of(law_relative(a_t(a)) * law_renorm_scale(a_mass(b))));
    HASH("probability_scale", bits_of(law_probability_renorm_scale(1 + (a >> 2))));
    HASH("entropy", one_entropy(a, b, a_mass(c)));
    HASH("exponent",
         bits_of(law_exponent(law_float((uint32_t)a), law_float((uint32_t)b), law_float(c >> 33))));
    HASH("temperature", one_temperature(law_float(a >> 33)));
    HASH("probability_weight", law_probability_weight(law_float(a >> 34), 1));
    HASH("ceil_fraction", law_ceil_fraction(law_float(1 + (uint32_t)(a % 0x3f7fffffu)), b >> 1));
    HASH("key", law_index_key(law_float((uint32_t)a & 0xff7fffffu), i));
    HASH("f16", bits_of(law_f16_value((uint16_t)i)));
    HASH("bf16", bits_of(law_bf16_value((uint16_t)i)));
    HASH("random", law_random(a, b, (uint32_t)c, LAW_PURPOSE_REJECTION, i & 4095, i));
    return 0;
}
