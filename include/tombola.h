/*
 * tombola: from logits to tokens, without sorting.
 *
 * A call is   source -> chain -> outputs.
 *   source   rows of logits, or of probabilities (any non-negative weights)
 *   chain    an ordered list of steps: temperature, top_k, top_p, min_p, joint top_k + top_p
 *   outputs  whichever result pointers are not NULL: tokens, log-probabilities, kept ids, masks ...
 *
 * What a call returns is defined to the bit by docs/law.md ("the law"). It depends on the row, the
 * chain and the row's random numbers, and on nothing else: not on the backend, the instruction set,
 * the number of threads, the batch, the row's place in it, or alignment. Masses are integers: the
 * row's greatest token weighs 2^40 and every other token 2^40 * 2^t, rounded down.
 *
 *     tombola_context *context;
 *     tombola_context_create(NULL, &context, NULL);
 *     tombola_step steps[] = {{.kind = TOMBOLA_TEMPERATURE, .value = 0.8f},
 *                             {.kind = TOMBOLA_TOP_K_TOP_P, .k = 50, .value = 0.9f}};
 *     tombola_call call = TOMBOLA_CALL_INIT;
 *     call.data = logits, call.rows = 1, call.vocab_size = 128256;
 *     call.steps = steps, call.step_count = 2;
 *     call.seed = 7;
 *     call.tokens = &token;
 *     tombola_workspace_size(context, &call, &call.workspace_size, NULL);
 *     call.workspace = malloc(call.workspace_size);
 *     tombola_run(context, &call, NULL);
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TOMBOLA_H
#define TOMBOLA_H

#include <stddef.h>
#include <stdint.h>

/* The only place where the version stands; the build reads it from here. */
#define TOMBOLA_VERSION_MAJOR 0
#define TOMBOLA_VERSION_MINOR 1
#define TOMBOLA_VERSION_PATCH 0

#if defined(TOMBOLA_BUILD) && defined(__GNUC__)
#define TOMBOLA_API __attribute__((visibility("default")))
#else
#define TOMBOLA_API
#endif
#if defined(__GNUC__)
#define TOMBOLA_MUST_CHECK __attribute__((warn_unused_result))
#else
#define TOMBOLA_MUST_CHECK
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Limits ------------------------------------------------------------------------------ */

#define TOMBOLA_MAX_VOCAB_SIZE (1 << 22) /* keeps every mass below 2^63 */
#define TOMBOLA_MAX_STEPS 16
#define TOMBOLA_MAX_DRAWS 4096 /* the draw number has 12 bits of the Philox counter */

/* ---- Results and errors ------------------------------------------------------------------ */

/* What a function returns. The numbers are stable. */
typedef enum tombola_result {
    TOMBOLA_OK = 0,
    TOMBOLA_ERROR_INVALID_ARGUMENT = 10, /* error.argument names it; nothing was written */
    TOMBOLA_ERROR_STRUCT_SIZE = 11,      /* struct_size not set, or from a newer header */
    TOMBOLA_ERROR_REFUSED = 20,          /* a combination that the law refuses */
    TOMBOLA_ERROR_UNSUPPORTED = 21,      /* valid, but this build or backend does not do it */
    TOMBOLA_ERROR_WORKSPACE = 30,        /* workspace missing, too small or misaligned */
    TOMBOLA_ERROR_OUT_OF_MEMORY = 40,    /* only tombola_context_create allocates */
    TOMBOLA_ERROR_NO_BACKEND = 50,       /* no such backend here: no device, no driver */
    TOMBOLA_ERROR_NO_ISA = 51,           /* the machine lacks the forced instruction set */
    TOMBOLA_ERROR_DRIVER = 60            /* the CUDA driver refused; error.message says why */
} tombola_result;

/* Where a function failed and what to do. Owned by the caller; every function takes NULL for it. */
typedef struct tombola_error {
    tombola_result result;
    char argument[48]; /* the name of the field or parameter, or "" */
    char message[464];
} tombola_error;

/* A short English name of a result, never NULL. */
TOMBOLA_API const char *tombola_result_string(tombola_result result);

/* Per-row status: independent bits. One bad row never changes another. With EMPTY or BAD_PARAM the
 * row's token and ids are -1, counts, masses and ranks 0, log-probabilities and entropy NaN,
 * probabilities 0 and masked logits -inf. */
enum {
    TOMBOLA_ROW_NAN = 1,       /* NaN entries were left out */
    TOMBOLA_ROW_POS_INF = 2,   /* +inf entries: only they can be drawn, equally likely */
    TOMBOLA_ROW_NEGATIVE = 4,  /* probabilities only: negative entries were left out */
    TOMBOLA_ROW_EMPTY = 8,     /* nothing to draw from */
    TOMBOLA_ROW_BAD_PARAM = 16 /* a parameter of the row is NaN, a temperature is negative, or its
                                  row_index, slot_index, row_start or row_length is out of range */
};

