/*
 * Contexts, the choice of instruction set, the plan, names and versions.
 */
#include "isa_test.h"

#include <stdlib.h>
#include <string.h>

static tombola_result create(const tombola_options *options, tombola_context **context, tombola_error *error)
{
    *context = (tombola_context *)error; /* must become NULL on failure */
    tombola_result result = tombola_context_create(options, context, error);
    assert_int_equal(error->result, result);
    assert_true((result == TOMBOLA_OK) == (*context != NULL));
    return result;
}

static tombola_options make_options(int32_t threads, int32_t isa, int32_t cuda)
{
    return (tombola_options){
        .struct_size = sizeof(tombola_options), .threads = threads, .isa = isa, .cuda = cuda};
}

static void expect(tombola_options options, tombola_result result, const char *argument)
{
    tombola_context *context;
    tombola_error error = {0};
    assert_int_equal(create(&options, &context, &error), result);
    assert_string_equal(error.argument, argument);
    tombola_context_destroy(context);
    assert_int_equal(tombola_context_create(&options, &context, NULL), result);
    tombola_context_destroy(context);
}

static void options(void **state)
{
    (void)state;
    expect(make_options(1, 0, -1), TOMBOLA_OK, "");
    expect(make_options(0, 0, -1), TOMBOLA_OK, "");
    expect(make_options(-1, 0, -1), TOMBOLA_ERROR_INVALID_ARGUMENT, "threads");
    expect(make_options(1 << 20, 0, -1), TOMBOLA_ERROR_INVALID_ARGUMENT, "threads");
    expect(make_options(1, -1, -1), TOMBOLA_ERROR_INVALID_ARGUMENT, "isa");
    expect(make_options(1, 4, -1), TOMBOLA_ERROR_INVALID_ARGUMENT, "isa");
    expect(make_options(1, 0, 2), TOMBOLA_ERROR_INVALID_ARGUMENT, "cuda");
    expect(make_options(1, 0, -2), TOMBOLA_ERROR_INVALID_ARGUMENT, "cuda");
    for (size_t size = 0; size < 100; size++) {
        tombola_options sized = make_options(1, 0, -1);
        sized.struct_size = size;
        if (size != sizeof sized) expect(sized, TOMBOLA_ERROR_STRUCT_SIZE, "struct_size");
    }
    tombola_error error;
    assert_int_equal(tombola_context_create(NULL, NULL, &error), TOMBOLA_ERROR_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "context");
    tombola_context *context;
    assert_int_equal(create(NULL, &context, &error), TOMBOLA_OK);
    tombola_context_destroy(context);
    tombola_context_destroy(NULL);
}

static tombola_info info_of(const tombola_context *context)
{
    tombola_info info = {.struct_size = sizeof info};
    assert_int_equal(tombola_context_info(context, &info), TOMBOLA_OK);
    return info;
}

static void info(void **state)
{
    (void)state;
    tombola_context *context = open_context(TOMBOLA_ISA_PORTABLE, 3);
    tombola_info info = info_of(context);
    assert_int_equal(info.isa, TOMBOLA_ISA_PORTABLE);
    assert_true(info.isa_best >= TOMBOLA_ISA_PORTABLE && info.isa_best <= TOMBOLA_ISA_AVX512);
    assert_int_equal(info.threads, 3);
    assert_int_equal(info.cuda_available, 0); /* made without */
    assert_string_equal(info.cuda_device, "");
    assert_true(info.cuda_reason[0] != 0);
    info.struct_size = 3;
    assert_int_equal(tombola_context_info(context, &info), TOMBOLA_ERROR_STRUCT_SIZE);
    assert_int_equal(tombola_context_info(context, NULL), TOMBOLA_ERROR_INVALID_ARGUMENT);
    assert_int_equal(tombola_context_info(NULL, &info), TOMBOLA_ERROR_INVALID_ARGUMENT);
    tombola_context_destroy(context);
}

/* With cuda = 0 the reason, or the device, is there; with cuda = 1 it is an error where it cannot run. */
static void cuda(void **state)
{
    (void)state;
    tombola_context *context;
    tombola_error error = {0};
    tombola_options options = make_options(1, 0, 0);
    assert_int_equal(create(&options, &context, &error), TOMBOLA_OK);
    tombola_info info = info_of(context);
    assert_true(info.cuda_available ? info.cuda_device[0] != 0 && !info.cuda_reason[0]
                                    : !info.cuda_device[0] && info.cuda_reason[0] != 0);
    tombola_context_destroy(context);
    options.cuda = 1;
    tombola_result result = create(&options, &context, &error);
    if (info.cuda_available)
        assert_int_equal(result, TOMBOLA_OK);
    else
        assert_true(result == TOMBOLA_ERROR_NO_BACKEND || result == TOMBOLA_ERROR_DRIVER);
    tombola_context_destroy(context);
}

