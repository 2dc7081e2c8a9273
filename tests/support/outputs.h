/*
 * Every output of a call in one block of memory, so that two calls are compared byte for byte: the
 * values, the gaps that strides leave, and the bytes around each output, which nobody may write.
 */
#ifndef TEST_OUTPUTS_H
#define TEST_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <tombola.h>

/* In the order in which pack_vectors.py stores them. */
typedef enum output {
    OUT_TOKENS,
    OUT_STATUS,
    OUT_ROUNDS,
    OUT_LOGPROBS,
    OUT_RAW_LOGPROBS,
    OUT_RANKS,
    OUT_KEPT_COUNT,
    OUT_KEPT_IDS,
    OUT_KEPT_MASS,
    OUT_TOTAL_MASS,
    OUT_PROBABILITIES,
    OUT_MASKED,
    OUT_TOP_IDS,
    OUT_TOP_LOGPROBS,
    OUT_GIVEN_LOGPROBS,
    OUT_GIVEN_RAW_LOGPROBS,
    OUT_ENTROPY,
    OUT_COUNT
} output;

#define OUT_ALL ((1u << OUT_COUNT) - 1)

typedef struct outputs {
    unsigned char *memory;
    size_t bytes;
    unsigned mask; /* 1 << output: which are asked for */
    size_t place[OUT_COUNT];
} outputs;

const char *output_name(output which);
size_t output_element(output which, const tombola_call *call); /* bytes of one element */
int64_t output_width(output which, const tombola_call *call);  /* elements of one row */
int64_t output_stride(output which, const tombola_call *call); /* elements from one row to the next */

/* Memory for the outputs in `mask`, filled with a pattern. Two made for the same call and mask have the
 * same layout. Places are aligned to their elements and to nothing more. */
void outputs_make(outputs *out, const tombola_call *call, unsigned mask);
void outputs_free(outputs *out);
void outputs_refill(outputs *out);

/* Points the call's output fields at this memory; NULL where not asked for. */
void outputs_bind(const outputs *out, tombola_call *call);

/* Points one output field of a call at `pointer`. */
void output_set(output which, tombola_call *call, void *pointer);

/* True when all bytes are the same. Otherwise text says where they first differ. */
bool outputs_same(const outputs *expected, const outputs *got, const tombola_call *call, char *text,
                  size_t capacity);

/* True when row i of one and row j of the other hold the same; both were made for the same shape but for
 * the number of rows. */
bool outputs_row_same(const outputs *expected, int64_t i, const outputs *got, int64_t j,
                      const tombola_call *call, char *text, size_t capacity);

/* The same for two copies of `bytes` bytes of elements, as for masked logits in place. */
bool elements_same(const char *name, const void *expected, const void *got, size_t bytes, size_t element,
                   int64_t stride, char *text, size_t capacity);

#endif
