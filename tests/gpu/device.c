#include "device.h"

#include <stdio.h>
#include <stdlib.h>

const tb_driver *driver;
device_functions cu;
tb_cu_context device_context;
char device_name[64];

bool device_open(char *reason, size_t capacity)
{
    tombola_error error = {0};
    driver = tb_driver_open(&error);
    if (!driver) {
        snprintf(reason, capacity, "%s", error.message);
        return false;
    }
    const char *missing = NULL;
#define FIND(name, parameters)                                                                               \
    *(void **)&cu.name = tb_driver_symbol(#name);                                                            \
    if (!cu.name) missing = #name;
    DEVICE_FUNCTIONS(FIND)
#undef FIND
    if (missing) {
        snprintf(reason, capacity, "the driver lacks %s", missing);
        return false;
    }
    tb_cu_device device;
    CU(driver->cuDeviceGet(&device, 0));
    CU(driver->cuDeviceGetName(device_name, sizeof device_name, device));
    CU(driver->cuDevicePrimaryCtxRetain(&device_context, device));
    CU(cu.cuCtxSetCurrent(device_context));
    return true;
}

void device_check(tb_cu_result result, const char *what, const char *file, int line)
{
    if (!result) return;
    const char *name = "?";
    driver->cuGetErrorName(result, &name);
    fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, name);
    fflush(NULL);
    exit(70);
}

tb_cu_pointer device_alloc(size_t bytes)
{
    tb_cu_pointer memory;
    CU(cu.cuMemAlloc(&memory, bytes ? bytes : 1));
    return memory;
}

void device_free(tb_cu_pointer memory)
{
    CU(cu.cuMemFree(memory));
}

void *device_copy(const void *host, size_t bytes)
{
    tb_cu_pointer memory = device_alloc(bytes);
    CU(cu.cuMemcpyHtoDAsync(memory, host, bytes, NULL));
    CU(cu.cuStreamSynchronize(NULL));
    return device_pointer(memory);
}

void device_read(void *to, const void *from, size_t bytes, tb_cu_stream stream)
{
    CU(cu.cuMemcpyDtoHAsync(to, device_address(from), bytes, stream));
    CU(cu.cuStreamSynchronize(stream));
}

tb_cu_stream device_stream(void)
{
    tb_cu_stream stream;
    CU(cu.cuStreamCreate(&stream, 1)); /* CU_STREAM_NON_BLOCKING: it waits for no other stream */
    return stream;
}
