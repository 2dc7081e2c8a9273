/*
 * Results do not depend on the caller's rounding mode, nor on flush-to-zero, and both are left as they were:
 *     test_fpenv portable|avx2|avx512 PACKED
 */
#include "isa_test.h"

#include <fenv.h>
#include <stdlib.h>

#include "vector.h"

static tombola_isa isa;
static tombola_context *context;
static vectors all;

/* The thread's control register: rounding, flush-to-zero, masked exceptions. */
static uint64_t control(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_stmxcsr() & 0xffc0u;
#elif defined(__aarch64__)
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
#else
    return (uint64_t)fegetround();
#endif
}

static void flush_to_zero(void)
{
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040u); /* FTZ and DAZ */
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(control() | (uint64_t)1 << 24));
#endif
}

static void check_all(tombola_backend backend, int32_t threads)
{
    uint64_t before = control();
    int64_t bad = 0, altered = 0;
    char text[512], first[700] = "";
    layout how = {.rows = threads, .threads = threads};
    for (int64_t i = 0; i < all.count; i++) {
        bool same = vector_check(&all.list[i], context, backend, &how, text, sizeof text);
        if (!same && !bad++) snprintf(first, sizeof first, "%.100s: %s", all.list[i].name, text);
        if (control() != before) altered++;
    }
    fesetenv(FE_DFL_ENV);
    if (bad) fail_msg("%lld vectors differ: %s", (long long)bad, first);
    if (altered) fail_msg("the control register was changed by %lld calls", (long long)altered);
}

static void check_mode(int rounding, bool flush)
{
    SKIP_WITHOUT(context, isa);
    for (int32_t threads = 1; threads <= 2; threads++) {
        for (int b = 0; b < 2; b++) {
            fesetround(rounding);
            if (flush) flush_to_zero();
            check_all(b ? TOMBOLA_BACKEND_REFERENCE : TOMBOLA_BACKEND_CPU, threads);
        }
    }
}

static void upward(void **state)
{
    (void)state;
    check_mode(FE_UPWARD, false);
}

static void downward(void **state)
{
    (void)state;
    check_mode(FE_DOWNWARD, false);
}

static void toward_zero(void **state)
{
    (void)state;
    check_mode(FE_TOWARDZERO, false);
}

static void flushing(void **state)
{
    (void)state;
    check_mode(FE_TONEAREST, true);
}

static void upward_and_flushing(void **state)
{
    (void)state;
    check_mode(FE_UPWARD, true);
}

int main(int argc, char **argv)
{
    isa = ISA_ARGUMENT(argc, argv);
    if (argc != 3 || !vectors_load(&all, argv[2])) return 2;
    context = open_context(isa, 2);
    const struct CMUnitTest tests[] = {cmocka_unit_test(upward), cmocka_unit_test(downward),
                                       cmocka_unit_test(toward_zero), cmocka_unit_test(flushing),
                                       cmocka_unit_test(upward_and_flushing)};
    int failed = cmocka_run_group_tests_name("fpenv", tests, NULL, NULL);
    tombola_context_destroy(context);
    vectors_free(&all);
    return failed;
}
