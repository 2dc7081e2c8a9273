#include "fake_driver.h"

#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT fake_driver fake;

static struct CUctx_st *const PRIMARY = (struct CUctx_st *)0x1000;
static const char *const KERNELS[] = {"tombola_second", "tombola_first"};
static tb_cu_context stack[8];

EXPORT void fake_reset(void)
{
    memset(&fake, 0, sizeof fake);
    fake.version = 13000;
    fake.major = 9;
    fake.ptx_version = 90;
    fake.shared_optin = 232448;
    fake.fail_launch = -1;
}

static tb_cu_result init(unsigned flags)
{
    (void)flags;
    return fake.init_result;
}

EXPORT tb_cu_result cuDriverGetVersion(int *version)
{
    *version = fake.version;
    return 0;
}

static tb_cu_result error_name(tb_cu_result result, const char **text)
{
    (void)result;
    *text = "CUDA_ERROR_FAKE";
    return 0;
}

static tb_cu_result error_string(tb_cu_result result, const char **text)
{
    (void)result;
    *text = "a made-up error";
    return 0;
}

static tb_cu_result device_get(tb_cu_device *device, int ordinal)
{
    *device = ordinal;
    return 0;
}

static tb_cu_result device_name(char *name, int capacity, tb_cu_device device)
{
    (void)device;
    strncpy(name, "Fake GPU", (size_t)capacity);
    return 0;
}

static tb_cu_result device_attribute(int *value, int attribute, tb_cu_device device)
{
    (void)device;
    switch (attribute) {
    case TB_CU_DEVICE_MULTIPROCESSORS: *value = 132; break;
    case TB_CU_DEVICE_L2_BYTES: *value = 50 << 20; break;
    case TB_CU_DEVICE_MAJOR: *value = fake.major; break;
    case TB_CU_DEVICE_MINOR: *value = fake.minor; break;
    case TB_CU_DEVICE_DOUBLE_RATIO: *value = 2; break;
    case TB_CU_DEVICE_PAGEABLE_ACCESS: *value = fake.pageable; break;
    case TB_CU_DEVICE_SHARED_OPTIN: *value = fake.shared_optin; break;
    default: return TB_CU_INVALID_VALUE;
    }
    return 0;
}

static tb_cu_result primary_retain(tb_cu_context *context, tb_cu_device device)
{
    (void)device;
    if (fake.retain_result) return fake.retain_result;
    fake.retained++;
    *context = PRIMARY;
    return 0;
}

static tb_cu_result primary_release(tb_cu_device device)
{
    (void)device;
    fake.retained--;
    return 0;
}

static tb_cu_result get_current(tb_cu_context *context)
{
    *context = fake.depth ? stack[fake.depth - 1] : fake.current;
    return 0;
}

static tb_cu_result context_device(tb_cu_device *device)
{
    *device = 3;
    return 0;
}

static tb_cu_result push(tb_cu_context context)
{
    stack[fake.depth++] = context;
    return 0;
}

static tb_cu_result pop(tb_cu_context *context)
{
    *context = stack[--fake.depth];
    return 0;
}

static tb_cu_result load(tb_cu_module *module, const void *image)
{
    if (fake.load_result) return fake.load_result;
    if (fake.no_code == image) return TB_CU_NO_BINARY_FOR_GPU;
    fake.modules++;
    *module = (tb_cu_module)(uintptr_t)image;
    return 0;
}

static tb_cu_result unload(tb_cu_module module)
{
    (void)module;
    fake.modules--;
    return 0;
}

static tb_cu_result function_count(unsigned *count, tb_cu_module module)
{
    (void)module;
    *count = 2;
    return 0;
}

static tb_cu_result enumerate(tb_cu_function *functions, unsigned count, tb_cu_module module)
{
    (void)module;
    for (unsigned i = 0; i < count; i++) functions[i] = (tb_cu_function)(uintptr_t)KERNELS[i];
    return 0;
}

static tb_cu_result function_name(const char **name, tb_cu_function function)
{
    *name = (const char *)function;
    return 0;
}

static tb_cu_result function_load(tb_cu_function function)
{
    (void)function;
    fake.loaded_functions++;
    return 0;
}