/* The environment variable overrides the automatic choice and nothing else. */
static void environment(void **state)
{
    (void)state;
    tombola_context *context;
    tombola_error error = {0};
    tombola_options automatic = make_options(1, 0, -1);
    tombola_options portable = make_options(1, TOMBOLA_ISA_PORTABLE, -1);
    const char *before = getenv("TOMBOLA_ISA");
    char *saved = before ? strdup(before) : NULL;
    for (int isa = TOMBOLA_ISA_PORTABLE; isa <= TOMBOLA_ISA_AVX512; isa++) {
        setenv("TOMBOLA_ISA", tombola_isa_name((tombola_isa)isa), 1);
        tombola_context *forced = open_context((tombola_isa)isa, 1);
        tombola_result result = create(&automatic, &context, &error);
        if (forced) {
            assert_int_equal(result, TOMBOLA_OK);
            assert_int_equal(info_of(context).isa, isa);
            assert_int_equal(info_of(forced).isa, isa);
        } else {
            assert_int_equal(result, TOMBOLA_ERROR_NO_ISA);
            assert_non_null(strstr(error.message, "TOMBOLA_ISA"));
            print_message("this machine lacks %s: forcing it is an error, as it must be\n",
                          tombola_isa_name((tombola_isa)isa));
        }
        tombola_context_destroy(context);
        tombola_context_destroy(forced);
        assert_int_equal(create(&portable, &context, &error), TOMBOLA_OK);
        assert_int_equal(info_of(context).isa, TOMBOLA_ISA_PORTABLE);
        tombola_context_destroy(context);
    }
    static const char *const AUTOMATIC[] = {"", "auto"};
    for (int i = 0; i < 2; i++) {
        setenv("TOMBOLA_ISA", AUTOMATIC[i], 1);
        assert_int_equal(create(&automatic, &context, &error), TOMBOLA_OK);
        tombola_info info = info_of(context);
        assert_int_equal(info.isa, info.isa_best);
        tombola_context_destroy(context);
    }
    static const char *const WRONG[] = {"AVX2", "sse", "portable ", "1", "unknown"};
    for (int i = 0; i < 5; i++) {
        setenv("TOMBOLA_ISA", WRONG[i], 1);
        assert_int_equal(create(&automatic, &context, &error), TOMBOLA_ERROR_INVALID_ARGUMENT);
        assert_string_equal(error.argument, "TOMBOLA_ISA");
        assert_non_null(strstr(error.message, WRONG[i]));
    }
    if (saved)
        setenv("TOMBOLA_ISA", saved, 1);
    else
        unsetenv("TOMBOLA_ISA");
    free(saved);
}

/* One line, always terminated, cut at any capacity, the same every time. */
static void plan(void **state)
{
    (void)state;
    tombola_context *context = open_context(TOMBOLA_ISA_PORTABLE, 4);
    float row[4] = {0};
    tombola_call call = TOMBOLA_CALL_INIT;
    char whole[256], part[256];
    call.data = row;
    call.rows = 1;
    call.vocab_size = 4;
    for (int backend = TOMBOLA_BACKEND_CPU; backend <= TOMBOLA_BACKEND_REFERENCE; backend += 2) {
        call.backend = backend;
        assert_int_equal(tombola_plan(context, &call, whole, sizeof whole, NULL), TOMBOLA_OK);
        assert_null(strchr(whole, '\n'));
        assert_non_null(strstr(whole, backend == TOMBOLA_BACKEND_CPU ? "portable" : "reference"));
        assert_non_null(strstr(whole, "1 thread,"));
        for (size_t capacity = 1; capacity < strlen(whole) + 3; capacity++) {
            memset(part, 'x', sizeof part);
            assert_int_equal(tombola_plan(context, &call, part, capacity, NULL), TOMBOLA_OK);
            assert_true(memchr(part, 0, capacity) != NULL && part[capacity] == 'x');
            assert_int_equal(strncmp(whole, part, capacity - 1), 0);
        }
    }
    call.kind = 9;
    assert_int_equal(tombola_plan(context, &call, part, sizeof part, NULL), TOMBOLA_ERROR_INVALID_ARGUMENT);
    assert_string_equal(part, "");
    tombola_context_destroy(context);
}

static void names(void **state)
{
    (void)state;
    static const tombola_result RESULTS[] = {TOMBOLA_OK,
                                             TOMBOLA_ERROR_INVALID_ARGUMENT,
                                             TOMBOLA_ERROR_STRUCT_SIZE,
                                             TOMBOLA_ERROR_REFUSED,
                                             TOMBOLA_ERROR_UNSUPPORTED,
                                             TOMBOLA_ERROR_WORKSPACE,
                                             TOMBOLA_ERROR_OUT_OF_MEMORY,
                                             TOMBOLA_ERROR_NO_BACKEND,
                                             TOMBOLA_ERROR_NO_ISA,
                                             TOMBOLA_ERROR_DRIVER};
    static const int NUMBERS[] = {0, 10, 11, 20, 21, 30, 40, 50, 51, 60}; /* stable */
    const int count = sizeof RESULTS / sizeof *RESULTS;
    const char *unknown = tombola_result_string((tombola_result)999);
    for (int i = 0; i < count; i++) {
        const char *text = tombola_result_string(RESULTS[i]);
        assert_int_equal(RESULTS[i], NUMBERS[i]);
        assert_true(text && text[0] && strcmp(text, unknown));
        for (int j = 0; j < i; j++) assert_string_not_equal(text, tombola_result_string(RESULTS[j]));
    }
    assert_non_null(tombola_result_string((tombola_result)-1));
    assert_string_equal(tombola_isa_name(TOMBOLA_ISA_AUTO), "auto");
    assert_string_equal(tombola_isa_name(TOMBOLA_ISA_PORTABLE), "portable");
    assert_string_equal(tombola_isa_name(TOMBOLA_ISA_AVX2), "avx2");
    assert_string_equal(tombola_isa_name(TOMBOLA_ISA_AVX512), "avx512");
    assert_string_equal(tombola_isa_name((tombola_isa)77), "unknown");
    assert_string_equal(tombola_isa_name((tombola_isa)-1), "unknown");
    assert_int_equal(tombola_version(),
                     TOMBOLA_VERSION_MAJOR * 10000 + TOMBOLA_VERSION_MINOR * 100 + TOMBOLA_VERSION_PATCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(options), cmocka_unit_test(info),
                                       cmocka_unit_test(cuda),    cmocka_unit_test(environment),
                                       cmocka_unit_test(plan),    cmocka_unit_test(names)};
    return cmocka_run_group_tests_name("context", tests, NULL, NULL);
}
