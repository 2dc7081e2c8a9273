/*
 * Random rows of every kind that has made samplers fail.
 */
#ifndef TEST_ROWS_H
#define TEST_ROWS_H

#include <stdint.h>

#include "random.h"

/* How many kinds there are of logits (kind = TOMBOLA_LOGITS) or probabilities. */
int row_kinds(int32_t kind);
const char *row_kind_name(int32_t kind, int which);

/* Fills x[0 .. n - 1] with a row of the kind. */
void row_fill(int32_t kind, int which, float *x, int64_t n, rng *r);

#endif
