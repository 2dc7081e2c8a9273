/* The parts of a call that launches serve (params.h). */
#include "plan.h"

tombola_step tb_cuda_top_step(const tombola_call *call)
{
    return (tombola_step){.kind = TOMBOLA_TOP_K, .k = call->top_count};
}

tombola_call tb_cuda_part_of(const tombola_call *call, tb_cuda_part part)
{
    tombola_call of = *call;
    if (part == TB_CUDA_WHOLE_CALL) return of;
    const bool draw = part == TB_CUDA_DRAW, set = part == TB_CUDA_TOP_SET, top = part == TB_CUDA_TOP || set,
               raw = part == TB_CUDA_RAW_LOGPROBS, rows = part == TB_CUDA_ROWS,
               raw_top = call->top_raw || call->step_count == 0;
    if (!draw) {
        of.advance_offsets = 0;
        of.status = NULL;
        of.rounds = of.ranks = of.kept_count = of.kept_ids = NULL;
        of.logprobs = of.entropy = of.given_logprobs = NULL;
        of.kept_mass = of.total_mass = NULL;
    }
    if (!draw && !raw) of.tokens = NULL; /* in `raw` an input, as are top_ids */
    if (draw != (call->step_count == 0) || top || rows) of.raw_logprobs = NULL;
    if (!top && !(raw && raw_top)) of.top_ids = NULL, of.top_logprobs = NULL;
    if (top && raw_top) of.top_logprobs = NULL;
    if (!raw) of.given_raw_logprobs = NULL;
    if (!rows) of.probabilities = NULL, of.masked_logits = NULL;
    if (raw || (top && raw_top)) of.step_count = 0;
    of.top_raw = 0; /* the same without a chain */
    if (set) {
        of.ties = TOMBOLA_TIES_INDEX;
        of.step_count = 1; /* tb_cuda_top_step */
        of.kept_ids = call->top_ids, of.kept_capacity = call->top_count;
        of.top_ids = NULL;
    }
    return of;
}
