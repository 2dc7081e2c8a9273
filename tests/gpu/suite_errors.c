/* Every refusal of the cuda backend, and that the caller's CUDA context works on after each. */
#include "suites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VOCAB 500
#define ROWS 4

static tombola_call good_call(const tombola_context *context)
{
    tombola_call call = TOMBOLA_CALL_INIT;
    tombola_error error = {0};
    float row[ROWS * VOCAB];
    for (int i = 0; i < ROWS * VOCAB; i++) row[i] = (float)(i % 37) * 0.1f;
    call.rows = ROWS, call.vocab_size = VOCAB, call.seed = 3, call.backend = TOMBOLA_BACKEND_CUDA;
    call.cuda_stream = lane_stream();
    call.data = device_copy(row, sizeof row);
    call.tokens = device_pointer(device_alloc(ROWS * 4));
    if (tombola_workspace_size(context, &call, &call.workspace_size, &error)) {
        fprintf(stderr, "errors: %s\n", error.message);
        exit(70);
    }
    call.workspace = device_pointer(device_alloc(call.workspace_size + 256));
    return call;
}

static void free_call(tombola_call *call)
{
    CU(cu.cuCtxSynchronize());
    device_free(device_address(call->data));
    device_free(device_address(call->tokens));
    device_free(device_address(call->workspace));
}

/* The good call still runs, and the thread's current context is the one that it was. */
static void check_alive(suite *s, const tombola_context *context, const tombola_call *good, const char *after)
{
    tombola_error error = {0};
    int32_t tokens[ROWS] = {-2, -2, -2, -2};
    tb_cu_context current = NULL;
    tombola_result result = tombola_run(context, good, &error);
    suite_check(s, !result, "after %s: %s", after, error.message);
    suite_check(s, !cu.cuStreamSynchronize(good->cuda_stream), "after %s: the CUDA context is broken", after);
    device_read(tokens, good->tokens, sizeof tokens, good->cuda_stream);
    for (int i = 0; i < ROWS; i++)
        suite_check(s, tokens[i] >= 0 && tokens[i] < VOCAB, "after %s: token %d", after, tokens[i]);
    driver->cuCtxGetCurrent(&current);
    suite_check(s, current == device_context, "after %s: another context is current", after);
}

static void refuse(suite *s, const tombola_context *context, const tombola_call *good,
                   const tombola_call *bad, tombola_result expected, const char *argument, const char *what)
{
    tombola_error error = {0};
    tombola_result result = tombola_run(context, bad, &error);
    suite_check(s, result == expected && !strcmp(error.argument, argument),
                "%s: result %d, argument '%s': %s", what, result, error.argument, error.message);
    suite_check(s, result == TOMBOLA_OK || error.message[0], "%s: no message", what);
    check_alive(s, context, good, what);
}

static void check_workspace(suite *s, const tombola_context *context, const tombola_call *good)
{
    if (!good->workspace_size) return;
    tombola_call bad = *good;
    bad.workspace = NULL;
    refuse(s, context, good, &bad, TOMBOLA_ERROR_WORKSPACE, "workspace", "no workspace");
    bad = *good;
    bad.workspace_size--;
    refuse(s, context, good, &bad, TOMBOLA_ERROR_WORKSPACE, "workspace_size", "a small workspace");
    bad = *good;
    bad.workspace = (char *)good->workspace + 128;
    refuse(s, context, good, &bad, TOMBOLA_ERROR_WORKSPACE, "workspace", "a misaligned workspace");
    bad = *good;
    void *host = aligned_alloc(256, (good->workspace_size + 255) / 256 * 256);
    if (!host) abort();
    bad.workspace = host;
    refuse(s, context, good, &bad, TOMBOLA_ERROR_WORKSPACE, "workspace", "a workspace on the host");
    free(host);
}

