/*
 * The vectors and random calls without cmocka, for machines that do not have it: the reference and the cpu
 * backend's portable instance.
 *     aarch64_test PACKED COUNT
 */
#include <stdio.h>
#include <stdlib.h>

#include "run.h"
#include "sweep.h"
#include "vector.h"

static int64_t passed, failed;

static void count(bool good, const char *name, const char *text)
{
    if (good)
        passed++;
    else if (failed++ < 10)
        printf("%s: %s\n", name, text);
}

static void check_vectors(const vectors *all, const tombola_context *context)
{
    static const layout LAYOUTS[] = {{0}, {.rows = 2, .gap = 3, .shift = 5}, {.in_place = true, .longer = 7}};
    for (int64_t i = 0; i < all->count; i++) {
        for (int j = 0; j < 3; j++) {
            for (int backend = TOMBOLA_BACKEND_CPU; backend <= TOMBOLA_BACKEND_REFERENCE; backend += 2) {
                char text[512];
                bool good = vector_check(&all->list[i], context, backend, &LAYOUTS[j], text, sizeof text);
                count(good, all->list[i].name, text);
            }
        }
    }
}

static void check_random(const tombola_context *context, uint64_t cases)
{
    for (uint64_t i = 0; i < cases; i++) {
        char text[512];
        sweep_case c;
        sweep_result expected, got;
        sweep_make(&c, 64, i, &(sweep_limits){.vocab_size = 20000});
        bool good = sweep_run(&c, context, TOMBOLA_BACKEND_REFERENCE, 1, &expected, text, sizeof text);
        good &= sweep_run(&c, context, TOMBOLA_BACKEND_CPU, 1 + (int32_t)(i % 2), &got, text, sizeof text);
        good = good && sweep_same(&c, &expected, &got, text, sizeof text);
        count(good, c.text, text);
        sweep_result_free(&expected);
        sweep_result_free(&got);
        sweep_free(&c);
    }
}

int main(int argc, char **argv)
{
    vectors all;
    if (argc != 3 || !vectors_load(&all, argv[1])) {
        fprintf(stderr, "usage: aarch64_test PACKED COUNT\n");
        return 2;
    }
    tombola_context *context = open_context(TOMBOLA_ISA_PORTABLE, 2);
    check_vectors(&all, context);
    check_random(context, strtoull(argv[2], NULL, 0));
    tombola_context_destroy(context);
    vectors_free(&all);
    printf("%lld passed, %lld failed\n", (long long)passed, (long long)failed);
    return failed != 0;
}
