/*
 * The host side of the cuda backend without a GPU: over a stand-in for the driver (fake_driver.c) and with a
 * plan and kernel images of the test's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cuda/cuda.h"
#include "cuda/embed.h"
#include "cuda/plan.h"
#include "fake_driver.h"

#define ROWS 3
#define WORKSPACE 1024

/* ---- what stands in for the kernels ---- */

const tb_cuda_image tb_cuda_images[] = {{"one", "first image", false, false},
                                        {"two", "second image", true, false},
                                        {"three", "third image", true, true},
                                        {0, 0, false, false}};
const char tb_cuda_targets[] = "90";

static tb_cuda_plan next_plan;
static char seen_variant[32];
static tb_cuda_device seen_device;

tb_cuda_plan tb_cuda_choose(const tb_cuda_device *device, const tombola_call *call, const char *forced)
{
    (void)call;
    seen_device = *device;
    snprintf(seen_variant, sizeof seen_variant, "%s", forced ? forced : "(none)");
    return next_plan;
}

/* ---- opening the driver: once per process, so each case runs in a child ---- */

static tombola_error open_in_child(void)
{
    int ends[2];
    tombola_error error = {0};
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        tb_cuda *cuda = tb_cuda_create(&error);
        if (cuda) error.result = TOMBOLA_OK;
        _exit(write(ends[1], &error, sizeof error) == sizeof error ? 0 : 1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &error, sizeof error), sizeof error);
    close(ends[0]);
    waitpid(child, NULL, 0);
    return error;
}

static void opening(void **state)
{
    (void)state;
    fake_reset();
    assert_int_equal(open_in_child().result, TOMBOLA_OK);

    fake.version = TB_CUDA_MINIMUM_VERSION;
    assert_int_equal(open_in_child().result, TOMBOLA_OK);
    fake.version = TB_CUDA_MINIMUM_VERSION - 10;
    tombola_error error = open_in_child();
    assert_int_equal(error.result, TOMBOLA_ERROR_NO_BACKEND);
    assert_non_null(strstr(error.message, "update the driver to"));

    fake_reset();
    fake.init_result = TB_CU_NO_DEVICE;
    error = open_in_child();
    assert_int_equal(error.result, TOMBOLA_ERROR_NO_BACKEND);
    assert_non_null(strstr(error.message, "CUDA_VISIBLE_DEVICES"));
    fake.init_result = TB_CU_STUB_LIBRARY;
    error = open_in_child();
    assert_int_equal(error.result, TOMBOLA_ERROR_NO_BACKEND);
    assert_non_null(strstr(error.message, "stub"));
    fake.init_result = 999;
    error = open_in_child();
    assert_int_equal(error.result, TOMBOLA_ERROR_DRIVER);
    assert_non_null(strstr(error.message, "cuInit failed: CUDA_ERROR_FAKE 999"));

    fake_reset();
    fake.without_enumeration = true;
    error = open_in_child();
    assert_int_equal(error.result, TOMBOLA_ERROR_NO_BACKEND);
    assert_non_null(strstr(error.message, "cuModuleEnumerateFunctions"));
}

/* ---- creation ---- */

static void nothing_left(void)
{
    assert_int_equal(fake.depth, 0);
    assert_int_equal(fake.modules, 0);
    assert_int_equal(fake.retained, 0);
}

static void creation(void **state)
{
    (void)state;
    fake_reset();
    tombola_error error = {0};
    tb_cuda *cuda = tb_cuda_create(&error);
    assert_non_null(cuda);
    assert_int_equal(fake.retained, 1);
    assert_int_equal(fake.modules, 3);
    assert_int_equal(fake.depth, 0);
    assert_int_equal(fake.loaded_functions, 6);
    assert_int_equal(fake.max_dynamic, 232448 - 1024);
    assert_int_equal(fake.wide_clusters, 1);
    assert_string_equal(tb_cuda_device_name(cuda), "Fake GPU (sm_90)");
    tb_cuda_destroy(cuda);
    nothing_left();

    fake_reset(); /* the caller's context: not retained */
    fake.current = (tb_cu_context)0x2000;
    fake.major = 8;
    fake.ptx_version = 80;
    cuda = tb_cuda_create(&error);
    assert_non_null(cuda);
    assert_int_equal(fake.retained, 0);
    assert_int_equal(fake.modules, 2); /* that for clusters is not for it, */
    assert_int_equal(fake.wide_clusters, 0);
    tb_cuda_destroy(cuda);
    nothing_left();

    fake_reset(); /* nor are the large ones for one with clusters but little shared memory */
    fake.major = 12;
    fake.shared_optin = 101376;
    cuda = tb_cuda_create(&error);
    assert_non_null(cuda);
    assert_int_equal(fake.modules, 1);
    tb_cuda_destroy(cuda);
    nothing_left();
}

