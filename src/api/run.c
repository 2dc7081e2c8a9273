/* Running: validation, the choice of backend and threads, dispatch. */
#include <stdatomic.h>
#include <stdio.h>

#include "../cpu/cpu.h"
#include "../reference/reference.h"
#include "context.h"
#include "error.h"
#include "fpenv.h"
#include "validate.h"

#define ALIGNMENT 64 /* of each thread's part of the workspace: a cache line, and a 512-bit vector */

/* How a call runs on the host. A pure function of the context and the call's shape. */
typedef struct host_plan {
    tombola_backend backend; /* CPU or REFERENCE */
    int threads;
    size_t thread_bytes; /* workspace of one thread */
    size_t saved_bytes;  /* room to advance offsets */
} host_plan;

static size_t round_up(size_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static host_plan plan_host(const tombola_context *context, const tombola_call *call, tombola_backend backend)
{
    host_plan plan = {.backend = backend, .threads = call->threads ? call->threads : context->threads};
    if (plan.threads > context->threads) plan.threads = context->threads;
    if (plan.threads > call->rows) plan.threads = call->rows > 1 ? (int)call->rows : 1;
    plan.thread_bytes = round_up(backend == TOMBOLA_BACKEND_CPU ? tb_cpu_workspace(call)
                                                                : tb_reference_workspace(call->vocab_size));
    plan.saved_bytes = call->advance_offsets ? round_up((size_t)call->rows * sizeof(uint64_t)) : 0;
    return plan;
}

static size_t plan_bytes(const host_plan *plan)
{
    return ALIGNMENT + (size_t)plan->threads * plan->thread_bytes + plan->saved_bytes;
}

/* Validates and picks the backend. */
static tombola_result prepare(const tombola_context *context, const tombola_call *call, tombola_call *full,
                              tombola_backend *backend, tombola_error *error)
{
    if (!context) return tb_fail(error, TOMBOLA_ERROR_INVALID_ARGUMENT, "context", "context is NULL");
    tombola_result result = tb_validate(call, full, error);
    if (result) return result;
    *backend = (tombola_backend)full->backend;
    if (*backend == TOMBOLA_BACKEND_AUTO) {
        bool device = context->cuda && tb_cuda_is_device_memory(context->cuda, full->data);
        *backend = device ? TOMBOLA_BACKEND_CUDA : TOMBOLA_BACKEND_CPU;
    }
    if (*backend == TOMBOLA_BACKEND_CUDA && !context->cuda) {
        if (error) *error = context->cuda_error;
        return TOMBOLA_ERROR_NO_BACKEND;
    }
    return TOMBOLA_OK;
}

tombola_result tombola_workspace_size(const tombola_context *context, const tombola_call *call, size_t *size,
                                      tombola_error *error)
{
    if (!size) return tb_fail(error, TOMBOLA_ERROR_INVALID_ARGUMENT, "size", "size is NULL");
    tombola_call full;
    tombola_backend backend;
    tombola_result result = prepare(context, call, &full, &backend, error);
    if (result) return result;
    if (backend == TOMBOLA_BACKEND_CUDA) return tb_cuda_workspace(context->cuda, &full, size, error);
    host_plan plan = plan_host(context, &full, backend);
    *size = plan_bytes(&plan);
    return TOMBOLA_OK;
}

/* The rows of a call, shared out among threads. */
typedef struct host_job {
    const tombola_call *call;
    const host_plan *plan;
    tombola_isa isa;
    char *workspace;
    atomic_llong next; /* first row that nobody has taken */
    int64_t batch;     /* rows taken at a time */
} host_job;

static void run_rows(void *argument, int worker)
{
    host_job *job = argument;
    const tombola_call *call = job->call;
    void *workspace = job->workspace + (size_t)worker * job->plan->thread_bytes;
    tb_fpenv saved = tb_fpenv_enter();
    for (;;) {
        int64_t first = atomic_fetch_add_explicit(&job->next, job->batch, memory_order_relaxed);
        if (first >= call->rows) break;
        int64_t end = first + job->batch < call->rows ? first + job->batch : call->rows;
        for (int64_t r = first; r < end; r++) {
            if (job->plan->backend == TOMBOLA_BACKEND_CPU)
                tb_cpu_row(job->isa, call, r, workspace);
            else
                tb_reference_row(call, r, workspace);
        }
    }
    tb_fpenv_leave(saved);
}

tombola_result tombola_run(const tombola_context *context, const tombola_call *call, tombola_error *error)
{
    tombola_call full;
    tombola_backend backend;
    tombola_result result = prepare(context, call, &full, &backend, error);
    if (result || full.rows == 0) return result;
    if (backend == TOMBOLA_BACKEND_CUDA) return tb_cuda_run(context->cuda, &full, error);

    host_plan plan = plan_host(context, &full, backend);
    if (!full.workspace)
        return tb_fail(error, TOMBOLA_ERROR_WORKSPACE, "workspace", "workspace is NULL; %zu bytes are needed",
                       plan_bytes(&plan));
    if (full.workspace_size < plan_bytes(&plan))
        return tb_fail(error, TOMBOLA_ERROR_WORKSPACE, "workspace_size",
                       "workspace_size is %zu; %zu bytes are needed", full.workspace_size, plan_bytes(&plan));
    uintptr_t base = ((uintptr_t)full.workspace + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    host_job job = {.call = &full, .plan = &plan, .isa = context->isa, .workspace = (char *)base};
    /* enough batches that no thread waits long for the last one */
    job.batch = full.rows / ((int64_t)plan.threads * 16);
    if (job.batch < 1) job.batch = 1;
    if (plan.threads > 1)
        tb_pool_run(context->pool, plan.threads, run_rows, &job);
    else
        run_rows(&job, 0);
    if (full.advance_offsets)
        tb_advance_offsets(&full, (uint64_t *)(base + (size_t)plan.threads * plan.thread_bytes));
    return tb_succeed(error);
}

tombola_result tombola_plan(const tombola_context *context, const tombola_call *call, char *text,
                            size_t capacity, tombola_error *error)
{
    if (!text || capacity == 0)
        return tb_fail(error, TOMBOLA_ERROR_INVALID_ARGUMENT, "text", "no room for text");
    text[0] = 0;
    tombola_call full;
    tombola_backend backend;
    tombola_result result = prepare(context, call, &full, &backend, error);
    if (result) return result;
    if (backend == TOMBOLA_BACKEND_CUDA) {
        tb_cuda_plan_text(context->cuda, &full, text, capacity);
        return TOMBOLA_OK;
    }
    host_plan plan = plan_host(context, &full, backend);
    if (backend == TOMBOLA_BACKEND_CPU)
        snprintf(text, capacity, "cpu %s, %d thread%s, workspace %zu bytes", tombola_isa_name(context->isa),
                 plan.threads, plan.threads == 1 ? "" : "s", plan_bytes(&plan));
    else
        snprintf(text, capacity, "reference, %d thread%s, workspace %zu bytes", plan.threads,
                 plan.threads == 1 ? "" : "s", plan_bytes(&plan));
    return TOMBOLA_OK;
}
