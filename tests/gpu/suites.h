/*
 * The GPU tests' suites. Each counts its checks; main.c prints the counts as JSON for the receipt.
 */
#ifndef TEST_GPU_SUITES_H
#define TEST_GPU_SUITES_H

#include <stdatomic.h>
#include <stdint.h>

#include "run_gpu.h"

typedef struct suite {
    const char *name;
    atomic_llong passed, failed, skipped;
    char reason[200]; /* why checks were skipped */
} suite;

/* One context for each variant, the plan's own choice ("auto") first; or one variant alone (--only). */
typedef struct variant {
    const char *name;
    tombola_context *context;
} variant;

typedef struct suite_options {
    const char *vectors; /* the packed file */
    int threads;         /* host threads */
    uint64_t seed;
    int64_t count; /* of random cases; 0 = the suite's default */
    int64_t rows;  /* of a case in "bounded", at most; 0 = as many as there are elsewhere */
    int seconds;   /* after which "bounded" begins no case; 0 = no limit */
} suite_options;

extern suite_options options;
extern variant *variants;
extern int variant_count;

/* Counts a check. The first failures of a suite are printed. */
void suite_check(suite *s, bool good, const char *format, ...) __attribute__((format(printf, 3, 4)));
void suite_skip(suite *s, const char *reason);

/* A call that the backend says it does not do: a skip; but that a forced variant does not do it is no test.
 */
void suite_unserved(suite *s, const char *message);

/* Counts the end of vector_check or sweep_run. */
void suite_result(suite *s, bool good, const char *text, const char *what);

/* Whether variant v runs case i: the plan's own choice always, of the forced ones about `share` a case, in
 * turns, so that over the cases each gets its part. All of them on every case would take too long. */
bool variant_turn(int v, int64_t i, int share);

/* Calls body(s, job, i) for i = 0 .. count - 1 on the options' threads, each with a lane. */
void suite_parallel(suite *s, void (*body)(suite *s, void *job, int64_t i), void *job, int64_t count);

void suite_vectors(suite *s);    /* every vector in every layout, the variants in turns */
void suite_random(suite *s);     /* random calls against the reference */
void suite_parts(suite *s);      /* draws with outputs that more than one kernel has */
void suite_anomalies(suite *s);  /* every kind of row by every kind of chain, good rows between bad ones */
void suite_invariance(suite *s); /* a row alone, in a batch, at any slot, stride, alignment, stream */
void suite_graphs(suite *s);     /* capture and replay, device-side offset advance, dependent launch */
void suite_streams(suite *s);    /* eight streams and threads at once */
void suite_large(suite *s);      /* more than 2^32 elements */
void suite_soak(suite *s);       /* a million rows of mixed vocabularies against the cpu backend */
void suite_statistics(suite *s); /* chi-square of drawn tokens */
void suite_errors(suite *s);     /* every refusal, and that the caller's context outlives it */
void suite_bounded(suite *s);    /* a little of everything, for compute-sanitizer */

#endif
