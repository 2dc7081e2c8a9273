/*
 * What outlives a call: a context of the library per device, and workspaces.
 */
#ifndef BRIDGE_CONTEXTS_H
#define BRIDGE_CONTEXTS_H

#include <dlpack/dlpack.h>
#include <tombola.h>

/* The device's context, made on first use. NULL with an error raised where there is none to be had. */
const tombola_context *bridge_context(DLDevice device);

/* This thread's host memory for calls, of at least so many bytes; NULL when there is none left. */
void *bridge_host_workspace(size_t bytes);

/* A stream's workspace on a device. It is locked: no other thread may launch with it between this call's
 * kernels. It is never part of a graph, whose replays could run beside later calls. */
typedef struct bridge_lane bridge_lane;

/* Finds the stream's lane with at least so many bytes and locks it; NULL with an error raised. */
bridge_lane *bridge_lane_lock(int device, void *stream, size_t bytes);
void *bridge_lane_memory(const bridge_lane *lane);
void bridge_lane_unlock(bridge_lane *lane);

#endif
