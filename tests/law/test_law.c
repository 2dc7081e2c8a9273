/*
 * The law's integer and bit functions, each against another way of computing the same: Philox and the draw,
 * fractions of masses, keys, widening, the emulated fma, what a temperature does, probability weights.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "law/convert.h"
#include "law/mass.h"
#include "law/order.h"
#include "law/philox.h"
#include "law/weight.h"
#include "random.h"

#define SAMPLES 2000000
#define LENGTH(a) (int)(sizeof(a) / sizeof *(a))

/* ---- Philox ---- */

/* The known answers that come with Random123 (kat_vectors, philox4x32-10). */
static void philox_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } KNOWN[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < LENGTH(KNOWN); i++) {
        law_philox_block counter;
        memcpy(counter.word, KNOWN[i].counter, sizeof counter.word);
        law_philox_block out = law_philox(KNOWN[i].key[0], KNOWN[i].key[1], counter);
        assert_memory_equal(out.word, KNOWN[i].out, sizeof out.word);
    }
}

/* Which word of the counter is which: the third known answer, spelled as a seed, an offset and a stream. */
static void random_words(void **state)
{
    (void)state;
    uint64_t r = law_random(0x299f31d0a4093822u, 0x85a308d3243f6a88u, 0x13198a2eu, 0, 0x370, 0x7344);
    assert_int_equal(r, 0x94fdccebd16cfe09u);
    for (uint32_t purpose = 0; purpose < 5; purpose++) {
        law_philox_block counter = {{5, 6, 7, purpose << 28 | 4095u << 16 | 65535u}};
        law_philox_block out = law_philox(3, 4, counter);
        uint64_t expected = (uint64_t)out.word[1] << 32 | out.word[0];
        assert_int_equal(law_random(0x400000003u, 0x600000005u, 7, purpose, 4095, 65535), expected);
        assert_int_equal(law_random(0x400000003u, 0x600000005u, 7, purpose, 4095, 65535 + 65536), expected);
    }
}

static void draw_position(void **state)
{
    (void)state;
    rng r = {1};
    assert_int_equal(law_draw_position(0, 1), 0);
    assert_int_equal(law_draw_position(UINT64_MAX, 1), 0);
    assert_int_equal(law_draw_position(UINT64_MAX, UINT64_MAX >> 1), (UINT64_MAX >> 1) - 1);
    for (int i = 0; i < SAMPLES; i++) {
        /* schoolbook, in 32-bit halves */
        uint64_t a = rng_next(&r) >> rng_below(&r, 64), b = rng_next(&r) >> (1 + rng_below(&r, 63));
        uint64_t low = (a & 0xffffffffu) * (b & 0xffffffffu),
                 middle = (a >> 32) * (b & 0xffffffffu) + (low >> 32);
        uint64_t other = (a & 0xffffffffu) * (b >> 32) + (middle & 0xffffffffu);
        assert_int_equal(law_draw_position(a, b), (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32));
    }
}

/* ---- fractions ---- */

/* ceil(p * mass): p * mass = significand * mass / 2^shift, halved bit by bit. */
static uint64_t slow_ceil(float p, uint64_t mass)
{
    int exponent;
    float fraction = frexpf(p, &exponent); /* p = fraction * 2^exponent, fraction in [1/2, 1) */
    unsigned __int128 n = (unsigned __int128)(uint64_t)ldexpf(fraction, 24) * mass;
    bool rest = false;
    for (int shift = 24 - exponent; shift > 0; shift--) {
        rest |= n & 1;
        n >>= 1;
    }
    return (uint64_t)n + rest;
}

