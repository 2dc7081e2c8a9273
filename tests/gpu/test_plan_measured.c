/*
 * The choice of kernels (src/cuda/plan.c) without a GPU: shapes for which all kernels were measured on an
 * H200, and the one to be chosen, the fastest or within some per cent of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "plan_calls.h"

static const tb_cuda_device a100 = {8, 0, 108, 166912, 2, 40 << 20};
#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

typedef struct measured {
    int64_t rows, vocab_size;
    int dtype;
    const char *kernel;
} measured;

static tombola_call call_measured(const measured *choice, const tombola_step *steps, int count)
{
    return call_of(choice->rows, choice->vocab_size, choice->dtype, steps, count);
}

/* The flat kernel that was the fastest, or within some per cent of it, where all were measured. */
static void flat_kernels_as_measured(void **state)
{
    (void)state;
    static const measured choices[] = {
        {7, 128256, TOMBOLA_F32, "tombola_flat_once_c16_f32"},
        {8, 128256, TOMBOLA_F32, "tombola_flat_once_c8_f32"},
        {30, 128256, TOMBOLA_F32, "tombola_flat_once_c4_f32"},
        {31, 128256, TOMBOLA_F32, "tombola_flat_once_c3_f32"},
        {39, 128256, TOMBOLA_F32, "tombola_flat_once_c3_f32"},
        {40, 128256, TOMBOLA_F32, "tombola_flat_pipe_c8_f32"},
        {48, 128256, TOMBOLA_F32, "tombola_flat_pipe_c8_f32"},
        {128, 128256, TOMBOLA_F32, "tombola_flat_pipe_c8_f32"},
        {512, 128256, TOMBOLA_F32, "tombola_flat_pipe_c8_f32"},
        {1, 128256, TOMBOLA_BF16, "tombola_flat_once_c16_bf16"},
        {15, 128256, TOMBOLA_BF16, "tombola_flat_once_c8_bf16"},
        {32, 128256, TOMBOLA_BF16, "tombola_flat_once_c3_bf16"},
        {39, 151936, TOMBOLA_BF16, "tombola_flat_once_c3_bf16"},
        {64, 128256, TOMBOLA_BF16, "tombola_flat_pipe_c2_bf16"},
        {512, 128256, TOMBOLA_BF16, "tombola_flat_pipe_c4_bf16"},
        {8, 32000, TOMBOLA_F32, "tombola_flat_once_c8_f32"},
        {60, 32000, TOMBOLA_F32, "tombola_flat_once_c4_f32"},
        {32, 32000, TOMBOLA_BF16, "tombola_flat_once_c3_bf16"},
        {40, 32000, TOMBOLA_BF16, "tombola_flat_once_c4_bf16"},
        {64, 32000, TOMBOLA_F32, "tombola_flat_pipe_c2_f32"},
        {512, 32000, TOMBOLA_F32, "tombola_flat_pipe_c2_f32"},
        {512, 32000, TOMBOLA_BF16, "tombola_flat_pipe_c2_bf16"},
        {8, 16384, TOMBOLA_F32, "tombola_flat_once_c8_f32"},
        {16, 24000, TOMBOLA_BF16, "tombola_flat_once_c4_bf16"},
        {1, 4000, TOMBOLA_F32, "tombola_flat_once_c4_f32"},
        {61, 16384, TOMBOLA_BF16, "tombola_flat_pipe_c2_bf16"},
        {256, 16384, TOMBOLA_BF16, "tombola_flat_c1_512_bf16"},
        {256, 16384, TOMBOLA_F32, "tombola_flat_pipe_c2_f32"},
        {512, 16384, TOMBOLA_BF16, "tombola_flat_pipe_c2_bf16"},
        {128, 24000, TOMBOLA_F32, "tombola_flat_pipe_c2_f32"},
        {61, 8192, TOMBOLA_BF16, "tombola_flat_c1_512_bf16"},
        {256, 4000, TOMBOLA_BF16, "tombola_flat_c1_512_bf16"},
        {512, 4000, TOMBOLA_F32, "tombola_flat_pipe_c2_f32"},
        {512, 1000, TOMBOLA_BF16, "tombola_flat_pipe_c2_bf16"},
        {1, 262144, TOMBOLA_F32, "tombola_flat_once_c16_f32"},
        {8, 262144, TOMBOLA_F32, "tombola_flat_once_c8_f32"},
        {16, 262144, TOMBOLA_F32, "tombola_flat_pipe_c16_f32"},
        {512, 262144, TOMBOLA_F32, "tombola_flat_pipe_c16_f32"},
        {32, 262144, TOMBOLA_BF16, "tombola_flat_pipe_c16_bf16"},
        {512, 262144, TOMBOLA_BF16, "tombola_flat_pipe_c8_bf16"},
    };
    for (int i = 0; i < COUNT(choices); i++) {
        tombola_call call = call_measured(&choices[i], NULL, 0);
        assert_string_equal(picked(&call), choices[i].kernel);
    }
}