static void refused_creation(void **state)
{
    (void)state;
    tombola_error error = {0};
    fake_reset();
    fake.major = 7;
    fake.minor = 5;
    assert_null(tb_cuda_create(&error));
    assert_int_equal(error.result, TOMBOLA_ERROR_NO_BACKEND);
    assert_non_null(strstr(error.message, "sm_75"));
    nothing_left();

    fake_reset();
    fake.load_result = TB_CU_NO_BINARY_FOR_GPU;
    assert_null(tb_cuda_create(&error));
    assert_int_equal(error.result, TOMBOLA_ERROR_NO_BACKEND);
    assert_non_null(strstr(error.message, "TOMBOLA_CUDA_ARCHS"));
    nothing_left();

    fake_reset();
    fake.load_result = TB_CU_OUT_OF_MEMORY;
    assert_null(tb_cuda_create(&error));
    assert_int_equal(error.result, TOMBOLA_ERROR_OUT_OF_MEMORY);
    nothing_left();

    fake_reset();
    fake.retain_result = 46;
    assert_null(tb_cuda_create(NULL)); /* an error struct is not needed */
    nothing_left();
}

/* ---- running ---- */

static struct {
    _Alignas(256) unsigned char workspace[WORKSPACE];
    float logits[ROWS * 8];
    uint64_t numbers[64];
    int32_t words[64];
} memory; /* counts as the device's */

static int32_t host_words[8];
static tombola_step steps[2];
static tb_cuda *cuda;

static tombola_call usual_call(void)
{
    tombola_call call = TOMBOLA_CALL_INIT;
    steps[0] = (tombola_step){.kind = TOMBOLA_TOP_K, .k = 7};
    steps[1] = (tombola_step){.kind = TOMBOLA_TOP_P, .value = 0.9f};
    call.data = memory.logits, call.rows = ROWS, call.vocab_size = 8, call.row_stride = 8;
    call.source_rows = call.slot_count = ROWS, call.draws = 1;
    call.steps = steps, call.step_count = 2;
    call.tokens = memory.words;
    call.cuda_stream = (void *)0x77;
    call.workspace = memory.workspace, call.workspace_size = WORKSPACE;
    return call;
}

static int start(void **state)
{
    (void)state;
    fake_reset();
    fake.device_start = &memory;
    fake.device_bytes = sizeof memory;
    next_plan = (tb_cuda_plan){.launch_count = 2,
                               .launch = {{"tombola_first", TB_CUDA_WHOLE_CALL, 6, 256, 2, 4096},
                                          {"tombola_second", TB_CUDA_WHOLE_CALL, 1, 32, 1, 0}},
                               .workspace_bytes = WORKSPACE};
    cuda = tb_cuda_create(NULL);
    return cuda ? 0 : -1;
}

static int finish(void **state)
{
    (void)state;
    tb_cuda_destroy(cuda);
    nothing_left();
    return 0;
}

