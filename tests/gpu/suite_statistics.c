/* Chi-square of drawn tokens: singly against the chain's own probabilities, and neighbours against
 * independence. */
#include "suites.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "rows.h"

#define VOCAB 1000
#define ROWS 256
#define DRAWS TOMBOLA_MAX_DRAWS
#define CLASSES 6 /* of about equal probability, for pairs */
#define LIMIT 4.5 /* standard deviations; the seeds are fixed, so the outcome is too */

/* How many standard deviations a chi-square statistic lies off (Wilson and Hilferty's approximation). */
static double deviation(double chi_square, int degrees)
{
    double v = 2.0 / (9.0 * degrees);
    return (cbrt(chi_square / degrees) - (1.0 - v)) / sqrt(v);
}

static double single(const int32_t *tokens, int64_t n, const float *p)
{
    static int64_t seen[VOCAB];
    double chi = 0, rest_expected = 0;
    int64_t rest = 0;
    int degrees = -1;
    memset(seen, 0, sizeof seen);
    for (int64_t i = 0; i < n; i++) seen[tokens[i]]++;
    for (int t = 0; t < VOCAB; t++) {
        double expected = (double)p[t] * (double)n;
        if (expected < 10) { /* pooled */
            rest += seen[t];
            rest_expected += expected;
            continue;
        }
        chi += ((double)seen[t] - expected) * ((double)seen[t] - expected) / expected;
        degrees++;
    }
    if (rest_expected >= 10) {
        chi += ((double)rest - rest_expected) * ((double)rest - rest_expected) / rest_expected;
        degrees++;
    } else if (rest_expected == 0 && rest) {
        return INFINITY; /* a token outside the kept set was drawn */
    }
    return degrees < 1 ? 0 : deviation(chi, degrees);
}

/* Pairs of tokens `apart` places from each other. */
static double pairs(const int32_t *tokens, int64_t n, const float *p, int64_t apart)
{
    int class_of[VOCAB];
    double weight[CLASSES] = {0}, below = 0, chi = 0;
    int64_t seen[CLASSES][CLASSES] = {{0}}, count = n - apart;
    for (int t = 0; t < VOCAB; t++) {
        int c = (int)(below * CLASSES);
        class_of[t] = c < CLASSES ? c : CLASSES - 1;
        weight[class_of[t]] += p[t];
        below += p[t];
    }
    for (int64_t i = 0; i < count; i++) seen[class_of[tokens[i]]][class_of[tokens[i + apart]]]++;
    int degrees = -1;
    for (int a = 0; a < CLASSES; a++)
        for (int b = 0; b < CLASSES; b++) {
            double expected = weight[a] * weight[b] * (double)count;
            if (expected < 10) continue;
            chi += ((double)seen[a][b] - expected) * ((double)seen[a][b] - expected) / expected;
            degrees++;
        }
    return degrees < 1 ? 0 : deviation(chi, degrees);
}

static void check_chain(suite *s, const variant *v, const char *name, const tombola_step *steps, int count)
{
    rng r = {options.seed};
    size_t n = (size_t)ROWS * DRAWS;
    float *row = malloc(VOCAB * 4), *probabilities = malloc(VOCAB * 4);
    int32_t *tokens = malloc(n * 4), *index = calloc(ROWS, 4);
    if (!row || !probabilities || !tokens || !index) abort();
    row_fill(TOMBOLA_LOGITS, 1, row, VOCAB, &r);
    tombola_call call = TOMBOLA_CALL_INIT;
    call.data = device_copy(row, VOCAB * 4);
    call.rows = 1, call.vocab_size = VOCAB, call.steps = steps, call.step_count = count, call.seed = 12345;
    call.backend = TOMBOLA_BACKEND_CUDA, call.cuda_stream = lane_stream();
    call.probabilities = device_pointer(device_alloc(VOCAB * 4));
    tombola_call draw = call;
    draw.probabilities = NULL;
    draw.rows = ROWS, draw.source_rows = 1, draw.draws = DRAWS, draw.row_index = device_copy(index, ROWS * 4);
    draw.tokens = device_pointer(device_alloc(n * 4));
    tombola_error error = {0};
    size_t one = 0, many = 0;
    tombola_result result = tombola_workspace_size(v->context, &call, &one, &error);
    if (!result) result = tombola_workspace_size(v->context, &draw, &many, &error);
    call.workspace_size = draw.workspace_size = one > many ? one : many;
    call.workspace = draw.workspace = device_pointer(device_alloc(call.workspace_size));
    if (!result) result = tombola_run(v->context, &call, &error);
    if (!result) result = tombola_run(v->context, &draw, &error);
    if (result == TOMBOLA_ERROR_UNSUPPORTED)
        suite_unserved(s, error.message);
    else
        suite_check(s, !result, "%s, variant %s: %s", name, v->name, error.message);
    if (!result) {
        device_read(probabilities, call.probabilities, VOCAB * 4, lane_stream());
        device_read(tokens, draw.tokens, n * 4, lane_stream());
        double z = single(tokens, (int64_t)n, probabilities);
        suite_check(s, fabs(z) < LIMIT, "%s, variant %s: tokens are %.1f deviations off", name, v->name, z);
        z = pairs(tokens, (int64_t)n, probabilities, 1);
        suite_check(s, fabs(z) < LIMIT,
                    "%s, variant %s: draws that follow each other are %.1f deviations off", name, v->name, z);
        z = pairs(tokens, (int64_t)n, probabilities, DRAWS);
        suite_check(s, fabs(z) < LIMIT, "%s, variant %s: draws of neighbouring rows are %.1f deviations off",
                    name, v->name, z);
    }
    device_free(device_address(call.data));
    device_free(device_address(call.probabilities));
    device_free(device_address(draw.row_index));
    device_free(device_address(draw.tokens));
    device_free(device_address(call.workspace));
    free(row), free(probabilities), free(tokens), free(index);
}

void suite_statistics(suite *s)
{
    static const tombola_step PLAIN[] = {{.kind = TOMBOLA_TEMPERATURE, .value = 0.8f},
                                         {.kind = TOMBOLA_MIN_P, .value = 0.01f},
                                         {.kind = TOMBOLA_TOP_K, .k = 200},
                                         {.kind = TOMBOLA_TOP_P, .value = 0.95f}};
    static const tombola_step JOINT[] = {{.kind = TOMBOLA_TOP_K_TOP_P, .k = 50, .value = 0.9f}};
    for (int v = 0; v < variant_count; v++) {
        if (!variant_turn(v, (int64_t)options.seed, 8)) continue;
        check_chain(s, &variants[v], "no filter", NULL, 0);
        check_chain(s, &variants[v], "temperature", PLAIN, 1);
        check_chain(s, &variants[v], "temperature, min_p, top_k, top_p", PLAIN, 4);
        check_chain(s, &variants[v], "top_k 50, top_p 0.9", JOINT, 1);
    }
}
