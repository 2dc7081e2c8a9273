/*
 * Drawn tokens against the exact integer probabilities: test_statistics [portable|avx2|avx512]
 *   frequencies   chi-square and each token's own deviation, 2.5e7 draws: a 1 % error in a token of
 *                 probability 0.01 is five standard deviations
 *   independence  of neighbouring draws, offsets, rows and seeds
 *   tails         every token's share of the 2^64 random numbers, to the last one, down to a weight of 1
 * Seeds are fixed: the result is the same every time. Thresholds are five standard deviations.
 */
#include "isa_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "law/weight.h"
#include "random.h"

#define VOCAB_SIZE 64
#define SIGMAS 5.0
#define DRAWS 25000000
#define FEWER 2000000 /* an error of 4 % is seen */

static tombola_isa isa;
static tombola_context *context;

typedef struct expected {
    uint64_t weight[VOCAB_SIZE]; /* 0 outside the kept set */
    uint64_t mass;
} expected;

static void run(tombola_call *call)
{
    tombola_error error;
    call->backend = TOMBOLA_BACKEND_CPU;
    if (run_call(context, call, &error)) fail_msg("%s", error.message);
}

/* The kept set as the reference says, and its weights as the law's definition does. */
static void expect(const float *x, const tombola_step *steps, int32_t count, float temperature, int32_t ties,
                   expected *e)
{
    int32_t ids[VOCAB_SIZE];
    uint64_t mass;
    tombola_error error;
    tombola_call call = TOMBOLA_CALL_INIT;
    call.data = x;
    call.rows = 1;
    call.vocab_size = VOCAB_SIZE;
    call.steps = steps;
    call.step_count = count;
    call.ties = ties;
    call.kept_ids = ids;
    call.kept_capacity = VOCAB_SIZE;
    call.kept_mass = &mass;
    call.backend = TOMBOLA_BACKEND_REFERENCE;
    if (run_call(context, &call, &error)) fail_msg("%s", error.message);
    float maximum = -INFINITY;
    for (int i = 0; i < VOCAB_SIZE; i++) maximum = x[i] > maximum ? x[i] : maximum;
    memset(e, 0, sizeof *e);
    for (int i = 0; i < VOCAB_SIZE && ids[i] >= 0; i++) {
        float t = law_exponent(x[ids[i]], maximum, law_temperature(temperature).scale);
        e->weight[ids[i]] = law_weight(t);
        e->mass += e->weight[ids[i]];
    }
    assert_int_equal(e->mass, mass);
}

/* Chi-square with `cells` - 1 degrees of freedom as standard deviations (Wilson and Hilferty). */
static double chi_square_sigmas(double chi, int cells)
{
    double k = cells - 1, v = 2.0 / (9.0 * k);
    return (cbrt(chi / k) - (1.0 - v)) / sqrt(v);
}

static void check_counts(const int64_t *count, const expected *e, int64_t draws, double trials,
                         const char *what)
{
    double chi = 0, worst = 0, rest = 0;
    int64_t rest_count = 0;
    int cells = 0;
    for (int i = 0; i < VOCAB_SIZE; i++) {
        double p = (double)e->weight[i] / (double)e->mass, mean = p * (double)draws;
        if (e->weight[i] == 0 && count[i]) fail_msg("%s: token %d has no weight and was drawn", what, i);
        if (mean < 20) { /* cells of small mean are taken together */
            rest += mean;
            rest_count += count[i];
            continue;
        }
        double difference = (double)count[i] - mean;
        chi += difference * difference / mean;
        cells++;
        worst = fmax(worst, fabs(difference) / sqrt(mean * (1 - p) + 1e-9));
    }
    if (rest >= 20) {
        chi += ((double)rest_count - rest) * ((double)rest_count - rest) / rest;
        cells++;
    } else if ((double)rest_count > rest + 5 * sqrt(rest) + 10) {
        fail_msg("%s: %lld draws of tokens of which %.3g are expected", what, (long long)rest_count, rest);
    }
    double sigmas = cells > 1 ? chi_square_sigmas(chi, cells) : 0;
    print_message("  %-41s %.2f trials, %8lld draws, %2d cells: %+.2f sigma, worst token %.2f\n", what,
                  trials, (long long)draws, cells, sigmas, worst);
    if (sigmas > SIGMAS || worst > SIGMAS) fail_msg("%s: not the right distribution", what);
}

/* The values are normal with this deviation. Flat rows and few kept tokens make the rejection methods work:
 * then DUAL_PIVOT's second pivot fails as often as it passes. */
