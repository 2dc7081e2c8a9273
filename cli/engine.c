#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "fail.h"

void engine_open(engine *e, const options *o)
{
    *e = (engine){.on_device = o->backend == TOMBOLA_BACKEND_CUDA};
    /* Before the context, which then belongs to the same CUDA context as the memory. The library's own
     * reason comes first, since it knows more. */
    const char *no_device = e->on_device ? device_open() : NULL;
    tombola_options settings = {.struct_size = sizeof settings,
                                .threads = o->threads,
                                .isa = o->isa,
                                /* rows of a file are in host memory, where auto means the cpu backend: then
                                 * the driver's start would only cost time */
                                .cuda = e->on_device ? 1 : -1};
    tombola_error error;
    if (tombola_context_create(&settings, &e->context, &error)) fail("%s", error.message);
    if (no_device) fail("--backend cuda: %s", no_device);
}

void engine_close(engine *e)
{
    engine_free(e, e->workspace);
    tombola_context_destroy(e->context);
    *e = (engine){0};
}

void *engine_allocate(engine *e, size_t count, size_t size)
{
    if (!e->on_device) return allocate(count, size);
    void *memory = device_allocate(count * size);
    if (!memory) fail("out of device memory: %zu elements of %zu bytes", count, size);
    memset(memory, 0, count * size);
    return memory;
}

void engine_free(engine *e, void *memory)
{
    if (e->on_device)
        device_free(memory);
    else
        free(memory);
}

tombola_call engine_call(const options *o)
{
    tombola_call call = TOMBOLA_CALL_INIT;
    call.kind = o->kind;
    call.steps = o->steps;
    call.step_count = o->step_count;
    call.ties = o->ties;
    call.method = o->method;
    call.draws = o->draws;
    call.seed = o->seed;
    call.offset = o->offset;
    call.backend = o->backend;
    return call;
}

double engine_run(engine *e, tombola_call *call)
{
    tombola_error error;
    size_t size = 0;
    if (tombola_workspace_size(e->context, call, &size, &error)) fail("%s", error.message);
    if (size > e->workspace_size) {
        engine_free(e, e->workspace);
        e->workspace = engine_allocate(e, size, 1);
        e->workspace_size = size;
    }
    call->workspace = e->workspace;
    call->workspace_size = e->workspace_size;
    double start = workload_now();
    if (tombola_run(e->context, call, &error)) fail("%s", error.message);
    if (e->on_device) {
        const char *reason = device_wait();
        if (reason) fail("the device failed: %s", reason);
    }
    return workload_now() - start;
}
