/* The choice among the fast kernels (docs/gpu.md): logits, one draw, few outputs, and chains with at most one
 * temperature, before the filters, and at most one top_p. */
#include "plan_fast.h"

#include <string.h>

#include "fast_shapes.h"
#include "params.h"

enum {
    C1_512,
    C1_256,
    C2_512,
    C4_256,
    C4_512,
    C8_256,
    C16_256,
    GREEDY_C1,
    GREEDY_C2,
    GREEDY_C4,
    GREEDY_C8,
    GREEDY_C16,
    FLAT_C1,
    FLAT_C8,
    FLAT_ONCE_C3,
    FLAT_ONCE_C4,
    FLAT_ONCE_C8,
    FLAT_ONCE_C16,
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
    [GREEDY_C1] = {"greedy_c1", 1, TB_GREEDY_ALONE, 0, false, false},
    [GREEDY_C2] = {"greedy_c2", 2, TB_GREEDY_THREADS, 0, false, false},
    [GREEDY_C4] = {"greedy_c4", 4, TB_GREEDY_THREADS, 0, false, false},
    [GREEDY_C8] = {"greedy_c8", 8, TB_GREEDY_THREADS, 0, false, false},
    [GREEDY_C16] = {"greedy_c16", 16, TB_GREEDY_THREADS, 0, false, false},
    [FLAT_C1] = {"flat_c1_512", 1, 512, TB_FLAT_C1_512_BYTES + 8 * 512 * 16, false, false},
    [FLAT_C8] = {"flat_c8_256", 8, 256, TB_FLAT_C8_256_BYTES + 8 * 256 * 16, false, false},
    [FLAT_ONCE_C3] = {"flat_once_c3", 3, TB_FLAT_ONCE_THREADS, TB_FLAT_ONCE_BYTES, true, false},
    [FLAT_ONCE_C4] = {"flat_once_c4", 4, TB_FLAT_ONCE_THREADS, TB_FLAT_ONCE_BYTES, true, false},
    [FLAT_ONCE_C8] = {"flat_once_c8", 8, TB_FLAT_ONCE_THREADS, TB_FLAT_ONCE_BYTES, true, false},
    [FLAT_ONCE_C16] = {"flat_once_c16", 16, TB_FLAT_ONCE_THREADS, TB_FLAT_ONCE_BYTES, true, false},
    [FLAT_PIPE_C2] = {"flat_pipe_c2", 2, PIPE_THREADS(2), TB_PIPE_C2_BYTES, true, false},
    [FLAT_PIPE_C4] = {"flat_pipe_c4", 4, PIPE_THREADS(4), TB_PIPE_C4_BYTES, true, false},
    [FLAT_PIPE_C8] = {"flat_pipe_c8", 8, PIPE_THREADS(8), TB_PIPE_C8_BYTES, true, false},
    [FLAT_PIPE_C16] = {"flat_pipe_c16", 16, PIPE_THREADS(16), TB_PIPE_C16_BYTES, true, false},
};

static const char *const fast_names[FAST_KERNELS][3] = {
    [C1_512] = TB_NAMES("stream_c1_512"),      [C1_256] = TB_NAMES("stream_c1_256"),
    [C2_512] = TB_NAMES("stream_c2_512"),      [C4_256] = TB_NAMES("stream_c4_256"),
    [C4_512] = TB_NAMES("stream_c4_512"),      [C8_256] = TB_NAMES("stream_c8_256"),
    [C16_256] = TB_NAMES("stream_c16_256"),    [GREEDY_C1] = TB_NAMES("greedy_c1"),
    [GREEDY_C2] = TB_NAMES("greedy_c2"),       [GREEDY_C4] = TB_NAMES("greedy_c4"),
    [GREEDY_C8] = TB_NAMES("greedy_c8"),       [GREEDY_C16] = TB_NAMES("greedy_c16"),
    [FLAT_C1] = TB_NAMES("flat_c1_512"),       [FLAT_C8] = TB_NAMES("flat_c8_256"),
    [FLAT_ONCE_C3] = TB_NAMES("flat_once_c3"), [FLAT_ONCE_C4] = TB_NAMES("flat_once_c4"),
    [FLAT_ONCE_C8] = TB_NAMES("flat_once_c8"), [FLAT_ONCE_C16] = TB_NAMES("flat_once_c16"),
    [FLAT_PIPE_C2] = TB_NAMES("flat_pipe_c2"), [FLAT_PIPE_C4] = TB_NAMES("flat_pipe_c4"),
    [FLAT_PIPE_C8] = TB_NAMES("flat_pipe_c8"), [FLAT_PIPE_C16] = TB_NAMES("flat_pipe_c16"),
};

