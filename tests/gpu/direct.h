/* A pool's rows and parameters on the device, for tests that make their calls themselves. */
#ifndef TEST_GPU_DIRECT_H
#define TEST_GPU_DIRECT_H

#include "pool.h"

typedef struct direct {
    tombola_call call; /* device pointers; no outputs */
    tombola_step steps[4];
    void *memory[40];
    int count;
} direct;

void direct_make(direct *d, const pool *p);
void direct_free(direct *d);

/* Device memory that direct_free frees, filled with 0xa5. */
void *direct_memory(direct *d, size_t bytes);

/* Sizes and binds a workspace. Returns false, the suite having counted a skip or failure, where the call is
 * refused. */
bool direct_workspace(suite *s, direct *d, const tombola_context *context, tombola_call *call);

/* The reference's tokens of the pool with all offsets raised by `raise`: [rows, draws]. */
void pool_tokens(const pool *p, uint64_t raise, int32_t *tokens);

#endif
