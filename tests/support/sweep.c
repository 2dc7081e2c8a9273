#include "sweep.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"
#include "run.h"

static const char *const STEP_NAMES[] = {"?", "temperature", "top_k", "top_p", "min_p", "top_k_top_p"};
static const char *const DTYPE_NAMES[] = {"f32", "f16", "bf16"};
static const char *const METHOD_NAMES[] = {"exact", "rejection", "dual_pivot"};

/* Memory that sweep_free frees. */
static void *array(sweep_case *c, size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p || c->array_count == (int)(sizeof c->arrays / sizeof *c->arrays)) abort();
    return c->arrays[c->array_count++] = p;
}

__attribute__((format(printf, 2, 3))) static void say(sweep_case *c, const char *format, ...)
{
    size_t used = strlen(c->text);
    va_list values;
    va_start(values, format);
    vsnprintf(c->text + used, sizeof c->text - used, format, values);
    va_end(values);
}

static int64_t pick_vocab_size(rng *r, int64_t greatest)
{
    static const int64_t LARGE[] = {32000, 128256, 151936, 262144};
    int64_t n;
    switch (rng_below(r, 20)) {
    case 0:
    case 1:
    case 2:
    case 3: n = 1 + rng_below(r, 40); break;
    case 4:
    case 5:
    case 6:
    case 7: n = 1 + rng_below(r, 1000); break;
    case 8:
    case 9:
    case 10:
    case 11: n = 1 + rng_below(r, 10000); break;
    case 12: n = (int64_t)16 << rng_below(r, 12); break;
    case 13: n = ((int64_t)16 << rng_below(r, 12)) + (rng_one_in(r, 2) ? 1 : -1); break;
    case 14: n = LARGE[rng_below(r, rng_one_in(r, 3) ? 4 : 1)]; break;
    case 15:
    case 16: n = 1024 * (1 + rng_below(r, 60)) + rng_below(r, 513) - 256; break; /* about whole blocks */
    default: n = 1 + rng_below(r, 70000);
    }
    return n < greatest ? n : 1 + n % greatest;
}

static int32_t pick_k(rng *r, int64_t vocab_size)
{
    static const int32_t SOME[] = {INT32_MIN, -1, 0, 1, 2, 20, 40, 50, 64, 100, 1000, INT32_MAX};
    switch (rng_below(r, 4)) {
    case 0: return SOME[rng_below(r, sizeof SOME / sizeof *SOME)];
    case 1: return (int32_t)(1 + rng_below(r, vocab_size));
    case 2: return (int32_t)(vocab_size - 1 + rng_below(r, 3));
    default: return (int32_t)(1 + rng_below(r, 100));
    }
}

/* A fraction for top_p (which ends near 1) or min_p (which ends near 0). */
static float pick_fraction(rng *r, bool near_zero)
{
    static const float SOME[] = {-1.0f, -0.0f,  0.0f,           0x1p-149f, 0x1p-40f, 1e-10f,   0.05f,    0.5f,
                                 0.9f,  0.999f, 0x1.fffffep-1f, 1.0f,      2.0f,     INFINITY, -INFINITY};
    double u = rng_uniform(r);
    switch (rng_below(r, 5)) {
    case 0: return SOME[rng_below(r, sizeof SOME / sizeof *SOME)];
    case 1: return (float)u;
    case 2: return (float)(near_zero ? u * u * 0.2 : 1.0 - u * u * 0.2);
    case 3: return near_zero ? (float)exp2(-u * 45.0) : (float)(1.0 - exp2(-u * 30.0));
    default: return near_zero ? 0.05f : 0.9f;
    }
}

static float pick_temperature(rng *r)
{
    static const float SOME[] = {0.0f, -0.0f, 1e-45f, 1e-38f, 1e-30f, 0.01f, 2.0f, 100.0f, 1e30f, INFINITY};
    if (rng_one_in(r, 5)) return SOME[rng_below(r, sizeof SOME / sizeof *SOME)];
    return rng_one_in(r, 2) ? 0.8f : (float)(rng_uniform(r) * 2.0);
}