tb_chain_kind tb_read_chain(const tombola_call *call)
{
    tb_chain_kind chain = {true, false, true, false};
    int temperatures = 0, top_ps = 0;
    for (int32_t i = 0; i < call->step_count; i++) {
        int32_t kind = call->steps[i].kind;
        if (kind == TOMBOLA_TEMPERATURE) {
            if (chain.filtered || temperatures++) chain.served = false;
            if (!call->steps[i].value_per_slot && call->steps[i].value == 0.0f) chain.greedy = true;
            continue;
        }
        chain.filtered = true;
        if (kind != TOMBOLA_MIN_P) chain.only_min_p = false;
        if ((kind == TOMBOLA_TOP_P || kind == TOMBOLA_TOP_K_TOP_P) && top_ps++) chain.served = false;
    }
    return chain;
}

/* Whether the flat kernels do; else the streaming ones, which go on with rows of which many tokens are kept.
 */
static bool flat_serves(const tombola_call *call, const tb_chain_kind *chain)
{
    return (!chain->filtered || (chain->only_min_p && !call->total_mass)) && !call->ranks && !call->kept_ids;
}

/* Whether one of both may; the mass of all tokens only the flat ones have. */
static bool fast_serves(const tombola_call *call, const tb_chain_kind *chain)
{
    if (call->kind != TOMBOLA_LOGITS || call->method != TOMBOLA_EXACT || call->draws != 1 || !chain->served)
        return false;
    return !(call->raw_logprobs && call->step_count) && !call->probabilities && !call->masked_logits &&
           !call->top_ids && !call->top_logprobs && !call->given_logprobs && !call->given_raw_logprobs;
}

int64_t tb_vectors_of(const tombola_call *call)
{
    int64_t width = call->dtype == TOMBOLA_F32 ? 4 : 8;
    return (call->vocab_size + width - 1) / width + 1; /* a row need not begin at a vector */
}

static bool is_pipe(const tb_fast_kernel *kernel)
{
    return strstr(kernel->name, "_pipe_") != NULL;
}

/* Whether a thread has vectors of a row that follow each other: a block of these has room for as many of all
 * its threads. */
static bool has_spans(const tb_fast_kernel *kernel)
{
    return kernel >= &fast_kernels[FLAT_ONCE_C3] && kernel <= &fast_kernels[FLAT_ONCE_C16];
}

/* Clusters that are resident, one block a multiprocessor: 66, 39, 30, 15, 7 of 132, parts of which are too
 * small for another wide one. */
int64_t tb_pipe_clusters(const tb_cuda_device *device, const tb_fast_kernel *kernel)
{
    int64_t sms = device->multiprocessors, blocks = kernel->blocks,
            clusters = blocks == 2   ? sms / 2
                       : blocks == 3 ? sms * 3 / 10
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
    int64_t tile = has_spans(kernel)            ? kernel->threads
                   : call->dtype == TOMBOLA_F32 ? 2048
                                                : 1024,
            share = (tb_vectors_of(call) + kernel->blocks - 1) / kernel->blocks;
    int64_t bytes = kernel->shared_bytes + (share + tile - 1) / tile * tile * 16;
    return bytes < (1 << 30) ? (unsigned)bytes : 1u << 30;
}