static void launching(void **state)
{
    (void)state;
    tombola_call call = usual_call();
    tombola_error error = {0};
    assert_int_equal(tb_cuda_run(cuda, &call, &error), TOMBOLA_OK);
    assert_int_equal(fake.launches, 2);
    assert_int_equal(fake.depth, 0);
    const fake_launch *first = &fake.launch[0], *second = &fake.launch[1];
    assert_string_equal(first->kernel, "tombola_first");
    assert_string_equal(second->kernel, "tombola_second");
    assert_int_equal(first->grid, 6);
    assert_int_equal(first->block, 256);
    assert_int_equal(first->cluster, 2);
    assert_int_equal(first->shared_bytes, 4096);
    assert_int_equal(second->cluster, 1);
    assert_false(first->dependent);
    assert_ptr_equal(first->stream, call.cuda_stream);
    assert_ptr_equal(first->params.workspace, memory.workspace);
    assert_int_equal(first->params.call.rows, ROWS);
    assert_memory_equal(first->params.steps, steps, sizeof steps);
    assert_int_equal(seen_device.major, 9);
    assert_int_equal(seen_device.multiprocessors, 132);
    assert_int_equal(seen_device.shared_bytes, 232448);
    assert_int_equal(seen_device.double_ratio, 2);
    assert_int_equal(first->params.slow_doubles, 0);
    next_plan.slow_doubles = true;
    assert_int_equal(tb_cuda_run(cuda, &call, &error), TOMBOLA_OK);
    next_plan.slow_doubles = false;
    assert_int_equal(fake.launch[2].params.slow_doubles, 1);
    assert_string_equal(seen_variant, "(none)");

    call.dependent_launch = 1;
    assert_int_equal(tb_cuda_run(cuda, &call, NULL), TOMBOLA_OK);
    assert_true(fake.launch[4].dependent);
    assert_false(fake.launch[5].dependent);
}

/* Each launch gets its part of the call, and all of the chain to check. */
static void launching_parts(void **state)
{
    (void)state;
    tombola_call call = usual_call();
    call.raw_logprobs = (float *)memory.numbers;
    const tb_cuda_plan whole = next_plan;
    next_plan.launch[0].part = TB_CUDA_DRAW, next_plan.launch[1].part = TB_CUDA_RAW_LOGPROBS;
    assert_int_equal(tb_cuda_run(cuda, &call, NULL), TOMBOLA_OK);
    next_plan = whole;
    const tb_cuda_params *draw = &fake.launch[0].params, *raw = &fake.launch[1].params;
    assert_ptr_equal(draw->call.tokens, call.tokens);
    assert_ptr_equal(raw->call.tokens, call.tokens);
    assert_null(draw->call.raw_logprobs);
    assert_ptr_equal(raw->call.raw_logprobs, call.raw_logprobs);
    assert_int_equal(draw->call.step_count, call.step_count);
    assert_int_equal(raw->call.step_count, 0);
    assert_int_equal(raw->checked_steps, call.step_count);
    assert_memory_equal(raw->steps, steps, sizeof steps);
    /* a part begins beside the one before, unless that began before its inputs were there */
    assert_false(fake.launch[0].dependent);
    assert_true(fake.launch[1].dependent);
    call.dependent_launch = 1;
    next_plan.launch[0].part = TB_CUDA_DRAW, next_plan.launch[1].part = TB_CUDA_RAW_LOGPROBS;
    assert_int_equal(tb_cuda_run(cuda, &call, NULL), TOMBOLA_OK);
    assert_true(fake.launch[2].dependent);
    assert_false(fake.launch[3].dependent);
}

/* Kernels that the driver compiled from PTX for 80: without clusters, and without a wait for the launch
 * before, so that no launch may begin beside another. */
static void code_for_older_devices(void **state)
{
    (void)state;
    static const int versions[][2] = {{8, 80},  {9, 80},  {9, 90},
                                      {10, 90}, {12, 80}, {12, 90}}; /* device, code */
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        const int major = versions[i][0], code = versions[i][1];
        fake_reset();
        fake.major = major;
        fake.ptx_version = code;
        fake.device_start = &memory;
        fake.device_bytes = sizeof memory;
        next_plan = (tb_cuda_plan){.launch_count = 2,
                                   .launch = {{"tombola_first", TB_CUDA_DRAW, 6, 256, 1, 0},
                                              {"tombola_second", TB_CUDA_RAW_LOGPROBS, 6, 256, 1, 0}}};
        tb_cuda *made = tb_cuda_create(NULL);
        assert_int_equal(fake.wide_clusters, code >= 90);
        tombola_call call = usual_call();
        call.raw_logprobs = (float *)memory.numbers;
        for (; call.dependent_launch < 2; call.dependent_launch++) {
            const fake_launch *first = &fake.launch[fake.launches];
            assert_int_equal(tb_cuda_run(made, &call, NULL), TOMBOLA_OK);
            assert_int_equal(seen_device.major, code >= 90 ? major : 8);
            assert_int_equal(first[0].dependent, code >= 90 && call.dependent_launch);
            assert_int_equal(first[1].dependent, code >= 90 && !call.dependent_launch);
        }
        tb_cuda_destroy(made);
        nothing_left();
    }
}

