/* The pipelined kernels for masked logits and probabilities under a top_k of few tokens for all slots. */
#include <string.h>

#include "fast_shapes.h"
#include "plan_fast.h"
#include "whole_shapes.h"

#define FEW_VOCABULARY 16384 /* the shortest rows that they were measured with */
#define FEW_THREADS (32 * (TB_PIPE_OTHERS + TB_FEW_PIPE_FINISHERS))

static const tb_fast_kernel few_kernels[] = {
    {"few_pipe_c2", 2, FEW_THREADS, TB_FEW_PIPE_C2_BYTES, true, false},
    {"few_pipe_c4", 4, FEW_THREADS, TB_FEW_PIPE_C4_BYTES, true, false},
    {"few_pipe_c8", 8, FEW_THREADS, TB_FEW_PIPE_C8_BYTES, true, false},
};
static const char *const few_names[][3] = {TB_NAMES("few_pipe_c2"), TB_NAMES("few_pipe_c4"),
                                           TB_NAMES("few_pipe_c8")};

/* Whether a step is a top_k of few tokens for all slots. */
static bool is_few(const tombola_step *step)
{
    return step->kind == TOMBOLA_TOP_K && !step->k_per_slot && step->k > 0 && step->k <= TB_FEW_PIPE_MOST_K;
}

static bool few_serves(const tombola_call *call)
{
    bool few = false;
    for (int32_t i = 0; i < call->step_count; i++) {
        const tombola_step *step = &call->steps[i];
        if (step->kind != TOMBOLA_TOP_K && step->kind != TOMBOLA_TEMPERATURE) return false;
        few |= is_few(step);
    }
    return few && call->method == TOMBOLA_EXACT && (call->probabilities || call->masked_logits) &&
           !call->kept_ids && !tb_wants_top(call) && tb_pick_kind(call, call->steps) == TB_PICK_BY_COUNT;
}

/* Histograms of a block's share of the row count in 16 bits. */
static bool few_fits(const tb_cuda_device *device, const tb_fast_kernel *kernel, const tombola_call *call)
{
    int64_t bytes;
    if (!tb_fast_fits(device, kernel, call)) return false;
    tb_pipe_slots(device, kernel, call, &bytes);
    return bytes / (call->dtype == TOMBOLA_F32 ? 4 : 2) < 65536;
}

/* The one whose clusters are done first, if one has room for two rows. In vectors that are read and written:
 * a turn takes as long as memory does with the clusters' rows, and more the more blocks have to agree, but no
 * less than what they agree on one after the other (measured). */
static const tb_fast_kernel *choose_few(const tb_cuda_device *device, const tombola_call *call)
{
    const tb_fast_kernel *best = NULL;
    const int64_t sms = device->multiprocessors, narrow = call->dtype != TOMBOLA_F32,
                  vectors = call->vocab_size / (narrow ? 8 : 4);
    int64_t best_time = 0;
    for (int i = 0; i < (int)(sizeof few_kernels / sizeof few_kernels[0]); i++) {
        const tb_fast_kernel *kernel = &few_kernels[i];
        if (!few_fits(device, kernel, call)) continue;
        const int64_t clusters = tb_pipe_clusters(device, kernel),
                      turns = (call->rows + clusters - 1) / clusters;
        int64_t bytes, turn = clusters * vectors + sms * kernel->blocks * (narrow ? 110 : 50),
                       least = sms * 1900;
        if (tb_pipe_slots(device, kernel, call, &bytes) < (turns < 2 ? turns : 2)) continue;
        if (turn < least) turn = least;
        const int64_t time = turns * turn + sms * kernel->blocks * 115;
        if (!best || time < best_time) best = kernel, best_time = time;
    }
    return best;
}

bool tb_add_few(tb_cuda_plan *plan, const tb_cuda_device *device, const tombola_call *call,
                const char *forced)
{
    if (device->shared_bytes <= TB_LARGE_BYTES || !few_serves(call)) return false;
    const tb_fast_kernel *kernel = NULL;
    if (!forced) {
        if (call->vocab_size >= FEW_VOCABULARY) kernel = choose_few(device, call);
    } else {
        for (int i = 0; i < (int)(sizeof few_kernels / sizeof few_kernels[0]); i++)
            if (!strcmp(forced, few_kernels[i].name) && few_fits(device, &few_kernels[i], call))
                kernel = &few_kernels[i];
    }
    if (!kernel) return false;
    tb_add_fast_launch(plan, device, call, kernel, few_names[kernel - few_kernels]);
    return true;
}
