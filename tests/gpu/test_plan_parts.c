/*
 * The plans of draws with more outputs (src/cuda/plan_parts.c) without a GPU: a launch for each part, and
 * what each is told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/fast_shapes.h"
#include "plan_calls.h"

/* Only flat kernels know the raw log-probabilities' part; where none has room the call is the generic
 * kernel's, and no other kernel draws again. */
static void raw_parts_are_flat(void **state)
{
    (void)state;
    static const tb_cuda_device devices[] = {{8, 0, 108, 166912, 2, 40 << 20},
                                             {8, 9, 128, 101376, 64, 72 << 20},
                                             {9, 0, 132, 232448, 2, 60 << 20},
                                             {12, 0, 170, 101376, 64, 96 << 20}};
    static const int64_t sizes[] = {1, 4000, 128256, 1 << 20, (1 << 20) + 1, 1 << 22};
    static const tombola_step step = {.kind = TOMBOLA_TOP_K, .k = 50};
    for (int d = 0; d < 4; d++)
        for (int v = 0; v < 6; v++)
            for (int rows = 1; rows < 1000; rows *= 8) {
                tombola_call call = call_of(rows, sizes[v], TOMBOLA_F32, &step, 1);
                call.raw_logprobs = float_output;
                tb_cuda_plan plan = tb_cuda_choose(&devices[d], &call, NULL);
                assert_true(plan.launch_count >= 1);
                bool raw = false;
                for (int i = 0; i < plan.launch_count; i++) {
                    if (plan.launch[i].part != TB_CUDA_RAW_LOGPROBS) continue;
                    raw = true;
                    assert_non_null(strstr(plan.launch[i].kernel, "_flat_"));
                }
                if (!raw) assert_string_equal(plan.launch[0].kernel, "tombola_generic");
            }
}

/* A draw with outputs that its kernel does not have: a launch for each part, or the generic kernel for all.
 */
