/* More than 2^32 elements: inputs and outputs whose last rows lie beyond any 32-bit index. */
#include "suites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "direct.h"
#include "rows.h"

#define ROWS 33000
#define STRIDE 131075 /* ROWS * STRIDE > 2^32; odd, so that rows are unaligned */
#define NARROW 40     /* elements that are read of each row in the strided test */
#define BASE_ROWS 16
#define HOST 1 /* CUmemorytype */
#define DEVICE 2

_Static_assert((int64_t)ROWS *STRIDE > INT64_C(1) << 32, "the test is about 64-bit indices");

static void copy_2d(tb_cu_pointer device, size_t device_pitch, void *host, size_t host_pitch, size_t width,
                    size_t rows, bool up)
{
    tb_cu_copy_2d copy = {.width = width, .height = rows};
    if (up) {
        copy.from_type = HOST, copy.from_host = host, copy.from_pitch = host_pitch;
        copy.to_type = DEVICE, copy.to_device = device, copy.to_pitch = device_pitch;
    } else {
        copy.from_type = DEVICE, copy.from_device = device, copy.from_pitch = device_pitch;
        copy.to_type = HOST, copy.to_host = host, copy.to_pitch = host_pitch;
    }
    CU(cu.cuMemcpy2DAsync(&copy, lane_stream()));
    CU(cu.cuStreamSynchronize(lane_stream()));
}

static uint16_t *make_rows(int64_t rows, int64_t width, uint64_t seed)
{
    rng r = {seed};
    float *x = malloc((size_t)width * 4);
    uint16_t *bits = malloc((size_t)(rows * width) * 2);
    if (!x || !bits) abort();
    for (int64_t row = 0; row < rows; row++) {
        row_fill(TOMBOLA_LOGITS, (int)(row % 3), x, width, &r);
        for (int64_t i = 0; i < width; i++) bits[row * width + i] = (uint16_t)source_bits(TOMBOLA_BF16, x[i]);
    }
    free(x);
    return bits;
}

static bool run(suite *s, const variant *v, tombola_call *call)
{
    tombola_error error = {0};
    call->backend = TOMBOLA_BACKEND_CUDA;
    tombola_result result = tombola_workspace_size(v->context, call, &call->workspace_size, &error);
    if (result == TOMBOLA_ERROR_UNSUPPORTED) {
        suite_unserved(s, error.message);
        return false;
    }
    tb_cu_pointer workspace = device_alloc(call->workspace_size);
    call->workspace = device_pointer(workspace);
    call->cuda_stream = lane_stream();
    if (!result) result = tombola_run(v->context, call, &error);
    CU(cu.cuStreamSynchronize(lane_stream()));
    device_free(workspace);
    suite_check(s, !result, "variant %s: %s", v->name, error.message);
    return !result;
}

static void run_reference(tombola_call *call)
{
    tombola_error error = {0};
    call->backend = TOMBOLA_BACKEND_REFERENCE;
    if (!run_call(variants[0].context, call, &error)) return;
    fprintf(stderr, "large: the reference: %s\n", error.message);
    exit(70);
}

