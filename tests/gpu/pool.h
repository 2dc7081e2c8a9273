/*
 * A pool of rows, each with its own parameters, seed and offset in a slot of its own, and what the reference
 * returns for each. Any batch made of them must return the same for each row, wherever it stands.
 */
#ifndef TEST_GPU_POOL_H
#define TEST_GPU_POOL_H

#include "outputs.h"
#include "random.h"
#include "source.h"
#include "suites.h"

typedef struct pool {
    tombola_call call; /* over all rows, each in its own slot; host memory */
    tombola_step steps[4];
    source rows;
    uint64_t *seeds, *offsets;
    int32_t *k[4];
    float *value[4];
    outputs expected;
    char text[160];
} pool;

/* How many kinds of chain there are. */
extern const int pool_chains;

void pool_make(pool *p, uint64_t seed, int chain, int32_t dtype, int64_t vocab_size, int64_t rows,
               unsigned mask);
void pool_free(pool *p);

/* How a batch is made of the pool. */
typedef struct batch {
    int64_t rows;
    int64_t stride; /* elements between rows of materialised rows; 0 = indices into the pool's own rows */
    int64_t shift;  /* elements before the first materialised row */
    int64_t gap;    /* in the outputs' strides */
    bool in_place;  /* materialised rows only */
} batch;

/* Runs the batch, its rows picked at random, and compares each row's outputs. */
bool pool_check(const pool *p, const tombola_context *context, const batch *how, rng *r, char *text,
                size_t capacity);

#endif
