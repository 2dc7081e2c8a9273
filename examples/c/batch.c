/*
 * A batch of requests, as an inference engine has them: each has its slot with its own sampler settings, seed
 * and position. A request's tokens depend on these alone, not on which other requests share its batch or on
 * the row in which it stands: here every request is drawn a second time, alone, and gets the same token.
 *
 *     cc batch.c $(pkg-config --cflags --libs tombola) -o batch
 */
#include <stdio.h>
#include <stdlib.h>

#include <tombola.h>

#define SLOTS 4
#define ROWS 3 /* of the four requests, three are in this batch */
#define VOCAB_SIZE 1000

static void check(tombola_result result, const tombola_error *error)
{
    if (result == TOMBOLA_OK) return;
    fprintf(stderr, "%s: %s\n", tombola_result_string(result), error->message);
    exit(1);
}

/* Runs a call with a workspace of its own; an engine keeps one for its greatest batch. */
static void run(const tombola_context *context, tombola_call *call)
{
    tombola_error error;
    check(tombola_workspace_size(context, call, &call->workspace_size, &error), &error);
    call->workspace = malloc(call->workspace_size);
    if (!call->workspace) exit(1);
    check(tombola_run(context, call, &error), &error);
    free(call->workspace);
}

int main(void)
{
    static float logits[ROWS][VOCAB_SIZE]; /* a model's */
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < VOCAB_SIZE; i++) logits[r][i] = (float)((i * 7919 + r * 104729) % 1009) * 0.01f;

    /* One value per slot. "Off" values are values too, so one call serves them all. */
    const float temperature[SLOTS] = {0.0f /* greedy */, 0.7f, 1.0f, 1.2f};
    const int32_t top_k[SLOTS] = {0 /* off */, 50, 0, 200};
    const float top_p[SLOTS] = {1.0f /* off */, 0.9f, 0.95f, 1.0f};
    const uint64_t seeds[SLOTS] = {1, 2, 3, 4};
    uint64_t positions[SLOTS] = {10, 0, 25, 3};
    const tombola_step steps[] = {{.kind = TOMBOLA_TEMPERATURE, .value_per_slot = temperature},
                                  {.kind = TOMBOLA_TOP_K, .k_per_slot = top_k},
                                  {.kind = TOMBOLA_TOP_P, .value_per_slot = top_p}};

    tombola_error error;
    tombola_context *context;
    check(tombola_context_create(NULL, &context, &error), &error);

    const int32_t slot_of_row[ROWS] = {3, 0, 2};
    int32_t tokens[ROWS], kept[ROWS];
    tombola_call call = TOMBOLA_CALL_INIT;
    call.data = logits;
    call.rows = ROWS;
    call.vocab_size = VOCAB_SIZE;
    call.slot_count = SLOTS;
    call.slot_index = slot_of_row;
    call.steps = steps;
    call.step_count = 3;
    call.seeds = seeds;
    call.offsets = positions;
    call.tokens = tokens;
    call.kept_count = kept;
    run(context, &call);

    for (int r = 0; r < ROWS; r++) {
        tombola_call alone = call;
        int32_t token;
        alone.data = logits[r];
        alone.rows = 1;
        alone.slot_index = &slot_of_row[r];
        alone.tokens = &token;
        alone.kept_count = NULL;
        run(context, &alone);
        printf("request %d: token %d, one of %d; alone: token %d\n", (int)slot_of_row[r], (int)tokens[r],
               (int)kept[r], (int)token);
        if (token != tokens[r]) return 1;
    }

    tombola_context_destroy(context);
    return 0;
}
