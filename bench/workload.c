/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "workload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const workload_names[] = {"zipf",       "n01", "n05",    "equal", "ascending",
                                      "descending", "two", "masked", "three", NULL};

/* ---- random numbers ---- */

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

void workload_random_seed(workload_random *random, uint64_t seed)
{
    *random = (workload_random){0};
    for (int i = 0; i < 4; i++) { /* splitmix64 */
        uint64_t z = seed += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        random->state[i] = z ^ z >> 31;
    }
}

uint64_t workload_random_bits(workload_random *random)
{
    uint64_t *s = random->state; /* xoshiro256** 1.0 */
    uint64_t result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

double workload_random_uniform(workload_random *random)
{
    return (double)(workload_random_bits(random) >> 11) * 0x1p-53;
}

double workload_random_normal(workload_random *random)
{
    if (random->has_spare) {
        random->has_spare = 0;
        return random->spare;
    }
    double x, y, square;
    do {
        x = 2 * workload_random_uniform(random) - 1;
        y = 2 * workload_random_uniform(random) - 1;
        square = x * x + y * y;
    } while (square >= 1 || square == 0);
    double scale = sqrt(-2 * log(square) / square);
    random->spare = y * scale;
    random->has_spare = 1;
    return x * scale;
}

/* A number below `bound`. The bias of taking the upper bits of a product is below 2^-40 here. */
static int64_t below(workload_random *random, int64_t bound)
{
    return (int64_t)((unsigned __int128)workload_random_bits(random) * (uint64_t)bound >> 64);
}

/* ---- rows ---- */

static void shuffle(float *row, int64_t size, workload_random *random)
{
    for (int64_t i = size - 1; i > 0; i--) {
        int64_t j = below(random, i + 1);
        float x = row[i];
        row[i] = row[j];
        row[j] = x;
    }
}

static void fill_normal(float *row, int64_t size, workload_random *random, double deviation)
{
    for (int64_t i = 0; i < size; i++) row[i] = (float)(deviation * workload_random_normal(random));
}

/* From `first` to the opposite value in equal steps. */
static void fill_ramp(float *row, int64_t size, double first)
{
    double step = size > 1 ? -2 * first / (double)(size - 1) : 0;
    for (int64_t i = 0; i < size; i++) row[i] = (float)(first + step * (double)i);
}

static void fill_three(float *row, int64_t size, workload_random *random)
{
    for (int64_t i = 0; i < size; i++) row[i] = -INFINITY;
    for (int64_t left = size < 3 ? size : 3; left > 0;) {
        int64_t i = below(random, size);
        if (row[i] > -INFINITY) continue;
        row[i] = (float)workload_random_normal(random);
        left--;
    }
}

void workload_fill(float *row, int64_t size, workload_distribution distribution, uint64_t seed)
{
    workload_random random;
    workload_random_seed(&random, seed);
    switch (distribution) {
    case WORKLOAD_ZIPF:
        for (int64_t i = 0; i < size; i++)
            row[i] = (float)(-1.6 * log((double)(i + 1)) + 0.3 * workload_random_normal(&random));
        shuffle(row, size, &random);
        break;
    case WORKLOAD_N01: fill_normal(row, size, &random, 1); break;
    case WORKLOAD_N05: fill_normal(row, size, &random, 5); break;
    case WORKLOAD_EQUAL:
        for (int64_t i = 0; i < size; i++) row[i] = 1;
        break;
    case WORKLOAD_ASCENDING: fill_ramp(row, size, -10); break;
    case WORKLOAD_DESCENDING: fill_ramp(row, size, 10); break;
    case WORKLOAD_TWO:
        for (int64_t i = 0; i < size; i++) row[i] = (float)(workload_random_bits(&random) >> 63);
        break;
    case WORKLOAD_MASKED:
        fill_normal(row, size, &random, 1);
        for (int64_t i = 0; i < size; i++)
            if (workload_random_uniform(&random) < 0.95) row[i] = -INFINITY;
        /* a row of nothing would be another case */
        row[0] = 0;
        break;
    case WORKLOAD_THREE: fill_three(row, size, &random); break;
    }
}

/* ---- dtypes ---- */

static uint16_t to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value) return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static uint16_t to_f16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return 0x7e00;
    if (bits >= 0x477ff000) return sign | 0x7c00; /* 65520 and more round to infinity */
    if (bits >= 0x38800000)                       /* normal numbers: 2^-14 and more */
        return (uint16_t)(sign | ((bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13));
    /* subnormal ones are multiples of 2^-24; rint rounds to even */
    return (uint16_t)(sign | (uint16_t)rintf(fabsf(value) * 0x1p24f));
}

void workload_store(void *to, const float *row, int64_t size, int dtype)
{
    if (dtype == 0) {
        memcpy(to, row, (size_t)size * sizeof *row);
        return;
    }
    uint16_t *out = to;
    for (int64_t i = 0; i < size; i++) out[i] = dtype == 1 ? to_f16(row[i]) : to_bf16(row[i]);
}

/* ---- time ---- */

double workload_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double workload_median(double *values, int count)
{
    if (count <= 0) return 0;
    qsort(values, (size_t)count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}
