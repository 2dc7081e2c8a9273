/*
 * A call's rows in memory: at any element's offset, with any stride, and with NaN and +inf in every
 * element that belongs to no row, so that reading one too many shows.
 */
#ifndef TEST_SOURCE_H
#define TEST_SOURCE_H

#include <stddef.h>
#include <stdint.h>

typedef struct source {
    unsigned char *memory;
    size_t bytes;
    void *data; /* element 0 of row 0 */
    size_t element;
    int64_t stride;
} source;

/* Room for `rows` rows of `stride` elements after `shift` elements of poison. */
void source_make(source *s, int32_t dtype, int64_t rows, int64_t stride, int64_t shift);
void source_free(source *s);

/* Copies a row's elements. */
void source_put(source *s, int64_t row, const void *elements, int64_t count);

/* The nearest bits of the dtype to a float: rounded toward zero, overflow to infinity, NaN kept. */
uint32_t source_bits(int32_t dtype, float x);

#endif
