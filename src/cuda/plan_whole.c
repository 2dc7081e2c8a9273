/* The choice among the kernels for outputs over whole rows without a draw. */
#include "plan_fast.h"

#include <string.h>

#include "fast_shapes.h"
#include "params.h"
#include "whole_shapes.h"

/* ---- the kernel for outputs over the whole row without a draw: the row lies in the shared memory of its
 * blocks ---- */

static bool whole_serves(const tombola_call *call)
{
    tb_chain_kind chain = tb_read_chain(call);
    if (call->method != TOMBOLA_EXACT || !chain.served) return false;
    if (call->tokens || call->rounds || call->logprobs || call->raw_logprobs || call->ranks ||
        call->entropy || call->given_logprobs || call->given_raw_logprobs)
        return false;
    if (tb_wants_top(call) && (call->top_count > TB_PICK_MOST || (call->top_raw && call->step_count)))
        return false;
    return !call->total_mass || !chain.filtered;
}

/* Whether the kernel is the better one for a call that it serves: the streaming kernel lists few ids sooner,
 * and beyond some rows the generic kernel finds what filters keep sooner (measured on 132 multiprocessors).
 */
static bool whole_suits(const tb_cuda_device *device, const tombola_call *call)
{
    if (call->kind != TOMBOLA_PROBABILITIES && !call->probabilities && !call->masked_logits &&
        !tb_wants_top(call) && !(call->kept_ids && call->kept_capacity > 256))
        return false;
    bool filters = false; /* a temperature of 0 is none: what it keeps is found in the first look */
    for (int32_t i = 0; i < call->step_count; i++) filters |= call->steps[i].kind != TOMBOLA_TEMPERATURE;
    return !filters || call->rows <= device->multiprocessors / (call->kept_ids ? 4 : 1);
}

/* Whether the call is for the kernel that tries a list: the greatest tokens in order, or many of them. */
static bool whole_lists(const tombola_call *call)
{
    return tb_wants_top(call) || (call->kept_ids && call->kept_capacity > 256 &&
                                  tb_pick_kind(call, call->steps) == TB_PICK_BY_COUNT);
}

/* Bytes of a block's share of a row, and of what lies beside it. */
static int64_t whole_shared(const tombola_call *call, unsigned blocks)
{
    const int64_t warps = TB_WHOLE_THREADS / 32;
    const bool sorts = tb_whole_sorts(call, blocks);
    int64_t share = (tb_vectors_of(call) + blocks - 1) / blocks, of_warp = (share + warps - 1) / warps,
            bytes = (of_warp + 31) / 32 * (TB_WHOLE_THREADS * 16) + (sorts ? TB_WHOLE_SORT_BYTES : 0);
    if (sorts || whole_lists(call)) { /* the list takes the row's place */
        if (bytes < TB_PICK_LIST_BYTES) bytes = TB_PICK_LIST_BYTES;
        bytes += blocks * warps * (TB_WHOLE_TOP_BYTES + (sorts ? TB_WHOLE_MIDDLE_BYTES : 0));
    }
    return TB_WHOLE_FIXED_BYTES + blocks * warps * TB_WHOLE_WARP_BYTES + bytes;
}

static bool whole_fits(const tb_cuda_device *device, const tombola_call *call, unsigned blocks)
{
    if (blocks > 1 && device->major < 9) return false;
    if (blocks > 8 && device->major >= 12) return false;
    return whole_shared(call, blocks) <= device->shared_bytes;
}

/* Whether ids are best sorted by 16 blocks a row, which has a vector for each lane (measured on 132). */
static bool sorted_by_all(const tb_cuda_device *device, const tombola_call *call)
{
    const int64_t vectors = tb_vectors_of(call), few = vectors < 24 * 1024 ? 3 : 4;
    return vectors >= 16 * 8 * 31 && call->rows <= device->multiprocessors * few / 16 &&
           tb_whole_sorts(call, 16) && whole_fits(device, call, 16);
}

