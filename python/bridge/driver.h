/*
 * The few functions of the CUDA driver that the bridge needs itself: to make a device's primary context
 * current while the library loads its kernels, to allocate workspaces, and to see whether a stream is being
 * captured.
 */
#ifndef BRIDGE_DRIVER_H
#define BRIDGE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens the driver and makes the device's primary context current on this thread, with stream captures of
 * other threads undisturbed by what follows, until driver_leave. NULL on success, else the reason. */
const char *driver_enter(int device);
void driver_leave(void);

/* Device memory, between driver_enter and driver_leave; NULL when there is none left. */
void *driver_allocate(size_t bytes);

/* Fills `count` 32-bit words of device memory, in the stream's order. NULL on success, else the reason. */
const char *driver_fill(int device, void *memory, uint32_t word, size_t count, void *stream);

/* True while the stream is being captured in a graph. */
bool driver_capturing(void *stream);

#endif