/* Old code for all, and newer code of the clusters' kernels that is not the device's. */
static void clusters_without_code(void **state)
{
    (void)state;
    fake_reset();
    fake.major = 10;
    fake.ptx_version = 80;
    fake.no_code = tb_cuda_images[2].data;
    fake.device_start = &memory;
    fake.device_bytes = sizeof memory;
    next_plan = (tb_cuda_plan){.launch_count = 1, .launch = {{"tombola_first", TB_CUDA_DRAW, 6, 256, 1, 0}}};
    tb_cuda *made = tb_cuda_create(NULL);
    assert_non_null(made);
    tombola_call call = usual_call();
    assert_int_equal(tb_cuda_run(made, &call, NULL), TOMBOLA_OK);
    assert_int_equal(seen_device.major, 8);
    tb_cuda_destroy(made);
    nothing_left();
    fake.no_code = tb_cuda_images[1].data; /* which is not of clusters */
    assert_null(tb_cuda_create(NULL));
    fake_reset();
}

/* The greatest tokens have a step of their own; rows of output are made of the draw's list. */
static void launching_lists(void **state)
{
    (void)state;
    tombola_call call = usual_call();
    call.top_ids = call.tokens, call.top_count = 7, call.top_raw = 1;
    call.probabilities = (float *)memory.numbers;
    const tb_cuda_plan whole = next_plan;
    next_plan.launch[0].part = TB_CUDA_DRAW, next_plan.launch[1].part = TB_CUDA_TOP_SET;
    next_plan.launch[2] = next_plan.launch[1], next_plan.launch[2].part = TB_CUDA_ROWS;
    next_plan.launch_count = 3;
    next_plan.lists = true, next_plan.lists_at = 32;
    assert_int_equal(tb_cuda_run(cuda, &call, NULL), TOMBOLA_OK);
    next_plan = whole;
    const tb_cuda_params *draw = &fake.launch[0].params, *top = &fake.launch[1].params,
                         *rows = &fake.launch[2].params;
    const char *lists = (const char *)memory.workspace + 32;
    assert_int_equal(top->steps[0].kind, TOMBOLA_TOP_K);
    assert_int_equal(top->steps[0].k, 7);
    assert_memory_equal(top->steps + 1, steps, sizeof steps);
    assert_int_equal(top->call.step_count, 1);
    assert_int_equal(top->checked_steps, call.step_count + 1);
    assert_ptr_equal(top->call.kept_ids, call.top_ids);
    assert_memory_equal(draw->steps, steps, sizeof steps);
    assert_ptr_equal(draw->call.kept_mass, lists);
    assert_ptr_equal(draw->call.kept_count, lists + 8 * ROWS);
    assert_ptr_equal(draw->call.kept_ids, lists + 12 * ROWS);
    assert_int_equal(draw->call.kept_capacity, TB_LISTED_MOST);
    assert_ptr_equal(rows->call.kept_mass, draw->call.kept_mass);
    assert_ptr_equal(rows->call.kept_count, draw->call.kept_count);
    assert_ptr_equal(rows->call.kept_ids, draw->call.kept_ids);
    assert_ptr_equal(rows->call.probabilities, call.probabilities);
}

static void forced_variant(void **state)
{
    (void)state;
    setenv("TOMBOLA_CUDA_VARIANT", "generic", 1);
    tb_cuda *forced = tb_cuda_create(NULL);
    unsetenv("TOMBOLA_CUDA_VARIANT");
    tombola_call call = usual_call();
    assert_non_null(forced);
    assert_int_equal(tb_cuda_run(forced, &call, NULL), TOMBOLA_OK);
    assert_string_equal(seen_variant, "generic");
    tb_cuda_destroy(forced);
}

static void plan_text(void **state)
{
    (void)state;
    tombola_call call = usual_call();
    char text[256];
    size_t size = 0;
    assert_int_equal(tb_cuda_workspace(cuda, &call, &size, NULL), TOMBOLA_OK);
    assert_int_equal(size, WORKSPACE);
    tb_cuda_plan_text(cuda, &call, text, sizeof text);
    assert_string_equal(
        text, "cuda Fake GPU (sm_90), tombola_first 6 x 256 threads in clusters of 2 with 4096 bytes shared, "
              "tombola_second 1 x 32 threads, workspace 1024 bytes");
    tb_cuda_plan_text(cuda, &call, text, 10);
    assert_int_equal(strlen(text), 9);
}

