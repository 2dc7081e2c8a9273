/*
 * Device memory, streams and graphs for the GPU tests, through the library's own driver loader: the tests
 * build without a CUDA toolkit. A failure of the driver ends the program with a message.
 */
#ifndef TEST_GPU_DEVICE_H
#define TEST_GPU_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/driver.h"

typedef struct CUgraph_st *tb_cu_graph;
typedef struct CUgraphExec_st *tb_cu_graph_exec;
typedef struct CUevent_st *tb_cu_event;

typedef struct tb_cu_copy_2d { /* CUDA_MEMCPY2D */
    size_t from_x, from_y;
    unsigned from_type;
    const void *from_host;
    tb_cu_pointer from_device;
    void *from_array;
    size_t from_pitch;
    size_t to_x, to_y;
    unsigned to_type;
    void *to_host;
    tb_cu_pointer to_device;
    void *to_array;
    size_t to_pitch;
    size_t width, height;
} tb_cu_copy_2d;

#define DEVICE_FUNCTIONS(X)                                                                                  \
    X(cuCtxSetCurrent, (tb_cu_context context))                                                              \
    X(cuCtxCreate,                                                                                           \
      (tb_cu_context * context, void *affinity, int count, unsigned flags, tb_cu_device device))             \
    X(cuCtxDestroy, (tb_cu_context context))                                                                 \
    X(cuCtxSynchronize, (void))                                                                              \
    X(cuMemAlloc, (tb_cu_pointer * memory, size_t bytes))                                                    \
    X(cuMemFree, (tb_cu_pointer memory))                                                                     \
    X(cuMemAllocAsync, (tb_cu_pointer * memory, size_t bytes, tb_cu_stream stream))                          \
    X(cuMemFreeAsync, (tb_cu_pointer memory, tb_cu_stream stream))                                           \
    X(cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                                         \
    X(cuMemFreeHost, (void *memory))                                                                         \
    X(cuMemGetInfo, (size_t * free, size_t * total))                                                         \
    X(cuMemcpyHtoDAsync, (tb_cu_pointer to, const void *from, size_t bytes, tb_cu_stream stream))            \
    X(cuMemcpyDtoHAsync, (void *to, tb_cu_pointer from, size_t bytes, tb_cu_stream stream))                  \
    X(cuMemcpyDtoDAsync, (tb_cu_pointer to, tb_cu_pointer from, size_t bytes, tb_cu_stream stream))          \
    X(cuMemcpy2DAsync, (const tb_cu_copy_2d *copy, tb_cu_stream stream))                                     \
    X(cuMemsetD8Async, (tb_cu_pointer to, unsigned char value, size_t count, tb_cu_stream stream))           \
    X(cuMemsetD16Async, (tb_cu_pointer to, unsigned short value, size_t count, tb_cu_stream stream))         \
    X(cuMemsetD32Async, (tb_cu_pointer to, unsigned value, size_t count, tb_cu_stream stream))               \
    X(cuStreamCreate, (tb_cu_stream * stream, unsigned flags))                                               \
    X(cuStreamDestroy, (tb_cu_stream stream))                                                                \
    X(cuStreamSynchronize, (tb_cu_stream stream))                                                            \
    X(cuStreamBeginCapture, (tb_cu_stream stream, int mode))                                                 \
    X(cuStreamEndCapture, (tb_cu_stream stream, tb_cu_graph * graph))                                        \
    X(cuGraphInstantiateWithFlags, (tb_cu_graph_exec * exec, tb_cu_graph graph, unsigned long long flags))   \
    X(cuGraphLaunch, (tb_cu_graph_exec exec, tb_cu_stream stream))                                           \
    X(cuGraphExecDestroy, (tb_cu_graph_exec exec))                                                           \
    X(cuGraphDestroy, (tb_cu_graph graph))

typedef struct device_functions {
#define DEVICE_MEMBER(name, parameters) tb_cu_result(*name) parameters;
    DEVICE_FUNCTIONS(DEVICE_MEMBER)
#undef DEVICE_MEMBER
} device_functions;

extern const tb_driver *driver;
extern device_functions cu;
extern tb_cu_context device_context; /* device 0's primary context */
extern char device_name[64];

/* Opens the driver and makes device 0's primary context current. False, with a reason, where there is none.
 */
bool device_open(char *reason, size_t capacity);

/* Ends the program when a driver call failed. */
#define CU(call) device_check((call), #call, __FILE__, __LINE__)
void device_check(tb_cu_result result, const char *what, const char *file, int line);

static inline void *device_pointer(tb_cu_pointer p)
{
    return (void *)(size_t)p;
}

static inline tb_cu_pointer device_address(const void *p)
{
    return (tb_cu_pointer)(size_t)p;
}

tb_cu_pointer device_alloc(size_t bytes);
void device_free(tb_cu_pointer memory);

/* A copy of host memory on the device, made by the time that the call returns. */
void *device_copy(const void *host, size_t bytes);

/* Device memory to the host; waits for the stream. */
void device_read(void *to, const void *from, size_t bytes, tb_cu_stream stream);

tb_cu_stream device_stream(void);

#endif
