/*
 * The command line's options. One table describes them all: their names, the commands that take them and
 * their help. They are processed in the order in which they are given, since that is the chain's order.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <tombola.h>

#include "../bench/workload.h"

/* Bits, so that the table can name several. */
typedef enum command { SAMPLE = 1, SHOW = 2, BENCH = 4, INFO = 8 } command;

#define ALL_ROWS (-1)
#define DTYPE_OF_FILE (-1)
#define ALL_METHODS (TOMBOLA_DUAL_PIVOT + 1) /* of bench: one after the other */

typedef struct options {
    const char *file; /* NULL for commands without one */

    tombola_step steps[TOMBOLA_MAX_STEPS];
    int32_t step_count;
    int32_t ties; /* tombola_ties */

    int32_t method; /* tombola_method, or ALL_METHODS */
    uint64_t seed, offset;
    int32_t draws;

    int64_t row;       /* or ALL_ROWS */
    int32_t dtype;     /* tombola_dtype, or DTYPE_OF_FILE */
    int32_t kind;      /* tombola_kind */
    const char *vocab; /* NULL: vocab.txt beside the file */

    int32_t backend; /* tombola_backend */
    int32_t threads; /* 0: all processors */
    int32_t isa;     /* tombola_isa */

    bool probs, rounds, json;
    const char *trace; /* NULL: none */
    int32_t top;

    int64_t vocab_size, batch;
    workload_distribution distribution;
    int32_t repeats;
} options;

/* Reads a command's arguments (without the command itself). Exits on bad ones, and after --help. */
void options_read(options *o, command cmd, int argc, char **argv);

/* A step as a person writes it: "top-k 50". */
void options_step_name(const tombola_step *step, char *text, int capacity);

/* The names of dtypes and methods, as the options spell them. */
extern const char *const dtype_names[], *const method_names[];

#endif
