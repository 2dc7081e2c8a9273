/* The choice of kernels: a pure function of shapes. */
#include "plan.h"

#include <string.h>

#include "fast_shapes.h"
#include "params.h"
#include "plan_fast.h"
#include "whole_shapes.h"

#define ALIGNMENT 256 /* of each part of the workspace */

static size_t round_up(size_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Threads of a block that has a row to itself: no more than there is work for. */
static unsigned row_threads(int64_t vocab_size)
{
    return vocab_size <= 2048 ? 128 : vocab_size <= 16384 ? 256 : 512;
}

void tb_add_launch(tb_cuda_plan *plan, const char *kernel, unsigned grid, unsigned threads)
{
    plan->launch[plan->launch_count++] =
        (tb_cuda_launch){.kernel = kernel, .grid = grid, .threads = threads, .cluster = 1};
}

/* ---- the fast kernels (docs/gpu.md): logits, one draw, few outputs, and chains with at most one
 * temperature, before the filters, and at most one top_p ---- */

enum {
    C1_512,
    C1_256,
    C2_512,
    C4_256,
    C4_512,
    C8_256,
    C16_256,
    FLAT_C1,
    FLAT_C8,
    FLAT_PIPE_C2,
    FLAT_PIPE_C4,
    FLAT_PIPE_C8,
    FLAT_PIPE_C16,
    FAST_KERNELS
};

#define PIPE_THREADS(blocks) (32 * (TB_PIPE_OTHERS + TB_PIPE_DRAWERS(blocks)))

static const tb_fast_kernel fast_kernels[FAST_KERNELS] = {
    [C1_512] = {"stream_c1_512", 1, 512, TB_STREAM_C1_512_BYTES, false, false},
    [C1_256] = {"stream_c1_256", 1, 256, TB_STREAM_C1_256_BYTES, false, false},
    [C2_512] = {"stream_c2_512", 2, 512, TB_STREAM_C2_512_BYTES, false, false},
    [C4_256] = {"stream_c4_256", 4, 256, TB_STREAM_C4_256_BYTES, false, false},
    [C4_512] = {"stream_c4_512", 4, 512, TB_STREAM_C4_512_BYTES, false, false},
    [C8_256] = {"stream_c8_256", 8, 256 + 32, TB_STREAM_C8_256_BYTES, true, false},
    [C16_256] = {"stream_c16_256", 16, 256 + 32, TB_STREAM_C16_256_BYTES, true, false},
    [FLAT_C1] = {"flat_c1_512", 1, 512, TB_FLAT_C1_512_BYTES + 8 * 512 * 16, false, false},
    [FLAT_C8] = {"flat_c8_256", 8, 256, TB_FLAT_C8_256_BYTES + 8 * 256 * 16, false, false},
    [FLAT_PIPE_C2] = {"flat_pipe_c2", 2, PIPE_THREADS(2), TB_PIPE_C2_BYTES, true, false},
    [FLAT_PIPE_C4] = {"flat_pipe_c4", 4, PIPE_THREADS(4), TB_PIPE_C4_BYTES, true, false},
    [FLAT_PIPE_C8] = {"flat_pipe_c8", 8, PIPE_THREADS(8), TB_PIPE_C8_BYTES, true, false},
    [FLAT_PIPE_C16] = {"flat_pipe_c16", 16, PIPE_THREADS(16), TB_PIPE_C16_BYTES, true, false},
};

static const char *const fast_names[FAST_KERNELS][3] = {
    [C1_512] = TB_NAMES("stream_c1_512"),        [C1_256] = TB_NAMES("stream_c1_256"),
    [C2_512] = TB_NAMES("stream_c2_512"),        [C4_256] = TB_NAMES("stream_c4_256"),
    [C4_512] = TB_NAMES("stream_c4_512"),        [C8_256] = TB_NAMES("stream_c8_256"),
    [C16_256] = TB_NAMES("stream_c16_256"),      [FLAT_C1] = TB_NAMES("flat_c1_512"),
    [FLAT_C8] = TB_NAMES("flat_c8_256"),         [FLAT_PIPE_C2] = TB_NAMES("flat_pipe_c2"),
    [FLAT_PIPE_C4] = TB_NAMES("flat_pipe_c4"),   [FLAT_PIPE_C8] = TB_NAMES("flat_pipe_c8"),
    [FLAT_PIPE_C16] = TB_NAMES("flat_pipe_c16"),
};

/* What a chain asks of the fast kernels. */
typedef struct fast_chain {
    bool served, filtered, only_min_p;
} fast_chain;

static fast_chain read_chain(const tombola_call *call)
{
    fast_chain chain = {true, false, true};
    int temperatures = 0, top_ps = 0;
    bool greedy = false;
    for (int32_t i = 0; i < call->step_count; i++) {
        int32_t kind = call->steps[i].kind;
        if (kind == TOMBOLA_TEMPERATURE) {
            if (chain.filtered || temperatures++) chain.served = false;
            if (!call->steps[i].value_per_slot && call->steps[i].value == 0.0f) greedy = true;
            continue;
        }
        chain.filtered = true;
        if (kind != TOMBOLA_MIN_P) chain.only_min_p = false;
        if ((kind == TOMBOLA_TOP_P || kind == TOMBOLA_TOP_K_TOP_P) && top_ps++) chain.served = false;
    }
    /* T = 0 for all rows keeps one token, for which one look at a row is enough. */
    if (greedy && !call->total_mass) chain.filtered = true, chain.only_min_p = false;
    return chain;
}

/* Whether the flat kernels do; else the streaming ones, which go on with rows of which many tokens are kept.
 */
static bool flat_serves(const tombola_call *call, const fast_chain *chain)
{
    return (!chain->filtered || (chain->only_min_p && !call->total_mass)) && !call->ranks && !call->kept_ids;
}

/* Whether one of both may; the mass of all tokens only the flat ones have. */
static bool fast_serves(const tombola_call *call, const fast_chain *chain)
{
    if (call->kind != TOMBOLA_LOGITS || call->method != TOMBOLA_EXACT || call->draws != 1 || !chain->served)
        return false;
    return !(call->raw_logprobs && call->step_count) && !call->probabilities && !call->masked_logits &&
           !call->top_ids && !call->top_logprobs && !call->given_logprobs && !call->given_raw_logprobs;
}

static int64_t vectors_of(const tombola_call *call)
{
    int64_t width = call->dtype == TOMBOLA_F32 ? 4 : 8;
    return (call->vocab_size + width - 1) / width + 1; /* a row need not begin at a vector */
}

static bool is_pipe(const tb_fast_kernel *kernel)
{
    return strstr(kernel->name, "_pipe_") != NULL;
}

/* Clusters of the pipelined flat kernel that are resident, one block a multiprocessor: 66, 30, 15, 7 of 132,
 * parts of which are too small for another wide one. */
int64_t tb_pipe_clusters(const tb_cuda_device *device, const tb_fast_kernel *kernel)
{
    int64_t sms = device->multiprocessors, blocks = kernel->blocks,
            clusters = blocks == 2   ? sms / 2
                       : blocks == 4 ? sms / 4 - 3
                                     : sms / blocks - 1;
    return clusters < 1 ? 1 : clusters;
}

/* What a block of it has beside its rows. */
static int64_t pipe_bytes(const tb_fast_kernel *kernel, const tombola_call *call)
{
    return (int64_t)kernel->shared_bytes + (call->entropy ? TB_PIPE_ENTROPY_BYTES : 0);
}

/* Chunks of a row for which a warp of it has room: as many as it can use; 0 where not even one fits. */
int64_t tb_pipe_slots(const tb_cuda_device *device, const tb_fast_kernel *kernel, const tombola_call *call,
                      int64_t *slot_bytes)
{
    int64_t warps = kernel->blocks * TB_PIPE_WARPS, clusters = tb_pipe_clusters(device, kernel);
    *slot_bytes = ((tb_row_vectors(call) + warps - 1) / warps + 31) / 32 * 512 * TB_PIPE_WARPS;
    if (kernel->widens && call->dtype != TOMBOLA_F32) *slot_bytes *= 2;
    int64_t slots = (device->shared_bytes - pipe_bytes(kernel, call)) / *slot_bytes,
            turns = (call->rows + clusters - 1) / clusters;
    if (slots > turns) slots = turns;
    return slots > TB_PIPE_SLOTS ? TB_PIPE_SLOTS : slots;
}

static unsigned fast_shared(const tb_cuda_device *device, const tb_fast_kernel *kernel,
                            const tombola_call *call)
{
    if (!kernel->staged) return kernel->shared_bytes;
    if (is_pipe(kernel)) {
        int64_t slot_bytes, slots = tb_pipe_slots(device, kernel, call, &slot_bytes);
        return slots > 0 ? (unsigned)(pipe_bytes(kernel, call) + slots * slot_bytes) : 1u << 30;
    }
    int64_t tile = call->dtype == TOMBOLA_F32 ? 2048 : 1024,
            share = (vectors_of(call) + kernel->blocks - 1) / kernel->blocks;
    int64_t bytes = kernel->shared_bytes + (share + tile - 1) / tile * tile * 16;
    return bytes < (1 << 30) ? (unsigned)bytes : 1u << 30;
}

bool tb_fast_fits(const tb_cuda_device *device, const tb_fast_kernel *kernel, const tombola_call *call)
{
    if (kernel->blocks > 1 && device->major < 9) return false;
    if (kernel->blocks > 8 && device->major >= 12)
        return false; /* clusters of 16 are a data centre device's */
    if (call->entropy && (kernel == &fast_kernels[FLAT_C1] || kernel == &fast_kernels[FLAT_C8]))
        return false; /* which only the pipe sums, of the flat kernels */
    if (kernel == &fast_kernels[FLAT_C1] && call->vocab_size > 1 << 20) return false;
    /* of its blocks, which four of a multiprocessor are to be, smaller ones have room for one */
    if (kernel == &fast_kernels[C1_256] && device->shared_bytes <= TB_LARGE_BYTES) return false;
    return (int64_t)fast_shared(device, kernel, call) <= device->shared_bytes;
}

/* The pipelined kernel whose clusters are done first, if one has room for two rows, so that reading does not
 * wait for weighing. A turn takes as long as weighing a block's share and some more vectors would; the first
 * row's arrival and what comes after the last row's weights, with which nothing overlaps, as `tail` quarters
 * of a share (measured). */
#define PIPE_TURN_VECTORS 1600

/* Of softmax, in vectors that are read and written: a turn takes as long as memory does with the clusters'
 * rows, and as some vectors of each multiprocessor, and no less than the block's stages do; more where there
 * is no room for three rows. With it goes the time until all clusters write, and, where rows do not follow
 * each other, what is computed (measured). */
static int64_t softmax_time(const tb_cuda_device *device, const tb_fast_kernel *kernel,
                            const tombola_call *call, int64_t turns, int64_t slots)
{
    const int64_t sms = device->multiprocessors, narrow = call->dtype != TOMBOLA_F32,
                  vectors = call->vocab_size * (narrow ? 6 : 8) / 32, least = sms * (narrow ? 1390 : 960);
    const bool wide = kernel->blocks > 8;
    int64_t turn = tb_pipe_clusters(device, kernel) * vectors + sms * (!narrow ? 200
                                                                       : wide  ? 900
                                                                               : 500),
            start = sms * (wide ? 4200 : 3300);
    if (turn < least) turn = least;
    if (slots < 3 && slots < turns) turn += turn / (narrow ? 4 : 10);
    if (turns == 1) start += sms * (vectors / kernel->blocks) * 3 / 10;
    return start + turns * turn;
}

/* Of `count` kernels, those of fewer blocks first; NULL where none has room. */
static const tb_fast_kernel *choose_pipe(const tb_cuda_device *device, const tombola_call *call,
                                         const tb_fast_kernel *kernels, int count, int tail)
{
    const tb_fast_kernel *best = NULL;
    int64_t best_time = 0;
    for (const tb_fast_kernel *kernel = kernels + count - 1; kernel >= kernels; kernel--) {
        if (!tb_fast_fits(device, kernel, call)) continue;
        int64_t clusters = tb_pipe_clusters(device, kernel), turns = (call->rows + clusters - 1) / clusters,
                bytes, share = vectors_of(call) / kernel->blocks;
        const int64_t slots = tb_pipe_slots(device, kernel, call, &bytes);
        if (slots < (turns < 2 ? turns : 2)) continue;
        const int64_t time = kernel->widens ? softmax_time(device, kernel, call, turns, slots)
                                            : turns * (PIPE_TURN_VECTORS + share) + share * tail / 4;
        if (!best || time <= best_time) best = kernel, best_time = time;
    }
    return best;
}

void tb_add_fast_launch(tb_cuda_plan *plan, const tb_cuda_device *device, const tombola_call *call,
                        const tb_fast_kernel *kernel, const char *const names[3])
{
    const int64_t resident = is_pipe(kernel) ? tb_pipe_clusters(device, kernel) : call->rows,
                  teams = call->rows < resident ? call->rows : resident;
    plan->launch[plan->launch_count++] = (tb_cuda_launch){.kernel = names[call->dtype],
                                                          .grid = (unsigned)teams * kernel->blocks,
                                                          .threads = kernel->threads,
                                                          .cluster = kernel->blocks,
                                                          .shared_bytes = fast_shared(device, kernel, call)};
}

#define PIPE_VECTORS 125 /* of the shortest rows that the pipelined flat kernel was measured with */

static const tb_fast_kernel *choose_flat_pipe(const tb_cuda_device *device, const tombola_call *call)
{
    return choose_pipe(device, call, &fast_kernels[FLAT_PIPE_C2], FAST_KERNELS - FLAT_PIPE_C2, 3);
}

/* min_p alone: a flat kernel takes up to a quarter longer than a streaming kernel where few tokens are kept,
 * mostly less than a tenth, and half as long where many are. */
static bool flat_suits_min_p(const tb_cuda_device *device, const tombola_call *call)
{
    if (device->major < 9 || vectors_of(call) < PIPE_VECTORS) return false;
    return call->rows <= device->multiprocessors / 8 || choose_flat_pipe(device, call);
}

/* The kernel for a batch: many blocks a row where rows are few; enough of a row for each block. The numbers
 * of rows are measured on 132 multiprocessors. */
static int choose_fast(const tb_cuda_device *device, const tombola_call *call, bool filtered)
{
    int64_t rows = call->rows, sms = device->multiprocessors, vectors = vectors_of(call);
    int order[8], n = 0;
    if (filtered) {
        if (rows <= sms / 16 - 1 && vectors >= 16 * 1024) order[n++] = C16_256;
        if (rows <= sms / 8 - 1 && vectors >= 8 * 1024) order[n++] = C8_256;
        if (rows <= sms / 5 && vectors >= 12 * 1024) order[n++] = C4_512;
        if (rows * 4 <= sms * 5 / 4 && vectors >= 4 * 1024) order[n++] = C4_256;
        if (rows * 2 <= sms && vectors >= 2 * 2048) order[n++] = C2_512;
        /* long rows: two blocks a multiprocessor, which read in turns where there are more rows */
        const bool two = vectors > 20 * 1024 || vectors <= 512 || (vectors > 4 * 1024 && rows <= 2 * sms);
        if (!two) order[n++] = C1_256;
        order[n++] = C1_512;
    } else {
        const tb_fast_kernel *pipe = choose_flat_pipe(device, call);
        /* short rows: a block for each, of as many as fit */
        if (vectors <= 8 * 256 + 1 && rows <= 2 * sms && (vectors < 8 * 256 || rows >= sms * 3 / 4))
            order[n++] = FLAT_C1;
        if (pipe && vectors >= PIPE_VECTORS) order[n++] = (int)(pipe - fast_kernels);
        if (vectors >= 8 * 256) order[n++] = FLAT_C8;
        order[n++] = FLAT_C1;
        order[n++] = FLAT_C8;
    }
    for (int i = 0; i < n; i++)
        if (tb_fast_fits(device, &fast_kernels[order[i]], call)) return order[i];
    return FAST_KERNELS;
}

bool tb_add_fast(tb_cuda_plan *plan, const tb_cuda_device *device, const tombola_call *call, bool only_flat,
                 const char *forced)
{
    fast_chain chain = read_chain(call);
    if (!fast_serves(call, &chain)) return false;
    int choice = FAST_KERNELS;
    const bool flat = flat_serves(call, &chain), stream = !only_flat && !call->total_mass;
    if (!forced) {
        if (flat && (!chain.filtered || flat_suits_min_p(device, call)))
            choice = choose_fast(device, call, false);
        if (choice == FAST_KERNELS && stream) choice = choose_fast(device, call, true);
    } else {
        for (int i = 0; i < FAST_KERNELS; i++)
            if (!strcmp(forced, fast_kernels[i].name) && tb_fast_fits(device, &fast_kernels[i], call))
                choice = i;
        if (choice < FLAT_C1 && !stream) return false;
        if (choice >= FLAT_C1 && choice < FAST_KERNELS && !flat) return false;
    }
    if (choice == FAST_KERNELS) return false;
    tb_add_fast_launch(plan, device, call, &fast_kernels[choice], fast_names[choice]);
    return true;
}

/* ---- the kernel for outputs over the whole row without a draw: the row lies in the shared memory of its
 * blocks ---- */

static bool whole_serves(const tombola_call *call)
{
    fast_chain chain = read_chain(call);
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
    int64_t share = (vectors_of(call) + blocks - 1) / blocks, of_warp = (share + warps - 1) / warps,
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
    const int64_t vectors = vectors_of(call), few = vectors < 24 * 1024 ? 3 : 4;
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
               vectors_of(call) >= 1024 * 2 * (int64_t)blocks)
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
           vectors_of(call) * width <= 16 * TB_WHOLE_ONCE_THREADS * TB_WHOLE_ONCE_WEIGHTS;
}

