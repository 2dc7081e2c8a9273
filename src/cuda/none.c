/* What stands in for the CUDA backend in a build without nvcc. */
#include "cuda.h"

#include "../api/error.h"

#define REASON "this build has no CUDA kernels: build tombola where nvcc is installed"

tb_cuda *tb_cuda_create(tombola_error *error)
{
    tb_fail(error, TOMBOLA_ERROR_NO_BACKEND, "cuda", REASON);
    return 0;
}

void tb_cuda_destroy(tb_cuda *cuda)
{
    (void)cuda;
}

bool tb_cuda_is_device_memory(const tb_cuda *cuda, const void *pointer)
{
    (void)cuda, (void)pointer;
    return false;
}

const char *tb_cuda_device_name(const tb_cuda *cuda)
{
    (void)cuda;
    return "";
}

tombola_result tb_cuda_workspace(const tb_cuda *cuda, const tombola_call *call, size_t *size,
                                 tombola_error *error)
{
    (void)cuda, (void)call, (void)size;
    return tb_fail(error, TOMBOLA_ERROR_NO_BACKEND, "backend", REASON);
}

tombola_result tb_cuda_run(const tb_cuda *cuda, const tombola_call *call, tombola_error *error)
{
    (void)cuda, (void)call;
    return tb_fail(error, TOMBOLA_ERROR_NO_BACKEND, "backend", REASON);
}

void tb_cuda_plan_text(const tb_cuda *cuda, const tombola_call *call, char *text, size_t capacity)
{
    (void)cuda, (void)call;
    if (capacity) text[0] = 0;
}
