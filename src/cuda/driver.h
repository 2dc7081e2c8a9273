/*
 * The CUDA driver, opened at run time, so that one library serves machines with and without it. The few
 * types and entry points that are needed are declared here: building the host side takes no CUDA headers.
 * Values and layouts are those of cuda.h (tests/gpu/test_driver_types.c compares them).
 */
#ifndef TB_CUDA_DRIVER_H
#define TB_CUDA_DRIVER_H

#include <tombola.h>

/* The oldest driver, as 1000 * major + 10 * minor of the CUDA version that it supports. 12.4 (driver 550)
 * brought the enumeration of a module's kernels. Machine code from an nvcc of a later major version has a
 * format that only drivers of that version read, so the build passes 13000 (driver 580) with nvcc 13. */
#ifndef TB_CUDA_MINIMUM_VERSION
#define TB_CUDA_MINIMUM_VERSION 12040
#endif

typedef int tb_cu_result; /* CUresult */
typedef int tb_cu_device; /* CUdevice */
typedef struct CUctx_st *tb_cu_context;
typedef struct CUmod_st *tb_cu_module;
typedef struct CUfunc_st *tb_cu_function;
typedef struct CUstream_st *tb_cu_stream;
typedef unsigned long long tb_cu_pointer; /* CUdeviceptr */

enum { /* CUresult */
       TB_CU_INVALID_VALUE = 1,
       TB_CU_OUT_OF_MEMORY = 2,
       TB_CU_STUB_LIBRARY = 34,
       TB_CU_NO_DEVICE = 100,
       TB_CU_INVALID_CONTEXT = 201,
       TB_CU_NO_BINARY_FOR_GPU = 209,
       TB_CU_UNSUPPORTED_PTX_VERSION = 222,
       TB_CU_INVALID_HANDLE = 400,
       TB_CU_ILLEGAL_ADDRESS = 700,
       TB_CU_LAUNCH_OUT_OF_RESOURCES = 701,
       TB_CU_CONTEXT_IS_DESTROYED = 709,
       TB_CU_LAUNCH_FAILED = 719,
       TB_CU_INVALID_CLUSTER_SIZE = 912
};

enum { /* CUdevice_attribute */
       TB_CU_DEVICE_MULTIPROCESSORS = 16,
       TB_CU_DEVICE_L2_BYTES = 38,
       TB_CU_DEVICE_MAJOR = 75,
       TB_CU_DEVICE_MINOR = 76,
       TB_CU_DEVICE_DOUBLE_RATIO = 87, /* how many times as fast floats are */
       TB_CU_DEVICE_PAGEABLE_ACCESS = 88,
       TB_CU_DEVICE_SHARED_OPTIN = 97
};

enum { /* CUfunction_attribute */
       TB_CU_FUNCTION_STATIC_SHARED = 1,
       TB_CU_FUNCTION_PTX_VERSION = 5, /* of the target that its PTX was made for: 80, 90 */
       TB_CU_FUNCTION_MAX_DYNAMIC_SHARED = 8,
       TB_CU_FUNCTION_WIDE_CLUSTERS = 14
};

enum { /* CUpointer_attribute, CUmemorytype */
       TB_CU_POINTER_MEMORY_TYPE = 2,
       TB_CU_POINTER_DEVICE_POINTER = 3,
       TB_CU_MEMORY_DEVICE = 2
};

enum { /* CUstreamCaptureStatus */
       TB_CU_CAPTURE_ACTIVE = 1
};

enum { /* CUlaunchAttributeID */
       TB_CU_LAUNCH_CLUSTER = 4,
       TB_CU_LAUNCH_DEPENDENT = 6
};

typedef struct tb_cu_attribute { /* CUlaunchAttribute */
    int id;
    int padding;
    union {
        char bytes[64];
        unsigned cluster[3];
        int flag;
    } value;
} tb_cu_attribute;

typedef struct tb_cu_launch { /* CUlaunchConfig */
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
    tb_cu_stream stream;
    tb_cu_attribute *attributes;
    unsigned attribute_count;
} tb_cu_launch;

/* X(name, parameters): each entry point that the library calls. All return tb_cu_result. */
#define TB_DRIVER_FUNCTIONS(X)                                                                               \
    X(cuInit, (unsigned flags))                                                                              \
    X(cuDriverGetVersion, (int *version))                                                                    \
    X(cuGetErrorName, (tb_cu_result result, const char **text))                                              \
    X(cuGetErrorString, (tb_cu_result result, const char **text))                                            \
    X(cuDeviceGet, (tb_cu_device * device, int ordinal))                                                     \
    X(cuDeviceGetName, (char *name, int capacity, tb_cu_device device))                                      \
    X(cuDeviceGetAttribute, (int *value, int attribute, tb_cu_device device))                                \
    X(cuDevicePrimaryCtxRetain, (tb_cu_context * context, tb_cu_device device))                              \
    X(cuDevicePrimaryCtxRelease, (tb_cu_device device))                                                      \
    X(cuCtxGetCurrent, (tb_cu_context * context))                                                            \
    X(cuCtxGetDevice, (tb_cu_device * device))                                                               \
    X(cuCtxPushCurrent, (tb_cu_context context))                                                             \
    X(cuCtxPopCurrent, (tb_cu_context * context))                                                            \
    X(cuModuleLoadData, (tb_cu_module * module, const void *image))                                          \
    X(cuModuleUnload, (tb_cu_module module))                                                                 \
    X(cuModuleGetFunctionCount, (unsigned *count, tb_cu_module module))                                      \
    X(cuModuleEnumerateFunctions, (tb_cu_function * functions, unsigned count, tb_cu_module module))         \
    X(cuFuncGetName, (const char **name, tb_cu_function function))                                           \
    X(cuFuncLoad, (tb_cu_function function))                                                                 \
    X(cuFuncGetAttribute, (int *value, int attribute, tb_cu_function function))                              \
    X(cuFuncSetAttribute, (tb_cu_function function, int attribute, int value))                               \
    X(cuLaunchKernelEx,                                                                                      \
      (const tb_cu_launch *launch, tb_cu_function function, void **parameters, void **more))                 \
    X(cuPointerGetAttribute, (void *value, int attribute, tb_cu_pointer pointer))                            \
    X(cuStreamIsCapturing, (tb_cu_stream stream, int *status))

typedef struct tb_driver {
    int version; /* of CUDA that the driver supports */
#define TB_DRIVER_MEMBER(name, parameters) tb_cu_result(*name) parameters;
    TB_DRIVER_FUNCTIONS(TB_DRIVER_MEMBER)
#undef TB_DRIVER_MEMBER
} tb_driver;

/* Opens and initialises the driver, once per process. NULL where there is none, no device, or where the
 * driver is too old; *error then says what to do. */
const tb_driver *tb_driver_open(tombola_error *error);

/* Any other entry point, as of CUDA 12.4; NULL when the driver lacks it. For tests and benchmarks. */
void *tb_driver_symbol(const char *name);

/* Sets *error to DRIVER with "WHAT failed: NAME (DESCRIPTION); ADVICE". */
tombola_result tb_driver_fail(const tb_driver *driver, tb_cu_result result, const char *what,
                              tombola_error *error);

#endif
