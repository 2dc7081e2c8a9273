/* Calls in parts: a draw and more outputs than its kernel has. */
#include <string.h>

#include "plan_fast.h"
#include "whole_shapes.h"

bool tb_has_lists(const tombola_call *call)
{
    bool count = false;
    for (int32_t i = 0; i < call->step_count; i++)
        count |= call->steps[i].kind == TOMBOLA_TOP_K || call->steps[i].kind == TOMBOLA_TOP_K_TOP_P;
    return count && call->tokens && (call->probabilities || call->masked_logits) && !call->kept_ids;
}

/* Whether a draw lists what it keeps for the launch that writes rows of output, which then need not be read
 * again: at most TB_LISTED_MOST tokens, or one of the listed ones is the least that is kept, since fewer than
 * k tokens are greater. Under a top_k a streaming kernel draws, which has lists; the flat ones do not. */
static bool lists_kept(const tombola_call *call)
{
    bool few = false;
    for (int32_t i = 0; i < call->step_count; i++) {
        const tombola_step *step = &call->steps[i];
        few |= (step->kind == TOMBOLA_TOP_K || step->kind == TOMBOLA_TOP_K_TOP_P) && !step->k_per_slot &&
               step->k > 0 && step->k <= TB_LISTED_MOST;
    }
    const bool in_place = call->masked_logits && call->masked_logits == call->data;
    return few && tb_has_lists(call) && !in_place;
}

/* As many blocks a row as fill the device, with at least 2048 elements each. */
static void add_kept_rows(tb_cuda_plan *plan, const tb_cuda_device *device, const tombola_call *call)
{
    const bool clusters = device->major >= 9;
    const unsigned most = !clusters ? 64 : device->major < 12 ? 16 : 8;
    unsigned blocks = 1;
    while (blocks < most && call->rows * blocks * 2 <= 8 * device->multiprocessors &&
           call->vocab_size >= 2048 * 2 * (int64_t)blocks)
        blocks *= 2;
    tb_add_launch(plan, "tombola_kept_rows", (unsigned)call->rows * blocks, TB_KEPT_THREADS);
    if (clusters) plan->launch[plan->launch_count - 1].cluster = blocks;
    plan->lists = true;
}

bool tb_add_parts(tb_cuda_plan *plan, const tb_cuda_device *device, const tombola_call *call,
                  const char *forced)
{
    if (!call->tokens || call->draws != 1 || (call->top_logprobs && !call->top_ids)) return false;
    const bool lists = lists_kept(call);
    bool set = false;
    for (int part = TB_CUDA_DRAW; part < TB_CUDA_PARTS; part++) {
        tombola_call of = tb_cuda_part_of(call, (tb_cuda_part)part);
        const tombola_step top = tb_cuda_top_step(call);
        bool added = false;
        if (part == TB_CUDA_DRAW) {
            added = tb_add_fast(plan, device, &of, false, forced);
        } else if (part == TB_CUDA_TOP_SET) {
            const bool raw = call->top_raw || !call->step_count; /* then another part puts them in order */
            if (!tb_wants_top(call) || !call->top_logprobs || !raw || call->top_count > TB_TOP_SET_MOST ||
                call->step_count == TOMBOLA_MAX_STEPS)
                continue;
            of.steps = &top;
            set = added =
                tb_add_fast(plan, device, &of, false, forced && strncmp(forced, "flat_", 5) ? forced : NULL);
            if (!added) continue;
        } else if (part == TB_CUDA_RAW_LOGPROBS) {
            if (!of.raw_logprobs && !of.top_logprobs && !of.given_raw_logprobs) continue;
            /* a flat kernel serves it as it would a draw; a streaming one would draw */
            of.raw_logprobs = of.top_logprobs = of.given_raw_logprobs = NULL;
            of.top_ids = NULL;
            added =
                tb_add_fast(plan, device, &of, true, forced && !strncmp(forced, "flat_", 5) ? forced : NULL);
        } else {
            if (!tb_wants_top(&of) && !of.probabilities && !of.masked_logits) continue;
            if (part == TB_CUDA_TOP && set) continue;
            if (part == TB_CUDA_ROWS && lists) {
                add_kept_rows(plan, device, call);
                added = true;
            } else {
                added = tb_add_row_kernel(plan, device, &of, 0, 0, NULL);
            }
        }
        if (!added) {
            plan->launch_count = 0;
            plan->lists = false;
            return false;
        }
        plan->launch[plan->launch_count - 1].part = (tb_cuda_part)part;
    }
    return true;
}
