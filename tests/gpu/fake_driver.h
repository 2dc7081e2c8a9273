/*
 * A stand-in for libcuda.so.1 that records what is asked of it, so that the backend's host side is tested
 * without a GPU. It is linked into the test under the driver's name, and dlopen finds it loaded.
 */
#ifndef TEST_FAKE_DRIVER_H
#define TEST_FAKE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/driver.h"
#include "cuda/params.h"

#define FAKE_MAX_LAUNCHES 16

typedef struct fake_launch {
    const char *kernel;
    unsigned grid, block, cluster, shared_bytes;
    bool dependent;
    tb_cu_stream stream;
    tb_cuda_params params;
} fake_launch;

typedef struct fake_driver {
    /* what the driver answers */
    int version, init_result, load_result, launch_result, retain_result;
    int fail_launch; /* the launch that gets launch_result */
    int major, minor, shared_optin, pageable;
    int ptx_version;          /* of all kernels */
    const void *no_code;      /* an image without code for the device */
    bool without_enumeration; /* an entry point is missing */
    tb_cu_context current;    /* at the start */
    const void *device_start; /* memory that counts as the device's */
    size_t device_bytes;
    const void *pinned_start; /* and as page-locked */
    size_t pinned_bytes;
    bool capturing; /* every stream */

    /* what was asked of it */
    int depth; /* pushed contexts */
    int retained, modules, loaded_functions;
    int max_dynamic, wide_clusters; /* the last values set */
    int launches;
    fake_launch launch[FAKE_MAX_LAUNCHES];
} fake_driver;

extern fake_driver fake;

/* The usual answers: CUDA 13.0, one device of capability 9.0, no context current. */
void fake_reset(void);

#endif