/* ---- Choices ------------------------------------------------------------------------------ */

typedef enum tombola_kind { TOMBOLA_LOGITS = 0, TOMBOLA_PROBABILITIES = 1 } tombola_kind;
typedef enum tombola_dtype { TOMBOLA_F32 = 0, TOMBOLA_F16 = 1, TOMBOLA_BF16 = 2 } tombola_dtype;

/* Tokens of equal value at a cut: ALL keeps them together, as torch masks and FlashInfer do;
 * INDEX ranks the lower index higher, so that top_k keeps exactly k. */
typedef enum tombola_ties { TOMBOLA_TIES_ALL = 0, TOMBOLA_TIES_INDEX = 1 } tombola_ties;

/* How a token is drawn from what the chain keeps. All draw from the same distribution.
 * EXACT       finds the cut, then inverse transform over the kept tokens in index order
 * REJECTION   the article "Sorting-Free GPU Kernels for LLM Sampling" (FlashInfer), single pivot
 * DUAL_PIVOT  the same with two pivots, at most 73 trials (95 with TIES_INDEX)
 * REJECTION and DUAL_PIVOT refuse `random`, and a temperature after the chain's last filter. */
typedef enum tombola_method {
    TOMBOLA_EXACT = 0,
    TOMBOLA_REJECTION = 1,
    TOMBOLA_DUAL_PIVOT = 2
} tombola_method;

/* AUTO: cuda where `data` is device memory, else cpu. REFERENCE: the law in plain C, slow, for tests. */
typedef enum tombola_backend {
    TOMBOLA_BACKEND_AUTO = 0,
    TOMBOLA_BACKEND_CPU = 1,
    TOMBOLA_BACKEND_CUDA = 2,
    TOMBOLA_BACKEND_REFERENCE = 3
} tombola_backend;

typedef enum tombola_isa {
    TOMBOLA_ISA_AUTO = 0, /* the best one that the machine has; the environment variable TOMBOLA_ISA
                             (portable, avx2, avx512) overrides it */
    TOMBOLA_ISA_PORTABLE = 1,
    TOMBOLA_ISA_AVX2 = 2,
    TOMBOLA_ISA_AVX512 = 3
} tombola_isa;

/* ---- Chain -------------------------------------------------------------------------------- */

typedef enum tombola_step_kind {
    TOMBOLA_TEMPERATURE = 1, /* value: replaces the temperature (1 at the start). 0 = greedy: only the
                                greatest token, lowest index, stays. Refused for probabilities. */
    TOMBOLA_TOP_K = 2,       /* k: keeps a token if fewer than k kept ones are greater. Off: k <= 0 */
    TOMBOLA_TOP_P = 3,       /* value: keeps a token if the mass of the greater kept ones is less than
                                value * (mass of all kept ones). Off: value >= 1. <= 0: the greatest */
    TOMBOLA_MIN_P = 4,       /* value: keeps a token if its weight >= value * (greatest weight).
                                Off: value <= 0 */
    TOMBOLA_TOP_K_TOP_P = 5  /* k and value: both, on the same set (FlashInfer's "joint") */
} tombola_step_kind;

/* One step. Each parameter is a scalar, or one value per slot where the array is not NULL. */
typedef struct tombola_step {
    int32_t kind; /* tombola_step_kind; 0 is refused */
    int32_t k;
    float value;
    const int32_t *k_per_slot;   /* [slot_count] */
    const float *value_per_slot; /* [slot_count] */
} tombola_step;

/* ---- Call --------------------------------------------------------------------------------- */

struct tombola_adjust; /* bias, penalties, bit masks: a later version's */

/*
 * Everything about one call. Begin with TOMBOLA_CALL_INIT; a zero field is its default.
 *
 * With the cpu and reference backends every pointer is host memory. With cuda every pointer is device
 * memory (or host memory that the device can address), except `steps` itself, which is read before
 * tombola_run returns.
 *
 * Aliasing: masked_logits may equal `data` exactly (in place). No other output may overlap an input,
 * another output or the workspace.
 */
