/*
 * What `tombola sample` knows of the rows that one call drew from.
 */
#ifndef CLI_SAMPLE_H
#define CLI_SAMPLE_H

#include "source.h"

typedef struct sampled {
    const options *options;
    const source *source;
    int64_t first, rows; /* rows of the file */
    const void *data;
    uint32_t *streams;
    int32_t *tokens, *ranks, *rounds; /* [rows, draws] */
    float *logprobs, *raw_logprobs;   /* [rows, draws] */
    int32_t *kept_count;
    uint32_t *status;
    uint64_t *kept_mass, *total_mass;
    float *entropy;
    int32_t *kept_ids;    /* [rows, vocab_size], only with --probs */
    float *probabilities; /* [rows, vocab_size], only with --probs */
    double *fraction;     /* [rows] of the mass that the filters kept, NaN for void rows */
    double seconds;       /* per row: the call's time, divided */
} sampled;

typedef struct status_name {
    uint32_t bit;
    const char *name;
} status_name;

/* The names of the status bits; ends with bit 0. */
extern const status_name status_names[];

/* The kept ids of row r (of the call), the most probable first. Their number; *ids is the caller's to free.
 */
int64_t sampled_kept(const sampled *s, int64_t r, int32_t **ids);

/* Prints row r (of the call) as one line of JSON. */
void print_json(const sampled *s, int64_t r);

#endif
