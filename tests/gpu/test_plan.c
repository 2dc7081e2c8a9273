/*
 * The choice of kernels (src/cuda/plan.c) without a GPU: what holds for every plan, over devices and shapes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "plan_calls.h"

static const tb_cuda_device devices[] = {
    {8, 0, 108, 166912, 2, 40 << 20},   /* A100 */
    {8, 6, 84, 101376, 32, 6 << 20},    /* RTX 3090 */
    {8, 9, 128, 101376, 64, 72 << 20},  /* RTX 4090 */
    {9, 0, 132, 232448, 2, 60 << 20},   /* H200 */
    {10, 0, 148, 232448, 2, 126 << 20}, /* B200 */
    {12, 0, 170, 101376, 64, 96 << 20}, /* RTX 5090 */
};
#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static void check_plan(const tb_cuda_device *device, const tombola_call *call, const tb_cuda_plan *plan)
{
    assert_in_range(plan->launch_count, 1, TB_CUDA_MAX_LAUNCHES);
    for (int i = 0; i < plan->launch_count; i++) {
        const tb_cuda_launch *launch = &plan->launch[i];
        assert_non_null(launch->kernel);
        assert_int_equal(strncmp(launch->kernel, "tombola_", 8), 0);
        assert_true(launch->grid > 0 && launch->grid <= 0x7fffffffu);
        assert_in_range(launch->threads, 32, 1024);
        assert_int_equal(launch->threads % 32, 0);
        assert_in_range(launch->cluster, 1, device->major == 9 || device->major == 10 ? 16 : 8);
        assert_int_equal(launch->grid % launch->cluster, 0);
        if (device->major < 9) assert_int_equal(launch->cluster, 1);
        assert_true((int64_t)launch->shared_bytes <= device->shared_bytes);
    }
    if (call->advance_offsets) {
        assert_string_equal(plan->launch[plan->launch_count - 1].kernel, "tombola_advance");
        assert_true(plan->workspace_bytes >= (size_t)call->rows * 8);
    }
    /* The fast kernels serve all rows of a call in one launch for each part of it, without a workspace but
     * for the lists of what a draw keeps. */
    if (plan->lists)
        assert_non_null(strstr(plan->launch[0].kernel, "stream")); /* which lists what it keeps */
    if (strstr(plan->launch[0].kernel, "stream") || strstr(plan->launch[0].kernel, "flat")) {
        const bool raw = (call->raw_logprobs && call->step_count) || call->top_logprobs;
        assert_int_equal(plan->launch_count, 1 + raw + (call->top_ids != NULL) +
                                                 (call->probabilities != NULL) +
                                                 (call->advance_offsets != 0));
        const size_t lists = (size_t)call->rows * (8 + 4 + 4 * TB_LISTED_MOST);
        if (plan->lists) assert_true(plan->workspace_bytes >= plan->lists_at + lists);
        if (!call->advance_offsets)
            assert_true(plan->workspace_bytes < (plan->lists ? lists + 256 : 1) ||
                        (call->probabilities && call->step_count));
    }
    for (int i = 1; i < plan->launch_count; i++)
        assert_true(plan->launch[i].part == TB_CUDA_WHOLE_CALL ||
                    plan->launch[i].part > plan->launch[i - 1].part);
}

/* Outputs and chains in their usual combinations. */
enum { TOKENS, LOGPROBS, RAW_LOGPROBS, KEPT_IDS, PROBABILITIES, MASKED, TOP, ENTROPY, GIVEN, OUTPUT_SETS };

