/*
 * Nothing but the row, the chain and the row's random numbers matters: not the number of threads, not how
 * rows are split into calls, not where a row or a slot lies.
 */
#include "isa_test.h"

#include <stdlib.h>
#include <string.h>

#include "batch.h"

static tombola_isa isa;
static tombola_context *context;
static const int64_t VOCAB_SIZES[] = {37, 1000, 9001};

/* Calls `check` with batches of several shapes and methods, and what they return when run plainly. */
static void each_batch(void (*check)(batch *b, const outputs *plain))
{
    SKIP_WITHOUT(context, isa);
    for (int i = 0; i < 3; i++) {
        for (int32_t method = TOMBOLA_EXACT; method <= TOMBOLA_DUAL_PIVOT; method++) {
            batch b;
            outputs plain;
            batch_make(&b, VOCAB_SIZES[i], method);
            batch_run(context, b.call, &plain);
            check(&b, &plain);
            outputs_free(&plain);
            batch_free(&b);
        }
    }
}

static void check_same(const outputs *expected, const outputs *got, const tombola_call *call)
{
    char text[512];
    if (!outputs_same(expected, got, call, text, sizeof text)) fail_msg("%s", text);
}

static void check_row(const outputs *expected, int64_t i, const outputs *got, int64_t j,
                      const tombola_call *call)
{
    char text[512];
    if (!outputs_row_same(expected, i, got, j, call, text, sizeof text))
        fail_msg("row %lld as row %lld: %s", (long long)i, (long long)j, text);
}

static void check_threads(batch *b, const outputs *plain)
{
    static const int THREADS[] = {1, 2, 3, 8};
    for (int i = 0; i < 4; i++) {
        tombola_context *other = open_context(isa, THREADS[i]);
        for (int threads = 0; threads <= THREADS[i]; threads++) {
            tombola_call call = b->call;
            outputs out;
            call.threads = threads;
            batch_run(other, call, &out);
            check_same(plain, &out, &call);
            outputs_free(&out);
        }
        tombola_context_destroy(other);
    }
}

static void check_reference(batch *b, const outputs *plain)
{
    tombola_call call = b->call;
    outputs out;
    call.backend = TOMBOLA_BACKEND_REFERENCE;
    call.threads = 0;
    batch_run(context, call, &out);
    check_same(plain, &out, &call);
    outputs_free(&out);
}

/* Rows start .. start + count of the batch as a call of their own. */
static void check_part(batch *b, const outputs *plain, int64_t start, int64_t count)
{
    tombola_call call = b->call;
    outputs out;
    int32_t slots[BATCH_ROWS];
    for (int64_t i = 0; i < count; i++) slots[i] = (int32_t)(start + i);
    call.data = b->data + start * call.vocab_size;
    call.rows = count;
    call.slot_index = slots;
    call.given_ids = b->given + 4 * start;
    batch_run(context, call, &out);
    for (int64_t i = 0; i < count; i++) check_row(plain, start + i, &out, i, &call);
    outputs_free(&out);
}

static void check_splits(batch *b, const outputs *plain)
{
    for (int64_t part = 1; part < BATCH_ROWS; part = part * 2 + 1)
        for (int64_t start = 0; start < BATCH_ROWS; start += part)
            check_part(b, plain, start, start + part < BATCH_ROWS ? part : BATCH_ROWS - start);
}

/* Rows in another order, through row_index, and slots in another order, through slot_index. */
static void check_places(batch *b, const outputs *plain)
{
    batch moved = *b;
    int32_t rows[BATCH_ROWS], slots[BATCH_ROWS];
    for (int32_t i = 0; i < BATCH_ROWS; i++) {
        rows[i] = i * 7 % BATCH_ROWS;
        slots[i] = BATCH_SLOTS - 1 - rows[i];
        memcpy(moved.given + 4 * i, b->given + 4 * rows[i], 4 * sizeof *b->given);
    }
    for (int i = 0; i < BATCH_SLOTS; i++) {
        int from = BATCH_SLOTS - 1 - i;
        moved.temperature[i] = b->temperature[from];
        moved.p[i] = b->p[from];
        moved.q[i] = b->q[from];
        moved.k[i] = b->k[from];
        moved.seeds[i] = b->seeds[from];
        moved.offsets[i] = b->offsets[from];
    }
    moved.steps[0].value_per_slot = moved.temperature;
    moved.steps[1].value_per_slot = moved.q;
    moved.steps[2].k_per_slot = moved.k;
    moved.steps[2].value_per_slot = moved.p;
    tombola_call call = b->call;
    call.steps = moved.steps;
    call.row_index = rows;
    call.slot_index = slots;
    call.seeds = moved.seeds;
    call.offsets = moved.offsets;
    call.given_ids = moved.given;
    outputs out;
    batch_run(context, call, &out);
    for (int64_t i = 0; i < BATCH_ROWS; i++) check_row(plain, rows[i], &out, i, &call);
    outputs_free(&out);
}

/* A scalar seed has the output row's number as its stream; `streams` says it explicitly. */
static void check_streams(batch *b, const outputs *plain)
{
    (void)plain;
    tombola_call call = b->call;
    uint32_t streams[BATCH_ROWS];
    outputs by_row, explicit, alone;
    call.seeds = NULL;
    call.seed = 99;
    batch_run(context, call, &by_row);
    for (uint32_t i = 0; i < BATCH_ROWS; i++) streams[i] = i;
    call.streams = streams;
    batch_run(context, call, &explicit);
    check_same(&by_row, &explicit, &call);
    for (uint32_t i = 0; i < BATCH_ROWS; i += 5) {
        int32_t slot = (int32_t)i;
        tombola_call one = call;
        one.rows = 1;
        one.data = b->data + i * call.vocab_size;
        one.slot_index = &slot;
        one.streams = &streams[i];
        one.given_ids = b->given + 4 * i;
        batch_run(context, one, &alone);
        check_row(&by_row, i, &alone, 0, &one);
        outputs_free(&alone);
    }
    outputs_free(&by_row);
    outputs_free(&explicit);
}

#define TEST(name)                                                                                           \
    static void name(void **state)                                                                           \
    {                                                                                                        \
        (void)state;                                                                                         \
        each_batch(check_##name);                                                                            \
    }
TEST(threads)
TEST(reference)
TEST(splits)
TEST(places)
TEST(streams)

int main(int argc, char **argv)
{
    isa = ISA_ARGUMENT(argc, argv);
    context = open_context(isa, 3);
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads), cmocka_unit_test(reference),
                                       cmocka_unit_test(splits), cmocka_unit_test(places),
                                       cmocka_unit_test(streams)};
    int failed = cmocka_run_group_tests_name("batch", tests, NULL, NULL);
    tombola_context_destroy(context);
    return failed;
}
