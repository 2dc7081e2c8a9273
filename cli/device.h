/*
 * Memory that the cuda backend can address, from the CUDA driver (opened at run time). The library leaves
 * memory to its callers; this is the command line's.
 */
#ifndef CLI_DEVICE_H
#define CLI_DEVICE_H

#include <stddef.h>

/* Makes device 0's primary context the current one. NULL on success, else the reason. */
const char *device_open(void);

/* Managed memory, which host and device address alike; NULL when there is none left. */
void *device_allocate(size_t bytes);
void device_free(void *memory);

/* Waits for everything that was launched. NULL on success, else the driver's word for the failure. */
const char *device_wait(void);

#endif