static void add_outputs(tombola_call *call, int set)
{
    switch (set) {
    case LOGPROBS: call->logprobs = float_output; break;
    case RAW_LOGPROBS: call->raw_logprobs = float_output; break;
    case TOP:
        call->top_ids = int_output, call->top_logprobs = float_output, call->top_count = 20,
        call->top_raw = 1;
        break;
    case KEPT_IDS: call->kept_ids = int_output, call->kept_capacity = 1, call->kept_count = int_output; break;
    case PROBABILITIES: call->probabilities = float_output; break;
    case MASKED: call->masked_logits = float_output, call->tokens = NULL, call->draws = 0; break;
    case ENTROPY: call->entropy = float_output; break;
    case GIVEN: call->given_logprobs = float_output; break;
    default: break;
    }
}

static void every_plan_can_run(void **state)
{
    (void)state;
    static const tombola_step chains[][4] = {
        {{0}},
        {{.kind = TOMBOLA_TEMPERATURE, .value = 0.7f}},
        {{.kind = TOMBOLA_TEMPERATURE, .value = 0.0f}},
        {{.kind = TOMBOLA_TOP_K, .k = 50}},
        {{.kind = TOMBOLA_TEMPERATURE, .value = 1.0f}, {.kind = TOMBOLA_TOP_P, .value = 0.9f}},
        {{.kind = TOMBOLA_MIN_P, .value = 0.05f}},
        {{.kind = TOMBOLA_TOP_K, .k = 50},
         {.kind = TOMBOLA_TOP_P, .value = 0.9f},
         {.kind = TOMBOLA_TOP_P, .value = 0.5f}},
        {{.kind = TOMBOLA_TOP_P, .value = 0.9f}, {.kind = TOMBOLA_TEMPERATURE, .value = 0.7f}},
        {{.kind = TOMBOLA_TOP_K_TOP_P, .k = 50, .value = 0.9f}},
    };
    long plans = 0;
    for (int d = 0; d < COUNT(devices); d++)
        for (int64_t vocab_size = 1; vocab_size <= 1 << 22; vocab_size = vocab_size * 5 / 2 + 1)
            for (int64_t rows = 1; rows < 5000; rows = rows * 2 + rows % 3)
                for (int c = 0; c < COUNT(chains); c++)
                    for (int set = 0; set < OUTPUT_SETS; set++)
                        for (int bits = 0; bits < 12; bits++) {
                            int count = 0;
                            while (count < 4 && chains[c][count].kind) count++;
                            tombola_call call = call_of(rows, vocab_size, bits % 3, chains[c], count);
                            call.advance_offsets = bits / 3 & 1;
                            call.offsets = long_output;
                            if (bits / 6) call.kind = TOMBOLA_PROBABILITIES;
                            add_outputs(&call, set);
                            tb_cuda_plan plan = tb_cuda_choose(&devices[d], &call, NULL);
                            check_plan(&devices[d], &call, &plan);
                            plans++;
                        }
    printf("%ld plans\n", plans);
}

static void methods_and_draws_are_served(void **state)
{
    (void)state;
    tombola_step step = {.kind = TOMBOLA_TOP_P, .value = 0.9f};
    for (int d = 0; d < COUNT(devices); d++)
        for (int method = TOMBOLA_EXACT; method <= TOMBOLA_DUAL_PIVOT; method++)
            for (int draws = 1; draws < 5; draws += 3) {
                tombola_call call = call_of(8, 128256, TOMBOLA_F32, &step, 1);
                call.method = method;
                call.draws = draws;
                tb_cuda_plan plan = tb_cuda_choose(&devices[d], &call, NULL);
                check_plan(&devices[d], &call, &plan);
                if (method != TOMBOLA_EXACT) assert_string_equal(plan.launch[0].kernel, "tombola_rejection");
            }
}

static void a_plan_depends_on_shapes_alone(void **state)
{
    (void)state;
    tombola_step step = {.kind = TOMBOLA_TOP_K, .k = 50};
    for (int64_t rows = 1; rows < 1000; rows *= 3) {
        tombola_call call = call_of(rows, 128256, TOMBOLA_F32, &step, 1);
        tb_cuda_plan first = tb_cuda_choose(&h200, &call, NULL);
        call.data = (const void *)(uintptr_t)64, call.seed = 9, call.offset = 4;
        step.k = 7;
        tb_cuda_plan second = tb_cuda_choose(&h200, &call, NULL);
        assert_int_equal(first.launch_count, second.launch_count);
        for (int i = 0; i < first.launch_count; i++)
            assert_string_equal(first.launch[i].kernel, second.launch[i].kernel);
        assert_int_equal(first.workspace_bytes, second.workspace_bytes);
    }
}

