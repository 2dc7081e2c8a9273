#include "vector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "source.h"

/* ---- reading the packed file ---- */

typedef struct reader {
    const unsigned char *at, *end;
    bool good;
} reader;

/* The elements of the next array. */
static const void *next_array(reader *r, size_t element, int64_t *count)
{
    uint64_t n = 0;
    const unsigned char *data = r->at + 8;
    if (r->good && r->end - r->at >= 8)
        memcpy(&n, r->at, 8);
    else
        r->good = false;
    if (!r->good || n > (uint64_t)(r->end - data) / element) {
        r->good = false;
        *count = 0;
        return NULL;
    }
    r->at = data + (n * element + 7) / 8 * 8;
    *count = (int64_t)n;
    return data;
}

static void read_steps(reader *r, vector *v)
{
    int64_t words;
    const uint32_t *word = next_array(r, 4, &words);
    v->call.step_count = (int32_t)(words / 3);
    if (words > 3 * TOMBOLA_MAX_STEPS) r->good = false;
    for (int64_t i = 0; r->good && i < v->call.step_count; i++) {
        tombola_step *step = &v->steps[i];
        step->kind = (int32_t)word[3 * i];
        step->k = (int32_t)word[3 * i + 1];
        memcpy(&step->value, &word[3 * i + 2], 4);
    }
}

static void read_vector(reader *r, vector *v)
{
    int64_t n;
    tombola_call *call = &v->call;
    *call = (tombola_call)TOMBOLA_CALL_INIT;
    v->name = next_array(r, 1, &n);
    const uint64_t *number = next_array(r, 8, &n);
    if (!r->good || n != 11) {
        r->good = false;
        return;
    }
    call->kind = (int32_t)number[0];
    call->dtype = (int32_t)number[1];
    call->ties = (int32_t)number[2];
    call->method = (int32_t)number[3];
    call->draws = (int32_t)number[4];
    call->seed = number[5];
    call->offset = number[6];
    v->stream = (uint32_t)number[7];
    call->kept_capacity = (int64_t)number[8];
    call->top_count = (int32_t)number[9];
    call->top_raw = (int32_t)number[10];
    v->row = next_array(r, call->dtype == TOMBOLA_F32 ? 4 : 2, &call->vocab_size);
    read_steps(r, v);
    call->random = next_array(r, 8, &n);
    if (n == 0) call->random = NULL;
    call->given_ids = next_array(r, 4, &n);
    call->given_count = (int32_t)n;
    for (int i = 0; i < OUT_COUNT; i++) {
        v->expect[i] = next_array(r, output_element(i, call), &v->expect_count[i]);
        if (v->expect_count[i] != output_width(i, call)) r->good = false;
    }
}

static void *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    void *data = NULL;
    long end = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
    if (end > 0 && (data = malloc((size_t)end))) {
        rewind(file);
        *size = fread(data, 1, (size_t)end, file);
    }
    fclose(file);
    return data;
}

bool vectors_load(vectors *v, const char *path)
{
    size_t size = 0;
    *v = (vectors){.file = read_file(path, &size)};
    if (!v->file || size < 16 || memcmp(v->file, "tombolav", 8)) {
        fprintf(stderr, "%s: not a file of packed vectors\n", path);
        return false;
    }
    reader r = {(unsigned char *)v->file + 16, (unsigned char *)v->file + size, true};
    memcpy(&v->count, (char *)v->file + 8, 8);
    v->list = calloc((size_t)v->count, sizeof *v->list);
    for (int64_t i = 0; r.good && i < v->count; i++) read_vector(&r, &v->list[i]);
    if (r.good && r.at == r.end) return true;
    fprintf(stderr, "%s: malformed\n", path);
    return false;
}

void vectors_free(vectors *v)
{
    free(v->list);
    free(v->file);
}

/* ---- checking ---- */

/* The arrays of one value per row that a call with several equal rows needs. */
typedef struct repeated {
    uint32_t *streams;
    uint64_t *random;
    int32_t *given;
    int64_t *starts;
    int32_t *lengths;
} repeated;

