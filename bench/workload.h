/*
 * Made-up rows of logits, and timing, for every benchmark: the command line's and the programs here.
 *
 * A row is a pure function of (distribution, size, seed). Random numbers come from xoshiro256**, whose state
 * splitmix64 fills from the seed; normal ones by Marsaglia's polar method. (The last bits of a value depend
 * on the C library's log.)
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TOMBOLA_BENCH_WORKLOAD_H
#define TOMBOLA_BENCH_WORKLOAD_H

#include <stdint.h>

typedef enum workload_distribution {
    WORKLOAD_ZIPF,       /* -1.6 ln(rank) + 0.3 N(0,1), permuted: like a language model's */
    WORKLOAD_N01,        /* N(0,1): flat, the hardest for a cut by mass */
    WORKLOAD_N05,        /* 5 N(0,1) */
    WORKLOAD_EQUAL,      /* all 1 */
    WORKLOAD_ASCENDING,  /* -10 to 10 in equal steps: the worst order for a running maximum */
    WORKLOAD_DESCENDING, /* 10 to -10 */
    WORKLOAD_TWO,        /* 0 or 1, equally likely: every cut falls among ties */
    WORKLOAD_MASKED,     /* N(0,1) with 95 % of the tokens at -inf, as under a grammar */
    WORKLOAD_THREE       /* three tokens of N(0,1), all others at -inf */
} workload_distribution;

/* "zipf", "n01", "n05", "equal", "ascending", "descending", "two", "masked", "three", NULL. */
extern const char *const workload_names[];

/* Fills a row of `size` logits. */
void workload_fill(float *row, int64_t size, workload_distribution distribution, uint64_t seed);

/* Stores `size` values as dtype 0 (f32), 1 (f16) or 2 (bf16), the numbers of tombola_dtype; rounded to the
 * nearest, ties to even. */
void workload_store(void *to, const float *row, int64_t size, int dtype);

/* ---- random numbers ---- */

typedef struct workload_random {
    uint64_t state[4];
    double spare; /* the polar method makes two normal numbers at a time */
    int has_spare;
} workload_random;

void workload_random_seed(workload_random *random, uint64_t seed);
uint64_t workload_random_bits(workload_random *random);  /* 64 uniform bits */
double workload_random_uniform(workload_random *random); /* [0, 1), a multiple of 2^-53 */
double workload_random_normal(workload_random *random);

/* ---- time ---- */

/* Seconds of a monotonic clock. */
double workload_now(void);

/* The median; sorts the values in place. 0 for none. */
double workload_median(double *values, int count);

#endif
