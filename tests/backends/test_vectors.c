/*
 * Every vector through one backend, in every layout that the header allows:
 *     test_vectors reference|portable|avx2|avx512 PACKED
 */
#include "isa_test.h"

#include <string.h>

#include "vector.h"

static vectors all;
static tombola_backend backend;
static tombola_isa isa;
static tombola_context *context;

static void check_all(const layout *how)
{
    SKIP_WITHOUT(context, isa);
    int64_t bad = 0;
    for (int64_t i = 0; i < all.count; i++) {
        char text[512];
        if (vector_check(&all.list[i], context, backend, how, text, sizeof text)) continue;
        if (bad++ < 10) print_error("%s: %s\n", all.list[i].name, text);
    }
    if (bad) fail_msg("%lld of %lld vectors differ", (long long)bad, (long long)all.count);
}

static void plain(void **state)
{
    (void)state;
    check_all(&(layout){0});
}

/* Row addresses at every element offset of a cache line's worth of residues that matter: 1, 3, 7 ... */
static void unaligned(void **state)
{
    (void)state;
    for (int64_t shift = 1; shift <= 31; shift += shift < 8 ? 2 : 12) check_all(&(layout){.shift = shift});
}

static void strides(void **state)
{
    (void)state;
    check_all(&(layout){.rows = 3, .gap = 1});
    check_all(&(layout){.rows = 2, .gap = 19, .shift = 3});
}

static void ragged(void **state)
{
    (void)state;
    check_all(&(layout){.rows = 2, .longer = 5, .shift = 1});
    check_all(&(layout){.rows = 3, .longer = 40, .gap = 7});
}

static void in_place(void **state)
{
    (void)state;
    check_all(&(layout){.in_place = true, .shift = 5});
    check_all(&(layout){.in_place = true, .rows = 2, .gap = 3});
}

static void threads(void **state)
{
    (void)state;
    check_all(&(layout){.rows = 5, .threads = 3});
}

/* A backend may compute less when less is asked for; what it computes must stay the same. */
static void outputs_alone(void **state)
{
    (void)state;
    for (int i = 0; i < OUT_COUNT; i++) check_all(&(layout){.mask = 1u << i});
}

static void outputs_in_groups(void **state)
{
    (void)state;
    check_all(&(layout){.mask = 1u << OUT_TOKENS | 1u << OUT_STATUS});
    check_all(&(layout){.mask = 1u << OUT_TOKENS | 1u << OUT_LOGPROBS});
    check_all(&(layout){.mask = 1u << OUT_TOKENS | 1u << OUT_RAW_LOGPROBS | 1u << OUT_RANKS});
    check_all(&(layout){.mask = 1u << OUT_KEPT_COUNT | 1u << OUT_KEPT_IDS | 1u << OUT_KEPT_MASS});
    check_all(&(layout){.mask = OUT_ALL & ~(1u << OUT_TOKENS)});
    check_all(
        &(layout){.mask = OUT_ALL & ~(1u << OUT_PROBABILITIES | 1u << OUT_MASKED | 1u << OUT_KEPT_IDS)});
}

int main(int argc, char **argv)
{
    if (argc != 3 || !vectors_load(&all, argv[2])) {
        fprintf(stderr, "usage: test_vectors reference|portable|avx2|avx512 PACKED\n");
        return 2;
    }
    bool reference = !strcmp(argv[1], "reference");
    backend = reference ? TOMBOLA_BACKEND_REFERENCE : TOMBOLA_BACKEND_CPU;
    isa = isa_of_name(reference ? "portable" : argv[1]);
    context = open_context(isa, 3);
    printf("%lld vectors, %s\n", (long long)all.count, argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain),         cmocka_unit_test(unaligned),         cmocka_unit_test(strides),
        cmocka_unit_test(ragged),        cmocka_unit_test(in_place),          cmocka_unit_test(threads),
        cmocka_unit_test(outputs_alone), cmocka_unit_test(outputs_in_groups),
    };
    int failed = cmocka_run_group_tests_name(argv[1], tests, NULL, NULL);
    tombola_context_destroy(context);
    vectors_free(&all);
    return failed;
}