static void calls_in_parts(void **state)
{
    (void)state;
    static const tombola_step steps[] = {{.kind = TOMBOLA_TOP_K, .k = 50},
                                         {.kind = TOMBOLA_TOP_P, .value = 0.9f},
                                         {.kind = TOMBOLA_TOP_P, .value = 0.8f}};
    tombola_call call = call_of(4, 128256, TOMBOLA_F32, steps, 2);
    call.status = (uint32_t *)int_output;
    call.raw_logprobs = call.logprobs = call.top_logprobs = call.probabilities = float_output;
    call.top_ids = int_output, call.top_count = 20, call.top_raw = 1;
    call.offsets = long_output, call.advance_offsets = 1;
    tb_cuda_plan plan = tb_cuda_choose(&h200, &call, NULL);
    static const char *const kernels[] = {"tombola_stream_c16_256_f32", "tombola_stream_c16_256_f32",
                                          "tombola_flat_once_c16_f32", "tombola_kept_rows",
                                          "tombola_advance"};
    assert_int_equal(plan.launch_count, 5);
    for (int i = 0; i < plan.launch_count; i++) assert_string_equal(plan.launch[i].kernel, kernels[i]);

    tombola_call draw = tb_cuda_part_of(&call, plan.launch[0].part);
    assert_true(draw.tokens && draw.logprobs && draw.status && draw.advance_offsets && draw.step_count == 2);
    assert_true(!draw.raw_logprobs && !draw.top_ids && !draw.top_logprobs && !draw.probabilities);
    tombola_call top = tb_cuda_part_of(&call, plan.launch[1].part);
    assert_int_equal(plan.launch[1].part, TB_CUDA_TOP_SET); /* put in order by the third launch */
    assert_true(top.kept_ids == call.top_ids && top.kept_capacity == 20 && !top.top_ids && !top.tokens);
    assert_true(!top.top_logprobs && !top.raw_logprobs && !top.probabilities);
    assert_true(top.step_count == 1 && top.ties == TOMBOLA_TIES_INDEX);
    assert_int_equal(tb_cuda_top_step(&call).k, 20);
    tombola_call raw = tb_cuda_part_of(&call, plan.launch[2].part); /* of the tokens and ids found before */
    assert_true(raw.tokens && raw.raw_logprobs && raw.top_ids && raw.top_logprobs);
    assert_true(!raw.logprobs && !raw.status && !raw.advance_offsets && !raw.probabilities);
    assert_int_equal(raw.step_count, 0);
    tombola_call rows = tb_cuda_part_of(&call, plan.launch[3].part);
    assert_true(rows.probabilities && !rows.tokens && !rows.top_ids && rows.step_count == 2);

    /* the draw's list, behind the offsets: a mass, a count and ids for each row */
    assert_true(plan.lists && plan.lists_at == 256);
    assert_true(plan.workspace_bytes >= 256 + 4 * (8 + 4 + 4 * TB_LISTED_MOST));
    static const tombola_step many[] = {{.kind = TOMBOLA_TOP_K, .k = TB_LISTED_MOST + 1},
                                        {.kind = TOMBOLA_TOP_P}};
    call.steps = many; /* room for lists does not depend on values */
    tb_cuda_plan other = tb_cuda_choose(&h200, &call, NULL);
    assert_true(!other.lists && other.workspace_bytes == plan.workspace_bytes);
    call.steps = steps;
    call.kept_ids = int_output; /* the caller's list may be shorter */
    plan = tb_cuda_choose(&h200, &call, NULL);
    assert_string_equal(plan.launch[3].kernel, "tombola_whole_f32");
    assert_true(!plan.lists && plan.workspace_bytes == 256);
    call.kept_ids = NULL, call.top_count = TB_TOP_SET_MOST + 1; /* one a lane is put in order */
    assert_string_equal(tb_cuda_choose(&h200, &call, NULL).launch[1].kernel, "tombola_whole_sort_f32");
    top = tb_cuda_part_of(&call, TB_CUDA_TOP);
    assert_true(top.top_ids && !top.top_logprobs && !top.tokens && !top.raw_logprobs && !top.probabilities);
    assert_int_equal(top.step_count, 0);
    call.top_count = 0;
    assert_int_equal(tb_cuda_choose(&h200, &call, NULL).launch[1].part, TB_CUDA_RAW_LOGPROBS);
    call.top_count = 20;

    call.top_raw = 0; /* the kept tokens, by their final log-probabilities */
    top = tb_cuda_part_of(&call, TB_CUDA_TOP);
    assert_true(top.step_count == 2 && top.top_logprobs);
    assert_null(tb_cuda_part_of(&call, TB_CUDA_RAW_LOGPROBS).top_logprobs);
    call.given_logprobs = float_output; /* final ones, which no part has */
    assert_string_equal(picked(&call), "tombola_generic");
    call.given_logprobs = NULL, call.step_count = 3;
    assert_string_equal(picked(&call), "tombola_generic");
    call.step_count = 2, call.draws = 2;
    assert_string_equal(picked(&call), "tombola_generic");
    call.draws = 1, call.tokens = NULL; /* the second kernel would not know of what */
    assert_string_equal(picked(&call), "tombola_generic");
    /* a forced variant draws; of a flat one's kind it is the raw log-probability's, too */
    call.tokens = int_output;
    assert_string_equal(tb_cuda_choose(&h200, &call, "stream_c4_256").launch[0].kernel,
                        "tombola_stream_c4_256_f32");
    call.step_count = 0; /* without a chain the log-probability is the raw one */
    plan = tb_cuda_choose(&h200, &call, "flat_c8_256");
    assert_string_equal(plan.launch[0].kernel, "tombola_flat_c8_256_f32");
    assert_string_equal(plan.launch[2].kernel, "tombola_flat_c8_256_f32");
    call.top_ids = NULL, call.top_logprobs = call.probabilities = NULL, call.advance_offsets = 0;
    assert_int_equal(tb_cuda_choose(&h200, &call, NULL).launch_count, 1);
}

/* The entropy is no part of its own: the pipe sums it while it weighs, and so do the streaming kernels. */
static void entropy_with_the_draw(void **state)
{
    (void)state;
    static const tombola_step steps[] = {{.kind = TOMBOLA_TOP_P, .value = 0.9f}};
    tombola_call call = call_of(40, 128256, TOMBOLA_F32, steps, 0);
    const tb_cuda_plan alone = tb_cuda_choose(&h200, &call, NULL);
    call.entropy = float_output;
    tb_cuda_plan plan = tb_cuda_choose(&h200, &call, NULL);
    assert_int_equal(plan.launch_count, 1);
    assert_string_equal(plan.launch[0].kernel, alone.launch[0].kernel);
    assert_non_null(strstr(alone.launch[0].kernel, "flat_pipe_"));
    assert_int_equal(plan.launch[0].shared_bytes, alone.launch[0].shared_bytes + TB_PIPE_ENTROPY_BYTES);
    assert_int_equal(tb_cuda_choose(&h200, &call, "flat_c8_256").launch_count, 0);
    call.step_count = 1;
    assert_non_null(strstr(picked(&call), "stream_"));
    call.step_count = 0, call.vocab_size = call.row_stride = 400; /* too short for the pipe */
    assert_non_null(strstr(picked(&call), "stream_"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raw_parts_are_flat),
        cmocka_unit_test(calls_in_parts),
        cmocka_unit_test(entropy_with_the_draw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