/* Rows far apart, inputs and outputs alike. */
static void check_strided(suite *s, const variant *v, tb_cu_pointer data, const tb_cu_pointer out[3])
{
    static const tombola_step STEPS[] = {{.kind = TOMBOLA_TOP_K, .k = 20},
                                         {.kind = TOMBOLA_TOP_P, .value = 0.9f}};
    size_t n = (size_t)ROWS * NARROW;
    uint16_t *rows = make_rows(ROWS, NARROW, options.seed), *masked = malloc(n * 2),
             *got_masked = malloc(n * 2);
    float *probabilities = malloc(n * 4), *got_probabilities = malloc(n * 4);
    int32_t *ids = malloc(n * 4), *got_ids = malloc(n * 4), *tokens = malloc(ROWS * 4),
            *got_tokens = malloc(ROWS * 4);
    if (!masked || !got_masked || !probabilities || !got_probabilities || !ids || !got_ids || !tokens ||
        !got_tokens)
        abort();
    CU(cu.cuMemsetD16Async(data, 0x7fc0, (size_t)ROWS * STRIDE, lane_stream())); /* NaN where no row is */
    copy_2d(data, STRIDE * 2, rows, NARROW * 2, NARROW * 2, ROWS, true);

    tombola_call call = TOMBOLA_CALL_INIT;
    call.dtype = TOMBOLA_BF16, call.rows = ROWS, call.vocab_size = NARROW, call.seed = 5;
    call.steps = STEPS, call.step_count = 2, call.kept_capacity = NARROW;
    call.data = rows, call.tokens = tokens, call.probabilities = probabilities, call.masked_logits = masked,
    call.kept_ids = ids;
    run_reference(&call);
    tb_cu_pointer device_tokens = device_alloc(ROWS * 4);
    call.data = device_pointer(data), call.row_stride = STRIDE, call.tokens = device_pointer(device_tokens);
    call.probabilities = device_pointer(out[0]), call.probabilities_stride = STRIDE;
    call.masked_logits = device_pointer(out[1]), call.masked_stride = STRIDE;
    call.kept_ids = device_pointer(out[2]), call.kept_capacity = STRIDE;
    if (run(s, v, &call)) {
        device_read(got_tokens, call.tokens, ROWS * 4, lane_stream());
        copy_2d(out[0], STRIDE * 4, got_probabilities, NARROW * 4, NARROW * 4, ROWS, false);
        copy_2d(out[1], STRIDE * 2, got_masked, NARROW * 2, NARROW * 2, ROWS, false);
        copy_2d(out[2], STRIDE * 4, got_ids, NARROW * 4, NARROW * 4, ROWS, false);
        suite_check(s, !memcmp(tokens, got_tokens, ROWS * 4), "strided, variant %s: tokens", v->name);
        suite_check(s, !memcmp(probabilities, got_probabilities, n * 4), "strided, variant %s: probabilities",
                    v->name);
        suite_check(s, !memcmp(masked, got_masked, n * 2), "strided, variant %s: masked logits", v->name);
        suite_check(s, !memcmp(ids, got_ids, n * 4), "strided, variant %s: kept ids", v->name);
        int32_t last = 0;
        device_read(&last, (char *)call.kept_ids + ((size_t)ROWS * STRIDE - 1) * 4, 4, lane_stream());
        suite_check(s, last == -1, "strided, variant %s: the last place of the kept ids is %d", v->name,
                    last);
    }
    device_free(device_tokens);
    free(rows), free(masked), free(got_masked), free(probabilities), free(got_probabilities);
    free(ids), free(got_ids), free(tokens), free(got_tokens);
}

/* Every element of the buffer belongs to a row: copies of a few rows, one after another. */
static void fill_dense(tb_cu_pointer data, const uint16_t *base)
{
    size_t row = STRIDE * 2, have = BASE_ROWS;
    CU(cu.cuMemcpyHtoDAsync(data, base, BASE_ROWS * row, lane_stream()));
    while (have < ROWS) {
        size_t more = have < ROWS - have ? have : ROWS - have;
        CU(cu.cuMemcpyDtoDAsync(data + have * row, data, more * row, lane_stream()));
        have += more;
    }
    CU(cu.cuStreamSynchronize(lane_stream()));
}

static void check_dense(suite *s, const variant *v, tb_cu_pointer data, const uint16_t *base, bool filtered)
{
    static const tombola_step STEPS[] = {{.kind = TOMBOLA_TOP_K_TOP_P, .k = 50, .value = 0.9f}};
    int32_t *slots = malloc(ROWS * 4), *got = malloc(ROWS * 4), tokens[BASE_ROWS];
    uint64_t seeds[BASE_ROWS];
    if (!slots || !got) abort();
    for (int i = 0; i < ROWS; i++) slots[i] = i % BASE_ROWS;
    for (int i = 0; i < BASE_ROWS; i++) seeds[i] = (uint64_t)i * 977;
    tombola_call call = TOMBOLA_CALL_INIT;
    call.dtype = TOMBOLA_BF16, call.rows = BASE_ROWS, call.vocab_size = STRIDE, call.seeds = seeds;
    call.steps = STEPS, call.step_count = filtered, call.data = base, call.tokens = tokens;
    run_reference(&call);
    call.rows = call.source_rows = ROWS, call.slot_count = BASE_ROWS;
    call.data = device_pointer(data), call.data_size = (int64_t)ROWS * STRIDE;
    call.slot_index = device_copy(slots, ROWS * 4);
    call.seeds = device_copy(seeds, sizeof seeds);
    call.tokens = device_pointer(device_alloc(ROWS * 4));
    if (run(s, v, &call)) {
        int64_t bad = -1;
        device_read(got, call.tokens, ROWS * 4, lane_stream());
        for (int64_t i = ROWS - 1; i >= 0; i--)
            if (got[i] != tokens[i % BASE_ROWS]) bad = i;
        suite_check(s, bad < 0, "dense, variant %s%s: the token of row %lld", v->name,
                    filtered ? ", filtered" : "", (long long)bad);
    }
    device_free(device_address(call.slot_index));
    device_free(device_address(call.seeds));
    device_free(device_address(call.tokens));
    free(slots), free(got);
}

