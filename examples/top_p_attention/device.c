#include "device.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#define ATTACH_GLOBAL 1 /* CU_MEM_ATTACH_GLOBAL: any stream may use it */

/* The driver's functions, as cuda.h declares them. */
static int (*allocate_managed)(uint64_t *pointer, size_t bytes, unsigned flags);
static int (*synchronize)(void);

static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

bool device_open(void)
{
    int (*init)(unsigned), (*get)(int *, int), (*retain)(void **, int), (*use)(void *), device = 0;
    void *context = NULL, *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return library && find(library, "cuInit", &init) && find(library, "cuDeviceGet", &get) &&
           find(library, "cuDevicePrimaryCtxRetain", &retain) && find(library, "cuCtxSetCurrent", &use) &&
           find(library, "cuMemAllocManaged", &allocate_managed) &&
           find(library, "cuCtxSynchronize", &synchronize) && !init(0) && !get(&device, 0) &&
           !retain(&context, device) && !use(context);
}

void *device_allocate(size_t bytes)
{
    uint64_t pointer = 0;
    if (allocate_managed(&pointer, bytes, ATTACH_GLOBAL)) return NULL;
    return (void *)(uintptr_t)pointer;
}

bool device_wait(void)
{
    return !synchronize();
}
