/*
 * Top-p attention (Twilight, arXiv:2502.02770): of each attention head, only the tokens that make up a share
 * p of its attention weights are read. How many that takes differs from head to head and from step to step,
 * so a fixed budget is wrong for most of them; top-p finds each head's own.
 *
 * One decode step of a layer: four sequences of different lengths, 32 query heads on 8 pairs of key and value
 * heads. Scores are estimated from keys quantised to 4 bits, as Twilight does (a quarter of the bytes); one
 * tombola call selects, for all sequences and heads at once, on ragged rows; attention is then exact on the
 * selected tokens and leaves the others out. Printed: what is read, and how far the result is from full
 * attention.
 *
 * The heads are made up: a third attends to a few tokens (peaked), a third to recent ones (local), a third to
 * almost all (diffuse), and all of them to the first token, as trained heads do.
 *
 *     cc -O2 top_p_attention.c $(pkg-config --cflags --libs tombola) -lm -o top_p_attention
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tombola.h>

#define SEQUENCES 4
#define HEADS 32
#define KV_HEADS 8
#define DIM 64
#define ROWS (SEQUENCES * HEADS)
#define STEPS 7 /* of a quantised key, to each side of 0: 4 bits */

static const int32_t lengths[SEQUENCES] = {700, 1500, 3000, 6000};
#define MOST 6000

enum { PEAKED, LOCAL, DIFFUSE, KINDS };
static const char *const kind_names[KINDS] = {"peaked", "local", "diffuse"};

/* Key and value heads of one sequence: token i's vector is at [i * DIM]. */
typedef struct cache {
    int32_t length;
    float *keys, *values; /* [length, DIM] */
    signed char *quarter; /* [length, DIM] keys in 4 bits, one to a byte for the example's sake */
    float *scale;         /* [length] */
} cache;

typedef struct head {
    int kind;
    float query[DIM], slope; /* slope: what the score loses with each token of distance */
    const cache *cache;
    float full[DIM]; /* the output of full attention */
} head;

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory) exit(1);
    return memory;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- made-up heads ---- */

static unsigned long long random_state = 1;

static double uniform(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
    return ((double)(random_state >> 11) + 0.5) * 0x1p-53;
}

static float normal(void)
{
    return (float)(sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()));
}

static void make_cache(cache *c, int32_t length)
{
    size_t n = (size_t)length * DIM;
    *c = (cache){.length = length,
                 .keys = allocate(n, sizeof(float)),
                 .values = allocate(n, sizeof(float)),
                 .quarter = allocate(n, 1),
                 .scale = allocate((size_t)length, sizeof(float))};
    for (size_t i = 0; i < n; i++) c->keys[i] = normal(), c->values[i] = normal();
    for (int j = 0; j < DIM; j++) c->keys[j] += 1; /* the first token: where heads rest that seek nothing */
    for (int32_t i = 0; i < length; i++) {
        const float *key = c->keys + (size_t)i * DIM;
        float most = 0;
        for (int j = 0; j < DIM; j++) most = fmaxf(most, fabsf(key[j]));
        c->scale[i] = most / STEPS;
        for (int j = 0; j < DIM; j++)
            c->quarter[(size_t)i * DIM + (size_t)j] = (signed char)lrintf(key[j] / c->scale[i]);
    }
}

static void make_head(head *h, int number, const cache *c)
{
    static const float sharpness[KINDS] = {3.5f, 1.5f, 0.7f};
    h->kind = number % KINDS;
    h->cache = c;
    h->slope = h->kind == LOCAL ? 0.02f : 0;
    for (int j = 0; j < DIM; j++) h->query[j] = sharpness[h->kind] * (normal() + 0.3f);
}

/* ---- attention ---- */

static float bias(const head *h, int32_t i)
{
    return -h->slope * (float)(h->cache->length - 1 - i);
}

static float score(const head *h, int32_t i)
{
    const float *key = h->cache->keys + (size_t)i * DIM;
    float sum = 0;
    for (int j = 0; j < DIM; j++) sum += h->query[j] * key[j];
    return sum / 8 /* sqrt(DIM) */ + bias(h, i);
}

static float estimated_score(const head *h, int32_t i)
{
    const signed char *key = h->cache->quarter + (size_t)i * DIM;
    float sum = 0;
    for (int j = 0; j < DIM; j++) sum += h->query[j] * key[j];
    return sum * h->cache->scale[i] / 8 + bias(h, i);
}

/* Attention over the tokens ids[0 .. count), or over all of them where ids is NULL. */
static void attend(const head *h, const int32_t *ids, int32_t count, float *out)
{
    static float scores[MOST];
    float most = -INFINITY;
    double sum = 0, sums[DIM] = {0};
    for (int32_t i = 0; i < count; i++) {
        scores[i] = score(h, ids ? ids[i] : i);
        most = fmaxf(most, scores[i]);
    }
    for (int32_t i = 0; i < count; i++) {
        double weight = exp(scores[i] - most);
        const float *value = h->cache->values + (size_t)(ids ? ids[i] : i) * DIM;
        sum += weight;
        for (int j = 0; j < DIM; j++) sums[j] += weight * value[j];
    }
    for (int j = 0; j < DIM; j++) out[j] = (float)(sums[j] / sum);
}

static double distance(const float *a, const float *b)
{
    double sum = 0;
    for (int j = 0; j < DIM; j++) sum += ((double)a[j] - b[j]) * ((double)a[j] - b[j]);
    return sqrt(sum);
}

/* ---- selection ---- */

typedef struct selection {
    int32_t *ids;         /* [ROWS, MOST] ascending, padded with -1 */
    int32_t count[ROWS];  /* how many of a row */
    uint64_t kept[ROWS];  /* their mass, an exact integer, */
    uint64_t total[ROWS]; /* and that of all tokens of the row */
} selection;