static const struct {
    const char *name;
    double deviation;
    int32_t count;
    float temperature;
    int32_t ties;
    tombola_step steps[3];
} CHAINS[] = {
    {"no filter", 1.5, 0, 1.0f, TOMBOLA_TIES_ALL, {{0}}},
    {"temperature 0.7, top_p 0.9",
     1.5,
     2,
     0.7f,
     TOMBOLA_TIES_ALL,
     {{.kind = TOMBOLA_TEMPERATURE, .value = 0.7f}, {.kind = TOMBOLA_TOP_P, .value = 0.9f}}},
    {"top_k 20, INDEX", 1.5, 1, 1.0f, TOMBOLA_TIES_INDEX, {{.kind = TOMBOLA_TOP_K, .k = 20}}},
    {"min_p 0.02, temperature 1.3, top_k_top_p",
     1.5,
     3,
     1.3f,
     TOMBOLA_TIES_ALL,
     {{.kind = TOMBOLA_MIN_P, .value = 0.02f},
      {.kind = TOMBOLA_TEMPERATURE, .value = 1.3f},
      {.kind = TOMBOLA_TOP_K_TOP_P, .k = 30, .value = 0.95f}}},
    {"top_k 4, flat", 0.3, 1, 1.0f, TOMBOLA_TIES_ALL, {{.kind = TOMBOLA_TOP_K, .k = 4}}},
    {"top_p 0.2, flat, INDEX", 0.5, 1, 1.0f, TOMBOLA_TIES_INDEX, {{.kind = TOMBOLA_TOP_P, .value = 0.2f}}},
    {"min_p 0.5", 1.0, 1, 1.0f, TOMBOLA_TIES_ALL, {{.kind = TOMBOLA_MIN_P, .value = 0.5f}}},
    {"top_k 30, top_p 0.3, flat",
     0.3,
     2,
     1.0f,
     TOMBOLA_TIES_INDEX,
     {{.kind = TOMBOLA_TOP_K, .k = 30}, {.kind = TOMBOLA_TOP_P, .value = 0.3f}}},
};

#define MANY_TRIALS 5 /* CHAINS[5] */

/* A row with a few ties; several rows' worth of streams at once. */
static void check_frequencies(int32_t method)
{
    enum { ROWS = 8 };
    SKIP_WITHOUT(context, isa);
    static int32_t tokens[ROWS * TOMBOLA_MAX_DRAWS], rounds[ROWS * TOMBOLA_MAX_DRAWS];
    for (size_t c = 0; c < sizeof CHAINS / sizeof *CHAINS; c++) {
        rng r = {c};
        float x[ROWS * VOCAB_SIZE];
        int64_t count[VOCAB_SIZE] = {0}, drawn = 0;
        expected e;
        for (int i = 0; i < VOCAB_SIZE; i++)
            x[i] = (float)rint(rng_normal(&r) * 4.0 * CHAINS[c].deviation) * 0.25f;
        for (int i = 1; i < ROWS; i++) memcpy(x + i * VOCAB_SIZE, x, VOCAB_SIZE * sizeof *x);
        expect(x, CHAINS[c].steps, CHAINS[c].count, CHAINS[c].temperature, CHAINS[c].ties, &e);
        tombola_call call = TOMBOLA_CALL_INIT;
        call.data = x;
        call.rows = ROWS;
        call.vocab_size = VOCAB_SIZE;
        call.steps = CHAINS[c].steps;
        call.step_count = CHAINS[c].count;
        call.ties = CHAINS[c].ties;
        call.method = method;
        call.draws = TOMBOLA_MAX_DRAWS;
        call.tokens = tokens;
        call.rounds = rounds;
        call.seed = 1000 + c;
        double trials = 0;
        /* The rejection methods do more for each token: all draws for the chain with the most rounds, fewer
         * for the others, unless TOMBOLA_LONG is set. */
        bool all = method == TOMBOLA_EXACT || c == MANY_TRIALS || getenv("TOMBOLA_LONG");
        int64_t draws = all ? DRAWS : FEWER;
        for (; drawn < draws; drawn += ROWS * TOMBOLA_MAX_DRAWS, call.offset++) {
            run(&call);
            for (int i = 0; i < ROWS * TOMBOLA_MAX_DRAWS; i++) count[tokens[i]]++, trials += rounds[i];
        }
        check_counts(count, &e, drawn, trials / (double)drawn, CHAINS[c].name);
    }
}

static void exact(void **state)
{
    (void)state;
    check_frequencies(TOMBOLA_EXACT);
}

static void rejection(void **state)
{
    (void)state;
    check_frequencies(TOMBOLA_REJECTION);
}

static void dual_pivot(void **state)
{
    (void)state;
    check_frequencies(TOMBOLA_DUAL_PIVOT);
}

/* ---- independence ---- */

#define FACES 8
#define PAIRS (1 << 20)

/* Chi-square of pairs of rolls of a fair die against uniform on FACES * FACES cells. */
static void check_pairs(const int32_t *a, const int32_t *b, const char *what)
{
    int64_t count[FACES * FACES] = {0};
    double chi = 0, mean = (double)PAIRS / (FACES * FACES);
    for (int i = 0; i < PAIRS; i++) count[a[i] * FACES + b[i]]++;
    for (int i = 0; i < FACES * FACES; i++)
        chi += ((double)count[i] - mean) * ((double)count[i] - mean) / mean;
    double sigmas = chi_square_sigmas(chi, FACES * FACES);
    print_message("  %-44s %+.2f sigma\n", what, sigmas);
    if (sigmas > SIGMAS) fail_msg("%s are not independent", what);
}

