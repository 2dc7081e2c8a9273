#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

tombola_result tb_fail(tombola_error *error, tombola_result result, const char *argument, const char *format,
                       ...)
{
    if (!error) return result;
    error->result = result;
    snprintf(error->argument, sizeof error->argument, "%s", argument);
    va_list values;
    va_start(values, format);
    vsnprintf(error->message, sizeof error->message, format, values);
    va_end(values);
    return result;
}

tombola_result tb_succeed(tombola_error *error)
{
    if (error) memset(error, 0, sizeof *error);
    return TOMBOLA_OK;
}

const char *tombola_result_string(tombola_result result)
{
    switch (result) {
    case TOMBOLA_OK: return "ok";
    case TOMBOLA_ERROR_INVALID_ARGUMENT: return "invalid argument";
    case TOMBOLA_ERROR_STRUCT_SIZE: return "struct_size does not match the library";
    case TOMBOLA_ERROR_REFUSED: return "refused combination";
    case TOMBOLA_ERROR_UNSUPPORTED: return "not supported";
    case TOMBOLA_ERROR_WORKSPACE: return "unusable workspace";
    case TOMBOLA_ERROR_OUT_OF_MEMORY: return "out of memory";
    case TOMBOLA_ERROR_NO_BACKEND: return "backend not available";
    case TOMBOLA_ERROR_NO_ISA: return "instruction set not available";
    case TOMBOLA_ERROR_DRIVER: return "CUDA driver error";
    }
    return "unknown result";
}

const char *tombola_isa_name(tombola_isa isa)
{
    switch (isa) {
    case TOMBOLA_ISA_AUTO: return "auto";
    case TOMBOLA_ISA_PORTABLE: return "portable";
    case TOMBOLA_ISA_AVX2: return "avx2";
    case TOMBOLA_ISA_AVX512: return "avx512";
    }
    return "unknown";
}

int tombola_version(void)
{
    return TOMBOLA_VERSION_MAJOR * 10000 + TOMBOLA_VERSION_MINOR * 100 + TOMBOLA_VERSION_PATCH;
}
