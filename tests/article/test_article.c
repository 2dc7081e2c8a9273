/*
 * The article "Sorting-Free GPU Kernels for LLM Sampling" beside tombola:
 *   its PyTorch filter (sort, cumulative sum, mask) keeps the same tokens, on rows without ties;
 *   its last section's failure, a parallel f32 prefix sum that is not monotone, picks tokens that cannot be
 *   drawn, where tombola's integers pick the right one;
 *   its bound on the trials of dual-pivot rejection holds, and its first method has none: on a crowd of
 * tokens below one that is kept, single-pivot rejection takes as many trials as docs/proof.md says.
 *     test_article portable|avx2|avx512
 */
#include "isa_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

static tombola_isa isa;
static tombola_context *context;

static void run(tombola_call *call)
{
    tombola_error error;
    call->backend = TOMBOLA_BACKEND_CPU;
    if (run_call(context, call, &error)) fail_msg("%s", error.message);
}

/* ---- the PyTorch filter ---- */

static const float *sorting; /* what by_value compares */

static int by_value(const void *a, const void *b)
{
    float x = sorting[*(const int32_t *)a], y = sorting[*(const int32_t *)b];
    return (x < y) - (x > y);
}

/*
 * probs = softmax(logits / T); sorted, cumulative; top_k masks what comes after the first k, then top_p masks
 * what has a cumulative sum before it of more than p; what remains is renormalised in between. In binary64,
 * so that sums are not the difference. nearest becomes how close a cumulative sum came to p: within rounding,
 * either answer is right.
 */
static int64_t pytorch_filter(const float *x, int64_t n, float temperature, int32_t k, float p, bool *keep,
                              double *nearest)
{
    int32_t *order = malloc((size_t)n * sizeof *order);
    if (!order) abort();
    double sum = 0, cumulative = 0;
    int64_t kept = 0, count = k > 0 && k < n ? k : n;
    for (int64_t i = 0; i < n; i++) order[i] = (int32_t)i, keep[i] = false;
    sorting = x;
    qsort(order, (size_t)n, sizeof *order, by_value);
    for (int64_t i = 0; i < count; i++) sum += exp(((double)x[order[i]] - x[order[0]]) / temperature);
    *nearest = 1;
    for (int64_t i = 0; i < count; i++) {
        double before = cumulative / sum;
        if (i) *nearest = fmin(*nearest, fabs(before - p));
        if (i && before >= p) break;
        keep[order[i]] = true;
        kept++;
        cumulative += exp(((double)x[order[i]] - x[order[0]]) / temperature);
    }
    free(order);
    return kept;
}

static bool has_ties(const float *x, int64_t n)
{
    int32_t *order = malloc((size_t)n * sizeof *order);
    bool ties = false;
    if (!order) abort();
    for (int64_t i = 0; i < n; i++) order[i] = (int32_t)i;
    sorting = x;
    qsort(order, (size_t)n, sizeof *order, by_value);
    for (int64_t i = 1; i < n; i++) ties |= x[order[i]] == x[order[i - 1]];
    free(order);
    return ties;
}

static void pytorch(void **state)
{
    (void)state;
    SKIP_WITHOUT(context, isa);
    rng r = {7};
    int compared = 0, close = 0;
    for (int i = 0; i < 600; i++) {
        int64_t n = 1 + rng_below(&r, i % 10 ? 2000 : 30000);
        float *x = malloc((size_t)n * sizeof *x), temperature = 0.5f + (float)rng_uniform(&r);
        bool *keep = malloc((size_t)n);
        int32_t *ids = malloc((size_t)n * sizeof *ids), count, k = (int32_t)rng_below(&r, 200);
        float p = (float)rng_uniform(&r);
        if (!x || !keep || !ids) abort();
        row_fill(TOMBOLA_LOGITS, i & 1, x, n, &r); /* normal or zipf */
        if (!has_ties(x, n)) {
            double nearest;
            int64_t expected = pytorch_filter(x, n, temperature, k, p, keep, &nearest);
            tombola_step steps[] = {{.kind = TOMBOLA_TEMPERATURE, .value = temperature},
                                    {.kind = TOMBOLA_TOP_K, .k = k},
                                    {.kind = TOMBOLA_TOP_P, .value = p}};
            tombola_call call = TOMBOLA_CALL_INIT;
            call.data = x;
            call.rows = 1;
            call.vocab_size = n;
            call.steps = steps;
            call.step_count = 3;
            call.kept_ids = ids;
            call.kept_capacity = n;
            call.kept_count = &count;
            run(&call);
            bool same = count == expected;
            for (int64_t j = 0; same && j < count; j++) same = keep[ids[j]];
            /* A weight is within 2^-22 of the real one, so a share of the mass within 2^-21: only there may
             * the two differ. */
            if (!same && nearest > 0x1p-21)
                fail_msg("row %d: %d kept, PyTorch's filter keeps %d", i, count, (int)expected);
            compared++;
            close += !same;
        }
        free(x);
        free(keep);
        free(ids);
    }
    print_message("  %d rows compared, %d cut within 2^-21 of p and fell the other way\n", compared, close);
    assert_true(compared > 100);
}

