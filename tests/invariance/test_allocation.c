/*
 * Allocation: the n-th one fails, for every n, and tombola_context_create says so and leaks nothing; a call
 * allocates nothing at all. Counts every allocation of the process, the C library's own included.
 */
#include "isa_test.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sweep.h"

/* ---- glibc's allocator, watched ---- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

static atomic_llong asked, live; /* allocations, and those not yet freed, while watching */
static atomic_llong fail_at;     /* this one fails; 0: none */
static atomic_bool watching;

static bool refused(void)
{
    if (!watching || atomic_fetch_add(&asked, 1) + 1 != fail_at) return false;
    errno = ENOMEM;
    return true;
}

static void *counted(void *block)
{
    if (block && watching) live++;
    return block;
}

void *malloc(size_t size)
{
    return refused() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
    return refused() ? NULL : counted(__libc_calloc(count, size));
}

void *realloc(void *block, size_t size)
{
    if (refused()) return NULL;
    return block ? __libc_realloc(block, size) : counted(__libc_realloc(block, size));
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return refused() ? NULL : counted(__libc_memalign(alignment, size));
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    *block = refused() ? NULL : counted(__libc_memalign(alignment, size));
    return *block ? 0 : ENOMEM;
}

void free(void *block)
{
    if (block && watching) live--;
    __libc_free(block);
}

static void watch(long long fail)
{
    asked = live = 0;
    fail_at = fail;
    watching = true;
}

/* ---- tests ---- */

static tombola_isa isa;

static void contexts(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads += 3) {
        long long n = 1;
        for (bool made = false; !made; n++) {
            tombola_options options = {.struct_size = sizeof options, .threads = threads, .cuda = -1};
            tombola_context *context = (tombola_context *)&options;
            tombola_error error = {0};
            watch(n);
            tombola_result result = tombola_context_create(&options, &context, &error);
            if (result == TOMBOLA_OK) tombola_context_destroy(context);
            watching = false;
            made = asked < n; /* it needed fewer, so nothing failed */
            if (made) {
                assert_int_equal(result, TOMBOLA_OK);
            } else if (result != TOMBOLA_OK) { /* an allocation of the C library's may fail without harm */
                assert_int_equal(result, TOMBOLA_ERROR_OUT_OF_MEMORY);
                assert_int_equal(error.result, result);
                assert_true(error.message[0] != 0);
                assert_null(context);
            }
            if (threads == 1) assert_int_equal(live, 0); /* the C library keeps thread stacks for later */
            assert_true(n < 1000);
        }
        print_message("%d threads: %lld allocations\n", threads, n - 2);
    }
    /* the same number of contexts again and again: nothing piles up */
    tombola_context_destroy(open_context(TOMBOLA_ISA_PORTABLE, 4));
    watch(0);
    for (int i = 0; i < 20; i++) tombola_context_destroy(open_context(TOMBOLA_ISA_PORTABLE, 4));
    watching = false;
    assert_true(live <= 0);
}

static void check_calls(tombola_backend backend)
{
    tombola_context *context = open_context(isa, 2);
    SKIP_WITHOUT(context, isa);
    for (uint64_t i = 0; i < 400; i++) {
        sweep_case c;
        outputs out;
        size_t size = 0;
        char text[256];
        tombola_error error;
        sweep_make(&c, 5, i, &(sweep_limits){.vocab_size = 5000});
        outputs_make(&out, &c.call, c.mask);
        outputs_bind(&out, &c.call);
        c.call.backend = backend;
        c.call.threads = 1 + (int32_t)(i % 2);
        watch(1); /* the first one would fail */
        tombola_result sized = tombola_workspace_size(context, &c.call, &size, &error);
        tombola_result planned = tombola_plan(context, &c.call, text, sizeof text, &error);
        watching = false;
        assert_int_equal(sized, TOMBOLA_OK);
        assert_int_equal(planned, TOMBOLA_OK);
        c.call.workspace = malloc(size);
        c.call.workspace_size = size;
        watch(1);
        tombola_result result = tombola_run(context, &c.call, &error);
        watching = false;
        long long count = asked;
        free(c.call.workspace);
        outputs_free(&out);
        sweep_free(&c);
        assert_int_equal(result, TOMBOLA_OK);
        if (count) fail_msg("a call allocates: %s", c.text);
    }
    tombola_context_destroy(context);
}

static void cpu_calls(void **state)
{
    (void)state;
    check_calls(TOMBOLA_BACKEND_CPU);
}

static void reference_calls(void **state)
{
    (void)state;
    check_calls(TOMBOLA_BACKEND_REFERENCE);
}

int main(int argc, char **argv)
{
    isa = ISA_ARGUMENT(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(contexts), cmocka_unit_test(cpu_calls),
                                       cmocka_unit_test(reference_calls)};
    return cmocka_run_group_tests_name("allocation", tests, NULL, NULL);
}