/* A block's share of a row has a bit for each token where ids are sorted by all blocks. */
static void longer_rows_are_not_sorted_by_all(void **state)
{
    (void)state;
    for (int64_t vocab_size = 100000; vocab_size < 1 << 20; vocab_size += 50000) {
        tombola_call call = call_of(1, vocab_size, TOMBOLA_F32, NULL, 0);
        call.tokens = NULL, call.draws = 0;
        call.top_ids = int_output, call.top_count = 100;
        const tb_cuda_plan plan = tb_cuda_choose(&h200, &call, NULL);
        if (vocab_size <= 390000) assert_string_equal(plan.launch[0].kernel, "tombola_whole_sort_f32");
        if (vocab_size > 393216 && vocab_size <= 800000)
            assert_string_equal(plan.launch[0].kernel, "tombola_whole_top_f32");
    }
}

static void few_rows_get_many_blocks(void **state)
{
    (void)state;
    tombola_step step = {.kind = TOMBOLA_TOP_K, .k = 50};
    unsigned before = 1000;
    for (int64_t rows = 1; rows <= 1024; rows *= 2) {
        tombola_call call = call_of(rows, 128256, TOMBOLA_F32, &step, 1);
        call.ranks = int_output; /* or rows would follow each other */
        tb_cuda_plan plan = tb_cuda_choose(&h200, &call, NULL);
        assert_true(plan.launch[0].cluster <= before);
        before = plan.launch[0].cluster;
        if (rows == 1) assert_int_equal(before, 16);
        if (rows >= 128) assert_int_equal(before, 1);
    }
}

static void a_forced_variant_is_used_or_refused(void **state)
{
    (void)state;
    tombola_step step = {.kind = TOMBOLA_TOP_K, .k = 50};
    tombola_call call = call_of(8, 128256, TOMBOLA_F32, &step, 1);
    tb_cuda_plan plan = tb_cuda_choose(&h200, &call, "stream_c4_256");
    assert_string_equal(plan.launch[0].kernel, "tombola_stream_c4_256_f32");
    assert_int_equal(tb_cuda_choose(&devices[0], &call, "stream_c4_256").launch_count, 0); /* no clusters */
    assert_int_equal(tb_cuda_choose(&h200, &call, "no such variant").launch_count, 0);
    plan = tb_cuda_choose(&h200, &call, "generic");
    assert_string_equal(plan.launch[0].kernel, "tombola_generic");
}

/* No filter, or min_p alone: one launch of a flat kernel, for many rows the pipelined one, whose rows follow
 * each other through as many clusters as are resident. Ranks and kept ids are the streaming kernels'. */
static void flat_rows(void **state)
{
    (void)state;
    tombola_step step = {.kind = TOMBOLA_MIN_P, .value = 0.05f};
    for (int filters = 0; filters < 2; filters++)
        for (int64_t rows = 1; rows <= 1024; rows *= 2) {
            tombola_call call = call_of(rows, 128256, TOMBOLA_F32, &step, filters);
            tb_cuda_plan plan = tb_cuda_choose(&h200, &call, NULL);
            assert_int_equal(plan.launch_count, 1);
            assert_int_equal(plan.workspace_bytes, 0);
            assert_int_equal(strncmp(plan.launch[0].kernel, "tombola_flat_", 13), 0);
            if (rows >= 64) {
                assert_non_null(strstr(plan.launch[0].kernel, "pipe"));
                assert_true(plan.launch[0].grid <= 132 && plan.launch[0].grid >= plan.launch[0].cluster);
            }
            call.vocab_size = call.row_stride = 1 << 22; /* a row fits nowhere */
            assert_null(strstr(tb_cuda_choose(&h200, &call, NULL).launch[0].kernel, "pipe"));
            call.vocab_size = call.row_stride = 128256;
            call.ranks = int_output;
            assert_null(strstr(tb_cuda_choose(&h200, &call, NULL).launch[0].kernel, "flat"));
            call.ranks = NULL;
            assert_null(strstr(tb_cuda_choose(&devices[0], &call, NULL).launch[0].kernel, "pipe"));
        }
}

