/*
 * Rows made to be hard for the cpu backend's certified floats and lists: sums whose every addend is just
 * under half an ulp, references whose product with the scale is rounded far off, differences that overflow,
 * ties that fill a list, sizes at which a padded span ends a block. On every instruction set, against the
 * reference, with the few outputs that let floats decide.
 */
#include "isa_test.h"

#include <math.h>
#include <stdlib.h>

#include "outputs.h"

static tombola_context *contexts[4]; /* by instruction set; NULL where the machine lacks it */

static void compare(const float *x, int64_t n, const tombola_step *steps, int32_t count, int32_t ties,
                    uint64_t random, unsigned which)
{
    outputs expected, got;
    tombola_error error = {0};
    char text[512];
    tombola_call call = TOMBOLA_CALL_INIT;
    call.data = x, call.rows = 1, call.vocab_size = n;
    call.steps = steps, call.step_count = count, call.ties = ties;
    call.draws = 1, call.random = &random, call.top_count = 2000;
    outputs_make(&expected, &call, which);
    outputs_make(&got, &call, which);
    call.backend = TOMBOLA_BACKEND_REFERENCE;
    outputs_bind(&expected, &call);
    if (run_call(contexts[TOMBOLA_ISA_PORTABLE], &call, &error)) fail_msg("%s", error.message);
    call.backend = TOMBOLA_BACKEND_CPU;
    outputs_bind(&got, &call);
    for (int isa = TOMBOLA_ISA_PORTABLE; isa <= TOMBOLA_ISA_AVX512; isa++) {
        if (!contexts[isa]) continue;
        outputs_refill(&got);
        if (run_call(contexts[isa], &call, &error)) fail_msg("%s", error.message);
        if (!outputs_same(&expected, &got, &call, text, sizeof text))
            fail_msg("%s, V = %lld, first step %d: value %a k %d: %s", tombola_isa_name((tombola_isa)isa),
                     (long long)n, count ? steps[0].kind : 0, count ? steps[0].value : 0,
                     count ? steps[0].k : 0, text);
    }
    outputs_free(&expected);
    outputs_free(&got);
}

static uint64_t mixed(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static const unsigned TOKEN = 1u << OUT_TOKENS, COUNT = 1u << OUT_KEPT_COUNT;

/* A bound taken after a list was made, and the outputs that read the list. */
static void ties_fill_the_list(void **state)
{
    (void)state;
    int64_t n = 65536;
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = i < n * 3 / 10 ? 1.0f : 0.0f;
    tombola_step step = {.kind = TOMBOLA_TOP_K, .k = 300};
    for (int32_t ties = 0; ties < 2; ties++)
        compare(x, n, &step, 1, ties, 1, TOKEN | COUNT | 1u << OUT_RANKS | 1u << OUT_TOP_IDS);
    free(x);
}

/* Head tokens in the first vectors of each block; what follows vanishes in a float sum. */
static void addends_vanish(void **state)
{
    (void)state;
    int64_t n = 117880;
    float *x = malloc((size_t)n * sizeof *x), head = -0.99f / 0x1.715476p+0f;
    for (int vector = 4; vector <= 16; vector *= 2) {
        float small = (vector == 4 ? -29.02f : -25.012f) / 0x1.715476p+0f;
        for (int64_t i = 0; i < n; i++)
            x[i] = i % 1024 < vector ? head : i / vector % 16 % 4 == 0 ? small : -42.0f;
        x[n - 1] = 0;
        for (int i = 0; i < 64; i++) x[i * n / 64] = small;
        for (int j = 1; j < 400; j += 13) {
            tombola_step step = {.kind = TOMBOLA_TOP_P, .value = (float)j / 400};
            compare(x, n, &step, 1, TOMBOLA_TIES_INDEX, 1, COUNT);
        }
    }
    free(x);
}

/* fl(-r s) is off by most of an exponent; x - m overflows. */
static void huge_logits(void **state)
{
    (void)state;
    int64_t n = 9000;
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = i % 45 == 7 ? 11629103.0f : 11629093.0f;
    for (int j = 1; j < 199; j += 7) {
        tombola_step step = {.kind = TOMBOLA_TOP_P, .value = (float)(j / 198.38)};
        compare(x, n, &step, 1, TOMBOLA_TIES_INDEX, 1, COUNT);
    }
    for (int64_t i = 0; i < n; i++) x[i] = i % 45 == 7 ? 2.5e38f : -2.5e38f;
    uint64_t random = 7;
    for (int j = 1; j < 60; j++) {
        tombola_step steps[] = {{.kind = TOMBOLA_TEMPERATURE, .value = 7e37f},
                                {.kind = TOMBOLA_TOP_P, .value = (float)j / 60}};
        compare(x, n, steps, 2, TOMBOLA_TIES_INDEX, mixed(&random), COUNT | TOKEN);
        compare(x, n, steps, 1, TOMBOLA_TIES_INDEX, mixed(&random), TOKEN);
    }
    free(x);
}

/* Unfiltered single draws where a padded span ends a block, or nearly. */
static void last_blocks(void **state)
{
    (void)state;
    static const int64_t SIZES[] = {4096, 4097, 5119, 5120, 5121, 8192 - 63, 50000, 50175, 50176, 50177};
    uint64_t random = 99;
    for (size_t s = 0; s < sizeof SIZES / sizeof *SIZES; s++) {
        int64_t n = SIZES[s];
        float *x = malloc((size_t)n * sizeof *x);
        for (int64_t i = 0; i < n; i++) {
            double sum = 0;
            for (int j = 0; j < 4; j++) sum += (double)(mixed(&random) >> 11) * 0x1p-53 - 0.5;
            x[i] = (float)(5 * sum);
        }
        x[n - 1] = 9; /* the last block matters */
        for (int j = 0; j < 40; j++) compare(x, n, NULL, 0, TOMBOLA_TIES_ALL, mixed(&random), TOKEN);
        free(x);
    }
}

int main(void)
{
    for (int isa = TOMBOLA_ISA_PORTABLE; isa <= TOMBOLA_ISA_AVX512; isa++)
        contexts[isa] = open_context((tombola_isa)isa, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(ties_fill_the_list), cmocka_unit_test(addends_vanish),
                                       cmocka_unit_test(huge_logits), cmocka_unit_test(last_blocks)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int isa = TOMBOLA_ISA_PORTABLE; isa <= TOMBOLA_ISA_AVX512; isa++)
        tombola_context_destroy(contexts[isa]);
    return failed;
}
