/*
 * Where there is no GPU, no driver, or no kernels in the build: asking for CUDA is refused with the reason,
 * and everything else works. Skipped where the cuda backend can run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <tombola.h>

static char reason[464]; /* why there is no backend */

static int find_reason(void **state)
{
    (void)state;
    tombola_options options = {.struct_size = sizeof options, .threads = 1, .cuda = 1};
    tombola_context *context = (tombola_context *)&options;
    tombola_error error = {0};
    tombola_result result = tombola_context_create(&options, &context, &error);
    if (result == TOMBOLA_OK) {
        tombola_context_destroy(context);
        printf("SKIPPED: the cuda backend runs on this machine\n");
        exit(77);
    }
    printf("%s\n", error.message);
    assert_null(context);
    assert_int_equal(result, TOMBOLA_ERROR_NO_BACKEND);
    assert_int_equal(error.result, TOMBOLA_ERROR_NO_BACKEND);
    assert_string_equal(error.argument, "cuda");
    assert_true(strlen(error.message) > 20);
    memcpy(reason, error.message, sizeof reason);
    assert_int_equal(tombola_context_create(&options, &context, NULL), TOMBOLA_ERROR_NO_BACKEND);
    return 0;
}

static void information(void **state)
{
    (void)state;
    tombola_options options = {.struct_size = sizeof options, .threads = 1};
    tombola_context *context;
    assert_int_equal(tombola_context_create(&options, &context, NULL), TOMBOLA_OK);
    tombola_info info = {.struct_size = sizeof info};
    assert_int_equal(tombola_context_info(context, &info), TOMBOLA_OK);
    assert_int_equal(info.cuda_available, 0);
    assert_string_equal(info.cuda_device, "");
    assert_memory_equal(info.cuda_reason, reason, strlen(info.cuda_reason));
    assert_true(strlen(info.cuda_reason) > 20);
    tombola_context_destroy(context);

    options.cuda = -1;
    assert_int_equal(tombola_context_create(&options, &context, NULL), TOMBOLA_OK);
    assert_int_equal(tombola_context_info(context, &info), TOMBOLA_OK);
    assert_string_equal(info.cuda_reason, "the context was made without CUDA");
    tombola_context_destroy(context);
}

static void calls(void **state)
{
    (void)state;
    float row[5] = {0.0f, 1.0f, 5.0f, 2.0f, 1.0f};
    int32_t token = -7;
    tombola_step greedy = {.kind = TOMBOLA_TEMPERATURE, .value = 0.0f};
    tombola_call call = TOMBOLA_CALL_INIT;
    call.data = row, call.rows = 1, call.vocab_size = 5, call.tokens = &token;
    call.steps = &greedy, call.step_count = 1;
    tombola_context *context;
    tombola_error error = {0};
    char text[200];
    size_t size = 0;
    assert_int_equal(tombola_context_create(NULL, &context, NULL), TOMBOLA_OK);

    call.backend = TOMBOLA_BACKEND_CUDA;
    assert_int_equal(tombola_workspace_size(context, &call, &size, &error), TOMBOLA_ERROR_NO_BACKEND);
    assert_string_equal(error.message, reason);
    assert_int_equal(tombola_run(context, &call, &error), TOMBOLA_ERROR_NO_BACKEND);
    assert_string_equal(error.message, reason);
    assert_int_equal(tombola_plan(context, &call, text, sizeof text, &error), TOMBOLA_ERROR_NO_BACKEND);
    assert_int_equal(token, -7);

    call.backend = TOMBOLA_BACKEND_AUTO;
    assert_int_equal(tombola_workspace_size(context, &call, &size, NULL), TOMBOLA_OK);
    call.workspace = malloc(size);
    call.workspace_size = size;
    assert_int_equal(tombola_run(context, &call, NULL), TOMBOLA_OK);
    assert_int_equal(token, 2);
    free(call.workspace);
    tombola_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(information), cmocka_unit_test(calls)};
    return cmocka_run_group_tests_name("no device", tests, find_reason, NULL);
}
