/*
 * A batch in which every row differs: its values, its parameters, its seed and its offset. The tests of this
 * folder run it in ways that must not matter.
 */
#ifndef TEST_BATCH_H
#define TEST_BATCH_H

#include "outputs.h"

#define BATCH_ROWS 23
#define BATCH_SLOTS (BATCH_ROWS + 4)

typedef struct batch {
    tombola_call call; /* outputs not set */
    float *data;
    tombola_step steps[3];
    float temperature[BATCH_SLOTS], p[BATCH_SLOTS], q[BATCH_SLOTS];
    int32_t k[BATCH_SLOTS];
    uint64_t seeds[BATCH_SLOTS], offsets[BATCH_SLOTS];
    int32_t given[BATCH_ROWS * 4];
} batch;

void batch_make(batch *b, int64_t vocab_size, int32_t method);
void batch_free(batch *b);

/* Runs a call with its own outputs, which are made here; ends the test on failure. */
void batch_run(const tombola_context *context, tombola_call call, outputs *out);

#endif
