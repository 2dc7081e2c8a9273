#include "rows.h"

#include <stddef.h>
#include <string.h>
#include <tombola.h>

static float bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void shuffle(float *x, int64_t n, rng *r)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = rng_below(r, i + 1);
        float y = x[i];
        x[i] = x[j];
        x[j] = y;
    }
}

/* ---- logits ---- */

static void normal(float *x, int64_t n, rng *r)
{
    static const float SIGMA[] = {0.01f, 0.5f, 1.0f, 1.0f, 2.0f, 5.0f, 20.0f};
    float sigma = SIGMA[rng_below(r, 7)], shift = rng_one_in(r, 3) ? (float)rng_normal(r) * 100.0f : 0.0f;
    for (int64_t i = 0; i < n; i++) x[i] = (float)rng_normal(r) * sigma + shift;
}

/* As a language model's: a few great ones, then a long tail. */
static void zipf(float *x, int64_t n, rng *r)
{
    double slope = 0.8 + rng_uniform(r) * 1.6;
    for (int64_t i = 0; i < n; i++) x[i] = (float)(-slope * log((double)i + 1) + 0.3 * rng_normal(r));
    shuffle(x, n, r);
}

static void ties(float *x, int64_t n, rng *r)
{
    float step = rng_one_in(r, 2) ? 0.5f : 0.03125f;
    normal(x, n, r);
    for (int64_t i = 0; i < n; i++) x[i] = rintf(x[i] / step) * step;
}

static void equal(float *x, int64_t n, rng *r)
{
    float value = (float)rng_normal(r) * 10.0f;
    for (int64_t i = 0; i < n; i++) x[i] = value;
}

static void two_valued(float *x, int64_t n, rng *r)
{
    float low = (float)rng_normal(r), high = low + (float)rng_uniform(r) * 8.0f;
    int64_t one_in = 1 + rng_below(r, 2 * n);
    for (int64_t i = 0; i < n; i++) x[i] = rng_one_in(r, one_in) ? high : low;
}

static void near_equal(float *x, int64_t n, rng *r)
{
    float base = 1.0f + (float)rng_uniform(r);
    int64_t spread = 1 + rng_below(r, 64);
    for (int64_t i = 0; i < n; i++) x[i] = base + (float)rng_below(r, spread) * 0x1p-23f;
}

static void masked(float *x, int64_t n, rng *r)
{
    normal(x, n, r);
    for (int64_t i = 0; i < n; i++)
        if (!rng_one_in(r, 20)) x[i] = -INFINITY;
}

/* All but a handful of tokens banned. */
static void few(float *x, int64_t n, rng *r)
{
    for (int64_t i = 0; i < n; i++) x[i] = -INFINITY;
    for (int64_t i = rng_below(r, 5); i > 0; i--) x[rng_below(r, n)] = (float)rng_normal(r);
}

static void ascending(float *x, int64_t n, rng *r)
{
    float step = (float)(rng_uniform(r) * 30.0) / (float)n;
    for (int64_t i = 0; i < n; i++) x[i] = (float)i * step;
}

static void descending(float *x, int64_t n, rng *r)
{
    float step = (float)(rng_uniform(r) * 30.0) / (float)n;
    for (int64_t i = 0; i < n; i++) x[i] = (float)-i * step;
}

/* Differences of every size; weights from 2^40 to 0. */
static void wide(float *x, int64_t n, rng *r)
{
    for (int64_t i = 0; i < n; i++) x[i] = (float)(rng_uniform(r) * 60.0);
}

static void huge(float *x, int64_t n, rng *r)
{
    for (int64_t i = 0; i < n; i++) x[i] = bits_float((uint32_t)rng_next(r) & 0xff7fffffu);
}

static void tiny(float *x, int64_t n, rng *r)
{
    uint32_t mask = rng_one_in(r, 2) ? 0x807fffffu : 0x8000000fu;
    for (int64_t i = 0; i < n; i++) x[i] = bits_float((uint32_t)rng_next(r) & mask);
}

static void zeros(float *x, int64_t n, rng *r)
{
    for (int64_t i = 0; i < n; i++) x[i] = rng_one_in(r, 2) ? 0.0f : -0.0f;
}

static void nan_among(float *x, int64_t n, rng *r)
{
    zipf(x, n, r);
    for (int64_t i = 1 + rng_below(r, 8); i > 0; i--)
        x[rng_below(r, n)] = bits_float(0x7f800001u | (uint32_t)rng_next(r));
}

static void infinite(float *x, int64_t n, rng *r)
{
    normal(x, n, r);
    for (int64_t i = 1 + rng_below(r, 4); i > 0; i--) x[rng_below(r, n)] = INFINITY;
    if (rng_one_in(r, 2)) x[rng_below(r, n)] = NAN;
    if (rng_one_in(r, 2)) x[rng_below(r, n)] = -INFINITY;
}