/* `blocks` of a row; 0: as many as suit the batch. False where a row does not fit. */
static bool add_whole(tb_cuda_plan *plan, const tb_cuda_device *device, const tombola_call *call,
                      unsigned blocks)
{
    static const char *const names[] = TB_NAMES("whole"), *const top_names[] = TB_NAMES("whole_top"),
                             *const sort_names[] = TB_NAMES("whole_sort");
    if (!blocks) {
        /* Three blocks a multiprocessor, so that one reads while others compute and write; where rows are
         * few, more blocks a row, down to 16 KB each. */
        const int64_t third = (device->shared_bytes + 1024) / 3 - 1024;
        const unsigned most = device->major < 9 ? 1 : device->major < 12 ? 16 : 8;
        blocks = 1;
        while (blocks < most && whole_shared(call, blocks) > third) blocks *= 2;
        while (blocks < most && call->rows * blocks * 2 <= device->multiprocessors &&
               tb_vectors_of(call) >= 1024 * 2 * (int64_t)blocks)
            blocks *= 2;
        if (sorted_by_all(device, call)) blocks = 16;
    }
    if (!whole_fits(device, call, blocks)) return false;
    plan->launch[plan->launch_count++] =
        (tb_cuda_launch){.kernel = (tb_whole_sorts(call, blocks) ? sort_names
                                    : whole_lists(call)          ? top_names
                                                                 : names)[call->dtype],
                         .grid = (unsigned)call->rows * blocks,
                         .threads = TB_WHOLE_THREADS,
                         .cluster = blocks,
                         .shared_bytes = (unsigned)whole_shared(call, blocks)};
    return true;
}

/* ---- the pipelined kernels for softmax of many rows: logits, probabilities of all tokens, or of those that
 * a min_p keeps ---- */

#define SOFTMAX_THREADS (32 * (TB_PIPE_OTHERS + TB_WHOLE_PIPE_WRITERS))

static const tb_fast_kernel softmax_kernels[] = {
    {"whole_pipe_c2", 2, SOFTMAX_THREADS, TB_WHOLE_PIPE_C2_BYTES, true, true},
    {"whole_pipe_c4", 4, SOFTMAX_THREADS, TB_WHOLE_PIPE_C4_BYTES, true, true},
    {"whole_pipe_c8", 8, SOFTMAX_THREADS, TB_WHOLE_PIPE_C8_BYTES, true, true},
    {"whole_pipe_c16", 16, SOFTMAX_THREADS, TB_WHOLE_PIPE_C16_BYTES, true, true},
};
static const char *const softmax_names[][3] = {TB_NAMES("whole_pipe_c2"), TB_NAMES("whole_pipe_c4"),
                                               TB_NAMES("whole_pipe_c8"), TB_NAMES("whole_pipe_c16")};

/* For few rows, each in the registers of its blocks. */
static const tb_fast_kernel softmax_once = {"whole_once_c16", 16, TB_WHOLE_ONCE_THREADS, 0, false, false};
static const char *const softmax_once_names[] = TB_NAMES("whole_once");

static bool once_fits(const tb_cuda_device *device, const tombola_call *call)
{
    const int64_t width = call->dtype == TOMBOLA_F32 ? 4 : 8;
    return tb_fast_fits(device, &softmax_once, call) &&
           tb_vectors_of(call) * width <= 16 * TB_WHOLE_ONCE_THREADS * TB_WHOLE_ONCE_WEIGHTS;
}

static bool softmax_serves(const tombola_call *call)
{
    tb_chain_kind chain = tb_read_chain(call);
    for (int32_t i = 0; i < call->step_count; i++)
        if (call->steps[i].kind != TOMBOLA_TEMPERATURE && call->steps[i].kind != TOMBOLA_MIN_P) return false;
    return call->kind == TOMBOLA_LOGITS && call->probabilities && !call->masked_logits && !call->kept_ids &&
           !call->kept_count && !tb_wants_top(call) && chain.served && whole_serves(call);
}

