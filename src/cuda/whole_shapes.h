/*
 * What plan.c, which is C, shares with the kernels for whole-row outputs: their shared memory, which the
 * kernels check, and which calls are served from a list of a row's greatest tokens.
 */
#ifndef TB_CUDA_WHOLE_SHAPES_H
#define TB_CUDA_WHOLE_SHAPES_H

#include <tombola.h>

#include <stdbool.h>

#include "../law/base.h"

#define TB_WHOLE_THREADS 256
#define TB_WHOLE_FIXED_BYTES 6928
#define TB_WHOLE_WARP_BYTES                                                                                  \
    68 /* for each warp of the team: two words of mail, its groups, spread and flags */

#define TB_WHOLE_OWN_BYTES 16384 /* of each block where tokens are listed: those of its own part */

#define TB_PICK_THREADS 1024     /* at most: 256, 512 or 1024 */
#define TB_PICK_LIST_BYTES 46592 /* the list of a row's greatest tokens */
#define TB_PICK_BYTES 51200      /* of a block that has one, or runs the generic code */
#define TB_PICK_MOST 2048        /* tokens that it keeps or sorts */

/* Whether a call wants a row's greatest tokens in order. */
LAW_FN bool tb_wants_top(const tombola_call *call)
{
    return call->top_count > 0 && (call->top_ids || call->top_logprobs);
}

/* Whether the greatest TB_PICK_MOST tokens and those equal to the last of them hold all that a call asks for:
 * at most one temperature, before top_ks of which one has a k for all slots; or no filter, and the greatest
 * tokens alone. */
LAW_FN bool tb_is_pick(const tombola_call *call, const tombola_step *steps)
{
    bool few = false, filtered = false;
    if (call->tokens || call->rounds || call->logprobs || call->raw_logprobs || call->ranks ||
        call->total_mass || call->entropy || call->given_logprobs || call->given_raw_logprobs ||
        (call->masked_logits && call->masked_logits == call->data))
        return false;
    for (int32_t i = 0; i < call->step_count; i++) {
        if (steps[i].kind == TOMBOLA_TEMPERATURE && i == 0) continue;
        if (steps[i].kind != TOMBOLA_TOP_K) return false;
        filtered = true;
        few |= !steps[i].k_per_slot && steps[i].k > 0 && steps[i].k <= TB_PICK_MOST;
    }
    if (filtered) return few && !(tb_wants_top(call) && call->top_raw);
    return tb_wants_top(call) && call->top_count <= TB_PICK_MOST && !call->top_logprobs && !call->kept_ids &&
           !call->kept_count && !call->kept_mass && !call->probabilities && !call->masked_logits;
}

#endif