/* PAIRS rolls: rows x draws of a call on equal tokens. */
static void roll(int32_t method, uint64_t seed, uint64_t offset, int32_t draws, int32_t *tokens)
{
    static const tombola_step FAIR = {.kind = TOMBOLA_TOP_P, .value = 0.5f}; /* keeps all: they are equal */
    static int32_t *zeros;
    static const float DIE[FACES] = {0};
    if (!zeros && !(zeros = calloc(PAIRS, sizeof *zeros))) abort();
    tombola_call call = TOMBOLA_CALL_INIT;
    call.data = DIE;
    call.rows = PAIRS / draws;
    call.source_rows = 1;
    call.row_index = zeros;
    call.vocab_size = FACES;
    call.steps = &FAIR;
    call.step_count = 1;
    call.method = method;
    call.draws = draws;
    call.seed = seed;
    call.offset = offset;
    call.tokens = tokens;
    run(&call);
}

static void independence(void **state)
{
    (void)state;
    SKIP_WITHOUT(context, isa);
    int32_t *a = malloc((PAIRS + 4096) * sizeof *a), *b = malloc((PAIRS + 4096) * sizeof *b);
    if (!a || !b) abort();
    for (int32_t method = TOMBOLA_EXACT; method <= TOMBOLA_DUAL_PIVOT; method++) {
        print_message("  method %d\n", method);
        roll(method, 5, 0, 4096, a);
        memcpy(b, a + 1, (PAIRS - 1) * sizeof *b);
        b[PAIRS - 1] = a[0];
        check_pairs(a, b, "neighbouring draws");
        memcpy(b, a + 4096, (PAIRS - 4096) * sizeof *b);
        memcpy(b + PAIRS - 4096, a, 4096 * sizeof *b);
        check_pairs(a, b, "the same draw of neighbouring rows");
        roll(method, 5, 1, 4096, b);
        check_pairs(a, b, "neighbouring offsets");
        roll(method, 6, 0, 4096, b);
        check_pairs(a, b, "neighbouring seeds");
        roll(method, 5 + ((uint64_t)1 << 32), 0, 4096, b);
        check_pairs(a, b, "seeds that differ in the high word");
        roll(method, 5, (uint64_t)1 << 32, 4096, b);
        check_pairs(a, b, "offsets that differ in the high word");
        roll(method, 5, 0, 1, a);
        memcpy(b, a + 1, (PAIRS - 1) * sizeof *b);
        b[PAIRS - 1] = a[0];
        check_pairs(a, b, "neighbouring rows of single draws");
    }
    free(a);
    free(b);
}

/* ---- tails ---- */

static void tails(void **state)
{
    (void)state;
    SKIP_WITHOUT(context, isa);
    float x[VOCAB_SIZE];
    uint64_t random[2 * VOCAB_SIZE], prefix = 0;
    int32_t tokens[2 * VOCAB_SIZE], wanted[2 * VOCAB_SIZE], n = 0;
    expected e;
    for (int i = 0; i < VOCAB_SIZE; i++)
        x[i] = (float)(-(i * 37 % VOCAB_SIZE) * 0.44); /* weights 2^40 to 1, and 0 */
    expect(x, NULL, 0, 1.0f, TOMBOLA_TIES_ALL, &e);
    /* token i has the random numbers from ceil(prefix * 2^64 / Z) on */
    for (int i = 0; i < VOCAB_SIZE; i++) {
        if (e.weight[i] == 0) continue;
        unsigned __int128 shifted = (unsigned __int128)prefix << 64;
        uint64_t first = (uint64_t)((shifted + e.mass - 1) / e.mass);
        if (n) {
            random[n] = first - 1;
            wanted[n] = wanted[n - 1];
            n++;
        }
        random[n] = first;
        wanted[n++] = i;
        prefix += e.weight[i];
    }
    random[n] = UINT64_MAX;
    wanted[n] = wanted[n - 1];
    n++;
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < VOCAB_SIZE; i++)
        if (e.weight[i] && e.weight[i] < least) least = e.weight[i];
    assert_true(least < 16);
    tombola_call call = TOMBOLA_CALL_INIT;
    call.data = x;
    call.rows = 1;
    call.vocab_size = VOCAB_SIZE;
    call.draws = n;
    call.random = random;
    call.tokens = tokens;
    run(&call);
    for (int i = 0; i < n; i++)
        if (tokens[i] != wanted[i])
            fail_msg("random number %llu draws %d, not %d", (unsigned long long)random[i], tokens[i],
                     wanted[i]);
}

int main(int argc, char **argv)
{
    isa = argc > 1 ? ISA_ARGUMENT(argc, argv) : TOMBOLA_ISA_AUTO;
    context = open_context(isa, 0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(tails), cmocka_unit_test(independence),
                                       cmocka_unit_test(exact), cmocka_unit_test(rejection),
                                       cmocka_unit_test(dual_pivot)};
    int failed = cmocka_run_group_tests_name("statistics", tests, NULL, NULL);
    tombola_context_destroy(context);
    return failed;
}
