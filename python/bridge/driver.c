#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define CAPTURE_MODE_RELAXED 2
#define CAPTURE_ACTIVE 1
#define MAX_DEVICES 64

static struct {
    int (*init)(unsigned flags);
    int (*device_get)(int *device, int ordinal);
    int (*primary_retain)(void **context, int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*allocate)(uint64_t *pointer, size_t bytes);
    int (*is_capturing)(void *stream, int *status);
    int (*fill)(uint64_t memory, uint32_t word, size_t count, void *stream);
    int (*exchange_mode)(int *mode);
    int (*error_string)(int error, const char **text);
} driver;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *failure; /* NULL when the driver is open */
static _Thread_local int saved_mode;

static const char *reason(int error)
{
    const char *text = NULL;
    if (!error) return NULL;
    if (!driver.error_string || driver.error_string(error, &text) || !text) return "the CUDA driver failed";
    return text;
}

static void open_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        failure = "there is no CUDA driver (libcuda.so.1)";
        return;
    }
    const struct {
        const char *name;
        void *function; /* where its address goes */
    } wanted[] = {{"cuInit", &driver.init},
                  {"cuDeviceGet", &driver.device_get},
                  {"cuDevicePrimaryCtxRetain", &driver.primary_retain},
                  {"cuCtxPushCurrent_v2", &driver.push},
                  {"cuCtxPopCurrent_v2", &driver.pop},
                  {"cuMemAlloc_v2", &driver.allocate},
                  {"cuMemsetD32Async", &driver.fill},
                  {"cuStreamIsCapturing", &driver.is_capturing},
                  {"cuThreadExchangeStreamCaptureMode", &driver.exchange_mode},
                  {"cuGetErrorString", &driver.error_string}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        void *symbol = dlsym(library, wanted[i].name);
        if (!symbol) {
            failure = "the CUDA driver is too old";
            return;
        }
        memcpy(wanted[i].function, &symbol, sizeof symbol);
    }
    failure = reason(driver.init(0));
}

/* A device's primary context, retained for the life of the process: the caller's framework uses it too. */
static const char *primary(int device, void **context)
{
    static void *contexts[MAX_DEVICES];
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    if (device < 0 || device >= MAX_DEVICES) return "no such device";
    int error = 0, handle = 0;
    pthread_mutex_lock(&mutex);
    if (!contexts[device]) {
        error = driver.device_get(&handle, device);
        if (!error) error = driver.primary_retain(&contexts[device], handle);
    }
    *context = contexts[device];
    pthread_mutex_unlock(&mutex);
    return reason(error);
}

const char *driver_enter(int device)
{
    void *context = NULL;
    pthread_once(&once, open_driver);
    if (failure) return failure;
    const char *refusal = primary(device, &context);
    if (!refusal) refusal = reason(driver.push(context));
    if (refusal) return refusal;
    saved_mode = CAPTURE_MODE_RELAXED;
    driver.exchange_mode(&saved_mode);
    return NULL;
}

void driver_leave(void)
{
    void *context;
    driver.exchange_mode(&saved_mode);
    driver.pop(&context);
}

void *driver_allocate(size_t bytes)
{
    uint64_t pointer = 0;
    return driver.allocate(&pointer, bytes) ? NULL : (void *)(uintptr_t)pointer;
}

const char *driver_fill(int device, void *memory, uint32_t word, size_t count, void *stream)
{
    const char *refusal = driver_enter(device);
    if (refusal) return refusal;
    int error = driver.fill((uint64_t)(uintptr_t)memory, word, count, stream);
    driver_leave();
    return reason(error);
}

bool driver_capturing(void *stream)
{
    int status = 0;
    pthread_once(&once, open_driver);
    return !failure && !driver.is_capturing(stream, &status) && status == CAPTURE_ACTIVE;
}
