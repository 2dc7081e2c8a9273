/*
 * What plan_whole.c, which is C, shares with the kernels for whole-row outputs: their shared memory, which
 * the kernels check, and which calls are served from a list of a row's greatest tokens.
 */
#ifndef TB_CUDA_WHOLE_SHAPES_H
#define TB_CUDA_WHOLE_SHAPES_H

#include <tombola.h>

#include <stdbool.h>

#include "../law/base.h"

#define TB_WHOLE_THREADS 256
#define TB_WHOLE_FIXED_BYTES 7024
#define TB_WHOLE_WARP_BYTES 52  /* for each warp of the team: two words of mail, its groups, its flags */
#define TB_WHOLE_TOP_BYTES 16   /* and where the greatest tokens are wanted in order */
#define TB_WHOLE_SORT_BLOCKS 16 /* of a team that sorts ids: the tokens that each lists, fewer than ROOM, */
#define TB_WHOLE_SORT_WORDS 768 /* bits: tokens of a block's share at most */
#define TB_WHOLE_SORT_ROOM 256  /* come to all others as sorted keys */
#define TB_WHOLE_SORT_BYTES (TB_WHOLE_SORT_BLOCKS * TB_WHOLE_SORT_ROOM * 4)
#define TB_WHOLE_MIDDLE_BYTES 4 /* and there for each warp of the team */

#define TB_PICK_THREADS 1024     /* at most: 256, 512 or 1024 */
#define TB_PICK_LIST_BYTES 46848 /* the list of a row's greatest tokens */
#define TB_PICK_BYTES 51200      /* of a block that has one, or runs the generic code */
#define TB_PICK_MOST 2048        /* tokens that it keeps or sorts */
#define TB_PICK_LIKELY 1500      /* that are listed for a top_p */

/* Whether a call wants a row's greatest tokens in order. */
LAW_FN bool tb_wants_top(const tombola_call *call)
{
    return call->top_count > 0 && (call->top_ids || call->top_logprobs);
}

/* What a list of a row's greatest tokens does for a call: one temperature at most, first; top_ks; one top_p
 * at most. BY_COUNT: at most TB_PICK_MOST tokens and those equal to the last of them hold all that is asked
 * for, for top_k has a k for all slots and no top_p before it; or there is no filter, and the greatest tokens
 * alone are wanted. BY_MASS: a top_p of all tokens' mass, which may keep few. */
enum { TB_PICK_NEVER, TB_PICK_BY_COUNT, TB_PICK_BY_MASS };

LAW_FN int tb_pick_kind(const tombola_call *call, const tombola_step *steps)
{
    bool few = false, filtered = false, top_p = false;
    if (call->tokens || call->rounds || call->logprobs || call->raw_logprobs || call->ranks ||
        call->total_mass || call->entropy || call->given_logprobs || call->given_raw_logprobs ||
        (call->masked_logits && call->masked_logits == call->data))
        return TB_PICK_NEVER;
    if (tb_wants_top(call) && call->top_raw && call->step_count) return TB_PICK_NEVER; /* a T of 0 has one */
    for (int32_t i = 0; i < call->step_count; i++) {
        const int32_t kind = steps[i].kind;
        if (kind == TOMBOLA_TEMPERATURE && i == 0) continue;
        if (kind == TOMBOLA_TOP_P || kind == TOMBOLA_TOP_K_TOP_P) {
            if (top_p) return TB_PICK_NEVER;
            top_p = true;
        } else if (kind != TOMBOLA_TOP_K) {
            return TB_PICK_NEVER;
        } else if (!top_p) {
            few |= !steps[i].k_per_slot && steps[i].k > 0 && steps[i].k <= TB_PICK_MOST;
        }
        filtered = true;
    }
    if (filtered) return few ? TB_PICK_BY_COUNT : top_p ? TB_PICK_BY_MASS : TB_PICK_NEVER;
    return tb_wants_top(call) && call->top_count <= TB_PICK_MOST && !call->top_logprobs && !call->kept_ids &&
                   !call->kept_count && !call->kept_mass && !call->probabilities && !call->masked_logits
               ? TB_PICK_BY_COUNT
               : TB_PICK_NEVER;
}

/* The number of tokens that a call wants, where all it wants is ids of which a team's sorted lists are
 * enough: those that top_ks keep, or the greatest ones in order, without a filter. Else 0. */
LAW_FN uint32_t tb_whole_sorted(const tombola_call *call, const tombola_step *steps)
{
    if (tb_pick_kind(call, steps) != TB_PICK_BY_COUNT || call->kept_mass || call->probabilities ||
        call->masked_logits || call->top_logprobs)
        return 0;
    uint32_t least = 0; /* of the k that all slots share */
    for (int32_t i = 0; i < call->step_count; i++) {
        const tombola_step *step = &steps[i];
        if (step->kind == TOMBOLA_TOP_P || step->kind == TOMBOLA_TOP_K_TOP_P) return 0;
        if (step->kind == TOMBOLA_TOP_K && !step->k_per_slot && step->k > 0 &&
            (!least || (uint32_t)step->k < least))
            least = (uint32_t)step->k;
    }
    if (!least) return call->kept_ids ? 0 : (uint32_t)call->top_count;
    return call->kept_ids && !tb_wants_top(call) ? least : 0;
}

/* Whether `blocks` of a row sort such ids together, by a kernel of their own. */
LAW_FN bool tb_whole_sorts(const tombola_call *call, unsigned blocks)
{
    const uint32_t width = call->dtype == TOMBOLA_F32 ? 4 : 8,
                   share = (tb_row_vectors(call) + TB_WHOLE_SORT_BLOCKS - 1) / TB_WHOLE_SORT_BLOCKS * width;
    return blocks == TB_WHOLE_SORT_BLOCKS && share <= TB_WHOLE_SORT_WORDS * 32 &&
           tb_whole_sorted(call, call->steps) > 0;
}

#endif
