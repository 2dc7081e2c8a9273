/* A million rows of mixed vocabularies, ragged, each with its own parameters, against the cpu backend. */
#include "suites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outputs.h"
#include "random.h"
#include "rows.h"
#include "source.h"

#define ROWS 1000000
#define BATCH 8000
#define ELEMENTS (INT64_C(1) << 23) /* of the buffer that rows are cut from */
#define SLOTS 512
#define OUTPUTS                                                                                              \
    (1u << OUT_TOKENS | 1u << OUT_STATUS | 1u << OUT_LOGPROBS | 1u << OUT_RANKS | 1u << OUT_KEPT_COUNT |     \
     1u << OUT_KEPT_MASS | 1u << OUT_TOTAL_MASS)

typedef struct soak {
    unsigned char *elements[3]; /* by dtype */
    tombola_context *host;      /* with all threads */
} soak;

/* Stretches of every kind of row, some thousand elements each. */
static void fill(soak *k, rng *r)
{
    float x[4096];
    for (int d = 0; d < 3; d++) {
        size_t element = d == TOMBOLA_F32 ? 4 : 2;
        k->elements[d] = malloc((size_t)ELEMENTS * element);
        if (!k->elements[d]) abort();
        for (int64_t at = 0; at < ELEMENTS; at += 4096) {
            row_fill(TOMBOLA_LOGITS, rng_one_in(r, 2) ? 1 : (int)rng_below(r, row_kinds(TOMBOLA_LOGITS)), x,
                     4096, r);
            for (int64_t i = 0; i < 4096; i++) {
                uint32_t bits = source_bits(d, x[i]);
                memcpy(k->elements[d] + element * (size_t)(at + i), &bits, element);
            }
        }
    }
}

static int32_t pick_length(rng *r, int64_t greatest)
{
    if (greatest > 8192 && rng_one_in(r, 2)) return (int32_t)(8192 + rng_below(r, greatest - 8191));
    if (rng_one_in(r, 3)) return (int32_t)(1 + rng_below(r, 8192));
    return (int32_t)(1 + rng_below(r, rng_one_in(r, 2) ? 1000 : 64));
}

/* Host memory for the arrays of one batch, malloc's, so that run_call can copy it. */
typedef struct arrays {
    int64_t *start;
    int32_t *length, *slot, *k;
    float *temperature, *min_p, *top_p;
    uint64_t *seeds, *offsets;
} arrays;

static arrays make_arrays(int64_t rows, int64_t greatest, rng *r)
{
    arrays a = {malloc((size_t)rows * 8), malloc((size_t)rows * 4), malloc((size_t)rows * 4),
                malloc(SLOTS * 4),        malloc(SLOTS * 4),        malloc(SLOTS * 4),
                malloc(SLOTS * 4),        malloc(SLOTS * 8),        malloc(SLOTS * 8)};
    if (!a.start || !a.length || !a.slot || !a.k || !a.temperature || !a.min_p || !a.top_p || !a.seeds ||
        !a.offsets)
        abort();
    for (int64_t i = 0; i < rows; i++) {
        a.length[i] = pick_length(r, greatest);
        a.start[i] = rng_below(r, ELEMENTS - a.length[i] + 1);
        a.slot[i] = (int32_t)rng_below(r, SLOTS);
    }
    for (int i = 0; i < SLOTS; i++) {
        a.k[i] = rng_one_in(r, 3) ? 0 : (int32_t)(1 + rng_below(r, rng_one_in(r, 4) ? greatest : 100));
        a.temperature[i] = rng_one_in(r, 5)   ? 0.0f
                           : rng_one_in(r, 3) ? 1.0f
                                              : (float)(0.2 + 2.0 * rng_uniform(r));
        a.min_p[i] = rng_one_in(r, 2) ? 0.0f : (float)(0.2 * rng_uniform(r));
        a.top_p[i] = rng_one_in(r, 3) ? 1.0f : (float)rng_uniform(r);
        a.seeds[i] = rng_next(r);
        a.offsets[i] = rng_next(r);
    }
    return a;
}

