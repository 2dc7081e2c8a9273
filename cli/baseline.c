#include "baseline.h"

#include <math.h>
#include <stdlib.h>

#include "engine.h"
#include "fail.h"
#include "sort.h"

struct baseline {
    int64_t vocab_size;
    const float *values;      /* [vocab_size] the row: the caller's own where it is f32 */
    float *widened;           /* [vocab_size] */
    uint64_t *keys, *scratch; /* [vocab_size] kept tokens (sort_key) */
    float *weights;           /* [vocab_size] */
    int64_t count;            /* keys */
    bool sorted;
};

baseline *baseline_create(int64_t vocab_size)
{
    baseline *b = allocate(1, sizeof *b);
    b->vocab_size = vocab_size;
    b->widened = allocate((size_t)vocab_size, sizeof *b->widened);
    b->keys = allocate((size_t)vocab_size, sizeof *b->keys);
    b->scratch = allocate((size_t)vocab_size, sizeof *b->scratch);
    b->weights = allocate((size_t)vocab_size, sizeof *b->weights);
    return b;
}

void baseline_destroy(baseline *b)
{
    free(b->widened), free(b->keys), free(b->scratch), free(b->weights);
    free(b);
}

static bool is_filter(const tombola_step *step)
{
    return step->kind != TOMBOLA_TEMPERATURE;
}

static bool cuts_by_count(const tombola_step *step)
{
    return step->kind == TOMBOLA_TOP_K || step->kind == TOMBOLA_TOP_K_TOP_P;
}

/* ---- the row ---- */

static void widen(baseline *b, const void *row, int32_t dtype)
{
    b->values = row;
    if (dtype == TOMBOLA_F32) return;
    for (int64_t i = 0; i < b->vocab_size; i++) b->widened[i] = engine_value(row, dtype, i);
    b->values = b->widened;
}

#define LANES 16 /* independent maxima, so that compilers use vectors */

static float find_maximum(const baseline *b)
{
    float lanes[LANES], maximum = -INFINITY;
    for (int j = 0; j < LANES; j++) lanes[j] = -INFINITY;
    int64_t i = 0;
    for (; i + LANES <= b->vocab_size; i += LANES)
        for (int j = 0; j < LANES; j++) lanes[j] = b->values[i + j] > lanes[j] ? b->values[i + j] : lanes[j];
    for (; i < b->vocab_size; i++) maximum = b->values[i] > maximum ? b->values[i] : maximum;
    for (int j = 0; j < LANES; j++) maximum = lanes[j] > maximum ? lanes[j] : maximum;
    return maximum;
}

/* ---- candidates ---- */

/* Moves the key at the root of a heap, whose greatest key is at the root, down to its place. */
static void sift_down(uint64_t *heap, int64_t count, uint64_t key)
{
    int64_t at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && heap[child + 1] > heap[child]) child++;
        if (heap[child] <= key) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = key;
}

/* The k least keys (the greatest tokens), sorted: what std::partial_sort does. */
static void select_greatest(baseline *b, int64_t k, int32_t ties)
{
    for (int64_t i = 0; i < k; i++) b->keys[i] = sort_key(b->values[i], (uint32_t)i);
    sort_keys(b->keys, b->scratch, k);
    for (int64_t i = 0; i < k / 2; i++) { /* descending order is a heap */
        uint64_t swap = b->keys[i];
        b->keys[i] = b->keys[k - 1 - i];
        b->keys[k - 1 - i] = swap;
    }
    float least = sort_value(b->keys[0]);
    for (int64_t i = k; i < b->vocab_size; i++) {
        if (b->values[i] <= least) continue; /* equal ones have a higher id */
        sift_down(b->keys, k, sort_key(b->values[i], (uint32_t)i));
        least = sort_value(b->keys[0]);
    }
    b->count = k;
    if (ties == TOMBOLA_TIES_ALL) {
        uint32_t last = sort_id(b->keys[0]); /* the lower ids with this value are in */
        for (int64_t i = last + 1; i < b->vocab_size; i++)
            if (b->values[i] == least) b->keys[b->count++] = sort_key(least, (uint32_t)i);
    }
    sort_keys(b->keys, b->scratch, b->count);
    b->sorted = true;
}

/* The tokens of at least `least`, in the order of ids. */
static void select_above(baseline *b, float least)
{
    b->count = 0;
    for (int64_t i = 0; i < b->vocab_size; i++)
        if (b->values[i] >= least) b->keys[b->count++] = sort_key(b->values[i], (uint32_t)i);
    b->sorted = false;
}

/* ---- filters on candidates ---- */

static void sort_candidates(baseline *b)
{
    if (!b->sorted) sort_keys(b->keys, b->scratch, b->count);
    b->sorted = true;
}

