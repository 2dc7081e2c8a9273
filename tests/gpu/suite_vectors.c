/* Every test vector in every layout that the header allows, through the plan's choice and variants in turns.
 */
#include "suites.h"

#include <stdio.h>

#include "vector.h"

static const layout LAYOUTS[] = {
    {0},
    {.shift = 1},
    {.shift = 2},
    {.shift = 3},
    {.shift = 7},
    {.shift = 19},
    {.rows = 3, .gap = 1},
    {.rows = 2, .gap = 19, .shift = 3},
    {.rows = 140, .gap = 4, .mask = 1u << OUT_TOKENS | 1u << OUT_STATUS},
    {.rows = 2, .longer = 5, .shift = 1},
    {.rows = 3, .longer = 40, .gap = 7},
    {.in_place = true, .shift = 5},
    {.in_place = true, .rows = 2, .gap = 3},
    {.mask = 1u << OUT_TOKENS | 1u << OUT_STATUS},
    {.mask = 1u << OUT_TOKENS | 1u << OUT_LOGPROBS},
    {.mask = 1u << OUT_TOKENS | 1u << OUT_RAW_LOGPROBS | 1u << OUT_RANKS},
    {.mask = 1u << OUT_KEPT_COUNT | 1u << OUT_KEPT_IDS | 1u << OUT_KEPT_MASS},
    {.mask = OUT_ALL & ~(1u << OUT_TOKENS)},
    {.mask = OUT_ALL & ~(1u << OUT_PROBABILITIES | 1u << OUT_MASKED | 1u << OUT_KEPT_IDS)},
};

typedef struct job {
    vectors all;
} job;

static void check_vector(suite *s, void *argument, int64_t i)
{
    const job *j = argument;
    const variant *v = &variants[i / j->all.count];
    const vector *vec = &j->all.list[i % j->all.count];
    char text[512], what[200];
    if (!variant_turn((int)(i / j->all.count), i % j->all.count, 2)) return;
    for (size_t l = 0; l < sizeof LAYOUTS / sizeof *LAYOUTS; l++) {
        snprintf(what, sizeof what, "%s, variant %s, layout %zu", vec->name, v->name, l);
        bool good = vector_check(vec, v->context, TOMBOLA_BACKEND_CUDA, &LAYOUTS[l], text, sizeof text);
        suite_result(s, good, text, what);
    }
    for (int o = 0; o < OUT_COUNT; o++) { /* each output alone: a kernel may do less when less is asked for */
        snprintf(what, sizeof what, "%s, variant %s, %s alone", vec->name, v->name, output_name((output)o));
        bool good = vector_check(vec, v->context, TOMBOLA_BACKEND_CUDA, &(layout){.mask = 1u << o}, text,
                                 sizeof text);
        suite_result(s, good, text, what);
    }
}

void suite_vectors(suite *s)
{
    job j = {0};
    if (!options.vectors || !vectors_load(&j.all, options.vectors)) {
        suite_check(s, false, "--vectors must name a file made by tests/support/pack_vectors.py");
        return;
    }
    suite_parallel(s, check_vector, &j, j.all.count * variant_count);
    vectors_free(&j.all);
}
