/*
 * No byte outside the row, the outputs and the workspace is touched: each lies against a page that cannot be
 * read or written, at its end and then at its start.
 */
#include "isa_test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "outputs.h"
#include "rows.h"
#include "source.h"

static tombola_isa isa;
static tombola_context *context;

/* A block of memory between two pages without access. */
typedef struct guarded {
    unsigned char *map;
    size_t bytes; /* of the map */
    unsigned char *data;
} guarded;

static guarded guard(size_t size, size_t alignment, bool at_end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (size + page) / page * page;
    guarded g = {.bytes = inner + 2 * page};
    g.map = mmap(NULL, g.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.map == MAP_FAILED || mprotect(g.map + page, inner, PROT_READ | PROT_WRITE)) abort();
    g.data = g.map + page + (at_end ? (inner - size) / alignment * alignment : 0);
    return g;
}

static void unguard(guarded *g)
{
    munmap(g->map, g->bytes);
}

/* Every output in a block of its own. */
static void run_guarded(tombola_call call, const void *row, size_t row_bytes, bool at_end)
{
    guarded source = guard(row_bytes, call.dtype == TOMBOLA_F32 ? 4 : 2, at_end), block[OUT_COUNT];
    memcpy(source.data, row, row_bytes);
    call.data = source.data;
    for (int i = 0; i < OUT_COUNT; i++) {
        size_t element = output_element(i, &call);
        block[i] = guard(element * (size_t)(call.rows * output_stride(i, &call)), element, at_end);
        output_set(i, &call, block[i].data);
    }
    tombola_error error = {0};
    size_t size = 0;
    if (tombola_workspace_size(context, &call, &size, &error)) fail_msg("%s", error.message);
    guarded workspace = guard(size, 16, at_end);
    call.workspace = workspace.data;
    call.workspace_size = size;
    if (tombola_run(context, &call, &error)) fail_msg("%s", error.message);
    unguard(&workspace);
    for (int i = 0; i < OUT_COUNT; i++) unguard(&block[i]);
    unguard(&source);
}

static void check_length(int64_t n, int32_t dtype, bool at_end, rng *r)
{
    static const int32_t GIVEN[2] = {0, 5};
    tombola_step steps[2] = {{.kind = TOMBOLA_TOP_K, .k = (int32_t)rng_below(r, 20)},
                             {.kind = TOMBOLA_TOP_P, .value = (float)rng_uniform(r) * 1.2f}};
    float *x = malloc((size_t)n * 4);
    unsigned char *row = malloc((size_t)n * 4);
    if (!x || !row) abort();
    size_t element = dtype == TOMBOLA_F32 ? 4 : 2;
    row_fill(TOMBOLA_LOGITS, (int)rng_below(r, row_kinds(TOMBOLA_LOGITS)), x, n, r);
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = source_bits(dtype, x[i]);
        memcpy(row + element * (size_t)i, &bits, element);
    }
    tombola_call call = TOMBOLA_CALL_INIT;
    call.dtype = dtype;
    call.rows = 1;
    call.vocab_size = n;
    call.kind = rng_one_in(r, 3) ? TOMBOLA_PROBABILITIES : TOMBOLA_LOGITS;
    call.steps = steps;
    call.step_count = (int32_t)rng_below(r, 3);
    call.method = (int32_t)rng_below(r, 3);
    call.seed = rng_next(r);
    call.kept_capacity = rng_below(r, n + 2);
    call.top_count = (int32_t)rng_below(r, 9);
    call.given_ids = GIVEN;
    call.given_count = 2;
    call.backend = TOMBOLA_BACKEND_CPU;
    call.threads = 1;
    run_guarded(call, row, element * (size_t)n, at_end);
    free(row);
    free(x);
}

static void check_all(bool at_end)
{
    SKIP_WITHOUT(context, isa);
    rng r = {at_end};
    for (int32_t dtype = TOMBOLA_F32; dtype <= TOMBOLA_BF16; dtype++) {
        for (int64_t n = 1; n <= 530; n++) check_length(n, dtype, at_end, &r);
        for (int64_t n = 531; n < 40000; n += n / 20 + 1) check_length(n, dtype, at_end, &r);
        check_length(128256, dtype, at_end, &r);
    }
}

static void after(void **state)
{
    (void)state;
    check_all(true);
}

static void before(void **state)
{
    (void)state;
    check_all(false);
}

int main(int argc, char **argv)
{
    isa = ISA_ARGUMENT(argc, argv);
    context = open_context(isa, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(after), cmocka_unit_test(before)};
    int failed = cmocka_run_group_tests_name("guard", tests, NULL, NULL);
    tombola_context_destroy(context);
    return failed;
}
