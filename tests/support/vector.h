/*
 * Test vectors (tests/vectors/README.md), packed by pack_vectors.py, and the check that a backend returns
 * what they say. Needs nothing but the library, so that it runs on every machine.
 */
#ifndef TEST_VECTOR_H
#define TEST_VECTOR_H

#include "outputs.h"

typedef struct vector {
    const char *name;
    tombola_call call; /* everything but the data, the outputs and the execution */
    tombola_step steps[TOMBOLA_MAX_STEPS];
    const void *row;
    uint32_t stream;
    const void *expect[OUT_COUNT];
    int64_t expect_count[OUT_COUNT];
} vector;

typedef struct vectors {
    void *file;
    vector *list;
    int64_t count;
} vectors;

/* False, with a line on stderr, when the file cannot be read. */
bool vectors_load(vectors *v, const char *path);
void vectors_free(vectors *v);

/* How a vector's row is laid out in a call. Zero is the plain way. */
typedef struct layout {
    int64_t rows;    /* this many equal rows; 0 = 1 */
    int64_t shift;   /* elements of poison before the first row, so that its address is odd */
    int64_t gap;     /* elements of poison between rows, and in the outputs' strides */
    int64_t longer;  /* ragged rows: vocab_size is longer than the row by this */
    bool in_place;   /* masked logits overwrite the source */
    unsigned mask;   /* outputs asked for; 0 = all */
    int32_t threads; /* 0 = 1 */
} layout;

/* Runs the vector and compares every output. text says what differs. */
bool vector_check(const vector *v, const tombola_context *context, tombola_backend backend, const layout *how,
                  char *text, size_t capacity);

#endif