/* The streaming kernels: many blocks a row, as long as all rows are resident. */
static void streaming_kernels_as_measured(void **state)
{
    (void)state;
    static const tombola_step top_k = {.kind = TOMBOLA_TOP_K, .k = 50};
    static const measured choices[] = {
        {7, 128256, TOMBOLA_F32, "tombola_stream_c16_256_f32"},
        {15, 128256, TOMBOLA_F32, "tombola_stream_c8_256_f32"},
        {30, 128256, TOMBOLA_BF16, "tombola_stream_c4_512_bf16"},
        {60, 128256, TOMBOLA_F32, "tombola_stream_c4_256_f32"},
        {30, 32000, TOMBOLA_F32, "tombola_stream_c4_256_f32"},
        {66, 128256, TOMBOLA_F16, "tombola_stream_c2_512_f16"},
        {67, 128256, TOMBOLA_F32, "tombola_stream_c1_512_f32"},
        {512, 32000, TOMBOLA_F32, "tombola_stream_c1_256_f32"},
    };
    for (int i = 0; i < COUNT(choices); i++) {
        tombola_call call = call_measured(&choices[i], &top_k, 1);
        assert_string_equal(picked(&call), choices[i].kernel);
    }
}

/* T = 0 for all rows: a kernel of its own, where no rank is wanted. */
static void greedy_kernels_as_measured(void **state)
{
    (void)state;
    static const tombola_step steps[] = {{.kind = TOMBOLA_TEMPERATURE},
                                         {.kind = TOMBOLA_TOP_P, .value = 0.9f}};
    static const measured choices[] = {
        {7, 128256, TOMBOLA_F32, "tombola_greedy_c16_f32"},
        {8, 128256, TOMBOLA_F16, "tombola_greedy_c8_f16"},
        {24, 128256, TOMBOLA_BF16, "tombola_greedy_c8_bf16"},
        {60, 128256, TOMBOLA_F32, "tombola_greedy_c4_f32"},
        {128, 128256, TOMBOLA_F32, "tombola_greedy_c2_f32"},
        {512, 128256, TOMBOLA_F32, "tombola_greedy_c1_f32"},
        {1, 4000, TOMBOLA_F32, "tombola_greedy_c4_f32"},
        {1, 1000, TOMBOLA_F32, "tombola_greedy_c1_f32"},
        {64, 4000, TOMBOLA_F32, "tombola_greedy_c1_f32"},
    };
    for (int i = 0; i < COUNT(choices); i++) {
        tombola_call call = call_measured(&choices[i], steps, 1 + i % 2);
        call.total_mass = i % 3 ? NULL : (uint64_t *)long_output;
        assert_string_equal(picked(&call), choices[i].kernel);
        assert_string_equal(tb_cuda_choose(&a100, &call, NULL).launch[0].kernel + 8,
                            choices[i].dtype == TOMBOLA_F32   ? "greedy_c1_f32"
                            : choices[i].dtype == TOMBOLA_F16 ? "greedy_c1_f16"
                                                              : "greedy_c1_bf16");
        call.total_mass = NULL, call.ranks = int_output;
        assert_null(strstr(picked(&call), "greedy"));
        call.ranks = NULL;
        tombola_step slots[] = {{.kind = TOMBOLA_TEMPERATURE, .value_per_slot = float_output}};
        call.steps = slots, call.step_count = 1; /* each row's own */
        assert_null(strstr(picked(&call), "greedy"));
    }
}

/* min_p alone: a flat kernel wherever one has room, for streaming takes twice as long on rows that keep many
 * tokens.
 */
static void min_p_as_measured(void **state)
{
    (void)state;
    static const tombola_step min_p = {.kind = TOMBOLA_MIN_P, .value = 0.05f};
    static const struct {
        int64_t rows, vocab_size;
        int dtype;
        bool flat;
    } choices[] = {
        {1, 128256, TOMBOLA_F32, true},   {32, 128256, TOMBOLA_F32, true},
        {512, 128256, TOMBOLA_F32, true}, {34, 128256, TOMBOLA_BF16, true},
        {512, 128256, TOMBOLA_F16, true}, {512, 128256, TOMBOLA_BF16, true},
        {512, 32000, TOMBOLA_F32, true},  {512, 32000, TOMBOLA_BF16, true},
        {64, 262144, TOMBOLA_F32, true},  {512, 262144, TOMBOLA_BF16, true},
        {512, 16384, TOMBOLA_BF16, true}, {512, 4000, TOMBOLA_F32, true},
        {512, 900, TOMBOLA_BF16, false},  {64, 1 << 20, TOMBOLA_F32, false},
    };
    for (int i = 0; i < COUNT(choices); i++) {
        tombola_call call = call_of(choices[i].rows, choices[i].vocab_size, choices[i].dtype, &min_p, 1);
        const char *kernel = tb_cuda_choose(&h200, &call, NULL).launch[0].kernel;
        assert_int_equal(strncmp(kernel, choices[i].flat ? "tombola_flat_" : "tombola_stream", 13), 0);
    }
}