/* Every variant that tests force runs under its own name, or says that it does not do the call. */
static void variants_run_under_their_names(void **state)
{
    (void)state;
    static const tombola_step top_k = {.kind = TOMBOLA_TOP_K, .k = 50},
                              greedy = {.kind = TOMBOLA_TEMPERATURE};
    for (int d = 0; d < COUNT(devices); d++)
        for (int v = 0; tb_cuda_variants[v]; v++) {
            const char *name = tb_cuda_variants[v];
            bool ran = false;
            /* filtered or not: a token, the whole row, by rejection; greedy */
            for (int sort = 0; sort < 7; sort++) {
                tombola_call call =
                    call_of(8, 32000, TOMBOLA_F32, sort == 6 ? &greedy : &top_k, sort % 2 || sort == 6);
                if (sort / 2 == 1) call.tokens = NULL, call.probabilities = float_output;
                if (sort / 2 == 2) call.method = TOMBOLA_DUAL_PIVOT;
                tb_cuda_plan plan = tb_cuda_choose(&devices[d], &call, name);
                if (plan.launch_count == 0) continue;
                ran = true;
                check_plan(&devices[d], &call, &plan);
                if (!strcmp(name, "generic")) continue; /* stands for rejection too */
                assert_int_equal(plan.slow_doubles, devices[d].double_ratio > 2 || !strcmp(name, "digits"));
                if (!strcmp(name, "digits")) continue; /* the kernels that sum weights, by their own names */
                assert_int_equal(strncmp(plan.launch[0].kernel + 8, name, strcspn(name, "_")), 0);
            }
            if (devices[d].major == 9 || devices[d].major == 10) assert_true(ran);
        }
    tombola_call call = call_of(8, 32000, TOMBOLA_F32, &top_k, 1);
    call.tokens = NULL, call.probabilities = float_output;
    assert_int_equal(tb_cuda_choose(&h200, &call, "whole_c4").launch[0].cluster, 4);
    assert_int_equal(tb_cuda_choose(&h200, &call, "generic_c16").launch[0].cluster, 16);
    assert_int_equal(tb_cuda_choose(&h200, &call, "whole_c3").launch_count, 0);
    assert_int_equal(tb_cuda_choose(&devices[0], &call, "whole_c4").launch_count, 0);
}