static void check_pointers(suite *s, const tombola_context *context, const tombola_call *good, bool pageable)
{
    static int32_t host[ROWS * VOCAB];
    tombola_call bad = *good;
    bad.tokens = (int32_t *)(void *)((char *)good->tokens + 2);
    refuse(s, context, good, &bad, TOMBOLA_ERROR_INVALID_ARGUMENT, "tokens", "misaligned tokens");
    if (pageable) {
        suite_skip(s, "this device can address all host memory, so host pointers are allowed");
        return;
    }
    bad = *good;
    bad.tokens = host;
    refuse(s, context, good, &bad, TOMBOLA_ERROR_INVALID_ARGUMENT, "tokens", "tokens on the host");
    bad = *good;
    bad.data = host;
    refuse(s, context, good, &bad, TOMBOLA_ERROR_INVALID_ARGUMENT, "data", "data on the host");
    tombola_step step = {.kind = TOMBOLA_TOP_K, .k_per_slot = host};
    bad = *good;
    bad.steps = &step, bad.step_count = 1;
    refuse(s, context, good, &bad, TOMBOLA_ERROR_INVALID_ARGUMENT, "steps[0].k_per_slot",
           "k_per_slot on the host");
}

/* Page-locked host memory is addressable: it works. */
static void check_pinned(suite *s, const tombola_context *context, const tombola_call *good)
{
    void *tokens;
    tombola_error error = {0};
    CU(cu.cuMemHostAlloc(&tokens, ROWS * 4, 0));
    tombola_call call = *good;
    call.tokens = tokens;
    memset(tokens, 0xff, ROWS * 4);
    tombola_result result = tombola_run(context, &call, &error);
    CU(cu.cuStreamSynchronize(call.cuda_stream));
    suite_check(s, !result && call.tokens[0] >= 0, "page-locked tokens: %s", error.message);
    CU(cu.cuMemFreeHost(tokens));
}

/* A context made while another CUDA context is current belongs to it, and runs on there whatever is current.
 */
static void check_other_context(suite *s)
{
    tb_cu_context other;
    tb_cu_device device;
    CU(driver->cuDeviceGet(&device, 0));
    CU(cu.cuCtxCreate(&other, NULL, 0, 0, device)); /* and makes it current */
    tombola_options wanted = {.struct_size = sizeof wanted, .threads = 1, .cuda = 1};
    tombola_context *context;
    tombola_error error = {0};
    tombola_result result = tombola_context_create(&wanted, &context, &error);
    suite_check(s, !result, "a context in another CUDA context: %s", error.message);
    if (!result) {
        tombola_call call = good_call(context);
        call.cuda_stream = device_stream();
        int32_t tokens[ROWS];
        CU(cu.cuCtxSetCurrent(device_context)); /* not the one that the call belongs to */
        result = tombola_run(context, &call, &error);
        suite_check(s, !result, "a call into another CUDA context: %s", error.message);
        tombola_call wrong = call;
        wrong.cuda_stream = lane_stream();
        result = tombola_run(context, &wrong, &error);
        suite_check(s, result == TOMBOLA_ERROR_DRIVER, "a stream of another CUDA context: result %d", result);
        CU(cu.cuCtxSetCurrent(other));
        device_read(tokens, call.tokens, sizeof tokens, call.cuda_stream);
        suite_check(s, tokens[0] >= 0 && tokens[0] < VOCAB, "a call into another CUDA context: token %d",
                    tokens[0]);
        CU(cu.cuStreamDestroy(call.cuda_stream));
        free_call(&call);
        tombola_context_destroy(context);
    }
    CU(cu.cuCtxDestroy(other));
    CU(cu.cuCtxSetCurrent(device_context));
}

void suite_errors(suite *s)
{
    const tombola_context *context = variants[0].context;
    tombola_call good = good_call(context);
    tb_cu_device device;
    int pageable = 0;
    CU(driver->cuDeviceGet(&device, 0));
    CU(driver->cuDeviceGetAttribute(&pageable, TB_CU_DEVICE_PAGEABLE_ACCESS, device));
    check_alive(s, context, &good, "nothing");
    check_workspace(s, context, &good);
    check_pointers(s, context, &good, pageable != 0);
    check_pinned(s, context, &good);
    tombola_call bad = good;
    bad.vocab_size = TOMBOLA_MAX_VOCAB_SIZE + 1;
    refuse(s, context, &good, &bad, TOMBOLA_ERROR_INVALID_ARGUMENT, "vocab_size",
           "a vocabulary over the limit");
    check_other_context(s);
    check_alive(s, context, &good, "another context");
    free_call(&good);
}
