/* Random calls, and every kind of row by every kind of chain: cuda against the reference. */
#include "suites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rows.h"
#include "sweep.h"

#define DEFAULT_COUNT 40000

/* Runs a case on the reference, on the plan's choice and on the variants whose turn it is. */
static void check_case(suite *s, const sweep_case *c, int64_t i)
{
    char text[512], what[1200];
    sweep_result expected, got;
    bool good = sweep_run(c, variants[0].context, TOMBOLA_BACKEND_REFERENCE, 1, &expected, text, sizeof text);
    if (!good) suite_check(s, false, "the reference: %s: %s", text, c->text);
    for (int v = 0; good && v < variant_count; v++) {
        if (!variant_turn(v, i, 3)) continue;
        bool same = sweep_run(c, variants[v].context, TOMBOLA_BACKEND_CUDA, 1, &got, text, sizeof text) &&
                    sweep_same(c, &expected, &got, text, sizeof text);
        snprintf(what, sizeof what, "variant %s, %s", variants[v].name, c->text);
        suite_result(s, same, text, what);
        sweep_result_free(&got);
    }
    sweep_result_free(&expected);
}

static void random_case(suite *s, void *job, int64_t i)
{
    const sweep_limits *limits = job;
    sweep_case c;
    sweep_make(&c, options.seed, (uint64_t)i, limits);
    size_t used = strlen(c.text);
    snprintf(c.text + used, sizeof c.text - used, "; again: --seed %llu, case %lld",
             (unsigned long long)options.seed, (long long)i);
    check_case(s, &c, i);
    sweep_free(&c);
}

void suite_random(suite *s)
{
    sweep_limits limits = {0};
    suite_parallel(s, random_case, &limits, options.count ? options.count : DEFAULT_COUNT);
}

/* ---- parts: a draw with outputs that other kernels have, under the chains that engines send ---- */

static void parts_chain(sweep_case *c, rng *r)
{
    static const int32_t FILTERS[][2] = {{0, 0},
                                         {TOMBOLA_TOP_K, 0},
                                         {TOMBOLA_TOP_K_TOP_P, 0},
                                         {TOMBOLA_TOP_K, TOMBOLA_TOP_P},
                                         {TOMBOLA_MIN_P, TOMBOLA_TOP_K},
                                         {TOMBOLA_TOP_P, TOMBOLA_TOP_K},
                                         {TOMBOLA_MIN_P, 0}};
    static const float TEMPERATURES[] = {0.0f, 0.7f, 1.5f, 30.0f, 1e31f, INFINITY};
    int32_t n = 0;
    memset(c->steps, 0, sizeof c->steps);
    if (rng_one_in(r, 2))
        c->steps[n++] = (tombola_step){.kind = TOMBOLA_TEMPERATURE, .value = TEMPERATURES[rng_below(r, 6)]};
    const int32_t *filters = FILTERS[rng_below(r, 7)];
    for (int i = 0; i < 2 && filters[i]; i++)
        c->steps[n++] = (tombola_step){.kind = filters[i],
                                       .k = (int32_t)(1 + rng_below(r, rng_one_in(r, 4) ? 100 : 64)),
                                       .value = filters[i] == TOMBOLA_MIN_P ? 0.01f : 0.9f};
    c->call.step_count = n;
}

