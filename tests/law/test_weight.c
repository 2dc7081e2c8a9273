/*
 * W and E on every f32 t from 0 to -64, and on samples outside (law, section 3):
 *   monotone      t < t' has W(t) <= W(t') and E(t) <= E(t')
 *   fixed point   W(0) = 2^40, E(0) = 1
 *   error         |W - y| <= 1 + 2^-22 y, y = 2^40 * 2^t
 *   one rounding  W = floor(E * 2^40), E = 0 exactly where W = 0
 * y is computed in binary64. exp2 of the C library is off by less than one unit in the last place, so y by
 * less than 2^-52 y, and t + 40 is exact where it matters: |W - y| is compared with a bound that is tighter
 * by 2^-50 y, which is sound.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "weights.h"

static atomic_uint next_block;
static atomic_ullong wrong;
static _Atomic double worst; /* greatest (|W - y| - 1) / y seen */

static void complain(const char *what, float t)
{
    if (atomic_fetch_add(&wrong, 1) < 10) print_error("t = %a: %s\n", t, what);
}

static void check_block(uint32_t block)
{
    uint32_t start = FIRST_BITS + block * BLOCK;
    float above = block ? law_float(start - 1) : 0.0f; /* the t before the block's first, which is greater */
    uint64_t w_above = law_weight(above);
    float e_above = law_relative(above);
    double greatest = 0;
    for (uint32_t i = 0; i < BLOCK; i++) {
        float t = law_float(start + i);
        uint64_t w = law_weight(t);
        float e = law_relative(t);
        double y = exp2((double)t) * 0x1p40, error = fabs((double)w - y) - 1.0;
        if (w > w_above || e > e_above) complain("not monotone", t);
        if (error > y * (0x1p-22 - 0x1p-50)) complain("error above the bound", t);
        if (w != (uint64_t)((double)e * 0x1p40)) complain("W is not floor(E * 2^40)", t);
        if ((w == 0) != (e == 0.0f)) complain("E and W are not zero together", t);
        if (error > greatest * y) greatest = error / y;
        w_above = w;
        e_above = e;
    }
    for (double seen = worst; greatest > seen && !atomic_compare_exchange_weak(&worst, &seen, greatest);)
        continue;
}

static void *check_blocks(void *unused)
{
    (void)unused;
    for (uint32_t block; (block = atomic_fetch_add(&next_block, 1)) < BLOCKS;) check_block(block);
    return NULL;
}

static void every_t(void **state)
{
    (void)state;
    pthread_t helper[64];
    long n = sysconf(_SC_NPROCESSORS_ONLN) - 1;
    int threads = n < 0 ? 0 : n > 64 ? 64 : (int)n;
    for (int i = 0; i < threads; i++)
        assert_int_equal(pthread_create(&helper[i], NULL, check_blocks, NULL), 0);
    check_blocks(NULL);
    for (int i = 0; i < threads; i++) pthread_join(helper[i], NULL);
    printf("greatest relative error beyond 1: 2^%.2f\n", log2(worst));
    assert_int_equal(wrong, 0);
}

static void ends(void **state)
{
    (void)state;
    assert_int_equal(law_weight(0.0f), (uint64_t)1 << 40);
    assert_int_equal(law_weight(-0.0f), (uint64_t)1 << 40);
    assert_true(law_relative(0.0f) == 1.0f && law_relative(-0.0f) == 1.0f);
    assert_int_equal(law_weight(-1.0f), (uint64_t)1 << 39);
    assert_int_equal(law_weight(-40.0f), 1);
    assert_int_equal(law_weight(nextafterf(-40.0f, -41.0f)), 0);
    static const float OUTSIDE[] = {-64.0f, -0x1.000002p+6f,   -65.0f,   -100.0f,
                                    -1e10f, -0x1.fffffep+127f, -INFINITY};
    for (size_t i = 0; i < sizeof OUTSIDE / sizeof *OUTSIDE; i++) {
        assert_int_equal(law_weight(OUTSIDE[i]), 0);
        assert_true(law_relative(OUTSIDE[i]) == 0.0f);
    }
    for (uint32_t bits = LAST_BITS; bits <= 0xff800000u; bits += 997)
        assert_int_equal(law_weight(law_float(bits)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ends), cmocka_unit_test(every_t)};
    return cmocka_run_group_tests_name("weight", tests, NULL, NULL);
}
