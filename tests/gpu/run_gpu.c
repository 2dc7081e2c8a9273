#include "run_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blocks.h"

/* The support's run_call serves the host backends, under another name. */
#define run_call run_call_on_host
#include "../support/run.c"
#undef run_call

#define GARBAGE 0xcd
#define GUARD 256 /* bytes around the workspace; none where compute-sanitizer watches its ends */
#define MAX_MIRRORS 48
#define CAPTURE_THREAD_LOCAL 1 /* the other threads allocate */
#define STAGING_BYTES ((size_t)24 << 20)

gpu_options gpu;

static const char *const FALLBACK_VARIANTS[] = {"generic", NULL};
extern const char *const tb_cuda_variants[] __attribute__((weak)); /* plan.h */
const char *const *gpu_variants = FALLBACK_VARIANTS;

/* What each thread has for itself. A call's blocks are laid out in `staging` (page-locked host memory) as
 * they are in `memory`, so that one copy each way serves a call; what does not fit is copied block by block.
 */
static _Thread_local struct {
    tb_cu_stream stream;
    tb_cu_pointer memory;
    unsigned char *staging;
    size_t bytes, used;
    uint64_t calls;
} lane;

typedef struct mirror {
    block host;
    tb_cu_pointer memory, device; /* the allocation, and where the block's first byte is */
} mirror;

typedef struct mirrors {
    mirror list[MAX_MIRRORS];
    int count;
} mirrors;

void lane_open(size_t bytes)
{
    CU(cu.cuCtxSetCurrent(device_context));
    lane.stream = device_stream();
    if (gpu.exact_memory) return;
    lane.memory = device_alloc(bytes);
    lane.bytes = bytes;
    CU(cu.cuMemHostAlloc((void **)&lane.staging, STAGING_BYTES, 0));
}

void lane_close(void)
{
    CU(cu.cuStreamDestroy(lane.stream));
    if (lane.memory) {
        device_free(lane.memory);
        CU(cu.cuMemFreeHost(lane.staging));
    }
    memset(&lane, 0, sizeof lane);
}

tb_cu_stream lane_stream(void)
{
    return lane.stream;
}

tombola_context *open_gpu_context(const char *variant, int threads)
{
    tombola_options options = {.struct_size = sizeof options, .threads = threads, .cuda = 1};
    tombola_context *context;
    tombola_error error;
    if (tb_cuda_variants) gpu_variants = tb_cuda_variants;
    if (variant)
        setenv("TOMBOLA_CUDA_VARIANT", variant, 1);
    else
        unsetenv("TOMBOLA_CUDA_VARIANT");
    if (tombola_context_create(&options, &context, &error)) {
        fprintf(stderr, "variant %s: %s\n", variant ? variant : "(none)", error.message);
        exit(70);
    }
    unsetenv("TOMBOLA_CUDA_VARIANT");
    return context;
}

/* ---- device copies ---- */

/* Memory at a multiple of 256 bytes, until the next call. */
static tb_cu_pointer take(size_t bytes)
{
    if (gpu.exact_memory) return device_alloc(bytes);
    tb_cu_pointer at = lane.memory + lane.used;
    lane.used += (bytes + 255) / 256 * 256;
    if (lane.used > lane.bytes) {
        fprintf(stderr, "a test call needs more than %zu bytes of device memory\n", lane.bytes);
        exit(70);
    }
    return at;
}

static void give(tb_cu_pointer memory)
{
    if (gpu.exact_memory) device_free(memory);
}

/* The device's counterpart of a host pointer. */
static void *mirrored(mirrors *m, const void *pointer)
{
    block found;
    if (!pointer) return NULL;
    if (!block_of(pointer, &found)) {
        fprintf(stderr, "a test call points to memory that is not from malloc\n");
        abort();
    }
    int i = 0;
    while (i < m->count && m->list[i].host.start != found.start) i++;
    if (i == m->count) {
        if (m->count == MAX_MIRRORS) abort();
        mirror *made = &m->list[m->count++];
        size_t residue = gpu.exact_memory ? 0 : (size_t)((uintptr_t)found.start % 256);
        made->host = found;
        made->memory = take(residue + found.bytes);
        made->device = made->memory + residue; /* addresses as odd as on the host */
    }
    const mirror *at = &m->list[i];
    return device_pointer(at->device + (tb_cu_pointer)((const unsigned char *)pointer - at->host.start));
}

static void mirror_call(mirrors *m, const tombola_call *call, tombola_call *on_device, tombola_step *steps)
{
#define FIELD(name) offsetof(tombola_call, name)
    static const size_t POINTERS[] = {FIELD(data),           FIELD(row_index),
                                      FIELD(row_start),      FIELD(row_length),
                                      FIELD(slot_index),     FIELD(seeds),
                                      FIELD(offsets),        FIELD(streams),
                                      FIELD(random),         FIELD(tokens),
                                      FIELD(status),         FIELD(rounds),
                                      FIELD(logprobs),       FIELD(raw_logprobs),
                                      FIELD(ranks),          FIELD(kept_count),
                                      FIELD(kept_ids),       FIELD(kept_mass),
                                      FIELD(total_mass),     FIELD(probabilities),
                                      FIELD(masked_logits),  FIELD(top_ids),
                                      FIELD(top_logprobs),   FIELD(given_ids),
                                      FIELD(given_logprobs), FIELD(given_raw_logprobs),
                                      FIELD(entropy)};
#undef FIELD
    *on_device = *call;
    for (size_t i = 0; i < sizeof POINTERS / sizeof *POINTERS; i++) {
        void *pointer;
        memcpy(&pointer, (const char *)call + POINTERS[i], sizeof pointer);
        pointer = mirrored(m, pointer);
        memcpy((char *)on_device + POINTERS[i], &pointer, sizeof pointer);
    }
    for (int32_t i = 0; i < call->step_count; i++) {
        steps[i] = call->steps[i];
        steps[i].k_per_slot = mirrored(m, steps[i].k_per_slot);
        steps[i].value_per_slot = mirrored(m, steps[i].value_per_slot);
    }
    on_device->steps = steps;
}