static void ceil_fraction(void **state)
{
    (void)state;
    rng r = {2};
    const uint64_t ONE = (uint64_t)1 << 40, TOP = ((uint64_t)1 << 63) - 1;
    const float P[] = {0x1p-149f, 0x1p-126f,      0x1.fffffep-127f, 0x1p-64f,  0x1.8p-41f,
                       0x1p-40f,  0x1p-25f,       0x1p-24f,         0.25f,     0.5f,
                       0.9f,      0x1.fffffep-1f, 0x1.000002p-41f,  0x1p-104f, 0x1.fffffep-105f};
    const uint64_t MASS[] = {1, 2, 3, ONE - 1, ONE, ONE + 1, 10 * ONE, TOP / 2, TOP - 1, TOP};
    for (int i = 0; i < LENGTH(P); i++)
        for (int j = 0; j < LENGTH(MASS); j++)
            assert_int_equal(law_ceil_fraction(P[i], MASS[j]), slow_ceil(P[i], MASS[j]));
    for (int i = 0; i < SAMPLES; i++) {
        float p = law_float(1 + (uint32_t)rng_below(&r, 0x3f7fffff)); /* every positive f32 below 1 */
        if (rng_one_in(&r, 2)) p = (float)rng_uniform(&r) * 0x1.fffffep-1f;
        if (p <= 0) continue;
        uint64_t mass = rng_next(&r) >> (1 + rng_below(&r, 63));
        if (rng_one_in(&r, 4)) mass &= ~(uint64_t)0 << rng_below(&r, 63); /* so that p * mass may be whole */
        assert_int_equal(law_ceil_fraction(p, mass), slow_ceil(p, mass));
    }
    assert_int_equal(law_top_p_target(0.0f, ONE), 1);
    assert_int_equal(law_top_p_target(-1.0f, ONE), 1);
    assert_int_equal(law_top_p_target(-INFINITY, ONE), 1);
    assert_int_equal(law_top_p_target(0.5f, ONE), ONE / 2);
    assert_int_equal(law_min_p_weight(1.0f, ONE), ONE);
    assert_int_equal(law_min_p_weight(INFINITY, ONE), ONE);
    assert_int_equal(law_min_p_weight(0.25f, ONE), ONE / 4);
}

/* ---- order ---- */

static void check_pair(float a, float b)
{
    if (isnan(a) || isnan(b)) return;
    uint32_t x = law_key(a), y = law_key(b);
    assert_true((a < b) == (x < y) && (a == b) == (x == y));
    assert_true((a < b) == (law_index_key(a, 0) < law_index_key(b, 0)) || a == b);
    assert_true(law_key_value(x) == a);
}

static void keys(void **state)
{
    (void)state;
    rng r = {3};
    assert_int_equal(law_key(0.0f), law_key(-0.0f));
    assert_int_equal(law_index_key(0.0f, 3), law_index_key(-0.0f, 3));
    assert_true(law_index_key(1.0f, 3) > law_index_key(1.0f, 4));
    assert_true(law_index_key(1.0f, (1 << 22) - 1) > law_index_key(0x1.fffffep-1f, 0));
    for (int i = 0; i < SAMPLES; i++) {
        uint32_t bits = (uint32_t)rng_next(&r);
        check_pair(law_float(bits), law_float((uint32_t)rng_next(&r)));
        check_pair(law_float(bits), law_float(bits + 1));
        check_pair(law_float(bits), -law_float(bits));
    }
    const float SOME[] = {-INFINITY, -0x1.fffffep+127f, -1.0f, -0x1p-149f, -0.0f,
                          0.0f,      0x1p-149f,         1.0f,  INFINITY};
    for (int i = 0; i < LENGTH(SOME); i++)
        for (int j = 0; j < LENGTH(SOME); j++) check_pair(SOME[i], SOME[j]);
}

/* ---- widening ---- */

static void check_widened(float got, uint32_t sign, uint32_t exponent, uint32_t fraction, int fraction_bits,
                          int bias)
{
    uint32_t most = bias == 15 ? 31 : 255;
    if (exponent == most && fraction) {
        assert_true(isnan(got));
        return;
    }
    double magnitude = exponent == most ? INFINITY
                       : exponent       ? ldexp(1 + ldexp(fraction, -fraction_bits), (int)exponent - bias)
                                        : ldexp(fraction, 1 - bias - fraction_bits);
    assert_true(got == (float)(sign ? -magnitude : magnitude) && (signbit(got) != 0) == (sign != 0));
}

static void widening(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        check_widened(law_f16_value((uint16_t)bits), bits >> 15, bits >> 10 & 31, bits & 1023, 10, 15);
        check_widened(law_bf16_value((uint16_t)bits), bits >> 15, bits >> 7 & 255, bits & 127, 7, 127);
    }
}

/* ---- fma ---- */

static void check_fma(float a, float b, float c)
{
    float expected = fmaf(a, b, c), got = law_fmaf(a, b, c);
    if (law_bits(expected) == law_bits(got) || (isnan(expected) && isnan(got))) return;
    fail_msg("fma(%a, %a, %a) is %a, got %a", a, b, c, expected, got);
}

