/*
 * The picture that `tombola show` draws of one row.
 */
#ifndef CLI_CHART_H
#define CLI_CHART_H

#include "source.h"
#include "terminal.h"
#include "trace.h"

/* One row and what the chain makes of it. Tokens are named by their place in the order "greatest first, then
 * lower id"; what a step keeps is always the first so many of them. */
typedef struct chart {
    const options *options;
    const source *source;
    terminal terminal;
    trace trace;
    int64_t count;            /* tokens that can be kept at all: neither -inf nor NaN */
    const uint32_t *ids;      /* [count] */
    const float *values;      /* [count] */
    const float *before;      /* [count] probability before the chain */
    const float *after;       /* [count] and after it, 0 where cut */
    int32_t cumulative_at;    /* the step whose view the running total is of; 0: before the chain */
    const double *cumulative; /* [count] running total, the token itself included; NaN where cut before */
} chart;

/* Why step s (counted from 1) cuts the token at a place, in a few words. */
typedef void chart_why(void *context, int32_t s, int64_t place, char *text, int capacity);

/* What each step leaves: tokens, mass, entropy. */
void chart_steps(const chart *c);

/* The bars: the most probable kept tokens, then the first few that each step cuts. */
void chart_tokens(const chart *c, chart_why *why, void *context);

#endif