/* Whole-row outputs: one kernel, the row in its blocks' shared memory; the generic one for what it lacks. */
static void whole_rows(void **state)
{
    (void)state;
    static const tombola_step steps[] = {{.kind = TOMBOLA_TOP_P, .value = 0.9f},
                                         {.kind = TOMBOLA_TOP_P, .value = 0.8f}};
    tombola_call call = call_of(512, 128256, TOMBOLA_F32, steps, 1);
    call.tokens = NULL, call.probabilities = call.entropy = float_output;
    assert_string_equal(tb_cuda_choose(&h200, &call, NULL).launch[0].kernel, "tombola_generic");
    call.entropy = NULL;
    call.step_count = 0; /* many rows: where there is nothing to look for */
    tb_cuda_plan plan = tb_cuda_choose(&h200, &call, NULL);
    assert_int_equal(plan.launch_count, 1);
    assert_string_equal(plan.launch[0].kernel, "tombola_whole_pipe_c8_f32");
    call.kept_count = int_output;
    plan = tb_cuda_choose(&h200, &call, NULL);
    assert_string_equal(plan.launch[0].kernel, "tombola_whole_f32");
    assert_int_equal(plan.launch[0].cluster, 8);
    call.kept_count = NULL;
    assert_true(3 * (plan.launch[0].shared_bytes + 1024) <= 233472); /* three blocks a multiprocessor */
    call.rows = 1, call.step_count = 1;
    assert_int_equal(tb_cuda_choose(&h200, &call, NULL).launch[0].cluster, 16);
    call.dtype = TOMBOLA_BF16;
    assert_string_equal(tb_cuda_choose(&h200, &call, NULL).launch[0].kernel, "tombola_whole_bf16");
    call.step_count = 2;
    assert_string_equal(tb_cuda_choose(&h200, &call, NULL).launch[0].kernel, "tombola_generic");
    call = call_of(4, 1 << 22, TOMBOLA_F32, steps, 1); /* 16 MB a row */
    call.tokens = NULL, call.probabilities = float_output;
    assert_string_equal(tb_cuda_choose(&h200, &call, NULL).launch[0].kernel, "tombola_generic");
}

/* Softmax: probabilities of all tokens, or of those that a min_p keeps, and what else the pipe says of a row.
 */
static void softmax_of_many_rows(void **state)
{
    (void)state;
    static const tombola_step steps[] = {{.kind = TOMBOLA_TEMPERATURE, .value = 0.8f},
                                         {.kind = TOMBOLA_MIN_P, .value = 0.1f},
                                         {.kind = TOMBOLA_TOP_P, .value = 0.9f}};
    static const char *const kernels[] = {"tombola_whole_pipe_c8_f32", "tombola_whole_pipe_c8_f16",
                                          "tombola_whole_pipe_c8_bf16"};
    for (int dtype = 0; dtype < 3; dtype++) {
        tombola_call call = call_of(512, 128256, dtype, steps, 0);
        call.tokens = NULL, call.probabilities = float_output;
        call.status = (uint32_t *)int_output, call.kept_mass = call.total_mass = long_output;
        for (; call.step_count < 3; call.step_count++) {
            const bool served = call.step_count < 2 || !call.total_mass;
            tb_cuda_plan plan = tb_cuda_choose(&h200, &call, NULL);
            assert_int_equal(strcmp(plan.launch[0].kernel, kernels[dtype]) == 0, served);
            if (served) {
                assert_int_equal(plan.launch_count, 1);
                assert_int_equal(plan.launch[0].grid, 120); /* 15 clusters */
                assert_int_equal(plan.workspace_bytes, 0);
            } else {
                call.total_mass = NULL; /* with a filter it is another mass than the kept one */
                call.step_count--;
            }
        }
        assert_null(strstr(tb_cuda_choose(&h200, &call, NULL).launch[0].kernel, "pipe")); /* top_p */
        call.step_count = 2;
        call.kept_count = int_output;
        assert_null(strstr(tb_cuda_choose(&h200, &call, NULL).launch[0].kernel, "pipe"));
        call.kept_count = NULL, call.masked_logits = float_output;
        assert_null(strstr(tb_cuda_choose(&h200, &call, NULL).launch[0].kernel, "pipe"));
        call.masked_logits = NULL;
        for (int d = 0; d < COUNT(devices); d++) /* clusters, and much shared memory */
            assert_int_equal(strstr(tb_cuda_choose(&devices[d], &call, NULL).launch[0].kernel, "pipe") !=
                                 NULL,
                             devices[d].major == 9 || devices[d].major == 10);
        call.vocab_size = call.row_stride = 1 << 20; /* a row fits nowhere twice */
        assert_null(strstr(tb_cuda_choose(&h200, &call, NULL).launch[0].kernel, "pipe"));
    }
    tombola_call call = call_of(512, 128256, TOMBOLA_F32, steps, 0);
    call.tokens = NULL, call.probabilities = float_output, call.kind = TOMBOLA_PROBABILITIES;
    assert_null(strstr(tb_cuda_choose(&h200, &call, NULL).launch[0].kernel, "pipe"));
}

