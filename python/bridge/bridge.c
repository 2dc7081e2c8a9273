/*
 * The library for programs that speak tvm-ffi: Python through the package tombola, TVM and MLC by name
 * (tvm_ffi.load_module(path)["run"], ffi::Module::LoadFromFile(path)->GetFunction("run")).
 *
 *   run(data, field, value, ...)    one call of the library; see fields.h
 *   plan(data, field, value, ...)   how it would run, in words
 *   fields()                        the names of the fields, separated by blanks, in the order of their
 * numbers info(device)                    what runs calls there ("cpu", or a CUDA device's number), in words
 *   version()                       the library's version: MAJOR * 10000 + MINOR * 100 + PATCH
 */
#include <stdio.h>
#include <string.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#include "contexts.h"
#include "driver.h"
#include "raise.h"
#include "request.h"
#include "tensors.h"

static int set_string(TVMFFIAny *result, const char *text)
{
    TVMFFIByteArray bytes = {text, strlen(text)};
    return TVMFFIStringFromByteArray(&bytes, result);
}

/* ---- one call ---- */

static int finish(tombola_result result, const tombola_error *error)
{
    return result ? bridge_raise_library(error) : 0;
}

/* Where rows are picked of none, an index that is out of range for each of them lies behind the workspace. */
static size_t absent_offset(size_t workspace)
{
    return (workspace + sizeof(int32_t) - 1) / sizeof(int32_t) * sizeof(int32_t);
}

static size_t with_absent(const request *r, size_t workspace)
{
    if (!r->no_source) return workspace;
    return absent_offset(workspace) + (size_t)r->call.rows * sizeof(int32_t);
}

static int run_host(const tombola_context *context, request *r)
{
    tombola_error error;
    if (tombola_workspace_size(context, &r->call, &r->call.workspace_size, &error))
        return bridge_raise_library(&error);
    size_t bytes = with_absent(r, r->call.workspace_size);
    r->call.workspace = bridge_host_workspace(bytes);
    if (!r->call.workspace)
        return bridge_raise("MemoryError", "", "no memory for a workspace of %zu bytes", bytes);
    if (r->no_source) {
        char *absent = (char *)r->call.workspace + absent_offset(r->call.workspace_size);
        memset(absent, 0xff, (size_t)r->call.rows * sizeof(int32_t));
        r->call.row_index = (const int32_t *)(const void *)absent;
    }
    return finish(tombola_run(context, &r->call, &error), &error);
}

/* The caller's own workspace. */
static int run_in_given(const tombola_context *context, request *r)
{
    const field *field = &bridge_fields[FIELD_WORKSPACE];
    const DLTensor *tensor = r->tensors[FIELD_WORKSPACE];
    tombola_error error;
    if (!tensor)
        return bridge_raise("TypeError", field->name, "must be a tensor, not %s",
                            argument_words(r->given[FIELD_WORKSPACE]));
    if (tensor_check(tensor, field, r->device, r->data->dtype)) return -1;
    if (!tensor_compact(tensor)) return bridge_raise("ValueError", field->name, "is not contiguous");
    if (r->no_source) return bridge_raise("ValueError", "logits", "has no rows to pick from");
    r->call.workspace_size = 1;
    for (int i = 0; i < tensor->ndim; i++) r->call.workspace_size *= (size_t)tensor->shape[i];
    r->call.workspace = tensor_data(tensor);
    return finish(tombola_run(context, &r->call, &error), &error);
}

/* Runs in the workspace of `bytes`, which has room for the absent rows' indices. */
static int run_in(const tombola_context *context, request *r, void *workspace, size_t bytes)
{
    tombola_error error;
    r->call.workspace = workspace;
    r->call.workspace_size = bytes;
    if (r->no_source) {
        char *absent = (char *)workspace + bytes - (size_t)r->call.rows * sizeof(int32_t);
        r->call.workspace_size = (size_t)(absent - (char *)workspace);
        const char *refusal =
            driver_fill(r->device.device_id, absent, UINT32_MAX, (size_t)r->call.rows, r->call.cuda_stream);
        if (refusal) return bridge_raise("RuntimeError", "", "%s", refusal);
        r->call.row_index = (const int32_t *)(const void *)absent;
    }
    return finish(tombola_run(context, &r->call, &error), &error);
}

/* A captured call's workspace must live as long as the graph and be nobody else's while that runs, so it
 * comes from the caller's framework, whose allocator gives memory of the graph's own. */
static int run_captured(const tombola_context *context, request *r, size_t bytes)
{
    int64_t shape[] = {(int64_t)bytes}, strides[] = {1};
    DLTensor prototype = {
        .device = r->device, .ndim = 1, .dtype = {kDLUInt, 8, 1}, .shape = shape, .strides = strides};
    TVMFFIObjectHandle tensor = NULL;
    if (!TVMFFIEnvGetDLPackManagedTensorAllocator())
        return bridge_raise(
            "RuntimeError", "workspace",
            "this call is captured in a graph, and this framework has no allocator for graphs: "
            "pass %zu bytes of device memory",
            bytes);
    if (TVMFFIEnvTensorAlloc(&prototype, &tensor)) return -1;
    const TVMFFIAny argument = {.type_index = kTVMFFITensor, .v_obj = tensor};
    int failed = run_in(context, r, tensor_data(tensor_of(&argument)), bytes);
    TVMFFIObjectDecRef(tensor);
    return failed;
}

