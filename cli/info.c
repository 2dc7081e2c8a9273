/* `tombola info`: what this build and this machine have, and how a call would run. */
#include <inttypes.h>
#include <stdio.h>

#include "commands.h"
#include "fail.h"

static void print_backends(const tombola_info *info)
{
    printf("backends    cpu        %s, %d thread%s\n", tombola_isa_name((tombola_isa)info->isa),
           info->threads, info->threads == 1 ? "" : "s");
    printf("            cuda       %s\n", info->cuda_available ? info->cuda_device : "-");
    if (!info->cuda_available) printf("                       %s\n", info->cuda_reason);
    printf("            reference  the law in plain C, slow\n");
}

/* The levels are ordered: a machine has all up to its best one. */
static void print_isas(const tombola_info *info)
{
    for (int isa = TOMBOLA_ISA_PORTABLE; isa <= TOMBOLA_ISA_AVX512; isa++)
        printf("%s%-9s  %s\n", isa == TOMBOLA_ISA_PORTABLE ? "isa         " : "            ",
               tombola_isa_name((tombola_isa)isa),
               isa == info->isa        ? "in use"
               : isa <= info->isa_best ? "available"
                                       : "not on this machine or in this build");
}

static void print_plan(const tombola_context *context, const options *o)
{
    static const double somewhere; /* a plan looks at the shape; `data` must only not be NULL */
    tombola_call call = TOMBOLA_CALL_INIT;
    call.data = &somewhere;
    call.kind = o->kind;
    call.dtype = o->dtype;
    call.rows = o->batch;
    call.vocab_size = o->vocab_size;
    call.steps = o->steps;
    call.step_count = o->step_count;
    call.ties = o->ties;
    call.method = o->method;
    call.backend = o->backend;
    int32_t token;
    call.tokens = &token;
    char text[512];
    tombola_error error;
    if (tombola_plan(context, &call, text, sizeof text, &error)) fail("%s", error.message);
    printf("plan        %" PRId64 " x %" PRId64 " %s", o->batch, o->vocab_size, dtype_names[o->dtype]);
    for (int32_t i = 0; i < o->step_count; i++) {
        char step[64];
        options_step_name(&o->steps[i], step, sizeof step);
        printf(", %s", step);
    }
    printf(": %s\n", text);
}

int run_info(const options *o)
{
    tombola_options settings = {.struct_size = sizeof settings, .threads = o->threads, .isa = o->isa};
    tombola_context *context;
    tombola_error error;
    if (tombola_context_create(&settings, &context, &error)) fail("%s", error.message);
    tombola_info info = {.struct_size = sizeof info};
    if (tombola_context_info(context, &info)) fail("the library gives no information");
    int version = tombola_version();
    printf("tombola     %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
    print_backends(&info);
    print_isas(&info);
    print_plan(context, o);
    tombola_context_destroy(context);
    return 0;
}
