/*
 * The polynomials behind the CPU backend's float sums (src/cpu/vec_*.h, vf_rough_exp2) stay within
 * ROUGH_POLYNOMIAL of 2^f, on every 16th f32 of their intervals, and on the ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "law/base.h"

#define ROUGH_POLYNOMIAL 3e-6 /* src/cpu/rough.h */

static float evaluate(const float c[5], float f, int fused)
{
    if (!fused) return (((c[0] * f + c[1]) * f + c[2]) * f + c[3]) * f + c[4];
    float q = law_fmaf(c[0], f, c[1]);
    q = law_fmaf(q, f, c[2]);
    q = law_fmaf(q, f, c[3]);
    return law_fmaf(q, f, c[4]);
}

/* Worst relative error over the floats with bits from `first` to `last`. */
static double worst(const float c[5], uint32_t first, uint32_t last, uint32_t stride, int fused)
{
    double bad = 0;
    for (uint64_t bits = first; bits <= last; bits += stride) {
        float f = law_float((uint32_t)bits);
        double error = fabs((double)evaluate(c, f, fused) / exp2(f) - 1);
        if (!(error <= bad)) bad = error;
    }
    return bad;
}

static void floor_form(void **state)
{
    (void)state;
    const float c[5] = {0x1.bb7cd4p-7f, 0x1.aa13f0p-5f, 0x1.ee798ap-3f, 0x1.62d166p-1f, 0x1.00002cp+0f};
    /* below 2^-24 the value no longer changes; 1 itself can come out of a rounded t - floor(t) */
    assert_true(worst(c, 0, law_bits(0x1p-24f), 0x10000, 1) <= ROUGH_POLYNOMIAL);
    assert_true(worst(c, law_bits(0x1p-24f), law_bits(1.0f), 16, 1) <= ROUGH_POLYNOMIAL);
    assert_true(worst(c, law_bits(0.99f), law_bits(1.0f), 1, 1) > 2e-6); /* the bound is not idle */
}

static void nearest_form(void **state)
{
    (void)state;
    const float c[5] = {0x1.3997d6p-7f, 0x1.ca1440p-5f, 0x1.ec06dap-3f, 0x1.62e0dcp-1f, 0x1.ffffe8p-1f};
    const uint32_t sign = 0x80000000u;
    for (int fused = 0; fused < 2; fused++) {
        assert_true(worst(c, law_bits(0x1p-24f), law_bits(0.5f), 16, fused) <= ROUGH_POLYNOMIAL);
        assert_true(worst(c, sign | law_bits(0x1p-24f), sign | law_bits(0.5f), 16, fused) <=
                    ROUGH_POLYNOMIAL);
    }
    assert_true(worst(c, law_bits(0.49f), law_bits(0.5f), 1, 1) > 2e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(floor_form), cmocka_unit_test(nearest_form)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