static repeated repeat(const vector *v, int64_t rows, int64_t stride, tombola_call *call)
{
    size_t n = (size_t)rows, draws = (size_t)call->draws, given = (size_t)call->given_count;
    repeated r = {malloc(n * 4), malloc(n * draws * 8), malloc(n * given * 4 + 1), malloc(n * 8),
                  malloc(n * 4)};
    if (!r.streams || !r.random || !r.given || !r.starts || !r.lengths) abort();
    for (size_t i = 0; i < n; i++) {
        r.streams[i] = v->stream;
        if (v->call.random) memcpy(r.random + i * draws, v->call.random, draws * 8);
        if (given) memcpy(r.given + i * given, v->call.given_ids, given * 4);
        r.starts[i] = (int64_t)i * stride;
        r.lengths[i] = (int32_t)v->call.vocab_size;
    }
    call->streams = r.streams;
    if (v->call.random) call->random = r.random;
    if (given) call->given_ids = r.given;
    return r;
}

static void repeated_free(repeated *r)
{
    free(r->streams);
    free(r->random);
    free(r->given);
    free(r->starts);
    free(r->lengths);
}

/* What the outputs must be: the vector's arrays at each row's place. */
static void fill_expected(outputs *out, const vector *v, const tombola_call *call)
{
    for (int i = 0; i < OUT_COUNT; i++) {
        if (!(out->mask >> i & 1)) continue;
        size_t element = output_element(i, call), bytes = element * (size_t)v->expect_count[i];
        for (int64_t r = 0; r < call->rows && bytes; r++)
            memcpy(out->memory + out->place[i] + element * (size_t)(r * output_stride(i, call)), v->expect[i],
                   bytes);
    }
}

bool vector_check(const vector *v, const tombola_context *context, tombola_backend backend, const layout *how,
                  char *text, size_t capacity)
{
    tombola_call call = v->call;
    int64_t length = call.vocab_size, stride = length + how->gap;
    unsigned mask = how->mask ? how->mask : OUT_ALL;
    if (how->in_place) mask &= ~(1u << OUT_MASKED);
    call.rows = how->rows ? how->rows : 1;
    call.vocab_size = length + how->longer;
    call.row_stride = stride > call.vocab_size ? stride : call.vocab_size;
    call.probabilities_stride = how->gap ? call.vocab_size + how->gap : 0;
    call.masked_stride = how->gap ? call.vocab_size + how->gap + 1 : 0;
    call.steps = v->steps;
    call.backend = backend;
    call.threads = how->threads ? how->threads : 1;

    source rows, after;
    source_make(&rows, call.dtype, call.rows, stride, how->shift);
    source_make(&after, call.dtype, call.rows, stride, how->shift);
    for (int64_t r = 0; r < call.rows; r++) {
        source_put(&rows, r, v->row, length);
        source_put(&after, r, how->in_place ? v->expect[OUT_MASKED] : v->row, length);
    }
    call.data = rows.data;
    call.data_size = stride * (call.rows - 1) + length;
    repeated arrays = repeat(v, call.rows, stride, &call);
    if (how->longer) {
        call.row_start = arrays.starts;
        call.row_length = arrays.lengths;
    }
    outputs expected, got;
    outputs_make(&expected, &call, mask);
    outputs_make(&got, &call, mask);
    fill_expected(&expected, v, &call);
    outputs_bind(&got, &call);
    if (how->in_place) call.masked_logits = rows.data;

    tombola_error error = {0};
    tombola_result result = run_call(context, &call, &error);
    bool same = result == TOMBOLA_OK;
    if (!same)
        snprintf(text, capacity, "%s: %s", tombola_result_string(result), error.message);
    else
        same = outputs_same(&expected, &got, &call, text, capacity) &&
               elements_same(how->in_place ? "masked_logits in place" : "the source", after.memory,
                             rows.memory, rows.bytes, rows.element, 0, text, capacity);
    outputs_free(&expected);
    outputs_free(&got);
    source_free(&rows);
    source_free(&after);
    repeated_free(&arrays);
    return same;
}
