/*
 * What the two tables of `tombola bench` share: the rows, and the chains that are timed on them.
 */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "baseline.h"
#include "engine.h"

#define BENCH_WARM_UP 3

typedef struct chain {
    int32_t step_count;
    tombola_step steps[TOMBOLA_MAX_STEPS];
} chain;

typedef struct bench {
    engine engine;
    const options *options;
    int64_t row_count; /* rows in memory; calls go round them */
    size_t row_bytes;
    char *rows; /* the backend's memory */
    char *work; /* [batch] rows on the host: those of the call under way, as a model has just written them */
    baseline *baseline;
    int32_t *tokens, *kept, *rounds; /* [batch] */
    uint64_t *random;                /* [batch] */
    double *ours, *theirs;           /* [repeats] seconds per row */
    int64_t methods_timed;           /* cells of --method's table that were not refused, EXACT's left out */
} bench;

/* The rows of call number i, freshly written: a call times what follows the model's last layer, not a read
 * from memory. */
const char *bench_fresh_rows(const bench *b, int64_t i);

/* A call that draws from `rows` by the chain. */
tombola_call bench_call(const bench *b, const chain *c, const char *rows);

/* The chain as a person writes it. */
void bench_chain_name(const chain *c, char *name, size_t capacity);

/* The table of --method: EXACT beside the article's methods. The heading, and a line for one chain. */
void bench_methods_heading(const bench *b);
void bench_methods_line(bench *b, const chain *c);

#endif
