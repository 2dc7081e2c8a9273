/*
 * The tests' own random numbers: splitmix64. A test prints its seed, so that a failure can be repeated.
 */
#ifndef TEST_RANDOM_H
#define TEST_RANDOM_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct rng {
    uint64_t state;
} rng;

static inline uint64_t rng_next(rng *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* 0 .. n - 1. */
static inline int64_t rng_below(rng *r, int64_t n)
{
    return (int64_t)(((unsigned __int128)rng_next(r) * (uint64_t)n) >> 64);
}

/* One in n. */
static inline bool rng_one_in(rng *r, int64_t n)
{
    return rng_below(r, n) == 0;
}

/* (0, 1). */
static inline double rng_uniform(rng *r)
{
    return ((double)(rng_next(r) >> 11) + 0.5) * 0x1p-53;
}

static inline double rng_normal(rng *r)
{
    return sqrt(-2.0 * log(rng_uniform(r))) * cos(6.283185307179586 * rng_uniform(r));
}

#endif