static void any_bits(float *x, int64_t n, rng *r)
{
    for (int64_t i = 0; i < n; i++) x[i] = bits_float((uint32_t)rng_next(r));
}

static void all_nan(float *x, int64_t n, rng *r)
{
    float value = rng_one_in(r, 2) ? NAN : -INFINITY;
    for (int64_t i = 0; i < n; i++) x[i] = value;
}

/* One great token at an end or anywhere, over a flat floor of many. */
static void outlier(float *x, int64_t n, rng *r)
{
    int64_t place = rng_one_in(r, 3) ? 0 : rng_one_in(r, 2) ? n - 1 : rng_below(r, n);
    float height = (float)rng_uniform(r) * 40.0f;
    for (int64_t i = 0; i < n; i++) x[i] = (float)rng_uniform(r) * 0.5f;
    x[place] = height;
}

/* Great tokens close together: one block of the row holds all that matters. */
static void clustered(float *x, int64_t n, rng *r)
{
    int64_t start = rng_below(r, n), length = 1 + rng_below(r, 300);
    for (int64_t i = 0; i < n; i++) x[i] = (float)rng_normal(r) - 12.0f;
    for (int64_t i = start; i < n && i < start + length; i++) x[i] = (float)rng_normal(r);
}

/* ---- probabilities: weights of any sum ---- */

static void softmax(float *x, int64_t n, rng *r)
{
    double sum = 0, scale = 0.5 + rng_uniform(r) * 4.0;
    for (int64_t i = 0; i < n; i++) x[i] = (float)(rng_normal(r) * scale);
    for (int64_t i = 0; i < n; i++) sum += exp(x[i]);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(exp(x[i]) / sum);
}

static void unnormalised(float *x, int64_t n, rng *r)
{
    for (int64_t i = 0; i < n; i++) x[i] = (float)(rng_uniform(r) * 1000.0);
}

static void sparse(float *x, int64_t n, rng *r)
{
    for (int64_t i = 0; i < n; i++) x[i] = rng_one_in(r, 10) ? (float)rng_uniform(r) : 0.0f;
}

static void weight_ties(float *x, int64_t n, rng *r)
{
    for (int64_t i = 0; i < n; i++) x[i] = (float)rng_below(r, 9) * 0.125f;
}

static void spread(float *x, int64_t n, rng *r)
{
    for (int64_t i = 0; i < n; i++) x[i] = (float)exp2(rng_uniform(r) * 120.0 - 90.0);
}

static void subnormal(float *x, int64_t n, rng *r)
{
    for (int64_t i = 0; i < n; i++) x[i] = bits_float((uint32_t)rng_next(r) & 0x007fffffu);
}

static void negative_among(float *x, int64_t n, rng *r)
{
    softmax(x, n, r);
    for (int64_t i = 1 + rng_below(r, 8); i > 0; i--) x[rng_below(r, n)] = rng_one_in(r, 3) ? -0.0f : -1.0f;
    if (rng_one_in(r, 3)) x[rng_below(r, n)] = NAN;
    if (rng_one_in(r, 3)) x[rng_below(r, n)] = -INFINITY;
    if (rng_one_in(r, 4)) x[rng_below(r, n)] = INFINITY;
}

typedef struct row_kind {
    const char *name;
    void (*fill)(float *x, int64_t n, rng *r);
} row_kind;

#define KIND(f)                                                                                              \
    {                                                                                                        \
#f, f                                                                                                \
    }

static const row_kind LOGITS[] = {
    KIND(normal),     KIND(zipf),       KIND(ties),    KIND(equal),     KIND(two_valued),
    KIND(near_equal), KIND(masked),     KIND(few),     KIND(ascending), KIND(wide),
    KIND(huge),       KIND(descending), KIND(tiny),    KIND(zeros),     KIND(nan_among),
    KIND(infinite),   KIND(any_bits),   KIND(all_nan), KIND(outlier),   KIND(clustered),
};
static const row_kind PROBABILITIES[] = {
    KIND(softmax),  KIND(unnormalised), KIND(sparse),         KIND(weight_ties),
    KIND(spread),   KIND(subnormal),    KIND(equal),          KIND(all_nan),
    KIND(any_bits), KIND(zeros),        KIND(negative_among),
};

int row_kinds(int32_t kind)
{
    return kind == TOMBOLA_LOGITS ? (int)(sizeof LOGITS / sizeof *LOGITS)
                                  : (int)(sizeof PROBABILITIES / sizeof *PROBABILITIES);
}

const char *row_kind_name(int32_t kind, int which)
{
    return (kind == TOMBOLA_LOGITS ? LOGITS : PROBABILITIES)[which].name;
}

void row_fill(int32_t kind, int which, float *x, int64_t n, rng *r)
{
    (kind == TOMBOLA_LOGITS ? LOGITS : PROBABILITIES)[which].fill(x, n, r);
}