static float pick_value(rng *r, int32_t kind)
{
    if (rng_one_in(r, 200)) return NAN;
    if (kind == TOMBOLA_TEMPERATURE) return rng_one_in(r, 200) ? -1.0f : pick_temperature(r);
    return pick_fraction(r, kind == TOMBOLA_MIN_P);
}

static void make_chain(sweep_case *c, rng *r)
{
    tombola_call *call = &c->call;
    bool logits = call->kind == TOMBOLA_LOGITS;
    int32_t n = (int32_t)rng_below(r, rng_one_in(r, 20) ? TOMBOLA_MAX_STEPS + 1 : 5);
    bool array_used = false;
    for (int32_t i = 0; i < n; i++) {
        tombola_step *step = &c->steps[i];
        step->kind = logits && rng_one_in(r, 3) ? TOMBOLA_TEMPERATURE : (int32_t)(2 + rng_below(r, 4));
        bool last = i == n - 1;
        if (last && call->method != TOMBOLA_EXACT && step->kind == TOMBOLA_TEMPERATURE)
            step->kind = TOMBOLA_TOP_P;
        step->k = pick_k(r, call->vocab_size);
        step->value = pick_value(r, step->kind);
        say(c, " %s(", STEP_NAMES[step->kind]);
        if (step->kind == TOMBOLA_TOP_K || step->kind == TOMBOLA_TOP_K_TOP_P) say(c, "k %d ", step->k);
        if (step->kind != TOMBOLA_TOP_K) say(c, "%a", step->value);
        if (!array_used && rng_one_in(r, 8)) { /* one step at most, so that 16 arrays are enough */
            array_used = true;
            int32_t *k = array(c, (size_t)call->slot_count * 4);
            float *value = array(c, (size_t)call->slot_count * 4);
            for (int64_t s = 0; s < call->slot_count; s++) {
                k[s] = pick_k(r, call->vocab_size);
                value[s] = pick_value(r, step->kind);
                say(c, "; slot %lld: k %d, %a", (long long)s, k[s], value[s]);
            }
            step->k_per_slot = k;
            step->value_per_slot = value;
        }
        say(c, ")");
    }
    call->steps = c->steps;
    call->step_count = n;
}

static void make_source(sweep_case *c, rng *r)
{
    tombola_call *call = &c->call;
    int64_t v = call->vocab_size, gap = rng_one_in(r, 2) ? 0 : rng_below(r, 40);
    int which =
        (int)rng_below(r, rng_one_in(r, 2) ? 3 : row_kinds(call->kind)); /* the first are the usual ones */
    call->row_stride = v + gap;
    source_make(&c->rows, call->dtype, call->source_rows, v + gap, rng_one_in(r, 2) ? 0 : rng_below(r, 17));
    call->data = c->rows.data;
    float *x = malloc((size_t)v * 4);
    if (!x) abort();
    unsigned char *bits = malloc((size_t)v * c->rows.element);
    if (!bits) abort();
    say(c, "; rows of kind");
    for (int64_t row = 0; row < call->source_rows; row++) {
        if (row && rng_one_in(r, 3)) which = (int)rng_below(r, row_kinds(call->kind));
        say(c, " %s", row_kind_name(call->kind, which));
        row_fill(call->kind, which, x, v, r);
        for (int64_t i = 0; i < v; i++) {
            uint32_t b = source_bits(call->dtype, x[i]);
            memcpy(bits + c->rows.element * (size_t)i, &b, c->rows.element);
        }
        source_put(&c->rows, row, bits, v);
    }
    free(bits);
    free(x);
    if (rng_one_in(r, 6)) { /* ragged */
        int64_t *start = array(c, (size_t)call->source_rows * 8);
        int32_t *length = array(c, (size_t)call->source_rows * 4);
        for (int64_t row = 0; row < call->source_rows; row++) {
            length[row] = (int32_t)(rng_one_in(r, 4) ? v : rng_below(r, v + 1));
            start[row] = row * (v + gap) + rng_below(r, v - length[row] + 1);
            say(c, " [%lld, %d]", (long long)start[row], length[row]);
        }
        call->row_start = start;
        call->row_length = length;
    }
    call->data_size = rng_one_in(r, 2) ? 0 : call->source_rows * (v + gap);
    if (call->data_size && call->row_start && rng_one_in(r, 4)) { /* the last rows may end beyond it */
        call->data_size -= gap + 1 + rng_below(r, v);
        say(c, " data_size %lld", (long long)call->data_size);
    }
}

