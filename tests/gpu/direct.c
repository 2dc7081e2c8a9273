#include "direct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *keep(direct *d, void *memory)
{
    if (d->count == (int)(sizeof d->memory / sizeof *d->memory)) abort();
    return d->memory[d->count++] = memory;
}

void direct_make(direct *d, const pool *p)
{
    size_t rows = (size_t)p->call.rows;
    memset(d, 0, sizeof *d);
    d->call = p->call;
    d->call.backend = TOMBOLA_BACKEND_CUDA;
    d->call.data = keep(d, device_copy(p->rows.data, p->rows.element * rows * (size_t)p->call.vocab_size));
    d->call.seeds = keep(d, device_copy(p->seeds, rows * 8));
    d->call.offsets = keep(d, device_copy(p->offsets, rows * 8));
    for (int k = 0; k < p->call.step_count; k++) {
        d->steps[k] = p->steps[k];
        d->steps[k].k_per_slot = keep(d, device_copy(p->k[k], rows * 4));
        d->steps[k].value_per_slot = keep(d, device_copy(p->value[k], rows * 4));
    }
    d->call.steps = d->steps;
}

void direct_free(direct *d)
{
    CU(cu.cuCtxSynchronize());
    for (int i = 0; i < d->count; i++) device_free(device_address(d->memory[i]));
    d->count = 0;
}

void *direct_memory(direct *d, size_t bytes)
{
    tb_cu_pointer memory = device_alloc(bytes);
    CU(cu.cuMemsetD8Async(memory, 0xa5, bytes, NULL));
    CU(cu.cuStreamSynchronize(NULL));
    return keep(d, device_pointer(memory));
}

bool direct_workspace(suite *s, direct *d, const tombola_context *context, tombola_call *call)
{
    tombola_error error = {0};
    tombola_result result = tombola_workspace_size(context, call, &call->workspace_size, &error);
    if (result == TOMBOLA_ERROR_UNSUPPORTED)
        suite_unserved(s, error.message);
    else if (result)
        suite_check(s, false, "workspace: %s", error.message);
    if (result) return false;
    call->workspace = direct_memory(d, call->workspace_size);
    return true;
}

void pool_tokens(const pool *p, uint64_t raise, int32_t *tokens)
{
    tombola_call call = p->call;
    uint64_t *offsets = malloc((size_t)call.rows * 8);
    if (!offsets) abort();
    for (int64_t i = 0; i < call.rows; i++) offsets[i] = p->offsets[i] + raise;
    call.offsets = offsets;
    call.tokens = tokens;
    call.backend = TOMBOLA_BACKEND_CPU;
    tombola_error error = {0};
    if (run_call(variants[0].context, &call, &error)) {
        fprintf(stderr, "%s: the cpu backend: %s\n", p->text, error.message);
        exit(70);
    }
    free(offsets);
}
