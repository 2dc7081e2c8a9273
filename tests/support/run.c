#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARGIN 64

tombola_context *open_context(tombola_isa isa, int threads)
{
    tombola_options options = {.struct_size = sizeof options, .threads = threads, .isa = isa, .cuda = -1};
    tombola_context *context;
    tombola_error error;
    tombola_result result = tombola_context_create(&options, &context, &error);
    if (result == TOMBOLA_OK) return context;
    if (result == TOMBOLA_ERROR_NO_ISA && !context) return NULL;
    fprintf(stderr, "context with %s and %d threads: %s\n", tombola_isa_name(isa), threads, error.message);
    abort();
}

tombola_isa isa_of_name(const char *name)
{
    for (int isa = TOMBOLA_ISA_PORTABLE; isa <= TOMBOLA_ISA_AVX512; isa++)
        if (!strcmp(name, tombola_isa_name(isa))) return isa;
    return TOMBOLA_ISA_AUTO;
}

tombola_result run_call(const tombola_context *context, tombola_call *call, tombola_error *error)
{
    size_t size;
    tombola_result result = tombola_workspace_size(context, call, &size, error);
    if (result) return result;
    /* an address with malloc's alignment and no more */
    unsigned char *memory = NULL;
    if (posix_memalign((void **)&memory, 64, size + 3 * MARGIN)) abort();
    unsigned char *workspace = memory + MARGIN + 16;
    memset(memory, 0xcd, size + 3 * MARGIN);
    call->workspace = workspace;
    call->workspace_size = size;
    result = tombola_run(context, call, error);
    for (int i = 0; !result && i < MARGIN; i++) {
        if (workspace[-1 - i] == 0xcd && workspace[size + (size_t)i] == 0xcd) continue;
        snprintf(error->message, sizeof error->message, "bytes around the workspace were written");
        result = TOMBOLA_ERROR_WORKSPACE;
    }
    free(memory);
    call->workspace = NULL;
    call->workspace_size = 0;
    return result;
}
