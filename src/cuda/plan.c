/* The choice of kernels: a pure function of shapes. */
#include "plan.h"

#include <string.h>

#include "fast_shapes.h"

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

static void add(tb_cuda_plan *plan, const char *kernel, unsigned grid, unsigned threads)
{
    plan->launch[plan->launch_count++] =
        (tb_cuda_launch){.kernel = kernel, .grid = grid, .threads = threads, .cluster = 1};
}

/* ---- the fast kernels (docs/gpu.md): logits, one draw, few outputs, and chains with at most one
 * temperature, before the filters, and at most one top_p ---- */

typedef struct fast_kernel {
    const char *name;         /* as TOMBOLA_CUDA_VARIANT has it; the kernel is tombola_<name>_<dtype> */
    unsigned blocks, threads; /* blocks of a row */
    unsigned shared_bytes;
    bool staged; /* a block keeps its share of the row in shared memory: tiles of 2048 vectors */
} fast_kernel;

#define NAMES(name)                                                                                          \
    {                                                                                                        \
        "tombola_" name "_f32", "tombola_" name "_f16", "tombola_" name "_bf16"                              \
    }
enum { C1_512, C1_256, C2_512, C4_512, C4_256, C8_256, C16_256, FLAT_C1, FLAT_C8, FLAT_C16, FAST_KERNELS };

static const fast_kernel fast_kernels[FAST_KERNELS] = {
    [C1_512] = {"stream_c1_512", 1, 512, TB_STREAM_C1_512_BYTES, false},
    [C1_256] = {"stream_c1_256", 1, 256, TB_STREAM_C1_256_BYTES, false},
    [C2_512] = {"stream_c2_512", 2, 512, TB_STREAM_C2_512_BYTES, false},
    [C4_512] = {"stream_c4_512", 4, 512, TB_STREAM_C4_512_BYTES, false},
    [C4_256] = {"stream_c4_256", 4, 256, TB_STREAM_C4_256_BYTES, false},
    [C8_256] = {"stream_c8_256", 8, 256, TB_STREAM_C8_256_BYTES, true},
    [C16_256] = {"stream_c16_256", 16, 256, TB_STREAM_C16_256_BYTES, true},
    [FLAT_C1] = {"flat_c1_512", 1, 512, TB_FLAT_C1_512_BYTES + 8 * 512 * 16, false},
    [FLAT_C8] = {"flat_c8_256", 8, 256, TB_FLAT_C8_256_BYTES + 8 * 256 * 16, false},
    [FLAT_C16] = {"flat_c16_256", 16, 256, TB_FLAT_C16_256_BYTES + 8 * 256 * 16, false},
};

