/* What a row returns depends on nothing but the row: not on the batch, its place, strides, alignment,
 * stream, or the kernel that ran it. */
#include "suites.h"

#include <stdio.h>

#include "pool.h"

#define POOL_ROWS 24
#define SMALL (OUT_ALL & ~(1u << OUT_PROBABILITIES | 1u << OUT_MASKED))

static const int64_t VOCABULARIES[] = {1000, 4099, 32000, 50257, 128256, 151936, 262144};
static const int64_t BATCHES[] = {1,  2,  3,  7,   8,   15,  16,  17,  32, 33,
                                  48, 64, 65, 100, 128, 200, 256, 400, 512};
#define COUNT(array) ((int64_t)(sizeof array / sizeof *array))

/* The masks that a real call asks for; kernels may differ by them. */
static const unsigned MASKS[] = {
    1u << OUT_TOKENS,
    1u << OUT_TOKENS | 1u << OUT_STATUS | 1u << OUT_LOGPROBS | 1u << OUT_KEPT_COUNT | 1u << OUT_KEPT_IDS,
    SMALL,
    OUT_ALL,
    1u << OUT_STATUS | 1u << OUT_PROBABILITIES,
    1u << OUT_KEPT_COUNT | 1u << OUT_KEPT_IDS | 1u << OUT_MASKED,
};

static void report(suite *s, const pool *p, const variant *v, const batch *b, bool good, const char *text)
{
    char what[400];
    snprintf(what, sizeof what, "%s, variant %s, %lld rows, stride %lld, shift %lld, outputs 0x%x%s", p->text,
             v->name, (long long)b->rows, (long long)b->stride, (long long)b->shift, p->expected.mask,
             b->in_place ? ", in place" : "");
    suite_result(s, good, text, what);
}

/* One pool through every batch size (by index into the pool) and a few materialised layouts. */
static void check_pool(suite *s, void *job, int64_t i)
{
    (void)job;
    rng r = {options.seed * 31 + (uint64_t)i};
    int64_t vocab = VOCABULARIES[i % COUNT(VOCABULARIES)];
    int64_t at = i / COUNT(VOCABULARIES);
    int chain = (int)(at % pool_chains);
    unsigned mask = MASKS[(i + at / pool_chains) % COUNT(MASKS)]; /* 7 and 6 have no common divisor */
    bool wide = mask & (1u << OUT_PROBABILITIES | 1u << OUT_MASKED);
    char text[512];
    pool p;
    pool_make(&p, rng_next(&r), chain, (int32_t)rng_below(&r, 3), vocab, POOL_ROWS, mask);
    for (int v = 0; v < variant_count; v++) {
        if (!variant_turn(v, i, 4)) continue;
        for (int64_t b = 0; b < COUNT(BATCHES); b++) {
            batch how = {.rows = BATCHES[b], .gap = b % 3};
            if (wide && how.rows * vocab > 4 << 20) break;
            report(s, &p, &variants[v], &how,
                   pool_check(&p, variants[v].context, &how, &r, text, sizeof text), text);
        }
        for (int64_t b = 0; b < 12; b++) {
            batch how = {.rows = BATCHES[rng_below(&r, COUNT(BATCHES))],
                         .stride = vocab + rng_below(&r, 9),
                         .shift = rng_below(&r, 9),
                         .in_place = wide && b % 2};
            if (how.rows * vocab > 4 << 20) how.rows = (4 << 20) / vocab;
            report(s, &p, &variants[v], &how,
                   pool_check(&p, variants[v].context, &how, &r, text, sizeof text), text);
        }
    }
    pool_free(&p);
}

void suite_invariance(suite *s)
{
    suite_parallel(s, check_pool, NULL,
                   options.count ? options.count : 2 * COUNT(VOCABULARIES) * pool_chains);
}