static void refuse(const tombola_call *call, tombola_result expected, const char *argument)
{
    tombola_error error = {0};
    int before = fake.launches;
    assert_int_equal(tb_cuda_run(cuda, call, &error), expected);
    assert_string_equal(error.argument, argument);
    assert_true(error.message[0] != 0);
    assert_int_equal(fake.launches, before);
    assert_int_equal(fake.depth, 0);
    assert_int_equal(tb_cuda_run(cuda, call, NULL), expected);
}

static void refused_workspace(void **state)
{
    (void)state;
    tombola_call call = usual_call();
    call.workspace = NULL;
    refuse(&call, TOMBOLA_ERROR_WORKSPACE, "workspace");
    call = usual_call();
    call.workspace_size = WORKSPACE - 1;
    refuse(&call, TOMBOLA_ERROR_WORKSPACE, "workspace_size");
    call = usual_call();
    call.workspace = memory.workspace + 128;
    refuse(&call, TOMBOLA_ERROR_WORKSPACE, "workspace");
    static _Alignas(256) unsigned char host[WORKSPACE];
    call.workspace = host;
    refuse(&call, TOMBOLA_ERROR_WORKSPACE, "workspace");
    next_plan.workspace_bytes = 0; /* nothing is needed: anything goes */
    call.workspace = NULL;
    assert_int_equal(tb_cuda_run(cuda, &call, NULL), TOMBOLA_OK);
}

/* Each pointer field in turn is host memory, or misaligned. */
static void refused_pointers(void **state)
{
    (void)state;
#define FIELD(name)                                                                                          \
    {                                                                                                        \
#name, offsetof(tombola_call, name)                                                                  \
    }
    static const struct {
        const char *name;
        size_t offset;
    } FIELDS[] = {FIELD(data),         FIELD(row_index), FIELD(row_start),     FIELD(row_length),
                  FIELD(slot_index),   FIELD(seeds),     FIELD(offsets),       FIELD(streams),
                  FIELD(random),       FIELD(tokens),    FIELD(status),        FIELD(rounds),
                  FIELD(logprobs),     FIELD(ranks),     FIELD(raw_logprobs),  FIELD(kept_count),
                  FIELD(kept_ids),     FIELD(kept_mass), FIELD(total_mass),    FIELD(probabilities),
                  FIELD(top_ids),      FIELD(given_ids), FIELD(masked_logits), FIELD(given_raw_logprobs),
                  FIELD(top_logprobs), FIELD(entropy),   FIELD(given_logprobs)};
#undef FIELD
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++) {
        tombola_call call = usual_call();
        call.kept_capacity = call.top_count = call.given_count = 2;
        void *good = memory.numbers, *host = host_words, *odd = (char *)memory.numbers + 1;
        memcpy((char *)&call + FIELDS[i].offset, &good, sizeof good);
        assert_int_equal(tb_cuda_run(cuda, &call, NULL), TOMBOLA_OK);
        fake.launches = 0;
        memcpy((char *)&call + FIELDS[i].offset, &odd, sizeof odd);
        refuse(&call, TOMBOLA_ERROR_INVALID_ARGUMENT, FIELDS[i].name);
        memcpy((char *)&call + FIELDS[i].offset, &host, sizeof host);
        refuse(&call, TOMBOLA_ERROR_INVALID_ARGUMENT, FIELDS[i].name);
    }
    tombola_call call = usual_call();
    steps[0].k_per_slot = host_words;
    refuse(&call, TOMBOLA_ERROR_INVALID_ARGUMENT, "steps[0].k_per_slot");
    call = usual_call();
    steps[1].value_per_slot = (float *)(void *)host_words;
    refuse(&call, TOMBOLA_ERROR_INVALID_ARGUMENT, "steps[1].value_per_slot");
}

