/*
 * The reference: the law (docs/law.md) as plain C, one row at a time, written to be read beside it.
 * It sorts. Every other backend must return the same bits.
 */
#ifndef TB_REFERENCE_H
#define TB_REFERENCE_H

#include "../call/row.h"
#include "../law/weight.h"
#include "trace.h"

/* Bytes of workspace for one row. */
size_t tb_reference_workspace(int64_t vocab_size);

/* Computes every output of one row of a validated call. */
void tb_reference_row(const tombola_call *call, int64_t index, void *workspace);

/* ---- shared by the files of this folder ---- */

typedef struct ref_state {
    const tombola_call *call;
    const tb_row *row;
    float *value;        /* [length] the row in f32 */
    uint64_t *key;       /* [length] sort keys */
    uint32_t *order;     /* [all] K0: value descending, then index ascending. Every kept set is a prefix */
    bool *in_kept;       /* [length] */
    int64_t all;         /* count of K0 */
    int64_t kept;        /* count of K */
    float maximum;       /* over K0 */
    bool infinite;       /* the row has +inf entries */
    int32_t exponent;    /* probabilities: e of the weight */
    law_temper temper;   /* the temperature in force */
    uint64_t total_mass; /* Z before the first filter */
    const tb_observer *observer; /* or NULL */
} ref_state;

/* Exponent t and weight of a value under the temperature in force. */
float ref_exponent(const ref_state *state, float x);
uint64_t ref_weight(const ref_state *state, float x);

/* Mass of the first n tokens of the order. */
uint64_t ref_mass(const ref_state *state, int64_t n);

/* Applies steps [0, count) to the state. */
void ref_chain(ref_state *state, int32_t count);

/* The token of one draw: EXACT, or the article's methods (which set *rounds). */
int32_t ref_draw(ref_state *state, int32_t draw);
int32_t ref_draw_by_rejection(ref_state *state, int32_t draw, int32_t *rounds);

/* Sets in_kept for the tokens of K. */
void ref_mark_kept(ref_state *state);

/* What the draws are from and what they do, told to the observer where there is one. */
void ref_observe_row(const ref_state *state, int64_t k, uint64_t target, uint64_t least);
void ref_observe_trial(const ref_state *state, const tb_trial *trial);

/* Writes the outputs from the final state. tokens and rounds are [draws]. */
void ref_write(ref_state *state, uint32_t status, const int32_t *tokens, const int32_t *rounds);

#endif
