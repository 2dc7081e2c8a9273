#include "batch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "rows.h"
#include "run.h"

void batch_make(batch *b, int64_t vocab_size, int32_t method)
{
    rng r = {(uint64_t)vocab_size * 10 + (uint64_t)method};
    memset(b, 0, sizeof *b);
    b->data = malloc((size_t)(BATCH_ROWS * vocab_size) * sizeof *b->data);
    if (!b->data) abort();
    for (int i = 0; i < BATCH_ROWS; i++)
        row_fill(TOMBOLA_LOGITS, i % row_kinds(TOMBOLA_LOGITS), b->data + i * vocab_size, vocab_size, &r);
    for (int i = 0; i < BATCH_SLOTS; i++) {
        b->temperature[i] = rng_one_in(&r, 8) ? 0.0f : 0.5f + (float)rng_uniform(&r);
        b->p[i] = rng_one_in(&r, 8) ? NAN : (float)rng_uniform(&r) * 1.1f;
        b->q[i] = rng_one_in(&r, 4) ? 0.0f : (float)rng_uniform(&r) * 0.1f;
        b->k[i] = (int32_t)rng_below(&r, vocab_size < 100 ? vocab_size : 100);
        b->seeds[i] = rng_next(&r);
        b->offsets[i] = rng_next(&r);
    }
    for (int i = 0; i < BATCH_ROWS * 4; i++) b->given[i] = (int32_t)rng_below(&r, vocab_size);
    b->steps[0] = (tombola_step){.kind = TOMBOLA_TEMPERATURE, .value_per_slot = b->temperature};
    b->steps[1] = (tombola_step){.kind = TOMBOLA_MIN_P, .value_per_slot = b->q};
    b->steps[2] = (tombola_step){.kind = TOMBOLA_TOP_K_TOP_P, .k_per_slot = b->k, .value_per_slot = b->p};
    b->call = (tombola_call)TOMBOLA_CALL_INIT;
    b->call.data = b->data;
    b->call.rows = BATCH_ROWS;
    b->call.vocab_size = vocab_size;
    b->call.slot_count = BATCH_SLOTS;
    b->call.steps = b->steps;
    b->call.step_count = 3;
    b->call.method = method;
    b->call.draws = 3;
    b->call.seeds = b->seeds;
    b->call.offsets = b->offsets;
    b->call.kept_capacity = 64;
    b->call.top_count = 5;
    b->call.given_ids = b->given;
    b->call.given_count = 4;
    b->call.backend = TOMBOLA_BACKEND_CPU;
    b->call.threads = 1;
}

void batch_free(batch *b)
{
    free(b->data);
}

void batch_run(const tombola_context *context, tombola_call call, outputs *out)
{
    tombola_error error = {0};
    outputs_make(out, &call, OUT_ALL);
    outputs_bind(out, &call);
    if (run_call(context, &call, &error)) fail_msg("%s", error.message);
}