/* Few kept tokens of many rows: one block a row, with the more threads the fewer rows. */
static void lists_of_many_rows(void **state)
{
    (void)state;
    static const tombola_step per_slot = {.kind = TOMBOLA_TOP_K, .k = 50, .k_per_slot = int_output};
    tombola_step steps[] = {{.kind = TOMBOLA_TOP_K, .k = 50}, {.kind = TOMBOLA_MIN_P, .value = 0.1f}};
    tombola_call call = call_of(512, 128256, TOMBOLA_F32, steps, 1);
    call.tokens = NULL, call.masked_logits = float_output;
    assert_string_equal(picked(&call), "tombola_few_pipe_c8_f32"); /* very few: rows follow each other */
    steps[0].k = 500;
    assert_string_equal(picked(&call), "tombola_pick_f32");
    assert_int_equal(tb_cuda_choose(&h200, &call, NULL).launch[0].grid, 512);
    unsigned before = 0;
    for (int64_t rows = 1024; rows >= 128; rows /= 2) {
        call.rows = rows;
        unsigned threads = tb_cuda_choose(&h200, &call, NULL).launch[0].threads;
        assert_true(threads >= before);
        before = threads;
    }
    call.rows = 1;
    assert_string_equal(picked(&call), "tombola_whole_f32"); /* many blocks for a row */
    call.rows = 512;
    call.data = float_output; /* in place: the row cannot be read again */
    assert_string_not_equal(picked(&call), "tombola_pick_f32");
    call.data = NULL;
    call.step_count = 2;
    assert_string_not_equal(picked(&call), "tombola_pick_f32");
    call.step_count = 1, steps[0].k = 5000;
    assert_string_not_equal(picked(&call), "tombola_pick_f32");
    call.steps = &per_slot; /* nothing is known of k */
    assert_string_not_equal(picked(&call), "tombola_pick_f32");
    tombola_step top_p = {.kind = TOMBOLA_TOP_P, .value = 0.9f};
    call.steps = &top_p, call.rows = 64; /* logits are read twice for it: many blocks for a row are better */
    assert_string_equal(picked(&call), "tombola_whole_f32");
    call.kind = TOMBOLA_PROBABILITIES, call.masked_logits = NULL, call.probabilities = float_output;
    assert_string_equal(picked(&call), "tombola_pick_f32");
    call.kind = TOMBOLA_LOGITS, call.probabilities = NULL, call.rows = 512;
    call.step_count = 0, call.top_ids = int_output, call.top_count = 2048;
    assert_string_equal(picked(&call), "tombola_pick_f32");
    for (call.rows = 1; call.rows <= 24; call.rows++) { /* all blocks of a row sort it */
        assert_string_equal(picked(&call), "tombola_whole_sort_f32");
        assert_int_equal(tb_cuda_choose(&h200, &call, NULL).launch[0].cluster, 16);
    }
    call.rows = 8;
    call.top_count = 5000;
    assert_string_equal(picked(&call), "tombola_generic");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_plan_can_run),
        cmocka_unit_test(methods_and_draws_are_served),
        cmocka_unit_test(a_plan_depends_on_shapes_alone),
        cmocka_unit_test(longer_rows_are_not_sorted_by_all),
        cmocka_unit_test(few_rows_get_many_blocks),
        cmocka_unit_test(a_forced_variant_is_used_or_refused),
        cmocka_unit_test(variants_run_under_their_names),
        cmocka_unit_test(whole_rows),
        cmocka_unit_test(softmax_of_many_rows),
        cmocka_unit_test(flat_rows),
        cmocka_unit_test(lists_of_many_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
