/*
 * tombola's side of the GPU benchmark: named calls through the C API, for bench.py to capture in graphs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <tombola.h>

#define EXPORT __attribute__((visibility("default")))

/* What a call of bench.py is about. Its ctypes structure has the same fields. */
typedef struct bench_request {
    const char *name;
    void *data;
    int64_t rows, vocab_size;
    uint64_t offset;
    void *tokens;     /* [rows] */
    void *wide;       /* [rows, vocab_size] floats or dtype's elements, or [rows, count] ids */
    const int32_t *k; /* [rows], of "mixed" */
    const float *p, *temperature;
    void *workspace;
    uint64_t workspace_size;
    void *stream;
    int32_t dtype, dependent;
} bench_request;

enum { /* outputs beside the tokens */
       LOGPROBS = 1,
       KEPT_IDS = 2,
       RAW_LOGPROBS = 4,
       ENTROPY = 8,
       PROBABILITIES = 16,
       MASKED = 32,
       TOP_IDS = 64,
       NO_TOKENS = 128,
       TOP_RAW = 256 /* their raw log-probabilities too */
};

typedef struct setting {
    const char *name;
    int32_t kind;
    int32_t step_count;
    tombola_step steps[3];
    int outputs;
    int32_t count;  /* of ids */
    int32_t method; /* tombola_method */
} setting;

#define JOINT                                                                                                \
    {                                                                                                        \
        .kind = TOMBOLA_TOP_K_TOP_P, .k = 50, .value = 0.9f                                                  \
    }
#define TOP_P_OF(p_)                                                                                         \
    {                                                                                                        \
        .kind = TOMBOLA_TOP_P, .value = p_                                                                   \
    }
#define TOP_P TOP_P_OF(0.9f)
#define TOP_K(k_)                                                                                            \
    {                                                                                                        \
        .kind = TOMBOLA_TOP_K, .k = k_                                                                       \
    }

static const setting SETTINGS[] = {
    {"k50_p0.9", TOMBOLA_LOGITS, 1, {JOINT}, 0, 0},
    {"p0.9", TOMBOLA_LOGITS, 1, {TOP_P}, 0, 0},
    {"p0.99", TOMBOLA_LOGITS, 1, {TOP_P_OF(0.99f)}, 0, 0},
    {"k50", TOMBOLA_LOGITS, 1, {TOP_K(50)}, 0, 0},
    {"min_p0.05", TOMBOLA_LOGITS, 1, {{.kind = TOMBOLA_MIN_P, .value = 0.05f}}, 0, 0},
    {"no_filter", TOMBOLA_LOGITS, 0, {{0}}, 0, 0},
    {"greedy", TOMBOLA_LOGITS, 1, {{.kind = TOMBOLA_TEMPERATURE, .value = 0.0f}}, 0, 0},
    {"k50_p0.9 rejection", TOMBOLA_LOGITS, 1, {JOINT}, 0, 0, TOMBOLA_REJECTION},
    {"p0.9 rejection", TOMBOLA_LOGITS, 1, {TOP_P}, 0, 0, TOMBOLA_REJECTION},
    {"k50 rejection", TOMBOLA_LOGITS, 1, {TOP_K(50)}, 0, 0, TOMBOLA_REJECTION},
    {"k50_p0.9 dual-pivot", TOMBOLA_LOGITS, 1, {JOINT}, 0, 0, TOMBOLA_DUAL_PIVOT},
    {"p0.9 dual-pivot", TOMBOLA_LOGITS, 1, {TOP_P}, 0, 0, TOMBOLA_DUAL_PIVOT},
    {"k50 dual-pivot", TOMBOLA_LOGITS, 1, {TOP_K(50)}, 0, 0, TOMBOLA_DUAL_PIVOT},
    {"k50_p0.9+logprob", TOMBOLA_LOGITS, 1, {JOINT}, LOGPROBS, 0},
    {"k50_p0.9+kept_ids", TOMBOLA_LOGITS, 1, {JOINT}, KEPT_IDS, 64},
    {"k50_p0.9+raw_logprob", TOMBOLA_LOGITS, 1, {JOINT}, RAW_LOGPROBS, 0},
    {"k50_p0.9+entropy", TOMBOLA_LOGITS, 1, {JOINT}, ENTROPY, 0},
    {"k50_p0.9+top20_raw", TOMBOLA_LOGITS, 1, {JOINT}, RAW_LOGPROBS | TOP_IDS | TOP_RAW, 20},
    {"k50_p0.9+probabilities", TOMBOLA_LOGITS, 1, {JOINT}, PROBABILITIES, 0},
    {"no_filter+raw_logprob", TOMBOLA_LOGITS, 0, {{0}}, RAW_LOGPROBS, 0},
    {"no_filter+entropy", TOMBOLA_LOGITS, 0, {{0}}, ENTROPY, 0},
    {"mixed",
     TOMBOLA_LOGITS,
     3,
     {{.kind = TOMBOLA_TEMPERATURE}, {.kind = TOMBOLA_TOP_K}, {.kind = TOMBOLA_TOP_P}},
     0,
     0},
    {"softmax", TOMBOLA_LOGITS, 0, {{0}}, PROBABILITIES | NO_TOKENS, 0},
    {"top_p_renorm", TOMBOLA_PROBABILITIES, 1, {TOP_P}, PROBABILITIES | NO_TOKENS, 0},
    {"top_p_renorm_p0.99", TOMBOLA_PROBABILITIES, 1, {TOP_P_OF(0.99f)}, PROBABILITIES | NO_TOKENS, 0},
    {"top_k_renorm", TOMBOLA_PROBABILITIES, 1, {TOP_K(50)}, PROBABILITIES | NO_TOKENS, 0},
    {"top_k_mask", TOMBOLA_LOGITS, 1, {TOP_K(50)}, MASKED | NO_TOKENS, 0},
    {"top_k_ids", TOMBOLA_LOGITS, 1, {TOP_K(2048)}, KEPT_IDS | NO_TOKENS, 2048},
    {"top_k_ids_sorted", TOMBOLA_LOGITS, 0, {{0}}, TOP_IDS | NO_TOKENS, 2048},
};

