/*
 * What each step of a chain does to a row, found by running the chain's prefixes.
 */
#ifndef CLI_TRACE_H
#define CLI_TRACE_H

#include "engine.h"

/* The row after the first i steps. */
typedef struct trace_point {
    int32_t kept;
    uint64_t mass; /* of the kept tokens, at the temperature in force */
    float entropy;
    uint32_t status;
} trace_point;

typedef struct trace {
    trace_point points[TOMBOLA_MAX_STEPS + 1]; /* points[0]: before the chain */
    int32_t step_count;
} trace;

/* `row` is memory of the engine. */
void trace_row(engine *e, const options *o, const void *row, int32_t dtype, int64_t vocab_size, trace *out);

/* The fraction of its mass that step i (counted from 1) keeps; 1 for a temperature, NaN for a void row. */
double trace_step_fraction(const trace *t, const options *o, int32_t i);

/* The fraction that all filters keep: the product over them. Each filter is measured at the temperature at
 * which it filters, so that this is right wherever the temperatures stand. */
double trace_fraction(const trace *t, const options *o);

/* True when a temperature stands after a filter: then the call's kept_mass and total_mass are measured at
 * different temperatures, and their quotient says nothing. */
bool trace_needed(const options *o);

/* Probabilities after the first `steps` steps, 0 outside of what they keep. */
void trace_probabilities(engine *e, const options *o, const void *row, int32_t dtype, int64_t vocab_size,
                         int32_t steps, float *probabilities);

#endif