/* The lane's memory was filled from `staging` whole, and is copied back whole. */
static bool staged(void)
{
    return !gpu.exact_memory && lane.used <= STAGING_BYTES;
}

static void copy_in(const mirrors *m, tb_cu_pointer workspace, size_t workspace_bytes)
{
    if (staged()) {
        for (int i = 0; i < m->count; i++)
            memcpy(lane.staging + (m->list[i].device - lane.memory), m->list[i].host.start,
                   m->list[i].host.bytes);
        memset(lane.staging + (workspace - lane.memory), GARBAGE, workspace_bytes);
        CU(cu.cuMemcpyHtoDAsync(lane.memory, lane.staging, lane.used, lane.stream));
        return;
    }
    for (int i = 0; i < m->count; i++)
        CU(cu.cuMemcpyHtoDAsync(m->list[i].device, m->list[i].host.start, m->list[i].host.bytes,
                                lane.stream));
    if (!gpu.exact_memory) CU(cu.cuMemsetD8Async(workspace, GARBAGE, workspace_bytes, lane.stream));
}

/* Everything back to the host's blocks; false when the guards around the workspace were written. */
static bool copy_out(const mirrors *m, tb_cu_pointer workspace, size_t size, size_t guard)
{
    unsigned char guards[2 * GUARD];
    if (staged()) {
        CU(cu.cuMemcpyDtoHAsync(lane.staging, lane.memory, lane.used, lane.stream));
        CU(cu.cuStreamSynchronize(lane.stream));
        for (int i = 0; i < m->count; i++)
            memcpy(m->list[i].host.start, lane.staging + (m->list[i].device - lane.memory),
                   m->list[i].host.bytes);
        const unsigned char *first = lane.staging + (workspace - lane.memory);
        memcpy(guards, first, GUARD);
        memcpy(guards + GUARD, first + GUARD + size, GUARD);
    } else {
        for (int i = 0; i < m->count; i++)
            CU(cu.cuMemcpyDtoHAsync(m->list[i].host.start, m->list[i].device, m->list[i].host.bytes,
                                    lane.stream));
        if (guard) {
            CU(cu.cuMemcpyDtoHAsync(guards, workspace, GUARD, lane.stream));
            CU(cu.cuMemcpyDtoHAsync(guards + GUARD, workspace + GUARD + size, GUARD, lane.stream));
        }
        CU(cu.cuStreamSynchronize(lane.stream));
    }
    for (size_t i = 0; i < 2 * guard; i++)
        if (guards[i] != GARBAGE) return false;
    return true;
}

/* The call as a graph of its own. */
static tombola_result run_in_graph(const tombola_context *context, const tombola_call *call,
                                   tombola_error *error)
{
    tb_cu_graph graph;
    tb_cu_graph_exec exec;
    CU(cu.cuStreamBeginCapture(lane.stream, CAPTURE_THREAD_LOCAL));
    tombola_result result = tombola_run(context, call, error);
    CU(cu.cuStreamEndCapture(lane.stream, &graph));
    if (!result) {
        CU(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
        CU(cu.cuGraphLaunch(exec, lane.stream));
        CU(cu.cuGraphExecDestroy(exec));
    }
    CU(cu.cuGraphDestroy(graph));
    return result;
}

tombola_result run_call(const tombola_context *context, tombola_call *call, tombola_error *error)
{
    if (call->backend != TOMBOLA_BACKEND_CUDA) return run_call_on_host(context, call, error);
    mirrors m = {.count = 0};
    tombola_step steps[TOMBOLA_MAX_STEPS];
    tombola_call on_device;
    size_t size = 0, guard = gpu.exact_memory ? 0 : GUARD;
    lane.used = 0;
    lane.calls++;
    mirror_call(&m, call, &on_device, steps);
    on_device.cuda_stream = lane.stream;
    on_device.dependent_launch = gpu.apart || lane.calls % 3 == 0;
    if (lane.calls % 2) on_device.backend = TOMBOLA_BACKEND_AUTO; /* data is device memory: the same */
    tombola_result result = tombola_workspace_size(context, &on_device, &size, error);
    tb_cu_pointer workspace = 0;
    if (!result) {
        workspace = take(size + 2 * guard); /* aligned to 256 bytes and no more */
        copy_in(&m, workspace, size + 2 * guard);
        on_device.workspace = device_pointer(workspace + guard);
        on_device.workspace_size = size;
        result = lane.calls % 7 ? tombola_run(context, &on_device, error)
                                : run_in_graph(context, &on_device, error);
    }
    if (!result && !copy_out(&m, workspace, size, guard)) {
        snprintf(error->message, sizeof error->message, "bytes around the workspace were written");
        result = TOMBOLA_ERROR_WORKSPACE;
    }
    CU(cu.cuStreamSynchronize(lane.stream));
    for (int i = 0; i < m.count; i++) give(m.list[i].memory);
    if (workspace) give(workspace);
    return result;
}