static const char *const fast_names[FAST_KERNELS][3] = {
    [C1_512] = NAMES("stream_c1_512"),   [C1_256] = NAMES("stream_c1_256"), [C2_512] = NAMES("stream_c2_512"),
    [C4_512] = NAMES("stream_c4_512"),   [C4_256] = NAMES("stream_c4_256"), [C8_256] = NAMES("stream_c8_256"),
    [C16_256] = NAMES("stream_c16_256"), [FLAT_C1] = NAMES("flat_c1_512"),  [FLAT_C8] = NAMES("flat_c8_256"),
    [FLAT_C16] = NAMES("flat_c16_256"),
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

static bool fast_serves(const tombola_call *call, const fast_chain *chain)
{
    if (call->kind != TOMBOLA_LOGITS || call->method != TOMBOLA_EXACT || call->draws != 1 || !chain->served)
        return false;
    if (call->raw_logprobs || call->probabilities || call->masked_logits || call->entropy || call->top_ids ||
        call->top_logprobs || call->given_logprobs || call->given_raw_logprobs)
        return false;
    if (chain->filtered) return !call->total_mass;
    return !call->ranks && !call->kept_ids;
}

static int64_t vectors_of(const tombola_call *call)
{
    int64_t width = call->dtype == TOMBOLA_F32 ? 4 : 8;
    return (call->vocab_size + width - 1) / width + 1; /* a row need not begin at a vector */
}

static unsigned fast_shared(const fast_kernel *kernel, const tombola_call *call)
{
    if (!kernel->staged) return kernel->shared_bytes;
    int64_t tile = call->dtype == TOMBOLA_F32 ? 2048 : 1024,
            share = (vectors_of(call) + kernel->blocks - 1) / kernel->blocks;
    int64_t bytes = kernel->shared_bytes + (share + tile - 1) / tile * tile * 16;
    return bytes < (1 << 30) ? (unsigned)bytes : 1u << 30;
}

static bool fast_fits(const tb_cuda_device *device, const fast_kernel *kernel, const tombola_call *call)
{
    if (kernel->blocks > 1 && device->major < 9) return false;
    if (kernel->blocks > 8 && device->major >= 12)
        return false; /* clusters of 16 are a data centre device's */
    if (kernel == &fast_kernels[FLAT_C1] && call->vocab_size > 1 << 20) return false;
    return (int64_t)fast_shared(kernel, call) <= device->shared_bytes;
}

/* The kernel for a batch: many blocks a row where rows are few; enough of a row for each block. The numbers
 * of rows are measured on 132 multiprocessors. */
static int choose_fast(const tb_cuda_device *device, const tombola_call *call, bool filtered)
{
    int64_t rows = call->rows, sms = device->multiprocessors, vectors = vectors_of(call);
    int order[7], n = 0;
    if (filtered) {
        if (rows <= sms / 16 - 1 && vectors >= 16 * 1024) order[n++] = C16_256;
        if (rows <= sms / 8 - 1 && vectors >= 8 * 1024) order[n++] = C8_256;
        if (rows * 4 <= sms * 11 / 10 && vectors >= 4 * 1024) order[n++] = C4_256;
        if (rows * 2 <= sms * 6 / 5 && vectors >= 2 * 2048) order[n++] = C2_512;
        order[n++] = vectors > 4 * 1024 ? C1_512 : vectors > 512 ? C1_256 : C1_512;
    } else {
        if (rows <= sms / 16 && vectors >= 16 * 256) order[n++] = FLAT_C16;
        if (vectors >= 8 * 256) order[n++] = FLAT_C8;
        order[n++] = FLAT_C1;
        order[n++] = FLAT_C8;
    }
    for (int i = 0; i < n; i++)
        if (fast_fits(device, &fast_kernels[order[i]], call)) return order[i];
    return FAST_KERNELS;
}

/* Adds a fast kernel and what must follow it; false where none serves the call. */
static bool add_fast(tb_cuda_plan *plan, const tb_cuda_device *device, const tombola_call *call,
                     const char *forced)
{
    static const char *const flat_left[] = NAMES("flat_left_c8_256");
    fast_chain chain = read_chain(call);
    if (!fast_serves(call, &chain)) return false;
    int choice = FAST_KERNELS;
    if (!forced) {
        choice = choose_fast(device, call, chain.filtered);
    } else {
        for (int i = 0; i < FAST_KERNELS; i++)
            if (!strcmp(forced, fast_kernels[i].name) && fast_fits(device, &fast_kernels[i], call))
                choice = i;
        if (choice < FLAT_C1 && !chain.filtered) return false;
        if (choice >= FLAT_C1 && (chain.filtered && (!chain.only_min_p || call->ranks || call->kept_ids)))
            return false;
    }
    if (choice == FAST_KERNELS) return false;
    const fast_kernel *kernel = &fast_kernels[choice];
    plan->workspace_bytes = round_up((size_t)call->rows * 4);
    plan->launch[plan->launch_count++] = (tb_cuda_launch){.kernel = fast_names[choice][call->dtype],
                                                          .grid = (unsigned)call->rows * kernel->blocks,
                                                          .threads = kernel->threads,
                                                          .cluster = kernel->blocks,
                                                          .shared_bytes = fast_shared(kernel, call)};
    unsigned most = (unsigned)device->multiprocessors, rows = (unsigned)call->rows;
    if (choice < FLAT_C1 && chain.only_min_p && !call->ranks && !call->kept_ids && device->major >= 9)
        plan->launch[plan->launch_count++] =
            (tb_cuda_launch){.kernel = flat_left[call->dtype],
                             .grid = (rows < most / 2 ? rows : most / 2) * 8,
                             .threads = 256,
                             .cluster = 8,
                             .shared_bytes = fast_kernels[FLAT_C8].shared_bytes};
    add(plan, "tombola_left", rows < 2 * most ? rows : 2 * most, 512); /* two blocks a multiprocessor */
    return true;
}

tb_cuda_plan tb_cuda_choose(const tb_cuda_device *device, const tombola_call *call, const char *forced)
{
    tb_cuda_plan plan = {0};
    const char *natural = call->method == TOMBOLA_EXACT ? "generic" : "rejection";
    bool usual = !forced || !strcmp(forced, "generic") || !strcmp(forced, natural);
    if ((!forced || !usual) && add_fast(&plan, device, call, forced)) {
        /* the fast kernels' */
    } else if (usual) {
        add(&plan, call->method == TOMBOLA_EXACT ? "tombola_generic" : "tombola_rejection",
            (unsigned)call->rows, row_threads(call->vocab_size));
    } else {
        return plan; /* does not do this call */
    }
    /* The workspace: what a fast kernel says of each row (u32 [rows]), then each row's next offset (u64
     * [rows]). Kernels find the second part by the number of rows. */
    if (call->advance_offsets) {
        plan.workspace_bytes = round_up((size_t)call->rows * 4) + round_up((size_t)call->rows * 8);
        add(&plan, "tombola_advance", (unsigned)((call->rows + 127) / 128), 128);
    }
    return plan;
}
