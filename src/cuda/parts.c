/* The parts of a call that launches serve (plan.h). */
#include "plan.h"

tombola_call tb_cuda_part_of(const tombola_call *call, tb_cuda_part part)
{
    tombola_call of = *call;
    if (part == TB_CUDA_WHOLE_CALL) return of;
    const bool draw = part == TB_CUDA_DRAW, raw = part == TB_CUDA_RAW_LOGPROBS, top = part == TB_CUDA_TOP,
               rows = part == TB_CUDA_ROWS;
    if (!draw) {
        of.advance_offsets = 0;
        of.status = NULL;
        of.rounds = of.ranks = of.kept_count = of.kept_ids = NULL;
        of.logprobs = of.entropy = of.given_logprobs = of.given_raw_logprobs = NULL;
        of.kept_mass = of.total_mass = NULL;
    }
    if (!draw && !raw) of.tokens = NULL; /* of which the raw log-probability is wanted */
    if (!raw) of.raw_logprobs = NULL;
    if (!top) of.top_ids = NULL, of.top_logprobs = NULL;
    if (!rows) of.probabilities = NULL, of.masked_logits = NULL;
    if (raw || (top && call->top_raw)) of.step_count = 0;
    of.top_raw = 0; /* the same without a chain */
    return of;
}