typedef struct tombola_call {
    size_t struct_size; /* sizeof(tombola_call) */

    /* Source: element (r, i) is data[r * row_stride + i], or data[row_start[r] + i] for ragged rows. */
    const void *data;          /* any alignment that suits the dtype's elements */
    int32_t kind;              /* tombola_kind */
    int32_t dtype;             /* tombola_dtype */
    int64_t rows;              /* rows of output; 0 does nothing */
    int64_t vocab_size;        /* 1 .. TOMBOLA_MAX_VOCAB_SIZE; for ragged rows the greatest length */
    int64_t row_stride;        /* elements from one row to the next; 0 = vocab_size */
    int64_t source_rows;       /* rows in data; 0 = rows */
    int64_t data_size;         /* elements in data, for bounds checks; 0 = not checked */
    const int32_t *row_index;  /* [rows] output row -> source row; NULL = the same */
    const int64_t *row_start;  /* [source_rows] ragged: first element of a row; NULL = r * row_stride */
    const int32_t *row_length; /* [source_rows] ragged: elements in a row; NULL = vocab_size */
    const int32_t *slot_index; /* [rows] output row -> slot of the per-slot arrays; NULL = row r has
                                  slot r, or slot 0 where slot_count is 1 */
    int64_t slot_count;        /* length of the per-slot arrays; 0 = rows */
    const struct tombola_adjust *adjust; /* must be NULL */

    /* Chain: an empty one keeps every token at temperature 1. vLLM applies its parameters in the order
     * temperature, min_p, top_k, top_p. */
    const tombola_step *steps; /* [step_count] */
    int32_t step_count;
    int32_t ties; /* tombola_ties */

    /* Draw: Philox4x32-10 with key = seed, counter = (offset, stream, draw number). Each row has its
     * seed and its offset (of a request: the position of the token). With one scalar seed the stream is
     * the output row's number, so that rows differ; with per-slot seeds it is 0, so that a request's
     * tokens do not depend on its place in the batch; `streams` overrides both. */
    int32_t method; /* tombola_method */
    int32_t draws;  /* independent draws per row, up to TOMBOLA_MAX_DRAWS; 0 = 1 */
    uint64_t seed;
    uint64_t offset;
    const uint64_t *seeds;   /* [slot_count], or NULL for the scalar */
    uint64_t *offsets;       /* [slot_count], or NULL for the scalar */
    int32_t advance_offsets; /* not 0: after the draws, each slot that a row of the call names has its
                                offset raised by 1 (once, however many rows name it) */
    const uint32_t *streams; /* [rows] */
    const uint64_t *random;  /* [rows, draws] 64 uniform bits per draw, instead of Philox; EXACT only */

    /* Outputs: each pointer that is not NULL is filled. */
    int32_t *tokens;     /* [rows, draws] */
    uint32_t *status;    /* [rows] TOMBOLA_ROW_ bits */
    int32_t *rounds;     /* [rows, draws] trials of REJECTION and DUAL_PIVOT; 0 for EXACT */
    float *logprobs;     /* [rows, draws] natural log of the drawn token's final probability */
    float *raw_logprobs; /* [rows, draws] the same before the chain: temperature 1, all tokens */
    int32_t *ranks;      /* [rows, draws] tokens whose value >= the drawn one's (1 = greatest) */
    int32_t *kept_count; /* [rows] tokens that the chain keeps */
    int32_t *kept_ids;   /* [rows, kept_capacity] ascending, padded with -1; when kept_count exceeds
                            kept_capacity the lowest ids are stored */
    int64_t kept_capacity;
    uint64_t *kept_mass;          /* [rows] mass of the kept tokens */
    uint64_t *total_mass;         /* [rows] mass before the first step that is not a temperature */
    float *probabilities;         /* [rows, probabilities_stride] renormalised; 0 outside the kept set */
    int64_t probabilities_stride; /* 0 = vocab_size */
    void *masked_logits;          /* [rows, masked_stride], the source's dtype: its own bits where kept, -inf
                                     elsewhere. In place (== data): at the source's own positions, and
                                     refused together with row_index */
    int64_t masked_stride;        /* 0 = vocab_size; ignored in place */
    int32_t *top_ids;             /* [rows, top_count] greatest values first, lowest index first among equals,
                                     padded with -1 */
    float *top_logprobs;          /* [rows, top_count] padded with -inf */
    int32_t top_count;
    int32_t top_raw;           /* not 0: top_ids over all tokens with raw log-probabilities; 0: over the
                                  kept tokens with final ones */
    const int32_t *given_ids;  /* [rows, given_count] input */
    float *given_logprobs;     /* [rows, given_count] final; -inf outside the kept set, NaN out of range */
    float *given_raw_logprobs; /* [rows, given_count] raw */
    int32_t given_count;
    float *entropy; /* [rows] nats, of the kept tokens' distribution; NaN for probabilities */
    /* For ragged rows only a row's own elements of probabilities and masked_logits are written. */

    /* Execution */
    int32_t backend;          /* tombola_backend */
    int32_t threads;          /* cpu, reference: 1 = on the caller's thread; 0 = the context's number */
    void *cuda_stream;        /* CUstream or cudaStream_t; NULL = the default stream */
    int32_t dependent_launch; /* not 0: programmatic dependent launch, to overlap with the kernel before */
    void *workspace;          /* device memory with cuda; its content means nothing between calls */
    size_t workspace_size;    /* bytes, at least tombola_workspace_size */
} tombola_call;