/* Adds the one that is forced, or that suits the call, if any. */
static bool add_softmax(tb_cuda_plan *plan, const tb_cuda_device *device, const tombola_call *call,
                        const char *forced)
{
    const int count = sizeof softmax_kernels / sizeof softmax_kernels[0];
    if (device->shared_bytes <= TB_LARGE_BYTES || !softmax_serves(call)) return false;
    const tb_fast_kernel *kernel = NULL;
    /* a cluster for each row, or two at a time on the same multiprocessors (measured on 132) */
    const bool two = (call->dtype == TOMBOLA_F32) == (call->vocab_size >= 65536),
               suits = tb_vectors_of(call) >= 8 * 256 &&
                       call->rows <= (two ? 2 : 1) * tb_pipe_clusters(device, &softmax_once);
    if (once_fits(device, call) && (forced ? !strcmp(forced, softmax_once.name) : suits)) {
        tb_add_fast_launch(plan, device, call, &softmax_once, softmax_once_names);
        return true;
    }
    if (!forced) {
        if (tb_vectors_of(call) >= 8 * 256) kernel = tb_choose_pipe(device, call, softmax_kernels, count, 0);
    } else {
        for (int i = 0; i < count; i++)
            if (!strcmp(forced, softmax_kernels[i].name) && tb_fast_fits(device, &softmax_kernels[i], call))
                kernel = &softmax_kernels[i];
    }
    if (!kernel) return false;
    tb_add_fast_launch(plan, device, call, kernel, softmax_names[kernel - softmax_kernels]);
    return true;
}

/* ---- the kernel for small kept sets over whole rows: a block a row, which reads it once ---- */

/* Whether it is the better one: where rows are few, many blocks for each are, and for that many that need a
 * long search or an order (measured on 132 multiprocessors). */
static bool pick_suits(const tb_cuda_device *device, const tombola_call *call)
{
    bool many = tb_wants_top(call) || (call->kept_ids && call->kept_capacity > 256);
    if (!many && call->kind != TOMBOLA_PROBABILITIES && !call->probabilities && !call->masked_logits)
        return false;
    const int64_t sms = device->multiprocessors;
    /* logits under a top_p are read twice */
    const bool twice =
        call->kind != TOMBOLA_PROBABILITIES && tb_pick_kind(call, call->steps) == TB_PICK_BY_MASS;
    if (many && sorted_by_all(device, call)) return false;
    return call->vocab_size >= 16384 && call->rows > (twice ? sms * 3 / 4 : many ? sms / 16 : sms * 3 / 8);
}

/* `threads` of a block; 0: as many as suit the batch (measured on 132 multiprocessors). */
static void add_pick(tb_cuda_plan *plan, const tb_cuda_device *device, const tombola_call *call,
                     unsigned threads)
{
    static const char *const names[] = TB_NAMES("pick");
    const int64_t sms = device->multiprocessors;
    const bool many = tb_wants_top(call) || call->kept_ids,
               by_mass = tb_pick_kind(call, call->steps) == TB_PICK_BY_MASS;
    if (!threads)
        threads = call->rows <= (many ? sms : sms / 2)                                        ? 1024
                  : call->rows <= 2 * sms                                                     ? 512
                  : by_mass && (call->rows <= 3 * sms || call->kind != TOMBOLA_PROBABILITIES) ? 512
                                                                                              : 256;
    plan->launch[plan->launch_count++] = (tb_cuda_launch){.kernel = names[call->dtype],
                                                          .grid = (unsigned)call->rows,
                                                          .threads = threads,
                                                          .cluster = 1,
                                                          .shared_bytes = TB_PICK_BYTES};
}

bool tb_add_row_kernel(tb_cuda_plan *plan, const tb_cuda_device *device, const tombola_call *call,
                       unsigned whole_blocks, unsigned pick_threads, const char *forced)
{
    if (tb_add_few(plan, device, call, forced)) return true;
    const bool pick = forced ? pick_threads > 0 : pick_suits(device, call);
    if (pick && call->method == TOMBOLA_EXACT && tb_pick_kind(call, call->steps) != TB_PICK_NEVER) {
        add_pick(plan, device, call, pick_threads);
        return true;
    }
    if (add_softmax(plan, device, call, forced)) return true;
    return (forced ? whole_blocks > 0 : whole_suits(device, call)) && whole_serves(call) &&
           add_whole(plan, device, call, whole_blocks);
}
