/*
 * The rows that a command reads: the file, the type of its elements, and the texts of the tokens.
 */
#ifndef CLI_SOURCE_H
#define CLI_SOURCE_H

#include "engine.h"
#include "npy.h"
#include "vocab.h"

typedef struct source {
    const char *path;
    npy_file file;
    int32_t dtype; /* tombola_dtype */
    int64_t rows, vocab_size;
    vocab vocab; /* count 0: none */
} source;

/* Opens the options' file and vocabulary; exits when they do not fit. */
void source_open(source *s, const options *o);
void source_close(source *s);

/* Reads rows into memory that has room for them. */
void source_read(const source *s, int64_t first, int64_t count, void *to);

size_t source_row_bytes(const source *s);

#endif
