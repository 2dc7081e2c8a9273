/*
 * Random calls: the cpu backend on every instruction set, against the reference.
 *     test_random [all|portable|avx2|avx512 [SEED [COUNT [FIRST]]]]
 * A failure prints the command that repeats it alone. COUNT comes from TOMBOLA_TEST_RANDOM_COUNT where it is
 * not given.
 */
#include "isa_test.h"

#include <stdlib.h>
#include <string.h>

#include "sweep.h"

#define DEFAULT_COUNT 4000

static tombola_context *contexts[4]; /* by instruction set; NULL: not to be tested */
static uint64_t seed = 20260101, count = DEFAULT_COUNT, first;

/* One case on every instruction set. */
static bool check_case(uint64_t index, const tombola_context *reference)
{
    char text[512];
    sweep_case c;
    sweep_result expected, got;
    sweep_make(&c, seed, index, NULL);
    bool good = sweep_run(&c, reference, TOMBOLA_BACKEND_REFERENCE, 1, &expected, text, sizeof text);
    if (!good) print_error("case %llu, reference: %s\n  %s\n", (unsigned long long)index, text, c.text);
    for (int isa = TOMBOLA_ISA_PORTABLE; good && isa <= TOMBOLA_ISA_AVX512; isa++) {
        if (!contexts[isa]) continue;
        bool same = sweep_run(&c, contexts[isa], TOMBOLA_BACKEND_CPU, 1 + (int32_t)(index % 2), &got, text,
                              sizeof text) &&
                    sweep_same(&c, &expected, &got, text, sizeof text);
        sweep_result_free(&got);
        if (same) continue;
        print_error("case %llu, %s: %s\n  %s\n  again: test_random %s %llu 1 %llu\n",
                    (unsigned long long)index, tombola_isa_name((tombola_isa)isa), text, c.text,
                    tombola_isa_name((tombola_isa)isa), (unsigned long long)seed, (unsigned long long)index);
        good = false;
    }
    sweep_result_free(&expected);
    sweep_free(&c);
    return good;
}

static void random_calls(void **state)
{
    (void)state;
    tombola_context *reference = open_context(TOMBOLA_ISA_PORTABLE, 1);
    uint64_t bad = 0;
    for (uint64_t i = first; i < first + count && bad < 10; i++) bad += !check_case(i, reference);
    tombola_context_destroy(reference);
    if (bad) fail_msg("%llu cases differ", (unsigned long long)bad);
}

int main(int argc, char **argv)
{
    const char *which = argc > 1 ? argv[1] : "all", *number = getenv("TOMBOLA_TEST_RANDOM_COUNT");
    bool all = !strcmp(which, "all");
    if (!all && !isa_of_name(which)) {
        fprintf(stderr, "usage: test_random [all|portable|avx2|avx512 [SEED [COUNT [FIRST]]]]\n");
        return 2;
    }
    if (number) count = strtoull(number, NULL, 0);
    if (argc > 2) seed = strtoull(argv[2], NULL, 0);
    if (argc > 3) count = strtoull(argv[3], NULL, 0);
    if (argc > 4) first = strtoull(argv[4], NULL, 0);
    printf("seed %llu, cases %llu to %llu, on", (unsigned long long)seed, (unsigned long long)first,
           (unsigned long long)(first + count));
    for (int isa = TOMBOLA_ISA_PORTABLE; isa <= TOMBOLA_ISA_AVX512; isa++) {
        if (!all && isa != (int)isa_of_name(which)) continue;
        contexts[isa] = open_context((tombola_isa)isa, 2);
        printf(" %s%s", contexts[isa] ? "" : "(this machine lacks) ", tombola_isa_name((tombola_isa)isa));
    }
    printf("\n");
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_calls)};
    int failed = cmocka_run_group_tests_name("random", tests, NULL, NULL);
    for (int isa = TOMBOLA_ISA_PORTABLE; isa <= TOMBOLA_ISA_AVX512; isa++)
        tombola_context_destroy(contexts[isa]);
    return failed;
}