static int run_device(const tombola_context *context, request *r)
{
    tombola_error error;
    size_t bytes = 0;
    void *stream = r->call.cuda_stream;
    if (r->given[FIELD_WORKSPACE]) return run_in_given(context, r);
    if (tombola_workspace_size(context, &r->call, &bytes, &error)) return bridge_raise_library(&error);
    bytes = with_absent(r, bytes);
    if (driver_capturing(stream)) {
        if (r->given[FIELD_NOT_CAPTURED] && r->given[FIELD_NOT_CAPTURED]->v_int64)
            return bridge_raise(
                "ValueError", "seed",
                "a captured call draws the same random numbers at every replay: pass seed and, as "
                "a tensor, offset with advance=True");
        if (bytes) return run_captured(context, r, bytes);
    }
    if (!bytes) return finish(tombola_run(context, &r->call, &error), &error);
    bridge_lane *lane = bridge_lane_lock(r->device.device_id, stream, bytes);
    if (!lane) return -1;
    int failed = run_in(context, r, bridge_lane_memory(lane), bytes);
    bridge_lane_unlock(lane);
    return failed;
}

/* The stream that is named, or else the caller's framework's current one. */
static int find_stream(request *r)
{
    const TVMFFIAny *stream = r->given[FIELD_STREAM];
    if (!stream) {
        r->call.cuda_stream = TVMFFIEnvGetStream(r->device.device_type, r->device.device_id);
        return 0;
    }
    if (stream->type_index != kTVMFFIInt && stream->type_index != kTVMFFIOpaquePtr)
        return bridge_raise("TypeError", "stream", "must be a stream's handle, not %s",
                            argument_words(stream));
    r->call.cuda_stream = stream->v_ptr;
    return 0;
}

TVM_FFI_DLL_EXPORT int __tvm_ffi_run(void *self, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result)
{
    (void)self;
    request r;
    result->type_index = kTVMFFINone;
    if (request_read(&r, arguments, count)) return -1;
    if (r.call.rows == 0) return 0;
    const tombola_context *context = bridge_context(r.device);
    if (!context) return -1;
    if (r.device.device_type == kDLCPU) return run_host(context, &r);
    return find_stream(&r) ? -1 : run_device(context, &r);
}

TVM_FFI_DLL_EXPORT int __tvm_ffi_plan(void *self, const TVMFFIAny *arguments, int32_t count,
                                      TVMFFIAny *result)
{
    (void)self;
    request r;
    char text[512];
    tombola_error error;
    if (request_read(&r, arguments, count)) return -1;
    const tombola_context *context = bridge_context(r.device);
    if (!context) return -1;
    if (tombola_plan(context, &r.call, text, sizeof text, &error)) return bridge_raise_library(&error);
    return set_string(result, text);
}

/* ---- information ---- */

TVM_FFI_DLL_EXPORT int __tvm_ffi_fields(void *self, const TVMFFIAny *arguments, int32_t count,
                                        TVMFFIAny *result)
{
    (void)self, (void)arguments, (void)count;
    char text[1024];
    size_t used = 0;
    for (int i = 0; i < FIELD_COUNT && used < sizeof text; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", bridge_fields[i].name);
    return set_string(result, text);
}

TVM_FFI_DLL_EXPORT int __tvm_ffi_info(void *self, const TVMFFIAny *arguments, int32_t count,
                                      TVMFFIAny *result)
{
    (void)self;
    DLDevice device = {kDLCPU, 0};
    if (count > 0 && arguments[0].type_index == kTVMFFIInt)
        device = (DLDevice){kDLCUDA, (int32_t)arguments[0].v_int64};
    const tombola_context *context = bridge_context(device);
    if (!context) return -1;
    tombola_info info = {.struct_size = sizeof info};
    char text[192];
    if (tombola_context_info(context, &info)) return bridge_raise("RuntimeError", "", "no information");
    if (device.device_type == kDLCUDA)
        snprintf(text, sizeof text, "cuda %s", info.cuda_device);
    else
        snprintf(text, sizeof text, "cpu %s, %d thread%s", tombola_isa_name((tombola_isa)info.isa),
                 info.threads, info.threads == 1 ? "" : "s");
    return set_string(result, text);
}

TVM_FFI_DLL_EXPORT int __tvm_ffi_version(void *self, const TVMFFIAny *arguments, int32_t count,
                                         TVMFFIAny *result)
{
    (void)self, (void)arguments, (void)count;
    *result = (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = tombola_version()};
    return 0;
}
