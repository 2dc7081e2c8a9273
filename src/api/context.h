#ifndef TB_API_CONTEXT_H
#define TB_API_CONTEXT_H

#include <tombola.h>

#include "../cuda/cuda.h"
#include "pool.h"

struct tombola_context {
    tombola_isa isa;
    int threads;
    tb_pool *pool;            /* NULL with one thread */
    tb_cuda *cuda;            /* NULL when it cannot run */
    tombola_error cuda_error; /* why */
};

#endif