static float any_finite(rng *r)
{
    uint32_t bits = (uint32_t)rng_next(r);
    if ((bits & 0x7f800000u) == 0x7f800000u) bits &= 0xbfffffffu;
    return law_float(bits);
}

/* This file is built without -mfma: the emulation is what is tested. */
static void emulated_fma(void **state)
{
    (void)state;
    rng r = {4};
    for (int i = 0; i < SAMPLES; i++) {
        float a = any_finite(&r), b = any_finite(&r), c = any_finite(&r);
        check_fma(a, b, c);
        /* of the size of the polynomial's */
        float x = (float)rng_uniform(&r) * 2, f = (float)rng_uniform(&r) - 0.5f, y = (float)rng_uniform(&r);
        check_fma(x, f, y);
        /* cancellation, and sums next to a tie between two neighbours */
        check_fma(x, f, -x * f);
        check_fma(x, f, ldexpf(-x * f, (int)rng_below(&r, 60) - 30));
        float significand = law_float(0x3f800000u | (uint32_t)rng_below(&r, 1 << 23));
        check_fma(significand, 1.0f + 0x1p-23f, ldexpf(1.0f, (int)rng_below(&r, 60) - 50));
        check_fma(significand, 0x1p-24f * (1 + (float)rng_below(&r, 8)),
                  law_float(0x3f800000u | (uint32_t)rng_below(&r, 16)));
        check_fma(significand, -0x1p-25f, 1.0f);
        /* subnormal results, and the greatest ones */
        check_fma(ldexpf(x, -80), ldexpf(f, -60), ldexpf(y, -140));
        check_fma(ldexpf(x, -75), f * 0x1p-74f, 0.0f);
        check_fma(ldexpf(x, 64), ldexpf(f, 64), ldexpf(y, 127));
    }
}

/* ---- temperatures, probability weights ---- */

static void temperatures(void **state)
{
    (void)state;
    assert_int_equal(law_temperature(0.0f).mode, LAW_GREEDY);
    assert_int_equal(law_temperature(-0.0f).mode, LAW_GREEDY);
    assert_int_equal(law_temperature(0x1p-149f).mode, LAW_GREEDY);
    assert_int_equal(law_temperature(INFINITY).mode, LAW_FLAT);
    assert_int_equal(law_temperature(-INFINITY).mode, LAW_REFUSED);
    assert_int_equal(law_temperature(-0x1p-149f).mode, LAW_REFUSED);
    assert_int_equal(law_temperature(NAN).mode, LAW_REFUSED);
    assert_int_equal(law_temperature(0x1.fffffep+127f).mode, LAW_SCALED);
    assert_true(law_temperature(1.0f).scale == LAW_LOG2E);
    for (uint32_t bits = 1; bits < 0x7f800000u; bits += 4099) {
        law_temper temper = law_temperature(law_float(bits));
        float scale =
            (float)((double)LAW_LOG2E / law_float(bits)); /* binary64 division then rounding is innocuous */
        assert_int_equal(temper.mode, isinf(scale) ? LAW_GREEDY : LAW_SCALED);
        assert_true(temper.scale == scale);
    }
}

static void probability_weights(void **state)
{
    (void)state;
    rng r = {5};
    for (uint32_t bits = 1; bits < 0x7f800000u; bits = bits < 70 ? bits + 1 : bits + bits / 64)
        assert_int_equal(law_floor_log2(law_float(bits)), ilogbf(law_float(bits)));
    for (int i = 0; i < SAMPLES; i++) {
        float a = law_float((uint32_t)rng_below(&r, 0x7f800000)),
              b = law_float((uint32_t)rng_below(&r, 0x7f800000));
        if (rng_one_in(&r, 2)) b = a * (float)rng_uniform(&r);
        float greatest = a > b ? a : b, other = a > b ? b : a;
        if (!(other > 0)) continue;
        int e = ilogbf(greatest);
        uint64_t w = law_probability_weight(greatest, law_floor_log2(greatest));
        assert_true(w >> 40 == 1);
        assert_int_equal(law_probability_weight(other, e), (uint64_t)floorl(ldexpl(other, 40 - e)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(random_words),
        cmocka_unit_test(draw_position),
        cmocka_unit_test(ceil_fraction),
        cmocka_unit_test(keys),
        cmocka_unit_test(widening),
        cmocka_unit_test(emulated_fma),
        cmocka_unit_test(temperatures),
        cmocka_unit_test(probability_weights),
    };
    return cmocka_run_group_tests_name("law", tests, NULL, NULL);
}
