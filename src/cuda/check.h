/* What is checked before kernels see a call: that the device can address every pointer, and alignment. */
#ifndef TB_CUDA_CHECK_H
#define TB_CUDA_CHECK_H

#include "driver.h"

#include <stdbool.h>

/* True when the pointer is memory of a device. */
bool tb_cuda_pointer_is_device(const tb_driver *driver, const void *pointer);

/* Checks every pointer of a validated call, the workspace apart. The tombola context's CUDA context must be
 * current. `pageable`: the device can address all host memory. */
tombola_result tb_cuda_check_pointers(const tb_driver *driver, bool pageable, const tombola_call *call,
                                      tombola_error *error);

/* Checks that the workspace is device memory, aligned, and has `bytes` bytes. */
tombola_result tb_cuda_check_workspace(const tb_driver *driver, const tombola_call *call, size_t bytes,
                                       tombola_error *error);

#endif
