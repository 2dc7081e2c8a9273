/*
 * Random calls, to compare one backend with another: case number i of a seed is always the same call.
 */
#ifndef TEST_SWEEP_H
#define TEST_SWEEP_H

#include <stddef.h>

#include "outputs.h"
#include "source.h"

typedef struct sweep_case {
    tombola_call call; /* everything but outputs and execution */
    unsigned mask;     /* outputs asked for */
    bool in_place;
    source rows;
    tombola_step steps[TOMBOLA_MAX_STEPS];
    void *arrays[16]; /* what the call points to, to be freed */
    int array_count;
    char text[1024]; /* describes the case */
} sweep_case;

/* Limits on what is made. Zero is the default. */
typedef struct sweep_limits {
    int64_t vocab_size; /* greatest; default 262144 */
    int64_t rows;       /* likewise; default 9, fewer of long ones */
} sweep_limits;

void sweep_make(sweep_case *c, uint64_t seed, uint64_t index, const sweep_limits *limits);
void sweep_free(sweep_case *c);

/* One run of a case: its outputs, and its source afterwards (for masked logits in place). */
typedef struct sweep_result {
    outputs out;
    source rows;
} sweep_result;

/* False, with the reason in text, when the run fails. */
bool sweep_run(const sweep_case *c, const tombola_context *context, tombola_backend backend, int32_t threads,
               sweep_result *result, char *text, size_t capacity);
bool sweep_same(const sweep_case *c, const sweep_result *expected, const sweep_result *got, char *text,
                size_t capacity);
void sweep_result_free(sweep_result *result);

#endif
