#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "../api/error.h"

/* cuGetProcAddress_v2, there since CUDA 12.0: finds the version of an entry point that an API version had,
 * whatever name the driver's table of symbols has for it. */
typedef tb_cu_result (*get_proc_address)(const char *name, void **function, int version, uint64_t flags,
                                         int *status);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static tb_driver driver;
static get_proc_address find;
static tombola_error failure; /* result is OK when the driver is open */

void *tb_driver_symbol(const char *name)
{
    void *function = NULL;
    int status = 0;
    if (!find || find(name, &function, 12040, 0, &status)) return NULL;
    return function;
}

static void refuse_version(int version)
{
    tb_fail(
        &failure, TOMBOLA_ERROR_NO_BACKEND, "cuda",
        "the NVIDIA driver supports CUDA %d.%d and this build needs CUDA %d.%d: update the driver to %s or "
        "newer, or build tombola with an nvcc of CUDA %d",
        version / 1000, version % 1000 / 10, TB_CUDA_MINIMUM_VERSION / 1000,
        TB_CUDA_MINIMUM_VERSION % 1000 / 10, TB_CUDA_MINIMUM_VERSION >= 13000 ? "580" : "550",
        version >= 12040 ? version / 1000 : 12);
}

/* cuInit's refusals that say that there is nothing to run on, rather than that something broke. */
static void refuse_init(tb_cu_result result)
{
    if (result == TB_CU_NO_DEVICE)
        tb_fail(&failure, TOMBOLA_ERROR_NO_BACKEND, "cuda",
                "the NVIDIA driver sees no CUDA device: check nvidia-smi and CUDA_VISIBLE_DEVICES");
    else if (result == TB_CU_STUB_LIBRARY)
        tb_fail(
            &failure, TOMBOLA_ERROR_NO_BACKEND, "cuda",
            "libcuda.so.1 is the CUDA toolkit's stub, not a driver: install the NVIDIA driver, or take the "
            "stub's folder out of the library path");
    else
        tb_driver_fail(&driver, result, "cuInit", &failure);
}

static void open_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        tb_fail(&failure, TOMBOLA_ERROR_NO_BACKEND, "cuda",
                "the NVIDIA driver was not found (%.200s): install it, or use the cpu backend", dlerror());
        return;
    }
    tb_cu_result (*get_version)(int *);
    *(void **)&get_version = dlsym(library, "cuDriverGetVersion");
    *(void **)&find = dlsym(library, "cuGetProcAddress_v2");
    int version = 0;
    if (get_version) get_version(&version);
    if (!find || version < TB_CUDA_MINIMUM_VERSION) {
        find = NULL;
        refuse_version(version);
        return;
    }
    driver.version = version;
    const char *missing = NULL;
#define FIND(name, parameters)                                                                               \
    *(void **)&driver.name = tb_driver_symbol(#name);                                                        \
    if (!driver.name && !missing) missing = #name;
    TB_DRIVER_FUNCTIONS(FIND)
#undef FIND
    if (missing) {
        tb_fail(&failure, TOMBOLA_ERROR_NO_BACKEND, "cuda",
                "the NVIDIA driver lacks %s, which every driver for CUDA 12.4 or newer has: reinstall it",
                missing);
        return;
    }
    tb_cu_result result = driver.cuInit(0);
    if (result) refuse_init(result);
}

const tb_driver *tb_driver_open(tombola_error *error)
{
    pthread_once(&once, open_driver);
    if (failure.result) {
        if (error) *error = failure;
        return NULL;
    }
    return &driver;
}

/* What the caller can do about a result. */
static const char *advice(tb_cu_result result)
{
    switch (result) {
    case TB_CU_OUT_OF_MEMORY: return "free device memory";
    case TB_CU_INVALID_CONTEXT:
    case TB_CU_INVALID_HANDLE:
        return "cuda_stream must be a live stream of the CUDA context in which the tombola context was made";
    case TB_CU_CONTEXT_IS_DESTROYED:
        return "destroy the tombola context before the CUDA context (or cudaDeviceReset), and make a new one";
    case TB_CU_INVALID_CLUSTER_SIZE:
        return "this device (a MIG slice?) has no room for the cluster: set TOMBOLA_CUDA_VARIANT=generic";
    }
    if (result >= TB_CU_ILLEGAL_ADDRESS && result <= TB_CU_LAUNCH_FAILED &&
        result != TB_CU_LAUNCH_OUT_OF_RESOURCES)
        return "work launched earlier in this CUDA context failed; compute-sanitizer finds where";
    return "the CUDA documentation of CUresult says more";
}

tombola_result tb_driver_fail(const tb_driver *from, tb_cu_result result, const char *what,
                              tombola_error *error)
{
    const char *name = NULL, *text = NULL;
    if (from->cuGetErrorName(result, &name) || !name) name = "an unknown error";
    if (from->cuGetErrorString(result, &text) || !text) text = "no description";
    return tb_fail(error, result == TB_CU_OUT_OF_MEMORY ? TOMBOLA_ERROR_OUT_OF_MEMORY : TOMBOLA_ERROR_DRIVER,
                   "", "%s failed: %s %d (%s); %s", what, name, result, text, advice(result));
}
