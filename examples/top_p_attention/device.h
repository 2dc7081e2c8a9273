/*
 * Memory that the host and a CUDA device share, from the driver's own library where there is one, so that the
 * example builds and runs without CUDA.
 */
#ifndef EXAMPLE_DEVICE_H
#define EXAMPLE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

/* False where there is no driver or no device. To be called before tombola_context_create. */
bool device_open(void);

/* NULL when there is not so much. It lives until the program ends. */
void *device_allocate(size_t bytes);

/* Waits for the device; false when it failed. */
bool device_wait(void);

#endif