/* One call for all heads of all sequences: row r holds the scores of a head and starts at starts[r]. */
static double select_tokens(const tombola_context *context, const float *scores, const int64_t *starts,
                            const int32_t *row_lengths, float p, selection *s)
{
    tombola_step step = {.kind = TOMBOLA_TOP_P, .value = p};
    tombola_call call = TOMBOLA_CALL_INIT;
    tombola_error error;
    call.data = scores; /* scores, not weights: the softmax is part of the call */
    call.rows = ROWS;
    call.vocab_size = MOST;
    call.row_start = starts;
    call.row_length = row_lengths;
    call.steps = &step;
    call.step_count = 1;
    call.kept_ids = s->ids;
    call.kept_capacity = MOST;
    call.kept_count = s->count;
    call.kept_mass = s->kept;
    call.total_mass = s->total;
    if (tombola_workspace_size(context, &call, &call.workspace_size, &error)) goto failed;
    call.workspace = allocate(call.workspace_size, 1);
    double start = now();
    if (tombola_run(context, &call, &error)) goto failed;
    double seconds = now() - start;
    free(call.workspace);
    return seconds;
failed:
    fprintf(stderr, "%s\n", error.message);
    exit(1);
}

/* Prints a line for each kind of head; false when the selection is not what top-p promises. */
static bool report(const head *heads, const selection *s, float p, double *error_of_all)
{
    double read[KINDS] = {0}, error[KINDS] = {0}, worst[KINDS] = {0};
    int64_t tokens[KINDS] = {0};
    int count[KINDS] = {0};
    *error_of_all = 0;
    for (int r = 0; r < ROWS; r++) {
        const head *h = &heads[r];
        float out[DIM], zero[DIM] = {0};
        if ((double)s->kept[r] < (double)p * (double)s->total[r] * (1 - 1e-12)) return false;
        attend(h, s->ids + (size_t)r * MOST, s->count[r], out);
        double e = distance(out, h->full) / distance(h->full, zero);
        read[h->kind] += s->count[r];
        tokens[h->kind] += h->cache->length;
        error[h->kind] += e;
        worst[h->kind] = fmax(worst[h->kind], e);
        count[h->kind]++;
        *error_of_all += e / ROWS;
    }
    for (int k = 0; k < KINDS; k++)
        printf("%6.2f  %-8s  %6.0f of %6.0f tokens a head  %5.1f %% saved   error %.4f  worst %.4f\n",
               (double)p, kind_names[k], read[k] / count[k], (double)tokens[k] / count[k],
               100 * (1 - read[k] / (double)tokens[k]), error[k] / count[k], worst[k]);
    return true;
}

int main(void)
{
    static cache caches[SEQUENCES][KV_HEADS];
    static head heads[ROWS];
    static selection s;
    int64_t starts[ROWS], size = 0;
    int32_t row_lengths[ROWS];
    for (int q = 0; q < SEQUENCES; q++)
        for (int k = 0; k < KV_HEADS; k++) make_cache(&caches[q][k], lengths[q]);
    for (int r = 0; r < ROWS; r++) {
        int sequence = r / HEADS, number = r % HEADS;
        make_head(&heads[r], number, &caches[sequence][number / (HEADS / KV_HEADS)]);
        starts[r] = size;
        row_lengths[r] = lengths[sequence];
        size += lengths[sequence];
    }
    float *scores = allocate((size_t)size, sizeof *scores);
    double estimate = now();
    for (int r = 0; r < ROWS; r++)
        for (int32_t i = 0; i < row_lengths[r]; i++) scores[starts[r] + i] = estimated_score(&heads[r], i);
    estimate = now() - estimate;

    tombola_context *context;
    tombola_error error;
    if (tombola_context_create(NULL, &context, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    double start = now(), seconds = 0, previous = INFINITY;
    for (int r = 0; r < ROWS; r++) attend(&heads[r], NULL, row_lengths[r], heads[r].full);
    double full = now() - start;
    s.ids = allocate((size_t)ROWS * MOST, sizeof *s.ids);

    printf("%d heads of %d sequences, %lld scores; error: |output - full output| / |full output|\n\n", ROWS,
           SEQUENCES, (long long)size);
    bool good = true;
    static const float ps[] = {0.8f, 0.9f, 0.95f, 0.99f};
    for (size_t i = 0; i < sizeof ps / sizeof *ps && good; i++) {
        double mean;
        seconds = select_tokens(context, scores, starts, row_lengths, ps[i], &s);
        good = report(heads, &s, ps[i], &mean) && mean < previous; /* a greater p is never worse */
        previous = mean;
    }
    start = now();
    float out[DIM];
    for (int r = 0; r < ROWS; r++) attend(&heads[r], s.ids + (size_t)r * MOST, s.count[r], out);
    printf("\nfull attention %.1f ms; at p 0.99: estimated scores %.1f ms, selection %.1f ms, attention %.1f "
           "ms\n"
           "(saved: of the reads of keys and values by attention; the estimate reads all quantised keys "
           "before it)\n",
           1e3 * full, 1e3 * estimate, 1e3 * seconds, 1e3 * (now() - start));

    free(scores), free(s.ids);
    for (int q = 0; q < SEQUENCES; q++)
        for (int k = 0; k < KV_HEADS; k++) {
            cache *c = &caches[q][k];
            free(c->keys), free(c->values), free(c->quarter), free(c->scale);
        }
    tombola_context_destroy(context);
    if (!good) fprintf(stderr, "the selection is not what top-p promises\n");
    return !good;
}