/* Memory that is not looked at may be anything; page-locked memory is addressable. */
static void allowed_pointers(void **state)
{
    (void)state;
    tombola_call call = usual_call();
    call.kept_ids = host_words;
    call.kept_capacity = 0;
    steps[0].value_per_slot = (float *)(void *)host_words; /* a top_k has no value */
    assert_int_equal(tb_cuda_run(cuda, &call, NULL), TOMBOLA_OK);
    call = usual_call();
    fake.pinned_start = host_words;
    fake.pinned_bytes = sizeof host_words;
    call.tokens = host_words;
    assert_int_equal(tb_cuda_run(cuda, &call, NULL), TOMBOLA_OK);
    assert_true(tb_cuda_is_device_memory(cuda, memory.logits));
    assert_false(tb_cuda_is_device_memory(cuda, host_words));
    assert_false(tb_cuda_is_device_memory(cuda, steps));

    fake.pinned_bytes = 0;
    assert_int_equal(tb_cuda_run(cuda, &call, NULL), TOMBOLA_ERROR_INVALID_ARGUMENT);
    fake.capturing = true; /* a graph's own memory is unknown to the driver */
    assert_int_equal(tb_cuda_run(cuda, &call, NULL), TOMBOLA_OK);
    fake.capturing = false;

    tb_cuda_destroy(cuda);
    fake.pageable = 1; /* a device that addresses all host memory */
    cuda = tb_cuda_create(NULL);
    fake.launches = 0;
    assert_int_equal(tb_cuda_run(cuda, &call, NULL), TOMBOLA_OK);
}

static void refused_plan(void **state)
{
    (void)state;
    tombola_call call = usual_call();
    next_plan.launch[1].kernel = "tombola_missing";
    refuse(&call, TOMBOLA_ERROR_UNSUPPORTED, "");
    next_plan.launch[1].kernel = "tombola_second";
    next_plan.launch[1].shared_bytes = 232448;
    refuse(&call, TOMBOLA_ERROR_UNSUPPORTED, "");
    next_plan.launch_count = 0;
    call.method = TOMBOLA_DUAL_PIVOT;
    refuse(&call, TOMBOLA_ERROR_UNSUPPORTED, "method");
    size_t size;
    assert_int_equal(tb_cuda_workspace(cuda, &call, &size, NULL), TOMBOLA_ERROR_UNSUPPORTED);
}

static void failing_launch(void **state)
{
    (void)state;
    tombola_call call = usual_call();
    tombola_error error = {0};
    fake.fail_launch = 1;
    fake.launch_result = TB_CU_INVALID_HANDLE;
    assert_int_equal(tb_cuda_run(cuda, &call, &error), TOMBOLA_ERROR_DRIVER);
    assert_non_null(strstr(error.message, "tombola_second"));
    assert_non_null(strstr(error.message, "cuda_stream"));
    assert_int_equal(fake.depth, 0);
    fake.launches = 0;
    fake.fail_launch = 0;
    fake.launch_result = TB_CU_ILLEGAL_ADDRESS;
    assert_int_equal(tb_cuda_run(cuda, &call, &error), TOMBOLA_ERROR_DRIVER);
    assert_non_null(strstr(error.message, "earlier"));
    fake.launch_result = TB_CU_INVALID_CLUSTER_SIZE;
    assert_int_equal(tb_cuda_run(cuda, &call, &error), TOMBOLA_ERROR_DRIVER);
    assert_non_null(strstr(error.message, "TOMBOLA_CUDA_VARIANT=generic"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening), /* first: it needs a process in which the driver is not open yet */
        cmocka_unit_test(creation),
        cmocka_unit_test(refused_creation),
        cmocka_unit_test_setup_teardown(launching, start, finish),
        cmocka_unit_test_setup_teardown(launching_parts, start, finish),
        cmocka_unit_test(code_for_older_devices),
        cmocka_unit_test(clusters_without_code),
        cmocka_unit_test_setup_teardown(launching_lists, start, finish),
        cmocka_unit_test_setup_teardown(forced_variant, start, finish),
        cmocka_unit_test_setup_teardown(plan_text, start, finish),
        cmocka_unit_test_setup_teardown(refused_workspace, start, finish),
        cmocka_unit_test_setup_teardown(refused_pointers, start, finish),
        cmocka_unit_test_setup_teardown(allowed_pointers, start, finish),
        cmocka_unit_test_setup_teardown(refused_plan, start, finish),
        cmocka_unit_test_setup_teardown(failing_launch, start, finish),
    };
    return cmocka_run_group_tests_name("gpu host side", tests, NULL, NULL);
}
