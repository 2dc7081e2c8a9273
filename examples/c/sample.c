/*
 * One row of logits, one token, on the CPU.
 *
 *     cc sample.c $(pkg-config --cflags --libs tombola) -o sample
 */
#include <stdio.h>
#include <stdlib.h>

#include <tombola.h>

#define VOCAB_SIZE 8

static void check(tombola_result result, const tombola_error *error)
{
    if (result == TOMBOLA_OK) return;
    fprintf(stderr, "%s: %s\n", tombola_result_string(result), error->message);
    exit(1);
}

int main(void)
{
    const float logits[VOCAB_SIZE] = {2.5f, -1.0f, 3.0f, 0.5f, 3.25f, -4.0f, 1.75f, 0.0f};
    tombola_error error;

    /* Once per process: threads, and the choice of the instruction set. */
    tombola_context *context;
    check(tombola_context_create(NULL, &context, &error), &error);

    /* The chain runs in this order. */
    const tombola_step steps[] = {{.kind = TOMBOLA_TEMPERATURE, .value = 0.8f},
                                  {.kind = TOMBOLA_TOP_K, .k = 5},
                                  {.kind = TOMBOLA_TOP_P, .value = 0.9f}};
    int32_t token, kept;
    float logprob;
    tombola_call call = TOMBOLA_CALL_INIT;
    call.data = logits;
    call.rows = 1;
    call.vocab_size = VOCAB_SIZE;
    call.steps = steps;
    call.step_count = 3;
    call.seed = 7;
    call.threads = 1;
    /* What is asked for is what has a pointer. */
    call.tokens = &token;
    call.logprobs = &logprob;
    call.kept_count = &kept;

    /* Its size depends on shapes only, so a generation loop allocates it once. */
    check(tombola_workspace_size(context, &call, &call.workspace_size, &error), &error);
    call.workspace = malloc(call.workspace_size);
    if (!call.workspace) return 1;

    for (call.offset = 0; call.offset < 5; call.offset++) { /* the token's position: fresh random numbers */
        check(tombola_run(context, &call, &error), &error);
        printf("position %d: token %d, log-probability %.4f, one of %d\n", (int)call.offset, (int)token,
               (double)logprob, (int)kept);
    }

    free(call.workspace);
    tombola_context_destroy(context);
    return 0;
}
