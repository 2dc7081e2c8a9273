#include "device.h"

#include <dlfcn.h>
#include <stdint.h>

#define ATTACH_GLOBAL 1

/* The few functions of the driver's API, as cuda.h declares them. */
static struct {
    int (*init)(unsigned flags);
    int (*device_get)(int *device, int ordinal);
    int (*primary_retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*allocate)(uint64_t *pointer, size_t bytes, unsigned flags);
    int (*free)(uint64_t pointer);
    int (*synchronize)(void);
    int (*error_string)(int error, const char **text);
} driver;

static const char *reason(int error)
{
    const char *text = NULL;
    if (!error) return NULL;
    if (!driver.error_string || driver.error_string(error, &text) || !text) return "the CUDA driver failed";
    return text;
}

const char *device_open(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return "there is no CUDA driver (libcuda.so.1)";
    const struct {
        const char *name;
        void *function; /* where its address goes */
    } wanted[] = {{"cuInit", &driver.init},
                  {"cuDeviceGet", &driver.device_get},
                  {"cuDevicePrimaryCtxRetain", &driver.primary_retain},
                  {"cuCtxSetCurrent", &driver.set_current},
                  {"cuMemAllocManaged", &driver.allocate},
                  {"cuMemFree_v2", &driver.free},
                  {"cuCtxSynchronize", &driver.synchronize},
                  {"cuGetErrorString", &driver.error_string}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        void *symbol = dlsym(library, wanted[i].name);
        if (!symbol) return "the CUDA driver is too old";
        __builtin_memcpy(wanted[i].function, &symbol, sizeof symbol);
    }
    int device = 0;
    void *context = NULL;
    int error = driver.init(0);
    if (!error) error = driver.device_get(&device, 0);
    if (!error) error = driver.primary_retain(&context, device);
    if (!error) error = driver.set_current(context);
    return reason(error);
}

void *device_allocate(size_t bytes)
{
    uint64_t pointer = 0;
    if (driver.allocate(&pointer, bytes ? bytes : 1, ATTACH_GLOBAL)) return NULL;
    return (void *)(uintptr_t)pointer;
}

void device_free(void *memory)
{
    if (memory) driver.free((uint64_t)(uintptr_t)memory);
}

const char *device_wait(void)
{
    return reason(driver.synchronize());
}