/* False when there is no such setting. */
static bool make_call(const bench_request *r, tombola_call *call, tombola_step *steps)
{
    const setting *s = NULL;
    for (size_t i = 0; i < sizeof SETTINGS / sizeof *SETTINGS; i++)
        if (!strcmp(SETTINGS[i].name, r->name)) s = &SETTINGS[i];
    if (!s) return false;
    *call = (tombola_call)TOMBOLA_CALL_INIT;
    memcpy(steps, s->steps, sizeof s->steps);
    if (!strcmp(s->name, "mixed")) {
        steps[0].value_per_slot = r->temperature;
        steps[1].k_per_slot = r->k;
        steps[2].value_per_slot = r->p;
    }
    call->data = r->data, call->kind = s->kind, call->dtype = r->dtype;
    call->rows = r->rows, call->vocab_size = r->vocab_size;
    call->steps = steps, call->step_count = s->step_count;
    call->ties = s->count == 2048 ? TOMBOLA_TIES_INDEX : TOMBOLA_TIES_ALL; /* exactly k ids */
    call->method = s->method;
    call->seed = 42, call->offset = r->offset;
    call->backend = TOMBOLA_BACKEND_CUDA;
    call->cuda_stream = r->stream, call->dependent_launch = r->dependent;
    call->workspace = r->workspace, call->workspace_size = r->workspace_size;
    if (!(s->outputs & NO_TOKENS)) call->tokens = r->tokens;
    if (s->outputs & LOGPROBS) call->logprobs = r->wide;
    if (s->outputs & RAW_LOGPROBS) call->raw_logprobs = r->wide;
    if (s->outputs & ENTROPY) call->entropy = r->wide;
    if (s->outputs & KEPT_IDS) call->kept_ids = r->wide, call->kept_capacity = s->count;
    if (s->outputs & TOP_IDS) {
        int32_t *after = (int32_t *)r->wide + r->rows; /* the raw log-probabilities */
        call->top_ids = after, call->top_count = s->count;
        if (s->outputs & TOP_RAW)
            call->top_raw = 1, call->top_logprobs = (float *)(after + r->rows * s->count);
    }
    if (s->outputs & PROBABILITIES) call->probabilities = r->wide;
    if (s->outputs & MASKED) call->masked_logits = r->wide;
    return true;
}

EXPORT void *bench_open(char *message, uint64_t capacity)
{
    tombola_options options = {.struct_size = sizeof options, .threads = 1, .cuda = 1};
    tombola_context *context = NULL;
    tombola_error error = {0};
    if (tombola_context_create(&options, &context, &error)) snprintf(message, capacity, "%s", error.message);
    return context;
}

/* Bytes, or -1 with a message. */
EXPORT int64_t bench_workspace(const void *context, const bench_request *request, char *message,
                               uint64_t capacity)
{
    tombola_call call;
    tombola_step steps[3];
    tombola_error error = {.message = "no such setting"};
    size_t size = 0;
    if (make_call(request, &call, steps) && !tombola_workspace_size(context, &call, &size, &error))
        return (int64_t)size;
    snprintf(message, capacity, "%s", error.message);
    return -1;
}

EXPORT int bench_plan(const void *context, const bench_request *request, char *text, uint64_t capacity)
{
    tombola_call call;
    tombola_step steps[3];
    return make_call(request, &call, steps) ? (int)tombola_plan(context, &call, text, capacity, NULL) : -1;
}

EXPORT int bench_run(const void *context, const bench_request *request, char *message, uint64_t capacity)
{
    tombola_call call;
    tombola_step steps[3];
    tombola_error error = {.message = "no such setting"};
    if (make_call(request, &call, steps) && !tombola_run(context, &call, &error)) return 0;
    snprintf(message, capacity, "%s", error.message);
    return -1;
}
