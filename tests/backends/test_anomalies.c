/*
 * The anomaly matrix: every kind of row, of every size in use, under every extreme parameter, and a NaN or an
 * infinity in each lane of a vector. The cpu backend on every instruction set against the reference.
 */
#include "isa_test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "outputs.h"
#include "rows.h"

#define CHAINS 40
#define LENGTH(a) (int)(sizeof(a) / sizeof *(a))

static tombola_context *contexts[4]; /* by instruction set; NULL where the machine lacks it */

/* Runs every backend on a row. */
static void compare(tombola_call *call, const char *what)
{
    static const int32_t GIVEN[3] = {0, 1, 30};
    outputs expected, got;
    tombola_error error = {0};
    char text[512];
    call->rows = 1;
    call->draws = call->method == TOMBOLA_EXACT ? 3 : 1;
    call->seed = (uint64_t)call->vocab_size;
    call->kept_capacity = 70;
    call->top_count = 4;
    call->given_ids = GIVEN;
    call->given_count = 3;
    outputs_make(&expected, call, OUT_ALL);
    outputs_make(&got, call, OUT_ALL);
    call->backend = TOMBOLA_BACKEND_REFERENCE;
    outputs_bind(&expected, call);
    if (run_call(contexts[TOMBOLA_ISA_PORTABLE], call, &error)) fail_msg("%s: %s", what, error.message);
    call->backend = TOMBOLA_BACKEND_CPU;
    outputs_bind(&got, call);
    for (int isa = TOMBOLA_ISA_PORTABLE; isa <= TOMBOLA_ISA_AVX512; isa++) {
        if (!contexts[isa]) continue;
        outputs_refill(&got);
        if (run_call(contexts[isa], call, &error)) fail_msg("%s: %s", what, error.message);
        if (outputs_same(&expected, &got, call, text, sizeof text)) continue;
        for (int i = 0; i < call->step_count; i++)
            print_error("step %d: k %d, value %a\n", call->steps[i].kind, call->steps[i].k,
                        call->steps[i].value);
        fail_msg("%s, %s, V = %lld, ties %d, method %d: %s", tombola_isa_name((tombola_isa)isa), what,
                 (long long)call->vocab_size, call->ties, call->method, text);
    }
    outputs_free(&expected);
    outputs_free(&got);
}

/* One step with an extreme parameter; the number of chains. */
static int make_chains(tombola_step *step, int64_t v)
{
    static const float P[] = {-INFINITY,      -1, -0.0f, 0,        0x1p-149f, 0x1p-24f, 0.5f,
                              0x1.fffffep-1f, 1,  1.5f,  INFINITY, NAN};
    static const float T[] = {0, -0.0f, 0x1p-149f, 1e-38f, 1e-30f, 1, 1e30f, FLT_MAX, INFINITY, -1, NAN};
    const int64_t K[] = {INT32_MIN, -1, 0, 1, v - 1, v, v + 1, INT32_MAX};
    int n = 0;
    for (int i = 0; i < LENGTH(K); i++) step[n++] = (tombola_step){.kind = TOMBOLA_TOP_K, .k = (int32_t)K[i]};
    for (int i = 0; i < LENGTH(P); i++) {
        step[n++] = (tombola_step){.kind = TOMBOLA_TOP_P, .value = P[i]};
        step[n++] = (tombola_step){.kind = TOMBOLA_MIN_P, .value = P[i]};
    }
    step[n++] = (tombola_step){.kind = TOMBOLA_TOP_K_TOP_P, .k = 50, .value = 0.9f};
    for (int i = 0; i < LENGTH(T) && n < 2 * CHAINS; i++)
        step[n++] = (tombola_step){.kind = TOMBOLA_TEMPERATURE, .value = T[i]};
    return n;
}