/* The one that was the fastest, or within a tenth of it, where all were measured. */
static void softmax_kernels_as_measured(void **state)
{
    (void)state;
    static const measured choices[] = {
        {1, 128256, TOMBOLA_F32, "tombola_whole_once_f32"},
        {14, 128256, TOMBOLA_F32, "tombola_whole_once_f32"},
        {15, 128256, TOMBOLA_F32, "tombola_whole_pipe_c8_f32"},
        {24, 128256, TOMBOLA_F32, "tombola_whole_pipe_c8_f32"},
        {64, 128256, TOMBOLA_F32, "tombola_whole_pipe_c8_f32"},
        {128, 128256, TOMBOLA_F32, "tombola_whole_pipe_c8_f32"},
        {512, 128256, TOMBOLA_F32, "tombola_whole_pipe_c8_f32"},
        {1, 128256, TOMBOLA_BF16, "tombola_whole_once_bf16"},
        {8, 128256, TOMBOLA_BF16, "tombola_whole_pipe_c8_bf16"},
        {512, 128256, TOMBOLA_BF16, "tombola_whole_pipe_c8_bf16"},
        {512, 2048, TOMBOLA_F32, "tombola_whole_f32"},
        {32, 8192, TOMBOLA_F32, "tombola_whole_pipe_c2_f32"},
        {512, 8192, TOMBOLA_F32, "tombola_whole_pipe_c2_f32"},
        {512, 8192, TOMBOLA_BF16, "tombola_whole_bf16"},
        {1, 32000, TOMBOLA_F32, "tombola_whole_once_f32"},
        {8, 32000, TOMBOLA_F32, "tombola_whole_pipe_c8_f32"},
        {512, 32000, TOMBOLA_F32, "tombola_whole_pipe_c2_f32"},
        {512, 50257, TOMBOLA_BF16, "tombola_whole_pipe_c4_bf16"},
        {512, 151936, TOMBOLA_F32, "tombola_whole_pipe_c16_f32"},
        {128, 151936, TOMBOLA_BF16, "tombola_whole_pipe_c8_bf16"},
        {256, 262144, TOMBOLA_F32, "tombola_whole_pipe_c16_f32"},
        {256, 262144, TOMBOLA_BF16, "tombola_whole_pipe_c16_bf16"},
    };
    for (int i = 0; i < COUNT(choices); i++) {
        tombola_call call = call_measured(&choices[i], NULL, 0);
        call.tokens = NULL, call.probabilities = float_output;
        assert_string_equal(picked(&call), choices[i].kernel);
    }
}

/* The pipelined kernel for few kept tokens that was the fastest, or within some per cent of it, where all
 * were measured. */
static void few_kernels_as_measured(void **state)
{
    (void)state;
    static const tombola_step top_k = {.kind = TOMBOLA_TOP_K, .k = 50};
    static const measured choices[] = {
        {1, 128256, TOMBOLA_F32, "tombola_few_pipe_c8_f32"},
        {128, 128256, TOMBOLA_F32, "tombola_few_pipe_c8_f32"},
        {512, 128256, TOMBOLA_F32, "tombola_few_pipe_c8_f32"},
        {8, 128256, TOMBOLA_BF16, "tombola_few_pipe_c8_bf16"},
        {16, 128256, TOMBOLA_BF16, "tombola_few_pipe_c4_bf16"},
        {512, 128256, TOMBOLA_BF16, "tombola_few_pipe_c4_bf16"},
        {8, 32000, TOMBOLA_F32, "tombola_few_pipe_c4_f32"},
        {32, 32000, TOMBOLA_F32, "tombola_few_pipe_c2_f32"},
        {512, 32000, TOMBOLA_F32, "tombola_few_pipe_c2_f32"},
        {512, 16384, TOMBOLA_F32, "tombola_few_pipe_c2_f32"},
        {64, 65536, TOMBOLA_F32, "tombola_few_pipe_c2_f32"},
        {512, 65536, TOMBOLA_F32, "tombola_few_pipe_c4_f32"},
        {512, 151936, TOMBOLA_F32, "tombola_few_pipe_c8_f32"},
        {512, 262144, TOMBOLA_F32, "tombola_pick_f32"}, /* no room for two rows */
        {512, 8192, TOMBOLA_F32, "tombola_generic"},
    };
    for (int i = 0; i < COUNT(choices); i++) {
        tombola_call call = call_measured(&choices[i], &top_k, 1);
        call.tokens = NULL, call.masked_logits = float_output;
        assert_string_equal(picked(&call), choices[i].kernel);
        call.kept_ids = int_output, call.kept_capacity = 64; /* it has no ids */
        assert_null(strstr(picked(&call), "few_pipe"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flat_kernels_as_measured),    cmocka_unit_test(streaming_kernels_as_measured),
        cmocka_unit_test(greedy_kernels_as_measured),  cmocka_unit_test(min_p_as_measured),
        cmocka_unit_test(softmax_kernels_as_measured), cmocka_unit_test(few_kernels_as_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