static void make_indices(sweep_case *c, rng *r)
{
    tombola_call *call = &c->call;
    if (rng_one_in(r, 4)) {
        int32_t *index = array(c, (size_t)call->rows * 4);
        call->source_rows = 1 + rng_below(r, call->rows);
        for (int64_t i = 0; i < call->rows; i++)
            index[i] =
                (int32_t)(rng_below(r, call->source_rows) + (rng_one_in(r, 50) ? call->source_rows : 0));
        call->row_index = index;
    }
    if (rng_one_in(r, 4)) {
        int32_t *slot = array(c, (size_t)call->rows * 4);
        call->slot_count = 1 + rng_below(r, 4);
        for (int64_t i = 0; i < call->rows; i++)
            slot[i] = (int32_t)(rng_below(r, call->slot_count) - rng_one_in(r, 50));
        call->slot_index = slot;
    }
}

static void make_randomness(sweep_case *c, rng *r)
{
    tombola_call *call = &c->call;
    call->seed = rng_next(r);
    call->offset = rng_one_in(r, 2) ? (uint64_t)rng_below(r, 1000) : rng_next(r);
    if (rng_one_in(r, 4)) {
        uint64_t *seeds = array(c, (size_t)call->slot_count * 8);
        for (int64_t i = 0; i < call->slot_count; i++) seeds[i] = rng_next(r);
        call->seeds = seeds;
    }
    if (rng_one_in(r, 4)) {
        uint64_t *offsets = array(c, (size_t)call->slot_count * 8);
        for (int64_t i = 0; i < call->slot_count; i++) offsets[i] = rng_next(r);
        call->offsets = offsets; /* not advanced: the same array serves several runs */
    }
    if (rng_one_in(r, 4)) {
        uint32_t *streams = array(c, (size_t)call->rows * 4);
        for (int64_t i = 0; i < call->rows; i++) streams[i] = (uint32_t)rng_next(r);
        call->streams = streams;
    }
    if (call->method == TOMBOLA_EXACT && rng_one_in(r, 5)) {
        size_t n = (size_t)(call->rows * call->draws);
        uint64_t *random = array(c, n * 8);
        for (size_t i = 0; i < n; i++)
            random[i] = rng_one_in(r, 4)   ? 0
                        : rng_one_in(r, 3) ? UINT64_MAX
                                           : rng_next(r) >> rng_below(r, 64);
        call->random = random;
    }
}

static void make_outputs(sweep_case *c, rng *r)
{
    static const unsigned TYPICAL[] = {
        /* a token alone is what backends have their shortest paths for */
        1u << OUT_TOKENS,
        1u << OUT_TOKENS,
        1u << OUT_TOKENS,
        1u << OUT_TOKENS | 1u << OUT_STATUS | 1u << OUT_LOGPROBS,
        1u << OUT_TOKENS | 1u << OUT_KEPT_COUNT | 1u << OUT_KEPT_MASS,
        1u << OUT_PROBABILITIES,
        1u << OUT_MASKED,
        1u << OUT_KEPT_IDS | 1u << OUT_KEPT_COUNT,
        1u << OUT_TOP_IDS,
        1u << OUT_TOP_IDS | 1u << OUT_TOP_LOGPROBS,
        1u << OUT_ENTROPY,
    };
    tombola_call *call = &c->call;
    int64_t v = call->vocab_size;
    call->kept_capacity = rng_one_in(r, 2) ? v : rng_below(r, 200);
    call->top_count = (int32_t)(rng_one_in(r, 8) ? rng_below(r, v + 3) : rng_below(r, 30));
    call->top_raw = rng_one_in(r, 2);
    call->given_count = (int32_t)rng_below(r, 12);
    int32_t *given = array(c, (size_t)call->rows * (size_t)call->given_count * 4);
    for (int64_t i = 0; i < call->rows * call->given_count; i++)
        given[i] = (int32_t)(rng_below(r, v + 2) - 1);
    call->given_ids = given;
    if (rng_one_in(r, 3)) call->probabilities_stride = v + rng_below(r, 20);
    if (rng_one_in(r, 3)) call->masked_stride = v + rng_below(r, 20);
    c->mask = rng_one_in(r, 4)    ? OUT_ALL
              : !rng_one_in(r, 3) ? TYPICAL[rng_below(r, sizeof TYPICAL / sizeof *TYPICAL)]
                                  : (unsigned)rng_next(r) & OUT_ALL;
    c->in_place = !call->row_index && rng_one_in(r, 6);
    if (c->in_place) c->mask &= ~(1u << OUT_MASKED);
}