/* ---- prefix sums ---- */

/* Hillis and Steele's scan, as a thread block of a GPU does it: log2(n) steps, every one in f32. */
static void parallel_scan(float *x, int n)
{
    float *previous = malloc((size_t)n * sizeof *previous);
    if (!previous) abort();
    for (int distance = 1; distance < n; distance *= 2) {
        memcpy(previous, x, (size_t)n * sizeof *x);
        for (int i = distance; i < n; i++) x[i] = previous[i] + previous[i - distance];
    }
    free(previous);
}

/*
 * With f32 sums in the order of a parallel scan, the inclusive prefix sum of one token can be below that of
 * the one before it, or above it where the token has probability 0. "The first token whose prefix sum exceeds
 * u" may then be a token of probability 0.
 */
static void prefix_sums(void **state)
{
    (void)state;
    SKIP_WITHOUT(context, isa);
    enum { N = 1024 };
    rng r = {11};
    int falls = 0, wrong = 0;
    for (int i = 0; i < 200; i++) {
        float logits[N], scan[N];
        double sum = 0;
        for (int j = 0; j < N; j++) logits[j] = j % 3 == 1 ? -INFINITY : (float)rng_normal(&r);
        for (int j = 0; j < N; j++) sum += exp(logits[j]);
        for (int j = 0; j < N; j++) scan[j] = (float)(exp(logits[j]) / sum);
        parallel_scan(scan, N);
        for (int j = 1; j < N; j++) falls += scan[j] < scan[j - 1];
        for (int j = 1; j < N; j++) {
            if (logits[j] != -INFINITY || !(scan[j] > scan[j - 1])) continue;
            /* u between the two: the scan's answer is j, of probability 0 */
            float u = scan[j - 1];
            int first = 0;
            while (!(scan[first] > u)) first++;
            if (logits[first] != -INFINITY) continue;
            wrong++;
            uint64_t random = (uint64_t)((double)u * 0x1p64);
            int32_t token = -1;
            tombola_call call = TOMBOLA_CALL_INIT;
            call.data = logits;
            call.rows = 1;
            call.vocab_size = N;
            call.random = &random;
            call.tokens = &token;
            run(&call);
            assert_true(token >= 0 && logits[token] != -INFINITY);
            assert_true(abs(token - j) <= 2); /* a neighbour, but one that can be drawn */
        }
    }
    print_message(
        "  the f32 scan falls %d times, and draws a token of probability 0 for %d of its own sums\n", falls,
        wrong);
    assert_true(falls > 0 && wrong > 0);
}

/* ---- trials ---- */