static bool softmax_serves(const tombola_call *call)
{
    fast_chain chain = read_chain(call);
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
               suits = vectors_of(call) >= 8 * 256 &&
                       call->rows <= (two ? 2 : 1) * tb_pipe_clusters(device, &softmax_once);
    if (once_fits(device, call) && (forced ? !strcmp(forced, softmax_once.name) : suits)) {
        tb_add_fast_launch(plan, device, call, &softmax_once, softmax_once_names);
        return true;
    }
    if (!forced) {
        if (vectors_of(call) >= 8 * 256) kernel = choose_pipe(device, call, softmax_kernels, count, 0);
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

/* ---- the generic kernel: a block a row, or a cluster of blocks where rows are few ---- */

#define ROOM_BYTES (48 * 1024) /* no block has more static shared memory */
#define CHUNK 1024             /* elements of a row that a warp takes at a time; 4096 in very long rows */

/* `blocks` of a row; 0: as many as suit the batch. */
static void add_generic(tb_cuda_plan *plan, const tb_cuda_device *device, const tombola_call *call,
                        unsigned blocks)
{
    int64_t rows = call->rows, sms = device->multiprocessors;
    int64_t chunk = call->vocab_size > 1 << 20 ? 4 * CHUNK : CHUNK;
    int64_t chunks = (call->vocab_size + 3 + chunk - 1) / chunk;
    if (!blocks) {
        blocks = 1;
        if (device->major >= 9)
            blocks = rows <= sms / 16      ? 16
                     : rows <= sms / 4     ? 8
                     : rows <= sms / 2     ? 4
                     : rows <= sms * 3 / 4 ? 2
                                           : 1;
        if (blocks > 8 && device->major >= 12) blocks = 8;
        while (blocks > 1 && chunks < 4 * blocks) blocks /= 2;
    }
    tb_cuda_launch launch = {.kernel = "tombola_generic", .grid = (unsigned)rows * blocks, .cluster = blocks};
    launch.threads = blocks > 2 ? 256 : row_threads(call->vocab_size);
    if (blocks == 1 && rows <= sms && call->vocab_size > 16384) launch.threads = 1024;
    /* Sixteen blocks hold the row in their shared memory, so that only the first pass waits for it. */
    int64_t share = (chunks + 15) / 16 * chunk * (call->dtype == TOMBOLA_F32 ? 4 : 2);
    if (blocks == 16 && share <= device->shared_bytes - ROOM_BYTES) launch.shared_bytes = (unsigned)share;
    plan->launch[plan->launch_count++] = launch;
}

tb_cuda_plan tb_cuda_choose(const tb_cuda_device *device, const tombola_call *call, const char *forced)
{
    tb_cuda_plan plan = {.slow_doubles = device->double_ratio > 2};
    if (forced && !strcmp(forced, "digits")) { /* as on devices whose doubles are slow */
        plan = tb_cuda_choose(device, call, NULL);
        plan.slow_doubles = true;
        bool sums = false;
        for (int i = 0; i < plan.launch_count; i++)
            sums |= strstr(plan.launch[i].kernel, "_flat_") || strstr(plan.launch[i].kernel, "whole_pipe_") ||
                    strstr(plan.launch[i].kernel, "whole_once_");
        if (!sums) plan.launch_count = 0;
        return plan;
    }
    const bool exact = call->method == TOMBOLA_EXACT;
    bool usual = !forced || !strcmp(forced, "generic") || !strcmp(forced, exact ? "generic" : "rejection");
    unsigned blocks = tb_forced_blocks(device, forced, "generic_c");
    unsigned whole = tb_forced_blocks(device, forced, "whole_c");
    const unsigned threads = !forced                        ? 0
                             : !strcmp(forced, "pick_256")  ? 256
                             : !strcmp(forced, "pick_512")  ? 512
                             : !strcmp(forced, "pick_1024") ? 1024
                                                            : 0;
    if (tb_add_row_kernel(&plan, device, call, whole, threads, forced)) {
        /* one kernel for all of it */
    } else if ((!forced || !usual) && (tb_add_fast(&plan, device, call, false, forced) ||
                                       tb_add_parts(&plan, device, call, forced))) {
        /* the fast kernels' */
    } else if (exact && (usual || blocks)) {
        add_generic(&plan, device, call, blocks);
    } else if (usual) {
        tb_add_launch(&plan, "tombola_rejection", (unsigned)call->rows, row_threads(call->vocab_size));
    } else {
        return plan; /* does not do this call */
    }
    if (call->advance_offsets) { /* the workspace: each row's next offset (u64 [rows]) */
        plan.workspace_bytes = round_up((size_t)call->rows * 8);
        tb_add_launch(&plan, "tombola_advance", (unsigned)((call->rows + 127) / 128), 128);
    }
    if (tb_has_lists(call)) {
        plan.lists_at = plan.workspace_bytes;
        plan.workspace_bytes += round_up((size_t)call->rows * (8 + 4 + 4 * TB_LISTED_MOST));
    }
    return plan;
}
