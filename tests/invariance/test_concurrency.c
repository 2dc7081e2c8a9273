/*
 * One context, many callers at once: each gets what it would get alone. Run under the thread sanitizer too.
 */
#include "isa_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "batch.h"

#define CALLERS 6
#define REPEATS 30

static tombola_isa isa;
static tombola_context *context;
static atomic_int wrong;

typedef struct caller {
    pthread_t thread;
    const batch *work;
    const outputs *expected;
    int threads;
} caller;

static void *call_again_and_again(void *argument)
{
    caller *self = argument;
    tombola_call call = self->work->call;
    tombola_error error;
    outputs out;
    char text[512];
    call.threads = self->threads;
    outputs_make(&out, &call, OUT_ALL);
    outputs_bind(&out, &call);
    for (int i = 0; i < REPEATS; i++) {
        outputs_refill(&out);
        if (run_call(context, &call, &error) || !outputs_same(self->expected, &out, &call, text, sizeof text))
            wrong++;
    }
    outputs_free(&out);
    return NULL;
}

static void callers(void **state)
{
    (void)state;
    SKIP_WITHOUT(context, isa);
    batch work[CALLERS];
    outputs expected[CALLERS];
    caller caller[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        batch_make(&work[i], 50 + 400 * i, i % 3);
        batch_run(context, work[i].call, &expected[i]);
        caller[i].work = &work[i];
        caller[i].expected = &expected[i];
        caller[i].threads = i % 4; /* 0: as many as the context has */
    }
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&caller[i].thread, NULL, call_again_and_again, &caller[i]), 0);
    for (int i = 0; i < CALLERS; i++) pthread_join(caller[i].thread, NULL);
    for (int i = 0; i < CALLERS; i++) {
        outputs_free(&expected[i]);
        batch_free(&work[i]);
    }
    assert_int_equal(wrong, 0);
}

/* Contexts come and go while others work. */
static void *make_and_destroy(void *unused)
{
    for (int i = 0; i < 20; i++) {
        tombola_context *own = open_context(isa, 1 + i % 4);
        batch work;
        outputs out;
        batch_make(&work, 30, TOMBOLA_EXACT);
        work.call.threads = 0;
        batch_run(own, work.call, &out);
        outputs_free(&out);
        batch_free(&work);
        tombola_context_destroy(own);
    }
    return unused;
}

static void contexts(void **state)
{
    (void)state;
    SKIP_WITHOUT(context, isa);
    pthread_t thread[3];
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&thread[i], NULL, make_and_destroy, NULL), 0);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
    isa = ISA_ARGUMENT(argc, argv);
    context = open_context(isa, 4);
    const struct CMUnitTest tests[] = {cmocka_unit_test(callers), cmocka_unit_test(contexts)};
    int failed = cmocka_run_group_tests_name("concurrency", tests, NULL, NULL);
    tombola_context_destroy(context);
    return failed;
}
