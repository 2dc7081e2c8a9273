#include "contexts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "driver.h"
#include "raise.h"

#define MAX_DEVICES 64
#define PER_THREAD_STREAM ((void *)2) /* CU_STREAM_PER_THREAD: one handle, and a stream in each thread */
#define LEAST_WORKSPACE (64 << 10)    /* bytes: serves thousands of rows, so that growing is rare */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(tombola_context *) host_context;
static _Atomic(tombola_context *) device_contexts[MAX_DEVICES];

/* ---- contexts ---- */

/* A forked child has none of its parent's worker threads: it makes a context of its own when it needs one. */
static void forget_host_context(void)
{
    atomic_store(&host_context, NULL);
    mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_host_context);
}

static tombola_result create(DLDevice device, tombola_context **context, tombola_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    tombola_options options = {.struct_size = sizeof options};
    if (device.device_type == kDLCPU) {
        pthread_once(&once, watch_forks);
        options.cuda = -1;
        return tombola_context_create(&options, context, error);
    }
    options.cuda = 1;
    options.threads = 1;
    return tombola_context_create(&options, context, error);
}

const tombola_context *bridge_context(DLDevice device)
{
    bool host = device.device_type == kDLCPU;
    if (!host && (device.device_id < 0 || device.device_id >= MAX_DEVICES)) {
        bridge_raise("ValueError", "logits", "device %d is not one of the first %d", (int)device.device_id,
                     MAX_DEVICES);
        return NULL;
    }
    _Atomic(tombola_context *) *place = host ? &host_context : &device_contexts[device.device_id];
    tombola_context *context = atomic_load_explicit(place, memory_order_acquire);
    if (context) return context;

    tombola_error error = {0};
    const char *refusal = NULL;
    pthread_mutex_lock(&mutex);
    context = atomic_load(place);
    if (!context) {
        if (!host) refusal = driver_enter(device.device_id);
        if (!refusal && !create(device, &context, &error)) atomic_store(place, context);
        if (!host && !refusal) driver_leave();
    }
    pthread_mutex_unlock(&mutex);
    if (refusal)
        bridge_raise("RuntimeError", "", "the CUDA device %d cannot be used: %s", (int)device.device_id,
                     refusal);
    else if (!context)
        bridge_raise_library(&error);
    return context;
}

/* ---- workspaces ---- */

static pthread_key_t host_key;

static void make_host_key(void)
{
    pthread_key_create(&host_key, free);
}

void *bridge_host_workspace(size_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static _Thread_local size_t size;
    pthread_once(&once, make_host_key);
    void *memory = pthread_getspecific(host_key);
    if (memory && size >= bytes) return memory;
    free(memory);
    memory = malloc(bytes);
    size = memory ? bytes : 0;
    pthread_setspecific(host_key, memory);
    return memory;
}

struct bridge_lane {
    int device;
    void *stream;
    pthread_t thread; /* of the per-thread stream */
    pthread_mutex_t mutex;
    void *memory;
    size_t bytes;
    bridge_lane *next;
};

static _Atomic(bridge_lane *) lanes; /* they live as long as the process */

static bridge_lane *find_lane(int device, void *stream)
{
    for (bridge_lane *lane = atomic_load_explicit(&lanes, memory_order_acquire); lane; lane = lane->next)
        if (lane->stream == stream && lane->device == device &&
            (stream != PER_THREAD_STREAM || pthread_equal(lane->thread, pthread_self())))
            return lane;
    return NULL;
}

static bridge_lane *add_lane(int device, void *stream)
{
    pthread_mutex_lock(&mutex);
    bridge_lane *lane = find_lane(device, stream);
    if (!lane && (lane = calloc(1, sizeof *lane))) {
        lane->device = device, lane->stream = stream, lane->thread = pthread_self();
        pthread_mutex_init(&lane->mutex, NULL);
        lane->next = atomic_load(&lanes);
        atomic_store_explicit(&lanes, lane, memory_order_release);
    }
    pthread_mutex_unlock(&mutex);
    return lane;
}

bridge_lane *bridge_lane_lock(int device, void *stream, size_t bytes)
{
    bridge_lane *lane = find_lane(device, stream);
    if (!lane) lane = add_lane(device, stream);
    if (!lane) {
        bridge_raise("MemoryError", "", "no memory for a stream's workspace");
        return NULL;
    }
    pthread_mutex_lock(&lane->mutex);
    if (lane->bytes >= bytes) return lane;
    /* The old memory stays, since kernels that use it may be waiting on the stream; sizes double, so all that
     * stays is smaller than the new one. */
    size_t size = LEAST_WORKSPACE;
    while (size < bytes) size *= 2;
    const char *refusal = driver_enter(device);
    void *memory = NULL;
    if (!refusal) {
        memory = driver_allocate(size);
        driver_leave();
    }
    if (memory) {
        lane->memory = memory, lane->bytes = size;
        return lane;
    }
    pthread_mutex_unlock(&lane->mutex);
    bridge_raise("MemoryError", "", "no device memory for a workspace of %zu bytes%s%s", size,
                 refusal ? ": " : "", refusal ? refusal : "");
    return NULL;
}

void *bridge_lane_memory(const bridge_lane *lane)
{
    return lane->memory;
}

void bridge_lane_unlock(bridge_lane *lane)
{
    pthread_mutex_unlock(&lane->mutex);
}
