#include "tensors.h"

#include <stdio.h>

#include "raise.h"

const DLTensor *tensor_of(const TVMFFIAny *argument)
{
    if (argument->type_index == kTVMFFITensor)
        return (const DLTensor *)((const char *)argument->v_obj + sizeof(TVMFFIObject));
    if (argument->type_index == kTVMFFIDLTensorPtr) return argument->v_ptr;
    return NULL;
}

const char *argument_words(const TVMFFIAny *argument)
{
    switch (argument->type_index) {
    case kTVMFFINone: return "None";
    case kTVMFFIInt: return "an integer";
    case kTVMFFIBool: return "a bool";
    case kTVMFFIFloat: return "a float";
    case kTVMFFIRawStr:
    case kTVMFFISmallStr:
    case kTVMFFIStr: return "a string";
    case kTVMFFIArray:
    case kTVMFFIList: return "a list";
    case kTVMFFITensor:
    case kTVMFFIDLTensorPtr: return "a tensor";
    case kTVMFFIBigInt: return "an integer beyond 64 bits";
    default: return "something else";
    }
}

void *tensor_data(const DLTensor *tensor)
{
    return tensor->data ? (char *)tensor->data + tensor->byte_offset : NULL;
}

static bool is_empty(const DLTensor *tensor)
{
    for (int i = 0; i < tensor->ndim; i++)
        if (tensor->shape[i] == 0) return true;
    return false;
}

bool tensor_adjacent(const DLTensor *tensor)
{
    int last = tensor->ndim - 1;
    return last < 0 || is_empty(tensor) || !tensor->strides || tensor->shape[last] <= 1 ||
           tensor->strides[last] == 1;
}

bool tensor_compact(const DLTensor *tensor)
{
    int64_t expected = 1;
    if (!tensor->strides || is_empty(tensor)) return true;
    for (int i = tensor->ndim - 1; i >= 0; i--) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != expected) return false;
        expected *= tensor->shape[i];
    }
    return true;
}

int64_t tensor_row_stride(const DLTensor *tensor)
{
    bool free = tensor->ndim < 2 || tensor->shape[0] <= 1 || !tensor->strides || is_empty(tensor);
    return free ? tensor->shape[tensor->ndim - 1] : tensor->strides[0];
}

/* Rows of bytes, at equal distances. */
typedef struct extent {
    uintptr_t at;
    uint64_t rows, width, stride;
} extent;

static extent extent_of(const DLTensor *tensor)
{
    extent e = {.at = (uintptr_t)tensor_data(tensor), .rows = 1, .width = tensor->dtype.bits / 8u};
    if (is_empty(tensor)) return (extent){0};
    if (tensor->ndim == 2 && tensor->shape[0] > 1 && !tensor_compact(tensor)) {
        e.rows = (uint64_t)tensor->shape[0];
        e.stride = (uint64_t)tensor->strides[0] * e.width;
        e.width *= (uint64_t)tensor->shape[1];
        return e;
    }
    for (int i = 0; i < tensor->ndim; i++) e.width *= (uint64_t)tensor->shape[i];
    return e;
}

static uintptr_t end_of(const extent *e)
{
    return e->at + (e->rows ? (e->rows - 1) * e->stride : 0) + e->width;
}

bool tensors_overlap(const DLTensor *a, const DLTensor *b)
{
    extent x = extent_of(a), y = extent_of(b);
    if (!x.width || !y.width || end_of(&x) <= y.at || end_of(&y) <= x.at) return false;
    if (y.at < x.at) {
        extent t = x;
        x = y, y = t;
    }
    /* Columns of one wider array lie side by side. */
    if (x.rows > 1 && (y.rows == 1 || y.stride == x.stride) && x.width <= x.stride) {
        uint64_t column = (y.at - x.at) % x.stride;
        return column < x.width || column + y.width > x.stride;
    }
    return true;
}

const char *tensor_shape_words(const DLTensor *tensor, char *text, size_t capacity)
{
    size_t used = (size_t)snprintf(text, capacity, "[");
    for (int i = 0; i < tensor->ndim && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%lld", i ? ", " : "",
                                 (long long)tensor->shape[i]);
    if (used < capacity) snprintf(text + used, capacity - used, "]");
    return text;
}

bool tensor_has_type(const DLTensor *tensor, field_type type, DLDataType data_type)
{
    DLDataType t = tensor->dtype;
    if (t.lanes != 1) return false;
    switch (type) {
    case TYPE_I32: return t.code == kDLInt && t.bits == 32;
    case TYPE_BITS32: return (t.code == kDLInt || t.code == kDLUInt) && t.bits == 32;
    case TYPE_BITS64: return (t.code == kDLInt || t.code == kDLUInt) && t.bits == 64;
    case TYPE_F32: return t.code == kDLFloat && t.bits == 32;
    case TYPE_DATA: return t.code == data_type.code && t.bits == data_type.bits;
    case TYPE_BYTES: return (t.code == kDLInt || t.code == kDLUInt) && t.bits == 8;
    case TYPE_NONE: break;
    }
    return false;
}

const char *type_words(field_type type)
{
    switch (type) {
    case TYPE_I32: return "int32";
    case TYPE_BITS32: return "int32 or uint32";
    case TYPE_BITS64: return "int64 or uint64";
    case TYPE_F32: return "float32";
    case TYPE_DATA: return "that of logits";
    case TYPE_BYTES: return "uint8";
    case TYPE_NONE: break;
    }
    return "none";
}

static const char *dtype_words(DLDataType type, char *text, size_t capacity)
{
    static const char *const codes[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
    const char *code = type.code < sizeof codes / sizeof codes[0] ? codes[type.code] : "other";
    snprintf(text, capacity, type.code == kDLBool ? "%s" : "%s%d", code, type.bits);
    return text;
}

static const char *device_words(DLDevice device, char *text, size_t capacity)
{
    const char *kind = device.device_type == kDLCPU           ? "cpu"
                       : device.device_type == kDLCUDAHost    ? "cuda host"
                       : device.device_type == kDLCUDAManaged ? "cuda managed"
                       : device.device_type == kDLCUDA        ? "cuda"
                                                              : "other";
    if (device.device_type == kDLCPU)
        snprintf(text, capacity, "%s", kind);
    else
        snprintf(text, capacity, "%s:%d", kind, (int)device.device_id);
    return text;
}

static bool is_host(DLDevice device)
{
    return device.device_type == kDLCPU || device.device_type == kDLCUDAHost;
}

int tensor_check(const DLTensor *tensor, const field *field, DLDevice device, DLDataType data_type)
{
    char have[64], want[64];
    bool same = is_host(device) ? is_host(tensor->device)
                                : tensor->device.device_type == device.device_type &&
                                      tensor->device.device_id == device.device_id;
    if (!same)
        return bridge_raise("ValueError", field->name, "is on %s, and logits are on %s",
                            device_words(tensor->device, have, sizeof have),
                            device_words(device, want, sizeof want));
    if (!tensor_has_type(tensor, field->type, data_type))
        return bridge_raise("TypeError", field->name, "has dtype %s; it must be %s",
                            dtype_words(tensor->dtype, have, sizeof have),
                            field->type == TYPE_DATA ? dtype_words(data_type, want, sizeof want)
                                                     : type_words(field->type));
    if ((uintptr_t)tensor_data(tensor) % (tensor->dtype.bits / 8u))
        return bridge_raise("ValueError", field->name, "is not aligned to its elements of %d bytes",
                            tensor->dtype.bits / 8);
    return 0;
}
