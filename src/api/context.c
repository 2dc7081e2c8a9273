/* Contexts: what is decided once. */
#include "context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __linux__
#include <sched.h>
#endif

#include "../cpu/cpu.h"
#include "error.h"

#define MAX_THREADS 1024

/* Processors that this process may use. */
static int processors(void)
{
#ifdef __linux__
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set)) return CPU_COUNT(&set);
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)n;
}

/* The instruction set that the options and the environment ask for. */
static tombola_result choose_isa(int32_t wanted, tombola_isa *isa, tombola_error *error)
{
    const char *source = "options.isa", *name = getenv("TOMBOLA_ISA");
    if (wanted < TOMBOLA_ISA_AUTO || wanted > TOMBOLA_ISA_AVX512)
        return tb_fail(error, TOMBOLA_ERROR_INVALID_ARGUMENT, "isa", "isa is %d, which is none", wanted);
    if (wanted == TOMBOLA_ISA_AUTO && name && name[0]) {
        source = "the environment variable TOMBOLA_ISA";
        for (int i = TOMBOLA_ISA_PORTABLE; i <= TOMBOLA_ISA_AVX512; i++)
            if (!strcmp(name, tombola_isa_name((tombola_isa)i))) wanted = i;
        if (wanted == TOMBOLA_ISA_AUTO && strcmp(name, "auto"))
            return tb_fail(error, TOMBOLA_ERROR_INVALID_ARGUMENT, "TOMBOLA_ISA",
                           "TOMBOLA_ISA is '%s'; it must be portable, avx2, avx512 or auto", name);
    }
    if (wanted == TOMBOLA_ISA_AUTO) wanted = tb_cpu_best_isa();
    if (!tb_cpu_has_isa((tombola_isa)wanted))
        return tb_fail(error, TOMBOLA_ERROR_NO_ISA, "isa", "%s forces %s, which this machine or build lacks",
                       source, tombola_isa_name((tombola_isa)wanted));
    *isa = (tombola_isa)wanted;
    return TOMBOLA_OK;
}

tombola_result tombola_context_create(const tombola_options *options, tombola_context **context,
                                      tombola_error *error)
{
    if (!context) return tb_fail(error, TOMBOLA_ERROR_INVALID_ARGUMENT, "context", "context is NULL");
    *context = NULL;
    tombola_options defaults = {.struct_size = sizeof defaults};
    if (!options) options = &defaults;
    if (options->struct_size != sizeof *options)
        return tb_fail(error, TOMBOLA_ERROR_STRUCT_SIZE, "struct_size",
                       "options->struct_size is %zu and this library's tombola_options has %zu bytes",
                       options->struct_size, sizeof *options);
    if (options->threads < 0 || options->threads > MAX_THREADS)
        return tb_fail(error, TOMBOLA_ERROR_INVALID_ARGUMENT, "threads", "threads is %d; it must be 0 to %d",
                       options->threads, MAX_THREADS);
    if (options->cuda < -1 || options->cuda > 1)
        return tb_fail(error, TOMBOLA_ERROR_INVALID_ARGUMENT, "cuda", "cuda is %d; it must be -1, 0 or 1",
                       options->cuda);
    tombola_isa isa = TOMBOLA_ISA_AUTO;
    tombola_result result = choose_isa(options->isa, &isa, error);
    if (result) return result;

    tombola_context *made = calloc(1, sizeof *made);
    if (!made) return tb_fail(error, TOMBOLA_ERROR_OUT_OF_MEMORY, "", "no memory for a context");
    made->isa = isa;
    made->threads = options->threads ? options->threads : processors();
    if (made->threads > MAX_THREADS) made->threads = MAX_THREADS;
    if (made->threads > 1) {
        made->pool = tb_pool_create(made->threads);
        if (!made->pool) {
            free(made);
            return tb_fail(error, TOMBOLA_ERROR_OUT_OF_MEMORY, "threads", "the threads cannot be started");
        }
    }
    if (options->cuda >= 0) {
        made->cuda = tb_cuda_create(&made->cuda_error);
        if (!made->cuda && options->cuda == 1) {
            if (error) *error = made->cuda_error;
            result = made->cuda_error.result;
            tombola_context_destroy(made);
            return result;
        }
    } else {
        tb_fail(&made->cuda_error, TOMBOLA_ERROR_NO_BACKEND, "cuda", "the context was made without CUDA");
    }
    *context = made;
    return tb_succeed(error);
}

void tombola_context_destroy(tombola_context *context)
{
    if (!context) return;
    tb_cuda_destroy(context->cuda);
    tb_pool_destroy(context->pool);
    free(context);
}

tombola_result tombola_context_info(const tombola_context *context, tombola_info *info)
{
    if (!context || !info) return TOMBOLA_ERROR_INVALID_ARGUMENT;
    if (info->struct_size != sizeof *info) return TOMBOLA_ERROR_STRUCT_SIZE;
    memset(info, 0, sizeof *info);
    info->struct_size = sizeof *info;
    info->isa = context->isa;
    info->isa_best = tb_cpu_best_isa();
    info->threads = context->threads;
    info->cuda_available = context->cuda != NULL;
    if (context->cuda)
        snprintf(info->cuda_device, sizeof info->cuda_device, "%s", tb_cuda_device_name(context->cuda));
    else
        snprintf(info->cuda_reason, sizeof info->cuda_reason, "%.159s", context->cuda_error.message);
    return TOMBOLA_OK;
}