static void free_arrays(arrays *a)
{
    free(a->start), free(a->length), free(a->slot), free(a->k), free(a->temperature);
    free(a->min_p), free(a->top_p), free(a->seeds), free(a->offsets);
}

static int64_t run_batch(suite *s, const soak *k, int64_t number, rng *r)
{
    const variant *v = &variants[number % 2 ? number / 2 % variant_count : 0];
    int64_t greatest = number % 16 == 3 ? 131072 : number % 16 == 9 ? 32768 : 8192;
    int64_t rows = greatest > 32768 ? 300 : greatest > 8192 ? 1500 : BATCH;
    arrays a = make_arrays(rows, greatest, r);
    /* The chain lengthens from batch to batch: all four steps, the last three, two, one, none. */
    const tombola_step all[] = {
        {.kind = TOMBOLA_TEMPERATURE, .value_per_slot = a.temperature},
        {.kind = TOMBOLA_MIN_P, .value_per_slot = a.min_p},
        {.kind = TOMBOLA_TOP_K, .k_per_slot = a.k},
        {.kind = TOMBOLA_TOP_P, .value_per_slot = a.top_p},
        {.kind = TOMBOLA_TOP_K_TOP_P, .k_per_slot = a.k, .value_per_slot = a.top_p},
    };
    static const int FIRST[] = {0, 0, 2, 3, 4, 1, 0}, COUNT[] = {4, 0, 1, 1, 1, 1, 1};
    int chain = (int)rng_below(r, 7);
    tombola_call call = TOMBOLA_CALL_INIT;
    call.dtype = (int32_t)(number % 3);
    call.data = k->elements[call.dtype], call.data_size = ELEMENTS;
    call.rows = rows, call.vocab_size = greatest, call.row_start = a.start, call.row_length = a.length;
    call.slot_index = a.slot, call.slot_count = SLOTS, call.seeds = a.seeds, call.offsets = a.offsets;
    call.steps = all + FIRST[chain], call.step_count = COUNT[chain];
    call.ties = (int32_t)rng_below(r, 2);

    outputs expected, got;
    outputs_make(&expected, &call, OUTPUTS);
    outputs_make(&got, &call, OUTPUTS);
    tombola_error error = {0};
    char text[512] = "";
    outputs_bind(&expected, &call);
    call.backend = TOMBOLA_BACKEND_CPU;
    bool good = !run_call(k->host, &call, &error);
    if (!good) suite_check(s, false, "batch %lld: the cpu backend: %s", (long long)number, error.message);
    outputs_bind(&got, &call);
    call.backend = TOMBOLA_BACKEND_CUDA;
    tombola_result result = good ? run_call(v->context, &call, &error) : TOMBOLA_OK;
    if (result == TOMBOLA_ERROR_UNSUPPORTED &&
        v != variants) /* the forced variant does not do it: the plan's */
        v = variants, result = run_call(v->context, &call, &error);
    if (result == TOMBOLA_ERROR_UNSUPPORTED) {
        suite_unserved(s, error.message);
    } else if (good) {
        bool same = !result && outputs_same(&expected, &got, &call, text, sizeof text);
        if (same)
            atomic_fetch_add(&s->passed, rows);
        else
            suite_check(s, false, "batch %lld, variant %s, chain %d, V <= %lld: %s%s", (long long)number,
                        v->name, chain, (long long)greatest, error.message, text);
    }
    outputs_free(&expected);
    outputs_free(&got);
    free_arrays(&a);
    return rows;
}

void suite_soak(suite *s)
{
    rng r = {options.seed};
    soak k = {0};
    tombola_options host = {.struct_size = sizeof host, .threads = options.threads, .cuda = -1};
    tombola_error error;
    if (tombola_context_create(&host, &k.host, &error)) {
        suite_check(s, false, "%s", error.message);
        return;
    }
    fill(&k, &r);
    int64_t wanted = options.count ? options.count : ROWS, done = 0;
    for (int64_t i = 0; done < wanted; i++) done += run_batch(s, &k, i, &r);
    for (int d = 0; d < 3; d++) free(k.elements[d]);
    tombola_context_destroy(k.host);
}