#ifdef __cplusplus
#define TOMBOLA_CALL_INIT                                                                                    \
    {                                                                                                        \
        sizeof(tombola_call)                                                                                 \
    }
#else
#define TOMBOLA_CALL_INIT                                                                                    \
    {                                                                                                        \
        .struct_size = sizeof(tombola_call)                                                                  \
    }
#endif

/* ---- Context ------------------------------------------------------------------------------ */

/* Worker threads, the choice of instruction set, loaded kernels. Immutable once made. */
typedef struct tombola_context tombola_context;

typedef struct tombola_options {
    size_t struct_size; /* sizeof(tombola_options) */
    int32_t threads;    /* greatest number of threads of a call; 0 = the processors available */
    int32_t isa;        /* tombola_isa */
    int32_t cuda;       /* 0: kernels are loaded if a device is there; 1: it is an error if they cannot
                           be; -1: never */
} tombola_options;

/*
 * Makes a context. options may be NULL (all defaults). On failure *context is NULL.
 * With CUDA the context belongs to the CUDA context current on the calling thread (or to device 0's
 * primary context, where none is current); calls run there.
 * Errors: NO_ISA, NO_BACKEND, DRIVER, OUT_OF_MEMORY, STRUCT_SIZE, INVALID_ARGUMENT.
 */
TOMBOLA_API TOMBOLA_MUST_CHECK tombola_result tombola_context_create(const tombola_options *options,
                                                                     tombola_context **context,
                                                                     tombola_error *error);

/* Frees a context that no call uses any more. NULL is allowed. */
TOMBOLA_API void tombola_context_destroy(tombola_context *context);

/* ---- Running ------------------------------------------------------------------------------ */

/*
 * Bytes of workspace that tombola_run needs for this call; the call's `workspace` and
 * `workspace_size` are not looked at. It depends on shapes, dtype, chain kinds, which outputs are asked
 * for, backend and threads, never on values, so one workspace serves every call of the same shape. The
 * workspace needs the alignment of malloc on the host and 256 bytes on the device.
 */
TOMBOLA_API TOMBOLA_MUST_CHECK tombola_result tombola_workspace_size(const tombola_context *context,
                                                                     const tombola_call *call, size_t *size,
                                                                     tombola_error *error);

/*
 * Runs a call. Bad arguments are refused before anything is written or launched.
 *
 * cpu, reference: returns when all outputs are written; no allocation, no locks held between calls.
 * Results do not depend on the caller's rounding mode or flush-to-zero flags, which are kept.
 * cuda: asynchronous on cuda_stream, no allocation, no synchronisation; may be captured in a graph.
 *
 * A context may be used by several threads at once, each call with its own workspace and outputs.
 */
TOMBOLA_API TOMBOLA_MUST_CHECK tombola_result tombola_run(const tombola_context *context,
                                                          const tombola_call *call, tombola_error *error);

/*
 * Writes how this call would run (backend, instruction set or kernels, threads, workspace) as one line
 * of text, always terminated, cut at `capacity` bytes. A pure function of the context and the shape.
 */
TOMBOLA_API TOMBOLA_MUST_CHECK tombola_result tombola_plan(const tombola_context *context,
                                                           const tombola_call *call, char *text,
                                                           size_t capacity, tombola_error *error);

/* ---- Information -------------------------------------------------------------------------- */

typedef struct tombola_info {
    size_t struct_size; /* sizeof(tombola_info), set by the caller */
    int32_t isa;        /* tombola_isa in use */
    int32_t isa_best;   /* the best that the machine has */
    int32_t threads;
    int32_t cuda_available; /* 1 when the cuda backend can run */
    char cuda_device[96];   /* name and compute capability, or "" */
    char cuda_reason[160];  /* why the cuda backend cannot run, or "" */
} tombola_info;

TOMBOLA_API TOMBOLA_MUST_CHECK tombola_result tombola_context_info(const tombola_context *context,
                                                                   tombola_info *info);

/* MAJOR * 10000 + MINOR * 100 + PATCH of the library in use, to compare with the header's. */
TOMBOLA_API int tombola_version(void);

/* "portable", "avx2", "avx512", "auto"; "unknown" for any other number. */
TOMBOLA_API const char *tombola_isa_name(tombola_isa isa);

#ifdef __cplusplus
}
#endif
#endif
