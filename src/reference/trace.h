/*
 * What the reference does while it draws, trial by trial: for figures, and for the test that ties the proof's
 * model (tests/proof) to the code. Internal: not part of the library's interface.
 */
#ifndef TB_REFERENCE_TRACE_H
#define TB_REFERENCE_TRACE_H

#include <stdbool.h>

#include <tombola.h>

/* A place in the order, from which "greater" is asked. */
typedef enum tb_place_kind {
    TB_BELOW_ALL,
    TB_AT_WEIGHT, /* tokens whose weight is more than `at` are greater */
    TB_AT_KEY,    /* tokens whose position P is more than `at` are greater */
    TB_AT_TOKEN   /* tokens that precede token `at` in the order of section 2 are greater */
} tb_place_kind;

typedef struct tb_place {
    tb_place_kind kind;
    uint64_t at;
} tb_place;

/* The filter's predicate at a place: the tokens of K greater than it, and whether it passes. */
typedef struct tb_measured {
    int64_t count;
    uint64_t mass;
    bool passes;
} tb_measured;

/* One draw from the tokens of K above a place. */
typedef struct tb_drawn {
    uint64_t random, mass, u; /* u = floor(random * mass / 2^64) */
    int64_t count;            /* of the tokens above the place */
    uint64_t prefix;          /* their mass before the token */
    int32_t token;
    uint64_t weight, position; /* of the token; position is P */
} tb_drawn;

typedef enum tb_verdict {
    TB_ACCEPTED,
    TB_LOW_IS_TOKEN,                /* REJECTION's only rejection */
    TB_LOW_IS_TOKEN_HIGH_IS_MIDDLE, /* DUAL_PIVOT: the middle passes */
    TB_LOW_IS_MIDDLE                /* DUAL_PIVOT: the middle fails too */
} tb_verdict;

typedef struct tb_trial {
    int32_t draw, round; /* round counts from 1; 0: the one draw of EXACT */
    tb_place low, high;  /* high only for DUAL_PIVOT; below all otherwise */
    tb_drawn drawn;
    tb_measured at_token;
    tb_place middle; /* below all where none was formed */
    tb_measured at_middle;
    tb_verdict verdict;
} tb_trial;

/* The set that the draws are from: K before the last filter, or the final K for EXACT. */
typedef struct tb_traced_row {
    int64_t kept;          /* tokens of K */
    const uint32_t *order; /* [kept] from the greatest on */
    const float *value;    /* [length] of the row */
    int64_t k;             /* the last filter: INT64_MAX where it does not count, */
    uint64_t target;       /* UINT64_MAX where it does not measure mass, */
    uint64_t least;        /* 0 where it does not weigh; all of them for EXACT */
    const void *state;
} tb_traced_row;

typedef struct tb_observer {
    void (*row)(void *argument, const tb_traced_row *row);
    void (*trial)(void *argument, const tb_trial *trial);
    void *argument;
} tb_observer;

uint64_t tb_traced_weight(const tb_traced_row *row, uint32_t id);

/* Draws the tokens of output row `index` of a call that tb_validate has filled in, and tells the observer. No
 * output is written; nothing happens for a row without a token. The workspace has tb_reference_workspace
 * bytes. */
void tb_reference_trace(const tombola_call *call, int64_t index, void *workspace,
                        const tb_observer *observer);

#endif
