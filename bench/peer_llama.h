/*
 * llama.cpp's sampler chain as a peer of the benchmark. libllama is opened at run time from a path, so
 * that building the benchmark needs nothing of llama.cpp. Written against llama-cpp-python 0.3.36.
 *
 *     peer_llama *llama = peer_llama_open(path, message, sizeof message);
 *     peer_llama_step steps[] = {{.kind = PEER_LLAMA_TOP_K, .k = 40}, {.kind = PEER_LLAMA_DIST}};
 *     peer_llama_chain *chain = peer_llama_chain_create(llama, steps, 2, vocab_size);
 *     int32_t token = peer_llama_run(chain, row);           // the timed part
 *     peer_llama_chain_destroy(chain);
 *     peer_llama_close(llama);
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TOMBOLA_BENCH_PEER_LLAMA_H
#define TOMBOLA_BENCH_PEER_LLAMA_H

#include <stddef.h>
#include <stdint.h>

typedef struct peer_llama peer_llama;
typedef struct peer_llama_chain peer_llama_chain;

typedef enum peer_llama_kind {
    PEER_LLAMA_TOP_K, /* k */
    PEER_LLAMA_TOP_P, /* value */
    PEER_LLAMA_MIN_P, /* value */
    PEER_LLAMA_TEMP,  /* value */
    PEER_LLAMA_DIST,  /* seed; draws the token */
    PEER_LLAMA_GREEDY /* takes the greatest one */
} peer_llama_kind;

typedef struct peer_llama_step {
    peer_llama_kind kind;
    int32_t k;
    float value;
    uint32_t seed; /* 0xffffffff makes llama.cpp choose one */
} peer_llama_step;

/* Opens libllama (or NULL, with the reason in `message`). It first runs a row of three logits, so that a
 * version whose structures differ is refused. */
peer_llama *peer_llama_open(const char *path, char *message, size_t capacity);

/* Closes it. Its chains must be destroyed before. NULL is allowed. */
void peer_llama_close(peer_llama *llama);

/* llama.cpp's own version, or "" where the library does not tell. */
const char *peer_llama_version(const peer_llama *llama);

/* Builds a chain whose last step should be DIST or GREEDY, and its candidate array. NULL when memory is
 * short or a step is unknown. */
peer_llama_chain *peer_llama_chain_create(const peer_llama *llama, const peer_llama_step *steps, int count,
                                          int32_t vocab_size);
void peer_llama_chain_destroy(peer_llama_chain *chain);

/* Puts the random number generator back to its seed. */
void peer_llama_chain_reset(peer_llama_chain *chain);

/* One token from a row of vocab_size logits, as llama_sampler_sample does it: fills the candidates, applies
 * the chain, accepts the token. -1 when the chain has no step that chooses. */
int32_t peer_llama_run(peer_llama_chain *chain, const float *row);

/* How many candidates the last run left. */
size_t peer_llama_kept(const peer_llama_chain *chain);

/* The id of candidate `place` (less than peer_llama_kept) of the last run. */
int32_t peer_llama_kept_id(const peer_llama_chain *chain, size_t place);

#endif