static void trials(void **state)
{
    (void)state;
    SKIP_WITHOUT(context, isa);
    rng r = {13};
    enum { N = 3000, DRAWS = 16 };
    int32_t greatest[2] = {0, 0};
    for (int i = 0; i < 20 * row_kinds(TOMBOLA_LOGITS); i++) {
        for (int32_t ties = 0; ties < 2; ties++) {
            float x[N];
            int32_t tokens[DRAWS], rounds[DRAWS];
            tombola_step step = {.kind = TOMBOLA_TOP_K_TOP_P,
                                 .k = 1 + (int32_t)rng_below(&r, 50),
                                 .value = (float)rng_uniform(&r)};
            tombola_call call = TOMBOLA_CALL_INIT;
            row_fill(TOMBOLA_LOGITS, i % row_kinds(TOMBOLA_LOGITS), x, N, &r);
            call.data = x;
            call.rows = 1;
            call.vocab_size = N;
            call.steps = &step;
            call.step_count = 1;
            call.ties = ties;
            call.method = TOMBOLA_DUAL_PIVOT;
            call.draws = DRAWS;
            call.seed = rng_next(&r);
            call.tokens = tokens;
            call.rounds = rounds;
            run(&call);
            for (int d = 0; d < DRAWS; d++) {
                if (rounds[d] > greatest[ties]) greatest[ties] = rounds[d];
                assert_true(tokens[d] == -1 ? rounds[d] == 0 : rounds[d] >= 1);
            }
        }
    }
    print_message("  most trials: %d (73 is the bound), %d with TIES_INDEX (95)\n", greatest[0], greatest[1]);
    assert_true(greatest[0] <= 73 && greatest[1] <= 95);
}

/* The trials of many draws with top_k 1; their mean, and the most in *most. */
static double crowd_trials(const float *x, int64_t n, int32_t method, int32_t *most)
{
    enum { CALLS = 4, DRAWS = 512 };
    int32_t tokens[DRAWS], rounds[DRAWS];
    tombola_step step = {.kind = TOMBOLA_TOP_K, .k = 1};
    tombola_call call = TOMBOLA_CALL_INIT;
    double sum = 0;
    call.data = x;
    call.rows = 1;
    call.vocab_size = n;
    call.steps = &step;
    call.step_count = 1;
    call.method = method;
    call.draws = DRAWS;
    call.tokens = tokens;
    call.rounds = rounds;
    *most = 0;
    for (; call.offset < CALLS; call.offset++) {
        run(&call);
        for (int d = 0; d < DRAWS; d++) {
            assert_int_equal(tokens[d], n / 2);
            sum += rounds[d];
            if (rounds[d] > *most) *most = rounds[d];
        }
    }
    return sum / (CALLS * DRAWS);
}

/*
 * A crowd of tokens, all different and all of about half the weight of the one token that is kept. The single
 * pivot climbs through the crowd: its trials are 1 and one for each token that is the first drawn of those
 * not below it, independently, with probability w / (mass not below), about 1 / their number: ln n in the
 * mean. Two pivots take 2: the second one stands above the crowd.
 */
static void crowd(void **state)
{
    (void)state;
    SKIP_WITHOUT(context, isa);
    for (int64_t n = 100; n <= 100000; n *= 10) {
        float *x = malloc((size_t)n * sizeof *x);
        if (!x) abort();
        double mass = 1, mean = 1, variance = 0;
        int32_t most_single, most_dual;
        for (int64_t i = 0; i < n; i++) x[i] = -0.7f - 0x1p-24f * (float)i;
        x[n / 2] = 0;
        for (int64_t i = 0; i < n; i++) { /* the greatest of the crowd first */
            if (i == n / 2) continue;
            mass += exp(x[i]);
            mean += exp(x[i]) / mass;
            variance += exp(x[i]) / mass * (1 - exp(x[i]) / mass);
        }
        double single = crowd_trials(x, n, TOMBOLA_REJECTION, &most_single);
        double dual = crowd_trials(x, n, TOMBOLA_DUAL_PIVOT, &most_dual);
        print_message(
            "  %6d tokens: one pivot %.2f trials (%.2f expected), at most %d; two %.2f, at most %d\n", (int)n,
            single, mean, most_single, dual, most_dual);
        assert_true(fabs(single - mean) < 5 * sqrt(variance / 2048));
        assert_true(most_dual <= 2 && most_single > 5 * most_dual - 2);
        free(x);
    }
}

int main(int argc, char **argv)
{
    isa = ISA_ARGUMENT(argc, argv);
    context = open_context(isa, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(pytorch), cmocka_unit_test(prefix_sums),
                                       cmocka_unit_test(trials), cmocka_unit_test(crowd)};
    int failed = cmocka_run_group_tests_name("article", tests, NULL, NULL);
    tombola_context_destroy(context);
    return failed;
}
