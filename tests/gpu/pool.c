#include "pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

static const struct {
    const char *name;
    int count;
    int32_t kinds[4];
} CHAINS[] = {
    {"temperature, min_p, top_k, top_p",
     4,
     {TOMBOLA_TEMPERATURE, TOMBOLA_MIN_P, TOMBOLA_TOP_K, TOMBOLA_TOP_P}},
    {"temperature, top_k_top_p", 2, {TOMBOLA_TEMPERATURE, TOMBOLA_TOP_K_TOP_P}},
    {"top_k", 1, {TOMBOLA_TOP_K}},
    {"top_p", 1, {TOMBOLA_TOP_P}},
    {"min_p", 1, {TOMBOLA_MIN_P}},
    {"temperature", 1, {TOMBOLA_TEMPERATURE}},
    {"top_k_top_p", 1, {TOMBOLA_TOP_K_TOP_P}},
};
const int pool_chains = (int)(sizeof CHAINS / sizeof *CHAINS);

static void *array(size_t n)
{
    void *p = malloc(n ? n : 1);
    if (!p) abort();
    return p;
}

/* Ordinary values mostly, off values and greedy rows among them. */
static float pick_value(int32_t kind, rng *r)
{
    double u = rng_uniform(r);
    if (kind == TOMBOLA_TEMPERATURE)
        return rng_one_in(r, 5) ? 0.0f : rng_one_in(r, 3) ? 1.0f : (float)(0.3 + 1.4 * u);
    if (kind == TOMBOLA_MIN_P) return rng_one_in(r, 3) ? 0.0f : (float)(u * u * 0.2);
    return rng_one_in(r, 3) ? 1.0f : rng_one_in(r, 2) ? 0.9f : (float)(0.3 + 0.7 * u);
}

static int32_t pick_k(int64_t vocab_size, rng *r)
{
    if (rng_one_in(r, 4)) return 0;
    if (rng_one_in(r, 4)) return (int32_t)(1 + rng_below(r, vocab_size));
    return (int32_t)(1 + rng_below(r, 100));
}

void pool_make(pool *p, uint64_t seed, int chain, int32_t dtype, int64_t vocab_size, int64_t rows,
               unsigned mask)
{
    rng r = {seed};
    memset(p, 0, sizeof *p);
    tombola_call *call = &p->call;
    *call = (tombola_call)TOMBOLA_CALL_INIT;
    call->dtype = dtype;
    call->vocab_size = vocab_size;
    call->rows = rows;
    call->source_rows = call->slot_count = rows;
    call->draws = 2;
    call->kept_capacity = 64;
    call->top_count = 5;
    call->steps = p->steps;
    call->step_count = CHAINS[chain].count;
    p->seeds = array((size_t)rows * 8);
    p->offsets = array((size_t)rows * 8);
    for (int64_t i = 0; i < rows; i++) {
        p->seeds[i] = rng_next(&r);
        p->offsets[i] = rng_next(&r) >> rng_below(&r, 64);
    }
    call->seeds = p->seeds;
    call->offsets = p->offsets;
    for (int k = 0; k < call->step_count; k++) {
        p->k[k] = array((size_t)rows * 4);
        p->value[k] = array((size_t)rows * 4);
        p->steps[k] = (tombola_step){
            .kind = CHAINS[chain].kinds[k], .k_per_slot = p->k[k], .value_per_slot = p->value[k]};
        for (int64_t i = 0; i < rows; i++) {
            p->k[k][i] = pick_k(vocab_size, &r);
            p->value[k][i] = pick_value(p->steps[k].kind, &r);
        }
    }
    source_make(&p->rows, dtype, rows, vocab_size, 0);
    call->data = p->rows.data;
    float *x = array((size_t)vocab_size * 4);
    unsigned char *bits = array((size_t)vocab_size * p->rows.element);
    for (int64_t i = 0; i < rows; i++) { /* half of the rows are zipf, as a model's */
        row_fill(TOMBOLA_LOGITS, rng_one_in(&r, 2) ? 1 : (int)rng_below(&r, row_kinds(TOMBOLA_LOGITS)), x,
                 vocab_size, &r);
        for (int64_t j = 0; j < vocab_size; j++) {
            uint32_t b = source_bits(dtype, x[j]);
            memcpy(bits + p->rows.element * (size_t)j, &b, p->rows.element);
        }
        source_put(&p->rows, i, bits, vocab_size);
    }
    free(bits);
    free(x);
    snprintf(p->text, sizeof p->text, "pool seed %llu, %s, dtype %d, V=%lld", (unsigned long long)seed,
             CHAINS[chain].name, dtype, (long long)vocab_size);

    outputs_make(&p->expected, call, mask);
    outputs_bind(&p->expected, call);
    call->backend = TOMBOLA_BACKEND_REFERENCE;
    call->threads = 1;
    tombola_error error = {0};
    if (run_call(variants[0].context, call, &error)) {
        fprintf(stderr, "%s: the reference: %s\n", p->text, error.message);
        exit(70);
    }
    outputs none = p->expected;
    none.mask = 0;
    outputs_bind(&none, call);
}

