/*
 * The law's binary64 functions (section 7): log2 against the C library's in 80 bits, the entropy's exact sum
 * and its rounding against 128-bit integers, the final values against plain real-number arithmetic.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>

#include "law/logprob.h"
#include "random.h"

#define SAMPLES 2000000

#if LDBL_MANT_DIG < 64
#error "these tests need a long double of 64 bits of precision"
#endif

static long double worst;

static void check_log2(double x)
{
    long double expected = log2l(x), error = fabsl((long double)law_log2(x) - expected);
    if (expected == 0) {
        assert_true(law_log2(x) == 0.0);
        return;
    }
    long double relative = error / fabsl(expected);
    if (relative > worst) worst = relative;
    if (relative > 0x1p-46L) fail_msg("log2(%a) is off by 2^%.1Lf of itself", x, log2l(relative));
}

static void log2_error(void **state)
{
    (void)state;
    rng r = {1};
    assert_true(law_log2(0.0) == -INFINITY);
    for (int e = -1022; e < 1024; e++) assert_true(law_log2(ldexp(1.0, e)) == e);
    for (int i = 0; i < SAMPLES; i++) {
        double m = 1.0 + rng_uniform(&r);
        check_log2(m);
        check_log2(0.5 * m);
        check_log2(ldexp(m, (int)rng_below(&r, 2000) - 1000));
        check_log2(1.0 + ldexp(rng_uniform(&r), -(int)rng_below(&r, 52))); /* near 1, on both sides */
        check_log2(1.0 - ldexp(rng_uniform(&r), -1 - (int)rng_below(&r, 52)));
        check_log2(0x1.6a09e667f3bcdp+0 *
                   (1.0 + ((double)rng_below(&r, 2001) - 1000) * 0x1p-52)); /* near sqrt 2 */
    }
    for (int i = 1; i < 100000; i++) {
        check_log2(1.0 + i * 0x1p-52);
        check_log2(1.0 - i * 0x1p-53);
    }
    printf("greatest relative error of log2: 2^%.2Lf\n", log2l(worst));
}

static void entropy_sum(void **state)
{
    (void)state;
    rng r = {2};
    for (int i = 0; i < 2000; i++) {
        law_entropy_sum sum = {0, 0};
        unsigned __int128 expected = 0;
        for (int64_t n = 1 + rng_below(&r, 3000); n > 0; n--) {
            float t = (float)(-rng_uniform(&r) * (rng_one_in(&r, 2) ? 1.0 : 40.0));
            uint64_t w = law_weight(t);
            uint32_t factor = law_entropy_factor(t);
            assert_int_equal(factor, (uint32_t)rint(-(double)t * 0x1p20));
            law_entropy_add(&sum, w, factor);
            expected += (unsigned __int128)w * factor;
        }
        assert_true(sum.low <= UINT32_MAX);
        assert_true(((unsigned __int128)sum.high << 32) + sum.low == expected);
    }
}

/* The compiler's conversion from 128 bits rounds to nearest even. */
static void check_rounding(unsigned __int128 value)
{
    law_entropy_sum sum = {(uint64_t)value & 0xffffffffu, (uint64_t)(value >> 32)};
    if (law_entropy_double(sum) != (double)value)
        fail_msg("%llx %08llx rounds to %a, not %a", (unsigned long long)sum.high,
                 (unsigned long long)sum.low, (double)value, law_entropy_double(sum));
}

static void entropy_rounding(void **state)
{
    (void)state;
    rng r = {3};
    check_rounding(0);
    for (int bits = 1; bits <= 96; bits++) {
        unsigned __int128 top = (unsigned __int128)1 << (bits - 1);
        for (int i = 0; i < 20000; i++) {
            unsigned __int128 value =
                top | (((unsigned __int128)rng_next(&r) << 64 | rng_next(&r)) & (top - 1));
            check_rounding(value);
            if (bits <= 54) continue;
            /* the tie between two doubles, and its neighbours, after an even and an odd significand */
            unsigned __int128 half = (unsigned __int128)1 << (bits - 54);
            value = value / (2 * half) * (2 * half) + half;
            check_rounding(value);
            check_rounding(value - 1);
            check_rounding(value + 1);
        }
        check_rounding(top - 1 + top);
    }
}

/* Off by no more than the rounding to f32 and what the definition's own roundings add. */
static void check_close(float got, long double expected, long double absolute)
{
    long double error = fabsl((long double)got - expected);
    if (error > fabsl(expected) * 0x1.01p-24L + absolute) fail_msg("%a is not %La", got, expected);
}

static void log_probabilities(void **state)
{
    (void)state;
    rng r = {4};
    for (int i = 0; i < SAMPLES / 4; i++) {
        uint64_t mass = LAW_ONE + (rng_next(&r) >> (2 + rng_below(&r, 40)));
        float t = (float)(-rng_uniform(&r) * 64.0);
        long double zd = (double)mass;
        check_close(law_logprob(t, mass), ((long double)t - log2l(zd * 0x1p-40L)) * M_LN2, 0x1p-40L);
        uint64_t w = (rng_next(&r) >> 23) + 1;
        if (w > mass) w = mass;
        check_close(law_probability_logprob(w, mass), logl((long double)w / zd), 0x1p-50L);
        check_close(law_renorm_scale(mass), 0x1p40L / zd, 0);
        check_close(law_probability_renorm_scale(mass), 1.0L / zd, 0);
    }
    /* certain tokens have +0, not -0 */
    assert_int_equal(law_bits(law_logprob(0.0f, LAW_ONE)), 0);
    assert_int_equal(law_bits(law_probability_logprob(LAW_ONE + 5, LAW_ONE + 5)), 0);
    assert_true(law_probability_logprob(0, LAW_ONE) == -INFINITY);
}

static void entropy_of_equals(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 5000; n += 7) {
        law_entropy_sum sum = {0, 0};
        check_close(law_entropy(sum, n * LAW_ONE), logl((long double)n), 0x1p-50L);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log2_error),        cmocka_unit_test(entropy_sum),
        cmocka_unit_test(entropy_rounding),  cmocka_unit_test(log_probabilities),
        cmocka_unit_test(entropy_of_equals),
    };
    return cmocka_run_group_tests_name("logprob", tests, NULL, NULL);
}