bool tb_fast_fits(const tb_cuda_device *device, const tb_fast_kernel *kernel, const tombola_call *call)
{
    if (kernel->blocks > 1 && device->major < 9) return false;
    if (kernel->blocks > 8 && device->major >= 12)
        return false; /* clusters of 16 are a data centre device's */
    if (call->entropy && kernel >= &fast_kernels[FLAT_C1] && kernel < &fast_kernels[FLAT_PIPE_C2])
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

const tb_fast_kernel *tb_choose_pipe(const tb_cuda_device *device, const tombola_call *call,
                                     const tb_fast_kernel *kernels, int count, int tail)
{
    const tb_fast_kernel *best = NULL;
    int64_t best_time = 0;
    for (const tb_fast_kernel *kernel = kernels + count - 1; kernel >= kernels; kernel--) {
        if (!tb_fast_fits(device, kernel, call)) continue;
        int64_t clusters = tb_pipe_clusters(device, kernel), turns = (call->rows + clusters - 1) / clusters,
                bytes, share = tb_vectors_of(call) / kernel->blocks;
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
    return tb_choose_pipe(device, call, &fast_kernels[FLAT_PIPE_C2], FAST_KERNELS - FLAT_PIPE_C2, 3);
}

/* min_p alone: a flat kernel takes up to a quarter longer than a streaming kernel where few tokens are kept,
 * mostly less than a tenth, and half as long where many are. */
static bool flat_suits_min_p(const tb_cuda_device *device, const tombola_call *call)
{
    if (device->major < 9 || tb_vectors_of(call) < PIPE_VECTORS) return false;
    return call->rows <= device->multiprocessors / 8 || choose_flat_pipe(device, call);
}

/* Whether one of the greedy kernels does. */
static bool greedy_serves(const tombola_call *call, const tb_chain_kind *chain)
{
    return chain->greedy && !call->ranks;
}

/* As many blocks a row as let all rows be read at the same time, two blocks a multiprocessor, and have enough
 * of a row each (measured on 132 multiprocessors). */
static int choose_greedy(const tb_cuda_device *device, const tombola_call *call)
{
    const int64_t rows = call->rows, sms = device->multiprocessors, vectors = tb_vectors_of(call);
    int order[5], n = 0;
    if (rows <= sms / 16 - 1 && vectors >= 16 * 256) order[n++] = GREEDY_C16;
    if (rows <= sms * 3 / 16 && vectors >= 8 * 256) order[n++] = GREEDY_C8;
    if (rows <= sms / 2 - 6 && vectors >= 4 * 128) order[n++] = GREEDY_C4;
    if (rows <= sms && vectors >= 2 * 1024) order[n++] = GREEDY_C2;
    order[n++] = GREEDY_C1;
    for (int i = 0; i < n; i++)
        if (tb_fast_fits(device, &fast_kernels[order[i]], call)) return order[i];
    return FAST_KERNELS;
}

/* Few rows, a cluster each, all at the same time: the kernels without a pipe, if a block has not too much of
 * a row to weigh (measured on 132 multiprocessors). Of short rows a multiprocessor may have two blocks. */
static int add_flat_once(const tb_cuda_device *device, const tombola_call *call, int *order)
{
    static const struct {
        int kernel, blocks; /* of a multiprocessor */
        int64_t most;       /* tokens of a block */
    } choices[] = {{FLAT_ONCE_C16, 1, 1 << 22},
                   {FLAT_ONCE_C8, 1, 40960},
                   {FLAT_ONCE_C4, 1, 40960},
                   {FLAT_ONCE_C3, 1, 51200},
                   {FLAT_ONCE_C4, 2, 16384}};
    int n = 0;
    for (int i = 0; i < (int)(sizeof choices / sizeof choices[0]); i++) {
        const tb_fast_kernel *kernel = &fast_kernels[choices[i].kernel];
        const int blocks = choices[i].blocks;
        if (blocks * ((int64_t)fast_shared(device, kernel, call) + 1024) <= device->shared_bytes + 1024 &&
            (kernel->blocks < 8 || tb_vectors_of(call) >= kernel->blocks * 256) &&
            call->rows <= tb_pipe_clusters(device, kernel) * blocks &&
            call->vocab_size <= kernel->blocks * choices[i].most)
            order[n++] = choices[i].kernel;
    }
    return n;
}

/* The kernel for a batch: many blocks a row where rows are few; enough of a row for each block. The numbers
 * of rows are measured on 132 multiprocessors. */
static int choose_fast(const tb_cuda_device *device, const tombola_call *call, bool filtered)
{
    int64_t rows = call->rows, sms = device->multiprocessors, vectors = tb_vectors_of(call);
    int order[10], n = 0;
    if (filtered) {
        if (rows <= sms / 16 - 1 && vectors >= 16 * 1024) order[n++] = C16_256;
        if (rows <= sms / 8 - 1 && vectors >= 8 * 1024) order[n++] = C8_256;
        /* clusters of 4 that are resident: 30, and of blocks of which a multiprocessor has two, 60 */
        if (rows <= sms / 4 - 3 && vectors >= 12 * 1024) order[n++] = C4_512;
        if (rows <= 2 * (sms / 4 - 3) && vectors >= 4 * 1024) order[n++] = C4_256;
        if (rows * 2 <= sms && vectors >= 2 * 2048) order[n++] = C2_512;
        /* long rows: two blocks a multiprocessor, which read in turns where there are more rows */
        const bool two = vectors > 20 * 1024 || vectors <= 512 || (vectors > 4 * 1024 && rows <= 2 * sms);
        if (!two) order[n++] = C1_256;
        order[n++] = C1_512;
    } else {
        const tb_fast_kernel *pipe = choose_flat_pipe(device, call);
        n = add_flat_once(device, call, order);
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
    tb_chain_kind chain = tb_read_chain(call);
    if (!fast_serves(call, &chain)) return false;
    int choice = FAST_KERNELS;
    const bool flat = flat_serves(call, &chain), stream = !only_flat && !call->total_mass,
               greedy = !only_flat && greedy_serves(call, &chain);
    if (!forced) {
        if (greedy) choice = choose_greedy(device, call);
        if (choice == FAST_KERNELS && flat && (!chain.filtered || flat_suits_min_p(device, call)))
            choice = choose_fast(device, call, false);
        if (choice == FAST_KERNELS && stream) choice = choose_fast(device, call, true);
    } else {
        for (int i = 0; i < FAST_KERNELS; i++)
            if (!strcmp(forced, fast_kernels[i].name) && tb_fast_fits(device, &fast_kernels[i], call))
                choice = i;
        if (choice < GREEDY_C1 && !stream) return false;
        if (choice >= GREEDY_C1 && choice < FLAT_C1 && !greedy) return false;
        if (choice >= FLAT_C1 && choice < FAST_KERNELS && !flat) return false;
    }
    if (choice == FAST_KERNELS) return false;
    tb_add_fast_launch(plan, device, call, &fast_kernels[choice], fast_names[choice]);
    return true;
}