static void parts_case(suite *s, void *job, int64_t i)
{
    static const unsigned BESIDE[] = {
        1u << OUT_ENTROPY,
        1u << OUT_RAW_LOGPROBS,
        1u << OUT_RAW_LOGPROBS | 1u << OUT_TOP_IDS | 1u << OUT_TOP_LOGPROBS,
        1u << OUT_TOP_IDS | 1u << OUT_TOP_LOGPROBS | 1u << OUT_ENTROPY,
        1u << OUT_PROBABILITIES,
        1u << OUT_MASKED | 1u << OUT_RAW_LOGPROBS,
        1u << OUT_PROBABILITIES | 1u << OUT_MASKED | 1u << OUT_TOP_IDS | 1u << OUT_TOP_LOGPROBS,
        1u << OUT_GIVEN_RAW_LOGPROBS | 1u << OUT_PROBABILITIES,
    };
    static const unsigned OFTEN[] = {0, 1u << OUT_STATUS | 1u << OUT_LOGPROBS,
                                     1u << OUT_KEPT_COUNT | 1u << OUT_KEPT_MASS, 1u << OUT_KEPT_IDS,
                                     1u << OUT_TOTAL_MASS};
    sweep_case c;
    sweep_make(&c, ~options.seed, (uint64_t)i, job);
    rng r = {options.seed ^ (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u};
    if (c.call.kind == TOMBOLA_LOGITS) {
        c.call.method = TOMBOLA_EXACT;
        c.call.draws = 1;
        c.call.top_raw = !rng_one_in(&r, 8);
        if (!rng_one_in(&r, 4)) parts_chain(&c, &r);
        c.mask = 1u << OUT_TOKENS | BESIDE[rng_below(&r, 8)] | OFTEN[rng_below(&r, 5)];
        if (c.in_place) c.mask &= ~(1u << OUT_MASKED);
        size_t used = strlen(c.text);
        snprintf(c.text + used, sizeof c.text - used,
                 "; as parts: outputs 0x%x, %d steps; --seed %llu, case %lld", c.mask, c.call.step_count,
                 (unsigned long long)options.seed, (long long)i);
        check_case(s, &c, i);
    }
    sweep_free(&c);
}

void suite_parts(suite *s)
{
    sweep_limits limits = {0};
    suite_parallel(s, parts_case, &limits, options.count ? options.count : DEFAULT_COUNT / 2);
}

/* ---- anomalies ---- */

#define F(kind_, value_)                                                                                     \
    {                                                                                                        \
        .kind = kind_, .value = value_                                                                       \
    }

static const struct {
    int count;
    tombola_step steps[4];
} CHAINS[] = {
    {0, {{0}}},
    {1, {F(TOMBOLA_TEMPERATURE, 0.0f)}},
    {1, {F(TOMBOLA_TEMPERATURE, 0.7f)}},
    {1, {{.kind = TOMBOLA_TOP_K, .k = 1}}},
    {1, {{.kind = TOMBOLA_TOP_K, .k = 50}}},
    {1, {F(TOMBOLA_TOP_P, 0.9f)}},
    {1, {F(TOMBOLA_TOP_P, 0.0f)}},
    {1, {F(TOMBOLA_MIN_P, 0.05f)}},
    {1, {F(TOMBOLA_MIN_P, 1.0f)}},
    {1, {{.kind = TOMBOLA_TOP_K_TOP_P, .k = 50, .value = 0.9f}}},
    {4,
     {F(TOMBOLA_TEMPERATURE, 1.3f),
      F(TOMBOLA_MIN_P, 0.01f),
      {.kind = TOMBOLA_TOP_K, .k = 40},
      F(TOMBOLA_TOP_P, 0.95f)}},
    {3, {{.kind = TOMBOLA_TOP_K, .k = 700}, F(TOMBOLA_TEMPERATURE, 1e-30f), F(TOMBOLA_TOP_P, 0.999f)}},
    {2, {F(TOMBOLA_TOP_P, 0.999f), F(TOMBOLA_TEMPERATURE, INFINITY)}},
    {2, {F(TOMBOLA_TEMPERATURE, -1.0f), F(TOMBOLA_TOP_P, 0.9f)}},
    {1, {F(TOMBOLA_MIN_P, NAN)}},
    /* the candidates lie in a few of the streaming kernels' bins */
    {2, {F(TOMBOLA_TEMPERATURE, 30.0f), {.kind = TOMBOLA_TOP_K, .k = 34}}},
    /* all weigh the same, or nearly, however far apart; x - m may overflow */
    {2, {F(TOMBOLA_TEMPERATURE, INFINITY), F(TOMBOLA_TOP_P, 0.999f)}},
    {2, {F(TOMBOLA_TEMPERATURE, 3e38f), F(TOMBOLA_TOP_P, 0.05f)}},
};
#define CHAIN_COUNT ((int64_t)(sizeof CHAINS / sizeof *CHAINS))
#define GREEDY_CHAIN 1

static const int64_t SIZES[] = {1, 2, 33, 1000, 4099, 40001};
#define SIZE_COUNT ((int64_t)(sizeof SIZES / sizeof *SIZES))

typedef struct matrix {
    int64_t sizes; /* the first of SIZES */
    int64_t step;  /* every step-th cell of the matrix */
    int64_t rows;  /* of a case */
    bool greedy;   /* only T = 0, of logits, with what the greedy kernels give */
} matrix;

/* Rows 0, 2 and 4 are ordinary, 1 and 3 of the kind; and so is one that is alone. */
static void fill_rows(sweep_case *c, int which, rng *r)
{
    int64_t v = c->call.vocab_size;
    float *x = malloc((size_t)v * sizeof *x);
    unsigned char *bits = malloc((size_t)v * c->rows.element);
    if (!x || !bits) abort();
    for (int64_t row = 0; row < c->call.rows; row++) {
        row_fill(c->call.kind, row % 2 || c->call.rows == 1 ? which : 0, x, v, r);
        for (int64_t i = 0; i < v; i++) {
            uint32_t b = source_bits(c->call.dtype, x[i]);
            memcpy(bits + c->rows.element * (size_t)i, &b, c->rows.element);
        }
        source_put(&c->rows, row, bits, v);
    }
    free(bits);
    free(x);
}

static void anomaly(suite *s, void *job, int64_t i)
{
    const matrix *m = job;
    int64_t at = i * m->step;
    rng r = {options.seed ^ (uint64_t)at * 0xd1342543de82ef95u};
    sweep_case c = {.mask = OUT_ALL};
    tombola_call *call = &c.call;
    *call = (tombola_call)TOMBOLA_CALL_INIT;
    int64_t chain = m->greedy ? GREEDY_CHAIN : at % CHAIN_COUNT;
    at /= CHAIN_COUNT;
    call->dtype = (int32_t)(at % 3);
    at /= 3;
    call->ties = (int32_t)(at % 2);
    at /= 2;
    call->vocab_size = SIZES[at % m->sizes];
    at /= m->sizes;
    int logits = row_kinds(TOMBOLA_LOGITS), which = (int)at;
    call->kind = which < logits || m->greedy ? TOMBOLA_LOGITS : TOMBOLA_PROBABILITIES;
    if (which >= logits) which -= logits;
    if (m->greedy) which %= logits;
    call->rows = m->rows;
    call->draws = 3;
    /* a call in three asks for no more than the fast kernels give, one for no more than softmax does */
    const int64_t asks = m->greedy ? 0 : call->kind == TOMBOLA_LOGITS ? rng_below(&r, 3) : 2;
    if (asks == 0) {
        c.mask = 1u << OUT_TOKENS | 1u << OUT_STATUS | 1u << OUT_LOGPROBS | 1u << OUT_RANKS |
                 1u << OUT_KEPT_COUNT | 1u << OUT_KEPT_IDS | 1u << OUT_KEPT_MASS;
        if (chain == GREEDY_CHAIN && (m->greedy || rng_one_in(&r, 2)))
            c.mask &= ~(1u << OUT_RANKS); /* for which greedy rows are another kernel's */
        call->draws = 1;
    } else if (asks == 1) {
        c.mask = 1u << OUT_PROBABILITIES | 1u << OUT_STATUS | 1u << OUT_KEPT_MASS;
    }
    call->seed = rng_next(&r);
    call->kept_capacity = 100;
    call->top_count = 8;
    for (int k = 0; k < CHAINS[chain].count; k++) {
        tombola_step step = CHAINS[chain].steps[k];
        if (call->kind == TOMBOLA_PROBABILITIES && step.kind == TOMBOLA_TEMPERATURE) continue;
        c.steps[call->step_count++] = step;
    }
    call->steps = c.steps;
    call->row_stride = call->vocab_size + 3;
    source_make(&c.rows, call->dtype, call->rows, call->row_stride, 1);
    call->data = c.rows.data;
    fill_rows(&c, which, &r);
    snprintf(c.text, sizeof c.text, "anomaly %lld: %s, dtype %d, ties %d, V=%lld, chain %lld",
             (long long)(i * m->step), row_kind_name(call->kind, which), call->dtype, call->ties,
             (long long)call->vocab_size, (long long)chain);
    check_case(s, &c, i);
    sweep_free(&c);
}

static int64_t matrix_cells(const matrix *m)
{
    int64_t kinds = row_kinds(TOMBOLA_LOGITS) + row_kinds(TOMBOLA_PROBABILITIES);
    return CHAIN_COUNT * 3 * 2 * m->sizes * kinds / m->step;
}

void suite_anomalies(suite *s)
{
    matrix m = {SIZE_COUNT, 1, 5, false};
    suite_parallel(s, anomaly, &m, matrix_cells(&m));
}

/* ---- a little of everything, the kinds of cases in turns ---- */

void suite_bounded(suite *s)
{
    const int64_t count = options.count ? options.count : 60;
    const time_t end = time(NULL) + options.seconds;
    sweep_limits limits = {.vocab_size = 3000, .rows = options.rows};
    matrix m = {4, 97, options.rows && options.rows < 5 ? options.rows : 5, false}, greedy = m;
    greedy.greedy = true;
    const int64_t cells = matrix_cells(&m);
    int64_t step = options.count ? cells / count + 1 : 1;
    while (options.count && (step % 2 == 0 || step % 3 == 0)) step++; /* or only some of CHAIN_COUNT = 18 */
    for (int64_t turn = 0, i = 0; i < count || i * step < cells; i = ++turn / 3) {
        if (options.seconds && time(NULL) >= end) break;
        if (turn % 3 == 0 && i < count) random_case(s, &limits, i);
        if (turn % 3 == 1 && i < count) parts_case(s, &limits, i);
        if (turn % 3 == 2 && i * step < cells) anomaly(s, &m, i * step);
        if (turn % 3 == 2 && i % 3 == 0 && i * step < cells) anomaly(s, &greedy, i * step);
    }
}
