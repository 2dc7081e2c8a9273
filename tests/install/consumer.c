/* A program of someone who installed tombola: draws a token, and checks the library's version. */
#include <stdio.h>
#include <stdlib.h>
#include <tombola.h>

int main(void)
{
    float logits[5] = {0.5f, -1.0f, 3.0f, 2.9f, 0.0f};
    int32_t token = -1;
    tombola_error error;
    tombola_context *context;
    tombola_step steps[] = {{.kind = TOMBOLA_TEMPERATURE, .value = 0.8f}, {.kind = TOMBOLA_TOP_K, .k = 1}};
    tombola_call call = TOMBOLA_CALL_INIT;
    if (tombola_version() !=
        TOMBOLA_VERSION_MAJOR * 10000 + TOMBOLA_VERSION_MINOR * 100 + TOMBOLA_VERSION_PATCH)
        return 1;
    if (tombola_context_create(NULL, &context, &error)) return 2;
    call.data = logits;
    call.rows = 1;
    call.vocab_size = 5;
    call.steps = steps;
    call.step_count = 2;
    call.tokens = &token;
    if (tombola_workspace_size(context, &call, &call.workspace_size, &error)) return 3;
    call.workspace = malloc(call.workspace_size);
    if (tombola_run(context, &call, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 4;
    }
    free(call.workspace);
    tombola_context_destroy(context);
    printf("token %d\n", (int)token);
    return token == 2 ? 0 : 5;
}