void sweep_make(sweep_case *c, uint64_t seed, uint64_t index, const sweep_limits *limits)
{
    rng r = {seed ^ (index + 1) * 0xd1342543de82ef95u};
    memset(c, 0, sizeof *c);
    tombola_call *call = &c->call;
    *call = (tombola_call)TOMBOLA_CALL_INIT;
    call->vocab_size = pick_vocab_size(&r, limits && limits->vocab_size ? limits->vocab_size : 262144);
    int64_t v = call->vocab_size;
    call->rows = 1 + rng_below(&r, v > 20000 ? 2 : v > 2000 ? 4 : 9);
    if (limits && limits->rows && call->rows > limits->rows) call->rows = limits->rows;
    call->source_rows = call->slot_count = call->rows;
    call->kind = rng_one_in(&r, 4) ? TOMBOLA_PROBABILITIES : TOMBOLA_LOGITS;
    call->dtype = (int32_t)rng_below(&r, 3);
    call->ties = (int32_t)rng_below(&r, 2);
    call->method = rng_one_in(&r, 2) ? TOMBOLA_EXACT : (int32_t)rng_below(&r, 3);
    call->draws = (int32_t)(rng_one_in(&r, 3) ? 1 + rng_below(&r, v > 2000 ? 4 : 70) : 1);
    make_indices(c, &r);
    say(c,
        "%s %s V=%lld rows=%lld ties=%s method=%s draws=%d chain:", call->kind ? "probabilities" : "logits",
        DTYPE_NAMES[call->dtype], (long long)v, (long long)call->rows, call->ties ? "index" : "all",
        METHOD_NAMES[call->method], call->draws);
    make_chain(c, &r);
    make_source(c, &r);
    make_randomness(c, &r);
    make_outputs(c, &r);
    say(c, "; outputs 0x%x%s%s%s", c->mask, c->in_place ? ", masked in place" : "",
        call->row_index ? ", row_index" : "", call->slot_index ? ", slot_index" : "");
}

void sweep_free(sweep_case *c)
{
    for (int i = 0; i < c->array_count; i++) free(c->arrays[i]);
    source_free(&c->rows);
}

bool sweep_run(const sweep_case *c, const tombola_context *context, tombola_backend backend, int32_t threads,
               sweep_result *result, char *text, size_t capacity)
{
    tombola_call call = c->call;
    result->rows = c->rows;
    result->rows.memory = malloc(c->rows.bytes);
    if (!result->rows.memory) abort();
    memcpy(result->rows.memory, c->rows.memory, c->rows.bytes);
    result->rows.data = result->rows.memory + ((unsigned char *)c->rows.data - c->rows.memory);
    call.data = result->rows.data;
    call.backend = backend;
    call.threads = threads;
    outputs_make(&result->out, &call, c->mask);
    outputs_bind(&result->out, &call);
    if (c->in_place) call.masked_logits = result->rows.data;
    tombola_error error = {0};
    tombola_result code = run_call(context, &call, &error);
    if (code) snprintf(text, capacity, "%s: %s", tombola_result_string(code), error.message);
    return code == TOMBOLA_OK;
}

bool sweep_same(const sweep_case *c, const sweep_result *expected, const sweep_result *got, char *text,
                size_t capacity)
{
    return outputs_same(&expected->out, &got->out, &c->call, text, capacity) &&
           elements_same(c->in_place ? "masked_logits in place" : "the source", expected->rows.memory,
                         got->rows.memory, got->rows.bytes, got->rows.element, 0, text, capacity);
}

void sweep_result_free(sweep_result *result)
{
    outputs_free(&result->out);
    source_free(&result->rows);
}
