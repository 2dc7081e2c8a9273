/*
 * What a careful programmer writes without a sampling library, for comparison: softmax in f32 and binary64,
 * and a sort where the chain needs one. It takes the usual short cuts: only the k greatest are selected, with
 * a heap, when the first filter is a top_k; nothing is sorted when there is no filter, or when a min_p has
 * left few tokens.
 */
#ifndef CLI_BASELINE_H
#define CLI_BASELINE_H

#include "options.h"

typedef struct baseline baseline;

baseline *baseline_create(int64_t vocab_size);
void baseline_destroy(baseline *b);

/* Draws a token of a row with 64 random bits.
 * ties: ordinary programs keep exactly k (TOMBOLA_TIES_INDEX); ALL costs another pass.
 * by_id: the inverse transform goes over the kept tokens in the order of ids, as tombola's does, and not in
 * the order in which the sort left them. It costs a second sort, which only the comparison of tokens needs.
 */
int32_t baseline_draw(baseline *b, const void *row, int32_t dtype, const tombola_step *steps,
                      int32_t step_count, int32_t ties, uint64_t random, bool by_id);

#endif