void pool_free(pool *p)
{
    outputs_free(&p->expected);
    source_free(&p->rows);
    free(p->seeds);
    free(p->offsets);
    for (int k = 0; k < 4; k++) free(p->k[k]), free(p->value[k]);
}

/* Copies the pool's outputs of row `from` to row `to`. */
static void put_row(outputs *out, const tombola_call *call, int64_t to, const pool *p, int64_t from)
{
    for (int i = 0; i < OUT_COUNT; i++) {
        if (!(out->mask >> i & 1)) continue;
        size_t element = output_element(i, call);
        memcpy(out->memory + out->place[i] + element * (size_t)(to * output_stride(i, call)),
               p->expected.memory + p->expected.place[i] +
                   element * (size_t)(from * output_stride(i, &p->call)),
               element * (size_t)output_width(i, call));
    }
}

bool pool_check(const pool *p, const tombola_context *context, const batch *how, rng *r, char *text,
                size_t capacity)
{
    tombola_call call = p->call;
    int64_t v = call.vocab_size;
    int32_t *index = array((size_t)how->rows * 4);
    source made = {0}, after = {0};
    for (int64_t i = 0; i < how->rows; i++) index[i] = (int32_t)rng_below(r, p->call.rows);
    call.rows = how->rows;
    call.slot_index = index;
    call.backend = TOMBOLA_BACKEND_CUDA;
    if (how->gap) call.probabilities_stride = v + how->gap, call.masked_stride = v + how->gap + 1;
    unsigned mask = p->expected.mask;
    bool in_place = how->in_place && mask >> OUT_MASKED & 1;
    if (in_place) mask &= ~(1u << OUT_MASKED);
    if (how->stride) {
        call.source_rows = call.rows;
        call.row_stride = how->stride;
        source_make(&made, call.dtype, call.rows, how->stride, how->shift);
        for (int64_t i = 0; i < call.rows; i++)
            source_put(&made, i, (char *)p->rows.data + p->rows.element * (size_t)(index[i] * v), v);
        call.data = made.data;
    } else {
        call.row_index = index;
    }
    outputs expected, got;
    outputs_make(&expected, &call, mask);
    outputs_make(&got, &call, mask);
    outputs_bind(&got, &call);
    for (int64_t i = 0; i < call.rows; i++) put_row(&expected, &call, i, p, index[i]);
    if (in_place) {
        source_make(&after, call.dtype, call.rows, how->stride, how->shift);
        for (int64_t i = 0; i < call.rows; i++)
            source_put(&after, i,
                       p->expected.memory + p->expected.place[OUT_MASKED] +
                           p->rows.element * (size_t)(index[i] * v),
                       v);
        call.masked_logits = made.data;
    }
    tombola_error error = {0};
    tombola_result result = run_call(context, &call, &error);
    bool same = result == TOMBOLA_OK;
    if (!same)
        snprintf(text, capacity, "%s: %s", tombola_result_string(result), error.message);
    else
        same = outputs_same(&expected, &got, &call, text, capacity);
    if (same && in_place)
        same = elements_same("masked_logits in place", after.memory, made.memory, made.bytes, made.element, 0,
                             text, capacity);
    outputs_free(&expected);
    outputs_free(&got);
    source_free(&made);
    source_free(&after);
    free(index);
    return same;
}