/* Cuts sorted candidates after the first n, or after those that equal the last of them. */
static void cut(baseline *b, int64_t n, int32_t ties)
{
    if (ties == TOMBOLA_TIES_ALL)
        while (n < b->count && b->keys[n] >> 32 == b->keys[n - 1] >> 32) n++;
    if (n < b->count) b->count = n;
}

/* The weights of the candidates; returns their sum. */
static double weigh(baseline *b, float maximum, float temperature)
{
    double sum = 0;
    float scale = 1 / temperature;
    for (int64_t i = 0; i < b->count; i++) {
        b->weights[i] = expf((sort_value(b->keys[i]) - maximum) * scale);
        sum += (double)b->weights[i];
    }
    return sum;
}

static int64_t count_by_mass(baseline *b, float p, float maximum, float temperature)
{
    double limit = (double)p * weigh(b, maximum, temperature), sum = 0;
    int64_t n = 0;
    while (n < b->count && (n == 0 || sum < limit)) sum += (double)b->weights[n++];
    return n;
}

static void apply(baseline *b, const tombola_step *step, int32_t ties, float maximum, float temperature)
{
    sort_candidates(b);
    int64_t n = b->count;
    if (cuts_by_count(step) && step->k > 0 && step->k < n) n = step->k;
    if ((step->kind == TOMBOLA_TOP_P || step->kind == TOMBOLA_TOP_K_TOP_P) && step->value < 1) {
        int64_t by_mass = count_by_mass(b, step->value, maximum, temperature);
        if (by_mass < n) n = by_mass;
    }
    if (step->kind == TOMBOLA_MIN_P && step->value > 0) {
        float least = maximum + temperature * logf(step->value < 1 ? step->value : 1);
        for (n = 1; n < b->count && sort_value(b->keys[n]) >= least;) n++;
    }
    cut(b, n, ties);
}

/* ---- the draw ---- */

static int32_t draw_candidate(baseline *b, float maximum, float temperature, double u, bool by_id)
{
    if (by_id && b->sorted) { /* ids in the upper half, so that the same sort puts them in order */
        for (int64_t i = 0; i < b->count; i++) b->keys[i] = b->keys[i] << 32 | b->keys[i] >> 32;
        sort_keys(b->keys, b->scratch, b->count);
        for (int64_t i = 0; i < b->count; i++) b->keys[i] = b->keys[i] << 32 | b->keys[i] >> 32;
    }
    double target = u * weigh(b, maximum, temperature), sum = 0;
    for (int64_t i = 0; i < b->count; i++) {
        sum += (double)b->weights[i];
        if (sum > target) return (int32_t)sort_id(b->keys[i]);
    }
    return (int32_t)sort_id(b->keys[b->count - 1]);
}

/* Without filters: no candidates at all. */
static int32_t draw_from_all(baseline *b, float maximum, float temperature, double u)
{
    double sum = 0;
    float scale = 1 / temperature;
    for (int64_t i = 0; i < b->vocab_size; i++) {
        b->weights[i] = expf((b->values[i] - maximum) * scale);
        sum += (double)b->weights[i];
    }
    double target = u * sum;
    sum = 0;
    int64_t i = 0;
    for (; i < b->vocab_size - 1; i++) {
        sum += (double)b->weights[i];
        if (sum > target) break;
    }
    return (int32_t)i;
}

int32_t baseline_draw(baseline *b, const void *row, int32_t dtype, const tombola_step *steps,
                      int32_t step_count, int32_t ties, uint64_t random, bool by_id)
{
    widen(b, row, dtype);
    double u = (double)random * 0x1p-64;
    float temperature = 1;
    bool greedy = false;
    int32_t s = 0;
    for (; s < step_count && !is_filter(&steps[s]); s++) temperature = steps[s].value;
    for (int32_t i = 0; i < step_count; i++) greedy |= !is_filter(&steps[i]) && steps[i].value == 0;
    if (greedy) {
        float maximum = find_maximum(b);
        int32_t i = 0;
        while (b->values[i] != maximum) i++;
        return i;
    }
    if (s == step_count) return draw_from_all(b, find_maximum(b), temperature, u);

    const tombola_step *first = &steps[s];
    float maximum;
    if (first->kind == TOMBOLA_TOP_K && first->k > 0 && first->k < b->vocab_size / 4) {
        select_greatest(b, first->k, ties);
        maximum = sort_value(b->keys[0]);
        s++;
    } else {
        bool by_value = first->kind == TOMBOLA_MIN_P && first->value > 0;
        maximum = find_maximum(b);
        select_above(b, by_value ? maximum + temperature * logf(first->value < 1 ? first->value : 1)
                                 : -INFINITY);
        s += by_value;
    }
    for (; s < step_count; s++) {
        if (is_filter(&steps[s]))
            apply(b, &steps[s], ties, maximum, temperature);
        else
            temperature = steps[s].value;
    }
    return draw_candidate(b, maximum, temperature, u, by_id);
}
