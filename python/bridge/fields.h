/*
 * What a call of the bridge may name. Callers pass  data, field, value, field, value, ...  where a field is
 * its name or, faster, its number, which is its place in the list that the exported function `fields`
 * returns. A value of None is the same as leaving the field out.
 */
#ifndef BRIDGE_FIELDS_H
#define BRIDGE_FIELDS_H

#include <stddef.h>
#include <tombola.h>

typedef enum field_sort {
    SORT_STEP_VALUE, /* appends a step with a value */
    SORT_STEP_K,     /* appends a step with a k */
    SORT_JOINT_P,    /* the value of the joint step before it */
    SORT_INT,        /* an i32 of the call */
    SORT_WORD,       /* 64 bits: a scalar of the call, or one per slot */
    SORT_INPUT,      /* a tensor that is read */
    SORT_OUTPUT,     /* a tensor that is written */
    SORT_OWN         /* the bridge's own */
} field_sort;

/* What a tensor's dimensions are. "rows" is absent where data has one dimension and no rows are picked. */
typedef enum field_shape {
    SHAPE_NONE,
    SHAPE_ROWS,
    SHAPE_DRAWS,  /* rows, then num_samples where that is given */
    SHAPE_LIST,   /* rows, then a number of the caller's */
    SHAPE_VOCAB,  /* rows, then vocab_size; rows may be apart */
    SHAPE_SLOTS,  /* one per slot */
    SHAPE_SOURCE, /* one per row of data */
    SHAPE_ANY
} field_shape;

typedef enum field_type {
    TYPE_NONE,
    TYPE_I32,
    TYPE_BITS32, /* i32 or u32 */
    TYPE_BITS64, /* i64 or u64 */
    TYPE_F32,
    TYPE_DATA, /* data's */
    TYPE_BYTES
} field_type;

typedef struct field {
    const char *name;
    field_sort sort;
    int32_t step; /* tombola_step_kind */
    field_shape shape;
    field_type type;
    size_t at;     /* offset in tombola_call: of the scalar, or of the pointer */
    size_t at_all; /* SORT_WORD: of the pointer to one per slot */
} field;

/* X(constant, name, sort, step, shape, type, member, member of one per slot) */
#define BRIDGE_FIELDS(X)                                                                                     \
    X(TEMPERATURE, "temperature", STEP_VALUE, TOMBOLA_TEMPERATURE, SLOTS, F32, data, data)                   \
    X(TOP_K, "top_k", STEP_K, TOMBOLA_TOP_K, SLOTS, I32, data, data)                                         \
    X(TOP_P, "top_p", STEP_VALUE, TOMBOLA_TOP_P, SLOTS, F32, data, data)                                     \
    X(MIN_P, "min_p", STEP_VALUE, TOMBOLA_MIN_P, SLOTS, F32, data, data)                                     \
    X(JOINT_TOP_K, "joint_top_k", STEP_K, TOMBOLA_TOP_K_TOP_P, SLOTS, I32, data, data)                       \
    X(JOINT_TOP_P, "joint_top_p", JOINT_P, TOMBOLA_TOP_K_TOP_P, SLOTS, F32, data, data)                      \
    X(KIND, "kind", INT, 0, NONE, NONE, kind, data)                                                          \
    X(TIES, "ties", INT, 0, NONE, NONE, ties, data)                                                          \
    X(METHOD, "method", INT, 0, NONE, NONE, method, data)                                                    \
    X(NUM_SAMPLES, "num_samples", INT, 0, NONE, NONE, draws, data)                                           \
    X(THREADS, "threads", INT, 0, NONE, NONE, threads, data)                                                 \
    X(BACKEND, "backend", INT, 0, NONE, NONE, backend, data)                                                 \
    X(TOP_RAW, "top_raw", INT, 0, NONE, NONE, top_raw, data)                                                 \
    X(ADVANCE, "advance", INT, 0, NONE, NONE, advance_offsets, data)                                         \
    X(SEED, "seed", WORD, 0, SLOTS, BITS64, seed, seeds)                                                     \
    X(OFFSET, "offset", WORD, 0, SLOTS, BITS64, offset, offsets)                                             \
    X(ROWS, "rows", INPUT, 0, ANY, I32, row_index, data)                                                     \
    X(SLOTS, "slots", INPUT, 0, ROWS, I32, slot_index, data)                                                 \
    X(LENGTHS, "lengths", INPUT, 0, SOURCE, I32, row_length, data)                                           \
    X(STREAMS, "streams", INPUT, 0, ROWS, BITS32, streams, data)                                             \
    X(RANDOM, "random", INPUT, 0, DRAWS, BITS64, random, data)                                               \
    X(IDS, "ids", INPUT, 0, LIST, I32, given_ids, data)                                                      \
    X(TOKENS, "tokens", OUTPUT, 0, DRAWS, I32, tokens, data)                                                 \
    X(STATUS, "status", OUTPUT, 0, ROWS, BITS32, status, data)                                               \
    X(ROUNDS, "rounds", OUTPUT, 0, DRAWS, I32, rounds, data)                                                 \
    X(LOGPROBS, "logprobs", OUTPUT, 0, DRAWS, F32, logprobs, data)                                           \
    X(RAW_LOGPROBS, "raw_logprobs", OUTPUT, 0, DRAWS, F32, raw_logprobs, data)                               \
    X(RANKS, "ranks", OUTPUT, 0, DRAWS, I32, ranks, data)                                                    \
    X(KEPT_COUNTS, "kept_counts", OUTPUT, 0, ROWS, I32, kept_count, data)                                    \
    X(KEPT_IDS, "kept_ids", OUTPUT, 0, LIST, I32, kept_ids, data)                                            \
    X(KEPT_MASS, "kept_mass", OUTPUT, 0, ROWS, BITS64, kept_mass, data)                                      \
    X(TOTAL_MASS, "total_mass", OUTPUT, 0, ROWS, BITS64, total_mass, data)                                   \
    X(PROBABILITIES, "probabilities", OUTPUT, 0, VOCAB, F32, probabilities, data)                            \
    X(MASKED, "masked", OUTPUT, 0, VOCAB, DATA, masked_logits, data)                                         \
    X(TOP_IDS, "top_ids", OUTPUT, 0, LIST, I32, top_ids, data)                                               \
    X(TOP_LOGPROBS, "top_logprobs", OUTPUT, 0, LIST, F32, top_logprobs, data)                                \
    X(LOGPROBS_OF_IDS, "logprobs_of_ids", OUTPUT, 0, LIST, F32, given_logprobs, data)                        \
    X(RAW_LOGPROBS_OF_IDS, "raw_logprobs_of_ids", OUTPUT, 0, LIST, F32, given_raw_logprobs, data)            \
    X(ENTROPY, "entropy", OUTPUT, 0, ROWS, F32, entropy, data)                                               \
    X(BFLOAT16, "bfloat16", OWN, 0, NONE, NONE, data, data)   /* not 0: data's u16 elements are bfloat16 */  \
    X(STREAM, "stream", OWN, 0, NONE, NONE, data, data)       /* a CUDA stream's handle as an integer */     \
    X(WORKSPACE, "workspace", OWN, 0, ANY, BYTES, data, data) /* device memory for this call */              \
    X(NOT_CAPTURED, "not_captured", OWN, 0, NONE, NONE, data, data) /* not 0: refused in a stream capture */

enum {
#define ENUMERATE(constant, ...) FIELD_##constant,
    BRIDGE_FIELDS(ENUMERATE)
#undef ENUMERATE
        FIELD_COUNT
};

extern const field bridge_fields[FIELD_COUNT];

#endif