/* Every `stride`-th chain on a row of every kind, another one for each kind. */
static void check_size(int64_t v, int stride)
{
    tombola_step step[2 * CHAINS];
    float *x = malloc((size_t)v * sizeof *x);
    int chains = make_chains(step, v), turn = (int)(v % 7);
    rng r = {(uint64_t)v};
    if (!x) abort();
    for (int32_t kind = TOMBOLA_LOGITS; kind <= TOMBOLA_PROBABILITIES; kind++) {
        for (int which = 0; which < row_kinds(kind); which++) {
            row_fill(kind, which, x, v, &r);
            for (int c = turn++ % stride; c < chains; c += stride) {
                if (kind == TOMBOLA_PROBABILITIES && step[c].kind == TOMBOLA_TEMPERATURE) continue;
                tombola_call call = TOMBOLA_CALL_INIT;
                call.data = x;
                call.vocab_size = v;
                call.kind = kind;
                call.steps = &step[c];
                call.step_count = 1;
                call.ties = (int32_t)rng_below(&r, 2);
                call.method = (int32_t)(rng_one_in(&r, 3) ? 1 + rng_below(&r, 2) : 0);
                compare(&call, row_kind_name(kind, which));
            }
        }
    }
    free(x);
}

static void small(void **state)
{
    (void)state;
    static const int64_t V[] = {1, 2, 3, 31, 32, 33, 111, 129};
    for (int i = 0; i < LENGTH(V); i++) check_size(V[i], 1);
}

static void large(void **state)
{
    (void)state;
    check_size(32000, 9);
    check_size(128256, 23);
    check_size(151936, 31);
    check_size(248320, 41);
    check_size(262144, 37);
}

/* 2^20 tokens, and the most that there may be. */
static void largest(void **state)
{
    (void)state;
    check_size((int64_t)1 << 20, 2 * CHAINS);
    tombola_step step = {.kind = TOMBOLA_TOP_K_TOP_P, .k = 1000, .value = 0.5f};
    int64_t v = TOMBOLA_MAX_VOCAB_SIZE;
    float *x = malloc((size_t)v * sizeof *x);
    rng r = {1};
    if (!x) abort();
    for (int which = 0; which < 4; which += 3) { /* normal; and all equal, the greatest mass there is */
        row_fill(TOMBOLA_LOGITS, which, x, v, &r);
        for (int32_t count = 0; count < 2; count++) {
            tombola_call call = TOMBOLA_CALL_INIT;
            call.data = x;
            call.vocab_size = v;
            call.steps = &step;
            call.step_count = count;
            compare(&call, "the largest row");
        }
    }
    free(x);
}

static void lanes(void **state)
{
    (void)state;
    static const float VALUES[] = {NAN, INFINITY, -INFINITY, 50.0f};
    enum { V = 1100 };
    static const tombola_step STEPS[2] = {{.kind = TOMBOLA_TOP_K, .k = 5},
                                          {.kind = TOMBOLA_TOP_P, .value = 0.9f}};
    static float x[V];
    rng r = {2};
    for (int i = 0; i < V; i++) x[i] = (float)rng_normal(&r);
    for (int place = 0; place < V; place += place < 300 || place > 1000 ? 1 : 37) {
        float kept = x[place];
        for (int i = 0; i < LENGTH(VALUES); i++) {
            x[place] = VALUES[i];
            tombola_call call = TOMBOLA_CALL_INIT;
            call.data = x;
            call.vocab_size = V;
            call.kind = place % 5 == 4 ? TOMBOLA_PROBABILITIES : TOMBOLA_LOGITS;
            call.steps = STEPS;
            call.step_count = place % 3;
            compare(&call, "one lane");
        }
        x[place] = kept;
    }
}

int main(void)
{
    for (int isa = TOMBOLA_ISA_PORTABLE; isa <= TOMBOLA_ISA_AVX512; isa++) {
        contexts[isa] = open_context((tombola_isa)isa, 1);
        if (!contexts[isa]) printf("this machine lacks %s\n", tombola_isa_name((tombola_isa)isa));
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(small), cmocka_unit_test(lanes),
                                       cmocka_unit_test(large), cmocka_unit_test(largest)};
    int failed = cmocka_run_group_tests_name("anomalies", tests, NULL, NULL);
    for (int isa = TOMBOLA_ISA_PORTABLE; isa <= TOMBOLA_ISA_AVX512; isa++)
        tombola_context_destroy(contexts[isa]);
    return failed;
}