/* Ragged rows that start anywhere in the buffer. */
static void check_ragged(suite *s, const variant *v, tb_cu_pointer data, const uint16_t *base)
{
    enum { N = 400, LONGEST = 5000 };
    rng r = {options.seed};
    int64_t starts[N], host_starts[N];
    int32_t lengths[N], tokens[N], got[N];
    uint16_t *gathered = malloc((size_t)N * LONGEST * 2);
    if (!gathered) abort();
    for (int i = 0; i < N; i++) {
        lengths[i] = 1 + (int32_t)rng_below(&r, LONGEST);
        starts[i] = i == N - 1 ? (int64_t)ROWS * STRIDE - lengths[i]
                               : rng_below(&r, (int64_t)ROWS * STRIDE - LONGEST);
        host_starts[i] = (int64_t)i * LONGEST;
        for (int32_t j = 0; j < lengths[i]; j++) {
            int64_t at = (starts[i] + j) % ((int64_t)BASE_ROWS * STRIDE);
            gathered[host_starts[i] + j] = base[at];
        }
    }
    tombola_call call = TOMBOLA_CALL_INIT;
    call.dtype = TOMBOLA_BF16, call.rows = N, call.vocab_size = LONGEST, call.seed = 11;
    call.data = gathered, call.row_start = host_starts, call.row_length = lengths, call.tokens = tokens;
    run_reference(&call);
    call.data = device_pointer(data), call.data_size = (int64_t)ROWS * STRIDE;
    call.row_start = device_copy(starts, sizeof starts);
    call.row_length = device_copy(lengths, sizeof lengths);
    call.tokens = device_pointer(device_alloc(sizeof got));
    if (run(s, v, &call)) {
        device_read(got, call.tokens, sizeof got, lane_stream());
        suite_check(s, !memcmp(got, tokens, sizeof got), "ragged rows beyond 2^32, variant %s: tokens",
                    v->name);
    }
    device_free(device_address(call.row_start));
    device_free(device_address(call.row_length));
    device_free(device_address(call.tokens));
    free(gathered);
}

void suite_large(suite *s)
{
    size_t elements = (size_t)ROWS * STRIDE, needed = elements * (2 + 4 + 2 + 4), available, total;
    CU(cu.cuMemGetInfo(&available, &total));
    if (available < needed + ((size_t)1 << 30)) {
        char reason[120];
        snprintf(reason, sizeof reason, "needs %zu GB of device memory, %zu GB are free", needed >> 30,
                 available >> 30);
        suite_skip(s, reason);
        return;
    }
    tb_cu_pointer data = device_alloc(elements * 2);
    tb_cu_pointer out[3] = {device_alloc(elements * 4), device_alloc(elements * 2),
                            device_alloc(elements * 4)};
    uint16_t *base = make_rows(BASE_ROWS, STRIDE, options.seed + 1);
    for (int v = 0; v < variant_count; v++)
        if (variant_turn(v, (int64_t)options.seed, 8)) check_strided(s, &variants[v], data, out);
    fill_dense(data, base);
    for (int v = 0; v < variant_count; v++) {
        if (!variant_turn(v, (int64_t)options.seed, 8)) continue;
        check_dense(s, &variants[v], data, base, true);
        check_dense(s, &variants[v], data, base, false);
        check_ragged(s, &variants[v], data, base);
    }
    free(base);
    for (int i = 0; i < 3; i++) device_free(out[i]);
    device_free(data);
}