static tb_cu_result function_get(int *value, int attribute, tb_cu_function function)
{
    (void)function;
    switch (attribute) {
    case TB_CU_FUNCTION_STATIC_SHARED: *value = 1024; break;
    case TB_CU_FUNCTION_PTX_VERSION: *value = fake.ptx_version; break;
    default: return TB_CU_INVALID_VALUE;
    }
    return 0;
}

static tb_cu_result function_set(tb_cu_function function, int attribute, int value)
{
    (void)function;
    if (attribute == TB_CU_FUNCTION_MAX_DYNAMIC_SHARED) fake.max_dynamic = value;
    if (attribute == TB_CU_FUNCTION_WIDE_CLUSTERS) fake.wide_clusters = value;
    return 0;
}

static tb_cu_result launch(const tb_cu_launch *config, tb_cu_function function, void **parameters,
                           void **more)
{
    (void)more;
    if (fake.launches == fake.fail_launch) return fake.launch_result;
    fake_launch *made = &fake.launch[fake.launches++];
    *made = (fake_launch){.kernel = (const char *)function,
                          .grid = config->grid[0],
                          .block = config->block[0],
                          .cluster = 1,
                          .shared_bytes = config->shared_bytes,
                          .stream = config->stream};
    for (unsigned i = 0; i < config->attribute_count; i++) {
        const tb_cu_attribute *attribute = &config->attributes[i];
        if (attribute->id == TB_CU_LAUNCH_CLUSTER) made->cluster = attribute->value.cluster[0];
        if (attribute->id == TB_CU_LAUNCH_DEPENDENT) made->dependent = attribute->value.flag != 0;
    }
    memcpy(&made->params, parameters[0], sizeof made->params);
    return 0;
}

static bool inside(tb_cu_pointer pointer, const void *start, size_t bytes)
{
    return pointer >= (uintptr_t)start && pointer < (uintptr_t)start + bytes;
}

static tb_cu_result pointer_attribute(void *value, int attribute, tb_cu_pointer pointer)
{
    bool device = inside(pointer, fake.device_start, fake.device_bytes);
    if (!device && !inside(pointer, fake.pinned_start, fake.pinned_bytes)) return TB_CU_INVALID_VALUE;
    if (attribute == TB_CU_POINTER_MEMORY_TYPE) *(unsigned *)value = device ? TB_CU_MEMORY_DEVICE : 1;
    if (attribute == TB_CU_POINTER_DEVICE_POINTER) *(tb_cu_pointer *)value = pointer;
    return 0;
}

static tb_cu_result is_capturing(tb_cu_stream stream, int *status)
{
    (void)stream;
    *status = fake.capturing ? TB_CU_CAPTURE_ACTIVE : 0;
    return 0;
}

EXPORT tb_cu_result cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                                        int *status)
{
    static const struct {
        const char *name;
        void *function;
    } TABLE[] = {
        {"cuInit", init},
        {"cuDriverGetVersion", cuDriverGetVersion},
        {"cuGetErrorName", error_name},
        {"cuGetErrorString", error_string},
        {"cuDeviceGet", device_get},
        {"cuDeviceGetName", device_name},
        {"cuDeviceGetAttribute", device_attribute},
        {"cuDevicePrimaryCtxRetain", primary_retain},
        {"cuDevicePrimaryCtxRelease", primary_release},
        {"cuCtxGetCurrent", get_current},
        {"cuCtxGetDevice", context_device},
        {"cuCtxPushCurrent", push},
        {"cuCtxPopCurrent", pop},
        {"cuModuleLoadData", load},
        {"cuModuleUnload", unload},
        {"cuModuleGetFunctionCount", function_count},
        {"cuModuleEnumerateFunctions", enumerate},
        {"cuFuncGetName", function_name},
        {"cuFuncLoad", function_load},
        {"cuFuncGetAttribute", function_get},
        {"cuFuncSetAttribute", function_set},
        {"cuLaunchKernelEx", launch},
        {"cuPointerGetAttribute", pointer_attribute},
        {"cuStreamIsCapturing", is_capturing},
    };
    (void)version, (void)flags, (void)status;
    *function = NULL;
    for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++)
        if (!strcmp(TABLE[i].name, name)) *function = TABLE[i].function;
    if (fake.without_enumeration && !strcmp(name, "cuModuleEnumerateFunctions")) *function = NULL;
    return *function ? 0 : 500;
}
