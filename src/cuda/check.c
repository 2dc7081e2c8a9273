#include "check.h"

#include <stdio.h>

#include "../api/error.h"
#include "../call/row.h"

#define WORKSPACE_ALIGNMENT 256

typedef struct checker {
    const tb_driver *driver;
    bool pageable;
    tb_cu_stream stream;
    tombola_error *error;
} checker;

bool tb_cuda_pointer_is_device(const tb_driver *driver, const void *pointer)
{
    unsigned type = 0;
    return !driver->cuPointerGetAttribute(&type, TB_CU_POINTER_MEMORY_TYPE,
                                          (tb_cu_pointer)(uintptr_t)pointer) &&
           type == TB_CU_MEMORY_DEVICE;
}

/* True for memory that a graph under capture allocates itself, which the driver knows nothing of before the
 * graph runs. (Or for any other memory unknown to it, then: there is no telling.) */
static bool may_be_of_graph(const tb_driver *driver, tb_cu_stream stream, const void *pointer)
{
    unsigned type = 0;
    int status = 0;
    bool unknown = driver->cuPointerGetAttribute(&type, TB_CU_POINTER_MEMORY_TYPE,
                                                 (tb_cu_pointer)(uintptr_t)pointer) != 0;
    return (unknown || type == 0) && !driver->cuStreamIsCapturing(stream, &status) &&
           status == TB_CU_CAPTURE_ACTIVE;
}

/* True when kernels of the current context reach the memory at the pointer's own value. */
static bool addressable(const tb_driver *driver, const void *pointer)
{
    tb_cu_pointer at = 0, asked = (tb_cu_pointer)(uintptr_t)pointer;
    return !driver->cuPointerGetAttribute(&at, TB_CU_POINTER_DEVICE_POINTER, asked) && at == asked;
}

/* An access at a wrong alignment, or to memory that is not the device's, would not fail the launch: it would
 * end the caller's whole CUDA context. So it is refused here. */
static tombola_result check(const checker *c, const char *name, const void *pointer, size_t alignment)
{
    if (!pointer) return TOMBOLA_OK;
    if ((uintptr_t)pointer % alignment)
        return tb_fail(c->error, TOMBOLA_ERROR_INVALID_ARGUMENT, name,
                       "%s is not aligned to its elements of %zu bytes", name, alignment);
    if (c->pageable || addressable(c->driver, pointer) || may_be_of_graph(c->driver, c->stream, pointer))
        return TOMBOLA_OK;
    return tb_fail(
        c->error, TOMBOLA_ERROR_INVALID_ARGUMENT, name,
        "%s (%p) is not memory that the device can address: with the cuda backend it must be device, "
        "managed or page-locked host memory of this CUDA context; copy it to the device, or use the "
        "cpu backend",
        name, pointer);
}

static tombola_result check_steps(const checker *c, const tombola_call *call)
{
    for (int32_t i = 0; i < call->step_count; i++) {
        const tombola_step *step = &call->steps[i];
        bool has_k = step->kind == TOMBOLA_TOP_K || step->kind == TOMBOLA_TOP_K_TOP_P;
        char name[40];
        tombola_result result = TOMBOLA_OK;
        if (has_k && step->k_per_slot) {
            snprintf(name, sizeof name, "steps[%d].k_per_slot", i);
            result = check(c, name, step->k_per_slot, sizeof(int32_t));
        }
        if (!result && step->kind != TOMBOLA_TOP_K && step->value_per_slot) {
            snprintf(name, sizeof name, "steps[%d].value_per_slot", i);
            result = check(c, name, step->value_per_slot, sizeof(float));
        }
        if (result) return result;
    }
    return TOMBOLA_OK;
}

tombola_result tb_cuda_check_pointers(const tb_driver *driver, bool pageable, const tombola_call *call,
                                      tombola_error *error)
{
    const checker c = {driver, pageable, call->cuda_stream, error};
    const size_t element = tb_dtype_size(call->dtype);
    tombola_result result = check(&c, "data", call->data, element);
    if (!result) result = check_steps(&c, call);
#define CHECK(field, used)                                                                                   \
    if (!result && (used)) result = check(&c, #field, call->field, sizeof *call->field);
    CHECK(row_index, true)
    CHECK(row_start, true)
    CHECK(row_length, true)
    CHECK(slot_index, true)
    CHECK(seeds, true)
    CHECK(offsets, true)
    CHECK(streams, true)
    CHECK(random, true)
    CHECK(tokens, true)
    CHECK(status, true)
    CHECK(rounds, true)
    CHECK(logprobs, true)
    CHECK(raw_logprobs, true)
    CHECK(ranks, true)
    CHECK(kept_count, true)
    CHECK(kept_ids, call->kept_capacity > 0)
    CHECK(kept_mass, true)
    CHECK(total_mass, true)
    CHECK(probabilities, true)
    CHECK(top_ids, call->top_count > 0)
    CHECK(top_logprobs, call->top_count > 0)
    CHECK(given_ids, call->given_count > 0)
    CHECK(given_logprobs, call->given_count > 0)
    CHECK(given_raw_logprobs, call->given_count > 0)
    CHECK(entropy, true)
#undef CHECK
    if (!result && call->masked_logits != call->data)
        result = check(&c, "masked_logits", call->masked_logits, element);
    return result;
}

tombola_result tb_cuda_check_workspace(const tb_driver *driver, const tombola_call *call, size_t bytes,
                                       tombola_error *error)
{
    if (bytes == 0) return TOMBOLA_OK;
    if (!call->workspace)
        return tb_fail(
            error, TOMBOLA_ERROR_WORKSPACE, "workspace",
            "workspace is NULL; this call needs %zu bytes of device memory (tombola_workspace_size)", bytes);
    if (call->workspace_size < bytes)
        return tb_fail(error, TOMBOLA_ERROR_WORKSPACE, "workspace_size",
                       "workspace_size is %zu; this call needs %zu bytes (tombola_workspace_size)",
                       call->workspace_size, bytes);
    if ((uintptr_t)call->workspace % WORKSPACE_ALIGNMENT)
        return tb_fail(error, TOMBOLA_ERROR_WORKSPACE, "workspace",
                       "workspace is not aligned to %d bytes, as cuMemAlloc and cudaMalloc align",
                       WORKSPACE_ALIGNMENT);
    if (!tb_cuda_pointer_is_device(driver, call->workspace) &&
        !may_be_of_graph(driver, call->cuda_stream, call->workspace))
        return tb_fail(error, TOMBOLA_ERROR_WORKSPACE, "workspace",
                       "workspace (%p) is not device memory: allocate it with cuMemAlloc or cudaMalloc",
                       call->workspace);
    return TOMBOLA_OK;
}
